/* SPDX-License-Identifier: Apache-2.0 */
/* test_remote_lease.c - leases with names over the control connection: grants that
 * are made anew with them and end when they do, at the owner's check; and renewals
 * and releases that are repeated, late, or out of order (SAFETY A.1, B.2, C).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mci_clock.h"
#include "peer_rig.h"
#include "suite.h"
#include "transfer_rig.h"

#define SIZE 65536
#define SEGMENT (UINT64_C(1) << 20)
#define LEASE_MS 10000 /* the default */
#define SHORT_MS 300   /* patience with what is held up */

static struct process process;
static struct peer lender;
static struct peer reader;
static struct rig rig;  /* the lender's memory, and a way to it */
static uint64_t now_ns; /* of all, while a test turns it */

static void pass(uint64_t ms)
{
    __atomic_fetch_add(&now_ns, ms * MCI_NS_PER_MS, __ATOMIC_SEQ_CST);
}

/* The lender's segment is memory that an owner checks grants for. */
static void lend(void)
{
    const struct mci_mount mount = {.id = {77, 1},
                                    .registration = rig.exposure.registration,
                                    .bytes = SEGMENT,
                                    .base = 4096,
                                    .name = mc_view_str("lender"),
                                    .endpoint = mc_view_str("127.0.0.1:1"),
                                    .protocol = mc_view_str("tcp")};
    struct mci_mount whole = mount;
    uint32_t segment = 0;
    memcpy(whole.key, rig.exposure.key, sizeof whole.key);
    memcpy(lender.key, rig.exposure.key, sizeof lender.key);
    lender.registration = rig.exposure.registration;
    ck_assert_int_eq(mci_remote_mount(lender.remote, &whole, 0, &segment),
                     MC_OK);
}

static void open_all(void)
{
    const struct mc_master_opts opts = {.client_ttl_ms = 600000,
                                        .heartbeat_ms = 100};
    rig_open(&rig, MC_TRANSPORT_TCP, SEGMENT, SIZE);
    process_open(&process, &opts);
    peer_open_beside(&process, &lender, "lender:1", 0);
    lend();
    peer_open(&process, &reader, NULL, 0);
    /* Nothing is placed before a heartbeat has told the owner's clock. */
    ck_assert(AWAIT(peer_put(&reader, &lender, "a", SIZE) == MC_OK));
}

static void close_all(void)
{
    peer_close(&reader);
    peer_close(&lender);
    process_close(&process);
    rig_close(&rig);
}

/* ---- calls ------------------------------------------------------------------ */

static struct mci_read_row lease(const char *key)
{
    struct mci_read_row row = {.key = mc_view_str(key), .want_lease = true};
    const struct mci_call call = peer_call(20000);
    ck_assert_int_eq(reader.link.ops->get(reader.link.ctx, &call, &row, 1),
                     MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_ne(row.lease.number, 0);
    ck_assert_uint_ne(row.lease.epoch, 0);
    ck_assert_uint_eq(row.place_count, 1);
    return row;
}

/* The code of the call, or of the row. */
static enum mc_err renew(struct mci_read_row *row, uint64_t left_ms)
{
    const struct mci_call call = peer_call(left_ms);
    enum mc_err err =
        reader.link.ops->lease_renew(reader.link.ctx, &call, row, 1);
    ck_assert(err == MC_OK || row->err == err);
    return row->err;
}

static enum mc_err release(struct mci_read_row *row, uint64_t left_ms)
{
    const struct mci_call call = peer_call(left_ms);
    enum mc_err err =
        reader.link.ops->lease_release(reader.link.ctx, &call, row, 1);
    ck_assert(err == MC_OK || row->err == err);
    return row->err;
}

static uint64_t leased_only(void)
{
    return peer_figures(&reader).leased_only_bytes;
}

/* The key gets another value; only leases keep the former one. */
static void replace_a(void)
{
    struct mci_write_row row;
    ck_assert_int_eq(peer_upsert(&reader, "a", 4096, &row, 20000), MC_OK);
    ck_assert_int_eq(peer_end(&reader, &lender, &row, 20000), MC_OK);
}

static int rule(enum ctl_way way, enum mci_op op, enum ctl_what what)
{
    const struct ctl_rule rule = {
        .way = way, .op = op, .what = what, .count = 1};
    return ctl_proxy_rule(process.proxy, &rule);
}

/* ---- at the owner's check --------------------------------------------------- */

/* Reads what the row was granted. */
static enum mc_err read_with(const struct mci_read_row *row,
                             const struct mc_grant *grant)
{
    const struct mc_span span = {.data = rig.local, .len = row->size};
    struct mc_transfer_row move =
        rig_row(&rig, &span, 1, row->places[0].offset, false);
    move.terms = (struct mc_grant_terms){
        .registration = rig.exposure.registration,
        .incarnation = mci_remote_self(reader.remote).incarnation,
        .subject = row->version,
        .offset = row->places[0].offset,
        .len = row->size};
    move.grant = *grant;
    (void)mc_transfer_run(rig.peer, &move, 1, UINT64_MAX);
    return move.err;
}

START_TEST(a_grant_that_was_renewed_reads_on_and_no_other_does)
{
    now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    open_all();
    struct mci_read_row one = lease("a");
    struct mci_read_row two = lease("a");
    struct mc_grant first = one.grants[0];
    rig_fill(rig.memory.base + one.places[0].offset, SIZE, 5);
    ck_assert_int_eq(read_with(&one, &first), MC_OK);
    ck_assert(rig_is_filled(rig.local, SIZE, 5));
    replace_a();
    pass(LEASE_MS - 1000);
    ck_assert_int_eq(renew(&one, 20000), MC_OK);
    ck_assert_uint_eq(one.lease_left_ns, LEASE_MS * MCI_NS_PER_MS);
    ck_assert_uint_eq(one.size, SIZE); /* of its version, not the key's */
    pass(2000);
    memset(rig.local, 0, SIZE);
    ck_assert_int_eq(read_with(&one, &one.grants[0]), MC_OK);
    ck_assert(rig_is_filled(rig.local, SIZE, 5));
    ck_assert_int_eq(read_with(&one, &first), MC_ERR_LEASE_EXPIRED);
    ck_assert_int_eq(read_with(&two, &two.grants[0]), MC_ERR_LEASE_EXPIRED);
    ck_assert_int_eq(renew(&two, 20000), MC_ERR_LEASE_EXPIRED);
    ck_assert_uint_eq(two.place_count, 0);
    ck_assert_int_eq(renew(&one, 20000), MC_OK);
    ck_assert_uint_eq(leased_only(), SIZE);
    ck_assert_int_eq(release(&one, 20000), MC_OK);
    ck_assert(AWAIT(leased_only() == 0)); /* the other one is swept */
    close_all();
    mci_clock_fake(NULL);
}
END_TEST

START_TEST(what_is_left_is_counted_from_before_the_request)
{
    now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    open_all();
    struct mci_read_row row = lease("a");
    struct mci_call call = peer_call(20000);
    call.now_ns -= 3000 * MCI_NS_PER_MS; /* it was asked for then */
    ck_assert_int_eq(
        reader.link.ops->lease_renew(reader.link.ctx, &call, &row, 1), MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(row.lease_left_ns, (LEASE_MS + 3000) * MCI_NS_PER_MS);
    close_all();
    mci_clock_fake(NULL);
}
END_TEST

/* ---- repeated, late, out of order -------------------------------------------- */

START_TEST(what_comes_twice_is_as_if_it_came_once)
{
    open_all();
    struct mci_read_row one = lease("a");
    struct mci_read_row two = lease("a");
    replace_a();
    int again = rule(CTL_REQUEST, MCI_OP_RENEW_LEASE, CTL_REPEAT);
    ck_assert_int_eq(renew(&one, 20000), MC_OK);
    ck_assert_uint_eq(ctl_proxy_hits(process.proxy, again), 1);
    ck_assert_int_eq(renew(&one, 20000), MC_OK);
    again = rule(CTL_REQUEST, MCI_OP_RELEASE_LEASE, CTL_REPEAT);
    ck_assert_int_eq(release(&one, 20000), MC_OK);
    ck_assert_uint_eq(ctl_proxy_hits(process.proxy, again), 1);
    ck_assert_uint_eq(leased_only(), SIZE);
    ck_assert_int_eq(renew(&two, 20000), MC_OK);
    ck_assert_int_eq(release(&two, 20000), MC_OK);
    ck_assert_uint_eq(leased_only(), 0);
    close_all();
}
END_TEST

/* Done, but the answer is lost with its connection: done again, or answered
 * again. */
START_TEST(an_answer_that_was_lost_is_given_again)
{
    open_all();
    struct mci_read_row row = lease("a");
    replace_a();
    int cut = rule(CTL_ANSWER, MCI_OP_RENEW_LEASE, CTL_CUT);
    ck_assert_int_eq(renew(&row, 20000), MC_OK);
    ck_assert_uint_eq(ctl_proxy_hits(process.proxy, cut), 1);
    cut = rule(CTL_ANSWER, MCI_OP_RELEASE_LEASE, CTL_CUT);
    ck_assert_int_eq(release(&row, 20000), MC_OK);
    ck_assert_uint_eq(ctl_proxy_hits(process.proxy, cut), 1);
    ck_assert_uint_eq(leased_only(), 0);
    close_all();
}
END_TEST

START_TEST(a_renewal_that_comes_after_the_release_brings_nothing_back)
{
    open_all();
    struct mci_read_row row = lease("a");
    struct mci_read_row late = row;
    replace_a();
    int held = rule(CTL_REQUEST, MCI_OP_RENEW_LEASE, CTL_HOLD);
    ck_assert_int_eq(renew(&late, SHORT_MS), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(ctl_proxy_hits(process.proxy, held), 1);
    ck_assert_int_eq(release(&row, 20000), MC_OK);
    ck_assert_uint_eq(leased_only(), 0);
    ctl_proxy_release(process.proxy, held);
    /* What it is answered, and what is asked after that. */
    ck_assert(AWAIT(
        ctl_proxy_seen(process.proxy, CTL_ANSWER, MCI_OP_RENEW_LEASE) == 1));
    late.lease.epoch = mci_remote_self(reader.remote).epoch;
    ck_assert_int_eq(renew(&late, 20000), MC_ERR_LEASE_EXPIRED);
    ck_assert_uint_eq(leased_only(), 0);
    close_all();
}
END_TEST

/* A release that ran out of time was given up: it ends nothing later. */
START_TEST(a_release_that_was_given_up_ends_nothing_later)
{
    open_all();
    struct mci_read_row row = lease("a");
    replace_a();
    int held = rule(CTL_REQUEST, MCI_OP_RELEASE_LEASE, CTL_HOLD);
    ck_assert_int_eq(release(&row, SHORT_MS), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(ctl_proxy_hits(process.proxy, held), 1);
    ck_assert_uint_ne(row.lease.number, 0); /* the outcome is not known */
    /* The next call in that slot brings the cancel. */
    ck_assert(
        AWAIT(peer_has(&reader, "a") &&
              ctl_proxy_seen(process.proxy, CTL_REQUEST, MCI_OP_CANCEL) > 0));
    ctl_proxy_release(process.proxy, held);
    ck_assert(AWAIT(
        ctl_proxy_seen(process.proxy, CTL_ANSWER, MCI_OP_RELEASE_LEASE) == 1));
    ck_assert_int_eq(renew(&row, 20000), MC_OK);
    ck_assert_uint_eq(leased_only(), SIZE);
    ck_assert_int_eq(release(&row, 20000), MC_OK);
    ck_assert_uint_eq(leased_only(), 0);
    close_all();
}
END_TEST

/* Numbers begin anew at another master. */
START_TEST(a_lease_of_one_master_is_not_named_at_another)
{
    open_all();
    struct mci_read_row row = lease("a");
    uint64_t epoch = row.lease.epoch;
    peer_close(&lender);
    process_restart(&process, NULL);
    ck_assert(AWAIT(mci_remote_self(reader.remote).epoch != epoch &&
                    mci_remote_health(reader.remote) == 0));
    struct mci_read_row other = row;
    ck_assert_int_eq(renew(&other, 20000), MC_ERR_LEASE_EXPIRED);
    ck_assert_int_eq(release(&row, 20000), MC_OK);
    ck_assert_uint_eq(row.lease.number, 0);
    ck_assert_uint_eq(
        ctl_proxy_seen(process.proxy, CTL_REQUEST, MCI_OP_RENEW_LEASE) +
            ctl_proxy_seen(process.proxy, CTL_REQUEST, MCI_OP_RELEASE_LEASE),
        0);
    peer_close(&reader);
    process_close(&process);
    rig_close(&rig);
}
END_TEST

/* ---- many ---------------------------------------------------------------------- */

#define MANY 2000 /* leases in more than one slice */

static bool is_named(size_t i)
{
    return i >= MANY / 4;
}

START_TEST(a_batch_over_many_slices_is_renewed_and_released)
{
    struct mci_read_row *rows = calloc(MANY, sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    open_all();
    const struct mci_link_ops *ops = reader.link.ops;
    const struct mci_call call = peer_call(20000);
    for (size_t i = 0; i < MANY; i++) {
        rows[i].key = mc_view_str(i % 2 == 0 ? "a" : "none");
        rows[i].want_lease = is_named(i); /* both kinds in one call */
    }
    ck_assert_int_eq(ops->get(reader.link.ctx, &call, rows, MANY), MC_OK);
    for (size_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(rows[i].err,
                         i % 2 == 0 ? MC_OK : MC_ERR_OBJECT_NOT_FOUND);
        ck_assert((rows[i].lease.number != 0) == (i % 2 == 0 && is_named(i)));
    }
    ck_assert_int_eq(ops->lease_renew(reader.link.ctx, &call, rows, MANY),
                     MC_OK);
    for (size_t i = 0; i < MANY; i++) {
        bool goes_on = i % 2 == 0 && is_named(i);
        ck_assert_int_eq(rows[i].err, goes_on ? MC_OK : MC_ERR_LEASE_EXPIRED);
        ck_assert_uint_eq(rows[i].size, goes_on ? SIZE : 0);
        ck_assert(!goes_on || rows[i].grants[0].tag != 0);
    }
    ck_assert_int_eq(ops->lease_hold(reader.link.ctx, &call, rows, 1),
                     MC_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(rows[0].err, MC_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(ops->lease_release(reader.link.ctx, &call, rows, MANY),
                     MC_OK);
    for (size_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(rows[i].err, MC_OK);
        ck_assert_uint_eq(rows[i].lease.number, 0);
    }
    struct mci_remote_stats stats;
    mci_remote_stat(reader.remote, &stats);
    ck_assert_uint_eq(stats.calls_by_op[MCI_OP_RENEW_LEASE], 1);
    ck_assert_uint_eq(stats.calls_by_op[MCI_OP_RELEASE_LEASE], 1);
    close_all();
    free(rows);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("remote_lease");
    TCase *tcase = tcase_create("grants");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_grant_that_was_renewed_reads_on_and_no_other_does);
    tcase_add_test(tcase, what_is_left_is_counted_from_before_the_request);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("once");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, what_comes_twice_is_as_if_it_came_once);
    tcase_add_test(tcase, an_answer_that_was_lost_is_given_again);
    tcase_add_test(tcase,
                   a_renewal_that_comes_after_the_release_brings_nothing_back);
    tcase_add_test(tcase, a_release_that_was_given_up_ends_nothing_later);
    tcase_add_test(tcase, a_lease_of_one_master_is_not_named_at_another);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("many");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_batch_over_many_slices_is_renewed_and_released);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
