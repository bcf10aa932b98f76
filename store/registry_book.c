/* SPDX-License-Identifier: Apache-2.0 */
/* registry_book.c - the open attempts of one member.
 *
 * Entries stand in one array that grows and never shrinks: its bound is the most
 * attempts the member ever had open, which the core limits.
 */
#include <string.h>

#include "mci_alloc.h"
#include "registry_parts.h"

#define ENTRIES_MIN 16

void mci_book_fini(struct mci_book *book)
{
    mci_numbers_fini(&book->index);
    mci_free(book->entries);
    memset(book, 0, sizeof *book);
}

enum mc_err mci_book_reserve(struct mci_book *book, size_t more)
{
    enum mc_err err = mci_numbers_reserve(&book->index, more);
    size_t needed = book->index.count + more + 1; /* 0 is none */
    if (err != MC_OK || needed <= book->capacity) {
        return err;
    }
    size_t capacity = book->capacity ? book->capacity : ENTRIES_MIN;
    while (capacity < needed) {
        capacity *= 2;
    }
    if (capacity > UINT32_MAX) {
        return MC_ERR_NOMEM;
    }
    struct mci_entry *entries =
        mci_realloc(book->entries, capacity * sizeof *entries);
    if (!entries) {
        return MC_ERR_NOMEM;
    }
    book->entries = entries;
    book->capacity = (uint32_t)capacity;
    return MC_OK;
}

static uint32_t take_entry(struct mci_book *book)
{
    uint32_t at = book->unused;
    if (at != 0) {
        book->unused = book->entries[at].next;
        return at;
    }
    if (book->touched == 0) {
        book->touched = 1;
    }
    return book->touched++;
}

struct mci_entry *mci_book_add(struct mci_book *book, uint64_t number,
                               uint32_t slot)
{
    uint32_t at = take_entry(book);
    struct mci_entry *entry = &book->entries[at];
    *entry = (struct mci_entry){
        .number = number, .slot = slot, .next = book->first[slot]};
    if (entry->next != 0) {
        book->entries[entry->next].prev = at;
    }
    book->first[slot] = at;
    mci_numbers_put(&book->index, number, at);
    return entry;
}

struct mci_entry *mci_book_find(const struct mci_book *book, uint64_t number)
{
    uint64_t at = 0;
    return mci_numbers_get(&book->index, number, &at) ? &book->entries[at]
                                                      : NULL;
}

void mci_book_remove(struct mci_book *book, struct mci_entry *entry)
{
    mci_numbers_remove(&book->index, entry->number);
    if (entry->prev != 0) {
        book->entries[entry->prev].next = entry->next;
    } else {
        book->first[entry->slot] = entry->next;
    }
    if (entry->next != 0) {
        book->entries[entry->next].prev = entry->prev;
    }
    uint32_t at = (uint32_t)(entry - book->entries);
    *entry = (struct mci_entry){.next = book->unused};
    book->unused = at;
}
