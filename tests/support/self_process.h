/* SPDX-License-Identifier: Apache-2.0 */
/* self_process.h - this test program once more, as another process: most often as
 * a client that lends memory until it is killed. */
#ifndef SELF_PROCESS_H
#define SELF_PROCESS_H
#include <sys/types.h>

#include "mc_client.h"

/* With these arguments, its name the first of them; NULL ends them. */
pid_t self_spawn(char *const *args);
/* There, where nobody takes assertions: lends until it is killed, at the latest
 * with the test. The exit code where it cannot. */
int self_lend(const struct mc_client_opts *opts);
/* Kills it, whatever its state, and waits for its end. */
void self_kill(pid_t pid);
#endif
