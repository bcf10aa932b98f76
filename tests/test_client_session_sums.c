/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_session_sums.c - checksums of objects that sessions write: in order,
 * out of order, with holes, again, and without memory. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "suite.h"
#include "sums_rig.h"

static struct mc_put_session *open_put(size_t len,
                                       const struct mc_replicate_config *config)
{
    const uint64_t size = len;
    struct mc_put_session *session = NULL;
    int64_t result = 0;
    enum mc_err err = mc_client_remove(rig.client, key, true);
    ck_assert(err == MC_OK || err == MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(mc_client_put_sessions_open(rig.client, &key, &size,
                                                 config, 1, &session, &result),
                     MC_OK);
    ck_assert_int_eq(result, MC_OK);
    return session;
}

static int64_t try_write(struct mc_put_session *session, uint64_t from,
                         size_t len)
{
    const struct mc_fragment fragment = {value + from, from, len};
    const struct mc_fragments row = {&fragment, 1};
    int64_t result = 0;
    enum mc_err err =
        mc_client_put_sessions_write(rig.client, &session, &row, 1, 0, &result);
    ck_assert(err == MC_OK || err == MC_ERR_NOMEM);
    return result;
}

static void write_session(struct mc_put_session *session, uint64_t from,
                          size_t len)
{
    ck_assert_int_eq(try_write(session, from, len), (int64_t)len);
}

static void end_put(struct mc_put_session *session)
{
    int64_t result = 0;
    ck_assert_int_eq(
        mc_client_put_sessions_end(rig.client, &session, 1, 0, &result), MC_OK);
    ck_assert_int_eq(result, MC_OK);
}

/* Layer by layer, of any length, in order. */
START_TEST(sessions_that_write_in_order_have_all_sums)
{
    static const size_t pieces[] = {1000, 32768, 65536, 65537, 3 * MIB};
    start();
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
            size_t len = sizes[i];
            struct mc_put_session *session = open_put(len, &summed);
            for (size_t from = 0; from < len; from += pieces[p]) {
                size_t left = len - from;
                write_session(session, from,
                              left < pieces[p] ? left : pieces[p]);
            }
            end_put(session);
            uint64_t before = stats().checked_blocks;
            expect_read(by_get, len);
            ck_assert_uint_eq(stats().checked_blocks - before,
                              mci_sums_count(len));
            spoil(0, len - 1);
            ck_assert_int_eq(by_get(len), MC_ERR_CHECKSUM_MISMATCH);
            expect_last(mci_sums_count(len) - 1, len);
        }
    }
    ck_assert_uint_eq(stats().unsummed_blocks, 0);
    stop();
}
END_TEST

/* Keys and values of a cache: two streams in one object, layer by layer. */
START_TEST(two_streams_of_layers_have_all_sums)
{
    size_t half = 5 * BLOCK;
    start();
    struct mc_put_session *session = open_put(2 * half, &summed);
    for (size_t at = 0; at < half; at += half / 20) {
        const struct mc_fragment fragments[] = {
            {value + at, at, half / 20},
            {value + half + at, half + at, half / 20}};
        const struct mc_fragments row = {fragments, 2};
        int64_t result = 0;
        ck_assert_int_eq(mc_client_put_sessions_write(rig.client, &session,
                                                      &row, 1, 0, &result),
                         MC_OK);
        ck_assert_int_eq(result, (int64_t)half / 10);
    }
    end_put(session);
    expect_read(by_session, 2 * half);
    ck_assert_uint_eq(stats().unsummed_blocks, 0);
    spoil(0, half + BLOCK);
    ck_assert_int_eq(by_session(2 * half), MC_ERR_CHECKSUM_MISMATCH);
    expect_last(6, 2 * half);
    stop();
}
END_TEST

START_TEST(blocks_that_come_out_of_order_have_none_and_are_counted)
{
    size_t len = 3 * BLOCK;
    start();
    struct mc_put_session *session = open_put(len, &summed);
    write_session(session, BLOCK + 100, BLOCK - 100);
    write_session(session, BLOCK, 100);
    write_session(session, 2 * BLOCK, BLOCK);
    write_session(session, 0, BLOCK);
    end_put(session);
    ck_assert_uint_eq(stats().unsummed_blocks, 1);
    expect_read(by_get, len);
    ck_assert_uint_eq(stats().checked_blocks, 2);
    value[BLOCK + 3] ^= 0x40;
    spoil(0, BLOCK + 3);
    expect_read(by_get, len); /* nobody can tell */
    spoil(0, 2 * BLOCK);
    ck_assert_int_eq(by_get(len), MC_ERR_CHECKSUM_MISMATCH);
    expect_last(2, len);
    stop();
}
END_TEST

START_TEST(holes_that_are_filled_have_sums)
{
    size_t len = 4 * BLOCK + 10;
    start();
    memset(value + 1000, 0, len - 1000);
    struct mc_put_session *session = open_put(len, &summed);
    write_session(session, 0, 1000);
    end_put(session);
    ck_assert_uint_eq(stats().unsummed_blocks, 0);
    expect_read(by_get, len);
    ck_assert_uint_eq(stats().checked_blocks, 5);
    spoil(0, 2 * BLOCK);
    ck_assert_int_eq(by_get(len), MC_ERR_CHECKSUM_MISMATCH);
    memset(value, 0, 1000);
    session = open_put(len, &summed); /* nothing at all */
    end_put(session);
    expect_read(by_get, len);
    ck_assert_uint_eq(stats().unsummed_blocks, 0);
    stop();
}
END_TEST

START_TEST(what_is_written_again_is_what_is_summed)
{
    const struct mc_replicate_config whole = {.checksum = true,
                                              .complete = true};
    size_t len = 2 * BLOCK;
    int64_t result = 0;
    start();
    struct mc_put_session *session = open_put(len, &whole);
    write_session(session, 0, BLOCK);
    ck_assert_int_eq(
        mc_client_put_sessions_end(rig.client, &session, 1, 0, &result), MC_OK);
    ck_assert_int_eq(result, MC_ERR_INVALID_WRITE);
    value[5] ^= 1;
    write_session(session, 0, BLOCK);
    write_session(session, BLOCK, BLOCK);
    end_put(session);
    expect_read(by_get, len);
    ck_assert_uint_eq(stats().checked_blocks, 2);
    stop();
}
END_TEST

START_TEST(every_copy_of_a_session_has_sums)
{
    size_t len = 2 * BLOCK + 1;
    start();
    if (join_other()) {
        struct mc_put_session *session = open_put(len, &twice);
        write_session(session, 0, len);
        end_put(session);
        for (uint32_t copy = 0; copy < 2; copy++) {
            spoil(copy, BLOCK);
            expect_read(by_get, len);
            spoil(copy, BLOCK);
        }
        spoil(0, BLOCK);
        spoil(1, BLOCK);
        ck_assert_int_eq(by_get(len), MC_ERR_CHECKSUM_MISMATCH);
    }
    stop();
}
END_TEST

START_TEST(a_session_that_finds_no_memory_can_go_on)
{
    size_t len = 2 * BLOCK;
    start();
    struct mc_put_session *session = open_put(len, &summed);
    write_session(session, 0, 1); /* what is made once is made */
    end_put(session);
    session = open_put(len, &summed);
    bool has_failed = false;
    for (uint64_t k = 1; k < 20; k++) {
        (void)mci_alloc_fail_at(k);
        int64_t result = try_write(session, 0, BLOCK);
        (void)mci_alloc_fail_at(0);
        has_failed |= result == MC_ERR_NOMEM;
        ck_assert(result == MC_ERR_NOMEM || result == (int64_t)BLOCK);
    }
    ck_assert(has_failed);
    write_session(session, 0, BLOCK);
    for (uint64_t k = 1; k < 20 && session; k++) {
        int64_t result = 0;
        (void)mci_alloc_fail_at(k);
        enum mc_err err =
            mc_client_put_sessions_end(rig.client, &session, 1, 0, &result);
        (void)mci_alloc_fail_at(0);
        ck_assert(err == MC_OK || err == MC_ERR_NOMEM);
        session = result == MC_OK ? NULL : session;
    }
    ck_assert_ptr_null(session);
    memset(value + BLOCK, 0, BLOCK);
    expect_read(by_get, len);
    ck_assert_uint_eq(stats().checked_blocks, 2);
    ck_assert_uint_eq(stats().unsummed_blocks, 0);
    stop();
}
END_TEST

START_TEST(a_session_that_is_revoked_leaves_nothing)
{
    start();
    uint64_t before = stats().allocated_bytes;
    struct mc_put_session *session = open_put(BLOCK + 5, &summed);
    int64_t result = 0;
    write_session(session, 0, 100);
    ck_assert_int_eq(
        mc_client_put_sessions_revoke(rig.client, &session, 1, 0, &result),
        MC_OK);
    ck_assert_int_eq(result, MC_OK);
    ck_assert_uint_eq(stats().allocated_bytes, before);
    stop();
}
END_TEST

static TCase *writing(void)
{
    TCase *tcase = tcase_create("writing by sessions");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, sessions_that_write_in_order_have_all_sums);
    tcase_add_test(tcase, two_streams_of_layers_have_all_sums);
    tcase_add_test(tcase,
                   blocks_that_come_out_of_order_have_none_and_are_counted);
    tcase_add_test(tcase, holes_that_are_filled_have_sums);
    tcase_add_test(tcase, what_is_written_again_is_what_is_summed);
    tcase_add_test(tcase, every_copy_of_a_session_has_sums);
    tcase_add_test(tcase, a_session_that_finds_no_memory_can_go_on);
    tcase_add_test(tcase, a_session_that_is_revoked_leaves_nothing);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client_session_sums");
    suite_add_tcase(suite, writing());
    return suite_run(suite);
}
