/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_store_json.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 8

static void add(struct tool_json *json, const char *name, json_object *value)
{
    if (json->object) {
        (void)json_object_object_add(json->object, name, value);
    }
}

void tool_json_begin(struct tool_json *json)
{
    json->object = json_object_new_object();
}

void tool_json_text(struct tool_json *json, const char *name,
                    struct mc_view text)
{
    add(json, name,
        text.data ? json_object_new_string_len(text.data, (int)text.len)
                  : NULL);
}

void tool_json_u64(struct tool_json *json, const char *name, uint64_t number)
{
    add(json, name, json_object_new_uint64(number));
}

void tool_json_i64(struct tool_json *json, const char *name, int64_t number)
{
    add(json, name, json_object_new_int64(number));
}

void tool_json_double(struct tool_json *json, const char *name, double number)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%.6g", number);
    add(json, name, json_object_new_double_s(number, text));
}

void tool_json_bool(struct tool_json *json, const char *name, bool is_true)
{
    add(json, name, json_object_new_boolean(is_true));
}

void tool_json_hex(struct tool_json *json, const char *name, uint64_t number)
{
    char text[17];
    (void)snprintf(text, sizeof text, "%016" PRIx64, number);
    tool_json_text(json, name, mc_view_str(text));
}

void tool_json_write(struct tool_json *json)
{
    size_t len = 0;
    const char *text = json_object_to_json_string_length(
        json->object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE,
        &len);
    if (text) {
        (void)fwrite(text, 1, len, stdout);
        (void)fputc('\n', stdout);
    }
    tool_json_free(json);
}

void tool_json_free(struct tool_json *json)
{
    (void)json_object_put(json->object);
    json->object = NULL;
}

bool tool_json_read(struct tool_json *json, const char *text, size_t len,
                    const char **why_out)
{
    json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
    json->object = NULL;
    *why_out = "out of memory";
    if (!tokener) {
        return false;
    }
    json_tokener_set_flags(tokener,
                           JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json->object = json_tokener_parse_ex(tokener, text, (int)len);
    enum json_tokener_error error = json_tokener_get_error(tokener);
    size_t end = json_tokener_get_parse_end(tokener);
    json_tokener_free(tokener);
    if (error != json_tokener_success) {
        *why_out = error == json_tokener_continue
                       ? "ends too early"
                       : json_tokener_error_desc(error);
    } else if (strspn(text + end, " \t\r\n") != len - end) {
        *why_out = "something stands behind the object";
    } else if (!json_object_is_type(json->object, json_type_object)) {
        *why_out = "is no object";
    } else {
        return true;
    }
    tool_json_free(json);
    return false;
}

static json_object *member(const struct tool_json *json, const char *name)
{
    json_object *value = NULL;
    return json->object && json_object_object_get_ex(json->object, name, &value)
               ? value
               : NULL;
}

struct mc_view tool_json_get(const struct tool_json *json, const char *name)
{
    json_object *value = member(json, name);
    if (!json_object_is_type(value, json_type_string)) {
        return mc_view_make(NULL, 0);
    }
    return mc_view_make(json_object_get_string(value),
                        (size_t)json_object_get_string_len(value));
}

bool tool_json_is_text(const struct tool_json *json, const char *name)
{
    json_object *value = member(json, name);
    return !value || json_object_is_type(value, json_type_string);
}

const char *tool_json_typed(const struct tool_json *json, const char *name)
{
    json_object *value = member(json, name);
    return value ? json_object_get_string(value) : NULL;
}

const char *tool_json_stranger(const struct tool_json *json,
                               const char *const *known, size_t count)
{
    json_object_object_foreach((json_object *)json->object, name, value)
    {
        size_t i = 0;
        (void)value;
        while (i < count && strcmp(known[i], name) != 0) {
            i++;
        }
        if (i == count) {
            return name;
        }
    }
    return NULL;
}
