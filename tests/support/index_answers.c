/* SPDX-License-Identifier: Apache-2.0 */
/* index_answers [--reimport N] [--numbered] [--nodes N] [--sessions N] [--heads
 * N] [--marks N] < SCRIPT: answers a script of index operations and questions,
 * one line each. With --reimport the index is exported after every N lines,
 * imported into an empty one and exported again, which must give the same bytes;
 * the script goes on with the imported one. With --numbered each answer stands
 * behind the number of its line. The others are bounds of the index. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mc_index_script.h"
#include "mci_buf.h"

#define EXPORT_MAX (UINT64_C(1) << 30)

static enum mc_err keep_line(void *ctx, struct mc_view line)
{
    enum mc_err err = mci_buf_append(ctx, line.data, line.len);
    return err == MC_OK ? mci_buf_append_byte(ctx, '\n') : err;
}

static void complain(const char *what, struct mc_index_script *script)
{
    (void)fprintf(stderr, "%s: %s\n", what,
                  script ? mc_index_script_fault(script) : "");
}

static struct mc_index_script *import(const struct mci_buf *text)
{
    struct mc_index_script *script = NULL;
    if (mc_index_script_create(NULL, &script) != MC_OK) {
        return NULL;
    }
    size_t at = 0;
    while (at < text->len) {
        const uint8_t *end = memchr(text->data + at, '\n', text->len - at);
        size_t len = (size_t)(end - (text->data + at));
        struct mc_view answer;
        if (mc_index_script_line(script, mc_view_make(text->data + at, len),
                                 &answer) != MC_OK ||
            answer.data) {
            complain("import", script);
            mc_index_script_destroy(script);
            return NULL;
        }
        at += len + 1;
    }
    return script;
}

/* Puts an imported index in the place of the script's. */
static bool reimport(struct mc_index_script **script)
{
    struct mci_buf first;
    struct mci_buf second;
    mci_buf_init(&first, EXPORT_MAX);
    mci_buf_init(&second, EXPORT_MAX);
    struct mc_index_script *copy = NULL;
    bool is_same = mc_index_export(mc_index_script_index(*script), keep_line,
                                   &first) == MC_OK &&
                   (copy = import(&first)) != NULL &&
                   mc_index_export(mc_index_script_index(copy), keep_line,
                                   &second) == MC_OK &&
                   mc_view_equal(mci_buf_view(&first), mci_buf_view(&second));
    if (is_same) {
        mc_index_script_destroy(*script);
        *script = copy;
    } else {
        (void)fprintf(stderr, "exports differ\n%.*s---\n%.*s", (int)first.len,
                      (char *)first.data, (int)second.len, (char *)second.data);
        mc_index_script_destroy(copy);
    }
    mci_buf_fini(&first);
    mci_buf_fini(&second);
    return is_same;
}

/* number 0: not to be told. */
static bool answer_line(struct mc_index_script *script, const char *line,
                        size_t len, unsigned long number)
{
    struct mc_view answer;
    if (mc_index_script_line(script, mc_view_make(line, len), &answer) !=
        MC_OK) {
        complain("line", script);
        return false;
    }
    if (answer.data && number) {
        (void)printf("%lu ", number);
    }
    if (answer.data) {
        (void)printf("%.*s\n", (int)answer.len, (const char *)answer.data);
    }
    return true;
}

struct options {
    unsigned long every;
    bool is_numbered;
    struct mc_index_opts bounds;
};

static bool read_option(struct options *options, const char *name,
                        const char *value)
{
    unsigned long number = strtoul(value, NULL, 10);
    if (strcmp(name, "--reimport") == 0) {
        options->every = number;
    } else if (strcmp(name, "--nodes") == 0) {
        options->bounds.max_nodes = number;
    } else if (strcmp(name, "--sessions") == 0) {
        options->bounds.max_sessions = number;
    } else if (strcmp(name, "--heads") == 0) {
        options->bounds.max_heads = (uint32_t)number;
    } else if (strcmp(name, "--marks") == 0) {
        options->bounds.max_marks = number;
    } else {
        return false;
    }
    return true;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--numbered") == 0) {
            options->is_numbered = true;
        } else if (i + 1 == argc ||
                   !read_option(options, argv[i], argv[i + 1])) {
            (void)fprintf(stderr, "%s: not understood\n", argv[i]);
            return false;
        } else {
            i++;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct mc_index_script *script = NULL;
    struct options options = {0};
    if (!read_options(argc, argv, &options) ||
        mc_index_script_create(&options.bounds, &script) != MC_OK) {
        return 1;
    }
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    bool is_good = true;
    for (unsigned long n = 1;
         is_good && (len = getline(&line, &cap, stdin)) > 0; n++) {
        is_good =
            answer_line(script, line, (size_t)len, options.is_numbered ? n : 0);
        if (is_good && options.every && n % options.every == 0) {
            is_good = reimport(&script);
        }
    }
    free(line);
    mc_index_script_destroy(script);
    return is_good ? 0 : 1;
}
