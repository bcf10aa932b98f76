/* SPDX-License-Identifier: Apache-2.0 */
/* writer.h - client incarnations: their attempts' numbers and fates.
 *
 * An attempt's number is its client's id above a serial of that client; ids are
 * used again, serials go on, so no number comes twice. Named leases have numbers of
 * the same form, and an id waits until the last of its leases is gone. Fates are two bits and a
 * generation in one atomic byte for each of the last MCI_FATES attempts.
 * Threads: any thread.
 */
#ifndef WRITER_H
#define WRITER_H
#include "core.h"

/* The writer of a living client, else NULL. */
struct mci_writer *mci_writer_of(struct mci_master *master, uint32_t client);

/* The writer of a client, expired or not; NULL if the id never was used. */
struct mci_writer *mci_writer_at(struct mci_master *master, uint32_t client);

/* One more attempt may be open. Errors: -103, -200 (too many), -11. */
MC_CHECK_RESULT enum mc_err mci_writer_admit(struct mci_writer *writer);
void mci_writer_leave(struct mci_writer *writer);

/* The number of a new attempt, whose fate is open now. */
uint64_t mci_writer_number(struct mci_writer *writer);

/* The number of one more named lease. Errors: -200 (too many). */
MC_CHECK_RESULT enum mc_err mci_writer_lease(struct mci_writer *writer,
                                             uint64_t *number_out);
/* One that is dropped. */
void mci_writer_unlease(struct mci_writer *writer);

static inline uint32_t mci_number_client(uint64_t number)
{
    return (uint32_t)(number >> MCI_SERIAL_BITS);
}

enum mci_fate mci_fate_get(struct mci_master *master, uint64_t number);

/* Settles an open attempt's fate and lets its writer have another one. */
void mci_fate_settle(struct mci_master *master, uint64_t number,
                     enum mci_fate fate);

void mci_writers_fini(struct mci_master *master);
#endif
