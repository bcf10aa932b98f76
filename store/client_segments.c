/* SPDX-License-Identifier: Apache-2.0 */
/* client_segments.c - what a client lends to the store.
 *
 * A lent segment is exposed to peers and mounted at the master, or it was given
 * up and waits for the keeper, or somebody is at work on it, which no lock is
 * held for. What comes meanwhile (a renewal) is noted and seen to afterwards.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "client.h"
#include "mc_log.h"
#include "mci_alloc.h"

#define GONE_MS 10000 /* what the master may take beyond the grace */
#define POLL_MS 20
#define KEEPER_MS 2000    /* for one request of the keeper, who is waited for */
#define HEARTBEAT_MS 2000 /* a heartbeat and some more */

enum lent_state {
    LENT_MOUNTED,
    LENT_GIVEN_UP, /* concealed, to be made anew */
    LENT_AT_WORK   /* being made, mounted or unmounted */
};

struct mci_loan {
    struct mci_link link;
    uint32_t handle;
    uint32_t segment; /* at the master, while mounted */
    enum lent_state state;
    bool was_renewed; /* while at work */
    bool is_leaving;  /* its mounting failed: to be withdrawn, then freed */
    bool is_unsure; /* the master may have it mounted, as who we are or were */
    uint64_t mounted_as;    /* incarnation; 0: not mounted, as far as we know */
    struct mci_mount mount; /* as it was sent last */
    bool is_made;           /* memory is ours */
    bool no_prefault;
    struct mci_segment memory; /* made */
    void *base;
    uint64_t bytes;
    bool is_exposed;
    struct mc_exposure exposure;
};

static struct mci_loan *lent_of(struct mci_link *link)
{
    return MCI_CONTAINER(link, struct mci_loan, link);
}

const struct mc_exposure *mci_lent_exposure(const struct mci_loan *lent)
{
    return &lent->exposure;
}

/* ---- memory -------------------------------------------------------------- */

static enum mc_err make_memory(struct mci_outside *outside,
                               struct mci_loan *lent, uint64_t bytes)
{
    const struct mci_segment_opts opts = {.bytes = bytes,
                                          .label = outside->name,
                                          .no_prefault = lent->no_prefault};
    enum mc_err err = mci_segment_init(&lent->memory, &opts);
    if (err == MC_OK) {
        lent->base = lent->memory.base;
        lent->bytes = lent->memory.bytes;
    }
    return err;
}

/* The old pages go before new ones are touched: never twice the memory. The
 * header page stays, for peers who still have it mapped. */
static void drop_memory(struct mci_loan *lent)
{
    struct mci_segment *memory = &lent->memory;
    if (memory->header) {
        (void)fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)memory->header->data_offset,
                        (off_t)memory->bytes);
    }
    mci_segment_fini(memory);
    lent->base = NULL;
}

static enum mc_err expose(struct mci_outside *outside, struct mci_loan *lent)
{
    struct mc_exposure_opts opts = {
        .base = lent->base, .bytes = lent->bytes, .fd = -1};
    if (lent->is_made) {
        opts.fd = lent->memory.fd;
        opts.fd_offset = lent->memory.header->data_offset;
        opts.generation = &lent->memory.header->generation;
    }
    enum mc_err err =
        mc_transfer_expose(outside->transfer, &opts, &lent->exposure);
    lent->is_exposed = err == MC_OK;
    return err;
}

static void conceal(struct mci_outside *outside, struct mci_loan *lent)
{
    if (lent->is_exposed) {
        mc_transfer_conceal(outside->transfer, lent->exposure.registration);
        lent->is_exposed = false;
    }
}

/* Nobody can touch it, and nobody but us knows it. */
static void free_lent(struct mci_loan *lent)
{
    if (lent->is_made) {
        drop_memory(lent);
    }
    mci_free(lent);
}

/* ---- making -------------------------------------------------------------- */

static enum mc_err check_lending(const struct mci_lending *lending)
{
    uintptr_t base = (uintptr_t)lending->base;
    bool is_sound = lending->bytes > 0 &&
                    (!lending->base || lending->bytes <= UINTPTR_MAX - base);
    return is_sound ? MC_OK : MC_ERR_INVALID_PARAMS;
}

enum mc_err mci_lend_prepare(struct mci_outside *outside,
                             const struct mci_lending *lending,
                             struct mci_loan **lent_out)
{
    enum mc_err err = check_lending(lending);
    if (err != MC_OK) {
        return err;
    }
    struct mci_loan *lent = mci_calloc(1, sizeof *lent);
    if (!lent) {
        return MC_ERR_NOMEM;
    }
    mci_list_init(&lent->link);
    lent->state = LENT_AT_WORK;
    lent->memory.fd = -1;
    lent->is_made = !lending->base;
    lent->no_prefault = lending->no_prefault;
    lent->base = lending->base;
    lent->bytes = lending->bytes;
    if (lent->is_made) {
        err = make_memory(outside, lent, lending->bytes);
    }
    if (err == MC_OK) {
        err = expose(outside, lent);
    }
    if (err != MC_OK) {
        free_lent(lent);
        return err;
    }
    *lent_out = lent;
    return MC_OK;
}

static uint64_t deadline_of(const struct mci_outside *outside)
{
    return mci_clock_deadline(mci_clock_ns(), outside->settings.timeout_ms);
}

static uint64_t incarnation_of(const struct mci_outside *outside)
{
    return mci_remote_self(outside->remote).incarnation;
}

static void fill_mount(const struct mci_outside *outside, struct mci_loan *lent)
{
    lent->mount = (struct mci_mount){
        .registration = lent->exposure.registration,
        .bytes = lent->bytes,
        .base = (uint64_t)(uintptr_t)lent->base,
        .name = mc_view_str(outside->name),
        .endpoint = mc_view_str(lent->exposure.endpoint),
        .shm = mc_view_str(lent->exposure.shm),
        .protocol = mc_view_str("tcp"),
        .id = {lent->exposure.registration,
               lent->is_made ? lent->memory.id[1]
                             : (uint64_t)(uintptr_t)lent->base}};
    memcpy(lent->mount.key, lent->exposure.key, sizeof lent->mount.key);
}

static enum mc_err mount(struct mci_outside *outside, struct mci_loan *lent,
                         uint64_t wait_ms)
{
    fill_mount(outside, lent);
    /* The master places nothing with an owner whose clock it has not heard of:
     * who puts right after opening finds room. */
    mci_remote_await_heartbeat(
        outside->remote, mci_clock_deadline(mci_clock_ns(), HEARTBEAT_MS));
    uint64_t before = incarnation_of(outside);
    enum mc_err err = mci_remote_mount(
        outside->remote, &lent->mount,
        mci_clock_deadline(mci_clock_ns(), wait_ms), &lent->segment);
    lent->mounted_as = err == MC_OK ? incarnation_of(outside) : 0;
    lent->is_unsure = err == MC_ERR_RPC_TIMEOUT ||
                      (err == MC_OK && lent->mounted_as != before);
    return err;
}

/* What was given up though the master may still have it mounted would be placed
 * on for ever, and whoever is sent there fails. Mounting it again under its id
 * tells its number, whether it was there or not. */
static enum mc_err withdraw(struct mci_outside *outside, struct mci_loan *lent)
{
    uint64_t deadline_ns = mci_clock_deadline(mci_clock_ns(), KEEPER_MS);
    enum mc_err err = MC_OK;
    if (lent->is_unsure) {
        err = mci_remote_mount(outside->remote, &lent->mount, deadline_ns,
                               &lent->segment);
    } else if (lent->mounted_as == 0 ||
               lent->mounted_as != incarnation_of(outside)) {
        return MC_OK; /* of who we were: gone with it */
    }
    if (err == MC_OK) {
        err =
            mci_remote_unmount(outside->remote, lent->segment, 0, deadline_ns);
    }
    if (err == MC_OK) {
        lent->is_unsure = false;
        lent->mounted_as = 0;
    }
    return err;
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

void mci_lend_drop(struct mci_outside *outside, struct mci_loan *lent)
{
    if (lent) {
        conceal(outside, lent);
        free_lent(lent);
    }
}

/* It could not be mounted: goes at once, or, if the master may have it
 * nevertheless, once the keeper has withdrawn it. Its memory goes now. */
static void leave(struct mci_outside *outside, struct mci_loan *lent)
{
    if (lent->is_made) {
        drop_memory(lent);
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
    enum mc_err err = mount(outside, lent, outside->settings.timeout_ms);
    if (err != MC_OK) {
        conceal(outside, lent);
        leave(outside, lent);
        return err;
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    if (is_overtaken(outside, lent)) {
        conceal(outside, lent);
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
    enum mc_err err = check_lending(lending);
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
            conceal(outside, lent);
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

static enum mc_err make_anew(struct mci_outside *outside, struct mci_loan *lent)
{
    enum mc_err err = MC_OK;
    if (lent->is_made) {
        uint64_t bytes = lent->bytes;
        drop_memory(lent);
        err = make_memory(outside, lent, bytes);
    }
    if (err == MC_OK) {
        err = expose(outside, lent);
    }
    return err == MC_OK ? mount(outside, lent, KEEPER_MS) : err;
}

/* With the lock held; it is let go meanwhile. */
static bool restore(struct mci_outside *outside, struct mci_loan *lent)
{
    lent->state = LENT_AT_WORK;
    lent->was_renewed = false;
    (void)pthread_mutex_unlock(&outside->lent_lock);
    uint64_t bytes = lent->bytes;
    enum mc_err err = withdraw(outside, lent);
    bool has_left = err == MC_OK && lent->is_leaving;
    if (err == MC_OK && !has_left) {
        err = make_anew(outside, lent);
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    lent->bytes = bytes;
    if (has_left) {
        mci_list_remove(&lent->link);
        mci_free(lent);
        return true;
    }
    if (err != MC_OK || is_overtaken(outside, lent)) {
        conceal(outside, lent);
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
        conceal(outside, lent);
        free_lent(lent);
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

/* Takes it out of the others' hands. NULL: no such segment. */
static struct mci_loan *begin_unmount(struct mci_outside *outside,
                                      uint32_t handle, bool *is_mounted_out)
{
    struct mci_loan *found = NULL;
    (void)pthread_mutex_lock(&outside->lent_lock);
    for (;;) {
        found = NULL;
        for (struct mci_link *link = outside->lent.next; link != &outside->lent;
             link = link->next) {
            if (lent_of(link)->handle == handle) {
                found = lent_of(link);
            }
        }
        if (!found || found->state != LENT_AT_WORK) {
            break;
        }
        (void)pthread_cond_wait(&outside->lent_changed, &outside->lent_lock);
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

/* Objects stay readable until the grace is over, and the master tells when. A
 * renewal ends it as well: then nobody knows of the segment any more. */
static void await_gone(struct mci_outside *outside, struct mci_loan *lent,
                       uint64_t grace_ms)
{
    uint64_t deadline_ns =
        mci_clock_deadline(mci_clock_ns(), grace_ms + GONE_MS);
    enum mci_segment_status status = MCI_SEGMENT_OK;
    bool was_renewed = false;
    while (!was_renewed && mci_clock_ns() < deadline_ns) {
        enum mc_err err = mci_remote_segment_status(
            outside->remote, lent->segment, deadline_ns, &status);
        if (err == MC_OK && status != MCI_SEGMENT_GRACEFULLY_UNMOUNTING &&
            status != MCI_SEGMENT_OK) {
            return;
        }
        pause_ms(POLL_MS);
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
        err = withdraw(outside, lent);
    }
    if (err == MC_OK && is_mounted && grace_ms > 0) {
        await_gone(outside, lent, grace_ms);
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    if (err == MC_OK) {
        mci_list_remove(&lent->link);
        outside->is_published = false;
    } else {
        lent->was_renewed |= !is_mounted;
        if (is_overtaken(outside, lent)) {
            conceal(outside, lent);
        }
    }
    (void)pthread_mutex_unlock(&outside->lent_lock);
    if (err == MC_OK) {
        conceal(outside, lent);
        free_lent(lent);
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

enum mc_err mc_client_unmount_segment(struct mc_client *client,
                                      uint32_t segment, uint64_t grace_ms)
{
    return client->outside ? unlend(client->outside, segment, grace_ms)
                           : MC_ERR_NOT_SUPPORTED;
}
