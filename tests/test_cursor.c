/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of the cursor, one interleaving a test. */
#include <string.h>

#include "cursor.h"
#include "draw.h"
#include "suite.h"

#define EPOCH UINT64_C(0x100)

/* A cursor, the message that it holds, and what it said last. */
struct reader {
    struct cursor cursor;
    struct cursor_message held;
    bool has_held;
    struct cursor_finding finding; /* of the message */
    unsigned event_what;           /* all that was found at its events */
    struct cursor_finding event_finding;
    unsigned released; /* messages that were held and then believed */
    unsigned discarded;
};

static void check_sum(const struct cursor *cursor)
{
    ck_assert_uint_eq(cursor->delivered + cursor_refused(cursor) + cursor->lost,
                      cursor_span(cursor));
}

static void begin(struct reader *reader)
{
    memset(reader, 0, sizeof *reader);
    cursor_init(&reader->cursor);
}

static struct cursor_message message_of(uint64_t seq, uint64_t epoch,
                                        uint64_t first_id, uint32_t count)
{
    struct cursor_message message = {.seq = seq, .count = count, .now_ns = 1};
    if (count > 0) {
        message.has_event = true;
        message.first_id = first_id;
        message.last_id = first_id + count - 1;
        message.epoch = epoch;
    }
    return message;
}

static void events(struct reader *reader, const struct cursor_message *message)
{
    struct cursor_finding finding;
    reader->event_what = 0;
    for (uint64_t id = message->first_id; message->has_event; id++) {
        (void)cursor_event(&reader->cursor, message->epoch, id, &finding);
        reader->event_what |= finding.what;
        if (finding.what) {
            reader->event_finding = finding;
        }
        check_sum(&reader->cursor);
        if (id == message->last_id) {
            break;
        }
    }
}

static enum cursor_verdict meet_message(struct reader *reader,
                                        struct cursor_message message)
{
    enum cursor_verdict verdict =
        cursor_message(&reader->cursor, &message, &reader->finding);
    if (verdict == CURSOR_RELEASE) {
        ck_assert(reader->has_held);
        struct cursor_finding found;
        reader->has_held = false;
        reader->released++;
        cursor_release(&reader->cursor, &reader->held, &found);
        check_sum(&reader->cursor);
        events(reader, &reader->held);
        verdict = cursor_message(&reader->cursor, &message, &reader->finding);
        ck_assert_int_ne(verdict, CURSOR_RELEASE);
        reader->finding = found;
    }
    if (reader->finding.what & CURSOR_DISCARD) {
        ck_assert(reader->has_held);
        reader->has_held = false;
        reader->discarded++;
    }
    check_sum(&reader->cursor);
    if (verdict == CURSOR_NEXT) {
        events(reader, &message);
    } else if (verdict == CURSOR_HOLD) {
        ck_assert(!reader->has_held);
        reader->held = message;
        reader->has_held = true;
    }
    return verdict;
}

/* A message of `count` events from first_id on. */
static enum cursor_verdict meet(struct reader *reader, uint64_t seq,
                                uint64_t epoch, uint64_t first_id,
                                uint32_t count)
{
    return meet_message(reader, message_of(seq, epoch, first_id, count));
}

static enum cursor_verdict meet_heartbeat(struct reader *reader, uint64_t seq)
{
    return meet(reader, seq, 0, 0, 0);
}

/* A reader that has seen ids 1..10 in messages 1 and 2. */
static void begin_at_ten(struct reader *reader, uint64_t epoch)
{
    begin(reader);
    ck_assert_int_eq(meet(reader, 1, epoch, 1, 5), CURSOR_NEXT);
    ck_assert_uint_eq(reader->finding.what, CURSOR_EPOCH);
    ck_assert_uint_eq(reader->finding.baseline_id, 0);
    ck_assert_int_eq(meet(reader, 2, epoch, 6, 5), CURSOR_NEXT);
    ck_assert_uint_eq(reader->finding.what, 0);
    ck_assert_uint_eq(cursor_last_id(&reader->cursor), 10);
}

/* Nothing was found amiss by the next message. */
static void check_goes_on(struct reader *reader, uint64_t seq, uint64_t epoch,
                          uint64_t first_id)
{
    ck_assert_int_eq(meet(reader, seq, epoch, first_id, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader->finding.what, 0);
    ck_assert_uint_eq(reader->event_what, 0);
}

START_TEST(a_first_message_with_later_ids_is_a_baseline_and_no_gap)
{
    struct reader reader;
    begin(&reader);
    ck_assert(!reader.cursor.has_baseline);
    ck_assert_int_eq(meet(&reader, 700, EPOCH, 5001, 3), CURSOR_NEXT);
    ck_assert(reader.cursor.has_baseline);
    ck_assert_uint_eq(reader.finding.what, CURSOR_EPOCH);
    ck_assert_uint_eq(reader.finding.epoch, EPOCH);
    ck_assert_uint_eq(reader.finding.baseline_id, 5000);
    ck_assert_uint_eq(reader.cursor.gaps, 0);
    ck_assert_uint_eq(reader.cursor.restarts, 0);
    ck_assert_uint_eq(cursor_span(&reader.cursor), 3);
    check_goes_on(&reader, 701, EPOCH, 5004);
}
END_TEST

START_TEST(heartbeats_before_the_first_event_give_the_sequence_alone)
{
    struct reader reader;
    begin(&reader);
    ck_assert_int_eq(meet_heartbeat(&reader, 40), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, 0);
    ck_assert(reader.cursor.has_baseline && !reader.cursor.has_ids);
    ck_assert_int_eq(meet_heartbeat(&reader, 41), CURSOR_NEXT);
    ck_assert_int_eq(meet(&reader, 42, EPOCH, 9, 1), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_EPOCH);
    ck_assert_uint_eq(reader.finding.baseline_id, 8);
}
END_TEST

START_TEST(the_same_message_twice_is_a_duplicate)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 2, EPOCH, 6, 5), CURSOR_DUPLICATE);
    ck_assert_uint_eq(reader.finding.what, 0);
    ck_assert_uint_eq(reader.cursor.delivered, 10);
    check_goes_on(&reader, 3, EPOCH, 11);
}
END_TEST

START_TEST(a_lower_sequence_of_the_same_epoch_is_old)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    cursor_connected(&reader.cursor);
    ck_assert_int_eq(meet(&reader, 1, EPOCH, 1, 5), CURSOR_DUPLICATE);
    check_goes_on(&reader, 3, EPOCH, 11);
    ck_assert_uint_eq(reader.cursor.restarts, 0);
}
END_TEST

START_TEST(a_missing_message_is_a_gap_of_ids_and_numbers)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 5, EPOCH, 21, 1), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(reader.finding.from_id, 11);
    ck_assert_uint_eq(reader.finding.to_id, 20);
    ck_assert_uint_eq(reader.finding.from_seq, 3);
    ck_assert_uint_eq(reader.finding.to_seq, 4);
    ck_assert_uint_eq(reader.cursor.lost, 10);
    ck_assert_uint_eq(reader.cursor.lost_seqs, 2);
    ck_assert_uint_eq(reader.cursor.gaps, 1);
    check_goes_on(&reader, 6, EPOCH, 22);
}
END_TEST

START_TEST(burnt_numbers_show_with_the_ids_they_stand_for)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    /* Three events were dropped: three ids, and three numbers burnt. */
    ck_assert_int_eq(meet(&reader, 6, EPOCH, 14, 64), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(reader.cursor.lost, 3);
    ck_assert_uint_eq(reader.cursor.lost_seqs, 3);
}
END_TEST

START_TEST(numbers_lost_with_no_id_missing_are_counted_and_no_gap)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    check_goes_on(&reader, 5, EPOCH, 11); /* heartbeats 3 and 4 were lost */
    ck_assert_uint_eq(reader.cursor.lost_seqs, 2);
    ck_assert_uint_eq(reader.cursor.gaps, 0);
}
END_TEST

START_TEST(a_gap_seen_by_a_heartbeat_is_told_once_and_its_ids_counted_later)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet_heartbeat(&reader, 4), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(reader.finding.from_id, 0);
    ck_assert_uint_eq(reader.finding.to_id, 0);
    ck_assert_uint_eq(reader.finding.from_seq, 3);
    ck_assert_uint_eq(reader.finding.to_seq, 3);
    ck_assert_uint_eq(reader.cursor.lost, 0);
    check_goes_on(&reader, 5, EPOCH, 15);
    ck_assert_uint_eq(reader.cursor.lost, 4);
    ck_assert_uint_eq(reader.cursor.gaps, 1);
}
END_TEST

START_TEST(a_hole_in_ids_alone_is_a_gap)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 3, EPOCH, 13, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(reader.finding.from_id, 11);
    ck_assert_uint_eq(reader.finding.to_id, 12);
    ck_assert_uint_eq(reader.finding.from_seq, 0);
    ck_assert_uint_eq(reader.cursor.lost_seqs, 0);
}
END_TEST

START_TEST(a_hole_inside_a_message_is_a_gap_at_its_event)
{
    struct reader reader;
    struct cursor_finding finding;
    begin_at_ten(&reader, EPOCH);
    struct cursor_message message = message_of(3, EPOCH, 11, 2);
    message.last_id = 15;
    (void)cursor_message(&reader.cursor, &message, &finding);
    ck_assert_uint_eq(finding.what, 0);
    ck_assert_int_eq(cursor_event(&reader.cursor, EPOCH, 11, &finding),
                     CURSOR_NEXT);
    ck_assert_uint_eq(finding.what, 0);
    ck_assert_int_eq(cursor_event(&reader.cursor, EPOCH, 15, &finding),
                     CURSOR_NEXT);
    ck_assert_uint_eq(finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(finding.from_id, 12);
    ck_assert_uint_eq(finding.to_id, 14);
    check_sum(&reader.cursor);
}
END_TEST

/* A restart is told by the epoch; where its numbers begin does not matter. */
static const uint64_t restart_seqs[] = {1, 2, 3, 900, UINT64_C(5) << 32};

START_TEST(another_epoch_is_a_restart_whatever_its_number)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    uint64_t seq = restart_seqs[_i];
    ck_assert_int_eq(meet(&reader, seq, EPOCH + 1, 1, 4), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what,
                      CURSOR_EPOCH | CURSOR_BROKEN | CURSOR_MOVED);
    ck_assert_uint_eq(reader.finding.epoch, EPOCH + 1);
    ck_assert_uint_eq(reader.finding.baseline_id, 0);
    ck_assert_uint_eq(reader.cursor.restarts, 1);
    ck_assert_uint_eq(reader.cursor.gaps, 0);
    ck_assert_uint_eq(reader.cursor.delivered, 14);
    ck_assert_uint_eq(cursor_span(&reader.cursor), 14);
    check_goes_on(&reader, seq + 1, EPOCH + 1, 5);
}
END_TEST

START_TEST(what_a_new_epoch_said_before_us_is_named)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 9, EPOCH + 1, 31, 1), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.baseline_id, 30);
    ck_assert_uint_eq(cursor_span(&reader.cursor), 11);
}
END_TEST

START_TEST(an_older_epoch_is_held_until_the_next_message_agrees)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 2, EPOCH - 1, 1, 2), CURSOR_HOLD);
    ck_assert_int_eq(meet(&reader, 3, EPOCH - 1, 3, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.released, 1);
    ck_assert_uint_eq(reader.finding.what,
                      CURSOR_EPOCH | CURSOR_BROKEN | CURSOR_MOVED);
    ck_assert_uint_eq(reader.cursor.epoch, EPOCH - 1);
    ck_assert_uint_eq(cursor_last_id(&reader.cursor), 4);
    check_goes_on(&reader, 4, EPOCH - 1, 5);
}
END_TEST

START_TEST(a_late_message_of_an_older_epoch_is_a_stray)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 2, EPOCH - 1, 1, 2), CURSOR_HOLD);
    ck_assert_int_eq(meet(&reader, 3, EPOCH, 11, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_DISCARD);
    ck_assert_uint_eq(reader.cursor.restarts, 0);
    check_goes_on(&reader, 4, EPOCH, 13);
}
END_TEST

START_TEST(an_older_epoch_on_a_fresh_connection_is_a_restart)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    cursor_connected(&reader.cursor);
    ck_assert_int_eq(meet(&reader, 2, EPOCH - 1, 1, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what,
                      CURSOR_EPOCH | CURSOR_BROKEN | CURSOR_MOVED);
}
END_TEST

START_TEST(an_epoch_that_changes_inside_a_message_is_a_restart_there)
{
    struct reader reader;
    struct cursor_finding finding;
    begin_at_ten(&reader, EPOCH);
    struct cursor_message message = message_of(3, EPOCH, 11, 2);
    (void)cursor_message(&reader.cursor, &message, &finding);
    (void)cursor_event(&reader.cursor, EPOCH, 11, &finding);
    (void)cursor_event(&reader.cursor, EPOCH + 5, 1, &finding);
    ck_assert_uint_eq(finding.what,
                      CURSOR_EPOCH | CURSOR_BROKEN | CURSOR_MOVED);
    ck_assert_uint_eq(reader.cursor.restarts, 1);
    check_sum(&reader.cursor);
    check_goes_on(&reader, 4, EPOCH + 5, 2);
}
END_TEST

/* ---- what cannot be read ---- */

START_TEST(a_refused_event_takes_the_id_of_its_place)
{
    struct reader reader;
    struct cursor_finding finding;
    begin_at_ten(&reader, EPOCH);
    struct cursor_message message = message_of(3, EPOCH, 12, 2);
    message.first_index = 1;
    message.count = 3;
    ck_assert_int_eq(cursor_message(&reader.cursor, &message, &finding),
                     CURSOR_NEXT);
    ck_assert_uint_eq(finding.what, 0);
    cursor_event_refused(&reader.cursor); /* 11 */
    ck_assert_uint_eq(cursor_last_id(&reader.cursor), 11);
    events(&reader, &message);
    ck_assert_uint_eq(reader.event_what, 0);
    ck_assert_uint_eq(cursor_refused(&reader.cursor), 1);
    ck_assert_uint_eq(reader.cursor.lost, 0);
    ck_assert_uint_eq(cursor_span(&reader.cursor), 13);
}
END_TEST

START_TEST(events_refused_at_the_end_stand_before_the_next_id)
{
    struct reader reader;
    struct cursor_finding finding;
    begin_at_ten(&reader, EPOCH);
    struct cursor_message message = message_of(3, EPOCH, 11, 1);
    message.count = 3;
    (void)cursor_message(&reader.cursor, &message, &finding);
    events(&reader, &message);
    cursor_event_refused(&reader.cursor);
    cursor_event_refused(&reader.cursor);
    ck_assert_uint_eq(cursor_last_id(&reader.cursor), 13);
    check_sum(&reader.cursor);
    check_goes_on(&reader, 4, EPOCH, 14);
    ck_assert_uint_eq(cursor_refused(&reader.cursor), 2);
}
END_TEST

START_TEST(a_message_of_refused_events_alone_moves_on)
{
    struct reader reader;
    struct cursor_finding finding;
    begin_at_ten(&reader, EPOCH);
    struct cursor_message message = {.seq = 3, .count = 2};
    ck_assert_int_eq(cursor_message(&reader.cursor, &message, &finding),
                     CURSOR_NEXT);
    cursor_event_refused(&reader.cursor);
    cursor_event_refused(&reader.cursor);
    check_goes_on(&reader, 4, EPOCH, 13);
    ck_assert_uint_eq(cursor_refused(&reader.cursor), 2);
    ck_assert_uint_eq(reader.cursor.lost, 0);
}
END_TEST

START_TEST(refused_events_that_the_ids_leave_no_room_for_are_none)
{
    struct reader reader;
    struct cursor_finding finding;
    begin_at_ten(&reader, EPOCH);
    struct cursor_message message = message_of(3, EPOCH, 11, 1);
    message.count = 4;
    (void)cursor_message(&reader.cursor, &message, &finding);
    events(&reader, &message);
    for (int i = 0; i < 3; i++) {
        cursor_event_refused(&reader.cursor);
    }
    check_goes_on(&reader, 4, EPOCH, 13); /* room for one only */
    ck_assert_uint_eq(cursor_refused(&reader.cursor), 1);
}
END_TEST

START_TEST(a_refused_message_moves_the_cursor_only_if_it_is_the_next)
{
    struct reader reader;
    struct cursor_finding finding;
    begin(&reader);
    ck_assert(!cursor_message_refused(&reader.cursor, true, 1, &finding));
    begin_at_ten(&reader, EPOCH);
    ck_assert(!cursor_message_refused(&reader.cursor, false, 3, &finding));
    ck_assert(!cursor_message_refused(&reader.cursor, true, 2, &finding));
    ck_assert(!cursor_message_refused(&reader.cursor, true, 4, &finding));
    ck_assert_uint_eq(finding.what, 0);
    ck_assert_uint_eq(reader.cursor.last_seq, 2);
    ck_assert(cursor_message_refused(&reader.cursor, true, 3, &finding));
    ck_assert_uint_eq(finding.what, CURSOR_BROKEN);
    ck_assert_uint_eq(reader.cursor.last_seq, 3);
}
END_TEST

START_TEST(ids_of_a_refused_message_are_refused_and_no_gap)
{
    struct reader reader;
    struct cursor_finding finding;
    begin_at_ten(&reader, EPOCH);
    (void)cursor_message_refused(&reader.cursor, true, 3, &finding);
    check_goes_on(&reader, 4, EPOCH, 75);
    ck_assert_uint_eq(cursor_refused(&reader.cursor), 64);
    ck_assert_uint_eq(reader.cursor.lost, 0);
    ck_assert_uint_eq(reader.cursor.gaps, 0);
}
END_TEST

START_TEST(where_messages_are_missing_too_the_ids_are_lost)
{
    struct reader reader;
    struct cursor_finding finding;
    begin_at_ten(&reader, EPOCH);
    (void)cursor_message_refused(&reader.cursor, true, 3, &finding);
    ck_assert_int_eq(meet(&reader, 6, EPOCH, 75, 1), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(reader.cursor.lost, 64);
    ck_assert_uint_eq(cursor_refused(&reader.cursor), 0);
}
END_TEST

START_TEST(a_number_taken_by_garbage_is_still_its_owners)
{
    struct reader reader;
    struct cursor_finding finding;
    uint64_t epoch = _i ? EPOCH : 0;
    begin_at_ten(&reader, epoch);
    (void)cursor_message_refused(&reader.cursor, true, 3, &finding);
    check_goes_on(&reader, 3, epoch, 11);
    check_goes_on(&reader, 4, epoch, 13);
    ck_assert_uint_eq(reader.cursor.delivered, 14);
    ck_assert_uint_eq(reader.cursor.lost_seqs, 0);
}
END_TEST

START_TEST(an_event_that_cannot_be_applied_is_lost)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    cursor_event_lost(&reader.cursor);
    ck_assert_uint_eq(reader.cursor.delivered, 9);
    ck_assert_uint_eq(reader.cursor.lost, 1);
    check_sum(&reader.cursor);
}
END_TEST

/* ---- numbers that are far off ---- */

START_TEST(a_far_jump_is_believed_when_the_next_message_goes_on_from_it)
{
    struct reader reader;
    uint64_t epoch = _i ? EPOCH : 0;
    uint64_t far = 2 + CURSOR_FAR + 1;
    begin_at_ten(&reader, epoch);
    ck_assert_int_eq(meet(&reader, far, epoch, 100, 2), CURSOR_HOLD);
    ck_assert_uint_eq(reader.cursor.last_seq, 2);
    ck_assert_int_eq(meet(&reader, far + 1, epoch, 102, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.released, 1);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(reader.finding.from_seq, 3);
    ck_assert_uint_eq(reader.finding.to_seq, far - 1);
    ck_assert_uint_eq(reader.finding.from_id, 11);
    ck_assert_uint_eq(reader.finding.to_id, 99);
    ck_assert_uint_eq(reader.cursor.delivered, 14);
    ck_assert_uint_eq(reader.cursor.lost_seqs, far - 3);
    check_goes_on(&reader, far + 2, epoch, 104);
}
END_TEST

START_TEST(a_jump_of_just_two_to_the_twentieth_is_a_gap_at_once)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 2 + CURSOR_FAR, EPOCH, 100, 1), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
}
END_TEST

START_TEST(a_far_jump_that_the_next_message_denies_is_a_stray)
{
    struct reader reader;
    uint64_t epoch = _i ? EPOCH : 0;
    begin_at_ten(&reader, epoch);
    ck_assert_int_eq(meet(&reader, UINT64_MAX, epoch, 100, 2), CURSOR_HOLD);
    ck_assert_int_eq(meet(&reader, 3, epoch, 11, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_DISCARD);
    ck_assert_uint_eq(reader.discarded, 1);
    ck_assert_uint_eq(reader.cursor.gaps, 0);
    check_goes_on(&reader, 4, epoch, 13);
}
END_TEST

START_TEST(a_message_whose_ids_go_on_is_taken_whatever_its_number)
{
    static const uint64_t numbers[] = {1, 2, UINT64_C(1) << 40};
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    check_goes_on(&reader, numbers[_i], EPOCH, 11); /* 3 in truth */
    ck_assert_uint_eq(reader.cursor.last_seq, 2);
    check_goes_on(&reader, 4, EPOCH, 13);
    ck_assert_uint_eq(reader.cursor.lost, 0);
    ck_assert_uint_eq(reader.cursor.lost_seqs, 1);
}
END_TEST

START_TEST(numbers_that_go_on_elsewhere_are_followed_there)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    check_goes_on(&reader, UINT64_C(1) << 40, EPOCH, 11);
    check_goes_on(&reader, (UINT64_C(1) << 40) + 1, EPOCH, 13);
    ck_assert_uint_eq(reader.cursor.last_seq, (UINT64_C(1) << 40) + 1);
    ck_assert_int_eq(meet_heartbeat(&reader, (UINT64_C(1) << 40) + 2),
                     CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, 0);
}
END_TEST

START_TEST(old_ids_under_a_new_number_break_trust_and_begin_anew)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 3, EPOCH, 4, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what,
                      CURSOR_GAP | CURSOR_BROKEN | CURSOR_MOVED);
    ck_assert_uint_eq(reader.finding.from_id, 0);
    ck_assert_uint_eq(reader.cursor.delivered, 12);
    check_goes_on(&reader, 4, EPOCH, 6);
}
END_TEST

START_TEST(a_message_half_old_gives_its_new_half)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    ck_assert_int_eq(meet(&reader, 3, EPOCH, 9, 4), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, 0);
    ck_assert_uint_eq(reader.cursor.delivered, 12);
    ck_assert_uint_eq(cursor_last_id(&reader.cursor), 12);
}
END_TEST

START_TEST(heartbeats_repeated_are_old_and_nothing_else)
{
    struct reader reader;
    begin_at_ten(&reader, EPOCH);
    for (uint64_t seq = 3; seq < 8; seq++) {
        ck_assert_int_eq(meet_heartbeat(&reader, seq), CURSOR_NEXT);
        ck_assert_int_eq(meet_heartbeat(&reader, seq), CURSOR_DUPLICATE);
    }
    ck_assert_uint_eq(reader.cursor.gaps, 0);
    check_goes_on(&reader, 8, EPOCH, 11);
}
END_TEST

START_TEST(heartbeats_that_count_from_below_are_a_publisher_unknown)
{
    struct reader reader;
    begin(&reader);
    (void)meet(&reader, 50, EPOCH, 1, 5);
    ck_assert_int_eq(meet_heartbeat(&reader, 7), CURSOR_DUPLICATE);
    ck_assert_int_eq(meet_heartbeat(&reader, 8), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_int_eq(meet(&reader, 9, EPOCH + 1, 20, 1), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what,
                      CURSOR_EPOCH | CURSOR_BROKEN | CURSOR_MOVED);
    ck_assert_uint_eq(reader.finding.baseline_id, 19);
}
END_TEST

/* ---- publishers without epochs ---- */

START_TEST(without_epochs_a_number_behind_is_held_and_then_a_restart)
{
    struct reader reader;
    begin_at_ten(&reader, 0);
    ck_assert_int_eq(meet(&reader, 1, 0, 1, 2), CURSOR_HOLD);
    ck_assert_int_eq(meet(&reader, 2, 0, 3, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.released, 1);
    ck_assert_uint_eq(reader.finding.what,
                      CURSOR_EPOCH | CURSOR_BROKEN | CURSOR_MOVED);
    ck_assert_uint_eq(reader.cursor.restarts, 1);
    ck_assert_uint_eq(reader.cursor.delivered, 14);
    check_goes_on(&reader, 3, 0, 5);
}
END_TEST

START_TEST(without_epochs_a_fresh_connection_makes_it_a_restart_at_once)
{
    /* Also where the number is the very last one again. */
    struct reader reader;
    begin_at_ten(&reader, 0);
    cursor_connected(&reader.cursor);
    ck_assert_int_eq(meet(&reader, (uint64_t)_i, 0, 1, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what,
                      CURSOR_EPOCH | CURSOR_BROKEN | CURSOR_MOVED);
    check_goes_on(&reader, (uint64_t)_i + 1, 0, 3);
}
END_TEST

START_TEST(without_epochs_a_message_twice_is_held_and_let_go)
{
    struct reader reader;
    begin_at_ten(&reader, 0);
    ck_assert_int_eq(meet(&reader, 2, 0, 6, 5), CURSOR_HOLD);
    ck_assert_int_eq(meet(&reader, 3, 0, 11, 2), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_DISCARD);
    ck_assert_uint_eq(reader.cursor.restarts, 0);
    ck_assert_uint_eq(reader.cursor.delivered, 12);
}
END_TEST

START_TEST(without_epochs_ids_need_not_mean_anything)
{
    static const uint64_t ids[] = {7, 7, 0, UINT64_MAX, 3, 900};
    struct reader reader;
    begin(&reader);
    for (uint64_t i = 0; i < 6; i++) {
        ck_assert_int_eq(meet(&reader, i + 1, 0, ids[i], 1), CURSOR_NEXT);
        ck_assert_uint_eq(reader.finding.what, i == 0 ? CURSOR_EPOCH : 0);
    }
    ck_assert_uint_eq(reader.cursor.delivered, 6);
    ck_assert_int_eq(meet(&reader, 9, 0, 5000, 1), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(reader.finding.from_id, 0);
    ck_assert_uint_eq(reader.finding.to_id, 0);
    ck_assert_uint_eq(reader.finding.from_seq, 7);
    ck_assert_uint_eq(reader.finding.to_seq, 8);
}
END_TEST

START_TEST(without_epochs_ids_that_rise_by_one_are_told)
{
    struct reader reader;
    begin_at_ten(&reader, 0);
    ck_assert_int_eq(meet(&reader, 5, 0, 31, 1), CURSOR_NEXT);
    ck_assert_uint_eq(reader.finding.what, CURSOR_GAP | CURSOR_BROKEN);
    ck_assert_uint_eq(reader.finding.from_id, 11);
    ck_assert_uint_eq(reader.finding.to_id, 30);
    ck_assert_uint_eq(reader.cursor.lost, 20);
    check_goes_on(&reader, 6, 0, 32);
}
END_TEST

START_TEST(the_largest_numbers_do_not_wrap)
{
    struct reader reader;
    begin(&reader);
    ck_assert_int_eq(meet(&reader, UINT64_MAX - 1, EPOCH, UINT64_MAX - 2, 1),
                     CURSOR_NEXT);
    ck_assert_int_eq(meet(&reader, UINT64_MAX, EPOCH, UINT64_MAX - 1, 2),
                     CURSOR_NEXT);
    ck_assert_uint_eq(cursor_last_id(&reader.cursor), UINT64_MAX);
    ck_assert_int_eq(meet(&reader, UINT64_MAX, EPOCH, UINT64_MAX, 1),
                     CURSOR_DUPLICATE);
    ck_assert_int_eq(meet(&reader, 0, EPOCH, 5, 1), CURSOR_DUPLICATE);
    check_sum(&reader.cursor);
}
END_TEST

/* ---- all of it at random ---- */

/* A truthful publisher behind a lossy line: messages are dropped, repeated,
 * unreadable; ids are lost with burnt numbers; it restarts. Every id is then
 * delivered once at most, in order, and the sum holds; at the end all that it
 * said since the baseline is accounted for. */
START_TEST(at_random_every_id_is_delivered_once_at_most_and_none_forgotten)
{
    uint64_t state = (uint64_t)_i * 7919 + 1;
    struct reader reader;
    struct cursor_finding finding;
    begin(&reader);
    uint64_t epoch = EPOCH;
    uint64_t seq = 0;
    uint64_t id = 0;
    uint64_t good_span = 0; /* of epochs that are over */
    uint64_t baseline = 0;
    bool is_followed = false; /* a message of this epoch was read */
    for (int step = 0; step < 4000; step++) {
        uint64_t luck = draw(&state, 100);
        if (luck == 0) {
            good_span = cursor_span(&reader.cursor);
            epoch++;
            seq = draw(&state, 3);
            id = 0;
            is_followed = false;
        }
        if (luck < 4) { /* the log overflowed */
            uint64_t burnt = draw(&state, 30);
            seq += burnt;
            id += burnt;
        }
        uint32_t count = (uint32_t)draw(&state, 5);
        struct cursor_message message = message_of(++seq, epoch, id + 1, count);
        id += count;
        uint64_t fate = draw(&state, 20);
        if (fate == 0) {
            continue; /* lost */
        }
        if (fate == 1) {
            (void)cursor_message_refused(&reader.cursor, true, seq, &finding);
            check_sum(&reader.cursor);
            continue;
        }
        uint64_t before = reader.cursor.delivered;
        enum cursor_verdict verdict = meet_message(&reader, message);
        ck_assert_uint_eq(reader.cursor.delivered - before, count);
        if (count == 0 && !is_followed) {
            continue; /* a heartbeat does not say whose it is */
        }
        ck_assert_int_eq(verdict, CURSOR_NEXT);
        if (!is_followed) {
            is_followed = true;
            baseline = reader.cursor.baseline_id;
        }
        if (fate == 2) {
            before = reader.cursor.delivered;
            ck_assert_int_eq(meet_message(&reader, message), CURSOR_DUPLICATE);
            ck_assert_uint_eq(reader.cursor.delivered, before);
        }
    }
    if (!is_followed) {
        return;
    }
    (void)meet(&reader, ++seq, epoch, id + 1, 1);
    ck_assert_uint_eq(cursor_last_id(&reader.cursor), id + 1);
    ck_assert_uint_eq(reader.cursor.delivered + cursor_refused(&reader.cursor) +
                          reader.cursor.lost,
                      good_span + id + 1 - baseline);
}
END_TEST

/* Anything at all: no number may bring the sum out of order. */
START_TEST(at_random_nonsense_keeps_the_sum)
{
    uint64_t state = (uint64_t)_i * 104729 + 1;
    static const uint64_t steps[] = {0, 1, 2, 5, CURSOR_FAR, CURSOR_FAR + 1};
    struct reader reader;
    struct cursor_finding finding;
    begin(&reader);
    for (int step = 0; step < 20000; step++) {
        uint64_t seq = reader.cursor.last_seq + steps[draw(&state, 6)] -
                       (draw(&state, 4) == 0 ? draw(&state, 9) : 0);
        uint64_t id = reader.cursor.mark + draw(&state, 4) -
                      (draw(&state, 4) == 0 ? draw(&state, 9) : 0);
        uint64_t epoch =
            draw(&state, 30) == 0 ? draw(&state, 3) : reader.cursor.epoch;
        if (draw(&state, 50) == 0) {
            cursor_connected(&reader.cursor);
        }
        if (draw(&state, 10) == 0) {
            (void)cursor_message_refused(&reader.cursor, true, seq, &finding);
        } else {
            (void)meet(&reader, seq, epoch, id, (uint32_t)draw(&state, 4));
        }
        if (draw(&state, 10) == 0) {
            cursor_event_refused(&reader.cursor);
        }
        check_sum(&reader.cursor);
    }
}
END_TEST

static void add_order(Suite *suite)
{
    TCase *order = tcase_create("order");
    tcase_add_test(order,
                   a_first_message_with_later_ids_is_a_baseline_and_no_gap);
    tcase_add_test(order,
                   heartbeats_before_the_first_event_give_the_sequence_alone);
    tcase_add_test(order, the_same_message_twice_is_a_duplicate);
    tcase_add_test(order, a_lower_sequence_of_the_same_epoch_is_old);
    tcase_add_test(order, a_missing_message_is_a_gap_of_ids_and_numbers);
    tcase_add_test(order, burnt_numbers_show_with_the_ids_they_stand_for);
    tcase_add_test(order,
                   numbers_lost_with_no_id_missing_are_counted_and_no_gap);
    tcase_add_test(
        order,
        a_gap_seen_by_a_heartbeat_is_told_once_and_its_ids_counted_later);
    tcase_add_test(order, a_hole_in_ids_alone_is_a_gap);
    tcase_add_test(order, a_hole_inside_a_message_is_a_gap_at_its_event);
    tcase_add_test(order, a_message_half_old_gives_its_new_half);
    tcase_add_test(order,
                   old_ids_under_a_new_number_break_trust_and_begin_anew);
    tcase_add_test(order, the_largest_numbers_do_not_wrap);
    suite_add_tcase(suite, order);
}

static void add_restarts(Suite *suite)
{
    TCase *restarts = tcase_create("restarts");
    tcase_add_loop_test(restarts,
                        another_epoch_is_a_restart_whatever_its_number, 0, 5);
    tcase_add_test(restarts, what_a_new_epoch_said_before_us_is_named);
    tcase_add_test(restarts,
                   an_older_epoch_is_held_until_the_next_message_agrees);
    tcase_add_test(restarts, a_late_message_of_an_older_epoch_is_a_stray);
    tcase_add_test(restarts, an_older_epoch_on_a_fresh_connection_is_a_restart);
    tcase_add_test(restarts,
                   an_epoch_that_changes_inside_a_message_is_a_restart_there);
    tcase_add_test(restarts, heartbeats_repeated_are_old_and_nothing_else);
    tcase_add_test(restarts,
                   heartbeats_that_count_from_below_are_a_publisher_unknown);
    suite_add_tcase(suite, restarts);
}

static void add_refusals(Suite *suite)
{
    TCase *refusals = tcase_create("refusals");
    tcase_add_test(refusals, a_refused_event_takes_the_id_of_its_place);
    tcase_add_test(refusals,
                   events_refused_at_the_end_stand_before_the_next_id);
    tcase_add_test(refusals, a_message_of_refused_events_alone_moves_on);
    tcase_add_test(refusals,
                   refused_events_that_the_ids_leave_no_room_for_are_none);
    tcase_add_test(refusals,
                   a_refused_message_moves_the_cursor_only_if_it_is_the_next);
    tcase_add_test(refusals, ids_of_a_refused_message_are_refused_and_no_gap);
    tcase_add_test(refusals, where_messages_are_missing_too_the_ids_are_lost);
    tcase_add_loop_test(refusals, a_number_taken_by_garbage_is_still_its_owners,
                        0, 2);
    tcase_add_test(refusals, an_event_that_cannot_be_applied_is_lost);
    suite_add_tcase(suite, refusals);
}

static void add_numbers(Suite *suite)
{
    TCase *numbers = tcase_create("numbers");
    tcase_add_loop_test(
        numbers, a_far_jump_is_believed_when_the_next_message_goes_on_from_it,
        0, 2);
    tcase_add_test(numbers,
                   a_jump_of_just_two_to_the_twentieth_is_a_gap_at_once);
    tcase_add_loop_test(
        numbers, a_far_jump_that_the_next_message_denies_is_a_stray, 0, 2);
    tcase_add_loop_test(
        numbers, a_message_whose_ids_go_on_is_taken_whatever_its_number, 0, 3);
    tcase_add_test(numbers, numbers_that_go_on_elsewhere_are_followed_there);
    tcase_add_test(numbers,
                   without_epochs_a_number_behind_is_held_and_then_a_restart);
    tcase_add_loop_test(
        numbers, without_epochs_a_fresh_connection_makes_it_a_restart_at_once,
        0, 3);
    tcase_add_test(numbers, without_epochs_a_message_twice_is_held_and_let_go);
    tcase_add_test(numbers, without_epochs_ids_need_not_mean_anything);
    tcase_add_test(numbers, without_epochs_ids_that_rise_by_one_are_told);
    suite_add_tcase(suite, numbers);
}

int main(void)
{
    Suite *suite = suite_create("cursor");
    add_order(suite);
    add_restarts(suite);
    add_refusals(suite);
    add_numbers(suite);
    TCase *random = tcase_create("random");
    tcase_set_timeout(random, 60);
    tcase_add_loop_test(
        random, at_random_every_id_is_delivered_once_at_most_and_none_forgotten,
        0, 100);
    tcase_add_loop_test(random, at_random_nonsense_keeps_the_sum, 0, 50);
    suite_add_tcase(suite, random);
    return suite_run(suite);
}
