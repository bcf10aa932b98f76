/* SPDX-License-Identifier: Apache-2.0 */
/* test_recovery_walk.c - snapshots: what they say, who shares a walk, and who is
 * left behind; and the status. */
#include "alloc_fail.h"
#include "recovery_map.h"
#include "recovery_rig.h"
#include "suite.h"

#define KEYS_MAX 40000

static struct recovery_rig rig;

static void open_rig(uint64_t keys)
{
    rig_open_recovery(&rig, rig_recovery_opts(), 0);
    rig.keys = keys;
    rig.last_id = keys;
}

/* A reader of a snapshot, which looks at what it gets. */
struct snapshot {
    const char *peer;
    uint64_t next_index;
    uint64_t first_id;
    uint64_t last_id;
    uint64_t tail_seq;
    uint64_t rows;
    uint64_t twice;
    bool has_begun;
    bool has_ended;
    bool is_refused;
    uint8_t seen[KEYS_MAX];
};

static void read_rows(struct snapshot *snapshot, struct mc_view payload)
{
    static struct mc_event events[MC_BATCH_EVENTS_MAX];
    const struct mc_view frames[] = {
        mc_view_str(""), mc_view_make("\0\0\0\0\0\0\0\1", 8), payload};
    struct mc_event_batch batch;
    ck_assert_int_eq(
        mc_event_read(frames, 3, events, MC_BATCH_EVENTS_MAX, &batch, NULL),
        MC_EVENT_OK);
    ck_assert_uint_gt(batch.count, 0);
    ck_assert_uint_eq(batch.refused, 0);
    ck_assert_uint_eq(batch.timestamp_ms, RECOVERY_RIG_WALL_MS);
    for (uint32_t i = 0; i < batch.count; i++) {
        const struct mc_event *event = &events[i];
        char want[24];
        (void)snprintf(want, sizeof want, "k%" PRIu64, event->event_id - 1);
        ck_assert_int_eq(event->type, MC_EVENT_STORED);
        ck_assert(mc_view_equal(event->object_key, mc_view_str(want)));
        ck_assert(mc_view_equal(event->backend_id, mc_view_str("n1")));
        ck_assert(mc_view_equal(event->session_id, mc_view_str("s")));
        ck_assert_uint_eq(event->epoch, RECOVERY_RIG_EPOCH);
        ck_assert_uint_lt(event->event_id, KEYS_MAX);
        snapshot->twice += snapshot->seen[event->event_id];
        snapshot->rows += !snapshot->seen[event->event_id];
        snapshot->seen[event->event_id] = 1;
    }
}

static void take(struct snapshot *snapshot,
                 const struct mci_recovery_message *message)
{
    ck_assert(!snapshot->has_ended);
    if (rig_is_end(message)) {
        snapshot->is_refused = true;
        return;
    }
    ck_assert(mc_view_equal(message->frames[2], mc_view_str("snapshot")));
    ck_assert_uint_eq(mci_get_be64(message->frames[3].data),
                      snapshot->next_index++);
    struct mc_view payload = message->frames[4];
    if (message->count == 6) {
        ck_assert_uint_eq(message->frames[5].len, 0);
        ck_assert_uint_eq(map_number(payload, "epoch"), RECOVERY_RIG_EPOCH);
        snapshot->last_id = map_number(payload, "last_id");
        snapshot->has_ended = true;
    } else if (!snapshot->has_begun) {
        ck_assert_uint_eq(map_number(payload, "epoch"), RECOVERY_RIG_EPOCH);
        snapshot->first_id = map_number(payload, "first_id");
        snapshot->tail_seq = map_number(payload, "tail_seq");
        snapshot->has_begun = true;
    } else {
        read_rows(snapshot, payload);
    }
}

static struct snapshot *find(struct snapshot *readers, size_t count,
                             const struct mci_recovery_message *message)
{
    for (size_t i = 0; i < count; i++) {
        if (rig_is_for(message, readers[i].peer)) {
            return &readers[i];
        }
    }
    ck_abort_msg("a message for nobody");
    return NULL;
}

/* Gives out what there is now; `stuck` (may be NULL) takes nothing. */
static void run(struct snapshot *readers, size_t count,
                const struct snapshot *stuck)
{
    struct mci_recovery_message message;
    while (rig_give(&rig, &message)) {
        struct snapshot *reader = find(readers, count, &message);
        if (reader == stuck) {
            rig_tell(&rig, MCI_RECOVERY_BLOCKED);
        } else {
            take(reader, &message);
            rig_tell(&rig, MCI_RECOVERY_SENT);
        }
    }
}

static struct snapshot readers[4];

static void name_readers(void)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    memset(readers, 0, sizeof readers);
    for (int i = 0; i < 4; i++) {
        readers[i].peer = names[i];
    }
}

START_TEST(snapshot_names_each_key_once_between_two_ids)
{
    const uint64_t keys[] = {0, 1, 64, 65, 1000};
    name_readers();
    open_rig(keys[_i]);
    rig_keep(&rig, 1, 7);
    rig_ask_word(&rig, "a", "snapshot");
    struct mci_recovery_message message;
    ck_assert(rig_give(&rig, &message));
    take(&readers[0], &message);
    rig_tell(&rig, MCI_RECOVERY_SENT);
    rig.last_id += 5; /* writers go on */
    run(readers, 1, NULL);
    ck_assert(readers[0].has_ended);
    ck_assert_uint_eq(readers[0].rows, keys[_i]);
    ck_assert_uint_eq(readers[0].twice, 0);
    ck_assert_uint_eq(readers[0].first_id, keys[_i]);
    ck_assert_uint_eq(readers[0].last_id, keys[_i] + 5);
    ck_assert_uint_eq(readers[0].tail_seq, 7);
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(many_slices_without_keys_are_walked_over)
{
    name_readers();
    open_rig(3);
    rig.slice = 0;
    rig_ask_word(&rig, "a", "snapshot");
    for (int i = 0; i < 5; i++) { /* what is asked again and again is bounded */
        run(readers, 1, NULL);
        rig.now_ns += MCI_RECOVERY_PATIENCE_NS - 1;
    }
    ck_assert(!readers[0].has_ended);
    ck_assert_uint_ge(rig.slices, 5 * 64);
    rig.slice = 1;
    run(readers, 1, NULL);
    ck_assert(readers[0].has_ended);
    ck_assert_uint_eq(readers[0].rows, 3);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(those_who_asked_before_it_began_share_a_walk)
{
    name_readers();
    open_rig(1000);
    for (int i = 0; i < 3; i++) {
        rig_ask_word(&rig, readers[i].peer, "snapshot");
    }
    run(readers, 3, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert(readers[i].has_ended);
        ck_assert_uint_eq(readers[i].rows, 1000);
    }
    ck_assert_uint_eq(rig.begins, 1);
    ck_assert_uint_eq(rig.slices, 10);
    ck_assert_uint_eq(rig_recovery_stats(&rig).walks, 1);
    /* The beginning and two messages a slice each; the end is none of these. */
    ck_assert_uint_eq(rig_recovery_stats(&rig).parts, 3 * (1 + 2 * 10));
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(who_asks_during_a_walk_gets_one_of_its_own)
{
    struct mci_recovery_message message;
    name_readers();
    open_rig(1000);
    for (int i = 0; i < 4; i++) { /* the third finds two walks under way */
        rig_ask_word(&rig, readers[i].peer, "snapshot");
        for (int turn = 0; turn < 4; turn++) {
            ck_assert(rig_give(&rig, &message));
            take(find(readers, 4, &message), &message);
            rig_tell(&rig, MCI_RECOVERY_SENT);
        }
    }
    ck_assert_uint_eq(rig_recovery_stats(&rig).walks, 2);
    ck_assert_uint_eq(rig_recovery_stats(&rig).waiting, 2);
    run(readers, 4, NULL);
    for (int i = 0; i < 4; i++) {
        ck_assert(readers[i].has_ended);
        ck_assert_uint_eq(readers[i].rows, 1000);
    }
    ck_assert_uint_eq(rig_recovery_stats(&rig).walks,
                      3); /* the last two share */
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(tenants_have_walks_of_their_own)
{
    name_readers();
    open_rig(10);
    rig_ask_tenant(&rig, "a", "x");
    rig_ask_tenant(&rig, "b", "y");
    rig_ask_tenant(&rig, "c", "x");
    rig_ask_word(&rig, "d", "snapshot");
    run(readers, 4, NULL);
    for (int i = 0; i < 4; i++) {
        ck_assert(readers[i].has_ended);
        ck_assert_uint_eq(readers[i].rows, 10);
    }
    ck_assert_uint_eq(rig_recovery_stats(&rig).walks, 3);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(tenant_that_cannot_be_is_end)
{
    name_readers();
    open_rig(10);
    rig_ask_tenant(&rig, "a", "nobody");
    run(readers, 1, NULL);
    ck_assert(readers[0].is_refused);
    ck_assert_uint_eq(rig_recovery_stats(&rig).refused, 1);
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(slow_reader_is_left_behind_and_goes_on_by_itself)
{
    name_readers();
    open_rig(KEYS_MAX - 1);
    rig_ask_word(&rig, "a", "snapshot");
    rig_ask_word(&rig, "b", "snapshot");
    uint64_t began_ns = rig.now_ns;
    struct mci_recovery_message message;
    for (int i = 0; i < 20; i++) { /* b gets a little */
        ck_assert(rig_give(&rig, &message));
        take(find(readers, 2, &message), &message);
        rig_tell(&rig, MCI_RECOVERY_SENT);
    }
    ck_assert_uint_gt(readers[1].rows, 0);
    while (!readers[0].has_ended) {
        run(readers, 2, &readers[1]);
        rig.now_ns += MCI_RECOVERY_RETRY_NS;
        ck_assert_uint_lt(rig.now_ns - began_ns, 5 * MCI_RECOVERY_LAG_NS);
    }
    ck_assert_uint_eq(readers[0].rows, KEYS_MAX - 1);
    ck_assert_uint_eq(readers[0].twice, 0);
    ck_assert(!readers[1].has_ended);
    ck_assert_uint_eq(rig_recovery_stats(&rig).walks, 2);
    rig.now_ns += MCI_RECOVERY_RETRY_MAX_NS;
    run(readers, 2, NULL);
    ck_assert(readers[1].has_ended);
    ck_assert_uint_eq(readers[1].rows, KEYS_MAX - 1);
    ck_assert_uint_lt(readers[1].twice, 2 * rig.slice);
    ck_assert_uint_eq(readers[1].first_id, readers[0].first_id);
    ck_assert_uint_eq(rig_recovery_stats(&rig).given_up, 0);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(reader_that_took_nothing_begins_anew_when_left_behind)
{
    name_readers();
    open_rig(KEYS_MAX - 1);
    rig_ask_word(&rig, "a", "snapshot");
    rig_ask_word(&rig, "b", "snapshot");
    while (!readers[0].has_ended) {
        run(readers, 2, &readers[1]);
        rig.now_ns += MCI_RECOVERY_RETRY_NS;
    }
    rig.last_id += 3;
    rig.now_ns += MCI_RECOVERY_RETRY_MAX_NS;
    run(readers, 2, NULL);
    ck_assert(readers[1].has_ended);
    ck_assert_uint_eq(readers[1].rows, KEYS_MAX - 1);
    ck_assert_uint_eq(readers[1].twice, 0);
    ck_assert_uint_eq(rig.begins, 2);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(readers_that_vanish_end_their_walk)
{
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    struct mci_recovery_message message;
    open_rig(1000);
    mci_alloc_stats(&before);
    rig_ask_word(&rig, "a", "snapshot");
    rig_ask_word(&rig, "b", "snapshot");
    for (int i = 0; i < 6; i++) {
        ck_assert(rig_give(&rig, &message));
        rig_tell(&rig, MCI_RECOVERY_SENT);
    }
    while (rig_give(&rig, &message)) {
        rig_tell(&rig, MCI_RECOVERY_GONE);
    }
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
    rig_ask_word(&rig, "c", "snapshot"); /* and is left open at the end */
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_SENT);
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(store_that_is_out_of_memory_is_asked_again)
{
    struct mci_recovery_message message;
    name_readers();
    open_rig(200);
    rig_ask_word(&rig, "a", "snapshot");
    rig.next_err = MC_ERR_NOMEM;
    run(readers, 1, NULL);
    ck_assert(!rig_give(&rig, &message));
    ck_assert_uint_eq(mci_recovery_wake_at(rig.recovery),
                      rig.now_ns + MCI_RECOVERY_RETRY_NS);
    rig.next_err = MC_OK;
    rig.now_ns += MCI_RECOVERY_RETRY_NS;
    run(readers, 1, NULL);
    ck_assert(readers[0].has_ended);
    ck_assert_uint_eq(readers[0].rows, 200);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(each_allocation_may_fail_without_a_key_missing)
{
    struct alloc_fail fail;
    open_rig(150);
    rig.slice = 150; /* several messages of one slice */
    ALLOC_FAIL_EACH(fail)
    {
        name_readers();
        alloc_fail_arm(&fail);
        rig_ask_word(&rig, "a", "snapshot");
        while (!readers[0].has_ended && !readers[0].is_refused) {
            run(readers, 1, NULL);
            rig.now_ns += MCI_RECOVERY_RETRY_NS;
        }
        alloc_fail_disarm(&fail);
        ck_assert(readers[0].is_refused || readers[0].rows == 150);
        ck_assert(!readers[0].is_refused || alloc_fail_happened(&fail));
        ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
    }
    ck_assert_uint_gt(fail.k, 6);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(settings_that_suppress_keys_leave_an_empty_snapshot)
{
    struct mci_recovery_opts opts = rig_recovery_opts();
    name_readers();
    opts.no_rows = true;
    rig_open_recovery(&rig, opts, 0);
    rig.keys = 100;
    rig.last_id = 100;
    rig_ask_word(&rig, "a", "snapshot");
    run(readers, 1, NULL);
    ck_assert(readers[0].has_ended);
    ck_assert_uint_eq(readers[0].rows, 0);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(messages_stay_under_their_bytes)
{
    struct mci_recovery_opts opts = rig_recovery_opts();
    struct mci_recovery_message message;
    opts.max_bytes = 8192;
    rig_open_recovery(&rig, opts, 0);
    rig.keys = 1000;
    rig_ask_word(&rig, "a", "snapshot");
    unsigned messages = 0;
    while (rig_give(&rig, &message)) {
        ck_assert_uint_le(message.frames[4].len, 8192);
        messages++;
        rig_tell(&rig, MCI_RECOVERY_SENT);
    }
    ck_assert_uint_gt(messages, 40);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(status_tells_where_the_stream_stands)
{
    struct mci_recovery_message message;
    open_rig(12);
    rig_keep(&rig, 5, 9);
    rig_ask_word(&rig, "a", "status");
    ck_assert(rig_give(&rig, &message));
    ck_assert_uint_eq(message.count, 4);
    ck_assert(rig_is_for(&message, "a"));
    ck_assert_uint_eq(message.frames[1].len, 0);
    ck_assert(mc_view_equal(message.frames[2], mc_view_str("status")));
    struct mc_view map = message.frames[3];
    ck_assert_uint_eq(map_number(map, "epoch"), RECOVERY_RIG_EPOCH);
    ck_assert_uint_eq(map_number(map, "tail_seq"), 9);
    ck_assert_uint_eq(map_number(map, "oldest_seq"), 5);
    ck_assert_uint_eq(map_number(map, "last_id"), 12);
    ck_assert_uint_eq(map_number(map, "keys"), 12);
    rig_tell(&rig, MCI_RECOVERY_BLOCKED); /* it comes again */
    ck_assert(!rig_give(&rig, &message));
    rig.now_ns += MCI_RECOVERY_RETRY_NS;
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_SENT);
    ck_assert(!rig_give(&rig, &message));
    ck_assert_uint_eq(rig_recovery_stats(&rig).statuses, 1);
    rig_close_recovery(&rig);
}
END_TEST

static void add_sharing(Suite *suite)
{
    TCase *tc = tcase_create("sharing");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, those_who_asked_before_it_began_share_a_walk);
    tcase_add_test(tc, who_asks_during_a_walk_gets_one_of_its_own);
    tcase_add_test(tc, tenants_have_walks_of_their_own);
    tcase_add_test(tc, slow_reader_is_left_behind_and_goes_on_by_itself);
    tcase_add_test(tc, reader_that_took_nothing_begins_anew_when_left_behind);
    tcase_add_test(tc, readers_that_vanish_end_their_walk);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("recovery_walk");
    TCase *tc = tcase_create("snapshots");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, snapshot_names_each_key_once_between_two_ids, 0, 5);
    tcase_add_test(tc, many_slices_without_keys_are_walked_over);
    tcase_add_test(tc, tenant_that_cannot_be_is_end);
    tcase_add_test(tc, store_that_is_out_of_memory_is_asked_again);
    tcase_add_test(tc, each_allocation_may_fail_without_a_key_missing);
    tcase_add_test(tc, settings_that_suppress_keys_leave_an_empty_snapshot);
    tcase_add_test(tc, messages_stay_under_their_bytes);
    tcase_add_test(tc, status_tells_where_the_stream_stands);
    suite_add_tcase(suite, tc);
    add_sharing(suite);
    return suite_run(suite);
}
