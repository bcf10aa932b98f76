/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_gone.c - between the mark and the last slice: a segment, or the client
 * that lent it, is gone, and its versions are not unlinked yet. From the mark on
 * their keys do not exist for anyone. SAFETY D.2, DESIGN 4.
 *
 * Each loop runs once with the segment closed and once with its owner expired. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock_order.h"
#include "mci_clock.h"
#include "store_rig.h"
#include "suite.h"

enum way { BY_UNMOUNT, BY_EXPIRY, WAYS };

static struct rig rig;
static uint32_t owner; /* lends what goes */
static uint32_t other; /* the segment that stays */

/* The caller lends nothing; whatever is put now lies with the owner. */
static void open_with(const struct rig_opts *with)
{
    struct rig_opts opts = *with;
    opts.segment_bytes = MC_NONE;
    rig_open(&rig, &opts);
    owner = rig_add_client(&rig, MIB, &rig.segment);
}

static void open_rig(void)
{
    const struct rig_opts opts = {.shards = 0};
    open_with(&opts);
}

/* From now on there is room that stays. */
static void lend_other(void)
{
    (void)rig_add_client(&rig, MIB, &other);
}

static void mark(int way)
{
    if (way == BY_EXPIRY) {
        mci_master_client_expire(rig.master, owner);
    } else {
        mci_master_segment_close(rig.master, rig.segment);
    }
}

static bool step(int way)
{
    bool done = false;
    enum mc_err err =
        way == BY_EXPIRY
            ? mci_master_client_step(rig.master, owner, rig.now_ns, 0, &done)
            : mci_master_segment_step(rig.master, rig.segment, rig.now_ns, 0,
                                      &done);
    ck_assert_int_eq(err, MC_OK);
    return done;
}

static void empty(int way)
{
    while (!step(way)) {
    }
}

/* One object with the owner, which is marked; its event was read. */
static void open_gone(const char *spec, int way)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, spec, 100), MC_OK);
    lend_other();
    (void)rig_events(&rig);
    mark(way);
}

/* Nothing comes after what was read, and the books are right. */
static void close_emptied(int way)
{
    empty(way);
    EXPECT_EVENTS(&rig, "");
    rig_close(&rig);
}

static uint32_t list(bool with_gone, uint64_t *id_out)
{
    struct mci_page page;
    struct mci_cursor cursor = {0};
    uint32_t count = 0;
    ck_assert_int_eq(mci_page_init(&page), MC_OK);
    page.with_gone = with_gone;
    while (!cursor.at_end) {
        ck_assert_int_eq(
            mci_master_list(rig.master, mc_view_make(NULL, 0), &cursor, &page),
            MC_OK);
        count += page.count;
        if (page.count > 0) {
            *id_out = page.rows[page.count - 1].last_event_id;
        }
    }
    mci_page_fini(&page);
    return count;
}

static uint64_t remove_by_regex(const char *regex)
{
    struct mci_call call = rig_call(&rig);
    uint64_t removed = 77;
    ck_assert_int_eq(mci_master_remove_by_regex(rig.master, &call,
                                                mc_view_str(regex), false,
                                                &removed),
                     MC_OK);
    return removed;
}

/* ---- asked -------------------------------------------------------------- */

START_TEST(no_question_finds_it)
{
    uint64_t id = 0;
    open_gone("k#s1@g", _i);
    struct mc_view key = mc_view_str("k");
    struct mci_call call = rig_call(&rig);
    struct mci_read_row look = {.key = key};
    int64_t size = 77;
    ck_assert_int_eq(rig_exist(&rig, "k"), 0);
    ck_assert_int_eq(rig_get(&rig, "k", true).err, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(rig_lease(&rig, "k").err, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(mci_master_look(rig.master, &call, &look, 1), MC_OK);
    ck_assert_int_eq(look.err, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(mci_master_get_size(rig.master, &call, &key, 1, &size),
                     MC_OK);
    ck_assert_int_eq(size, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(rig_probe(&rig, "k").state, MC_OBJECT_ABSENT);
    ck_assert_uint_eq(list(false, &id), 0);
    EXPECT_EVENTS(&rig, ""); /* asking changes nothing */
    empty(_i);
    EXPECT_EVENTS(&rig, "-cpu:k#s1@g");
    ck_assert_uint_eq(list(true, &id), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(of_a_batch_the_others_are_found)
{
    open_gone("a", _i);
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK);
    struct mc_view keys[] = {mc_view_str("a"), mc_view_str("b"),
                             mc_view_str("a"), mc_view_str("c")};
    int64_t results[4];
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_exist(rig.master, &call, keys, 4, results),
                     MC_OK);
    ck_assert(results[0] == 0 && results[1] == 1 && results[2] == 0 &&
              results[3] == 0);
    ck_assert_int_eq(
        mci_master_remove(rig.master, &call, keys, 4, true, results), MC_OK);
    ck_assert_int_eq(results[0], MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(results[1], 0);
    ck_assert_int_eq(results[2], MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(results[3], MC_ERR_OBJECT_NOT_FOUND);
    EXPECT_EVENTS(&rig, "+cpu:b -cpu:a -cpu:b");
    close_emptied(_i);
}
END_TEST

/* A follower that starts anew is told what the events so far amount to. */
START_TEST(a_snapshot_has_what_no_event_has_taken_back)
{
    uint64_t id = 0;
    open_gone("k", _i);
    ck_assert_uint_eq(list(true, &id), 1);
    ck_assert_uint_eq(id, mci_event_log_last_id(rig.log));
    empty(_i);
    ck_assert_uint_eq(list(true, &id), 0);
    EXPECT_EVENTS(&rig, "-cpu:k");
    rig_close(&rig);
}
END_TEST

START_TEST(what_else_names_it_does_not_find_it)
{
    open_gone("k", _i);
    struct mci_call call = rig_call(&rig);
    struct mci_write_row promote = {.key = mc_view_str("k")};
    ck_assert_int_eq(rig_offload(&rig, "k"), MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(rig_disk_gone(&rig, "k"), MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(rig_clear_replica(&rig, "k"), MC_ERR_OBJECT_NOT_FOUND);
    EXPECT_EVENTS(&rig, "");
    ck_assert_int_eq(mci_master_promote_start(rig.master, &call, &promote, 1),
                     MC_OK);
    ck_assert_int_eq(promote.err, MC_ERR_OBJECT_NOT_FOUND);
    EXPECT_EVENTS(&rig, "-cpu:k"); /* as any start */
    close_emptied(_i);
}
END_TEST

/* ---- what is not gone --------------------------------------------------- */

START_TEST(another_copy_keeps_it)
{
    const struct mc_replicate_config config = {.replica_num = 2};
    open_rig();
    lend_other();
    rig.config = &config;
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_int_eq(rig_exist(&rig, "k"), 1);
    ck_assert_int_eq(rig_put_start(&rig, "k", 100).err,
                     MC_ERR_OBJECT_ALREADY_EXISTS);
    empty(_i);
    ck_assert_uint_eq(rig_get(&rig, "k", false).place_count, 1);
    EXPECT_EVENTS(&rig, "");
    rig_close(&rig);
}
END_TEST

START_TEST(of_two_copies_the_second_one_takes_it_along)
{
    const struct mc_replicate_config config = {.replica_num = 2};
    open_rig();
    lend_other();
    rig.config = &config;
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_int_eq(rig_exist(&rig, "k"), 1);
    mci_master_segment_close(rig.master, other);
    ck_assert_int_eq(rig_exist(&rig, "k"), 0);
    ck_assert_int_eq(rig_remove(&rig, "k", false), MC_ERR_OBJECT_NOT_FOUND);
    EXPECT_EVENTS(&rig, "-cpu:k"); /* once for both */
    close_emptied(_i);
}
END_TEST

START_TEST(a_copy_on_disk_keeps_it)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "k"), MC_OK);
    lend_other();
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_int_eq(rig_exist(&rig, "k"), 1);
    ck_assert_int_eq(rig_put_start(&rig, "k", 100).err,
                     MC_ERR_OBJECT_ALREADY_EXISTS);
    empty(_i);
    EXPECT_EVENTS(&rig, "-cpu:k");
    ck_assert_uint_eq(rig_probe(&rig, "k").media, MC_MEDIUM_DISK);
    ck_assert_int_eq(rig_disk_gone(&rig, "k"), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_copy_on_the_disk_of_a_dead_client_does_not)
{
    open_rig();
    uint32_t caller = rig.client;
    rig.client = owner;
    ck_assert_int_eq(rig_put(&rig, "k#s1", 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "k"), MC_OK);
    rig.client = caller;
    lend_other();
    (void)rig_events(&rig);
    mark(BY_EXPIRY);
    ck_assert_int_eq(rig_exist(&rig, "k"), 0);
    struct mci_write_row row = rig_put_start(&rig, "k", 100);
    ck_assert_int_eq(row.err, MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:k#s1&-disk:k#s1");
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:k");
    close_emptied(BY_EXPIRY);
}
END_TEST

/* Nothing of memory was ever with that client. */
START_TEST(a_disk_alone_goes_with_its_client)
{
    open_rig();
    lend_other();
    uint32_t caller = rig.client;
    rig.client = rig_add_client(&rig, 0, NULL);
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "k"), MC_OK);
    bool was_here = rig_clear_replica(&rig, "k") == 0;
    rig.segment = was_here ? rig.segment : other;
    ck_assert(was_here || rig_clear_replica(&rig, "k") == 0);
    (void)rig_events(&rig);
    ck_assert_uint_eq(rig_probe(&rig, "k").media, MC_MEDIUM_DISK);
    owner = rig.client;
    rig.client = caller;
    mark(BY_EXPIRY);
    ck_assert_int_eq(rig_exist(&rig, "k"), 0);
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    EXPECT_EVENTS(&rig, "-disk:k +cpu:k");
    close_emptied(BY_EXPIRY);
}
END_TEST

/* ---- written ------------------------------------------------------------ */

START_TEST(a_put_starts_anew)
{
    open_gone("k#s1@g", _i);
    struct mci_write_row row = rig_put_start(&rig, "k#s2", 200);
    ck_assert_int_eq(row.err, MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:k#s1@g");
    ck_assert_int_eq(rig_probe(&rig, "k").state, MC_OBJECT_WRITING);
    ck_assert_int_eq(rig_put_start(&rig, "k", 100).err,
                     MC_ERR_OBJECT_ALREADY_EXISTS); /* it is being put */
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:k#s2");
    ck_assert_uint_eq(rig_stats(&rig).objects, 1);
    empty(_i);
    ck_assert(rig_has_tag(&rig, "k", "s2"));
    ck_assert_uint_eq(rig_get(&rig, "k", false).size, 200);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 256);
    EXPECT_EVENTS(&rig, "");
    rig_close(&rig);
}
END_TEST

/* A group is for life, and this life is over. */
START_TEST(an_upsert_starts_anew)
{
    open_gone("k#s1@g", _i);
    struct mci_write_row row = rig_upsert_start(&rig, "k@h", 200);
    ck_assert_int_eq(row.err, MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:k#s1@g");
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:k@h"); /* no tag is kept */
    close_emptied(_i);
}
END_TEST

START_TEST(an_upsert_that_was_open_keeps_nothing_of_it)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "k#s1@g", 100), MC_OK);
    lend_other();
    mci_master_segment_admit(rig.master, rig.segment, false);
    struct mci_write_row row = rig_upsert_start(&rig, "k", 200);
    ck_assert_int_eq(row.err, MC_OK);
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_int_eq(rig_probe(&rig, "k").state, MC_OBJECT_WRITING);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:k#s1@g +cpu:k");
    close_emptied(_i);
}
END_TEST

/* With the key readable it would drop its bytes and answer the same. */
START_TEST(a_put_that_was_open_is_not_dropped_for_it)
{
    open_rig();
    lend_other();
    mci_master_segment_admit(rig.master, rig.segment, false);
    struct mci_write_row row = rig_put_start(&rig, "k#s2", 200);
    ck_assert_int_eq(row.err, MC_OK);
    mci_master_segment_admit(rig.master, rig.segment, true);
    mci_master_segment_admit(rig.master, other, false);
    ck_assert_int_eq(rig_upsert(&rig, "k#s1", 100), MC_OK);
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:k#s1 +cpu:k#s2");
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK); /* it was committed */
    ck_assert_uint_eq(rig_get(&rig, "k", false).size, 200);
    EXPECT_EVENTS(&rig, "");
    close_emptied(_i);
}
END_TEST

START_TEST(an_end_that_is_refused_leaves_it_to_the_slices)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    struct mci_write_row row = rig_upsert_start(&rig, "k#s2", 200);
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    EXPECT_EVENTS(&rig, "");
    empty(_i);
    EXPECT_EVENTS(&rig, "-cpu:k");
    rig_close(&rig);
}
END_TEST

/* The start goes on at once without the events that it cannot make; the end needs
 * them. */
START_TEST(without_room_in_the_log_the_end_takes_it_out)
{
    static struct mci_log_tenant filler = {.name = {"filler", 6}};
    const struct mci_log_event event = {.type = MC_EVENT_STORED,
                                        .medium = MC_MEDIUM_CPU};
    const struct rig_opts opts = {.log_capacity = MCI_EVENT_LOG_CAPACITY_MIN,
                                  .overflow = MC_PUBLISHER_BLOCK};
    open_with(&opts);
    ck_assert_int_eq(rig_put(&rig, "k#s1", 100), MC_OK);
    lend_other();
    (void)rig_events(&rig);
    mark(_i);
    for (int i = 0; i < MCI_EVENT_LOG_CAPACITY_MIN; i++) {
        (void)mci_event_log_append(rig.log, &filler, mc_view_str("f"), &event,
                                   1, NULL);
    }
    rig.deadline_ns = mci_clock_ns() + 60 * SECOND;
    struct mci_write_row row = rig_put_start(&rig, "k#s2", 100);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_lt(mci_clock_ns(), rig.deadline_ns);
    rig.deadline_ns = 0;
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(rig_probe(&rig, "k").state, MC_OBJECT_WRITING);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:k#s1 +cpu:k#s2");
    close_emptied(_i);
}
END_TEST

/* ---- counted ------------------------------------------------------------ */

START_TEST(its_bytes_are_not_charged_beside_the_new_ones)
{
    const struct rig_opts opts = {.store = {.enable_multi_tenants = true}};
    struct mci_quota quota;
    open_with(&opts);
    rig.tenant = mc_view_str("t");
    ck_assert_int_eq(mci_master_quota_set(rig.master, rig.tenant, 64 * KIB),
                     MC_OK);
    ck_assert_int_eq(rig_put(&rig, "k", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "k", false).err, MC_OK); /* a lease */
    lend_other();
    mark(_i);
    ck_assert_int_eq(rig_put(&rig, "k", 64 * KIB), MC_OK);
    ck_assert_int_eq(mci_master_quota_get(rig.master, rig.tenant, &quota),
                     MC_OK);
    ck_assert_uint_eq(quota.charged_bytes, 64 * KIB);
    (void)rig_events(&rig);
    close_emptied(_i);
}
END_TEST

/* Others of the tenant have its quota at once, and lose nothing for it. */
START_TEST(a_write_over_the_quota_takes_out_what_is_gone_first)
{
    const struct rig_opts opts = {.shards = 4,
                                  .store = {.enable_multi_tenants = true}};
    struct mci_quota quota;
    open_with(&opts);
    rig.tenant = mc_view_str("t");
    ck_assert_int_eq(mci_master_quota_set(rig.master, rig.tenant, 192 * KIB),
                     MC_OK);
    ck_assert_int_eq(rig_put(&rig, "a", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK); /* leases */
    ck_assert_int_eq(rig_get(&rig, "b", false).err, MC_OK);
    lend_other();
    mci_master_segment_admit(rig.master, rig.segment, false);
    ck_assert_int_eq(rig_put(&rig, "c", 64 * KIB), MC_OK);
    mark(_i);
    ck_assert_int_eq(rig_put(&rig, "d", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "e", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "c"), 1);
    ck_assert_int_eq(mci_master_quota_get(rig.master, rig.tenant, &quota),
                     MC_OK);
    ck_assert_uint_eq(quota.charged_bytes, 192 * KIB);
    ck_assert_uint_eq(rig_stats(&rig).evicted_objects, 0);
    (void)rig_events(&rig);
    close_emptied(_i);
}
END_TEST

/* A copy that is gone is charged as well while another one can be read. */
START_TEST(a_write_over_the_quota_takes_out_copies_that_are_gone)
{
    const struct rig_opts opts = {.shards = 4,
                                  .store = {.enable_multi_tenants = true}};
    const struct mc_replicate_config two = {.replica_num = 2};
    struct mci_quota quota;
    open_with(&opts);
    lend_other();
    rig.tenant = mc_view_str("t");
    ck_assert_int_eq(mci_master_quota_set(rig.master, rig.tenant, 192 * KIB),
                     MC_OK);
    rig.config = &two;
    ck_assert_int_eq(rig_put(&rig, "a", 64 * KIB), MC_OK);
    rig.config = NULL;
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK); /* a lease */
    mark(_i);
    ck_assert_int_eq(rig_put(&rig, "b", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "c", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "b"), 1);
    ck_assert_uint_eq(rig_get(&rig, "a", false).place_count, 1);
    ck_assert_int_eq(mci_master_quota_get(rig.master, rig.tenant, &quota),
                     MC_OK);
    ck_assert_uint_eq(quota.charged_bytes, 192 * KIB);
    ck_assert_uint_eq(rig_stats(&rig).evicted_objects, 0);
    (void)rig_events(&rig);
    close_emptied(_i);
}
END_TEST

/* Likewise memory that is gone, while the disk is there. */
START_TEST(a_write_over_the_quota_takes_out_memory_that_is_gone)
{
    const struct rig_opts opts = {.store = {.enable_multi_tenants = true}};
    open_with(&opts);
    rig.tenant = mc_view_str("t");
    ck_assert_int_eq(mci_master_quota_set(rig.master, rig.tenant, 64 * KIB),
                     MC_OK);
    ck_assert_int_eq(rig_put(&rig, "a", 64 * KIB), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK); /* a lease */
    lend_other();
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_int_eq(rig_put(&rig, "b", 64 * KIB), MC_OK);
    ck_assert_uint_eq(rig_probe(&rig, "a").media, MC_MEDIUM_DISK);
    EXPECT_EVENTS(&rig, "-t/cpu:a +t/cpu:b");
    close_emptied(_i);
}
END_TEST

/* A lease keeps the space long after the last slice, and there is nothing more to
 * be taken out then. */
START_TEST(a_write_over_the_quota_looks_for_what_is_gone_while_it_may_be_there)
{
    const struct rig_opts opts = {.shards = 64,
                                  .store = {.enable_multi_tenants = true}};
    open_with(&opts);
    rig.tenant = mc_view_str("t");
    ck_assert_int_eq(mci_master_quota_set(rig.master, rig.tenant, 64 * KIB),
                     MC_OK);
    ck_assert_int_eq(rig_put(&rig, "a", 128), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK); /* a lease */
    lend_other();
    mark(_i);
    empty(_i);
    ck_assert_uint_eq(rig_leased_only(&rig), 128);
    ck_assert_uint_eq(rig_fill(&rig, "k", 128, 512), 512);
    lock_order_reset();
    struct mci_write_row row = rig_put_start(&rig, "new", 128);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(lock_order_now().drops, 1);
    ck_assert_uint_lt(lock_order_now().shard_locks, 16);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    (void)rig_events(&rig);
    close_emptied(_i);
}
END_TEST

START_TEST(its_place_among_the_keys_is_taken_anew)
{
    const struct rig_opts opts = {.store = {.max_objects = 1}};
    open_with(&opts);
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    lend_other();
    mark(_i);
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "l", 100), MC_ERR_NO_AVAILABLE_HANDLE);
    (void)rig_events(&rig);
    close_emptied(_i);
}
END_TEST

/* ---- leased ------------------------------------------------------------- */

START_TEST(a_lease_on_it_is_over_and_stands_in_nobodys_way)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    lend_other();
    struct mci_read_row named = rig_lease(&rig, "k");
    struct mci_read_row held = rig_get(&rig, "k", true);
    ck_assert(named.err == MC_OK && held.err == MC_OK);
    (void)rig_events(&rig);
    mark(_i);
    struct mci_read_row again = named;
    ck_assert_int_eq(rig_lease_renew(&rig, &again), MC_ERR_LEASE_EXPIRED);
    again = named;
    ck_assert_int_eq(rig_lease_hold(&rig, &again), MC_ERR_LEASE_EXPIRED);
    ck_assert_int_eq(rig_put(&rig, "k#s2", 100), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:k +cpu:k#s2");
    ck_assert_uint_eq(rig_leased_only(&rig), 128);
    empty(_i);
    rig_lease_release(&rig, &named);
    rig_release(&rig, &held);
    rig_pass_and_sweep(&rig, 3600000);
    ck_assert_uint_eq(rig_leased_only(&rig), 0);
    close_emptied(_i);
}
END_TEST

START_TEST(a_remove_of_it_is_not_refused_for_a_lease)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    lend_other();
    ck_assert_int_eq(rig_get(&rig, "k", false).err, MC_OK);
    struct mci_write_row row = rig_upsert_start(&rig, "k", 100);
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_int_eq(rig_remove(&rig, "k", false),
                     MC_ERR_REPLICA_IS_NOT_READY); /* it is being written */
    EXPECT_EVENTS(&rig, "-cpu:k");
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "k", false), MC_ERR_OBJECT_NOT_FOUND);
    close_emptied(_i);
}
END_TEST

/* ---- removed ------------------------------------------------------------ */

START_TEST(removing_all_takes_it_out_and_counts_the_others)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "k", false).err, MC_OK); /* a lease */
    lend_other();
    mci_master_segment_admit(rig.master, rig.segment, false);
    ck_assert_int_eq(rig_put(&rig, "l", 100), MC_OK);
    (void)rig_events(&rig);
    mark(_i);
    ck_assert_uint_eq(remove_by_regex("."), 1);
    EXPECT_EVENTS(&rig, "-cpu:l");
    ck_assert_uint_eq(rig_remove_all(&rig, false), 0);
    EXPECT_EVENTS(&rig, "-cpu:k !default");
    rig_pass_and_sweep(&rig, 3600000);
    close_emptied(_i);
}
END_TEST

/* ---- in the middle of a call --------------------------------------------- */

#define MIDDLES 8 /* shard locks of a call, and more */

enum middle_way { TO_MARK, TO_EMPTY, MIDDLE_WAYS };

static int going_way;
static enum middle_way middle_way;

static void go(void)
{
    mark(going_way);
    if (middle_way == TO_EMPTY) {
        empty(going_way);
    }
}

static void two_copies(void)
{
    const struct mc_replicate_config two = {.replica_num = 2};
    rig.config = &two;
    (void)rig_put(&rig, "l", 100);
    rig.config = NULL;
}

static void put_it(void)
{
    (void)rig_put(&rig, "k#s2", 100);
}

static void upsert_it(void)
{
    (void)rig_upsert(&rig, "k", 100);
}

static void remove_it(void)
{
    (void)rig_remove(&rig, "k", true);
}

static void remove_them(void)
{
    (void)rig_remove_all(&rig, true);
}

static void remove_by_name(void)
{
    (void)remove_by_regex("k");
}

static void read_it(void)
{
    struct mci_read_row row = rig_get(&rig, "k", true);
    rig_release(&rig, &row);
    row = rig_lease(&rig, "k");
    (void)!rig_lease_renew(&rig, &row);
    rig_lease_release(&rig, &row);
}

static void offload_it(void)
{
    (void)!rig_offload(&rig, "k");
}

static void clear_it(void)
{
    (void)rig_clear_replica(&rig, "k");
}

static void put_over_the_quota(void)
{
    (void)rig_put(&rig, "m", 400);
}

static void (*const middles[])(void) = {
    two_copies,     put_it,  upsert_it,  remove_it, remove_them,
    remove_by_name, read_it, offload_it, clear_it,  put_over_the_quota};
#define CALLS (sizeof middles / sizeof middles[0])

/* What the events amount to: media of a key of one letter. */
static unsigned said[128];

static void hear(void)
{
    const char *text = rig_events(&rig);
    while (*text) {
        unsigned medium =
            strncmp(text + 3, "cpu", 3) == 0 ? MC_MEDIUM_CPU : MC_MEDIUM_DISK;
        const char *key = strchr(text, ':');
        if (*text == '!') {
            ck_assert(said['k'] == 0 && said['l'] == 0 && said['m'] == 0);
        } else {
            ck_assert_ptr_nonnull(key);
            unsigned *media = &said[(unsigned char)key[1] & 127];
            ck_assert_int_eq((*media & medium) == 0, *text == '+');
            *media ^= medium;
        }
        text += strcspn(text, " &");
        text += *text != '\0';
    }
}

/* It goes before the count-th of the call's shard locks. Nothing stays there. */
static void expect_agreement(void (*call)(void), uint64_t count, bool is_alone)
{
    uint64_t bytes = 0;
    const struct rig_opts opts = {.store = {.enable_multi_tenants = true}};
    memset(said, 0, sizeof said);
    open_with(&opts);
    rig.tenant = mc_view_str("t");
    ck_assert_int_eq(mci_master_quota_set(rig.master, rig.tenant, 450), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "k#s1@g", 100), MC_OK);
    lend_other();
    mci_master_segment_admit(rig.master, other, !is_alone);
    hear();
    lock_order_before(count, go);
    call();
    lock_order_before(0, NULL);
    hear();
    go();
    empty(going_way);
    hear();
    for (const char *key = "klm"; *key; key++) {
        const char name[] = {*key, '\0'};
        ck_assert_uint_eq(rig_probe(&rig, name).media, said[(unsigned)*key]);
        ck_assert_int_eq(rig_exist(&rig, name), said[(unsigned)*key] != 0);
    }
    rig_pass_and_sweep(&rig, 3600000);
    ck_assert(
        !mci_master_segment_usage(rig.master, rig.segment, &bytes, &bytes));
    rig_close(&rig);
}

START_TEST(whenever_it_goes_events_amount_to_the_answers)
{
    going_way = _i % WAYS;
    middle_way = (enum middle_way)(_i / WAYS % MIDDLE_WAYS);
    size_t call = (size_t)_i / (WAYS * MIDDLE_WAYS);
    for (uint64_t count = 1; count <= MIDDLES; count++) {
        expect_agreement(middles[call], count, false);
        expect_agreement(middles[call], count, true);
    }
}
END_TEST

/* ---- many, in slices ---------------------------------------------------- */

#define MANY 1000

static void name_of(char *key, size_t max, int i)
{
    (void)snprintf(key, max, "m%d", i);
}

/* Reads the events: of each key they alternate. readable[i] goes on. */
static void follow(bool *readable)
{
    const char *text = rig_events(&rig);
    while (*text) {
        int number = -1;
        bool is_stored = text[0] == '+';
        ck_assert_int_eq(sscanf(text + 1, "cpu:m%d", &number), 1);
        ck_assert_int_ge(number, 0);
        ck_assert_int_lt(number, MANY);
        ck_assert_msg(readable[number] != is_stored, "m%d twice", number);
        readable[number] = is_stored;
        text += strcspn(text, " ");
        text += *text == ' ';
    }
}

static void expect_truth(const bool *readable)
{
    for (int i = 0; i < MANY; i++) {
        char key[16];
        name_of(key, sizeof key, i);
        ck_assert_msg((rig_exist(&rig, key) == 1) == readable[i], "%s", key);
    }
}

#define LOCKS_MAX 6

static void end_soft_pins(void)
{
    rig.now_ns += 2 * SECOND;
    rig_sweep(&rig);
}

/* Then it changes lanes, between any two looks of a slice. */
START_TEST(a_soft_pin_that_ends_meanwhile_hides_nothing_from_the_slices)
{
    const struct mc_replicate_config config = {
        .soft_pin_action = MC_SOFT_PIN_ENABLE, .soft_pin_ttl_ms = 1000};
    open_rig();
    rig.config = &config;
    ck_assert_int_eq(rig_put(&rig, "k", 100), MC_OK);
    lend_other();
    (void)rig_events(&rig);
    mark(_i % WAYS);
    lock_order_before(1 + (uint64_t)(_i / WAYS), end_soft_pins);
    empty(_i % WAYS);
    lock_order_before(0, NULL);
    EXPECT_EVENTS(&rig, "-cpu:k");
    rig_close(&rig);
}
END_TEST

/* A third is put anew, a third upserted, between the slices. */
START_TEST(what_is_put_anew_between_the_slices_stays)
{
    const struct rig_opts opts = {.log_capacity = MCI_EVENT_LOG_CAPACITY_MIN,
                                  .shards = 16};
    static bool readable[MANY];
    char key[16];
    memset(readable, 0, sizeof readable);
    open_with(&opts);
    for (int i = 0; i < MANY; i++) {
        name_of(key, sizeof key, i);
        ck_assert_int_eq(rig_put(&rig, key, 64), MC_OK);
        follow(readable);
    }
    lend_other();
    mark(_i);
    int slices = 0;
    bool done = false;
    for (int i = 0; i < MANY || !done; i++) {
        if (i % 100 == 0) {
            done = step(_i);
            slices += !done;
            follow(readable);
        }
        if (i >= MANY || i % 3 == 2) {
            continue;
        }
        name_of(key, sizeof key, i);
        ck_assert_int_eq(i % 3 == 0 ? rig_put(&rig, key, 64)
                                    : rig_upsert(&rig, key, 64),
                         MC_OK);
        follow(readable);
    }
    ck_assert_int_gt(slices, 2);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(readable[i], i % 3 != 2);
    }
    expect_truth(readable);
    rig_close(&rig);
}
END_TEST

/* ---- ------------------------------------------------------------------- */

static TCase *questions(void)
{
    TCase *tcase = tcase_create("questions");
    tcase_add_loop_test(tcase, no_question_finds_it, 0, WAYS);
    tcase_add_loop_test(tcase, of_a_batch_the_others_are_found, 0, WAYS);
    tcase_add_loop_test(tcase, a_snapshot_has_what_no_event_has_taken_back, 0,
                        WAYS);
    tcase_add_loop_test(tcase, what_else_names_it_does_not_find_it, 0, WAYS);
    tcase_add_loop_test(tcase, another_copy_keeps_it, 0, WAYS);
    tcase_add_loop_test(tcase, of_two_copies_the_second_one_takes_it_along, 0,
                        WAYS);
    tcase_add_loop_test(tcase, a_copy_on_disk_keeps_it, 0, WAYS);
    tcase_add_test(tcase, a_copy_on_the_disk_of_a_dead_client_does_not);
    tcase_add_test(tcase, a_disk_alone_goes_with_its_client);
    return tcase;
}

static TCase *changes(void)
{
    TCase *tcase = tcase_create("changes");
    tcase_add_loop_test(tcase, a_put_starts_anew, 0, WAYS);
    tcase_add_loop_test(tcase, an_upsert_starts_anew, 0, WAYS);
    tcase_add_loop_test(tcase, an_upsert_that_was_open_keeps_nothing_of_it, 0,
                        WAYS);
    tcase_add_loop_test(tcase, a_put_that_was_open_is_not_dropped_for_it, 0,
                        WAYS);
    tcase_add_loop_test(tcase, an_end_that_is_refused_leaves_it_to_the_slices,
                        0, WAYS);
    tcase_add_loop_test(tcase, without_room_in_the_log_the_end_takes_it_out, 0,
                        WAYS);
    tcase_add_loop_test(tcase, its_bytes_are_not_charged_beside_the_new_ones, 0,
                        WAYS);
    tcase_add_loop_test(
        tcase, a_write_over_the_quota_takes_out_what_is_gone_first, 0, WAYS);
    tcase_add_loop_test(
        tcase, a_write_over_the_quota_takes_out_copies_that_are_gone, 0, WAYS);
    tcase_add_loop_test(
        tcase, a_write_over_the_quota_takes_out_memory_that_is_gone, 0, WAYS);
    tcase_add_loop_test(
        tcase,
        a_write_over_the_quota_looks_for_what_is_gone_while_it_may_be_there, 0,
        WAYS);
    tcase_add_loop_test(tcase, its_place_among_the_keys_is_taken_anew, 0, WAYS);
    tcase_add_loop_test(tcase, a_lease_on_it_is_over_and_stands_in_nobodys_way,
                        0, WAYS);
    tcase_add_loop_test(tcase, a_remove_of_it_is_not_refused_for_a_lease, 0,
                        WAYS);
    tcase_add_loop_test(tcase, removing_all_takes_it_out_and_counts_the_others,
                        0, WAYS);
    tcase_add_loop_test(
        tcase, a_soft_pin_that_ends_meanwhile_hides_nothing_from_the_slices, 0,
        WAYS * LOCKS_MAX);
    tcase_add_loop_test(tcase, whenever_it_goes_events_amount_to_the_answers, 0,
                        (int)(WAYS * MIDDLE_WAYS * CALLS));
    tcase_add_loop_test(tcase, what_is_put_anew_between_the_slices_stays, 0,
                        WAYS);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("store gone");
    suite_add_tcase(suite, questions());
    suite_add_tcase(suite, changes());
    return suite_run(suite);
}
