/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_transfer.h"
#include "target.h"

#define ROWS_ON_STACK 64

uint64_t mci_row_len(const struct mc_transfer_row *row)
{
    uint64_t len = 0;
    for (uint32_t i = 0; i < row->span_count; i++) {
        len += row->spans[i].len;
    }
    return len;
}

/* ---- before ------------------------------------------------------------ */

static bool sum_spans(const struct mc_transfer_row *row, uint64_t *len_out)
{
    uint64_t len = 0;
    if (row->span_count > MC_TRANSFER_SPANS_MAX ||
        (row->span_count > 0 && !row->spans)) {
        return false;
    }
    for (uint32_t i = 0; i < row->span_count; i++) {
        const struct mc_span *span = &row->spans[i];
        if ((!span->data && span->len > 0) ||
            __builtin_add_overflow(len, span->len, &len)) {
            return false;
        }
    }
    *len_out = len;
    return true;
}

/* Compares, then subtracts. */
static bool lies_within(uint64_t offset, uint64_t len, uint64_t outer_offset,
                        uint64_t outer_len)
{
    return offset >= outer_offset && offset - outer_offset <= outer_len &&
           len <= outer_len - (offset - outer_offset);
}

static bool is_sound(const struct mci_rows *rows,
                     const struct mc_transfer_row *row)
{
    const struct mc_target *target = row->target;
    if (!target || target->transfer != rows->transfer ||
        row->terms.registration != target->registration ||
        (row->is_final && !row->terms.is_write)) {
        return false;
    }
    if (rows->is_seal) {
        return row->terms.is_write;
    }
    uint64_t len = 0;
    return sum_spans(row, &len) &&
           lies_within(row->offset, len, 0, target->bytes) &&
           lies_within(row->offset, len, row->terms.offset, row->terms.len);
}

static bool has_pins(const struct mci_rows *rows)
{
    return !rows->is_seal && !rows->transfer->opts.any_memory;
}

/* What went by tcp may still be under way to its owner, who alone can tell that
 * it is closed: a receipt of another transport would be no proof. */
static bool is_bound_to_tcp(const struct mci_rows *rows,
                            const struct mc_transfer_row *row)
{
    return rows->is_seal && row->transport == MC_TRANSPORT_TCP;
}

static void prepare(const struct mci_rows *rows, struct mc_transfer_row *row)
{
    bool stays = is_bound_to_tcp(rows, row);
    row->err = MC_ERR_TRANSFER_FAIL;
    row->bytes = 0;
    row->local_ended = true;
    row->remote_ended = true;
    row->receipt = 0;
    row->transport = stays ? MC_TRANSPORT_TCP : MC_TRANSPORT_AUTO;
    if (!is_sound(rows, row) ||
        (has_pins(rows) && !mci_regions_pin(&rows->transfer->regions,
                                            row->spans, row->span_count))) {
        row->err = MC_ERR_INVALID_PARAMS;
        row->transport = MC_TRANSPORT_AUTO;
    }
}

void mci_rows_prepare(const struct mci_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        prepare(rows, &rows->rows[i]);
    }
}

/* ---- moving ------------------------------------------------------------ */

/* Rows that stand together mostly have one target. */
static void choose(const struct mci_rows *rows)
{
    struct mc_target *last = NULL;
    enum mc_transport_kind kind = MC_TRANSPORT_AUTO;
    for (size_t i = 0; i < rows->count; i++) {
        struct mc_transfer_row *row = &rows->rows[i];
        if (row->err == MC_ERR_INVALID_PARAMS) {
            continue;
        }
        if (is_bound_to_tcp(rows, row)) {
            row->transport = mci_target_reaches(row->target, MC_TRANSPORT_TCP,
                                                rows->deadline_ns)
                                 ? MC_TRANSPORT_TCP
                                 : MC_TRANSPORT_AUTO;
            continue;
        }
        if (row->target != last) {
            const struct mci_transport *transport =
                mci_target_choose(row->target, rows->deadline_ns);
            last = row->target;
            kind = transport ? transport->kind : MC_TRANSPORT_AUTO;
        }
        row->transport = kind;
    }
}

static void hand_over(const struct mci_rows *rows,
                      const struct mci_transport *transport,
                      struct mc_transfer_row *const *chosen, size_t count)
{
    void *state = rows->transfer->states[transport->kind];
    if (count == 0) {
        return;
    }
    if (rows->is_seal) {
        transport->seal(state, chosen, count, rows->deadline_ns);
    } else {
        transport->move(state, chosen, count, rows->deadline_ns,
                        rows->canceled);
    }
}

/* In groups of what there is room for. */
static void move_by(const struct mci_rows *rows,
                    const struct mci_transport *transport,
                    struct mc_transfer_row **room, size_t room_count)
{
    size_t chosen = 0;
    for (size_t i = 0; i < rows->count; i++) {
        struct mc_transfer_row *row = &rows->rows[i];
        if (row->transport != transport->kind) {
            continue;
        }
        room[chosen++] = row;
        if (chosen == room_count) {
            hand_over(rows, transport, room, chosen);
            chosen = 0;
        }
    }
    hand_over(rows, transport, room, chosen);
}

void mci_rows_move(const struct mci_rows *rows)
{
    struct mc_transfer_row *on_stack[ROWS_ON_STACK];
    struct mc_transfer_row **room = on_stack;
    size_t room_count = ROWS_ON_STACK;
    if (mci_clock_ns() >= rows->deadline_ns || atomic_load(rows->canceled)) {
        return;
    }
    choose(rows);
    struct mc_transfer_row **more = NULL;
    if (rows->count > room_count) {
        more = mci_alloc(rows->count * sizeof(*more));
    }
    if (more) {
        room = more;
        room_count = rows->count;
    }
    for (size_t i = 0; i < mci_transport_count; i++) {
        move_by(rows, mci_transports[i], room, room_count);
    }
    mci_free(more);
}

/* ---- after ------------------------------------------------------------- */

static void count_row(const struct mci_rows *rows,
                      const struct mc_transfer_row *row)
{
    struct mci_counters *counters = &rows->transfer->counters;
    if (row->err != MC_OK) {
        mci_count(&counters->failed_rows, 1);
    } else if (!rows->is_seal) {
        mci_count(&counters->moved_rows[row->transport], 1);
    }
    if (row->bytes > 0) {
        mci_count(row->terms.is_write ? &counters->written_bytes[row->transport]
                                      : &counters->read_bytes[row->transport],
                  row->bytes);
    }
}

enum mc_err mci_rows_finish(const struct mci_rows *rows)
{
    enum mc_err err = MC_OK;
    mci_count(&rows->transfer->counters.rows, rows->count);
    for (size_t i = 0; i < rows->count; i++) {
        struct mc_transfer_row *row = &rows->rows[i];
        bool was_refused = row->err == MC_ERR_INVALID_PARAMS &&
                           row->transport == MC_TRANSPORT_AUTO;
        if (!was_refused && has_pins(rows)) {
            mci_regions_unpin(&rows->transfer->regions, row->spans,
                              row->span_count);
        }
        count_row(rows, row);
        if (row->err != MC_OK) {
            err = MC_ERR_TRANSFER_FAIL;
        }
    }
    return err;
}

/* ---- on the caller's thread -------------------------------------------- */

static enum mc_err refuse_all(struct mc_transfer_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].err = MC_ERR_TRANSFER_FAIL;
        rows[i].bytes = 0;
        rows[i].local_ended = true;
        rows[i].remote_ended = true;
        rows[i].receipt = 0;
        rows[i].transport = MC_TRANSPORT_AUTO;
    }
    return MC_ERR_TRANSFER_FAIL;
}

static enum mc_err run(const struct mci_rows *rows)
{
    if (mci_engine_is_elsewhere(rows->transfer)) {
        return refuse_all(rows->rows, rows->count);
    }
    mci_rows_prepare(rows);
    mci_rows_move(rows);
    return mci_rows_finish(rows);
}

static const _Atomic int never;

enum mc_err mci_transfer_run(struct mc_transfer *transfer,
                             struct mc_transfer_row *rows, size_t count,
                             uint64_t deadline_ns, const _Atomic int *canceled)
{
    return run(&(struct mci_rows){.transfer = transfer,
                                  .rows = rows,
                                  .count = count,
                                  .deadline_ns = deadline_ns,
                                  .canceled = canceled});
}

enum mc_err mc_transfer_run(struct mc_transfer *transfer,
                            struct mc_transfer_row *rows, size_t count,
                            uint64_t deadline_ns)
{
    return mci_transfer_run(transfer, rows, count, deadline_ns, &never);
}

enum mc_err mc_transfer_seal(struct mc_transfer *transfer,
                             struct mc_transfer_row *rows, size_t count,
                             uint64_t deadline_ns)
{
    return run(&(struct mci_rows){.transfer = transfer,
                                  .rows = rows,
                                  .count = count,
                                  .deadline_ns = deadline_ns,
                                  .canceled = &never,
                                  .is_seal = true});
}
