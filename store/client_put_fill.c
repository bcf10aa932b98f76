/* SPDX-License-Identifier: Apache-2.0 */
/* client_put_fill.c - see the header. */
#include "client_put_fill.h"

#include "client_attempts.h"
#include "mci_alloc.h"

#define ZERO_BYTES 65536
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

static enum mc_err fill_some(struct filling *filling)
{
    struct mc_put_session *session = filling->session;
    struct mci_sessions *sessions = &filling->mover->client->sessions;
    struct mci_write_row row = session->row;
    uint8_t went[1][MCI_REPLICAS_MAX] = {{0}};
    struct mci_attempts moving = {.run = {.mover = *filling->mover,
                                          .moves = filling->moves,
                                          .owners = filling->owners,
                                          .room = FILL_PARTS},
                                  .renewed = filling->renewed,
                                  .rows = &row,
                                  .went = went,
                                  .parts = filling->parts,
                                  .part_count = filling->count,
                                  .places_most = MCI_REPLICAS_MAX};
    uint64_t bytes = 0;
    row.err = MC_OK;
    row.in_doubt = false;
    mci_attempts_move(&moving, filling->deadline_ns);
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < filling->count; i++) {
        bytes += filling->ranges[i].len;
    }
    mci_coverage_end(&session->coverage, filling->ranges, filling->count,
                     row.err == MC_OK);
    session->in_doubt |= row.in_doubt;
    for (size_t p = 0; p < MCI_REPLICAS_MAX; p++) {
        if (session->went[p] != MC_TRANSPORT_TCP && went[0][p]) {
            session->went[p] = went[0][p];
        }
    }
    mci_sessions_unlock(sessions);
    if (row.err == MC_OK) {
        atomic_fetch_add(&sessions->filled_bytes, bytes);
    }
    return row.err;
}

enum mc_err mci_put_session_fill(struct mci_mover *mover,
                                 struct mc_put_session *session,
                                 uint64_t deadline_ns)
{
    struct mci_sessions *sessions = &mover->client->sessions;
    struct filling *filling = make(mover, session, deadline_ns);
    enum mc_err err = filling ? MC_OK : MC_ERR_NOMEM;
    size_t count = 1;
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
