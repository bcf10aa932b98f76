/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - the remote link from the inside.
 *
 * A caller takes a slot, writes its request into the slot's memory, sends it
 * and reads the answer on the slot's connection, gives the slot back. Slots are
 * taken last in, first out, so that few calls at a time use few connections.
 *
 * An identity is what a master has made of us: client, incarnation, epoch. Each
 * new one raises the remote's generation; a slot's numbers belong to one
 * generation and begin anew in the next.
 *
 * Order in which things are seen (SAFETY D.1): what a start has opened stands
 * in the book before its slot takes the next number, and leaves it once an end
 * or revoke was answered; a heartbeat reads the numbers of the slots first and
 * the book after that. So an attempt that a heartbeat lacks, though its slot
 * has moved on, was never seen by a writer or is over.
 *
 * Locks: remote->lock, book.lock, segments.lock; all leaves, none is held while
 * anything is sent, received or called back.
 */
#ifndef REMOTE_H
#define REMOTE_H
#include <pthread.h>
#include <stdatomic.h>

#include "mci_buf.h"
#include "mci_clock.h"
#include "mci_remote.h"
#include "mci_stream.h"

#define REMOTE_HEAD_ROOM 512 /* before the args, for the head of a request */
#define REMOTE_SPARE_MAX ((size_t)256 << 10) /* memory that a slot keeps */
#define REMOTE_SLICE_NS \
    (100 * MCI_NS_PER_MS) /* of any wait: deadlines may be
                                                 on a clock of tests */
#define REMOTE_OPS 64
#define REMOTE_CHUNK 256 /* entries of the book are made so many at a time */

/* ---- connections (remote_wire.c) ---------------------------------------- */

/* One connection and the memory of its messages. */
struct remote_wire {
    struct mci_stream *stream; /* NULL: not connected */
    struct mci_buf out;
    struct mci_buf in; /* what was received and not yet read begins at in_at */
    size_t in_at;
    const atomic_bool *stops; /* ends every wait; may be NULL */
};

void mci_remote_wire_init(struct remote_wire *wire);
void mci_remote_wire_fini(struct remote_wire *wire);
/* The peer sees a reset; nothing late is read. Keeps the memory. */
void mci_remote_wire_drop(struct remote_wire *wire);
/* Begins a request: args are written onto pack. */
void mci_remote_wire_begin(struct remote_wire *wire, struct mci_pack *pack);
/* Writes the head before the args and sends all. *is_whole_out: the whole
 * message may have left. Errors: MC_ERR_RPC_FAIL, MC_ERR_RPC_TIMEOUT,
 * MC_ERR_NOMEM, MC_ERR_INVALID_PARAMS (too long). */
MC_CHECK_RESULT enum mc_err
mci_remote_wire_send(struct remote_wire *wire,
                     const struct mci_request *request, uint64_t deadline_ns,
                     bool *is_whole_out);
/* The answer to that request; older ones of the same slot are passed over. The
 * unpack stands at the result, in the wire's memory. */
MC_CHECK_RESULT enum mc_err
mci_remote_wire_recv(struct remote_wire *wire,
                     const struct mci_request *request, uint64_t deadline_ns,
                     struct mci_answer *answer_out,
                     struct mci_unpack *unpack_out);
/* The other side has closed it, or has sent what nobody asked for. */
bool mci_remote_wire_is_stale(struct remote_wire *wire);
void mci_remote_wire_trim(
    struct remote_wire *wire); /* gives much memory back */

/* ---- slots (remote_slots.c) ---------------------------------------------- */

struct remote_slot {
    struct remote_wire wire;
    uint32_t index;
    bool is_doubtful; /* the number is that of a cancel that is still due */
    _Atomic uint64_t generation; /* what the number belongs to */
    _Atomic uint64_t number;     /* the last one used */
    uint64_t used_ns;
};

struct remote_slots {
    struct remote_slot *all[MCI_SLOTS_MAX];
    uint32_t count;                /* as many as were ever used at a time */
    uint16_t clean[MCI_SLOTS_MAX]; /* stacks of the idle ones */
    uint32_t clean_count;
    uint16_t doubtful[MCI_SLOTS_MAX];
    uint32_t doubtful_count;
    uint32_t waiters;
};

/* ---- attempts (remote_attempts.c) --------------------------------------- */

struct remote_known; /* an open attempt */
struct remote_book {
    pthread_mutex_t lock; /* guards all below */
    struct remote_known *chunks[MC_ATTEMPTS_MAX / REMOTE_CHUNK];
    uint32_t chunk_count;
    uint32_t *buckets; /* heads of chains: entry + 1 */
    uint32_t bucket_count;
    uint32_t free;     /* head of the chain of unused ones */
    uint32_t promised; /* to starts under way */
    uint64_t generation;
    _Atomic uint32_t count; /* read without the lock for figures */
};

/* ---- segments (remote_segments.c) ---------------------------------------- */

struct remote_row;
struct remote_segments {
    pthread_mutex_t lock;
    struct remote_row **table; /* open addressing; all below: guarded */
    uint32_t capacity;
    uint32_t count;
    uint64_t generation;
    struct remote_row *void_rows; /* of incarnations that are over */
};

/* ---- heartbeat (remote_life.c) ------------------------------------------- */

struct remote_life {
    pthread_t thread;
    bool is_started;
    atomic_bool stops;
    pthread_cond_t wake; /* with remote->lock */
    bool is_due;         /* guarded: a beat is wanted now */
    struct remote_wire wire;
    uint64_t number;
    bool is_lost;         /* the master does not know us */
    uint64_t incarnation; /* of the identity that is being asked for */
    uint64_t fences_done;
    bool has_news;     /* fences done, to be told at once */
    unsigned failures; /* beats in a row */
    uint64_t begun_ns; /* when the first one was heard; 0: it was not */
    struct mci_known_attempt *attempts; /* MC_ATTEMPTS_MAX, as below */
    struct mci_stuck *stuck;
    size_t stuck_count;
    struct mci_pulse_room room;
};

/* ---- the remote ---------------------------------------------------------- */

struct mci_remote {
    struct mci_address address;
    char *name;    /* NULL: none */
    char *host_id; /* as below: never NULL */
    char *tenant;
    uint64_t timeout_ms;
    uint64_t connect_timeout_ms;
    struct mci_tls *tls;
    struct mci_remote_events events;

    pthread_mutex_t lock;
    pthread_cond_t changed;      /* a slot came back, or an identity came */
    struct mci_remote_self self; /* guarded by lock, as all below */
    _Atomic uint64_t generation; /* written under the lock */
    uint32_t client_ttl_ms;
    uint32_t heartbeat_ms;
    struct remote_slots slots;

    struct remote_book book;
    struct remote_segments segments;
    struct remote_life life;

    atomic_int health;
    _Atomic uint64_t calls_by_op[REMOTE_OPS];
    _Atomic uint64_t retries;
    _Atomic uint64_t timeouts;
    _Atomic uint64_t connects;
    _Atomic uint64_t heartbeats;
    _Atomic uint64_t renewals;
};

/* Connects and says hello. hello->self is what we know (client 0: nothing yet)
 * and becomes what the master says. Errors: those of streams;
 * MC_ERR_NOT_SUPPORTED (version; told in the log), MC_ERR_CLIENT_NOT_FOUND
 * (another epoch, too), and the master's. */
struct remote_hello {
    enum mci_role role;
    uint64_t deadline_ns;
    struct mci_remote_self self;
    struct mci_welcome welcome; /* out; its text is not kept */
};
MC_CHECK_RESULT enum mc_err mci_remote_hello(struct mci_remote *remote,
                                             struct remote_wire *wire,
                                             struct remote_hello *hello);

/* A new identity: numbers begin anew, idle connections are closed. */
void mci_remote_adopt(struct mci_remote *remote,
                      const struct remote_hello *hello);

/* Waits on a condition of remote->lock until deadline, and never long. */
void mci_remote_wait(struct mci_remote *remote, pthread_cond_t *cond,
                     uint64_t until_ns);
void mci_remote_cond_init(pthread_cond_t *cond);

/* NULL: none came free within the deadline, or (*err_out) out of memory. */
struct remote_slot *mci_remote_slot_take(struct mci_remote *remote,
                                         uint64_t deadline_ns,
                                         enum mc_err *err_out);
void mci_remote_slot_give(struct mci_remote *remote, struct remote_slot *slot);
void mci_remote_slots_reset(struct mci_remote *remote); /* lock is held */
void mci_remote_slots_fini(struct mci_remote *remote);
/* The last numbers of this generation; returns how many. */
uint32_t mci_remote_slots_list(struct mci_remote *remote, uint64_t generation,
                               uint64_t numbers_out[MCI_SLOTS_MAX]);

/* ---- asking (remote_ask.c) ----------------------------------------------- */

/* One request, from taking its slot to giving it back. */
struct remote_ask {
    struct mci_remote *remote;
    enum mci_op op;
    struct mc_view tenant;
    uint64_t deadline_ns;
    uint64_t epoch; /* as in the opts */
    struct remote_slot *slot;
    struct mci_pack pack;     /* for the args */
    struct mci_unpack unpack; /* of the result */
    /* Of the number that was answered: */
    uint64_t sent_ns; /* before it was first sent */
    struct mci_remote_self self;
    uint64_t generation;
    /* How it goes. */
    bool has_number;
    bool is_sent; /* it may have been executed */
    bool is_answered;
    uint64_t backoff_ns;
};

struct remote_ask_opts {
    enum mci_op op;
    struct mc_view tenant;
    uint64_t deadline_ns; /* 0: the remote's timeout from now */
    uint64_t epoch; /* not 0: what is named is of this epoch; under another
                             one the request is not sent, and answers -300 */
};
/* On MC_OK the args are to be packed, then run, then end. On an error there is
 * nothing to end. */
MC_CHECK_RESULT enum mc_err
mci_remote_ask_begin(struct mci_remote *remote,
                     const struct remote_ask_opts *opts,
                     struct remote_ask *ask);
/* MC_OK: the unpack stands at the result. */
MC_CHECK_RESULT enum mc_err mci_remote_ask_run(struct remote_ask *ask);
/* err: of run, or of reading the result; gives the slot back. A result that was
 * not read to its end, or badly, is MC_ERR_RPC_FAIL. */
MC_CHECK_RESULT enum mc_err mci_remote_ask_end(struct remote_ask *ask,
                                               enum mc_err err);

/* ---- the table (remote_write.c, remote_read.c, remote_lease.c,
 * remote_remove.c) ---------- */

/* How many rows from `at` on go into one message, by their bytes. */
struct remote_run {
    size_t at;
    size_t count;
    size_t bytes;
};
#define REMOTE_RUN_BYTES ((size_t)(MC_MESSAGE_LEN_MAX - (1 << 20)))
/* What a text takes at most: it is sent cut to one byte over its limit. */
static inline size_t mci_remote_text_bytes(struct mc_view text, size_t limit)
{
    return 5 + (text.len <= limit ? text.len : limit + 1);
}
/* True if a row of so many bytes still goes in; else the run is to be sent. */
static inline bool mci_remote_run_takes(struct remote_run *run, size_t bytes)
{
    if (run->count == MC_ROWS_MAX || bytes > REMOTE_RUN_BYTES - run->bytes) {
        return false;
    }
    run->count++;
    run->bytes += bytes;
    return true;
}

enum mc_err mci_remote_put_start(void *ctx, const struct mci_call *call,
                                 const struct mc_replicate_config *config,
                                 struct mci_write_row *rows, size_t count);
enum mc_err mci_remote_upsert_start(void *ctx, const struct mci_call *call,
                                    const struct mc_replicate_config *config,
                                    struct mci_write_row *rows, size_t count);
enum mc_err mci_remote_put_end(void *ctx, const struct mci_call *call,
                               struct mci_write_row *rows, size_t count);
enum mc_err mci_remote_put_revoke(void *ctx, const struct mci_call *call,
                                  struct mci_write_row *rows, size_t count);
enum mc_err mci_remote_attempt_fate(void *ctx, const struct mci_call *call,
                                    const struct mci_attempt *attempts,
                                    size_t count, enum mci_fate *fates_out);
enum mc_err mci_remote_attempt_touch(void *ctx, const struct mci_call *call,
                                     struct mci_write_row *rows, size_t count);
enum mc_err mci_remote_get(void *ctx, const struct mci_call *call,
                           struct mci_read_row *rows, size_t count);
void mci_remote_release(void *ctx, struct mci_read_row *rows, size_t count);
/* What is left for the caller of what the master told: it counted from when it
 * answered, which was after the request was sent; the caller counts from its
 * now_ns (SAFETY A.2). */
uint64_t mci_remote_lease_from(const struct remote_ask *ask, uint64_t now_ns,
                               uint64_t left_ns);
enum mc_err mci_remote_lease_renew(void *ctx, const struct mci_call *call,
                                   struct mci_read_row *rows, size_t count);
enum mc_err mci_remote_lease_release(void *ctx, const struct mci_call *call,
                                     struct mci_read_row *rows, size_t count);
enum mc_err mci_remote_lease_hold(void *ctx, const struct mci_call *call,
                                  struct mci_read_row *rows, size_t count);
enum mc_err mci_remote_exist(void *ctx, const struct mci_call *call,
                             const struct mc_view *keys, size_t count,
                             int64_t *results_out);
enum mc_err mci_remote_get_size(void *ctx, const struct mci_call *call,
                                const struct mc_view *keys, size_t count,
                                int64_t *results_out);
enum mc_err mci_remote_probe(void *ctx, const struct mci_call *call,
                             const struct mc_view *keys, size_t count,
                             struct mc_probe *probes_out, int64_t *results_out);
enum mc_err mci_remote_remove(void *ctx, const struct mci_call *call,
                              const struct mc_view *keys, size_t count,
                              bool force, int64_t *results_out);
enum mc_err mci_remote_remove_by_regex(void *ctx, const struct mci_call *call,
                                       struct mc_view regex, bool force,
                                       uint64_t *removed_out);
enum mc_err mci_remote_remove_all(void *ctx, const struct mci_call *call,
                                  bool force, uint64_t *removed_out);
enum mc_err mci_remote_list(void *ctx, const struct mci_call *call,
                            struct mc_view tenant, struct mci_cursor *cursor,
                            struct mci_page *page);
enum mc_err mci_remote_master_stat(void *ctx, const struct mci_call *call,
                                   struct mci_master_stats *stats_out);

/* ---- the book ------------------------------------------------------------ */

void mci_remote_book_init(struct remote_book *book);
void mci_remote_book_fini(struct remote_book *book);
/* Room for count more attempts, until they are entered or given up. Errors:
 * MC_ERR_NOMEM, MC_ERR_NO_AVAILABLE_HANDLE (more than MC_ATTEMPTS_MAX). */
MC_CHECK_RESULT enum mc_err mci_remote_book_promise(struct remote_book *book,
                                                    size_t count);
void mci_remote_book_unpromise(struct remote_book *book, size_t count);
/* Enters what a start has opened, which uses up one promise; nothing of another
 * generation than the book's. */
void mci_remote_book_enter(struct remote_book *book, uint64_t generation,
                           const struct mci_write_row *row);
void mci_remote_book_leave(struct remote_book *book, uint64_t attempt);
void mci_remote_book_clear(struct remote_book *book, uint64_t generation);
void mci_remote_book_renew(struct remote_book *book,
                           const struct mci_renewal *renewals, size_t count);
/* The open ones, at most MC_ATTEMPTS_MAX; returns how many. */
uint32_t mci_remote_book_list(struct remote_book *book, uint64_t now_ns,
                              struct mci_known_attempt *attempts_out);

/* ---- segments ------------------------------------------------------------ */

void mci_remote_segments_init(struct remote_segments *segments);
void mci_remote_segments_fini(struct remote_segments *segments);
/* What is known is known no more; rows stay readable for a while. */
void mci_remote_segments_void(struct remote_segments *segments,
                              uint64_t generation, uint64_t now_ns);

/* ---- life ---------------------------------------------------------------- */

MC_CHECK_RESULT enum mc_err mci_remote_life_start(struct mci_remote *remote);
void mci_remote_life_stop(struct mci_remote *remote);
void mci_remote_life_fini(struct mci_remote *remote);
/* A call has seen that the master does not know this generation. */
void mci_remote_life_suspect(struct mci_remote *remote, uint64_t generation);
void mci_remote_life_hurry(struct mci_remote *remote); /* a beat now */
bool mci_remote_life_is_current(const struct mci_remote *remote);
MC_CHECK_RESULT enum mc_err
mci_remote_draw_incarnation(uint64_t *incarnation_out);
#endif
