/* SPDX-License-Identifier: Apache-2.0 */
/* events_module.c - mckv._events. */
#include <stdatomic.h>

#include "events_py.h"

/* ---- forks ---------------------------------------------------------------------- */

static _Atomic uint64_t forks;

static void count_fork(void)
{
    (void)atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

uint64_t mcp_event_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    return atomic_load(&forks);
}

bool mcp_event_is_ours(uint64_t of)
{
    if (of == mcp_event_forks()) {
        return true;
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "made before a fork: the child has to make its own");
    return false;
}

void mcp_mutex_enter(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) == 0) {
        return;
    }
    Py_BEGIN_ALLOW_THREADS(void) pthread_mutex_lock(lock);
    Py_END_ALLOW_THREADS
}

/* Of whoever has the interpreter's lock. Python 3.9 has no such functions. */
static int was_collecting;

void mcp_collecting_stop(void)
{
#if PY_VERSION_HEX >= 0x030A0000
    was_collecting = PyGC_Disable();
#endif
}

void mcp_collecting_go_on(void)
{
#if PY_VERSION_HEX >= 0x030A0000
    if (was_collecting) {
        (void)PyGC_Enable();
    }
#endif
}

PyObject *mcp_event_fail(enum mc_err err, const char *what)
{
    PyObject *type = err == MC_ERR_INVALID_PARAMS ? PyExc_ValueError
                     : err == MC_ERR_NOMEM        ? PyExc_MemoryError
                                                  : PyExc_RuntimeError;
    PyErr_Format(type, "%s: %s (%d)", what, mc_err_text(err), (int)err);
    return NULL;
}

/* ---- functions ------------------------------------------------------------------ */

#define FRAMES_MAX 64

/* decode(frames): what the strict reader makes of a store's message. */
static PyObject *refusal(const struct mc_event_fault *fault)
{
    PyErr_Format(PyExc_ValueError, "%s at byte %u",
                 mc_event_error_name(fault->error), (unsigned)fault->offset);
    return NULL;
}

static PyObject *list_of(const struct mc_event_batch *batch,
                         const struct mc_event *events)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < batch->count; i++) {
        struct mc_delivery delivery = {.batch = batch, .event = &events[i]};
        if (events[i].type == MC_EVENT_NONE) {
            continue;
        }
        PyObject *event = mcp_event_of(&delivery);
        if (!event || PyList_Append(list, event) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(event);
    }
    return list;
}

static PyObject *decode(PyObject *self, PyObject *frames)
{
    struct mc_view views[FRAMES_MAX];
    struct mc_event_batch batch;
    struct mc_event_fault fault;
    PyObject *answer = NULL;
    (void)self;
    PyObject *items = PySequence_Tuple(frames);
    if (!items) {
        return NULL;
    }
    struct mc_event *events = PyMem_Malloc(MC_EVENT_COUNT_MAX * sizeof *events);
    Py_ssize_t count = PyTuple_GET_SIZE(items);
    bool is_good = events && count <= FRAMES_MAX;
    if (!events) {
        (void)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; is_good && i < count; i++) {
        char *data = NULL;
        Py_ssize_t len = 0;
        is_good = PyBytes_AsStringAndSize(PyTuple_GET_ITEM(items, i), &data,
                                          &len) == 0;
        views[i] = mc_view_make(data, (size_t)len);
    }
    if (is_good) {
        answer = mc_event_read(views, (size_t)count, events, MC_EVENT_COUNT_MAX,
                               &batch, &fault) == MC_EVENT_OK
                     ? list_of(&batch, events)
                     : refusal(&fault);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "frame_count at byte 0");
    }
    PyMem_Free(events);
    Py_DECREF(items);
    return answer;
}

static PyMethodDef functions[] = {
    {"decode", decode, METH_O,
     "decode(frames, /)\n--\n\nThe events of one message of a store: a list of "
     "Event, without those\nthat were refused. frames are three bytes objects. "
     "ValueError names what\nis wrong with a message, and at which byte."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, .m_name = "mckv._events",
    .m_doc = "The subscriber and the session index, as the library has them.",
    .m_size = -1, .m_methods = functions};

static bool add_type(PyObject *module, const char *name, PyTypeObject *type)
{
    if (PyType_Ready(type) != 0) {
        return false;
    }
    Py_INCREF(type);
    if (PyModule_AddObject(module, name, (PyObject *)type) != 0) {
        Py_DECREF(type);
        return false;
    }
    return true;
}

PyMODINIT_FUNC PyInit__events(void);

PyMODINIT_FUNC PyInit__events(void)
{
    (void)mcp_event_forks();
    PyObject *module = PyModule_Create(&module_def);
    if (!module) {
        return NULL;
    }
    if (!mcp_rows_add(module) || !add_type(module, "Index", &mcp_index_type) ||
        !add_type(module, "Subscriber", &mcp_subscriber_type)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
