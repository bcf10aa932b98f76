/* SPDX-License-Identifier: Apache-2.0 */
/* test_extent_claim.c - looking at windows of extents, and claims: what is freed
 * for one allocation is nobody else's. */
#include <check.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "extent_rig.h"
#include "suite.h"

/* ---- windows and claims ------------------------------------------------- */

START_TEST(a_window_shows_owners_and_holes_in_order)
{
    struct mci_extents *space = open_space(64 * KIB);
    int owners[16];
    uint32_t handles[16];
    for (int i = 0; i < 16; i++) {
        struct mci_extent e = must_alloc(space, 4 * KIB, NULL);
        handles[e.offset / (4 * KIB)] = e.handle;
    }
    for (int i = 0; i < 16; i++) {
        mci_extents_set_owner(space, handles[i], &owners[i]);
    }
    mci_extents_free(space, handles[6]);
    uint64_t covered = 0;
    uint32_t at = mci_extents_at(space, 5 * 4 * KIB + 17);
    for (int i = 5; covered < 12 * KIB; i++) {
        struct mci_extent e = mci_extents_get(space, at);
        ck_assert_int_eq(e.state,
                         i == 6 ? MCI_EXTENT_FREE : MCI_EXTENT_ALLOCATED);
        ck_assert_ptr_eq(e.owner, i == 6 ? NULL : &owners[i]);
        covered += e.len;
        at = mci_extents_next(space, at);
    }
    ck_assert_uint_eq(at, handles[8]);
    ck_assert_uint_eq(mci_extents_next(space, handles[15]), MCI_EXTENT_NONE);
    mci_extents_destroy(space);
}
END_TEST

START_TEST(near_leads_into_the_slice_of_the_position)
{
    struct mci_extents *space = open_space(16 * MIB);
    struct mci_extent big = must_alloc(space, 1 * MIB, NULL);
    while (mci_extents_alloc(space, 4 * KIB, NULL, &big) == MC_OK) {
    }
    random_state = 3;
    for (int i = 0; i < 1000; i++) {
        uint64_t offset = draw(16 * MIB);
        uint32_t near = mci_extents_near(space, offset);
        struct mci_extent e = mci_extents_get(space, near);
        bool same_slice = e.offset / (64 * KIB) == offset / (64 * KIB);
        bool covers = e.offset <= offset && offset < e.offset + e.len;
        ck_assert(same_slice || covers);
    }
    mci_extents_destroy(space);
}
END_TEST

START_TEST(what_is_claimed_nobody_else_gets)
{
    struct mci_extents *space = open_space(64 * KIB);
    uint32_t handles[16];
    for (int i = 0; i < 16; i++) {
        struct mci_extent e = must_alloc(space, 4 * KIB, NULL);
        handles[e.offset / (4 * KIB)] = e.handle;
    }
    uint32_t claim;
    ck_assert_int_eq(mci_extents_claim_begin(space, &claim), MC_OK);
    struct mci_extent piece = mci_extents_claim_give(space, claim, handles[3]);
    struct mci_extent got;
    ck_assert(!mci_extents_claim_take(space, claim, piece.handle, 8 * KIB, NULL,
                                      &got));
    ck_assert_int_eq(mci_extents_alloc(space, 64, NULL, &got),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    piece = mci_extents_claim_give(space, claim, handles[5]);
    ck_assert_uint_eq(piece.len, 4 * KIB);
    piece = mci_extents_claim_give(space, claim, handles[4]);
    ck_assert_uint_eq(piece.offset, 12 * KIB);
    ck_assert_uint_eq(piece.len, 12 * KIB);
    ck_assert_uint_eq(stats_of(space).claimed_bytes, 12 * KIB);
    ck_assert(mci_extents_claim_take(space, claim, piece.handle, 8 * KIB,
                                     &piece, &got));
    ck_assert_uint_eq(got.len, 8 * KIB);
    ck_assert_ptr_eq(got.owner, &piece);
    ck_assert_int_eq(mci_extents_alloc(space, 64, NULL, &piece),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    mci_extents_claim_end(space, claim);
    ck_assert_uint_eq(stats_of(space).free_bytes, 4 * KIB);
    ck_assert(mci_extents_check(space));
    (void)must_alloc(space, 4 * KIB, NULL);
    mci_extents_destroy(space);
}
END_TEST

START_TEST(a_claim_takes_in_the_holes_beside_it_but_no_other_claim)
{
    struct mci_extents *space = open_space(64 * KIB);
    uint32_t handles[16];
    for (int i = 0; i < 16; i++) {
        struct mci_extent e = must_alloc(space, 4 * KIB, NULL);
        handles[e.offset / (4 * KIB)] = e.handle;
    }
    uint32_t mine;
    uint32_t other;
    ck_assert_int_eq(mci_extents_claim_begin(space, &mine), MC_OK);
    ck_assert_int_eq(mci_extents_claim_begin(space, &other), MC_OK);
    (void)mci_extents_claim_give(space, other, handles[2]);
    mci_extents_free(space, handles[3]);
    mci_extents_free(space, handles[5]);
    struct mci_extent piece = mci_extents_claim_give(space, mine, handles[4]);
    ck_assert_uint_eq(piece.offset, 12 * KIB);
    ck_assert_uint_eq(piece.len, 12 * KIB);
    mci_extents_claim_end(space, other);
    ck_assert_uint_eq(stats_of(space).free_bytes, 4 * KIB);
    mci_extents_claim_end(space, mine);
    ck_assert_uint_eq(stats_of(space).largest_free_bytes, 16 * KIB);
    ck_assert(mci_extents_check(space));
    mci_extents_destroy(space);
}
END_TEST

START_TEST(claims_are_bounded_and_reusable)
{
    struct mci_extents *space = open_space(64 * KIB);
    uint32_t claims[MCI_CLAIMS_MAX];
    uint32_t one_more;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MCI_CLAIMS_MAX; i++) {
            ck_assert_int_eq(mci_extents_claim_begin(space, &claims[i]), MC_OK);
        }
        ck_assert_int_eq(mci_extents_claim_begin(space, &one_more),
                         MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
        for (int i = 0; i < MCI_CLAIMS_MAX; i++) {
            mci_extents_claim_end(space, claims[i]);
        }
    }
    ck_assert(mci_extents_check(space));
    mci_extents_destroy(space);
}
END_TEST

START_TEST(giving_back_and_claims_that_began_need_no_memory)
{
    enum {
        COUNT = 4095
    }; /* one node is left of the first chunk's 4096: the
                              border and the hole behind have the others */
    struct mci_extents *space = open_space(64 * MIB);
    uint32_t handles[COUNT];
    for (int i = 0; i < COUNT - 2; i++) {
        handles[i] = must_alloc(space, 4 * KIB, NULL).handle;
    }
    uint32_t claim;
    ck_assert_int_eq(mci_extents_claim_begin(space, &claim), MC_OK);
    (void)mci_alloc_fail_at(1);
    struct mci_extent extent;
    enum mc_err err = mci_extents_alloc(space, 64, NULL, &extent);
    ck_assert_int_eq(err, MC_ERR_NOMEM); /* the last one is promised */
    (void)mci_alloc_fail_at(1);
    struct mci_extent piece = mci_extents_claim_give(space, claim, handles[9]);
    ck_assert(
        mci_extents_claim_take(space, claim, piece.handle, 64, NULL, &extent));
    mci_extents_claim_end(space, claim);
    mci_extents_free(space, extent.handle);
    for (int i = 0; i < COUNT - 2; i++) {
        if (i != 9) {
            mci_extents_free(space, handles[i]);
        }
    }
    ck_assert_int_ne(mci_alloc_fail_at(0), 0);
    ck_assert_uint_eq(stats_of(space).largest_free_bytes, 64 * MIB);
    mci_extents_destroy(space);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("extent claim");
    TCase *windows = tcase_create("windows");
    tcase_add_test(windows, a_window_shows_owners_and_holes_in_order);
    tcase_add_test(windows, near_leads_into_the_slice_of_the_position);
    suite_add_tcase(suite, windows);
    TCase *claims = tcase_create("claims");
    tcase_add_test(claims, what_is_claimed_nobody_else_gets);
    tcase_add_test(claims,
                   a_claim_takes_in_the_holes_beside_it_but_no_other_claim);
    tcase_add_test(claims, claims_are_bounded_and_reusable);
    tcase_add_test(claims, giving_back_and_claims_that_began_need_no_memory);
    suite_add_tcase(suite, claims);
    return suite_run(suite);
}
