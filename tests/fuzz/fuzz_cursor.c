/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of messages through a subscriber: numbers, ids and epochs near where
 * it stands or far off, whole messages, cut ones and flipped ones. Whatever
 * comes, every id is in one state, ids that an epoch vouches for rise as long as
 * nothing else was said, and the mirror holds exactly what the callbacks told.
 */
#include <string.h>

#include "fuzz_bytes.h"
#include "mc_event_writer.h"
#include "mc_subscriber.h"
#include "mci_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEYS 16
#define EVENTS_MAX 15
#define PAYLOAD_MAX 16384

struct model {
    bool is_there[KEYS];
    uint64_t epoch;
    uint64_t last_id; /* that was told, of this epoch */
    bool is_told;     /* a gap, stale or epoch since then */
    bool is_odd;      /* a flipped bit made a place that is not modelled */
};

struct script {
    struct fuzz_bytes bytes;
    struct mc_event_writer *writer;
    struct mc_subscriber *subscriber;
    struct model model;
};

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct model *model = ctx;
    const struct mc_event *event = delivery->event;
    if (event->epoch != 0 && !model->is_told) {
        require(event->epoch == model->epoch);
        require(event->event_id > model->last_id);
    }
    model->is_told = false;
    model->epoch = event->epoch;
    model->last_id = event->event_id;
    if (!mc_view_equal(event->tenant_id, mc_view_str("default")) ||
        !mc_view_equal(event->backend_id, mc_view_str("n1"))) {
        model->is_odd = true;
    } else if (event->type == MC_EVENT_CLEARED) {
        memset(model->is_there, 0, sizeof model->is_there);
    } else if (event->object_key.len == 1 &&
               mc_view_equal(event->medium, mc_view_str("cpu"))) {
        unsigned key = *(const uint8_t *)event->object_key.data - 'a';
        if (key < KEYS) {
            model->is_there[key] = event->type == MC_EVENT_STORED;
        }
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct model *model = ctx;
    model->is_told |= signal->type != MC_SIGNAL_DEGRADED;
    if (signal->type == MC_SIGNAL_STALE) {
        memset(model->is_there, 0, sizeof model->is_there);
        model->is_odd = false;
    }
}

static void check(struct script *script)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(script->subscriber, 0, &stats);
    require(stats.events + stats.refused_ids + stats.lost_ids ==
            stats.span_ids);
    require(stats.events == stats.stored + stats.removed + stats.cleared);
    for (int i = 0; i < KEYS; i++) {
        char key = (char)('a' + i);
        struct mc_mirror_entry entry;
        bool is_there = mc_subscriber_mirror_get(
            script->subscriber, 0, mc_view_str("default"),
            mc_view_make(&key, 1), mc_view_str("cpu"), &entry);
        require(script->model.is_odd || is_there == script->model.is_there[i]);
    }
}

static size_t write_payload(struct script *script, uint64_t first_id,
                            uint8_t *payload)
{
    struct mc_event_record records[EVENTS_MAX];
    char keys[EVENTS_MAX];
    size_t count = fuzz_byte(&script->bytes) % (EVENTS_MAX + 1);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = fuzz_byte(&script->bytes);
        keys[i] = (char)('a' + byte % KEYS);
        records[i] = (struct mc_event_record){
            .type = byte < 130   ? MC_EVENT_STORED
                    : byte < 250 ? MC_EVENT_REMOVED
                                 : MC_EVENT_CLEARED,
            .event_id = first_id + i,
            .tenant_id = mc_view_str("default"),
            .backend_id = mc_view_str("n1"),
            .medium = mc_view_str("cpu"),
            .object_key = mc_view_make(&keys[i], 1),
        };
    }
    enum mc_err err = mc_event_writer_batch(script->writer, 1, records, count,
                                            payload, PAYLOAD_MAX, &len);
    require(err == MC_OK);
    return len;
}

static void send_message(struct script *script)
{
    static uint8_t payload[PAYLOAD_MAX];
    struct mc_source_stats stats;
    uint8_t seq[8];
    uint8_t what = fuzz_byte(&script->bytes);
    mc_subscriber_stats(script->subscriber, 0, &stats);
    if (what > 240) {
        mc_event_writer_set_epoch(script->writer, what - 241);
    }
    mci_put_be64(seq, fuzz_near(&script->bytes, stats.last_seq));
    uint64_t first_id = fuzz_near(&script->bytes, stats.last_event_id);
    size_t len = write_payload(script, first_id, payload);
    if (what > 200 && what < 220) {
        payload[fuzz_byte(&script->bytes) % len] ^= fuzz_byte(&script->bytes);
    } else if (what >= 220 && what < 230) {
        len -= fuzz_byte(&script->bytes) % len;
    }
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq, 8),
                                mc_view_make(payload, len)};
    require(mc_subscriber_inject(script->subscriber, 0, frames,
                                 what == 230 ? 2 : 3) == MC_OK);
    check(script);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {.bytes = {data, size}};
    struct mc_source_opts source = {.endpoint = NULL};
    struct mc_subscriber_opts opts = {.sources = &source,
                                      .source_count = 1,
                                      .max_message_events = 64,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .ctx = &script.model};
    struct mc_event_writer_opts writing = {.epoch = 7};
    require(mc_event_writer_create(&writing, &script.writer) == MC_OK);
    require(mc_subscriber_open(&opts, &script.subscriber) == MC_OK);
    while (script.bytes.len > 0) {
        send_message(&script);
    }
    mc_subscriber_close(script.subscriber);
    mc_event_writer_destroy(script.writer);
    return 0;
}
