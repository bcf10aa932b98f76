/* SPDX-License-Identifier: Apache-2.0 */
#include "self_process.h"

#include <check.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t self_spawn(char *const *args)
{
    pid_t pid = 0;
    ck_assert_int_eq(
        posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ), 0);
    return pid;
}

int self_lend(const struct mc_client_opts *opts)
{
    struct mc_client *client = NULL;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() == 1 ||
        mc_client_open(opts, &client) != MC_OK) {
        return 1;
    }
    for (;;) {
        (void)pause();
    }
}

void self_kill(pid_t pid)
{
    int status = 0;
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
