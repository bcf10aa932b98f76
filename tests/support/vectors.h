/* SPDX-License-Identifier: Apache-2.0 */
/* vectors.h - golden rows: where they are, and their frames as bytes.
 *
 * Read from the folder beside the project where it is there, else from the
 * copies under tests/data/vectors. Each frame stands in a block of its own
 * size, so that a sanitizer sees a read beyond its end.
 */
#ifndef VECTORS_H
#define VECTORS_H
#include <json-c/json.h>
#include <stdint.h>

#include "mc_view.h"

#define VECTOR_FRAMES_MAX 5

struct vector_frames {
    size_t count;
    struct mc_view frames[VECTOR_FRAMES_MAX];
};

/* The rows of a file; the caller puts the object back. */
json_object *vectors_load(const char *name);

/* Of the copies, whether or not there is another folder. */
json_object *vectors_load_copy(const char *name);

/* The whole text of a file as a NUL-terminated string that the caller frees;
 * NULL if there is none. */
char *vectors_text(const char *folder, const char *name);

void vector_frames_make(json_object *row, struct vector_frames *frames_out);
void vector_frames_free(struct vector_frames *frames);

/* A member that is a string; NULL if absent or nil. */
const char *vector_string(json_object *row, const char *name);
uint64_t vector_number(json_object *row, const char *name);

/* The crc32 of zip, continued from an earlier one (0 at first). */
uint32_t vector_crc(uint32_t crc, const void *bytes, size_t len);

/* xorshift64, the same numbers as Random in event_model.py. */
uint64_t vector_random(uint64_t *state, uint64_t below);
#endif
