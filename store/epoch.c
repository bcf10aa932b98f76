/* SPDX-License-Identifier: Apache-2.0 */
#include "epoch.h"

#include <sys/random.h>

#include "mci_clock.h"

#define RANDOM_BITS 16

uint64_t mci_epoch_make(void)
{
    uint16_t dice = 0;
    if (getrandom(&dice, sizeof dice, GRND_NONBLOCK) != (ssize_t)sizeof dice) {
        dice = (uint16_t)mci_clock_ns();
    }
    return mci_clock_wall_ms() << RANDOM_BITS | dice;
}
