/* SPDX-License-Identifier: Apache-2.0 */
/* test_row_driver.c - the driver beside its contract: options, tags, figures, and
 * memory that runs out here or on a worker. What every driver promises is in
 * conformance/. */
#include <stdatomic.h>
#include <string.h>

#include "alloc_fail.h"
#include "await.h"
#include "client.h"
#include "client_rig.h"
#include "mc_row_driver.h"
#include "suite.h"

#define LEN 4096
#define LONG_MS 60000

static struct client_rig rig;
static struct mc_row_driver *driver;
static uint8_t memory[4 * LEN];
static uint32_t region;

static void open_all(const struct mc_row_driver_opts *opts)
{
    client_open_strict(&rig, NULL);
    ck_assert_int_eq(mc_row_driver_open(rig.client, opts, &driver), MC_OK);
    ck_assert_int_eq(mc_row_driver_register(driver, memory, sizeof memory,
                                            MC_MEMORY_HOST, &region),
                     MC_OK);
}

static void close_all(void)
{
    mc_row_driver_close(driver);
    client_close(&rig);
}

static struct mc_row_driver_stats stats_of(void)
{
    struct mc_row_driver_stats stats;
    mc_row_driver_stat(driver, &stats);
    return stats;
}

/* Four rows of one page each. */
static enum mc_err submit(enum mc_row_kind kind, struct mc_row_op **op_out)
{
    static const char *const keys[4] = {"a", "b", "a", "d"};
    struct mc_row_span spans[4];
    struct mc_row rows[4];
    for (size_t i = 0; i < 4; i++) {
        spans[i] = (struct mc_row_span){region, i * LEN, LEN};
        rows[i] = (struct mc_row){
            .key = mc_view_str(keys[i]), .spans = &spans[i], .span_count = 1};
    }
    const struct mc_row_request request = {
        .kind = kind, .rows = rows, .count = 4};
    return mc_row_driver_submit(driver, &request, op_out);
}

static void await(struct mc_row_op *op, struct mc_row_state states[4])
{
    ck_assert_int_eq(mc_row_op_wait(op, LONG_MS), MC_OK);
    ck_assert_uint_eq(mc_row_op_states(op, states), 0);
    ck_assert_int_eq(mc_row_op_release(op), MC_OK);
}

/* ---- options -------------------------------------------------------------------- */

START_TEST(options_over_their_limits_are_refused)
{
    static const struct mc_row_driver_opts wrong[] = {
        {.workers = MC_ROW_WORKERS_MAX + 1},
        {.rows_per_call = MC_ROWS_MAX + 1},
        {.bytes_per_call = MC_OBJECT_SIZE_MAX + 1},
        {.rows_max = MC_ROW_QUEUE_MAX + 1},
        {.replicas = MC_ROW_REPLICAS_MAX + 1}};
    struct mc_row_driver *none = NULL;
    client_open(&rig, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(mc_row_driver_open(rig.client, &wrong[i], &none),
                         MC_ERR_INVALID_PARAMS);
    }
    ck_assert_int_eq(mc_row_driver_open(NULL, NULL, &none),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_row_driver_open(rig.client, NULL, NULL),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(none);
    mc_row_driver_close(NULL);
    ck_assert_int_eq(mc_row_op_release(NULL), MC_OK);
    client_close(&rig);
}
END_TEST

/* ---- tags and figures --------------------------------------------------------------- */

START_TEST(a_put_is_tagged_with_its_session)
{
    const struct mc_row_span span = {0, 0, LEN};
    struct mc_row_span spans[2] = {span, span};
    struct mc_row_state states[2];
    struct mc_row_op *op = NULL;
    open_all(NULL);
    spans[0].region = region;
    spans[1].region = region;
    const struct mc_row rows[2] = {
        {mc_view_str("tagged"), &spans[0], 1, mc_view_str("agent-7")},
        {mc_view_str("plain"), &spans[1], 1, mc_view_str("")}};
    const struct mc_row_request request = {
        .kind = MC_ROW_PUT, .rows = rows, .count = 2};
    ck_assert_int_eq(mc_row_driver_submit(driver, &request, &op), MC_OK);
    ck_assert_int_eq(mc_row_op_wait(op, LONG_MS), MC_OK);
    ck_assert_uint_eq(mc_row_op_states(op, states), 0);
    ck_assert_int_eq(mc_row_op_release(op), MC_OK);
    struct mc_probe probe = client_probe(&rig, "tagged");
    ck_assert_uint_eq(probe.session_len, 7);
    ck_assert_mem_eq(probe.session, "agent-7", 7);
    ck_assert_uint_eq(client_probe(&rig, "plain").session_len, 0);
    close_all();
}
END_TEST

START_TEST(rows_are_counted_by_reason)
{
    const struct mc_row_driver_opts opts = {.rows_per_call = 1};
    struct mc_row_op *op = NULL;
    struct mc_row_state states[4];
    open_all(&opts);
    ck_assert_int_eq(submit(MC_ROW_GET, &op), MC_OK);
    await(op, states);
    ck_assert_int_eq(submit(MC_ROW_PUT, &op), MC_OK);
    await(op, states);
    ck_assert_int_eq(submit(MC_ROW_GET, &op), MC_OK);
    await(op, states);
    struct mc_row_driver_stats stats = stats_of();
    ck_assert_uint_eq(stats.gets[MC_ROW_REASON_ABSENT], 4);
    ck_assert_uint_eq(stats.gets[MC_ROW_REASON_MOVED], 4);
    ck_assert_uint_eq(stats.get_bytes, 4 * LEN);
    ck_assert_uint_eq(stats.puts[MC_ROW_REASON_MOVED], 3);
    ck_assert_uint_eq(stats.puts[MC_ROW_REASON_EXISTS], 1); /* the twin */
    ck_assert_uint_eq(stats.put_bytes, 3 * LEN);
    ck_assert_uint_eq(stats.calls, 4 + 3 + 4);
    ck_assert_uint_eq(stats.keys_written, 0);
    ck_assert_uint_eq(stats.regions, 1);
    close_all();
}
END_TEST

/* The contract lets a driver write into the slot; this one does not. */
START_TEST(an_object_of_another_size_moves_no_byte)
{
    static const size_t sizes[] = {LEN - 1, LEN + 1};
    struct mc_row_op *op = NULL;
    struct mc_row_state states[4];
    static uint8_t object[LEN + 1];
    open_all(NULL);
    for (size_t i = 0; i < 2; i++) {
        memset(object, 7, sizeof object);
        memset(memory, 9, sizeof memory);
        ck_assert_int_eq(client_put(&rig, "b", object, sizes[i]), MC_OK);
        ck_assert_int_eq(submit(MC_ROW_GET, &op), MC_OK);
        await(op, states);
        ck_assert_int_eq(states[1].reason, MC_ROW_REASON_WRONG_SIZE);
        ck_assert(memory[0] == 9 &&
                  memcmp(memory, memory + 1, sizeof memory - 1) == 0);
        ck_assert_int_eq(mc_client_remove(rig.client, mc_view_str("b"), true),
                         MC_OK);
    }
    close_all();
}
END_TEST

/* Memory that other calls of the client use is given back later. */
START_TEST(a_region_that_the_client_uses_stays)
{
    struct mci_memory_use use = {.count = 0};
    open_all(NULL);
    ck_assert(mci_memory_use(&rig.client->memory, &use, memory, LEN));
    ck_assert_int_eq(mc_row_driver_unregister(driver, region),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    mci_memory_release(&rig.client->memory, &use);
    ck_assert_int_eq(mc_row_driver_unregister(driver, region), MC_OK);
    close_all();
}
END_TEST

/* ---- out of memory --------------------------------------------------------------------- */

START_TEST(a_driver_opens_whole_or_not_at_all)
{
    struct alloc_fail fail;
    client_open_strict(&rig, NULL);
    ck_assert_int_eq(mc_client_register_buffer(rig.client, memory, LEN), MC_OK);
    ck_assert_int_eq(mc_client_unregister_buffer(rig.client, memory), MC_OK);
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_row_driver *opened = NULL;
        uint32_t number = 0;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_row_driver_open(rig.client, NULL, &opened);
        if (err == MC_OK) {
            err = mc_row_driver_register(opened, memory, LEN, MC_MEMORY_HOST,
                                         &number);
        }
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mc_row_driver_close(opened);
    }
    client_close(&rig);
}
END_TEST

START_TEST(a_submit_takes_all_rows_or_none)
{
    struct alloc_fail fail;
    struct mc_row_op *op = NULL;
    struct mc_row_state states[4];
    unsigned taken = 0;
    open_all(NULL);
    ck_assert_int_eq(submit(MC_ROW_PUT, &op), MC_OK); /* threads */
    await(op, states);
    ALLOC_FAIL_EACH(fail)
    {
        fail.is_shared = true;
        alloc_fail_arm(&fail);
        enum mc_err err = submit(MC_ROW_PUT, &op);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        if (err == MC_OK) {
            await(op, states);
            taken += 4;
        }
    }
    ck_assert_uint_eq(taken, 4);
    ck_assert_uint_eq(stats_of().puts[MC_ROW_REASON_NONE], 0);
    ck_assert_int_eq(mc_row_driver_unregister(driver, region), MC_OK);
    close_all();
}
END_TEST

/* Called on the only worker: its k-th allocation from here on fails. */
static _Atomic uint64_t fail_at;
static _Atomic uint64_t still_due;

static void arm_worker(void *ctx, void *op_ctx)
{
    (void)ctx, (void)op_ctx;
    atomic_store(&still_due,
                 (uint64_t)mci_alloc_fail_at(atomic_exchange(&fail_at, 0)));
}

static bool is_told_of(enum mc_row_reason reason)
{
    return reason == MC_ROW_REASON_NO_MEMORY || reason == MC_ROW_REASON_MOVED ||
           reason == MC_ROW_REASON_EXISTS;
}

/* The rows end, the store is as if they had not been, or they are READY. */
static void run_short_of_memory(enum mc_row_kind kind, uint64_t k)
{
    struct mc_row_op *op = NULL;
    struct mc_row_state states[4];
    atomic_store(&fail_at, k);
    ck_assert_int_eq(submit(MC_ROW_GET, &op), MC_OK); /* arms the worker */
    await(op, states);
    ck_assert_uint_eq(atomic_load(&fail_at), 0);
    ck_assert_int_eq(submit(kind, &op), MC_OK);
    await(op, states);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_msg(is_told_of(states[i].reason), "allocation %ju: %s",
                      (uintmax_t)k, mc_row_reason_name(states[i].reason));
        ck_assert(states[i].local_ended);
    }
    ck_assert(AWAIT(stats_of().keys_written == 0));
}

START_TEST(a_worker_without_memory_ends_its_rows)
{
    const struct mc_row_driver_opts opts = {.workers = 1,
                                            .on_change = arm_worker};
    enum mc_row_kind kind = (enum mc_row_kind)_i;
    uint64_t k = 1;
    struct mc_row_op *op = NULL;
    struct mc_row_state states[4];
    open_all(&opts);
    if (kind == MC_ROW_GET) {
        ck_assert_int_eq(submit(MC_ROW_PUT, &op), MC_OK);
        await(op, states);
    }
    do {
        run_short_of_memory(kind, k);
        k++;
        ck_assert_uint_lt(k, 1000);
        ck_assert_int_le(mc_client_remove(rig.client, mc_view_str("x"), true),
                         MC_OK);
        if (kind == MC_ROW_PUT) {
            uint64_t removed = 0;
            ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed),
                             MC_OK);
        }
    } while (
        !atomic_load(&still_due)); /* all allocations have had their turn */
    ck_assert_uint_gt(k, 4);
    ck_assert_uint_gt(kind == MC_ROW_GET
                          ? stats_of().gets[MC_ROW_REASON_NO_MEMORY]
                          : stats_of().puts[MC_ROW_REASON_NO_MEMORY],
                      0);
    struct mc_client_stats store;
    mc_client_stat(rig.client, &store);
    ck_assert_uint_eq(store.attempts, 0);
    ck_assert_int_eq(mc_row_driver_unregister(driver, region), MC_OK);
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row driver");
    TCase *tcase = tcase_create("driver");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, options_over_their_limits_are_refused);
    tcase_add_test(tcase, a_put_is_tagged_with_its_session);
    tcase_add_test(tcase, rows_are_counted_by_reason);
    tcase_add_test(tcase, an_object_of_another_size_moves_no_byte);
    tcase_add_test(tcase, a_region_that_the_client_uses_stays);
    tcase_add_test(tcase, a_driver_opens_whole_or_not_at_all);
    tcase_add_test(tcase, a_submit_takes_all_rows_or_none);
    tcase_add_loop_test(tcase, a_worker_without_memory_ends_its_rows, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
