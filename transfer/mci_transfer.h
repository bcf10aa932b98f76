/* SPDX-License-Identifier: Apache-2.0 */
/* mci_transfer.h - what the rooms of this project may do with a transfer, and
 * others may not.
 * Threads: any thread, but close.
 */
#ifndef MCI_TRANSFER_H
#define MCI_TRANSFER_H
#include "mc_transfer.h"

/* As mc_transfer_run; once *canceled is not 0 it returns soon, as a canceled
 * batch completes. */
enum mc_err mci_transfer_run(struct mc_transfer *transfer,
                             struct mc_transfer_row *rows, size_t count,
                             uint64_t deadline_ns, const _Atomic int *canceled);
#endif
