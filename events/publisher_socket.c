/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher_socket.h"

#include <string.h>

#include "mci_bytes.h"

#define WORD_LEN_MAX 4096 /* a subscription; more from a peer cuts it off */
#define LISTEN_MAX 256    /* words at a time, so that events go on */

enum mc_err
mci_publisher_socket_open(struct mci_publisher_socket *socket,
                          const struct mci_publisher_socket_opts *opts,
                          char *endpoint_out, size_t capacity)
{
    const struct mci_zmq_opts zmq = {.kind = MCI_ZMQ_PUBLISHES,
                                     .what = "publisher",
                                     .endpoint = opts->endpoint,
                                     .mark = opts->mark,
                                     .word_max = WORD_LEN_MAX,
                                     .curve = opts->curve};
    socket->subscriptions = 0;
    socket->has_words = false;
    return mci_zmq_open(&socket->zmq, &zmq, endpoint_out, capacity);
}

void mci_publisher_socket_close(struct mci_publisher_socket *socket,
                                int linger_ms)
{
    mci_zmq_close(&socket->zmq, linger_ms);
    socket->subscriptions = 0;
}

/* One word of a subscriber; false if there is none. */
static bool hear(struct mci_publisher_socket *socket, bool *is_new)
{
    uint8_t first = 0;
    size_t len = 0;
    bool has_more = false;
    if (!mci_zmq_receive(&socket->zmq, &first, sizeof first, &len, &has_more)) {
        return false;
    }
    if (len > 0 && first == 1) {
        socket->subscriptions++;
        *is_new = true;
    } else if (len > 0 && first == 0 && socket->subscriptions > 0) {
        socket->subscriptions--;
    }
    return true;
}

bool mci_publisher_socket_listen(struct mci_publisher_socket *socket,
                                 int wait_ms)
{
    bool is_new = false;
    (void)mci_zmq_wait(&socket->zmq, wait_ms);
    int heard = 0;
    while (heard < LISTEN_MAX && hear(socket, &is_new)) {
        heard++;
    }
    socket->has_words = heard == LISTEN_MAX;
    return is_new;
}

enum mc_err mci_publisher_socket_send(struct mci_publisher_socket *socket,
                                      struct mc_view topic, uint64_t seq,
                                      struct mc_view payload)
{
    uint8_t number[8];
    mci_put_be64(number, seq);
    const struct mc_view frames[3] = {
        topic, mc_view_make(number, sizeof number), payload};
    switch (mci_zmq_send(&socket->zmq, frames, 3)) {
    case MCI_ZMQ_SENT:
        return MC_OK;
    case MCI_ZMQ_NOMEM:
        return MC_ERR_NOMEM;
    default:
        return MC_ERR_RPC_FAIL;
    }
}
