/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_move.h - one call's rows, to all its peers at the same time.
 * Threads: any; one call is one thread's.
 */
#ifndef TCP_MOVE_H
#define TCP_MOVE_H
#include "engine.h"

/* The tcp part of transport.h; targets keep their peer (tcp_pool.h). */
void mci_tcp_move(void *state, struct mc_transfer_row *const *rows,
                  size_t count, uint64_t deadline_ns,
                  const _Atomic int *canceled);
void mci_tcp_seal(void *state, struct mc_transfer_row *const *rows,
                  size_t count, uint64_t deadline_ns);
enum mc_err mci_tcp_probe(void *state, struct mc_target *target,
                          uint64_t deadline_ns);
#endif
