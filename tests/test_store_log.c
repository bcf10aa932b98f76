/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_log.c - the store and a log that is full, slow, or read by nobody:
 * SAFETY F.1 to F.4 as the store can break them. How the log drops whole groups
 * and keeps its order (F.4, F.5) is in test_event_log, test_log_room and
 * test_log_flow; F.6, the tap, is what all of these tests are. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "await.h"
#include "mci_clock.h"
#include "store_rig.h"
#include "suite.h"

#define CAPACITY MCI_EVENT_LOG_CAPACITY_MIN
#define PATIENCE_NS (60 * SECOND)

static struct rig rig;

static void open_log(enum mc_publisher_overflow overflow)
{
    struct rig_opts opts = {.log_capacity = CAPACITY, .overflow = overflow};
    rig_open(&rig, &opts);
}

static struct mci_log_stats log_stats(void)
{
    struct mci_log_stats stats;
    mci_event_log_stats(rig.log, &stats);
    return stats;
}

/* Fills the log with another tenant's events until `left` places are free. */
static void fill_log(uint32_t left)
{
    static struct mci_log_tenant filler = {.name = {"filler", 6}};
    const struct mci_log_event event = {.type = MC_EVENT_STORED,
                                        .medium = MC_MEDIUM_CPU};
    while (log_stats().depth < CAPACITY - left) {
        (void)mci_event_log_append(rig.log, &filler, mc_view_str("f"), &event,
                                   1, NULL);
    }
}

static void put_many(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "m%u", i);
        enum mc_err err = rig_put(&rig, key, 64);
        if (err != MC_OK) {
            ck_abort_msg("put %s: %d", key, err);
        }
    }
}

/* ---- F.3: -901 per row ------------------------------------------------------ */

START_TEST(an_end_on_a_full_log_answers_901_and_can_be_repeated)
{
    open_log(MC_PUBLISHER_BLOCK);
    struct mci_write_row row = rig_put_start(&rig, "a#s1", 100);
    fill_log(0);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_WRITING);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_RPC_TIMEOUT);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1");
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_end_needs_room_for_both_of_its_events)
{
    open_log(MC_PUBLISHER_BLOCK);
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    struct mci_write_row row = rig_upsert_start(&rig, "a#s2", 200);
    fill_log(1);
    uint64_t version = rig_probe(&rig, "a").version;
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(rig_probe(&rig, "a").version, version);
    ck_assert(rig_has_tag(&rig, "a", "s1"));
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a#s1&+cpu:a#s2");
    rig_close(&rig);
}
END_TEST

START_TEST(a_remove_on_a_full_log_answers_901_and_removes_nothing)
{
    open_log(MC_PUBLISHER_BLOCK);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    fill_log(0);
    char *before = rig_state(&rig);
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(rig_remove(&rig, "a", true), MC_ERR_RPC_TIMEOUT);
    (void)rig_events(&rig);
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    rig_close(&rig);
}
END_TEST

/* Rows that were done stand; the others have changed nothing. */
static void rows_stand(const int64_t *results, int count)
{
    int done = 0;
    for (int i = 0; i < count; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "r%d", i);
        bool is_there = rig_probe(&rig, key).state == MC_OBJECT_READABLE;
        if (results[i] == 0) {
            ck_assert(!is_there);
            done++;
        } else {
            ck_assert_int_eq(results[i], MC_ERR_RPC_TIMEOUT);
            ck_assert(is_there);
        }
    }
    ck_assert_uint_eq(log_stats().depth, (uint64_t)(CAPACITY - 300 + done));
    ck_assert_int_le(done, 300);
    ck_assert_uint_eq(log_stats().reserved, 0);
}

START_TEST(in_a_batch_901_is_per_row_and_earlier_rows_stand)
{
    enum { ROWS = 700 };
    static char names[ROWS][16];
    static struct mc_view keys[ROWS];
    static int64_t results[ROWS];
    open_log(MC_PUBLISHER_BLOCK);
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(names[i], sizeof names[i], "r%d", i);
        keys[i] = mc_view_str(names[i]);
        ck_assert_int_eq(rig_put(&rig, names[i], 64), MC_OK);
    }
    fill_log(300);
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(
        mci_master_remove(rig.master, &call, keys, ROWS, false, results),
        MC_OK);
    rows_stand(results, ROWS);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_start_needs_no_room_in_the_log)
{
    open_log(MC_PUBLISHER_BLOCK);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    fill_log(0);
    struct mci_write_row put = rig_put_start(&rig, "b", 100);
    struct mci_write_row upsert = rig_upsert_start(&rig, "a", 100);
    ck_assert_int_eq(put.err, MC_OK);
    ck_assert_int_eq(upsert.err, MC_OK);
    ck_assert_uint_eq(log_stats().reserved, 0);
    ck_assert_int_eq(rig_revoke(&rig, &put), MC_OK);
    ck_assert_int_eq(rig_revoke(&rig, &upsert), MC_OK);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_start_that_must_evict_waits_for_the_log_and_says_901)
{
    open_log(MC_PUBLISHER_BLOCK);
    put_many(700);
    fill_log(0);
    uint64_t room = MIB - rig_stats(&rig).allocated_bytes;
    char *before = rig_state(&rig);
    ck_assert_int_eq(rig_put_start(&rig, "big", room + 32 * KIB).err,
                     MC_ERR_RPC_TIMEOUT);
    (void)rig_events(&rig);
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    ck_assert_int_eq(rig_put(&rig, "big", room + 16 * KIB), MC_OK);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

static void *drain_later(void *ctx)
{
    (void)ctx;
    uint64_t until_ns = mci_clock_ns() + 60 * MS;
    while (mci_clock_ns() < until_ns) {
        (void)sched_yield();
    }
    (void)rig_events(&rig);
    return NULL;
}

START_TEST(a_start_that_waited_for_the_log_judges_leases_by_the_time_it_is)
{
    struct rig_opts opts = {.segment_bytes = 64 * KIB,
                            .log_capacity = CAPACITY,
                            .overflow = MC_PUBLISHER_BLOCK,
                            .store = {.default_kv_lease_ttl_ms = 30}};
    pthread_t drainer;
    rig_open(&rig, &opts);
    ck_assert_int_eq(rig_put(&rig, "a", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK); /* for 30 ms */
    fill_log(0);
    struct mci_write_row row = rig_row("b", 64 * KIB);
    struct mci_call call = rig_call(&rig);
    call.deadline_ns = mci_clock_ns() + PATIENCE_NS;
    ck_assert_int_eq(pthread_create(&drainer, NULL, drain_later, NULL), 0);
    ck_assert_int_eq(mci_master_put_start(rig.master, &call, NULL, &row, 1),
                     MC_OK);
    (void)pthread_join(drainer, NULL);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "a"), 0);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(reads_never_mind_a_full_log)
{
    open_log(MC_PUBLISHER_BLOCK);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    fill_log(0);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_ERR_OBJECT_ALREADY_EXISTS);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(without_a_tap_nobody_waits_and_ids_go_on)
{
    struct rig_opts opts = {.log_capacity = CAPACITY,
                            .overflow = MC_PUBLISHER_BLOCK,
                            .no_tap = true};
    rig_open(&rig, &opts);
    for (int i = 0; i < 3000; i++) {
        ck_assert_int_eq(rig_upsert(&rig, "a", 64), MC_OK);
    }
    ck_assert_uint_eq(rig_remove_all(&rig, true), 1);
    struct mci_log_stats stats = log_stats();
    ck_assert_uint_eq(stats.last_id, 1 + 1 + 2999 * 2 + 2);
    ck_assert_uint_eq(stats.dropped, 0);
    ck_assert_uint_eq(stats.depth, 0);
    rig_close(&rig);
}
END_TEST

/* ---- drop_oldest ------------------------------------------------------------ */

/* Every write succeeds; what was lost is counted where it is missing, and no
 * upsert is torn. */
START_TEST(with_drop_oldest_no_write_waits_and_losses_are_counted)
{
    enum { PUTS = 5000 };
    open_log(MC_PUBLISHER_DROP_OLDEST);
    for (int i = 0; i < PUTS; i++) {
        if (rig_upsert(&rig, "a", 64) != MC_OK) {
            ck_abort();
        }
    }
    uint64_t id = 1; /* of cleared, which was read */
    uint64_t lost = 0;
    uint64_t kept = 0;
    bool tail_open = false;
    do {
        mci_event_log_take(rig.log, 0, &rig.taken);
        for (uint32_t i = 0; i < rig.taken.count; i++) {
            const struct mci_log_record *record = &rig.taken.records[i];
            lost += record->lost_before;
            ck_assert_uint_eq(record->id, id + 1 + record->lost_before);
            ck_assert(record->lost_before == 0 || !tail_open);
            ck_assert_int_eq(record->type,
                             tail_open ? MC_EVENT_STORED : MC_EVENT_REMOVED);
            tail_open = record->group_continues;
            id = record->id;
            kept++;
        }
    } while (rig.taken.count > 0);
    ck_assert(!tail_open);
    ck_assert_uint_eq(id, mci_event_log_last_id(rig.log));
    ck_assert_uint_eq(lost + kept, 2 * PUTS - 1);
    ck_assert_uint_eq(log_stats().dropped, lost);
    ck_assert_uint_le(kept, CAPACITY);
    ck_assert_uint_ge(kept, CAPACITY - MCI_EVENT_LOG_GROUP_MAX);
    rig.last_id = id;
    rig_close(&rig);
}
END_TEST

/* ---- bulk work beside a slow tap: F.2, F.4 ---------------------------------- */

struct removal {
    pthread_t thread;
    struct mci_call call;
    bool force;
    enum mc_err err;
    uint64_t removed;
    atomic_bool is_over;
};

static void *run_removal(void *ctx)
{
    struct removal *removal = ctx;
    removal->err = mci_master_remove_all(rig.master, &removal->call,
                                         removal->force, &removal->removed);
    atomic_store(&removal->is_over, true);
    return NULL;
}

static void begin_removal(struct removal *removal)
{
    *removal = (struct removal){.call = rig_call(&rig)};
    removal->call.deadline_ns = mci_clock_ns() + PATIENCE_NS;
    ck_assert_int_eq(
        pthread_create(&removal->thread, NULL, run_removal, removal), 0);
}

static uint32_t events_named(const char *events, char lead)
{
    uint32_t count = 0;
    bool at_start = true;
    for (const char *at = events; *at; at++) {
        count += at_start && *at == lead;
        at_start = *at == ' ' || *at == '&';
    }
    return count;
}

/* A put beside a remove_all that stands in the middle of its work: cleared would
 * tell followers to forget it, so there is none. */
START_TEST(what_is_put_during_remove_all_is_not_cleared_away)
{
    open_log(_i == 0 ? MC_PUBLISHER_DROP_OLDEST : MC_PUBLISHER_BLOCK);
    put_many(700);
    struct removal removal;
    begin_removal(&removal);
    ck_assert(AWAIT(log_stats().waits > 0));
    ck_assert(!atomic_load(&removal.is_over));
    ck_assert_int_eq(rig_put(&rig, "late#s1", 64), MC_OK);
    uint32_t removed = 0;
    bool late = false;
    while (!atomic_load(&removal.is_over) || log_stats().depth > 0) {
        const char *events = rig_events(&rig);
        removed += events_named(events, '-');
        ck_assert_uint_eq(events_named(events, '!'), 0);
        late = late || strstr(events, "+cpu:late#s1");
    }
    ck_assert_int_eq(pthread_join(removal.thread, NULL), 0);
    ck_assert_int_eq(removal.err, MC_OK);
    ck_assert(late);
    ck_assert_uint_eq(removed, removal.removed);
    /* Whether the walk met it is open; what the events said is what is there. */
    uint64_t objects = rig_stats(&rig).objects;
    ck_assert_uint_eq(objects,
                      rig_probe(&rig, "late").state == MC_OBJECT_READABLE);
    rig_close(&rig);
}
END_TEST

/* Bulk producers wait for room under both policies: nothing is lost. */
START_TEST(remove_all_of_much_loses_nothing_to_a_small_log)
{
    enum { KEYS = 5000 };
    struct rig_opts opts = {.segment_bytes = 4 * MIB,
                            .log_capacity = CAPACITY,
                            .overflow = _i == 0 ? MC_PUBLISHER_DROP_OLDEST
                                                : MC_PUBLISHER_BLOCK,
                            .shards = 8};
    rig_open(&rig, &opts);
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        if (rig_put(&rig, key, 64) != MC_OK) {
            ck_abort();
        }
        if (i % 500 == 0) {
            (void)rig_events(&rig);
        }
    }
    (void)rig_events(&rig);
    struct removal removal;
    begin_removal(&removal);
    uint32_t removed = 0;
    uint32_t cleared = 0;
    uint64_t deepest = 0;
    while (!atomic_load(&removal.is_over) || log_stats().depth > 0) {
        uint64_t depth = log_stats().depth;
        deepest = depth > deepest ? depth : deepest;
        const char *events = rig_events(&rig); /* fails if one is lost */
        removed += events_named(events, '-');
        cleared += events_named(events, '!');
    }
    ck_assert_int_eq(pthread_join(removal.thread, NULL), 0);
    ck_assert_uint_eq(removed, KEYS);
    ck_assert_uint_eq(cleared, 1);
    ck_assert_uint_eq(log_stats().dropped, 0);
    /* It stays under half of the log, but for the slice that is under way. */
    ck_assert_uint_le(deepest, CAPACITY / 2 + CAPACITY / 4);
    rig_close(&rig);
}
END_TEST

START_TEST(remove_all_that_runs_out_of_time_says_what_it_did)
{
    open_log(MC_PUBLISHER_BLOCK);
    put_many(100);
    fill_log(0);
    uint64_t objects = rig_stats(&rig).objects;
    struct mci_call call = rig_call(&rig); /* deadline 0 */
    uint64_t removed = 77;
    ck_assert_int_eq(mci_master_remove_all(rig.master, &call, false, &removed),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(removed, 0);
    ck_assert_uint_eq(rig_stats(&rig).objects, objects);
    ck_assert_uint_eq(log_stats().reserved, 0);
    (void)rig_events(&rig);
    ck_assert_uint_eq(rig_remove_all(&rig, false), objects);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

/* Unmounting is bulk work in slices as well. */
START_TEST(an_unmount_goes_in_slices)
{
    open_log(MC_PUBLISHER_BLOCK);
    for (int i = 0; i < 900; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(rig_put(&rig, key, 64), MC_OK);
    }
    (void)rig_events(&rig);
    mci_master_segment_close(rig.master, rig.segment);
    bool done = false;
    uint32_t removed = 0;
    int steps = 0;
    while (!done && steps < 1000) {
        ck_assert_int_eq(mci_master_segment_step(rig.master, rig.segment,
                                                 rig.now_ns, 0, &done),
                         MC_OK);
        uint64_t depth = log_stats().depth;
        ck_assert_uint_le(depth, mci_event_log_slice(rig.log));
        removed += events_named(rig_events(&rig), '-');
        steps++;
    }
    ck_assert(done);
    ck_assert_uint_eq(removed, 900);
    ck_assert_int_ge(steps, 900 / 256);
    rig_close(&rig);
}
END_TEST

/* F.1: one order. Ids are given under the lock of the key's shard: what a list
 * shows as the last event of a key is the last one in the stream. */
START_TEST(two_readings_of_the_last_id_bracket_a_list)
{
    open_log(MC_PUBLISHER_DROP_OLDEST);
    uint64_t first = mci_event_log_last_id(rig.log);
    ck_assert_uint_eq(first, 1);
    ck_assert_int_eq(rig_put(&rig, "a", 64), MC_OK);
    ck_assert_int_eq(rig_upsert(&rig, "a", 64), MC_OK);
    ck_assert_uint_eq(mci_event_log_last_id(rig.log), 4);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    ck_assert_uint_eq(mci_event_log_last_id(rig.log), 4);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

static TCase *full(void)
{
    TCase *tcase = tcase_create("full");
    tcase_add_test(tcase, an_end_on_a_full_log_answers_901_and_can_be_repeated);
    tcase_add_test(tcase, an_upsert_end_needs_room_for_both_of_its_events);
    tcase_add_test(tcase,
                   a_remove_on_a_full_log_answers_901_and_removes_nothing);
    tcase_add_test(tcase, in_a_batch_901_is_per_row_and_earlier_rows_stand);
    tcase_add_test(tcase, a_start_needs_no_room_in_the_log);
    tcase_add_test(tcase,
                   a_start_that_must_evict_waits_for_the_log_and_says_901);
    tcase_add_test(
        tcase, a_start_that_waited_for_the_log_judges_leases_by_the_time_it_is);
    tcase_add_test(tcase, reads_never_mind_a_full_log);
    tcase_add_test(tcase, without_a_tap_nobody_waits_and_ids_go_on);
    tcase_add_test(tcase,
                   with_drop_oldest_no_write_waits_and_losses_are_counted);
    return tcase;
}

static TCase *bulk(void)
{
    TCase *tcase = tcase_create("bulk");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(
        tcase, what_is_put_during_remove_all_is_not_cleared_away, 0, 2);
    tcase_add_loop_test(tcase, remove_all_of_much_loses_nothing_to_a_small_log,
                        0, 2);
    tcase_add_test(tcase, remove_all_that_runs_out_of_time_says_what_it_did);
    tcase_add_test(tcase, an_unmount_goes_in_slices);
    tcase_add_test(tcase, two_readings_of_the_last_id_bracket_a_list);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("store log");
    suite_add_tcase(suite, full());
    suite_add_tcase(suite, bulk());
    return suite_run(suite);
}
