/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_async.c - operations that go well, or are refused: rows, results,
 * completions. */
#include <poll.h>

#include "alloc_fail.h"
#include "async_rig.h"
#include "await.h"
#include "suite.h"

#define LEN 600

static struct client_rig rig;
static struct mc_async *async;

static void open_rig(const struct mc_async_opts *opts)
{
    client_open(&rig, NULL);
    ck_assert_int_eq(mc_async_open(rig.client, opts, &async), MC_OK);
}

static void close_rig(void)
{
    mc_async_close(async);
    (void)client_events(&rig);
    client_close(&rig);
}

/* So that an operation has many parts. */
static const struct mc_async_opts in_pieces = {.rows_per_call = 3};

/* ---- rows ---------------------------------------------------------------------- */

START_TEST(rows_go_in_and_come_out)
{
    static const struct mc_async_opts opts[] = {
        {.workers = 0},
        {.workers = 1, .rows_per_call = 7},
        {.workers = 3, .bytes_per_call = 5 * LEN + 1},
        {.workers = 64, .rows_per_call = 1, .bytes_per_call = 1}};
    struct async_job *put = job_make("k", 300, LEN);
    struct async_job *get = job_make("k", 300, LEN);
    open_rig(&opts[_i]);
    job_fill(put, 50);
    job_run(put, async, MC_ASYNC_PUT);
    job_expect(put, 0);
    job_run(get, async, MC_ASYNC_GET);
    job_expect(get, LEN);
    for (size_t i = 0; i < get->count; i++) {
        ck_assert(job_row_is(get, i, 50));
    }
    job_fill(put, 900);
    job_run(put, async, MC_ASYNC_PUT); /* the first bytes stay */
    job_expect(put, 0);
    job_run(get, async, MC_ASYNC_GET);
    ck_assert(job_row_is(get, 299, 50));
    job_run(put, async, MC_ASYNC_UPSERT);
    job_expect(put, 0);
    job_run(get, async, MC_ASYNC_GET);
    for (size_t i = 0; i < get->count; i++) {
        ck_assert(job_row_is(get, i, 900));
    }
    close_rig();
    job_free(put);
    job_free(get);
}
END_TEST

/* Rows of all sorts, as the call on the list answers them. */
static void make_odd(struct async_job *job)
{
    static char long_key[MC_KEY_LEN_MAX + 1];
    memset(long_key, 'x', sizeof long_key);
    job->keys[1] = mc_view_str("nobody");
    job->keys[2] = mc_view_make(long_key, sizeof long_key);
    job->keys[3] = mc_view_make("", 0);
    job->keys[4] = mc_view_str("a\xff");
    job->lists[5].count = 0;
    job->lists[6].spans = NULL;
    job->lists[7].count = MC_SPANS_MAX + 1;
    job->lists[8].count = 1;
    job->spans[9][1].data = NULL;
    job->spans[10][0].len = UINT64_MAX;
    job->spans[11][1].len = 0;
    job->spans[12][0] = job->spans[12][1]; /* the same twice, over an edge */
    job->lists[13].count = SIZE_MAX;
}

START_TEST(each_row_answers_as_in_the_call_itself)
{
    enum { ROWS = 15 };
    struct async_job *put = job_make("k", ROWS, LEN);
    struct async_job *got = job_make("k", ROWS, LEN);
    int64_t results[ROWS];
    open_rig(&in_pieces);
    job_fill(put, 50);
    job_run(put, async, MC_ASYNC_PUT);
    make_odd(got);
    ck_assert_int_eq(
        mc_client_batch_get_into_multi_buffers(
            rig.client, got->keys, got->lists, ROWS, false, results),
        MC_OK);
    job_run(got, async, MC_ASYNC_GET);
    ck_assert_mem_eq(got->results, results, sizeof results);
    ck_assert_int_eq(results[0], LEN);
    ck_assert_int_eq(results[1], MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(results[7], MC_ERR_INVALID_PARAMS);
    for (int kind = MC_ASYNC_PUT; kind <= MC_ASYNC_UPSERT; kind++) {
        ck_assert_int_eq(mc_client_remove_all(rig.client, true, &(uint64_t){0}),
                         MC_OK);
        ck_assert_int_eq(
            mc_client_batch_put_from_multi_buffers(
                rig.client, got->keys, got->lists, ROWS, NULL, results),
            MC_OK);
        ck_assert_int_eq(mc_client_remove_all(rig.client, true, &(uint64_t){0}),
                         MC_OK);
        job_run(got, async, (enum mc_async_kind)kind);
        ck_assert_mem_eq(got->results, results, sizeof results);
        ck_assert_int_eq(results[0], 0);
        ck_assert_int_eq(results[3], MC_ERR_INVALID_PARAMS);
    }
    close_rig();
    job_free(put);
    job_free(got);
}
END_TEST

START_TEST(tags_and_groups_stay_with_their_rows)
{
    enum { ROWS = 10 };
    struct async_job *put = job_make("k", ROWS, LEN);
    struct mc_view tags[ROWS];
    struct mc_view groups[ROWS];
    char texts[ROWS][8];
    char expected[ROWS * 32] = "";
    const struct mc_replicate_config config = {.session_ids = tags,
                                               .session_id_count = ROWS,
                                               .group_ids = groups,
                                               .group_id_count = ROWS};
    open_rig(&in_pieces);
    job_fill(put, 1);
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "t%d", i);
        tags[i] = i % 4 == 1 ? mc_view_make(NULL, 0) : mc_view_str(texts[i]);
        groups[i] = i % 3 == 1 ? mc_view_make(NULL, 0) : mc_view_str(texts[i]);
        size_t len = strlen(expected);
        (void)snprintf(expected + len, sizeof expected - len,
                       "%s+cpu:k/%d%s%s%s%s", i > 0 ? " " : "", i,
                       i % 4 == 1 ? "" : "#", i % 4 == 1 ? "" : texts[i],
                       i % 3 == 1 ? "" : "@", i % 3 == 1 ? "" : texts[i]);
    }
    struct mc_async_rows rows = job_rows(put, MC_ASYNC_PUT);
    rows.config = &config;
    ck_assert_int_eq(mc_async_submit(async, &rows, &put->op), MC_OK);
    mc_async_wait(put->op);
    job_expect(put, 0);
    ck_assert_str_eq(client_events(&rig), expected);
    close_rig();
    job_free(put);
}
END_TEST

START_TEST(rows_of_one_key_go_in_order)
{
    struct async_job *put = job_make("k", 64, LEN);
    struct async_job *got = job_make("k", 1, LEN);
    open_rig(&in_pieces);
    for (size_t i = 0; i < put->count; i++) {
        put->keys[i] = mc_view_str("k/0");
    }
    for (int turn = 0; turn < 20; turn++) {
        bool replaces = turn % 2 == 1;
        job_fill(put, 100);
        job_run(put, async, replaces ? MC_ASYNC_UPSERT : MC_ASYNC_PUT);
        job_expect(put, 0);
        job_run(got, async, MC_ASYNC_GET);
        ck_assert(job_row_is(got, 0, replaces ? 163 : 100));
        ck_assert_int_eq(mc_client_remove(rig.client, put->keys[0], true),
                         MC_OK);
        (void)client_events(&rig);
    }
    close_rig();
    job_free(put);
    job_free(got);
}
END_TEST

/* ---- ranges ---------------------------------------------------------------------- */

#define LAYERS 8
#define BLOCKS 10

/* Layer by layer, an operation each. */
static void move_layers(struct async_job *job, struct mc_async_rows rows)
{
    static struct mc_fragment pieces[LAYERS][BLOCKS];
    static struct mc_fragments lists[LAYERS][BLOCKS];
    static int64_t results[LAYERS][BLOCKS];
    struct mc_async_op *ops[LAYERS];
    size_t layer_len = job->len / LAYERS;
    rows.count = BLOCKS;
    for (size_t l = 0; l < LAYERS; l++) {
        for (size_t b = 0; b < BLOCKS; b++) {
            pieces[l][b] = (struct mc_fragment){
                .data = job->pages + b * job->len + l * layer_len,
                .offset = l * layer_len,
                .len = layer_len};
            lists[l][b] = (struct mc_fragments){&pieces[l][b], 1};
        }
        rows.fragments = lists[l];
        rows.results = results[l];
        ck_assert_int_eq(mc_async_submit(async, &rows, &ops[l]), MC_OK);
    }
    for (size_t l = 0; l < LAYERS; l++) {
        mc_async_wait(ops[l]);
        for (size_t b = 0; b < BLOCKS; b++) {
            ck_assert_int_eq(results[l][b], (int64_t)layer_len);
        }
    }
}

START_TEST(ranges_of_sessions_go_in_and_come_out)
{
    struct async_job *put = job_make("k", BLOCKS, LAYERS * 100);
    struct async_job *got = job_make("k", BLOCKS, LAYERS * 100);
    struct mc_put_session *puts[BLOCKS];
    struct mc_get_session *gets[BLOCKS];
    uint64_t sizes[BLOCKS];
    open_rig(&in_pieces);
    job_fill(put, 70);
    for (size_t b = 0; b < BLOCKS; b++) {
        sizes[b] = put->len;
    }
    ck_assert_int_eq(mc_client_put_sessions_open(rig.client, put->keys, sizes,
                                                 NULL, BLOCKS, puts,
                                                 put->results),
                     MC_OK);
    move_layers(put, (struct mc_async_rows){.kind = MC_ASYNC_WRITE,
                                            .put_sessions = puts});
    ck_assert_int_eq(
        mc_client_put_sessions_end(rig.client, puts, BLOCKS, 0, put->results),
        MC_OK);
    job_expect(put, 0);
    ck_assert_int_eq(mc_client_get_sessions_open(rig.client, got->keys, BLOCKS,
                                                 gets, got->results),
                     MC_OK);
    move_layers(got, (struct mc_async_rows){.kind = MC_ASYNC_READ,
                                            .get_sessions = gets});
    for (size_t b = 0; b < BLOCKS; b++) {
        ck_assert(job_row_is(got, b, 70));
    }
    /* A handle that is none, beside others. */
    struct mc_get_session *some[BLOCKS];
    struct mc_fragments none[BLOCKS];
    memcpy(some, gets, sizeof some);
    memset(none, 0, sizeof none);
    some[4] = NULL;
    struct mc_async_rows rows = {.kind = MC_ASYNC_READ,
                                 .count = BLOCKS,
                                 .results = got->results,
                                 .get_sessions = some,
                                 .fragments = none};
    ck_assert_int_eq(mc_async_submit(async, &rows, &got->op), MC_OK);
    mc_async_wait(got->op);
    for (size_t b = 0; b < BLOCKS; b++) {
        ck_assert_int_eq(got->results[b], b == 4 ? MC_ERR_INVALID_PARAMS : 0);
    }
    mc_client_get_sessions_close(rig.client, gets, BLOCKS);
    close_rig();
    job_free(put);
    job_free(got);
}
END_TEST

/* ---- completions ------------------------------------------------------------------- */

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd watch = {.fd = fd, .events = POLLIN};
    return poll(&watch, 1, timeout_ms) == 1 && (watch.revents & POLLIN);
}

START_TEST(each_operation_is_polled_once)
{
    enum { OPS = 40 };
    struct async_job *jobs[OPS];
    bool seen[OPS] = {false};
    size_t left = OPS;
    open_rig(&in_pieces);
    int fd = -1;
    for (size_t i = 0; i < OPS; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "k%zu", i);
        jobs[i] = job_make(name, i % 12, LEN);
        job_fill(jobs[i], i);
        job_submit(jobs[i], async, i % 3 ? MC_ASYNC_GET : MC_ASYNC_PUT, 0);
        if (i == OPS / 2) {
            fd = mc_async_eventfd(async); /* made when some may be done */
            ck_assert_int_ge(fd, 0);
        }
    }
    while (left > 0) {
        void *ctxs[3];
        ck_assert(is_readable(fd, 20000));
        size_t count = mc_async_poll(async, ctxs, 3);
        ck_assert_uint_le(count, left);
        for (size_t k = 0; k < count; k++) {
            size_t i = 0;
            while (jobs[i] != ctxs[k]) {
                i++;
            }
            ck_assert(!seen[i]);
            seen[i] = true;
            job_shut(jobs[i]);
            job_expect(jobs[i], i % 3 ? MC_ERR_OBJECT_NOT_FOUND : 0);
        }
        left -= count;
    }
    ck_assert(!is_readable(fd, 0));
    ck_assert_uint_eq(mc_async_poll(async, &(void *){NULL}, 1), 0);
    ck_assert_int_eq(mc_async_eventfd(async), fd);
    close_rig();
    for (size_t i = 0; i < OPS; i++) {
        job_free(jobs[i]);
    }
}
END_TEST

START_TEST(what_was_waited_for_is_not_polled)
{
    struct async_job *first = job_make("a", 2, LEN);
    struct async_job *second = job_make("b", 2, LEN);
    void *ctx = NULL;
    open_rig(NULL);
    int fd = mc_async_eventfd(async);
    job_submit(first, async, MC_ASYNC_GET, 0);
    job_submit(second, async, MC_ASYNC_GET, 0);
    mc_async_wait(first->op);
    ck_assert(is_readable(fd, 20000));
    ck_assert(AWAIT(mc_async_poll(async, &ctx, 1) == 1));
    ck_assert_ptr_eq(ctx, second);
    ck_assert(!is_readable(fd, 0));
    /* One that has completed already. */
    job_submit(first, async, MC_ASYNC_GET, 0);
    ck_assert(is_readable(fd, 20000));
    mc_async_cancel(first->op);
    mc_async_wait(first->op);
    job_expect(first, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert(!is_readable(fd, 0));
    close_rig();
    job_free(first);
    job_free(second);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------- */

START_TEST(what_is_not_taken_completes_first)
{
    static const struct mc_async_opts small = {.rows_max = 8};
    struct async_job *jobs[4];
    void *ctx = NULL;
    open_rig(&small);
    int fd = mc_async_eventfd(async);
    for (size_t i = 0; i < 4; i++) {
        jobs[i] = job_make("k", i == 2 ? 0 : 4, LEN);
    }
    struct mc_async_op *op = (struct mc_async_op *)&rig;
    job_submit(jobs[0], async, MC_ASYNC_GET, 0);
    job_submit(jobs[1], async, MC_ASYNC_GET, 0);
    ck_assert(is_readable(fd, 20000)); /* it has completed, and still counts */
    for (size_t i = 2; i < 4; i++) {
        const struct mc_async_rows rows = job_rows(jobs[i], MC_ASYNC_GET);
        ck_assert_int_eq(mc_async_submit(async, &rows, &op),
                         MC_ERR_NO_AVAILABLE_HANDLE);
        ck_assert_ptr_eq(op, &rig);
        job_expect(jobs[i], ASYNC_UNSET);
    }
    ck_assert_uint_eq(mc_async_poll(async, &ctx, 1), 1);
    job_run(jobs[2], async, MC_ASYNC_GET);
    job_run(jobs[3], async, MC_ASYNC_GET);
    close_rig();
    for (size_t i = 0; i < 4; i++) {
        job_free(jobs[i]);
    }
}
END_TEST

START_TEST(a_call_that_cannot_be_is_refused_whole)
{
    static const struct mc_async_opts opts = {.rows_max = 100};
    struct async_job *job = job_make("k", 4, LEN);
    struct mc_view bad_tag = mc_view_make("\xff", 1);
    const struct mc_replicate_config few = {.session_ids = &bad_tag,
                                            .session_id_count = 1};
    struct mc_fragments none[4] = {{NULL, 0}};
    struct mc_async_op *op = NULL;
    open_rig(&opts);
    const struct mc_async_rows good = job_rows(job, MC_ASYNC_PUT);
    struct mc_async_rows bad[12];
    for (size_t i = 0; i < 12; i++) {
        bad[i] = good;
    }
    bad[0].kind = (enum mc_async_kind)0;
    bad[1].kind = (enum mc_async_kind)6;
    bad[2].count = 101;
    bad[3].count = SIZE_MAX;
    bad[4].keys = NULL;
    bad[5].spans = NULL;
    bad[6].results = NULL;
    bad[7].config = &few;
    bad[8].kind = MC_ASYNC_READ;
    bad[8].fragments = none;
    bad[9].kind = MC_ASYNC_WRITE;
    bad[9].fragments = none;
    bad[10].kind = MC_ASYNC_READ;
    bad[10].get_sessions = (struct mc_get_session *const *)(void *)job->spans;
    bad[11].kind = (enum mc_async_kind) - 1;
    char *before = client_state(&rig);
    for (size_t i = 0; i < 12; i++) {
        ck_assert_int_eq(mc_async_submit(async, &bad[i], &op),
                         MC_ERR_INVALID_PARAMS);
        ck_assert_ptr_null(op);
        job_expect(job, ASYNC_UNSET);
    }
    ck_assert_int_eq(mc_async_submit(async, NULL, &op), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_async_submit(async, &good, NULL),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(mc_async_poll(async, &(void *){NULL}, 1), 0);
    EXPECT_CLIENT_UNCHANGED(&rig, before);
    free(before);
    close_rig();
    job_free(job);
}
END_TEST

START_TEST(a_queue_has_bounds)
{
    const struct mc_async_opts most = {.workers = 64};
    const struct mc_async_opts over = {.workers = 65};
    struct mc_async *other = NULL;
    open_rig(&most);
    ck_assert_int_eq(mc_async_open(rig.client, &over, &other),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_async_open(NULL, NULL, &other), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_async_open(rig.client, NULL, NULL),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(other);
    ck_assert_int_eq(mc_async_open(rig.client, NULL, &other), MC_OK);
    mc_async_close(other);
    mc_async_close(NULL);
    close_rig();
}
END_TEST

/* Memory that is not registered is found out when a row begins. */
START_TEST(memory_has_to_be_registered)
{
    struct async_job *put = job_make("k", 6, LEN);
    client_open_strict(&rig, NULL);
    ck_assert_int_eq(mc_async_open(rig.client, &in_pieces, &async), MC_OK);
    job_shut(put);
    job_run(put, async, MC_ASYNC_PUT);
    job_expect(put, MC_ERR_INVALID_PARAMS);
    job_open(put);
    ck_assert_int_eq(
        mc_client_register_buffer(rig.client, put->pages, put->bytes), MC_OK);
    job_run(put, async, MC_ASYNC_PUT);
    job_expect(put, 0);
    ck_assert_int_eq(mc_client_unregister_buffer(rig.client, put->pages),
                     MC_OK);
    job_shut(put);
    job_run(put, async, MC_ASYNC_GET);
    job_expect(put, MC_ERR_INVALID_PARAMS);
    close_rig();
    job_free(put);
}
END_TEST

/* Where there is no memory nothing is taken; later it is. */
START_TEST(what_finds_no_memory_is_not_submitted)
{
    struct async_job *put = job_make("k", 4, LEN);
    struct alloc_fail fail = {.k = 0};
    open_rig(&in_pieces);
    job_fill(put, 9);
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_async *other = NULL;
        fail.is_shared = true;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_async_open(rig.client, NULL, &other);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mc_async_close(other);
    }
    ALLOC_FAIL_EACH(fail)
    {
        const struct mc_async_rows rows = job_rows(put, MC_ASYNC_PUT);
        struct mc_async_op *op = NULL;
        fail.is_shared = true;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_async_submit(async, &rows, &op);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        ck_assert((err == MC_OK) == (op != NULL));
        if (op) {
            mc_async_wait(op);
        }
        job_expect(put, op ? 0 : ASYNC_UNSET);
    }
    close_rig();
    job_free(put);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_async");
    TCase *rows = tcase_create("rows");
    tcase_set_timeout(rows, 60);
    tcase_add_loop_test(rows, rows_go_in_and_come_out, 0, 4);
    tcase_add_test(rows, each_row_answers_as_in_the_call_itself);
    tcase_add_test(rows, tags_and_groups_stay_with_their_rows);
    tcase_add_test(rows, rows_of_one_key_go_in_order);
    tcase_add_test(rows, ranges_of_sessions_go_in_and_come_out);
    suite_add_tcase(suite, rows);
    TCase *completions = tcase_create("completions");
    tcase_set_timeout(completions, 60);
    tcase_add_test(completions, each_operation_is_polled_once);
    tcase_add_test(completions, what_was_waited_for_is_not_polled);
    suite_add_tcase(suite, completions);
    TCase *refusals = tcase_create("refusals");
    tcase_set_timeout(refusals, 60);
    tcase_add_test(refusals, what_is_not_taken_completes_first);
    tcase_add_test(refusals, a_call_that_cannot_be_is_refused_whole);
    tcase_add_test(refusals, a_queue_has_bounds);
    tcase_add_test(refusals, memory_has_to_be_registered);
    tcase_add_test(refusals, what_finds_no_memory_is_not_submitted);
    suite_add_tcase(suite, refusals);
    return suite_run(suite);
}
