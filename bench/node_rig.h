/* SPDX-License-Identifier: Apache-2.0 */
/* node_rig.h - a master and a node that lends its memory, each a process of its
 * own, and a client in this process whose calls are measured.
 *
 * Objects are of one size and have the same keys in each walk. Those that are
 * read are put once; those that are written are removed between two walks,
 * which is not timed. Bytes are looked at: each object begins with its number.
 *
 * Threads: one opens and closes; steps run on their stream's thread.
 */
#ifndef NODE_RIG_H
#define NODE_RIG_H
#include "bare_loop.h"
#include "mc_client.h"
#include "mc_master.h"

#define RIG_BATCH_MAX 32
#define RIG_KEY_LEN 67
#define RIG_MIB ((size_t)1 << 20)

struct rig_opts {
    const char *transport; /* "tcp" or "shm" */
    size_t row_bytes;
    size_t row_count; /* of a walk */
    bool is_put;
    bool checksum; /* of all that is put */
};

struct rig {
    struct rig_opts opts;
    pid_t master;
    pid_t node;
    struct mc_client *client;
    char (*keys)[RIG_KEY_LEN + 1];
};

struct rig_caller { /* the ctx of a stream */
    struct rig *rig;
    size_t rows; /* of a step; 1: by the call that takes one */
};

/* ---- the other processes ------------------------------------------------- */

static inline int rig_serve_master(void)
{
    const struct mc_master_opts opts = {.rpc_address = "127.0.0.1"};
    struct mc_master *master = NULL;
    struct mc_master_bound bound;
    const char *what = NULL;
    if (mc_master_open(&opts, &master, &what) != MC_OK) {
        return 1;
    }
    mc_master_bound(master, &bound);
    server_ready(bound.rpc);
    return 0;
}

static inline int rig_serve_node(const char *master, const char *bytes)
{
    const struct mc_client_opts opts = {
        .master = master, .segment_bytes = strtoull(bytes, NULL, 10)};
    struct mc_client *client = NULL;
    if (mc_client_open(&opts, &client) != MC_OK) {
        return 1;
    }
    server_ready(mc_client_hostname(client));
    return 0;
}

/* The main of a program with a rig: true if it was called as one of its other
 * processes, which has then ended. */
static inline bool rig_serve(int argc, char **argv, int *code_out)
{
    if (argc > 1 && strcmp(argv[1], "--master") == 0) {
        *code_out = rig_serve_master();
    } else if (argc > 3 && strcmp(argv[1], "--node") == 0) {
        *code_out = rig_serve_node(argv[2], argv[3]);
    } else if (argc > 2 && strcmp(argv[1], "--bare") == 0) {
        *code_out = bare_server((size_t)strtoull(argv[2], NULL, 10));
    } else {
        return false;
    }
    return true;
}

/* ---- steps ---------------------------------------------------------------- */

struct rig_rows {
    struct mc_view keys[RIG_BATCH_MAX];
    struct mc_span spans[RIG_BATCH_MAX];
    int64_t results[RIG_BATCH_MAX];
};

static inline void rig_rows_of(const struct stream *stream,
                               struct rig_rows *rows)
{
    const struct rig_caller *caller = stream->ctx;
    const struct rig *rig = caller->rig;
    size_t len = rig->opts.row_bytes;
    for (size_t i = 0; i < caller->rows; i++) {
        size_t at = stream->at + i * len;
        rows->keys[i] = mc_view_make(rig->keys[at / len], RIG_KEY_LEN);
        rows->spans[i] =
            (struct mc_span){.data = stream->memory + at, .len = len};
    }
}

static inline void rig_mark(const struct stream *stream,
                            const struct rig_rows *rows, bool is_blank)
{
    const struct rig_caller *caller = stream->ctx;
    for (size_t i = 0; i < caller->rows; i++) {
        size_t at = (size_t)((uint8_t *)rows->spans[i].data - stream->memory);
        uint64_t word = is_blank ? UINT64_MAX : at;
        memcpy(rows->spans[i].data, &word, sizeof word);
    }
}

static inline bool rig_are_marked(const struct stream *stream,
                                  const struct rig_rows *rows)
{
    const struct rig_caller *caller = stream->ctx;
    for (size_t i = 0; i < caller->rows; i++) {
        size_t at = (size_t)((uint8_t *)rows->spans[i].data - stream->memory);
        uint64_t word;
        memcpy(&word, rows->spans[i].data, sizeof word);
        if (word != at) {
            return false;
        }
    }
    return true;
}

static inline bool rig_are(const struct rig_rows *rows, size_t count,
                           int64_t result)
{
    for (size_t i = 0; i < count; i++) {
        if (rows->results[i] != result) {
            return false;
        }
    }
    return true;
}

static inline bool rig_get(struct stream *stream)
{
    const struct rig_caller *caller = stream->ctx;
    struct mc_client *client = caller->rig->client;
    struct rig_rows rows;
    enum mc_err err;
    rig_rows_of(stream, &rows);
    rig_mark(stream, &rows, true);
    if (caller->rows == 1) {
        uint64_t size = 0;
        err = mc_client_get_into(client, rows.keys[0], rows.spans[0].data,
                                 rows.spans[0].len, &size);
        rows.results[0] = (int64_t)size;
    } else {
        err = mc_client_batch_get_into(client, rows.keys, rows.spans,
                                       caller->rows, rows.results);
    }
    return err == MC_OK &&
           rig_are(&rows, caller->rows, (int64_t)caller->rig->opts.row_bytes) &&
           rig_are_marked(stream, &rows);
}

static inline bool rig_put(struct stream *stream)
{
    const struct rig_caller *caller = stream->ctx;
    struct mc_client *client = caller->rig->client;
    struct rig_rows rows;
    enum mc_err err;
    rig_rows_of(stream, &rows);
    rig_mark(stream, &rows, false);
    rows.results[0] = 0;
    if (caller->rows == 1) {
        err = mc_client_put_from(client, rows.keys[0], rows.spans[0].data,
                                 rows.spans[0].len, NULL);
    } else {
        err = mc_client_batch_put_from(client, rows.keys, rows.spans,
                                       caller->rows, NULL, rows.results);
    }
    return err == MC_OK && rig_are(&rows, caller->rows, 0);
}

static inline bool rig_clear(struct stream *stream)
{
    const struct rig_caller *caller = stream->ctx;
    uint64_t removed = 0;
    return mc_client_remove_all(caller->rig->client, true, &removed) == MC_OK;
}

/* ---- streams -------------------------------------------------------------- */

/* Memory that is touched and known to the client. */
static inline bool rig_stream_open(struct rig_caller *caller,
                                   struct stream *stream)
{
    const struct rig_opts *opts = &caller->rig->opts;
    *stream = (struct stream){
        .step = opts->is_put ? rig_put : rig_get,
        .renew = opts->is_put ? rig_clear : NULL,
        .ctx = caller,
        .bytes = opts->row_bytes * opts->row_count,
        .step_bytes = caller->rows * opts->row_bytes,
    };
    stream->memory = stream_map(stream->bytes);
    return stream->memory &&
           mc_client_register_buffer(caller->rig->client, stream->memory,
                                     stream->bytes) == MC_OK;
}

static inline void rig_stream_close(struct rig_caller *caller,
                                    struct stream *stream)
{
    if (stream->memory && caller->rig->client) {
        (void)!mc_client_unregister_buffer(caller->rig->client, stream->memory);
    }
    stream_unmap(stream->memory, stream->bytes);
}

/* ---- life ----------------------------------------------------------------- */

/* Nothing is placed on a node before the master has heard from it. */
static inline bool rig_await_node(struct rig *rig)
{
    double end = bench_now() + SERVER_PATIENCE_S;
    while (bench_now() < end) {
        if (mc_client_put(rig->client, mc_view_str("first"), "x", 1, NULL) ==
            MC_OK) {
            return mc_client_remove(rig->client, mc_view_str("first"), true) ==
                   MC_OK;
        }
        server_pause();
    }
    return false;
}

/* Puts all objects there are to read. */
static inline bool rig_fill(struct rig *rig)
{
    struct rig_caller caller = {.rig = rig, .rows = RIG_BATCH_MAX};
    struct stream stream;
    bool is_good = rig_stream_open(&caller, &stream);
    while (is_good && stream.at < stream.bytes) {
        is_good = rig_put(&stream);
        stream.at += stream.step_bytes;
    }
    rig_stream_close(&caller, &stream);
    return is_good;
}

static inline bool rig_make_keys(struct rig *rig)
{
    rig->keys = calloc(rig->opts.row_count, sizeof(*rig->keys));
    for (size_t i = 0; i < rig->opts.row_count && rig->keys; i++) {
        (void)snprintf(rig->keys[i], sizeof rig->keys[i], "%032zx%032zx__k", i,
                       i * (size_t)0x9e3779b9);
    }
    return rig->keys != NULL;
}

static inline bool rig_open(struct rig *rig, const struct rig_opts *opts)
{
    uint16_t port = 0;
    uint16_t node_port = 0;
    char master[32];
    char bytes[32];
    *rig = (struct rig){.opts = *opts};
    rig->master = server_start_own("--master", NULL, NULL, &port);
    (void)snprintf(master, sizeof master, "127.0.0.1:%u", port);
    (void)snprintf(bytes, sizeof bytes, "%zu",
                   opts->row_bytes * opts->row_count / 4 * 5 + 64 * RIG_MIB);
    if (rig->master <= 0 || !rig_make_keys(rig)) {
        return false;
    }
    rig->node = server_start_own("--node", master, bytes, &node_port);
    const struct mc_client_opts client = {.master = master,
                                          .segment_bytes = MC_NONE,
                                          .transport = opts->transport,
                                          .checksum = opts->checksum};
    return rig->node > 0 && mc_client_open(&client, &rig->client) == MC_OK &&
           rig_await_node(rig) && (opts->is_put || rig_fill(rig));
}

static inline void rig_close(struct rig *rig)
{
    mc_client_close(rig->client);
    server_end(rig->node);
    server_end(rig->master);
    free(rig->keys);
}

#endif
