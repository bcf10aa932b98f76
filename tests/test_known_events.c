/* SPDX-License-Identifier: Apache-2.0 */
/* test_known_events.c - what other consumers of events failed at: numbers,
 * restarts, fields that come and go, and chains with strange parents. */
#include <stdlib.h>

#include "event_message.h"
#include "index_check.h"
#include "index_rig.h"
#include "mc_engine_event.h"
#include "mc_subscriber.h"
#include "suite.h"

#define EPOCH UINT64_C(0x19aca4b2f0a1c3d7)

/* ---- a subscriber of two stores, fed by hand ------------------------------ */

struct told {
    unsigned signals[8]; /* by type */
    unsigned events[2];  /* by source */
};

struct rig {
    struct told told;
    struct mc_index *index;
    struct mc_index_reader *reader;
    struct mc_subscriber *subscriber;
    struct event_message *message;
};

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    ((struct told *)ctx)->events[delivery->source]++;
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    ((struct told *)ctx)->signals[signal->type]++;
}

static void rig_open(struct rig *rig)
{
    struct mc_index_opts bounds = {0};
    struct mc_source_opts sources[2] = {{.endpoint = NULL}, {.endpoint = NULL}};
    struct mc_subscriber_opts opts = {.sources = sources,
                                      .source_count = 2,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .ctx = &rig->told};
    memset(rig, 0, sizeof *rig);
    rig->index = rig_index("u64", &bounds);
    rig->reader = rig_reader(rig->index);
    rig->message = calloc(1, sizeof *rig->message);
    ck_assert_ptr_nonnull(rig->message);
    rig->message->epoch = EPOCH;
    opts.index = rig->index;
    ck_assert_int_eq(mc_subscriber_open(&opts, &rig->subscriber), MC_OK);
}

static void rig_close(struct rig *rig)
{
    mc_subscriber_close(rig->subscriber);
    mc_index_reader_destroy(rig->reader);
    index_check(rig->index);
    mc_index_destroy(rig->index);
    free(rig->message);
}

/* One event, "stored" of the block of its id, in a message of its own. */
static void give(struct rig *rig, uint32_t source, uint64_t seq, uint64_t id)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)id);
    rig->message->count = 0;
    rig->message->len = 0;
    rig->message->seq = seq;
    rig->message->backend = source ? "n2" : "n1";
    event_message_stored(rig->message, id, key, NULL);
    event_message_frames(rig->message);
    ck_assert_int_eq(
        mc_subscriber_inject(rig->subscriber, source, rig->message->frames, 3),
        MC_OK);
}

static struct mc_source_stats stats_of(const struct rig *rig, uint32_t source)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(rig->subscriber, source, &stats);
    return stats;
}

START_TEST(one_gap_is_told_once_and_a_thousand_messages_later_nothing_more)
{
    struct rig rig;
    rig_open(&rig);
    for (uint64_t id = 1; id <= 5; id++) {
        give(&rig, 0, id, id);
    }
    for (uint64_t id = 8; id < 1008; id++) { /* 6 and 7 never came */
        give(&rig, 0, id, id);
    }
    ck_assert_uint_eq(rig.told.signals[MC_SIGNAL_GAP], 1);
    ck_assert_uint_eq(rig.told.signals[MC_SIGNAL_STALE], 1);
    ck_assert_uint_eq(rig.told.signals[MC_SIGNAL_EPOCH], 1);
    ck_assert_uint_eq(rig.told.signals[MC_SIGNAL_DEGRADED], 0);
    struct mc_source_stats stats = stats_of(&rig, 0);
    ck_assert_uint_eq(stats.gaps, 1);
    ck_assert_uint_eq(stats.lost_ids, 2);
    ck_assert_uint_eq(stats.events, 1005);
    rig_close(&rig);
}
END_TEST

START_TEST(two_publishers_count_each_for_itself)
{
    struct rig rig;
    rig_open(&rig);
    for (uint64_t i = 1; i <= 500; i++) {
        give(&rig, 0, i, i);
        give(&rig, 1, 7000 + i, 100000 + i);
    }
    for (uint32_t source = 0; source < 2; source++) {
        struct mc_source_stats stats = stats_of(&rig, source);
        ck_assert_uint_eq(stats.gaps + stats.restarts + stats.duplicates, 0);
        ck_assert_uint_eq(rig.told.events[source], 500);
    }
    give(&rig, 1, 7510, 100510);
    ck_assert_uint_eq(stats_of(&rig, 0).gaps, 0);
    ck_assert_uint_eq(stats_of(&rig, 1).gaps, 1);
    const uint64_t first = 1;
    const uint64_t second = 100001;
    ck_assert_uint_eq(rig_stored(rig.reader, &first, 1), 1);
    ck_assert_uint_eq(rig_stored(rig.reader, &second, 1), 0);
    rig_close(&rig);
}
END_TEST

/* The first number need not be 1; a restart clears once and is followed from
 * there; what comes twice is applied once. */
START_TEST(a_restart_clears_once_and_goes_on)
{
    struct rig rig;
    uint64_t block = 41;
    rig_open(&rig);
    give(&rig, 0, 900, 41);
    give(&rig, 0, 900, 41);
    ck_assert_uint_eq(rig.told.events[0], 1);
    ck_assert_uint_eq(stats_of(&rig, 0).duplicates, 1);
    ck_assert_uint_eq(rig_stored(rig.reader, &block, 1), 1);
    rig.message->epoch = EPOCH + 1;
    give(&rig, 0, 1, 1);
    give(&rig, 0, 2, 2);
    give(&rig, 0, 2, 2);
    ck_assert_uint_eq(rig.told.signals[MC_SIGNAL_EPOCH], 2);
    ck_assert_uint_eq(rig.told.signals[MC_SIGNAL_STALE], 1);
    ck_assert_uint_eq(rig.told.signals[MC_SIGNAL_GAP], 0);
    ck_assert_uint_eq(rig.told.events[0], 3);
    ck_assert_uint_eq(stats_of(&rig, 0).restarts, 1);
    ck_assert_uint_eq(rig_stored(rig.reader, &block, 1), 0);
    block = 2;
    ck_assert_uint_eq(rig_stored(rig.reader, &block, 1), 1);
    rig_close(&rig);
}
END_TEST

/* ---- fields that come and go ---------------------------------------------- */

struct field {
    const char *name;
    const char *value; /* msgpack */
    bool is_needed;
    const char *wrong; /* of another type */
};

static const struct field store_fields[] = {
    {"event_id", "\x05", true, "\xa1x"},
    {"timestamp", "\x07", false, "\xa1x"},
    {"event_type", "\xa6stored", true, "\x07"},
    {"type",
     "\xab"
     "BlockStored",
     false, "\x07"},
    {"model_name", "\xa1m", false, "\x07"},
    {"block_size", "\x10", false, "\xa1x"},
    {"additional_salt", "\xc0", false, "\x07"},
    {"lora_name", "\xa1l", false, "\x90"},
    {"tenant_id", "\xa1t", true, "\xc0"},
    {"backend_id", "\xa1n", true, "\xc0"},
    {"medium",
     "\xa3"
     "cpu",
     true, "\x07"},
    {"dp_rank", "\xc0", false, "\xa1x"},
    {"group_id", "\xa1g", false, "\x07"},
    {"session_id", "\xa1s", false, "\x07"},
    {"object_key", "\xa1k", true, "\x07"},
    {"seq_hashes", "\x90", false, "\x07"},
    {"block_hashes", "\x90", false, "\xc0"},
    {"base_block_idx", "\xc0", false, "\xa1x"},
    {"parent_hash", "\xc0", false, "\xa1x"},
    {"token_ids", "\x90", false, "\x07"},
    {"parent_block_hash", "\xc0", false, "\xa1x"},
    {"epoch", "\x09", false, "\xa1x"},
};
#define STORE_FIELDS (sizeof store_fields / sizeof store_fields[0])

static const struct field engine_fields[] = {
    {"type",
     "\xab"
     "BlockStored",
     true, "\x07"},
    {"block_hashes", "\x91\x05", true, "\x07"},
    {"parent_block_hash", "\xc0", true, "\xa1x"},
    {"token_ids", "\x91\x01", false, "\x07"},
    {"block_size", "\x01", false, "\xa1x"},
    {"lora_id", "\xc0", false, "\xa1x"},
    {"medium", "\xa3GPU", false, "\x07"},
    {"lora_name", "\xa1l", false, "\x07"},
    {"extra_keys", "\xc0", false, "\x07"},
    {"group_idx", "\x00", false, "\xa1x"},
    {"kv_cache_spec_kind", "\xa1k", false, "\x07"},
    {"kv_cache_spec_sliding_window", "\x05", false, "\xa1x"},
    {"locality", "\xa5LOCAL", false, "\x07"},
    {"session_id", "\xa1s", false, "\x07"},
    {"cache_salt", "\xa1s", false, "\x07"},
};
#define ENGINE_FIELDS (sizeof engine_fields / sizeof engine_fields[0])

#define NONE SIZE_MAX

struct form {
    const struct field *fields;
    size_t count;
    size_t without;
    size_t wrong;
    bool has_unknown; /* before, in the midst of and behind the others */
};

static size_t put(uint8_t *out, const char *text, size_t len)
{
    memcpy(out, text, len);
    return len;
}

/* The values of the tables hold no NUL but where they are one byte alone. */
static size_t value_len(const char *value)
{
    return value[0] ? strlen(value) : 1;
}

static size_t put_unknown(uint8_t *out)
{
    static const char text[] = "\xa3new\x82\xa1x\x91\xc3\xa1y\xcb"
                               "12345678";
    return put(out, text, sizeof text - 1);
}

static size_t put_event(uint8_t *out, const struct form *form)
{
    size_t len = 0;
    size_t count =
        form->count - (form->without != NONE) + (form->has_unknown ? 3 : 0);
    out[len++] = 0xde;
    out[len++] = 0;
    out[len++] = (uint8_t)count;
    for (size_t i = 0; i < form->count; i++) {
        const struct field *field = &form->fields[i];
        if (form->has_unknown && (i == 0 || i == form->count / 2)) {
            len += put_unknown(out + len);
        }
        if (i == form->without) {
            continue;
        }
        const char *value = i == form->wrong ? field->wrong : field->value;
        out[len++] = 0xd9;
        out[len++] = (uint8_t)strlen(field->name);
        len += put(out + len, field->name, strlen(field->name));
        len += put(out + len, value, value_len(value));
    }
    return len + (form->has_unknown ? put_unknown(out + len) : 0);
}

/* [1, [event, good event], 0]: how the first one fares; the second is always
 * read. */
static enum mc_event_error fate_of(const struct form *form)
{
    static const uint8_t seq[8] = {0};
    const struct form good = {form->fields, form->count, NONE, NONE, false};
    const bool is_engine = form->fields == engine_fields;
    uint8_t payload[4096];
    size_t len = put(payload, "\x93\x01\x92", 3);
    len += put_event(payload + len, form);
    len += put_event(payload + len, &good);
    payload[len++] = 0;
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq, 8),
                                mc_view_make(payload, len)};
    if (is_engine) {
        struct mc_engine_event events[2];
        struct mc_engine_batch batch;
        ck_assert_int_eq(
            mc_engine_event_read(frames, 3, events, 2, &batch, NULL),
            MC_EVENT_OK);
        ck_assert_int_eq(events[1].error, MC_EVENT_OK);
        ck_assert_uint_eq(batch.refused, events[0].error != MC_EVENT_OK);
        return events[0].error;
    }
    struct mc_event events[2];
    struct mc_event_batch batch;
    ck_assert_int_eq(mc_event_read(frames, 3, events, 2, &batch, NULL),
                     MC_EVENT_OK);
    ck_assert_int_eq(events[1].error, MC_EVENT_OK);
    ck_assert_uint_eq(batch.refused, events[0].error != MC_EVENT_OK);
    return events[0].error;
}

static void check_fields(const struct field *fields, size_t count)
{
    struct form form = {fields, count, NONE, NONE, true};
    ck_assert_int_eq(fate_of(&form), MC_EVENT_OK);
    form.has_unknown = false;
    for (size_t i = 0; i < count; i++) {
        form.without = i;
        ck_assert_msg((fate_of(&form) != MC_EVENT_OK) == fields[i].is_needed,
                      "without %s: %s", fields[i].name,
                      mc_event_error_name(fate_of(&form)));
        form.without = NONE;
        form.wrong = i;
        ck_assert_msg(fate_of(&form) == MC_EVENT_ERROR_FIELD_TYPE,
                      "another type of %s: %s", fields[i].name,
                      mc_event_error_name(fate_of(&form)));
        form.wrong = NONE;
    }
}

START_TEST(
    fields_that_are_new_left_out_or_of_another_type_cost_no_more_than_told)
{
    check_fields(store_fields, STORE_FIELDS);
    check_fields(engine_fields, ENGINE_FIELDS);
}
END_TEST

/* ---- chains with strange parents ------------------------------------------ */

static enum mc_index_result engine_store(struct mc_index *index,
                                         const uint64_t *parent,
                                         const uint64_t *hashes, size_t count)
{
    const struct mc_index_engine engine = {rig_text("default"), rig_text("w0"),
                                           0};
    return mc_index_engine_stored(index, &engine, MC_TIER_DEVICE, parent,
                                  hashes, count, rig_text("s"));
}

/* How many of the leading blocks w0 holds, and how long the chain of the last
 * one is. */
static void check_chain(struct mc_index_reader *reader, const uint64_t *hashes,
                        size_t count, uint64_t held, size_t depth)
{
    struct mc_index_worker worker = {.own = 0};
    struct mc_index_match match = {.workers = &worker, .worker_capacity = 1};
    mc_index_match(reader, rig_text("default"), hashes, count, &match);
    ck_assert_uint_eq(worker.own, held);
    ck_assert_uint_eq(mc_index_chain(reader, rig_text("default"),
                                     hashes[count - 1], NULL, 0, NULL),
                      depth);
}

START_TEST(blocks_below_an_unknown_parent_are_held_and_joined_later)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    static const uint64_t chain[] = {1, 2, 3, 4};
    ck_assert_int_eq(engine_store(index, &chain[1], &chain[2], 2),
                     MC_INDEX_APPLIED);
    check_chain(reader, &chain[2], 2, 2, 3); /* 2 is known, and held nowhere */
    check_chain(reader, chain, 4, 0, 3);
    ck_assert_int_eq(engine_store(index, NULL, chain, 2), MC_INDEX_APPLIED);
    check_chain(reader, chain, 4, 4, 4);
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(a_wrong_parent_costs_lineage_and_not_what_is_held)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    static const uint64_t chain[] = {1, 2, 3};
    static const uint64_t other[] = {9, 3, 5};
    ck_assert_int_eq(engine_store(index, NULL, chain, 3), MC_INDEX_APPLIED);
    ck_assert_int_eq(engine_store(index, &other[0], &other[1], 2),
                     MC_INDEX_CONFLICTING_PARENT);
    ck_assert_int_eq(engine_store(index, &chain[2], chain, 1),
                     MC_INDEX_CYCLIC_PARENT);
    check_chain(reader, chain, 3, 3, 3);
    check_chain(reader, &other[2], 1, 1, 1); /* held, below nothing known */
    ck_assert_uint_eq(rig_stats(index).conflicting_parents, 1);
    ck_assert_uint_eq(rig_stats(index).cyclic_parents, 1);
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(what_is_stored_twice_is_there_once)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    static const uint64_t chain[] = {1, 2, 3};
    uint64_t heads[4];
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(engine_store(index, NULL, chain, 3), MC_INDEX_APPLIED);
        ck_assert_int_eq(rig_store(index, "n1", 3, "other"), MC_INDEX_APPLIED);
        ck_assert_uint_eq(rig_stats(index).resident, 4);
        ck_assert_uint_eq(rig_stats(index).nodes, 3);
        ck_assert_uint_eq(rig_heads(reader, "s", heads, 4), 1);
    }
    ck_assert_int_eq(rig_remove(index, "n1", 3), MC_INDEX_APPLIED);
    ck_assert_uint_eq(rig_stored(reader, &chain[2], 1), 0);
    check_chain(reader, chain, 3, 3, 3);
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("known events");
    TCase *numbers = tcase_create("numbers");
    tcase_add_test(
        numbers,
        one_gap_is_told_once_and_a_thousand_messages_later_nothing_more);
    tcase_add_test(numbers, two_publishers_count_each_for_itself);
    tcase_add_test(numbers, a_restart_clears_once_and_goes_on);
    suite_add_tcase(suite, numbers);
    TCase *fields = tcase_create("fields");
    tcase_add_test(
        fields,
        fields_that_are_new_left_out_or_of_another_type_cost_no_more_than_told);
    suite_add_tcase(suite, fields);
    TCase *chains = tcase_create("chains");
    tcase_add_test(chains,
                   blocks_below_an_unknown_parent_are_held_and_joined_later);
    tcase_add_test(chains, a_wrong_parent_costs_lineage_and_not_what_is_held);
    tcase_add_test(chains, what_is_stored_twice_is_there_once);
    suite_add_tcase(suite, chains);
    return suite_run(suite);
}
