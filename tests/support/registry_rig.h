/* SPDX-License-Identifier: Apache-2.0 */
/* registry_rig.h - a registry beside a store core in the hand of a test, with
 * members that say what the test lets them say.
 *
 * What a control server does with a request is done here in the same order: a
 * start through the core, then its grants; receipts are checked before an end,
 * and the book is told after it. Each member has a clock of its own and carries
 * out fences when it is told to. The clock of the rig stands still.
 */
#ifndef REGISTRY_RIG_H
#define REGISTRY_RIG_H
#include "registry.h"
#include "store_rig.h"

#define TTL_MS 10000
#define BEAT_MS 1000
#define FELLOW_KNOWN 256

struct cast {
    struct rig rig; /* with one client in this process, without a segment */
    struct mci_registry *registry;
    struct mci_pulse_room room;
    uint64_t next_incarnation;
    uint32_t expired_count; /* names that `expired` was called with */
    char expired[64];       /* the last one */
};

struct fellow {
    struct cast *cast;
    struct mci_member *member;
    uint32_t client;
    uint64_t incarnation;
    uint64_t clock_ahead_ns; /* of the rig's */
    uint64_t slots[MCI_SLOTS_MAX];
    uint32_t slot_count;
    uint64_t fences_done;
    struct mci_known_attempt known[FELLOW_KNOWN];
    uint32_t known_count;
    struct mci_stuck stuck[8];
    uint32_t stuck_count;
    struct mci_pulse pulse; /* the latest answer */
    uint64_t mounts;        /* so far: ids and keys */
    uint32_t segment;       /* the last one */
    uint8_t key[MC_GRANT_KEY_LEN];
    uint64_t registration;
};

struct cast_opts {
    struct rig_opts rig;
    uint64_t heartbeat_ms; /* 0 = BEAT_MS */
};
void cast_open(struct cast *cast, const struct cast_opts *opts);
void cast_close(struct cast *cast); /* looks whether the core is sound */
/* Steps until there is nothing more to be done now; at most that many. */
void cast_settle(struct cast *cast);
uint64_t cast_step(struct cast *cast);
struct mci_registry_stats cast_stats(struct cast *cast);

/* A hello, with a new incarnation if fellow->incarnation is 0. */
enum mc_err fellow_hello(struct cast *cast, struct fellow *fellow,
                         const char *name);
/* hello and a heartbeat; lends that much, 0: nothing. */
void fellow_join(struct cast *cast, struct fellow *fellow, const char *name,
                 uint64_t bytes);
void fellow_leave(struct fellow *fellow); /* gives back the reference */
enum mc_err fellow_mount(struct fellow *fellow, uint64_t bytes);
/* Of what it lent last. */
enum mc_err fellow_unmount(struct fellow *fellow, uint64_t grace_ms);
enum mc_err fellow_beat(struct fellow *fellow);
/* Carries out what the latest pulse told: says so with the next beat. */
void fellow_fence(struct fellow *fellow);
void fellow_know(struct fellow *fellow, const struct mci_write_row *row,
                 uint64_t age_ms);
void fellow_forget(struct fellow *fellow);

struct mci_call fellow_call(const struct fellow *fellow);
/* A start by the next request in this slot; knows the attempt from then on. */
struct mci_write_row fellow_start(struct fellow *fellow, uint32_t slot,
                                  const char *spec, uint64_t size);
enum mc_err fellow_end(struct fellow *fellow, struct mci_write_row *row);
enum mc_err fellow_revoke(struct fellow *fellow, struct mci_write_row *row,
                          bool in_doubt);
/* As the owners of its places would answer. */
void fellow_receipt(const struct fellow *owner, struct mci_write_row *row);
enum mc_err fellow_put(struct fellow *fellow, const char *spec, uint64_t size);
#endif
