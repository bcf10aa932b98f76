/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - rows on their way through the engine: checked, handed to transports,
 * counted.
 *
 * prepare and finish belong together: in between the memory that rows name stays
 * registered. A row that prepare refused has MC_ERR_INVALID_PARAMS, and no other
 * row ever has.
 * Threads: a set of rows is one thread's at a time.
 */
#ifndef ROWS_H
#define ROWS_H
#include "engine.h"

struct mci_rows {
    struct mc_transfer *transfer;
    struct mc_transfer_row *rows;
    size_t count;
    uint64_t deadline_ns;
    const _Atomic int *canceled;
    bool is_seal;
};

void mci_rows_prepare(const struct mci_rows *rows);
void mci_rows_move(const struct mci_rows *rows);
/* MC_OK: every row is; else MC_ERR_TRANSFER_FAIL. */
enum mc_err mci_rows_finish(const struct mci_rows *rows);
#endif
