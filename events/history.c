/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - see history.h.
 *
 * The lock is held for a few words a batch only: copying in happens before it,
 * freeing after it. A reference count of 1 is the ring's own.
 */
#include "history.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "mci_alloc.h"
#include "mci_list.h"

struct held_batch {
    struct mci_history_batch batch;
    _Atomic uint32_t refs;
    struct held_batch *evicted; /* the next of those that go together */
    uint8_t payload[];
};

struct mci_history {
    uint64_t max_batches;
    uint64_t max_bytes;
    pthread_mutex_t lock;
    /* All below is guarded by lock. */
    struct held_batch **slots; /* max_batches of them */
    uint64_t first;            /* the oldest, counted from the beginning */
    uint64_t end;              /* one beyond the newest */
    uint64_t bytes;
};

static struct held_batch *slot_at(const struct mci_history *history,
                                  uint64_t place)
{
    return history->slots[place % history->max_batches];
}

static uint64_t cost_of(const struct held_batch *held)
{
    return sizeof *held + held->batch.payload.len;
}

static void release(struct held_batch *held)
{
    if (atomic_fetch_sub_explicit(&held->refs, 1, memory_order_acq_rel) == 1) {
        mci_free(held);
    }
}

enum mc_err mci_history_create(uint32_t max_batches, uint64_t max_bytes,
                               struct mci_history **history_out)
{
    struct mci_history *history = mci_calloc(1, sizeof *history);
    if (!history) {
        return MC_ERR_NOMEM;
    }
    history->max_batches =
        max_batches ? max_batches : MCI_HISTORY_BATCHES_DEFAULT;
    history->max_bytes = max_bytes ? max_bytes : MCI_HISTORY_BYTES_DEFAULT;
    history->slots =
        mci_calloc((size_t)history->max_batches, sizeof(struct held_batch *));
    if (!history->slots) {
        mci_free(history);
        return MC_ERR_NOMEM;
    }
    (void)pthread_mutex_init(&history->lock, NULL);
    *history_out = history;
    return MC_OK;
}

void mci_history_destroy(struct mci_history *history)
{
    if (!history) {
        return;
    }
    for (uint64_t i = history->first; i < history->end; i++) {
        release(slot_at(history, i));
    }
    (void)pthread_mutex_destroy(&history->lock);
    mci_free(history->slots);
    mci_free(history);
}

static struct held_batch *batch_copy(uint64_t seq, struct mc_view payload)
{
    struct held_batch *held = mci_alloc(sizeof *held + payload.len);
    if (!held) {
        return NULL;
    }
    if (payload.len > 0) {
        memcpy(held->payload, payload.data, payload.len);
    }
    held->batch.seq = seq;
    held->batch.payload = mc_view_make(held->payload, payload.len);
    atomic_init(&held->refs, 1);
    return held;
}

static bool is_over_locked(const struct mci_history *history,
                           uint64_t incoming_bytes)
{
    return history->end - history->first >= history->max_batches ||
           history->bytes + incoming_bytes > history->max_bytes;
}

/* Takes out the oldest until there is room: the caller's, to release. */
static struct held_batch *evict_locked(struct mci_history *history,
                                       uint64_t incoming_bytes)
{
    struct held_batch *evicted = NULL;
    while (history->first < history->end &&
           is_over_locked(history, incoming_bytes)) {
        struct held_batch *oldest = slot_at(history, history->first);
        history->first++;
        history->bytes -= cost_of(oldest);
        oldest->evicted = evicted;
        evicted = oldest;
    }
    return evicted;
}

/* The old go and the new one comes under one lock: nobody finds a history without
 * what was in it a moment ago and is not yet followed by anything. */
enum mc_err mci_history_add(struct mci_history *history, uint64_t seq,
                            struct mc_view payload)
{
    struct held_batch *held = batch_copy(seq, payload);
    if (!held) {
        return MC_ERR_NOMEM;
    }
    (void)pthread_mutex_lock(&history->lock);
    assert(history->first == history->end ||
           slot_at(history, history->end - 1)->batch.seq < seq);
    struct held_batch *evicted = evict_locked(history, cost_of(held));
    history->slots[history->end % history->max_batches] = held;
    history->end++;
    history->bytes += cost_of(held);
    (void)pthread_mutex_unlock(&history->lock);
    while (evicted) {
        struct held_batch *next = evicted->evicted;
        release(evicted);
        evicted = next;
    }
    return MC_OK;
}

/* The place of the first batch at or above seq, `end` if there is none. */
static uint64_t find_locked(const struct mci_history *history, uint64_t seq)
{
    uint64_t low = history->first;
    uint64_t high = history->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (slot_at(history, middle)->batch.seq < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct mci_history_batch *mci_history_hold(struct mci_history *history,
                                                 uint64_t from_seq)
{
    struct held_batch *held = NULL;
    (void)pthread_mutex_lock(&history->lock);
    uint64_t place = find_locked(history, from_seq);
    if (place < history->end) {
        held = slot_at(history, place);
        atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&history->lock);
    return held ? &held->batch : NULL;
}

void mci_history_release(const struct mci_history_batch *batch)
{
    if (batch) {
        /* Only the count is written to, which is not part of the batch. */
        release(MCI_CONTAINER(batch, struct held_batch, batch));
    }
}

void mci_history_stats(struct mci_history *history,
                       struct mci_history_stats *stats_out)
{
    struct mci_history_stats stats = {0};
    (void)pthread_mutex_lock(&history->lock);
    stats.batches = history->end - history->first;
    stats.bytes = history->bytes;
    if (stats.batches > 0) {
        stats.oldest_seq = slot_at(history, history->first)->batch.seq;
        stats.tail_seq = slot_at(history, history->end - 1)->batch.seq;
    }
    (void)pthread_mutex_unlock(&history->lock);
    *stats_out = stats;
}
