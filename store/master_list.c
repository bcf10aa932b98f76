/* SPDX-License-Identifier: Apache-2.0 */
/* master_list.c - a walk over what is readable, without stopping writers.
 *
 * The cursor is a shard and a tag. A step takes a range of tags that begins
 * there and, halving it as long as needed, ends where its rows fit the page; so
 * a key that stays is shown in exactly one range, whatever the table does.
 */
#include <string.h>

#include "group.h"
#include "mci_alloc.h"
#include "media.h"
#include "tenant.h"
#include "version.h"

#define TAGS_END (UINT64_C(1) << 32)
#define ROW_BYTES_MAX                                           \
    (MC_TENANT_LEN_MAX + MC_KEY_LEN_MAX + MC_GROUP_ID_LEN_MAX + \
     MC_SESSION_ID_LEN_MAX)
#define PAGE_BYTES (64 * 1024)
_Static_assert(PAGE_BYTES >= 4 * ROW_BYTES_MAX, "a page holds some rows");

enum mc_err mci_page_init(struct mci_page *page)
{
    memset(page, 0, sizeof *page);
    page->rows = mci_alloc(MCI_PAGE_ROWS * sizeof *page->rows);
    page->media_ids = mci_alloc(MCI_PAGE_ROWS * sizeof *page->media_ids);
    page->bytes = mci_alloc(PAGE_BYTES);
    if (!page->rows || !page->media_ids || !page->bytes) {
        mci_page_fini(page);
        return MC_ERR_NOMEM;
    }
    page->capacity = MCI_PAGE_ROWS;
    page->bytes_max = PAGE_BYTES;
    return MC_OK;
}

void mci_page_fini(struct mci_page *page)
{
    mci_free(page->rows);
    mci_free(page->media_ids);
    mci_free(page->bytes);
    memset(page, 0, sizeof *page);
}

/* ---- rows -------------------------------------------------------------- */

/* None: of all tenants. */
struct listing {
    struct mci_master *master;
    const struct mci_tenant *tenant;
    struct mci_page *page;
};

/* A copy in the page; none stays none. */
static struct mc_view keep(struct mci_page *page, struct mc_view view)
{
    if (!view.data) {
        return view;
    }
    uint8_t *bytes = page->bytes + page->bytes_len;
    memcpy(bytes, view.data, view.len);
    page->bytes_len += view.len;
    return mc_view_make(bytes, view.len);
}

/* Adds a row; false if the page is full. */
static bool add_row(const struct listing *listing,
                    const struct mci_record *record)
{
    struct mci_page *page = listing->page;
    const struct mci_tenant *tenant =
        mci_tenant_at(listing->master, record->label->tenant);
    struct mc_view key = mci_label_key(record->label);
    struct mc_view group = mci_label_group_id(record->label);
    struct mc_view tag = mci_label_tag(record->label);
    size_t bytes = tenant->log.name.len + key.len + group.len + tag.len;
    if (page->count == page->capacity ||
        bytes > page->bytes_max - page->bytes_len) {
        return false;
    }
    uint64_t *ids = page->media_ids[page->count];
    struct mc_object_row *row = &page->rows[page->count++];
    row->tenant_id = keep(page, tenant->log.name);
    row->key = keep(page, key);
    row->group_id = keep(page, group);
    row->session_id = keep(page, tag);
    row->media = record->marks & MCI_MARK_MEDIA;
    row->size = mci_record_size(record);
    row->version = record->number;
    ids[0] = mci_media_id(record, MC_MEDIUM_CPU);
    ids[1] = mci_media_id(record, MC_MEDIUM_DISK);
    row->last_event_id = ids[0] > ids[1] ? ids[0] : ids[1];
    return true;
}

/* False if the range does not fit. */
static bool add_range(const struct listing *listing,
                      const struct mci_shard *shard, uint64_t first_tag,
                      uint64_t end_tag)
{
    struct mci_walk walk = mci_walk_begin(&shard->table, first_tag, end_tag);
    struct mci_slot *slot = NULL;
    listing->page->count = 0;
    listing->page->bytes_len = 0;
    while ((slot = mci_walk_next(&walk))) {
        uint32_t index = listing->page->with_gone
                             ? mci_chain_linked(shard, slot)
                             : mci_chain_readable(listing->master, shard, slot);
        if (index == 0) {
            continue;
        }
        const struct mci_record *record = mci_pool_at(&shard->pool, index);
        if (listing->tenant &&
            record->label->tenant != listing->tenant->index) {
            continue;
        }
        if (!add_row(listing, record)) {
            return false;
        }
    }
    return true;
}

/* A single tag always is a range that counts as fitting: more than a page of
 * keys with one tag in one shard do not come about by a seeded hash. */
static uint64_t add_what_fits(const struct listing *listing,
                              struct mci_shard *shard, uint64_t first_tag)
{
    mci_shard_lock(shard);
    uint64_t end_tag =
        mci_table_range_end(&shard->table, first_tag, MCI_PAGE_ROWS);
    while (!add_range(listing, shard, first_tag, end_tag) &&
           end_tag > first_tag + 1) {
        end_tag = first_tag + (end_tag - first_tag) / 2;
    }
    mci_shard_unlock(shard);
    return end_tag;
}

enum mc_err mci_master_list(struct mci_master *master, struct mc_view tenant,
                            struct mci_cursor *cursor, struct mci_page *page)
{
    struct listing listing = {.master = master, .page = page};
    page->count = 0;
    page->bytes_len = 0;
    if (tenant.data) {
        struct mci_tenant *found = NULL;
        enum mc_err err = mci_tenant_find(master, tenant, false, &found);
        if (err != MC_OK) {
            return err;
        }
        if (!found) {
            cursor->at_end = true;
        }
        listing.tenant = found;
    }
    if (cursor->at_end || cursor->shard >= master->shard_count) {
        cursor->at_end = true;
        return MC_OK;
    }
    uint64_t end_tag =
        add_what_fits(&listing, &master->shards[cursor->shard], cursor->tag);
    cursor->tag = (uint32_t)end_tag;
    if (end_tag == TAGS_END) {
        cursor->tag = 0;
        cursor->shard++;
        cursor->at_end = cursor->shard == master->shard_count;
    }
    return MC_OK;
}
