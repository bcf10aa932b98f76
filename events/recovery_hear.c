/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_hear.c - what is heard becomes a request that is held, an answer that
 * goes out of turn, or credit.
 *
 * What one peer can take up is bounded: so many requests in line, one place for
 * its status and one for its ENDs, each with the number of times that it is to be
 * said. So a peer that asks without reading fills no place of another's.
 */
#include <string.h>

#include "recovery_reader.h"

/* NULL: all are in use. */
static struct reader *take_idle(struct mci_recovery *recovery,
                                struct mc_view peer)
{
    if (mci_list_is_empty(&recovery->idle)) {
        return NULL;
    }
    struct reader *reader = reader_of(recovery->idle.next);
    mci_list_remove(&reader->link);
    memset(reader, 0, sizeof *reader);
    mci_list_init(&reader->link);
    reader->peer_len = (uint8_t)peer.len;
    memcpy(reader->peer, peer.data, peer.len);
    return reader;
}

/* ---- out of turn ---------------------------------------------------------------- */

static struct reader *find_aside(struct mci_recovery *recovery,
                                 struct mc_view peer,
                                 enum mci_recovery_kind kind)
{
    struct mci_link *link = recovery->served.next;
    for (; link != &recovery->served; link = link->next) {
        struct reader *reader = reader_of(link);
        if (reader->is_aside && reader->kind == kind &&
            mci_reader_is_of(reader, peer)) {
            return reader;
        }
    }
    return NULL;
}

static void answer_aside(struct mci_recovery *recovery, struct mc_view peer,
                         enum mci_recovery_kind kind, uint64_t now_ns)
{
    struct reader *reader = find_aside(recovery, peer, kind);
    if (reader && reader->times < UINT32_MAX) {
        reader->times++;
        return;
    }
    if (!reader && recovery->asides < MCI_RECOVERY_ASIDE_MAX) {
        reader = take_idle(recovery, peer);
        if (reader) {
            reader->kind = kind;
            reader->times = 1;
            mci_recovery_serve_aside(recovery, reader, now_ns);
            return;
        }
    }
    recovery->stats.unanswered++;
}

/* The request that the peer has made last, of those that are held. */
static struct reader *last_held(struct mci_recovery *recovery,
                                struct mc_view peer)
{
    struct mci_link *link = recovery->line.prev;
    for (; link != &recovery->line; link = link->prev) {
        if (mci_reader_is_of(reader_of(link), peer)) {
            return reader_of(link);
        }
    }
    for (link = recovery->served.next; link != &recovery->served;
         link = link->next) {
        struct reader *reader = reader_of(link);
        if (!reader->is_aside && mci_reader_is_of(reader, peer)) {
            return reader;
        }
    }
    return NULL;
}

/* END could be taken for the end of what comes before it, so it waits for that. */
static void answer_end(struct mci_recovery *recovery, struct mc_view peer,
                       uint64_t now_ns)
{
    struct reader *held = last_held(recovery, peer);
    if (held && held->ends < UINT32_MAX) {
        held->ends++;
    } else if (held) {
        recovery->stats.unanswered++;
    } else {
        answer_aside(recovery, peer, MCI_RECOVERY_MALFORMED, now_ns);
    }
}

/* ---- requests ------------------------------------------------------------------- */

static uint32_t waiting_of(const struct mci_recovery *recovery,
                           struct mc_view peer)
{
    uint32_t count = 0;
    const struct mci_link *link = recovery->line.next;
    for (; link != &recovery->line; link = link->next) {
        count += mci_reader_is_of(
            MCI_CONTAINER(link, const struct reader, link), peer);
    }
    return count;
}

static void refuse(struct mci_recovery *recovery, struct mc_view peer,
                   uint64_t now_ns)
{
    recovery->stats.refused++;
    answer_end(recovery, peer, now_ns);
}

static void fill_in(struct mci_recovery *recovery, struct reader *reader,
                    const struct mci_recovery_request *request)
{
    struct mci_history_stats history;
    mci_history_stats(recovery->opts.history, &history);
    reader->kind = request->kind;
    reader->next_seq = request->start;
    reader->last_seq = history.tail_seq;
    reader->is_paced = request->is_paced;
    reader->credit = request->credit;
    reader->tenant_len = (uint8_t)request->tenant.len;
    if (request->tenant.len > 0) {
        memcpy(reader->tenant, request->tenant.data, request->tenant.len);
    }
}

/* Whether it has to wait shows when those who are before it have been looked at. */
static void enter(struct mci_recovery *recovery, struct mc_view peer,
                  const struct mci_recovery_request *request, uint64_t now_ns)
{
    if (waiting_of(recovery, peer) == MCI_RECOVERY_PEER_WAIT_MAX) {
        refuse(recovery, peer, now_ns);
        return;
    }
    struct reader *reader = take_idle(recovery, peer);
    if (!reader) {
        refuse(recovery, peer, now_ns);
        return;
    }
    fill_in(recovery, reader, request);
    mci_recovery_stand(recovery, reader);
    mci_recovery_fill(recovery, now_ns);
    if (recovery->in_line > MCI_RECOVERY_WAIT_MAX &&
        recovery->line.prev == &reader->link) {
        mci_recovery_drop(recovery, reader);
        refuse(recovery, peer, now_ns);
    }
}

/* The peer's first paced replay that is not over. */
static struct reader *find_paced(struct mci_link *list, struct mc_view peer)
{
    for (struct mci_link *link = list->next; link != list; link = link->next) {
        struct reader *reader = reader_of(link);
        if (reader->kind == MCI_RECOVERY_REPLAY && reader->is_paced &&
            mci_reader_is_of(reader, peer)) {
            return reader;
        }
    }
    return NULL;
}

static void top_up(struct mci_recovery *recovery, struct mc_view peer,
                   uint32_t credit, uint64_t now_ns)
{
    struct reader *reader = find_paced(&recovery->served, peer);
    if (!reader) {
        reader = find_paced(&recovery->line, peer);
    }
    if (reader) {
        reader->credit += credit; /* 2^32 messages of it do not come about */
        reader->retry_ns = now_ns;
    }
}

void mci_recovery_hear(struct mci_recovery *recovery, struct mc_view peer,
                       const struct mc_view *frames, size_t count,
                       uint64_t now_ns)
{
    struct mci_recovery_request request;
    struct mci_recovery_stats *stats = &recovery->stats;
    if (peer.len == 0 || peer.len > PEER_LEN_MAX) {
        return;
    }
    mci_recovery_request_read(frames, count, &request);
    switch (request.kind) {
    case MCI_RECOVERY_CREDIT:
        top_up(recovery, peer, request.credit, now_ns);
        return;
    case MCI_RECOVERY_REPLAY:
        stats->replays++;
        enter(recovery, peer, &request, now_ns);
        return;
    case MCI_RECOVERY_SNAPSHOT:
        stats->snapshots++;
        enter(recovery, peer, &request, now_ns);
        return;
    case MCI_RECOVERY_STATUS:
        stats->statuses++;
        answer_aside(recovery, peer, MCI_RECOVERY_STATUS, now_ns);
        return;
    default:
        stats->malformed++;
        answer_end(recovery, peer, now_ns);
    }
}
