/* SPDX-License-Identifier: Apache-2.0 */
/* events_index.c - Index: its life, and what changes it.
 *
 * The library has one writer at a time: whoever holds `writing`, which is a
 * subscriber while it delivers, or a call here. Questions need no lock; each takes
 * a reader of its own.
 */
#include "events_py.h"

/* ---- life ------------------------------------------------------------------------ */

static bool read_bounds(PyObject *kwargs, struct mc_index_opts *opts)
{
    static const struct {
        const char *name;
        size_t offset;
        bool is_wide;
    } bounds[] = {
#define BOUND(name, is_wide) \
    {#name, offsetof(struct mc_index_opts, name), is_wide}
        BOUND(max_nodes, true),    BOUND(max_sessions, true),
        BOUND(max_heads, false),   BOUND(max_marks, true),
        BOUND(max_bytes, true),    BOUND(max_owners, false),
        BOUND(max_tenants, false), BOUND(block_bytes, true),
#undef BOUND
    };
    PyObject *name = NULL;
    PyObject *value = NULL;
    Py_ssize_t at = 0;
    while (kwargs && PyDict_Next(kwargs, &at, &name, &value)) {
        size_t i = 0;
        size_t count = sizeof bounds / sizeof bounds[0];
        while (i < count &&
               PyUnicode_CompareWithASCIIString(name, bounds[i].name) != 0) {
            i++;
        }
        if (i == count) {
            PyErr_Format(PyExc_TypeError,
                         "Index() got an unexpected keyword argument %R", name);
            return false;
        }
        uint64_t number = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred()) {
            return false;
        }
        if (!bounds[i].is_wide && number > UINT32_MAX) {
            PyErr_Format(PyExc_OverflowError, "%s: at most 2**32 - 1",
                         bounds[i].name);
            return false;
        }
        uint32_t narrow = (uint32_t)number;
        const void *from = bounds[i].is_wide ? (const void *)&number : &narrow;
        memcpy((char *)opts + bounds[i].offset, from,
               bounds[i].is_wide ? sizeof number : sizeof narrow);
    }
    return true;
}

/* prefix may be a keyword, as the bounds are: taken out of them then. A new
 * reference; NULL with an exception. */
static PyObject *prefix_of(PyObject *given, PyObject *bounds)
{
    if (given) {
        Py_INCREF(given);
        return given;
    }
    PyObject *name = PyUnicode_FromString("prefix");
    PyObject *prefix =
        name && bounds ? PyDict_GetItemWithError(bounds, name) : NULL;
    Py_XINCREF(prefix);
    if (prefix && PyDict_DelItem(bounds, name) != 0) {
        Py_CLEAR(prefix);
    }
    Py_XDECREF(name);
    return prefix || PyErr_Occurred() ? prefix : PyUnicode_FromString("");
}

static struct mcp_index *index_make(PyTypeObject *type,
                                    const struct mc_index_opts *opts)
{
    struct mc_index *index = NULL;
    enum mc_err err = mc_index_create(opts, &index);
    if (err != MC_OK) {
        (void)mcp_event_fail(err, "Index");
        return NULL;
    }
    struct mcp_index *self = (struct mcp_index *)type->tp_alloc(type, 0);
    if (!self) {
        mc_index_destroy(index);
        return NULL;
    }
    self->index = index;
    self->forks = mcp_event_forks();
    (void)pthread_mutex_init(&self->writing, NULL);
    return self;
}

static bool read_layout(PyObject *layout, PyObject *prefix,
                        struct mc_key_layout *layout_out)
{
    struct mc_view layout_view;
    struct mc_view prefix_view;
    if (!mcp_view_needed(layout, "layout", &layout_view) ||
        !mcp_view_needed(prefix, "prefix", &prefix_view)) {
        return false;
    }
    enum mc_err err = mc_key_layout_parse(layout_view, prefix_view, layout_out);
    if (err != MC_OK) {
        (void)mcp_event_fail(err, "Index");
    }
    return err == MC_OK;
}

static PyObject *index_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct mc_index_opts opts = {.max_readers = MCP_READERS};
    PyObject *layout = NULL;
    PyObject *given = NULL;
    if (!PyArg_ParseTuple(args, "U|U:Index", &layout, &given)) {
        return NULL;
    }
    PyObject *bounds = kwargs ? PyDict_Copy(kwargs) : NULL;
    PyObject *prefix = kwargs && !bounds ? NULL : prefix_of(given, bounds);
    struct mcp_index *self = NULL;
    if (prefix && read_bounds(bounds, &opts) &&
        read_layout(layout, prefix, &opts.layout)) {
        self = index_make(type, &opts);
    }
    if (self) {
        Py_INCREF(layout);
        self->layout = layout;
        Py_INCREF(prefix);
        self->prefix = prefix;
    }
    Py_XDECREF(prefix);
    Py_XDECREF(bounds);
    return (PyObject *)self;
}

static void index_free(PyObject *object)
{
    struct mcp_index *self = (struct mcp_index *)object;
    if (self->forks == mcp_event_forks()) {
        for (unsigned i = 0; i < self->idle_count; i++) {
            mc_index_reader_destroy(self->idle[i]);
        }
        mc_index_destroy(self->index);
        (void)pthread_mutex_destroy(&self->writing);
    }
    Py_XDECREF(self->layout);
    Py_XDECREF(self->prefix);
    Py_TYPE(object)->tp_free(object);
}

void mcp_index_lock(struct mcp_index *index)
{
    if (index) {
        (void)pthread_mutex_lock(&index->writing);
    }
}

void mcp_index_unlock(struct mcp_index *index)
{
    if (index) {
        (void)pthread_mutex_unlock(&index->writing);
    }
}

/* Readers are kept for the next question. */
struct mc_index_reader *mcp_reader_take(struct mcp_index *self)
{
    struct mc_index_reader *reader = NULL;
    if (!mcp_event_is_ours(self->forks)) {
        return NULL;
    }
    if (self->idle_count > 0) {
        return self->idle[--self->idle_count];
    }
    enum mc_err err = mc_index_reader_create(self->index, &reader);
    if (err != MC_OK) {
        (void)mcp_event_fail(err, "a question to the index");
    }
    return reader;
}

void mcp_reader_give(struct mcp_index *self, struct mc_index_reader *reader)
{
    self->idle[self->idle_count++] = reader; /* as many as there can be */
}

/* ---- changing --------------------------------------------------------------------- */

static PyObject *result_of(enum mc_index_result result)
{
    return PyUnicode_InternFromString(mc_index_result_name(result));
}

static PyObject *observe(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"session", "hashes", "tenant", NULL};
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view session;
    struct mc_view tenant = mc_view_str("default");
    PyObject *list = NULL;
    struct mcp_hashes hashes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|O&:observe", names,
                                     mcp_view_of_str, &session, &list,
                                     mcp_view_of_str, &tenant) ||
        !mcp_event_is_ours(self->forks) || !mcp_hashes(list, &hashes)) {
        return NULL;
    }
    mcp_mutex_enter(&self->writing);
    enum mc_index_result result =
        mc_index_observe(self->index, tenant, session, hashes.at, hashes.count);
    (void)pthread_mutex_unlock(&self->writing);
    PyMem_Free(hashes.at);
    return result_of(result);
}

static PyObject *session_end(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"session", "tenant", NULL};
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view session;
    struct mc_view tenant = mc_view_str("default");
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O&:session_end", names,
                                     mcp_view_of_str, &session, mcp_view_of_str,
                                     &tenant) ||
        !mcp_event_is_ours(self->forks)) {
        return NULL;
    }
    mcp_mutex_enter(&self->writing);
    mc_index_session_end(self->index, tenant, session);
    (void)pthread_mutex_unlock(&self->writing);
    Py_RETURN_NONE;
}

static PyObject *worker_lost(PyObject *object, PyObject *worker)
{
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view view;
    if (!mcp_event_is_ours(self->forks) ||
        !mcp_view_needed(worker, "worker", &view)) {
        return NULL;
    }
    mcp_mutex_enter(&self->writing);
    mc_index_worker_lost(self->index, view);
    (void)pthread_mutex_unlock(&self->writing);
    Py_RETURN_NONE;
}

static PyObject *apply(PyObject *object, PyObject *line)
{
    struct mcp_index *self = (struct mcp_index *)object;
    struct mc_view view;
    enum mc_index_result result = MC_INDEX_APPLIED;
    if (!mcp_event_is_ours(self->forks) ||
        !mcp_view_needed(line, "line", &view)) {
        return NULL;
    }
    mcp_mutex_enter(&self->writing);
    enum mc_err err = mc_index_apply_line(self->index, view, &result);
    (void)pthread_mutex_unlock(&self->writing);
    return err == MC_OK ? result_of(result)
                        : mcp_event_fail(err, "not a line of a script");
}

static PyObject *maintain(PyObject *object, PyObject *args)
{
    struct mcp_index *self = (struct mcp_index *)object;
    uint32_t steps = 1000;
    if (!PyArg_ParseTuple(args, "|O&:maintain", mcp_u32_of, &steps) ||
        !mcp_event_is_ours(self->forks)) {
        return NULL;
    }
    bool is_more = false;
    Py_BEGIN_ALLOW_THREADS mcp_index_lock(self);
    is_more = mc_index_maintain(self->index, steps);
    mcp_index_unlock(self);
    Py_END_ALLOW_THREADS return PyBool_FromLong(is_more);
}

/* Lines, with the interpreter's lock. */
static enum mc_err add_line(void *ctx, struct mc_view line)
{
    PyObject *text = mcp_text(line);
    bool is_added = text && PyList_Append(ctx, text) == 0;
    Py_XDECREF(text);
    return is_added ? MC_OK : MC_ERR_NOMEM;
}

static PyObject *export(PyObject *object, PyObject *unused)
{
    struct mcp_index *self = (struct mcp_index *)object;
    (void)unused;
    PyObject *lines = mcp_event_is_ours(self->forks) ? PyList_New(0) : NULL;
    if (!lines) {
        return NULL;
    }
    mcp_mutex_enter(&self->writing);
    enum mc_err err = mc_index_export(self->index, add_line, lines);
    (void)pthread_mutex_unlock(&self->writing);
    if (err != MC_OK) {
        Py_CLEAR(lines);
        if (!PyErr_Occurred()) {
            (void)mcp_event_fail(err, "export");
        }
    }
    return lines;
}

/* ---- the type ---------------------------------------------------------------------- */

static PyMethodDef changes[] = {
    {"observe", (PyCFunction)(void (*)(void))observe,
     METH_VARARGS | METH_KEYWORDS,
     "observe($self, /, session, hashes, tenant='default')\n--\n\nThe router "
     "saw "
     "this chain of a session, from its first block on.\nAnswers 'applied', or "
     "what "
     "was wrong with it: 'conflicting_parent',\n'cyclic_parent', 'full', "
     "'invalid'."},
    {"session_end", (PyCFunction)(void (*)(void))session_end,
     METH_VARARGS | METH_KEYWORDS,
     "session_end($self, /, session, tenant='default')\n--\n\nForgets a "
     "session's "
     "lineage. What is resident stays."},
    {"worker_lost", worker_lost, METH_O,
     "worker_lost($self, worker, /)\n--\n\nNothing is resident at a worker any "
     "more, in none of its ranks."},
    {"apply", apply, METH_O,
     "apply($self, line, /)\n--\n\nCarries out one JSON line that changes "
     "something, as export() writes them\nand scripts hold them. Answers as "
     "observe(). ValueError: not such a line."},
    {"maintain", maintain, METH_VARARGS,
     "maintain($self, steps=1000, /)\n--\n\nDoes up to so many steps of "
     "postponed "
     "work; answers whether some is left."},
    {"export", export, METH_NOARGS,
     "export($self, /)\n--\n\nThe index as a list of JSON lines, which apply() "
     "takes in an empty one\nof the same layout."},
    {NULL, NULL, 0, NULL}};

static PyObject *get_layout(PyObject *object, void *unused)
{
    (void)unused;
    PyObject *layout = ((struct mcp_index *)object)->layout;
    Py_INCREF(layout);
    return layout;
}

static PyObject *get_prefix(PyObject *object, void *unused)
{
    (void)unused;
    PyObject *prefix = ((struct mcp_index *)object)->prefix;
    Py_INCREF(prefix);
    return prefix;
}

static PyGetSetDef members[] = {
    {"layout", get_layout, NULL, "as it was named", NULL},
    {"prefix", get_prefix, NULL, "of keys", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* Changes are its own methods, questions those of a base. */
static PyTypeObject questions_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._events._Questions",
    .tp_basicsize = sizeof(struct mcp_index),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_methods = mcp_index_questions};

PyTypeObject mcp_index_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._events.Index",
    .tp_doc =
        "Index(layout, prefix='', /, *, max_nodes=0, max_sessions=0, "
        "max_heads=0,\n      max_marks=0, max_bytes=0, max_owners=0, "
        "max_tenants=0, block_bytes=0)\n--\n\nThe session prefix index: which "
        "blocks a session reached, and which of\nthem wait where. layout: "
        "'u64', "
        "'sglang:mha:tp=N', 'sglang:mla',\n'vllm:tp=N'. Bounds are counts, 0 "
        "for "
        "the defaults of mc_index.h;\nblock_bytes is the size of one block, "
        "for "
        "answers in bytes.\n\nA subscriber feeds it; anybody may ask it, from "
        "any "
        "thread.",
    .tp_basicsize = sizeof(struct mcp_index),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_base = &questions_type,
    .tp_new = index_new,
    .tp_dealloc = index_free,
    .tp_methods = changes,
    .tp_getset = members};
