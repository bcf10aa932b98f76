/* SPDX-License-Identifier: Apache-2.0 */
/* registry_grants.c - leave to touch memory, and the word that it is over.
 *
 * What a grant needs of its segment is copied out under the lock, some rows at a
 * time; the tags are made without it.
 */
#include <string.h>

#include "registry_parts.h"
#include "writer.h"

/* ---- signing ----------------------------------------------------------- */

void mci_grantor_get(const struct mci_registry *registry, uint32_t segment,
                     struct mci_grantor *grantor_out)
{
    const struct mci_mounted *mounted = mci_mounted_at(registry, segment);
    memset(grantor_out, 0, sizeof *grantor_out);
    if (!mounted || mounted->status == MCI_SEGMENT_UNMOUNTING) {
        grantor_out->is_gone = true;
        return;
    }
    memcpy(grantor_out->key, mounted->mount.key, sizeof grantor_out->key);
    grantor_out->registration = mounted->mount.registration;
    grantor_out->clock = mounted->owner->clock;
    grantor_out->is_known = mounted->owner->has_clock;
}

/* The owner's clock showed clock_ns no later than when the heartbeat came, so
 * what this answers is no later than the true time. */
static uint64_t on_owners_clock(const struct mci_clock_word *clock,
                                uint64_t deadline_ns)
{
    if (deadline_ns >= clock->at_ns) {
        uint64_t left_ns = deadline_ns - clock->at_ns;
        return left_ns > UINT64_MAX - clock->clock_ns
                   ? UINT64_MAX
                   : clock->clock_ns + left_ns;
    }
    uint64_t ago_ns = clock->at_ns - deadline_ns;
    return ago_ns < clock->clock_ns ? clock->clock_ns - ago_ns : 0;
}

struct mc_grant mci_grantor_sign(const struct mci_grantor *grantor,
                                 struct mc_grant_terms *terms,
                                 uint64_t deadline_ns)
{
    if (!grantor->is_known) {
        return (struct mc_grant){.deadline_ns = 0};
    }
    terms->registration = grantor->registration;
    struct mc_grant grant = {.deadline_ns =
                                 on_owners_clock(&grantor->clock, deadline_ns)};
    grant.tag = mc_grant_tag(grantor->key, terms, grant.deadline_ns);
    return grant;
}

uint64_t mci_grant_ttl_ns(const struct mci_registry *registry, uint64_t bytes)
{
    const uint64_t longest_ns = MC_GRANT_TTL_MAX_MS * MCI_NS_PER_MS;
    const uint64_t least_ns = MC_GRANT_TTL_MIN_MS * MCI_NS_PER_MS;
    uint64_t ttl_ns = mc_grant_write_ttl_ns(bytes);
    uint64_t max_ns = registry->ttl_ns < longest_ns - least_ns
                          ? longest_ns - registry->ttl_ns
                          : least_ns;
    return ttl_ns < max_ns ? ttl_ns : max_ns;
}

void mci_grants_sign(struct mci_registry *registry,
                     const struct mci_member *member,
                     const struct mci_entry *entry, uint64_t deadline_ns,
                     struct mc_grant *grants_out)
{
    struct mci_grantor grantors[MCI_REPLICAS_MAX];
    mci_registry_lock(registry);
    for (uint32_t i = 0; i < entry->place_count; i++) {
        mci_grantor_get(registry, entry->places[i].segment, &grantors[i]);
    }
    mci_registry_unlock(registry);
    for (uint32_t i = 0; i < entry->place_count; i++) {
        struct mc_grant_terms terms = {.incarnation = member->incarnation,
                                       .subject = entry->number,
                                       .offset = entry->places[i].offset,
                                       .len = entry->bytes,
                                       .is_write = true};
        grants_out[i] = mci_grantor_sign(&grantors[i], &terms, deadline_ns);
    }
}

/* ---- started ----------------------------------------------------------- */

static bool is_started(const struct mci_write_row *row)
{
    return row->err == MC_OK && row->attempt.number != 0;
}

static void fill_entry(struct mci_entry *entry, const struct mci_write_row *row,
                       uint64_t request, uint64_t now_ns)
{
    entry->ref = row->ref;
    entry->bytes = mci_row_bytes(row);
    entry->request = request;
    entry->touched_ns = now_ns;
    entry->place_count = row->place_count;
    memcpy(entry->places, row->places, sizeof entry->places);
}

static uint64_t until_of(const struct mci_registry *registry,
                         const struct mci_write_row *row, uint64_t time_left_ms,
                         uint64_t now_ns)
{
    uint64_t ttl_ns = mci_grant_ttl_ns(registry, row->size);
    if (time_left_ms < ttl_ns / MCI_NS_PER_MS) {
        ttl_ns = time_left_ms * MCI_NS_PER_MS;
    }
    return now_ns + ttl_ns;
}

static enum mc_err enter_rows(struct mci_member *member, uint32_t slot,
                              uint64_t request, uint64_t time_left_ms,
                              const struct mci_write_row *rows, size_t count,
                              uint64_t now_ns)
{
    size_t started = 0;
    (void)pthread_mutex_lock(&member->book_lock);
    enum mc_err err = member->book.is_closed
                          ? MC_ERR_CLIENT_NOT_FOUND
                          : mci_book_reserve(&member->book, count);
    for (size_t i = 0; i < count && err == MC_OK; i++) {
        if (!is_started(&rows[i])) {
            continue;
        }
        struct mci_entry *entry =
            mci_book_add(&member->book, rows[i].attempt.number, slot);
        fill_entry(entry, &rows[i], request, now_ns);
        entry->until_ns =
            until_of(member->registry, &rows[i], time_left_ms, now_ns);
        started++;
    }
    (void)pthread_mutex_unlock(&member->book_lock);
    atomic_fetch_add_explicit(&member->registry->attempts, started,
                              memory_order_relaxed);
    return err;
}

static void sign_writes(struct mci_registry *registry,
                        const struct mci_member *member,
                        struct mci_write_row *rows, size_t count,
                        uint64_t time_left_ms, uint64_t now_ns)
{
    struct mci_grantor grantors[MCI_SLICE_ROWS][MCI_REPLICAS_MAX];
    mci_registry_lock(registry);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t j = 0; is_started(&rows[i]) && j < rows[i].place_count;
             j++) {
            mci_grantor_get(registry, rows[i].places[j].segment,
                            &grantors[i][j]);
        }
    }
    mci_registry_unlock(registry);
    for (size_t i = 0; i < count; i++) {
        struct mci_write_row *row = &rows[i];
        uint64_t until_ns = until_of(registry, row, time_left_ms, now_ns);
        for (uint32_t j = 0; is_started(row) && j < row->place_count; j++) {
            struct mc_grant_terms terms = {.incarnation = member->incarnation,
                                           .subject = row->attempt.number,
                                           .offset = row->places[j].offset,
                                           .len = mci_row_bytes(row),
                                           .is_write = true};
            row->grants[j] =
                mci_grantor_sign(&grantors[i][j], &terms, until_ns);
        }
    }
}

/* The row's request is named by slot and number. */
/* NOLINTNEXTLINE(readability-function-size) */
enum mc_err mci_registry_started(struct mci_registry *registry,
                                 struct mci_member *member, uint32_t slot,
                                 uint64_t number, uint64_t time_left_ms,
                                 struct mci_write_row *rows, size_t count,
                                 uint64_t now_ns)
{
    slot %= MCI_SLOTS_MAX;
    enum mc_err err =
        enter_rows(member, slot, number, time_left_ms, rows, count, now_ns);
    if (err != MC_OK) {
        return err;
    }
    for (size_t i = 0; i < count; i += MCI_SLICE_ROWS) {
        size_t left = count - i;
        sign_writes(registry, member, &rows[i],
                    left < MCI_SLICE_ROWS ? left : MCI_SLICE_ROWS, time_left_ms,
                    now_ns);
    }
    return MC_OK;
}

/* ---- granted ----------------------------------------------------------- */

static void sign_reads(struct mci_registry *registry,
                       const struct mci_member *member,
                       struct mci_read_row *rows, size_t count, uint64_t now_ns)
{
    struct mci_grantor grantors[MCI_SLICE_ROWS][MCI_REPLICAS_MAX];
    mci_registry_lock(registry);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t j = 0; rows[i].err == MC_OK && j < rows[i].place_count;
             j++) {
            mci_grantor_get(registry, rows[i].places[j].segment,
                            &grantors[i][j]);
        }
    }
    mci_registry_unlock(registry);
    for (size_t i = 0; i < count; i++) {
        struct mci_read_row *row = &rows[i];
        uint64_t until_ns = row->lease_left_ns > UINT64_MAX - now_ns
                                ? UINT64_MAX
                                : now_ns + row->lease_left_ns;
        for (uint32_t j = 0; row->err == MC_OK && j < row->place_count; j++) {
            struct mc_grant_terms terms = {
                .incarnation = member->incarnation,
                .subject = row->version,
                .offset = row->places[j].offset,
                .len = mci_placed_bytes(row->size, row->has_sums)};
            row->grants[j] =
                mci_grantor_sign(&grantors[i][j], &terms, until_ns);
        }
    }
}

void mci_registry_granted(struct mci_registry *registry,
                          struct mci_member *member, struct mci_read_row *rows,
                          size_t count, uint64_t now_ns)
{
    for (size_t i = 0; i < count; i += MCI_SLICE_ROWS) {
        size_t left = count - i;
        sign_reads(registry, member, &rows[i],
                   left < MCI_SLICE_ROWS ? left : MCI_SLICE_ROWS, now_ns);
    }
}

/* ---- ended ------------------------------------------------------------- */

/* The places of an open attempt, as its start told them. */
static bool read_places(struct mci_registry *registry, uint64_t number,
                        struct mci_entry *entry_out)
{
    mci_registry_lock(registry);
    struct mci_member *member =
        mci_member_at(registry, mci_number_client(number));
    if (member) {
        mci_member_hold(member);
    }
    mci_registry_unlock(registry);
    if (!member) {
        return false;
    }
    (void)pthread_mutex_lock(&member->book_lock);
    const struct mci_entry *entry = mci_book_find(&member->book, number);
    if (entry) {
        *entry_out = *entry;
    }
    (void)pthread_mutex_unlock(&member->book_lock);
    mci_member_release(member);
    return entry != NULL;
}

/* A place whose segment is gone needs no receipt: nobody gets it again. */
static bool is_spent(struct mci_registry *registry,
                     const struct mci_write_row *row)
{
    struct mci_entry entry;
    if (!read_places(registry, row->attempt.number, &entry)) {
        return false;
    }
    bool all = true;
    for (uint32_t i = 0; i < entry.place_count; i++) {
        struct mci_grantor grantor;
        mci_registry_lock(registry);
        mci_grantor_get(registry, entry.places[i].segment, &grantor);
        mci_registry_unlock(registry);
        if (grantor.is_gone) {
            continue;
        }
        bool is_true = row->receipts[i] != 0 &&
                       row->receipts[i] ==
                           mc_grant_receipt(grantor.key, grantor.registration,
                                            row->attempt.number);
        if (row->receipts[i] != 0 && !is_true) {
            atomic_fetch_add(&registry->bad_receipts, 1);
        }
        all &= is_true;
    }
    return all;
}

void mci_registry_ending(struct mci_registry *registry,
                         struct mci_write_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].is_spent = rows[i].attempt.number != 0 && !rows[i].in_doubt &&
                           is_spent(registry, &rows[i]);
    }
}

bool mci_entry_is_open(const struct mci_registry *registry,
                       const struct mci_member *member,
                       const struct mci_entry *entry)
{
    struct mci_master *master = registry->opts.master;
    const struct mci_attempt attempt = {registry->opts.epoch, entry->number};
    enum mci_fate fate =
        mci_master_attempt_fate(master, member->client, attempt);
    if (fate != MCI_FATE_UNKNOWN) {
        return fate == MCI_FATE_OPEN;
    }
    return mci_master_attempt_is_open(master, entry->ref, entry->number);
}

/* An attempt that is not open any more leaves the book. */
static void forget(struct mci_registry *registry, struct mci_member *member,
                   const struct mci_write_row *row)
{
    struct mci_entry *entry = mci_book_find(&member->book, row->attempt.number);
    if (!entry || mci_entry_is_open(registry, member, entry)) {
        return;
    }
    mci_book_remove(&member->book, entry);
    atomic_fetch_sub_explicit(&registry->attempts, 1, memory_order_relaxed);
}

void mci_registry_ended(struct mci_registry *registry,
                        struct mci_member *member,
                        const struct mci_write_row *rows, size_t count)
{
    bool is_any_doubtful = false;
    (void)pthread_mutex_lock(&member->book_lock);
    for (size_t i = 0; i < count; i++) {
        is_any_doubtful |= rows[i].in_doubt;
        forget(registry, member, &rows[i]);
    }
    (void)pthread_mutex_unlock(&member->book_lock);
    if (is_any_doubtful) {
        (void)mci_doubts_collect(registry);
    }
}

/* ---- given up ---------------------------------------------------------- */

void mci_registry_given_up(struct mci_registry *registry,
                           struct mci_member *member, uint32_t slot,
                           uint64_t number, bool was_told, uint64_t now_ns)
{
    struct mci_book *book = &member->book;
    (void)pthread_mutex_lock(&member->book_lock);
    uint32_t at = book->first[slot % MCI_SLOTS_MAX];
    while (at != 0 && book->touched > 0) {
        struct mci_entry *entry = &book->entries[at];
        at = entry->next;
        if (entry->request != number) {
            continue;
        }
        /* Not open any more: somebody else has ended it. */
        (void)!mci_master_attempt_abandon(
            registry->opts.master, entry->ref, entry->number,
            was_told ? entry->until_ns : 0, now_ns);
        mci_book_remove(book, entry);
        atomic_fetch_sub_explicit(&registry->attempts, 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&member->book_lock);
}
