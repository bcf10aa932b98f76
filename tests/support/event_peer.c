/* SPDX-License-Identifier: Apache-2.0 */
#include "event_peer.h"

#include <msgpack.h>

#include "mci_utf8.h"

enum kind { NUMBER, TEXT, HASHES, SIGNED_HASHES, INTEGER, TOKENS };

struct rule {
    const char *name;
    enum kind kind;
    bool may_be_nil;
    uint64_t limit; /* of a number; bytes of a text */
};

static const struct rule rules[] = {
    {"event_id", NUMBER, false, UINT64_MAX},
    {"timestamp", NUMBER, true, UINT64_MAX},
    {"event_type", TEXT, false, UINT64_MAX},
    {"type", TEXT, false, UINT64_MAX},
    {"model_name", TEXT, true, UINT64_MAX},
    {"block_size", NUMBER, true, UINT32_MAX},
    {"additional_salt", TEXT, true, UINT64_MAX},
    {"lora_name", TEXT, true, UINT64_MAX},
    {"tenant_id", TEXT, false, UINT64_MAX},
    {"backend_id", TEXT, false, UINT64_MAX},
    {"medium", TEXT, true, UINT64_MAX},
    {"dp_rank", NUMBER, true, UINT32_MAX},
    {"group_id", TEXT, true, UINT64_MAX},
    {"session_id", TEXT, true, MC_SESSION_ID_LEN_MAX},
    {"object_key", TEXT, true, MC_KEY_LEN_MAX},
    {"seq_hashes", HASHES, false, 0},
    {"block_hashes", SIGNED_HASHES, false, 0},
    {"base_block_idx", NUMBER, true, UINT64_MAX},
    {"parent_hash", INTEGER, true, 0},
    {"token_ids", TOKENS, true, 0},
    {"parent_block_hash", INTEGER, true, 0},
    {"epoch", NUMBER, true, UINT64_MAX},
};
#define RULES (sizeof rules / sizeof rules[0])

/* ---- the message -------------------------------------------------------- */

/* Bytes of a header behind its first byte, and the count or length it claims;
 * msgpack-c would make room for as many elements as an array claims before it
 * has seen one. */
static bool is_claim_lying(const uint8_t *at, const uint8_t *end)
{
    unsigned width = *at == 0xdc || *at == 0xde ? 2 : 4;
    uint64_t claim = 0;
    for (unsigned i = 1; i <= width && at + i < end; i++) {
        claim = claim << 8 | at[i];
    }
    return claim > (uint64_t)(end - at);
}

static size_t size_of(const uint8_t *at, const uint8_t *end)
{
    static const uint8_t fixed[32] = {
        1, 1, 1, 1, 2, 3, 5, 3,  4,  6, 5, 9, 2, 3, 5, 9, /* c0 to cf */
        2, 3, 5, 9, 3, 4, 6, 10, 18, 2, 3, 5, 3, 5, 3, 5  /* d0 to df */
    };
    if (*at < 0xa0 || *at >= 0xe0) {
        return 1;
    }
    if (*at < 0xc0) {
        return 1 + (*at & 0x1fu);
    }
    size_t size = fixed[*at - 0xc0];
    unsigned width = 0;
    switch (*at) {
    case 0xc4:
    case 0xc7:
    case 0xd9:
        width = 1;
        break;
    case 0xc5:
    case 0xc8:
    case 0xda:
        width = 2;
        break;
    case 0xc6:
    case 0xc9:
    case 0xdb:
        width = 4;
        break;
    default:
        return size;
    }
    for (unsigned i = 0; i < width && at + 1 + i < end; i++) {
        size += (size_t)at[1 + i] << 8 * (width - 1 - i);
    }
    return size;
}

static bool is_lying(struct mc_view payload)
{
    const uint8_t *at = payload.data;
    const uint8_t *end = at + payload.len;
    while (at < end) {
        if (*at >= 0xdc && *at <= 0xdf && is_claim_lying(at, end)) {
            return true;
        }
        size_t size = size_of(at, end);
        if (size > (size_t)(end - at)) {
            return false; /* msgpack-c will find that it is cut */
        }
        at += size;
    }
    return false;
}

/* Containers in containers, itself included. */
static unsigned depth_of(const msgpack_object *object)
{
    unsigned deepest = 0;
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        for (uint32_t i = 0; i < object->via.array.size; i++) {
            unsigned depth = depth_of(&object->via.array.ptr[i]);
            deepest = depth > deepest ? depth : deepest;
        }
        return deepest + 1;
    }
    if (object->type == MSGPACK_OBJECT_MAP) {
        for (uint32_t i = 0; i < object->via.map.size; i++) {
            unsigned key = depth_of(&object->via.map.ptr[i].key);
            unsigned val = depth_of(&object->via.map.ptr[i].val);
            deepest = key > deepest ? key : deepest;
            deepest = val > deepest ? val : deepest;
        }
        return deepest + 1;
    }
    return 0;
}

static bool is_number(const msgpack_object *object, uint64_t limit)
{
    return object->type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
           object->via.u64 <= limit;
}

static bool is_message(const msgpack_object *root, size_t capacity)
{
    if (root->type != MSGPACK_OBJECT_ARRAY || root->via.array.size != 3) {
        return false;
    }
    const msgpack_object *of = root->via.array.ptr;
    return is_number(&of[0], INT64_MAX) && of[1].type == MSGPACK_OBJECT_ARRAY &&
           of[1].via.array.size <= capacity && is_number(&of[2], UINT32_MAX) &&
           depth_of(root) <= MC_EVENT_DEPTH_MAX;
}

/* ---- an event ------------------------------------------------------------ */

static struct mc_view text_of(const msgpack_object *object)
{
    return object && object->type == MSGPACK_OBJECT_STR
               ? mc_view_make(object->via.str.size ? object->via.str.ptr : "",
                              object->via.str.size)
               : mc_view_make(NULL, 0);
}

static bool are_strs_utf8(const msgpack_object *object)
{
    if (object->type == MSGPACK_OBJECT_STR) {
        return mci_utf8_valid(object->via.str.ptr, object->via.str.size);
    }
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        for (uint32_t i = 0; i < object->via.array.size; i++) {
            if (!are_strs_utf8(&object->via.array.ptr[i])) {
                return false;
            }
        }
    }
    if (object->type == MSGPACK_OBJECT_MAP) {
        for (uint32_t i = 0; i < object->via.map.size; i++) {
            if (!are_strs_utf8(&object->via.map.ptr[i].key) ||
                !are_strs_utf8(&object->via.map.ptr[i].val)) {
                return false;
            }
        }
    }
    return true;
}

static bool are_integers(const msgpack_object *list, bool may_be_negative)
{
    if (list->type != MSGPACK_OBJECT_ARRAY) {
        return false;
    }
    for (uint32_t i = 0; i < list->via.array.size; i++) {
        msgpack_object_type type = list->via.array.ptr[i].type;
        if (type != MSGPACK_OBJECT_POSITIVE_INTEGER &&
            !(may_be_negative && type == MSGPACK_OBJECT_NEGATIVE_INTEGER)) {
            return false;
        }
    }
    return true;
}

static bool is_value(const struct rule *rule, const msgpack_object *value)
{
    if (value->type == MSGPACK_OBJECT_NIL) {
        return rule->may_be_nil;
    }
    switch (rule->kind) {
    case NUMBER:
        return is_number(value, rule->limit);
    case TEXT:
        return value->type == MSGPACK_OBJECT_STR &&
               value->via.str.size <= rule->limit;
    case HASHES:
        return are_integers(value, false);
    case SIGNED_HASHES:
        return are_integers(value, true);
    case INTEGER:
        return value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
               value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
    default:
        return value->type == MSGPACK_OBJECT_ARRAY;
    }
}

static bool is_named(const msgpack_object *key, const char *name)
{
    return mc_view_equal(text_of(key), mc_view_str(name));
}

/* NULL: there is none. */
static const msgpack_object *find(const msgpack_object *event, const char *name,
                                  unsigned *count_out)
{
    const msgpack_object *found = NULL;
    for (uint32_t i = 0; i < event->via.map.size; i++) {
        if (is_named(&event->via.map.ptr[i].key, name)) {
            (*count_out)++;
            found = &event->via.map.ptr[i].val;
        }
    }
    return found;
}

static const msgpack_object *get(const msgpack_object *event, const char *name)
{
    unsigned count = 0;
    return find(event, name, &count);
}

static bool are_fields_good(const msgpack_object *event)
{
    for (uint32_t i = 0; i < event->via.map.size; i++) {
        if (event->via.map.ptr[i].key.type != MSGPACK_OBJECT_STR) {
            return false;
        }
    }
    for (size_t i = 0; i < RULES; i++) {
        unsigned count = 0;
        const msgpack_object *value = find(event, rules[i].name, &count);
        if (count > 1 || (value && !is_value(&rules[i], value))) {
            return false;
        }
    }
    return are_strs_utf8(event);
}

static enum mc_event_type type_of(const msgpack_object *event, const char *name,
                                  const char *const *words)
{
    const msgpack_object *value = get(event, name);
    for (int i = 0; value && i < 3; i++) {
        if (is_named(value, words[i])) {
            return (enum mc_event_type)(MC_EVENT_STORED + i);
        }
    }
    return MC_EVENT_NONE;
}

static bool is_event(const msgpack_object *event)
{
    static const char *const types[] = {"stored", "removed", "cleared"};
    static const char *const twins[] = {"BlockStored", "BlockRemoved",
                                        "AllBlocksCleared"};
    if (event->type != MSGPACK_OBJECT_MAP || !are_fields_good(event)) {
        return false;
    }
    enum mc_event_type type = type_of(event, "event_type", types);
    if (type == MC_EVENT_NONE || !get(event, "event_id") ||
        !get(event, "tenant_id") ||
        text_of(get(event, "backend_id")).len == 0 ||
        (get(event, "type") && type_of(event, "type", twins) != type)) {
        return false;
    }
    return type == MC_EVENT_CLEARED ||
           (text_of(get(event, "medium")).data &&
            text_of(get(event, "object_key")).len > 0);
}

/* ---- both ---------------------------------------------------------------- */

static uint64_t number_of(const msgpack_object *object)
{
    return object && object->type == MSGPACK_OBJECT_POSITIVE_INTEGER
               ? object->via.u64
               : 0;
}

static bool is_same_text(const msgpack_object *event, const char *name,
                         struct mc_view ours)
{
    struct mc_view theirs = text_of(get(event, name));
    return mc_view_equal(ours, theirs) &&
           (ours.len == 0 || ours.data == theirs.data);
}

static const char *compare_event(const msgpack_object *event,
                                 const struct mc_event *ours)
{
    struct mc_view session = text_of(get(event, "session_id"));
    if (!is_named(get(event, "event_type"), mc_event_type_name(ours->type)) ||
        number_of(get(event, "event_id")) != ours->event_id ||
        number_of(get(event, "epoch")) != ours->epoch) {
        return "type, id or epoch of an event";
    }
    if (!is_same_text(event, "tenant_id", ours->tenant_id) ||
        !is_same_text(event, "backend_id", ours->backend_id) ||
        !is_same_text(event, "medium", ours->medium) ||
        !is_same_text(event, "group_id", ours->group_id) ||
        !is_same_text(event, "object_key", ours->object_key)) {
        return "a text of an event";
    }
    return session.len == 0 ? ours->session_id.data ? "an empty session" : NULL
           : is_same_text(event, "session_id", ours->session_id)
               ? NULL
               : "the session of an event";
}

static const char *compare_batch(const msgpack_object *root,
                                 const struct mc_event_batch *batch,
                                 const struct mc_event *events,
                                 size_t *taken_out)
{
    const msgpack_object *of = root->via.array.ptr;
    if (of[0].via.u64 != batch->timestamp_ms ||
        of[2].via.u64 != batch->dp_rank ||
        of[1].via.array.size != batch->count) {
        return "timestamp, rank or count";
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        const msgpack_object *event = &of[1].via.array.ptr[i];
        bool is_taken = events[i].error == MC_EVENT_OK;
        if (is_event(event) != is_taken) {
            return is_taken ? "an event that is none" : "an event that is one";
        }
        const char *fault = is_taken ? compare_event(event, &events[i]) : NULL;
        if (fault) {
            return fault;
        }
        *taken_out += is_taken;
    }
    return NULL;
}

const char *event_peer_compare(struct mc_view payload, struct mc_event *events,
                               size_t capacity, size_t *taken_out)
{
    static const uint8_t seq[8] = {0};
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq, 8),
                                payload};
    struct mc_event_batch batch;
    enum mc_event_error error =
        mc_event_read(frames, 3, events, capacity, &batch, NULL);
    *taken_out = 0;
    if (payload.len == 0 || is_lying(payload)) {
        return error == MC_EVENT_OK ? "a count that is not there" : NULL;
    }
    msgpack_unpacked result;
    size_t used = 0;
    msgpack_unpacked_init(&result);
    bool is_whole = msgpack_unpack_next(&result, payload.data, payload.len,
                                        &used) == MSGPACK_UNPACK_SUCCESS &&
                    used == payload.len;
    bool is_taken = is_whole && is_message(&result.data, capacity);
    const char *fault =
        is_taken != (error == MC_EVENT_OK)
            ? (is_taken ? "a message that is one" : "a message that is none")
        : is_taken ? compare_batch(&result.data, &batch, events, taken_out)
                   : NULL;
    msgpack_unpacked_destroy(&result);
    return fault;
}
