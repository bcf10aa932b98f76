/* SPDX-License-Identifier: Apache-2.0 */
/* registry_doubts.c - attempts in quarantine, and the fences that bring proof.
 *
 * For each attempt in doubt every owner of one of its places has to say that
 * nothing of it can be written any more. The fence that asks for this stands with
 * the place itself, so that what is in doubt needs no memory beyond what was put
 * aside before the core told of it. Attempts of an incarnation that has ended
 * share one fence per owner; the first of them carries it.
 *
 * An owner's heartbeat says up to which fence it is done and what is stuck
 * nevertheless. Both were true when it was composed, so a place is proven by any
 * heartbeat that covers its fence and does not list its attempt, in whatever
 * order heartbeats come.
 */
#include <string.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "registry_parts.h"

#define SPARES_MAX 1024
#define REPORTS_PER_STEP 16

/* ---- memory ------------------------------------------------------------ */

/* Room for some more. lock is held. */
static bool have_spares(struct mci_registry *registry)
{
    while (registry->spare_count < MCI_SLICE_ROWS) {
        struct mci_in_doubt *spare = mci_calloc(1, sizeof *spare);
        if (!spare) {
            return false;
        }
        mci_list_push_back(&registry->spare, &spare->link);
        registry->spare_count++;
    }
    return mci_numbers_reserve(&registry->doubts, MCI_SLICE_ROWS) == MC_OK;
}

static struct mci_in_doubt *take_spare(struct mci_registry *registry)
{
    struct mci_link *link = registry->spare.next;
    mci_list_remove(link);
    registry->spare_count--;
    struct mci_in_doubt *taken = MCI_CONTAINER(link, struct mci_in_doubt, link);
    memset(taken, 0, sizeof *taken);
    mci_list_init(&taken->link);
    for (uint32_t i = 0; i < MCI_REPLICAS_MAX; i++) {
        mci_list_init(&taken->places[i].link);
    }
    return taken;
}

static void give_spare(struct mci_registry *registry,
                       struct mci_in_doubt *in_doubt)
{
    if (registry->spare_count >= SPARES_MAX) {
        mci_free(in_doubt);
        return;
    }
    mci_list_push_back(&registry->spare, &in_doubt->link);
    registry->spare_count++;
}

static void free_list(struct mci_link *list)
{
    while (!mci_list_is_empty(list)) {
        struct mci_in_doubt *in_doubt =
            MCI_CONTAINER(list->next, struct mci_in_doubt, link);
        mci_list_remove(&in_doubt->link);
        for (uint32_t i = 0; i < MCI_REPLICAS_MAX; i++) {
            mci_member_release(in_doubt->places[i].owner);
        }
        mci_member_release(in_doubt->writer);
        mci_free(in_doubt);
    }
}

void mci_doubts_fini(struct mci_registry *registry)
{
    struct mci_link *spare = &registry->spare;
    while (!mci_list_is_empty(spare)) {
        struct mci_in_doubt *in_doubt =
            MCI_CONTAINER(spare->next, struct mci_in_doubt, link);
        mci_list_remove(&in_doubt->link);
        mci_free(in_doubt);
    }
    free_list(&registry->fresh);
    free_list(&registry->old);
    free_list(&registry->proven);
    mci_numbers_fini(&registry->doubts);
}

/* ---- settling ---------------------------------------------------------- */

static void set_stuck(struct mci_registry *registry,
                      struct mci_pending *pending, bool is_stuck)
{
    registry->stuck += is_stuck;
    registry->stuck -= pending->is_stuck;
    pending->is_stuck = is_stuck;
}

/* A place needs no proof any more. lock is held. */
static void settle(struct mci_registry *registry, struct mci_pending *pending)
{
    struct mci_in_doubt *in_doubt = pending->of;
    set_stuck(registry, pending, false);
    mci_list_remove(&pending->link);
    mci_member_release(pending->owner);
    pending->owner = NULL;
    in_doubt->left--;
    if (in_doubt->left == 0) {
        mci_list_remove(&in_doubt->link);
        mci_list_push_back(&registry->proven, &in_doubt->link);
    }
}

/* Others may count on the fence that this place has told for them: the next of
 * them tells it from now on, in the same place of the line, which is in order of
 * number. */
static void pass_on(struct mci_member *owner, struct mci_pending *pending,
                    uint32_t segment)
{
    struct mci_link *link = pending->link.next;
    for (; link != &owner->pending; link = link->next) {
        struct mci_pending *heir =
            MCI_CONTAINER(link, struct mci_pending, link);
        if (heir->fence == pending->fence && heir->segment != segment) {
            heir->is_carrier = true;
            mci_list_remove(&heir->link);
            mci_list_push_back(&pending->link, &heir->link);
            return;
        }
    }
}

void mci_doubts_let_go(struct mci_registry *registry, struct mci_member *owner,
                       uint32_t segment)
{
    struct mci_link *link = owner->pending.next;
    while (link != &owner->pending) {
        struct mci_pending *pending =
            MCI_CONTAINER(link, struct mci_pending, link);
        link = link->next;
        if (segment != 0 && pending->segment != segment) {
            continue;
        }
        if (segment != 0 && pending->is_carrier &&
            pending->kind == MC_FENCE_INCARNATION &&
            pending->fence > owner->fences_done) {
            pass_on(owner, pending, segment);
        }
        settle(registry, pending);
    }
}

/* ---- fences ------------------------------------------------------------ */

static uint64_t next_fence(struct mci_registry *registry,
                           struct mci_member *owner)
{
    registry->fences_open++;
    return ++owner->fences_issued;
}

static const struct mci_cover *find_cover(const struct mci_member *writer,
                                          const struct mci_member *owner)
{
    const struct mci_link *link = writer->covers.next;
    for (; link != &writer->covers; link = link->next) {
        const struct mci_cover *cover =
            (const struct mci_cover *)(const void *)((const char *)link -
                                                     offsetof(struct mci_cover,
                                                              link));
        if (cover->owner == owner) {
            return cover;
        }
    }
    return NULL;
}

/* NULL: no memory, then the attempt has a fence of its own. */
static struct mci_cover *add_cover(struct mci_member *writer,
                                   struct mci_member *owner)
{
    struct mci_cover *cover = mci_calloc(1, sizeof *cover);
    if (cover) {
        cover->owner = mci_member_hold(owner);
        mci_list_push_back(&writer->covers, &cover->link);
    }
    return cover;
}

void mci_covers_drop(struct mci_member *member)
{
    while (!mci_list_is_empty(&member->covers)) {
        struct mci_cover *cover =
            MCI_CONTAINER(member->covers.next, struct mci_cover, link);
        mci_list_remove(&cover->link);
        mci_member_release(cover->owner);
        mci_free(cover);
    }
}

static void set_fence(struct mci_registry *registry,
                      struct mci_pending *pending)
{
    struct mci_member *writer = pending->of->writer;
    pending->kind = MC_FENCE_ATTEMPT;
    pending->is_carrier = true;
    if (writer && writer->stage != MCI_STAGE_LIVING) {
        const struct mci_cover *known = find_cover(writer, pending->owner);
        if (known) {
            pending->fence = known->fence;
            pending->kind = MC_FENCE_INCARNATION;
            pending->is_carrier = false;
            return;
        }
        struct mci_cover *cover = add_cover(writer, pending->owner);
        pending->fence = next_fence(registry, pending->owner);
        if (cover) {
            cover->fence = pending->fence;
            pending->kind = MC_FENCE_INCARNATION;
        }
        return;
    }
    pending->fence = next_fence(registry, pending->owner);
}

uint32_t mci_fences_tell(struct mci_member *owner, struct mc_fence *fences_out,
                         uint32_t max)
{
    uint32_t count = 0;
    const struct mci_link *link = owner->pending.next;
    for (; link != &owner->pending && count < max; link = link->next) {
        const struct mci_pending *pending =
            (const struct mci_pending *)(const void *)((const char *)link -
                                                       offsetof(
                                                           struct mci_pending,
                                                           link));
        if (pending->is_carrier && pending->fence > owner->fences_done) {
            fences_out[count++] = (struct mc_fence){
                .number = pending->fence,
                .kind = pending->kind,
                .subject = pending->kind == MC_FENCE_INCARNATION
                               ? pending->of->incarnation
                               : pending->of->doubt.number};
        }
    }
    if (count > 0 && fences_out[count - 1].number > owner->fences_told) {
        owner->fences_told = fences_out[count - 1].number;
    }
    return count;
}

/* ---- collecting -------------------------------------------------------- */

/* lock is held. */
static void collect_one(struct mci_registry *registry,
                        const struct mci_doubt *doubt)
{
    struct mci_in_doubt *in_doubt = take_spare(registry);
    struct mci_member *writer = mci_member_at(registry, doubt->client);
    in_doubt->doubt = *doubt;
    if (writer) {
        in_doubt->writer = mci_member_hold(writer);
        in_doubt->incarnation = writer->incarnation;
        writer->doubts++;
    }
    mci_numbers_put(&registry->doubts, doubt->number,
                    (uint64_t)(uintptr_t)in_doubt);
    in_doubt->left = 1; /* until all are there */
    mci_list_push_back(&registry->fresh, &in_doubt->link);
    for (uint32_t i = 0; i < doubt->place_count; i++) {
        const struct mci_mounted *mounted =
            mci_mounted_at(registry, doubt->segments[i]);
        if (!mounted || mounted->status == MCI_SEGMENT_UNMOUNTING) {
            continue;
        }
        struct mci_pending *pending = &in_doubt->places[i];
        pending->of = in_doubt;
        pending->segment = mounted->id;
        pending->owner = mci_member_hold(mounted->owner);
        mci_list_push_back(&mounted->owner->pending, &pending->link);
        in_doubt->left++;
        set_fence(registry, pending);
    }
    if (--in_doubt->left == 0) {
        mci_list_remove(&in_doubt->link);
        mci_list_push_back(&registry->proven, &in_doubt->link);
    }
}

bool mci_doubts_collect(struct mci_registry *registry)
{
    struct mci_doubt doubts[MCI_SLICE_ROWS];
    mci_registry_lock(registry);
    /* Taken under the lock, so that whoever ends a member afterwards finds in
     * its hands what the core has told. */
    size_t count = have_spares(registry)
                       ? mci_master_doubts_take(registry->opts.master, doubts,
                                                MCI_SLICE_ROWS)
                       : MCI_SLICE_ROWS + 1;
    for (size_t i = 0; i < count && count <= MCI_SLICE_ROWS; i++) {
        collect_one(registry, &doubts[i]);
    }
    mci_registry_unlock(registry);
    return count < MCI_SLICE_ROWS;
}

/* ---- proving ----------------------------------------------------------- */

static void note_stuck(struct mci_registry *registry,
                       const struct mci_member *owner, uint64_t number)
{
    uint64_t value = 0;
    if (!mci_numbers_get(&registry->doubts, number, &value)) {
        return;
    }
    struct mci_in_doubt *in_doubt = (struct mci_in_doubt *)(uintptr_t)value;
    for (uint32_t i = 0; i < MCI_REPLICAS_MAX; i++) {
        if (in_doubt->places[i].owner == owner) {
            in_doubt->places[i].stuck_at = owner->proofs;
        }
    }
}

void mci_doubts_prove(struct mci_registry *registry, struct mci_member *owner,
                      const struct mci_heartbeat *heartbeat)
{
    uint64_t done = heartbeat->fences_done;
    if (done > owner->fences_told) {
        done =
            owner->fences_told; /* nobody can be done with what is not told */
    }
    if (done > owner->fences_done) {
        registry->fences_open -= done - owner->fences_done;
        owner->fences_done = done;
    }
    owner->proofs++;
    for (uint32_t i = 0; i < heartbeat->stuck_count; i++) {
        note_stuck(registry, owner, heartbeat->stuck[i].attempt);
    }
    struct mci_link *link = owner->pending.next;
    while (link != &owner->pending) {
        struct mci_pending *pending =
            MCI_CONTAINER(link, struct mci_pending, link);
        link = link->next;
        if (pending->fence > done) {
            continue;
        }
        if (pending->stuck_at == owner->proofs) {
            set_stuck(registry, pending, true);
        } else {
            settle(registry, pending);
        }
    }
}

bool mci_doubts_release(struct mci_registry *registry)
{
    struct mci_doubt doubts[MCI_SLICE_ROWS];
    struct mci_link taken;
    size_t count = 0;
    mci_list_init(&taken);
    mci_registry_lock(registry);
    while (!mci_list_is_empty(&registry->proven) && count < MCI_SLICE_ROWS) {
        struct mci_in_doubt *in_doubt =
            MCI_CONTAINER(registry->proven.next, struct mci_in_doubt, link);
        mci_list_remove(&in_doubt->link);
        mci_list_push_back(&taken, &in_doubt->link);
        mci_numbers_remove(&registry->doubts, in_doubt->doubt.number);
        doubts[count++] = in_doubt->doubt;
    }
    bool more = !mci_list_is_empty(&registry->proven);
    mci_registry_unlock(registry);
    if (count == 0) {
        return true;
    }
    mci_master_doubts_free(registry->opts.master, doubts, count);
    mci_registry_lock(registry);
    while (!mci_list_is_empty(&taken)) {
        struct mci_in_doubt *in_doubt =
            MCI_CONTAINER(taken.next, struct mci_in_doubt, link);
        mci_list_remove(&in_doubt->link);
        if (in_doubt->writer) {
            in_doubt->writer->doubts--;
            mci_member_release(in_doubt->writer);
        }
        give_spare(registry, in_doubt);
    }
    mci_registry_unlock(registry);
    return !more;
}

/* ---- reporting --------------------------------------------------------- */

void mci_doubts_report(struct mci_registry *registry, uint64_t now_ns)
{
    for (unsigned i = 0; i < REPORTS_PER_STEP; i++) {
        if (mci_list_is_empty(&registry->fresh)) {
            return;
        }
        struct mci_in_doubt *in_doubt =
            MCI_CONTAINER(registry->fresh.next, struct mci_in_doubt, link);
        uint64_t since_ns = in_doubt->doubt.since_ns;
        if (now_ns < since_ns || now_ns - since_ns < registry->release_ns) {
            return;
        }
        mc_log(MC_LOG_WARN,
               "attempt %llu of client %u: in quarantine for %llu s: "
               "no proof that its writing has ended",
               (unsigned long long)in_doubt->doubt.number,
               (unsigned)in_doubt->doubt.client,
               (unsigned long long)((now_ns - since_ns) / MCI_NS_PER_S));
        mci_list_remove(&in_doubt->link);
        mci_list_push_back(&registry->old, &in_doubt->link);
    }
}
