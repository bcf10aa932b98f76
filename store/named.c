/* SPDX-License-Identifier: Apache-2.0 */
#include "named.h"

#include "mci_alloc.h"

#define CAPACITY_FIRST 8

/* ---- memory ------------------------------------------------------------ */

enum mc_err mci_named_reserve(struct mci_named_table **table)
{
    struct mci_named_table *old = *table;
    if (old && (old->unused != 0 || old->touched < old->capacity)) {
        return MC_OK;
    }
    uint32_t capacity = old ? old->capacity * 2 : CAPACITY_FIRST;
    struct mci_named_table *grown =
        mci_realloc(old, sizeof *grown + capacity * sizeof grown->all[0]);
    if (!grown) {
        return MC_ERR_NOMEM;
    }
    if (!old) {
        grown->count = 0;
        grown->touched = 1;
        grown->unused = 0;
    }
    grown->capacity = capacity;
    *table = grown;
    return MC_OK;
}

void mci_named_fini(struct mci_named_table *table)
{
    mci_free(table);
}

/* ---- the heap ---------------------------------------------------------- */

/* Ranks begin with 1; the children of one are at its double and after that. */
static void put_at(struct mci_named_table *table, uint32_t rank, uint32_t lease)
{
    table->all[rank].ranked = lease;
    table->all[lease].rank = rank;
}

static uint64_t end_at(const struct mci_named_table *table, uint32_t rank)
{
    return table->all[table->all[rank].ranked].until_ns;
}

static uint32_t earlier_child(const struct mci_named_table *table,
                              uint32_t rank)
{
    uint32_t child = 2 * rank;
    bool is_second =
        child < table->count && end_at(table, child + 1) < end_at(table, child);
    return is_second ? child + 1 : child;
}

/* A lease finds its place, from the rank it has. */
static void settle(struct mci_named_table *table, uint32_t lease)
{
    uint64_t until_ns = table->all[lease].until_ns;
    uint32_t rank = table->all[lease].rank;
    while (rank > 1 && until_ns < end_at(table, rank / 2)) {
        put_at(table, rank, table->all[rank / 2].ranked);
        rank /= 2;
    }
    while (2 * rank <= table->count) {
        uint32_t child = earlier_child(table, rank);
        if (end_at(table, child) >= until_ns) {
            break;
        }
        put_at(table, rank, table->all[child].ranked);
        rank = child;
    }
    put_at(table, rank, lease);
}

static void leave_heap(struct mci_named_table *table, uint32_t lease)
{
    uint32_t rank = table->all[lease].rank;
    uint32_t last = table->all[table->count--].ranked;
    if (last != lease) {
        put_at(table, rank, last);
        settle(table, last);
    }
}

/* ---- the list of a version --------------------------------------------- */

/* The first one of the list brings the holds along. */
static void enter_list(struct mci_named_table *table, struct mci_record *record,
                       uint32_t lease)
{
    struct mci_named *named = &table->all[lease];
    named->prev = 0;
    named->next = record->is_named ? record->by.named : 0;
    named->holds = mci_holds(table, record);
    if (named->next != 0) {
        table->all[named->next].prev = lease;
    }
    record->is_named = true;
    record->by.named = lease;
}

static void leave_list(struct mci_named_table *table, struct mci_record *record,
                       uint32_t lease)
{
    const struct mci_named *named = &table->all[lease];
    if (named->next != 0) {
        table->all[named->next].prev = named->prev;
    }
    if (named->prev != 0) {
        table->all[named->prev].next = named->next;
    } else if (named->next != 0) {
        table->all[named->next].holds = named->holds;
        record->by.named = named->next;
    } else {
        record->is_named = false;
        record->by.holds = named->holds;
    }
}

/* ---- leases ------------------------------------------------------------ */

uint32_t mci_named_add(struct mci_named_table *table,
                       const struct mci_pool *pool, uint32_t record,
                       const struct mci_named *terms)
{
    uint32_t lease = table->unused;
    if (lease != 0) {
        table->unused = table->all[lease].next;
    } else {
        lease = table->touched++;
    }
    struct mci_named *named = &table->all[lease];
    named->number = terms->number;
    named->until_ns = terms->until_ns;
    named->limit_ns = terms->limit_ns;
    named->record = record;
    enter_list(table, mci_pool_at(pool, record), lease);
    put_at(table, ++table->count, lease);
    settle(table, lease);
    return lease;
}

void mci_named_remove(struct mci_named_table *table,
                      const struct mci_pool *pool, uint32_t lease)
{
    struct mci_named *named = &table->all[lease];
    leave_list(table, mci_pool_at(pool, named->record), lease);
    leave_heap(table, lease);
    named->number = 0;
    named->next = table->unused;
    table->unused = lease;
}

void mci_named_extend(struct mci_named_table *table,
                      const struct mci_pool *pool, uint32_t lease,
                      uint64_t until_ns)
{
    struct mci_named *named = &table->all[lease];
    struct mci_record *record = mci_pool_at(pool, named->record);
    named->until_ns = until_ns;
    settle(table, lease);
    if (record->by.named != lease) {
        leave_list(table, record, lease);
        enter_list(table, record, lease);
    }
}

void mci_named_move(struct mci_named_table *table, const struct mci_pool *pool,
                    uint32_t from, uint32_t to)
{
    struct mci_record *former = mci_pool_at(pool, from);
    struct mci_record *record = mci_pool_at(pool, to);
    uint32_t lease = former->is_named ? former->by.named : 0;
    record->is_named = former->is_named;
    record->by = former->by;
    former->is_named = false;
    former->by.holds = 0;
    for (; lease != 0; lease = table->all[lease].next) {
        table->all[lease].record = to;
    }
}

struct mci_named *mci_named_find(struct mci_named_table *table, uint32_t lease,
                                 uint64_t number)
{
    if (!table || lease == 0 || lease >= table->touched || number == 0 ||
        table->all[lease].number != number) {
        return NULL;
    }
    return &table->all[lease];
}

uint32_t mci_named_first(const struct mci_named_table *table)
{
    return table && table->count > 0 ? table->all[1].ranked : 0;
}

uint64_t mci_named_live(const struct mci_named_table *table,
                        const struct mci_record *record, uint64_t now_ns)
{
    uint32_t lease = record->is_named ? record->by.named : 0;
    while (lease != 0 && table->all[lease].until_ns <= now_ns) {
        lease = table->all[lease].next;
    }
    return lease != 0 ? table->all[lease].until_ns : 0;
}

uint64_t mci_named_latest(const struct mci_named_table *table,
                          const struct mci_record *record)
{
    uint64_t latest_ns = 0;
    uint32_t lease = record->is_named ? record->by.named : 0;
    for (; lease != 0; lease = table->all[lease].next) {
        if (table->all[lease].until_ns > latest_ns) {
            latest_ns = table->all[lease].until_ns;
        }
    }
    return latest_ns;
}

/* ---- holds ------------------------------------------------------------- */

uint32_t mci_holds(const struct mci_named_table *table,
                   const struct mci_record *record)
{
    return record->is_named ? table->all[record->by.named].holds
                            : record->by.holds;
}

static uint32_t *holds_of(struct mci_named_table *table,
                          struct mci_record *record)
{
    return record->is_named ? &table->all[record->by.named].holds
                            : &record->by.holds;
}

void mci_hold_add(struct mci_named_table *table, struct mci_record *record)
{
    (*holds_of(table, record))++;
}

void mci_hold_drop(struct mci_named_table *table, struct mci_record *record)
{
    (*holds_of(table, record))--;
}

/* ---- is it sound ------------------------------------------------------- */

static bool heap_is_sound(const struct mci_named_table *table)
{
    for (uint32_t rank = 1; rank <= table->count; rank++) {
        uint32_t lease = table->all[rank].ranked;
        if (lease == 0 || lease >= table->touched ||
            table->all[lease].rank != rank || table->all[lease].number == 0 ||
            (rank > 1 && end_at(table, rank) < end_at(table, rank / 2))) {
            return false;
        }
    }
    return true;
}

/* The list of one version; counts its leases. */
static bool list_is_sound(const struct mci_named_table *table,
                          const struct mci_pool *pool, uint32_t index,
                          uint32_t *count)
{
    const struct mci_record *record = mci_pool_at(pool, index);
    uint32_t before = 0;
    for (uint32_t lease = record->by.named; lease != 0;
         lease = table->all[lease].next) {
        const struct mci_named *named = &table->all[lease];
        if (named->number == 0 || named->record != index ||
            named->prev != before || ++*count > table->count) {
            return false;
        }
        before = lease;
    }
    return before != 0;
}

bool mci_named_check(const struct mci_named_table *table,
                     const struct mci_pool *pool)
{
    uint32_t count = 0;
    if (table && !heap_is_sound(table)) {
        return false;
    }
    for (uint32_t i = 1; i < pool->touched; i++) {
        if (mci_pool_at(pool, i)->is_named &&
            (!table || !list_is_sound(table, pool, i, &count))) {
            return false;
        }
    }
    return count == (table ? table->count : 0);
}
