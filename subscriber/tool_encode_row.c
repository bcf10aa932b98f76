/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tool_encode.h"

#define STORED 1u
#define REMOVED 2u
#define CLEARED 4u
#define KEYED (STORED | REMOVED)
#define EACH (STORED | REMOVED | CLEARED)

enum field_kind {
    NUMBER64, /* of the event */
    NUMBER32, /* constant */
    TEXT,     /* of the event */
    CONSTANT, /* text, the same in all events */
    TWIN,     /* derived from event_type */
    NIL,      /* always nil */
    TOKENS,   /* nil or [], constant */
    HASHES    /* derived from the key */
};

struct field {
    const char *name;
    enum field_kind kind;
    unsigned on;      /* event types that have it in profile plain */
    unsigned on_full; /* ... in profile full */
    size_t at;        /* in the record (NUMBER64, TEXT) or opts (the others) */
    size_t max;       /* bytes of a text */
};

#define RECORD(name) offsetof(struct mc_event_record, name)
#define OPTS(name) offsetof(struct mc_event_writer_opts, name)

static const struct field fields[] = {
    {"event_id", NUMBER64, EACH, EACH, RECORD(event_id), 0},
    {"timestamp", NUMBER64, EACH, EACH, RECORD(timestamp_ms), 0},
    {"event_type", TWIN, EACH, EACH, 0, 0},
    {"type", TWIN, EACH, EACH, 0, 0},
    {"model_name", CONSTANT, EACH, EACH, OPTS(model_name), 4096},
    {"block_size", NUMBER32, EACH, EACH, OPTS(block_size), 0},
    {"additional_salt", CONSTANT, EACH, EACH, OPTS(additional_salt), 4096},
    {"lora_name", CONSTANT, EACH, EACH, OPTS(lora_name), 4096},
    {"tenant_id", TEXT, EACH, EACH, RECORD(tenant_id), MC_TENANT_LEN_MAX},
    {"backend_id", TEXT, EACH, EACH, RECORD(backend_id), MC_BACKEND_ID_LEN_MAX},
    {"medium", TEXT, EACH, EACH, RECORD(medium), 64},
    {"dp_rank", NUMBER32, EACH, EACH, OPTS(dp_rank), 0},
    {"group_id", TEXT, KEYED, KEYED, RECORD(group_id), MC_GROUP_ID_LEN_MAX},
    {"session_id", TEXT, STORED, EACH, RECORD(session_id),
     MC_SESSION_ID_LEN_MAX},
    {"object_key", TEXT, KEYED, KEYED, RECORD(object_key), MC_KEY_LEN_MAX},
    {"seq_hashes", HASHES, KEYED, KEYED, 0, 0},
    {"block_hashes", HASHES, KEYED, KEYED, 0, 0},
    {"base_block_idx", NIL, KEYED, KEYED, 0, 0},
    {"parent_hash", NIL, STORED, STORED, 0, 0},
    {"token_ids", TOKENS, STORED, STORED, 0, 0},
    {"parent_block_hash", NIL, STORED, STORED, 0, 0},
    {"epoch", NUMBER64, 0, EACH, 0, 0},
};
#define FIELD_COUNT (sizeof fields / sizeof fields[0])

/* A row while its events are read. */
struct reading {
    struct tool_encode_row *row;
    const struct tool_rows *rows;
    bool is_given[FIELD_COUNT]; /* a constant was given by some event */
    size_t event;               /* index of the current one */
};

static int fail(const struct reading *reading, const char *name,
                const char *what)
{
    return tool_rows_fail(reading->rows, "events[%zu]: %s: %s", reading->event,
                          name, what);
}

static struct mc_view text_view(struct json_object *value)
{
    return mc_view_make(json_object_get_string(value),
                        (size_t)json_object_get_string_len(value));
}

static bool text_is(struct json_object *value, const char *text)
{
    return json_object_is_type(value, json_type_string) &&
           mc_view_equal(text_view(value), mc_view_str(text));
}

static enum mc_event_type read_type(struct json_object *event)
{
    struct json_object *value = json_object_object_get(event, "event_type");
    enum mc_event_type types[] = {MC_EVENT_STORED, MC_EVENT_REMOVED,
                                  MC_EVENT_CLEARED};
    for (size_t i = 0; i < 3; i++) {
        if (text_is(value, mc_event_type_name(types[i]))) {
            return types[i];
        }
    }
    return MC_EVENT_NONE;
}

static const char *twin_of(enum mc_event_type type)
{
    return type == MC_EVENT_STORED    ? "BlockStored"
           : type == MC_EVENT_REMOVED ? "BlockRemoved"
                                      : "AllBlocksCleared";
}

/* A constant: the first event that gives it sets it, the others agree. */
static int read_constant(struct reading *reading, size_t index,
                         struct json_object *value)
{
    const struct field *field = &fields[index];
    char *opts = (char *)&reading->row->opts;
    bool is_first = !reading->is_given[index];
    reading->is_given[index] = true;
    if (field->kind == CONSTANT) {
        struct mc_view *at = (struct mc_view *)(void *)(opts + field->at);
        struct mc_view text = {0};
        if (value && (!json_object_is_type(value, json_type_string) ||
                      json_object_get_string_len(value) == 0 ||
                      text_view(value).len > field->max)) {
            return fail(reading, field->name, "is nil or text, not empty");
        }
        text = value ? text_view(value) : text;
        if (!is_first && !mc_view_equal(*at, text)) {
            return fail(reading, field->name, "differs within the batch");
        }
        *at = text;
        return TOOL_DONE;
    }
    uint64_t number = 0;
    uint32_t *at = (uint32_t *)(void *)(opts + field->at);
    if (value && (!tool_number_read(value, &number) || number > UINT32_MAX)) {
        return fail(reading, field->name, "is a whole number of 32 bits");
    }
    bool is_rank = field->at == OPTS(dp_rank);
    if (is_rank ? !value : value && number == 0) {
        return fail(reading, field->name,
                    is_rank ? "is never nil" : "0 is written as nil");
    }
    if ((is_rank || !is_first) && *at != number) {
        return fail(reading, field->name, "differs within the batch");
    }
    *at = (uint32_t)number;
    return TOOL_DONE;
}

static int read_number(struct reading *reading, size_t index,
                       struct json_object *value,
                       struct mc_event_record *record)
{
    const struct field *field = &fields[index];
    uint64_t number = 0;
    if (value && !tool_number_read(value, &number)) {
        return fail(reading, field->name, "is a whole number of 64 bits");
    }
    if (strcmp(field->name, "epoch") == 0) {
        if (reading->is_given[index] && reading->row->opts.epoch != number) {
            return fail(reading, field->name, "differs within the batch");
        }
        reading->is_given[index] = true;
        reading->row->opts.epoch = number;
        return value && number == 0
                   ? fail(reading, field->name, "0 is written as nil")
                   : TOOL_DONE;
    }
    if (!value) {
        return fail(reading, field->name, "is never nil");
    }
    *(uint64_t *)(void *)((char *)record + field->at) = number;
    return TOOL_DONE;
}

static int read_text(struct reading *reading, const struct field *field,
                     struct json_object *value, struct mc_event_record *record)
{
    if (!value) {
        return TOOL_DONE;
    }
    if (!json_object_is_type(value, json_type_string)) {
        return fail(reading, field->name, "is text");
    }
    struct mc_view text = text_view(value);
    if (text.len == 0 || text.len > field->max) {
        return fail(reading, field->name,
                    text.len ? "is too long" : "empty is not written as given");
    }
    if (field->at == RECORD(medium) && record->type == MC_EVENT_CLEARED) {
        return fail(reading, field->name, "is nil on cleared");
    }
    *(struct mc_view *)(void *)((char *)record + field->at) = text;
    return TOOL_DONE;
}

static int read_tokens(struct reading *reading, size_t index,
                       struct json_object *value)
{
    bool is_empty = json_object_is_type(value, json_type_array) &&
                    json_object_array_length(value) == 0;
    bool *at = &reading->row->opts.empty_token_ids;
    if (value && !is_empty) {
        return fail(reading, "token_ids", "is nil or []");
    }
    if (reading->is_given[index] && *at != is_empty) {
        return fail(reading, "token_ids", "differs within the batch");
    }
    reading->is_given[index] = true;
    *at = is_empty;
    return TOOL_DONE;
}

static int read_field(struct reading *reading, size_t index,
                      struct json_object *value, struct mc_event_record *record)
{
    const struct field *field = &fields[index];
    unsigned type = 1u << (record->type - MC_EVENT_STORED);
    unsigned on = reading->row->opts.plain ? field->on : field->on_full;
    if (!(on & type)) {
        return fail(reading, field->name,
                    "is not written on this type in this profile");
    }
    switch (field->kind) {
    case NUMBER64:
        return read_number(reading, index, value, record);
    case NUMBER32:
    case CONSTANT:
        return read_constant(reading, index, value);
    case TEXT:
        return read_text(reading, field, value, record);
    case TWIN:
        if (strcmp(field->name, "type") == 0 &&
            !text_is(value, twin_of(record->type))) {
            return fail(reading, field->name, "is not the twin of event_type");
        }
        return TOOL_DONE;
    case NIL:
        return value ? fail(reading, field->name, "is always nil") : TOOL_DONE;
    case TOKENS:
        return read_tokens(reading, index, value);
    case HASHES:
        if (!json_object_is_type(value, json_type_array)) {
            return fail(reading, field->name, "is an array");
        }
        reading->row->opts.seq_hashes |= json_object_array_length(value) > 0;
        return TOOL_DONE;
    }
    return TOOL_DONE;
}

static int check_needed(const struct reading *reading,
                        const struct mc_event_record *record)
{
    if (!record->backend_id.data) {
        return fail(reading, "backend_id", "is missing");
    }
    if (record->type != MC_EVENT_CLEARED && !record->medium.data) {
        return fail(reading, "medium", "is missing");
    }
    if (record->type != MC_EVENT_CLEARED && !record->object_key.data) {
        return fail(reading, "object_key", "is missing");
    }
    return TOOL_DONE;
}

static int read_event(struct reading *reading, struct json_object *event,
                      struct mc_event_record *record)
{
    if (!json_object_is_type(event, json_type_object)) {
        return fail(reading, "event", "is not an object");
    }
    *record = (struct mc_event_record){
        .type = read_type(event),
        .timestamp_ms = reading->row->timestamp_ms,
        .tenant_id = mc_view_str("default"),
    };
    if (record->type == MC_EVENT_NONE) {
        return fail(reading, "event_type", "is stored, removed or cleared");
    }
    if (!json_object_object_get(event, "event_id")) {
        return fail(reading, "event_id", "is missing");
    }
    json_object_object_foreach(event, name, value)
    {
        size_t index = 0;
        while (index < FIELD_COUNT && strcmp(fields[index].name, name) != 0) {
            index++;
        }
        if (index == FIELD_COUNT) {
            return fail(reading, name, "no such field");
        }
        int code = read_field(reading, index, value, record);
        if (code != TOOL_DONE) {
            return code;
        }
    }
    return check_needed(reading, record);
}

/* The writer derives the hash arrays from the key: what is given must be what
 * it will write. */
static int check_hashes(const struct reading *reading,
                        struct json_object *event,
                        const struct mc_event_record *record)
{
    struct mc_key_layout layout;
    struct mc_key_page page = {0};
    bool is_numeric = reading->row->opts.seq_hashes &&
                      mc_key_layout_parse(mc_view_str("u64"), mc_view_str(NULL),
                                          &layout) == MC_OK &&
                      mc_key_parse(&layout, record->object_key, &page);
    const char *names[] = {"seq_hashes", "block_hashes"};
    for (size_t i = 0; i < 2; i++) {
        struct json_object *given = json_object_object_get(event, names[i]);
        if (!given) {
            continue;
        }
        size_t count = json_object_array_length(given);
        struct json_object *first = json_object_array_get_idx(given, 0);
        bool is_equal = count == (is_numeric ? 1 : 0);
        if (is_equal && count == 1) {
            is_equal =
                json_object_is_type(first, json_type_int) &&
                (i == 0 ? json_object_get_uint64(first) == page.hash
                        : json_object_get_int64(first) == (int64_t)page.hash);
        }
        if (!is_equal) {
            return fail(reading, names[i], "is not what its key says");
        }
    }
    return TOOL_DONE;
}

static int read_events(struct reading *reading, struct json_object *events)
{
    struct tool_encode_row *row = reading->row;
    row->count = json_object_array_length(events);
    if (row->count > MC_EVENT_COUNT_MAX) {
        return tool_rows_fail(reading->rows, "events: more than %d",
                              MC_EVENT_COUNT_MAX);
    }
    if (row->count > row->capacity) {
        void *grown = realloc(row->records, row->count * sizeof *row->records);
        if (!grown) {
            return tool_rows_fail(reading->rows, "out of memory");
        }
        row->records = grown;
        row->capacity = row->count;
    }
    for (size_t i = 0; i < row->count; i++) {
        reading->event = i;
        int code = read_event(reading, json_object_array_get_idx(events, i),
                              &row->records[i]);
        if (code != TOOL_DONE) {
            return code;
        }
    }
    for (size_t i = 0; i < row->count; i++) {
        reading->event = i;
        int code = check_hashes(reading, json_object_array_get_idx(events, i),
                                &row->records[i]);
        if (code != TOOL_DONE) {
            return code;
        }
    }
    return TOOL_DONE;
}

int tool_encode_row_read(struct tool_encode_row *row,
                         const struct tool_rows *rows,
                         struct json_object *object)
{
    struct reading reading = {.row = row, .rows = rows};
    struct json_object *profile = json_object_object_get(object, "profile");
    struct json_object *events = json_object_object_get(object, "events");
    uint64_t rank = 0;
    struct json_object *dp_rank = json_object_object_get(object, "dp_rank");
    row->opts = (struct mc_event_writer_opts){0};
    row->opts.plain = text_is(profile, "plain");
    if (!row->opts.plain && !text_is(profile, "full")) {
        return tool_rows_fail(rows, "profile: is plain or full");
    }
    if (!tool_number_read(json_object_object_get(object, "seq"), &row->seq)) {
        return tool_rows_fail(rows, "seq: is a whole number of 64 bits");
    }
    if (!tool_number_read(json_object_object_get(object, "timestamp_ms"),
                          &row->timestamp_ms) ||
        row->timestamp_ms > INT64_MAX) {
        return tool_rows_fail(rows, "timestamp_ms: is from 0 to 2^63-1");
    }
    if (!tool_number_read(dp_rank, &rank) || rank > UINT32_MAX) {
        return tool_rows_fail(rows, "dp_rank: is a whole number of 32 bits");
    }
    if (!json_object_is_type(events, json_type_array)) {
        return tool_rows_fail(rows, "events: missing, or not an array");
    }
    row->opts.dp_rank = (uint32_t)rank;
    return read_events(&reading, events);
}
