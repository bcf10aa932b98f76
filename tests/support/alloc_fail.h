/* SPDX-License-Identifier: Apache-2.0 */
/* alloc_fail.h - run a call with its first, second, third ... allocation
 * failing, until it makes fewer than that.
 *
 *   struct alloc_fail fail;
 *   ALLOC_FAIL_EACH(fail) {
 *       struct mc_thing *thing = NULL;
 *       alloc_fail_arm(&fail);
 *       enum mc_err err = mc_thing_create(&opts, &thing);
 *       alloc_fail_disarm(&fail);
 *       ck_assert_int_eq(err, alloc_fail_happened(&fail) ? MC_ERR_NOMEM
 *                                                        : MC_OK);
 *       mc_thing_destroy(thing);
 *   }
 *
 * Only what stands between arm and disarm is made to fail, in the calling
 * thread. After each round the blocks and bytes of mci_alloc must be what they
 * were before it. Where a call may also succeed without the allocation, or the
 * code is per row, write that instead of the comparison above. Anything that is
 * kept after the first call (a thread's scratch memory) must exist before.
 */
#ifndef ALLOC_FAIL_H
#define ALLOC_FAIL_H
#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "mci_alloc.h"

/* No call that is tested so makes more allocations; more is a loop without
 * end. */
#define ALLOC_FAIL_ROUNDS_MAX 100000

struct alloc_fail {
    uint64_t k; /* which allocation fails in this round, from 1 */
    bool is_armed;
    bool was_armed; /* in this round */
    bool happened;
    bool is_shared; /* set it where other threads allocate meanwhile: the
                       balance is then not compared */
    struct mci_alloc_stats before;
};

#define ALLOC_FAIL_EACH(fail) \
    for (alloc_fail_begin(&(fail)); alloc_fail_next(&(fail));)

static inline void alloc_fail_begin(struct alloc_fail *fail)
{
    *fail = (struct alloc_fail){.k = 0};
}

static inline void alloc_fail_check_balance(const struct alloc_fail *fail)
{
    struct mci_alloc_stats now;
    mci_alloc_stats(&now);
    ck_assert_msg(
        now.blocks == fail->before.blocks && now.bytes == fail->before.bytes,
        "allocation %ju failing: %jd blocks, %jd bytes left over",
        (uintmax_t)fail->k, (intmax_t)(now.blocks - fail->before.blocks),
        (intmax_t)(now.bytes - fail->before.bytes));
}

/* Ends the round before, if there was one; false when that one had fewer than
 * k allocations. */
static inline bool alloc_fail_next(struct alloc_fail *fail)
{
    if (fail->k > 0) {
        ck_assert_msg(fail->was_armed && !fail->is_armed,
                      "a round must arm and disarm");
        if (!fail->is_shared) {
            alloc_fail_check_balance(fail);
        }
        if (!fail->happened) {
            return false;
        }
    }
    fail->k++;
    ck_assert_msg(fail->k <= ALLOC_FAIL_ROUNDS_MAX, "no end of allocations");
    fail->was_armed = false;
    fail->happened = false;
    mci_alloc_stats(&fail->before);
    return true;
}

static inline void alloc_fail_arm(struct alloc_fail *fail)
{
    fail->is_armed = true;
    fail->was_armed = true;
    (void)mci_alloc_fail_at(fail->k);
}

static inline void alloc_fail_disarm(struct alloc_fail *fail)
{
    fail->is_armed = false;
    fail->happened = mci_alloc_fail_at(0) == 0;
}

/* After disarm: whether the k-th allocation came, and so failed. */
static inline bool alloc_fail_happened(const struct alloc_fail *fail)
{
    return fail->happened;
}

#endif
