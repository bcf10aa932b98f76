/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - the file in which the writer hands over what its store holds.
 *
 * One row a line: media mask, last event id, then key, session and group in
 * hexadecimal, "-" for none.
 * Threads: one thread at a time per file.
 */
#ifndef LIST_H
#define LIST_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mc_view.h"

struct list_row {
    unsigned media;
    uint64_t last_event_id;
    struct mc_view key;
    struct mc_view session;
    struct mc_view group;
};

bool list_write(FILE *file, const struct list_row *row);

/* Reads a line into a row; its views point into the line, which is changed.
 * False: not such a line. */
bool list_parse(char *line, struct list_row *row_out);

#endif
