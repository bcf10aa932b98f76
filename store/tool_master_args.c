/* SPDX-License-Identifier: Apache-2.0 */
/* The command line in the forms that launchers use: --name=value, -name=value,
 * --name value, --flag, --noflag; and flag files, which hold the same, one a
 * line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool_master.h"

#define DEPTH_MAX 8 /* of flag files that name flag files */

/* What settings point into, until the process ends. */
struct kept {
    struct kept *next;
    char text[];
};
static struct kept *all_kept;

const char *tool_keep(const char *text)
{
    size_t size = strlen(text) + 1;
    struct kept *kept = malloc(sizeof *kept + size);
    if (!kept) {
        tool_master_say("out of memory");
        return NULL;
    }
    memcpy(kept->text, text, size);
    kept->next = all_kept;
    all_kept = kept;
    return kept->text;
}

static const char *after_dashes(const char *text)
{
    return text + (text[0] == '-') + (text[0] == '-' && text[1] == '-');
}

static int unknown(const char *where, const char *name, size_t len)
{
    tool_master_say("%s%.*s: no such flag (--help lists them)", where, (int)len,
                    name);
    return 2;
}

int tool_flag_set_text(const char *text, const char *value, const char *where,
                       struct master_settings *settings)
{
    const char *name = after_dashes(text);
    size_t len = strcspn(name, "=");
    bool is_no;
    const struct flag *flag = tool_flag_find(name, len, &is_no);
    if (!flag) {
        return unknown(where, name, len);
    }
    if (name[len] == '=') {
        value = name + len + 1;
    }
    if (!value && !tool_flag_is_switch(flag)) {
        tool_master_say("%s%.*s: needs a value", where, (int)len, name);
        return 2;
    }
    return tool_flag_set(flag, value, is_no, where, settings);
}

/* ---- flag files ------------------------------------------------------------------- */

static bool names(const char *text, const char *flag, const char **value_out)
{
    const char *name = after_dashes(text);
    size_t len = strlen(flag);
    bool is_it = strncmp(name, flag, len) == 0 &&
                 (name[len] == '=' || name[len] == '\0');
    /* config-path is config_path. */
    if (!is_it && strcmp(flag, "config_path") == 0) {
        is_it = strncmp(name, "config-path", len) == 0 &&
                (name[len] == '=' || name[len] == '\0');
    }
    if (is_it) {
        *value_out = name[len] == '=' ? name + len + 1 : NULL;
    }
    return is_it;
}

static int flagfile_line(char *line, const char *path, unsigned depth,
                         struct master_settings *settings)
{
    const char *value = NULL;
    size_t len = strlen(line);
    while (len > 0 && strchr(" \t\r\n", line[len - 1])) {
        line[--len] = '\0';
    }
    line += strspn(line, " \t");
    if (line[0] == '\0' || line[0] == '#') {
        return 0;
    }
    if (names(line, "flagfile", &value) && value) {
        return tool_master_flagfile(value, depth + 1, settings);
    }
    const char *kept = tool_keep(line);
    if (!kept) {
        return 1;
    }
    char where[256];
    (void)snprintf(where, sizeof where, "%s: --", path);
    return tool_flag_set_text(kept, NULL, where, settings);
}

int tool_master_flagfile(const char *path, unsigned depth,
                         struct master_settings *settings)
{
    if (depth > DEPTH_MAX) {
        tool_master_say("--flagfile %s: files that name each other", path);
        return 2;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        tool_master_say("--flagfile %s: %s", path, strerror(errno));
        return 2;
    }
    char *line = NULL;
    size_t capacity = 0;
    int code = 0;
    while (code == 0 && getline(&line, &capacity, file) >= 0) {
        code = flagfile_line(line, path, depth, settings);
    }
    free(line);
    (void)fclose(file);
    return code;
}

/* ---- the command line --------------------------------------------------------------- */

/* The value of argv[*at], inside it or in the next word; a switch takes the next
 * one only if it is a bool. */
static const char *value_of(int argc, char **argv, int *at,
                            const struct flag *flag, const char *inside)
{
    bool ignored;
    if (inside || *at + 1 >= argc) {
        return inside;
    }
    if (flag && tool_flag_is_switch(flag) &&
        !tool_flag_is_bool(argv[*at + 1], &ignored)) {
        return NULL;
    }
    return argv[++*at];
}

static int read_word(int argc, char **argv, int *at,
                     struct master_settings *settings)
{
    const char *text = argv[*at];
    const char *value = NULL;
    bool is_no;
    if (text[0] != '-' || text[1] == '\0') {
        tool_master_say("%s: takes flags only", text);
        return 2;
    }
    if (names(text, "flagfile", &value)) {
        value = value_of(argc, argv, at, NULL, value);
        if (!value) {
            tool_master_say("--flagfile: needs a value");
            return 2;
        }
        return tool_master_flagfile(value, 1, settings);
    }
    if (names(text, "config_path", &value)) {
        (void)value_of(argc, argv, at, NULL, value); /* was read first */
        return 0;
    }
    const char *name = after_dashes(text);
    size_t len = strcspn(name, "=");
    const struct flag *flag = tool_flag_find(name, len, &is_no);
    if (!flag) {
        return unknown("--", name, len);
    }
    if (name[len] != '=' && !is_no) {
        value = value_of(argc, argv, at, flag, NULL);
    }
    return tool_flag_set_text(text, value, "--", settings);
}

/* What the config says is said first, wherever it is named. */
static int read_configs(int argc, char **argv, struct master_settings *settings)
{
    int code = 0;
    for (int i = 1; code == 0 && i < argc; i++) {
        const char *value = NULL;
        if (!names(argv[i], "config_path", &value)) {
            continue;
        }
        value = value_of(argc, argv, &i, NULL, value);
        if (!value) {
            tool_master_say("--config_path: needs a value");
            return 2;
        }
        code = value[0] ? tool_master_config(value, settings) : 0;
    }
    return code;
}

static void print_help(void)
{
    printf("usage: mc-master [FLAGS]\n\n"
           "Runs the master of a store: it knows what is stored where; bytes "
           "go between clients.\n"
           "Prints one line when everything is bound:\n"
           "  ready rpc=HOST:PORT admin=HOST:PORT metadata=HOST:PORT|- "
           "events=EP|- recovery=EP|- epoch=HEX\n"
           "and ends on SIGTERM or SIGINT.\n\nflags:\n");
    tool_flag_print_all();
    printf("  %-42s %s\n", "--flagfile F", "flags, one a line");
    printf("  %-42s %s\n", "--config_path FILE",
           "a JSON object of flags; the command line counts more");
    printf("  %-42s %s\n  %-42s %s\n", "--help", "this text", "--version",
           "the version");
    printf("\nexample:\n  mc-master --rpc_port 50051 --enable_kv_events "
           "--kv_events_bind_endpoint tcp://*:5557 "
           "--kv_events_backend_id n1\n");
}

int tool_master_read(int argc, char **argv,
                     struct master_settings *settings_out, bool *is_shown_out)
{
    *is_shown_out = false;
    for (int i = 1; i < argc; i++) {
        const char *name = after_dashes(argv[i]);
        if (argv[i][0] == '-' &&
            (strcmp(name, "help") == 0 || strcmp(name, "h") == 0)) {
            print_help();
            *is_shown_out = true;
            return 0;
        }
        if (argv[i][0] == '-' && strcmp(name, "version") == 0) {
            printf("mc-master %s\n", MC_VERSION);
            *is_shown_out = true;
            return 0;
        }
    }
    tool_flag_defaults(settings_out);
    int code = read_configs(argc, argv, settings_out);
    for (int i = 1; code == 0 && i < argc; i++) {
        code = read_word(argc, argv, &i, settings_out);
    }
    return code;
}
