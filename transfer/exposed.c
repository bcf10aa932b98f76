/* SPDX-License-Identifier: Apache-2.0 */
#include "exposed.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "closed.h"
#include "engine.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"

enum mc_err mci_exposures_init(struct mci_exposures *exposures)
{
    exposures->first = NULL;
    return pthread_rwlock_init(&exposures->lock, NULL) == 0 ? MC_OK
                                                            : MC_ERR_NOMEM;
}

void mci_exposures_fini(struct mci_exposures *exposures)
{
    (void)pthread_rwlock_destroy(&exposures->lock);
}

/* ---- made and found ---------------------------------------------------- */

static enum mc_err draw_secrets(struct mci_exposed *exposed)
{
    do {
        if (getrandom(&exposed->registration, sizeof exposed->registration,
                      0) != (ssize_t)sizeof exposed->registration ||
            getrandom(exposed->key, sizeof exposed->key, 0) !=
                (ssize_t)sizeof exposed->key) {
            mc_log(MC_LOG_ERROR, "registration: getrandom: %s",
                   strerror(errno));
            return MC_ERR_INTERNAL_ERROR;
        }
    } while (exposed->registration == 0);
    return MC_OK;
}

/* Where the generation lies in the file of which base is at fd_offset. */
static enum mc_err place_generation(struct mci_exposed *exposed,
                                    const struct mc_exposure_opts *opts)
{
    uintptr_t at = (uintptr_t)opts->generation;
    uintptr_t base = (uintptr_t)opts->base;
    if (at % sizeof(uint64_t) != 0 || at > base ||
        opts->fd_offset < base - at || base - at < sizeof(uint64_t)) {
        return MC_ERR_INVALID_PARAMS;
    }
    exposed->generation = opts->generation;
    exposed->generation_offset = opts->fd_offset - (base - at);
    return MC_OK;
}

static enum mc_err check_opts(const struct mc_exposure_opts *opts)
{
    bool wraps = opts->bytes > UINTPTR_MAX - (uintptr_t)opts->base;
    if (!opts->base || opts->bytes == 0 || wraps ||
        (opts->fd >= 0 && opts->bytes > UINT64_MAX - opts->fd_offset)) {
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

enum mc_err mci_exposed_create(struct mc_transfer *transfer,
                               const struct mc_exposure_opts *opts,
                               struct mci_exposed **exposed_out)
{
    enum mc_err err = check_opts(opts);
    if (err != MC_OK) {
        return err;
    }
    struct mci_exposed *exposed = mci_calloc(1, sizeof *exposed);
    if (!exposed) {
        return MC_ERR_NOMEM;
    }
    exposed->transfer = transfer;
    exposed->base = opts->base;
    exposed->bytes = opts->bytes;
    exposed->fd = opts->fd >= 0 && opts->generation ? opts->fd : -1;
    exposed->fd_offset = opts->fd_offset;
    exposed->map_bytes = opts->fd_offset + opts->bytes;
    atomic_store(&exposed->refs, 1);
    if (exposed->fd >= 0) {
        err = place_generation(exposed, opts);
    }
    if (err == MC_OK) {
        err = draw_secrets(exposed);
    }
    if (err == MC_OK) {
        err = mci_closed_create(0, &exposed->closed);
    }
    if (err != MC_OK) {
        mci_free(exposed);
        return err;
    }
    *exposed_out = exposed;
    return MC_OK;
}

void mci_exposed_publish(struct mci_exposed *exposed)
{
    struct mci_exposures *all = &exposed->transfer->exposures;
    (void)pthread_rwlock_wrlock(&all->lock);
    exposed->next = all->first;
    all->first = exposed;
    (void)pthread_rwlock_unlock(&all->lock);
}

struct mci_exposed *mci_exposed_take(struct mc_transfer *transfer,
                                     uint64_t registration)
{
    struct mci_exposures *all = &transfer->exposures;
    (void)pthread_rwlock_wrlock(&all->lock);
    struct mci_exposed **at = &all->first;
    while (*at && registration != 0 && (*at)->registration != registration) {
        at = &(*at)->next;
    }
    struct mci_exposed *found = *at;
    if (found) {
        *at = found->next;
    }
    (void)pthread_rwlock_unlock(&all->lock);
    return found;
}

struct mci_exposed *mci_exposed_hold(struct mc_transfer *transfer,
                                     uint64_t registration)
{
    struct mci_exposures *all = &transfer->exposures;
    (void)pthread_rwlock_rdlock(&all->lock);
    struct mci_exposed *found = all->first;
    while (found && found->registration != registration) {
        found = found->next;
    }
    if (found) {
        (void)atomic_fetch_add(&found->refs, 1);
    }
    (void)pthread_rwlock_unlock(&all->lock);
    return found;
}

void mci_exposed_release(struct mci_exposed *exposed)
{
    if (atomic_fetch_sub(&exposed->refs, 1) == 1) {
        mci_closed_destroy(exposed->closed);
        mci_free(exposed);
    }
}

/* ---- going in and out -------------------------------------------------- */

/* seq_cst on both sides: who enters sees the mark, or conceal sees the count. */
bool mci_exposed_enter(struct mci_exposed *exposed)
{
    (void)atomic_fetch_add(&exposed->inside, 1);
    if (atomic_load(&exposed->is_concealed)) {
        mci_exposed_leave(exposed);
        return false;
    }
    return true;
}

void mci_exposed_leave(struct mci_exposed *exposed)
{
    (void)atomic_fetch_sub(&exposed->inside, 1);
}

void mci_exposed_conceal(struct mci_exposed *exposed)
{
    const struct timespec pause = {0, 20000};
    if (exposed->generation) {
        (void)atomic_fetch_add(exposed->generation, 1);
    }
    atomic_store(&exposed->is_concealed, 1);
    while (atomic_load(&exposed->inside) > 0) {
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- what a grant allows ----------------------------------------------- */

struct mci_granter mci_exposed_granter(const struct mci_exposed *exposed)
{
    return (struct mci_granter){.registration = exposed->registration,
                                .key = exposed->key,
                                .bytes = exposed->bytes};
}

static bool is_genuine(const struct mci_granter *granter,
                       const struct mc_grant_terms *terms,
                       const struct mc_grant *grant)
{
    return terms->registration == granter->registration &&
           mc_grant_tag(granter->key, terms, grant->deadline_ns) == grant->tag;
}

/* Compares, then subtracts. */
static bool lies_within(uint64_t offset, uint64_t len, uint64_t outer_offset,
                        uint64_t outer_len)
{
    return offset >= outer_offset && offset - outer_offset <= outer_len &&
           len <= outer_len - (offset - outer_offset);
}

enum mc_err mci_grant_check(const struct mci_granter *granter,
                            const struct mc_grant_terms *terms,
                            const struct mc_grant *grant, uint64_t offset,
                            uint64_t len, uint64_t now_ns)
{
    if (!is_genuine(granter, terms, grant) ||
        !lies_within(offset, len, terms->offset, terms->len) ||
        !lies_within(offset, len, 0, granter->bytes)) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (grant->deadline_ns <= now_ns) {
        return MC_ERR_LEASE_EXPIRED;
    }
    /* Fences are kept for as long as a write grant may live, so none may live
     * longer. */
    if (terms->is_write &&
        grant->deadline_ns - now_ns > MCI_GRANT_TTL_NS + MCI_GRANT_SLACK_NS) {
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

enum mc_err mci_grant_check_seal(const struct mci_granter *granter,
                                 const struct mc_grant_terms *terms,
                                 const struct mc_grant *grant)
{
    return terms->is_write && is_genuine(granter, terms, grant)
               ? MC_OK
               : MC_ERR_INVALID_PARAMS;
}

enum mc_err mci_exposed_check(struct mci_exposed *exposed,
                              const struct mc_grant_terms *terms,
                              const struct mc_grant *grant, uint64_t offset,
                              uint64_t len, uint64_t now_ns)
{
    if (atomic_load(&exposed->is_concealed)) {
        return MC_ERR_SEGMENT_NOT_FOUND;
    }
    struct mci_granter granter = mci_exposed_granter(exposed);
    enum mc_err err =
        mci_grant_check(&granter, terms, grant, offset, len, now_ns);
    if (err != MC_OK || !terms->is_write) {
        return err;
    }
    if (mci_board_refuses(mci_board_page(exposed->transfer->board),
                          terms->subject, terms->incarnation,
                          grant->deadline_ns) ||
        mci_closed_refuses(exposed->closed, terms->subject,
                           grant->deadline_ns)) {
        return MC_ERR_INVALID_VERSION;
    }
    return MC_OK;
}

void mci_exposed_spend(struct mci_exposed *exposed, uint64_t attempt,
                       uint64_t until_ns)
{
    mci_closed_add(exposed->closed, attempt, until_ns, mci_clock_ns());
}

bool mci_exposed_is_closed(struct mci_exposed *exposed, uint64_t attempt,
                           uint64_t incarnation)
{
    return mci_board_refuses(mci_board_page(exposed->transfer->board), attempt,
                             incarnation, UINT64_MAX) ||
           mci_closed_refuses(exposed->closed, attempt, UINT64_MAX);
}
