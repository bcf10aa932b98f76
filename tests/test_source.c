/* SPDX-License-Identifier: Apache-2.0 */
/* The reading thread over real sockets: order, words of connections, the bound
 * of the queue, and ends at any moment. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "loopback.h"
#include "mc_log.h"
#include "mci_bytes.h"
#include "source.h"
#include "source_nomem.h"
#include "suite.h"

#define QUEUE_BYTES (64u << 10)

static struct source_set *open_one(const char *endpoint, uint64_t queue_bytes)
{
    struct mc_source_opts source = {.endpoint = endpoint};
    struct source_opts opts = {
        .sources = &source, .source_count = 1, .max_queue_bytes = queue_bytes};
    struct source_set *set = NULL;
    ck_assert_int_eq(source_open(&opts, &set), MC_OK);
    return set;
}

static bool is_readable(const struct source_set *set)
{
    struct pollfd polled = {.fd = source_fd(set), .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

static struct source_message *await_message(struct source_set *set)
{
    struct pollfd polled = {.fd = source_fd(set), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, LOOPBACK_WAIT_MS), 1);
    struct source_message *message = source_take(set);
    ck_assert_ptr_nonnull(message);
    return message;
}

static void give_back(struct source_set *set, struct source_message *message)
{
    source_rest(set);
    source_give_back(set, message);
}

static void await_connect(struct source_set *set)
{
    struct source_message *message = await_message(set);
    ck_assert(message->word == SOURCE_CONNECT);
    give_back(set, message);
}

/* A message of one frame: a number and filling. */
static void send_number(struct loopback *publisher, uint64_t number, size_t len)
{
    static char frame[1 << 20];
    ck_assert(len >= 8 && len <= sizeof frame);
    mci_put_be64(frame, number);
    loopback_send(publisher, &(struct mc_view){frame, len}, 1);
}

static uint64_t number_of(const struct source_message *message)
{
    ck_assert(message->word == SOURCE_MESSAGE);
    ck_assert_uint_eq(message->count, 1);
    return mci_get_be64(message->frames[0].data);
}

static void expect_number(struct source_set *set, uint64_t number)
{
    struct source_message *message = await_message(set);
    ck_assert_uint_eq(number_of(message), number);
    give_back(set, message);
}

static struct source_numbers numbers_of(struct source_set *set)
{
    struct source_numbers numbers;
    source_numbers(set, 0, &numbers);
    return numbers;
}

START_TEST(messages_come_in_order_after_word_of_their_connection)
{
    struct loopback publisher;
    loopback_open(&publisher);
    struct source_set *set = open_one(publisher.endpoint, QUEUE_BYTES);
    loopback_await_subscriber(&publisher);
    for (uint64_t i = 0; i < 100; i++) {
        send_number(&publisher, i, 8);
    }
    await_connect(set);
    for (uint64_t i = 0; i < 100; i++) {
        expect_number(set, i);
    }
    ck_assert(numbers_of(set).is_connected);
    ck_assert_uint_eq(numbers_of(set).connects, 1);
    ck_assert_uint_eq(numbers_of(set).disconnects, 0);
    source_close(set);
    loopback_close(&publisher);
}
END_TEST

START_TEST(a_publisher_that_comes_back_is_told_before_its_messages)
{
    struct loopback publisher;
    loopback_open(&publisher);
    struct source_set *set = open_one(publisher.endpoint, QUEUE_BYTES);
    for (uint64_t life = 0; life < 3; life++) {
        loopback_await_subscriber(&publisher);
        send_number(&publisher, life, 8);
        await_connect(set);
        expect_number(set, life);
        loopback_close(&publisher);
        ck_assert(AWAIT(!numbers_of(set).is_connected));
        ck_assert_uint_eq(numbers_of(set).disconnects, life + 1);
        loopback_bind(&publisher);
    }
    source_close(set);
    loopback_close(&publisher);
}
END_TEST

START_TEST(the_fd_is_readable_while_there_is_something_to_do)
{
    struct loopback publisher;
    loopback_open(&publisher);
    struct source_set *set = open_one(publisher.endpoint, QUEUE_BYTES);
    loopback_await_subscriber(&publisher);
    await_connect(set);
    ck_assert(!is_readable(set));
    ck_assert_ptr_null(source_take(set));
    send_number(&publisher, 1, 8);
    send_number(&publisher, 2, 8);
    struct source_message *message = await_message(set);
    ck_assert(AWAIT(source_count(set) == 1));
    ck_assert(is_readable(set));
    give_back(set, message);
    ck_assert(is_readable(set));
    message = source_take(set);
    ck_assert(is_readable(set)); /* not done with it yet */
    source_rest(set);
    ck_assert(!is_readable(set));
    source_give_back(set, message);
    ck_assert(!is_readable(set));
    source_close(set);
    loopback_close(&publisher);
}
END_TEST

START_TEST(frames_are_kept_up_to_four_and_the_rest_is_read_away)
{
    struct loopback publisher;
    struct mc_view frames[9];
    loopback_open(&publisher);
    struct source_set *set = open_one(publisher.endpoint, QUEUE_BYTES);
    loopback_await_subscriber(&publisher);
    await_connect(set);
    for (size_t i = 0; i < 9; i++) {
        frames[i] = mc_view_make("0123456789", i + 1);
    }
    for (size_t count = 1; count <= 9; count++) {
        loopback_send(&publisher, frames, count);
        struct source_message *message = await_message(set);
        ck_assert_uint_eq(message->count, count < 4 ? count : 4);
        for (size_t i = 0; i < message->count; i++) {
            ck_assert(mc_view_equal(message->frames[i], frames[i]));
        }
        give_back(set, message);
    }
    source_close(set);
    loopback_close(&publisher);
}
END_TEST

START_TEST(a_topic_leaves_out_what_does_not_begin_with_it)
{
    struct loopback publisher;
    loopback_open(&publisher);
    struct mc_source_opts source = {.endpoint = publisher.endpoint,
                                    .topic = "kv"};
    struct source_opts opts = {
        .sources = &source, .source_count = 1, .max_queue_bytes = QUEUE_BYTES};
    struct source_set *set = NULL;
    ck_assert_int_eq(source_open(&opts, &set), MC_OK);
    loopback_await_subscriber(&publisher);
    await_connect(set);
    loopback_send(&publisher, &(struct mc_view){"other", 5}, 1);
    loopback_send(&publisher, &(struct mc_view){"kv-1", 4}, 1);
    struct source_message *message = await_message(set);
    ck_assert(mc_view_equal(message->frames[0], mc_view_str("kv-1")));
    give_back(set, message);
    source_close(set);
    loopback_close(&publisher);
}
END_TEST

START_TEST(a_queue_that_is_full_pauses_reading_and_loses_nothing)
{
    enum { COUNT = 3000, LEN = 4096 };
    struct loopback publisher;
    loopback_open(&publisher);
    struct source_set *set = open_one(publisher.endpoint, QUEUE_BYTES);
    loopback_await_subscriber(&publisher);
    for (uint64_t i = 0; i < COUNT; i++) {
        send_number(&publisher, i, LEN);
    }
    ck_assert(AWAIT(numbers_of(set).queue.full > 0));
    await_connect(set);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t bytes = numbers_of(set).queue.bytes;
        ck_assert_uint_lt(bytes, QUEUE_BYTES + 2 * LEN);
        expect_number(set, i);
    }
    ck_assert_uint_gt(numbers_of(set).queue.full, 10);
    ck_assert_uint_eq(numbers_of(set).queue.bytes, 0);
    ck_assert_uint_eq(numbers_of(set).queue.messages, 0);
    source_close(set);
    loopback_close(&publisher);
}
END_TEST

/* ---- without a queue ---- */

struct heard {
    atomic_ullong messages;
    atomic_ullong connects;
    atomic_bool is_wrong;
};

static void on_message(void *ctx, const struct source_message *message)
{
    struct heard *heard = ctx;
    if (message->word == SOURCE_CONNECT) {
        atomic_fetch_add(&heard->connects, 1);
        return;
    }
    uint64_t want = atomic_load(&heard->messages);
    if (message->count != 1 || mci_get_be64(message->frames[0].data) != want) {
        atomic_store(&heard->is_wrong, true);
    }
    atomic_fetch_add(&heard->messages, 1);
}

START_TEST(without_a_queue_the_reading_thread_hands_on_itself)
{
    struct loopback publisher;
    struct heard heard = {0};
    loopback_open(&publisher);
    struct mc_source_opts source = {.endpoint = publisher.endpoint};
    struct source_opts opts = {.sources = &source,
                               .source_count = 1,
                               .max_queue_bytes = 1,
                               .on_message = on_message,
                               .ctx = &heard};
    struct source_set *set = NULL;
    ck_assert_int_eq(source_open(&opts, &set), MC_OK);
    ck_assert_int_eq(source_fd(set), -1);
    loopback_await_subscriber(&publisher);
    for (uint64_t i = 0; i < 1000; i++) {
        send_number(&publisher, i, 64);
    }
    ck_assert(AWAIT(atomic_load(&heard.messages) == 1000));
    ck_assert_uint_eq(atomic_load(&heard.connects), 1);
    ck_assert(!atomic_load(&heard.is_wrong));
    source_close(set);
    loopback_close(&publisher);
}
END_TEST

/* The reading thread is amid a burst of the first life's messages while a second
 * life begins. Its subscription goes out between two of them, and at the last
 * one it waits until the second life has spoken too. */
enum { FIRST_COUNT = 200, SECOND_LIFE = 1000 };

struct lives {
    atomic_bool is_at_first;
    atomic_bool is_reborn;
    atomic_bool is_subscribed;
    atomic_bool has_spoken;
    atomic_int connects;
    atomic_int connects_at_second; /* when its first message came */
};

static void wait_a_little(atomic_bool *condition, int turns)
{
    while (!atomic_load(condition) && --turns > 0) {
        await_turn();
    }
}

static void on_life(void *ctx, const struct source_message *message)
{
    struct lives *lives = ctx;
    if (message->word == SOURCE_CONNECT) {
        atomic_fetch_add(&lives->connects, 1);
        return;
    }
    uint64_t number = number_of(message);
    if (number == SECOND_LIFE) {
        atomic_store(&lives->connects_at_second, atomic_load(&lives->connects));
    } else if (number == 1) {
        atomic_store(&lives->is_at_first, true);
        (void)AWAIT(atomic_load(&lives->is_reborn));
    } else if (number < FIRST_COUNT) {
        wait_a_little(&lives->is_subscribed, 20);
    } else {
        wait_a_little(&lives->has_spoken, 10000);
    }
}

START_TEST(word_of_a_connection_comes_first_even_amid_reading)
{
    struct loopback publisher;
    struct lives lives = {.is_at_first = false};
    loopback_open(&publisher);
    struct mc_source_opts source = {.endpoint = publisher.endpoint};
    struct source_opts opts = {.sources = &source,
                               .source_count = 1,
                               .max_queue_bytes = 1,
                               .on_message = on_life,
                               .ctx = &lives};
    struct source_set *set = NULL;
    struct source_set *other = open_one(publisher.endpoint, QUEUE_BYTES);
    ck_assert_int_eq(source_open(&opts, &set), MC_OK);
    loopback_await_subscriber(&publisher);
    loopback_await_subscriber(&publisher);
    await_connect(other);
    for (uint64_t i = 1; i <= FIRST_COUNT; i++) {
        send_number(&publisher, i, 8);
    }
    for (uint64_t i = 1; i <= FIRST_COUNT; i++) {
        expect_number(other, i); /* so they have left */
    }
    ck_assert(AWAIT(atomic_load(&lives.is_at_first)));
    loopback_close(&publisher);
    loopback_bind(&publisher);
    atomic_store(&lives.is_reborn, true);
    loopback_await_subscriber(&publisher);
    loopback_await_subscriber(&publisher);
    atomic_store(&lives.is_subscribed, true);
    send_number(&publisher, SECOND_LIFE, 8);
    await_connect(other);
    expect_number(other, SECOND_LIFE);
    atomic_store(&lives.has_spoken, true);
    ck_assert(AWAIT(atomic_load(&lives.connects_at_second) > 0));
    ck_assert_int_eq(atomic_load(&lives.connects_at_second), 2);
    source_close(set);
    source_close(other);
    loopback_close(&publisher);
}
END_TEST

/* ---- opening and closing ---- */

static void count_line(void *ctx, enum mc_log_level level, const char *text)
{
    (void)text;
    if (level == MC_LOG_ERROR) {
        atomic_fetch_add((atomic_int *)ctx, 1);
    }
}

START_TEST(an_endpoint_that_zeromq_refuses_is_an_error_with_a_line)
{
    static const char *const endpoints[] = {"", "nonsense", "tcp://",
                                            "tcp://127.0.0.1", "bogus://x"};
    struct mc_source_opts sources[2] = {{.endpoint = "tcp://127.0.0.1:1"},
                                        {.endpoint = endpoints[_i]}};
    struct source_opts opts = {
        .sources = sources, .source_count = 2, .max_queue_bytes = QUEUE_BYTES};
    struct source_set *set = NULL;
    atomic_int lines = 0;
    mc_log_set_sink(count_line, &lines);
    ck_assert_int_eq(source_open(&opts, &set), MC_ERR_INVALID_PARAMS);
    mc_log_set_sink(NULL, NULL);
    ck_assert_ptr_null(set);
    ck_assert_int_eq(atomic_load(&lines), 1);
}
END_TEST

START_TEST(opening_without_memory_leaves_nothing_behind)
{
    struct mc_source_opts sources[2] = {
        {.endpoint = "tcp://127.0.0.1:1", .topic = "t"},
        {.endpoint = "tcp://127.0.0.1:2"}};
    struct source_opts opts = {
        .sources = sources, .source_count = 2, .max_queue_bytes = QUEUE_BYTES};
    source_opens_without_memory(&opts, 5);
}
END_TEST

START_TEST(a_source_without_endpoint_needs_no_thread)
{
    struct source_set *set = open_one(NULL, QUEUE_BYTES);
    ck_assert(!is_readable(set));
    ck_assert_ptr_null(source_take(set));
    ck_assert(!numbers_of(set).is_connected);
    source_close(set);
    source_close(NULL);
}
END_TEST

struct flood {
    struct loopback publisher;
    atomic_bool is_stopped;
    atomic_ullong sent;
};

static void *run_flood(void *arg)
{
    struct flood *flood = arg;
    loopback_open(&flood->publisher);
    atomic_store(&flood->sent, 1);
    while (!atomic_load(&flood->is_stopped)) {
        /* Bounded, so that libzmq's queue is, with a socket that has no bound. */
        if (atomic_load(&flood->sent) < 200000) {
            send_number(&flood->publisher, 0, 256);
            atomic_fetch_add(&flood->sent, 1);
        } else {
            await_turn();
        }
    }
    loopback_close(&flood->publisher);
    return NULL;
}

START_TEST(it_can_be_closed_at_any_moment_while_messages_flow)
{
    struct flood flood = {.is_stopped = false};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_flood, &flood), 0);
    ck_assert(AWAIT(atomic_load(&flood.sent) > 0));
    struct mci_alloc_stats before;
    mci_alloc_stats(&before);
    for (int i = 0; i < 20; i++) {
        struct source_set *set =
            open_one(flood.publisher.endpoint, i % 2 ? 1024 : QUEUE_BYTES);
        if (i % 3 > 0) { /* the other rounds end before anything came */
            ck_assert(AWAIT(source_count(set) > 0));
            give_back(set, source_take(set));
        }
        source_close(set);
    }
    struct mci_alloc_stats after;
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    atomic_store(&flood.is_stopped, true);
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("source");
    TCase *flow = tcase_create("flow");
    tcase_set_timeout(flow, 60);
    tcase_add_test(flow, messages_come_in_order_after_word_of_their_connection);
    tcase_add_test(flow,
                   a_publisher_that_comes_back_is_told_before_its_messages);
    tcase_add_test(flow, the_fd_is_readable_while_there_is_something_to_do);
    tcase_add_test(flow, frames_are_kept_up_to_four_and_the_rest_is_read_away);
    tcase_add_test(flow, a_topic_leaves_out_what_does_not_begin_with_it);
    tcase_add_test(flow, a_queue_that_is_full_pauses_reading_and_loses_nothing);
    tcase_add_test(flow, without_a_queue_the_reading_thread_hands_on_itself);
    tcase_add_test(flow, word_of_a_connection_comes_first_even_amid_reading);
    suite_add_tcase(suite, flow);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 60);
    tcase_add_loop_test(
        life, an_endpoint_that_zeromq_refuses_is_an_error_with_a_line, 0, 5);
    tcase_add_test(life, opening_without_memory_leaves_nothing_behind);
    tcase_add_test(life, a_source_without_endpoint_needs_no_thread);
    tcase_add_test(life, it_can_be_closed_at_any_moment_while_messages_flow);
    suite_add_tcase(suite, life);
    return suite_run(suite);
}
