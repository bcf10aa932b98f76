/* SPDX-License-Identifier: Apache-2.0 */
/* T20, T20d: what applying store events to the index costs.
 *
 * The events are those of a trace: each request stores its new blocks, tagged
 * with its session, and every other request is also told by an engine, which
 * grafts its new blocks below those it knew. Requests are cut at a depth. The
 * peer puts the same keys, as bytes, into a bare hash table that is as large
 * as it needs to be. Both sides begin with fresh memory each time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "mc_index.h"
#include "mci_hash.h"

#define KEY_LEN 67 /* 64 hex digits, "__k" */
#define TRACE_DEPTH 256
#define TURN 16 /* blocks a synthetic request adds */

struct request {
    size_t first; /* of its new blocks in the run's list */
    size_t count;
    uint64_t parent; /* the block before them */
    bool has_parent;
    bool is_told;
    char session[16];
};

struct events {
    struct request *requests;
    size_t request_count;
    uint64_t *hashes; /* of all stored blocks, in order */
    char (*keys)[KEY_LEN];
    size_t count;
    size_t cap;
};

/* ---- the events -------------------------------------------------------- */

static bool add_block(struct events *events, uint64_t id)
{
    if (events->count == events->cap) {
        size_t cap = events->cap ? events->cap * 2 : 65536;
        uint64_t *hashes =
            realloc(events->hashes, cap * sizeof *events->hashes);
        if (hashes) {
            events->hashes = hashes;
        }
        void *keys = realloc(events->keys, cap * sizeof *events->keys);
        if (keys) {
            events->keys = keys;
        }
        if (!hashes || !keys) {
            return false;
        }
        events->cap = cap;
    }
    uint64_t words[4];
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t seed[2] = {id, i};
        words[i] = mci_hash64(seed, sizeof seed);
    }
    char text[KEY_LEN + 1];
    (void)snprintf(text, sizeof text, "%016llx%016llx%016llx%016llx__k",
                   (unsigned long long)words[0], (unsigned long long)words[1],
                   (unsigned long long)words[2], (unsigned long long)words[3]);
    memcpy(events->keys[events->count], text, KEY_LEN);
    events->hashes[events->count++] = words[0];
    return true;
}

static struct request *add_request(struct events *events)
{
    size_t n = events->request_count;
    if ((n & (n - 1)) == 0) {
        size_t cap = n ? n * 2 : 1;
        void *requests =
            realloc(events->requests, cap * sizeof *events->requests);
        if (!requests) {
            return NULL;
        }
        events->requests = requests;
    }
    events->request_count++;
    struct request *request = &events->requests[n];
    memset(request, 0, sizeof *request);
    request->first = events->count;
    request->is_told = n % 2 == 0;
    return request;
}

static void drop_events(struct events *events)
{
    free(events->requests);
    free(events->hashes);
    free(events->keys);
    memset(events, 0, sizeof *events);
}

/* A line of the trace: {... "hash_ids":[..],"session_id":".."}. `known` says
 * which ids came before. */
static bool add_line(struct events *events, const char *line,
                     unsigned char *known, size_t known_max)
{
    const char *at = strstr(line, "\"hash_ids\":[");
    const char *session = strstr(line, "\"session_id\":\"");
    struct request *request = at && session ? add_request(events) : NULL;
    if (!request) {
        return false;
    }
    session += strlen("\"session_id\":\"");
    (void)snprintf(request->session, sizeof request->session, "%.*s",
                   (int)strcspn(session, "\""), session);
    at += strlen("\"hash_ids\":[");
    for (size_t depth = 0; *at != ']' && depth < TRACE_DEPTH; depth++) {
        char *end;
        size_t id = strtoul(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
        if (id >= known_max) {
            return false;
        }
        if (!known[id]) {
            known[id] = 1;
            request->count++;
            if (!add_block(events, id)) {
                return false;
            }
        } else if (request->count == 0) {
            uint64_t seed[2] = {id, 0};
            request->parent = mci_hash64(seed, sizeof seed);
            request->has_parent = true;
        }
    }
    return true;
}

static bool load_trace(struct events *events, const char *path)
{
    const size_t known_max = 1 << 22;
    FILE *file = fopen(path, "r");
    unsigned char *known = file ? calloc(1, known_max) : NULL;
    char *line = NULL;
    size_t cap = 0;
    bool is_good = known != NULL;
    while (is_good && getline(&line, &cap, file) > 0) {
        is_good = add_line(events, line, known, known_max);
    }
    free(line);
    free(known);
    if (file) {
        (void)fclose(file);
    }
    return is_good && events->count > 0;
}

/* Sessions that grow by turns down to a depth, one turn each in turn. */
static bool make_deep(struct events *events, size_t depth, size_t total)
{
    size_t sessions = total / depth;
    for (size_t turn = 0; turn * TURN < depth; turn++) {
        for (size_t s = 0; s < sessions; s++) {
            struct request *request = add_request(events);
            if (!request) {
                return false;
            }
            (void)snprintf(request->session, sizeof request->session, "s%zu",
                           s);
            request->is_told = (turn + s) % 2 == 0;
            request->has_parent = turn > 0;
            uint64_t seed[2] = {s << 32 | (turn * TURN - 1), 0};
            request->parent = mci_hash64(seed, sizeof seed);
            request->count = TURN;
            for (size_t i = 0; i < TURN; i++) {
                if (!add_block(events, s << 32 | (turn * TURN + i))) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* ---- our side ---------------------------------------------------------- */

static struct mc_index *make_index(void)
{
    struct mc_index_opts opts = {.block_bytes = 4096};
    struct mc_index *index = NULL;
    if (mc_key_layout_parse(mc_view_str("sglang:mla"), mc_view_str(""),
                            &opts.layout) != MC_OK ||
        mc_index_create(&opts, &index) != MC_OK) {
        return NULL;
    }
    return index;
}

static bool apply(struct mc_index *index, const struct events *events)
{
    const struct mc_view tenant = mc_view_str("default");
    const struct mc_view backend = mc_view_str("n1");
    const struct mc_view medium = mc_view_str("cpu");
    const struct mc_index_engine engine = {tenant, mc_view_str("w0"), 0};
    bool is_good = true;
    for (size_t r = 0; r < events->request_count; r++) {
        const struct request *request = &events->requests[r];
        struct mc_view session = mc_view_str(request->session);
        for (size_t i = 0; i < request->count; i++) {
            struct mc_view key =
                mc_view_make(events->keys[request->first + i], KEY_LEN);
            is_good &= mc_index_stored(index, tenant, backend, key, medium,
                                       session) == MC_INDEX_APPLIED;
        }
        if (request->is_told && request->count) {
            is_good &= mc_index_engine_stored(
                           index, &engine, MC_TIER_DEVICE,
                           request->has_parent ? &request->parent : NULL,
                           &events->hashes[request->first], request->count,
                           session) == MC_INDEX_APPLIED;
        }
    }
    return is_good;
}

static bool rate_index(void *ctx, double seconds, double *value_out)
{
    const struct events *events = ctx;
    double spent = 0;
    double done = 0;
    while (spent < seconds) {
        struct mc_index *index = make_index();
        double begin = bench_now();
        if (!index || !apply(index, events)) {
            mc_index_destroy(index);
            return false;
        }
        spent += bench_now() - begin;
        done += (double)events->count;
        mc_index_destroy(index);
    }
    *value_out = done / spent / 1e6;
    return true;
}

/* ---- the peer: a bare table of keys ------------------------------------ */

struct slot {
    uint64_t hash; /* 0: empty */
    char key[KEY_LEN];
};

static void insert(struct slot *slots, size_t mask, const char *key)
{
    uint64_t hash = mci_hash64(key, KEY_LEN) | 1;
    size_t at = (size_t)(hash >> 20) & mask;
    while (slots[at].hash) {
        if (slots[at].hash == hash &&
            memcmp(slots[at].key, key, KEY_LEN) == 0) {
            return;
        }
        at = (at + 1) & mask;
    }
    slots[at].hash = hash;
    memcpy(slots[at].key, key, KEY_LEN);
}

static bool rate_table(void *ctx, double seconds, double *value_out)
{
    const struct events *events = ctx;
    double spent = 0;
    double done = 0;
    size_t size = 1024;
    while (size * 3 / 4 < events->count) {
        size *= 2;
    }
    while (spent < seconds) {
        struct slot *slots = calloc(size, sizeof *slots);
        double begin = bench_now();
        for (size_t i = 0; slots && i < events->count; i++) {
            insert(slots, size - 1, events->keys[i]);
        }
        spent += bench_now() - begin;
        bench_keep(slots);
        done += slots ? (double)events->count : 0;
        free(slots);
    }
    *value_out = done / spent / 1e6;
    return done > 0;
}

/* ---- targets ----------------------------------------------------------- */

static void run_trace(struct bench *bench)
{
    static const char *const paths[] = {
        "../shared/data/traces/conversation.jsonl",
        "examples/data/conversation.jsonl"};
    struct events events = {0};
    const char *path = NULL;
    for (size_t i = 0; i < BENCH_COUNT(paths) && !path; i++) {
        drop_events(&events);
        path = load_trace(&events, paths[i]) ? paths[i] : NULL;
    }
    if (!path) {
        bench_fail(bench, "no trace: to be called at the top of the project");
    } else {
        bench_note(bench, "%zu blocks of %s", events.count, path);
        (void)bench_rounds(bench, rate_index, rate_table, &events);
    }
    drop_events(&events);
}

static void run_depth(struct bench *bench)
{
    const size_t total = 256000;
    struct events deep = {0};
    struct events flat = {0};
    if (make_deep(&deep, 2000, total) && make_deep(&flat, 256, total)) {
        struct bench_sides sides = {rate_index, &deep, rate_index, &flat};
        (void)bench_rounds_of(bench, &sides);
    } else {
        bench_fail(bench, "no memory");
    }
    drop_events(&deep);
    drop_events(&flat);
}

static const struct bench_target targets[] = {
    {.id = "T20",
     .what = "index apply, store events of a trace / bare table insert",
     .unit = "M/s",
     .ours = "mckv",
     .peer = "table",
     .better = BENCH_HIGHER,
     .gate = 0.4,
     .goal = 0.7,
     .run = run_trace},
    {.id = "T20d",
     .what = "index apply at depth 2000 / at depth 256",
     .unit = "M/s",
     .ours = "2000",
     .peer = "256",
     .better = BENCH_HIGHER,
     .gate = 0.5,
     .goal = 0.9,
     .run = run_depth},
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
