/* SPDX-License-Identifier: Apache-2.0 */
/* index_rig.h - short words for tests of the index: one tenant, u64 keys.
 */
#ifndef INDEX_RIG_H
#define INDEX_RIG_H
#include <check.h>
#include <stdio.h>

#include "mc_index.h"

static inline struct mc_view rig_text(const char *s)
{
    return mc_view_str(s);
}

static inline struct mc_index *rig_index(const char *layout,
                                         const struct mc_index_opts *bounds)
{
    struct mc_index_opts opts = *bounds;
    struct mc_index *index = NULL;
    ck_assert_int_eq(
        mc_key_layout_parse(rig_text(layout), rig_text(""), &opts.layout),
        MC_OK);
    ck_assert_int_eq(mc_index_create(&opts, &index), MC_OK);
    return index;
}

static inline struct mc_index_reader *rig_reader(struct mc_index *index)
{
    struct mc_index_reader *reader = NULL;
    ck_assert_int_eq(mc_index_reader_create(index, &reader), MC_OK);
    return reader;
}

static inline enum mc_index_result rig_store(struct mc_index *index,
                                             const char *backend,
                                             uint64_t block,
                                             const char *session)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)block);
    return mc_index_stored(index, rig_text("default"), rig_text(backend),
                           rig_text(key), rig_text("cpu"), rig_text(session));
}

static inline enum mc_index_result
rig_remove(struct mc_index *index, const char *backend, uint64_t block)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)block);
    return mc_index_removed(index, rig_text("default"), rig_text(backend),
                            rig_text(key), rig_text("cpu"));
}

static inline enum mc_index_result rig_observe(struct mc_index *index,
                                               const char *session,
                                               const uint64_t *chain,
                                               size_t len)
{
    return mc_index_observe(index, rig_text("default"), rig_text(session),
                            chain, len);
}

/* How many leading blocks some store holds. */
static inline uint64_t rig_stored(struct mc_index_reader *reader,
                                  const uint64_t *chain, size_t len)
{
    struct mc_index_match match = {0};
    mc_index_match(reader, rig_text("default"), chain, len, &match);
    return match.store;
}

static inline size_t rig_heads(struct mc_index_reader *reader,
                               const char *session, uint64_t *heads, size_t cap)
{
    return mc_index_heads(reader, rig_text("default"), rig_text(session), heads,
                          cap);
}

static inline struct mc_index_stats rig_stats(struct mc_index *index)
{
    struct mc_index_stats stats;
    mc_index_stats(index, &stats);
    return stats;
}
#endif
