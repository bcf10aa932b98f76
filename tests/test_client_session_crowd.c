/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_session_crowd.c - readers and writers of the same keys by session,
 * beside upserts and removes: nobody reads a mixture; and revokes while ranges
 * move. C10 of the known faults. For TSan. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "mc_client_sessions.h"
#include "suite.h"

#define KEYS 6
#define PAGE 512
#define LAYERS 4
#define LEN ((size_t)PAGE * LAYERS)
#define ROUNDS 1000

static struct client_rig rig;
static atomic_uint reads;  /* sessions read as a whole */
static atomic_uint writes; /* sessions ended with 0 */
static _Atomic uint64_t stamps;

static struct mc_view key_at(char text[8], unsigned i)
{
    (void)snprintf(text, 8, "k%u", i % KEYS);
    return mc_view_str(text);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static int64_t move_by_key(struct mc_view key, uint8_t *data, size_t layer,
                           bool is_write)
{
    const struct mc_fragment fragment = {data + layer * PAGE,
                                         (uint64_t)layer * PAGE, PAGE};
    const struct mc_fragments fragments = {&fragment, 1};
    int64_t result = 7;
    ck_assert_int_eq((is_write ? mc_client_batch_put_from_multi_buffer_ranges
                               : mc_client_batch_get_into_multi_buffer_ranges)(
                         rig.client, &key, &fragments, 1, &result),
                     MC_OK);
    return result;
}

static void read_by_key(struct mc_view key)
{
    uint8_t data[LEN];
    uint64_t stamp = 0;
    int64_t result = 7;
    bool is_whole = true;
    ck_assert_int_eq(
        mc_client_batch_get_session_start(rig.client, &key, 1, &result), MC_OK);
    if (result != 0) {
        ck_assert(result == MC_ERR_OBJECT_NOT_FOUND ||
                  result == MC_ERR_REPLICA_IS_NOT_READY);
        return;
    }
    for (size_t layer = 0; layer < LAYERS; layer++) {
        is_whole &= move_by_key(key, data, layer, false) == PAGE;
    }
    ck_assert(is_whole); /* this use keeps it */
    ck_assert(stamp_read(data, LEN, &stamp));
    atomic_fetch_add(&reads, 1);
    ck_assert_int_eq(mc_client_batch_get_session_end(rig.client, &key, 1, NULL),
                     MC_OK);
}

static void read_by_handle(struct mc_view key)
{
    uint8_t data[LEN];
    uint64_t stamp = 0;
    struct mc_fragment rows[LAYERS];
    const struct mc_fragments fragments = {rows, LAYERS};
    struct mc_get_session *session = NULL;
    int64_t result = 7;
    for (size_t i = 0; i < LAYERS; i++) {
        rows[i] =
            (struct mc_fragment){data + i * PAGE, (uint64_t)i * PAGE, PAGE};
    }
    ck_assert_int_eq(
        mc_client_get_sessions_open(rig.client, &key, 1, &session, &result),
        MC_OK);
    if (result == 0) {
        ck_assert_int_eq(mc_client_get_sessions_read(rig.client, &session,
                                                     &fragments, 1, 0, &result),
                         MC_OK);
        ck_assert_int_eq(result, (int64_t)LEN);
        ck_assert(stamp_read(data, LEN, &stamp));
        atomic_fetch_add(&reads, 1);
    }
    mc_client_get_sessions_close(rig.client, &session, 1);
}

static void write_by_key(struct mc_view key, uint32_t dice)
{
    uint8_t data[LEN];
    const uint64_t size = LEN;
    int64_t result = 7;
    stamp_fill(data, LEN, atomic_fetch_add(&stamps, 1));
    ck_assert_int_eq(mc_client_batch_put_session_start(rig.client, &key, &size,
                                                       NULL, 1, &result),
                     MC_OK);
    if (result != 0) {
        ck_assert(result == MC_ERR_OBJECT_ALREADY_EXISTS ||
                  result == MC_ERR_INVALID_PARAMS ||
                  result == MC_ERR_NO_AVAILABLE_HANDLE);
        return;
    }
    for (size_t layer = 0; layer < LAYERS; layer++) {
        ck_assert_int_eq(move_by_key(key, data, layer, true), PAGE);
    }
    if (dice % 4 == 0) {
        ck_assert_int_eq(
            mc_client_batch_put_session_revoke(rig.client, &key, 1, &result),
            MC_OK);
        ck_assert_int_eq(result, 0);
        return;
    }
    ck_assert_int_eq(
        mc_client_batch_put_session_end(rig.client, &key, 1, &result), MC_OK);
    ck_assert_int_eq(result, 0);
    atomic_fetch_add(&writes, 1);
}

static void *crowd(void *ctx)
{
    uint32_t seed = (uint32_t)(uintptr_t)ctx;
    char text[8];
    for (int i = 0; i < ROUNDS; i++) {
        struct mc_view key = key_at(text, next_random(&seed));
        uint8_t data[LEN];
        switch (next_random(&seed) % 6) {
        case 0:
            read_by_key(key);
            break;
        case 1:
            read_by_handle(key);
            break;
        case 2:
        case 3:
            write_by_key(key, next_random(&seed));
            break;
        case 4:
            stamp_fill(data, LEN, atomic_fetch_add(&stamps, 1));
            ck_assert_int_le(mc_client_upsert(rig.client, key, data, LEN, NULL),
                             MC_OK);
            break;
        default:
            ck_assert_int_le(mc_client_remove(rig.client, key, true), MC_OK);
        }
    }
    return NULL;
}

START_TEST(nobody_reads_a_mixture)
{
    pthread_t threads[4];
    client_open(&rig, NULL);
    mci_event_log_detach(rig.log);
    for (uintptr_t i = 0; i < 4; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, crowd, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_gt(atomic_load(&reads), 0);
    ck_assert_uint_gt(atomic_load(&writes), 0);
    client_close_detached(&rig);
}
END_TEST

/* ---- ranges on their way ------------------------------------------------------ */

#define BIG ((size_t)600 * 1024) /* two of them have no room */

static atomic_uint ranges;

static void *write_on(void *ctx)
{
    const struct mc_view key = mc_view_str("big");
    const struct mc_fragment fragment = {ctx, 0, BIG};
    const struct mc_fragments fragments = {&fragment, 1};
    int64_t result = 0;
    do {
        ck_assert_int_eq(mc_client_batch_put_from_multi_buffer_ranges(
                             rig.client, &key, &fragments, 1, &result),
                         MC_OK);
        ck_assert(result == (int64_t)BIG || result == MC_ERR_INVALID_PARAMS);
        atomic_fetch_add(&ranges, 1);
    } while (result >= 0);
    return NULL;
}

static bool has_started(struct mc_view key)
{
    const uint64_t size = BIG;
    int64_t result = 7;
    ck_assert_int_eq(mc_client_batch_put_session_start(rig.client, &key, &size,
                                                       NULL, 1, &result),
                     MC_OK);
    return result == 0;
}

/* By a session, whose lease is given back at once. */
static void read_big(struct mc_view key, void *data)
{
    const struct mc_fragment fragment = {data, 0, BIG};
    const struct mc_fragments fragments = {&fragment, 1};
    int64_t result = 7;
    ck_assert_int_eq(
        mc_client_batch_get_session_start(rig.client, &key, 1, &result), MC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffer_ranges(
                         rig.client, &key, &fragments, 1, &result),
                     MC_OK);
    ck_assert_int_eq(result, (int64_t)BIG);
    ck_assert_int_eq(mc_client_batch_get_session_end(rig.client, &key, 1, NULL),
                     MC_OK);
}

/* C10: who has the space next has it to himself, as soon as he has it. */
START_TEST(a_revoke_while_ranges_move_leaves_nothing_that_lands)
{
    const struct mc_view key = mc_view_str("big");
    const struct mc_view next = mc_view_str("next");
    uint8_t *old = must_alloc(BIG);
    uint8_t *new = must_alloc(BIG);
    uint8_t *got = must_alloc(BIG);
    client_open(&rig, NULL);
    mci_event_log_detach(rig.log);
    memset(old, 0xaa, BIG);
    memset(new, 0x55, BIG);
    for (int i = 0; i < 20; i++) {
        pthread_t writer;
        int64_t result = 7;
        atomic_store(&ranges, 0);
        ck_assert(AWAIT(has_started(key)));
        ck_assert_int_eq(pthread_create(&writer, NULL, write_on, old), 0);
        ck_assert(AWAIT(atomic_load(&ranges) > 0));
        ck_assert_int_eq(
            mc_client_batch_put_session_revoke(rig.client, &key, 1, &result),
            MC_OK);
        ck_assert_int_eq(result, 0);
        ck_assert(
            AWAIT(mc_client_put(rig.client, next, new, BIG, NULL) == MC_OK));
        ck_assert_int_eq(pthread_join(writer, NULL), 0);
        read_big(next, got);
        ck_assert_mem_eq(got, new, BIG);
        ck_assert_int_eq(mc_client_remove(rig.client, next, true), MC_OK);
    }
    client_close_detached(&rig);
    free(old);
    free(new);
    free(got);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client session crowd");
    TCase *tcase = tcase_create("crowd");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, nobody_reads_a_mixture);
    tcase_add_test(tcase, a_revoke_while_ranges_move_leaves_nothing_that_lands);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
