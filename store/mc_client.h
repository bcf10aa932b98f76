/* SPDX-License-Identifier: Apache-2.0 */
/* mc_client.h - the store: blocks by key, tagged with the session that wrote
 * them.
 *
 * A client is opened on a master. With master "embedded" the whole store runs
 * inside this process, with the same calls and answers: metadata, memory
 * segment, leases, eviction, and the event publisher where one is asked for.
 *
 * An object is immutable bytes under (tenant, key). put leaves an existing
 * object alone and answers MC_OK; upsert replaces it, and readers get the old
 * bytes or the new ones, never both. Objects that nobody pinned or leased are
 * evicted when room is needed, least recently used first.
 *
 * Results: a call on one key returns its code. A call on a list returns MC_OK
 * when it ran, and one 64-bit result per row: 0, a size, 1 or 0, or a negative
 * enum mc_err. When the call as a whole is refused (a vector of the wrong
 * length, an invalid session id), it returns that code, every row holds it, and
 * nothing has changed.
 *
 * Blocking: calls copy memory and take short locks; they wait only where the
 * event log is full and its policy is block, at most opts.timeout_ms.
 * Threads: any thread, one client may be shared by all; close only when no call
 * is under way.
 */
#ifndef MC_CLIENT_H
#define MC_CLIENT_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_limits.h"
#include "mc_object.h"
#include "mc_publisher.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_client; /* opaque */

/* Behaviour of the store core; all zero = the defaults. Used with master
 * "embedded" only: a master process has flags of the same names. */
struct mc_store_opts {
    uint64_t default_kv_lease_ttl_ms;      /* read lease; 0 = 10 s */
    uint64_t exist_lease_ttl_ms;           /* 0 = as the read lease */
    uint64_t default_kv_soft_pin_ttl_ms;   /* 0 = 30 min */
    uint64_t max_kv_soft_pin_ttl_ms;       /* 0 = 24 h */
    bool no_evict_soft_pinned;             /* soft pins are never evicted */
    double eviction_high_watermark;        /* share of the space; 0 = 0.90 */
    double eviction_ratio;                 /* freed beyond it by the background
                                            sweep; 0 = 0.05 */
    uint64_t put_start_release_timeout_ms; /* idle attempt; 0 = 600 s */
    bool enable_multi_tenants;             /* else only "default" is accepted */
    uint32_t max_tenants;                  /* 0 = 1024 */
    uint64_t max_objects; /* 0 = no bound but memory; over it -200 */
};

/* All zero = an embedded store of 64 MiB without events. Strings are copied. */
struct mc_client_opts {
    const char *master;     /* NULL or "embedded" */
    uint64_t segment_bytes; /* memory lent to the store; 0 = 64 MiB, MC_NONE: 0.
                                Rounded up to whole pages */
    bool no_prefault;       /* touch pages on first use and not at open */
    const char *tenant;     /* NULL or "" = "default" */
    uint32_t timeout_ms;    /* longest wait of a call; 0 = 30 s */
    struct mc_store_opts store;
    struct mc_publisher_opts events;
};

/* Opens a client. The caller owns it and ends it with mc_client_close. Bound
 * sockets are bound when this returns.
 * Errors: MC_ERR_INVALID_PARAMS (a setting out of range; a bind endpoint
 * without backend id or the other way round; not UTF-8; an endpoint that
 * cannot be bound, with a line in the log that names it),
 * MC_ERR_UNAVAILABLE_IN_CURRENT_MODE (a tenant other than "default" without
 * enable_multi_tenants), MC_ERR_NOT_SUPPORTED (another master than
 * "embedded"), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mc_client_open(const struct mc_client_opts *opts,
                                           struct mc_client **client_out);

/* Stops, sends what is queued (at most 2 s), joins, frees. NULL is fine. */
void mc_client_close(struct mc_client *client);

/* ---- writing ---------------------------------------------------------- */

/* Stores len bytes under a key. An existing readable object stays as it is and
 * the answer is MC_OK; so it is while another put of the key is under way, whose
 * writer decides what becomes of it.
 * Errors: -400 (key over its limit, with NUL, not UTF-8), -600 (empty key, len
 * 0 or over MC_OBJECT_SIZE_MAX, a bad vector or config), -200 (no room), -901
 * (event log full), -11. */
MC_CHECK_RESULT enum mc_err
mc_client_put(struct mc_client *client, struct mc_view key, const void *data,
              size_t len, const struct mc_replicate_config *config);

/* Stores len bytes in place of what is there, if anything. A tag in the config
 * replaces the old one, none keeps it. A failure leaves the old object. */
MC_CHECK_RESULT enum mc_err
mc_client_upsert(struct mc_client *client, struct mc_view key, const void *data,
                 size_t len, const struct mc_replicate_config *config);

/* Many at once; results_out[0..count) gets 0 or a code per row. The same key
 * twice: put keeps the first row's bytes and answers 0 for both; upserts are
 * done in row order. Errors of the call: -600 (count over MC_ROWS_MAX, a vector
 * whose length is not count, a bad id), -11. */
MC_CHECK_RESULT enum mc_err
mc_client_batch_put(struct mc_client *client, const struct mc_view *keys,
                    const struct mc_view *values, size_t count,
                    const struct mc_replicate_config *config,
                    int64_t *results_out);
MC_CHECK_RESULT enum mc_err
mc_client_batch_upsert(struct mc_client *client, const struct mc_view *keys,
                       const struct mc_view *values, size_t count,
                       const struct mc_replicate_config *config,
                       int64_t *results_out);

/* ---- reading ---------------------------------------------------------- */

/* Copies an object to the head of a buffer; *size_out gets its size. Takes a
 * lease. Errors: -704, -703 (being written), -400, -600 (object longer than the
 * buffer, and then no byte is moved; NULL buffer). */
MC_CHECK_RESULT enum mc_err mc_client_get_into(struct mc_client *client,
                                               struct mc_view key, void *buffer,
                                               size_t capacity,
                                               uint64_t *size_out);

/* results_out: bytes copied, or a code. Rows may share buffers. */
MC_CHECK_RESULT enum mc_err
mc_client_batch_get_into(struct mc_client *client, const struct mc_view *keys,
                         const struct mc_span *buffers, size_t count,
                         int64_t *results_out);

/* Copies an object into new memory. The caller owns *data_out and gives it to
 * mc_client_free. Errors as get_into, and -11. */
MC_CHECK_RESULT enum mc_err mc_client_get(struct mc_client *client,
                                          struct mc_view key, void **data_out,
                                          size_t *size_out);

/* spans_out rows that failed are {NULL, 0}; each other one is the caller's. */
MC_CHECK_RESULT enum mc_err mc_client_batch_get(struct mc_client *client,
                                                const struct mc_view *keys,
                                                size_t count,
                                                struct mc_span *spans_out,
                                                int64_t *results_out);
void mc_client_free(void *data); /* NULL is fine */

/* ---- asking ----------------------------------------------------------- */

/* *exists_out: a readable object is there; a hit takes the exist lease. */
MC_CHECK_RESULT enum mc_err
mc_client_exist(struct mc_client *client, struct mc_view key, bool *exists_out);
/* results_out: 1, 0, or a code. */
MC_CHECK_RESULT enum mc_err mc_client_batch_exist(struct mc_client *client,
                                                  const struct mc_view *keys,
                                                  size_t count,
                                                  int64_t *results_out);

/* Takes a lease, as a read does. Errors: -704, -703. */
MC_CHECK_RESULT enum mc_err mc_client_get_size(struct mc_client *client,
                                               struct mc_view key,
                                               uint64_t *size_out);

/* Asks without leaving a trace: no lease, no recency. probes_out[0..count);
 * results_out: 0, or a code for a bad key (its probe is zeroed). */
MC_CHECK_RESULT enum mc_err mc_client_batch_probe(struct mc_client *client,
                                                  const struct mc_view *keys,
                                                  size_t count,
                                                  struct mc_probe *probes_out,
                                                  int64_t *results_out);
MC_CHECK_RESULT enum mc_err mc_client_probe(struct mc_client *client,
                                            struct mc_view key,
                                            struct mc_probe *probe_out);

/* Return false to end the walk. Runs without locks held; may call the client. */
typedef bool (*mc_client_list_fn)(void *ctx, const struct mc_object_row *row);

/* Walks all readable objects of the client's tenant, in no order, without
 * stopping writers: what is there the whole time is shown once, what comes or
 * goes meanwhile may be shown. Errors: -11. */
MC_CHECK_RESULT enum mc_err mc_client_list(struct mc_client *client,
                                           mc_client_list_fn fn, void *ctx);

/* ---- removing --------------------------------------------------------- */

/* Errors: -704, -706 (leased, without force), -703 (being written), -400. */
MC_CHECK_RESULT enum mc_err mc_client_remove(struct mc_client *client,
                                             struct mc_view key, bool force);
/* results_out: 0 or a code. */
MC_CHECK_RESULT enum mc_err mc_client_batch_remove(struct mc_client *client,
                                                   const struct mc_view *keys,
                                                   size_t count, bool force,
                                                   int64_t *results_out);

/* Removes what a regular expression finds anywhere in the key (PCRE2, UTF mode,
 * with a limit on its work); leased objects stay unless forced. *removed_out
 * counts. Errors: -600 (bad expression, or its limit was hit), -11. */
MC_CHECK_RESULT enum mc_err mc_client_remove_by_regex(struct mc_client *client,
                                                      struct mc_view regex,
                                                      bool force,
                                                      uint64_t *removed_out);

/* Removes all objects of the tenant; leased ones stay unless forced. */
MC_CHECK_RESULT enum mc_err mc_client_remove_all(struct mc_client *client,
                                                 bool force,
                                                 uint64_t *removed_out);

/* ---- state ------------------------------------------------------------ */

struct mc_client_stats {
    uint64_t capacity_bytes;
    uint64_t allocated_bytes;   /* handed out, what leases hold included */
    uint64_t leased_only_bytes; /* unlinked, held by leases or readers only */
    uint64_t objects;           /* readable */
    uint64_t attempts;          /* open writes */
    uint64_t puts;              /* commits that made an event */
    uint64_t gets;              /* rows that asked for bytes */
    uint64_t hits;
    uint64_t evicted_objects;
    uint64_t evicted_bytes;
    uint64_t evicted_windows; /* clearings of a contiguous window */
    uint64_t alloc_failures;  /* answers of -200 */
    struct mc_publisher_stats events;
};
void mc_client_stat(struct mc_client *client,
                    struct mc_client_stats *stats_out);

/* Id of the newest event, 0 before the first. Two equal readings around a list
 * say that the list is the state as of that event. */
uint64_t mc_client_last_event_id(struct mc_client *client);

#ifdef __cplusplus
}
#endif
#endif
