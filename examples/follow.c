/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - follows a store's events and keeps a mirror of what it holds.
 *
 * usage: follow [ENDPOINT [COUNT [RECOVERY]]]
 *
 * Prints each event and signal; ends after COUNT events about keys and then
 * prints what the mirror holds. With RECOVERY, the endpoint of the store's
 * recovery server, it begins with all that the store holds, and what is missed
 * later is made good. Links nothing of the store. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mc_subscriber.h"

#define SILENCE_MS 30000

/* Keys are any UTF-8: what would confuse a terminal is shown as \xHH. */
static void print_text(const char *before, struct mc_view text)
{
    const unsigned char *bytes = text.data;
    printf("%s", before);
    for (size_t i = 0; i < text.len; i++) {
        if (bytes[i] < 0x20 || bytes[i] == 0x7f || bytes[i] == '\\') {
            printf("\\x%02x", bytes[i]);
        } else {
            putchar(bytes[i]);
        }
    }
}

static void print_event(const struct mc_event *event)
{
    printf("%" PRIu64 " %s", event->event_id, mc_event_type_name(event->type));
    print_text(" ", event->medium);
    print_text(" ", event->object_key);
    if (event->session_id.data) {
        print_text(" session ", event->session_id);
    }
    printf("\n");
}

static void print_signal(const struct mc_signal *signal)
{
    printf("*** %s", mc_signal_name(signal->type));
    if (signal->type == MC_SIGNAL_GAP) {
        printf(": events %" PRIu64 " to %" PRIu64 " were missed",
               signal->from_id, signal->to_id);
    }
    if (signal->type == MC_SIGNAL_RECOVERED) {
        printf(": by %s", signal->by_snapshot ? "snapshot" : "replay");
    }
    if (signal->type == MC_SIGNAL_DEGRADED) {
        printf(": %s", mc_signal_reason(signal));
    }
    printf("\n");
}

static bool print_entry(void *ctx, const struct mc_mirror_entry *entry)
{
    (void)ctx;
    print_text("held: ", entry->object_key);
    print_text(" in ", entry->medium);
    print_text(" by ", entry->session_id);
    printf("\n");
    return true;
}

int main(int argc, char **argv)
{
    const struct mc_source_opts source = {
        .endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5557",
        .recovery_endpoint = argc > 3 ? argv[3] : NULL,
        .begin = argc > 3 ? MC_BEGIN_SNAPSHOT : MC_BEGIN_NOW};
    const struct mc_subscriber_opts opts = {.sources = &source,
                                            .source_count = 1};
    uint64_t wanted = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_MAX;
    struct mc_subscriber *subscriber;
    struct mc_subscriber_item item;
    enum mc_err err = mc_subscriber_open(&opts, &subscriber);
    if (err != MC_OK) {
        fprintf(stderr, "follow: open: %s (%d)\n", mc_err_text(err), err);
        return 1;
    }
    for (uint64_t seen = 0; seen < wanted;) {
        err = mc_subscriber_next(subscriber, SILENCE_MS, &item);
        if (err == MC_ERR_RPC_TIMEOUT && wanted == UINT64_MAX) {
            continue; /* nothing has happened, that is all */
        }
        if (err != MC_OK) {
            break;
        }
        if (item.signal) {
            print_signal(item.signal);
        } else {
            print_event(item.delivery->event);
            seen += item.delivery->event->type != MC_EVENT_CLEARED;
        }
        fflush(stdout);
    }
    if (err == MC_OK) {
        mc_subscriber_mirror_walk(subscriber, print_entry, NULL);
        printf("%zu entries\n", mc_subscriber_mirror_count(subscriber));
    } else {
        fprintf(stderr, "follow: %s (%d)\n", mc_err_text(err), err);
    }
    mc_subscriber_close(subscriber);
    return err == MC_OK ? 0 : 1;
}
