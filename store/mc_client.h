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
#include "mc_tls.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_client; /* opaque */

/* Where new objects go, once preferred segments are full. */
enum mc_allocation_strategy {
    MC_ALLOCATION_RANDOM = 0,
    MC_ALLOCATION_FREE_RATIO_FIRST = 1,
    MC_ALLOCATION_LOCAL_FIRST = 2 /* the writer's host before all others */
};

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
    enum mc_allocation_strategy allocation_strategy;
};

/* All zero = an embedded store of 64 MiB without events. Strings are copied. */
struct mc_client_opts {
    const char *master;     /* NULL or "embedded"; or host:port of a master */
    uint64_t segment_bytes; /* memory lent to the store; 0 = 64 MiB, MC_NONE: 0.
                                Rounded up to whole pages */
    bool no_prefault;       /* touch pages on first use and not at open */
    const char *tenant;     /* NULL or "" = "default" */
    uint32_t timeout_ms;    /* longest wait of a call; 0 = MC_RPC_TIMEOUT_MS of
                                the environment, or 30 s */
    /* *_into and *_from also take memory that was not registered. Not with rdma,
     * which cannot. */
    bool any_memory;
    bool checksum; /* all that it writes has checksums, as if each config said
                      so; false: as MOONCAKE_STORE_CHECKSUM of the environment */
    struct mc_store_opts store;      /* embedded only */
    struct mc_publisher_opts events; /* embedded only */

    /* With a master process only. */
    const char *local_hostname;  /* "host" or "host:port", by which others reach
                                    this process; NULL = 127.0.0.1; without a
                                    port one is looked for from 12300 to 14300 */
    const char *metadata_server; /* NULL or "P2PHANDSHAKE", or
                                    http://host:port/metadata */
    const char *protocol;        /* NULL or "tcp"; "rdma" where it is built; any
                                    other -1012 */
    const char
        *transport; /* NULL or "auto", "tcp", "shm": what bytes may take */
    uint64_t local_buffer_bytes;  /* for get_buffer; 0 = 16 MiB, MC_NONE: 0 */
    uint32_t transfer_timeout_ms; /* 0 = MC_TRANSFER_TIMEOUT_MS, or 60 s */
    const struct mc_tls_opts *tls;
    bool with_http;     /* /health /metrics /metrics/summary /version */
    uint16_t http_port; /* 0 = 9300; MC_HTTP_ANY: a free one */
};
#define MC_HTTP_ANY UINT16_MAX

/* Opens a client. The caller owns it and ends it with mc_client_close. Bound
 * sockets are bound when this returns, and with a master process its segment is
 * mounted.
 * Errors, each with a line in the log: MC_ERR_INVALID_PARAMS (a setting out of
 * range; a bind endpoint without backend id or the other way round; not UTF-8;
 * an address that is none; a port that is taken, which is named),
 * MC_ERR_UNAVAILABLE_IN_CURRENT_MODE (a tenant other than "default" without
 * enable_multi_tenants), MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (with a master
 * process: a port of local_hostname or http_port that is taken),
 * MC_ERR_NOT_SUPPORTED (protocol; a master that speaks another version, both are
 * named), MC_ERR_RPC_FAIL, MC_ERR_RPC_TIMEOUT (master not reached),
 * MC_ERR_SEGMENT_ALREADY_EXISTS (a living client has this name), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mc_client_open(const struct mc_client_opts *opts,
                                           struct mc_client **client_out);

/* The settings by position that others open their stores with; sizes of 0 mean
 * none. Environment: docs/operations.md. Errors as mc_client_open. */
MC_CHECK_RESULT enum mc_err
mc_client_setup(const char *local_hostname, const char *metadata_server,
                uint64_t global_segment_size, uint64_t local_buffer_size,
                const char *protocol, const char *device_names,
                const char *master_server_address,
                struct mc_client **client_out);

/* Stops, sends what is queued (at most 2 s), takes its segments out of the store,
 * joins, frees. NULL is fine. */
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

/* ---- registered memory ------------------------------------------------ */

/* Memory that *_from and *_into calls may name: a range within one registered
 * range, else -600. The same range again is counted. Errors: -600 (NULL, 0,
 * wrapping, overlapping another), -11. */
MC_CHECK_RESULT enum mc_err mc_client_register_buffer(struct mc_client *client,
                                                      void *base, size_t len);
/* Waits for calls under way that name it, at most the client's timeout. Errors:
 * -600 (no range begins there), -901 (still in use: it stays registered). */
MC_CHECK_RESULT enum mc_err
mc_client_unregister_buffer(struct mc_client *client, void *base);
/* How many bytes from there on lie within one registered range; 0: none does. */
size_t mc_client_registered_len(struct mc_client *client, const void *data);

/* ---- writing from registered memory ------------------------------------ */

MC_CHECK_RESULT enum mc_err
mc_client_put_from(struct mc_client *client, struct mc_view key,
                   const void *data, size_t len,
                   const struct mc_replicate_config *config);
MC_CHECK_RESULT enum mc_err
mc_client_upsert_from(struct mc_client *client, struct mc_view key,
                      const void *data, size_t len,
                      const struct mc_replicate_config *config);
/* Rows as mc_client_batch_put. */
MC_CHECK_RESULT enum mc_err
mc_client_batch_put_from(struct mc_client *client, const struct mc_view *keys,
                         const struct mc_span *values, size_t count,
                         const struct mc_replicate_config *config,
                         int64_t *results_out);
MC_CHECK_RESULT enum mc_err mc_client_batch_upsert_from(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_span *values, size_t count,
    const struct mc_replicate_config *config, int64_t *results_out);

/* The spans of one object, in order; at most MC_SPANS_MAX (-600 of the row). */
struct mc_spans {
    const struct mc_span *spans;
    size_t count;
};
MC_CHECK_RESULT enum mc_err mc_client_batch_put_from_multi_buffers(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_spans *values, size_t count,
    const struct mc_replicate_config *config, int64_t *results_out);

/* One object from parts, which need not be registered. */
MC_CHECK_RESULT enum mc_err
mc_client_put_parts(struct mc_client *client, struct mc_view key,
                    const struct mc_span *parts, size_t count,
                    const struct mc_replicate_config *config);
MC_CHECK_RESULT enum mc_err
mc_client_upsert_parts(struct mc_client *client, struct mc_view key,
                       const struct mc_span *parts, size_t count,
                       const struct mc_replicate_config *config);
/* Many of those; rows as mc_client_batch_put. */
MC_CHECK_RESULT enum mc_err
mc_client_batch_put_parts(struct mc_client *client, const struct mc_view *keys,
                          const struct mc_spans *values, size_t count,
                          const struct mc_replicate_config *config,
                          int64_t *results_out);
MC_CHECK_RESULT enum mc_err mc_client_batch_upsert_parts(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_spans *values, size_t count,
    const struct mc_replicate_config *config, int64_t *results_out);

/* ---- reading ---------------------------------------------------------- */

/* What has checksums answers -801 from any call here if a block that was read
 * whole is wrong in every copy; mc_client_last_mismatch names it. */

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

/* Scatters each object over its spans, in order; results: its size, or a code
 * (-600: longer than the spans, and no byte is moved). prefer_same_node: a copy
 * on this machine is taken before others. */
MC_CHECK_RESULT enum mc_err mc_client_batch_get_into_multi_buffers(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_spans *buffers, size_t count, bool prefer_same_node,
    int64_t *results_out);

/* One piece of an object to one place in a buffer. */
struct mc_range {
    uint64_t to;   /* offset in the buffer */
    uint64_t from; /* offset in the object */
    uint64_t len;
};
struct mc_range_row {
    struct mc_view key;
    const struct mc_range *ranges;
    size_t count;
    int64_t *results; /* per range: bytes, or a code; the row's memory */
};
/* Reads pieces of objects into one registered buffer; a piece outside of its
 * object or of the buffer answers -600 and the others go on. A lease that runs
 * short meanwhile is renewed. */
MC_CHECK_RESULT enum mc_err
mc_client_get_into_ranges(struct mc_client *client, void *buffer,
                          size_t capacity, const struct mc_range_row *rows,
                          size_t count);

/* An object's bytes in the client's local buffer. */
struct mc_buffer {
    const void *data;
    size_t len;
    void *owner; /* for release */
};
/* Copies an object into the local buffer (opts.local_buffer_bytes); the caller
 * gives it back with mc_client_release_buffer. Errors as get_into; -200 (the
 * local buffer is full). */
MC_CHECK_RESULT enum mc_err mc_client_get_buffer(struct mc_client *client,
                                                 struct mc_view key,
                                                 struct mc_buffer *buffer_out);
MC_CHECK_RESULT enum mc_err
mc_client_batch_get_buffer(struct mc_client *client, const struct mc_view *keys,
                           size_t count, struct mc_buffer *buffers_out,
                           int64_t *results_out);
/* {NULL, 0, NULL} is fine. Before close. */
void mc_client_release_buffer(struct mc_client *client,
                              struct mc_buffer *buffer);

/* Working memory out of the local buffer, which *_from and *_into take as memory
 * that is registered, until it is given back. Errors: -600 (len 0), -200 (the local
 * buffer is full), -11. */
struct mc_scratch {
    void *data;
    size_t len;
    void *owner; /* for giving it back */
};
MC_CHECK_RESULT enum mc_err
mc_client_take_scratch(struct mc_client *client, size_t len,
                       struct mc_scratch *scratch_out);
/* Waits for calls under way that name it, at most the client's timeout, and zeroes
 * it. {NULL, 0, NULL} is fine. Before close. Errors: -600 (it is not out), -901
 * (still in use: it stays out). */
MC_CHECK_RESULT enum mc_err mc_client_give_scratch(struct mc_client *client,
                                                   struct mc_scratch *scratch);
uint64_t mc_client_local_buffer_bytes(const struct mc_client *client);

/* What was handed out of the local buffer, by get_buffer or as scratch, is there
 * as long as the client, or as whoever holds the buffer if that is longer; it is
 * given back to a client that is open, or not at all. Released from any thread,
 * also after close; NULL is fine. */
struct mc_local_buffer;
struct mc_local_buffer *mc_client_hold_local_buffer(struct mc_client *client);
void mc_local_buffer_release(struct mc_local_buffer *buffer);

/* Where one copy of an object is. */
struct mc_replica {
    enum mc_medium medium; /* cpu: memory; disk: on a client's disk */
    uint64_t size;
    uint64_t address;   /* in its owner; memory only */
    char protocol[16];  /* "tcp" */
    char endpoint[280]; /* host:port of the owner */
    char segment[280];  /* its label */
};
#define MC_REPLICAS_MAX 8
struct mc_replicas {
    uint32_t count;
    uint64_t version;
    struct mc_replica rows[MC_REPLICAS_MAX];
};
/* results_out: the count, or a code. Takes a read lease. */
MC_CHECK_RESULT enum mc_err mc_client_batch_get_replicas(
    struct mc_client *client, const struct mc_view *keys, size_t count,
    struct mc_replicas *replicas_out, int64_t *results_out);

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

/* ---- segments ----------------------------------------------------------- */

/* With a master process only, else -1012. A segment is named by the number that
 * mount answers; it is valid until it is unmounted. */

/* Lends memory of the caller, which stays the caller's and must live until it is
 * unmounted; it is not offered over shared memory. Errors: -600 (NULL, 0,
 * overlapping a segment of this client), -200, -11, those of the link. */
MC_CHECK_RESULT enum mc_err mc_client_mount_segment(struct mc_client *client,
                                                    void *base, uint64_t bytes,
                                                    uint32_t *segment_out);
/* Makes memory (as the segment at open) and lends it. *bytes_out: as made. */
MC_CHECK_RESULT enum mc_err
mc_client_allocate_and_mount_segment(struct mc_client *client, uint64_t bytes,
                                     uint32_t *segment_out,
                                     uint64_t *bytes_out);
/* The number by which the master knows a segment, as its pages tell it: the id of
 * /get_segments_detail. It is another one once the segment was mounted anew, which
 * a client does by itself when its master was away. Never blocks. Errors: -600 (not
 * a segment of this client), -1010 (not mounted at this moment). */
MC_CHECK_RESULT enum mc_err mc_client_segment_number(struct mc_client *client,
                                                     uint32_t segment,
                                                     uint32_t *number_out);
/* Takes a segment back. With grace_ms its objects stay readable that long, but
 * nothing new is placed there. The call returns when that is over and all that was
 * there is taken out, at most the client's timeout later. Memory that was
 * made is freed. Errors: -600 (not a segment of this client), those of the link;
 * then it is still mounted. */
MC_CHECK_RESULT enum mc_err mc_client_unmount_segment(struct mc_client *client,
                                                      uint32_t segment,
                                                      uint64_t grace_ms);

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
    uint64_t evicted_windows;   /* clearings of a contiguous window */
    uint64_t alloc_failures;    /* answers of -200 */
    uint64_t quarantined_bytes; /* of writes that ended in doubt */
    uint64_t clients;           /* of the master, this one included */
    uint64_t segments;          /* lent to it now */
    uint64_t filled_bytes;      /* zeros for holes of put sessions, by this
                                   client */
    /* Checksums, by this client: blocks that reads found right; and wrong, in a
     * copy, whether or not another one took over; and those that its put sessions
     * left without. */
    uint64_t checked_blocks;
    uint64_t mismatched_blocks;
    uint64_t unsummed_blocks;
    struct mc_publisher_stats events;
};
void mc_client_stat(struct mc_client *client,
                    struct mc_client_stats *stats_out);

/* A block that a read of this client found wrong. It is told whether or not
 * another copy had it right. */
struct mc_mismatch {
    uint64_t count; /* such blocks so far, this one included */
    uint64_t block; /* of 64 KiB, from 0 on; the first wrong one of the read */
    uint64_t version; /* of the object */
    uint64_t size;
    uint32_t segment; /* where the copy is */
    size_t key_len;
    char key[MC_KEY_LEN_MAX];
};
/* The last one; false: there was none. */
bool mc_client_last_mismatch(struct mc_client *client,
                             struct mc_mismatch *mismatch_out);

/* How bytes of this client's calls went; those that others read and write in its
 * segments are theirs. An embedded store has no ways: zeros. Never blocks. */
struct mc_client_way {
    uint64_t read_bytes;
    uint64_t written_bytes;
    uint64_t rows; /* moved whole */
};
struct mc_client_moved {
    struct mc_client_way local; /* memory of this client */
    struct mc_client_way shm;   /* of another on this host */
    struct mc_client_way tcp;
};
void mc_client_moved(const struct mc_client *client,
                     struct mc_client_moved *moved_out);

/* The client's host:port, which is the label of its segments; "embedded" for an
 * embedded store. Borrowed, valid until close. */
const char *mc_client_hostname(const struct mc_client *client);

/* 0: healthy; 1: not known to the master now; 2: master unreachable. Never
 * blocks. */
int mc_client_health(const struct mc_client *client);

/* As bound, or 0. */
uint16_t mc_client_http_port(const struct mc_client *client);

/* Id of the newest event, 0 before the first. Two equal readings around a list
 * say that the list is the state as of that event. */
uint64_t mc_client_last_event_id(struct mc_client *client);

#ifdef __cplusplus
}
#endif
#endif
