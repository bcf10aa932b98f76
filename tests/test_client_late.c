/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_late.c - bytes that come after their lease ran out are worth
 * nothing, by whatever call they were asked for. SAFETY A.2 through the whole
 * client: a master behind its socket, an owner, and a reader who is slowed down
 * in the middle by the network or by its own copy. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "client_rig.h"
#include "copy.h"
#include "crowd_rig.h"
#include "data_proxy.h"
#include "keep_quiet.h"
#include "mc_log.h"
#include "mci_clock.h"
#include "suite.h"

#define SMALL 3000
#define LARGE (3 * MIB + 5000)
#define STAMP 23
#define LEASE_MS 10000
#define SHORT_MS 200 /* of a clock that goes */

static struct process_rig process;
static struct data_proxy *proxy;
static struct mc_client *owner;
static struct mc_client *reader;
static uint8_t *value;
static uint8_t *got;
static size_t len;
static uint64_t now_ns;

/* ---- the calls ----------------------------------------------------------- */

/* Each reads "k" and returns what its row, or all its ranges, answered; what is
 * handed out on success holds the value, and on failure nothing is. */
static int64_t check_bytes(const void *data, uint64_t size, int64_t result)
{
    uint64_t stamp = 0;
    if (result >= 0) {
        ck_assert_int_eq(result, (int64_t)len);
        ck_assert_uint_eq(size, len);
        ck_assert(stamp_read(data, len, &stamp) && stamp == STAMP);
    }
    return result;
}

static int64_t get_into(struct mc_view key)
{
    uint64_t size = 0;
    enum mc_err err = mc_client_get_into(reader, key, got, len, &size);
    ck_assert(err == MC_OK || size == 0);
    return check_bytes(got, size, err == MC_OK ? (int64_t)size : err);
}

static int64_t batch_get_into(struct mc_view key)
{
    const struct mc_span buffer = {got, len};
    int64_t result = 0;
    ck_assert_int_eq(
        mc_client_batch_get_into(reader, &key, &buffer, 1, &result), MC_OK);
    return check_bytes(got, len, result);
}

static int64_t get(struct mc_view key)
{
    void *data = NULL;
    size_t size = 0;
    enum mc_err err = mc_client_get(reader, key, &data, &size);
    ck_assert(err == MC_OK || (!data && size == 0));
    int64_t result =
        check_bytes(data, size, err == MC_OK ? (int64_t)size : err);
    mc_client_free(data);
    return result;
}

static int64_t batch_get(struct mc_view key)
{
    struct mc_span span = {NULL, 0};
    int64_t result = 0;
    ck_assert_int_eq(mc_client_batch_get(reader, &key, 1, &span, &result),
                     MC_OK);
    ck_assert(result >= 0 || (!span.data && span.len == 0));
    (void)check_bytes(span.data, span.len, result);
    mc_client_free(span.data);
    return result;
}

static int64_t get_buffer(struct mc_view key)
{
    struct mc_buffer buffer = {.data = NULL};
    enum mc_err err = mc_client_get_buffer(reader, key, &buffer);
    ck_assert(err == MC_OK || (!buffer.data && !buffer.owner));
    int64_t result = check_bytes(buffer.data, buffer.len,
                                 err == MC_OK ? (int64_t)buffer.len : err);
    mc_client_release_buffer(reader, &buffer);
    return result;
}

static int64_t batch_get_buffer(struct mc_view key)
{
    struct mc_buffer buffer = {.data = NULL};
    int64_t result = 0;
    ck_assert_int_eq(
        mc_client_batch_get_buffer(reader, &key, 1, &buffer, &result), MC_OK);
    ck_assert(result >= 0 || (!buffer.data && !buffer.owner));
    (void)check_bytes(buffer.data, buffer.len, result);
    mc_client_release_buffer(reader, &buffer);
    return result;
}

static int64_t get_into_multi_buffers(struct mc_view key)
{
    const struct mc_span spans[3] = {
        {got, 1000}, {got + 1000, len - 2000}, {got + len - 1000, 1000}};
    const struct mc_spans list = {spans, 3};
    int64_t result = 0;
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffers(reader, &key, &list,
                                                            1, true, &result),
                     MC_OK);
    return check_bytes(got, len, result);
}

static int64_t get_into_ranges(struct mc_view key)
{
    const struct mc_range ranges[2] = {{0, 0, 1000}, {1000, 1000, len - 1000}};
    int64_t results[2] = {0, 0};
    const struct mc_range_row row = {key, ranges, 2, results};
    ck_assert_int_eq(mc_client_get_into_ranges(reader, got, len, &row, 1),
                     MC_OK);
    bool is_whole = results[0] >= 0 && results[1] >= 0;
    ck_assert(is_whole || results[0] == results[1]);
    return check_bytes(got, len,
                       is_whole ? results[0] + results[1] : results[0]);
}

static int64_t (*const calls[])(struct mc_view key) = {get_into,
                                                       batch_get_into,
                                                       get,
                                                       batch_get,
                                                       get_buffer,
                                                       batch_get_buffer,
                                                       get_into_multi_buffers,
                                                       get_into_ranges};
#define CALLS ((int)(sizeof calls / sizeof calls[0]))

/* ---- the stage ----------------------------------------------------------- */

static struct mc_client *join(uint64_t segment_bytes, const char *transport,
                              const char *hostname)
{
    const struct mc_client_opts opts = {.master = process.address,
                                        .segment_bytes = segment_bytes,
                                        .any_memory = true,
                                        .transport = transport,
                                        .local_hostname = hostname};
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

static void open_all(size_t value_len, uint64_t lease_ms, const char *transport)
{
    const struct process_rig_opts opts = {
        .store = {.default_kv_lease_ttl_ms = lease_ms,
                  .eviction_high_watermark = 1.0},
        .client_ttl_ms = 1000000};
    char hostname[32];
    mc_log_set_sink(keep_quiet, NULL);
    len = value_len;
    value = must_alloc(len);
    got = must_alloc(len);
    stamp_fill(value, len, STAMP);
    process_open(&process, &opts);
    proxy = data_proxy_open();
    (void)snprintf(hostname, sizeof hostname, "127.0.0.1:%u",
                   (unsigned)data_proxy_port(proxy));
    ck_assert_int_eq(setenv("MC_TCP_BIND_ADDRESS", DATA_PROXY_BIND, 1), 0);
    owner = join(8 * MIB, "auto", hostname);
    ck_assert_int_eq(unsetenv("MC_TCP_BIND_ADDRESS"), 0);
    reader = join(MC_NONE, transport, NULL);
    ck_assert_int_eq(mc_client_put(owner, mc_view_str("k"), value, len, NULL),
                     MC_OK);
}

static void close_all(void)
{
    mc_client_close(reader);
    mc_client_close(owner);
    data_proxy_close(proxy);
    process_close(&process);
    mc_log_set_sink(NULL, NULL);
    free(value);
    free(got);
}

/* ---- by tcp -------------------------------------------------------------- */

struct asking {
    int64_t (*call)(struct mc_view key);
    int64_t result;
};

static void *ask(void *ctx)
{
    struct asking *asking = ctx;
    asking->result = asking->call(mc_view_str("k"));
    return NULL;
}

/* The first bytes come, the rest once the lease is over. */
static int64_t read_late(int64_t (*call)(struct mc_view key), uint64_t first)
{
    struct asking asking = {.call = call};
    pthread_t thread;
    data_proxy_hold(proxy, DATA_FROM_OWNER, first);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask, &asking), 0);
    ck_assert(AWAIT(data_proxy_is_held(proxy, DATA_FROM_OWNER)));
    __atomic_fetch_add(&now_ns, LEASE_MS * MCI_NS_PER_MS, __ATOMIC_SEQ_CST);
    data_proxy_release(proxy, DATA_FROM_OWNER);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return asking.result;
}

/* The clock stands still but for what the test lets pass, so the small value is
 * whole when it is judged. */
START_TEST(what_comes_by_tcp_after_its_lease_is_refused)
{
    static const size_t lens[] = {SMALL, LARGE};
    now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    open_all(lens[_i], LEASE_MS, "tcp");
    for (int i = 0; i < CALLS; i++) {
        ck_assert_int_eq(calls[i](mc_view_str("k")), (int64_t)len);
        ck_assert_int_eq(read_late(calls[i], 0), MC_ERR_LEASE_EXPIRED);
        ck_assert_int_eq(read_late(calls[i], len / 2), MC_ERR_LEASE_EXPIRED);
        ck_assert_int_eq(calls[i](mc_view_str("k")), (int64_t)len);
    }
    close_all();
    mci_clock_fake(NULL);
}
END_TEST

/* Nothing comes at all, and nobody says so: the lease is the call's end. */
START_TEST(a_read_of_a_stalled_owner_ends_with_its_lease)
{
    open_all(LARGE, SHORT_MS, "tcp");
    for (int i = 0; i < CALLS; i++) {
        uint64_t before_ns = mci_clock_ns();
        data_proxy_hold(proxy, DATA_FROM_OWNER, len / 3);
        ck_assert_int_eq(calls[i](mc_view_str("k")), MC_ERR_LEASE_EXPIRED);
        ck_assert_uint_ge(mci_clock_ns() - before_ns,
                          SHORT_MS * MCI_NS_PER_MS / 2);
        data_proxy_release(proxy, DATA_FROM_OWNER);
    }
    close_all();
}
END_TEST

/* ---- by memory ------------------------------------------------------------- */

/* A copy that is so slow. */
static void outlive(const struct mc_transfer_row *row)
{
    if (!row->terms.is_write) {
        __atomic_fetch_add(&now_ns, LEASE_MS * MCI_NS_PER_MS, __ATOMIC_SEQ_CST);
    }
}

START_TEST(what_was_copied_after_its_lease_is_refused)
{
    static const size_t lens[] = {SMALL, LARGE};
    now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    open_all(lens[_i % 2], LEASE_MS, "shm");
    if (_i >= 2) { /* its own memory */
        mc_client_close(reader);
        reader = owner;
        owner = NULL;
    }
    for (int i = 0; i < CALLS; i++) {
        ck_assert_int_eq(calls[i](mc_view_str("k")), (int64_t)len);
        mci_copy_set_hook(outlive);
        ck_assert_int_eq(calls[i](mc_view_str("k")), MC_ERR_LEASE_EXPIRED);
        mci_copy_set_hook(NULL);
        ck_assert_int_eq(calls[i](mc_view_str("k")), (int64_t)len);
    }
    ck_assert_uint_eq(data_proxy_connections(proxy), 0); /* none by tcp */
    close_all();
    mci_clock_fake(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_late");
    TCase *tcase = tcase_create("late");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, what_comes_by_tcp_after_its_lease_is_refused, 0,
                        2);
    tcase_add_test(tcase, a_read_of_a_stalled_owner_ends_with_its_lease);
    tcase_add_loop_test(tcase, what_was_copied_after_its_lease_is_refused, 0,
                        4);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
