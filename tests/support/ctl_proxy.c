/* SPDX-License-Identifier: Apache-2.0 */
/* One thread and poll(). A pipe is one way of one connection: bytes come in, are
 * cut into frames, and frames that may pass are put into the way out. All of it
 * under one lock, but for waiting.
 */
#include "ctl_proxy.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mci_bytes.h"

#define RULES_MAX 32
#define CONNS_MAX 1024
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
    int client; /* -1: closed */
    int target;
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
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    int listener;
    int wake[2];
    uint16_t port;
    uint16_t target_port;
    bool stops;
    bool refuses;
    bool cuts;
    unsigned accepted;
    unsigned seen[2][OPS];
    struct rule rules[RULES_MAX];
    int rule_count;
    struct conn *conns[CONNS_MAX];
    int conn_count;
};

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

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static void reset_fd(int *fd)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    if (*fd >= 0) {
        (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    close_fd(fd);
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
        reset_fd(&conn->client);
        reset_fd(&conn->target);
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

static int *from_of(struct conn *conn, enum ctl_way way)
{
    return way == CTL_REQUEST ? &conn->client : &conn->target;
}

static int *to_of(struct conn *conn, enum ctl_way way)
{
    return way == CTL_REQUEST ? &conn->target : &conn->client;
}

static void read_way(struct ctl_proxy *proxy, struct conn *conn,
                     enum ctl_way way)
{
    uint8_t room[READ_BYTES];
    int *from = from_of(conn, way);
    ssize_t len = recv(*from, room, sizeof room, MSG_DONTWAIT);
    if (len <= 0) {
        close_fd(from);
        return;
    }
    add_bytes(&conn->ways[way].in, room, (size_t)len);
    pass_frames(proxy, conn, way);
}

static void write_way(struct conn *conn, enum ctl_way way)
{
    struct bytes *out = &conn->ways[way].out;
    int *to = to_of(conn, way);
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
        close_fd(to);
        out->len = 0;
    }
}

/* ---- connections --------------------------------------------------------- */

static int connect_target(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close_fd(&fd);
    }
    if (fd >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    return fd;
}

static void accept_one(struct ctl_proxy *proxy)
{
    int yes = 1;
    int fd = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    proxy->accepted++;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    int target = proxy->refuses ? -1 : connect_target(proxy->target_port);
    if (target < 0 || proxy->conn_count == CONNS_MAX) {
        close_fd(&fd);
        close_fd(&target);
        return;
    }
    struct conn *conn = calloc(1, sizeof *conn);
    ck_assert_ptr_nonnull(conn);
    conn->client = fd;
    conn->target = target;
    proxy->conns[proxy->conn_count++] = conn;
}

static void free_conn(struct conn *conn)
{
    close_fd(&conn->client);
    close_fd(&conn->target);
    for (int way = 0; way < 2; way++) {
        free(conn->ways[way].in.data);
        free(conn->ways[way].out.data);
    }
    free(conn);
}

/* One side gone ends the other, but for what still has to arrive. */
static bool is_over(struct conn *conn)
{
    struct pipe *asking = &conn->ways[CTL_REQUEST];
    if (conn->cut_when_sent && asking->out.len == 0 &&
        conn->ways[CTL_ANSWER].out.len == 0) {
        reset_fd(&conn->client);
    }
    if (conn->target < 0 && conn->ways[CTL_ANSWER].out.len == 0) {
        return !conn->ways[CTL_ANSWER].is_held || conn->client < 0;
    }
    return conn->client < 0 && !asking->is_held && asking->out.len == 0 &&
           now_ms() >= conn->stays_until_ms;
}

static void bury(struct ctl_proxy *proxy)
{
    for (int i = 0; i < proxy->conn_count; i++) {
        struct conn *conn = proxy->conns[i];
        if (proxy->cuts) {
            reset_fd(&conn->client);
            conn->stays_until_ms = now_ms() + STAYS_MS;
        }
        if (is_over(conn)) {
            free_conn(conn);
            proxy->conns[i--] = proxy->conns[--proxy->conn_count];
        }
    }
    proxy->cuts = false;
}

/* ---- the thread ---------------------------------------------------------- */

static int fill_polls(struct ctl_proxy *proxy, struct pollfd *polls)
{
    int count = 0;
    polls[count++] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    polls[count++] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
    for (int i = 0; i < proxy->conn_count; i++) {
        struct conn *conn = proxy->conns[i];
        for (int way = 0; way < 2; way++) {
            short events = POLLIN;
            if (conn->ways[!way].out.len > 0) {
                events |= POLLOUT;
            }
            polls[count++] = (struct pollfd){
                .fd = *from_of(conn, (enum ctl_way)way), .events = events};
        }
    }
    return count;
}

static void serve(struct ctl_proxy *proxy, const struct pollfd *polls)
{
    uint8_t drained[64];
    if (polls[1].revents != 0) {
        (void)!read(proxy->wake[0], drained, sizeof drained);
    }
    int polled = proxy->conn_count;
    for (int i = 0; i < polled; i++) {
        struct conn *conn = proxy->conns[i];
        for (int way = 0; way < 2; way++) {
            const struct pollfd *one = &polls[2 + 2 * i + way];
            if (one->fd >= 0 && one->fd == *from_of(conn, (enum ctl_way)way) &&
                (one->revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
                read_way(proxy, conn, (enum ctl_way)way);
            }
        }
        write_way(conn, CTL_REQUEST);
        write_way(conn, CTL_ANSWER);
    }
    bury(proxy);
    if (polls[0].revents != 0) {
        accept_one(proxy);
    }
}

static void *run_proxy(void *ctx)
{
    struct ctl_proxy *proxy = ctx;
    struct pollfd *polls = calloc(2 + 2 * CONNS_MAX, sizeof *polls);
    ck_assert_ptr_nonnull(polls);
    (void)pthread_mutex_lock(&proxy->lock);
    while (!proxy->stops) {
        int count = fill_polls(proxy, polls);
        (void)pthread_mutex_unlock(&proxy->lock);
        (void)poll(polls, (nfds_t)count, 100);
        (void)pthread_mutex_lock(&proxy->lock);
        serve(proxy, polls);
    }
    (void)pthread_mutex_unlock(&proxy->lock);
    free(polls);
    return NULL;
}

/* ---- for tests ----------------------------------------------------------- */

static void kick(struct ctl_proxy *proxy)
{
    (void)!write(proxy->wake[1], "", 1);
}

struct ctl_proxy *ctl_proxy_open(uint16_t target_port)
{
    struct ctl_proxy *proxy = calloc(1, sizeof *proxy);
    ck_assert_ptr_nonnull(proxy);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    proxy->target_port = target_port;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(proxy->listener, 0);
    ck_assert_int_eq(bind(proxy->listener, (struct sockaddr *)&at, sizeof at),
                     0);
    ck_assert_int_eq(listen(proxy->listener, 512), 0);
    ck_assert_int_eq(getsockname(proxy->listener, (struct sockaddr *)&at, &len),
                     0);
    proxy->port = ntohs(at.sin_port);
    ck_assert_int_eq(pipe2(proxy->wake, O_CLOEXEC | O_NONBLOCK), 0);
    (void)pthread_mutex_init(&proxy->lock, NULL);
    ck_assert_int_eq(pthread_create(&proxy->thread, NULL, run_proxy, proxy), 0);
    return proxy;
}

void ctl_proxy_close(struct ctl_proxy *proxy)
{
    if (!proxy) {
        return;
    }
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->stops = true;
    (void)pthread_mutex_unlock(&proxy->lock);
    kick(proxy);
    (void)pthread_join(proxy->thread, NULL);
    for (int i = 0; i < proxy->conn_count; i++) {
        free_conn(proxy->conns[i]);
    }
    (void)close(proxy->listener);
    (void)close(proxy->wake[0]);
    (void)close(proxy->wake[1]);
    (void)pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}

uint16_t ctl_proxy_port(const struct ctl_proxy *proxy)
{
    return proxy->port;
}

void ctl_proxy_target(struct ctl_proxy *proxy, uint16_t target_port)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->target_port = target_port;
    (void)pthread_mutex_unlock(&proxy->lock);
}

int ctl_proxy_rule(struct ctl_proxy *proxy, const struct ctl_rule *rule)
{
    (void)pthread_mutex_lock(&proxy->lock);
    int id = proxy->rule_count++;
    ck_assert_int_lt(id, RULES_MAX);
    proxy->rules[id] = (struct rule){.rule = *rule};
    (void)pthread_mutex_unlock(&proxy->lock);
    return id;
}

void ctl_proxy_lift(struct ctl_proxy *proxy, int rule)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->rules[rule].is_lifted = true;
    (void)pthread_mutex_unlock(&proxy->lock);
}

unsigned ctl_proxy_hits(struct ctl_proxy *proxy, int rule)
{
    (void)pthread_mutex_lock(&proxy->lock);
    unsigned hits = proxy->rules[rule].hits;
    (void)pthread_mutex_unlock(&proxy->lock);
    return hits;
}

void ctl_proxy_release(struct ctl_proxy *proxy, int rule)
{
    (void)pthread_mutex_lock(&proxy->lock);
    for (int i = 0; i < proxy->conn_count; i++) {
        for (int way = 0; way < 2; way++) {
            struct pipe *pipe = &proxy->conns[i]->ways[way];
            if (pipe->is_held && pipe->holder == rule) {
                pipe->is_held = false;
                pipe->may_pass = true;
                proxy->conns[i]->stays_until_ms = now_ms() + STAYS_MS;
                pass_frames(proxy, proxy->conns[i], (enum ctl_way)way);
            }
        }
    }
    (void)pthread_mutex_unlock(&proxy->lock);
    kick(proxy);
}

unsigned ctl_proxy_seen(struct ctl_proxy *proxy, enum ctl_way way,
                        enum mci_op op)
{
    (void)pthread_mutex_lock(&proxy->lock);
    unsigned seen = proxy->seen[way][(unsigned)op % OPS];
    (void)pthread_mutex_unlock(&proxy->lock);
    return seen;
}

void ctl_proxy_cut(struct ctl_proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->cuts = true;
    (void)pthread_mutex_unlock(&proxy->lock);
    kick(proxy);
}

void ctl_proxy_refuse(struct ctl_proxy *proxy, bool refuses)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->refuses = refuses;
    (void)pthread_mutex_unlock(&proxy->lock);
}

unsigned ctl_proxy_connections(struct ctl_proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
    unsigned accepted = proxy->accepted;
    (void)pthread_mutex_unlock(&proxy->lock);
    return accepted;
}
