/* SPDX-License-Identifier: Apache-2.0 */
/* http_lines.h - a body that is made line by line while it is sent.
 *
 * Threads: as the source of one answer, one at a time.
 */
#ifndef HTTP_LINES_H
#define HTTP_LINES_H
#include "http_server.h"

struct mci_http_lines {
    /* Makes the next line, borrowed until the next call; false at the end, or
     * with an error. */
    bool (*next)(void *ctx, struct mc_view *line_out, enum mc_err *err_out);
    void *ctx;
    struct mc_view line; /* being sent */
    size_t at;
};

/* For the read of a struct mci_http_source: as much as there is room for. */
int64_t mci_http_lines_read(struct mci_http_lines *lines, char *out,
                            size_t max);
#endif
