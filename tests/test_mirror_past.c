/* SPDX-License-Identifier: Apache-2.0 */
/* Events that come out of their order: graves, floors, what a snapshot names
 * and what is swept; in every order the outcome is that of the right one. */
#include <stdio.h>

#include "alloc_fail.h"
#include "draw.h"
#include "mirror_past.h"
#include "suite.h"

static struct mirror_event event_of(const char *tenant, const char *key,
                                    uint64_t id)
{
    return (struct mirror_event){
        .tenant_id = mc_view_str(tenant),
        .backend_id = mc_view_str("n1"),
        .object_key = mc_view_str(key),
        .medium = mc_view_str("cpu"),
        .session_id = mc_view_str("s"),
        .event_id = id,
    };
}

static struct mirror *make(uint64_t max_entries)
{
    struct mirror *mirror = NULL;
    ck_assert_int_eq(mirror_create(max_entries, 42, &mirror), MC_OK);
    return mirror;
}

static void store(struct mirror *mirror, const char *key, uint64_t id)
{
    struct mirror_event event = event_of("a", key, id);
    enum mirror_change change = MIRROR_OLD;
    ck_assert_int_eq(mirror_stored(mirror, &event, &change), MC_OK);
    ck_assert_int_ne(change, MIRROR_OLD);
}

static enum mirror_place look(const struct mirror *mirror, const char *key,
                              uint64_t id)
{
    struct mirror_event event = event_of("a", key, id);
    return mirror_look(mirror, &event);
}

static enum mc_err bury(struct mirror *mirror, const char *key, uint64_t id)
{
    struct mirror_event event = event_of("a", key, id);
    return mirror_bury(mirror, &event);
}

START_TEST(what_stands_in_a_place_is_told_by_its_id)
{
    struct mirror *mirror = make(100);
    ck_assert_int_eq(look(mirror, "k", 5), MIRROR_EMPTY);
    store(mirror, "k", 5);
    ck_assert_int_eq(look(mirror, "k", 4), MIRROR_NEWER);
    ck_assert_int_eq(look(mirror, "k", 5), MIRROR_EQUAL);
    ck_assert_int_eq(look(mirror, "k", 6), MIRROR_OLDER);
    ck_assert_int_eq(bury(mirror, "k", 7), MC_OK);
    ck_assert_int_eq(look(mirror, "k", 7), MIRROR_NEWER);
    ck_assert_int_eq(look(mirror, "k", 8), MIRROR_EMPTY);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(a_grave_keeps_older_events_out_until_it_is_forgotten)
{
    struct mirror *mirror = make(100);
    struct mirror_event event = event_of("a", "k", 3);
    enum mirror_change change = MIRROR_ADDED;
    struct mirror_row row;
    size_t cursor = 0;
    ck_assert_int_eq(bury(mirror, "k", 7), MC_OK);
    ck_assert_int_eq(bury(mirror, "k", 6), MC_OK);
    ck_assert_uint_eq(mirror_graves(mirror), 1);
    ck_assert_uint_eq(mirror_count(mirror), 0);
    ck_assert(!mirror_next(mirror, &cursor, &row));
    ck_assert(!mirror_find(mirror, event.tenant_id, event.object_key,
                           event.medium, &row));
    ck_assert_int_eq(mirror_removed(mirror, &event), MIRROR_ABSENT);
    ck_assert_int_eq(mirror_stored(mirror, &event, &change), MC_OK);
    ck_assert_int_eq(change, MIRROR_OLD);
    mirror_forget(mirror);
    ck_assert_uint_eq(mirror_graves(mirror), 0);
    ck_assert_int_eq(mirror_stored(mirror, &event, &change), MC_OK);
    ck_assert_int_eq(change, MIRROR_ADDED);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(what_is_stored_over_a_grave_is_there_with_its_tags)
{
    struct mirror *mirror = make(100);
    struct mirror_row row;
    ck_assert_int_eq(bury(mirror, "k", 7), MC_OK);
    store(mirror, "k", 8);
    ck_assert_uint_eq(mirror_graves(mirror), 0);
    ck_assert_uint_eq(mirror_count(mirror), 1);
    ck_assert(mirror_find(mirror, mc_view_str("a"), mc_view_str("k"),
                          mc_view_str("cpu"), &row));
    ck_assert(mc_view_equal(row.session_id, mc_view_str("s")));
    ck_assert_uint_eq(row.event_id, 8);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(a_floor_keeps_out_all_of_a_tenant_and_nothing_else)
{
    struct mirror *mirror = make(100);
    struct mirror_event event = event_of("a", "", 10);
    struct mirror_event other = event_of("b", "k", 3);
    store(mirror, "old", 9);
    store(mirror, "new", 11);
    ck_assert_int_eq(mirror_floor(mirror, &event), MC_OK);
    ck_assert_int_eq(look(mirror, "other", 10), MIRROR_NEWER);
    ck_assert_int_eq(look(mirror, "other", 11), MIRROR_EMPTY);
    ck_assert_int_eq(mirror_look(mirror, &other), MIRROR_EMPTY);
    ck_assert(mirror_has_newer(mirror, &event));
    ck_assert_uint_eq(mirror_cleared(mirror, &event), 1);
    ck_assert_uint_eq(mirror_graves(mirror), 1);
    mirror_forget(mirror);
    ck_assert_int_eq(look(mirror, "other", 10), MIRROR_EMPTY);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(graves_and_floors_are_bounded_by_a_quarter)
{
    struct mirror *mirror = make(8);
    struct mirror_event event = event_of("c", "", 5);
    ck_assert_int_eq(bury(mirror, "a", 1), MC_OK);
    ck_assert_int_eq(mirror_floor(mirror, &event), MC_OK);
    ck_assert_int_eq(bury(mirror, "b", 2), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_int_eq(bury(mirror, "a", 3), MC_OK);
    ck_assert_int_eq(mirror_floor(mirror, &event), MC_OK);
    event = event_of("d", "", 6);
    ck_assert_int_eq(mirror_floor(mirror, &event), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_uint_eq(mirror_graves(mirror), 2);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(what_is_cleared_is_taken_out_one_by_one)
{
    enum { EACH = 50 };
    struct mirror *mirror = make(1000);
    struct mirror_event event = event_of("a", "", 1000);
    struct mirror_row row;
    char key[16];
    for (int i = 0; i < 2 * EACH; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        store(mirror, key, (i % 2 ? 1 : 2000) + (uint64_t)i);
    }
    for (int i = 0; i < EACH; i++) {
        ck_assert(mirror_take_cleared(mirror, &event, &row));
        ck_assert_uint_lt(row.event_id, 1000);
        ck_assert(mc_view_equal(row.session_id, mc_view_str("s")));
        ck_assert_int_eq(((const char *)row.object_key.data)[0], 'k');
        ck_assert_uint_eq(mirror_count(mirror), (uint64_t)(2 * EACH - 1 - i));
    }
    ck_assert(!mirror_take_cleared(mirror, &event, &row));
    mirror_destroy(mirror);
}
END_TEST

START_TEST(what_a_snapshot_did_not_name_is_swept_unless_it_is_newer)
{
    enum { KEYS = 3000, FIRST = 5000 };
    struct mirror *mirror = make(2 * KEYS);
    struct mirror_sweep sweep = {.round = 7, .first_id = FIRST};
    struct mirror_row row;
    char key[16];
    uint64_t swept = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "k%d", (int)i);
        store(mirror, key, i % 3 == 0 ? FIRST + 1 + i : 1 + i);
        struct mirror_event event = event_of("a", key, 0);
        mirror_name(mirror, &event, i % 3 == 1 ? 7 : 6);
    }
    ck_assert_int_eq(bury(mirror, "grave", 1), MC_OK);
    while (mirror_take_unnamed(mirror, &sweep, &row)) {
        ck_assert_uint_eq((row.event_id - 1) % 3, 2);
        swept++;
    }
    ck_assert_uint_eq(swept, KEYS / 3);
    ck_assert_uint_eq(mirror_count(mirror), KEYS / 3 * 2);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(what_is_taken_out_can_be_looked_at_until_the_next_change)
{
    struct mirror *mirror = make(10);
    struct mirror_event event = event_of("a", "k", 9);
    struct mirror_row row;
    ck_assert(!mirror_take_older(mirror, &event, &row));
    store(mirror, "k", 5);
    ck_assert(mirror_take_older(mirror, &event, &row));
    ck_assert_uint_eq(mirror_count(mirror), 0);
    ck_assert(mc_view_equal(row.tenant_id, mc_view_str("a")));
    ck_assert(mc_view_equal(row.object_key, mc_view_str("k")));
    store(mirror, "k", 9);
    ck_assert(!mirror_take_older(mirror, &event, &row));
    mirror_destroy(mirror);
}
END_TEST

START_TEST(what_is_forgotten_goes_a_little_with_each_change)
{
    enum { GRAVES = 1000 };
    struct mirror *mirror = make(4 * GRAVES);
    char key[16];
    for (int i = 0; i < GRAVES; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(bury(mirror, key, 7), MC_OK);
    }
    ck_assert_int_eq(bury(mirror, "more", 7), MC_ERR_BUFFER_OVERFLOW);
    mirror_forget(mirror);
    ck_assert_uint_eq(mirror_graves(mirror), 0);
    ck_assert_uint_eq(mirror_forgotten(mirror), GRAVES);
    /* Graves anew, of the same keys too, are never more than four are freed. */
    for (int i = GRAVES - 1; mirror_forgotten(mirror) > 0; i--) {
        uint64_t before = mirror_forgotten(mirror);
        (void)snprintf(key, sizeof key, i % 2 ? "k%d" : "l%d", i);
        ck_assert_int_eq(bury(mirror, key, 3), MC_OK);
        ck_assert_int_eq(look(mirror, key, 3), MIRROR_NEWER);
        ck_assert_int_eq(look(mirror, key, 4), MIRROR_EMPTY);
        ck_assert_uint_lt(mirror_forgotten(mirror), before);
        ck_assert_uint_ge(mirror_forgotten(mirror) + 5, before);
        ck_assert_uint_le(mirror_graves(mirror) + mirror_forgotten(mirror),
                          GRAVES);
    }
    ck_assert_uint_gt(mirror_graves(mirror), GRAVES / 6);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(what_is_forgotten_and_not_yet_freed_says_nothing)
{
    enum { MANY = 100 };
    struct mirror *mirror = make(1000);
    struct mirror_event floor = event_of("a", "", 90);
    struct mirror_event other = event_of("b", "", 95);
    struct mirror_sweep sweep = {.round = 0, .first_id = 1000};
    struct mirror_row row;
    char key[16];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(bury(mirror, key, 50), MC_OK);
    }
    ck_assert_int_eq(mirror_floor(mirror, &floor), MC_OK);
    ck_assert_int_eq(mirror_floor(mirror, &other), MC_OK);
    mirror_forget(mirror);
    ck_assert_int_eq(look(mirror, "k99", 1), MIRROR_EMPTY);
    ck_assert_int_eq(mirror_look(mirror, &other), MIRROR_EMPTY);
    store(mirror, "k99", 1); /* an older id than that of the grave */
    ck_assert_uint_eq(mirror_count(mirror), 1);
    ck_assert_int_eq(bury(mirror, "k98", 2), MC_OK);
    ck_assert_int_eq(look(mirror, "k98", 3), MIRROR_EMPTY);
    floor.event_id = 4;
    ck_assert_int_eq(mirror_floor(mirror, &floor), MC_OK);
    ck_assert_int_eq(look(mirror, "k50", 4), MIRROR_NEWER);
    ck_assert_int_eq(look(mirror, "k50", 5), MIRROR_EMPTY);
    ck_assert_uint_eq(mirror_graves(mirror), 2);
    ck_assert(!mirror_take_unnamed(mirror, &sweep, &row)); /* its round is 0 */
    mirror_tidy(mirror, MANY);
    ck_assert_uint_eq(mirror_forgotten(mirror), 0);
    ck_assert_uint_eq(mirror_count(mirror), 1);
    ck_assert_uint_eq(mirror_graves(mirror), 2);
    mirror_clear(mirror);
    ck_assert_uint_eq(mirror_graves(mirror), 0);
    mirror_destroy(mirror);
}
END_TEST

START_TEST(graves_and_floors_that_find_no_memory_change_nothing)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mirror *mirror = make(100);
        struct mirror_event event = event_of("a", "k", 7);
        struct mirror_event other = event_of("b", "", 8);
        alloc_fail_arm(&fail);
        enum mc_err err = mirror_bury(mirror, &event);
        enum mc_err floor = mirror_floor(mirror, &other);
        alloc_fail_disarm(&fail);
        ck_assert((err != MC_OK || floor != MC_OK) ==
                  alloc_fail_happened(&fail));
        ck_assert_uint_eq(mirror_graves(mirror),
                          (uint64_t)(err == MC_OK) + (floor == MC_OK));
        ck_assert_int_eq(mirror_look(mirror, &event),
                         err == MC_OK ? MIRROR_NEWER : MIRROR_EMPTY);
        mirror_destroy(mirror);
    }
    ck_assert_uint_gt(fail.k, 6);
}
END_TEST

/* ---- in any order ---- */

enum { KEYS = 6, EVENTS = 40 };

struct happening {
    int type; /* 0 stored, 1 removed, 2 cleared */
    int key;
    uint64_t id;
};

/* As whoever recovers applies an event, without telling anybody. */
static void apply(struct mirror *mirror, const struct happening *what)
{
    char key[8];
    (void)snprintf(key, sizeof key, "k%d", what->key);
    struct mirror_event event = event_of("a", key, what->id);
    enum mirror_change change = MIRROR_OLD;
    enum mirror_place place = mirror_look(mirror, &event);
    if (what->type == 2) {
        ck_assert_int_eq(mirror_floor(mirror, &event), MC_OK);
        (void)mirror_cleared(mirror, &event);
    } else if (place == MIRROR_EMPTY || place == MIRROR_OLDER) {
        ck_assert_int_eq(what->type == 0
                             ? mirror_stored(mirror, &event, &change)
                             : mirror_bury(mirror, &event),
                         MC_OK);
    }
}

/* The id with which each key is there after all; 0: it is not. */
static void truth(const struct happening *events, uint64_t *ids)
{
    memset(ids, 0, KEYS * sizeof *ids);
    for (int i = 0; i < EVENTS; i++) {
        if (events[i].type == 2) {
            memset(ids, 0, KEYS * sizeof *ids);
        } else {
            ids[events[i].key] = events[i].type == 0 ? events[i].id : 0;
        }
    }
}

START_TEST(in_any_order_the_outcome_is_that_of_the_right_one)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)_i;
    struct happening events[EVENTS];
    uint64_t ids[KEYS];
    struct mirror *mirror = make(1000);
    for (int i = 0; i < EVENTS; i++) {
        uint64_t type = draw(&state, 16);
        events[i] =
            (struct happening){type == 0 ? 2 : (int)(type % 2),
                               (int)draw(&state, KEYS), (uint64_t)i + 1};
    }
    truth(events, ids);
    /* Of what was forgotten nothing is left to disturb another turn. */
    for (int turn = 0; turn < 3; turn++) {
        struct happening left[EVENTS];
        memcpy(left, events, sizeof left);
        if (turn > 0) {
            struct mirror_event all = event_of("a", "", UINT64_MAX);
            (void)mirror_cleared(mirror, &all);
        }
        for (int i = EVENTS; i > 0; i--) {
            int at = (int)draw(&state, (uint64_t)i);
            apply(mirror, &left[at]);
            left[at] = left[i - 1];
        }
        mirror_forget(mirror);
    }
    for (int i = 0; i < KEYS; i++) {
        char key[8];
        struct mirror_row row = {.event_id = 0};
        (void)snprintf(key, sizeof key, "k%d", i);
        (void)mirror_find(mirror, mc_view_str("a"), mc_view_str(key),
                          mc_view_str("cpu"), &row);
        ck_assert_uint_eq(row.event_id, ids[i]);
    }
    mirror_destroy(mirror);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mirror_past");
    TCase *past = tcase_create("past");
    tcase_add_test(past, what_stands_in_a_place_is_told_by_its_id);
    tcase_add_test(past, a_grave_keeps_older_events_out_until_it_is_forgotten);
    tcase_add_test(past, what_is_stored_over_a_grave_is_there_with_its_tags);
    tcase_add_test(past, a_floor_keeps_out_all_of_a_tenant_and_nothing_else);
    tcase_add_test(past, graves_and_floors_are_bounded_by_a_quarter);
    tcase_add_test(past, what_is_cleared_is_taken_out_one_by_one);
    tcase_add_test(past,
                   what_a_snapshot_did_not_name_is_swept_unless_it_is_newer);
    tcase_add_test(past,
                   what_is_taken_out_can_be_looked_at_until_the_next_change);
    tcase_add_test(past, what_is_forgotten_goes_a_little_with_each_change);
    tcase_add_test(past, what_is_forgotten_and_not_yet_freed_says_nothing);
    tcase_add_test(past, graves_and_floors_that_find_no_memory_change_nothing);
    tcase_add_loop_test(past, in_any_order_the_outcome_is_that_of_the_right_one,
                        0, 300);
    suite_add_tcase(suite, past);
    return suite_run(suite);
}
