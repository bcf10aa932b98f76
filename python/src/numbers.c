/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - integers of Python as fixed-width ones. */
#include "numbers.h"

static bool out_of_range(const char *name, const char *range)
{
    PyErr_Clear();
    PyErr_Format(PyExc_OverflowError, "%s: out of range, %s", name, range);
    return false;
}

bool mcp_args_u64(PyObject *object, const char *name, uint64_t *number_out)
{
    PyObject *index = NULL;
    if (!PyLong_CheckExact(object)) {
        index = PyNumber_Index(object);
        if (!index) {
            if (PyErr_ExceptionMatches(PyExc_TypeError)) {
                PyErr_Format(PyExc_TypeError, "%s: expected int, not %.200s",
                             name, Py_TYPE(object)->tp_name);
            }
            return false;
        }
        object = index;
    }
    unsigned long long number = PyLong_AsUnsignedLongLong(object);
    Py_XDECREF(index);
    if (number == (unsigned long long)-1 && PyErr_Occurred()) {
        return out_of_range(name, "0 to 2**64 - 1");
    }
    *number_out = number;
    return true;
}

bool mcp_args_u32(PyObject *object, const char *name, uint32_t *number_out)
{
    uint64_t number = 0;
    if (!mcp_args_u64(object, name, &number)) {
        return false;
    }
    if (number > UINT32_MAX) {
        return out_of_range(name, "0 to 2**32 - 1");
    }
    *number_out = (uint32_t)number;
    return true;
}

int mcp_u64_of(PyObject *object, void *number_out)
{
    return mcp_args_u64(object, "argument", number_out);
}

int mcp_u32_of(PyObject *object, void *number_out)
{
    return mcp_args_u32(object, "argument", number_out);
}
