/* SPDX-License-Identifier: Apache-2.0 */
/* lock_order.h - aborts where the core breaks its order of locks (DESIGN 9,
 * SAFETY E.1) or keeps room in the event log over what it may not (F.3).
 *
 * A test program that is linked with lock_order.c, by the CMake function
 * mc_check_order, runs with the linker's --wrap around the locks, the
 * reservations and the masters; so the code under test is the code that is
 * shipped. What is checked, for every master and thread:
 *
 *   - of shards one lock at a time, and under it neither a space's allocator,
 *     nor a table of the master, nor the map of the groups;
 *   - no shard lock under any of those;
 *   - with a reservation in hand nobody allocates, evicts, reserves again or
 *     waits for a condition, and a call does not return; giving back what a row
 *     left over takes a leaf for a moment and no more, so an end may;
 *   - a master ends with everything given back to its log.
 *
 * Counts are the calling thread's.
 */
#ifndef LOCK_ORDER_H
#define LOCK_ORDER_H
#include <stdint.h>

struct lock_order {
    uint64_t shard_locks;  /* taken */
    uint64_t space_locks;  /* taken */
    uint64_t reservations; /* made, of one event or more */
    uint64_t drops;        /* copies dropped */
    uint64_t most_drops;   /* under one hold of a shard lock */
};
void lock_order_reset(void);
struct lock_order lock_order_now(void);

/* Calls fn once, before this thread takes its count-th shard lock from now on: what
 * another thread might do there. */
void lock_order_before(uint64_t count, void (*fn)(void));
#endif
