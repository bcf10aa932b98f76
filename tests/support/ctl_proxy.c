/* SPDX-License-Identifier: Apache-2.0 */
/* ctl_proxy.c - see the header. A pipe is one way of one connection: bytes come
 * in, are cut into frames, and frames that may pass are put into the way out.
 */
#include "ctl_proxy.h"

#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "mci_bytes.h"
#include "mci_list.h"
#include "proxy.h"

#define RULES_MAX 32
#define OPS 64
#define ASKED_MAX 16
#define READ_BYTES 65536
#define STAYS_MS 2000

struct bytes {
    uint8_t *data;
    size_t len;
    size_t capacity;
};

struct pipe {
    struct bytes in;
    struct bytes out;
    bool is_held;  /* by `holder`: the first frame of `in` waits */
    int holder;    /* id of a rule */
    bool may_pass; /* the first frame was released */
};

struct conn {
    struct proxy_conn base;
    bool is_cut;
    bool cut_when_sent;      /* close the client's side once `out` is empty */
    uint64_t stays_until_ms; /* the target has time to answer, unheard */
    struct pipe ways[2];
    struct mci_request asked[ASKED_MAX]; /* the last ones */
    unsigned asked_count;
};

struct rule {
    struct ctl_rule rule;
    bool is_lifted;
    unsigned matched;
    unsigned hits;
};

struct ctl_proxy {
    struct proxy base;
    /* guarded by its lock: */
    unsigned seen[2][OPS];
    struct rule rules[RULES_MAX];
    int rule_count;
};

static struct ctl_proxy *proxy_of(struct proxy *base)
{
    return MCI_CONTAINER(base, struct ctl_proxy, base);
}

static struct conn *conn_of(struct proxy_conn *base)
{
    return MCI_CONTAINER(base, struct conn, base);
}

static int *client_of(struct conn *conn)
{
    return &conn->base.fds[CTL_REQUEST];
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- bytes --------------------------------------------------------------- */

static void add_bytes(struct bytes *bytes, const void *data, size_t len)
{
    if (bytes->len + len > bytes->capacity) {
        bytes->capacity = 2 * (bytes->len + len);
        bytes->data = realloc(bytes->data, bytes->capacity);
        ck_assert_ptr_nonnull(bytes->data);
    }
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
}

static void take_bytes(struct bytes *bytes, size_t len)
{
    bytes->len -= len;
    memmove(bytes->data, bytes->data + len, bytes->len);
}

/* ---- rules --------------------------------------------------------------- */

static int match(struct ctl_proxy *proxy, enum ctl_way way,
                 const struct mci_request *asked)
{
    for (int i = 0; i < proxy->rule_count; i++) {
        struct rule *rule = &proxy->rules[i];
        const struct ctl_rule *terms = &rule->rule;
        bool is_meant =
            !rule->is_lifted && terms->way == way &&
            ((int)terms->op == 0 || terms->op == asked->op) &&
            (terms->number == 0 || terms->number == asked->number) &&
            (terms->count == 0 || rule->hits < terms->count);
        if (is_meant && rule->matched++ >= terms->skip) {
            rule->hits++;
            return i;
        }
    }
    return -1;
}

/* What a frame is about; for an answer, the request that it answers. */
static struct mci_request read_frame(struct conn *conn, enum ctl_way way,
                                     struct mc_view frame)
{
    struct mci_request asked = {.number = 0};
    struct mci_answer answer = {.number = 0};
    struct mci_unpack unpack;
    mci_unpack_init(&unpack, frame);
    if (way == CTL_REQUEST) {
        mci_request_read(&unpack, &asked);
        asked.tenant = mc_view_make(NULL, 0);
        conn->asked[conn->asked_count++ % ASKED_MAX] = asked;
        return asked;
    }
    mci_answer_read(&unpack, &answer);
    for (unsigned i = 0; i < ASKED_MAX; i++) {
        const struct mci_request *one = &conn->asked[i];
        if ((int)one->op != 0 && one->slot == answer.slot &&
            one->number == answer.number) {
            asked = *one;
        }
    }
    return asked;
}

/* ---- moving -------------------------------------------------------------- */

static void reset_fd(int *fd)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    if (*fd >= 0) {
        (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    proxy_close_fd(fd);
}

/* False: the rest of this way waits, or the connection is cut. */
static bool pass_frame(struct ctl_proxy *proxy, struct conn *conn,
                       enum ctl_way way, size_t len)
{
    struct pipe *pipe = &conn->ways[way];
    struct mc_view body =
        mc_view_make(pipe->in.data + MCI_FRAME_HEAD, len - MCI_FRAME_HEAD);
    int rule = -1;
    if (!pipe->may_pass) {
        struct mci_request asked = read_frame(conn, way, body);
        proxy->seen[way][(unsigned)asked.op % OPS]++;
        rule = match(proxy, way, &asked);
    }
    pipe->may_pass = false;
    enum ctl_what what = rule < 0 ? CTL_DROP : proxy->rules[rule].rule.what;
    if (rule >= 0 && what == CTL_HOLD) {
        pipe->is_held = true;
        pipe->holder = rule;
        return false;
    }
    if (rule >= 0 && what == CTL_CUT) {
        reset_fd(&conn->base.fds[0]);
        reset_fd(&conn->base.fds[1]);
        return false;
    }
    if (rule < 0 || what != CTL_DROP) {
        add_bytes(&pipe->out, pipe->in.data, len);
    }
    if (rule >= 0 && what == CTL_REPEAT) {
        add_bytes(&pipe->out, pipe->in.data, len);
    }
    if (rule >= 0 && what == CTL_CUT_AFTER) {
        conn->cut_when_sent = true;
        conn->stays_until_ms = now_ms() + STAYS_MS;
    }
    take_bytes(&pipe->in, len);
    return true;
}

static void pass_frames(struct ctl_proxy *proxy, struct conn *conn,
                        enum ctl_way way)
{
    struct pipe *pipe = &conn->ways[way];
    while (!pipe->is_held && pipe->in.len >= MCI_FRAME_HEAD) {
        size_t len = MCI_FRAME_HEAD + (size_t)mci_get_le32(pipe->in.data);
        if (pipe->in.len < len || !pass_frame(proxy, conn, way, len)) {
            return;
        }
    }
}

static void read_way(struct ctl_proxy *proxy, struct conn *conn,
                     enum ctl_way way)
{
    uint8_t room[READ_BYTES];
    int *from = &conn->base.fds[way];
    ssize_t len = recv(*from, room, sizeof room, MSG_DONTWAIT);
    if (len <= 0) {
        proxy_close_fd(from);
        return;
    }
    add_bytes(&conn->ways[way].in, room, (size_t)len);
    pass_frames(proxy, conn, way);
}

static void write_way(struct conn *conn, enum ctl_way way)
{
    struct bytes *out = &conn->ways[way].out;
    int *to = &conn->base.fds[!way];
    if (*to < 0) {
        out->len = 0;
    }
    if (out->len == 0) {
        return;
    }
    ssize_t len = send(*to, out->data, out->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (len > 0) {
        take_bytes(out, (size_t)len);
    } else if (len < 0) {
        proxy_close_fd(to);
        out->len = 0;
    }
}

/* ---- connections --------------------------------------------------------- */

/* One side gone ends the other, but for what still has to arrive. */
static bool is_over(struct conn *conn)
{
    struct pipe *asking = &conn->ways[CTL_REQUEST];
    if (conn->cut_when_sent && asking->out.len == 0 &&
        conn->ways[CTL_ANSWER].out.len == 0) {
        reset_fd(client_of(conn));
    }
    if (conn->base.fds[CTL_ANSWER] < 0 && conn->ways[CTL_ANSWER].out.len == 0) {
        return !conn->ways[CTL_ANSWER].is_held || *client_of(conn) < 0;
    }
    return *client_of(conn) < 0 && !asking->is_held && asking->out.len == 0 &&
           now_ms() >= conn->stays_until_ms;
}

static short events_of(struct proxy *base, struct proxy_conn *base_conn,
                       int way)
{
    const struct conn *conn = conn_of(base_conn);
    (void)base;
    return conn->ways[!way].out.len > 0 ? POLLIN | POLLOUT : POLLIN;
}

static bool serve(struct proxy *base, struct proxy_conn *base_conn,
                  const short events[2])
{
    struct conn *conn = conn_of(base_conn);
    for (int way = 0; way < 2; way++) {
        if (conn->base.fds[way] >= 0 &&
            (events[way] & (POLLIN | POLLHUP | POLLERR)) != 0) {
            read_way(proxy_of(base), conn, (enum ctl_way)way);
        }
    }
    write_way(conn, CTL_REQUEST);
    write_way(conn, CTL_ANSWER);
    if (conn->is_cut) {
        conn->is_cut = false;
        reset_fd(client_of(conn));
        conn->stays_until_ms = now_ms() + STAYS_MS;
    }
    return !is_over(conn);
}

static void fini_conn(struct proxy_conn *base)
{
    struct conn *conn = conn_of(base);
    for (int way = 0; way < 2; way++) {
        free(conn->ways[way].in.data);
        free(conn->ways[way].out.data);
    }
}

static const struct proxy_ops ops = {.conn_bytes = sizeof(struct conn),
                                     .events = events_of,
                                     .serve = serve,
                                     .fini = fini_conn};

/* ---- for tests ----------------------------------------------------------- */

struct ctl_proxy *ctl_proxy_open(uint16_t target_port)
{
    struct ctl_proxy *proxy = calloc(1, sizeof *proxy);
    ck_assert_ptr_nonnull(proxy);
    proxy_start(&proxy->base, &ops, "127.0.0.1", target_port);
    return proxy;
}

void ctl_proxy_close(struct ctl_proxy *proxy)
{
    if (proxy) {
        proxy_stop(&proxy->base);
        free(proxy);
    }
}

uint16_t ctl_proxy_port(const struct ctl_proxy *proxy)
{
    return proxy->base.port;
}

void ctl_proxy_target(struct ctl_proxy *proxy, uint16_t target_port)
{
    proxy_lock(&proxy->base);
    proxy->base.target.sin_port = htons(target_port);
    proxy_unlock(&proxy->base);
}

int ctl_proxy_rule(struct ctl_proxy *proxy, const struct ctl_rule *rule)
{
    proxy_lock(&proxy->base);
    int id = proxy->rule_count++;
    ck_assert_int_lt(id, RULES_MAX);
    proxy->rules[id] = (struct rule){.rule = *rule};
    proxy_unlock(&proxy->base);
    return id;
}

void ctl_proxy_lift(struct ctl_proxy *proxy, int rule)
{
    proxy_lock(&proxy->base);
    proxy->rules[rule].is_lifted = true;
    proxy_unlock(&proxy->base);
}

unsigned ctl_proxy_hits(struct ctl_proxy *proxy, int rule)
{
    proxy_lock(&proxy->base);
    unsigned hits = proxy->rules[rule].hits;
    proxy_unlock(&proxy->base);
    return hits;
}

void ctl_proxy_release(struct ctl_proxy *proxy, int rule)
{
    proxy_lock(&proxy->base);
    for (int i = 0; i < proxy->base.conn_count; i++) {
        struct conn *conn = conn_of(proxy->base.conns[i]);
        for (int way = 0; way < 2; way++) {
            struct pipe *pipe = &conn->ways[way];
            if (pipe->is_held && pipe->holder == rule) {
                pipe->is_held = false;
                pipe->may_pass = true;
                conn->stays_until_ms = now_ms() + STAYS_MS;
                pass_frames(proxy, conn, (enum ctl_way)way);
            }
        }
    }
    proxy_unlock(&proxy->base);
    proxy_kick(&proxy->base);
}

unsigned ctl_proxy_seen(struct ctl_proxy *proxy, enum ctl_way way,
                        enum mci_op op)
{
    proxy_lock(&proxy->base);
    unsigned seen = proxy->seen[way][(unsigned)op % OPS];
    proxy_unlock(&proxy->base);
    return seen;
}

void ctl_proxy_cut(struct ctl_proxy *proxy)
{
    proxy_lock(&proxy->base);
    for (int i = 0; i < proxy->base.conn_count; i++) {
        conn_of(proxy->base.conns[i])->is_cut = true;
    }
    proxy_unlock(&proxy->base);
    proxy_kick(&proxy->base);
}

void ctl_proxy_refuse(struct ctl_proxy *proxy, bool refuses)
{
    proxy_refuse(&proxy->base, refuses);
}

unsigned ctl_proxy_connections(struct ctl_proxy *proxy)
{
    proxy_lock(&proxy->base);
    unsigned accepted = proxy->base.accepted;
    proxy_unlock(&proxy->base);
    return accepted;
}
