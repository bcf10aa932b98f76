/* SPDX-License-Identifier: Apache-2.0 */
/* ask_index.c - what a request router does: follows a store with an index, and
 * asks how much of a session's prefix waits in the shared cache.
 *
 * usage: ask_index [ENDPOINT [COUNT]]
 *
 * Follows COUNT (9) events about keys, then asks for the two sessions that
 * publish.c writes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mc_index.h"
#include "mc_subscriber.h"

#define BLOCKS 4
#define SILENCE_MS 30000

static void count_keys(void *ctx, const struct mc_delivery *delivery)
{
    uint64_t *seen = ctx;
    *seen += delivery->event->type != MC_EVENT_CLEARED;
}

static bool print_session(void *ctx, const struct mc_index_session *row)
{
    (void)ctx;
    printf("%.*s: %" PRIu64 " blocks in its lineage, %" PRIu64 " heads\n",
           (int)row->session.len, (const char *)row->session.data, row->blocks,
           row->heads);
    return true;
}

/* The router knows the chain of its request: the first 64 bits of each block's
 * hash, from the first block on. */
static void ask(struct mc_index *index, struct mc_index_reader *reader,
                unsigned session)
{
    const struct mc_view tenant = mc_view_str("default");
    uint64_t chain[BLOCKS];
    char name[32];
    snprintf(name, sizeof name, "agent-%u", session);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        chain[block] = (uint64_t)session << 32 | block;
    }
    if (mc_index_observe(index, tenant, mc_view_str(name), chain, BLOCKS) !=
        MC_INDEX_APPLIED) {
        printf("%s: chain refused\n", name);
    }
    struct mc_index_match match = {0};
    mc_index_match(reader, tenant, chain, BLOCKS, &match);
    struct mc_index_place places[4];
    uint64_t blocks;
    size_t count = mc_index_resident(reader, tenant, mc_view_str(name), places,
                                     4, &blocks);
    printf("%s: %" PRIu64 " of %d leading blocks wait in the store\n", name,
           match.store, BLOCKS);
    for (size_t i = 0; i < count && i < 4; i++) {
        printf("  %.*s %s: %" PRIu64 " of %" PRIu64 " blocks\n",
               (int)places[i].owner.len, (const char *)places[i].owner.data,
               mc_tier_name(places[i].tier), places[i].blocks, blocks);
    }
}

static enum mc_err follow(const char *endpoint, uint64_t wanted,
                          struct mc_index *index)
{
    uint64_t seen = 0;
    const struct mc_source_opts source = {.endpoint = endpoint};
    const struct mc_subscriber_opts opts = {.sources = &source,
                                            .source_count = 1,
                                            .index = index,
                                            .on_event = count_keys,
                                            .ctx = &seen};
    struct mc_subscriber *subscriber = NULL;
    enum mc_err err = mc_subscriber_open(&opts, &subscriber);
    while (err == MC_OK && seen < wanted) {
        size_t handled;
        err = mc_subscriber_poll(subscriber, SILENCE_MS, 0, &handled);
        if (err == MC_OK && handled == 0) {
            err = MC_ERR_RPC_TIMEOUT;
        }
    }
    mc_subscriber_close(subscriber);
    return err;
}

int main(int argc, char **argv)
{
    struct mc_index_opts opts = {0};
    struct mc_index *index = NULL;
    struct mc_index_reader *reader = NULL;
    enum mc_err err = mc_key_layout_parse(mc_view_str("sglang:mla"),
                                          mc_view_str(NULL), &opts.layout);
    if (err == MC_OK) {
        err = mc_index_create(&opts, &index);
    }
    if (err == MC_OK) {
        err = mc_index_reader_create(index, &reader);
    }
    if (err == MC_OK) {
        err = follow(argc > 1 ? argv[1] : "tcp://127.0.0.1:5557",
                     argc > 2 ? strtoull(argv[2], NULL, 10) : 9, index);
    }
    if (err == MC_OK) {
        ask(index, reader, 1);
        ask(index, reader, 2);
        err = mc_index_sessions(reader, mc_view_str("default"), print_session,
                                NULL);
    }
    if (err != MC_OK) {
        fprintf(stderr, "ask_index: %s (%d)\n", mc_err_text(err), err);
    }
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
    return err == MC_OK ? 0 : 1;
}
