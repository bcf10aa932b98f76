/* SPDX-License-Identifier: Apache-2.0 */
/* Level triggered: what was not taken is told again, so a callback may stop
 * where it likes. An eventfd wakes the thread for what was posted; it is
 * written only when the queue was empty, so a burst of posts costs one wake-up.
 */
#include "mci_poller.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_thread.h"

#define BATCH_MAX 128

/* Timeouts of the system stand still while the machine sleeps, our clock does
 * not; so no wait is longer than this. */
#define WAIT_MAX_MS 10000

struct mci_poller {
    struct mci_poller_opts opts;
    char name[16];
    pthread_t thread;
    int epoll_fd;
    int wake_fd;

    pthread_mutex_t lock;
    struct mci_task *first; /* guarded by lock, as the two below */
    struct mci_task **last;
    bool is_ending;

    /* Of the thread: the events of this turn. */
    struct epoll_event batch[BATCH_MAX];
    int batch_count;
    bool was_busy; /* at the last look */
    int batch_at;
};

/* The poller whose thread this is. */
static _Thread_local const struct mci_poller *current;

/* ---- what is watched ---------------------------------------------------- */

enum mc_err mci_poller_add(struct mci_poller *poller, struct mci_watch *watch,
                           uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) < 0) {
        int failed = errno;
        mc_log(MC_LOG_WARN, "poller %s: watch descriptor %d: %s", poller->name,
               watch->fd, strerrordesc_np(failed));
        return failed == ENOMEM || failed == ENOSPC ? MC_ERR_NOMEM
                                                    : MC_ERR_INTERNAL_ERROR;
    }
    watch->events = events;
    return MC_OK;
}

void mci_poller_change(struct mci_poller *poller, struct mci_watch *watch,
                       uint32_t events)
{
    if (watch->events == events) {
        return;
    }
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) < 0) {
        mc_log(MC_LOG_WARN, "poller %s: change descriptor %d: %s", poller->name,
               watch->fd, strerrordesc_np(errno));
    }
    watch->events = events;
}

void mci_poller_remove(struct mci_poller *poller, struct mci_watch *watch)
{
    (void)epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    for (int i = poller->batch_at; i < poller->batch_count; i++) {
        if (poller->batch[i].data.ptr == watch) {
            poller->batch[i].data.ptr = NULL;
        }
    }
}

/* ---- what is posted ------------------------------------------------------ */

static void wake(struct mci_poller *poller)
{
    const uint64_t one = 1;
    ssize_t written = write(poller->wake_fd, &one, sizeof one);
    (void)written; /* full means that it wakes already */
}

void mci_poller_post(struct mci_poller *poller, struct mci_task *task)
{
    task->next = NULL;
    (void)pthread_mutex_lock(&poller->lock);
    bool was_empty = poller->first == NULL;
    *poller->last = task;
    poller->last = &task->next;
    /* Under the lock, as destroy may free the poller once the task is seen. */
    if (was_empty) {
        wake(poller);
    }
    (void)pthread_mutex_unlock(&poller->lock);
}

/* The list moves to the caller; answers whether the end was asked for. */
static bool take_tasks(struct mci_poller *poller, struct mci_task **first_out)
{
    (void)pthread_mutex_lock(&poller->lock);
    *first_out = poller->first;
    poller->first = NULL;
    poller->last = &poller->first;
    bool is_ending = poller->is_ending;
    (void)pthread_mutex_unlock(&poller->lock);
    return is_ending;
}

/* Runs what was posted until now, and at the end what that posted too; answers
 * whether the end was asked for. */
static bool run_tasks(struct mci_poller *poller)
{
    struct mci_task *task;
    bool is_ending = take_tasks(poller, &task);
    while (task) {
        struct mci_task *next = task->next; /* run may free the task */
        task->run(task);
        task = next;
        if (!task && is_ending) {
            (void)take_tasks(poller, &task);
        }
    }
    return is_ending;
}

/* ---- the thread ---------------------------------------------------------- */

static int wait_ms(uint64_t until_ns)
{
    uint64_t now_ns = mci_clock_ns();
    if (until_ns <= now_ns) {
        return 0;
    }
    uint64_t left_ms = (until_ns - now_ns - 1) / MCI_NS_PER_MS + 1;
    return left_ms < WAIT_MAX_MS ? (int)left_ms : WAIT_MAX_MS;
}

static void dispatch(const struct epoll_event *event)
{
    struct mci_watch *watch = event->data.ptr;
    if (!watch) {
        return;
    }
    /* Its events may have been changed since in this turn. */
    uint32_t events = event->events & (watch->events | EPOLLERR | EPOLLHUP);
    if (events) {
        watch->ready(watch, events);
    }
}

/* A peer that waits for its answer most often has the next request ready as soon
 * as it has the core; to be woken for that costs more than to look. */
static int await_events(struct mci_poller *poller, int timeout_ms)
{
    int count = 0;
    if (poller->was_busy) {
        count = epoll_wait(poller->epoll_fd, poller->batch, BATCH_MAX, 0);
        if (count == 0) {
            (void)sched_yield();
        }
    }
    if (count <= 0) {
        count =
            epoll_wait(poller->epoll_fd, poller->batch, BATCH_MAX, timeout_ms);
    }
    poller->was_busy = count > 0;
    return count;
}

/* Answers whether there may be posts. */
static bool run_events(struct mci_poller *poller, int timeout_ms)
{
    bool was_woken = false;
    int count = await_events(poller, timeout_ms);
    poller->batch_count = count > 0 ? count : 0;
    for (poller->batch_at = 0; poller->batch_at < poller->batch_count;
         poller->batch_at++) {
        struct epoll_event event = poller->batch[poller->batch_at];
        if (event.data.ptr == poller) {
            uint64_t posts;
            ssize_t got = read(poller->wake_fd, &posts, sizeof posts);
            (void)got;
            was_woken = true;
        } else {
            dispatch(&event);
        }
    }
    poller->batch_count = 0;
    return was_woken;
}

static void *run(void *ctx)
{
    struct mci_poller *poller = ctx;
    current = poller;
    uint64_t again_ns = poller->opts.turn ? 0 : UINT64_MAX;
    bool is_over = false;
    (void)pthread_setname_np(pthread_self(), poller->name);
    while (!is_over) {
        if (run_events(poller, wait_ms(again_ns))) {
            is_over = run_tasks(poller);
        }
        if (poller->opts.turn && !is_over) {
            again_ns = poller->opts.turn(poller->opts.ctx, mci_clock_ns());
        }
    }
    return NULL;
}

bool mci_poller_is_current(const struct mci_poller *poller)
{
    return current == poller;
}

/* ---- life ----------------------------------------------------------------- */

/* Signals are for the threads of the application. */
static int start_thread(struct mci_poller *poller)
{
    return mci_thread_start(&poller->thread, NULL, run, poller);
}

/* 0, or an errno. */
static int open_descriptors(struct mci_poller *poller)
{
    poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (poller->epoll_fd < 0) {
        return errno;
    }
    int failed;
    poller->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (poller->wake_fd < 0) {
        failed = errno;
        goto err_close_epoll;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = poller};
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, poller->wake_fd, &event)) {
        failed = errno;
        goto err_close_wake;
    }
    return 0;

err_close_wake:
    (void)close(poller->wake_fd);
err_close_epoll:
    (void)close(poller->epoll_fd);
    return failed;
}

enum mc_err mci_poller_create(const struct mci_poller_opts *opts,
                              struct mci_poller **poller_out)
{
    struct mci_poller *poller = mci_calloc(1, sizeof *poller);
    if (!poller) {
        return MC_ERR_NOMEM;
    }
    poller->opts = *opts;
    poller->last = &poller->first;
    (void)snprintf(poller->name, sizeof poller->name, "%s",
                   opts->name ? opts->name : "mc-poller");
    int failed = open_descriptors(poller);
    if (failed) {
        goto err_free;
    }
    (void)pthread_mutex_init(&poller->lock, NULL);
    failed = start_thread(poller);
    if (failed) {
        goto err_close;
    }
    *poller_out = poller;
    return MC_OK;

err_close:
    (void)pthread_mutex_destroy(&poller->lock);
    (void)close(poller->wake_fd);
    (void)close(poller->epoll_fd);
err_free:
    mc_log(MC_LOG_ERROR, "poller %s: create: %s", poller->name,
           strerrordesc_np(failed));
    mci_free(poller);
    return MC_ERR_INTERNAL_ERROR;
}

void mci_poller_destroy(struct mci_poller *poller)
{
    if (!poller) {
        return;
    }
    assert(!mci_poller_is_current(poller));
    (void)pthread_mutex_lock(&poller->lock);
    poller->is_ending = true;
    wake(poller);
    (void)pthread_mutex_unlock(&poller->lock);
    (void)pthread_join(poller->thread, NULL);
    (void)pthread_mutex_destroy(&poller->lock);
    (void)close(poller->wake_fd);
    (void)close(poller->epoll_fd);
    mci_free(poller);
}
