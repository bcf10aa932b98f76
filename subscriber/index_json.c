/* SPDX-License-Identifier: Apache-2.0 */
#include "index_json.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "mci_alloc.h"

#define LINE_MAX_LEN (UINT64_C(1) << 31)

/* ---- writing ----------------------------------------------------------- */

void index_json_init(struct index_json *json)
{
    mci_buf_init(&json->buf, LINE_MAX_LEN);
    json->err = MC_OK;
}

void index_json_fini(struct index_json *json)
{
    mci_buf_fini(&json->buf);
}

void index_json_begin(struct index_json *json)
{
    mci_buf_clear(&json->buf);
    json->err = MC_OK;
}

static void append(struct index_json *json, const void *data, size_t len)
{
    if (json->err == MC_OK) {
        json->err = mci_buf_append(&json->buf, data, len);
    }
}

void index_json_raw(struct index_json *json, const char *text)
{
    append(json, text, strlen(text));
}

/* The next code point of valid UTF-8; a byte that does not fit stands for
 * itself. */
static uint32_t next_point(const unsigned char *at, size_t left,
                           size_t *len_out)
{
    uint32_t lead = at[0];
    size_t len = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (len == 1 || len > left) {
        *len_out = 1;
        return lead;
    }
    uint32_t point = lead & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        point = point << 6 | (at[i] & 0x3fu);
    }
    *len_out = len;
    return point;
}

static void escape(struct index_json *json, uint32_t point)
{
    static const char shorts[] = "\bb\tt\nn\ff\rr\"\"\\\\";
    char text[16];
    int len;
    const char *found =
        point && point < 128 ? strchr(shorts, (int)point) : NULL;
    if (found && (found - shorts) % 2 == 0) {
        text[0] = '\\';
        text[1] = found[1];
        len = 2;
    } else if (point < 0x10000) {
        len = snprintf(text, sizeof text, "\\u%04x", point);
    } else {
        len = snprintf(text, sizeof text, "\\u%04x\\u%04x",
                       0xd800 + ((point - 0x10000) >> 10),
                       0xdc00 + ((point - 0x10000) & 0x3ff));
    }
    append(json, text, (size_t)len);
}

void index_json_text(struct index_json *json, struct mc_view text)
{
    const unsigned char *at = text.data;
    size_t left = text.len;
    append(json, "\"", 1);
    while (left) {
        size_t plain = 0;
        while (plain < left && at[plain] >= ' ' && at[plain] < 0x7f &&
               at[plain] != '"' && at[plain] != '\\') {
            plain++;
        }
        append(json, at, plain);
        at += plain;
        left -= plain;
        if (left) {
            size_t len;
            escape(json, next_point(at, left, &len));
            at += len;
            left -= len;
        }
    }
    append(json, "\"", 1);
}

void index_json_uint(struct index_json *json, uint64_t value)
{
    char text[24];
    size_t at = sizeof text;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    append(json, text + at, sizeof text - at);
}

void index_json_name(struct index_json *json, const char *name)
{
    bool is_first =
        json->buf.len == 0 || json->buf.data[json->buf.len - 1] == '{';
    index_json_raw(json, is_first ? "\"" : ", \"");
    index_json_raw(json, name);
    index_json_raw(json, "\": ");
}

void index_json_hashes(struct index_json *json, const uint64_t *hashes,
                       size_t count)
{
    index_json_raw(json, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) {
            index_json_raw(json, ", ");
        }
        index_json_uint(json, hashes[i]);
    }
    index_json_raw(json, "]");
}

/* ---- reading ----------------------------------------------------------- */

void index_fields_fail(struct index_fields *fields, const char *what,
                       const char *name)
{
    if (fields->err == MC_OK) {
        fields->err = MC_ERR_INVALID_PARAMS;
        (void)snprintf(fields->fault, sizeof fields->fault, "%s%s%s", what,
                       name ? ": " : "", name ? name : "");
    }
}

/* json-c makes the greatest number it has of one that is greater, so those are
 * looked for in the text. */
static bool has_huge_number(struct mc_view line)
{
    static const char max[] = "18446744073709551615";
    const char *text = line.data;
    bool is_quoted = false;
    size_t digits = 0;
    for (size_t at = 0; at <= line.len; at++) {
        char c = ' ';
        if (at < line.len) {
            c = text[at];
        }
        if (!is_quoted && c >= '0' && c <= '9') {
            digits++;
            continue;
        }
        if (digits >= sizeof max ||
            (digits == sizeof max - 1 &&
             memcmp(text + at - digits, max, digits) > 0)) {
            return true;
        }
        digits = 0;
        if (is_quoted && c == '\\') {
            at++;
        } else if (c == '"') {
            is_quoted = !is_quoted;
        }
    }
    return false;
}

enum mc_err index_fields_init(struct index_fields *fields, struct mc_view line)
{
    memset(fields, 0, sizeof *fields);
    struct json_tokener *tokener = json_tokener_new();
    if (!tokener) {
        fields->err = MC_ERR_NOMEM;
        return fields->err;
    }
    json_tokener_set_flags(tokener,
                           JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    if (line.len > INT32_MAX) {
        index_fields_fail(fields, "line too long", NULL);
    } else if (has_huge_number(line)) {
        index_fields_fail(fields, "out of range", "a number over 2^64 - 1");
    } else {
        fields->root = json_tokener_parse_ex(tokener, line.data, (int)line.len);
        enum json_tokener_error error = json_tokener_get_error(tokener);
        if (error == json_tokener_continue) {
            /* a number at the end needs an end */
            fields->root = json_tokener_parse_ex(tokener, "\n", 1);
            error = json_tokener_get_error(tokener);
        }
        if (error != json_tokener_success) {
            index_fields_fail(fields, "not JSON",
                              error == json_tokener_continue
                                  ? "it breaks off"
                                  : json_tokener_error_desc(error));
        } else if (!json_object_is_type(fields->root, json_type_object)) {
            index_fields_fail(fields, "not a JSON object", NULL);
        }
    }
    json_tokener_free(tokener);
    return fields->err;
}

void index_fields_fini(struct index_fields *fields)
{
    mci_free(fields->hashes);
    fields->hashes = NULL;
    (void)json_object_put(fields->root);
    fields->root = NULL;
}

static struct json_object *get(const struct index_fields *fields,
                               const char *name)
{
    struct json_object *value = NULL;
    if (fields->root) {
        (void)json_object_object_get_ex(fields->root, name, &value);
    }
    return value;
}

bool index_fields_has(const struct index_fields *fields, const char *name)
{
    return get(fields, name) != NULL;
}

static struct mc_view text_of(struct json_object *value)
{
    return mc_view_make(json_object_get_string(value),
                        (size_t)json_object_get_string_len(value));
}

struct mc_view index_fields_text(struct index_fields *fields, const char *name)
{
    struct json_object *value = get(fields, name);
    if (!json_object_is_type(value, json_type_string)) {
        index_fields_fail(fields, value ? "not a string" : "missing", name);
        return mc_view_make(NULL, 0);
    }
    return text_of(value);
}

struct mc_view index_fields_optional(struct index_fields *fields,
                                     const char *name)
{
    if (!index_fields_has(fields, name)) {
        return mc_view_make(NULL, 0);
    }
    return index_fields_text(fields, name);
}

static uint64_t uint_of(struct index_fields *fields, struct json_object *value,
                        const char *name, uint64_t max)
{
    if (!json_object_is_type(value, json_type_int)) {
        index_fields_fail(fields, value ? "not an integer" : "missing", name);
        return 0;
    }
    uint64_t number = json_object_get_uint64(value);
    if ((number == 0 && json_object_get_int64(value) < 0) || number > max) {
        index_fields_fail(fields, "out of range", name);
        return 0;
    }
    return number;
}

uint64_t index_fields_uint(struct index_fields *fields, const char *name,
                           uint64_t max)
{
    return uint_of(fields, get(fields, name), name, max);
}

bool index_fields_bool(struct index_fields *fields, const char *name)
{
    struct json_object *value = get(fields, name);
    if (value && !json_object_is_type(value, json_type_boolean)) {
        index_fields_fail(fields, "not true or false", name);
    }
    return value && json_object_get_boolean(value);
}

static size_t list_len(struct index_fields *fields, const char *name)
{
    struct json_object *value = get(fields, name);
    if (!json_object_is_type(value, json_type_array)) {
        index_fields_fail(fields, value ? "not a list" : "missing", name);
        return 0;
    }
    return json_object_array_length(value);
}

void index_fields_hashes(struct index_fields *fields, const char *name)
{
    size_t count = list_len(fields, name);
    if (fields->err != MC_OK) {
        return;
    }
    fields->hashes = mci_alloc(count * sizeof *fields->hashes);
    if (!fields->hashes) {
        fields->err = MC_ERR_NOMEM;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        fields->hashes[i] =
            uint_of(fields, json_object_array_get_idx(get(fields, name), i),
                    name, UINT64_MAX);
    }
    fields->hash_count = count;
}

size_t index_fields_count(struct index_fields *fields, const char *name)
{
    return index_fields_has(fields, name) ? list_len(fields, name) : 0;
}

struct index_fields index_fields_at(struct index_fields *fields,
                                    const char *name, size_t i)
{
    struct index_fields element = {
        .root = json_object_array_get_idx(get(fields, name), i)};
    if (!json_object_is_type(element.root, json_type_object)) {
        index_fields_fail(fields, "not a list of objects", name);
        element.root = NULL;
    }
    return element;
}

void index_fields_bits(struct index_fields *fields, const char *name,
                       uint64_t bits_out[2])
{
    size_t count = list_len(fields, name);
    bits_out[0] = 0;
    bits_out[1] = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bit =
            uint_of(fields, json_object_array_get_idx(get(fields, name), i),
                    name, MC_KEY_PARTS_MAX - 1);
        bits_out[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
}
