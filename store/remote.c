/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c - making a remote and ending it; how a connection begins. */
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"

#define TIMEOUT_MS 30000
#define SOFTWARE "mckv 0.2.0"
#define NAME_HELD_PAUSE_NS (100 * MCI_NS_PER_MS)
#define GOODBYE_MS 2000 /* is not waited for longer */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* ---- hello --------------------------------------------------------------- */

static void pack_hello(const struct mci_remote *remote,
                       const struct remote_hello *hello, struct mci_pack *pack)
{
    struct mci_hello args = {.version_min = MCI_CONTROL_VERSION,
                             .version_max = MCI_CONTROL_VERSION,
                             .role = hello->role,
                             .incarnation = hello->self.incarnation,
                             .host_id = mc_view_str(remote->host_id),
                             .software = mc_view_str(SOFTWARE),
                             .tenant = mc_view_str(remote->tenant)};
    if (remote->name) {
        args.name = mc_view_str(remote->name);
    }
    mci_hello_pack(pack, &args);
}

static enum mc_err send_hello(struct mci_remote *remote,
                              struct remote_wire *wire,
                              const struct remote_hello *hello,
                              const struct mci_request *request)
{
    struct mci_buf aside = wire->out;
    struct mci_pack pack;
    bool is_whole = false;
    mci_buf_init(&wire->out, (size_t)8 * REMOTE_HEAD_ROOM);
    mci_remote_wire_begin(wire, &pack);
    pack_hello(remote, hello, &pack);
    enum mc_err err = mci_pack_done(&pack);
    if (err == MC_OK) {
        err =
            mci_remote_wire_send(wire, request, hello->deadline_ns, &is_whole);
    }
    mci_buf_fini(&wire->out);
    wire->out = aside;
    return err;
}

static void tell_versions(const struct mci_remote *remote,
                          const struct mci_welcome *welcome)
{
    mc_log(MC_LOG_ERROR,
           "master %s:%u: speaks protocol versions %u to %u, we speak %d",
           remote->address.host, remote->address.port, welcome->version_min,
           welcome->version_max, MCI_CONTROL_VERSION);
}

static enum mc_err read_welcome(struct mci_remote *remote, enum mc_err code,
                                struct mci_unpack *unpack,
                                struct remote_hello *hello)
{
    struct mci_welcome *welcome = &hello->welcome;
    if (code != MC_OK && code != MC_ERR_NOT_SUPPORTED) {
        return code;
    }
    mci_welcome_unpack(unpack, welcome);
    bool is_good = mci_unpack_done(unpack) == MCI_UNPACK_OK;
    welcome->software = mc_view_make(NULL, 0);
    if (code != MC_OK) {
        if (is_good) {
            tell_versions(remote, welcome);
        }
        return code;
    }
    if (!is_good || welcome->client == 0 || welcome->epoch == 0) {
        return MC_ERR_RPC_FAIL;
    }
    bool is_known = hello->self.client != 0;
    if (is_known && (welcome->epoch != hello->self.epoch ||
                     welcome->client != hello->self.client)) {
        return MC_ERR_CLIENT_NOT_FOUND;
    }
    hello->self.client = welcome->client;
    hello->self.epoch = welcome->epoch;
    return MC_OK;
}

static enum mc_err say_hello(struct mci_remote *remote,
                             struct remote_wire *wire,
                             struct remote_hello *hello)
{
    struct mci_request request = {.version = MCI_CONTROL_VERSION,
                                  .op = MCI_OP_HELLO,
                                  .time_left_ms = UINT32_MAX,
                                  .client = hello->self.client,
                                  .incarnation = hello->self.incarnation,
                                  .epoch = hello->self.epoch,
                                  .tenant = mc_view_str(remote->tenant)};
    struct mci_answer answer;
    struct mci_unpack unpack;
    enum mc_err err = send_hello(remote, wire, hello, &request);
    if (err == MC_OK) {
        err = mci_remote_wire_recv(wire, &request, hello->deadline_ns, &answer,
                                   &unpack);
    }
    return err == MC_OK ? read_welcome(remote, answer.code, &unpack, hello)
                        : err;
}

/* An alert of TLS where an answer should stand: what is wrong is known, and by no
 * other sign. */
static void tell_of_tls(const struct mci_remote *remote,
                        const struct remote_wire *wire)
{
    static const uint8_t alert[] = {0x15, 0x03};
    if (!remote->tls && wire->in.len >= sizeof alert && wire->in_at == 0 &&
        memcmp(wire->in.data, alert, sizeof alert) == 0) {
        mc_log(MC_LOG_WARN,
               "master %s:%u: answers in tls, which is not set up "
               "on this side",
               remote->address.host, remote->address.port);
    }
}

enum mc_err mci_remote_hello(struct mci_remote *remote,
                             struct remote_wire *wire,
                             struct remote_hello *hello)
{
    mci_remote_wire_drop(wire);
    enum mc_err err = mci_stream_connect(&remote->address, remote->tls,
                                         hello->deadline_ns, &wire->stream);
    if (err != MC_OK) {
        wire->stream = NULL;
        return err;
    }
    atomic_fetch_add(&remote->connects, 1);
    err = say_hello(remote, wire, hello);
    if (err != MC_OK) {
        tell_of_tls(remote, wire);
        mci_remote_wire_drop(wire);
    }
    return err;
}

void mci_remote_adopt(struct mci_remote *remote,
                      const struct remote_hello *hello)
{
    uint32_t ttl_ms = hello->welcome.client_ttl_ms;
    uint32_t beat_ms = hello->welcome.heartbeat_ms;
    (void)pthread_mutex_lock(&remote->lock);
    remote->self = hello->self;
    remote->client_ttl_ms = ttl_ms ? ttl_ms : 10000;
    remote->heartbeat_ms = beat_ms ? beat_ms : 1000;
    atomic_fetch_add(&remote->generation, 1);
    mci_remote_slots_reset(remote);
    (void)pthread_cond_broadcast(&remote->changed);
    (void)pthread_mutex_unlock(&remote->lock);
}

enum mc_err mci_remote_draw_incarnation(uint64_t *incarnation_out)
{
    uint64_t drawn = 0;
    while (drawn == 0) {
        if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) {
            mc_log(MC_LOG_ERROR, "incarnation: getrandom: %s", strerror(errno));
            return MC_ERR_INTERNAL_ERROR;
        }
    }
    *incarnation_out = drawn;
    return MC_OK;
}

/* ---- opening ------------------------------------------------------------- */

/* Which machine this is, as far as shared memory goes: its boot. */
static char *find_host_id(void)
{
    char text[64];
    int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    while (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    return len > 0 ? mci_strdup_n(text, (size_t)len)
                   : mci_strdup_n("unknown", 7);
}

static char *copy_text(const char *text)
{
    return mci_strdup_n(text, strlen(text));
}

static enum mc_err copy_texts(struct mci_remote *remote,
                              const struct mci_remote_opts *opts)
{
    remote->tenant = copy_text(opts->tenant ? opts->tenant : "");
    remote->host_id = opts->host_id ? copy_text(opts->host_id) : find_host_id();
    if (opts->name) {
        remote->name = copy_text(opts->name);
    }
    bool is_whole =
        remote->tenant && remote->host_id && (remote->name || !opts->name);
    return is_whole ? MC_OK : MC_ERR_NOMEM;
}

static enum mc_err check_opts(const struct mci_remote_opts *opts,
                              struct mci_address *address_out)
{
    struct mci_address address;
    enum mc_err err = opts->master ? mci_address_parse(opts->master, &address)
                                   : MC_ERR_INVALID_PARAMS;
    if (err != MC_OK || !address.has_port) {
        mc_log(MC_LOG_ERROR, "master \"%s\": not host:port",
               opts->master ? opts->master : "");
        return MC_ERR_INVALID_PARAMS;
    }
    if ((opts->name && strlen(opts->name) > MCI_NAME_LEN_MAX) ||
        (opts->host_id && strlen(opts->host_id) > MCI_NAME_LEN_MAX)) {
        mc_log(MC_LOG_ERROR, "client name or host id: longer than %d bytes",
               MCI_NAME_LEN_MAX);
        return MC_ERR_INVALID_PARAMS;
    }
    *address_out = address;
    return MC_OK;
}

static void destroy(struct mci_remote *remote)
{
    mci_remote_slots_fini(remote);
    mci_remote_life_fini(remote);
    mci_remote_segments_fini(&remote->segments);
    mci_remote_book_fini(&remote->book);
    mci_tls_destroy(remote->tls);
    (void)pthread_cond_destroy(&remote->life.wake);
    (void)pthread_cond_destroy(&remote->changed);
    (void)pthread_mutex_destroy(&remote->lock);
    mci_free(remote->name);
    mci_free(remote->host_id);
    mci_free(remote->tenant);
    mci_free(remote);
}

static struct mci_remote *make(const struct mci_remote_opts *opts)
{
    struct mci_remote *remote = mci_calloc(1, sizeof *remote);
    if (!remote) {
        return NULL;
    }
    remote->timeout_ms = opts->timeout_ms ? opts->timeout_ms : TIMEOUT_MS;
    remote->connect_timeout_ms =
        opts->connect_timeout_ms ? opts->connect_timeout_ms : TIMEOUT_MS;
    remote->events = opts->events;
    (void)pthread_mutex_init(&remote->lock, NULL);
    mci_remote_cond_init(&remote->changed);
    mci_remote_cond_init(&remote->life.wake);
    mci_remote_wire_init(&remote->life.wire);
    remote->life.wire.stops = &remote->life.stops;
    mci_remote_book_init(&remote->book);
    mci_remote_segments_init(&remote->segments);
    return remote;
}

/* The first hello. A name that is held is waited for. */
static enum mc_err enter(struct mci_remote *remote)
{
    struct remote_hello hello = {.role = MCI_ROLE_HEARTBEAT};
    hello.deadline_ns =
        mci_clock_deadline(mci_clock_ns(), remote->connect_timeout_ms);
    enum mc_err err = mci_remote_draw_incarnation(&hello.self.incarnation);
    if (err != MC_OK) {
        return err;
    }
    bool is_held = false;
    for (;;) {
        err = mci_remote_hello(remote, &remote->life.wire, &hello);
        uint64_t until_ns = mci_clock_ns() + NAME_HELD_PAUSE_NS;
        is_held = is_held || err == MC_ERR_SEGMENT_ALREADY_EXISTS;
        if (err != MC_ERR_SEGMENT_ALREADY_EXISTS ||
            until_ns >= hello.deadline_ns) {
            break;
        }
        (void)pthread_mutex_lock(&remote->lock);
        mci_remote_wait(remote, &remote->changed, until_ns);
        (void)pthread_mutex_unlock(&remote->lock);
    }
    if (err == MC_ERR_RPC_TIMEOUT && is_held) {
        err = MC_ERR_SEGMENT_ALREADY_EXISTS; /* what the time was lost with */
    }
    if (err == MC_OK) {
        mci_remote_adopt(remote, &hello);
    }
    return err;
}

enum mc_err mci_remote_open(const struct mci_remote_opts *opts,
                            struct mci_remote **remote_out)
{
    struct mci_address address;
    enum mc_err err = check_opts(opts, &address);
    if (err != MC_OK) {
        return err;
    }
    struct mci_remote *remote = make(opts);
    if (!remote) {
        return MC_ERR_NOMEM;
    }
    remote->address = address;
    err = copy_texts(remote, opts);
    if (err == MC_OK && opts->tls) {
        err = mci_tls_create(opts->tls, &remote->tls);
    }
    if (err == MC_OK) {
        err = enter(remote);
    }
    if (err == MC_OK) {
        err = mci_remote_life_start(remote);
    }
    if (err != MC_OK) {
        bool is_plain = err == MC_ERR_RPC_FAIL && !opts->tls;
        mc_log(MC_LOG_ERROR, "master %s: %s%s", opts->master, mc_err_text(err),
               is_plain ? " (nothing listens there, or it expects TLS)" : "");
        destroy(remote);
        return err;
    }
    *remote_out = remote;
    return MC_OK;
}

static void say_goodbye(struct mci_remote *remote, uint64_t deadline_ns)
{
    uint64_t limit_ns = mci_clock_deadline(mci_clock_ns(), GOODBYE_MS);
    const struct remote_ask_opts opts = {
        .op = MCI_OP_GOODBYE,
        .deadline_ns =
            deadline_ns && deadline_ns < limit_ns ? deadline_ns : limit_ns};
    struct remote_ask ask;
    if (mci_remote_ask_begin(remote, &opts, &ask) != MC_OK) {
        return;
    }
    mci_pack_nil(&ask.pack);
    enum mc_err err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        mci_unpack_skip(&ask.unpack, MCI_UNPACK_DEPTH_MAX);
    }
    (void)!mci_remote_ask_end(&ask, err);
}

void mci_remote_close(struct mci_remote *remote, uint64_t deadline_ns)
{
    if (!remote) {
        return;
    }
    mci_remote_life_stop(remote);
    if (mci_remote_health(remote) == 0) {
        say_goodbye(remote, deadline_ns);
    }
    destroy(remote);
}

/* ---- asked about --------------------------------------------------------- */

struct mci_master_link mci_remote_link(struct mci_remote *remote)
{
    static const struct mci_link_ops ops = {
        .put_start = mci_remote_put_start,
        .upsert_start = mci_remote_upsert_start,
        .put_end = mci_remote_put_end,
        .put_revoke = mci_remote_put_revoke,
        .get = mci_remote_get,
        .release = mci_remote_release,
        .lease_renew = mci_remote_lease_renew,
        .lease_release = mci_remote_lease_release,
        .lease_hold = mci_remote_lease_hold,
        .exist = mci_remote_exist,
        .get_size = mci_remote_get_size,
        .probe = mci_remote_probe,
        .remove = mci_remote_remove,
        .remove_by_regex = mci_remote_remove_by_regex,
        .remove_all = mci_remote_remove_all,
        .list = mci_remote_list,
        .stat = mci_remote_master_stat,
        .attempt_fate = mci_remote_attempt_fate,
        .attempt_touch = mci_remote_attempt_touch,
    };
    return (struct mci_master_link){.ops = &ops, .ctx = remote};
}

struct mci_remote_self mci_remote_self(struct mci_remote *remote)
{
    (void)pthread_mutex_lock(&remote->lock);
    struct mci_remote_self self = remote->self;
    (void)pthread_mutex_unlock(&remote->lock);
    return self;
}

int mci_remote_health(const struct mci_remote *remote)
{
    return atomic_load(&remote->health);
}

void mci_remote_stat(const struct mci_remote *remote,
                     struct mci_remote_stats *stats_out)
{
    struct mci_remote_stats stats = {.calls = 0};
    for (size_t i = 0; i < REMOTE_OPS; i++) {
        stats.calls_by_op[i] = atomic_load(&remote->calls_by_op[i]);
        stats.calls += stats.calls_by_op[i];
    }
    stats.retries = atomic_load(&remote->retries);
    stats.timeouts = atomic_load(&remote->timeouts);
    stats.connects = atomic_load(&remote->connects);
    stats.heartbeats = atomic_load(&remote->heartbeats);
    stats.renewals = atomic_load(&remote->renewals);
    stats.attempts = atomic_load(&remote->book.count);
    *stats_out = stats;
}
