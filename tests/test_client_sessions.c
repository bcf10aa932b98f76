/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_sessions.c - sessions by key and by handle, row by row of what
 * others promise; C1, C2, C6, C8, C12 of the known faults. */
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "await.h"
#include "client.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "mc_client_sessions.h"
#include "mci_client.h"
#include "mci_clock.h"
#include "suite.h"

#define PAGE 1024
#define LAYERS 4
#define LEN ((size_t)PAGE * LAYERS)

static struct client_rig rig;
static uint8_t source[2][LEN];
static uint8_t target[2][LEN];
static const struct mc_view none = {NULL, 0};

static void open_rig(void)
{
    client_open(&rig, NULL);
    for (size_t i = 0; i < LEN; i++) {
        source[0][i] = (uint8_t)(i * 7 + i / 256);
        source[1][i] = (uint8_t)(i * 11 + 3);
    }
    memset(target, 0xcc, sizeof target);
    (void)client_events(&rig);
}

static struct mc_view key_of(const char *text)
{
    return mc_view_str(text);
}

/* ---- one key at a time ------------------------------------------------------ */

static int64_t get_start(const char *key)
{
    const struct mc_view view = key_of(key);
    int64_t result = 7;
    enum mc_err err =
        mc_client_batch_get_session_start(rig.client, &view, 1, &result);
    ck_assert(err == MC_OK || err == result);
    return result;
}

static void get_end(const char *key)
{
    const struct mc_view view = key_of(key);
    int64_t result = 7;
    ck_assert_int_eq(
        mc_client_batch_get_session_end(rig.client, &view, 1, &result), MC_OK);
    ck_assert_int_eq(result, 0);
}

static int64_t get_range(const char *key, void *data, uint64_t offset,
                         uint64_t len)
{
    const struct mc_view view = key_of(key);
    const struct mc_fragment fragment = {data, offset, len};
    const struct mc_fragments fragments = {&fragment, 1};
    int64_t result = 7;
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffer_ranges(
                         rig.client, &view, &fragments, 1, &result),
                     MC_OK);
    return result;
}

static int64_t put_start(const char *key, uint64_t size, const char *tag,
                         bool complete)
{
    const struct mc_view view = key_of(key);
    const struct mc_view session = tag ? mc_view_str(tag) : none;
    const struct mc_replicate_config config = {
        .session_ids = &session, .session_id_count = 1, .complete = complete};
    int64_t result = 7;
    enum mc_err err = mc_client_batch_put_session_start(
        rig.client, &view, &size, &config, 1, &result);
    ck_assert(err == MC_OK || err == result);
    return result;
}

static int64_t put_range(const char *key, void *data, uint64_t offset,
                         uint64_t len)
{
    const struct mc_view view = key_of(key);
    const struct mc_fragment fragment = {data, offset, len};
    const struct mc_fragments fragments = {&fragment, 1};
    int64_t result = 7;
    ck_assert_int_eq(mc_client_batch_put_from_multi_buffer_ranges(
                         rig.client, &view, &fragments, 1, &result),
                     MC_OK);
    return result;
}

static int64_t put_end(const char *key)
{
    const struct mc_view view = key_of(key);
    int64_t result = 7;
    ck_assert_int_eq(
        mc_client_batch_put_session_end(rig.client, &view, 1, &result), MC_OK);
    return result;
}

static int64_t put_revoke(const char *key)
{
    const struct mc_view view = key_of(key);
    int64_t result = 7;
    ck_assert_int_eq(
        mc_client_batch_put_session_revoke(rig.client, &view, 1, &result),
        MC_OK);
    return result;
}

static void put_whole(const char *key, size_t which)
{
    ck_assert_int_eq(client_put(&rig, key, source[which], LEN), MC_OK);
}

/* ---- the seed's own example ----------------------------------------------------- */

START_TEST(layers_go_in_and_come_out)
{
    const struct mc_view keys[] = {key_of("block0"), key_of("block1")};
    const struct mc_view tags[] = {key_of("conv-1"), key_of("conv-2")};
    const uint64_t sizes[] = {LEN, LEN};
    const struct mc_replicate_config config = {.session_ids = tags,
                                               .session_id_count = 2};
    int64_t results[2];
    open_rig();
    ck_assert_int_eq(mc_client_batch_put_session_start(rig.client, keys, sizes,
                                                       &config, 2, results),
                     MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const uint64_t at = layer * PAGE;
        const struct mc_fragment rows[] = {{source[0] + at, at, PAGE},
                                           {source[1] + at, at, PAGE}};
        const struct mc_fragments fragments[] = {{&rows[0], 1}, {&rows[1], 1}};
        ck_assert_int_eq(mc_client_batch_put_from_multi_buffer_ranges(
                             rig.client, keys, fragments, 2, results),
                         MC_OK);
        ck_assert(results[0] == PAGE && results[1] == PAGE);
        ck_assert_int_eq(client_probe(&rig, "block0").state, MC_OBJECT_WRITING);
    }
    ck_assert_str_eq(client_events(&rig), "");
    ck_assert_int_eq(
        mc_client_batch_put_session_end(rig.client, keys, 2, results), MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0);
    ck_assert_str_eq(client_events(&rig),
                     "+cpu:block0#conv-1 +cpu:block1#conv-2");
    ck_assert_int_eq(
        mc_client_batch_get_session_start(rig.client, keys, 2, results), MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const uint64_t at = layer * PAGE;
        const struct mc_fragment rows[] = {{target[0] + at, at, PAGE},
                                           {target[1] + at, at, PAGE}};
        const struct mc_fragments fragments[] = {{&rows[0], 1}, {&rows[1], 1}};
        ck_assert_int_eq(mc_client_batch_get_into_multi_buffer_ranges(
                             rig.client, keys, fragments, 2, results),
                         MC_OK);
        ck_assert(results[0] == PAGE && results[1] == PAGE);
    }
    ck_assert_int_eq(
        mc_client_batch_get_session_end(rig.client, keys, 2, results), MC_OK);
    ck_assert_mem_eq(target, source, sizeof source);
    client_close(&rig);
}
END_TEST

/* ---- reading, row by row ---------------------------------------------------------- */

START_TEST(a_get_session_says_what_it_finds)
{
    const struct mc_view bad = mc_view_make("\xff", 1);
    int64_t result = 7;
    open_rig();
    put_whole("a", 0);
    ck_assert_int_eq(put_start("open", LEN, NULL, false), 0);
    ck_assert_int_eq(get_start("nothing"), MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(get_start("open"), MC_ERR_REPLICA_IS_NOT_READY);
    ck_assert_int_eq(
        mc_client_batch_get_session_start(rig.client, &bad, 1, &result), MC_OK);
    ck_assert_int_eq(result, MC_ERR_INVALID_KEY);
    ck_assert_int_eq(
        mc_client_batch_get_session_start(rig.client, NULL, 0, NULL), MC_OK);
    ck_assert_int_eq(get_range("a", target[0], 0, 1), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(get_start("a"), 0);
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), (int64_t)LEN);
    ck_assert_mem_eq(target[0], source[0], LEN);
    get_end("a");
    ck_assert_int_eq(get_range("a", target[0], 0, 1), MC_ERR_INVALID_PARAMS);
    get_end("a"); /* unknown ones are passed over */
    client_close(&rig);
}
END_TEST

START_TEST(a_row_that_is_wrong_leaves_its_neighbours_alone)
{
    const struct mc_view keys[] = {key_of("a"), key_of("b"), key_of("a"),
                                   key_of("b")};
    const struct mc_fragment whole = {target[0], 0, LEN};
    const struct mc_fragment outside[] = {{target[1], 0, 1},
                                          {target[1], LEN - 1, 2}};
    const struct mc_fragment nowhere = {NULL, 0, 1};
    const struct mc_fragments fragments[] = {
        {&whole, 1}, {outside, 2}, {NULL, 0}, {&nowhere, 1}};
    int64_t results[4] = {7, 7, 7, 7};
    open_rig();
    put_whole("a", 0);
    put_whole("b", 1);
    ck_assert_int_eq(get_start("a"), 0);
    ck_assert_int_eq(get_start("b"), 0);
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffer_ranges(
                         rig.client, keys, fragments, 4, results),
                     MC_OK);
    ck_assert_int_eq(results[0], (int64_t)LEN);
    ck_assert_int_eq(results[1], MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(results[2], 0); /* nothing asked for, nothing read */
    ck_assert_int_eq(results[3], MC_ERR_INVALID_PARAMS);
    ck_assert_mem_eq(target[0], source[0], LEN);
    ck_assert_uint_eq(target[1][0], 0xcc);
    client_close(&rig);
}
END_TEST

/* Two users of one key in a process. */
START_TEST(uses_of_a_key_are_counted)
{
    open_rig();
    put_whole("a", 0);
    ck_assert_int_eq(get_start("a"), 0);
    ck_assert_int_eq(get_start("a"), 0);
    get_end("a");
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), (int64_t)LEN);
    get_end("a");
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), MC_ERR_INVALID_PARAMS);
    client_close(&rig);
}
END_TEST

START_TEST(a_key_that_comes_twice_is_used_twice)
{
    const struct mc_view keys[] = {key_of("a"), key_of("a")};
    int64_t results[2] = {7, 7};
    open_rig();
    put_whole("a", 0);
    ck_assert_int_eq(
        mc_client_batch_get_session_start(rig.client, keys, 2, results), MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0);
    get_end("a");
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), (int64_t)LEN);
    ck_assert_int_eq(
        mc_client_batch_get_session_end(rig.client, keys, 2, results), MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0);
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), MC_ERR_INVALID_PARAMS);
    client_close(&rig);
}
END_TEST

/* It stands on somebody's disk only. In this process, where the core is at
 * hand. */
START_TEST(what_has_no_copy_in_memory_has_no_session)
{
    const struct mc_view key = key_of("a");
    int64_t result = 7;
    if (client_link()) {
        return;
    }
    open_rig();
    put_whole("a", 0);
    const struct mci_call call = mci_client_call(rig.client);
    struct mci_disk_row row = {.key = key,
                               .version = client_probe(&rig, "a").version};
    ck_assert_int_eq(mci_master_offloaded(rig.client->master, &call, &row, 1),
                     MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_int_eq(mci_master_replica_clear(rig.client->master, &call, &key,
                                              1, rig.client->segment_id,
                                              &result),
                     MC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(get_start("a"), MC_ERR_INVALID_REPLICA);
    ck_assert_int_eq(get_range("a", target[0], 0, 1), MC_ERR_INVALID_PARAMS);
    client_close(&rig);
}
END_TEST

/* A session reads its version, whatever becomes of the key. */
START_TEST(a_session_keeps_its_version)
{
    open_rig();
    put_whole("a", 0);
    ck_assert_int_eq(get_start("a"), 0);
    ck_assert_int_eq(client_upsert(&rig, "a", source[1], LEN), MC_OK);
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), (int64_t)LEN);
    ck_assert_mem_eq(target[0], source[0], LEN);
    ck_assert_int_eq(mc_client_remove(rig.client, key_of("a"), true), MC_OK);
    ck_assert_int_eq(get_range("a", target[1], 0, LEN), (int64_t)LEN);
    ck_assert_mem_eq(target[1], source[0], LEN);
    get_end("a");
    ck_assert_int_eq(get_start("a"), MC_ERR_OBJECT_NOT_FOUND);
    client_close(&rig);
}
END_TEST

static bool all_is_free(void)
{
    struct mc_client_stats stats;
    mc_client_stat(rig.client, &stats);
    return stats.allocated_bytes == 0;
}

START_TEST(the_end_gives_the_version_back)
{
    open_rig();
    put_whole("a", 0);
    ck_assert_int_eq(get_start("a"), 0);
    ck_assert_int_eq(mc_client_remove(rig.client, key_of("a"), true), MC_OK);
    ck_assert(!all_is_free());
    get_end("a");
    ck_assert(AWAIT(all_is_free())); /* long before the lease is over */
    client_close(&rig);
}
END_TEST

/* ---- writing, row by row ------------------------------------------------------------ */

START_TEST(a_put_session_says_what_it_finds)
{
    const struct mc_view twice[] = {key_of("t"), key_of("t")};
    const uint64_t sizes[] = {LEN, LEN};
    int64_t results[2] = {7, 7};
    open_rig();
    put_whole("there", 0);
    ck_assert_int_eq(put_start("there", LEN, NULL, false),
                     MC_ERR_OBJECT_ALREADY_EXISTS);
    ck_assert_int_eq(put_start("big", 64 * MIB, NULL, false),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(put_start("none", 0, NULL, false), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_range("a", source[0], 0, 1), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_end("a"), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_revoke("a"), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_batch_put_session_start(rig.client, twice, sizes,
                                                       NULL, 2, results),
                     MC_OK);
    ck_assert_int_eq(results[0], 0);
    ck_assert_int_eq(results[1], MC_ERR_OBJECT_ALREADY_EXISTS);
    ck_assert_int_eq(put_start("t", LEN, NULL, false), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_range("t", source[0], 0, LEN), (int64_t)LEN);
    ck_assert_int_eq(
        mc_client_batch_put_session_end(rig.client, twice, 2, results), MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0);
    ck_assert_int_eq(put_end("t"), MC_ERR_INVALID_PARAMS);
    client_close(&rig);
}
END_TEST

START_TEST(a_config_that_cannot_be_is_refused_whole)
{
    static const struct {
        struct mc_replicate_config config;
        enum mc_err code;
    } rows[] = {
        {{.nof_replica_num = 1}, MC_ERR_INVALID_PARAMS},
        {{.replica_num = 1, .nof_replica_num = 1}, MC_ERR_INVALID_PARAMS},
        {{.dfs_replica_num = 1}, MC_ERR_DFS_SERVICE_UNAVAILABLE},
        {{.group_id_count = 1}, MC_ERR_INVALID_PARAMS},
    };
    const struct mc_view keys[] = {key_of("a"), key_of("b")};
    const uint64_t sizes[] = {LEN, LEN};
    open_rig();
    char *before = client_state(&rig);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t results[2] = {7, 7};
        ck_assert_int_eq(
            mc_client_batch_put_session_start(rig.client, keys, sizes,
                                              &rows[i].config, 2, results),
            rows[i].code);
        ck_assert(results[0] == rows[i].code && results[1] == rows[i].code);
    }
    ck_assert_int_eq(mc_client_batch_put_session_start(rig.client, keys, NULL,
                                                       NULL, 2, NULL),
                     MC_ERR_INVALID_PARAMS);
    EXPECT_CLIENT_UNCHANGED(&rig, before);
    free(before);
    client_close(&rig);
}
END_TEST

/* Its vectors stand by row of the call, also where some keys have sessions. */
START_TEST(vectors_stay_with_their_rows)
{
    const struct mc_view keys[] = {key_of("a"), key_of("b"), key_of("c")};
    const struct mc_view tags[] = {key_of("ta"), key_of("tb"), key_of("tc")};
    const struct mc_view groups[] = {key_of("ga"), key_of("gb"), key_of("gc")};
    const uint64_t sizes[] = {LEN, LEN, LEN};
    const struct mc_replicate_config config = {.session_ids = tags,
                                               .session_id_count = 3,
                                               .group_ids = groups,
                                               .group_id_count = 3};
    const struct mc_replicate_config short_one = {.session_ids = tags,
                                                  .session_id_count = 2};
    int64_t results[3] = {7, 7, 7};
    open_rig();
    ck_assert_int_eq(put_start("b", LEN, "mine", false), 0);
    ck_assert_int_eq(mc_client_batch_put_session_start(rig.client, keys, sizes,
                                                       &short_one, 3, results),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(results[2], MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_batch_put_session_start(rig.client, keys, sizes,
                                                       &config, 3, results),
                     MC_OK);
    ck_assert_int_eq(results[0], 0);
    ck_assert_int_eq(results[1], MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(results[2], 0);
    ck_assert_int_eq(
        mc_client_batch_put_session_end(rig.client, keys, 3, results), MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0 && results[2] == 0);
    ck_assert_str_eq(client_events(&rig), "+cpu:a#ta@ga +cpu:b#mine "
                                          "+cpu:c#tc@gc");
    client_close(&rig);
}
END_TEST

START_TEST(holes_are_filled_with_zeros)
{
    static const uint8_t zeros[LEN];
    const struct mc_view key = key_of("a");
    uint64_t size = 0;
    open_rig();
    put_whole("before", 1); /* what the space held is not to be seen */
    ck_assert_int_eq(mc_client_remove(rig.client, key_of("before"), true),
                     MC_OK);
    ck_assert_int_eq(put_start("a", LEN, NULL, false), 0);
    ck_assert_int_eq(put_range("a", source[0] + PAGE, PAGE, PAGE), PAGE);
    ck_assert_int_eq(put_range("a", source[0] + 3 * PAGE, 3 * PAGE, 10), 10);
    ck_assert_int_eq(put_end("a"), 0);
    ck_assert_int_eq(mc_client_get_into(rig.client, key, target[0], LEN, &size),
                     MC_OK);
    ck_assert_uint_eq(size, LEN);
    ck_assert_mem_eq(target[0], zeros, PAGE);
    ck_assert_mem_eq(target[0] + PAGE, source[0] + PAGE, PAGE);
    ck_assert_mem_eq(target[0] + 2 * PAGE, zeros, PAGE);
    ck_assert_mem_eq(target[0] + 3 * PAGE, source[0] + 3 * PAGE, 10);
    ck_assert_mem_eq(target[0] + 3 * PAGE + 10, zeros, PAGE - 10);
    client_close(&rig);
}
END_TEST

/* Longer than one batch of zeros, and not a multiple of anything. */
START_TEST(a_large_hole_is_filled_as_well)
{
    const struct mc_client_opts opts = {.segment_bytes = 64 * MIB};
    const struct mc_view key = key_of("a");
    const uint64_t len = 20 * MIB + 12345;
    struct mc_span span = {malloc(len), len};
    uint64_t size = 0;
    client_open(&rig, &opts);
    memset(span.data, 0xcc, len);
    ck_assert_int_eq(client_put(&rig, "before", span.data, len), MC_OK);
    ck_assert_int_eq(mc_client_remove(rig.client, key_of("before"), true),
                     MC_OK);
    ck_assert_int_eq(put_start("a", len, NULL, false), 0);
    ck_assert_int_eq(put_range("a", span.data, 77777, 1), 1);
    ck_assert_int_eq(put_end("a"), 0);
    ck_assert_int_eq(mc_client_get_into(rig.client, key, span.data, len, &size),
                     MC_OK);
    const uint8_t *bytes = span.data;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < len; i++) {
        wrong += bytes[i] != (i == 77777 ? 0xcc : 0);
    }
    ck_assert_uint_eq(wrong, 0);
    free(span.data);
    client_close(&rig);
}
END_TEST

START_TEST(who_wants_it_complete_is_told_of_the_first_hole)
{
    const struct mc_view key = key_of("a");
    const uint64_t len = LEN;
    const struct mc_replicate_config config = {.complete = true};
    const struct mc_fragment first = {source[0], 0, PAGE};
    const struct mc_fragment rest = {source[0] + PAGE, PAGE, LEN - PAGE};
    const struct mc_fragments fragments[] = {{&first, 1}, {&rest, 1}};
    struct mc_put_session *session = NULL;
    int64_t result = 7;
    uint64_t from = 0;
    uint64_t hole = 0;
    open_rig();
    ck_assert_int_eq(mc_client_put_sessions_open(rig.client, &key, &len,
                                                 &config, 1, &session, &result),
                     MC_OK);
    ck_assert_int_eq(mc_client_put_sessions_write(rig.client, &session,
                                                  &fragments[0], 1, 0, &result),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_put_sessions_end(rig.client, &session, 1, 0, &result), MC_OK);
    ck_assert_int_eq(result, MC_ERR_INVALID_WRITE);
    ck_assert(mc_client_put_session_hole(rig.client, session, &from, &hole));
    ck_assert(from == PAGE && hole == LEN - PAGE);
    ck_assert_int_eq(mc_client_put_sessions_write(rig.client, &session,
                                                  &fragments[1], 1, 0, &result),
                     MC_OK); /* it is open still */
    ck_assert_int_eq(result, (int64_t)(LEN - PAGE));
    ck_assert(!mc_client_put_session_hole(rig.client, session, &from, &hole));
    ck_assert_int_eq(
        mc_client_put_sessions_end(rig.client, &session, 1, 0, &result), MC_OK);
    ck_assert_int_eq(result, 0);
    client_close(&rig);
}
END_TEST

START_TEST(a_revoked_session_leaves_no_trace)
{
    open_rig();
    ck_assert_int_eq(put_start("a", LEN, "tag", false), 0);
    ck_assert_int_eq(put_range("a", source[0], 0, LEN), (int64_t)LEN);
    ck_assert_int_eq(put_revoke("a"), 0);
    ck_assert_int_eq(put_revoke("a"), MC_ERR_INVALID_PARAMS);
    ck_assert_str_eq(client_events(&rig), "");
    ck_assert(AWAIT(all_is_free()));
    ck_assert_int_eq(put_start("a", LEN, NULL, false), 0);
    ck_assert_int_eq(put_revoke("a"), 0);
    client_close(&rig);
}
END_TEST

/* Another write of the key became readable first. */
START_TEST(an_end_that_comes_second_drops_its_bytes)
{
    uint64_t size = 0;
    open_rig();
    ck_assert_int_eq(put_start("a", LEN, "late", false), 0);
    ck_assert_int_eq(put_range("a", source[0], 0, LEN), (int64_t)LEN);
    ck_assert_int_eq(client_upsert(&rig, "a#first", source[1], LEN), MC_OK);
    ck_assert_int_eq(put_end("a"), 0);
    ck_assert_str_eq(client_events(&rig), "+cpu:a#first");
    ck_assert_int_eq(
        mc_client_get_into(rig.client, key_of("a"), target[0], LEN, &size),
        MC_OK);
    ck_assert_mem_eq(target[0], source[1], LEN);
    client_close(&rig);
}
END_TEST

/* ---- offsets and lengths ------------------------------------------------------------- */

#define SMALL 100

static const uint64_t edges[] = {0,
                                 1,
                                 SMALL - 1,
                                 SMALL,
                                 SMALL + 1,
                                 UINT64_C(1) << 31,
                                 UINT64_C(1) << 32,
                                 UINT64_C(1) << 63,
                                 UINT64_MAX};
#define EDGES (sizeof edges / sizeof edges[0])

static bool fits(uint64_t offset, uint64_t len)
{
    return len <= SMALL && offset <= SMALL - len;
}

START_TEST(no_range_that_is_read_wraps)
{
    const struct mc_view keys[] = {key_of("n1"), key_of("m"), key_of("n2")};
    open_rig();
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(
            mc_client_put(rig.client, keys[i], source[0], SMALL, NULL), MC_OK);
    }
    int64_t results[3];
    ck_assert_int_eq(
        mc_client_batch_get_session_start(rig.client, keys, 3, results), MC_OK);
    for (size_t i = 0; i < EDGES * EDGES; i++) {
        uint64_t offset = edges[i / EDGES];
        uint64_t len = edges[i % EDGES];
        const struct mc_fragment rows[] = {{target[0], 0, SMALL},
                                           {target[1] + SMALL, offset, len},
                                           {target[0] + SMALL, 0, SMALL}};
        const struct mc_fragments fragments[] = {
            {&rows[0], 1}, {&rows[1], 1}, {&rows[2], 1}};
        memset(target, 0xcc, sizeof target);
        ck_assert_int_eq(mc_client_batch_get_into_multi_buffer_ranges(
                             rig.client, keys, fragments, 3, results),
                         MC_OK);
        ck_assert(results[0] == SMALL && results[2] == SMALL);
        ck_assert_int_eq(results[1], fits(offset, len) ? (int64_t)len
                                                       : MC_ERR_INVALID_PARAMS);
        size_t moved = fits(offset, len) ? (size_t)len : 0;
        ck_assert_mem_eq(target[0], source[0], SMALL);
        ck_assert_mem_eq(target[0] + SMALL, source[0], SMALL);
        if (moved > 0) {
            ck_assert_mem_eq(target[1] + SMALL, source[0] + offset, moved);
        }
        ck_assert_uint_eq(target[1][SMALL - 1], 0xcc);
        ck_assert_uint_eq(target[1][SMALL + moved], 0xcc);
    }
    client_close(&rig);
}
END_TEST

/* Each into an object of its own, whose other bytes stay zero, and whose
 * neighbours are written by the same call. */
START_TEST(no_range_that_is_written_wraps)
{
    static const uint8_t zeros[SMALL];
    open_rig();
    for (size_t i = 0; i < EDGES * EDGES; i++) {
        const struct mc_view keys[] = {key_of("n1"), key_of("m"), key_of("n2")};
        const uint64_t sizes[] = {SMALL, SMALL, SMALL};
        uint64_t offset = edges[i / EDGES];
        uint64_t len = edges[i % EDGES];
        const struct mc_fragment rows[] = {{source[0], 0, SMALL},
                                           {source[1], offset, len},
                                           {source[0], 0, SMALL}};
        const struct mc_fragments fragments[] = {
            {&rows[0], 1}, {&rows[1], 1}, {&rows[2], 1}};
        size_t moved = fits(offset, len) ? (size_t)len : 0;
        int64_t results[3];
        uint64_t removed = 0;
        ck_assert_int_eq(mc_client_batch_put_session_start(
                             rig.client, keys, sizes, NULL, 3, results),
                         MC_OK);
        ck_assert_int_eq(mc_client_batch_put_from_multi_buffer_ranges(
                             rig.client, keys, fragments, 3, results),
                         MC_OK);
        ck_assert(results[0] == SMALL && results[2] == SMALL);
        ck_assert_int_eq(results[1], fits(offset, len) ? (int64_t)len
                                                       : MC_ERR_INVALID_PARAMS);
        ck_assert_int_eq(
            mc_client_batch_put_session_end(rig.client, keys, 3, results),
            MC_OK);
        ck_assert(results[0] == 0 && results[1] == 0 && results[2] == 0);
        for (size_t k = 0; k < 3; k++) {
            ck_assert_int_eq(
                mc_client_get_into(rig.client, keys[k], target[0], LEN, NULL),
                MC_OK);
            if (k != 1) {
                ck_assert_mem_eq(target[0], source[0], SMALL);
                continue;
            }
            size_t at = moved > 0 ? (size_t)offset : 0;
            ck_assert_mem_eq(target[0] + at, source[1], moved);
            ck_assert_mem_eq(target[0], zeros, at);
            ck_assert_mem_eq(target[0] + at + moved, zeros, SMALL - at - moved);
        }
        ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed),
                         MC_OK);
    }
    client_close(&rig);
}
END_TEST

/* ---- no word to the master -------------------------------------------------------------- */

static uint64_t calls(void)
{
    struct mci_remote_stats stats;
    mci_remote_stat(mci_client_outside(rig.client)->remote, &stats);
    return stats.calls;
}

/* Of an embedded store there is nothing but holds to be had meanwhile: anything
 * else would crash. */
START_TEST(ranges_make_no_control_call)
{
    open_rig();
    put_whole("a", 0);
    ck_assert_int_eq(get_start("a"), 0);
    ck_assert_int_eq(put_start("b", LEN, NULL, false), 0);
    ck_assert_int_eq(get_range("a", target[0], 0, 1), 1); /* who lends it */
    ck_assert_int_eq(put_range("b", source[0], 0, 1), 1);
    const struct mci_link_ops *ops = rig.client->link.ops;
    const struct mci_link_ops holds = {.lease_hold = ops->lease_hold,
                                       .release = ops->release};
    uint64_t before = client_link() ? calls() : 0;
    if (!client_link()) {
        rig.client->link.ops = &holds;
    }
    for (size_t i = 0; i < LAYERS; i++) {
        ck_assert_int_eq(get_range("a", target[0], i * PAGE, PAGE), PAGE);
        ck_assert_int_eq(put_range("b", source[1], i * PAGE, PAGE), PAGE);
        ck_assert_int_eq(put_range("b", source[1], LEN, 1),
                         MC_ERR_INVALID_PARAMS);
    }
    rig.client->link.ops = ops;
    ck_assert_uint_eq(client_link() ? calls() : 0, before);
    ck_assert_int_eq(put_end("b"), 0);
    get_end("a");
    client_close(&rig);
}
END_TEST

/* ---- time ------------------------------------------------------------------------------ */

static uint64_t now_ns; /* of all, while a test turns it */

static void open_turned(const struct mc_store_opts *store)
{
    const struct mc_client_opts opts = {.segment_bytes = MIB, .store = *store};
    now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    client_open(&rig, &opts);
    stamp_fill(source, sizeof source, 17);
}

static void close_turned(void)
{
    client_close(&rig);
    mci_clock_fake(NULL);
}

static void pass(uint64_t ms)
{
    __atomic_fetch_add(&now_ns, ms * MCI_NS_PER_MS, __ATOMIC_SEQ_CST);
}

/* C12: a lease that nobody could renew in time; it is said, and start is how the
 * session is had anew. */
START_TEST(an_expired_session_says_so_and_is_had_anew)
{
    const struct mc_store_opts store = {.default_kv_lease_ttl_ms = 1000};
    open_turned(&store);
    put_whole("a", 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(get_start("a"), 0);
        ck_assert_int_eq(get_range("a", target[0], 0, LEN), (int64_t)LEN);
        pass(1500);
        ck_assert_int_eq(get_range("a", target[0], 0, LEN),
                         MC_ERR_LEASE_EXPIRED);
        ck_assert_int_eq(get_range("a", target[0], 0, LEN),
                         MC_ERR_INVALID_PARAMS); /* dropped */
        get_end("a");
    }
    /* One that starts again before it has asked for anything. */
    ck_assert_int_eq(get_start("a"), 0);
    pass(1500);
    ck_assert_int_eq(get_start("a"), 0);
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), (int64_t)LEN);
    get_end("a");
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), MC_ERR_INVALID_PARAMS);
    close_turned();
}
END_TEST

/* The answer takes longer than the lease that it brings. */
static const struct mci_link_ops *real_ops;

static enum mc_err slow_get(void *ctx, const struct mci_call *call,
                            struct mci_read_row *rows, size_t count)
{
    enum mc_err err = real_ops->get(ctx, call, rows, count);
    pass(1500);
    return err;
}

START_TEST(a_lease_that_is_over_on_arrival_is_no_session)
{
    const struct mc_store_opts store = {.default_kv_lease_ttl_ms = 1000};
    open_turned(&store);
    put_whole("a", 0);
    real_ops = rig.client->link.ops;
    struct mci_link_ops slow = *real_ops;
    slow.get = slow_get;
    rig.client->link.ops = &slow;
    ck_assert_int_eq(get_start("a"), MC_ERR_LEASE_EXPIRED);
    ck_assert_int_eq(get_range("a", target[0], 0, 1), MC_ERR_INVALID_PARAMS);
    close_turned(); /* others look at the functions until then */
}
END_TEST

static enum mc_err slow_hold(void *ctx, const struct mci_call *call,
                             struct mci_read_row *rows, size_t count)
{
    enum mc_err err = real_ops->lease_hold(ctx, call, rows, count);
    pass(1500);
    return err;
}

/* Before it there was time, and after it there is none. Over a socket it is the
 * same look at the clock, and the owner refuses by itself. */
START_TEST(what_comes_after_the_lease_is_void)
{
    const struct mc_store_opts store = {.default_kv_lease_ttl_ms = 1000};
    if (client_link()) {
        return;
    }
    open_turned(&store);
    put_whole("a", 0);
    real_ops = rig.client->link.ops;
    struct mci_link_ops slow = *real_ops;
    slow.lease_hold = slow_hold;
    rig.client->link.ops = &slow;
    ck_assert_int_eq(get_start("a"), 0);
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), MC_ERR_LEASE_EXPIRED);
    ck_assert_int_eq(get_range("a", target[0], 0, LEN), MC_ERR_INVALID_PARAMS);
    close_turned();
}
END_TEST

static bool was_told(const char *key)
{
    struct mci_sessions *sessions = &rig.client->sessions;
    mci_sessions_lock(sessions);
    const struct mc_put_session *session =
        mci_map_get(&sessions->put_keys, key_of(key));
    bool is_told = session && !session->has_written;
    mci_sessions_unlock(sessions);
    return is_told;
}

/* Over a socket heartbeats tell it: test_client_session_faults. */
START_TEST(an_embedded_core_hears_of_who_writes)
{
    const struct mc_store_opts store = {.put_start_release_timeout_ms = 2000};
    if (client_link()) {
        return;
    }
    open_turned(&store);
    ck_assert_int_eq(put_start("a", LEN, NULL, false), 0);
    ck_assert_int_eq(put_start("idle", LEN, NULL, false), 0);
    for (size_t i = 0; i < 20; i++) {
        pass(500);
        ck_assert_int_eq(put_range("a", source[0], (i % LAYERS) * PAGE, PAGE),
                         PAGE);
        ck_assert(AWAIT(was_told("a")));
    }
    ck_assert_int_eq(client_probe(&rig, "a").state, MC_OBJECT_WRITING);
    ck_assert(AWAIT(client_probe(&rig, "idle").state == MC_OBJECT_ABSENT));
    ck_assert_int_eq(put_end("a"), 0);
    ck_assert_int_eq(put_end("idle"), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(put_revoke("idle"), 0);
    close_turned();
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------- */

static bool is_code(int64_t result, int64_t good)
{
    return result == good || result == MC_ERR_NOMEM;
}

static void write_and_read(void)
{
    const struct mc_view key = key_of("x");
    const uint64_t size = LEN;
    int64_t result = 7;
    enum mc_err err = mc_client_batch_put_session_start(rig.client, &key, &size,
                                                        NULL, 1, &result);
    ck_assert(is_code(err, 0) && is_code(result, 0));
    const struct mc_fragment fragment = {source[0] + 1, 1, LEN - 1};
    const struct mc_fragments fragments = {&fragment, 1};
    if (result == 0) {
        err = mc_client_batch_put_from_multi_buffer_ranges(
            rig.client, &key, &fragments, 1, &result);
        ck_assert(is_code(err, 0) && is_code(result, LEN - 1));
        err = mc_client_batch_put_session_end(rig.client, &key, 1, &result);
        ck_assert(is_code(err, 0) && is_code(result, 0));
    }
    err = mc_client_batch_get_session_start(rig.client, &key, 1, &result);
    ck_assert(is_code(err, 0) || err == MC_ERR_INVALID_PARAMS);
    if (result == 0) {
        const struct mc_fragment back = {target[0] + 1, 1, LEN - 1};
        const struct mc_fragments into = {&back, 1};
        err = mc_client_batch_get_into_multi_buffer_ranges(rig.client, &key,
                                                           &into, 1, &result);
        ck_assert(is_code(err, 0) && is_code(result, LEN - 1));
        err = mc_client_batch_get_session_end(rig.client, &key, 1, &result);
        ck_assert_int_eq(err, 0);
    }
}

/* Whatever fails, the key can be written by a session afterwards, and close gives
 * all memory back. */
START_TEST(want_of_memory_is_said_and_leaves_nothing_behind)
{
    struct alloc_fail fail = {.is_shared = true};
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    open_rig(); /* what is made once is made */
    write_and_read();
    client_close(&rig);
    mci_alloc_stats(&before);
    open_rig();
    while (alloc_fail_next(&fail)) {
        uint64_t removed = 0;
        alloc_fail_arm(&fail);
        write_and_read();
        alloc_fail_disarm(&fail);
        (void)put_revoke("x"); /* if it is open still */
        get_end("x");
        ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed),
                         MC_OK);
        ck_assert_int_eq(put_start("x", LEN, NULL, false), 0);
        ck_assert_int_eq(put_range("x", source[0], 0, LEN), (int64_t)LEN);
        ck_assert_int_eq(put_end("x"), 0);
        ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed),
                         MC_OK);
        ck_assert_uint_eq(removed, 1);
    }
    client_close(&rig);
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.bytes, before.bytes);
}
END_TEST

static TCase *reading(void)
{
    TCase *tcase = tcase_create("reading");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, layers_go_in_and_come_out);
    tcase_add_test(tcase, a_get_session_says_what_it_finds);
    tcase_add_test(tcase, a_row_that_is_wrong_leaves_its_neighbours_alone);
    tcase_add_test(tcase, uses_of_a_key_are_counted);
    tcase_add_test(tcase, a_key_that_comes_twice_is_used_twice);
    tcase_add_test(tcase, what_has_no_copy_in_memory_has_no_session);
    tcase_add_test(tcase, a_session_keeps_its_version);
    tcase_add_test(tcase, the_end_gives_the_version_back);
    tcase_add_test(tcase, no_range_that_is_read_wraps);
    tcase_add_test(tcase, ranges_make_no_control_call);
    return tcase;
}

static TCase *writing(void)
{
    TCase *tcase = tcase_create("writing");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_put_session_says_what_it_finds);
    tcase_add_test(tcase, a_config_that_cannot_be_is_refused_whole);
    tcase_add_test(tcase, vectors_stay_with_their_rows);
    tcase_add_test(tcase, holes_are_filled_with_zeros);
    tcase_add_test(tcase, a_large_hole_is_filled_as_well);
    tcase_add_test(tcase, who_wants_it_complete_is_told_of_the_first_hole);
    tcase_add_test(tcase, a_revoked_session_leaves_no_trace);
    tcase_add_test(tcase, an_end_that_comes_second_drops_its_bytes);
    tcase_add_test(tcase, no_range_that_is_written_wraps);
    return tcase;
}

static TCase *passing(void)
{
    TCase *tcase = tcase_create("time and memory");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, an_expired_session_says_so_and_is_had_anew);
    tcase_add_test(tcase, a_lease_that_is_over_on_arrival_is_no_session);
    tcase_add_test(tcase, what_comes_after_the_lease_is_void);
    tcase_add_test(tcase, an_embedded_core_hears_of_who_writes);
    tcase_add_test(tcase, want_of_memory_is_said_and_leaves_nothing_behind);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client sessions");
    suite_add_tcase(suite, reading());
    suite_add_tcase(suite, writing());
    suite_add_tcase(suite, passing());
    return suite_run(suite);
}
