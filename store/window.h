/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - a contiguous stretch of a space whose clearing makes a hole.
 *
 * Some stretches of neighbouring extents are looked at, and in each the window
 * that costs the fewest evicted bytes is found. A small space is looked at as a
 * whole, so there the answer is exact.
 * Threads: one at a time for each search; no lock may be held.
 */
#ifndef WINDOW_H
#define WINDOW_H
#include "evict.h"

struct mci_window_part {
    uint64_t len;
    uint64_t ref; /* of the owner; 0: free */
    uint32_t extent;
    uint8_t level; /* at which it may go */
};

struct mci_window_search {
    struct mci_window_part *parts; /* owned */
    uint32_t capacity;
    uint64_t bytes; /* length wanted */
    uint64_t turn;  /* of the dice */
};

/* A window: parts[first..end) of the search. */
struct mci_window {
    uint32_t first;
    uint32_t end;
    enum mci_level level;
    uint64_t cost; /* bytes to be evicted */
};

/* Makes memory for searches. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_window_search_init(struct mci_window_search *search,
                       const struct mci_eviction *eviction, uint64_t bytes);
void mci_window_search_fini(struct mci_window_search *search);

/* The cheapest window of several stretches, or with any the first one found.
 * false if there is none. Its parts stay valid until the next search. */
bool mci_window_find(struct mci_window_search *search,
                     const struct mci_eviction *eviction, bool any,
                     struct mci_window *window_out);
#endif
