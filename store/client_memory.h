/* SPDX-License-Identifier: Apache-2.0 */
/* client_memory.h - the caller's memory that calls may name without copying.
 *
 * A table of ranges, none of which overlap; the same range again is counted. A
 * call that names a range uses it until it is over, and unregistering waits for
 * that, so that nobody touches memory which its owner has taken back.
 * Threads: any thread.
 */
#ifndef CLIENT_MEMORY_H
#define CLIENT_MEMORY_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"

struct mci_memory_range;

struct mci_memory {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mci_memory_range **ranges; /* by address; guarded by lock */
    uint32_t room;
    uint32_t wide_uses;     /* calls that use more ranges than they can list */
    _Atomic uint32_t count; /* written under lock */
};

MC_CHECK_RESULT enum mc_err mci_memory_init(struct mci_memory *memory);
void mci_memory_fini(struct mci_memory *memory);

/* Errors: -600 (NULL, 0, wrapping, overlapping another, being unregistered),
 * -11. */
MC_CHECK_RESULT enum mc_err mci_memory_add(struct mci_memory *memory,
                                           void *base, size_t len);
/* Errors: -600 (no range begins there), -901 (in use until the deadline). */
MC_CHECK_RESULT enum mc_err mci_memory_remove(struct mci_memory *memory,
                                              void *base, uint64_t deadline_ns);

/* How many bytes from there on lie within one range; 0: none does. */
size_t mci_memory_len(struct mci_memory *memory, const void *data);

/* What one call uses, on its stack; all zero at first. One that uses more than
 * MCI_MEMORY_USES_MAX ranges, or finds no memory to list them, uses all there are:
 * none is unregistered meanwhile. */
#define MCI_MEMORY_USES 8
#define MCI_MEMORY_USES_MAX 1024
struct mci_memory_use {
    struct mci_memory_range *few[MCI_MEMORY_USES];
    struct mci_memory_range **many; /* in place of few; or NULL */
    uint32_t room;                  /* of many */
    uint32_t count;
    bool is_wide;
};
/* True: the bytes lie within one range, which is in use until release. No bytes
 * lie anywhere. */
bool mci_memory_use(struct mci_memory *memory, struct mci_memory_use *use,
                    const void *data, size_t len);
void mci_memory_release(struct mci_memory *memory, struct mci_memory_use *use);
#endif
