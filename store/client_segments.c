/* SPDX-License-Identifier: Apache-2.0 */
/* client_segments.c - what a client lends to the store.
 *
 * A lent segment is exposed to peers and mounted at the master, or it was given
 * up and waits for the keeper, or somebody is at work on it, which no lock is
 * held for. What comes meanwhile (a renewal) is noted and seen to afterwards.
 */
#include <time.h>

#include "client.h"
#include "client_loan.h"
#include "mc_log.h"
#include "mci_alloc.h"

#define GONE_MS 10000 /* what the master may take beyond the grace */
#define POLL_MS 20
#define KEEPER_MS 2000 /* for one request of the keeper, who is waited for */

static struct mci_loan *lent_of(struct mci_link *link)
{
    return MCI_CONTAINER(link, struct mci_loan, link);
}

/* ---- lending ------------------------------------------------------------- */

static uint64_t deadline_of(const struct mci_outside *outside)
{
    return mci_clock_deadline(mci_clock_ns(), outside->settings.timeout_ms);
}

/* With lent_lock held. What was renewed while it was at work is mounted at a
 * master that has forgotten us. */
static bool is_overtaken(struct mci_outside *outside, struct mci_loan *lent)
{
    bool is_over = lent->was_renewed;
    lent->was_renewed = false;
    lent->state = is_over ? LENT_GIVEN_UP : LENT_MOUNTED;
    if (is_over) {
        outside->wakes++;
    }
    (void)pthread_cond_broadcast(&outside->lent_changed);
    return is_over;
}

/* It could not be mounted: goes at once, or, if the master may have it
 * nevertheless, once the keeper has withdrawn it. Its memory goes now. */
static void leave(struct mci_outside *outside, struct mci_loan *lent)
{
    if (lent->is_made) {
        mci_loan_drop_memory(lent);
        lent->is_made = false;
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    bool is_over = !lent->is_unsure;
    if (is_over) {
        mci_list_remove(&lent->link);
    } else {
        lent->is_leaving = true;
        lent->state = LENT_GIVEN_UP;
        outside->wakes++;
    }
    (void)pthread_cond_broadcast(&outside->lent_changed);
    (void)pthread_mutex_unlock(&outside->lent_lock);
    if (is_over) {
        mci_free(lent);
    }
}

enum mc_err mci_lend_mount(struct mci_outside *outside, struct mci_loan *lent,
                           uint32_t *handle_out)
{
    (void)pthread_mutex_lock(&outside->lent_lock);
    lent->handle = ++outside->next_handle;
    mci_list_push_back(&outside->lent, &lent->link);
    (void)pthread_mutex_unlock(&outside->lent_lock);
    enum mc_err err =
        mci_loan_mount(outside, lent, outside->settings.timeout_ms);
    if (err != MC_OK) {
        mci_loan_conceal(outside, lent);
        leave(outside, lent);
        return err;
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    if (is_overtaken(outside, lent)) {
        mci_loan_conceal(outside, lent);
    }
    uint32_t handle = lent->handle;
    outside->is_published = false;
    (void)pthread_mutex_unlock(&outside->lent_lock);
    mci_keeper_wake(outside);
    *handle_out = handle;
    return MC_OK;
}

static bool overlaps(struct mci_outside *outside,
                     const struct mci_lending *lending)
{
    uintptr_t begin = (uintptr_t)lending->base;
    bool does = false;
    (void)pthread_mutex_lock(&outside->lent_lock);
    for (struct mci_link *link = outside->lent.next; link != &outside->lent;
         link = link->next) {
        const struct mci_loan *lent = lent_of(link);
        if (lent->is_made || lent->is_leaving) {
            continue; /* comes from the system and may move, or is lent no more */
        }
        uintptr_t other = (uintptr_t)lent->base;
        does |= begin < other + lent->bytes && other < begin + lending->bytes;
    }
    (void)pthread_mutex_unlock(&outside->lent_lock);
    return does;
}

enum mc_err mci_lend(struct mci_outside *outside,
                     const struct mci_lending *lending, uint32_t *handle_out,
                     uint64_t *bytes_out)
{
    struct mci_loan *lent = NULL;
    enum mc_err err = mci_lending_check(lending);
    if (err == MC_OK && lending->base && overlaps(outside, lending)) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err == MC_OK) {
        err = mci_lend_prepare(outside, lending, &lent);
    }
    if (err != MC_OK) {
        return err;
    }
    uint64_t bytes = lent->bytes;
    err = mci_lend_mount(outside, lent, handle_out);
    if (err == MC_OK) {
        *bytes_out = bytes;
    }
    return err;
}

/* ---- giving up and making anew -------------------------------------------- */

void mci_lent_conceal(struct mci_outside *outside)
{
    (void)pthread_mutex_lock(&outside->lent_lock);
    for (struct mci_link *link = outside->lent.next; link != &outside->lent;
         link = link->next) {
        struct mci_loan *lent = lent_of(link);
        if (lent->state == LENT_MOUNTED) {
            mci_loan_conceal(outside, lent);
            lent->state = LENT_GIVEN_UP;
        } else if (lent->state == LENT_AT_WORK) {
            lent->was_renewed = true;
        }
    }
    outside->is_published = false;
    outside->wakes++;
    (void)pthread_cond_broadcast(&outside->lent_changed);
    (void)pthread_mutex_unlock(&outside->lent_lock);
}

/* With the lock held; it is let go meanwhile. */
static bool restore(struct mci_outside *outside, struct mci_loan *lent)
{
    lent->state = LENT_AT_WORK;
    lent->was_renewed = false;
    (void)pthread_mutex_unlock(&outside->lent_lock);
    uint64_t bytes = lent->bytes;
    enum mc_err err = mci_loan_withdraw(outside, lent, KEEPER_MS);
    bool has_left = err == MC_OK && lent->is_leaving;
    if (err == MC_OK && !has_left) {
        err = mci_loan_make_anew(outside, lent, KEEPER_MS);
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    lent->bytes = bytes;
    if (has_left) {
        mci_list_remove(&lent->link);
        mci_free(lent);
        return true;
    }
    if (err != MC_OK || is_overtaken(outside, lent)) {
        mci_loan_conceal(outside, lent);
        lent->state = LENT_GIVEN_UP;
        (void)pthread_cond_broadcast(&outside->lent_changed);
        return false;
    }
    mc_log(MC_LOG_WARN, "segment %s: lent anew, what it held is gone",
           outside->name);
    return true;
}

static struct mci_loan *find_given_up(struct mci_outside *outside)
{
    for (struct mci_link *link = outside->lent.next; link != &outside->lent;
         link = link->next) {
        if (lent_of(link)->state == LENT_GIVEN_UP) {
            return lent_of(link);
        }
    }
    return NULL;
}

bool mci_lent_restore(struct mci_outside *outside)
{
    bool is_done = true;
    (void)pthread_mutex_lock(&outside->lent_lock);
    while (is_done && !outside->is_stopping) {
        struct mci_loan *lent = find_given_up(outside);
        if (!lent) {
            break;
        }
        is_done = restore(outside, lent);
    }
    (void)pthread_mutex_unlock(&outside->lent_lock);
    return is_done;
}

void mci_lent_free(struct mci_outside *outside)
{
    while (!mci_list_is_empty(&outside->lent)) {
        struct mci_loan *lent = lent_of(outside->lent.next);
        mci_list_remove(&lent->link);
        mci_loan_conceal(outside, lent);
        mci_loan_free(lent);
    }
}

size_t mci_lent_list(struct mci_outside *outside, struct mci_lent_view *views,
                     size_t max)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&outside->lent_lock);
    for (struct mci_link *link = outside->lent.next;
         link != &outside->lent && count < max; link = link->next) {
        const struct mci_loan *lent = lent_of(link);
        if (lent->state == LENT_MOUNTED) {
            views[count++] = (struct mci_lent_view){
                .base = (uint64_t)(uintptr_t)lent->base, .bytes = lent->bytes};
        }
    }
    (void)pthread_mutex_unlock(&outside->lent_lock);
    return count;
}

/* ---- taking back --------------------------------------------------------- */

/* With lent_lock held. NULL: no such segment. */
static struct mci_loan *find_lent(struct mci_outside *outside, uint32_t handle)
{
    struct mci_link *link = outside->lent.next;
    while (link != &outside->lent && lent_of(link)->handle != handle) {
        link = link->next;
    }
    return link != &outside->lent ? lent_of(link) : NULL;
}

/* Takes it out of the others' hands. NULL: no such segment. */
static struct mci_loan *begin_unmount(struct mci_outside *outside,
                                      uint32_t handle, bool *is_mounted_out)
{
    (void)pthread_mutex_lock(&outside->lent_lock);
    struct mci_loan *found = find_lent(outside, handle);
    while (found && found->state == LENT_AT_WORK) {
        (void)pthread_cond_wait(&outside->lent_changed, &outside->lent_lock);
        found = find_lent(outside, handle);
    }
    if (found) {
        *is_mounted_out = found->state == LENT_MOUNTED;
        found->state = LENT_AT_WORK;
        found->was_renewed = false;
    }
    (void)pthread_mutex_unlock(&outside->lent_lock);
    return found;
}

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&pause, NULL);
}

/* Until the master knows of the segment no more: its grace is over, if it has one,
 * and what it held is taken out, so that nobody is told any more that it is there.
 * A renewal ends it as well. */
static void await_gone(struct mci_outside *outside, struct mci_loan *lent,
                       uint64_t grace_ms)
{
    uint64_t timeout_ms = outside->settings.timeout_ms;
    uint64_t beyond_ms = timeout_ms < GONE_MS ? timeout_ms : GONE_MS;
    uint64_t deadline_ns =
        mci_clock_deadline(mci_clock_ns(), grace_ms + beyond_ms);
    enum mci_segment_status status = MCI_SEGMENT_OK;
    bool was_renewed = false;
    long wait_ms = 1;
    while (!was_renewed && mci_clock_ns() < deadline_ns) {
        enum mc_err err = mci_remote_segment_status(
            outside->remote, lent->segment, deadline_ns, &status);
        if (err == MC_OK && status == MCI_SEGMENT_UNDEFINED) {
            return;
        }
        pause_ms(wait_ms);
        wait_ms = wait_ms < POLL_MS / 2 ? wait_ms * 2 : POLL_MS;
        (void)pthread_mutex_lock(&outside->lent_lock);
        was_renewed = lent->was_renewed;
        (void)pthread_mutex_unlock(&outside->lent_lock);
    }
}

static enum mc_err unlend(struct mci_outside *outside, uint32_t handle,
                          uint64_t grace_ms)
{
    bool is_mounted = false;
    struct mci_loan *lent = begin_unmount(outside, handle, &is_mounted);
    if (!lent) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = MC_OK;
    if (is_mounted) {
        err = mci_remote_unmount(outside->remote, lent->segment, grace_ms,
                                 deadline_of(outside));
    }
    if (!is_mounted) {
        err = mci_loan_withdraw(outside, lent, KEEPER_MS);
    }
    if (err == MC_OK && is_mounted) {
        await_gone(outside, lent, grace_ms);
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    if (err == MC_OK) {
        mci_list_remove(&lent->link);
        outside->is_published = false;
    } else {
        lent->was_renewed |= !is_mounted;
        if (is_overtaken(outside, lent)) {
            mci_loan_conceal(outside, lent);
        }
    }
    (void)pthread_mutex_unlock(&outside->lent_lock);
    if (err == MC_OK) {
        mci_loan_conceal(outside, lent);
        mci_loan_free(lent);
        mci_keeper_wake(outside);
    }
    return err;
}

/* ---- calls --------------------------------------------------------------- */

enum mc_err mc_client_mount_segment(struct mc_client *client, void *base,
                                    uint64_t bytes, uint32_t *segment_out)
{
    const struct mci_lending lending = {.base = base, .bytes = bytes};
    uint64_t lent_bytes = 0;
    if (!base || !segment_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    return client->outside
               ? mci_lend(client->outside, &lending, segment_out, &lent_bytes)
               : MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_allocate_and_mount_segment(struct mc_client *client,
                                                 uint64_t bytes,
                                                 uint32_t *segment_out,
                                                 uint64_t *bytes_out)
{
    uint64_t lent_bytes = 0;
    if (!segment_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (!client->outside) {
        return MC_ERR_NOT_SUPPORTED;
    }
    const struct mci_lending lending = {
        .bytes = bytes, .no_prefault = client->outside->no_prefault};
    enum mc_err err =
        mci_lend(client->outside, &lending, segment_out, &lent_bytes);
    if (err == MC_OK && bytes_out) {
        *bytes_out = lent_bytes;
    }
    return err;
}

enum mc_err mc_client_segment_number(struct mc_client *client, uint32_t segment,
                                     uint32_t *number_out)
{
    struct mci_outside *outside = client->outside;
    enum mc_err err = MC_ERR_INVALID_PARAMS;
    if (!outside) {
        return MC_ERR_NOT_SUPPORTED;
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    const struct mci_loan *lent = find_lent(outside, segment);
    if (lent && number_out) {
        err = lent->state == LENT_MOUNTED
                  ? MC_OK
                  : MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    if (err == MC_OK) {
        *number_out = lent->segment;
    }
    (void)pthread_mutex_unlock(&outside->lent_lock);
    return err;
}

enum mc_err mc_client_unmount_segment(struct mc_client *client,
                                      uint32_t segment, uint64_t grace_ms)
{
    return client->outside ? unlend(client->outside, segment, grace_ms)
                           : MC_ERR_NOT_SUPPORTED;
}
