/* SPDX-License-Identifier: Apache-2.0 */
/* T19p, T20x, T20r: an index of ten million blocks while it is used: how long a
 * match takes while half a million events a second are applied, what a block
 * costs to export and import, and how fast the store's residency is built again
 * from a snapshot. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "big_index.h"

#define RATE 500000.0 /* events a second */
#define PACE 500u     /* events between two looks at the clock */
#define MATCHES 100000u

/* Of this thread: what is done by one thread alone costs the same whatever else
 * the machine does. */
static double cpu_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct live {
    struct mc_index *index;
    struct mc_index_reader *reader;
    uint64_t random;
    double *times; /* of MATCHES matches, us */
    atomic_bool is_over;
    _Atomic uint64_t events;
    double writing_s;
};

/* ---- matches beside changes -------------------------------------------- */

/* Blocks at the end of chains go from the store and come back, in pairs, so that
 * what a match of the rest of a chain answers is known. */
static void *write_events(void *ctx)
{
    struct live *live = ctx;
    uint64_t random = 7;
    double begin = bench_now();
    uint64_t done = 0;
    while (!atomic_load_explicit(&live->is_over, memory_order_relaxed)) {
        for (unsigned i = 0; i < PACE / 2; i++) {
            random = mix(random);
            uint64_t hash = block_of(random % CHAINS, DEPTH - 1);
            (void)big_remove(live->index, hash);
            (void)big_store(live->index, hash);
        }
        done += PACE;
        double ahead = (double)done / RATE - (bench_now() - begin);
        if (ahead > 0) {
            struct timespec pause = {0, (long)(ahead * 1e9)};
            (void)nanosleep(&pause, NULL);
        }
    }
    atomic_store(&live->events, done);
    live->writing_s = bench_now() - begin;
    return NULL;
}

static bool match_once(struct live *live)
{
    uint64_t hashes[DEPTH];
    struct mc_index_place places[4];
    struct mc_index_worker workers[2];
    struct mc_index_match match = {.places = places,
                                   .place_capacity = 4,
                                   .workers = workers,
                                   .worker_capacity = 2};
    live->random = mix(live->random);
    uint64_t chain = live->random % CHAINS;
    for (uint64_t i = 0; i < DEPTH; i++) {
        hashes[i] = block_of(chain, i);
    }
    mc_index_match(live->reader, mc_view_str("default"), hashes, DEPTH, &match);
    /* "offload/1", where it holds something, comes before "w..." */
    return match.store >= DEPTH - 1 && match.worker_count >= 1 &&
           match.worker_count <= 2 &&
           workers[match.worker_count - 1].own == DEPTH;
}

static bool p99_of(struct live *live, double *value_out)
{
    for (size_t i = 0; i < MATCHES; i++) {
        double begin = bench_now();
        if (!match_once(live)) {
            return false;
        }
        live->times[i] = (bench_now() - begin) * 1e6;
    }
    *value_out = bench_percentile(live->times, MATCHES, 0.99);
    return true;
}

static bool p99_idle(void *ctx, double seconds, double *value_out)
{
    (void)seconds;
    return p99_of(ctx, value_out);
}

static bool p99_beside(void *ctx, double seconds, double *value_out)
{
    struct live *live = ctx;
    pthread_t writer;
    (void)seconds;
    atomic_store(&live->is_over, false);
    if (pthread_create(&writer, NULL, write_events, live) != 0) {
        return false;
    }
    bool is_good = p99_of(live, value_out);
    atomic_store(&live->is_over, true);
    (void)pthread_join(writer, NULL);
    return is_good;
}

static bool open_live(struct live *live)
{
    live->times = malloc(MATCHES * sizeof *live->times);
    live->index = big_make();
    return live->times && live->index &&
           mc_index_reader_create(live->index, &live->reader) == MC_OK &&
           big_fill(live->index);
}

static void close_live(struct live *live)
{
    mc_index_reader_destroy(live->reader);
    mc_index_destroy(live->index);
    free(live->times);
}

static void run_beside(struct bench *bench)
{
    struct live live = {.random = 1};
    if (!open_live(&live)) {
        bench_fail(bench, "no index of ten million blocks could be made");
    } else if (bench_rounds(bench, p99_beside, p99_idle, &live)) {
        double rate = (double)atomic_load(&live.events) / live.writing_s;
        bench_note(bench, "p99 of %u matches of %u blocks; %.0f events/s",
                   MATCHES, DEPTH, rate);
        bench_require(bench, rate > 0.95 * RATE, "500 k events/s applied");
    }
    close_live(&live);
}

/* ---- out and in again --------------------------------------------------- */

struct copy {
    struct mc_index *to; /* NULL: lines are only counted */
    uint64_t lines;
    uint64_t bytes;
    uint64_t sum; /* of all lines, in order */
};

static enum mc_err take_line(void *ctx, struct mc_view line)
{
    struct copy *copy = ctx;
    const unsigned char *text = line.data;
    enum mc_index_result result = MC_INDEX_APPLIED;
    copy->lines++;
    copy->bytes += line.len;
    for (size_t i = 0; !copy->to && i < line.len; i++) {
        copy->sum = copy->sum * 1099511628211u + text[i];
    }
    if (copy->to) {
        enum mc_err err = mc_index_apply_line(copy->to, line, &result);
        return err != MC_OK || result == MC_INDEX_APPLIED
                   ? err
                   : MC_ERR_INTERNAL_ERROR;
    }
    return MC_OK;
}

static bool is_same_export(struct mc_index *a, struct mc_index *b)
{
    struct copy of_a = {0};
    struct copy of_b = {0};
    return mc_index_export(a, take_line, &of_a) == MC_OK &&
           mc_index_export(b, take_line, &of_b) == MC_OK &&
           of_a.lines == of_b.lines && of_a.bytes == of_b.bytes &&
           of_a.sum == of_b.sum;
}

/* Every 16th chain also has blocks that an engine holds each for itself. */
static bool hold_more(struct mc_index *index)
{
    const struct mc_index_engine engine = {mc_view_str("default"),
                                           mc_view_str("offload"), 1};
    for (uint64_t chain = 0; chain < CHAINS; chain += 16) {
        uint64_t hashes[3] = {block_of(chain, 0), block_of(chain, DEPTH / 2),
                              block_of(CHAINS + chain, 1)};
        if (mc_index_engine_held(index, &engine, MC_TIER_HOST, hashes, 3,
                                 mc_view_make(NULL, 0)) != MC_INDEX_APPLIED) {
            return false;
        }
    }
    return true;
}

static void run_copy(struct bench *bench)
{
    struct live live = {.random = 1};
    struct copy count = {0};
    struct copy copy = {.to = big_make()};
    if (!open_live(&live) || !hold_more(live.index) || !copy.to) {
        bench_fail(bench, "no index of ten million blocks could be made");
    } else {
        double begin = cpu_now();
        enum mc_err err = mc_index_export(live.index, take_line, &count);
        double exported = cpu_now();
        err = err ? err : mc_index_export(live.index, take_line, &copy);
        double copied = cpu_now();
        if (err != MC_OK || !is_same_export(live.index, copy.to)) {
            bench_fail(bench, "the copy is another one (%d)", err);
        } else {
            bench_absolute(bench, (copied - exported) / BLOCKS * 1e9);
            bench_note(bench,
                       "%llu lines of %llu bytes; export alone %.0f ns; the "
                       "copy exports the same bytes",
                       (unsigned long long)count.lines,
                       (unsigned long long)(count.bytes / count.lines),
                       (exported - begin) / BLOCKS * 1e9);
        }
    }
    mc_index_destroy(copy.to);
    close_live(&live);
}

/* ---- again from a snapshot ---------------------------------------------- */

/* The rows of a snapshot stand in no order of chains. */
static bool restore_all(struct mc_index *index)
{
    const uint64_t count = (uint64_t)CHAINS * DEPTH;
    const uint64_t step = UINT64_C(6700417); /* a prime, and no divisor */
    for (uint64_t i = 0, at = 0; i < count; i++, at = (at + step) % count) {
        if (!big_store(index, mix(at))) {
            return false;
        }
    }
    return true;
}

static void run_rebuild(struct bench *bench)
{
    struct live live = {.random = 1};
    struct mc_index_stats before;
    struct mc_index_stats after;
    if (!open_live(&live) || !hold_more(live.index)) {
        bench_fail(bench, "no index of ten million blocks could be made");
        close_live(&live);
        return;
    }
    mc_index_stats(live.index, &before);
    double begin = cpu_now();
    mc_index_source_lost(live.index, mc_view_str("n1"));
    double lost = cpu_now();
    bool is_good = restore_all(live.index);
    double built = cpu_now();
    while (mc_index_maintain(live.index, 100000)) {
    }
    mc_index_stats(live.index, &after);
    for (int i = 0; is_good && i < 1000; i++) {
        is_good = match_once(&live);
    }
    if (!is_good || before.resident != after.resident ||
        before.sessions != after.sessions || before.nodes != after.nodes) {
        bench_fail(bench, "what was built is not what was there");
    } else {
        const uint64_t count = (uint64_t)CHAINS * DEPTH;
        bench_absolute(bench, (double)count / (built - lost) / 1e6);
        bench_note(bench, "%ju blocks; losing the source took %.0f us",
                   (uintmax_t)count, (lost - begin) * 1e6);
    }
    close_live(&live);
}

static const struct bench_target targets[] = {
    {.id = "T19p",
     .what = "match p99, 10 M blocks, while 500 k events/s are applied / idle",
     .unit = "us",
     .ours = "beside",
     .peer = "idle",
     .better = BENCH_LOWER,
     .gate = BENCH_NONE,
     .goal = BENCH_NONE,
     .run = run_beside},
    {.id = "T20x",
     .what = "export and import of 10 M blocks, CPU time per block",
     .unit = "ns",
     .ours = "mckv",
     .better = BENCH_LOWER,
     .gate = BENCH_NONE,
     .goal = BENCH_NONE,
     .run = run_copy},
    {.id = "T20r",
     .what = "residency of 10 M blocks again from a snapshot's rows, CPU time",
     .unit = "M/s",
     .ours = "mckv",
     .better = BENCH_HIGHER,
     .gate = BENCH_NONE,
     .goal = BENCH_NONE,
     .run = run_rebuild},
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
