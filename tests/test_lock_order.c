/* SPDX-License-Identifier: Apache-2.0 */
/* test_lock_order.c - what calls do under locks, by what they take and how much
 * they look at, not by time (bugs.md F7, SAFETY E.1, F.3). The rules themselves
 * are held by lock_order.c, in this program and in others. */
#include <stdio.h>
#include <stdlib.h>

#include "lock_order.h"
#include "store_rig.h"
#include "suite.h"

#define KEYS 20000
#define SIZE 64
#define SHARDS 16
#define SLICE 256  /* keys of one step (SAFETY F.4) */
#define PER_HOLD 8 /* of them under one hold of a lock */

static struct rig rig;

static void open_full(uint64_t bytes)
{
    const struct rig_opts opts = {.segment_bytes = bytes,
                                  .shards = SHARDS,
                                  .no_tap = true,
                                  .store.eviction_high_watermark = 1.0};
    rig_open(&rig, &opts);
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(rig_put(&rig, key, SIZE), MC_OK);
    }
    ck_assert_uint_eq(rig_stats(&rig).objects, KEYS);
}

/* A write and a read beside the slices, of what stands elsewhere. */
static void expect_service(int turn)
{
    char key[16];
    (void)snprintf(key, sizeof key, "new%d", turn);
    ck_assert_int_eq(rig_put(&rig, key, SIZE), MC_OK);
    ck_assert_int_eq(rig_get(&rig, key, false).err, MC_OK);
}

START_TEST(mounting_looks_at_no_key)
{
    uint32_t segment = 0;
    open_full(32 * MIB);
    const struct mci_lent lent = {.bytes = 32 * MIB, .client = rig.client};
    lock_order_reset();
    ck_assert_int_eq(mci_master_segment_add(rig.master, &lent, &segment),
                     MC_OK);
    ck_assert_uint_eq(lock_order_now().shard_locks, 0);
    ck_assert_uint_gt(lock_order_now().space_locks, 0);
    rig_close(&rig);
}
END_TEST

typedef enum mc_err (*step_fn)(struct mci_master *master, uint32_t id,
                               uint64_t now_ns, uint64_t deadline_ns,
                               bool *done_out);

/* Each step takes its own few keys; others are served between any two. */
static void expect_slices(step_fn step, uint32_t id)
{
    bool is_done = false;
    uint64_t dropped = 0;
    int turns = 0;
    while (!is_done) {
        lock_order_reset();
        ck_assert_int_eq(step(rig.master, id, rig.now_ns, 0, &is_done), MC_OK);
        const struct lock_order order = lock_order_now();
        ck_assert_uint_le(order.drops, SLICE);
        ck_assert_uint_le(order.most_drops, PER_HOLD);
        ck_assert_uint_le(order.shard_locks, 4 * SHARDS + SLICE / 4);
        ck_assert_uint_le(order.reservations, 1);
        dropped += order.drops;
        expect_service(turns++);
    }
    ck_assert_uint_eq(dropped, KEYS);
    ck_assert_int_ge(turns, KEYS / SLICE);
}

START_TEST(unmounting_looks_at_few_keys_at_a_time)
{
    open_full(32 * MIB);
    uint32_t segment = rig.segment;
    uint32_t other = 0;
    (void)rig_add_client(&rig, 32 * MIB, &other);
    lock_order_reset();
    mci_master_segment_close(rig.master, segment);
    ck_assert_uint_eq(lock_order_now().shard_locks, 0);
    expect_slices(mci_master_segment_step, segment);
    rig_close(&rig);
}
END_TEST

START_TEST(an_expiry_looks_at_few_keys_at_a_time)
{
    open_full(32 * MIB);
    uint32_t client = rig.client;
    uint32_t other = 0;
    rig.client = rig_add_client(&rig, 32 * MIB, &other);
    lock_order_reset();
    mci_master_client_expire(rig.master, client);
    ck_assert_uint_eq(lock_order_now().shard_locks, 0);
    expect_slices(mci_master_client_step, client);
    rig_close(&rig);
}
END_TEST

/* That the checker sees what it is there for: evicting reserves, allocating
 * takes the space's lock; and a put's start reserves nothing of its own. */
START_TEST(a_put_reserves_for_what_it_evicts_only)
{
    const struct rig_opts opts = {.segment_bytes = 64 * KIB,
                                  .overflow = MC_PUBLISHER_BLOCK,
                                  .store.eviction_high_watermark = 1.0};
    rig_open(&rig, &opts);
    lock_order_reset();
    struct mci_write_row row = rig_put_start(&rig, "first", SIZE);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(lock_order_now().reservations, 0);
    ck_assert_uint_gt(lock_order_now().space_locks, 0);
    ck_assert_uint_le(lock_order_now().shard_locks, 2);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    ck_assert_uint_eq(lock_order_now().reservations, 1);
    (void)rig_fill(&rig, "fill", 4 * KIB, 100);
    lock_order_reset();
    row = rig_put_start(&rig, "more", 4 * KIB);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_ge(lock_order_now().drops, 1);
    ck_assert_uint_ge(lock_order_now().reservations, lock_order_now().drops);
    struct mci_log_stats stats;
    mci_event_log_stats(rig.log, &stats);
    ck_assert_uint_eq(stats.reserved, 0);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lock_order");
    TCase *tcase = tcase_create("order");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, mounting_looks_at_no_key);
    tcase_add_test(tcase, unmounting_looks_at_few_keys_at_a_time);
    tcase_add_test(tcase, an_expiry_looks_at_few_keys_at_a_time);
    tcase_add_test(tcase, a_put_reserves_for_what_it_evicts_only);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
