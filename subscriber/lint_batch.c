/* SPDX-License-Identifier: Apache-2.0 */
/* What consumers ask of a message as a whole. */
#include <string.h>

#include "lint_rules.h"
#include "mci_bytes.h"

#define MIB (1u << 20)
#define EVENTS_MAX 4096

static uint32_t element(const struct lint_message *message, uint32_t place)
{
    return lint_tree_at(message->tree, 0, place);
}

bool lint_stage_is_passed(const struct lint_message *message,
                          enum lint_stage stage)
{
    switch (stage) {
    case LINT_OF_FRAMES:
        return message->frame_count == 3;
    case LINT_OF_PAYLOAD:
        return message->fault == MCI_UNPACK_OK;
    default:
        return element(message, 1) != 0 &&
               message->tree->values[element(message, 1)].kind ==
                   MCI_UNPACK_ARRAY;
    }
}

/* ---- frames ------------------------------------------------------------ */

bool lint_has_three_frames(const struct lint_place *at, uint32_t *offset_out)
{
    (void)offset_out;
    return at->message->frame_count == 3;
}

bool lint_seq_is_8_bytes(const struct lint_place *at, uint32_t *offset_out)
{
    (void)offset_out;
    return at->message->frame_count < 2 || at->message->frames[1].len == 8;
}

bool lint_seq_has_8_bytes(const struct lint_place *at, uint32_t *offset_out)
{
    (void)offset_out;
    return at->message->frame_count < 2 || at->message->frames[1].len >= 8;
}

bool lint_seq_fits_63_bits(const struct lint_place *at, uint32_t *offset_out)
{
    (void)offset_out;
    return at->message->frame_count < 2 || at->message->frames[1].len != 8 ||
           mci_get_be64(at->message->frames[1].data) <= INT64_MAX;
}

static bool topic_begins(const struct lint_message *message, const char *text)
{
    size_t len = strlen(text);
    return message->frame_count == 0 ||
           (message->frames[0].len >= len &&
            memcmp(message->frames[0].data, text, len) == 0);
}

bool lint_topic_is_kv_at(const struct lint_place *at, uint32_t *offset_out)
{
    (void)offset_out;
    return topic_begins(at->message, "kv@");
}

bool lint_topic_is_kv_events(const struct lint_place *at, uint32_t *offset_out)
{
    (void)offset_out;
    return topic_begins(at->message, "kv-events");
}

bool lint_fits_1_mib(const struct lint_place *at, uint32_t *offset_out)
{
    uint64_t sum = 0;
    (void)offset_out;
    for (size_t i = 0; i < at->message->frame_count; i++) {
        sum += at->message->frames[i].len;
    }
    return sum <= MIB;
}

/* ---- the payload ------------------------------------------------------- */

bool lint_is_msgpack(const struct lint_place *at, uint32_t *offset_out)
{
    *offset_out = at->message->fault_offset;
    return at->message->fault == MCI_UNPACK_OK;
}

bool lint_is_array(const struct lint_place *at, uint32_t *offset_out)
{
    (void)offset_out;
    return element(at->message, 1) != 0;
}

/* What is no array is told by lint_is_array. */
bool lint_has_three(const struct lint_place *at, uint32_t *offset_out)
{
    (void)offset_out;
    return element(at->message, 1) == 0 || lint_value_of(at, 0)->count == 3;
}

bool lint_timestamp_is_integer(const struct lint_place *at,
                               uint32_t *offset_out)
{
    uint32_t index = element(at->message, 0);
    const struct lint_value *time = lint_value_of(at, index);
    return (time->kind == MCI_UNPACK_INTEGER &&
            (time->is_negative || time->number <= INT64_MAX)) ||
           lint_broken(at, index, offset_out);
}

bool lint_timestamp_is_number(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = element(at->message, 0);
    enum mci_unpack_kind kind = lint_value_of(at, index)->kind;
    return kind == MCI_UNPACK_INTEGER || kind == MCI_UNPACK_FLOAT ||
           lint_broken(at, index, offset_out);
}

/* One that is left out is told by lint_has_three. */
bool lint_rank_is_u32(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = element(at->message, 2);
    const struct lint_value *rank = lint_value_of(at, index);
    return index == 0 ||
           (rank->kind == MCI_UNPACK_INTEGER && !rank->is_negative &&
            rank->number <= UINT32_MAX) ||
           lint_broken(at, index, offset_out);
}

bool lint_rank_is_i32_or_nil(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = element(at->message, 2);
    const struct lint_value *rank = lint_value_of(at, index);
    int64_t number = (int64_t)rank->number;
    bool fits =
        rank->kind == MCI_UNPACK_INTEGER &&
        (rank->is_negative ? number >= INT32_MIN : rank->number <= INT32_MAX);
    return index == 0 || rank->kind == MCI_UNPACK_NIL || fits ||
           lint_broken(at, index, offset_out);
}

bool lint_events_are_a_list(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = element(at->message, 1);
    return index == 0 || lint_value_of(at, index)->kind == MCI_UNPACK_ARRAY ||
           lint_broken(at, index, offset_out);
}

bool lint_events_are_few(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = element(at->message, 1);
    return index == 0 || lint_value_of(at, index)->count <= EVENTS_MAX ||
           lint_broken(at, index, offset_out);
}
