/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#define START_FIELDS 2
#define CONFIG_FIELDS 11
#define START_ROW_FIELDS 4
#define STARTED_FIELDS 2
#define END_ROW_FIELDS 4

/* ---- config ------------------------------------------------------------ */

static void pack_preferred(struct mci_pack *pack, const char *name)
{
    struct mc_view text = mc_view_str(name);
    if (!name || text.len > MCI_NAME_LEN_MAX) {
        control_refuse(pack);
        return;
    }
    mci_pack_str(pack, text);
}

static void pack_config(struct mci_pack *pack,
                        const struct mc_replicate_config *config)
{
    size_t count = config->preferred_segment_count;
    if (count > MCI_PREFERRED_MAX || (count && !config->preferred_segments)) {
        control_refuse(pack);
        return;
    }
    mci_pack_array(pack, CONFIG_FIELDS);
    mci_pack_u64(pack, config->replica_num);
    mci_pack_u64(pack, config->nof_replica_num);
    mci_pack_u64(pack, config->dfs_replica_num);
    mci_pack_u64(pack, (uint32_t)config->soft_pin_action);
    mci_pack_u64(pack, config->soft_pin_ttl_ms);
    mci_pack_bool(pack, config->with_hard_pin);
    mci_pack_u64(pack, (uint32_t)config->data_type);
    if (config->preferred_segment) {
        pack_preferred(pack, config->preferred_segment);
    } else {
        mci_pack_nil(pack);
    }
    mci_pack_array(pack, count);
    for (size_t i = 0; i < count; i++) {
        pack_preferred(pack, config->preferred_segments[i]);
    }
    mci_pack_bool(pack, config->prefer_alloc_in_same_node);
    mci_pack_bool(pack, config->checksum);
}

/* A C string of what is sent; a NUL in it cannot have been meant. */
static const char *read_preferred(struct mci_unpack *unpack,
                                  char text[MCI_NAME_LEN_MAX + 1])
{
    struct mc_view name = control_text(unpack, MCI_NAME_LEN_MAX);
    if (unpack->error != MCI_UNPACK_OK) {
        return NULL;
    }
    if (name.len > MCI_NAME_LEN_MAX || memchr(name.data, 0, name.len)) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
        return NULL;
    }
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    return text;
}

static void read_config(struct mci_unpack *unpack, struct mci_config_room *room)
{
    struct mc_replicate_config *config = &room->config;
    control_array(unpack, CONFIG_FIELDS);
    config->replica_num = control_u32(unpack);
    config->nof_replica_num = control_u32(unpack);
    config->dfs_replica_num = control_u32(unpack);
    config->soft_pin_action = (enum mc_soft_pin_action)control_u32(unpack);
    config->soft_pin_ttl_ms = control_u64(unpack);
    config->with_hard_pin = mci_unpack_bool(unpack);
    config->data_type = (enum mc_data_type)control_u32(unpack);
    if (!mci_unpack_took_nil(unpack)) {
        config->preferred_segment =
            read_preferred(unpack, room->names[MCI_PREFERRED_MAX]);
    }
    uint32_t count = mci_unpack_array(unpack, 0, MCI_PREFERRED_MAX);
    for (uint32_t i = 0; i < count; i++) {
        room->preferred[i] = read_preferred(unpack, room->names[i]);
    }
    config->preferred_segments = count ? room->preferred : NULL;
    config->preferred_segment_count = count;
    config->prefer_alloc_in_same_node = mci_unpack_bool(unpack);
    config->checksum = mci_unpack_bool(unpack);
}

/* ---- start ------------------------------------------------------------- */

/* What a text takes at most, as it is sent. */
static size_t text_max(struct mc_view text, size_t limit)
{
    return PUT_HEADER_MAX + (text.len <= limit ? text.len : limit + 1);
}

static uint8_t *put_text_or_nil(uint8_t *at, struct mc_view text, size_t limit)
{
    return put_str_or_nil(at, control_cut(text, limit));
}

static bool is_torn(struct mc_view text)
{
    return !text.data && text.len != 0;
}

static void pack_start_row(struct mci_pack *pack,
                           const struct mci_write_row *row)
{
    if (is_torn(row->session_id) || is_torn(row->group_id)) {
        control_refuse(pack);
        return;
    }
    uint8_t *at = control_room(
        pack, 1 + PUT_NUMBER_MAX + text_max(row->key, MC_KEY_LEN_MAX) +
                  text_max(row->session_id, MC_SESSION_ID_LEN_MAX) +
                  text_max(row->group_id, MC_GROUP_ID_LEN_MAX));
    if (!at) {
        return;
    }
    at = put_array_header(at, START_ROW_FIELDS);
    at = put_str(at, control_cut(row->key, MC_KEY_LEN_MAX));
    at = put_u64(at, row->size);
    at = put_text_or_nil(at, row->session_id, MC_SESSION_ID_LEN_MAX);
    at = put_text_or_nil(at, row->group_id, MC_GROUP_ID_LEN_MAX);
    control_wrote(pack, at);
}

void mci_start_pack(struct mci_pack *pack,
                    const struct mc_replicate_config *config,
                    const struct mci_write_row *rows, size_t count)
{
    mci_pack_array(pack, START_FIELDS);
    if (config) {
        pack_config(pack, config);
    } else {
        mci_pack_nil(pack);
    }
    mci_rows_pack(pack, count);
    for (size_t i = 0; i < count && pack->err == MC_OK; i++) {
        pack_start_row(pack, &rows[i]);
    }
}

uint32_t mci_start_unpack(struct mci_unpack *unpack,
                          struct mci_config_room *room,
                          const struct mc_replicate_config **config_out)
{
    *config_out = NULL;
    memset(&room->config, 0, sizeof room->config);
    control_array(unpack, START_FIELDS);
    if (!mci_unpack_took_nil(unpack)) {
        read_config(unpack, room);
        *config_out = unpack->error == MCI_UNPACK_OK ? &room->config : NULL;
    }
    return mci_rows_unpack(unpack);
}

void mci_start_row_unpack(struct mci_unpack *unpack, struct mci_write_row *row)
{
    memset(row, 0, sizeof *row);
    control_array(unpack, START_ROW_FIELDS);
    row->key = mci_key_unpack(unpack);
    row->size = control_u64(unpack);
    row->session_id = control_text_or_nil(unpack, MC_SESSION_ID_LEN_MAX);
    row->group_id = control_text_or_nil(unpack, MC_GROUP_ID_LEN_MAX);
}

/* ---- started ----------------------------------------------------------- */

void mci_rows_pack(struct mci_pack *pack, size_t count)
{
    if (count > MC_ROWS_MAX) {
        control_refuse(pack);
        return;
    }
    mci_pack_array(pack, count);
}

uint32_t mci_rows_unpack(struct mci_unpack *unpack)
{
    return mci_unpack_array(unpack, 0, MC_ROWS_MAX);
}

uint8_t *control_put_places(uint8_t *at, const struct mci_place *places,
                            const struct mc_grant *grants, uint32_t count)
{
    at = put_array_header(at, count);
    for (uint32_t i = 0; i < count; i++) {
        at = put_array_header(at, 4);
        at = put_u64(at, places[i].segment);
        at = put_u64(at, places[i].offset);
        at = put_u64(at, grants[i].deadline_ns);
        at = put_u64(at, grants[i].tag);
    }
    return at;
}

uint32_t control_read_places(struct mci_unpack *unpack,
                             struct mci_place *places, struct mc_grant *grants)
{
    uint32_t count = mci_unpack_array(unpack, 0, MCI_REPLICAS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        control_array(unpack, 4);
        places[i].segment = control_u32(unpack);
        places[i].offset = control_u64(unpack);
        grants[i].deadline_ns = control_u64(unpack);
        grants[i].tag = control_u64(unpack);
    }
    return unpack->error == MCI_UNPACK_OK ? count : 0;
}

bool control_took_code(struct mci_unpack *unpack, enum mc_err *code_out)
{
    *code_out = MC_OK;
    if (unpack->error == MCI_UNPACK_OK && unpack->at < unpack->end &&
        (*unpack->at & 0xf0) == 0x90) {
        return false; /* a short array, as almost all rows are */
    }
    if (mci_unpack_peek(unpack) == MCI_UNPACK_INTEGER) {
        *code_out = (enum mc_err)mci_unpack_i64(unpack, INT32_MIN, -1);
        if (unpack->error == MCI_UNPACK_OK) {
            return true;
        }
    }
    if (unpack->error == MCI_UNPACK_OK) {
        return false;
    }
    *code_out = MC_ERR_INTERNAL_ERROR;
    return true;
}

void mci_started_pack(struct mci_pack *pack, const struct mci_write_row *row)
{
    if (row->err != MC_OK) {
        mci_pack_i64(pack, row->err);
        return;
    }
    if (row->place_count > MCI_REPLICAS_MAX) {
        control_refuse(pack);
        return;
    }
    uint8_t *at = control_room(pack, 1 + PUT_NUMBER_MAX + CONTROL_PLACES_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, STARTED_FIELDS);
    at = put_u64(at, row->attempt.number);
    control_wrote(pack, control_put_places(at, row->places, row->grants,
                                           row->place_count));
}

void mci_started_unpack(struct mci_unpack *unpack, uint64_t epoch,
                        struct mci_write_row *row)
{
    row->attempt.epoch = epoch;
    row->attempt.number = 0;
    row->place_count = 0;
    if (control_took_code(unpack, &row->err)) {
        return;
    }
    control_array(unpack, STARTED_FIELDS);
    uint64_t number = control_u64(unpack);
    uint32_t count = control_read_places(unpack, row->places, row->grants);
    if (unpack->error != MCI_UNPACK_OK) {
        row->err = MC_ERR_INTERNAL_ERROR;
        return;
    }
    row->attempt.number = number;
    row->place_count = count;
}

/* ---- end --------------------------------------------------------------- */

void mci_end_row_pack(struct mci_pack *pack, const struct mci_write_row *row)
{
    if (row->place_count > MCI_REPLICAS_MAX) {
        control_refuse(pack);
        return;
    }
    uint8_t *at =
        control_room(pack, 3 + text_max(row->key, MC_KEY_LEN_MAX) +
                               (1 + MCI_REPLICAS_MAX) * PUT_NUMBER_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, END_ROW_FIELDS);
    at = put_str(at, control_cut(row->key, MC_KEY_LEN_MAX));
    at = put_u64(at, row->attempt.number);
    at = put_byte(at, row->in_doubt ? 0xc3 : 0xc2);
    at = put_array_header(at, row->place_count);
    for (uint32_t i = 0; i < row->place_count; i++) {
        at = put_u64(at, row->receipts[i]);
    }
    control_wrote(pack, at);
}

void mci_end_row_unpack(struct mci_unpack *unpack, uint64_t epoch,
                        struct mci_write_row *row)
{
    memset(row, 0, sizeof *row);
    control_array(unpack, END_ROW_FIELDS);
    row->key = mci_key_unpack(unpack);
    row->attempt.epoch = epoch;
    row->attempt.number = control_u64(unpack);
    row->in_doubt = mci_unpack_bool(unpack);
    row->place_count = mci_unpack_array(unpack, 0, MCI_REPLICAS_MAX);
    for (uint32_t i = 0; i < row->place_count; i++) {
        row->receipts[i] = control_u64(unpack);
    }
}
