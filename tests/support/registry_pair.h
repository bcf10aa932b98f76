/* SPDX-License-Identifier: Apache-2.0 */
/* registry_pair.h - the cast of most tests of the registry: an owner that lends
 * a MiB, and a writer that lends nothing. One at a time per program. */
#ifndef REGISTRY_PAIR_H
#define REGISTRY_PAIR_H
#include "registry_rig.h"

static struct cast cast;
static struct fellow owner;
static struct fellow writer;

static inline void pair_open(void)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &owner, "owner:1", 1 * MIB);
    fellow_join(&cast, &writer, "writer:1", 0);
}

static inline void pair_close(void)
{
    fellow_leave(&writer);
    fellow_leave(&owner);
    cast_close(&cast);
}

/* Bytes that are handed out, and ranges that wait for a proof. */
static inline uint64_t pair_allocated(void)
{
    return rig_stats(&cast.rig).allocated_bytes;
}

static inline uint64_t pair_quarantined(void)
{
    return rig_stats(&cast.rig).quarantined;
}
#endif
