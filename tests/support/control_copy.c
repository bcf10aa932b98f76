/* SPDX-License-Identifier: Apache-2.0 */
#include "control_copy.h"

#include <string.h>

static bool is_sound(const struct mci_unpack *unpack)
{
    return unpack->error == MCI_UNPACK_OK;
}

static void copy_nil(struct mci_unpack *unpack, struct mci_pack *pack)
{
    mci_unpack_nil(unpack);
    mci_pack_nil(pack);
}

typedef void (*copy_fn)(struct mci_unpack *unpack, struct mci_pack *pack);

static void copy_rows(struct mci_unpack *unpack, struct mci_pack *pack,
                      copy_fn copy_row)
{
    uint32_t count = mci_rows_unpack(unpack);
    mci_rows_pack(pack, count);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        copy_row(unpack, pack);
    }
}

static void copy_keys(struct mci_unpack *unpack, struct mci_pack *pack,
                      uint32_t count)
{
    static struct mc_view keys[MC_ROWS_MAX];
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        keys[i] = mci_key_unpack(unpack);
    }
    if (is_sound(unpack)) {
        mci_keys_pack(pack, keys, count);
    }
}

static void copy_reads(struct mci_unpack *unpack, struct mci_pack *pack)
{
    bool is_named = false;
    uint32_t count = mci_reads_unpack(unpack, &is_named);
    mci_reads_pack(pack, is_named, count);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        mci_pack_str(pack, mci_key_unpack(unpack));
    }
}

static void copy_lease(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_read_row row;
    mci_lease_row_unpack(unpack, 7, &row);
    mci_lease_row_pack(pack, &row);
}

static void copy_number(struct mci_unpack *unpack, struct mci_pack *pack)
{
    mci_pack_u64(pack, mci_unpack_u64(unpack, UINT64_MAX));
}

static void copy_results(struct mci_unpack *unpack, struct mci_pack *pack)
{
    static int64_t results[MC_ROWS_MAX];
    uint32_t count = mci_rows_unpack(unpack);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        results[i] = mci_result_unpack(unpack);
    }
    mci_results_pack(pack, results, is_sound(unpack) ? count : 0);
}

/* ---- args -------------------------------------------------------------- */

static void copy_hello(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_hello hello;
    mci_hello_unpack(unpack, &hello);
    mci_hello_pack(pack, &hello);
}

static void copy_heartbeat(struct mci_unpack *unpack, struct mci_pack *pack)
{
    static struct mci_known_attempt attempts[MC_ATTEMPTS_MAX];
    static struct mci_stuck stuck[MC_ATTEMPTS_MAX];
    struct mci_heartbeat_room room = {.attempts = attempts, .stuck = stuck};
    struct mci_heartbeat heartbeat;
    mci_heartbeat_unpack(unpack, &room, &heartbeat);
    mci_heartbeat_pack(pack, &heartbeat);
}

static void copy_mount(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_mount mount;
    mci_mount_unpack(unpack, &mount);
    mci_mount_pack(pack, &mount);
}

static void copy_unmount(struct mci_unpack *unpack, struct mci_pack *pack)
{
    uint32_t segment;
    uint64_t grace_ms;
    mci_unmount_unpack(unpack, &segment, &grace_ms);
    mci_unmount_pack(pack, segment, grace_ms);
}

static void copy_status(struct mci_unpack *unpack, struct mci_pack *pack)
{
    (void)mci_unpack_array(unpack, 1, 1);
    mci_pack_array(pack, 1);
    mci_pack_u64(pack, mci_unpack_u32(unpack, UINT32_MAX));
}

static void copy_start(struct mci_unpack *unpack, struct mci_pack *pack)
{
    static struct mci_write_row rows[MC_ROWS_MAX];
    struct mci_config_room room;
    const struct mc_replicate_config *config;
    uint32_t count = mci_start_unpack(unpack, &room, &config);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        mci_start_row_unpack(unpack, &rows[i]);
    }
    if (is_sound(unpack)) {
        mci_start_pack(pack, config, rows, count);
    }
}

static void copy_end(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_write_row row;
    mci_end_row_unpack(unpack, 7, &row);
    mci_end_row_pack(pack, &row);
}

static void copy_touch(struct mci_unpack *unpack, struct mci_pack *pack)
{
    uint64_t number;
    struct mc_view key = mci_touch_row_unpack(unpack, &number);
    mci_touch_row_pack(pack, key, number);
}

static void copy_remove(struct mci_unpack *unpack, struct mci_pack *pack)
{
    bool force;
    uint32_t count = mci_remove_unpack(unpack, &force);
    mci_pack_array(pack, 2);
    mci_pack_bool(pack, force);
    copy_keys(unpack, pack, count);
}

static void copy_regex(struct mci_unpack *unpack, struct mci_pack *pack)
{
    bool force;
    struct mc_view regex = mci_regex_unpack(unpack, &force);
    mci_regex_pack(pack, force, regex);
}

static void copy_clear(struct mci_unpack *unpack, struct mci_pack *pack)
{
    uint32_t segment;
    uint32_t count = mci_clear_unpack(unpack, &segment);
    mci_pack_array(pack, 2);
    mci_pack_u64(pack, segment);
    copy_keys(unpack, pack, count);
}

static void copy_list_args(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_list_head head;
    mci_list_args_unpack(unpack, &head);
    mci_list_args_pack(pack, &head);
}

static void copy_args(enum mci_op op, struct mci_unpack *unpack,
                      struct mci_pack *pack)
{
    switch (op) {
    case MCI_OP_HELLO:
        copy_hello(unpack, pack);
        break;
    case MCI_OP_GOODBYE:
    case MCI_OP_CANCEL:
    case MCI_OP_STAT:
        copy_nil(unpack, pack);
        break;
    case MCI_OP_HEARTBEAT:
        copy_heartbeat(unpack, pack);
        break;
    case MCI_OP_SEGMENT_MOUNT:
        copy_mount(unpack, pack);
        break;
    case MCI_OP_SEGMENT_UNMOUNT:
        copy_unmount(unpack, pack);
        break;
    case MCI_OP_SEGMENT_STATUS:
        copy_status(unpack, pack);
        break;
    case MCI_OP_SEGMENT_GET:
    case MCI_OP_ATTEMPT_FATE:
        copy_rows(unpack, pack, copy_number);
        break;
    case MCI_OP_PUT_START:
    case MCI_OP_UPSERT_START:
        copy_start(unpack, pack);
        break;
    case MCI_OP_PUT_END:
    case MCI_OP_PUT_REVOKE:
        copy_rows(unpack, pack, copy_end);
        break;
    case MCI_OP_ATTEMPT_TOUCH:
        copy_rows(unpack, pack, copy_touch);
        break;
    case MCI_OP_GET:
        copy_reads(unpack, pack);
        break;
    case MCI_OP_RENEW_LEASE:
    case MCI_OP_RELEASE_LEASE:
        copy_rows(unpack, pack, copy_lease);
        break;
    case MCI_OP_EXIST:
    case MCI_OP_GET_SIZE:
    case MCI_OP_PROBE:
        copy_keys(unpack, pack, mci_rows_unpack(unpack));
        break;
    case MCI_OP_REMOVE:
        copy_remove(unpack, pack);
        break;
    case MCI_OP_REMOVE_BY_REGEX:
        copy_regex(unpack, pack);
        break;
    case MCI_OP_REMOVE_ALL:
        mci_pack_bool(pack, mci_unpack_bool(unpack));
        break;
    case MCI_OP_REPLICA_CLEAR:
        copy_clear(unpack, pack);
        break;
    case MCI_OP_LIST:
        copy_list_args(unpack, pack);
        break;
    default:
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_RANGE);
        break;
    }
}

/* ---- results ----------------------------------------------------------- */

static void copy_welcome(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_welcome welcome;
    mci_welcome_unpack(unpack, &welcome);
    mci_welcome_pack(pack, &welcome);
}

static void copy_pulse(struct mci_unpack *unpack, struct mci_pack *pack)
{
    static struct mc_fence fences[MCI_FENCES_MAX];
    static uint64_t closed[MC_ATTEMPTS_MAX];
    static struct mci_renewal renewals[MC_ATTEMPTS_MAX];
    struct mci_pulse_room room = {fences, closed, renewals};
    struct mci_pulse pulse;
    mci_pulse_unpack(unpack, &room, &pulse);
    mci_pulse_pack(pack, &pulse);
}

static void copy_segment(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_segment_row row;
    bool is_there = mci_segment_row_unpack(unpack, &row);
    mci_segment_row_pack(pack, is_there ? &row : NULL);
}

static void copy_started(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_write_row row;
    mci_started_unpack(unpack, 7, &row);
    mci_started_pack(pack, &row);
}

static void copy_read(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_read_row row;
    mci_read_row_unpack(unpack, &row);
    mci_read_row_pack(pack, &row);
}

static void copy_renewed(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_read_row row;
    mci_renewed_unpack(unpack, &row);
    mci_renewed_pack(pack, &row);
}

static void copy_probe(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mc_probe probe;
    int64_t result = mci_probe_unpack(unpack, &probe);
    mci_probe_pack(pack, &probe, result);
}

static void copy_list(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_list_head head;
    uint32_t count = mci_list_unpack(unpack, &head);
    mci_list_pack(pack, &head, count);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        struct mc_object_row row;
        uint64_t media_ids[MC_MEDIUM_COUNT];
        mci_object_row_unpack(unpack, &row, media_ids);
        mci_object_row_pack(pack, &row, media_ids);
    }
}

static void copy_stat(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_stat_words stat;
    mci_stat_unpack(unpack, &stat);
    mci_stat_pack(pack, &stat);
}

static void copy_result(enum mci_op op, struct mci_unpack *unpack,
                        struct mci_pack *pack)
{
    switch (op) {
    case MCI_OP_HELLO:
        copy_welcome(unpack, pack);
        break;
    case MCI_OP_GOODBYE:
    case MCI_OP_CANCEL:
    case MCI_OP_SEGMENT_UNMOUNT:
        copy_nil(unpack, pack);
        break;
    case MCI_OP_HEARTBEAT:
        copy_pulse(unpack, pack);
        break;
    case MCI_OP_SEGMENT_MOUNT:
    case MCI_OP_SEGMENT_STATUS:
    case MCI_OP_REMOVE_BY_REGEX:
    case MCI_OP_REMOVE_ALL:
        mci_pack_u64(pack, mci_unpack_u64(unpack, UINT64_MAX));
        break;
    case MCI_OP_SEGMENT_GET:
        copy_rows(unpack, pack, copy_segment);
        break;
    case MCI_OP_PUT_START:
    case MCI_OP_UPSERT_START:
        copy_rows(unpack, pack, copy_started);
        break;
    case MCI_OP_GET:
        copy_rows(unpack, pack, copy_read);
        break;
    case MCI_OP_RENEW_LEASE:
        copy_rows(unpack, pack, copy_renewed);
        break;
    case MCI_OP_PROBE:
        copy_rows(unpack, pack, copy_probe);
        break;
    case MCI_OP_LIST:
        copy_list(unpack, pack);
        break;
    case MCI_OP_STAT:
        copy_stat(unpack, pack);
        break;
    default:
        copy_results(unpack, pack);
        break;
    }
}

/* ---- frames ------------------------------------------------------------ */

enum mci_unpack_error control_copy_request(struct mc_view body,
                                           struct mci_pack *pack)
{
    struct mci_unpack unpack;
    struct mci_request request;
    mci_unpack_init(&unpack, body);
    mci_request_read(&unpack, &request);
    size_t at = mci_request_begin(pack, &request);
    copy_args(request.op, &unpack, pack);
    enum mci_unpack_error error = mci_unpack_done(&unpack);
    if (error == MCI_UNPACK_OK && pack->err == MC_OK) {
        pack->err = mci_frame_finish(pack, at);
    }
    return error;
}

enum mci_unpack_error control_copy_answer(enum mci_op op, struct mc_view body,
                                          struct mci_pack *pack)
{
    struct mci_unpack unpack;
    struct mci_answer answer;
    mci_unpack_init(&unpack, body);
    mci_answer_read(&unpack, &answer);
    size_t at = mci_answer_begin(pack, &answer);
    if (answer.code != MC_OK && mci_unpack_took_nil(&unpack)) {
        mci_pack_nil(pack);
    } else {
        copy_result(op, &unpack, pack);
    }
    enum mci_unpack_error error = mci_unpack_done(&unpack);
    if (error == MCI_UNPACK_OK && pack->err == MC_OK) {
        pack->err = mci_frame_finish(pack, at);
    }
    return error;
}
