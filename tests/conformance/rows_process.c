/* SPDX-License-Identifier: Apache-2.0 */
/* rows_process.c - the suite over a master behind a socket and a node that lends
 * memory, in a process of its own, with bad networks before both. */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "await.h"
#include "copy.h"
#include "ctl_proxy.h"
#include "data_proxy.h"
#include "process_rig.h"
#include "rows_worlds.h"
#include "self_process.h"

struct world {
    const char *transport;
    struct process_rig process;
    bool has_master;
    struct ctl_proxy *control; /* between the driver's client and the master */
    struct data_proxy *bytes;  /* between clients and the node; tcp only */
    pid_t node;                /* 0: none */
    struct mc_client *client;  /* the driver's */
    struct mc_client *other;
    int rules[ROWS_STEP_COUNT]; /* of control */
    size_t rule_count;
    bool holds_bytes;
};

/* ---- bytes by shared memory ------------------------------------------------- */

/* Copies are made in this process: the hook is called before each piece. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t lifted;
    bool is_held;
    unsigned hits;
} copies = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .lifted = PTHREAD_COND_INITIALIZER};

static void hold_copy(const struct mc_transfer_row *row)
{
    (void)row;
    (void)pthread_mutex_lock(&copies.lock);
    copies.hits += copies.is_held;
    while (copies.is_held) {
        (void)pthread_cond_wait(&copies.lifted, &copies.lock);
    }
    (void)pthread_mutex_unlock(&copies.lock);
}

static void hold_copies(bool is_held)
{
    (void)pthread_mutex_lock(&copies.lock);
    copies.is_held = is_held;
    if (is_held) {
        copies.hits = 0;
    }
    (void)pthread_cond_broadcast(&copies.lifted);
    (void)pthread_mutex_unlock(&copies.lock);
}

static bool copy_is_held(void)
{
    (void)pthread_mutex_lock(&copies.lock);
    bool is_held = copies.hits > 0;
    (void)pthread_mutex_unlock(&copies.lock);
    return is_held;
}

/* ---- a node --------------------------------------------------------------------- */

int rows_play_node(char **args)
{
    const struct mc_client_opts opts = {
        .master = args[0],
        .local_hostname = args[1][0] != '\0' ? args[1] : NULL,
        .segment_bytes = strtoull(args[2], NULL, 10)};
    return self_lend(&opts);
}

static uint64_t segments(struct world *world)
{
    struct mc_client_stats stats;
    mc_client_stat(world->other, &stats);
    return stats.segments;
}

static void spawn_node(struct world *world, uint64_t bytes)
{
    char how[] = "--node";
    char host[32] = "";
    char size[32];
    char *args[] = {how, how, world->process.address, host, size, NULL};
    if (world->bytes) {
        (void)snprintf(host, sizeof host, "127.0.0.1:%u",
                       (unsigned)data_proxy_port(world->bytes));
        ck_assert_int_eq(setenv("MC_TCP_BIND_ADDRESS", DATA_PROXY_BIND, 1), 0);
    }
    (void)snprintf(size, sizeof size, "%ju", (uintmax_t)bytes);
    world->node = self_spawn(args);
    ck_assert_int_eq(unsetenv("MC_TCP_BIND_ADDRESS"), 0);
    ck_assert(AWAIT(segments(world) == 1));
}

static void end_node(struct world *world)
{
    if (world->node > 0) {
        self_kill(world->node);
        world->node = 0;
    }
}

/* ---- life ------------------------------------------------------------------------ */

static struct mc_client *join(struct world *world, uint16_t port)
{
    char address[32];
    struct mc_client *client = NULL;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)port);
    const struct mc_client_opts opts = {.master = address,
                                        .segment_bytes = MC_NONE,
                                        .any_memory = true,
                                        .transport = world->transport};
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

static void *open_by(const char *transport, const struct rows_store *store)
{
    const struct process_rig_opts opts = {
        .store = {.default_kv_lease_ttl_ms = store->lease_ms,
                  .eviction_high_watermark = 1.0}};
    struct world *world = calloc(1, sizeof *world);
    ck_assert_ptr_nonnull(world);
    world->transport = transport;
    process_open(&world->process, &opts);
    world->has_master = true;
    ck_assert_int_eq(mci_event_log_attach(world->process.log), MC_OK);
    world->control = ctl_proxy_open(world->process.port);
    if (strcmp(transport, "tcp") == 0) {
        world->bytes = data_proxy_open();
    }
    world->other = join(world, world->process.port);
    spawn_node(world, store->bytes);
    world->client = join(world, ctl_proxy_port(world->control));
    mci_copy_set_hook(world->bytes ? NULL : hold_copy);
    return world;
}

static void end_master(struct world *world)
{
    if (world->has_master) {
        mci_event_log_detach(world->process.log);
        process_close(&world->process);
        world->has_master = false;
    }
}

static void lift(void *ctx)
{
    struct world *world = ctx;
    for (size_t i = 0; i < world->rule_count; i++) {
        ctl_proxy_lift(world->control, world->rules[i]);
        ctl_proxy_release(world->control, world->rules[i]);
    }
    world->rule_count = 0;
    if (world->holds_bytes && world->bytes) {
        data_proxy_release(world->bytes, DATA_FROM_OWNER);
        data_proxy_release(world->bytes, DATA_TO_OWNER);
    }
    hold_copies(false);
    world->holds_bytes = false;
}

static void close_world(void *ctx)
{
    struct world *world = ctx;
    lift(world);
    mc_client_close(world->client);
    mc_client_close(world->other);
    end_node(world);
    end_master(world);
    ctl_proxy_close(world->control);
    data_proxy_close(world->bytes);
    mci_copy_set_hook(NULL);
    free(world);
}

static void *open_tcp(const struct rows_store *store)
{
    return open_by("tcp", store);
}

static void *open_shm(const struct rows_store *store)
{
    return open_by("shm", store);
}

static enum mc_err open_driver(void *ctx, const struct mc_row_driver_opts *opts,
                               struct mc_row_driver **driver_out)
{
    return mc_row_driver_open(((struct world *)ctx)->client, opts, driver_out);
}

/* ---- the other user --------------------------------------------------------------- */

static struct mc_client *other_of(void *ctx)
{
    return ((struct world *)ctx)->other;
}

static enum mc_err put(void *ctx, struct mc_view key, const void *data,
                       size_t len)
{
    return mc_client_put(other_of(ctx), key, data, len, NULL);
}

static int64_t get(void *ctx, struct mc_view key, void *data, size_t capacity)
{
    return rows_client_get(other_of(ctx), key, data, capacity);
}

static enum mc_err remove_key(void *ctx, struct mc_view key)
{
    return mc_client_remove(other_of(ctx), key, true);
}

static void *begin_write(void *ctx, struct mc_view key, size_t len)
{
    return rows_client_write(other_of(ctx), key, len);
}

static void finish_write(void *ctx, void *writing, const void *data)
{
    rows_client_finish(other_of(ctx), writing, data);
}

/* ---- faults ------------------------------------------------------------------------ */

static bool fault_bytes(struct world *world, enum rows_fault what)
{
    if (what != ROWS_HOLD) {
        return false;
    }
    world->holds_bytes = true;
    if (world->bytes) {
        data_proxy_hold(world->bytes, DATA_FROM_OWNER, 0);
        data_proxy_hold(world->bytes, DATA_TO_OWNER, 0);
    } else {
        hold_copies(true);
    }
    return true;
}

static bool fault(void *ctx, enum rows_step step, enum rows_fault what,
                  unsigned count)
{
    static const struct {
        enum ctl_way way;
        enum ctl_what what;
    } rules[ROWS_FAULT_COUNT] = {[ROWS_HOLD] = {CTL_REQUEST, CTL_HOLD},
                                 [ROWS_LOSE] = {CTL_REQUEST, CTL_DROP},
                                 [ROWS_LOSE_ANSWER] = {CTL_ANSWER, CTL_DROP},
                                 [ROWS_REPEAT] = {CTL_REQUEST, CTL_REPEAT},
                                 [ROWS_CUT] = {CTL_REQUEST, CTL_CUT_AFTER}};
    struct world *world = ctx;
    if (step == ROWS_BYTES) {
        return fault_bytes(world, what);
    }
    const struct ctl_rule rule = {.way = rules[what].way,
                                  .op = rows_op_of(step),
                                  .count = count,
                                  .what = rules[what].what};
    world->rules[world->rule_count++] = ctl_proxy_rule(world->control, &rule);
    return true;
}

static bool is_hit(void *ctx)
{
    struct world *world = ctx;
    if (world->rule_count > 0) {
        int last = world->rules[world->rule_count - 1];
        return ctl_proxy_hits(world->control, last) > 0;
    }
    return world->bytes ? data_proxy_is_held(world->bytes, DATA_FROM_OWNER) ||
                              data_proxy_is_held(world->bytes, DATA_TO_OWNER)
                        : copy_is_held();
}

/* A copy by shared memory is the worker's own. */
static bool is_deaf(void *ctx, enum rows_step step)
{
    return step == ROWS_BYTES && !((struct world *)ctx)->bytes;
}

static bool strike(void *ctx, enum rows_blow blow)
{
    struct world *world = ctx;
    int status = 0;
    switch (blow) {
    case ROWS_NODE_STOPS:
        ck_assert_int_eq(kill(world->node, SIGSTOP), 0);
        ck_assert_int_eq(waitpid(world->node, &status, WUNTRACED), world->node);
        return true;
    case ROWS_NODE_GOES_ON:
        ck_assert_int_eq(kill(world->node, SIGCONT), 0);
        return true;
    case ROWS_NODE_DIES:
        end_node(world);
        return true;
    case ROWS_STORE_DIES:
        end_master(world);
        return true;
    }
    return false;
}

static uint64_t requests(void *ctx)
{
    const struct world *world = ctx;
    uint64_t seen = 0;
    for (int op = MCI_OP_SEGMENT_MOUNT; op <= MCI_OP_STAT; op++) {
        seen += ctl_proxy_seen(world->control, CTL_REQUEST, (enum mci_op)op);
    }
    return seen;
}

#define HARNESS(transport)                                                    \
    {                                                                         \
        .name = #transport, .open = open_##transport, .close = close_world,   \
        .driver = open_driver, .put = put, .get = get, .remove = remove_key,  \
        .write = begin_write, .finish = finish_write, .fault = fault,         \
        .is_hit = is_hit, .lift = lift, .is_deaf = is_deaf, .strike = strike, \
        .requests = requests                                                  \
    }
const struct rows_harness rows_tcp = HARNESS(tcp);
const struct rows_harness rows_shm = HARNESS(shm);
