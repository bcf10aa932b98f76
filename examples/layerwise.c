/* SPDX-License-Identifier: Apache-2.0 */
/* layerwise.c - a model's KV cache saved and loaded layer by layer: while a layer
 * is computed, the one before it is on its way.
 *
 * usage: layerwise save|load|pages MASTER
 *
 * save writes a small cache, tagged with a session; load, another process, reads
 * it and compares every byte. A block is one object, its layers one behind the
 * other; where an engine has it is a page of keys and one of values in each layer.
 * pages does the same by key, with pages that two keys share. Exits 1 if anything
 * differs. layerwise.sh starts a master, two nodes and these. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mc_client_sessions.h"

#define LAYERS 8
#define BLOCKS 16
#define HALF 32768 /* bytes of a block's keys, or values, in a layer */
#define PAGE (2 * HALF)
#define SESSION "agent-7"

static uint8_t cache[LAYERS][2][BLOCKS][HALF];
static uint8_t expected[2][BLOCKS][HALF]; /* of one layer */
static char names[BLOCKS][16];
static struct mc_view keys[BLOCKS];

static int fail(const char *what, int64_t code)
{
    fprintf(stderr, "layerwise: %s: %s (%" PRId64 ")\n", what,
            mc_err_text((enum mc_err)code), code);
    return 1;
}

/* Of a call on some keys, the first that was not answered as it should be. */
static int check(const char *what, enum mc_err err, const int64_t *results,
                 int count, int64_t wanted)
{
    if (err != MC_OK) {
        return fail(what, err);
    }
    for (int i = 0; i < count; i++) {
        if (results[i] != wanted) {
            char row[64];
            (void)snprintf(row, sizeof row, "key %d: %s", i, what);
            return fail(row, results[i]);
        }
    }
    return 0;
}

/* In place of a model: bytes that say whose they are. */
static void compute(int layer, uint8_t pages[2][BLOCKS][HALF])
{
    uint64_t random = UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(layer + 1);
    uint8_t *bytes = &pages[0][0][0];
    for (size_t at = 0; at < 2 * BLOCKS * HALF; at += sizeof random) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        memcpy(bytes + at, &random, sizeof random);
    }
}

/* A layer of every block: its keys, then its values. */
static void aim(int layer, struct mc_fragment pieces[BLOCKS][2],
                struct mc_fragments rows[BLOCKS])
{
    for (int block = 0; block < BLOCKS; block++) {
        for (int half = 0; half < 2; half++) {
            pieces[block][half] = (struct mc_fragment){
                .data = cache[layer][half][block],
                .offset = (uint64_t)layer * PAGE + (uint64_t)half * HALF,
                .len = HALF};
        }
        rows[block] = (struct mc_fragments){pieces[block], 2};
    }
}

static double now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void tell(const char *what, int layer, double begun_ms)
{
    double ms = now_ms() - begun_ms;
    printf("%s layer %d: %d blocks, %d bytes in %.3f ms, %.2f GB/s\n", what,
           layer, BLOCKS, BLOCKS * PAGE, ms, BLOCKS * PAGE / ms / 1e6);
}

/* ---- saving -------------------------------------------------------------- */

static int save_layers(struct mc_client *client,
                       struct mc_put_session *const *sessions)
{
    struct mc_fragment pieces[BLOCKS][2];
    struct mc_fragments rows[BLOCKS];
    int64_t results[BLOCKS];
    for (int layer = 0; layer < LAYERS; layer++) {
        compute(layer, cache[layer]);
        aim(layer, pieces, rows);
        double begun_ms = now_ms();
        enum mc_err err = mc_client_put_sessions_write(client, sessions, rows,
                                                       BLOCKS, 0, results);
        if (check("write", err, results, BLOCKS, PAGE)) {
            return 1;
        }
        tell("saved", layer, begun_ms);
    }
    return 0;
}

static int save(struct mc_client *client)
{
    struct mc_put_session *sessions[BLOCKS];
    struct mc_view tags[BLOCKS];
    uint64_t sizes[BLOCKS];
    int64_t results[BLOCKS];
    for (int block = 0; block < BLOCKS; block++) {
        tags[block] = mc_view_str(SESSION);
        sizes[block] = LAYERS * PAGE;
    }
    const struct mc_replicate_config config = {
        .complete = true, .session_ids = tags, .session_id_count = BLOCKS};
    enum mc_err err = mc_client_put_sessions_open(client, keys, sizes, &config,
                                                  BLOCKS, sessions, results);
    if (err != MC_OK) {
        return fail("open", err);
    }
    int code = check("open", err, results, BLOCKS, 0);
    if (code == 0) {
        code = save_layers(client, sessions);
    }
    if (code != 0) { /* no block without all the others, and no trace of any */
        err =
            mc_client_put_sessions_revoke(client, sessions, BLOCKS, 0, results);
        return err == MC_OK ? code : fail("revoke", err);
    }
    err = mc_client_put_sessions_end(client, sessions, BLOCKS, 0, results);
    return check("end", err, results, BLOCKS, 0);
}

/* ---- loading ------------------------------------------------------------- */

static int load_layers(struct mc_client *client,
                       struct mc_get_session *const *sessions)
{
    struct mc_fragment pieces[BLOCKS][2];
    struct mc_fragments rows[BLOCKS];
    int64_t results[BLOCKS];
    for (int layer = 0; layer < LAYERS; layer++) {
        aim(layer, pieces, rows);
        double begun_ms = now_ms();
        enum mc_err err = mc_client_get_sessions_read(client, sessions, rows,
                                                      BLOCKS, 0, results);
        if (check("read", err, results, BLOCKS, PAGE)) {
            return 1;
        }
        tell("loaded", layer, begun_ms);
        compute(layer, expected);
        if (memcmp(cache[layer], expected, sizeof expected) != 0) {
            fprintf(stderr, "layerwise: layer %d differs\n", layer);
            return 1;
        }
    }
    return 0;
}

/* Whose they are is told with them. */
static int check_tags(struct mc_client *client)
{
    struct mc_probe probes[BLOCKS];
    int64_t results[BLOCKS];
    enum mc_err err =
        mc_client_batch_probe(client, keys, BLOCKS, probes, results);
    int code = check("probe", err, results, BLOCKS, 0);
    for (int block = 0; block < BLOCKS && code == 0; block++) {
        struct mc_view tag =
            mc_view_make(probes[block].session, probes[block].session_len);
        if (!mc_view_equal(tag, mc_view_str(SESSION))) {
            fprintf(stderr, "layerwise: key %d: not of " SESSION "\n", block);
            code = 1;
        }
    }
    return code;
}

static int load(struct mc_client *client)
{
    struct mc_get_session *sessions[BLOCKS];
    int64_t results[BLOCKS];
    enum mc_err err =
        mc_client_get_sessions_open(client, keys, BLOCKS, sessions, results);
    int code = check("open", err, results, BLOCKS, 0);
    if (code == 0) {
        code = load_layers(client, sessions);
    }
    if (err == MC_OK) {
        mc_client_get_sessions_close(client, sessions, BLOCKS);
    }
    if (code == 0) {
        code = check_tags(client);
    }
    if (code == 0) {
        printf("all bytes as saved, %d blocks of session " SESSION "\n",
               BLOCKS);
    }
    return code;
}

/* ---- by key -------------------------------------------------------------- */

#define SHARED_PAGE 1024
#define SHARED_LAYERS 4
#define PAIR 2

static uint8_t source[SHARED_LAYERS][SHARED_PAGE];
static uint8_t target[SHARED_LAYERS][SHARED_PAGE];

typedef enum mc_err (*move_fn)(struct mc_client *client,
                               const struct mc_view *pair,
                               const struct mc_fragments *fragments,
                               size_t count, int64_t *results_out);

/* One page for both keys: each is written from it, or read into it. */
static int move_pages(struct mc_client *client, const struct mc_view *pair,
                      move_fn move, uint8_t (*pages)[SHARED_PAGE])
{
    int64_t results[PAIR];
    int code = 0;
    for (int layer = 0; layer < SHARED_LAYERS && code == 0; layer++) {
        const struct mc_fragment piece = {.data = pages[layer],
                                          .offset =
                                              (uint64_t)layer * SHARED_PAGE,
                                          .len = SHARED_PAGE};
        const struct mc_fragments rows[PAIR] = {{&piece, 1}, {&piece, 1}};
        enum mc_err err = move(client, pair, rows, PAIR, results);
        code = check("ranges", err, results, PAIR, SHARED_PAGE);
    }
    return code;
}

static int save_pages(struct mc_client *client, const struct mc_view *pair)
{
    const uint64_t sizes[PAIR] = {sizeof source, sizeof source};
    int64_t results[PAIR];
    for (int layer = 0; layer < SHARED_LAYERS; layer++) {
        memset(source[layer], layer + 1, SHARED_PAGE);
    }
    enum mc_err err = mc_client_batch_put_session_start(client, pair, sizes,
                                                        NULL, PAIR, results);
    int code = check("put session start", err, results, PAIR, 0);
    if (code == 0) {
        code = move_pages(client, pair,
                          mc_client_batch_put_from_multi_buffer_ranges, source);
    }
    if (code == 0) {
        err = mc_client_batch_put_session_end(client, pair, PAIR, results);
        code = check("put session end", err, results, PAIR, 0);
    }
    return code;
}

static int load_pages(struct mc_client *client, const struct mc_view *pair)
{
    int64_t results[PAIR];
    enum mc_err err =
        mc_client_batch_get_session_start(client, pair, PAIR, results);
    int code = check("get session start", err, results, PAIR, 0);
    if (code == 0) {
        code = move_pages(client, pair,
                          mc_client_batch_get_into_multi_buffer_ranges, target);
        err = mc_client_batch_get_session_end(client, pair, PAIR, results);
    }
    return code ? code : check("get session end", err, results, PAIR, 0);
}

static int pages(struct mc_client *client)
{
    const struct mc_view pair[PAIR] = {mc_view_str("block0"),
                                       mc_view_str("block1")};
    int code = save_pages(client, pair);
    if (code == 0) {
        code = load_pages(client, pair);
    }
    if (code == 0 && memcmp(source, target, sizeof source) != 0) {
        fprintf(stderr, "layerwise: pages differ\n");
        code = 1;
    }
    if (code == 0) {
        printf("by key: %d keys, %d layers of %d bytes as saved\n", PAIR,
               SHARED_LAYERS, SHARED_PAGE);
    }
    return code;
}

/* ---- roles --------------------------------------------------------------- */

static const struct role {
    const char *name;
    int (*run)(struct mc_client *client);
} roles[] = {{"save", save}, {"load", load}, {"pages", pages}};

/* What moves bytes has to know the memory. */
static enum mc_err register_all(struct mc_client *client)
{
    enum mc_err err = mc_client_register_buffer(client, cache, sizeof cache);
    if (err == MC_OK) {
        err = mc_client_register_buffer(client, source, sizeof source);
    }
    if (err == MC_OK) {
        err = mc_client_register_buffer(client, target, sizeof target);
    }
    return err;
}

int main(int argc, char **argv)
{
    const struct role *role = NULL;
    for (size_t i = 0; argc == 3 && i < sizeof roles / sizeof roles[0]; i++) {
        role = strcmp(argv[1], roles[i].name) == 0 ? &roles[i] : role;
    }
    if (!role) {
        fprintf(stderr, "usage: layerwise save|load|pages MASTER\n");
        return 2;
    }
    for (int block = 0; block < BLOCKS; block++) {
        (void)snprintf(names[block], sizeof names[block], "block-%02d", block);
        keys[block] = mc_view_str(names[block]);
    }
    const struct mc_client_opts opts = {.master = argv[2],
                                        .segment_bytes = MC_NONE};
    struct mc_client *client;
    enum mc_err err = mc_client_open(&opts, &client);
    if (err != MC_OK) {
        return fail("open", err);
    }
    err = register_all(client);
    int code = err == MC_OK ? role->run(client) : fail("register", err);
    mc_client_close(client);
    return code;
}
