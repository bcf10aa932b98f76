/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_scratch.c - working memory out of the client's local buffer. */
#include <pthread.h>
#include <string.h>

#include "alloc_fail.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "suite.h"

static struct client_rig rig;

static void open_buffer(uint64_t bytes)
{
    const struct mc_client_opts opts = {.segment_bytes = 8 * MIB,
                                        .no_prefault = true,
                                        .local_buffer_bytes = bytes};
    client_open_strict(&rig, &opts);
}

static enum mc_err put(const char *key, const void *data, size_t len)
{
    return mc_client_put_from(rig.client, mc_view_str(key), data, len, NULL);
}

static enum mc_err get(const char *key, void *data, size_t len)
{
    uint64_t size = 0;
    return mc_client_get_into(rig.client, mc_view_str(key), data, len, &size);
}

START_TEST(what_is_out_is_registered_and_nothing_beside_it)
{
    struct mc_scratch a = {.data = NULL};
    struct mc_scratch b = {.data = NULL};
    uint64_t stamp = 0;
    open_buffer(MIB);
    ck_assert_uint_eq(mc_client_local_buffer_bytes(rig.client), MIB);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 5000, &a), MC_OK);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 5000, &b), MC_OK);
    ck_assert_uint_eq(a.len, 5000);
    stamp_fill(a.data, a.len, 7);
    ck_assert_int_eq(put("a", a.data, a.len), MC_OK);
    ck_assert_int_eq(get("a", b.data, b.len), MC_OK);
    ck_assert(stamp_read(b.data, b.len, &stamp) && stamp == 7);
    ck_assert_int_eq(get("a", b.data, b.len + 1), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(get("a", (uint8_t *)a.data - 1, 5000),
                     MC_ERR_INVALID_PARAMS);
    void *before = a.data;
    ck_assert_int_eq(mc_client_give_scratch(rig.client, &a), MC_OK);
    ck_assert(!a.data && a.len == 0 && !a.owner);
    ck_assert_int_eq(put("b", before, 5000), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_give_scratch(rig.client, &b), MC_OK);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

START_TEST(nothing_is_given_back_twice)
{
    struct mc_scratch a = {.data = NULL};
    open_buffer(MIB);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 100, &a), MC_OK);
    struct mc_scratch copy = a;
    ck_assert_int_eq(mc_client_give_scratch(rig.client, &a), MC_OK);
    ck_assert_int_eq(mc_client_give_scratch(rig.client, &copy),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_give_scratch(rig.client, &a), MC_OK);
    ck_assert_int_eq(mc_client_give_scratch(rig.client, NULL), MC_OK);
    client_close(&rig);
}
END_TEST

START_TEST(it_shares_the_local_buffer_with_what_is_read_there)
{
    struct mc_scratch most = {.data = NULL};
    struct mc_scratch none = {.len = 3};
    struct mc_buffer buffer = {.data = NULL};
    open_buffer(MIB);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 0, &none),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, SIZE_MAX, &none),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 700 * KIB, &most),
                     MC_OK);
    memset(most.data, 1, most.len);
    ck_assert_int_eq(put("a", most.data, 500 * KIB), MC_OK);
    ck_assert_int_eq(
        mc_client_get_buffer(rig.client, mc_view_str("a"), &buffer),
        MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 500 * KIB, &none),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_uint_eq(none.len, 3);
    ck_assert_int_eq(mc_client_give_scratch(rig.client, &most), MC_OK);
    ck_assert_int_eq(
        mc_client_get_buffer(rig.client, mc_view_str("a"), &buffer), MC_OK);
    mc_client_release_buffer(rig.client, &buffer);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

START_TEST(no_local_buffer_has_none)
{
    struct mc_scratch piece = {.data = NULL};
    open_buffer(MC_NONE);
    ck_assert_uint_eq(mc_client_local_buffer_bytes(rig.client), 0);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 1, &piece),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    client_close(&rig);
}
END_TEST

/* Other threads of the rig allocate meanwhile; what leaked would be missing from
 * the buffer. */
START_TEST(what_cannot_be_noted_is_not_handed_out)
{
    struct alloc_fail fail = {.is_shared = true};
    open_buffer(MIB);
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_scratch piece = {.data = NULL};
        fail.is_shared = true;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_client_take_scratch(rig.client, MIB, &piece);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        ck_assert_int_eq(mc_client_give_scratch(rig.client, &piece), MC_OK);
    }
    client_close(&rig);
}
END_TEST

START_TEST(what_is_held_outlives_the_client)
{
    struct mc_scratch piece = {.data = NULL};
    struct mc_buffer buffer = {.data = NULL};
    uint64_t stamp = 0;
    open_buffer(MIB);
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 5000, &piece), MC_OK);
    stamp_fill(piece.data, piece.len, 9);
    ck_assert_int_eq(put("a", piece.data, piece.len), MC_OK);
    ck_assert_int_eq(
        mc_client_get_buffer(rig.client, mc_view_str("a"), &buffer), MC_OK);
    struct mc_local_buffer *held = mc_client_hold_local_buffer(rig.client);
    struct mc_local_buffer *again = mc_client_hold_local_buffer(rig.client);
    (void)client_events(&rig);
    client_close(&rig);
    mc_local_buffer_release(again);
    ck_assert(stamp_read(piece.data, piece.len, &stamp) && stamp == 9);
    ck_assert(stamp_read(buffer.data, buffer.len, &stamp) && stamp == 9);
    mc_local_buffer_release(held);
    mc_local_buffer_release(NULL);
}
END_TEST

/* Each has the pieces to itself; in the end all of it can be had at once. */
enum { TURNS = 300 };

static void *take_and_give(void *ctx)
{
    const uint64_t id = (uint64_t)(uintptr_t)ctx;
    uintptr_t faults = 0;
    for (uint64_t i = 0; i < TURNS; i++) {
        struct mc_scratch piece = {.data = NULL};
        uint64_t stamp = 0;
        enum mc_err err =
            mc_client_take_scratch(rig.client, 1000 + 977 * (i % 64), &piece);
        if (err == MC_OK) {
            stamp_fill(piece.data, piece.len, id * TURNS + i);
            faults += !stamp_read(piece.data, piece.len, &stamp) ||
                      stamp != id * TURNS + i;
        }
        faults += err != MC_OK && err != MC_ERR_NO_AVAILABLE_HANDLE;
        faults += mc_client_give_scratch(rig.client, &piece) != MC_OK;
    }
    return (void *)faults;
}

START_TEST(many_threads_take_and_give_and_nothing_leaks)
{
    pthread_t threads[4];
    struct mc_scratch whole = {.data = NULL};
    open_buffer(128 * KIB);
    for (uintptr_t i = 0; i < 4; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, take_and_give, (void *)i), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *faults = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &faults), 0);
        ck_assert_uint_eq((uintptr_t)faults, 0);
    }
    ck_assert_int_eq(mc_client_take_scratch(rig.client, 128 * KIB, &whole),
                     MC_OK);
    ck_assert_int_eq(mc_client_give_scratch(rig.client, &whole), MC_OK);
    client_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client scratch");
    TCase *tcase = tcase_create("scratch");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, what_is_out_is_registered_and_nothing_beside_it);
    tcase_add_test(tcase, nothing_is_given_back_twice);
    tcase_add_test(tcase, it_shares_the_local_buffer_with_what_is_read_there);
    tcase_add_test(tcase, no_local_buffer_has_none);
    tcase_add_test(tcase, what_cannot_be_noted_is_not_handed_out);
    tcase_add_test(tcase, what_is_held_outlives_the_client);
    tcase_add_test(tcase, many_threads_take_and_give_and_nothing_leaks);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
