/* SPDX-License-Identifier: Apache-2.0 */
/* block.c - Block: an object's bytes in memory of their own, which may be written
 * and outlives the store. */
#include "methods.h"

struct mcp_block {
    PyObject_HEAD void *data;
    size_t len;
};

PyObject *mcp_block_new(void *data, size_t len)
{
    struct mcp_block *block = PyObject_New(struct mcp_block, &mcp_block_type);
    if (!block) {
        mc_client_free(data);
        return NULL;
    }
    block->data = data;
    block->len = len;
    return (PyObject *)block;
}

static void block_free(PyObject *object)
{
    mc_client_free(((struct mcp_block *)object)->data);
    PyObject_Free(object);
}

static int get_view(PyObject *object, Py_buffer *view, int flags)
{
    struct mcp_block *block = (struct mcp_block *)object;
    return PyBuffer_FillInfo(view, object, block->data, (Py_ssize_t)block->len,
                             0, flags);
}

static Py_ssize_t get_len(PyObject *object)
{
    return (Py_ssize_t)((struct mcp_block *)object)->len;
}

static PyBufferProcs as_buffer = {.bf_getbuffer = get_view};
static PySequenceMethods as_sequence = {.sq_length = get_len};

PyTypeObject mcp_block_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._store.Block",
    .tp_doc = "An object's bytes, which may be written and outlive the store.",
    .tp_basicsize = sizeof(struct mcp_block),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = block_free,
    .tp_as_buffer = &as_buffer,
    .tp_as_sequence = &as_sequence};
