/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool_store_json.h"
#include "tool_store_put.h"

#define ROWS_MAX 256 /* of a call */
#define BYTES_MAX (UINT64_C(64) << 20)

/* Rows that are to go in one call. */
struct batch {
    struct tool_json lines[ROWS_MAX]; /* what the texts below point into */
    struct tool_content contents[ROWS_MAX];
    struct mc_view keys[ROWS_MAX];
    struct mc_view values[ROWS_MAX];
    struct mc_view sessions[ROWS_MAX];
    struct mc_view groups[ROWS_MAX];
    int64_t results[ROWS_MAX];
    size_t count;
    uint64_t bytes;
};

struct many {
    const struct tool_args *args;
    struct mc_client *client;
    struct batch batch;
    const char *path;
    uint64_t line;
    uint64_t done;
    uint64_t failed;
};

static void batch_clear(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        tool_json_free(&batch->lines[i]);
        tool_content_free(&batch->contents[i]);
    }
    batch->count = 0;
    batch->bytes = 0;
}

/* The codes of the call stand in each row, also when it was refused whole. */
static void batch_send(struct many *many)
{
    struct batch *batch = &many->batch;
    struct mc_replicate_config config;
    if (batch->count == 0) {
        return;
    }
    tool_config_make(many->args, &config);
    config.session_ids = batch->sessions;
    config.session_id_count = batch->count;
    config.group_ids = batch->groups;
    config.group_id_count = batch->count;
    enum mc_err err =
        many->args->upsert
            ? mc_client_batch_upsert(many->client, batch->keys, batch->values,
                                     batch->count, &config, batch->results)
            : mc_client_batch_put(many->client, batch->keys, batch->values,
                                  batch->count, &config, batch->results);
    tool_progress(many->args->command, 0, 0, true);
    for (size_t i = 0; i < batch->count; i++) {
        int64_t code = err != MC_OK ? err : batch->results[i];
        many->failed += code != MC_OK;
        tool_put_code(many->args, batch->keys[i], code);
    }
    many->done += batch->count;
    tool_progress(many->args->command, many->done, many->done, false);
    batch_clear(batch);
}

static int refuse(const struct many *many, const char *why)
{
    return tool_fail(many->args->command, "%s:%ju: %s", many->path,
                     (uintmax_t)many->line, why);
}

/* Bytes to be recognised: the same for the same size. */
static int content_make(const struct many *many, const char *size,
                        struct tool_content *content)
{
    uint64_t bytes;
    if (!tool_size_parse(size, &bytes) || bytes == 0 || bytes > SIZE_MAX / 2) {
        return refuse(many, "size: is a size such as 4096 or \"1MB\"");
    }
    char *data = malloc((size_t)bytes);
    if (!data) {
        return refuse(many, mc_err_text(MC_ERR_NOMEM));
    }
    for (uint64_t i = 0; i < bytes; i++) {
        data[i] = (char)(i * 31 + i / 251);
    }
    *content = (struct tool_content){data, (size_t)bytes, false};
    return TOOL_DONE;
}

static int line_check(const struct many *many, const struct tool_json *line)
{
    static const char *const known[] = {"key", "file", "size", "session",
                                        "group"};
    static const char *const texts[] = {"file", "session", "group"};
    const char *stranger = tool_json_stranger(line, known, 5);
    if (stranger) {
        return tool_fail(many->args->command, "%s:%ju: %s: no such member",
                         many->path, (uintmax_t)many->line, stranger);
    }
    for (size_t i = 0; i < 3; i++) {
        if (!tool_json_is_text(line, texts[i])) {
            return tool_fail(many->args->command, "%s:%ju: %s: is a string",
                             many->path, (uintmax_t)many->line, texts[i]);
        }
    }
    if (!tool_json_get(line, "key").data) {
        return refuse(many, "key: a string is missing");
    }
    if (!tool_json_typed(line, "file") == !tool_json_typed(line, "size")) {
        return refuse(many, "one of file and size is wanted");
    }
    return TOOL_DONE;
}

/* Takes the line over, also when it fails. */
static int row_add(struct many *many, struct tool_json *line)
{
    struct batch *batch = &many->batch;
    size_t at = batch->count;
    struct tool_content *content = &batch->contents[at];
    *content = (struct tool_content){.data = NULL};
    int code = line_check(many, line);
    if (code == TOOL_DONE) {
        const char *file = tool_json_typed(line, "file");
        code = file
                   ? tool_content_read(many->args, file, content)
                   : content_make(many, tool_json_typed(line, "size"), content);
    }
    if (code != TOOL_DONE) {
        tool_content_free(content);
        tool_json_free(line);
        return code;
    }
    batch->lines[at] = *line;
    batch->keys[at] = tool_json_get(line, "key");
    batch->values[at] =
        mc_view_make(content->data ? content->data : "", content->len);
    batch->sessions[at] = tool_json_get(line, "session");
    batch->groups[at] = tool_json_get(line, "group");
    batch->bytes += content->len;
    batch->count++;
    if (batch->count == ROWS_MAX || batch->bytes >= BYTES_MAX) {
        batch_send(many);
    }
    return TOOL_DONE;
}

static int read_lines(struct many *many, FILE *file)
{
    char *text = NULL;
    size_t capacity = 0;
    int code = TOOL_DONE;
    while (code == TOOL_DONE) {
        struct tool_json line;
        const char *why;
        errno = 0;
        ssize_t len = getline(&text, &capacity, file);
        if (len < 0) {
            code = errno ? tool_fail(many->args->command, "%s: %s", many->path,
                                     strerror(errno))
                         : TOOL_DONE;
            break;
        }
        many->line++;
        if (strspn(text, " \t\r\n") == (size_t)len) {
            continue;
        }
        code = tool_json_read(&line, text, (size_t)len, &why)
                   ? row_add(many, &line)
                   : refuse(many, why);
    }
    free(text);
    return code;
}

static int run_with(struct many *many, FILE *file)
{
    many->client = tool_client_open(many->args);
    if (!many->client) {
        return TOOL_FAILED;
    }
    int code = read_lines(many, file);
    batch_send(many);
    tool_progress(many->args->command, 0, 0, true);
    mc_client_close(many->client);
    if (many->failed != 0) {
        code = tool_fail(many->args->command, "%ju of %ju failed",
                         (uintmax_t)many->failed, (uintmax_t)many->done);
    }
    return code;
}

static int run(const struct tool_args *args)
{
    const char *path = args->operands[0];
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rbe");
    struct many *many = calloc(1, sizeof *many);
    int code = TOOL_FAILED;
    if (!file) {
        (void)tool_fail(args->command, "%s: %s", path, strerror(errno));
    } else if (!many) {
        (void)tool_fail_on(args->command, mc_view_str(path), MC_ERR_NOMEM);
    } else {
        many->args = args;
        many->path = is_stdin ? "stdin" : path;
        code = run_with(many, file);
    }
    free(many);
    if (file && !is_stdin) {
        (void)fclose(file);
    }
    return code;
}

const struct tool_command tool_put_many = {
    .name = "put-many",
    .operands = "LIST.jsonl|-",
    .operand_min = 1,
    .operand_max = 1,
    .options = TOOL_MASTER | TOOL_JSON | TOOL_WRITE,
    .summary = "stores many objects, in batches",
    .explanation =
        "A line of the list is an object with \"key\", either \"file\" (a "
        "path) or \"size\"\n(so many bytes made up), and, if wanted, "
        "\"session\" and \"group\". Prints\nKEY CODE for each; 0 is done. A "
        "line that cannot be read ends it, what came\nbefore is stored.",
    .example = "mc-store put-many blocks.jsonl",
    .run = run,
};
