/* SPDX-License-Identifier: Apache-2.0 */
/* A control server and what comes over its sockets: every operation once, and
 * all that is not a request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "await.h"
#include "mci_alloc.h"
#include "mci_bytes.h"
#include "mci_clock.h"
#include "server_rig.h"
#include "stat_words.h"
#include "suite.h"

#define SEGMENT_BYTES ((uint64_t)16 << 20)
#define STALL_MS 200

/* ---- every operation ----------------------------------------------------- */

/* A server, and a client that lends a segment; its requests 1 is used. */
struct scene {
    struct server_rig rig;
    struct peer peer;
    uint32_t segment;
    uint64_t number; /* the last one used */
};

static void scene_open(struct scene *scene,
                       const struct mci_control_server_opts *opts)
{
    server_rig_open(&scene->rig, opts, false);
    peer_join(&scene->peer, &scene->rig);
    scene->segment = peer_mount(&scene->peer, 1, SEGMENT_BYTES);
    scene->number = 1;
}

static void scene_close(struct scene *scene)
{
    peer_close(&scene->peer);
    server_rig_close(&scene->rig);
}

static struct asked next(struct scene *scene, enum mci_op op)
{
    return (struct asked){.op = op, .number = ++scene->number};
}

static void put(struct scene *scene, uint64_t first, uint32_t count)
{
    peer_put(&scene->peer, scene->number + 1, first, count);
    scene->number += 2;
}

static void ask_keys(struct scene *scene, enum mci_op op, uint64_t first,
                     uint32_t count)
{
    struct asked asked = next(scene, op);
    peer_send_keys(&scene->peer, &asked, first, count);
    ck_assert_int_eq(peer_answer(&scene->peer, &asked), MC_OK);
}

START_TEST(what_was_put_is_found_by_every_question)
{
    struct scene scene;
    struct mci_read_row row;
    struct mc_probe probe;
    scene_open(&scene, NULL);
    put(&scene, 0, 3);
    ask_keys(&scene, MCI_OP_EXIST, 0, 4);
    ck_assert_uint_eq(peer_count_results(&scene.peer, 1), 3);
    ask_keys(&scene, MCI_OP_GET_SIZE, 0, 4);
    ck_assert_uint_eq(peer_count_results(&scene.peer, 64), 3);
    ask_keys(&scene, MCI_OP_GET, 2, 2);
    ck_assert_uint_eq(mci_rows_unpack(&scene.peer.result), 2);
    mci_read_row_unpack(&scene.peer.result, &row);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(row.size, 64);
    ck_assert_uint_eq(row.place_count, 1);
    ck_assert_uint_eq(row.places[0].segment, scene.segment);
    ck_assert_uint_gt(row.lease_left_ns, 0);
    mci_read_row_unpack(&scene.peer.result, &row);
    ck_assert_int_eq(row.err, MC_ERR_OBJECT_NOT_FOUND);
    ask_keys(&scene, MCI_OP_PROBE, 0, 1);
    ck_assert_uint_eq(mci_rows_unpack(&scene.peer.result), 1);
    ck_assert_int_eq(mci_probe_unpack(&scene.peer.result, &probe), 0);
    ck_assert_int_eq(probe.state, MC_OBJECT_READABLE);
    scene_close(&scene);
}
END_TEST

START_TEST(what_is_removed_is_gone_by_each_way)
{
    struct scene scene;
    scene_open(&scene, NULL);
    put(&scene, 0, 8);
    ask_keys(&scene, MCI_OP_REMOVE, 0, 1);
    ck_assert_uint_eq(peer_count_results(&scene.peer, MC_OK), 1);
    ask_keys(&scene, MCI_OP_EXIST, 0, 1);
    ck_assert_uint_eq(peer_count_results(&scene.peer, 0), 1);

    struct asked asked = next(&scene, MCI_OP_REPLICA_CLEAR);
    const struct mc_view key = mc_view_str("key-1");
    mci_clear_pack(peer_ask(&scene.peer, &asked), scene.segment, &key, 1);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&scene.peer, MC_OK), 1);

    asked = next(&scene, MCI_OP_REMOVE_BY_REGEX);
    mci_regex_pack(peer_ask(&scene.peer, &asked), true,
                   mc_view_str("key-[23]"));
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(mci_unpack_u64(&scene.peer.result, UINT64_MAX), 2);

    asked = next(&scene, MCI_OP_REMOVE_BY_REGEX);
    mci_regex_pack(peer_ask(&scene.peer, &asked), true, mc_view_str("("));
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_ERR_INVALID_PARAMS);

    asked = next(&scene, MCI_OP_REMOVE_ALL);
    mci_pack_bool(peer_ask(&scene.peer, &asked), true);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(mci_unpack_u64(&scene.peer.result, UINT64_MAX), 4);
    ck_assert_uint_eq(server_rig_core(&scene.rig).objects, 0);
    scene_close(&scene);
}
END_TEST

START_TEST(attempts_can_be_revoked_touched_and_asked_about)
{
    struct scene scene;
    uint64_t numbers[2];
    scene_open(&scene, NULL);
    struct asked asked = next(&scene, MCI_OP_PUT_START);
    peer_send_start(&scene.peer, &asked, 0, 2);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_read_started(&scene.peer, numbers, 2), 2);

    asked = next(&scene, MCI_OP_ATTEMPT_TOUCH);
    struct mci_pack *pack = peer_ask(&scene.peer, &asked);
    mci_rows_pack(pack, 2);
    mci_touch_row_pack(pack, mc_view_str("key-0"), numbers[0]);
    mci_touch_row_pack(pack, mc_view_str("key-0"), numbers[1]);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&scene.peer, MC_OK), 1);

    asked = next(&scene, MCI_OP_PUT_REVOKE);
    peer_send_end(&scene.peer, &asked, 0, numbers, 1);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&scene.peer, MC_OK), 1);

    asked = next(&scene, MCI_OP_ATTEMPT_FATE);
    pack = peer_ask(&scene.peer, &asked);
    mci_rows_pack(pack, 2);
    mci_pack_u64(pack, numbers[0]);
    mci_pack_u64(pack, numbers[1]);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(mci_rows_unpack(&scene.peer.result), 2);
    ck_assert_int_eq(mci_result_unpack(&scene.peer.result), MCI_FATE_REFUSED);
    ck_assert_int_eq(mci_result_unpack(&scene.peer.result), MCI_FATE_OPEN);

    asked = next(&scene, MCI_OP_PUT_END);
    numbers[1] = 0;
    peer_send_end(&scene.peer, &asked, 0, numbers, 2);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&scene.peer, MC_ERR_INVALID_VERSION),
                      2);
    scene_close(&scene);
}
END_TEST

START_TEST(an_upsert_replaces)
{
    struct scene scene;
    uint64_t numbers[1];
    scene_open(&scene, NULL);
    put(&scene, 0, 1);
    struct asked asked = next(&scene, MCI_OP_PUT_START);
    peer_send_start(&scene.peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_read_started(&scene.peer, numbers, 1), 0);
    asked = next(&scene, MCI_OP_UPSERT_START);
    peer_send_start(&scene.peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_read_started(&scene.peer, numbers, 1), 1);
    asked = next(&scene, MCI_OP_PUT_END);
    peer_send_end(&scene.peer, &asked, 0, numbers, 1);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(server_rig_core(&scene.rig).commits, 2);
    scene_close(&scene);
}
END_TEST

START_TEST(segments_are_told_and_go)
{
    struct scene scene;
    struct mci_segment_row row;
    scene_open(&scene, NULL);
    struct asked asked = next(&scene, MCI_OP_SEGMENT_STATUS);
    struct mci_pack *pack = peer_ask(&scene.peer, &asked);
    mci_pack_array(pack, 1);
    mci_pack_u64(pack, scene.segment);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(mci_unpack_u32(&scene.peer.result, 9), MCI_SEGMENT_OK);

    asked = next(&scene, MCI_OP_SEGMENT_GET);
    pack = peer_ask(&scene.peer, &asked);
    mci_pack_array(pack, 2);
    mci_pack_u64(pack, scene.segment);
    mci_pack_u64(pack, 999);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(mci_unpack_array(&scene.peer.result, 0, 9), 2);
    ck_assert(mci_segment_row_unpack(&scene.peer.result, &row));
    ck_assert_uint_eq(row.bytes, SEGMENT_BYTES);
    ck_assert_uint_eq(row.incarnation, scene.peer.incarnation);
    ck_assert(mc_view_equal(row.endpoint, mc_view_str("node:2")));
    ck_assert(!mci_segment_row_unpack(&scene.peer.result, &row));

    asked = next(&scene, MCI_OP_SEGMENT_GET);
    mci_pack_array(peer_ask(&scene.peer, &asked), 0);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(mci_unpack_array(&scene.peer.result, 0, 9), 1);

    put(&scene, 0, 5);
    asked = next(&scene, MCI_OP_SEGMENT_UNMOUNT);
    mci_unmount_pack(peer_ask(&scene.peer, &asked), scene.segment, 0);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert(AWAIT(server_rig_core(&scene.rig).objects == 0));
    scene_close(&scene);
}
END_TEST

START_TEST(lists_come_page_by_page_and_figures_by_position)
{
    struct scene scene;
    struct mci_list_head head = {.shard = 0};
    struct mci_stat_words words;
    struct mci_master_stats stats;
    uint32_t seen = 0;
    scene_open(&scene, NULL);
    put(&scene, 0, 1000);
    while (!head.at_end) {
        struct asked asked = next(&scene, MCI_OP_LIST);
        mci_list_args_pack(peer_ask(&scene.peer, &asked), &head);
        ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
        uint32_t count = mci_list_unpack(&scene.peer.result, &head);
        for (uint32_t i = 0; i < count; i++) {
            struct mc_object_row row;
            uint64_t ids[MC_MEDIUM_COUNT];
            mci_object_row_unpack(&scene.peer.result, &row, ids);
            ck_assert_uint_eq(row.size, 64);
        }
        ck_assert_int_eq(mci_unpack_done(&scene.peer.result), MCI_UNPACK_OK);
        seen += count;
    }
    ck_assert_uint_eq(seen, 1000);
    struct asked asked = next(&scene, MCI_OP_STAT);
    mci_pack_nil(peer_ask(&scene.peer, &asked));
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    mci_stat_unpack(&scene.peer.result, &words);
    mci_stat_words_get(&words, &stats);
    ck_assert_uint_eq(stats.objects, 1000);
    ck_assert_uint_eq(stats.capacity_bytes, SEGMENT_BYTES);
    scene_close(&scene);
}
END_TEST

START_TEST(rows_fail_one_by_one_and_batches_may_be_empty)
{
    struct scene scene;
    uint64_t numbers[3];
    static char long_key[MC_KEY_LEN_MAX + 1];
    memset(long_key, 'k', sizeof long_key);
    scene_open(&scene, NULL);
    const struct mci_write_row rows[] = {
        {.key = mc_view_str("good"), .size = 8},
        {.key = mc_view_make(long_key, sizeof long_key), .size = 8},
        {.key = mc_view_str("empty"), .size = 0}};
    struct asked asked = next(&scene, MCI_OP_PUT_START);
    mci_start_pack(peer_ask(&scene.peer, &asked), NULL, rows, 3);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_read_started(&scene.peer, numbers, 3), 1);
    asked = next(&scene, MCI_OP_PUT_END);
    peer_send_end(&scene.peer, &asked, 0, numbers, 0);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&scene.peer, 0), 0);
    struct mci_control_stats stats = server_rig_stats(&scene.rig);
    ck_assert_uint_eq(stats.requests[MCI_OP_PUT_START], 1);
    ck_assert_uint_eq(stats.items[MCI_OP_PUT_START], 3);
    ck_assert_uint_eq(stats.failed_items[MCI_OP_PUT_START], 2);
    ck_assert_uint_eq(stats.partial[MCI_OP_PUT_START], 1);
    ck_assert_uint_eq(stats.failures[MCI_OP_PUT_START], 0);
    ck_assert_uint_gt(stats.kept_bytes, 0);
    scene_close(&scene);
}
END_TEST

#define MANY 1000

/* The last row is a tag that may not be; nothing of the batch may begin. */
static void refuse_by_last_row(uint32_t count)
{
    struct scene scene;
    struct mci_write_row *rows = calloc(count, sizeof *rows);
    struct key_text *texts = calloc(count, sizeof *texts);
    scene_open(&scene, NULL);
    for (uint32_t i = 0; i < count; i++) {
        rows[i].key = key_of(&texts[i], i);
        rows[i].size = 8;
    }
    rows[count - 1].session_id = mc_view_make("\xff", 1);
    struct asked asked = next(&scene, MCI_OP_PUT_START);
    mci_start_pack(peer_ask(&scene.peer, &asked), NULL, rows, count);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(server_rig_core(&scene.rig).attempts, 0);
    scene_close(&scene);
    free(rows);
    free(texts);
}

START_TEST(a_bad_id_in_the_last_row_refuses_all_before_anything_begins)
{
    refuse_by_last_row(2);
    refuse_by_last_row(MANY);
}
END_TEST

START_TEST(rows_of_one_key_count_across_slices)
{
    struct scene scene;
    uint64_t numbers[MANY];
    struct mci_write_row rows[MANY];
    struct key_text texts[MANY];
    scene_open(&scene, NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        rows[i] = (struct mci_write_row){.key = key_of(&texts[i], i % 600),
                                         .size = 8};
    }
    struct asked asked = next(&scene, MCI_OP_PUT_START);
    mci_start_pack(peer_ask(&scene.peer, &asked), NULL, rows, MANY);
    ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_read_started(&scene.peer, numbers, MANY), 600);
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert((numbers[i] != 0) == (i < 600));
    }
    scene_close(&scene);
}
END_TEST

START_TEST(what_is_not_built_or_not_known_is_told_so)
{
    struct scene scene;
    static const int ops[] = {5, 36, 63, 64, 9999, INT32_MAX};
    scene_open(&scene, NULL);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct asked asked = next(&scene, (enum mci_op)ops[i]);
        mci_pack_nil(peer_ask(&scene.peer, &asked));
        ck_assert_int_eq(peer_call(&scene.peer, &asked), MC_ERR_NOT_SUPPORTED);
        ck_assert(mci_unpack_took_nil(&scene.peer.result));
    }
    put(&scene, 0, 1);
    scene_close(&scene);
}
END_TEST

/* ---- who may ask --------------------------------------------------------- */

START_TEST(strangers_and_other_epochs_are_refused_unexecuted)
{
    struct scene scene;
    struct peer peer;
    scene_open(&scene, NULL);
    put(&scene, 0, 1);
    const struct asked asked = {.op = MCI_OP_REMOVE, .number = 1};
    peer_open(&peer, &scene.rig);
    peer_send_keys(&peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&peer, &asked), MC_ERR_CLIENT_NOT_FOUND);
    peer.client = scene.peer.client;
    peer.incarnation = scene.peer.incarnation + 1;
    peer_send_keys(&peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&peer, &asked), MC_ERR_CLIENT_NOT_FOUND);
    peer_close(&peer);
    struct asked other = next(&scene, MCI_OP_REMOVE);
    scene.peer.epoch++;
    peer_send_keys(&scene.peer, &other, 0, 1);
    ck_assert_int_eq(peer_answer(&scene.peer, &other), MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(server_rig_core(&scene.rig).objects, 1);
    scene_close(&scene);
}
END_TEST

START_TEST(after_goodbye_nothing_is_known_of_a_client)
{
    struct scene scene;
    struct peer peer;
    scene_open(&scene, NULL);
    put(&scene, 0, 4);
    const struct asked bye = {.op = MCI_OP_GOODBYE};
    mci_pack_nil(peer_ask(&scene.peer, &bye));
    ck_assert_int_eq(peer_call(&scene.peer, &bye), MC_OK);
    struct asked asked = next(&scene, MCI_OP_EXIST);
    peer_send_keys(&scene.peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_ERR_CLIENT_NOT_FOUND);
    ck_assert(AWAIT(server_rig_core(&scene.rig).objects == 0));
    peer_open(&peer, &scene.rig);
    ck_assert_int_eq(peer_hello(&peer, scene.peer.incarnation, MCI_ROLE_CALLS),
                     MC_ERR_CLIENT_NOT_FOUND);
    peer_close(&peer);
    scene_close(&scene);
}
END_TEST

START_TEST(another_version_is_told_ours_and_closed)
{
    struct scene scene;
    struct peer peer;
    struct mci_welcome welcome;
    struct mci_buf frame;
    struct mci_pack pack;
    scene_open(&scene, NULL);
    peer_open(&peer, &scene.rig);
    mci_buf_init(&frame, 256);
    mci_pack_init(&pack, &frame);
    static const uint8_t no_length[MCI_FRAME_HEAD];
    ck_assert_int_eq(mci_buf_append(&frame, no_length, sizeof no_length),
                     MC_OK);
    mci_pack_array(&pack, 5);
    mci_pack_u64(&pack, 7); /* version */
    mci_pack_u64(&pack, MCI_OP_HELLO);
    mci_pack_u64(&pack, 0);
    mci_pack_u64(&pack, 0);
    mci_pack_text(&pack, "whatever comes then");
    mci_put_le32(frame.data, (uint32_t)(frame.len - MCI_FRAME_HEAD));
    peer_send_bytes(&peer, frame.data, frame.len);
    const struct asked asked = {.op = MCI_OP_HELLO};
    ck_assert_int_eq(peer_answer(&peer, &asked), MC_ERR_NOT_SUPPORTED);
    mci_welcome_unpack(&peer.result, &welcome);
    ck_assert_int_eq(mci_unpack_done(&peer.result), MCI_UNPACK_OK);
    ck_assert_uint_eq(welcome.version_min, MCI_CONTROL_VERSION);
    ck_assert_uint_eq(welcome.version_max, MCI_CONTROL_VERSION);
    peer_expect_end(&peer);
    mci_buf_fini(&frame);
    peer_close(&peer);
    scene_close(&scene);
}
END_TEST

START_TEST(one_connection_too_many_is_told_so)
{
    struct scene scene;
    struct peer second;
    struct peer third;
    const struct mci_control_server_opts opts = {.threads = 1,
                                                 .connections_max = 3};
    scene_open(&scene, &opts);
    peer_join(&second, &scene.rig);
    peer_open(&third, &scene.rig);
    ck_assert_int_eq(peer_hello(&third, 0, MCI_ROLE_CALLS),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    peer_expect_end(&third);
    peer_close(&third);
    ck_assert(AWAIT(server_rig_stats(&scene.rig).connections == 3));
    put(&scene, 0, 1);
    peer_close(&second);
    ck_assert(AWAIT(server_rig_stats(&scene.rig).connections == 2));
    peer_join(&third, &scene.rig);
    peer_close(&third);
    scene_close(&scene);
}
END_TEST

/* ---- bytes --------------------------------------------------------------- */

START_TEST(frames_may_come_in_any_pieces)
{
    struct scene scene;
    scene_open(&scene, NULL);
    put(&scene, 0, 1);
    for (size_t cut = 1; cut < 48; cut++) {
        struct asked asked = next(&scene, MCI_OP_EXIST);
        struct mci_pack *pack = peer_ask(&scene.peer, &asked);
        mci_rows_pack(pack, 1);
        mci_pack_text(pack, "key-0");
        struct mc_view frame = peer_finish(&scene.peer);
        const uint8_t *bytes = frame.data;
        size_t len = cut < frame.len ? cut : frame.len;
        peer_send_bytes(&scene.peer, bytes, len);
        await_turn();
        peer_send_bytes(&scene.peer, bytes + len, frame.len - len);
        ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
        ck_assert_uint_eq(peer_count_results(&scene.peer, 1), 1);
    }
    scene_close(&scene);
}
END_TEST

START_TEST(many_frames_may_come_at_once)
{
    struct scene scene;
    struct mci_buf all;
    uint64_t first;
    enum { COUNT = 3000 };
    scene_open(&scene, NULL);
    put(&scene, 0, 1);
    mci_buf_init(&all, 1 << 20);
    first = scene.number + 1;
    for (int i = 0; i < COUNT; i++) {
        struct asked asked = next(&scene, MCI_OP_EXIST);
        struct mci_pack *pack = peer_ask(&scene.peer, &asked);
        mci_rows_pack(pack, 1);
        mci_pack_text(pack, "key-0");
        struct mc_view frame = peer_finish(&scene.peer);
        ck_assert_int_eq(mci_buf_append(&all, frame.data, frame.len), MC_OK);
    }
    peer_send_bytes(&scene.peer, all.data, all.len);
    for (uint64_t i = 0; i < COUNT; i++) {
        const struct asked asked = {.number = first + i};
        ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
        ck_assert_uint_eq(peer_count_results(&scene.peer, 1), 1);
    }
    mci_buf_fini(&all);
    scene_close(&scene);
}
END_TEST

struct garbage {
    const char *what;
    const char *bytes;
    size_t len;
};

#define BYTES(text) text, sizeof text - 1
static const struct garbage garbage[] = {
    {"a length of 0", BYTES("\0\0\0\0")},
    {"a length of 64 MiB and 1", BYTES("\1\0\0\4")},
    {"a length of 2^31", BYTES("\0\0\0\x80")},
    {"a length of 2^32 - 1", BYTES("\xff\xff\xff\xff")},
    {"HTTP", BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"no array", BYTES("\1\0\0\0\xc0")},
    {"an array that is cut", BYTES("\2\0\0\0\x9a\x02")},
    {"version 0", BYTES("\x0b\0\0\0\x9a\0\x33\0\0\0\0\0\0\xc0\xc0")},
    {"slot 256", BYTES("\x0d\0\0\0\x9a\2\x33\xcd\1\0\0\0\0\0\0\xc0\xc0")},
};
#define GARBAGE (sizeof garbage / sizeof garbage[0])

START_TEST(what_is_no_request_costs_its_connection_alone)
{
    struct scene scene;
    struct peer peer;
    scene_open(&scene, NULL);
    for (size_t i = 0; i < GARBAGE; i++) {
        peer_join_as(&peer, &scene.peer);
        peer_send_bytes(&peer, garbage[i].bytes, garbage[i].len);
        ck_assert(peer_has_answer(&peer, PEER_PATIENCE_MS));
        peer_expect_end(&peer);
        peer_close(&peer);
        ck_assert_uint_eq(server_rig_stats(&scene.rig).malformed, i + 1);
    }
    put(&scene, 0, 1);
    scene_close(&scene);
}
END_TEST

START_TEST(args_that_lie_refuse_the_request_or_cost_the_connection)
{
    struct scene scene;
    struct peer peer;
    scene_open(&scene, NULL);
    peer_join_as(&peer, &scene.peer);
    struct asked asked = {.op = MCI_OP_EXIST, .slot = 1, .number = 1};
    mci_pack_array(peer_ask(&peer, &asked), MC_ROWS_MAX + 1);
    ck_assert_int_eq(peer_call(&peer, &asked), MC_ERR_INVALID_PARAMS);
    mci_pack_array(peer_ask(&peer, &asked), MC_ROWS_MAX);
    peer_send(&peer);
    peer_expect_end(&peer);
    peer_close(&peer);
    peer_join_as(&peer, &scene.peer);
    mci_rows_pack(peer_ask(&peer, &asked), 0);
    mci_pack_nil(&peer.pack); /* behind the array */
    peer_send(&peer);
    peer_expect_end(&peer);
    peer_close(&peer);

    /* A fault in the last of many rows: nothing of them is done. */
    put(&scene, 0, MANY);
    peer_join_as(&peer, &scene.peer);
    asked = (struct asked){.op = MCI_OP_REMOVE, .slot = 1, .number = 2};
    struct mci_pack *pack = peer_ask(&peer, &asked);
    mci_pack_array(pack, 2);
    mci_pack_bool(pack, true);
    mci_rows_pack(pack, MANY);
    for (uint32_t i = 0; i + 1 < MANY; i++) {
        struct key_text text;
        mci_pack_str(pack, key_of(&text, i));
    }
    mci_pack_u64(pack, 1);
    peer_send(&peer);
    peer_expect_end(&peer);
    peer_close(&peer);
    ck_assert_uint_eq(server_rig_core(&scene.rig).objects, MANY);
    scene_close(&scene);
}
END_TEST

START_TEST(memory_is_taken_as_bytes_arrive_whatever_a_length_claims)
{
    struct scene scene;
    struct peer peers[8];
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    static const uint8_t claim[] = {0, 0, 0, 4, 0x9a, 2, 31};
    scene_open(&scene, NULL);
    for (int i = 0; i < 8; i++) {
        peer_join_as(&peers[i], &scene.peer);
    }
    mci_alloc_stats(&before);
    for (int i = 0; i < 8; i++) {
        peer_send_bytes(&peers[i], claim, sizeof claim);
    }
    /* An answer to what was sent later, on each poller: they were read. */
    for (int i = 0; i < 64; i++) {
        ask_keys(&scene, MCI_OP_EXIST, 0, 1);
        await_turn();
    }
    mci_alloc_stats(&after);
    ck_assert_int_lt(after.bytes - before.bytes, 1 << 20);
    for (int i = 0; i < 8; i++) {
        peer_close(&peers[i]);
    }
    scene_close(&scene);
}
END_TEST

START_TEST(the_largest_batch_goes_through)
{
    struct scene scene;
    scene_open(&scene, NULL);
    put(&scene, 0, 8);
    ask_keys(&scene, MCI_OP_EXIST, 0, MC_ROWS_MAX);
    ck_assert_uint_eq(peer_count_results(&scene.peer, 1), 8);
    ask_keys(&scene, MCI_OP_GET, 0, MC_ROWS_MAX);
    ck_assert_uint_eq(mci_rows_unpack(&scene.peer.result), MC_ROWS_MAX);
    scene_close(&scene);
}
END_TEST

/* ---- peers that stop ----------------------------------------------------- */

static const struct mci_control_server_opts impatient = {
    .threads = 1, .stall_timeout_ms = STALL_MS};

START_TEST(a_peer_that_stops_within_a_frame_is_closed)
{
    struct scene scene;
    struct peer peer;
    scene_open(&scene, &impatient);
    peer_join(&peer, &scene.rig);
    peer_send_bytes(&peer, "\x20\0\0\0\x9a", 5);
    peer_expect_end(&peer);
    peer_close(&peer);
    put(&scene, 0, 1);
    scene_close(&scene);
}
END_TEST

START_TEST(a_peer_that_says_nothing_at_all_is_closed)
{
    struct scene scene;
    struct peer peer;
    scene_open(&scene, &impatient);
    peer_open(&peer, &scene.rig);
    peer_expect_end(&peer);
    peer_close(&peer);
    put(&scene, 0, 1);
    scene_close(&scene);
}
END_TEST

START_TEST(a_peer_that_does_not_take_its_answers_is_bounded_and_closed)
{
    struct scene scene;
    struct peer peer;
    struct mci_alloc_stats before;
    struct mci_alloc_stats most;
    scene_open(&scene, &impatient);
    put(&scene, 0, 256);
    peer_join(&peer, &scene.rig);
    mci_alloc_stats(&before);
    /* Asks for far more than sockets hold; the server must stop reading, so
     * not all of it can be sent. */
    struct asked asked = {.op = MCI_OP_GET, .number = 1};
    struct mci_buf frame;
    mci_buf_init(&frame, 1 << 20);
    struct mci_pack *pack = peer_ask(&peer, &asked);
    mci_rows_pack(pack, 256);
    for (uint32_t i = 0; i < 256; i++) {
        struct key_text text;
        mci_pack_str(pack, key_of(&text, i));
    }
    struct mc_view one = peer_finish(&peer);
    ck_assert_int_eq(mci_buf_append(&frame, one.data, one.len), MC_OK);
    bool is_closed = false;
    for (int i = 0; i < 100000 && !is_closed; i++) {
        ssize_t n =
            send(peer.fd, frame.data, frame.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        is_closed = n < 0 && (errno == EPIPE || errno == ECONNRESET);
        if (n != (ssize_t)frame.len) {
            await_turn();
        }
        if (n > 0 && n != (ssize_t)frame.len) {
            break; /* in the middle of a frame: full */
        }
    }
    mci_alloc_stats(&most);
    ck_assert_int_lt(most.bytes - before.bytes, 8 << 20);
    put(&scene, 1000, 1);
    ck_assert(AWAIT(server_rig_stats(&scene.rig).connections == 2));
    mci_buf_fini(&frame);
    peer_close(&peer);
    scene_close(&scene);
}
END_TEST

START_TEST(an_idle_connection_is_closed_where_that_is_asked_for)
{
    struct scene scene;
    const struct mci_control_server_opts opts = {.threads = 1,
                                                 .idle_timeout_s = 1};
    scene_open(&scene, &opts);
    peer_expect_end(&scene.peer);
    scene_close(&scene);
}
END_TEST

/* ---- heartbeats ---------------------------------------------------------- */

START_TEST(heartbeats_go_to_a_poller_of_their_own)
{
    struct scene scene;
    struct peer pulse;
    const uint64_t slots[] = {5};
    scene_open(&scene, NULL);
    peer_pulse(&pulse, &scene.peer);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(peer_beat(&pulse, slots, 1), MC_OK);
    }
    ck_assert_uint_eq(server_rig_stats(&scene.rig).requests[MCI_OP_HEARTBEAT],
                      11);
    /* Below the number that the heartbeat named nothing is done any more. */
    struct asked asked = {.op = MCI_OP_PUT_START, .number = 4};
    peer_send_start(&scene.peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_ERR_INVALID_VERSION);
    asked.number = 5;
    peer_send_start(&scene.peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&scene.peer, &asked), MC_OK);
    pulse.epoch++;
    ck_assert_int_eq(peer_beat(&pulse, slots, 1), MC_ERR_INVALID_VERSION);
    peer_close(&pulse);
    scene_close(&scene);
}
END_TEST

/* ---- ending -------------------------------------------------------------- */

START_TEST(a_server_ends_with_peers_in_every_state)
{
    struct scene scene;
    struct peer peers[4];
    scene_open(&scene, NULL);
    put(&scene, 0, 256);
    for (int i = 0; i < 4; i++) {
        peer_join(&peers[i], &scene.rig);
    }
    peer_send_bytes(&peers[0], "\x20\0\0\0\x9a", 5);
    const struct asked asked = {.op = MCI_OP_EXIST, .number = 1};
    peer_send_keys(&peers[1], &asked, 0, MC_ROWS_MAX);
    peer_send_start(&peers[2],
                    &(struct asked){.op = MCI_OP_PUT_START, .number = 1}, 1000,
                    30000);
    mci_control_server_destroy(scene.rig.server);
    scene.rig.server = NULL;
    for (int i = 0; i < 4; i++) {
        peer_expect_last(&peers[i]);
        peer_close(&peers[i]);
    }
    peer_expect_last(&scene.peer);
    peer_close(&scene.peer);
    server_rig_close(&scene.rig);
}
END_TEST

START_TEST(a_port_that_is_taken_is_an_error)
{
    struct scene scene;
    struct mci_control_server *server = NULL;
    uint16_t port = 0;
    const char *why = NULL;
    scene_open(&scene, NULL);
    const struct mci_control_server_opts opts = {
        .master = scene.rig.master,
        .registry = scene.rig.registry,
        .threads = 1,
        .listen = {.host = "127.0.0.1", .port = scene.rig.port}};
    ck_assert_int_eq(mci_control_server_create(&opts, &server, &port, &why),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    ck_assert_ptr_nonnull(why);
    ck_assert_ptr_null(server);
    scene_close(&scene);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control_server");
    TCase *ops = tcase_create("operations");
    tcase_set_timeout(ops, 60);
    tcase_add_test(ops, what_was_put_is_found_by_every_question);
    tcase_add_test(ops, what_is_removed_is_gone_by_each_way);
    tcase_add_test(ops, attempts_can_be_revoked_touched_and_asked_about);
    tcase_add_test(ops, an_upsert_replaces);
    tcase_add_test(ops, segments_are_told_and_go);
    tcase_add_test(ops, lists_come_page_by_page_and_figures_by_position);
    tcase_add_test(ops, rows_fail_one_by_one_and_batches_may_be_empty);
    tcase_add_test(ops,
                   a_bad_id_in_the_last_row_refuses_all_before_anything_begins);
    tcase_add_test(ops, rows_of_one_key_count_across_slices);
    tcase_add_test(ops, what_is_not_built_or_not_known_is_told_so);
    suite_add_tcase(suite, ops);
    TCase *who = tcase_create("who");
    tcase_set_timeout(who, 60);
    tcase_add_test(who, strangers_and_other_epochs_are_refused_unexecuted);
    tcase_add_test(who, after_goodbye_nothing_is_known_of_a_client);
    tcase_add_test(who, another_version_is_told_ours_and_closed);
    tcase_add_test(who, one_connection_too_many_is_told_so);
    suite_add_tcase(suite, who);
    TCase *bytes = tcase_create("bytes");
    tcase_set_timeout(bytes, 60);
    tcase_add_test(bytes, frames_may_come_in_any_pieces);
    tcase_add_test(bytes, many_frames_may_come_at_once);
    tcase_add_test(bytes, what_is_no_request_costs_its_connection_alone);
    tcase_add_test(bytes,
                   args_that_lie_refuse_the_request_or_cost_the_connection);
    tcase_add_test(bytes,
                   memory_is_taken_as_bytes_arrive_whatever_a_length_claims);
    tcase_add_test(bytes, the_largest_batch_goes_through);
    suite_add_tcase(suite, bytes);
    TCase *stops = tcase_create("peers that stop");
    tcase_set_timeout(stops, 60);
    tcase_add_test(stops, a_peer_that_stops_within_a_frame_is_closed);
    tcase_add_test(stops, a_peer_that_says_nothing_at_all_is_closed);
    tcase_add_test(stops,
                   a_peer_that_does_not_take_its_answers_is_bounded_and_closed);
    tcase_add_test(stops, an_idle_connection_is_closed_where_that_is_asked_for);
    suite_add_tcase(suite, stops);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 60);
    tcase_add_test(life, heartbeats_go_to_a_poller_of_their_own);
    tcase_add_test(life, a_server_ends_with_peers_in_every_state);
    tcase_add_test(life, a_port_that_is_taken_is_an_error);
    suite_add_tcase(suite, life);
    return suite_run(suite);
}
