/* SPDX-License-Identifier: Apache-2.0 */
/* quickstart_writer.c - an engine's side of the quickstart: replays the requests
 * of a trace against a store, that of --master or one in this process, which
 * then publishes.
 *
 * A request's blocks are read and verified, and put where they are not found.
 * The pool is a tenth of the trace's blocks, so eviction works all the time. Before request
 * n the one-byte key req/<n> is put, and removed after it: the follower takes
 * it as the moment at which to answer. stdin and stdout are the pipes to the
 * follower (pipe_lines.h); words for people go to stderr. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "list.h"
#include "mc_client.h"
#include "options.h"
#include "pipe_lines.h"
#include "trace.h"

#define AHEAD_MAX 64
#define PATIENCE_MS 60000
#define PAUSE_MS 5 /* before a block for which there was no room */

struct writer {
    struct options options;
    struct trace trace;
    struct mc_client *client;
    struct pipe_reader acks;
    unsigned char *bytes;    /* of each block of a request */
    unsigned char *expected; /* as one of them must be */
    /* Per block of a request; the last three are of those to be put. */
    struct trace_names *names;
    struct mc_view *keys;
    struct mc_span *spans;
    int64_t *results;
    struct mc_view *values;
    struct mc_view *sessions;
    struct mc_view *groups;
    uint64_t acked; /* requests */
    uint64_t reads;
    uint64_t hits;
    uint64_t puts;
};

static bool fail(const char *what, const char *key, enum mc_err err)
{
    fprintf(stderr, "writer: %s: %s: %s (%d)\n", what, key, mc_err_text(err),
            err);
    return false;
}

/* A block more, for the marks. */
static size_t pool_bytes(const struct writer *writer)
{
    return (trace_pool_blocks(&writer->trace) + 1) *
           writer->options.block_bytes;
}

static bool open_master(struct writer *writer)
{
    const struct mc_client_opts opts = {
        .master = writer->options.master,
        .segment_bytes = MC_NONE,
        .local_buffer_bytes = MC_NONE,
        .any_memory = true,
    };
    enum mc_err err = mc_client_open(&opts, &writer->client);
    return err == MC_OK || fail("open", writer->options.master, err);
}

static bool open_client(struct writer *writer)
{
    const struct options *options = &writer->options;
    if (options->master) {
        return open_master(writer);
    }
    struct mc_client_opts opts = {
        .segment_bytes = pool_bytes(writer),
        .any_memory = true,
        .store = {.default_kv_lease_ttl_ms = MC_NONE,
                  .eviction_high_watermark = 1.0},
        .events = {.bind_endpoint = options->endpoint,
                   .backend_id = "quickstart",
                   .overflow = MC_PUBLISHER_BLOCK},
    };
    enum mc_err err = mc_client_open(&opts, &writer->client);
    if (err != MC_OK && options->is_endpoint_default) {
        fprintf(stderr, "writer: %s is not free, taking another port\n",
                options->endpoint);
        opts.events.bind_endpoint = "tcp://127.0.0.1:0";
        err = mc_client_open(&opts, &writer->client);
    }
    return err == MC_OK || fail("open", options->endpoint, err);
}

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

/* What was just read is leased for a moment and not evicted, so there may be no
 * room: an engine would go on without, here every block shall be stored. */
static bool is_to_be_tried_again(int64_t code, int *tries)
{
    if (code != MC_ERR_NO_AVAILABLE_HANDLE ||
        ++*tries > PATIENCE_MS / PAUSE_MS) {
        return false;
    }
    pause_ms(PAUSE_MS);
    return true;
}

static bool put_mark(struct writer *writer, const char *key)
{
    const struct mc_replicate_config config = {.with_hard_pin = true};
    int tries = 0;
    enum mc_err err;
    do {
        err = mc_client_put(writer->client, mc_view_str(key), "", 1, &config);
    } while (is_to_be_tried_again(err, &tries));
    return err == MC_OK || fail("put", key, err);
}

static bool remove_mark(struct writer *writer, const char *key)
{
    enum mc_err err = mc_client_remove(writer->client, mc_view_str(key), false);
    return err == MC_OK || fail("remove", key, err);
}

static void wait_for_subscribers(struct writer *writer)
{
    const uint64_t wanted = 1 + (uint64_t)writer->options.watchers;
    struct mc_client_stats stats = {0};
    for (int i = 0; i < PATIENCE_MS && stats.events.subscribers < wanted &&
                    !writer->acks.is_closed;
         i++) {
        (void)pipe_line_read(&writer->acks, 1); /* nothing is said yet */
        mc_client_stat(writer->client, &stats);
    }
    if (stats.events.subscribers < wanted) {
        fprintf(stderr,
                "writer: %" PRIu64 " subscribers came, not %" PRIu64 "\n",
                stats.events.subscribers, wanted);
    }
}

/* Writes join/<k> until the follower says that it saw one: from then on it
 * sees everything. */
static bool wait_for_follower(struct writer *writer)
{
    wait_for_subscribers(writer);
    for (int k = 0; k < PATIENCE_MS / 100; k++) {
        char key[32];
        snprintf(key, sizeof key, "join/%d", k);
        if (!put_mark(writer, key)) {
            return false;
        }
        const char *line = pipe_line_read(&writer->acks, 100);
        if (!remove_mark(writer, key)) {
            return false;
        }
        if (line && strcmp(line, "joined") == 0) {
            return true;
        }
        if (writer->acks.is_closed) {
            break;
        }
    }
    fprintf(stderr, "writer: no follower came\n");
    return false;
}

/* Reads acknowledgements; waits while too far ahead of the follower. */
static bool keep_pace(struct writer *writer, uint64_t sent, uint64_t ahead)
{
    for (;;) {
        bool is_ahead = sent - writer->acked > ahead;
        const char *line =
            pipe_line_read(&writer->acks, is_ahead ? PATIENCE_MS : 0);
        if (line) {
            const char *at = line + strlen("ack ");
            uint64_t number;
            if (strncmp(line, "ack ", strlen("ack ")) != 0 ||
                !pipe_number(&at, &number) || number >= sent) {
                fprintf(stderr, "writer: strange answer: %s\n", line);
                return false;
            }
            writer->acked = number + 1;
        } else if (is_ahead) {
            fprintf(stderr, "writer: the follower %s\n",
                    writer->acks.is_closed ? "has gone" : "does not answer");
            return false;
        } else {
            return true;
        }
    }
}

static bool verify(const struct writer *writer, size_t i, uint64_t id)
{
    size_t len = writer->options.block_bytes;
    trace_fill(writer->expected, len, id);
    if (writer->results[i] != (int64_t)len ||
        memcmp(writer->spans[i].data, writer->expected, len) != 0) {
        fprintf(stderr, "writer: %s: wrong bytes were read\n",
                writer->names[i].key);
        return false;
    }
    return true;
}

/* A load that took longer than its lease is done again: its bytes cannot be
 * trusted. */
static int64_t read_again(struct writer *writer, size_t i)
{
    uint64_t size = 0;
    enum mc_err err =
        mc_client_get_into(writer->client, writer->keys[i],
                           writer->spans[i].data, writer->spans[i].len, &size);
    return err == MC_OK ? (int64_t)size : err;
}

/* Reads all blocks of a request at once, and verifies what was found. *missing:
 * how many were not; they stand at the head of keys and names then. */
static bool read_blocks(struct writer *writer,
                        const struct trace_request *request, size_t *missing)
{
    size_t len = writer->options.block_bytes;
    for (size_t i = 0; i < request->count; i++) {
        trace_name(request->ids[i], &writer->names[i]);
        writer->keys[i] = mc_view_str(writer->names[i].key);
        writer->spans[i] = (struct mc_span){writer->bytes + i * len, len};
    }
    enum mc_err err =
        mc_client_batch_get_into(writer->client, writer->keys, writer->spans,
                                 request->count, writer->results);
    if (err != MC_OK) {
        return fail("get", writer->names[0].key, err);
    }
    *missing = 0;
    for (size_t i = 0; i < request->count; i++) {
        if (writer->results[i] == MC_ERR_LEASE_EXPIRED) {
            writer->results[i] = read_again(writer, i);
        }
        if (writer->results[i] == MC_ERR_OBJECT_NOT_FOUND) {
            writer->names[*missing] = writer->names[i];
            trace_fill(writer->bytes + *missing * len, len, request->ids[i]);
            ++*missing;
        } else if (writer->results[i] < 0) {
            return fail("get", writer->names[i].key,
                        (enum mc_err)writer->results[i]);
        } else if (!verify(writer, i, request->ids[i])) {
            return false;
        }
    }
    writer->reads += request->count;
    writer->hits += request->count - *missing;
    return true;
}

/* One call for so many blocks; those without room are left, at the head of the
 * list. */
static bool put_once(struct writer *writer, size_t count, size_t *left)
{
    const struct mc_replicate_config config = {.session_ids = writer->sessions,
                                               .session_id_count = count,
                                               .group_ids = writer->groups,
                                               .group_id_count = count};
    enum mc_err err =
        mc_client_batch_put(writer->client, writer->keys, writer->values, count,
                            &config, writer->results);
    if (err != MC_OK) {
        return fail("put", writer->names[0].key, err);
    }
    *left = 0;
    for (size_t i = 0; i < count; i++) {
        if (writer->results[i] == MC_ERR_NO_AVAILABLE_HANDLE) {
            writer->keys[*left] = writer->keys[i];
            writer->groups[*left] = writer->groups[i];
            writer->values[*left] = writer->values[i];
            ++*left;
        } else if (writer->results[i] != MC_OK) {
            return fail("put", writer->keys[i].data,
                        (enum mc_err)writer->results[i]);
        }
    }
    return true;
}

static bool put_blocks(struct writer *writer,
                       const struct trace_request *request, size_t count)
{
    size_t len = writer->options.block_bytes;
    int tries = 0;
    writer->puts += count;
    for (size_t i = 0; i < count; i++) {
        writer->keys[i] = mc_view_str(writer->names[i].key);
        writer->groups[i] = mc_view_str(writer->names[i].group);
        writer->sessions[i] =
            mc_view_make(request->session, request->session_len);
        writer->values[i] = mc_view_make(writer->bytes + i * len, len);
    }
    for (size_t left = count; left > 0;) {
        size_t before = left;
        if (!put_once(writer, left, &left)) {
            return false;
        }
        tries = left < before ? 0 : tries;
        if (left > 0 &&
            !is_to_be_tried_again(MC_ERR_NO_AVAILABLE_HANDLE, &tries)) {
            return fail("put", writer->keys[0].data,
                        MC_ERR_NO_AVAILABLE_HANDLE);
        }
    }
    return true;
}

static bool use_blocks(struct writer *writer,
                       const struct trace_request *request)
{
    size_t missing;
    return read_blocks(writer, request, &missing) &&
           put_blocks(writer, request, missing);
}

static bool replay(struct writer *writer)
{
    for (uint64_t n = 0; n < writer->trace.count; n++) {
        const struct trace_request *request = &writer->trace.requests[n];
        char key[32];
        snprintf(key, sizeof key, "req/%" PRIu64, n);
        if (!keep_pace(writer, n, AHEAD_MAX - 1) || !put_mark(writer, key)) {
            return false;
        }
        if (!use_blocks(writer, request) || !remove_mark(writer, key)) {
            return false;
        }
    }
    return keep_pace(writer, writer->trace.count, 0);
}

static bool list_one(void *ctx, const struct mc_object_row *row)
{
    const struct list_row line = {.media = row->media,
                                  .last_event_id = row->last_event_id,
                                  .key = row->key,
                                  .session = row->session_id,
                                  .group = row->group_id};
    return list_write(ctx, &line);
}

/* The list as a file, and whether that went well. */
static bool write_list_once(struct writer *writer)
{
    const char *path = writer->options.list_path;
    FILE *file = fopen(path, "we");
    if (!file) {
        fprintf(stderr, "writer: %s: %s\n", path, strerror(errno));
        return false;
    }
    enum mc_err err = mc_client_list(writer->client, list_one, file);
    bool is_written = !ferror(file);
    if (fclose(file) != 0 || !is_written) {
        fprintf(stderr, "writer: %s: %s\n", path, strerror(errno));
        return false;
    }
    return err == MC_OK || fail("list", path, err);
}

/* The store's own list, as of one event: taken between two equal readings of
 * the newest id. */
static bool write_list(struct writer *writer, uint64_t *event_id_out)
{
    for (int i = 0; i < 100; i++) {
        uint64_t before = mc_client_last_event_id(writer->client);
        if (!write_list_once(writer)) {
            return false;
        }
        if (mc_client_last_event_id(writer->client) == before) {
            *event_id_out = before;
            return true;
        }
    }
    fprintf(stderr, "writer: the store does not come to rest\n");
    return false;
}

/* Hands the list over until the follower has compared it. */
static bool agree(struct writer *writer)
{
    for (;;) {
        uint64_t event_id;
        if (!write_list(writer, &event_id) ||
            !pipe_line_write(STDOUT_FILENO, "end %" PRIu64 " %s", event_id,
                             writer->options.list_path)) {
            return false;
        }
        const char *line = pipe_line_read(&writer->acks, PATIENCE_MS);
        if (!line) {
            fprintf(stderr, "writer: the follower has not compared the list\n");
            return false;
        }
        if (strcmp(line, "again") != 0) {
            return strcmp(line, "done") == 0;
        }
    }
}

static bool make_room(struct writer *writer)
{
    size_t count = writer->trace.longest;
    size_t len = writer->options.block_bytes;
    writer->bytes = calloc(count, len);
    writer->expected = malloc(len);
    writer->names = calloc(count, sizeof *writer->names);
    writer->keys = calloc(count, sizeof *writer->keys);
    writer->spans = calloc(count, sizeof *writer->spans);
    writer->results = calloc(count, sizeof *writer->results);
    writer->values = calloc(count, sizeof *writer->values);
    writer->sessions = calloc(count, sizeof *writer->sessions);
    writer->groups = calloc(count, sizeof *writer->groups);
    return (writer->bytes && writer->expected && writer->names &&
            writer->keys && writer->spans && writer->results &&
            writer->values && writer->sessions && writer->groups) ||
           fail("start", "blocks", MC_ERR_NOMEM);
}

static void free_room(struct writer *writer)
{
    free(writer->bytes);
    free(writer->expected);
    free(writer->names);
    free(writer->keys);
    free(writer->spans);
    free(writer->results);
    free(writer->values);
    free(writer->sessions);
    free(writer->groups);
}

static bool run(struct writer *writer)
{
    struct mc_client_stats stats;
    if (writer->options.wants_pool) {
        return printf("%zu\n", pool_bytes(writer)) > 0;
    }
    if (!make_room(writer) || !open_client(writer)) {
        return false;
    }
    mc_client_stat(writer->client, &stats);
    if (!pipe_line_write(STDOUT_FILENO, "ready %s", stats.events.endpoint) ||
        !wait_for_follower(writer) || !replay(writer)) {
        return false;
    }
    mc_client_stat(writer->client, &stats);
    return pipe_line_write(
               STDOUT_FILENO,
               "stats %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
               writer->reads, writer->hits, writer->puts, stats.evicted_objects,
               stats.events.blocked_writers) &&
           agree(writer);
}

int main(int argc, char **argv)
{
    struct writer writer = {.acks = {.fd = STDIN_FILENO}};
    signal(SIGPIPE, SIG_IGN);
    int code = options_read(argc, argv, "writer", &writer.options);
    if (code != 0) {
        return code;
    }
    if (!writer.options.list_path && !writer.options.wants_pool) {
        fprintf(stderr, "writer: --list FILE is needed\n");
        return 2;
    }
    bool is_done =
        trace_read(writer.options.trace_path, &writer.trace) && run(&writer);
    mc_client_close(writer.client);
    free_room(&writer);
    trace_free(&writer.trace);
    return is_done ? 0 : 1;
}
