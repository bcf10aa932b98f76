/* SPDX-License-Identifier: Apache-2.0 */
/* work_queue.c - see the header. */
#include "work_queue.h"

#include <assert.h>

#define NEVER UINT64_MAX

static size_t weight(const struct mci_work *work)
{
    return work->row_count > 0 ? work->row_count : 1;
}

static struct mci_work *work_at(struct mci_link *link)
{
    return MCI_CONTAINER(link, struct mci_work, link);
}

void mci_work_queue_init(struct mci_work_queue *queue,
                         const struct mci_work_limits *limits)
{
    *queue = (struct mci_work_queue){.limits = *limits, .due_ns = NEVER};
    for (size_t kind = 0; kind < MCI_WORK_KINDS; kind++) {
        mci_list_init(&queue->waiting[kind]);
    }
    mci_list_init(&queue->handed);
}

enum mc_err mci_work_queue_add(struct mci_work_queue *queue,
                               struct mci_work *work)
{
    assert(work->state == MCI_WORK_NEW);
    if (weight(work) > queue->limits.rows_max - queue->rows) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    queue->rows += weight(work);
    work->state = MCI_WORK_ADDED;
    mci_list_push_back(&queue->waiting[work->kind], &work->link);
    if (work->deadline_ns < queue->due_ns) {
        queue->due_ns = work->deadline_ns;
    }
    return MC_OK;
}

bool mci_work_queue_waits(const struct mci_work_queue *queue)
{
    return !mci_list_is_empty(&queue->waiting[MCI_WORK_GET]) ||
           !mci_list_is_empty(&queue->waiting[MCI_WORK_PUT]);
}

/* ---- handing out --------------------------------------------------------- */

/* From the next row on, at least one. */
static size_t rows_of_part(const struct mci_work_queue *queue,
                           const struct mci_work *work)
{
    const struct mci_work_limits *limits = &queue->limits;
    size_t left = work->row_count - work->next;
    size_t most = left < limits->rows_per_part ? left : limits->rows_per_part;
    uint64_t room = limits->bytes_per_part;
    size_t count = 0;
    while (count < most) {
        uint64_t bytes =
            work->row_bytes ? work->row_bytes[work->next + count] : 0;
        if (bytes > room) {
            return count > 0 ? count : 1;
        }
        room -= bytes;
        count++;
    }
    return count;
}

static void hand_out(struct mci_work_queue *queue, struct mci_work *work,
                     size_t count, enum mci_work_verdict verdict,
                     struct mci_work_part *part_out)
{
    *part_out = (struct mci_work_part){
        .work = work, .first = work->next, .count = count, .verdict = verdict};
    work->next += count;
    work->running++;
    if (work->next == work->row_count) {
        work->is_handed = true;
        mci_list_remove(&work->link);
        mci_list_push_back(&queue->handed, &work->link);
    }
    if (!mci_work_queue_waits(queue)) {
        queue->due_ns = NEVER;
    }
}

static void hand_out_rest(struct mci_work_queue *queue, struct mci_work *work,
                          enum mci_work_verdict verdict,
                          struct mci_work_part *part_out)
{
    hand_out(queue, work, work->row_count - work->next, verdict, part_out);
}

static void hand_out_next(struct mci_work_queue *queue, struct mci_work *work,
                          uint64_t now_ns, struct mci_work_part *part_out)
{
    if (now_ns >= work->deadline_ns) {
        hand_out_rest(queue, work, MCI_WORK_LATE, part_out);
        return;
    }
    hand_out(queue, work, rows_of_part(queue, work), MCI_WORK_RUN, part_out);
}

static bool may_go(const struct mci_work *work)
{
    return !work->is_ordered || work->running == 0;
}

/* Those that may not go are running, so they are few. */
static struct mci_work *first_of(struct mci_work_queue *queue,
                                 enum mci_work_kind kind)
{
    struct mci_link *head = &queue->waiting[kind];
    struct mci_link *at = head->next;
    while (at != head && !may_go(work_at(at))) {
        at = at->next;
    }
    return at != head ? work_at(at) : NULL;
}

static uint32_t puts_most(const struct mci_work_queue *queue)
{
    uint32_t workers = queue->limits.workers;
    return workers > 1 ? workers - 1 : 1;
}

static struct mci_work *choose(struct mci_work_queue *queue)
{
    struct mci_work *get = first_of(queue, MCI_WORK_GET);
    struct mci_work *put = queue->puts_running < puts_most(queue)
                               ? first_of(queue, MCI_WORK_PUT)
                               : NULL;
    if (!get || (put && queue->gets_ahead >= MCI_WORK_GETS_AHEAD)) {
        return put;
    }
    return get;
}

/* A put that may not go yet waits all the same, and goes as soon as it may. */
static void count_turn(struct mci_work_queue *queue, enum mci_work_kind kind)
{
    if (kind == MCI_WORK_PUT ||
        mci_list_is_empty(&queue->waiting[MCI_WORK_PUT])) {
        queue->gets_ahead = 0;
    } else if (queue->gets_ahead < MCI_WORK_GETS_AHEAD) {
        queue->gets_ahead++;
    }
}

bool mci_work_queue_take(struct mci_work_queue *queue, uint64_t now_ns,
                         struct mci_work_part *part_out)
{
    struct mci_work *work = choose(queue);
    if (!work) {
        return false;
    }
    hand_out_next(queue, work, now_ns, part_out);
    if (part_out->verdict == MCI_WORK_RUN) {
        part_out->takes_worker = true;
        queue->puts_running += work->kind == MCI_WORK_PUT;
        count_turn(queue, work->kind);
    }
    return true;
}

bool mci_work_queue_take_of(struct mci_work_queue *queue, struct mci_work *work,
                            uint64_t now_ns, struct mci_work_part *part_out)
{
    if (work->state != MCI_WORK_ADDED || work->is_handed || !may_go(work)) {
        return false;
    }
    hand_out_next(queue, work, now_ns, part_out);
    return true;
}

bool mci_work_queue_take_late(struct mci_work_queue *queue, uint64_t now_ns,
                              struct mci_work_part *part_out)
{
    if (now_ns < queue->due_ns) {
        return false;
    }
    uint64_t due_ns = NEVER;
    for (size_t kind = 0; kind < MCI_WORK_KINDS; kind++) {
        struct mci_link *head = &queue->waiting[kind];
        for (struct mci_link *at = head->next; at != head; at = at->next) {
            struct mci_work *work = work_at(at);
            if (now_ns >= work->deadline_ns) {
                hand_out_rest(queue, work, MCI_WORK_LATE, part_out);
                return true;
            }
            due_ns = work->deadline_ns < due_ns ? work->deadline_ns : due_ns;
        }
    }
    queue->due_ns = due_ns;
    return false;
}

/* ---- canceling ----------------------------------------------------------- */

bool mci_work_queue_cancel(struct mci_work_queue *queue, struct mci_work *work,
                           struct mci_work_part *part_out)
{
    if (work->state != MCI_WORK_ADDED) {
        return false;
    }
    atomic_store(&work->stops, 1);
    if (work->is_handed) {
        return false;
    }
    hand_out_rest(queue, work, MCI_WORK_CANCELED, part_out);
    return true;
}

bool mci_work_queue_cancel_next(struct mci_work_queue *queue,
                                struct mci_work_part *part_out)
{
    for (struct mci_link *at = queue->handed.next; at != &queue->handed;
         at = at->next) {
        atomic_store(&work_at(at)->stops, 1);
    }
    for (size_t kind = 0; kind < MCI_WORK_KINDS; kind++) {
        if (!mci_list_is_empty(&queue->waiting[kind])) {
            struct mci_work *work = work_at(queue->waiting[kind].next);
            return mci_work_queue_cancel(queue, work, part_out);
        }
    }
    return false;
}

/* ---- ending -------------------------------------------------------------- */

bool mci_work_queue_end(struct mci_work_queue *queue,
                        const struct mci_work_part *part)
{
    struct mci_work *work = part->work;
    assert(work->state == MCI_WORK_ADDED && work->running > 0);
    work->running--;
    if (part->takes_worker) {
        queue->puts_running -= work->kind == MCI_WORK_PUT;
    }
    if (!work->is_handed || work->running > 0) {
        return false;
    }
    mci_list_remove(&work->link);
    work->state = MCI_WORK_ENDED;
    return true;
}

void mci_work_queue_leave(struct mci_work_queue *queue, struct mci_work *work)
{
    assert(work->state == MCI_WORK_ENDED);
    work->state = MCI_WORK_NEW;
    queue->rows -= weight(work);
}

bool mci_work_queue_is_idle(const struct mci_work_queue *queue)
{
    return !mci_work_queue_waits(queue) && mci_list_is_empty(&queue->handed);
}
