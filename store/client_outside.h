/* SPDX-License-Identifier: Apache-2.0 */
/* client_outside.h - what a client has when its master is another process: the
 * remote link, the transfer, what it lends, and where others' segments are.
 *
 * When the master has forgotten this client, or is another one, what we lent is
 * given up at once: it is concealed, so that nobody can touch it, and what was
 * known of others is void. A thread of its own, the keeper, then makes memory
 * fresh, registers it anew and mounts it again, as often as it takes; it also
 * says to a metadata server where we are.
 *
 * Threads: any thread, but open and close. Lock order: lent, then targets; both
 * are leaves otherwise, and no request is made under them.
 */
#ifndef CLIENT_OUTSIDE_H
#define CLIENT_OUTSIDE_H
#include <pthread.h>

#include "client_settings.h"
#include "mc_transfer.h"
#include "mci_client_http.h"
#include "mci_link.h"
#include "mci_list.h"
#include "mci_remote.h"
#include "mci_segment.h"

struct mci_target_set; /* client_targets.h */

#define MCI_HOST_ID_MAX 64

struct mci_outside {
    struct mc_client *client;
    struct mci_settings settings; /* without borrowed texts after open */
    struct mci_remote *remote;
    struct mc_transfer *transfer;
    char name[MCI_HOSTNAME_MAX];   /* host:port; "" at first */
    char host_id[MCI_HOST_ID_MAX]; /* of this machine; "" if unknown */
    struct mc_fence_stuck *stuck;  /* of the heartbeat thread */
    bool no_prefault;              /* of what is lent later, as at open */

    pthread_mutex_t targets_lock;
    struct mci_target_set *targets; /* NULL: begin a new one; guarded */

    pthread_mutex_t lent_lock;
    pthread_cond_t lent_changed;
    struct mci_link lent; /* guarded, as what follows */
    uint32_t next_handle;
    bool is_stopping;
    bool is_published; /* at the metadata server */
    uint64_t wakes;    /* of the keeper */
    pthread_t keeper;
    bool has_keeper;

    char *metadata_url; /* NULL: none */
    char *cluster_id;   /* NULL: none */
    struct mci_client_http *http;
    uint16_t http_port;
};

/* Errors: those of mc_client_open. */
MC_CHECK_RESULT enum mc_err
mci_outside_open(struct mc_client *client, const struct mc_client_opts *opts,
                 const struct mci_settings *settings);
void mci_outside_close(struct mci_outside *outside); /* NULL is fine */

struct mc_transfer *mci_outside_transfer(struct mci_outside *outside);

/* The heartbeat has made us a new incarnation. */
void mci_outside_renewed(void *ctx);

/* Where a long write finds its grant as renewed by heartbeats. */
struct mci_renewed_grant {
    struct mc_grant_source source;
    struct mci_outside *outside;
    struct mc_grant granted; /* at the start */
    uint64_t attempt;
    uint32_t place;
};
void mci_renewed_grant_init(struct mci_renewed_grant *renewed,
                            struct mci_outside *outside,
                            const struct mci_write_row *row, uint32_t place);

/* ---- lending (client_segments.c; one loan: client_loan.c) ---------------- */

struct mci_lending {
    void *base; /* NULL: memory is made */
    uint64_t bytes;
    bool no_prefault;
};
/* handle: of this client, for good. Errors: those of mc_client_mount_segment. */
MC_CHECK_RESULT enum mc_err mci_lend(struct mci_outside *outside,
                                     const struct mci_lending *lending,
                                     uint32_t *handle_out, uint64_t *bytes_out);
/* In two steps at open: what is exposed has the name by which we say hello.
 * Prepare is followed by mount or by nothing. */
struct mci_loan;
MC_CHECK_RESULT enum mc_err mci_lend_prepare(struct mci_outside *outside,
                                             const struct mci_lending *lending,
                                             struct mci_loan **lent_out);
MC_CHECK_RESULT enum mc_err mci_lend_mount(struct mci_outside *outside,
                                           struct mci_loan *lent,
                                           uint32_t *handle_out);
void mci_lend_drop(struct mci_outside *outside, struct mci_loan *lent);
const struct mc_exposure *mci_lent_exposure(const struct mci_loan *lent);

/* All of it is given up; the keeper makes it anew. */
void mci_lent_conceal(struct mci_outside *outside);
/* Makes and mounts what was given up. False: try again later. */
bool mci_lent_restore(struct mci_outside *outside);
void mci_lent_free(struct mci_outside *outside); /* nobody can touch it */

/* What is mounted, for a metadata server: fn for each. */
struct mci_lent_view {
    uint64_t base;
    uint64_t bytes;
};
size_t mci_lent_list(struct mci_outside *outside, struct mci_lent_view *views,
                     size_t max);

/* ---- pages (client_stat.c); ctx is the client ------------------------------ */

enum mc_err mci_client_metrics(void *ctx, struct mci_buf *text);
enum mc_err mci_client_summary(void *ctx, struct mci_buf *text);

/* ---- the metadata server (client_metadata.c) ------------------------------ */

/* False: try again later. */
bool mci_metadata_publish(struct mci_outside *outside);
void mci_metadata_withdraw(struct mci_outside *outside);

/* ---- the keeper (client_keeper.c) ----------------------------------------- */

MC_CHECK_RESULT enum mc_err mci_keeper_start(struct mci_outside *outside);
void mci_keeper_wake(struct mci_outside *outside);
void mci_keeper_stop(struct mci_outside *outside);
#endif
