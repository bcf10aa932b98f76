/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_tls.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "alloc_fail.h"
#include "await.h"
#include "mc_log.h"
#include "mci_stream.h"
#include "socket_pair.h"
#include "suite.h"

#define PATH_ROOM 128

/* One side's files. */
struct papers {
    char dir[PATH_ROOM];
    char cert[PATH_ROOM];
    char key[PATH_ROOM];
    char ca[PATH_ROOM];
};

static char home[64];

static void hush(void *ctx, enum mc_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)text;
}

static void begin(void)
{
    (void)snprintf(home, sizeof home, "/tmp/mckv-tls-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    mc_log_set_sink(hush, NULL);
}

static void drop(const struct papers *papers)
{
    (void)unlink(papers->cert);
    (void)unlink(papers->key);
    (void)unlink(papers->ca);
    (void)rmdir(papers->dir);
}

static void end(void)
{
    mc_log_set_sink(NULL, NULL);
    ck_assert_int_eq(rmdir(home), 0);
}

static struct papers name_papers(const char *name)
{
    struct papers papers;
    (void)snprintf(papers.dir, PATH_ROOM, "%.63s/%.20s", home, name);
    (void)snprintf(papers.cert, PATH_ROOM, "%.100s/cert.pem", papers.dir);
    (void)snprintf(papers.key, PATH_ROOM, "%.100s/key.pem", papers.dir);
    (void)snprintf(papers.ca, PATH_ROOM, "%.100s/ca.pem", papers.dir);
    return papers;
}

static struct papers make_papers(const char *name, const char *host, int days)
{
    struct papers papers = name_papers(name);
    ck_assert_int_eq(mc_tls_make_trial(papers.dir, host, days), MC_OK);
    return papers;
}

static struct mci_tls *load(const struct papers *papers, const char *ca)
{
    const struct mc_tls_opts opts = {
        .cert_file = papers->cert, .key_file = papers->key, .ca_file = ca};
    struct mci_tls *tls = NULL;
    ck_assert_int_eq(mci_tls_create(&opts, &tls), MC_OK);
    return tls;
}

/* The accepting side: answers each message of 4 bytes with itself until the
 * stream ends. */
struct echo {
    int listener;
    uint16_t port;
    struct mci_tls *tls;
    enum mc_err first; /* of the first message */
    pthread_t thread;
};

static void *run_echo(void *ctx)
{
    struct echo *echo = ctx;
    struct mci_stream *stream = NULL;
    char room[4];
    ck_assert_int_eq(
        mci_stream_accept(pair_accept(echo->listener), echo->tls, &stream),
        MC_OK);
    enum mc_err err =
        mci_stream_recv_all(stream, room, sizeof room, pair_soon());
    echo->first = err;
    while (!err) {
        err = mci_stream_send_all(stream, room, sizeof room, pair_soon());
        if (!err) {
            err = mci_stream_recv_all(stream, room, sizeof room, pair_soon());
        }
    }
    mci_stream_close(stream);
    return NULL;
}

static void open_echo(struct echo *echo, struct mci_tls *tls)
{
    *echo = (struct echo){.tls = tls};
    echo->listener = pair_listen(&echo->port);
    ck_assert_int_eq(pthread_create(&echo->thread, NULL, run_echo, echo), 0);
}

static enum mc_err close_echo(struct echo *echo)
{
    (void)pthread_join(echo->thread, NULL);
    (void)close(echo->listener);
    return echo->first;
}

/* Connects and echoes once. */
static enum mc_err ask(const struct echo *echo, struct mci_tls *tls,
                       const char *host)
{
    struct mci_address address = {.port = echo->port};
    struct mci_stream *stream = NULL;
    char room[4] = "";
    (void)snprintf(address.host, sizeof address.host, "%s", host);
    enum mc_err err = mci_stream_connect(&address, tls, pair_soon(), &stream);
    if (err) {
        return err;
    }
    err = mci_stream_send_all(stream, "ping", 4, pair_soon());
    if (!err) {
        err = mci_stream_recv_all(stream, room, 4, pair_soon());
    }
    mci_stream_close(stream);
    ck_assert(err || memcmp(room, "ping", 4) == 0);
    return err;
}

static const char *const good_hosts[] = {"127.0.0.1", "localhost"};

START_TEST(two_sides_of_one_ca_understand_each_other)
{
    struct echo echo;
    begin();
    struct papers papers = make_papers("a", NULL, 0);
    struct mci_tls *tls = load(&papers, papers.ca);
    open_echo(&echo, tls);
    ck_assert_int_eq(ask(&echo, tls, good_hosts[_i]), MC_OK);
    ck_assert_int_eq(close_echo(&echo), MC_OK);
    mci_tls_destroy(tls);
    drop(&papers);
    end();
}
END_TEST

/* Who differs from the one that is right on the other side. */
enum fault {
    SERVER_OF_OTHER_CA,
    CLIENT_OF_OTHER_CA,
    EXPIRED_SERVER,
    EXPIRED_CLIENT,
    FAULTS
};

START_TEST(a_wrong_certificate_gets_nothing_through)
{
    struct echo echo;
    begin();
    struct papers good = make_papers("good", NULL, 0);
    struct papers other = make_papers("other", NULL, 0);
    struct papers old = make_papers("old", NULL, -1);
    struct mci_tls *right = NULL;
    struct mci_tls *wrong = NULL;
    bool is_server = _i == SERVER_OF_OTHER_CA || _i == EXPIRED_SERVER;
    if (_i == EXPIRED_SERVER || _i == EXPIRED_CLIENT) {
        /* Both of one CA, so that only the date is wrong. */
        right = load(&good, old.ca);
        wrong = load(&old, good.ca);
    } else {
        right = load(&good, good.ca);
        wrong = load(&other, good.ca);
    }
    open_echo(&echo, is_server ? wrong : right);
    ck_assert_int_eq(ask(&echo, is_server ? right : wrong, "127.0.0.1"),
                     MC_ERR_RPC_FAIL);
    ck_assert_int_eq(close_echo(&echo), MC_ERR_RPC_FAIL);
    mci_tls_destroy(right);
    mci_tls_destroy(wrong);
    drop(&good);
    drop(&other);
    drop(&old);
    end();
}
END_TEST

/* 127.0.0.2 is reached, but is nobody's name. */
START_TEST(a_server_of_another_name_is_refused)
{
    struct echo echo;
    begin();
    struct papers papers = make_papers("a", _i ? "127.0.0.2" : NULL, 0);
    struct mci_tls *tls = load(&papers, papers.ca);
    const struct mci_listen_opts opts = {.host = "0.0.0.0"};
    const char *why = NULL;
    echo = (struct echo){.tls = tls};
    ck_assert_int_eq(
        mci_address_listen(&opts, &echo.listener, &echo.port, &why), MC_OK);
    ck_assert_int_eq(pthread_create(&echo.thread, NULL, run_echo, &echo), 0);
    enum mc_err expected = _i ? MC_OK : MC_ERR_RPC_FAIL;
    ck_assert_int_eq(ask(&echo, tls, "127.0.0.2"), expected);
    ck_assert_int_eq(close_echo(&echo), expected);
    mci_tls_destroy(tls);
    drop(&papers);
    end();
}
END_TEST

START_TEST(a_peer_without_tls_gets_nothing)
{
    struct echo echo;
    begin();
    struct papers papers = make_papers("a", NULL, 0);
    struct mci_tls *tls = load(&papers, papers.ca);
    open_echo(&echo, tls);
    const struct mci_address address = {.host = "127.0.0.1", .port = echo.port};
    struct mci_stream *plain = NULL;
    char room[64];
    ck_assert_int_eq(mci_stream_connect(&address, NULL, pair_soon(), &plain),
                     MC_OK);
    ck_assert_int_eq(
        mci_stream_send_all(plain, "GET / HTTP/1.1\r\n\r\n", 18, pair_soon()),
        MC_OK);
    ck_assert_int_eq(close_echo(&echo), MC_ERR_RPC_FAIL);
    ck_assert_int_eq(mci_stream_recv_all(plain, room, sizeof room, pair_soon()),
                     MC_ERR_RPC_FAIL);
    mci_stream_close(plain);
    mci_tls_destroy(tls);
    drop(&papers);
    end();
}
END_TEST

struct attempt {
    uint16_t port;
    struct mci_tls *tls;
    enum mc_err err;
};

static void *run_attempt(void *ctx)
{
    struct attempt *attempt = ctx;
    const struct mci_address address = {.host = "127.0.0.1",
                                        .port = attempt->port};
    struct mci_stream *stream = NULL;
    attempt->err =
        mci_stream_connect(&address, attempt->tls, pair_soon(), &stream);
    mci_stream_close(stream);
    return NULL;
}

START_TEST(a_server_without_tls_is_refused)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    pthread_t thread;
    begin();
    struct papers papers = make_papers("a", NULL, 0);
    struct mci_tls *tls = load(&papers, papers.ca);
    struct attempt attempt = {.tls = tls};
    int listener = pair_listen(&attempt.port);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_attempt, &attempt), 0);
    int fd = pair_accept(listener);
    ck_assert_int_eq(send(fd, answer, sizeof answer, 0), sizeof answer);
    (void)pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.err, MC_ERR_RPC_FAIL);
    (void)close(fd);
    (void)close(listener);
    mci_tls_destroy(tls);
    drop(&papers);
    end();
}
END_TEST

START_TEST(a_silent_peer_costs_the_handshake_its_deadline)
{
    uint16_t port = 0;
    begin();
    struct papers papers = make_papers("a", NULL, 0);
    struct mci_tls *tls = load(&papers, papers.ca);
    int listener = pair_listen(&port);
    struct mci_address address = {.host = "127.0.0.1", .port = port};
    struct mci_stream *stream = NULL;
    uint64_t before_ns = mci_clock_ns();
    ck_assert_int_eq(mci_stream_connect(&address, tls,
                                        before_ns + 50 * MCI_NS_PER_MS,
                                        &stream),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_lt(mci_clock_ns() - before_ns, 5 * MCI_NS_PER_S);
    ck_assert_ptr_null(stream);
    (void)close(listener);
    mci_tls_destroy(tls);
    drop(&papers);
    end();
}
END_TEST

/* A client of plain OpenSSL that shows no certificate, or shows one but speaks
 * TLS 1.2. */
struct stranger {
    uint16_t port;
    const struct papers *papers;
    bool is_old;
    bool got_byte;
    bool shook_hands;
};

static void *run_stranger(void *ctx)
{
    struct stranger *stranger = ctx;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (stranger->is_old) {
        (void)SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
        ck_assert_int_eq(SSL_CTX_use_certificate_file(
                             context, stranger->papers->cert, SSL_FILETYPE_PEM),
                         1);
        ck_assert_int_eq(SSL_CTX_use_PrivateKey_file(
                             context, stranger->papers->key, SSL_FILETYPE_PEM),
                         1);
    }
    SSL *ssl = SSL_new(context);
    int fd = pair_connect(stranger->port);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    (void)SSL_set_fd(ssl, fd);
    char byte;
    stranger->shook_hands = SSL_connect(ssl) == 1;
    stranger->got_byte =
        SSL_write(ssl, "ping", 4) == 4 && SSL_read(ssl, &byte, 1) == 1;
    SSL_free(ssl);
    SSL_CTX_free(context);
    (void)close(fd);
    return NULL;
}

START_TEST(a_client_without_certificate_or_of_old_tls_gets_nothing)
{
    struct echo echo;
    pthread_t thread;
    begin();
    struct papers papers = make_papers("a", NULL, 0);
    struct mci_tls *tls = load(&papers, papers.ca);
    open_echo(&echo, tls);
    struct stranger stranger = {
        .port = echo.port, .papers = &papers, .is_old = _i == 1};
    (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL's own sockets */
    ck_assert_int_eq(pthread_create(&thread, NULL, run_stranger, &stranger), 0);
    (void)pthread_join(thread, NULL);
    ck_assert_int_eq(close_echo(&echo), MC_ERR_RPC_FAIL);
    ck_assert(!stranger.got_byte);
    ck_assert(!stranger.is_old || !stranger.shook_hands);
    mci_tls_destroy(tls);
    drop(&papers);
    end();
}
END_TEST

/* ---- moving bytes ------------------------------------------------------------ */

struct duo {
    struct papers papers;
    struct mci_tls *tls;
    uint16_t port;
    struct mci_stream *a; /* connected */
    struct mci_stream *b; /* accepted */
};

static void *connect_a(void *ctx)
{
    struct duo *duo = ctx;
    const struct mci_address address = {.host = "127.0.0.1", .port = duo->port};
    ck_assert_int_eq(
        mci_stream_connect(&address, duo->tls, pair_soon(), &duo->a), MC_OK);
    ck_assert_int_eq(mci_stream_send_all(duo->a, "!", 1, pair_soon()), MC_OK);
    return NULL;
}

static void open_duo(struct duo *duo)
{
    pthread_t thread;
    char byte;
    begin();
    duo->papers = make_papers("a", NULL, 0);
    duo->tls = load(&duo->papers, duo->papers.ca);
    int listener = pair_listen(&duo->port);
    ck_assert_int_eq(pthread_create(&thread, NULL, connect_a, duo), 0);
    ck_assert_int_eq(
        mci_stream_accept(pair_accept(listener), duo->tls, &duo->b), MC_OK);
    ck_assert_int_eq(mci_stream_recv_all(duo->b, &byte, 1, pair_soon()), MC_OK);
    (void)pthread_join(thread, NULL);
    (void)close(listener);
}

static void close_duo(struct duo *duo)
{
    mci_stream_close(duo->a);
    mci_stream_close(duo->b);
    mci_tls_destroy(duo->tls);
    drop(&duo->papers);
    end();
}

/* Bytes on their way from a buffer into another, in parts of odd sizes. */
struct journey {
    struct mci_stream *from;
    struct mci_stream *to;
    uint8_t *out;
    uint8_t *in;
    size_t len;
    size_t sent;
    size_t got;
    unsigned seed;
};

/* Cuts [at, len) into at most 5 parts, the same ones each time for one `at`. */
static int cut(uint8_t *bytes, size_t at, size_t len, unsigned seed,
               struct iovec parts[5])
{
    static const size_t sizes[] = {1, 0, 100, 16384, 40000, 16383, 300000, 7};
    int count = 0;
    seed += (unsigned)at;
    for (; count < 5 && at < len; count++) {
        size_t size = sizes[(seed + (unsigned)count * 3) % 8];
        size = size < len - at ? size : len - at;
        parts[count] = (struct iovec){bytes + at, size};
        at += size;
    }
    return count;
}

static bool step(struct journey *journey)
{
    struct iovec parts[5];
    size_t moved = 0;
    size_t before = journey->sent + journey->got;
    int count =
        cut(journey->out, journey->sent, journey->len, journey->seed, parts);
    if (count > 0) {
        ck_assert_int_eq(mci_stream_send(journey->from, parts, count, &moved),
                         MC_OK);
        journey->sent += moved;
    }
    count =
        cut(journey->in, journey->got, journey->len, journey->seed + 1, parts);
    if (count > 0) {
        ck_assert_int_eq(mci_stream_recv(journey->to, parts, count, &moved),
                         MC_OK);
        journey->got += moved;
    }
    return journey->sent + journey->got > before;
}

static struct journey begin_journey(struct mci_stream *from,
                                    struct mci_stream *to, unsigned seed)
{
    struct journey journey = {
        .from = from, .to = to, .len = 3 << 20, .seed = seed};
    journey.out = malloc(journey.len);
    journey.in = calloc(1, journey.len);
    ck_assert(journey.out && journey.in);
    for (size_t i = 0; i < journey.len; i++) {
        journey.out[i] = (uint8_t)((i * 2654435761U) >> 13);
    }
    return journey;
}

static void end_journey(struct journey *journey)
{
    ck_assert_int_eq(memcmp(journey->out, journey->in, journey->len), 0);
    free(journey->out);
    free(journey->in);
}

/* One thread turns both, so every call meets a full or an empty socket now and
 * then and has to be repeated. */
START_TEST(bytes_in_odd_parts_arrive_both_ways)
{
    struct duo duo;
    open_duo(&duo);
    struct journey there = begin_journey(duo.a, duo.b, 1);
    struct journey back = begin_journey(duo.b, duo.a, 6);
    uint64_t end_ns = pair_soon();
    while (there.got < there.len || back.got < back.len) {
        bool moved = step(&there);
        moved = step(&back) || moved;
        if (!moved) {
            await_turn();
        }
        ck_assert_uint_lt(mci_clock_ns(), end_ns);
    }
    end_journey(&there);
    end_journey(&back);
    close_duo(&duo);
}
END_TEST

START_TEST(what_is_left_of_a_record_is_pending)
{
    struct duo duo;
    char room[100];
    open_duo(&duo);
    memset(room, 'r', sizeof room);
    ck_assert(!mci_stream_has_pending(duo.b));
    ck_assert_int_eq(mci_stream_send_all(duo.a, room, sizeof room, pair_soon()),
                     MC_OK);
    ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 10, pair_soon()), MC_OK);
    ck_assert(mci_stream_has_pending(duo.b));
    ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 90, pair_soon()), MC_OK);
    ck_assert(!mci_stream_has_pending(duo.b));
    const struct iovec in = {room, sizeof room};
    size_t moved = 1;
    ck_assert_int_eq(mci_stream_recv(duo.b, &in, 1, &moved), MC_OK);
    ck_assert_uint_eq(moved, 0);
    ck_assert_int_eq(mci_stream_recv_events(duo.b), POLLIN);
    close_duo(&duo);
}
END_TEST

START_TEST(an_end_of_any_kind_is_an_error_once_all_is_read)
{
    struct duo duo;
    char room[8];
    open_duo(&duo);
    if (_i == 2) {
        /* Cut off below TLS: no word of farewell. */
        ck_assert_int_eq(shutdown(mci_stream_fd(duo.a), SHUT_WR), 0);
    } else {
        ck_assert_int_eq(mci_stream_send_all(duo.a, "last", 4, pair_soon()),
                         MC_OK);
        ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 4, pair_soon()),
                         MC_OK);
        _i ? mci_stream_abort(duo.a) : mci_stream_close(duo.a);
        duo.a = NULL;
    }
    ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 8, pair_soon()),
                     MC_ERR_RPC_FAIL);
    close_duo(&duo);
}
END_TEST

START_TEST(bytes_that_are_no_tls_cost_the_connection)
{
    struct duo duo;
    char room[8];
    open_duo(&duo);
    ck_assert_int_eq(send(mci_stream_fd(duo.a), "garbage!", 8, 0), 8);
    ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 8, pair_soon()),
                     MC_ERR_RPC_FAIL);
    close_duo(&duo);
}
END_TEST

/* ---- files -------------------------------------------------------------------- */

START_TEST(files_that_do_not_fit_are_refused)
{
    begin();
    struct papers a = make_papers("a", NULL, 0);
    struct papers b = make_papers("b", NULL, 0);
    const struct mc_tls_opts table[] = {
        {NULL, a.key, a.ca},    {a.cert, NULL, a.ca},
        {a.cert, a.key, NULL},  {"/nowhere.pem", a.key, a.ca},
        {a.cert, b.key, a.ca},  {a.key, a.key, a.ca},
        {a.cert, a.cert, a.ca}, {a.cert, a.key, "/nowhere.pem"},
        {a.cert, a.key, a.key}, {NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct mci_tls *tls = NULL;
        ck_assert_int_eq(mci_tls_create(&table[i], &tls),
                         MC_ERR_INVALID_PARAMS);
        ck_assert_ptr_null(tls);
    }
    mci_tls_destroy(NULL);
    drop(&a);
    drop(&b);
    end();
}
END_TEST

START_TEST(trial_files_are_made_once_and_the_key_is_kept_close)
{
    struct stat entry;
    begin();
    struct papers papers = make_papers("a", "::2", 1);
    ck_assert_int_eq(stat(papers.key, &entry), 0);
    ck_assert_uint_eq(entry.st_mode & 0777, 0600);
    ck_assert_int_eq(mc_tls_make_trial(papers.dir, NULL, 0),
                     MC_ERR_FILE_WRITE_FAIL);
    struct papers other = name_papers("b");
    ck_assert_int_eq(mc_tls_make_trial(other.dir, "a,DNS:evil", 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_tls_make_trial(other.dir, "", 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_tls_make_trial("/proc/none/here", NULL, 0),
                     MC_ERR_FILE_WRITE_FAIL);
    drop(&papers);
    end();
}
END_TEST

START_TEST(certificates_and_streams_without_memory_fail_cleanly)
{
    struct alloc_fail fail;
    begin();
    struct papers papers = make_papers("a", NULL, 0);
    const struct mc_tls_opts opts = {papers.cert, papers.key, papers.ca};
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_tls *tls = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_tls_create(&opts, &tls);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_tls_destroy(tls);
    }
    struct mci_tls *tls = load(&papers, papers.ca);
    ALLOC_FAIL_EACH(fail)
    {
        int ends[2];
        struct mci_stream *stream = NULL;
        pair_make(ends);
        alloc_fail_arm(&fail);
        enum mc_err err = mci_stream_accept(ends[0], tls, &stream);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_stream_close(stream);
        (void)close(ends[1]);
    }
    mci_tls_destroy(tls);
    drop(&papers);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls");
    TCase *peers = tcase_create("peers");
    tcase_set_timeout(peers, 120);
    tcase_add_loop_test(peers, two_sides_of_one_ca_understand_each_other, 0, 2);
    tcase_add_loop_test(peers, a_wrong_certificate_gets_nothing_through, 0,
                        FAULTS);
    tcase_add_loop_test(peers, a_server_of_another_name_is_refused, 0, 2);
    tcase_add_test(peers, a_peer_without_tls_gets_nothing);
    tcase_add_test(peers, a_server_without_tls_is_refused);
    tcase_add_loop_test(
        peers, a_client_without_certificate_or_of_old_tls_gets_nothing, 0, 2);
    tcase_add_test(peers, a_silent_peer_costs_the_handshake_its_deadline);
    suite_add_tcase(suite, peers);
    TCase *moves = tcase_create("moves");
    tcase_set_timeout(moves, 120);
    tcase_add_test(moves, bytes_in_odd_parts_arrive_both_ways);
    tcase_add_test(moves, what_is_left_of_a_record_is_pending);
    tcase_add_loop_test(moves, an_end_of_any_kind_is_an_error_once_all_is_read,
                        0, 3);
    tcase_add_test(moves, bytes_that_are_no_tls_cost_the_connection);
    suite_add_tcase(suite, moves);
    TCase *files = tcase_create("files");
    tcase_set_timeout(files, 120);
    tcase_add_test(files, files_that_do_not_fit_are_refused);
    tcase_add_test(files, trial_files_are_made_once_and_the_key_is_kept_close);
    tcase_add_test(files, certificates_and_streams_without_memory_fail_cleanly);
    suite_add_tcase(suite, files);
    return suite_run(suite);
}
