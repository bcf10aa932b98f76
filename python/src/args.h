/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - what the arguments of one call become: plain arrays that stay as they
 * are while the interpreter's lock is not held.
 *
 * Whatever was converted lives until mcp_args_free: numbers are copied, keys and
 * values are held by counted references, buffers by their views. Functions that
 * return false have set an exception.
 * Threads: with the interpreter's lock held.
 */
#ifndef MCP_ARGS_H
#define MCP_ARGS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "mc_client_sessions.h"
#include "numbers.h"

struct mcp_chunk;
struct mcp_hold;

struct mcp_args {
    struct mcp_chunk *chunks;
    struct mcp_hold *holds;
};
#define MCP_ARGS_NONE \
    {                 \
        NULL, NULL    \
    }

void mcp_args_free(struct mcp_args *args);
/* Memory that lives as long as the arguments; not zeroed; NULL with an
 * exception. */
void *mcp_args_alloc(struct mcp_args *args, size_t count, size_t size);
/* One more reference, until free. */
bool mcp_args_hold(struct mcp_args *args, PyObject *object);

/* A str, or bytes. */
bool mcp_args_key(struct mcp_args *args, PyObject *object,
                  struct mc_view *key_out);
/* A str without NUL. */
bool mcp_args_text(struct mcp_args *args, PyObject *object, const char *name,
                   const char **text_out);
/* Any object with a contiguous buffer. */
bool mcp_args_bytes(struct mcp_args *args, PyObject *object,
                    struct mc_view *bytes_out);

struct mcp_views {
    struct mc_view *at;
    size_t count;
};
bool mcp_args_keys(struct mcp_args *args, PyObject *object, const char *name,
                   struct mcp_views *keys_out);
bool mcp_args_values(struct mcp_args *args, PyObject *object, const char *name,
                     struct mcp_views *values_out);

/* Numbers: a list or tuple of int, an array, a memoryview or an array of numpy
 * of an integer type, or any sequence. */
struct mcp_ints {
    uint64_t *at;
    size_t count;
};
bool mcp_args_ints(struct mcp_args *args, PyObject *object, const char *name,
                   struct mcp_ints *ints_out);
/* The same by row: a sequence of the above, or an array of two dimensions. */
struct mcp_int_rows {
    struct mcp_ints *at;
    size_t count;
};
bool mcp_args_int_rows(struct mcp_args *args, PyObject *object,
                       const char *name, struct mcp_int_rows *rows_out);
/* A sequence as a tuple that is held; borrowed. NULL with an exception; str and
 * bytes are no sequences here. */
PyObject *mcp_args_tuple(struct mcp_args *args, PyObject *object,
                         const char *name);

/* ReplicateConfig or None, which gives NULL. */
bool mcp_args_config(struct mcp_args *args, PyObject *object,
                     const struct mc_replicate_config **config_out);

/* ---- answers ---------------------------------------------------------------- */

/* A list of int. */
PyObject *mcp_results(const int64_t *results, size_t count);
/* A list of one number, so many times. */
PyObject *mcp_results_all(size_t count, int64_t result);
/* Room for the results of a call. */
int64_t *mcp_args_results(struct mcp_args *args, size_t count);
#endif
