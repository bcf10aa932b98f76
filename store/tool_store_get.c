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
#define PIECE_BYTES (UINT64_C(8) << 20)

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

/* ---- loading ----------------------------------------------------------- */

/* Into memory of so many bytes; large objects piece by piece, so that the lease
 * is renewed on the way. The pieces of a call are of one version. */
static enum mc_err load_pieces(struct mc_client *client, struct mc_view key,
                               void *data, uint64_t size)
{
    size_t count = (size_t)((size + PIECE_BYTES - 1) / PIECE_BYTES);
    struct mc_range *ranges = calloc(count, sizeof *ranges);
    int64_t *results = calloc(count, sizeof *results);
    enum mc_err err = MC_ERR_NOMEM;
    if (ranges && results) {
        for (size_t i = 0; i < count; i++) {
            uint64_t at = i * PIECE_BYTES;
            uint64_t left = size - at;
            ranges[i] = (struct mc_range){
                at, at, left < PIECE_BYTES ? left : PIECE_BYTES};
        }
        const struct mc_range_row row = {key, ranges, count, results};
        err = mc_client_get_into_ranges(client, data, (size_t)size, &row, 1);
        for (size_t i = 0; i < count && err == MC_OK; i++) {
            err = results[i] < 0 ? (enum mc_err)results[i] : MC_OK;
        }
    }
    free(ranges);
    free(results);
    return err;
}

static enum mc_err load(struct mc_client *client, struct mc_view key,
                        void *data, const struct mc_probe *probe)
{
    uint64_t got = 0;
    if (probe->size > PIECE_BYTES) {
        return load_pieces(client, key, data, probe->size);
    }
    enum mc_err err =
        mc_client_get_into(client, key, data, (size_t)probe->size, &got);
    return err == MC_OK && got != probe->size ? MC_ERR_INVALID_PARAMS : err;
}

typedef enum mc_err (*room_fn)(void *ctx, uint64_t size, void **data_out);

/* An object may be replaced between the question for its size and the end of
 * the load: then all is done again. */
static enum mc_err load_whole(struct mc_client *client, struct mc_view key,
                              room_fn room, void *ctx, uint64_t *size_out)
{
    enum mc_err err = MC_OK;
    for (unsigned i = 0; i < TRIES; i++) {
        struct mc_probe before;
        struct mc_probe after;
        void *data = NULL;
        err = mc_client_probe(client, key, &before);
        if (err == MC_OK && before.state != MC_OBJECT_READABLE) {
            err = before.state == MC_OBJECT_WRITING
                      ? MC_ERR_REPLICA_IS_NOT_READY
                      : MC_ERR_OBJECT_NOT_FOUND;
        }
        if (err != MC_OK || (err = room(ctx, before.size, &data)) != MC_OK) {
            return err;
        }
        *size_out = before.size;
        err = load(client, key, data, &before);
        if (err == MC_OK || err == MC_ERR_INVALID_PARAMS) {
            enum mc_err asked = mc_client_probe(client, key, &after);
            if (err == MC_OK &&
                (before.size <= PIECE_BYTES ||
                 (asked == MC_OK && after.version == before.version))) {
                return MC_OK;
            }
            err = err == MC_OK ? MC_ERR_INVALID_VERSION : err;
        } else if (err != MC_ERR_LEASE_EXPIRED) {
            return err;
        }
    }
    return err;
}

static enum mc_err room_in_memory(void *ctx, uint64_t size, void **data_out)
{
    void **data = ctx;
    free(*data);
    *data = malloc((size_t)size);
    *data_out = *data;
    return *data ? MC_OK : MC_ERR_NOMEM;
}

static int get_to_fd(const struct tool_args *args, struct mc_client *client,
                     int fd, uint64_t *size_out)
{
    void *data = NULL;
    struct mc_view key = mc_view_str(args->operands[0]);
    enum mc_err err = load_whole(client, key, room_in_memory, &data, size_out);
    int code = err == MC_OK
                   ? write_all(args, fd, args->output ? args->output : "stdout",
                               mc_view_make(data, (size_t)*size_out))
                   : tool_fail_on(args->command, key, err);
    free(data);
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

struct part {
    int fd;
    void *data;
    uint64_t size; /* of the mapping */
    int failed;    /* an errno */
};

static void unmap(struct part *part)
{
    if (part->data) {
        (void)munmap(part->data, (size_t)part->size);
    }
    part->data = NULL;
}

/* Room on the disk is had before anything is written to the mapping, which could
 * say nothing but SIGBUS. */
static enum mc_err room_in_file(void *ctx, uint64_t size, void **data_out)
{
    struct part *part = ctx;
    unmap(part);
    part->failed = posix_fallocate(part->fd, 0, (off_t)size);
    if (part->failed == 0 && ftruncate(part->fd, (off_t)size) != 0) {
        part->failed = errno;
    }
    if (part->failed == 0) {
        void *data = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                          MAP_SHARED, part->fd, 0);
        if (data != MAP_FAILED) {
            part->data = data;
            part->size = size;
            *data_out = data;
            return MC_OK;
        }
        part->failed = errno;
    }
    return MC_ERR_FILE_WRITE_FAIL;
}

static int get_to_part(const struct tool_args *args, struct mc_client *client,
                       int fd, uint64_t *size_out)
{
    struct part part = {.fd = fd};
    struct mc_view key = mc_view_str(args->operands[0]);
    enum mc_err err = load_whole(client, key, room_in_file, &part, size_out);
    unmap(&part);
    if (part.failed) {
        return tool_fail(args->command, "%s: %s", args->output,
                         strerror(part.failed));
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
