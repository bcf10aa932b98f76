/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - the direct link. */
#include "mci_link.h"

static enum mc_err put_start(void *ctx, const struct mci_call *call,
                             const struct mc_replicate_config *config,
                             struct mci_write_row *rows, size_t count)
{
    return mci_master_put_start(ctx, call, config, rows, count);
}

static enum mc_err upsert_start(void *ctx, const struct mci_call *call,
                                const struct mc_replicate_config *config,
                                struct mci_write_row *rows, size_t count)
{
    return mci_master_upsert_start(ctx, call, config, rows, count);
}

/* A writer in this process has stopped writing when it ends or revokes, unless
 * it says that it is in doubt. */
static void mark_spent(struct mci_write_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].is_spent = !rows[i].in_doubt;
    }
}

static enum mc_err put_end(void *ctx, const struct mci_call *call,
                           struct mci_write_row *rows, size_t count)
{
    mark_spent(rows, count);
    return mci_master_put_end(ctx, call, rows, count);
}

static enum mc_err put_revoke(void *ctx, const struct mci_call *call,
                              struct mci_write_row *rows, size_t count)
{
    mark_spent(rows, count);
    return mci_master_put_revoke(ctx, call, rows, count);
}

static enum mc_err get(void *ctx, const struct mci_call *call,
                       struct mci_read_row *rows, size_t count)
{
    return mci_master_get(ctx, call, rows, count);
}

static void release(void *ctx, struct mci_read_row *rows, size_t count)
{
    mci_master_release(ctx, rows, count);
}

static enum mc_err lease_renew(void *ctx, const struct mci_call *call,
                               struct mci_read_row *rows, size_t count)
{
    return mci_master_lease_renew(ctx, call, rows, count);
}

static enum mc_err lease_release(void *ctx, const struct mci_call *call,
                                 struct mci_read_row *rows, size_t count)
{
    return mci_master_lease_release(ctx, call, rows, count);
}

static enum mc_err lease_hold(void *ctx, const struct mci_call *call,
                              struct mci_read_row *rows, size_t count)
{
    return mci_master_lease_hold(ctx, call, rows, count);
}

static enum mc_err exist(void *ctx, const struct mci_call *call,
                         const struct mc_view *keys, size_t count,
                         int64_t *results_out)
{
    return mci_master_exist(ctx, call, keys, count, results_out);
}

static enum mc_err get_size(void *ctx, const struct mci_call *call,
                            const struct mc_view *keys, size_t count,
                            int64_t *results_out)
{
    return mci_master_get_size(ctx, call, keys, count, results_out);
}

static enum mc_err probe(void *ctx, const struct mci_call *call,
                         const struct mc_view *keys, size_t count,
                         struct mc_probe *probes_out, int64_t *results_out)
{
    return mci_master_probe(ctx, call, keys, count, probes_out, results_out);
}

static enum mc_err remove_keys(void *ctx, const struct mci_call *call,
                               const struct mc_view *keys, size_t count,
                               bool force, int64_t *results_out)
{
    return mci_master_remove(ctx, call, keys, count, force, results_out);
}

static enum mc_err remove_by_regex(void *ctx, const struct mci_call *call,
                                   struct mc_view regex, bool force,
                                   uint64_t *removed_out)
{
    return mci_master_remove_by_regex(ctx, call, regex, force, removed_out);
}

static enum mc_err remove_all(void *ctx, const struct mci_call *call,
                              bool force, uint64_t *removed_out)
{
    return mci_master_remove_all(ctx, call, force, removed_out);
}

static enum mc_err list(void *ctx, const struct mci_call *call,
                        struct mc_view tenant, struct mci_cursor *cursor,
                        struct mci_page *page)
{
    (void)call;
    return mci_master_list(ctx, tenant, cursor, page);
}

static enum mc_err stat_master(void *ctx, const struct mci_call *call,
                               struct mci_master_stats *stats_out)
{
    (void)call;
    mci_master_stat(ctx, stats_out);
    return MC_OK;
}

static enum mc_err attempt_fate(void *ctx, const struct mci_call *call,
                                const struct mci_attempt *attempts,
                                size_t count, enum mci_fate *fates_out)
{
    for (size_t i = 0; i < count; i++) {
        fates_out[i] = mci_master_attempt_fate(ctx, call->client, attempts[i]);
    }
    return MC_OK;
}

static enum mc_err attempt_touch(void *ctx, const struct mci_call *call,
                                 struct mci_write_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].err =
            mci_master_attempt_touch(ctx, call, rows[i].key, rows[i].attempt);
    }
    return MC_OK;
}

struct mci_master_link mci_link_direct(struct mci_master *master)
{
    static const struct mci_link_ops ops = {
        .put_start = put_start,
        .upsert_start = upsert_start,
        .put_end = put_end,
        .put_revoke = put_revoke,
        .get = get,
        .release = release,
        .lease_renew = lease_renew,
        .lease_release = lease_release,
        .lease_hold = lease_hold,
        .exist = exist,
        .get_size = get_size,
        .probe = probe,
        .remove = remove_keys,
        .remove_by_regex = remove_by_regex,
        .remove_all = remove_all,
        .list = list,
        .stat = stat_master,
        .attempt_fate = attempt_fate,
        .attempt_touch = attempt_touch,
    };
    return (struct mci_master_link){.ops = &ops, .ctx = master};
}
