/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot.h"

#include <string.h>

#include "mci_alloc.h"

#define RECORDS_MAX (MCI_PAGE_ROWS * MC_MEDIUM_COUNT)

enum mc_err mci_snapshot_init(struct mci_snapshot *snapshot,
                              struct mci_master *master,
                              struct mci_event_log *log)
{
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->master = master;
    snapshot->log = log;
    snapshot->records = mci_alloc(RECORDS_MAX * sizeof *snapshot->records);
    enum mc_err err =
        snapshot->records ? mci_page_init(&snapshot->page) : MC_ERR_NOMEM;
    snapshot->page.with_gone = true; /* it is what the events amount to */
    if (err) {
        mci_snapshot_fini(snapshot);
    }
    return err;
}

void mci_snapshot_fini(struct mci_snapshot *snapshot)
{
    mci_page_fini(&snapshot->page);
    mci_free(snapshot->records);
    memset(snapshot, 0, sizeof *snapshot);
}

/* Nothing of the store has been looked at when the id is read. */
static enum mc_err begin(void *ctx, struct mc_view tenant,
                         uint64_t *first_id_out)
{
    const struct mci_snapshot *snapshot = ctx;
    enum mc_err err = mci_master_tenant_check(snapshot->master, tenant);
    if (!err) {
        *first_id_out = mci_event_log_last_id(snapshot->log);
    }
    return err;
}

static void add_media(struct mci_snapshot *snapshot, uint32_t at,
                      struct mci_snapshot_rows *rows)
{
    const struct mc_object_row *row = &snapshot->page.rows[at];
    for (unsigned i = 0; i < MC_MEDIUM_COUNT; i++) {
        unsigned medium = 1U << i;
        if (!(row->media & medium)) {
            continue;
        }
        rows->records[rows->count++] = (struct mc_event_record){
            .type = MC_EVENT_STORED,
            .event_id = snapshot->page.media_ids[at][i],
            .tenant_id = row->tenant_id,
            .medium = mc_view_str(mc_medium_name(medium)),
            .group_id = row->group_id,
            .session_id = row->session_id,
            .object_key = row->key};
    }
}

/* Shard in the upper half, tag in the lower one. */
static enum mc_err next(void *ctx, struct mc_view tenant,
                        struct mci_snapshot_cursor *cursor,
                        struct mci_snapshot_rows *rows_out)
{
    struct mci_snapshot *snapshot = ctx;
    struct mci_cursor place = {.shard = (uint32_t)(cursor->place >> 32),
                               .tag = (uint32_t)cursor->place,
                               .at_end = cursor->at_end};
    enum mc_err err =
        mci_master_list(snapshot->master, tenant, &place, &snapshot->page);
    if (err) {
        return err;
    }
    struct mci_snapshot_rows rows = {snapshot->records, 0};
    for (uint32_t i = 0; i < snapshot->page.count; i++) {
        add_media(snapshot, i, &rows);
    }
    cursor->place = (uint64_t)place.shard << 32 | place.tag;
    cursor->at_end = place.at_end;
    *rows_out = rows;
    return MC_OK;
}

static uint64_t last_id(void *ctx)
{
    const struct mci_snapshot *snapshot = ctx;
    return mci_event_log_last_id(snapshot->log);
}

static uint64_t keys(void *ctx)
{
    const struct mci_snapshot *snapshot = ctx;
    struct mci_master_stats stats;
    mci_master_stat(snapshot->master, &stats);
    return stats.objects;
}

const struct mci_snapshot_source mci_snapshot_walk = {
    .begin = begin, .next = next, .last_id = last_id, .keys = keys};
