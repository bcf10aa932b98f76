/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "group.h"
#include "space.h"

void mci_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;
    (void)pthread_mutexattr_init(&attr);
#ifdef __GLIBC__
    /* What is done under these locks takes less than going to sleep does. */
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    (void)pthread_mutex_init(lock, &attr);
    (void)pthread_mutexattr_destroy(&attr);
}

void mci_leavings_range(struct mci_leavings *leavings, uint16_t segment,
                        uint32_t extent, uint64_t bytes)
{
    assert(leavings->range_count < MCI_LEAVINGS_RANGES);
    struct mci_range *range = &leavings->ranges[leavings->range_count++];
    range->segment = segment;
    range->extent = extent;
    range->bytes = bytes;
}

void mci_leavings_label(struct mci_leavings *leavings, struct mci_label *label)
{
    if (label) {
        assert(leavings->label_count < MCI_LEAVINGS_LABELS);
        leavings->labels[leavings->label_count++] = label;
    }
}

void mci_leavings_group(struct mci_leavings *leavings, struct mci_group *group)
{
    if (group) {
        assert(leavings->group_count < MCI_LEAVINGS_LABELS);
        leavings->groups[leavings->group_count++] = group;
    }
}

void mci_leavings_clear(struct mci_master *master,
                        struct mci_leavings *leavings)
{
    for (uint32_t i = 0; i < leavings->range_count; i++) {
        mci_space_free(master, &leavings->ranges[i]);
    }
    for (uint32_t i = 0; i < leavings->group_count; i++) {
        mci_group_put(master, leavings->groups[i]);
    }
    for (uint32_t i = 0; i < leavings->label_count; i++) {
        mci_label_destroy(leavings->labels[i]);
    }
    mci_leavings_init(leavings);
}
