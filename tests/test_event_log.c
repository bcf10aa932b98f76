/* SPDX-License-Identifier: Apache-2.0 */
/* test_event_log.c - what the log keeps, in which order, and what it loses. */
#include <check.h>
#include <stdio.h>

#include "log_rig.h"
#include "mci_alloc.h"
#include "mci_event_log.h"
#include "resident.h"
#include "suite.h"

/* --- order and content --------------------------------------------------- */

START_TEST(ids_rise_by_one_over_all_tenants)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant a = tenant_make("a");
    struct mci_log_tenant b = tenant_make("b");
    ck_assert_uint_eq(mci_event_log_last_id(log), 0);
    ck_assert_uint_eq(put(log, &a, "x", NULL), 1);
    ck_assert_uint_eq(put(log, &b, "x", NULL), 2);
    ck_assert_uint_eq(replace(log, &a, "x", NULL), 3);
    ck_assert_uint_eq(cut(log, &b, "x"), 5);
    ck_assert_uint_eq(mci_event_log_last_id(log), 5);
    ck_assert_uint_eq(mci_event_log_epoch(log), EPOCH);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(records_come_out_as_they_went_in)
{
    static char key[MC_KEY_LEN_MAX];
    static char group[MC_GROUP_ID_LEN_MAX];
    static char session[MC_SESSION_ID_LEN_MAX];
    static char name[MC_TENANT_LEN_MAX];
    memset(key, 'k', sizeof key);
    memset(group, 'g', sizeof group);
    memset(session, 0, sizeof session); /* NUL is legal here */
    memset(name, 't', sizeof name);
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant big = {.name = mc_view_make(name, sizeof name)};
    struct mci_log_tenant small = tenant_make("s");
    struct mci_log_event events[2] = {
        {MC_EVENT_STORED, MC_MEDIUM_CPU, mc_view_make(group, sizeof group),
         mc_view_make(session, sizeof session)},
        {MC_EVENT_STORED, MC_MEDIUM_DISK, mc_view_make("", 0),
         mc_view_make(NULL, 0)}};
    struct mci_log_taken taken;
    taken_make(&taken);
    (void)mci_event_log_append(log, &big, mc_view_make(key, sizeof key), events,
                               2, NULL);
    ck_assert_uint_eq(mci_event_log_append_cleared(log, &small, 0, false, NULL),
                      3);
    memset(key, 'X', sizeof key); /* it was copied */
    mci_event_log_take(log, 0, &taken);
    memset(key, 'k', sizeof key);
    ck_assert_uint_eq(taken.count, 3);
    const struct mci_log_record *record = taken.records;
    ck_assert_uint_eq(record[0].id, 1);
    ck_assert_int_eq(record[0].type, MC_EVENT_STORED);
    ck_assert_int_eq(record[0].medium, MC_MEDIUM_CPU);
    ck_assert(record[0].group_continues);
    check_view(record[0].tenant_id, name, sizeof name);
    check_view(record[0].object_key, key, sizeof key);
    check_view(record[0].group_id, group, sizeof group);
    check_view(record[0].session_id, session, sizeof session);
    ck_assert_int_eq(record[1].medium, MC_MEDIUM_DISK);
    ck_assert(!record[1].group_continues);
    ck_assert_ptr_null(record[1].group_id.data);
    ck_assert_ptr_null(record[1].session_id.data);
    ck_assert_int_eq(record[2].type, MC_EVENT_CLEARED);
    ck_assert_int_eq(record[2].medium, MC_MEDIUM_NONE);
    check_view(record[2].tenant_id, "s", 1);
    ck_assert_ptr_null(record[2].object_key.data);
    ck_assert_uint_eq(taken.depth_left, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(take_never_splits_a_group)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    taken_make(&taken);
    fill(log, &tenant, MC_BATCH_EVENTS_MAX - 1);
    (void)replace(log, &tenant, "fill", NULL);
    fill(log, &tenant, MC_BATCH_EVENTS_MAX);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, MC_BATCH_EVENTS_MAX - 1);
    ck_assert_uint_eq(taken.depth_left, MC_BATCH_EVENTS_MAX + 2);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, MC_BATCH_EVENTS_MAX);
    ck_assert(taken.records[0].group_continues);
    ck_assert(!taken.records[1].group_continues);
    ck_assert_int_eq(taken.records[0].type, MC_EVENT_REMOVED);
    ck_assert_int_eq(taken.records[1].type, MC_EVENT_STORED);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(take_of_long_records_ends_at_its_bytes_between_groups)
{
    static char key[MC_KEY_LEN_MAX];
    memset(key, 'k', sizeof key);
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_event events[2] = {
        {.type = MC_EVENT_STORED, .medium = MC_MEDIUM_CPU},
        {.type = MC_EVENT_STORED, .medium = MC_MEDIUM_DISK}};
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    for (int i = 0; i < 200; i++) {
        (void)mci_event_log_append(log, &tenant, mc_view_make(key, sizeof key),
                                   events, 2, NULL);
    }
    mci_event_log_take(log, 0, &taken);
    reader_add(&reader, &taken);
    ck_assert_uint_lt(taken.count, MC_BATCH_EVENTS_MAX);
    ck_assert_uint_ge((taken.count + 2) * sizeof key + 1024,
                      MC_BATCH_BYTES_MAX); /* it was used up */
    ck_assert_uint_eq(taken.count % 2, 0);
    reader_drain(&reader, log, &taken);
    ck_assert_uint_eq(reader.taken, 400);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* --- capacity ------------------------------------------------------------ */

START_TEST(capacity_zero_is_the_default_and_under_the_minimum_is_refused)
{
    struct mci_log_opts opts = {.epoch = EPOCH};
    struct mci_event_log *log = NULL;
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_OK);
    ck_assert_uint_eq(stats_of(log).capacity, 65536);
    mci_event_log_destroy(log);
    log = NULL;
    uint32_t refused[] = {1, 8, CAPACITY - 1};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        opts.capacity = refused[i];
        ck_assert_int_eq(mci_event_log_create(&opts, &log),
                         MC_ERR_INVALID_PARAMS);
        ck_assert_ptr_null(log);
    }
    opts.capacity = CAPACITY;
    opts.epoch = 0;
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_ERR_INVALID_PARAMS);
    mci_event_log_destroy(NULL);
}
END_TEST

START_TEST(log_holds_its_capacity_of_the_longest_records)
{
    static char key[MC_KEY_LEN_MAX];
    static char text[MC_GROUP_ID_LEN_MAX];
    memset(key, 'k', sizeof key);
    memset(text, 't', sizeof text);
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant longest = {.name =
                                         mc_view_make(text, MC_TENANT_LEN_MAX)};
    struct mci_log_tenant shortest = tenant_make("t");
    struct mci_log_event event = {MC_EVENT_STORED, MC_MEDIUM_CPU,
                                  mc_view_make(text, sizeof text),
                                  mc_view_make(text, MC_SESSION_ID_LEN_MAX)};
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    /* Round after round from another offset, so that chunks are left at every
     * degree of filling. */
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < CAPACITY; i++) {
            if (i % 41 == round) {
                (void)put(log, &shortest, "k", NULL);
            } else {
                (void)mci_event_log_append(log, &longest,
                                           mc_view_make(key, sizeof key),
                                           &event, 1, NULL);
            }
        }
        ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
        reader_drain(&reader, log, &taken);
    }
    ck_assert_uint_eq(reader.taken, 40 * CAPACITY);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(a_short_queue_stays_in_little_memory_however_long_it_runs)
{
    struct mci_log_opts opts = {.epoch = EPOCH};
    struct mci_event_log *log = NULL;
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_OK);
    ck_assert_int_eq(mci_event_log_attach(log), MC_OK);
    fill(log, &tenant, 100); /* it never runs empty */
    uint64_t before = resident_bytes();
    for (uint32_t i = 0; i < 20000; i++) {
        fill(log, &tenant, MC_BATCH_EVENTS_MAX);
        mci_event_log_take(log, 0, &taken);
        reader_add(&reader, &taken);
    }
    ck_assert_uint_lt(resident_bytes(), before + (8 << 20));
    ck_assert_uint_eq(reader.faults, 0);
    ck_assert_uint_eq(stats_of(log).depth, 100);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(without_a_consumer_nothing_piles_up_but_ids_and_counts_go_on)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, false);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 77;
    uint64_t commits = 0;
    uint64_t readable = 0;
    uint32_t faults = 0;
    uint64_t before = resident_bytes();
    for (uint32_t i = 0; i < 500000; i++) {
        faults += mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND, 0,
                                        &reserved) != MC_OK;
        faults += reserved != 0;
        (void)put(log, &tenant, "key", &reserved);
        (void)cut(log, &tenant, "key");
    }
    ck_assert_uint_eq(faults, 0);
    ck_assert_uint_eq(mci_event_log_last_id(log), 1000000);
    mci_event_log_tenant_counts(log, &tenant, &commits, &readable);
    ck_assert_uint_eq(commits, 500000);
    ck_assert_uint_eq(readable, 0);
    ck_assert_uint_eq(stats_of(log).depth, 0);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    ck_assert_uint_lt(resident_bytes(), before + (64 << 20));
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(appends_and_takes_allocate_nothing)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    taken_make(&taken);
    uint64_t calls = mci_alloc_thread_calls();
    fill(log, &tenant, 3 * CAPACITY);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(mci_alloc_thread_calls(), calls);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(failed_allocations_are_answered_and_leak_nothing)
{
    struct mci_log_opts opts = {.epoch = EPOCH};
    struct mci_event_log *log = NULL;
    struct mci_log_taken taken;
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    (void)mci_alloc_fail_at(1);
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_ERR_NOMEM);
    ck_assert_ptr_null(log);
    for (uint64_t k = 1; k <= 2; k++) {
        (void)mci_alloc_fail_at(k);
        ck_assert_int_eq(mci_log_taken_init(&taken), MC_ERR_NOMEM);
    }
    ck_assert_int_eq(mci_alloc_fail_at(0), 0);
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
}
END_TEST

/* --- drop_oldest --------------------------------------------------------- */

START_TEST(full_log_keeps_the_newest_and_tells_exactly_what_it_lost)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    fill(log, &tenant, 92);
    ck_assert_uint_eq(stats_of(log).dropped, 92);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.records[0].id, 93);
    ck_assert_uint_eq(taken.records[0].lost_before, 92);
    reader_add(&reader, &taken);
    fill(log, &tenant, 70); /* six of the records left go, told in place */
    ck_assert_uint_eq(stats_of(log).dropped, 98);
    reader_drain(&reader, log, &taken);
    ck_assert_uint_eq(reader.lost, 98);
    ck_assert_uint_eq(reader.taken + reader.lost, mci_event_log_last_id(log));
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(overflow_takes_whole_groups)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    fill(log, &tenant, 1);
    for (uint32_t i = 0; i < CAPACITY / 2 - 1; i++) {
        (void)replace(log, &tenant, "fill", NULL);
    }
    fill(log, &tenant, 1);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
    (void)put(log, &tenant, "one", NULL); /* the first single goes */
    ck_assert_uint_eq(stats_of(log).dropped, 1);
    (void)put(log, &tenant, "two", NULL); /* a pair goes for one */
    ck_assert_uint_eq(stats_of(log).dropped, 3);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY - 1);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.records[0].id, 4);
    ck_assert_uint_eq(taken.records[0].lost_before, 3);
    ck_assert(taken.records[0].group_continues);
    reader_add(&reader, &taken);
    reader_drain(&reader, log, &taken);
    ck_assert_uint_eq(reader.lost, 3);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(foreground_writers_of_drop_oldest_reserve_nothing)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 77;
    fill(log, &tenant, CAPACITY);
    ck_assert_int_eq(
        mci_event_log_reserve(log, 9, MCI_LOG_FOREGROUND, 0, &reserved), MC_OK);
    ck_assert_uint_eq(reserved, 0);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    ck_assert_uint_eq(stats_of(log).waits, 0);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(overflow_drops_filled_records_and_never_reserved_room)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t slice = mci_event_log_slice(log);
    uint32_t reserved = 0;
    ck_assert_uint_eq(slice, CAPACITY / 4);
    ck_assert_int_eq(
        mci_event_log_reserve(log, slice, MCI_LOG_BULK, 0, &reserved), MC_OK);
    ck_assert_uint_eq(reserved, slice);
    fill(log, &tenant, 2 * CAPACITY);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY - slice);
    uint64_t dropped = stats_of(log).dropped;
    for (uint32_t i = 0; i < slice; i++) {
        (void)put(log, &tenant, "bulk", &reserved);
    }
    ck_assert_uint_eq(reserved, 0);
    ck_assert_uint_eq(stats_of(log).dropped, dropped);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
    mci_event_log_destroy(log);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_log");
    TCase *tc = tcase_create("order and content");
    tcase_add_test(tc, ids_rise_by_one_over_all_tenants);
    tcase_add_test(tc, records_come_out_as_they_went_in);
    tcase_add_test(tc, take_never_splits_a_group);
    tcase_add_test(tc, take_of_long_records_ends_at_its_bytes_between_groups);
    suite_add_tcase(suite, tc);

    tc = tcase_create("capacity");
    tcase_set_timeout(tc, 60);
    tcase_add_test(
        tc, capacity_zero_is_the_default_and_under_the_minimum_is_refused);
    tcase_add_test(tc, log_holds_its_capacity_of_the_longest_records);
    tcase_add_test(tc,
                   a_short_queue_stays_in_little_memory_however_long_it_runs);
    tcase_add_test(
        tc, without_a_consumer_nothing_piles_up_but_ids_and_counts_go_on);
    tcase_add_test(tc, appends_and_takes_allocate_nothing);
    tcase_add_test(tc, failed_allocations_are_answered_and_leak_nothing);
    suite_add_tcase(suite, tc);

    tc = tcase_create("drop_oldest");
    tcase_add_test(tc,
                   full_log_keeps_the_newest_and_tells_exactly_what_it_lost);
    tcase_add_test(tc, overflow_takes_whole_groups);
    tcase_add_test(tc, foreground_writers_of_drop_oldest_reserve_nothing);
    tcase_add_test(tc, overflow_drops_filled_records_and_never_reserved_room);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
