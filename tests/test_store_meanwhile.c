/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_meanwhile.c - what others do while an allocation makes room: SAFETY
 * E.1, E.2, E.4 and D.2, with an evictor that stands still in the middle of its
 * work. It stands because the event log is full and its policy is block; when
 * the test has done what comes between, it empties the log.
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "await.h"
#include "evict_rig.h"
#include "mci_clock.h"
#include "suite.h"

#define PATIENCE_NS (60 * SECOND)

static const char *const abcd[] = {"a", "b", "c", "d"};

static struct rig rig;

struct pending {
    pthread_t thread;
    struct mci_call call;
    struct mci_write_row row;
};

static void *run_pending(void *ctx)
{
    struct pending *pending = ctx;
    enum mc_err err = mci_master_put_start(rig.master, &pending->call, NULL,
                                           &pending->row, 1);
    pending->row.err = err == MC_OK ? pending->row.err : err;
    return NULL;
}

static struct mci_log_stats log_stats(void)
{
    struct mci_log_stats stats;
    mci_event_log_stats(rig.log, &stats);
    return stats;
}

static void fill_log(uint32_t left)
{
    static struct mci_log_tenant filler = {.name = {"filler", 6}};
    const struct mci_log_event event = {.type = MC_EVENT_STORED,
                                        .medium = MC_MEDIUM_CPU};
    while (log_stats().depth + left < log_stats().capacity) {
        (void)mci_event_log_append(rig.log, &filler, mc_view_str("f"), &event,
                                   1, NULL);
    }
}

static void open_blocking(int row)
{
    struct rig_opts opts = {.log_capacity = MCI_EVENT_LOG_CAPACITY_MIN,
                            .overflow = MC_PUBLISHER_BLOCK,
                            .shards = shards_of_row(row)};
    rig_open(&rig, &opts);
}

/* Begins a put that evicts so many times and then stands still. */
static void begin_put(struct pending *pending, const char *spec, uint64_t size,
                      uint32_t evictions)
{
    (void)rig_events(&rig);
    rig.now_ns += MS;
    *pending =
        (struct pending){.call = rig_call(&rig), .row = rig_row(spec, size)};
    pending->call.deadline_ns = mci_clock_ns() + PATIENCE_NS;
    fill_log(evictions); /* each makes one event */
    uint64_t waits = log_stats().waits;
    ck_assert_int_eq(
        pthread_create(&pending->thread, NULL, run_pending, pending), 0);
    ck_assert(AWAIT(log_stats().waits > waits));
}

static enum mc_err finish_put(struct pending *pending)
{
    (void)rig_events(&rig);
    /* It may need more room than was made at once. */
    while (pthread_tryjoin_np(pending->thread, NULL) != 0) {
        (void)rig_events(&rig);
        await_turn();
    }
    (void)rig_events(&rig);
    return pending->row.err;
}

/* ---- E.1: the look is repeated --------------------------------------------- */

START_TEST(a_put_that_was_overtaken_gives_its_space_back)
{
    struct pending pending;
    open_blocking(_i);
    put_quarters(&rig, abcd, 3);
    begin_put(&pending, "new#late", 2 * QUARTER, 0);
    struct mci_write_row quick = rig_put_start(&rig, "new#quick", 64);
    ck_assert_int_eq(quick.err, MC_OK);
    ck_assert_int_eq(finish_put(&pending), MC_ERR_OBJECT_ALREADY_EXISTS);
    ck_assert_uint_eq(pending.row.attempt.number, 0);
    ck_assert_int_eq(rig_end(&rig, &quick), MC_OK);
    ck_assert(rig_has_tag(&rig, "new", "quick"));
    struct mci_master_stats stats = rig_stats(&rig);
    ck_assert_uint_eq(stats.attempts, 0);
    ck_assert_uint_eq(stats.allocated_bytes,
                      (stats.objects - 1) * QUARTER + 64);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_put_whose_client_expired_meanwhile_is_refused)
{
    struct pending pending;
    open_blocking(_i);
    put_quarters(&rig, abcd, 4);
    uint32_t owner = rig.client;
    uint32_t dying = rig_add_client(&rig, 0, NULL);
    rig.client = dying;
    begin_put(&pending, "new", QUARTER, 0);
    mci_master_client_expire(rig.master, dying);
    ck_assert_int_eq(finish_put(&pending), MC_ERR_CLIENT_NOT_FOUND);
    rig.client = owner;
    ck_assert_int_eq(rig_probe(&rig, "new").state, MC_OBJECT_ABSENT);
    struct mci_master_stats stats = rig_stats(&rig);
    ck_assert_uint_eq(stats.attempts, 0);
    ck_assert_uint_eq(stats.allocated_bytes, stats.objects * QUARTER);
    rig_close(&rig);
}
END_TEST

/* ---- E.2: what is freed goes to who evicts ---------------------------------- */

START_TEST(nobody_else_gets_what_was_evicted_for_a_put)
{
    struct pending pending;
    open_blocking(_i);
    put_quarters(&rig, abcd, 4);
    begin_put(&pending, "big", 2 * QUARTER, 1);
    /* One quarter is free by now, and not for this one. */
    ck_assert_uint_eq(rig_stats(&rig).objects, 3);
    ck_assert_int_eq(rig_put_start(&rig, "small", 64).err, MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(finish_put(&pending), MC_OK);
    struct mci_master_stats stats = rig_stats(&rig);
    ck_assert_uint_eq(stats.objects, 2);
    ck_assert_uint_eq(stats.allocated_bytes, MIB);
    ck_assert_int_eq(rig_end(&rig, &pending.row), MC_OK);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_lease_taken_before_the_eviction_is_honoured)
{
    struct pending pending;
    open_blocking(_i);
    put_quarters(&rig, abcd, 4);
    begin_put(&pending, "new", QUARTER, 0);
    get_ok(&rig, "a");
    ck_assert_int_eq(finish_put(&pending), MC_OK);
    ck_assert(is_there(&rig, "a"));
    ck_assert(!is_there(&rig, "b"));
    rig_close(&rig);
}
END_TEST

/* The window's objects are read while it is being cleared: those that are left
 * stay, and the put finds that there is no room. */
START_TEST(a_window_that_is_read_meanwhile_is_not_cleared_further)
{
    enum { SMALL = 256, PLAIN = 16, OF_WINDOW = 3 };
    struct pending pending;
    open_blocking(_i);
    ck_assert_uint_eq(rig_fill(&rig, "k", 4 * KIB, SMALL), SMALL);
    for (uint32_t i = 0; i < SMALL; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i * 85 % SMALL);
        get_ok(&rig, key);
    }
    rig_pass(&rig, LEASE_MS + 1);
    begin_put(&pending, "big", PLAIN * 4 * KIB, PLAIN + OF_WINDOW);
    uint32_t left = rig_count(&rig, "k", SMALL);
    ck_assert_uint_eq(left, SMALL - PLAIN - OF_WINDOW);
    for (uint32_t i = 0; i < SMALL; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        (void)rig_get(&rig, key, false);
    }
    ck_assert_int_eq(finish_put(&pending), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_uint_eq(rig_count(&rig, "k", SMALL), left);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, left * 4 * KIB);
    rig_close(&rig);
}
END_TEST

/* ---- E.4: groups -------------------------------------------------------------- */

START_TEST(the_eviction_of_a_group_stops_once_it_is_leased)
{
    static const char *const specs[] = {"a@g", "b@g", "c@g", "d"};
    struct pending pending;
    open_blocking(_i);
    put_quarters(&rig, specs, 4);
    begin_put(&pending, "new", QUARTER, 1);
    ck_assert_int_eq(rig_probe(&rig, "d").state, MC_OBJECT_READABLE);
    const char *left = is_there(&rig, "a") ? "a" : "b";
    get_ok(&rig, left);
    ck_assert_int_eq(finish_put(&pending), MC_OK);
    int members =
        is_there(&rig, "a") + is_there(&rig, "b") + is_there(&rig, "c");
    ck_assert_int_eq(members, 2);
    ck_assert(is_there(&rig, "d"));
    ck_assert_int_eq(rig_end(&rig, &pending.row), MC_OK);
    /* Partial now: first in line once the lease is over. */
    rig_pass(&rig, LEASE_MS + 1);
    get_ok(&rig, left);
    rig_pass(&rig, LEASE_MS + 1);
    rig.deadline_ns = 0;
    ck_assert_int_eq(rig_put(&rig, "next", QUARTER), MC_OK);
    ck_assert(is_there(&rig, "d") && is_there(&rig, "new"));
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

/* ---- D.2: the segment goes ---------------------------------------------------- */

START_TEST(a_segment_that_goes_while_room_is_made_takes_nothing_in)
{
    struct pending pending;
    open_blocking(_i);
    put_quarters(&rig, abcd, 4);
    begin_put(&pending, "big", 2 * QUARTER, 1);
    mci_master_segment_close(rig.master, rig.segment);
    ck_assert_int_eq(finish_put(&pending), MC_ERR_NO_AVAILABLE_HANDLE);
    bool done = false;
    while (!done) {
        ck_assert_int_eq(mci_master_segment_step(rig.master, rig.segment,
                                                 rig.now_ns, 0, &done),
                         MC_OK);
        (void)rig_events(&rig);
    }
    struct mci_master_stats stats = rig_stats(&rig);
    ck_assert_uint_eq(stats.objects, 0);
    ck_assert_uint_eq(stats.attempts, 0);
    ck_assert_uint_eq(stats.allocated_bytes, 0);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store meanwhile");
    TCase *tcase = tcase_create("meanwhile");
    tcase_set_timeout(tcase, 60);
    ADD(tcase, a_put_that_was_overtaken_gives_its_space_back);
    ADD(tcase, a_put_whose_client_expired_meanwhile_is_refused);
    ADD(tcase, nobody_else_gets_what_was_evicted_for_a_put);
    ADD(tcase, a_lease_taken_before_the_eviction_is_honoured);
    ADD(tcase, a_window_that_is_read_meanwhile_is_not_cleared_further);
    ADD(tcase, the_eviction_of_a_group_stops_once_it_is_leased);
    ADD(tcase, a_segment_that_goes_while_room_is_made_takes_nothing_in);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
