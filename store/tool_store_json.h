/* SPDX-License-Identifier: Apache-2.0 */
/* tool_store_json.h - the door to json-c for mc-store: lines out, settings and
 * rows in.
 *
 * An object is made member by member and written as one line. json-c keeps every
 * byte of a string.
 * Threads: one thread at a time per object.
 */
#ifndef TOOL_STORE_JSON_H
#define TOOL_STORE_JSON_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_view.h"

struct tool_json {
    void *object; /* of json-c; NULL: out of memory, or not an object */
};

void tool_json_begin(struct tool_json *json);
void tool_json_text(struct tool_json *json, const char *name,
                    struct mc_view text); /* none: null */
void tool_json_u64(struct tool_json *json, const char *name, uint64_t number);
void tool_json_i64(struct tool_json *json, const char *name, int64_t number);
void tool_json_double(struct tool_json *json, const char *name, double number);
void tool_json_bool(struct tool_json *json, const char *name, bool is_true);
void tool_json_hex(struct tool_json *json, const char *name, uint64_t number);
/* Writes the line to stdout and frees. */
void tool_json_write(struct tool_json *json);

/* An object of len bytes, nothing behind it but white space. *why_out: a static
 * text of what is wrong, when false. */
bool tool_json_read(struct tool_json *json, const char *text, size_t len,
                    const char **why_out);
void tool_json_free(struct tool_json *json);
/* "none" if there is none, or it is null. Borrowed. */
struct mc_view tool_json_get(const struct tool_json *json, const char *name);
/* False: there is one, but it is neither a string nor null. */
bool tool_json_is_text(const struct tool_json *json, const char *name);
/* What is there as it would be typed: a string, or a number's digits; NULL if
 * there is none. Borrowed. */
const char *tool_json_typed(const struct tool_json *json, const char *name);
/* A name of a member that is none of those in the list; NULL: all are. */
const char *tool_json_stranger(const struct tool_json *json,
                               const char *const *known, size_t count);
#endif
