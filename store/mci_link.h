/* SPDX-License-Identifier: Apache-2.0 */
/* mci_link.h - how a client reaches its master.
 *
 * A small table of functions with what mci_master.h says of each. The direct
 * link calls a master in the same process; a link over a framed socket has the
 * same functions. Codes of the link itself (-900, -901) come as a refusal of the
 * whole call, and stand in every row. A batch of starts, ends or removes over
 * 64 MiB goes in several messages: once one was answered, the call answers MC_OK,
 * and such a code may stand in the later rows.
 * Threads: any thread.
 */
#ifndef MCI_LINK_H
#define MCI_LINK_H
#include "mci_master.h"

struct mci_link_ops {
    enum mc_err (*put_start)(void *ctx, const struct mci_call *call,
                             const struct mc_replicate_config *config,
                             struct mci_write_row *rows, size_t count);
    enum mc_err (*upsert_start)(void *ctx, const struct mci_call *call,
                                const struct mc_replicate_config *config,
                                struct mci_write_row *rows, size_t count);
    enum mc_err (*put_end)(void *ctx, const struct mci_call *call,
                           struct mci_write_row *rows, size_t count);
    enum mc_err (*put_revoke)(void *ctx, const struct mci_call *call,
                              struct mci_write_row *rows, size_t count);
    enum mc_err (*get)(void *ctx, const struct mci_call *call,
                       struct mci_read_row *rows, size_t count);
    void (*release)(void *ctx, struct mci_read_row *rows, size_t count);
    /* Leases with names that get took (want_lease). */
    enum mc_err (*lease_renew)(void *ctx, const struct mci_call *call,
                               struct mci_read_row *rows, size_t count);
    enum mc_err (*lease_release)(void *ctx, const struct mci_call *call,
                                 struct mci_read_row *rows, size_t count);
    /* The direct link only; -1012 over a socket, where nothing can be held.
     * Given back by release. */
    enum mc_err (*lease_hold)(void *ctx, const struct mci_call *call,
                              struct mci_read_row *rows, size_t count);
    enum mc_err (*exist)(void *ctx, const struct mci_call *call,
                         const struct mc_view *keys, size_t count,
                         int64_t *results_out);
    enum mc_err (*get_size)(void *ctx, const struct mci_call *call,
                            const struct mc_view *keys, size_t count,
                            int64_t *results_out);
    enum mc_err (*probe)(void *ctx, const struct mci_call *call,
                         const struct mc_view *keys, size_t count,
                         struct mc_probe *probes_out, int64_t *results_out);
    enum mc_err (*remove)(void *ctx, const struct mci_call *call,
                          const struct mc_view *keys, size_t count, bool force,
                          int64_t *results_out);
    enum mc_err (*remove_by_regex)(void *ctx, const struct mci_call *call,
                                   struct mc_view regex, bool force,
                                   uint64_t *removed_out);
    enum mc_err (*remove_all)(void *ctx, const struct mci_call *call,
                              bool force, uint64_t *removed_out);
    /* Tenant: none = of all tenants; what the call says is not looked at. */
    enum mc_err (*list)(void *ctx, const struct mci_call *call,
                        struct mc_view tenant, struct mci_cursor *cursor,
                        struct mci_page *page);
    enum mc_err (*stat)(void *ctx, const struct mci_call *call,
                        struct mci_master_stats *stats_out);
    /* What became of attempts of this client. */
    enum mc_err (*attempt_fate)(void *ctx, const struct mci_call *call,
                                const struct mci_attempt *attempts,
                                size_t count, enum mci_fate *fates_out);
    /* Says that the writer is still at it. Rows, of which key and attempt are
     * looked at: 0, -300 (not open). */
    enum mc_err (*attempt_touch)(void *ctx, const struct mci_call *call,
                                 struct mci_write_row *rows, size_t count);
};

struct mci_master_link {
    const struct mci_link_ops *ops;
    void *ctx;
};

/* A link to a master in this process, which is borrowed. */
struct mci_master_link mci_link_direct(struct mci_master *master);
#endif
