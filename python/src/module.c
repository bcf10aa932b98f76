/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - mckv._store: the library's client for Python. */
#include "async.h"

static PyObject *close_all(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    mcp_stores_close_all();
    Py_RETURN_NONE;
}

static PyObject *error_text(PyObject *self, PyObject *object)
{
    long code = PyLong_AsLong(object);
    (void)self;
    if (code == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return PyUnicode_FromFormat("%s: %s", mc_err_name((enum mc_err)code),
                                mc_err_text((enum mc_err)code));
}

static PyMethodDef functions[] = {
    {"_close_all", close_all, METH_NOARGS, "Closes every open store."},
    {"_host_alloc", mcp_host_alloc, METH_O, "Pages of memory, or 0."},
    {"_host_free", mcp_host_free, METH_O, "0, or -600."},
    {"bind_to_numa_node", mcp_bind_to_node, METH_O,
     "bind_to_numa_node(node, /)\n--\n\nThe calling thread runs on the "
     "processors of a node, and takes memory from it\nfirst. ValueError: there "
     "is no such node."},
    {"error_text", error_text, METH_O,
     "error_text(code, /)\n--\n\nThe name of a code and what it says."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, .m_name = "mckv._store",
    .m_doc = "The client of a store, as the library has it.", .m_size = -1,
    .m_methods = functions};

/* Before the interpreter takes itself apart. */
static bool close_at_exit(PyObject *module)
{
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *fn = PyObject_GetAttrString(module, "_close_all");
    PyObject *done =
        atexit && fn ? PyObject_CallMethod(atexit, "register", "O", fn) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(fn);
    Py_XDECREF(atexit);
    return done != NULL;
}

static bool add_codes(PyObject *module)
{
    static const struct {
        const char *name;
        int number;
    } codes[] = {
#define CODE_(name, number, scope, text) {&#name[3], (number)},
        MC_ERR_LIST(CODE_)
#undef CODE_
    };
    bool is_good = true;
    for (size_t i = 0; is_good && i < sizeof codes / sizeof *codes; i++) {
        is_good = PyModule_AddIntConstant(module, codes[i].name,
                                          codes[i].number) == 0;
    }
    return is_good;
}

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

PyMODINIT_FUNC PyInit__store(void);

PyMODINIT_FUNC PyInit__store(void)
{
    (void)mcp_forks();
    PyObject *module = PyModule_Create(&module_def);
    if (!module) {
        return NULL;
    }
    if (!add_type(module, "Store", &mcp_store_type) ||
        !add_type(module, "BufferHandle", &mcp_buffer_type) ||
        !add_type(module, "Lease", &mcp_lease_type) ||
        !add_type(module, "Block", &mcp_block_type) ||
        !add_type(module, "Queue", &mcp_queue_type) ||
        !add_type(module, "Operation", &mcp_op_type) || !add_codes(module) ||
        !close_at_exit(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
