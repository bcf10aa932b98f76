/* SPDX-License-Identifier: Apache-2.0 */
/* Many at once: connections of many clients, and calls so large that they must
 * not hold up the others. Measured as progress, not as time. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "await.h"
#include "server_rig.h"
#include "suite.h"

#define SEGMENT_BYTES ((uint64_t)64 << 20)

/* ---- one large call ------------------------------------------------------ */

#define LARGE_KEYS 30000
#define SMALL_CALLS 20

/* Counts answers to small calls on one connection while a large call is under
 * way on another; both are of the one thread that the server has. */
static void make_progress_beside(enum mci_op op)
{
    struct server_rig rig;
    struct peer large;
    struct peer small;
    uint32_t answered = 0;
    const struct mci_control_server_opts opts = {.threads = 1};
    server_rig_open(&rig, &opts, false);
    peer_join(&large, &rig);
    peer_join(&small, &rig);
    (void)peer_mount(&large, 1, SEGMENT_BYTES);
    peer_put(&large, 2, 0, 10);
    uint64_t number = 0;
    /* The large one may end before the small ones begin, if the machine is
     * elsewhere; then once more. */
    for (uint64_t round = 0; round < 50 && answered < SMALL_CALLS; round++) {
        struct asked asked = {.op = op, .number = 4 + round};
        if (op == MCI_OP_PUT_START) {
            peer_send_start(&large, &asked, 1000 + round * LARGE_KEYS,
                            LARGE_KEYS);
        } else {
            peer_send_keys(&large, &asked, 0, LARGE_KEYS);
        }
        while (!peer_has_answer(&large, 0)) {
            struct asked one = {.op = MCI_OP_EXIST, .number = ++number};
            peer_send_keys(&small, &one, 0, 1);
            ck_assert_int_eq(peer_answer(&small, &one), MC_OK);
            answered += !peer_has_answer(&large, 0);
        }
        ck_assert_int_eq(peer_answer(&large, &asked), MC_OK);
        ck_assert_uint_eq(mci_rows_unpack(&large.result), LARGE_KEYS);
    }
    ck_assert_uint_ge(answered, SMALL_CALLS);
    peer_close(&large);
    peer_close(&small);
    server_rig_close(&rig);
}

START_TEST(others_are_answered_while_a_large_read_runs)
{
    make_progress_beside(MCI_OP_EXIST);
    make_progress_beside(MCI_OP_PROBE);
}
END_TEST

START_TEST(others_are_answered_while_a_large_start_runs)
{
    make_progress_beside(MCI_OP_PUT_START);
}
END_TEST

/* ---- many connections ---------------------------------------------------- */

#define CROWD 64
#define CROWD_CALLS 100

START_TEST(connections_of_many_clients_are_served_side_by_side)
{
    struct server_rig rig;
    struct peer owner;
    struct peer *crowd = calloc(CROWD, sizeof *crowd);
    ck_assert_ptr_nonnull(crowd);
    server_rig_open(&rig, NULL, false);
    peer_join(&owner, &rig);
    (void)peer_mount(&owner, 1, SEGMENT_BYTES);
    peer_put(&owner, 2, 0, CROWD);
    for (uint32_t i = 0; i < CROWD; i++) {
        peer_join(&crowd[i], &rig);
    }
    ck_assert_uint_eq(server_rig_stats(&rig).connections, CROWD + 2);
    for (uint64_t call = 1; call <= CROWD_CALLS; call++) {
        struct asked asked = {.op = MCI_OP_EXIST, .number = call};
        for (uint32_t i = 0; i < CROWD; i++) {
            peer_send_keys(&crowd[i], &asked, i, 1 + i % 8);
        }
        for (uint32_t i = 0; i < CROWD; i++) {
            uint32_t count = 1 + i % 8;
            uint32_t found = CROWD - i < count ? CROWD - i : count;
            ck_assert_int_eq(peer_answer(&crowd[i], &asked), MC_OK);
            ck_assert_uint_eq(peer_count_results(&crowd[i], 1), found);
        }
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        peer_close(&crowd[i]);
    }
    ck_assert(AWAIT(server_rig_stats(&rig).connections == 2));
    peer_close(&owner);
    server_rig_close(&rig);
    free(crowd);
}
END_TEST

/* ---- many threads, one client -------------------------------------------- */

#define THREADS 8
#define THREAD_ROUNDS 60

struct worker {
    struct peer *like;
    uint32_t slot;
    pthread_t thread;
};

static void put_and_remove(struct peer *peer, uint32_t slot, uint64_t round)
{
    uint64_t numbers[4];
    uint64_t first = 1000 * (uint64_t)slot;
    struct asked asked = {.slot = slot, .number = 4 * round};
    asked.op = MCI_OP_PUT_START;
    asked.number++;
    peer_send_start(peer, &asked, first, 4);
    ck_assert_int_eq(peer_answer(peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_read_started(peer, numbers, 4), 4);
    asked.op = MCI_OP_PUT_END;
    asked.number++;
    for (int again = 0; again < 2; again++) {
        peer_send_end(peer, &asked, first, numbers, 4);
        ck_assert_int_eq(peer_answer(peer, &asked), MC_OK);
        ck_assert_uint_eq(peer_count_results(peer, MC_OK), 4);
    }
    asked.op = MCI_OP_REMOVE;
    asked.number++;
    peer_send_keys(peer, &asked, first, 4);
    ck_assert_int_eq(peer_answer(peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(peer, MC_OK), 4);
}

/* Takes a new connection now and then, in the middle of things. */
static void *work(void *ctx)
{
    struct worker *worker = ctx;
    struct peer peer;
    peer_join_as(&peer, worker->like);
    for (uint64_t round = 0; round < THREAD_ROUNDS; round++) {
        put_and_remove(&peer, worker->slot, round);
        if (round % 16 == worker->slot) {
            peer_close(&peer);
            peer_join_as(&peer, worker->like);
        }
    }
    peer_close(&peer);
    return NULL;
}

START_TEST(slots_of_one_client_are_used_from_many_threads)
{
    struct server_rig rig;
    struct peer peer;
    struct worker workers[THREADS];
    server_rig_open(&rig, NULL, false);
    peer_join(&peer, &rig);
    (void)peer_mount(&peer, 1, SEGMENT_BYTES);
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.like = &peer, .slot = i + 1};
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    }
    struct mci_master_stats core = server_rig_core(&rig);
    ck_assert_uint_eq(core.commits, 4 * THREADS * THREAD_ROUNDS);
    ck_assert_uint_eq(core.objects, 0);
    ck_assert_uint_eq(core.attempts, 0);
    ck_assert_uint_eq(server_rig_stats(&rig).repeated, THREADS * THREAD_ROUNDS);
    peer_close(&peer);
    server_rig_close(&rig);
}
END_TEST

/* ---- one slot, many connections ------------------------------------------ */

static bool is_over(const struct peer *peer)
{
    uint8_t byte;
    return recv(peer->fd, &byte, 1, MSG_PEEK) <= 0;
}

/* Connections that all claim the same slot, with the same numbers, from several
 * threads: whatever comes first, each number is done once. */
static void *contend(void *ctx)
{
    struct worker *worker = ctx;
    struct peer peer;
    peer_join_as(&peer, worker->like);
    for (uint64_t round = 0; round < THREAD_ROUNDS; round++) {
        struct asked asked = {
            .op = MCI_OP_PUT_START, .slot = 9, .number = 1 + round};
        uint64_t number;
        peer_send_start(&peer, &asked, round, 1);
        if (!peer_has_answer(&peer, 20) || is_over(&peer)) {
            peer_close(&peer);
            peer_join_as(&peer, worker->like);
            continue;
        }
        enum mc_err err = peer_answer(&peer, &asked);
        ck_assert(err == MC_OK || err == MC_ERR_INVALID_VERSION);
        if (err == MC_OK) {
            ck_assert_uint_eq(peer_read_started(&peer, &number, 1), 1);
        }
    }
    peer_close(&peer);
    return NULL;
}

START_TEST(a_slot_claimed_by_many_does_each_number_once)
{
    struct server_rig rig;
    struct peer peer;
    struct worker workers[THREADS];
    server_rig_open(&rig, NULL, false);
    peer_join(&peer, &rig);
    (void)peer_mount(&peer, 1, SEGMENT_BYTES);
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.like = &peer, .slot = 9};
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, contend, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    }
    struct mci_control_stats stats = server_rig_stats(&rig);
    ck_assert_uint_eq(stats.items[MCI_OP_PUT_START], THREAD_ROUNDS);
    ck_assert_uint_eq(stats.failed_items[MCI_OP_PUT_START], 0);
    peer_close(&peer);
    server_rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control_crowd");
    TCase *large = tcase_create("large calls");
    tcase_set_timeout(large, 100);
    tcase_add_test(large, others_are_answered_while_a_large_read_runs);
    tcase_add_test(large, others_are_answered_while_a_large_start_runs);
    suite_add_tcase(suite, large);
    TCase *crowd = tcase_create("crowd");
    tcase_set_timeout(crowd, 100);
    tcase_add_test(crowd, connections_of_many_clients_are_served_side_by_side);
    tcase_add_test(crowd, slots_of_one_client_are_used_from_many_threads);
    tcase_add_test(crowd, a_slot_claimed_by_many_does_each_number_once);
    suite_add_tcase(suite, crowd);
    return suite_run(suite);
}
