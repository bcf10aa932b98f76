/* SPDX-License-Identifier: Apache-2.0 */
/* media.h - the one place where what readers can get changes, and events begin.
 *
 * An event exists because, for a key, the set of (medium, version) that can be
 * read changed. mci_media_change is the only function that changes it: it sets
 * the media marks of records, appends to the event log, and notes per medium the
 * id of the last change. It allocates nothing.
 * Threads: under the lock of the key's shard.
 */
#ifndef MEDIA_H
#define MEDIA_H
#include "core.h"

/* What one change of one key makes at most. */
#define MCI_MEDIA_EVENTS_MAX MCI_EVENT_LOG_GROUP_MAX

/* What stops and what begins to be readable; either may be NULL. */
struct mci_media_change {
    struct mci_record *from; /* the version that loses media */
    unsigned gone;           /* which of them */
    struct mc_view from_group;
    struct mc_view from_tag;
    struct mci_record *to; /* the version that gains media */
    unsigned come;
    struct mc_view to_group;
    struct mc_view to_tag;
    struct mc_view key;
    uint16_t tenant;
};

/* *reserved (NULL: nothing was reserved) is counted down by the events made. */
void mci_media_change(struct mci_master *master, struct mci_shard *shard,
                      const struct mci_media_change *change,
                      uint32_t *reserved);

/* Fills the side of a version from its label. */
void mci_media_from(struct mci_media_change *change, struct mci_record *from,
                    unsigned gone);
void mci_media_to(struct mci_media_change *change, struct mci_record *to,
                  unsigned come);

/* Id of the last change of a medium. */
uint64_t mci_media_id(const struct mci_record *record, enum mc_medium medium);

/* Room in the log for changes: taken before the shard lock, rest given back
 * after it. */
MC_CHECK_RESULT enum mc_err mci_media_reserve(struct mci_master *master,
                                              uint32_t events,
                                              enum mci_log_class cls,
                                              uint64_t deadline_ns,
                                              uint32_t *reserved_out);
void mci_media_unreserve(struct mci_master *master, uint32_t reserved);
#endif
