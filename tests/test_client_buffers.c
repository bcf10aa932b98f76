/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_buffers.c - objects in the client's local buffer: J8, E6 of the
 * known faults. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "suite.h"

static struct client_rig rig;

static void open_buffer(uint64_t bytes)
{
    const struct mc_client_opts opts = {.segment_bytes = 8 * MIB,
                                        .no_prefault = true,
                                        .local_buffer_bytes = bytes};
    client_open(&rig, &opts);
}

static void put(const char *key, size_t len, uint64_t stamp)
{
    uint8_t *value = must_alloc(len);
    stamp_fill(value, len, stamp);
    ck_assert_int_eq(client_put(&rig, key, value, len), MC_OK);
    free(value);
}

static enum mc_err get(const char *key, struct mc_buffer *buffer_out)
{
    return mc_client_get_buffer(rig.client, mc_view_str(key), buffer_out);
}

START_TEST(a_buffer_holds_the_object_until_it_is_released)
{
    struct mc_buffer buffer = {.len = 7};
    uint64_t stamp = 0;
    open_buffer(MIB);
    put("a", 5000, 11);
    ck_assert_int_eq(get("a", &buffer), MC_OK);
    ck_assert_uint_eq(buffer.len, 5000);
    ck_assert_int_eq(mc_client_remove(rig.client, mc_view_str("a"), true),
                     MC_OK);
    ck_assert(stamp_read(buffer.data, buffer.len, &stamp) && stamp == 11);
    mc_client_release_buffer(rig.client, &buffer);
    ck_assert(!buffer.data && buffer.len == 0 && !buffer.owner);
    mc_client_release_buffer(rig.client, &buffer); /* nothing to release */
    mc_client_release_buffer(rig.client, NULL);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

START_TEST(a_miss_hands_out_nothing)
{
    struct mc_buffer buffer = {.len = 7};
    open_buffer(MIB);
    ck_assert_int_eq(get("none", &buffer), MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_uint_eq(buffer.len, 7);
    ck_assert_int_eq(get("", &buffer), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_client_get_buffer(rig.client, mc_view_str("none"), NULL),
        MC_ERR_INVALID_PARAMS);
    client_close(&rig);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_until_something_is_given_back)
{
    struct mc_buffer buffers[3] = {{NULL, 0, NULL}};
    open_buffer(MIB);
    put("a", 500 * KIB, 1);
    put("b", 500 * KIB, 2);
    put("c", 500 * KIB, 3);
    put("large", 2 * MIB, 4);
    ck_assert_int_eq(get("a", &buffers[0]), MC_OK);
    ck_assert_int_eq(get("b", &buffers[1]), MC_OK);
    ck_assert_int_eq(get("c", &buffers[2]), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_ptr_null(buffers[2].data);
    mc_client_release_buffer(rig.client, &buffers[0]);
    ck_assert_int_eq(get("large", &buffers[0]), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(get("c", &buffers[2]), MC_OK);
    mc_client_release_buffer(rig.client, &buffers[1]);
    mc_client_release_buffer(rig.client, &buffers[2]);
    client_close(&rig);
}
END_TEST

START_TEST(no_local_buffer_hands_out_nothing)
{
    struct mc_buffer buffer = {.data = NULL};
    open_buffer(MC_NONE);
    put("a", 100, 1);
    ck_assert_int_eq(get("a", &buffer), MC_ERR_NO_AVAILABLE_HANDLE);
    client_close(&rig);
}
END_TEST

START_TEST(a_batch_hands_out_what_fits)
{
    const struct mc_view keys[] = {mc_view_str("a"), mc_view_str("none"),
                                   mc_view_str("b"), mc_view_str("c"),
                                   mc_view_str("a")};
    struct mc_buffer buffers[5];
    int64_t results[5];
    uint64_t stamp = 0;
    open_buffer(MIB);
    put("a", 300 * KIB, 1);
    put("b", 400 * KIB, 2);
    put("c", 500 * KIB, 3);
    ck_assert_int_eq(
        mc_client_batch_get_buffer(rig.client, keys, 5, buffers, results),
        MC_OK);
    ck_assert_int_eq(results[0], 300 * KIB);
    ck_assert_int_eq(results[1], MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(results[2], 400 * KIB);
    ck_assert_int_eq(results[3], MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(results[4], 300 * KIB);
    ck_assert(!buffers[1].data && !buffers[3].data);
    ck_assert_ptr_ne(buffers[0].data, buffers[4].data);
    ck_assert(stamp_read(buffers[4].data, buffers[4].len, &stamp) &&
              stamp == 1);
    ck_assert(stamp_read(buffers[2].data, buffers[2].len, &stamp) &&
              stamp == 2);
    for (int i = 0; i < 5; i++) {
        mc_client_release_buffer(rig.client, &buffers[i]);
    }
    ck_assert_int_eq(
        mc_client_batch_get_buffer(rig.client, keys, 5, NULL, results),
        MC_ERR_INVALID_PARAMS);
    client_close(&rig);
}
END_TEST

/* J8: nothing leaks, whoever comes when it is full. */
enum { TURNS = 400, PARTS = 4 };

static void *take_and_give(void *ctx)
{
    const size_t id = (size_t)(uintptr_t)ctx;
    uint8_t part[64 * KIB];
    struct mc_span parts[PARTS];
    char key[] = {(char)('a' + (char)id), '\0'};
    uintptr_t faults = 0;
    for (uint64_t i = 0; i < TURNS; i++) {
        struct mc_buffer buffer = {.data = NULL};
        uint64_t stamp = 0;
        stamp_fill(part, sizeof part, id * TURNS + i);
        for (size_t k = 0; k < PARTS; k++) {
            parts[k] = (struct mc_span){part, sizeof part};
        }
        enum mc_err err = mc_client_upsert_parts(rig.client, mc_view_str(key),
                                                 parts, PARTS, NULL);
        faults += err != MC_OK && err != MC_ERR_NO_AVAILABLE_HANDLE;
        err = get(key, &buffer);
        if (err == MC_OK) {
            faults += !stamp_read(buffer.data, buffer.len, &stamp) ||
                      buffer.len != PARTS * sizeof part;
        } else {
            faults += err != MC_ERR_NO_AVAILABLE_HANDLE &&
                      err != MC_ERR_OBJECT_NOT_FOUND;
        }
        mc_client_release_buffer(rig.client, &buffer);
    }
    return (void *)faults;
}

START_TEST(many_threads_share_a_small_buffer_and_nothing_leaks)
{
    pthread_t threads[4];
    struct mc_buffer whole = {.data = NULL};
    const struct mc_client_opts opts = {
        .segment_bytes = 8 * MIB,
        .no_prefault = true,
        .local_buffer_bytes = 512 * KIB,
        .store = {.default_kv_lease_ttl_ms = 200},
        .events = {.overflow = MC_PUBLISHER_DROP_OLDEST}};
    client_open(&rig, &opts);
    mci_event_log_detach(rig.log);
    for (uintptr_t i = 0; i < 4; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, take_and_give, (void *)i), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *faults = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &faults), 0);
        ck_assert_uint_eq((uintptr_t)faults, 0);
    }
    uint8_t *value = must_alloc(512 * KIB); /* all of the buffer */
    ck_assert(AWAIT(client_put(&rig, "whole", value, 512 * KIB) == MC_OK));
    free(value);
    ck_assert_int_eq(get("whole", &whole), MC_OK);
    mc_client_release_buffer(rig.client, &whole);
    client_close_detached(&rig);
}
END_TEST

static TCase *buffers(void)
{
    TCase *tcase = tcase_create("buffers");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_buffer_holds_the_object_until_it_is_released);
    tcase_add_test(tcase, a_miss_hands_out_nothing);
    tcase_add_test(tcase,
                   what_does_not_fit_is_refused_until_something_is_given_back);
    tcase_add_test(tcase, no_local_buffer_hands_out_nothing);
    tcase_add_test(tcase, a_batch_hands_out_what_fits);
    tcase_add_test(tcase, many_threads_share_a_small_buffer_and_nothing_leaks);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client buffers");
    suite_add_tcase(suite, buffers());
    return suite_run(suite);
}
