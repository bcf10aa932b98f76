/* SPDX-License-Identifier: Apache-2.0 */
/* lint_tree.h - a payload as it stands: every value of it in a row, in the order
 * in which it was written, judged by nobody.
 *
 * A container is followed by what it holds, and says where that ends. Strs need
 * not be UTF-8, names may stand twice; only what is no msgpack is refused. Bytes
 * are borrowed from the payload.
 * Threads: one thread at a time.
 */
#ifndef LINT_TREE_H
#define LINT_TREE_H
#include <stdbool.h>

#include "mci_unpack.h"

/* Values of one payload: a message that is worth a judgement has far fewer. */
#define LINT_VALUES_MAX (1u << 20)

struct lint_value {
    enum mci_unpack_kind kind;
    bool is_negative;     /* an integer: number is its two's complement */
    uint32_t count;       /* elements of an array, pairs of a map */
    uint32_t end;         /* index of the value behind it and its content */
    uint32_t offset;      /* into the payload */
    uint64_t number;      /* of an integer */
    struct mc_view bytes; /* of a str or bin */
};

struct lint_tree {
    struct lint_value *values; /* values[0] is the whole */
    uint32_t count;
    uint32_t capacity;
};
void lint_tree_fini(struct lint_tree *tree); /* of a zeroed one is fine */

/* Reads the first value of a payload; what stands behind it is not looked at.
 * Returns MCI_UNPACK_OK, or the fault and its offset: TRUNCATED, MALFORMED,
 * DEPTH (over 32), LENGTH (over LINT_VALUES_MAX values, or no memory). The tree
 * is empty then. */
MC_CHECK_RESULT enum mci_unpack_error lint_tree_read(struct lint_tree *tree,
                                                     struct mc_view payload,
                                                     uint32_t *offset_out);

/* The value of a name in a map, by its index; the first one, where it stands
 * twice. 0: there is none, or the value at `map` is no map. */
uint32_t lint_tree_find(const struct lint_tree *tree, uint32_t map,
                        const char *name);

/* Its second value, where the name stands twice; else 0. */
uint32_t lint_tree_find_twice(const struct lint_tree *tree, uint32_t map,
                              const char *name);

/* The element of an array by its place; 0: there is none, or no array. */
uint32_t lint_tree_at(const struct lint_tree *tree, uint32_t array,
                      uint32_t place);
#endif
