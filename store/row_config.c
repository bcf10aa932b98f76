/* SPDX-License-Identifier: Apache-2.0 */
/* row_config.c - a row driver's file: its options, the client that it stands on, the
 * prefix of its keys. The one door to libyaml, which reads JSON as well and knows
 * the line of everything in it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "mc_row_driver.h"
#include "mci_alloc.h"
#include "size_text.h"

#define CONFIG_BYTES_MAX 65536
#define SIZE_DIGITS_MAX 18

struct config {
    const char *path;
    struct mc_row_file file;
    char *problem;
    size_t problem_size;
    yaml_document_t document;
    const char *section; /* that is being read */
    unsigned seen;       /* members, then sections, a bit each */
};

enum kind { KIND_U32, KIND_U64, KIND_SIZE, KIND_TEXT };

static const char *const sections[] = {"row_driver", "client", "blob"};
#define SECTION_COUNT (sizeof sections / sizeof sections[0])

static const struct member {
    const char *section;
    const char *name;
    size_t offset;
    enum kind kind;
    uint64_t max; /* of numbers; of a text: which of the texts it is */
} members[] = {
#define OPTION(name, kind, max)                                               \
    {                                                                         \
        "row_driver", #name, offsetof(struct mc_row_file, driver.name), kind, \
            max                                                               \
    }
    OPTION(workers, KIND_U32, MC_ROW_WORKERS_MAX),
    OPTION(rows_per_call, KIND_U32, MC_ROWS_MAX),
    OPTION(bytes_per_call, KIND_U64, MC_OBJECT_SIZE_MAX),
    OPTION(rows_max, KIND_U32, MC_ROW_QUEUE_MAX),
    OPTION(timeout_ms, KIND_U32, UINT32_MAX),
    OPTION(close_ms, KIND_U32, UINT32_MAX),
    OPTION(replicas, KIND_U32, MC_ROW_REPLICAS_MAX),
#undef OPTION
#define SETTING(name, field, kind, max)                                        \
    {                                                                          \
        "client", #name, offsetof(struct mc_row_file, client.field), kind, max \
    }
    SETTING(master_server_address, master, KIND_TEXT, 0),
    SETTING(local_hostname, local_hostname, KIND_TEXT, 1),
    SETTING(metadata_server, metadata_server, KIND_TEXT, 2),
    SETTING(protocol, protocol, KIND_TEXT, 3),
    SETTING(tenant_id, tenant, KIND_TEXT, 4),
    SETTING(global_segment_size, segment_bytes, KIND_SIZE, INT64_MAX),
    SETTING(local_buffer_size, local_buffer_bytes, KIND_SIZE, INT64_MAX),
#undef SETTING
    {"client", "device_name", offsetof(struct mc_row_file, device_name),
     KIND_TEXT, 5},
    {"blob", "key_prefix", offsetof(struct mc_row_file, key_prefix), KIND_TEXT,
     6},
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

/* A whole number of bytes, as is or with a unit: "4gb", "16 MB", 1048576. */
static bool read_size(const yaml_node_t *node, uint64_t *number_out)
{
    const char *text = text_of(node);
    return text && strspn(text, "0123456789") <= SIZE_DIGITS_MAX &&
           mci_size_parse(text, number_out);
}

static const struct member *member_named(const char *section, const char *name)
{
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        if (strcmp(members[i].section, section) == 0 &&
            strcmp(members[i].name, name) == 0) {
            return &members[i];
        }
    }
    return NULL;
}

static void set_number(struct config *config, const struct member *member,
                       uint64_t number)
{
    uint8_t *to = (uint8_t *)&config->file + member->offset;
    uint32_t narrow = (uint32_t)number;
    if (member->kind == KIND_SIZE && number == 0) {
        number = MC_NONE; /* none, where 0 is the default */
    }
    if (member->kind == KIND_U32) {
        memcpy(to, &narrow, sizeof narrow);
    } else {
        memcpy(to, &number, sizeof number);
    }
}

static enum mc_err read_text_member(struct config *config,
                                    const struct member *member,
                                    const yaml_node_t *value)
{
    const char *text = text_of(value);
    size_t len = text ? value->data.scalar.length : 0;
    if (!text || strlen(text) != len) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(value),
                    "%s.%s: is not a text", member->section, member->name);
    }
    if (len >= MC_ROW_TEXT_SIZE) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(value),
                    "%s.%s: is over %d bytes", member->section, member->name,
                    MC_ROW_TEXT_SIZE - 1);
    }
    memcpy(config->file.texts[member->max], text, len + 1);
    return MC_OK;
}

static enum mc_err read_number_member(struct config *config,
                                      const struct member *member,
                                      const yaml_node_t *value)
{
    bool is_size = member->kind == KIND_SIZE;
    uint64_t number = 0;
    if (!(is_size ? read_size : read_number)(value, &number)) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(value),
                    "%s.%s: is not a %s", member->section, member->name,
                    is_size ? "size" : "whole number");
    }
    if (number > member->max) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(value),
                    "%s.%s: %s is over %ju", member->section, member->name,
                    text_of(value), (uintmax_t)member->max);
    }
    set_number(config, member, number);
    return MC_OK;
}

static enum mc_err read_member(struct config *config, const yaml_node_t *name,
                               const yaml_node_t *value)
{
    const char *text = text_of(name);
    const struct member *member =
        text ? member_named(config->section, text) : NULL;
    if (!member) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                    "%s.%s: unknown name", config->section, text ? text : "?");
    }
    unsigned bit = 1U << (member - members);
    if (config->seen & bit) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                    "%s.%s: named twice", config->section, text);
    }
    config->seen |= bit;
    return member->kind == KIND_TEXT
               ? read_text_member(config, member, value)
               : read_number_member(config, member, value);
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

static size_t section_named(const char *name)
{
    size_t i = 0;
    while (i < SECTION_COUNT && (!name || strcmp(sections[i], name) != 0)) {
        i++;
    }
    return i;
}

static bool has_master(const struct config *config)
{
    const struct member *member =
        member_named("client", "master_server_address");
    return member && config->seen & 1U << (member - members) &&
           config->file.texts[member->max][0] != '\0';
}

static enum mc_err read_section(struct config *config, const yaml_node_t *name,
                                const yaml_node_t *value)
{
    const char *text = text_of(name);
    size_t number = section_named(text);
    if (number == SECTION_COUNT) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                    "%s: unknown name", text ? text : "?");
    }
    const unsigned bit = 1U << (MEMBER_COUNT + number);
    if (config->seen & bit) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                    "%s: named twice", text);
    }
    config->seen |= bit;
    if (is_nothing(value)) {
        return MC_OK;
    }
    if (value->type != YAML_MAPPING_NODE) {
        return fail(config, MC_ERR_INVALID_PARAMS, line_of(value),
                    "%s: is not a mapping", text);
    }
    config->section = sections[number];
    enum mc_err err = each_pair(config, value, read_member);
    if (err == MC_OK && strcmp(text, "client") == 0) {
        config->file.has_client = true;
        if (!has_master(config)) {
            err = fail(config, MC_ERR_INVALID_PARAMS, line_of(name),
                       "client.master_server_address: is missing");
        }
    }
    return err;
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

/* Its texts, where they are to stay. */
static void take_file(const struct config *config, struct mc_row_file *file)
{
    *file = config->file;
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        if (members[i].kind == KIND_TEXT && config->seen & 1U << i) {
            const char *text = file->texts[members[i].max];
            memcpy((uint8_t *)file + members[i].offset, &text, sizeof text);
        }
    }
}

enum mc_err mc_row_driver_file(const char *path, struct mc_row_file *file,
                               char *problem_out, size_t problem_size)
{
    if (problem_out && problem_size > 0) {
        problem_out[0] = '\0';
    }
    if (!path || !file) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct config config = {.path = path,
                            .file = *file,
                            .problem = problem_out,
                            .problem_size = problem_size};
    enum mc_err err = read_file(&config);
    if (err == MC_OK) {
        take_file(&config, file);
    }
    return err;
}

enum mc_err mc_row_driver_config(const char *path,
                                 struct mc_row_driver_opts *opts,
                                 char *problem_out, size_t problem_size)
{
    struct mc_row_file file = {.has_client = false};
    if (opts) {
        file.driver = *opts;
    }
    enum mc_err err = mc_row_driver_file(path, opts ? &file : NULL, problem_out,
                                         problem_size);
    if (err == MC_OK) {
        *opts = file.driver;
    }
    return err;
}
