/* SPDX-License-Identifier: Apache-2.0 */
/* streams.h - one side of a target that moves bytes: one or a few callers, each
 * on a thread of its own, that walk through memory of their own in equal steps.
 *
 * What a step does is said by a function. Only steps are timed; what has to be
 * done between two walks is not. The figure is MB/s, of all callers together.
 *
 * Threads: one calls streams_*; a step runs on its stream's thread.
 */
#ifndef STREAMS_H
#define STREAMS_H
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#include "bench.h"

#define STREAMS_MAX 2

struct stream {
    bool (*step)(struct stream *stream);  /* moves memory[at ..] */
    bool (*renew)(struct stream *stream); /* before a walk; or NULL */
    void *ctx;                            /* of both */
    uint8_t *memory;
    size_t bytes; /* of it, a multiple of step_bytes */
    size_t step_bytes;
    size_t at;
    /* of one measurement */
    pthread_t thread;
    double wanted_s;
    double used_s;
    uint64_t moved;
    bool is_good;
};

struct streams {
    struct bench *bench;
    struct stream rows[STREAMS_MAX];
    size_t count;
};

/* Touched memory of the kind that is lent to others; NULL. */
static inline uint8_t *stream_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static inline void stream_unmap(uint8_t *memory, size_t bytes)
{
    if (memory) {
        (void)munmap(memory, bytes);
    }
}

static inline void *stream_run(void *arg)
{
    struct stream *stream = arg;
    stream->used_s = 0;
    stream->moved = 0;
    stream->is_good = true;
    while (stream->is_good && stream->used_s < stream->wanted_s) {
        if (stream->at == 0 && stream->renew && !stream->renew(stream)) {
            stream->is_good = false;
            break;
        }
        double began = bench_now();
        stream->is_good = stream->step(stream);
        stream->used_s += bench_now() - began;
        stream->moved += stream->step_bytes;
        stream->at = (stream->at + stream->step_bytes) % stream->bytes;
    }
    return NULL;
}

/* A bench_side_fn; ctx is a struct streams. */
static inline bool streams_measure(void *ctx, double seconds, double *value_out)
{
    struct streams *streams = ctx;
    bool is_good = true;
    *value_out = 0;
    for (size_t i = 0; i < streams->count; i++) {
        struct stream *stream = &streams->rows[i];
        stream->wanted_s = seconds;
        stream->is_good = i == 0 || pthread_create(&stream->thread, NULL,
                                                   stream_run, stream) == 0;
        is_good = is_good && stream->is_good;
    }
    if (is_good) {
        (void)stream_run(&streams->rows[0]);
    }
    for (size_t i = 0; i < streams->count; i++) {
        struct stream *stream = &streams->rows[i];
        if (i > 0 && stream->is_good) {
            (void)pthread_join(stream->thread, NULL);
        }
        is_good = is_good && stream->is_good;
        *value_out += (double)stream->moved / 1e6 / stream->used_s;
    }
    if (!is_good) {
        bench_fail(streams->bench, "a step failed");
    }
    return is_good;
}

#endif
