/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.c - how attempts end: published, discarded, or in doubt. */
#include "group.h"
#include "media.h"
#include "quota.h"
#include "space.h"
#include "version.h"
#include "writer.h"

void mci_attempt_used(const struct mci_change *change, uint32_t index,
                      uint64_t now_ns)
{
    struct mci_shard *shard = change->shard;
    mci_queue_remove(&shard->pool, &shard->open, index);
    mci_queue_push_back(&shard->pool, &shard->open, index);
    mci_pool_at(&shard->pool, index)->used_ns = now_ns;
}

/* ---- without a trace --------------------------------------------------- */

/* An open attempt leaves its queue; its fate is settled. */
static void close_attempt(const struct mci_change *change, uint32_t index,
                          enum mci_fate fate)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    mci_queue_remove(&shard->pool, &shard->open, index);
    shard->counts.attempts--;
    mci_fate_settle(change->master, record->number, fate);
}

void mci_attempt_discard(const struct mci_change *change, uint32_t index,
                         enum mci_fate fate, uint64_t until_ns)
{
    struct mci_shard *shard = change->shard;
    close_attempt(change, index, fate);
    mci_chain_remove(change->master, shard, change->slot, index);
    mci_pool_at(&shard->pool, index)->lease_ns = until_ns;
    mci_version_retire(change, index);
}

/* ---- in doubt ---------------------------------------------------------- */

void mci_attempt_doubt(const struct mci_change *change, uint32_t index)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    close_attempt(change, index, MCI_FATE_REFUSED);
    mci_quota_discharge(change->master, record->label->tenant,
                        mci_version_copy_bytes(shard, index));
    record->state = MCI_RECORD_DOUBTFUL;
    record->used_ns = change->now_ns;
    mci_queue_push_back(&shard->pool, &shard->doubtful, index);
    shard->counts.doubtful++;
    shard->counts.doubtful_bytes += mci_range_bytes(record->bytes);
    if (shard->untold == 0) {
        shard->untold = index;
    }
    atomic_fetch_add(&change->master->untold, 1);
}

uint32_t mci_doubt_told(struct mci_master *master, struct mci_shard *shard)
{
    uint32_t index = shard->untold;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    record->marks |= MCI_MARK_TOLD;
    shard->untold = record->next;
    atomic_fetch_sub(&master->untold, 1);
    return index;
}

void mci_attempt_proven(const struct mci_change *change, uint32_t index)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    if (!(record->marks & MCI_MARK_TOLD)) {
        atomic_fetch_sub(&change->master->untold, 1);
    }
    if (shard->untold == index) {
        shard->untold = record->next;
    }
    mci_queue_remove(&shard->pool, &shard->doubtful, index);
    shard->counts.doubtful--;
    shard->counts.doubtful_bytes -= mci_range_bytes(record->bytes);
    mci_chain_remove(change->master, shard, change->slot, index);
    mci_record_free(shard, index, change->leavings);
}

/* ---- closed segments --------------------------------------------------- */

static bool is_gone(const struct mci_change *change, uint32_t copy)
{
    const struct mci_record *record = mci_pool_at(&change->shard->pool, copy);
    return atomic_load(&mci_space_at(change->master, record->segment)->is_gone);
}

static void leave_copy(const struct mci_change *change, uint16_t tenant,
                       uint32_t copy)
{
    struct mci_record *record = mci_pool_at(&change->shard->pool, copy);
    mci_leavings_range(change->leavings, record->segment, record->extent,
                       record->bytes);
    mci_quota_discharge(change->master, tenant, record->bytes);
    record->extent = 0;
}

static void shed_further(const struct mci_change *change, uint16_t tenant,
                         uint32_t *link)
{
    struct mci_pool *pool = &change->shard->pool;
    while (*link != 0) {
        uint32_t copy = *link;
        if (!is_gone(change, copy)) {
            link = &mci_pool_at(pool, copy)->at.next_copy;
            continue;
        }
        leave_copy(change, tenant, copy);
        *link = mci_pool_at(pool, copy)->at.next_copy;
        mci_pool_give(pool, copy);
    }
}

static uint32_t count_copies(const struct mci_shard *shard, uint32_t index)
{
    uint32_t count = 0;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        count++;
    }
    return count;
}

uint32_t mci_attempt_shed(const struct mci_change *change, uint32_t index)
{
    struct mci_pool *pool = &change->shard->pool;
    struct mci_record *record = mci_pool_at(pool, index);
    struct mci_extras *extras = mci_label_extras(record->label);
    if (extras) {
        shed_further(change, record->label->tenant, &extras->copies);
    }
    if (is_gone(change, index)) {
        leave_copy(change, record->label->tenant, index);
        uint32_t next = extras ? extras->copies : 0;
        if (next != 0) {
            struct mci_record *copy = mci_pool_at(pool, next);
            mci_record_move_copy(record, copy);
            extras->copies = copy->at.next_copy;
            mci_pool_give(pool, next);
        }
    }
    return count_copies(change->shard, index);
}

/* ---- published --------------------------------------------------------- */

static void settle_soft_pin(const struct mci_change *change,
                            struct mci_record *record, uint64_t old_soft_ns)
{
    struct mci_extras *extras = mci_label_extras(record->label);
    if (!extras) {
        return;
    }
    uint64_t soft_ns = 0;
    if (extras->soft_action == MC_SOFT_PIN_ENABLE) {
        soft_ns = extras->soft_ns > MCI_NEVER - change->now_ns
                      ? MCI_NEVER
                      : change->now_ns + extras->soft_ns;
    } else if (extras->soft_action == MC_SOFT_PIN_PRESERVE) {
        soft_ns = old_soft_ns;
    }
    extras->soft_ns = soft_ns > change->now_ns ? soft_ns : 0;
    if (extras->soft_ns != 0) {
        record->marks |= MCI_MARK_SOFT;
        mci_hint_lower(&change->shard->soft_ns, soft_ns);
        mci_hint_lower(&change->master->due_ns, soft_ns);
    }
}

static uint64_t soft_ns_of(const struct mci_record *record)
{
    const struct mci_extras *extras = mci_label_extras(record->label);
    return extras ? extras->soft_ns : 0;
}

/* Group and tag of the former version, where the new one names none. */
static void inherit(struct mci_record *record, struct mci_record *former)
{
    struct mci_extras *extras = mci_label_extras(record->label);
    struct mci_extras *former_extras = mci_label_extras(former->label);
    if (!extras->member.group && former_extras) {
        extras->member.group = former_extras->member.group;
        former_extras->member.group = NULL;
    }
    if (record->label->tag_len == 0) {
        mci_label_inherit(record->label, former->label);
    }
}

/* The former version leaves lanes, chain and group; its place on disk is not
 * this version's. */
static void step_down(const struct mci_change *change, uint32_t former)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *record = mci_pool_at(&shard->pool, former);
    mci_version_leave_lanes(change->master, shard, former);
    mci_group_leave(record->label);
    mci_version_leave_disk(change->master, record);
}

/* The chain is never empty in between, so the slot stays where it is. */
static void move_to_front(const struct mci_change *change, uint32_t former,
                          uint32_t index)
{
    struct mci_shard *shard = change->shard;
    struct mci_slot *slot = change->slot;
    if (former != 0) {
        mci_chain_remove(change->master, shard, slot, former);
    }
    if (slot->index != index) {
        mci_chain_remove(change->master, shard, slot, index);
        mci_chain_add(shard, slot, index);
    }
}

void mci_version_publish(const struct mci_change *change, uint32_t index,
                         bool is_spent)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    uint32_t former = mci_chain_linked(shard, change->slot);
    struct mci_record *old = former ? mci_pool_at(&shard->pool, former) : NULL;
    struct mci_media_change media = {.from = NULL};
    uint64_t old_soft_ns = 0;

    close_attempt(change, index, MCI_FATE_COMMITTED);
    if (old) {
        mci_media_from(&media, old, old->marks & MCI_MARK_MEDIA);
        old_soft_ns = soft_ns_of(old);
        record->marks |= old->marks & MCI_MARK_HARD;
        step_down(change, former);
        inherit(record, old);
    }
    settle_soft_pin(change, record, old_soft_ns);
    record->marks |= is_spent ? 0 : MCI_MARK_UNSPENT;
    record->state = MCI_RECORD_READABLE;
    move_to_front(change, former, index);
    record->used_ns = change->now_ns;
    record->lease_ns = 0;
    mci_media_to(&media, record, MC_MEDIUM_CPU);
    mci_media_change(change->master, shard, &media, change->reserved);
    shard->counts.commits++;
    mci_group_join(record->label, mci_ref_make(shard->index, index));
    mci_version_enter_lanes(change->master, shard, index);
    if (old) {
        mci_version_retire(change, former);
    }
}

/* ---- promoted ---------------------------------------------------------- */

/* The owner of the promotion's extent is its record, so the version moves there;
 * the record that it leaves is the spare one for when memory goes again. */
void mci_attempt_promote(const struct mci_change *change, uint32_t index,
                         uint32_t target, bool is_spent)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    struct mci_record *version = mci_pool_at(&shard->pool, target);
    struct mci_label *label = record->label;
    struct mci_extras *extras = mci_label_extras(version->label);

    close_attempt(change, index, MCI_FATE_COMMITTED);
    /* It takes the version's place in the chain, label and all. */
    mci_chain_remove(change->master, shard, change->slot, index);
    change->slot->index = index;
    record->label = version->label;
    record->number = version->number;
    record->lease_ns = version->lease_ns;
    record->marks = version->marks;
    record->marks &= (uint8_t)~MCI_MARK_UNSPENT; /* of memory long gone */
    record->marks |= is_spent ? 0 : MCI_MARK_UNSPENT;
    /* An exist lease counts from the last use: nobody has asked again. But a
     * grant that may be alive counts from now. */
    record->used_ns = (version->marks & MCI_MARK_ASKED) && is_spent
                          ? version->used_ns
                          : change->now_ns;
    record->state = MCI_RECORD_READABLE;
    record->at.cpu_id = 0;
    mci_named_move(shard->named, &shard->pool, target, index);
    *version = (struct mci_record){.label = NULL};
    mci_leavings_label(change->leavings, label);
    extras->spare = target;
    mci_group_move(record->label, mci_ref_make(shard->index, index));
    mci_version_enter_lanes(change->master, shard, index);
    if (record->marks & MCI_MARK_SOFT) {
        mci_hint_lower(&shard->soft_ns, extras->soft_ns);
        mci_hint_lower(&change->master->due_ns, extras->soft_ns);
    }
    struct mci_media_change media = {.from = NULL};
    mci_media_to(&media, record, MC_MEDIUM_CPU);
    mci_media_change(change->master, shard, &media, change->reserved);
}
