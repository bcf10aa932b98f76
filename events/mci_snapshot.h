/* SPDX-License-Identifier: Apache-2.0 */
/* mci_snapshot.h - what the events know of a store: how to walk over all that
 * can be read, while others write.
 *
 * A row says that a key is readable in a medium, and the id of the event that
 * said so. Whoever has the rows, and every event above the id at the beginning
 * of the walk, knows the store as of the id at its end, in whatever order both
 * arrive.
 * Threads: the functions of a table are called by one thread at a time per ctx.
 */
#ifndef MCI_SNAPSHOT_H
#define MCI_SNAPSHOT_H
#include "mc_event_writer.h"

/* A place in the walk. All zero at the beginning; a copy of it is a place too,
 * from which one can walk again. */
struct mci_snapshot_cursor {
    uint64_t place; /* the store's own */
    bool at_end;
};

/* Records of type stored, with the id of the last change of their medium.
 * Backend and timestamp are left out. Borrowed until the next call. */
struct mci_snapshot_rows {
    struct mc_event_record *records;
    size_t count;
};

struct mci_snapshot_source {
    /* The id given out last, before anything of the tenant is looked at; a
     * tenant of "none" means all. Errors: those of a tenant that cannot be. */
    enum mc_err (*begin)(void *ctx, struct mc_view tenant,
                         uint64_t *first_id_out);
    /* The next slice, possibly of no rows, and the cursor behind it. What is
     * readable during the whole walk is shown once. Stops no writer. Errors:
     * MC_ERR_NOMEM; the cursor is unchanged. */
    enum mc_err (*next)(void *ctx, struct mc_view tenant,
                        struct mci_snapshot_cursor *cursor,
                        struct mci_snapshot_rows *rows_out);
    /* The id given out last: after the last slice, the end of the walk. */
    uint64_t (*last_id)(void *ctx);
    /* How many keys are readable now. */
    uint64_t (*keys)(void *ctx);
};
#endif
