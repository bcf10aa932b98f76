/* SPDX-License-Identifier: Apache-2.0 */
/* Export: each block after its parent, blocks of one parent by their hash, so
 * the order says nothing of how the index came to be; then the sessions, least
 * recently touched first.
 *
 * Blocks are sorted by (parent, hash); then the children of a block stand
 * together, and a walk through the forest needs no stack: after a block comes
 * its first child, else the next of its line, else the next of its parent's.
 */
#include <stdlib.h>
#include <string.h>

#include "index.h"
#include "index_json.h"
#include "mci_alloc.h"

struct entry {
    uint64_t hash;
    uint32_t parent; /* for those without: 0, by tenant */
    uint32_t order;  /* of the tenant's name among those without parent */
    uint32_t node;
};

struct dump {
    struct mc_index *ix;
    struct index_json json;
    mc_index_line_fn fn;
    void *ctx;
    enum mc_err err;
    struct entry *entries;
    size_t count;
    uint32_t *tenant_order;
    struct index_session **sessions;
    struct place_row *places;
};

struct place_row {
    const struct index_name *name;
    uint32_t place;
    const struct index_parts *parts; /* NULL: whole */
};

static void emit(struct dump *dump)
{
    if (dump->json.err != MC_OK) {
        dump->err = dump->json.err;
    }
    if (dump->err == MC_OK) {
        dump->err = dump->fn(dump->ctx, mci_buf_view(&dump->json.buf));
    }
}

static void begin(struct dump *dump, const char *op)
{
    index_json_begin(&dump->json);
    index_json_raw(&dump->json, "{");
    index_json_name(&dump->json, "op");
    index_json_text(&dump->json, mc_view_str(op));
}

static void put_text(struct dump *dump, const char *name, struct mc_view text)
{
    index_json_name(&dump->json, name);
    index_json_text(&dump->json, text);
}

static void put_layout(struct dump *dump)
{
    const struct mc_key_layout *layout = &dump->ix->opts.layout;
    char name[32];
    mc_key_layout_name(layout, name, sizeof name);
    size_t len = layout->prefix_len;
    bool has_joint = layout->scheme == MC_KEY_SGLANG_MHA ||
                     layout->scheme == MC_KEY_SGLANG_MLA;
    if (has_joint && len) {
        len--; /* it is joined with an underscore */
    }
    begin(dump, "layout");
    put_text(dump, "layout", mc_view_str(name));
    put_text(dump, "prefix", mc_view_make(layout->prefix, len));
    index_json_raw(&dump->json, "}");
    emit(dump);
}

/* ---- order ------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->parent != y->parent) {
        return x->parent < y->parent ? -1 : 1;
    }
    if (x->order != y->order) {
        return x->order < y->order ? -1 : 1;
    }
    return (x->hash > y->hash) - (x->hash < y->hash);
}

static const struct index_name *tenant_name(const struct mc_index *ix,
                                            uint32_t tenant)
{
    return atomic_load_explicit(&tenant_at(ix, tenant)->name,
                                memory_order_relaxed);
}

static int compare_names(const struct index_name *a, const struct index_name *b)
{
    uint32_t len = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->bytes, b->bytes, len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* How many tenants' names come before each one's. */
static void order_tenants(struct dump *dump)
{
    const struct mc_index *ix = dump->ix;
    uint32_t high = atomic_load(&ix->tenants.high);
    for (uint32_t a = 1; a <= high; a++) {
        for (uint32_t b = 1; tenant_name(ix, a) && b <= high; b++) {
            dump->tenant_order[a] +=
                tenant_name(ix, b) &&
                compare_names(tenant_name(ix, b), tenant_name(ix, a)) < 0;
        }
    }
}

static void collect(struct dump *dump)
{
    const struct mc_index *ix = dump->ix;
    uint32_t high = atomic_load(&ix->nodes.high);
    for (uint32_t id = 1; id <= high; id++) {
        const struct index_node *node = node_at(ix, id);
        uint32_t tenant =
            atomic_load_explicit(&node->tenant, memory_order_relaxed);
        if (tenant) {
            struct entry *entry = &dump->entries[dump->count++];
            entry->hash =
                atomic_load_explicit(&node->hash, memory_order_relaxed);
            entry->parent = index_node_parent(ix, id);
            entry->order = entry->parent ? 0 : dump->tenant_order[tenant];
            entry->node = id;
        }
    }
    if (dump->count > 1) {
        qsort(dump->entries, dump->count, sizeof *dump->entries,
              compare_entries);
    }
}

/* The first entry not before the key. */
static size_t lower_bound(const struct dump *dump, const struct entry *key)
{
    size_t low = 0;
    size_t high = dump->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare_entries(&dump->entries[mid], key) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static size_t entry_of(const struct dump *dump, uint32_t id)
{
    const struct mc_index *ix = dump->ix;
    const struct index_node *node = node_at(ix, id);
    struct entry key = {atomic_load_explicit(&node->hash, memory_order_relaxed),
                        index_node_parent(ix, id), 0, id};
    if (!key.parent) {
        key.order = dump->tenant_order[atomic_load_explicit(
            &node->tenant, memory_order_relaxed)];
    }
    return lower_bound(dump, &key);
}

static bool is_line(const struct dump *dump, size_t at, uint32_t parent)
{
    return at < dump->count && dump->entries[at].parent == parent;
}

/* The entry after `at` in the walk; count at the end. */
static size_t next_entry(const struct dump *dump, size_t at)
{
    struct entry key = {0, dump->entries[at].node, 0, 0};
    size_t child = lower_bound(dump, &key);
    if (is_line(dump, child, key.parent)) {
        return child;
    }
    for (;;) {
        uint32_t parent = dump->entries[at].parent;
        if (is_line(dump, at + 1, parent)) {
            return at + 1;
        }
        if (!parent) {
            return dump->count;
        }
        at = entry_of(dump, parent);
    }
}

/* ---- blocks ------------------------------------------------------------ */

static const struct index_name *place_name(const struct mc_index *ix,
                                           uint32_t place)
{
    uint32_t owner = atomic_load_explicit(
        &slot_at(ix, place / MC_TIER_COUNT)->owner, memory_order_relaxed);
    return atomic_load_explicit(&owner_at(ix, owner)->name,
                                memory_order_relaxed);
}

static int compare_places(const void *a, const void *b)
{
    const struct place_row *x = a;
    const struct place_row *y = b;
    int order = compare_names(x->name, y->name);
    return order ? order
                 : (int)(x->place % MC_TIER_COUNT) -
                       (int)(y->place % MC_TIER_COUNT);
}

static size_t places_of(struct dump *dump, uint32_t id)
{
    const struct mc_index *ix = dump->ix;
    uint32_t set_id =
        atomic_load_explicit(&node_at(ix, id)->set, memory_order_relaxed);
    const struct index_set *set = set_id ? set_at(ix, set_id) : NULL;
    size_t n = 0;
    for (uint32_t i = 0; set && i < set->count; i++) {
        if (index_place_is_live(ix, set->place[i])) {
            dump->places[n++] = (struct place_row){
                place_name(ix, set->place[i]), set->place[i], NULL};
        }
    }
    uint32_t parts = index_parts_first(ix, id);
    for (; parts; parts = parts_at(ix, parts)->next) {
        const struct index_parts *p = parts_at(ix, parts);
        if (index_place_is_live(ix, p->place)) {
            dump->places[n++] =
                (struct place_row){place_name(ix, p->place), p->place, p};
        }
    }
    qsort(dump->places, n, sizeof *dump->places, compare_places);
    return n;
}

static void put_place(struct dump *dump, const struct place_row *row)
{
    struct index_json *json = &dump->json;
    index_json_raw(json, "{");
    put_text(dump, "owner", index_name_view(row->name));
    put_text(
        dump, "tier",
        mc_view_str(mc_tier_name((enum mc_tier)(row->place % MC_TIER_COUNT))));
    if (row->parts) {
        const char *joint = "[";
        index_json_name(json, "parts");
        for (uint32_t i = 0; i < dump->ix->opts.layout.parts; i++) {
            if (row->parts->have[i / 64] >> (i % 64) & 1) {
                index_json_raw(json, joint);
                index_json_uint(json, i);
                joint = ", ";
            }
        }
        index_json_raw(json, "]");
    }
    index_json_raw(json, "}");
}

static void put_held(struct dump *dump, uint32_t id, size_t count)
{
    struct index_json *json = &dump->json;
    if (index_node_is_stored(dump->ix, id)) {
        char digits[17];
        uint64_t digest = node_at(dump->ix, id)->u.digest;
        for (int i = 0; i < 16; i++) {
            digits[i] = "0123456789abcdef"[digest >> (60 - 4 * i) & 15];
        }
        digits[16] = '\0';
        put_text(dump, "digest", mc_view_str(digits));
    }
    if (count) {
        index_json_name(json, "held");
        for (size_t i = 0; i < count; i++) {
            index_json_raw(json, i ? ", " : "[");
            put_place(dump, &dump->places[i]);
        }
        index_json_raw(json, "]");
    }
}

static void put_node(struct dump *dump, const struct entry *entry)
{
    const struct mc_index *ix = dump->ix;
    const struct index_node *node = node_at(ix, entry->node);
    bool is_root = node_where(node) & NODE_ROOT;
    size_t places = places_of(dump, entry->node);
    if (!entry->parent && !is_root && !places) {
        return; /* all there is to say is said by its children and heads */
    }
    begin(dump, "node");
    put_text(
        dump, "tenant",
        index_name_view(tenant_name(
            ix, atomic_load_explicit(&node->tenant, memory_order_relaxed))));
    index_json_name(&dump->json, "hash");
    index_json_uint(&dump->json, entry->hash);
    if (entry->parent) {
        index_json_name(&dump->json, "parent");
        index_json_uint(&dump->json,
                        atomic_load_explicit(&node_at(ix, entry->parent)->hash,
                                             memory_order_relaxed));
    }
    if (is_root) {
        index_json_name(&dump->json, "root");
        index_json_raw(&dump->json, "true");
    }
    put_held(dump, entry->node, places);
    index_json_raw(&dump->json, "}");
    emit(dump);
}

/* ---- sessions ---------------------------------------------------------- */

static int compare_sessions(const void *a, const void *b)
{
    const struct index_session *x = *(struct index_session *const *)a;
    const struct index_session *y = *(struct index_session *const *)b;
    uint64_t time_x = atomic_load_explicit(&x->touched, memory_order_relaxed);
    uint64_t time_y = atomic_load_explicit(&y->touched, memory_order_relaxed);
    if (time_x != time_y) {
        return time_x < time_y ? -1 : 1;
    }
    uint32_t tenant_x = atomic_load_explicit(&x->tenant, memory_order_relaxed);
    uint32_t tenant_y = atomic_load_explicit(&y->tenant, memory_order_relaxed);
    if (tenant_x != tenant_y) {
        return tenant_x < tenant_y ? -1 : 1;
    }
    return compare_names(atomic_load_explicit(&x->name, memory_order_relaxed),
                         atomic_load_explicit(&y->name, memory_order_relaxed));
}

/* Heads in the order in which they would be let go. */
static void put_session(struct dump *dump, const struct index_session *session)
{
    const struct mc_index *ix = dump->ix;
    const struct index_heads *heads =
        atomic_load_explicit(&session->heads, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&heads->count, memory_order_relaxed);
    begin(dump, "session");
    put_text(
        dump, "tenant",
        index_name_view(tenant_name(
            ix, atomic_load_explicit(&session->tenant, memory_order_relaxed))));
    put_text(dump, "session",
             index_name_view(
                 atomic_load_explicit(&session->name, memory_order_relaxed)));
    index_json_name(&dump->json, "heads");
    index_json_raw(&dump->json, "[");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = atomic_load_explicit(
            &heads->at[(session->next_drop + i) % count], memory_order_relaxed);
        index_json_raw(&dump->json, i ? ", " : "");
        index_json_uint(&dump->json,
                        atomic_load_explicit(&node_at(ix, node)->hash,
                                             memory_order_relaxed));
    }
    index_json_raw(&dump->json, "]}");
    emit(dump);
}

static void put_sessions(struct dump *dump)
{
    struct mc_index *ix = dump->ix;
    for (uint32_t i = 0; i < ix->heap_count; i++) {
        dump->sessions[i] = session_at(ix, ix->heap[i]);
    }
    if (ix->heap_count > 1) {
        qsort(dump->sessions, ix->heap_count, sizeof dump->sessions[0],
              compare_sessions);
    }
    for (uint32_t i = 0; i < ix->heap_count && dump->err == MC_OK; i++) {
        put_session(dump, dump->sessions[i]);
    }
}

/* ---- all --------------------------------------------------------------- */

static bool reserve(struct dump *dump)
{
    const struct mc_index *ix = dump->ix;
    size_t places = (size_t)atomic_load(&ix->slots.high) * MC_TIER_COUNT * 2;
    dump->entries = mci_alloc((size_t)count_get(&ix->counters.nodes) *
                              sizeof *dump->entries);
    dump->tenant_order = mci_calloc((size_t)atomic_load(&ix->tenants.high) + 1,
                                    sizeof *dump->tenant_order);
    dump->sessions =
        mci_alloc((size_t)ix->heap_count * sizeof dump->sessions[0]);
    dump->places = mci_alloc(places * sizeof *dump->places);
    return dump->entries && dump->tenant_order && dump->sessions &&
           dump->places;
}

enum mc_err mc_index_export(struct mc_index *ix, mc_index_line_fn fn, void *ctx)
{
    struct dump dump = {.ix = ix, .fn = fn, .ctx = ctx, .err = MC_ERR_NOMEM};
    index_json_init(&dump.json);
    if (reserve(&dump)) {
        dump.err = MC_OK;
        put_layout(&dump);
        order_tenants(&dump);
        collect(&dump);
        size_t at = 0;
        while (dump.err == MC_OK && at < dump.count) {
            put_node(&dump, &dump.entries[at]);
            at = next_entry(&dump, at);
        }
        if (dump.err == MC_OK) {
            put_sessions(&dump);
        }
    }
    mci_free(dump.entries);
    mci_free(dump.tenant_order);
    mci_free(dump.sessions);
    mci_free(dump.places);
    index_json_fini(&dump.json);
    return dump.err;
}
