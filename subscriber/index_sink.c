/* SPDX-License-Identifier: Apache-2.0 */
#include "index_sink.h"

#include "engine_source.h"

static bool index_stored(void *ctx, const struct mc_event *event)
{
    return mc_index_stored(ctx, event->tenant_id, event->backend_id,
                           event->object_key, event->medium,
                           event->session_id) != MC_INDEX_FULL;
}

static bool index_replaced(void *ctx, const struct mc_event *event)
{
    return mc_index_replaced(ctx, event->tenant_id, event->backend_id,
                             event->object_key, event->medium,
                             event->session_id) != MC_INDEX_FULL;
}

static bool index_removed(void *ctx, const struct mc_event *event)
{
    return mc_index_removed(ctx, event->tenant_id, event->backend_id,
                            event->object_key, event->medium) != MC_INDEX_FULL;
}

static void index_cleared(void *ctx, const struct mc_event *event)
{
    mc_index_cleared(ctx, event->tenant_id, event->backend_id);
}

static void index_lost(void *ctx, struct mc_view backend_id)
{
    mc_index_source_lost(ctx, backend_id);
}

static bool index_blocks_stored(void *ctx, const struct mc_index_engine *engine,
                                const struct engine_blocks *blocks)
{
    if (blocks->is_unordered) {
        return mc_index_engine_held(ctx, engine, blocks->tier, blocks->hashes,
                                    blocks->count,
                                    blocks->session) != MC_INDEX_FULL;
    }
    return mc_index_engine_stored(ctx, engine, blocks->tier, blocks->parent,
                                  blocks->hashes, blocks->count,
                                  blocks->session) != MC_INDEX_FULL;
}

static bool index_blocks_removed(void *ctx,
                                 const struct mc_index_engine *engine,
                                 const struct engine_blocks *blocks)
{
    return mc_index_engine_removed(ctx, engine, blocks->tier, blocks->hashes,
                                   blocks->count) != MC_INDEX_FULL;
}

static void index_blocks_cleared(void *ctx,
                                 const struct mc_index_engine *engine)
{
    mc_index_engine_cleared(ctx, engine);
}

struct index_sink index_sink_of(struct mc_index *index)
{
    if (!index) {
        return (struct index_sink){.ctx = NULL};
    }
    return (struct index_sink){
        .ctx = index,
        .stored = index_stored,
        .replaced = index_replaced,
        .removed = index_removed,
        .cleared = index_cleared,
        .lost = index_lost,
        .blocks_stored = index_blocks_stored,
        .blocks_removed = index_blocks_removed,
        .blocks_cleared = index_blocks_cleared,
    };
}
