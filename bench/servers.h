/* SPDX-License-Identifier: Apache-2.0 */
/* servers.h - the other processes of a benchmark: this program again with a word
 * that says what to serve, or redis-server.
 *
 * They listen on free ports of 127.0.0.1, end with the benchmark, and are ended
 * by their process id.
 * Threads: one.
 */
#ifndef SERVERS_H
#define SERVERS_H
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define SERVER_PATIENCE_S 10.0

static inline struct sockaddr_in server_address(uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline void server_send_at_once(int fd)
{
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* -1: nobody is there. */
static inline int server_connect(uint16_t port)
{
    const struct sockaddr_in address = server_address(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    server_send_at_once(fd);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* A socket that is bound to a free port; -1. */
static inline int server_bind(uint16_t *port_out)
{
    struct sockaddr_in address = server_address(0);
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0) {
        *port_out = ntohs(address.sin_port);
        return fd;
    }
    (void)close(fd);
    return -1;
}

static inline void server_pause(void)
{
    const struct timespec pause = {0, 10000000};
    (void)nanosleep(&pause, NULL);
}

/* ---- processes ----------------------------------------------------------- */

/* out_fd: its standard output; -1: ours. */
static inline pid_t server_start(char *const argv[], int out_fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (out_fd >= 0) {
            (void)dup2(out_fd, STDOUT_FILENO);
        }
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    return pid;
}

static inline void server_end(pid_t pid)
{
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
}

/* What a server says when it is ready; then it serves until it is killed, and
 * this does not return. */
static inline void server_ready(const char *name)
{
    (void)printf("%s\n", name);
    (void)fflush(stdout);
    for (;;) {
        (void)pause();
    }
}

/* This program again, with at most two words; *port_out: what stands behind the
 * last colon of its first line. -1: it did not start. */
static inline pid_t server_start_own(const char *what, const char *first,
                                     const char *second, uint16_t *port_out)
{
    char line[300] = "";
    char words[3][32];
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return -1;
    }
    (void)snprintf(words[0], sizeof words[0], "%s", what);
    (void)snprintf(words[1], sizeof words[1], "%s", first ? first : "");
    (void)snprintf(words[2], sizeof words[2], "%s", second ? second : "");
    char *const argv[] = {"/proc/self/exe", words[0], first ? words[1] : NULL,
                          second ? words[2] : NULL, NULL};
    pid_t pid = server_start(argv, fds[1]);
    (void)close(fds[1]);
    FILE *out = fdopen(fds[0], "r");
    bool is_told = out && fgets(line, sizeof line, out);
    const char *colon = strrchr(line, ':');
    *port_out = colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
    if (out) {
        (void)fclose(out);
    }
    if (!is_told || *port_out == 0) {
        server_end(pid);
        return -1;
    }
    return pid;
}

static inline pid_t server_start_redis(uint16_t *port_out)
{
    char port[8];
    *port_out = 0;
    (void)close(server_bind(port_out));
    (void)snprintf(port, sizeof port, "%u", *port_out);
    char *const argv[] = {
        "redis-server", "--port",    port,        "--bind",
        "127.0.0.1",    "--save",    "",          "--loglevel",
        "warning",      "--logfile", "/dev/null", NULL};
    pid_t pid = server_start(argv, -1);
    double end = bench_now() + SERVER_PATIENCE_S;
    while (bench_now() < end) {
        int fd = server_connect(*port_out);
        if (fd >= 0) {
            (void)close(fd);
            return pid;
        }
        server_pause();
    }
    server_end(pid);
    return -1;
}

#endif
