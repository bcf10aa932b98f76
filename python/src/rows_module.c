/* SPDX-License-Identifier: Apache-2.0 */
/* rows_module.c - mckv._rows: the row driver for Python, on a client of its own.
 *
 * Closing waits for calls that are inside; those that wait for an operation look up
 * now and then, so that it need not wait long. An operation belongs to its driver
 * and ends with it.
 */
#include "rows_py.h"

#define PROBLEM_MAX 512

/* ---- forks ------------------------------------------------------------------------- */

static _Atomic uint64_t forks;

static void count_fork(void)
{
    (void)atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

uint64_t mcp_row_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    return atomic_load(&forks);
}

/* ---- who is inside ------------------------------------------------------------------- */

struct mc_row_driver *mcp_rows_enter(struct mcp_rows *self)
{
    if (self->forks != mcp_row_forks()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "made before a fork: the child has to make its own");
        return NULL;
    }
    (void)pthread_mutex_lock(&self->lock);
    struct mc_row_driver *driver = self->is_closing ? NULL : self->driver;
    self->inside += driver != NULL;
    (void)pthread_mutex_unlock(&self->lock);
    if (!driver) {
        PyErr_SetString(PyExc_ValueError, "the driver is closed");
    }
    return driver;
}

void mcp_rows_leave(struct mcp_rows *self)
{
    (void)pthread_mutex_lock(&self->lock);
    self->inside--;
    (void)pthread_cond_broadcast(&self->changed);
    (void)pthread_mutex_unlock(&self->lock);
}

PyObject *mcp_rows_fail(enum mc_err err, const char *what)
{
    PyObject *type =
        err == MC_ERR_INVALID_PARAMS || err == MC_ERR_INVALID_KEY
            ? PyExc_ValueError
        : err == MC_ERR_NOMEM          ? PyExc_MemoryError
        : err == MC_ERR_FILE_NOT_FOUND ? PyExc_FileNotFoundError
        : err == MC_ERR_FILE_OPEN_FAIL || err == MC_ERR_FILE_READ_FAIL
            ? PyExc_OSError
            : PyExc_RuntimeError;
    PyErr_Format(type, "%s: %s (%d)", what, mc_err_text(err), (int)err);
    return NULL;
}

/* ---- opening -------------------------------------------------------------------------- */

static uint64_t or_none(uint64_t bytes)
{
    return bytes > 0 ? bytes : MC_NONE;
}

static bool open_all(struct mcp_rows *self, const struct mc_client_opts *client,
                     const char *config, struct mc_row_driver_opts *opts)
{
    char problem[PROBLEM_MAX] = "";
    enum mc_err err = MC_OK;
    const char *what = "RowDriver";
    Py_BEGIN_ALLOW_THREADS if (config)
    {
        err = mc_row_driver_config(config, opts, problem, sizeof problem);
        what = problem[0] != '\0' ? problem : config;
    }
    if (err == MC_OK) {
        err = mc_client_open(client, &self->client);
    }
    if (err == MC_OK) {
        err = mc_row_driver_open(self->client, opts, &self->driver);
    }
    Py_END_ALLOW_THREADS if (err != MC_OK)
    {
        (void)mcp_rows_fail(err, what);
    }
    return err == MC_OK;
}

static const char *unless_empty(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *text[6] = {NULL};
    const char *config = NULL;
    uint64_t bytes[2] = {0};
    struct mc_row_driver_opts opts = {.workers = 0};
    (void)kwargs;
    if (!PyArg_ParseTuple(
            args, "ssO&O&ssszO&O&O&O&O&O&O&:RowDriver", &text[0], &text[1],
            mcp_u64_of, &bytes[0], mcp_u64_of, &bytes[1], &text[2], &text[3],
            &text[4], &config, mcp_u32_of, &opts.workers, mcp_u32_of,
            &opts.rows_per_call, mcp_u64_of, &opts.bytes_per_call, mcp_u32_of,
            &opts.rows_max, mcp_u32_of, &opts.timeout_ms, mcp_u32_of,
            &opts.close_ms, mcp_u32_of, &opts.replicas)) {
        return NULL;
    }
    const struct mc_client_opts client = {
        .local_hostname = unless_empty(text[0]),
        .metadata_server = unless_empty(text[1]),
        .segment_bytes = or_none(bytes[0]),
        .local_buffer_bytes = or_none(bytes[1]),
        .protocol = unless_empty(text[2]),
        .master = unless_empty(text[3]),
        .tenant = unless_empty(text[4])};
    struct mcp_rows *self = (struct mcp_rows *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->forks = mcp_row_forks();
    (void)pthread_mutex_init(&self->lock, NULL);
    (void)pthread_cond_init(&self->changed, NULL);
    if (!open_all(self, &client, config, &opts)) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* ---- closing --------------------------------------------------------------------------- */

/* Without the interpreter's lock. Drained first, so that who waits is soon out. The
 * lock is not held while the driver and the client end: others take it with the
 * interpreter's lock. Who closes second waits for the first. */
static void close_all(struct mcp_rows *self)
{
    (void)pthread_mutex_lock(&self->lock);
    bool is_first = !self->is_closing;
    self->is_closing = true;
    struct mc_row_driver *driver = self->driver;
    struct mc_client *client = self->client;
    while (!is_first && self->client) {
        (void)pthread_cond_wait(&self->changed, &self->lock);
    }
    (void)pthread_mutex_unlock(&self->lock);
    if (!is_first) {
        return;
    }
    if (driver) {
        (void)!mc_row_driver_drain(driver, 0);
    }
    (void)pthread_mutex_lock(&self->lock);
    while (self->inside > 0) {
        (void)pthread_cond_wait(&self->changed, &self->lock);
    }
    (void)pthread_mutex_unlock(&self->lock);
    mc_row_driver_close(driver);
    mc_client_close(client);
    (void)pthread_mutex_lock(&self->lock);
    self->driver = NULL;
    self->client = NULL;
    (void)pthread_cond_broadcast(&self->changed);
    (void)pthread_mutex_unlock(&self->lock);
}

static PyObject *close_method(PyObject *object, PyObject *unused)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    (void)unused;
    if (self->forks == mcp_row_forks()) {
        Py_BEGIN_ALLOW_THREADS close_all(self);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void rows_free(PyObject *object)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (self->weak_refs) {
        PyObject_ClearWeakRefs(object);
    }
    Py_XDECREF(close_method(object, NULL));
    if (self->forks == mcp_row_forks()) {
        (void)pthread_cond_destroy(&self->changed);
        (void)pthread_mutex_destroy(&self->lock);
    }
    PyErr_Restore(type, value, trace);
    Py_TYPE(object)->tp_free(object);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static PyObject *register_method(PyObject *object, PyObject *args)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    uint64_t ptr = 0;
    uint64_t size = 0;
    uint32_t region = 0;
    if (!PyArg_ParseTuple(args, "O&O&:register", mcp_u64_of, &ptr, mcp_u64_of,
                          &size)) {
        return NULL;
    }
    struct mc_row_driver *driver = mcp_rows_enter(self);
    if (!driver) {
        return NULL;
    }
    void *base = (void *)(uintptr_t)ptr; /* NOLINT(performance-no-int-to-ptr) */
    enum mc_err err =
        mc_row_driver_register(driver, base, size, MC_MEMORY_HOST, &region);
    mcp_rows_leave(self);
    return err == MC_OK ? PyLong_FromUnsignedLong(region)
                        : mcp_rows_fail(err, "register");
}

static PyObject *unregister_method(PyObject *object, PyObject *args)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    uint32_t region = 0;
    if (!PyArg_ParseTuple(args, "O&:unregister", mcp_u32_of, &region)) {
        return NULL;
    }
    struct mc_row_driver *driver = mcp_rows_enter(self);
    if (!driver) {
        return NULL;
    }
    enum mc_err err = mc_row_driver_unregister(driver, region);
    mcp_rows_leave(self);
    if (err != MC_OK) {
        return mcp_rows_fail(err, "unregister");
    }
    Py_RETURN_NONE;
}

/* Whether nobody touches a region any more. */
static PyObject *drain_method(PyObject *object, PyObject *args)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    uint32_t timeout_ms = 0;
    if (!PyArg_ParseTuple(args, "O&:drain", mcp_u32_of, &timeout_ms)) {
        return NULL;
    }
    struct mc_row_driver *driver = mcp_rows_enter(self);
    if (!driver) {
        return NULL;
    }
    enum mc_err err = MC_OK;
    Py_BEGIN_ALLOW_THREADS err = mc_row_driver_drain(driver, timeout_ms);
    mcp_rows_leave(self);
    Py_END_ALLOW_THREADS return PyBool_FromLong(err == MC_OK);
}

static PyObject *fileno_method(PyObject *object, PyObject *unused)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    (void)unused;
    struct mc_row_driver *driver = mcp_rows_enter(self);
    if (!driver) {
        return NULL;
    }
    int fd = mc_row_driver_eventfd(driver);
    mcp_rows_leave(self);
    return PyLong_FromLong(fd);
}

#define POLLED_MAX 1024

static PyObject *poll_method(PyObject *object, PyObject *unused)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    void *ctxs[POLLED_MAX];
    (void)unused;
    struct mc_row_driver *driver = mcp_rows_enter(self);
    if (!driver) {
        return NULL;
    }
    size_t count = mc_row_driver_poll(driver, ctxs, POLLED_MAX);
    mcp_rows_leave(self);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *number = PyLong_FromVoidPtr(ctxs[i]);
        if (number) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, number);
        } else {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* False with an exception. Takes the reference. */
static bool put(PyObject *dict, const char *name, PyObject *value)
{
    bool is_put = value && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return is_put;
}

/* Names of reasons with the rows that ended so, those that there were. */
static PyObject *reasons_of(const uint64_t *counts)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < MC_ROW_REASON_COUNT; i++) {
        const char *name = mc_row_reason_name((enum mc_row_reason)i);
        if (counts[i] > 0 &&
            !put(dict, name, PyLong_FromUnsignedLongLong(counts[i]))) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

static PyObject *stat_method(PyObject *object, PyObject *unused)
{
    struct mcp_rows *self = (struct mcp_rows *)object;
    struct mc_row_driver_stats now;
    (void)unused;
    struct mc_row_driver *driver = mcp_rows_enter(self);
    if (!driver) {
        return NULL;
    }
    mc_row_driver_stat(driver, &now);
    mcp_rows_leave(self);
#define PAIR(name) #name, (unsigned long long)now.name
    return Py_BuildValue("{sNsNsKsKsKsKsKsKsI}", "gets", reasons_of(now.gets),
                         "puts", reasons_of(now.puts), PAIR(get_bytes),
                         PAIR(put_bytes), PAIR(calls), PAIR(keys_written),
                         PAIR(keys_unsettled), PAIR(keys_settled), "regions",
                         (unsigned)now.regions);
#undef PAIR
}

static PyMethodDef methods[] = {
    {"close", close_method, METH_NOARGS, NULL},
    {"register", register_method, METH_VARARGS, NULL},
    {"unregister", unregister_method, METH_VARARGS, NULL},
    {"drain", drain_method, METH_VARARGS, NULL},
    {"fileno", fileno_method, METH_NOARGS, NULL},
    {"poll", poll_method, METH_NOARGS, NULL},
    {"stat", stat_method, METH_NOARGS, NULL},
    {"submit", mcp_rows_submit, METH_VARARGS, NULL},
    {"probe", mcp_rows_probe, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

PyTypeObject mcp_rows_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mckv._rows.Driver",
    .tp_doc = "A row driver; mckv.row_driver has it as one wants it.",
    .tp_basicsize = sizeof(struct mcp_rows),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = rows_new,
    .tp_dealloc = rows_free,
    .tp_methods = methods,
    .tp_weaklistoffset = offsetof(struct mcp_rows, weak_refs)};

/* ---- the file ------------------------------------------------------------------------------ */

static bool put_text(PyObject *dict, const char *name, const char *text)
{
    return !text || put(dict, name, PyUnicode_FromString(text));
}

static bool put_size(PyObject *dict, const char *name, uint64_t bytes)
{
    uint64_t number = bytes == MC_NONE ? 0 : bytes;
    return bytes == 0 || put(dict, name, PyLong_FromUnsignedLongLong(number));
}

/* Names as a MooncakeConfig has them; those that the file names. */
static PyObject *settings_of(const struct mc_row_file *file)
{
    const struct mc_client_opts *client = &file->client;
    PyObject *dict = PyDict_New();
    bool is_good =
        dict && put_text(dict, "master_server_address", client->master) &&
        put_text(dict, "local_hostname", client->local_hostname) &&
        put_text(dict, "metadata_server", client->metadata_server) &&
        put_text(dict, "protocol", client->protocol) &&
        put_text(dict, "device_name", file->device_name) &&
        put_text(dict, "tenant_id", client->tenant) &&
        put_size(dict, "global_segment_size", client->segment_bytes) &&
        put_size(dict, "local_buffer_size", client->local_buffer_bytes);
    if (!is_good) {
        Py_CLEAR(dict);
    }
    return dict;
}

/* (settings or None, prefix of keys or None). */
static PyObject *read_file(PyObject *module, PyObject *args)
{
    struct mc_row_file file = {.has_client = false};
    char problem[PROBLEM_MAX] = "";
    const char *path = NULL;
    enum mc_err err = MC_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "s:read_file", &path)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS err =
        mc_row_driver_file(path, &file, problem, sizeof problem);
    Py_END_ALLOW_THREADS if (err != MC_OK)
    {
        return mcp_rows_fail(err, problem[0] != '\0' ? problem : path);
    }
    PyObject *settings = file.has_client ? settings_of(&file) : Py_None;
    Py_XINCREF(file.has_client ? NULL : settings);
    return settings ? Py_BuildValue("Nz", settings, file.key_prefix) : NULL;
}

static PyMethodDef functions[] = {
    {"read_file", read_file, METH_VARARGS,
     "read_file(path, /)\n--\n\n(settings, key_prefix) of a driver's file, "
     "each None where it says nothing."},
    {NULL, NULL, 0, NULL}};

/* ---- the module ---------------------------------------------------------------------------- */

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, .m_name = "mckv._rows",
    .m_doc = "The row driver, as the library has it.", .m_size = -1,
    .m_methods = functions};

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

/* (name, sentence, status) of each reason, and the names of statuses, by number. */
static bool add_names(PyObject *module)
{
    PyObject *reasons = PyList_New(0);
    PyObject *statuses = PyList_New(0);
    bool is_made = reasons && statuses;
    for (int i = 0; is_made && i < MC_ROW_REASON_COUNT; i++) {
        enum mc_row_reason reason = (enum mc_row_reason)i;
        PyObject *row = Py_BuildValue("ssi", mc_row_reason_name(reason),
                                      mc_row_reason_text(reason),
                                      (int)mc_row_reason_status(reason));
        is_made = row && PyList_Append(reasons, row) == 0;
        Py_XDECREF(row);
    }
    for (int i = 0; is_made && i < MC_ROW_STATUS_COUNT; i++) {
        PyObject *name =
            PyUnicode_FromString(mc_row_status_name((enum mc_row_status)i));
        is_made = name && PyList_Append(statuses, name) == 0;
        Py_XDECREF(name);
    }
    is_made = is_made && PyModule_AddObject(module, "REASONS", reasons) == 0 &&
              PyModule_AddObject(module, "STATUSES", statuses) == 0;
    return is_made;
}

PyMODINIT_FUNC PyInit__rows(void);

PyMODINIT_FUNC PyInit__rows(void)
{
    (void)mcp_row_forks();
    PyObject *module = PyModule_Create(&module_def);
    if (!module) {
        return NULL;
    }
    if (!add_type(module, "Driver", &mcp_rows_type) ||
        !add_type(module, "Operation", &mcp_row_op_type) ||
        !add_names(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
