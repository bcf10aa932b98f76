/* SPDX-License-Identifier: Apache-2.0 */
/* mci_alloc.h - the one allocator of the project, with a seam for tests.
 *
 * All heap memory of the libraries comes from here, so that a test can make
 * the k-th allocation of a thread fail, and a benchmark can read how many bytes
 * are outstanding. Counts are kept per thread and summed when asked.
 * Threads: any thread; a block may be freed by another thread than made it.
 */
#ifndef MCI_ALLOC_H
#define MCI_ALLOC_H
#include <stddef.h>
#include <stdint.h>

/* malloc, calloc, realloc, aligned_alloc with the seam. NULL on failure. size
 * 0 gives a block that can be freed. mci_realloc leaves the old block alone
 * when it fails. align is a power of two. */
void *mci_alloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *mci_calloc(size_t count, size_t size)
    __attribute__((malloc, alloc_size(1, 2)));
void *mci_realloc(void *block, size_t size);
void *mci_alloc_aligned(size_t align, size_t size);
void mci_free(void *block); /* NULL is fine */

/* A copy of len bytes with a NUL behind it; NULL when out of memory. */
char *mci_strdup_n(const void *data, size_t len);

struct mci_alloc_stats {
    uint64_t calls; /* successful allocations and reallocations */
    uint64_t frees; /* blocks given back */
    int64_t blocks; /* blocks outstanding */
    int64_t bytes;  /* usable bytes outstanding, as the C library sizes them */
    uint64_t allocated_bytes; /* usable bytes of all allocations so far */
};

/* Sums over all threads, living and gone. Exact when no other thread is
 * allocating. */
void mci_alloc_stats(struct mci_alloc_stats *stats_out);

/* Number of allocations tried by the calling thread since it began. */
uint64_t mci_alloc_thread_calls(void);

/* Test seam: the calling thread's k-th allocation from now on (1 = the next)
 * fails, once; 0 switches it off. Returns whether an earlier order is still
 * waiting to be carried out. */
int mci_alloc_fail_at(uint64_t k);
#endif
