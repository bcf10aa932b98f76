/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - memory of a call's arguments, keys, values and single numbers. */
#include "args.h"

#define CHUNK_BYTES 4096
#ifdef __SANITIZE_ADDRESS__
#define SPARE_BYTES_MAX 0 /* what is used too late is to be seen */
#else
#define SPARE_BYTES_MAX (4 << 20)
#endif

struct mcp_chunk {
    struct mcp_chunk *next;
    size_t used;
    size_t room;
    max_align_t data[];
};

/* A reference, or views of buffers. */
struct mcp_hold {
    struct mcp_hold *next;
    PyObject *object;
    Py_buffer *views;
    size_t view_count;
};

/* ---- memory ------------------------------------------------------------------ */

/* The largest chunk of late, or NULL; by the interpreter's lock. Pages that the C
 * library gives back and takes anew cost more than all that is written to them. */
static struct mcp_chunk *spare;

static void free_chunk(struct mcp_chunk *chunk)
{
    if (chunk->room <= SPARE_BYTES_MAX &&
        (!spare || spare->room < chunk->room)) {
        struct mcp_chunk *smaller = spare;
        spare = chunk;
        chunk = smaller;
    }
    PyMem_Free(chunk);
}

static struct mcp_chunk *take_spare(size_t bytes)
{
    struct mcp_chunk *chunk = spare;
    if (!chunk || chunk->room < bytes) {
        return NULL;
    }
    spare = NULL;
    return chunk;
}

void mcp_args_free(struct mcp_args *args)
{
    for (struct mcp_hold *hold = args->holds; hold; hold = hold->next) {
        Py_XDECREF(hold->object);
        for (size_t i = 0; i < hold->view_count; i++) {
            PyBuffer_Release(&hold->views[i]);
        }
    }
    args->holds = NULL;
    while (args->chunks) {
        struct mcp_chunk *next = args->chunks->next;
        free_chunk(args->chunks);
        args->chunks = next;
    }
}

static struct mcp_chunk *chunk_for(struct mcp_args *args, size_t bytes)
{
    struct mcp_chunk *chunk = args->chunks;
    if (chunk && chunk->room - chunk->used >= bytes) {
        return chunk;
    }
    size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    /* Twice as much as before, so that many small ones cost few. */
    if (chunk && room < 2 * chunk->room && chunk->room < SIZE_MAX / 4) {
        room = 2 * chunk->room;
    }
    chunk = take_spare(bytes);
    if (chunk) {
        room = chunk->room;
    } else {
        chunk = PyMem_Malloc(sizeof *chunk + room);
    }
    if (chunk) {
        *chunk = (struct mcp_chunk){.next = args->chunks, .room = room};
        args->chunks = chunk;
    }
    return chunk;
}

void *mcp_args_alloc(struct mcp_args *args, size_t count, size_t size)
{
    const size_t align = sizeof(max_align_t);
    if (count > (SIZE_MAX / 4) / size) {
        (void)PyErr_NoMemory();
        return NULL;
    }
    size_t bytes = (count * size + align - 1) / align * align;
    bytes = bytes > 0 ? bytes : align;
    struct mcp_chunk *chunk = chunk_for(args, bytes);
    if (!chunk) {
        (void)PyErr_NoMemory();
        return NULL;
    }
    void *data = (uint8_t *)chunk->data + chunk->used;
    chunk->used += bytes;
    return data;
}

static struct mcp_hold *add_hold(struct mcp_args *args)
{
    struct mcp_hold *hold = mcp_args_alloc(args, 1, sizeof *hold);
    if (hold) {
        *hold = (struct mcp_hold){.next = args->holds};
        args->holds = hold;
    }
    return hold;
}

bool mcp_args_hold(struct mcp_args *args, PyObject *object)
{
    struct mcp_hold *hold = add_hold(args);
    if (!hold) {
        return false;
    }
    Py_INCREF(object);
    hold->object = object;
    return true;
}

int64_t *mcp_args_results(struct mcp_args *args, size_t count)
{
    return mcp_args_alloc(args, count, sizeof(int64_t));
}

/* ---- keys -------------------------------------------------------------------- */

/* Borrowed from the object, which whoever calls holds. */
static bool view_of(PyObject *object, const char *name, struct mc_view *out)
{
    if (PyUnicode_Check(object)) {
        Py_ssize_t len = 0;
        const char *text = PyUnicode_AsUTF8AndSize(object, &len);
        *out = mc_view_make(text, (size_t)len);
        return text != NULL;
    }
    if (PyBytes_Check(object)) {
        *out = mc_view_make(PyBytes_AS_STRING(object),
                            (size_t)PyBytes_GET_SIZE(object));
        return true;
    }
    PyErr_Format(PyExc_TypeError, "%s: expected str, not %.200s", name,
                 Py_TYPE(object)->tp_name);
    return false;
}

bool mcp_args_key(struct mcp_args *args, PyObject *object,
                  struct mc_view *key_out)
{
    return mcp_args_hold(args, object) && view_of(object, "key", key_out);
}

bool mcp_args_text(struct mcp_args *args, PyObject *object, const char *name,
                   const char **text_out)
{
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected str, not %.200s", name,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    Py_ssize_t len = 0;
    const char *text = PyUnicode_AsUTF8AndSize(object, &len);
    if (!text) {
        return false;
    }
    if (strlen(text) != (size_t)len) {
        PyErr_Format(PyExc_ValueError, "%s: holds a NUL", name);
        return false;
    }
    *text_out = text;
    return mcp_args_hold(args, object);
}

PyObject *mcp_args_tuple(struct mcp_args *args, PyObject *object,
                         const char *name)
{
    if (PyUnicode_Check(object) || PyBytes_Check(object) ||
        PyByteArray_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected a list, not %.200s", name,
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    PyObject *tuple = PySequence_Tuple(object);
    if (!tuple) {
        return NULL;
    }
    bool is_held = mcp_args_hold(args, tuple);
    Py_DECREF(tuple);
    return is_held ? tuple : NULL;
}

bool mcp_args_keys(struct mcp_args *args, PyObject *object, const char *name,
                   struct mcp_views *keys_out)
{
    PyObject *tuple = mcp_args_tuple(args, object, name);
    if (!tuple) {
        return false;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(tuple);
    struct mc_view *at = mcp_args_alloc(args, count, sizeof *at);
    if (!at) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!view_of(PyTuple_GET_ITEM(tuple, (Py_ssize_t)i), name, &at[i])) {
            return false;
        }
    }
    *keys_out = (struct mcp_views){.at = at, .count = count};
    return true;
}

/* ---- values ------------------------------------------------------------------ */

/* Views one by one, so that those taken so far are given back in any case. */
static bool take_view(struct mcp_hold *hold, PyObject *object,
                      struct mc_view *out)
{
    Py_buffer *view = &hold->views[hold->view_count];
    if (PyObject_GetBuffer(object, view, PyBUF_SIMPLE) != 0) {
        return false;
    }
    hold->view_count++;
    *out = mc_view_make(view->buf, (size_t)view->len);
    return true;
}

static struct mcp_hold *add_views(struct mcp_args *args, size_t count)
{
    struct mcp_hold *hold = add_hold(args);
    if (hold) {
        hold->views = mcp_args_alloc(args, count, sizeof(Py_buffer));
    }
    return hold && hold->views ? hold : NULL;
}

bool mcp_args_bytes(struct mcp_args *args, PyObject *object,
                    struct mc_view *bytes_out)
{
    struct mcp_hold *hold = add_views(args, 1);
    return hold && take_view(hold, object, bytes_out);
}

bool mcp_args_values(struct mcp_args *args, PyObject *object, const char *name,
                     struct mcp_views *values_out)
{
    PyObject *tuple = mcp_args_tuple(args, object, name);
    if (!tuple) {
        return false;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(tuple);
    struct mc_view *at = mcp_args_alloc(args, count, sizeof *at);
    struct mcp_hold *hold = add_views(args, count);
    if (!at || !hold) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!take_view(hold, PyTuple_GET_ITEM(tuple, (Py_ssize_t)i), &at[i])) {
            return false;
        }
    }
    *values_out = (struct mcp_views){.at = at, .count = count};
    return true;
}

/* ---- answers ----------------------------------------------------------------- */

PyObject *mcp_results(const int64_t *results, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(results[i]);
        if (!number) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, number);
    }
    return list;
}

PyObject *mcp_results_all(size_t count, int64_t result)
{
    PyObject *number = PyLong_FromLongLong(result);
    PyObject *list = number ? PyList_New((Py_ssize_t)count) : NULL;
    for (size_t i = 0; list && i < count; i++) {
        Py_INCREF(number);
        PyList_SET_ITEM(list, (Py_ssize_t)i, number);
    }
    Py_XDECREF(number);
    return list;
}
