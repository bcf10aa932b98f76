/* SPDX-License-Identifier: Apache-2.0 */
/* mc_index.h - the session prefix index: which blocks a session reached, and
 * which of them wait where.
 *
 * A forest of blocks under tenants. Lineage is logical: per (tenant, session)
 * the heads, the deepest blocks that it reached; it outlives residency.
 * Residency is physical: which owner (an engine worker's rank "w0/0", a shared
 * store "store:<backend>") holds a block in which tier. What waits where is
 * derived when asked, by walking a chain from its root, so nothing has to be
 * undone when a block goes and comes back.
 *
 * One index serves one key layout and prefix; store keys outside it are
 * counted. Every table has a bound: at the bound on nodes new resident blocks
 * are refused and counted, never dropped; lineage of sessions that were not
 * touched (advanced, observed, asked about) goes first.
 *
 * Threads: one writer at a time for the calls that change it, any number of
 * readers, each with its own struct mc_index_reader; neither waits for the
 * other. An answer is per block as of some moment during the call; a
 * replacement (removed and stored of one key, applied by
 * mc_index_replaced) is never seen half done.
 */
#ifndef MC_INDEX_H
#define MC_INDEX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_key.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_index;
struct mc_index_reader;

/* Tiers in the order of their names, which is the order of answers. */
enum mc_tier {
    MC_TIER_DEVICE = 0,
    MC_TIER_DISK = 1,
    MC_TIER_EXTERNAL = 2, /* memory of a shared store */
    MC_TIER_HOST = 3
};
#define MC_TIER_COUNT 4

const char *mc_tier_name(enum mc_tier tier); /* "device" ... */
MC_CHECK_RESULT enum mc_err mc_tier_parse(struct mc_view name,
                                          enum mc_tier *tier_out);

/* Bounds; 0 = the default in brackets. */
struct mc_index_opts {
    struct mc_key_layout layout; /* needed */
    uint64_t max_nodes;          /* [16 Mi] blocks known */
    uint64_t max_sessions;       /* [256 Ki] sessions with lineage */
    uint32_t max_heads;          /* [64] heads per session */
    uint64_t max_marks;          /* [64 Mi] marks: a session's on a stretch of
                                     at most 256 blocks of a chain */
    uint64_t max_bytes;          /* [8 GiB] memory of all tables */
    uint32_t max_owners;         /* [1024] workers' ranks and stores */
    uint32_t max_tenants;        /* [1024] */
    uint32_t max_readers;        /* [64] */
    uint64_t block_bytes;        /* size of one block, for accounting; 0: bytes
                                     are answered as 0 */
};

/* An empty index. The caller owns it and ends it with mc_index_destroy.
 * Errors: MC_ERR_INVALID_PARAMS (no layout, a bound), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mc_index_create(const struct mc_index_opts *opts,
                                            struct mc_index **index_out);
/* All readers must be gone. NULL is fine. */
void mc_index_destroy(struct mc_index *index);

/* ---- changing: one thread at a time ----------------------------------- */

/* What became of a change; refusals of a chain leave its links and its session
 * out and count its residency all the same. */
enum mc_index_result {
    MC_INDEX_APPLIED = 0,
    MC_INDEX_FOREIGN = 1,   /* the key is not of the layout */
    MC_INDEX_COLLISION = 2, /* another page of the same 64 bits stands */
    MC_INDEX_CONFLICTING_PARENT = 3,
    MC_INDEX_CYCLIC_PARENT = 4,
    MC_INDEX_FULL = 5,   /* a bound or the end of memory was reached, counted;
                            what the change says is in part or whole left out */
    MC_INDEX_INVALID = 6 /* a name is over 256 bytes, or a worker's holds ':' or
                            '/'; nothing changed */
};
/* "applied", "foreign", "collision", "conflicting_parent", ... */
const char *mc_index_result_name(enum mc_index_result result);

/* Events of a store. medium "cpu" is tier external, "disk" tier disk; others
 * advance lineage and hold nothing. session none or empty: untagged. */
enum mc_index_result mc_index_stored(struct mc_index *index,
                                     struct mc_view tenant,
                                     struct mc_view backend, struct mc_view key,
                                     struct mc_view medium,
                                     struct mc_view session);
enum mc_index_result mc_index_removed(struct mc_index *index,
                                      struct mc_view tenant,
                                      struct mc_view backend,
                                      struct mc_view key,
                                      struct mc_view medium);
/* removed and stored of one key and medium as one change to readers. */
enum mc_index_result
mc_index_replaced(struct mc_index *index, struct mc_view tenant,
                  struct mc_view backend, struct mc_view key,
                  struct mc_view medium, struct mc_view session);
void mc_index_cleared(struct mc_index *index, struct mc_view tenant,
                      struct mc_view backend);
/* The store's stream cannot be trusted any more: its residency goes. */
void mc_index_source_lost(struct mc_index *index, struct mc_view backend);

/* Who an engine event is about. worker holds no ':' and no '/'. */
struct mc_index_engine {
    struct mc_view tenant;
    struct mc_view worker;
    uint32_t dp_rank;
};

/* hashes[0..count) continue below *parent, or begin a sequence when parent is
 * NULL. Count 0 changes nothing. */
enum mc_index_result
mc_index_engine_stored(struct mc_index *index,
                       const struct mc_index_engine *engine, enum mc_tier tier,
                       const uint64_t *parent, const uint64_t *hashes,
                       size_t count, struct mc_view session);
/* These blocks are held, each for itself: nothing is said about what precedes
 * them. */
enum mc_index_result mc_index_engine_held(struct mc_index *index,
                                          const struct mc_index_engine *engine,
                                          enum mc_tier tier,
                                          const uint64_t *hashes, size_t count,
                                          struct mc_view session);
/* MC_INDEX_FULL: a block is still taken to be held. */
enum mc_index_result
mc_index_engine_removed(struct mc_index *index,
                        const struct mc_index_engine *engine, enum mc_tier tier,
                        const uint64_t *hashes, size_t count);
void mc_index_engine_cleared(struct mc_index *index,
                             const struct mc_index_engine *engine);
/* All ranks, tiers and tenants of a worker. */
void mc_index_worker_lost(struct mc_index *index, struct mc_view worker);

/* The router saw this chain of a session, from its first block on. */
enum mc_index_result mc_index_observe(struct mc_index *index,
                                      struct mc_view tenant,
                                      struct mc_view session,
                                      const uint64_t *hashes, size_t count);
void mc_index_session_end(struct mc_index *index, struct mc_view tenant,
                          struct mc_view session);

/* Does up to `steps` of postponed work (sweeping retired residency, reclaiming
 * memory that no reader can see); returns whether some is left. The changing
 * calls do a little of it themselves. */
bool mc_index_maintain(struct mc_index *index, uint32_t steps);

/* ---- asking: any thread, one reader each ------------------------------ */

/* Errors: MC_ERR_BUFFER_OVERFLOW (max_readers), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mc_index_reader_create(struct mc_index *index,
                       struct mc_index_reader **reader_out);
void mc_index_reader_destroy(struct mc_index_reader *reader);

/* Views of owners' and sessions' names in answers are valid until the reader is
 * asked again; a name for which there is no memory is a none view. Tenants'
 * names are valid as long as the index. Answers with rows write at most
 * `capacity` of them and say how many there are. */

struct mc_index_place {
    struct mc_view owner; /* "w0/0", "store:n1" */
    enum mc_tier tier;
    uint64_t blocks; /* match: contiguous from the first; resident: held */
    uint64_t prefix; /* resident: longest contiguous prefix of a chain that
                             begins at a root */
};
struct mc_index_worker {
    struct mc_view owner;
    uint64_t own;        /* contiguous over its own tiers */
    uint64_t with_store; /* contiguous over its own tiers and all stores */
};
struct mc_index_match {
    struct mc_index_place
        *places; /* lent by the caller, sorted by owner, tier */
    size_t place_capacity;
    size_t place_count;
    struct mc_index_worker *workers; /* lent, sorted by owner */
    size_t worker_capacity;
    size_t worker_count;
    uint64_t store; /* contiguous over all stores and their tiers together */
};

/* For a request's chain of blocks: how many leading blocks are held, where. */
void mc_index_match(struct mc_index_reader *reader, struct mc_view tenant,
                    const uint64_t *hashes, size_t count,
                    struct mc_index_match *match);

/* Heads of a session, ascending. 0 for an unknown one. */
size_t mc_index_heads(struct mc_index_reader *reader, struct mc_view tenant,
                      struct mc_view session, uint64_t *heads_out,
                      size_t capacity);

/* The chain that ends in a block, root first: hashes_out gets the last
 * `capacity` blocks of it at most; returns its whole length, 0 if the block is
 * not known. *is_rooted_out (may be NULL): someone said that it begins a
 * sequence. */
size_t mc_index_chain(struct mc_index_reader *reader, struct mc_view tenant,
                      uint64_t head, uint64_t *hashes_out, size_t capacity,
                      bool *is_rooted_out);

/* What of a session's lineage is held where: rows sorted by owner and tier.
 * *blocks_out is the number of different blocks in its lineage. SIZE_MAX, and
 * nothing set, without memory for the walk. */
size_t mc_index_resident(struct mc_index_reader *reader, struct mc_view tenant,
                         struct mc_view session,
                         struct mc_index_place *places_out, size_t capacity,
                         uint64_t *blocks_out);

/* Sessions whose lineage holds a block: returns how many, names at most
 * `capacity`, in no order. Constant time per name. Being named does not count
 * as being asked about. */
size_t mc_index_sessions_of(struct mc_index_reader *reader,
                            struct mc_view tenant, uint64_t hash,
                            struct mc_view *names_out, size_t capacity);

/* All sessions of a tenant (none: of every tenant) with their sizes, in no
 * order; return false to stop. Called without anything held; views are valid
 * during the call. */
struct mc_index_session {
    struct mc_view tenant;
    struct mc_view session;
    uint64_t heads;
    uint64_t blocks; /* in lineage */
    uint64_t bytes;
};
typedef bool (*mc_index_session_fn)(void *ctx,
                                    const struct mc_index_session *row);
MC_CHECK_RESULT enum mc_err mc_index_sessions(struct mc_index_reader *reader,
                                              struct mc_view tenant,
                                              mc_index_session_fn fn,
                                              void *ctx);

struct mc_index_tenant {
    struct mc_view tenant;
    uint64_t nodes;
    uint64_t sessions;
    uint64_t resident; /* blocks held by at least one owner */
    uint64_t resident_bytes;
};
size_t mc_index_tenants(struct mc_index_reader *reader,
                        struct mc_index_tenant *tenants_out, size_t capacity);

struct mc_index_stats {
    uint64_t nodes;
    uint64_t resident; /* (block, owner, tier) triples */
    uint64_t sessions;
    uint64_t marks;
    uint64_t bytes;        /* memory of all tables */
    uint64_t applied;      /* changes applied */
    uint64_t matched_keys; /* store keys of the layout */
    uint64_t foreign_keys; /* store keys outside it */
    uint64_t collisions;
    uint64_t conflicting_parents;
    uint64_t cyclic_parents;
    uint64_t refused_nodes;    /* at max_nodes or max_bytes */
    uint64_t refused_places;   /* what could not be noted as held, or as gone */
    uint64_t refused_changes;  /* changes that answered MC_INDEX_FULL */
    uint64_t invalid;          /* changes that answered MC_INDEX_INVALID */
    uint64_t dropped_sessions; /* let go at a bound */
    uint64_t dropped_heads;
    uint64_t dropped_marks;
    uint64_t freed_nodes; /* without residency, child and head */
};
void mc_index_stats(struct mc_index *index, struct mc_index_stats *stats_out);

/* ---- export, import --------------------------------------------------- */

/* Gets one JSON line without line feed, borrowed; a return other than MC_OK
 * ends the export with that code. */
typedef enum mc_err (*mc_index_line_fn)(void *ctx, struct mc_view line);

/* Writes the index as JSON lines: operations as scripts hold them, and "node"
 * lines for what operations cannot say. The writer's thread only. Import into
 * an empty index and export again gives the same bytes. */
MC_CHECK_RESULT enum mc_err mc_index_export(struct mc_index *index,
                                            mc_index_line_fn fn, void *ctx);

/* Applies one line of an export or script that changes something. Errors:
 * MC_ERR_INVALID_PARAMS (not such a line). *result_out (may be NULL). */
MC_CHECK_RESULT enum mc_err
mc_index_apply_line(struct mc_index *index, struct mc_view line,
                    enum mc_index_result *result_out);

#ifdef __cplusplus
}
#endif
#endif
