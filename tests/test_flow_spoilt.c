/* SPDX-License-Identifier: Apache-2.0 */
/* test_flow_spoilt.c - of a batch of 64 events with any field of one made wrong,
 * 63 arrive, one is counted by the name of its fault, and then it is fetched.
 *
 * A store with its publisher and recovery server on real sockets, and between
 * it and the follower a relay that spoils one event of one message at a time:
 * each field of each event, in each way, as the first and second half of an
 * upsert and alone. Mirror, index and store agree after each. Public headers,
 * ZeroMQ and msgpack-c.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "await.h"
#include "event_spoil.h"
#include "flow_agree.h"
#include "mc_client.h"
#include "mc_subscriber.h"
#include "sanitized.h"
#include "suite.h"

#define FRAMES 3
#define WAIT_MS 20000
#define ROWS 192
#define BATCH 64
#define MESSAGE_MAX (1 << 18) /* bytes */

/* Whose field is spoilt. */
enum form { STORED, REMOVED, REPLACED, REPLACING, FORMS };

struct spoiling {
    enum form form;
    unsigned field;
    enum event_spoil_how how;
    bool is_done;
    bool is_possible; /* such events have such a field */
    uint64_t seq;
    uint64_t id;
    /* What the follower was told of it. */
    uint64_t arrived; /* of that message */
    uint64_t misread; /* the spoilt one as it came */
    uint64_t derived;
    uint64_t fetched; /* of that event */
    uint64_t signals[MC_SIGNAL_STALE + 1];
    enum mc_event_error reason;
};

struct relay {
    struct mc_client *client;
    void *context;
    void *wire;  /* hears the store */
    void *stage; /* tells the follower */
    struct mc_index *index;
    struct mc_subscriber *subscriber;
    char keys[ROWS][16];
    struct mc_view names[ROWS];
    struct mc_view values[ROWS];
    struct mc_view sessions[ROWS];
    struct mc_event events[MC_EVENT_COUNT_MAX];
    uint8_t wired[MESSAGE_MAX]; /* a message of the store */
    struct mci_buf room;        /* and spoilt */
    struct spoiling now;
};

/* ---- the follower ------------------------------------------------------- */

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct spoiling *now = &((struct relay *)ctx)->now;
    if (delivery->origin == MC_FROM_STREAM) {
        bool is_of_it = now->is_done && delivery->batch->seq == now->seq;
        now->arrived += is_of_it && !delivery->is_derived;
        now->derived += is_of_it && delivery->is_derived;
        now->misread += is_of_it && !delivery->is_derived &&
                        delivery->event->event_id == now->id;
        return;
    }
    ck_assert_int_eq(delivery->origin, MC_FROM_REPLAY);
    if (delivery->event->event_id == now->id) {
        now->fetched++;
    } else { /* later ones, which the answer has overtaken */
        ck_assert_uint_gt(delivery->batch->seq, now->seq);
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct spoiling *now = &((struct relay *)ctx)->now;
    now->signals[signal->type]++;
    if (signal->type == MC_SIGNAL_DEGRADED) {
        ck_assert_int_eq(signal->cause, MC_DEGRADED_REFUSED);
        ck_assert_uint_eq(signal->seq, now->seq);
        now->reason = signal->reason;
    }
}

static struct mc_source_stats stats_of(const struct relay *relay)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(relay->subscriber, 0, &stats);
    return stats;
}

static struct mc_publisher_stats published(const struct relay *relay)
{
    struct mc_client_stats stats;
    mc_client_stat(relay->client, &stats);
    return stats.events;
}

/* Until nothing that the store has said is missing. */
static void settle(struct relay *relay)
{
    uint64_t last_id = published(relay).last_event_id;
    struct mc_source_stats stats = stats_of(relay);
    for (int turn = 0; turn < WAIT_MS; turn++) {
        ck_assert_int_eq(mc_subscriber_poll(relay->subscriber, 1, 0, NULL),
                         MC_OK);
        stats = stats_of(relay);
        if (stats.last_event_id == last_id && !stats.is_recovering) {
            ck_assert_uint_eq(stats.lost_ids, 0);
            ck_assert_uint_eq(stats.refused_ids, 0);
            ck_assert_uint_eq(stats.events, stats.span_ids);
            return;
        }
    }
    ck_abort_msg("at id %ju of %ju, recovering %d",
                 (uintmax_t)stats.last_event_id, (uintmax_t)last_id,
                 stats.is_recovering);
}

/* ---- both ends ---------------------------------------------------------- */

static void open_store(struct relay *relay)
{
    struct mc_client_opts opts = {
        .segment_bytes = 4 << 20,
        .events = {.bind_endpoint = "tcp://127.0.0.1:*",
                   .replay_endpoint = "tcp://127.0.0.1:*",
                   .backend_id = "n1",
                   .heartbeat_ms = UINT64_MAX}};
    ck_assert_int_eq(mc_client_open(&opts, &relay->client), MC_OK);
    for (size_t i = 0; i < ROWS; i++) {
        int len = snprintf(relay->keys[i], sizeof relay->keys[i], "%zu", i + 1);
        relay->names[i] = mc_view_make(relay->keys[i], (size_t)len);
        relay->values[i] = mc_view_make(relay->keys[i], 1);
        relay->sessions[i] = relay->names[i / 16];
    }
}

static void set_option(void *socket, int option, int value)
{
    ck_assert_int_eq(zmq_setsockopt(socket, option, &value, sizeof value), 0);
}

static void open_sockets(struct relay *relay, char *endpoint, size_t size)
{
    relay->context = zmq_ctx_new();
    relay->wire = zmq_socket(relay->context, ZMQ_SUB);
    relay->stage = zmq_socket(relay->context, ZMQ_XPUB);
    set_option(relay->wire, ZMQ_RCVHWM, 0);
    set_option(relay->wire, ZMQ_RCVTIMEO, WAIT_MS);
    set_option(relay->stage, ZMQ_SNDHWM, 0);
    set_option(relay->stage, ZMQ_RCVTIMEO, WAIT_MS);
    set_option(relay->stage, ZMQ_LINGER, 0);
    (void)zmq_setsockopt(relay->wire, ZMQ_SUBSCRIBE, "", 0);
    ck_assert_int_eq(zmq_connect(relay->wire, published(relay).endpoint), 0);
    ck_assert_int_eq(zmq_bind(relay->stage, "tcp://127.0.0.1:*"), 0);
    ck_assert_int_eq(
        zmq_getsockopt(relay->stage, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
}

static void follow(struct relay *relay, const char *endpoint)
{
    struct mc_index_opts index = {0};
    struct mc_publisher_stats events = published(relay);
    struct mc_source_opts source = {
        .endpoint = endpoint, .recovery_endpoint = events.replay_endpoint};
    struct mc_subscriber_opts opts = {.sources = &source,
                                      .source_count = 1,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .ctx = relay};
    char word[8];
    ck_assert_int_eq(mc_key_layout_parse(mc_view_str("u64"),
                                         mc_view_make(NULL, 0), &index.layout),
                     MC_OK);
    ck_assert_int_eq(mc_index_create(&index, &relay->index), MC_OK);
    opts.index = relay->index;
    ck_assert_int_eq(mc_subscriber_open(&opts, &relay->subscriber), MC_OK);
    ck_assert_int_eq(zmq_recv(relay->stage, word, sizeof word, 0), 1);
}

static struct relay *relay_open(void)
{
    struct relay *relay = calloc(1, sizeof *relay);
    char endpoint[256];
    ck_assert_ptr_nonnull(relay);
    mci_buf_init(&relay->room, MESSAGE_MAX);
    open_store(relay);
    open_sockets(relay, endpoint, sizeof endpoint);
    follow(relay, endpoint);
    return relay;
}

static void relay_close(struct relay *relay)
{
    mc_subscriber_close(relay->subscriber);
    mc_index_destroy(relay->index);
    zmq_close(relay->wire);
    zmq_close(relay->stage);
    zmq_ctx_term(relay->context);
    mc_client_close(relay->client);
    mci_buf_fini(&relay->room);
    free(relay);
}

/* ---- the relay ---------------------------------------------------------- */

/* Of the form that is looked for: a `removed` that its `stored` follows is the
 * first half of an upsert. */
static bool is_of_form(const struct relay *relay, uint32_t at, uint32_t count)
{
    const struct mc_event *event = &relay->events[at];
    bool leads = event->type == MC_EVENT_REMOVED && at + 1 < count &&
                 event[1].type == MC_EVENT_STORED &&
                 mc_view_equal(event[0].object_key, event[1].object_key);
    bool follows = event->type == MC_EVENT_STORED && at > 0 &&
                   event[-1].type == MC_EVENT_REMOVED &&
                   mc_view_equal(event[0].object_key, event[-1].object_key);
    switch (relay->now.form) {
    case STORED:
        return event->type == MC_EVENT_STORED && !follows;
    case REMOVED:
        return event->type == MC_EVENT_REMOVED && !leads;
    case REPLACED:
        return leads;
    default:
        return follows;
    }
}

/* Spoils one event of the message if that is still to be done; its place in the
 * message differs from time to time. */
static struct mc_view spoil(struct relay *relay, struct mc_view payload,
                            const struct mc_event_batch *batch)
{
    struct spoiling *now = &relay->now;
    uint32_t at = (now->field * 7 + now->how * 13) % BATCH;
    if (now->is_done || !now->is_possible || batch->count != BATCH) {
        return payload;
    }
    for (uint32_t turn = 0; turn < BATCH; turn++, at = (at + 1) % BATCH) {
        /* Not the last one: until a later one shows that it is missing, a replay
         * that is quick hands it out as the next, and nothing is fetched. */
        if (at < BATCH - 1 && is_of_form(relay, at, batch->count)) {
            now->is_possible =
                event_spoil(payload, at, now->field, now->how, &relay->room);
            now->is_done = now->is_possible;
            now->seq = batch->seq;
            now->id = relay->events[at].event_id;
            return now->is_possible ? mci_buf_view(&relay->room) : payload;
        }
    }
    return payload;
}

/* Taken out of ZeroMQ's memory, which a thread sanitizer thinks nobody guards. */
static void receive(struct relay *relay, struct mc_view *frames)
{
    size_t used = 0;
    for (int i = 0; i < FRAMES; i++) {
        int len =
            zmq_recv(relay->wire, relay->wired + used, MESSAGE_MAX - used, 0);
        ck_assert_int_ge(len, 0);
        frames[i] = mc_view_make(relay->wired + used, (size_t)len);
        used += (size_t)len;
        ck_assert_uint_lt(used, MESSAGE_MAX);
    }
}

/* The next message of the store goes on to the follower; its last id. */
static uint64_t pass(struct relay *relay)
{
    struct mc_view frames[FRAMES];
    struct mc_event_batch batch;
    int sent = 0;
    receive(relay, frames);
    ck_assert_int_eq(mc_event_read(frames, FRAMES, relay->events,
                                   MC_EVENT_COUNT_MAX, &batch, NULL),
                     MC_EVENT_OK);
    ck_assert_uint_gt(batch.count, 0);
    frames[2] = spoil(relay, frames[2], &batch);
    for (int i = 0; i < FRAMES; i++) {
        sent += zmq_send(relay->stage, frames[i].data, frames[i].len,
                         i + 1 < FRAMES ? ZMQ_SNDMORE : 0) >= 0;
    }
    ck_assert_int_eq(sent, FRAMES);
    return relay->events[batch.count - 1].event_id;
}

static void pass_all(struct relay *relay)
{
    uint64_t last_id = published(relay).last_event_id;
    while (pass(relay) < last_id) {
    }
}

/* ---- the store's part --------------------------------------------------- */

static void put_all(struct relay *relay)
{
    int64_t results[ROWS];
    const struct mc_replicate_config config = {.session_ids = relay->sessions,
                                               .session_id_count = ROWS};
    ck_assert_int_eq(mc_client_batch_upsert(relay->client, relay->names,
                                            relay->values, ROWS, &config,
                                            results),
                     MC_OK);
}

static void remove_all(struct relay *relay)
{
    int64_t results[ROWS];
    ck_assert_int_eq(mc_client_batch_remove(relay->client, relay->names, ROWS,
                                            true, results),
                     MC_OK);
}

/* ---- judging ------------------------------------------------------------ */

/* Figures that must be the same, or which field it was. */
static void expect(const struct relay *relay, const char *what, uint64_t is,
                   uint64_t wanted)
{
    static const char *const hows[EVENT_SPOIL_HOWS] = {
        "of another type", "of a wrong value", "nil", "gone", "twice"};
    static const char *const forms[FORMS] = {"stored", "removed",
                                             "removed before its stored",
                                             "stored after its removed"};
    const struct spoiling *now = &relay->now;
    ck_assert_msg(is == wanted, "%s of a %s %s: %s: %ju, not %ju",
                  event_spoil_field(now->field), forms[now->form],
                  hows[now->how], what, (uintmax_t)is, (uintmax_t)wanted);
}

static void check_agreement(struct relay *relay)
{
    struct flow_agreement agreement =
        flow_compare(relay->client, relay->subscriber);
    struct mc_index_stats index;
    mc_index_stats(relay->index, &index);
    expect(relay, "wrong places", agreement.wrong, 0);
    expect(relay, "places", agreement.held, agreement.listed);
    expect(relay, "places in the index", index.resident, agreement.listed);
}

/* One event was refused, by the name of its fault; the others came, and then it
 * did. */
static void check_spoilt(struct relay *relay,
                         const struct mc_source_stats *before)
{
    const struct spoiling *now = &relay->now;
    struct mc_source_stats after = stats_of(relay);
    enum mc_event_error error = event_spoil_error(now->field, now->how);
    /* Without its first half an upsert says by its second that the old value
     * went; fetched, that half changes nothing. */
    bool is_derived = now->form == REPLACED;
    const struct {
        const char *what;
        uint64_t is;
        uint64_t wanted;
    } figures[] = {
        {"misread", now->misread, 0},
        {"arrived", now->arrived, BATCH - 1},
        {"derived", now->derived, is_derived},
        {"fetched", now->fetched, !is_derived},
        {"reason", now->reason, error},
        {"told as degraded", now->signals[MC_SIGNAL_DEGRADED], 1},
        {"told as recovered", now->signals[MC_SIGNAL_RECOVERED], 1},
        {"told as gap", now->signals[MC_SIGNAL_GAP], 0},
        {"told as stale", now->signals[MC_SIGNAL_STALE], 0},
        {"refused", after.refused_events, before->refused_events + 1},
        {"refused so", after.refused[error], before->refused[error] + 1},
        {"messages refused", after.refused_messages, 0},
        {"fetched again", after.refetched_ids, before->refetched_ids + 1},
        {"recovered by replay", after.recoveries_by_replay,
         before->recoveries_by_replay + 1},
        {"snapshots", after.snapshots_asked, 0},
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        expect(relay, figures[i].what, figures[i].is, figures[i].wanted);
    }
    check_agreement(relay);
}

/* Repeats what makes events of the form until one was spoilt: batches are full
 * where many events follow closely, which is nearly always. */
static void try_one(struct relay *relay, enum form form, unsigned field,
                    enum event_spoil_how how)
{
    struct mc_source_stats before = stats_of(relay);
    relay->now = (struct spoiling){
        .form = form, .field = field, .how = how, .is_possible = true};
    for (int turn = 0; !relay->now.is_done && relay->now.is_possible; turn++) {
        ck_assert_msg(turn < 100, "no message has %d events", BATCH);
        bool is_there = mc_subscriber_mirror_count(relay->subscriber) > 0;
        if (is_there && (form == STORED || form == REMOVED)) {
            remove_all(relay);
        } else {
            put_all(relay);
        }
        pass_all(relay);
        settle(relay);
    }
    if (relay->now.is_done) {
        check_spoilt(relay, &before);
    }
}

/* All ways that cost the event; of each field one, by turns, where it is slow:
 * ZeroMQ's memory looks unguarded to a thread sanitizer. */
static bool is_tried(enum form form, unsigned field, enum event_spoil_how how)
{
    unsigned turn = (field + form) % EVENT_SPOIL_HOWS;
    while (SANITIZED && event_spoil_error(field, turn) == MC_EVENT_OK) {
        turn = (turn + 1) % EVENT_SPOIL_HOWS;
    }
    return event_spoil_error(field, how) != MC_EVENT_OK &&
           (!SANITIZED || how == turn);
}

START_TEST(
    of_64_events_with_any_field_of_one_spoilt_63_arrive_and_one_is_fetched)
{
    static const unsigned wanted[FORMS] = {22, 19, 19, 22};
    enum form form = (enum form)_i;
    struct relay *relay = relay_open();
    unsigned fields = 0;
    pass_all(relay); /* the store starts */
    settle(relay);
    for (unsigned field = 0; field < EVENT_SPOIL_FIELDS; field++) {
        bool is_spoilt = false;
        for (unsigned how = 0; how < EVENT_SPOIL_HOWS; how++) {
            if (is_tried(form, field, how)) {
                try_one(relay, form, field, how);
                is_spoilt |= relay->now.is_done;
            }
        }
        fields += is_spoilt;
    }
    ck_assert_uint_eq(fields, wanted[form]);
    relay_close(relay);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flow_spoilt");
    TCase *fields = tcase_create("fields");
    tcase_set_timeout(fields, 120);
    tcase_add_loop_test(
        fields,
        of_64_events_with_any_field_of_one_spoilt_63_arrive_and_one_is_fetched,
        0, FORMS);
    suite_add_tcase(suite, fields);
    return suite_run(suite);
}
