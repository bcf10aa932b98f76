/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_room.c - who may append when: reservations and bulk producers. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>

#include "await.h"
#include "log_rig.h"
#include "mci_clock.h"
#include "mci_event_log.h"
#include "suite.h"

/* --- reservations -------------------------------------------------------- */

START_TEST(reservation_is_counted_down_by_appends_and_its_rest_goes_back)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, 10, MCI_LOG_FOREGROUND, 0, &reserved),
        MC_OK);
    ck_assert_uint_eq(reserved, 10);
    (void)put(log, &tenant, "a", &reserved);
    (void)replace(log, &tenant, "a", &reserved);
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, 0, true, &reserved), 4);
    ck_assert_uint_eq(reserved, 6);
    ck_assert_uint_eq(stats_of(log).reserved, 6);
    ck_assert_uint_eq(stats_of(log).depth, 4);
    mci_event_log_unreserve(log, reserved);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    mci_event_log_unreserve(log, 0);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(reservation_that_finds_no_room_in_time_changes_nothing)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t first = 0;
    uint32_t second = 77;
    ck_assert_int_eq(
        mci_event_log_reserve(log, CAPACITY - 1, MCI_LOG_FOREGROUND, 0, &first),
        MC_OK);
    (void)put(log, &tenant, "a", NULL);
    ck_assert_int_eq(
        mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND, 0, &second),
        MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND,
                                           mci_clock_ns() + MCI_NS_PER_MS,
                                           &second),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(second, 77);
    ck_assert_uint_eq(stats_of(log).reserved, CAPACITY - 1);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    ck_assert_uint_eq(stats_of(log).waits, 2);
    mci_event_log_unreserve(log, first);
    ck_assert_int_eq(
        mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND, 0, &second), MC_OK);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(events_beyond_a_reservation_push_out_the_oldest)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, CAPACITY, MCI_LOG_FOREGROUND, 0, &reserved),
        MC_OK);
    for (uint32_t i = 0; i < CAPACITY - 1; i++) {
        (void)put(log, &tenant, "a", &reserved);
    }
    ck_assert_uint_eq(reserved, 1);
    (void)replace(log, &tenant, "a", &reserved); /* one too many */
    ck_assert_uint_eq(reserved, 0);
    ck_assert_uint_eq(stats_of(log).dropped, 1);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
    mci_event_log_destroy(log);
}
END_TEST

/* A thread that reserves, tells so, and gives back when it is let. */
struct reserver {
    struct mci_event_log *log;
    uint32_t count;
    enum mci_log_class cls;
    uint64_t deadline_ns;
    uint32_t reserved;
    enum mc_err err;
    _Atomic bool is_done;
    _Atomic bool may_end;
    pthread_t thread;
};

static void *reserver_run(void *arg)
{
    struct reserver *reserver = arg;
    reserver->err =
        mci_event_log_reserve(reserver->log, reserver->count, reserver->cls,
                              reserver->deadline_ns, &reserver->reserved);
    reserver->is_done = true;
    (void)AWAIT(reserver->may_end);
    mci_event_log_unreserve(reserver->log, reserver->reserved);
    return NULL;
}

static void reserver_start(struct reserver *reserver, struct mci_event_log *log,
                           uint32_t count, enum mci_log_class cls)
{
    uint64_t waits = stats_of(log).waits;
    *reserver = (struct reserver){
        .log = log, .count = count, .cls = cls, .deadline_ns = NEVER};
    ck_assert_int_eq(
        pthread_create(&reserver->thread, NULL, reserver_run, reserver), 0);
    ck_assert(AWAIT(stats_of(log).waits > waits || reserver->is_done));
}

static void reserver_end(struct reserver *reserver)
{
    ck_assert(AWAIT(reserver->is_done));
    reserver->may_end = true;
    ck_assert_int_eq(pthread_join(reserver->thread, NULL), 0);
}

START_TEST(blocked_writer_goes_on_when_the_consumer_has_taken)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reserver writer;
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    reserver_start(&writer, log, 64, MCI_LOG_FOREGROUND);
    ck_assert(!writer.is_done);
    mci_event_log_take(log, 0, &taken);
    reserver_end(&writer);
    ck_assert_int_eq(writer.err, MC_OK);
    ck_assert_uint_eq(writer.reserved, 64);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(blocked_writer_goes_on_when_another_gives_back)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct reserver writer;
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, CAPACITY, MCI_LOG_FOREGROUND, 0, &reserved),
        MC_OK);
    reserver_start(&writer, log, 1, MCI_LOG_FOREGROUND);
    ck_assert(!writer.is_done);
    mci_event_log_unreserve(log, reserved);
    reserver_end(&writer);
    ck_assert_int_eq(writer.err, MC_OK);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(detach_lets_waiting_writers_go_on)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reserver writers[3];
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    reserver_start(&writers[0], log, 1, MCI_LOG_FOREGROUND);
    reserver_start(&writers[1], log, CAPACITY, MCI_LOG_FOREGROUND);
    reserver_start(&writers[2], log, 9, MCI_LOG_BULK);
    mci_event_log_detach(log);
    for (int i = 0; i < 3; i++) {
        reserver_end(&writers[i]);
        ck_assert_int_eq(writers[i].err, MC_OK);
        ck_assert_uint_eq(writers[i].reserved, 0);
    }
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, 0);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(reservation_held_over_a_detach_is_still_given_back)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, 5, MCI_LOG_FOREGROUND, 0, &reserved), MC_OK);
    mci_event_log_detach(log);
    (void)put(log, &tenant, "a", &reserved);
    ck_assert_uint_eq(reserved, 4);
    mci_event_log_unreserve(log, reserved);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(detach_lets_go_those_who_wait_for_another_reservation)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct reserver writer;
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, CAPACITY, MCI_LOG_FOREGROUND, 0, &reserved),
        MC_OK);
    reserver_start(&writer, log, 1, MCI_LOG_FOREGROUND);
    mci_event_log_detach(log);
    reserver_end(&writer);
    ck_assert_int_eq(writer.err, MC_OK);
    ck_assert_uint_eq(writer.reserved, 0);
    ck_assert_uint_eq(stats_of(log).reserved, CAPACITY);
    mci_event_log_unreserve(log, reserved);
    mci_event_log_destroy(log);
}
END_TEST

#define HAND_OVERS 200

struct hand_over {
    struct mci_event_log *log;
    _Atomic uint32_t offered; /* rounds in which the log was full first */
    _Atomic uint32_t done;
    pthread_t thread;
};

static void *hand_over_run(void *arg)
{
    struct hand_over *side = arg;
    for (uint32_t i = 0; i < HAND_OVERS; i++) {
        uint32_t reserved = 0;
        if (!AWAIT(side->offered > i) ||
            mci_event_log_reserve(side->log, 1, MCI_LOG_FOREGROUND, NEVER,
                                  &reserved)) {
            break;
        }
        mci_event_log_unreserve(side->log, reserved);
        side->done++;
    }
    return NULL;
}

START_TEST(waiting_writers_are_woken_and_do_not_look_now_and_then)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct hand_over side = {.log = log};
    uint64_t waited_ns = 0;
    ck_assert_int_eq(pthread_create(&side.thread, NULL, hand_over_run, &side),
                     0);
    for (uint32_t i = 0; i < HAND_OVERS; i++) {
        uint32_t reserved = 0;
        ck_assert_int_eq(mci_event_log_reserve(
                             log, CAPACITY, MCI_LOG_FOREGROUND, 0, &reserved),
                         MC_OK);
        side.offered = i + 1;
        ck_assert(AWAIT(stats_of(log).waits == i + 1));
        uint64_t began_ns = mci_clock_ns();
        mci_event_log_unreserve(log, reserved);
        ck_assert(AWAIT(side.done == i + 1));
        waited_ns += mci_clock_ns() - began_ns;
    }
    ck_assert_int_eq(pthread_join(side.thread, NULL), 0);
    /* Looking every 50 ms would make it five seconds, half a slice each. */
    ck_assert_uint_lt(waited_ns, 3 * MCI_NS_PER_S);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(there_is_one_consumer_at_a_time)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    ck_assert_int_eq(mci_event_log_attach(log),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    mci_event_log_detach(log);
    ck_assert_int_eq(mci_event_log_attach(log), MC_OK);
    mci_event_log_destroy(log);
}
END_TEST

/* --- bulk producers ------------------------------------------------------ */

START_TEST(bulk_waits_while_the_log_is_over_half_full)
{
    enum mc_publisher_overflow policy =
        _i ? MC_PUBLISHER_BLOCK : MC_PUBLISHER_DROP_OLDEST;
    struct mci_event_log *log = log_make(policy, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reserver bulk;
    uint32_t reserved = 0;
    taken_make(&taken);
    fill(log, &tenant, CAPACITY / 2);
    ck_assert_int_eq(mci_event_log_reserve(log, 1, MCI_LOG_BULK, 0, &reserved),
                     MC_OK);
    ck_assert_int_eq(mci_event_log_reserve(log, 1, MCI_LOG_BULK, 0, &reserved),
                     MC_ERR_RPC_TIMEOUT);
    uint64_t now_ns = MCI_NS_PER_S; /* stands still: nobody gets overdue */
    mci_clock_fake(&now_ns);
    reserver_start(&bulk, log, 1, MCI_LOG_BULK);
    ck_assert(!bulk.is_done);
    mci_event_log_take(log, 0, &taken);
    reserver_end(&bulk);
    mci_clock_fake(NULL);
    ck_assert_int_eq(bulk.err, MC_OK);
    ck_assert_uint_eq(bulk.reserved, 1);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* True once a bulk producer's claim keeps the free room from others. */
static bool is_claimed(struct mci_event_log *log)
{
    uint32_t reserved = 0;
    if (mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND, 0, &reserved)) {
        return true;
    }
    mci_event_log_unreserve(log, reserved);
    return false;
}

START_TEST(bulk_that_waited_100_ms_goes_before_foreground_for_one_slice)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reserver bulk;
    uint32_t slice = mci_event_log_slice(log);
    static _Atomic uint64_t now_ns;
    now_ns = MCI_NS_PER_S;
    mci_clock_fake((const uint64_t *)&now_ns);
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    reserver_start(&bulk, log, slice, MCI_LOG_BULK);
    mci_event_log_take(log, 0, &taken);
    now_ns += 100 * MCI_NS_PER_MS - 1;
    ck_assert(!is_claimed(log)); /* not yet: foreground takes what is free */
    now_ns += 1;
    ck_assert(AWAIT(is_claimed(log)));
    while (CAPACITY - stats_of(log).depth < slice) {
        ck_assert(!bulk.is_done);
        ck_assert(is_claimed(log)); /* there is room, but not for us */
        mci_event_log_take(log, 0, &taken);
    }
    ck_assert(AWAIT(bulk.is_done));
    ck_assert_uint_eq(stats_of(log).reserved, slice);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    mci_event_log_take(log, 0, &taken);
    ck_assert(!is_claimed(log)); /* one slice, then it is our turn */
    uint32_t reserved = 0;
    ck_assert_int_eq(mci_event_log_reserve(log, 1, MCI_LOG_BULK, 0, &reserved),
                     MC_ERR_RPC_TIMEOUT);
    reserver_end(&bulk);
    mci_clock_fake(NULL);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(bulk_is_not_starved_by_writers_that_drop)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reader reader = {0};
    struct reserver bulk;
    uint32_t slice = mci_event_log_slice(log);
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    reserver_start(&bulk, log, slice, MCI_LOG_BULK);
    /* Writers faster than the consumer: the log would be full at all times. */
    for (int i = 0; i < AWAIT_TURNS_MAX && !bulk.is_done; i++) {
        mci_event_log_take(log, 0, &taken);
        reader_add(&reader, &taken);
        fill(log, &tenant, 2 * MC_BATCH_EVENTS_MAX);
        await_turn();
    }
    ck_assert(bulk.is_done);
    ck_assert_uint_eq(bulk.reserved, slice);
    fill(log, &tenant, 2 * CAPACITY);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY - slice);
    reserver_end(&bulk);
    reader_drain(&reader, log, &taken);
    ck_assert_uint_eq(reader.lost, stats_of(log).dropped);
    ck_assert_uint_eq(reader.lost + reader.taken, mci_event_log_last_id(log));
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(a_claim_ends_with_its_deadline)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    uint32_t reserved = 77;
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    ck_assert_int_eq(mci_event_log_reserve(log, 256, MCI_LOG_BULK,
                                           mci_clock_ns() + 120 * MCI_NS_PER_MS,
                                           &reserved),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(reserved, 77);
    mci_event_log_take(log, 0, &taken);
    ck_assert(!is_claimed(log));
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_room");
    TCase *tc = tcase_create("reservations");
    tcase_set_timeout(tc, 60);
    tcase_add_test(
        tc, reservation_is_counted_down_by_appends_and_its_rest_goes_back);
    tcase_add_test(tc, reservation_that_finds_no_room_in_time_changes_nothing);
    tcase_add_test(tc, events_beyond_a_reservation_push_out_the_oldest);
    tcase_add_test(tc, blocked_writer_goes_on_when_the_consumer_has_taken);
    tcase_add_test(tc, blocked_writer_goes_on_when_another_gives_back);
    tcase_add_test(tc, detach_lets_waiting_writers_go_on);
    tcase_add_test(tc, reservation_held_over_a_detach_is_still_given_back);
    tcase_add_test(tc, detach_lets_go_those_who_wait_for_another_reservation);
    tcase_add_test(tc, waiting_writers_are_woken_and_do_not_look_now_and_then);
    tcase_add_test(tc, there_is_one_consumer_at_a_time);
    suite_add_tcase(suite, tc);

    tc = tcase_create("bulk producers");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, bulk_waits_while_the_log_is_over_half_full, 0, 2);
    tcase_add_test(
        tc, bulk_that_waited_100_ms_goes_before_foreground_for_one_slice);
    tcase_add_test(tc, bulk_is_not_starved_by_writers_that_drop);
    tcase_add_test(tc, a_claim_ends_with_its_deadline);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
