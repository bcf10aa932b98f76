/* SPDX-License-Identifier: Apache-2.0 */
/* client_targets.c - see the header.
 *
 * Finding reads the buckets without a lock: an entry is whole before it is made
 * the head of its bucket (release), and never changes or goes before its set
 * does.
 */
#include "client_targets.h"

#include <stdatomic.h>
#include <string.h>

#include "client_outside.h"
#include "mc_log.h"
#include "mci_alloc.h"

#define BUCKETS 256
#define ENTRIES_MAX 65536 /* segments come and go; then a new set begins */

struct mci_target_set {
    struct mci_outside *outside;
    _Atomic uint32_t refs;
    _Atomic uint32_t count;
    uint64_t incarnation;
    uint32_t self; /* our number at the master */
    pthread_mutex_t lock;
    _Atomic(struct mci_target *) buckets[BUCKETS];
};

/* ---- sets ---------------------------------------------------------------- */

static struct mci_target_set *make_set(struct mci_outside *outside)
{
    struct mci_target_set *set = mci_calloc(1, sizeof *set);
    if (set && pthread_mutex_init(&set->lock, NULL) != 0) {
        mci_free(set);
        set = NULL;
    }
    if (set) {
        const struct mci_remote_self self = mci_remote_self(outside->remote);
        set->outside = outside;
        set->incarnation = self.incarnation;
        set->self = self.client;
        atomic_init(&set->refs, 1);
    }
    return set;
}

static void free_set(struct mci_target_set *set)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct mci_target *entry = atomic_load(&set->buckets[i]);
        while (entry) {
            struct mci_target *next = entry->next;
            mc_target_close(entry->target);
            mci_free(entry);
            entry = next;
        }
    }
    (void)pthread_mutex_destroy(&set->lock);
    mci_free(set);
}

void mci_targets_release(struct mci_target_set *set)
{
    if (set && atomic_fetch_sub(&set->refs, 1) == 1) {
        free_set(set);
    }
}

/* A set that is full, or of who we were, makes way for a new one. */
static bool is_spent(const struct mci_target_set *set, uint64_t incarnation)
{
    return set->incarnation != incarnation ||
           atomic_load_explicit(&set->count, memory_order_relaxed) >=
               ENTRIES_MAX;
}

enum mc_err mci_targets_hold(struct mci_outside *outside,
                             struct mci_target_set **set_out,
                             uint64_t *incarnation_out)
{
    uint64_t incarnation = mci_remote_self(outside->remote).incarnation;
    struct mci_target_set *before = NULL;
    (void)pthread_mutex_lock(&outside->targets_lock);
    if (outside->targets && is_spent(outside->targets, incarnation)) {
        before = outside->targets;
        outside->targets = NULL;
    }
    if (!outside->targets) {
        outside->targets = make_set(outside);
    }
    struct mci_target_set *set = outside->targets;
    if (set) {
        (void)atomic_fetch_add(&set->refs, 1);
    }
    (void)pthread_mutex_unlock(&outside->targets_lock);
    mci_targets_release(before);
    if (!set) {
        return MC_ERR_NOMEM;
    }
    *set_out = set;
    *incarnation_out = set->incarnation;
    return MC_OK;
}

/* ---- finding ------------------------------------------------------------- */

static struct mci_target *find(struct mci_target_set *set, uint32_t segment)
{
    struct mci_target *entry = atomic_load_explicit(
        &set->buckets[segment % BUCKETS], memory_order_acquire);
    while (entry && entry->segment != segment) {
        entry = entry->next;
    }
    return entry;
}

static enum mci_nearness nearness_of(const struct mci_target_set *set,
                                     const struct mci_segment_row *row)
{
    if (row->client == set->self) {
        return MCI_NEAR_HERE;
    }
    const struct mc_view here = mc_view_str(set->outside->host_id);
    bool is_near =
        row->shm.len > 0 && here.len > 0 && mc_view_equal(here, row->host_id);
    return is_near ? MCI_NEAR_HOST : MCI_NEAR_AWAY;
}

static bool copy_text(struct mc_view view, char *room, size_t max)
{
    if (view.len >= max) {
        return false;
    }
    if (view.len > 0) {
        memcpy(room, view.data, view.len);
    }
    room[view.len] = '\0';
    return true;
}

static enum mc_err make_entry(struct mci_target_set *set,
                              const struct mci_segment_row *row,
                              struct mci_target **entry_out)
{
    char endpoint[MCI_NAME_LEN_MAX + 1];
    char shm[MCI_NAME_LEN_MAX + 1];
    if (!copy_text(row->endpoint, endpoint, sizeof endpoint) ||
        !copy_text(row->shm, shm, sizeof shm)) {
        return MC_ERR_SEGMENT_NOT_FOUND;
    }
    const struct mc_target_opts opts = {.registration = row->registration,
                                        .bytes = row->bytes,
                                        .endpoint = endpoint,
                                        .shm = shm};
    struct mci_target *entry = mci_calloc(1, sizeof *entry);
    if (!entry) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = mc_target_open(mci_outside_transfer(set->outside), &opts,
                                     &entry->target);
    if (err != MC_OK) {
        mci_free(entry);
        return err;
    }
    entry->segment = row->segment;
    entry->nearness = nearness_of(set, row);
    entry->registration = row->registration;
    entry->bytes = row->bytes;
    *entry_out = entry;
    return MC_OK;
}

/* Who comes second takes what the first one made. */
static const struct mci_target *enter(struct mci_target_set *set,
                                      struct mci_target *entry)
{
    (void)pthread_mutex_lock(&set->lock);
    struct mci_target *other = find(set, entry->segment);
    if (!other) {
        _Atomic(struct mci_target *) *bucket =
            &set->buckets[entry->segment % BUCKETS];
        entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
        atomic_store_explicit(bucket, entry, memory_order_release);
        (void)atomic_fetch_add_explicit(&set->count, 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&set->lock);
    if (other) {
        mc_target_close(entry->target);
        mci_free(entry);
        return other;
    }
    return entry;
}

enum mc_err mci_targets_find(struct mci_target_set *set, uint32_t segment,
                             uint64_t deadline_ns,
                             const struct mci_target **target_out)
{
    const struct mci_target *entry = find(set, segment);
    if (entry) {
        *target_out = entry;
        return MC_OK;
    }
    const struct mci_segment_row *row = NULL;
    struct mci_target *made = NULL;
    enum mc_err err =
        mci_remote_segment(set->outside->remote, segment, deadline_ns, &row);
    if (err == MC_OK) {
        err = make_entry(set, row, &made);
    }
    if (err == MC_OK) {
        *target_out = enter(set, made);
    }
    return err;
}
