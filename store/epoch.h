/* SPDX-License-Identifier: Apache-2.0 */
/* epoch.h - the number of a master's life: unix ms above 16 random bits, so that
 * it is unique and the greater one is the newer.
 * Threads: any thread.
 */
#ifndef EPOCH_H
#define EPOCH_H
#include <stdint.h>

uint64_t mci_epoch_make(void);
#endif
