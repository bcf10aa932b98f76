/* SPDX-License-Identifier: Apache-2.0 */
/* What each known consumer would make of a message: every rule broken alone,
 * counts, the store's own stream under each setting, and hostile bytes. */
#include <stdio.h>

#include "lint.h"
#include "lint_rules.h"
#include "mc_event_writer.h"
#include "mci_alloc.h"
#include "suite.h"
#include "vectors.h"

#define MIB (1u << 20)

static struct lint *new_lint(void)
{
    struct lint *lint = NULL;
    ck_assert_int_eq(lint_create(&lint), MC_OK);
    return lint;
}

static enum lint_consumer find_consumer(const char *name)
{
    enum lint_consumer consumer = LINT_CONSUMER_COUNT;
    ck_assert_msg(lint_consumer_find(mc_view_str(name), &consumer), "%s", name);
    return consumer;
}

static struct lint_row row_of(const struct lint *lint, const char *consumer)
{
    struct lint_row row;
    lint_row(lint, find_consumer(consumer), &row);
    return row;
}

/* ---- every rule -------------------------------------------------------- */

/* Names of the rules that a consumer's messages broke, by bits of the table. */
static uint64_t broken_rules(const struct lint *lint,
                             enum lint_consumer consumer)
{
    struct lint_finding found[LINT_FINDINGS_MAX];
    size_t count = lint_findings(lint, consumer, found, LINT_FINDINGS_MAX);
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t rule = 0; rule < lint_rule_count; rule++) {
            if (strcmp(lint_rules[rule].name, found[i].rule) == 0) {
                bits |= UINT64_C(1) << rule;
            }
        }
    }
    ck_assert_int_eq(__builtin_popcountll(bits), (int)count);
    return bits;
}

static uint64_t wanted_rules(json_object *names)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < json_object_array_length(names); i++) {
        const char *name =
            json_object_get_string(json_object_array_get_idx(names, i));
        size_t rule = 0;
        while (rule < lint_rule_count &&
               strcmp(lint_rules[rule].name, name) != 0) {
            rule++;
        }
        ck_assert_msg(rule < lint_rule_count, "no rule %s", name);
        bits |= UINT64_C(1) << rule;
    }
    return bits;
}

/* covered[consumer]: rules that some message broke alone. */
static void judge_row(json_object *row, uint64_t *covered)
{
    struct vector_frames message;
    struct lint *lint = new_lint();
    vector_frames_make(row, &message);
    ck_assert(lint_message(lint, message.frames, message.count));
    json_object_object_foreach(json_object_object_get(row, "expect"), consumer,
                               names)
    {
        enum lint_consumer which = find_consumer(consumer);
        uint64_t wanted = wanted_rules(names);
        struct lint_row counts = row_of(lint, consumer);
        ck_assert_msg(broken_rules(lint, which) == wanted,
                      "%s: %s: rules %llx, not %llx",
                      vector_string(row, "name"), consumer,
                      (unsigned long long)broken_rules(lint, which),
                      (unsigned long long)wanted);
        ck_assert_int_eq(wanted == 0, counts.worst == LINT_TAKES);
        ck_assert_uint_eq(counts.taken, counts.worst <= LINT_IGNORES);
        ck_assert_uint_eq(counts.lost, counts.worst >= LINT_REFUSES);
        if (__builtin_popcountll(wanted) == 1) {
            covered[which] |= wanted;
        }
    }
    vector_frames_free(&message);
    lint_destroy(lint);
}

/* Those that are large and therefore not in the file. */
static void judge_large(uint64_t *covered)
{
    static const char clear[] = "\x81\xaa"
                                "event_type\xa7"
                                "cleared";
    static uint8_t topic[MIB];
    static uint8_t payload[4097 * (sizeof clear - 1) + 16];
    static const uint8_t seq[8] = {0};
    for (unsigned surplus = 0; surplus < 2; surplus++) {
        struct lint *lint = new_lint();
        struct mc_view frames[3] = {mc_view_make(topic, MIB - 8 - 4 + surplus),
                                    mc_view_make(seq, 8),
                                    mc_view_make("\x93\x01\x90\x00", 4)};
        ck_assert(lint_message(lint, frames, 3));
        uint64_t broken = broken_rules(lint, LINT_DYNAMO_MOONCAKE);
        ck_assert_int_eq(__builtin_popcountll(broken), (int)surplus);
        covered[LINT_DYNAMO_MOONCAKE] |= broken;
        ck_assert_uint_eq(broken_rules(lint, LINT_DYNAMO_HICACHE), 0);
        lint_destroy(lint);
    }
    for (unsigned count = 4096; count <= 4097; count++) {
        struct lint *lint = new_lint();
        size_t len = 5;
        memcpy(payload, "\x93\x01\xdc\x10", 4);
        payload[4] = (uint8_t)(count - 4096);
        for (unsigned i = 0; i < count; i++, len += sizeof clear - 1) {
            memcpy(payload + len, clear, sizeof clear - 1);
        }
        payload[len++] = 0;
        struct mc_view frames[3] = {mc_view_make(topic, 0),
                                    mc_view_make(seq, 8),
                                    mc_view_make(payload, len)};
        ck_assert(lint_message(lint, frames, 3));
        uint64_t broken = broken_rules(lint, LINT_DYNAMO_MOONCAKE);
        ck_assert_int_eq(__builtin_popcountll(broken), count == 4097);
        covered[LINT_DYNAMO_MOONCAKE] |= broken;
        ck_assert_uint_eq(row_of(lint, "dynamo-hicache").ignored, count);
        lint_destroy(lint);
    }
}

START_TEST(each_rule_is_broken_alone_by_some_message)
{
    uint64_t covered[LINT_CONSUMER_COUNT] = {0};
    json_object *rows = vectors_load_copy("lint.json");
    ck_assert_uint_gt(json_object_array_length(rows), 100);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        judge_row(json_object_array_get_idx(rows, i), covered);
    }
    json_object_put(rows);
    judge_large(covered);
    for (size_t rule = 0; rule < lint_rule_count; rule++) {
        for (unsigned i = 0; i < LINT_CONSUMER_COUNT; i++) {
            if (lint_rules[rule].consumers & LINT_BIT(i)) {
                ck_assert_msg(covered[i] >> rule & 1,
                              "no message breaks %s of %s alone",
                              lint_rules[rule].name,
                              lint_consumer_name((enum lint_consumer)i));
            }
        }
    }
}
END_TEST

START_TEST(names_are_there_once_each)
{
    enum lint_consumer consumer = LINT_LLM_D;
    for (size_t i = 0; i < lint_rule_count; i++) {
        for (size_t k = 0; k < i; k++) {
            ck_assert_str_ne(lint_rules[i].name, lint_rules[k].name);
        }
        ck_assert_uint_ne(lint_rules[i].consumers, 0);
    }
    for (unsigned i = 0; i < LINT_CONSUMER_COUNT; i++) {
        ck_assert_int_eq(
            find_consumer(lint_consumer_name((enum lint_consumer)i)), (int)i);
        ck_assert_uint_gt(strlen(lint_consumer_what((enum lint_consumer)i)), 8);
    }
    ck_assert(!lint_consumer_find(mc_view_str("dynamo"), &consumer));
    ck_assert_int_eq(consumer, LINT_LLM_D);
    ck_assert_str_eq(lint_consumer_name(LINT_CONSUMER_COUNT), "unknown");
    ck_assert_str_eq(lint_cost_name(LINT_DEAF), "deaf");
    ck_assert_str_eq(lint_cost_name((enum lint_cost)9), "unknown");
}
END_TEST

/* ---- counts ------------------------------------------------------------ */

/* {"event_type": type, "tenant_id": tenant, "object_key": "m@<64 digits>",
 * "medium": "cpu"} */
static size_t put_event(uint8_t *out, const char *type, const char *tenant)
{
    static const char *const names[] = {"event_type", "tenant_id", "object_key",
                                        "medium"};
    char key[80];
    (void)snprintf(key, sizeof key, "m@%064d", 7);
    const char *const values[] = {type, tenant, key, "cpu"};
    size_t len = 0;
    out[len++] = 0x84;
    for (int i = 0; i < 4; i++) {
        const char *const pair[] = {names[i], values[i]};
        for (int k = 0; k < 2; k++) {
            size_t size = strlen(pair[k]);
            out[len++] = 0xd9;
            out[len++] = (uint8_t)size;
            memcpy(out + len, pair[k], size);
            len += size;
        }
    }
    return len;
}

static void judge_events(struct lint *lint, const char *const (*events)[2],
                         unsigned count, uint8_t rank)
{
    uint8_t payload[1024];
    static const uint8_t seq[8] = {0};
    size_t len = 0;
    payload[len++] = 0x93;
    payload[len++] = 1;
    payload[len++] = (uint8_t)(0x90 | count);
    for (unsigned i = 0; i < count; i++) {
        len += put_event(payload + len, events[i][0], events[i][1]);
    }
    payload[len++] = rank;
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq, 8),
                                mc_view_make(payload, len)};
    ck_assert(lint_message(lint, frames, 3));
}

START_TEST(messages_and_events_are_counted_and_the_first_place_is_kept)
{
    static const char *const good[][2] = {{"removed", "default"}};
    static const char *const mixed[][2] = {{"removed", "default"},
                                           {"stored", "t2"},
                                           {"stored", "default"},
                                           {"stored", "t2"}};
    struct lint *lint = new_lint();
    struct lint_finding found[LINT_FINDINGS_MAX];
    judge_events(lint, good, 1, 0);
    judge_events(lint, mixed, 4, 0);
    judge_events(lint, mixed, 4, 0xc0); /* no rank: lost to the router */
    struct lint_row row = row_of(lint, "dynamo-hicache");
    ck_assert_uint_eq(row.messages, 3);
    ck_assert_uint_eq(row.taken, 2);
    ck_assert_uint_eq(row.lost, 1);
    ck_assert_uint_eq(row.events, 9);
    ck_assert_uint_eq(row.ignored, 2);
    ck_assert_uint_eq(row.skipped, 0);
    ck_assert_int_eq(row.worst, LINT_REFUSES);
    ck_assert_uint_eq(
        lint_findings(lint, LINT_DYNAMO_HICACHE, found, LINT_FINDINGS_MAX), 2);
    ck_assert_str_eq(found[0].rule, "dp_rank_u32");
    ck_assert_uint_eq(found[0].messages, 1);
    ck_assert_uint_eq(found[0].events, 0);
    ck_assert_uint_eq(found[0].message, 3);
    ck_assert_uint_eq(found[0].event, LINT_NO_EVENT);
    ck_assert_str_eq(found[1].rule, "tenant_default");
    ck_assert_int_eq(found[1].cost, LINT_IGNORES);
    ck_assert_uint_eq(found[1].messages, 2);
    ck_assert_uint_eq(found[1].events, 4);
    ck_assert_uint_eq(found[1].message, 2);
    ck_assert_uint_eq(found[1].event, 1);
    ck_assert_uint_gt(found[1].offset, 100);
    /* What costs one consumer the message costs another all it knew. */
    ck_assert_int_eq(row_of(lint, "dynamo-mooncake-store").worst, LINT_CLEARS);
    /* Conductor wants names that these lack: each stored alone is lost. */
    row = row_of(lint, "conductor-vllm");
    ck_assert_uint_eq(row.lost, 0);
    ck_assert_uint_eq(row.taken, 1);
    ck_assert_uint_eq(row.skipped, 6);
    /* A table that is too short is filled and told. */
    ck_assert_uint_eq(lint_findings(lint, LINT_DYNAMO_HICACHE, found, 1), 2);
    ck_assert_uint_eq(lint_findings(lint, LINT_DYNAMO_HICACHE, NULL, 0), 2);
    lint_destroy(lint);
}
END_TEST

START_TEST(what_has_too_many_values_is_told_and_not_judged)
{
    const uint32_t count = LINT_VALUES_MAX;
    uint8_t *payload = malloc(count + 16);
    struct lint *lint = new_lint();
    ck_assert_ptr_nonnull(payload);
    memcpy(payload, "\x93\x01\xdd", 3);
    for (int i = 0; i < 4; i++) {
        payload[3 + i] = (uint8_t)(count >> (24 - 8 * i));
    }
    memset(payload + 7, 0xc0, count);
    payload[7 + count] = 0;
    struct mc_view frames[3] = {mc_view_make("", 0),
                                mc_view_make("\0\0\0\0\0\0\0\0", 8),
                                mc_view_make(payload, count + 8)};
    ck_assert(!lint_message(lint, frames, 3));
    ck_assert_uint_eq(row_of(lint, "llm-d").messages, 0);
    ck_assert_uint_eq(row_of(lint, "llm-d").unjudged, 1);
    lint_destroy(lint);
    free(payload);
}
END_TEST

START_TEST(without_memory_nothing_is_judged)
{
    struct lint *lint = NULL;
    static const char *const good[][2] = {{"removed", "default"}};
    (void)mci_alloc_fail_at(1);
    ck_assert_int_eq(lint_create(&lint), MC_ERR_NOMEM);
    ck_assert_ptr_null(lint);
    lint = new_lint();
    struct mc_view frames[3] = {mc_view_make("", 0),
                                mc_view_make("\0\0\0\0\0\0\0\0", 8),
                                mc_view_make("\x93\x01\x90\x00", 4)};
    (void)mci_alloc_fail_at(1);
    ck_assert(!lint_message(lint, frames, 3));
    ck_assert_uint_eq(row_of(lint, "vllm-map").unjudged, 1);
    judge_events(lint, good, 1, 0);
    ck_assert_uint_eq(row_of(lint, "dynamo-hicache").taken, 1);
    lint_destroy(lint);
    lint_destroy(NULL);
}
END_TEST

/* ---- the store's own stream -------------------------------------------- */

enum keys { BY_VLLM, BY_SGLANG, BY_NUMBER };

struct setting {
    const char *name;
    struct mc_event_writer_opts opts;
    enum keys keys;
    const char *topic;
    /* By consumer, in their order: T takes all; S skips; R refuses; C clears;
     * D never gets it. */
    const char *verdicts;
};

#define MODEL .model_name = {"m", 1}
#define SIZED .block_size = 16
#define TOKENS .empty_token_ids = true

/* clang-format off */
static const struct setting settings[] = {
    {"as it is", {0}, BY_VLLM, "", "TTRSSDDD"},
    {"as it is, SGLang keys", {0}, BY_SGLANG, "", "TTRSSDDD"},
    {"plain", {.plain = true}, BY_VLLM, "", "TTRSSDDD"},
    {"model and size", {MODEL, SIZED}, BY_VLLM, "", "TTRTSDDD"},
    {"model and size, SGLang keys", {MODEL, SIZED}, BY_SGLANG, "", "TTRSTDDD"},
    {"and no nil tokens", {MODEL, SIZED, TOKENS}, BY_VLLM, "", "TTTTSDDD"},
    {"no nil tokens alone", {TOKENS}, BY_SGLANG, "", "TTRSSDDD"},
    {"and a topic for llm-d", {MODEL, SIZED, TOKENS}, BY_SGLANG, "kv@n1@m",
     "TTTSTTDD"},
    {"a topic for vLLM", {MODEL, SIZED, TOKENS}, BY_VLLM, "kv-events",
     "TTTTSDRR"},
    {"hashes too", {MODEL, SIZED, TOKENS, .seq_hashes = true}, BY_NUMBER,
     "kv@n1@m", "TTTSSTDD"},
    {"no older names", {MODEL, SIZED, TOKENS, .no_legacy_compat = true},
     BY_VLLM, "kv@n1@m", "TTRTSRDD"},
    {"plain, all flags", {MODEL, SIZED, TOKENS, .plain = true}, BY_VLLM,
     "kv@n1@m", "TTTTSTDD"},
};
/* clang-format on */
#define SETTINGS ((int)(sizeof settings / sizeof settings[0]))

static const char *key_text(enum keys keys)
{
    static char text[160];
    const char *format = keys == BY_VLLM     ? "m@tp_rank:0@pcp0@dcp0@pp_rank:0"
                                               "@group:0@%064d"
                         : keys == BY_SGLANG ? "%064d_0_k"
                                             : "%d";
    (void)snprintf(text, sizeof text, format, 77);
    return text;
}

/* What a store says in its life: start, puts with and without a session and
 * group, an upsert, a removal, and the end of all. Group ids of SGLang are those
 * of its pages. */
static void judge_life(struct lint *lint, const struct setting *setting)
{
    static const enum mc_event_type types[] = {
        MC_EVENT_CLEARED, MC_EVENT_STORED, MC_EVENT_REMOVED,
        MC_EVENT_STORED,  MC_EVENT_STORED, MC_EVENT_REMOVED};
    struct mc_event_writer_opts opts = setting->opts;
    struct mc_event_writer *writer = NULL;
    uint8_t payload[16384];
    opts.epoch = UINT64_C(1) << 60;
    ck_assert_int_eq(mc_event_writer_create(&opts, &writer), MC_OK);
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct mc_event_record record = {.type = types[i],
                                         .event_id = i + 1,
                                         .timestamp_ms =
                                             UINT64_C(1739145600000),
                                         .tenant_id = mc_view_str("default"),
                                         .backend_id = mc_view_str("n1")};
        if (types[i] != MC_EVENT_CLEARED) {
            record.medium = mc_view_str(i % 2 ? "cpu" : "disk");
            record.object_key = mc_view_str(key_text(setting->keys));
            record.session_id = mc_view_str(i > 3 ? "agent-7" : "");
            record.group_id = mc_view_str(
                setting->keys == BY_SGLANG && i > 2 ? "sglang-hicache:77" : "");
        }
        uint8_t seq[8] = {0, 0, 0, 0, 0, 0, 0, (uint8_t)(i + 1)};
        size_t len;
        ck_assert_int_eq(mc_event_writer_batch(writer, record.timestamp_ms,
                                               &record, 1, payload,
                                               sizeof payload, &len),
                         MC_OK);
        struct mc_view frames[3] = {mc_view_str(setting->topic),
                                    mc_view_make(seq, 8),
                                    mc_view_make(payload, len)};
        ck_assert(lint_message(lint, frames, 3));
    }
    mc_event_writer_destroy(writer);
}

START_TEST(the_own_stream_is_taken_by_all_that_its_flags_allow)
{
    const struct setting *setting = &settings[_i];
    struct lint *lint = new_lint();
    judge_life(lint, setting);
    for (unsigned i = 0; i < LINT_CONSUMER_COUNT; i++) {
        struct lint_finding found = {.rule = "none"};
        struct lint_row row;
        lint_row(lint, (enum lint_consumer)i, &row);
        (void)lint_findings(lint, (enum lint_consumer)i, &found, 1);
        char verdict = "TTSRCD"[row.worst];
        ck_assert_msg(verdict == setting->verdicts[i], "%s: %s: %c, not %c: %s",
                      setting->name, lint_consumer_name((enum lint_consumer)i),
                      verdict, setting->verdicts[i], found.rule);
        ck_assert_uint_eq(row.messages, 6);
        ck_assert_uint_eq(row.events, 6);
    }
    lint_destroy(lint);
}
END_TEST

/* ---- hostile bytes ----------------------------------------------------- */

/* Cut anywhere, and with any byte another one: judged, and never read beyond its
 * end, which the sanitizers see. */
START_TEST(cut_and_changed_bytes_are_judged)
{
    json_object *rows = vectors_load_copy("lint.json");
    uint64_t random = 88172645463325252u;
    struct lint *lint = new_lint();
    uint64_t messages = 0;
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        struct vector_frames message;
        vector_frames_make(json_object_array_get_idx(rows, i), &message);
        if (message.count == 3 && message.frames[2].len > 0) {
            size_t len = message.frames[2].len;
            uint8_t *bytes = (uint8_t *)(uintptr_t)message.frames[2].data;
            for (int k = 0; k < 40; k++) {
                size_t at = (size_t)vector_random(&random, len);
                uint8_t kept = bytes[at];
                bytes[at] = (uint8_t)vector_random(&random, 256);
                message.frames[2].len = len - (size_t)(k % 2) * at;
                ck_assert(lint_message(lint, message.frames, 3));
                bytes[at] = kept;
                messages++;
            }
            message.frames[2].len = len;
        }
        vector_frames_free(&message);
    }
    ck_assert_uint_gt(messages, 3000);
    ck_assert_uint_eq(row_of(lint, "llm-d").messages, messages);
    ck_assert_uint_gt(row_of(lint, "dynamo-hicache").taken, 10);
    lint_destroy(lint);
    json_object_put(rows);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lint");
    TCase *rules = tcase_create("rules");
    tcase_add_test(rules, each_rule_is_broken_alone_by_some_message);
    tcase_add_test(rules, names_are_there_once_each);
    tcase_add_test(rules,
                   messages_and_events_are_counted_and_the_first_place_is_kept);
    tcase_add_loop_test(rules,
                        the_own_stream_is_taken_by_all_that_its_flags_allow, 0,
                        SETTINGS);
    suite_add_tcase(suite, rules);
    TCase *bounds = tcase_create("bounds");
    tcase_set_timeout(bounds, 0);
    tcase_add_test(bounds, what_has_too_many_values_is_told_and_not_judged);
    tcase_add_test(bounds, without_memory_nothing_is_judged);
    tcase_add_test(bounds, cut_and_changed_bytes_are_judged);
    suite_add_tcase(suite, bounds);
    return suite_run(suite);
}
