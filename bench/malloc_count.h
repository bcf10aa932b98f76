/* SPDX-License-Identifier: Apache-2.0 */
/* malloc_count.h - how often the calling thread has called the C library's
 * allocator.
 *
 * A program that includes this header gets its own malloc, calloc, realloc and
 * aligned forms linked in, which count and then do what the C library does.
 * Unlike the counts of mci_alloc this sees every library in the process.
 * Threads: any thread; each sees its own count.
 */
#ifndef MALLOC_COUNT_H
#define MALLOC_COUNT_H
#include <stdint.h>

/* Allocations and reallocations of the calling thread so far. */
uint64_t malloc_count_calls(void);
#endif
