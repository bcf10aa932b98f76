/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mc_log.h"
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
    if (bell->fd >= 0 &&
        write(bell->fd, &one, sizeof one) != (ssize_t)sizeof one) {
        mc_log(MC_LOG_DEBUG, "eventfd: %s", strerror(errno));
    }
}

void mci_bell_silence(const struct mci_bell *bell)
{
    uint64_t count;
    if (bell->fd >= 0 && read(bell->fd, &count, sizeof count) < 0 &&
        errno != EAGAIN) {
        mc_log(MC_LOG_DEBUG, "eventfd: %s", strerror(errno));
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
