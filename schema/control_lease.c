/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#define LEASE_FIELDS 3
#define RENEWED_FIELDS 4

void mci_lease_row_pack(struct mci_pack *pack, const struct mci_read_row *row)
{
    uint8_t *at = control_room(pack, 1 + LEASE_FIELDS * PUT_NUMBER_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, LEASE_FIELDS);
    at = put_u64(at, row->lease.number);
    at = put_u64(at, row->lease.ref);
    control_wrote(pack, put_u64(at, row->version));
}

void mci_lease_row_unpack(struct mci_unpack *unpack, uint64_t epoch,
                          struct mci_read_row *row)
{
    control_array(unpack, LEASE_FIELDS);
    row->lease.epoch = epoch;
    row->lease.number = control_u64(unpack);
    row->lease.ref = control_u64(unpack);
    row->version = control_u64(unpack);
}

void mci_renewed_pack(struct mci_pack *pack, const struct mci_read_row *row)
{
    if (row->err != MC_OK) {
        mci_pack_i64(pack, row->err);
        return;
    }
    if (row->place_count > MCI_REPLICAS_MAX) {
        control_refuse(pack);
        return;
    }
    uint8_t *at =
        control_room(pack, 1 + 3 * PUT_NUMBER_MAX + CONTROL_PLACES_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, RENEWED_FIELDS);
    at = put_u64(at, row->size);
    at = put_u64(at, control_told(row));
    at = put_u64(at, row->lease_left_ns);
    control_wrote(pack, control_put_places(at, row->places, row->grants,
                                           row->place_count));
}

void mci_renewed_unpack(struct mci_unpack *unpack, struct mci_read_row *row)
{
    row->place_count = 0;
    row->hold = (struct mci_hold){0};
    row->media = 0;
    row->has_sums = false;
    row->size = 0;
    row->lease_left_ns = 0;
    if (control_took_code(unpack, &row->err)) {
        return;
    }
    control_array(unpack, RENEWED_FIELDS);
    row->size = control_u64(unpack);
    control_take_told(unpack, row, control_u32(unpack));
    row->lease_left_ns = control_u64(unpack);
    row->place_count = control_read_places(unpack, row->places, row->grants);
    if (unpack->error != MCI_UNPACK_OK) {
        row->err = MC_ERR_INTERNAL_ERROR;
    }
}
