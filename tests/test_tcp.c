/* SPDX-License-Identifier: Apache-2.0 */
/* Rows over tcp, as their callers see them. */
#include <stdio.h>
#include <sys/mman.h>

#include "alloc_fail.h"
#include "suite.h"
#include "tcp_rig.h"

#define MB ((size_t)1 << 20)

static void expect_ok(const struct mc_transfer_row *row, uint64_t len)
{
    ck_assert_int_eq(row->err, MC_OK);
    ck_assert_uint_eq(row->bytes, len);
    ck_assert(row->local_ended && row->remote_ended);
    ck_assert_int_eq(row->transport, MC_TRANSPORT_TCP);
}

START_TEST(test_bytes_arrive_as_they_left_in_rows_of_all_sizes)
{
    static const size_t sizes[] = {1,      39,     40,         4096,      8191,
                                   8192,   8193,   65536,      MB - 1,    MB,
                                   MB + 1, 4 * MB, 4 * MB + 1, 9 * MB + 7};
    struct tcp_rig rig;
    uint8_t *out = malloc(16 * MB);
    uint8_t *in = malloc(16 * MB);
    tcp_rig_open(&rig, 16 * MB);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct mc_span from = {out, sizes[i]};
        struct mc_span to = {in, sizes[i]};
        tcp_rig_fill(out, sizes[i], (unsigned)i);
        memset(in, 0, sizes[i]);
        struct mc_transfer_row row = tcp_rig_row(&rig, true, 3 * i, &from);
        row.is_final = true;
        ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()),
                         MC_OK);
        expect_ok(&row, sizes[i]);
        ck_assert_uint_eq(row.receipt, tcp_rig_receipt(&rig, rig.attempt));
        ck_assert(memcmp(rig.memory + 3 * i, out, sizes[i]) == 0);
        row = tcp_rig_row(&rig, false, 3 * i, &to);
        ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()),
                         MC_OK);
        expect_ok(&row, sizes[i]);
        ck_assert_uint_eq(row.receipt, 0);
        ck_assert(memcmp(in, out, sizes[i]) == 0);
    }
    struct mc_transfer_stats stats;
    mc_transfer_stat(rig.peer, &stats);
    ck_assert_uint_eq(stats.connects, 1);
    tcp_rig_close(&rig);
    free(in);
    free(out);
}
END_TEST

#define MANY 700

/* Rows of many spans of odd lengths, some of none, reads and writes mixed. */
START_TEST(test_many_rows_of_many_spans_go_at_once)
{
    static struct mc_span spans[MANY][40];
    static struct mc_transfer_row rows[MANY];
    struct tcp_rig rig;
    uint8_t *local = malloc(16 * MB);
    uint8_t *before = malloc(16 * MB);
    tcp_rig_open(&rig, 16 * MB);
    tcp_rig_fill(rig.memory, rig.bytes, 1);
    memcpy(before, rig.memory, rig.bytes);
    tcp_rig_fill(local, 16 * MB, 2);
    size_t at = 0;
    for (size_t i = 0; i < MANY; i++) {
        size_t len = 0;
        size_t start = at;
        for (size_t j = 0; j < 40; j++) {
            size_t part = j % 7 == 3 ? 0 : (i * 31 + j * 17) % 997;
            spans[i][j] = (struct mc_span){local + start + len, part};
            len += part;
        }
        struct mc_span all = {local + start, len};
        rows[i] = tcp_rig_row(&rig, i % 3 == 0, start, &all);
        rows[i].spans = spans[i];
        rows[i].span_count = 40;
        at += len;
    }
    ck_assert_uint_lt(at, 16 * MB);
    ck_assert_int_eq(mc_transfer_run(rig.peer, rows, MANY, tcp_rig_soon()),
                     MC_OK);
    ck_assert_int_eq(memcmp(local, rig.memory, at), 0);
    for (size_t i = 0; i < MANY; i++) {
        uint64_t start = rows[i].offset;
        expect_ok(&rows[i], rows[i].terms.len);
        bool is_old =
            rows[i].terms.len == 0 ||
            memcmp(rig.memory + start, before + start, rows[i].terms.len) == 0;
        ck_assert(is_old == !rows[i].terms.is_write || rows[i].terms.len == 0);
    }
    tcp_rig_close(&rig);
    free(before);
    free(local);
}
END_TEST

START_TEST(test_an_object_above_4_gib_is_moved_whole)
{
    const size_t bytes = ((size_t)4 << 30) + 12345;
    const struct mc_transfer_opts opts = tcp_rig_opts();
    struct tcp_rig rig = {.bytes = bytes};
    struct mc_transfer_row row;
    int prot = PROT_READ | PROT_WRITE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    rig.memory = mmap(NULL, bytes, prot, flags, -1, 0);
    uint8_t *window = mmap(NULL, 64 * MB, prot, flags, -1, 0);
    ck_assert(rig.memory != MAP_FAILED && window != MAP_FAILED);
    ck_assert_int_eq(mc_transfer_open(&opts, &rig.owner), MC_OK);
    ck_assert_int_eq(mc_transfer_open(&opts, &rig.peer), MC_OK);
    const struct mc_exposure_opts exposure = {
        .base = rig.memory, .bytes = bytes, .fd = -1};
    ck_assert_int_eq(mc_transfer_expose(rig.owner, &exposure, &rig.exposure),
                     MC_OK);
    const struct mc_target_opts target = {.registration =
                                              rig.exposure.registration,
                                          .bytes = bytes,
                                          .endpoint = rig.exposure.endpoint};
    ck_assert_int_eq(mc_target_open(rig.peer, &target, &rig.target), MC_OK);
    /* The last span holds the bytes past 4 GiB; all others lie on each other,
     * and pages that nobody wrote cost the owner nothing. */
    tcp_rig_fill(rig.memory + bytes - 12345, 12345, 3);
    static struct mc_span spans[65];
    for (size_t i = 0; i < 64; i++) {
        spans[i] = (struct mc_span){window, 64 * MB};
    }
    uint8_t end[12345];
    spans[64] = (struct mc_span){end, sizeof end};
    struct mc_span all = {window, bytes};
    row = tcp_rig_row(&rig, false, 0, &all);
    row.spans = spans;
    row.span_count = 65;
    row.grant.deadline_ns += 200 * MCI_NS_PER_S;
    row.grant.tag =
        mc_grant_tag(rig.exposure.key, &row.terms, row.grant.deadline_ns);
    ck_assert_int_eq(
        mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon() + 200 * MCI_NS_PER_S),
        MC_OK);
    expect_ok(&row, bytes);
    ck_assert_int_eq(memcmp(end, rig.memory + bytes - sizeof end, sizeof end),
                     0);
    mc_target_close(rig.target);
    mc_transfer_close(rig.peer);
    mc_transfer_close(rig.owner);
    (void)munmap(rig.memory, bytes);
    (void)munmap(window, 64 * MB);
}
END_TEST

START_TEST(test_rows_that_are_refused_leave_the_others_alone)
{
    struct tcp_rig rig;
    uint8_t bytes[6][5000];
    struct mc_span spans[6];
    struct mc_transfer_row rows[6];
    tcp_rig_open(&rig, MB);
    memset(bytes, 7, sizeof bytes);
    for (size_t i = 0; i < 6; i++) {
        spans[i] = (struct mc_span){bytes[i], sizeof bytes[i]};
        rows[i] = tcp_rig_row(&rig, i % 2 == 0, 5000 * i, &spans[i]);
    }
    rows[0].grant.tag ^= 1;
    rows[1].grant.deadline_ns = 1;
    rows[1].grant.tag = mc_grant_tag(rig.exposure.key, &rows[1].terms, 1);
    rows[3].terms.incarnation++;
    rows[4].grant.deadline_ns = 1;
    rows[4].grant.tag = mc_grant_tag(rig.exposure.key, &rows[4].terms, 1);
    ck_assert_int_eq(mc_transfer_run(rig.peer, rows, 6, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rows[0].err, MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rows[1].err, MC_ERR_LEASE_EXPIRED);
    expect_ok(&rows[2], 5000);
    ck_assert_int_eq(rows[3].err, MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rows[4].err, MC_ERR_TRANSFER_FAIL);
    expect_ok(&rows[5], 5000);
    for (size_t i = 0; i < 6; i++) {
        ck_assert(rows[i].local_ended);
        /* A write that was sent and has no receipt is never sure. */
        ck_assert(rows[i].remote_ended == (i != 0 && i != 4));
    }
    for (size_t i = 0; i < MB; i++) {
        ck_assert_int_eq(rig.memory[i], i >= 10000 && i < 15000 ? 7 : 0);
    }
    struct mc_transfer_stats stats;
    mc_transfer_stat(rig.owner, &stats);
    ck_assert_uint_eq(stats.refused_requests, 4);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_a_seal_brings_receipts_and_closes_the_attempts)
{
    struct tcp_rig rig;
    uint8_t bytes[100] = {1};
    struct mc_span span = {bytes, sizeof bytes};
    struct mc_transfer_row rows[3];
    tcp_rig_open(&rig, MB);
    for (size_t i = 0; i < 3; i++) {
        rows[i] = tcp_rig_row(&rig, true, 0, &span);
    }
    rows[1].grant.tag++;
    rows[2].grant.deadline_ns = 5;
    rows[2].grant.tag = mc_grant_tag(rig.exposure.key, &rows[2].terms, 5);
    ck_assert_int_eq(mc_transfer_seal(rig.peer, rows, 3, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rows[0].err, MC_OK);
    ck_assert_uint_eq(rows[0].receipt, tcp_rig_receipt(&rig, 1));
    ck_assert(rows[0].remote_ended);
    ck_assert_int_eq(rows[1].err, MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_eq(rows[1].receipt, 0);
    ck_assert(!rows[1].remote_ended);
    ck_assert_uint_eq(rows[2].receipt, tcp_rig_receipt(&rig, 3));
    ck_assert_int_eq(mc_transfer_seal(rig.peer, rows, 1, tcp_rig_soon()),
                     MC_OK);
    ck_assert_uint_eq(rows[0].receipt, tcp_rig_receipt(&rig, 1));
    rows[0].is_final = true;
    ck_assert_int_eq(mc_transfer_run(rig.peer, rows, 1, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rig.memory[0], 0);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_a_probe_tells_live_from_unknown_from_dead)
{
    struct tcp_rig rig;
    struct mc_target *unknown = NULL;
    tcp_rig_open(&rig, MB);
    const struct mc_target_opts opts = {.registration =
                                            rig.exposure.registration + 1,
                                        .bytes = MB,
                                        .endpoint = rig.exposure.endpoint};
    ck_assert_int_eq(mc_target_open(rig.peer, &opts, &unknown), MC_OK);
    ck_assert_int_eq(mc_target_probe(rig.target, tcp_rig_soon()), MC_OK);
    ck_assert_int_eq(mc_target_probe(unknown, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    mc_transfer_conceal(rig.owner, rig.exposure.registration);
    ck_assert_int_eq(mc_target_probe(rig.target, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    mc_transfer_close(rig.owner);
    rig.owner = NULL;
    ck_assert_int_eq(mc_target_probe(rig.target, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    mc_target_close(unknown);
    tcp_rig_close(&rig);
}
END_TEST

/* Its connections are dead; that is noticed, and the next row goes. */
START_TEST(test_a_restarted_owner_is_reached_at_once)
{
    struct tcp_rig rig;
    struct mc_transfer_opts opts = tcp_rig_opts();
    uint8_t bytes[3000];
    struct mc_span span = {bytes, sizeof bytes};
    tcp_rig_open(&rig, MB);
    struct mc_transfer_row row = tcp_rig_row(&rig, false, 0, &span);
    ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()), MC_OK);
    struct mci_address address;
    ck_assert_int_eq(mci_address_parse(rig.exposure.endpoint, &address), MC_OK);
    opts.port = address.port;
    mc_transfer_close(rig.owner);
    ck_assert_int_eq(mc_transfer_open(&opts, &rig.owner), MC_OK);
    const struct mc_exposure_opts exposure = {
        .base = rig.memory, .bytes = MB, .fd = -1};
    ck_assert_int_eq(mc_transfer_expose(rig.owner, &exposure, &rig.exposure),
                     MC_OK);
    /* The old registration is gone, whatever lies there now. */
    ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    mc_target_close(rig.target);
    const struct mc_target_opts target = {.registration =
                                              rig.exposure.registration,
                                          .bytes = MB,
                                          .endpoint = rig.exposure.endpoint};
    ck_assert_int_eq(mc_target_open(rig.peer, &target, &rig.target), MC_OK);
    row = tcp_rig_row(&rig, false, 0, &span);
    ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()), MC_OK);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_rows_fail_without_memory_and_nothing_is_lost)
{
    struct tcp_rig rig;
    struct alloc_fail fail;
    uint8_t bytes[3000];
    struct mc_span span = {bytes, sizeof bytes};
    tcp_rig_open(&rig, MB);
    struct mc_transfer_row row = tcp_rig_row(&rig, false, 0, &span);
    ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()), MC_OK);
    fail.is_shared = true;
    ALLOC_FAIL_EACH(fail)
    {
        row = tcp_rig_row(&rig, true, 0, &span);
        fail.is_shared = true;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon());
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(row.err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        ck_assert_int_eq(err, row.err ? MC_ERR_TRANSFER_FAIL : MC_OK);
        ck_assert(row.local_ended && row.remote_ended);
    }
    tcp_rig_close(&rig);
}
END_TEST

#define CROWD 24
#define CROWD_OPS 60

struct crowd {
    struct tcp_rig *rig;
    _Atomic uint64_t *attempts;
    size_t place;
    bool is_good;
};

static void *crowd_run(void *arg)
{
    struct crowd *crowd = arg;
    struct tcp_rig own = *crowd->rig;
    uint8_t out[9000];
    uint8_t in[9000];
    crowd->is_good = true;
    for (unsigned i = 0; i < CROWD_OPS && crowd->is_good; i++) {
        /* Each time another place: what is sent is seen by ThreadSanitizer
         * after it has gone, so next to whatever came since. */
        size_t place = (crowd->place + (size_t)i * CROWD) * sizeof out;
        struct mc_span span = {out, sizeof out};
        tcp_rig_fill(out, sizeof out, i * 100 + (unsigned)crowd->place);
        own.attempt = atomic_fetch_add(crowd->attempts, 1);
        struct mc_transfer_row row = tcp_rig_row(&own, true, place, &span);
        row.is_final = true;
        crowd->is_good =
            mc_transfer_run(own.peer, &row, 1, tcp_rig_soon()) == MC_OK;
        span.data = in;
        row = tcp_rig_row(&own, false, place, &span);
        crowd->is_good =
            crowd->is_good &&
            mc_transfer_run(own.peer, &row, 1, tcp_rig_soon()) == MC_OK &&
            memcmp(in, out, sizeof in) == 0;
    }
    return NULL;
}

START_TEST(test_a_crowd_shares_a_bounded_number_of_connections)
{
    struct tcp_rig rig;
    struct mc_transfer_opts opts = tcp_rig_opts();
    struct crowd crowd[CROWD];
    pthread_t threads[CROWD];
    _Atomic uint64_t attempts = 1;
    opts.connections_per_peer = 1; /* so that there are 16 at most */
    tcp_rig_open_as(&rig, 13 * MB, &opts);
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] =
            (struct crowd){.rig = &rig, .attempts = &attempts, .place = i};
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, crowd_run, &crowd[i]), 0);
    }
    for (size_t i = 0; i < CROWD; i++) {
        (void)pthread_join(threads[i], NULL);
        ck_assert(crowd[i].is_good);
    }
    struct mc_transfer_stats stats;
    mc_transfer_stat(rig.peer, &stats);
    ck_assert_uint_le(stats.connections, 1);
    mc_transfer_stat(rig.owner, &stats);
    ck_assert_uint_le(stats.connections, 16);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_an_owner_is_reached_by_ipv6_too)
{
    struct tcp_rig rig;
    struct mc_transfer_opts opts = tcp_rig_opts();
    uint8_t bytes[3000];
    struct mc_span span = {bytes, sizeof bytes};
    opts.bind_address = "::1";
    opts.host = "::1";
    tcp_rig_open_as(&rig, MB, &opts);
    ck_assert_int_eq(strncmp(rig.exposure.endpoint, "[::1]:", 6), 0);
    struct mc_transfer_row row = tcp_rig_row(&rig, true, 0, &span);
    ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()), MC_OK);
    tcp_rig_close(&rig);
}
END_TEST

START_TEST(test_rows_go_over_tls_and_nothing_else_does)
{
    char home[] = "/tmp/mckv-tcp-XXXXXX";
    char files[3][64];
    static const char *const names[3] = {"cert", "key", "ca"};
    struct tcp_rig rig;
    struct mc_transfer *plain = NULL;
    struct mc_target *target = NULL;
    uint8_t *bytes = malloc(5 * MB);
    struct mc_span span = {bytes, 5 * MB};
    ck_assert_ptr_nonnull(mkdtemp(home));
    ck_assert_int_eq(mc_tls_make_trial(home, "127.0.0.1", 2), MC_OK);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(files[i], sizeof files[i], "%s/%s.pem", home, names[i]);
    }
    const struct mc_tls_opts tls = {
        .cert_file = files[0], .key_file = files[1], .ca_file = files[2]};
    struct mc_transfer_opts opts = tcp_rig_opts();
    opts.tls = &tls;
    tcp_rig_open_as(&rig, 6 * MB, &opts);
    tcp_rig_fill(bytes, 5 * MB, 8);
    for (int i = 0; i < 3; i++) {
        struct mc_transfer_row row = tcp_rig_row(&rig, true, 77, &span);
        row.is_final = true;
        ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()),
                         MC_OK);
        ck_assert_uint_eq(row.receipt, tcp_rig_receipt(&rig, rig.attempt));
        ck_assert(memcmp(rig.memory + 77, bytes, 5 * MB) == 0);
        memset(bytes, 0, 5 * MB);
        row = tcp_rig_row(&rig, false, 77, &span);
        ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()),
                         MC_OK);
        ck_assert(memcmp(rig.memory + 77, bytes, 5 * MB) == 0);
    }
    struct mc_transfer_stats stats;
    mc_transfer_stat(rig.peer, &stats);
    ck_assert_uint_eq(stats.connects, 1);
    opts.tls = NULL;
    ck_assert_int_eq(mc_transfer_open(&opts, &plain), MC_OK);
    const struct mc_target_opts to = {.registration = rig.exposure.registration,
                                      .bytes = 6 * MB,
                                      .endpoint = rig.exposure.endpoint};
    ck_assert_int_eq(mc_target_open(plain, &to, &target), MC_OK);
    ck_assert_int_eq(mc_target_probe(target, tcp_rig_soon()),
                     MC_ERR_TRANSFER_FAIL);
    mc_target_close(target);
    mc_transfer_close(plain);
    tcp_rig_close(&rig);
    for (int i = 0; i < 3; i++) {
        (void)unlink(files[i]);
    }
    (void)rmdir(home);
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_bytes_arrive_as_they_left_in_rows_of_all_sizes);
    tcase_add_test(tcase, test_many_rows_of_many_spans_go_at_once);
    tcase_add_test(tcase, test_an_object_above_4_gib_is_moved_whole);
    tcase_add_test(tcase, test_rows_that_are_refused_leave_the_others_alone);
    tcase_add_test(tcase, test_a_seal_brings_receipts_and_closes_the_attempts);
    tcase_add_test(tcase, test_a_probe_tells_live_from_unknown_from_dead);
    tcase_add_test(tcase, test_a_restarted_owner_is_reached_at_once);
    tcase_add_test(tcase, test_rows_fail_without_memory_and_nothing_is_lost);
    tcase_add_test(tcase, test_a_crowd_shares_a_bounded_number_of_connections);
    tcase_add_test(tcase, test_an_owner_is_reached_by_ipv6_too);
    tcase_add_test(tcase, test_rows_go_over_tls_and_nothing_else_does);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
