/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - the calls that ask for objects, and those that remove them. */
#include "methods.h"

#define ERROR_OF_QUESTION (-1)

/* ---- is it there --------------------------------------------------------------------- */

PyObject *mcp_is_exist(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"key", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mc_view key;
    bool is_there = false;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_key(&args, object, &key);
    if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_exist(client, key, &is_there));
    }
    return mcp_answer(&args, is_read, code ? ERROR_OF_QUESTION : is_there);
}

/* Lookups of long prompts have more keys than a call of the library takes. */
static enum mc_err exist_all(struct mc_client *client,
                             const struct mcp_views *keys, int64_t *results)
{
    enum mc_err err = MC_OK;
    for (size_t i = 0; i < keys->count && err == MC_OK; i += MC_ROWS_MAX) {
        size_t rest = keys->count - i;
        err = mc_client_batch_exist(client, keys->at + i,
                                    rest < MC_ROWS_MAX ? rest : MC_ROWS_MAX,
                                    results + i);
    }
    return err;
}

PyObject *mcp_batch_is_exist(PyObject *self, PyObject *arguments,
                             PyObject *keywords)
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
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       exist_all(client, &keys, results));
        code = code ? ERROR_OF_QUESTION : 0;
    }
    for (size_t i = 0; is_read && code == 0 && i < keys.count; i++) {
        results[i] = results[i] < 0 ? ERROR_OF_QUESTION : results[i];
    }
    return mcp_answer_list(&args, is_read, code, results, keys.count);
}

PyObject *mcp_get_size(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"key", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mc_view key;
    uint64_t size = 0;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_key(&args, object, &key);
    if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_get_size(client, key, &size));
    }
    return mcp_answer(&args, is_read, code ? code : (int64_t)size);
}

/* ---- removing ---------------------------------------------------------------------------- */

PyObject *mcp_remove(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"key", "force", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mc_view key;
    int force = 0;
    int code = 0;
    bool is_read = PyArg_ParseTupleAndKeywords(arguments, keywords, "O|p",
                                               names, &object, &force) &&
                   mcp_args_key(&args, object, &key);
    if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_remove(client, key, force != 0));
    }
    return mcp_answer(&args, is_read, code);
}

PyObject *mcp_batch_remove(PyObject *self, PyObject *arguments,
                           PyObject *keywords)
{
    static char *names[] = {"keys", "force", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mcp_views keys = {NULL, 0};
    int64_t *results = NULL;
    int force = 0;
    int code = 0;
    bool is_read = PyArg_ParseTupleAndKeywords(arguments, keywords, "O|p",
                                               names, &object, &force) &&
                   mcp_args_keys(&args, object, names[0], &keys) &&
                   (results = mcp_args_results(&args, keys.count));
    if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_batch_remove(client, keys.at, keys.count,
                                              force != 0, results));
    }
    return mcp_answer_list(&args, is_read, code, results, keys.count);
}

PyObject *mcp_remove_by_regex(PyObject *self, PyObject *arguments,
                              PyObject *keywords)
{
    static char *names[] = {"regex", "force", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mc_view regex;
    uint64_t removed = 0;
    int force = 0;
    int code = 0;
    bool is_read = PyArg_ParseTupleAndKeywords(arguments, keywords, "O|p",
                                               names, &object, &force) &&
                   mcp_args_key(&args, object, &regex);
    if (is_read) {
        MCP_STORE_CALL(
            (struct mcp_store *)self, code,
            mc_client_remove_by_regex(client, regex, force != 0, &removed));
    }
    return mcp_answer(&args, is_read, code ? code : (int64_t)removed);
}

PyObject *mcp_remove_all(PyObject *self, PyObject *arguments,
                         PyObject *keywords)
{
    static char *names[] = {"force", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    uint64_t removed = 0;
    int force = 0;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "|p", names, &force);
    if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_remove_all(client, force != 0, &removed));
    }
    return mcp_answer(&args, is_read,
                      code ? ERROR_OF_QUESTION : (int64_t)removed);
}
