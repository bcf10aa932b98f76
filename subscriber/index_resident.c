/* SPDX-License-Identifier: Apache-2.0 */
/* What of a session's lineage is held where.
 *
 * Each head's chain is walked from its root. Blocks that several chains share
 * count once: with more than one head, the nodes met are remembered. */
#include <string.h>

#include "index_walk.h"
#include "mci_alloc.h"

#define CHAIN_GONE SIZE_MAX

struct tally {
    struct mc_index_reader *reader;
    struct index_row *rows; /* by place; counted blocks, longest prefix */
    size_t row_count;
    size_t row_cap;
    uint64_t blocks;
    bool is_shared; /* nodes may be met twice */
};

static bool reserve(uint32_t **at, size_t *cap, size_t need)
{
    if (need <= *cap) {
        return true;
    }
    size_t larger = *cap ? *cap : 1024;
    while (larger < need) {
        larger *= 2;
    }
    uint32_t *fresh = mci_realloc(*at, larger * sizeof **at);
    if (!fresh) {
        return false;
    }
    *at = fresh;
    *cap = larger;
    return true;
}

/* The chain of a node into reader->nodes, last first. CHAIN_GONE if the node
 * was freed; 0 without memory. */
static size_t collect(struct mc_index_reader *reader, uint32_t node)
{
    size_t len = 0;
    while (node) {
        struct index_stretch stretch;
        if (!index_stretch_of(reader->ix, node, &stretch)) {
            return CHAIN_GONE;
        }
        if (!reserve(&reader->nodes, &reader->node_cap,
                     len + stretch.pos + 1)) {
            return 0;
        }
        for (uint32_t pos = stretch.pos + 1; pos-- > 0;) {
            reader->nodes[len++] = index_stretch_node(&stretch, node, pos);
        }
        node = index_stretch_parent(&stretch);
    }
    return len;
}

/* ---- nodes met --------------------------------------------------------- */

static bool seen_insert(struct mc_index_reader *reader, uint32_t node)
{
    size_t mask = reader->seen_cap - 1;
    size_t at = (size_t)index_mix(node) & mask;
    while (reader->seen[at]) {
        if (reader->seen[at] == node) {
            return false;
        }
        at = (at + 1) & mask;
    }
    reader->seen[at] = node;
    return true;
}

/* Room for `more` nodes besides those met so far. */
static bool seen_reserve(struct mc_index_reader *reader, uint64_t count,
                         size_t more)
{
    size_t need = ((size_t)count + more) * 2;
    if (need <= reader->seen_cap) {
        return true;
    }
    size_t cap = reader->seen_cap ? reader->seen_cap : 1024;
    while (cap < need) {
        cap *= 2;
    }
    uint32_t *fresh = mci_calloc(cap, sizeof *fresh);
    if (!fresh) {
        return false;
    }
    uint32_t *old = reader->seen;
    size_t old_cap = reader->seen_cap;
    reader->seen = fresh;
    reader->seen_cap = cap;
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i]) {
            (void)seen_insert(reader, old[i]);
        }
    }
    mci_free(old);
    return true;
}

/* ---- rows of the whole lineage ----------------------------------------- */

static struct index_row *row_get(struct tally *tally, uint32_t place)
{
    size_t low = 0;
    size_t high = tally->row_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (tally->rows[mid].place < place) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low < tally->row_count && tally->rows[low].place == place) {
        return &tally->rows[low];
    }
    if (tally->row_count == tally->row_cap) {
        return NULL; /* more places than live owners: some were just cleared */
    }
    memmove(&tally->rows[low + 1], &tally->rows[low],
            (tally->row_count - low) * sizeof *tally->rows);
    tally->row_count++;
    memset(&tally->rows[low], 0, sizeof tally->rows[low]);
    tally->rows[low].place = place;
    tally->rows[low].name =
        index_slot_name(tally->reader->ix, place / MC_TIER_COUNT);
    return &tally->rows[low];
}

static void add_held(struct tally *tally, uint32_t id, uint64_t count)
{
    const struct mc_index *ix = tally->reader->ix;
    const struct index_set *set = id && count ? set_at(ix, id) : NULL;
    for (uint32_t i = 0; set && i < set->count; i++) {
        if (index_place_is_live(ix, set->place[i])) {
            struct index_row *row = row_get(tally, set->place[i]);
            if (row) {
                row->blocks += count;
            }
        }
    }
}

static void add_prefixes(struct tally *tally)
{
    const struct mc_index_reader *reader = tally->reader;
    for (uint32_t i = 0; i < reader->row_count; i++) {
        struct index_row *row = row_get(tally, reader->rows[i].place);
        if (row && row->prefix < reader->rows[i].blocks) {
            row->prefix = reader->rows[i].blocks;
        }
    }
}

/* Counts a chain of `len` nodes, root first: each node's places once, and
 * contiguous blocks where the chain is known to begin a sequence. */
static void count_chain(struct tally *tally, size_t len)
{
    struct mc_index_reader *reader = tally->reader;
    const struct mc_index *ix = reader->ix;
    uint32_t root = reader->nodes[len - 1];
    bool is_open = index_where(ix, root) & NODE_ROOT;
    uint32_t last = 0;
    uint64_t same = 0; /* new nodes with the last set */
    reader->row_count = 0;
    for (size_t at = 0; at < len; at++) {
        uint32_t node = reader->nodes[len - 1 - at];
        uint32_t set =
            atomic_load_explicit(&node_at(ix, node)->set, memory_order_acquire);
        if (at == 0 && is_open) {
            index_rows_begin(reader, set);
        } else if (set != last && is_open) {
            is_open = index_rows_step(reader, set, at) != 0;
        }
        if (set != last) {
            add_held(tally, last, same);
            last = set;
            same = 0;
        }
        if (!tally->is_shared || seen_insert(reader, node)) {
            same++;
            tally->blocks++;
        }
    }
    add_held(tally, last, same);
    index_rows_end(reader, len);
    add_prefixes(tally);
}

static bool count_heads(struct tally *tally, const struct index_heads *heads)
{
    struct mc_index_reader *reader = tally->reader;
    uint32_t count = atomic_load_explicit(&heads->count, memory_order_acquire);
    tally->is_shared = count > 1;
    if (tally->is_shared && reader->seen) {
        memset(reader->seen, 0, reader->seen_cap * sizeof *reader->seen);
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t len = collect(
            reader, atomic_load_explicit(&heads->at[i], memory_order_acquire));
        if (len == CHAIN_GONE) {
            continue;
        }
        if (!len ||
            (tally->is_shared && !seen_reserve(reader, tally->blocks, len))) {
            return false;
        }
        count_chain(tally, len);
    }
    return true;
}

static size_t answer(const struct tally *tally,
                     struct mc_index_place *places_out, size_t capacity)
{
    size_t n = 0;
    index_rows_sort(tally->rows, tally->row_count);
    for (size_t i = 0; i < tally->row_count; i++) {
        const struct index_row *row = &tally->rows[i];
        if (row->blocks == 0) {
            continue;
        }
        if (n < capacity) {
            places_out[n].tier = (enum mc_tier)(row->place % MC_TIER_COUNT);
            places_out[n].blocks = row->blocks;
            places_out[n].prefix = row->prefix;
            (void)index_reader_keep(tally->reader, row->name,
                                    &places_out[n].owner);
        }
        n++;
    }
    return n;
}

size_t mc_index_resident(struct mc_index_reader *reader, struct mc_view tenant,
                         struct mc_view session,
                         struct mc_index_place *places_out, size_t capacity,
                         uint64_t *blocks_out)
{
    struct tally tally = {
        .reader = reader, .rows = reader->totals, .row_cap = reader->row_cap};
    size_t n = 0;
    bool is_whole = true;
    index_reader_begin(reader);
    const struct index_session *s = index_session_of(reader, tenant, session);
    if (s) {
        is_whole = count_heads(
            &tally, atomic_load_explicit(&s->heads, memory_order_acquire));
    }
    if (is_whole) {
        n = answer(&tally, places_out, capacity);
        *blocks_out = tally.blocks;
    }
    index_reader_end(reader);
    return is_whole ? n : SIZE_MAX;
}
