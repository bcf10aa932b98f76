/* SPDX-License-Identifier: Apache-2.0 */
#include "lint_tree.h"

#include "mci_alloc.h"

void lint_tree_fini(struct lint_tree *tree)
{
    mci_free(tree->values);
    *tree = (struct lint_tree){0};
}

/* A place for one value more; NULL at the bound or without memory. */
static struct lint_value *add_value(struct lint_tree *tree)
{
    if (tree->count == tree->capacity) {
        uint32_t capacity = tree->capacity ? 2 * tree->capacity : 256;
        void *grown =
            capacity <= LINT_VALUES_MAX
                ? mci_realloc(tree->values, capacity * sizeof *tree->values)
                : NULL;
        if (!grown) {
            return NULL;
        }
        tree->values = grown;
        tree->capacity = capacity;
    }
    return &tree->values[tree->count++];
}

static void read_integer(struct mci_unpack *unpack, struct lint_value *value)
{
    struct mci_unpack ahead = *unpack;
    value->number = mci_unpack_u64(&ahead, UINT64_MAX);
    if (ahead.error == MCI_UNPACK_OK) {
        *unpack = ahead;
        return;
    }
    value->number = (uint64_t)mci_unpack_i64(unpack, INT64_MIN, INT64_MAX);
    value->is_negative = true;
}

/* Steps over what stands for itself, or into a container. */
static void read_content(struct mci_unpack *unpack, struct lint_value *value)
{
    switch (value->kind) {
    case MCI_UNPACK_INTEGER:
        read_integer(unpack, value);
        return;
    case MCI_UNPACK_STR:
        value->bytes = mci_unpack_str_raw(unpack, SIZE_MAX);
        return;
    case MCI_UNPACK_BIN:
        value->bytes = mci_unpack_bin(unpack, 0, SIZE_MAX);
        return;
    case MCI_UNPACK_ARRAY:
        value->count = mci_unpack_array(unpack, 0, UINT32_MAX);
        return;
    case MCI_UNPACK_MAP:
        value->count = mci_unpack_map(unpack, 0, UINT32_MAX);
        return;
    default:
        mci_unpack_skip(unpack, 0);
    }
}

/* The next value; what it holds follows. Values inside, or 0. */
static uint64_t read_value(struct lint_tree *tree, struct mci_unpack *unpack)
{
    struct lint_value *value = add_value(tree);
    if (!value) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
        return 0;
    }
    *value =
        (struct lint_value){.kind = mci_unpack_peek(unpack),
                            .offset = (uint32_t)(unpack->at - unpack->base)};
    read_content(unpack, value);
    value->end = tree->count;
    return value->kind == MCI_UNPACK_MAP ? 2 * (uint64_t)value->count
                                         : value->count;
}

static void read_all(struct lint_tree *tree, struct mci_unpack *unpack)
{
    uint64_t left[MCI_UNPACK_DEPTH_MAX + 1] = {1};
    uint32_t open[MCI_UNPACK_DEPTH_MAX + 1] = {0}; /* whose values are left */
    unsigned level = 0;
    while (unpack->error == MCI_UNPACK_OK) {
        while (left[level] == 0) {
            if (level == 0) {
                return;
            }
            tree->values[open[level--]].end = tree->count;
        }
        left[level]--;
        uint32_t index = tree->count;
        uint64_t inside = read_value(tree, unpack);
        if (inside != 0 && level == MCI_UNPACK_DEPTH_MAX) {
            mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_DEPTH);
        } else if (inside != 0) {
            left[++level] = inside;
            open[level] = index;
        }
    }
}

enum mci_unpack_error lint_tree_read(struct lint_tree *tree,
                                     struct mc_view payload,
                                     uint32_t *offset_out)
{
    struct mci_unpack unpack;
    mci_unpack_init(&unpack, payload);
    tree->count = 0;
    read_all(tree, &unpack);
    if (unpack.error != MCI_UNPACK_OK) {
        tree->count = 0;
        *offset_out = (uint32_t)unpack.error_offset;
    }
    return unpack.error;
}

/* The nth value of a name, from 0. */
static uint32_t find_nth(const struct lint_tree *tree, uint32_t map,
                         const char *name, unsigned nth)
{
    if (tree->values[map].kind != MCI_UNPACK_MAP) {
        return 0;
    }
    struct mc_view wanted = mc_view_str(name);
    for (uint32_t at = map + 1; at < tree->values[map].end;) {
        uint32_t value = tree->values[at].end;
        if (tree->values[at].kind == MCI_UNPACK_STR &&
            mc_view_equal(tree->values[at].bytes, wanted) && nth-- == 0) {
            return value;
        }
        at = tree->values[value].end;
    }
    return 0;
}

uint32_t lint_tree_find(const struct lint_tree *tree, uint32_t map,
                        const char *name)
{
    return find_nth(tree, map, name, 0);
}

uint32_t lint_tree_find_twice(const struct lint_tree *tree, uint32_t map,
                              const char *name)
{
    return find_nth(tree, map, name, 1);
}

uint32_t lint_tree_at(const struct lint_tree *tree, uint32_t array,
                      uint32_t place)
{
    if (tree->values[array].kind != MCI_UNPACK_ARRAY ||
        place >= tree->values[array].count) {
        return 0;
    }
    uint32_t at = array + 1;
    for (; place > 0; place--) {
        at = tree->values[at].end;
    }
    return at;
}
