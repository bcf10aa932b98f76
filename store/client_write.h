/* SPDX-License-Identifier: Apache-2.0 */
/* client_write.h - how objects get from memory into the store, whatever call
 * asked.
 *
 * A batch is checked as a whole and then goes in slices, whose rows take their
 * own entries of the tag and group vectors; so splitting costs the same few
 * bytes whatever the length of the batch. Each slice is started, moved to all
 * places of all rows at once, and ended; what failed is taken back, and said to
 * be in doubt if bytes might still land.
 * Threads: a writing by one thread.
 */
#ifndef CLIENT_WRITE_H
#define CLIENT_WRITE_H
#include "client.h"

struct mci_writing {
    struct mc_client *client;
    const struct mc_replicate_config *config;
    struct mc_replicate_config own; /* what it is if the client asks for more */
    const struct mc_view *keys;
    int64_t *results;
    bool replaces;
    bool takes_any_memory;
    /* One of these. */
    const struct mc_view *values;
    const struct mc_span *spans;
    const struct mc_spans *lists;
    struct mci_memory_use use;
    struct mci_until until;
};

/* results: as mc_client_batch_put. After the deadline a row that has begun is
 * taken back, for which it may take 4 s more. Errors: those of the call; every
 * row holds it. */
MC_CHECK_RESULT enum mc_err mci_write(struct mci_writing *writing,
                                      size_t count);

/* mc_client_put_sessions_write, until something else than its timeout says; with
 * a deadline. */
MC_CHECK_RESULT enum mc_err
mci_put_sessions_write(struct mc_client *client,
                       struct mc_put_session *const *sessions,
                       const struct mc_fragments *fragments, size_t count,
                       const struct mci_until *until, int64_t *results_out);
#endif
