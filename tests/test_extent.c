/* SPDX-License-Identifier: Apache-2.0 */
/* Extents: a shadow of the space beside it, fill levels after hard mixes,
 * edges, and running out of memory. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "extent_rig.h"
#include "suite.h"

/* ---- a shadow ----------------------------------------------------------- */

struct shadow {
    struct mci_extents *space;
    uint32_t holder[PLACES]; /* live index + 1 of each granule */
    struct mci_extent live[PLACES];
    uint32_t count;
    uint64_t taken;
};

static void paint(struct shadow *shadow, struct mci_extent extent, uint32_t was,
                  uint32_t is)
{
    uint64_t first = extent.offset / GRANULE;
    bool agrees = extent.offset + extent.len <= SPACE;
    for (uint64_t i = 0; agrees && i < extent.len / GRANULE; i++) {
        agrees = shadow->holder[first + i] == was;
        shadow->holder[first + i] = is;
    }
    ck_assert(agrees);
}

static void shadow_add(struct shadow *shadow, struct mci_extent extent)
{
    shadow->live[shadow->count++] = extent;
    paint(shadow, extent, 0, extent.handle);
    shadow->taken += extent.len;
}

static struct mci_extent shadow_drop(struct shadow *shadow, uint32_t at)
{
    struct mci_extent extent = shadow->live[at];
    paint(shadow, extent, extent.handle, 0);
    shadow->live[at] = shadow->live[--shadow->count];
    shadow->taken -= extent.len;
    return extent;
}

static uint64_t longest_hole(const struct shadow *shadow)
{
    uint64_t longest = 0;
    uint64_t run = 0;
    for (uint64_t i = 0; i < PLACES; i++) {
        run = shadow->holder[i] == 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest * GRANULE;
}

/* The walk shows exactly what the shadow holds, and positions lead to it. */
static void compare_walk(const struct shadow *shadow)
{
    uint64_t at = 0;
    uint32_t handle = mci_extents_at(shadow->space, 0);
    while (handle != MCI_EXTENT_NONE) {
        struct mci_extent extent = mci_extents_get(shadow->space, handle);
        uint32_t holder = shadow->holder[at / GRANULE];
        uint64_t inside = extent.offset + draw(extent.len);
        bool agrees =
            extent.offset == at &&
            holder == (extent.state == MCI_EXTENT_FREE ? 0 : handle) &&
            mci_extents_at(shadow->space, inside) == handle;
        ck_assert_msg(agrees, "at %ju", (uintmax_t)at);
        at += extent.len;
        handle = mci_extents_next(shadow->space, handle);
    }
    ck_assert_uint_eq(at, SPACE);
}

static void compare_stats(const struct shadow *shadow)
{
    struct mci_extents_stats stats = stats_of(shadow->space);
    ck_assert_uint_eq(stats.allocated_bytes, shadow->taken);
    ck_assert_uint_eq(stats.free_bytes, SPACE - shadow->taken);
    ck_assert_uint_eq(stats.allocated_count, shadow->count);
    ck_assert_uint_eq(stats.claimed_bytes, 0);
    ck_assert_uint_eq(stats.largest_free_bytes, longest_hole(shadow));
    ck_assert(mci_extents_check(shadow->space));
}

static void step_alloc(struct shadow *shadow)
{
    uint64_t most = draw(8) == 0 ? 64 * KIB : draw(2) == 0 ? 4 * KIB : 300;
    uint64_t len = draw(most) + 1;
    struct mci_extent extent;
    uint64_t hole = draw(16) == 0 ? longest_hole(shadow) : 0;
    enum mc_err err = mci_extents_alloc(shadow->space, len, NULL, &extent);
    if (err == MC_OK) {
        ck_assert_uint_lt(extent.len - len, GRANULE);
        shadow_add(shadow, extent);
        return;
    }
    ck_assert_int_eq(err, MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_uint_lt(hole, len); /* holes are few here: none is overlooked */
}

/* Evicts into a claim until a piece fits, as a store does. */
static void step_claim(struct shadow *shadow)
{
    uint32_t claim;
    ck_assert_int_eq(mci_extents_claim_begin(shadow->space, &claim), MC_OK);
    uint64_t len = draw(32 * KIB) + 1;
    struct mci_extent got;
    for (int i = 0; i < 6 && shadow->count > 0; i++) {
        struct mci_extent victim =
            shadow_drop(shadow, (uint32_t)draw(shadow->count));
        struct mci_extent piece =
            mci_extents_claim_give(shadow->space, claim, victim.handle);
        ck_assert_uint_le(piece.offset, victim.offset);
        ck_assert_uint_ge(piece.offset + piece.len, victim.offset + victim.len);
        if (mci_extents_claim_take(shadow->space, claim, piece.handle, len,
                                   NULL, &got)) {
            ck_assert_uint_ge(piece.len, len);
            shadow_add(shadow, got);
            break;
        }
        ck_assert_uint_lt(piece.len, len);
    }
    mci_extents_claim_end(shadow->space, claim);
}

static void run_steps(uint64_t seed, int steps)
{
    random_state = seed;
    struct shadow *shadow = calloc(1, sizeof *shadow);
    ck_assert_ptr_nonnull(shadow);
    shadow->space = open_space(SPACE);
    bool filling = true;
    for (int i = 0; i < steps; i++) {
        if (draw(400) == 0) {
            filling = !filling;
        }
        if (draw(200) == 0) {
            step_claim(shadow);
        } else if (shadow->count == 0 || draw(8) < (filling ? 6U : 2U)) {
            step_alloc(shadow);
        } else {
            uint32_t at = (uint32_t)draw(shadow->count);
            mci_extents_free(shadow->space, shadow_drop(shadow, at).handle);
        }
        if (i % 1000 == 0) {
            compare_walk(shadow);
            compare_stats(shadow);
        }
    }
    while (shadow->count > 0) {
        uint32_t at = (uint32_t)draw(shadow->count);
        mci_extents_free(shadow->space, shadow_drop(shadow, at).handle);
    }
    compare_stats(shadow);
    ck_assert_uint_eq(stats_of(shadow->space).free_count, 1);
    mci_extents_destroy(shadow->space);
    free(shadow);
}

START_TEST(random_mixes_agree_with_a_shadow)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        run_steps(seed * UINT64_C(0x9E3779B97F4A7C15), 25000);
    }
}
END_TEST

/* ---- fill levels -------------------------------------------------------- */

static uint64_t fill_with(struct mci_extents *space, uint64_t len,
                          uint32_t *handles, uint64_t max)
{
    uint64_t count = 0;
    struct mci_extent extent;
    while (count < max &&
           mci_extents_alloc(space, len, NULL, &extent) == MC_OK) {
        handles[count++] = extent.handle;
    }
    return count;
}

static void free_shuffled(struct mci_extents *space, uint32_t *handles,
                          uint64_t count)
{
    while (count > 0) {
        uint64_t at = draw(count);
        mci_extents_free(space, handles[at]);
        handles[at] = handles[--count];
    }
}

START_TEST(what_one_size_gave_back_another_size_fills)
{
    random_state = 7;
    static const uint64_t sizes[] = {4 * KIB, 8 * MIB,     4 * KIB,
                                     100,     8 * MIB,     3 * MIB + 1,
                                     64,      8 * MIB - 1, 4 * KIB};
    uint64_t capacity = 64 * MIB;
    struct mci_extents *space = open_space(capacity);
    uint64_t max = capacity / 64;
    uint32_t *handles = malloc(max * sizeof *handles);
    ck_assert_ptr_nonnull(handles);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t count = fill_with(space, sizes[i], handles, max);
        uint64_t used = stats_of(space).allocated_bytes;
        ck_assert_msg(used >= capacity / 100 * 95, "size %ju: %ju of %ju",
                      (uintmax_t)sizes[i], (uintmax_t)used,
                      (uintmax_t)capacity);
        free_shuffled(space, handles, count);
        ck_assert_uint_eq(stats_of(space).largest_free_bytes, capacity);
    }
    free(handles);
    mci_extents_destroy(space);
}
END_TEST

START_TEST(a_mix_of_sizes_fills_the_space)
{
    random_state = 11;
    uint64_t capacity = 256 * MIB;
    struct mci_extents *space = open_space(capacity);
    struct mci_extent extent;
    int refused = 0;
    while (refused < 64) {
        uint64_t len = UINT64_C(64) << draw(15);
        len += draw(len);
        refused += mci_extents_alloc(space, len, NULL, &extent) != MC_OK;
    }
    ck_assert_uint_ge(stats_of(space).allocated_bytes, capacity / 100 * 95);
    ck_assert(mci_extents_check(space));
    mci_extents_destroy(space);
}
END_TEST

/* Holes of 128 and 129 granules share a bin; the longer one was entered first
 * and so is looked at last. */
START_TEST(a_hole_behind_many_short_ones_is_found)
{
    struct mci_extents *space = open_space(16 * MIB);
    uint32_t handles[200];
    for (int i = 0; i < 200; i += 2) {
        uint64_t granules = i == 0 ? 129 : 128;
        handles[i] = must_alloc(space, granules * GRANULE, NULL).handle;
        handles[i + 1] = must_alloc(space, GRANULE, NULL).handle;
    }
    (void)must_alloc(space, stats_of(space).largest_free_bytes, NULL);
    for (int i = 0; i < 200; i += 2) {
        mci_extents_free(space, handles[i]);
    }
    (void)must_alloc(space, 129 * GRANULE, NULL);
    mci_extents_destroy(space);
}
END_TEST

/* Small and large beside each other, most of them short-lived, at four fifths
 * of the space. */
START_TEST(large_requests_find_room_among_small_ones)
{
    enum { PUTS = 10000, RESIDENT_MAX = 1 << 16 };
    random_state = 13;
    uint64_t capacity = 1024 * MIB;
    struct mci_extents *space = open_space(capacity);
    struct mci_extent *live = calloc(RESIDENT_MAX, sizeof *live);
    ck_assert_ptr_nonnull(live);
    uint32_t count = 0;
    int refused = 0;
    for (int i = 0; i < PUTS; i++) {
        uint64_t len =
            draw(2) == 0 ? 256 + draw(16 * KIB - 256) : 8 * MIB + draw(8 * MIB);
        struct mci_extent extent;
        if (mci_extents_alloc(space, len, NULL, &extent) != MC_OK) {
            refused++;
            continue;
        }
        live[count++] = extent;
        while (stats_of(space).allocated_bytes > capacity / 5 * 4) {
            /* 1 to 3 steps later, or any old one */
            uint32_t back = (uint32_t)draw(3) + 2;
            uint32_t at = draw(2) == 0 && back <= count ? count - back
                                                        : (uint32_t)draw(count);
            mci_extents_free(space, live[at].handle);
            live[at] = live[--count];
        }
    }
    ck_assert_msg(refused < PUTS / 1000, "%d of %d refused", refused, PUTS);
    ck_assert(mci_extents_check(space));
    free(live);
    mci_extents_destroy(space);
}
END_TEST

START_TEST(a_live_extent_costs_at_most_forty_bytes)
{
    enum { COUNT = 1000000 };
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    struct mci_extents *space = open_space(COUNT * UINT64_C(4096));
    for (int i = 0; i < COUNT; i++) {
        (void)must_alloc(space, 4096, NULL);
    }
    mci_alloc_stats(&after);
    ck_assert_int_le((after.bytes - before.bytes) / COUNT, 40);
    mci_extents_destroy(space);
}
END_TEST

/* ---- edges -------------------------------------------------------------- */

START_TEST(odd_arguments_are_refused)
{
    struct mci_extents *space = NULL;
    ck_assert_int_eq(mci_extents_create(MCI_EXTENT_SPACE_MAX + 1, 0, &space),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_extents_create(MIB, 48, &space),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_extents_create(MIB, 8, &space), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_extents_create(MIB, 1U << 21, &space),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(space);
    space = open_space(MIB);
    struct mci_extent extent;
    ck_assert_int_eq(mci_extents_alloc(space, 0, NULL, &extent),
                     MC_ERR_INVALID_PARAMS);
    uint64_t too_long[] = {MIB + 1, UINT64_MAX, UINT64_MAX - 63,
                           UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof too_long / sizeof too_long[0]; i++) {
        ck_assert_int_eq(mci_extents_alloc(space, too_long[i], NULL, &extent),
                         MC_ERR_NO_AVAILABLE_HANDLE);
    }
    ck_assert_uint_eq(mci_extents_at(space, MIB), MCI_EXTENT_NONE);
    ck_assert_uint_eq(mci_extents_near(space, UINT64_MAX), MCI_EXTENT_NONE);
    (void)must_alloc(space, MIB, NULL);
    mci_extents_destroy(space);
}
END_TEST

START_TEST(a_space_without_bytes_has_no_room)
{
    uint64_t sizes[] = {0, 1, 63};
    for (size_t i = 0; i < 3; i++) {
        struct mci_extents *space = open_space(sizes[i]);
        struct mci_extent extent;
        ck_assert_int_eq(mci_extents_alloc(space, 1, NULL, &extent),
                         MC_ERR_NO_AVAILABLE_HANDLE);
        ck_assert_uint_eq(mci_extents_at(space, 0), MCI_EXTENT_NONE);
        ck_assert_uint_eq(stats_of(space).largest_free_bytes, 0);
        ck_assert(mci_extents_check(space));
        mci_extents_destroy(space);
    }
}
END_TEST

START_TEST(the_largest_space_works_to_its_last_byte)
{
    struct mci_extents *space = open_space(MCI_EXTENT_SPACE_MAX);
    struct mci_extent low = must_alloc(space, 64, NULL);
    uint64_t rest = MCI_EXTENT_SPACE_MAX - 64;
    struct mci_extent high = must_alloc(space, rest, NULL);
    ck_assert_uint_eq(low.offset, 0);
    ck_assert_uint_eq(high.offset + high.len, MCI_EXTENT_SPACE_MAX);
    ck_assert_uint_eq(mci_extents_at(space, MCI_EXTENT_SPACE_MAX - 1),
                      high.handle);
    mci_extents_free(space, low.handle);
    mci_extents_free(space, high.handle);
    (void)must_alloc(space, MCI_EXTENT_SPACE_MAX, NULL);
    mci_extents_destroy(space);
}
END_TEST

START_TEST(every_granule_is_honoured)
{
    for (uint32_t granule = 16; granule <= 1U << 20; granule *= 2) {
        struct mci_extents *space = NULL;
        ck_assert_int_eq(mci_extents_create(64 * MIB, granule, &space), MC_OK);
        struct mci_extent a = must_alloc(space, 1, NULL);
        struct mci_extent b = must_alloc(space, granule + 1, NULL);
        ck_assert_uint_eq(a.len, granule);
        ck_assert_uint_eq(b.len, 2 * granule);
        ck_assert_uint_eq(a.offset % granule, 0);
        ck_assert_uint_eq(b.offset % granule, 0);
        mci_extents_free(space, a.handle);
        mci_extents_free(space, b.handle);
        ck_assert(mci_extents_check(space));
        mci_extents_destroy(space);
    }
}
END_TEST

/* ---- memory ------------------------------------------------------------- */

START_TEST(create_survives_each_failing_allocation)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_extents *space = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_extents_create(64 * MIB, 0, &space);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_extents_destroy(space);
    }
}
END_TEST

/* Allocates until the pool must grow, with that growth failing: nothing has
 * changed, and the same request succeeds later. */
START_TEST(a_failing_pool_changes_nothing)
{
    struct mci_extents *space = open_space(64 * MIB);
    struct mci_extent extent;
    int failures = 0;
    for (int i = 0; i < 20000; i++) {
        struct mci_extents_stats before = stats_of(space);
        (void)mci_alloc_fail_at(1);
        enum mc_err err = mci_extents_alloc(space, 100, NULL, &extent);
        bool waits = mci_alloc_fail_at(0) != 0;
        if (waits) {
            ck_assert_int_eq(err, MC_OK);
            continue;
        }
        ck_assert_int_eq(err, MC_ERR_NOMEM);
        struct mci_extents_stats after = stats_of(space);
        ck_assert_mem_eq(&before, &after, sizeof before);
        ck_assert(mci_extents_check(space));
        (void)must_alloc(space, 100, NULL);
        failures++;
    }
    ck_assert_int_eq(failures, 4);
    mci_extents_destroy(space);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("extent");
    TCase *shadow = tcase_create("shadow");
    tcase_set_timeout(shadow, 60);
    tcase_add_test(shadow, random_mixes_agree_with_a_shadow);
    suite_add_tcase(suite, shadow);
    TCase *fill = tcase_create("fill");
    tcase_set_timeout(fill, 60);
    tcase_add_test(fill, what_one_size_gave_back_another_size_fills);
    tcase_add_test(fill, a_mix_of_sizes_fills_the_space);
    tcase_add_test(fill, a_hole_behind_many_short_ones_is_found);
    tcase_add_test(fill, large_requests_find_room_among_small_ones);
    tcase_add_test(fill, a_live_extent_costs_at_most_forty_bytes);
    suite_add_tcase(suite, fill);
    TCase *edges = tcase_create("edges");
    tcase_add_test(edges, odd_arguments_are_refused);
    tcase_add_test(edges, a_space_without_bytes_has_no_room);
    tcase_add_test(edges, the_largest_space_works_to_its_last_byte);
    tcase_add_test(edges, every_granule_is_honoured);
    suite_add_tcase(suite, edges);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, create_survives_each_failing_allocation);
    tcase_add_test(memory, a_failing_pool_changes_nothing);
    suite_add_tcase(suite, memory);
    return suite_run(suite);
}
