/* SPDX-License-Identifier: Apache-2.0 */
/* Names are found by a hash that has no collision among them, then compared as
 * words: a name costs one compare, whatever its place in the event. */
#include "event_field.h"

#include <stddef.h>

enum field_shape {
    SHAPE_UNSIGNED, /* up to the limit */
    SHAPE_INTEGER,  /* 64 bits of either sign */
    SHAPE_TEXT,     /* up to so many bytes */
    SHAPE_HASHES,   /* array of integers; limit 0: none negative */
    SHAPE_ANY       /* of the kinds named, walked */
};

#define INTEGERS (1u << TOKEN_UINT | 1u << TOKEN_NEGATIVE)
#define TEXT (1u << TOKEN_STR)
#define LIST (1u << TOKEN_ARRAY)
#define NIL (1u << TOKEN_NIL)

struct field_rule {
    const char *name;
    uint8_t len;
    uint8_t shape;
    uint16_t kinds;
    uint16_t too_long;    /* the error */
    uint16_t view_offset; /* in struct mc_event; 0: not handed on */
    uint64_t limit;
};

#define AT(member) offsetof(struct mc_event, member)
#define NUMBER(name, kinds, limit)                                             \
    {                                                                          \
        name, sizeof name - 1, SHAPE_UNSIGNED, INTEGERS | (kinds), 0, 0, limit \
    }
#define STRING(name, kinds, offset)                                   \
    {                                                                 \
        name, sizeof name - 1, SHAPE_TEXT, TEXT | (kinds), 0, offset, \
            UINT64_MAX                                                \
    }
#define BOUNDED(name, offset, limit, error)                                 \
    {                                                                       \
        name, sizeof name - 1, SHAPE_TEXT, TEXT | NIL, error, offset, limit \
    }
#define OTHER(name, shape, kinds, limit)                 \
    {                                                    \
        name, sizeof name - 1, shape, kinds, 0, 0, limit \
    }

static const struct field_rule rules[FIELD_COUNT] = {
    [FIELD_EVENT_ID] = NUMBER("event_id", 0, UINT64_MAX),
    [FIELD_TIMESTAMP] = NUMBER("timestamp", NIL, UINT64_MAX),
    [FIELD_EVENT_TYPE] = STRING("event_type", 0, 0),
    [FIELD_TYPE] = STRING("type", 0, 0),
    [FIELD_TENANT_ID] = STRING("tenant_id", 0, AT(tenant_id)),
    [FIELD_BACKEND_ID] = STRING("backend_id", 0, AT(backend_id)),
    [FIELD_MEDIUM] = STRING("medium", NIL, AT(medium)),
    [FIELD_OBJECT_KEY] = BOUNDED("object_key", AT(object_key), MC_KEY_LEN_MAX,
                                 MC_EVENT_ERROR_OBJECT_KEY_TOO_LONG),
    [FIELD_SESSION_ID] =
        BOUNDED("session_id", AT(session_id), MC_SESSION_ID_LEN_MAX,
                MC_EVENT_ERROR_SESSION_ID_TOO_LONG),
    [FIELD_GROUP_ID] = STRING("group_id", NIL, AT(group_id)),
    [FIELD_MODEL_NAME] = STRING("model_name", NIL, 0),
    [FIELD_ADDITIONAL_SALT] = STRING("additional_salt", NIL, 0),
    [FIELD_LORA_NAME] = STRING("lora_name", NIL, 0),
    [FIELD_BLOCK_SIZE] = NUMBER("block_size", NIL, UINT32_MAX),
    [FIELD_DP_RANK] = NUMBER("dp_rank", NIL, UINT32_MAX),
    [FIELD_BASE_BLOCK_IDX] = NUMBER("base_block_idx", NIL, UINT64_MAX),
    [FIELD_SEQ_HASHES] = OTHER("seq_hashes", SHAPE_HASHES, LIST, 0),
    [FIELD_BLOCK_HASHES] = OTHER("block_hashes", SHAPE_HASHES, LIST, 1),
    [FIELD_PARENT_HASH] =
        OTHER("parent_hash", SHAPE_INTEGER, INTEGERS | NIL, 0),
    [FIELD_PARENT_BLOCK_HASH] =
        OTHER("parent_block_hash", SHAPE_INTEGER, INTEGERS | NIL, 0),
    [FIELD_TOKEN_IDS] = OTHER("token_ids", SHAPE_ANY, LIST | NIL, 0),
    [FIELD_EPOCH] = NUMBER("epoch", NIL, UINT64_MAX),
};

/* One field + 1 per slot. The names have 4 to 17 bytes. */
#define NAME_LEN_MIN 4
#define NAME_LEN_MAX 17
#define NAME_SLOT(first, last, len) (((first) + 19u * (last) + 5u * (len)) & 63)
#define SLOT(first, last, len, field) \
    [NAME_SLOT(first, last, len)] = (field) + 1

static const uint8_t slots[64] = {
    SLOT('e', 'd', 8, FIELD_EVENT_ID),
    SLOT('t', 'p', 9, FIELD_TIMESTAMP),
    SLOT('e', 'e', 10, FIELD_EVENT_TYPE),
    SLOT('t', 'e', 4, FIELD_TYPE),
    SLOT('t', 'd', 9, FIELD_TENANT_ID),
    SLOT('b', 'd', 10, FIELD_BACKEND_ID),
    SLOT('m', 'm', 6, FIELD_MEDIUM),
    SLOT('o', 'y', 10, FIELD_OBJECT_KEY),
    SLOT('s', 'd', 10, FIELD_SESSION_ID),
    SLOT('g', 'd', 8, FIELD_GROUP_ID),
    SLOT('m', 'e', 10, FIELD_MODEL_NAME),
    SLOT('a', 't', 15, FIELD_ADDITIONAL_SALT),
    SLOT('l', 'e', 9, FIELD_LORA_NAME),
    SLOT('b', 'e', 10, FIELD_BLOCK_SIZE),
    SLOT('d', 'k', 7, FIELD_DP_RANK),
    SLOT('b', 'x', 14, FIELD_BASE_BLOCK_IDX),
    SLOT('s', 's', 10, FIELD_SEQ_HASHES),
    SLOT('b', 's', 12, FIELD_BLOCK_HASHES),
    SLOT('p', 'h', 11, FIELD_PARENT_HASH),
    SLOT('p', 'h', 17, FIELD_PARENT_BLOCK_HASH),
    SLOT('t', 's', 9, FIELD_TOKEN_IDS),
    SLOT('e', 'h', 5, FIELD_EPOCH),
};

static uint64_t load64(const void *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint32_t load32(const void *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* For NAME_LEN_MIN to NAME_LEN_MAX bytes: words that overlap. */
static bool is_same_name(const uint8_t *a, const char *b, size_t len)
{
    if (len < 8) {
        return load32(a) == load32(b) &&
               load32(a + len - 4) == load32(b + len - 4);
    }
    if (load64(a) != load64(b) || load64(a + len - 8) != load64(b + len - 8)) {
        return false;
    }
    return len <= 16 || load64(a + 8) == load64(b + 8);
}

enum event_field event_field_find(const uint8_t *name, size_t len)
{
    if (len < NAME_LEN_MIN || len > NAME_LEN_MAX) {
        return FIELD_COUNT;
    }
    unsigned slot = slots[NAME_SLOT(name[0], name[len - 1], len)];
    if (slot == 0 || rules[slot - 1].len != len ||
        !is_same_name(name, rules[slot - 1].name, len)) {
        return FIELD_COUNT;
    }
    return (enum event_field)(slot - 1);
}

static enum mc_event_type find_type(const struct token *token)
{
    return event_token_is(token, "stored")    ? MC_EVENT_STORED
           : event_token_is(token, "removed") ? MC_EVENT_REMOVED
           : event_token_is(token, "cleared") ? MC_EVENT_CLEARED
                                              : MC_EVENT_NONE;
}

static enum mc_event_type find_twin(const struct token *token)
{
    return event_token_is(token, "BlockStored")        ? MC_EVENT_STORED
           : event_token_is(token, "BlockRemoved")     ? MC_EVENT_REMOVED
           : event_token_is(token, "AllBlocksCleared") ? MC_EVENT_CLEARED
                                                       : MC_EVENT_NONE;
}

static void keep_number(struct event_draft *draft, enum event_field field,
                        uint64_t value)
{
    if (field == FIELD_EVENT_ID) {
        draft->event->event_id = value;
    } else if (field == FIELD_EPOCH) {
        draft->event->epoch = value;
    }
}

static void keep_text(struct event_walk *walk, struct event_draft *draft,
                      enum event_field field, const struct token *token)
{
    if (rules[field].view_offset != 0) {
        struct mc_view view = mc_view_make(token->body, token->value);
        memcpy((char *)draft->event + rules[field].view_offset, &view,
               sizeof view);
    } else if (field == FIELD_EVENT_TYPE) {
        draft->event->type = find_type(token);
        if (draft->event->type == MC_EVENT_NONE) {
            event_walk_error(walk, MC_EVENT_ERROR_EVENT_TYPE_UNKNOWN, walk->at);
        }
    } else if (field == FIELD_TYPE) {
        draft->twin = find_twin(token);
    }
}

static void read_number(struct event_walk *walk, struct event_draft *draft,
                        enum event_field field, const struct token *token)
{
    if (token->kind == TOKEN_NEGATIVE || token->value > rules[field].limit) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_RANGE, walk->at);
        return;
    }
    keep_number(draft, field, token->value);
}

static void read_text(struct event_walk *walk, struct event_draft *draft,
                      enum event_field field, const struct token *token)
{
    const struct field_rule *rule = &rules[field];
    if (token->value > rule->limit) {
        event_walk_error(walk, (enum mc_event_error)rule->too_long, walk->at);
    } else if (!event_text_is_valid(token->body, token->value)) {
        event_walk_error(walk, MC_EVENT_ERROR_UTF8, walk->at);
    } else {
        keep_text(walk, draft, field, token);
    }
}

/* The header of the array has been read, its elements have not. */
static bool read_hashes(struct event_walk *walk, enum event_field field,
                        const struct token *array)
{
    if (!token_can_follow(array, walk->end)) {
        return event_walk_truncated(walk);
    }
    walk->at = array->body;
    for (uint64_t i = 0; i < array->value; i++) {
        struct token token;
        if (!event_walk_token(walk, &token)) {
            return false;
        }
        if (token.kind == TOKEN_UINT) {
            walk->at = token.body;
            continue;
        }
        if (token.kind != TOKEN_NEGATIVE) {
            event_walk_error(walk, MC_EVENT_ERROR_FIELD_TYPE, walk->at);
        } else if (rules[field].limit == 0) {
            event_walk_error(walk, MC_EVENT_ERROR_FIELD_RANGE, walk->at);
        }
        if (!event_walk_skip(walk, EVENT_FIELD_DEPTH + 1)) {
            return false;
        }
    }
    return true;
}

static void mark_value(struct event_draft *draft, enum event_field field,
                       const uint8_t *begin, const uint8_t *end)
{
    if (EVENT_VARYING_FIELDS >> field & 1) {
        struct event_mark *mark = &draft->marks[draft->mark_count++];
        mark->field = field;
        mark->begin = begin;
        mark->end = end;
    }
}

static bool read_value(struct event_walk *walk, struct event_draft *draft,
                       enum event_field field)
{
    const struct field_rule *rule = &rules[field];
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if ((rule->kinds >> token.kind & 1) == 0) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_TYPE, walk->at);
        return event_walk_skip(walk, EVENT_FIELD_DEPTH);
    }
    mark_value(draft, field, walk->at, token_end(&token));
    if (token.kind == TOKEN_NIL) {
        /* Reads as absent, but the name has been seen. */
    } else if (rule->shape == SHAPE_UNSIGNED) {
        read_number(walk, draft, field, &token);
    } else if (rule->shape == SHAPE_TEXT) {
        read_text(walk, draft, field, &token);
    } else if (rule->shape == SHAPE_HASHES) {
        return read_hashes(walk, field, &token);
    } else if (rule->shape == SHAPE_ANY) {
        return event_walk_skip(walk, EVENT_FIELD_DEPTH);
    }
    walk->at = token_end(&token);
    return true;
}

bool event_field_read(struct event_walk *walk, struct event_draft *draft)
{
    struct token name;
    if (!event_walk_token(walk, &name)) {
        return false;
    }
    if (name.kind != TOKEN_STR) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_NAME, walk->at);
        return event_walk_skip(walk, EVENT_FIELD_DEPTH) &&
               event_walk_skip(walk, EVENT_FIELD_DEPTH);
    }
    enum event_field field = event_field_find(name.body, name.value);
    if (field == FIELD_COUNT) {
        return event_walk_unknown(walk, &name, EVENT_FIELD_DEPTH);
    }
    if (draft->seen >> field & 1) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_DUPLICATE, walk->at);
        walk->at = token_end(&name);
        return event_walk_skip(walk, EVENT_FIELD_DEPTH);
    }
    draft->seen |= 1u << field;
    walk->at = token_end(&name);
    return read_value(walk, draft, field);
}
