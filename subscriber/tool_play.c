/* SPDX-License-Identifier: Apache-2.0 */
/* One of the two doors to libzmq of this folder: a PUB side for recordings.
 * XPUB, so that the first message can wait for the first subscriber. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zmq.h>

#include "tool_play.h"
#include "tool_rows.h"

#define MS UINT64_C(1000000)
#define WAIT_DEFAULT_MS 1000
#define LINGER_MS 5000

/* Where messages go: a socket, or the printer. */
struct play {
    const struct tool_args *args;
    struct tool_rows *rows;
    struct tool_frames frames;
    struct tool_player *player; /* NULL: a socket */
    void *context;
    void *socket;
    double speed;      /* 0: no pauses */
    uint64_t begin_ns; /* when the first message went */
    uint64_t first_t_ns;
    uint64_t messages;
    uint64_t bytes;
};

static int zmq_fail(const struct play *play, const char *what)
{
    return tool_fail(play->args->command, "%s: %s: %s", play->args->endpoint,
                     what, zmq_strerror(zmq_errno()));
}

/* Words that a script can wait for, with the port that was given. */
static int announce(const struct play *play)
{
    char endpoint[256];
    size_t len = sizeof endpoint;
    if (zmq_getsockopt(play->socket, ZMQ_LAST_ENDPOINT, endpoint, &len) != 0) {
        return zmq_fail(play, "bind");
    }
    printf("ready events=%s\n", endpoint);
    return tool_flush(play->args->command);
}

static int socket_open(struct play *play)
{
    int hwm = 1000;
    int is_waiting = 1; /* for a slow subscriber; a recording loses nothing */
    int linger = LINGER_MS;
    play->context = zmq_ctx_new();
    play->socket = play->context ? zmq_socket(play->context, ZMQ_XPUB) : NULL;
    if (!play->socket ||
        zmq_setsockopt(play->socket, ZMQ_SNDHWM, &hwm, sizeof hwm) != 0 ||
        zmq_setsockopt(play->socket, ZMQ_XPUB_NODROP, &is_waiting,
                       sizeof is_waiting) != 0 ||
        zmq_setsockopt(play->socket, ZMQ_LINGER, &linger, sizeof linger) != 0) {
        return zmq_fail(play, "socket");
    }
    if (zmq_bind(play->socket, play->args->endpoint) != 0) {
        return zmq_fail(play, "bind");
    }
    return announce(play);
}

static void socket_close(struct play *play)
{
    if (play->socket) {
        zmq_close(play->socket);
    }
    if (play->context) {
        zmq_ctx_term(play->context);
    }
}

/* True once a subscription has come; they are read away in any case. */
static bool has_subscriber(struct play *play)
{
    bool is_seen = false;
    char subscription[256];
    while (zmq_recv(play->socket, subscription, sizeof subscription,
                    ZMQ_DONTWAIT) >= 0) {
        is_seen = is_seen || subscription[0] == 1;
    }
    return is_seen;
}

static void wait_for_subscriber(struct play *play)
{
    uint64_t wait =
        play->args->has_wait ? play->args->wait_ms : WAIT_DEFAULT_MS;
    uint64_t end_ns = tool_now_ns() + wait * MS;
    while (!has_subscriber(play)) {
        if (tool_is_stopped()) {
            return;
        }
        if (tool_now_ns() >= end_ns) {
            tool_say(play->args->command, "%s: no subscriber, starting anyway",
                     play->args->endpoint);
            return;
        }
        tool_wait(-1, 5);
    }
}

static int send_frames(struct play *play)
{
    const struct tool_frames *frames = &play->frames;
    has_subscriber(play);
    for (size_t i = 0; i < frames->count; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < frames->count ? ZMQ_SNDMORE : 0);
        while (zmq_send(play->socket, frames->views[i].data,
                        frames->views[i].len, flags) < 0) {
            if (zmq_errno() != EAGAIN && zmq_errno() != EINTR) {
                return zmq_fail(play, "send");
            }
            tool_wait(-1, 1);
            if (tool_is_stopped()) {
                return TOOL_DONE;
            }
        }
        play->bytes += frames->views[i].len;
    }
    return TOOL_DONE;
}

/* Waits until a message recorded at t_ns is due. */
static int pace(struct play *play, struct json_object *row)
{
    uint64_t t_ns;
    if (play->speed <= 0) {
        return TOOL_DONE;
    }
    struct json_object *value = json_object_object_get(row, "t_ns");
    if (!tool_number_read(value, &t_ns)) {
        return tool_rows_fail(play->rows,
                              "t_ns: is a whole number of nanoseconds; "
                              "without it, play with --speed 0");
    }
    if (play->messages == 0) {
        play->first_t_ns = t_ns;
        play->begin_ns = tool_now_ns();
    }
    double age =
        t_ns > play->first_t_ns ? (double)(t_ns - play->first_t_ns) : 0;
    double due = (double)play->begin_ns + age / play->speed;
    for (;;) {
        double left = due - (double)tool_now_ns();
        if (left < (double)MS || tool_is_stopped()) {
            return TOOL_DONE;
        }
        if (tool_flush(play->args->command) != TOOL_DONE) {
            return TOOL_FAILED;
        }
        double left_ms = left / (double)MS;
        tool_wait(-1, left_ms < 1e9 ? (int64_t)left_ms : 1000000000);
    }
}

static int play_row(struct play *play, struct json_object *row)
{
    int code = tool_frames_read(&play->frames, play->rows, row);
    if (code == TOOL_DONE) {
        code = pace(play, row);
    }
    if (code != TOOL_DONE || tool_is_stopped()) {
        return code;
    }
    if (play->frames.count == 0 && !play->player) {
        return tool_rows_fail(play->rows, "frames: none, nothing to send");
    }
    code = play->player ? tool_player_message(play->player, play->frames.views,
                                              play->frames.count)
                        : send_frames(play);
    play->messages += code == TOOL_DONE;
    return code;
}

static int play_rows(struct play *play)
{
    struct json_object *row;
    int code = TOOL_DONE;
    while (code == TOOL_DONE && !tool_is_unread() && !tool_is_stopped()) {
        enum tool_rows_step step = tool_rows_next(play->rows, &row);
        if (step != TOOL_ROW) {
            return step == TOOL_ROWS_END ? TOOL_DONE : TOOL_FAILED;
        }
        code = play_row(play, row);
    }
    return code;
}

static int run(const struct tool_args *args)
{
    struct play play = {.args = args, .speed = args->endpoint ? 1 : 0};
    int code = TOOL_FAILED;
    if (args->has_speed) {
        play.speed = args->speed;
    }
    play.rows = tool_rows_open(args->command, args->operand);
    if (!play.rows) {
        return TOOL_FAILED;
    }
    if (args->endpoint) {
        code = socket_open(&play);
        if (code == TOOL_DONE) {
            wait_for_subscriber(&play);
        }
    } else {
        code = tool_player_open(args, &play.player);
    }
    if (code == TOOL_DONE) {
        code = play_rows(&play);
    }
    if (args->endpoint) {
        tool_say(args->command, "%" PRIu64 " messages, %" PRIu64 " bytes sent",
                 play.messages, play.bytes);
    }
    tool_player_close(play.player);
    socket_close(&play);
    tool_frames_fini(&play.frames);
    tool_rows_close(play.rows);
    return code;
}

const struct tool_command tool_play = {
    .name = "play",
    .operands = "FILE",
    .operand_min = 1,
    .operand_max = 1,
    .options = TOOL_ENDPOINT | TOOL_SPEED | TOOL_WAIT | TOOL_PROFILE |
               TOOL_FILTER | TOOL_COUNT | TOOL_LAYOUT | TOOL_JSON,
    .summary = "a recording, to a socket or as tail would show it",
    .explanation =
        "With --endpoint, binds there, prints \"ready events=EP\", waits for "
        "a\n"
        "first subscriber, and sends at the recorded pace times --speed. A "
        "port\n"
        "of * is a free one. Without it, prints what tail would have printed,\n"
        "gaps and all, without pauses unless --speed is given.",
    .example = "mc-events play --endpoint tcp://127.0.0.1:5557 --speed 10 "
               "recording.jsonl",
    .run = run,
};
