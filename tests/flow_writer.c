/* SPDX-License-Identifier: Apache-2.0 */
/* A store that publishes, driven over stdin by the flow tests: it does what a
 * seeded random generator says to a few hundred keys, in a space too small for
 * them, and tells where it stands.
 *
 * usage: flow_writer SEED HWM_BYTES
 *
 * Says "ready ENDPOINT". Then, a line each:
 *   wait N      until N subscribers are there      -> "waited N"
 *   go N        does N operations                  -> "did LAST_ID MS"
 *   pace N      from now on at most N ids ahead of the last "ack ID"
 *   ack ID      none
 *   list FILE   what the store holds, JSON lines   -> "listed LAST_ID KEYS"
 *   stat        counters -> "stat DROPPED BLOCKED PUBLISHED EVICTED"
 * and ends with its input. */
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mc_client.h"

#define KEYS 400
#define SESSIONS 20
#define OBJECT_MAX 3000
#define BATCH 16

struct driver {
    struct mc_client *client;
    uint64_t random;
    uint64_t pace;  /* 0: none */
    uint64_t acked; /* id */
    size_t begin;   /* unread input */
    size_t end;
    char input[4096];
    unsigned char bytes[OBJECT_MAX];
};

static uint64_t below(struct driver *driver, uint64_t n)
{
    uint64_t x = driver->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    driver->random = x;
    return (x >> 11) % n;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Names of every kind that is legal: ASCII, UTF-8, control characters. */
static struct mc_view name(char *text, size_t capacity, const char *kind,
                           uint64_t number)
{
    static const char *const marks[] = {"/", "-\xc3\xa9-", "\n\t\"\\",
                                        "\xf0\x9f\x98\x80"};
    int len = snprintf(text, capacity, "%s%s%" PRIu64, kind, marks[number % 4],
                       number);
    return mc_view_make(text, (size_t)len);
}

/* One batch of rows that a call takes: keys, values, tags. */
struct rows {
    size_t count;
    struct mc_view keys[BATCH];
    struct mc_view values[BATCH];
    struct mc_view sessions[BATCH];
    struct mc_view groups[BATCH];
    int64_t results[BATCH];
    char key_texts[BATCH][64];
    char session_texts[BATCH][64];
    char group_texts[BATCH][64];
};

static void rows_make(struct driver *driver, struct rows *rows, size_t count)
{
    *rows = (struct rows){.count = count};
    for (size_t i = 0; i < count; i++) {
        uint64_t number = below(driver, KEYS);
        rows->keys[i] = name(rows->key_texts[i], 64, "key", number);
        rows->values[i] =
            mc_view_make(driver->bytes, 1 + below(driver, OBJECT_MAX));
        if (below(driver, 4) > 0) {
            rows->sessions[i] = name(rows->session_texts[i], 64, "session",
                                     below(driver, SESSIONS));
        }
        if (number % 3 > 0) { /* a key keeps its group */
            rows->groups[i] =
                name(rows->group_texts[i], 64, "group", number % SESSIONS);
        }
    }
}

/* Codes that a store under pressure may answer; others end the test. */
static bool is_expected(int64_t result)
{
    return result >= 0 || result == MC_ERR_NO_AVAILABLE_HANDLE ||
           result == MC_ERR_OBJECT_NOT_FOUND ||
           result == MC_ERR_OBJECT_HAS_LEASE;
}

static enum mc_err operate(struct driver *driver, struct rows *rows)
{
    struct mc_client *client = driver->client;
    const struct mc_replicate_config config = {.session_ids = rows->sessions,
                                               .session_id_count = rows->count,
                                               .group_ids = rows->groups,
                                               .group_id_count = rows->count};
    uint64_t removed;
    uint64_t kind = below(driver, 1000);
    if (kind < 500) {
        return mc_client_batch_put(client, rows->keys, rows->values,
                                   rows->count, &config, rows->results);
    }
    if (kind < 750) {
        return mc_client_batch_upsert(client, rows->keys, rows->values,
                                      rows->count, &config, rows->results);
    }
    if (kind < 850) {
        return mc_client_batch_remove(client, rows->keys, rows->count,
                                      kind % 2 == 0, rows->results);
    }
    if (kind < 990) {
        return mc_client_batch_exist(client, rows->keys, rows->count,
                                     rows->results);
    }
    if (kind < 999) {
        return mc_client_remove_by_regex(client, mc_view_str("key/.*7$"), true,
                                         &removed);
    }
    return mc_client_remove_all(client, true, &removed);
}

/* The next line of input, or NULL: none yet (unless it may wait), or the end. */
static char *next_line(struct driver *driver, bool may_wait)
{
    for (;;) {
        char *begin = driver->input + driver->begin;
        char *feed = memchr(begin, '\n', driver->end - driver->begin);
        if (feed) {
            *feed = 0;
            driver->begin = (size_t)(feed + 1 - driver->input);
            return begin;
        }
        memmove(driver->input, begin, driver->end - driver->begin);
        driver->end -= driver->begin;
        driver->begin = 0;
        struct pollfd watched = {.fd = STDIN_FILENO, .events = POLLIN};
        if (!may_wait && poll(&watched, 1, 0) == 0) {
            return NULL;
        }
        ssize_t got = read(STDIN_FILENO, driver->input + driver->end,
                           sizeof driver->input - driver->end);
        if (got <= 0) {
            return NULL;
        }
        driver->end += (size_t)got;
    }
}

/* Takes acknowledgements; waits while too far ahead of them. */
static bool keep_pace(struct driver *driver)
{
    while (driver->pace > 0) {
        uint64_t last = mc_client_last_event_id(driver->client);
        bool is_ahead = last > driver->acked + driver->pace;
        char *line = next_line(driver, is_ahead);
        if (!line) {
            return !is_ahead;
        }
        if (sscanf(line, "ack %" SCNu64, &driver->acked) != 1) {
            fprintf(stderr, "flow_writer: not an ack: %s\n", line);
            return false;
        }
    }
    return true;
}

static bool go(struct driver *driver, uint64_t count)
{
    struct rows rows;
    uint64_t begin = now_ms();
    for (uint64_t i = 0; i < count; i++) {
        rows_make(driver, &rows, 1 + below(driver, BATCH));
        enum mc_err err = operate(driver, &rows);
        for (size_t row = 0; row < rows.count; row++) {
            if (err != MC_OK || !is_expected(rows.results[row])) {
                fprintf(stderr,
                        "flow_writer: operation: %d, row: %" PRId64 "\n", err,
                        rows.results[row]);
                return false;
            }
        }
        if (!keep_pace(driver)) {
            return false;
        }
    }
    printf("did %" PRIu64 " %" PRIu64 "\n",
           mc_client_last_event_id(driver->client), now_ms() - begin);
    return true;
}

static void add_text(struct json_object *object, const char *field,
                     struct mc_view text)
{
    json_object_object_add(
        object, field,
        text.data ? json_object_new_string_len(text.data, (int)text.len)
                  : NULL);
}

struct listing {
    FILE *file;
    uint64_t keys;
};

static bool list_row(void *ctx, const struct mc_object_row *row)
{
    struct listing *listing = ctx;
    struct json_object *object = json_object_new_object();
    add_text(object, "tenant", row->tenant_id);
    add_text(object, "key", row->key);
    add_text(object, "session", row->session_id);
    add_text(object, "group", row->group_id);
    json_object_object_add(object, "media",
                           json_object_new_int((int)row->media));
    json_object_object_add(object, "event_id",
                           json_object_new_uint64(row->last_event_id));
    fprintf(listing->file, "%s\n",
            json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
    listing->keys++;
    return true;
}

/* Between two equal readings of the newest id. */
static bool list(struct driver *driver, const char *path)
{
    struct listing listing;
    uint64_t before;
    do {
        before = mc_client_last_event_id(driver->client);
        listing = (struct listing){.file = fopen(path, "we")};
        if (!listing.file ||
            mc_client_list(driver->client, list_row, &listing) != MC_OK ||
            fclose(listing.file) != 0) {
            return false;
        }
    } while (mc_client_last_event_id(driver->client) != before);
    printf("listed %" PRIu64 " %" PRIu64 "\n", before, listing.keys);
    return true;
}

static void wait_for(struct driver *driver, uint64_t subscribers)
{
    struct mc_client_stats stats = {0};
    for (int i = 0; i < 30000 && stats.events.subscribers < subscribers; i++) {
        poll(NULL, 0, 1);
        mc_client_stat(driver->client, &stats);
    }
    printf("waited %" PRIu64 "\n", stats.events.subscribers);
}

static bool obey(struct driver *driver, const char *line)
{
    char path[1024];
    uint64_t number;
    struct mc_client_stats stats;
    if (sscanf(line, "go %" SCNu64, &number) == 1) {
        return go(driver, number);
    }
    if (sscanf(line, "wait %" SCNu64, &number) == 1) {
        wait_for(driver, number);
        return true;
    }
    if (sscanf(line, "pace %" SCNu64, &driver->pace) == 1 ||
        sscanf(line, "ack %" SCNu64, &driver->acked) == 1) {
        return true;
    }
    if (sscanf(line, "list %1023s", path) == 1) {
        return list(driver, path);
    }
    if (strcmp(line, "stat") == 0) {
        mc_client_stat(driver->client, &stats);
        printf("stat %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
               stats.events.dropped_events, stats.events.blocked_writers,
               stats.events.published_events, stats.evicted_objects);
        return true;
    }
    fprintf(stderr, "flow_writer: what is %s\n", line);
    return false;
}

int main(int argc, char **argv)
{
    struct mc_client_stats stats;
    if (argc != 3) {
        fprintf(stderr, "usage: flow_writer SEED HWM_BYTES\n");
        return 2;
    }
    struct driver driver = {.random = strtoull(argv[1], NULL, 10) * 2 + 1};
    const struct mc_client_opts opts = {
        .segment_bytes = 256 << 10, /* about half of what the keys want */
        /* No background eviction: after the last operation nothing changes. */
        .store = {.default_kv_lease_ttl_ms = MC_NONE,
                  .eviction_high_watermark = 1.0},
        .events = {.bind_endpoint = "tcp://127.0.0.1:0",
                   .backend_id = "flow",
                   .overflow = MC_PUBLISHER_BLOCK,
                   .hwm_bytes = strtoull(argv[2], NULL, 10)}};
    enum mc_err err = mc_client_open(&opts, &driver.client);
    if (err != MC_OK) {
        fprintf(stderr, "flow_writer: open: %s (%d)\n", mc_err_text(err), err);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    mc_client_stat(driver.client, &stats);
    printf("ready %s\n", stats.events.endpoint);
    bool is_good = true;
    for (char *line; is_good && (line = next_line(&driver, true));) {
        is_good = obey(&driver, line);
    }
    mc_client_close(driver.client);
    return is_good ? 0 : 1;
}
