/* SPDX-License-Identifier: Apache-2.0 */
/* mci_segment.h - memory that is lent to a store.
 *
 * A segment is a memfd, so that its descriptor can be handed to a peer on the
 * same host. It begins with a header page of its own, which holds a generation
 * that is raised when the segment is given up (SAFETY B.6); the data follows on
 * the next page. Pages are huge where the system allows it, and are touched at
 * open unless the caller would rather pay on first use.
 *
 * Threads: init and fini by one; the fields do not change in between, the
 * generation is atomic.
 */
#ifndef MCI_SEGMENT_H
#define MCI_SEGMENT_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"

#define MCI_SEGMENT_BYTES_MAX (UINT64_C(1) << 46) /* what a process can map */
#define MCI_SEGMENT_LABEL_MAX 255
#define MCI_SEGMENT_MAGIC UINT64_C(0x317367655f76636d) /* "mcv_egs1" */

/* The first bytes of the memfd. */
struct mci_segment_header {
    uint64_t magic;
    _Atomic uint64_t generation; /* 1 at first */
    uint64_t id[2];
    uint64_t data_offset; /* from the start of the memfd */
    uint64_t data_bytes;
};

struct mci_segment {
    uint8_t *base;  /* first byte of the data; NULL without memory */
    uint64_t bytes; /* of data, whole pages */
    int fd;         /* the memfd, -1 without memory */
    uint64_t id[2]; /* random */
    char label[MCI_SEGMENT_LABEL_MAX + 1];
    struct mci_segment_header *header; /* NULL without memory */
    uint64_t map_bytes;
};

struct mci_segment_opts {
    uint64_t bytes;    /* rounded up to whole pages; 0 = a segment without
                          memory, which is fine */
    const char *label; /* copied; NULL = "" */
    bool no_prefault;  /* pages are touched on first use */
};

/* Makes a segment in the caller's memory, ended with mci_segment_fini. Memory
 * reads as zeros. Errors, each with a line in the log: MC_ERR_INVALID_PARAMS
 * (over MCI_SEGMENT_BYTES_MAX, label too long), MC_ERR_NOMEM (more than the
 * machine has, or than the system gives). Blocks while pages are touched. */
MC_CHECK_RESULT enum mc_err
mci_segment_init(struct mci_segment *segment,
                 const struct mci_segment_opts *opts);

/* Unmaps and closes; zeroed and ended ones are fine. */
void mci_segment_fini(struct mci_segment *segment);

/* Raises the generation and returns the new one; 0 without memory. */
uint64_t mci_segment_retire(struct mci_segment *segment);
#endif
