/* SPDX-License-Identifier: Apache-2.0 */
/* events_values.c - arguments and answers of mckv._events. */
#include <math.h>
#include <string.h>

#include "events_py.h"

/* ---- text -------------------------------------------------------------------- */

PyObject *mcp_text(struct mc_view view)
{
    if (!view.data) {
        Py_RETURN_NONE;
    }
    return PyUnicode_DecodeUTF8(view.data, (Py_ssize_t)view.len, "strict");
}

bool mcp_view_needed(PyObject *object, const char *name,
                     struct mc_view *view_out)
{
    Py_ssize_t len = 0;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected str, not %.200s", name,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    const char *text = PyUnicode_AsUTF8AndSize(object, &len);
    *view_out = mc_view_make(text, (size_t)len);
    return text != NULL;
}

bool mcp_view(PyObject *object, const char *name, struct mc_view *view_out)
{
    if (!object || object == Py_None) {
        *view_out = mc_view_make(NULL, 0);
        return true;
    }
    return mcp_view_needed(object, name, view_out);
}

int mcp_view_of_str(PyObject *object, void *view_out)
{
    return mcp_view_needed(object, "argument", view_out);
}

int mcp_view_of_str_or_none(PyObject *object, void *view_out)
{
    return mcp_view(object, "argument", view_out);
}

bool mcp_tier(PyObject *object, enum mc_tier *tier_out)
{
    struct mc_view name;
    if (!mcp_view_needed(object, "tier", &name)) {
        return false;
    }
    if (mc_tier_parse(name, tier_out) != MC_OK) {
        PyErr_Format(PyExc_ValueError,
                     "tier: device, disk, external or host, not %R", object);
        return false;
    }
    return true;
}

/* ---- hashes ------------------------------------------------------------------- */

/* Of either sign: a negative one is its two's complement. */
static bool hash_of(PyObject *item, uint64_t *hash_out)
{
    int overflow = 0;
    PyObject *number = PyNumber_Index(item);
    if (!number) {
        return false;
    }
    long long narrow = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow > 0) {
        *hash_out = PyLong_AsUnsignedLongLong(number);
    } else {
        *hash_out = (uint64_t)narrow;
    }
    Py_DECREF(number);
    if (overflow < 0) {
        PyErr_SetString(PyExc_OverflowError, "a hash has 64 bits");
    }
    return !PyErr_Occurred();
}

/* Native 64-bit integers, one after the other. */
static bool is_wide(const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=') {
        format++;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (*format == '<') {
        format++;
    }
#endif
    return view->itemsize == 8 && view->ndim == 1 && format[0] != '\0' &&
           strchr("qQlLnN", format[0]) && format[1] == '\0';
}

static bool hashes_of_buffer(PyObject *object, struct mcp_hashes *out)
{
    Py_buffer view;
    if (!PyObject_CheckBuffer(object)) {
        return false;
    }
    if (PyObject_GetBuffer(object, &view, PyBUF_ND | PyBUF_FORMAT) != 0) {
        PyErr_Clear();
        return false;
    }
    bool is_made = is_wide(&view);
    if (is_made) {
        out->count = (size_t)view.len / 8;
        out->at = PyMem_Malloc((size_t)view.len + 8);
        if (out->at) {
            memcpy(out->at, view.buf, (size_t)view.len);
        }
    }
    PyBuffer_Release(&view);
    if (is_made && !out->at) {
        (void)PyErr_NoMemory();
    }
    return is_made;
}

bool mcp_hashes(PyObject *object, struct mcp_hashes *hashes_out)
{
    if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object) &&
        hashes_of_buffer(object, hashes_out)) {
        return hashes_out->at != NULL;
    }
    if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "hashes: a list of int is needed");
        return false;
    }
    PyObject *items = PySequence_Tuple(object);
    if (!items) {
        return false;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(items);
    uint64_t *at = PyMem_Malloc((count + 1) * sizeof *at);
    bool is_made = at != NULL;
    if (!at) {
        (void)PyErr_NoMemory();
    }
    for (size_t i = 0; is_made && i < count; i++) {
        is_made = hash_of(PyTuple_GET_ITEM(items, (Py_ssize_t)i), &at[i]);
    }
    Py_DECREF(items);
    if (!is_made) {
        PyMem_Free(at);
        return false;
    }
    *hashes_out = (struct mcp_hashes){.at = at, .count = count};
    return true;
}

PyObject *mcp_hash_list(const uint64_t *hashes, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *hash = PyLong_FromUnsignedLongLong(hashes[i]);
        if (!hash) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, hash);
    }
    return list;
}

bool mcp_timeout(PyObject *object, int *timeout_ms_out)
{
    *timeout_ms_out = -1;
    if (!object || object == Py_None) {
        return true;
    }
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred()) {
        return false;
    }
    if (isnan(seconds)) {
        PyErr_SetString(PyExc_ValueError, "timeout: not a number");
        return false;
    }
    double ms = ceil(seconds * 1000);
    *timeout_ms_out = ms <= 0 ? 0 : ms >= INT32_MAX ? INT32_MAX : (int)ms;
    return true;
}

/* ---- rows ----------------------------------------------------------------------- */

#define FIELD(name, text)              \
    {                                  \
        (char *)(name), (char *)(text) \
    }

static PyStructSequence_Field event_fields[] = {
    {"type", "'stored', 'removed' or 'cleared'"},
    {"event_id", "rises by one within an epoch"},
    {"object_key", "str, or None of cleared"},
    {"tenant_id", "str"},
    {"backend_id", "the store"},
    {"medium", "'cpu', 'disk', or None of cleared"},
    {"session_id", "who the bytes were written for, or None"},
    {"group_id", "str or None"},
    {"epoch", "the publisher's run; 0: it stamps none"},
    {"seq", "number of the message"},
    {"timestamp_ms", "unix time of the message"},
    {"dp_rank", "as configured at the publisher"},
    {"source", "place in the subscriber's list"},
    {"replaces", "True: a stored that follows the removed of the same key"},
    {"origin", "'stream', 'replay' or 'snapshot'"},
    {"is_derived", "True: a removed that no event said, but what is different"},
    {"engine", "EngineEvent of an engine's event, else None"},
    {NULL, NULL}};

static PyStructSequence_Field engine_fields[] = {
    {"hashes", "list of 64-bit hashes"},
    {"parent", "hash of the block before the first, or None"},
    {"is_unordered", "nothing is said about what precedes the blocks"},
    {"token_count", "tokens, or pairs of them"},
    {"block_size", "tokens of a block; 0: not said"},
    {"medium", "as sent, 'GPU' ..., or None"},
    {"group_idx", "of a hybrid cache, or None"},
    {"lora_id", "int or None"},
    {"lora_name", "str or None"},
    {"cache_salt", "str or None"},
    {"locality", "str or None"},
    {NULL, NULL}};

static PyStructSequence_Field signal_fields[] = {
    {"type", "'gap', 'recovered', 'epoch', 'degraded' or 'stale'"},
    {"source", "place in the subscriber's list"},
    {"from_id", "gap: first missed event; 0: not known"},
    {"to_id", "gap: last missed event"},
    {"from_seq", "gap: first missed message; 0: the ids alone show it"},
    {"to_seq", "gap: last missed message"},
    {"epoch", "epoch: the new one"},
    {"by", "recovered: 'replay' or 'snapshot', else None"},
    {"reason", "degraded: why, else None"},
    {"offset", "degraded: where in the payload, bytes"},
    {"seq", "the message in which it was noticed; 0: none"},
    {NULL, NULL}};

static PyStructSequence_Field mirror_fields[] = {
    {"object_key", "str"},
    {"medium", "'cpu' or 'disk'"},
    {"tenant_id", "str"},
    {"session_id", "str or None"},
    {"group_id", "str or None"},
    {"event_id", "of its last change"},
    {"source", "place in the list"},
    {NULL, NULL}};

static PyStructSequence_Field place_fields[] = {
    {"owner", "'worker/rank' of an engine, 'store:backend' of a store"},
    {"tier", "'device', 'disk', 'external' or 'host'"},
    {"blocks", "match: contiguous from the first; resident: held"},
    {"prefix",
     "resident: longest contiguous prefix from a root; match: as blocks"},
    {NULL, NULL}};

static PyStructSequence_Field worker_fields[] = {
    {"owner", "'worker/rank'"},
    {"own", "leading blocks over its own tiers"},
    {"with_store", "over its own tiers and all stores"},
    {NULL, NULL}};

static PyStructSequence_Field match_fields[] = {
    {"places", "list of Place, by owner and tier"},
    {"workers", "list of Worker, by owner"},
    {"store", "leading blocks over all stores together"},
    {NULL, NULL}};

static PyStructSequence_Field session_fields[] = {
    {"tenant_id", "str"},
    {"session_id", "str"},
    {"heads", "deepest blocks that it reached"},
    {"blocks", "in its lineage"},
    {"bytes", "of these; 0: the size of a block is not known"},
    {NULL, NULL}};

static PyStructSequence_Field tenant_fields[] = {
    {"tenant_id", "str"},
    {"nodes", "blocks known"},
    {"sessions", "with lineage"},
    {"resident", "blocks held by at least one owner"},
    {"resident_bytes", "of these"},
    {NULL, NULL}};

#undef FIELD

static PyStructSequence_Desc descriptions[MCP_ROW_COUNT] = {
    [MCP_ROW_EVENT] = {"mckv.events.Event", "One change of what can be read.",
                       event_fields, 17},
    [MCP_ROW_ENGINE] = {"mckv.events.EngineEvent",
                        "What an engine's event says.", engine_fields, 11},
    [MCP_ROW_SIGNAL] = {"mckv.events.Signal",
                        "What can be trusted, and what not any more.",
                        signal_fields, 11},
    [MCP_ROW_MIRROR] = {"mckv.events.MirrorEntry",
                        "A key that can be read in a medium.", mirror_fields,
                        7},
    [MCP_ROW_PLACE] = {"mckv.events.Place", "Blocks in one tier of an owner.",
                       place_fields, 4},
    [MCP_ROW_WORKER] = {"mckv.events.Worker", "What a worker need not compute.",
                        worker_fields, 3},
    [MCP_ROW_MATCH] = {"mckv.events.Match", "Where a chain's head is held.",
                       match_fields, 3},
    [MCP_ROW_SESSION] = {"mckv.events.Session", "A session's size.",
                         session_fields, 5},
    [MCP_ROW_TENANT] = {"mckv.events.Tenant", "A tenant's size.", tenant_fields,
                        5}};

static PyTypeObject *row_types[MCP_ROW_COUNT];

bool mcp_rows_add(PyObject *module)
{
    for (int i = 0; i < MCP_ROW_COUNT; i++) {
        if (!row_types[i]) {
            row_types[i] = PyStructSequence_NewType(&descriptions[i]);
        }
        if (!row_types[i]) {
            return false;
        }
        const char *name = strrchr(descriptions[i].name, '.') + 1;
        Py_INCREF(row_types[i]);
        if (PyModule_AddObject(module, name, (PyObject *)row_types[i]) != 0) {
            Py_DECREF(row_types[i]);
            return false;
        }
    }
    return true;
}

struct mcp_row_maker mcp_row_begin(enum mcp_row kind)
{
    PyObject *row = PyStructSequence_New(row_types[kind]);
    return (struct mcp_row_maker){.row = row, .failed = row == NULL};
}

void mcp_row_add(struct mcp_row_maker *maker, PyObject *field)
{
    if (maker->failed || !field) {
        maker->failed = true;
        Py_XDECREF(field);
        return;
    }
    PyStructSequence_SetItem(maker->row, maker->next++, field);
}

PyObject *mcp_row_end(struct mcp_row_maker *maker)
{
    if (maker->failed) {
        Py_CLEAR(maker->row);
    }
    return maker->row;
}
