/* SPDX-License-Identifier: Apache-2.0 */
/* events_sources.c - from what Python says of a publisher to what the library
 * wants to know. Texts are borrowed from the dictionary.
 */
#include <string.h>

#include "events_py.h"

/* Borrowed; None where there is none, NULL with an exception. */
static PyObject *value_of(PyObject *dict, const char *name)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *value = key ? PyDict_GetItemWithError(dict, key) : NULL;
    Py_XDECREF(key);
    return value || PyErr_Occurred() ? value : Py_None;
}

static bool read_text(PyObject *dict, const char *name, const char **text_out)
{
    PyObject *value = value_of(dict, name);
    if (!value || value == Py_None) {
        return value != NULL;
    }
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: expected str, not %.200s", name,
                     Py_TYPE(value)->tp_name);
        return false;
    }
    Py_ssize_t len = 0;
    *text_out = PyUnicode_AsUTF8AndSize(value, &len);
    if (*text_out && strlen(*text_out) != (size_t)len) {
        PyErr_Format(PyExc_ValueError, "%s: it holds a NUL", name);
        return false;
    }
    return *text_out != NULL;
}

static bool read_profile(PyObject *dict, struct mc_source_opts *source)
{
    const char *profile = "store";
    if (!read_text(dict, "profile", &profile)) {
        return false;
    }
    if (strcmp(profile, "engine") == 0) {
        source->profile = MC_PROFILE_ENGINE;
    } else if (strcmp(profile, "store") != 0) {
        PyErr_Format(PyExc_ValueError, "profile: store or engine, not %s",
                     profile);
        return false;
    }
    return true;
}

static bool read_number(PyObject *dict, const char *name, uint64_t most,
                        uint64_t *number_out)
{
    PyObject *value = value_of(dict, name);
    uint64_t number = 0;
    if (!value || value == Py_None) {
        return value != NULL;
    }
    if (!mcp_args_u64(value, name, &number)) {
        return false;
    }
    if (number > most) {
        PyErr_Format(PyExc_OverflowError, "%s: at most %llu", name,
                     (unsigned long long)most);
        return false;
    }
    *number_out = number;
    return true;
}

/* "now", "snapshot", or the number of a message. */
static bool read_begin(PyObject *dict, struct mc_source_opts *source)
{
    PyObject *value = value_of(dict, "begin");
    if (!value) {
        return false;
    }
    if (PyLong_Check(value)) {
        source->begin = MC_BEGIN_SEQ;
        return read_number(dict, "begin", UINT64_MAX, &source->begin_seq);
    }
    const char *begin = "now";
    if (!read_text(dict, "begin", &begin)) {
        return false;
    }
    if (strcmp(begin, "snapshot") == 0) {
        source->begin = MC_BEGIN_SNAPSHOT;
    } else if (strcmp(begin, "now") != 0) {
        PyErr_Format(PyExc_ValueError,
                     "begin: now, snapshot or a number, not %s", begin);
        return false;
    }
    return true;
}

/* Places of other publishers: pairs of endpoint and recovery endpoint or None. */
static bool read_others(PyObject *dict, struct mc_publisher_place *places,
                        struct mc_source_opts *source)
{
    PyObject *others = value_of(dict, "others");
    if (!others || others == Py_None) {
        return others != NULL;
    }
    if (!PyTuple_Check(others) ||
        PyTuple_GET_SIZE(others) > MC_PUBLISHER_PLACES_MAX) {
        PyErr_SetString(PyExc_ValueError, "others: a tuple of at most 7 pairs");
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(others); i++) {
        PyObject *pair = PyTuple_GET_ITEM(others, i);
        if (!PyTuple_Check(pair) ||
            !PyArg_ParseTuple(pair, "sz:others", &places[i].endpoint,
                              &places[i].recovery_endpoint)) {
            return false;
        }
    }
    source->others = places;
    source->other_count = (size_t)PyTuple_GET_SIZE(others);
    return true;
}

bool mcp_source_read(PyObject *dict, struct mc_publisher_place *places,
                     struct mc_source_opts *source)
{
    uint64_t rank = 0;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "a source is a dict");
        return false;
    }
    if (!read_text(dict, "endpoint", &source->endpoint) ||
        !read_text(dict, "recovery", &source->recovery_endpoint) ||
        !read_text(dict, "topic", &source->topic) ||
        !read_text(dict, "curve_server_key", &source->curve_server_key) ||
        !read_text(dict, "curve_key_file", &source->curve_key_file) ||
        !read_text(dict, "worker", &source->worker) ||
        !read_text(dict, "tenant", &source->tenant) ||
        !read_number(dict, "dp_rank", UINT32_MAX, &rank) ||
        !read_begin(dict, source) || !read_others(dict, places, source) ||
        !read_profile(dict, source)) {
        return false;
    }
    source->dp_rank = (uint32_t)rank;
    return true;
}
