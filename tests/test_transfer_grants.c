/* SPDX-License-Identifier: Apache-2.0 */
/* Who may touch what, over each transport: grants of every wrong kind, receipts,
 * seals, fences, and memory that is given up in the middle. */
#include <check.h>
#include <pthread.h>
#include <string.h>

#include "await.h"
#include "copy.h"
#include "engine.h"
#include "mci_clock.h"
#include "suite.h"
#include "target.h"
#include "transfer_rig.h"

#define LEN 100000

static bool begin(struct rig *rig, int kind)
{
    if (!rig_is_built(rig_kinds[kind])) {
        return false;
    }
    rig_open(rig, rig_kinds[kind], 8 * RIG_MIB, 8 * RIG_MIB);
    rig_fill(rig->local, LEN, 5);
    return true;
}

static struct mc_transfer_row plain_row(struct rig *rig, bool is_write)
{
    static struct mc_span span;
    span = (struct mc_span){rig->local, LEN};
    return rig_row(rig, &span, 1, 4096, is_write);
}

/* ---- grants ------------------------------------------------------------ */

static void wrong_tag(struct rig *rig, struct mc_transfer_row *row)
{
    (void)rig;
    row->grant.tag ^= 1;
}

static void other_direction(struct rig *rig, struct mc_transfer_row *row)
{
    row->terms.is_write = !row->terms.is_write;
    rig_sign(rig, row, row->grant.deadline_ns);
    row->terms.is_write = !row->terms.is_write;
}

static void other_offset(struct rig *rig, struct mc_transfer_row *row)
{
    row->terms.offset--;
    rig_sign(rig, row, row->grant.deadline_ns);
    row->terms.offset++;
}

static void shorter_range(struct rig *rig, struct mc_transfer_row *row)
{
    row->terms.len--;
    rig_sign(rig, row, row->grant.deadline_ns);
    row->terms.len++;
}

static void other_incarnation(struct rig *rig, struct mc_transfer_row *row)
{
    (void)rig;
    row->terms.incarnation++;
}

static void other_subject(struct rig *rig, struct mc_transfer_row *row)
{
    (void)rig;
    row->terms.subject++;
}

static void later_deadline(struct rig *rig, struct mc_transfer_row *row)
{
    (void)rig;
    row->grant.deadline_ns++;
}

static void past_deadline(struct rig *rig, struct mc_transfer_row *row)
{
    rig_sign(rig, row, mci_clock_ns() - 1);
}

static void other_registration(struct rig *rig, struct mc_transfer_row *row)
{
    row->terms.registration++;
    rig_sign(rig, row, row->grant.deadline_ns);
    row->terms.registration--;
}

START_TEST(grants_that_do_not_hold_move_nothing)
{
    static void (*const spoil[])(struct rig *, struct mc_transfer_row *) = {
        wrong_tag,      other_direction, other_offset,
        shorter_range,  other_subject,   other_incarnation,
        later_deadline, past_deadline,   other_registration};
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    for (size_t i = 0; i < 2 * sizeof spoil / sizeof spoil[0]; i++) {
        bool is_write = i % 2 == 0;
        struct mc_transfer_row row = plain_row(&rig, is_write);
        spoil[i / 2](&rig, &row);
        enum mc_err expected = spoil[i / 2] == past_deadline && !is_write
                                   ? MC_ERR_LEASE_EXPIRED
                                   : MC_ERR_TRANSFER_FAIL;
        ck_assert_msg(rig_run(&rig, &row) == expected, "case %zu: %d", i,
                      row.err);
        ck_assert_uint_eq(row.bytes, 0);
        ck_assert_uint_eq(row.receipt, 0);
        ck_assert_uint_eq(rig.memory.base[4096], 0);
        ck_assert(rig_is_filled(rig.local, LEN, 5));
    }
    rig_close(&rig);
}
END_TEST

START_TEST(no_write_grant_outlives_the_fences)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row row = plain_row(&rig, true);
    rig_sign(&rig, &row, rig_deadline(MC_GRANT_TTL_MAX_MS + 5000));
    ck_assert_int_eq(rig_run(&rig, &row), MC_ERR_TRANSFER_FAIL);
    row.terms.is_write = false;
    rig_sign(&rig, &row, rig_deadline(MC_GRANT_TTL_MAX_MS + 5000));
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    rig_close(&rig);
}
END_TEST

struct renewing {
    struct mc_grant grants[2];
    _Atomic int asked;
};

static struct mc_grant renew(void *ctx)
{
    struct renewing *renewing = ctx;
    return renewing->grants[atomic_fetch_add(&renewing->asked, 1) > 0];
}

START_TEST(a_renewed_grant_carries_a_row_on)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row row = plain_row(&rig, true);
    struct renewing renewing = {.asked = 1};
    renewing.grants[1] = row.grant;
    struct mc_grant_source source = {renew, &renewing};
    row.grant.tag = 0;
    row.source = &source;
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert_int_gt(renewing.asked, 1);
    rig_close(&rig);
}
END_TEST

/* ---- receipts ---------------------------------------------------------- */

static uint64_t expected_receipt(const struct rig *rig,
                                 const struct mc_transfer_row *row)
{
    return mc_grant_receipt(rig->exposure.key, rig->exposure.registration,
                            row->terms.subject);
}

START_TEST(a_final_write_is_the_last_of_its_attempt)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row row = plain_row(&rig, true);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert_uint_eq(row.receipt, 0);
    row.is_final = true;
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert_uint_eq(row.receipt, expected_receipt(&rig, &row));
    ck_assert(row.remote_ended);
    memset(rig.local, 0, LEN);
    row.is_final = false;
    ck_assert_int_eq(rig_run(&rig, &row), MC_ERR_TRANSFER_FAIL);
    ck_assert(rig_is_filled(rig.memory.base + 4096, LEN, 5));
    struct mc_transfer_row other = plain_row(&rig, true);
    ck_assert_int_eq(rig_run(&rig, &other), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_final_write_that_failed_has_no_receipt)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row row = plain_row(&rig, true);
    row.is_final = true;
    row.grant.tag++;
    ck_assert_int_eq(rig_run(&rig, &row), MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_eq(row.receipt, 0);
    row.grant.tag--;
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(sealing_closes_attempts_and_only_them)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row rows[3];
    for (int i = 0; i < 3; i++) {
        rows[i] = plain_row(&rig, true);
    }
    rows[1].grant.tag++;
    struct mc_transfer_row kept = plain_row(&rig, true);
    ck_assert_int_eq(mc_transfer_seal(rig.peer, rows, 3, rig_deadline(20000)),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rows[0].err, MC_OK);
    ck_assert_uint_eq(rows[0].receipt, expected_receipt(&rig, &rows[0]));
    ck_assert_int_eq(rows[1].err, MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_eq(rows[1].receipt, 0);
    ck_assert_uint_eq(rows[2].receipt, expected_receipt(&rig, &rows[2]));
    ck_assert_int_eq(rig_run(&rig, &rows[0]), MC_ERR_TRANSFER_FAIL);
    rows[1].grant.tag--;
    ck_assert_int_eq(rig_run(&rig, &rows[1]), MC_OK);
    ck_assert_int_eq(rig_run(&rig, &kept), MC_OK);
    /* Sealed twice is fine, a read is not to be sealed. */
    ck_assert_int_eq(mc_transfer_seal(rig.peer, rows, 1, rig_deadline(20000)),
                     MC_OK);
    struct mc_transfer_row read = plain_row(&rig, false);
    ck_assert_int_eq(mc_transfer_seal(rig.peer, &read, 1, rig_deadline(20000)),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(read.err, MC_ERR_INVALID_PARAMS);
    rig_close(&rig);
}
END_TEST

/* Bytes of a row that went by tcp may still be on their way when it is sealed,
 * and shared memory can be had by then: the owner itself has to close it. */
START_TEST(what_went_by_tcp_is_sealed_by_tcp)
{
    struct rig rig;
    rig_open(&rig, MC_TRANSPORT_AUTO, 8 * RIG_MIB, 8 * RIG_MIB);
    _Atomic uint64_t *shunned = &rig.target->shunned_until_ns[MC_TRANSPORT_SHM];
    struct mc_transfer_row row = plain_row(&rig, true);
    atomic_store(shunned, rig_deadline(60000));
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert_int_eq(row.transport, MC_TRANSPORT_TCP);
    struct mc_transfer_row late = row;
    atomic_store(shunned, 0);
    ck_assert_int_eq(mc_transfer_seal(rig.peer, &row, 1, rig_deadline(20000)),
                     MC_OK);
    ck_assert_uint_eq(row.receipt, expected_receipt(&rig, &row));
    atomic_store(shunned, rig_deadline(60000));
    ck_assert_int_eq(rig_run(&rig, &late), MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(late.transport, MC_TRANSPORT_TCP);
    /* What went by neither is sealed by whichever is best. */
    atomic_store(shunned, 0);
    row = plain_row(&rig, true);
    ck_assert_int_eq(mc_transfer_seal(rig.peer, &row, 1, rig_deadline(20000)),
                     MC_OK);
    ck_assert_int_eq(row.transport, MC_TRANSPORT_SHM);
    rig_close(&rig);
}
END_TEST

/* ---- fences ------------------------------------------------------------ */

static size_t fence(struct rig *rig, enum mc_fence_kind kind, uint64_t subject)
{
    struct mc_fence row = {.number = 1, .kind = kind, .subject = subject};
    struct mc_fence_stuck stuck[8];
    size_t count = 99;
    ck_assert_int_eq(mc_transfer_fence(rig->owner, &row, 1, stuck, 8, &count),
                     MC_OK);
    return count;
}

START_TEST(a_fence_ends_an_attempt_and_no_other)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row row = plain_row(&rig, true);
    struct mc_transfer_row other = plain_row(&rig, true);
    struct mc_transfer_row read = plain_row(&rig, false);
    read.terms.subject = row.terms.subject;
    rig_sign(&rig, &read, rig_deadline(20000));
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert_uint_eq(fence(&rig, MC_FENCE_ATTEMPT, row.terms.subject), 0);
    ck_assert_int_eq(rig_run(&rig, &row), MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rig_run(&rig, &other), MC_OK);
    ck_assert_int_eq(rig_run(&rig, &read), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_fence_ends_all_writes_of_an_incarnation)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row row = plain_row(&rig, true);
    struct mc_transfer_row other = plain_row(&rig, true);
    other.terms.incarnation = 77;
    rig_sign(&rig, &other, rig_deadline(20000));
    ck_assert_uint_eq(fence(&rig, MC_FENCE_INCARNATION, RIG_INCARNATION), 0);
    ck_assert_int_eq(rig_run(&rig, &row), MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rig_run(&rig, &other), MC_OK);
    struct mc_transfer_row read = plain_row(&rig, false);
    ck_assert_int_eq(rig_run(&rig, &read), MC_OK);
    rig_close(&rig);
}
END_TEST

/* ---- memory that is given up ------------------------------------------- */

START_TEST(what_is_concealed_is_not_touched_again)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row row = plain_row(&rig, true);
    struct mc_transfer_row read = plain_row(&rig, false);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    uint64_t generation =
        atomic_load((_Atomic uint64_t *)(void *)rig.memory.map);
    mc_transfer_conceal(rig.owner, rig.exposure.registration);
    ck_assert_uint_gt(atomic_load((_Atomic uint64_t *)(void *)rig.memory.map),
                      generation);
    ck_assert_int_eq(rig_run(&rig, &row), MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rig_run(&rig, &read), MC_ERR_TRANSFER_FAIL);
    mc_transfer_conceal(rig.owner, rig.exposure.registration);
    mc_transfer_conceal(rig.owner, 12345);
    /* Lent again it is another registration. */
    mc_target_close(rig.target);
    rig_lend(&rig);
    row = plain_row(&rig, true);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_restarted_owner_is_not_read_at_stale_addresses)
{
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row read = plain_row(&rig, false);
    ck_assert_int_eq(rig_run(&rig, &read), MC_OK);
    if (rig.kind != MC_TRANSPORT_LOCAL) {
        struct mc_target *old = rig.target;
        mc_transfer_close(rig.owner);
        ck_assert_int_eq(rig_run(&rig, &read), MC_ERR_TRANSFER_FAIL);
        struct mc_transfer_opts opts = {.only = rig.kind};
        ck_assert_int_eq(mc_transfer_open(&opts, &rig.owner), MC_OK);
        rig_lend(&rig);
        ck_assert_int_eq(rig_run(&rig, &read), MC_ERR_TRANSFER_FAIL);
        mc_target_close(old);
        read = plain_row(&rig, false);
        ck_assert_int_eq(rig_run(&rig, &read), MC_OK);
    }
    rig_close(&rig);
}
END_TEST

struct reader {
    struct rig *rig;
    pthread_t thread;
    _Atomic int *reads;
    size_t wrong;
    size_t failed;
    uint8_t *into;
};

/* Reads until it fails; what came without an error must be what was there. */
static void *read_on(void *arg)
{
    struct reader *reader = arg;
    struct mc_span span = {reader->into, RIG_MIB / 2};
    struct rig own = *reader->rig;
    while (reader->failed == 0) {
        struct mc_transfer_row row = rig_row(&own, &span, 1, 0, false);
        if (mc_transfer_run(own.peer, &row, 1, rig_deadline(20000)) != MC_OK) {
            reader->failed++;
        } else if (!rig_is_filled(span.data, span.len, 5)) {
            reader->wrong++;
        }
        (void)atomic_fetch_add(reader->reads, 1);
    }
    return NULL;
}

START_TEST(readers_learn_of_memory_that_was_given_up)
{
    enum { READERS = 4 };
    struct reader readers[READERS];
    _Atomic int reads = 0;
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    rig_fill(rig.memory.base, RIG_MIB / 2, 5);
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){
            .rig = &rig, .reads = &reads, .into = rig.local + i * RIG_MIB};
        ck_assert_int_eq(
            pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    }
    ck_assert(AWAIT(atomic_load(&reads) > 20));
    mc_transfer_conceal(rig.owner, rig.exposure.registration);
    /* Shared pages of a peer may be read still; the generation tells it. */
    memset(rig.memory.base, 0, RIG_MIB / 2);
    for (size_t i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_join(readers[i].thread, NULL), 0);
        ck_assert_uint_eq(readers[i].wrong, 0);
        ck_assert_uint_eq(readers[i].failed, 1);
    }
    rig_close(&rig);
}
END_TEST

/* What happens between the last byte and the answer; not to be had over tcp. */
static uint64_t moved_clock_ns;
static _Atomic uint64_t *raised;

static void let_time_pass(const struct mc_transfer_row *row)
{
    moved_clock_ns = row->grant.deadline_ns;
    mci_clock_fake(&moved_clock_ns);
}

static void raise_generation(const struct mc_transfer_row *row)
{
    (void)row;
    (void)atomic_fetch_add(raised, 1);
}

START_TEST(a_read_is_judged_after_its_last_byte)
{
    struct rig rig;
    if (rig_kinds[_i] == MC_TRANSPORT_TCP || !begin(&rig, _i)) {
        return;
    }
    struct mc_transfer_row row = plain_row(&rig, false);
    mci_copy_set_hook(let_time_pass);
    (void)mc_transfer_run(rig.peer, &row, 1, UINT64_MAX);
    mci_clock_fake(NULL);
    ck_assert_int_eq(row.err, MC_ERR_LEASE_EXPIRED);
    ck_assert_uint_eq(row.bytes, LEN);
    if (rig.kind == MC_TRANSPORT_SHM) {
        raised = (_Atomic uint64_t *)(void *)rig.memory.map;
        mci_copy_set_hook(raise_generation);
        ck_assert_int_eq(rig_run(&rig, &row), MC_ERR_TRANSFER_FAIL);
        ck_assert_uint_eq(row.bytes, LEN);
    }
    mci_copy_set_hook(NULL);
    rig_close(&rig);
}
END_TEST

static void add_grants(Suite *suite)
{
    TCase *grants = tcase_create("grants");
    tcase_add_loop_test(grants, grants_that_do_not_hold_move_nothing, 0,
                        RIG_KINDS);
    tcase_add_loop_test(grants, no_write_grant_outlives_the_fences, 0,
                        RIG_KINDS);
    tcase_add_loop_test(grants, a_renewed_grant_carries_a_row_on, 0, RIG_KINDS);
    suite_add_tcase(suite, grants);
    TCase *receipts = tcase_create("receipts");
    tcase_add_loop_test(receipts, a_final_write_is_the_last_of_its_attempt, 0,
                        RIG_KINDS);
    tcase_add_loop_test(receipts, a_final_write_that_failed_has_no_receipt, 0,
                        RIG_KINDS);
    tcase_add_loop_test(receipts, sealing_closes_attempts_and_only_them, 0,
                        RIG_KINDS);
    tcase_add_test(receipts, what_went_by_tcp_is_sealed_by_tcp);
    suite_add_tcase(suite, receipts);
}

int main(void)
{
    Suite *suite = suite_create("transfer_grants");
    add_grants(suite);
    TCase *fences = tcase_create("fences");
    tcase_add_loop_test(fences, a_fence_ends_an_attempt_and_no_other, 0,
                        RIG_KINDS);
    tcase_add_loop_test(fences, a_fence_ends_all_writes_of_an_incarnation, 0,
                        RIG_KINDS);
    suite_add_tcase(suite, fences);
    TCase *given_up = tcase_create("given up");
    tcase_set_timeout(given_up, 60);
    tcase_add_loop_test(given_up, what_is_concealed_is_not_touched_again, 0,
                        RIG_KINDS);
    tcase_add_loop_test(given_up,
                        a_restarted_owner_is_not_read_at_stale_addresses, 0,
                        RIG_KINDS);
    tcase_add_loop_test(given_up, readers_learn_of_memory_that_was_given_up, 0,
                        RIG_KINDS);
    tcase_add_loop_test(given_up, a_read_is_judged_after_its_last_byte, 0,
                        RIG_KINDS);
    suite_add_tcase(suite, given_up);
    return suite_run(suite);
}
