/* SPDX-License-Identifier: Apache-2.0 */
/* replicas.c - where copies of objects are, and what else is known of them. */
#include "methods.h"

static PyObject *as_tuple(const struct mc_replica *replica)
{
    return Py_BuildValue(
        "(iKKsss)", (int)replica->medium, (unsigned long long)replica->size,
        (unsigned long long)replica->address, replica->protocol,
        replica->endpoint, replica->segment);
}

static PyObject *as_list(const struct mc_replicas *replicas)
{
    PyObject *list = PyList_New((Py_ssize_t)replicas->count);
    for (uint32_t i = 0; list && i < replicas->count; i++) {
        PyObject *row = as_tuple(&replicas->rows[i]);
        if (!row) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    return list;
}

/* Into places of the answer that are still empty. */
static bool set_lists(PyObject *answer, size_t first, size_t count,
                      const struct mc_replicas *replicas,
                      const int64_t *results)
{
    for (size_t i = 0; i < count; i++) {
        PyObject *rows = results[i] < 0 ? PyLong_FromLongLong(results[i])
                                        : as_list(&replicas[i]);
        if (!rows) {
            return false;
        }
        PyList_SET_ITEM(answer, (Py_ssize_t)(first + i), rows);
    }
    return true;
}

/* A replica is wide: so many keys at a time. */
#define KEYS_AT_ONCE 256

static enum mc_err ask_some(struct mc_client *client,
                            const struct mcp_views *keys, size_t first,
                            size_t count, struct mc_replicas *replicas,
                            int64_t *results)
{
    return mc_client_batch_get_replicas(client, keys->at + first, count,
                                        replicas, results);
}

static bool add_slice(struct mcp_store *store, const struct mcp_views *keys,
                      size_t first, struct mc_replicas *replicas,
                      int64_t *results, PyObject *answer)
{
    size_t count = keys->count - first;
    int code = 0;
    count = count < KEYS_AT_ONCE ? count : KEYS_AT_ONCE;
    MCP_STORE_CALL(store, code,
                   ask_some(client, keys, first, count, replicas, results));
    for (size_t i = 0; code != 0 && i < count; i++) {
        results[i] = code;
    }
    return set_lists(answer, first, count, replicas, results);
}

PyObject *mcp_replicas(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"keys", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_views keys = {NULL, 0};
    PyObject *object = NULL;
    PyObject *answer = NULL;
    struct mc_replicas *replicas = NULL;
    int64_t *results = NULL;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_keys(&args, object, names[0], &keys) &&
        (replicas = mcp_args_alloc(&args, KEYS_AT_ONCE, sizeof *replicas)) &&
        (results = mcp_args_results(&args, KEYS_AT_ONCE)) &&
        (answer = PyList_New((Py_ssize_t)keys.count));
    for (size_t i = 0; answer && i < keys.count; i += KEYS_AT_ONCE) {
        if (!add_slice((struct mcp_store *)self, &keys, i, replicas, results,
                       answer)) {
            Py_CLEAR(answer);
        }
    }
    mcp_args_free(&args);
    return is_read ? answer : NULL;
}

/* ---- probes ------------------------------------------------------------------------------ */

static PyObject *probe_row(const struct mc_probe *probe, int64_t result)
{
    PyObject *session =
        probe->session_len > 0
            ? PyUnicode_DecodeUTF8(probe->session,
                                   (Py_ssize_t)probe->session_len, "replace")
            : Py_BuildValue("");
    return Py_BuildValue("(LiIKKKN)", (long long)result, (int)probe->state,
                         probe->media, (unsigned long long)probe->size,
                         (unsigned long long)probe->version,
                         (unsigned long long)probe->lease_ms, session);
}

PyObject *mcp_probe(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"key", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    struct mc_view key;
    struct mc_probe probe = {.state = MC_OBJECT_ABSENT};
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_key(&args, object, &key);
    if (is_read) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_probe(client, key, &probe));
    }
    mcp_args_free(&args);
    return is_read ? probe_row(&probe, code) : NULL;
}
