/* SPDX-License-Identifier: Apache-2.0 */
/* caller.h - what every call begins with: who asks, about what, and is it well
 * formed.
 * Threads: any thread; no lock may be held.
 */
#ifndef CALLER_H
#define CALLER_H
#include "core.h"

/* Errors: -600 (empty, NULL), -400 (too long, a NUL in it, not UTF-8). */
MC_CHECK_RESULT enum mc_err mci_key_check(struct mc_view key);

/* Errors: -600, -1601. Vectors are not looked at. NULL is fine. */
MC_CHECK_RESULT enum mc_err
mci_config_check(const struct mci_master *master,
                 const struct mc_replicate_config *config);

/* The tenant of a living client's call; NULL if it has none yet and `make` is
 * not set. Errors: -103, and those of mci_tenant_find. */
MC_CHECK_RESULT enum mc_err mci_call_begin(struct mci_master *master,
                                           const struct mci_call *call,
                                           bool make,
                                           struct mci_tenant **tenant_out);

/* A walk may take its next step. */
static inline bool mci_call_goes_on(const struct mci_call *call)
{
    return !call->goes_on || call->goes_on(call->goes_on_ctx);
}

/* Puts a call's refusal into every row. */
void mci_results_fill(int64_t *results, size_t count, enum mc_err err);
void mci_rows_fill(struct mci_write_row *rows, size_t count, enum mc_err err);
#endif
