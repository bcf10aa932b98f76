/* SPDX-License-Identifier: Apache-2.0 */
/* Matching a request's chain of hashes against what is held.
 *
 * The blocks of a chain mostly stand in one run, so after the first is found by
 * its hash the next are guessed: the run's array says which node should follow,
 * and the node's own tenant and hash say whether it does. The nodes ahead are
 * fetched meanwhile, and chains that came in one piece lie in one piece. Where
 * guessing does not get on, hashes are looked up a window at a time, so that
 * their cache misses overlap. */
#include <stdlib.h>
#include <string.h>

#include "index_walk.h"

#define WINDOW 16u
#define AHEAD 8u

struct walk {
    const struct mc_index *ix;
    const uint64_t *hashes;
    size_t count;
    uint32_t tenant;
    const struct index_ids *ids; /* of the run being followed, NULL if none */
    uint32_t pos;
    uint32_t guessed; /* blocks of this run that were guessed */
    size_t window_at; /* hash of window[0] */
    uint32_t window_len;
    uint32_t window[WINDOW];
};

static bool is_block(const struct walk *walk, uint32_t id, uint64_t hash)
{
    const struct index_node *node = node_at(walk->ix, id);
    return atomic_load_explicit(&node->tenant, memory_order_acquire) ==
               walk->tenant &&
           atomic_load_explicit(&node->hash, memory_order_relaxed) == hash;
}

static void fill_window(struct walk *walk, size_t at)
{
    struct index_probe probes[WINDOW];
    uint32_t n = 0;
    for (; n < WINDOW && at + n < walk->count; n++) {
        uint32_t tag =
            index_node_tag(walk->ix, walk->tenant, walk->hashes[at + n]);
        probes[n] = index_probe_begin(&walk->ix->node_table, tag);
        __builtin_prefetch(&probes[n].seg->slot[probes[n].at]);
    }
    for (uint32_t i = 0; i < n; i++) {
        walk->window[i] = index_probe_next(&probes[i]);
        if (walk->window[i]) {
            __builtin_prefetch(node_at(walk->ix, walk->window[i]));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        while (walk->window[i] &&
               !is_block(walk, walk->window[i], walk->hashes[at + i])) {
            walk->window[i] = index_probe_next(&probes[i]);
        }
    }
    walk->window_at = at;
    walk->window_len = n;
}

static void follow_run(struct walk *walk, uint32_t id)
{
    struct index_stretch stretch;
    walk->ids = NULL;
    walk->guessed = 0;
    if (index_stretch_of(walk->ix, id, &stretch) && stretch.ids) {
        walk->ids = stretch.ids;
        walk->pos = stretch.pos;
    }
}

static uint32_t look_up(struct walk *walk, size_t at)
{
    uint32_t id;
    if (at >= walk->window_at && at - walk->window_at < walk->window_len) {
        id = walk->window[at - walk->window_at];
    } else if (walk->guessed >= AHEAD || at + 1 == walk->count) {
        id = index_node_find(walk->ix, walk->tenant, walk->hashes[at]);
    } else {
        fill_window(walk, at);
        id = walk->window[0];
    }
    if (id) {
        follow_run(walk, id);
    }
    return id;
}

static uint32_t run_next(const struct walk *walk, uint32_t ahead)
{
    uint32_t pos = walk->pos + ahead;
    return pos < walk->ids->cap
               ? atomic_load_explicit(&walk->ids->at[pos], memory_order_acquire)
               : 0;
}

/* The node of the hash at `at`, 0 if it is not known. */
static inline uint32_t walk_next(struct walk *walk, size_t at)
{
    if (walk->ids) {
        uint32_t id = run_next(walk, 1);
        if (id && is_block(walk, id, walk->hashes[at])) {
            uint32_t later = run_next(walk, AHEAD);
            if (later) {
                __builtin_prefetch(node_at(walk->ix, later));
            }
            walk->pos++;
            walk->guessed++;
            return id;
        }
    }
    return look_up(walk, at);
}

/* ---- workers ----------------------------------------------------------- */

static bool is_store(const struct mc_index *ix, uint32_t slot)
{
    return atomic_load_explicit(&slot_at(ix, slot)->is_store,
                                memory_order_acquire);
}

static bool holds_slot(const struct index_set *set, uint32_t slot)
{
    for (uint32_t tier = 0; tier < MC_TIER_COUNT; tier++) {
        if (index_set_holds(set, slot * MC_TIER_COUNT + tier)) {
            return true;
        }
    }
    return false;
}

static bool has_live_store(const struct mc_index *ix,
                           const struct index_set *set)
{
    for (uint32_t i = 0; set && i < set->count; i++) {
        if (is_store(ix, set->place[i] / MC_TIER_COUNT) &&
            index_place_is_live(ix, set->place[i])) {
            return true;
        }
    }
    return false;
}

/* Rows stand by place, so an owner's tiers follow each other. */
static void workers_begin(struct mc_index_reader *reader)
{
    reader->worker_count = 0;
    for (uint32_t i = 0; i < reader->row_count; i++) {
        uint32_t slot = reader->rows[i].place / MC_TIER_COUNT;
        uint32_t n = reader->worker_count;
        if (is_store(reader->ix, slot) ||
            (n && reader->workers[n - 1].slot == slot)) {
            continue;
        }
        struct index_worker *worker = &reader->workers[reader->worker_count++];
        memset(worker, 0, sizeof *worker);
        worker->slot = slot;
        worker->name = reader->rows[i].name;
    }
}

static uint32_t workers_step(struct mc_index_reader *reader,
                             const struct index_set *set, bool is_stored,
                             uint64_t at)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < reader->worker_count; i++) {
        struct index_worker *worker = &reader->workers[i];
        bool is_held =
            set && !worker->is_over && holds_slot(set, worker->slot) &&
            index_place_is_live(reader->ix, worker->slot * MC_TIER_COUNT);
        if (!worker->is_own_over && !is_held) {
            worker->is_own_over = true;
            worker->own = at;
        }
        if (!worker->is_over && !is_held && !is_stored) {
            worker->is_over = true;
            worker->with_store = at;
        }
        left += !worker->is_over;
    }
    return left;
}

/* ---- answering --------------------------------------------------------- */

struct progress {
    uint32_t set;
    bool is_stored; /* the stores hold all so far */
    uint64_t store;
};

static void begin(struct mc_index_reader *reader, struct progress *progress,
                  uint32_t set)
{
    index_rows_begin(reader, set);
    workers_begin(reader);
    progress->set = set;
    progress->is_stored =
        set && has_live_store(reader->ix, set_at(reader->ix, set));
}

/* The block at `at` is held in other places than the one before. False when
 * nothing can go on. */
static bool step(struct mc_index_reader *reader, struct progress *progress,
                 uint32_t id, uint64_t at)
{
    const struct index_set *set = id ? set_at(reader->ix, id) : NULL;
    bool is_stored = has_live_store(reader->ix, set);
    if (progress->is_stored && !is_stored) {
        progress->is_stored = false;
        progress->store = at;
    }
    progress->set = id;
    uint32_t left = index_rows_step(reader, id, at);
    left += workers_step(reader, set, is_stored, at);
    return left || progress->is_stored;
}

static void end(struct mc_index_reader *reader, struct progress *progress,
                uint64_t count)
{
    index_rows_end(reader, count);
    for (uint32_t i = 0; i < reader->worker_count; i++) {
        struct index_worker *worker = &reader->workers[i];
        worker->own = worker->is_own_over ? worker->own : count;
        worker->with_store = worker->is_over ? worker->with_store : count;
    }
    if (progress->is_stored) {
        progress->store = count;
    }
}

static uint64_t count_blocks(struct mc_index_reader *reader,
                             struct progress *progress, struct walk *walk)
{
    const struct mc_index *ix = reader->ix;
    size_t at = 0;
    for (; at < walk->count; at++) {
        uint32_t node = walk_next(walk, at);
        uint32_t set = node ? atomic_load_explicit(&node_at(ix, node)->set,
                                                   memory_order_acquire)
                            : 0;
        if (at == 0) {
            begin(reader, progress, set);
        }
        if (!set ||
            (set != progress->set && !step(reader, progress, set, at))) {
            (void)step(reader, progress, 0, at);
            break;
        }
    }
    return at;
}

static int compare_workers(const void *a, const void *b)
{
    const struct index_worker *x = a;
    const struct index_worker *y = b;
    return index_name_compare(x->name, y->name);
}

static void answer(struct mc_index_reader *reader, struct mc_index_match *match)
{
    index_rows_sort(reader->rows, reader->row_count);
    match->place_count = reader->row_count;
    for (uint32_t i = 0; i < reader->row_count; i++) {
        if (i < match->place_capacity) {
            struct mc_index_place *place = &match->places[i];
            place->tier = (enum mc_tier)(reader->rows[i].place % MC_TIER_COUNT);
            place->blocks = reader->rows[i].blocks;
            place->prefix = reader->rows[i].blocks;
            (void)index_reader_keep(reader, reader->rows[i].name,
                                    &place->owner);
        }
    }
    if (reader->worker_count > 1) {
        qsort(reader->workers, reader->worker_count, sizeof *reader->workers,
              compare_workers);
    }
    match->worker_count = reader->worker_count;
    for (uint32_t i = 0; i < reader->worker_count; i++) {
        if (i < match->worker_capacity) {
            struct mc_index_worker *worker = &match->workers[i];
            worker->own = reader->workers[i].own;
            worker->with_store = reader->workers[i].with_store;
            (void)index_reader_keep(reader, reader->workers[i].name,
                                    &worker->owner);
        }
    }
}

void mc_index_match(struct mc_index_reader *reader, struct mc_view tenant,
                    const uint64_t *hashes, size_t count,
                    struct mc_index_match *match)
{
    struct progress progress = {0, false, 0};
    struct walk walk = {.ix = reader->ix, .hashes = hashes, .count = count};
    reader->row_count = 0;
    reader->worker_count = 0;
    index_reader_begin(reader);
    walk.tenant = index_tenant_find(reader->ix, tenant);
    if (walk.tenant) {
        end(reader, &progress, count_blocks(reader, &progress, &walk));
    }
    answer(reader, match);
    match->store = progress.store;
    index_reader_end(reader);
}
