/* SPDX-License-Identifier: Apache-2.0 */
/* mc_view.h - borrowed bytes: where they are and how many.
 *
 * A view owns nothing; whoever hands one out says how long it lives. data ==
 * NULL means "none", which is different from an empty view (data != NULL,
 * len 0). Bytes need not end in NUL and may hold NUL.
 * Threads: a plain value.
 */
#ifndef MC_VIEW_H
#define MC_VIEW_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mc_view {
    const void *data;
    size_t len;
};

/* A view of so many bytes; borrowed as they are. */
static inline struct mc_view mc_view_make(const void *data, size_t len)
{
    struct mc_view view;
    view.data = data;
    view.len = len;
    return view;
}

/* A view of a NUL-terminated string; NULL gives "none". */
static inline struct mc_view mc_view_str(const char *text)
{
    return mc_view_make(text, text ? strlen(text) : 0);
}

/* True if both hold the same bytes; "none" equals only "none". */
static inline bool mc_view_equal(struct mc_view a, struct mc_view b)
{
    if (!a.data || !b.data) {
        return !a.data && !b.data;
    }
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

#ifdef __cplusplus
}
#endif
#endif
