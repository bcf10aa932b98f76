/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - do the follower's mirror and index say what the store says?
 *
 * The store's list is a file, taken as of one event; the mirror must have
 * applied exactly that event. Every row is compared with its session, group
 * and event id, both ways, and with the index by the block of its key.
 * Threads: the delivering thread.
 */
#ifndef CHECK_H
#define CHECK_H
#include "mc_index.h"
#include "mc_subscriber.h"

struct check {
    const struct mc_subscriber *subscriber;
    struct mc_index_reader *reader;
    const struct mc_key_layout *layout;
    const char *list_path;
    uint64_t keys;        /* out: rows of the list */
    uint64_t differences; /* out; the first ones are printed on stderr */
};

/* False: the list could not be read, said on stderr. */
bool check_run(struct check *check);

#endif
