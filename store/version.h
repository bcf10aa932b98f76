/* SPDX-License-Identifier: Apache-2.0 */
/* version.h - what records go through: open, readable, unlinked, gone.
 *
 * Unlinking is immediate and makes the events; the space is given back when no
 * lease and no hold is left, through limbo where it must wait. Nothing here
 * allocates.
 * Threads: under the lock of the shard. What is to be given back is added to
 * leavings, cleared by the caller once it has left the lock.
 */
#ifndef VERSION_H
#define VERSION_H
#include "core.h"

/* ---- finding ---------------------------------------------------------- */

void mci_spot_make(const struct mci_master *master, uint16_t tenant,
                   struct mc_view key, struct mci_spot *spot_out);
void mci_spot_of(const struct mci_master *master,
                 const struct mci_record *record, struct mci_spot *spot_out);

/* The version of a chain that was published and not unlinked, 0 if there is
 * none. Its events say that it is readable. */
uint32_t mci_chain_linked(const struct mci_shard *shard,
                          const struct mci_slot *slot);

/* Whether the bytes of a version can be had: on disk with a client that lives,
 * or in space that is not gone. */
bool mci_version_is_there(struct mci_master *master,
                          const struct mci_shard *shard, uint32_t index);

/* The linked version of a chain, if its bytes are there or if they are not. From
 * the moment that they are not, the key does not exist for anyone, though
 * unlinking all such versions takes a while. */
uint32_t mci_chain_readable(struct mci_master *master,
                            const struct mci_shard *shard,
                            const struct mci_slot *slot);
uint32_t mci_chain_gone(struct mci_master *master,
                        const struct mci_shard *shard,
                        const struct mci_slot *slot);

/* Whether a put or an upsert is open; promotions are not writes. */
bool mci_chain_is_written(const struct mci_shard *shard,
                          const struct mci_slot *slot);

/* The attempt of a number that is open or in quarantine, 0 if there is none. */
uint32_t mci_chain_attempt(const struct mci_shard *shard,
                           const struct mci_slot *slot, uint64_t number);

/* Puts a record into a chain: a readable one first, others behind it. */
void mci_chain_add(struct mci_shard *shard, struct mci_slot *slot,
                   uint32_t index);

/* Takes a record out of its chain, the slot with the last one. */
void mci_chain_remove(struct mci_master *master, struct mci_shard *shard,
                      struct mci_slot *slot, uint32_t index);

/* The next copy of a version: its own record first; 0 at the end. Copies that
 * are only on disk have none. */
uint32_t mci_copy_first(const struct mci_shard *shard, uint32_t index);
uint32_t mci_copy_next(const struct mci_shard *shard, uint32_t copy);

/* Tells in a row what and where a version is. */
void mci_version_tell(struct mci_master *master, const struct mci_shard *shard,
                      uint32_t index, struct mci_read_row *row);

/* ---- changing --------------------------------------------------------- */

struct mci_change {
    struct mci_master *master;
    struct mci_shard *shard;
    struct mci_slot *slot; /* of the key */
    uint64_t now_ns;
    uint32_t *reserved; /* events; NULL: none */
    struct mci_leavings *leavings;
};

/* What its memory copies are charged with. */
uint64_t mci_version_copy_bytes(const struct mci_shard *shard, uint32_t index);

/* A use: its copies go to the tails of their lanes. */
void mci_version_used(struct mci_master *master, struct mci_shard *shard,
                      uint32_t index);

/* Gives back the copies of an attempt that stand on closed segments and answers
 * how many are left. */
uint32_t mci_attempt_shed(const struct mci_change *change, uint32_t index);

/* An open attempt, out of the open queue, becomes the readable version; the
 * former one is unlinked, and what is to be kept of it is inherited. */
void mci_version_publish(const struct mci_change *change, uint32_t index,
                         bool is_spent);

/* An open promotion's copy becomes the memory copy of a version that is only on
 * disk; the version stands in the promotion's record from then on. */
void mci_attempt_promote(const struct mci_change *change, uint32_t index,
                         uint32_t target, bool is_spent);

/* A readable version is unlinked with all its copies. */
void mci_version_unlink(const struct mci_change *change, uint32_t index);

/* Unlinks the key's version if it is gone; change->slot is NULL if it was all
 * that the key had. Makes an event for each medium. */
void mci_version_oust(struct mci_change *change);

/* With this memory copy the version would go. */
bool mci_version_hangs_on(const struct mci_shard *shard, uint32_t index,
                          uint32_t copy);

/* One memory copy of a readable version goes; with the last copy, the
 * version. */
void mci_version_drop_copy(const struct mci_change *change, uint32_t index,
                           uint32_t copy);

/* The copy on disk goes; likewise. */
void mci_version_drop_disk(const struct mci_change *change, uint32_t index);

/* The client that has the version on disk, if any, has one copy less. */
void mci_version_leave_disk(struct mci_master *master,
                            const struct mci_record *record);

/* An unlinked record waits for its leases and holds, or goes at once. */
void mci_version_retire(const struct mci_change *change, uint32_t index);

/* One of the holds or named leases that a record in state HELD waited for is
 * gone: with the last of them it is freed. */
void mci_version_let_go(struct mci_shard *shard, uint32_t index,
                        struct mci_leavings *leavings);

/* Whether holds or named leases keep an unlinked record whose deadline is past. */
bool mci_version_is_kept(const struct mci_shard *shard,
                         const struct mci_record *record);

/* A sign of life of an open attempt's writer. */
void mci_attempt_used(const struct mci_change *change, uint32_t index,
                      uint64_t now_ns);

/* An open attempt ends without a trace, and its fate is settled; its space is
 * kept back until until_ns. In doubt: it stays where it is. */
void mci_attempt_discard(const struct mci_change *change, uint32_t index,
                         enum mci_fate fate, uint64_t until_ns);
void mci_attempt_doubt(const struct mci_change *change, uint32_t index);

/* Marks the first attempt in doubt that was not told yet, shard->untold, as told
 * and answers it. */
uint32_t mci_doubt_told(struct mci_master *master, struct mci_shard *shard);

/* An attempt that was in doubt is no more. */
void mci_attempt_proven(const struct mci_change *change, uint32_t index);

/* Gives back a record in no list: its space, its label, its place. */
void mci_record_free(struct mci_shard *shard, uint32_t index,
                     struct mci_leavings *leavings);

/* Counts an unlinked version's space out of the waiting and frees it. */
void mci_limbo_free(struct mci_shard *shard, uint32_t index,
                    struct mci_leavings *leavings);

/* Enters or leaves the lanes with all copies. */
void mci_version_enter_lanes(struct mci_master *master, struct mci_shard *shard,
                             uint32_t index);
void mci_version_leave_lanes(struct mci_master *master, struct mci_shard *shard,
                             uint32_t index);
#endif
