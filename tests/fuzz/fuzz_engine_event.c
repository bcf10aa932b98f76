/* SPDX-License-Identifier: Apache-2.0 */
/* Reads events of engines; what is handed on must lie inside the payload and
 * agree with itself, and a second reading of a prefix must not do better than
 * the whole. */
#include <stdlib.h>

#include "mc_engine_event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VIEWS 4096
#define HASHES 64

static struct mc_engine_event events[VIEWS];
static const uint8_t seq[8] = {0, 0, 0, 0, 0, 0, 1, 0};

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static enum mc_event_error read_payload(struct mc_view payload,
                                        struct mc_engine_batch *batch_out,
                                        struct mc_event_fault *fault_out)
{
    struct mc_view frames[3] = {{"", 0}, {seq, 8}, payload};
    return mc_engine_event_read(frames, 3, events, VIEWS, batch_out, fault_out);
}

static void check_view(struct mc_view payload, struct mc_view view)
{
    const uint8_t *begin = payload.data;
    const uint8_t *at = view.data;
    require(!at || (at >= begin && at + view.len <= begin + payload.len));
}

static void check_event(struct mc_view payload,
                        const struct mc_engine_event *event)
{
    uint64_t hashes[HASHES];
    if (event->type == MC_EVENT_NONE) {
        require(event->error != MC_EVENT_OK && event->hash_count == 0);
        require(event->error_offset <= payload.len);
        return;
    }
    require(event->error == MC_EVENT_OK);
    require(event->hash_count <= MC_EVENT_BLOCKS_MAX);
    require(event->session_id.len <= MC_SESSION_ID_LEN_MAX);
    require(!event->is_unordered || !event->has_parent);
    check_view(payload, event->hashes);
    check_view(payload, event->medium);
    check_view(payload, event->lora_name);
    check_view(payload, event->session_id);
    check_view(payload, event->cache_salt);
    check_view(payload, event->spec_kind);
    check_view(payload, event->locality);
    require(mc_engine_event_hashes(event, hashes, HASHES) == event->hash_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mc_view payload = mc_view_make(data, size);
    struct mc_engine_batch batch;
    struct mc_event_fault fault;
    if (read_payload(payload, &batch, &fault) != MC_EVENT_OK) {
        require(fault.has_seq && fault.seq == 256);
        require(fault.offset <= size);
        return 0;
    }
    uint32_t refused = 0;
    for (uint32_t i = 0; i < batch.count; i++) {
        require(events[i].index == i);
        check_event(payload, &events[i]);
        refused += events[i].type == MC_EVENT_NONE;
    }
    require(refused == batch.refused);
    /* One value fills the payload: without its last byte it is none. */
    payload.len--;
    require(read_payload(payload, &batch, &fault) ==
            MC_EVENT_ERROR_PAYLOAD_TRUNCATED);
    return 0;
}
