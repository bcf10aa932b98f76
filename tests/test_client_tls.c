/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_tls.c - a master, an owner and clients over TLS, on the control
 * link and for bytes by tcp: right certificates work, all others cost whoever
 * has them a clear error within the deadline, and nobody else anything. */
#include <fcntl.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "await.h"
#include "client_loan.h"
#include "client_outside.h"
#include "client_rig.h"
#include "mc_log.h"
#include "mc_master.h"
#include "mc_tls.h"
#include "mc_transfer.h"
#include "mci_address.h"
#include "mci_buf.h"
#include "mci_client.h"
#include "mci_clock.h"
#include "mci_control.h"
#include "mci_list.h"
#include "suite.h"
#include "tcp_wire.h"

#define LEN 100000
#define PATH_ROOM 128
#define DEADLINE_MS 2000
#define PATIENCE_MS 30000 /* of the test, on a machine that is slow */
#define LINES_MAX 8192

/* ---- papers -------------------------------------------------------------- */

struct papers {
    char dir[PATH_ROOM];
    char cert[PATH_ROOM];
    char key[PATH_ROOM];
    char ca[PATH_ROOM];
    struct mc_tls_opts tls;
};

static char home[64];
static struct papers good;
static struct papers other; /* of another CA */
static struct papers expired;

static void make_papers(struct papers *papers, const char *name, int days)
{
    (void)snprintf(papers->dir, PATH_ROOM, "%.63s/%.20s", home, name);
    (void)snprintf(papers->cert, PATH_ROOM, "%.100s/cert.pem", papers->dir);
    (void)snprintf(papers->key, PATH_ROOM, "%.100s/key.pem", papers->dir);
    (void)snprintf(papers->ca, PATH_ROOM, "%.100s/ca.pem", papers->dir);
    ck_assert_int_eq(mc_tls_make_trial(papers->dir, NULL, days), MC_OK);
    papers->tls = (struct mc_tls_opts){.cert_file = papers->cert,
                                       .key_file = papers->key,
                                       .ca_file = papers->ca};
}

static void drop_papers(const struct papers *papers)
{
    (void)unlink(papers->cert);
    (void)unlink(papers->key);
    (void)unlink(papers->ca);
    (void)rmdir(papers->dir);
}

/* ---- a cluster ----------------------------------------------------------- */

static struct mc_master *master;
static char address[300];
static uint8_t value[LEN];
static char lines[LINES_MAX]; /* of the log; guarded by lines_lock */
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

static void collect(void *ctx, enum mc_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)pthread_mutex_lock(&lines_lock);
    size_t len = strlen(lines);
    (void)snprintf(lines + len, sizeof lines - len, "%s\n", text);
    (void)pthread_mutex_unlock(&lines_lock);
}

static bool was_logged(const char *words)
{
    (void)pthread_mutex_lock(&lines_lock);
    bool was = strstr(lines, words) != NULL;
    (void)pthread_mutex_unlock(&lines_lock);
    return was;
}

static void start(const struct mc_tls_opts *tls)
{
    const struct mc_master_opts opts = {
        .rpc_address = "127.0.0.1", .heartbeat_ms = 100, .tls = tls};
    struct mc_master_bound bound;
    const char *what = NULL;
    lines[0] = '\0';
    mc_log_set_sink(collect, NULL);
    stamp_fill(value, sizeof value, 17);
    enum mc_err err = mc_master_open(&opts, &master, &what);
    ck_assert_msg(err == MC_OK, "%d %s", err, what ? what : "");
    mc_master_bound(master, &bound);
    (void)snprintf(address, sizeof address, "127.0.0.1%s",
                   strrchr(bound.rpc, ':'));
}

static void stop(void)
{
    mc_master_close(master);
    mc_log_set_sink(NULL, NULL);
}

static void begin(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL's own sockets */
    (void)snprintf(home, sizeof home, "/tmp/mckv-ctls-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    make_papers(&good, "good", 0);
    make_papers(&other, "other", 0);
    make_papers(&expired, "expired", -1);
}

static void end(void)
{
    drop_papers(&good);
    drop_papers(&other);
    drop_papers(&expired);
    ck_assert_int_eq(rmdir(home), 0);
}

static enum mc_err join(uint64_t segment_bytes, const struct mc_tls_opts *tls,
                        struct mc_client **client_out)
{
    const struct mc_client_opts opts = {
        .master = address,
        .segment_bytes = segment_bytes,
        .any_memory = true,
        .transport = "tcp",
        .timeout_ms = segment_bytes == MC_NONE ? DEADLINE_MS : PATIENCE_MS,
        .tls = tls};
    return mc_client_open(&opts, client_out);
}

static struct mc_client *must_join(uint64_t segment_bytes,
                                   const struct mc_tls_opts *tls)
{
    struct mc_client *client = NULL;
    ck_assert_int_eq(join(segment_bytes, tls, &client), MC_OK);
    return client;
}

/* A put and a get whose bytes go over the network. */
static void expect_service(struct mc_client *client, const char *key)
{
    uint8_t *got = calloc(1, LEN);
    uint64_t size = 0;
    uint64_t stamp = 0;
    struct mc_client_moved before;
    struct mc_client_moved after;
    ck_assert_ptr_nonnull(got);
    mc_client_moved(client, &before);
    ck_assert_int_eq(mc_client_put(client, mc_view_str(key), value, LEN, NULL),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_get_into(client, mc_view_str(key), got, LEN, &size), MC_OK);
    ck_assert(size == LEN && stamp_read(got, LEN, &stamp) && stamp == 17);
    mc_client_moved(client, &after);
    ck_assert_uint_eq(after.tcp.rows - before.tcp.rows, 2);
    free(got);
}

static bool is_over(uint64_t begun_ns)
{
    return mci_clock_ns() - begun_ns < PATIENCE_MS * MCI_NS_PER_MS;
}

/* ---- the control link ---------------------------------------------------- */

START_TEST(with_right_certificates_all_goes_over_tls)
{
    begin();
    start(&good.tls);
    struct mc_client *owner = must_join(MIB, &good.tls);
    struct mc_client *client = must_join(MC_NONE, &good.tls);
    expect_service(client, "k");
    mc_client_close(client);
    mc_client_close(owner);
    stop();
    end();
}
END_TEST

/* Who may not come in is told why, soon; the others are served meanwhile and
 * afterwards. */
START_TEST(who_has_wrong_papers_does_not_come_in)
{
    begin();
    const struct mc_tls_opts wrong_ca = {
        .cert_file = good.cert, .key_file = good.key, .ca_file = other.ca};
    const struct mc_tls_opts wrong_certificate = {
        .cert_file = other.cert, .key_file = other.key, .ca_file = good.ca};
    const struct mc_tls_opts old_certificate = {
        .cert_file = expired.cert, .key_file = expired.key, .ca_file = good.ca};
    const struct {
        const struct mc_tls_opts *tls; /* NULL: plain */
        const char *words;             /* in the log */
    } rows[] = {{&wrong_ca, "certificate"},
                {&wrong_certificate, "tlsv1 alert"},
                {&old_certificate, "tlsv1 alert"},
                {&other.tls, "certificate"},
                {NULL, "answers in tls, which is not set up"}};
    start(&good.tls);
    struct mc_client *owner = must_join(MIB, &good.tls);
    struct mc_client *client = must_join(MC_NONE, &good.tls);
    struct mc_client *refused = NULL;
    lines[0] = '\0';
    uint64_t begun_ns = mci_clock_ns();
    enum mc_err err = join(MC_NONE, rows[_i].tls, &refused);
    ck_assert_msg(err == MC_ERR_RPC_FAIL || err == MC_ERR_RPC_TIMEOUT, "%d",
                  err);
    ck_assert(is_over(begun_ns));
    ck_assert_ptr_null(refused);
    ck_assert_msg(was_logged(rows[_i].words), "%s: %s", rows[_i].words, lines);
    expect_service(client, "k");
    struct mc_client *late = must_join(MC_NONE, &good.tls);
    expect_service(late, "l");
    mc_client_close(late);
    mc_client_close(client);
    mc_client_close(owner);
    stop();
    end();
}
END_TEST

/* A master whose certificate has run out, also for those who share it; and one
 * that speaks no TLS. */
START_TEST(a_master_with_no_papers_that_hold_is_not_believed)
{
    begin();
    const struct {
        const struct mc_tls_opts *master;
        const struct mc_tls_opts *client;
    } rows[] = {{&expired.tls, &expired.tls},
                {&other.tls, &good.tls},
                {NULL, &good.tls}};
    start(rows[_i].master);
    struct mc_client *client = NULL;
    uint64_t begun_ns = mci_clock_ns();
    enum mc_err err = join(MC_NONE, rows[_i].client, &client);
    ck_assert_msg(err == MC_ERR_RPC_FAIL || err == MC_ERR_RPC_TIMEOUT, "%d",
                  err);
    ck_assert(is_over(begun_ns));
    ck_assert_ptr_null(client);
    ck_assert_msg(was_logged("tls") || was_logged("certificate"), "%s", lines);
    if (!rows[_i].master) { /* plain ones are served as before */
        struct mc_client *owner = must_join(MIB, NULL);
        struct mc_client *plain = must_join(MC_NONE, NULL);
        expect_service(plain, "k");
        mc_client_close(plain);
        mc_client_close(owner);
    }
    stop();
    end();
}
END_TEST

/* ---- strangers at either port -------------------------------------------- */

/* What each port answers, from whomever it listens to. */
static struct mc_view ask_master(struct mci_buf *room)
{
    const uint32_t next = MCI_CONTROL_VERSION + 1;
    const struct mci_request request = {.version = MCI_CONTROL_VERSION,
                                        .op = MCI_OP_HELLO,
                                        .number = 1,
                                        .time_left_ms = PATIENCE_MS};
    const struct mci_hello hello = {.version_min = next,
                                    .version_max = next,
                                    .incarnation = 1,
                                    .host_id = mc_view_str("host"),
                                    .software = mc_view_str("test")};
    struct mci_pack pack;
    mci_pack_init(&pack, room);
    size_t at = mci_request_begin(&pack, &request);
    mci_hello_pack(&pack, &hello);
    ck_assert_int_eq(mci_frame_finish(&pack, at), MC_OK);
    return mci_buf_view(room);
}

static struct mc_view ask_owner(struct mci_buf *room)
{
    uint8_t head[MCI_TCP_REQUEST_LEN];
    const struct mci_tcp_request request = {
        .op = MCI_TCP_PROBE, .number = 1, .terms = {.registration = 1}};
    mci_tcp_request_write(&request, head);
    ck_assert_int_eq(mci_buf_append(room, head, sizeof head), MC_OK);
    return mci_buf_view(room);
}

static int dial(const char *where)
{
    const struct timeval patience = {.tv_sec = 25};
    struct mci_address at;
    const char *why = NULL;
    int fd = -1;
    ck_assert_int_eq(mci_address_parse(where, &at), MC_OK);
    ck_assert_int_eq(
        mci_address_connect(&at, mci_clock_deadline(mci_clock_ns(), 20000), &fd,
                            &why),
        MC_OK);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int flags = fcntl(fd, F_GETFL);
    ck_assert_int_eq(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK), 0);
    return fd;
}

/* A stranger who believes anybody, with these papers or none. */
static bool is_answered(const char *where, struct mc_view words,
                        const struct papers *papers)
{
    int fd = dial(where);
    char byte = 0;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (papers) {
        ck_assert_int_eq(SSL_CTX_use_certificate_file(context, papers->cert,
                                                      SSL_FILETYPE_PEM),
                         1);
        ck_assert_int_eq(
            SSL_CTX_use_PrivateKey_file(context, papers->key, SSL_FILETYPE_PEM),
            1);
    }
    SSL *ssl = SSL_new(context);
    (void)SSL_set_fd(ssl, fd);
    uint64_t begun_ns = mci_clock_ns();
    bool is_it = SSL_connect(ssl) == 1 &&
                 SSL_write(ssl, words.data, (int)words.len) == (int)words.len &&
                 SSL_read(ssl, &byte, 1) == 1;
    ck_assert_uint_lt(mci_clock_ns() - begun_ns, 20 * MCI_NS_PER_S);
    SSL_free(ssl);
    SSL_CTX_free(context);
    (void)close(fd);
    return is_it;
}

/* The same words with a certificate that is believed have an answer. */
START_TEST(who_shows_no_certificate_is_cut_off)
{
    begin();
    start(&good.tls);
    struct mc_client *owner = must_join(MIB, &good.tls);
    struct mc_client *client = must_join(MC_NONE, &good.tls);
    const struct papers *shown[] = {NULL, &other, &expired};
    struct mci_buf rooms[2];
    mci_buf_init(&rooms[0], 4096);
    mci_buf_init(&rooms[1], 4096);
    const struct {
        const char *where;
        struct mc_view words;
    } ports[] = {{address, ask_master(&rooms[0])},
                 {mc_client_hostname(owner), ask_owner(&rooms[1])}};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof shown / sizeof shown[0]; k++) {
            ck_assert(!is_answered(ports[i].where, ports[i].words, shown[k]));
        }
        ck_assert(is_answered(ports[i].where, ports[i].words, &good));
        expect_service(client, i == 0 ? "a" : "b");
    }
    mci_buf_fini(&rooms[0]);
    mci_buf_fini(&rooms[1]);
    mc_client_close(client);
    mc_client_close(owner);
    stop();
    end();
}
END_TEST

static const struct mc_exposure *lent_by(struct mc_client *owner)
{
    struct mci_outside *outside = mci_client_outside(owner);
    (void)pthread_mutex_lock(&outside->lent_lock);
    ck_assert(!mci_list_is_empty(&outside->lent));
    const struct mc_exposure *lent = mci_lent_exposure(
        MCI_CONTAINER(outside->lent.next, struct mci_loan, link));
    (void)pthread_mutex_unlock(&outside->lent_lock);
    return lent;
}

/* An engine asks an owner whether it has what it lends. */
static enum mc_err probe(struct mc_client *owner, const struct mc_tls_opts *tls)
{
    const struct mc_transfer_opts opts = {
        .only = MC_TRANSPORT_TCP, .any_memory = true, .tls = tls};
    const struct mc_exposure *lent = lent_by(owner);
    const struct mc_target_opts target_opts = {.registration =
                                                   lent->registration,
                                               .bytes = MIB,
                                               .endpoint = lent->endpoint};
    struct mc_transfer *transfer = NULL;
    struct mc_target *target = NULL;
    ck_assert_int_eq(mc_transfer_open(&opts, &transfer), MC_OK);
    ck_assert_int_eq(mc_target_open(transfer, &target_opts, &target), MC_OK);
    uint64_t begun_ns = mci_clock_ns();
    enum mc_err err = mc_target_probe(
        target, mci_clock_deadline(mci_clock_ns(), DEADLINE_MS));
    ck_assert(is_over(begun_ns));
    mc_target_close(target);
    mc_transfer_close(transfer);
    return err;
}

/* Those with another's certificate, or an old one, would believe the owner. */
START_TEST(an_owner_serves_its_own_kind_only)
{
    begin();
    const struct mc_tls_opts wrong_certificate = {
        .cert_file = other.cert, .key_file = other.key, .ca_file = good.ca};
    const struct mc_tls_opts old_certificate = {
        .cert_file = expired.cert, .key_file = expired.key, .ca_file = good.ca};
    const struct mc_tls_opts wrong_ca = {
        .cert_file = good.cert, .key_file = good.key, .ca_file = other.ca};
    const bool is_plain = _i == 1;
    const struct mc_tls_opts *right = is_plain ? NULL : &good.tls;
    const struct mc_tls_opts *wrongs[] = {is_plain ? &good.tls : NULL,
                                          &wrong_certificate, &old_certificate,
                                          &wrong_ca, &other.tls};
    start(right);
    struct mc_client *owner = must_join(MIB, right);
    struct mc_client *client = must_join(MC_NONE, right);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%zu", i);
        ck_assert_int_eq(probe(owner, right), MC_OK);
        ck_assert_msg(probe(owner, wrongs[i]) == MC_ERR_TRANSFER_FAIL, "%zu",
                      i);
        expect_service(client, key);
    }
    mc_client_close(client);
    mc_client_close(owner);
    stop();
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_tls");
    TCase *tcase = tcase_create("tls");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, with_right_certificates_all_goes_over_tls);
    tcase_add_loop_test(tcase, who_has_wrong_papers_does_not_come_in, 0, 5);
    tcase_add_loop_test(
        tcase, a_master_with_no_papers_that_hold_is_not_believed, 0, 3);
    tcase_add_test(tcase, who_shows_no_certificate_is_cut_off);
    tcase_add_loop_test(tcase, an_owner_serves_its_own_kind_only, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
