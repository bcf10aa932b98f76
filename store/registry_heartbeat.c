/* SPDX-License-Identifier: Apache-2.0 */
/* registry_heartbeat.c - what a member says of itself each second, and is told.
 *
 * A heartbeat lists the open attempts its sender knows, so the book can be held
 * against it, both ways: what is not open here is answered as closed; what is
 * not listed there, though the slot that started it has moved on, has no writer.
 * Nobody learned the address of one that never was listed, so its range is kept
 * back no longer than the grant that nobody has; one that was listed ends in
 * doubt.
 */
#include <string.h>

#include "registry_parts.h"
#include "writer.h"

#define COLLECTS_PER_HEARTBEAT 16 /* the rest is the step's */

/* One heartbeat under way. */
struct beat {
    struct mci_registry *registry;
    struct mci_member *member;
    const struct mci_heartbeat *heartbeat;
    struct mci_pulse_room *room;
    uint64_t now_ns;
    uint32_t closed_count;
    uint32_t renewal_count;
    bool is_any_doubtful;
};

/* ---- alive ------------------------------------------------------------- */

/* How far a clock is ahead, at least; may be below 0. */
static int64_t ahead_ns(const struct mci_clock_word *word)
{
    return (int64_t)(word->clock_ns - word->at_ns);
}

/* Each word is a bound from below; of the latest ones the one that was shortest
 * on its way is the best. Older ones are dropped, for clocks do stop. lock is
 * held. */
static void note_clock(struct beat *beat)
{
    struct mci_member *member = beat->member;
    const struct mci_clock_word word = {beat->heartbeat->clock_ns,
                                        beat->now_ns};
    member->words[member->word_at++ % MCI_CLOCK_WORDS] = word;
    member->clock = word;
    uint32_t count =
        member->word_at < MCI_CLOCK_WORDS ? member->word_at : MCI_CLOCK_WORDS;
    for (uint32_t i = 0; i < count; i++) {
        if (ahead_ns(&member->words[i]) > ahead_ns(&member->clock)) {
            member->clock = member->words[i];
        }
    }
    if (!member->has_clock) {
        member->has_clock = true;
        mci_mounted_admit(beat->registry, member);
    }
}

static enum mc_err note_alive(struct beat *beat)
{
    struct mci_registry *registry = beat->registry;
    struct mci_member *member = beat->member;
    enum mc_err err = MC_ERR_CLIENT_NOT_FOUND;
    mci_registry_lock(registry);
    if (member->stage == MCI_STAGE_LIVING) {
        err = MC_OK;
        member->is_hung_up = false;
        if (member->seen_ns < beat->now_ns) {
            member->seen_ns = beat->now_ns;
        }
        mci_list_remove(&member->link);
        mci_list_push_back(&registry->living, &member->link);
        note_clock(beat);
    }
    mci_registry_unlock(registry);
    return err;
}

/* ---- attempts that are listed ------------------------------------------ */

static void drop_entry(struct beat *beat, struct mci_entry *entry)
{
    mci_book_remove(&beat->member->book, entry);
    atomic_fetch_sub_explicit(&beat->registry->attempts, 1,
                              memory_order_relaxed);
}

static void tell_closed(struct beat *beat, uint64_t number)
{
    if (beat->closed_count < MC_ATTEMPTS_MAX) {
        beat->room->closed[beat->closed_count++] = number;
    }
}

static void tell_if_closed(struct beat *beat, uint64_t number)
{
    enum mci_fate fate = mci_master_attempt_fate(
        beat->registry->opts.master, beat->member->client,
        (struct mci_attempt){beat->registry->opts.epoch, number});
    if (fate == MCI_FATE_REFUSED || fate == MCI_FATE_UNKNOWN) {
        tell_closed(beat, number);
    }
}

/* A range call that was not heard of keeps the attempt alive. */
static void note_age(struct beat *beat, struct mci_entry *entry,
                     const struct mci_known_attempt *known)
{
    uint64_t age_ns = known->age_ms > UINT64_MAX / MCI_NS_PER_MS
                          ? UINT64_MAX
                          : known->age_ms * MCI_NS_PER_MS;
    uint64_t used_ns = age_ns < beat->now_ns ? beat->now_ns - age_ns : 0;
    if (used_ns <= entry->touched_ns) {
        return;
    }
    entry->touched_ns = used_ns;
    /* One that is closed by now is told so by the next heartbeat. */
    (void)!mci_master_attempt_alive(beat->registry->opts.master, entry->ref,
                                    entry->number, used_ns);
}

static bool needs_renewal(const struct beat *beat,
                          const struct mci_entry *entry)
{
    uint64_t ttl_ns = mci_grant_ttl_ns(beat->registry, entry->bytes);
    uint64_t soon_ns = 3 * beat->registry->heartbeat_ns;
    uint64_t least_ns = ttl_ns / 2 > soon_ns ? ttl_ns / 2 : soon_ns;
    return entry->until_ns < beat->now_ns + least_ns;
}

/* Some of the attempts that the heartbeat lists; those whose grants are to be
 * renewed are copied out. book_lock is held. */
static uint32_t check_listed(struct beat *beat, uint32_t from, uint32_t to,
                             struct mci_entry *renewed)
{
    struct mci_book *book = &beat->member->book;
    uint32_t count = 0;
    for (uint32_t i = from; i < to; i++) {
        const struct mci_known_attempt *known = &beat->heartbeat->attempts[i];
        struct mci_entry *entry = mci_book_find(book, known->number);
        bool is_open =
            entry && mci_entry_is_open(beat->registry, beat->member, entry);
        if (!is_open) {
            tell_if_closed(beat, known->number);
        }
        if (!entry) {
            continue;
        }
        if (!is_open) {
            drop_entry(beat, entry);
            continue;
        }
        entry->heard = book->heartbeats;
        note_age(beat, entry, known);
        if (needs_renewal(beat, entry)) {
            entry->until_ns =
                beat->now_ns + mci_grant_ttl_ns(beat->registry, entry->bytes);
            renewed[count++] = *entry;
        }
    }
    return count;
}

static void renew(struct beat *beat, const struct mci_entry *entry)
{
    if (beat->renewal_count >= MC_ATTEMPTS_MAX) {
        return;
    }
    struct mci_renewal *renewal = &beat->room->renewals[beat->renewal_count++];
    renewal->attempt = entry->number;
    renewal->place_count = entry->place_count;
    mci_grants_sign(beat->registry, beat->member, entry, entry->until_ns,
                    renewal->grants);
}

static void go_through_listed(struct beat *beat)
{
    struct mci_member *member = beat->member;
    uint32_t count = beat->heartbeat->attempt_count;
    for (uint32_t i = 0; i < count; i += MCI_SLICE_ROWS) {
        struct mci_entry renewed[MCI_SLICE_ROWS];
        uint32_t end = count - i < MCI_SLICE_ROWS ? count : i + MCI_SLICE_ROWS;
        (void)pthread_mutex_lock(&member->book_lock);
        uint32_t renewals = check_listed(beat, i, end, renewed);
        (void)pthread_mutex_unlock(&member->book_lock);
        for (uint32_t j = 0; j < renewals; j++) {
            renew(beat, &renewed[j]);
        }
    }
}

/* ---- attempts that are not --------------------------------------------- */

static bool has_moved_on(const struct beat *beat, const struct mci_entry *entry)
{
    const struct mci_heartbeat *heartbeat = beat->heartbeat;
    return entry->slot < heartbeat->slot_count &&
           heartbeat->slots[entry->slot] > entry->request;
}

/* Book_lock is held. */
static void close_unlisted(struct beat *beat, struct mci_entry *entry)
{
    struct mci_master *master = beat->registry->opts.master;
    if (entry->heard == 0) {
        (void)!mci_master_attempt_abandon(master, entry->ref, entry->number,
                                          entry->until_ns, beat->now_ns);
    } else if (mci_master_attempt_doubt(master, entry->ref, entry->number,
                                        beat->now_ns) == MC_OK) {
        beat->is_any_doubtful = true;
    }
    drop_entry(beat, entry);
}

static void go_through_book(struct beat *beat)
{
    struct mci_member *member = beat->member;
    struct mci_book *book = &member->book;
    uint32_t at = 1;
    bool more = true;
    while (more) {
        (void)pthread_mutex_lock(&member->book_lock);
        uint32_t closed = 0;
        for (; at < book->touched && closed < MCI_SLICE_ROWS; at++) {
            struct mci_entry *entry = &book->entries[at];
            if (entry->number != 0 && entry->heard != book->heartbeats &&
                has_moved_on(beat, entry)) {
                close_unlisted(beat, entry);
                closed++;
            }
        }
        more = at < book->touched;
        (void)pthread_mutex_unlock(&member->book_lock);
    }
}

/* ---- the answer -------------------------------------------------------- */

/* What this member's word proves, and what it has to do next. */
static uint32_t go_through_fences(struct beat *beat)
{
    struct mci_registry *registry = beat->registry;
    for (unsigned i = 0; i < COLLECTS_PER_HEARTBEAT; i++) {
        if (mci_doubts_collect(registry)) {
            break;
        }
    }
    mci_registry_lock(registry);
    mci_doubts_prove(registry, beat->member, beat->heartbeat);
    uint32_t count =
        mci_fences_tell(beat->member, beat->room->fences, MCI_FENCES_MAX);
    mci_registry_unlock(registry);
    for (unsigned i = 0; i < COLLECTS_PER_HEARTBEAT; i++) {
        if (mci_doubts_release(registry)) {
            break;
        }
    }
    return count;
}

enum mc_err mci_registry_heartbeat(struct mci_registry *registry,
                                   struct mci_member *member,
                                   const struct mci_heartbeat *heartbeat,
                                   uint64_t now_ns, struct mci_pulse_room *room,
                                   struct mci_pulse *pulse_out)
{
    struct beat beat = {.registry = registry,
                        .member = member,
                        .heartbeat = heartbeat,
                        .room = room,
                        .now_ns = now_ns};
    enum mc_err err = note_alive(&beat);
    if (err != MC_OK) {
        return err;
    }
    (void)pthread_mutex_lock(&member->book_lock);
    member->book.heartbeats++;
    (void)pthread_mutex_unlock(&member->book_lock);
    go_through_listed(&beat);
    go_through_book(&beat);
    uint32_t fences = go_through_fences(&beat);
    *pulse_out = (struct mci_pulse){.fences = room->fences,
                                    .fence_count = fences,
                                    .closed = room->closed,
                                    .closed_count = beat.closed_count,
                                    .renewals = room->renewals,
                                    .renewal_count = beat.renewal_count};
    return MC_OK;
}
