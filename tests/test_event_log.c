/* SPDX-License-Identifier: Apache-2.0 */
/* test_event_log.c - the order of events, room in the log, and what is lost. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "await.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_event_log.h"

#define EPOCH UINT64_C(0x0123456789abcdef)
#define CAPACITY MCI_EVENT_LOG_CAPACITY_MIN
#define NEVER UINT64_MAX

static struct mci_log_tenant tenant_make(const char *name)
{
    return (struct mci_log_tenant){.name = mc_view_str(name)};
}

static struct mci_event_log *log_make(enum mc_publisher_overflow overflow,
                                      bool attached)
{
    struct mci_log_opts opts = {
        .epoch = EPOCH, .capacity = CAPACITY, .overflow = overflow};
    struct mci_event_log *log = NULL;
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_OK);
    if (attached) {
        ck_assert_int_eq(mci_event_log_attach(log), MC_OK);
    }
    return log;
}

static uint64_t put(struct mci_event_log *log, struct mci_log_tenant *tenant,
                    const char *key, uint32_t *reserved)
{
    struct mci_log_event event = {.type = MC_EVENT_STORED,
                                  .medium = MC_MEDIUM_CPU};
    return mci_event_log_append(log, tenant, mc_view_str(key), &event, 1,
                                reserved);
}

static uint64_t cut(struct mci_event_log *log, struct mci_log_tenant *tenant,
                    const char *key)
{
    struct mci_log_event event = {.type = MC_EVENT_REMOVED,
                                  .medium = MC_MEDIUM_CPU};
    return mci_event_log_append(log, tenant, mc_view_str(key), &event, 1, NULL);
}

/* An upsert over a readable value: removed, then stored. */
static uint64_t replace(struct mci_event_log *log,
                        struct mci_log_tenant *tenant, const char *key,
                        uint32_t *reserved)
{
    struct mci_log_event events[2] = {
        {.type = MC_EVENT_REMOVED, .medium = MC_MEDIUM_CPU},
        {.type = MC_EVENT_STORED, .medium = MC_MEDIUM_CPU}};
    return mci_event_log_append(log, tenant, mc_view_str(key), events, 2,
                                reserved);
}

static void fill(struct mci_event_log *log, struct mci_log_tenant *tenant,
                 uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)put(log, tenant, "fill", NULL);
    }
}

static struct mci_log_stats stats_of(struct mci_event_log *log)
{
    struct mci_log_stats stats;
    mci_event_log_stats(log, &stats);
    return stats;
}

static void taken_make(struct mci_log_taken *taken)
{
    ck_assert_int_eq(mci_log_taken_init(taken), MC_OK);
}

static void check_view(struct mc_view got, const void *want, size_t len)
{
    ck_assert_uint_eq(got.len, len);
    ck_assert_ptr_nonnull(got.data);
    ck_assert_int_eq(memcmp(got.data, want, len), 0);
}

/* What a reader of the whole log knows: counts, and that nothing but what is
 * told as lost is missing. Check allocates in every ck_assert, so faults are
 * counted in loops and looked at behind them. */
struct reader {
    uint64_t last_id;
    uint64_t taken;
    uint64_t lost;
    uint64_t faults;
};

static void reader_add(struct reader *reader, const struct mci_log_taken *taken)
{
    for (uint32_t i = 0; i < taken->count; i++) {
        const struct mci_log_record *record = &taken->records[i];
        reader->faults +=
            record->id != reader->last_id + 1 + record->lost_before;
        reader->faults += i > 0 && record->lost_before > 0;
        reader->last_id = record->id;
        reader->lost += record->lost_before;
        reader->taken++;
    }
    reader->faults +=
        taken->count > 0 && taken->records[taken->count - 1].group_continues;
}

static void reader_drain(struct reader *reader, struct mci_event_log *log,
                         struct mci_log_taken *taken)
{
    do {
        mci_event_log_take(log, 0, taken);
        reader_add(reader, taken);
    } while (taken->count > 0);
    ck_assert_uint_eq(reader->faults, 0);
}

/* --- order and content --------------------------------------------------- */

START_TEST(ids_rise_by_one_over_all_tenants)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant a = tenant_make("a");
    struct mci_log_tenant b = tenant_make("b");
    ck_assert_uint_eq(mci_event_log_last_id(log), 0);
    ck_assert_uint_eq(put(log, &a, "x", NULL), 1);
    ck_assert_uint_eq(put(log, &b, "x", NULL), 2);
    ck_assert_uint_eq(replace(log, &a, "x", NULL), 3);
    ck_assert_uint_eq(cut(log, &b, "x"), 5);
    ck_assert_uint_eq(mci_event_log_last_id(log), 5);
    ck_assert_uint_eq(mci_event_log_epoch(log), EPOCH);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(records_come_out_as_they_went_in)
{
    static char key[MC_KEY_LEN_MAX];
    static char group[MC_GROUP_ID_LEN_MAX];
    static char session[MC_SESSION_ID_LEN_MAX];
    static char name[MC_TENANT_LEN_MAX];
    memset(key, 'k', sizeof key);
    memset(group, 'g', sizeof group);
    memset(session, 0, sizeof session); /* NUL is legal here */
    memset(name, 't', sizeof name);
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant big = {.name = mc_view_make(name, sizeof name)};
    struct mci_log_tenant small = tenant_make("s");
    struct mci_log_event events[2] = {
        {MC_EVENT_STORED, MC_MEDIUM_CPU, mc_view_make(group, sizeof group),
         mc_view_make(session, sizeof session)},
        {MC_EVENT_STORED, MC_MEDIUM_DISK, mc_view_make("", 0),
         mc_view_make(NULL, 0)}};
    struct mci_log_taken taken;
    taken_make(&taken);
    (void)mci_event_log_append(log, &big, mc_view_make(key, sizeof key), events,
                               2, NULL);
    ck_assert_uint_eq(mci_event_log_append_cleared(log, &small, 0, false, NULL),
                      3);
    memset(key, 'X', sizeof key); /* it was copied */
    mci_event_log_take(log, 0, &taken);
    memset(key, 'k', sizeof key);
    ck_assert_uint_eq(taken.count, 3);
    const struct mci_log_record *record = taken.records;
    ck_assert_uint_eq(record[0].id, 1);
    ck_assert_int_eq(record[0].type, MC_EVENT_STORED);
    ck_assert_int_eq(record[0].medium, MC_MEDIUM_CPU);
    ck_assert(record[0].group_continues);
    check_view(record[0].tenant_id, name, sizeof name);
    check_view(record[0].object_key, key, sizeof key);
    check_view(record[0].group_id, group, sizeof group);
    check_view(record[0].session_id, session, sizeof session);
    ck_assert_int_eq(record[1].medium, MC_MEDIUM_DISK);
    ck_assert(!record[1].group_continues);
    ck_assert_ptr_null(record[1].group_id.data);
    ck_assert_ptr_null(record[1].session_id.data);
    ck_assert_int_eq(record[2].type, MC_EVENT_CLEARED);
    ck_assert_int_eq(record[2].medium, MC_MEDIUM_NONE);
    check_view(record[2].tenant_id, "s", 1);
    ck_assert_ptr_null(record[2].object_key.data);
    ck_assert_uint_eq(taken.depth_left, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(take_never_splits_a_group)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    taken_make(&taken);
    fill(log, &tenant, MC_BATCH_EVENTS_MAX - 1);
    (void)replace(log, &tenant, "fill", NULL);
    fill(log, &tenant, MC_BATCH_EVENTS_MAX);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, MC_BATCH_EVENTS_MAX - 1);
    ck_assert_uint_eq(taken.depth_left, MC_BATCH_EVENTS_MAX + 2);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, MC_BATCH_EVENTS_MAX);
    ck_assert(taken.records[0].group_continues);
    ck_assert(!taken.records[1].group_continues);
    ck_assert_int_eq(taken.records[0].type, MC_EVENT_REMOVED);
    ck_assert_int_eq(taken.records[1].type, MC_EVENT_STORED);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(take_of_long_records_ends_at_its_bytes_between_groups)
{
    static char key[MC_KEY_LEN_MAX];
    memset(key, 'k', sizeof key);
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_event events[2] = {
        {.type = MC_EVENT_STORED, .medium = MC_MEDIUM_CPU},
        {.type = MC_EVENT_STORED, .medium = MC_MEDIUM_DISK}};
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    for (int i = 0; i < 200; i++) {
        (void)mci_event_log_append(log, &tenant, mc_view_make(key, sizeof key),
                                   events, 2, NULL);
    }
    mci_event_log_take(log, 0, &taken);
    reader_add(&reader, &taken);
    ck_assert_uint_lt(taken.count, MC_BATCH_EVENTS_MAX);
    ck_assert_uint_ge((taken.count + 2) * sizeof key + 1024,
                      MC_BATCH_BYTES_MAX); /* it was used up */
    ck_assert_uint_eq(taken.count % 2, 0);
    reader_drain(&reader, log, &taken);
    ck_assert_uint_eq(reader.taken, 400);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* --- capacity ------------------------------------------------------------ */

START_TEST(capacity_zero_is_the_default_and_under_the_minimum_is_refused)
{
    struct mci_log_opts opts = {.epoch = EPOCH};
    struct mci_event_log *log = NULL;
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_OK);
    ck_assert_uint_eq(stats_of(log).capacity, 65536);
    mci_event_log_destroy(log);
    log = NULL;
    uint32_t refused[] = {1, 8, CAPACITY - 1};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        opts.capacity = refused[i];
        ck_assert_int_eq(mci_event_log_create(&opts, &log),
                         MC_ERR_INVALID_PARAMS);
        ck_assert_ptr_null(log);
    }
    opts.capacity = CAPACITY;
    opts.epoch = 0;
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_ERR_INVALID_PARAMS);
    mci_event_log_destroy(NULL);
}
END_TEST

START_TEST(log_holds_its_capacity_of_the_longest_records)
{
    static char key[MC_KEY_LEN_MAX];
    static char text[MC_GROUP_ID_LEN_MAX];
    memset(key, 'k', sizeof key);
    memset(text, 't', sizeof text);
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant longest = {.name =
                                         mc_view_make(text, MC_TENANT_LEN_MAX)};
    struct mci_log_tenant shortest = tenant_make("t");
    struct mci_log_event event = {MC_EVENT_STORED, MC_MEDIUM_CPU,
                                  mc_view_make(text, sizeof text),
                                  mc_view_make(text, MC_SESSION_ID_LEN_MAX)};
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    /* Round after round from another offset, so that chunks are left at every
     * degree of filling. */
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < CAPACITY; i++) {
            if (i % 41 == round) {
                (void)put(log, &shortest, "k", NULL);
            } else {
                (void)mci_event_log_append(log, &longest,
                                           mc_view_make(key, sizeof key),
                                           &event, 1, NULL);
            }
        }
        ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
        reader_drain(&reader, log, &taken);
    }
    ck_assert_uint_eq(reader.taken, 40 * CAPACITY);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

static uint64_t resident_bytes(void)
{
    unsigned long long total = 0;
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%llu %llu", &total, &resident), 2);
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

START_TEST(a_short_queue_stays_in_little_memory_however_long_it_runs)
{
    struct mci_log_opts opts = {.epoch = EPOCH};
    struct mci_event_log *log = NULL;
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_OK);
    ck_assert_int_eq(mci_event_log_attach(log), MC_OK);
    fill(log, &tenant, 100); /* it never runs empty */
    uint64_t before = resident_bytes();
    for (uint32_t i = 0; i < 20000; i++) {
        fill(log, &tenant, MC_BATCH_EVENTS_MAX);
        mci_event_log_take(log, 0, &taken);
        reader_add(&reader, &taken);
    }
    ck_assert_uint_lt(resident_bytes(), before + (8 << 20));
    ck_assert_uint_eq(reader.faults, 0);
    ck_assert_uint_eq(stats_of(log).depth, 100);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(without_a_consumer_nothing_piles_up_but_ids_and_counts_go_on)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, false);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 77;
    uint64_t commits = 0;
    uint64_t readable = 0;
    uint32_t faults = 0;
    uint64_t before = resident_bytes();
    for (uint32_t i = 0; i < 500000; i++) {
        faults += mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND, 0,
                                        &reserved) != MC_OK;
        faults += reserved != 0;
        (void)put(log, &tenant, "key", &reserved);
        (void)cut(log, &tenant, "key");
    }
    ck_assert_uint_eq(faults, 0);
    ck_assert_uint_eq(mci_event_log_last_id(log), 1000000);
    mci_event_log_tenant_counts(log, &tenant, &commits, &readable);
    ck_assert_uint_eq(commits, 500000);
    ck_assert_uint_eq(readable, 0);
    ck_assert_uint_eq(stats_of(log).depth, 0);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    ck_assert_uint_lt(resident_bytes(), before + (64 << 20));
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(appends_and_takes_allocate_nothing)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    taken_make(&taken);
    uint64_t calls = mci_alloc_thread_calls();
    fill(log, &tenant, 3 * CAPACITY);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(mci_alloc_thread_calls(), calls);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(failed_allocations_are_answered_and_leak_nothing)
{
    struct mci_log_opts opts = {.epoch = EPOCH};
    struct mci_event_log *log = NULL;
    struct mci_log_taken taken;
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    (void)mci_alloc_fail_at(1);
    ck_assert_int_eq(mci_event_log_create(&opts, &log), MC_ERR_NOMEM);
    ck_assert_ptr_null(log);
    for (uint64_t k = 1; k <= 2; k++) {
        (void)mci_alloc_fail_at(k);
        ck_assert_int_eq(mci_log_taken_init(&taken), MC_ERR_NOMEM);
    }
    ck_assert_int_eq(mci_alloc_fail_at(0), 0);
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
}
END_TEST

/* --- drop_oldest --------------------------------------------------------- */

START_TEST(full_log_keeps_the_newest_and_tells_exactly_what_it_lost)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    fill(log, &tenant, 92);
    ck_assert_uint_eq(stats_of(log).dropped, 92);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.records[0].id, 93);
    ck_assert_uint_eq(taken.records[0].lost_before, 92);
    reader_add(&reader, &taken);
    fill(log, &tenant, 70); /* six of the records left go, told in place */
    ck_assert_uint_eq(stats_of(log).dropped, 98);
    reader_drain(&reader, log, &taken);
    ck_assert_uint_eq(reader.lost, 98);
    ck_assert_uint_eq(reader.taken + reader.lost, mci_event_log_last_id(log));
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(overflow_takes_whole_groups)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reader reader = {0};
    taken_make(&taken);
    fill(log, &tenant, 1);
    for (uint32_t i = 0; i < CAPACITY / 2 - 1; i++) {
        (void)replace(log, &tenant, "fill", NULL);
    }
    fill(log, &tenant, 1);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
    (void)put(log, &tenant, "one", NULL); /* the first single goes */
    ck_assert_uint_eq(stats_of(log).dropped, 1);
    (void)put(log, &tenant, "two", NULL); /* a pair goes for one */
    ck_assert_uint_eq(stats_of(log).dropped, 3);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY - 1);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.records[0].id, 4);
    ck_assert_uint_eq(taken.records[0].lost_before, 3);
    ck_assert(taken.records[0].group_continues);
    reader_add(&reader, &taken);
    reader_drain(&reader, log, &taken);
    ck_assert_uint_eq(reader.lost, 3);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(foreground_writers_of_drop_oldest_reserve_nothing)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 77;
    fill(log, &tenant, CAPACITY);
    ck_assert_int_eq(
        mci_event_log_reserve(log, 9, MCI_LOG_FOREGROUND, 0, &reserved), MC_OK);
    ck_assert_uint_eq(reserved, 0);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    ck_assert_uint_eq(stats_of(log).waits, 0);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(overflow_drops_filled_records_and_never_reserved_room)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t slice = mci_event_log_slice(log);
    uint32_t reserved = 0;
    ck_assert_uint_eq(slice, CAPACITY / 4);
    ck_assert_int_eq(
        mci_event_log_reserve(log, slice, MCI_LOG_BULK, 0, &reserved), MC_OK);
    ck_assert_uint_eq(reserved, slice);
    fill(log, &tenant, 2 * CAPACITY);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY - slice);
    uint64_t dropped = stats_of(log).dropped;
    for (uint32_t i = 0; i < slice; i++) {
        (void)put(log, &tenant, "bulk", &reserved);
    }
    ck_assert_uint_eq(reserved, 0);
    ck_assert_uint_eq(stats_of(log).dropped, dropped);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
    mci_event_log_destroy(log);
}
END_TEST

/* --- reservations -------------------------------------------------------- */

START_TEST(reservation_is_counted_down_by_appends_and_its_rest_goes_back)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, 10, MCI_LOG_FOREGROUND, 0, &reserved),
        MC_OK);
    ck_assert_uint_eq(reserved, 10);
    (void)put(log, &tenant, "a", &reserved);
    (void)replace(log, &tenant, "a", &reserved);
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, 0, true, &reserved), 4);
    ck_assert_uint_eq(reserved, 6);
    ck_assert_uint_eq(stats_of(log).reserved, 6);
    ck_assert_uint_eq(stats_of(log).depth, 4);
    mci_event_log_unreserve(log, reserved);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    mci_event_log_unreserve(log, 0);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(reservation_that_finds_no_room_in_time_changes_nothing)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t first = 0;
    uint32_t second = 77;
    ck_assert_int_eq(
        mci_event_log_reserve(log, CAPACITY - 1, MCI_LOG_FOREGROUND, 0, &first),
        MC_OK);
    (void)put(log, &tenant, "a", NULL);
    ck_assert_int_eq(
        mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND, 0, &second),
        MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND,
                                           mci_clock_ns() + MCI_NS_PER_MS,
                                           &second),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(second, 77);
    ck_assert_uint_eq(stats_of(log).reserved, CAPACITY - 1);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    ck_assert_uint_eq(stats_of(log).waits, 2);
    mci_event_log_unreserve(log, first);
    ck_assert_int_eq(
        mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND, 0, &second), MC_OK);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(events_beyond_a_reservation_push_out_the_oldest)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, CAPACITY, MCI_LOG_FOREGROUND, 0, &reserved),
        MC_OK);
    for (uint32_t i = 0; i < CAPACITY - 1; i++) {
        (void)put(log, &tenant, "a", &reserved);
    }
    ck_assert_uint_eq(reserved, 1);
    (void)replace(log, &tenant, "a", &reserved); /* one too many */
    ck_assert_uint_eq(reserved, 0);
    ck_assert_uint_eq(stats_of(log).dropped, 1);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY);
    mci_event_log_destroy(log);
}
END_TEST

/* A thread that reserves, tells so, and gives back when it is let. */
struct reserver {
    struct mci_event_log *log;
    uint32_t count;
    enum mci_log_class cls;
    uint64_t deadline_ns;
    uint32_t reserved;
    enum mc_err err;
    _Atomic bool is_done;
    _Atomic bool may_end;
    pthread_t thread;
};

static void *reserver_run(void *arg)
{
    struct reserver *reserver = arg;
    reserver->err =
        mci_event_log_reserve(reserver->log, reserver->count, reserver->cls,
                              reserver->deadline_ns, &reserver->reserved);
    reserver->is_done = true;
    (void)AWAIT(reserver->may_end);
    mci_event_log_unreserve(reserver->log, reserver->reserved);
    return NULL;
}

static void reserver_start(struct reserver *reserver, struct mci_event_log *log,
                           uint32_t count, enum mci_log_class cls)
{
    uint64_t waits = stats_of(log).waits;
    *reserver = (struct reserver){
        .log = log, .count = count, .cls = cls, .deadline_ns = NEVER};
    ck_assert_int_eq(
        pthread_create(&reserver->thread, NULL, reserver_run, reserver), 0);
    ck_assert(AWAIT(stats_of(log).waits > waits || reserver->is_done));
}

static void reserver_end(struct reserver *reserver)
{
    ck_assert(AWAIT(reserver->is_done));
    reserver->may_end = true;
    ck_assert_int_eq(pthread_join(reserver->thread, NULL), 0);
}

START_TEST(blocked_writer_goes_on_when_the_consumer_has_taken)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reserver writer;
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    reserver_start(&writer, log, 64, MCI_LOG_FOREGROUND);
    ck_assert(!writer.is_done);
    mci_event_log_take(log, 0, &taken);
    reserver_end(&writer);
    ck_assert_int_eq(writer.err, MC_OK);
    ck_assert_uint_eq(writer.reserved, 64);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(blocked_writer_goes_on_when_another_gives_back)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct reserver writer;
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, CAPACITY, MCI_LOG_FOREGROUND, 0, &reserved),
        MC_OK);
    reserver_start(&writer, log, 1, MCI_LOG_FOREGROUND);
    ck_assert(!writer.is_done);
    mci_event_log_unreserve(log, reserved);
    reserver_end(&writer);
    ck_assert_int_eq(writer.err, MC_OK);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(detach_lets_waiting_writers_go_on)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reserver writers[3];
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    reserver_start(&writers[0], log, 1, MCI_LOG_FOREGROUND);
    reserver_start(&writers[1], log, CAPACITY, MCI_LOG_FOREGROUND);
    reserver_start(&writers[2], log, 9, MCI_LOG_BULK);
    mci_event_log_detach(log);
    for (int i = 0; i < 3; i++) {
        reserver_end(&writers[i]);
        ck_assert_int_eq(writers[i].err, MC_OK);
        ck_assert_uint_eq(writers[i].reserved, 0);
    }
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, 0);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(reservation_held_over_a_detach_is_still_given_back)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    uint32_t reserved = 0;
    ck_assert_int_eq(
        mci_event_log_reserve(log, 5, MCI_LOG_FOREGROUND, 0, &reserved), MC_OK);
    mci_event_log_detach(log);
    (void)put(log, &tenant, "a", &reserved);
    ck_assert_uint_eq(reserved, 4);
    mci_event_log_unreserve(log, reserved);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(there_is_one_consumer_at_a_time)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    ck_assert_int_eq(mci_event_log_attach(log),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    mci_event_log_detach(log);
    ck_assert_int_eq(mci_event_log_attach(log), MC_OK);
    mci_event_log_destroy(log);
}
END_TEST

/* --- bulk producers ------------------------------------------------------ */

START_TEST(bulk_waits_while_the_log_is_over_half_full)
{
    enum mc_publisher_overflow policy =
        _i ? MC_PUBLISHER_BLOCK : MC_PUBLISHER_DROP_OLDEST;
    struct mci_event_log *log = log_make(policy, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reserver bulk;
    uint32_t reserved = 0;
    taken_make(&taken);
    fill(log, &tenant, CAPACITY / 2);
    ck_assert_int_eq(mci_event_log_reserve(log, 1, MCI_LOG_BULK, 0, &reserved),
                     MC_OK);
    ck_assert_int_eq(mci_event_log_reserve(log, 1, MCI_LOG_BULK, 0, &reserved),
                     MC_ERR_RPC_TIMEOUT);
    uint64_t now_ns = MCI_NS_PER_S; /* stands still: nobody gets overdue */
    mci_clock_fake(&now_ns);
    reserver_start(&bulk, log, 1, MCI_LOG_BULK);
    ck_assert(!bulk.is_done);
    mci_event_log_take(log, 0, &taken);
    reserver_end(&bulk);
    mci_clock_fake(NULL);
    ck_assert_int_eq(bulk.err, MC_OK);
    ck_assert_uint_eq(bulk.reserved, 1);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* True once a bulk producer's claim keeps the free room from others. */
static bool is_claimed(struct mci_event_log *log)
{
    uint32_t reserved = 0;
    if (mci_event_log_reserve(log, 1, MCI_LOG_FOREGROUND, 0, &reserved)) {
        return true;
    }
    mci_event_log_unreserve(log, reserved);
    return false;
}

START_TEST(bulk_that_waited_100_ms_goes_before_foreground_for_one_slice)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reserver bulk;
    uint32_t slice = mci_event_log_slice(log);
    static _Atomic uint64_t now_ns;
    now_ns = MCI_NS_PER_S;
    mci_clock_fake((const uint64_t *)&now_ns);
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    reserver_start(&bulk, log, slice, MCI_LOG_BULK);
    mci_event_log_take(log, 0, &taken);
    now_ns += 100 * MCI_NS_PER_MS - 1;
    ck_assert(!is_claimed(log)); /* not yet: foreground takes what is free */
    now_ns += 1;
    ck_assert(AWAIT(is_claimed(log)));
    while (CAPACITY - stats_of(log).depth < slice) {
        ck_assert(!bulk.is_done);
        ck_assert(is_claimed(log)); /* there is room, but not for us */
        mci_event_log_take(log, 0, &taken);
    }
    ck_assert(AWAIT(bulk.is_done));
    ck_assert_uint_eq(stats_of(log).reserved, slice);
    ck_assert_uint_eq(stats_of(log).dropped, 0);
    mci_event_log_take(log, 0, &taken);
    ck_assert(!is_claimed(log)); /* one slice, then it is our turn */
    uint32_t reserved = 0;
    ck_assert_int_eq(mci_event_log_reserve(log, 1, MCI_LOG_BULK, 0, &reserved),
                     MC_ERR_RPC_TIMEOUT);
    reserver_end(&bulk);
    mci_clock_fake(NULL);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(bulk_is_not_starved_by_writers_that_drop)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    struct reader reader = {0};
    struct reserver bulk;
    uint32_t slice = mci_event_log_slice(log);
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    reserver_start(&bulk, log, slice, MCI_LOG_BULK);
    /* Writers faster than the consumer: the log would be full at all times. */
    for (int i = 0; i < AWAIT_TURNS_MAX && !bulk.is_done; i++) {
        mci_event_log_take(log, 0, &taken);
        reader_add(&reader, &taken);
        fill(log, &tenant, 2 * MC_BATCH_EVENTS_MAX);
        await_turn();
    }
    ck_assert(bulk.is_done);
    ck_assert_uint_eq(bulk.reserved, slice);
    fill(log, &tenant, 2 * CAPACITY);
    ck_assert_uint_eq(stats_of(log).depth, CAPACITY - slice);
    reserver_end(&bulk);
    reader_drain(&reader, log, &taken);
    ck_assert_uint_eq(reader.lost, stats_of(log).dropped);
    ck_assert_uint_eq(reader.lost + reader.taken, mci_event_log_last_id(log));
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(a_claim_ends_with_its_deadline)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_BLOCK, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    uint32_t reserved = 77;
    taken_make(&taken);
    fill(log, &tenant, CAPACITY);
    ck_assert_int_eq(mci_event_log_reserve(log, 256, MCI_LOG_BULK,
                                           mci_clock_ns() + 120 * MCI_NS_PER_MS,
                                           &reserved),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(reserved, 77);
    mci_event_log_take(log, 0, &taken);
    ck_assert(!is_claimed(log));
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* --- cleared ------------------------------------------------------------- */

START_TEST(cleared_stands_only_if_nothing_was_put_meanwhile)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_tenant other = tenant_make("o");
    uint64_t commits = 0;
    uint64_t readable = 0;
    (void)put(log, &tenant, "a", NULL);
    mci_event_log_tenant_counts(log, &tenant, &commits, &readable);
    ck_assert_uint_eq(commits, 1);
    ck_assert_uint_eq(readable, 1);
    /* Still readable: no. */
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, commits, false, NULL), 0);
    (void)cut(log, &tenant, "a");
    /* Put and gone again behind the walk: a follower's view is right without
     * it, and a put of the same moment might be cut off: no. */
    (void)put(log, &tenant, "b", NULL);
    (void)cut(log, &tenant, "b");
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, commits, false, NULL), 0);
    ck_assert_uint_eq(mci_event_log_last_id(log), 4);
    /* Another tenant's puts are of no concern: yes. */
    mci_event_log_tenant_counts(log, &tenant, &commits, &readable);
    (void)put(log, &other, "a", NULL);
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, commits, false, NULL), 6);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(cleared_of_an_epoch_is_its_first_record)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct mci_log_taken taken;
    taken_make(&taken);
    ck_assert_uint_eq(
        mci_event_log_append_cleared(log, &tenant, NEVER, true, NULL), 1);
    (void)put(log, &tenant, "a", NULL);
    mci_event_log_take(log, 0, &taken);
    ck_assert_uint_eq(taken.count, 2);
    ck_assert_int_eq(taken.records[0].type, MC_EVENT_CLEARED);
    ck_assert_uint_eq(taken.records[0].id, 1);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* One thread puts and removes, another clears as remove_all does: whenever a
 * cleared was appended, nothing of the tenant may have been readable there. */
struct clearer {
    struct mci_event_log *log;
    struct mci_log_tenant *tenant;
    _Atomic bool is_over;
};

static void *clearer_run(void *arg)
{
    struct clearer *clearer = arg;
    while (!clearer->is_over) {
        uint64_t commits = 0;
        uint64_t readable = 0;
        mci_event_log_tenant_counts(clearer->log, clearer->tenant, &commits,
                                    &readable);
        (void)mci_event_log_append_cleared(clearer->log, clearer->tenant,
                                           commits, false, NULL);
    }
    return NULL;
}

START_TEST(cleared_never_stands_behind_a_put_that_it_would_hide)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct clearer clearer = {.log = log, .tenant = &tenant};
    struct mci_log_taken taken;
    uint64_t readable = 0;
    uint64_t cleared = 0;
    uint64_t hidden = 0;
    pthread_t thread;
    taken_make(&taken);
    ck_assert_int_eq(pthread_create(&thread, NULL, clearer_run, &clearer), 0);
    for (uint32_t i = 0; i < 20000 || (cleared == 0 && i < 2000000); i++) {
        (void)put(log, &tenant, "a", NULL);
        (void)cut(log, &tenant, "a");
        mci_event_log_take(log, 0, &taken);
        for (uint32_t k = 0; k < taken.count; k++) {
            if (taken.records[k].lost_before > 0) {
                readable = taken.records[k].type == MC_EVENT_REMOVED;
            }
            cleared += taken.records[k].type == MC_EVENT_CLEARED;
            readable += taken.records[k].type == MC_EVENT_STORED;
            readable -= taken.records[k].type == MC_EVENT_REMOVED;
            hidden += taken.records[k].type == MC_EVENT_CLEARED && readable > 0;
        }
    }
    clearer.is_over = true;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_gt(cleared, 0);
    ck_assert_uint_eq(hidden, 0);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

/* --- the consumer's wait ------------------------------------------------- */

struct waiting_take {
    struct mci_event_log *log;
    struct mci_log_taken taken;
    uint64_t deadline_ns;
    _Atomic bool is_done;
    pthread_t thread;
};

static void *waiting_take_run(void *arg)
{
    struct waiting_take *take = arg;
    mci_event_log_take(take->log, take->deadline_ns, &take->taken);
    take->is_done = true;
    return NULL;
}

static void waiting_take_start(struct waiting_take *take,
                               struct mci_event_log *log, uint64_t deadline_ns)
{
    *take = (struct waiting_take){.log = log, .deadline_ns = deadline_ns};
    taken_make(&take->taken);
    ck_assert_int_eq(
        pthread_create(&take->thread, NULL, waiting_take_run, take), 0);
}

static void waiting_take_end(struct waiting_take *take)
{
    ck_assert(AWAIT(take->is_done));
    ck_assert_int_eq(pthread_join(take->thread, NULL), 0);
    mci_log_taken_fini(&take->taken);
}

START_TEST(waiting_take_gets_what_is_appended)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct waiting_take take;
    waiting_take_start(&take, log, NEVER);
    (void)put(log, &tenant, "a", NULL);
    ck_assert(AWAIT(take.is_done));
    ck_assert_uint_eq(take.taken.count, 1);
    waiting_take_end(&take);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(wake_ends_a_take_that_waits_or_is_about_to)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct waiting_take take;
    waiting_take_start(&take, log, NEVER);
    mci_event_log_wake(log);
    ck_assert(AWAIT(take.is_done));
    ck_assert_uint_eq(take.taken.count, 0);
    waiting_take_end(&take);
    mci_event_log_destroy(log);
}
END_TEST

START_TEST(take_waits_on_the_clock_of_its_deadline)
{
    struct mci_event_log *log = log_make(MC_PUBLISHER_DROP_OLDEST, true);
    struct waiting_take take;
    static _Atomic uint64_t now_ns;
    now_ns = MCI_NS_PER_S;
    mci_clock_fake((const uint64_t *)&now_ns);
    waiting_take_start(&take, log, now_ns + 3600 * MCI_NS_PER_S);
    ck_assert(!take.is_done);
    now_ns += 3600 * MCI_NS_PER_S;
    waiting_take_end(&take);
    mci_clock_fake(NULL);
    mci_event_log_destroy(log);
}
END_TEST

/* --- many writers -------------------------------------------------------- */

#define WRITERS 8
#define WRITER_TURNS 4000

struct writer {
    struct mci_event_log *log;
    struct mci_log_tenant *tenant;
    uint32_t number;
    bool blocks;
    uint32_t failures;
    pthread_t thread;
};

/* A key's events: a put, then replacements, each with its turn as session. */
static void writer_turn(struct writer *writer, uint32_t turn,
                        uint32_t *reserved)
{
    char key[32];
    char session[32];
    (void)snprintf(key, sizeof key, "w%u", writer->number);
    (void)snprintf(session, sizeof session, "%u", turn);
    struct mci_log_event events[2] = {
        {.type = MC_EVENT_REMOVED, .medium = MC_MEDIUM_CPU},
        {.type = MC_EVENT_STORED,
         .medium = MC_MEDIUM_CPU,
         .session_id = mc_view_str(session)}};
    events[0].session_id = events[1].session_id;
    size_t skip = turn == 0 ? 1 : 0;
    (void)mci_event_log_append(writer->log, writer->tenant, mc_view_str(key),
                               events + skip, 2 - skip, reserved);
}

static void *writer_run(void *arg)
{
    struct writer *writer = arg;
    for (uint32_t turn = 0; turn < WRITER_TURNS; turn++) {
        uint32_t reserved = 0;
        enum mci_log_class cls =
            turn % 16 == 0 ? MCI_LOG_BULK : MCI_LOG_FOREGROUND;
        if (mci_event_log_reserve(writer->log, 4, cls, NEVER, &reserved)) {
            writer->failures++;
            continue;
        }
        if (writer->blocks && reserved != 4) {
            writer->failures++;
        }
        writer_turn(writer, turn, &reserved);
        mci_event_log_unreserve(writer->log, reserved);
    }
    return NULL;
}

/* Per writer the turns rise; each group is a removed and a stored of one turn,
 * beside each other. */
static void check_turns(const struct mci_log_taken *taken, long *turns,
                        bool is_lossless)
{
    for (uint32_t i = 0; i < taken->count; i++) {
        const struct mci_log_record *record = &taken->records[i];
        const char *key = record->object_key.data;
        char session[32] = {0};
        ck_assert_uint_eq(record->object_key.len, 2);
        ck_assert_int_eq(key[0], 'w');
        ck_assert_uint_lt(record->session_id.len, sizeof session);
        memcpy(session, record->session_id.data, record->session_id.len);
        long turn = strtol(session, NULL, 10);
        long *last = &turns[key[1] - '0'];
        if (record->type == MC_EVENT_REMOVED) {
            ck_assert(record->group_continues);
            ck_assert_int_gt(turn, *last);
            ck_assert_uint_eq(record[1].id, record->id + 1);
            ck_assert(mc_view_equal(record[1].object_key, record->object_key));
            ck_assert(mc_view_equal(record[1].session_id, record->session_id));
        } else {
            ck_assert(!record->group_continues);
            ck_assert(!is_lossless || turn == *last + 1);
            *last = turn;
        }
    }
}

START_TEST(eight_writers_and_a_taker_keep_order_groups_and_counts)
{
    bool blocks = _i == 1;
    struct mci_event_log *log =
        log_make(blocks ? MC_PUBLISHER_BLOCK : MC_PUBLISHER_DROP_OLDEST, true);
    struct mci_log_tenant tenant = tenant_make("t");
    struct writer writers[WRITERS];
    struct mci_log_taken taken;
    struct reader reader = {0};
    long turns[WRITERS];
    const uint64_t total = WRITERS * (2 * WRITER_TURNS - 1);
    taken_make(&taken);
    for (uint32_t i = 0; i < WRITERS; i++) {
        turns[i] = -1;
        writers[i] = (struct writer){
            .log = log, .tenant = &tenant, .number = i, .blocks = blocks};
        ck_assert_int_eq(
            pthread_create(&writers[i].thread, NULL, writer_run, &writers[i]),
            0);
    }
    uint64_t give_up_ns = mci_clock_ns() + 100 * MCI_NS_PER_S;
    while (reader.last_id < total && mci_clock_ns() < give_up_ns) {
        mci_event_log_take(log, mci_clock_ns() + 10 * MCI_NS_PER_MS, &taken);
        reader_add(&reader, &taken);
        check_turns(&taken, turns, blocks);
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(pthread_join(writers[i].thread, NULL), 0);
        ck_assert_uint_eq(writers[i].failures, 0);
        ck_assert_int_eq(turns[i], WRITER_TURNS - 1);
    }
    ck_assert_uint_eq(reader.faults, 0);
    ck_assert_uint_eq(reader.last_id, total);
    ck_assert_uint_eq(reader.taken + reader.lost, total);
    ck_assert_uint_eq(reader.lost, stats_of(log).dropped);
    ck_assert(!blocks || reader.lost == 0);
    ck_assert_uint_eq(stats_of(log).reserved, 0);
    ck_assert_uint_eq(tenant.commits, WRITERS * WRITER_TURNS);
    ck_assert_uint_eq(tenant.readable, WRITERS);
    mci_log_taken_fini(&taken);
    mci_event_log_destroy(log);
}
END_TEST

static void add_order(Suite *suite)
{
    TCase *tc = tcase_create("order and content");
    tcase_add_test(tc, ids_rise_by_one_over_all_tenants);
    tcase_add_test(tc, records_come_out_as_they_went_in);
    tcase_add_test(tc, take_never_splits_a_group);
    tcase_add_test(tc, take_of_long_records_ends_at_its_bytes_between_groups);
    suite_add_tcase(suite, tc);

    tc = tcase_create("capacity");
    tcase_set_timeout(tc, 60);
    tcase_add_test(
        tc, capacity_zero_is_the_default_and_under_the_minimum_is_refused);
    tcase_add_test(tc, log_holds_its_capacity_of_the_longest_records);
    tcase_add_test(tc,
                   a_short_queue_stays_in_little_memory_however_long_it_runs);
    tcase_add_test(
        tc, without_a_consumer_nothing_piles_up_but_ids_and_counts_go_on);
    tcase_add_test(tc, appends_and_takes_allocate_nothing);
    tcase_add_test(tc, failed_allocations_are_answered_and_leak_nothing);
    suite_add_tcase(suite, tc);

    tc = tcase_create("drop_oldest");
    tcase_add_test(tc,
                   full_log_keeps_the_newest_and_tells_exactly_what_it_lost);
    tcase_add_test(tc, overflow_takes_whole_groups);
    tcase_add_test(tc, foreground_writers_of_drop_oldest_reserve_nothing);
    tcase_add_test(tc, overflow_drops_filled_records_and_never_reserved_room);
    suite_add_tcase(suite, tc);
}

static void add_room(Suite *suite)
{
    TCase *tc = tcase_create("reservations");
    tcase_set_timeout(tc, 60);
    tcase_add_test(
        tc, reservation_is_counted_down_by_appends_and_its_rest_goes_back);
    tcase_add_test(tc, reservation_that_finds_no_room_in_time_changes_nothing);
    tcase_add_test(tc, events_beyond_a_reservation_push_out_the_oldest);
    tcase_add_test(tc, blocked_writer_goes_on_when_the_consumer_has_taken);
    tcase_add_test(tc, blocked_writer_goes_on_when_another_gives_back);
    tcase_add_test(tc, detach_lets_waiting_writers_go_on);
    tcase_add_test(tc, reservation_held_over_a_detach_is_still_given_back);
    tcase_add_test(tc, there_is_one_consumer_at_a_time);
    suite_add_tcase(suite, tc);

    tc = tcase_create("bulk producers");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, bulk_waits_while_the_log_is_over_half_full, 0, 2);
    tcase_add_test(
        tc, bulk_that_waited_100_ms_goes_before_foreground_for_one_slice);
    tcase_add_test(tc, bulk_is_not_starved_by_writers_that_drop);
    tcase_add_test(tc, a_claim_ends_with_its_deadline);
    suite_add_tcase(suite, tc);
}

static void add_rest(Suite *suite)
{
    TCase *tc = tcase_create("cleared");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, cleared_stands_only_if_nothing_was_put_meanwhile);
    tcase_add_test(tc, cleared_of_an_epoch_is_its_first_record);
    tcase_add_test(tc, cleared_never_stands_behind_a_put_that_it_would_hide);
    suite_add_tcase(suite, tc);

    tc = tcase_create("consumer");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, waiting_take_gets_what_is_appended);
    tcase_add_test(tc, wake_ends_a_take_that_waits_or_is_about_to);
    tcase_add_test(tc, take_waits_on_the_clock_of_its_deadline);
    suite_add_tcase(suite, tc);

    tc = tcase_create("many writers");
    tcase_set_timeout(tc, 110);
    tcase_add_loop_test(
        tc, eight_writers_and_a_taker_keep_order_groups_and_counts, 0, 2);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("event_log");
    add_order(suite);
    add_room(suite);
    add_rest(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
