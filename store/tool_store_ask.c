/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool_store.h"
#include "tool_store_json.h"

/* Keys as given, and what is answered for each. */
struct question {
    struct mc_view *keys;
    int64_t *results;
    struct mc_probe *probes;
    size_t count;
};

static bool question_init(struct question *question,
                          const struct tool_args *args)
{
    size_t count = args->operand_count;
    question->count = count;
    question->keys = calloc(count, sizeof *question->keys);
    question->results = calloc(count, sizeof *question->results);
    question->probes = calloc(count, sizeof *question->probes);
    if (!question->keys || !question->results || !question->probes) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        question->keys[i] = mc_view_str(args->operands[i]);
    }
    return true;
}

static void question_fini(struct question *question)
{
    free(question->keys);
    free(question->results);
    free(question->probes);
}

typedef enum mc_err (*ask_fn)(struct mc_client *client,
                              const struct tool_args *args,
                              struct question *question);
typedef void (*show_fn)(const struct tool_args *args, struct mc_view key,
                        const struct question *question, size_t i);

/* Asks once for all keys, and shows them in order. */
static int ask_all(const struct tool_args *args, ask_fn ask, show_fn show)
{
    struct question question = {.count = 0};
    struct mc_client *client = NULL;
    int code = TOOL_FAILED;
    if (!question_init(&question, args)) {
        (void)tool_fail(args->command, "%s (%d)", mc_err_text(MC_ERR_NOMEM),
                        MC_ERR_NOMEM);
    } else {
        client = tool_client_open(args);
    }
    if (client) {
        enum mc_err err = ask(client, args, &question);
        code = TOOL_DONE;
        for (size_t i = 0; i < question.count; i++) {
            if (err != MC_OK) {
                question.results[i] = err;
            }
            if (question.results[i] < 0) {
                code = tool_fail_on(args->command, question.keys[i],
                                    (enum mc_err)question.results[i]);
            }
            show(args, question.keys[i], &question, i);
        }
    }
    mc_client_close(client);
    question_fini(&question);
    return code;
}

/* ---- exist ------------------------------------------------------------- */

static enum mc_err ask_exist(struct mc_client *client,
                             const struct tool_args *args,
                             struct question *question)
{
    (void)args;
    return mc_client_batch_exist(client, question->keys, question->count,
                                 question->results);
}

static void show_exist(const struct tool_args *args, struct mc_view key,
                       const struct question *question, size_t i)
{
    int64_t result = question->results[i];
    if (result < 0 || !args->json) {
        tool_put_code(args, key, result);
        return;
    }
    struct tool_json json;
    tool_json_begin(&json);
    tool_json_text(&json, "key", key);
    tool_json_bool(&json, "exists", result == 1);
    tool_json_write(&json);
}

static int run_exist(const struct tool_args *args)
{
    return ask_all(args, ask_exist, show_exist);
}

const struct tool_command tool_exist = {
    .name = "exist",
    .operands = "KEY...",
    .operand_min = 1,
    .operand_max = TOOL_MANY,
    .options = TOOL_MASTER | TOOL_JSON,
    .summary = "asks which keys can be read",
    .explanation = "Prints KEY 1 or KEY 0. A key that is there is kept from "
                   "being evicted for a while,\nas it is when engines ask.",
    .example = "mc-store exist block-7 block-8",
    .run = run_exist,
};

/* ---- probe ------------------------------------------------------------- */

static const char *const states[] = {
    [MC_OBJECT_ABSENT] = "absent",
    [MC_OBJECT_WRITING] = "writing",
    [MC_OBJECT_READABLE] = "readable",
};

static enum mc_err ask_probe(struct mc_client *client,
                             const struct tool_args *args,
                             struct question *question)
{
    (void)args;
    return mc_client_batch_probe(client, question->keys, question->count,
                                 question->probes, question->results);
}

static struct mc_view session_of(const struct mc_probe *probe)
{
    return mc_view_make(probe->session_len ? probe->session : NULL,
                        probe->session_len);
}

static void show_probe_json(struct mc_view key, const struct mc_probe *probe)
{
    struct tool_json json;
    tool_json_begin(&json);
    tool_json_text(&json, "key", key);
    tool_json_text(&json, "state", mc_view_str(states[probe->state]));
    if (probe->state == MC_OBJECT_READABLE) {
        tool_json_u64(&json, "size", probe->size);
        tool_json_text(&json, "media",
                       mc_view_str(mc_medium_name(probe->media)));
        tool_json_text(&json, "session_id", session_of(probe));
        tool_json_u64(&json, "version", probe->version);
        tool_json_u64(&json, "lease_ms", probe->lease_ms);
    }
    tool_json_write(&json);
}

static void show_probe(const struct tool_args *args, struct mc_view key,
                       const struct question *question, size_t i)
{
    const struct mc_probe *probe = &question->probes[i];
    if (question->results[i] < 0) {
        tool_put_code(args, key, question->results[i]);
        return;
    }
    if (args->json) {
        show_probe_json(key, probe);
        return;
    }
    tool_put_safe(key);
    if (probe->state != MC_OBJECT_READABLE) {
        printf(" %s - - -\n", states[probe->state]);
        return;
    }
    printf(" readable %" PRIu64 " %s ", probe->size,
           mc_medium_name(probe->media));
    tool_put_safe(session_of(probe));
    printf("\n");
}

static int run_probe(const struct tool_args *args)
{
    return ask_all(args, ask_probe, show_probe);
}

const struct tool_command tool_probe = {
    .name = "probe",
    .operands = "KEY...",
    .operand_min = 1,
    .operand_max = TOOL_MANY,
    .options = TOOL_MASTER | TOOL_JSON,
    .summary = "asks about keys without leaving a trace",
    .explanation =
        "Prints KEY absent|writing|readable SIZE MEDIA SESSION, with - for "
        "none.",
    .example = "mc-store probe block-7",
    .run = run_probe,
};

/* ---- rm and clear ------------------------------------------------------ */

static enum mc_err ask_remove(struct mc_client *client,
                              const struct tool_args *args,
                              struct question *question)
{
    return mc_client_batch_remove(client, question->keys, question->count,
                                  args->force, question->results);
}

static void show_code(const struct tool_args *args, struct mc_view key,
                      const struct question *question, size_t i)
{
    tool_put_code(args, key, question->results[i]);
}

static int remove_counted(const struct tool_args *args)
{
    struct mc_client *client = tool_client_open(args);
    uint64_t removed = 0;
    if (!client) {
        return TOOL_FAILED;
    }
    enum mc_err err =
        args->regex
            ? mc_client_remove_by_regex(client, mc_view_str(args->regex),
                                        args->force, &removed)
            : mc_client_remove_all(client, args->force, &removed);
    mc_client_close(client);
    if (err == MC_OK || err == MC_ERR_RPC_TIMEOUT) {
        tool_put_count(args, removed);
    }
    if (err != MC_OK) {
        return args->regex
                   ? tool_fail_on(args->command, mc_view_str(args->regex), err)
                   : tool_fail(args->command, "%s (%d)", mc_err_text(err),
                               (int)err);
    }
    return TOOL_DONE;
}

static int run_rm(const struct tool_args *args)
{
    if (!args->regex == (args->operand_count == 0)) {
        return tool_wrong_use(args->command,
                              "either keys or --regex are wanted");
    }
    return args->regex ? remove_counted(args)
                       : ask_all(args, ask_remove, show_code);
}

const struct tool_command tool_rm = {
    .name = "rm",
    .operands = "KEY...",
    .operand_min = 0,
    .operand_max = TOOL_MANY,
    .options = TOOL_MASTER | TOOL_JSON | TOOL_FORCE | TOOL_REGEX,
    .summary = "removes objects",
    .explanation = "Prints KEY CODE for each key; 0 is done. With --regex, all "
                   "keys of the tenant in which\nthe expression finds "
                   "something; prints their count. Leased objects stay "
                   "(-706)\nunless --force is given.",
    .example = "mc-store rm --regex '^block-' --force",
    .run = run_rm,
};

const struct tool_command tool_clear = {
    .name = "clear",
    .operands = "",
    .options = TOOL_MASTER | TOOL_JSON | TOOL_FORCE,
    .summary = "removes all objects of the tenant",
    .explanation =
        "Prints how many went. Leased objects stay unless --force is "
        "given.",
    .example = "mc-store clear --force",
    .run = remove_counted,
};
