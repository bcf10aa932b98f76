/* SPDX-License-Identifier: Apache-2.0 */
/* ctl_proxy.h - a bad network between clients and their master, in this process.
 *
 * Clients connect to the proxy's port, each of their connections is carried on to
 * the target. Frames of the control protocol pass whole, one at a time, and rules
 * say what becomes of them. A held frame arrives later, also when the client has
 * closed its connection long ago and uses another: the way to the target stays
 * open for it, as if it had been somewhere in the network.
 *
 *   struct ctl_proxy *proxy = ctl_proxy_open(port);
 *   int rule = ctl_proxy_rule(proxy, &(struct ctl_rule){
 *       .way = CTL_REQUEST, .op = MCI_OP_REMOVE, .what = CTL_HOLD, .count = 1});
 *   ... AWAIT(ctl_proxy_hits(proxy, rule) == 1) ...
 *   ctl_proxy_release(proxy, rule);
 *
 * Threads: any thread, but open and close.
 */
#ifndef CTL_PROXY_H
#define CTL_PROXY_H
#include <stdbool.h>
#include <stdint.h>

#include "mci_control.h"

struct ctl_proxy;

enum ctl_way { CTL_REQUEST, CTL_ANSWER };

enum ctl_what {
    CTL_DROP,     /* it vanishes; the connection stays */
    CTL_HOLD,     /* it waits for release, and so does what comes behind it on
                     its connection and way */
    CTL_REPEAT,   /* it arrives twice */
    CTL_CUT,      /* the connection is cut instead, on both sides */
    CTL_CUT_AFTER /* it passes, then the connection is cut for the client; what
                     was sent to the master arrives */
};

struct ctl_rule {
    enum ctl_way way;
    enum mci_op op;  /* of the request, also for answers; 0: any */
    uint64_t number; /* 0: any */
    unsigned skip;   /* so many that match pass first */
    unsigned count;  /* then it is for so many; 0: for all */
    enum ctl_what what;
};

/* target_port: on 127.0.0.1. Fails the test if it cannot be made. */
struct ctl_proxy *ctl_proxy_open(uint16_t target_port);
void ctl_proxy_close(struct ctl_proxy *proxy); /* cuts all; NULL is fine */
uint16_t ctl_proxy_port(const struct ctl_proxy *proxy);

/* Later connections go there: a master that was started anew. */
void ctl_proxy_target(struct ctl_proxy *proxy, uint16_t target_port);

/* The first rule that matches decides. At most 32 at a time; returns its id. */
int ctl_proxy_rule(struct ctl_proxy *proxy, const struct ctl_rule *rule);
void ctl_proxy_lift(struct ctl_proxy *proxy, int rule); /* matches no more */
unsigned ctl_proxy_hits(struct ctl_proxy *proxy, int rule);
/* Lets go what this rule has held up to now, in the order of connections; then
 * what stands behind it. */
void ctl_proxy_release(struct ctl_proxy *proxy, int rule);

/* Frames that came to the proxy, whatever became of them. */
unsigned ctl_proxy_seen(struct ctl_proxy *proxy, enum ctl_way way,
                        enum mci_op op);

/* Cuts all connections now; what is held still arrives. */
void ctl_proxy_cut(struct ctl_proxy *proxy);
/* While true, new connections are closed at once. */
void ctl_proxy_refuse(struct ctl_proxy *proxy, bool refuses);
unsigned ctl_proxy_connections(struct ctl_proxy *proxy); /* ever accepted */
#endif
