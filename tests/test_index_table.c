/* SPDX-License-Identifier: Apache-2.0 */
/* The tables and pools below the index: growing, forgetting, epochs. */
#include <stdlib.h>
#include <string.h>

#include "index_table.h"
#include "mci_alloc.h"
#include "suite.h"

#define COUNT 200000u

struct rig {
    struct index_memory memory;
    struct index_pool segs;
    struct index_table table;
};

static void open_rig(struct rig *rig, uint64_t max_bytes)
{
    const struct index_pool_shape shape = {
        sizeof(struct index_seg), offsetof(struct index_seg, link), 4096};
    memset(rig, 0, sizeof *rig);
    ck_assert_int_eq(index_memory_init(&rig->memory, max_bytes, 2), MC_OK);
    ck_assert_int_eq(index_pool_init(&rig->memory, &rig->segs, &shape), MC_OK);
    ck_assert_int_eq(index_table_init(&rig->memory, &rig->table, &rig->segs),
                     MC_OK);
}

static void close_rig(struct rig *rig)
{
    index_table_fini(&rig->memory, &rig->table);
    index_memory_fini(&rig->memory);
}

static uint32_t tag_of(uint32_t id)
{
    uint64_t x = id * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32);
}

static uint32_t count_of(const struct rig *rig, uint32_t tag, uint32_t id)
{
    struct index_probe probe = index_probe_begin(&rig->table, tag);
    uint32_t count = 0;
    uint32_t found;
    while ((found = index_probe_next(&probe))) {
        count += found == id;
    }
    return count;
}

START_TEST(what_is_put_in_is_found_once_and_gone_when_taken_out)
{
    struct rig rig;
    open_rig(&rig, UINT64_C(1) << 30);
    for (uint32_t id = 1; id <= COUNT; id++) {
        ck_assert(index_table_insert(&rig.memory, &rig.table, tag_of(id), id));
    }
    uint32_t wrong = 0;
    for (uint32_t id = 1; id <= COUNT; id++) {
        wrong += count_of(&rig, tag_of(id), id) != 1;
        wrong += count_of(&rig, tag_of(id) ^ 1, id) != 0;
    }
    ck_assert_uint_eq(wrong, 0);
    for (uint32_t id = 1; id <= COUNT; id += 2) {
        index_table_remove(&rig.table, tag_of(id), id);
    }
    for (uint32_t id = 1; id <= COUNT; id++) {
        wrong += count_of(&rig, tag_of(id), id) != (id % 2 == 0);
    }
    ck_assert_uint_eq(wrong, 0);
    close_rig(&rig);
}
END_TEST

START_TEST(coming_and_going_does_not_make_a_table_larger)
{
    struct rig rig;
    open_rig(&rig, UINT64_C(1) << 30);
    for (uint32_t id = 1; id <= 1000; id++) {
        ck_assert(index_table_insert(&rig.memory, &rig.table, tag_of(id), id));
    }
    uint64_t bytes = 0;
    for (uint32_t id = 1001; id <= COUNT; id++) {
        ck_assert(index_table_insert(&rig.memory, &rig.table, tag_of(id), id));
        index_table_remove(&rig.table, tag_of(id - 1000), id - 1000);
        if (id % 16 == 0) {
            (void)index_memory_advance(&rig.memory);
        }
        if (id == 20000) {
            bytes = atomic_load(&rig.memory.bytes);
        }
    }
    ck_assert_uint_le(atomic_load(&rig.memory.bytes), bytes);
    close_rig(&rig);
}
END_TEST

START_TEST(equal_tags_fill_a_segment_and_then_are_refused)
{
    struct rig rig;
    open_rig(&rig, UINT64_C(1) << 30);
    uint32_t id = 1;
    while (index_table_insert(&rig.memory, &rig.table, 77, id)) {
        id++;
        ck_assert_uint_lt(id, 2000);
    }
    ck_assert_uint_gt(id, 700);
    struct index_probe probe = index_probe_begin(&rig.table, 77);
    uint32_t count = 0;
    while (index_probe_next(&probe)) {
        count++;
    }
    ck_assert_uint_eq(count, id - 1);
    close_rig(&rig);
}
END_TEST

START_TEST(a_table_without_memory_fills_up_and_stays_sound)
{
    struct rig rig;
    open_rig(&rig, UINT64_C(300) << 10);
    uint32_t id = 1;
    while (index_table_insert(&rig.memory, &rig.table, tag_of(id), id)) {
        id++;
    }
    ck_assert_uint_gt(id, 5000);
    uint32_t wrong = 0;
    for (uint32_t i = 1; i < id; i++) {
        wrong += count_of(&rig, tag_of(i), i) != 1;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_le(atomic_load(&rig.memory.bytes), UINT64_C(300) << 10);
    close_rig(&rig);
}
END_TEST

START_TEST(what_is_retired_is_free_when_all_who_saw_it_have_left)
{
    struct rig rig;
    open_rig(&rig, UINT64_C(1) << 30);
    struct index_seat *seat = &rig.memory.seats[0];
    atomic_store(&rig.memory.seats_used, 1);
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    index_memory_enter(&rig.memory, seat);
    index_block_retire(&rig.memory, index_block_take(&rig.memory, 1000));
    for (int i = 0; i < 5; i++) {
        (void)index_memory_advance(&rig.memory);
    }
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks + 1);
    ck_assert(!index_memory_advance(&rig.memory));
    index_memory_leave(seat);
    index_memory_enter(&rig.memory, seat); /* did not see it */
    ck_assert(index_memory_has_limbo(&rig.memory));
    ck_assert(index_memory_advance(&rig.memory));
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    ck_assert(!index_memory_has_limbo(&rig.memory));
    index_memory_leave(seat);
    close_rig(&rig);
}
END_TEST

START_TEST(a_pool_gives_each_record_once)
{
    struct rig rig;
    struct index_pool pool;
    const struct index_pool_shape shape = {24, 8, 100000};
    open_rig(&rig, UINT64_C(1) << 30);
    ck_assert_int_eq(index_pool_init(&rig.memory, &pool, &shape), MC_OK);
    unsigned char *is_given = calloc(1, 100001);
    ck_assert_ptr_nonnull(is_given);
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t id = index_pool_take(&rig.memory, &pool);
        ck_assert(id && id <= 100000 && !is_given[id]);
        is_given[id] = 1;
        memset(index_pool_at(&pool, id, 24), 0xee, 24);
    }
    ck_assert_uint_eq(index_pool_take(&rig.memory, &pool), 0);
    ck_assert(!index_pool_reserve(&rig.memory, &pool, 1));
    index_pool_give(&pool, 5);
    index_pool_retire(&rig.memory, &pool, 7);
    ck_assert(index_pool_reserve(&rig.memory, &pool, 1));
    ck_assert_uint_eq(index_pool_take(&rig.memory, &pool), 5);
    ck_assert_uint_eq(index_pool_take(&rig.memory, &pool), 7);
    ck_assert_uint_eq(index_pool_take(&rig.memory, &pool), 0);
    free(is_given);
    close_rig(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index_table");
    TCase *table = tcase_create("table");
    tcase_set_timeout(table, 0);
    tcase_add_test(table, what_is_put_in_is_found_once_and_gone_when_taken_out);
    tcase_add_test(table, coming_and_going_does_not_make_a_table_larger);
    tcase_add_test(table, equal_tags_fill_a_segment_and_then_are_refused);
    tcase_add_test(table, a_table_without_memory_fills_up_and_stays_sound);
    suite_add_tcase(suite, table);
    TCase *memory = tcase_create("memory");
    tcase_set_timeout(memory, 0);
    tcase_add_test(memory,
                   what_is_retired_is_free_when_all_who_saw_it_have_left);
    tcase_add_test(memory, a_pool_gives_each_record_once);
    suite_add_tcase(suite, memory);
    return suite_run(suite);
}
