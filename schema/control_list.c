/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#define ARGS_FIELDS 3
#define RESULT_FIELDS 4
#define ROW_FIELDS (8 + MC_MEDIUM_COUNT)
#define STAT_FIELDS 3
#define STAT_WORDS_SENT_MAX 4096 /* by a later version */

void mci_list_args_pack(struct mci_pack *pack, const struct mci_list_head *head)
{
    mci_pack_array(pack, ARGS_FIELDS);
    mci_pack_u64(pack, head->shard);
    mci_pack_u64(pack, head->tag);
    mci_pack_bool(pack, head->is_all);
}

void mci_list_args_unpack(struct mci_unpack *unpack, struct mci_list_head *head)
{
    control_array(unpack, ARGS_FIELDS);
    head->shard = control_u32(unpack);
    head->tag = control_u32(unpack);
    head->at_end = false;
    head->is_all = mci_unpack_bool(unpack);
}

void mci_list_pack(struct mci_pack *pack, const struct mci_list_head *head,
                   size_t count)
{
    mci_pack_array(pack, RESULT_FIELDS);
    mci_pack_u64(pack, head->shard);
    mci_pack_u64(pack, head->tag);
    mci_pack_bool(pack, head->at_end);
    mci_rows_pack(pack, count);
}

uint32_t mci_list_unpack(struct mci_unpack *unpack, struct mci_list_head *head)
{
    control_array(unpack, RESULT_FIELDS);
    head->shard = control_u32(unpack);
    head->tag = control_u32(unpack);
    head->at_end = mci_unpack_bool(unpack);
    head->is_all = false;
    return mci_rows_unpack(unpack);
}

void mci_object_row_pack(struct mci_pack *pack, const struct mc_object_row *row,
                         const uint64_t media_ids[MC_MEDIUM_COUNT])
{
    mci_pack_array(pack, ROW_FIELDS);
    mci_pack_str(pack, control_cut(row->tenant_id, MC_TENANT_LEN_MAX));
    mci_pack_str(pack, control_cut(row->key, MC_KEY_LEN_MAX));
    control_text_pack(pack, row->group_id, MC_GROUP_ID_LEN_MAX);
    control_text_pack(pack, row->session_id, MC_SESSION_ID_LEN_MAX);
    uint8_t *at = control_room(pack, (4 + MC_MEDIUM_COUNT) * PUT_NUMBER_MAX);
    if (!at) {
        return;
    }
    at = put_u64(at, row->media);
    at = put_u64(at, row->size);
    at = put_u64(at, row->version);
    at = put_u64(at, row->last_event_id);
    for (size_t i = 0; i < MC_MEDIUM_COUNT; i++) {
        at = put_u64(at, media_ids[i]);
    }
    control_wrote(pack, at);
}

/* What a list shows was judged when it was stored, so it is held to its limits
 * here. */
void mci_object_row_unpack(struct mci_unpack *unpack, struct mc_object_row *row,
                           uint64_t media_ids_out[MC_MEDIUM_COUNT])
{
    memset(row, 0, sizeof *row);
    control_array(unpack, ROW_FIELDS);
    row->tenant_id = mci_unpack_str(unpack, MC_TENANT_LEN_MAX);
    row->key = mci_unpack_str(unpack, MC_KEY_LEN_MAX);
    row->group_id = mci_unpack_str_or_nil(unpack, MC_GROUP_ID_LEN_MAX);
    row->session_id = mci_unpack_str_or_nil(unpack, MC_SESSION_ID_LEN_MAX);
    row->media = control_u32(unpack);
    row->size = control_u64(unpack);
    row->version = control_u64(unpack);
    row->last_event_id = control_u64(unpack);
    for (size_t i = 0; i < MC_MEDIUM_COUNT; i++) {
        media_ids_out[i] = control_u64(unpack);
    }
}

void mci_stat_pack(struct mci_pack *pack, const struct mci_stat_words *stat)
{
    if (stat->count > MCI_STAT_WORDS_MAX) {
        control_refuse(pack);
        return;
    }
    mci_pack_array(pack, STAT_FIELDS);
    mci_pack_array(pack, stat->count);
    for (uint32_t i = 0; i < stat->count; i++) {
        mci_pack_u64(pack, stat->words[i]);
    }
    control_name_pack(pack, stat->events_endpoint);
    control_name_pack(pack, stat->recovery_endpoint);
}

void mci_stat_unpack(struct mci_unpack *unpack, struct mci_stat_words *stat)
{
    memset(stat, 0, sizeof *stat);
    control_array(unpack, STAT_FIELDS);
    uint32_t count = mci_unpack_array(unpack, 0, STAT_WORDS_SENT_MAX);
    for (uint32_t i = 0; i < count && unpack->error == MCI_UNPACK_OK; i++) {
        uint64_t word = control_u64(unpack);
        if (i < MCI_STAT_WORDS_MAX) {
            stat->words[i] = word;
        }
    }
    stat->count = count < MCI_STAT_WORDS_MAX ? count : MCI_STAT_WORDS_MAX;
    stat->events_endpoint = control_name_or_nil(unpack);
    stat->recovery_endpoint = control_name_or_nil(unpack);
}
