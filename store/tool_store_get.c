/* SPDX-License-Identifier: Apache-2.0 */
/* An output file appears whole or not at all: the object is loaded into a mapping
 * of a file beside it, which is renamed when all bytes are there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool_store.h"
#include "tool_store_json.h"

#define TRIES 5

/* ---- to stdout --------------------------------------------------------- */

static int write_all(const struct tool_args *args, int fd, const char *name,
                     struct mc_view bytes)
{
    const char *at = bytes.data;
    size_t left = bytes.len;
    while (left > 0) {
        ssize_t done = write(fd, at, left);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return tool_fail(args->command, "%s: %s", name, strerror(errno));
        }
        at += done;
        left -= (size_t)done;
    }
    return TOOL_DONE;
}

static int get_to_fd(const struct tool_args *args, struct mc_client *client,
                     int fd, uint64_t *size_out)
{
    void *data = NULL;
    size_t size = 0;
    struct mc_view key = mc_view_str(args->operands[0]);
    enum mc_err err = mc_client_get(client, key, &data, &size);
    if (err != MC_OK) {
        return tool_fail_on(args->command, key, err);
    }
    int code = write_all(args, fd, args->output ? args->output : "stdout",
                         mc_view_make(data, size));
    mc_client_free(data);
    *size_out = size;
    return code;
}

/* ---- to a file --------------------------------------------------------- */

static char part_path[4096]; /* the file beside; empty: none now */

static void on_stop(int number)
{
    if (part_path[0]) {
        (void)unlink(part_path);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Loads into the file, whose size it sets. *err_out: MC_ERR_INVALID_PARAMS if
 * the object has grown meanwhile. */
static int fill_file(const struct tool_args *args, struct mc_client *client,
                     int fd, uint64_t size, enum mc_err *err_out)
{
    uint64_t got = 0;
    int failed = posix_fallocate(fd, 0, (off_t)size);
    if (failed == 0 && ftruncate(fd, (off_t)size) != 0) {
        failed = errno;
    }
    void *data = failed ? MAP_FAILED
                        : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                               MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        return tool_fail(args->command, "%s: %s", args->output,
                         strerror(failed ? failed : errno));
    }
    *err_out = mc_client_get_into(client, mc_view_str(args->operands[0]), data,
                                  (size_t)size, &got);
    (void)munmap(data, (size_t)size);
    if (*err_out == MC_OK && got < size && ftruncate(fd, (off_t)got) != 0) {
        return tool_fail(args->command, "%s: %s", args->output,
                         strerror(errno));
    }
    return TOOL_DONE;
}

/* An object may be replaced by a longer one between the question and the
 * load. */
static int get_to_part(const struct tool_args *args, struct mc_client *client,
                       int fd, uint64_t *size_out)
{
    struct mc_view key = mc_view_str(args->operands[0]);
    enum mc_err err = MC_OK;
    for (unsigned i = 0; i < TRIES; i++) {
        err = mc_client_get_size(client, key, size_out);
        if (err != MC_OK) {
            break;
        }
        int code = fill_file(args, client, fd, *size_out, &err);
        if (code != TOOL_DONE) {
            return code;
        }
        if (err != MC_ERR_INVALID_PARAMS) {
            break;
        }
    }
    return err == MC_OK ? TOOL_DONE : tool_fail_on(args->command, key, err);
}

static int get_to_file(const struct tool_args *args, struct mc_client *client,
                       uint64_t *size_out)
{
    char path[sizeof part_path];
    int len = snprintf(path, sizeof path, "%s.part-%ld", args->output,
                       (long)getpid());
    if (len < 0 || (size_t)len >= sizeof path) {
        errno = ENAMETOOLONG;
        return tool_fail(args->command, "%s: %s", args->output,
                         strerror(errno));
    }
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return tool_fail(args->command, "%s: %s", args->output,
                         strerror(errno));
    }
    memcpy(part_path, path, (size_t)len + 1);
    (void)signal(SIGINT, on_stop);
    (void)signal(SIGTERM, on_stop);
    int code = get_to_part(args, client, fd, size_out);
    if (close(fd) != 0 && code == TOOL_DONE) {
        code =
            tool_fail(args->command, "%s: %s", args->output, strerror(errno));
    }
    if (code == TOOL_DONE && rename(path, args->output) != 0) {
        code =
            tool_fail(args->command, "%s: %s", args->output, strerror(errno));
    }
    if (code != TOOL_DONE) {
        (void)unlink(path);
    }
    part_path[0] = '\0';
    return code;
}

/* A device or pipe is written to as it is. */
static int get_to_path(const struct tool_args *args, struct mc_client *client,
                       uint64_t *size_out)
{
    struct stat status;
    if (stat(args->output, &status) != 0 || S_ISREG(status.st_mode)) {
        return get_to_file(args, client, size_out);
    }
    int fd = open(args->output, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return tool_fail(args->command, "%s: %s", args->output,
                         strerror(errno));
    }
    int code = get_to_fd(args, client, fd, size_out);
    (void)close(fd);
    return code;
}

static int run(const struct tool_args *args)
{
    uint64_t size = 0;
    if (args->json && !args->output) {
        return tool_wrong_use(args->command,
                              "--json: only with --output, since the bytes go "
                              "to stdout");
    }
    struct mc_client *client = tool_client_open(args);
    if (!client) {
        return TOOL_FAILED;
    }
    int code = args->output ? get_to_path(args, client, &size)
                            : get_to_fd(args, client, STDOUT_FILENO, &size);
    mc_client_close(client);
    if (code == TOOL_DONE && args->json) {
        struct tool_json json;
        tool_json_begin(&json);
        tool_json_text(&json, "key", mc_view_str(args->operands[0]));
        tool_json_u64(&json, "size", size);
        tool_json_write(&json);
    }
    return code;
}

const struct tool_command tool_get = {
    .name = "get",
    .operands = "KEY",
    .operand_min = 1,
    .operand_max = 1,
    .options = TOOL_MASTER | TOOL_JSON | TOOL_OUTPUT,
    .summary = "loads an object",
    .explanation = "Writes its bytes to stdout, or to a file that appears when "
                   "all of them are there.",
    .example = "mc-store get block-7 --output block.bin",
    .run = run,
};
