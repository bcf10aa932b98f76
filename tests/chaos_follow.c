/* SPDX-License-Identifier: Apache-2.0 */
/* chaos_follow.c - a subscriber that says what it believes.
 *
 * usage: chaos_follow ENDPOINT RECOVERY now|snapshot KEYS [SERVER_KEY KEY_FILE]
 *
 * RECOVERY is - for none. Keys are the numbers 1..KEYS as text. What the callbacks
 * were told is kept apart from the mirror, and for each key and medium it must
 * alternate. Commands come by line:
 *   dump  the mirror, a line `KEY MEDIUM SESSION` each (- for none), then `dumped N`
 *   stat  one line of JSON: counters, signals heard, and the faults found: places
 *         in which mirror, callbacks and index differ, and events out of turn
 *   slow N  every event takes N microseconds of work from here on; answered `slow`
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mc_subscriber.h"

#define QUEUE_BYTES (UINT64_C(2) << 20)
#define MEDIA 2

static struct {
    struct mc_subscriber *subscriber;
    struct mc_index *index;
    uint64_t keys;
    uint8_t *told; /* media of each key, as callbacks said */
    long slow_us;
    uint64_t out_of_turn;
    uint64_t foreign; /* keys that nobody writes */
    uint64_t signals[8];
    uint64_t left_ids; /* lost or refused in runs that are over */
    bool is_open; /* what was lost or refused is not said to be made good */
} follow;

/* 0: none of ours. */
static uint64_t number_of(struct mc_view key)
{
    uint64_t number = 0;
    const char *text = key.data;
    for (size_t i = 0; i < key.len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return 0;
        }
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    return number <= follow.keys ? number : 0;
}

static uint8_t medium_bit(struct mc_view medium)
{
    return mc_view_equal(medium, mc_view_str("cpu")) ? 1 : 2;
}

static void work(long us)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t until = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + us;
    while (us > 0 &&
           (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 < until) {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    }
}

static void hear_event(void *ctx, const struct mc_delivery *delivery)
{
    const struct mc_event *event = delivery->event;
    (void)ctx;
    work(follow.slow_us);
    if (event->type == MC_EVENT_CLEARED) {
        memset(follow.told, 0, follow.keys + 1);
        return;
    }
    uint64_t number = number_of(event->object_key);
    if (number == 0) {
        follow.foreign++;
        return;
    }
    uint8_t bit = medium_bit(event->medium);
    if (event->type == MC_EVENT_STORED) {
        follow.out_of_turn += (follow.told[number] & bit) != 0;
        follow.told[number] |= bit;
    } else {
        follow.told[number] &=
            (uint8_t)~bit; /* joined late, we may not know it */
    }
}

static uint64_t not_delivered(void)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(follow.subscriber, 0, &stats);
    return stats.lost_ids + stats.refused_ids;
}

static void hear_signal(void *ctx, const struct mc_signal *signal)
{
    (void)ctx;
    follow.signals[signal->type]++;
    follow.is_open = signal->type == MC_SIGNAL_GAP ||
                     signal->type == MC_SIGNAL_DEGRADED ||
                     (follow.is_open && signal->type == MC_SIGNAL_EPOCH);
    if (signal->type == MC_SIGNAL_EPOCH) {
        follow.left_ids = not_delivered();
    }
    if (signal->type == MC_SIGNAL_STALE) {
        memset(follow.told, 0, follow.keys + 1);
    }
    fprintf(stderr,
            "signal %s ids %" PRIu64 "-%" PRIu64 " seqs %" PRIu64 "-%" PRIu64
            " epoch %016" PRIx64 " %s%s\n",
            mc_signal_name(signal->type), signal->from_id, signal->to_id,
            signal->from_seq, signal->to_seq, signal->epoch,
            signal->type == MC_SIGNAL_DEGRADED ? mc_signal_reason(signal) : "",
            signal->by_snapshot ? "by snapshot" : "");
}

/* ---- what it believes ----------------------------------------------------------- */

static bool dump_entry(void *ctx, const struct mc_mirror_entry *entry)
{
    size_t *count = ctx;
    bool has_session = entry->session_id.len > 0;
    printf("%.*s %.*s %.*s\n", (int)entry->object_key.len,
           (const char *)entry->object_key.data, (int)entry->medium.len,
           (const char *)entry->medium.data,
           has_session ? (int)entry->session_id.len : 1,
           has_session ? (const char *)entry->session_id.data : "-");
    (*count)++;
    return true;
}

static void dump(void)
{
    size_t count = 0;
    mc_subscriber_mirror_walk(follow.subscriber, dump_entry, &count);
    printf("dumped %zu\n", count);
}

/* Entries that the callbacks or the index do not know. */
struct comparison {
    struct mc_index_reader *reader;
    uint64_t entries;
    uint64_t untold;
    uint64_t unindexed;
};

static bool compare_entry(void *ctx, const struct mc_mirror_entry *entry)
{
    struct comparison *comparison = ctx;
    uint64_t number = number_of(entry->object_key);
    uint8_t bit = medium_bit(entry->medium);
    struct mc_index_place places[8];
    struct mc_index_match match = {.places = places, .place_capacity = 8};
    comparison->entries++;
    comparison->untold += !(follow.told[number] & bit);
    mc_index_match(comparison->reader, entry->tenant_id, &number, 1, &match);
    enum mc_tier tier = bit == 1 ? MC_TIER_EXTERNAL : MC_TIER_DISK;
    bool is_there = false;
    for (size_t i = 0; i < match.place_count; i++) {
        is_there |= places[i].tier == tier && places[i].blocks == 1;
    }
    comparison->unindexed += !is_there;
    return true;
}

static uint64_t told_places(void)
{
    uint64_t count = 0;
    for (uint64_t i = 1; i <= follow.keys; i++) {
        count += (follow.told[i] & 1) + (follow.told[i] >> 1);
    }
    return count;
}

static void print_faults(void)
{
    struct comparison comparison = {.reader = NULL};
    struct mc_index_stats index;
    if (mc_index_reader_create(follow.index, &comparison.reader) != MC_OK) {
        abort();
    }
    mc_subscriber_mirror_walk(follow.subscriber, compare_entry, &comparison);
    mc_index_reader_destroy(comparison.reader);
    mc_index_stats(follow.index, &index);
    printf("\"entries\":%" PRIu64 ",\"untold\":%" PRIu64
           ",\"unindexed\":%" PRIu64 ",\"told\":%" PRIu64
           ",\"resident\":%" PRIu64 ",\"out_of_turn\":%" PRIu64
           ",\"foreign\":%" PRIu64,
           comparison.entries, comparison.untold, comparison.unindexed,
           told_places(), index.resident, follow.out_of_turn, follow.foreign);
}

static void print_stat(void)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(follow.subscriber, 0, &stats);
    printf("{");
    print_faults();
    for (int type = MC_SIGNAL_GAP; type <= MC_SIGNAL_STALE; type++) {
        printf(",\"%s\":%" PRIu64, mc_signal_name((enum mc_signal_type)type),
               follow.signals[type]);
    }
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {{"epoch_now", stats.epoch},
                   {"last_seq", stats.last_seq},
                   {"baseline_id", stats.baseline_id},
                   {"last_event_id", stats.last_event_id},
                   {"span_ids", stats.span_ids},
                   {"events", stats.events},
                   {"refused_ids", stats.refused_ids},
                   {"lost_ids", stats.lost_ids},
                   {"duplicates", stats.duplicates},
                   {"strays", stats.strays},
                   {"contradictions", stats.contradictions},
                   {"restarts", stats.restarts},
                   {"connects", stats.connects},
                   {"refused_messages", stats.refused_messages},
                   {"refused_events", stats.refused_events},
                   {"queue_full", stats.queue_full},
                   {"queue_bytes", stats.queue_bytes},
                   {"is_open", follow.is_open},
                   {"missing_ids", not_delivered() - follow.left_ids},
                   {"is_recovering", stats.is_recovering},
                   {"by_replay", stats.recoveries_by_replay},
                   {"by_snapshot", stats.recoveries_by_snapshot},
                   {"requests", stats.requests},
                   {"replays_asked", stats.replays_asked},
                   {"snapshots_asked", stats.snapshots_asked},
                   {"statuses_asked", stats.statuses_asked},
                   {"failed_requests", stats.failed_requests},
                   {"refetched_ids", stats.refetched_ids},
                   {"covered_ids", stats.covered_ids},
                   {"tombstones", stats.tombstones}};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        printf(",\"%s\":%" PRIu64, figures[i].name, figures[i].value);
    }
    printf("}\n");
}

/* ---- the loop -------------------------------------------------------------------- */

/* Reads what there is of commands; false at the end of the input. */
static bool obey(void)
{
    static char line[128];
    static size_t len;
    ssize_t got = read(STDIN_FILENO, line + len, sizeof line - 1 - len);
    if (got <= 0) {
        return false;
    }
    len += (size_t)got;
    char *end;
    while ((end = memchr(line, '\n', len))) {
        *end = '\0';
        if (strcmp(line, "dump") == 0) {
            dump();
        } else if (strcmp(line, "stat") == 0) {
            print_stat();
        } else if (strncmp(line, "slow ", 5) == 0) {
            follow.slow_us = strtol(line + 5, NULL, 10);
            puts("slow");
        }
        (void)fflush(stdout);
        size_t used = (size_t)(end + 1 - line);
        len -= used;
        memmove(line, end + 1, len);
    }
    return len < sizeof line - 1;
}

static int run(void)
{
    struct pollfd fds[2] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = mc_subscriber_fd(follow.subscriber), .events = POLLIN}};
    for (;;) {
        (void)poll(fds, 2, -1);
        if (fds[1].revents &&
            mc_subscriber_poll(follow.subscriber, 0, 64, NULL) != MC_OK) {
            return 1;
        }
        if (fds[0].revents && !obey()) {
            return 0;
        }
    }
}

static enum mc_err open_all(int argc, char **argv)
{
    struct mc_index_opts index = {.max_nodes = 1 << 20};
    const struct mc_source_opts source = {
        .endpoint = argv[1],
        .recovery_endpoint = strcmp(argv[2], "-") == 0 ? NULL : argv[2],
        .begin =
            strcmp(argv[3], "snapshot") == 0 ? MC_BEGIN_SNAPSHOT : MC_BEGIN_NOW,
        .curve_server_key = argc > 5 ? argv[5] : NULL,
        .curve_key_file = argc > 5 ? argv[6] : NULL};
    enum mc_err err = mc_key_layout_parse(mc_view_str("u64"),
                                          mc_view_make(NULL, 0), &index.layout);
    if (!err) {
        err = mc_index_create(&index, &follow.index);
    }
    const struct mc_subscriber_opts opts = {.sources = &source,
                                            .source_count = 1,
                                            .index = follow.index,
                                            .max_queue_bytes = QUEUE_BYTES,
                                            .on_event = hear_event,
                                            .on_signal = hear_signal};
    return err ? err : mc_subscriber_open(&opts, &follow.subscriber);
}

int main(int argc, char **argv)
{
    if (argc != 5 && argc != 7) {
        fprintf(stderr,
                "usage: chaos_follow ENDPOINT RECOVERY now|snapshot KEYS "
                "[SERVER_KEY KEY_FILE]\n");
        return 2;
    }
    follow.keys = strtoull(argv[4], NULL, 10);
    follow.told = calloc(follow.keys + 1, 1);
    if (!follow.told || open_all(argc, argv) != MC_OK) {
        fprintf(stderr, "chaos_follow: cannot begin\n");
        return 1;
    }
    puts("ready");
    (void)fflush(stdout);
    int code = run();
    mc_subscriber_close(follow.subscriber);
    mc_index_destroy(follow.index);
    free(follow.told);
    return code;
}
