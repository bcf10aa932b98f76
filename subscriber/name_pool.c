/* SPDX-License-Identifier: Apache-2.0 */
#include "name_pool.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_hash.h"

void name_pool_fini(struct name_pool *pool)
{
    for (size_t i = 0; i < pool->table.capacity; i++) {
        mci_free(pool->table.items[i]);
    }
    slot_table_fini(&pool->table);
}

static uint32_t hash_of(const struct name_pool *pool, struct mc_view text)
{
    return slot_table_hash(mci_hash64_seeded(text.data, text.len, pool->seed));
}

/* The slot of a name, or one that is empty. */
static size_t slot_of(const struct name_pool *pool, uint32_t hash,
                      struct mc_view text)
{
    const struct slot_table *table = &pool->table;
    size_t i = slot_table_first(table, hash);
    for (; slot_table_is_taken(table, i); i = slot_table_after(table, i)) {
        if (table->hashes[i] == hash &&
            mc_view_equal(name_view(table->items[i]), text)) {
            break;
        }
    }
    return i;
}

struct name *name_pool_find(const struct name_pool *pool, struct mc_view text)
{
    if (!text.data) {
        return NULL;
    }
    size_t slot = slot_of(pool, hash_of(pool, text), text);
    return slot_table_is_taken(&pool->table, slot) ? pool->table.items[slot]
                                                   : NULL;
}

static enum mc_err add(struct name_pool *pool, uint32_t hash,
                       struct mc_view text, struct name **name_out)
{
    if (text.len > NAME_LEN_MAX) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    enum mc_err err = slot_table_reserve(&pool->table);
    if (err != MC_OK) {
        return err;
    }
    struct name *name = mci_alloc(sizeof *name + text.len);
    if (!name) {
        return MC_ERR_NOMEM;
    }
    name->holds = 1;
    name->hash = hash;
    name->len = (uint32_t)text.len;
    if (text.len > 0) {
        memcpy(name->bytes, text.data, text.len);
    }
    slot_table_add(&pool->table, hash, name);
    *name_out = name;
    return MC_OK;
}

enum mc_err name_pool_hold(struct name_pool *pool, struct mc_view text,
                           struct name **name_out)
{
    if (!text.data) {
        *name_out = NULL;
        return MC_OK;
    }
    uint32_t hash = hash_of(pool, text);
    size_t slot = slot_of(pool, hash, text);
    if (!slot_table_is_taken(&pool->table, slot)) {
        return add(pool, hash, text, name_out);
    }
    struct name *name = pool->table.items[slot];
    name->holds++;
    *name_out = name;
    return MC_OK;
}

void name_pool_release(struct name_pool *pool, struct name *name)
{
    if (!name || --name->holds > 0) {
        return;
    }
    slot_table_remove(&pool->table, slot_of(pool, name->hash, name_view(name)));
    mci_free(name);
}
