/* SPDX-License-Identifier: Apache-2.0 */
/* coverage.c - see the header. */
#include "coverage.h"

#include <string.h>

#include "mci_alloc.h"

#define ROOM_MIN 8

void mci_coverage_init(struct mci_coverage *coverage, uint64_t size)
{
    *coverage = (struct mci_coverage){.size = size};
}

void mci_coverage_fini(struct mci_coverage *coverage)
{
    mci_free(coverage->written.all);
    mci_free(coverage->on_way.all);
    *coverage = (struct mci_coverage){.size = 0};
}

/* ---- sorted lists -------------------------------------------------------- */

static uint64_t end_of(const struct mci_interval *interval)
{
    return interval->from + interval->len;
}

static enum mc_err make_room(struct mci_intervals *list, size_t count)
{
    size_t room = list->room ? list->room : ROOM_MIN;
    if (count <= list->room) {
        return MC_OK;
    }
    while (room < count) {
        room *= 2;
    }
    struct mci_interval *all = mci_alloc(room * sizeof *all);
    if (!all) {
        return MC_ERR_NOMEM;
    }
    if (list->count > 0) {
        memcpy(all, list->all, list->count * sizeof *all);
    }
    mci_free(list->all);
    list->all = all;
    list->room = room;
    return MC_OK;
}

/* The first one that ends after `at`. Most writers go on where they were. */
static size_t find(const struct mci_intervals *list, uint64_t at)
{
    size_t low = 0;
    size_t high = list->count;
    if (high == 0 || end_of(&list->all[high - 1]) <= at) {
        return high;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (end_of(&list->all[middle]) <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void put_in(struct mci_intervals *list, size_t at,
                   struct mci_interval interval)
{
    memmove(&list->all[at + 1], &list->all[at],
            (list->count - at) * sizeof(*list->all));
    list->all[at] = interval;
    list->count++;
}

static void take_out(struct mci_intervals *list, size_t at, size_t count)
{
    memmove(&list->all[at], &list->all[at + count],
            (list->count - at - count) * sizeof(*list->all));
    list->count -= count;
}

/* Joins it with all that it overlaps or touches. There is room for one more. */
static void join(struct mci_intervals *list, struct mci_interval interval)
{
    uint64_t end = end_of(&interval);
    /* Found by the byte before, so that one that ends here counts. */
    size_t first = find(list, interval.from > 0 ? interval.from - 1 : 0);
    size_t last = first;
    while (last < list->count && list->all[last].from <= end) {
        const struct mci_interval *other = &list->all[last++];
        end = end_of(other) > end ? end_of(other) : end;
        interval.from =
            other->from < interval.from ? other->from : interval.from;
    }
    interval.len = end - interval.from;
    if (first == last) {
        put_in(list, first, interval);
        return;
    }
    list->all[first] = interval;
    take_out(list, first + 1, last - first - 1);
}

/* ---- on their way -------------------------------------------------------- */

static bool begin_one(struct mci_coverage *coverage,
                      const struct mci_interval *range)
{
    struct mci_intervals *list = &coverage->on_way;
    if (range->len > coverage->size ||
        range->from > coverage->size - range->len) {
        return false;
    }
    if (range->len == 0) {
        return true;
    }
    size_t at = find(list, range->from);
    if (at < list->count && list->all[at].from < end_of(range)) {
        return false;
    }
    put_in(list, at, *range);
    return true;
}

/* Each range that arrives adds one to what is written at most. */
static enum mc_err make_room_for(struct mci_coverage *coverage, size_t count)
{
    size_t on_way = coverage->on_way.count;
    size_t written = coverage->written.count;
    if (count > MCI_COVERAGE_MAX ||
        on_way + written > MCI_COVERAGE_MAX - count) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    enum mc_err err = make_room(&coverage->on_way, on_way + count);
    return err == MC_OK
               ? make_room(&coverage->written, written + on_way + count)
               : err;
}

enum mc_err mci_coverage_begin(struct mci_coverage *coverage,
                               const struct mci_interval *ranges, size_t count)
{
    enum mc_err err = make_room_for(coverage, count);
    for (size_t i = 0; i < count && err == MC_OK; i++) {
        if (!begin_one(coverage, &ranges[i])) {
            mci_coverage_end(coverage, ranges, i, false);
            err = MC_ERR_INVALID_PARAMS;
        }
    }
    return err;
}

void mci_coverage_end(struct mci_coverage *coverage,
                      const struct mci_interval *ranges, size_t count,
                      bool have_arrived)
{
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].len == 0) {
            continue;
        }
        take_out(&coverage->on_way, find(&coverage->on_way, ranges[i].from), 1);
        if (have_arrived) {
            join(&coverage->written, ranges[i]);
        }
    }
}

/* ---- holes --------------------------------------------------------------- */

bool mci_coverage_hole(const struct mci_coverage *coverage, uint64_t at,
                       struct mci_interval *hole_out)
{
    const struct mci_intervals *list = &coverage->written;
    size_t next = find(list, at);
    if (next < list->count && list->all[next].from <= at) {
        at = end_of(&list->all[next++]); /* what follows does not touch it */
    }
    if (at >= coverage->size) {
        return false;
    }
    uint64_t end = next < list->count ? list->all[next].from : coverage->size;
    *hole_out = (struct mci_interval){.from = at, .len = end - at};
    return true;
}
