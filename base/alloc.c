/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread counts in a block of its own, which it alone writes: relaxed
 * loads and stores, no locked instruction. The blocks hang in a list that
 * mci_alloc_stats walks; at its end a thread adds its block to `gone` and
 * leaves the list. Whatever it allocates after that (destructors of other keys)
 * is counted in `gone` directly, since its block may vanish at any moment. */
#include "mci_alloc.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mci_bytes.h"
#include "mci_list.h"

struct counters {
    _Atomic uint64_t calls;
    _Atomic uint64_t frees;
    _Atomic uint64_t allocated_bytes;
    _Atomic int64_t blocks;
    _Atomic int64_t bytes;
};

enum thread_stage {
    THREAD_UNSEEN = 0,
    THREAD_LISTED,
    THREAD_UNLISTED /* ended, or could not be listed: count in gone */
};

struct thread_counts {
    struct mci_link link;     /* guarded by list_lock */
    struct counters counters; /* written by its thread, read by any */
    enum thread_stage stage;  /* its thread's alone, from here on */
    uint64_t tries;
    uint64_t fail_in; /* 0 = no order */
};

/* The block is small, so it fits into the space for static thread-local
 * storage even of a library loaded late; that saves a call per allocation. */
static _Thread_local struct thread_counts self
    __attribute__((tls_model("initial-exec")));

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mci_link list = {&list, &list}; /* guarded by list_lock */
static struct counters gone;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_key;
static bool has_end_key; /* written once, before any reader */

static void add_counters(struct counters *to, struct counters *from)
{
    atomic_fetch_add_explicit(&to->calls, from->calls, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->frees, from->frees, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->allocated_bytes, from->allocated_bytes,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&to->blocks, from->blocks, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->bytes, from->bytes, memory_order_relaxed);
}

static void fold(struct thread_counts *thread)
{
    mci_list_remove(&thread->link);
    add_counters(&gone, &thread->counters);
}

static void at_thread_end(void *thread)
{
    pthread_mutex_lock(&list_lock);
    fold(thread);
    pthread_mutex_unlock(&list_lock);
    ((struct thread_counts *)thread)->stage = THREAD_UNLISTED;
}

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&list_lock);
}

/* Only the forking thread lives on; the memory of the others may be given to
 * new threads from now on. */
static void after_fork_in_child(void)
{
    struct mci_link *link = list.next;
    while (link != &list) {
        struct mci_link *next = link->next;
        if (link != &self.link) {
            fold(MCI_CONTAINER(link, struct thread_counts, link));
        }
        link = next;
    }
    pthread_mutex_unlock(&list_lock);
}

static void begin_process(void)
{
    has_end_key = pthread_key_create(&end_key, at_thread_end) == 0;
    (void)pthread_atfork(before_fork, after_fork_in_parent,
                         after_fork_in_child);
}

static void begin_thread(void)
{
    pthread_once(&once, begin_process);
    self.stage = THREAD_UNLISTED;
    if (!has_end_key || pthread_setspecific(end_key, &self) != 0) {
        return;
    }
    pthread_mutex_lock(&list_lock);
    mci_list_push_back(&list, &self.link);
    pthread_mutex_unlock(&list_lock);
    self.stage = THREAD_LISTED;
}

static void bump(_Atomic uint64_t *counter, uint64_t by)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + by, memory_order_relaxed);
}

static void shift(_Atomic int64_t *counter, int64_t by)
{
    int64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + by, memory_order_relaxed);
}

struct change {
    uint64_t calls;
    uint64_t frees;
    uint64_t allocated_bytes;
    int64_t blocks;
    int64_t bytes;
};

static void count(const struct change *change)
{
    if (self.stage == THREAD_UNSEEN) {
        begin_thread();
    }
    if (self.stage == THREAD_LISTED) {
        bump(&self.counters.calls, change->calls);
        bump(&self.counters.frees, change->frees);
        bump(&self.counters.allocated_bytes, change->allocated_bytes);
        shift(&self.counters.blocks, change->blocks);
        shift(&self.counters.bytes, change->bytes);
        return;
    }
    struct counters late = {change->calls, change->frees,
                            change->allocated_bytes, change->blocks,
                            change->bytes};
    add_counters(&gone, &late);
}

/* Whether this allocation is the one that a test ordered to fail. */
static bool is_ordered_to_fail(void)
{
    self.tries++;
    if (self.fail_in == 0) {
        return false;
    }
    self.fail_in--;
    return self.fail_in == 0;
}

static void *count_new(void *block)
{
    if (block) {
        size_t usable = malloc_usable_size(block);
        count(&(struct change){.calls = 1,
                               .allocated_bytes = usable,
                               .blocks = 1,
                               .bytes = (int64_t)usable});
    }
    return block;
}

void *mci_alloc(size_t size)
{
    if (is_ordered_to_fail()) {
        return NULL;
    }
    return count_new(malloc(size ? size : 1));
}

void *mci_calloc(size_t count_wanted, size_t size)
{
    if (is_ordered_to_fail()) {
        return NULL;
    }
    size_t bytes;
    if (!mci_mul_size(count_wanted, size, &bytes)) {
        return NULL;
    }
    return count_new(calloc(1, bytes ? bytes : 1));
}

void *mci_alloc_aligned(size_t align, size_t size)
{
    void *block = NULL;
    if (is_ordered_to_fail()) {
        return NULL;
    }
    if (align < sizeof(void *)) {
        align = sizeof(void *);
    }
    if (posix_memalign(&block, align, size ? size : 1) != 0) {
        return NULL;
    }
    return count_new(block);
}

void *mci_realloc(void *block, size_t size)
{
    if (!block) {
        return mci_alloc(size);
    }
    if (is_ordered_to_fail()) {
        return NULL;
    }
    size_t old_usable = malloc_usable_size(block);
    void *moved = realloc(block, size ? size : 1);
    if (!moved) {
        return NULL;
    }
    size_t usable = malloc_usable_size(moved);
    count(&(struct change){.calls = 1,
                           .allocated_bytes = usable,
                           .bytes = (int64_t)usable - (int64_t)old_usable});
    return moved;
}

void mci_free(void *block)
{
    if (!block) {
        return;
    }
    size_t usable = malloc_usable_size(block);
    free(block);
    count(
        &(struct change){.frees = 1, .blocks = -1, .bytes = -(int64_t)usable});
}

char *mci_strdup_n(const void *data, size_t len)
{
    size_t size;
    if (!mci_add_size(len, 1, &size)) {
        return NULL;
    }
    char *copy = mci_alloc(size);
    if (!copy) {
        return NULL;
    }
    if (len > 0) {
        memcpy(copy, data, len);
    }
    copy[len] = '\0';
    return copy;
}

static void add_to_stats(struct mci_alloc_stats *stats,
                         const struct counters *counters)
{
    stats->calls +=
        atomic_load_explicit(&counters->calls, memory_order_relaxed);
    stats->frees +=
        atomic_load_explicit(&counters->frees, memory_order_relaxed);
    stats->allocated_bytes +=
        atomic_load_explicit(&counters->allocated_bytes, memory_order_relaxed);
    stats->blocks +=
        atomic_load_explicit(&counters->blocks, memory_order_relaxed);
    stats->bytes +=
        atomic_load_explicit(&counters->bytes, memory_order_relaxed);
}

void mci_alloc_stats(struct mci_alloc_stats *stats_out)
{
    struct mci_alloc_stats sum = {0};
    pthread_mutex_lock(&list_lock);
    add_to_stats(&sum, &gone);
    for (struct mci_link *link = list.next; link != &list; link = link->next) {
        struct thread_counts *thread =
            MCI_CONTAINER(link, struct thread_counts, link);
        add_to_stats(&sum, &thread->counters);
    }
    pthread_mutex_unlock(&list_lock);
    *stats_out = sum;
}

uint64_t mci_alloc_thread_calls(void)
{
    return self.tries;
}

int mci_alloc_fail_at(uint64_t k)
{
    bool was_waiting = self.fail_in != 0;
    self.fail_in = k;
    return was_waiting;
}
