/* SPDX-License-Identifier: Apache-2.0 */
/* events_follow.c - a subscriber that is followed by a thread of its own, which
 * needs nothing of Python; what is injected; the mirror and the counters.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "events_py.h"

#define MESSAGES_AT_ONCE 64
#define FRAMES_MAX 64

/* ---- what the library calls: with the subscriber's lock -------------------------------- */

static void keep_signal(struct mcp_signals *signals,
                        const struct mc_signal *signal)
{
    if (signals->count == MCP_SIGNALS) {
        signals->first = (signals->first + 1) % MCP_SIGNALS;
        signals->count--;
        signals->dropped++;
    }
    signals->at[(signals->first + signals->count++) % MCP_SIGNALS] = *signal;
}

static void keep_item(struct mcp_subscriber *self, PyObject *item)
{
    if (item) {
        (void)PyList_Append(self->taken, item);
    }
    Py_XDECREF(item);
}

void mcp_subscriber_on_signal(void *ctx, const struct mc_signal *signal)
{
    struct mcp_subscriber *self = ctx;
    if (self->taken) {
        if (!PyErr_Occurred()) { /* else the call fails */
            keep_item(self, mcp_signal_of(signal));
        }
    } else if (self->is_following) {
        keep_signal(self->signals, signal);
    }
}

void mcp_subscriber_on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct mcp_subscriber *self = ctx;
    if (self->taken && !PyErr_Occurred()) {
        keep_item(self, mcp_event_of(delivery));
    }
}

/* What poll could not tell; it is gone with the next message. */
static void take_kept(struct mcp_subscriber *self)
{
    const struct mc_subscriber_item *item = &self->kept;
    if (self->has_kept && item->delivery) {
        mcp_subscriber_on_event(self, item->delivery);
    } else if (self->has_kept) {
        mcp_subscriber_on_signal(self, item->signal);
    }
    self->has_kept = false;
}

/* ---- following ----------------------------------------------------------------------------- */

static void *follow(void *ctx)
{
    struct mcp_subscriber *self = ctx;
    for (;;) {
        mcp_subscriber_sleep(self, -1);
        (void)pthread_mutex_lock(&self->lock);
        if (self->is_stopping) {
            (void)pthread_mutex_unlock(&self->lock);
            return NULL;
        }
        mcp_index_lock(self->index);
        /* In poll mode it fails for nothing but that. */
        (void)!mc_subscriber_poll(self->subscriber, 0, MESSAGES_AT_ONCE, NULL);
        mcp_index_unlock(self->index);
        (void)pthread_mutex_unlock(&self->lock);
    }
}

static PyObject *start(PyObject *object, PyObject *unused)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    (void)unused;
    if (!mcp_event_is_ours(self->forks)) {
        return NULL;
    }
    mcp_mutex_enter(&self->lock);
    bool is_open = self->subscriber && !self->is_closing;
    int status = 0;
    if (is_open && !self->is_following) {
        self->is_stopping = false;
        self->is_following = true;
        self->has_kept = false; /* events are not to be had from here on */
        status = pthread_create(&self->follower, NULL, follow, self);
        self->is_following = status == 0;
    }
    (void)pthread_mutex_unlock(&self->lock);
    if (!is_open) {
        return mcp_subscriber_closed();
    }
    if (status != 0) {
        PyErr_SetString(PyExc_RuntimeError, "no thread can be made");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Without the interpreter's lock. */
static void stop_now(struct mcp_subscriber *self)
{
    const uint64_t one = 1;
    uint64_t drained = 0;
    (void)pthread_mutex_lock(&self->lock);
    bool is_following = self->is_following && !self->is_stopping;
    self->is_stopping = self->is_stopping || is_following;
    (void)pthread_mutex_unlock(&self->lock);
    if (!is_following) {
        return;
    }
    (void)!write(self->wake_fd, &one, sizeof one);
    (void)pthread_join(self->follower, NULL);
    (void)pthread_mutex_lock(&self->lock);
    self->is_following = false;
    (void)pthread_cond_broadcast(&self->changed);
    if (!self->is_closing) {
        (void)!read(self->wake_fd, &drained, sizeof drained);
    }
    (void)pthread_mutex_unlock(&self->lock);
}

static PyObject *stop(PyObject *object, PyObject *unused)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    (void)unused;
    if (!mcp_event_is_ours(self->forks)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS stop_now(self);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* (signals, how many more were dropped). */
static PyObject *signals(PyObject *object, PyObject *unused)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    (void)unused;
    PyObject *list = mcp_event_is_ours(self->forks) ? PyList_New(0) : NULL;
    if (!list) {
        return NULL;
    }
    mcp_mutex_enter(&self->lock);
    mcp_collecting_stop();
    struct mcp_signals *kept = self->signals;
    for (unsigned i = 0; i < kept->count; i++) {
        PyObject *row =
            mcp_signal_of(&kept->at[(kept->first + i) % MCP_SIGNALS]);
        bool is_added = row && PyList_Append(list, row) == 0;
        Py_XDECREF(row);
        if (!is_added) {
            break;
        }
    }
    uint64_t dropped = kept->dropped;
    if (!PyErr_Occurred()) {
        kept->count = 0;
        kept->dropped = 0;
    }
    (void)pthread_mutex_unlock(&self->lock);
    mcp_collecting_go_on();
    if (PyErr_Occurred()) {
        Py_DECREF(list);
        return NULL;
    }
    return Py_BuildValue("NK", list, (unsigned long long)dropped);
}

/* ---- calls on the polling thread ----------------------------------------------------------- */

/* The subscriber's lock and the index's, with the interpreter's; false with an
 * exception: closed. */
static bool begin(struct mcp_subscriber *self)
{
    if (!mcp_event_is_ours(self->forks)) {
        return false;
    }
    mcp_mutex_enter(&self->lock);
    if (!self->subscriber || self->is_closing) {
        (void)pthread_mutex_unlock(&self->lock);
        (void)mcp_subscriber_closed();
        return false;
    }
    mcp_collecting_stop();
    return true;
}

static void end(struct mcp_subscriber *self)
{
    (void)pthread_mutex_unlock(&self->lock);
    mcp_collecting_go_on();
}

static bool read_frames(PyObject *items, struct mc_view *views)
{
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    if (count > FRAMES_MAX) {
        PyErr_SetString(PyExc_ValueError, "a message has at most 64 frames");
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        char *data = NULL;
        Py_ssize_t len = 0;
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(items, i), &data, &len) !=
            0) {
            return false;
        }
        views[i] = mc_view_make(data, (size_t)len);
    }
    return true;
}

static PyObject *inject_frames(struct mcp_subscriber *self, uint32_t source,
                               const struct mc_view *views, size_t count)
{
    if (!begin(self)) {
        return NULL;
    }
    if (self->is_following) {
        end(self);
        PyErr_SetString(PyExc_RuntimeError, "a thread follows");
        return NULL;
    }
    PyObject *taken = PyList_New(0);
    enum mc_err err = MC_ERR_NOMEM;
    if (taken) {
        mcp_collecting_go_on(); /* others run while this one waits */
        Py_BEGIN_ALLOW_THREADS mcp_index_lock(self->index);
        Py_END_ALLOW_THREADS mcp_collecting_stop();
        self->taken = taken;
        take_kept(self);
        err = mc_subscriber_inject(self->subscriber, source, views, count);
        self->taken = NULL;
        mcp_index_unlock(self->index);
    }
    end(self);
    if (err != MC_OK && !PyErr_Occurred()) {
        (void)mcp_event_fail(err, "inject");
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(taken);
    }
    return taken;
}

static PyObject *inject(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"frames", "source", NULL};
    struct mc_view views[FRAMES_MAX];
    PyObject *frames = NULL;
    uint32_t source = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O&:inject", names,
                                     &frames, mcp_u32_of, &source)) {
        return NULL;
    }
    PyObject *items = PySequence_Tuple(frames);
    PyObject *answer = NULL;
    if (items && read_frames(items, views)) {
        answer = inject_frames((struct mcp_subscriber *)object, source, views,
                               (size_t)PyTuple_GET_SIZE(items));
    }
    Py_XDECREF(items);
    return answer;
}

/* ---- the mirror ------------------------------------------------------------------------------- */

static PyObject *entry_of(const struct mc_mirror_entry *entry)
{
    struct mcp_row_maker row = mcp_row_begin(MCP_ROW_MIRROR);
    mcp_row_add(&row, mcp_text(entry->object_key));
    mcp_row_add(&row, mcp_text(entry->medium));
    mcp_row_add(&row, mcp_text(entry->tenant_id));
    mcp_row_add(&row, mcp_text(entry->session_id));
    mcp_row_add(&row, mcp_text(entry->group_id));
    mcp_row_add(&row, PyLong_FromUnsignedLongLong(entry->event_id));
    mcp_row_add(&row, PyLong_FromUnsignedLong(entry->source));
    return mcp_row_end(&row);
}

static bool add_entry(void *ctx, const struct mc_mirror_entry *entry)
{
    PyObject *row = entry_of(entry);
    bool is_added = row && PyList_Append(ctx, row) == 0;
    Py_XDECREF(row);
    return is_added;
}

static PyObject *mirror(PyObject *object, PyObject *unused)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    (void)unused;
    PyObject *list = PyList_New(0);
    if (!list || !begin(self)) {
        Py_XDECREF(list);
        return NULL;
    }
    mc_subscriber_mirror_walk(self->subscriber, add_entry, list);
    end(self);
    if (PyErr_Occurred()) {
        Py_CLEAR(list);
    }
    return list;
}

static PyObject *mirror_count(PyObject *object, PyObject *unused)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    (void)unused;
    if (!begin(self)) {
        return NULL;
    }
    size_t count = mc_subscriber_mirror_count(self->subscriber);
    end(self);
    return PyLong_FromSize_t(count);
}

static PyObject *lookup(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", "medium", "tenant", "source", NULL};
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    struct mc_view key;
    struct mc_view medium = mc_view_str("cpu");
    struct mc_view tenant = mc_view_str("default");
    uint32_t source = 0;
    struct mc_mirror_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O&O&O&:lookup", names,
                                     mcp_view_of_str, &key, mcp_view_of_str,
                                     &medium, mcp_view_of_str, &tenant,
                                     mcp_u32_of, &source) ||
        !begin(self)) {
        return NULL;
    }
    PyObject *row = NULL;
    bool is_there = source < self->source_count &&
                    mc_subscriber_mirror_get(self->subscriber, source, tenant,
                                             key, medium, &entry);
    if (is_there) {
        row = entry_of(&entry);
    }
    end(self);
    if (!is_there) {
        Py_RETURN_NONE;
    }
    return row;
}

static PyObject *stats(PyObject *object, PyObject *args)
{
    struct mcp_subscriber *self = (struct mcp_subscriber *)object;
    struct mc_source_stats now;
    uint32_t source = 0;
    if (!PyArg_ParseTuple(args, "|O&:stats", mcp_u32_of, &source)) {
        return NULL;
    }
    if (source >= self->source_count) {
        PyErr_SetString(PyExc_IndexError, "no such source");
        return NULL;
    }
    if (!begin(self)) {
        return NULL;
    }
    mc_subscriber_stats(self->subscriber, source, &now);
    end(self);
    return mcp_source_stats_of(&now);
}

#define WITH_NAMES(fn) \
    (PyCFunction)(void (*)(void))(fn), METH_VARARGS | METH_KEYWORDS

PyMethodDef mcp_subscriber_following[] = {
    {"start", start, METH_NOARGS,
     "start($self, /)\n--\n\nHas a thread follow, which needs no interpreter: "
     "it "
     "feeds the index and the\nmirror, events are not to be had meanwhile, "
     "signals() "
     "has the signals."},
    {"stop", stop, METH_NOARGS,
     "stop($self, /)\n--\n\nEnds what start() began; poll() goes on from "
     "there."},
    {"_signals", signals, METH_NOARGS,
     "_signals($self, /)\n--\n\n(signals, dropped): those since last time, at "
     "most "
     "1024."},
    {"inject", WITH_NAMES(inject),
     "inject($self, /, frames, source=0)\n--\n\nReads one recorded message as "
     "if a "
     "source had sent it, and answers its\nevents and signals. frames are "
     "bytes "
     "objects."},
    {"mirror", mirror, METH_NOARGS,
     "mirror($self, /)\n--\n\nAll that can be read, as far as is known: a list "
     "of "
     "MirrorEntry."},
    {"mirror_count", mirror_count, METH_NOARGS,
     "mirror_count($self, /)\n--\n\nHow many entries that is."},
    {"lookup", WITH_NAMES(lookup),
     "lookup($self, /, key, medium='cpu', tenant='default', "
     "source=0)\n--\n\nThe "
     "MirrorEntry of a key in a medium, or None."},
    {"stats", stats, METH_VARARGS,
     "stats($self, source=0, /)\n--\n\nCounters of a source by name, as in "
     "struct "
     "mc_source_stats."},
    {NULL, NULL, 0, NULL}};
