/* SPDX-License-Identifier: Apache-2.0 */
/* What consumers ask of an event in an engine's words: a tag (BlockStored ...),
 * as a map's `type` or an array's first element, and its fields by name or by
 * place. A store's event that keeps the older names is read so too. */
#include "lint_rules.h"

/* Places in an array; 0: it has none. */
struct engine_field {
    const char *name;
    uint32_t stored_at;
    uint32_t removed_at;
};
static const struct engine_field block_hashes = {"block_hashes", 1, 1};
static const struct engine_field token_ids = {"token_ids", 3, 0};
static const struct engine_field block_size = {"block_size", 4, 0};
static const struct engine_field group_idx = {"group_idx", 9, 3};
static const struct engine_field locality = {"locality", 12, 4};

/* 0: there is none, or it is no str. */
static uint32_t tag_of(const struct lint_place *at)
{
    const struct lint_tree *tree = at->message->tree;
    uint32_t index = tree->values[at->event].kind == MCI_UNPACK_ARRAY
                         ? lint_tree_at(tree, at->event, 0)
                         : lint_tree_find(tree, at->event, "type");
    return index && tree->values[index].kind == MCI_UNPACK_STR ? index : 0;
}

static bool has_tag(const struct lint_place *at, const char *tag)
{
    uint32_t index = tag_of(at);
    return index != 0 && lint_is_text(lint_value_of(at, index), tag);
}

static uint32_t field(const struct lint_place *at,
                      const struct engine_field *which)
{
    const struct lint_tree *tree = at->message->tree;
    if (tree->values[at->event].kind == MCI_UNPACK_MAP) {
        return lint_tree_find(tree, at->event, which->name);
    }
    uint32_t place =
        has_tag(at, "BlockRemoved") ? which->removed_at : which->stored_at;
    return place ? lint_tree_at(tree, at->event, place) : 0;
}

/* It is there and of this kind; else where the fault is. */
static bool has(const struct lint_place *at, const struct engine_field *which,
                enum mci_unpack_kind kind, uint32_t *offset_out)
{
    uint32_t index = field(at, which);
    return (index && lint_value_of(at, index)->kind == kind) ||
           lint_broken(at, index ? index : at->event, offset_out);
}

/* ---- forms ------------------------------------------------------------- */

bool lint_event_is_array(const struct lint_place *at, uint32_t *offset_out)
{
    return lint_value_of(at, at->event)->kind == MCI_UNPACK_ARRAY ||
           lint_broken(at, at->event, offset_out);
}

bool lint_is_tagged(const struct lint_place *at, uint32_t *offset_out)
{
    return tag_of(at) != 0 || lint_broken(at, at->event, offset_out);
}

bool lint_tag_is_vllm(const struct lint_place *at, uint32_t *offset_out)
{
    return has_tag(at, "BlockStored") || has_tag(at, "BlockRemoved") ||
           has_tag(at, "AllBlocksCleared") ||
           lint_broken(at, tag_of(at), offset_out);
}

bool lint_tag_is_known(const struct lint_place *at, uint32_t *offset_out)
{
    return has_tag(at, "Ignored") || lint_tag_is_vllm(at, offset_out);
}

/* ---- fields ------------------------------------------------------------ */

bool lint_has_tokens(const struct lint_place *at, uint32_t *offset_out)
{
    return !has_tag(at, "BlockStored") ||
           has(at, &token_ids, MCI_UNPACK_ARRAY, offset_out);
}

bool lint_has_size(const struct lint_place *at, uint32_t *offset_out)
{
    return !has_tag(at, "BlockStored") ||
           has(at, &block_size, MCI_UNPACK_INTEGER, offset_out);
}

bool lint_has_hashes(const struct lint_place *at, uint32_t *offset_out)
{
    return !has_tag(at, "BlockStored") ||
           has(at, &block_hashes, MCI_UNPACK_ARRAY, offset_out);
}

bool lint_removed_has_hashes(const struct lint_place *at, uint32_t *offset_out)
{
    return !has_tag(at, "BlockRemoved") ||
           has(at, &block_hashes, MCI_UNPACK_ARRAY, offset_out);
}

/* What has no list at all is told by lint_has_hashes. */
bool lint_has_blocks(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, &block_hashes);
    bool is_of_blocks =
        has_tag(at, "BlockStored") || has_tag(at, "BlockRemoved");
    return !is_of_blocks || index == 0 ||
           lint_value_of(at, index)->kind != MCI_UNPACK_ARRAY ||
           lint_value_of(at, index)->count > 0 ||
           lint_broken(at, index, offset_out);
}

bool lint_is_local(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, &locality);
    return index == 0 || lint_value_of(at, index)->kind == MCI_UNPACK_NIL ||
           lint_is_text(lint_value_of(at, index), "LOCAL") ||
           lint_broken(at, index, offset_out);
}

bool lint_group_is_not_negative(const struct lint_place *at,
                                uint32_t *offset_out)
{
    uint32_t index = field(at, &group_idx);
    return index == 0 || !lint_value_of(at, index)->is_negative ||
           lint_broken(at, index, offset_out);
}

/* BlockStored up to lora_id, BlockRemoved up to its hashes. */
bool lint_has_fields_of_array(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t count = lint_value_of(at, at->event)->count;
    uint32_t needed = has_tag(at, "BlockStored")    ? 6
                      : has_tag(at, "BlockRemoved") ? 2
                                                    : 1;
    return count >= needed || lint_broken(at, at->event, offset_out);
}

/* Those that may be nil but not left out. */
bool lint_has_fields_of_map(const struct lint_place *at, uint32_t *offset_out)
{
    static const char *const of_stored[] = {"parent_block_hash", "lora_id",
                                            "medium", "lora_name"};
    const struct lint_tree *tree = at->message->tree;
    bool is_good = true;
    if (has_tag(at, "BlockStored")) {
        for (size_t i = 0; i < sizeof of_stored / sizeof of_stored[0]; i++) {
            is_good = is_good && lint_tree_find(tree, at->event, of_stored[i]);
        }
    } else if (has_tag(at, "BlockRemoved")) {
        is_good = lint_tree_find(tree, at->event, "medium") != 0;
    }
    return is_good || lint_broken(at, at->event, offset_out);
}
