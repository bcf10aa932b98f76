/* SPDX-License-Identifier: Apache-2.0 */
/* log_rig.h - what the tests of the event log share: a log of the smallest
 * capacity, short ways to append, and a reader that misses nothing.
 */
#ifndef LOG_RIG_H
#define LOG_RIG_H
#include <check.h>

#include "mci_event_log.h"

#define EPOCH UINT64_C(0x0123456789abcdef)
#define CAPACITY MCI_EVENT_LOG_CAPACITY_MIN
#define NEVER UINT64_MAX

static inline struct mci_log_tenant tenant_make(const char *name)
{
    return (struct mci_log_tenant){.name = mc_view_str(name)};
}

static inline struct mci_event_log *
log_make(enum mc_publisher_overflow overflow, bool attached)
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

static inline uint64_t put(struct mci_event_log *log,
                           struct mci_log_tenant *tenant, const char *key,
                           uint32_t *reserved)
{
    struct mci_log_event event = {.type = MC_EVENT_STORED,
                                  .medium = MC_MEDIUM_CPU};
    return mci_event_log_append(log, tenant, mc_view_str(key), &event, 1,
                                reserved);
}

static inline uint64_t cut(struct mci_event_log *log,
                           struct mci_log_tenant *tenant, const char *key)
{
    struct mci_log_event event = {.type = MC_EVENT_REMOVED,
                                  .medium = MC_MEDIUM_CPU};
    return mci_event_log_append(log, tenant, mc_view_str(key), &event, 1, NULL);
}

/* An upsert over a readable value: removed, then stored. */
static inline uint64_t replace(struct mci_event_log *log,
                               struct mci_log_tenant *tenant, const char *key,
                               uint32_t *reserved)
{
    struct mci_log_event events[2] = {
        {.type = MC_EVENT_REMOVED, .medium = MC_MEDIUM_CPU},
        {.type = MC_EVENT_STORED, .medium = MC_MEDIUM_CPU}};
    return mci_event_log_append(log, tenant, mc_view_str(key), events, 2,
                                reserved);
}

static inline void fill(struct mci_event_log *log,
                        struct mci_log_tenant *tenant, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)put(log, tenant, "fill", NULL);
    }
}

static inline struct mci_log_stats stats_of(struct mci_event_log *log)
{
    struct mci_log_stats stats;
    mci_event_log_stats(log, &stats);
    return stats;
}

static inline void taken_make(struct mci_log_taken *taken)
{
    ck_assert_int_eq(mci_log_taken_init(taken), MC_OK);
}

static inline void check_view(struct mc_view got, const void *want, size_t len)
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

static inline void reader_add(struct reader *reader,
                              const struct mci_log_taken *taken)
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

static inline void reader_drain(struct reader *reader,
                                struct mci_event_log *log,
                                struct mci_log_taken *taken)
{
    do {
        mci_event_log_take(log, 0, taken);
        reader_add(reader, taken);
    } while (taken->count > 0);
    ck_assert_uint_eq(reader->faults, 0);
}
#endif
