/* SPDX-License-Identifier: Apache-2.0 */
/* publisher_make.c - the parts of a publisher: made before its thread starts, from
 * settings that were found good. */
#include <string.h>

#include "mci_alloc.h"
#include "mci_clock.h"
#include "publisher_parts.h"

#define START_WAIT_NS MCI_NS_PER_S /* for the first subscription */
#define HEARTBEAT_MS 1000          /* where losses can be made good */

void mci_publisher_free(struct mci_publisher *publisher)
{
    mc_event_writer_destroy(publisher->recovery_writer);
    mc_event_writer_destroy(publisher->writer);
    mci_history_destroy(publisher->history);
    mci_log_taken_fini(&publisher->taken);
    mci_curve_list_fini(&publisher->curve.allowed);
    explicit_bzero(&publisher->curve.pair, sizeof publisher->curve.pair);
    mci_free(publisher->payload);
    mci_free(publisher->replay_endpoint);
    mci_free(publisher->backend_id);
    mci_free(publisher->topic);
    mci_free(publisher->endpoint);
    mci_free(publisher);
}

static enum mc_err make_writer(const struct mci_publisher *publisher,
                               const struct mc_publisher_opts *opts,
                               struct mc_event_writer **writer_out)
{
    const struct mc_event_writer_opts writer_opts = {
        .plain = opts->no_extra_fields,
        .no_legacy_compat = opts->no_legacy_compat,
        .no_object_key = opts->no_object_key,
        .empty_token_ids = opts->empty_token_ids,
        .seq_hashes = opts->emit_seq_hashes,
        .block_size = opts->block_size,
        .dp_rank = opts->dp_rank,
        .epoch = mci_event_log_epoch(publisher->log),
        .model_name = mc_view_str(opts->model_name),
        .additional_salt = mc_view_str(opts->additional_salt),
        .lora_name = mc_view_str(opts->lora_name)};
    return mc_event_writer_create(&writer_opts, writer_out);
}

static char *text_copy(const char *text)
{
    return mci_strdup_n(text ? text : "", text ? strlen(text) : 0);
}

/* What a recovery server needs, if there will be one. */
static enum mc_err make_history(struct mci_publisher *publisher,
                                const struct mc_publisher_opts *opts)
{
    publisher->replay_layout = opts->replay_layout;
    publisher->no_object_key = opts->no_object_key;
    publisher->replay_endpoint = text_copy(opts->replay_endpoint);
    if (!publisher->replay_endpoint) {
        return MC_ERR_NOMEM;
    }
    if (!publisher->replay_endpoint[0]) {
        return MC_OK;
    }
    enum mc_err err = make_writer(publisher, opts, &publisher->recovery_writer);
    return err ? err
               : mci_history_create(opts->history_batches, opts->history_bytes,
                                    &publisher->history);
}

/* 0 stands for "as it should be", MC_NONE for none. */
static uint64_t heartbeat_ns(const struct mc_publisher_opts *opts)
{
    bool has_recovery = opts->replay_endpoint && opts->replay_endpoint[0];
    uint64_t ms = opts->heartbeat_ms;
    if (ms == 0 && has_recovery) {
        ms = HEARTBEAT_MS;
    }
    return ms > UINT64_MAX / MCI_NS_PER_MS ? 0 : ms * MCI_NS_PER_MS;
}

enum mc_err mci_publisher_fill(struct mci_publisher *publisher,
                               const struct mc_publisher_opts *opts)
{
    publisher->mark = mci_send_mark(opts->hwm_bytes);
    publisher->endpoint = text_copy(opts->bind_endpoint);
    publisher->topic = text_copy(opts->topic);
    publisher->backend_id = text_copy(opts->backend_id);
    publisher->payload = mci_alloc(MC_BATCH_BYTES_MAX);
    if (!publisher->endpoint || !publisher->topic || !publisher->backend_id ||
        !publisher->payload) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = mci_log_taken_init(&publisher->taken);
    if (err) {
        return err;
    }
    err = make_writer(publisher, opts, &publisher->writer);
    if (!err) {
        err = make_history(publisher, opts);
    }
    if (err) {
        return err;
    }
    struct mci_batcher_opts batcher_opts = {
        .writer = publisher->writer,
        .backend_id = mc_view_str(publisher->backend_id),
        .max_bytes = publisher->mark.batch_bytes,
        .heartbeat_ns = heartbeat_ns(opts),
        .skips_keyed = opts->no_object_key};
    if (opts->sequence_epoch) {
        batcher_opts.base_seq = mci_batcher_epoch_base(mci_clock_wall_ms());
    }
    uint64_t now_ns = mci_clock_ns();
    publisher->begins_ns = now_ns + START_WAIT_NS;
    mci_batcher_init(&publisher->batcher, &batcher_opts, now_ns);
    mci_counter_set(&publisher->counters.last_seq, batcher_opts.base_seq);
    return MC_OK;
}

enum mc_err mci_publisher_read_keys(struct mci_publisher *publisher,
                                    const struct mc_publisher_opts *opts)
{
    if (!opts->curve_server_key_file || !opts->curve_server_key_file[0]) {
        return MC_OK;
    }
    enum mc_err err = mci_curve_pair_read(opts->curve_server_key_file,
                                          &publisher->curve.pair);
    return err ? err
               : mci_curve_list_read(opts->curve_allowed_keys_file,
                                     &publisher->curve.allowed);
}
