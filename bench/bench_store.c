/* SPDX-License-Identifier: Apache-2.0 */
/* T17, T21: what the store's memory costs. Both are counted by mci_alloc, which
 * sees what the C library hands out, rounding included.
 *
 * T17 puts a tagged batch of keys that exist already, so what is allocated is the
 * splitting alone; the entries of objects do not count. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "mc_client.h"
#include "mci_alloc.h"

#define VALUE_LEN 64
#define KEY_MAX 80
#define TAG_LEN 36

/* The names of a batch. */
struct names {
    char (*keys)[KEY_MAX];
    char (*tags)[KEY_MAX];
    struct mc_view *key_views;
    struct mc_view *tag_views;
    struct mc_view *values;
    int64_t *results;
};

static struct mc_view make_key(char *text, uint64_t number)
{
    int len = snprintf(text, KEY_MAX, "%064jx__k", (uintmax_t)number);
    return mc_view_make(text, (size_t)len);
}

static struct mc_view make_tag(char *text, uint64_t number)
{
    int len = snprintf(text, KEY_MAX, "session-%028ju", (uintmax_t)number);
    return mc_view_make(text, (size_t)len);
}

static bool make_names(struct names *names, size_t count)
{
    static const char value[VALUE_LEN] = {1};
    names->keys = calloc(count, sizeof *names->keys);
    names->tags = calloc(count, sizeof *names->tags);
    names->key_views = calloc(count, sizeof *names->key_views);
    names->tag_views = calloc(count, sizeof *names->tag_views);
    names->values = calloc(count, sizeof *names->values);
    names->results = calloc(count, sizeof *names->results);
    if (!names->keys || !names->tags || !names->key_views ||
        !names->tag_views || !names->values || !names->results) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        names->key_views[i] = make_key(names->keys[i], i);
        names->tag_views[i] = make_tag(names->tags[i], i / 16);
        names->values[i] = mc_view_make(value, sizeof value);
    }
    return true;
}

static void free_names(struct names *names)
{
    free(names->keys);
    free(names->tags);
    free(names->key_views);
    free(names->tag_views);
    free(names->values);
    free(names->results);
}

static struct mc_client *open_store(uint64_t bytes)
{
    const struct mc_client_opts opts = {.segment_bytes = bytes,
                                        .no_prefault = true,
                                        .store.eviction_high_watermark = 1.0};
    struct mc_client *client = NULL;
    return mc_client_open(&opts, &client) == MC_OK ? client : NULL;
}

/* ---- T17 ---------------------------------------------------------------- */

static bool put_all(struct mc_client *client, struct names *names, size_t count)
{
    const struct mc_replicate_config config = {.session_ids = names->tag_views,
                                               .session_id_count = count};
    if (mc_client_batch_put(client, names->key_views, names->values, count,
                            &config, names->results) != MC_OK) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (names->results[i] != MC_OK) {
            return false;
        }
    }
    return true;
}

/* Bytes allocated for splitting, per key. */
static bool split_bytes(size_t count, double *bytes_out)
{
    struct names names = {0};
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    struct mc_client *client = open_store(count * VALUE_LEN * 2);
    bool is_done =
        client && make_names(&names, count) && put_all(client, &names, count);
    if (is_done) {
        mci_alloc_stats(&before);
        is_done = put_all(client, &names, count);
        mci_alloc_stats(&after);
        *bytes_out = (double)(after.allocated_bytes - before.allocated_bytes) /
                     (double)count;
    }
    free_names(&names);
    mc_client_close(client);
    return is_done;
}

static void run_t17(struct bench *bench)
{
    double large = 0;
    double small = 0;
    if (!split_bytes(4096, &large) || !split_bytes(1024, &small)) {
        bench_fail(bench, "a batch was refused");
        return;
    }
    bench_ratio(bench, large, small);
    bench_require(bench, large <= 64 && small <= 64, "at most 64 B a key");
}

/* ---- T21 ---------------------------------------------------------------- */

#define OBJECTS 1000000

static bool put_objects(struct mc_client *client, uint64_t *text_bytes)
{
    static const char value[VALUE_LEN] = {1};
    for (uint64_t i = 0; i < OBJECTS; i++) {
        char key_text[KEY_MAX];
        char tag_text[KEY_MAX];
        struct mc_view key = make_key(key_text, i);
        struct mc_view tag = make_tag(tag_text, i / 16);
        const struct mc_replicate_config config = {.session_ids = &tag,
                                                   .session_id_count = 1};
        if (mc_client_put(client, key, value, sizeof value, &config) != MC_OK) {
            return false;
        }
        *text_bytes += key.len + tag.len;
    }
    return true;
}

static void run_t21(struct bench *bench)
{
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    uint64_t text_bytes = 0;
    struct mc_client *client =
        open_store(OBJECTS * (uint64_t)VALUE_LEN + (1 << 20));
    mci_alloc_stats(&before);
    double begin = bench_now();
    if (!client || !put_objects(client, &text_bytes)) {
        bench_fail(bench, "a put was refused");
        mc_client_close(client);
        return;
    }
    double seconds = bench_now() - begin;
    mci_alloc_stats(&after);
    double bytes = (double)(after.bytes - before.bytes) - (double)text_bytes;
    bench_absolute(bench, bytes / OBJECTS);
    bench_note(bench, "%.0f puts/s", OBJECTS / seconds);
    mc_client_close(client);
}

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "T17",
         .what = "splitting a tagged batch of 4096 / of 1024",
         .unit = "B/key",
         .ours = "4096 keys",
         .peer = "1024 keys",
         .better = BENCH_LOWER,
         .gate = 1.01,
         .goal = 1.00,
         .run = run_t17},
        {.id = "T21",
         .what = "memory of an object beyond key and tag, 1 M puts",
         .unit = "B",
         .ours = "mckv",
         .better = BENCH_LOWER,
         .gate = 200,
         .goal = 128,
         .run = run_t21},
    };
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
