/* SPDX-License-Identifier: Apache-2.0 */
/* index_json.h - JSON lines: writing them as Python's json.dumps does, reading
 * the fields of one.
 *
 * Both keep the first thing that went wrong, so that a line is written or read
 * in one go and judged at its end. json-c reads; its objects own all texts.
 */
#ifndef INDEX_JSON_H
#define INDEX_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_index.h"
#include "mci_buf.h"

struct json_object;

/* ---- writing ----------------------------------------------------------- */

struct index_json {
    struct mci_buf buf;
    enum mc_err err; /* the first */
};

void index_json_init(struct index_json *json);
void index_json_fini(struct index_json *json);
void index_json_begin(struct index_json *json); /* an empty line */
void index_json_raw(struct index_json *json, const char *text);
/* In quotes, all but printable ASCII escaped. */
void index_json_text(struct index_json *json, struct mc_view text);
void index_json_uint(struct index_json *json, uint64_t value);
/* `"name": ` with a comma before it unless it is the first of its object. */
void index_json_name(struct index_json *json, const char *name);
void index_json_hashes(struct index_json *json, const uint64_t *hashes,
                       size_t count);

/* ---- reading ----------------------------------------------------------- */

struct index_fields {
    struct json_object *root; /* owned */
    enum mc_err err; /* the first; MC_ERR_INVALID_PARAMS with a fault */
    char fault[96];
    uint64_t *hashes; /* owned: of the one list a line has */
    size_t hash_count;
};

/* fini is due after a failure too; fields->fault then says what is wrong. */
MC_CHECK_RESULT enum mc_err index_fields_init(struct index_fields *fields,
                                              struct mc_view line);
void index_fields_fini(struct index_fields *fields);
void index_fields_fail(struct index_fields *fields, const char *what,
                       const char *name);

bool index_fields_has(const struct index_fields *fields, const char *name);
/* A text that must be there; a none view otherwise. */
struct mc_view index_fields_text(struct index_fields *fields, const char *name);
/* The same, null or absent being none. */
struct mc_view index_fields_optional(struct index_fields *fields,
                                     const char *name);
uint64_t index_fields_uint(struct index_fields *fields, const char *name,
                           uint64_t max);
bool index_fields_bool(struct index_fields *fields, const char *name);
/* Into fields->hashes. */
void index_fields_hashes(struct index_fields *fields, const char *name);
/* The elements of a list of objects, as fields of their own: borrowed, with no
 * init and no fini. Count 0 if it is not there. */
size_t index_fields_count(struct index_fields *fields, const char *name);
struct index_fields index_fields_at(struct index_fields *fields,
                                    const char *name, size_t i);
/* A list of small integers as bits. */
void index_fields_bits(struct index_fields *fields, const char *name,
                       uint64_t bits_out[2]);

/* Carries out an operation; MC_ERR_INVALID_PARAMS (with fields->fault, nothing
 * changed) if it is none. */
MC_CHECK_RESULT enum mc_err
index_fields_apply(struct index_fields *fields, struct mc_index *index,
                   enum mc_index_result *result_out);
/* The layout that a layout line names. */
MC_CHECK_RESULT enum mc_err
index_fields_layout(struct index_fields *fields,
                    struct mc_key_layout *layout_out);
/* "node" and "session" lines of an export (index_restore.c). */
enum mc_index_result index_restore_node(struct mc_index *ix,
                                        struct index_fields *fields);
enum mc_index_result index_restore_session(struct mc_index *ix,
                                           struct index_fields *fields);
#endif
