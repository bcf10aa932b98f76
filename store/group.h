/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - objects that are leased and evicted together.
 *
 * A group is an object of its own with a deadline: a read of one member leases
 * all. Labels of members, and of attempts to become one, count it; it goes with
 * the last of them.
 * Threads: any thread. get and put take a leaf lock and must not be called under
 * a shard's; all else is called under the shard lock of the member.
 */
#ifndef GROUP_H
#define GROUP_H
#include "core.h"

/* The group of an id, made if there is none; counted. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_group_get(struct mci_master *master,
                                          uint16_t tenant, struct mc_view id,
                                          struct mci_group **group_out);
void mci_group_put(struct mci_master *master, struct mci_group *group);

struct mc_view mci_group_id(const struct mci_group *group);

/* The group of a label, NULL if ungrouped; the id, "none" if so. */
struct mci_group *mci_group_of(const struct mci_label *label);
struct mc_view mci_label_group_id(const struct mci_label *label);

void mci_group_join(struct mci_label *label, uint64_t ref);
void mci_group_leave(struct mci_label *label);

/* The member stands in another record now. */
void mci_group_move(struct mci_label *label, uint64_t ref);

static inline void mci_group_lock(struct mci_group *group)
{
    (void)pthread_mutex_lock(&group->lock);
}
static inline void mci_group_unlock(struct mci_group *group)
{
    (void)pthread_mutex_unlock(&group->lock);
}
#endif
