/* SPDX-License-Identifier: Apache-2.0 */
/* events_py.h - mckv._events: the subscriber and the session index for Python.
 *
 * Nothing of Python is called by the library: what it delivers is taken from it and
 * made into objects here. Whoever waits does so without the interpreter's lock. A
 * lock of these objects is never waited for with the interpreter's lock held, which
 * may be taken while one of them is held.
 * Threads: functions with the interpreter's lock held, unless they say otherwise.
 */
#ifndef MCP_EVENTS_H
#define MCP_EVENTS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mc_index.h"
#include "mc_subscriber.h"
#include "numbers.h"

/* How often this process is a child of a fork. */
uint64_t mcp_event_forks(void);
/* RuntimeError for an object that was made before a fork. */
bool mcp_event_is_ours(uint64_t forks);
/* An exception for a code; answers NULL. */
PyObject *mcp_event_fail(enum mc_err err, const char *what);

/* Waits for a mutex without the interpreter's lock. */
void mcp_mutex_enter(pthread_mutex_t *lock);

/* Between the two no garbage is collected: where a lock of ours is held while
 * objects are made, what is collected could be something that ends by taking it.
 * The interpreter's lock is kept from the first to the second, so that no other
 * thread sees that, or turns collecting off or on meanwhile; they do not nest.
 * (From 3.12 on objects are made without that.) */
void mcp_collecting_stop(void);
void mcp_collecting_go_on(void);

/* ---- values (events_values.c) ---------------------------------------------- */

/* str, or None for a view that is none. */
PyObject *mcp_text(struct mc_view view);
/* A str or None as a view, borrowed from the object. */
bool mcp_view(PyObject *object, const char *name, struct mc_view *view_out);
/* The same, not None; an empty one is fine. */
bool mcp_view_needed(PyObject *object, const char *name,
                     struct mc_view *view_out);
/* PyArg converters to struct mc_view: str; str or None. */
int mcp_view_of_str(PyObject *object, void *view_out);
int mcp_view_of_str_or_none(PyObject *object, void *view_out);
/* "device" ... */
bool mcp_tier(PyObject *object, enum mc_tier *tier_out);

/* Hashes: a list of int, or a buffer of 64-bit integers of either sign. Freed with
 * PyMem_Free. */
struct mcp_hashes {
    uint64_t *at;
    size_t count;
};
bool mcp_hashes(PyObject *object, struct mcp_hashes *hashes_out);
PyObject *mcp_hash_list(const uint64_t *hashes, size_t count);
/* Seconds, None for ever: milliseconds, -1 for ever. */
bool mcp_timeout(PyObject *object, int *timeout_ms_out);

/* Named tuples, made with the module. */
enum mcp_row {
    MCP_ROW_EVENT,
    MCP_ROW_ENGINE,
    MCP_ROW_SIGNAL,
    MCP_ROW_MIRROR,
    MCP_ROW_PLACE,
    MCP_ROW_WORKER,
    MCP_ROW_MATCH,
    MCP_ROW_SESSION,
    MCP_ROW_TENANT,
    MCP_ROW_COUNT
};
bool mcp_rows_add(PyObject *module);
/* Begins one; its fields are set in order, each reference is taken. A field that is
 * NULL makes the row fail: mcp_row_end drops it and answers NULL. */
struct mcp_row_maker {
    PyObject *row;
    Py_ssize_t next;
    bool failed;
};
struct mcp_row_maker mcp_row_begin(enum mcp_row kind);
void mcp_row_add(struct mcp_row_maker *maker, PyObject *field);
PyObject *mcp_row_end(struct mcp_row_maker *maker);

/* A source of a dictionary, with room for MC_PUBLISHER_PLACES_MAX others; false with
 * an exception. */
bool mcp_source_read(PyObject *dict, struct mc_publisher_place *places,
                     struct mc_source_opts *source);

/* ---- what is delivered (events_items.c) -------------------------------------- */

PyObject *mcp_event_of(const struct mc_delivery *delivery);
PyObject *mcp_signal_of(const struct mc_signal *signal);
PyObject *mcp_source_stats_of(const struct mc_source_stats *stats);

/* ---- an index ------------------------------------------------------------------ */

#define MCP_READERS 64

struct mcp_index {
    PyObject_HEAD struct mc_index *index;
    pthread_mutex_t writing; /* one at a time */
    uint64_t forks;
    /* By the interpreter's lock. */
    struct mc_index_reader *idle[MCP_READERS];
    unsigned idle_count;
    PyObject *layout;
    PyObject *prefix;
};
extern PyTypeObject mcp_index_type;
extern PyMethodDef mcp_index_questions[];
struct mc_index_reader *mcp_reader_take(struct mcp_index *self);
void mcp_reader_give(struct mcp_index *self, struct mc_index_reader *reader);

/* ---- a subscriber ---------------------------------------------------------------- */

#define MCP_SIGNALS 1024

struct mcp_signals {
    struct mc_signal at[MCP_SIGNALS];
    unsigned first;
    unsigned count;
    uint64_t dropped;
};

struct mcp_subscriber {
    PyObject_HEAD pthread_mutex_t
        lock; /* the polling thread of the library is who holds it */
    pthread_cond_t changed;
    struct mc_subscriber *subscriber; /* NULL: closed; guarded by lock */
    unsigned inside;                  /* threads in a call; guarded by lock */
    bool is_closing;                  /* guarded by lock */
    int wake_fd;                      /* readable: look at the flags */
    struct mcp_index *index;          /* or NULL */
    uint32_t source_count;
    uint64_t forks;
    pthread_t follower;
    bool is_following; /* guarded by lock; nobody else polls meanwhile */
    bool is_stopping;
    struct mcp_signals *signals;    /* of the follower; guarded by lock */
    PyObject *taken;                /* a list, while something is injected */
    struct mc_subscriber_item kept; /* taken from the library, and not told yet;
                                       guarded by lock, borrowed until the next
                                       message */
    bool has_kept;
    PyObject *weak_refs;
};
extern PyTypeObject mcp_subscriber_type;
extern PyMethodDef mcp_subscriber_following[];

/* Without the interpreter's lock; false: closed. Every enter that answers true ends
 * with leave. */
bool mcp_subscriber_enter(struct mcp_subscriber *self);
void mcp_subscriber_leave(struct mcp_subscriber *self);
/* ValueError: closed, or followed by a thread. */
PyObject *mcp_subscriber_closed(void);
PyObject *mcp_subscriber_close(struct mcp_subscriber *self);
/* With lock: the index is written by whoever holds this. */
void mcp_index_lock(struct mcp_index *index);
void mcp_index_unlock(struct mcp_index *index);
void mcp_subscriber_on_signal(void *ctx, const struct mc_signal *signal);
void mcp_subscriber_on_event(void *ctx, const struct mc_delivery *delivery);
/* Sleeps until there is something to deliver, somebody wakes it or the time is
 * over; without any lock. */
void mcp_subscriber_sleep(struct mcp_subscriber *self, int timeout_ms);
#endif
