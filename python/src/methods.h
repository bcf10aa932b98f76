/* SPDX-License-Identifier: Apache-2.0 */
/* methods.h - the methods of Store by family, and what several families read
 * alike. */
#ifndef MCP_METHODS_H
#define MCP_METHODS_H
#include "store.h"

/* An address as Python has it. */
static inline void *mcp_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

/* A span per key of two lists of numbers; NULL, without an exception, if they are
 * not as long as the keys. */
bool mcp_args_spans(struct mcp_args *args, PyObject *addresses, PyObject *sizes,
                    size_t count, struct mc_span **spans_out);

/* Keys with several spans each. A row whose two lists differ in length has none,
 * which the library refuses for that row; is_even: the three lists of rows are as
 * long as each other. */
struct mcp_span_rows {
    const struct mc_view *keys;
    struct mc_spans *spans;
    int64_t *results;
    size_t count;
    bool is_even;
};
bool mcp_args_span_rows(struct mcp_args *args, PyObject *keys,
                        PyObject *addresses, PyObject *sizes,
                        struct mcp_span_rows *rows_out);

#define MCP_METHOD(name) \
    PyObject *name(PyObject *self, PyObject *arguments, PyObject *keywords);
MCP_METHOD(mcp_put)
MCP_METHOD(mcp_upsert)
MCP_METHOD(mcp_put_from)
MCP_METHOD(mcp_upsert_from)
MCP_METHOD(mcp_put_parts)
MCP_METHOD(mcp_upsert_parts)
MCP_METHOD(mcp_put_batch)
MCP_METHOD(mcp_upsert_batch)
MCP_METHOD(mcp_batch_put_from)
MCP_METHOD(mcp_batch_upsert_from)
MCP_METHOD(mcp_batch_put_from_multi_buffers)
MCP_METHOD(mcp_put_from_with_metadata)
MCP_METHOD(mcp_get)
MCP_METHOD(mcp_get_batch)
MCP_METHOD(mcp_get_buffer)
MCP_METHOD(mcp_batch_get_buffer)
MCP_METHOD(mcp_get_into)
MCP_METHOD(mcp_batch_get_into)
MCP_METHOD(mcp_batch_get_into_multi_buffers)
MCP_METHOD(mcp_is_exist)
MCP_METHOD(mcp_batch_is_exist)
MCP_METHOD(mcp_get_size)
MCP_METHOD(mcp_remove)
MCP_METHOD(mcp_batch_remove)
MCP_METHOD(mcp_remove_by_regex)
MCP_METHOD(mcp_remove_all)
MCP_METHOD(mcp_register_buffer)
MCP_METHOD(mcp_unregister_buffer)
MCP_METHOD(mcp_take_lease)
MCP_METHOD(mcp_local_buffer_bytes)
MCP_METHOD(mcp_batch_get_session_start)
MCP_METHOD(mcp_batch_get_ranges)
MCP_METHOD(mcp_batch_get_session_end)
MCP_METHOD(mcp_batch_put_session_start)
MCP_METHOD(mcp_batch_put_ranges)
MCP_METHOD(mcp_batch_put_session_end)
MCP_METHOD(mcp_batch_put_session_revoke)
MCP_METHOD(mcp_get_into_ranges)
MCP_METHOD(mcp_mount_segment)
MCP_METHOD(mcp_allocate_and_mount_segment)
MCP_METHOD(mcp_unmount_segment)
MCP_METHOD(mcp_replicas)
MCP_METHOD(mcp_probe)
MCP_METHOD(mcp_write_parts)
MCP_METHOD(mcp_get_blocks)

PyObject *mcp_open_queue(PyObject *self, PyObject *object);
PyObject *mcp_registered_len(PyObject *self, PyObject *object);
PyObject *mcp_host_alloc(PyObject *self, PyObject *object);
PyObject *mcp_host_free(PyObject *self, PyObject *object);
PyObject *mcp_bind_to_node(PyObject *self, PyObject *object);
PyObject *mcp_store_open(struct mcp_store *store, PyObject *args);
#endif
