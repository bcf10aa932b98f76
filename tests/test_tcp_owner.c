/* SPDX-License-Identifier: Apache-2.0 */
/* What an owner does with peers that no peer of ours would be: each rule of who
 * may touch memory as the interleaving that would break it. */
#include "suite.h"
#include "tcp_rig.h"
#include "tcp_server.h"

#define MB ((size_t)1 << 20)
#define HALF 40000
#define WHOLE 80000

static bool are_all(const uint8_t *bytes, size_t len, uint8_t value)
{
    size_t i = 0;
    while (i < len && bytes[i] == value) {
        i++;
    }
    return i == len;
}

/* A connection that has sent the first half of a write, which has landed. */
struct half {
    int fd;
    struct mc_transfer_row row;
    uint8_t bytes[WHOLE];
    struct mc_span span;
};

static void half_open(struct tcp_rig *rig, struct half *half)
{
    half->fd = raw_connect(rig);
    memset(half->bytes, 0xAA, sizeof half->bytes);
    half->span = (struct mc_span){half->bytes, sizeof half->bytes};
    half->row = tcp_rig_row(rig, true, 1000, &half->span);
}

/* Looks whether bytes are there, which is no race that anybody relies on. */
__attribute__((no_sanitize("thread"))) static uint8_t peek(const uint8_t *at)
{
    return *(const volatile uint8_t *)at;
}

static void half_begin(struct tcp_rig *rig, struct half *half)
{
    const struct mci_tcp_request request =
        raw_request(&half->row, MCI_TCP_WRITE, 1);
    const uint8_t *last = rig->memory + 1000 + HALF - 1;
    raw_ask(half->fd, &request);
    ck_assert(raw_send(half->fd, half->bytes, HALF));
    ck_assert(AWAIT(peek(last) == 0xAA));
}

/* The memory is somebody else's now, and stays so whatever the writer sends. */
static void half_is_cut_off(struct tcp_rig *rig, struct half *half)
{
    memset(rig->memory, 0x55, rig->bytes);
    (void)raw_send(half->fd, half->bytes + HALF, WHOLE - HALF);
    ck_assert(raw_is_closed(half->fd));
    (void)close(half->fd);
    ck_assert(are_all(rig->memory, rig->bytes, 0x55));
}

/* Its connection is closed at this moment, not only when it goes on. */
static bool is_closed_now(const struct half *half)
{
    uint8_t byte;
    ssize_t got = recv(half->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

static const struct mc_fence attempt_fence = {
    .number = 1, .kind = MC_FENCE_ATTEMPT, .subject = 1};
static const struct mc_fence incarnation_fence = {
    .number = 1, .kind = MC_FENCE_INCARNATION, .subject = TCP_RIG_INCARNATION};

static void fence(struct tcp_rig *rig, const struct mc_fence *what)
{
    size_t stuck = 7;
    ck_assert_int_eq(mc_transfer_fence(rig->owner, what, 1, NULL, 0, &stuck),
                     MC_OK);
    ck_assert_uint_eq(stuck, 0);
}

START_TEST(test_after_a_fence_nothing_of_a_write_lands)
{
    struct tcp_rig rig;
    struct half half;
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    half_begin(&rig, &half);
    fence(&rig, _i == 0 ? &attempt_fence : &incarnation_fence);
    ck_assert(is_closed_now(&half));
    half_is_cut_off(&rig, &half);
    /* And no new request of it is let in. */
    int fd = raw_connect(&rig);
    struct mci_tcp_request request = raw_request(&half.row, MCI_TCP_WRITE, 1);
    raw_ask(fd, &request);
    ck_assert(raw_send(fd, half.bytes, WHOLE));
    ck_assert_int_eq(raw_answer(fd).code, MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(rig.memory[1000], 0x55);
    (void)close(fd);
    tcp_rig_close(&rig);
}
END_TEST

static const struct mc_fence other_fence = {
    .number = 1, .kind = MC_FENCE_ATTEMPT, .subject = 99};

START_TEST(test_a_fence_leaves_other_writes_alone)
{
    struct tcp_rig rig;
    struct half half;
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    half_begin(&rig, &half);
    fence(&rig, &other_fence);
    ck_assert(raw_send(half.fd, half.bytes + HALF, WHOLE - HALF));
    ck_assert_int_eq(raw_answer(half.fd).code, MC_OK);
    ck_assert(memcmp(rig.memory + 1000, half.bytes, WHOLE) == 0);
    (void)close(half.fd);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_after_conceal_nothing_of_a_write_lands)
{
    struct tcp_rig rig;
    struct half half;
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    half_begin(&rig, &half);
    mc_transfer_conceal(rig.owner, rig.exposure.registration);
    ck_assert(is_closed_now(&half));
    half_is_cut_off(&rig, &half);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_after_its_deadline_nothing_of_a_write_lands)
{
    struct tcp_rig rig;
    struct half half;
    uint64_t now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    half_begin(&rig, &half);
    fence(&rig, &other_fence); /* so that its thread is through with the half */
    __atomic_store_n(&now_ns, half.row.grant.deadline_ns, __ATOMIC_RELEASE);
    half_is_cut_off(&rig, &half);
    mci_clock_fake(NULL);
    tcp_rig_close(&rig);
}
END_TEST

/* Whoever asks for the receipt, on whichever thread the other one is. */
START_TEST(test_a_receipt_means_that_nobody_else_is_inside)
{
    struct tcp_rig rig;
    struct half half;
    struct mc_transfer_opts opts = tcp_rig_opts();
    opts.server_threads = 1 + (uint32_t)_i % 2;
    tcp_rig_open_as(&rig, MB, &opts);
    half_open(&rig, &half);
    half_begin(&rig, &half);
    int fd = raw_connect(&rig);
    struct mc_transfer_row final = half.row;
    final.is_final = _i < 2;
    struct mci_tcp_request request =
        raw_request(&final, _i < 2 ? MCI_TCP_WRITE : MCI_TCP_SEAL, 1);
    raw_ask(fd, &request);
    if (_i < 2) {
        ck_assert(raw_send(fd, half.bytes, WHOLE));
    }
    struct mci_tcp_answer answer = raw_answer(fd);
    ck_assert_int_eq(answer.code, MC_OK);
    ck_assert_uint_eq(answer.receipt,
                      tcp_rig_receipt(&rig, half.row.terms.subject));
    ck_assert_uint_eq(answer.number, 1);
    ck_assert(is_closed_now(&half));
    half_is_cut_off(&rig, &half);
    /* The connection with the receipt goes on. */
    request.op = MCI_TCP_PROBE;
    request = (struct mci_tcp_request){
        .op = MCI_TCP_PROBE, .number = 2, .terms = half.row.terms};
    request.terms.is_write = false;
    raw_ask(fd, &request);
    ck_assert_int_eq(raw_answer(fd).code, MC_OK);
    (void)close(fd);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_a_late_duplicate_of_a_write_is_refused_after_the_receipt)
{
    struct tcp_rig rig;
    struct half half;
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    half.row.is_final = true;
    struct mci_tcp_request request = raw_request(&half.row, MCI_TCP_WRITE, 1);
    raw_ask(half.fd, &request);
    ck_assert(raw_send(half.fd, half.bytes, WHOLE));
    ck_assert_uint_eq(raw_answer(half.fd).receipt,
                      tcp_rig_receipt(&rig, half.row.terms.subject));
    memset(rig.memory, 0x55, rig.bytes);
    int other = raw_connect(&rig);
    for (uint64_t number = 1; number < 3; number++) {
        int fd = number == 1 ? other : half.fd;
        request.number = number;
        request.is_final = number == 1;
        raw_ask(fd, &request);
        ck_assert(raw_send(fd, half.bytes, WHOLE));
        struct mci_tcp_answer answer = raw_answer(fd);
        ck_assert_int_eq(answer.code, MC_ERR_INVALID_VERSION);
        ck_assert_uint_eq(answer.receipt, 0);
    }
    ck_assert(are_all(rig.memory, rig.bytes, 0x55));
    (void)close(half.fd);
    (void)close(other);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_a_read_past_its_deadline_never_looks_whole)
{
    static uint8_t got[32 << 20];
    struct tcp_rig rig;
    struct mc_span span = {got, sizeof got};
    uint64_t now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    tcp_rig_open(&rig, sizeof got);
    memset(rig.memory, 1, rig.bytes);
    int fd = raw_connect(&rig);
    int small = 65536;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    struct mc_transfer_row row = tcp_rig_row(&rig, false, 0, &span);
    struct mci_tcp_request request = raw_request(&row, MCI_TCP_READ, 1);
    raw_ask(fd, &request);
    ck_assert_int_eq(raw_answer(fd).code, MC_OK);
    size_t len = raw_recv(fd, got, 1000);
    ck_assert_uint_eq(len, 1000);
    __atomic_store_n(&now_ns, row.grant.deadline_ns, __ATOMIC_RELEASE);
    len += raw_recv(fd, got + 1000, sizeof got - 1000);
    ck_assert_uint_lt(len, sizeof got);
    (void)close(fd);
    mci_clock_fake(NULL);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_conceal_ends_reads_that_are_under_way)
{
    static uint8_t got[32 << 20];
    struct tcp_rig rig;
    struct mc_span span = {got, sizeof got};
    tcp_rig_open(&rig, sizeof got);
    memset(rig.memory, 1, rig.bytes);
    int fd = raw_connect(&rig);
    struct mc_transfer_row row = tcp_rig_row(&rig, false, 0, &span);
    struct mci_tcp_request request = raw_request(&row, MCI_TCP_READ, 1);
    raw_ask(fd, &request);
    ck_assert_int_eq(raw_answer(fd).code, MC_OK);
    mc_transfer_conceal(rig.owner, rig.exposure.registration);
    memset(rig.memory, 2, rig.bytes);
    size_t len = raw_recv(fd, got, sizeof got);
    ck_assert_uint_lt(len, sizeof got);
    ck_assert(are_all(got, len, 1));
    (void)close(fd);
    tcp_rig_close(&rig);
}
END_TEST

struct refusal {
    const char *what;
    enum mc_err code;
    void (*spoil)(struct mc_transfer_row *row);
    bool is_signed; /* anew, after that */
};

static void spoil_tag(struct mc_transfer_row *row)
{
    row->grant.tag++;
}
static void spoil_registration(struct mc_transfer_row *row)
{
    row->terms.registration++;
}
static void spoil_incarnation(struct mc_transfer_row *row)
{
    row->terms.incarnation++;
}
static void spoil_attempt(struct mc_transfer_row *row)
{
    row->terms.subject++;
}
static void spoil_len(struct mc_transfer_row *row)
{
    row->terms.len++;
}
static void spoil_offset(struct mc_transfer_row *row)
{
    row->offset++;
}
static void spoil_deadline(struct mc_transfer_row *row)
{
    row->grant.deadline_ns++;
}
static void spoil_age(struct mc_transfer_row *row)
{
    row->grant.deadline_ns = mci_clock_ns();
}
static void spoil_patience(struct mc_transfer_row *row)
{
    row->grant.deadline_ns = mci_clock_ns() + 3600 * MCI_NS_PER_S;
}
static void spoil_end(struct mc_transfer_row *row)
{
    row->terms.offset = MB;
    row->offset = MB;
}

static const struct refusal refusals[] = {
    {"tag", MC_ERR_INVALID_PARAMS, spoil_tag, false},
    {"registration", MC_ERR_SEGMENT_NOT_FOUND, spoil_registration, true},
    {"incarnation", MC_ERR_INVALID_PARAMS, spoil_incarnation, false},
    {"attempt", MC_ERR_INVALID_PARAMS, spoil_attempt, false},
    {"length", MC_ERR_INVALID_PARAMS, spoil_len, false},
    {"past the grant", MC_ERR_INVALID_PARAMS, spoil_offset, true},
    {"deadline", MC_ERR_INVALID_PARAMS, spoil_deadline, false},
    {"too late", MC_ERR_LEASE_EXPIRED, spoil_age, true},
    {"for too long", MC_ERR_INVALID_PARAMS, spoil_patience, true},
    {"past the memory", MC_ERR_INVALID_PARAMS, spoil_end, true},
};

START_TEST(test_what_was_not_granted_is_refused_and_the_stream_goes_on)
{
    struct tcp_rig rig;
    struct half half;
    const struct refusal *refusal = &refusals[_i];
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    struct mc_transfer_row bad = half.row;
    refusal->spoil(&bad);
    if (refusal->is_signed) {
        bad.grant.tag =
            mc_grant_tag(rig.exposure.key, &bad.terms, bad.grant.deadline_ns);
    }
    struct mci_tcp_request request = raw_request(&bad, MCI_TCP_WRITE, 1);
    raw_ask(half.fd, &request);
    ck_assert(raw_send(half.fd, half.bytes, WHOLE));
    ck_assert_msg(raw_answer(half.fd).code == refusal->code, "%s",
                  refusal->what);
    ck_assert(are_all(rig.memory, rig.bytes, 0));
    request = raw_request(&half.row, MCI_TCP_WRITE, 2);
    raw_ask(half.fd, &request);
    ck_assert(raw_send(half.fd, half.bytes, WHOLE));
    ck_assert_int_eq(raw_answer(half.fd).code, MC_OK);
    ck_assert(memcmp(rig.memory + 1000, half.bytes, WHOLE) == 0);
    (void)close(half.fd);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_a_write_grant_does_not_read_nor_the_other_way_round)
{
    struct tcp_rig rig;
    struct half half;
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    struct mci_tcp_request request = raw_request(&half.row, MCI_TCP_READ, 1);
    request.terms.is_write = false;
    raw_ask(half.fd, &request);
    ck_assert_int_eq(raw_answer(half.fd).code, MC_ERR_INVALID_PARAMS);
    struct mc_transfer_row read = tcp_rig_row(&rig, false, 1000, &half.span);
    request = raw_request(&read, MCI_TCP_WRITE, 2);
    request.terms.is_write = true;
    raw_ask(half.fd, &request);
    ck_assert(raw_send(half.fd, half.bytes, WHOLE));
    ck_assert_int_eq(raw_answer(half.fd).code, MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(rig.memory[1000], 0);
    (void)close(half.fd);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_small_requests_in_one_burst_are_answered_in_order)
{
    enum { COUNT = 200, LEN = 100 };
    static uint8_t burst[COUNT * (MCI_TCP_REQUEST_LEN + LEN)];
    struct tcp_rig rig;
    uint8_t bytes[LEN];
    struct mc_span span = {bytes, LEN};
    size_t len = 0;
    tcp_rig_open(&rig, MB);
    tcp_rig_fill(rig.memory, rig.bytes, 5);
    int fd = raw_connect(&rig);
    for (uint64_t i = 0; i < COUNT; i++) {
        bool is_write = i % 5 == 1;
        struct mc_transfer_row row =
            tcp_rig_row(&rig, is_write, (size_t)LEN * i, &span);
        row.is_final = i % 10 == 1;
        struct mci_tcp_request request =
            raw_request(&row, is_write ? MCI_TCP_WRITE : MCI_TCP_READ, i + 1);
        mci_tcp_request_write(&request, burst + len);
        len += MCI_TCP_REQUEST_LEN;
        if (is_write) {
            memset(burst + len, (int)i, LEN);
            len += LEN;
        }
    }
    ck_assert(raw_send(fd, burst, len));
    for (uint64_t i = 0; i < COUNT; i++) {
        struct mci_tcp_answer answer = raw_answer(fd);
        ck_assert_uint_eq(answer.number, i + 1);
        ck_assert_int_eq(answer.code, MC_OK);
        ck_assert(answer.receipt == 0 || i % 10 == 1);
        if (answer.op == MCI_TCP_READ) {
            ck_assert_uint_eq(raw_recv(fd, bytes, LEN), LEN);
            ck_assert(memcmp(bytes, rig.memory + LEN * i, LEN) == 0);
        } else {
            memset(bytes, (int)i, LEN);
            ck_assert(memcmp(bytes, rig.memory + LEN * i, LEN) == 0);
        }
    }
    (void)close(fd);
    tcp_rig_close(&rig);
}
END_TEST

static void send_garbage(int fd)
{
    uint8_t bytes[300];
    memset(bytes, 'x', sizeof bytes);
    (void)raw_send(fd, bytes, sizeof bytes);
}

START_TEST(test_what_is_no_request_ends_the_connection)
{
    struct tcp_rig rig;
    struct half half;
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    struct mci_tcp_request request = raw_request(&half.row, MCI_TCP_WRITE, 7);
    if (_i == 0) {
        send_garbage(half.fd);
    } else {
        raw_ask(half.fd, &request); /* the first one has number 1 */
    }
    ck_assert(raw_is_closed(half.fd));
    (void)close(half.fd);
    struct mc_transfer_row row = tcp_rig_row(&rig, true, 0, &half.span);
    ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()), MC_OK);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_another_version_is_told_so)
{
    struct tcp_rig rig;
    struct half half;
    uint8_t head[MCI_TCP_REQUEST_LEN];
    tcp_rig_open(&rig, MB);
    half_open(&rig, &half);
    const struct mci_tcp_request request =
        raw_request(&half.row, MCI_TCP_SEAL, 1);
    mci_tcp_request_write(&request, head);
    head[4] = 9;
    ck_assert(raw_send(half.fd, head, sizeof head));
    ck_assert_int_eq(raw_answer(half.fd).code, MC_ERR_NOT_SUPPORTED);
    ck_assert(raw_is_closed(half.fd));
    (void)close(half.fd);
    tcp_rig_close(&rig);
}
END_TEST

static uint64_t connections_of(struct mc_transfer *transfer)
{
    struct mc_transfer_stats stats;
    mc_transfer_stat(transfer, &stats);
    return stats.connections;
}

static enum mc_err raw_probe(const struct tcp_rig *rig, int fd, uint64_t number)
{
    const struct mc_transfer_row row = {.terms.registration =
                                            rig->exposure.registration};
    const struct mci_tcp_request request =
        raw_request(&row, MCI_TCP_PROBE, number);
    raw_ask(fd, &request);
    return raw_answer(fd).code;
}

START_TEST(test_half_a_head_or_none_is_not_waited_for_and_an_idle_peer_is)
{
    struct tcp_rig rig;
    uint8_t head[MCI_TCP_REQUEST_LEN] = {'M', 'K', 'R', 'Q', 1, 1};
    uint64_t now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    tcp_rig_open(&rig, MB);
    int idle = raw_connect(&rig);
    int slow = raw_connect(&rig);
    int mute = raw_connect(&rig);
    ck_assert_int_eq(raw_probe(&rig, idle, 1), MC_OK);
    ck_assert(raw_send(slow, head, 20));
    ck_assert(AWAIT(connections_of(rig.owner) == 3));
    /* Time goes in steps, since the bytes must have been seen first; threads look
     * at it once a second. */
    for (int i = 0; i < 2000 && connections_of(rig.owner) > 1; i++) {
        (void)__atomic_add_fetch(&now_ns, MCI_NS_PER_S, __ATOMIC_ACQ_REL);
        ck_assert(connections_of(rig.owner) == 3 || i > 10);
        for (int j = 0; j < 10; j++) {
            await_turn();
        }
    }
    ck_assert(raw_is_closed(slow));
    ck_assert(raw_is_closed(mute));
    ck_assert_int_eq(raw_probe(&rig, idle, 2), MC_OK);
    (void)close(idle);
    (void)close(slow);
    (void)close(mute);
    mci_clock_fake(NULL);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_connections_over_the_bound_are_refused_in_words)
{
    struct tcp_rig rig;
    struct mci_tcp_server *server = NULL;
    int fds[4];
    tcp_rig_open(&rig, MB);
    ck_assert_int_eq(mci_tcp_server_create(rig.owner, &server), MC_OK);
    server->conns_max = 3;
    const struct mci_address address = {.host = "127.0.0.1",
                                        .port = server->port};
    for (int i = 0; i < 4; i++) {
        const char *why = "";
        ck_assert_int_eq(
            mci_address_connect(&address, tcp_rig_soon(), &fds[i], &why),
            MC_OK);
        ck_assert_int_eq(fcntl(fds[i], F_SETFL, 0), 0);
        raw_patience(fds[i]);
        ck_assert(i == 3 ||
                  AWAIT(connections_of(rig.owner) == (uint64_t)i + 1));
    }
    struct mci_tcp_answer answer = raw_answer(fds[3]);
    ck_assert_int_eq(answer.code, MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_uint_eq(answer.number, 0);
    ck_assert(raw_is_closed(fds[3]));
    mci_tcp_server_destroy(server);
    for (int i = 0; i < 4; i++) {
        (void)close(fds[i]);
    }
    tcp_rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp_owner");
    TCase *tcase = tcase_create("owner");
    int refusal_count = (int)(sizeof refusals / sizeof refusals[0]);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_after_a_fence_nothing_of_a_write_lands, 0,
                        2);
    tcase_add_test(tcase, test_a_fence_leaves_other_writes_alone);
    tcase_add_test(tcase, test_after_conceal_nothing_of_a_write_lands);
    tcase_add_test(tcase, test_after_its_deadline_nothing_of_a_write_lands);
    tcase_add_loop_test(tcase, test_a_receipt_means_that_nobody_else_is_inside,
                        0, 4);
    tcase_add_test(
        tcase, test_a_late_duplicate_of_a_write_is_refused_after_the_receipt);
    tcase_add_test(tcase, test_a_read_past_its_deadline_never_looks_whole);
    tcase_add_test(tcase, test_conceal_ends_reads_that_are_under_way);
    tcase_add_loop_test(
        tcase, test_what_was_not_granted_is_refused_and_the_stream_goes_on, 0,
        refusal_count);
    tcase_add_test(tcase,
                   test_a_write_grant_does_not_read_nor_the_other_way_round);
    tcase_add_test(tcase,
                   test_small_requests_in_one_burst_are_answered_in_order);
    tcase_add_loop_test(tcase, test_what_is_no_request_ends_the_connection, 0,
                        2);
    tcase_add_test(tcase, test_another_version_is_told_so);
    tcase_add_test(
        tcase, test_half_a_head_or_none_is_not_waited_for_and_an_idle_peer_is);
    tcase_add_test(tcase, test_connections_over_the_bound_are_refused_in_words);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
