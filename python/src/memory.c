/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - memory that calls may name. */
#include "methods.h"

PyObject *mcp_register_buffer(PyObject *self, PyObject *arguments,
                              PyObject *keywords)
{
    static char *names[] = {"buffer_ptr", "size", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *objects[2] = {NULL};
    uint64_t address = 0;
    uint64_t size = 0;
    int code = 0;
    bool is_read = PyArg_ParseTupleAndKeywords(arguments, keywords, "OO", names,
                                               &objects[0], &objects[1]) &&
                   mcp_args_u64(objects[0], names[0], &address) &&
                   mcp_args_u64(objects[1], names[1], &size);
    if (is_read) {
        MCP_STORE_CALL(
            (struct mcp_store *)self, code,
            mc_client_register_buffer(client, mcp_pointer(address), size));
    }
    return mcp_answer(&args, is_read, code);
}

PyObject *mcp_unregister_buffer(PyObject *self, PyObject *arguments,
                                PyObject *keywords)
{
    static char *names[] = {"buffer_ptr", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    PyObject *object = NULL;
    uint64_t address = 0;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &object) &&
        mcp_args_u64(object, names[0], &address);
    if (is_read) {
        MCP_STORE_CALL(
            (struct mcp_store *)self, code,
            mc_client_unregister_buffer(client, mcp_pointer(address)));
    }
    return mcp_answer(&args, is_read, code);
}
