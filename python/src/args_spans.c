/* SPDX-License-Identifier: Apache-2.0 */
/* args_spans.c - addresses and sizes together. */
#include "methods.h"

bool mcp_args_spans(struct mcp_args *args, PyObject *addresses, PyObject *sizes,
                    size_t count, struct mc_span **spans_out)
{
    struct mcp_ints from;
    struct mcp_ints len;
    *spans_out = NULL;
    if (!mcp_args_ints(args, addresses, "buffer_ptrs", &from) ||
        !mcp_args_ints(args, sizes, "sizes", &len)) {
        return false;
    }
    if (from.count != count || len.count != count) {
        return true;
    }
    struct mc_span *spans = mcp_args_alloc(args, count, sizeof *spans);
    for (size_t i = 0; spans && i < count; i++) {
        spans[i] =
            (struct mc_span){.data = mcp_pointer(from.at[i]), .len = len.at[i]};
    }
    *spans_out = spans;
    return spans != NULL;
}

static bool make_row(struct mcp_args *args, const struct mcp_ints *from,
                     const struct mcp_ints *len, struct mc_spans *out)
{
    *out = (struct mc_spans){.spans = NULL};
    if (from->count != len->count) {
        return true;
    }
    struct mc_span *spans = mcp_args_alloc(args, len->count, sizeof *spans);
    for (size_t i = 0; spans && i < len->count; i++) {
        spans[i] = (struct mc_span){.data = mcp_pointer(from->at[i]),
                                    .len = len->at[i]};
    }
    *out = (struct mc_spans){.spans = spans, .count = len->count};
    return spans != NULL;
}

bool mcp_args_span_rows(struct mcp_args *args, PyObject *keys,
                        PyObject *addresses, PyObject *sizes,
                        struct mcp_span_rows *rows_out)
{
    struct mcp_views views;
    struct mcp_int_rows from;
    struct mcp_int_rows len;
    if (!mcp_args_keys(args, keys, "keys", &views) ||
        !mcp_args_int_rows(args, addresses, "all_buffer_ptrs", &from) ||
        !mcp_args_int_rows(args, sizes, "all_sizes", &len)) {
        return false;
    }
    struct mcp_span_rows rows = {.keys = views.at,
                                 .count = views.count,
                                 .is_even = from.count == views.count &&
                                            len.count == views.count};
    rows.results = mcp_args_results(args, rows.count);
    rows.spans = mcp_args_alloc(args, rows.count, sizeof *rows.spans);
    if (!rows.results || !rows.spans) {
        return false;
    }
    for (size_t i = 0; rows.is_even && i < rows.count; i++) {
        if (!make_row(args, &from.at[i], &len.at[i], &rows.spans[i])) {
            return false;
        }
    }
    *rows_out = rows;
    return true;
}
