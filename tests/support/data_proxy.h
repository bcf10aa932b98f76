/* SPDX-License-Identifier: Apache-2.0 */
/* data_proxy.h - a slow network between readers or writers and the owner of
 * memory, in this process.
 *
 * Peers connect to 127.0.0.1:port; each connection is carried on to the same
 * port of 127.0.0.2, where an owner listens that is told to bind there
 * (MC_TCP_BIND_ADDRESS) and to say that it is reached at 127.0.0.1:port. Bytes
 * pass as they come, until so many have passed one way: then what is behind
 * them waits to be let go.
 *
 * Threads: any thread, but open and close.
 */
#ifndef DATA_PROXY_H
#define DATA_PROXY_H
#include <stdbool.h>
#include <stdint.h>

struct data_proxy;

enum data_way { DATA_TO_OWNER, DATA_FROM_OWNER };

#define DATA_PROXY_BIND "127.0.0.2"

/* Fails the test if it cannot be made. */
struct data_proxy *data_proxy_open(void);
void data_proxy_close(struct data_proxy *proxy); /* cuts all; NULL is fine */
uint16_t data_proxy_port(const struct data_proxy *proxy);

/* So many bytes from now on pass this way, over all connections. */
void data_proxy_hold(struct data_proxy *proxy, enum data_way way,
                     uint64_t after);
/* They have passed, and more has come. */
bool data_proxy_is_held(struct data_proxy *proxy, enum data_way way);
void data_proxy_release(struct data_proxy *proxy, enum data_way way);

/* While true, new connections are closed at once. */
void data_proxy_refuse(struct data_proxy *proxy, bool refuses);

/* Connections that are open, and those that the owner has closed. */
unsigned data_proxy_connections(struct data_proxy *proxy);
unsigned data_proxy_closed(struct data_proxy *proxy);
#endif
