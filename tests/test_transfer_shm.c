/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory between processes: peers that stop, die, fork or are somebody
 * else, owners that die, and strangers at the socket. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "await.h"
#include "copy.h"
#include "engine.h"
#include "mci_clock.h"
#include "shm.h"
#include "suite.h"
#include "transfer_rig.h"

/* A process that forks while it has threads is more than the thread sanitizer
 * can follow. */
#ifdef __SANITIZE_THREAD__
#define THREADS_ARE_WATCHED 1
#else
#define THREADS_ARE_WATCHED 0
#endif

#define LEN (8 * RIG_MIB)
#define LOCAL_BYTES (16 * RIG_MIB)

/* What parent and child tell each other. */
struct stage {
    struct mc_exposure exposure;
    struct mc_transfer_row row; /* as the child left it */
    _Atomic int is_ready;
    _Atomic int may_go;
};
static struct stage *stage;

static void make_stage(void)
{
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(stage, MAP_FAILED);
}

static pid_t spawn(void (*play)(void *arg), void *arg)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        play(arg);
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    return pid;
}

static int await_exit(pid_t pid)
{
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void check_good_end(pid_t pid)
{
    int status = await_exit(pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static void kill_now(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert(WIFSIGNALED(await_exit(pid)));
}

/* ---- a peer that stops in the middle ----------------------------------- */

static void stop_after_a_piece(const struct mc_transfer_row *row)
{
    if (row->bytes == MCI_PIECE_BYTES) {
        (void)raise(SIGSTOP);
    }
}

/* An engine of its own, which writes LEN bytes of 0xee under a grant that the
 * parent made. */
static void write_and_stop(void *arg)
{
    struct rig *rig = arg;
    struct mc_transfer *own = NULL;
    struct mc_transfer_opts opts = {.only = MC_TRANSPORT_SHM,
                                    .any_memory = true};
    struct mc_target_opts target = {.registration = rig->exposure.registration,
                                    .bytes = rig->memory.bytes,
                                    .shm = rig->exposure.shm};
    struct mc_transfer_row row = stage->row;
    struct mc_span span = {rig->local, LEN};
    memset(rig->local, 0xee, LEN);
    mci_copy_set_hook(stop_after_a_piece);
    if (mc_transfer_open(&opts, &own) != MC_OK ||
        mc_target_open(own, &target, &row.target) != MC_OK) {
        _exit(9);
    }
    row.spans = &span;
    (void)mc_transfer_run(own, &row, 1, rig_deadline(60000));
    stage->row = row;
    mc_target_close(row.target);
    mc_transfer_close(own);
}

static pid_t spawn_stopped_writer(struct rig *rig)
{
    struct mc_span span = {rig->local, LEN};
    int status = 0;
    make_stage();
    rig_open(rig, MC_TRANSPORT_SHM, LEN, LOCAL_BYTES);
    stage->row = rig_row(rig, &span, 1, 0, true);
    pid_t pid = spawn(write_and_stop, rig);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
    return pid;
}

/* Fences the writer's attempt and one more; how many are stuck. */
static size_t fence_both(struct rig *rig)
{
    struct mc_fence_stuck stuck[4];
    size_t count = 9;
    uint64_t attempt = stage->row.terms.subject;
    struct mc_fence fences[2] = {{1, MC_FENCE_ATTEMPT, attempt},
                                 {2, MC_FENCE_ATTEMPT, attempt + 1}};
    ck_assert_int_eq(mc_transfer_fence(rig->owner, fences, 2, stuck, 4, &count),
                     MC_OK);
    if (count > 0) {
        ck_assert_uint_eq(stuck[0].attempt, attempt);
        ck_assert_uint_eq(stuck[0].incarnation, RIG_INCARNATION);
    }
    return count;
}

static size_t ask_again(struct rig *rig)
{
    struct mc_fence_stuck stuck[4];
    size_t count = 9;
    ck_assert_int_eq(mc_transfer_fence(rig->owner, NULL, 0, stuck, 4, &count),
                     MC_OK);
    return count;
}

START_TEST(a_stopped_peer_blocks_what_it_is_inside_of_and_then_leaves)
{
    struct rig rig;
    pid_t pid = spawn_stopped_writer(&rig);
    ck_assert_uint_eq(fence_both(&rig), 1);
    ck_assert_uint_eq(ask_again(&rig), 1);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    check_good_end(pid);
    ck_assert_int_eq(stage->row.err, MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_eq(stage->row.bytes, MCI_PIECE_BYTES);
    ck_assert(stage->row.remote_ended);
    ck_assert_uint_eq(rig.memory.base[MCI_PIECE_BYTES - 1], 0xee);
    size_t untouched = MCI_PIECE_BYTES;
    while (untouched < LEN && rig.memory.base[untouched] == 0) {
        untouched++;
    }
    ck_assert_uint_eq(untouched, LEN);
    ck_assert_uint_eq(ask_again(&rig), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_peer_that_stopped_before_its_fence_is_stuck_by_incarnation_too)
{
    struct rig rig;
    struct mc_fence_stuck stuck[4];
    size_t count = 9;
    struct mc_fence fence = {1, MC_FENCE_INCARNATION, RIG_INCARNATION};
    pid_t pid = spawn_stopped_writer(&rig);
    ck_assert_int_eq(mc_transfer_fence(rig.owner, &fence, 1, stuck, 4, &count),
                     MC_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(stuck[0].attempt, stage->row.terms.subject);
    kill_now(pid);
    ck_assert_uint_eq(ask_again(&rig), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(the_death_of_a_stopped_peer_proves_at_once)
{
    struct rig rig;
    pid_t pid = spawn_stopped_writer(&rig);
    ck_assert_uint_eq(fence_both(&rig), 1);
    kill_now(pid);
    ck_assert_uint_eq(ask_again(&rig), 0);
    ck_assert(AWAIT(rig_shm_peers(&rig) == 0));
    rig_close(&rig);
}
END_TEST

START_TEST(a_stopped_peer_is_stuck_also_after_its_fence_ended)
{
    struct rig rig;
    uint64_t later_ns = rig_deadline(0);
    pid_t pid = spawn_stopped_writer(&rig);
    ck_assert_uint_eq(fence_both(&rig), 1);
    /* So late that the fence's place on the board may be another's. */
    later_ns += 3 * MCI_GRANT_TTL_NS;
    mci_clock_fake(&later_ns);
    struct mc_fence_stuck stuck[4];
    size_t count = 9;
    uint64_t attempt = stage->row.terms.subject;
    const struct mci_board_page *page = mci_board_page(rig.owner->board);
    struct mc_fence fence = {3, MC_FENCE_ATTEMPT, UINT64_C(1) << 40};
    while (mci_board_refuses(page, attempt, 0, UINT64_MAX)) {
        fence.subject++;
        mci_board_post(rig.owner->board, &fence, 1, later_ns, later_ns + 1000);
    }
    ck_assert_int_eq(mc_transfer_fence(rig.owner, NULL, 0, stuck, 4, &count),
                     MC_OK);
    mci_clock_fake(NULL);
    ck_assert_uint_eq(count, 1);
    kill_now(pid);
    rig_close(&rig);
}
END_TEST

/* ---- who comes and goes ------------------------------------------------ */

static void run_as_nobody(void *arg)
{
    struct rig *rig = arg;
    struct sockaddr_un address;
    uint64_t words[HELLO_WORDS] = {SHM_MAGIC, rig->exposure.registration};
    socklen_t len = shm_address(rig->exposure.shm, &address);
    if (setuid(65534) != 0) {
        _exit(8);
    }
    /* By our own rules the peer turns away itself, so it comes without them. */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(fd, (struct sockaddr *)&address, len) != 0) {
        _exit(7);
    }
    (void)send(fd, words, sizeof words, MSG_NOSIGNAL);
    uint64_t answer = 0;
    if (recv(fd, &answer, sizeof answer, 0) > 0) {
        _exit(6);
    }
    if (shm_know_process(fd) >= 0) {
        _exit(5);
    }
}

START_TEST(another_user_is_refused_by_both_sides)
{
    struct rig rig;
    if (geteuid() != 0) {
        return;
    }
    rig_open(&rig, MC_TRANSPORT_SHM, RIG_MIB, RIG_MIB);
    check_good_end(spawn(run_as_nobody, &rig));
    ck_assert_uint_eq(rig_shm_peers(&rig), 0);
    rig_close(&rig);
}
END_TEST

/* Lends memory that is filled by 3, and waits to be killed. */
static void lend(void *arg)
{
    (void)arg;
    struct rig rig;
    rig_open(&rig, MC_TRANSPORT_SHM, RIG_MIB, RIG_MIB);
    rig_fill(rig.memory.base, RIG_MIB, 3);
    stage->exposure = rig.exposure;
    atomic_store(&stage->is_ready, 1);
    for (;;) {
        (void)pause();
    }
}

static pid_t spawn_owner(struct rig *rig, struct mc_target **target_out)
{
    atomic_store(&stage->is_ready, 0);
    pid_t pid = spawn(lend, NULL);
    ck_assert(AWAIT(atomic_load(&stage->is_ready)));
    rig->exposure = stage->exposure;
    struct mc_target_opts opts = {.registration = rig->exposure.registration,
                                  .bytes = RIG_MIB,
                                  .shm = rig->exposure.shm};
    ck_assert_int_eq(mc_target_open(rig->peer, &opts, target_out), MC_OK);
    return pid;
}

static enum mc_err read_all(struct rig *rig, struct mc_target *target)
{
    struct mc_span span = {rig->local, RIG_MIB};
    struct mc_transfer_row row = rig_row(rig, &span, 1, 0, false);
    row.target = target;
    row.terms.registration = stage->exposure.registration;
    rig_sign(rig, &row, rig_deadline(20000));
    (void)mc_transfer_run(rig->peer, &row, 1, rig_deadline(2000));
    return row.err;
}

START_TEST(a_killed_owner_is_let_go_and_a_new_one_found)
{
    struct rig rig;
    struct mc_target *first = NULL;
    struct mc_target *second = NULL;
    make_stage();
    rig_open(&rig, MC_TRANSPORT_SHM, RIG_MIB, RIG_MIB);
    size_t maps = rig_count_maps("memfd:rig");
    pid_t pid = spawn_owner(&rig, &first);
    ck_assert_int_eq(read_all(&rig, first), MC_OK);
    ck_assert(rig_is_filled(rig.local, RIG_MIB, 3));
    ck_assert_uint_gt(rig_count_maps("memfd:rig"), maps);
    kill_now(pid);
    ck_assert(AWAIT(rig_count_maps("memfd:rig") == maps));
    ck_assert_int_eq(read_all(&rig, first), MC_ERR_TRANSFER_FAIL);
    pid = spawn_owner(&rig, &second);
    ck_assert_int_eq(read_all(&rig, second), MC_OK);
    kill_now(pid);
    mc_target_close(first);
    mc_target_close(second);
    rig_close(&rig);
}
END_TEST

START_TEST(a_stopped_owner_costs_the_deadline)
{
    struct rig rig;
    struct mc_target *target = NULL;
    make_stage();
    rig_open(&rig, MC_TRANSPORT_SHM, RIG_MIB, RIG_MIB);
    pid_t pid = spawn_owner(&rig, &target);
    int status = 0;
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    struct mc_span span = {rig.local, RIG_MIB};
    struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, false);
    row.target = target;
    row.terms.registration = stage->exposure.registration;
    uint64_t began_ns = mci_clock_ns();
    (void)mc_transfer_run(rig.peer, &row, 1, rig_deadline(100));
    ck_assert_int_eq(row.err, MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_lt(mci_clock_ns() - began_ns, 2 * MCI_NS_PER_S);
    /* It was not forgotten for that. */
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert_int_eq(read_all(&rig, target), MC_OK);
    kill_now(pid);
    mc_target_close(target);
    rig_close(&rig);
}
END_TEST

/* ---- forks ------------------------------------------------------------- */

struct forked {
    struct rig *rig;
    struct mc_transfer_row row;
    struct mc_transfer_batch *batch;
};

static void use_in_child(void *arg)
{
    struct forked *forked = arg;
    struct rig *rig = forked->rig;
    struct mc_transfer_batch *batch = NULL;
    void *ctx = NULL;
    bool is_refused =
        mc_transfer_run(rig->peer, &forked->row, 1, rig_deadline(20000)) ==
            MC_ERR_TRANSFER_FAIL &&
        forked->row.err == MC_ERR_TRANSFER_FAIL && forked->row.local_ended &&
        mc_transfer_submit(rig->peer, &forked->row, 1, 1, NULL, &batch) !=
            MC_OK &&
        mc_transfer_wait(forked->batch) == MC_ERR_TRANSFER_FAIL &&
        mc_transfer_poll(rig->peer, &ctx, 1) == 0 &&
        mc_transfer_eventfd(rig->peer) == -1 &&
        mc_transfer_register(rig->peer, arg, 1) != MC_OK &&
        mc_target_probe(rig->target, 1) != MC_OK;
    /* Only the lender's own mapping is inherited. */
    size_t maps = rig_count_maps("memfd:rig");
    mc_target_close(rig->target);
    mc_transfer_close(rig->peer);
    _exit(is_refused && maps == 1 ? 0 : 1);
}

START_TEST(a_child_can_do_nothing_with_its_parents_engine)
{
    struct rig rig;
    if (!rig_is_built(rig_kinds[_i])) {
        return;
    }
    rig_open(&rig, rig_kinds[_i], RIG_MIB, RIG_MIB);
    struct mc_span span = {rig.local, RIG_MIB};
    struct mc_transfer_row rows[2];
    struct forked forked = {.rig = &rig};
    forked.row = rig_row(&rig, &span, 1, 0, true);
    rows[0] = forked.row;
    rows[1] = rig_row(&rig, &span, 1, 0, false);
    ck_assert_int_eq(rig_run(&rig, &rows[0]), MC_OK);
    ck_assert_int_eq(mc_transfer_submit(rig.peer, &rows[1], 1,
                                        rig_deadline(20000), NULL,
                                        &forked.batch),
                     MC_OK);
    check_good_end(spawn(use_in_child, &forked));
    ck_assert_int_eq(mc_transfer_wait(forked.batch), MC_OK);
    ck_assert_int_eq(rig_run(&rig, &rows[0]), MC_OK);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transfer_shm");
    TCase *stopped = tcase_create("stopped");
    tcase_set_timeout(stopped, 60);
    tcase_add_test(stopped,
                   a_stopped_peer_blocks_what_it_is_inside_of_and_then_leaves);
    tcase_add_test(
        stopped,
        a_peer_that_stopped_before_its_fence_is_stuck_by_incarnation_too);
    tcase_add_test(stopped, the_death_of_a_stopped_peer_proves_at_once);
    tcase_add_test(stopped, a_stopped_peer_is_stuck_also_after_its_fence_ended);
    TCase *going = tcase_create("coming and going");
    tcase_set_timeout(going, 60);
    tcase_add_test(going, another_user_is_refused_by_both_sides);
    tcase_add_test(going, a_killed_owner_is_let_go_and_a_new_one_found);
    tcase_add_test(going, a_stopped_owner_costs_the_deadline);
    tcase_add_loop_test(going, a_child_can_do_nothing_with_its_parents_engine,
                        0, RIG_KINDS);
    suite_add_tcase(suite, stopped);
    suite_add_tcase(suite, going);
    return THREADS_ARE_WATCHED ? EXIT_SUCCESS : suite_run(suite);
}
