/* SPDX-License-Identifier: Apache-2.0 */
/* rows_ops.c - operations of a row driver: from lists of Python to rows, and how they
 * end.
 */
#include "rows_py.h"

#define WAIT_MS 100

struct mcp_row_op {
    PyObject_HEAD struct mcp_rows *rows;
    struct mc_row_op *op; /* NULL: released, by the interpreter's lock */
    size_t count;
    unsigned busy; /* threads in a call of it, by the interpreter's lock */
    PyObject *weak_refs;
};

/* ---- states --------------------------------------------------------------------------- */

/* (status, reason, code, local_ended, remote_ended), numbers for the first two. */
static PyObject *states_of(const struct mc_row_state *states, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *row = Py_BuildValue("iiiNN", (int)states[i].status,
                                      (int)states[i].reason, (int)states[i].err,
                                      PyBool_FromLong(states[i].local_ended),
                                      PyBool_FromLong(states[i].remote_ended));
        if (row) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, row);
        } else {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* ---- rows ------------------------------------------------------------------------------ */

struct arguments {
    struct mc_row *rows;
    struct mc_row_span *spans; /* of all rows */
    size_t count;
};

static void arguments_free(struct arguments *arguments)
{
    PyMem_Free(arguments->rows);
    PyMem_Free(arguments->spans);
}

static bool read_text(PyObject *object, const char *name, struct mc_view *out)
{
    Py_ssize_t len = 0;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected str, not %.200s", name,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    const char *text = PyUnicode_AsUTF8AndSize(object, &len);
    *out = mc_view_make(text, (size_t)len);
    return text != NULL;
}

static bool read_span(PyObject *object, struct mc_row_span *span)
{
    uint32_t region = 0;
    uint64_t offset = 0;
    uint64_t len = 0;
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 3) {
        PyErr_SetString(PyExc_TypeError, "a span is (region, offset, length)");
        return false;
    }
    if (!mcp_args_u32(PyTuple_GET_ITEM(object, 0), "region", &region) ||
        !mcp_args_u64(PyTuple_GET_ITEM(object, 1), "offset", &offset) ||
        !mcp_args_u64(PyTuple_GET_ITEM(object, 2), "length", &len)) {
        return false;
    }
    *span = (struct mc_row_span){region, offset, len};
    return true;
}

static size_t count_spans(PyObject *rows)
{
    size_t count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i++) {
        PyObject *row = PyTuple_GET_ITEM(rows, i);
        count += PyTuple_Check(row) ? (size_t)PyTuple_GET_SIZE(row) : 0;
    }
    return count;
}

/* keys, spans and sessions are tuples as long as each other, or sessions is None;
 * what is read is borrowed from them. */
static bool read_rows(PyObject *keys, PyObject *spans, PyObject *sessions,
                      struct arguments *out)
{
    size_t count = (size_t)PyTuple_GET_SIZE(keys);
    out->count = count;
    out->rows = PyMem_Calloc(count + 1, sizeof *out->rows);
    out->spans = PyMem_Calloc(count_spans(spans) + 1, sizeof *out->spans);
    if (!out->rows || !out->spans) {
        (void)PyErr_NoMemory();
        return false;
    }
    struct mc_row_span *next = out->spans;
    for (size_t i = 0; i < count; i++) {
        struct mc_row *row = &out->rows[i];
        PyObject *list = PyTuple_GET_ITEM(spans, (Py_ssize_t)i);
        if (!PyTuple_Check(list)) {
            PyErr_SetString(PyExc_TypeError, "the spans of a row are a tuple");
            return false;
        }
        if (!read_text(PyTuple_GET_ITEM(keys, (Py_ssize_t)i), "key",
                       &row->key)) {
            return false;
        }
        row->spans = next;
        row->span_count = (size_t)PyTuple_GET_SIZE(list);
        for (size_t k = 0; k < row->span_count; k++) {
            if (!read_span(PyTuple_GET_ITEM(list, (Py_ssize_t)k), next++)) {
                return false;
            }
        }
        PyObject *session =
            sessions ? PyTuple_GET_ITEM(sessions, (Py_ssize_t)i) : Py_None;
        if (session != Py_None &&
            !read_text(session, "session_id", &row->session_id)) {
            return false;
        }
    }
    return true;
}

PyObject *mcp_rows_submit(PyObject *object, PyObject *args)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    PyObject *keys = NULL;
    PyObject *spans = NULL;
    PyObject *sessions = NULL;
    int is_put = 0;
    uint32_t timeout_ms = 0;
    uint64_t number = 0;
    if (!PyArg_ParseTuple(args, "pO!O!OO&O&:submit", &is_put, &PyTuple_Type,
                          &keys, &PyTuple_Type, &spans, &sessions, mcp_u32_of,
                          &timeout_ms, mcp_u64_of, &number)) {
        return NULL;
    }
    sessions = sessions == Py_None ? NULL : sessions;
    if (PyTuple_GET_SIZE(keys) != PyTuple_GET_SIZE(spans) ||
        (sessions && (!PyTuple_Check(sessions) ||
                      PyTuple_GET_SIZE(sessions) != PyTuple_GET_SIZE(keys)))) {
        PyErr_SetString(PyExc_ValueError,
                        "keys, spans and session ids are not as many");
        return NULL;
    }
    struct mcp_row_op *op =
        (struct mcp_row_op *)mcp_row_op_type.tp_alloc(&mcp_row_op_type, 0);
    struct arguments rows = {.count = 0};
    struct mc_row_driver *driver = NULL;
    if (op && read_rows(keys, spans, sessions, &rows)) {
        driver = mcp_rows_enter(self);
    }
    if (driver) {
        Py_INCREF(self);
        op->rows = self;
        op->count = rows.count;
        const struct mc_row_request request = {
            .kind = is_put ? MC_ROW_PUT : MC_ROW_GET,
            .rows = rows.rows,
            .count = rows.count,
            .timeout_ms = timeout_ms,
            .ctx = (void *)(uintptr_t)number}; /* NOLINT */
        enum mc_err err = MC_OK;
        Py_BEGIN_ALLOW_THREADS err =
            mc_row_driver_submit(driver, &request, &op->op);
        mcp_rows_leave(self);
        Py_END_ALLOW_THREADS if (err != MC_OK)
        {
            (void)mcp_rows_fail(err, "submit");
        }
    }
    arguments_free(&rows);
    if (PyErr_Occurred()) {
        Py_CLEAR(op);
    }
    return (PyObject *)op;
}

PyObject *mcp_rows_probe(PyObject *object, PyObject *args)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    PyObject *keys = NULL;
    uint32_t timeout_ms = 0;
    if (!PyArg_ParseTuple(args, "O!O&:probe", &PyTuple_Type, &keys, mcp_u32_of,
                          &timeout_ms)) {
        return NULL;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(keys);
    struct mc_view *views = PyMem_Calloc(count + 1, sizeof *views);
    struct mc_row_state *states = PyMem_Calloc(count + 1, sizeof *states);
    bool is_read = views && states;
    if (!is_read) {
        (void)PyErr_NoMemory();
    }
    for (size_t i = 0; is_read && i < count; i++) {
        is_read =
            read_text(PyTuple_GET_ITEM(keys, (Py_ssize_t)i), "key", &views[i]);
    }
    struct mc_row_driver *driver = is_read ? mcp_rows_enter(self) : NULL;
    PyObject *list = NULL;
    if (driver) {
        enum mc_err err = MC_OK;
        Py_BEGIN_ALLOW_THREADS err =
            count > 0
                ? mc_row_driver_probe(driver, views, count, timeout_ms, states)
                : MC_OK;
        mcp_rows_leave(self);
        Py_END_ALLOW_THREADS list = err == MC_OK ? states_of(states, count)
                                                 : mcp_rows_fail(err, "probe");
    }
    PyMem_Free(views);
    PyMem_Free(states);
    return list;
}

/* ---- an operation ------------------------------------------------------------------------- */

/* Enters its driver; NULL with an exception: closed, or released. */
static struct mc_row_op *enter(struct mcp_row_op *self)
{
    if (!self->op) {
        PyErr_SetString(PyExc_ValueError, "the operation was released");
        return NULL;
    }
    return mcp_rows_enter(self->rows) ? self->op : NULL;
}

static PyObject *op_states(PyObject *object, PyObject *unused)
{
    struct mcp_row_op *self = (struct mcp_row_op *)object;
    (void)unused;
    struct mc_row_state *states = PyMem_Calloc(self->count + 1, sizeof *states);
    if (!states) {
        return PyErr_NoMemory();
    }
    struct mc_row_op *op = enter(self);
    PyObject *answer = NULL;
    if (op) {
        size_t left = mc_row_op_states(op, states);
        mcp_rows_leave(self->rows);
        PyObject *list = states_of(states, self->count);
        answer = list ? Py_BuildValue("Nn", list, (Py_ssize_t)left) : NULL;
    }
    PyMem_Free(states);
    return answer;
}

/* Whether all rows have ended; once, for at most so long. */
static PyObject *op_wait(PyObject *object, PyObject *args)
{
    struct mcp_row_op *self = (struct mcp_row_op *)object;
    uint32_t timeout_ms = 0;
    if (!PyArg_ParseTuple(args, "O&:wait", mcp_u32_of, &timeout_ms)) {
        return NULL;
    }
    struct mc_row_op *op = enter(self);
    if (!op) {
        return NULL;
    }
    enum mc_err err = MC_OK;
    self->busy++;
    Py_BEGIN_ALLOW_THREADS err =
        mc_row_op_wait(op, timeout_ms < WAIT_MS ? timeout_ms : WAIT_MS);
    mcp_rows_leave(self->rows);
    Py_END_ALLOW_THREADS self->busy--;
    return PyBool_FromLong(err == MC_OK);
}

static PyObject *op_cancel(PyObject *object, PyObject *unused)
{
    struct mcp_row_op *self = (struct mcp_row_op *)object;
    (void)unused;
    struct mc_row_op *op = enter(self);
    if (!op) {
        return NULL;
    }
    self->busy++;
    Py_BEGIN_ALLOW_THREADS mc_row_op_cancel(op);
    mcp_rows_leave(self->rows);
    Py_END_ALLOW_THREADS self->busy--;
    Py_RETURN_NONE;
}

/* Whether it is gone. That of a closed driver went with it. */
static PyObject *op_release(PyObject *object, PyObject *unused)
{
    struct mcp_row_op *self = (struct mcp_row_op *)object;
    (void)unused;
    struct mc_row_op *op = self->op;
    if (!op) {
        Py_RETURN_TRUE;
    }
    if (self->busy > 0) {
        Py_RETURN_FALSE;
    }
    self->op = NULL; /* nobody else begins with it meanwhile */
    if (!mcp_rows_enter(self->rows)) {
        PyErr_Clear();
        Py_RETURN_TRUE;
    }
    enum mc_err err = MC_OK;
    Py_BEGIN_ALLOW_THREADS err = mc_row_op_release(op);
    mcp_rows_leave(self->rows);
    Py_END_ALLOW_THREADS if (err != MC_OK)
    {
        self->op = op;
    }
    return PyBool_FromLong(err == MC_OK);
}

static void op_free(PyObject *object)
{
    struct mcp_row_op *self = (struct mcp_row_op *)object;
    if (self->weak_refs) {
        PyObject_ClearWeakRefs(object);
    }
    Py_XDECREF(self->rows); /* what is not released ends with its driver */
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef methods[] = {{"states", op_states, METH_NOARGS, NULL},
                                {"wait", op_wait, METH_VARARGS, NULL},
                                {"cancel", op_cancel, METH_NOARGS, NULL},
                                {"release", op_release, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};

PyTypeObject mcp_row_op_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._rows.Operation",
    .tp_doc = "Rows on their way.",
    .tp_basicsize = sizeof(struct mcp_row_op),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = op_free,
    .tp_methods = methods,
    .tp_weaklistoffset = offsetof(struct mcp_row_op, weak_refs)};
