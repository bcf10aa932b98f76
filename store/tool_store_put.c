/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool_store_put.h"

#define PIPE_FIRST (UINT64_C(1) << 16)

/* ---- contents ---------------------------------------------------------- */

/* A mapped file that becomes shorter while it is stored. */
static void on_bus(int number)
{
    static const char words[] =
        "mc-store: put: the file became shorter meanwhile\n";
    (void)number;
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(TOOL_FAILED);
}

static int fail_path(const struct tool_args *args, const char *path)
{
    return tool_fail(args->command, "%s: %s", path, strerror(errno));
}

static bool grow(struct tool_content *content, size_t *capacity)
{
    if (content->len < *capacity) {
        return true;
    }
    size_t wanted = *capacity ? *capacity * 2 : PIPE_FIRST;
    char *data = realloc(content->data, wanted);
    if (!data) {
        return false;
    }
    content->data = data;
    *capacity = wanted;
    return true;
}

static int read_pipe(const struct tool_args *args, int fd, const char *path,
                     struct tool_content *content)
{
    size_t capacity = 0;
    ssize_t got = 1;
    while (got > 0) {
        if (!grow(content, &capacity)) {
            return tool_fail_on(args->command, mc_view_str(path), MC_ERR_NOMEM);
        }
        char *data = content->data;
        got = read(fd, data + content->len, capacity - content->len);
        if (got < 0 && errno == EINTR) {
            got = 1;
        } else if (got < 0) {
            return fail_path(args, path);
        } else {
            content->len += (size_t)got;
        }
    }
    return TOOL_DONE;
}

static int map_file(const struct tool_args *args, int fd, const char *path,
                    struct tool_content *content)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return fail_path(args, path);
    }
    if (S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return fail_path(args, path);
    }
    if (!S_ISREG(status.st_mode)) {
        return read_pipe(args, fd, path, content);
    }
    if (status.st_size == 0) {
        return TOOL_DONE;
    }
    void *data =
        mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return fail_path(args, path);
    }
    (void)signal(SIGBUS, on_bus);
    *content = (struct tool_content){data, (size_t)status.st_size, true};
    return TOOL_DONE;
}

int tool_content_read(const struct tool_args *args, const char *path,
                      struct tool_content *content_out)
{
    *content_out = (struct tool_content){.data = NULL};
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail_path(args, path);
    }
    int code = map_file(args, fd, is_stdin ? "stdin" : path, content_out);
    if (!is_stdin) {
        (void)close(fd);
    }
    return code;
}

void tool_content_free(struct tool_content *content)
{
    if (content->is_mapped) {
        (void)munmap(content->data, content->len);
    } else {
        free(content->data);
    }
    content->data = NULL;
}

/* ---- put --------------------------------------------------------------- */

void tool_config_make(const struct tool_args *args,
                      struct mc_replicate_config *config_out)
{
    *config_out = (struct mc_replicate_config){
        .replica_num = (uint32_t)args->replicas,
        .with_hard_pin = args->hard_pin,
    };
    if (args->has_soft_pin) {
        config_out->soft_pin_action = MC_SOFT_PIN_ENABLE;
        config_out->soft_pin_ttl_ms =
            args->soft_pin_ms ? args->soft_pin_ms : MC_NONE;
    }
}

static enum mc_err put_content(const struct tool_args *args,
                               struct mc_client *client,
                               const struct tool_content *content)
{
    struct mc_replicate_config config;
    struct mc_view key = mc_view_str(args->operands[0]);
    struct mc_view session = mc_view_str(args->session);
    struct mc_view group = mc_view_str(args->group);
    tool_config_make(args, &config);
    if (args->session) {
        config.session_ids = &session;
        config.session_id_count = 1;
    }
    if (args->group) {
        config.group_ids = &group;
        config.group_id_count = 1;
    }
    return args->upsert ? mc_client_upsert(client, key, content->data,
                                           content->len, &config)
                        : mc_client_put(client, key, content->data,
                                        content->len, &config);
}

static int put(const struct tool_args *args, const struct tool_content *content)
{
    struct mc_client *client = tool_client_open(args);
    if (!client) {
        return TOOL_FAILED;
    }
    enum mc_err err = put_content(args, client, content);
    mc_client_close(client);
    struct mc_view key = mc_view_str(args->operands[0]);
    if (args->json) {
        tool_put_code(args, key, err);
    }
    return err == MC_OK ? TOOL_DONE : tool_fail_on(args->command, key, err);
}

static int run(const struct tool_args *args)
{
    struct tool_content content;
    const char *path = args->operand_count > 1 ? args->operands[1] : "-";
    int code = tool_content_read(args, path, &content);
    if (code == TOOL_DONE && content.len == 0) {
        code =
            tool_fail(args->command, "%s: an object has at least one byte (%d)",
                      path, MC_ERR_INVALID_PARAMS);
    }
    if (code == TOOL_DONE) {
        code = put(args, &content);
    }
    tool_content_free(&content);
    return code;
}

const struct tool_command tool_put = {
    .name = "put",
    .operands = "KEY [FILE|-]",
    .operand_min = 1,
    .operand_max = 2,
    .options = TOOL_MASTER | TOOL_JSON | TOOL_WRITE | TOOL_TAG,
    .summary = "stores a file or stdin",
    .explanation =
        "An object that is there already stays as it is, and that is "
        "no failure; with\n--upsert it is replaced. Prints nothing.",
    .example = "mc-store put block-7 block.bin --session s1",
    .run = run,
};
