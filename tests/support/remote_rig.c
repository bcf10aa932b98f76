/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_rig.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mci_clock.h"

static void pause_ms(unsigned ms)
{
    struct timespec pause = {.tv_sec = ms / 1000,
                             .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

/* ---- what is done -------------------------------------------------------- */

static uint32_t count_rows(const struct mci_request *request,
                           struct mci_unpack *args)
{
    struct mci_config_room room;
    const struct mc_replicate_config *config = NULL;
    bool force = false;
    switch (request->op) {
    case MCI_OP_PUT_START:
    case MCI_OP_UPSERT_START:
        return mci_start_unpack(args, &room, &config);
    case MCI_OP_REMOVE:
        return mci_remove_unpack(args, &force);
    case MCI_OP_PUT_END:
    case MCI_OP_PUT_REVOKE:
    case MCI_OP_ATTEMPT_FATE:
    case MCI_OP_ATTEMPT_TOUCH:
    case MCI_OP_GET:
    case MCI_OP_EXIST:
    case MCI_OP_GET_SIZE:
    case MCI_OP_PROBE:
    case MCI_OP_SEGMENT_GET:
        return mci_rows_unpack(args);
    default:
        return 0;
    }
}

/* Does it, unless this number was done: then its attempts are the same. Returns
 * the first attempt. */
static uint64_t execute(struct rig *rig, const struct mci_request *request,
                        uint32_t rows)
{
    struct fake_master *master = &rig->master;
    unsigned op = (unsigned)request->op % 64;
    (void)pthread_mutex_lock(&master->lock);
    if (rig->numbers[request->slot] == request->number &&
        rig->incarnations[request->slot] == request->incarnation) {
        atomic_fetch_add(&rig->repeated[op], 1);
    } else {
        rig->numbers[request->slot] = request->number;
        rig->incarnations[request->slot] = request->incarnation;
        rig->firsts[request->slot] = rig->next_attempt;
        rig->next_attempt += rows;
        atomic_fetch_add(&rig->done[op], 1);
    }
    uint64_t first = rig->firsts[request->slot];
    (void)pthread_mutex_unlock(&master->lock);
    return first;
}

/* ---- results ------------------------------------------------------------- */

static void pack_started(struct mci_pack *pack, uint64_t attempt)
{
    struct mci_write_row row = {.attempt = {.number = attempt},
                                .place_count = 1};
    row.places[0] = (struct mci_place){.segment = 7, .offset = 4096 * attempt};
    row.grants[0] = (struct mc_grant){.deadline_ns = attempt, .tag = 5};
    mci_started_pack(pack, &row);
}

static void pack_read(struct mci_pack *pack, struct rig *rig, uint32_t i)
{
    struct mci_read_row row = {
        .size = 10 + i, .version = 50 + i, .media = 1, .place_count = 1};
    row.places[0] = (struct mci_place){.segment = 7, .offset = 4096};
    row.lease_left_ns = (uint64_t)atomic_load(&rig->lease_ms) * MCI_NS_PER_MS;
    mci_read_row_pack(pack, &row);
}

static void pack_segment(struct mci_pack *pack)
{
    const struct mci_segment_row row = {.segment = 7,
                                        .client = 3,
                                        .incarnation = 9,
                                        .registration = 11,
                                        .bytes = 1 << 20,
                                        .status = MCI_SEGMENT_OK,
                                        .name = mc_view_str("one:1"),
                                        .endpoint =
                                            mc_view_str("127.0.0.1:12300"),
                                        .protocol = mc_view_str("tcp"),
                                        .host_id = mc_view_str("host")};
    mci_segment_row_pack(pack, &row);
}

static void pack_row(struct rig *rig, const struct mci_request *request,
                     struct mci_pack *pack, uint64_t first, uint32_t i)
{
    const struct mc_probe probe = {.state = MC_OBJECT_READABLE,
                                   .media = 1,
                                   .size = 10 + i,
                                   .version = 50 + i};
    switch (request->op) {
    case MCI_OP_PUT_START:
    case MCI_OP_UPSERT_START:
        pack_started(pack, first + i);
        break;
    case MCI_OP_GET:
        pack_read(pack, rig, i);
        break;
    case MCI_OP_PROBE:
        mci_probe_pack(pack, &probe, 0);
        break;
    case MCI_OP_SEGMENT_GET:
        pack_segment(pack);
        break;
    case MCI_OP_EXIST:
    case MCI_OP_ATTEMPT_FATE:
        mci_pack_u64(pack, 1);
        break;
    case MCI_OP_GET_SIZE:
        mci_pack_u64(pack, 10 + i);
        break;
    default:
        mci_pack_i64(pack, atomic_load(&rig->row_code));
        break;
    }
}

static bool has_rows(enum mci_op op)
{
    return op != MCI_OP_REMOVE_ALL && op != MCI_OP_REMOVE_BY_REGEX &&
           op != MCI_OP_SEGMENT_MOUNT && op != MCI_OP_SEGMENT_UNMOUNT &&
           op != MCI_OP_SEGMENT_STATUS && op != MCI_OP_LIST &&
           op != MCI_OP_STAT;
}

static void pack_single(struct mci_pack *pack, enum mci_op op)
{
    const struct mci_list_head head = {.at_end = true};
    const struct mci_stat_words words = {.words = {7, 8}, .count = 2};
    switch (op) {
    case MCI_OP_LIST:
        mci_list_pack(pack, &head, 0);
        break;
    case MCI_OP_STAT:
        mci_stat_pack(pack, &words);
        break;
    case MCI_OP_SEGMENT_UNMOUNT:
        mci_pack_nil(pack);
        break;
    case MCI_OP_SEGMENT_STATUS:
        mci_pack_u64(pack, MCI_SEGMENT_OK);
        break;
    default:
        mci_pack_u64(pack, 7);
        break;
    }
}

static void write_result(struct rig *rig, const struct mci_request *request,
                         struct mci_pack *pack, uint64_t first, uint32_t rows)
{
    if (!has_rows(request->op)) {
        pack_single(pack, request->op);
        return;
    }
    mci_rows_pack(pack, rows);
    for (uint32_t i = 0; i < rows; i++) {
        pack_row(rig, request, pack, first, i);
    }
}

/* ---- the ways ------------------------------------------------------------ */

static void await_release(struct rig *rig)
{
    while (!atomic_load(&rig->released) && !atomic_load(&rig->master.stops)) {
        pause_ms(1);
    }
}

static void answer_slowly(struct rig *rig, struct fake_conn *conn, bool half)
{
    size_t len = conn->out.len;
    for (size_t i = 0; i < len && !conn->is_cut; i++) {
        if (half && i == len / 2) {
            await_release(rig);
            return;
        }
        fake_bytes(conn, conn->out.data + i, 1);
        pause_ms(half ? 0 : 1);
    }
}

static void lie_about_len(struct fake_conn *conn, uint8_t byte)
{
    uint8_t head[8];
    memset(head, byte, sizeof head);
    fake_bytes(conn, head, sizeof head);
}

/* The answer as it should be, but for what the mode says of it. */
static void write_answer(struct rig *rig, struct fake_conn *conn,
                         const struct mci_request *request, uint32_t rows,
                         enum rig_mode mode)
{
    struct mci_request named = *request;
    struct mci_pack pack;
    uint64_t first = execute(rig, request, rows);
    if (mode == RIG_OTHER_NUMBER) {
        named.number += 3;
    }
    if (mode == RIG_OTHER_SLOT) {
        named.slot = (named.slot + 1) % MCI_SLOTS_MAX;
    }
    if (mode == RIG_MORE_ROWS) {
        rows++;
    }
    if (mode == RIG_FEWER_ROWS && rows > 0) {
        rows--;
    }
    fake_begin(conn, &named, MC_OK, &pack);
    if (mode == RIG_NO_ROWS) {
        mci_pack_nil(&pack);
    } else {
        write_result(rig, request, &pack, first, rows);
    }
    if (mode == RIG_BEHIND) {
        mci_pack_u64(&pack, 1);
    }
    ck_assert_int_eq(mci_frame_finish(&pack, conn->answer_at), MC_OK);
    if (mode == RIG_VERSION) {
        conn->out.data[conn->answer_at + MCI_FRAME_HEAD + 1] = 9;
    }
}

static void send_answer(struct rig *rig, struct fake_conn *conn,
                        const struct mci_request *request, enum rig_mode mode)
{
    struct mci_request before = *request;
    switch (mode) {
    case RIG_SLOW:
    case RIG_HALF:
        answer_slowly(rig, conn, mode == RIG_HALF);
        return;
    case RIG_OLD_FIRST: {
        struct mci_buf right = conn->out;
        mci_buf_init(&conn->out, right.max);
        before.number--;
        fake_refuse(conn, &before, MC_ERR_INTERNAL_ERROR);
        mci_buf_fini(&conn->out);
        conn->out = right;
        break;
    }
    case RIG_TWICE:
        fake_bytes(conn, conn->out.data, conn->out.len);
        break;
    case RIG_STALL:
        await_release(rig);
        break;
    default:
        break;
    }
    fake_bytes(conn, conn->out.data, conn->out.len);
}

static enum rig_mode next_mode(struct rig *rig)
{
    if (atomic_load(&rig->mode) == RIG_ANSWER) {
        return RIG_ANSWER;
    }
    if (atomic_fetch_sub(&rig->mode_left, 1) > 0) {
        return (enum rig_mode)atomic_load(&rig->mode);
    }
    atomic_store(&rig->mode, RIG_ANSWER);
    return RIG_ANSWER;
}

static void answer(void *ctx, struct fake_conn *conn,
                   const struct mci_request *request, struct mci_unpack *args)
{
    struct rig *rig = ctx;
    enum rig_mode mode = next_mode(rig);
    uint32_t rows = count_rows(request, args);
    switch (mode) {
    case RIG_CUT:
        (void)execute(rig, request, rows);
        fake_cut(conn);
        return;
    case RIG_CUT_FIRST:
        fake_cut(conn);
        return;
    case RIG_NOISE:
        lie_about_len(conn, 1);
        fake_cut(conn);
        return;
    case RIG_LEN_ZERO:
    case RIG_LEN_HUGE:
        lie_about_len(conn, mode == RIG_LEN_ZERO ? 0 : 0xff);
        return;
    case RIG_UNKNOWN:
        fake_forget(&rig->master);
        fake_refuse(conn, request, MC_ERR_CLIENT_NOT_FOUND);
        return;
    case RIG_STALE:
        fake_refuse(conn, request, MC_ERR_INVALID_VERSION);
        return;
    default:
        break;
    }
    if (atomic_load(&rig->delay_ms) > 0) {
        pause_ms(atomic_load(&rig->delay_ms));
    }
    write_answer(rig, conn, request, rows, mode);
    send_answer(rig, conn, request, mode);
}

/* ---- callbacks ----------------------------------------------------------- */

static void on_renewed(void *ctx)
{
    struct rig *rig = ctx;
    atomic_fetch_add(&rig->renewed, 1);
}

static enum mc_err on_fence(void *ctx, const struct mc_fence *fences,
                            size_t count, struct mci_stuck *stuck_out,
                            size_t *stuck_count_out)
{
    struct rig *rig = ctx;
    (void)fences;
    atomic_fetch_add(&rig->fenced, (unsigned)count);
    if (count == 0) {
        atomic_fetch_add(&rig->asked_stuck, 1);
    }
    *stuck_count_out = 0;
    if (atomic_load(&rig->stuck_left) > 0) {
        atomic_fetch_sub(&rig->stuck_left, 1);
        stuck_out[0] = (struct mci_stuck){.attempt = 100, .incarnation = 1};
        *stuck_count_out = 1;
    }
    return MC_OK;
}

static void on_closed(void *ctx, const uint64_t *attempts, size_t count)
{
    struct rig *rig = ctx;
    atomic_store(&rig->last_closed, attempts[count - 1]);
    atomic_fetch_add(&rig->closed, (unsigned)count);
}

/* ---- opening ------------------------------------------------------------- */

void rig_begin(struct rig *rig)
{
    memset(rig, 0, sizeof *rig);
    atomic_init(&rig->lease_ms, 5000);
    rig->next_attempt = 100;
    fake_open(&rig->master, answer, rig);
}

struct mci_remote_opts rig_opts(struct rig *rig, char address[32])
{
    (void)snprintf(address, 32, "127.0.0.1:%u", rig->master.port);
    return (struct mci_remote_opts){.master = address,
                                    .name = "client:1",
                                    .timeout_ms = 10000,
                                    .connect_timeout_ms = 5000,
                                    .events = {.renewed = on_renewed,
                                               .fence = on_fence,
                                               .closed = on_closed,
                                               .ctx = rig}};
}

void rig_open(struct rig *rig)
{
    char address[32];
    rig_begin(rig);
    struct mci_remote_opts opts = rig_opts(rig, address);
    ck_assert_int_eq(mci_remote_open(&opts, &rig->remote), MC_OK);
    rig->link = mci_remote_link(rig->remote);
}

void rig_close(struct rig *rig)
{
    atomic_store(&rig->released, true);
    mci_remote_close(rig->remote, mci_clock_ns() + 5 * MCI_NS_PER_S);
    fake_close(&rig->master);
}

void rig_set(struct rig *rig, enum rig_mode mode, int count)
{
    atomic_store(&rig->mode_left, count);
    atomic_store(&rig->mode, mode);
}

/* ---- calls --------------------------------------------------------------- */

struct mci_call rig_call(uint64_t left_ms)
{
    uint64_t now_ns = mci_clock_ns();
    return (struct mci_call){.now_ns = now_ns,
                             .deadline_ns = now_ns + left_ms * MCI_NS_PER_MS};
}

enum mc_err rig_start(struct rig *rig, struct mci_write_row *row,
                      uint64_t left_ms)
{
    const struct mci_call call = rig_call(left_ms);
    *row = (struct mci_write_row){.key = mc_view_str("key"), .size = 10};
    return rig->link.ops->put_start(rig->link.ctx, &call, NULL, row, 1);
}

enum mc_err rig_end(struct rig *rig, struct mci_write_row *row,
                    uint64_t left_ms)
{
    const struct mci_call call = rig_call(left_ms);
    return rig->link.ops->put_end(rig->link.ctx, &call, row, 1);
}

enum mc_err rig_remove(struct rig *rig, int64_t *result, uint64_t left_ms)
{
    const struct mci_call call = rig_call(left_ms);
    struct mc_view key = mc_view_str("key");
    return rig->link.ops->remove(rig->link.ctx, &call, &key, 1, true, result);
}

enum mc_err rig_exist(struct rig *rig, int64_t *result, uint64_t left_ms)
{
    const struct mci_call call = rig_call(left_ms);
    struct mc_view key = mc_view_str("key");
    return rig->link.ops->exist(rig->link.ctx, &call, &key, 1, result);
}
