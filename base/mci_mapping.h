/* SPDX-License-Identifier: Apache-2.0 */
/* mci_mapping.h - memory that is a file's, at addresses that huge pages like.
 * Threads: any thread.
 */
#ifndef MCI_MAPPING_H
#define MCI_MAPPING_H
#include <stddef.h>
#include <stdint.h>

#define MCI_HUGE_PAGE UINT64_C(0x200000)

/* Maps the first `bytes` of a file for reading and writing, shared, at a multiple
 * of a huge page: only there can the system lay huge pages under it. MAP_FAILED
 * with errno. The caller ends it with munmap. */
void *mci_map_huge(int fd, uint64_t bytes);
#endif
