/* SPDX-License-Identifier: Apache-2.0 */
/* One rule per field, however it came: by its name in a map, by its place in an
 * array, or by its name in the map that SGLang's arrays have at place 7, where
 * vLLM's have the name of the LoRA. */
#include "engine_event_field.h"

#include <stddef.h>

enum engine_shape {
    SHAPE_TYPE,
    SHAPE_UNSIGNED, /* of 32 bits */
    SHAPE_INTEGER,  /* of 64 bits and either sign */
    SHAPE_TEXT,
    SHAPE_HASH,
    SHAPE_HASHES,
    SHAPE_TOKENS,
    SHAPE_ANY /* of the kinds named, walked */
};

#define INTEGERS (1u << TOKEN_UINT | 1u << TOKEN_NEGATIVE)
#define HASHES (INTEGERS | 1u << TOKEN_BIN)
#define TEXT (1u << TOKEN_STR)
#define LIST (1u << TOKEN_ARRAY)
#define NIL (1u << TOKEN_NIL)

struct engine_rule {
    const char *name;
    uint8_t shape;
    uint16_t kinds;
    uint16_t offset; /* in struct mc_engine_event; 0: not handed on */
};

#define AT(member) offsetof(struct mc_engine_event, member)

static const struct engine_rule rules[ENGINE_FIELD_COUNT] = {
    [ENGINE_TYPE] = {"type", SHAPE_TYPE, TEXT, 0},
    [ENGINE_BLOCK_HASHES] = {"block_hashes", SHAPE_HASHES, LIST, 0},
    [ENGINE_PARENT] = {"parent_block_hash", SHAPE_HASH, HASHES | NIL, 0},
    [ENGINE_TOKEN_IDS] = {"token_ids", SHAPE_TOKENS, LIST | NIL, 0},
    [ENGINE_BLOCK_SIZE] = {"block_size", SHAPE_UNSIGNED, INTEGERS | NIL,
                           AT(block_size)},
    [ENGINE_LORA_ID] = {"lora_id", SHAPE_INTEGER, INTEGERS | NIL, 0},
    [ENGINE_MEDIUM] = {"medium", SHAPE_TEXT, TEXT | NIL, AT(medium)},
    [ENGINE_LORA_NAME] = {"lora_name", SHAPE_TEXT, TEXT | NIL, AT(lora_name)},
    [ENGINE_EXTRA_KEYS] = {"extra_keys", SHAPE_ANY, LIST | NIL, 0},
    [ENGINE_GROUP_IDX] = {"group_idx", SHAPE_UNSIGNED, INTEGERS | NIL,
                          AT(group_idx)},
    [ENGINE_SPEC_KIND] = {"kv_cache_spec_kind", SHAPE_TEXT, TEXT | NIL,
                          AT(spec_kind)},
    [ENGINE_SLIDING_WINDOW] = {"kv_cache_spec_sliding_window", SHAPE_UNSIGNED,
                               INTEGERS | NIL, AT(sliding_window)},
    [ENGINE_LOCALITY] = {"locality", SHAPE_TEXT, TEXT | NIL, AT(locality)},
    [ENGINE_SESSION_ID] = {"session_id", SHAPE_TEXT, TEXT | NIL,
                           AT(session_id)},
    [ENGINE_CACHE_SALT] = {"cache_salt", SHAPE_TEXT, TEXT | NIL,
                           AT(cache_salt)},
};

/* A hash of bytes is a digest. */
#define DIGEST_LEN_MAX 64

static enum mc_event_type find_type(const struct token *token)
{
    return event_token_is(token, "BlockStored")        ? MC_EVENT_STORED
           : event_token_is(token, "BlockRemoved")     ? MC_EVENT_REMOVED
           : event_token_is(token, "AllBlocksCleared") ? MC_EVENT_CLEARED
                                                       : MC_EVENT_NONE;
}

static enum engine_field find_field(const struct token *name)
{
    struct mc_view text = mc_view_make(name->body, name->value);
    for (unsigned i = 0; i < ENGINE_FIELD_COUNT; i++) {
        if (mc_view_equal(text, mc_view_str(rules[i].name))) {
            return (enum engine_field)i;
        }
    }
    return ENGINE_FIELD_COUNT;
}

/* ---- values ------------------------------------------------------------ */

uint64_t engine_hash_of(const struct token *token)
{
    if (token->kind != TOKEN_BIN) {
        return token->value;
    }
    uint64_t hash = 0;
    size_t from = token->value > 8 ? token->value - 8 : 0;
    for (size_t i = from; i < token->value; i++) {
        hash = hash << 8 | token->body[i];
    }
    return hash;
}

/* The token at hand is of a kind that a hash may have. */
static void judge_hash(struct event_walk *walk, const struct token *token)
{
    if (token->kind == TOKEN_BIN &&
        (token->value == 0 || token->value > DIGEST_LEN_MAX)) {
        event_walk_error(walk, MC_EVENT_ERROR_HASH_SIZE, walk->at);
    }
}

/* The header of an array has been read; its elements can follow. */
static bool enter_list(struct event_walk *walk, const struct token *array)
{
    if (!token_can_follow(array, walk->end)) {
        return event_walk_truncated(walk);
    }
    walk->at = array->body;
    return true;
}

static bool read_hashes(struct event_walk *walk, struct engine_draft *draft,
                        const struct token *array, unsigned depth)
{
    if (array->value > MC_EVENT_BLOCKS_MAX) {
        event_walk_error(walk, MC_EVENT_ERROR_HASH_COUNT, walk->at);
        return event_walk_skip(walk, depth);
    }
    if (!enter_list(walk, array)) {
        return false;
    }
    for (uint64_t i = 0; i < array->value; i++) {
        struct token token;
        if (!event_walk_token(walk, &token)) {
            return false;
        }
        if ((HASHES >> token.kind & 1) == 0) {
            event_walk_error(walk, MC_EVENT_ERROR_FIELD_TYPE, walk->at);
            if (!event_walk_skip(walk, depth + 1)) {
                return false;
            }
            continue;
        }
        judge_hash(walk, &token);
        walk->at = token_end(&token);
    }
    draft->event->hash_count = (uint32_t)array->value;
    draft->event->hashes =
        mc_view_make(array->body, (size_t)(walk->at - array->body));
    return true;
}

static void judge_token(struct event_walk *walk, const struct token *token)
{
    if (token->kind == TOKEN_NEGATIVE) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_RANGE, walk->at);
    } else if (token->kind != TOKEN_UINT) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_TYPE, walk->at);
    }
}

/* Two tokens; the header of the pair has been read. */
static bool read_pair(struct event_walk *walk, const struct token *pair,
                      unsigned depth)
{
    if (pair->kind != TOKEN_ARRAY || pair->value != 2) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_TYPE, walk->at);
        return event_walk_skip(walk, depth);
    }
    if (!enter_list(walk, pair)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        struct token token;
        if (!event_walk_token(walk, &token)) {
            return false;
        }
        judge_token(walk, &token);
        if (!event_walk_skip(walk, depth + 1)) {
            return false;
        }
    }
    return true;
}

/* All tokens, or all pairs: the first one says which. */
static bool read_tokens(struct event_walk *walk, struct engine_draft *draft,
                        const struct token *array, unsigned depth)
{
    bool has_pairs = false;
    if (!enter_list(walk, array)) {
        return false;
    }
    for (uint64_t i = 0; i < array->value; i++) {
        struct token token;
        if (!event_walk_token(walk, &token)) {
            return false;
        }
        if (i == 0) {
            has_pairs = token.kind == TOKEN_ARRAY;
        }
        if (!has_pairs && token.kind == TOKEN_UINT) {
            walk->at = token.body;
            continue;
        }
        if (!has_pairs) {
            judge_token(walk, &token);
        }
        if (has_pairs ? !read_pair(walk, &token, depth + 1)
                      : !event_walk_skip(walk, depth + 1)) {
            return false;
        }
    }
    draft->event->token_count = (uint32_t)array->value;
    draft->event->has_pairs = has_pairs;
    draft->has_empty_tokens = array->value == 0;
    return true;
}

static void read_text(struct event_walk *walk, struct engine_draft *draft,
                      enum engine_field field, const struct token *token)
{
    if (field == ENGINE_SESSION_ID && token->value > MC_SESSION_ID_LEN_MAX) {
        event_walk_error(walk, MC_EVENT_ERROR_SESSION_ID_TOO_LONG, walk->at);
        return;
    }
    if (!event_text_is_valid(token->body, token->value)) {
        event_walk_error(walk, MC_EVENT_ERROR_UTF8, walk->at);
        return;
    }
    struct mc_view view = mc_view_make(token->body, token->value);
    memcpy((char *)draft->event + rules[field].offset, &view, sizeof view);
}

static void read_type(struct event_walk *walk, struct engine_draft *draft,
                      const struct token *token)
{
    draft->event->type = find_type(token);
    if (!event_text_is_valid(token->body, token->value)) {
        event_walk_error(walk, MC_EVENT_ERROR_UTF8, walk->at);
    } else if (draft->event->type == MC_EVENT_NONE) {
        event_walk_error(walk, MC_EVENT_ERROR_EVENT_TYPE_UNKNOWN, walk->at);
    }
}

static void read_unsigned(struct event_walk *walk, struct engine_draft *draft,
                          enum engine_field field, const struct token *token)
{
    if (token->kind == TOKEN_NEGATIVE || token->value > UINT32_MAX) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_RANGE, walk->at);
        return;
    }
    uint32_t number = (uint32_t)token->value;
    memcpy((char *)draft->event + rules[field].offset, &number, sizeof number);
    draft->event->has_group |= field == ENGINE_GROUP_IDX;
}

static void read_lora_id(struct event_walk *walk, struct engine_draft *draft,
                         const struct token *token)
{
    if (token->kind == TOKEN_UINT && token->value > INT64_MAX) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_RANGE, walk->at);
        return;
    }
    draft->event->lora_id = (int64_t)token->value;
    draft->event->has_lora_id = true;
}

static void read_parent(struct event_walk *walk, struct engine_draft *draft,
                        const struct token *token)
{
    judge_hash(walk, token);
    draft->event->parent = engine_hash_of(token);
    draft->event->has_parent = true;
}

/* A value that has no elements. */
static void read_scalar(struct event_walk *walk, struct engine_draft *draft,
                        enum engine_field field, const struct token *token)
{
    switch ((enum engine_shape)rules[field].shape) {
    case SHAPE_TYPE:
        read_type(walk, draft, token);
        break;
    case SHAPE_UNSIGNED:
        read_unsigned(walk, draft, field, token);
        break;
    case SHAPE_INTEGER:
        read_lora_id(walk, draft, token);
        break;
    case SHAPE_TEXT:
        read_text(walk, draft, field, token);
        break;
    case SHAPE_HASH:
        read_parent(walk, draft, token);
        break;
    default:
        break;
    }
}

/* A value whose containers are nested `depth` deep. */
static bool read_value(struct event_walk *walk, struct engine_draft *draft,
                       enum engine_field field, unsigned depth)
{
    const struct engine_rule *rule = &rules[field];
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if ((rule->kinds >> token.kind & 1) == 0) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_TYPE, walk->at);
        return event_walk_skip(walk, depth);
    }
    if (token.kind == TOKEN_ARRAY) {
        return rule->shape == SHAPE_HASHES
                   ? read_hashes(walk, draft, &token, depth)
               : rule->shape == SHAPE_TOKENS
                   ? read_tokens(walk, draft, &token, depth)
                   : event_walk_skip(walk, depth);
    }
    if (token.kind != TOKEN_NIL) {
        read_scalar(walk, draft, field, &token);
    }
    walk->at = token_end(&token);
    return true;
}

/* ---- names ------------------------------------------------------------- */

static bool is_metadata(enum engine_field field)
{
    return field == ENGINE_SESSION_ID || field == ENGINE_CACHE_SALT;
}

/* A name and a value of a map `depth - 1` deep. */
static bool read_pair_of(struct event_walk *walk, struct engine_draft *draft,
                         bool is_event, unsigned depth)
{
    struct token name;
    if (!event_walk_token(walk, &name)) {
        return false;
    }
    if (name.kind != TOKEN_STR) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_NAME, walk->at);
        return event_walk_skip(walk, depth) && event_walk_skip(walk, depth);
    }
    enum engine_field field = find_field(&name);
    if (field == ENGINE_FIELD_COUNT || (!is_event && !is_metadata(field))) {
        return event_walk_unknown(walk, &name, depth);
    }
    if (engine_draft_has(draft, field)) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_DUPLICATE, walk->at);
        walk->at = token_end(&name);
        return event_walk_skip(walk, depth);
    }
    draft->seen |= 1u << field;
    walk->at = token_end(&name);
    return read_value(walk, draft, field, depth);
}

bool engine_field_read(struct event_walk *walk, struct engine_draft *draft)
{
    return read_pair_of(walk, draft, true, EVENT_FIELD_DEPTH);
}

/* ---- places ------------------------------------------------------------ */

/* The map of an array's place 7, whose header has been read. */
static bool read_metadata(struct event_walk *walk, struct engine_draft *draft,
                          const struct token *map)
{
    if (!enter_list(walk, map)) {
        return false;
    }
    for (uint64_t pairs = map->value; pairs > 0; pairs--) {
        if (!read_pair_of(walk, draft, false, EVENT_FIELD_DEPTH + 1)) {
            return false;
        }
    }
    return true;
}

static enum engine_field find_place(enum mc_event_type type, uint64_t place)
{
    static const uint8_t stored[] = {
        ENGINE_TYPE,      ENGINE_BLOCK_HASHES, ENGINE_PARENT,
        ENGINE_TOKEN_IDS, ENGINE_BLOCK_SIZE,   ENGINE_LORA_ID,
        ENGINE_MEDIUM,    ENGINE_LORA_NAME,    ENGINE_EXTRA_KEYS,
        ENGINE_GROUP_IDX, ENGINE_SPEC_KIND,    ENGINE_SLIDING_WINDOW,
        ENGINE_LOCALITY,  ENGINE_FIELD_COUNT,  ENGINE_SESSION_ID,
    };
    static const uint8_t removed[] = {
        ENGINE_TYPE,      ENGINE_BLOCK_HASHES, ENGINE_MEDIUM,
        ENGINE_GROUP_IDX, ENGINE_LOCALITY,
    };
    if (place == 0) {
        return ENGINE_TYPE;
    }
    if (type == MC_EVENT_STORED && place < sizeof stored) {
        return (enum engine_field)stored[place];
    }
    if (type == MC_EVENT_REMOVED && place < sizeof removed) {
        return (enum engine_field)removed[place];
    }
    return ENGINE_FIELD_COUNT;
}

bool engine_field_read_at(struct event_walk *walk, struct engine_draft *draft,
                          uint64_t place)
{
    enum engine_field field = find_place(draft->event->type, place);
    if (field == ENGINE_FIELD_COUNT) {
        return event_walk_skip(walk, EVENT_FIELD_DEPTH);
    }
    if (field == ENGINE_LORA_NAME) {
        struct token token;
        if (!event_walk_token(walk, &token)) {
            return false;
        }
        if (token.kind == TOKEN_MAP) {
            return read_metadata(walk, draft, &token);
        }
    }
    if (engine_draft_has(draft, field)) {
        event_walk_error(walk, MC_EVENT_ERROR_FIELD_DUPLICATE, walk->at);
        return event_walk_skip(walk, EVENT_FIELD_DEPTH);
    }
    draft->seen |= 1u << field;
    return read_value(walk, draft, field, EVENT_FIELD_DEPTH);
}
