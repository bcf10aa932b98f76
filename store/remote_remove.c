/* SPDX-License-Identifier: Apache-2.0 */
/* Removing. A long list of keys may go in several messages, in order; a later
 * one that fails leaves its code in its rows only.
 */
#include "remote.h"

struct removal {
    struct mci_remote *remote;
    const struct mci_call *call;
    const struct mc_view *keys;
    bool force;
    int64_t *results;
};

static struct remote_ask_opts opts_of(const struct mci_call *call,
                                      enum mci_op op)
{
    return (struct remote_ask_opts){
        .op = op, .tenant = call->tenant, .deadline_ns = call->deadline_ns};
}

static enum mc_err remove_run(const struct removal *removal, size_t at,
                              size_t count)
{
    const struct remote_ask_opts opts = opts_of(removal->call, MCI_OP_REMOVE);
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(removal->remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_remove_pack(&ask.pack, removal->force, &removal->keys[at], count);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        if (mci_rows_unpack(&ask.unpack) != count) {
            mci_unpack_refuse(&ask.unpack, MCI_UNPACK_ERROR_LENGTH);
        }
        for (size_t i = at; i < at + count; i++) {
            removal->results[i] = mci_result_unpack(&ask.unpack);
        }
    }
    return mci_remote_ask_end(&ask, err);
}

static void refuse(int64_t *results, size_t count, enum mc_err err)
{
    for (size_t i = 0; i < count; i++) {
        results[i] = err;
    }
}

enum mc_err mci_remote_remove(void *ctx, const struct mci_call *call,
                              const struct mc_view *keys, size_t count,
                              bool force, int64_t *results_out)
{
    const struct removal removal = {ctx, call, keys, force, results_out};
    struct remote_run run = {.at = 0};
    do {
        while (run.at + run.count < count &&
               mci_remote_run_takes(
                   &run, mci_remote_text_bytes(keys[run.at + run.count],
                                               MC_KEY_LEN_MAX))) {
        }
        enum mc_err err = remove_run(&removal, run.at, run.count);
        if (err != MC_OK && run.at == 0) {
            refuse(results_out, count, err);
            return err;
        }
        if (err != MC_OK) {
            refuse(&results_out[run.at], run.count, err);
        }
        run = (struct remote_run){.at = run.at + run.count};
    } while (run.at < count);
    return MC_OK;
}

/* A count comes also with -901 of the master's own: the log had no room, and so
 * many were removed until then. */
static enum mc_err end_count(struct remote_ask *ask, enum mc_err err,
                             uint64_t *removed_out)
{
    uint64_t removed = 0;
    bool has_count =
        ask->is_answered && (err == MC_OK || err == MC_ERR_RPC_TIMEOUT);
    if (has_count && !mci_unpack_took_nil(&ask->unpack)) {
        removed = mci_unpack_u64(&ask->unpack, UINT64_MAX);
        has_count = ask->unpack.error == MCI_UNPACK_OK;
    }
    err = mci_remote_ask_end(ask, err);
    if (has_count && (err == MC_OK || err == MC_ERR_RPC_TIMEOUT)) {
        *removed_out = removed;
    }
    return err;
}

enum mc_err mci_remote_remove_by_regex(void *ctx, const struct mci_call *call,
                                       struct mc_view regex, bool force,
                                       uint64_t *removed_out)
{
    const struct remote_ask_opts opts = opts_of(call, MCI_OP_REMOVE_BY_REGEX);
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(ctx, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_regex_pack(&ask.pack, force, regex);
    err = mci_remote_ask_run(&ask);
    return end_count(&ask, err, removed_out);
}

enum mc_err mci_remote_remove_all(void *ctx, const struct mci_call *call,
                                  bool force, uint64_t *removed_out)
{
    const struct remote_ask_opts opts = opts_of(call, MCI_OP_REMOVE_ALL);
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(ctx, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_pack_bool(&ask.pack, force);
    err = mci_remote_ask_run(&ask);
    return end_count(&ask, err, removed_out);
}
