/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - a registry begins and ends, and what it does in the background.
 *
 * A step is one slice of everything that is due: so the thread that calls it can
 * stop at any time, and no request ever waits for more than a slice. What has to
 * go goes in turns, a slice each.
 */
#include <string.h>

#include "core.h"
#include "mci_alloc.h"
#include "registry_parts.h"

#define CLIENT_TTL_MS 10000
#define HEARTBEAT_MS 1000
#define FENCING_PER_STEP 16
#define REST_NS (100 * MCI_NS_PER_MS) /* without work, at most */
#define NAMES_MAX (MCI_CLIENTS_MAX + 1)

/* ---- begin and end ----------------------------------------------------- */

static void init_lists(struct mci_registry *registry)
{
    struct mci_link *const lists[] = {&registry->living,  &registry->hung_up,
                                      &registry->leaving, &registry->fencing,
                                      &registry->graced,  &registry->unmounting,
                                      &registry->fresh,   &registry->old,
                                      &registry->proven,  &registry->spare};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        mci_list_init(lists[i]);
    }
}

enum mc_err mci_registry_create(const struct mci_registry_opts *opts,
                                struct mci_registry **registry_out)
{
    uint64_t ttl_ms = opts->client_ttl_ms ? opts->client_ttl_ms : CLIENT_TTL_MS;
    uint64_t heartbeat_ms =
        opts->heartbeat_ms ? opts->heartbeat_ms : HEARTBEAT_MS;
    heartbeat_ms = heartbeat_ms > ttl_ms / 3 ? ttl_ms / 3 : heartbeat_ms;
    heartbeat_ms = heartbeat_ms > 0 ? heartbeat_ms : 1;
    struct mci_registry *registry = mci_calloc(1, sizeof *registry);
    uint64_t *past = mci_calloc(MCI_PAST_MAX, sizeof *past);
    if (!registry || !past) {
        mci_free(registry);
        mci_free(past);
        return MC_ERR_NOMEM;
    }
    registry->opts = *opts;
    registry->ttl_ns = ttl_ms * MCI_NS_PER_MS;
    registry->heartbeat_ns = heartbeat_ms * MCI_NS_PER_MS;
    registry->release_ns = mci_master_release_ns(opts->master);
    registry->past = past;
    init_lists(registry);
    mci_map_init(&registry->names, NAMES_MAX);
    mci_map_init(&registry->incarnations, NAMES_MAX + MCI_PAST_MAX);
    mci_lock_init(&registry->lock);
    *registry_out = registry;
    return MC_OK;
}

void mci_registry_destroy(struct mci_registry *registry)
{
    if (!registry) {
        return;
    }
    mci_doubts_fini(registry);
    for (uint32_t i = 0; i < MCI_SEGMENTS_MAX; i++) {
        if (registry->mounted[i]) {
            mci_mounted_free(registry, registry->mounted[i]);
        }
    }
    for (uint32_t i = 0; i < registry->member_max; i++) {
        if (registry->members[i]) {
            mci_covers_drop(registry->members[i]);
        }
    }
    for (uint32_t i = 0; i < registry->member_max; i++) {
        mci_member_release(registry->members[i]);
    }
    mci_free(registry->members);
    mci_map_fini(&registry->names);
    mci_map_fini(&registry->incarnations);
    mci_free(registry->past);
    (void)pthread_mutex_destroy(&registry->lock);
    mci_free(registry);
}

/* ---- what is due ------------------------------------------------------- */

void mci_registry_was_away(struct mci_registry *registry, uint64_t now_ns)
{
    mci_registry_lock(registry);
    /* Once per ttl, lest a slow machine keeps the dead alive. */
    if (registry->away_until_ns == 0 ||
        now_ns >= registry->away_until_ns + registry->ttl_ns) {
        registry->away_until_ns = now_ns + MCI_MISSES * registry->heartbeat_ns;
    }
    mci_registry_unlock(registry);
}

/* A member whose time is over (counted), or NULL and when the next one's is. */
static struct mci_member *find_expired(struct mci_registry *registry,
                                       uint64_t now_ns, uint64_t *next_ns)
{
    struct mci_member *found = NULL;
    mci_registry_lock(registry);
    if (now_ns < registry->away_until_ns) {
        mci_registry_unlock(registry);
        return NULL;
    }
    if (!mci_list_is_empty(&registry->hung_up)) {
        struct mci_member *member =
            MCI_CONTAINER(registry->hung_up.next, struct mci_member, link);
        if (member->due_ns <= now_ns) {
            found = member;
        } else if (member->due_ns < *next_ns) {
            *next_ns = member->due_ns;
        }
    }
    if (!found && !mci_list_is_empty(&registry->living)) {
        struct mci_member *member =
            MCI_CONTAINER(registry->living.next, struct mci_member, link);
        uint64_t due_ns = member->seen_ns + registry->ttl_ns;
        if (due_ns <= now_ns) {
            found = member;
        } else if (due_ns < *next_ns) {
            *next_ns = due_ns;
        }
    }
    if (found) {
        mci_member_hold(found);
    }
    mci_registry_unlock(registry);
    return found;
}

static void end_graces(struct mci_registry *registry, uint64_t now_ns,
                       uint64_t *next_ns)
{
    mci_registry_lock(registry);
    struct mci_link *link = registry->graced.next;
    while (link != &registry->graced) {
        struct mci_mounted *mounted =
            MCI_CONTAINER(link, struct mci_mounted, timed);
        link = link->next;
        if (mounted->grace_ns <= now_ns) {
            mci_mounted_close(registry, mounted);
            mci_list_push_back(&registry->unmounting, &mounted->timed);
        } else if (mounted->grace_ns < *next_ns) {
            *next_ns = mounted->grace_ns;
        }
    }
    mci_doubts_report(registry, now_ns);
    mci_registry_unlock(registry);
}

/* ---- slices ------------------------------------------------------------ */

/* A slice of a segment on its way out; false if there is none. */
static bool step_segment(struct mci_registry *registry, uint64_t now_ns,
                         uint64_t deadline_ns)
{
    uint32_t segment = 0;
    mci_registry_lock(registry);
    if (!mci_list_is_empty(&registry->unmounting)) {
        struct mci_link *link = registry->unmounting.next;
        mci_list_remove(link);
        mci_list_push_back(&registry->unmounting, link);
        segment = MCI_CONTAINER(link, struct mci_mounted, timed)->id;
    }
    mci_registry_unlock(registry);
    if (segment == 0) {
        return false;
    }
    bool is_done = false;
    enum mc_err err = mci_master_segment_step(registry->opts.master, segment,
                                              now_ns, deadline_ns, &is_done);
    if (err == MC_OK && is_done) {
        mci_registry_lock(registry);
        struct mci_mounted *mounted = mci_mounted_at(registry, segment);
        if (mounted) {
            mci_mounted_free(registry, mounted);
        }
        mci_registry_unlock(registry);
    }
    return true;
}

/* All of it has been taken out: what it had mounted is no more. lock is held. */
static void begin_fencing(struct mci_registry *registry,
                          struct mci_member *member)
{
    member->stage = MCI_STAGE_FENCING;
    mci_list_remove(&member->link);
    mci_list_push_back(&registry->fencing, &member->link);
    while (!mci_list_is_empty(&member->segments)) {
        mci_mounted_free(registry, MCI_CONTAINER(member->segments.next,
                                                 struct mci_mounted, link));
    }
}

static void clear_book(struct mci_registry *registry, struct mci_member *member)
{
    (void)pthread_mutex_lock(&member->book_lock);
    atomic_fetch_sub_explicit(&registry->attempts, member->book.index.count,
                              memory_order_relaxed);
    mci_book_fini(&member->book);
    member->book.is_closed = true;
    (void)pthread_mutex_unlock(&member->book_lock);
}

/* The first of a list, which goes to its end (counted); NULL: it is empty. */
static struct mci_member *next_in_turn(struct mci_registry *registry,
                                       struct mci_link *list)
{
    struct mci_member *member = NULL;
    mci_registry_lock(registry);
    if (!mci_list_is_empty(list)) {
        member = MCI_CONTAINER(list->next, struct mci_member, link);
        mci_list_remove(&member->link);
        mci_list_push_back(list, &member->link);
        mci_member_hold(member);
    }
    mci_registry_unlock(registry);
    return member;
}

/* A slice of a member that leaves; false if there is none. */
static bool step_leaving(struct mci_registry *registry, uint64_t now_ns,
                         uint64_t deadline_ns)
{
    struct mci_member *member = next_in_turn(registry, &registry->leaving);
    if (!member) {
        return false;
    }
    bool is_done = false;
    enum mc_err err = mci_master_client_step(
        registry->opts.master, member->client, now_ns, deadline_ns, &is_done);
    if (err == MC_OK && is_done) {
        mci_registry_lock(registry);
        begin_fencing(registry, member);
        mci_registry_unlock(registry);
        clear_book(registry, member);
    }
    mci_member_release(member);
    return true;
}

/* Those whose last proof has come are over. The core had nothing more to tell
 * after their last slice. */
static void step_fencing(struct mci_registry *registry)
{
    for (unsigned i = 0; i < FENCING_PER_STEP; i++) {
        struct mci_member *member = next_in_turn(registry, &registry->fencing);
        if (!member) {
            return;
        }
        mci_registry_lock(registry);
        bool is_over = member->doubts == 0;
        if (is_over) {
            mci_list_remove(&member->link);
            mci_covers_drop(member);
            registry->members[member->client] = NULL;
        }
        mci_registry_unlock(registry);
        if (is_over) {
            mci_master_client_fenced(registry->opts.master, member->client);
            mci_member_release(member);
        }
        mci_member_release(member);
    }
}

uint64_t mci_registry_step(struct mci_registry *registry, uint64_t now_ns,
                           uint64_t deadline_ns)
{
    uint64_t next_ns = now_ns + REST_NS;
    struct mci_member *expired = find_expired(registry, now_ns, &next_ns);
    if (expired) {
        mci_member_end(registry, expired, true);
        mci_member_release(expired);
    }
    end_graces(registry, now_ns, &next_ns);
    bool all_told = mci_doubts_collect(registry);
    bool all_released = mci_doubts_release(registry);
    bool was_segment = step_segment(registry, now_ns, deadline_ns);
    if (all_told) {
        step_fencing(registry);
    }
    bool was_member = step_leaving(registry, now_ns, deadline_ns);
    bool more =
        expired || !all_told || !all_released || was_segment || was_member;
    return more ? now_ns : next_ns;
}

/* ---- stat -------------------------------------------------------------- */

void mci_registry_stat(struct mci_registry *registry,
                       struct mci_registry_stats *stats_out)
{
    mci_registry_lock(registry);
    *stats_out = (struct mci_registry_stats){
        .clients = registry->living_count,
        .segments = registry->mounted_count,
        .expired_clients = registry->expired_count,
        .left_clients = registry->left_count,
        .fences_open = registry->fences_open,
        .attempts = atomic_load(&registry->attempts),
        .stuck = registry->stuck,
        .bad_receipts = atomic_load(&registry->bad_receipts)};
    mci_registry_unlock(registry);
}
