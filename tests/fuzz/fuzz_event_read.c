/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes; decodes again with the shortcut switched off and compares; encodes
 * what it got, decodes that, and compares. */
#include <stdlib.h>

#include "mc_event_writer.h"
#include "mci_event_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VIEWS 4096

struct reading {
    enum mc_event_error error;
    struct mc_event_batch batch;
    struct mc_event_fault fault;
    struct mc_event events[VIEWS];
};

static struct reading quick;
static struct reading full;
static struct mc_event_record records[VIEWS];
static const uint8_t seq[8] = {0, 0, 0, 0, 0, 0, 1, 0};

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void read_quick(struct reading *reading, struct mc_view payload)
{
    struct mc_view frames[3] = {{"", 0}, {seq, 8}, payload};
    memset(&reading->batch, 0, sizeof reading->batch);
    memset(&reading->fault, 0, sizeof reading->fault);
    reading->error = mc_event_read(frames, 3, reading->events, VIEWS,
                                   &reading->batch, &reading->fault);
}

static void read_full(struct reading *reading, struct mc_view payload)
{
    struct mc_view frames[3] = {{"", 0}, {seq, 8}, payload};
    memset(&reading->batch, 0, sizeof reading->batch);
    memset(&reading->fault, 0, sizeof reading->fault);
    reading->error = mci_event_read_in_full(frames, 3, reading->events, VIEWS,
                                            &reading->batch, &reading->fault);
}

static void check_alike(void)
{
    require(quick.error == full.error);
    require(quick.fault.error == full.fault.error);
    require(quick.fault.offset == full.fault.offset);
    require(quick.batch.count == full.batch.count);
    require(quick.batch.refused == full.batch.refused);
    require(memcmp(quick.events, full.events,
                   quick.batch.count * sizeof quick.events[0]) == 0);
}

/* The good events as records; how many there are. */
static size_t take_good(void)
{
    size_t count = 0;
    for (uint32_t i = 0; i < full.batch.count; i++) {
        const struct mc_event *event = &full.events[i];
        if (event->error != MC_EVENT_OK) {
            continue;
        }
        struct mc_event_record *record = &records[count++];
        record->type = event->type;
        record->event_id = event->event_id;
        record->timestamp_ms = full.batch.timestamp_ms;
        record->tenant_id = event->tenant_id;
        record->backend_id = event->backend_id;
        record->medium = event->medium;
        record->group_id = event->group_id;
        record->session_id = event->session_id;
        record->object_key = event->object_key;
    }
    return count;
}

static void check_text(struct mc_view written, struct mc_view read)
{
    require(written.len == read.len);
    require(read.len == 0 || memcmp(written.data, read.data, read.len) == 0);
}

/* What a record says must come back; a clear carries only its envelope. */
static void check_event(const struct mc_event_record *record,
                        const struct mc_event *event)
{
    require(event->error == MC_EVENT_OK);
    require(event->type == record->type);
    require(event->event_id == record->event_id);
    require(event->epoch == 5);
    check_text(record->tenant_id.len ? record->tenant_id
                                     : mc_view_str("default"),
               event->tenant_id);
    check_text(record->backend_id, event->backend_id);
    if (event->type == MC_EVENT_CLEARED) {
        return;
    }
    check_text(record->medium, event->medium);
    check_text(record->group_id, event->group_id);
    check_text(record->session_id, event->session_id);
    check_text(record->object_key, event->object_key);
}

static void check_round(struct mc_event_writer *writer, size_t count)
{
    size_t bound = MC_EVENT_WRITER_BATCH_BOUND;
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        bound += mc_event_writer_bound(writer, &records[i]);
    }
    uint8_t *payload = malloc(bound);
    require(payload != NULL);
    require(mc_event_writer_batch(writer, full.batch.timestamp_ms, records,
                                  count, payload, bound, &len) == MC_OK);
    require(len <= bound);
    if (len <= MC_EVENT_PAYLOAD_MAX) {
        read_quick(&quick, mc_view_make(payload, len));
        require(quick.error == MC_EVENT_OK && quick.batch.count == count);
        for (size_t i = 0; i < count; i++) {
            check_event(&records[i], &quick.events[i]);
        }
    }
    free(payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct mc_event_writer *writer;
    struct mc_event_writer_opts opts = {.epoch = 5, .seq_hashes = true};
    if (!writer && mc_event_writer_create(&opts, &writer) != MC_OK) {
        return 0;
    }
    read_quick(&quick, mc_view_make(data, size));
    read_full(&full, mc_view_make(data, size));
    check_alike();
    if (full.error == MC_EVENT_OK) {
        check_round(writer, take_good());
    }
    return 0;
}
