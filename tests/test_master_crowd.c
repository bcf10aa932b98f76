/* SPDX-License-Identifier: Apache-2.0 */
/* test_master_crowd.c - every kind of call at once, over two clients with a
 * segment each, memory and disk, groups, pins, copies, segments and clients that
 * come and go: the stream applied to a set equals the list, and all structures
 * agree at the end.
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mci_clock.h"
#include "store_rig.h"
#include "suite.h"

#define THREADS 4
#define KEYS 64
#define SIZE_MAX_KIB 24
#define TURNS 12000

static struct rig rig;
static _Atomic uint64_t now_ns;
static atomic_uint faults;
static atomic_uint done_by_kind[16];

struct actor {
    pthread_t thread;
    uint64_t dice;
    uint32_t client;
    struct mci_write_row pending; /* left open, to be ended later */
    char pending_key[16];
    struct mci_read_row lease; /* number 0: none */
};

static uint64_t roll(struct actor *actor)
{
    actor->dice ^= actor->dice << 13;
    actor->dice ^= actor->dice >> 7;
    actor->dice ^= actor->dice << 17;
    return actor->dice;
}

static void fault(const char *what, enum mc_err err)
{
    fprintf(stderr, "crowd: %s: %d\n", what, (int)err);
    atomic_fetch_add(&faults, 1);
}

/* What a living client calls is done, whatever rows say. */
static void check(const char *what, enum mc_err err)
{
    if (err != MC_OK) {
        fault(what, err);
    }
}

static struct mci_call call_of(const struct actor *actor)
{
    return (struct mci_call){.client = actor->client,
                             .now_ns = atomic_fetch_add(&now_ns, 100 * 1000),
                             .deadline_ns = mci_clock_ns() + 60 * SECOND};
}

/* ---- what actors do -------------------------------------------------------- */

static void make_row(struct actor *actor, char *key, struct mci_write_row *row)
{
    static const char *const tags[] = {"", "s1", "s2", "s3"};
    static const char *const groups[] = {"", "", "g1", "g2"};
    uint64_t number = roll(actor) % KEYS;
    (void)snprintf(key, 16, "k%02u", (unsigned)number);
    *row =
        (struct mci_write_row){.key = mc_view_str(key),
                               .is_spent = true,
                               .size = 1 + roll(actor) % (SIZE_MAX_KIB * KIB),
                               .session_id = mc_view_str(tags[roll(actor) % 4]),
                               .group_id = mc_view_str(groups[number % 4])};
}

static bool is_usual_refusal(enum mc_err err)
{
    return err == MC_ERR_OBJECT_ALREADY_EXISTS ||
           err == MC_ERR_NO_AVAILABLE_HANDLE || err == MC_ERR_CLIENT_NOT_FOUND;
}

static void end_pending(struct actor *actor)
{
    struct mci_call call = call_of(actor);
    struct mci_write_row *row = &actor->pending;
    if (row->attempt.number == 0) {
        return;
    }
    row->key = mc_view_str(actor->pending_key);
    uint64_t way = roll(actor) % 8;
    row->in_doubt = way == 0;
    enum mc_err err = way < 2 ? mci_master_put_revoke(rig.master, &call, row, 1)
                              : mci_master_put_end(rig.master, &call, row, 1);
    if (err != MC_OK ||
        (row->err != MC_OK && row->err != MC_ERR_INVALID_VERSION)) {
        fault("end", err != MC_OK ? err : row->err);
    }
    if (way == 0 && row->err == MC_OK) { /* proven a little later */
        row->in_doubt = false;
        check("put_revoke", mci_master_put_revoke(rig.master, &call, row, 1));
    }
    row->attempt.number = 0;
}

static void write(struct actor *actor, bool replaces)
{
    struct mc_replicate_config config = {
        .replica_num = 1 + (uint32_t)(roll(actor) % 2),
        .soft_pin_action = (enum mc_soft_pin_action)(roll(actor) % 3),
        .with_hard_pin = roll(actor) % 200 == 0};
    struct mci_call call = call_of(actor);
    end_pending(actor);
    make_row(actor, actor->pending_key, &actor->pending);
    struct mci_write_row *row = &actor->pending;
    enum mc_err err =
        replaces ? mci_master_upsert_start(rig.master, &call, &config, row, 1)
                 : mci_master_put_start(rig.master, &call, &config, row, 1);
    if (err != MC_OK || (row->err != MC_OK && !is_usual_refusal(row->err))) {
        fault("start", err != MC_OK ? err : row->err);
    }
    if (roll(actor) % 4 != 0) {
        end_pending(actor);
    }
}

static void read_one(struct actor *actor)
{
    char key[16];
    struct mci_write_row unused;
    make_row(actor, key, &unused);
    struct mci_read_row row = {.key = mc_view_str(key), .want_hold = true};
    struct mci_call call = call_of(actor);
    enum mc_err err = mci_master_get(rig.master, &call, &row, 1);
    if (err != MC_OK) {
        fault("get", err);
    }
    if (row.err == MC_OK && row.place_count == 0 &&
        !(row.media & MC_MEDIUM_DISK)) {
        fault("get: nowhere", row.err);
    }
    sched_yield();
    mci_master_release(rig.master, &row, 1);
}

/* Takes a lease with a name, and sees to the one that it has left. */
static void lease_one(struct actor *actor)
{
    char key[16];
    struct mci_write_row unused;
    struct mci_call call = call_of(actor);
    struct mci_read_row *row = &actor->lease;
    uint64_t dice = roll(actor) % 8;
    if (row->lease.number == 0) {
        make_row(actor, key, &unused);
        row->key = mc_view_str(key);
        row->want_lease = true;
        check("get", mci_master_get(rig.master, &call, row, 1));
    } else if (dice < 4) {
        check("renew", mci_master_lease_renew(rig.master, &call, row, 1));
    } else if (dice < 6) {
        check("hold", mci_master_lease_hold(rig.master, &call, row, 1));
        sched_yield();
        mci_master_release(rig.master, row, 1);
    } else if (dice < 7) {
        check("release", mci_master_lease_release(rig.master, &call, row, 1));
    } else {
        row->lease.number = 0; /* forgotten */
    }
    if (row->lease.number != 0 && row->err != MC_OK &&
        row->err != MC_ERR_LEASE_EXPIRED) {
        fault("lease", row->err);
    }
}

static void ask(struct actor *actor)
{
    char key[16];
    struct mci_write_row unused;
    struct mc_probe probe;
    int64_t result = 0;
    make_row(actor, key, &unused);
    struct mc_view view = mc_view_str(key);
    struct mci_call call = call_of(actor);
    check("exist", mci_master_exist(rig.master, &call, &view, 1, &result));
    check("probe",
          mci_master_probe(rig.master, &call, &view, 1, &probe, &result));
}

static void remove_one(struct actor *actor)
{
    char key[16];
    struct mci_write_row unused;
    int64_t result = 0;
    make_row(actor, key, &unused);
    struct mc_view view = mc_view_str(key);
    struct mci_call call = call_of(actor);
    check("remove", mci_master_remove(rig.master, &call, &view, 1,
                                      roll(actor) % 2 == 0, &result));
}

static void clear_replica(struct actor *actor)
{
    char key[16];
    struct mci_write_row unused;
    int64_t result = 0;
    make_row(actor, key, &unused);
    struct mc_view view = mc_view_str(key);
    struct mci_call call = call_of(actor);
    check("replica_clear", mci_master_replica_clear(rig.master, &call, &view, 1,
                                                    rig.segment, &result));
}

static void go_to_disk(struct actor *actor)
{
    char key[16];
    struct mci_write_row unused;
    struct mc_probe probe;
    int64_t result = 0;
    make_row(actor, key, &unused);
    struct mc_view view = mc_view_str(key);
    struct mci_call call = call_of(actor);
    check("probe",
          mci_master_probe(rig.master, &call, &view, 1, &probe, &result));
    struct mci_disk_row row = {.key = view, .version = probe.version};
    check("offloaded", mci_master_offloaded(rig.master, &call, &row, 1));
    if (row.err == MC_ERR_INVALID_REPLICA) {
        fault("offloaded", row.err);
    }
}

static void leave_disk(struct actor *actor)
{
    char key[16];
    struct mci_write_row unused;
    int64_t result = 0;
    make_row(actor, key, &unused);
    struct mc_view view = mc_view_str(key);
    struct mci_call call = call_of(actor);
    check("disk_gone",
          mci_master_disk_gone(rig.master, &call, &view, 1, &result));
}

static void promote(struct actor *actor)
{
    char key[16];
    struct mci_write_row row;
    make_row(actor, key, &row);
    struct mci_call call = call_of(actor);
    check("promote_start",
          mci_master_promote_start(rig.master, &call, &row, 1));
    if (row.err != MC_OK) {
        return;
    }
    sched_yield();
    if (roll(actor) % 5 == 0) {
        check("put_revoke", mci_master_put_revoke(rig.master, &call, &row, 1));
    } else {
        check("promote_end",
              mci_master_promote_end(rig.master, &call, &row, 1));
        atomic_fetch_add(&done_by_kind[15], row.err == MC_OK);
    }
}

static bool keep_walking(struct mci_page *page, struct mci_cursor *cursor)
{
    return mci_master_list(rig.master, mc_view_make(NULL, 0), cursor, page) ==
               MC_OK &&
           !cursor->at_end;
}

static void list_all(struct actor *actor)
{
    struct mci_page page;
    struct mci_cursor cursor = {.shard = 0};
    (void)actor;
    if (mci_page_init(&page) != MC_OK) {
        fault("page", MC_ERR_NOMEM);
        return;
    }
    do {
        atomic_fetch_add(&done_by_kind[14], 1);
    } while (keep_walking(&page, &cursor));
    mci_page_fini(&page);
}

static void bulk(struct actor *actor)
{
    struct mci_call call = call_of(actor);
    uint64_t removed = 0;
    enum mc_err err =
        roll(actor) % 2 == 0
            ? mci_master_remove_all(rig.master, &call, roll(actor) % 2 == 0,
                                    &removed)
            : mci_master_remove_by_regex(
                  rig.master, &call, mc_view_str("^k[0-3]"), true, &removed);
    if (err != MC_OK) {
        fault("bulk", err);
    }
}

/* A client with a segment of its own comes, writes and dies. */
static void live_and_die(struct actor *actor)
{
    struct actor mortal = *actor;
    struct mci_lent lent = {.name = "mortal", .bytes = 128 * KIB};
    uint32_t segment = 0;
    bool done = false;
    if (mci_master_client_add(rig.master, &mortal.client) != MC_OK) {
        fault("client_add", MC_ERR_NOMEM);
        return;
    }
    lent.client = mortal.client;
    if (mci_master_segment_add(rig.master, &lent, &segment) != MC_OK) {
        fault("segment_add", MC_ERR_NOMEM);
    }
    mortal.pending.attempt.number = 0;
    mortal.lease.lease.number = 0;
    for (int i = 0; i < 6; i++) {
        write(&mortal, i % 2 == 0);
        go_to_disk(&mortal);
        lease_one(&mortal);
    }
    mci_master_client_expire(rig.master, mortal.client);
    while (!done) {
        struct mci_call call = call_of(actor);
        enum mc_err err = mci_master_client_step(
            rig.master, mortal.client, call.now_ns, call.deadline_ns, &done);
        if (err != MC_OK) {
            fault("client_step", err);
            break;
        }
    }
    mci_master_client_fenced(rig.master, mortal.client);
}

static void sweep(struct actor *actor)
{
    struct mci_call call = call_of(actor);
    (void)mci_master_sweep(rig.master, call.now_ns, call.deadline_ns);
}

static void act(struct actor *actor)
{
    static const struct {
        void (*act)(struct actor *actor);
        unsigned share;
    } kinds[] = {{read_one, 20},  {lease_one, 10},    {ask, 10},
                 {remove_one, 6}, {go_to_disk, 10},   {promote, 8},
                 {leave_disk, 3}, {clear_replica, 3}, {sweep, 3},
                 {list_all, 2}};
    uint64_t dice = roll(actor) % 1000;
    if (dice < 4) {
        bulk(actor);
        return;
    }
    if (dice < 8) {
        live_and_die(actor);
        return;
    }
    uint64_t share = roll(actor) % 100;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (share < kinds[i].share) {
            kinds[i].act(actor);
            atomic_fetch_add(&done_by_kind[i], 1);
            return;
        }
        share -= kinds[i].share;
    }
    write(actor, share % 2 == 0);
}

static void *run_actor(void *ctx)
{
    struct actor *actor = ctx;
    for (int i = 0; i < TURNS; i++) {
        act(actor);
    }
    end_pending(actor);
    return NULL;
}

/* ---- what the stream says --------------------------------------------------- */

struct entry {
    unsigned media;
    char tag[16];
    char group[16];
    uint64_t ids[MC_MEDIUM_COUNT];
};

struct follower {
    pthread_t thread;
    struct entry entries[KEYS];
    uint64_t last_id;
    unsigned readable;
    atomic_bool may_end;
};

static unsigned number_of(struct mc_view key)
{
    const char *text = key.data;
    return (unsigned)(text[1] - '0') * 10 + (unsigned)(text[2] - '0');
}

static void copy_text(char *out, struct mc_view view)
{
    size_t len = view.data && view.len < 16 ? view.len : 0;
    memcpy(out, len ? view.data : "", len);
    out[len] = '\0';
}

static bool has_text(const char *text, struct mc_view view)
{
    size_t len = view.data ? view.len : 0;
    return strlen(text) == len && memcmp(text, len ? view.data : "", len) == 0;
}

static void apply(struct follower *follower,
                  const struct mci_log_record *record)
{
    if (record->id != follower->last_id + 1 || record->lost_before != 0) {
        fault("stream: a hole", MC_OK);
    }
    follower->last_id = record->id;
    if (record->type == MC_EVENT_CLEARED) {
        if (follower->readable != 0) {
            fault("stream: cleared while something is there", MC_OK);
        }
        return;
    }
    struct entry *entry = &follower->entries[number_of(record->object_key)];
    bool is_stored = record->type == MC_EVENT_STORED;
    if (((entry->media & record->medium) != 0) == is_stored) {
        fault("stream: not in turn", MC_OK);
    }
    if (entry->media != 0 && !has_text(entry->tag, record->session_id)) {
        fault("stream: another tag", MC_OK);
    }
    if (entry->media != 0 && !has_text(entry->group, record->group_id)) {
        fault("stream: another group", MC_OK);
    }
    copy_text(entry->tag, record->session_id);
    copy_text(entry->group, record->group_id);
    entry->media ^= record->medium;
    entry->ids[record->medium - 1] = record->id;
    follower->readable =
        is_stored ? follower->readable + 1 : follower->readable - 1;
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

/* ---- at the end --------------------------------------------------------------- */

static void check_row(const struct follower *follower,
                      const struct mc_object_row *row, const uint64_t *ids)
{
    const struct entry *entry = &follower->entries[number_of(row->key)];
    ck_assert_uint_eq(entry->media, row->media);
    ck_assert(has_text(entry->tag, row->session_id));
    ck_assert(has_text(entry->group, row->group_id));
    for (unsigned i = 0; i < MC_MEDIUM_COUNT; i++) {
        if (row->media & (1U << i)) {
            ck_assert_uint_eq(ids[i], entry->ids[i]);
        }
    }
}

static void check_list(const struct follower *follower)
{
    struct mci_page page;
    struct mci_cursor cursor = {.shard = 0};
    unsigned listed = 0;
    unsigned followed = 0;
    ck_assert_int_eq(mci_page_init(&page), MC_OK);
    while (!cursor.at_end) {
        ck_assert_int_eq(
            mci_master_list(rig.master, mc_view_make(NULL, 0), &cursor, &page),
            MC_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            check_row(follower, &page.rows[i], page.media_ids[i]);
            listed++;
        }
    }
    mci_page_fini(&page);
    for (int i = 0; i < KEYS; i++) {
        followed += follower->entries[i].media != 0;
    }
    ck_assert_uint_eq(listed, followed);
    ck_assert_uint_eq(rig_stats(&rig).objects, listed);
}

START_TEST(the_stream_equals_the_store_and_everything_agrees)
{
    struct rig_opts opts = {.segment_bytes = 512 * KIB,
                            .log_capacity = MCI_EVENT_LOG_CAPACITY_MIN,
                            .overflow = MC_PUBLISHER_BLOCK,
                            .shards = _i == 0 ? 1 : 16,
                            .store = {.default_kv_lease_ttl_ms = 200,
                                      .default_kv_soft_pin_ttl_ms = 500,
                                      .put_start_release_timeout_ms = 60000}};
    struct follower follower = {.last_id = 1};
    struct actor actors[THREADS];
    uint32_t segment = 0;
    rig_open(&rig, &opts);
    atomic_store(&now_ns, rig.now_ns);
    uint32_t other = rig_add_client(&rig, 512 * KIB, &segment);
    ck_assert_int_eq(
        pthread_create(&follower.thread, NULL, run_follower, &follower), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        actors[i] = (struct actor){.dice = 1234567 + i * 7919,
                                   .client = i % 2 ? other : rig.client};
        ck_assert_int_eq(
            pthread_create(&actors[i].thread, NULL, run_actor, &actors[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        (void)pthread_join(actors[i].thread, NULL);
    }
    atomic_store(&follower.may_end, true);
    (void)pthread_join(follower.thread, NULL);
    ck_assert_uint_eq(atomic_load(&faults), 0);
    ck_assert_uint_gt(atomic_load(&done_by_kind[15]), 0); /* promoted */
    check_list(&follower);
    rig.last_id = follower.last_id;
    rig.now_ns = atomic_load(&now_ns) + 3600 * SECOND;
    rig.deadline_ns = mci_clock_ns() + 60 * SECOND;
    ck_assert(mci_master_check(rig.master));
    (void)rig_remove_all(&rig, true);
    rig_sweep(&rig);
    struct mci_master_stats stats = rig_stats(&rig);
    ck_assert_uint_eq(stats.allocated_bytes, 0);
    ck_assert_uint_eq(stats.leased_only_bytes, 0);
    ck_assert_uint_eq(stats.groups, 0);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("master crowd");
    TCase *tcase = tcase_create("crowd");
    tcase_set_timeout(tcase, 250);
    tcase_add_loop_test(
        tcase, the_stream_equals_the_store_and_everything_agrees, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
