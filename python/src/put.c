/* SPDX-License-Identifier: Apache-2.0 */
/* put.c - the calls that write objects whole. */
#include "methods.h"

/* ---- one object ------------------------------------------------------------------ */

typedef enum mc_err write_fn(struct mc_client *client, struct mc_view key,
                             const void *data, size_t len,
                             const struct mc_replicate_config *config);

static PyObject *write_bytes(struct mcp_store *store, PyObject *arguments,
                             PyObject *keywords, write_fn *fn)
{
    static char *names[] = {"key", "value", "config", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mc_view key;
    struct mc_view value;
    const struct mc_replicate_config *config = NULL;
    PyObject *objects[3] = {NULL};
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|O", names,
                                    &objects[0], &objects[1], &objects[2]) &&
        mcp_args_key(&args, objects[0], &key) &&
        mcp_args_bytes(&args, objects[1], &value) &&
        mcp_args_config(&args, objects[2], &config);
    if (is_read) {
        MCP_STORE_CALL(store, code,
                       fn(client, key, value.data, value.len, config));
    }
    return mcp_answer(&args, is_read, code);
}

PyObject *mcp_put(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return write_bytes((struct mcp_store *)self, arguments, keywords,
                       mc_client_put);
}

PyObject *mcp_upsert(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return write_bytes((struct mcp_store *)self, arguments, keywords,
                       mc_client_upsert);
}

static PyObject *write_from(struct mcp_store *store, PyObject *arguments,
                            PyObject *keywords, write_fn *fn)
{
    static char *names[] = {"key", "buffer_ptr", "size", "config", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mc_view key;
    uint64_t address = 0;
    uint64_t size = 0;
    const struct mc_replicate_config *config = NULL;
    PyObject *objects[4] = {NULL};
    int code = 0;
    bool is_read = PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO|O",
                                               names, &objects[0], &objects[1],
                                               &objects[2], &objects[3]) &&
                   mcp_args_key(&args, objects[0], &key) &&
                   mcp_args_u64(objects[1], names[1], &address) &&
                   mcp_args_u64(objects[2], names[2], &size) &&
                   mcp_args_config(&args, objects[3], &config);
    if (is_read) {
        MCP_STORE_CALL(store, code,
                       fn(client, key, mcp_pointer(address), size, config));
    }
    return mcp_answer(&args, is_read, code);
}

PyObject *mcp_put_from(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return write_from((struct mcp_store *)self, arguments, keywords,
                      mc_client_put_from);
}

PyObject *mcp_upsert_from(PyObject *self, PyObject *arguments,
                          PyObject *keywords)
{
    return write_from((struct mcp_store *)self, arguments, keywords,
                      mc_client_upsert_from);
}

/* ---- one object of parts ------------------------------------------------------------ */

typedef enum mc_err parts_fn(struct mc_client *client, struct mc_view key,
                             const struct mc_span *parts, size_t count,
                             const struct mc_replicate_config *config);

/* The only keyword there is. False with an exception. */
static bool config_of(PyObject *keywords, PyObject **config_out)
{
    PyObject *name = NULL;
    PyObject *value = NULL;
    Py_ssize_t at = 0;
    *config_out = NULL;
    while (keywords && PyDict_Next(keywords, &at, &name, &value)) {
        if (PyUnicode_CompareWithASCIIString(name, "config") != 0) {
            PyErr_Format(PyExc_TypeError, "unexpected keyword argument %R",
                         name);
            return false;
        }
        *config_out = value;
    }
    return true;
}

static bool spans_of(struct mcp_args *args, const struct mcp_views *values,
                     struct mc_span **spans_out)
{
    struct mc_span *spans = mcp_args_alloc(args, values->count, sizeof *spans);
    for (size_t i = 0; spans && i < values->count; i++) {
        /* Only read. */
        uintptr_t address = (uintptr_t)values->at[i].data;
        spans[i] = (struct mc_span){.data = mcp_pointer(address),
                                    .len = values->at[i].len};
    }
    *spans_out = spans;
    return spans != NULL;
}

static bool read_parts(struct mcp_args *args, PyObject *arguments,
                       struct mc_view *key, struct mcp_views *values)
{
    Py_ssize_t count = PyTuple_GET_SIZE(arguments);
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "expected a key and parts");
        return false;
    }
    PyObject *parts = PyTuple_GetSlice(arguments, 1, count);
    bool is_read = parts &&
                   mcp_args_key(args, PyTuple_GET_ITEM(arguments, 0), key) &&
                   mcp_args_values(args, parts, "parts", values);
    Py_XDECREF(parts);
    return is_read;
}

static PyObject *write_parts(struct mcp_store *store, PyObject *arguments,
                             PyObject *keywords, parts_fn *fn)
{
    struct mcp_args args = MCP_ARGS_NONE;
    struct mc_view key;
    struct mcp_views values;
    struct mc_span *spans = NULL;
    const struct mc_replicate_config *config = NULL;
    PyObject *config_object = NULL;
    int code = 0;
    bool is_read = config_of(keywords, &config_object) &&
                   read_parts(&args, arguments, &key, &values) &&
                   spans_of(&args, &values, &spans) &&
                   mcp_args_config(&args, config_object, &config);
    if (is_read) {
        MCP_STORE_CALL(store, code,
                       fn(client, key, spans, values.count, config));
    }
    return mcp_answer(&args, is_read, code);
}

PyObject *mcp_put_parts(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return write_parts((struct mcp_store *)self, arguments, keywords,
                       mc_client_put_parts);
}

PyObject *mcp_upsert_parts(PyObject *self, PyObject *arguments,
                           PyObject *keywords)
{
    return write_parts((struct mcp_store *)self, arguments, keywords,
                       mc_client_upsert_parts);
}

/* ---- many objects, one answer --------------------------------------------------------- */

typedef enum mc_err batch_fn(struct mc_client *client,
                             const struct mc_view *keys,
                             const struct mc_view *values, size_t count,
                             const struct mc_replicate_config *config,
                             int64_t *results_out);

static int first_fault(const int64_t *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (results[i] < 0) {
            return (int)results[i];
        }
    }
    return 0;
}

static PyObject *write_batch(struct mcp_store *store, PyObject *arguments,
                             PyObject *keywords, batch_fn *fn)
{
    static char *names[] = {"keys", "values", "config", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_views keys;
    struct mcp_views values;
    const struct mc_replicate_config *config = NULL;
    PyObject *objects[3] = {NULL};
    int64_t *results = NULL;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|O", names,
                                    &objects[0], &objects[1], &objects[2]) &&
        mcp_args_keys(&args, objects[0], names[0], &keys) &&
        mcp_args_values(&args, objects[1], names[1], &values) &&
        mcp_args_config(&args, objects[2], &config) &&
        (results = mcp_args_results(&args, keys.count));
    if (is_read && values.count != keys.count) {
        code = MC_ERR_INVALID_PARAMS;
    } else if (is_read) {
        MCP_STORE_CALL(
            store, code,
            fn(client, keys.at, values.at, keys.count, config, results));
        code = code ? code : first_fault(results, keys.count);
    }
    return mcp_answer(&args, is_read, code);
}

PyObject *mcp_put_batch(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    return write_batch((struct mcp_store *)self, arguments, keywords,
                       mc_client_batch_put);
}

PyObject *mcp_upsert_batch(PyObject *self, PyObject *arguments,
                           PyObject *keywords)
{
    return write_batch((struct mcp_store *)self, arguments, keywords,
                       mc_client_batch_upsert);
}
