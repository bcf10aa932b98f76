/* SPDX-License-Identifier: Apache-2.0 */
/* mci_master.h - the store core: who may read what, where it stands, and what
 * has to go.
 *
 * The master holds metadata only: objects by (tenant, key), their versions and
 * open attempts, leases, groups, tenants, the free space of segments, and the
 * order in which things are evicted. Bytes are the clients' business. It does no
 * I/O: time comes in with each call, events go to the event log it was made on,
 * and background work is a step that some thread calls. The embedded client and
 * the control server are its two users.
 *
 * A write is an attempt: put_start or upsert_start hands out space and the
 * attempt's id, put_end makes the bytes readable, put_revoke gives them back. A
 * version is what a successful attempt made; its number is the attempt's.
 *
 * Batches are arrays of rows with a code per row; a call returns other than
 * MC_OK only when it was refused as a whole, and then every row holds that code
 * and nothing has changed. A row that answers -11 or -901 has changed nothing.
 * End, revoke and remove, eviction, sweep and destroy allocate nothing.
 *
 * Lock order: shard -> group -> event log; the locks of segments (their free
 * space), of the tables of tenants, groups, segments and clients are leaves,
 * never taken under a shard lock. docs/threads.md has the list.
 * Threads: any thread, but create and destroy.
 */
#ifndef MCI_MASTER_H
#define MCI_MASTER_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_client.h"
#include "mc_err.h"
#include "mci_event_log.h"
#include "mci_row.h"

#define MCI_SEGMENTS_MAX 4096   /* mounted at a time */
#define MCI_CLIENTS_MAX 1048575 /* registered at a time */
#define MCI_SHARDS_MAX 65536

struct mci_master;

struct mci_master_opts {
    struct mc_store_opts store;
    struct mci_event_log *log; /* borrowed, outlives the master; its epoch is
                                  the master's */
    uint32_t shards;           /* a power of two; 0 = by expected_bytes */
    uint64_t expected_bytes;   /* space that will be lent; 0 = much */
    uint64_t seed;             /* of the hash; 0 = random */
};

/* Makes a master without segments or clients; `cleared` of the default tenant
 * is the log's first record. The caller owns it.
 * Errors: MC_ERR_INVALID_PARAMS (an option out of range), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_master_create(const struct mci_master_opts *opts,
                  struct mci_master **master_out);
/* Everything goes, without events. No call may be under way. */
void mci_master_destroy(struct mci_master *master);

/* What every call of a client brings along. */
struct mci_call {
    uint32_t client;       /* from mci_master_client_add */
    struct mc_view tenant; /* none or empty = "default" */
    uint64_t now_ns;       /* of mci_clock_ns */
    uint64_t deadline_ns;  /* longest wait for room in the event log */
    /* Asked between the steps of a walk (remove_by_regex, remove_all); false:
     * it ends there, with -901. NULL: always true. */
    bool (*goes_on)(void *ctx);
    void *goes_on_ctx;
};

/* Whether calls may name this tenant. Errors: -600 (a bad name), -1011. */
MC_CHECK_RESULT enum mc_err mci_master_tenant_check(struct mci_master *master,
                                                    struct mc_view tenant);

/* Errors: -600 (too long, not UTF-8). None and empty are fine. Pure. */
MC_CHECK_RESULT enum mc_err mci_group_id_check(struct mc_view group_id);

/* ---- clients and segments --------------------------------------------- */

/* A client incarnation. Errors: MC_ERR_NO_AVAILABLE_HANDLE (too many),
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_master_client_add(struct mci_master *master,
                                                  uint32_t *client_out);

/* The client is gone: from now on its calls answer -103 and its open attempts
 * do not stand in anybody's way. Its segments are closed. Work that is left is
 * done by mci_master_client_step. */
void mci_master_client_expire(struct mci_master *master, uint32_t client);

/* One slice of a client's expiry: its segments' versions, its disk copies, its
 * open attempts (which end in doubt). *done_out: nothing is left but ranges in
 * quarantine. Errors: MC_ERR_RPC_TIMEOUT (the log had no room; call again). */
MC_CHECK_RESULT enum mc_err
mci_master_client_step(struct mci_master *master, uint32_t client,
                       uint64_t now_ns, uint64_t deadline_ns, bool *done_out);

/* It is proven that nothing of this expired client can write any more: its
 * ranges leave quarantine and its id may be used again. */
void mci_master_client_fenced(struct mci_master *master, uint32_t client);

/* As client_add, with the host on which it runs, for placing near it; a host of
 * none or empty is nobody's neighbour. At most MCI_HOST_LEN_MAX bytes count. */
#define MCI_HOST_LEN_MAX 255
MC_CHECK_RESULT enum mc_err mci_master_client_add_on(struct mci_master *master,
                                                     struct mc_view host,
                                                     uint32_t *client_out);

struct mci_lent {
    const char *name; /* a label; copies go to distinct ones. Copied */
    uint64_t bytes;
    uint32_t client; /* whose it is */
    bool is_shut;    /* nothing is placed there until it is admitted */
};

/* Lends space. Errors: MC_ERR_INVALID_PARAMS (0 bytes, or too many),
 * MC_ERR_CLIENT_NOT_FOUND, MC_ERR_NO_AVAILABLE_HANDLE, MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_master_segment_add(struct mci_master *master,
                                                   const struct mci_lent *lent,
                                                   uint32_t *segment_out);

/* Marks a segment gone: nothing is placed there, ends do not count copies
 * there. Unknown ids are fine. */
void mci_master_segment_close(struct mci_master *master, uint32_t segment);

/* Whether copies are placed there from now on; those that are there stay, and
 * ends still count them. Nothing for closed ones and unknown ids. */
void mci_master_segment_admit(struct mci_master *master, uint32_t segment,
                              bool is_admitted);

/* What a segment has and what of it is handed out. False: unknown. */
bool mci_master_segment_usage(struct mci_master *master, uint32_t segment,
                              uint64_t *bytes_out, uint64_t *used_out);

/* One slice of a closed segment: at most mci_event_log_slice copies go. Errors
 * as mci_master_client_step. *done_out: no readable copy is there any more. */
MC_CHECK_RESULT enum mc_err
mci_master_segment_step(struct mci_master *master, uint32_t segment,
                        uint64_t now_ns, uint64_t deadline_ns, bool *done_out);

/* ---- writing ---------------------------------------------------------- */

/* Opens an attempt per row. config may be NULL; its vectors are not looked at,
 * the rows' are; the first bad id refuses the whole call with -600.
 * Rows: -705 (put: something readable is there, or another put of a living
 * client is open), -200 (no room), -400, -600, -901 (making room waited for the
 * event log in vain), -11.
 * Errors: -600, -1601, -1012 (config), -103, -1011 (tenant), -1701 (tenants). */
MC_CHECK_RESULT enum mc_err
mci_master_put_start(struct mci_master *master, const struct mci_call *call,
                     const struct mc_replicate_config *config,
                     struct mci_write_row *rows, size_t count);
MC_CHECK_RESULT enum mc_err
mci_master_upsert_start(struct mci_master *master, const struct mci_call *call,
                        const struct mc_replicate_config *config,
                        struct mci_write_row *rows, size_t count);

/* Makes the bytes readable; of either kind of attempt. Rows with attempt number
 * 0 are passed over and keep their code. Rows: 0 (also for a repeated end of
 * what was committed or dropped), -300 (not an open attempt of this client and
 * key), -600 (an upsert names another group than the one the key has by now),
 * -901. */
MC_CHECK_RESULT enum mc_err mci_master_put_end(struct mci_master *master,
                                               const struct mci_call *call,
                                               struct mci_write_row *rows,
                                               size_t count);

/* Ends without a trace. Rows as put_end; 0 for what is already revoked or was
 * dropped, -300 for what was committed. */
MC_CHECK_RESULT enum mc_err mci_master_put_revoke(struct mci_master *master,
                                                  const struct mci_call *call,
                                                  struct mci_write_row *rows,
                                                  size_t count);

enum mci_fate mci_master_attempt_fate(struct mci_master *master,
                                      uint32_t client,
                                      struct mci_attempt attempt);

/* Says that the writer still is at it. -300 if the attempt is not open. */
MC_CHECK_RESULT enum mc_err
mci_master_attempt_touch(struct mci_master *master, const struct mci_call *call,
                         struct mc_view key, struct mci_attempt attempt);

/* ---- attempts without their writers ------------------------------------ */

/* These name an attempt by its number and by where the core keeps it, which the
 * row of its start told (row.ref); answer -300 when it is not open any more.
 *
 * alive: as touch. abandon: ends without a trace; its range is kept back until
 * until_ns, past: it is free at once. doubt: ends in doubt. is_open: however
 * long ago it was started, when its fate may be unknown. */
bool mci_master_attempt_is_open(struct mci_master *master, uint64_t ref,
                                uint64_t number);
MC_CHECK_RESULT enum mc_err mci_master_attempt_alive(struct mci_master *master,
                                                     uint64_t ref,
                                                     uint64_t number,
                                                     uint64_t now_ns);
MC_CHECK_RESULT enum mc_err
mci_master_attempt_abandon(struct mci_master *master, uint64_t ref,
                           uint64_t number, uint64_t until_ns, uint64_t now_ns);
MC_CHECK_RESULT enum mc_err mci_master_attempt_doubt(struct mci_master *master,
                                                     uint64_t ref,
                                                     uint64_t number,
                                                     uint64_t now_ns);

/* An attempt that ended in doubt. Its ranges are in quarantine until it is freed
 * by name, or its writer's revoke says that it is spent. */
struct mci_doubt {
    uint64_t ref;
    uint64_t number;
    uint64_t since_ns;
    uint64_t bytes; /* of one copy */
    uint32_t client;
    uint32_t place_count;
    uint32_t segments[MCI_REPLICAS_MAX]; /* only those that are not gone */
};

/* Tells those that were not told yet, each once; returns how many, less than max
 * when there are no more. */
size_t mci_master_doubts_take(struct mci_master *master,
                              struct mci_doubt *doubts_out, size_t max);

/* It is proven that nothing can be written there any more. What is not in doubt
 * (any more) is passed over. */
void mci_master_doubts_free(struct mci_master *master,
                            const struct mci_doubt *doubts, size_t count);

/* How long an attempt may be idle or stuck. */
uint64_t mci_master_release_ns(const struct mci_master *master);

/* ---- reading ---------------------------------------------------------- */

/* Answers where the bytes are and takes a lease; with want_lease one with a name,
 * which is the row's own. Rows: -704, -703 (being written), -400; -200
 * (MC_LEASES_MAX), -11 (both: a named one). */
MC_CHECK_RESULT enum mc_err mci_master_get(struct mci_master *master,
                                           const struct mci_call *call,
                                           struct mci_read_row *rows,
                                           size_t count);

/* Leases with names, which rows of get that want one took; by lease and version,
 * of the same client. A renewed one ends a read lease from now on, an hour after it
 * was taken at the latest; the row answers the time that is left, and anew what and
 * where the version is, which may be unlinked by now.
 * Rows: -707 (it is over, released, unknown or another client's, or all that is
 * left of the version stands on segments that are gone). */
MC_CHECK_RESULT enum mc_err mci_master_lease_renew(struct mci_master *master,
                                                   const struct mci_call *call,
                                                   struct mci_read_row *rows,
                                                   size_t count);

/* They end now; what nothing else keeps is free at once. Rows: 0, whatever they
 * name; their leases are cleared. */
MC_CHECK_RESULT enum mc_err
mci_master_lease_release(struct mci_master *master, const struct mci_call *call,
                         struct mci_read_row *rows, size_t count);

/* For readers in this process: holds the version while bytes of it are copied,
 * to be given back by mci_master_release; nothing where there is no copy in
 * memory. Answers as renew does, and extends nothing. Rows: -707. */
MC_CHECK_RESULT enum mc_err mci_master_lease_hold(struct mci_master *master,
                                                  const struct mci_call *call,
                                                  struct mci_read_row *rows,
                                                  size_t count);

/* As get, without lease, hold or count: for those who look and do not read.
 * Where the bytes are may be untrue as soon as it is told. */
MC_CHECK_RESULT enum mc_err mci_master_look(struct mci_master *master,
                                            const struct mci_call *call,
                                            struct mci_read_row *rows,
                                            size_t count);

/* Gives back the holds that rows took, and clears them. */
void mci_master_release(struct mci_master *master, struct mci_read_row *rows,
                        size_t count);

/* results: 1, 0, or -400. A hit takes the exist lease. */
MC_CHECK_RESULT enum mc_err mci_master_exist(struct mci_master *master,
                                             const struct mci_call *call,
                                             const struct mc_view *keys,
                                             size_t count,
                                             int64_t *results_out);

/* results: the size, or a code. Takes a read lease. */
MC_CHECK_RESULT enum mc_err mci_master_get_size(struct mci_master *master,
                                                const struct mci_call *call,
                                                const struct mc_view *keys,
                                                size_t count,
                                                int64_t *results_out);

/* Leaves no trace. results: 0, or -400. */
MC_CHECK_RESULT enum mc_err
mci_master_probe(struct mci_master *master, const struct mci_call *call,
                 const struct mc_view *keys, size_t count,
                 struct mc_probe *probes_out, int64_t *results_out);

/* ---- removing --------------------------------------------------------- */

/* results: 0, -704, -706 (leased, not forced), -703 (only an open write),
 * -901, -400. */
MC_CHECK_RESULT enum mc_err mci_master_remove(struct mci_master *master,
                                              const struct mci_call *call,
                                              const struct mc_view *keys,
                                              size_t count, bool force,
                                              int64_t *results_out);

/* Errors: -600, -11, -901 (what was removed until then is counted). */
MC_CHECK_RESULT enum mc_err
mci_master_remove_by_regex(struct mci_master *master,
                           const struct mci_call *call, struct mc_view regex,
                           bool force, uint64_t *removed_out);

/* *removed_out is set also with -901: what was removed until then. */
MC_CHECK_RESULT enum mc_err mci_master_remove_all(struct mci_master *master,
                                                  const struct mci_call *call,
                                                  bool force,
                                                  uint64_t *removed_out);

/* Drops the keys' copies in one segment. results: 0, -704, -710 (no copy
 * there), -714 (being read in this process), -901, -400. */
MC_CHECK_RESULT enum mc_err
mci_master_replica_clear(struct mci_master *master, const struct mci_call *call,
                         const struct mc_view *keys, size_t count,
                         uint32_t segment, int64_t *results_out);

/* ---- disk copies ------------------------------------------------------ */

/* The calling client holds a copy of this version on disk. results: 0 (again
 * too), -704, -300 (another version is readable now), -705 (another client has
 * a disk copy), -103 (expired meanwhile), -901, -11, -400. */
struct mci_disk_row {
    struct mc_view key;
    uint64_t version;
    enum mc_err err;
};
MC_CHECK_RESULT enum mc_err mci_master_offloaded(struct mci_master *master,
                                                 const struct mci_call *call,
                                                 struct mci_disk_row *rows,
                                                 size_t count);

/* The calling client's disk copies of these keys are gone. results: 0, -704,
 * -710, -901, -400. */
MC_CHECK_RESULT enum mc_err mci_master_disk_gone(struct mci_master *master,
                                                 const struct mci_call *call,
                                                 const struct mc_view *keys,
                                                 size_t count,
                                                 int64_t *results_out);

/* Space in memory for what is on disk only; ended by promote_end or by
 * put_revoke with the attempt. Rows: -704, -711 (in memory already, or on its
 * way), -200, -901, -11, -400. */
MC_CHECK_RESULT enum mc_err
mci_master_promote_start(struct mci_master *master, const struct mci_call *call,
                         struct mci_write_row *rows, size_t count);
/* Rows: 0, -300 (not open, or the version is not readable any more). */
MC_CHECK_RESULT enum mc_err mci_master_promote_end(struct mci_master *master,
                                                   const struct mci_call *call,
                                                   struct mci_write_row *rows,
                                                   size_t count);

/* ---- quotas ------------------------------------------------------------ */

/* With multi-tenancy on, the first quota that is set is a policy: from then on
 * only tenants with a quota may write (-1701). It counts the bytes of memory
 * that are readable or being written, per copy, and not what only leases hold.
 * When all quotas together are more than what is lent, each counts for its
 * share. A write over it evicts of the same tenant, then answers -1700. */
struct mci_quota {
    struct mc_view tenant; /* valid as long as the master */
    uint64_t bytes;        /* as set */
    uint64_t effective_bytes;
    uint64_t charged_bytes;
    bool is_set;
};

/* Errors: -600 (a bad name), -1011 (multi-tenancy is off), -1701 (no more
 * tenants), -11. */
MC_CHECK_RESULT enum mc_err mci_master_quota_set(struct mci_master *master,
                                                 struct mc_view tenant,
                                                 uint64_t bytes);
/* Errors: -600, -1011, -1701 (it has none). */
MC_CHECK_RESULT enum mc_err mci_master_quota_get(struct mci_master *master,
                                                 struct mc_view tenant,
                                                 struct mci_quota *quota_out);
/* Errors: -600, -1011, -1701, -1702 (it still has objects or open writes). */
MC_CHECK_RESULT enum mc_err mci_master_quota_delete(struct mci_master *master,
                                                    struct mc_view tenant);
/* All tenants known, in order of their making, from *from on, which goes on;
 * returns how many. */
size_t mci_master_quotas(struct mci_master *master, uint32_t *from,
                         struct mci_quota *quotas_out, size_t max);

/* ---- walking ---------------------------------------------------------- */

/* A place in the order of hashes, which growing does not change. All zero at
 * the beginning. */
struct mci_cursor {
    uint32_t shard;
    uint32_t tag;
    bool at_end;
};

/* Rows copied out under a shard lock; made once, used for a whole walk. */
struct mci_page {
    struct mc_object_row *rows;
    uint64_t (
        *media_ids)[MC_MEDIUM_COUNT]; /* last change per medium, cpu first */
    uint32_t count;
    uint32_t capacity;
    uint8_t *bytes;
    size_t bytes_len;
    size_t bytes_max;
    bool with_gone; /* also what nobody can read any more and no event has
                       taken back yet; false at first */
};
#define MCI_PAGE_ROWS 256
MC_CHECK_RESULT enum mc_err mci_page_init(struct mci_page *page);
void mci_page_fini(struct mci_page *page);

/* Fills the page with the next readable objects of a tenant (none = of all
 * tenants); possibly none, and more to come, unless cursor->at_end. What is
 * there during the whole walk is shown exactly once. Errors: -11. */
MC_CHECK_RESULT enum mc_err mci_master_list(struct mci_master *master,
                                            struct mc_view tenant,
                                            struct mci_cursor *cursor,
                                            struct mci_page *page);

/* ---- background ------------------------------------------------------- */

/* One step of what nobody waits for: versions whose leases are over, soft pins
 * that ran out, idle attempts, and, above the high watermark, eviction down to
 * the low mark. Bounded; true if there is more to do at once. Waits for room in
 * the event log until deadline_ns at most. */
bool mci_master_sweep(struct mci_master *master, uint64_t now_ns,
                      uint64_t deadline_ns);

struct mci_master_stats {
    uint64_t capacity_bytes;
    uint64_t allocated_bytes;   /* all that is handed out */
    uint64_t leased_only_bytes; /* unlinked, waiting for leases or holds */
    uint64_t quarantined_bytes; /* of attempts that ended in doubt */
    uint64_t objects;           /* readable */
    uint64_t attempts;          /* open */
    uint64_t quarantined;       /* attempts */
    uint64_t commits;
    uint64_t gets;
    uint64_t hits;
    uint64_t evicted_objects;
    uint64_t evicted_bytes;
    uint64_t evicted_windows;
    uint64_t alloc_failures;
    uint64_t groups;
    uint64_t tenants;
    uint64_t table_slots; /* size of the object table */
    uint64_t clients;     /* registered and not expired */
    uint64_t segments;    /* mounted and not on their way out */
};
void mci_master_stat(struct mci_master *master,
                     struct mci_master_stats *stats_out);

/* Walks all structures and says whether they agree with each other: queues,
 * counts, extents, groups. For tests, while no other call is under way. */
bool mci_master_check(struct mci_master *master);
#endif
