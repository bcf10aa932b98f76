/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "list.h"

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

/* One hexadecimal word at *at, decoded in place. */
static bool parse_hex(char **at, struct mc_view *view_out)
{
    char *begin = *at;
    if (*begin++ != ' ') {
        return false;
    }
    size_t len = strcspn(begin, " \n");
    *at = begin + len;
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
    int len = 0;
    if (sscanf(line, "%u %" SCNu64 "%n", &row_out->media,
               &row_out->last_event_id, &len) != 2) {
        return false;
    }
    char *at = line + len;
    return parse_hex(&at, &row_out->key) && parse_hex(&at, &row_out->session) &&
           parse_hex(&at, &row_out->group) && *at == '\n';
}
