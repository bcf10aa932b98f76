/* SPDX-License-Identifier: Apache-2.0 */
/* A request may name 65 536 keys, so what is done per key is kept small: room is
 * made once per list, or once per row of an answer. */
#include "control.h"

#define READ_FIELDS 5
#define NAMED_FIELDS 7 /* of a read with a named lease */
#define PROBE_FIELDS 6

void mci_keys_pack(struct mci_pack *pack, const struct mc_view *keys,
                   size_t count)
{
    mci_rows_pack(pack, count);
    if (pack->err != MC_OK) {
        return;
    }
    size_t len = count * PUT_HEADER_MAX;
    for (size_t i = 0; i < count; i++) {
        len += keys[i].len <= MC_KEY_LEN_MAX ? keys[i].len : MC_KEY_LEN_MAX + 1;
    }
    uint8_t *at = control_room(pack, len);
    if (!at) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        at = put_str(at, control_cut(keys[i], MC_KEY_LEN_MAX));
    }
    control_wrote(pack, at);
}

/* The forms that keys have nearly always are read here. */
struct mc_view mci_key_unpack(struct mci_unpack *unpack)
{
    const uint8_t *at = unpack->at;
    size_t left = (size_t)(unpack->end - at);
    if (unpack->error == MCI_UNPACK_OK && left > 2) {
        size_t header = *at == 0xd9 ? 2 : 1;
        size_t len = header == 2 ? at[1] : *at ^ 0xa0U;
        if ((header == 2 || len < 32) && len <= left - header) {
            unpack->at = at + header + len;
            return mc_view_make(at + header, len);
        }
    }
    return control_text(unpack, MC_KEY_LEN_MAX);
}

void mci_reads_pack(struct mci_pack *pack, bool is_named, size_t count)
{
    if (is_named) {
        mci_pack_array(pack, 2);
        mci_pack_bool(pack, true);
    }
    mci_rows_pack(pack, count);
}

/* No key is a bool, so a list of two keys is told from a flag and a list. */
uint32_t mci_reads_unpack(struct mci_unpack *unpack, bool *is_named_out)
{
    uint32_t count = mci_rows_unpack(unpack);
    *is_named_out = count == 2 && mci_unpack_peek(unpack) == MCI_UNPACK_BOOL;
    if (!*is_named_out) {
        return count;
    }
    if (!mci_unpack_bool(unpack)) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_RANGE);
    }
    return mci_rows_unpack(unpack);
}

static void pack_forced(struct mci_pack *pack, bool force)
{
    mci_pack_array(pack, 2);
    mci_pack_bool(pack, force);
}

void mci_remove_pack(struct mci_pack *pack, bool force,
                     const struct mc_view *keys, size_t count)
{
    pack_forced(pack, force);
    mci_keys_pack(pack, keys, count);
}

uint32_t mci_remove_unpack(struct mci_unpack *unpack, bool *force_out)
{
    control_array(unpack, 2);
    *force_out = mci_unpack_bool(unpack);
    return mci_rows_unpack(unpack);
}

void mci_regex_pack(struct mci_pack *pack, bool force, struct mc_view regex)
{
    pack_forced(pack, force);
    mci_pack_str(pack, control_cut(regex, MCI_REGEX_LEN_MAX));
}

struct mc_view mci_regex_unpack(struct mci_unpack *unpack, bool *force_out)
{
    control_array(unpack, 2);
    *force_out = mci_unpack_bool(unpack);
    return control_text(unpack, MCI_REGEX_LEN_MAX);
}

void mci_clear_pack(struct mci_pack *pack, uint32_t segment,
                    const struct mc_view *keys, size_t count)
{
    mci_pack_array(pack, 2);
    mci_pack_u64(pack, segment);
    mci_keys_pack(pack, keys, count);
}

uint32_t mci_clear_unpack(struct mci_unpack *unpack, uint32_t *segment_out)
{
    control_array(unpack, 2);
    *segment_out = control_u32(unpack);
    return mci_rows_unpack(unpack);
}

void mci_touch_row_pack(struct mci_pack *pack, struct mc_view key,
                        uint64_t number)
{
    mci_pack_array(pack, 2);
    mci_pack_str(pack, control_cut(key, MC_KEY_LEN_MAX));
    mci_pack_u64(pack, number);
}

struct mc_view mci_touch_row_unpack(struct mci_unpack *unpack,
                                    uint64_t *number_out)
{
    control_array(unpack, 2);
    struct mc_view key = mci_key_unpack(unpack);
    *number_out = control_u64(unpack);
    return key;
}

/* ---- answers ----------------------------------------------------------- */

void mci_read_row_pack(struct mci_pack *pack, const struct mci_read_row *row)
{
    if (row->err != MC_OK) {
        mci_pack_i64(pack, row->err);
        return;
    }
    if (row->place_count > MCI_REPLICAS_MAX) {
        control_refuse(pack);
        return;
    }
    bool is_named = row->lease.number != 0;
    uint8_t *at =
        control_room(pack, 1 + 6 * PUT_NUMBER_MAX + CONTROL_PLACES_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, is_named ? NAMED_FIELDS : READ_FIELDS);
    at = put_u64(at, row->size);
    at = put_u64(at, row->version);
    at = put_u64(at, control_told(row));
    at = put_u64(at, row->lease_left_ns);
    at = control_put_places(at, row->places, row->grants, row->place_count);
    if (is_named) {
        at = put_u64(at, row->lease.number);
        at = put_u64(at, row->lease.ref);
    }
    control_wrote(pack, at);
}

void mci_read_row_unpack(struct mci_unpack *unpack, struct mci_read_row *row)
{
    row->place_count = 0;
    row->hold = (struct mci_hold){0};
    row->lease = (struct mci_lease){.number = 0};
    row->media = 0;
    row->has_sums = false;
    row->size = 0;
    row->version = 0;
    row->lease_left_ns = 0;
    if (control_took_code(unpack, &row->err)) {
        return;
    }
    uint32_t fields = control_fields(unpack, READ_FIELDS, NAMED_FIELDS);
    row->size = control_u64(unpack);
    row->version = control_u64(unpack);
    control_take_told(unpack, row, control_u32(unpack));
    row->lease_left_ns = control_u64(unpack);
    row->place_count = control_read_places(unpack, row->places, row->grants);
    if (fields == NAMED_FIELDS) {
        row->lease.number = control_u64(unpack);
        row->lease.ref = control_u64(unpack);
    }
    if (unpack->error != MCI_UNPACK_OK) {
        row->err = MC_ERR_INTERNAL_ERROR;
    }
}

void mci_probe_pack(struct mci_pack *pack, const struct mc_probe *probe,
                    int64_t result)
{
    if (result < 0) {
        mci_pack_i64(pack, result);
        return;
    }
    if (probe->session_len > MC_SESSION_ID_LEN_MAX) {
        control_refuse(pack);
        return;
    }
    uint8_t *at = control_room(pack, 1 + 5 * PUT_NUMBER_MAX + PUT_HEADER_MAX +
                                         MC_SESSION_ID_LEN_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, PROBE_FIELDS);
    at = put_u64(at, (uint64_t)probe->state);
    at = put_u64(at, probe->media);
    at = put_u64(at, probe->size);
    at = put_u64(at, probe->version);
    at = put_u64(at, probe->lease_ms);
    at = put_str_or_nil(at, mc_view_make(probe->session, probe->session_len));
    control_wrote(pack, at);
}

int64_t mci_probe_unpack(struct mci_unpack *unpack, struct mc_probe *probe)
{
    enum mc_err code;
    memset(probe, 0, sizeof *probe);
    if (control_took_code(unpack, &code)) {
        return code;
    }
    control_array(unpack, PROBE_FIELDS);
    unsigned state = mci_unpack_u32(unpack, MC_OBJECT_READABLE);
    unsigned media = control_u32(unpack);
    uint64_t size = control_u64(unpack);
    uint64_t version = control_u64(unpack);
    uint64_t lease_ms = control_u64(unpack);
    struct mc_view session =
        mci_unpack_str_or_nil(unpack, MC_SESSION_ID_LEN_MAX);
    if (unpack->error != MCI_UNPACK_OK) {
        return MC_ERR_INTERNAL_ERROR;
    }
    probe->state = (enum mc_object_state)state;
    probe->media = media;
    probe->size = size;
    probe->version = version;
    probe->lease_ms = lease_ms;
    probe->session_len = session.len;
    if (session.len != 0) {
        memcpy(probe->session, session.data, session.len);
    }
    return MC_OK;
}

void mci_results_pack(struct mci_pack *pack, const int64_t *results,
                      size_t count)
{
    mci_rows_pack(pack, count);
    mci_results_more(pack, results, count);
}

void mci_results_more(struct mci_pack *pack, const int64_t *results,
                      size_t count)
{
    uint8_t *at = control_room(pack, count * PUT_NUMBER_MAX);
    if (!at) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        at = put_i64(at, results[i]);
    }
    control_wrote(pack, at);
}

int64_t mci_result_unpack(struct mci_unpack *unpack)
{
    if (unpack->error == MCI_UNPACK_OK && unpack->at < unpack->end &&
        *unpack->at < 0x80) {
        return *unpack->at++;
    }
    return mci_unpack_i64(unpack, INT64_MIN, INT64_MAX);
}
