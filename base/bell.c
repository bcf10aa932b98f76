/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mci_bell.h"

void mci_bell_init(struct mci_bell *bell)
{
    bell->fd = -1;
}

void mci_bell_fini(struct mci_bell *bell)
{
    if (bell->fd >= 0) {
        (void)close(bell->fd);
    }
    bell->fd = -1;
}

void mci_bell_ring(const struct mci_bell *bell)
{
    uint64_t one = 1;
    /* It can only be full, and rings then. */
    if (bell->fd >= 0) {
        ssize_t written = write(bell->fd, &one, sizeof one);
        (void)written;
    }
}

void mci_bell_silence(const struct mci_bell *bell)
{
    uint64_t count;
    if (bell->fd >= 0) { /* it can only be silent already */
        ssize_t taken = read(bell->fd, &count, sizeof count);
        (void)taken;
    }
}

int mci_bell_fd(struct mci_bell *bell, bool rings)
{
    if (bell->fd < 0) {
        bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (rings) {
            mci_bell_ring(bell);
        }
    }
    return bell->fd;
}
