/* SPDX-License-Identifier: Apache-2.0 */
/* Linear probing; removal moves later entries of the run back instead of
 * leaving a mark, so that lookups never grow slower with age. */
#include "mci_map.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_hash.h"

#define FIRST_CAPACITY 16

struct mci_map_slot {
    char *key; /* owned; NULL is an empty slot */
    size_t key_len;
    uint64_t hash;
    void *value;
};

void mci_map_init(struct mci_map *map, size_t max_count)
{
    map->slots = NULL;
    map->capacity = 0;
    map->count = 0;
    map->max = max_count;
}

void mci_map_fini(struct mci_map *map)
{
    for (size_t i = 0; i < map->capacity; i++) {
        mci_free(map->slots[i].key);
    }
    mci_free(map->slots);
    mci_map_init(map, map->max);
}

/* The slot of the key, or the empty one where it belongs. */
static struct mci_map_slot *find_slot(struct mci_map_slot *slots,
                                      size_t capacity, struct mc_view key,
                                      uint64_t hash)
{
    size_t at = (size_t)hash & (capacity - 1);
    for (;;) {
        struct mci_map_slot *slot = &slots[at];
        if (!slot->key) {
            return slot;
        }
        if (slot->hash == hash &&
            mc_view_equal(mc_view_make(slot->key, slot->key_len), key)) {
            return slot;
        }
        at = (at + 1) & (capacity - 1);
    }
}

/* "None" and the empty key are one key. */
static struct mc_view settle_key(struct mc_view key)
{
    return key.data ? key : mc_view_make("", 0);
}

static struct mci_map_slot *find_key(const struct mci_map *map,
                                     struct mc_view key)
{
    if (map->capacity == 0) {
        return NULL;
    }
    key = settle_key(key);
    struct mci_map_slot *slot = find_slot(map->slots, map->capacity, key,
                                          mci_hash64(key.data, key.len));
    return slot->key ? slot : NULL;
}

void *mci_map_get(const struct mci_map *map, struct mc_view key)
{
    struct mci_map_slot *slot = find_key(map, key);
    return slot ? slot->value : NULL;
}

static enum mc_err grow(struct mci_map *map)
{
    size_t capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY;
    struct mci_map_slot *slots = mci_calloc(capacity, sizeof *slots);
    if (!slots) {
        return MC_ERR_NOMEM;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        struct mci_map_slot *old = &map->slots[i];
        if (old->key) {
            *find_slot(slots, capacity, mc_view_make(old->key, old->key_len),
                       old->hash) = *old;
        }
    }
    mci_free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return MC_OK;
}

static enum mc_err insert(struct mci_map *map, struct mc_view key, void *value)
{
    if (map->count >= map->max) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    if (map->count + 1 > map->capacity / 4 * 3) {
        enum mc_err err = grow(map);
        if (err) {
            return err;
        }
    }
    char *copy = mci_strdup_n(key.data, key.len);
    if (!copy) {
        return MC_ERR_NOMEM;
    }
    uint64_t hash = mci_hash64(key.data, key.len);
    struct mci_map_slot *slot = find_slot(map->slots, map->capacity, key, hash);
    *slot = (struct mci_map_slot){copy, key.len, hash, value};
    map->count++;
    return MC_OK;
}

enum mc_err mci_map_put(struct mci_map *map, struct mc_view key, void *value,
                        void **old_out)
{
    struct mci_map_slot *slot = find_key(map, key);
    void *old = NULL;
    if (slot) {
        old = slot->value;
        slot->value = value;
    } else {
        enum mc_err err = insert(map, settle_key(key), value);
        if (err) {
            return err;
        }
    }
    if (old_out) {
        *old_out = old;
    }
    return MC_OK;
}

/* Closes the hole at `hole`: an entry may move back to it unless its home lies
 * between the hole and itself. */
static void close_hole(struct mci_map *map, size_t hole)
{
    size_t mask = map->capacity - 1;
    size_t at = (hole + 1) & mask;
    while (map->slots[at].key) {
        size_t home = (size_t)map->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
        at = (at + 1) & mask;
    }
    memset(&map->slots[hole], 0, sizeof map->slots[hole]);
}

void *mci_map_remove(struct mci_map *map, struct mc_view key)
{
    struct mci_map_slot *slot = find_key(map, key);
    if (!slot) {
        return NULL;
    }
    void *value = slot->value;
    mci_free(slot->key);
    close_hole(map, (size_t)(slot - map->slots));
    map->count--;
    return value;
}

int mci_map_next(const struct mci_map *map, size_t *cursor,
                 struct mc_view *key_out, void **value_out)
{
    while (*cursor < map->capacity) {
        const struct mci_map_slot *slot = &map->slots[(*cursor)++];
        if (slot->key) {
            *key_out = mc_view_make(slot->key, slot->key_len);
            *value_out = slot->value;
            return 1;
        }
    }
    return 0;
}
