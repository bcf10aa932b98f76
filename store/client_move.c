/* SPDX-License-Identifier: Apache-2.0 */
/* client_move.c - see the header. */
#include "client_move.h"

#include <string.h>

#include "client_spans.h"
#include "client_targets.h"
#include "mc_log.h"
#include "mci_transfer.h"

#define PIECE_BYTES ((size_t)1 << 20)

enum mc_err mci_mover_begin(struct mc_client *client, const _Atomic int *stops,
                            struct mci_mover *mover_out)
{
    *mover_out = (struct mci_mover){.client = client, .stops = stops};
    return client->outside ? mci_mover_again(mover_out) : MC_OK;
}

enum mc_err mci_mover_again(struct mci_mover *mover)
{
    if (!mover->client->outside) {
        return MC_OK;
    }
    struct mci_target_set *before = mover->targets;
    struct mci_target_set *set = NULL;
    enum mc_err err =
        mci_targets_hold(mover->client->outside, &set, &mover->incarnation);
    if (err == MC_OK) {
        mover->targets = set;
        mci_targets_release(before);
    }
    return err;
}

void mci_mover_end(struct mci_mover *mover)
{
    mci_targets_release(mover->targets);
    mover->targets = NULL;
}

enum mci_nearness mci_mover_near(struct mci_mover *mover, uint32_t segment,
                                 uint64_t deadline_ns)
{
    const struct mc_client *client = mover->client;
    if (!mover->targets) {
        return segment == client->segment_id ? MCI_NEAR_HERE : MCI_NEAR_NOWHERE;
    }
    const struct mci_target *target = NULL;
    enum mc_err err =
        mci_targets_find(mover->targets, segment, deadline_ns, &target);
    return err == MC_OK ? target->nearness : MCI_NEAR_NOWHERE;
}

/* ---- rows ---------------------------------------------------------------- */

static enum mc_err aim_here(const struct mc_client *client,
                            const struct mci_claim *claim)
{
    bool is_there = claim->place->segment == client->segment_id &&
                    mci_is_within(claim->place->offset, claim->bytes,
                                  client->segment.bytes);
    return is_there ? MC_OK : MC_ERR_SEGMENT_NOT_FOUND;
}

static enum mc_err aim_outside(const struct mci_mover *mover,
                               const struct mci_claim *claim,
                               uint64_t deadline_ns,
                               struct mc_transfer_row *row)
{
    const struct mci_target *target = NULL;
    enum mc_err err = mci_targets_find(mover->targets, claim->place->segment,
                                       deadline_ns, &target);
    if (err != MC_OK) {
        return err;
    }
    if (!mci_is_within(claim->place->offset, claim->bytes, target->bytes)) {
        return MC_ERR_SEGMENT_NOT_FOUND;
    }
    row->target = target->target;
    row->grant = *claim->grant;
    row->terms = (struct mc_grant_terms){.registration = target->registration,
                                         .incarnation = mover->incarnation,
                                         .subject = claim->subject,
                                         .offset = claim->place->offset,
                                         .len = claim->bytes,
                                         .is_write = claim->is_write};
    return MC_OK;
}

enum mc_err mci_mover_aim(struct mci_mover *mover,
                          const struct mci_claim *claim, uint64_t from,
                          uint64_t deadline_ns, struct mc_transfer_row *row)
{
    row->target = NULL;
    row->spans = NULL;
    row->span_count = 0;
    row->offset = claim->place->offset + from;
    row->terms.is_write = claim->is_write;
    row->is_final = false;
    row->source = NULL;
    row->err = MC_ERR_TRANSFER_FAIL;
    row->bytes = 0;
    row->local_ended = true;
    row->remote_ended = true;
    row->receipt = 0;
    return mover->targets ? aim_outside(mover, claim, deadline_ns, row)
                          : aim_here(mover->client, claim);
}

void mci_mover_note(const struct mc_transfer_row *row)
{
    mc_log(MC_LOG_DEBUG,
           "%s failed: %s (%d), transport %d, %llu bytes moved, %s",
           row->terms.is_write ? "write" : "read", mc_err_text(row->err),
           row->err, row->transport, (unsigned long long)row->bytes,
           row->remote_ended ? "over" : "in doubt");
}

/* ---- running ------------------------------------------------------------- */

static void copy_piece(uint8_t *memory, uint8_t *data, size_t len,
                       bool is_write)
{
    if (is_write) {
        memcpy(memory, data, len);
    } else {
        memcpy(data, memory, len);
    }
}

/* In pieces, so that a cancel does not wait for a large row; false: stopped. */
static bool copy_span(const struct mci_mover *mover, uint8_t *memory,
                      const struct mc_span *span, struct mc_transfer_row *row)
{
    for (size_t at = 0; at < span->len;) {
        if (mci_mover_stops(mover)) {
            return false;
        }
        size_t left = span->len - at;
        size_t some = left < PIECE_BYTES ? left : PIECE_BYTES;
        copy_piece(memory + row->bytes, (uint8_t *)span->data + at, some,
                   row->terms.is_write);
        row->bytes += some;
        at += some;
    }
    return true;
}

/* One that is stopped stays failed, as if it had not begun. */
static void copy_row(const struct mci_mover *mover, uint8_t *memory,
                     struct mc_transfer_row *row)
{
    for (uint32_t i = 0; i < row->span_count; i++) {
        if (!copy_span(mover, memory, &row->spans[i], row)) {
            return;
        }
    }
    row->err = MC_OK;
}

void mci_mover_run(struct mci_mover *mover, struct mc_transfer_row *rows,
                   size_t count, uint64_t deadline_ns)
{
    static const _Atomic int never;
    if (mover->targets) {
        (void)mci_transfer_run(mci_outside_transfer(mover->client->outside),
                               rows, count, deadline_ns,
                               mover->stops ? mover->stops : &never);
        return; /* rows tell */
    }
    uint8_t *base = mover->client->segment.base;
    for (size_t i = 0; i < count && !mci_mover_stops(mover); i++) {
        copy_row(mover, base + rows[i].offset, &rows[i]);
    }
}

void mci_mover_seal(struct mci_mover *mover, struct mc_transfer_row *rows,
                    size_t count, uint64_t deadline_ns)
{
    if (mover->targets) {
        (void)mc_transfer_seal(mci_outside_transfer(mover->client->outside),
                               rows, count, deadline_ns);
    }
}
