/* SPDX-License-Identifier: Apache-2.0 */
/* client_attempts.c - see the header. */
#include "client_attempts.h"

#define STOPPED_MS 2000 /* for proofs, when nobody waits for the bytes */
#define LONG_BYTES (8 * UINT64_C(1048576)) /* grants may have to be renewed */

static enum mc_err failure_of(enum mc_err err)
{
    return err == MC_ERR_NOMEM ? err : MC_ERR_TRANSFER_FAIL;
}

static struct mci_write_row *row_of(struct mci_attempts *attempts, size_t move)
{
    const struct mci_part *part = &attempts->parts[attempts->run.owners[move]];
    return &attempts->rows[part->row];
}

/* ---- collecting ---------------------------------------------------------- */

static enum mc_err add_place(struct mci_attempts *attempts, size_t p,
                             uint32_t place, uint64_t deadline_ns)
{
    struct mci_run *run = &attempts->run;
    const struct mci_part *part = &attempts->parts[p];
    struct mci_write_row *row = &attempts->rows[part->row];
    struct mc_transfer_row *move = NULL;
    size_t m = run->count;
    const struct mci_claim claim = {.place = &row->places[place],
                                    .grant = &row->grants[place],
                                    .subject = row->attempt.number,
                                    .bytes = mci_row_bytes(row),
                                    .is_write = true};
    enum mc_err err = mci_run_add(run, &claim, part, deadline_ns, &move);
    if (err != MC_OK) {
        return err;
    }
    move->is_final = attempts->is_whole;
    if (run->mover.targets &&
        (row->size >= LONG_BYTES || !attempts->is_whole)) {
        mci_renewed_grant_init(&attempts->renewed[m],
                               run->mover.client->outside, row, place);
        move->source = &attempts->renewed[m].source;
        move->grant = move->source->get(move->source->ctx);
    }
    run->owners[m] = (uint32_t)p;
    return MC_OK;
}

/* All places of a part, or none: a row that lacks one has failed. */
static void add_part(struct mci_attempts *attempts, size_t p,
                     uint64_t deadline_ns)
{
    struct mci_run *run = &attempts->run;
    struct mci_write_row *row = &attempts->rows[attempts->parts[p].row];
    size_t count = run->count;
    uint64_t bytes = run->bytes;
    if (row->place_count > attempts->places_most) {
        row->err = MC_ERR_INTERNAL_ERROR; /* more copies than were asked for */
        return;
    }
    for (uint32_t i = 0; i < row->place_count; i++) {
        enum mc_err err = add_place(attempts, p, i, deadline_ns);
        if (err != MC_OK) {
            run->count = count;
            run->bytes = bytes;
            row->err = failure_of(err);
            return;
        }
    }
}

/* ---- outcomes ------------------------------------------------------------ */

/* Which of a part's places a move is. */
static size_t place_of(const struct mci_run *run, size_t m)
{
    size_t place = 0;
    while (m > place && run->owners[m - place - 1] == run->owners[m]) {
        place++;
    }
    return place;
}

/* What failed is sealed: a receipt proves that its owner lets nothing in any
 * more, so that its range can be used again. */
static void seal(struct mci_attempts *attempts, uint64_t deadline_ns)
{
    struct mci_run *run = &attempts->run;
    for (size_t m = 0; m < run->count; m++) {
        struct mc_transfer_row *move = &run->moves[m];
        if (row_of(attempts, m)->err != MC_OK && move->receipt == 0) {
            struct mc_transfer_row sealed = *move;
            mci_mover_seal(&run->mover, &sealed, 1, deadline_ns);
            move->receipt = sealed.receipt;
        }
    }
}

static void note_receipts(struct mci_attempts *attempts)
{
    const struct mci_run *run = &attempts->run;
    for (size_t m = 0; m < run->count; m++) {
        const struct mc_transfer_row *move = &run->moves[m];
        struct mci_write_row *row = row_of(attempts, m);
        row->receipts[place_of(run, m)] = move->receipt;
        if (row->err != MC_OK && !move->remote_ended && move->receipt == 0) {
            row->in_doubt = true;
        }
    }
}

/* Of parts: what failed may still land, which only the attempt's end can
 * settle. */
static void note_ways(struct mci_attempts *attempts)
{
    const struct mci_run *run = &attempts->run;
    for (size_t m = 0; m < run->count; m++) {
        const struct mc_transfer_row *move = &run->moves[m];
        struct mci_write_row *row = row_of(attempts, m);
        uint8_t *went = &attempts->went[row - attempts->rows][place_of(run, m)];
        row->in_doubt |= move->err != MC_OK && !move->remote_ended;
        if (*went != MC_TRANSPORT_TCP) {
            *went = (uint8_t)move->transport;
        }
    }
}

/* What was collected has not gone. */
static void abandon(struct mci_attempts *attempts)
{
    for (size_t m = 0; m < attempts->run.count; m++) {
        row_of(attempts, m)->err = MC_ERR_CANCELED;
    }
    mci_run_clear(&attempts->run);
}

static void seal_what_failed(struct mci_attempts *attempts,
                             uint64_t deadline_ns)
{
    uint64_t now_ns = mci_clock_ns();
    uint64_t soon_ns = mci_clock_deadline(now_ns, STOPPED_MS);
    attempts->is_out_of_time |= now_ns >= deadline_ns;
    if (mci_mover_stops(&attempts->run.mover) && soon_ns < deadline_ns) {
        deadline_ns = soon_ns;
    }
    seal(attempts, deadline_ns);
}

static void go(struct mci_attempts *attempts, uint64_t deadline_ns)
{
    struct mci_run *run = &attempts->run;
    bool any_failed = false;
    if (mci_mover_stops(&run->mover)) {
        abandon(attempts);
        return;
    }
    mci_run_go(run, deadline_ns);
    for (size_t m = 0; m < run->count; m++) {
        if (run->moves[m].err != MC_OK) {
            row_of(attempts, m)->err = mci_mover_stops(&run->mover)
                                           ? MC_ERR_CANCELED
                                           : failure_of(run->moves[m].err);
            any_failed = true;
        }
    }
    if (run->mover.targets && any_failed && attempts->is_whole) {
        seal_what_failed(attempts, deadline_ns);
    }
    if (run->mover.targets && attempts->is_whole) {
        note_receipts(attempts);
    } else if (run->mover.targets) {
        note_ways(attempts);
    }
    mci_run_clear(run);
}

void mci_attempts_move(struct mci_attempts *attempts, uint64_t deadline_ns)
{
    const struct mci_run *run = &attempts->run;
    for (size_t p = 0; p < attempts->part_count; p++) {
        struct mci_write_row *row = &attempts->rows[attempts->parts[p].row];
        if (row->err == MC_OK && mci_mover_stops(&run->mover)) {
            row->err = MC_ERR_CANCELED;
        } else if (row->err == MC_OK) {
            add_part(attempts, p, deadline_ns);
        }
        if (run->room - run->count < attempts->places_most) {
            go(attempts, deadline_ns);
        }
    }
    go(attempts, deadline_ns);
}
