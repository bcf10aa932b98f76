/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - many objects of parts: what tensors are written by. */
#include "methods.h"

static bool row_of(struct mcp_args *args, PyObject *parts, struct mc_spans *out)
{
    struct mcp_views values;
    if (!mcp_args_values(args, parts, "parts", &values)) {
        return false;
    }
    struct mc_span *spans = mcp_args_alloc(args, values.count, sizeof *spans);
    for (size_t i = 0; spans && i < values.count; i++) {
        /* Only read. */
        uintptr_t address = (uintptr_t)values.at[i].data;
        spans[i] = (struct mc_span){.data = mcp_pointer(address),
                                    .len = values.at[i].len};
    }
    *out = (struct mc_spans){.spans = spans, .count = values.count};
    return spans != NULL;
}

static bool rows_of(struct mcp_args *args, PyObject *object,
                    struct mc_spans **rows_out, size_t *count_out)
{
    PyObject *tuple = mcp_args_tuple(args, object, "rows");
    if (!tuple) {
        return false;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(tuple);
    struct mc_spans *rows = mcp_args_alloc(args, count, sizeof *rows);
    for (size_t i = 0; rows && i < count; i++) {
        if (!row_of(args, PyTuple_GET_ITEM(tuple, (Py_ssize_t)i), &rows[i])) {
            return false;
        }
    }
    *rows_out = rows;
    *count_out = count;
    return rows != NULL;
}

PyObject *mcp_write_parts(PyObject *self, PyObject *arguments,
                          PyObject *keywords)
{
    static char *names[] = {"keys", "rows", "config", "replaces", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_views keys = {NULL, 0};
    struct mc_spans *rows = NULL;
    size_t count = 0;
    const struct mc_replicate_config *config = NULL;
    PyObject *objects[3] = {NULL};
    int64_t *results = NULL;
    int replaces = 0;
    int code = 0;
    bool is_read = PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|Op",
                                               names, &objects[0], &objects[1],
                                               &objects[2], &replaces) &&
                   mcp_args_keys(&args, objects[0], names[0], &keys) &&
                   rows_of(&args, objects[1], &rows, &count) &&
                   mcp_args_config(&args, objects[2], &config) &&
                   (results = mcp_args_results(&args, keys.count));
    if (is_read && count != keys.count) {
        code = MC_ERR_INVALID_PARAMS;
    } else if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       (replaces ? mc_client_batch_upsert_parts
                                 : mc_client_batch_put_parts)(
                           client, keys.at, rows, count, config, results));
    }
    return mcp_answer_list(&args, is_read, code, results, keys.count);
}

/* ---- objects as memory of their own ----------------------------------------------------- */

static PyObject *as_blocks(struct mc_span *spans, const int64_t *results,
                           size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        PyObject *item = results[i] < 0
                             ? PyLong_FromLongLong(results[i])
                             : mcp_block_new(spans[i].data, spans[i].len);
        if (list && item) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
        } else {
            Py_CLEAR(list);
            Py_XDECREF(item);
        }
    }
    return list;
}

PyObject *mcp_get_blocks(PyObject *self, PyObject *arguments,
                         PyObject *keywords)
{
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_rows rows;
    PyObject *list = NULL;
    if (mcp_get_rows(self, arguments, keywords, &args, &rows)) {
        list = as_blocks(rows.spans, rows.results, rows.keys.count);
    }
    mcp_args_free(&args);
    return list;
}

/* How many bytes from an address on are registered. */
PyObject *mcp_registered_len(PyObject *self, PyObject *object)
{
    uint64_t address = 0;
    struct mc_client *client = NULL;
    size_t len = 0;
    if (!mcp_args_u64(object, "buffer_ptr", &address)) {
        return NULL;
    }
    if (mcp_store_enter((struct mcp_store *)self, &client) == 0) {
        len = mc_client_registered_len(client, mcp_pointer(address));
        mcp_store_leave((struct mcp_store *)self);
    }
    return PyLong_FromSize_t(len);
}
