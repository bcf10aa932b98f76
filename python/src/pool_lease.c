/* SPDX-License-Identifier: Apache-2.0 */
/* pool_lease.c - Lease: registered memory for a while, out of the store's local buffer or,
 * where that is full, of its own.
 *
 * It can be looked at and written as any buffer, and is given back when nobody does
 * any more. Who closes the store does not wait for that: what is left of it is
 * memory, which stays until the lease goes.
 */
#include <sys/mman.h>

#include "methods.h"

struct mcp_lease {
    PyObject_HEAD struct mcp_store *store;
    /* Of the client that it is of: as long as it is held, no other one has the
     * same. */
    struct mc_local_buffer *held;
    struct mc_scratch scratch; /* owner NULL: memory of its own */
    size_t views;              /* by the interpreter's lock */
    bool is_given;             /* the same */
    uint64_t forks;
    PyObject *weak_refs;
};

/* ---- taking ------------------------------------------------------------------------ */

static int take_own(struct mc_client *client, struct mcp_lease *lease,
                    size_t len)
{
    void *base = mmap(NULL, len, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return MC_ERR_NOMEM;
    }
    int code = mc_client_register_buffer(client, base, len);
    if (code != 0) {
        (void)munmap(base, len);
        return code;
    }
    lease->scratch = (struct mc_scratch){.data = base, .len = len};
    return 0;
}

static int take(struct mc_client *client, struct mcp_lease *lease, size_t len,
                bool is_own)
{
    int code = is_own ? take_own(client, lease, len)
                      : mc_client_take_scratch(client, len, &lease->scratch);
    if (code == 0) {
        lease->held = mc_client_hold_local_buffer(client);
    }
    return code;
}

PyObject *mcp_take_lease(PyObject *self, PyObject *arguments,
                         PyObject *keywords)
{
    static char *names[] = {"size", "is_own", NULL};
    struct mcp_store *store = (struct mcp_store *)self;
    PyObject *number = NULL;
    int is_own = 0;
    uint64_t size = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|p:_take_lease",
                                     names, &number, &is_own) ||
        !mcp_args_u64(number, "size", &size)) {
        return NULL;
    }
    if (size == 0 || size > PY_SSIZE_T_MAX) {
        return PyLong_FromLong(MC_ERR_INVALID_PARAMS);
    }
    struct mcp_lease *lease =
        (struct mcp_lease *)mcp_lease_type.tp_alloc(&mcp_lease_type, 0);
    if (!lease) {
        return NULL;
    }
    Py_INCREF(store);
    lease->store = store;
    lease->is_given = true;
    lease->forks = mcp_forks();
    int code = 0;
    MCP_STORE_CALL(store, code, take(client, lease, (size_t)size, is_own != 0));
    if (code != 0) {
        Py_DECREF(lease);
        return PyLong_FromLong(code);
    }
    lease->is_given = false;
    return (PyObject *)lease;
}

PyObject *mcp_local_buffer_bytes(PyObject *self, PyObject *arguments,
                                 PyObject *keywords)
{
    struct mc_client *client = NULL;
    (void)arguments;
    (void)keywords;
    int64_t answer = mcp_store_enter((struct mcp_store *)self, &client);
    if (answer == 0) {
        answer = (int64_t)mc_client_local_buffer_bytes(client);
        mcp_store_leave((struct mcp_store *)self);
    }
    return PyLong_FromLongLong(answer);
}

/* ---- giving back -------------------------------------------------------------------- */

/* Whether this client is the one that it is of, and not one that was set up later. */
bool mcp_is_of_client(struct mc_client *client, struct mc_local_buffer *held)
{
    struct mc_local_buffer *now = mc_client_hold_local_buffer(client);
    bool is_same = now == held;
    mc_local_buffer_release(now);
    return is_same;
}

static int give(struct mc_client *client, struct mcp_lease *lease)
{
    if (!mcp_is_of_client(client, lease->held)) {
        return 0;
    }
    return lease->scratch.owner
               ? mc_client_give_scratch(client, &lease->scratch)
               : mc_client_unregister_buffer(client, lease->scratch.data);
}

/* 0, or a code: then it is still out. The memory of a store that is closed goes
 * without asking anybody; that of a fork's parent stays. */
static int give_back(struct mcp_lease *lease)
{
    int code = 0;
    if (lease->forks != mcp_forks()) {
        return 0;
    }
    const struct mc_scratch was = lease->scratch;
    struct mc_client *client = NULL;
    if (mcp_store_enter(lease->store, &client) == 0) {
        Py_BEGIN_ALLOW_THREADS code = give(client, lease);
        mcp_store_leave(lease->store);
        Py_END_ALLOW_THREADS
    }
    if (code != 0) {
        return code;
    }
    if (!was.owner) {
        (void)munmap(was.data, was.len);
    }
    lease->scratch = (struct mc_scratch){.data = NULL};
    mc_local_buffer_release(lease->held);
    lease->held = NULL;
    return 0;
}

static PyObject *release(PyObject *object, PyObject *unused)
{
    struct mcp_lease *lease = (struct mcp_lease *)object;
    (void)unused;
    if (lease->views > 0) {
        PyErr_SetString(PyExc_BufferError,
                        "views of the lease are alive: delete them first");
        return NULL;
    }
    if (lease->is_given) {
        return PyLong_FromLong(0);
    }
    lease->is_given = true; /* nobody looks meanwhile */
    int code = give_back(lease);
    lease->is_given = code == 0;
    return PyLong_FromLong(code);
}

/* What a call still uses is left as it is. */
static void lease_free(PyObject *object)
{
    struct mcp_lease *lease = (struct mcp_lease *)object;
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (!lease->is_given) {
        (void)give_back(lease);
    }
    if (lease->weak_refs) {
        PyObject_ClearWeakRefs(object);
    }
    PyErr_Restore(type, value, trace);
    Py_XDECREF(lease->store);
    Py_TYPE(object)->tp_free(object);
}

/* ---- the type ------------------------------------------------------------------------ */

static int get_view(PyObject *object, Py_buffer *view, int flags)
{
    struct mcp_lease *lease = (struct mcp_lease *)object;
    if (lease->is_given) {
        PyErr_SetString(PyExc_BufferError, "the lease was released");
        return -1;
    }
    int status = PyBuffer_FillInfo(view, object, lease->scratch.data,
                                   (Py_ssize_t)lease->scratch.len, 0, flags);
    lease->views += status == 0;
    return status;
}

static void drop_view(PyObject *object, Py_buffer *view)
{
    (void)view;
    ((struct mcp_lease *)object)->views--;
}

static PyObject *get_ptr(PyObject *object, void *unused)
{
    struct mcp_lease *lease = (struct mcp_lease *)object;
    (void)unused;
    return PyLong_FromVoidPtr(lease->is_given ? NULL : lease->scratch.data);
}

static PyObject *get_views(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct mcp_lease *)object)->views);
}

static PyMethodDef methods[] = {
    {"release", release, METH_NOARGS,
     "release($self, /)\n--\n\nGives the memory back: 0, also twice, or a "
     "code: -901 "
     "where a call still\nuses it. BufferError while views are alive."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef members[] = {
    {"ptr", get_ptr, NULL, "address of the first byte; 0 once released", NULL},
    {"views", get_views, NULL, "how many look at it", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyBufferProcs as_buffer = {.bf_getbuffer = get_view,
                                  .bf_releasebuffer = drop_view};

PyTypeObject mcp_lease_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._store.Lease",
    .tp_doc = "Registered memory; mckv.buffer_pool has it as one wants it.",
    .tp_basicsize = sizeof(struct mcp_lease),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = lease_free,
    .tp_as_buffer = &as_buffer,
    .tp_methods = methods,
    .tp_getset = members,
    .tp_weaklistoffset = offsetof(struct mcp_lease, weak_refs)};
