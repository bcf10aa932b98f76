/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_line.c - requests wait, are served, and end. */
#include <assert.h>
#include <string.h>

#include "mci_alloc.h"
#include "recovery_reader.h"

enum mc_err mci_recovery_create(const struct mci_recovery_opts *opts,
                                struct mci_recovery **recovery_out)
{
    struct mci_recovery *recovery = mci_calloc(1, sizeof *recovery);
    if (!recovery) {
        return MC_ERR_NOMEM;
    }
    recovery->opts = *opts;
    mci_buf_init(&recovery->words, MC_BATCH_BYTES_MAX);
    mci_list_init(&recovery->idle);
    mci_list_init(&recovery->line);
    mci_list_init(&recovery->served);
    recovery->readers = mci_calloc(READERS_MAX, sizeof *recovery->readers);
    uint8_t *payload = mci_alloc(MC_BATCH_BYTES_MAX);
    recovery->store =
        (struct mci_recovery_store){.source = opts->source,
                                    .ctx = opts->ctx,
                                    .history = opts->history,
                                    .writer = opts->writer,
                                    .backend_id = opts->backend_id,
                                    .epoch = opts->epoch,
                                    .max_bytes = opts->max_bytes,
                                    .no_rows = opts->no_rows,
                                    .payload = payload};
    if (!recovery->readers || !payload) {
        mci_recovery_destroy(recovery);
        return MC_ERR_NOMEM;
    }
    for (size_t i = 0; i < READERS_MAX; i++) {
        mci_list_push_back(&recovery->idle, &recovery->readers[i].link);
    }
    *recovery_out = recovery;
    return MC_OK;
}

void mci_recovery_destroy(struct mci_recovery *recovery)
{
    if (!recovery) {
        return;
    }
    while (!mci_list_is_empty(&recovery->served)) {
        mci_recovery_drop(recovery, reader_of(recovery->served.next));
    }
    mci_buf_fini(&recovery->words);
    mci_free(recovery->store.payload);
    mci_free(recovery->readers);
    mci_free(recovery);
}

/* ---- beginning and ending to be served -------------------------------------- */

static void leave_walk(struct mci_recovery *recovery, struct reader *reader)
{
    struct mci_walk_shared *walk = reader->walk;
    mci_walk_leave(walk, reader->at);
    reader->walk = NULL;
    reader->at = NULL;
    recovery->sharing--;
    if (walk->readers == 0) {
        mci_walk_close(walk);
        recovery->walks--;
    }
}

/* Out of its list, and of what it takes up. */
static void take_out(struct mci_recovery *recovery, struct reader *reader)
{
    recovery->may_fill = true;
    mci_list_remove(&reader->link);
    mci_history_release(reader->held);
    reader->held = NULL;
    if (reader->is_aside) {
        recovery->asides--;
    } else if (!reader->is_served) {
        recovery->in_line--;
    } else if (reader->kind == MCI_RECOVERY_REPLAY) {
        recovery->replays--;
    } else {
        leave_walk(recovery, reader);
    }
    reader->is_aside = false;
    reader->is_served = false;
}

void mci_recovery_drop(struct mci_recovery *recovery, struct reader *reader)
{
    take_out(recovery, reader);
    mci_list_push_back(&recovery->idle, &reader->link);
}

static void serve(struct mci_recovery *recovery, struct reader *reader,
                  uint64_t now_ns)
{
    mci_list_push_back(&recovery->served, &reader->link);
    reader->is_served = true;
    reader->progress_ns = now_ns;
    reader->retry_ns = now_ns;
}

void mci_recovery_serve_aside(struct mci_recovery *recovery,
                              struct reader *reader, uint64_t now_ns)
{
    serve(recovery, reader, now_ns);
    reader->is_aside = true;
    recovery->asides++;
}

static void become_end(struct mci_recovery *recovery, struct reader *reader,
                       uint32_t times, uint64_t now_ns)
{
    take_out(recovery, reader);
    reader->kind = MCI_RECOVERY_MALFORMED;
    reader->times = times;
    reader->ends = 0;
    mci_recovery_serve_aside(recovery, reader, now_ns);
}

void mci_recovery_refuse(struct mci_recovery *recovery, struct reader *reader,
                         uint64_t now_ns)
{
    become_end(recovery, reader, 1 + reader->ends, now_ns);
}

void mci_recovery_finish(struct mci_recovery *recovery, struct reader *reader,
                         uint64_t now_ns)
{
    if (reader->ends > 0) {
        become_end(recovery, reader, reader->ends, now_ns);
    } else {
        mci_recovery_drop(recovery, reader);
    }
}

bool mci_recovery_give_up(struct mci_recovery *recovery, struct reader *reader,
                          uint64_t now_ns)
{
    if (reader->is_aside) {
        recovery->stats.unanswered += reader->times;
        mci_recovery_drop(recovery, reader);
        return false;
    }
    recovery->stats.given_up++;
    mci_recovery_refuse(recovery, reader, now_ns);
    return true;
}

void mci_recovery_stand(struct mci_recovery *recovery, struct reader *reader)
{
    mci_list_push_back(&recovery->line, &reader->link);
    recovery->in_line++;
}

void mci_recovery_leave_behind(struct mci_recovery *recovery,
                               struct reader *reader)
{
    const struct mci_chunk *next = reader->at->next;
    reader->is_resumed = next->kind != MCI_CHUNK_BEGIN;
    reader->cursor = next->cursor;
    take_out(recovery, reader);
    mci_list_push_front(&recovery->line, &reader->link);
    recovery->in_line++;
}

/* ---- the line ---------------------------------------------------------------- */

/* Something is being said to the peer that another answer could be taken for:
 * all but the status, which says what it is. */
static bool is_peer_served(struct mci_recovery *recovery, struct mc_view peer)
{
    struct mci_link *link = recovery->served.next;
    for (; link != &recovery->served; link = link->next) {
        const struct reader *other = reader_of(link);
        if (other->kind != MCI_RECOVERY_STATUS &&
            mci_reader_is_of(other, peer)) {
            return true;
        }
    }
    return false;
}

/* It asked for something before this, which still waits. */
static bool is_peer_before(struct mci_recovery *recovery,
                           const struct reader *reader)
{
    struct mci_link *link = recovery->line.next;
    for (; link != &reader->link; link = link->next) {
        if (mci_reader_is_of(reader_of(link), mci_reader_peer(reader))) {
            return true;
        }
    }
    return false;
}

static bool is_its_turn(struct mci_recovery *recovery,
                        const struct reader *reader)
{
    return !is_peer_before(recovery, reader) &&
           !is_peer_served(recovery, mci_reader_peer(reader));
}

/* A walk that has not begun to move, over what the reader asked for. */
static struct mci_walk_shared *joinable(struct mci_recovery *recovery,
                                        const struct reader *reader)
{
    struct mci_link *link = recovery->served.next;
    for (; !reader->is_resumed && link != &recovery->served;
         link = link->next) {
        struct mci_walk_shared *walk = reader_of(link)->walk;
        if (walk && walk->start && walk->start->next &&
            walk->tenant_len == reader->tenant_len &&
            memcmp(walk->tenant, reader->tenant, walk->tenant_len) == 0) {
            return walk;
        }
    }
    return NULL;
}

static bool begin_replay(struct mci_recovery *recovery)
{
    if (recovery->replays == MCI_RECOVERY_REPLAYS) {
        return false;
    }
    recovery->replays++;
    return true;
}

/* False: it has to wait. With *err_out it will not come about. */
static bool begin_snapshot(struct mci_recovery *recovery, struct reader *reader,
                           enum mc_err *err_out)
{
    if (recovery->sharing == MCI_RECOVERY_SHARING_MAX) {
        return false;
    }
    struct mci_walk_shared *walk = joinable(recovery, reader);
    if (!walk) {
        if (recovery->walks == MCI_RECOVERY_WALKS) {
            return false;
        }
        const struct mc_view tenant =
            reader->tenant_len
                ? mc_view_make(reader->tenant, reader->tenant_len)
                : mc_view_make(NULL, 0);
        *err_out =
            mci_walk_open(&recovery->store, tenant,
                          reader->is_resumed ? &reader->cursor : NULL, &walk);
        if (*err_out) {
            return false;
        }
        recovery->walks++;
        recovery->stats.walks++;
    }
    recovery->sharing++;
    reader->walk = walk;
    reader->at = mci_walk_join(walk);
    return true;
}

static void begin(struct mci_recovery *recovery, struct reader *reader,
                  uint64_t now_ns)
{
    enum mc_err err = MC_OK;
    bool has_begun = reader->kind == MCI_RECOVERY_REPLAY
                         ? begin_replay(recovery)
                         : begin_snapshot(recovery, reader, &err);
    if (err) {
        recovery->stats.refused++;
        mci_recovery_refuse(recovery, reader, now_ns);
    } else if (has_begun) {
        mci_list_remove(&reader->link);
        recovery->in_line--;
        serve(recovery, reader, now_ns);
    }
}

static bool has_room(const struct mci_recovery *recovery,
                     const struct reader *reader)
{
    return reader->kind == MCI_RECOVERY_REPLAY
               ? recovery->replays < MCI_RECOVERY_REPLAYS
               : recovery->sharing < MCI_RECOVERY_SHARING_MAX;
}

void mci_recovery_fill(struct mci_recovery *recovery, uint64_t now_ns)
{
    recovery->may_fill = false;
    struct mci_link *link = recovery->line.next;
    while (link != &recovery->line) {
        struct reader *reader = reader_of(link);
        link = link->next;
        if (has_room(recovery, reader) && is_its_turn(recovery, reader)) {
            begin(recovery, reader, now_ns);
        }
    }
}
