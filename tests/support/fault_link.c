/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_link.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client.h"

#define OPS 64

struct fault_link {
    struct mc_client *client;
    struct mci_master_link real;
    struct mci_link_ops ops;
    pthread_t maker;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t lifted;
    struct rule {
        bool is_on;
        enum fault_what what;
        unsigned count;
        unsigned hits;
    } rules[OPS];
    enum mci_op last;
    unsigned lifts;
    uint64_t calls;
};

/* ---- the rule ------------------------------------------------------------- */

/* True: the call is to be made. *loses_out: its answer is lost. */
static bool meet(struct fault_link *link, enum mci_op op, bool *loses_out)
{
    *loses_out = false;
    if (pthread_equal(pthread_self(), link->maker)) {
        return true;
    }
    bool goes_on = true;
    (void)pthread_mutex_lock(&link->lock);
    link->calls++;
    struct rule *rule = &link->rules[op];
    if (rule->is_on && (rule->count == 0 || rule->hits < rule->count)) {
        unsigned lifts = link->lifts;
        enum fault_what what = rule->what;
        rule->hits++;
        while (what == FAULT_HOLD && link->lifts == lifts) {
            (void)pthread_cond_wait(&link->lifted, &link->lock);
        }
        goes_on = what != FAULT_LOSE;
        *loses_out = what == FAULT_LOSE_ANSWER;
    }
    (void)pthread_mutex_unlock(&link->lock);
    return goes_on;
}

static enum mc_err fail_writes(struct mci_write_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].err = MC_ERR_RPC_TIMEOUT;
    }
    return MC_ERR_RPC_TIMEOUT;
}

/* ---- calls that may fail ----------------------------------------------------- */

static enum mc_err put_start(void *ctx, const struct mci_call *call,
                             const struct mc_replicate_config *config,
                             struct mci_write_row *rows, size_t count)
{
    struct fault_link *link = ctx;
    bool loses = false;
    enum mc_err err = MC_ERR_RPC_TIMEOUT;
    if (meet(link, MCI_OP_PUT_START, &loses)) {
        err = link->real.ops->put_start(link->real.ctx, call, config, rows,
                                        count);
    }
    if (loses && err == MC_OK) { /* as a master that saw no writer come */
        (void)link->real.ops->put_revoke(link->real.ctx, call, rows, count);
    }
    return loses || err == MC_ERR_RPC_TIMEOUT ? fail_writes(rows, count) : err;
}

static enum mc_err put_end(void *ctx, const struct mci_call *call,
                           struct mci_write_row *rows, size_t count)
{
    struct fault_link *link = ctx;
    bool loses = false;
    enum mc_err err = MC_ERR_RPC_TIMEOUT;
    if (meet(link, MCI_OP_PUT_END, &loses)) {
        err = link->real.ops->put_end(link->real.ctx, call, rows, count);
    }
    return loses || err == MC_ERR_RPC_TIMEOUT ? fail_writes(rows, count) : err;
}

static enum mc_err put_revoke(void *ctx, const struct mci_call *call,
                              struct mci_write_row *rows, size_t count)
{
    struct fault_link *link = ctx;
    bool loses = false;
    enum mc_err err = MC_ERR_RPC_TIMEOUT;
    if (meet(link, MCI_OP_PUT_REVOKE, &loses)) {
        err = link->real.ops->put_revoke(link->real.ctx, call, rows, count);
    }
    return loses || err == MC_ERR_RPC_TIMEOUT ? fail_writes(rows, count) : err;
}

/* An answer that is lost leaves nothing held. */
static enum mc_err get(void *ctx, const struct mci_call *call,
                       struct mci_read_row *rows, size_t count)
{
    struct fault_link *link = ctx;
    bool loses = false;
    if (meet(link, MCI_OP_GET, &loses) && !loses) {
        return link->real.ops->get(link->real.ctx, call, rows, count);
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct mci_read_row){.key = rows[i].key,
                                        .err = MC_ERR_RPC_TIMEOUT};
    }
    return MC_ERR_RPC_TIMEOUT;
}

static enum mc_err probe(void *ctx, const struct mci_call *call,
                         const struct mc_view *keys, size_t count,
                         struct mc_probe *probes_out, int64_t *results_out)
{
    struct fault_link *link = ctx;
    bool loses = false;
    if (meet(link, MCI_OP_PROBE, &loses) && !loses) {
        return link->real.ops->probe(link->real.ctx, call, keys, count,
                                     probes_out, results_out);
    }
    return mci_client_refuse(results_out, count, MC_ERR_RPC_TIMEOUT);
}

/* ---- calls that are handed on -------------------------------------------------- */

static void count_call(struct fault_link *link)
{
    bool loses = false;
    (void)meet(link, (enum mci_op)0, &loses);
}

static void release(void *ctx, struct mci_read_row *rows, size_t count)
{
    struct fault_link *link = ctx;
    link->real.ops->release(link->real.ctx, rows, count);
}

#define HAND_ON(name, params, args)       \
    static enum mc_err name params        \
    {                                     \
        struct fault_link *link = ctx;    \
        count_call(link);                 \
        return link->real.ops->name args; \
    }
HAND_ON(lease_renew,
        (void *ctx, const struct mci_call *call, struct mci_read_row *rows,
         size_t count),
        (link->real.ctx, call, rows, count))
HAND_ON(lease_release,
        (void *ctx, const struct mci_call *call, struct mci_read_row *rows,
         size_t count),
        (link->real.ctx, call, rows, count))
HAND_ON(lease_hold,
        (void *ctx, const struct mci_call *call, struct mci_read_row *rows,
         size_t count),
        (link->real.ctx, call, rows, count))
HAND_ON(exist,
        (void *ctx, const struct mci_call *call, const struct mc_view *keys,
         size_t count, int64_t *results_out),
        (link->real.ctx, call, keys, count, results_out))
HAND_ON(remove,
        (void *ctx, const struct mci_call *call, const struct mc_view *keys,
         size_t count, bool force, int64_t *results_out),
        (link->real.ctx, call, keys, count, force, results_out))
HAND_ON(stat,
        (void *ctx, const struct mci_call *call,
         struct mci_master_stats *stats_out),
        (link->real.ctx, call, stats_out))
HAND_ON(attempt_fate,
        (void *ctx, const struct mci_call *call,
         const struct mci_attempt *attempts, size_t count,
         enum mci_fate *fates_out),
        (link->real.ctx, call, attempts, count, fates_out))

/* The renewer's sign of life: not counted. */
static enum mc_err attempt_touch(void *ctx, const struct mci_call *call,
                                 struct mci_write_row *rows, size_t count)
{
    struct fault_link *link = ctx;
    return link->real.ops->attempt_touch(link->real.ctx, call, rows, count);
}

/* ---- life ------------------------------------------------------------------------- */

struct fault_link *fault_link_open(struct mc_client *client)
{
    struct fault_link *link = calloc(1, sizeof *link);
    ck_assert_ptr_nonnull(link);
    link->client = client;
    link->real = client->link;
    link->maker = pthread_self();
    ck_assert_int_eq(pthread_mutex_init(&link->lock, NULL), 0);
    ck_assert_int_eq(pthread_cond_init(&link->lifted, NULL), 0);
    link->ops = (struct mci_link_ops){.put_start = put_start,
                                      .put_end = put_end,
                                      .put_revoke = put_revoke,
                                      .get = get,
                                      .release = release,
                                      .lease_renew = lease_renew,
                                      .lease_release = lease_release,
                                      .lease_hold = lease_hold,
                                      .exist = exist,
                                      .probe = probe,
                                      .remove = remove,
                                      .stat = stat,
                                      .attempt_fate = attempt_fate,
                                      .attempt_touch = attempt_touch};
    client->link = (struct mci_master_link){.ops = &link->ops, .ctx = link};
    return link;
}

void fault_link_close(struct fault_link *link)
{
    link->client->link = link->real;
    (void)pthread_cond_destroy(&link->lifted);
    (void)pthread_mutex_destroy(&link->lock);
    free(link);
}

void fault_link_rule(struct fault_link *link, enum mci_op op,
                     enum fault_what what, unsigned count)
{
    (void)pthread_mutex_lock(&link->lock);
    link->rules[op] =
        (struct rule){.is_on = true, .what = what, .count = count};
    link->last = op;
    (void)pthread_mutex_unlock(&link->lock);
}

unsigned fault_link_hits(struct fault_link *link)
{
    (void)pthread_mutex_lock(&link->lock);
    unsigned hits = link->rules[link->last].hits;
    (void)pthread_mutex_unlock(&link->lock);
    return hits;
}

void fault_link_lift(struct fault_link *link)
{
    (void)pthread_mutex_lock(&link->lock);
    for (size_t op = 0; op < OPS; op++) {
        link->rules[op].is_on = false;
    }
    link->lifts++;
    (void)pthread_cond_broadcast(&link->lifted);
    (void)pthread_mutex_unlock(&link->lock);
}

uint64_t fault_link_calls(struct fault_link *link)
{
    (void)pthread_mutex_lock(&link->lock);
    uint64_t calls = link->calls;
    (void)pthread_mutex_unlock(&link->lock);
    return calls;
}
