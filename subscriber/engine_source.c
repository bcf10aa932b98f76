/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_source.h"

#include <strings.h>

#include "follower.h"
#include "mci_alloc.h"

#define NAME_MAX_LEN 256 /* as the index takes it */
#define TENANT_DEFAULT "default"

/* An engine publishes for one rank, a relay for a few; a stream that makes up
 * ever more of them is dropped here. */
#define RANKS_MAX 256

struct engine_source {
    char worker[NAME_MAX_LEN + 1];
    char tenant[NAME_MAX_LEN + 1];
    uint32_t dp_rank; /* of messages that name none */
    uint32_t rank_count;
    uint32_t ranks[RANKS_MAX];
    uint64_t hashes[MC_EVENT_BLOCKS_MAX]; /* of the event at hand */
};

static bool copy_name(const char *name, char *copy)
{
    size_t len = strnlen(name, NAME_MAX_LEN + 1);
    if (len == 0 || len > NAME_MAX_LEN) {
        return false;
    }
    memcpy(copy, name, len);
    return true;
}

enum mc_err engine_source_create(const struct mc_source_opts *opts,
                                 struct engine_source **source_out)
{
    const char *worker = opts->worker ? opts->worker : "";
    struct engine_source *source = mci_calloc(1, sizeof *source);
    if (!source) {
        return MC_ERR_NOMEM;
    }
    if (!copy_name(worker, source->worker) || strpbrk(worker, ":/") ||
        !copy_name(opts->tenant ? opts->tenant : TENANT_DEFAULT,
                   source->tenant)) {
        mci_free(source);
        return MC_ERR_INVALID_PARAMS;
    }
    source->dp_rank = opts->dp_rank;
    *source_out = source;
    return MC_OK;
}

void engine_source_destroy(struct engine_source *source)
{
    mci_free(source);
}

/* ---- reading ----------------------------------------------------------- */

/* An engine has no ids: the numbers of its messages are all there is. */
static void take_common(const struct mc_engine_event *engine,
                        struct mc_event *event)
{
    *event = (struct mc_event){
        .type = engine->type,
        .error = engine->error,
        .error_offset = engine->error_offset,
        .index = engine->index,
        .medium = engine->medium,
        .session_id = engine->session_id,
    };
}

enum mc_event_error engine_source_read(const struct engine_source *source,
                                       const struct mc_view *frames,
                                       size_t count,
                                       const struct engine_room *room,
                                       struct mc_event_batch *batch_out,
                                       struct mc_event_fault *fault_out)
{
    struct mc_engine_batch batch;
    enum mc_event_error error = mc_engine_event_read(
        frames, count, room->engine_events, room->capacity, &batch, fault_out);
    if (error != MC_EVENT_OK) {
        return error;
    }
    for (uint32_t i = 0; i < batch.count; i++) {
        take_common(&room->engine_events[i], &room->events[i]);
    }
    *batch_out = (struct mc_event_batch){
        .seq = batch.seq,
        .timestamp_ms = batch.timestamp_ms,
        .dp_rank = batch.has_dp_rank ? batch.dp_rank : source->dp_rank,
        .count = batch.count,
        .refused = batch.refused,
    };
    return MC_EVENT_OK;
}

/* ---- telling the index ------------------------------------------------- */

static bool is_named(struct mc_view view, const char *name)
{
    return view.len == strlen(name) &&
           strncasecmp(view.data, name, view.len) == 0;
}

static bool find_tier(struct mc_view medium, enum mc_tier *tier_out)
{
    static const struct {
        const char *name;
        enum mc_tier tier;
    } media[] = {
        {"GPU", MC_TIER_DEVICE},        {"CPU", MC_TIER_HOST},
        {"CPU_PINNED", MC_TIER_HOST},   {"DISK", MC_TIER_DISK},
        {"EXTERNAL", MC_TIER_EXTERNAL},
    };
    if (!medium.data) {
        *tier_out = MC_TIER_DEVICE;
        return true;
    }
    for (size_t i = 0; i < sizeof media / sizeof *media; i++) {
        if (is_named(medium, media[i].name)) {
            *tier_out = media[i].tier;
            return true;
        }
    }
    return false;
}

/* The other groups of a hybrid cache hold other parts of the same blocks, of
 * which a window may be gone while the prefix can be used. */
static bool is_told(const struct mc_engine_event *event)
{
    return event->group_idx == 0 &&
           (!event->locality.data || is_named(event->locality, "LOCAL"));
}

static enum mc_err know_rank(struct engine_source *source, uint32_t dp_rank)
{
    for (uint32_t i = 0; i < source->rank_count; i++) {
        if (source->ranks[i] == dp_rank) {
            return MC_OK;
        }
    }
    if (source->rank_count == RANKS_MAX) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    source->ranks[source->rank_count++] = dp_rank;
    return MC_OK;
}

static struct mc_index_engine engine_of(const struct engine_source *source,
                                        uint32_t dp_rank)
{
    return (struct mc_index_engine){
        .tenant = mc_view_str(source->tenant),
        .worker = mc_view_str(source->worker),
        .dp_rank = dp_rank,
    };
}

enum mc_err engine_source_apply(struct engine_source *source,
                                const struct index_sink *sink,
                                const struct mc_engine_event *event,
                                uint32_t dp_rank, bool *is_full_out)
{
    struct mc_index_engine engine = engine_of(source, dp_rank);
    struct engine_blocks blocks = {
        .is_unordered = event->is_unordered,
        .parent = event->has_parent ? &event->parent : NULL,
        .hashes = source->hashes,
        .session = event->session_id,
    };
    enum mc_err err = know_rank(source, dp_rank);
    *is_full_out = false;
    if (err != MC_OK || !sink->blocks_stored) {
        return err;
    }
    if (event->type == MC_EVENT_CLEARED) {
        sink->blocks_cleared(sink->ctx, &engine);
        return MC_OK;
    }
    if (!is_told(event) || !find_tier(event->medium, &blocks.tier)) {
        return MC_OK;
    }
    blocks.count =
        mc_engine_event_hashes(event, source->hashes, MC_EVENT_BLOCKS_MAX);
    if (event->type == MC_EVENT_STORED) {
        *is_full_out = !sink->blocks_stored(sink->ctx, &engine, &blocks);
    } else if (!sink->blocks_removed(sink->ctx, &engine, &blocks)) {
        return MC_ERR_NOMEM; /* it would go on to say that they are there */
    }
    return MC_OK;
}

void engine_source_lose(struct engine_source *source,
                        const struct index_sink *sink)
{
    for (uint32_t i = 0; sink->blocks_cleared && i < source->rank_count; i++) {
        struct mc_index_engine engine = engine_of(source, source->ranks[i]);
        sink->blocks_cleared(sink->ctx, &engine);
    }
    source->rank_count = 0;
}
