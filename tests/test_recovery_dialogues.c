/* SPDX-License-Identifier: Apache-2.0 */
/* test_recovery_dialogues.c - golden dialogues, made by another library: what is
 * heard and said, byte by byte. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "mci_clock.h"
#include "recovery.h"
#include "suite.h"
#include "vectors.h"

#define EPOCH UINT64_C(0x19aca4b2f0a1c3d7)
#define WALL_MS UINT64_C(1739145600000)
#define ROWS_MAX 16

/* The store of one dialogue: all its rows in one slice. */
struct store {
    json_object *rows;
    uint64_t last_id;
    struct mc_event_record records[ROWS_MAX];
};

static struct mc_view text_of(json_object *row, const char *name)
{
    json_object *value = json_object_object_get(row, name);
    return value ? mc_view_make(json_object_get_string(value),
                                (size_t)json_object_get_string_len(value))
                 : mc_view_make(NULL, 0);
}

static enum mc_err begin(void *ctx, struct mc_view tenant,
                         uint64_t *first_id_out)
{
    if (mc_view_equal(tenant, mc_view_str("nobody"))) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_MODE;
    }
    *first_id_out = ((const struct store *)ctx)->last_id;
    return MC_OK;
}

static enum mc_err next(void *ctx, struct mc_view tenant,
                        struct mci_snapshot_cursor *cursor,
                        struct mci_snapshot_rows *rows_out)
{
    struct store *store = ctx;
    size_t count = 0;
    size_t rows = json_object_array_length(store->rows);
    ck_assert_uint_le(rows, ROWS_MAX);
    for (size_t i = 0; i < rows; i++) {
        json_object *row = json_object_array_get_idx(store->rows, i);
        if (tenant.data && !mc_view_equal(tenant, text_of(row, "tenant"))) {
            continue;
        }
        store->records[count++] =
            (struct mc_event_record){.type = MC_EVENT_STORED,
                                     .event_id = vector_number(row, "event_id"),
                                     .tenant_id = text_of(row, "tenant"),
                                     .medium = text_of(row, "medium"),
                                     .group_id = text_of(row, "group"),
                                     .session_id = text_of(row, "session"),
                                     .object_key = text_of(row, "key")};
    }
    cursor->at_end = true;
    *rows_out = (struct mci_snapshot_rows){store->records, count};
    return MC_OK;
}

static uint64_t last_id(void *ctx)
{
    return ((const struct store *)ctx)->last_id;
}

static uint64_t keys(void *ctx)
{
    return json_object_array_length(((const struct store *)ctx)->rows);
}

/* ---- a dialogue ---------------------------------------------------------------- */

struct dialogue {
    const char *name;
    struct mci_history *history;
    struct mc_event_writer *writer;
    struct mci_recovery *recovery;
    struct store store;
    uint64_t now_ns;
};

static void keep(struct dialogue *dialogue, uint64_t seq, json_object *row)
{
    struct vector_frames frames;
    json_object *wrapped = json_object_new_object();
    json_object *list = json_object_new_array();
    json_object_array_add(
        list, json_object_get(json_object_object_get(row, "payload")));
    json_object_object_add(wrapped, "frames", list);
    vector_frames_make(wrapped, &frames);
    ck_assert_int_eq(mci_history_add(dialogue->history, seq, frames.frames[0]),
                     MC_OK);
    vector_frames_free(&frames);
    json_object_put(wrapped);
}

static void open_dialogue(struct dialogue *dialogue, json_object *row)
{
    static const struct mci_snapshot_source source = {begin, next, last_id,
                                                      keys};
    const struct mc_event_writer_opts writer = {.epoch = EPOCH};
    *dialogue = (struct dialogue){
        .name = vector_string(row, "name"),
        .now_ns = 1,
        .store = {.rows = json_object_object_get(row, "store"),
                  .last_id = vector_number(row, "last_id")}};
    ck_assert_int_eq(mci_history_create((uint32_t)vector_number(row, "ring"), 0,
                                        &dialogue->history),
                     MC_OK);
    ck_assert_int_eq(mc_event_writer_create(&writer, &dialogue->writer), MC_OK);
    const struct mci_recovery_opts opts = {
        .history = dialogue->history,
        .source = &source,
        .ctx = &dialogue->store,
        .writer = dialogue->writer,
        .backend_id = mc_view_str("n1"),
        .topic = mc_view_str("t@m"),
        .epoch = EPOCH,
        .max_bytes = 49152,
        .layout = (unsigned)vector_number(row, "layout")};
    ck_assert_int_eq(mci_recovery_create(&opts, &dialogue->recovery), MC_OK);
    json_object *history = json_object_object_get(row, "history");
    for (size_t i = 0; i < json_object_array_length(history); i++) {
        json_object *kept = json_object_array_get_idx(history, i);
        keep(dialogue, vector_number(kept, "seq"), kept);
    }
}

static void close_dialogue(struct dialogue *dialogue)
{
    mci_recovery_destroy(dialogue->recovery);
    mc_event_writer_destroy(dialogue->writer);
    mci_history_destroy(dialogue->history);
}

static void expect(struct dialogue *dialogue, size_t at, json_object *step,
                   const char *peer, enum mci_recovery_outcome outcome)
{
    struct mci_recovery_message message;
    struct vector_frames want;
    vector_frames_make(step, &want);
    ck_assert_msg(mci_recovery_next(dialogue->recovery, dialogue->now_ns,
                                    WALL_MS, &message),
                  "%s: step %zu: silence", dialogue->name, at);
    ck_assert_msg(mc_view_equal(message.frames[0], mc_view_str(peer)),
                  "%s: step %zu: another peer", dialogue->name, at);
    ck_assert_msg(message.count == want.count + 1,
                  "%s: step %zu: %zu frames, not %zu", dialogue->name, at,
                  message.count - 1, want.count);
    for (size_t i = 0; i < want.count; i++) {
        ck_assert_msg(mc_view_equal(message.frames[i + 1], want.frames[i]),
                      "%s: step %zu: frame %zu differs", dialogue->name, at, i);
    }
    mci_recovery_told(dialogue->recovery, outcome, dialogue->now_ns);
    vector_frames_free(&want);
}

static void hear(struct dialogue *dialogue, json_object *step, const char *peer)
{
    struct vector_frames heard;
    vector_frames_make(step, &heard);
    mci_recovery_hear(dialogue->recovery, mc_view_str(peer), heard.frames,
                      heard.count, dialogue->now_ns);
    vector_frames_free(&heard);
}

static void play(struct dialogue *dialogue, size_t at, json_object *step)
{
    struct mci_recovery_message message;
    const char *peer;
    if ((peer = vector_string(step, "heard"))) {
        hear(dialogue, step, peer);
    } else if ((peer = vector_string(step, "sent"))) {
        expect(dialogue, at, step, peer, MCI_RECOVERY_SENT);
    } else if ((peer = vector_string(step, "blocked"))) {
        expect(dialogue, at, step, peer, MCI_RECOVERY_BLOCKED);
    } else if ((peer = vector_string(step, "gone"))) {
        expect(dialogue, at, step, peer, MCI_RECOVERY_GONE);
    } else if (vector_string(step, "silence")) {
        ck_assert_msg(!mci_recovery_next(dialogue->recovery, dialogue->now_ns,
                                         WALL_MS, &message),
                      "%s: step %zu: no silence", dialogue->name, at);
    } else if (vector_string(step, "keep")) {
        keep(dialogue, vector_number(step, "keep"), step);
    } else if (vector_string(step, "pass_ms")) {
        dialogue->now_ns += vector_number(step, "pass_ms") * MCI_NS_PER_MS;
    } else {
        ck_assert_ptr_nonnull(vector_string(step, "last_id"));
        dialogue->store.last_id = vector_number(step, "last_id");
    }
}

static void hold(json_object *row)
{
    struct dialogue dialogue;
    json_object *steps = json_object_object_get(row, "steps");
    open_dialogue(&dialogue, row);
    for (size_t i = 0; i < json_object_array_length(steps); i++) {
        play(&dialogue, i, json_object_array_get_idx(steps, i));
    }
    close_dialogue(&dialogue);
}

START_TEST(dialogues_are_held_to_the_byte)
{
    json_object *dialogues = vectors_load_copy("recovery.json");
    size_t count = json_object_array_length(dialogues);
    ck_assert_uint_gt(count, 40);
    for (size_t i = 0; i < count; i++) {
        hold(json_object_array_get_idx(dialogues, i));
    }
    json_object_put(dialogues);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recovery_dialogues");
    TCase *tc = tcase_create("dialogues");
    tcase_add_test(tc, dialogues_are_held_to_the_byte);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
