/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_pins.c - what keeps an object from being evicted, and for how long:
 * exist leases, groups, pins. SAFETY E.3, E.4; A4, D6, D8 of the known faults.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "evict_rig.h"
#include "suite.h"

static struct rig rig;

static const char *const abcd[] = {"a", "b", "c", "d"};

/* ---- E.3: leases of exist ------------------------------------------------- */

START_TEST(asking_for_everything_does_not_pin_the_pool)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(rig_exist(&rig, abcd[i]), 1);
        ck_assert_int_eq(rig_remove(&rig, abcd[i], false),
                         MC_ERR_OBJECT_HAS_LEASE);
    }
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a +cpu:e");
    rig_close(&rig);
}
END_TEST

START_TEST(what_was_just_asked_for_is_the_last_to_go)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    ck_assert_int_eq(rig_exist(&rig, "b"), 1);
    for (int i = 0; i < 8; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "n%d", i);
        ck_assert_int_eq(rig_put(&rig, key, QUARTER), MC_OK);
        ck_assert(is_there(&rig, "a") && is_there(&rig, "b"));
    }
    get_ok(&rig, "n6");
    get_ok(&rig, "n7");
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "last", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a +cpu:last");
    rig_close(&rig);
}
END_TEST

START_TEST(a_read_lease_does_not_yield_where_an_exist_lease_does)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    for (int i = 0; i < 4; i++) {
        get_ok(&rig, abcd[i]);
        ck_assert_int_eq(rig_exist(&rig, abcd[i]), 1);
    }
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_ERR_NO_AVAILABLE_HANDLE);
    rig_close(&rig);
}
END_TEST

START_TEST(a_read_after_an_exist_makes_the_lease_real)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(rig_exist(&rig, abcd[i]), 1);
        get_ok(&rig, abcd[i]);
    }
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_ERR_NO_AVAILABLE_HANDLE);
    rig_close(&rig);
}
END_TEST

START_TEST(exist_leases_can_be_switched_off)
{
    open_sharded(&rig, _i,
                 (struct mc_store_opts){.exist_lease_ttl_ms = MC_NONE});
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    ck_assert_uint_eq(rig_probe(&rig, "a").lease_ms, 0);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_read_lease_of_zero_holds_nothing)
{
    open_sharded(&rig, _i,
                 (struct mc_store_opts){.default_kv_lease_ttl_ms = MC_NONE});
    put_quarters(&rig, abcd, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(rig_get(&rig, abcd[i], false).lease_left_ns, 0);
    }
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "b", false), 0);
    rig_close(&rig);
}
END_TEST

/* ---- E.4: groups ----------------------------------------------------------- */

START_TEST(a_read_of_one_member_leases_them_all)
{
    static const char *const specs[] = {"a@g", "b@g", "c@g", "d"};
    open_default(&rig, _i);
    put_quarters(&rig, specs, 4);
    get_ok(&rig, "b");
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:d +cpu:e");
    ck_assert_int_eq(rig_put(&rig, "f", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:e +cpu:f");
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    rig_pass(&rig, LEASE_MS + 1);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(asking_for_one_member_leases_them_all_for_what_that_is_worth)
{
    static const char *const specs[] = {"a@g", "b@g", "c", "d"};
    open_default(&rig, _i);
    put_quarters(&rig, specs, 4);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    ck_assert_int_eq(rig_remove(&rig, "b", false), MC_ERR_OBJECT_HAS_LEASE);
    ck_assert_uint_eq(rig_probe(&rig, "b").lease_ms, LEASE_MS);
    for (int i = 0; i < 4; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "n%d", i);
        ck_assert_int_eq(rig_put(&rig, key, QUARTER), MC_OK);
    }
    ck_assert(is_there(&rig, "a") && is_there(&rig, "b"));
    rig_pass(&rig, LEASE_MS + 1);
    ck_assert_int_eq(rig_remove(&rig, "b", false), 0);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

/* The time left is the true one for each member, whoever was read. */
START_TEST(a_member_answers_the_lease_of_its_group)
{
    open_default(&rig, _i);
    ck_assert_int_eq(rig_put(&rig, "a@g", 100), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b@g", 100), MC_OK);
    get_ok(&rig, "a");
    rig_pass(&rig, 4000);
    uint64_t left = rig_probe(&rig, "b").lease_ms;
    ck_assert_msg(left >= 5990 && left <= 6000, "%ju", (uintmax_t)left);
    ck_assert_uint_eq(rig_get(&rig, "b", false).lease_left_ns, LEASE_MS * MS);
    left = rig_probe(&rig, "a").lease_ms;
    ck_assert_msg(left >= 9990, "%ju", (uintmax_t)left);
    /* One that joins later is leased as well. */
    ck_assert_int_eq(rig_put(&rig, "c@g", 100), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "c", false), MC_ERR_OBJECT_HAS_LEASE);
    rig_close(&rig);
}
END_TEST

/* Bytes of a member that is unlinked are kept while readers of the group may
 * read them. */
START_TEST(the_lease_of_a_group_holds_the_bytes_of_its_members)
{
    open_default(&rig, _i);
    ck_assert_int_eq(rig_put(&rig, "a@g", MIB / 2), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b@g", 100), MC_OK);
    get_ok(&rig, "a");
    get_ok(&rig, "b");
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    ck_assert_uint_eq(rig_stats(&rig).leased_only_bytes, MIB / 2);
    ck_assert_int_eq(rig_put(&rig, "c", 600 * KIB), MC_ERR_NO_AVAILABLE_HANDLE);
    rig_pass(&rig, LEASE_MS + 1);
    ck_assert_int_eq(rig_put(&rig, "c", 600 * KIB), MC_OK);
    rig_close(&rig);
}
END_TEST

/* Of a group of which a part went, the rest goes before anything else. */
START_TEST(a_group_left_partial_is_first_in_line)
{
    static const char *const specs[] = {"a@g", "x", "b@g", "y"};
    open_default(&rig, _i);
    put_quarters(&rig, specs, 4);
    for (int i = 0; i < 3; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "n%d", i);
        ck_assert_int_eq(rig_put(&rig, key, QUARTER), MC_OK);
        bool some_member = is_there(&rig, "a") || is_there(&rig, "b");
        ck_assert(is_there(&rig, "x") || !some_member);
        ck_assert(is_there(&rig, "y") || !is_there(&rig, "x"));
    }
    ck_assert(!is_there(&rig, "a") && !is_there(&rig, "b"));
    rig_close(&rig);
}
END_TEST

START_TEST(groups_of_one_name_in_two_tenants_are_two)
{
    open_sharded(&rig, _i,
                 (struct mc_store_opts){.enable_multi_tenants = true});
    ck_assert_int_eq(rig_put(&rig, "a@g", 100), MC_OK);
    rig.tenant = mc_view_str("t1");
    ck_assert_int_eq(rig_put(&rig, "b@g", 100), MC_OK);
    get_ok(&rig, "b");
    rig.tenant = mc_view_make(NULL, 0);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    rig_close(&rig);
}
END_TEST

/* ---- pins (A4, D6, D8 of the known faults) --------------------------------- */

START_TEST(a_hard_pin_blocks_eviction_and_only_that)
{
    struct mc_replicate_config pinned = {.with_hard_pin = true};
    open_default(&rig, _i);
    rig.config = &pinned;
    put_quarters(&rig, abcd, 3);
    rig.config = NULL;
    ck_assert_int_eq(rig_put(&rig, "plain", QUARTER), MC_OK);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:plain +cpu:e");
    get_ok(&rig, "e");
    ck_assert_int_eq(rig_put(&rig, "f", QUARTER), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    ck_assert_int_eq(rig_remove(&rig, "b", false), 0);
    ck_assert_int_eq(rig_put(&rig, "f", QUARTER), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_keeps_a_hard_pin)
{
    struct mc_replicate_config pinned = {.with_hard_pin = true};
    open_default(&rig, _i);
    rig.config = &pinned;
    ck_assert_int_eq(rig_put(&rig, "a", QUARTER), MC_OK);
    rig.config = NULL;
    ck_assert_int_eq(rig_upsert(&rig, "a", QUARTER), MC_OK);
    for (int i = 0; i < 12; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "f%d", i);
        ck_assert_int_eq(rig_put(&rig, key, QUARTER), MC_OK);
    }
    ck_assert(is_there(&rig, "a"));
    rig_close(&rig);
}
END_TEST

START_TEST(soft_pins_go_after_everything_else)
{
    struct mc_replicate_config pinned = {.soft_pin_action = MC_SOFT_PIN_ENABLE};
    open_default(&rig, _i);
    rig.config = &pinned;
    put_quarters(&rig, abcd, 2);
    rig.config = NULL;
    put_quarters(&rig, abcd + 2, 2);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "f", QUARTER), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "g", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:c +cpu:e -cpu:d +cpu:f -cpu:e +cpu:g");
    get_ok(&rig, "f");
    get_ok(&rig, "g");
    ck_assert_int_eq(rig_put(&rig, "h", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a +cpu:h");
    rig_close(&rig);
}
END_TEST

START_TEST(soft_pins_can_be_made_to_hold)
{
    struct mc_replicate_config pinned = {.soft_pin_action = MC_SOFT_PIN_ENABLE};
    open_sharded(&rig, _i,
                 (struct mc_store_opts){.no_evict_soft_pinned = true});
    rig.config = &pinned;
    put_quarters(&rig, abcd, 4);
    rig.config = NULL;
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_ERR_NO_AVAILABLE_HANDLE);
    rig_pass(&rig, 30 * 60000 + 1); /* the default */
    rig_sweep(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    rig_close(&rig);
}
END_TEST

/* Nor does a window take them. */
START_TEST(soft_pins_that_hold_are_in_no_window)
{
    struct mc_replicate_config pinned = {.soft_pin_action = MC_SOFT_PIN_ENABLE};
    open_sharded(&rig, _i,
                 (struct mc_store_opts){.no_evict_soft_pinned = true});
    for (uint32_t i = 0; i < 256; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        rig.config = i % 8 == 0 ? &pinned : NULL;
        ck_assert_int_eq(rig_put(&rig, key, 4 * KIB), MC_OK);
    }
    rig.config = NULL;
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    ck_assert_int_eq(rig_put(&rig, "big", 64 * KIB),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    rig_close(&rig);
}
END_TEST

/* D6: reads do not revive a soft pin. */
START_TEST(a_soft_pin_ends_by_its_time_whatever_is_read)
{
    struct mc_replicate_config pinned = {.soft_pin_action = MC_SOFT_PIN_ENABLE,
                                         .soft_pin_ttl_ms = 1000};
    open_sharded(&rig, _i,
                 (struct mc_store_opts){.no_evict_soft_pinned = true,
                                        .default_kv_lease_ttl_ms = 100});
    rig.config = &pinned;
    ck_assert_int_eq(rig_put(&rig, "a", QUARTER), MC_OK);
    rig.config = NULL;
    rig_pass(&rig, 900);
    get_ok(&rig, "a");
    rig_pass(&rig, 101);
    get_ok(&rig, "a");
    rig_pass(&rig, 101);
    rig_sweep(&rig);
    put_quarters(&rig, abcd + 1, 3);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a +cpu:e");
    rig_close(&rig);
}
END_TEST

START_TEST(a_soft_pin_can_be_dropped_or_kept_by_an_upsert)
{
    struct mc_replicate_config on = {.soft_pin_action = MC_SOFT_PIN_ENABLE};
    struct mc_replicate_config off = {.soft_pin_action = MC_SOFT_PIN_DISABLE};
    open_sharded(&rig, _i,
                 (struct mc_store_opts){.no_evict_soft_pinned = true});
    rig.config = &on;
    put_quarters(&rig, abcd, 2);
    rig.config = NULL; /* preserve */
    ck_assert_int_eq(rig_upsert(&rig, "a", QUARTER), MC_OK);
    rig.config = &off;
    ck_assert_int_eq(rig_upsert(&rig, "b", QUARTER), MC_OK);
    rig.config = NULL;
    for (int i = 0; i < 6; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "f%d", i);
        ck_assert_int_eq(rig_put(&rig, key, QUARTER), MC_OK);
    }
    ck_assert(is_there(&rig, "a"));
    ck_assert(!is_there(&rig, "b"));
    rig_close(&rig);
}
END_TEST

static TCase *asked(void)
{
    TCase *tcase = tcase_create("exist leases");
    ADD(tcase, asking_for_everything_does_not_pin_the_pool);
    ADD(tcase, what_was_just_asked_for_is_the_last_to_go);
    ADD(tcase, a_read_lease_does_not_yield_where_an_exist_lease_does);
    ADD(tcase, a_read_after_an_exist_makes_the_lease_real);
    ADD(tcase, exist_leases_can_be_switched_off);
    ADD(tcase, a_read_lease_of_zero_holds_nothing);
    return tcase;
}

static TCase *groups(void)
{
    TCase *tcase = tcase_create("groups");
    ADD(tcase, a_read_of_one_member_leases_them_all);
    ADD(tcase, asking_for_one_member_leases_them_all_for_what_that_is_worth);
    ADD(tcase, a_member_answers_the_lease_of_its_group);
    ADD(tcase, the_lease_of_a_group_holds_the_bytes_of_its_members);
    ADD(tcase, a_group_left_partial_is_first_in_line);
    ADD(tcase, groups_of_one_name_in_two_tenants_are_two);
    return tcase;
}

static TCase *pins(void)
{
    TCase *tcase = tcase_create("pins");
    ADD(tcase, a_hard_pin_blocks_eviction_and_only_that);
    ADD(tcase, an_upsert_keeps_a_hard_pin);
    ADD(tcase, soft_pins_go_after_everything_else);
    ADD(tcase, soft_pins_can_be_made_to_hold);
    ADD(tcase, soft_pins_that_hold_are_in_no_window);
    ADD(tcase, a_soft_pin_ends_by_its_time_whatever_is_read);
    ADD(tcase, a_soft_pin_can_be_dropped_or_kept_by_an_upsert);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("store pins");
    suite_add_tcase(suite, asked());
    suite_add_tcase(suite, groups());
    suite_add_tcase(suite, pins());
    return suite_run(suite);
}
