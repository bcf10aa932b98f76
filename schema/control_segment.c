/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#define MOUNT_FIELDS 10
#define UNMOUNT_FIELDS 2
#define ROW_FIELDS 15

void mci_mount_pack(struct mci_pack *pack, const struct mci_mount *mount)
{
    mci_pack_array(pack, MOUNT_FIELDS);
    mci_pack_u64(pack, mount->id[0]);
    mci_pack_u64(pack, mount->id[1]);
    mci_pack_u64(pack, mount->registration);
    mci_pack_bin(pack, mc_view_make(mount->key, sizeof mount->key));
    mci_pack_u64(pack, mount->bytes);
    mci_pack_u64(pack, mount->base);
    control_name_pack(pack, mount->name);
    control_name_pack(pack, mount->endpoint);
    control_name_pack(pack, mount->shm);
    control_name_pack(pack, mount->protocol);
}

void mci_mount_unpack(struct mci_unpack *unpack, struct mci_mount *mount)
{
    memset(mount, 0, sizeof *mount);
    control_array(unpack, MOUNT_FIELDS);
    mount->id[0] = control_u64(unpack);
    mount->id[1] = control_u64(unpack);
    mount->registration = control_u64(unpack);
    struct mc_view key =
        mci_unpack_bin(unpack, MC_GRANT_KEY_LEN, MC_GRANT_KEY_LEN);
    if (key.data) {
        memcpy(mount->key, key.data, sizeof mount->key);
    }
    mount->bytes = control_u64(unpack);
    mount->base = control_u64(unpack);
    mount->name = control_name(unpack);
    mount->endpoint = control_name_or_nil(unpack);
    mount->shm = control_name_or_nil(unpack);
    mount->protocol = control_name(unpack);
}

void mci_unmount_pack(struct mci_pack *pack, uint32_t segment,
                      uint64_t grace_ms)
{
    mci_pack_array(pack, UNMOUNT_FIELDS);
    mci_pack_u64(pack, segment);
    mci_pack_u64(pack, grace_ms);
}

void mci_unmount_unpack(struct mci_unpack *unpack, uint32_t *segment_out,
                        uint64_t *grace_ms_out)
{
    control_array(unpack, UNMOUNT_FIELDS);
    *segment_out = control_u32(unpack);
    *grace_ms_out = control_u64(unpack);
}

void mci_segment_row_pack(struct mci_pack *pack,
                          const struct mci_segment_row *row)
{
    if (!row) {
        mci_pack_nil(pack);
        return;
    }
    uint8_t *at = control_room(pack, 1 + 10 * PUT_NUMBER_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, ROW_FIELDS);
    at = put_u64(at, row->segment);
    at = put_u64(at, row->client);
    at = put_u64(at, row->incarnation);
    at = put_u64(at, row->registration);
    at = put_u64(at, row->id[0]);
    at = put_u64(at, row->id[1]);
    at = put_u64(at, row->bytes);
    at = put_u64(at, row->used_bytes);
    at = put_u64(at, row->base);
    at = put_u64(at, (uint64_t)row->status);
    control_wrote(pack, at);
    control_name_pack(pack, row->name);
    control_name_pack(pack, row->endpoint);
    control_name_pack(pack, row->shm);
    control_name_pack(pack, row->protocol);
    control_name_pack(pack, row->host_id);
}

bool mci_segment_row_unpack(struct mci_unpack *unpack,
                            struct mci_segment_row *row)
{
    memset(row, 0, sizeof *row);
    if (mci_unpack_took_nil(unpack)) {
        return false;
    }
    control_array(unpack, ROW_FIELDS);
    row->segment = control_u32(unpack);
    row->client = control_u32(unpack);
    row->incarnation = control_u64(unpack);
    row->registration = control_u64(unpack);
    row->id[0] = control_u64(unpack);
    row->id[1] = control_u64(unpack);
    row->bytes = control_u64(unpack);
    row->used_bytes = control_u64(unpack);
    row->base = control_u64(unpack);
    row->status =
        (enum mci_segment_status)mci_unpack_u32(unpack, MCI_SEGMENT_UNMOUNTING);
    row->name = control_name(unpack);
    row->endpoint = control_name_or_nil(unpack);
    row->shm = control_name_or_nil(unpack);
    row->protocol = control_name(unpack);
    row->host_id = control_name_or_nil(unpack);
    return unpack->error == MCI_UNPACK_OK;
}
