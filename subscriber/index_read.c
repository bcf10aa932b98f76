/* SPDX-License-Identifier: Apache-2.0 */
/* Asking, but for match: readers walk what the writer changes under them.
 *
 * What a reader relies on: a node's parent is known once and for ever; an array
 * of ids is true for the nodes it was found by; what it holds an id of is not
 * reused before it leaves. A node that moves to another run meanwhile is looked
 * up again; each such turn means that the writer has moved that very node, so
 * no reader waits for anybody. */
#include <stdlib.h>
#include <string.h>

#include "index.h"
#include "index_walk.h"
#include "mci_alloc.h"

/* ---- readers ----------------------------------------------------------- */

static struct index_seat *take_seat(struct index_memory *memory)
{
    for (uint32_t i = 0; i < memory->seat_count; i++) {
        bool is_taken = false;
        if (atomic_compare_exchange_strong(&memory->seats[i].is_taken,
                                           &is_taken, true)) {
            uint32_t used = atomic_load(&memory->seats_used);
            while (used < i + 1 && !atomic_compare_exchange_weak(
                                       &memory->seats_used, &used, i + 1)) {
            }
            return &memory->seats[i];
        }
    }
    return NULL;
}

enum mc_err mc_index_reader_create(struct mc_index *ix,
                                   struct mc_index_reader **reader_out)
{
    struct mc_index_reader *reader = mci_calloc(1, sizeof *reader);
    if (!reader) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = MC_ERR_NOMEM;
    reader->ix = ix;
    reader->row_cap = ix->opts.max_owners * MC_TIER_COUNT;
    reader->rows = mci_alloc(reader->row_cap * sizeof *reader->rows);
    reader->totals = mci_alloc(reader->row_cap * sizeof *reader->totals);
    reader->workers = mci_alloc(ix->opts.max_owners * sizeof *reader->workers);
    reader->names_cap = 4096;
    reader->names = mci_alloc(reader->names_cap);
    if (!reader->rows || !reader->totals || !reader->workers ||
        !reader->names) {
        goto err_free;
    }
    reader->seat = take_seat(&ix->memory);
    err = MC_ERR_BUFFER_OVERFLOW;
    if (!reader->seat) {
        goto err_free;
    }
    *reader_out = reader;
    return MC_OK;

err_free:
    mc_index_reader_destroy(reader);
    return err;
}

void mc_index_reader_destroy(struct mc_index_reader *reader)
{
    if (!reader) {
        return;
    }
    if (reader->seat) {
        atomic_store(&reader->seat->epoch, 0);
        atomic_store(&reader->seat->is_taken, false);
    }
    while (reader->old_names) {
        void *next;
        memcpy(&next, reader->old_names, sizeof next);
        mci_free(reader->old_names);
        reader->old_names = next;
    }
    mci_free(reader->names);
    mci_free(reader->rows);
    mci_free(reader->totals);
    mci_free(reader->workers);
    mci_free(reader->nodes);
    mci_free(reader->seen);
    mci_free(reader);
}

/* Names handed out point into the buffer, so a full one is kept as it is until
 * the reader is asked again, and a larger one begun. */
static bool more_names(struct mc_index_reader *reader, size_t len)
{
    size_t cap = reader->names_cap * 2;
    while (cap < len + sizeof(void *)) {
        cap *= 2;
    }
    char *names = mci_alloc(cap);
    if (!names) {
        return false;
    }
    memcpy(reader->names, &reader->old_names, sizeof reader->old_names);
    reader->old_names = reader->names;
    reader->names = names;
    reader->names_cap = cap;
    reader->names_len = sizeof(void *);
    return true;
}

void index_reader_begin(struct mc_index_reader *reader)
{
    while (reader->old_names) {
        void *next;
        memcpy(&next, reader->old_names, sizeof next);
        mci_free(reader->old_names);
        reader->old_names = next;
    }
    reader->names_len = sizeof(void *); /* room for the link of old ones */
    index_memory_enter(&reader->ix->memory, reader->seat);
}

void index_reader_end(struct mc_index_reader *reader)
{
    index_memory_leave(reader->seat);
}

bool index_reader_keep(struct mc_index_reader *reader,
                       const struct index_name *name, struct mc_view *view_out)
{
    *view_out = mc_view_make(NULL, 0);
    if (reader->names_cap - reader->names_len < name->len &&
        !more_names(reader, name->len)) {
        return false;
    }
    char *at = reader->names + reader->names_len;
    memcpy(at, name->bytes, name->len);
    reader->names_len += name->len;
    *view_out = mc_view_make(at, name->len);
    return true;
}

/* ---- climbing ---------------------------------------------------------- */

uint64_t index_where(const struct mc_index *ix, uint32_t node)
{
    return atomic_load_explicit(&node_at(ix, node)->where,
                                memory_order_acquire);
}

bool index_stretch_of(const struct mc_index *ix, uint32_t node,
                      struct index_stretch *stretch_out)
{
    for (;;) {
        uint64_t where = index_where(ix, node);
        if (!(where & NODE_IN_RUN)) {
            stretch_out->ids = NULL;
            stretch_out->pos = 0;
            stretch_out->run = NULL;
            return true;
        }
        const struct index_run *run = run_at(ix, where_run(where));
        const struct index_ids *ids =
            atomic_load_explicit(&run->ids, memory_order_acquire);
        uint32_t pos = where_pos(where);
        if (pos < ids->cap &&
            atomic_load_explicit(&ids->at[pos], memory_order_acquire) == node) {
            stretch_out->ids = ids;
            stretch_out->pos = pos;
            stretch_out->run = run;
            return true;
        }
        if (!((index_where(ix, node) ^ where) & NODE_PLACE_MASK)) {
            return false; /* not moved: freed */
        }
    }
}

uint32_t index_stretch_parent(const struct index_stretch *stretch)
{
    return stretch->run ? atomic_load_explicit(&stretch->run->parent,
                                               memory_order_acquire)
                        : 0;
}

uint32_t index_stretch_node(const struct index_stretch *stretch, uint32_t node,
                            uint32_t pos)
{
    return stretch->ids ? atomic_load_explicit(&stretch->ids->at[pos],
                                               memory_order_relaxed)
                        : node;
}

static uint64_t node_hash(const struct mc_index *ix, uint32_t node)
{
    return atomic_load_explicit(&node_at(ix, node)->hash, memory_order_relaxed);
}

static size_t climb(const struct mc_index *ix, uint32_t node, uint64_t *out,
                    size_t capacity, bool *is_rooted)
{
    size_t len = 0;
    uint32_t root = 0;
    while (node) {
        struct index_stretch stretch;
        if (!index_stretch_of(ix, node, &stretch)) {
            return 0;
        }
        for (uint32_t pos = stretch.pos + 1; pos-- > 0;) {
            root = index_stretch_node(&stretch, node, pos);
            if (len < capacity) {
                out[capacity - 1 - len] = node_hash(ix, root);
            }
            len++;
        }
        node = index_stretch_parent(&stretch);
    }
    *is_rooted = root && (index_where(ix, root) & NODE_ROOT);
    return len;
}

size_t mc_index_chain(struct mc_index_reader *reader, struct mc_view tenant,
                      uint64_t head, uint64_t *hashes_out, size_t capacity,
                      bool *is_rooted_out)
{
    bool is_rooted = false;
    size_t len = 0;
    index_reader_begin(reader);
    uint32_t t = index_tenant_find(reader->ix, tenant);
    uint32_t node = t ? index_node_find(reader->ix, t, head) : 0;
    if (node) {
        len = climb(reader->ix, node, hashes_out, capacity, &is_rooted);
    }
    index_reader_end(reader);
    if (len && len < capacity) {
        memmove(hashes_out, hashes_out + (capacity - len),
                len * sizeof *hashes_out);
    }
    if (is_rooted_out) {
        *is_rooted_out = is_rooted;
    }
    return len;
}

/* ---- sessions ---------------------------------------------------------- */

/* Never back in time: the writer may have touched it later than the clock was
 * read. */
static void touch(const struct mc_index *ix, struct index_session *session)
{
    uint64_t now = count_get(&ix->clock) + 1;
    uint64_t seen =
        atomic_load_explicit(&session->touched, memory_order_relaxed);
    while (seen < now && !atomic_compare_exchange_weak_explicit(
                             &session->touched, &seen, now,
                             memory_order_relaxed, memory_order_relaxed)) {
    }
}

struct index_session *index_session_of(struct mc_index_reader *reader,
                                       struct mc_view tenant,
                                       struct mc_view name)
{
    const struct mc_index *ix = reader->ix;
    uint32_t t = index_tenant_find(ix, tenant);
    uint32_t id =
        t && name.data && name.len ? index_session_find(ix, t, name) : 0;
    if (!id) {
        return NULL;
    }
    touch(ix, session_at(ix, id));
    return session_at(ix, id);
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t sort_hashes(uint64_t *hashes, size_t count)
{
    qsort(hashes, count, sizeof *hashes, compare_hashes);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (n == 0 || hashes[n - 1] != hashes[i]) {
            hashes[n++] = hashes[i];
        }
    }
    return n;
}

/* The least `capacity` of the heads, ascending: they are few, so finding the
 * next greater one each time needs no memory. */
static size_t select_heads(const struct mc_index *ix,
                           const struct index_heads *heads, uint32_t count,
                           uint64_t *out, size_t capacity)
{
    size_t n = 0;
    uint64_t last = 0;
    for (;;) {
        bool is_found = false;
        uint64_t least = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t hash = node_hash(
                ix, atomic_load_explicit(&heads->at[i], memory_order_acquire));
            if ((n == 0 || hash > last) && (!is_found || hash < least)) {
                least = hash;
                is_found = true;
            }
        }
        if (!is_found) {
            return n;
        }
        if (n < capacity) {
            out[n] = least;
        }
        last = least;
        n++;
    }
}

size_t mc_index_heads(struct mc_index_reader *reader, struct mc_view tenant,
                      struct mc_view session, uint64_t *heads_out,
                      size_t capacity)
{
    size_t n = 0;
    index_reader_begin(reader);
    const struct index_session *s = index_session_of(reader, tenant, session);
    if (s) {
        const struct index_heads *heads =
            atomic_load_explicit(&s->heads, memory_order_acquire);
        uint32_t count =
            atomic_load_explicit(&heads->count, memory_order_acquire);
        if (count <= capacity) {
            for (uint32_t i = 0; i < count; i++) {
                heads_out[i] = node_hash(
                    reader->ix,
                    atomic_load_explicit(&heads->at[i], memory_order_acquire));
            }
            n = sort_hashes(heads_out, count);
        } else {
            n = select_heads(reader->ix, heads, count, heads_out, capacity);
        }
    }
    index_reader_end(reader);
    return n;
}

static uint32_t first_mark(const struct mc_index *ix, uint64_t where)
{
    return where & NODE_IN_RUN
               ? atomic_load_explicit(&run_at(ix, where_run(where))->marks,
                                      memory_order_acquire)
               : where_run(where);
}

static size_t list_sessions(struct mc_index_reader *reader, uint64_t where,
                            struct mc_view *names_out, size_t capacity)
{
    const struct mc_index *ix = reader->ix;
    size_t n = 0;
    uint32_t m = first_mark(ix, where);
    while (m) {
        const struct index_mark *mark = mark_at(ix, m);
        uint32_t reach =
            atomic_load_explicit(&mark->reach, memory_order_acquire);
        if ((reach & ~MARK_HEAD) >= where_pos(where)) {
            const struct index_session *session = session_at(
                ix, atomic_load_explicit(&mark->session, memory_order_acquire));
            if (n < capacity) {
                (void)index_reader_keep(
                    reader,
                    atomic_load_explicit(&session->name, memory_order_acquire),
                    &names_out[n]);
            }
            n++;
        }
        m = atomic_load_explicit(&mark->next_run, memory_order_acquire);
    }
    return n;
}

size_t mc_index_sessions_of(struct mc_index_reader *reader,
                            struct mc_view tenant, uint64_t hash,
                            struct mc_view *names_out, size_t capacity)
{
    size_t n = 0;
    const struct mc_index *ix = reader->ix;
    index_reader_begin(reader);
    uint32_t t = index_tenant_find(ix, tenant);
    uint32_t node = t ? index_node_find(ix, t, hash) : 0;
    size_t names_len = reader->names_len;
    while (node) {
        uint64_t where = index_where(ix, node);
        if (!reader->old_names) {
            reader->names_len = names_len;
        }
        n = list_sessions(reader, where, names_out, capacity);
        /* A run that was cut meanwhile has marks that say less. */
        if (!((index_where(ix, node) ^ where) &
              (where & NODE_IN_RUN ? NODE_PLACE_MASK : NODE_IN_RUN))) {
            break;
        }
    }
    index_reader_end(reader);
    return n;
}

/* Copies a session's row; false if there is none under the id. */
static bool read_session(struct mc_index_reader *reader, uint32_t id,
                         uint32_t tenant, struct mc_index_session *row)
{
    const struct mc_index *ix = reader->ix;
    const struct index_session *session = session_at(ix, id);
    uint32_t t = atomic_load_explicit(&session->tenant, memory_order_acquire);
    if (!t || (tenant && t != tenant)) {
        return false;
    }
    const struct index_heads *heads =
        atomic_load_explicit(&session->heads, memory_order_acquire);
    row->heads = atomic_load_explicit(&heads->count, memory_order_acquire);
    row->blocks = count_get(&session->blocks);
    row->bytes = row->blocks * ix->opts.block_bytes;
    row->tenant = index_name_view(
        atomic_load_explicit(&tenant_at(ix, t)->name, memory_order_acquire));
    (void)index_reader_keep(
        reader, atomic_load_explicit(&session->name, memory_order_acquire),
        &row->session);
    return row->heads != 0;
}

enum mc_err mc_index_sessions(struct mc_index_reader *reader,
                              struct mc_view tenant, mc_index_session_fn fn,
                              void *ctx)
{
    const struct mc_index *ix = reader->ix;
    uint32_t t = 0;
    if (tenant.data) {
        index_reader_begin(reader);
        t = index_tenant_find(ix, tenant);
        index_reader_end(reader);
        if (!t) {
            return MC_OK;
        }
    }
    uint32_t high =
        atomic_load_explicit(&ix->sessions.high, memory_order_acquire);
    for (uint32_t id = 1; id <= high; id++) {
        struct mc_index_session row;
        index_reader_begin(reader);
        bool is_there = read_session(reader, id, t, &row);
        index_reader_end(reader);
        if (is_there && !row.session.data) {
            return MC_ERR_NOMEM;
        }
        if (is_there && !fn(ctx, &row)) {
            break;
        }
    }
    return MC_OK;
}

size_t mc_index_tenants(struct mc_index_reader *reader,
                        struct mc_index_tenant *tenants_out, size_t capacity)
{
    const struct mc_index *ix = reader->ix;
    size_t n = 0;
    index_reader_begin(reader);
    uint32_t high =
        atomic_load_explicit(&ix->tenants.high, memory_order_acquire);
    for (uint32_t id = 1; id <= high; id++) {
        const struct index_tenant *tenant = tenant_at(ix, id);
        const struct index_name *name =
            atomic_load_explicit(&tenant->name, memory_order_acquire);
        if (!name) {
            continue;
        }
        if (n < capacity) {
            struct mc_index_tenant *row = &tenants_out[n];
            row->tenant = index_name_view(name);
            row->nodes = count_get(&tenant->nodes);
            row->sessions = count_get(&tenant->sessions);
            row->resident = count_get(&tenant->resident);
            row->resident_bytes = row->resident * ix->opts.block_bytes;
        }
        n++;
    }
    index_reader_end(reader);
    return n;
}
