/* SPDX-License-Identifier: Apache-2.0 */
/* tool_store_put.h - what put and put-many share: contents and settings of
 * objects.
 */
#ifndef TOOL_STORE_PUT_H
#define TOOL_STORE_PUT_H
#include "tool_store.h"

/* What is to be stored; owned. */
struct tool_content {
    void *data;
    size_t len;
    bool is_mapped;
};

/* A file, or stdin for "-". An exit code, after a line on stderr. To be freed in
 * any case. */
int tool_content_read(const struct tool_args *args, const char *path,
                      struct tool_content *content_out);
void tool_content_free(struct tool_content *content); /* zeroed is fine */

/* All but the tags. */
void tool_config_make(const struct tool_args *args,
                      struct mc_replicate_config *config_out);
#endif
