/* SPDX-License-Identifier: Apache-2.0 */
/* evict_rig.h - what the tests of eviction share: a megabyte in quarters, with
 * one shard (one order of last use) or many.
 */
#ifndef EVICT_RIG_H
#define EVICT_RIG_H
#include "store_rig.h"

#define LEASE_MS 10000 /* the default */
#define QUARTER (256 * KIB)
#define SHARD_ROWS 2
#define ADD(tcase, test) tcase_add_loop_test(tcase, test, 0, SHARD_ROWS)

static inline uint32_t shards_of_row(int row)
{
    return row == 0 ? 1 : 16;
}

static inline void open_sharded(struct rig *rig, int row,
                                struct mc_store_opts store)
{
    struct rig_opts opts = {.store = store, .shards = shards_of_row(row)};
    rig_open(rig, &opts);
}

static inline void open_default(struct rig *rig, int row)
{
    open_sharded(rig, row, (struct mc_store_opts){0});
}

static inline void put_quarters(struct rig *rig, const char *const *specs,
                                int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(rig_put(rig, specs[i], QUARTER), MC_OK);
    }
}

static inline bool is_there(struct rig *rig, const char *key)
{
    return rig_probe(rig, key).state == MC_OBJECT_READABLE;
}

static inline void get_ok(struct rig *rig, const char *key)
{
    ck_assert_int_eq(rig_get(rig, key, false).err, MC_OK);
}
#endif
