/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_loans.c - what a client lends is at the master once or not at all,
 * whatever becomes of the messages that say so. */
#include <stdio.h>
#include <stdlib.h>

#include "await.h"
#include "client_outside.h"
#include "client_rig.h"
#include "ctl_proxy.h"
#include "keep_quiet.h"
#include "mc_log.h"
#include "mci_client.h"
#include "mci_clock.h"
#include "sanitized.h"
#include "suite.h"

static struct process_rig process;
static struct ctl_proxy *proxy;
static uint8_t *memory;

static void start(uint16_t port)
{
    const struct process_rig_opts opts = {.client_ttl_ms = 3000, .port = port};
    process_open(&process, &opts);
}

/* rule: of the network before the client comes; NULL: none. */
static struct mc_client *begin_with(const struct ctl_rule *rule,
                                    uint64_t segment_bytes, uint32_t timeout_ms)
{
    char address[32];
    struct mc_client *client = NULL;
    mc_log_set_sink(keep_quiet, NULL);
    memory = malloc(MIB);
    ck_assert_ptr_nonnull(memory);
    start(0);
    proxy = ctl_proxy_open(process.port);
    if (rule) {
        (void)ctl_proxy_rule(proxy, rule);
    }
    (void)snprintf(address, sizeof address, "127.0.0.1:%u",
                   (unsigned)ctl_proxy_port(proxy));
    const struct mc_client_opts opts = {.master = address,
                                        .segment_bytes = segment_bytes,
                                        .any_memory = true,
                                        .timeout_ms = timeout_ms};
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

static struct mc_client *begin(uint64_t segment_bytes, uint32_t timeout_ms)
{
    return begin_with(NULL, segment_bytes, timeout_ms);
}

static void finish(struct mc_client *client)
{
    mc_client_close(client);
    ctl_proxy_close(proxy);
    process_close(&process);
    mc_log_set_sink(NULL, NULL);
    free(memory);
}

static uint64_t segments(void)
{
    struct mci_registry_stats stats;
    mci_registry_stat(process.registry, &stats);
    return stats.segments;
}

static int lose(enum ctl_way way)
{
    const struct ctl_rule rule = {
        .way = way, .op = MCI_OP_SEGMENT_MOUNT, .what = CTL_DROP};
    return ctl_proxy_rule(proxy, &rule);
}

START_TEST(a_segment_whose_mounting_was_not_answered_does_not_stay)
{
    struct mc_client *client = begin(MC_NONE, 1000);
    uint32_t segment = 0;
    int rule = lose(CTL_ANSWER);
    ck_assert_int_eq(mc_client_mount_segment(client, memory, MIB, &segment),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(segments(), 1);
    ctl_proxy_lift(proxy, rule);
    ck_assert(AWAIT(segments() == 0));
    ck_assert_int_eq(mc_client_mount_segment(client, memory, MIB, &segment),
                     MC_OK);
    ck_assert_uint_eq(segments(), 1);
    ck_assert_int_eq(mc_client_unmount_segment(client, segment, 0), MC_OK);
    ck_assert(AWAIT(segments() == 0));
    finish(client);
}
END_TEST

/* Its answer is lost when the segment is lent anew after a restart. */
START_TEST(what_is_lent_anew_is_mounted_once)
{
    struct mc_client *client = begin(MIB, 1000);
    uint16_t port = process.port;
    int rule = lose(CTL_ANSWER);
    process_close(&process);
    start(port);
    ck_assert(AWAIT(ctl_proxy_hits(proxy, rule) >= 2));
    ck_assert_uint_eq(segments(), 1);
    ctl_proxy_lift(proxy, rule);
    unsigned before = ctl_proxy_seen(proxy, CTL_ANSWER, MCI_OP_SEGMENT_UNMOUNT);
    struct mc_client_stats stats = {.objects = 0};
    ck_assert(AWAIT(ctl_proxy_seen(proxy, CTL_ANSWER, MCI_OP_SEGMENT_UNMOUNT) >
                        before &&
                    segments() == 1));
    for (int i = 0; i < 50; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert(AWAIT(mc_client_put(client, mc_view_str(key), memory, 64,
                                      NULL) == MC_OK));
    }
    mc_client_stat(client, &stats);
    ck_assert_uint_eq(stats.capacity_bytes, MIB);
    finish(client);
}
END_TEST

/* The master places nothing with an owner whose clock it has not heard of. */
START_TEST(who_opens_finds_room_though_its_first_heartbeat_is_lost)
{
    static const enum ctl_what fates[] = {CTL_CUT, CTL_DROP};
    const struct ctl_rule rule = {.way = CTL_REQUEST,
                                  .op = MCI_OP_HEARTBEAT,
                                  .count = 1,
                                  .what = fates[_i]};
    struct mc_client *client = begin_with(&rule, MIB, 10000);
    ck_assert_int_eq(mc_client_put(client, mc_view_str("k"), memory, 64, NULL),
                     MC_OK);
    finish(client);
}
END_TEST

static uint64_t heartbeats(struct mc_client *client)
{
    struct mci_remote_stats stats;
    mci_remote_stat(mci_client_outside(client)->remote, &stats);
    return stats.heartbeats;
}

/* Time goes on at once for all, as when the master goes on after it was stopped:
 * what clients have to say is on its way then. */
START_TEST(a_master_that_stood_still_keeps_its_clients)
{
    uint64_t now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    struct mc_client *client = begin(MIB, 60000);
    struct mci_registry_stats stats;
    for (int i = 0; i < 30; i++) {
        uint64_t before = heartbeats(client);
        __atomic_fetch_add(&now_ns, 20 * MCI_NS_PER_S, __ATOMIC_SEQ_CST);
        ck_assert(AWAIT(heartbeats(client) > before));
    }
    mci_registry_stat(process.registry, &stats);
    ck_assert_uint_eq(stats.expired_clients, 0);
    ck_assert_uint_eq(stats.segments, 1);
    mci_clock_fake(NULL);
    finish(client);
}
END_TEST

START_TEST(closing_does_not_wait_for_what_is_to_be_lent_anew)
{
    struct mc_client *client = begin(MIB, 60000);
    uint16_t port = process.port;
    int rule = lose(CTL_REQUEST);
    process_close(&process);
    start(port);
    ck_assert(AWAIT(ctl_proxy_hits(proxy, rule) >= 1));
    uint64_t begun_ns = mci_clock_ns();
    mc_client_close(client);
    ck_assert_uint_lt(mci_clock_ns() - begun_ns,
                      (SANITIZED ? 30 : 10) * MCI_NS_PER_S);
    finish(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_loans");
    TCase *tcase = tcase_create("loans");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase,
                   a_segment_whose_mounting_was_not_answered_does_not_stay);
    tcase_add_loop_test(
        tcase, who_opens_finds_room_though_its_first_heartbeat_is_lost, 0, 2);
    tcase_add_test(tcase, what_is_lent_anew_is_mounted_once);
    tcase_add_test(tcase, a_master_that_stood_still_keeps_its_clients);
    tcase_add_test(tcase, closing_does_not_wait_for_what_is_to_be_lent_anew);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
