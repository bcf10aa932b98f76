/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery_walk.h"

#include <assert.h>
#include <string.h>

#include "mci_alloc.h"
#include "mci_pack.h"

#define EMPTY_SLICES_MAX 64
#define MAP_BYTES_MAX 128

/* ---- the chain ----------------------------------------------------------- */

static uint64_t cost_of(const struct mci_chunk *chunk)
{
    return sizeof *chunk + chunk->len;
}

static void let_go(struct mci_walk_shared *walk, struct mci_chunk *chunk)
{
    while (chunk && --chunk->refs == 0) {
        struct mci_chunk *next = chunk->next;
        walk->bytes -= cost_of(chunk);
        mci_free(chunk);
        chunk = next;
    }
}

/* The new last one; the chain's end holds it, and the one before it. */
static enum mc_err append(struct mci_walk_shared *walk,
                          enum mci_chunk_kind kind, struct mc_view payload)
{
    struct mci_chunk *chunk = mci_alloc(sizeof *chunk + payload.len);
    if (!chunk) {
        return MC_ERR_NOMEM;
    }
    *chunk = (struct mci_chunk){.refs = walk->tail ? 2 : 1,
                                .kind = kind,
                                .cursor = walk->cursor,
                                .len = payload.len};
    if (payload.len > 0) {
        memcpy(chunk->payload, payload.data, payload.len);
    }
    walk->bytes += cost_of(chunk);
    if (walk->tail) {
        struct mci_chunk *before = walk->tail;
        chunk->number = before->number + 1;
        before->next = chunk;
        walk->tail = chunk;
        let_go(walk, before);
    } else {
        walk->tail = chunk;
    }
    return MC_OK;
}

/* ---- messages ------------------------------------------------------------ */

static enum mc_err append_map(struct mci_walk_shared *walk,
                              enum mci_chunk_kind kind, const char *id_name,
                              uint64_t id)
{
    struct mci_history_stats history;
    struct mci_buf buf;
    struct mci_pack pack;
    mci_history_stats(walk->store->history, &history);
    mci_buf_init(&buf, MAP_BYTES_MAX);
    mci_pack_init(&pack, &buf);
    mci_pack_map(&pack, 3);
    mci_pack_text(&pack, "epoch");
    mci_pack_u64(&pack, walk->store->epoch);
    mci_pack_text(&pack, id_name);
    mci_pack_u64(&pack, id);
    mci_pack_text(&pack, "tail_seq");
    mci_pack_u64(&pack, history.tail_seq);
    enum mc_err err = mci_pack_done(&pack);
    if (!err) {
        err = append(walk, kind, mci_buf_view(&buf));
    }
    mci_buf_fini(&buf);
    return err;
}

static enum mc_err append_batch(struct mci_walk_shared *walk,
                                const struct mc_event_record *records,
                                size_t count, uint64_t wall_ms)
{
    const struct mci_recovery_store *store = walk->store;
    size_t len = 0;
    enum mc_err err =
        mc_event_writer_batch(store->writer, wall_ms, records, count,
                              store->payload, MC_BATCH_BYTES_MAX, &len);
    return err ? err
               : append(walk, MCI_CHUNK_ROWS,
                        mc_view_make(store->payload, len));
}

/* How many of the records one message holds. */
static size_t fitting(const struct mci_recovery_store *store,
                      const struct mc_event_record *records, size_t count)
{
    size_t bytes = MC_EVENT_WRITER_BATCH_BOUND;
    size_t fits = 0;
    while (fits < count && fits < MC_BATCH_EVENTS_MAX) {
        bytes += mc_event_writer_bound(store->writer, &records[fits]);
        if (fits > 0 && bytes > store->max_bytes) {
            break;
        }
        fits++;
    }
    return fits;
}

static enum mc_err append_rows(struct mci_walk_shared *walk,
                               const struct mci_snapshot_rows *rows,
                               uint64_t wall_ms)
{
    const struct mci_recovery_store *store = walk->store;
    for (size_t i = 0; i < rows->count; i++) {
        rows->records[i].timestamp_ms = wall_ms;
        rows->records[i].backend_id = store->backend_id;
    }
    size_t done = 0;
    while (done < rows->count && !store->no_rows) {
        const struct mc_event_record *records = rows->records + done;
        size_t count = fitting(store, records, rows->count - done);
        enum mc_err err = append_batch(walk, records, count, wall_ms);
        if (err) {
            return err;
        }
        done += count;
    }
    return MC_OK;
}

static struct mc_view tenant_of(const struct mci_walk_shared *walk)
{
    return walk->tenant_len ? mc_view_make(walk->tenant, walk->tenant_len)
                            : mc_view_make(NULL, 0);
}

/* A slice that failed in the middle comes again as a whole: rows that stand in
 * the chain twice say the same twice. */
static enum mc_err append_slice(struct mci_walk_shared *walk, uint64_t wall_ms)
{
    const struct mci_recovery_store *store = walk->store;
    struct mci_snapshot_cursor cursor = walk->cursor;
    struct mci_snapshot_rows rows = {NULL, 0};
    enum mc_err err =
        store->source->next(store->ctx, tenant_of(walk), &cursor, &rows);
    if (!err) {
        err = append_rows(walk, &rows, wall_ms);
    }
    if (!err) {
        walk->cursor = cursor;
    }
    return err;
}

/* ---- its life ------------------------------------------------------------ */

enum mc_err mci_walk_open(const struct mci_recovery_store *store,
                          struct mc_view tenant,
                          const struct mci_snapshot_cursor *cursor,
                          struct mci_walk_shared **walk_out)
{
    uint64_t first_id = 0;
    enum mc_err err =
        cursor ? MC_OK : store->source->begin(store->ctx, tenant, &first_id);
    if (err) {
        return err;
    }
    struct mci_walk_shared *walk = mci_calloc(1, sizeof *walk);
    if (!walk) {
        return MC_ERR_NOMEM;
    }
    walk->store = store;
    walk->tenant_len = (uint8_t)tenant.len;
    if (tenant.len > 0) {
        memcpy(walk->tenant, tenant.data, tenant.len);
    }
    if (cursor) {
        walk->cursor = *cursor;
    }
    err = append(walk, MCI_CHUNK_BEGIN, mc_view_make(NULL, 0));
    if (!err) {
        walk->start = walk->tail;
        walk->start->refs++;
        err = cursor ? MC_OK
                     : append_map(walk, MCI_CHUNK_BEGIN, "first_id", first_id);
    }
    if (err) {
        mci_walk_close(walk);
        return err;
    }
    *walk_out = walk;
    return MC_OK;
}

void mci_walk_close(struct mci_walk_shared *walk)
{
    assert(walk->readers == 0);
    let_go(walk, walk->start);
    let_go(walk, walk->tail);
    assert(walk->bytes == 0);
    mci_free(walk);
}

struct mci_chunk *mci_walk_join(struct mci_walk_shared *walk)
{
    assert(walk->start);
    walk->readers++;
    walk->start->refs++;
    return walk->start;
}

void mci_walk_leave(struct mci_walk_shared *walk, struct mci_chunk *at)
{
    walk->readers--;
    let_go(walk, at);
}

struct mci_chunk *mci_walk_advance(struct mci_walk_shared *walk,
                                   struct mci_chunk *at)
{
    struct mci_chunk *next = at->next;
    next->refs++;
    let_go(walk, at);
    return next;
}

enum mc_err mci_walk_more(struct mci_walk_shared *walk, uint64_t wall_ms)
{
    const struct mci_recovery_store *store = walk->store;
    uint64_t had = walk->tail->number;
    enum mc_err err = MC_OK;
    if (walk->start) {
        let_go(walk, walk->start);
        walk->start = NULL;
    }
    for (int i = 0; !err && i < EMPTY_SLICES_MAX; i++) {
        if (walk->cursor.at_end) {
            return append_map(walk, MCI_CHUNK_END, "last_id",
                              store->source->last_id(store->ctx));
        }
        err = append_slice(walk, wall_ms);
        if (walk->tail->number != had) {
            break;
        }
    }
    return err;
}
