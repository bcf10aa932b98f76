/* SPDX-License-Identifier: Apache-2.0 */
/* ranges.c - get_into_ranges: pieces of several objects into several buffers.
 *
 * Its lists are buffer by buffer, key by key, fragment by fragment, and so are its
 * answers; where lists that belong together differ in length, what would stand
 * there answers -600.
 */
#include "methods.h"

/* One buffer. */
struct gather {
    uint64_t address;
    uint64_t capacity; /* as far as its fragments reach */
    struct mc_range_row *rows;
    size_t count;
    bool is_even; /* the lists of its keys are as long as each other */
    int code;     /* of the call as a whole */
};

struct lists {
    PyObject *keys; /* tuples */
    PyObject *to;
    PyObject *from;
    PyObject *len;
};

/* ---- reading the lists --------------------------------------------------------------- */

static bool same_len(const struct lists *lists, Py_ssize_t count)
{
    return PyTuple_GET_SIZE(lists->to) == count &&
           PyTuple_GET_SIZE(lists->from) == count &&
           PyTuple_GET_SIZE(lists->len) == count;
}

/* Fragments are as many as sizes; results stand for each, whatever it is. */
static bool make_row(struct mcp_args *args, const struct lists *lists,
                     Py_ssize_t i, struct mc_range_row *row, uint64_t *capacity)
{
    struct mcp_ints to;
    struct mcp_ints from;
    struct mcp_ints len;
    if (!mcp_args_ints(args, PyTuple_GET_ITEM(lists->to, i), "all_dst_offsets",
                       &to) ||
        !mcp_args_ints(args, PyTuple_GET_ITEM(lists->from, i),
                       "all_src_offsets", &from) ||
        !mcp_args_ints(args, PyTuple_GET_ITEM(lists->len, i), "all_sizes",
                       &len)) {
        return false;
    }
    struct mc_range *ranges = mcp_args_alloc(args, len.count, sizeof *ranges);
    int64_t *results = mcp_args_results(args, len.count);
    if (!ranges || !results) {
        return false;
    }
    bool is_even = to.count == len.count && from.count == len.count;
    for (size_t k = 0; k < len.count; k++) {
        results[k] = MC_ERR_INVALID_PARAMS;
        if (!is_even) {
            continue;
        }
        ranges[k] = (struct mc_range){
            .to = to.at[k], .from = from.at[k], .len = len.at[k]};
        uint64_t end = to.at[k] + len.at[k];
        if (end >= to.at[k] && end > *capacity) {
            *capacity = end;
        }
    }
    row->ranges = ranges;
    row->results = results;
    row->count = len.count;
    return true;
}

static bool read_lists(struct mcp_args *args, PyObject *const objects[4],
                       struct lists *lists)
{
    static const char *const names[] = {"all_keys", "all_dst_offsets",
                                        "all_src_offsets", "all_sizes"};
    PyObject *tuples[4] = {NULL};
    for (size_t i = 0; i < 4; i++) {
        tuples[i] = mcp_args_tuple(args, objects[i], names[i]);
        if (!tuples[i]) {
            return false;
        }
    }
    *lists = (struct lists){.keys = tuples[0],
                            .to = tuples[1],
                            .from = tuples[2],
                            .len = tuples[3]};
    return true;
}

static bool make_gather(struct mcp_args *args, const struct lists *outer,
                        Py_ssize_t i, struct gather *gather)
{
    struct lists lists;
    struct mcp_views keys;
    PyObject *const objects[] = {
        PyTuple_GET_ITEM(outer->keys, i), PyTuple_GET_ITEM(outer->to, i),
        PyTuple_GET_ITEM(outer->from, i), PyTuple_GET_ITEM(outer->len, i)};
    if (!read_lists(args, objects, &lists) ||
        !mcp_args_keys(args, lists.keys, "all_keys", &keys)) {
        return false;
    }
    gather->count = keys.count;
    gather->is_even = same_len(&lists, (Py_ssize_t)keys.count);
    if (!gather->is_even) {
        return true;
    }
    gather->rows = mcp_args_alloc(args, keys.count, sizeof *gather->rows);
    for (size_t k = 0; gather->rows && k < keys.count; k++) {
        gather->rows[k] = (struct mc_range_row){.key = keys.at[k]};
        if (!make_row(args, &lists, (Py_ssize_t)k, &gather->rows[k],
                      &gather->capacity)) {
            return false;
        }
    }
    return gather->rows != NULL;
}

/* ---- the answers ------------------------------------------------------------------------ */

static PyObject *rows_of(const struct gather *gather)
{
    if (!gather->is_even) {
        return mcp_results_all(gather->count, MC_ERR_INVALID_PARAMS);
    }
    PyObject *list = PyList_New((Py_ssize_t)gather->count);
    for (size_t i = 0; list && i < gather->count; i++) {
        const struct mc_range_row *row = &gather->rows[i];
        PyObject *results = gather->code
                                ? mcp_results_all(row->count, gather->code)
                                : mcp_results(row->results, row->count);
        if (!results) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, results);
    }
    return list;
}

static PyObject *answers_of(const struct gather *gathers, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *rows = rows_of(&gathers[i]);
        if (!rows) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, rows);
    }
    return list;
}

/* ---- the call ------------------------------------------------------------------------------ */

/* A fragment that reaches beyond the registered memory must not spoil the others:
 * what the library is told of the buffer ends where the registration does. */
static enum mc_err gather_all(struct mc_client *client, struct gather *gathers,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct gather *gather = &gathers[i];
        void *buffer = mcp_pointer(gather->address);
        uint64_t registered = mc_client_registered_len(client, buffer);
        uint64_t capacity = gather->capacity;
        if (registered < capacity) {
            capacity = registered;
        }
        if (gather->is_even) {
            gather->code = mc_client_get_into_ranges(
                client, buffer, capacity, gather->rows, gather->count);
        }
    }
    return MC_OK;
}

static bool make_gathers(struct mcp_args *args, const struct mcp_ints *buffers,
                         const struct lists *lists, struct gather **out)
{
    struct gather *gathers =
        mcp_args_alloc(args, buffers->count, sizeof *gathers);
    for (size_t i = 0; gathers && i < buffers->count; i++) {
        gathers[i] = (struct gather){.address = buffers->at[i]};
        if (!make_gather(args, lists, (Py_ssize_t)i, &gathers[i])) {
            return false;
        }
    }
    *out = gathers;
    return gathers != NULL;
}

PyObject *mcp_get_into_ranges(PyObject *self, PyObject *arguments,
                              PyObject *keywords)
{
    static char *names[] = {"buffer_ptrs",     "all_keys",  "all_dst_offsets",
                            "all_src_offsets", "all_sizes", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_ints buffers = {NULL, 0};
    struct lists lists;
    struct gather *gathers = NULL;
    PyObject *objects[5] = {NULL};
    PyObject *answer = NULL;
    int code = 0;
    bool is_read = PyArg_ParseTupleAndKeywords(
                       arguments, keywords, "OOOOO", names, &objects[0],
                       &objects[1], &objects[2], &objects[3], &objects[4]) &&
                   mcp_args_ints(&args, objects[0], names[0], &buffers) &&
                   read_lists(&args, &objects[1], &lists);
    bool is_even = is_read && same_len(&lists, (Py_ssize_t)buffers.count) &&
                   PyTuple_GET_SIZE(lists.keys) == (Py_ssize_t)buffers.count;
    if (is_even && make_gathers(&args, &buffers, &lists, &gathers)) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       gather_all(client, gathers, buffers.count));
        for (size_t i = 0; code != 0 && i < buffers.count; i++) {
            gathers[i].code = code;
        }
        answer = answers_of(gathers, buffers.count);
    } else if (is_read && !is_even) {
        answer = mcp_results_all(buffers.count, MC_ERR_INVALID_PARAMS);
    }
    mcp_args_free(&args);
    return answer;
}
