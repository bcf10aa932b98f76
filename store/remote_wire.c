/* SPDX-License-Identifier: Apache-2.0 */
/* A small call is one send, one poll and one recv. The args of a request lie
 * behind room for its head, which is written anew for each try, since the time
 * that is left differs; so all of it is one run of bytes.
 *
 * What an answer says of its length is believed only as far as bytes have come.
 */
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "mc_log.h"
#include "mci_bytes.h"
#include "remote.h"

#define IN_FIRST ((size_t)8 << 10)  /* room for an answer, at first */
#define IN_STEP ((size_t)256 << 10) /* and at a time, at most */
/* How long a waiter looks before it sleeps: a wake-up costs about as much, and
 * most answers of a master on the same network are there by then. */
#define LOOK_NS 40000
#define FRAME_MAX ((size_t)MC_MESSAGE_LEN_MAX + MCI_FRAME_HEAD)

void mci_remote_wire_init(struct remote_wire *wire)
{
    wire->stream = NULL;
    wire->stops = NULL;
    wire->in_at = 0;
    mci_buf_init(&wire->out, FRAME_MAX + REMOTE_HEAD_ROOM);
    mci_buf_init(&wire->in, FRAME_MAX + IN_STEP);
}

void mci_remote_wire_fini(struct remote_wire *wire)
{
    mci_stream_close(wire->stream);
    wire->stream = NULL;
    mci_buf_fini(&wire->out);
    mci_buf_fini(&wire->in);
}

void mci_remote_wire_drop(struct remote_wire *wire)
{
    if (wire->stream) {
        mci_stream_abort(wire->stream);
        wire->stream = NULL;
    }
    mci_buf_clear(&wire->in);
    wire->in_at = 0;
}

void mci_remote_wire_trim(struct remote_wire *wire)
{
    if (wire->out.capacity > REMOTE_SPARE_MAX) {
        mci_buf_fini(&wire->out);
        mci_buf_init(&wire->out, FRAME_MAX + REMOTE_HEAD_ROOM);
    }
    if (wire->in.capacity > REMOTE_SPARE_MAX && wire->in_at == wire->in.len) {
        mci_buf_fini(&wire->in);
        mci_buf_init(&wire->in, FRAME_MAX + IN_STEP);
        wire->in_at = 0;
    }
}

/* ---- sending ------------------------------------------------------------- */

void mci_remote_wire_begin(struct remote_wire *wire, struct mci_pack *pack)
{
    mci_buf_clear(&wire->out);
    mci_pack_init(pack, &wire->out);
    pack->err = mci_buf_reserve(&wire->out, REMOTE_HEAD_ROOM);
    if (pack->err == MC_OK) {
        memset(wire->out.data, 0, REMOTE_HEAD_ROOM);
        wire->out.len = REMOTE_HEAD_ROOM;
    }
}

/* Lays the head so that it ends where the args begin. */
static enum mc_err write_head(struct remote_wire *wire,
                              const struct mci_request *request, size_t *at_out)
{
    uint8_t room[REMOTE_HEAD_ROOM];
    struct mci_buf head = {
        .data = room, .capacity = sizeof room, .max = sizeof room};
    struct mci_pack pack;
    mci_pack_init(&pack, &head);
    (void)mci_request_begin(&pack, request);
    if (pack.err != MC_OK) {
        return pack.err;
    }
    size_t len = wire->out.len - REMOTE_HEAD_ROOM + head.len - MCI_FRAME_HEAD;
    if (len > MC_MESSAGE_LEN_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    mci_put_le32(room, (uint32_t)len);
    *at_out = REMOTE_HEAD_ROOM - head.len;
    memcpy(wire->out.data + *at_out, room, head.len);
    return MC_OK;
}

enum mc_err mci_remote_wire_send(struct remote_wire *wire,
                                 const struct mci_request *request,
                                 uint64_t deadline_ns, bool *is_whole_out)
{
    size_t at = 0;
    *is_whole_out = false;
    enum mc_err err = write_head(wire, request, &at);
    if (err != MC_OK) {
        return err;
    }
    err = mci_stream_send_all(wire->stream, wire->out.data + at,
                              wire->out.len - at, deadline_ns);
    *is_whole_out = err == MC_OK;
    return err;
}

/* ---- receiving ----------------------------------------------------------- */

static bool is_stopped(const struct remote_wire *wire)
{
    return wire->stops && atomic_load(wire->stops);
}

/* Gives the processor away between looks, so that a master on this machine is
 * not kept waiting for it. */
static bool look_a_while(struct pollfd *watch)
{
    uint64_t end_ns = mci_clock_ns() + LOOK_NS;
    do {
        if (poll(watch, 1, 0) > 0) {
            return true;
        }
        (void)sched_yield();
    } while (mci_clock_ns() < end_ns);
    return false;
}

/* Waits until something can be received. */
static enum mc_err wait_bytes(struct remote_wire *wire, uint64_t deadline_ns)
{
    if (mci_stream_has_pending(wire->stream)) {
        return MC_OK;
    }
    struct pollfd watch = {.fd = mci_stream_fd(wire->stream),
                           .events = mci_stream_recv_events(wire->stream)};
    if (look_a_while(&watch)) {
        return MC_OK;
    }
    for (;;) {
        uint64_t now_ns = mci_clock_ns();
        if (now_ns >= deadline_ns || is_stopped(wire)) {
            return MC_ERR_RPC_TIMEOUT;
        }
        uint64_t slice_ns = deadline_ns - now_ns;
        if (slice_ns > REMOTE_SLICE_NS) {
            slice_ns = REMOTE_SLICE_NS;
        }
        struct timespec slice = {.tv_nsec = (long)slice_ns};
        if (ppoll(&watch, 1, &slice, NULL) > 0) {
            return MC_OK;
        }
    }
}

/* Receives once, behind what is there. */
static enum mc_err recv_more(struct remote_wire *wire, size_t wanted,
                             uint64_t deadline_ns)
{
    size_t room = wanted > IN_STEP ? IN_STEP : wanted;
    enum mc_err err = wait_bytes(wire, deadline_ns);
    if (err == MC_OK) {
        err = mci_buf_reserve(&wire->in, room > IN_FIRST ? room : IN_FIRST);
    }
    if (err != MC_OK) {
        return err;
    }
    size_t moved = 0;
    struct iovec part = {.iov_base = wire->in.data + wire->in.len,
                         .iov_len = wire->in.capacity - wire->in.len};
    err = mci_stream_recv(wire->stream, &part, 1, &moved);
    wire->in.len += err == MC_OK ? moved : 0;
    return err;
}

static size_t bytes_there(const struct remote_wire *wire)
{
    return wire->in.len - wire->in_at;
}

/* The next frame, whole, without its length. */
static enum mc_err recv_frame(struct remote_wire *wire, uint64_t deadline_ns,
                              struct mc_view *frame_out)
{
    size_t whole = MCI_FRAME_HEAD;
    if (wire->in_at == wire->in.len) {
        mci_buf_clear(&wire->in);
        wire->in_at = 0;
    }
    for (;;) {
        if (bytes_there(wire) >= MCI_FRAME_HEAD) {
            uint32_t len = mci_get_le32(wire->in.data + wire->in_at);
            if (len == 0 || len > MC_MESSAGE_LEN_MAX) {
                return MC_ERR_RPC_FAIL;
            }
            whole = MCI_FRAME_HEAD + (size_t)len;
        }
        if (bytes_there(wire) >= whole && whole > MCI_FRAME_HEAD) {
            break;
        }
        enum mc_err err =
            recv_more(wire, whole - bytes_there(wire), deadline_ns);
        if (err != MC_OK) {
            return err;
        }
    }
    *frame_out = mc_view_make(wire->in.data + wire->in_at + MCI_FRAME_HEAD,
                              whole - MCI_FRAME_HEAD);
    wire->in_at += whole;
    return MC_OK;
}

static enum mc_err refuse_answer(const struct remote_wire *wire,
                                 const char *what)
{
    mc_log(MC_LOG_WARN, "master %s: %s", mci_stream_peer(wire->stream), what);
    return MC_ERR_RPC_FAIL;
}

enum mc_err mci_remote_wire_recv(struct remote_wire *wire,
                                 const struct mci_request *request,
                                 uint64_t deadline_ns,
                                 struct mci_answer *answer_out,
                                 struct mci_unpack *unpack_out)
{
    for (;;) {
        struct mc_view frame;
        enum mc_err err = recv_frame(wire, deadline_ns, &frame);
        if (err != MC_OK) {
            return err;
        }
        mci_unpack_init(unpack_out, frame);
        mci_answer_read(unpack_out, answer_out);
        if (answer_out->version != MCI_CONTROL_VERSION &&
            answer_out->version != 0) {
            mc_log(MC_LOG_ERROR,
                   "master %s: speaks protocol version %u, we speak %d",
                   mci_stream_peer(wire->stream), answer_out->version,
                   MCI_CONTROL_VERSION);
            return MC_ERR_NOT_SUPPORTED;
        }
        if (unpack_out->error != MCI_UNPACK_OK) {
            return refuse_answer(wire, "an answer that cannot be read");
        }
        if (answer_out->slot == request->slot &&
            answer_out->number == request->number) {
            return MC_OK;
        }
        /* What is older on this connection: its own, or (number 0) hello. */
        if (answer_out->number > request->number ||
            (answer_out->slot != request->slot && answer_out->number != 0)) {
            return refuse_answer(wire, "an answer to what was not asked");
        }
    }
}

bool mci_remote_wire_is_stale(struct remote_wire *wire)
{
    uint8_t byte;
    size_t moved = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    enum mc_err err = mci_stream_recv(wire->stream, &part, 1, &moved);
    return err != MC_OK || moved > 0;
}
