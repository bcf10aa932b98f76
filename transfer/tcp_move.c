/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_move.h"

#include <poll.h>

#include "mci_alloc.h"
#include "mci_clock.h"
#include "target.h"
#include "tcp_lane.h"

#define LOOK_MS 20       /* at most between looks at a cancellation */
#define WAIT_MS_MAX 1000 /* the system's waits do not know our clock */

struct call {
    struct mci_tcp_row *rows;
    struct mci_tcp_lane *lanes;
    struct pollfd *polls; /* one per lane */
    size_t lane_count;
    uint64_t deadline_ns;
    const _Atomic int *canceled; /* NULL: never */
    /* Room for a call of one row, which allocates nothing. */
    struct mci_tcp_row one_row;
    struct mci_tcp_lane one_lane;
    struct pollfd one_poll;
};

/* ---- setting up --------------------------------------------------------------- */

static struct mci_tcp_peer *peer_of(const struct mc_transfer_row *row)
{
    return atomic_load(&row->target->kept[MC_TRANSPORT_TCP]);
}

static enum mci_tcp_op op_of(const struct mc_transfer_row *row)
{
    return row->terms.is_write ? MCI_TCP_WRITE : MCI_TCP_READ;
}

/* How many lanes: peers, of which there are few. */
static size_t count_peers(struct mc_transfer_row *const *rows, size_t count)
{
    size_t peers = count > 0;
    for (size_t i = 1; i < count; i++) {
        size_t j = i;
        while (j > 0 && peer_of(rows[j - 1]) != peer_of(rows[i])) {
            j--;
        }
        peers += j == 0;
    }
    return peers;
}

static struct mci_tcp_lane *lane_of(struct call *call,
                                    struct mci_tcp_peer *peer)
{
    for (size_t i = call->lane_count; i > 0; i--) {
        if (call->lanes[i - 1].peer == peer) {
            return &call->lanes[i - 1];
        }
    }
    struct mci_tcp_lane *lane = &call->lanes[call->lane_count++];
    mci_tcp_lane_init(lane, peer, call->deadline_ns);
    return lane;
}

static bool make_room(struct call *call, struct mc_transfer_row *const *rows,
                      size_t count)
{
    if (count == 1) {
        call->rows = &call->one_row;
        call->lanes = &call->one_lane;
        call->polls = &call->one_poll;
        return true;
    }
    size_t lanes = count_peers(rows, count);
    call->rows = mci_calloc(count, sizeof *call->rows);
    call->lanes = mci_calloc(lanes, sizeof *call->lanes);
    call->polls = mci_calloc(lanes, sizeof *call->polls);
    return call->rows && call->lanes && call->polls;
}

/* op: SEAL or PROBE for all rows, or 0: each as its terms say. */
static bool set_up(struct call *call, struct mc_transfer_row *const *rows,
                   size_t count, unsigned op)
{
    if (!make_room(call, rows, count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct mci_tcp_row *row = &call->rows[i];
        row->row = rows[i];
        row->op = op ? (enum mci_tcp_op)op : op_of(rows[i]);
        row->len = op ? 0 : mci_row_len(rows[i]);
        mci_tcp_lane_add(lane_of(call, peer_of(rows[i])), row);
    }
    return true;
}

static void tear_down(struct call *call)
{
    if (call->rows == &call->one_row) {
        return;
    }
    mci_free(call->polls);
    mci_free(call->lanes);
    mci_free(call->rows);
}

/* ---- the loop --------------------------------------------------------------------- */

/* Returns how many lanes there are to wait for; *is_pending_out: one of them has
 * bytes already. */
static nfds_t fill_polls(struct call *call, bool *is_pending_out)
{
    nfds_t waiting = 0;
    *is_pending_out = false;
    for (size_t i = 0; i < call->lane_count; i++) {
        struct mci_tcp_lane *lane = &call->lanes[i];
        struct pollfd *entry = &call->polls[i];
        *entry = (struct pollfd){.fd = -1};
        if (mci_tcp_lane_is_over(lane)) {
            continue;
        }
        entry->fd = mci_tcp_lane_fd(lane, &entry->events);
        *is_pending_out = *is_pending_out || mci_tcp_lane_has_pending(lane);
        waiting++;
    }
    return waiting;
}

static int wait_ms(const struct call *call, uint64_t now_ns)
{
    uint64_t most_ms = call->canceled ? LOOK_MS : WAIT_MS_MAX;
    uint64_t left_ms = (call->deadline_ns - now_ns - 1) / MCI_NS_PER_MS + 1;
    return (int)(left_ms < most_ms ? left_ms : most_ms);
}

static bool is_time(const struct call *call, uint64_t now_ns)
{
    return now_ns >= call->deadline_ns ||
           (call->canceled && atomic_load(call->canceled));
}

static void run_lanes(struct call *call)
{
    for (size_t i = 0; i < call->lane_count; i++) {
        struct mci_tcp_lane *lane = &call->lanes[i];
        short events = call->polls[i].revents;
        if (mci_tcp_lane_is_over(lane)) {
            continue;
        }
        if (mci_tcp_lane_has_pending(lane)) {
            events |= POLLIN;
        }
        if (events) {
            mci_tcp_lane_run(lane, events);
        }
    }
}

static void cut_lanes(struct call *call)
{
    for (size_t i = 0; i < call->lane_count; i++) {
        if (!mci_tcp_lane_is_over(&call->lanes[i])) {
            mci_tcp_lane_cut(&call->lanes[i], MC_ERR_TRANSFER_FAIL);
        }
    }
}

static void run(struct call *call)
{
    bool is_pending;
    for (size_t i = 0; i < call->lane_count; i++) {
        mci_tcp_lane_start(&call->lanes[i]);
    }
    while (fill_polls(call, &is_pending) > 0) {
        uint64_t now_ns = mci_clock_ns();
        if (is_time(call, now_ns)) {
            cut_lanes(call);
            return;
        }
        (void)poll(call->polls, (nfds_t)call->lane_count,
                   is_pending ? 0 : wait_ms(call, now_ns));
        run_lanes(call);
    }
}

/* ---- the calls ---------------------------------------------------------------------- */

static void fail_rows(struct mc_transfer_row *const *rows, size_t count,
                      enum mc_err err)
{
    for (size_t i = 0; i < count; i++) {
        rows[i]->err = err;
        rows[i]->local_ended = true;
    }
}

static void run_rows(struct call *call, struct mc_transfer_row *const *rows,
                     size_t count, unsigned op)
{
    if (count == 0) {
        return;
    }
    if (is_time(call, mci_clock_ns())) {
        fail_rows(rows, count, MC_ERR_TRANSFER_FAIL);
    } else if (!set_up(call, rows, count, op)) {
        fail_rows(rows, count, MC_ERR_NOMEM);
    } else {
        run(call);
    }
    tear_down(call);
}

void mci_tcp_move(void *state, struct mc_transfer_row *const *rows,
                  size_t count, uint64_t deadline_ns,
                  const _Atomic int *canceled)
{
    struct call call = {.deadline_ns = deadline_ns, .canceled = canceled};
    (void)state;
    run_rows(&call, rows, count, 0);
}

void mci_tcp_seal(void *state, struct mc_transfer_row *const *rows,
                  size_t count, uint64_t deadline_ns)
{
    struct call call = {.deadline_ns = deadline_ns};
    (void)state;
    for (size_t i = 0; i < count; i++) {
        rows[i]->remote_ended = false; /* until there is a receipt */
    }
    run_rows(&call, rows, count, MCI_TCP_SEAL);
}

enum mc_err mci_tcp_probe(void *state, struct mc_target *target,
                          uint64_t deadline_ns)
{
    struct call call = {.deadline_ns = deadline_ns};
    struct mc_transfer_row row = {.target = target};
    struct mc_transfer_row *rows[1] = {&row};
    (void)state;
    row.terms.registration = target->registration;
    run_rows(&call, rows, 1, MCI_TCP_PROBE);
    return row.err;
}
