/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry_many.c - more attempts in doubt at one owner than the list of
 * fences in the answer to its heartbeat has room for. SAFETY B.3. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "mci_control.h"
#include "registry_pair.h"
#include "suite.h"

#define MANY (2 * MCI_FENCES_MAX + 100)
#define POOL (640 * KIB) /* of ranges of 64 bytes */

static struct mci_write_row many[MANY];

static void open_with_many(void)
{
    const struct cast_opts opts = {.rig = {.shards = 64}};
    cast_open(&cast, &opts);
    fellow_join(&cast, &owner, "owner:1", POOL);
    fellow_join(&cast, &writer, "writer:1", 0);
    for (uint32_t i = 0; i < MANY; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        many[i] = fellow_start(&writer, 0, key, 64);
        ck_assert_int_eq(many[i].err, MC_OK);
        ck_assert_int_eq(fellow_revoke(&writer, &many[i], true), MC_OK);
    }
}

static void beat_both(void)
{
    rig_pass(&cast.rig, BEAT_MS);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
}

/* Everything that can be had now lies beside the ranges of these. Counted, since
 * an assertion for each would take most of the time. */
static void expect_kept_back(uint32_t from, uint32_t to)
{
    static uint8_t is_kept[POOL / 64];
    const struct mc_replicate_config pinned = {.with_hard_pin = true};
    cast.rig.config = &pinned; /* or the last one would make room itself */
    memset(is_kept, 0, sizeof is_kept);
    for (uint32_t i = from; i < to; i++) {
        is_kept[many[i].places[0].offset / 64] = 1;
    }
    uint32_t count = 0;
    uint32_t overlaps = 0;
    uint32_t failed = 0;
    for (;; count++) {
        char key[16];
        (void)snprintf(key, sizeof key, "n%u", count);
        struct mci_write_row row = rig_put_start(&cast.rig, key, 64);
        if (row.err != MC_OK) {
            ck_assert_int_eq(row.err, MC_ERR_NO_AVAILABLE_HANDLE);
            break;
        }
        overlaps += is_kept[row.places[0].offset / 64];
        failed += rig_end(&cast.rig, &row) != MC_OK;
    }
    ck_assert_uint_eq(overlaps, 0);
    ck_assert_uint_eq(failed, 0);
    ck_assert_uint_eq(count, POOL / 64 - (to - from));
    cast.rig.config = NULL;
    (void)rig_events(&cast.rig);
    (void)rig_remove_all(&cast.rig, true);
    (void)rig_events(&cast.rig);
}

/* How many bytes the answer to a heartbeat has on the wire. */
static size_t pulse_bytes(const struct mci_pulse *pulse)
{
    struct mci_buf buf;
    struct mci_pack pack;
    mci_buf_init(&buf, MC_MESSAGE_LEN_MAX);
    mci_pack_init(&pack, &buf);
    mci_pulse_pack(&pack, pulse);
    ck_assert_int_eq(mci_pack_done(&pack), MC_OK);
    size_t len = buf.len;
    mci_buf_fini(&buf);
    return len;
}

/* Numbers first to last, each for the attempt that was put aside as so
 * manieth. */
static void expect_fences(uint32_t first, uint32_t count)
{
    ck_assert_uint_eq(owner.pulse.fence_count, count);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct mc_fence *fence = &owner.pulse.fences[i];
        wrong += fence->number != first + i ||
                 fence->kind != MC_FENCE_ATTEMPT ||
                 fence->subject != many[first + i - 1].attempt.number;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_lt(pulse_bytes(&owner.pulse), 128 * KIB);
}

START_TEST(more_fences_than_a_list_holds_are_told_in_turns)
{
    open_with_many();
    beat_both();
    expect_fences(1, MCI_FENCES_MAX);
    for (int i = 0; i < 3; i++) {
        beat_both(); /* not carried out: the same ones again, and no more */
        cast_settle(&cast);
        expect_fences(1, MCI_FENCES_MAX);
    }
    ck_assert_uint_eq(pair_quarantined(), MANY);
    ck_assert_uint_eq(cast_stats(&cast).fences_open, MANY);
    expect_kept_back(0, MANY);
    owner.fences_done = 1000;
    beat_both();
    cast_settle(&cast);
    expect_fences(1001, MCI_FENCES_MAX);
    ck_assert_uint_eq(pair_quarantined(), MANY - 1000);
    expect_kept_back(1000, MANY);
    fellow_fence(&owner);
    beat_both();
    cast_settle(&cast);
    uint32_t done = 1000 + MCI_FENCES_MAX;
    expect_fences(done + 1, MANY - done);
    ck_assert_uint_eq(pair_quarantined(), MANY - done);
    expect_kept_back(done, MANY);
    fellow_fence(&owner);
    beat_both();
    cast_settle(&cast);
    ck_assert_uint_eq(owner.pulse.fence_count, 0);
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    ck_assert_uint_eq(cast_stats(&cast).fences_open, 0);
    pair_close();
}
END_TEST

/* An owner that says it is done with more than it was told is believed as far as
 * it was told. */
START_TEST(what_did_not_fit_in_the_list_is_not_proven_with_it)
{
    open_with_many();
    beat_both();
    owner.fences_done = MANY;
    beat_both(); /* tells the next ones here, after it was judged */
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), MANY - MCI_FENCES_MAX);
    expect_kept_back(MCI_FENCES_MAX, MANY);
    owner.fences_done = MCI_FENCES_MAX; /* in truth */
    beat_both();
    cast_settle(&cast);
    expect_fences(MCI_FENCES_MAX + 1, MCI_FENCES_MAX);
    ck_assert_uint_eq(pair_quarantined(), MANY - MCI_FENCES_MAX);
    pair_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.registry_many");
    TCase *tcase = tcase_create("many");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, more_fences_than_a_list_holds_are_told_in_turns);
    tcase_add_test(tcase, what_did_not_fit_in_the_list_is_not_proven_with_it);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
