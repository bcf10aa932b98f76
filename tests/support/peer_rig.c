/* SPDX-License-Identifier: Apache-2.0 */
#include "peer_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mci_clock.h"

#define CALL_MS 20000

/* ---- the process --------------------------------------------------------- */

static void start_master(struct process *process,
                         const struct mc_master_opts *opts)
{
    struct mc_master_opts chosen = {.client_ttl_ms = 3000, .heartbeat_ms = 100};
    struct mc_master_bound bound;
    const char *what = NULL;
    if (opts) {
        chosen = *opts;
    }
    chosen.rpc_address = "127.0.0.1";
    ck_assert_msg(mc_master_open(&chosen, &process->master, &what) == MC_OK,
                  "%s", what);
    mc_master_bound(process->master, &bound);
    const char *colon = strrchr(bound.rpc, ':');
    ck_assert_ptr_nonnull(colon);
    process->port = (uint16_t)strtoul(colon + 1, NULL, 10);
}

void process_open(struct process *process, const struct mc_master_opts *opts)
{
    memset(process, 0, sizeof *process);
    start_master(process, opts);
    process->proxy = ctl_proxy_open(process->port);
}

void process_close(struct process *process)
{
    ctl_proxy_close(process->proxy);
    mc_master_close(process->master);
}

void process_restart(struct process *process, const struct mc_master_opts *opts)
{
    mc_master_close(process->master);
    start_master(process, opts);
    ctl_proxy_target(process->proxy, process->port);
}

/* ---- peers --------------------------------------------------------------- */

static enum mc_err mount(struct peer *peer)
{
    const struct mci_mount args = {.id = {peer->id[0], peer->id[1]},
                                   .registration = peer->registration,
                                   .bytes = peer->bytes,
                                   .base = UINT64_C(0x7f0000000000),
                                   .name = mc_view_str("lender"),
                                   .endpoint = mc_view_str("127.0.0.1:1"),
                                   .protocol = mc_view_str("tcp")};
    struct mci_mount whole = args;
    uint32_t segment = 0;
    memcpy(whole.key, peer->key, sizeof whole.key);
    enum mc_err err = mci_remote_mount(
        peer->remote, &whole, mci_clock_ns() + 5 * MCI_NS_PER_S, &segment);
    atomic_store(&peer->segment, err == MC_OK ? segment : 0);
    return err;
}

/* Memory that was given up is lent under another registration. */
static void on_renewed(void *ctx)
{
    struct peer *peer = ctx;
    if (peer->bytes > 0) {
        peer->registration++;
        peer->id[1]++;
        (void)mount(peer);
    }
    atomic_fetch_add(&peer->renewed, 1);
}

static enum mc_err on_fence(void *ctx, const struct mc_fence *fences,
                            size_t count, struct mci_stuck *stuck_out,
                            size_t *stuck_count_out)
{
    struct peer *peer = ctx;
    (void)fences;
    (void)stuck_out;
    *stuck_count_out = 0;
    atomic_fetch_add(&peer->fences, (unsigned)count);
    return MC_OK;
}

static void on_closed(void *ctx, const uint64_t *attempts, size_t count)
{
    struct peer *peer = ctx;
    (void)attempts;
    atomic_fetch_add(&peer->closed, (unsigned)count);
}

static void open_at(struct process *process, struct peer *peer,
                    const char *name, uint16_t port)
{
    static atomic_uint serial = 1;
    char address[32];
    uint64_t bytes = peer->bytes;
    memset(peer, 0, sizeof *peer);
    peer->process = process;
    peer->bytes = bytes;
    peer->id[0] = atomic_fetch_add(&serial, 1);
    peer->registration = peer->id[0] << 32 | 1;
    memset(peer->key, (int)peer->id[0], sizeof peer->key);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    const struct mci_remote_opts opts = {.master = address,
                                         .name = name,
                                         .timeout_ms = CALL_MS,
                                         .connect_timeout_ms = 10000,
                                         .events = {.renewed = on_renewed,
                                                    .fence = on_fence,
                                                    .closed = on_closed,
                                                    .ctx = peer}};
    ck_assert_int_eq(mci_remote_open(&opts, &peer->remote), MC_OK);
    peer->link = mci_remote_link(peer->remote);
    if (bytes > 0) {
        ck_assert_int_eq(mount(peer), MC_OK);
    }
}

void peer_open(struct process *process, struct peer *peer, const char *name,
               uint64_t bytes)
{
    peer->bytes = bytes;
    open_at(process, peer, name, ctl_proxy_port(process->proxy));
}

void peer_open_beside(struct process *process, struct peer *peer,
                      const char *name, uint64_t bytes)
{
    peer->bytes = bytes;
    open_at(process, peer, name, process->port);
}

void peer_close(struct peer *peer)
{
    mci_remote_close(peer->remote, mci_clock_ns() + 2 * MCI_NS_PER_S);
}

/* ---- calls --------------------------------------------------------------- */

struct mci_call peer_call(uint64_t left_ms)
{
    uint64_t now_ns = mci_clock_ns();
    return (struct mci_call){.now_ns = now_ns,
                             .deadline_ns = now_ns + left_ms * MCI_NS_PER_MS};
}

static enum mc_err code_of(enum mc_err err, const struct mci_write_row *row)
{
    return err != MC_OK ? err : row->err;
}

enum mc_err peer_start(struct peer *peer, const char *key, uint64_t size,
                       struct mci_write_row *row, uint64_t left_ms)
{
    const struct mci_call call = peer_call(left_ms);
    *row = (struct mci_write_row){.key = mc_view_str(key), .size = size};
    return code_of(
        peer->link.ops->put_start(peer->link.ctx, &call, NULL, row, 1), row);
}

enum mc_err peer_upsert(struct peer *peer, const char *key, uint64_t size,
                        struct mci_write_row *row, uint64_t left_ms)
{
    const struct mci_call call = peer_call(left_ms);
    *row = (struct mci_write_row){.key = mc_view_str(key), .size = size};
    return code_of(
        peer->link.ops->upsert_start(peer->link.ctx, &call, NULL, row, 1), row);
}

static void give_receipt(const struct peer *lender, struct mci_write_row *row)
{
    memset(row->receipts, 0, sizeof row->receipts);
    if (lender) {
        row->receipts[0] = mc_grant_receipt(lender->key, lender->registration,
                                            row->attempt.number);
    }
}

enum mc_err peer_end(struct peer *peer, const struct peer *lender,
                     struct mci_write_row *row, uint64_t left_ms)
{
    const struct mci_call call = peer_call(left_ms);
    give_receipt(lender, row);
    return code_of(peer->link.ops->put_end(peer->link.ctx, &call, row, 1), row);
}

enum mc_err peer_revoke(struct peer *peer, const struct peer *lender,
                        struct mci_write_row *row, bool in_doubt,
                        uint64_t left_ms)
{
    const struct mci_call call = peer_call(left_ms);
    give_receipt(lender, row);
    row->in_doubt = in_doubt;
    return code_of(peer->link.ops->put_revoke(peer->link.ctx, &call, row, 1),
                   row);
}

int64_t peer_remove(struct peer *peer, const char *key, uint64_t left_ms)
{
    const struct mci_call call = peer_call(left_ms);
    struct mc_view view = mc_view_str(key);
    int64_t result = 0;
    (void)!peer->link.ops->remove(peer->link.ctx, &call, &view, 1, true,
                                  &result);
    return result;
}

struct mc_probe peer_probe(struct peer *peer, const char *key)
{
    const struct mci_call call = peer_call(CALL_MS);
    struct mc_view view = mc_view_str(key);
    struct mc_probe probe = {.state = MC_OBJECT_ABSENT};
    int64_t result = 0;
    ck_assert_int_eq(
        peer->link.ops->probe(peer->link.ctx, &call, &view, 1, &probe, &result),
        MC_OK);
    ck_assert_int_eq(result, 0);
    return probe;
}

bool peer_has(struct peer *peer, const char *key)
{
    return peer_probe(peer, key).state == MC_OBJECT_READABLE;
}

enum mc_err peer_put(struct peer *peer, const struct peer *lender,
                     const char *key, uint64_t size)
{
    struct mci_write_row row;
    enum mc_err err = peer_start(peer, key, size, &row, CALL_MS);
    return err == MC_OK ? peer_end(peer, lender, &row, CALL_MS) : err;
}

struct mci_master_stats peer_figures(struct peer *peer)
{
    const struct mci_call call = peer_call(CALL_MS);
    struct mci_master_stats stats = {.objects = 0};
    ck_assert_int_eq(peer->link.ops->stat(peer->link.ctx, &call, &stats),
                     MC_OK);
    return stats;
}
