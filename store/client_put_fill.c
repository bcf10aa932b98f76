/* SPDX-License-Identifier: Apache-2.0 */
/* client_put_fill.c - see the header. */
#include "client_put_fill.h"

#include "client_attempts.h"
#include "client_put_sums.h"
#include "mci_alloc.h"

#define ZERO_BYTES MCI_SUM_BLOCK /* which sums of zeros count on */
#define ZERO_SPANS 256
#define FILL_PARTS 64

/* Parts of zeros, each of an own span, or of whole spans that all are the same
 * zeros. */
struct filling {
    struct mci_mover *mover;
    struct mc_put_session *session;
    uint64_t deadline_ns;
    struct mci_interval ranges[FILL_PARTS];
    struct mci_part parts[FILL_PARTS];
    size_t count;
    struct mc_span spans[ZERO_SPANS];
    struct mc_transfer_row moves[FILL_PARTS];
    uint32_t owners[FILL_PARTS];
    struct mci_renewed_grant renewed[FILL_PARTS];
    uint8_t zeros[ZERO_BYTES];
};

static struct filling *make(struct mci_mover *mover,
                            struct mc_put_session *session,
                            uint64_t deadline_ns)
{
    struct filling *filling = mci_calloc(1, sizeof *filling);
    if (filling) {
        filling->mover = mover;
        filling->session = session;
        filling->deadline_ns = deadline_ns;
        for (size_t i = 0; i < ZERO_SPANS; i++) {
            filling->spans[i] = (struct mc_span){filling->zeros, ZERO_BYTES};
        }
    }
    return filling;
}

static void add_zeros(struct filling *filling, uint64_t from, uint64_t len)
{
    struct mci_part *part = &filling->parts[filling->count];
    mci_part_set(part, from, filling->zeros, len);
    if (len >= ZERO_BYTES) {
        part->spans = filling->spans;
        part->span_count = (uint32_t)(len / ZERO_BYTES);
    }
    part->row = 0;
    filling->ranges[filling->count++] = (struct mci_interval){from, len};
}

static void add_hole(struct filling *filling, const struct mci_interval *hole)
{
    uint64_t from = hole->from;
    uint64_t left = hole->len;
    while (left > 0 && filling->count < FILL_PARTS) {
        uint64_t len = left % ZERO_BYTES;
        if (len == 0) {
            uint64_t most = (uint64_t)ZERO_SPANS * ZERO_BYTES;
            len = left < most ? left : most;
        }
        add_zeros(filling, from, len);
        from += len;
        left -= len;
    }
}

/* The session is sealed and nothing of it is on its way, so that its holes are
 * this call's. */
static size_t find_holes(const struct mc_put_session *session,
                         struct filling *filling)
{
    struct mci_interval hole = {0, 0};
    filling->count = 0;
    while (filling->count < FILL_PARTS &&
           mci_coverage_hole(&session->coverage, hole.from + hole.len, &hole)) {
        add_hole(filling, &hole);
    }
    return filling->count;
}

/* Parts of the session's own; `moving` has room and parts, and no more. */
static enum mc_err move_parts(struct mc_put_session *session,
                              struct mci_attempts *moving, uint64_t deadline_ns)
{
    struct mci_sessions *sessions = &moving->run.mover.client->sessions;
    struct mci_write_row row = session->row;
    uint8_t went[1][MCI_REPLICAS_MAX] = {{0}};
    row.err = MC_OK;
    row.in_doubt = false;
    moving->rows = &row;
    moving->went = went;
    moving->places_most = MCI_REPLICAS_MAX;
    mci_attempts_move(moving, deadline_ns);
    mci_sessions_lock(sessions);
    session->in_doubt |= row.in_doubt;
    for (size_t p = 0; p < MCI_REPLICAS_MAX; p++) {
        if (session->went[p] != MC_TRANSPORT_TCP && went[0][p]) {
            session->went[p] = went[0][p];
        }
    }
    mci_sessions_unlock(sessions);
    return row.err;
}

static void note_sums(struct filling *filling)
{
    for (size_t i = 0; i < filling->count; i++) {
        mci_session_sums_fill(filling->session->sums, filling->ranges[i].from,
                              filling->ranges[i].len, filling->zeros);
    }
}

static enum mc_err fill_some(struct filling *filling)
{
    struct mc_put_session *session = filling->session;
    struct mci_sessions *sessions = &filling->mover->client->sessions;
    struct mci_attempts moving = {.run = {.mover = *filling->mover,
                                          .moves = filling->moves,
                                          .owners = filling->owners,
                                          .room = FILL_PARTS},
                                  .renewed = filling->renewed,
                                  .parts = filling->parts,
                                  .part_count = filling->count};
    uint64_t bytes = 0;
    enum mc_err err = move_parts(session, &moving, filling->deadline_ns);
    if (err == MC_OK && session->row.has_sums) {
        note_sums(filling);
    }
    for (size_t i = 0; i < filling->count; i++) {
        bytes += filling->ranges[i].len;
    }
    mci_sessions_lock(sessions);
    mci_coverage_end(&session->coverage, filling->ranges, filling->count,
                     err == MC_OK);
    mci_sessions_unlock(sessions);
    if (err == MC_OK) {
        atomic_fetch_add(&sessions->filled_bytes, bytes);
    }
    return err;
}

enum mc_err mci_put_session_fill(struct mci_mover *mover,
                                 struct mc_put_session *session,
                                 uint64_t deadline_ns)
{
    struct mci_sessions *sessions = &mover->client->sessions;
    struct filling *filling = make(mover, session, deadline_ns);
    enum mc_err err = filling ? MC_OK : MC_ERR_NOMEM;
    size_t count = 1;
    if (err == MC_OK && session->row.has_sums) {
        err = mci_session_sums_need(sessions, session);
    }
    while (err == MC_OK && count > 0) {
        mci_sessions_lock(sessions);
        count = find_holes(session, filling);
        if (count > 0) {
            err =
                mci_coverage_begin(&session->coverage, filling->ranges, count);
        }
        mci_sessions_unlock(sessions);
        if (count > 0 && err == MC_OK) {
            err = fill_some(filling);
        }
    }
    mci_free(filling);
    return err;
}

/* ---- sums ------------------------------------------------------------------------ */

enum mc_err mci_put_session_place_sums(struct mci_mover *mover,
                                       struct mc_put_session *session,
                                       uint64_t deadline_ns)
{
    struct mc_transfer_row moves[MCI_REPLICAS_MAX];
    uint32_t owners[MCI_REPLICAS_MAX];
    struct mci_renewed_grant renewed[MCI_REPLICAS_MAX];
    struct mci_part part = {.row = 0};
    struct mci_attempts moving = {.run = {.mover = *mover,
                                          .moves = moves,
                                          .owners = owners,
                                          .room = MCI_REPLICAS_MAX},
                                  .renewed = renewed,
                                  .parts = &part,
                                  .part_count = 1};
    struct mci_block_sums *blocks = &session->sums->blocks;
    if (session->sums->is_placed) {
        return MC_OK; /* the owners may have closed the attempt since */
    }
    uint64_t unsummed = mci_block_sums_end(blocks);
    mci_part_set(&part, blocks->of.size, blocks->sums,
                 blocks->count * MCI_SUM_LEN);
    enum mc_err err = move_parts(session, &moving, deadline_ns);
    if (err == MC_OK) {
        session->sums->is_placed = true;
        atomic_fetch_add(&mover->client->mismatches.unsummed, unsummed);
    }
    return err;
}
