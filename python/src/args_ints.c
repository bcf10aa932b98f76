/* SPDX-License-Identifier: Apache-2.0 */
/* args_ints.c - lists of numbers, and lists of those. */
#include "args.h"

/* ---- items of a list ----------------------------------------------------------- */

/* An item that is no plain int may run code, which may change the list. */
static bool odd_item_at(PyObject *list, Py_ssize_t i, const char *name,
                        uint64_t *out)
{
    if (i >= PySequence_Fast_GET_SIZE(list)) {
        PyErr_Format(PyExc_RuntimeError, "%s: changed while it was read", name);
        return false;
    }
    PyObject *item = PySequence_Fast_GET_ITEM(list, i);
    Py_INCREF(item);
    bool is_read = mcp_args_u64(item, name, out);
    Py_DECREF(item);
    return is_read;
}

static inline bool item_at(PyObject *list, Py_ssize_t i, const char *name,
                           uint64_t *out)
{
    if (i < PySequence_Fast_GET_SIZE(list)) {
        PyObject *item = PySequence_Fast_GET_ITEM(list, i);
        if (PyLong_CheckExact(item)) {
            *out = PyLong_AsUnsignedLongLong(item);
            if (*out != UINT64_MAX) {
                return true;
            }
            PyErr_Clear(); /* told below, by name */
        }
    }
    return odd_item_at(list, i, name, out);
}

static bool from_list(struct mcp_args *args, PyObject *list, const char *name,
                      struct mcp_ints *out)
{
    size_t count = (size_t)PySequence_Fast_GET_SIZE(list);
    uint64_t *at = mcp_args_alloc(args, count, sizeof *at);
    for (size_t i = 0; at && i < count; i++) {
        if (!item_at(list, (Py_ssize_t)i, name, &at[i])) {
            return false;
        }
    }
    *out = (struct mcp_ints){.at = at, .count = count};
    return at != NULL;
}

/* ---- buffers -------------------------------------------------------------------- */

enum number_kind { NUMBER_NONE, NUMBER_SIGNED, NUMBER_UNSIGNED };

/* In the byte order of this machine. */
static enum number_kind kind_of(const char *format)
{
    if (!format || *format == '\0') {
        return NUMBER_NONE;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const char *ours = "@=<";
#else
    const char *ours = "@=!>";
#endif
    if (strchr(ours, *format)) {
        format++;
    }
    if (format[0] == '\0' || format[1] != '\0') {
        return NUMBER_NONE;
    }
    if (strchr("bhilqn", *format)) {
        return NUMBER_SIGNED;
    }
    return strchr("BHILQNP", *format) ? NUMBER_UNSIGNED : NUMBER_NONE;
}

static bool load_unsigned(const void *data, Py_ssize_t size, uint64_t *out)
{
    uint8_t one = 0;
    uint16_t two = 0;
    uint32_t four = 0;
    switch (size) {
    case 1:
        memcpy(&one, data, sizeof one);
        *out = one;
        return true;
    case 2:
        memcpy(&two, data, sizeof two);
        *out = two;
        return true;
    case 4:
        memcpy(&four, data, sizeof four);
        *out = four;
        return true;
    case 8:
        memcpy(out, data, sizeof *out);
        return true;
    default:
        return false;
    }
}

/* The sign is the topmost bit of the item. */
static bool load(const void *data, Py_ssize_t size, enum number_kind kind,
                 uint64_t *out)
{
    if (!load_unsigned(data, size, out)) {
        return false;
    }
    return kind == NUMBER_UNSIGNED || (*out >> (8 * size - 1)) == 0;
}

/* Of an array: what its items are. */
static bool kind_in(const Py_buffer *view, const char *name,
                    enum number_kind *kind_out)
{
    *kind_out = kind_of(view->format);
    if (*kind_out == NUMBER_NONE) {
        PyErr_Format(PyExc_TypeError, "%s: not an array of integers", name);
    }
    return *kind_out != NUMBER_NONE;
}

/* Items one after the other, which are what is wanted: copied at once. */
static bool is_plain(const Py_buffer *view, enum number_kind kind,
                     Py_ssize_t stride)
{
    return kind == NUMBER_UNSIGNED && view->itemsize == sizeof(uint64_t) &&
           stride == (Py_ssize_t)sizeof(uint64_t);
}

static bool load_row(const Py_buffer *view, enum number_kind kind,
                     const char *data, size_t count, Py_ssize_t stride,
                     uint64_t *at, const char *name)
{
    if (is_plain(view, kind, stride)) {
        memcpy(at, data, count * sizeof *at);
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (!load(data + (Py_ssize_t)i * stride, view->itemsize, kind,
                  &at[i])) {
            PyErr_Format(PyExc_OverflowError,
                         "%s: out of range, 0 to 2**64 - 1", name);
            return false;
        }
    }
    return true;
}

/* A buffer of so many dimensions; false without exception: none. */
static bool view_of(PyObject *object, int dimensions, Py_buffer *view)
{
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object) ||
        PyBytes_Check(object) || PyByteArray_Check(object) ||
        !PyObject_CheckBuffer(object)) {
        return false;
    }
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDED_RO | PyBUF_FORMAT) !=
        0) {
        PyErr_Clear();
        return false;
    }
    if (view->ndim == dimensions) {
        return true;
    }
    PyBuffer_Release(view);
    return false;
}

static bool from_view(struct mcp_args *args, const Py_buffer *view,
                      const char *name, struct mcp_ints *out)
{
    enum number_kind kind = NUMBER_NONE;
    size_t count = (size_t)view->shape[0];
    uint64_t *at = mcp_args_alloc(args, count, sizeof *at);
    *out = (struct mcp_ints){.at = at, .count = count};
    return at && kind_in(view, name, &kind) &&
           load_row(view, kind, view->buf, count, view->strides[0], at, name);
}

/* ---- one row --------------------------------------------------------------------- */

bool mcp_args_ints(struct mcp_args *args, PyObject *object, const char *name,
                   struct mcp_ints *ints_out)
{
    Py_buffer view;
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
        return from_list(args, object, name, ints_out);
    }
    if (view_of(object, 1, &view)) {
        bool is_read = from_view(args, &view, name, ints_out);
        PyBuffer_Release(&view);
        return is_read;
    }
    PyObject *tuple = mcp_args_tuple(args, object, name);
    return tuple && from_list(args, tuple, name, ints_out);
}

/* ---- rows ------------------------------------------------------------------------- */

static bool rows_of_view(struct mcp_args *args, const Py_buffer *view,
                         const char *name, struct mcp_int_rows *out)
{
    size_t count = (size_t)view->shape[0];
    size_t width = (size_t)view->shape[1];
    struct mcp_ints *rows = mcp_args_alloc(args, count, sizeof *rows);
    uint64_t *at = width > 0 && count > (SIZE_MAX / 16) / width
                       ? NULL
                       : mcp_args_alloc(args, count * width, sizeof *at);
    enum number_kind kind = NUMBER_NONE;
    if (!rows || !at || !kind_in(view, name, &kind)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const char *data =
            (const char *)view->buf + (Py_ssize_t)i * view->strides[0];
        rows[i] = (struct mcp_ints){.at = at + i * width, .count = width};
        if (!load_row(view, kind, data, width, view->strides[1], rows[i].at,
                      name)) {
            return false;
        }
    }
    *out = (struct mcp_int_rows){.at = rows, .count = count};
    return true;
}

bool mcp_args_int_rows(struct mcp_args *args, PyObject *object,
                       const char *name, struct mcp_int_rows *rows_out)
{
    Py_buffer view;
    if (view_of(object, 2, &view)) {
        bool is_read = rows_of_view(args, &view, name, rows_out);
        PyBuffer_Release(&view);
        return is_read;
    }
    PyObject *tuple = mcp_args_tuple(args, object, name);
    if (!tuple) {
        return false;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(tuple);
    struct mcp_ints *rows = mcp_args_alloc(args, count, sizeof *rows);
    for (size_t i = 0; rows && i < count; i++) {
        PyObject *row = PyTuple_GET_ITEM(tuple, (Py_ssize_t)i);
        if (!mcp_args_ints(args, row, name, &rows[i])) {
            return false;
        }
    }
    *rows_out = (struct mcp_int_rows){.at = rows, .count = count};
    return rows != NULL;
}
