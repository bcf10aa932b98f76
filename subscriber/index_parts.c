/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of several parts, while some are missing.
 *
 * A whole page needs nothing here: its place is in the node's set. Which parts
 * are there is a set of bits, so a part that comes twice counts once. */
#include <string.h>

#include "index.h"

static uint32_t parts_tag(const struct mc_index *ix, uint32_t node)
{
    return (uint32_t)(index_mix(node ^ ix->secret) >> 32);
}

uint32_t index_parts_first(const struct mc_index *ix, uint32_t node)
{
    if (!(node_where(node_at(ix, node)) & NODE_PARTS)) {
        return 0;
    }
    struct index_probe probe =
        index_probe_begin(&ix->parts_table, parts_tag(ix, node));
    uint32_t id;
    while ((id = index_probe_next(&probe))) {
        if (parts_at(ix, id)->node == node) {
            return id;
        }
    }
    return 0;
}

static uint32_t parts_find(const struct mc_index *ix, uint32_t node,
                           uint32_t place)
{
    uint32_t id = index_parts_first(ix, node);
    while (id && parts_at(ix, id)->place != place) {
        id = parts_at(ix, id)->next;
    }
    return id;
}

bool index_parts_are_live(const struct mc_index *ix, uint32_t node)
{
    uint32_t id = index_parts_first(ix, node);
    while (id && !index_place_is_live(ix, parts_at(ix, id)->place)) {
        id = parts_at(ix, id)->next;
    }
    return id != 0;
}

/* The table knows the first of a node; the others hang behind it. */
static uint32_t parts_make(struct mc_index *ix, uint32_t node, uint32_t place)
{
    uint32_t first = index_parts_first(ix, node);
    uint32_t id = index_pool_take(&ix->memory, &ix->parts);
    if (!id) {
        return 0;
    }
    struct index_parts *parts = parts_at(ix, id);
    memset(parts, 0, sizeof *parts);
    parts->node = node;
    parts->place = place;
    if (first) {
        parts->next = parts_at(ix, first)->next;
        parts_at(ix, first)->next = id;
    } else if (!index_table_insert(&ix->memory, &ix->parts_table,
                                   parts_tag(ix, node), id)) {
        parts->node = 0;
        index_pool_give(&ix->parts, id);
        return 0;
    }
    index_node_keep(ix, node);
    index_node_flag(ix, node, 0, NODE_PARTS);
    return id;
}

static void take_second(struct mc_index *ix, struct index_parts *parts)
{
    uint32_t second = parts->next;
    struct index_parts *other = parts_at(ix, second);
    memcpy(parts->have, other->have, sizeof parts->have);
    parts->place = other->place;
    parts->next = other->next;
    other->node = 0;
    index_pool_give(&ix->parts, second);
}

static void parts_free(struct mc_index *ix, uint32_t id)
{
    struct index_parts *parts = parts_at(ix, id);
    uint32_t node = parts->node;
    uint32_t first = index_parts_first(ix, node);
    if (first != id) {
        uint32_t before = first;
        while (parts_at(ix, before)->next != id) {
            before = parts_at(ix, before)->next;
        }
        parts_at(ix, before)->next = parts->next;
        parts->node = 0;
        index_pool_give(&ix->parts, id);
        return;
    }
    /* The second takes its place, and its record goes. The sweep may have passed
     * here already, so what was cleared must not move in. */
    while (parts->next) {
        take_second(ix, parts);
        if (index_place_is_live(ix, parts->place)) {
            return;
        }
    }
    index_table_remove(&ix->parts_table, parts_tag(ix, node), id);
    parts->node = 0;
    index_pool_give(&ix->parts, id);
    index_node_flag(ix, node, NODE_PARTS, 0);
    index_node_settle(ix, node);
}

static bool is_whole(const struct mc_index *ix, const uint64_t have[2])
{
    return (uint32_t)(__builtin_popcountll(have[0]) +
                      __builtin_popcountll(have[1])) >= ix->opts.layout.parts;
}

bool index_part_add(struct mc_index *ix, uint32_t node, uint32_t place,
                    uint32_t part)
{
    if (ix->opts.layout.parts == 1) {
        return index_place_add(ix, node, place);
    }
    if (index_node_holds(ix, node, place)) {
        return true;
    }
    uint32_t id = parts_find(ix, node, place);
    if (!id && !(id = parts_make(ix, node, place))) {
        count_add(&ix->counters.refused_places, 1);
        return false;
    }
    struct index_parts *parts = parts_at(ix, id);
    uint64_t bit = UINT64_C(1) << (part % 64);
    uint64_t before = parts->have[part / 64];
    parts->have[part / 64] = before | bit;
    if (!is_whole(ix, parts->have)) {
        return true;
    }
    if (!index_place_add(ix, node, place)) {
        parts->have[part / 64] = before;
        return false;
    }
    parts_free(ix, id);
    return true;
}

static bool take_from_whole(struct mc_index *ix, uint32_t node, uint32_t place,
                            uint32_t part)
{
    uint32_t id = parts_make(ix, node, place);
    if (!id) { /* better to forget the other parts than to say it is whole */
        count_add(&ix->counters.refused_places, 1);
        return index_place_remove(ix, node, place);
    }
    struct index_parts *parts = parts_at(ix, id);
    for (uint32_t i = 0; i < ix->opts.layout.parts; i++) {
        parts->have[i / 64] |= UINT64_C(1) << (i % 64);
    }
    parts->have[part / 64] &= ~(UINT64_C(1) << (part % 64));
    if (!index_place_remove(ix, node, place)) {
        parts_free(ix, id);
        return false;
    }
    return true;
}

bool index_part_remove(struct mc_index *ix, uint32_t node, uint32_t place,
                       uint32_t part)
{
    if (ix->opts.layout.parts == 1) {
        return index_place_remove(ix, node, place);
    }
    if (index_node_holds(ix, node, place)) {
        return take_from_whole(ix, node, place, part);
    }
    uint32_t id = parts_find(ix, node, place);
    if (!id) {
        return true;
    }
    struct index_parts *parts = parts_at(ix, id);
    parts->have[part / 64] &= ~(UINT64_C(1) << (part % 64));
    if (!parts->have[0] && !parts->have[1]) {
        parts_free(ix, id);
    }
    return true;
}

bool index_parts_put(struct mc_index *ix, uint32_t node, uint32_t place,
                     const uint64_t have[2])
{
    uint32_t id = parts_find(ix, node, place);
    if (!id && !(id = parts_make(ix, node, place))) {
        return false;
    }
    memcpy(parts_at(ix, id)->have, have, 2 * sizeof have[0]);
    return true;
}

void index_parts_sweep(struct mc_index *ix, uint32_t id)
{
    const struct index_parts *parts = parts_at(ix, id);
    while (parts->node && !index_place_is_live(ix, parts->place)) {
        parts_free(ix, id); /* may leave another page's parts in this record */
    }
}
