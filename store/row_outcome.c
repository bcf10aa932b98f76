/* SPDX-License-Identifier: Apache-2.0 */
/* row_outcome.c - see the header; docs/row_driver.md has the same as a table. */
#include "row_outcome.h"

/* ---- words ---------------------------------------------------------------- */

static const struct reason_row {
    const char *name;
    const char *text;
    enum mc_row_status status;
} reasons[] = {
#define REASON_ROW(name, status, text) {#name, text, MC_ROW_##status},
    MC_ROW_REASON_LIST(REASON_ROW)
#undef REASON_ROW
};

static const char *const statuses[MC_ROW_STATUS_COUNT] = {
    [MC_ROW_PENDING] = "PENDING",     [MC_ROW_READY] = "READY",
    [MC_ROW_MISS] = "MISS",           [MC_ROW_NOT_READY] = "NOT_READY",
    [MC_ROW_DECLINED] = "DECLINED",   [MC_ROW_FAULT] = "FAULT",
    [MC_ROW_CANCELLED] = "CANCELLED",
};

static bool is_reason(enum mc_row_reason reason)
{
    return (unsigned)reason < MC_ROW_REASON_COUNT;
}

const char *mc_row_status_name(enum mc_row_status status)
{
    return (unsigned)status < MC_ROW_STATUS_COUNT ? statuses[status]
                                                  : "UNKNOWN";
}

const char *mc_row_reason_name(enum mc_row_reason reason)
{
    return is_reason(reason) ? reasons[reason].name : "UNKNOWN";
}

const char *mc_row_reason_text(enum mc_row_reason reason)
{
    return is_reason(reason) ? reasons[reason].text : "unknown reason";
}

enum mc_row_status mc_row_reason_status(enum mc_row_reason reason)
{
    return is_reason(reason) ? reasons[reason].status : MC_ROW_FAULT;
}

/* ---- codes ------------------------------------------------------------------ */

static void go(struct mci_row_course *course, enum mci_row_stage stage)
{
    course->stage = stage;
}

static void over(struct mci_row_course *course, enum mc_row_reason reason,
                 int64_t result)
{
    course->stage = MCI_ROW_OVER;
    course->reason = reason;
    course->err = result < 0 ? (enum mc_err)result : MC_OK;
}

static bool is_unheard(int64_t result)
{
    return result == MC_ERR_RPC_FAIL || result == MC_ERR_RPC_TIMEOUT;
}

/* Of a code that means the same whatever was asked. */
static enum mc_row_reason reason_of(int64_t result)
{
    switch (result) {
    case MC_ERR_NOMEM:
        return MC_ROW_REASON_NO_MEMORY;
    case MC_ERR_TRANSFER_FAIL:
        return MC_ROW_REASON_TRANSFER;
    case MC_ERR_CHECKSUM_MISMATCH:
        return MC_ROW_REASON_CHECKSUM;
    case MC_ERR_RPC_FAIL:
    case MC_ERR_RPC_TIMEOUT:
    case MC_ERR_CLIENT_NOT_FOUND:
        return MC_ROW_REASON_UNREACHABLE;
    case MC_ERR_LEASE_EXPIRED:
        return MC_ROW_REASON_LEASE_LOST;
    case MC_ERR_INVALID_VERSION:
    case MC_ERR_INVALID_REPLICA:
        return MC_ROW_REASON_GONE;
    default:
        return MC_ROW_REASON_REFUSED;
    }
}

/* ---- gets --------------------------------------------------------------------- */

static void answer_read(struct mci_row_course *course, int64_t result,
                        uint64_t size)
{
    bool is_first = course->stage == MCI_ROW_READ && !course->is_touched;
    if (result >= 0) {
        over(course,
             (uint64_t)result == size ? MC_ROW_REASON_MOVED
                                      : MC_ROW_REASON_WRONG_SIZE,
             result);
    } else if (result == MC_ERR_LEASE_EXPIRED &&
               course->stage == MCI_ROW_READ) {
        go(course, MCI_ROW_READ_AGAIN);
    } else if (result == MC_ERR_OBJECT_NOT_FOUND) {
        over(course, is_first ? MC_ROW_REASON_ABSENT : MC_ROW_REASON_GONE,
             result);
    } else if (result == MC_ERR_REPLICA_IS_NOT_READY) {
        over(course,
             is_first ? MC_ROW_REASON_BEING_WRITTEN : MC_ROW_REASON_GONE,
             result);
    } else if (result == MC_ERR_INVALID_PARAMS) {
        over(course, MC_ROW_REASON_WRONG_SIZE, result);
    } else {
        over(course, reason_of(result), result);
    }
}

/* ---- puts --------------------------------------------------------------------- */

static void answer_open(struct mci_row_course *course, int64_t result)
{
    switch (result) {
    case MC_OK:
        go(course, MCI_ROW_WRITE);
        break;
    case MC_ERR_OBJECT_ALREADY_EXISTS:
        course->reason = MC_ROW_REASON_BEING_WRITTEN;
        course->err = MC_ERR_OBJECT_ALREADY_EXISTS;
        go(course, MCI_ROW_LOOK);
        break;
    case MC_ERR_NO_AVAILABLE_HANDLE:
        over(course, MC_ROW_REASON_NO_SPACE, result);
        break;
    case MC_ERR_TENANT_QUOTA_EXCEEDED:
    case MC_ERR_TENANT_NOT_REGISTERED:
        over(course, MC_ROW_REASON_OVER_QUOTA, result);
        break;
    default:
        over(course, reason_of(result), result);
    }
}

static void revoke_for(struct mci_row_course *course, enum mc_row_reason reason,
                       enum mc_err err)
{
    course->reason = reason;
    course->err = err;
    go(course, MCI_ROW_REVOKE);
}

static void answer_write(struct mci_row_course *course, int64_t result,
                         uint64_t size)
{
    if (result >= 0 && (uint64_t)result == size) {
        go(course, MCI_ROW_END);
    } else if (result >= 0) {
        revoke_for(course, MC_ROW_REASON_TRANSFER, MC_ERR_TRANSFER_FAIL);
    } else {
        revoke_for(course, reason_of(result), (enum mc_err)result);
    }
}

static void answer_end(struct mci_row_course *course, int64_t result)
{
    if (result == MC_OK) {
        over(course, MC_ROW_REASON_MOVED, result);
    } else if (is_unheard(result) && course->stage == MCI_ROW_END) {
        go(course, MCI_ROW_END_AGAIN);
    } else {
        revoke_for(course,
                   is_unheard(result) ? MC_ROW_REASON_UNANSWERED
                                      : reason_of(result),
                   (enum mc_err)result);
    }
}

/* -300: it was published, or nobody knows; the session is gone either way. */
static void answer_revoke(struct mci_row_course *course, int64_t result)
{
    if (result == MC_OK) {
        go(course, MCI_ROW_OVER);
    } else if (result == MC_ERR_INVALID_VERSION) {
        go(course, MCI_ROW_LOOK);
    } else {
        go(course, MCI_ROW_UNSETTLED);
    }
}

void mci_row_answer(struct mci_row_course *course, int64_t result,
                    uint64_t size)
{
    switch (course->stage) {
    case MCI_ROW_READ:
    case MCI_ROW_READ_AGAIN:
        answer_read(course, result, size);
        break;
    case MCI_ROW_OPEN:
        answer_open(course, result);
        break;
    case MCI_ROW_WRITE:
        answer_write(course, result, size);
        break;
    case MCI_ROW_END:
    case MCI_ROW_END_AGAIN:
        answer_end(course, result);
        break;
    case MCI_ROW_REVOKE:
        answer_revoke(course, result);
        break;
    case MCI_ROW_LOOK:
    case MCI_ROW_UNSETTLED:
    case MCI_ROW_OVER:
        break;
    }
}

enum mc_row_reason mci_row_reason_of_probe(int64_t result,
                                           enum mc_object_state state)
{
    if (result < 0) {
        return reason_of(result);
    }
    switch (state) {
    case MC_OBJECT_READABLE:
        return MC_ROW_REASON_EXISTS;
    case MC_OBJECT_WRITING:
        return MC_ROW_REASON_BEING_WRITTEN;
    case MC_OBJECT_ABSENT:
        break;
    }
    return MC_ROW_REASON_ABSENT;
}

/* Whoever wrote it: what is readable is complete. Without an answer nothing is
 * said to be there. */
void mci_row_looked(struct mci_row_course *course, int64_t result,
                    enum mc_object_state state)
{
    if (result < 0) {
        over(course, reason_of(result), result);
    } else if (state == MC_OBJECT_READABLE) {
        over(course, MC_ROW_REASON_EXISTS, MC_OK);
    } else {
        go(course, MCI_ROW_OVER);
    }
}

/* ---- what comes between ------------------------------------------------------ */

void mci_row_stop(struct mci_row_course *course, enum mc_row_reason reason)
{
    switch (course->stage) {
    case MCI_ROW_READ:
    case MCI_ROW_READ_AGAIN:
    case MCI_ROW_OPEN:
        over(course, reason, MC_OK);
        break;
    case MCI_ROW_WRITE:
    case MCI_ROW_END:
        revoke_for(course, reason, MC_OK);
        break;
    default:
        break;
    }
}

void mci_row_late(struct mci_row_course *course)
{
    switch (course->stage) {
    case MCI_ROW_READ:
    case MCI_ROW_OPEN:
        over(course, MC_ROW_REASON_TIMED_OUT, MC_ERR_RPC_TIMEOUT);
        break;
    case MCI_ROW_READ_AGAIN:
        over(course, MC_ROW_REASON_LEASE_LOST, MC_ERR_LEASE_EXPIRED);
        break;
    case MCI_ROW_WRITE:
    case MCI_ROW_END:
        course->reason = MC_ROW_REASON_TIMED_OUT;
        course->err = MC_ERR_RPC_TIMEOUT;
        go(course, MCI_ROW_UNSETTLED);
        break;
    case MCI_ROW_END_AGAIN:
        course->reason = MC_ROW_REASON_UNANSWERED;
        course->err = MC_ERR_RPC_TIMEOUT;
        go(course, MCI_ROW_UNSETTLED);
        break;
    case MCI_ROW_REVOKE:
        go(course, MCI_ROW_UNSETTLED);
        break;
    case MCI_ROW_LOOK:
        over(course, MC_ROW_REASON_UNREACHABLE, MC_ERR_RPC_TIMEOUT);
        break;
    case MCI_ROW_UNSETTLED:
    case MCI_ROW_OVER:
        break;
    }
}
