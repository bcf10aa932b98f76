/* SPDX-License-Identifier: Apache-2.0 */
/* test_batcher.c - which records make a batch, and which number it gets. */
#include <check.h>
#include <stdlib.h>

#include "batcher.h"
#include "mci_clock.h"
#include "suite.h"

#define NOW_MS UINT64_C(1700000000000)

struct rig {
    struct mc_event_writer *writer;
    struct mci_batcher batcher;
    struct mci_log_record records[MC_BATCH_EVENTS_MAX];
    struct mci_log_taken taken;
    uint64_t last_id;
};

static void rig_open(struct rig *rig, const struct mc_event_writer_opts *writer,
                     struct mci_batcher_opts opts)
{
    memset(rig, 0, sizeof *rig);
    ck_assert_int_eq(mc_event_writer_create(writer, &rig->writer), MC_OK);
    opts.writer = rig->writer;
    opts.backend_id = mc_view_str("n1");
    mci_batcher_init(&rig->batcher, &opts, MCI_NS_PER_S);
    rig->taken.records = rig->records;
}

static void rig_open_plain(struct rig *rig)
{
    const struct mc_event_writer_opts writer = {0};
    rig_open(rig, &writer, (struct mci_batcher_opts){0});
}

static void rig_close(struct rig *rig)
{
    mc_event_writer_destroy(rig->writer);
}

static void rig_clear(struct rig *rig)
{
    rig->taken.count = 0;
}

/* Adds a record as the log would hand it out. */
static struct mci_log_record *rig_add(struct rig *rig, enum mc_event_type type,
                                      uint64_t lost_before, bool continues)
{
    static char key[MC_KEY_LEN_MAX];
    struct mci_log_record *record = &rig->records[rig->taken.count++];
    memset(key, 'k', sizeof key);
    rig->last_id += lost_before + 1;
    *record = (struct mci_log_record){.id = rig->last_id,
                                      .lost_before = lost_before,
                                      .type = type,
                                      .medium = MC_MEDIUM_CPU,
                                      .group_continues = continues,
                                      .tenant_id = mc_view_str("t"),
                                      .object_key = mc_view_make(key, 8)};
    if (type == MC_EVENT_CLEARED) {
        record->medium = MC_MEDIUM_NONE;
        record->object_key = mc_view_make(NULL, 0);
    }
    return record;
}

static void rig_fill(struct rig *rig, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)rig_add(rig, MC_EVENT_STORED, 0, false);
    }
}

static void rig_load(struct rig *rig)
{
    mci_batcher_load(&rig->batcher, &rig->taken);
}

static void expect_batch(struct rig *rig, uint64_t seq, uint64_t first_id,
                         uint32_t count)
{
    struct mci_batch batch;
    ck_assert(mci_batcher_next(&rig->batcher, NOW_MS, &batch));
    ck_assert_uint_eq(batch.seq, seq);
    ck_assert_uint_eq(batch.timestamp_ms, NOW_MS);
    ck_assert_uint_eq(batch.count, count);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_uint_eq(batch.records[i].event_id, first_id + i);
        ck_assert_uint_eq(batch.records[i].timestamp_ms, NOW_MS);
    }
    ck_assert_uint_eq(rig->batcher.last_seq, seq);
}

static void expect_end(struct rig *rig)
{
    struct mci_batch batch;
    ck_assert(!mci_batcher_next(&rig->batcher, NOW_MS, &batch));
}

START_TEST(numbers_begin_with_one_and_rise_by_one)
{
    struct rig rig;
    rig_open_plain(&rig);
    rig_load(&rig);
    expect_end(&rig);
    rig_fill(&rig, 3);
    rig_load(&rig);
    expect_batch(&rig, 1, 1, 3);
    expect_end(&rig);
    rig_clear(&rig);
    rig_fill(&rig, MC_BATCH_EVENTS_MAX);
    rig_load(&rig);
    expect_batch(&rig, 2, 4, MC_BATCH_EVENTS_MAX);
    expect_end(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(events_carry_what_the_record_said)
{
    struct rig rig;
    struct mci_batch batch;
    rig_open_plain(&rig);
    struct mci_log_record *stored = rig_add(&rig, MC_EVENT_STORED, 0, true);
    stored->medium = MC_MEDIUM_DISK;
    stored->group_id = mc_view_str("g");
    stored->session_id = mc_view_str("s");
    (void)rig_add(&rig, MC_EVENT_REMOVED, 0, false);
    (void)rig_add(&rig, MC_EVENT_CLEARED, 0, false);
    rig_load(&rig);
    ck_assert(mci_batcher_next(&rig.batcher, NOW_MS, &batch));
    ck_assert_uint_eq(batch.count, 3);
    const struct mc_event_record *record = batch.records;
    ck_assert_int_eq(record[0].type, MC_EVENT_STORED);
    ck_assert(mc_view_equal(record[0].tenant_id, mc_view_str("t")));
    ck_assert(mc_view_equal(record[0].backend_id, mc_view_str("n1")));
    ck_assert(mc_view_equal(record[0].medium, mc_view_str("disk")));
    ck_assert(mc_view_equal(record[0].group_id, mc_view_str("g")));
    ck_assert(mc_view_equal(record[0].session_id, mc_view_str("s")));
    ck_assert(mc_view_equal(record[0].object_key, mc_view_str("kkkkkkkk")));
    ck_assert_int_eq(record[1].type, MC_EVENT_REMOVED);
    ck_assert(mc_view_equal(record[1].medium, mc_view_str("cpu")));
    ck_assert_ptr_null(record[1].session_id.data);
    ck_assert_int_eq(record[2].type, MC_EVENT_CLEARED);
    ck_assert_ptr_null(record[2].medium.data);
    ck_assert_ptr_null(record[2].object_key.data);
    rig_close(&rig);
}
END_TEST

START_TEST(each_lost_event_burns_one_number_before_the_next_batch)
{
    struct rig rig;
    rig_open_plain(&rig);
    rig_fill(&rig, 1);
    rig_load(&rig);
    expect_batch(&rig, 1, 1, 1);
    expect_end(&rig);
    rig_clear(&rig);
    (void)rig_add(&rig, MC_EVENT_STORED, 5, false);
    rig_fill(&rig, 1);
    rig_load(&rig);
    expect_batch(&rig, 7, 7, 2);
    expect_end(&rig);
    rig_clear(&rig);
    rig_fill(&rig, 1);
    rig_load(&rig);
    expect_batch(&rig, 8, 9, 1); /* burnt once */
    rig_close(&rig);
}
END_TEST

START_TEST(batch_never_spans_a_hole)
{
    struct rig rig;
    rig_open_plain(&rig);
    rig_fill(&rig, 2);
    (void)rig_add(&rig, MC_EVENT_STORED, 3, false);
    rig_fill(&rig, 1);
    rig_load(&rig);
    expect_batch(&rig, 1, 1, 2);
    expect_batch(&rig, 5, 6, 2);
    expect_end(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(batch_closes_early_rather_than_split_a_group_by_bytes)
{
    static char text[4096];
    memset(text, 'm', sizeof text);
    const struct mc_event_writer_opts writer = {
        .model_name = mc_view_make(text, sizeof text),
        .additional_salt = mc_view_make(text, sizeof text),
        .lora_name = mc_view_make(text, sizeof text)};
    static uint8_t payload[MC_BATCH_BYTES_MAX];
    struct rig rig;
    struct mci_batch batch;
    uint64_t next_id = 1;
    uint32_t batches = 0;
    rig_open(&rig, &writer, (struct mci_batcher_opts){0});
    for (uint32_t i = 0; i < MC_BATCH_EVENTS_MAX; i++) {
        struct mci_log_record *record =
            rig_add(&rig, MC_EVENT_STORED, 0, i % 4 != 3);
        record->object_key.len = MC_KEY_LEN_MAX;
    }
    rig_load(&rig);
    while (mci_batcher_next(&rig.batcher, NOW_MS, &batch)) {
        size_t len = 0;
        ck_assert_int_eq(mc_event_writer_batch(rig.writer, NOW_MS,
                                               batch.records, batch.count,
                                               payload, sizeof payload, &len),
                         MC_OK);
        ck_assert_uint_eq(batch.records[0].event_id, next_id);
        ck_assert_uint_eq(batch.count % 4, 0);
        ck_assert_uint_eq(batch.seq, ++batches);
        next_id += batch.count;
    }
    ck_assert_uint_eq(next_id, MC_BATCH_EVENTS_MAX + 1);
    ck_assert_uint_gt(batches, 4); /* 64 events of 16 KiB */
    ck_assert_uint_lt(batches, 7); /* and they are filled */
    rig_close(&rig);
}
END_TEST

START_TEST(batch_keeps_to_the_bytes_asked_for)
{
    const struct mc_event_writer_opts writer = {0};
    struct rig rig;
    struct mci_batch batch;
    uint32_t events = 0;
    rig_open(&rig, &writer, (struct mci_batcher_opts){.max_bytes = 3000});
    (void)rig_add(&rig, MC_EVENT_REMOVED, 0, true);
    for (uint32_t i = 0; i < 2; i++) { /* a group that needs more */
        struct mci_log_record *record =
            rig_add(&rig, MC_EVENT_STORED, 0, i == 0);
        record->object_key.len = MC_KEY_LEN_MAX;
    }
    rig_fill(&rig, MC_BATCH_EVENTS_MAX - 3);
    rig_load(&rig);
    expect_batch(&rig, 1, 1, 3);
    while (mci_batcher_next(&rig.batcher, NOW_MS, &batch)) {
        size_t bytes = MC_EVENT_WRITER_BATCH_BOUND;
        for (uint32_t i = 0; i < batch.count; i++) {
            bytes += mc_event_writer_bound(rig.writer, &batch.records[i]);
        }
        ck_assert_uint_le(bytes, 3000);
        events += batch.count;
    }
    ck_assert_uint_eq(events, MC_BATCH_EVENTS_MAX - 3);
    ck_assert_uint_lt(rig.batcher.last_seq, 30); /* they are filled */
    rig_close(&rig);
}
END_TEST

START_TEST(suppressed_events_count_as_lost)
{
    const struct mc_event_writer_opts writer = {.no_object_key = true};
    struct rig rig;
    struct mci_batch batch;
    rig_open(&rig, &writer, (struct mci_batcher_opts){.skips_keyed = true});
    (void)rig_add(&rig, MC_EVENT_CLEARED, 0, false);
    rig_fill(&rig, 2);
    (void)rig_add(&rig, MC_EVENT_CLEARED, 0, false);
    (void)rig_add(&rig, MC_EVENT_CLEARED, 0, false);
    (void)rig_add(&rig, MC_EVENT_REMOVED, 0, true);
    (void)rig_add(&rig, MC_EVENT_STORED, 0, false);
    rig_load(&rig);
    expect_batch(&rig, 1, 1, 1);
    expect_batch(&rig, 4, 4, 2);
    expect_end(&rig);
    ck_assert_uint_eq(rig.batcher.skipped, 4);
    rig_clear(&rig);
    (void)rig_add(&rig, MC_EVENT_STORED, 10, false); /* lost, then skipped */
    rig_load(&rig);
    expect_end(&rig);
    mci_batcher_heartbeat(&rig.batcher, NOW_MS, &batch);
    ck_assert_uint_eq(batch.seq, 4 + 2 + 11 + 1);
    ck_assert_uint_eq(batch.count, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(heartbeat_is_due_after_silence_and_has_a_number_of_its_own)
{
    const struct mc_event_writer_opts writer = {0};
    struct rig rig;
    struct mci_batch batch;
    rig_open(&rig, &writer,
             (struct mci_batcher_opts){.heartbeat_ns = MCI_NS_PER_S});
    ck_assert_uint_eq(mci_batcher_heartbeat_at(&rig.batcher), 2 * MCI_NS_PER_S);
    rig_fill(&rig, 1);
    rig_load(&rig);
    expect_batch(&rig, 1, 1, 1);
    mci_batcher_sent(&rig.batcher, 2 * MCI_NS_PER_S - 1);
    ck_assert_uint_eq(mci_batcher_heartbeat_at(&rig.batcher),
                      3 * MCI_NS_PER_S - 1);
    mci_batcher_heartbeat(&rig.batcher, NOW_MS, &batch);
    ck_assert_uint_eq(batch.seq, 2);
    ck_assert_uint_eq(batch.count, 0);
    ck_assert_uint_eq(batch.timestamp_ms, NOW_MS);
    rig_clear(&rig);
    rig_fill(&rig, 1);
    rig_load(&rig);
    expect_batch(&rig, 3, 2, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(without_heartbeats_none_is_ever_due)
{
    struct rig rig;
    rig_open_plain(&rig);
    ck_assert_uint_eq(mci_batcher_heartbeat_at(&rig.batcher), UINT64_MAX);
    rig_close(&rig);
}
END_TEST

START_TEST(sequence_epoch_starts_at_seconds_since_2025)
{
    const uint64_t y2025_ms = UINT64_C(1735689600) * 1000;
    const struct mc_event_writer_opts writer = {0};
    struct rig rig;
    ck_assert_uint_eq(mci_batcher_epoch_base(y2025_ms), 0);
    ck_assert_uint_eq(mci_batcher_epoch_base(y2025_ms - 1), 0);
    ck_assert_uint_eq(mci_batcher_epoch_base(y2025_ms + 7999), UINT64_C(7)
                                                                   << 32);
    /* Consumers of others read it as a signed number: good until 2093. */
    ck_assert_uint_lt(
        mci_batcher_epoch_base(y2025_ms + 68ULL * 31557600 * 1000), INT64_MAX);
    rig_open(&rig, &writer,
             (struct mci_batcher_opts){.base_seq = UINT64_C(7) << 32});
    rig_fill(&rig, 1);
    rig_load(&rig);
    expect_batch(&rig, (UINT64_C(7) << 32) + 1, 1, 1);
    rig_close(&rig);
}
END_TEST

/* Random takes: whatever is lost, the numbers say how much, every record is
 * handed on once, in order, groups whole, ids within a batch without a hole. */
START_TEST(numbers_used_are_batches_and_losses)
{
    struct rig rig;
    struct mci_batch batch;
    unsigned seed = (unsigned)_i + 1;
    uint64_t lost = 0;
    uint64_t batches = 0;
    uint64_t events = 0;
    int faults = 0;
    rig_open_plain(&rig);
    for (int round = 0; round < 200; round++) {
        uint32_t at = 0;
        rig_clear(&rig);
        uint32_t count = (uint32_t)rand_r(&seed) % MC_BATCH_EVENTS_MAX + 1;
        for (uint32_t i = 0; i < count; i++) {
            bool in_group = i > 0 && rig.records[i - 1].group_continues;
            bool loses = !in_group && rand_r(&seed) % 20 == 0;
            uint64_t gone = loses ? (uint64_t)rand_r(&seed) % 9 + 1 : 0;
            bool continues = i + 1 < count && rand_r(&seed) % 3 == 0;
            (void)rig_add(&rig, MC_EVENT_STORED, gone, continues);
            lost += gone;
        }
        rig_load(&rig);
        while (mci_batcher_next(&rig.batcher, NOW_MS, &batch)) {
            for (uint32_t i = 0; i < batch.count; i++, at++) {
                faults += batch.records[i].event_id != rig.records[at].id;
                faults += i > 0 && rig.records[at].lost_before > 0;
            }
            faults += at < count && rig.records[at - 1].group_continues;
            batches++;
            events += batch.count;
        }
        faults += at != count;
    }
    ck_assert_int_eq(faults, 0);
    ck_assert_uint_eq(rig.batcher.last_seq, batches + lost);
    ck_assert_uint_eq(events + lost, rig.last_id);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batcher");
    TCase *tc = tcase_create("numbers");
    tcase_add_test(tc, numbers_begin_with_one_and_rise_by_one);
    tcase_add_test(tc, each_lost_event_burns_one_number_before_the_next_batch);
    tcase_add_test(tc, suppressed_events_count_as_lost);
    tcase_add_test(tc, sequence_epoch_starts_at_seconds_since_2025);
    tcase_add_loop_test(tc, numbers_used_are_batches_and_losses, 0, 10);
    suite_add_tcase(suite, tc);

    tc = tcase_create("batches");
    tcase_add_test(tc, events_carry_what_the_record_said);
    tcase_add_test(tc, batch_never_spans_a_hole);
    tcase_add_test(tc, batch_keeps_to_the_bytes_asked_for);
    tcase_add_test(tc, batch_closes_early_rather_than_split_a_group_by_bytes);
    suite_add_tcase(suite, tc);

    tc = tcase_create("heartbeats");
    tcase_add_test(tc,
                   heartbeat_is_due_after_silence_and_has_a_number_of_its_own);
    tcase_add_test(tc, without_heartbeats_none_is_ever_due);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
