/* SPDX-License-Identifier: Apache-2.0 */
/* row_driver_run.c - a part of rows, from its first stage to its last.
 *
 * At each stage one call is made for all rows that stand there, and each goes on
 * as row_outcome.h decides. Whoever cancels or closes is heeded between calls, and
 * so is the operation's deadline: a session that is open then is left.
 */
#include <string.h>

#include "client_read.h"
#include "client_write.h"
#include "mci_alloc.h"
#include "row_driver.h"

#define STOPPED_MS 4000 /* to revoke what was cancelled */

struct part {
    struct mc_row_driver *driver;
    struct mc_row_op *op;
    size_t first; /* in op->order */
    size_t count;
    /* Of its rows: */
    struct mci_row_course *courses;
    struct mci_row_end *ends; /* claim, session and in_doubt from early on */
    /* Of the rows that stand at a stage: */
    size_t picked_count;
    uint32_t *picked;
    struct mc_view *keys;
    struct mc_put_session **handles;
    int64_t *results;
    bool *flags;
};

static struct mci_row *row_at(const struct part *part, size_t i)
{
    return &part->op->rows[part->op->order[part->first + i]];
}

static struct mci_row *picked_row(const struct part *part, size_t k)
{
    return row_at(part, part->picked[k]);
}

/* ---- picking ----------------------------------------------------------------- */

static void pick(struct part *part, enum mci_row_stage stage)
{
    part->picked_count = 0;
    for (size_t i = 0; i < part->count; i++) {
        if (part->courses[i].stage == stage) {
            size_t k = part->picked_count++;
            part->picked[k] = (uint32_t)i;
            part->keys[k] = row_at(part, i)->key;
            part->handles[k] = part->ends[i].session;
        }
    }
}

static enum mc_row_reason why_stopped(const struct mc_row_op *op)
{
    return atomic_load(&op->is_asked_to_end) ? MC_ROW_REASON_ASKED
                                             : MC_ROW_REASON_CLOSING;
}

static void answer_all(struct part *part)
{
    for (size_t k = 0; k < part->picked_count; k++) {
        struct mci_row_course *course = &part->courses[part->picked[k]];
        int64_t result = part->results[k];
        if (result == MC_ERR_CANCELED) {
            mci_row_stop(course, why_stopped(part->op));
        } else {
            mci_row_answer(course, result, picked_row(part, k)->size);
        }
    }
}

static struct mci_until until_of(const struct part *part)
{
    return (struct mci_until){.deadline_ns = part->op->work.deadline_ns,
                              .stops = &part->op->work.stops};
}

static void refuse_all(struct part *part, enum mc_err err)
{
    (void)mci_client_refuse(part->results, part->picked_count, err);
}

/* ---- gets ---------------------------------------------------------------------- */

static void read_rows(struct part *part)
{
    size_t count = part->picked_count;
    struct mc_spans *lists = mci_alloc(count * sizeof *lists);
    memset(part->flags, 0, count * sizeof *part->flags);
    if (lists) {
        for (size_t k = 0; k < count; k++) {
            const struct mci_row *row = picked_row(part, k);
            lists[k] = (struct mc_spans){row->spans, row->span_count};
        }
        struct mci_reading reading = {.client = part->driver->client,
                                      .keys = part->keys,
                                      .lists = lists,
                                      .results = part->results,
                                      .until = until_of(part),
                                      .touched = part->flags};
        enum mc_err err = mci_read_exact(&reading, count);
        (void)err; /* every row holds it */
    } else {
        refuse_all(part, MC_ERR_NOMEM);
    }
    mci_free(lists);
    for (size_t k = 0; k < count; k++) {
        part->courses[part->picked[k]].is_touched |= part->flags[k];
    }
    answer_all(part);
}

/* ---- puts ---------------------------------------------------------------------- */

static enum mc_err ask_to_open(struct part *part, uint64_t *sizes,
                               struct mc_view *tags)
{
    bool any_tag = false;
    for (size_t k = 0; k < part->picked_count; k++) {
        sizes[k] = picked_row(part, k)->size;
        tags[k] = picked_row(part, k)->session_id;
        any_tag |= tags[k].len > 0;
    }
    const struct mc_replicate_config config = {
        .replica_num = part->driver->opts.replicas,
        .session_ids = any_tag ? tags : NULL,
        .session_id_count = any_tag ? part->picked_count : 0,
        .complete = true};
    struct mci_put_opening opening = {.client = part->driver->client,
                                      .keys = part->keys,
                                      .sizes = sizes,
                                      .config = &config,
                                      .count = part->picked_count,
                                      .deadline_ns = part->op->work.deadline_ns,
                                      .sessions = part->handles};
    return mci_put_sessions_open(&opening, part->results);
}

static void open_rows(struct part *part)
{
    size_t count = part->picked_count;
    uint64_t *sizes = mci_alloc(count * sizeof *sizes);
    struct mc_view *tags = mci_alloc(count * sizeof *tags);
    enum mc_err err =
        sizes && tags ? ask_to_open(part, sizes, tags) : MC_ERR_NOMEM;
    if (err != MC_OK) {
        refuse_all(part, err);
    }
    mci_free(sizes);
    mci_free(tags);
    for (size_t k = 0; k < count; k++) {
        part->ends[part->picked[k]].session =
            part->results[k] == MC_OK ? part->handles[k] : NULL;
    }
    answer_all(part);
}

static void aim(const struct part *part, struct mc_fragments *lists,
                struct mc_fragment *fragments)
{
    for (size_t k = 0; k < part->picked_count; k++) {
        const struct mci_row *row = picked_row(part, k);
        uint64_t offset = 0;
        lists[k] = (struct mc_fragments){fragments, row->span_count};
        for (uint32_t i = 0; i < row->span_count; i++) {
            *fragments++ = (struct mc_fragment){row->spans[i].data, offset,
                                                row->spans[i].len};
            offset += row->spans[i].len;
        }
    }
}

/* A row that failed is in doubt until its revoke knows better; in this process
 * nothing comes late. */
static void write_rows(struct part *part)
{
    struct mc_client *client = part->driver->client;
    size_t count = part->picked_count;
    size_t fragment_count = 0;
    for (size_t k = 0; k < count; k++) {
        fragment_count += picked_row(part, k)->span_count;
    }
    struct mc_fragments *lists = mci_alloc(count * sizeof *lists);
    struct mc_fragment *fragments =
        mci_alloc(fragment_count * sizeof *fragments);
    enum mc_err err = MC_ERR_NOMEM;
    if (lists && fragments) {
        aim(part, lists, fragments);
        const struct mci_until until = until_of(part);
        err = mci_put_sessions_write(client, part->handles, lists, count,
                                     &until, part->results);
    }
    if (err != MC_OK) {
        refuse_all(part, err);
    }
    mci_free(lists);
    mci_free(fragments);
    for (size_t k = 0; k < count; k++) {
        part->ends[part->picked[k]].in_doubt =
            client->outside && (part->results[k] == MC_ERR_TRANSFER_FAIL ||
                                part->results[k] == MC_ERR_CANCELED);
    }
    answer_all(part);
}

/* Half of the time is for asking again or revoking what is not answered; and what
 * nobody wants any more is to be over soon. */
static uint64_t finish_deadline(const struct part *part, bool is_revoke)
{
    const struct mci_work *work = &part->op->work;
    uint64_t now_ns = mci_clock_ns();
    uint64_t deadline_ns = work->deadline_ns;
    uint64_t soon_ns = mci_clock_deadline(now_ns, STOPPED_MS);
    if (mci_work_stops(work) && soon_ns < deadline_ns) {
        deadline_ns = soon_ns;
    }
    return is_revoke || deadline_ns <= now_ns
               ? deadline_ns
               : now_ns + (deadline_ns - now_ns) / 2;
}

static void finish_rows(struct part *part, bool is_revoke)
{
    const struct mci_put_finish finish = {.client = part->driver->client,
                                          .sessions = part->handles,
                                          .count = part->picked_count,
                                          .deadline_ns =
                                              finish_deadline(part, is_revoke),
                                          .is_revoke = is_revoke,
                                          .doubts_out = part->flags};
    for (size_t k = 0; k < part->picked_count; k++) {
        part->flags[k] = part->ends[part->picked[k]].in_doubt;
    }
    enum mc_err err = mci_put_sessions_finish(&finish, part->results);
    (void)err; /* every row holds it */
    for (size_t k = 0; k < part->picked_count; k++) {
        struct mci_row_end *end = &part->ends[part->picked[k]];
        int64_t result = part->results[k];
        end->in_doubt = part->flags[k];
        if (result == MC_OK ||
            (is_revoke && result == MC_ERR_INVALID_VERSION)) {
            end->session = NULL;
        }
    }
    answer_all(part);
}

static void end_rows(struct part *part)
{
    finish_rows(part, false);
}

static void revoke_rows(struct part *part)
{
    finish_rows(part, true);
}

static void look_at_rows(struct part *part)
{
    size_t count = part->picked_count;
    struct mc_probe *probes = mci_calloc(count, sizeof *probes);
    if (!probes) {
        refuse_all(part, MC_ERR_NOMEM);
    } else {
        enum mc_err err = mci_client_probe_until(
            part->driver->client, part->keys, count, part->op->work.deadline_ns,
            probes, part->results);
        (void)err; /* every row holds it */
    }
    for (size_t k = 0; k < count; k++) {
        mci_row_looked(&part->courses[part->picked[k]], part->results[k],
                       probes ? probes[k].state : MC_OBJECT_ABSENT);
    }
    mci_free(probes);
}

/* ---- a walk over the stages ------------------------------------------------------ */

static void (*const calls[])(struct part *part) = {
    [MCI_ROW_READ] = read_rows,     [MCI_ROW_READ_AGAIN] = read_rows,
    [MCI_ROW_OPEN] = open_rows,     [MCI_ROW_WRITE] = write_rows,
    [MCI_ROW_END] = end_rows,       [MCI_ROW_END_AGAIN] = end_rows,
    [MCI_ROW_REVOKE] = revoke_rows, [MCI_ROW_LOOK] = look_at_rows,
};

static void heed(struct part *part)
{
    const struct mci_work *work = &part->op->work;
    bool is_stopped = mci_work_stops(work);
    bool is_late = mci_clock_ns() >= work->deadline_ns;
    for (size_t k = 0; k < part->picked_count; k++) {
        struct mci_row_course *course = &part->courses[part->picked[k]];
        if (is_stopped) {
            mci_row_stop(course, why_stopped(part->op));
        }
        if (is_late) {
            mci_row_late(course);
        }
    }
}

static void walk(struct part *part, enum mci_row_stage first)
{
    for (enum mci_row_stage stage = first; stage <= MCI_ROW_LOOK; stage++) {
        pick(part, stage);
        if (part->picked_count > 0) {
            heed(part);
            pick(part, stage);
        }
        if (part->picked_count > 0) {
            calls[stage](part);
        }
    }
}

/* A key that another put has is not asked for. */
static void claim_keys(struct part *part)
{
    for (size_t i = 0; i < part->count; i++) {
        enum mc_row_reason reason = mci_row_claim(
            part->driver, row_at(part, i)->key, &part->ends[i].claim);
        if (reason != MC_ROW_REASON_NONE) {
            part->courses[i] = (struct mci_row_course){
                .stage = MCI_ROW_OVER,
                .reason = reason,
                .err =
                    reason == MC_ROW_REASON_NO_MEMORY ? MC_ERR_NOMEM : MC_OK};
        }
    }
}

static void end_part(struct part *part)
{
    for (size_t i = 0; i < part->count; i++) {
        const struct mci_row_course *course = &part->courses[i];
        struct mci_row_end *end = &part->ends[i];
        end->reason = course->reason;
        end->err = course->err;
        end->in_doubt &= mc_row_reason_status(course->reason) != MC_ROW_READY;
    }
    mci_rows_end(part->op, part->first, part->ends, part->count);
}

/* ---- room -------------------------------------------------------------------------- */

/* One block, most aligned first; all zero. */
static uint8_t *make_room(struct part *part)
{
    size_t n = part->count;
    size_t courses = n * sizeof *part->courses;
    size_t ends = n * sizeof *part->ends;
    size_t keys = n * sizeof *part->keys;
    size_t handles = n * sizeof(*part->handles);
    size_t results = n * sizeof *part->results;
    size_t picked = n * sizeof *part->picked;
    uint8_t *block = mci_calloc(1, ends + keys + handles + results + courses +
                                       picked + n * sizeof *part->flags);
    if (block) {
        uint8_t *at = block;
        part->ends = (struct mci_row_end *)(void *)at;
        at += ends;
        part->keys = (struct mc_view *)(void *)at;
        at += keys;
        part->handles = (struct mc_put_session **)(void *)at;
        at += handles;
        part->results = (int64_t *)(void *)at;
        at += results;
        part->courses = (struct mci_row_course *)(void *)at;
        at += courses;
        part->picked = (uint32_t *)(void *)at;
        at += picked;
        part->flags = (bool *)(void *)at;
    }
    return block;
}

static void end_alike(struct mc_row_op *op, const struct mci_work_part *given,
                      enum mc_row_reason reason, enum mc_err err)
{
    const struct mci_row_end end = {.reason = reason, .err = err};
    mci_rows_end_alike(op, given->first, &end, given->count);
}

void mci_rows_run(void *ctx, const struct mci_work_part *given)
{
    struct mc_row_op *op = MCI_CONTAINER(given->work, struct mc_row_op, work);
    struct part part = {
        .driver = ctx, .op = op, .first = given->first, .count = given->count};
    bool is_put = given->work->kind == MCI_WORK_PUT;
    enum mci_row_stage first = is_put ? MCI_ROW_OPEN : MCI_ROW_READ;
    uint8_t *block = make_room(&part);
    mci_rows_lock(part.driver);
    part.driver->stats.calls++;
    mci_rows_unlock(part.driver);
    if (!block) {
        end_alike(op, given, MC_ROW_REASON_NO_MEMORY, MC_ERR_NOMEM);
        return;
    }
    for (size_t i = 0; i < part.count; i++) {
        part.courses[i].stage = first;
    }
    if (is_put) {
        claim_keys(&part);
    }
    walk(&part, first);
    end_part(&part);
    mci_free(block);
}

void mci_rows_drop(void *ctx, const struct mci_work_part *given)
{
    struct mc_row_op *op = MCI_CONTAINER(given->work, struct mc_row_op, work);
    (void)ctx;
    if (given->verdict == MCI_WORK_LATE) {
        end_alike(op, given, MC_ROW_REASON_TIMED_OUT, MC_ERR_RPC_TIMEOUT);
    } else {
        end_alike(op, given, why_stopped(op), MC_OK);
    }
}
