/* SPDX-License-Identifier: Apache-2.0 */
/* row_config.c - options of a row driver from a file. The one door to libyaml,
 * which reads JSON as well and knows the line of everything in it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "mc_row_driver.h"
#include "mci_alloc.h"

#define CONFIG_BYTES_MAX 65536
#define SECTION "row_driver"

struct config {
    const char *path;
    struct mc_row_driver_opts opts;
    char *problem;
    size_t problem_size;
    yaml_document_t document;
    unsigned seen; /* members, a bit each */
};

static const struct member {
    const char *name;
    size_t offset;
    bool is_wide; /* uint64_t, else uint32_t */
    uint64_t max;
} members[] = {
#define MEMBER(name, is_wide, max)                                     \
    {                                                                  \
#name, offsetof(struct mc_row_driver_opts, name), is_wide, max \
    }
    MEMBER(workers, false, MC_ROW_WORKERS_MAX),
    MEMBER(rows_per_call, false, MC_ROWS_MAX),
    MEMBER(bytes_per_call, true, MC_OBJECT_SIZE_MAX),
    MEMBER(rows_max, false, MC_ROW_QUEUE_MAX),
    MEMBER(timeout_ms, false, UINT32_MAX),
    MEMBER(close_ms, false, UINT32_MAX),
    MEMBER(replicas, false, MC_ROW_REPLICAS_MAX),
#undef MEMBER
};
#define MEMBER_COUNT (sizeof members / sizeof members[0])

/* ---- problems --------------------------------------------------------------- */

static enum mc_err fail(const struct config *config, enum mc_err err,
                        size_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static enum mc_err fail(const struct config *config, enum mc_err err,
                        size_t line, const char *fmt, ...)
{
    va_list args;
    if (!config->problem || config->problem_size == 0) {
        return err;
    }
    int len = line > 0 ? snprintf(config->problem, config->problem_size,
                                  "%s:%zu: ", config->path, line)
                       : snprintf(config->problem, config->problem_size,
                                  "%s: ", config->path);
    if (len > 0 && (size_t)len < config->problem_size) {
        va_start(args, fmt);
        (void)vsnprintf(config->problem + len,
                        config->problem_size - (size_t)len, fmt, args);
        va_end(args);
    }
    return err;
}

static size_t line_of(const yaml_node_t *node)
{
    return node->start_mark.line + 1;
}

/* ---- members ------------------------------------------------------------------ */

static const char *text_of(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE
               ? (const char *)node->data.scalar.value
               : NULL;
}

/* A whole number without sign, as is; what is between quotes is a text. */
static bool read_number(const yaml_node_t *node, uint64_t *number_out)
{
    const char *text = text_of(node);
    uint64_t number = 0;
    if (!text || text[0] == '\0' ||
        node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        return false;
    }
    for (; *text; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(*text - '0');
        number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX
                                                    : number * 10 + digit;
    }
    *number_out = number;
    return true;
}

static const struct member *member_named(const char *name)
{
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        if (strcmp(members[i].name, name) == 0) {
            return &members[i];
        }
    }
    return NULL;
}

static void set(struct config *config, const struct member *member,
                uint64_t number)
{
    uint8_t *to = (uint8_t *)&config->opts + member->offset;
    uint32_t narrow = (uint32_t)number;
    if (member->is_wide) {
        memcpy(to, &number, sizeof number);
    } else {
        memcpy(to, &narrow, sizeof narrow);
    }
}

static enum mc_err read_member(struct config *config, const yaml_node_t *name,
                               const yaml_node_t *value)
{
    const char *text = text_of(name);
    const struct member *member = text ? member_named(text) : NULL;
    uint64_t number = 0;
    if (!member) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                    SECTION ".%s: unknown name", text ? text : "?");
    }
    unsigned bit = 1U << (member - members);
    if (config->seen & bit) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                    SECTION ".%s: named twice", text);
    }
    config->seen |= bit;
    if (!read_number(value, &number)) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(value),
                    SECTION ".%s: is not a whole number", text);
    }
    if (number > member->max) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(value),
                    SECTION ".%s: %s is over %ju", text, text_of(value),
                    (uintmax_t)member->max);
    }
    set(config, member, number);
    return MC_OK;
}

/* ---- the document ---------------------------------------------------------------- */

typedef enum mc_err (*pair_fn)(struct config *config, const yaml_node_t *name,
                               const yaml_node_t *value);

static enum mc_err each_pair(struct config *config, const yaml_node_t *mapping,
                             pair_fn fn)
{
    enum mc_err err = MC_OK;
    const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
    for (; pair < mapping->data.mapping.pairs.top && err == MC_OK; pair++) {
        err = fn(config, yaml_document_get_node(&config->document, pair->key),
                 yaml_document_get_node(&config->document, pair->value));
    }
    return err;
}

static bool is_nothing(const yaml_node_t *node)
{
    const char *text = text_of(node);
    return text && text[0] == '\0' &&
           node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static enum mc_err read_section(struct config *config, const yaml_node_t *name,
                                const yaml_node_t *value)
{
    const unsigned bit = 1U << MEMBER_COUNT;
    const char *text = text_of(name);
    if (!text || strcmp(text, SECTION) != 0) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                    "%s: unknown name", text ? text : "?");
    }
    if (config->seen & bit) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                    SECTION ": named twice");
    }
    config->seen |= bit;
    if (is_nothing(value)) {
        return MC_OK;
    }
    if (value->type != YAML_MAPPING_NODE) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(value),
                    SECTION ": is not a mapping");
    }
    return each_pair(config, value, read_member);
}

static enum mc_err read_document(struct config *config)
{
    yaml_node_t *root = yaml_document_get_root_node(&config->document);
    if (!root || is_nothing(root)) {
        return MC_OK;
    }
    if (root->type != YAML_MAPPING_NODE) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(root),
                    "is not a mapping");
    }
    return each_pair(config, root, read_section);
}

static enum mc_err refuse_more(struct config *config, yaml_parser_t *parser)
{
    yaml_document_t more;
    if (!yaml_parser_load(parser, &more)) {
        return fail(config, MC_ERR_INVALID_PARAMS,
                    parser->problem_mark.line + 1, "%s",
                    parser->problem ? parser->problem : "not readable");
    }
    const yaml_node_t *root = yaml_document_get_root_node(&more);
    enum mc_err err = root ? fail(config, MC_ERR_INVALID_PARAMS, line_of(root),
                                  "a second document")
                           : MC_OK;
    yaml_document_delete(&more);
    return err;
}

static enum mc_err parse(struct config *config, const char *bytes, size_t len)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        return fail(config, MC_ERR_NOMEM, 0, "out of memory");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, len);
    enum mc_err err = MC_OK;
    if (!yaml_parser_load(&parser, &config->document)) {
        bool is_memory = parser.error == YAML_MEMORY_ERROR;
        err = fail(config, is_memory ? MC_ERR_NOMEM : MC_ERR_INVALID_PARAMS,
                   parser.problem_mark.line + 1, "%s",
                   parser.problem ? parser.problem : "not readable");
    } else {
        bool is_empty = !yaml_document_get_root_node(&config->document);
        err = read_document(config);
        if (err == MC_OK && !is_empty) {
            err = refuse_more(config, &parser);
        }
        yaml_document_delete(&config->document);
    }
    yaml_parser_delete(&parser);
    return err;
}

/* ---- the file -------------------------------------------------------------------- */

static enum mc_err read_file(struct config *config)
{
    FILE *file = fopen(config->path, "rbe");
    if (!file) {
        enum mc_err err =
            errno == ENOENT ? MC_ERR_FILE_NOT_FOUND : MC_ERR_FILE_OPEN_FAIL;
        return fail(config, err, 0, "%s", strerror(errno));
    }
    char *bytes = mci_alloc(CONFIG_BYTES_MAX + 1);
    if (!bytes) {
        (void)fclose(file);
        return fail(config, MC_ERR_NOMEM, 0, "out of memory");
    }
    errno = 0;
    size_t len = fread(bytes, 1, CONFIG_BYTES_MAX + 1, file);
    enum mc_err err;
    if (ferror(file)) {
        err = fail(config, MC_ERR_FILE_READ_FAIL, 0, "%s", strerror(errno));
    } else if (len > CONFIG_BYTES_MAX) {
        err = fail(config, MC_ERR_INVALID_PARAMS, 0, "is over %d bytes",
                   CONFIG_BYTES_MAX);
    } else {
        err = parse(config, bytes, len);
    }
    (void)fclose(file);
    mci_free(bytes);
    return err;
}

enum mc_err mc_row_driver_config(const char *path,
                                 struct mc_row_driver_opts *opts,
                                 char *problem_out, size_t problem_size)
{
    if (problem_out && problem_size > 0) {
        problem_out[0] = '\0';
    }
    if (!path || !opts) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct config config = {.path = path,
                            .opts = *opts,
                            .problem = problem_out,
                            .problem_size = problem_size};
    enum mc_err err = read_file(&config);
    if (err == MC_OK) {
        *opts = config.opts;
    }
    return err;
}
