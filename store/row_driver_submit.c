/* SPDX-License-Identifier: Apache-2.0 */
/* row_driver_submit.c - operations from what their caller says. */
#include <string.h>

#include "caller.h"
#include "mc_session.h"
#include "mci_alloc.h"
#include "row_driver.h"

/* ---- what is asked ------------------------------------------------------------- */

struct measure {
    size_t spans;
    size_t text; /* of keys and session ids */
};

static enum mc_err check_spans(const struct mc_row *row)
{
    uint64_t size = 0;
    if (!row->spans || row->span_count == 0 || row->span_count > MC_SPANS_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < row->span_count; i++) {
        uint64_t len = row->spans[i].len;
        if (len == 0 || len > MC_OBJECT_SIZE_MAX - size) {
            return MC_ERR_INVALID_PARAMS;
        }
        size += len;
    }
    return MC_OK;
}

static enum mc_err check_row(const struct mc_row *row, enum mc_row_kind kind,
                             struct measure *measure)
{
    enum mc_err err = mci_key_check(row->key);
    if (err == MC_OK) {
        err = check_spans(row);
    }
    if (err == MC_OK && kind == MC_ROW_PUT && row->session_id.len > 0) {
        err = mc_session_id_check(row->session_id);
        measure->text += row->session_id.len;
    }
    measure->text += row->key.len;
    measure->spans += row->span_count;
    return err;
}

static enum mc_err check(const struct mc_row_request *request,
                         struct measure *measure)
{
    enum mc_err err = MC_OK;
    if (!request || !request->rows || request->count == 0 ||
        request->count > MC_ROWS_MAX ||
        (request->kind != MC_ROW_GET && request->kind != MC_ROW_PUT)) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < request->count && err == MC_OK; i++) {
        err = check_row(&request->rows[i], request->kind, measure);
    }
    return err;
}

/* ---- an operation ----------------------------------------------------------------- */

/* One block: what is aligned most comes first. */
static struct mc_row_op *make(const struct mc_row_request *request,
                              const struct measure *measure, uint8_t **text_out)
{
    size_t count = request->count;
    size_t rows = count * sizeof(struct mci_row);
    size_t spans = measure->spans * sizeof(struct mc_span);
    size_t bytes = count * sizeof(uint64_t);
    size_t order = count * sizeof(uint32_t);
    size_t regions = measure->spans * sizeof(uint32_t);
    struct mc_row_op *op = mci_calloc(1, sizeof *op + rows + spans + bytes +
                                             order + regions + measure->text);
    if (!op) {
        return NULL;
    }
    uint8_t *at = (uint8_t *)(op + 1);
    op->rows = (struct mci_row *)(void *)at;
    at += rows;
    struct mc_span *span = (struct mc_span *)(void *)at;
    at += spans;
    op->row_bytes = (uint64_t *)(void *)at;
    at += bytes;
    op->order = (uint32_t *)(void *)at;
    at += order;
    uint32_t *region = (uint32_t *)(void *)at;
    at += regions;
    for (size_t i = 0; i < count; i++) {
        struct mci_row *row = &op->rows[i];
        row->span_count = (uint32_t)request->rows[i].span_count;
        row->spans = span;
        row->regions = region;
        span += row->span_count;
        region += row->span_count;
    }
    op->count = count;
    *text_out = at;
    return op;
}

static struct mc_view copy_text(uint8_t **text, struct mc_view view)
{
    struct mc_view copy = mc_view_make(*text, view.len);
    memcpy(*text, view.data, view.len);
    *text += view.len;
    return copy;
}

static void fill(struct mc_row_op *op, const struct mc_row_request *request,
                 uint8_t *text)
{
    for (size_t i = 0; i < op->count; i++) {
        const struct mc_row *asked = &request->rows[i];
        struct mci_row *row = &op->rows[i];
        row->key = copy_text(&text, asked->key);
        if (request->kind == MC_ROW_PUT && asked->session_id.len > 0) {
            row->session_id = copy_text(&text, asked->session_id);
        }
        for (size_t k = 0; k < asked->span_count; k++) {
            row->size += asked->spans[k].len;
        }
    }
}

/* ---- order ------------------------------------------------------------------------- */

static void add_to_order(struct mc_row_op *op, size_t i)
{
    size_t at = op->work.row_count++;
    op->order[at] = (uint32_t)i;
    op->row_bytes[at] = op->rows[i].size;
}

/* Twins follow each other from the first row of their key, which alone is run. */
static enum mc_err order_puts(struct mc_row_op *op)
{
    struct mci_map last;
    enum mc_err err = MC_OK;
    mci_map_init(&last, SIZE_MAX / 64);
    for (size_t i = 0; i < op->count && err == MC_OK; i++) {
        void *before = NULL;
        err = mci_map_put(&last, op->rows[i].key, &op->rows[i], &before);
        if (err == MC_OK && before) {
            ((struct mci_row *)before)->twin = (uint32_t)i;
        } else if (err == MC_OK) {
            add_to_order(op, i);
        }
    }
    mci_map_fini(&last);
    return err;
}

static enum mc_err order(struct mc_row_op *op)
{
    if (op->work.kind == MCI_WORK_PUT) {
        return order_puts(op);
    }
    for (size_t i = 0; i < op->count; i++) {
        add_to_order(op, i);
    }
    return MC_OK;
}

/* ---- handing over ------------------------------------------------------------------- */

static void unuse(struct mc_row_op *op, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mci_row_unuse(op->driver, &op->rows[i]);
    }
}

/* From here on its memory is used. The lock is held. */
static enum mc_err use(struct mc_row_op *op,
                       const struct mc_row_request *request)
{
    for (size_t i = 0; i < op->count; i++) {
        enum mc_err err =
            mci_row_use(op->driver, &op->rows[i], request->rows[i].spans);
        if (err != MC_OK) {
            unuse(op, i);
            return err;
        }
    }
    return MC_OK;
}

static void enter(struct mc_row_op *op)
{
    struct mc_row_driver_stats *stats = &op->driver->stats;
    bool is_put = op->work.kind == MCI_WORK_PUT;
    (is_put ? stats->puts : stats->gets)[MC_ROW_REASON_NONE] += op->count;
    op->pending = op->count;
    op->refs = 2;
    mci_list_push_back(&op->driver->ops, &op->link);
}

static void take_back(struct mc_row_op *op)
{
    struct mc_row_driver_stats *stats = &op->driver->stats;
    bool is_put = op->work.kind == MCI_WORK_PUT;
    (is_put ? stats->puts : stats->gets)[MC_ROW_REASON_NONE] -= op->count;
    unuse(op, op->count);
    mci_list_remove(&op->link);
}

/* The lock is held. Rows are those that have not ended, twins too. */
static enum mc_err check_room(const struct mc_row_op *op)
{
    const struct mc_row_driver *driver = op->driver;
    const struct mc_row_driver_stats *stats = &driver->stats;
    uint64_t taken =
        stats->gets[MC_ROW_REASON_NONE] + stats->puts[MC_ROW_REASON_NONE];
    if (driver->is_closing) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    return op->count > driver->opts.rows_max - taken
               ? MC_ERR_NO_AVAILABLE_HANDLE
               : MC_OK;
}

static enum mc_err hand_over(struct mc_row_op *op,
                             const struct mc_row_request *request)
{
    struct mc_row_driver *driver = op->driver;
    mci_rows_lock(driver);
    enum mc_err err = check_room(op);
    if (err == MC_OK) {
        err = use(op, request);
    }
    if (err == MC_OK) {
        enter(op);
    }
    mci_rows_unlock(driver);
    if (err != MC_OK) {
        return err;
    }
    err = mci_work_pool_add(driver->pool, &op->work);
    if (err != MC_OK) {
        mci_rows_lock(driver);
        take_back(op);
        mci_rows_unlock(driver);
    }
    return err;
}

enum mc_err mc_row_driver_submit(struct mc_row_driver *driver,
                                 const struct mc_row_request *request,
                                 struct mc_row_op **op_out)
{
    struct measure measure = {0, 0};
    uint8_t *text = NULL;
    if (mci_rows_are_elsewhere(driver)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    enum mc_err err = op_out ? check(request, &measure) : MC_ERR_INVALID_PARAMS;
    if (err != MC_OK) {
        return err;
    }
    struct mc_row_op *op = make(request, &measure, &text);
    if (!op) {
        return MC_ERR_NOMEM;
    }
    uint32_t timeout_ms =
        request->timeout_ms ? request->timeout_ms : driver->opts.timeout_ms;
    op->driver = driver;
    op->ctx = request->ctx;
    op->work.kind = request->kind == MC_ROW_PUT ? MCI_WORK_PUT : MCI_WORK_GET;
    op->work.row_bytes = op->row_bytes;
    op->work.deadline_ns = mci_clock_deadline(mci_clock_ns(), timeout_ms);
    mci_list_init(&op->link);
    mci_list_init(&op->changed);
    fill(op, request, text);
    err = order(op);
    if (err == MC_OK) {
        *op_out = op; /* who is told of it may look there */
        err = hand_over(op, request);
    }
    if (err != MC_OK) {
        *op_out = NULL;
        mci_free(op);
    }
    return err;
}
