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
};

PyObject *mcp_buffer_new(struct mcp_store *store,
                         const struct mc_buffer *buffer)
{
    struct mcp_buffer *handle =
        PyObject_New(struct mcp_buffer, &mcp_buffer_type);
    if (!handle) {
        struct mc_buffer unused = *buffer;
        int code = 0;
        MCP_STORE_CALL(store, code,
                       (mc_client_release_buffer(client, &unused), 0));
        return NULL;
    }
    Py_INCREF(store);
    handle->store = store;
    handle->buffer = *buffer;
    return (PyObject *)handle;
}

static void buffer_free(PyObject *object)
{
    struct mcp_buffer *handle = (struct mcp_buffer *)object;
    struct mc_client *client = NULL;
    if (mcp_store_enter(handle->store, &client) == 0) {
        mc_client_release_buffer(client, &handle->buffer);
        mcp_store_leave(handle->store);
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
