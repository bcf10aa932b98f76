/* SPDX-License-Identifier: Apache-2.0 */
/* source_nomem.h - opening sources where each allocation in turn fails. */
#ifndef SOURCE_NOMEM_H
#define SOURCE_NOMEM_H
#include <check.h>

#include "alloc_fail.h"
#include "source.h"

/* There are more allocations than `more_than`, and each that fails is told. */
static inline void source_opens_without_memory(const struct source_opts *opts,
                                               uint64_t more_than)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct source_set *set = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = source_open(opts, &set);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        source_close(set);
    }
    ck_assert_uint_gt(fail.k, more_than);
}
#endif
