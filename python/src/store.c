/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - the life of a store: who may use it, and how it ends. */
#include "async.h"

#include <stdatomic.h>
#include <time.h>

#define EXIT_WAIT_MS 5000
#define NS_PER_MS 1000000

/* Of the interpreter: all stores. By its lock. */
static struct mcp_store *all_stores;

/* ---- forks -------------------------------------------------------------------- */

static _Atomic uint64_t forks;

static void count_fork(void)
{
    (void)atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

uint64_t mcp_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    return atomic_load(&forks);
}

/* The child has no threads, and a lock may be held by one that it has not. */
static bool is_of_parent(const struct mcp_store *store)
{
    return store->forks != mcp_forks();
}

/* ---- calls -------------------------------------------------------------------- */

int mcp_store_enter(struct mcp_store *store, struct mc_client **client_out)
{
    if (is_of_parent(store)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    (void)pthread_mutex_lock(&store->lock);
    bool may_enter = store->client && !store->is_busy;
    if (may_enter) {
        store->inside++;
        *client_out = store->client;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return may_enter ? 0 : MCP_NOT_SET_UP;
}

void mcp_store_leave(struct mcp_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    store->inside--;
    if (store->is_busy && store->inside == 0) {
        (void)pthread_cond_broadcast(&store->changed);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

/* ---- opening ------------------------------------------------------------------- */

static uint64_t or_none(uint64_t bytes)
{
    return bytes > 0 ? bytes : MC_NONE;
}

static bool read_port(PyObject *object, struct mc_client_opts *opts)
{
    uint32_t port = 0;
    if (!mcp_args_u32(object, "client_http_port", &port)) {
        return false;
    }
    if (port >= UINT16_MAX) {
        PyErr_SetString(PyExc_ValueError, "client_http_port: not a port");
        return false;
    }
    opts->http_port = port ? (uint16_t)port : MC_HTTP_ANY;
    return true;
}

static const char *unless_empty(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

/* The strings are those of the call's own arguments. */
static bool read_opts(PyObject *args, struct mc_client_opts *opts)
{
    const char *hostname = NULL;
    const char *metadata = NULL;
    const char *protocol = NULL;
    const char *tenant = NULL;
    const char *transport = NULL;
    PyObject *segment = NULL;
    PyObject *local = NULL;
    PyObject *port = NULL;
    int with_http = 0;
    int any_memory = 0;
    if (!PyArg_ParseTuple(args, "ssOOsssspOp:open", &hostname, &metadata,
                          &segment, &local, &protocol, &opts->master, &tenant,
                          &transport, &with_http, &port, &any_memory)) {
        return false;
    }
    if (!mcp_args_u64(segment, "global_segment_size", &opts->segment_bytes) ||
        !mcp_args_u64(local, "local_buffer_size", &opts->local_buffer_bytes) ||
        !read_port(port, opts)) {
        return false;
    }
    opts->segment_bytes = or_none(opts->segment_bytes);
    opts->local_buffer_bytes = or_none(opts->local_buffer_bytes);
    opts->local_hostname = unless_empty(hostname);
    opts->metadata_server = unless_empty(metadata);
    opts->protocol = unless_empty(protocol);
    opts->tenant = unless_empty(tenant);
    opts->transport = unless_empty(transport);
    opts->with_http = with_http != 0;
    opts->any_memory = any_memory != 0;
    return true;
}

static int claim(struct mcp_store *store)
{
    if (is_of_parent(store)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    (void)pthread_mutex_lock(&store->lock);
    bool is_free = !store->client && !store->is_busy;
    store->is_busy = store->is_busy || is_free;
    (void)pthread_mutex_unlock(&store->lock);
    return is_free ? 0 : MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
}

PyObject *mcp_store_open(struct mcp_store *store, PyObject *args)
{
    struct mc_client_opts opts = {.master = NULL};
    if (!read_opts(args, &opts)) {
        return NULL;
    }
    int code = claim(store);
    if (code == 0) {
        struct mc_client *client = NULL;
        Py_BEGIN_ALLOW_THREADS code = mc_client_open(&opts, &client);
        (void)pthread_mutex_lock(&store->lock);
        store->client = client;
        store->is_busy = false;
        (void)pthread_cond_broadcast(&store->changed);
        (void)pthread_mutex_unlock(&store->lock);
        Py_END_ALLOW_THREADS
    }
    return PyLong_FromLong(code);
}

/* ---- closing ------------------------------------------------------------------- */

static void deadline_in(unsigned wait_ms, struct timespec *until)
{
    (void)clock_gettime(CLOCK_MONOTONIC, until);
    until->tv_sec += (time_t)(wait_ms / 1000);
    until->tv_nsec += (long)(wait_ms % 1000) * NS_PER_MS;
    if (until->tv_nsec >= 1000L * NS_PER_MS) {
        until->tv_nsec -= 1000L * NS_PER_MS;
        until->tv_sec++;
    }
}

/* With the lock held; false: the time was over first. */
static bool wait_empty(struct mcp_store *store, unsigned wait_ms)
{
    struct timespec until;
    deadline_in(wait_ms, &until);
    while (store->inside > 0) {
        int status =
            wait_ms > 0
                ? pthread_cond_timedwait(&store->changed, &store->lock, &until)
                : pthread_cond_wait(&store->changed, &store->lock);
        if (status != 0) {
            return store->inside == 0;
        }
    }
    return true;
}

/* Nobody is inside, so no queue comes. The lock of the store is the last thing of
 * theirs that is touched here: after that they may go. */
static void end_queues(struct mcp_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    while (store->queues) {
        struct mcp_queue *queue = store->queues;
        store->queues = queue->next;
        (void)pthread_mutex_unlock(&store->lock);
        mcp_queue_end(queue);
        (void)pthread_mutex_lock(&store->lock);
        queue->is_kept = false;
        (void)pthread_cond_broadcast(&store->changed);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void mcp_store_keep_queue(struct mcp_store *store, struct mcp_queue *queue)
{
    (void)pthread_mutex_lock(&store->lock);
    queue->is_kept = true;
    queue->next = store->queues;
    store->queues = queue;
    (void)pthread_mutex_unlock(&store->lock);
}

void mcp_store_forget_queue(struct mcp_store *store, struct mcp_queue *queue)
{
    (void)pthread_mutex_lock(&store->lock);
    struct mcp_queue **link = &store->queues;
    while (*link && *link != queue) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = queue->next;
        queue->is_kept = false;
    }
    while (queue->is_kept) {
        (void)pthread_cond_wait(&store->changed, &store->lock);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

/* Who closes second waits for the first. */
static int close_client(struct mcp_store *store, unsigned wait_ms)
{
    (void)pthread_mutex_lock(&store->lock);
    while (store->is_busy && wait_ms == 0) {
        (void)pthread_cond_wait(&store->changed, &store->lock);
    }
    struct mc_client *client = store->is_busy ? NULL : store->client;
    if (!client) {
        (void)pthread_mutex_unlock(&store->lock);
        return 0;
    }
    store->is_busy = true;
    bool is_empty = wait_empty(store, wait_ms);
    store->client = NULL;
    (void)pthread_mutex_unlock(&store->lock);
    if (is_empty) {
        end_queues(store);
        mc_client_close(client);
        mcp_mappings_drop(store);
    }
    (void)pthread_mutex_lock(&store->lock);
    store->is_busy = false;
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->lock);
    return is_empty ? 0 : MC_ERR_RPC_TIMEOUT;
}

int mcp_store_close(struct mcp_store *store, unsigned wait_ms)
{
    int code = MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    if (!is_of_parent(store)) {
        Py_BEGIN_ALLOW_THREADS code = close_client(store, wait_ms);
        Py_END_ALLOW_THREADS
    }
    return code;
}

/* One after the other: the list may change while one is being closed. */
void mcp_stores_close_all(void)
{
    bool is_found = true;
    while (is_found) {
        is_found = false;
        for (struct mcp_store *store = all_stores; store; store = store->next) {
            if (!is_of_parent(store) && store->client && !store->is_busy) {
                Py_INCREF(store);
                (void)mcp_store_close(store, EXIT_WAIT_MS);
                Py_DECREF(store);
                is_found = true;
                break;
            }
        }
    }
}

/* ---- the object ------------------------------------------------------------------ */

static bool init_lock(struct mcp_store *store)
{
    pthread_condattr_t attr;
    if (pthread_mutex_init(&store->lock, NULL) != 0) {
        return false;
    }
    bool is_made = pthread_condattr_init(&attr) == 0;
    if (is_made) {
        is_made = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
                  pthread_cond_init(&store->changed, &attr) == 0;
        (void)pthread_condattr_destroy(&attr);
    }
    if (!is_made) {
        (void)pthread_mutex_destroy(&store->lock);
    }
    return is_made;
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    struct mcp_store *store = (struct mcp_store *)type->tp_alloc(type, 0);
    if (!store) {
        return NULL;
    }
    store->next = all_stores;
    if (all_stores) {
        all_stores->before = store;
    }
    all_stores = store;
    store->forks = mcp_forks();
    if (!init_lock(store)) {
        store->forks = UINT64_MAX; /* as if of somebody else: nothing to end */
        Py_DECREF(store);
        return PyErr_NoMemory();
    }
    return (PyObject *)store;
}

static void take_out(struct mcp_store *store)
{
    if (store->next) {
        store->next->before = store->before;
    }
    if (store->before) {
        store->before->next = store->next;
    } else {
        all_stores = store->next;
    }
}

/* Nobody is inside: a call holds its store. */
static void store_free(PyObject *object)
{
    struct mcp_store *store = (struct mcp_store *)object;
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    take_out(store);
    if (store->weak_refs) {
        PyObject_ClearWeakRefs(object);
    }
    if (!is_of_parent(store)) {
        PyErr_Fetch(&type, &value, &trace);
        (void)mcp_store_close(store, 0);
        PyErr_Restore(type, value, trace);
        if (!store->client) {
            (void)pthread_cond_destroy(&store->changed);
            (void)pthread_mutex_destroy(&store->lock);
        }
    }
    Py_TYPE(object)->tp_free(object);
}

PyTypeObject mcp_store_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._store.Store",
    .tp_doc = "A client of a store; mckv.store has it with all its calls.",
    .tp_basicsize = sizeof(struct mcp_store),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = store_new,
    .tp_dealloc = store_free,
    .tp_methods = mcp_store_methods,
    .tp_weaklistoffset = offsetof(struct mcp_store, weak_refs)};
