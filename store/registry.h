/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - who the clients of a master process are, what they lend, and what
 * has to be proven before memory is used again.
 *
 * Stands beside the core, which knows clients and segments by number only: names,
 * incarnations, endpoints, keys and clocks are here, and so are the decisions
 * about life and death (SAFETY B.3, B.4, D). Members are counted; everything else
 * is guarded by one lock, a leaf but for the core calls that are made without it.
 * Takes now_ns with each call and does no I/O: the control server brings
 * heartbeats and requests, and a thread of it calls mci_registry_step.
 * Threads: any thread, but create and destroy.
 */
#ifndef REGISTRY_H
#define REGISTRY_H
#include "mci_control.h"
#include "mci_master.h"

struct mci_registry;

struct mci_registry_opts {
    struct mci_master *master; /* borrowed */
    uint64_t epoch;
    uint64_t client_ttl_ms; /* 0 = 10 s */
    uint64_t heartbeat_ms;  /* 0 = 1 s, at most a third of the ttl */
    /* A client's ttl is over or it left: for the metadata server. Without locks;
     * NULL: none. */
    void (*expired)(void *ctx, struct mc_view name);
    void *ctx;
};
MC_CHECK_RESULT enum mc_err
mci_registry_create(const struct mci_registry_opts *opts,
                    struct mci_registry **registry_out);
void mci_registry_destroy(struct mci_registry *registry);

/* ---- clients ----------------------------------------------------------- */

struct mci_member; /* a client incarnation; counted */

/* A new incarnation, or one that is known already (same incarnation: the same
 * answer). Errors: -102 (a living client has the name; ask again), -600 (a bad
 * name), -103 (this incarnation was expired), -1011/-1701 (tenant), -200, -11. */
MC_CHECK_RESULT enum mc_err mci_registry_hello(struct mci_registry *registry,
                                               const struct mci_hello *hello,
                                               uint64_t now_ns,
                                               struct mci_welcome *welcome_out);

/* The living member that a request names; the caller releases it. -103. */
MC_CHECK_RESULT enum mc_err mci_registry_member(struct mci_registry *registry,
                                                uint32_t client,
                                                uint64_t incarnation,
                                                struct mci_member **member_out);
void mci_member_release(struct mci_member *member);
uint32_t mci_member_client(const struct mci_member *member);

/* It leaves in good order: expired at once, its open attempts end in doubt only
 * if they are not known to be over. */
void mci_registry_goodbye(struct mci_registry *registry,
                          struct mci_member *member, uint64_t now_ns);

/* Its heartbeat connection was closed by the other side: it has two heartbeats
 * to come back. */
void mci_registry_hung_up(struct mci_registry *registry,
                          struct mci_member *member, uint64_t now_ns);

/* Takes in a heartbeat and fills the answer, whose arrays are in room. */
MC_CHECK_RESULT enum mc_err
mci_registry_heartbeat(struct mci_registry *registry, struct mci_member *member,
                       const struct mci_heartbeat *heartbeat, uint64_t now_ns,
                       struct mci_pulse_room *room,
                       struct mci_pulse *pulse_out);

/* ---- segments ---------------------------------------------------------- */

/* Errors: -600 (bytes 0, base 0, texts), -1010 (known, and on its way out),
 * -200, -11. The same id of the same member answers the same segment. */
MC_CHECK_RESULT enum mc_err mci_registry_mount(struct mci_registry *registry,
                                               struct mci_member *member,
                                               const struct mci_mount *mount,
                                               uint64_t now_ns,
                                               uint32_t *segment_out);
/* Without grace its placement stops and it is marked gone before this returns;
 * slices follow in step. With grace it stays readable that long. Unknown: 0.
 * -600: another member's. */
MC_CHECK_RESULT enum mc_err
mci_registry_unmount(struct mci_registry *registry, struct mci_member *member,
                     uint32_t segment, uint64_t grace_ms, uint64_t now_ns);
enum mci_segment_status
mci_registry_segment_status(struct mci_registry *registry, uint32_t segment);

/* Copies what is known of a segment; texts go to room. False: not mounted. */
struct mci_segment_texts {
    char name[MCI_NAME_LEN_MAX + 1];
    char endpoint[MCI_NAME_LEN_MAX + 1];
    char shm[MCI_NAME_LEN_MAX + 1];
    char protocol[MCI_NAME_LEN_MAX + 1];
    char host_id[MCI_NAME_LEN_MAX + 1];
};
bool mci_registry_segment(struct mci_registry *registry, uint32_t segment,
                          struct mci_segment_row *row_out,
                          struct mci_segment_texts *texts);
/* All of them, in order of number: up to max numbers above `after`. */
size_t mci_registry_segments(struct mci_registry *registry, uint32_t after,
                             uint32_t *segments_out, size_t max);

/* ---- attempts and grants ----------------------------------------------- */

/* After a start: fills in the rows' grants and remembers which request opened
 * each attempt. Rows that failed are passed over. -11: the caller revokes. -103:
 * its attempts are in doubt by now. */
MC_CHECK_RESULT enum mc_err
mci_registry_started(struct mci_registry *registry, struct mci_member *member,
                     uint32_t slot, uint64_t number, uint64_t time_left_ms,
                     struct mci_write_row *rows, size_t count, uint64_t now_ns);
/* After a get: the rows' grants. */
void mci_registry_granted(struct mci_registry *registry,
                          struct mci_member *member, struct mci_read_row *rows,
                          size_t count, uint64_t now_ns);
/* Before an end or revoke: checks receipts, sets is_spent. After it: forgets the
 * attempts that are over. */
void mci_registry_ending(struct mci_registry *registry,
                         struct mci_write_row *rows, size_t count);
void mci_registry_ended(struct mci_registry *registry,
                        struct mci_member *member,
                        const struct mci_write_row *rows, size_t count);
/* A request in a slot was given up before its answer was seen: what it started
 * is closed without quarantine, since nobody learned an address. was_told: so it
 * says, but the answer was sent; then ranges are kept back until the grants in it
 * are over. Called by the control server once the slot has moved on. */
void mci_registry_given_up(struct mci_registry *registry,
                           struct mci_member *member, uint32_t slot,
                           uint64_t number, bool was_told, uint64_t now_ns);

/* ---- background -------------------------------------------------------- */

/* This process itself stood still: what clients said meanwhile is still to be
 * read, so they have two heartbeats from now on before they are silent. */
void mci_registry_was_away(struct mci_registry *registry, uint64_t now_ns);

/* One bounded slice of what is due: expiries, graces, fences and their proofs,
 * segments on their way out. Returns when it wants to be called next (a time in
 * the past: at once). Waits for room in the event log until deadline_ns. */
uint64_t mci_registry_step(struct mci_registry *registry, uint64_t now_ns,
                           uint64_t deadline_ns);

struct mci_registry_stats {
    uint64_t clients;
    uint64_t segments;
    uint64_t expired_clients; /* ever, by their silence */
    uint64_t left_clients;    /* ever, in good order */
    uint64_t fences_open;     /* told or to be told, not acknowledged */
    uint64_t attempts;        /* open */
    uint64_t stuck;
    uint64_t bad_receipts;
};
void mci_registry_stat(struct mci_registry *registry,
                       struct mci_registry_stats *stats_out);
#endif
