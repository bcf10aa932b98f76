/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Reserves address space with room to align, lays the file over it, and gives
 * back what stands out at both ends. */
void *mci_map_huge(int fd, uint64_t bytes)
{
    uint64_t reserved = bytes + MCI_HUGE_PAGE;
    uint8_t *space = mmap(NULL, reserved, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        return MAP_FAILED;
    }
    uint64_t lead =
        (MCI_HUGE_PAGE - (uintptr_t)space % MCI_HUGE_PAGE) % MCI_HUGE_PAGE;
    void *map = mmap(space + lead, bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, fd, 0);
    if (map == MAP_FAILED) {
        int why = errno;
        (void)munmap(space, reserved);
        errno = why;
        return MAP_FAILED;
    }
    if (lead > 0) {
        (void)munmap(space, lead);
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t used = (bytes + page - 1) / page * page;
    if (reserved - lead > used) {
        (void)munmap(space + lead + used, reserved - lead - used);
    }
    return map;
}
