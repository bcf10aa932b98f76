/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the type Store: a client of the library that may be used and closed
 * by any thread at any time.
 *
 * A call enters, moves its bytes without the interpreter's lock, and leaves; who
 * closes waits for those inside. A store that is not set up, or closed, lets
 * nobody in and answers MCP_NOT_SET_UP; after a fork the child gets
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS. At the interpreter's exit what is open is
 * closed.
 * Threads: functions with the interpreter's lock held, but leave.
 */
#ifndef MCP_STORE_H
#define MCP_STORE_H
#include <pthread.h>

#include "args.h"

#define MCP_NOT_SET_UP MC_ERR_INVALID_PARAMS

struct mcp_mapping;
struct mcp_queue;

struct mcp_store {
    PyObject_HEAD pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mc_client *client; /* NULL: not set up; guarded by lock */
    unsigned inside;          /* calls; guarded by lock */
    bool is_busy;             /* being opened or closed; guarded by lock */
    uint64_t forks;           /* as counted when it was made */
    struct mcp_store *next;   /* of all there are; by the interpreter's lock */
    struct mcp_store *before;
    struct mcp_mapping *mappings; /* mounted files; guarded by lock */
    struct mcp_queue *queues;     /* that are open; guarded by lock */
    PyObject *weak_refs;
};

extern PyTypeObject mcp_store_type;
extern PyTypeObject mcp_buffer_type;
extern PyTypeObject mcp_lease_type;
extern PyTypeObject mcp_block_type;
extern PyTypeObject mcp_queue_type;
extern PyMethodDef mcp_store_methods[];

/* How often this process is a child of a fork. */
uint64_t mcp_forks(void);

/* 0, and a client to use until leave; or a code. */
int mcp_store_enter(struct mcp_store *store, struct mc_client **client_out);
/* Also without the interpreter's lock. */
void mcp_store_leave(struct mcp_store *store);

/* 0, also if it was closed before; or a code. Waits for calls inside, at most so
 * long (0: as they take): then it answers -901 and the store stays closed for
 * all, but its client is left to the end of the process. */
int mcp_store_close(struct mcp_store *store, unsigned wait_ms);
/* What is open when the interpreter ends. */
void mcp_stores_close_all(void);

/* A call of the library on the client of a store: CODE gets its answer. */
#define MCP_STORE_CALL(STORE, CODE, CALL)           \
    do {                                            \
        struct mc_client *client = NULL;            \
        (CODE) = mcp_store_enter((STORE), &client); \
        if ((CODE) == 0) {                          \
            Py_BEGIN_ALLOW_THREADS(CODE) = (CALL);  \
            mcp_store_leave(STORE);                 \
            Py_END_ALLOW_THREADS                    \
        }                                           \
    } while (0)

/* Frees the arguments and makes an int of a code; NULL if an exception is set. */
PyObject *mcp_answer(struct mcp_args *args, bool is_read, int64_t code);
/* The same of a list: results, or its one code for all. */
PyObject *mcp_answer_list(struct mcp_args *args, bool is_read, int code,
                          const int64_t *results, size_t count);

/* What get_batch() read: per key its bytes, which are whoever's asked, or a code
 * below 0 and no bytes. Of the arguments. */
struct mcp_rows {
    struct mcp_views keys;
    struct mc_span *spans;
    int64_t *results;
};
/* Reads the objects that "keys" names; false with an exception set. */
bool mcp_get_rows(PyObject *self, PyObject *arguments, PyObject *keywords,
                  struct mcp_args *args, struct mcp_rows *rows);

/* ---- a buffer --------------------------------------------------------------- */

/* Memory of the store's local buffer, which is given back with the object; held, one
 * count of it, is the object's, also on failure: the bytes are there as long as
 * somebody looks at them, whoever closes the store. */
PyObject *mcp_buffer_new(struct mcp_store *store, struct mc_buffer *buffer,
                         struct mc_local_buffer *held);
/* Whether a client is the one whose local buffer is held: a store may have been set
 * up again since. */
bool mcp_is_of_client(struct mc_client *client, struct mc_local_buffer *held);
/* Takes what the library made, also on failure. */
PyObject *mcp_block_new(void *data, size_t len);
/* Queues end before their store does. Keep: from inside. Forget: waits while
 * the store ends it; without the interpreter's lock, as end. */
void mcp_store_keep_queue(struct mcp_store *store, struct mcp_queue *queue);
void mcp_store_forget_queue(struct mcp_store *store, struct mcp_queue *queue);
void mcp_queue_end(struct mcp_queue *queue);
/* Mapped files; without the interpreter's lock, after the client is closed. */
void mcp_mappings_drop(struct mcp_store *store);
#endif
