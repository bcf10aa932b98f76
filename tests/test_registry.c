/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry.c - clients by name and incarnation: how they come, miss
 * heartbeats, and go. SAFETY C.4 and D.3. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "registry_rig.h"
#include "suite.h"

static struct cast cast;

/* ---- coming --------------------------------------------------------------- */

START_TEST(a_hello_again_answers_the_same)
{
    cast_open(&cast, NULL);
    struct fellow a;
    fellow_join(&cast, &a, "a:1", 0);
    uint32_t client = a.client;
    ck_assert_int_eq(fellow_hello(&cast, &a, "a:1"), MC_OK);
    ck_assert_uint_eq(a.client, client);
    ck_assert_uint_eq(cast_stats(&cast).clients, 1);
    ck_assert_uint_eq(mci_member_client(a.member), client);
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

START_TEST(clients_without_a_name_are_many)
{
    cast_open(&cast, NULL);
    struct fellow fellows[3];
    for (int i = 0; i < 3; i++) {
        fellow_join(&cast, &fellows[i], "", 0);
        fellow_leave(&fellows[i]);
    }
    ck_assert_uint_eq(cast_stats(&cast).clients, 3);
    cast_close(&cast);
}
END_TEST

START_TEST(a_second_client_of_a_name_waits_for_two_missed_heartbeats)
{
    cast_open(&cast, NULL);
    struct fellow first;
    struct fellow second = {.incarnation = 0};
    fellow_join(&cast, &first, "a:1", 1 * MIB);
    ck_assert_int_eq(fellow_put(&first, "k#s", 100), MC_OK);
    (void)rig_events(&cast.rig);
    ck_assert_int_eq(fellow_hello(&cast, &second, "a:1"),
                     MC_ERR_SEGMENT_ALREADY_EXISTS);
    rig_pass(&cast.rig, 2 * BEAT_MS);
    ck_assert_int_eq(fellow_hello(&cast, &second, "a:1"),
                     MC_ERR_SEGMENT_ALREADY_EXISTS);
    ck_assert_uint_eq(cast.expired_count, 0);
    rig_pass(&cast.rig, 1);
    ck_assert_int_eq(fellow_hello(&cast, &second, "a:1"), MC_OK);
    ck_assert_uint_ne(second.client, first.client);
    ck_assert_uint_eq(cast.expired_count, 1);
    ck_assert_uint_eq(cast_stats(&cast).expired_clients, 1);
    ck_assert_str_eq(cast.expired, "a:1");
    ck_assert_int_eq(fellow_beat(&first), MC_ERR_CLIENT_NOT_FOUND);
    cast_settle(&cast);
    EXPECT_EVENTS(&cast.rig, "-cpu:k#s");
    ck_assert_int_eq(fellow_beat(&second), MC_OK);
    ck_assert_int_eq(fellow_mount(&second, 1 * MIB), MC_OK);
    ck_assert_int_eq(fellow_put(&second, "k#t", 100), MC_OK);
    fellow_leave(&first);
    fellow_leave(&second);
    cast_close(&cast);
}
END_TEST

START_TEST(a_first_client_that_lives_is_not_displaced)
{
    cast_open(&cast, NULL);
    struct fellow first;
    struct fellow second = {.incarnation = 0};
    fellow_join(&cast, &first, "a:1", 0);
    for (int i = 0; i < 30; i++) {
        rig_pass(&cast.rig, BEAT_MS);
        ck_assert_int_eq(fellow_beat(&first), MC_OK);
        ck_assert_int_eq(fellow_hello(&cast, &second, "a:1"),
                         MC_ERR_SEGMENT_ALREADY_EXISTS);
        cast_settle(&cast);
    }
    fellow_leave(&first);
    cast_close(&cast);
}
END_TEST

START_TEST(eight_clients_that_come_at_once_stay)
{
    cast_open(&cast, NULL);
    struct fellow fellows[8];
    static const char *const names[] = {"0.0.0.0:1", "0.0.0.0:2", "0.0.0.0:3",
                                        "0.0.0.0:4", "0.0.0.0:5", "0.0.0.0:6",
                                        "0.0.0.0:7", "0.0.0.0:8"};
    for (int i = 0; i < 8; i++) {
        fellow_join(&cast, &fellows[i], names[i], 1 * MIB);
    }
    for (int beat = 0; beat < 3 * TTL_MS / BEAT_MS; beat++) {
        rig_pass(&cast.rig, BEAT_MS);
        for (int i = 0; i < 8; i++) {
            ck_assert_int_eq(fellow_beat(&fellows[i]), MC_OK);
        }
        cast_settle(&cast);
    }
    ck_assert_uint_eq(cast_stats(&cast).clients, 8);
    ck_assert_uint_eq(cast_stats(&cast).expired_clients, 0);
    for (int i = 0; i < 8; i++) {
        fellow_leave(&fellows[i]);
    }
    cast_close(&cast);
}
END_TEST

START_TEST(bad_names_are_refused)
{
    static const struct {
        const char *name;
        size_t len;
    } cases[] = {{"\xff", 1}, {"a\nb", 3}, {"a\0b", 3}, {"\x7f", 1}};
    cast_open(&cast, NULL);
    char longest[MCI_NAME_LEN_MAX + 1];
    memset(longest, 'x', sizeof longest);
    struct mci_hello hello = {.incarnation = 7};
    struct mci_welcome welcome;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hello.name = mc_view_make(cases[i].name, cases[i].len);
        ck_assert_int_eq(mci_registry_hello(cast.registry, &hello,
                                            cast.rig.now_ns, &welcome),
                         MC_ERR_INVALID_PARAMS);
    }
    hello.name = mc_view_make(longest, sizeof longest);
    ck_assert_int_eq(
        mci_registry_hello(cast.registry, &hello, cast.rig.now_ns, &welcome),
        MC_ERR_INVALID_PARAMS);
    hello.name.len--;
    ck_assert_int_eq(
        mci_registry_hello(cast.registry, &hello, cast.rig.now_ns, &welcome),
        MC_OK);
    hello.incarnation = 0;
    ck_assert_int_eq(
        mci_registry_hello(cast.registry, &hello, cast.rig.now_ns, &welcome),
        MC_ERR_INVALID_PARAMS);
    hello =
        (struct mci_hello){.incarnation = 8, .tenant = mc_view_str("other")};
    ck_assert_int_eq(
        mci_registry_hello(cast.registry, &hello, cast.rig.now_ns, &welcome),
        MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    ck_assert_uint_eq(cast_stats(&cast).clients, 1);
    cast_close(&cast);
}
END_TEST

/* ---- going ---------------------------------------------------------------- */

START_TEST(a_silent_client_is_expired_and_its_keys_go_once_each)
{
    cast_open(&cast, NULL);
    struct fellow a;
    struct fellow b;
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    ck_assert_int_eq(fellow_put(&a, "k1#s1", 100), MC_OK);
    ck_assert_int_eq(fellow_put(&a, "k2@g", 100), MC_OK);
    fellow_join(&cast, &b, "b:1", 1 * MIB);
    (void)rig_events(&cast.rig);
    for (int i = 0; i < 10; i++) {
        rig_pass(&cast.rig, BEAT_MS);
        ck_assert_int_eq(fellow_beat(&b), MC_OK);
        if (i < 9) {
            cast_settle(&cast);
        }
    }
    EXPECT_EVENTS(&cast.rig, "");
    ck_assert_uint_eq(cast_stats(&cast).clients, 2);
    cast_settle(&cast);
    EXPECT_EVENTS(&cast.rig, "-cpu:k1#s1 -cpu:k2@g");
    ck_assert_uint_eq(cast_stats(&cast).clients, 1);
    ck_assert_uint_eq(cast_stats(&cast).segments, 1);
    ck_assert_uint_eq(cast_stats(&cast).expired_clients, 1);
    ck_assert_uint_eq(cast_stats(&cast).left_clients, 0);
    ck_assert_str_eq(cast.expired, "a:1");
    ck_assert_int_eq(rig_exist(&cast.rig, "k1"), 0);
    cast_settle(&cast);
    EXPECT_EVENTS(&cast.rig, "");
    fellow_leave(&a);
    fellow_leave(&b);
    cast_close(&cast);
}
END_TEST

/* What clients said meanwhile is still in their connections. */
START_TEST(a_master_that_stood_still_does_not_call_others_silent)
{
    struct fellow heard;
    struct fellow dead;
    struct fellow second;
    cast_open(&cast, NULL);
    fellow_join(&cast, &heard, "heard:1", 1 * MIB);
    fellow_join(&cast, &dead, "dead:1", 0);
    rig_pass(&cast.rig, 3 * TTL_MS);
    mci_registry_was_away(cast.registry, cast.rig.now_ns);
    cast_settle(&cast);
    second.incarnation = 0;
    ck_assert_int_eq(fellow_hello(&cast, &second, "heard:1"),
                     MC_ERR_SEGMENT_ALREADY_EXISTS);
    ck_assert_uint_eq(cast_stats(&cast).clients, 2);
    ck_assert_int_eq(fellow_beat(&heard), MC_OK);
    rig_pass(&cast.rig, 2 * BEAT_MS);
    cast_settle(&cast);
    ck_assert_uint_eq(cast_stats(&cast).clients, 1);
    ck_assert_int_eq(fellow_beat(&heard), MC_OK);
    ck_assert_int_eq(fellow_beat(&dead), MC_ERR_CLIENT_NOT_FOUND);
    fellow_leave(&heard);
    fellow_leave(&dead);
    cast_close(&cast);
}
END_TEST

START_TEST(an_expired_incarnation_never_lives_again)
{
    cast_open(&cast, NULL);
    struct fellow a;
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    struct mci_write_row row = fellow_start(&a, 0, "k", 100);
    rig_pass(&cast.rig, TTL_MS);
    cast_settle(&cast);
    ck_assert_int_eq(fellow_hello(&cast, &a, "a:1"), MC_ERR_CLIENT_NOT_FOUND);
    ck_assert_int_eq(fellow_beat(&a), MC_ERR_CLIENT_NOT_FOUND);
    ck_assert_int_eq(fellow_end(&a, &row), MC_ERR_CLIENT_NOT_FOUND);
    ck_assert_int_eq(fellow_mount(&a, 1 * MIB), MC_ERR_CLIENT_NOT_FOUND);
    struct mci_member *member = NULL;
    ck_assert_int_eq(
        mci_registry_member(cast.registry, a.client, a.incarnation, &member),
        MC_ERR_CLIENT_NOT_FOUND);
    /* Its number comes back, and names somebody else then. */
    struct fellow b;
    fellow_join(&cast, &b, "a:1", 0);
    ck_assert_uint_eq(b.client, a.client);
    ck_assert_int_eq(
        mci_registry_member(cast.registry, a.client, a.incarnation, &member),
        MC_ERR_CLIENT_NOT_FOUND);
    rig_pass(&cast.rig, 100 * TTL_MS);
    ck_assert_int_eq(fellow_hello(&cast, &a, "c:1"), MC_ERR_CLIENT_NOT_FOUND);
    fellow_leave(&a);
    fellow_leave(&b);
    cast_close(&cast);
}
END_TEST

START_TEST(a_goodbye_ends_at_once)
{
    cast_open(&cast, NULL);
    struct fellow a;
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    ck_assert_int_eq(fellow_put(&a, "k", 100), MC_OK);
    (void)rig_events(&cast.rig);
    mci_registry_goodbye(cast.registry, a.member, cast.rig.now_ns);
    mci_registry_goodbye(cast.registry, a.member, cast.rig.now_ns);
    ck_assert_uint_eq(cast.expired_count, 1);
    ck_assert_uint_eq(cast_stats(&cast).left_clients, 1);
    ck_assert_uint_eq(cast_stats(&cast).expired_clients, 0);
    struct fellow b;
    fellow_join(&cast, &b, "a:1", 0); /* the name is free */
    /* And nothing is placed there any more. */
    ck_assert_int_eq(fellow_start(&b, 0, "other", 100).err,
                     MC_ERR_NO_AVAILABLE_HANDLE);
    cast_settle(&cast);
    EXPECT_EVENTS(&cast.rig, "-cpu:k");
    fellow_leave(&a);
    fellow_leave(&b);
    cast_close(&cast);
}
END_TEST

START_TEST(a_broken_heartbeat_connection_leaves_two_heartbeats)
{
    cast_open(&cast, NULL);
    struct fellow a;
    struct fellow b;
    fellow_join(&cast, &a, "a:1", 0);
    fellow_join(&cast, &b, "b:1", 0);
    mci_registry_hung_up(cast.registry, a.member, cast.rig.now_ns);
    mci_registry_hung_up(cast.registry, b.member, cast.rig.now_ns);
    mci_registry_hung_up(cast.registry, b.member, cast.rig.now_ns);
    rig_pass(&cast.rig, 2 * BEAT_MS - 1);
    cast_settle(&cast);
    ck_assert_uint_eq(cast_stats(&cast).clients, 2);
    ck_assert_int_eq(fellow_beat(&b), MC_OK); /* it came back */
    rig_pass(&cast.rig, 1);
    cast_settle(&cast);
    ck_assert_uint_eq(cast_stats(&cast).clients, 1);
    ck_assert_int_eq(fellow_beat(&a), MC_ERR_CLIENT_NOT_FOUND);
    ck_assert_int_eq(fellow_beat(&b), MC_OK);
    rig_pass(&cast.rig, TTL_MS);
    cast_settle(&cast);
    ck_assert_uint_eq(cast_stats(&cast).clients, 0);
    fellow_leave(&a);
    fellow_leave(&b);
    cast_close(&cast);
}
END_TEST

START_TEST(a_step_says_when_the_next_one_is_due)
{
    cast_open(&cast, NULL);
    struct fellow a;
    fellow_join(&cast, &a, "a:1", 0);
    uint64_t next_ns = cast_step(&cast);
    ck_assert_uint_gt(next_ns, cast.rig.now_ns);
    ck_assert_uint_le(next_ns, cast.rig.now_ns + 100 * MS);
    rig_pass(&cast.rig, TTL_MS - 50);
    ck_assert_uint_eq(cast_step(&cast), cast.rig.now_ns + 50 * MS);
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.registry");
    TCase *tcase = tcase_create("coming");
    tcase_add_test(tcase, a_hello_again_answers_the_same);
    tcase_add_test(tcase, clients_without_a_name_are_many);
    tcase_add_test(tcase,
                   a_second_client_of_a_name_waits_for_two_missed_heartbeats);
    tcase_add_test(tcase, a_first_client_that_lives_is_not_displaced);
    tcase_add_test(tcase, eight_clients_that_come_at_once_stay);
    tcase_add_test(tcase, bad_names_are_refused);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("going");
    tcase_add_test(tcase, a_silent_client_is_expired_and_its_keys_go_once_each);
    tcase_add_test(tcase,
                   a_master_that_stood_still_does_not_call_others_silent);
    tcase_add_test(tcase, an_expired_incarnation_never_lives_again);
    tcase_add_test(tcase, a_goodbye_ends_at_once);
    tcase_add_test(tcase, a_broken_heartbeat_connection_leaves_two_heartbeats);
    tcase_add_test(tcase, a_step_says_when_the_next_one_is_due);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
