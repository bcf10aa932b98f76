/* SPDX-License-Identifier: Apache-2.0 */
/* lint_rules.h - the rules as a table: whose, what it is called, what breaking
 * it costs, and a function that looks.
 *
 * A rule of a stage is looked at only where the stages before were good enough
 * to go on: three frames, msgpack, an array, a list of events. A gate ends what
 * is said to a consumer about the same event: an event of another form, or of
 * another tenant, is not judged further.
 * Threads: pure functions.
 */
#ifndef LINT_RULES_H
#define LINT_RULES_H
#include "lint.h"
#include "lint_tree.h"

enum lint_stage {
    LINT_OF_FRAMES,
    LINT_OF_PAYLOAD,
    LINT_OF_BATCH,
    LINT_OF_EVENT
};

struct lint_message {
    const struct mc_view *frames;
    size_t frame_count;
    enum mci_unpack_error fault; /* of the payload */
    uint32_t fault_offset;
    const struct lint_tree *tree; /* values[0]: the batch */
};

/* What a rule is judged on. */
struct lint_place {
    const struct lint_message *message;
    uint32_t event; /* its value, for rules of events */
};

/* True: it holds. Else *offset_out, 0 before, may be set. */
typedef bool (*lint_check_fn)(const struct lint_place *at,
                              uint32_t *offset_out);

struct lint_rule {
    const char *name;
    uint32_t consumers; /* bits */
    enum lint_stage stage;
    enum lint_cost cost;
    bool is_gate;
    lint_check_fn holds;
    const char *text;
};

extern const struct lint_rule lint_rules[];
extern const size_t lint_rule_count;

#define LINT_BIT(consumer) (1u << (unsigned)(consumer))

/* ---- of a message: lint_batch.c --------------------------------------- */

/* Good enough to go on from this stage? */
bool lint_stage_is_passed(const struct lint_message *message,
                          enum lint_stage stage);

bool lint_has_three_frames(const struct lint_place *at, uint32_t *offset_out);
bool lint_seq_is_8_bytes(const struct lint_place *at, uint32_t *offset_out);
bool lint_seq_has_8_bytes(const struct lint_place *at, uint32_t *offset_out);
bool lint_seq_fits_63_bits(const struct lint_place *at, uint32_t *offset_out);
bool lint_topic_is_kv_at(const struct lint_place *at, uint32_t *offset_out);
bool lint_topic_is_kv_events(const struct lint_place *at, uint32_t *offset_out);
bool lint_fits_1_mib(const struct lint_place *at, uint32_t *offset_out);
bool lint_is_msgpack(const struct lint_place *at, uint32_t *offset_out);
bool lint_is_array(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_three(const struct lint_place *at, uint32_t *offset_out);
bool lint_timestamp_is_integer(const struct lint_place *at,
                               uint32_t *offset_out);
bool lint_timestamp_is_number(const struct lint_place *at,
                              uint32_t *offset_out);
bool lint_rank_is_u32(const struct lint_place *at, uint32_t *offset_out);
bool lint_rank_is_i32_or_nil(const struct lint_place *at, uint32_t *offset_out);
bool lint_events_are_a_list(const struct lint_place *at, uint32_t *offset_out);
bool lint_events_are_few(const struct lint_place *at, uint32_t *offset_out);

/* ---- of an event of a store: lint_store.c ------------------------------ */

bool lint_event_is_map(const struct lint_place *at, uint32_t *offset_out);
bool lint_event_type_is_str(const struct lint_place *at, uint32_t *offset_out);
bool lint_tenant_is_not_nil(const struct lint_place *at, uint32_t *offset_out);
bool lint_key_is_text(const struct lint_place *at, uint32_t *offset_out);
bool lint_group_is_text(const struct lint_place *at, uint32_t *offset_out);
bool lint_medium_is_text(const struct lint_place *at, uint32_t *offset_out);
bool lint_no_field_twice(const struct lint_place *at, uint32_t *offset_out);
bool lint_fields_are_utf8(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_key(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_key_or_is_clear(const struct lint_place *at,
                              uint32_t *offset_out);
bool lint_tenant_is_default(const struct lint_place *at, uint32_t *offset_out);
bool lint_key_has_prefix(const struct lint_place *at, uint32_t *offset_out);
bool lint_key_has_digest(const struct lint_place *at, uint32_t *offset_out);
bool lint_medium_is_exact(const struct lint_place *at, uint32_t *offset_out);
bool lint_keyed_type_is_known(const struct lint_place *at,
                              uint32_t *offset_out);
bool lint_is_of_store(const struct lint_place *at, uint32_t *offset_out);
bool lint_group_is_zero(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_names(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_model(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_block_size(const struct lint_place *at, uint32_t *offset_out);
bool lint_medium_is_known(const struct lint_place *at, uint32_t *offset_out);
bool lint_key_is_vllm(const struct lint_place *at, uint32_t *offset_out);
bool lint_key_is_sglang(const struct lint_place *at, uint32_t *offset_out);
bool lint_seq_hashes_agree(const struct lint_place *at, uint32_t *offset_out);

/* ---- of an event in an engine's words: lint_engine.c ------------------- */

bool lint_event_is_array(const struct lint_place *at, uint32_t *offset_out);
bool lint_is_tagged(const struct lint_place *at, uint32_t *offset_out);
bool lint_tag_is_known(const struct lint_place *at, uint32_t *offset_out);
bool lint_tag_is_vllm(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_tokens(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_size(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_hashes(const struct lint_place *at, uint32_t *offset_out);
bool lint_removed_has_hashes(const struct lint_place *at, uint32_t *offset_out);
bool lint_has_blocks(const struct lint_place *at, uint32_t *offset_out);
bool lint_is_local(const struct lint_place *at, uint32_t *offset_out);
bool lint_group_is_not_negative(const struct lint_place *at,
                                uint32_t *offset_out);
bool lint_has_fields_of_array(const struct lint_place *at,
                              uint32_t *offset_out);
bool lint_has_fields_of_map(const struct lint_place *at, uint32_t *offset_out);

/* ---- what they share --------------------------------------------------- */

static inline const struct lint_value *
lint_value_of(const struct lint_place *at, uint32_t index)
{
    return &at->message->tree->values[index];
}

/* The value at `index` is where the fault is. Always false. */
static inline bool lint_broken(const struct lint_place *at, uint32_t index,
                               uint32_t *offset_out)
{
    *offset_out = lint_value_of(at, index)->offset;
    return false;
}

static inline bool lint_is_text(const struct lint_value *value,
                                const char *text)
{
    return value->kind == MCI_UNPACK_STR &&
           mc_view_equal(value->bytes, mc_view_str(text));
}
#endif
