/* SPDX-License-Identifier: Apache-2.0 */
/* client_write.c - see the header. */
#include "client_write.h"

#include <string.h>
#include <time.h>

#include "client_attempts.h"
#include "client_put_sums.h"
#include "mci_alloc.h"

#define HERE_ROWS 128
#define AWAY_ROWS 1024
/* What is granted lasts long enough for this much and more, see SAFETY B.1. */
#define SLICE_BYTES (64 * UINT64_C(1048576))
#define TAKE_BACK_ROWS 8
#define TAKE_BACK_MS 2000
#define AGAIN_MAX 3
#define AGAIN_PAUSE_MS 10

struct slice {
    struct mci_writing *writing;
    struct mci_call call;
    size_t first; /* row of the call */
    size_t count;
    struct mci_write_row *rows;
    struct mci_attempts moving; /* a part per row */
    struct mci_put_sums sums;
};

/* ---- checks -------------------------------------------------------------- */

static enum mc_err check_call(const struct mci_writing *writing, size_t count)
{
    enum mc_err err =
        mci_client_check_rows(writing->keys, writing->results, count);
    if (err == MC_OK && count > 0 && !writing->values && !writing->spans &&
        !writing->lists) {
        err = MC_ERR_INVALID_PARAMS;
    }
    return err == MC_OK ? mci_client_check_config(writing->config, count) : err;
}

/* ---- sources ------------------------------------------------------------- */

/* The only span of a row that has no list. */
static struct mc_span span_of(const struct mci_writing *writing, size_t i)
{
    if (writing->spans) {
        return writing->spans[i];
    }
    const struct mc_view *value = &writing->values[i];
    return (struct mc_span){.data = (void *)(uintptr_t)value->data,
                            .len = value->len};
}

/* 0, which the master refuses, if the source is not sound. */
static uint64_t size_of(struct mci_writing *writing, size_t i)
{
    uint64_t size = 0;
    const struct mci_using using = {.client = writing->client,
                                    .use = &writing->use,
                                    .takes_any = writing->takes_any_memory};
    if (writing->lists) {
        enum mc_err err = mci_using_sum(&using, &writing->lists[i],
                                        MC_OBJECT_SIZE_MAX, &size);
        return err == MC_OK ? size : 0;
    }
    const struct mc_span span = span_of(writing, i);
    return span.data && mci_using_may(&using, span.data, span.len) ? span.len
                                                                   : 0;
}

/* ---- starting ------------------------------------------------------------ */

static void fill_row(struct mci_writing *writing, size_t i, uint64_t size,
                     struct mci_write_row *row)
{
    const struct mc_replicate_config *config = writing->config;
    const struct mc_view none = {NULL, 0};
    row->key = writing->keys[i];
    row->session_id =
        config && config->session_ids ? config->session_ids[i] : none;
    row->group_id = config && config->group_ids ? config->group_ids[i] : none;
    row->size = size;
    row->attempt = (struct mci_attempt){.number = 0};
    row->place_count = 0;
    row->has_sums = config && config->checksum;
    row->in_doubt = false;
    row->is_spent = false;
    row->err = MC_OK;
    memset(row->receipts, 0, sizeof row->receipts);
}

/* Rows from the first on, until there are enough of them or of bytes. */
static void fill_slice(struct slice *slice, size_t most)
{
    uint64_t bytes = 0;
    slice->count = 0;
    while (slice->count < most) {
        size_t i = slice->first + slice->count;
        uint64_t size = size_of(slice->writing, i);
        if (slice->count > 0 && size > SLICE_BYTES - bytes &&
            slice->writing->client->outside) {
            break;
        }
        bytes = size < SLICE_BYTES - bytes ? bytes + size : SLICE_BYTES;
        fill_row(slice->writing, i, size, &slice->rows[slice->count++]);
    }
}

static enum mc_err start(struct slice *slice)
{
    const struct mci_writing *writing = slice->writing;
    const struct mci_master_link *link = &writing->client->link;
    return (writing->replaces ? link->ops->upsert_start : link->ops->put_start)(
        link->ctx, &slice->call, writing->config, slice->rows, slice->count);
}

/* ---- moving -------------------------------------------------------------- */

static void set_part(struct slice *slice, size_t r)
{
    const struct mci_writing *writing = slice->writing;
    struct mci_write_row *row = &slice->rows[r];
    struct mci_part *part = &slice->moving.parts[slice->moving.part_count++];
    size_t i = slice->first + r;
    if (writing->lists) {
        *part =
            (struct mci_part){.len = slice->rows[r].size,
                              .spans = writing->lists[i].spans,
                              .span_count = (uint32_t)writing->lists[i].count};
    } else {
        const struct mc_span span = span_of(writing, i);
        mci_part_set(part, 0, span.data, span.len);
    }
    part->row = (uint32_t)r;
    if (row->has_sums) {
        row->err = mci_put_sums_add(&slice->sums, row, part);
    }
}

static void move_slice(struct slice *slice)
{
    const struct mci_writing *writing = slice->writing;
    struct mci_attempts *moving = &slice->moving;
    uint64_t now_ns =
        moving->run.mover.targets ? mci_clock_ns() : slice->call.now_ns;
    moving->part_count = 0;
    for (size_t r = 0; r < slice->count; r++) {
        if (slice->rows[r].err == MC_OK) {
            set_part(slice, r);
        }
    }
    uint64_t most_ns =
        mci_clock_deadline(now_ns, writing->client->transfer_timeout_ms);
    mci_attempts_move(moving, mci_until_most(&writing->until, most_ns));
    mci_put_sums_clear(&slice->sums);
}

/* ---- ending -------------------------------------------------------------- */

/* A master that did not answer the end has its chance, but not for as long
 * again; nor has a call that has a deadline of its own. */
static struct mci_call take_back_call(const struct slice *slice,
                                      const struct mci_write_row *rows,
                                      size_t count, uint64_t soon_ns)
{
    struct mci_call call = mci_client_call(slice->writing->client);
    for (size_t i = 0; i < count; i++) {
        bool is_unheard =
            rows[i].err == MC_ERR_RPC_FAIL || rows[i].err == MC_ERR_RPC_TIMEOUT;
        is_unheard |= slice->writing->until.deadline_ns != 0;
        if (is_unheard && slice->moving.run.mover.targets &&
            soon_ns < call.deadline_ns) {
            call.deadline_ns = soon_ns;
        }
    }
    return call;
}

/* No caller can name these attempts again. Where the master was not heard of,
 * they would stay open, and keep others from their keys, until they were idle
 * for the release timeout. */
static void give_up(const struct slice *slice, const struct mci_write_row *rows,
                    size_t count)
{
    const struct mci_outside *outside = slice->writing->client->outside;
    for (size_t i = 0; i < count && outside; i++) {
        mci_remote_attempt_give_up(outside->remote, rows[i].attempt.number);
    }
}

/* Rows that were started and failed since are taken back. A revoke makes no
 * events and needs no room, so it does not fail where the end did. */
static void take_back(struct slice *slice)
{
    const struct mci_master_link *link = &slice->writing->client->link;
    struct mci_write_row some[TAKE_BACK_ROWS];
    uint64_t soon_ns = mci_clock_deadline(mci_clock_ns(), TAKE_BACK_MS);
    size_t count = 0;
    for (size_t i = 0; i < slice->count; i++) {
        if (slice->rows[i].err != MC_OK && slice->rows[i].attempt.number != 0) {
            some[count++] = slice->rows[i];
        }
        if (count == TAKE_BACK_ROWS || (count > 0 && i + 1 == slice->count)) {
            const struct mci_call call =
                take_back_call(slice, some, count, soon_ns);
            (void)link->ops->put_revoke(link->ctx, &call, some, count);
            give_up(slice, some, count);
            count = 0;
        }
    }
}

/* Ends what was moved; the others are taken back and left out by number. */
static void end(struct slice *slice)
{
    const struct mci_master_link *link = &slice->writing->client->link;
    bool any_failed = false;
    bool any_left = false;
    for (size_t i = 0; i < slice->count; i++) {
        any_failed |= slice->rows[i].err != MC_OK;
        any_left |= slice->rows[i].err == MC_OK;
    }
    if (any_failed) {
        take_back(slice);
        for (size_t i = 0; i < slice->count; i++) {
            if (slice->rows[i].err != MC_OK) {
                slice->rows[i].attempt.number = 0;
            }
        }
    }
    if (!any_left) {
        return;
    }
    if (slice->moving.run.mover.targets) {
        slice->call = mci_client_call_until(slice->writing->client,
                                            slice->writing->until.deadline_ns);
    }
    enum mc_err err =
        link->ops->put_end(link->ctx, &slice->call, slice->rows, slice->count);
    (void)err; /* every row holds it */
    take_back(slice);
}

/* ---- answers ------------------------------------------------------------- */

/* What became of a put that found another one of its key under way: if that was
 * an earlier row of the same slice, and failed, this one has failed with it. */
static enum mc_err fate_of_twin(const struct mci_write_row *rows, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (rows[j].err != MC_OK &&
            rows[j].err != MC_ERR_OBJECT_ALREADY_EXISTS &&
            mc_view_equal(rows[j].key, rows[i].key)) {
            return rows[j].err;
        }
    }
    return MC_OK;
}

/* To whoever puts it is all the same who was first. */
static int64_t answer_of(const struct slice *slice, size_t i)
{
    const struct mci_write_row *rows = slice->rows;
    bool exists = rows[i].err == MC_ERR_OBJECT_ALREADY_EXISTS;
    return exists && !slice->writing->replaces ? fate_of_twin(rows, i)
                                               : rows[i].err;
}

static enum mc_err may_begin(const struct mci_writing *writing)
{
    const struct mci_until *until = &writing->until;
    if (mci_until_stops(until)) {
        return MC_ERR_CANCELED;
    }
    return until->deadline_ns && mci_clock_ns() >= until->deadline_ns
               ? MC_ERR_RPC_TIMEOUT
               : MC_OK;
}

/* Errors: the master refused the slice as a whole, or was not heard of; then
 * every row holds it. */
static enum mc_err write_slice(struct slice *slice)
{
    const struct mci_writing *writing = slice->writing;
    enum mc_err err = may_begin(writing);
    if (err == MC_OK) {
        err = mci_mover_again(&slice->moving.run.mover);
    }
    if (err != MC_OK) {
        return mci_client_refuse(&writing->results[slice->first], slice->count,
                                 err);
    }
    slice->call =
        mci_client_call_until(writing->client, writing->until.deadline_ns);
    err = start(slice);
    if (err == MC_OK) {
        move_slice(slice);
        end(slice);
    }
    for (size_t i = 0; i < slice->count; i++) {
        writing->results[slice->first + i] = answer_of(slice, i);
    }
    return err;
}

/* Nothing of it stands, and none of that is its own fault: its place went after
 * it was chosen, as when an owner leaves, so that bytes did not get there or the
 * master has closed the attempt; or the master took this client for dead. */
static bool may_go_elsewhere(int64_t result)
{
    return result == MC_ERR_INVALID_VERSION || result == MC_ERR_TRANSFER_FAIL ||
           result == MC_ERR_CLIENT_NOT_FOUND;
}

/* A later row of its key may have been written: the last one is to stand. */
static bool is_overtaken(const struct mci_writing *writing, size_t i,
                         size_t end)
{
    bool is_later = false;
    for (size_t j = i + 1; writing->replaces && j < end && !is_later; j++) {
        is_later = mc_view_equal(writing->keys[j], writing->keys[i]);
    }
    return is_later;
}

/* Who was taken for dead is told so by row before it is told as a whole. */
static void await_other_identity(void)
{
    const struct timespec pause = {.tv_nsec =
                                       AGAIN_PAUSE_MS * (long)MCI_NS_PER_MS};
    (void)nanosleep(&pause, NULL);
}

/* Such a row is written elsewhere, within the time of a call; but nobody waits
 * for an owner that does not answer twice. How long the try took says nothing
 * about that: a machine that is slow is no reason to lose a write. */
static void write_row_again(struct slice *slice, size_t i, uint64_t until_ns)
{
    const int64_t *result = &slice->writing->results[i];
    int tries = 0;
    while (tries < AGAIN_MAX && may_go_elsewhere(*result) &&
           !slice->moving.is_out_of_time && mci_clock_ns() < until_ns) {
        if (*result == MC_ERR_CLIENT_NOT_FOUND) {
            await_other_identity();
        } else {
            tries++;
        }
        slice->first = i;
        fill_slice(slice, 1);
        (void)write_slice(slice); /* its result tells */
    }
}

static void write_again(struct slice *slice, uint64_t until_ns)
{
    const struct mci_writing *writing = slice->writing;
    size_t first = slice->first;
    size_t end = first + slice->count;
    for (size_t i = first; i < end; i++) {
        if (may_go_elsewhere(writing->results[i]) &&
            !is_overtaken(writing, i, end)) {
            write_row_again(slice, i, until_ns);
        }
    }
    slice->first = first;
    slice->count = end - first;
}

static enum mc_err write_slice_out(struct slice *slice)
{
    const struct mc_client *client = slice->writing->client;
    uint64_t until_ns =
        client->outside ? mci_clock_deadline(mci_clock_ns(), client->timeout_ms)
                        : 0;
    until_ns = mci_until_most(&slice->writing->until, until_ns);
    slice->moving.is_out_of_time = false;
    enum mc_err err = write_slice(slice);
    if (err == MC_OK && client->outside) {
        write_again(slice, until_ns);
    }
    return err;
}

/* ---- a call -------------------------------------------------------------- */

struct room_for_one {
    struct mci_write_row row;
    struct mci_part part;
    struct mc_transfer_row moves[MCI_REPLICAS_MAX];
    struct mci_renewed_grant renewed[MCI_REPLICAS_MAX];
    uint32_t owners[MCI_REPLICAS_MAX];
};

/* No allocation for the most frequent call. */
static enum mc_err write_one(struct slice *slice, struct room_for_one *room)
{
    slice->rows = &room->row;
    slice->moving.rows = &room->row;
    slice->moving.parts = &room->part;
    slice->moving.renewed = room->renewed;
    slice->moving.run.moves = room->moves;
    slice->moving.run.owners = room->owners;
    slice->moving.run.room = slice->moving.places_most;
    fill_slice(slice, 1);
    return write_slice_out(slice);
}

/* One block, so that there is one allocation to fail. */
static uint8_t *make_room(struct slice *slice, size_t rows)
{
    struct mci_attempts *moving = &slice->moving;
    size_t moves = rows * moving->places_most;
    size_t row_bytes = rows * sizeof(*slice->rows);
    size_t part_bytes = rows * sizeof(*moving->parts);
    size_t move_bytes = moves * sizeof(*moving->run.moves);
    bool is_outside = slice->writing->client->outside != NULL;
    size_t renewed_bytes = is_outside ? moves * sizeof(*moving->renewed) : 0;
    uint8_t *block =
        mci_alloc(row_bytes + part_bytes + move_bytes + renewed_bytes +
                  moves * sizeof(*moving->run.owners));
    if (block) {
        uint8_t *at = block;
        slice->rows = (struct mci_write_row *)(void *)at;
        moving->rows = slice->rows;
        at += row_bytes;
        moving->parts = (struct mci_part *)(void *)at;
        at += part_bytes;
        moving->run.moves = (struct mc_transfer_row *)(void *)at;
        at += move_bytes;
        moving->renewed = (struct mci_renewed_grant *)(void *)at;
        at += renewed_bytes;
        moving->run.owners = (uint32_t *)(void *)at;
        moving->run.room = moves;
    }
    return block;
}

static enum mc_err write_many(struct slice *slice, size_t count)
{
    size_t most = slice->writing->client->outside ? AWAY_ROWS : HERE_ROWS;
    size_t room = count < most ? count : most;
    uint8_t *block = make_room(slice, room);
    enum mc_err err = block ? MC_OK : MC_ERR_NOMEM;
    while (slice->first < count && err == MC_OK) {
        size_t left = count - slice->first;
        fill_slice(slice, left < room ? left : room);
        err = write_slice_out(slice);
        slice->first += slice->count;
    }
    mci_free(block);
    if (err == MC_OK || slice->first <= slice->count) {
        return err;
    }
    /* Earlier slices are done, so it is not the call that was refused. */
    (void)mci_client_refuse(&slice->writing->results[slice->first],
                            count - slice->first, err);
    return MC_OK;
}

static enum mc_err write_rows(struct mci_writing *writing, size_t count)
{
    struct room_for_one one;
    struct slice slice = {
        .writing = writing,
        .moving = {.is_whole = true,
                   .places_most = mci_client_replicas(writing->config)}};
    enum mc_err err = mci_mover_begin(writing->client, writing->until.stops,
                                      &slice.moving.run.mover);
    if (err == MC_OK) {
        err = count == 1 ? write_one(&slice, &one) : write_many(&slice, count);
    }
    mci_mover_end(&slice.moving.run.mover);
    mci_memory_release(&writing->client->memory, &writing->use);
    return err;
}

enum mc_err mci_write(struct mci_writing *writing, size_t count)
{
    writing->config =
        mci_client_config(writing->client, writing->config, &writing->own);
    enum mc_err err = check_call(writing, count);
    if (err == MC_OK && count > 0) {
        err = write_rows(writing, count);
    }
    return err != MC_OK ? mci_client_refuse(writing->results, count, err)
                        : MC_OK;
}
