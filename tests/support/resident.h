/* SPDX-License-Identifier: Apache-2.0 */
/* resident.h - how much memory this process has. */
#ifndef RESIDENT_H
#define RESIDENT_H
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static inline uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    uint64_t pages = 0;
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*u %" SCNu64, &pages), 1);
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
#endif
