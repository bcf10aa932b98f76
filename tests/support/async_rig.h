/* SPDX-License-Identifier: Apache-2.0 */
/* async_rig.h - operations of many rows, each of its own key and memory.
 *
 * Memory is whole pages, which can be shut: whoever touches them after that, or
 * before they are opened, ends the test.
 */
#ifndef ASYNC_RIG_H
#define ASYNC_RIG_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client_rig.h"
#include "mc_client_async.h"

#define ASYNC_ROWS_MAX 512

struct async_job {
    size_t count;
    size_t len; /* of a row */
    uint8_t *pages;
    size_t bytes;
    char names[ASYNC_ROWS_MAX][24];
    struct mc_view keys[ASYNC_ROWS_MAX];
    struct mc_span spans[ASYNC_ROWS_MAX][2];
    struct mc_spans lists[ASYNC_ROWS_MAX];
    int64_t results[ASYNC_ROWS_MAX];
    struct mc_async_op *op;
};

#define ASYNC_UNSET 4711 /* what results hold before */

/* Rows of len bytes, each in two spans, of keys name/0, name/1, ... */
static inline struct async_job *job_make(const char *name, size_t count,
                                         size_t len)
{
    struct async_job *job = calloc(1, sizeof *job);
    ck_assert(job && count <= ASYNC_ROWS_MAX);
    job->count = count;
    job->len = len;
    job->bytes = count * len / 4096 * 4096 + 4096;
    job->pages = mmap(NULL, job->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(job->pages, MAP_FAILED);
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = job->pages + i * len;
        (void)snprintf(job->names[i], sizeof job->names[i], "%s/%zu", name, i);
        job->keys[i] = mc_view_str(job->names[i]);
        job->spans[i][0] = (struct mc_span){at, len / 3};
        job->spans[i][1] = (struct mc_span){at + len / 3, len - len / 3};
        job->lists[i] = (struct mc_spans){job->spans[i], 2};
        job->results[i] = ASYNC_UNSET;
    }
    return job;
}

static inline void job_shut(struct async_job *job)
{
    ck_assert_int_eq(mprotect(job->pages, job->bytes, PROT_NONE), 0);
}

static inline void job_open(struct async_job *job)
{
    ck_assert_int_eq(mprotect(job->pages, job->bytes, PROT_READ | PROT_WRITE),
                     0);
}

static inline void job_free(struct async_job *job)
{
    ck_assert_int_eq(munmap(job->pages, job->bytes), 0);
    free(job);
}

static inline void job_fill(struct async_job *job, uint64_t stamp)
{
    for (size_t i = 0; i < job->count; i++) {
        stamp_fill(job->pages + i * job->len, job->len, stamp + i);
    }
}

/* The row holds what job_fill wrote. */
static inline bool job_row_is(const struct async_job *job, size_t i,
                              uint64_t stamp)
{
    uint64_t found = 0;
    return stamp_read(job->pages + i * job->len, job->len, &found) &&
           found == stamp + i;
}

static inline struct mc_async_rows job_rows(struct async_job *job,
                                            enum mc_async_kind kind)
{
    return (struct mc_async_rows){.kind = kind,
                                  .count = job->count,
                                  .results = job->results,
                                  .ctx = job,
                                  .keys = job->keys,
                                  .spans = job->lists};
}

static inline void job_submit(struct async_job *job, struct mc_async *async,
                              enum mc_async_kind kind, uint32_t timeout_ms)
{
    struct mc_async_rows rows = job_rows(job, kind);
    rows.timeout_ms = timeout_ms;
    ck_assert_int_eq(mc_async_submit(async, &rows, &job->op), MC_OK);
}

static inline void job_run(struct async_job *job, struct mc_async *async,
                           enum mc_async_kind kind)
{
    job_submit(job, async, kind, 0);
    mc_async_wait(job->op);
}

static inline void job_expect(const struct async_job *job, int64_t result)
{
    for (size_t i = 0; i < job->count; i++) {
        ck_assert_int_eq(job->results[i], result);
    }
}
#endif
