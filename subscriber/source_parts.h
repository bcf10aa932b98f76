/* SPDX-License-Identifier: Apache-2.0 */
/* source_parts.h - the inside of a set of sources: what the thread that reads
 * (source_read.c) shares with who opens it and who takes from it (source.c).
 *
 * Threads: as said per field; what is not is written before the thread starts.
 */
#ifndef SOURCE_PARTS_H
#define SOURCE_PARTS_H
#include <pthread.h>
#include <stdatomic.h>

#include "asker.h"
#include "source.h"

/* The delimiter stands before an answer. */
#define PARTS_MAX (1 + SOURCE_ANSWER_FRAMES_MAX)

struct letter { /* a message with the parts that its frames point into */
    struct source_message message;
    uint32_t place; /* of the request that it answers */
    size_t part_count;
    zmq_msg_t parts[PARTS_MAX];
};

struct connection {
    char *endpoint; /* NULL: none */
    char *recovery_endpoint;
    char *topic;
    struct mq_keys keys;
    void *socket;
    void *monitor;
    uint64_t again_at_ns; /* of the reading thread: when to connect anew, unless
                             libzmq does; 0: no need */
    _Atomic bool is_connected;
    _Atomic uint64_t connects;
    _Atomic uint64_t disconnects;
};

struct source_set {
    struct connection *connections;
    uint32_t count;
    uint32_t open_count; /* connections with an endpoint, and so a socket */
    source_message_fn on_message;
    void *ctx;
    void *zmq;
    int wake_fd;
    struct inbox inbox;
    struct asker_server *servers; /* per source, for the asker */
    struct asker *asker;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_stopping;
    _Atomic uint64_t wake_at_ns; /* UINT64_MAX: never */
    /* Of the reading thread: */
    zmq_pollitem_t *items; /* wake, monitors, sockets, requests */
    uint32_t *polled;      /* which connection the i-th monitor belongs to */
    uint32_t request_count;
    struct letter *letter; /* being filled, or NULL */
    /* Guarded by ready_lock: */
    pthread_mutex_t ready_lock;
    pthread_cond_t ready;
    bool is_ready;
    enum mc_err ready_err;
};

/* Frees the parts that the frames point into. */
void source_letter_empty(struct letter *letter);

/* The thread: opens the sockets, says whether that went well, reads until it is
 * told to stop, and closes them. arg: the set. */
void *source_read(void *arg);
#endif
