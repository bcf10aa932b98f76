/* SPDX-License-Identifier: Apache-2.0 */
/* rows_worlds.h - the harnesses of this project's driver, and what they share.
 */
#ifndef ROWS_WORLDS_H
#define ROWS_WORLDS_H
#include "mci_control.h"
#include "rows.h"

extern const struct rows_harness rows_embedded;
/* A master over a socket, a node in a process of its own that lends memory; bytes
 * go by tcp, or by shared memory. */
extern const struct rows_harness rows_tcp;
extern const struct rows_harness rows_shm;

/* main of the node: --node master host:port segment_bytes */
int rows_play_node(char **args);

/* The other user's calls, by a client. */
int64_t rows_client_get(struct mc_client *client, struct mc_view key,
                        void *data, size_t capacity);
void *rows_client_write(struct mc_client *client, struct mc_view key,
                        size_t len);
void rows_client_finish(struct mc_client *client, void *writing,
                        const void *data);
/* Of requests. */
enum mci_op rows_op_of(enum rows_step step);
#endif
