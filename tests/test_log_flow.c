/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_flow.c - the log between threads: cleared, the waiting consumer, many
 * writers. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "await.h"
#include "log_rig.h"
#include "mci_clock.h"
#include "mci_event_log.h"
#include "suite.h"

/* --- cleared ------------------------------------------------------------- */

START_TEST(cleared_stands_only_if_nothing_was_put_meanwhile)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_tenant other = tenant_make("o");
    uint64_t commits = 0;
    uint64_t readable = 0;
    (void)put(log, &tenant, "a", NULL);
    mci_event_log_tenant_counts(log, &tenant, &commits, &readable);
    ck_assert_uint_eq(commits, 1);
    ck_assert_uint_eq(readable, 1);
    /* Still readable: no. */
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, commits, false, NULL), 0);
    (void)cut(log, &tenant, "a");
    /* Put and gone again behind the walk: a follower's view is right without
     * it, and a put of the same moment might be cut off: no. */
    (void)put(log, &tenant, "b", NULL);
    (void)cut(log, &tenant, "b");
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, commits, false, NULL), 0);
    ck_assert_uint_eq(mci_event_log_last_id(log), 4);
    /* Another tenant's puts are of no concern: yes. */
    mci_event_log_tenant_counts(log, &tenant, &commits, &readable);
    (void)put(log, &other, "a", NULL);
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, commits, false, NULL), 6);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(cleared_of_an_epoch_is_its_first_record)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    taken_make(&taken);
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, NEVER, true, NULL), 1);
    (void)put(log, &tenant, "a", NULL);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, 2);
    ck_assert_int_eq(taken.records[0].type, MC_EVENT_CLEARED);
    ck_assert_uint_eq(taken.records[0].id, 1);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* One thread puts and removes, another clears as remove_all does: whenever a
 * cleared was appended, nothing of the tenant may have been readable there. */
struct clearer {
    struct mci_event_log *log;
    struct mci_log_tenant *tenant;
    _Atomic bool is_over;
};

static void *clearer_run(void *arg)
{
    struct clearer *clearer = arg;
    while (!clearer->is_over) {
        uint64_t commits = 0;
        uint64_t readable = 0;
        mci_event_log_tenant_counts(clearer->log, clearer->tenant, &commits,
                                    &readable);
        (void)mci_event_log_append_cleared(clearer->log, clearer->tenant,
                                           commits, false, NULL);
    }
    return NULL;
}

START_TEST(cleared_never_stands_behind_a_put_that_it_would_hide)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct clearer clearer = {.log = log, .tenant = &tenant};
    struct mci_log_taken taken;
    uint64_t readable = 0;
    uint64_t cleared = 0;
    uint64_t hidden = 0;
    pthread_t thread;
    taken_make(&taken);
    ck_assert_int_eq(pthread_create(&thread, NULL, clearer_run, &clearer), 0);
    for (uint32_t i = 0; i < 20000 || (cleared == 0 && i < 2000000); i++) {
        (void)put(log, &tenant, "a", NULL);
        (void)cut(log, &tenant, "a");
        mci_event_log_take(log, 0, &taken);
        for (uint32_t k = 0; k < taken.count; k++) {
            if (taken.records[k].lost_before > 0) {
                readable = taken.records[k].type == MC_EVENT_REMOVED;
            }
            cleared += taken.records[k].type == MC_EVENT_CLEARED;
            readable += taken.records[k].type == MC_EVENT_STORED;
            readable -= taken.records[k].type == MC_EVENT_REMOVED;
            hidden += taken.records[k].type == MC_EVENT_CLEARED && readable > 0;
        }
    }
    clearer.is_over = true;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_gt(cleared, 0);
    ck_assert_uint_eq(hidden, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* --- the consumer's wait ------------------------------------------------- */

struct waiting_take {
    struct mci_event_log *log;
    struct mci_log_taken taken;
    uint64_t deadline_ns;
    _Atomic bool is_done;
    pthread_t thread;
};

static void *waiting_take_run(void *arg)
{
    struct waiting_take *take = arg;
    mci_event_log_take(take->log, take->deadline_ns, &take->taken);
    take->is_done = true;
    return NULL;
}

static void waiting_take_start(struct waiting_take *take,
                               struct mci_event_log *log, uint64_t deadline_ns)
{
    *take = (struct waiting_take){.log = log, .deadline_ns = deadline_ns};
    taken_make(&take->taken);
    ck_assert_int_eq(
        pthread_create(&take->thread, NULL, waiting_take_run, take), 0);
}

static void waiting_take_end(struct waiting_take *take)
{
    ck_assert(AWAIT(take->is_done));
    ck_assert_int_eq(pthread_join(take->thread, NULL), 0);
    mci_log_taken_fini(&take->taken);
}

START_TEST(waiting_take_gets_what_is_appended)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct waiting_take take;
    waiting_take_start(&take, log, NEVER);
    (void)put(log, &tenant, "a", NULL);
    ck_assert(AWAIT(take.is_done));
    ck_assert_uint_eq(take.taken.count, 1);
    waiting_take_end(&take);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(wake_ends_a_take_that_waits_or_is_about_to)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct waiting_take take;
    waiting_take_start(&take, log, NEVER);
    mci_event_log_wake(log);
    ck_assert(AWAIT(take.is_done));
    ck_assert_uint_eq(take.taken.count, 0);
    waiting_take_end(&take);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(take_waits_on_the_clock_of_its_deadline)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct waiting_take take;
    static _Atomic uint64_t now_ns;
    now_ns = MCI_NS_PER_S;
    mci_clock_fake((const uint64_t *)&now_ns);
    waiting_take_start(&take, log, now_ns + 3600 * MCI_NS_PER_S);
    /* Most likely it waits by now; it must notice either way. */
    for (int i = 0; i < 50; i++) {
        await_turn();
    }
    ck_assert(!take.is_done);
    now_ns += 3600 * MCI_NS_PER_S;
    waiting_take_end(&take);
    mci_clock_fake(NULL);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(gather_waits_for_enough_events_or_its_time_or_a_wake)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    taken_make(&taken);
    uint64_t began_ns = mci_clock_ns();
    fill(log, &tenant, 10);
    mci_event_log_gather(log, 11, 20 * MCI_NS_PER_MS); /* its time */
    ck_assert_uint_ge(mci_clock_ns() - began_ns, 19 * MCI_NS_PER_MS);
    for (int i = 0; i < 500; i++) { /* enough: no wait */
        mci_event_log_gather(log, 10, 50 * MCI_NS_PER_MS);
    }
    mci_event_log_wake(log); /* woken: no wait, and the take knows it too */
    for (int i = 0; i < 500; i++) {
        mci_event_log_gather(log, 11, 50 * MCI_NS_PER_MS);
    }
    ck_assert_uint_lt(mci_clock_ns() - began_ns, 10 * MCI_NS_PER_S);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, 10);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* --- many writers -------------------------------------------------------- */

#define WRITERS 8
#define WRITER_TURNS 4000

struct writer {
    struct mci_event_log *log;
    struct mci_log_tenant *tenant;
    uint32_t number;
    bool blocks;
    uint32_t failures;
    pthread_t thread;
};

/* A key's events: a put, then replacements, each with its turn as session. */
static void writer_turn(struct writer *writer, uint32_t turn,
                        uint32_t *reserved)
{
    char key[32];
    char session[32];
    (void)snprintf(key, sizeof key, "w%u", writer->number);
    (void)snprintf(session, sizeof session, "%u", turn);
    struct mci_log_event events[2] = {
        {.type = MC_EVENT_REMOVED, .medium = MC_MEDIUM_CPU},
        {.type = MC_EVENT_STORED,
         .medium = MC_MEDIUM_CPU,
         .session_id = mc_view_str(session)}};
    events[0].session_id = events[1].session_id;
    size_t skip = turn == 0 ? 1 : 0;
    (void)mci_event_log_append(writer->log, writer->tenant, mc_view_str(key),
                               events + skip, 2 - skip, reserved);
}

static void *writer_run(void *arg)
{
    struct writer *writer = arg;
    for (uint32_t turn = 0; turn < WRITER_TURNS; turn++) {
        uint32_t reserved = 0;
        enum mci_log_class cls =
            turn % 16 == 0 ? MCI_LOG_BULK : MCI_LOG_FOREGROUND;
        if (mci_event_log_reserve(writer->log, 4, cls, NEVER, &reserved)) {
            writer->failures++;
            continue;
        }
        if (writer->blocks && reserved != 4) {
            writer->failures++;
        }
        writer_turn(writer, turn, &reserved);
        mci_event_log_unreserve(writer->log, reserved);
    }
    return NULL;
}

/* Per writer the turns rise; each group is a removed and a stored of one turn,
 * beside each other. */
static void check_turns(const struct mci_log_taken *taken, long *turns,
                        bool is_lossless)
{
    for (uint32_t i = 0; i < taken->count; i++) {
        const struct mci_log_record *record = &taken->records[i];
        const char *key = record->object_key.data;
        char session[32] = {0};
        ck_assert_uint_eq(record->object_key.len, 2);
        ck_assert_int_eq(key[0], 'w');
        ck_assert_uint_lt(record->session_id.len, sizeof session);
        memcpy(session, record->session_id.data, record->session_id.len);
        long turn = strtol(session, NULL, 10);
        long *last = &turns[key[1] - '0'];
        if (record->type == MC_EVENT_REMOVED) {
            ck_assert(record->group_continues);
            ck_assert_int_gt(turn, *last);
            ck_assert_uint_eq(record[1].id, record->id + 1);
            ck_assert(mc_view_equal(record[1].object_key, record->object_key));
            ck_assert(mc_view_equal(record[1].session_id, record->session_id));
        } else {
            ck_assert(!record->group_continues);
            ck_assert(!is_lossless || turn == *last + 1);
            *last = turn;
        }
    }
}

START_TEST(eight_writers_and_a_taker_keep_order_groups_and_counts)
{
    bool blocks = _i == 1;
    struct mci_event_log *log =
        log_make(blocks ? MC_PUBLISHER_BLOCK : MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct writer writers[WRITERS];
    struct mci_log_taken taken;
    struct reader reader = {0};
    long turns[WRITERS];
    const uint64_t total = WRITERS * (2 * WRITER_TURNS - 1);
    taken_make(&taken);
    for (uint32_t i = 0; i < WRITERS; i++) {
        turns[i] = -1;
        writers[i] = (struct writer){
            .log = log, .tenant = &tenant, .number = i, .blocks = blocks};
        ck_assert_int_eq(
            pthread_create(&writers[i].thread, NULL, writer_run, &writers[i]),
            0);
    }
    uint64_t give_up_ns = mci_clock_ns() + 100 * MCI_NS_PER_S;
    while (reader.last_id < total && mci_clock_ns() < give_up_ns) {
        mci_event_log_take(log, mci_clock_ns() + 10 * MCI_NS_PER_MS, &taken);
        reader_add(&reader, &taken);
        check_turns(&taken, turns, blocks);
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(pthread_join(writers[i].thread, NULL), 0);
        ck_assert_uint_eq(writers[i].failures, 0);
        ck_assert_int_eq(turns[i], WRITER_TURNS - 1);
    }
    ck_assert_uint_eq(reader.faults, 0);
    ck_assert_uint_eq(reader.last_id, total);
    ck_assert_uint_eq(reader.taken + reader.lost, total);
    ck_assert_uint_eq(reader.lost, stats_of(log).dropped);
    ck_assert(!blocks || reader.lost == 0);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    ck_assert_uint_eq(tenant.commits, WRITERS * WRITER_TURNS);
    ck_assert_uint_eq(tenant.readable, WRITERS);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_flow");
    TCase *tc = tcase_create("cleared");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, cleared_stands_only_if_nothing_was_put_meanwhile);
    tcase_add_test(tc, cleared_of_an_epoch_is_its_first_record);
    tcase_add_test(tc, cleared_never_stands_behind_a_put_that_it_would_hide);
    suite_add_tcase(suite, tc);

    tc = tcase_create("consumer");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, waiting_take_gets_what_is_appended);
    tcase_add_test(tc, wake_ends_a_take_that_waits_or_is_about_to);
    tcase_add_test(tc, take_waits_on_the_clock_of_its_deadline);
    tcase_add_test(tc, gather_waits_for_enough_events_or_its_time_or_a_wake);
    suite_add_tcase(suite, tc);

    tc = tcase_create("many writers");
    tcase_set_timeout(tc, 110);
    tcase_add_loop_test(
        tc, eight_writers_and_a_taker_keep_order_groups_and_counts, 0, 2);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
