/* SPDX-License-Identifier: Apache-2.0 */
/* rows_crowd.c - threads that put, get, cancel and remove the same keys through
 * one driver: every row ends once, and what is READY is of one writer. For TSan. */
#include <pthread.h>

#include "rows_kit.h"

#define LEN 4096
#define CROWD 3
#define ROUNDS 120
#define KEYS 5

struct member {
    struct rows_kit *kit;
    pthread_t thread;
    uint32_t seed;
    struct rows_memory memory;
    unsigned rows[2];
    unsigned faults;
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* One operation, which is cancelled now and then. What is READY has bytes of one
 * writer; no assertions here. */
static void play_round(struct member *member)
{
    static const char *const keys[KEYS] = {"a", "b", "c", "d", "e"};
    uint32_t dice = next_random(&member->seed);
    enum mc_row_kind kind = dice % 2 ? MC_ROW_PUT : MC_ROW_GET;
    struct mc_row_span spans[2];
    struct mc_row rows[2];
    struct mc_row_state states[2];
    struct mc_row_op *op = NULL;
    for (size_t i = 0; i < 2; i++) {
        spans[i] = (struct mc_row_span){member->memory.region, i * LEN, LEN};
        rows[i] = kit_row(keys[next_random(&member->seed) % KEYS], &spans[i]);
        memset(member->memory.bytes + i * LEN, (int)(dice % 251), LEN);
    }
    const struct mc_row_request request = {
        .kind = kind, .rows = rows, .count = 2};
    enum mc_err err = mc_row_driver_submit(member->kit->driver, &request, &op);
    if (err != MC_OK) {
        member->faults++;
        return;
    }
    member->rows[kind] += 2;
    if (dice % 7 == 0) {
        mc_row_op_cancel(op);
    }
    member->faults += mc_row_op_wait(op, KIT_LONG_MS) != MC_OK;
    member->faults += mc_row_op_states(op, states) != 0;
    member->faults += mc_row_op_release(op) != MC_OK;
    for (size_t i = 0; i < 2; i++) {
        const uint8_t *bytes = member->memory.bytes + i * LEN;
        member->faults += !states[i].local_ended;
        member->faults += states[i].status == MC_ROW_READY &&
                          memcmp(bytes, bytes + 1, LEN - 1) != 0;
    }
    if (dice % 11 == 0) {
        member->faults += rows_on->remove(member->kit->world, rows[0].key) > 0;
    }
}

static void *play(void *ctx)
{
    struct member *member = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        play_round(member);
    }
    return NULL;
}

START_TEST(a_crowd_ends_every_row_once)
{
    const struct mc_row_driver_opts opts = {.workers = 3, .rows_per_call = 1};
    struct rows_kit kit;
    struct member members[CROWD];
    kit_open(&kit, NULL, &opts);
    for (uint32_t i = 0; i < CROWD; i++) {
        members[i] = (struct member){.kit = &kit, .seed = i + 1};
        members[i].memory = kit_memory(&kit, 2 * LEN);
        ck_assert_int_eq(
            pthread_create(&members[i].thread, NULL, play, &members[i]), 0);
    }
    for (size_t i = 0; i < CROWD; i++) {
        ck_assert_int_eq(pthread_join(members[i].thread, NULL), 0);
        ck_assert_uint_eq(members[i].faults, 0);
        kit_count(&kit, MC_ROW_GET, members[i].rows[MC_ROW_GET]);
        kit_count(&kit, MC_ROW_PUT, members[i].rows[MC_ROW_PUT]);
        kit_retire(&kit, &members[i].memory);
    }
    kit_close(&kit);
}
END_TEST

TCase *rows_crowd_case(void)
{
    TCase *tcase = tcase_create("crowd");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_crowd_ends_every_row_once);
    return tcase;
}
