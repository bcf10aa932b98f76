/* SPDX-License-Identifier: Apache-2.0 */
/* events_subscriber.c - Subscriber: its life, and taking what it delivers.
 *
 * The library wants one polling thread; here that is whoever holds `lock`. Nobody
 * holds it while waiting: all sleep on the library's descriptor and on one of our
 * own, by which close wakes them. Closing waits until nobody is inside.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "events_py.h"

/* Signals of the operating system are looked for this often, should they have come
 * to another thread. */
#define SLEEP_MS 200

/* ---- who is inside ----------------------------------------------------------------- */

bool mcp_subscriber_enter(struct mcp_subscriber *self)
{
    (void)pthread_mutex_lock(&self->lock);
    bool is_open = self->subscriber && !self->is_closing;
    self->inside += is_open;
    (void)pthread_mutex_unlock(&self->lock);
    return is_open;
}

void mcp_subscriber_leave(struct mcp_subscriber *self)
{
    (void)pthread_mutex_lock(&self->lock);
    self->inside--;
    (void)pthread_cond_broadcast(&self->changed);
    (void)pthread_mutex_unlock(&self->lock);
}

PyObject *mcp_subscriber_closed(void)
{
    PyErr_SetString(PyExc_ValueError, "the subscriber is closed");
    return NULL;
}

void mcp_subscriber_sleep(struct mcp_subscriber *self, int timeout_ms)
{
    struct pollfd fds[2] = {
        {.fd = mc_subscriber_fd(self->subscriber), .events = POLLIN},
        {.fd = self->wake_fd, .events = POLLIN}};
    (void)poll(fds, 2, timeout_ms);
}

/* ---- life ---------------------------------------------------------------------------- */

static bool open_subscriber(struct mcp_subscriber *self, PyObject *sources,
                            struct mc_subscriber_opts *opts)
{
    Py_ssize_t count = PyTuple_GET_SIZE(sources);
    struct mc_source_opts *rows = PyMem_Calloc((size_t)count + 1, sizeof *rows);
    struct mc_publisher_place *places = PyMem_Calloc(
        ((size_t)count + 1) * MC_PUBLISHER_PLACES_MAX, sizeof *places);
    bool is_read = rows && places;
    if (!is_read) {
        (void)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; is_read && i < count; i++) {
        is_read =
            mcp_source_read(PyTuple_GET_ITEM(sources, i),
                            &places[i * MC_PUBLISHER_PLACES_MAX], &rows[i]);
    }
    enum mc_err err = MC_OK;
    if (is_read) {
        opts->sources = rows;
        opts->source_count = (size_t)count;
        opts->index = self->index ? self->index->index : NULL;
        opts->on_event = mcp_subscriber_on_event;
        opts->on_signal = mcp_subscriber_on_signal;
        opts->ctx = self;
        self->source_count = (uint32_t)count;
        Py_BEGIN_ALLOW_THREADS err =
            mc_subscriber_open(opts, &self->subscriber);
        Py_END_ALLOW_THREADS if (err != MC_OK)
        {
            (void)mcp_event_fail(err, "Subscriber");
        }
    }
    PyMem_Free(rows);
    PyMem_Free(places);
    return is_read && err == MC_OK;
}

static bool init_locks(struct mcp_subscriber *self)
{
    (void)pthread_mutex_init(&self->lock, NULL);
    (void)pthread_cond_init(&self->changed, NULL);
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->signals = PyMem_Calloc(1, sizeof *self->signals);
    if (self->wake_fd < 0 || !self->signals) {
        (void)PyErr_NoMemory();
        return false;
    }
    return true;
}

static PyObject *subscriber_new(PyTypeObject *type, PyObject *args,
                                PyObject *kwargs)
{
    static char *names[] = {"sources",
                            "index",
                            "no_mirror",
                            "max_queue_bytes",
                            "max_mirror_entries",
                            "max_message_events",
                            "recovery_patience_ms",
                            NULL};
    PyObject *sources = NULL;
    PyObject *index = Py_None;
    int no_mirror = 0;
    struct mc_subscriber_opts opts = {.no_mirror = false};
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O!|OpO&O&O&O&:Subscriber", names, &PyTuple_Type,
            &sources, &index, &no_mirror, mcp_u64_of, &opts.max_queue_bytes,
            mcp_u64_of, &opts.max_mirror_entries, mcp_u32_of,
            &opts.max_message_events, mcp_u32_of, &opts.recovery_patience_ms)) {
        return NULL;
    }
    opts.no_mirror = no_mirror != 0;
    if (index != Py_None && !PyObject_TypeCheck(index, &mcp_index_type)) {
        PyErr_SetString(PyExc_TypeError, "index: an Index or None");
        return NULL;
    }
    struct mcp_subscriber *self =
        (struct mcp_subscriber *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->wake_fd = -1;
    self->forks = mcp_event_forks();
    if (index != Py_None) {
        Py_INCREF(index);
        self->index = (struct mcp_index *)index;
    }
    if ((self->index && !mcp_event_is_ours(self->index->forks)) ||
        !init_locks(self) || !open_subscriber(self, sources, &opts)) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void wake(struct mcp_subscriber *self)
{
    const uint64_t one = 1;
    (void)!write(self->wake_fd, &one, sizeof one);
}

/* Without the interpreter's lock. Who closes second waits for the first. */
static void close_now(struct mcp_subscriber *self)
{
    (void)pthread_mutex_lock(&self->lock);
    /* Somebody who stops it already joins it too. */
    bool is_ours = self->is_following && !self->is_stopping;
    self->is_closing = true;
    self->is_stopping = true;
    wake(self);
    (void)pthread_mutex_unlock(&self->lock);
    if (is_ours) {
        (void)pthread_join(self->follower, NULL);
    }
    (void)pthread_mutex_lock(&self->lock);
    if (is_ours) {
        self->is_following = false;
        (void)pthread_cond_broadcast(&self->changed);
    }
    while (self->inside > 0 || self->is_following) {
        (void)pthread_cond_wait(&self->changed, &self->lock);
    }
    struct mc_subscriber *subscriber = self->subscriber;
    self->subscriber = NULL;
    mcp_index_lock(self->index);
    mc_subscriber_close(subscriber);
    mcp_index_unlock(self->index);
    (void)pthread_mutex_unlock(&self->lock);
}

PyObject *mcp_subscriber_close(struct mcp_subscriber *self)
{
    if (self->forks == mcp_event_forks()) {
        Py_BEGIN_ALLOW_THREADS close_now(self);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyObject *close_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    return mcp_subscriber_close((struct mcp_subscriber *)object);
}

static void subscriber_free(PyObject *object)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    if (self->weak_refs) {
        PyObject_ClearWeakRefs(object);
    }
    if (self->forks == mcp_event_forks() && self->signals) {
        PyErr_Fetch(&type, &value, &trace);
        Py_XDECREF(mcp_subscriber_close(self));
        PyErr_Restore(type, value, trace);
        (void)pthread_cond_destroy(&self->changed);
        (void)pthread_mutex_destroy(&self->lock);
    }
    if (self->wake_fd >= 0) {
        (void)close(self->wake_fd);
    }
    PyMem_Free(self->signals);
    Py_XDECREF(self->index);
    Py_TYPE(object)->tp_free(object);
}

/* ---- taking --------------------------------------------------------------------------- */

static PyObject *item_of(const struct mc_subscriber_item *item)
{
    return item->delivery ? mcp_event_of(item->delivery)
                          : mcp_signal_of(item->signal);
}

enum taking { TAKE_NONE, TAKE_SOME, TAKE_CLOSED, TAKE_FOLLOWED, TAKE_FAILED };

/* The next one, or the one that no object could be made of the last time. */
static enum mc_err next_item(struct mcp_subscriber *self,
                             struct mc_subscriber_item *item)
{
    if (self->has_kept) {
        *item = self->kept;
        self->has_kept = false;
        return MC_OK;
    }
    return mc_subscriber_next(self->subscriber, 0, item);
}

/* Without memory for it the item waits, and nothing is passed over. */
static bool add_item(struct mcp_subscriber *self, PyObject *list,
                     const struct mc_subscriber_item *item)
{
    PyObject *made = item_of(item);
    bool is_added = made && PyList_Append(list, made) == 0;
    Py_XDECREF(made);
    if (!is_added) {
        self->kept = *item;
        self->has_kept = true;
    }
    return is_added;
}

/* Takes what is there, up to most of them, into the list. The locks are taken
 * without the interpreter's lock, the objects made with it. */
static enum taking take(struct mcp_subscriber *self, PyObject *list,
                        size_t most)
{
    struct mc_subscriber_item item;
    enum taking taking = TAKE_NONE;
    PyThreadState *state = PyEval_SaveThread();
    (void)pthread_mutex_lock(&self->lock);
    if (self->is_closing || self->is_following) {
        taking = self->is_closing ? TAKE_CLOSED : TAKE_FOLLOWED;
        (void)pthread_mutex_unlock(&self->lock);
        PyEval_RestoreThread(state);
        return taking;
    }
    mcp_index_lock(self->index);
    enum mc_err err = next_item(self, &item);
    PyEval_RestoreThread(state);
    mcp_collecting_stop();
    for (size_t count = 0; err == MC_OK; count++) {
        if (!add_item(self, list, &item)) {
            if (count > 0) {
                PyErr_Clear(); /* those that there are come first */
            }
            taking = count > 0 ? TAKE_SOME : TAKE_FAILED;
            break;
        }
        taking = TAKE_SOME;
        if (count + 1 >= most) {
            break;
        }
        err = next_item(self, &item);
    }
    mcp_index_unlock(self->index);
    (void)pthread_mutex_unlock(&self->lock);
    mcp_collecting_go_on();
    if (err != MC_OK && err != MC_ERR_RPC_TIMEOUT) {
        (void)mcp_event_fail(err, "next");
        taking = TAKE_FAILED;
    }
    return taking;
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits for the first, then takes up to most. */
static enum taking wait_and_take(struct mcp_subscriber *self, PyObject *list,
                                 int timeout_ms, size_t most)
{
    const int64_t end = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
    for (;;) {
        enum taking taking = take(self, list, most);
        int64_t left =
            timeout_ms == 0 ? 0 : end - (end == INT64_MAX ? 0 : now_ms());
        if (taking != TAKE_NONE || left <= 0) {
            return taking;
        }
        Py_BEGIN_ALLOW_THREADS mcp_subscriber_sleep(
            self, left < SLEEP_MS ? (int)left : SLEEP_MS);
        Py_END_ALLOW_THREADS if (PyErr_CheckSignals() != 0)
        {
            return TAKE_FAILED;
        }
    }
}

/* Enters for as long as it takes. */
static enum taking take_inside(struct mcp_subscriber *self, PyObject *list,
                               int timeout_ms, size_t most)
{
    bool is_inside = false;
    if (!mcp_event_is_ours(self->forks)) {
        return TAKE_FAILED;
    }
    Py_BEGIN_ALLOW_THREADS is_inside = mcp_subscriber_enter(self);
    Py_END_ALLOW_THREADS if (!is_inside)
    {
        return TAKE_CLOSED;
    }
    enum taking taking = wait_and_take(self, list, timeout_ms, most);
    Py_BEGIN_ALLOW_THREADS mcp_subscriber_leave(self);
    Py_END_ALLOW_THREADS if (taking == TAKE_FOLLOWED)
    {
        PyErr_SetString(PyExc_RuntimeError,
                        "a thread follows: its events are not to be had");
        taking = TAKE_FAILED;
    }
    return taking;
}

static PyObject *poll_method(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", "max_items", NULL};
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    PyObject *timeout = NULL;
    Py_ssize_t most = 1024;
    int timeout_ms = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|On:poll", names, &timeout,
                                     &most) ||
        !mcp_timeout(timeout, &timeout_ms)) {
        return NULL;
    }
    if (most < 1) {
        PyErr_SetString(PyExc_ValueError, "max_items: at least 1");
        return NULL;
    }
    PyObject *list = PyList_New(0);
    enum taking taking =
        list ? take_inside(self, list, timeout_ms, (size_t)most) : TAKE_FAILED;
    if (taking == TAKE_CLOSED) {
        (void)mcp_subscriber_closed();
    }
    if (taking == TAKE_CLOSED || taking == TAKE_FAILED) {
        Py_CLEAR(list);
    }
    return list;
}

/* ---- the type -------------------------------------------------------------------------- */

static PyObject *fileno_method(PyObject *object, PyObject *unused)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    (void)unused;
    if (!mcp_event_is_ours(self->forks)) {
        return NULL;
    }
    mcp_mutex_enter(&self->lock);
    int fd = self->subscriber && !self->is_closing
                 ? mc_subscriber_fd(self->subscriber)
                 : -1;
    (void)pthread_mutex_unlock(&self->lock);
    return fd < 0 ? mcp_subscriber_closed() : PyLong_FromLong(fd);
}

static PyObject *get_closed(PyObject *object, void *unused)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    (void)unused;
    if (self->forks != mcp_event_forks()) {
        Py_RETURN_TRUE;
    }
    mcp_mutex_enter(&self->lock);
    bool is_closed = self->is_closing;
    (void)pthread_mutex_unlock(&self->lock);
    return PyBool_FromLong(is_closed);
}

static PyObject *get_index(PyObject *object, void *unused)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    (void)unused;
    PyObject *index = self->index ? (PyObject *)self->index : Py_None;
    Py_INCREF(index);
    return index;
}

static PyObject *get_source_count(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(
        ((struct mcp_subscriber *)object)->source_count);
}

static PyMethodDef own[] = {
    {"close", close_method, METH_NOARGS,
     "close($self, /)\n--\n\nStops, and wakes who waits; what was not "
     "delivered is "
     "not. Fine twice,\nand from any thread."},
    {"poll", (PyCFunction)(void (*)(void))poll_method,
     METH_VARARGS | METH_KEYWORDS,
     "poll($self, /, timeout=None, max_items=1024)\n--\n\nThe next events and "
     "signals, in order: waits up to timeout seconds (None:\nfor ever) for the "
     "first, and answers what is there by then, [] for nothing.\nValueError: "
     "closed, "
     "also meanwhile."},
    {"fileno", fileno_method, METH_NOARGS,
     "fileno($self, /)\n--\n\nReadable while poll() has something to answer, "
     "but for an item that memory\nwas short for: that comes with the next "
     "call."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef members[] = {
    {"closed", get_closed, NULL, "whether close() was called", NULL},
    {"index", get_index, NULL, "the Index that it feeds, or None", NULL},
    {"source_count", get_source_count, NULL, "publishers in its list", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* Following is a family of its own. */
static PyTypeObject following_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._events._Following",
    .tp_basicsize = sizeof(struct mcp_subscriber),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_methods = mcp_subscriber_following,
    .tp_weaklistoffset = offsetof(struct mcp_subscriber, weak_refs)};

PyTypeObject mcp_subscriber_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._events.Subscriber",
    .tp_doc = "Follows publishers; mckv.events has it as one wants it.",
    .tp_basicsize = sizeof(struct mcp_subscriber),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_base = &following_type,
    .tp_new = subscriber_new,
    .tp_dealloc = subscriber_free,
    .tp_methods = own,
    .tp_getset = members};
