/* SPDX-License-Identifier: Apache-2.0 */
/* rows_embedded.c - the suite over a store inside this process: no bytes are on
 * their way anywhere, but every request can be late, lost or unheard. */
#include <check.h>
#include <stdlib.h>

#include "client.h"
#include "fault_link.h"
#include "rows_worlds.h"

struct world {
    struct mc_client *client;
    struct fault_link *link;
};

static void *open_world(const struct rows_store *store)
{
    const struct mc_client_opts opts = {
        .segment_bytes = store->bytes,
        .any_memory = true, /* of the other user */
        .store = {.default_kv_lease_ttl_ms = store->lease_ms,
                  .eviction_high_watermark = 1.0}};
    struct world *world = calloc(1, sizeof *world);
    ck_assert_ptr_nonnull(world);
    ck_assert_int_eq(mc_client_open(&opts, &world->client), MC_OK);
    world->link = fault_link_open(world->client);
    return world;
}

static void close_world(void *ctx)
{
    struct world *world = ctx;
    fault_link_lift(world->link);
    /* Its threads are outside of the link before the link goes. */
    mci_sessions_stop(&world->client->sessions);
    fault_link_close(world->link);
    mc_client_close(world->client);
    free(world);
}

static struct mc_client *client_of(void *ctx)
{
    return ((struct world *)ctx)->client;
}

static enum mc_err open_driver(void *ctx, const struct mc_row_driver_opts *opts,
                               struct mc_row_driver **driver_out)
{
    return mc_row_driver_open(client_of(ctx), opts, driver_out);
}

static enum mc_err put(void *ctx, struct mc_view key, const void *data,
                       size_t len)
{
    return mc_client_put(client_of(ctx), key, data, len, NULL);
}

static int64_t get(void *ctx, struct mc_view key, void *data, size_t capacity)
{
    return rows_client_get(client_of(ctx), key, data, capacity);
}

static enum mc_err remove_key(void *ctx, struct mc_view key)
{
    return mc_client_remove(client_of(ctx), key, true);
}

static void *begin_write(void *ctx, struct mc_view key, size_t len)
{
    return rows_client_write(client_of(ctx), key, len);
}

static void finish_write(void *ctx, void *writing, const void *data)
{
    rows_client_finish(client_of(ctx), writing, data);
}

static bool fault(void *ctx, enum rows_step step, enum rows_fault what,
                  unsigned count)
{
    static const enum fault_what whats[] = {[ROWS_HOLD] = FAULT_HOLD,
                                            [ROWS_LOSE] = FAULT_LOSE,
                                            [ROWS_LOSE_ANSWER] =
                                                FAULT_LOSE_ANSWER};
    if (step == ROWS_BYTES || what > ROWS_LOSE_ANSWER) {
        return false;
    }
    fault_link_rule(((struct world *)ctx)->link, rows_op_of(step), whats[what],
                    count);
    return true;
}

static bool is_hit(void *ctx)
{
    return fault_link_hits(((struct world *)ctx)->link) > 0;
}

static void lift(void *ctx)
{
    fault_link_lift(((struct world *)ctx)->link);
}

/* Nobody can be told that a call within this process is over. */
static bool is_deaf(void *ctx, enum rows_step step)
{
    (void)ctx, (void)step;
    return true;
}

static bool strike(void *ctx, enum rows_blow blow)
{
    (void)ctx, (void)blow;
    return false;
}

static uint64_t requests(void *ctx)
{
    return fault_link_calls(((struct world *)ctx)->link);
}

const struct rows_harness rows_embedded = {.name = "embedded",
                                           .open = open_world,
                                           .close = close_world,
                                           .driver = open_driver,
                                           .put = put,
                                           .get = get,
                                           .remove = remove_key,
                                           .write = begin_write,
                                           .finish = finish_write,
                                           .fault = fault,
                                           .is_hit = is_hit,
                                           .lift = lift,
                                           .is_deaf = is_deaf,
                                           .strike = strike,
                                           .requests = requests};
