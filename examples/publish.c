/* SPDX-License-Identifier: Apache-2.0 */
/* publish.c - stores blocks tagged with the session that wrote them; the store
 * publishes what became readable and what ceased to be.
 *
 * usage: publish [ENDPOINT [SUBSCRIBERS]]
 *
 * Waits until so many subscribers (1) have come, then writes. An endpoint that
 * ends in :0 takes a free port; the first line of output says which. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mc_client.h"

#define BLOCKS 4
#define BLOCK_BYTES 4096

static int fail(const char *what, enum mc_err err)
{
    fprintf(stderr, "publish: %s: %s (%d)\n", what, mc_err_text(err), err);
    return 1;
}

/* A key as an engine would build it: the hash of the block in 64 hex digits. */
static struct mc_view block_key(char *text, size_t capacity, unsigned session,
                                unsigned block)
{
    int len = snprintf(text, capacity, "%08x%08x%048x__k", session, block, 0);
    return mc_view_make(text, (size_t)len);
}

/* True once so many subscribers are there; false after 30 s. */
static bool wait_for(struct mc_client *client, uint64_t subscribers)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    struct mc_client_stats stats;
    for (int i = 0; i < 3000; i++) {
        mc_client_stat(client, &stats);
        if (stats.events.subscribers >= subscribers) {
            return true;
        }
        nanosleep(&pause, NULL);
    }
    return false;
}

/* One session's blocks, each put tagged with it. */
static enum mc_err put_session(struct mc_client *client, unsigned session)
{
    static const char bytes[BLOCK_BYTES];
    char name[32];
    char text[80];
    int len = snprintf(name, sizeof name, "agent-%u", session);
    const struct mc_view tag = mc_view_make(name, (size_t)len);
    const struct mc_replicate_config config = {.session_ids = &tag,
                                               .session_id_count = 1};
    for (unsigned block = 0; block < BLOCKS; block++) {
        enum mc_err err =
            mc_client_put(client, block_key(text, sizeof text, session, block),
                          bytes, sizeof bytes, &config);
        if (err != MC_OK) {
            return err;
        }
    }
    return MC_OK;
}

int main(int argc, char **argv)
{
    struct mc_client *client;
    struct mc_client_stats stats;
    struct mc_probe probe;
    char text[80];
    const struct mc_client_opts opts = {
        .events = {.bind_endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5557",
                   .backend_id = "n1"}};
    enum mc_err err = mc_client_open(&opts, &client);
    if (err != MC_OK) {
        return fail("open", err);
    }
    mc_client_stat(client, &stats);
    printf("publishing on %s\n", stats.events.endpoint);
    fflush(stdout);
    if (!wait_for(client, argc > 2 ? strtoull(argv[2], NULL, 10) : 1)) {
        mc_client_close(client);
        return fail("wait for subscribers", MC_ERR_RPC_TIMEOUT);
    }
    for (unsigned session = 1; session <= 2 && err == MC_OK; session++) {
        err = put_session(client, session);
    }
    struct mc_view key = block_key(text, sizeof text, 2, 1);
    if (err == MC_OK) {
        err = mc_client_probe(client, key, &probe);
    }
    if (err == MC_OK) {
        printf("%s: %" PRIu64 " bytes, session %.*s\n", text, probe.size,
               (int)probe.session_len, probe.session);
        err = mc_client_remove(client, key, false);
    }
    printf("last event %" PRIu64 "\n", mc_client_last_event_id(client));
    mc_client_close(client); /* sends what is queued */
    return err == MC_OK ? 0 : fail("write", err);
}
