/* SPDX-License-Identifier: Apache-2.0 */
/* fake_master.h - a master for tests of its clients, which says what the test
 * makes it say.
 *
 * Each connection has a thread, which reads requests one by one. Hello, goodbye,
 * cancel and heartbeat are answered here; all others go to the test's function,
 * on the connection's thread, and that may wait, answer, lie, or cut. A request
 * of an incarnation or epoch that is not known is answered -103 before that.
 *
 * Threads: fields marked so may be set at any time; functions that take a
 * connection are for its thread, or while that waits.
 */
#ifndef FAKE_MASTER_H
#define FAKE_MASTER_H
#include <pthread.h>
#include <stdatomic.h>

#include "mci_control.h"

#define FAKE_CONNS_MAX 1024
#define FAKE_LOG_MAX 4096
#define FAKE_KNOWN_MAX 64

struct fake_master;

struct fake_conn {
    struct fake_master *master;
    pthread_t thread;
    int fd;
    bool is_cut;
    struct mci_buf in;
    struct mci_buf out;
    size_t answer_at;
    struct mci_heartbeat_room *room; /* once it has had a heartbeat */
};

/* args: at the args. */
typedef void (*fake_fn)(void *ctx, struct fake_conn *conn,
                        const struct mci_request *request,
                        struct mci_unpack *args);

struct fake_beat {
    uint64_t count; /* heartbeats so far */
    uint64_t fences_done;
    uint64_t slots[MCI_SLOTS_MAX];
    uint32_t slot_count;
    uint64_t attempts[FAKE_KNOWN_MAX];
    uint32_t attempt_count;
    uint32_t stuck_count;
    uint64_t came_ns;
};

struct fake_master {
    /* May be set at any time. */
    _Atomic uint64_t epoch;
    atomic_int hello_code;     /* not 0: every hello is refused with it */
    atomic_int hello_refusals; /* so many hellos are refused with -102 */
    atomic_uint hello_version; /* that answers have; 0: ours */
    atomic_bool is_deaf;       /* hellos and heartbeats are not answered */
    atomic_uint heartbeat_ms;

    uint16_t port;
    fake_fn answer;
    void *ctx;
    int listener;
    pthread_t thread;
    atomic_bool stops;

    pthread_mutex_t lock; /* guards all below */
    uint64_t incarnation; /* that is known; 0: none */
    uint32_t client;
    struct fake_conn *conns[FAKE_CONNS_MAX];
    unsigned conn_count;
    unsigned seen[64];                    /* requests by op */
    struct mci_request log[FAKE_LOG_MAX]; /* all but heartbeats */
    unsigned log_count;
    struct fake_beat beat;  /* the last one */
    struct mci_pulse pulse; /* what the next heartbeat is told, once */
};

/* answer may be NULL: such requests are answered -1012. */
void fake_open(struct fake_master *master, fake_fn answer, void *ctx);
void fake_close(struct fake_master *master);

/* Answering: begin, pack the result, end. */
void fake_begin(struct fake_conn *conn, const struct mci_request *request,
                enum mc_err code, struct mci_pack *pack);
void fake_end(struct fake_conn *conn, struct mci_pack *pack);
/* A refusal, or an answer without a result. */
void fake_refuse(struct fake_conn *conn, const struct mci_request *request,
                 enum mc_err code);
void fake_bytes(struct fake_conn *conn, const void *data, size_t len);
void fake_cut(struct fake_conn *conn);

/* The client is expired: not known any more. */
void fake_forget(struct fake_master *master);
/* Another master in this one's place: a new epoch, connections are cut. */
void fake_restart(struct fake_master *master);
void fake_cut_all(struct fake_master *master);
/* To be told with the next heartbeat's answer; arrays are borrowed. */
void fake_pulse(struct fake_master *master, const struct mci_pulse *pulse);

unsigned fake_seen(struct fake_master *master, enum mci_op op);
struct fake_beat fake_last_beat(struct fake_master *master);
/* The n-th request from the end that is no heartbeat and no hello; 0 = last. */
struct mci_request fake_logged(struct fake_master *master, unsigned back);
#endif
