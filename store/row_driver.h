/* SPDX-License-Identifier: Apache-2.0 */
/* row_driver.h - a row driver from the inside.
 *
 * An operation is a work of the pool (work_pool.h); its rows are what the pool
 * cuts in parts. A part goes through the stages of row_outcome.h on the thread
 * that runs it; then its rows end, all under the lock at once, and whoever wants
 * to know is told. An operation has two references, its user's and the pool's, and
 * one for each telling.
 *
 * A key that a put has is claimed, from before the store is asked until it is
 * known what became of it. A claim whose session could not be ended nor revoked is
 * left; the settler, and at last close, revokes it.
 *
 * One lock, a leaf: nothing is called under it.
 * Threads: as the header of the calls says.
 */
#ifndef ROW_DRIVER_H
#define ROW_DRIVER_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "client.h"
#include "mci_bell.h"
#include "mci_list.h"
#include "mci_map.h"
#include "row_outcome.h"
#include "work_pool.h"

struct mci_row_region {
    uint32_t number;
    uint8_t *base;
    uint64_t len;
    uint64_t uses;   /* spans of rows that have not ended */
    bool is_leaving; /* is being unregistered */
};

struct mci_row_claim {
    struct mci_link link;           /* in left, or none */
    struct mc_put_session *session; /* while it is left */
    size_t key_len;
    uint8_t key[];
};

struct mci_row {
    struct mc_view key; /* all of it in the operation's memory */
    struct mc_view session_id;
    struct mc_span *spans;
    uint32_t *regions; /* of each span */
    uint32_t span_count;
    uint32_t twin; /* of a put: the next row of the same key; 0: none */
    uint64_t size;
    struct mc_row_state state; /* guarded by the driver's lock */
};

struct mc_row_op {
    struct mc_row_driver *driver;
    struct mci_work work; /* rows of it by order; twins are not among them */
    void *ctx;
    _Atomic bool is_asked_to_end;
    size_t count;
    struct mci_row *rows;
    uint32_t *order;
    uint64_t *row_bytes; /* by order */
    /* Guarded by the driver's lock: */
    struct mci_link link;    /* in ops */
    struct mci_link changed; /* in changed, or none */
    uint32_t refs;
    uint32_t telling; /* calls of on_change under way */
    size_t pending;
};

struct mc_row_driver {
    struct mc_client *client;
    struct mc_row_driver_opts opts; /* no zeros but on_change */
    pid_t pid;
    struct mci_work_pool *pool;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t ended; /* an operation, or a telling of one */
    bool is_closing;
    struct mci_link ops;
    struct mci_link changed; /* that poll has not taken */
    struct mci_bell bell;    /* rings while there are any */
    /* By number, which rises. */
    struct mci_row_region *regions;
    uint32_t region_count;
    uint32_t region_room;
    uint32_t last_region;
    /* Keys. */
    struct mci_map claims;
    struct mci_link left;
    pthread_cond_t wake; /* the settler */
    pthread_t settler;
    bool has_settler;
    bool settler_stops;
    struct mc_row_driver_stats stats;
};

static inline void mci_rows_lock(struct mc_row_driver *driver)
{
    (void)pthread_mutex_lock(&driver->lock);
}
static inline void mci_rows_unlock(struct mc_row_driver *driver)
{
    (void)pthread_mutex_unlock(&driver->lock);
}

/* In the child of a fork. */
bool mci_rows_are_elsewhere(const struct mc_row_driver *driver);

/* ---- regions (row_driver_regions.c) ---------------------------------------- */

/* Resolves the spans of a row, which count as uses until they are released; the
 * lock is held. Errors: -600, and nothing is used. */
MC_CHECK_RESULT enum mc_err mci_row_use(struct mc_row_driver *driver,
                                        struct mci_row *row,
                                        const struct mc_row_span *spans);
void mci_row_unuse(struct mc_row_driver *driver, struct mci_row *row);
void mci_rows_unregister_all(struct mc_row_driver *driver);

/* ---- how rows end (row_driver_ops.c) ---------------------------------------- */

struct mci_row_end {
    enum mc_row_reason reason;
    enum mc_err err;
    bool in_doubt;
    struct mci_row_claim *claim;    /* NULL: none */
    struct mc_put_session *session; /* that is left; NULL: none */
};
/* Of rows of a part; without the lock. */
void mci_rows_end(struct mc_row_op *op, size_t first,
                  const struct mci_row_end *ends, size_t count);
void mci_rows_end_alike(struct mc_row_op *op, size_t first,
                        const struct mci_row_end *end, size_t count);
/* Drops one reference; the lock is held. */
void mci_row_op_drop(struct mc_row_op *op);

/* ---- parts (row_driver_run.c) ------------------------------------------------ */

void mci_rows_run(void *ctx, const struct mci_work_part *part);
void mci_rows_drop(void *ctx, const struct mci_work_part *part);

/* ---- keys (row_driver_settle.c) ---------------------------------------------- */

/* NONE: it is claimed; WRITTEN_HERE; NO_MEMORY. */
enum mc_row_reason mci_row_claim(struct mc_row_driver *driver,
                                 struct mc_view key,
                                 struct mci_row_claim **claim_out);
/* The lock is held. The claim is gone, or, with a session, left. */
void mci_row_unclaim(struct mc_row_driver *driver, struct mci_row_claim *claim);
void mci_row_leave(struct mc_row_driver *driver, struct mci_row_claim *claim,
                   struct mc_put_session *session);
/* Ends the settler; then revokes what is left until the deadline, and forgets
 * all claims. */
void mci_rows_settle_all(struct mc_row_driver *driver, uint64_t deadline_ns);
#endif
