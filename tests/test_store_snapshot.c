/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_snapshot.c - a walk for a snapshot while the store changes: SAFETY
 * G.3, slice by slice, with writes, removals and growing tables in between. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "snapshot.h"
#include "store_rig.h"
#include "suite.h"

#define KEYS 6000
#define FIRST_KEYS 500

static struct rig rig;
static struct mci_snapshot walk;

static void open_rig(uint32_t shards)
{
    struct rig_opts opts = {.segment_bytes = 16 * MIB, .shards = shards};
    rig_open(&rig, &opts);
    ck_assert_int_eq(mci_snapshot_init(&walk, rig.master, rig.log), MC_OK);
}

static void close_rig(void)
{
    mci_snapshot_fini(&walk);
    rig_close(&rig);
}

/* ---- what one knows ----------------------------------------------------------- */

/* Per key and medium: the id applied last, and whether it can be read. */
struct known {
    uint64_t ids[KEYS][MC_MEDIUM_COUNT];
    bool is_there[KEYS][MC_MEDIUM_COUNT];
};

static size_t medium_at(unsigned medium)
{
    return medium == MC_MEDIUM_CPU ? 0 : 1;
}

static size_t key_at(struct mc_view key)
{
    char text[8] = "";
    ck_assert_uint_lt(key.len, sizeof text);
    memcpy(text, key.data, key.len);
    size_t at = strtoul(text + 1, NULL, 10);
    ck_assert_uint_lt(at, KEYS);
    return at;
}

static void apply(struct known *known, size_t key, size_t medium, uint64_t id,
                  bool is_stored)
{
    if (id > known->ids[key][medium]) {
        known->ids[key][medium] = id;
        known->is_there[key][medium] = is_stored;
    }
}

static struct known truth;    /* by all events */
static struct known followed; /* by the snapshot and what came after first_id */
static uint64_t first_id;

static void take_events(void)
{
    do {
        mci_event_log_take(rig.log, 0, &rig.taken);
        for (uint32_t i = 0; i < rig.taken.count; i++) {
            const struct mci_log_record *record = &rig.taken.records[i];
            if (record->type == MC_EVENT_CLEARED) {
                continue;
            }
            size_t key = key_at(record->object_key);
            size_t medium = medium_at(record->medium);
            bool is_stored = record->type == MC_EVENT_STORED;
            apply(&truth, key, medium, record->id, is_stored);
            if (record->id > first_id) {
                apply(&followed, key, medium, record->id, is_stored);
            }
        }
    } while (rig.taken.count > 0);
}

/* ---- what happens ------------------------------------------------------------- */

static uint64_t draw_state;

static uint32_t draw(uint32_t below)
{
    draw_state =
        draw_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(draw_state >> 33) % below;
}

static void happen(void)
{
    char key[16];
    (void)snprintf(key, sizeof key, "k%u", draw(KEYS));
    switch (draw(8)) {
    case 0:
    case 1:
        (void)rig_remove(&rig, key, true);
        break;
    case 2:
        (void)rig_upsert(&rig, key, 64);
        break;
    case 3:
        (void)rig_offload(&rig, key);
        break;
    case 4:
        (void)rig_clear_replica(&rig, key);
        break;
    default:
        (void)rig_put(&rig, key, 64);
    }
}

static void apply_rows(const struct mci_snapshot_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct mc_event_record *row = &rows->records[i];
        bool is_cpu = mc_view_equal(row->medium, mc_view_str("cpu"));
        ck_assert(is_cpu || mc_view_equal(row->medium, mc_view_str("disk")));
        ck_assert_int_eq(row->type, MC_EVENT_STORED);
        ck_assert(mc_view_equal(row->tenant_id, mc_view_str("default")));
        ck_assert_uint_gt(row->event_id, 0);
        apply(&followed, key_at(row->object_key), is_cpu ? 0 : 1, row->event_id,
              true);
    }
}

START_TEST(rows_and_later_events_are_the_store)
{
    static const uint32_t shards[] = {1, 4, 64};
    struct mci_snapshot_cursor cursor = {0};
    struct mci_snapshot_rows rows;
    const struct mc_view all = {NULL, 0};
    memset(&truth, 0, sizeof truth);
    memset(&followed, 0, sizeof followed);
    draw_state = (uint64_t)_i;
    first_id = UINT64_MAX;
    open_rig(shards[_i % 3]);
    for (int i = 0; i < FIRST_KEYS; i++) {
        happen();
        take_events();
    }
    ck_assert_int_eq(mci_snapshot_walk.begin(&walk, all, &first_id), MC_OK);
    uint32_t slices = 0;
    for (; !cursor.at_end; slices++) {
        ck_assert_int_eq(mci_snapshot_walk.next(&walk, all, &cursor, &rows),
                         MC_OK);
        apply_rows(&rows);
        for (uint32_t i = draw(2000); i > 0; i--) {
            happen();
            if (i % 64 == 0) {
                take_events();
            }
        }
        take_events();
    }
    uint64_t last_id = mci_snapshot_walk.last_id(&walk);
    ck_assert_uint_gt(last_id, first_id);
    ck_assert_uint_ge(slices, shards[_i % 3]);
    uint64_t readable = 0;
    for (size_t key = 0; key < KEYS; key++) {
        for (size_t medium = 0; medium < MC_MEDIUM_COUNT; medium++) {
            ck_assert_msg(followed.is_there[key][medium] ==
                              truth.is_there[key][medium],
                          "k%zu, medium %zu", key, medium);
            ck_assert(!truth.is_there[key][medium] ||
                      followed.ids[key][medium] == truth.ids[key][medium]);
        }
        readable += truth.is_there[key][0] || truth.is_there[key][1];
    }
    ck_assert_uint_eq(mci_snapshot_walk.keys(&walk), readable);
    close_rig();
}
END_TEST

/* ---- rows --------------------------------------------------------------------- */

START_TEST(row_per_medium_with_tag_group_and_id)
{
    struct mci_snapshot_cursor cursor = {0};
    struct mci_snapshot_rows rows;
    open_rig(1);
    ck_assert_int_eq(rig_put(&rig, "a#s1@g1", 100), MC_OK); /* 2 */
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);        /* 3 */
    struct mci_write_row open = rig_put_start(&rig, "b", 100);
    ck_assert_int_eq(open.err, MC_OK); /* nobody can read it */
    ck_assert_int_eq(
        mci_snapshot_walk.next(&walk, mc_view_make(NULL, 0), &cursor, &rows),
        MC_OK);
    ck_assert(cursor.at_end);
    ck_assert_uint_eq(rows.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct mc_event_record *row = &rows.records[i];
        ck_assert_uint_eq(row->event_id, 2 + i);
        ck_assert(mc_view_equal(row->medium, mc_view_str(i ? "disk" : "cpu")));
        ck_assert(mc_view_equal(row->object_key, mc_view_str("a")));
        ck_assert(mc_view_equal(row->session_id, mc_view_str("s1")));
        ck_assert(mc_view_equal(row->group_id, mc_view_str("g1")));
    }
    close_rig();
}
END_TEST

START_TEST(tenants_that_cannot_be_are_refused_before_the_walk)
{
    uint64_t id = 0;
    open_rig(1);
    ck_assert_int_eq(mci_snapshot_walk.begin(&walk, mc_view_str("other"), &id),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    ck_assert_int_eq(
        mci_snapshot_walk.begin(&walk, mc_view_str("default"), &id), MC_OK);
    ck_assert_uint_eq(id, 1); /* cleared */
    close_rig();
}
END_TEST

START_TEST(init_survives_each_allocation_failing)
{
    struct alloc_fail fail;
    struct mci_snapshot another;
    open_rig(1);
    ALLOC_FAIL_EACH(fail)
    {
        alloc_fail_arm(&fail);
        enum mc_err err = mci_snapshot_init(&another, rig.master, rig.log);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_snapshot_fini(&another);
    }
    close_rig();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_snapshot");
    TCase *tc = tcase_create("snapshots");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, rows_and_later_events_are_the_store, 0, 12);
    tcase_add_test(tc, row_per_medium_with_tag_group_and_id);
    tcase_add_test(tc, tenants_that_cannot_be_are_refused_before_the_walk);
    tcase_add_test(tc, init_survives_each_allocation_failing);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
