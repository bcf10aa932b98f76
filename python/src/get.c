/* SPDX-License-Identifier: Apache-2.0 */
/* get.c - the calls that read objects whole. */
#include "methods.h"

/* ---- into new memory of Python's ---------------------------------------------------- */

/* Copies what the library made, without the interpreter's lock, and frees it. */
static PyObject *as_bytes(void *data, size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    char *at = bytes ? PyBytes_AS_STRING(bytes) : NULL;
    Py_BEGIN_ALLOW_THREADS if (at && size > 0)
    {
        memcpy(at, data, size);
    }
    mc_client_free(data);
    Py_END_ALLOW_THREADS return bytes;
}

PyObject *mcp_get(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"key", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mc_view key;
    void *data = NULL;
    size_t size = 0;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_key(&args, object, &key);
    if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_get(client, key, &data, &size));
    }
    mcp_args_free(&args);
    if (!is_read) {
        return NULL;
    }
    return code == 0 ? as_bytes(data, size)
                     : PyBytes_FromStringAndSize(NULL, 0);
}

/* All of the spans are taken, also if it fails. */
static PyObject *as_bytes_list(struct mc_span *spans, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        if (!list) {
            mc_client_free(spans[i].data);
            continue;
        }
        PyObject *bytes = as_bytes(spans[i].data, spans[i].len);
        if (bytes) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, bytes);
        } else {
            Py_CLEAR(list);
        }
    }
    return list;
}

bool mcp_get_rows(PyObject *self, PyObject *arguments, PyObject *keywords,
                  struct mcp_args *args, struct mcp_rows *rows)
{
    static char *names[] = {"keys", NULL};
    PyObject *object = NULL;
    int code = 0;
    *rows = (struct mcp_rows){.spans = NULL};
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_keys(args, object, names[0], &rows->keys) &&
        (rows->spans =
             mcp_args_alloc(args, rows->keys.count, sizeof *rows->spans)) &&
        (rows->results = mcp_args_results(args, rows->keys.count));
    if (!is_read) {
        return false;
    }
    MCP_STORE_CALL((struct mcp_store *)self, code,
                   mc_client_batch_get(client, rows->keys.at, rows->keys.count,
                                       rows->spans, rows->results));
    for (size_t i = 0; code != 0 && i < rows->keys.count; i++) {
        rows->spans[i] = (struct mc_span){.data = NULL};
        rows->results[i] = code;
    }
    return true;
}

PyObject *mcp_get_batch(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_rows rows;
    PyObject *list = NULL;
    if (mcp_get_rows(self, arguments, keywords, &args, &rows)) {
        list = as_bytes_list(rows.spans, rows.keys.count);
    }
    mcp_args_free(&args);
    return list;
}

/* ---- into the local buffer ------------------------------------------------------------ */

static int get_held(struct mc_client *client, struct mc_view key,
                    struct mc_buffer *buffer, struct mc_local_buffer **held)
{
    int code = mc_client_get_buffer(client, key, buffer);
    if (code == 0) {
        *held = mc_client_hold_local_buffer(client);
    }
    return code;
}

PyObject *mcp_get_buffer(PyObject *self, PyObject *arguments,
                         PyObject *keywords)
{
    static char *names[] = {"key", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_store *store = (struct mcp_store *)self;
    PyObject *object = NULL;
    struct mc_view key;
    struct mc_buffer buffer = {.data = NULL};
    struct mc_local_buffer *held = NULL;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_key(&args, object, &key);
    if (is_read) {
        MCP_STORE_CALL(store, code, get_held(client, key, &buffer, &held));
    }
    mcp_args_free(&args);
    if (!is_read) {
        return NULL;
    }
    if (code != 0) {
        Py_RETURN_NONE;
    }
    return mcp_buffer_new(store, &buffer, held);
}

static PyObject *as_buffer_list(struct mcp_store *store,
                                struct mc_buffer *buffers, size_t count,
                                struct mc_local_buffer *held)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        PyObject *item = NULL;
        if (buffers[i].owner) {
            item = mcp_buffer_new(store, &buffers[i], held);
        } else {
            Py_INCREF(Py_None);
            item = Py_None;
        }
        if (list && item) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
        } else {
            Py_CLEAR(list);
            Py_XDECREF(item);
        }
    }
    return list;
}

/* Held once for each that was had. */
static int get_all_held(struct mc_client *client, const struct mcp_views *keys,
                        struct mc_buffer *buffers, int64_t *results,
                        struct mc_local_buffer **held)
{
    int code = mc_client_batch_get_buffer(client, keys->at, keys->count,
                                          buffers, results);
    for (size_t i = 0; i < keys->count; i++) {
        if (buffers[i].owner) {
            *held = mc_client_hold_local_buffer(client);
        }
    }
    return code;
}

PyObject *mcp_batch_get_buffer(PyObject *self, PyObject *arguments,
                               PyObject *keywords)
{
    static char *names[] = {"keys", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_store *store = (struct mcp_store *)self;
    PyObject *object = NULL;
    PyObject *list = NULL;
    struct mcp_views keys = {NULL, 0};
    struct mc_buffer *buffers = NULL;
    struct mc_local_buffer *held = NULL;
    int64_t *results = NULL;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_keys(&args, object, names[0], &keys) &&
        (buffers = mcp_args_alloc(&args, keys.count, sizeof *buffers)) &&
        (results = mcp_args_results(&args, keys.count));
    for (size_t i = 0; is_read && i < keys.count; i++) {
        buffers[i] = (struct mc_buffer){.data = NULL};
    }
    if (is_read) {
        MCP_STORE_CALL(store, code,
                       get_all_held(client, &keys, buffers, results, &held));
        list = as_buffer_list(store, buffers, keys.count, held);
    }
    mcp_args_free(&args);
    return list;
}

/* ---- into registered memory -------------------------------------------------------------- */

PyObject *mcp_get_into(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"key", "buffer_ptr", "size", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *objects[3] = {NULL};
    struct mc_view key;
    uint64_t address = 0;
    uint64_t capacity = 0;
    uint64_t size = 0;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO", names,
                                    &objects[0], &objects[1], &objects[2]) &&
        mcp_args_key(&args, objects[0], &key) &&
        mcp_args_u64(objects[1], names[1], &address) &&
        mcp_args_u64(objects[2], names[2], &capacity);
    if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_get_into(client, key, mcp_pointer(address),
                                          capacity, &size));
    }
    return mcp_answer(&args, is_read, code ? code : (int64_t)size);
}

PyObject *mcp_batch_get_into(PyObject *self, PyObject *arguments,
                             PyObject *keywords)
{
    static char *names[] = {"keys", "buffer_ptrs", "sizes", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *objects[3] = {NULL};
    struct mcp_views keys = {NULL, 0};
    struct mc_span *spans = NULL;
    int64_t *results = NULL;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO", names,
                                    &objects[0], &objects[1], &objects[2]) &&
        mcp_args_keys(&args, objects[0], names[0], &keys) &&
        mcp_args_spans(&args, objects[1], objects[2], keys.count, &spans) &&
        (results = mcp_args_results(&args, keys.count));
    if (is_read && !spans) {
        code = MC_ERR_INVALID_PARAMS;
    } else if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_batch_get_into(client, keys.at, spans,
                                                keys.count, results));
    }
    return mcp_answer_list(&args, is_read, code, results, keys.count);
}

PyObject *mcp_batch_get_into_multi_buffers(PyObject *self, PyObject *arguments,
                                           PyObject *keywords)
{
    static char *names[] = {"keys", "all_buffer_ptrs", "all_sizes",
                            "prefer_alloc_in_same_node", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_span_rows rows = {.count = 0};
    PyObject *objects[3] = {NULL};
    int is_near = 0;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO|p", names,
                                    &objects[0], &objects[1], &objects[2],
                                    &is_near) &&
        mcp_args_span_rows(&args, objects[0], objects[1], objects[2], &rows);
    if (is_read && !rows.is_even) {
        code = MC_ERR_INVALID_PARAMS;
    } else if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_batch_get_into_multi_buffers(
                           client, rows.keys, rows.spans, rows.count,
                           is_near != 0, rows.results));
    }
    return mcp_answer_list(&args, is_read, code, rows.results, rows.count);
}
