/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that are engines: what their events do to the index, what is lost
 * with them, and what is said of it. */
#include <inttypes.h>
#include <msgpack.h>
#include <stdio.h>

#include "alloc_fail.h"
#include "event_message.h"
#include "mc_subscriber.h"
#include "suite.h"

#define LOG_MAX 8192
#define NONE UINT64_MAX
#define HASHES_MAX 8

/* Sources 0 and 1 are workers w0 and w1, source 2 is a store. */
struct rig {
    struct mc_index *index;
    struct mc_index_reader *reader;
    struct mc_subscriber *subscriber;
    msgpack_sbuffer events;
    uint32_t count;
    size_t log_len;
    char log[LOG_MAX];
};

static void say(struct rig *rig, const char *sign, const char *text)
{
    int len = snprintf(rig->log + rig->log_len, LOG_MAX - rig->log_len, "%s%s ",
                       sign, text);
    ck_assert_int_gt(len, 0);
    rig->log_len += (size_t)len;
    ck_assert_uint_lt(rig->log_len, LOG_MAX);
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct rig *rig = ctx;
    const struct mc_engine_event *engine = delivery->engine;
    say(rig, mc_event_type_name(delivery->event->type), "");
    ck_assert(!delivery->replaces);
    ck_assert(!engine == (delivery->source == 2));
    if (engine) {
        ck_assert_int_eq(engine->type, delivery->event->type);
        ck_assert_uint_eq(engine->index, delivery->event->index);
        ck_assert(mc_view_equal(engine->medium, delivery->event->medium));
        ck_assert(
            mc_view_equal(engine->session_id, delivery->event->session_id));
        ck_assert_ptr_null(delivery->event->object_key.data);
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    const char *why = signal->type == MC_SIGNAL_DEGRADED
                          ? mc_event_error_name(signal->reason)
                          : "";
    say(ctx, mc_signal_name(signal->type), why);
}

static void fill_opts(struct mc_source_opts *sources)
{
    memset(sources, 0, 3 * sizeof *sources);
    sources[0].profile = MC_PROFILE_ENGINE;
    sources[0].worker = "w0";
    sources[0].dp_rank = 4;
    sources[1].profile = MC_PROFILE_ENGINE;
    sources[1].worker = "w1";
    sources[1].tenant = "blue";
}

static struct rig *rig_make(void)
{
    struct rig *rig = calloc(1, sizeof *rig);
    struct mc_source_opts sources[3];
    struct mc_index_opts index = {.max_nodes = 0};
    ck_assert_ptr_nonnull(rig);
    ck_assert_int_eq(
        mc_key_layout_parse(mc_view_str("u64"), mc_view_str(""), &index.layout),
        MC_OK);
    fill_opts(sources);
    ck_assert_int_eq(mc_index_create(&index, &rig->index), MC_OK);
    ck_assert_int_eq(mc_index_reader_create(rig->index, &rig->reader), MC_OK);
    struct mc_subscriber_opts opts = {.sources = sources,
                                      .source_count = 3,
                                      .index = rig->index,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .ctx = rig};
    ck_assert_int_eq(mc_subscriber_open(&opts, &rig->subscriber), MC_OK);
    msgpack_sbuffer_init(&rig->events);
    return rig;
}

static void rig_free(struct rig *rig)
{
    mc_subscriber_close(rig->subscriber);
    mc_index_reader_destroy(rig->reader);
    mc_index_destroy(rig->index);
    msgpack_sbuffer_destroy(&rig->events);
    free(rig);
}

/* What was said since the last time. */
static void expect(struct rig *rig, const char *log)
{
    rig->log[rig->log_len] = 0;
    ck_assert_str_eq(rig->log, log);
    rig->log_len = 0;
}

/* ---- messages ---------------------------------------------------------- */

static void pack_text(msgpack_packer *packer, const char *text)
{
    if (!text) {
        msgpack_pack_nil(packer);
        return;
    }
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

/* Of a stored event; all else zero: of nobody, on the GPU. */
struct stored {
    uint64_t parent; /* NONE: nil */
    size_t count;
    uint64_t hashes[HASHES_MAX];
    const char *medium;
    const char *session;
    const char *locality;
    uint64_t group;
    bool has_no_tokens;
};

static void pack_hashes(msgpack_packer *packer, size_t count,
                        const uint64_t *hashes)
{
    msgpack_pack_array(packer, count);
    for (size_t i = 0; i < count; i++) {
        msgpack_pack_uint64(packer, hashes[i]);
    }
}

static void put_stored(struct rig *rig, const struct stored *stored)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, &rig->events, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 8);
    pack_text(&packer, "type");
    pack_text(&packer, "BlockStored");
    pack_text(&packer, "block_hashes");
    pack_hashes(&packer, stored->count, stored->hashes);
    pack_text(&packer, "parent_block_hash");
    if (stored->parent == NONE) {
        msgpack_pack_nil(&packer);
    } else {
        msgpack_pack_uint64(&packer, stored->parent);
    }
    pack_text(&packer, "token_ids");
    pack_hashes(&packer, stored->has_no_tokens ? 0 : 2, stored->hashes);
    pack_text(&packer, "medium");
    pack_text(&packer, stored->medium);
    pack_text(&packer, "session_id");
    pack_text(&packer, stored->session);
    pack_text(&packer, "locality");
    pack_text(&packer, stored->locality);
    pack_text(&packer, "group_idx");
    msgpack_pack_uint64(&packer, stored->group);
    rig->count++;
}

static void put_removed(struct rig *rig, uint64_t hash, const char *medium,
                        uint64_t group)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, &rig->events, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, 4);
    pack_text(&packer, "BlockRemoved");
    pack_hashes(&packer, 1, &hash);
    pack_text(&packer, medium);
    msgpack_pack_uint64(&packer, group);
    rig->count++;
}

static void put_tag(struct rig *rig, const char *tag)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, &rig->events, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, 1);
    pack_text(&packer, tag);
    rig->count++;
}

static void inject(struct rig *rig, uint32_t source, uint64_t seq,
                   struct mc_view payload)
{
    uint8_t seq_bytes[8];
    mci_put_be64(seq_bytes, seq);
    struct mc_view frames[3] = {mc_view_make("", 0),
                                mc_view_make(seq_bytes, sizeof seq_bytes),
                                payload};
    ck_assert_int_eq(mc_subscriber_inject(rig->subscriber, source, frames, 3),
                     MC_OK);
}

/* Sends the events that were put; rank NONE: nil. */
static void publish(struct rig *rig, uint32_t source, uint64_t seq,
                    uint64_t rank)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, 3);
    msgpack_pack_double(&packer, 1.5);
    msgpack_pack_array(&packer, rig->count);
    (void)msgpack_sbuffer_write(&buffer, rig->events.data, rig->events.size);
    if (rank == NONE) {
        msgpack_pack_nil(&packer);
    } else {
        msgpack_pack_uint64(&packer, rank);
    }
    inject(rig, source, seq, mc_view_make(buffer.data, buffer.size));
    msgpack_sbuffer_destroy(&buffer);
    msgpack_sbuffer_clear(&rig->events);
    rig->count = 0;
}

/* The chain 1, 2, 3 of session s. */
static const struct stored chain = {
    .parent = NONE, .count = 3, .hashes = {1, 2, 3}, .session = "s"};

/* ---- questions --------------------------------------------------------- */

/* How many leading blocks of 1, 2, 3, 4 an owner holds in a tier. */
static uint64_t held(struct rig *rig, const char *tenant, const char *owner,
                     enum mc_tier tier)
{
    static const uint64_t hashes[4] = {1, 2, 3, 4};
    struct mc_index_place places[16];
    struct mc_index_match match = {.places = places, .place_capacity = 16};
    mc_index_match(rig->reader, mc_view_str(tenant), hashes, 4, &match);
    ck_assert_uint_le(match.place_count, 16);
    for (size_t i = 0; i < match.place_count; i++) {
        if (places[i].tier == tier &&
            mc_view_equal(places[i].owner, mc_view_str(owner))) {
            return places[i].blocks;
        }
    }
    return 0;
}

static uint64_t held_by_w0(struct rig *rig)
{
    return held(rig, "default", "w0/0", MC_TIER_DEVICE);
}

static uint64_t head_of(struct rig *rig, const char *session)
{
    uint64_t heads[4];
    size_t count = mc_index_heads(rig->reader, mc_view_str("default"),
                                  mc_view_str(session), heads, 4);
    ck_assert_uint_le(count, 1);
    return count == 1 ? heads[0] : 0;
}

/* ---- tests ------------------------------------------------------------- */

START_TEST(events_of_an_engine_change_what_the_index_holds)
{
    struct rig *rig = rig_make();
    put_stored(rig, &chain);
    publish(rig, 0, 0, 0);
    expect(rig, "epoch stored ");
    ck_assert_uint_eq(held_by_w0(rig), 3);
    ck_assert_uint_eq(head_of(rig, "s"), 3);
    put_stored(rig,
               &(struct stored){
                   .parent = 3, .count = 1, .hashes = {4}, .session = "t"});
    put_removed(rig, 2, "GPU", 0);
    publish(rig, 0, 1, 0);
    expect(rig, "stored removed ");
    ck_assert_uint_eq(held_by_w0(rig), 1);
    ck_assert_uint_eq(head_of(rig, "t"), 4);
    /* Two changes, and no replacement of one thing by another. */
    put_removed(rig, 1, NULL, 0);
    put_stored(rig, &chain);
    publish(rig, 0, 2, 0);
    ck_assert_uint_eq(held_by_w0(rig), 4);
    put_tag(rig, "AllBlocksCleared");
    publish(rig, 0, 3, 0);
    expect(rig, "removed stored cleared ");
    ck_assert_uint_eq(held_by_w0(rig), 0);
    ck_assert_uint_eq(head_of(rig, "s"), 3);
    rig_free(rig);
}
END_TEST

START_TEST(a_source_has_a_tenant_and_ranks_of_its_own)
{
    struct rig *rig = rig_make();
    put_stored(rig, &chain);
    publish(rig, 0, 0, NONE);
    put_stored(rig, &chain);
    publish(rig, 0, 1, 7);
    put_stored(rig, &chain);
    publish(rig, 1, 0, NONE);
    ck_assert_uint_eq(held(rig, "default", "w0/4", MC_TIER_DEVICE), 3);
    ck_assert_uint_eq(held(rig, "default", "w0/7", MC_TIER_DEVICE), 3);
    ck_assert_uint_eq(held(rig, "default", "w1/0", MC_TIER_DEVICE), 0);
    ck_assert_uint_eq(held(rig, "blue", "w1/0", MC_TIER_DEVICE), 3);
    /* What is cleared is one rank's. */
    put_tag(rig, "AllBlocksCleared");
    publish(rig, 0, 2, 7);
    ck_assert_uint_eq(held(rig, "default", "w0/4", MC_TIER_DEVICE), 3);
    ck_assert_uint_eq(held(rig, "default", "w0/7", MC_TIER_DEVICE), 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_medium_is_a_tier_in_any_spelling)
{
    static const struct {
        const char *medium;
        enum mc_tier tier;
    } rows[] = {
        {NULL, MC_TIER_DEVICE},       {"GPU", MC_TIER_DEVICE},
        {"gpu", MC_TIER_DEVICE},      {"CPU", MC_TIER_HOST},
        {"CPU_PINNED", MC_TIER_HOST}, {"cpu_pinned", MC_TIER_HOST},
        {"DISK", MC_TIER_DISK},       {"EXTERNAL", MC_TIER_EXTERNAL},
    };
    struct rig *rig = rig_make();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stored stored = chain;
        stored.medium = rows[i].medium;
        put_stored(rig, &stored);
        publish(rig, 0, 3 * i, 0);
        ck_assert_uint_eq(held(rig, "default", "w0/0", rows[i].tier), 3);
        put_removed(rig, 3, rows[i].medium, 0);
        publish(rig, 0, 3 * i + 1, 0);
        ck_assert_uint_eq(held(rig, "default", "w0/0", rows[i].tier), 2);
        put_tag(rig, "AllBlocksCleared");
        publish(rig, 0, 3 * i + 2, 0);
    }
    rig_free(rig);
}
END_TEST

START_TEST(the_index_is_not_told_of_what_is_elsewhere)
{
    static const struct stored others[] = {{.medium = "TAPE"},
                                           {.locality = "REMOTE"},
                                           {.locality = ""},
                                           {.group = 1}};
    struct rig *rig = rig_make();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct stored stored = others[i];
        stored.parent = NONE;
        stored.count = 3;
        memcpy(stored.hashes, chain.hashes, sizeof stored.hashes);
        put_stored(rig, &stored);
        publish(rig, 0, i, 0);
    }
    expect(rig, "epoch stored stored stored stored ");
    struct mc_index_stats stats;
    mc_index_stats(rig->index, &stats);
    ck_assert_uint_eq(stats.nodes, 0);
    struct stored local = chain;
    local.locality = "LOCAL";
    put_stored(rig, &local);
    put_removed(rig, 1, "GPU", 1);
    publish(rig, 0, 4, 0);
    ck_assert_uint_eq(held_by_w0(rig), 3);
    rig_free(rig);
}
END_TEST

START_TEST(blocks_without_tokens_say_nothing_about_what_precedes_them)
{
    struct rig *rig = rig_make();
    struct mc_index_stats stats;
    put_stored(rig, &(struct stored){.parent = NONE,
                                     .count = 3,
                                     .hashes = {3, 2, 1},
                                     .medium = "CPU",
                                     .has_no_tokens = true});
    publish(rig, 0, 0, 0);
    ck_assert_uint_eq(held(rig, "default", "w0/0", MC_TIER_HOST), 3);
    bool is_rooted = true;
    uint64_t found[4];
    ck_assert_uint_eq(mc_index_chain(rig->reader, mc_view_str("default"), 2,
                                     found, 4, &is_rooted),
                      1);
    ck_assert(!is_rooted);
    /* So the chain that comes later is no contradiction. */
    put_stored(rig, &chain);
    publish(rig, 0, 1, 0);
    mc_index_stats(rig->index, &stats);
    ck_assert_uint_eq(stats.conflicting_parents + stats.cyclic_parents, 0);
    ck_assert_uint_eq(mc_index_chain(rig->reader, mc_view_str("default"), 3,
                                     found, 4, &is_rooted),
                      3);
    ck_assert(is_rooted);
    ck_assert_uint_eq(head_of(rig, "s"), 3);
    rig_free(rig);
}
END_TEST

START_TEST(after_a_gap_all_ranks_of_the_source_are_gone_and_no_others)
{
    struct rig *rig = rig_make();
    for (uint64_t seq = 0; seq < 2; seq++) {
        put_stored(rig, &chain);
        publish(rig, 0, seq, seq);
    }
    put_stored(rig, &chain);
    publish(rig, 1, 5, 0);
    expect(rig, "epoch stored stored epoch stored ");
    put_stored(rig,
               &(struct stored){.parent = NONE, .count = 1, .hashes = {1}});
    publish(rig, 0, 3, 0);
    expect(rig, "gap stale stored ");
    ck_assert_uint_eq(held_by_w0(rig), 1);
    ck_assert_uint_eq(held(rig, "default", "w0/1", MC_TIER_DEVICE), 0);
    ck_assert_uint_eq(held(rig, "blue", "w1/0", MC_TIER_DEVICE), 3);
    ck_assert_uint_eq(head_of(rig, "s"), 3);
    struct mc_source_stats stats;
    mc_subscriber_stats(rig->subscriber, 0, &stats);
    ck_assert_uint_eq(stats.lost_seqs, 1);
    ck_assert_uint_eq(stats.gaps, 1);
    ck_assert_uint_eq(stats.stored, 3);
    ck_assert_uint_eq(stats.mirror_entries, 0);
    ck_assert_uint_eq(stats.span_ids,
                      stats.events + stats.refused_ids + stats.lost_ids);
    rig_free(rig);
}
END_TEST

START_TEST(an_event_seen_twice_is_told_once)
{
    struct rig *rig = rig_make();
    put_stored(rig, &chain);
    publish(rig, 0, 0, 0);
    put_removed(rig, 3, NULL, 0);
    publish(rig, 0, 1, 0);
    /* Behind, and the next message does not go on from it. */
    put_stored(rig, &chain);
    publish(rig, 0, 0, 0);
    put_removed(rig, 2, NULL, 0);
    publish(rig, 0, 2, 0);
    expect(rig, "epoch stored removed removed ");
    ck_assert_uint_eq(held_by_w0(rig), 1);
    rig_free(rig);
}
END_TEST

START_TEST(an_engine_that_starts_again_is_followed_from_its_first_message)
{
    struct rig *rig = rig_make();
    put_stored(rig, &chain);
    publish(rig, 0, 40, 0);
    put_stored(rig,
               &(struct stored){.parent = NONE, .count = 1, .hashes = {1}});
    publish(rig, 0, 0, 0);
    expect(rig, "epoch stored ");
    put_stored(rig, &(struct stored){.parent = 1, .count = 1, .hashes = {2}});
    publish(rig, 0, 1, 0);
    expect(rig, "epoch stale stored stored ");
    ck_assert_uint_eq(held_by_w0(rig), 2);
    rig_free(rig);
}
END_TEST

START_TEST(a_refused_event_costs_what_was_known_and_its_neighbours_count)
{
    struct rig *rig = rig_make();
    put_stored(rig, &chain);
    publish(rig, 0, 0, 0);
    put_removed(rig, 3, NULL, 0);
    put_tag(rig, "BlockMigrated");
    put_stored(rig,
               &(struct stored){.parent = NONE, .count = 2, .hashes = {1, 2}});
    publish(rig, 0, 1, 0);
    expect(rig,
           "epoch stored removed degradedevent_type_unknown stale stored ");
    ck_assert_uint_eq(held_by_w0(rig), 2);
    /* A message of a store is none of an engine, and the other way round. */
    inject(rig, 0, 2, mc_view_str("\x93\x01\x90\xa1x"));
    expect(rig, "degradeddp_rank_type stale ");
    ck_assert_uint_eq(held_by_w0(rig), 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_store_beside_an_engine_is_read_as_ever)
{
    static struct event_message message;
    struct rig *rig = rig_make();
    memset(&message, 0, sizeof message);
    message.seq = 1;
    message.epoch = 9;
    event_message_stored(&message, 1, "1", "s");
    event_message_frames(&message);
    ck_assert_int_eq(
        mc_subscriber_inject(rig->subscriber, 2, message.frames, 3), MC_OK);
    put_stored(rig, &chain);
    publish(rig, 0, 0, 0);
    put_stored(rig, &chain);
    publish(rig, 0, 9, 0);
    expect(rig, "epoch stored epoch stored gap stale stored ");
    ck_assert_uint_eq(held(rig, "default", "store:n1", MC_TIER_EXTERNAL), 1);
    ck_assert_uint_eq(mc_subscriber_mirror_count(rig->subscriber), 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_stream_that_makes_up_ranks_is_dropped_and_begins_anew)
{
    struct rig *rig = rig_make();
    for (uint64_t seq = 0; seq < 257; seq++) {
        put_stored(rig, &chain);
        publish(rig, 0, seq, seq);
    }
    ck_assert_ptr_nonnull(strstr(rig->log, "stale stored "));
    ck_assert_uint_eq(held_by_w0(rig), 0);
    ck_assert_uint_eq(held(rig, "default", "w0/255", MC_TIER_DEVICE), 0);
    ck_assert_uint_eq(held(rig, "default", "w0/256", MC_TIER_DEVICE), 3);
    rig_free(rig);
}
END_TEST

START_TEST(names_that_the_index_would_not_take_are_refused)
{
    char name[258];
    struct mc_source_opts sources[3];
    struct mc_subscriber_opts opts = {.sources = sources, .source_count = 3};
    struct mc_subscriber *subscriber = NULL;
    memset(name, 'x', sizeof name - 1);
    name[257] = 0;
    const char *const workers[] = {NULL, "", "a:b", "a/b", name};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        fill_opts(sources);
        sources[0].worker = workers[i];
        ck_assert_int_eq(mc_subscriber_open(&opts, &subscriber),
                         MC_ERR_INVALID_PARAMS);
    }
    const char *const tenants[] = {"", name};
    for (size_t i = 0; i < sizeof tenants / sizeof *tenants; i++) {
        fill_opts(sources);
        sources[1].tenant = tenants[i];
        ck_assert_int_eq(mc_subscriber_open(&opts, &subscriber),
                         MC_ERR_INVALID_PARAMS);
    }
    fill_opts(sources);
    sources[0].profile = (enum mc_source_profile)2;
    ck_assert_int_eq(mc_subscriber_open(&opts, &subscriber),
                     MC_ERR_INVALID_PARAMS);
    fill_opts(sources);
    name[256] = 0;
    sources[0].worker = name;
    sources[0].tenant = name;
    ck_assert_int_eq(mc_subscriber_open(&opts, &subscriber), MC_OK);
    mc_subscriber_close(subscriber);
}
END_TEST

START_TEST(opening_without_memory_leaves_nothing_behind)
{
    struct mc_source_opts sources[3];
    struct mc_subscriber_opts opts = {
        .sources = sources, .source_count = 3, .max_message_events = 16};
    struct alloc_fail fail = {0};
    fill_opts(sources);
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_subscriber *subscriber = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_subscriber_open(&opts, &subscriber);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mc_subscriber_close(subscriber);
    }
    ck_assert_uint_gt(fail.k, 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_source");
    TCase *index = tcase_create("index");
    tcase_add_test(index, events_of_an_engine_change_what_the_index_holds);
    tcase_add_test(index, a_source_has_a_tenant_and_ranks_of_its_own);
    tcase_add_test(index, a_medium_is_a_tier_in_any_spelling);
    tcase_add_test(index, the_index_is_not_told_of_what_is_elsewhere);
    tcase_add_test(index,
                   blocks_without_tokens_say_nothing_about_what_precedes_them);
    suite_add_tcase(suite, index);
    TCase *losses = tcase_create("losses");
    tcase_add_test(losses,
                   after_a_gap_all_ranks_of_the_source_are_gone_and_no_others);
    tcase_add_test(losses, an_event_seen_twice_is_told_once);
    tcase_add_test(
        losses, an_engine_that_starts_again_is_followed_from_its_first_message);
    tcase_add_test(
        losses, a_refused_event_costs_what_was_known_and_its_neighbours_count);
    tcase_add_test(losses, a_store_beside_an_engine_is_read_as_ever);
    tcase_add_test(losses,
                   a_stream_that_makes_up_ranks_is_dropped_and_begins_anew);
    suite_add_tcase(suite, losses);
    TCase *opening = tcase_create("opening");
    tcase_add_test(opening, names_that_the_index_would_not_take_are_refused);
    tcase_add_test(opening, opening_without_memory_leaves_nothing_behind);
    suite_add_tcase(suite, opening);
    return suite_run(suite);
}
