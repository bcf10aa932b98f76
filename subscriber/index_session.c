/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and their heads.
 *
 * Which session was touched least recently is asked of a heap that is put right
 * only when looked at: touching stores a time and moves nothing, so readers may
 * do it too. Each session stands in the heap under a time not later than its
 * true one, so a first that is right is the oldest of all.
 *
 * The array of heads changes in place where one word says it (a head moves on,
 * a head is added behind); whatever else needs a new array, so that a reader
 * never loses a head that was there all the time. A reader may see one twice.
 */
#include <string.h>

#include "index.h"
#include "mci_hash.h"

#define LOOK_MAX 64u /* sessions looked at for nodes to free */

static uint64_t touched_at(const struct index_session *session)
{
    return atomic_load_explicit(&session->touched, memory_order_relaxed);
}

/* ---- the heap ---------------------------------------------------------- */

static void heap_set(struct mc_index *ix, uint32_t at, uint32_t id)
{
    ix->heap[at] = id;
    session_at(ix, id)->heap_at = at;
}

static uint64_t heap_key(const struct mc_index *ix, uint32_t at)
{
    return session_at(ix, ix->heap[at])->heap_key;
}

static void heap_down(struct mc_index *ix, uint32_t at)
{
    uint32_t id = ix->heap[at];
    uint64_t key = session_at(ix, id)->heap_key;
    for (;;) {
        uint32_t child = at * 2 + 1;
        if (child >= ix->heap_count) {
            break;
        }
        if (child + 1 < ix->heap_count &&
            heap_key(ix, child + 1) < heap_key(ix, child)) {
            child++;
        }
        if (heap_key(ix, child) >= key) {
            break;
        }
        heap_set(ix, at, ix->heap[child]);
        at = child;
    }
    heap_set(ix, at, id);
}

static void heap_up(struct mc_index *ix, uint32_t at)
{
    uint32_t id = ix->heap[at];
    uint64_t key = session_at(ix, id)->heap_key;
    while (at && heap_key(ix, (at - 1) / 2) > key) {
        heap_set(ix, at, ix->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(ix, at, id);
}

static bool heap_reserve(struct mc_index *ix)
{
    if (ix->heap_count < ix->heap_cap) {
        return true;
    }
    uint32_t cap = ix->heap_cap ? ix->heap_cap * 2 : 64;
    uint32_t *heap = index_block_take(&ix->memory, cap * sizeof *heap);
    if (!heap) {
        return false;
    }
    if (ix->heap_count) {
        memcpy(heap, ix->heap, ix->heap_count * sizeof *heap);
    }
    index_block_give(&ix->memory, ix->heap);
    ix->heap = heap;
    ix->heap_cap = cap;
    return true;
}

static void heap_add(struct mc_index *ix, uint32_t id)
{
    struct index_session *session = session_at(ix, id);
    session->heap_key = touched_at(session);
    ix->heap[ix->heap_count] = id;
    heap_up(ix, ix->heap_count++);
}

static void heap_remove(struct mc_index *ix, uint32_t id)
{
    uint32_t at = session_at(ix, id)->heap_at;
    uint32_t last = ix->heap[--ix->heap_count];
    if (last == id) {
        return;
    }
    heap_set(ix, at, last);
    heap_up(ix, at);
    heap_down(ix, session_at(ix, last)->heap_at);
}

/* True if the first of the heap stands under its true time. */
static bool heap_settle_first(struct mc_index *ix)
{
    struct index_session *session = session_at(ix, ix->heap[0]);
    uint64_t touched = touched_at(session);
    if (session->heap_key == touched) {
        return true;
    }
    session->heap_key = touched;
    heap_down(ix, 0);
    return false;
}

void index_session_touch(struct mc_index *ix, uint32_t id)
{
    uint64_t now = count_get(&ix->clock) + 2; /* readers stand between */
    atomic_store_explicit(&ix->clock, now, memory_order_relaxed);
    atomic_store_explicit(&session_at(ix, id)->touched, now,
                          memory_order_relaxed);
    /* Near the bound the heap is kept right a step at a time, so that letting
     * a session go need not do all at once. */
    if (ix->heap_count > ix->opts.max_sessions - ix->opts.max_sessions / 4) {
        (void)heap_settle_first(ix);
    }
}

/* ---- making and dropping ----------------------------------------------- */

uint32_t index_session_tag(const struct mc_index *ix, uint32_t tenant,
                           struct mc_view name)
{
    return (
        uint32_t)(mci_hash64_seeded(name.data, name.len, ix->secret ^ tenant) >>
                  32);
}

uint32_t index_session_find(const struct mc_index *ix, uint32_t tenant,
                            struct mc_view text)
{
    struct index_probe probe = index_probe_begin(
        &ix->session_table, index_session_tag(ix, tenant, text));
    uint32_t id;
    while ((id = index_probe_next(&probe))) {
        const struct index_session *session = session_at(ix, id);
        const struct index_name *name =
            atomic_load_explicit(&session->name, memory_order_acquire);
        if (atomic_load_explicit(&session->tenant, memory_order_relaxed) ==
                tenant &&
            name->len == text.len &&
            memcmp(name->bytes, text.data, text.len) == 0) {
            return id;
        }
    }
    return 0;
}

static struct index_heads *own_heads(struct index_session *session)
{
    return (struct index_heads *)(void *)&session->own_count;
}

static void session_init(struct index_session *session, uint32_t tenant,
                         struct index_name *name)
{
    session->marks = 0;
    session->next_drop = 0;
    session->has_lost_head = false;
    session->own_cap = INDEX_HEADS_OWN;
    atomic_store_explicit(&session->own_count, 0, memory_order_relaxed);
    atomic_store_explicit(&session->heads, own_heads(session),
                          memory_order_relaxed);
    atomic_store_explicit(&session->blocks, 0, memory_order_relaxed);
    atomic_store_explicit(&session->touched, 0, memory_order_relaxed);
    atomic_store_explicit(&session->name, name, memory_order_release);
    atomic_store_explicit(&session->tenant, tenant, memory_order_release);
}

static uint32_t session_make(struct mc_index *ix, uint32_t tenant,
                             struct mc_view text)
{
    if (count_get(&ix->counters.sessions) >= ix->opts.max_sessions &&
        !index_session_drop_oldest(ix)) {
        return 0;
    }
    if (!heap_reserve(ix)) {
        return 0;
    }
    uint32_t id = index_pool_take(&ix->memory, &ix->sessions);
    struct index_name *name = id ? index_name_make(ix, text) : NULL;
    if (!name) {
        goto err_give_id;
    }
    struct index_session *session = session_at(ix, id);
    session_init(session, tenant, name);
    session->tag = index_session_tag(ix, tenant, text);
    if (!index_table_insert(&ix->memory, &ix->session_table, session->tag,
                            id)) {
        goto err_retire_name;
    }
    heap_add(ix, id);
    count_add(&ix->counters.sessions, 1);
    count_add(&tenant_at(ix, tenant)->sessions, 1);
    return id;

err_retire_name: /* a walk over all sessions may have met it */
    atomic_store_explicit(&session->tenant, 0, memory_order_release);
    index_block_retire(&ix->memory, name);
    index_pool_retire(&ix->memory, &ix->sessions, id);
    return 0;
err_give_id:
    if (id) {
        index_pool_give(&ix->sessions, id);
    }
    return 0;
}

void index_session_drop(struct mc_index *ix, uint32_t id)
{
    struct index_session *session = session_at(ix, id);
    struct index_heads *heads =
        atomic_load_explicit(&session->heads, memory_order_relaxed);
    uint32_t tenant =
        atomic_load_explicit(&session->tenant, memory_order_relaxed);
    index_table_remove(&ix->session_table, session->tag, id);
    atomic_store_explicit(&session->tenant, 0, memory_order_release);
    if (ix->last_session == id) {
        ix->last_session = 0;
    }
    while (session->marks) {
        index_mark_remove(ix, session->marks);
    }
    uint32_t count = atomic_load_explicit(&heads->count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        index_node_settle(
            ix, atomic_load_explicit(&heads->at[i], memory_order_relaxed));
    }
    heap_remove(ix, id);
    count_add(&ix->counters.sessions, UINT64_MAX);
    count_add(&tenant_at(ix, tenant)->sessions, UINT64_MAX);
    if (heads != own_heads(session)) {
        index_block_retire(&ix->memory, heads);
    }
    index_block_retire(&ix->memory, atomic_load_explicit(&session->name,
                                                         memory_order_relaxed));
    index_pool_retire(&ix->memory, &ix->sessions, id);
}

bool index_session_drop_oldest(struct mc_index *ix)
{
    if (ix->is_grafting || ix->heap_count == 0) {
        return false;
    }
    if (ix->busy_session) {
        index_session_touch(ix, ix->busy_session);
    }
    while (!heap_settle_first(ix)) {
    }
    if (ix->heap[0] == ix->busy_session) {
        return false;
    }
    index_session_drop(ix, ix->heap[0]);
    count_add(&ix->counters.dropped_sessions, 1);
    return true;
}

/* Whether some head is all that keeps its node. */
static bool keeps_node(const struct mc_index *ix, uint32_t id)
{
    const struct index_heads *heads =
        atomic_load_explicit(&session_at(ix, id)->heads, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&heads->count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node_id =
            atomic_load_explicit(&heads->at[i], memory_order_relaxed);
        const struct index_node *node = node_at(ix, node_id);
        uint64_t where = node_where(node);
        if (!atomic_load_explicit(&node->set, memory_order_relaxed) &&
            !(where & (NODE_PARTS | NODE_PINNED)) && !where_children(where) &&
            index_node_is_tail(ix, node_id)) {
            return true;
        }
    }
    return false;
}

bool index_session_free_heads(struct mc_index *ix)
{
    while (!ix->oldest_idle) {
        uint32_t oldest = 0;
        if (ix->is_grafting || count_get(&ix->counters.held_nodes) ==
                                   count_get(&ix->counters.nodes)) {
            return false;
        }
        for (uint32_t i = 0; i < ix->heap_count && i < LOOK_MAX; i++) {
            uint32_t id = ix->heap[i];
            if (id != ix->busy_session && keeps_node(ix, id) &&
                (!oldest || touched_at(session_at(ix, id)) <
                                touched_at(session_at(ix, oldest)))) {
                oldest = id;
            }
        }
        if (!oldest) {
            return false;
        }
        index_session_drop(ix, oldest);
        count_add(&ix->counters.dropped_sessions, 1);
    }
    return true;
}

/* ---- heads ------------------------------------------------------------- */

static uint32_t find_head(const struct index_heads *heads, uint32_t node)
{
    uint32_t at = 0;
    while (atomic_load_explicit(&heads->at[at], memory_order_relaxed) != node) {
        at++;
    }
    return at;
}

static struct index_heads *
grow_heads(struct mc_index *ix, struct index_session *session, uint32_t count)
{
    struct index_heads *old =
        atomic_load_explicit(&session->heads, memory_order_relaxed);
    uint32_t cap = count < 3 ? 6 : count * 2;
    if (cap > ix->opts.max_heads) {
        cap = ix->opts.max_heads;
    }
    struct index_heads *heads = index_block_take(
        &ix->memory, sizeof *heads + cap * sizeof heads->at[0]);
    if (!heads) {
        return NULL;
    }
    heads->cap = cap;
    for (uint32_t i = 0; i < count; i++) {
        atomic_store_explicit(
            &heads->at[i],
            atomic_load_explicit(&old->at[i], memory_order_relaxed),
            memory_order_relaxed);
    }
    atomic_store_explicit(&heads->count, count, memory_order_relaxed);
    atomic_store_explicit(&session->heads, heads, memory_order_release);
    session->has_lost_head = false;
    if (old != own_heads(session)) {
        index_block_retire(&ix->memory, old);
    }
    return heads;
}

bool index_heads_put(struct mc_index *ix, uint32_t id, uint32_t old_node,
                     uint32_t node, uint32_t *lost_out)
{
    struct index_session *session = session_at(ix, id);
    struct index_heads *heads =
        atomic_load_explicit(&session->heads, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&heads->count, memory_order_relaxed);
    if (!old_node && count < ix->opts.max_heads) {
        if (count == heads->cap || session->has_lost_head) {
            heads = grow_heads(ix, session, count);
            if (!heads) {
                return false;
            }
        }
        atomic_store_explicit(&heads->at[count], node, memory_order_relaxed);
        atomic_store_explicit(&heads->count, count + 1, memory_order_release);
        return true;
    }
    uint32_t at = 0;
    if (old_node) {
        at = find_head(heads, old_node);
    } else {
        at = session->next_drop % count;
        session->next_drop = at + 1;
        *lost_out = atomic_load_explicit(&heads->at[at], memory_order_relaxed);
        count_add(&ix->counters.dropped_heads, 1);
    }
    atomic_store_explicit(&heads->at[at], node, memory_order_release);
    return true;
}

void index_heads_remove(struct mc_index *ix, uint32_t id, uint32_t node)
{
    struct index_session *session = session_at(ix, id);
    struct index_heads *heads =
        atomic_load_explicit(&session->heads, memory_order_relaxed);
    uint32_t last =
        atomic_load_explicit(&heads->count, memory_order_relaxed) - 1;
    uint32_t at = find_head(heads, node);
    uint32_t moved =
        atomic_load_explicit(&heads->at[last], memory_order_relaxed);
    atomic_store_explicit(&heads->at[at], moved, memory_order_release);
    atomic_store_explicit(&heads->count, last, memory_order_release);
    session->has_lost_head = true;
}

/* ---- advancing --------------------------------------------------------- */

bool index_session_make_room(struct mc_index *ix, uint64_t need)
{
    while (count_get(&ix->counters.marks) + need > ix->opts.max_marks) {
        if (need > ix->opts.max_marks || !index_session_drop_oldest(ix)) {
            count_add(&ix->counters.dropped_marks, need);
            return false;
        }
    }
    return true;
}

/* Events of one session mostly come together. */
static uint32_t find_again(struct mc_index *ix, uint32_t tenant,
                           struct mc_view text)
{
    uint32_t id = ix->last_session;
    if (id) {
        const struct index_session *session = session_at(ix, id);
        const struct index_name *name =
            atomic_load_explicit(&session->name, memory_order_relaxed);
        if (atomic_load_explicit(&session->tenant, memory_order_relaxed) ==
                tenant &&
            name->len == text.len &&
            memcmp(name->bytes, text.data, text.len) == 0) {
            return id;
        }
    }
    id = index_session_find(ix, tenant, text);
    ix->last_session = id;
    return id;
}

/* What is needed is counted only near the bound. */
static bool has_room_for_marks(struct mc_index *ix, uint32_t session,
                               uint32_t node, struct index_mark_met *met)
{
    if (count_get(&ix->counters.marks) <
        ix->opts.max_marks - ix->opts.max_marks / 8) {
        return true;
    }
    bool has_room =
        index_session_make_room(ix, index_mark_need(ix, session, node));
    /* Letting sessions go may cut runs. */
    (void)index_mark_covers(ix, session, node, met);
    return has_room;
}

static enum mc_index_result advance_new(struct mc_index *ix, uint32_t tenant,
                                        struct mc_view name, uint32_t node)
{
    struct index_mark_met met;
    uint32_t id = session_make(ix, tenant, name);
    if (!id) {
        count_add(&ix->counters.dropped_sessions, 1);
        return MC_INDEX_FULL;
    }
    ix->busy_session = id;
    index_session_touch(ix, id);
    (void)index_mark_covers(ix, id, node, &met);
    bool is_done = has_room_for_marks(ix, id, node, &met) &&
                   index_mark_cover(ix, id, node, &met);
    ix->busy_session = 0;
    if (is_done) {
        return MC_INDEX_APPLIED;
    }
    index_session_drop(ix, id);
    return MC_INDEX_FULL;
}

enum mc_index_result index_session_advance(struct mc_index *ix, uint32_t tenant,
                                           struct mc_view name, uint32_t node)
{
    if (!name.data || name.len == 0) {
        return MC_INDEX_APPLIED;
    }
    struct index_mark_met met;
    uint32_t id = find_again(ix, tenant, name);
    if (!id) {
        return advance_new(ix, tenant, name, node);
    }
    index_session_touch(ix, id);
    if (index_mark_covers(ix, id, node, &met)) {
        return MC_INDEX_APPLIED;
    }
    ix->busy_session = id;
    bool is_done = has_room_for_marks(ix, id, node, &met) &&
                   index_mark_cover(ix, id, node, &met);
    ix->busy_session = 0;
    return is_done ? MC_INDEX_APPLIED : MC_INDEX_FULL;
}
