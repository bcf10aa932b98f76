/* SPDX-License-Identifier: Apache-2.0 */
/* The mirror against hand-made cases, against a plain table at random, and with
 * failing allocations. */
#include <stdio.h>

#include "alloc_fail.h"
#include "draw.h"
#include "mirror.h"
#include "suite.h"

#define MANY 200000

static struct mirror_event event_of(const char *tenant, const char *key,
                                    const char *medium, uint64_t id)
{
    return (struct mirror_event){
        .tenant_id = mc_view_str(tenant),
        .backend_id = mc_view_str("n1"),
        .object_key = mc_view_str(key),
        .medium = mc_view_str(medium),
        .event_id = id,
    };
}

static struct mirror *make(uint64_t max_entries)
{
    struct mirror *mirror = NULL;
    ck_assert_int_eq(mirror_create(max_entries, 42, &mirror), MC_OK);
    return mirror;
}

static enum mirror_change store(struct mirror *mirror,
                                const struct mirror_event *event)
{
    enum mirror_change change = MIRROR_OLD;
    ck_assert_int_eq(mirror_stored(mirror, event, &change), MC_OK);
    return change;
}

static bool find(const struct mirror *mirror, const char *tenant,
                 const char *key, const char *medium, struct mirror_row *row)
{
    return mirror_find(mirror, mc_view_str(tenant), mc_view_str(key),
                       mc_view_str(medium), row);
}

static void check_view(struct mc_view view, const char *text)
{
    ck_assert(mc_view_equal(view, mc_view_str(text)));
}

START_TEST(what_was_stored_is_found_with_all_that_was_said_of_it)
{
    struct mirror *mirror = make(10);
    struct mirror_event event = event_of("a", "k", "cpu", 7);
    struct mirror_row row;
    event.session_id = mc_view_make("s\0x", 3);
    event.group_id = mc_view_str("g");
    ck_assert_int_eq(store(mirror, &event), MIRROR_ADDED);
    ck_assert(find(mirror, "a", "k", "cpu", &row));
    ck_assert_uint_eq(row.event_id, 7);
    check_view(row.tenant_id, "a");
    check_view(row.backend_id, "n1");
    check_view(row.object_key, "k");
    check_view(row.medium, "cpu");
    ck_assert(mc_view_equal(row.session_id, mc_view_make("s\0x", 3)));
    check_view(row.group_id, "g");
    mirror_destroy(mirror);
}
END_TEST

START_TEST(tenant_key_medium_and_backend_each_make_another_place)
{
    struct mirror *mirror = make(10);
    struct mirror_event event = event_of("a", "k", "cpu", 1);
    (void)store(mirror, &event);
    event = event_of("b", "k", "cpu", 2);
    ck_assert_int_eq(store(mirror, &event), MIRROR_ADDED);
    event = event_of("a", "l", "cpu", 3);
    ck_assert_int_eq(store(mirror, &event), MIRROR_ADDED);
    event = event_of("a", "k", "disk", 4);
    ck_assert_int_eq(store(mirror, &event), MIRROR_ADDED);
    event.backend_id = mc_view_str("n2");
    ck_assert_int_eq(store(mirror, &event), MIRROR_ADDED);
    ck_assert_uint_eq(mirror_count(mirror), 5);
    struct mirror_row row;
    ck_assert(!find(mirror, "b", "l", "cpu", &row));
    ck_assert(!find(mirror, "c", "k", "cpu", &row));
    mirror_destroy(mirror);
}
END_TEST

START_TEST(an_event_counts_only_if_its_id_is_above_the_last_of_its_place)
{
    struct mirror *mirror = make(10);
    struct mirror_event event = event_of("a", "k", "cpu", 5);
    struct mirror_row row;
    (void)store(mirror, &event);
    event.session_id = mc_view_str("late");
    ck_assert_int_eq(store(mirror, &event), MIRROR_OLD);
    event.event_id = 4;
    ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_OLD);
    event.event_id = 6;
    ck_assert_int_eq(store(mirror, &event), MIRROR_CHANGED);
    ck_assert(find(mirror, "a", "k", "cpu", &row));
    check_view(row.session_id, "late");
    event.event_id = 7;
    ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_GONE);
    ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_ABSENT);
    ck_assert_uint_eq(mirror_count(mirror), 0);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(where_ids_mean_nothing_the_order_counts)
{
    struct mirror *mirror = make(10);
    struct mirror_event event = event_of("a", "k", "cpu", 5);
    event.by_order = true;
    (void)store(mirror, &event);
    event.event_id = 0;
    ck_assert_int_eq(store(mirror, &event), MIRROR_CHANGED);
    ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_GONE);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(cleared_takes_a_tenant_at_a_backend_and_nothing_newer)
{
    struct mirror *mirror = make(10);
    struct mirror_event event = event_of("a", "k", "cpu", 1);
    (void)store(mirror, &event);
    event = event_of("a", "k", "disk", 9);
    (void)store(mirror, &event);
    event = event_of("b", "k", "cpu", 2);
    (void)store(mirror, &event);
    event = event_of("a", "k", "cpu", 3);
    event.backend_id = mc_view_str("n2");
    (void)store(mirror, &event);
    event = event_of("a", NULL, NULL, 5);
    ck_assert_uint_eq(mirror_cleared(mirror, &event), 1);
    struct mirror_row row;
    ck_assert(find(mirror, "a", "k", "disk", &row));
    ck_assert(find(mirror, "b", "k", "cpu", &row));
    ck_assert(find(mirror, "a", "k", "cpu", &row));
    check_view(row.backend_id, "n2");
    event.event_id = 10;
    ck_assert_uint_eq(mirror_cleared(mirror, &event), 1);
    ck_assert_uint_eq(mirror_cleared(mirror, &event), 0);
    ck_assert_uint_eq(mirror_count(mirror), 2);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(at_its_bound_it_takes_no_more_but_changes_what_it_has)
{
    struct mirror *mirror = make(2);
    enum mirror_change change = MIRROR_OLD;
    struct mirror_event event = event_of("a", "1", "cpu", 1);
    (void)store(mirror, &event);
    event = event_of("a", "2", "cpu", 2);
    (void)store(mirror, &event);
    event = event_of("a", "3", "cpu", 3);
    ck_assert_int_eq(mirror_stored(mirror, &event, &change),
                     MC_ERR_BUFFER_OVERFLOW);
    ck_assert_uint_eq(mirror_count(mirror), 2);
    event = event_of("a", "2", "cpu", 4);
    ck_assert_int_eq(store(mirror, &event), MIRROR_CHANGED);
    (void)mirror_removed(mirror,
                         &(struct mirror_event){.tenant_id = event.tenant_id,
                                                .backend_id = event.backend_id,
                                                .object_key = event.object_key,
                                                .medium = event.medium,
                                                .event_id = 5});
    event = event_of("a", "3", "cpu", 6);
    ck_assert_int_eq(store(mirror, &event), MIRROR_ADDED);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(removing_and_clearing_allocate_nothing)
{
    struct mirror *mirror = make(100);
    struct mirror_event event;
    char key[16];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        event = event_of("a", key, "cpu", (uint64_t)i + 1);
        (void)store(mirror, &event);
    }
    uint64_t calls = mci_alloc_thread_calls();
    event = event_of("a", "7", "cpu", 100);
    ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_GONE);
    ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_ABSENT);
    ck_assert_uint_eq(mirror_cleared(mirror, &event), 49);
    mirror_clear(mirror);
    ck_assert_uint_eq(mci_alloc_thread_calls(), calls);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(names_go_with_the_last_entry_that_bears_them)
{
    struct mirror *mirror = make(100);
    struct mirror_event event = event_of("a", "stays", "cpu", 1);
    (void)store(mirror, &event);
    struct mci_alloc_stats before;
    mci_alloc_stats(&before);
    for (uint64_t id = 2; id < 2000; id += 2) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", (int)id);
        event = event_of(name, "k", "disk", id);
        event.session_id = mc_view_str(name);
        event.group_id = mc_view_str(name);
        (void)store(mirror, &event);
        event.event_id++;
        ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_GONE);
    }
    struct mci_alloc_stats after;
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(a_store_that_finds_no_memory_changes_nothing)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mirror *mirror = make(100);
        struct mirror_event event = event_of("a", "k", "cpu", 1);
        enum mirror_change change = MIRROR_OLD;
        struct mirror_row row;
        event.session_id = mc_view_str("s");
        event.group_id = mc_view_str("g");
        alloc_fail_arm(&fail);
        enum mc_err err = mirror_stored(mirror, &event, &change);
        alloc_fail_disarm(&fail);
        bool is_failed = alloc_fail_happened(&fail);
        ck_assert_int_eq(err, is_failed ? MC_ERR_NOMEM : MC_OK);
        ck_assert_uint_eq(mirror_count(mirror), is_failed ? 0 : 1);
        ck_assert(find(mirror, "a", "k", "cpu", &row) == !is_failed);
        ck_assert_int_eq(store(mirror, &event),
                         is_failed ? MIRROR_ADDED : MIRROR_OLD);
        mirror_destroy(mirror);
    }
    ck_assert_uint_gt(fail.k, 8);
}
END_TEST

START_TEST(a_change_that_finds_no_memory_leaves_the_old_tags)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mirror *mirror = make(100);
        struct mirror_event event = event_of("a", "k", "cpu", 1);
        enum mirror_change change = MIRROR_OLD;
        struct mirror_row row;
        event.session_id = mc_view_str("s");
        (void)store(mirror, &event);
        event.event_id = 2;
        event.session_id = mc_view_str("t");
        event.group_id = mc_view_str("h");
        alloc_fail_arm(&fail);
        enum mc_err err = mirror_stored(mirror, &event, &change);
        alloc_fail_disarm(&fail);
        bool is_failed = alloc_fail_happened(&fail);
        ck_assert_int_eq(err, is_failed ? MC_ERR_NOMEM : MC_OK);
        ck_assert(find(mirror, "a", "k", "cpu", &row));
        check_view(row.session_id, is_failed ? "s" : "t");
        ck_assert_uint_eq(row.event_id, is_failed ? 1 : 2);
        mirror_destroy(mirror);
    }
    ck_assert_uint_gt(fail.k, 2);
}
END_TEST

/* ---- at random, against a plain table ---- */

#define TENANTS 3
#define KEYS 40
#define MEDIA 3

static const char *const tenants[TENANTS] = {"", "a", "b"};
static const char *const media[MEDIA] = {"cpu", "disk", "nvme"};

struct plain_row {
    bool is_there;
    uint64_t id;
    char session[8];
};

static void compare(const struct mirror *mirror,
                    struct plain_row plain[TENANTS][KEYS][MEDIA])
{
    uint64_t count = 0;
    for (int t = 0; t < TENANTS; t++) {
        for (int k = 0; k < KEYS; k++) {
            for (int m = 0; m < MEDIA; m++) {
                struct mirror_row row;
                char key[16];
                (void)snprintf(key, sizeof key, "key-%d", k);
                const struct plain_row *want = &plain[t][k][m];
                bool is_there = find(mirror, tenants[t], key, media[m], &row);
                ck_assert(is_there == want->is_there);
                if (is_there) {
                    count++;
                    ck_assert_uint_eq(row.event_id, want->id);
                    check_view(row.session_id, want->session);
                }
            }
        }
    }
    ck_assert_uint_eq(mirror_count(mirror), count);
    struct mirror_row row;
    size_t cursor = 0;
    uint64_t walked = 0;
    while (mirror_next(mirror, &cursor, &row)) {
        walked++;
    }
    ck_assert_uint_eq(walked, count);
}

START_TEST(at_random_it_holds_what_a_plain_table_holds)
{
    static struct plain_row plain[TENANTS][KEYS][MEDIA];
    memset(plain, 0, sizeof plain);
    struct mci_alloc_stats before;
    mci_alloc_stats(&before);
    struct mirror *mirror = make(TENANTS * KEYS * MEDIA);
    uint64_t state = (uint64_t)_i + 1;
    for (uint64_t id = 1; id < 5000; id++) {
        uint64_t t = draw(&state, TENANTS);
        uint64_t k = draw(&state, KEYS);
        uint64_t m = draw(&state, MEDIA);
        struct plain_row *row = &plain[t][k][m];
        char key[16];
        (void)snprintf(key, sizeof key, "key-%d", (int)k);
        struct mirror_event event = event_of(tenants[t], key, media[m], id);
        uint64_t what = draw(&state, 100);
        if (what < 60) {
            (void)snprintf(row->session, sizeof row->session, "s%d",
                           (int)draw(&state, 9));
            event.session_id = mc_view_str(row->session);
            ck_assert_int_eq(store(mirror, &event),
                             row->is_there ? MIRROR_CHANGED : MIRROR_ADDED);
            row->is_there = true;
            row->id = id;
        } else if (what < 99) {
            ck_assert_int_eq(mirror_removed(mirror, &event),
                             row->is_there ? MIRROR_GONE : MIRROR_ABSENT);
            row->is_there = false;
        } else {
            (void)mirror_cleared(mirror, &event);
            for (int i = 0; i < KEYS * MEDIA; i++) {
                plain[t][i / MEDIA][i % MEDIA].is_there = false;
            }
        }
        if (id % 500 == 0) {
            compare(mirror, plain);
        }
    }
    mirror_destroy(mirror);
    struct mci_alloc_stats after;
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
}
END_TEST

START_TEST(many_entries_come_and_go)
{
    struct mirror *mirror = make(MANY);
    struct mirror_event event;
    struct mirror_row row;
    char key[32];
    for (uint64_t i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof key, "%ju", (uintmax_t)i);
        event = event_of("a", key, i % 2 ? "cpu" : "disk", i + 1);
        ck_assert_int_eq(store(mirror, &event), MIRROR_ADDED);
    }
    ck_assert_uint_eq(mirror_count(mirror), MANY);
    for (uint64_t i = 0; i < MANY; i += 2) {
        (void)snprintf(key, sizeof key, "%ju", (uintmax_t)i);
        event = event_of("a", key, "disk", MANY + i + 1);
        ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_GONE);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof key, "%ju", (uintmax_t)i);
        ck_assert(find(mirror, "a", key, i % 2 ? "cpu" : "disk", &row) ==
                  (i % 2 == 1));
    }
    mirror_destroy(mirror);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mirror");
    TCase *places = tcase_create("places");
    tcase_add_test(places,
                   what_was_stored_is_found_with_all_that_was_said_of_it);
    tcase_add_test(places,
                   tenant_key_medium_and_backend_each_make_another_place);
    tcase_add_test(
        places, an_event_counts_only_if_its_id_is_above_the_last_of_its_place);
    tcase_add_test(places, where_ids_mean_nothing_the_order_counts);
    tcase_add_test(places,
                   cleared_takes_a_tenant_at_a_backend_and_nothing_newer);
    tcase_add_test(places,
                   at_its_bound_it_takes_no_more_but_changes_what_it_has);
    suite_add_tcase(suite, places);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, removing_and_clearing_allocate_nothing);
    tcase_add_test(memory, names_go_with_the_last_entry_that_bears_them);
    tcase_add_test(memory, a_store_that_finds_no_memory_changes_nothing);
    tcase_add_test(memory, a_change_that_finds_no_memory_leaves_the_old_tags);
    suite_add_tcase(suite, memory);
    TCase *size = tcase_create("size");
    tcase_set_timeout(size, 60);
    tcase_add_loop_test(size, at_random_it_holds_what_a_plain_table_holds, 0,
                        20);
    tcase_add_test(size, many_entries_come_and_go);
    suite_add_tcase(suite, size);
    return suite_run(suite);
}
