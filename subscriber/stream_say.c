/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_parts.h"

static struct mc_signal *push_signal(struct stream *stream,
                                     enum mc_signal_type type)
{
    struct mc_signal *signal = &stream->signals[stream->signal_count++];
    *signal = (struct mc_signal){.type = type, .source = stream->source};
    return signal;
}

void stream_degraded(struct stream *stream, enum mc_degraded_cause cause)
{
    struct mc_signal *signal = push_signal(stream, MC_SIGNAL_DEGRADED);
    signal->cause = cause;
    signal->seq = stream->batch.seq;
}

void stream_refused(struct stream *stream, enum mc_event_error reason,
                    uint32_t offset, uint64_t seq)
{
    struct mc_signal *signal = push_signal(stream, MC_SIGNAL_DEGRADED);
    signal->cause = MC_DEGRADED_REFUSED;
    signal->reason = reason;
    signal->offset = offset;
    signal->seq = seq;
}

void stream_recovered(struct stream *stream, bool by_snapshot)
{
    push_signal(stream, MC_SIGNAL_RECOVERED)->by_snapshot = by_snapshot;
}

void stream_lost_tail(struct stream *stream, uint64_t from_seq, uint64_t to_seq)
{
    struct mc_signal *signal = push_signal(stream, MC_SIGNAL_GAP);
    signal->from_seq = from_seq;
    signal->to_seq = to_seq;
}

static void push_gap(struct stream *stream,
                     const struct cursor_finding *finding)
{
    struct mc_signal *signal = push_signal(stream, MC_SIGNAL_GAP);
    signal->from_id = finding->from_id;
    signal->to_id = finding->to_id;
    signal->from_seq = finding->from_seq;
    signal->to_seq = finding->to_seq;
    signal->seq = stream->batch.seq;
}

static void push_epoch(struct stream *stream,
                       const struct cursor_finding *finding)
{
    struct mc_signal *signal = push_signal(stream, MC_SIGNAL_EPOCH);
    signal->epoch = finding->epoch;
    signal->from_id = finding->baseline_id > 0 ? 1 : 0;
    signal->to_id = finding->baseline_id;
    signal->seq = stream->batch.seq;
}

void stream_drop(struct stream *stream, uint64_t seq)
{
    stream->pairs_from = stream->at;
    if (follower_drop(stream_follower(stream), &stream->opts.sink)) {
        push_signal(stream, MC_SIGNAL_STALE)->seq = seq;
    }
}

void stream_restart(struct stream *stream, uint64_t seq)
{
    struct follower *follower = stream_follower(stream);
    stream_drop(stream, seq);
    if (follower_has_ids(follower)) {
        recovery_moved(follower->recovery, false);
    } else if (follower->recovery) {
        follower->recovery->is_told = false; /* stale has said it */
    }
}

/* Where a replay has to begin; 0: nobody knows. */
static uint64_t lost_from(const struct stream *stream,
                          const struct cursor_finding *finding)
{
    if (finding->from_seq > 0) {
        return finding->from_seq;
    }
    bool has_ids = finding->hole_count > 0 || !(finding->what & CURSOR_GAP);
    return has_ids ? stream->batch.seq : 0;
}

static void heed_recovering(struct stream *stream,
                            const struct cursor_finding *finding)
{
    struct recovery *recovery = stream_follower(stream)->recovery;
    if (finding->what & CURSOR_MOVED) {
        stream_drop(stream, stream->batch.seq);
        recovery_moved(recovery, (finding->what & CURSOR_EPOCH) &&
                                     finding->baseline_id == 0);
        return;
    }
    for (unsigned i = 0; i < finding->hole_count; i++) {
        holes_add(&recovery->holes, &finding->holes[i]);
    }
    if ((finding->what & CURSOR_OLD) && stream->letter.kind == LETTER_LIVE) {
        recovery_doubt(recovery, &stream_follower(stream)->cursor);
    }
    if (finding->what & CURSOR_BROKEN) {
        recovery_lost(recovery, lost_from(stream, finding),
                      stream->letter.kind == LETTER_REPLAY);
    }
}

/* A store that stamps no epoch has ids that do not count. */
static void heed_epoch(struct stream *stream,
                       const struct cursor_finding *finding)
{
    struct follower *follower = stream_follower(stream);
    follower->knows_all = finding->baseline_id == 0;
    if (follower->recovery && !follower->engine) {
        follower_go_by_number(follower, finding->epoch == 0);
    }
}

void stream_tell(struct stream *stream, const struct cursor_finding *finding)
{
    struct follower *follower = stream_follower(stream);
    if ((finding->what & CURSOR_GAP) && !follower_was_told(follower, finding)) {
        push_gap(stream, finding);
    }
    if (finding->what & CURSOR_EPOCH) {
        push_epoch(stream, finding);
    }
}

void stream_heed(struct stream *stream, const struct cursor_finding *finding)
{
    struct follower *follower = stream_follower(stream);
    stream_tell(stream, finding);
    if (follower_has_ids(follower)) {
        heed_recovering(stream, finding);
    } else if (finding->what & CURSOR_BROKEN) {
        stream_restart(stream, stream->batch.seq);
    }
    if (finding->what & CURSOR_EPOCH) {
        heed_epoch(stream, finding);
    }
    if (finding->what & CURSOR_DISCARD) {
        follower_count(&follower->counters.strays, 1);
        follower_forget_held(follower);
    }
}
