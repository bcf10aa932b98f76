/* SPDX-License-Identifier: Apache-2.0 */
#include "malloc_count.h"

#include <errno.h>
#include <stddef.h>

/* The C library's own, under the names it exports for such wrappers. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

/* Declared here, since <stdlib.h> and <malloc.h> differ in attributes. */
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *memalign(size_t align, size_t size);
void *aligned_alloc(size_t align, size_t size);
int posix_memalign(void **block_out, size_t align, size_t size);

static _Thread_local uint64_t calls;

uint64_t malloc_count_calls(void)
{
    return calls;
}

void *malloc(size_t size)
{
    calls++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    calls++;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    calls++;
    return __libc_realloc(block, size);
}

void *memalign(size_t align, size_t size)
{
    calls++;
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int posix_memalign(void **block_out, size_t align, size_t size)
{
    void *block = memalign(align, size);
    if (!block) {
        return ENOMEM;
    }
    *block_out = block;
    return 0;
}
