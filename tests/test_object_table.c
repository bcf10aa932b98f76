/* SPDX-License-Identifier: Apache-2.0 */
/* test_object_table.c - the parts that objects are made of: the table of a
 * shard and its walk, the pool, queues, limbo, labels.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chunks.h"
#include "mci_alloc.h"
#include "object_table.h"
#include "suite.h"

#define KEYS 5000

static struct mci_table table;
static struct mci_chunks chunks;
static struct mci_pool pool;
static bool is_in[KEYS];
static uint64_t dice = 88172645463325252u;

static uint64_t roll(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice;
}

static const char *key_text(uint32_t number)
{
    static char text[16];
    (void)snprintf(text, sizeof text, "k%u", number);
    return text;
}

/* Tags are made so that many keys share a home or even a tag. */
static struct mci_spot spot_of(uint32_t number)
{
    uint32_t tag = number * UINT32_C(2654435761);
    if (number % 5 == 0) {
        tag = UINT32_MAX - number % 64; /* crowded at the end: runs wrap */
    }
    return (struct mci_spot){.key = mc_view_str(key_text(number)), .tag = tag};
}

static void close_pool(void)
{
    mci_pool_fini(&pool);
    mci_chunks_fini(&chunks);
}

static void start(void)
{
    memset(&table, 0, sizeof table);
    mci_chunks_init(&chunks);
    pool = (struct mci_pool){.source = &chunks};
    memset(is_in, 0, sizeof is_in);
}

static void add(uint32_t number)
{
    struct mci_spot spot = spot_of(number);
    const struct mci_label_opts opts = {.key = spot.key};
    uint32_t index = 0;
    ck_assert_int_eq(mci_table_promise(&table), MC_OK);
    ck_assert_int_eq(mci_pool_take(&pool, &index), MC_OK);
    struct mci_record *record = mci_pool_at(&pool, index);
    record->label = mci_label_create(&opts);
    record->number = number;
    ck_assert_ptr_nonnull(record->label);
    mci_table_insert(&table, spot.tag, index);
    is_in[number] = true;
}

static void take_out(struct mci_slot *slot)
{
    struct mci_record *record = mci_pool_at(&pool, slot->index);
    uint32_t index = slot->index;
    is_in[record->number] = false;
    mci_table_remove(&table, slot);
    mci_label_destroy(record->label);
    mci_pool_give(&pool, index);
}

static struct mci_slot *look_up(uint32_t number)
{
    struct mci_spot spot = spot_of(number);
    return mci_table_find(&table, &pool, &spot);
}

static void finish(void)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        if (is_in[i]) {
            take_out(look_up(i));
        }
    }
    mci_table_fini(&table);
    close_pool();
}

static void check_against_model(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        struct mci_slot *slot = look_up(i);
        ck_assert_int_eq(slot != NULL, is_in[i]);
        if (slot) {
            ck_assert_uint_eq(mci_pool_at(&pool, slot->index)->number, i);
            count++;
        }
    }
    ck_assert_uint_eq(table.used, count);
    ck_assert_uint_eq(table.promised, 0);
}

/* ---- table -------------------------------------------------------------- */

START_TEST(the_table_finds_what_is_in_it_and_nothing_else)
{
    start();
    for (int i = 0; i < 60000; i++) {
        uint32_t number = (uint32_t)(roll() % KEYS);
        if (!is_in[number]) {
            add(number);
        } else {
            take_out(look_up(number));
        }
        if (i % 6000 == 0) {
            check_against_model();
        }
    }
    check_against_model();
    finish();
}
END_TEST

START_TEST(the_table_is_at_most_three_quarters_full_and_not_too_large)
{
    start();
    for (uint32_t i = 0; i < KEYS; i++) {
        add(i);
        ck_assert_uint_le((uint64_t)table.used * 4,
                          (uint64_t)table.capacity * 3);
    }
    ck_assert_uint_lt(table.capacity, 2 * KEYS);
    finish();
}
END_TEST

START_TEST(a_promise_that_needs_memory_can_fail_and_changes_nothing)
{
    start();
    for (uint32_t i = 0; i < 6; i++) {
        add(i);
    }
    struct mci_table before = table;
    (void)mci_alloc_fail_at(1);
    ck_assert_int_eq(mci_table_promise(&table), MC_ERR_NOMEM);
    (void)mci_alloc_fail_at(0);
    ck_assert_mem_eq(&table, &before, sizeof table);
    check_against_model();
    finish();
}
END_TEST

START_TEST(what_was_promised_goes_in_without_allocating)
{
    start();
    enum { MANY = 300 };
    uint32_t indexes[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(mci_table_promise(&table), MC_OK);
        ck_assert_int_eq(mci_pool_take(&pool, &indexes[i]), MC_OK);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        struct mci_spot spot = spot_of(i);
        const struct mci_label_opts opts = {.key = spot.key};
        mci_pool_at(&pool, indexes[i])->label = mci_label_create(&opts);
        mci_pool_at(&pool, indexes[i])->number = i;
        is_in[i] = true;
    }
    uint64_t calls = mci_alloc_thread_calls();
    for (uint32_t i = 0; i < MANY; i++) {
        mci_table_insert(&table, spot_of(i).tag, indexes[i]);
    }
    ck_assert_uint_eq(mci_alloc_thread_calls(), calls);
    check_against_model();
    finish();
}
END_TEST

/* ---- walk --------------------------------------------------------------- */

#define TAGS_END (UINT64_C(1) << 32)

/* Walks everything in ranges of so many slots; between two ranges `between` may
 * change the table. Counts how often each key was shown. */
static void walk_all(uint32_t slots, uint32_t *shown, void (*between)(void))
{
    for (uint64_t tag = 0; tag < TAGS_END;) {
        uint64_t end = mci_table_range_end(&table, tag, slots);
        ck_assert_uint_gt(end, tag);
        struct mci_walk walk = mci_walk_begin(&table, tag, end);
        struct mci_slot *slot = NULL;
        while ((slot = mci_walk_next(&walk))) {
            ck_assert(slot->tag >= tag && slot->tag < end);
            shown[mci_pool_at(&pool, slot->index)->number]++;
        }
        tag = end;
        if (between) {
            between();
        }
    }
}

START_TEST(a_walk_shows_everything_exactly_once)
{
    static const uint32_t slots[] = {1, 3, 64, 100000};
    static uint32_t shown[KEYS];
    start();
    for (uint32_t i = 0; i < KEYS; i++) {
        add(i);
    }
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        memset(shown, 0, sizeof shown);
        walk_all(slots[i], shown, NULL);
        for (uint32_t key = 0; key < KEYS; key++) {
            ck_assert_msg(shown[key] == 1, "slots %u, key %u: %u times",
                          slots[i], key, shown[key]);
        }
    }
    finish();
}
END_TEST

#define STAYS 500 /* keys that are there all the time */

static void come_and_go(void)
{
    for (int i = 0; i < 40; i++) {
        uint32_t number = STAYS + (uint32_t)(roll() % (KEYS - STAYS));
        if (!is_in[number]) {
            add(number);
        } else if (i % 4 == 0) {
            take_out(look_up(number));
        }
    }
}

START_TEST(a_walk_is_not_moved_by_growing)
{
    static uint32_t shown[KEYS];
    start();
    memset(shown, 0, sizeof shown);
    for (uint32_t i = 0; i < STAYS; i++) {
        add(i);
    }
    uint32_t capacity = table.capacity;
    walk_all(8, shown, come_and_go);
    ck_assert_uint_gt(table.capacity, 2 * capacity);
    for (uint32_t key = 0; key < STAYS; key++) {
        ck_assert_msg(shown[key] == 1, "key %u: %u times", key, shown[key]);
    }
    for (uint32_t key = STAYS; key < KEYS; key++) {
        ck_assert_uint_le(shown[key], 1 + 1000);
    }
    finish();
}
END_TEST

START_TEST(a_walk_may_remove_what_it_shows)
{
    start();
    for (uint32_t i = 0; i < KEYS; i++) {
        add(i);
    }
    uint32_t kept = 0;
    for (uint64_t tag = 0; tag < TAGS_END;) {
        uint64_t end = mci_table_range_end(&table, tag, 16);
        struct mci_walk walk = mci_walk_begin(&table, tag, end);
        struct mci_slot *slot = NULL;
        while ((slot = mci_walk_next(&walk))) {
            if (mci_pool_at(&pool, slot->index)->number % 7 == 0) {
                kept++;
                continue;
            }
            take_out(slot);
            mci_walk_again(&walk);
        }
        tag = end;
    }
    ck_assert_uint_eq(table.used, (KEYS + 6) / 7);
    ck_assert_uint_ge(kept, (KEYS + 6) / 7);
    check_against_model();
    finish();
}
END_TEST

/* ---- pool, queues, limbo ------------------------------------------------- */

START_TEST(a_pool_uses_places_again_and_does_not_move_records)
{
    start();
    uint32_t first = 0;
    uint32_t index = 0;
    ck_assert_int_eq(mci_pool_take(&pool, &first), MC_OK);
    ck_assert_uint_ne(first, 0);
    struct mci_record *record = mci_pool_at(&pool, first);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(mci_pool_take(&pool, &index), MC_OK);
    }
    ck_assert_ptr_eq(record, mci_pool_at(&pool, first));
    mci_pool_at(&pool, index)->bytes = 7;
    mci_pool_give(&pool, index);
    uint32_t touched = pool.touched;
    uint32_t again = 0;
    ck_assert_int_eq(mci_pool_take(&pool, &again), MC_OK);
    ck_assert_uint_eq(again, index);
    ck_assert_uint_eq(mci_pool_at(&pool, again)->bytes, 0);
    ck_assert_uint_eq(pool.touched, touched);
    close_pool();
}
END_TEST

/* Whatever a pool asks for, malloc is asked once for many chunks. */
START_TEST(pools_share_slabs_that_are_asked_for_at_once)
{
    enum { POOLS = 40, CHUNKS_EACH = 16, SLABS_MAX = 16 };
    struct mci_record *last = NULL;
    uint32_t whole = 0;
    start();
    uint64_t calls = mci_alloc_thread_calls();
    for (int i = 0; i < POOLS * CHUNKS_EACH; i++) {
        struct mci_record *chunk = mci_chunks_take(&chunks);
        ck_assert_ptr_nonnull(chunk);
        memset(chunk, 0xa5, MCI_POOL_CHUNK * sizeof *chunk);
        whole += last && chunk == last + MCI_POOL_CHUNK;
        last = chunk;
    }
    ck_assert_uint_le(mci_alloc_thread_calls() - calls, SLABS_MAX);
    ck_assert_uint_ge(whole, POOLS * CHUNKS_EACH - SLABS_MAX);
    close_pool();
}
END_TEST

START_TEST(a_slab_that_cannot_be_had_costs_one_record)
{
    uint32_t index = 0;
    start();
    ck_assert_int_eq(mci_pool_take(&pool, &index), MC_OK);
    while (chunks.left > 0) {
        ck_assert_ptr_nonnull(mci_chunks_take(&chunks));
    }
    for (int i = 2; i < MCI_POOL_CHUNK; i++) {
        ck_assert_int_eq(mci_pool_take(&pool, &index), MC_OK);
    }
    uint32_t last = index;
    (void)mci_alloc_fail_at(1);
    ck_assert_int_eq(mci_pool_take(&pool, &index), MC_ERR_NOMEM);
    (void)mci_alloc_fail_at(0);
    ck_assert_uint_eq(index, last);
    ck_assert_int_eq(mci_pool_take(&pool, &index), MC_OK);
    ck_assert_uint_eq(index, last + 1);
    close_pool();
}
END_TEST

START_TEST(a_queue_keeps_its_order)
{
    start();
    uint32_t indexes[4];
    struct mci_queue queue = {0, 0};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(mci_pool_take(&pool, &indexes[i]), MC_OK);
    }
    mci_queue_push_back(&pool, &queue, indexes[1]);
    mci_queue_push_back(&pool, &queue, indexes[2]);
    mci_queue_push_front(&pool, &queue, indexes[0]);
    mci_queue_push_back(&pool, &queue, indexes[3]);
    mci_queue_remove(&pool, &queue, indexes[1]);
    mci_queue_remove(&pool, &queue, indexes[0]);
    ck_assert_uint_eq(queue.head, indexes[2]);
    ck_assert_uint_eq(mci_pool_at(&pool, queue.head)->next, indexes[3]);
    ck_assert_uint_eq(queue.tail, indexes[3]);
    mci_queue_remove(&pool, &queue, indexes[3]);
    mci_queue_remove(&pool, &queue, indexes[2]);
    ck_assert_uint_eq(queue.head, 0);
    ck_assert_uint_eq(queue.tail, 0);
    close_pool();
}
END_TEST

START_TEST(limbo_gives_back_in_order_of_deadlines)
{
    enum { MANY = 3000 };
    start();
    uint32_t root = 0;
    uint64_t last = 0;
    uint32_t left = 0;
    for (int i = 0; i < MANY; i++) {
        uint32_t index = 0;
        ck_assert_int_eq(mci_pool_take(&pool, &index), MC_OK);
        mci_pool_at(&pool, index)->lease_ns = 1 + roll() % 1000;
        mci_limbo_push(&pool, &root, index);
        left++;
        if (i % 3 == 0) {
            mci_pool_give(&pool, mci_limbo_pop(&pool, &root));
            left--;
        }
    }
    for (; root != 0; left--) {
        uint32_t index = mci_limbo_pop(&pool, &root);
        ck_assert_uint_ge(mci_pool_at(&pool, index)->lease_ns, last);
        last = mci_pool_at(&pool, index)->lease_ns;
        mci_pool_give(&pool, index);
    }
    ck_assert_uint_eq(left, 0);
    ck_assert_uint_eq(mci_limbo_pop(&pool, &root), 0);
    close_pool();
}
END_TEST

/* ---- labels --------------------------------------------------------------- */

static struct mci_label *make_label(const char *key, const char *tag,
                                    bool has_extras)
{
    const struct mci_label_opts opts = {.key = mc_view_str(key),
                                        .tag = mc_view_str(tag),
                                        .has_extras = has_extras};
    struct mci_label *label = mci_label_create(&opts);
    ck_assert_ptr_nonnull(label);
    return label;
}

static void check_tag(const struct mci_label *label, const char *tag)
{
    ck_assert(mc_view_equal(mci_label_tag(label), mc_view_str(tag)));
}

/* A version's label, once the version is gone. */
static void let_go(struct mci_label *label)
{
    if (mci_label_release(label)) {
        mci_label_destroy(label);
    }
}

START_TEST(a_tag_is_inherited_whoever_goes_first)
{
    for (int order = 0; order < 2; order++) {
        struct mci_alloc_stats before;
        struct mci_alloc_stats after;
        mci_alloc_stats(&before);
        struct mci_label *first = make_label("key", "session", false);
        struct mci_label *second = make_label("key", NULL, true);
        struct mci_label *third = make_label("key", NULL, true);
        mci_label_inherit(second, first);
        check_tag(first, "session");
        check_tag(second, "session");
        mci_label_inherit(third, second);
        check_tag(third, "session");
        ck_assert_ptr_null(mci_label_tag(second).data);
        let_go(second);
        let_go(order == 0 ? first : third);
        if (order == 0) {
            check_tag(third, "session");
        } else {
            check_tag(first, "session");
        }
        let_go(order == 0 ? third : first);
        mci_alloc_stats(&after);
        ck_assert_int_eq(after.bytes, before.bytes);
    }
}
END_TEST

START_TEST(extras_stand_behind_key_and_tag_of_any_length)
{
    char text[64];
    for (size_t len = 1; len < sizeof text; len++) {
        memset(text, 'x', len);
        text[len] = '\0';
        struct mci_label *label = make_label(text, text + len / 2, true);
        struct mci_extras *extras = mci_label_extras(label);
        ck_assert_uint_eq((uintptr_t)extras % _Alignof(struct mci_extras), 0);
        memset(&extras->soft_ns, 0xff, sizeof extras->soft_ns);
        ck_assert(mc_view_equal(mci_label_key(label), mc_view_str(text)));
        check_tag(label, text + len / 2);
        mci_label_destroy(label);
        text[len] = 'x';
    }
}
END_TEST

static void add_cases(Suite *suite)
{
    TCase *tcase = tcase_create("table");
    tcase_add_test(tcase, the_table_finds_what_is_in_it_and_nothing_else);
    tcase_add_test(tcase,
                   the_table_is_at_most_three_quarters_full_and_not_too_large);
    tcase_add_test(tcase,
                   a_promise_that_needs_memory_can_fail_and_changes_nothing);
    tcase_add_test(tcase, what_was_promised_goes_in_without_allocating);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("walk");
    tcase_add_test(tcase, a_walk_shows_everything_exactly_once);
    tcase_add_test(tcase, a_walk_is_not_moved_by_growing);
    tcase_add_test(tcase, a_walk_may_remove_what_it_shows);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("records");
    tcase_add_test(tcase, a_pool_uses_places_again_and_does_not_move_records);
    tcase_add_test(tcase, pools_share_slabs_that_are_asked_for_at_once);
    tcase_add_test(tcase, a_slab_that_cannot_be_had_costs_one_record);
    tcase_add_test(tcase, a_queue_keeps_its_order);
    tcase_add_test(tcase, limbo_gives_back_in_order_of_deadlines);
    tcase_add_test(tcase, a_tag_is_inherited_whoever_goes_first);
    tcase_add_test(tcase, extras_stand_behind_key_and_tag_of_any_length);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("object table");
    add_cases(suite);
    return suite_run(suite);
}
