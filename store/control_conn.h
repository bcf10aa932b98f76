/* SPDX-License-Identifier: Apache-2.0 */
/* control_conn.h - a client's connection to the control server, and the poller
 * it belongs to.
 *
 * Bytes are received into memory of the poller and frames are executed there; a
 * connection gets memory of its own only for a frame that is not complete, that
 * waits, or that is executed in slices, and only as its bytes arrive. While one
 * of its requests waits or runs, nothing is read from a connection; nor while an
 * answer has not been taken.
 * Threads: a connection is touched by its poller's thread only, except for what
 * its client's lock guards.
 */
#ifndef CONTROL_CONN_H
#define CONTROL_CONN_H
#include "control_client.h"
#include "control_job.h"
#include "control_server.h"
#include "control_walk.h"
#include "mci_list.h"
#include "mci_poller.h"

#define MCI_OPS_COUNTED 64

/* Written by one poller each, read by any. */
struct mci_control_counts {
    atomic_uint_fast64_t requests[MCI_OPS_COUNTED];
    atomic_uint_fast64_t failures[MCI_OPS_COUNTED];
    atomic_uint_fast64_t partial[MCI_OPS_COUNTED];
    atomic_uint_fast64_t items[MCI_OPS_COUNTED];
    atomic_uint_fast64_t failed_items[MCI_OPS_COUNTED];
    atomic_uint_fast64_t stale;
    atomic_uint_fast64_t repeated;
    atomic_uint_fast64_t malformed;
};

static inline void mci_count(atomic_uint_fast64_t *counter, uint64_t more)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + more, memory_order_relaxed);
}

struct mci_pulse_memory; /* what heartbeats are read into */

struct mci_control_poller {
    struct mci_control_server *server;
    struct mci_poller *poller;
    bool is_pulse; /* the one for heartbeats */
    struct mci_link conns;
    struct mci_link running; /* connections whose job has more to do */
    uint8_t *bytes;          /* MCI_CONN_BYTES received */
    struct mci_buf out;      /* answers to the connection at hand */
    struct mci_slice *slice;
    struct mci_pulse_memory *pulse; /* of the one for heartbeats */
    uint64_t tick_ns;               /* when connections are looked over next */
    struct mci_task listen;
    struct mci_task stop;
    struct mci_control_counts counts;
};

#define MCI_CONN_BYTES ((size_t)256 << 10)

enum mci_conn_state {
    MCI_CONN_READS, /* and executes what is complete */
    MCI_CONN_WAITS, /* for another request in its slot to end */
    MCI_CONN_RUNS,  /* a job of more than one slice, in the poller's list */
    MCI_CONN_WALKS, /* a job is with the worker */
    MCI_CONN_MOVES  /* to another poller */
};

struct mci_control_conn {
    struct mci_watch watch;
    struct mci_task move; /* to the poller it belongs to */
    struct mci_task wake; /* its turn in the slot has come, or never will */
    struct mci_walk walk;
    struct mci_link link;         /* in the poller's conns */
    struct mci_link running_link; /* in the poller's running */
    struct mci_control_server *server;
    struct mci_control_poller *poller;
    struct mci_stream *stream; /* NULL: closed */
    struct mci_control_client *client;
    enum mci_conn_state state;
    bool is_watched;
    bool is_heartbeat;
    bool is_refused;  /* one too many: hello is answered so */
    bool ends;        /* once everything is sent */
    bool is_woken;    /* guarded by the client's lock, as the next */
    bool is_replaced; /* its slot waits for another connection instead */
    /* What is to be executed: in the poller's memory, or in `in`. */
    const uint8_t *bytes_at; /* NULL: in `in` */
    const uint8_t *bytes_end;
    struct mci_buf in;
    size_t in_at;
    size_t frame_len;     /* with its head, of the one at hand */
    uint64_t frame_ns;    /* when its first byte arrived; 0: no byte did */
    uint64_t progress_ns; /* when bytes last moved */
    struct mci_buf out;   /* answers that the socket did not take */
    size_t out_at;
    struct mci_buf answer;   /* of the job, written slice by slice */
    struct mci_slice *slice; /* lent to the job; NULL: the poller's */
    struct mci_job job;
    struct mci_slot_ask ask;
    uint64_t again_ns; /* when the job is tried again */
};

/* ---- control_conn.c ----------------------------------------------------- */

/* Makes a connection of an accepted socket, which it owns (on failure it is
 * closed). Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_conn_create(struct mci_control_server *server,
                                            int fd,
                                            struct mci_control_conn **conn_out);
/* Hands it to a poller, whose thread then watches it. */
void mci_conn_move(struct mci_control_conn *conn,
                   struct mci_control_poller *poller);

/* Puts the frame at hand, and what follows it, into memory of the connection.
 * False: out of memory. The frame may have moved: mci_conn_frame. */
MC_CHECK_RESULT bool mci_conn_keep(struct mci_control_conn *conn);
struct mc_view mci_conn_frame(const struct mci_control_conn *conn);

/* Its socket is closed; the rest goes when nothing refers to it any more. */
void mci_conn_close(struct mci_control_conn *conn);

/* The job at hand is over and its answer stands in conn->answer: goes on with
 * what follows. */
void mci_conn_go_on(struct mci_control_conn *conn);

/* To be called last by whoever was called for this connection: waits for what
 * is due, or frees it. */
void mci_conn_settle(struct mci_control_conn *conn);

/* Answers wait for the socket to take them. */
static inline bool mci_conn_has_unsent(const struct mci_control_conn *conn)
{
    return conn->out.len > conn->out_at;
}

/* ---- control_conns.c ---------------------------------------------------- */

/* Looks, once in a while, for connections that stand still. */
void mci_conns_look_over(struct mci_control_poller *poller, uint64_t now_ns);
void mci_conns_close(struct mci_control_poller *poller);

/* ---- control_request.c -------------------------------------------------- */

enum mci_frame_fate {
    MCI_FRAME_DONE,  /* answered, if at all, onto poller->out */
    MCI_FRAME_HELD,  /* must stay where it is; state says why */
    MCI_FRAME_MOVES, /* to the poller for heartbeats, where it is executed */
    MCI_FRAME_BAD    /* not a frame that we understand */
};
enum mci_frame_fate mci_request_handle(struct mci_control_conn *conn);

/* One slice of a connection in the poller's list. */
void mci_request_step(struct mci_control_conn *conn, uint64_t now_ns);

/* Nobody is there to be answered. True: the job is dropped; else it goes on. */
bool mci_request_abandon(struct mci_control_conn *conn);

/* ---- control_hello.c ---------------------------------------------------- */

/* Requests that stand outside of slots. */
enum mci_frame_fate mci_hello_handle(struct mci_control_conn *conn,
                                     const struct mci_request *request,
                                     struct mci_unpack *args);
enum mci_frame_fate mci_heartbeat_handle(struct mci_control_conn *conn,
                                         const struct mci_request *request,
                                         struct mci_unpack *args);
/* Of another version: says so, and which ones we speak. */
enum mci_frame_fate mci_version_refuse(struct mci_control_conn *conn,
                                       const struct mci_request *request);
void mci_heartbeat_hung_up(struct mci_control_conn *conn);

/* NULL: out of memory. */
struct mci_pulse_memory *mci_pulse_memory_create(void);
void mci_pulse_memory_destroy(struct mci_pulse_memory *memory);

/* Makes the connection one of the client that a request names. Errors: -103,
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_conn_belong(struct mci_control_conn *conn,
                                            uint32_t client,
                                            uint64_t incarnation);

/* ---- control_server.c --------------------------------------------------- */

struct mci_control_server {
    struct mci_control_server_opts opts;
    struct mci_control_ground ground;
    struct mci_control_clients clients;
    struct mci_control_poller *pollers; /* the last one is for heartbeats */
    uint32_t poller_count;
    uint32_t next_poller;
    struct mci_walker walker;
    struct mci_watch listener;
    bool is_listening;        /* of the first poller's thread, as the next */
    uint64_t paused_until_ns; /* no descriptors are left; 0: it listens */
    uint64_t stall_ns;
    atomic_bool is_stopping;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t conn_count; /* guarded by lock */
    bool is_kicked;      /* guarded by lock: the registry has something to do */
    bool is_ending;      /* guarded by lock */
    pthread_t stepper;
};

struct mci_control_poller *mci_control_pulse(struct mci_control_server *server);

/* The registry may have something to do now. */
void mci_control_kick(struct mci_control_server *server);
/* Counts a connection. False: there are too many. */
bool mci_control_admit(struct mci_control_server *server);
void mci_control_leave(struct mci_control_server *server);
#endif
