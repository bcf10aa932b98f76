/* SPDX-License-Identifier: Apache-2.0 */
/* index_sink.h - where events go beside the mirror: the session index, outside of
 * tests.
 * Threads: the functions of a sink are called by one thread at a time.
 */
#ifndef INDEX_SINK_H
#define INDEX_SINK_H
#include <stdbool.h>

#include "mc_event.h"
#include "mc_index.h"

struct engine_blocks;

/* NULL ctx and functions: nowhere. They answer false where the index had no room or
 * memory: it then misses a block, or after `removed` holds one that is gone. */
struct index_sink {
    void *ctx;
    bool (*stored)(void *ctx, const struct mc_event *event);
    bool (*replaced)(void *ctx, const struct mc_event *event);
    bool (*removed)(void *ctx, const struct mc_event *event);
    void (*cleared)(void *ctx, const struct mc_event *event);
    void (*lost)(void *ctx, struct mc_view backend_id);
    /* Events of engines. */
    bool (*blocks_stored)(void *ctx, const struct mc_index_engine *engine,
                          const struct engine_blocks *blocks);
    bool (*blocks_removed)(void *ctx, const struct mc_index_engine *engine,
                           const struct engine_blocks *blocks);
    void (*blocks_cleared)(void *ctx, const struct mc_index_engine *engine);
};

/* NULL: nowhere. */
struct index_sink index_sink_of(struct mc_index *index);
#endif
