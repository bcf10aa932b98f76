/* SPDX-License-Identifier: Apache-2.0 */
/* async.h - a queue of a store, and what is in it. */
#ifndef MCP_ASYNC_H
#define MCP_ASYNC_H
#include "mc_client_async.h"
#include "methods.h"

struct mcp_op;

struct mcp_queue {
    PyObject_HEAD struct mcp_store *store;
    struct mcp_queue *next; /* of the store; guarded by its lock */
    bool is_kept;         /* it is there, or being ended; guarded by its lock */
    pthread_mutex_t lock; /* held for what does not block */
    struct mc_async *async; /* NULL: it ends or has ended; guarded by lock */
    bool is_over;           /* nothing is under way; guarded by lock */
    int fd;                 /* of its eventfd, which it outlives */
    struct mcp_op *ops;     /* not taken yet; by the interpreter's lock */
};

struct mcp_op {
    PyObject_HEAD struct mcp_queue *queue; /* borrowed; NULL: it was taken */
    struct mcp_op *next;
    struct mcp_op *before;
    struct mc_async_op *op;
    struct mcp_args args;
    int64_t *rows; /* results, in args */
    size_t count;
    PyObject *results;
};

extern PyTypeObject mcp_op_type;

/* All but the head of the object. */
static inline void mcp_op_clear(struct mcp_op *op)
{
    op->queue = NULL;
    op->next = NULL;
    op->before = NULL;
    op->op = NULL;
    op->args = (struct mcp_args)MCP_ARGS_NONE;
    op->rows = NULL;
    op->count = 0;
    op->results = NULL;
}

static inline void mcp_queue_clear(struct mcp_queue *queue)
{
    queue->store = NULL;
    queue->next = NULL;
    queue->is_kept = false;
    queue->async = NULL;
    queue->is_over = false;
    queue->fd = -1;
    queue->ops = NULL;
}
#endif
