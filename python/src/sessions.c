/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c - objects piece by piece, by key. */
#include "methods.h"

/* ---- beginning and ending ------------------------------------------------------------- */

typedef enum mc_err keys_fn(struct mc_client *client,
                            const struct mc_view *keys, size_t count,
                            int64_t *results_out);

static PyObject *with_keys(struct mcp_store *store, PyObject *arguments,
                           PyObject *keywords, keys_fn *fn)
{
    static char *names[] = {"keys", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mcp_views keys = {NULL, 0};
    int64_t *results = NULL;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_keys(&args, object, names[0], &keys) &&
        (results = mcp_args_results(&args, keys.count));
    if (is_read) {
        MCP_STORE_CALL(store, code, fn(client, keys.at, keys.count, results));
    }
    return mcp_answer_list(&args, is_read, code, results, keys.count);
}

PyObject *mcp_batch_get_session_start(PyObject *self, PyObject *arguments,
                                      PyObject *keywords)
{
    return with_keys((struct mcp_store *)self, arguments, keywords,
                     mc_client_batch_get_session_start);
}

PyObject *mcp_batch_put_session_end(PyObject *self, PyObject *arguments,
                                    PyObject *keywords)
{
    return with_keys((struct mcp_store *)self, arguments, keywords,
                     mc_client_batch_put_session_end);
}

PyObject *mcp_batch_put_session_revoke(PyObject *self, PyObject *arguments,
                                       PyObject *keywords)
{
    return with_keys((struct mcp_store *)self, arguments, keywords,
                     mc_client_batch_put_session_revoke);
}

/* One answer for all. */
PyObject *mcp_batch_get_session_end(PyObject *self, PyObject *arguments,
                                    PyObject *keywords)
{
    static char *names[] = {"keys", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mcp_views keys = {NULL, 0};
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_keys(&args, object, names[0], &keys);
    if (is_read) {
        MCP_STORE_CALL(
            (struct mcp_store *)self, code,
            mc_client_batch_get_session_end(client, keys.at, keys.count, NULL));
    }
    return mcp_answer(&args, is_read, code);
}

PyObject *mcp_batch_put_session_start(PyObject *self, PyObject *arguments,
                                      PyObject *keywords)
{
    static char *names[] = {"keys", "sizes", "config", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_views keys = {NULL, 0};
    struct mcp_ints sizes = {NULL, 0};
    const struct mc_replicate_config *config = NULL;
    PyObject *objects[3] = {NULL};
    int64_t *results = NULL;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|O", names,
                                    &objects[0], &objects[1], &objects[2]) &&
        mcp_args_keys(&args, objects[0], names[0], &keys) &&
        mcp_args_ints(&args, objects[1], names[1], &sizes) &&
        mcp_args_config(&args, objects[2], &config) &&
        (results = mcp_args_results(&args, keys.count));
    if (is_read && sizes.count != keys.count) {
        code = MC_ERR_INVALID_PARAMS;
    } else if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_batch_put_session_start(client, keys.at,
                                                         sizes.at, config,
                                                         keys.count, results));
    }
    return mcp_answer_list(&args, is_read, code, results, keys.count);
}

/* ---- ranges ------------------------------------------------------------------------------ */

/* Each row: three lists of the same length, else no fragments at all, which the
 * library refuses where it says that there are some. */
static bool make_row(struct mcp_args *args, const struct mcp_ints *from,
                     const struct mcp_ints *len, const struct mcp_ints *offset,
                     struct mc_fragments *out)
{
    *out = (struct mc_fragments){.rows = NULL, .count = 1};
    if (from->count != len->count || from->count != offset->count) {
        return true;
    }
    struct mc_fragment *rows = mcp_args_alloc(args, len->count, sizeof *rows);
    for (size_t i = 0; rows && i < len->count; i++) {
        rows[i] = (struct mc_fragment){.data = mcp_pointer(from->at[i]),
                                       .offset = offset->at[i],
                                       .len = len->at[i]};
    }
    *out = (struct mc_fragments){.rows = rows, .count = len->count};
    return rows != NULL;
}

/* *rows_out is NULL, without an exception, if the lists are not as long as the
 * keys. */
static bool read_rows(struct mcp_args *args, PyObject *const objects[3],
                      const char *offset_name, size_t count,
                      struct mc_fragments **rows_out)
{
    struct mcp_int_rows from;
    struct mcp_int_rows len;
    struct mcp_int_rows offset;
    *rows_out = NULL;
    if (!mcp_args_int_rows(args, objects[0], "all_buffer_ptrs", &from) ||
        !mcp_args_int_rows(args, objects[1], "all_sizes", &len) ||
        !mcp_args_int_rows(args, objects[2], offset_name, &offset)) {
        return false;
    }
    if (from.count != count || len.count != count || offset.count != count) {
        return true;
    }
    struct mc_fragments *rows = mcp_args_alloc(args, count, sizeof *rows);
    for (size_t i = 0; rows && i < count; i++) {
        if (!make_row(args, &from.at[i], &len.at[i], &offset.at[i], &rows[i])) {
            return false;
        }
    }
    *rows_out = rows;
    return rows != NULL;
}

typedef enum mc_err ranges_fn(struct mc_client *client,
                              const struct mc_view *keys,
                              const struct mc_fragments *fragments,
                              size_t count, int64_t *results_out);

static PyObject *with_ranges(struct mcp_store *store, PyObject *arguments,
                             PyObject *keywords, char *offset_name,
                             ranges_fn *fn)
{
    char *names[] = {"keys", "all_buffer_ptrs", "all_sizes", offset_name, NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_views keys = {NULL, 0};
    struct mc_fragments *rows = NULL;
    PyObject *objects[4] = {NULL};
    int64_t *results = NULL;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOO", names,
                                    &objects[0], &objects[1], &objects[2],
                                    &objects[3]) &&
        mcp_args_keys(&args, objects[0], names[0], &keys) &&
        read_rows(&args, &objects[1], offset_name, keys.count, &rows) &&
        (results = mcp_args_results(&args, keys.count));
    if (is_read && !rows) {
        code = MC_ERR_INVALID_PARAMS;
    } else if (is_read) {
        MCP_STORE_CALL(store, code,
                       fn(client, keys.at, rows, keys.count, results));
    }
    return mcp_answer_list(&args, is_read, code, results, keys.count);
}

PyObject *mcp_batch_get_ranges(PyObject *self, PyObject *arguments,
                               PyObject *keywords)
{
    return with_ranges((struct mcp_store *)self, arguments, keywords,
                       "all_src_offsets",
                       mc_client_batch_get_into_multi_buffer_ranges);
}

PyObject *mcp_batch_put_ranges(PyObject *self, PyObject *arguments,
                               PyObject *keywords)
{
    return with_ranges((struct mcp_store *)self, arguments, keywords,
                       "all_dst_offsets",
                       mc_client_batch_put_from_multi_buffer_ranges);
}
