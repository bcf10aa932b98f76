/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and asking. A batch over the bytes of a message is split and joined;
 * if any part fails, all of it does.
 */
#include <string.h>

#include "remote.h"
#include "stat_words.h"

/* Rows are refused as a whole. */
static enum mc_err refuse(int64_t *results, size_t count, enum mc_err err)
{
    for (size_t i = 0; i < count; i++) {
        results[i] = err;
    }
    return err;
}

/* The count of rows of a result must be what was asked. */
static void expect_rows(struct mci_unpack *unpack, size_t count)
{
    if (mci_rows_unpack(unpack) != count) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
    }
}

static struct remote_ask_opts opts_of(const struct mci_call *call,
                                      enum mci_op op)
{
    return (struct remote_ask_opts){
        .op = op, .tenant = call->tenant, .deadline_ns = call->deadline_ns};
}

/* ---- get ----------------------------------------------------------------- */

static void pack_read_keys(struct mci_pack *pack,
                           const struct mci_read_row *rows, size_t count)
{
    mci_reads_pack(pack, count > 0 && rows[0].want_lease, count);
    for (size_t i = 0; i < count; i++) {
        struct mc_view key = rows[i].key;
        if (key.len > MC_KEY_LEN_MAX) {
            key.len = MC_KEY_LEN_MAX + 1; /* stays too long */
        }
        mci_pack_str(pack, key.data ? key : mc_view_make("", 0));
    }
}

uint64_t mci_remote_lease_from(const struct remote_ask *ask, uint64_t now_ns,
                               uint64_t left_ns)
{
    uint64_t end_ns = 0;
    if (__builtin_add_overflow(ask->sent_ns, left_ns, &end_ns)) {
        return UINT64_MAX - now_ns;
    }
    return end_ns > now_ns ? end_ns - now_ns : 0;
}

static void read_read_rows(struct remote_ask *ask, const struct mci_call *call,
                           struct mci_read_row *rows, size_t count)
{
    expect_rows(&ask->unpack, count);
    for (size_t i = 0; i < count; i++) {
        struct mci_read_row *row = &rows[i];
        mci_read_row_unpack(&ask->unpack, row);
        if (row->err != MC_OK) {
            continue;
        }
        row->lease_left_ns =
            mci_remote_lease_from(ask, call->now_ns, row->lease_left_ns);
        row->lease.epoch = ask->self.epoch;
        if ((row->lease.number != 0) != row->want_lease) {
            mci_unpack_refuse(&ask->unpack, MCI_UNPACK_ERROR_RANGE);
        }
    }
}

static enum mc_err get_run(struct mci_remote *remote,
                           const struct mci_call *call,
                           struct mci_read_row *rows, size_t count)
{
    const struct remote_ask_opts opts = opts_of(call, MCI_OP_GET);
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    pack_read_keys(&ask.pack, rows, count);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        read_read_rows(&ask, call, rows, count);
    }
    return mci_remote_ask_end(&ask, err);
}

static void refuse_reads(struct mci_read_row *rows, size_t count,
                         enum mc_err err)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].err = err;
        rows[i].place_count = 0;
        rows[i].hold = (struct mci_hold){.index = 0};
        rows[i].lease = (struct mci_lease){.number = 0};
        rows[i].lease_left_ns = 0;
    }
}

/* All rows of a message want leases of the same kind. */
static bool goes_along(const struct mci_read_row *rows,
                       const struct remote_run *run)
{
    return run->count == 0 ||
           rows[run->at].want_lease == rows[run->at + run->count].want_lease;
}

/* Named leases of parts before one that fails end at their deadlines, as do those
 * whose answer was lost. */
enum mc_err mci_remote_get(void *ctx, const struct mci_call *call,
                           struct mci_read_row *rows, size_t count)
{
    struct remote_run run = {.at = 0};
    enum mc_err err = MC_OK;
    do {
        while (run.at + run.count < count && goes_along(rows, &run) &&
               mci_remote_run_takes(
                   &run, mci_remote_text_bytes(rows[run.at + run.count].key,
                                               MC_KEY_LEN_MAX))) {
        }
        err = get_run(ctx, call, &rows[run.at], run.count);
        run = (struct remote_run){.at = run.at + run.count};
    } while (err == MC_OK && run.at < count);
    if (err != MC_OK) {
        refuse_reads(rows, count, err);
    }
    return err;
}

/* Nothing is held in another process. */
void mci_remote_release(void *ctx, struct mci_read_row *rows, size_t count)
{
    (void)ctx;
    for (size_t i = 0; i < count; i++) {
        rows[i].hold = (struct mci_hold){.index = 0};
    }
}

/* ---- exist, get_size, probe ---------------------------------------------- */

/* One of them, over keys. */
struct question {
    struct mci_remote *remote;
    const struct mci_call *call;
    enum mci_op op;
    const struct mc_view *keys;
    int64_t *results;
    struct mc_probe *probes; /* of probe */
};

static enum mc_err question_run(const struct question *question, size_t at,
                                size_t count)
{
    const struct remote_ask_opts opts = opts_of(question->call, question->op);
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(question->remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_keys_pack(&ask.pack, &question->keys[at], count);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        expect_rows(&ask.unpack, count);
        for (size_t i = at; i < at + count; i++) {
            question->results[i] =
                question->probes
                    ? mci_probe_unpack(&ask.unpack, &question->probes[i])
                    : mci_result_unpack(&ask.unpack);
        }
    }
    return mci_remote_ask_end(&ask, err);
}

static enum mc_err ask_keys(const struct question *question, size_t count)
{
    struct remote_run run = {.at = 0};
    enum mc_err err = MC_OK;
    do {
        while (
            run.at + run.count < count &&
            mci_remote_run_takes(
                &run, mci_remote_text_bytes(question->keys[run.at + run.count],
                                            MC_KEY_LEN_MAX))) {
        }
        err = question_run(question, run.at, run.count);
        run = (struct remote_run){.at = run.at + run.count};
    } while (err == MC_OK && run.at < count);
    return err == MC_OK ? MC_OK : refuse(question->results, count, err);
}

enum mc_err mci_remote_exist(void *ctx, const struct mci_call *call,
                             const struct mc_view *keys, size_t count,
                             int64_t *results_out)
{
    const struct question question = {.remote = ctx,
                                      .call = call,
                                      .op = MCI_OP_EXIST,
                                      .keys = keys,
                                      .results = results_out};
    return ask_keys(&question, count);
}

enum mc_err mci_remote_get_size(void *ctx, const struct mci_call *call,
                                const struct mc_view *keys, size_t count,
                                int64_t *results_out)
{
    const struct question question = {.remote = ctx,
                                      .call = call,
                                      .op = MCI_OP_GET_SIZE,
                                      .keys = keys,
                                      .results = results_out};
    return ask_keys(&question, count);
}

enum mc_err mci_remote_probe(void *ctx, const struct mci_call *call,
                             const struct mc_view *keys, size_t count,
                             struct mc_probe *probes_out, int64_t *results_out)
{
    const struct question question = {.remote = ctx,
                                      .call = call,
                                      .op = MCI_OP_PROBE,
                                      .keys = keys,
                                      .results = results_out,
                                      .probes = probes_out};
    return ask_keys(&question, count);
}

/* ---- list ---------------------------------------------------------------- */

/* A copy in the page; none stays none. */
static bool keep_text(struct mci_page *page, struct mc_view *text)
{
    if (text->len > page->bytes_max - page->bytes_len) {
        return false;
    }
    if (text->data) {
        uint8_t *bytes = page->bytes + page->bytes_len;
        memcpy(bytes, text->data, text->len);
        page->bytes_len += text->len;
        text->data = bytes;
    }
    return true;
}

static bool read_object(struct mci_unpack *unpack, struct mci_page *page)
{
    uint64_t ids[MC_MEDIUM_COUNT];
    struct mc_object_row row;
    mci_object_row_unpack(unpack, &row, ids);
    if (unpack->error != MCI_UNPACK_OK || page->count == page->capacity ||
        !keep_text(page, &row.tenant_id) || !keep_text(page, &row.key) ||
        !keep_text(page, &row.group_id) || !keep_text(page, &row.session_id)) {
        return false;
    }
    memcpy(page->media_ids[page->count], ids, sizeof ids);
    page->rows[page->count++] = row;
    return true;
}

static void read_page(struct mci_unpack *unpack, struct mci_cursor *cursor,
                      struct mci_page *page)
{
    struct mci_list_head head = {.shard = 0};
    uint32_t count = mci_list_unpack(unpack, &head);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_object(unpack, page)) {
            mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
            break;
        }
    }
    if (unpack->error != MCI_UNPACK_OK) {
        return;
    }
    cursor->shard = head.shard;
    cursor->tag = head.tag;
    cursor->at_end = head.at_end;
}

enum mc_err mci_remote_list(void *ctx, const struct mci_call *call,
                            struct mc_view tenant, struct mci_cursor *cursor,
                            struct mci_page *page)
{
    const struct remote_ask_opts opts = {
        .op = MCI_OP_LIST, .tenant = tenant, .deadline_ns = call->deadline_ns};
    const struct mci_list_head head = {
        .shard = cursor->shard, .tag = cursor->tag, .is_all = tenant.len == 0};
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(ctx, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    page->count = 0;
    page->bytes_len = 0;
    mci_list_args_pack(&ask.pack, &head);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        read_page(&ask.unpack, cursor, page);
    }
    err = mci_remote_ask_end(&ask, err);
    if (err != MC_OK) {
        page->count = 0;
    }
    return err;
}

/* ---- stat ---------------------------------------------------------------- */

static void copy_endpoint(char *text, size_t capacity, struct mc_view endpoint)
{
    size_t len = endpoint.len < capacity ? endpoint.len : capacity - 1;
    if (endpoint.data) {
        memcpy(text, endpoint.data, len);
    }
    text[endpoint.data ? len : 0] = '\0';
}

enum mc_err mci_remote_figures(struct mci_remote *remote,
                               const struct mci_call *call,
                               struct mci_master_stats *master_out,
                               struct mc_publisher_stats *events_out)
{
    const struct remote_ask_opts opts = opts_of(call, MCI_OP_STAT);
    struct mci_stat_words words = {.count = 0};
    struct mc_publisher_stats events = {.enabled = false};
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_pack_nil(&ask.pack);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        mci_stat_unpack(&ask.unpack, &words);
        mci_stat_words_get_events(&words, &events);
        copy_endpoint(events.endpoint, sizeof events.endpoint,
                      words.events_endpoint);
        copy_endpoint(events.replay_endpoint, sizeof events.replay_endpoint,
                      words.recovery_endpoint);
    }
    err = mci_remote_ask_end(&ask, err);
    if (err == MC_OK) {
        mci_stat_words_get(&words, master_out);
        *events_out = events;
    }
    return err;
}

enum mc_err mci_remote_master_stat(void *ctx, const struct mci_call *call,
                                   struct mci_master_stats *stats_out)
{
    struct mc_publisher_stats events;
    return mci_remote_figures(ctx, call, stats_out, &events);
}
