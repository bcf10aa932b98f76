/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry_crowd.c - clients that come, lend, write, forget, fall silent and
 * come back, eight at once. No range is handed out while another attempt could
 * still write there; events are exact; everything is back at the end.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mci_clock.h"
#include "registry_rig.h"
#include "suite.h"

#define ACTORS 8
#define TURNS 4000
#define KEYS 64
#define SIZE_MAX_KIB 16
#define STEP_NS (500 * 1000)
#define DANGERS 4096
#define LEAD_NS (500 * MS)

static struct rig rig;
static struct mci_registry *registry;
static _Atomic uint64_t now_ns;
static _Atomic uint64_t incarnations = 100;
static _Atomic uint64_t seen_ns[ACTORS]; /* when each was last at it */
static atomic_uint faults;
static atomic_uint renewed;
static atomic_uint expired;
static atomic_bool may_end;

static void fault(const char *what, int64_t code)
{
    fprintf(stderr, "crowd: %s: %lld\n", what, (long long)code);
    atomic_fetch_add(&faults, 1);
}

static void count_expired(void *ctx, struct mc_view name)
{
    (void)ctx, (void)name;
    atomic_fetch_add(&expired, 1);
}

/* ---- where somebody may still write ----------------------------------------- */

struct danger {
    uint64_t number; /* 0: unused */
    uint64_t incarnation;
    uint64_t offset;
    uint64_t len;
    uint64_t until_ns;
    uint32_t segment;
};

static pthread_mutex_t danger_lock = PTHREAD_MUTEX_INITIALIZER;
static struct danger dangers[DANGERS];

static void add_danger(const struct danger *added)
{
    bool is_in = false;
    (void)pthread_mutex_lock(&danger_lock);
    for (int i = 0; i < DANGERS; i++) {
        struct danger *danger = &dangers[i];
        if (danger->number != 0 && danger->segment == added->segment &&
            danger->until_ns > added->until_ns - 60 * SECOND &&
            danger->offset < added->offset + added->len &&
            added->offset < danger->offset + danger->len) {
            fault("a range is handed out that may still be written",
                  (int64_t)danger->number);
        }
        if (!is_in &&
            (danger->number == 0 || danger->until_ns < atomic_load(&now_ns))) {
            *danger = *added;
            is_in = true;
        }
    }
    (void)pthread_mutex_unlock(&danger_lock);
    if (!is_in) {
        fault("too many dangers", 0);
    }
}

/* Attempt or incarnation; 0: any. */
static void end_dangers(uint32_t segment, uint64_t number, uint64_t incarnation)
{
    (void)pthread_mutex_lock(&danger_lock);
    for (int i = 0; i < DANGERS; i++) {
        struct danger *danger = &dangers[i];
        if ((segment == 0 || danger->segment == segment) &&
            (number == 0 || danger->number == number) &&
            (incarnation == 0 || danger->incarnation == incarnation)) {
            danger->number = 0;
        }
    }
    (void)pthread_mutex_unlock(&danger_lock);
}

/* ---- actors ------------------------------------------------------------------ */

struct actor {
    pthread_t thread;
    struct cast cast; /* its own view of what all share */
    struct fellow fellow;
    uint64_t dice;
    unsigned number;
    struct mci_write_row open[4];
    char keys[4][8];
    unsigned open_count;
};

/* The secrets of all segments ever, by number; so that any actor can have the
 * owner close an attempt. */
struct secret {
    uint32_t segment;
    uint64_t registration;
    uint8_t key[MC_GRANT_KEY_LEN];
};
static struct secret secrets[4096];
static uint32_t secret_count; /* both guarded by danger_lock */

static uint64_t roll(struct actor *actor)
{
    actor->dice ^= actor->dice << 13;
    actor->dice ^= actor->dice >> 7;
    actor->dice ^= actor->dice << 17;
    return actor->dice;
}

/* Time goes on for all, but does not leave anybody behind whom the machine lets
 * wait: only who says so falls silent. */
static void tick(struct actor *actor)
{
    uint64_t now = atomic_fetch_add(&now_ns, STEP_NS) + STEP_NS;
    atomic_store(&seen_ns[actor->number], now);
    for (unsigned i = 0; i < ACTORS; i++) {
        while (atomic_load(&seen_ns[i]) + LEAD_NS < now) {
            (void)sched_yield();
        }
    }
    actor->cast.rig.now_ns = now;
}

static void receive(struct mci_write_row *row)
{
    (void)pthread_mutex_lock(&danger_lock);
    for (uint32_t i = 0; i < row->place_count; i++) {
        for (uint32_t j = 0; j < secret_count; j++) {
            if (secrets[j].segment == row->places[i].segment) {
                row->receipts[i] =
                    mc_grant_receipt(secrets[j].key, secrets[j].registration,
                                     row->attempt.number);
            }
        }
    }
    (void)pthread_mutex_unlock(&danger_lock);
    end_dangers(0, row->attempt.number, 0);
}

static void lend(struct actor *actor)
{
    struct fellow *fellow = &actor->fellow;
    tick(actor);
    enum mc_err err = fellow_mount(fellow, 256 * KIB);
    if (err != MC_OK) {
        if (err != MC_ERR_CLIENT_NOT_FOUND) {
            fault("mount", err);
        }
        fellow->segment = 0;
        return;
    }
    (void)pthread_mutex_lock(&danger_lock);
    struct secret *secret = &secrets[secret_count++ % 4096];
    secret->segment = fellow->segment;
    secret->registration = fellow->registration;
    memcpy(secret->key, fellow->key, sizeof secret->key);
    (void)pthread_mutex_unlock(&danger_lock);
}

static bool beat(struct actor *actor);

/* A new incarnation; the name may still be held for two heartbeats. */
static void join(struct actor *actor)
{
    struct fellow *fellow = &actor->fellow;
    char name[16];
    (void)snprintf(name, sizeof name, "n%u:1", actor->number);
    fellow_leave(fellow);
    memset(fellow, 0, sizeof *fellow);
    fellow->clock_ahead_ns = actor->number * SECOND;
    fellow->incarnation = atomic_fetch_add(&incarnations, 1);
    actor->open_count = 0;
    enum mc_err err = MC_ERR_SEGMENT_ALREADY_EXISTS;
    while (err == MC_ERR_SEGMENT_ALREADY_EXISTS) {
        tick(actor);
        err = fellow_hello(&actor->cast, fellow, name);
    }
    if (err != MC_OK) {
        fault("hello", err);
        return;
    }
    atomic_fetch_add(&renewed, 1);
    if (beat(actor)) {
        lend(actor);
    }
}

/* Carries out fences before it says so. */
static bool beat(struct actor *actor)
{
    struct fellow *fellow = &actor->fellow;
    tick(actor);
    fellow_forget(fellow);
    for (unsigned i = 0; i < actor->open_count; i++) {
        fellow_know(fellow, &actor->open[i], 0);
    }
    enum mc_err err = fellow_beat(fellow);
    if (err != MC_OK) {
        if (err != MC_ERR_CLIENT_NOT_FOUND) {
            fault("heartbeat", err);
        }
        return false;
    }
    for (uint32_t i = 0; i < fellow->pulse.fence_count; i++) {
        const struct mc_fence *fence = &fellow->pulse.fences[i];
        bool is_attempt = fence->kind == MC_FENCE_ATTEMPT;
        end_dangers(fellow->segment, is_attempt ? fence->subject : 0,
                    is_attempt ? 0 : fence->subject);
    }
    fellow_fence(fellow);
    return true;
}

static void end_one(struct actor *actor, unsigned at)
{
    struct mci_write_row *row = &actor->open[at];
    row->key = mc_view_str(actor->keys[at]);
    uint64_t way = roll(actor) % 8;
    enum mc_err err = MC_OK;
    tick(actor);
    if (way < 4) {
        receive(row);
    }
    if (way < 6) {
        err = fellow_end(&actor->fellow, row);
    } else {
        err = fellow_revoke(&actor->fellow, row, way == 7);
    }
    if (err != MC_OK && err != MC_ERR_INVALID_VERSION &&
        err != MC_ERR_CLIENT_NOT_FOUND) {
        fault("end", err);
    }
    actor->open_count--;
    actor->open[at] = actor->open[actor->open_count];
    memcpy(actor->keys[at], actor->keys[actor->open_count],
           sizeof actor->keys[at]);
}

static void start_one(struct actor *actor)
{
    struct fellow *fellow = &actor->fellow;
    unsigned at = actor->open_count;
    uint32_t slot = (uint32_t)(roll(actor) % 4);
    (void)snprintf(actor->keys[at], sizeof actor->keys[at], "k%02u",
                   (unsigned)(roll(actor) % KEYS));
    tick(actor);
    struct mci_write_row row = fellow_start(
        fellow, slot, actor->keys[at], 1 + roll(actor) % (SIZE_MAX_KIB * KIB));
    if (row.err != MC_OK) {
        return;
    }
    for (uint32_t i = 0; i < row.place_count; i++) {
        const struct danger danger = {.number = row.attempt.number,
                                      .incarnation = fellow->incarnation,
                                      .offset = row.places[i].offset,
                                      .len = row.size,
                                      .until_ns =
                                          actor->cast.rig.now_ns + 60 * SECOND,
                                      .segment = row.places[i].segment};
        add_danger(&danger);
    }
    if (roll(actor) % 16 == 0) { /* its answer was never seen */
        end_dangers(0, row.attempt.number, 0);
        mci_registry_given_up(registry, fellow->member, slot,
                              fellow->slots[slot], false,
                              actor->cast.rig.now_ns);
        fellow->slots[slot]++;
        return;
    }
    actor->open[at] = row;
    actor->open_count++;
}

static void read_one(struct actor *actor)
{
    char key[8];
    (void)snprintf(key, sizeof key, "k%02u", (unsigned)(roll(actor) % KEYS));
    tick(actor);
    struct mci_read_row row = {.key = mc_view_str(key)};
    struct mci_call call = fellow_call(&actor->fellow);
    if (mci_master_get(rig.master, &call, &row, 1) == MC_OK) {
        mci_registry_granted(registry, actor->fellow.member, &row, 1,
                             actor->cast.rig.now_ns);
    }
}

static void remove_one(struct actor *actor)
{
    char key[8];
    (void)snprintf(key, sizeof key, "k%02u", (unsigned)(roll(actor) % KEYS));
    tick(actor);
    struct mc_view view = mc_view_str(key);
    struct mci_call call = fellow_call(&actor->fellow);
    int64_t result = 0;
    (void)!mci_master_remove(rig.master, &call, &view, 1, true, &result);
}

static void remount(struct actor *actor)
{
    struct fellow *fellow = &actor->fellow;
    tick(actor);
    uint32_t segment = fellow->segment;
    if (segment != 0 && mci_registry_unmount(registry, fellow->member, segment,
                                             roll(actor) % 2 * 50,
                                             actor->cast.rig.now_ns) != MC_OK) {
        fault("unmount", 0);
    }
    lend(actor);
}

/* Without a heartbeat until it is expired, and without noticing. */
static void fall_silent(struct actor *actor)
{
    for (uint64_t ns = 0; ns < (TTL_MS + BEAT_MS) * MS; ns += STEP_NS) {
        tick(actor);
    }
}

static void act(struct actor *actor)
{
    uint64_t dice = roll(actor) % 1000;
    if (dice == 0 && roll(actor) % 4 == 0) {
        fall_silent(actor);
    } else if (dice < 2) {
        mci_registry_goodbye(registry, actor->fellow.member,
                             actor->cast.rig.now_ns);
        join(actor);
    } else if (dice < 4) { /* it dies, and comes back under its name */
        mci_registry_hung_up(registry, actor->fellow.member,
                             actor->cast.rig.now_ns);
        join(actor);
    } else if (dice < 8) {
        remount(actor);
    } else if (dice < 150) {
        if (!beat(actor)) {
            join(actor);
        }
    } else if (dice < 200) {
        read_one(actor);
    } else if (dice < 400) {
        remove_one(actor);
    } else if (actor->open_count > 0 &&
               (actor->open_count == 4 || dice < 680)) {
        end_one(actor, (unsigned)(roll(actor) % actor->open_count));
    } else {
        start_one(actor);
    }
}

static void *run_actor(void *ctx)
{
    struct actor *actor = ctx;
    join(actor);
    for (int i = 0; i < TURNS; i++) {
        act(actor);
    }
    atomic_store(&seen_ns[actor->number], UINT64_MAX / 2);
    return NULL;
}

static void *run_steps(void *ctx)
{
    (void)ctx;
    while (!atomic_load(&may_end)) {
        uint64_t now = atomic_load(&now_ns);
        struct mci_registry_stats stats;
        (void)mci_registry_step(registry, now, mci_clock_ns() + 10 * SECOND);
        (void)mci_master_sweep(rig.master, now, mci_clock_ns() + 10 * SECOND);
        mci_registry_stat(registry, &stats);
        uint32_t segments[16];
        size_t count = mci_registry_segments(registry, 0, segments, 16);
        for (size_t i = 0; i < count; i++) {
            struct mci_segment_row row;
            struct mci_segment_texts texts;
            (void)mci_registry_segment(registry, segments[i], &row, &texts);
        }
    }
    return NULL;
}

/* ---- events ------------------------------------------------------------------- */

struct follower {
    pthread_t thread;
    atomic_bool may_end;
    bool is_there[KEYS];
    unsigned count;
    uint64_t last_id;
};

static void apply(struct follower *follower,
                  const struct mci_log_record *record)
{
    if (record->id != follower->last_id + 1 || record->lost_before != 0) {
        fault("stream: a hole", 0);
    }
    follower->last_id = record->id;
    if (record->type == MC_EVENT_CLEARED) {
        return;
    }
    const char *text = record->object_key.data;
    bool *is_there =
        &follower->is_there[(text[1] - '0') * 10 + (text[2] - '0')];
    bool is_stored = record->type == MC_EVENT_STORED;
    if (*is_there == is_stored) {
        fault("stream: not in turn", is_stored);
    }
    *is_there = is_stored;
    follower->count += is_stored ? 1U : -1U;
}

static void *run_follower(void *ctx)
{
    struct follower *follower = ctx;
    for (;;) {
        bool is_last = atomic_load(&follower->may_end);
        mci_event_log_take(rig.log, mci_clock_ns() + 10 * MS, &rig.taken);
        for (uint32_t i = 0; i < rig.taken.count; i++) {
            apply(follower, &rig.taken.records[i]);
        }
        if (is_last && rig.taken.count == 0) {
            return NULL;
        }
    }
}

/* ---- the end ------------------------------------------------------------------ */

static void settle(void)
{
    uint64_t now = atomic_load(&now_ns);
    while (mci_registry_step(registry, now, mci_clock_ns() + 10 * SECOND) <=
           now) {
    }
}

static void open_actor(struct actor *actor, unsigned number)
{
    memset(actor, 0, sizeof *actor);
    actor->number = number;
    atomic_store(&seen_ns[number], rig.now_ns);
    actor->dice = 88172645463325252ULL + number * 7919;
    actor->cast.rig = rig;
    actor->cast.registry = registry;
    actor->cast.rig.deadline_ns = mci_clock_ns() + 120 * SECOND;
    actor->cast.room.fences =
        calloc(MCI_FENCES_MAX, sizeof *actor->cast.room.fences);
    actor->cast.room.closed =
        calloc(MC_ATTEMPTS_MAX, sizeof *actor->cast.room.closed);
    actor->cast.room.renewals =
        calloc(MC_ATTEMPTS_MAX, sizeof *actor->cast.room.renewals);
}

static void close_actor(struct actor *actor)
{
    fellow_leave(&actor->fellow);
    free(actor->cast.room.fences);
    free(actor->cast.room.closed);
    free(actor->cast.room.renewals);
}

static void expect_all_is_back(void)
{
    struct mci_registry_stats stats;
    settle();
    atomic_fetch_add(&now_ns, 10 * MC_GRANT_TTL_MAX_MS * MS);
    settle();
    rig.now_ns = atomic_load(&now_ns);
    rig_sweep(&rig);
    mci_registry_stat(registry, &stats);
    ck_assert_uint_eq(stats.clients, 0);
    ck_assert_uint_eq(stats.segments, 0);
    ck_assert_uint_eq(stats.fences_open, 0);
    ck_assert_uint_eq(stats.attempts, 0);
    ck_assert_uint_eq(stats.stuck, 0);
    ck_assert_uint_eq(stats.bad_receipts, 0);
    ck_assert_uint_eq(stats.expired_clients + stats.left_clients,
                      atomic_load(&renewed));
    ck_assert_uint_gt(stats.left_clients, 0);
    ck_assert_uint_eq(atomic_load(&expired), atomic_load(&renewed));
    ck_assert_uint_eq(rig_stats(&rig).objects, 0);
    ck_assert_uint_eq(rig_stats(&rig).attempts, 0);
    ck_assert_uint_eq(rig_stats(&rig).quarantined, 0);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert_uint_eq(rig_stats(&rig).capacity_bytes, 0);
}

START_TEST(nothing_is_written_twice_and_everything_comes_back)
{
    static struct actor actors[ACTORS];
    struct follower follower = {.last_id = 1};
    pthread_t stepper;
    const struct rig_opts opts = {.segment_bytes = MC_NONE,
                                  .overflow = MC_PUBLISHER_BLOCK,
                                  .shards = 16,
                                  .store = {.default_kv_lease_ttl_ms = 50}};
    rig_open(&rig, &opts);
    atomic_store(&now_ns, rig.now_ns);
    const struct mci_registry_opts registry_opts = {
        .master = rig.master,
        .epoch = mci_event_log_epoch(rig.log),
        .client_ttl_ms = TTL_MS,
        .heartbeat_ms = BEAT_MS,
        .expired = count_expired};
    ck_assert_int_eq(mci_registry_create(&registry_opts, &registry), MC_OK);
    for (unsigned i = 0; i < ACTORS; i++) {
        open_actor(&actors[i], i);
    }
    ck_assert_int_eq(
        pthread_create(&follower.thread, NULL, run_follower, &follower), 0);
    ck_assert_int_eq(pthread_create(&stepper, NULL, run_steps, NULL), 0);
    for (unsigned i = 0; i < ACTORS; i++) {
        ck_assert_int_eq(
            pthread_create(&actors[i].thread, NULL, run_actor, &actors[i]), 0);
    }
    for (unsigned i = 0; i < ACTORS; i++) {
        (void)pthread_join(actors[i].thread, NULL);
        mci_registry_goodbye(registry, actors[i].fellow.member,
                             atomic_load(&now_ns));
    }
    atomic_store(&may_end, true);
    (void)pthread_join(stepper, NULL);
    settle();
    atomic_store(&follower.may_end, true);
    (void)pthread_join(follower.thread, NULL);
    ck_assert_uint_eq(atomic_load(&faults), 0);
    ck_assert_uint_eq(follower.count, 0);
    ck_assert_uint_gt(follower.last_id, 1000);
    expect_all_is_back();
    for (unsigned i = 0; i < ACTORS; i++) {
        close_actor(&actors[i]);
    }
    ck_assert(mci_master_check(rig.master));
    mci_registry_destroy(registry);
    rig.last_id = follower.last_id;
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.registry_crowd");
    TCase *tcase = tcase_create("crowd");
    tcase_set_timeout(tcase, 250);
    tcase_add_test(tcase, nothing_is_written_twice_and_everything_comes_back);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
