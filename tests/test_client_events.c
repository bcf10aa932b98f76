/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_events.c - the table of events as users of the client meet it, and
 * what the calls answer beside it: one call, what it says, what it did. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "client_rig.h"
#include "mc_log.h"
#include "sanitized.h"
#include "suite.h"

static struct client_rig rig;
static uint8_t value[256 * KIB];

static void open_rig(void)
{
    client_open(&rig, NULL);
    stamp_fill(value, sizeof value, 1);
}

#define EXPECT_SAID(text) ck_assert_str_eq(client_events(&rig), text)

/* ---- writing ------------------------------------------------------------------ */

START_TEST(put_says_stored_once)
{
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a#s1@g1", value, 100), MC_OK);
    EXPECT_SAID("+cpu:a#s1@g1");
    ck_assert_int_eq(client_put(&rig, "a#s2@g2", value, 200), MC_OK);
    EXPECT_SAID("");
    ck_assert_uint_eq(client_probe(&rig, "a").size, 100);
    ck_assert_uint_eq(client_probe(&rig, "a").media, MC_MEDIUM_CPU);
    client_close(&rig);
}
END_TEST

START_TEST(upsert_says_removed_and_stored_and_keeps_tag_and_group)
{
    open_rig();
    ck_assert_int_eq(client_upsert(&rig, "a#s1@g1", value, 100), MC_OK);
    ck_assert_int_eq(client_upsert(&rig, "a", value, 200), MC_OK);
    ck_assert_int_eq(client_upsert(&rig, "a#s2", value, 100), MC_OK);
    EXPECT_SAID("+cpu:a#s1@g1 -cpu:a#s1@g1&+cpu:a#s1@g1 "
                "-cpu:a#s1@g1&+cpu:a#s2@g1");
    client_close(&rig);
}
END_TEST

START_TEST(an_upsert_into_another_group_is_refused)
{
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a@g1", value, 100), MC_OK);
    ck_assert_int_eq(client_put(&rig, "b", value, 100), MC_OK);
    (void)client_events(&rig);
    char *before = client_state(&rig);
    ck_assert_int_eq(client_upsert(&rig, "a@g2", value, 100),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(client_upsert(&rig, "b@g2", value, 100),
                     MC_ERR_INVALID_PARAMS);
    EXPECT_CLIENT_UNCHANGED(&rig, before);
    free(before);
    client_close(&rig);
}
END_TEST

START_TEST(batches_say_each_row_in_order)
{
    struct mc_view keys[] = {mc_view_str("a"), mc_view_str("b"),
                             mc_view_str("a")};
    struct mc_view values[] = {{value, 10}, {value, 20}, {value, 30}};
    struct mc_view ids[] = {mc_view_str("s1"), mc_view_make(NULL, 0),
                            mc_view_str("s3")};
    struct mc_replicate_config config = {.session_ids = ids,
                                         .session_id_count = 3};
    int64_t results[3];
    open_rig();
    ck_assert_int_eq(
        mc_client_batch_put(rig.client, keys, values, 3, &config, results),
        MC_OK);
    EXPECT_SAID("+cpu:a#s1 +cpu:b");
    ck_assert_int_eq(
        mc_client_batch_upsert(rig.client, keys, values, 3, &config, results),
        MC_OK);
    EXPECT_SAID("-cpu:a#s1&+cpu:a#s1 -cpu:b&+cpu:b -cpu:a#s1&+cpu:a#s3");
    ck_assert_int_eq(
        mc_client_batch_remove(rig.client, keys, 3, false, results), MC_OK);
    EXPECT_SAID("-cpu:a#s3 -cpu:b");
    client_close(&rig);
}
END_TEST

START_TEST(eviction_says_removed)
{
    open_rig();
    for (int i = 0; i < 4; i++) {
        char spec[8];
        (void)snprintf(spec, sizeof spec, "k%d#s%d", i, i);
        ck_assert_int_eq(client_put(&rig, spec, value, sizeof value), MC_OK);
    }
    (void)client_events(&rig);
    ck_assert_int_eq(client_put(&rig, "new", value, sizeof value), MC_OK);
    EXPECT_SAID("-cpu:k0#s0 +cpu:new");
    client_close(&rig);
}
END_TEST

/* The sweep goes by what is allocated, which a put is before it is readable: what
 * it takes out may be said before the put or after it. */
START_TEST(the_background_sweep_makes_room_and_says_so)
{
    struct mc_client_opts opts = {.segment_bytes = MIB,
                                  .store.eviction_high_watermark = 0.6};
    struct mc_client_stats stats;
    client_open(&rig, &opts);
    stamp_fill(value, sizeof value, 1);
    ck_assert_int_eq(client_put(&rig, "k0#s0", value, sizeof value), MC_OK);
    ck_assert_int_eq(client_put(&rig, "k1#s1", value, sizeof value), MC_OK);
    EXPECT_SAID("+cpu:k0#s0 +cpu:k1#s1");
    ck_assert_int_eq(client_put(&rig, "k2#s2", value, sizeof value), MC_OK);
    ck_assert(AWAIT((mc_client_stat(rig.client, &stats),
                     stats.allocated_bytes == 2 * sizeof value)));
    const char *said = client_events(&rig);
    ck_assert_msg(strcmp(said, "+cpu:k2#s2 -cpu:k0#s0") == 0 ||
                      strcmp(said, "-cpu:k0#s0 +cpu:k2#s2") == 0,
                  "%s", said);
    client_close(&rig);
}
END_TEST

/* A write whose end finds the log full leaves nothing behind; its bytes are
 * free, and the key can be written again. */
START_TEST(a_put_on_a_full_log_leaves_nothing_behind)
{
    /* Over a socket what need not wait takes a while too. */
    uint32_t over_socket_ms = SANITIZED ? 5000 : 500;
    struct mc_client_opts opts = {
        .segment_bytes = MIB,
        .timeout_ms = client_link() ? over_socket_ms : 1,
        .events = {.overflow = MC_PUBLISHER_BLOCK,
                   .queue_capacity = MCI_EVENT_LOG_CAPACITY_MIN}};
    client_open(&rig, &opts);
    char key[16] = "";
    enum mc_err err = MC_OK;
    for (int i = 0; err == MC_OK && i < 2000; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        err = client_put(&rig, key, value, 64);
    }
    ck_assert_int_eq(err, MC_ERR_RPC_TIMEOUT);
    ck_assert(!client_has(&rig, key));
    ck_assert_int_eq(client_upsert(&rig, "k0", value, 100), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(client_probe(&rig, "k0").size, 64);
    struct mc_client_stats stats;
    mc_client_stat(rig.client, &stats);
    ck_assert_uint_eq(stats.attempts, 0);
    ck_assert_uint_eq(stats.allocated_bytes, stats.objects * 64);
    (void)client_events(&rig);
    ck_assert_int_eq(client_put(&rig, key, value, 64), MC_OK);
    ck_assert_int_eq(client_upsert(&rig, "k0", value, 100), MC_OK);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

/* ---- reading and asking ---------------------------------------------------------- */

START_TEST(reading_and_asking_say_nothing)
{
    uint8_t got[100];
    uint64_t size;
    bool exists;
    struct mc_view key = mc_view_str("a");
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a", value, 100), MC_OK);
    (void)client_events(&rig);
    uint64_t id = mc_client_last_event_id(rig.client);
    ck_assert_int_eq(
        mc_client_get_into(rig.client, key, got, sizeof got, &size), MC_OK);
    ck_assert_uint_eq(size, 100);
    ck_assert_mem_eq(got, value, 100);
    ck_assert_int_eq(mc_client_exist(rig.client, key, &exists), MC_OK);
    ck_assert(exists);
    ck_assert_int_eq(mc_client_get_size(rig.client, key, &size), MC_OK);
    ck_assert_uint_eq(size, 100);
    (void)client_probe(&rig, "a");
    ck_assert_int_eq(mc_client_exist(rig.client, mc_view_str("x"), &exists),
                     MC_OK);
    ck_assert(!exists);
    EXPECT_SAID("");
    ck_assert_uint_eq(mc_client_last_event_id(rig.client), id);
    client_close(&rig);
}
END_TEST

START_TEST(a_probe_leaves_no_lease_and_a_read_does)
{
    uint8_t got[100];
    uint64_t size;
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a#s1", value, 100), MC_OK);
    struct mc_probe first = client_probe(&rig, "a");
    ck_assert_uint_eq(first.lease_ms, 0);
    ck_assert_uint_eq(client_probe(&rig, "a").lease_ms, 0);
    ck_assert_int_eq(mc_client_get_into(rig.client, mc_view_str("a"), got,
                                        sizeof got, &size),
                     MC_OK);
    struct mc_probe second = client_probe(&rig, "a");
    ck_assert(second.lease_ms > 5000 && second.lease_ms <= 10000);
    ck_assert_uint_eq(second.version, first.version);
    ck_assert_int_eq(client_upsert(&rig, "a", value, 100), MC_OK);
    ck_assert_uint_ne(client_probe(&rig, "a").version, first.version);
    static const struct mc_probe zero;
    struct mc_probe absent = client_probe(&rig, "x");
    ck_assert_mem_eq(&absent, &zero, sizeof zero);
    client_close(&rig);
}
END_TEST

START_TEST(counters_count_what_happened)
{
    uint8_t got[100];
    uint64_t size;
    struct mc_client_stats stats;
    struct mc_view key = mc_view_str("a");
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a", value, 100), MC_OK);
    ck_assert_int_eq(client_put(&rig, "a", value, 100), MC_OK);
    ck_assert_int_eq(client_upsert(&rig, "a", value, 100), MC_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(
            mc_client_get_into(rig.client, key, got, sizeof got, &size), MC_OK);
    }
    ck_assert_int_eq(mc_client_get_into(rig.client, mc_view_str("x"), got,
                                        sizeof got, &size),
                     MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(client_put(&rig, "big", value, 0), MC_ERR_INVALID_PARAMS);
    mc_client_stat(rig.client, &stats);
    ck_assert_uint_eq(stats.puts, 2);
    ck_assert_uint_eq(stats.gets, 4);
    ck_assert_uint_eq(stats.hits, 3);
    ck_assert_uint_eq(stats.objects, 1);
    ck_assert_uint_eq(stats.attempts, 0);
    ck_assert_uint_eq(stats.capacity_bytes, MIB);
    ck_assert_uint_eq(stats.allocated_bytes, 128);
    ck_assert_int_eq(mc_client_remove(rig.client, key, true), MC_OK);
    mc_client_stat(rig.client, &stats);
    ck_assert_uint_eq(stats.objects, 0);
    ck_assert_uint_eq(stats.leased_only_bytes, 128);
    client_close(&rig);
}
END_TEST

/* ---- lists ------------------------------------------------------------------------ */

struct walk {
    uint32_t seen;
    uint32_t end_at; /* 0: goes through */
    bool calls_back;
};

static bool on_row(void *ctx, const struct mc_object_row *row)
{
    struct walk *walk = ctx;
    walk->seen++;
    if (walk->calls_back) {
        enum mc_err err = mc_client_remove(rig.client, row->key, true);
        ck_assert_int_eq(err, MC_OK);
        ck_assert_int_eq(client_put(&rig, "fresh", value, 64), MC_OK);
    }
    return walk->seen != walk->end_at;
}

START_TEST(a_list_shows_each_object_once_and_ends_when_told)
{
    struct walk whole = {0};
    struct walk cut = {.end_at = 5};
    open_rig();
    for (int i = 0; i < 1000; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(client_put(&rig, key, value, 64), MC_OK);
    }
    ck_assert_int_eq(mc_client_list(rig.client, on_row, &whole), MC_OK);
    ck_assert_uint_eq(whole.seen, 1000);
    ck_assert_int_eq(mc_client_list(rig.client, on_row, &cut), MC_OK);
    ck_assert_uint_eq(cut.seen, 5);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

START_TEST(a_list_may_call_the_client)
{
    struct walk walk = {.calls_back = true};
    open_rig();
    for (int i = 0; i < 300; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(client_put(&rig, key, value, 64), MC_OK);
    }
    ck_assert_int_eq(mc_client_list(rig.client, on_row, &walk), MC_OK);
    ck_assert_uint_ge(walk.seen, 300);
    for (int i = 0; i < 300; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert(!client_has(&rig, key));
    }
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

/* ---- removing ----------------------------------------------------------------------- */

START_TEST(remove_all_says_cleared_at_its_end)
{
    uint64_t removed;
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a#s1@g1", value, 100), MC_OK);
    (void)client_events(&rig);
    ck_assert_int_eq(mc_client_remove_all(rig.client, false, &removed), MC_OK);
    ck_assert_uint_eq(removed, 1);
    EXPECT_SAID("-cpu:a#s1@g1 !default");
    client_close(&rig);
}
END_TEST

START_TEST(a_regex_removes_what_it_finds_and_says_so)
{
    uint64_t removed;
    open_rig();
    ck_assert_int_eq(client_put(&rig, "m/1#s1", value, 100), MC_OK);
    ck_assert_int_eq(client_put(&rig, "n/1", value, 100), MC_OK);
    (void)client_events(&rig);
    ck_assert_int_eq(mc_client_remove_by_regex(rig.client, mc_view_str("^m/"),
                                               false, &removed),
                     MC_OK);
    ck_assert_uint_eq(removed, 1);
    EXPECT_SAID("-cpu:m/1#s1");
    client_close(&rig);
}
END_TEST

START_TEST(tenants_see_their_own)
{
    struct mc_client_opts opts = {.segment_bytes = MIB,
                                  .tenant = "t1",
                                  .store.enable_multi_tenants = true};
    uint64_t removed;
    client_open(&rig, &opts);
    ck_assert_int_eq(client_put(&rig, "a#s1", value, 100), MC_OK);
    ck_assert_int_eq(mc_client_remove_all(rig.client, false, &removed), MC_OK);
    EXPECT_SAID("+t1/cpu:a#s1 -t1/cpu:a#s1 !t1");
    client_close(&rig);
}
END_TEST

/* ---- opening -------------------------------------------------------------------------- */

static void keep_quiet(void *ctx, enum mc_log_level level, const char *text)
{
    (void)level;
    (void)text;
    ++*(int *)ctx;
}

START_TEST(wrong_settings_do_not_open)
{
    static char long_tenant[MC_TENANT_LEN_MAX + 2];
    static char long_backend[MC_BACKEND_ID_LEN_MAX + 2];
    memset(long_tenant, 't', sizeof long_tenant - 1);
    memset(long_backend, 'b', sizeof long_backend - 1);
    const char *tcp = "tcp://127.0.0.1:*";
    const struct {
        struct mc_client_opts opts;
        enum mc_err code;
    } rows[] = {
        {{.master = "127.0.0.1:1", .no_prefault = true}, MC_ERR_RPC_FAIL},
        {{.master = "127.0.0.1:70000", .no_prefault = true},
         MC_ERR_INVALID_PARAMS},
        {{.master = "127.0.0.1:1", .protocol = "rdma"}, MC_ERR_NOT_SUPPORTED},
        {{.master = "127.0.0.1:1", .transport = "rdma"}, MC_ERR_NOT_SUPPORTED},
        {{.master = "127.0.0.1:1", .transport = "udp"}, MC_ERR_INVALID_PARAMS},
        {{.master = "127.0.0.1:1", .metadata_server = "etcd://h"},
         MC_ERR_INVALID_PARAMS},
        {{.master = "127.0.0.1:1", .local_hostname = ""},
         MC_ERR_INVALID_PARAMS},
        {{.master = "127.0.0.1:1", .local_hostname = "h:99999"},
         MC_ERR_INVALID_PARAMS},
        {{.master = "127.0.0.1:1", .events.bind_endpoint = tcp},
         MC_ERR_INVALID_PARAMS},
        {{.tenant = "t1"}, MC_ERR_UNAVAILABLE_IN_CURRENT_MODE},
        {{.tenant = long_tenant, .store.enable_multi_tenants = true},
         MC_ERR_INVALID_PARAMS},
        {{.tenant = "\xff", .store.enable_multi_tenants = true},
         MC_ERR_INVALID_PARAMS},
        {{.tenant = "_t", .store.enable_multi_tenants = true},
         MC_ERR_INVALID_PARAMS},
        {{.tenant = "a\tb", .store.enable_multi_tenants = true},
         MC_ERR_INVALID_PARAMS},
        {{.segment_bytes = MC_NONE - 1}, MC_ERR_INVALID_PARAMS},
        {{.store.eviction_high_watermark = 1.5}, MC_ERR_INVALID_PARAMS},
        {{.store.eviction_high_watermark = -0.1}, MC_ERR_INVALID_PARAMS},
        {{.store.eviction_ratio = 1.1}, MC_ERR_INVALID_PARAMS},
        {{.store.eviction_ratio = -1}, MC_ERR_INVALID_PARAMS},
        {{.store.default_kv_soft_pin_ttl_ms = 2000,
          .store.max_kv_soft_pin_ttl_ms = 1000},
         MC_ERR_INVALID_PARAMS},
        {{.events.bind_endpoint = tcp}, MC_ERR_INVALID_PARAMS},
        {{.events.backend_id = "n1"}, MC_ERR_INVALID_PARAMS},
        {{.events = {.bind_endpoint = tcp, .backend_id = "\xff"}},
         MC_ERR_INVALID_PARAMS},
        {{.events = {.bind_endpoint = tcp, .backend_id = long_backend}},
         MC_ERR_INVALID_PARAMS},
        {{.events = {.bind_endpoint = "nonsense", .backend_id = "n1"}},
         MC_ERR_INVALID_PARAMS},
        {{.events = {.bind_endpoint = tcp,
                     .backend_id = "n1",
                     .queue_capacity = 1023}},
         MC_ERR_INVALID_PARAMS},
        {{.events = {.queue_capacity = 1}}, MC_ERR_INVALID_PARAMS},
    };
    int lines = 0;
    mc_log_set_sink(keep_quiet, &lines);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mc_client *client = NULL;
        enum mc_err err = mc_client_open(&rows[i].opts, &client);
        ck_assert_msg(err == rows[i].code, "row %zu: %d", i, err);
        ck_assert_ptr_null(client);
    }
    mc_log_set_sink(NULL, NULL);
    mc_client_close(NULL);
    mc_client_free(NULL);
}
END_TEST

START_TEST(defaults_open)
{
    struct mc_client *client = NULL;
    struct mc_client_stats stats;
    struct mc_client_opts opts = {.no_prefault = true, .tenant = "default"};
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    mc_client_stat(client, &stats);
    ck_assert_uint_eq(stats.capacity_bytes, 64 * MIB);
    ck_assert_uint_eq(mc_client_last_event_id(client), 1); /* cleared */
    mc_client_close(client);
    opts.tenant = "";
    opts.master = "embedded";
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    mc_client_close(client);
}
END_TEST

static TCase *said(void)
{
    TCase *tcase = tcase_create("said");
    tcase_add_test(tcase, put_says_stored_once);
    tcase_add_test(tcase,
                   upsert_says_removed_and_stored_and_keeps_tag_and_group);
    tcase_add_test(tcase, an_upsert_into_another_group_is_refused);
    tcase_add_test(tcase, batches_say_each_row_in_order);
    tcase_add_test(tcase, eviction_says_removed);
    tcase_add_test(tcase, the_background_sweep_makes_room_and_says_so);
    tcase_add_test(tcase, a_put_on_a_full_log_leaves_nothing_behind);
    tcase_add_test(tcase, reading_and_asking_say_nothing);
    tcase_add_test(tcase, remove_all_says_cleared_at_its_end);
    tcase_add_test(tcase, a_regex_removes_what_it_finds_and_says_so);
    tcase_add_test(tcase, tenants_see_their_own);
    return tcase;
}

static TCase *answered(void)
{
    TCase *tcase = tcase_create("answered");
    tcase_add_test(tcase, a_probe_leaves_no_lease_and_a_read_does);
    tcase_add_test(tcase, counters_count_what_happened);
    tcase_add_test(tcase, a_list_shows_each_object_once_and_ends_when_told);
    tcase_add_test(tcase, a_list_may_call_the_client);
    tcase_add_test(tcase, wrong_settings_do_not_open);
    tcase_add_test(tcase, defaults_open);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client events");
    suite_add_tcase(suite, said());
    suite_add_tcase(suite, answered());
    return suite_run(suite);
}
