/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - how calls end. */
#include "store.h"

PyObject *mcp_answer(struct mcp_args *args, bool is_read, int64_t code)
{
    mcp_args_free(args);
    return is_read ? PyLong_FromLongLong(code) : NULL;
}

PyObject *mcp_answer_list(struct mcp_args *args, bool is_read, int code,
                          const int64_t *results, size_t count)
{
    PyObject *list = NULL;
    if (is_read) {
        list = code == 0 ? mcp_results(results, count)
                         : mcp_results_all(count, code);
    }
    mcp_args_free(args);
    return list;
}
