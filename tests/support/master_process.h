/* SPDX-License-Identifier: Apache-2.0 */
/* master_process.h - mc-master as it is run, for a test that stops it. It dies
 * with the test. */
#ifndef MASTER_PROCESS_H
#define MASTER_PROCESS_H
#include <sys/types.h>

struct master_process {
    pid_t pid;
    int words; /* its stdout */
    char address[32];
};

/* On free ports, with these flags beside; NULL ends them. Before the test has
 * threads. */
void master_spawn(struct master_process *master, const char *const *flags);
void master_stop(const struct master_process *master); /* has stopped */
void master_continue(const struct master_process *master);
void master_end(struct master_process *master); /* whatever its state */
#endif
