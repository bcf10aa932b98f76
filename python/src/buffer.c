/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c - BufferHandle: an object's bytes in the store's local buffer.
 *
 * It can be looked at as any buffer, but not written; its memory goes back when
 * nobody has the handle or a view of it any more.
 */
#include "methods.h"

struct mcp_buffer {
    PyObject_HEAD struct mcp_store *store;
    struct mc_buffer buffer;
    struct mc_local_buffer *held;
    uint64_t forks;
};

/* To the client that it is of, if that is open. In the child of a fork nothing is
 * given back. */
static void give_back(struct mcp_store *store, struct mc_buffer *buffer,
                      struct mc_local_buffer *held)
{
    struct mc_client *client = NULL;
    if (mcp_store_enter(store, &client) == 0) {
        if (mcp_is_of_client(client, held)) {
            mc_client_release_buffer(client, buffer);
        }
        mcp_store_leave(store);
    }
    mc_local_buffer_release(held);
}

PyObject *mcp_buffer_new(struct mcp_store *store, struct mc_buffer *buffer,
                         struct mc_local_buffer *held)
{
    struct mcp_buffer *handle =
        PyObject_New(struct mcp_buffer, &mcp_buffer_type);
    if (!handle) {
        give_back(store, buffer, held);
        return NULL;
    }
    Py_INCREF(store);
    handle->store = store;
    handle->buffer = *buffer;
    handle->held = held;
    handle->forks = mcp_forks();
    return (PyObject *)handle;
}

static void buffer_free(PyObject *object)
{
    struct mcp_buffer *handle = (struct mcp_buffer *)object;
    if (handle->forks == mcp_forks()) {
        give_back(handle->store, &handle->buffer, handle->held);
    }
    Py_DECREF(handle->store);
    PyObject_Free(object);
}

static int get_view(PyObject *object, Py_buffer *view, int flags)
{
    struct mcp_buffer *handle = (struct mcp_buffer *)object;
    /* Only read. */
    void *data = mcp_pointer((uintptr_t)handle->buffer.data);
    return PyBuffer_FillInfo(view, object, data, (Py_ssize_t)handle->buffer.len,
                             1, flags);
}

static Py_ssize_t get_len(PyObject *object)
{
    return (Py_ssize_t)((struct mcp_buffer *)object)->buffer.len;
}

static PyObject *get_ptr(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(
        mcp_pointer((uintptr_t)((struct mcp_buffer *)object)->buffer.data));
}

static PyObject *get_size(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyLong_FromSsize_t(get_len(object));
}

static PyMethodDef methods[] = {
    {"ptr", get_ptr, METH_NOARGS,
     "ptr($self)\n--\n\nThe address of the first byte; valid as long as the "
     "handle."},
    {"size", get_size, METH_NOARGS, "size($self)\n--\n\nIts bytes."},
    {NULL, NULL, 0, NULL}};

static PyBufferProcs as_buffer = {.bf_getbuffer = get_view};
static PySequenceMethods as_sequence = {.sq_length = get_len};

PyTypeObject mcp_buffer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._store.BufferHandle",
    .tp_doc = "An object's bytes in the store's local buffer, read only.",
    .tp_basicsize = sizeof(struct mcp_buffer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = buffer_free,
    .tp_as_buffer = &as_buffer,
    .tp_as_sequence = &as_sequence,
    .tp_methods = methods};
