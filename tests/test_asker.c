/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over real sockets: peers that answer, late or wrongly or without end
 * or never, requests that are dropped at any moment, credit, and ticks. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "loopback.h"
#include "mc_log.h"
#include "mci_bytes.h"
#include "mci_clock.h"
#include "router.h"
#include "source.h"
#include "source_nomem.h"
#include "suite.h"

#define QUEUE_BYTES (64u << 10)

static struct source_set *open_one(const struct mc_source_opts *source,
                                   uint64_t queue_bytes)
{
    struct source_opts opts = {
        .sources = source, .source_count = 1, .max_queue_bytes = queue_bytes};
    struct source_set *set = NULL;
    ck_assert_int_eq(source_open(&opts, &set), MC_OK);
    return set;
}

static struct source_set *open_asking(const struct router *router)
{
    struct mc_source_opts source = {.recovery_endpoint = router->endpoint};
    return open_one(&source, QUEUE_BYTES);
}

static void ask(struct source_set *set, uint64_t number, enum asker_kind kind)
{
    struct asker_request request = {.number = number, .kind = kind};
    ck_assert_int_eq(source_ask(set, &request), MC_OK);
}

static bool is_readable(const struct source_set *set, int wait_ms)
{
    struct pollfd polled = {.fd = source_fd(set), .events = POLLIN};
    return poll(&polled, 1, wait_ms) == 1;
}

static struct source_message *await_message(struct source_set *set)
{
    ck_assert(is_readable(set, LOOPBACK_WAIT_MS));
    struct source_message *message = source_take(set);
    ck_assert_ptr_nonnull(message);
    return message;
}

static void give_back(struct source_set *set, struct source_message *message)
{
    source_rest(set);
    source_give_back(set, message);
}

/* The next answer is to this request and of one frame, or of none. */
static void expect_answer(struct source_set *set, uint64_t number,
                          const char *text)
{
    struct source_message *message = await_message(set);
    ck_assert_int_eq(message->word, SOURCE_ANSWER);
    ck_assert_uint_eq(message->request, number);
    ck_assert_uint_eq(message->count, text ? 1 : 0);
    ck_assert(!text || mc_view_equal(message->frames[0], mc_view_str(text)));
    give_back(set, message);
}

static struct source_numbers numbers_of(struct source_set *set)
{
    struct source_numbers numbers;
    source_numbers(set, 0, &numbers);
    return numbers;
}

START_TEST(each_request_goes_out_as_it_is_written)
{
    struct router router;
    struct router_heard heard;
    router_open(&router);
    struct source_set *set = open_asking(&router);
    const struct asker_request requests[] = {
        {.number = 1, .kind = ASKER_STATUS},
        {.number = 2, .kind = ASKER_REPLAY, .from_seq = 258},
        {.number = 3, .kind = ASKER_REPLAY, .from_seq = 1, .credit = 7},
        {.number = 4, .kind = ASKER_SNAPSHOT},
        {.number = 5, .kind = ASKER_SNAPSHOT, .tenant = mc_view_str("t1")}};
    static const struct {
        size_t count;
        struct mc_view frames[2];
    } want[] = {{1, {{"status", 6}}},
                {1, {{"\0\0\0\0\0\0\1\2", 8}}},
                {2, {{"\0\0\0\0\0\0\0\1", 8}, {"\0\0\0\7", 4}}},
                {1, {{"snapshot", 8}}},
                {2, {{"snapshot", 8}, {"t1", 2}}}};
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(source_ask(set, &requests[i]), MC_OK);
        router_hear(&router, &heard);
        ck_assert_uint_eq(heard.count, want[i].count + 1);
        ck_assert_uint_eq(heard.frames[0].len, 0);
        for (size_t k = 0; k < want[i].count; k++) {
            ck_assert(mc_view_equal(heard.frames[k + 1], want[i].frames[k]));
        }
        router_forget(&heard);
    }
    source_close(set);
    router_close(&router);
}
END_TEST

START_TEST(answers_come_to_the_request_they_are_for_without_the_delimiter)
{
    struct router router;
    struct router_heard heard[2];
    router_open(&router);
    struct source_set *set = open_asking(&router);
    ask(set, 11, ASKER_STATUS);
    router_hear(&router, &heard[0]);
    ask(set, 12, ASKER_SNAPSHOT);
    router_hear(&router, &heard[1]);
    ck_assert(!mc_view_equal(heard[0].peer, heard[1].peer));
    router_say(&router, &heard[1], "second");
    expect_answer(set, 12, "second");
    router_say(&router, &heard[0], "first");
    expect_answer(set, 11, "first");
    router_say(&router, &heard[1], "second again");
    expect_answer(set, 12, "second again");
    router_forget(&heard[0]);
    router_forget(&heard[1]);
    source_close(set);
    router_close(&router);
}
END_TEST

START_TEST(frames_are_kept_as_far_as_they_can_be_an_answers)
{
    struct router router;
    struct router_heard heard;
    struct mc_view frames[10] = {{"", 0}};
    router_open(&router);
    struct source_set *set = open_asking(&router);
    ask(set, 1, ASKER_SNAPSHOT);
    router_hear(&router, &heard);
    for (size_t i = 1; i < 10; i++) {
        frames[i] = mc_view_make("0123456789", i);
    }
    for (size_t count = 1; count <= 10; count++) {
        router_send(&router, &heard, frames, count);
        struct source_message *message = await_message(set);
        ck_assert_uint_eq(message->count, count < 6 ? count - 1 : 5);
        for (size_t i = 0; i < message->count; i++) {
            ck_assert(mc_view_equal(message->frames[i], frames[i + 1]));
        }
        give_back(set, message);
    }
    /* And without a delimiter it is none at all. */
    router_send(&router, &heard, &frames[1], 3);
    expect_answer(set, 1, NULL);
    router_forget(&heard);
    source_close(set);
    router_close(&router);
}
END_TEST

START_TEST(after_a_drop_nothing_of_it_is_handed_out_and_its_socket_is_gone)
{
    struct router router;
    struct router_heard heard[2];
    router_open(&router);
    struct source_set *set = open_asking(&router);
    ask(set, 1, ASKER_REPLAY);
    router_hear(&router, &heard[0]);
    ask(set, 2, ASKER_REPLAY);
    router_hear(&router, &heard[1]);
    for (int i = 0; i < 10; i++) {
        router_say(&router, &heard[0], "of the dropped one");
    }
    ck_assert(AWAIT(source_count(set) == 10));
    router_say(&router, &heard[1], "of the other");
    ck_assert(AWAIT(source_count(set) == 11));
    source_drop(set, 1);
    source_drop(set, 1);
    source_drop(set, 99);
    expect_answer(set, 2, "of the other");
    ck_assert_ptr_null(source_take(set));
    ck_assert(!is_readable(set, 0));
    ck_assert(AWAIT(!router_try_text(&router, &heard[0], "more")));
    router_say(&router, &heard[1], "it goes on");
    expect_answer(set, 2, "it goes on");
    /* Its number is free again, and what comes is not what was late. */
    ask(set, 1, ASKER_STATUS);
    router_forget(&heard[0]);
    router_hear(&router, &heard[0]);
    router_say(&router, &heard[0], "anew");
    expect_answer(set, 1, "anew");
    router_forget(&heard[0]);
    router_forget(&heard[1]);
    source_close(set);
    router_close(&router);
}
END_TEST

START_TEST(a_server_that_comes_later_is_asked_then)
{
    struct router router;
    struct router_heard heard;
    router_open(&router);
    router_close(&router);
    struct source_set *set = open_asking(&router);
    ask(set, 1, ASKER_STATUS);
    source_credit(set, 1, 3);
    router_bind(&router);
    router_hear(&router, &heard);
    ck_assert(mc_view_equal(heard.frames[1], mc_view_str("status")));
    router_say(&router, &heard, "late");
    expect_answer(set, 1, "late");
    router_forget(&heard);
    source_close(set);
    router_close(&router);
}
END_TEST

/* What was asked of it has gone with it: whoever waits asks anew. */
START_TEST(a_server_that_dies_owes_no_answer)
{
    struct router router;
    struct router_heard heard;
    router_open(&router);
    struct source_set *set = open_asking(&router);
    ask(set, 1, ASKER_REPLAY);
    router_hear(&router, &heard);
    router_say(&router, &heard, "before");
    expect_answer(set, 1, "before");
    router_forget(&heard);
    router_close(&router);
    router_bind(&router);
    ask(set, 2, ASKER_REPLAY);
    router_hear(&router, &heard);
    ck_assert(!router_has_heard(&router)); /* not the first one again */
    source_drop(set, 1);
    router_say(&router, &heard, "after");
    expect_answer(set, 2, "after");
    router_forget(&heard);
    source_close(set);
    router_close(&router);
}
END_TEST

START_TEST(credit_is_granted_on_the_socket_of_its_request)
{
    struct router router;
    struct router_heard asked[2];
    struct router_heard granted;
    router_open(&router);
    struct source_set *set = open_asking(&router);
    ask(set, 1, ASKER_REPLAY);
    router_hear(&router, &asked[0]);
    ask(set, 2, ASKER_REPLAY);
    router_hear(&router, &asked[1]);
    source_credit(set, 77, 1);
    source_credit(set, 2, 40);
    router_hear(&router, &granted);
    ck_assert(mc_view_equal(granted.peer, asked[1].peer));
    ck_assert_uint_eq(granted.count, 3);
    ck_assert(mc_view_equal(granted.frames[1], mc_view_str("credit")));
    ck_assert(mc_view_equal(granted.frames[2], mc_view_make("\0\0\0\50", 4)));
    router_forget(&granted);
    router_forget(&asked[0]);
    router_forget(&asked[1]);
    source_close(set);
    router_close(&router);
}
END_TEST

START_TEST(what_cannot_be_asked_is_refused_and_changes_nothing)
{
    struct router router;
    struct router_heard heard;
    char long_tenant[65];
    memset(long_tenant, 't', sizeof long_tenant);
    router_open(&router);
    const struct mc_source_opts sources[2] = {
        {.recovery_endpoint = router.endpoint},
        {.endpoint = "tcp://127.0.0.1:1"}};
    struct source_opts opts = {
        .sources = sources, .source_count = 2, .max_queue_bytes = QUEUE_BYTES};
    struct source_set *set = NULL;
    ck_assert_int_eq(source_open(&opts, &set), MC_OK);
    ask(set, 1, ASKER_STATUS);
    const struct asker_request bad[] = {
        {.number = 1, .kind = ASKER_STATUS},
        {.source = 1, .number = 2, .kind = ASKER_STATUS},
        {.source = 2, .number = 2, .kind = ASKER_STATUS},
        {.number = 2},
        {.number = 2, .kind = ASKER_SNAPSHOT, .tenant = mc_view_str("")},
        {.number = 2, .kind = ASKER_SNAPSHOT, .tenant = {long_tenant, 65}},
        {.number = 2, .kind = ASKER_SNAPSHOT, .tenant = {"\xc3\x28", 2}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(source_ask(set, &bad[i]), MC_ERR_INVALID_PARAMS);
    }
    router_hear(&router, &heard);
    router_say(&router, &heard, "one");
    expect_answer(set, 1, "one");
    router_forget(&heard);
    source_close(set);
    router_close(&router);
}
END_TEST

START_TEST(a_source_has_so_many_requests_and_no_more_until_some_are_dropped)
{
    struct router router;
    router_open(&router);
    struct source_set *set = open_asking(&router);
    struct asker_request request = {.kind = ASKER_STATUS};
    for (; request.number < SOURCE_REQUESTS_MAX; request.number++) {
        ck_assert_int_eq(source_ask(set, &request), MC_OK);
    }
    ck_assert_int_eq(source_ask(set, &request), MC_ERR_NO_AVAILABLE_HANDLE);
    source_drop(set, 3);
    ck_assert(AWAIT(source_ask(set, &request) == MC_OK));
    for (int i = 0; i < SOURCE_REQUESTS_MAX + 1; i++) {
        struct router_heard heard; /* all were asked, the dropped one maybe */
        if (i < SOURCE_REQUESTS_MAX || router_has_heard(&router)) {
            router_hear(&router, &heard);
            router_forget(&heard);
        }
    }
    source_close(set);
    router_close(&router);
}
END_TEST

static void count_line(void *ctx, enum mc_log_level level, const char *text)
{
    (void)text;
    if (level == MC_LOG_ERROR) {
        atomic_fetch_add((atomic_int *)ctx, 1);
    }
}

START_TEST(a_server_that_zeromq_refuses_is_an_answer_of_nothing_with_a_line)
{
    struct mc_source_opts source = {.recovery_endpoint = "bogus://x"};
    struct source_set *set = open_one(&source, QUEUE_BYTES);
    atomic_int lines = 0;
    mc_log_set_sink(count_line, &lines);
    ask(set, 5, ASKER_STATUS);
    expect_answer(set, 5, NULL);
    mc_log_set_sink(NULL, NULL);
    ck_assert_int_eq(atomic_load(&lines), 1);
    source_credit(set, 5, 1); /* open, and without a socket */
    source_drop(set, 5);
    source_close(set);
}
END_TEST

/* A peer that floods: what is read and not taken stays within the bound of the
 * queue, and the rest waits where it is; nothing is lost. */
START_TEST(a_flood_of_answers_stops_at_the_bound_of_the_queue)
{
    enum { COUNT = 400, LEN = 4096 };
    static char frame[LEN];
    struct router router;
    struct router_heard heard;
    router_open(&router);
    struct source_set *set = open_asking(&router);
    ask(set, 1, ASKER_REPLAY);
    router_hear(&router, &heard);
    const struct mc_view frames[2] = {{"", 0}, {frame, LEN}};
    for (uint64_t i = 0; i < COUNT; i++) {
        mci_put_be64(frame, i);
        router_send(&router, &heard, frames, 2);
    }
    ck_assert(AWAIT(numbers_of(set).queue.full > 0));
    for (uint64_t i = 0; i < COUNT; i++) {
        ck_assert_uint_lt(numbers_of(set).queue.bytes, QUEUE_BYTES + 2 * LEN);
        struct source_message *message = await_message(set);
        ck_assert_uint_eq(message->count, 1);
        ck_assert_uint_eq(mci_get_be64(message->frames[0].data), i);
        give_back(set, message);
    }
    ck_assert_uint_gt(numbers_of(set).queue.full, 3);
    router_forget(&heard);
    source_close(set);
    router_close(&router);
}
END_TEST

START_TEST(the_stream_and_the_answers_come_through_one_queue)
{
    struct loopback publisher;
    struct router router;
    struct router_heard heard;
    loopback_open(&publisher);
    router_open(&router);
    struct mc_source_opts source = {.endpoint = publisher.endpoint,
                                    .recovery_endpoint = router.endpoint};
    struct source_set *set = open_one(&source, QUEUE_BYTES);
    loopback_await_subscriber(&publisher);
    ask(set, 1, ASKER_STATUS);
    router_hear(&router, &heard);
    struct source_message *message = await_message(set);
    ck_assert_int_eq(message->word, SOURCE_CONNECT);
    give_back(set, message);
    for (int i = 0; i < 5; i++) {
        loopback_send(&publisher, &(struct mc_view){"live", 4}, 1);
        message = await_message(set);
        ck_assert_int_eq(message->word, SOURCE_MESSAGE);
        give_back(set, message);
        router_say(&router, &heard, "answer");
        expect_answer(set, 1, "answer");
    }
    router_forget(&heard);
    source_close(set);
    loopback_close(&publisher);
    router_close(&router);
}
END_TEST

START_TEST(keys_of_the_source_are_those_of_its_requests)
{
    char keys[2][2][41]; /* server and ours, public and secret */
    char path[] = "/tmp/mc-asker-XXXXXX";
    struct router router;
    struct router_heard heard;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(zmq_curve_keypair(keys[i][0], keys[i][1]), 0);
    }
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(
        dprintf(fd, "public %s\nsecret %s\n", keys[1][0], keys[1][1]), 0);
    close(fd);
    router_open_secret(&router, keys[0][1]);
    struct mc_source_opts source = {.recovery_endpoint = router.endpoint,
                                    .curve_server_key = keys[0][0],
                                    .curve_key_file = path};
    struct source_set *set = open_one(&source, QUEUE_BYTES);
    ask(set, 1, ASKER_STATUS);
    router_hear(&router, &heard);
    router_say(&router, &heard, "in secret");
    expect_answer(set, 1, "in secret");
    router_forget(&heard);
    source_close(set);
    router_close(&router);
    (void)unlink(path);
}
END_TEST

/* ---- ticks ---- */

static void expect_tick(struct source_set *set)
{
    struct source_message *message = await_message(set);
    ck_assert_int_eq(message->word, SOURCE_TICK);
    ck_assert_uint_eq(message->count, 0);
    give_back(set, message);
}

START_TEST(a_tick_comes_once_and_not_before_its_time)
{
    struct mc_source_opts source = {.recovery_endpoint = "tcp://127.0.0.1:1"};
    struct source_set *set = open_one(&source, QUEUE_BYTES);
    uint64_t at_ns = mci_clock_ns() + 30 * MCI_NS_PER_MS;
    source_wake_at(set, at_ns);
    expect_tick(set);
    ck_assert_uint_ge(mci_clock_ns(), at_ns);
    ck_assert(!is_readable(set, 20));
    source_wake_at(set, 1); /* long ago: at once */
    expect_tick(set);
    ck_assert(!is_readable(set, 0));
    source_close(set);
}
END_TEST

START_TEST(a_time_replaces_the_one_before_it)
{
    struct mc_source_opts source = {.endpoint = "tcp://127.0.0.1:1"};
    struct source_set *set = open_one(&source, QUEUE_BYTES);
    uint64_t now_ns = mci_clock_ns();
    source_wake_at(set, now_ns + 20 * MCI_NS_PER_MS);
    source_wake_at(set, UINT64_MAX);
    ck_assert(!is_readable(set, 40));
    source_wake_at(set, now_ns + 3600 * MCI_NS_PER_S);
    ck_assert(!is_readable(set, 5));
    source_wake_at(set, now_ns + 60 * MCI_NS_PER_MS);
    expect_tick(set);
    ck_assert_uint_ge(mci_clock_ns(), now_ns + 60 * MCI_NS_PER_MS);
    source_wake_at(set, UINT64_MAX - 1);
    ck_assert(!is_readable(set, 5));
    source_close(set);
}
END_TEST

/* ---- without a queue ---- */

struct own {
    struct source_set *set; /* set by the test before it is looked at */
    atomic_bool is_open;
    atomic_int ticks;
    atomic_int answers;
    atomic_int after_drop;
    bool is_dropped;
};

/* All that delivering does, on the reading thread. */
static void on_message(void *ctx, const struct source_message *message)
{
    struct own *own = ctx;
    (void)AWAIT(atomic_load(&own->is_open));
    if (message->word == SOURCE_TICK) {
        struct asker_request request = {.number = 9, .kind = ASKER_REPLAY};
        atomic_fetch_add(&own->ticks, 1);
        ck_assert_int_eq(source_ask(own->set, &request), MC_OK);
        source_credit(own->set, 9, 2);
    } else if (message->word == SOURCE_ANSWER) {
        atomic_fetch_add(own->is_dropped ? &own->after_drop : &own->answers, 1);
        if (atomic_load(&own->answers) == 3) {
            source_drop(own->set, 9);
            own->is_dropped = true;
        }
    }
}

START_TEST(with_no_queue_all_of_it_happens_on_the_reading_thread)
{
    struct router router;
    struct router_heard asked;
    struct router_heard granted;
    struct own own = {.set = NULL};
    router_open(&router);
    struct mc_source_opts source = {.recovery_endpoint = router.endpoint};
    struct source_opts opts = {.sources = &source,
                               .source_count = 1,
                               .max_queue_bytes = 1,
                               .on_message = on_message,
                               .ctx = &own};
    ck_assert_int_eq(source_open(&opts, &own.set), MC_OK);
    atomic_store(&own.is_open, true);
    source_wake_at(own.set, mci_clock_ns() + MCI_NS_PER_MS);
    router_hear(&router, &asked);
    router_hear(&router, &granted);
    ck_assert_int_eq(atomic_load(&own.ticks), 1);
    for (int i = 0; i < 10 && router_try_text(&router, &asked, "more"); i++) {
    }
    ck_assert(AWAIT(!router_try_text(&router, &asked, "more")));
    ck_assert_int_eq(atomic_load(&own.answers), 3);
    ck_assert_int_eq(atomic_load(&own.after_drop), 0);
    router_forget(&asked);
    router_forget(&granted);
    source_close(own.set);
    router_close(&router);
}
END_TEST

/* ---- ends ---- */

START_TEST(opening_without_memory_leaves_nothing_behind)
{
    struct mc_source_opts sources[2] = {
        {.endpoint = "tcp://127.0.0.1:1",
         .recovery_endpoint = "tcp://127.0.0.1:2"},
        {.recovery_endpoint = "tcp://127.0.0.1:3"}};
    struct source_opts opts = {
        .sources = sources, .source_count = 2, .max_queue_bytes = QUEUE_BYTES};
    source_opens_without_memory(&opts, 8);
}
END_TEST

START_TEST(it_can_be_closed_with_requests_and_answers_on_their_way)
{
    struct router router;
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    router_open(&router);
    mci_alloc_stats(&before);
    for (int round = 0; round < 10; round++) {
        struct source_set *set = open_asking(&router);
        struct router_heard heard;
        ask(set, 1, ASKER_REPLAY);
        ask(set, 2, ASKER_STATUS);
        if (round % 2) {
            router_hear(&router, &heard);
            for (int i = 0; i < 50 && router_try_text(&router, &heard, "more");
                 i++) {
            }
            router_forget(&heard);
        }
        source_wake_at(set, round % 3 ? 1 : UINT64_MAX);
        if (round % 3 == 1) {
            source_drop(set, 2);
        }
        source_close(set);
    }
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    router_close(&router);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asker");
    TCase *requests = tcase_create("requests");
    tcase_set_timeout(requests, 60);
    tcase_add_test(requests, each_request_goes_out_as_it_is_written);
    tcase_add_test(
        requests,
        answers_come_to_the_request_they_are_for_without_the_delimiter);
    tcase_add_test(requests, frames_are_kept_as_far_as_they_can_be_an_answers);
    tcase_add_test(
        requests,
        after_a_drop_nothing_of_it_is_handed_out_and_its_socket_is_gone);
    tcase_add_test(requests, a_server_that_comes_later_is_asked_then);
    tcase_add_test(requests, a_server_that_dies_owes_no_answer);
    tcase_add_test(requests, credit_is_granted_on_the_socket_of_its_request);
    tcase_add_test(requests,
                   what_cannot_be_asked_is_refused_and_changes_nothing);
    tcase_add_test(
        requests,
        a_source_has_so_many_requests_and_no_more_until_some_are_dropped);
    tcase_add_test(
        requests,
        a_server_that_zeromq_refuses_is_an_answer_of_nothing_with_a_line);
    tcase_add_test(requests,
                   a_flood_of_answers_stops_at_the_bound_of_the_queue);
    tcase_add_test(requests, the_stream_and_the_answers_come_through_one_queue);
    tcase_add_test(requests, keys_of_the_source_are_those_of_its_requests);
    tcase_add_test(requests,
                   with_no_queue_all_of_it_happens_on_the_reading_thread);
    suite_add_tcase(suite, requests);
    TCase *ticks = tcase_create("ticks");
    tcase_set_timeout(ticks, 60);
    tcase_add_test(ticks, a_tick_comes_once_and_not_before_its_time);
    tcase_add_test(ticks, a_time_replaces_the_one_before_it);
    suite_add_tcase(suite, ticks);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 60);
    tcase_add_test(life, opening_without_memory_leaves_nothing_behind);
    tcase_add_test(life,
                   it_can_be_closed_with_requests_and_answers_on_their_way);
    suite_add_tcase(suite, life);
    return suite_run(suite);
}
