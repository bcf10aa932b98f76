/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer does with owners that lie, stall, reset, repeat or go away: a call
 * costs its deadline at most, and nobody touches the caller's memory after it. */
#include <stdio.h>
#include <sys/mman.h>

#include "suite.h"
#include "tcp_rig.h"

#define LEN 100000
#define PAGE ((size_t)4096)

/* ---- an owner made of a script ----------------------------------------------- */

struct fake {
    void (*serve)(struct fake *fake, int fd);
    int listener;
    uint16_t port;
    pthread_t thread;
    _Atomic int accepted;
    _Atomic int is_let_go; /* who stalls may go on */
    struct mc_transfer *peer;
    struct mc_target *target;
};

static void *fake_run(void *arg)
{
    struct fake *fake = arg;
    for (;;) {
        int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return NULL;
        }
        raw_patience(fd);
        (void)atomic_fetch_add(&fake->accepted, 1);
        fake->serve(fake, fd);
        (void)close(fd);
    }
}

static void fake_listen(struct fake *fake)
{
    const struct mci_listen_opts opts = {.host = "127.0.0.1"};
    const char *why = "";
    ck_assert_int_eq(
        mci_address_listen(&opts, &fake->listener, &fake->port, &why), MC_OK);
    ck_assert_int_eq(fcntl(fake->listener, F_SETFL, 0), 0);
    ck_assert_int_eq(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

static struct mc_target *fake_target(struct mc_transfer *peer, uint16_t port)
{
    char endpoint[64];
    struct mc_target *target = NULL;
    (void)snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", (unsigned)port);
    const struct mc_target_opts opts = {
        .registration = 77, .bytes = UINT64_C(1) << 40, .endpoint = endpoint};
    ck_assert_int_eq(mc_target_open(peer, &opts, &target), MC_OK);
    return target;
}

static void fake_open(struct fake *fake,
                      void (*serve)(struct fake *fake, int fd))
{
    const struct mc_transfer_opts opts = tcp_rig_opts();
    memset(fake, 0, sizeof *fake);
    fake->serve = serve;
    fake_listen(fake);
    ck_assert_int_eq(mc_transfer_open(&opts, &fake->peer), MC_OK);
    fake->target = fake_target(fake->peer, fake->port);
}

static void fake_stop(struct fake *fake)
{
    atomic_store(&fake->is_let_go, 1);
    (void)shutdown(fake->listener, SHUT_RDWR);
    (void)pthread_join(fake->thread, NULL);
    (void)close(fake->listener);
}

static void fake_close(struct fake *fake)
{
    mc_target_close(fake->target);
    mc_transfer_close(fake->peer);
    fake_stop(fake);
}

static struct mc_transfer_row fake_row(const struct fake *fake, bool is_write,
                                       const struct mc_span *span)
{
    return (struct mc_transfer_row){.target = fake->target,
                                    .spans = span,
                                    .span_count = 1,
                                    .offset = 10,
                                    .terms = {.registration = 77,
                                              .subject = 3,
                                              .offset = 10,
                                              .len = span->len,
                                              .is_write = is_write}};
}

/* The next request and its bytes; false at the end of the connection. */
static bool fake_request(int fd, struct mci_tcp_request *request)
{
    static uint8_t nowhere[1 << 20];
    uint8_t head[MCI_TCP_REQUEST_LEN];
    if (raw_recv(fd, head, sizeof head) < sizeof head ||
        mci_tcp_request_read(head, request)) {
        return false;
    }
    uint64_t left = request->op == MCI_TCP_WRITE ? request->len : 0;
    while (left > 0) {
        size_t len = left < sizeof nowhere ? (size_t)left : sizeof nowhere;
        if (raw_recv(fd, nowhere, len) < len) {
            return false;
        }
        left -= len;
    }
    return true;
}

static struct mci_tcp_answer right_answer(const struct mci_tcp_request *request)
{
    bool closes = request->is_final || request->op == MCI_TCP_SEAL;
    return (struct mci_tcp_answer){.op = request->op,
                                   .number = request->number,
                                   .code = MC_OK,
                                   .len = request->len,
                                   .receipt = closes ? 5 : 0};
}

static void fake_say(int fd, const struct mci_tcp_answer *answer)
{
    uint8_t head[MCI_TCP_ANSWER_LEN];
    mci_tcp_answer_write(answer, head);
    (void)raw_send(fd, head, sizeof head);
}

static void fake_data(int fd, uint64_t len)
{
    static const uint8_t zeros[1 << 16];
    while (len > 0) {
        size_t part = len < sizeof zeros ? (size_t)len : sizeof zeros;
        if (!raw_send(fd, zeros, part)) {
            return;
        }
        len -= part;
    }
}

static void fake_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

static void stall(struct fake *fake)
{
    while (!atomic_load(&fake->is_let_go)) {
        await_turn();
    }
}

/* ---- lies ---------------------------------------------------------------------- */

static void lie_number(struct mci_tcp_answer *answer)
{
    answer->number++;
}
static void lie_nought(struct mci_tcp_answer *answer)
{
    answer->number = 0;
}
static void lie_op(struct mci_tcp_answer *answer)
{
    answer->op = MCI_TCP_PROBE;
}
static void lie_long(struct mci_tcp_answer *answer)
{
    answer->len++;
}
static void lie_short(struct mci_tcp_answer *answer)
{
    answer->len--;
}
static void lie_huge(struct mci_tcp_answer *answer)
{
    answer->len = UINT64_MAX;
}
static void lie_receipt(struct mci_tcp_answer *answer)
{
    answer->receipt = answer->receipt ? 0 : 9;
}
static void lie_code(struct mci_tcp_answer *answer)
{
    answer->code = MC_ERR_LEASE_EXPIRED; /* and yet bytes */
}

static void (*const lies[])(struct mci_tcp_answer *answer) = {
    lie_number, lie_nought, lie_op,      lie_long,
    lie_short,  lie_huge,   lie_receipt, lie_code};
#define LIES ((int)(sizeof lies / sizeof lies[0]))

static _Atomic int which;

static void serve_lies(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    (void)fake;
    while (fake_request(fd, &request)) {
        struct mci_tcp_answer answer = right_answer(&request);
        lies[atomic_load(&which)](&answer);
        fake_say(fd, &answer);
        fake_data(fd, request.op == MCI_TCP_READ ? request.len : 0);
    }
}

/* In its middle page the row's memory; the pages around it are not to be
 * touched. */
struct fenced {
    uint8_t *pages;
    struct mc_span span;
};

static void fenced_make(struct fenced *fenced)
{
    size_t len = (LEN + PAGE - 1) / PAGE * PAGE;
    fenced->pages = mmap(NULL, len + 2 * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(fenced->pages, MAP_FAILED);
    (void)mprotect(fenced->pages, PAGE, PROT_NONE);
    (void)mprotect(fenced->pages + PAGE + len, PAGE, PROT_NONE);
    fenced->span = (struct mc_span){fenced->pages + PAGE + len - LEN, LEN};
}

static void fenced_lock(struct fenced *fenced)
{
    size_t len = (LEN + PAGE - 1) / PAGE * PAGE;
    (void)mprotect(fenced->pages, len + 2 * PAGE, PROT_NONE);
}

static void fenced_free(struct fenced *fenced)
{
    size_t len = (LEN + PAGE - 1) / PAGE * PAGE;
    (void)munmap(fenced->pages, len + 2 * PAGE);
}

START_TEST(test_a_lying_owner_is_not_believed)
{
    struct fake fake;
    struct fenced fenced;
    bool is_write = _i >= LIES;
    atomic_store(&which, _i % LIES);
    fenced_make(&fenced);
    fake_open(&fake, serve_lies);
    struct mc_transfer_row row = fake_row(&fake, is_write, &fenced.span);
    row.is_final = is_write;
    ck_assert_int_eq(mc_transfer_run(fake.peer, &row, 1, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(row.err, MC_ERR_TRANSFER_FAIL);
    ck_assert(row.local_ended);
    ck_assert(row.remote_ended == !is_write);
    ck_assert_uint_eq(row.receipt, 0);
    ck_assert_int_le(atomic_load(&fake.accepted), 2);
    fake_close(&fake);
    fenced_free(&fenced);
}
END_TEST

/* ---- ends ------------------------------------------------------------------------ */

static void serve_nothing(struct fake *fake, int fd)
{
    (void)fake;
    (void)fd;
}

static void serve_resets(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    (void)fake;
    (void)fake_request(fd, &request);
    fake_reset(fd);
}

static void serve_short(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    (void)fake;
    if (fake_request(fd, &request)) {
        struct mci_tcp_answer answer = right_answer(&request);
        fake_say(fd, &answer);
        fake_data(fd, request.len / 2);
    }
}

/* Refuses all with one code. */
static _Atomic int refusal;

static void serve_refusals(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    (void)fake;
    while (fake_request(fd, &request)) {
        const struct mci_tcp_answer answer = {
            .op = request.op,
            .number = request.number,
            .code = (enum mc_err)atomic_load(&refusal)};
        fake_say(fd, &answer);
    }
}

/* Has no memory for a connection. */
static void serve_nobody(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    const struct mci_tcp_answer answer = {.op = MCI_TCP_PROBE,
                                          .code = MC_ERR_NOMEM};
    (void)fake;
    if (fake_request(fd, &request)) {
        fake_say(fd, &answer);
    }
}

START_TEST(test_an_owner_without_memory_for_a_connection_is_heard)
{
    static uint8_t bytes[LEN];
    const struct mc_span span = {bytes, LEN};
    struct fake fake;
    fake_open(&fake, serve_nobody);
    struct mc_transfer_row row = fake_row(&fake, _i == 1, &span);
    (void)mc_transfer_run(fake.peer, &row, 1,
                          mci_clock_deadline(mci_clock_ns(), 20000));
    ck_assert_int_eq(row.err, MC_ERR_NOMEM);
    ck_assert(row.local_ended);
    fake_close(&fake);
}
END_TEST

/* An owner without memory says so on the wire, and its caller hears that. */
START_TEST(test_what_an_owner_refuses_with_comes_back)
{
    static const struct {
        enum mc_err code;
        enum mc_err of_read;
        enum mc_err of_write;
    } rows[] = {
        {MC_ERR_NOMEM, MC_ERR_NOMEM, MC_ERR_NOMEM},
        {MC_ERR_LEASE_EXPIRED, MC_ERR_LEASE_EXPIRED, MC_ERR_TRANSFER_FAIL},
        {MC_ERR_INVALID_VERSION, MC_ERR_TRANSFER_FAIL, MC_ERR_TRANSFER_FAIL}};
    static uint8_t bytes[LEN];
    const struct mc_span span = {bytes, LEN};
    struct fake fake;
    fake_open(&fake, serve_refusals);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        atomic_store(&refusal, (int)rows[i].code);
        struct mc_transfer_row row = fake_row(&fake, false, &span);
        uint64_t until_ns = mci_clock_deadline(mci_clock_ns(), 20000);
        (void)mc_transfer_run(fake.peer, &row, 1, until_ns);
        ck_assert_int_eq(row.err, rows[i].of_read);
        row = fake_row(&fake, true, &span);
        (void)mc_transfer_run(fake.peer, &row, 1, until_ns);
        ck_assert_int_eq(row.err, rows[i].of_write);
        (void)mc_transfer_seal(fake.peer, &row, 1, until_ns);
        ck_assert_int_eq(row.err, rows[i].of_write);
    }
    fake_close(&fake);
}
END_TEST

START_TEST(test_an_owner_that_goes_away_again_and_again_is_given_up)
{
    static void (*const serves[])(struct fake *, int) = {
        serve_nothing, serve_resets, serve_short};
    enum { ROWS = 40 };
    static uint8_t bytes[ROWS][1000];
    struct mc_span spans[ROWS];
    struct mc_transfer_row rows[ROWS];
    struct fake fake;
    fake_open(&fake, serves[_i]);
    for (int i = 0; i < ROWS; i++) {
        spans[i] = (struct mc_span){bytes[i], sizeof bytes[i]};
        rows[i] = fake_row(&fake, false, &spans[i]);
    }
    ck_assert_int_eq(mc_transfer_run(fake.peer, rows, ROWS, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    for (int i = 0; i < ROWS; i++) {
        ck_assert_int_eq(rows[i].err, MC_ERR_TRANSFER_FAIL);
        ck_assert(rows[i].local_ended);
    }
    ck_assert_int_le(atomic_load(&fake.accepted), 8);
    fake_close(&fake);
}
END_TEST

static void serve_well(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    (void)fake;
    while (fake_request(fd, &request)) {
        struct mci_tcp_answer answer = right_answer(&request);
        fake_say(fd, &answer);
        fake_data(fd, request.op == MCI_TCP_READ ? request.len : 0);
    }
}

static void serve_reset_once(struct fake *fake, int fd)
{
    if (atomic_load(&fake->accepted) == 1) {
        serve_resets(fake, fd);
    } else {
        serve_well(fake, fd);
    }
}

START_TEST(test_one_reset_is_made_up_for)
{
    static uint8_t bytes[LEN];
    const struct mc_span span = {bytes, LEN};
    struct fake fake;
    bool is_write = _i > 0;
    fake_open(&fake, serve_reset_once);
    struct mc_transfer_row row = fake_row(&fake, is_write, &span);
    row.is_final = _i == 2;
    ck_assert_int_eq(mc_transfer_run(fake.peer, &row, 1, tcp_rig_soon()),
                     MC_OK);
    ck_assert_int_eq(atomic_load(&fake.accepted), 2);
    ck_assert_uint_eq(row.bytes, LEN);
    /* What the first connection carried may still land, unless there is a
     * receipt. */
    ck_assert(row.remote_ended == (_i != 1));
    ck_assert_uint_eq(row.receipt, _i == 2 ? 5 : 0);
    fake_close(&fake);
}
END_TEST

/* Serves one request a connection and closes it then, idle as it is. */
static void serve_one(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    (void)fake;
    if (fake_request(fd, &request)) {
        struct mci_tcp_answer answer = right_answer(&request);
        fake_say(fd, &answer);
        fake_data(fd, request.op == MCI_TCP_READ ? request.len : 0);
    }
}

START_TEST(test_a_connection_that_died_idle_costs_nothing)
{
    static uint8_t bytes[LEN];
    const struct mc_span span = {bytes, LEN};
    struct fake fake;
    fake_open(&fake, serve_one);
    for (int i = 0; i < 20; i++) {
        struct mc_transfer_row row = fake_row(&fake, i % 2 == 0, &span);
        ck_assert_int_eq(mc_transfer_run(fake.peer, &row, 1, tcp_rig_soon()),
                         MC_OK);
    }
    fake_close(&fake);
}
END_TEST

/* ---- standing still ----------------------------------------------------------------- */

/* Takes requests until it has `is_let_go`, then reads all that comes. */
static void serve_stall(struct fake *fake, int fd)
{
    static uint8_t bytes[1 << 16];
    stall(fake);
    while (recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
}

static void serve_stall_in_data(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    if (fake_request(fd, &request)) {
        struct mci_tcp_answer answer = right_answer(&request);
        fake_say(fd, &answer);
        fake_data(fd, request.len / 2);
        stall(fake);
        fake_data(fd, request.len);
    }
}

#define SOON_NS (200 * MCI_NS_PER_MS)

/* The caller takes its memory away; whoever touched it then would crash. */
START_TEST(test_a_stalled_owner_costs_the_deadline_and_no_byte_later)
{
    struct fake fake;
    struct fenced fenced;
    bool is_write = _i < 2;
    fenced_make(&fenced);
    fake_open(&fake, is_write ? serve_stall : serve_stall_in_data);
    struct mc_transfer_row row = fake_row(&fake, is_write, &fenced.span);
    row.is_final = _i == 1;
    uint64_t began_ns = mci_clock_ns();
    ck_assert_int_eq(mc_transfer_run(fake.peer, &row, 1, began_ns + SOON_NS),
                     MC_ERR_TRANSFER_FAIL);
    uint64_t spent_ns = mci_clock_ns() - began_ns;
    fenced_lock(&fenced);
    ck_assert_uint_ge(spent_ns, SOON_NS);
    ck_assert_uint_lt(spent_ns, SOON_NS + 5 * MCI_NS_PER_S);
    ck_assert_int_eq(row.err, MC_ERR_TRANSFER_FAIL);
    ck_assert(row.local_ended);
    ck_assert(row.remote_ended == !is_write);
    struct mc_transfer_stats stats;
    mc_transfer_stat(fake.peer, &stats);
    ck_assert_uint_eq(stats.connections, 0);
    fake_close(&fake);
    fenced_free(&fenced);
}
END_TEST

START_TEST(test_a_stalled_owner_does_not_hold_up_another)
{
    static uint8_t bytes[2][LEN];
    struct mc_span spans[2] = {{bytes[0], LEN}, {bytes[1], LEN}};
    struct fake slow;
    struct fake good;
    struct mc_transfer_row rows[2];
    fake_open(&slow, serve_stall);
    fake_open(&good, serve_well);
    struct mc_target *target = fake_target(slow.peer, good.port);
    rows[0] = fake_row(&slow, true, &spans[0]);
    rows[1] = fake_row(&slow, true, &spans[1]);
    rows[1].target = target;
    ck_assert_int_eq(
        mc_transfer_run(slow.peer, rows, 2, mci_clock_ns() + SOON_NS),
        MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rows[0].err, MC_ERR_TRANSFER_FAIL);
    ck_assert(!rows[0].remote_ended);
    ck_assert_int_eq(rows[1].err, MC_OK);
    ck_assert(rows[1].remote_ended);
    mc_target_close(target);
    fake_close(&slow);
    fake_close(&good);
}
END_TEST

START_TEST(test_a_canceled_batch_does_not_wait_for_its_deadline)
{
    static uint8_t bytes[LEN];
    const struct mc_span span = {bytes, LEN};
    struct fake fake;
    struct mc_transfer_batch *batch = NULL;
    fake_open(&fake, serve_stall);
    struct mc_transfer_row row = fake_row(&fake, true, &span);
    uint64_t began_ns = mci_clock_ns();
    ck_assert_int_eq(mc_transfer_submit(fake.peer, &row, 1,
                                        began_ns + 100 * MCI_NS_PER_S, NULL,
                                        &batch),
                     MC_OK);
    ck_assert(AWAIT(atomic_load(&fake.accepted) == 1));
    mc_transfer_cancel(batch);
    ck_assert_int_eq(mc_transfer_wait(batch), MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_lt(mci_clock_ns() - began_ns, 20 * MCI_NS_PER_S);
    ck_assert(row.local_ended && !row.remote_ended);
    fake_close(&fake);
}
END_TEST

START_TEST(test_nobody_there_fails_with_both_ends_over)
{
    static uint8_t bytes[LEN];
    const struct mc_span span = {bytes, LEN};
    struct fake fake;
    fake_open(&fake, serve_well);
    fake_stop(&fake);
    struct mc_transfer_row row = fake_row(&fake, true, &span);
    ck_assert_int_eq(mc_transfer_run(fake.peer, &row, 1, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert(row.local_ended && row.remote_ended);
    fake_listen(&fake); /* another port: as good as somebody else */
    mc_target_close(fake.target);
    fake.target = fake_target(fake.peer, fake.port);
    row = fake_row(&fake, true, &span);
    ck_assert_int_eq(mc_transfer_run(fake.peer, &row, 1, tcp_rig_soon()),
                     MC_OK);
    fake_close(&fake);
}
END_TEST

/* A listener whose backlog is full answers nobody, like a host that is not
 * there. */
START_TEST(test_an_owner_that_cannot_be_reached_costs_the_deadline)
{
    static uint8_t bytes[LEN];
    const struct mc_span span = {bytes, LEN};
    const struct mci_listen_opts opts = {.host = "127.0.0.1", .backlog = 1};
    const char *why = "";
    struct fake fake;
    int listener = -1;
    int fillers[4];
    uint16_t port = 0;
    fake_open(&fake, serve_well);
    ck_assert_int_eq(mci_address_listen(&opts, &listener, &port, &why), MC_OK);
    const struct mci_address address = {.host = "127.0.0.1", .port = port};
    for (int i = 0; i < 4; i++) {
        fillers[i] = -1;
        (void)!mci_address_connect(&address, mci_clock_ns() + SOON_NS / 4,
                                   &fillers[i], &why);
    }
    struct mc_target *target = fake_target(fake.peer, port);
    struct mc_transfer_row rows[2];
    rows[0] = fake_row(&fake, true, &span);
    rows[0].target = target;
    rows[1] = fake_row(&fake, true, &span);
    uint64_t began_ns = mci_clock_ns();
    ck_assert_int_eq(mc_transfer_run(fake.peer, rows, 2, began_ns + SOON_NS),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_lt(mci_clock_ns() - began_ns, SOON_NS + 5 * MCI_NS_PER_S);
    ck_assert_int_eq(rows[0].err, MC_ERR_TRANSFER_FAIL);
    ck_assert(rows[0].local_ended && rows[0].remote_ended);
    ck_assert_int_eq(rows[1].err, MC_OK);
    mc_target_close(target);
    fake_close(&fake);
    (void)close(listener);
    for (int i = 0; i < 4; i++) {
        if (fillers[i] >= 0) {
            (void)close(fillers[i]);
        }
    }
}
END_TEST

/* ---- grants that are renewed ----------------------------------------------------------- */

static _Atomic uint64_t renewals;

static struct mc_grant renew(void *ctx)
{
    (void)ctx;
    return (struct mc_grant){.deadline_ns = atomic_fetch_add(&renewals, 1)};
}

static _Atomic uint64_t last_deadline;

static void serve_and_note(struct fake *fake, int fd)
{
    struct mci_tcp_request request;
    (void)fake;
    while (fake_request(fd, &request)) {
        struct mci_tcp_answer answer = right_answer(&request);
        atomic_store(&last_deadline, request.grant.deadline_ns);
        fake_say(fd, &answer);
    }
}

START_TEST(test_each_piece_of_a_large_row_has_the_grant_of_its_moment)
{
    static uint8_t bytes[1 << 20];
    struct mc_span spans[20];
    const struct mc_grant_source source = {.get = renew};
    struct fake fake;
    fake_open(&fake, serve_and_note);
    for (int i = 0; i < 20; i++) {
        spans[i] = (struct mc_span){bytes, sizeof bytes};
    }
    struct mc_span all = {bytes, 20 * sizeof bytes};
    struct mc_transfer_row row = fake_row(&fake, true, &all);
    row.spans = spans;
    row.span_count = 20;
    row.source = &source;
    atomic_store(&renewals, 100);
    ck_assert_int_eq(mc_transfer_run(fake.peer, &row, 1, tcp_rig_soon()),
                     MC_OK);
    ck_assert_uint_ge(atomic_load(&last_deadline), 104);
    fake_close(&fake);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp_peer");
    TCase *tcase = tcase_create("peer");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_a_lying_owner_is_not_believed, 0, 2 * LIES);
    tcase_add_loop_test(
        tcase, test_an_owner_that_goes_away_again_and_again_is_given_up, 0, 3);
    tcase_add_loop_test(tcase, test_one_reset_is_made_up_for, 0, 3);
    tcase_add_test(tcase, test_what_an_owner_refuses_with_comes_back);
    tcase_add_loop_test(
        tcase, test_an_owner_without_memory_for_a_connection_is_heard, 0, 2);
    tcase_add_test(tcase, test_a_connection_that_died_idle_costs_nothing);
    tcase_add_loop_test(
        tcase, test_a_stalled_owner_costs_the_deadline_and_no_byte_later, 0, 3);
    tcase_add_test(tcase, test_a_stalled_owner_does_not_hold_up_another);
    tcase_add_test(tcase, test_a_canceled_batch_does_not_wait_for_its_deadline);
    tcase_add_test(tcase, test_nobody_there_fails_with_both_ends_over);
    tcase_add_test(tcase,
                   test_an_owner_that_cannot_be_reached_costs_the_deadline);
    tcase_add_test(tcase,
                   test_each_piece_of_a_large_row_has_the_grant_of_its_moment);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
