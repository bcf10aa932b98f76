/* SPDX-License-Identifier: Apache-2.0 */
/* quickstart_writer.c - an engine's side of the quickstart: embeds the store,
 * replays the requests of a trace against it, and publishes.
 *
 * Each block is read and verified, and put where it is not found. The pool is
 * a tenth of the trace's blocks, so eviction works all the time. Before request
 * n the one-byte key req/<n> is put, and removed after it: the follower takes
 * it as the moment at which to answer. stdin and stdout are the pipes to the
 * follower (pipe_lines.h); words for people go to stderr. */
#include <errno.h>
#include <inttypes.h>
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

struct writer {
    struct options options;
    struct trace trace;
    struct mc_client *client;
    struct pipe_reader acks;
    unsigned char *bytes;    /* as read */
    unsigned char *expected; /* as they must be */
    uint64_t acked;          /* requests */
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

/* The bytes of a block: pseudorandom, from its id alone. */
static void fill(unsigned char *bytes, size_t len, uint64_t id)
{
    uint64_t state = id + 1;
    for (size_t i = 0; i < len; i += sizeof state) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t word = state;
        word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
        word ^= word >> 31;
        size_t left = len - i < sizeof word ? len - i : sizeof word;
        memcpy(bytes + i, &word, left);
    }
}

static bool open_client(struct writer *writer)
{
    const struct options *options = &writer->options;
    size_t blocks = trace_pool_blocks(&writer->trace) + 1; /* and req/<n> */
    struct mc_client_opts opts = {
        .segment_bytes = blocks * options->block_bytes,
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

static bool put_mark(struct writer *writer, const char *key)
{
    const struct mc_replicate_config config = {.with_hard_pin = true};
    enum mc_err err =
        mc_client_put(writer->client, mc_view_str(key), "", 1, &config);
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

static bool verify(const struct writer *writer, uint64_t size,
                   const struct trace_names *names)
{
    if (size != writer->options.block_bytes ||
        memcmp(writer->bytes, writer->expected, size) != 0) {
        fprintf(stderr, "writer: %s: wrong bytes were read\n", names->key);
        return false;
    }
    return true;
}

static bool use_block(struct writer *writer,
                      const struct trace_request *request, uint64_t id)
{
    struct trace_names names;
    uint64_t size = 0;
    size_t len = writer->options.block_bytes;
    trace_name(id, &names);
    fill(writer->expected, len, id);
    writer->reads++;
    enum mc_err err = mc_client_get_into(writer->client, mc_view_str(names.key),
                                         writer->bytes, len, &size);
    if (err == MC_OK) {
        writer->hits++;
        return verify(writer, size, &names);
    }
    if (err != MC_ERR_OBJECT_NOT_FOUND) {
        return fail("get", names.key, err);
    }
    const struct mc_view session =
        mc_view_make(request->session, request->session_len);
    const struct mc_view group = mc_view_str(names.group);
    const struct mc_replicate_config config = {.session_ids = &session,
                                               .session_id_count = 1,
                                               .group_ids = &group,
                                               .group_id_count = 1};
    err = mc_client_put(writer->client, mc_view_str(names.key),
                        writer->expected, len, &config);
    writer->puts++;
    return err == MC_OK || fail("put", names.key, err);
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
        for (size_t i = 0; i < request->count; i++) {
            if (!use_block(writer, request, request->ids[i])) {
                return false;
            }
        }
        if (!remove_mark(writer, key)) {
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

static bool run(struct writer *writer)
{
    struct mc_client_stats stats;
    writer->bytes = malloc(writer->options.block_bytes);
    writer->expected = malloc(writer->options.block_bytes);
    if (!writer->bytes || !writer->expected) {
        return fail("start", "blocks", MC_ERR_NOMEM);
    }
    if (!open_client(writer)) {
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
    if (!writer.options.list_path) {
        fprintf(stderr, "writer: --list FILE is needed\n");
        return 2;
    }
    bool is_done =
        trace_read(writer.options.trace_path, &writer.trace) && run(&writer);
    mc_client_close(writer.client);
    free(writer.bytes);
    free(writer.expected);
    trace_free(&writer.trace);
    return is_done ? 0 : 1;
}
