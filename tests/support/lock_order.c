/* SPDX-License-Identifier: Apache-2.0 */
#include "lock_order.h"

#include <stdio.h>
#include <stdlib.h>

#include "core.h"
#include "placement.h"
#include "version.h"

#define MASTERS_MAX 8

static _Atomic(struct mci_master *) masters[MASTERS_MAX];

static _Thread_local unsigned shards_held;
static _Thread_local unsigned leaves_held;
static _Thread_local int64_t reserved;
static _Thread_local bool gives_back; /* in mci_leavings_clear */
static _Thread_local uint64_t drops_in_hold;
static _Thread_local struct lock_order counts;
static _Thread_local uint64_t locks_before; /* that, shard locks to come */
static _Thread_local void (*goes_first)(void);

void lock_order_reset(void)
{
    counts = (struct lock_order){.drops = 0};
}

struct lock_order lock_order_now(void)
{
    return counts;
}

static void expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "lock order: %s\n", what);
        abort();
    }
}

/* ---- whose lock it is -------------------------------------------------- */

enum kind { KIND_OTHER, KIND_SHARD, KIND_SPACE, KIND_TABLE };

static bool is_shard(const struct mci_master *master, const void *lock)
{
    const struct mci_shard *first = master->shards;
    return first && (uintptr_t)lock >= (uintptr_t)first &&
           (uintptr_t)lock < (uintptr_t)(first + master->shard_count);
}

static bool is_space(struct mci_master *master, const void *lock)
{
    uint32_t count = atomic_load(&master->space_count);
    for (uint32_t i = 0; i < count; i++) {
        if (lock == &mci_space_at(master, i)->lock) {
            return true;
        }
    }
    return false;
}

static bool is_table(const struct mci_master *master, const void *lock)
{
    return lock == &master->tables_lock ||
           ((uintptr_t)lock >= (uintptr_t)master->groups &&
            (uintptr_t)lock < (uintptr_t)(master->groups + MCI_GROUP_STRIPES));
}

static enum kind kind_of(const pthread_mutex_t *lock)
{
    for (unsigned i = 0; i < MASTERS_MAX; i++) {
        struct mci_master *master = atomic_load(&masters[i]);
        if (!master) {
            continue;
        }
        if (is_shard(master, lock)) {
            return KIND_SHARD;
        }
        if (is_table(master, lock)) {
            return KIND_TABLE;
        }
        if (is_space(master, lock)) {
            return KIND_SPACE;
        }
    }
    return KIND_OTHER;
}

/* ---- locks ------------------------------------------------------------- */

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

void lock_order_before(uint64_t count, void (*fn)(void))
{
    locks_before = count;
    goes_first = fn;
}

/* As another thread, which has nothing in hand. */
static void let_another_go_first(void)
{
    void (*fn)(void) = goes_first;
    int64_t mine = reserved;
    if (!fn || --locks_before > 0) {
        return;
    }
    goes_first = NULL;
    reserved = 0;
    fn();
    reserved = mine;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    enum kind kind = kind_of(lock);
    if (kind == KIND_SHARD) {
        let_another_go_first();
    }
    if (kind == KIND_SHARD) {
        expect(shards_held == 0, "two shards at once");
        expect(leaves_held == 0, "a shard under a leaf");
    } else if (kind != KIND_OTHER) {
        expect(shards_held == 0, "a leaf under a shard's lock");
        expect(reserved == 0 || gives_back,
               "a leaf with a reservation in hand");
    }
    int failed = __real_pthread_mutex_lock(lock);
    if (kind == KIND_SHARD) {
        shards_held++;
        counts.shard_locks++;
        drops_in_hold = 0;
    } else if (kind != KIND_OTHER) {
        leaves_held++;
        counts.space_locks += kind == KIND_SPACE;
    }
    return failed;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    enum kind kind = kind_of(lock);
    if (kind == KIND_SHARD) {
        shards_held--;
    } else if (kind != KIND_OTHER) {
        leaves_held--;
    }
    return __real_pthread_mutex_unlock(lock);
}

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);

static void expect_free_to_wait(void)
{
    expect(shards_held == 0, "a wait under a shard's lock");
    expect(leaves_held == 0, "a wait under a leaf");
    expect(reserved == 0, "a wait with a reservation in hand");
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    expect_free_to_wait();
    return __real_pthread_cond_wait(cond, lock);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until)
{
    expect_free_to_wait();
    return __real_pthread_cond_timedwait(cond, lock, until);
}

/* ---- reservations ------------------------------------------------------ */

enum mc_err __real_mci_event_log_reserve(struct mci_event_log *log,
                                         uint32_t count, enum mci_log_class cls,
                                         uint64_t deadline_ns,
                                         uint32_t *reserved_out);
enum mc_err __wrap_mci_event_log_reserve(struct mci_event_log *log,
                                         uint32_t count, enum mci_log_class cls,
                                         uint64_t deadline_ns,
                                         uint32_t *reserved_out);
void __real_mci_event_log_unreserve(struct mci_event_log *log, uint32_t count);
void __wrap_mci_event_log_unreserve(struct mci_event_log *log, uint32_t count);
uint64_t __real_mci_event_log_append(struct mci_event_log *log,
                                     struct mci_log_tenant *tenant,
                                     struct mc_view key,
                                     const struct mci_log_event *events,
                                     size_t count, uint32_t *left);
uint64_t __wrap_mci_event_log_append(struct mci_event_log *log,
                                     struct mci_log_tenant *tenant,
                                     struct mc_view key,
                                     const struct mci_log_event *events,
                                     size_t count, uint32_t *left);
uint64_t __real_mci_event_log_append_cleared(struct mci_event_log *log,
                                             struct mci_log_tenant *tenant,
                                             uint64_t commits, bool always,
                                             uint32_t *left);
uint64_t __wrap_mci_event_log_append_cleared(struct mci_event_log *log,
                                             struct mci_log_tenant *tenant,
                                             uint64_t commits, bool always,
                                             uint32_t *left);

enum mc_err __wrap_mci_event_log_reserve(struct mci_event_log *log,
                                         uint32_t count, enum mci_log_class cls,
                                         uint64_t deadline_ns,
                                         uint32_t *reserved_out)
{
    expect(shards_held == 0, "a reservation under a shard's lock");
    expect(reserved == 0, "a reservation over another");
    enum mc_err err = __real_mci_event_log_reserve(log, count, cls, deadline_ns,
                                                   reserved_out);
    if (err == MC_OK) {
        reserved += *reserved_out;
        counts.reservations += *reserved_out > 0;
    }
    return err;
}

void __wrap_mci_event_log_unreserve(struct mci_event_log *log, uint32_t count)
{
    reserved -= count;
    expect(reserved >= 0, "more given back than was reserved");
    __real_mci_event_log_unreserve(log, count);
}

static void note_used(uint32_t before, const uint32_t *left)
{
    reserved -= before - (left ? *left : 0);
    expect(reserved >= 0, "more used than was reserved");
}

uint64_t __wrap_mci_event_log_append(struct mci_event_log *log,
                                     struct mci_log_tenant *tenant,
                                     struct mc_view key,
                                     const struct mci_log_event *events,
                                     size_t count, uint32_t *left)
{
    uint32_t before = left ? *left : 0;
    uint64_t id =
        __real_mci_event_log_append(log, tenant, key, events, count, left);
    note_used(before, left);
    return id;
}

uint64_t __wrap_mci_event_log_append_cleared(struct mci_event_log *log,
                                             struct mci_log_tenant *tenant,
                                             uint64_t commits, bool always,
                                             uint32_t *left)
{
    uint32_t before = left ? *left : 0;
    uint64_t id =
        __real_mci_event_log_append_cleared(log, tenant, commits, always, left);
    note_used(before, left);
    return id;
}

/* ---- the core's own steps ---------------------------------------------- */

void __real_mci_leavings_clear(struct mci_master *master,
                               struct mci_leavings *leavings);
void __wrap_mci_leavings_clear(struct mci_master *master,
                               struct mci_leavings *leavings);
enum mc_err __real_mci_place(const struct mci_want *want,
                             struct mci_placed *placed_out,
                             uint32_t *count_out);
enum mc_err __wrap_mci_place(const struct mci_want *want,
                             struct mci_placed *placed_out,
                             uint32_t *count_out);
void __real_mci_version_drop_copy(const struct mci_change *change,
                                  uint32_t index, uint32_t copy);
void __wrap_mci_version_drop_copy(const struct mci_change *change,
                                  uint32_t index, uint32_t copy);
enum mc_err
__real_mci_master_put_start(struct mci_master *master,
                            const struct mci_call *call,
                            const struct mc_replicate_config *config,
                            struct mci_write_row *rows, size_t count);
enum mc_err
__wrap_mci_master_put_start(struct mci_master *master,
                            const struct mci_call *call,
                            const struct mc_replicate_config *config,
                            struct mci_write_row *rows, size_t count);
enum mc_err __real_mci_master_put_end(struct mci_master *master,
                                      const struct mci_call *call,
                                      struct mci_write_row *rows, size_t count);
enum mc_err __wrap_mci_master_put_end(struct mci_master *master,
                                      const struct mci_call *call,
                                      struct mci_write_row *rows, size_t count);
enum mc_err __real_mci_master_create(const struct mci_master_opts *opts,
                                     struct mci_master **master_out);
enum mc_err __wrap_mci_master_create(const struct mci_master_opts *opts,
                                     struct mci_master **master_out);
void __real_mci_master_destroy(struct mci_master *master);
void __wrap_mci_master_destroy(struct mci_master *master);

void __wrap_mci_leavings_clear(struct mci_master *master,
                               struct mci_leavings *leavings)
{
    expect(shards_held == 0, "bytes freed under a shard's lock");
    gives_back = true;
    __real_mci_leavings_clear(master, leavings);
    gives_back = false;
}

enum mc_err __wrap_mci_place(const struct mci_want *want,
                             struct mci_placed *placed_out, uint32_t *count_out)
{
    expect(shards_held == 0, "an allocation under a shard's lock");
    expect(reserved == 0, "an allocation with a reservation in hand");
    return __real_mci_place(want, placed_out, count_out);
}

void __wrap_mci_version_drop_copy(const struct mci_change *change,
                                  uint32_t index, uint32_t copy)
{
    counts.drops++;
    drops_in_hold++;
    if (drops_in_hold > counts.most_drops) {
        counts.most_drops = drops_in_hold;
    }
    __real_mci_version_drop_copy(change, index, copy);
}

static void expect_nothing_held(void)
{
    expect(shards_held == 0 && leaves_held == 0, "a call left with a lock");
    expect(reserved == 0, "a call left with a reservation");
}

enum mc_err
__wrap_mci_master_put_start(struct mci_master *master,
                            const struct mci_call *call,
                            const struct mc_replicate_config *config,
                            struct mci_write_row *rows, size_t count)
{
    enum mc_err err =
        __real_mci_master_put_start(master, call, config, rows, count);
    expect_nothing_held();
    return err;
}

enum mc_err __wrap_mci_master_put_end(struct mci_master *master,
                                      const struct mci_call *call,
                                      struct mci_write_row *rows, size_t count)
{
    enum mc_err err = __real_mci_master_put_end(master, call, rows, count);
    expect_nothing_held();
    return err;
}

enum mc_err __wrap_mci_master_create(const struct mci_master_opts *opts,
                                     struct mci_master **master_out)
{
    enum mc_err err = __real_mci_master_create(opts, master_out);
    for (unsigned i = 0; i < MASTERS_MAX && err == MC_OK; i++) {
        struct mci_master *none = NULL;
        if (atomic_compare_exchange_strong(&masters[i], &none, *master_out)) {
            return MC_OK;
        }
    }
    return err;
}

void __wrap_mci_master_destroy(struct mci_master *master)
{
    for (unsigned i = 0; i < MASTERS_MAX && master; i++) {
        if (atomic_load(&masters[i]) == master) {
            struct mci_log_stats stats;
            mci_event_log_stats(master->log, &stats);
            expect(stats.reserved == 0, "a reservation that outlived all");
            atomic_store(&masters[i], NULL);
        }
    }
    __real_mci_master_destroy(master);
}
