/* SPDX-License-Identifier: Apache-2.0 */
#include "index_play.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index_check.h"
#include "index_rig.h"

void must_at(bool holds, const char *what, int line)
{
    if (!holds) {
        (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, line, what);
        abort();
    }
}

static struct mc_view text(const char *s)
{
    return mc_view_str(s);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The chain of a block, root first. */
static size_t chain_of(uint64_t block, uint64_t *out)
{
    size_t len = 1;
    for (uint64_t b = block; b; b = (b - 1) / 2) {
        len++;
    }
    size_t at = len;
    for (uint64_t b = block;; b = (b - 1) / 2) {
        out[--at] = b;
        if (!b) {
            return len;
        }
    }
}

static void store_block(struct mc_index *index, const char *backend,
                        uint64_t block, const char *session)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)block);
    (void)mc_index_stored(index, text("default"), text(backend), text(key),
                          text("cpu"), text(session));
}

static void remove_block(struct mc_index *index, const char *backend,
                         uint64_t block)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)block);
    (void)mc_index_removed(index, text("default"), text(backend), text(key),
                           text("cpu"));
}

/* One change of the stream; it never touches what the store "steady" holds nor
 * the session "steady". */
void play_change(struct mc_index *index, uint64_t *random)
{
    uint64_t block = next_random(random) % PLAY_BLOCKS;
    uint64_t chain[PLAY_DEPTH + 2];
    size_t len = chain_of(block, chain);
    size_t from = next_random(random) % len;
    char session[16];
    char worker[16];
    (void)snprintf(session, sizeof session, "s%u",
                   (unsigned)(next_random(random) % 40));
    (void)snprintf(worker, sizeof worker, "w%u",
                   (unsigned)(next_random(random) % 8));
    const struct mc_index_engine engine = {text("default"), text(worker), 0};
    switch (next_random(random) % 16) {
    case 0:
    case 1:
    case 2:
        store_block(index, "other", block, session);
        break;
    case 3:
        remove_block(index, "other", block);
        break;
    case 4:
        mc_index_engine_cleared(index, &engine);
        break;
    case 5:
        mc_index_session_end(index, text("default"), text(session));
        break;
    case 6:
        mc_index_source_lost(index, text("other"));
        break;
    case 7:
        mc_index_engine_removed(index, &engine, MC_TIER_HOST, chain, len);
        break;
    case 8:
        (void)mc_index_observe(index, text("default"), text(session), chain,
                               len);
        break;
    case 9:
        store_block(index, "steady", PLAY_STEADY, "");
        break;
    default:
        (void)mc_index_engine_stored(index, &engine, MC_TIER_HOST,
                                     from ? &chain[from - 1] : NULL,
                                     chain + from, len - from, text(session));
    }
}

static void ask_steady(struct mc_index_reader *reader)
{
    uint64_t chain[PLAY_DEPTH + 2];
    uint64_t got[PLAY_DEPTH + 2];
    size_t len = chain_of(PLAY_STEADY, chain);
    struct mc_index_place places[64];
    struct mc_index_worker workers[16];
    struct mc_index_match match = {.places = places,
                                   .place_capacity = 64,
                                   .workers = workers,
                                   .worker_capacity = 16};
    mc_index_match(reader, text("default"), chain, len, &match);
    must(match.store == len);
    bool is_found = false;
    for (size_t i = 0; i < match.place_count; i++) {
        if (mc_view_equal(places[i].owner, text("store:steady"))) {
            must(places[i].blocks == len);
            is_found = true;
        }
    }
    must(is_found);
    for (size_t i = 0; i < match.worker_count; i++) {
        must(workers[i].own >= 1);
        must(workers[i].with_store == len);
    }
    bool is_rooted = false;
    must((mc_index_chain(reader, text("default"), PLAY_STEADY, got,
                         PLAY_DEPTH + 2, &is_rooted)) == (len));
    must(is_rooted);
    must(memcmp(got, chain, len * sizeof *chain) == 0);
    must((mc_index_heads(reader, text("default"), text("steady"), got,
                         PLAY_DEPTH + 2)) == (1));
    must(got[0] == PLAY_STEADY);
}

static void ask_sessions(struct mc_index_reader *reader, uint64_t *random)
{
    uint64_t chain[PLAY_DEPTH + 2];
    size_t len = chain_of(PLAY_STEADY, chain);
    struct mc_view names[64];
    size_t count = mc_index_sessions_of(
        reader, text("default"), chain[next_random(random) % len], names, 64);
    bool is_found = false;
    for (size_t i = 0; i < count; i++) {
        is_found |= mc_view_equal(names[i], text("steady"));
    }
    must(is_found);
    struct mc_index_place places[64];
    uint64_t blocks = 0;
    count = mc_index_resident(reader, text("default"), text("steady"), places,
                              64, &blocks);
    must(blocks == len);
    is_found = false;
    for (size_t i = 0; i < count; i++) {
        if (mc_view_equal(places[i].owner, text("store:steady"))) {
            must(places[i].blocks == len);
            must(places[i].prefix == len);
            is_found = true;
        }
    }
    must(is_found);
}

static bool count_row(void *ctx, const struct mc_index_session *row)
{
    must(mc_view_equal(row->tenant, text("default")));
    must((row->session.len) >= (2));
    *(size_t *)ctx += mc_view_equal(row->session, text("steady"));
    return true;
}

/* Whatever is answered of the rest is a part of the tree. */
static void ask_any(struct mc_index_reader *reader, uint64_t *random)
{
    uint64_t got[PLAY_DEPTH + 2];
    uint64_t block = next_random(random) % PLAY_BLOCKS;
    size_t len = mc_index_chain(reader, text("default"), block, got,
                                PLAY_DEPTH + 2, NULL);
    must((len) <= (PLAY_DEPTH + 1));
    for (size_t i = len; i-- > 0; block = (block - 1) / 2) {
        must(got[i] == block);
    }
    char session[16];
    (void)snprintf(session, sizeof session, "s%u",
                   (unsigned)(next_random(random) % 10)); /* asking touches */
    uint64_t heads[64];
    size_t count =
        mc_index_heads(reader, text("default"), text(session), heads, 64);
    for (size_t i = 0; i < count && i < 64; i++) {
        must(heads[i] < PLAY_BLOCKS);
        must(i == 0 || heads[i - 1] < heads[i]);
    }
    struct mc_index_place places[64];
    uint64_t blocks = 0;
    count = mc_index_resident(reader, text("default"), text(session), places,
                              64, &blocks);
    for (size_t i = 0; i < count && i < 64; i++) {
        must((places[i].prefix) <= (PLAY_DEPTH + 1));
        must(places[i].blocks <= blocks);
    }
    size_t steady = 0;
    must((mc_index_sessions(reader, text("default"), count_row, &steady)) ==
         (MC_OK));
    must(steady == 1);
    struct mc_index_tenant tenants[2];
    must((mc_index_tenants(reader, tenants, 2)) == (1));
}

static void *read_loop(void *ctx)
{
    struct play_reader *self = ctx;
    struct play *play = self->play;
    struct mc_index_reader *reader = NULL;
    must((mc_index_reader_create(play->index, &reader)) == (MC_OK));
    uint64_t random = 88172645463325252u + (uintptr_t)&reader;
    while (!atomic_load(&play->is_over)) {
        ask_steady(reader);
        ask_sessions(reader, &random);
        ask_any(reader, &random);
        atomic_fetch_add(&self->turns, 1);
    }
    mc_index_reader_destroy(reader);
    return NULL;
}

void play_begin(struct play *play, const struct mc_index_opts *bounds)
{
    memset(play, 0, sizeof *play);
    play->index = rig_index("u64", bounds);
    play->steady_len = chain_of(PLAY_STEADY, play->steady);
    play_touch(play);
    for (size_t i = 0; i < play->steady_len; i++) {
        store_block(play->index, "steady", play->steady[i], "");
    }
    for (int i = 0; i < PLAY_READERS; i++) {
        struct play_reader *reader = &play->readers[i];
        reader->play = play;
        ck_assert_int_eq(
            pthread_create(&reader->thread, NULL, read_loop, reader), 0);
    }
}

uint64_t play_turns(struct play *play)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < PLAY_READERS; i++) {
        uint64_t turns = atomic_load(&play->readers[i].turns);
        least = turns < least ? turns : least;
    }
    return least;
}

void play_touch(struct play *play)
{
    enum mc_index_result result =
        mc_index_observe(play->index, text("default"), text("steady"),
                         play->steady, play->steady_len);
    must(result == MC_INDEX_APPLIED || result == MC_INDEX_FULL);
}

void play_end(struct play *play)
{
    atomic_store(&play->is_over, true);
    for (int i = 0; i < PLAY_READERS; i++) {
        (void)pthread_join(play->readers[i].thread, NULL);
    }
    index_check(play->index);
    mc_index_destroy(play->index);
}
