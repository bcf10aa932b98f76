/* SPDX-License-Identifier: Apache-2.0 */
/* recovery.c - what is sent to whom, and what follows from how that went.
 *
 * Those that are served stand in a list. Whoever was given out goes to its end,
 * so all get their turn, one message each.
 */
#include "recovery.h"

#include <assert.h>

#include "mci_bytes.h"
#include "mci_pack.h"
#include "recovery_reader.h"

#define END_SEQ UINT64_MAX

/* ---- messages ---------------------------------------------------------------- */

static void add_frame(struct mci_recovery_message *message,
                      struct mc_view frame)
{
    message->frames[message->count++] = frame;
}

/* Peer and delimiter. */
static void begin_message(const struct reader *reader,
                          struct mci_recovery_message *message)
{
    message->count = 0;
    add_frame(message, mc_view_make(reader->peer, reader->peer_len));
    add_frame(message, mc_view_str(""));
}

static void add_number(struct mci_recovery *recovery, uint64_t number,
                       struct mci_recovery_message *message)
{
    mci_put_be64(recovery->number, number);
    add_frame(message, mc_view_make(recovery->number, sizeof recovery->number));
}

static bool say_end(struct mci_recovery *recovery, const struct reader *reader,
                    struct mci_recovery_message *message)
{
    begin_message(reader, message);
    if (recovery->opts.layout != 3) {
        add_frame(message, mc_view_str(""));
    }
    add_number(recovery, END_SEQ, message);
    add_frame(message, mc_view_str(""));
    recovery->current_is_last = true;
    return true;
}

static bool say_status(struct mci_recovery *recovery, struct reader *reader,
                       uint64_t now_ns, struct mci_recovery_message *message)
{
    const struct mci_recovery_opts *opts = &recovery->opts;
    struct mci_history_stats history;
    struct mci_pack pack;
    mci_history_stats(opts->history, &history);
    mci_buf_clear(&recovery->words);
    mci_pack_init(&pack, &recovery->words);
    mci_pack_map(&pack, 6);
    mci_pack_text(&pack, "epoch");
    mci_pack_u64(&pack, opts->epoch);
    mci_pack_text(&pack, "tail_seq");
    mci_pack_u64(&pack, history.tail_seq);
    mci_pack_text(&pack, "oldest_seq");
    mci_pack_u64(&pack, history.oldest_seq);
    mci_pack_text(&pack, "last_id");
    mci_pack_u64(&pack, opts->source->last_id(opts->ctx));
    mci_pack_text(&pack, "keys");
    mci_pack_u64(&pack, opts->source->keys(opts->ctx));
    mci_pack_text(&pack, "backend_id");
    mci_pack_str(&pack, opts->backend_id);
    if (mci_pack_done(&pack)) {
        reader->retry_ns = now_ns + MCI_RECOVERY_RETRY_NS;
        return false;
    }
    begin_message(reader, message);
    add_frame(message, mc_view_str("status"));
    add_frame(message, mci_buf_view(&recovery->words));
    recovery->current_is_last = true;
    return true;
}

static void let_go(struct reader *reader)
{
    mci_history_release(reader->held);
    reader->held = NULL;
}

/* Credit is for batches; the end needs none. Without credit nothing is held. */
static bool say_batch(struct mci_recovery *recovery, struct reader *reader,
                      struct mci_recovery_message *message)
{
    if (!reader->held && reader->next_seq <= reader->last_seq) {
        reader->held =
            mci_history_hold(recovery->opts.history, reader->next_seq);
    }
    if (!reader->held || reader->held->seq > reader->last_seq) {
        let_go(reader);
        return say_end(recovery, reader, message);
    }
    if (reader->is_paced && reader->credit == 0) {
        let_go(reader);
        reader->retry_ns = reader->progress_ns + MCI_RECOVERY_PATIENCE_NS;
        return false;
    }
    begin_message(reader, message);
    if (recovery->opts.layout != 3) {
        add_frame(message, recovery->opts.topic);
    }
    add_number(recovery, reader->held->seq, message);
    add_frame(message, reader->held->payload);
    return true;
}

/* ---- snapshots --------------------------------------------------------------- */

/* The reader of a walk that stands furthest back. */
static struct reader *slowest(struct mci_recovery *recovery,
                              const struct mci_walk_shared *walk)
{
    struct reader *found = NULL;
    struct mci_link *link = recovery->served.next;
    for (; link != &recovery->served; link = link->next) {
        struct reader *reader = reader_of(link);
        if (reader->walk == walk &&
            (!found || reader->at->number < found->at->number)) {
            found = reader;
        }
    }
    return found;
}

/* There is room for more of the walk, if need be without those who are slow. */
static bool has_window(struct mci_recovery *recovery,
                       struct mci_walk_shared *walk, uint64_t now_ns)
{
    if (walk->bytes <= MCI_WALK_WINDOW_BYTES) {
        walk->full_since_ns = 0;
        return true;
    }
    if (walk->full_since_ns == 0) {
        walk->full_since_ns = now_ns;
    }
    if (now_ns - walk->full_since_ns < MCI_RECOVERY_LAG_NS) {
        return false;
    }
    while (walk->bytes > MCI_WALK_WINDOW_BYTES) {
        struct reader *reader = slowest(recovery, walk);
        if (!reader->at->next) {
            break; /* a single slice is that large */
        }
        mci_recovery_leave_behind(recovery, reader);
    }
    walk->full_since_ns = 0;
    return true;
}

/* Waiting for others, and looking at shards without keys, are no fault of the
 * reader. */
static bool has_more(struct mci_recovery *recovery, struct reader *reader,
                     uint64_t now_ns, uint64_t wall_ms)
{
    if (reader->at->next) {
        return true;
    }
    if (!has_window(recovery, reader->walk, now_ns)) {
        reader->progress_ns = now_ns;
        reader->retry_ns = now_ns + MCI_RECOVERY_RETRY_NS;
        return false;
    }
    if (mci_walk_more(reader->walk, wall_ms)) {
        reader->retry_ns = now_ns + MCI_RECOVERY_RETRY_NS;
        return reader->at->next != NULL;
    }
    reader->progress_ns = now_ns;
    return reader->at->next != NULL;
}

static bool say_chunk(struct mci_recovery *recovery, struct reader *reader,
                      uint64_t now_ns, uint64_t wall_ms,
                      struct mci_recovery_message *message)
{
    if (!has_more(recovery, reader, now_ns, wall_ms)) {
        return false;
    }
    const struct mci_chunk *chunk = reader->at->next;
    begin_message(reader, message);
    add_frame(message, mc_view_str("snapshot"));
    add_number(recovery, reader->index, message);
    add_frame(message, mc_view_make(chunk->payload, chunk->len));
    if (chunk->kind == MCI_CHUNK_END) {
        add_frame(message, mc_view_str(""));
        recovery->current_is_last = true;
    }
    return true;
}

/* ---- turns ------------------------------------------------------------------- */

static bool say(struct mci_recovery *recovery, struct reader *reader,
                uint64_t now_ns, uint64_t wall_ms,
                struct mci_recovery_message *message)
{
    recovery->current_is_last = false;
    switch (reader->kind) {
    case MCI_RECOVERY_REPLAY:
        return say_batch(recovery, reader, message);
    case MCI_RECOVERY_SNAPSHOT:
        return say_chunk(recovery, reader, now_ns, wall_ms, message);
    case MCI_RECOVERY_STATUS:
        return say_status(recovery, reader, now_ns, message);
    default:
        return say_end(recovery, reader, message);
    }
}

static bool is_overdue(const struct reader *reader, uint64_t now_ns)
{
    uint64_t patience_ns = reader->is_aside ? MCI_RECOVERY_ASIDE_PATIENCE_NS
                                            : MCI_RECOVERY_PATIENCE_NS;
    return now_ns - reader->progress_ns >= patience_ns;
}

/* Something for the reader; the end, where it waits for something that has not
 * come in time. */
static bool say_or_end(struct mci_recovery *recovery, struct reader *reader,
                       uint64_t now_ns, uint64_t wall_ms,
                       struct mci_recovery_message *message)
{
    if (say(recovery, reader, now_ns, wall_ms, message)) {
        return true;
    }
    return is_overdue(reader, now_ns) &&
           mci_recovery_give_up(recovery, reader, now_ns) &&
           say(recovery, reader, now_ns, wall_ms, message);
}

bool mci_recovery_next(struct mci_recovery *recovery, uint64_t now_ns,
                       uint64_t wall_ms,
                       struct mci_recovery_message *message_out)
{
    assert(!recovery->current);
    if (recovery->may_fill) {
        mci_recovery_fill(recovery, now_ns);
    }
    /* Each is looked at once, about: those left behind are taken out. */
    uint32_t left = recovery->replays + recovery->sharing + recovery->asides;
    while (left-- > 0 && !mci_list_is_empty(&recovery->served)) {
        struct reader *reader = reader_of(recovery->served.next);
        mci_list_remove(&reader->link);
        mci_list_push_back(&recovery->served, &reader->link);
        if (now_ns >= reader->retry_ns &&
            say_or_end(recovery, reader, now_ns, wall_ms, message_out)) {
            recovery->current = reader;
            return true;
        }
    }
    return false;
}

/* What was said is behind it. */
static void go_on(struct mci_recovery *recovery, struct reader *reader)
{
    recovery->stats.batches += reader->kind == MCI_RECOVERY_REPLAY;
    recovery->stats.parts += reader->kind == MCI_RECOVERY_SNAPSHOT;
    if (reader->is_aside) {
        reader->times--;
    } else if (reader->kind == MCI_RECOVERY_SNAPSHOT) {
        reader->at = mci_walk_advance(reader->walk, reader->at);
        reader->index++;
    } else {
        reader->next_seq = reader->held->seq + 1;
        let_go(reader);
        reader->credit -= reader->is_paced;
    }
}

static void was_sent(struct mci_recovery *recovery, struct reader *reader,
                     uint64_t now_ns)
{
    reader->progress_ns = now_ns;
    reader->retry_ns = now_ns;
    reader->is_blocked = false;
    bool is_last =
        reader->is_aside ? reader->times == 1 : recovery->current_is_last;
    if (is_last) {
        mci_recovery_finish(recovery, reader, now_ns);
    } else {
        go_on(recovery, reader);
    }
}

/* It has been tried, so the time since it took something last is its own. */
static void was_blocked(struct mci_recovery *recovery, struct reader *reader,
                        uint64_t now_ns)
{
    if (is_overdue(reader, now_ns) &&
        !mci_recovery_give_up(recovery, reader, now_ns)) {
        return;
    }
    uint64_t wait_ns = (now_ns - reader->progress_ns) / 4;
    if (wait_ns < MCI_RECOVERY_RETRY_NS) {
        wait_ns = MCI_RECOVERY_RETRY_NS;
    } else if (wait_ns > MCI_RECOVERY_RETRY_MAX_NS) {
        wait_ns = MCI_RECOVERY_RETRY_MAX_NS;
    }
    reader->retry_ns = now_ns + wait_ns;
    reader->is_blocked = true;
}

void mci_recovery_told(struct mci_recovery *recovery,
                       enum mci_recovery_outcome outcome, uint64_t now_ns)
{
    struct reader *reader = recovery->current;
    assert(reader);
    recovery->current = NULL;
    if (outcome == MCI_RECOVERY_GONE) {
        recovery->stats.vanished++;
        mci_recovery_drop(recovery, reader);
    } else if (outcome == MCI_RECOVERY_BLOCKED) {
        was_blocked(recovery, reader, now_ns);
    } else {
        was_sent(recovery, reader, now_ns);
    }
}

void mci_recovery_room(struct mci_recovery *recovery, uint64_t now_ns)
{
    struct mci_link *link = recovery->served.next;
    for (; link != &recovery->served; link = link->next) {
        struct reader *reader = reader_of(link);
        if (reader->is_blocked &&
            now_ns - reader->progress_ns < MCI_RECOVERY_BRISK_NS) {
            reader->retry_ns = now_ns;
        }
    }
}

uint64_t mci_recovery_wake_at(const struct mci_recovery *recovery)
{
    if (recovery->may_fill && recovery->in_line > 0) {
        return 0; /* somebody's place is free */
    }
    uint64_t wake_ns = UINT64_MAX;
    const struct mci_link *link = recovery->served.next;
    for (; link != &recovery->served; link = link->next) {
        const struct reader *reader =
            MCI_CONTAINER(link, const struct reader, link);
        if (reader->retry_ns < wake_ns) {
            wake_ns = reader->retry_ns;
        }
    }
    return wake_ns;
}

void mci_recovery_stats(const struct mci_recovery *recovery,
                        struct mci_recovery_stats *stats_out)
{
    *stats_out = recovery->stats;
    stats_out->waiting = recovery->in_line;
    stats_out->serving =
        recovery->replays + recovery->sharing + recovery->asides;
}
