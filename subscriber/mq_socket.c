/* SPDX-License-Identifier: Apache-2.0 */
#include "mq_socket.h"

#include <errno.h>
#include <string.h>

#include "mc_limits.h"
#include "mc_log.h"

/* Messages between libzmq and us; the rest waits in the kernel and at the
 * publisher. A frame over the limit costs the connection, since libzmq would
 * have to hold it. */
#define SUB_MESSAGES_MAX 512
#define DEALER_MESSAGES_MAX 64
#define FRAME_MAX (INT64_C(4) * MC_EVENT_PAYLOAD_MAX)
#define RECONNECT_MS 50
#define RECONNECT_MS_MAX 1000
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_EVERY_S 5
#define KEEPALIVE_TRIES 3

/* ---- keys ------------------------------------------------------------- */

enum mc_err mq_keys_read(const struct mc_source_opts *source,
                         struct mq_keys *keys_out)
{
    bool has_server = source->curve_server_key && source->curve_server_key[0];
    bool has_file = source->curve_key_file && source->curve_key_file[0];
    if (!has_server && !has_file) {
        return MC_OK;
    }
    if (!has_server || !has_file ||
        !mci_curve_is_key(source->curve_server_key)) {
        mc_log(MC_LOG_ERROR,
               "subscriber: curve: a server key of %d "
               "characters and a key file go together",
               MCI_CURVE_KEY_LEN);
        return MC_ERR_INVALID_PARAMS;
    }
    memcpy(keys_out->server, source->curve_server_key, sizeof keys_out->server);
    return mci_curve_pair_read(source->curve_key_file, &keys_out->pair);
}

void mq_keys_wipe(struct mq_keys *keys)
{
    explicit_bzero(keys, sizeof *keys);
}

/* Keys are texts with their NUL. */
static bool set_keys(void *socket, const struct mq_keys *keys)
{
    const size_t len = MCI_CURVE_KEY_LEN + 1;
    return keys->server[0] == '\0' ||
           (zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->server, len) ==
                0 &&
            zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->pair.public_key,
                           len) == 0 &&
            zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->pair.secret_key,
                           len) == 0);
}

/* ---- opening ---------------------------------------------------------- */

static bool set_number(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_options(void *socket, int messages_max)
{
    int64_t frame_max = FRAME_MAX;
    return set_number(socket, ZMQ_RCVHWM, messages_max) &&
           set_number(socket, ZMQ_LINGER, 0) &&
           set_number(socket, ZMQ_IPV6, 1) &&
           set_number(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
           set_number(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX) &&
           set_number(socket, ZMQ_TCP_KEEPALIVE, 1) &&
           set_number(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S) &&
           set_number(socket, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_EVERY_S) &&
           set_number(socket, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_TRIES) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_max,
                          sizeof frame_max) == 0;
}

/* Hands the socket on if all that was set was taken. */
static void *settle(void *socket, bool is_set)
{
    if (socket && is_set) {
        return socket;
    }
    mc_log(MC_LOG_ERROR, "subscriber: socket: %s", zmq_strerror(errno));
    mq_close(socket);
    return NULL;
}

void *mq_open_sub(void *context, const struct mq_keys *keys, const char *topic)
{
    const char *wanted = topic ? topic : "";
    void *socket = zmq_socket(context, ZMQ_SUB);
    return settle(socket, socket && set_options(socket, SUB_MESSAGES_MAX) &&
                              set_keys(socket, keys) &&
                              zmq_setsockopt(socket, ZMQ_SUBSCRIBE, wanted,
                                             strlen(wanted)) == 0);
}

void *mq_open_dealer(void *context, const struct mq_keys *keys)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    return settle(socket, socket && set_options(socket, DEALER_MESSAGES_MAX) &&
                              set_keys(socket, keys));
}

enum mc_err mq_connect(void *socket, const char *endpoint)
{
    if (zmq_connect(socket, endpoint) != 0) {
        mc_log(MC_LOG_ERROR, "subscriber: endpoint %s: connect: %s", endpoint,
               zmq_strerror(errno));
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

bool mq_connect_again(void *socket, const char *endpoint)
{
    (void)zmq_disconnect(socket,
                         endpoint); /* what is left of it, if anything */
    return zmq_connect(socket, endpoint) == 0;
}

void *mq_open_monitor(void *context, void *socket, const char *name)
{
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECT_RETRIED |
                       ZMQ_EVENT_CONNECTED;
    bool is_told = zmq_socket_monitor(socket, name, events) == 0;
    void *monitor = is_told ? zmq_socket(context, ZMQ_PAIR) : NULL;
    return settle(monitor, monitor && set_number(monitor, ZMQ_LINGER, 0) &&
                               zmq_connect(monitor, name) == 0);
}

void mq_close(void *socket)
{
    if (socket) {
        (void)zmq_close(socket);
    }
}

/* ---- messages --------------------------------------------------------- */

bool mq_receive(void *socket, zmq_msg_t *parts, struct mc_view *frames,
                size_t room, size_t *count_out)
{
    bool has_more = true;
    size_t kept = 0;
    for (size_t i = 0; has_more; i++) {
        zmq_msg_t scratch;
        bool is_kept = i < room;
        zmq_msg_t *part = is_kept ? &parts[i] : &scratch;
        (void)zmq_msg_init(part);
        if (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(part);
            if (i == 0) {
                return false;
            }
            break;
        }
        has_more = zmq_msg_more(part) != 0;
        if (is_kept) {
            frames[i] = mc_view_make(zmq_msg_data(part), zmq_msg_size(part));
            kept = i + 1;
        } else {
            (void)zmq_msg_close(part);
        }
    }
    *count_out = kept;
    return true;
}

void mq_drop(zmq_msg_t *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)zmq_msg_close(&parts[i]);
    }
}

bool mq_receive_word(void *monitor, unsigned *event_out)
{
    bool has_word = false;
    bool has_more = true;
    for (int i = 0; has_more; i++) {
        zmq_msg_t part;
        (void)zmq_msg_init(&part);
        if (zmq_msg_recv(&part, monitor, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&part);
            break;
        }
        if (i == 0 && zmq_msg_size(&part) >= 2) {
            uint16_t number; /* in the byte order of the host */
            memcpy(&number, zmq_msg_data(&part), sizeof number);
            *event_out = number;
            has_word = true;
        }
        has_more = zmq_msg_more(&part) != 0;
        (void)zmq_msg_close(&part);
    }
    return has_word;
}

/* A message is taken with its first frame, or not at all. */
bool mq_send(void *socket, const struct mc_view *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
        if (zmq_send(socket, frames[i].data, frames[i].len, flags) < 0) {
            return false;
        }
    }
    return true;
}
