/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h - integers of Python as fixed-width ones.
 *
 * Nothing is cut: what is negative or too large is an OverflowError, what is no
 * integer a TypeError. Python's own formats I, k and K take the lowest bits.
 * Threads: with the interpreter's lock held.
 */
#ifndef MCP_NUMBERS_H
#define MCP_NUMBERS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

/* False with an exception that has the name. */
bool mcp_args_u64(PyObject *object, const char *name, uint64_t *number_out);
bool mcp_args_u32(PyObject *object, const char *name, uint32_t *number_out);

/* The same as converters of PyArg_Parse ("O&"), to uint64_t and uint32_t. */
int mcp_u64_of(PyObject *object, void *number_out);
int mcp_u32_of(PyObject *object, void *number_out);
#endif
