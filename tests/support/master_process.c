/* SPDX-License-Identifier: Apache-2.0 */
#include "master_process.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLAGS_MAX 16

static _Noreturn void run(int words, const char *const *flags, pid_t parent)
{
    const char *args[FLAGS_MAX + 6] = {MC_MASTER_BINARY,
                                       "--rpc_address=127.0.0.1",
                                       "--rpc_port=0", "--metrics_port=0"};
    size_t count = 4;
    for (size_t i = 0; flags && flags[i] && i < FLAGS_MAX; i++) {
        args[count++] = flags[i];
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        dup2(words, STDOUT_FILENO) < 0) {
        _exit(126);
    }
    (void)execv(MC_MASTER_BINARY, (char *const *)args);
    _exit(127);
}

/* "ready rpc=127.0.0.1:port ..." */
static void read_address(struct master_process *master)
{
    char line[512];
    size_t len = 0;
    while (len < sizeof line - 1 && !memchr(line, '\n', len)) {
        ssize_t more = read(master->words, line + len, sizeof line - 1 - len);
        ck_assert_int_gt(more, 0);
        len += (size_t)more;
    }
    line[len] = '\0';
    ck_assert_msg(sscanf(line, "ready rpc=%31s", master->address) == 1, "%s",
                  line);
}

void master_spawn(struct master_process *master, const char *const *flags)
{
    int words[2];
    pid_t parent = getpid();
    ck_assert_int_eq(pipe2(words, O_CLOEXEC), 0);
    (void)fflush(NULL);
    master->pid = fork();
    ck_assert_int_ge(master->pid, 0);
    if (master->pid == 0) {
        run(words[1], flags, parent);
    }
    (void)close(words[1]);
    master->words = words[0];
    read_address(master);
}

void master_stop(const struct master_process *master)
{
    int status = 0;
    ck_assert_int_eq(kill(master->pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(master->pid, &status, WUNTRACED), master->pid);
    ck_assert(WIFSTOPPED(status));
}

void master_continue(const struct master_process *master)
{
    ck_assert_int_eq(kill(master->pid, SIGCONT), 0);
}

void master_end(struct master_process *master)
{
    int status = 0;
    (void)kill(master->pid, SIGCONT);
    ck_assert_int_eq(kill(master->pid, SIGTERM), 0);
    ck_assert_int_eq(waitpid(master->pid, &status, 0), master->pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x",
                  status);
    (void)close(master->words);
}
