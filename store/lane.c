/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c - the order in which copies wait to be evicted.
 *
 * The time of last use of each lane's head stands in an atomic, so that an
 * evictor finds the shard with the oldest one without taking any lock.
 */
#include "space.h"

enum mci_lane_kind mci_lane_kind(unsigned marks)
{
    if (marks & MCI_MARK_HARD) {
        return MCI_LANE_HARD;
    }
    return marks & MCI_MARK_SOFT ? MCI_LANE_SOFT : MCI_LANE_PLAIN;
}

static struct mci_lane *lane_of(struct mci_master *master,
                                struct mci_shard *shard, uint32_t index,
                                unsigned marks)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    return mci_lane_of(master, shard, record->segment, mci_lane_kind(marks));
}

static void show_head(const struct mci_shard *shard, struct mci_lane *lane)
{
    uint64_t used_ns = MCI_NEVER;
    if (lane->queue.head != 0) {
        used_ns = mci_pool_at(&shard->pool, lane->queue.head)->used_ns;
    }
    atomic_store_explicit(&lane->head_used_ns, used_ns, memory_order_relaxed);
}

static void unblock(struct mci_lane *lane)
{
    atomic_store_explicit(&lane->blocked_ns[0], 0, memory_order_relaxed);
    atomic_store_explicit(&lane->blocked_ns[1], 0, memory_order_relaxed);
}

void mci_lane_unblock(struct mci_master *master, struct mci_shard *shard,
                      uint32_t index, unsigned marks)
{
    unblock(lane_of(master, shard, index, marks));
}

void mci_lane_enter(struct mci_master *master, struct mci_shard *shard,
                    uint32_t index, unsigned marks)
{
    struct mci_lane *lane = lane_of(master, shard, index, marks);
    mci_queue_push_back(&shard->pool, &lane->queue, index);
    lane->count++;
    unblock(lane);
    if (lane->queue.head == index) {
        show_head(shard, lane);
    }
}

void mci_lane_enter_first(struct mci_master *master, struct mci_shard *shard,
                          uint32_t index, unsigned marks)
{
    struct mci_lane *lane = lane_of(master, shard, index, marks);
    mci_queue_push_front(&shard->pool, &lane->queue, index);
    lane->count++;
    unblock(lane);
    show_head(shard, lane);
}

void mci_lane_leave(struct mci_master *master, struct mci_shard *shard,
                    uint32_t index, unsigned marks)
{
    struct mci_lane *lane = lane_of(master, shard, index, marks);
    bool was_head = lane->queue.head == index;
    mci_queue_remove(&shard->pool, &lane->queue, index);
    lane->count--;
    if (was_head) {
        show_head(shard, lane);
    }
}

void mci_lane_to_tail(struct mci_master *master, struct mci_shard *shard,
                      uint32_t index, unsigned marks)
{
    struct mci_lane *lane = lane_of(master, shard, index, marks);
    bool was_head = lane->queue.head == index;
    if (lane->queue.tail != index) {
        mci_queue_remove(&shard->pool, &lane->queue, index);
        mci_queue_push_back(&shard->pool, &lane->queue, index);
    }
    if (was_head) {
        show_head(shard, lane);
    }
}
