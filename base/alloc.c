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

/* What only ever rises; the rest are differences of these. */
struct counters {
    _Atomic uint64_t made;            /* blocks */
    _Atomic uint64_t resized;         /* blocks */
    _Atomic uint64_t freed;           /* blocks */
    _Atomic uint64_t allocated_bytes; /* made, or as they are after resizing */
    _Atomic uint64_t freed_bytes;     /* freed, or as they were before it */
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

static void add(_Atomic uint64_t *to, uint64_t by)
{
    atomic_fetch_add_explicit(to, by, memory_order_relaxed);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void fold(struct thread_counts *thread)
{
    mci_list_remove(&thread->link);
    add(&gone.made, load(&thread->counters.made));
    add(&gone.resized, load(&thread->counters.resized));
    add(&gone.freed, load(&thread->counters.freed));
    add(&gone.allocated_bytes, load(&thread->counters.allocated_bytes));
    add(&gone.freed_bytes, load(&thread->counters.freed_bytes));
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

/* A counter that only this thread writes. */
static void bump(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, load(counter) + by, memory_order_relaxed);
}

/* Whether to count in the thread's own block, and not in gone. */
static bool is_listed(void)
{
    if (self.stage == THREAD_LISTED) {
        return true;
    }
    if (self.stage == THREAD_UNSEEN) {
        begin_thread();
    }
    return self.stage == THREAD_LISTED;
}

static void count_made(size_t usable)
{
    if (is_listed()) {
        bump(&self.counters.made, 1);
        bump(&self.counters.allocated_bytes, usable);
        return;
    }
    add(&gone.made, 1);
    add(&gone.allocated_bytes, usable);
}

static void count_freed(size_t usable)
{
    if (is_listed()) {
        bump(&self.counters.freed, 1);
        bump(&self.counters.freed_bytes, usable);
        return;
    }
    add(&gone.freed, 1);
    add(&gone.freed_bytes, usable);
}

static void count_resized(size_t usable_before, size_t usable)
{
    if (is_listed()) {
        bump(&self.counters.resized, 1);
        bump(&self.counters.freed_bytes, usable_before);
        bump(&self.counters.allocated_bytes, usable);
        return;
    }
    add(&gone.resized, 1);
    add(&gone.freed_bytes, usable_before);
    add(&gone.allocated_bytes, usable);
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
        count_made(malloc_usable_size(block));
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
    size_t usable_before = malloc_usable_size(block);
    void *moved = realloc(block, size ? size : 1);
    if (!moved) {
        return NULL;
    }
    count_resized(usable_before, malloc_usable_size(moved));
    return moved;
}

void mci_free(void *block)
{
    if (!block) {
        return;
    }
    count_freed(malloc_usable_size(block));
    free(block);
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

/* The differences may wrap in one thread's block, and are right in the sum. */
static void add_to_stats(struct mci_alloc_stats *stats,
                         const struct counters *counters)
{
    uint64_t made = load(&counters->made);
    uint64_t freed = load(&counters->freed);
    uint64_t allocated_bytes = load(&counters->allocated_bytes);
    stats->calls += made + load(&counters->resized);
    stats->frees += freed;
    stats->allocated_bytes += allocated_bytes;
    stats->blocks += (int64_t)(made - freed);
    stats->bytes += (int64_t)(allocated_bytes - load(&counters->freed_bytes));
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
