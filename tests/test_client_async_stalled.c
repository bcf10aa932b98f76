/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_async_stalled.c - operations whose bytes stand still on the way: an
 * owner behind a network that holds them. The operation ends all the same, and
 * what comes later touches nothing. */
#include "async_rig.h"
#include "await.h"
#include "data_proxy.h"
#include "keep_quiet.h"
#include "mc_log.h"
#include "mci_clock.h"
#include "suite.h"

#define LEN (2 * MIB)
#define ROWS 3
#define STAMP 31
#define SHORT_MS 300
/* Far below what a transfer may take (60 s), far above what an end takes. */
#define SOON_NS (20 * MCI_NS_PER_S)

static struct process_rig process;
static struct data_proxy *proxy;
static struct mc_client *owner;
static struct mc_client *client;
static struct mc_async *async;

static struct mc_client *join(uint64_t segment_bytes, const char *hostname)
{
    const struct mc_client_opts opts = {.master = process.address,
                                        .segment_bytes = segment_bytes,
                                        .any_memory = true,
                                        .transport = "tcp",
                                        .local_hostname = hostname};
    struct mc_client *joined = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &joined), MC_OK);
    return joined;
}

static void open_all(void)
{
    static const struct mc_async_opts opts = {.workers = 2, .rows_per_call = 1};
    const struct process_rig_opts process_opts = {
        .store = {.eviction_high_watermark = 1.0}};
    char hostname[32];
    mc_log_set_sink(keep_quiet, NULL);
    process_open(&process, &process_opts);
    proxy = data_proxy_open();
    (void)snprintf(hostname, sizeof hostname, "127.0.0.1:%u",
                   (unsigned)data_proxy_port(proxy));
    ck_assert_int_eq(setenv("MC_TCP_BIND_ADDRESS", DATA_PROXY_BIND, 1), 0);
    owner = join(64 * MIB, hostname);
    ck_assert_int_eq(unsetenv("MC_TCP_BIND_ADDRESS"), 0);
    client = join(MC_NONE, NULL);
    ck_assert_int_eq(mc_async_open(client, &opts, &async), MC_OK);
}

static void close_all(void)
{
    mc_async_close(async);
    mc_client_close(client);
    mc_client_close(owner);
    data_proxy_close(proxy);
    process_close(&process);
    mc_log_set_sink(NULL, NULL);
}

enum way { BY_DEADLINE, BY_CANCEL, BY_CLOSE, WAYS };

/* Ends the operation while its bytes stand still, and shuts its memory. */
static void end_stalled(struct async_job *job, enum mc_async_kind kind,
                        enum data_way way, enum way end)
{
    void *ctx = NULL;
    data_proxy_hold(proxy, way, LEN / 3);
    uint64_t began_ns = mci_clock_ns();
    job_submit(job, async, kind, end == BY_DEADLINE ? SHORT_MS : 0);
    ck_assert(AWAIT(data_proxy_is_held(proxy, way)));
    if (end == BY_CLOSE) {
        mc_async_close(async);
        async = NULL;
    } else if (end == BY_CANCEL) {
        mc_async_cancel(job->op);
        mc_async_wait(job->op);
    } else {
        ck_assert(AWAIT(mc_async_poll(async, &ctx, 1) == 1));
        ck_assert_ptr_eq(ctx, job);
    }
    job_shut(job);
    ck_assert_uint_lt(mci_clock_ns() - began_ns, SOON_NS);
    data_proxy_release(proxy, way);
}

static void check_result(const struct async_job *job, size_t i, enum way end)
{
    bool is_late = job->results[i] == MC_ERR_TRANSFER_FAIL ||
                   job->results[i] == MC_ERR_RPC_TIMEOUT;
    ck_assert_msg(end == BY_DEADLINE ? is_late
                                     : job->results[i] == MC_ERR_CANCELED,
                  "row %zu: %jd", i, (intmax_t)job->results[i]);
}

START_TEST(a_read_that_stands_still_ends)
{
    struct async_job *put = job_make("k", ROWS, LEN);
    struct async_job *got = job_make("k", ROWS, LEN);
    open_all();
    job_fill(put, STAMP);
    job_run(put, async, MC_ASYNC_PUT);
    job_expect(put, 0);
    end_stalled(got, MC_ASYNC_GET, DATA_FROM_OWNER, (enum way)_i);
    for (size_t i = 0; i < ROWS; i++) {
        check_result(got, i, (enum way)_i);
    }
    job_open(got);
    ck_assert_int_eq(
        mc_client_batch_get_into_multi_buffers(client, got->keys, got->lists,
                                               ROWS, false, got->results),
        MC_OK);
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_int_eq(got->results[i], LEN);
        ck_assert(job_row_is(got, i, STAMP));
    }
    close_all();
    job_free(put);
    job_free(got);
}
END_TEST

/* No object has come of it, no write is open, and the keys can be written. */
START_TEST(a_write_that_stands_still_ends)
{
    struct async_job *put = job_make("k", ROWS, LEN);
    struct async_job *got = job_make("k", ROWS, LEN);
    struct mc_client_stats stats;
    open_all();
    job_fill(put, STAMP);
    end_stalled(put, MC_ASYNC_PUT, DATA_TO_OWNER, (enum way)_i);
    for (size_t i = 0; i < ROWS; i++) {
        struct mc_probe probe;
        check_result(put, i, (enum way)_i);
        ck_assert_int_eq(mc_client_probe(client, put->keys[i], &probe), MC_OK);
        ck_assert_int_eq(probe.state, MC_OBJECT_ABSENT);
    }
    mc_client_stat(client, &stats);
    ck_assert_uint_eq(stats.attempts, 0);
    job_open(put);
    job_fill(put, STAMP + 1);
    ck_assert_int_eq(mc_client_batch_put_from_multi_buffers(client, put->keys,
                                                            put->lists, ROWS,
                                                            NULL, put->results),
                     MC_OK);
    job_expect(put, 0);
    ck_assert_int_eq(
        mc_client_batch_get_into_multi_buffers(client, got->keys, got->lists,
                                               ROWS, false, got->results),
        MC_OK);
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert(job_row_is(got, i, STAMP + 1));
    }
    close_all();
    job_free(put);
    job_free(got);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_async_stalled");
    TCase *tcase = tcase_create("stalled");
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, a_read_that_stands_still_ends, 0, WAYS);
    tcase_add_loop_test(tcase, a_write_that_stands_still_ends, 0, WAYS);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
