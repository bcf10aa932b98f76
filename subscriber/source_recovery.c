/* SPDX-License-Identifier: Apache-2.0 */
/* A loss wants a replay from the first number that is missing (wants_seq). When
 * that has ended, whatever is still missing and not newly wanted cannot be
 * replayed: a snapshot is wanted. The beginning of a snapshot settles all losses
 * that were known when it was asked for; those that come meanwhile are replayed
 * before the mirror is swept, and if they cannot be, a later snapshot begins. */
#include "source_recovery.h"

#include <assert.h>
#include <string.h>

#define NEVER UINT64_MAX
#define REPLAYS_MAX 3 /* that fail, then it is a snapshot */

void recovery_init(struct recovery *recovery, uint64_t patience_ns,
                   uint64_t seed)
{
    memset(recovery, 0, sizeof *recovery);
    recovery->patience_ns = patience_ns ? patience_ns : RECOVERY_PATIENCE_NS;
    recovery->seed = seed | 1;
    recovery->wants_seq = NEVER;
    recovery->slack_seq = NEVER;
}

static struct recovery_order *push_order(struct recovery *recovery,
                                         enum recovery_order_kind kind)
{
    assert(recovery->order_count < RECOVERY_ORDERS_MAX);
    struct recovery_order *order = &recovery->orders[recovery->order_count++];
    *order = (struct recovery_order){.kind = kind,
                                     .number = recovery->request.number};
    return order;
}

bool recovery_next_order(struct recovery *recovery,
                         struct recovery_order *order_out)
{
    if (recovery->order_count == 0) {
        return false;
    }
    *order_out = recovery->orders[0];
    recovery->order_count--;
    memmove(recovery->orders, recovery->orders + 1,
            recovery->order_count * sizeof *recovery->orders);
    return true;
}

static void drop_request(struct recovery *recovery)
{
    if (recovery->request.number != 0) {
        (void)push_order(recovery, RECOVERY_DROP);
        recovery->request.number = 0;
    }
}

static void want_replay(struct recovery *recovery, uint64_t from_seq)
{
    if (recovery->slack_seq < from_seq) {
        from_seq = recovery->slack_seq;
    }
    recovery->slack_seq = NEVER;
    if (from_seq < recovery->wants_seq) {
        recovery->wants_seq = from_seq;
    }
}

/* ---- the stream ------------------------------------------------------- */

static void begin(struct recovery *recovery)
{
    recovery->is_active = true;
    recovery->is_told = true;
}

void recovery_begin_snapshot(struct recovery *recovery)
{
    begin(recovery);
    recovery->wants_snapshot = true;
}

void recovery_begin_replay(struct recovery *recovery, uint64_t from_seq)
{
    recovery->is_active = true;
    recovery->wants_seq = from_seq;
}

void recovery_connected(struct recovery *recovery, const struct cursor *cursor)
{
    if (!cursor->has_baseline) {
        return;
    }
    recovery->is_fresh = true;
    recovery->wants_status = !recovery->is_by_number;
}

void recovery_lost(struct recovery *recovery, uint64_t from_seq, bool is_known)
{
    begin(recovery);
    if (is_known || from_seq == 0) {
        recovery->wants_snapshot = true;
    } else {
        want_replay(recovery, from_seq);
    }
}

/* What was asked, wanted and walked means nothing any more. */
static void forget(struct recovery *recovery)
{
    drop_request(recovery);
    memset(&recovery->holes, 0, sizeof recovery->holes);
    recovery->snapshot.stage = RECOVERY_NO_SNAPSHOT;
    recovery->wants_snapshot = false;
    recovery->wants_seq = NEVER;
    recovery->slack_seq = NEVER;
    recovery->target_seq = 0;
    recovery->doubt_id = 0;
    recovery->covered_id = 0;
    recovery->forgets = true;
}

void recovery_adopted(struct recovery *recovery)
{
    memset(&recovery->holes, 0, sizeof recovery->holes);
    recovery->target_seq = 0;
    recovery->doubt_id = 0;
}

void recovery_go_by_number(struct recovery *recovery, bool is_by_number)
{
    if (is_by_number && !recovery->is_by_number && recovery->is_active) {
        forget(recovery);
        recovery->wants_status = false;
        recovery->is_active = false;
        if (recovery->is_told) {
            recovery->degraded = MC_DEGRADED_BAD_ANSWER;
        }
        recovery->is_told = false;
    }
    recovery->is_by_number = is_by_number;
}

void recovery_moved(struct recovery *recovery, bool is_all_known)
{
    forget(recovery);
    if (!is_all_known) {
        recovery_begin_snapshot(recovery);
    }
}

void recovery_doubt(struct recovery *recovery, const struct cursor *cursor)
{
    if (cursor->mark > recovery->covered_id) {
        recovery->wants_status = true;
        recovery->doubt_id = cursor->mark;
    }
}

void recovery_crowded(struct recovery *recovery, uint64_t now_ns)
{
    bool is_walking = recovery->snapshot.stage != RECOVERY_NO_SNAPSHOT ||
                      (recovery->request.number != 0 &&
                       recovery->request.kind == ASKER_SNAPSHOT);
    drop_request(recovery);
    recovery->snapshot.stage = RECOVERY_NO_SNAPSHOT;
    recovery->wants_seq = NEVER;
    recovery->wants_snapshot = true;
    recovery->forgets = true;
    if (is_walking && recovery->restarts++ == RECOVERY_SNAPSHOTS_MAX) {
        recovery_failed(recovery, MC_DEGRADED_OVERTAKEN, now_ns);
    }
}

void recovery_no_room(struct recovery *recovery, uint64_t now_ns)
{
    recovery_moved(recovery, false);
    recovery_failed(recovery, MC_DEGRADED_NO_ROOM, now_ns);
}

/* ---- requests --------------------------------------------------------- */

static struct recovery_order *ask(struct recovery *recovery,
                                  enum asker_kind kind, uint64_t now_ns)
{
    recovery->request = (struct recovery_request){
        .number = ++recovery->last_number,
        .kind = kind,
        .deadline_ns = now_ns + recovery->patience_ns,
    };
    struct recovery_order *order = push_order(recovery, RECOVERY_ASK);
    order->ask = kind;
    recovery->counters.requests++;
    return order;
}

static void ask_status(struct recovery *recovery, uint64_t now_ns)
{
    (void)ask(recovery, ASKER_STATUS, now_ns);
    recovery->request.is_fresh = recovery->is_fresh;
    recovery->request.doubt_id = recovery->doubt_id;
    recovery->wants_status = false;
    recovery->is_fresh = false;
    recovery->doubt_id = 0;
    recovery->status_ns = now_ns + RECOVERY_STATUS_NS;
    recovery->counters.statuses++;
}

static void ask_replay(struct recovery *recovery, uint64_t now_ns)
{
    struct recovery_order *order = ask(recovery, ASKER_REPLAY, now_ns);
    order->from_seq = recovery->wants_seq;
    order->credit = recovery->is_unpaced ? 0 : RECOVERY_CREDIT;
    recovery->request.from_seq = recovery->wants_seq;
    recovery->request.next_seq = recovery->wants_seq;
    recovery->request.credit = order->credit;
    recovery->wants_seq = NEVER;
    recovery->counters.replays++;
}

/* Whatever is missing now stands in it: what was removed up to now has no need
 * to be remembered. */
static void ask_snapshot(struct recovery *recovery, uint64_t now_ns)
{
    (void)ask(recovery, ASKER_SNAPSHOT, now_ns);
    recovery->wants_snapshot = false;
    recovery->wants_seq = NEVER;
    recovery->snapshot.stage = RECOVERY_NO_SNAPSHOT;
    recovery->snapshot.round++;
    recovery->forgets = true;
    recovery->has_used_snapshot = true;
    recovery->counters.snapshots++;
}

/* Half of the time up to all of it, so that many do not ask together. */
static uint64_t spread(struct recovery *recovery, uint64_t time_ns)
{
    recovery->seed ^= recovery->seed << 13;
    recovery->seed ^= recovery->seed >> 7;
    recovery->seed ^= recovery->seed << 17;
    return time_ns / 2 + recovery->seed % (time_ns / 2 + 1);
}

static void back_off(struct recovery *recovery, uint64_t now_ns)
{
    uint64_t time_ns = RECOVERY_BACKOFF_NS;
    for (uint32_t i = 0;
         i < recovery->attempts && time_ns < RECOVERY_BACKOFF_MAX_NS; i++) {
        time_ns *= 2;
    }
    if (time_ns > RECOVERY_BACKOFF_MAX_NS) {
        time_ns = RECOVERY_BACKOFF_MAX_NS;
    }
    recovery->attempts++;
    recovery->backoff_ns = now_ns + spread(recovery, time_ns);
}

/* What the request was for is wanted again. */
static void want_again(struct recovery *recovery)
{
    const struct recovery_request *request = &recovery->request;
    if (request->number == 0) {
        return;
    }
    if (request->kind == ASKER_STATUS) {
        recovery->wants_status = true;
        recovery->is_fresh |= request->is_fresh;
        recovery->doubt_id = request->doubt_id;
    } else if (request->kind == ASKER_REPLAY) {
        recovery->is_target_asked = false;
        want_replay(recovery, request->from_seq);
        recovery->wants_snapshot |=
            recovery->attempts >= REPLAYS_MAX && !recovery->is_by_number;
    } else {
        recovery->wants_snapshot = true;
        recovery->snapshot.stage = RECOVERY_NO_SNAPSHOT;
    }
}

void recovery_failed(struct recovery *recovery, enum mc_degraded_cause cause,
                     uint64_t now_ns)
{
    bool is_status =
        recovery->request.number && recovery->request.kind == ASKER_STATUS;
    want_again(recovery);
    drop_request(recovery);
    back_off(recovery, now_ns);
    recovery->restarts = 0;
    recovery->counters.failures++;
    bool is_kept_waiting =
        !is_status || recovery->wants_snapshot || recovery->wants_seq != NEVER;
    if (is_kept_waiting && recovery->is_told && !recovery->is_degraded) {
        recovery->is_degraded = true;
        recovery->degraded = cause;
    }
}

/* ---- answers ---------------------------------------------------------- */

static void note_progress(struct recovery *recovery, uint64_t now_ns)
{
    recovery->request.deadline_ns = now_ns + recovery->patience_ns;
}

void recovery_batch(struct recovery *recovery, uint64_t seq, bool is_readable,
                    uint64_t now_ns)
{
    struct recovery_request *request = &recovery->request;
    note_progress(recovery, now_ns);
    request->has_break |= !is_readable || seq != request->next_seq;
    request->next_seq = seq + 1;
    if (request->credit == 0) {
        return;
    }
    request->credit--;
    if (request->credit <= RECOVERY_CREDIT / 2) {
        push_order(recovery, RECOVERY_GRANT)->credit = RECOVERY_CREDIT / 2;
        request->credit += RECOVERY_CREDIT / 2;
    }
}

/* A tail that something up to it should show within a second. */
static void set_target(struct recovery *recovery, const struct cursor *cursor,
                       uint64_t seq, uint64_t now_ns)
{
    if (seq > cursor->last_seq && seq > recovery->target_seq) {
        recovery->target_seq = seq;
        recovery->target_ns = now_ns + RECOVERY_TARGET_NS;
        recovery->is_target_asked = false;
    }
}

void recovery_first(struct recovery *recovery,
                    const struct recovery_answer *answer, uint64_t now_ns)
{
    struct recovery_snapshot *snapshot = &recovery->snapshot;
    note_progress(recovery, now_ns);
    snapshot->stage = RECOVERY_WALKING;
    snapshot->is_flawed = false;
    snapshot->epoch = answer->epoch;
    snapshot->first_id = answer->first_id;
    snapshot->next_index = answer->index + 1;
    recovery->slack_seq = answer->tail_seq > RECOVERY_TAIL_SLACK
                              ? answer->tail_seq - RECOVERY_TAIL_SLACK
                              : 1;
}

bool recovery_rows(struct recovery *recovery, uint64_t index, uint64_t now_ns)
{
    struct recovery_snapshot *snapshot = &recovery->snapshot;
    if (snapshot->stage != RECOVERY_WALKING || index != snapshot->next_index) {
        recovery_failed(recovery, MC_DEGRADED_BAD_ANSWER, now_ns);
        return false;
    }
    snapshot->next_index++;
    note_progress(recovery, now_ns);
    return true;
}

void recovery_walked(struct recovery *recovery, struct cursor *cursor,
                     const struct recovery_answer *answer, uint64_t now_ns)
{
    struct recovery_snapshot *snapshot = &recovery->snapshot;
    if (!recovery_rows(recovery, answer->index, now_ns)) {
        return;
    }
    if (snapshot->is_flawed || answer->epoch != snapshot->epoch ||
        answer->last_id < snapshot->first_id) {
        recovery_failed(recovery, MC_DEGRADED_BAD_ANSWER, now_ns);
        return;
    }
    struct holes_taken taken =
        holes_take_to(&recovery->holes, snapshot->first_id);
    uint64_t before = cursor->delivered;
    cursor_fetched(cursor, taken.lost, false);
    cursor_fetched(cursor, taken.refused, true);
    cursor_jump(cursor, snapshot->first_id);
    recovery->counters.covered += cursor->delivered - before;
    recovery->covered_id = snapshot->first_id;
    if (recovery->wants_seq == NEVER) {
        cursor_made_whole(cursor);
    }
    snapshot->stage = RECOVERY_WALKED;
    snapshot->last_id = answer->last_id;
    set_target(recovery, cursor, answer->tail_seq, now_ns);
    drop_request(recovery);
    recovery->attempts = 0;
}

static void end_replay(struct recovery *recovery, struct cursor *cursor)
{
    const struct recovery_request *request = &recovery->request;
    bool is_all = !request->has_break && request->next_seq > cursor->last_seq &&
                  recovery->wants_seq == NEVER;
    bool has_tail = recovery->target_seq <= cursor->last_seq;
    if (recovery->is_by_number) {
        drop_request(recovery);
        return;
    }
    if (is_all) {
        cursor_made_whole(cursor);
    }
    drop_request(recovery);
    if (recovery->is_target_asked && !has_tail) {
        begin(recovery);
        recovery->has_lost_tail = true;
        recovery->lost_from_seq = cursor->last_seq + 1;
        recovery->lost_to_seq = recovery->target_seq;
        recovery->target_seq = 0;
        recovery->wants_snapshot = true;
    }
}

void recovery_end(struct recovery *recovery, struct cursor *cursor,
                  uint64_t now_ns)
{
    if (recovery->request.kind == ASKER_REPLAY) {
        end_replay(recovery, cursor);
        recovery->attempts = 0;
    } else {
        recovery_failed(recovery, MC_DEGRADED_UNANSWERED, now_ns);
    }
}

bool recovery_status(struct recovery *recovery, const struct cursor *cursor,
                     const struct recovery_answer *answer, uint64_t now_ns)
{
    struct recovery_request request = recovery->request;
    drop_request(recovery);
    recovery->attempts = 0;
    if (!cursor->has_baseline) {
        return false;
    }
    bool is_other = cursor->has_ids && answer->epoch != cursor->epoch;
    if (is_other && (request.is_fresh || answer->epoch > cursor->epoch)) {
        recovery->believed_epoch = answer->epoch;
        recovery_begin_snapshot(recovery);
        return false;
    }
    if (!is_other) {
        set_target(recovery, cursor, answer->tail_seq, now_ns);
    }
    return !is_other && request.doubt_id > answer->last_id;
}

/* ---- deciding --------------------------------------------------------- */

static bool is_whole(const struct recovery *recovery,
                     const struct cursor *cursor)
{
    return holes_are_empty(&recovery->holes) && cursor_is_whole(cursor);
}

static void heed_target(struct recovery *recovery, const struct cursor *cursor,
                        uint64_t now_ns)
{
    if (recovery->target_seq <= cursor->last_seq) {
        recovery->target_seq = 0;
    } else if (now_ns >= recovery->target_ns && !recovery->is_target_asked) {
        recovery->is_active = true;
        recovery->is_target_asked = true;
        want_replay(recovery, cursor->last_seq + 1);
    }
}

static bool has_wish(const struct recovery *recovery)
{
    return recovery->wants_status || recovery->wants_snapshot ||
           recovery->wants_seq != NEVER;
}

/* Asks for the first thing that is wanted. */
static void ask_next(struct recovery *recovery, uint64_t now_ns)
{
    if (recovery->wants_status) {
        ask_status(recovery, now_ns);
    } else if (recovery->wants_snapshot) {
        ask_snapshot(recovery, now_ns);
    } else if (recovery->wants_seq != NEVER) {
        ask_replay(recovery, now_ns);
    }
}

/* Nothing is open or wanted: is all in its place? */
static enum recovery_verdict judge(struct recovery *recovery,
                                   const struct cursor *cursor)
{
    const struct recovery_snapshot *snapshot = &recovery->snapshot;
    if (!is_whole(recovery, cursor)) {
        recovery->wants_snapshot = true;
        recovery->restarts += snapshot->stage != RECOVERY_NO_SNAPSHOT;
        return RECOVERY_WAIT;
    }
    if (recovery->target_seq > cursor->last_seq) {
        return RECOVERY_WAIT;
    }
    if (snapshot->stage == RECOVERY_NO_SNAPSHOT) {
        return RECOVERY_OVER;
    }
    return cursor_last_id(cursor) >= snapshot->last_id ? RECOVERY_SWEEP
                                                       : RECOVERY_WAIT;
}

/* Whatever a replay was asked for has come, or was not missing after all. */
static void drop_needless(struct recovery *recovery,
                          const struct cursor *cursor)
{
    if (!is_whole(recovery, cursor) || recovery->wants_snapshot ||
        recovery->target_seq > cursor->last_seq) {
        return;
    }
    recovery->wants_seq = NEVER;
    if (recovery->request.kind == ASKER_REPLAY) {
        drop_request(recovery);
        recovery->attempts = 0;
    }
}

static enum recovery_verdict decide_by_number(struct recovery *recovery,
                                              uint64_t now_ns)
{
    if (recovery->request.number != 0) {
        return RECOVERY_WAIT;
    }
    if (recovery->wants_seq == NEVER || recovery->backoff_ns > now_ns) {
        recovery->wants_seq = NEVER;
        return RECOVERY_STOP;
    }
    ask_replay(recovery, now_ns);
    return RECOVERY_WAIT;
}

enum recovery_verdict recovery_decide(struct recovery *recovery,
                                      const struct cursor *cursor,
                                      uint64_t now_ns)
{
    if (recovery->is_by_number) {
        return recovery->is_active ? decide_by_number(recovery, now_ns)
                                   : RECOVERY_WAIT;
    }
    heed_target(recovery, cursor, now_ns);
    if (now_ns >= recovery->status_ns && cursor->epoch == 0) {
        recovery->status_ns = now_ns + RECOVERY_STATUS_NS;
        recovery->wants_status = true;
    }
    drop_needless(recovery, cursor);
    bool may_ask =
        recovery->request.number == 0 && now_ns >= recovery->backoff_ns;
    if (may_ask && !recovery->wants_snapshot && !has_wish(recovery) &&
        recovery->is_active) {
        enum recovery_verdict verdict = judge(recovery, cursor);
        if (verdict != RECOVERY_WAIT) {
            return verdict;
        }
    }
    if (may_ask && recovery->restarts > RECOVERY_SNAPSHOTS_MAX) {
        recovery_failed(recovery, MC_DEGRADED_OVERTAKEN, now_ns);
    } else if (may_ask) {
        ask_next(recovery, now_ns);
    }
    return RECOVERY_WAIT;
}

void recovery_tick(struct recovery *recovery, uint64_t now_ns)
{
    if (recovery->request.number != 0 &&
        now_ns >= recovery->request.deadline_ns) {
        recovery_failed(recovery, MC_DEGRADED_UNANSWERED, now_ns);
    }
}

uint64_t recovery_wake_at(const struct recovery *recovery,
                          const struct cursor *cursor)
{
    uint64_t at_ns = NEVER;
    if (recovery->request.number != 0) {
        at_ns = recovery->request.deadline_ns;
    } else if (has_wish(recovery)) {
        at_ns = recovery->backoff_ns;
    }
    if (recovery->target_seq > 0 && !recovery->is_target_asked &&
        recovery->target_ns < at_ns) {
        at_ns = recovery->target_ns;
    }
    if (!recovery->is_by_number && cursor->epoch == 0 &&
        recovery->status_ns < at_ns) {
        at_ns = recovery->status_ns;
    }
    return at_ns;
}

void recovery_swept(struct recovery *recovery)
{
    recovery->snapshot.stage = RECOVERY_NO_SNAPSHOT;
}

bool recovery_close(struct recovery *recovery, bool is_good,
                    bool *by_snapshot_out)
{
    bool is_due = recovery->is_told && is_good;
    *by_snapshot_out = recovery->has_used_snapshot;
    if (is_due) {
        recovery->counters.recoveries++;
        *(recovery->has_used_snapshot ? &recovery->counters.by_snapshot
                                      : &recovery->counters.by_replay) += 1;
    }
    recovery->is_active = false;
    recovery->is_told = false;
    recovery->is_degraded = false;
    recovery->has_used_snapshot = false;
    recovery->restarts = 0;
    recovery->slack_seq = NEVER;
    recovery->forgets = true;
    return is_due;
}

bool recovery_needs_past(const struct recovery *recovery)
{
    bool is_walking = recovery->request.number != 0 &&
                      recovery->request.kind == ASKER_SNAPSHOT;
    return recovery->is_active && !recovery->is_by_number &&
           (!recovery->wants_snapshot || is_walking);
}
