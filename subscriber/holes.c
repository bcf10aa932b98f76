/* SPDX-License-Identifier: Apache-2.0 */
#include "holes.h"

#include <string.h>

static uint64_t width(const struct cursor_hole *hole)
{
    return hole->to_id - hole->from_id + 1;
}

static void drop(struct holes *holes, uint32_t at)
{
    holes->count--;
    memmove(&holes->ranges[at], &holes->ranges[at + 1],
            (holes->count - at) * sizeof *holes->ranges);
}

static void count_excess(struct holes *holes, const struct cursor_hole *hole)
{
    *(hole->is_refused ? &holes->excess_refused : &holes->excess_lost) +=
        width(hole);
    if (hole->to_id > holes->excess_to) {
        holes->excess_to = hole->to_id;
    }
}

/* The first range that ends at this id or above. */
static uint32_t find(const struct holes *holes, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = holes->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (holes->ranges[middle].to_id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void insert(struct holes *holes, uint32_t at,
                   const struct cursor_hole *hole)
{
    if (holes->count == HOLES_MAX) {
        count_excess(holes, hole);
        return;
    }
    memmove(&holes->ranges[at + 1], &holes->ranges[at],
            (holes->count - at) * sizeof *holes->ranges);
    holes->ranges[at] = *hole;
    holes->count++;
}

void holes_add(struct holes *holes, const struct cursor_hole *hole)
{
    uint32_t at = find(holes, hole->from_id);
    if (at > 0) {
        struct cursor_hole *before = &holes->ranges[at - 1];
        if (before->to_id + 1 == hole->from_id &&
            before->is_refused == hole->is_refused) {
            before->to_id = hole->to_id;
            return;
        }
    }
    insert(holes, at, hole);
}

bool holes_are_empty(const struct holes *holes)
{
    return holes->count == 0 && holes->excess_to == 0;
}

uint64_t holes_first(const struct holes *holes)
{
    return holes->count > 0 ? holes->ranges[0].from_id : holes->excess_to;
}

uint64_t holes_last(const struct holes *holes)
{
    uint64_t last =
        holes->count > 0 ? holes->ranges[holes->count - 1].to_id : 0;
    return last > holes->excess_to ? last : holes->excess_to;
}

bool holes_meet(const struct holes *holes, uint64_t from_id, uint64_t to_id)
{
    uint32_t at = find(holes, from_id);
    return at < holes->count && holes->ranges[at].from_id <= to_id;
}

bool holes_take(struct holes *holes, uint64_t id, bool *is_refused_out)
{
    uint32_t at = find(holes, id);
    if (at == holes->count || holes->ranges[at].from_id > id) {
        return false;
    }
    struct cursor_hole *hole = &holes->ranges[at];
    *is_refused_out = hole->is_refused;
    if (hole->from_id == hole->to_id) {
        drop(holes, at);
    } else if (hole->from_id == id) {
        hole->from_id++;
    } else if (hole->to_id == id) {
        hole->to_id--;
    } else {
        struct cursor_hole rest = {id + 1, hole->to_id, hole->is_refused};
        hole->to_id = id - 1;
        insert(holes, at + 1, &rest);
    }
    return true;
}

struct holes_taken holes_take_to(struct holes *holes, uint64_t id)
{
    struct holes_taken taken = {0, 0};
    while (holes->count > 0 && holes->ranges[0].from_id <= id) {
        struct cursor_hole part = holes->ranges[0];
        if (part.to_id > id) {
            part.to_id = id;
            holes->ranges[0].from_id = id + 1;
        } else {
            drop(holes, 0);
        }
        *(part.is_refused ? &taken.refused : &taken.lost) += width(&part);
    }
    if (holes->excess_to <= id) {
        taken.lost += holes->excess_lost;
        taken.refused += holes->excess_refused;
        holes->excess_lost = 0;
        holes->excess_refused = 0;
        holes->excess_to = 0;
    }
    return taken;
}
