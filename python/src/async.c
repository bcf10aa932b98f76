/* SPDX-License-Identifier: Apache-2.0 */
/* async.c - Queue: reading and writing without waiting, for an event loop.
 *
 * An operation keeps its keys, lists and the references to them until it has
 * completed and was taken by poll. Its store closes the queue before itself: what
 * is under way completes, and can still be taken.
 */
#include "async.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define TAKEN_AT_ONCE 64

/* ---- operations ------------------------------------------------------------------------ */

static void op_free(PyObject *object)
{
    struct mcp_op *op = (struct mcp_op *)object;
    mcp_args_free(&op->args);
    Py_XDECREF(op->results);
    PyObject_Free(object);
}

static PyObject *op_cancel(PyObject *object, PyObject *unused)
{
    struct mcp_op *op = (struct mcp_op *)object;
    (void)unused;
    /* Only while it is in a queue, which cannot go meanwhile: who takes it, or
     * closes the queue, has the lock of the queue. */
    if (op->queue) {
        (void)pthread_mutex_lock(&op->queue->lock);
        if (op->queue->async && op->op) {
            mc_async_cancel(op->op);
        }
        (void)pthread_mutex_unlock(&op->queue->lock);
    }
    Py_RETURN_NONE;
}

static PyObject *op_results(PyObject *object, void *unused)
{
    struct mcp_op *op = (struct mcp_op *)object;
    (void)unused;
    return op->results ? Py_BuildValue("O", op->results) : Py_BuildValue("");
}

static PyMethodDef op_methods[] = {
    {"cancel", op_cancel, METH_NOARGS,
     "cancel($self)\n--\n\nMakes it complete soon; it is still to be taken."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef op_fields[] = {
    {"results", op_results, NULL, "A list per key, once it was taken; or None.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject mcp_op_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name =
                                "mckv._store.Operation",
                            .tp_doc = "What a Queue was asked for.",
                            .tp_basicsize = sizeof(struct mcp_op),
                            .tp_flags = Py_TPFLAGS_DEFAULT,
                            .tp_dealloc = op_free,
                            .tp_methods = op_methods,
                            .tp_getset = op_fields};

/* ---- submitting ------------------------------------------------------------------------- */

static bool read_op(struct mcp_op *op, PyObject *arguments, int *kind,
                    uint32_t *timeout_ms, struct mcp_span_rows *rows,
                    const struct mc_replicate_config **config)
{
    PyObject *objects[4] = {NULL};
    PyObject *timeout = NULL;
    return PyArg_ParseTuple(arguments, "iOOOOO", kind, &objects[0], &objects[1],
                            &objects[2], &objects[3], &timeout) &&
           mcp_args_span_rows(&op->args, objects[0], objects[1], objects[2],
                              rows) &&
           mcp_args_config(&op->args, objects[3], config) &&
           mcp_args_u32(timeout, "timeout_ms", timeout_ms);
}

static int submit_locked(struct mcp_queue *queue, struct mcp_op *op,
                         const struct mc_async_rows *rows)
{
    int code = MCP_NOT_SET_UP;
    if (queue->store->forks != mcp_forks()) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    (void)pthread_mutex_lock(&queue->lock);
    if (queue->async) {
        code = mc_async_submit(queue->async, rows, &op->op);
    }
    (void)pthread_mutex_unlock(&queue->lock);
    if (code == 0) {
        Py_INCREF(op);
        op->queue = queue;
        op->next = queue->ops;
        if (queue->ops) {
            queue->ops->before = op;
        }
        queue->ops = op;
    }
    return code;
}

/* An Operation; or a list of codes, if it is refused. */
static PyObject *queue_submit(PyObject *object, PyObject *arguments)
{
    struct mcp_queue *queue = (struct mcp_queue *)object;
    struct mcp_span_rows rows = {.count = 0};
    const struct mc_replicate_config *config = NULL;
    PyObject *answer = NULL;
    uint32_t timeout_ms = 0;
    int kind = 0;
    struct mcp_op *op = PyObject_New(struct mcp_op, &mcp_op_type);
    if (!op) {
        return NULL;
    }
    mcp_op_clear(op);
    if (!read_op(op, arguments, &kind, &timeout_ms, &rows, &config)) {
        Py_DECREF(op);
        return NULL;
    }
    const struct mc_async_rows asked = {.kind = (enum mc_async_kind)kind,
                                        .count = rows.count,
                                        .results = rows.results,
                                        .timeout_ms = timeout_ms,
                                        .ctx = op,
                                        .keys = rows.keys,
                                        .spans = rows.spans,
                                        .config = config};
    op->rows = rows.results;
    op->count = rows.count;
    bool is_known = kind >= MC_ASYNC_GET && kind <= MC_ASYNC_UPSERT;
    int code = rows.is_even && is_known ? submit_locked(queue, op, &asked)
                                        : MC_ERR_INVALID_PARAMS;
    if (code != 0) {
        answer = mcp_results_all(rows.count, code);
        Py_DECREF(op);
        return answer;
    }
    return (PyObject *)op;
}

/* ---- taking ------------------------------------------------------------------------------ */

/* Out of the queue, with its results; the queue's reference becomes the
 * caller's. */
static void take(struct mcp_op *op)
{
    if (op->next) {
        op->next->before = op->before;
    }
    if (op->before) {
        op->before->next = op->next;
    } else {
        op->queue->ops = op->next;
    }
    op->queue = NULL;
    op->op = NULL;
    op->results = mcp_results(op->rows, op->count);
    mcp_args_free(&op->args);
}

static bool add_taken(PyObject *list, struct mcp_op *op)
{
    take(op);
    bool is_added = op->results && PyList_Append(list, (PyObject *)op) == 0;
    Py_DECREF(op);
    return is_added;
}

static bool take_some(struct mcp_queue *queue, PyObject *list, bool *is_all)
{
    void *ctxs[TAKEN_AT_ONCE];
    size_t count = 0;
    bool is_taken = true;
    (void)pthread_mutex_lock(&queue->lock);
    if (queue->async) {
        count = mc_async_poll(queue->async, ctxs, TAKEN_AT_ONCE);
    }
    (void)pthread_mutex_unlock(&queue->lock);
    for (size_t i = 0; i < count; i++) {
        is_taken = add_taken(list, ctxs[i]) && is_taken;
    }
    *is_all = count < TAKEN_AT_ONCE;
    return is_taken;
}

/* After its end all have completed, and nobody else takes them. */
static bool take_rest(struct mcp_queue *queue, PyObject *list)
{
    bool is_taken = true;
    while (queue->ops) {
        is_taken = add_taken(list, queue->ops) && is_taken;
    }
    return is_taken;
}

static PyObject *queue_poll(PyObject *object, PyObject *unused)
{
    struct mcp_queue *queue = (struct mcp_queue *)object;
    PyObject *list = PyList_New(0);
    bool is_all = false;
    (void)unused;
    if (queue->store->forks != mcp_forks()) {
        return list;
    }
    while (list && !is_all) {
        if (!take_some(queue, list, &is_all)) {
            Py_CLEAR(list);
        }
    }
    (void)pthread_mutex_lock(&queue->lock);
    bool is_over = queue->is_over;
    (void)pthread_mutex_unlock(&queue->lock);
    if (list && is_over && !take_rest(queue, list)) {
        Py_CLEAR(list);
    }
    return list;
}

/* ---- its life ---------------------------------------------------------------------------- */

/* Without the interpreter's lock. Whoever waits for the descriptor is told. */
void mcp_queue_end(struct mcp_queue *queue)
{
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&queue->lock);
    struct mc_async *async = queue->async;
    queue->async = NULL;
    (void)pthread_mutex_unlock(&queue->lock);
    mc_async_close(async);
    (void)pthread_mutex_lock(&queue->lock);
    queue->is_over = true;
    (void)pthread_mutex_unlock(&queue->lock);
    if (async && write(queue->fd, &one, sizeof one) < 0) {
        return; /* full, so it is readable */
    }
}

static PyObject *queue_close(PyObject *object, PyObject *unused)
{
    struct mcp_queue *queue = (struct mcp_queue *)object;
    (void)unused;
    if (queue->store->forks == mcp_forks()) {
        Py_BEGIN_ALLOW_THREADS mcp_store_forget_queue(queue->store, queue);
        mcp_queue_end(queue);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyObject *queue_fileno(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct mcp_queue *)object)->fd);
}

static void queue_free(PyObject *object)
{
    struct mcp_queue *queue = (struct mcp_queue *)object;
    if (queue->store->forks == mcp_forks()) {
        Py_XDECREF(queue_close(object, NULL));
        while (queue->ops) {
            struct mcp_op *op = queue->ops;
            take(op);
            PyErr_Clear();
            Py_DECREF(op);
        }
        (void)pthread_mutex_destroy(&queue->lock);
    }
    if (queue->fd >= 0) {
        (void)close(queue->fd);
    }
    Py_DECREF(queue->store);
    PyObject_Free(object);
}

static int open_queue(struct mcp_store *store, struct mcp_queue *queue,
                      uint32_t workers)
{
    const struct mc_async_opts opts = {.workers = workers};
    struct mc_client *client = NULL;
    int code = mcp_store_enter(store, &client);
    if (code != 0) {
        return code;
    }
    code = mc_async_open(client, &opts, &queue->async);
    if (code == 0) {
        queue->fd = fcntl(mc_async_eventfd(queue->async), F_DUPFD_CLOEXEC, 0);
        if (queue->fd < 0) {
            mc_async_close(queue->async);
            queue->async = NULL;
            code = MC_ERR_NOMEM;
        }
    }
    if (code == 0) {
        mcp_store_keep_queue(store, queue);
    }
    mcp_store_leave(store);
    return code;
}

/* A Queue, or a code. */
PyObject *mcp_open_queue(PyObject *self, PyObject *object)
{
    uint32_t workers = 0;
    if (!mcp_args_u32(object, "workers", &workers)) {
        return NULL;
    }
    struct mcp_queue *queue = PyObject_New(struct mcp_queue, &mcp_queue_type);
    if (!queue) {
        return NULL;
    }
    mcp_queue_clear(queue);
    Py_INCREF(self);
    queue->store = (struct mcp_store *)self;
    int code = pthread_mutex_init(&queue->lock, NULL) == 0 ? 0 : MC_ERR_NOMEM;
    if (code == 0) {
        code = open_queue(queue->store, queue, workers);
    }
    if (code != 0) {
        Py_DECREF(queue);
        return PyLong_FromLong(code);
    }
    return (PyObject *)queue;
}

static PyObject *queue_is_over(PyObject *object, void *unused)
{
    struct mcp_queue *queue = (struct mcp_queue *)object;
    (void)unused;
    (void)pthread_mutex_lock(&queue->lock);
    bool is_over = queue->is_over;
    (void)pthread_mutex_unlock(&queue->lock);
    return PyBool_FromLong(is_over);
}

static PyGetSetDef queue_fields[] = {{"is_over", queue_is_over, NULL,
                                      "It was closed, by itself or its store.",
                                      NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef queue_methods[] = {
    {"submit", queue_submit, METH_VARARGS,
     "submit($self, kind, keys, all_buffer_ptrs, all_sizes, config, "
     "timeout_ms, /)\n--\n\nAn Operation; or a list of codes, if it is "
     "refused."},
    {"poll", queue_poll, METH_NOARGS,
     "poll($self)\n--\n\nTakes the operations that have completed. Never "
     "blocks."},
    {"fileno", queue_fileno, METH_NOARGS,
     "fileno($self)\n--\n\nReadable while there are some."},
    {"close", queue_close, METH_NOARGS,
     "close($self)\n--\n\nCancels and waits for all; they can still be taken."},
    {NULL, NULL, 0, NULL}};

PyTypeObject mcp_queue_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._store.Queue",
    .tp_doc = "Reading and writing without waiting; mckv.aio is over it.",
    .tp_basicsize = sizeof(struct mcp_queue),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = queue_free,
    .tp_getset = queue_fields,
    .tp_methods = queue_methods};
