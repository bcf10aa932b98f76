/* SPDX-License-Identifier: Apache-2.0 */
/* asker.h - the requests to recovery servers that are open, each with a DEALER
 * socket of its own, so that closing it drops what is late.
 *
 * A request is asked, granted credit and dropped by the thread that delivers;
 * asker_settle then does what that takes on the thread that reads, which alone
 * touches the sockets. A request that was never answered stays open until it is
 * dropped, and so does one that was answered to its end.
 * Threads: as said per function. "Taker": the one that delivers, one at a time.
 */
#ifndef ASKER_H
#define ASKER_H
#include "mq_socket.h"
#include "recovery_answer.h"

struct asker;

/* A recovery server; endpoint NULL: there is none. Borrowed as long as the asker
 * lives. */
struct asker_server {
    const char *endpoint;
    const struct mq_keys *keys;
};

/* servers[i] is source i's; borrowed. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err asker_create(const struct asker_server *servers,
                                         uint32_t count,
                                         uint32_t per_server_max,
                                         struct asker **asker_out);
void asker_destroy(struct asker *asker); /* after asker_close; NULL is fine */

/* How many requests there can be at a time, open or not closed yet:
 * per_server_max for each server; 0: there is none. */
uint32_t asker_capacity(const struct asker *asker);

/* ---- the taker -------------------------------------------------------- */

/* Errors: MC_ERR_INVALID_PARAMS (no such recovery server, a request that cannot
 * be, a number that is open), MC_ERR_NO_AVAILABLE_HANDLE (too many). */
MC_CHECK_RESULT enum mc_err asker_ask(struct asker *asker,
                                      const struct asker_request *request);
/* What is not open is passed over. */
void asker_credit(struct asker *asker, uint64_t number, uint32_t credit);
void asker_drop(struct asker *asker, uint64_t number);

/* Whether the request in this place is that one, and not dropped. Any thread. */
bool asker_is_open(struct asker *asker, uint32_t place, uint64_t number);

/* ---- the reader ------------------------------------------------------- */

/* Opens, closes, and sends. Calls on_failed for each request that could not be
 * asked; a line in the log says why. */
typedef void (*asker_failed_fn)(void *ctx, uint32_t place);
void asker_settle(struct asker *asker, void *context, asker_failed_fn on_failed,
                  void *ctx);

/* Fills in what is to be polled, at most asker_capacity; how many that are. The
 * i-th one belongs to asker_place(asker, i), until the next call. */
uint32_t asker_poll(struct asker *asker, zmq_pollitem_t *items);
uint32_t asker_place(const struct asker *asker, uint32_t i);

/* Whose the request in a place is, and its number; asked by the reader, between
 * two calls of asker_settle. */
uint32_t asker_source(const struct asker *asker, uint32_t place);
uint64_t asker_number(const struct asker *asker, uint32_t place);

/* As mq_receive: false if no answer is there. */
bool asker_receive(struct asker *asker, uint32_t place, zmq_msg_t *parts,
                   struct mc_view *frames, size_t room, size_t *count_out);

/* Closes all sockets; on their thread, as the last call but asker_destroy. */
void asker_close(struct asker *asker);
#endif
