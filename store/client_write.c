/* SPDX-License-Identifier: Apache-2.0 */
/* client_write.c - see the header. */
#include "client_write.h"

#include <string.h>
#include <time.h>

#include "client_move.h"
#include "client_outside.h"
#include "mc_session.h"
#include "mci_alloc.h"

#define HERE_ROWS 128
#define AWAY_ROWS 1024
/* What is granted lasts long enough for this much and more, see SAFETY B.1. */
#define SLICE_BYTES (64 * UINT64_C(1048576))
#define LONG_BYTES (8 * UINT64_C(1048576)) /* grants may have to be renewed */
#define TAKE_BACK_ROWS 8
#define TAKE_BACK_MS 2000
#define AGAIN_MAX 3
#define AGAIN_PAUSE_MS 10

struct slice {
    struct mci_writing *writing;
    struct mci_mover mover;
    struct mci_call call;
    size_t first; /* row of the call */
    size_t count;
    struct mci_write_row *rows;
    struct mc_span *owns; /* a span per row, for those that have one */
    struct mc_transfer_row *moves;
    struct mci_renewed_grant *renewed; /* a grant per move */
    size_t moves_per_row;
    size_t move_count;
    uint32_t *move_rows; /* which row each move is of */
    bool is_out_of_time; /* an owner was waited for as long as may be */
};

/* ---- checks -------------------------------------------------------------- */

static enum mc_err check_groups(const struct mc_replicate_config *config,
                                size_t count)
{
    if (!config->group_ids) {
        return config->group_id_count == 0 ? MC_OK : MC_ERR_INVALID_PARAMS;
    }
    if (config->group_id_count != count) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < count; i++) {
        if (mci_group_id_check(config->group_ids[i]) != MC_OK) {
            return MC_ERR_INVALID_PARAMS;
        }
    }
    return MC_OK;
}

/* Both vectors, whole, before anything is filtered or done. */
static enum mc_err check_vectors(const struct mc_replicate_config *config,
                                 size_t count)
{
    if (!config) {
        return MC_OK;
    }
    if (!config->session_ids && config->session_id_count > 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = mc_session_ids_check(config->session_ids,
                                           config->session_id_count, count);
    return err != MC_OK ? err : check_groups(config, count);
}

static enum mc_err check_call(const struct mci_writing *writing, size_t count)
{
    enum mc_err err =
        mci_client_check_rows(writing->keys, writing->results, count);
    if (err == MC_OK && count > 0 && !writing->values && !writing->spans &&
        !writing->lists) {
        err = MC_ERR_INVALID_PARAMS;
    }
    return err == MC_OK ? check_vectors(writing->config, count) : err;
}

/* ---- sources ------------------------------------------------------------- */

static bool may_use(struct mci_writing *writing, const struct mc_span *span)
{
    struct mc_client *client = writing->client;
    return mci_memory_use(&client->memory, &writing->use, span->data,
                          span->len) ||
           writing->takes_any_memory || client->any_memory;
}

/* The sum of the spans; 0, which the master refuses, if they are not sound. */
static uint64_t list_size(struct mci_writing *writing,
                          const struct mc_spans *list)
{
    uint64_t size = 0;
    if (!list->spans || list->count > MC_SPANS_MAX) {
        return 0;
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct mc_span *span = &list->spans[i];
        if ((span->len > 0 && !span->data) ||
            span->len > MC_OBJECT_SIZE_MAX - size || !may_use(writing, span)) {
            return 0;
        }
        size += span->len;
    }
    return size;
}

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

static uint64_t size_of(struct mci_writing *writing, size_t i)
{
    if (writing->lists) {
        return list_size(writing, &writing->lists[i]);
    }
    const struct mc_span span = span_of(writing, i);
    return span.data && may_use(writing, &span) ? span.len : 0;
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

static void set_spans(struct slice *slice, size_t r,
                      struct mc_transfer_row *move)
{
    const struct mci_writing *writing = slice->writing;
    size_t i = slice->first + r;
    if (writing->lists) {
        move->spans = writing->lists[i].spans;
        move->span_count = (uint32_t)writing->lists[i].count;
        return;
    }
    slice->owns[r] = span_of(writing, i);
    move->spans = &slice->owns[r];
    move->span_count = 1;
}

static enum mc_err failure_of(enum mc_err err)
{
    return err == MC_ERR_NOMEM ? err : MC_ERR_TRANSFER_FAIL;
}

/* All places of a row, or none: a row that lacks one has failed. */
static void add_moves(struct slice *slice, size_t r, uint64_t deadline_ns)
{
    struct mci_write_row *row = &slice->rows[r];
    size_t begin = slice->move_count;
    if (row->place_count > slice->moves_per_row) {
        row->err = MC_ERR_INTERNAL_ERROR; /* more copies than were asked for */
        return;
    }
    for (uint32_t p = 0; p < row->place_count; p++) {
        struct mc_transfer_row *move = &slice->moves[slice->move_count];
        const struct mci_claim claim = {.place = &row->places[p],
                                        .grant = &row->grants[p],
                                        .subject = row->attempt.number,
                                        .size = row->size,
                                        .is_write = true};
        enum mc_err err =
            mci_mover_aim(&slice->mover, &claim, 0, deadline_ns, move);
        if (err != MC_OK) {
            slice->move_count = begin;
            row->err = failure_of(err);
            return;
        }
        set_spans(slice, r, move);
        move->is_final = true;
        if (slice->mover.targets && row->size >= LONG_BYTES) {
            struct mci_renewed_grant *renewed =
                &slice->renewed[slice->move_count];
            mci_renewed_grant_init(renewed, slice->writing->client->outside,
                                   row, p);
            move->source = &renewed->source;
        }
        slice->move_rows[slice->move_count++] = (uint32_t)r;
    }
}

/* Which of a row's places a move is. */
static size_t place_of(const struct slice *slice, size_t m)
{
    size_t place = 0;
    while (m > place &&
           slice->move_rows[m - place - 1] == slice->move_rows[m]) {
        place++;
    }
    return place;
}

/* What failed is sealed: a receipt proves that its owner lets nothing in any
 * more, so that its range can be used again. */
static void seal(struct slice *slice, uint64_t deadline_ns)
{
    for (size_t m = 0; m < slice->move_count; m++) {
        struct mc_transfer_row *move = &slice->moves[m];
        bool has_failed = slice->rows[slice->move_rows[m]].err != MC_OK;
        if (has_failed && move->receipt == 0) {
            struct mc_transfer_row sealed = *move;
            mci_mover_seal(&slice->mover, &sealed, 1, deadline_ns);
            move->receipt = sealed.receipt;
        }
    }
}

static void note_outcomes(struct slice *slice)
{
    for (size_t m = 0; m < slice->move_count; m++) {
        const struct mc_transfer_row *move = &slice->moves[m];
        struct mci_write_row *row = &slice->rows[slice->move_rows[m]];
        row->receipts[place_of(slice, m)] = move->receipt;
        if (row->err != MC_OK && !move->remote_ended && move->receipt == 0) {
            row->in_doubt = true;
        }
    }
}

static void move_slice(struct slice *slice)
{
    uint64_t now_ns =
        slice->mover.targets ? mci_clock_ns() : slice->call.now_ns;
    uint64_t deadline_ns =
        mci_clock_deadline(now_ns, slice->writing->client->transfer_timeout_ms);
    bool any_failed = false;
    slice->move_count = 0;
    for (size_t r = 0; r < slice->count; r++) {
        if (slice->rows[r].err == MC_OK) {
            add_moves(slice, r, deadline_ns);
        }
    }
    if (slice->move_count == 0) {
        return;
    }
    mci_mover_run(&slice->mover, slice->moves, slice->move_count, deadline_ns);
    for (size_t m = 0; m < slice->move_count; m++) {
        if (slice->moves[m].err != MC_OK) {
            mci_mover_note(&slice->moves[m]);
            slice->rows[slice->move_rows[m]].err =
                failure_of(slice->moves[m].err);
            any_failed = true;
        }
    }
    if (slice->mover.targets) {
        if (any_failed) {
            slice->is_out_of_time |= mci_clock_ns() >= deadline_ns;
            seal(slice, deadline_ns);
        }
        note_outcomes(slice);
    }
}

/* ---- ending -------------------------------------------------------------- */

/* A master that did not answer the end has its chance, but not for as long
 * again. */
static struct mci_call take_back_call(const struct slice *slice,
                                      const struct mci_write_row *rows,
                                      size_t count)
{
    struct mci_call call = mci_client_call(slice->writing->client);
    uint64_t soon_ns = mci_clock_deadline(call.now_ns, TAKE_BACK_MS);
    for (size_t i = 0; i < count; i++) {
        bool is_unheard =
            rows[i].err == MC_ERR_RPC_FAIL || rows[i].err == MC_ERR_RPC_TIMEOUT;
        if (is_unheard && slice->mover.targets && soon_ns < call.deadline_ns) {
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
    size_t count = 0;
    for (size_t i = 0; i < slice->count; i++) {
        if (slice->rows[i].err != MC_OK && slice->rows[i].attempt.number != 0) {
            some[count++] = slice->rows[i];
        }
        if (count == TAKE_BACK_ROWS || (count > 0 && i + 1 == slice->count)) {
            const struct mci_call call = take_back_call(slice, some, count);
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
    if (slice->mover.targets) {
        slice->call = mci_client_call(slice->writing->client);
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

/* Errors: the master refused the slice as a whole, or was not heard of; then
 * every row holds it. */
static enum mc_err write_slice(struct slice *slice)
{
    enum mc_err err = mci_mover_again(&slice->mover);
    if (err != MC_OK) {
        return mci_client_refuse(&slice->writing->results[slice->first],
                                 slice->count, err);
    }
    slice->call = mci_client_call(slice->writing->client);
    err = start(slice);
    if (err == MC_OK) {
        move_slice(slice);
        end(slice);
    }
    for (size_t i = 0; i < slice->count; i++) {
        slice->writing->results[slice->first + i] = answer_of(slice, i);
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
           !slice->is_out_of_time && mci_clock_ns() < until_ns) {
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
    slice->is_out_of_time = false;
    enum mc_err err = write_slice(slice);
    if (err == MC_OK && client->outside) {
        write_again(slice, until_ns);
    }
    return err;
}

/* ---- a call -------------------------------------------------------------- */

static size_t replicas_of(const struct mc_replicate_config *config)
{
    size_t replicas = config ? config->replica_num : 0;
    if (replicas <= 1) {
        return 1;
    }
    return replicas < MCI_REPLICAS_MAX ? replicas : MCI_REPLICAS_MAX;
}

/* No allocation for the most frequent call. */
static enum mc_err write_one(struct slice *slice)
{
    struct mci_write_row row;
    struct mc_span own;
    struct mc_transfer_row moves[MCI_REPLICAS_MAX];
    struct mci_renewed_grant renewed[MCI_REPLICAS_MAX];
    uint32_t move_rows[MCI_REPLICAS_MAX];
    slice->rows = &row;
    slice->owns = &own;
    slice->moves = moves;
    slice->renewed = renewed;
    slice->move_rows = move_rows;
    fill_slice(slice, 1);
    return write_slice_out(slice);
}

/* One block, so that there is one allocation to fail. */
struct room {
    size_t rows;
    size_t moves;
};

static uint8_t *make_room(struct slice *slice, const struct room *room)
{
    size_t row_bytes = room->rows * sizeof(*slice->rows);
    size_t own_bytes = room->rows * sizeof(*slice->owns);
    size_t move_bytes = room->moves * sizeof(*slice->moves);
    bool is_outside = slice->writing->client->outside != NULL;
    size_t renewed_bytes =
        is_outside ? room->moves * sizeof(*slice->renewed) : 0;
    uint8_t *block =
        mci_alloc(row_bytes + own_bytes + move_bytes + renewed_bytes +
                  room->moves * sizeof(*slice->move_rows));
    if (block) {
        uint8_t *at = block;
        slice->rows = (struct mci_write_row *)(void *)at;
        at += row_bytes;
        slice->owns = (struct mc_span *)(void *)at;
        at += own_bytes;
        slice->moves = (struct mc_transfer_row *)(void *)at;
        at += move_bytes;
        slice->renewed = (struct mci_renewed_grant *)(void *)at;
        at += renewed_bytes;
        slice->move_rows = (uint32_t *)(void *)at;
    }
    return block;
}

static enum mc_err write_many(struct slice *slice, size_t count)
{
    size_t most = slice->writing->client->outside ? AWAY_ROWS : HERE_ROWS;
    const struct room room = {.rows = count < most ? count : most,
                              .moves = (count < most ? count : most) *
                                       slice->moves_per_row};
    uint8_t *block = make_room(slice, &room);
    enum mc_err err = block ? MC_OK : MC_ERR_NOMEM;
    while (slice->first < count && err == MC_OK) {
        size_t left = count - slice->first;
        fill_slice(slice, left < room.rows ? left : room.rows);
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
    struct slice slice = {.writing = writing,
                          .moves_per_row = replicas_of(writing->config)};
    enum mc_err err = mci_mover_begin(writing->client, &slice.mover);
    if (err == MC_OK) {
        err = count == 1 ? write_one(&slice) : write_many(&slice, count);
    }
    mci_mover_end(&slice.mover);
    mci_memory_release(&writing->client->memory, &writing->use);
    return err;
}

enum mc_err mci_write(struct mci_writing *writing, size_t count)
{
    enum mc_err err = check_call(writing, count);
    if (err == MC_OK && count > 0) {
        err = write_rows(writing, count);
    }
    return err != MC_OK ? mci_client_refuse(writing->results, count, err)
                        : MC_OK;
}
