/* SPDX-License-Identifier: Apache-2.0 */
#include "zmq_socket.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "mc_log.h"

#define QUESTIONS_MAX 256 /* at a time, so that the caller goes on */

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

static int set_options(void *socket, const struct mci_zmq_opts *opts)
{
    int rc = set_int(socket, ZMQ_SNDHWM, opts->mark);
    rc |= set_int(socket, ZMQ_LINGER, 0);
    rc |= zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &opts->word_max,
                         sizeof opts->word_max);
    if (opts->kind == MCI_ZMQ_PUBLISHES) {
        /* Every subscription and its end, also of a filter that others have:
         * the count of subscribers is made of these. */
        rc |= set_int(socket, ZMQ_XPUB_VERBOSER, 1);
    } else {
        rc |= set_int(socket, ZMQ_ROUTER_MANDATORY, 1);
    }
    return rc;
}

static enum mc_err bind_failed(const struct mci_zmq_opts *opts)
{
    int cause = zmq_errno();
    mc_log(MC_LOG_ERROR, "%s: bind %s: %s", opts->what, opts->endpoint,
           zmq_strerror(cause));
    return cause == EMFILE || cause == ENOMEM || cause == EMTHREAD
               ? MC_ERR_NOMEM
               : MC_ERR_INVALID_PARAMS;
}

/* The port that was chosen stands in libzmq's form of the endpoint; where that
 * cannot be had, the endpoint stays as it was asked for. */
static void bound_endpoint(void *socket, char *endpoint_out, size_t capacity)
{
    char text[1024];
    size_t len = sizeof text;
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, text, &len) == 0) {
        (void)snprintf(endpoint_out, capacity, "%s", text);
    }
}

/* libzmq asks at this address whether a peer may come in, on a socket of the same
 * context, and lets it wait until it is answered. */
#define DOOR_ENDPOINT "inproc://zeromq.zap.01"
#define DOOR_DOMAIN "mckv"
#define KEY_BYTES 32

static int set_curve(struct mci_zmq_socket *made,
                     const struct mci_zmq_curve *curve)
{
    int rc = set_int(made->socket, ZMQ_CURVE_SERVER, 1);
    rc |= zmq_setsockopt(made->socket, ZMQ_CURVE_SECRETKEY,
                         curve->pair.secret_key, MCI_CURVE_KEY_LEN + 1);
    rc |= zmq_setsockopt(made->socket, ZMQ_ZAP_DOMAIN, DOOR_DOMAIN,
                         strlen(DOOR_DOMAIN));
    return rc;
}

/* Before anybody can connect. */
static enum mc_err open_door(struct mci_zmq_socket *made,
                             const struct mci_zmq_curve *curve)
{
    if (!zmq_has("curve")) {
        mc_log(MC_LOG_ERROR, "%s: this ZeroMQ knows no CURVE", made->what);
        return MC_ERR_NOT_SUPPORTED;
    }
    made->allowed = &curve->allowed;
    made->door = zmq_socket(made->context, ZMQ_REP);
    if (!made->door || set_int(made->door, ZMQ_LINGER, 0) != 0 ||
        zmq_bind(made->door, DOOR_ENDPOINT) != 0 ||
        set_curve(made, curve) != 0) {
        mc_log(MC_LOG_ERROR, "%s: curve: %s", made->what,
               zmq_strerror(zmq_errno()));
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

static enum mc_err bind_socket(struct mci_zmq_socket *made,
                               const struct mci_zmq_opts *opts)
{
    enum mc_err err = opts->curve ? open_door(made, opts->curve) : MC_OK;
    if (!err && (set_options(made->socket, opts) != 0 ||
                 zmq_bind(made->socket, opts->endpoint) != 0)) {
        err = bind_failed(opts);
    }
    return err;
}

enum mc_err mci_zmq_open(struct mci_zmq_socket *socket,
                         const struct mci_zmq_opts *opts, char *endpoint_out,
                         size_t capacity)
{
    struct mci_zmq_socket made = {.what = opts->what};
    enum mc_err err;
    made.context = zmq_ctx_new();
    if (!made.context) {
        return bind_failed(opts);
    }
    made.socket = zmq_socket(
        made.context, opts->kind == MCI_ZMQ_PUBLISHES ? ZMQ_XPUB : ZMQ_ROUTER);
    if (!made.socket) {
        err = bind_failed(opts);
        goto err_term;
    }
    err = bind_socket(&made, opts);
    if (err) {
        goto err_close;
    }
    (void)snprintf(endpoint_out, capacity, "%s", opts->endpoint);
    bound_endpoint(made.socket, endpoint_out, capacity);
    *socket = made;
    return MC_OK;

err_close:
    if (made.door) {
        (void)zmq_close(made.door);
    }
    (void)zmq_close(made.socket);
err_term:
    (void)zmq_ctx_term(made.context);
    return err;
}

void mci_zmq_close(struct mci_zmq_socket *socket, int linger_ms)
{
    if (socket->door) {
        (void)zmq_close(socket->door);
    }
    (void)set_int(socket->socket, ZMQ_LINGER, linger_ms);
    (void)zmq_close(socket->socket);
    while (zmq_ctx_term(socket->context) != 0 && zmq_errno() == EINTR) {
    }
    memset(socket, 0, sizeof *socket);
}

/* ---- who may come in ------------------------------------------------------- */

static bool is_allowed(const struct mci_curve_list *list, const uint8_t *key)
{
    char text[MCI_CURVE_KEY_LEN + 1];
    (void)zmq_z85_encode(text, key, KEY_BYTES);
    for (size_t i = 0; i < list->count; i++) {
        if (memcmp(list->keys[i], text, MCI_CURVE_KEY_LEN) == 0) {
            return true;
        }
    }
    return false;
}

/* A question of libzmq: version, number, domain, address, identity, mechanism,
 * key. Its number goes into the answer. */
struct question {
    uint8_t number[256];
    size_t number_len;
    bool is_allowed;
};

static bool read_question(struct mci_zmq_socket *socket,
                          struct question *question)
{
    bool is_curve = false;
    int more = 1;
    for (int i = 0; more; i++) {
        zmq_msg_t part;
        (void)zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket->door, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&part);
            return false;
        }
        const uint8_t *data = zmq_msg_data(&part);
        size_t len = zmq_msg_size(&part);
        if (i == 1 && len <= sizeof question->number) {
            memcpy(question->number, data, len);
            question->number_len = len;
        } else if (i == 5) {
            is_curve = len == 5 && memcmp(data, "CURVE", 5) == 0;
        } else if (i == 6) {
            question->is_allowed = is_curve && len == KEY_BYTES &&
                                   is_allowed(socket->allowed, data);
        }
        more = zmq_msg_more(&part);
        (void)zmq_msg_close(&part);
    }
    return true;
}

static void answer_question(struct mci_zmq_socket *socket,
                            const struct question *question)
{
    const char *code = question->is_allowed ? "200" : "400";
    const struct mc_view parts[] = {
        mc_view_str("1.0"),
        mc_view_make(question->number, question->number_len),
        mc_view_str(code),
        mc_view_str(""),
        mc_view_str(""),
        mc_view_str("")};
    const size_t count = sizeof parts / sizeof parts[0];
    for (size_t i = 0; i < count; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
        if (zmq_send(socket->door, parts[i].data, parts[i].len, flags) < 0) {
            return; /* libzmq has given the peer up */
        }
    }
    if (!question->is_allowed) {
        mc_log(MC_LOG_INFO, "%s: a peer without an allowed key was refused",
               socket->what);
    }
}

static void mind_door(struct mci_zmq_socket *socket)
{
    for (int i = 0; socket->door && i < QUESTIONS_MAX; i++) {
        struct question question = {.number_len = 0};
        if (!read_question(socket, &question)) {
            return;
        }
        answer_question(socket, &question);
    }
}

/* ---- what peers say and get ------------------------------------------------ */

/* The descriptor is readable when libzmq's threads have told the socket
 * something: a peer came, or one whose queue was full has taken enough. */
static bool wait_for_word(struct mci_zmq_socket *socket, int wait_ms)
{
    int fd = -1;
    size_t len = sizeof fd;
    if (zmq_getsockopt(socket->socket, ZMQ_FD, &fd, &len) != 0) {
        return false;
    }
    zmq_pollitem_t items[3] = {{.socket = socket->socket, .events = ZMQ_POLLIN},
                               {.fd = fd, .events = ZMQ_POLLIN},
                               {.socket = socket->door, .events = ZMQ_POLLIN}};
    (void)zmq_poll(items, socket->door ? 3 : 2, wait_ms);
    return (items[1].revents & ZMQ_POLLIN) != 0;
}

bool mci_zmq_wait(struct mci_zmq_socket *socket, int wait_ms)
{
    bool is_told = wait_ms > 0 && wait_for_word(socket, wait_ms);
    mind_door(socket);
    return is_told;
}

bool mci_zmq_receive(struct mci_zmq_socket *socket, uint8_t *room,
                     size_t capacity, size_t *len_out, bool *has_more_out)
{
    zmq_msg_t frame;
    (void)zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, socket->socket, ZMQ_DONTWAIT) < 0) {
        (void)zmq_msg_close(&frame);
        return false;
    }
    size_t len = zmq_msg_size(&frame);
    size_t fits = len < capacity ? len : capacity;
    if (fits > 0) {
        memcpy(room, zmq_msg_data(&frame), fits);
    }
    *len_out = len;
    *has_more_out = zmq_msg_more(&frame) != 0;
    (void)zmq_msg_close(&frame);
    return true;
}

static void frame_fill(zmq_msg_t *frame, struct mc_view bytes)
{
    if (bytes.len > 0) {
        memcpy(zmq_msg_data(frame), bytes.data, bytes.len);
    }
}

/* Only the first frame can be refused: a queue has room for whole messages. So
 * the others are copied once it is known that they go. */
static enum mci_zmq_sent send_frames(void *socket, zmq_msg_t *frames,
                                     const struct mc_view *views, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
        frame_fill(&frames[i], views[i]);
        if (zmq_msg_send(&frames[i], socket, flags) < 0) {
            return zmq_errno() == EAGAIN         ? MCI_ZMQ_BLOCKED
                   : zmq_errno() == EHOSTUNREACH ? MCI_ZMQ_GONE
                                                 : MCI_ZMQ_FAILED;
        }
    }
    return MCI_ZMQ_SENT;
}

enum mci_zmq_sent mci_zmq_send(struct mci_zmq_socket *socket,
                               const struct mc_view *views, size_t count)
{
    zmq_msg_t frames[MCI_ZMQ_FRAMES_MAX];
    size_t made = 0;
    assert(count > 0 && count <= MCI_ZMQ_FRAMES_MAX);
    while (made < count &&
           zmq_msg_init_size(&frames[made], views[made].len) == 0) {
        made++;
    }
    enum mci_zmq_sent sent = MCI_ZMQ_NOMEM;
    if (made == count) {
        sent = send_frames(socket->socket, frames, views, count);
    }
    /* A frame that was sent is empty by now. */
    for (size_t i = 0; i < made; i++) {
        (void)zmq_msg_close(&frames[i]);
    }
    return sent;
}

enum mc_err mci_curve_keypair(char public_out[MCI_CURVE_KEY_LEN + 1],
                              char secret_out[MCI_CURVE_KEY_LEN + 1])
{
    if (zmq_curve_keypair(public_out, secret_out) != 0) {
        mc_log(MC_LOG_ERROR, "curve: %s", zmq_strerror(zmq_errno()));
        return MC_ERR_NOT_SUPPORTED;
    }
    return MC_OK;
}
