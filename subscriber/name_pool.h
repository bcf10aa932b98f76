/* SPDX-License-Identifier: Apache-2.0 */
/* name_pool.h - strings that repeat (sessions, groups, media), each kept once
 * and counted.
 *
 * A name lives as long as somebody holds it, so the pool is no larger than what
 * uses it. "None" is NULL and costs nothing.
 * Threads: one thread at a time.
 */
#ifndef NAME_POOL_H
#define NAME_POOL_H
#include "mc_view.h"
#include "slot_table.h"

struct name {
    uint32_t holds;
    uint32_t hash;
    uint32_t len;
    char bytes[];
};

struct name_pool { /* zeroed is empty, hashed without a seed */
    struct slot_table table;
    uint64_t seed;
};

void name_pool_fini(struct name_pool *pool); /* frees all that is left */

/* No publisher that keeps to mc_limits.h has longer ones; with it the pool is
 * bounded by the number of its holders. */
#define NAME_LEN_MAX 4096

/* Holds a name once more; *name_out is NULL for none. Errors: MC_ERR_NOMEM,
 * MC_ERR_BUFFER_OVERFLOW (too long). */
MC_CHECK_RESULT enum mc_err name_pool_hold(struct name_pool *pool,
                                           struct mc_view text,
                                           struct name **name_out);
void name_pool_release(struct name_pool *pool, struct name *name);

/* NULL if nobody holds it. */
struct name *name_pool_find(const struct name_pool *pool, struct mc_view text);

/* Borrowed, as long as the name is held. */
static inline struct mc_view name_view(const struct name *name)
{
    return name ? mc_view_make(name->bytes, name->len) : mc_view_make(NULL, 0);
}
#endif
