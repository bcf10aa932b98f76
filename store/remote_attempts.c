/* SPDX-License-Identifier: Apache-2.0 */
/* The book of open attempts: entries in chunks that never move, chained by the
 * hash of their number. It grows to as many as were open at a time, and a start
 * has its room before it is sent, so that what it opened can always be entered.
 */
#include <string.h>

#include "mci_alloc.h"
#include "remote.h"

#define BUCKETS_MIN 256

struct remote_known {
    uint64_t number;
    uint64_t touched_ns;
    uint32_t next; /* in its chain; entry + 1 */
    uint32_t place_count;
    struct mc_grant grants[MCI_REPLICAS_MAX];
};

void mci_remote_book_init(struct remote_book *book)
{
    memset(book, 0, sizeof *book);
    book->generation = 1;
    (void)pthread_mutex_init(&book->lock, NULL);
}

void mci_remote_book_fini(struct remote_book *book)
{
    for (uint32_t i = 0; i < book->chunk_count; i++) {
        mci_free(book->chunks[i]);
    }
    mci_free(book->buckets);
    (void)pthread_mutex_destroy(&book->lock);
}

static struct remote_known *entry_at(const struct remote_book *book,
                                     uint32_t entry)
{
    uint32_t index = entry - 1;
    return &book->chunks[index / REMOTE_CHUNK][index % REMOTE_CHUNK];
}

static uint32_t *bucket_of(const struct remote_book *book, uint64_t number)
{
    uint64_t hash = number * UINT64_C(0x9e3779b97f4a7c15);
    return &book->buckets[(hash >> 32) & (book->bucket_count - 1)];
}

/* ---- room ---------------------------------------------------------------- */

static enum mc_err grow_buckets(struct remote_book *book)
{
    uint32_t count = book->bucket_count ? 2 * book->bucket_count : BUCKETS_MIN;
    uint32_t *buckets = mci_calloc(count, sizeof *buckets);
    if (!buckets) {
        return MC_ERR_NOMEM;
    }
    uint32_t *old = book->buckets;
    uint32_t old_count = book->bucket_count;
    book->buckets = buckets;
    book->bucket_count = count;
    for (uint32_t i = 0; i < old_count; i++) {
        uint32_t at = old[i];
        while (at) {
            struct remote_known *known = entry_at(book, at);
            uint32_t next = known->next;
            uint32_t *head = bucket_of(book, known->number);
            known->next = *head;
            *head = at;
            at = next;
        }
    }
    mci_free(old);
    return MC_OK;
}

static enum mc_err grow_entries(struct remote_book *book)
{
    struct remote_known *chunk = mci_calloc(REMOTE_CHUNK, sizeof *chunk);
    if (!chunk) {
        return MC_ERR_NOMEM;
    }
    uint32_t first = book->chunk_count * REMOTE_CHUNK;
    book->chunks[book->chunk_count++] = chunk;
    for (uint32_t i = REMOTE_CHUNK; i > 0; i--) {
        chunk[i - 1].next = book->free;
        book->free = first + i;
    }
    return MC_OK;
}

enum mc_err mci_remote_book_promise(struct remote_book *book, size_t count)
{
    enum mc_err err = MC_OK;
    (void)pthread_mutex_lock(&book->lock);
    size_t used = (size_t)atomic_load(&book->count) + book->promised;
    if (used > MC_ATTEMPTS_MAX || count > MC_ATTEMPTS_MAX - used) {
        err = MC_ERR_NO_AVAILABLE_HANDLE;
    }
    while (err == MC_OK &&
           (size_t)book->chunk_count * REMOTE_CHUNK < used + count) {
        err = grow_entries(book);
    }
    while (err == MC_OK && book->bucket_count < used + count) {
        err = grow_buckets(book);
    }
    book->promised += err == MC_OK ? (uint32_t)count : 0;
    (void)pthread_mutex_unlock(&book->lock);
    return err;
}

void mci_remote_book_unpromise(struct remote_book *book, size_t count)
{
    (void)pthread_mutex_lock(&book->lock);
    book->promised -= (uint32_t)count;
    (void)pthread_mutex_unlock(&book->lock);
}

/* ---- entering and leaving ------------------------------------------------ */

/* Where the number of the entry stands; the lock is held. NULL: not open. */
static uint32_t *find(struct remote_book *book, uint64_t number)
{
    if (book->bucket_count == 0) {
        return NULL;
    }
    uint32_t *at = bucket_of(book, number);
    while (*at && entry_at(book, *at)->number != number) {
        at = &entry_at(book, *at)->next;
    }
    return *at ? at : NULL;
}

static void fill(struct remote_known *known, uint32_t place_count,
                 const struct mc_grant *grants)
{
    known->place_count = place_count;
    memcpy(known->grants, grants, place_count * sizeof *grants);
}

void mci_remote_book_enter(struct remote_book *book, uint64_t generation,
                           const struct mci_write_row *row)
{
    uint64_t now_ns = mci_clock_ns();
    (void)pthread_mutex_lock(&book->lock);
    book->promised--;
    if (generation == book->generation && book->free &&
        !find(book, row->attempt.number)) {
        uint32_t entry = book->free;
        struct remote_known *known = entry_at(book, entry);
        book->free = known->next;
        known->number = row->attempt.number;
        known->touched_ns = now_ns;
        fill(known, row->place_count, row->grants);
        uint32_t *head = bucket_of(book, known->number);
        known->next = *head;
        *head = entry;
        atomic_fetch_add(&book->count, 1);
    }
    (void)pthread_mutex_unlock(&book->lock);
}

/* The lock is held. */
static void take_out(struct remote_book *book, uint32_t *at)
{
    uint32_t entry = *at;
    struct remote_known *known = entry_at(book, entry);
    *at = known->next;
    known->number = 0;
    known->next = book->free;
    book->free = entry;
    atomic_fetch_sub(&book->count, 1);
}

void mci_remote_book_leave(struct remote_book *book, uint64_t attempt)
{
    (void)pthread_mutex_lock(&book->lock);
    uint32_t *at = find(book, attempt);
    if (at) {
        take_out(book, at);
    }
    (void)pthread_mutex_unlock(&book->lock);
}

void mci_remote_book_clear(struct remote_book *book, uint64_t generation)
{
    (void)pthread_mutex_lock(&book->lock);
    book->generation = generation;
    for (uint32_t i = 0; i < book->bucket_count; i++) {
        while (book->buckets[i]) {
            take_out(book, &book->buckets[i]);
        }
    }
    (void)pthread_mutex_unlock(&book->lock);
}

/* ---- what heartbeats say and bring --------------------------------------- */

void mci_remote_book_renew(struct remote_book *book,
                           const struct mci_renewal *renewals, size_t count)
{
    (void)pthread_mutex_lock(&book->lock);
    for (size_t i = 0; i < count; i++) {
        uint32_t *at = find(book, renewals[i].attempt);
        struct remote_known *known = at ? entry_at(book, *at) : NULL;
        if (known && known->place_count == renewals[i].place_count) {
            fill(known, renewals[i].place_count, renewals[i].grants);
        }
    }
    (void)pthread_mutex_unlock(&book->lock);
}

uint32_t mci_remote_book_list(struct remote_book *book, uint64_t now_ns,
                              struct mci_known_attempt *attempts_out)
{
    uint32_t count = 0;
    (void)pthread_mutex_lock(&book->lock);
    for (uint32_t i = 0; i < book->chunk_count; i++) {
        for (uint32_t j = 0; j < REMOTE_CHUNK; j++) {
            const struct remote_known *known = &book->chunks[i][j];
            if (known->number == 0) {
                continue;
            }
            uint64_t age_ns =
                now_ns > known->touched_ns ? now_ns - known->touched_ns : 0;
            attempts_out[count++] = (struct mci_known_attempt){
                .number = known->number, .age_ms = age_ns / MCI_NS_PER_MS};
        }
    }
    (void)pthread_mutex_unlock(&book->lock);
    return count;
}

bool mci_remote_attempt_touched(struct mci_remote *remote, uint64_t attempt)
{
    struct remote_book *book = &remote->book;
    (void)pthread_mutex_lock(&book->lock);
    uint32_t *at = find(book, attempt);
    if (at) {
        entry_at(book, *at)->touched_ns = mci_clock_ns();
    }
    (void)pthread_mutex_unlock(&book->lock);
    return at != NULL;
}

bool mci_remote_attempt_grant(struct mci_remote *remote, uint64_t attempt,
                              uint32_t place, struct mc_grant *grant_out)
{
    struct remote_book *book = &remote->book;
    (void)pthread_mutex_lock(&book->lock);
    uint32_t *at = find(book, attempt);
    const struct remote_known *known = at ? entry_at(book, *at) : NULL;
    bool is_known = known && place < known->place_count;
    if (is_known) {
        *grant_out = known->grants[place];
    }
    (void)pthread_mutex_unlock(&book->lock);
    return is_known;
}

void mci_remote_attempt_give_up(struct mci_remote *remote, uint64_t attempt)
{
    mci_remote_book_leave(&remote->book, attempt);
}
