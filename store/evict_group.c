/* SPDX-License-Identifier: Apache-2.0 */
/* evict_group.c - one member gone, the rest of the group should go too.
 *
 * Members are taken one by one, each under its own shard lock, and the group's
 * deadline is judged for each: once the group is leased, its eviction ends. One
 * allocation does a bounded part of it; what is left waits in a line and is the
 * first to go next time.
 */
#include "evict.h"
#include "group.h"
#include "version.h"

#define MEMBERS_PER_TURN 64

enum turn { TURN_MEMBER, TURN_EMPTY, TURN_LEASED };

/* The next member in turn. */
static enum turn next_member(const struct mci_eviction *eviction,
                             enum mci_level level, struct mci_group *group,
                             uint64_t *ref_out)
{
    enum turn turn = TURN_EMPTY;
    mci_group_lock(group);
    uint64_t until_ns = group->lease_ns;
    if (level < MCI_LEVEL_ASKED && group->asked_ns > until_ns) {
        until_ns = group->asked_ns;
    }
    if (!mci_list_is_empty(&group->members)) {
        turn =
            until_ns > mci_eviction_now(eviction) ? TURN_LEASED : TURN_MEMBER;
    }
    if (turn == TURN_MEMBER) {
        struct mci_link *link = group->members.next;
        *ref_out = MCI_CONTAINER(link, struct mci_membership, link)->ref;
        mci_list_remove(link);
        mci_list_push_back(&group->members, link);
    }
    mci_group_unlock(group);
    return turn;
}

/* Where a member's first copy stands, if it still is one. */
struct stand {
    struct mci_space *space;
    uint32_t extent;
    uint64_t bytes;
};

static bool locate(const struct mci_eviction *eviction,
                   const struct mci_group *group, uint64_t ref,
                   struct stand *stand_out)
{
    struct mci_shard *shard = &eviction->master->shards[ref >> 32];
    uint32_t index = (uint32_t)ref;
    bool found = false;
    mci_shard_lock(shard);
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    if (record->state == MCI_RECORD_READABLE && record->extent != 0 &&
        mci_group_of(record->label) == group) {
        stand_out->space = mci_space_at(eviction->master, record->segment);
        stand_out->extent = record->extent;
        stand_out->bytes = record->bytes;
        found = true;
    }
    mci_shard_unlock(shard);
    return found;
}

static enum mci_evicted evict_member(const struct mci_eviction *eviction,
                                     enum mci_level level,
                                     const struct mci_group *group,
                                     uint64_t ref)
{
    struct mci_eviction here = *eviction;
    struct stand stand;
    if (!locate(eviction, group, ref, &stand)) {
        return MCI_EVICTED_NONE;
    }
    struct mci_leavings leavings;
    mci_leavings_init(&leavings);
    here.space = stand.space;
    enum mci_evicted evicted =
        mci_evict_extent(&here, level, ref, stand.extent, &leavings);
    if (evicted == MCI_EVICTED_ONE) {
        eviction->sink(eviction->sink_ctx, &leavings);
    }
    return evicted;
}

/* Puts the group into the line, which then has the reference. */
static void line_up(struct mci_master *master, struct mci_group *group,
                    bool first)
{
    bool is_new = false;
    (void)pthread_mutex_lock(&master->partial_lock);
    if (!group->is_partial) {
        group->is_partial = true;
        is_new = true;
        if (first) {
            mci_list_push_front(&master->partial, &group->partial_link);
        } else {
            mci_list_push_back(&master->partial, &group->partial_link);
        }
    }
    (void)pthread_mutex_unlock(&master->partial_lock);
    if (!is_new) {
        mci_group_put(master, group);
    }
}

/* What is left waits in the line, unless nothing of it may go. */
static void end_turn(struct mci_master *master, struct mci_group *group,
                     bool has_more)
{
    if (group && has_more) {
        line_up(master, group, false);
    } else {
        mci_group_put(master, group);
    }
}

void mci_evict_group(const struct mci_eviction *eviction, enum mci_level level,
                     struct mci_group *group)
{
    uint64_t ref = 0;
    uint64_t first_left = 0; /* a member that stays: once around is enough */
    for (unsigned i = 0; i < MEMBERS_PER_TURN; i++) {
        enum turn turn = next_member(eviction, level, group, &ref);
        if (turn != TURN_MEMBER || ref == first_left) {
            end_turn(eviction->master, group, turn == TURN_LEASED);
            return;
        }
        enum mci_evicted evicted = evict_member(eviction, level, group, ref);
        if (evicted == MCI_EVICTED_TIMEOUT) {
            break;
        }
        if (evicted != MCI_EVICTED_ONE && first_left == 0) {
            first_left = ref;
        }
    }
    end_turn(eviction->master, group, true);
}

static struct mci_group *next_in_line(struct mci_master *master)
{
    struct mci_group *group = NULL;
    (void)pthread_mutex_lock(&master->partial_lock);
    if (!mci_list_is_empty(&master->partial)) {
        struct mci_link *link = master->partial.next;
        group = MCI_CONTAINER(link, struct mci_group, partial_link);
        mci_list_remove(link);
        group->is_partial = false;
    }
    (void)pthread_mutex_unlock(&master->partial_lock);
    return group;
}

/* The next member that may go of the group that is first in line. A leased one
 * lines up again; one of whose members none may go leaves the line, and they
 * stay in their lanes. */
enum mci_evicted mci_evict_partial(const struct mci_eviction *eviction,
                                   enum mci_level level, uint64_t min_bytes,
                                   struct mci_leavings *leavings)
{
    struct mci_master *master = eviction->master;
    struct mci_group *group = next_in_line(master);
    uint64_t ref = 0;
    uint64_t first_left = 0;
    for (unsigned i = 0; group && i < MEMBERS_PER_TURN; i++) {
        struct stand stand;
        enum turn turn = next_member(eviction, level, group, &ref);
        if (turn != TURN_MEMBER || ref == first_left) {
            end_turn(master, group, turn == TURN_LEASED);
            return MCI_EVICTED_NONE;
        }
        first_left = first_left == 0 ? ref : first_left;
        if (!locate(eviction, group, ref, &stand) ||
            stand.space != eviction->space) {
            continue;
        }
        if (stand.bytes < min_bytes) {
            line_up(master, group, true);
            return MCI_EVICTED_SMALL;
        }
        enum mci_evicted evicted =
            mci_evict_extent(eviction, level, ref, stand.extent, leavings);
        if (evicted != MCI_EVICTED_NONE) {
            end_turn(master, group, evicted == MCI_EVICTED_TIMEOUT);
            return evicted;
        }
    }
    end_turn(master, group, true);
    return MCI_EVICTED_NONE;
}
