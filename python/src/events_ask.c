/* SPDX-License-Identifier: Apache-2.0 */
/* events_ask.c - questions to an index.
 *
 * They are short and wait for nobody, so the interpreter's lock is kept, but for
 * chains that are long.
 */
#include "events_py.h"

#define LONG_CHAIN 4096
#define ROWS_FIRST 64

static struct mc_view default_tenant(void)
{
    return mc_view_str("default");
}

static PyObject *u64(uint64_t number)
{
    return PyLong_FromUnsignedLongLong(number);
}

/* ---- match ------------------------------------------------------------------------- */

static PyObject *place_of(const struct mc_index_place *place)
{
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_PLACE);
    mcp_row_add(&row, mcp_text(place->owner));
    mcp_row_add(&row, PyUnicode_InternFromString(mc_tier_name(place->tier)));
    mcp_row_add(&row, u64(place->blocks));
    mcp_row_add(&row, u64(place->prefix));
    return mcp_row_end(&row);
}

static PyObject *worker_of(const struct mc_index_worker *worker)
{
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_WORKER);
    mcp_row_add(&row, mcp_text(worker->owner));
    mcp_row_add(&row, u64(worker->own));
    mcp_row_add(&row, u64(worker->with_store));
    return mcp_row_end(&row);
}

static PyObject *places_of(const struct mc_index_place *places, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *row = place_of(&places[i]);
        if (row) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, row);
        } else {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *workers_of(const struct mc_index_worker *workers, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *row = worker_of(&workers[i]);
        if (row) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, row);
        } else {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *match_of(const struct mc_index_match *match)
{
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_MATCH);
    mcp_row_add(&row, places_of(match->places, match->place_count));
    mcp_row_add(&row, workers_of(match->workers, match->worker_count));
    mcp_row_add(&row, u64(match->store));
    return mcp_row_end(&row);
}

static bool has_room(struct mc_index_match *match)
{
    size_t places = match->place_count;
    size_t workers = match->worker_count;
    if (places <= match->place_capacity && workers <= match->worker_capacity) {
        return true;
    }
    PyMem_Free(match->places);
    PyMem_Free(match->workers);
    match->place_capacity = places + ROWS_FIRST;
    match->worker_capacity = workers + ROWS_FIRST;
    match->places = PyMem_Malloc(match->place_capacity * sizeof *match->places);
    match->workers =
        PyMem_Malloc(match->worker_capacity * sizeof *match->workers);
    if (!match->places || !match->workers) {
        (void)PyErr_NoMemory();
    }
    return false;
}

static void ask_match(struct mc_index_reader *reader, struct mc_view tenant,
                      const struct mcp_hashes *hashes,
                      struct mc_index_match *match)
{
    if (hashes->count < LONG_CHAIN) {
        mc_index_match(reader, tenant, hashes->at, hashes->count, match);
        return;
    }
    Py_BEGIN_ALLOW_THREADS mc_index_match(reader, tenant, hashes->at,
                                          hashes->count, match);
    Py_END_ALLOW_THREADS
}

static PyObject *match(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"hashes", "tenant", NULL};
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view tenant = default_tenant();
    struct mcp_hashes hashes;
    PyObject *list = NULL;
    PyObject *answer = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O&:match", names, &list,
                                     mcp_view_of_str, &tenant) ||
        !mcp_hashes(list, &hashes)) {
        return NULL;
    }
    struct mc_index_reader *reader = mcp_reader_take(self);
    struct mc_index_match found = {.place_count = 1, .worker_count = 1};
    if (reader) {
        while (!has_room(&found) && !PyErr_Occurred()) {
            ask_match(reader, tenant, &hashes, &found);
        }
        answer = PyErr_Occurred() ? NULL : match_of(&found);
        mcp_reader_give(self, reader);
    }
    PyMem_Free(found.places);
    PyMem_Free(found.workers);
    PyMem_Free(hashes.at);
    return answer;
}

/* ---- sessions ---------------------------------------------------------------------- */

static PyObject *heads(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"session", "tenant", NULL};
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view session;
    struct mc_view tenant = default_tenant();
    uint64_t few[ROWS_FIRST];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O&:heads", names,
                                     mcp_view_of_str, &session, mcp_view_of_str,
                                     &tenant)) {
        return NULL;
    }
    struct mc_index_reader *reader = mcp_reader_take(self);
    if (!reader) {
        return NULL;
    }
    PyObject *answer = NULL;
    uint64_t *at = few;
    size_t room = ROWS_FIRST;
    size_t count = mc_index_heads(reader, tenant, session, at, room);
    while (count > room && at) { /* it may have grown since */
        room = count + ROWS_FIRST;
        at = PyMem_Realloc(at == few ? NULL : at, room * sizeof *at);
        count = at ? mc_index_heads(reader, tenant, session, at, room) : 0;
    }
    answer = at ? mcp_hash_list(at, count) : PyErr_NoMemory();
    if (at != few) {
        PyMem_Free(at);
    }
    mcp_reader_give(self, reader);
    return answer;
}

static PyObject *chain(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"head", "tenant", NULL};
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view tenant = default_tenant();
    PyObject *number = NULL;
    struct mcp_hashes head;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O&:chain", names, &number,
                                     mcp_view_of_str, &tenant)) {
        return NULL;
    }
    PyObject *one = PyTuple_Pack(1, number);
    bool is_read = one && mcp_hashes(one, &head);
    Py_XDECREF(one);
    struct mc_index_reader *reader = is_read ? mcp_reader_take(self) : NULL;
    if (!reader) {
        if (is_read) {
            PyMem_Free(head.at);
        }
        return NULL;
    }
    uint64_t *at = NULL;
    size_t room = 0;
    bool is_rooted = false;
    size_t count =
        mc_index_chain(reader, tenant, head.at[0], NULL, 0, &is_rooted);
    while (count > room) {
        room = count + ROWS_FIRST;
        uint64_t *more = PyMem_Realloc(at, room * sizeof *at);
        if (!more) {
            (void)PyErr_NoMemory();
            break;
        }
        at = more;
        count =
            mc_index_chain(reader, tenant, head.at[0], at, room, &is_rooted);
    }
    PyObject *list = PyErr_Occurred() ? NULL : mcp_hash_list(at, count);
    PyObject *answer =
        list ? Py_BuildValue("NO", list, is_rooted ? Py_True : Py_False) : NULL;
    PyMem_Free(at);
    PyMem_Free(head.at);
    mcp_reader_give(self, reader);
    return answer;
}

static PyObject *resident(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"session", "tenant", NULL};
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view session;
    struct mc_view tenant = default_tenant();
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O&:resident", names,
                                     mcp_view_of_str, &session, mcp_view_of_str,
                                     &tenant)) {
        return NULL;
    }
    struct mc_index_reader *reader = mcp_reader_take(self);
    if (!reader) {
        return NULL;
    }
    struct mc_index_place *places = NULL;
    size_t room = 0;
    size_t count = 1;
    uint64_t blocks = 0;
    while (count > room && count != SIZE_MAX) {
        room = count + ROWS_FIRST;
        PyMem_Free(places);
        places = PyMem_Malloc(room * sizeof *places);
        count = places ? mc_index_resident(reader, tenant, session, places,
                                           room, &blocks)
                       : SIZE_MAX;
    }
    PyObject *list =
        count == SIZE_MAX ? PyErr_NoMemory() : places_of(places, count);
    PyObject *answer =
        list ? Py_BuildValue("NK", list, (unsigned long long)blocks) : NULL;
    PyMem_Free(places);
    mcp_reader_give(self, reader);
    return answer;
}

static PyObject *names_of(const struct mc_view *views, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *name = mcp_text(views[i]);
        if (name) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, name);
        } else {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* Names of at most so many, and how many there are. */
static PyObject *ask_sessions_of(struct mc_index_reader *reader,
                                 struct mc_view tenant, uint64_t hash,
                                 size_t limit)
{
    /* No room for more than there are, whatever the limit. */
    size_t there = mc_index_sessions_of(reader, tenant, hash, NULL, 0);
    size_t room = there < limit ? there : limit;
    struct mc_view *views = PyMem_Calloc(room + 1, sizeof *views);
    if (!views) {
        return PyErr_NoMemory();
    }
    size_t count = mc_index_sessions_of(reader, tenant, hash, views, room);
    PyObject *list = names_of(views, count < room ? count : room);
    PyMem_Free(views);
    return list ? Py_BuildValue("nN", (Py_ssize_t)count, list) : NULL;
}

static PyObject *sessions_of(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"hash", "limit", "tenant", NULL};
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view tenant = default_tenant();
    PyObject *number = NULL;
    uint32_t limit = 100;
    struct mcp_hashes hash;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O&O&:sessions_of", names,
                                     &number, mcp_u32_of, &limit,
                                     mcp_view_of_str, &tenant)) {
        return NULL;
    }
    PyObject *one = PyTuple_Pack(1, number);
    bool is_read = one && mcp_hashes(one, &hash);
    Py_XDECREF(one);
    if (!is_read) {
        return NULL;
    }
    struct mc_index_reader *reader = mcp_reader_take(self);
    PyObject *answer = NULL;
    if (reader) {
        answer = ask_sessions_of(reader, tenant, hash.at[0], limit);
        mcp_reader_give(self, reader);
    }
    PyMem_Free(hash.at);
    return answer;
}

/* ---- all of them ---------------------------------------------------------------------- */

static bool add_session(void *ctx, const struct mc_index_session *session)
{
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_SESSION);
    mcp_row_add(&row, mcp_text(session->tenant));
    mcp_row_add(&row, mcp_text(session->session));
    mcp_row_add(&row, u64(session->heads));
    mcp_row_add(&row, u64(session->blocks));
    mcp_row_add(&row, u64(session->bytes));
    PyObject *made = mcp_row_end(&row);
    bool is_added = made && PyList_Append(ctx, made) == 0;
    Py_XDECREF(made);
    return is_added;
}

static PyObject *sessions(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tenant", NULL};
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view tenant = mc_view_make(NULL, 0);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&:sessions", names,
                                     mcp_view_of_str_or_none, &tenant)) {
        return NULL;
    }
    struct mc_index_reader *reader = mcp_reader_take(self);
    if (!reader) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    if (list) {
        enum mc_err err = mc_index_sessions(reader, tenant, add_session, list);
        if (err != MC_OK && !PyErr_Occurred()) {
            (void)mcp_event_fail(err, "sessions");
        }
        if (PyErr_Occurred()) {
            Py_CLEAR(list);
        }
    }
    mcp_reader_give(self, reader);
    return list;
}

static PyObject *tenant_of(const struct mc_index_tenant *tenant)
{
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_TENANT);
    mcp_row_add(&row, mcp_text(tenant->tenant));
    mcp_row_add(&row, u64(tenant->nodes));
    mcp_row_add(&row, u64(tenant->sessions));
    mcp_row_add(&row, u64(tenant->resident));
    mcp_row_add(&row, u64(tenant->resident_bytes));
    return mcp_row_end(&row);
}

static PyObject *tenants(PyObject *object, PyObject *unused)
{
    struct mcp_index *self = (struct mcp_index *)object;
    (void)unused;
    struct mc_index_reader *reader = mcp_reader_take(self);
    if (!reader) {
        return NULL;
    }
    size_t room = mc_index_tenants(reader, NULL, 0) + ROWS_FIRST;
    struct mc_index_tenant *rows = PyMem_Malloc(room * sizeof *rows);
    size_t count = rows ? mc_index_tenants(reader, rows, room) : 0;
    count = count < room ? count : room;
    PyObject *list = rows ? PyList_New((Py_ssize_t)count) : PyErr_NoMemory();
    for (size_t i = 0; list && i < count; i++) {
        PyObject *row = tenant_of(&rows[i]);
        if (row) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, row);
        } else {
            Py_CLEAR(list);
        }
    }
    PyMem_Free(rows);
    mcp_reader_give(self, reader);
    return list;
}

static PyObject *stats(PyObject *object, PyObject *unused)
{
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_index_stats now;
    (void)unused;
    if (!mcp_event_is_ours(self->forks)) {
        return NULL;
    }
    mc_index_stats(self->index, &now);
#define PAIR(name) #name, (unsigned long long)now.name
    return Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsK}", PAIR(nodes), PAIR(resident),
        PAIR(sessions), PAIR(marks), PAIR(bytes), PAIR(applied),
        PAIR(matched_keys), PAIR(foreign_keys), PAIR(collisions),
        PAIR(conflicting_parents), PAIR(cyclic_parents), PAIR(refused_nodes),
        PAIR(refused_places), PAIR(refused_changes), PAIR(invalid),
        PAIR(dropped_sessions), PAIR(dropped_heads), PAIR(dropped_marks),
        PAIR(freed_nodes));
#undef PAIR
}

#define QUESTION(name) \
#name, (PyCFunction)(void (*)(void))(name), METH_VARARGS | METH_KEYWORDS

PyMethodDef mcp_index_questions[] = {
    {QUESTION(match),
     "match($self, /, hashes, tenant='default')\n--\n\nOf a request's chain of "
     "blocks, how many leading ones are held, and where:\na Match. hashes: a "
     "list "
     "of int, or an array of 64-bit integers."},
    {QUESTION(heads), "heads($self, /, session, tenant='default')\n--\n\nThe "
                      "deepest blocks that a "
                      "session reached, ascending; [] of an unknown one."},
    {QUESTION(chain),
     "chain($self, /, head, tenant='default')\n--\n\n(hashes, is_rooted): the "
     "chain "
     "that ends in a block, from its first on, and\nwhether that begins a "
     "sequence; ([], False) for an unknown block."},
    {QUESTION(resident), "resident($self, /, session, "
                         "tenant='default')\n--\n\n(places, blocks): what of "
                         "a session's lineage is held where, a list of\nPlace, "
                         "and how many blocks its "
                         "lineage has."},
    {QUESTION(sessions_of),
     "sessions_of($self, /, hash, limit=100, tenant='default')\n--\n\n(count, "
     "names): how many sessions hold a block in their lineage, and at\nmost so "
     "many "
     "of their names."},
    {QUESTION(sessions), "sessions($self, /, tenant=None)\n--\n\nAll sessions "
                         "of a tenant, or of every "
                         "one: a list of Session, in no order."},
    {"tenants", tenants, METH_NOARGS,
     "tenants($self, /)\n--\n\nA list of Tenant."},
    {"stats", stats, METH_NOARGS,
     "stats($self, /)\n--\n\nCounters by name, as in struct mc_index_stats."},
    {NULL, NULL, 0, NULL}};
