/* SPDX-License-Identifier: Apache-2.0 */
/* event_log.c - see mci_event_log.h.
 *
 * One mutex guards everything. Room is counted, not placed: what is queued plus
 * what is reserved never exceeds the capacity, except that events appended
 * beyond a reservation first push out the oldest.
 *
 * Drops happen at the old end only, so lost events always stand directly before
 * the oldest record: one counter tells of them, and no take can span a hole.
 *
 * A bulk producer that has waited OVERDUE_NS puts in a claim: room that only it
 * may have as the consumer makes it. With drop_oldest foreground writers do not
 * wait, so while there are claims each of their events pushes out one instead
 * of filling the room that a claim waits for.
 */
#include "mci_event_log.h"

#include <assert.h>
#include <pthread.h>
#include <time.h>

#include "mci_alloc.h"
#include "mci_clock.h"
#include "record_ring.h"

#define OVERDUE_NS (100 * MCI_NS_PER_MS)
#define WAIT_SLICE_NS (50 * MCI_NS_PER_MS)
#define BULK_SLICE_MAX 256

struct mci_event_log {
    uint64_t epoch;
    uint64_t capacity;
    bool blocks;

    pthread_mutex_t lock;
    pthread_cond_t filled; /* for the consumer */
    pthread_cond_t room;   /* for those who reserve */
    /* All below is guarded by lock. */
    struct mci_ring ring;
    uint64_t last_id;
    uint64_t reserved;
    uint64_t claimed;      /* by overdue bulk producers */
    uint64_t lost_at_head; /* dropped directly before the oldest record */
    uint64_t dropped;
    uint64_t waits;
    uint32_t room_waiters;
    bool is_attached;
    uint64_t consumer_wants; /* events it waits for; 0 = it does not wait */
    bool is_woken;
};

static void init_locks(struct mci_event_log *log)
{
    pthread_mutexattr_t mutex_attr;
    pthread_condattr_t cond_attr;
    (void)pthread_mutexattr_init(&mutex_attr);
#ifdef __GLIBC__
    /* What is done under the lock takes less than going to sleep does. */
    (void)pthread_mutexattr_settype(&mutex_attr, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    (void)pthread_mutex_init(&log->lock, &mutex_attr);
    (void)pthread_mutexattr_destroy(&mutex_attr);
    (void)pthread_condattr_init(&cond_attr);
    (void)pthread_condattr_setclock(&cond_attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&log->filled, &cond_attr);
    (void)pthread_cond_init(&log->room, &cond_attr);
    (void)pthread_condattr_destroy(&cond_attr);
}

enum mc_err mci_event_log_create(const struct mci_log_opts *opts,
                                 struct mci_event_log **log_out)
{
    uint32_t capacity =
        opts->capacity ? opts->capacity : MCI_EVENT_LOG_CAPACITY_DEFAULT;
    if (capacity < MCI_EVENT_LOG_CAPACITY_MIN || opts->epoch == 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mci_event_log *log = mci_calloc(1, sizeof *log);
    if (!log) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = mci_ring_init(&log->ring, capacity);
    if (err) {
        mci_free(log);
        return err;
    }
    log->epoch = opts->epoch;
    log->capacity = capacity;
    log->blocks = opts->overflow == MC_PUBLISHER_BLOCK;
    init_locks(log);
    *log_out = log;
    return MC_OK;
}

void mci_event_log_destroy(struct mci_event_log *log)
{
    if (!log) {
        return;
    }
    (void)pthread_cond_destroy(&log->room);
    (void)pthread_cond_destroy(&log->filled);
    (void)pthread_mutex_destroy(&log->lock);
    mci_ring_fini(&log->ring);
    mci_free(log);
}

static void log_lock(struct mci_event_log *log)
{
    (void)pthread_mutex_lock(&log->lock);
}

static void log_unlock(struct mci_event_log *log)
{
    (void)pthread_mutex_unlock(&log->lock);
}

/* Waits at most wait_ns, and never longer than a slice: deadlines may be on a
 * clock that only a test moves. */
static void cond_wait(struct mci_event_log *log, pthread_cond_t *cond,
                      uint64_t wait_ns)
{
    struct timespec until;
    if (wait_ns > WAIT_SLICE_NS) {
        wait_ns = WAIT_SLICE_NS;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t nsec = (uint64_t)until.tv_nsec + wait_ns;
    until.tv_sec += (time_t)(nsec / MCI_NS_PER_S);
    until.tv_nsec = (long)(nsec % MCI_NS_PER_S);
    (void)pthread_cond_timedwait(cond, &log->lock, &until);
}

/* To be called with the lock held, after room was made. */
static void tell_room(struct mci_event_log *log)
{
    if (log->room_waiters > 0) {
        (void)pthread_cond_broadcast(&log->room);
    }
}

enum mc_err mci_event_log_attach(struct mci_event_log *log)
{
    enum mc_err err = MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    log_lock(log);
    if (!log->is_attached) {
        log->is_attached = true;
        log->is_woken = false;
        err = MC_OK;
    }
    log_unlock(log);
    return err;
}

void mci_event_log_detach(struct mci_event_log *log)
{
    log_lock(log);
    log->is_attached = false;
    log->lost_at_head = 0;
    mci_ring_clear(&log->ring);
    tell_room(log);
    log_unlock(log);
}

uint32_t mci_event_log_slice(const struct mci_event_log *log)
{
    uint64_t quarter = log->capacity / 4;
    return quarter < BULK_SLICE_MAX ? (uint32_t)quarter : BULK_SLICE_MAX;
}

/* One producer that waits for room. */
struct room_wait {
    uint32_t count;
    bool is_bulk;
    bool is_overdue;
    uint64_t overdue_ns;
    uint64_t deadline_ns;
};

static bool has_room(const struct mci_event_log *log,
                     const struct room_wait *wait)
{
    uint64_t used = log->ring.depth + log->reserved;
    if (wait->is_overdue) {
        return used + wait->count <= log->capacity;
    }
    if (used + log->claimed + wait->count > log->capacity) {
        return false;
    }
    return !wait->is_bulk || used <= log->capacity / 2;
}

/* One turn of waiting. */
static enum mc_err await_room(struct mci_event_log *log, struct room_wait *wait)
{
    uint64_t now_ns = mci_clock_ns();
    uint64_t until_ns = wait->deadline_ns;
    if (now_ns >= wait->deadline_ns) {
        return MC_ERR_RPC_TIMEOUT;
    }
    if (wait->is_bulk && !wait->is_overdue) {
        if (now_ns >= wait->overdue_ns) {
            wait->is_overdue = true;
            log->claimed += wait->count;
            return MC_OK;
        }
        until_ns = wait->overdue_ns < until_ns ? wait->overdue_ns : until_ns;
    }
    log->room_waiters++;
    cond_wait(log, &log->room, until_ns - now_ns);
    log->room_waiters--;
    return MC_OK;
}

static enum mc_err reserve_locked(struct mci_event_log *log,
                                  struct room_wait *wait,
                                  uint32_t *reserved_out)
{
    enum mc_err err = MC_OK;
    bool has_waited = false;
    while (log->is_attached && !has_room(log, wait)) {
        log->waits += !has_waited;
        has_waited = true;
        err = await_room(log, wait);
        if (err) {
            break;
        }
    }
    if (wait->is_overdue) {
        log->claimed -= wait->count;
        tell_room(log);
    }
    if (err) {
        return err;
    }
    *reserved_out = log->is_attached ? wait->count : 0;
    log->reserved += *reserved_out;
    return MC_OK;
}

enum mc_err mci_event_log_reserve(struct mci_event_log *log, uint32_t count,
                                  enum mci_log_class cls, uint64_t deadline_ns,
                                  uint32_t *reserved_out)
{
    assert(count >= 1 && count <= MCI_EVENT_LOG_RESERVE_MAX);
    struct room_wait wait = {.count = count, .deadline_ns = deadline_ns};
    wait.is_bulk = cls == MCI_LOG_BULK;
    if (!log->blocks && !wait.is_bulk) {
        *reserved_out = 0;
        return MC_OK;
    }
    if (wait.is_bulk) {
        wait.overdue_ns = mci_clock_ns() + OVERDUE_NS;
    }
    log_lock(log);
    enum mc_err err = reserve_locked(log, &wait, reserved_out);
    log_unlock(log);
    return err;
}

void mci_event_log_unreserve(struct mci_event_log *log, uint32_t count)
{
    if (count == 0) {
        return;
    }
    log_lock(log);
    assert(log->reserved >= count);
    log->reserved -= count;
    tell_room(log);
    log_unlock(log);
}

static uint32_t drop_oldest_group(struct mci_event_log *log)
{
    uint32_t count = mci_ring_drop_group(&log->ring);
    log->dropped += count;
    log->lost_at_head += count;
    return count;
}

/* Makes room for `count` events, `unreserved` of which nobody has reserved. */
static void make_room(struct mci_event_log *log, size_t count,
                      size_t unreserved)
{
    uint64_t pushed_out = 0;
    while (log->ring.depth > 0 &&
           log->ring.depth + count + log->reserved > log->capacity) {
        pushed_out += drop_oldest_group(log);
    }
    while (log->claimed > 0 && log->ring.depth > 0 && pushed_out < unreserved &&
           log->ring.depth + count + log->reserved + log->claimed >
               log->capacity) {
        pushed_out += drop_oldest_group(log);
    }
}

static void use_reservation(struct mci_event_log *log, size_t count,
                            uint32_t *reserved)
{
    uint32_t used = 0;
    if (reserved) {
        used = *reserved < count ? *reserved : (uint32_t)count;
        *reserved -= used;
        assert(log->reserved >= used);
        log->reserved -= used;
    }
    if (log->is_attached) {
        make_room(log, count, count - used);
    }
}

static void count_commit(struct mci_log_tenant *tenant, enum mc_event_type type)
{
    if (type == MC_EVENT_STORED) {
        tenant->commits++;
        tenant->readable++;
    } else {
        assert(tenant->readable > 0);
        tenant->readable--;
    }
}

/* Unlocks; the consumer is woken after that, so that it finds the lock free. */
static void unlock_and_tell(struct mci_event_log *log)
{
    bool wakes =
        log->consumer_wants > 0 && log->ring.depth >= log->consumer_wants;
    if (wakes) {
        log->consumer_wants = 0;
    }
    log_unlock(log);
    if (wakes) {
        (void)pthread_cond_signal(&log->filled);
    }
}

uint64_t mci_event_log_append(struct mci_event_log *log,
                              struct mci_log_tenant *tenant,
                              struct mc_view object_key,
                              const struct mci_log_event *events, size_t count,
                              uint32_t *reserved)
{
    assert(count >= 1 && count <= MCI_EVENT_LOG_GROUP_MAX);
    log_lock(log);
    uint64_t first_id = log->last_id + 1;
    log->last_id += count;
    use_reservation(log, count, reserved);
    for (size_t i = 0; i < count; i++) {
        count_commit(tenant, events[i].type);
        if (!log->is_attached) {
            continue;
        }
        struct mci_ring_entry entry = {.id = first_id + i,
                                       .type = events[i].type,
                                       .medium = events[i].medium,
                                       .group_continues = i + 1 < count,
                                       .tenant_id = tenant->name,
                                       .object_key = object_key,
                                       .group_id = events[i].group_id,
                                       .session_id = events[i].session_id};
        mci_ring_push(&log->ring, &entry);
    }
    unlock_and_tell(log);
    return first_id;
}

static uint64_t append_cleared_locked(struct mci_event_log *log,
                                      const struct mci_log_tenant *tenant,
                                      uint32_t *reserved)
{
    uint64_t id = ++log->last_id;
    use_reservation(log, 1, reserved);
    if (log->is_attached) {
        struct mci_ring_entry entry = {.id = id,
                                       .type = MC_EVENT_CLEARED,
                                       .medium = MC_MEDIUM_NONE,
                                       .tenant_id = tenant->name};
        mci_ring_push(&log->ring, &entry);
    }
    return id;
}

uint64_t mci_event_log_append_cleared(struct mci_event_log *log,
                                      struct mci_log_tenant *tenant,
                                      uint64_t commits_at_start, bool always,
                                      uint32_t *reserved)
{
    uint64_t id = 0;
    log_lock(log);
    if (always ||
        (tenant->commits == commits_at_start && tenant->readable == 0)) {
        id = append_cleared_locked(log, tenant, reserved);
    }
    unlock_and_tell(log);
    return id;
}

void mci_event_log_tenant_counts(struct mci_event_log *log,
                                 const struct mci_log_tenant *tenant,
                                 uint64_t *commits_out, uint64_t *readable_out)
{
    log_lock(log);
    *commits_out = tenant->commits;
    *readable_out = tenant->readable;
    log_unlock(log);
}

uint64_t mci_event_log_last_id(struct mci_event_log *log)
{
    log_lock(log);
    uint64_t id = log->last_id;
    log_unlock(log);
    return id;
}

uint64_t mci_event_log_epoch(const struct mci_event_log *log)
{
    return log->epoch;
}

void mci_event_log_stats(struct mci_event_log *log,
                         struct mci_log_stats *stats_out)
{
    log_lock(log);
    *stats_out = (struct mci_log_stats){.last_id = log->last_id,
                                        .depth = log->ring.depth,
                                        .capacity = log->capacity,
                                        .dropped = log->dropped,
                                        .reserved = log->reserved,
                                        .waits = log->waits};
    log_unlock(log);
}

static void await_records(struct mci_event_log *log, uint64_t deadline_ns)
{
    while (log->ring.depth == 0 && !log->is_woken) {
        uint64_t now_ns = deadline_ns == 0 ? 0 : mci_clock_ns();
        if (now_ns >= deadline_ns) {
            break;
        }
        log->consumer_wants = 1;
        cond_wait(log, &log->filled, deadline_ns - now_ns);
    }
    log->consumer_wants = 0;
    log->is_woken = false;
}

void mci_event_log_take(struct mci_event_log *log, uint64_t deadline_ns,
                        struct mci_log_taken *taken)
{
    log_lock(log);
    await_records(log, deadline_ns);
    uint64_t lost = log->lost_at_head;
    taken->count = mci_ring_take(&log->ring, MC_BATCH_EVENTS_MAX, taken->bytes,
                                 MC_BATCH_BYTES_MAX);
    taken->depth_left = log->ring.depth;
    if (taken->count > 0) {
        log->lost_at_head = 0;
        tell_room(log);
    }
    log_unlock(log);
    mci_ring_read(taken->bytes, taken->count, taken->records);
    if (taken->count > 0) {
        taken->records[0].lost_before = lost;
    }
}

void mci_event_log_gather(struct mci_event_log *log, uint32_t count,
                          uint64_t wait_ns)
{
    log_lock(log);
    if (log->ring.depth < count && !log->is_woken) {
        log->consumer_wants = count;
        cond_wait(log, &log->filled, wait_ns);
        log->consumer_wants = 0;
    }
    log_unlock(log);
}

void mci_event_log_wake(struct mci_event_log *log)
{
    log_lock(log);
    log->is_woken = true;
    log->consumer_wants = 0;
    log_unlock(log);
    (void)pthread_cond_signal(&log->filled);
}
