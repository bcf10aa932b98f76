/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "list.h"
#include "pipe_lines.h"

static void write_hex(FILE *file, struct mc_view text)
{
    const unsigned char *bytes = text.data;
    fputc(' ', file);
    if (!bytes) {
        fputc('-', file);
    }
    for (size_t i = 0; bytes && i < text.len; i++) {
        fprintf(file, "%02x", bytes[i]);
    }
}

bool list_write(FILE *file, const struct list_row *row)
{
    fprintf(file, "%u %" PRIu64, row->media, row->last_event_id);
    write_hex(file, row->key);
    write_hex(file, row->session);
    write_hex(file, row->group);
    fputc('\n', file);
    return !ferror(file);
}

/* One hexadecimal word at *at, decoded in place; *at moves behind it and what
 * ends it. */
static bool parse_hex(char **at, struct mc_view *view_out)
{
    char *begin = *at;
    size_t len = strcspn(begin, " \n");
    if (begin[len] == 0) {
        return false;
    }
    *at = begin + len + 1;
    if (len == 1 && begin[0] == '-') {
        *view_out = mc_view_make(NULL, 0);
        return true;
    }
    for (size_t i = 0; i < len; i += 2) {
        char digits[3] = {begin[i], begin[i + 1], 0};
        char *end;
        unsigned long byte = strtoul(digits, &end, 16);
        if (end != digits + 2) {
            return false;
        }
        begin[i / 2] = (char)byte;
    }
    *view_out = mc_view_make(begin, len / 2);
    return true;
}

bool list_parse(char *line, struct list_row *row_out)
{
    const char *numbers = line;
    uint64_t media;
    if (!pipe_number(&numbers, &media) || media > UINT_MAX ||
        !pipe_number(&numbers, &row_out->last_event_id)) {
        return false;
    }
    char *at = line + (numbers - line);
    row_out->media = (unsigned)media;
    return parse_hex(&at, &row_out->key) && parse_hex(&at, &row_out->session) &&
           parse_hex(&at, &row_out->group) && *at == 0;
}
