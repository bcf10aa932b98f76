/* SPDX-License-Identifier: Apache-2.0 */
/* mc_row_driver.h - rows of registered memory, moved to and from a store by key:
 * what blob backends of inference engines need.
 *
 * A driver stands on a client. Its user registers regions of host memory, then
 * submits operations of rows; a row is a key and the spans of regions that hold
 * the whole object, in order. Workers of the driver, as many as the options say
 * and no more, move them in parts. Gets go before puts; once four have gone ahead
 * of a waiting put, that goes next.
 *
 * Every row ends exactly once, with a status that says what to do about it and a
 * reason that says why, and with two bits: local_ended, nobody touches the row's
 * memory any more; remote_ended, no more bytes can land in the object. A row that
 * has ended has always ended locally. READY is said of an object that is complete
 * and readable, of nothing less.
 *
 * docs/row_driver.md has the contract, the mapping from codes, and the suite that
 * another driver can run.
 *
 * Threads: any thread, but close. After a fork the child may do nothing with a
 * driver but close it: MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS.
 */
#ifndef MC_ROW_DRIVER_H
#define MC_ROW_DRIVER_H
#include "mc_client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_row_driver; /* opaque */
struct mc_row_op;

/* ---- how rows end --------------------------------------------------------- */

enum mc_row_status {
    MC_ROW_PENDING = 0, /* it has not ended */
    MC_ROW_READY = 1,   /* get: the slot has the object's bytes; put: the store
                             has a readable object of the key */
    MC_ROW_MISS = 2,    /* get: there is no such object; nothing was touched */
    MC_ROW_NOT_READY = 3, /* the key is being written: a later try may find it.
                             The slot of a get is untouched */
    MC_ROW_DECLINED = 4,  /* put: the store does not take it now */
    MC_ROW_FAULT = 5,     /* the slot of a get may hold anything */
    MC_ROW_CANCELLED = 6  /* it ended before it was done: as a fault */
};
#define MC_ROW_STATUS_COUNT 7

/* X(name, status, text) */
#define MC_ROW_REASON_LIST(X)                                                \
    X(NONE, PENDING, "not over yet")                                         \
    X(MOVED, READY, "its bytes were moved")                                  \
    X(EXISTS, READY, "a readable object was there")                          \
    X(ABSENT, MISS, "no object of the key")                                  \
    X(BEING_WRITTEN, NOT_READY, "an object of the key is not readable yet")  \
    X(WRITTEN_HERE, NOT_READY, "another put of this driver has the key")     \
    X(NO_SPACE, DECLINED, "the store has no room")                           \
    X(OVER_QUOTA, DECLINED, "the tenant may not store it")                   \
    X(WRONG_SIZE, FAULT, "the object has another size than the row")         \
    X(LEASE_LOST, FAULT, "the lease was over twice")                         \
    X(GONE, FAULT, "the object went while it was read, or closed its write") \
    X(TRANSFER, FAULT, "bytes could not be moved")                           \
    X(CHECKSUM, FAULT, "bytes are not those that were written")              \
    X(UNREACHABLE, FAULT, "the store did not answer")                        \
    X(UNANSWERED, FAULT, "the end was not answered, and is being settled")   \
    X(TIMED_OUT, FAULT, "its time was over before it was done")              \
    X(NO_MEMORY, FAULT, "out of memory")                                     \
    X(REFUSED, FAULT, "the store refused it")                                \
    X(ASKED, CANCELLED, "its operation was cancelled")                       \
    X(CLOSING, CANCELLED, "the driver was drained or closed")

enum mc_row_reason {
#define MC_ROW_REASON_ENUM_(name, status, text) MC_ROW_REASON_##name,
    MC_ROW_REASON_LIST(MC_ROW_REASON_ENUM_)
#undef MC_ROW_REASON_ENUM_
        MC_ROW_REASON_COUNT
};

/* Static, never NULL, also for numbers that are none: "READY", "NO_SPACE", and
 * a sentence for people. */
const char *mc_row_status_name(enum mc_row_status status);
const char *mc_row_reason_name(enum mc_row_reason reason);
const char *mc_row_reason_text(enum mc_row_reason reason);
/* The only status that a reason goes with. */
enum mc_row_status mc_row_reason_status(enum mc_row_reason reason);

struct mc_row_state {
    enum mc_row_status status;
    enum mc_row_reason reason;
    enum mc_err err;   /* what the store or the link said; MC_OK: nothing */
    bool local_ended;  /* true from the end of the row on */
    bool remote_ended; /* false: bytes of this put may still land in what was
                          the object's place; the store keeps that place back */
};

/* ---- a driver ------------------------------------------------------------- */

/* The rows of an operation have changed. Called without locks held, on a worker
 * of the driver or in a call of the driver (cancel, drain, close); may
 * call the driver, but not wait, unregister, drain with time, or close. */
typedef void (*mc_row_change_fn)(void *driver_ctx, void *op_ctx);

/* All zero = the defaults. */
struct mc_row_driver_opts {
    uint32_t workers;           /* threads that move rows; 0 = 4, at most 64 */
    uint32_t rows_per_call;     /* of one call of the store; 0 = 256 */
    uint64_t bytes_per_call;    /* 0 = 128 MiB; a larger row goes alone */
    uint32_t rows_max;          /* not ended at a time; 0 = 262144 */
    uint32_t timeout_ms;        /* of an operation that says none; 0 = 60 s */
    uint32_t close_ms;          /* for what close has to settle; 0 = 2 s */
    uint32_t replicas;          /* copies of what is put; 0 = 1 */
    mc_row_change_fn on_change; /* NULL: nobody is called */
    void *ctx;                  /* of on_change */
};
#define MC_ROW_WORKERS_MAX 64
#define MC_ROW_QUEUE_MAX 4194304 /* rows_max; 2^22 */
#define MC_ROW_REPLICAS_MAX 8

/* The client is borrowed and outlives the driver. Threads: the workers from the
 * first operation on, and one that settles keys from the first put on whose end
 * was not answered. Errors: MC_ERR_INVALID_PARAMS (an option over its limit),
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mc_row_driver_open(struct mc_client *client,
                   const struct mc_row_driver_opts *opts,
                   struct mc_row_driver **driver_out);

/* What a file says: of a driver, of the client that it stands on, of its keys. Texts
 * stand in the struct itself, which is not to be copied. */
#define MC_ROW_TEXT_SIZE 512
#define MC_ROW_TEXT_COUNT 7
struct mc_row_file {
    struct mc_row_driver_opts driver;
    struct mc_client_opts client; /* for mc_client_open; texts borrowed */
    bool has_client;              /* the file has that section */
    const char *device_name;      /* of others; tcp and shm have none */
    const char *key_prefix;       /* NULL: not named. For who makes the keys: a
                                     driver puts nothing before them */
    char texts[MC_ROW_TEXT_COUNT][MC_ROW_TEXT_SIZE];
};

/* Reads a YAML or JSON file of at most 64 KiB with up to three sections:
 *     row_driver: {workers: 8, rows_per_call: 256, bytes_per_call: 134217728}
 *     client: {master_server_address: "10.0.0.1:50051", local_hostname: node7,
 *              global_segment_size: 4gb, local_buffer_size: 16mb}
 *     blob: {key_prefix: "llama/"}
 * Members of the first are those of the options that are numbers; of the second
 * also metadata_server, protocol, device_name, tenant_id; sizes are bytes, or have
 * a unit of 1024. What is not named stays as it is in file. problem_out (may be
 * NULL) gets one line, "path:line: what", for an error, else "". Errors, nothing
 * is changed then: MC_ERR_FILE_NOT_FOUND, MC_ERR_FILE_OPEN_FAIL,
 * MC_ERR_FILE_READ_FAIL, MC_ERR_INVALID_PARAMS (not readable as such; an unknown
 * name, which is told; a name twice; another type; a number out of range, a text
 * of more than 511 bytes; a client without master), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mc_row_driver_file(const char *path,
                                               struct mc_row_file *file,
                                               char *problem_out,
                                               size_t problem_size);

/* The same, for the options alone; the rest is checked and not kept. */
MC_CHECK_RESULT enum mc_err
mc_row_driver_config(const char *path, struct mc_row_driver_opts *opts,
                     char *problem_out, size_t problem_size);

/* No more rows are taken; those that no worker has begun end as cancelled, those
 * under way as they end, at the latest where they next look. Makes no request and
 * waits at most timeout_ms: 0 answers at once. MC_OK: no row is under way, nobody
 * touches a region. Errors: MC_ERR_RPC_TIMEOUT (rows are still under way; drain
 * again). */
MC_CHECK_RESULT enum mc_err mc_row_driver_drain(struct mc_row_driver *driver,
                                                uint32_t timeout_ms);

/* Drains, waits for what is under way until its operation's time is over, revokes
 * what an unanswered end left open for at most opts.close_ms (the master frees
 * what is left then), unregisters, joins and frees; operations that were not
 * released too. Not from on_change. NULL is fine. */
void mc_row_driver_close(struct mc_row_driver *driver);

/* ---- regions -------------------------------------------------------------- */

enum mc_memory_kind {
    MC_MEMORY_HOST = 0,
    MC_MEMORY_DEVICE = 1 /* not supported */
};

/* The memory stays the caller's, and lives until it is unregistered. *region_out
 * is not used again for another region. Errors: MC_ERR_NOT_SUPPORTED (device
 * memory), MC_ERR_INVALID_PARAMS (NULL, 0, wrapping, overlapping another range of
 * the client; the same range again is another region), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mc_row_driver_register(struct mc_row_driver *driver,
                                                   void *base, uint64_t len,
                                                   enum mc_memory_kind kind,
                                                   uint32_t *region_out);
/* Errors: MC_ERR_INVALID_PARAMS (no region of this number),
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (rows that have not ended name it: it
 * stays registered). Does not wait. */
MC_CHECK_RESULT enum mc_err
mc_row_driver_unregister(struct mc_row_driver *driver, uint32_t region);

/* ---- operations ----------------------------------------------------------- */

struct mc_row_span {
    uint32_t region;
    uint64_t offset; /* in the region */
    uint64_t len;    /* not 0 */
};
/* The object is all of the spans in order; at most MC_SPANS_MAX. */
struct mc_row {
    struct mc_view key;
    const struct mc_row_span *spans;
    size_t span_count;
    struct mc_view session_id; /* of a put: its tag; none: untagged */
};

enum mc_row_kind { MC_ROW_GET = 0, MC_ROW_PUT = 1 };

struct mc_row_request {
    enum mc_row_kind kind;
    const struct mc_row *rows; /* copied, with all that they point at */
    size_t count;              /* 1 to MC_ROWS_MAX */
    uint32_t timeout_ms;       /* 0 = that of the driver */
    void *ctx;                 /* for on_change and poll */
};

/* Takes all rows or, on an error, none. The memory that they name is the driver's
 * until each has ended. Never blocks.
 * A key that is named twice: gets each read it; of puts the first row writes, and
 * later ones end with it as it ends, their memory untouched (READY: the first
 * row's bytes stand).
 * *op_out: the caller's, ends with mc_row_op_release; set before anybody is told
 * of it, NULL where no memory is left or the queue is full.
 * Errors: MC_ERR_INVALID_PARAMS (count, kind; an empty key; no span, a span of no
 * bytes, of an unknown region or not within it; the sum over MC_OBJECT_SIZE_MAX;
 * a session id that is none), MC_ERR_INVALID_KEY,
 * MC_ERR_NO_AVAILABLE_HANDLE (rows_max), MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS
 * (drained), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mc_row_driver_submit(struct mc_row_driver *driver,
                     const struct mc_row_request *request,
                     struct mc_row_op **op_out);

/* states_out: one per row. Never blocks. Returns how many have not ended. */
size_t mc_row_op_states(struct mc_row_op *op, struct mc_row_state *states_out);
/* Rows that no worker has begun end as cancelled before this returns; those under
 * way end as they end, and soon. An operation that has ended is left alone. */
void mc_row_op_cancel(struct mc_row_op *op);
/* Until all rows have ended. Errors: MC_ERR_RPC_TIMEOUT. */
MC_CHECK_RESULT enum mc_err mc_row_op_wait(struct mc_row_op *op,
                                           uint32_t timeout_ms);
/* The operation is gone; poll does not name it any more, and nobody is called for
 * it after this returned; called from on_change it does not wait for calls that
 * have begun. NULL is fine. Errors:
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (it has rows that have not ended). */
MC_CHECK_RESULT enum mc_err mc_row_op_release(struct mc_row_op *op);

/* ---- being told ------------------------------------------------------------ */

/* Takes up to max operations of which rows have ended since they were last taken:
 * their ctx. Returns how many. Never blocks. */
size_t mc_row_driver_poll(struct mc_row_driver *driver, void **ctxs_out,
                          size_t max);
/* Readable while poll has something to say; the driver's own, do not close. -1 if
 * it cannot be made. */
int mc_row_driver_eventfd(struct mc_row_driver *driver);

/* ---- asking ---------------------------------------------------------------- */

/* Asks the store about keys, leaving no trace (no lease). Blocks, at most
 * timeout_ms (0 = the client's own). states_out, one per key: READY with EXISTS,
 * MISS with ABSENT, NOT_READY with BEING_WRITTEN, FAULT. Errors, states_out is
 * untouched then: MC_ERR_INVALID_PARAMS, MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mc_row_driver_probe(struct mc_row_driver *driver, const struct mc_view *keys,
                    size_t count, uint32_t timeout_ms,
                    struct mc_row_state *states_out);

struct mc_row_driver_stats {
    uint64_t gets[MC_ROW_REASON_COUNT]; /* rows that ended; [NONE]: that have
                                           not */
    uint64_t puts[MC_ROW_REASON_COUNT];
    uint64_t get_bytes; /* of rows that are MOVED */
    uint64_t put_bytes;
    uint64_t calls;          /* parts that were run */
    uint64_t keys_written;   /* keys that puts of this driver have now */
    uint64_t keys_unsettled; /* of them: an end was not answered */
    uint64_t keys_settled;   /* what became of them is known by now; ever */
    uint32_t regions;
};
void mc_row_driver_stat(struct mc_row_driver *driver,
                        struct mc_row_driver_stats *stats_out);

#ifdef __cplusplus
}
#endif
#endif
