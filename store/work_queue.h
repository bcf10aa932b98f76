/* SPDX-License-Identifier: Apache-2.0 */
/* work_queue.h - what is done next: operations of many rows, cut in parts.
 *
 * A work is an operation that its user keeps: rows to get or to put. The queue
 * cuts it in parts of bounded rows and bytes, and hands them out one by one:
 * gets before puts, but once four parts of gets have gone ahead of a put that
 * waits, that put goes. Puts are never at all workers, unless there is only one.
 * Each row of a work is handed out once, to be run or, if the work was canceled
 * or is late before, to be dropped. When the last part has ended the work has
 * ended, which is told once. After that it is its user's again, and counts in the
 * queue until it leaves.
 *
 * Pure: no clock, no lock, no thread, no memory of its own; see work_pool.h for
 * those. Threads: guarded by whoever has it; mci_work_stops by any.
 */
#ifndef WORK_QUEUE_H
#define WORK_QUEUE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"
#include "mci_list.h"

enum mci_work_kind { MCI_WORK_GET, MCI_WORK_PUT };
#define MCI_WORK_KINDS 2

enum mci_work_state { MCI_WORK_NEW, MCI_WORK_ADDED, MCI_WORK_ENDED };

/* All zero but for what its user sets. Does not move while it is added. */
struct mci_work {
    /* Its user's; constant from add until it has ended. */
    enum mci_work_kind kind;
    bool is_ordered;  /* its parts are not run at the same time */
    size_t row_count; /* 0: one part without rows */
    uint64_t deadline_ns;
    const uint64_t *row_bytes; /* for cutting; NULL: none have any */
    /* The queue's. */
    struct mci_link link; /* in waiting or handed */
    enum mci_work_state state;
    size_t next;       /* row that is handed out next */
    uint32_t running;  /* parts */
    bool is_handed;    /* all of it */
    _Atomic int stops; /* 1: it was canceled */
};

/* It was canceled: whoever runs a part may leave the rest of it. */
static inline bool mci_work_stops(const struct mci_work *work)
{
    return atomic_load(&work->stops) != 0;
}

enum mci_work_verdict {
    MCI_WORK_RUN,
    MCI_WORK_CANCELED, /* its rows have not begun, and will not */
    MCI_WORK_LATE      /* the same, since the deadline came */
};

struct mci_work_part {
    struct mci_work *work;
    size_t first;
    size_t count;
    enum mci_work_verdict verdict;
    bool takes_worker; /* the queue's: counts among what workers do */
};

/* All from 1. */
struct mci_work_limits {
    uint32_t workers;
    size_t rows_max; /* of all works that have not left; one without rows counts
                        as one of them */
    size_t rows_per_part;
    uint64_t bytes_per_part; /* a row that has more is a part of its own */
};

#define MCI_WORK_GETS_AHEAD 4

struct mci_work_queue {
    struct mci_work_limits limits;
    struct mci_link
        waiting[MCI_WORK_KINDS]; /* with rows to hand out, in order */
    struct mci_link handed;      /* without, and not ended */
    size_t rows;                 /* of works that have not left */
    uint32_t puts_running;       /* by workers */
    uint32_t gets_ahead;         /* of a put that waits */
    uint64_t due_ns; /* no deadline of what waits is before; UINT64_MAX: none */
};

void mci_work_queue_init(struct mci_work_queue *queue,
                         const struct mci_work_limits *limits);

/* Errors: -200 (rows_max), and nothing is taken. */
MC_CHECK_RESULT enum mc_err mci_work_queue_add(struct mci_work_queue *queue,
                                               struct mci_work *work);

/* What a worker does next. False: nothing now. */
bool mci_work_queue_take(struct mci_work_queue *queue, uint64_t now_ns,
                         struct mci_work_part *part_out);
/* The same of one work, for a thread that is no worker. */
bool mci_work_queue_take_of(struct mci_work_queue *queue, struct mci_work *work,
                            uint64_t now_ns, struct mci_work_part *part_out);
/* What is still to be handed out of some work whose deadline has come. False:
 * there is none, and due_ns tells when to ask again. */
bool mci_work_queue_take_late(struct mci_work_queue *queue, uint64_t now_ns,
                              struct mci_work_part *part_out);

/* What runs of it is told to stop; what is still to be handed out comes here.
 * False: there is none. Any number of times, from add until it leaves. */
bool mci_work_queue_cancel(struct mci_work_queue *queue, struct mci_work *work,
                           struct mci_work_part *part_out);
/* The same of all works, one with rows to hand out at a time; false: no more. */
bool mci_work_queue_cancel_next(struct mci_work_queue *queue,
                                struct mci_work_part *part_out);

/* A part that was handed out is done with. True: it was the last, and the work
 * has ended; told once. */
bool mci_work_queue_end(struct mci_work_queue *queue,
                        const struct mci_work_part *part);

/* The work has ended. */
void mci_work_queue_leave(struct mci_work_queue *queue, struct mci_work *work);

/* There are rows to hand out, now or once others have ended. */
bool mci_work_queue_waits(const struct mci_work_queue *queue);
/* Nothing waits and nothing runs. */
bool mci_work_queue_is_idle(const struct mci_work_queue *queue);
#endif
