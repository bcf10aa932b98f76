/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.h - what the proxies of tests have in common: a port that is listened on,
 * a way to the target for each connection, and one thread that polls. What passes
 * is the matter of each proxy, told here as a few functions.
 *
 * Threads: any thread, but start and stop. The thread has the lock whenever it
 * does not wait, so all functions of a proxy are called with it held.
 */
#ifndef PROXY_H
#define PROXY_H
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROXY_CONNS_MAX 1024

/* The first member of a connection. Ways: 0 to the target, 1 back. */
struct proxy_conn {
    int fds[2]; /* by way: where its bytes come from; -1: closed */
};

struct proxy;

struct proxy_ops {
    size_t conn_bytes; /* zeroed, but for the sockets */
    /* What is polled for where the bytes of that way come from. */
    short (*events)(struct proxy *proxy, struct proxy_conn *conn, int way);
    /* Moves what can be moved. False: the connection is over. */
    bool (*serve)(struct proxy *proxy, struct proxy_conn *conn,
                  const short events[2]);
    void (*fini)(struct proxy_conn *conn); /* but the sockets; may be NULL */
};

struct proxy {
    const struct proxy_ops *ops;
    uint16_t port;
    int listener;
    int wake[2];
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    struct sockaddr_in target;
    bool stops;
    bool refuses;      /* new connections are closed at once */
    unsigned accepted; /* ever */
    struct proxy_conn *conns[PROXY_CONNS_MAX];
    int conn_count;
};

/* A zeroed one, on a port of 127.0.0.1. The target's port 0: the same one. Fails
 * the test if it cannot be made. */
void proxy_start(struct proxy *proxy, const struct proxy_ops *ops,
                 const char *target_host, uint16_t target_port);
void proxy_stop(struct proxy *proxy); /* cuts all */

/* Something is to be looked at. */
void proxy_kick(struct proxy *proxy);
void proxy_refuse(struct proxy *proxy, bool refuses);

static inline void proxy_lock(struct proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
}
static inline void proxy_unlock(struct proxy *proxy)
{
    (void)pthread_mutex_unlock(&proxy->lock);
}

void proxy_close_fd(int *fd); /* -1 is fine, and what it is then */
#endif
