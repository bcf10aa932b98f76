/* SPDX-License-Identifier: Apache-2.0 */
/* T19, T20b: an index of ten million blocks: what a match costs a block, and
 * what a block costs in memory.
 *
 * The peer looks hashes up in a bare table of ten million entries, sixteen at a
 * time, each fetched ahead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "big_index.h"

#define WINDOW 16u
#define TABLE_SIZE (1u << 24)

struct entry {
    uint64_t key;
    uint64_t value;
};

struct big {
    struct mc_index *index;
    struct mc_index_reader *reader;
    struct entry *table;
    uint64_t random;
    uint64_t memory; /* bytes resident before the index */
};

static uint64_t resident_bytes(void)
{
    char line[128] = "";
    char *second = line;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fgets(line, sizeof line, file)) {
            (void)strtoull(line, &second, 10);
        }
        (void)fclose(file);
    }
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- building ---------------------------------------------------------- */

static bool make_index(struct big *big)
{
    big->memory = resident_bytes();
    big->index = big_make();
    return big->index &&
           mc_index_reader_create(big->index, &big->reader) == MC_OK &&
           big_fill(big->index);
}

static bool make_table(struct big *big)
{
    size_t size = (size_t)TABLE_SIZE * sizeof *big->table;
    big->table = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (big->table == MAP_FAILED) {
        big->table = NULL;
        return false;
    }
    (void)madvise(big->table, size, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        uint64_t key = mix(i);
        size_t at = (size_t)mix(key) & (TABLE_SIZE - 1);
        while (big->table[at].key) {
            at = (at + 1) & (TABLE_SIZE - 1);
        }
        big->table[at] = (struct entry){key, i};
    }
    return true;
}

static void drop(struct big *big)
{
    mc_index_reader_destroy(big->reader);
    mc_index_destroy(big->index);
    if (big->table) {
        (void)munmap(big->table, (size_t)TABLE_SIZE * sizeof *big->table);
    }
}

/* ---- matching ---------------------------------------------------------- */

static uint64_t pick_chain(struct big *big, uint64_t *hashes)
{
    big->random = mix(big->random);
    uint64_t chain = big->random % CHAINS;
    for (uint64_t i = 0; i < DEPTH; i++) {
        hashes[i] = block_of(chain, i);
    }
    return DEPTH;
}

static uint64_t match_chain(void *ctx)
{
    struct big *big = ctx;
    uint64_t hashes[DEPTH];
    struct mc_index_place places[4];
    struct mc_index_worker workers[2];
    struct mc_index_match match = {.places = places,
                                   .place_capacity = 4,
                                   .workers = workers,
                                   .worker_capacity = 2};
    uint64_t count = pick_chain(big, hashes);
    mc_index_match(big->reader, mc_view_str("default"), hashes, count, &match);
    return match.store == count && match.place_count == 2 ? count : 0;
}

static uint64_t probe_chain(void *ctx)
{
    struct big *big = ctx;
    uint64_t hashes[DEPTH];
    uint64_t found = 0;
    uint64_t count = pick_chain(big, hashes);
    for (uint64_t first = 0; first < count; first += WINDOW) {
        size_t at[WINDOW];
        for (uint64_t i = 0; i < WINDOW; i++) {
            at[i] = (size_t)mix(hashes[first + i]) & (TABLE_SIZE - 1);
            __builtin_prefetch(&big->table[at[i]]);
        }
        for (uint64_t i = 0; i < WINDOW; i++) {
            while (big->table[at[i]].key &&
                   big->table[at[i]].key != hashes[first + i]) {
                at[i] = (at[i] + 1) & (TABLE_SIZE - 1);
            }
            found += big->table[at[i]].key != 0;
            bench_keep(&big->table[at[i]].value);
        }
    }
    return found == count ? count : 0;
}

static bool time_match(void *ctx, double seconds, double *value_out)
{
    return bench_time(match_chain, ctx, seconds, value_out);
}

static bool time_probe(void *ctx, double seconds, double *value_out)
{
    return bench_time(probe_chain, ctx, seconds, value_out);
}

static void run_match(struct bench *bench)
{
    struct big big = {.random = 1};
    if (make_index(&big) && make_table(&big)) {
        (void)bench_rounds(bench, time_match, time_probe, &big);
    } else {
        bench_fail(bench, "no index of ten million blocks could be made");
    }
    drop(&big);
}

static void run_memory(struct bench *bench)
{
    struct big big = {.random = 1};
    if (make_index(&big)) {
        struct mc_index_stats stats;
        mc_index_stats(big.index, &stats);
        double counted = (double)stats.bytes / (double)stats.nodes;
        double seen =
            (double)(resident_bytes() - big.memory) / (double)stats.nodes;
        bench_absolute(bench, counted > seen ? counted : seen);
        bench_note(bench,
                   "%llu blocks, %llu marks; counted %.1f, resident pages "
                   "%.1f",
                   (unsigned long long)stats.nodes,
                   (unsigned long long)stats.marks, counted, seen);
    } else {
        bench_fail(bench, "no index of ten million blocks could be made");
    }
    drop(&big);
}

static const struct bench_target targets[] = {
    {.id = "T19",
     .what = "prefix match per block, 10 M blocks / bare prefetched probe",
     .unit = "ns",
     .ours = "mckv",
     .peer = "probe",
     .better = BENCH_LOWER,
     .gate = 2.0,
     .goal = 1.3,
     .run = run_match},
    {.id = "T20b",
     .what = "index bytes per block, 10 M blocks",
     .unit = "B",
     .ours = "mckv",
     .better = BENCH_LOWER,
     .gate = 96,
     .goal = 64,
     .run = run_memory},
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
