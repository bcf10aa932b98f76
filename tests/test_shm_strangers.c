/* SPDX-License-Identifier: Apache-2.0 */
/* The socket by which shared memory is asked for: strangers are bounded and do no
 * harm, and what was mapped goes with its reason. */
#include <check.h>
#include <dirent.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "await.h"
#include "engine.h"
#include "mci_clock.h"
#include "shm.h"
#include "suite.h"
#include "transfer_rig.h"

static size_t count_fds(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir)) {
        count++;
    }
    (void)closedir(dir);
    return count;
}

START_TEST(mappings_end_with_their_registration_and_their_target)
{
    struct rig rig;
    rig_open(&rig, MC_TRANSPORT_SHM, RIG_MIB, RIG_MIB);
    size_t maps = rig_count_maps("memfd:rig");
    struct mc_span span = {rig.local, RIG_MIB};
    struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, true);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert_uint_gt(rig_count_maps("memfd:rig"), maps);
    ck_assert_uint_eq(rig_shm_peers(&rig), 1);
    mc_transfer_conceal(rig.owner, rig.exposure.registration);
    ck_assert(AWAIT(rig_count_maps("memfd:rig") == maps));
    ck_assert_uint_eq(rig_shm_peers(&rig), 0);
    mc_target_close(rig.target);
    rig_lend(&rig);
    row = rig_row(&rig, &span, 1, 0, true);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    mc_target_close(rig.target);
    rig.target = NULL;
    ck_assert(AWAIT(rig_count_maps("memfd:rig") == maps));
    ck_assert(AWAIT(rig_shm_peers(&rig) == 0));
    rig_close(&rig);
}
END_TEST

/* ---- strangers at the socket ------------------------------------------- */

static int knock(const struct rig *rig)
{
    struct sockaddr_un address;
    socklen_t len = shm_address(rig->exposure.shm, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert(AWAIT(connect(fd, (struct sockaddr *)&address, len) == 0));
    return fd;
}

static void send_fds(int fd)
{
    uint64_t word = SHM_MAGIC;
    int fds[3] = {0, 1, 2};
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof fds)];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {&word, sizeof word};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(rights), fds, sizeof fds);
    (void)sendmsg(fd, &message, MSG_NOSIGNAL);
}

START_TEST(strangers_are_bounded_and_do_no_harm)
{
    enum { STRANGERS = 300 };
    static int fds[STRANGERS];
    struct rig rig;
    rig_open(&rig, MC_TRANSPORT_SHM, RIG_MIB, RIG_MIB);
    struct mc_span span = {rig.local, RIG_MIB};
    struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, true);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    size_t fds_before = count_fds();
    /* Time stands still, so that silence alone shows nobody out. */
    uint64_t now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    for (size_t i = 0; i < STRANGERS; i++) {
        static char junk[3000];
        fds[i] = knock(&rig);
        if (i % 4 == 1) {
            (void)send(fds[i], junk, sizeof junk, MSG_NOSIGNAL);
        } else if (i % 4 == 2) {
            send_fds(fds[i]);
        } else if (i % 4 == 3) {
            uint64_t words[HELLO_WORDS] = {SHM_MAGIC, 1 + i};
            (void)send(fds[i], words, sizeof words, MSG_NOSIGNAL);
        }
    }
    /* Who has something to say is served all the same, after all of them. */
    struct mc_target *other = NULL;
    struct mc_target_opts opts = {.registration = rig.exposure.registration,
                                  .bytes = RIG_MIB,
                                  .shm = rig.exposure.shm};
    ck_assert_int_eq(mc_target_open(rig.peer, &opts, &other), MC_OK);
    ck_assert_int_eq(mc_target_probe(other, UINT64_MAX), MC_OK);
    mc_target_close(other);
    ck_assert(AWAIT(count_fds() <= fds_before + STRANGERS + SHM_WAITING_MAX));
    for (size_t i = 0; i < STRANGERS; i++) {
        ck_assert_int_eq(close(fds[i]), 0);
    }
    ck_assert(AWAIT(count_fds() <= fds_before));
    mci_clock_fake(NULL);
    ck_assert_uint_eq(rig_shm_peers(&rig), 1);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_silent_stranger_is_shown_out)
{
    struct rig rig;
    char byte;
    rig_open(&rig, MC_TRANSPORT_SHM, RIG_MIB, RIG_MIB);
    int fd = knock(&rig);
    ck_assert_int_eq(recv(fd, &byte, 1, 0), 0);
    ck_assert_int_eq(close(fd), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_closed_socket_alone_is_no_farewell)
{
    struct rig rig;
    rig_open(&rig, MC_TRANSPORT_SHM, RIG_MIB, RIG_MIB);
    uint64_t words[WELCOME_WORDS] = {SHM_MAGIC, rig.exposure.registration};
    int fd = knock(&rig);
    ck_assert_int_eq(send(fd, words, HELLO_WORDS * sizeof words[0], 0),
                     HELLO_WORDS * sizeof words[0]);
    ck_assert_int_eq(recv(fd, words, sizeof words, 0), sizeof words);
    ck_assert_uint_eq(words[WELCOME_BYTES], RIG_MIB);
    ck_assert_int_eq(close(fd), 0);
    /* The next one is served, so the end of the first has been seen. */
    struct mc_span span = {rig.local, RIG_MIB};
    struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, true);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert_uint_eq(rig_shm_peers(&rig), 2);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm_strangers");
    TCase *strangers = tcase_create("strangers");
    tcase_set_timeout(strangers, 60);
    tcase_add_test(strangers,
                   mappings_end_with_their_registration_and_their_target);
    tcase_add_test(strangers, strangers_are_bounded_and_do_no_harm);
    tcase_add_test(strangers, a_silent_stranger_is_shown_out);
    tcase_add_test(strangers, a_closed_socket_alone_is_no_farewell);
    suite_add_tcase(suite, strangers);
    return suite_run(suite);
}
