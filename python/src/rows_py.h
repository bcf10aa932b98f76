/* SPDX-License-Identifier: Apache-2.0 */
/* rows_py.h - mckv._rows: a row driver and its operations.
 * Threads: functions with the interpreter's lock held, but leave.
 */
#ifndef MCP_ROWS_H
#define MCP_ROWS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mc_row_driver.h"
#include "numbers.h"

struct mcp_rows {
    PyObject_HEAD pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mc_client *client;     /* guarded by lock */
    struct mc_row_driver *driver; /* the same; NULL: closed */
    unsigned inside;              /* the same */
    bool is_closing;              /* the same */
    uint64_t forks;
    PyObject *weak_refs;
};
extern PyTypeObject mcp_rows_type;
extern PyTypeObject mcp_row_op_type;

uint64_t mcp_row_forks(void);
/* The driver until leave, or NULL with an exception. */
struct mc_row_driver *mcp_rows_enter(struct mcp_rows *self);
void mcp_rows_leave(struct mcp_rows *self);
/* An exception for a code; answers NULL. */
PyObject *mcp_rows_fail(enum mc_err err, const char *what);

PyObject *mcp_rows_submit(PyObject *object, PyObject *args);
PyObject *mcp_rows_probe(PyObject *object, PyObject *args);
#endif
