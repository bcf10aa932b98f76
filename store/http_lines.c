/* SPDX-License-Identifier: Apache-2.0 */
#include "http_lines.h"

#include <string.h>

int64_t mci_http_lines_read(struct mci_http_lines *lines, char *out, size_t max)
{
    enum mc_err err = MC_OK;
    size_t len = 0;
    while (len < max) {
        if (lines->at == lines->line.len) {
            lines->at = 0;
            lines->line = mc_view_str("");
            if (!lines->next(lines->ctx, &lines->line, &err)) {
                break;
            }
        }
        size_t more = lines->line.len - lines->at;
        more = more < max - len ? more : max - len;
        memcpy(out + len, (const char *)lines->line.data + lines->at, more);
        lines->at += more;
        len += more;
    }
    return err ? -1 : (int64_t)len;
}
