/* SPDX-License-Identifier: Apache-2.0 */
/* kept.h - messages that are kept back, copied, until what comes before them
 * has been fetched.
 *
 * At its bound, or out of memory, it takes no more until it has been emptied:
 * what it has is then the beginning of what came, without a break.
 * Threads: one thread at a time.
 */
#ifndef KEPT_H
#define KEPT_H
#include "mc_err.h"
#include "mc_view.h"
#include "mci_list.h"

#define KEPT_FRAMES 3 /* of a message; those behind are not kept */

struct kept_message {
    struct mci_link link;
    size_t bytes;
    size_t count;
    struct mc_view frames[KEPT_FRAMES];
    char data[];
};

struct kept {
    struct mci_link messages;
    size_t bytes;
    size_t max_bytes;
    bool is_full; /* something was not taken */
};

void kept_init(struct kept *kept, size_t max_bytes);
void kept_empty(struct kept *kept);
/* Copies a message, unless it is full. */
void kept_add(struct kept *kept, const struct mc_view *frames, size_t count);
/* The first one, now the caller's, who ends it with kept_free; NULL: none. */
struct kept_message *kept_take(struct kept *kept);
void kept_free(struct kept_message *message); /* NULL is fine */
#endif
