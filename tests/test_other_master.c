/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers mean something else at another master: a place that a reader was told
 * by the one before may be looked up at the one after, and is then refused, over
 * shared memory too, since the grant was for other memory.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mc_client.h"
#include "peer_rig.h"
#include "suite.h"

#define SIZE 65536

static struct process process;
static char address[32];

static struct mc_client *open_client(uint64_t segment_bytes)
{
    struct mc_client *client = NULL;
    const struct mc_client_opts opts = {.master = address,
                                        .segment_bytes = segment_bytes,
                                        .no_prefault = true,
                                        .any_memory = true,
                                        .timeout_ms = 20000};
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

struct reading {
    struct mc_client *client;
    enum mc_err err;
    uint64_t size;
    uint8_t bytes[SIZE];
};

static void *run_reader(void *ctx)
{
    struct reading *reading = ctx;
    reading->err = mc_client_get_into(reading->client, mc_view_str("before"),
                                      reading->bytes, SIZE, &reading->size);
    return NULL;
}

static struct ctl_rule lookup_of(uint64_t number)
{
    return (struct ctl_rule){.way = CTL_REQUEST,
                             .op = MCI_OP_SEGMENT_GET,
                             .number = number,
                             .what = CTL_HOLD,
                             .count = 1};
}

START_TEST(a_place_of_one_master_is_refused_at_another)
{
    static struct reading reading;
    static uint8_t before[SIZE];
    static uint8_t after[SIZE];
    pthread_t reader;
    memset(before, 'b', SIZE);
    memset(after, 'a', SIZE);
    process_open(&process, NULL);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u",
                   ctl_proxy_port(process.proxy));
    struct mc_client *lender = open_client(1 << 20);
    ck_assert_int_eq(
        mc_client_put(lender, mc_view_str("before"), before, SIZE, NULL),
        MC_OK);
    reading.client = open_client(MC_NONE);
    struct ctl_rule any = lookup_of(0);
    struct ctl_rule first = lookup_of(1); /* of a new life */
    int told = ctl_proxy_rule(process.proxy, &any);
    ck_assert_int_eq(pthread_create(&reader, NULL, run_reader, &reading), 0);
    ck_assert(AWAIT(ctl_proxy_hits(process.proxy, told) == 1));
    /* It has its place, and no more. Now another master comes, the lender lends
     * there, and the same place is somebody else's. */
    int held = ctl_proxy_rule(process.proxy, &first);
    process_restart(&process, NULL);
    ck_assert(AWAIT(mc_client_put(lender, mc_view_str("after"), after, SIZE,
                                  NULL) == MC_OK));
    ck_assert(AWAIT(ctl_proxy_hits(process.proxy, held) == 1));
    ctl_proxy_release(process.proxy, held);
    (void)pthread_join(reader, NULL);
    ck_assert_int_eq(reading.err, MC_ERR_OBJECT_NOT_FOUND);
    mc_client_close(reading.client);
    mc_client_close(lender);
    process_close(&process);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("other_master");
    TCase *places = tcase_create("places");
    tcase_set_timeout(places, 60);
    tcase_add_test(places, a_place_of_one_master_is_refused_at_another);
    suite_add_tcase(suite, places);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
