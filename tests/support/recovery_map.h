/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_map.h - the maps that a recovery server says, read strictly. */
#ifndef RECOVERY_MAP_H
#define RECOVERY_MAP_H
#include <check.h>

#include "mci_unpack.h"

/* The number of that name; UINT64_MAX if there is none. */
static inline uint64_t map_number(struct mc_view map, const char *name)
{
    struct mci_unpack reader;
    uint64_t found = UINT64_MAX;
    mci_unpack_init(&reader, map);
    uint32_t pairs = mci_unpack_map(&reader, 3, 6);
    for (uint32_t i = 0; i < pairs; i++) {
        struct mc_view key = mci_unpack_str(&reader, 64);
        if (mc_view_equal(key, mc_view_str("backend_id"))) {
            ck_assert(
                mc_view_equal(mci_unpack_str(&reader, 128), mc_view_str("n1")));
            continue;
        }
        uint64_t value = mci_unpack_u64(&reader, UINT64_MAX);
        found = mc_view_equal(key, mc_view_str(name)) ? value : found;
    }
    ck_assert_int_eq(mci_unpack_done(&reader), MCI_UNPACK_OK);
    return found;
}
#endif
