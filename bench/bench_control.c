/* SPDX-License-Identifier: Apache-2.0 */
/* T8, T9, T9b, T10: what a question to the master costs, beside Redis.
 *
 * Two servers in processes of their own, each with its defaults: a master, which
 * is this program again, and redis-server. Both are asked over loopback by the
 * same loop on one thread (ask_loop.h), with the same keys, over as many
 * connections. Lookups are `get`: place, grant and lease of each key, as a client
 * needs them to read the bytes; Redis answers values of 64 bytes. All answers
 * are read through to their end. T10 writes keys that are not there yet. */
#include <string.h>

#include "ask_loop.h"
#include "mc_master.h"
#include "mci_bytes.h"
#include "mci_control.h"

#define KEY_LEN 67
#define VALUE_LEN 64
#define KEYS 200000
#define CONNS 8
#define BATCH 128
#define LARGE 30000
#define SEGMENT_BYTES (UINT64_C(1) << 30)
#define TTL_MS 3600000 /* nobody sends heartbeats here */
#define ROW_MAX 256

static const uint8_t segment_key[MC_GRANT_KEY_LEN] = {1, 2, 3, 4};
#define REGISTRATION 7

/* A sha256 and a suffix, as engines name blocks. */
static void make_key(char text[KEY_LEN], uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t mixed = number * UINT64_C(0x9e3779b97f4a7c15);
    memset(text, 'c', 64 - 32);
    for (int i = 0; i < 16; i++) {
        text[32 + i] = digits[(mixed >> (4 * i)) & 15];
        text[48 + i] = digits[(number >> (4 * i)) & 15];
    }
    text[64] = '_';
    text[65] = '_';
    text[66] = 'k';
}

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* ---- the master ---------------------------------------------------------- */

static int serve(void)
{
    const struct mc_master_opts opts = {.rpc_address = "127.0.0.1",
                                        .client_ttl_ms = TTL_MS};
    struct mc_master *master = NULL;
    struct mc_master_bound bound;
    const char *what = NULL;
    if (mc_master_open(&opts, &master, &what) != MC_OK) {
        return 1;
    }
    mc_master_bound(master, &bound);
    server_ready(bound.rpc);
    return 0;
}

/* ---- our side ------------------------------------------------------------ */

enum work { WORK_ONE, WORK_BATCH, WORK_LARGE, WORK_PUT };

struct ours {
    struct ask_loop loop;
    struct ask_conn pulse;
    enum work work;
    uint16_t port;
    uint32_t rows;
    uint64_t epoch;
    uint64_t next_key;             /* of puts */
    struct mci_request who[CONNS]; /* client and incarnation of each */
    enum mci_op op[CONNS];         /* that is under way */
    uint64_t first[CONNS];         /* key of a put that is under way */
    struct mci_write_row *rows_of[CONNS];
};
static struct ours us;

static size_t begin(struct ask_conn *conn, enum mci_op op,
                    struct mci_pack *pack)
{
    struct mci_request request = us.who[conn->index];
    request.version = MCI_CONTROL_VERSION;
    request.op = op;
    request.number = ++us.who[conn->index].number;
    request.time_left_ms = 10000;
    request.epoch = us.epoch;
    us.op[conn->index] = op;
    mci_buf_clear(&conn->out);
    mci_pack_init(pack, &conn->out);
    return mci_request_begin(pack, &request);
}

static void finish(struct mci_pack *pack, size_t at)
{
    if (mci_frame_finish(pack, at) != MC_OK) {
        mci_buf_clear(pack->buf); /* the other side then waits: noticed */
    }
}

static void ask_lookup(struct ask_conn *conn)
{
    struct mci_pack pack;
    char key[KEY_LEN];
    uint64_t from = next_random() % KEYS;
    size_t at =
        begin(conn, us.work == WORK_LARGE ? MCI_OP_EXIST : MCI_OP_GET, &pack);
    mci_rows_pack(&pack, us.rows);
    for (uint32_t i = 0; i < us.rows; i++) {
        make_key(key, (from + i) % KEYS);
        mci_pack_str(&pack, mc_view_make(key, sizeof key));
    }
    finish(&pack, at);
}

static void ask_start(struct ask_conn *conn)
{
    static char keys[LARGE][KEY_LEN];
    struct mci_pack pack;
    struct mci_write_row *rows = us.rows_of[conn->index];
    us.first[conn->index] = us.next_key;
    for (uint32_t i = 0; i < us.rows; i++) {
        make_key(keys[i], us.next_key++);
        rows[i].key = mc_view_make(keys[i], KEY_LEN);
        rows[i].size = VALUE_LEN;
    }
    size_t at = begin(conn, MCI_OP_PUT_START, &pack);
    mci_start_pack(&pack, NULL, rows, us.rows);
    finish(&pack, at);
}

static void ask_end(struct ask_conn *conn)
{
    struct mci_pack pack;
    struct mci_write_row *rows = us.rows_of[conn->index];
    size_t at = begin(conn, MCI_OP_PUT_END, &pack);
    mci_rows_pack(&pack, us.rows);
    for (uint32_t i = 0; i < us.rows; i++) {
        char key[KEY_LEN];
        make_key(key, us.first[conn->index] + i);
        rows[i].key = mc_view_make(key, KEY_LEN);
        rows[i].receipts[0] =
            mc_grant_receipt(segment_key, REGISTRATION, rows[i].attempt.number);
        mci_end_row_pack(&pack, &rows[i]);
    }
    finish(&pack, at);
}

static void ask_us(struct ask_conn *conn)
{
    if (us.work != WORK_PUT) {
        ask_lookup(conn);
    } else if (us.op[conn->index] == MCI_OP_PUT_START) {
        ask_end(conn);
    } else {
        ask_start(conn);
    }
}

static bool read_rows(struct ask_conn *conn, struct mci_unpack *unpack)
{
    enum mci_op op = us.op[conn->index];
    uint32_t count = mci_rows_unpack(unpack);
    bool is_right = count == us.rows;
    for (uint32_t i = 0; i < count && is_right; i++) {
        struct mci_write_row *started = &us.rows_of[conn->index][i];
        struct mci_read_row row;
        if (op == MCI_OP_GET) {
            mci_read_row_unpack(unpack, &row);
            is_right = row.err == MC_OK && row.place_count == 1;
        } else if (op == MCI_OP_EXIST) {
            is_right = mci_result_unpack(unpack) == 1;
        } else if (op == MCI_OP_PUT_END) {
            is_right = mci_result_unpack(unpack) == MC_OK;
        } else {
            mci_started_unpack(unpack, us.epoch, started);
            is_right = started->err == MC_OK && started->place_count == 1;
        }
    }
    return is_right && mci_unpack_done(unpack) == MCI_UNPACK_OK;
}

/* Units: keys; of puts when their end is answered. */
static ssize_t take_ours(struct ask_conn *conn, uint64_t *units)
{
    struct mci_unpack unpack;
    struct mci_answer answer;
    if (conn->in.len < MCI_FRAME_HEAD) {
        return 0;
    }
    size_t len = MCI_FRAME_HEAD + (size_t)mci_get_le32(conn->in.data);
    if (conn->in.len < len) {
        return 0;
    }
    enum mci_op op = us.op[conn->index];
    mci_unpack_init(&unpack, mc_view_make(conn->in.data + MCI_FRAME_HEAD,
                                          len - MCI_FRAME_HEAD));
    mci_answer_read(&unpack, &answer);
    if (answer.code != MC_OK) {
        return -1;
    }
    if (op == MCI_OP_GET || op == MCI_OP_EXIST || op == MCI_OP_PUT_END ||
        op == MCI_OP_PUT_START) {
        if (!read_rows(conn, &unpack)) {
            return -1;
        }
        *units += op == MCI_OP_PUT_START ? 0 : us.rows;
    } else if (op == MCI_OP_HELLO) {
        struct mci_welcome welcome;
        mci_welcome_unpack(&unpack, &welcome);
        us.who[conn->index].client = welcome.client;
        us.epoch = welcome.epoch;
    }
    return (ssize_t)len;
}

static bool say_hello(struct ask_conn *conn, enum mci_role role)
{
    struct mci_pack pack;
    const struct mci_hello hello = {.version_min = MCI_CONTROL_VERSION,
                                    .version_max = MCI_CONTROL_VERSION,
                                    .role = role,
                                    .incarnation =
                                        us.who[conn->index].incarnation,
                                    .software = mc_view_str("bench")};
    size_t at = begin(conn, MCI_OP_HELLO, &pack);
    us.who[conn->index].number = 0;
    mci_hello_pack(&pack, &hello);
    finish(&pack, at);
    return ask_once(&us.loop, conn);
}

/* Nothing is placed before an owner's clock is known: told once, on a connection
 * that then stays. */
static bool beat(void)
{
    struct mci_pack pack;
    const struct mci_heartbeat heartbeat = {.clock_ns = 1};
    struct ask_conn *conn = &us.pulse;
    *conn = (struct ask_conn){.fd = server_connect(us.port)};
    mci_buf_init(&conn->out, 4096);
    mci_buf_init(&conn->in, (size_t)1 << 20);
    if (conn->fd < 0 || !say_hello(conn, MCI_ROLE_HEARTBEAT)) {
        return false;
    }
    size_t at = begin(conn, MCI_OP_HEARTBEAT, &pack);
    us.who[0].number = 0;
    mci_heartbeat_pack(&pack, &heartbeat);
    finish(&pack, at);
    return ask_once(&us.loop, conn);
}

/* The first connection's client lends the memory. */
static bool lend(void)
{
    struct mci_pack pack;
    struct ask_conn *conn = &us.loop.conns[0];
    const struct mci_mount mount = {.id = {1, 2},
                                    .registration = REGISTRATION,
                                    .bytes = SEGMENT_BYTES,
                                    .base = 4096,
                                    .name = mc_view_str("bench:1"),
                                    .endpoint = mc_view_str("bench:2"),
                                    .protocol = mc_view_str("tcp")};
    struct mci_mount with_key = mount;
    memcpy(with_key.key, segment_key, sizeof segment_key);
    size_t at = begin(conn, MCI_OP_SEGMENT_MOUNT, &pack);
    mci_mount_pack(&pack, &with_key);
    finish(&pack, at);
    return ask_once(&us.loop, conn);
}

static bool put_keys(void)
{
    us.rows = 1000;
    us.next_key = 0;
    while (us.next_key < KEYS) {
        struct ask_conn *conn = &us.loop.conns[0];
        ask_start(conn);
        if (!ask_once(&us.loop, conn)) {
            return false;
        }
        ask_end(conn);
        if (!ask_once(&us.loop, conn)) {
            return false;
        }
    }
    return true;
}

static bool clear_ours(void)
{
    struct mci_pack pack;
    size_t at = begin(&us.loop.conns[0], MCI_OP_REMOVE_ALL, &pack);
    mci_pack_bool(&pack, true);
    finish(&pack, at);
    return ask_once(&us.loop, &us.loop.conns[0]);
}

static bool open_ours(uint16_t port, uint32_t conns)
{
    us.loop.ask = ask_us;
    us.loop.take = take_ours;
    us.port = port;
    if (!ask_loop_open(&us.loop, port, conns)) {
        return false;
    }
    for (uint32_t i = 0; i < conns; i++) {
        us.who[i] = (struct mci_request){.incarnation = 1000 + i};
        us.rows_of[i] = calloc(LARGE, sizeof *us.rows_of[i]);
        if (!us.rows_of[i] || !say_hello(&us.loop.conns[i], MCI_ROLE_CALLS)) {
            return false;
        }
    }
    return beat() && lend() && (us.work == WORK_PUT || put_keys());
}

static void close_ours(void)
{
    ask_loop_close(&us.loop);
    (void)close(us.pulse.fd);
    mci_buf_fini(&us.pulse.out);
    mci_buf_fini(&us.pulse.in);
    for (uint32_t i = 0; i < CONNS; i++) {
        free(us.rows_of[i]);
    }
    us = (struct ours){.epoch = 0};
}

static bool run_ours(void *ctx, double seconds, double *value_out)
{
    (void)ctx;
    if (us.work == WORK_PUT && !clear_ours()) {
        return false;
    }
    return ask_loop_run(&us.loop, seconds, value_out);
}

/* ---- Redis --------------------------------------------------------------- */

struct theirs {
    struct ask_loop loop;
    enum work work;
    uint32_t rows;
    uint64_t next_key;
};
static struct theirs them;

static void say(struct mci_buf *out, const char *text)
{
    if (mci_buf_append(out, text, strlen(text)) != MC_OK) {
        mci_buf_clear(out);
    }
}

static void say_key(struct mci_buf *out, uint64_t number)
{
    char text[KEY_LEN];
    make_key(text, number);
    say(out, "$67\r\n");
    if (mci_buf_append(out, text, sizeof text) != MC_OK) {
        mci_buf_clear(out);
    }
    say(out, "\r\n");
}

#define VALUE_ROW \
    "$64\r\n"     \
    "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\r\n"

static void ask_set(struct ask_conn *conn, uint32_t rows)
{
    char head[40];
    (void)snprintf(head, sizeof head, "*%u\r\n$4\r\nMSET\r\n", 1 + 2 * rows);
    mci_buf_clear(&conn->out);
    say(&conn->out, head);
    for (uint32_t i = 0; i < rows; i++) {
        say_key(&conn->out, them.next_key++);
        say(&conn->out, VALUE_ROW);
    }
}

static void ask_them(struct ask_conn *conn)
{
    char head[40];
    if (them.work == WORK_PUT) {
        ask_set(conn, them.rows);
        return;
    }
    uint64_t from = next_random() % KEYS;
    (void)snprintf(head, sizeof head,
                   them.work == WORK_ONE ? "*%u\r\n$3\r\nGET\r\n"
                                         : "*%u\r\n$4\r\nMGET\r\n",
                   1 + them.rows);
    say(&conn->out, head);
    for (uint32_t i = 0; i < them.rows; i++) {
        say_key(&conn->out, (from + i) % KEYS);
    }
}

/* Goes over one value; NULL: not whole, or not a value. */
static const char *over_value(const char *at, const char *end, bool *is_wrong)
{
    const size_t len = sizeof VALUE_ROW - 1;
    if (at < end && *at != '$') {
        *is_wrong = true;
    }
    if ((size_t)(end - at) < len) {
        return NULL;
    }
    *is_wrong = memcmp(at, VALUE_ROW, 5) != 0 || at[len - 2] != '\r';
    return *is_wrong ? NULL : at + len;
}

static ssize_t take_theirs(struct ask_conn *conn, uint64_t *units)
{
    const char *begin_at = (const char *)conn->in.data;
    const char *at = begin_at;
    const char *end = at + conn->in.len;
    bool is_wrong = false;
    if (conn->in.len < 5) {
        return 0;
    }
    if (*at == '+') {
        *units += them.rows;
        return 5;
    }
    if (them.work != WORK_ONE) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : end;
    }
    for (uint32_t i = 0; i < them.rows; i++) {
        at = over_value(at, end, &is_wrong);
        if (!at) {
            return is_wrong ? -1 : 0;
        }
    }
    *units += them.rows;
    return at - begin_at;
}

static bool set_keys(void)
{
    them.next_key = 0;
    while (them.next_key < KEYS) {
        ask_set(&them.loop.conns[0], 1000);
        if (!ask_once(&them.loop, &them.loop.conns[0])) {
            return false;
        }
    }
    return true;
}

static bool open_theirs(uint16_t port, uint32_t conns)
{
    them.loop.ask = ask_them;
    them.loop.take = take_theirs;
    return ask_loop_open(&them.loop, port, conns) &&
           (them.work == WORK_PUT || set_keys());
}

static bool run_theirs(void *ctx, double seconds, double *value_out)
{
    struct ask_conn *conn = &them.loop.conns[0];
    (void)ctx;
    if (them.work == WORK_PUT) {
        mci_buf_clear(&conn->out);
        say(&conn->out, "*1\r\n$8\r\nFLUSHALL\r\n");
        if (!ask_once(&them.loop, conn)) {
            return false;
        }
    }
    return ask_loop_run(&them.loop, seconds, value_out);
}

/* ---- targets ------------------------------------------------------------- */

static void run(struct bench *bench, enum work work, uint32_t conns,
                uint32_t rows)
{
    uint16_t master_port = 0;
    uint16_t redis_port = 0;
    pid_t master = server_start_own("--serve", NULL, NULL, &master_port);
    pid_t redis = server_start_redis(&redis_port);
    us = (struct ours){.work = work};
    them = (struct theirs){.work = work};
    if (master <= 0) {
        bench_fail(bench, "the master does not start");
    } else if (redis <= 0) {
        bench_fail(bench, "redis-server does not start");
    } else if (!open_ours(master_port, conns)) {
        bench_fail(bench, "the master refused what it was asked");
    } else if (!open_theirs(redis_port, conns)) {
        bench_fail(bench, "redis refused what it was asked");
    } else {
        us.rows = rows;
        them.rows = rows;
        (void)bench_rounds(bench, run_ours, run_theirs, NULL);
    }
    close_ours();
    ask_loop_close(&them.loop);
    server_end(master);
    server_end(redis);
}

static void run_t8(struct bench *bench)
{
    run(bench, WORK_ONE, CONNS, 1);
}

static void run_t9(struct bench *bench)
{
    run(bench, WORK_BATCH, CONNS, BATCH);
}

static void run_t9b(struct bench *bench)
{
    run(bench, WORK_LARGE, 1, LARGE);
}

static void run_t10(struct bench *bench)
{
    run(bench, WORK_PUT, CONNS, BATCH);
}

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "T8",
         .what = "lookup of a key, 8 connections / redis GET 64 B",
         .unit = "1/s",
         .ours = "mckv",
         .peer = "redis",
         .better = BENCH_HIGHER,
         .gate = 0.90,
         .goal = 1.2,
         .run = run_t8},
        {.id = "T9",
         .what = "lookup of 128 keys, 8 connections / redis MGET of 128",
         .unit = "keys/s",
         .ours = "mckv",
         .peer = "redis",
         .better = BENCH_HIGHER,
         .gate = 1.5,
         .goal = 3,
         .run = run_t9},
        {.id = "T9b",
         .what = "exist of 30 000 keys in one call / redis MGET of 30 000",
         .unit = "keys/s",
         .ours = "mckv",
         .peer = "redis",
         .better = BENCH_HIGHER,
         .gate = 1.5,
         .goal = 3,
         .run = run_t9b},
        {.id = "T10",
         .what = "put start and end of 128 keys / redis MSET of 128",
         .unit = "keys/s",
         .ours = "mckv",
         .peer = "redis",
         .better = BENCH_HIGHER,
         .gate = 0.7,
         .goal = 1.5,
         .run = run_t10},
    };
    if (argc > 1 && strcmp(argv[1], "--serve") == 0) {
        return serve();
    }
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
