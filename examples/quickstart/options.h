/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - what writer and follower are told on their command lines.
 *
 * Threads: read once.
 */
#ifndef OPTIONS_H
#define OPTIONS_H
#include <stdbool.h>
#include <stddef.h>

struct options {
    const char *trace_path;
    size_t block_bytes;
    const char *endpoint; /* writer; may be replaced if it is the default */
    bool is_endpoint_default;
    const char *master;       /* writer, NULL: a store in its own process */
    bool wants_pool;          /* writer: say how many bytes are to be lent */
    const char *list_path;    /* writer: where its list goes */
    const char *record_path;  /* follower, NULL: no recording */
    const char *answers_path; /* follower, NULL: not written */
    unsigned watchers;        /* writer: subscribers to wait for, beside the
                                 follower */
    int acks_fd;              /* follower */
};

/* 0, or the exit code 2 after a line on stderr. */
int options_read(int argc, char **argv, const char *program,
                 struct options *options_out);

#endif
