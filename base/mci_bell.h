/* SPDX-License-Identifier: Apache-2.0 */
/* mci_bell.h - a descriptor for poll and epoll that is readable while something
 * waits to be taken.
 *
 * An eventfd, made when it is first asked for. Whoever has the bell rings it when
 * the first thing comes and silences it when the last one is taken.
 * Threads: guarded by whoever has it.
 */
#ifndef MCI_BELL_H
#define MCI_BELL_H
#include <stdbool.h>

struct mci_bell {
    int fd; /* -1: not made yet */
};

void mci_bell_init(struct mci_bell *bell);
void mci_bell_fini(struct mci_bell *bell);

/* The bell's own, do not close; -1 if it cannot be made. rings: as it would be if
 * it had been made before. */
int mci_bell_fd(struct mci_bell *bell, bool rings);

void mci_bell_ring(const struct mci_bell *bell);
void mci_bell_silence(const struct mci_bell *bell);
#endif
