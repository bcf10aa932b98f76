/* SPDX-License-Identifier: Apache-2.0 */
/* http_segments.h - all mounted segments, one after the other.
 * Threads: one thread at a time.
 */
#ifndef HTTP_SEGMENTS_H
#define HTTP_SEGMENTS_H
#include "registry.h"

/* Zeroed but for the registry. */
struct mci_segment_walk {
    struct mci_registry *registry;
    struct mci_segment_row row; /* out; its texts are in `texts` */
    struct mci_segment_texts texts;
    uint32_t after;
    uint32_t numbers[64];
    size_t count;
    size_t at;
};

/* Fills in row with the next one; false at the end. */
bool mci_segment_walk_next(struct mci_segment_walk *walk);
#endif
