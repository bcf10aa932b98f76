/* SPDX-License-Identifier: Apache-2.0 */
/* put_rows.c - the calls that write many objects from registered memory. */
#include "methods.h"

/* ---- a span each ------------------------------------------------------------------ */

typedef enum mc_err spans_fn(struct mc_client *client,
                             const struct mc_view *keys,
                             const struct mc_span *values, size_t count,
                             const struct mc_replicate_config *config,
                             int64_t *results_out);

static PyObject *write_spans(struct mcp_store *store, PyObject *arguments,
                             PyObject *keywords, spans_fn *fn)
{
    static char *names[] = {"keys", "buffer_ptrs", "sizes", "config", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_views keys = {NULL, 0};
    struct mc_span *spans = NULL;
    const struct mc_replicate_config *config = NULL;
    PyObject *objects[4] = {NULL};
    int64_t *results = NULL;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO|O", names,
                                    &objects[0], &objects[1], &objects[2],
                                    &objects[3]) &&
        mcp_args_keys(&args, objects[0], names[0], &keys) &&
        mcp_args_spans(&args, objects[1], objects[2], keys.count, &spans) &&
        mcp_args_config(&args, objects[3], &config) &&
        (results = mcp_args_results(&args, keys.count));
    if (is_read && !spans) {
        code = MC_ERR_INVALID_PARAMS;
    } else if (is_read) {
        MCP_STORE_CALL(store, code,
                       fn(client, keys.at, spans, keys.count, config, results));
    }
    return mcp_answer_list(&args, is_read, code, results, keys.count);
}

PyObject *mcp_batch_put_from(PyObject *self, PyObject *arguments,
                             PyObject *keywords)
{
    return write_spans((struct mcp_store *)self, arguments, keywords,
                       mc_client_batch_put_from);
}

PyObject *mcp_batch_upsert_from(PyObject *self, PyObject *arguments,
                                PyObject *keywords)
{
    return write_spans((struct mcp_store *)self, arguments, keywords,
                       mc_client_batch_upsert_from);
}

/* ---- several spans each -------------------------------------------------------------- */

PyObject *mcp_batch_put_from_multi_buffers(PyObject *self, PyObject *arguments,
                                           PyObject *keywords)
{
    static char *names[] = {"keys", "all_buffer_ptrs", "all_sizes", "config",
                            NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_span_rows rows = {.count = 0};
    const struct mc_replicate_config *config = NULL;
    PyObject *objects[4] = {NULL};
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO|O", names,
                                    &objects[0], &objects[1], &objects[2],
                                    &objects[3]) &&
        mcp_args_span_rows(&args, objects[0], objects[1], objects[2], &rows) &&
        mcp_args_config(&args, objects[3], &config);
    if (is_read && !rows.is_even) {
        code = MC_ERR_INVALID_PARAMS;
    } else if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_batch_put_from_multi_buffers(
                           client, rows.keys, rows.spans, rows.count, config,
                           rows.results));
    }
    return mcp_answer_list(&args, is_read, code, rows.results, rows.count);
}

/* The object is the metadata and then the data. */
PyObject *mcp_put_from_with_metadata(PyObject *self, PyObject *arguments,
                                     PyObject *keywords)
{
    static char *names[] = {"key",  "buffer_ptr",    "metadata_buffer_ptr",
                            "size", "metadata_size", "config",
                            NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mc_view key;
    uint64_t numbers[4] = {0};
    const struct mc_replicate_config *config = NULL;
    PyObject *objects[6] = {NULL};
    int64_t result = 0;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOOO|O", names,
                                    &objects[0], &objects[1], &objects[2],
                                    &objects[3], &objects[4], &objects[5]) &&
        mcp_args_key(&args, objects[0], &key) &&
        mcp_args_config(&args, objects[5], &config);
    for (size_t i = 0; is_read && i < 4; i++) {
        is_read = mcp_args_u64(objects[i + 1], names[i + 1], &numbers[i]);
    }
    if (is_read) {
        const struct mc_span spans[] = {
            {.data = mcp_pointer(numbers[1]), .len = numbers[3]},
            {.data = mcp_pointer(numbers[0]), .len = numbers[2]}};
        const struct mc_spans row = {.spans = spans, .count = 2};
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_batch_put_from_multi_buffers(
                           client, &key, &row, 1, config, &result));
    }
    return mcp_answer(&args, is_read, code ? code : result);
}
