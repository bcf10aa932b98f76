/* SPDX-License-Identifier: Apache-2.0 */
/* Values at their limits and one past; whole frames are in
 * test_control_frames.c. */
#include <string.h>

#include "alloc_fail.h"
#include "control_rig.h"
#include "mci_bytes.h"
#include "suite.h"

static struct mc_view view_of_byte(char byte, size_t len)
{
    char *bytes = malloc(len ? len : 1);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, byte, len);
    return mc_view_make(bytes, len);
}

static void view_free(struct mc_view view)
{
    free((void *)(uintptr_t)view.data);
}

/* ---- frames ------------------------------------------------------------ */

static const struct mci_request full_request = {
    .version = MCI_CONTROL_VERSION,
    .op = MCI_OP_EXIST,
    .slot = MCI_SLOTS_MAX - 1,
    .number = UINT64_MAX,
    .time_left_ms = UINT32_MAX,
    .client = UINT32_MAX,
    .incarnation = UINT64_MAX,
    .epoch = UINT64_MAX,
    .tenant = {"t", 1},
};

START_TEST(a_request_keeps_its_fields_at_their_limits)
{
    struct control_rig rig;
    struct mci_request read;
    control_rig_init(&rig);
    ck_assert_uint_eq(mci_request_begin(&rig.pack, &full_request), 0);
    mci_pack_nil(&rig.pack);
    ck_assert_int_eq(mci_frame_finish(&rig.pack, 0), MC_OK);
    ck_assert_uint_eq(mci_get_le32(rig.buf.data), rig.buf.len - MCI_FRAME_HEAD);
    mci_unpack_init(&rig.unpack, mc_view_make(rig.buf.data + MCI_FRAME_HEAD,
                                              rig.buf.len - MCI_FRAME_HEAD));
    mci_request_read(&rig.unpack, &read);
    mci_unpack_nil(&rig.unpack);
    control_rig_done(&rig);
    ck_assert_uint_eq(read.version, MCI_CONTROL_VERSION);
    ck_assert_int_eq(read.op, MCI_OP_EXIST);
    ck_assert_uint_eq(read.slot, MCI_SLOTS_MAX - 1);
    ck_assert_uint_eq(read.number, UINT64_MAX);
    ck_assert_uint_eq(read.time_left_ms, UINT32_MAX);
    ck_assert_uint_eq(read.client, UINT32_MAX);
    ck_assert_uint_eq(read.incarnation, UINT64_MAX);
    ck_assert_uint_eq(read.epoch, UINT64_MAX);
    ck_assert(mc_view_equal(read.tenant, mc_view_str("t")));
    control_rig_fini(&rig);
}
END_TEST

START_TEST(frames_stand_behind_each_other)
{
    struct control_rig rig;
    struct mci_answer answer = {
        .version = MCI_CONTROL_VERSION, .slot = 1, .number = 2};
    control_rig_init(&rig);
    size_t first = mci_answer_begin(&rig.pack, &answer);
    mci_pack_nil(&rig.pack);
    ck_assert_int_eq(mci_frame_finish(&rig.pack, first), MC_OK);
    size_t second = mci_answer_begin(&rig.pack, &answer);
    mci_pack_u64(&rig.pack, 1000);
    ck_assert_int_eq(mci_frame_finish(&rig.pack, second), MC_OK);
    ck_assert_uint_eq(mci_get_le32(rig.buf.data) + MCI_FRAME_HEAD, second);
    ck_assert_uint_eq(mci_get_le32(rig.buf.data + second) + MCI_FRAME_HEAD,
                      rig.buf.len - second);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_slot_past_the_last_is_refused)
{
    struct control_rig rig;
    struct mci_request request = full_request;
    control_rig_init(&rig);
    request.slot = MCI_SLOTS_MAX;
    (void)mci_request_begin(&rig.pack, &request);
    mci_unpack_init(&rig.unpack, mc_view_make(rig.buf.data + MCI_FRAME_HEAD,
                                              rig.buf.len - MCI_FRAME_HEAD));
    mci_request_read(&rig.unpack, &request);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    control_rig_fini(&rig);
}
END_TEST

/* Another version may have fewer fields, more, or others behind the first. */
static void check_other_version(uint32_t fields)
{
    struct control_rig rig;
    struct mci_request request;
    control_rig_init(&rig);
    mci_pack_array(&rig.pack, fields);
    mci_pack_u64(&rig.pack, MCI_CONTROL_VERSION + 1);
    mci_pack_u64(&rig.pack, 99);
    mci_pack_u64(&rig.pack, 255);
    mci_pack_u64(&rig.pack, UINT64_MAX);
    for (uint32_t i = 4; i < fields; i++) {
        mci_pack_text(&rig.pack, "of another time");
    }
    mci_request_read(control_rig_read(&rig), &request);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    ck_assert_uint_eq(request.version, MCI_CONTROL_VERSION + 1);
    ck_assert_int_eq(request.op, 99);
    ck_assert_uint_eq(request.slot, 255);
    ck_assert_uint_eq(request.number, UINT64_MAX);
    ck_assert_uint_eq(request.client, 0);
    control_rig_fini(&rig);
}

START_TEST(a_request_of_another_version_says_which_and_whom_to_answer)
{
    check_other_version(4);
    check_other_version(10);
    check_other_version(40);
}
END_TEST

START_TEST(an_answer_of_another_version_says_which)
{
    struct control_rig rig;
    struct mci_answer answer = {.version = 3, .slot = 1, .number = 2};
    control_rig_init(&rig);
    (void)mci_answer_begin(&rig.pack, &answer);
    mci_pack_nil(&rig.pack);
    mci_unpack_init(&rig.unpack, mc_view_make(rig.buf.data + MCI_FRAME_HEAD,
                                              rig.buf.len - MCI_FRAME_HEAD));
    mci_answer_read(&rig.unpack, &answer);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    ck_assert_uint_eq(answer.version, 3);
    ck_assert_uint_eq(answer.number, 2);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(our_version_with_another_count_of_fields_is_refused)
{
    struct control_rig rig;
    struct mci_request request;
    control_rig_init(&rig);
    mci_pack_array(&rig.pack, 11);
    for (unsigned i = 0; i < 11; i++) {
        mci_pack_u64(&rig.pack, MCI_CONTROL_VERSION);
    }
    mci_request_read(control_rig_read(&rig), &request);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(an_answer_can_be_given_another_code)
{
    static const uint64_t numbers[] = {0, 127, 128, 70000, UINT64_MAX};
    struct control_rig rig;
    control_rig_init(&rig);
    for (size_t i = 0; i < 5; i++) {
        struct mci_answer answer = {.version = MCI_CONTROL_VERSION,
                                    .slot = (uint32_t)(i * 60),
                                    .number = numbers[i]};
        (void)control_rig_again(&rig);
        mci_pack_text(&rig.pack, "before");
        size_t at = mci_answer_begin(&rig.pack, &answer);
        mci_pack_text(&rig.pack, "result");
        size_t len = rig.buf.len;
        mci_answer_recode(&rig.pack, at, MC_ERR_RPC_TIMEOUT);
        ck_assert_uint_eq(rig.buf.len, len);
        mci_unpack_init(&rig.unpack,
                        mc_view_make(rig.buf.data + at + MCI_FRAME_HEAD,
                                     rig.buf.len - at - MCI_FRAME_HEAD));
        mci_answer_read(&rig.unpack, &answer);
        ck_assert_uint_eq(answer.slot, i * 60);
        ck_assert_uint_eq(answer.number, numbers[i]);
        ck_assert_int_eq(answer.code, MC_ERR_RPC_TIMEOUT);
        (void)mci_unpack_str(&rig.unpack, 6);
        control_rig_done(&rig);
    }
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_frame_is_at_most_as_long_as_a_message)
{
    struct control_rig rig;
    struct mci_answer answer = {.version = MCI_CONTROL_VERSION};
    control_rig_init(&rig);
    size_t at = mci_answer_begin(&rig.pack, &answer);
    size_t room = MC_MESSAGE_LEN_MAX - (rig.buf.len - MCI_FRAME_HEAD) - 5;
    struct mc_view body = view_of_byte('x', room + 1);
    mci_pack_str(&rig.pack, mc_view_make(body.data, room));
    ck_assert_int_eq(mci_frame_finish(&rig.pack, at), MC_OK);
    ck_assert_uint_eq(mci_get_le32(rig.buf.data), MC_MESSAGE_LEN_MAX);
    (void)control_rig_again(&rig);
    at = mci_answer_begin(&rig.pack, &answer);
    mci_pack_str(&rig.pack, body);
    ck_assert_int_eq(mci_frame_finish(&rig.pack, at), MC_ERR_INVALID_PARAMS);
    view_free(body);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_code_is_never_above_0)
{
    struct control_rig rig;
    struct mci_answer answer;
    control_rig_init(&rig);
    mci_pack_array(&rig.pack, 5);
    mci_pack_u64(&rig.pack, 1);
    mci_pack_u64(&rig.pack, 1);
    mci_pack_u64(&rig.pack, 1);
    mci_pack_u64(&rig.pack, 1);
    mci_pack_nil(&rig.pack);
    mci_answer_read(control_rig_read(&rig), &answer);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(ops_have_names_and_those_that_change_something_are_known)
{
    unsigned mutating = 0;
    ck_assert_str_eq(mci_op_name(MCI_OP_PUT_START), "put_start");
    ck_assert_str_eq(mci_op_name(MCI_OP_STAT), "stat");
    ck_assert_str_eq(mci_op_name((enum mci_op)0), "unknown");
    ck_assert_str_eq(mci_op_name((enum mci_op)5), "unknown");
    ck_assert_str_eq(mci_op_name((enum mci_op)52), "unknown");
    ck_assert_str_eq(mci_op_name((enum mci_op) - 1), "unknown");
    for (int op = 0; op < 64; op++) {
        mutating += mci_op_mutates((enum mci_op)op);
    }
    ck_assert_uint_eq(mutating, 11);
    ck_assert(mci_op_mutates(MCI_OP_UPSERT_START));
    ck_assert(mci_op_mutates(MCI_OP_REMOVE_ALL));
    ck_assert(!mci_op_mutates(MCI_OP_GET));
    ck_assert(!mci_op_mutates(MCI_OP_HEARTBEAT));
}
END_TEST

/* ---- life -------------------------------------------------------------- */

START_TEST(names_have_255_bytes_at_most)
{
    struct control_rig rig;
    struct mci_hello read;
    struct mc_view name = view_of_byte('n', MCI_NAME_LEN_MAX + 1);
    struct mci_hello hello = {.version_min = 1, .version_max = 1};
    control_rig_init(&rig);
    hello.name = mc_view_make(name.data, MCI_NAME_LEN_MAX);
    mci_hello_pack(&rig.pack, &hello);
    mci_hello_unpack(control_rig_read(&rig), &read);
    control_rig_done(&rig);
    ck_assert(mc_view_equal(read.name, hello.name));
    hello.name = name;
    mci_hello_pack(control_rig_again(&rig), &hello);
    control_rig_refused(&rig);
    view_free(name);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_name_that_was_sent_too_long_or_empty_is_refused)
{
    struct control_rig rig;
    struct mci_hello read;
    struct mc_view name = view_of_byte('n', MCI_NAME_LEN_MAX + 1);
    control_rig_init(&rig);
    for (size_t len = 0; len <= name.len; len += name.len) {
        (void)control_rig_again(&rig);
        mci_pack_array(&rig.pack, 8);
        for (unsigned i = 0; i < 4; i++) {
            mci_pack_u64(&rig.pack, 1);
        }
        mci_pack_str(&rig.pack, mc_view_make(name.data, len));
        for (unsigned i = 0; i < 3; i++) {
            mci_pack_nil(&rig.pack);
        }
        mci_hello_unpack(control_rig_read(&rig), &read);
        ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
    }
    view_free(name);
    control_rig_fini(&rig);
}
END_TEST

/* A bad tenant is for the master to refuse, not a broken message. */
START_TEST(a_tenant_that_is_too_long_stays_too_long)
{
    struct control_rig rig;
    struct mci_hello read;
    struct mci_hello hello = {.tenant = view_of_byte('t', 1000)};
    control_rig_init(&rig);
    mci_hello_pack(&rig.pack, &hello);
    mci_hello_unpack(control_rig_read(&rig), &read);
    control_rig_done(&rig);
    ck_assert_uint_eq(read.tenant.len, MC_TENANT_LEN_MAX + 1);
    view_free(hello.tenant);
    control_rig_fini(&rig);
}
END_TEST

struct beat_rig {
    uint64_t slots[MCI_SLOTS_MAX + 1];
    struct mci_known_attempt *attempts;
    struct mci_stuck *stuck;
    struct mci_heartbeat_room room;
    struct mci_heartbeat beat;
};

static void *many(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static void beat_init(struct beat_rig *beat)
{
    size_t count = MC_ATTEMPTS_MAX;
    beat->attempts = many(count + 1, sizeof *beat->attempts);
    beat->stuck = many(count + 1, sizeof *beat->stuck);
    beat->room.attempts = many(count, sizeof *beat->attempts);
    beat->room.stuck = many(count, sizeof *beat->stuck);
    for (size_t i = 0; i < count; i++) {
        beat->attempts[i].number = (UINT64_C(1) << 40) + i;
        beat->attempts[i].age_ms = i;
        beat->attempts[i].key =
            i % 2 ? mc_view_str("key") : mc_view_make(NULL, 0);
        beat->stuck[i] = (struct mci_stuck){i, ~(uint64_t)i};
    }
    for (size_t i = 0; i < MCI_SLOTS_MAX; i++) {
        beat->slots[i] = UINT64_MAX - i;
    }
    beat->beat = (struct mci_heartbeat){
        .clock_ns = UINT64_MAX,
        .fences_done = UINT64_MAX,
        .slots = beat->slots,
        .slot_count = MCI_SLOTS_MAX,
        .attempts = beat->attempts,
        .attempt_count = MC_ATTEMPTS_MAX,
        .stuck = beat->stuck,
        .stuck_count = MC_ATTEMPTS_MAX,
    };
}

static void beat_fini(struct beat_rig *beat)
{
    free(beat->attempts);
    free(beat->stuck);
    free(beat->room.attempts);
    free(beat->room.stuck);
}

static void check_beat(const struct beat_rig *beat,
                       const struct mci_heartbeat *read)
{
    ck_assert_uint_eq(read->clock_ns, UINT64_MAX);
    ck_assert_uint_eq(read->fences_done, UINT64_MAX);
    ck_assert_uint_eq(read->slot_count, MCI_SLOTS_MAX);
    ck_assert_mem_eq(read->slots, beat->slots, sizeof beat->room.slots);
    ck_assert_uint_eq(read->attempt_count, MC_ATTEMPTS_MAX);
    ck_assert_uint_eq(read->stuck_count, MC_ATTEMPTS_MAX);
    for (size_t i = 0; i < MC_ATTEMPTS_MAX; i++) {
        const struct mci_known_attempt *known = &read->attempts[i];
        ck_assert_uint_eq(known->number, beat->attempts[i].number);
        ck_assert_uint_eq(known->age_ms, i);
        ck_assert(mc_view_equal(known->key, beat->attempts[i].key));
        ck_assert_uint_eq(read->stuck[i].attempt, i);
        ck_assert_uint_eq(read->stuck[i].incarnation, ~(uint64_t)i);
    }
}

START_TEST(a_heartbeat_lists_as_much_as_a_client_may_have)
{
    struct control_rig rig;
    struct beat_rig beat;
    struct mci_heartbeat read;
    control_rig_init(&rig);
    beat_init(&beat);
    mci_heartbeat_pack(&rig.pack, &beat.beat);
    mci_heartbeat_unpack(control_rig_read(&rig), &beat.room, &read);
    control_rig_done(&rig);
    check_beat(&beat, &read);
    beat_fini(&beat);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_heartbeat_lists_not_one_more)
{
    struct control_rig rig;
    struct beat_rig beat;
    control_rig_init(&rig);
    beat_init(&beat);
    uint32_t *counts[] = {&beat.beat.slot_count, &beat.beat.attempt_count,
                          &beat.beat.stuck_count};
    for (size_t i = 0; i < 3; i++) {
        ++*counts[i];
        mci_heartbeat_pack(control_rig_again(&rig), &beat.beat);
        control_rig_refused(&rig);
        --*counts[i];
    }
    beat_fini(&beat);
    control_rig_fini(&rig);
}
END_TEST

/* Room is for so many; a count beyond must be seen before anything is read. */
START_TEST(lists_of_a_heartbeat_that_are_too_long_are_refused)
{
    static const uint32_t limits[] = {MCI_SLOTS_MAX, MC_ATTEMPTS_MAX,
                                      MC_ATTEMPTS_MAX};
    struct control_rig rig;
    struct beat_rig beat;
    struct mci_heartbeat read;
    control_rig_init(&rig);
    beat_init(&beat);
    for (size_t list = 0; list < 3; list++) {
        (void)control_rig_again(&rig);
        mci_pack_array(&rig.pack, 5);
        mci_pack_u64(&rig.pack, 1);
        mci_pack_u64(&rig.pack, 1);
        for (size_t i = 0; i < list; i++) {
            mci_pack_array(&rig.pack, 0);
        }
        mci_pack_array(&rig.pack, limits[list] + 1);
        for (uint32_t i = 0; i <= limits[list]; i++) {
            mci_pack_u64(&rig.pack, 1);
        }
        mci_heartbeat_unpack(control_rig_read(&rig), &beat.room, &read);
        ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
        ck_assert_uint_eq(read.slot_count + read.attempt_count, 0);
    }
    beat_fini(&beat);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_pulse_lists_as_much_as_it_may_and_not_one_more)
{
    struct control_rig rig;
    struct mci_pulse read;
    struct mci_pulse_room room = {
        many(MCI_FENCES_MAX + 1, sizeof *room.fences),
        many(MC_ATTEMPTS_MAX + 1, sizeof *room.closed),
        many(MC_ATTEMPTS_MAX + 1, sizeof *room.renewals),
    };
    struct mci_pulse pulse = {room.fences,     MCI_FENCES_MAX, room.closed,
                              MC_ATTEMPTS_MAX, room.renewals,  MC_ATTEMPTS_MAX};
    room.renewals[9].place_count = MCI_REPLICAS_MAX;
    room.renewals[9].grants[3].tag = UINT64_MAX;
    room.fences[MCI_FENCES_MAX - 1].kind = MC_FENCE_INCARNATION;
    room.closed[MC_ATTEMPTS_MAX - 1] = UINT64_MAX;
    control_rig_init(&rig);
    mci_pulse_pack(&rig.pack, &pulse);
    mci_pulse_unpack(control_rig_read(&rig), &room, &read);
    control_rig_done(&rig);
    ck_assert_uint_eq(read.fence_count, MCI_FENCES_MAX);
    ck_assert_int_eq(read.fences[MCI_FENCES_MAX - 1].kind,
                     MC_FENCE_INCARNATION);
    ck_assert_uint_eq(read.closed_count, MC_ATTEMPTS_MAX);
    ck_assert_uint_eq(read.closed[MC_ATTEMPTS_MAX - 1], UINT64_MAX);
    ck_assert_uint_eq(read.renewal_count, MC_ATTEMPTS_MAX);
    ck_assert_uint_eq(read.renewals[9].grants[3].tag, UINT64_MAX);
    uint32_t *counts[] = {&pulse.fence_count, &pulse.closed_count,
                          &pulse.renewal_count, &room.renewals[9].place_count};
    for (size_t i = 0; i < 4; i++) {
        ++*counts[i];
        mci_pulse_pack(control_rig_again(&rig), &pulse);
        control_rig_refused(&rig);
        --*counts[i];
    }
    free(room.fences);
    free(room.closed);
    free(room.renewals);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_fence_of_an_unknown_kind_is_refused)
{
    struct control_rig rig;
    struct mci_pulse read;
    struct mc_fence fence;
    struct mci_pulse_room room = {&fence, NULL, NULL};
    control_rig_init(&rig);
    mci_pack_array(&rig.pack, 3);
    mci_pack_array(&rig.pack, 1);
    mci_pack_array(&rig.pack, 3);
    mci_pack_u64(&rig.pack, 1);
    mci_pack_u64(&rig.pack, 2);
    mci_pack_u64(&rig.pack, 1);
    mci_pack_array(&rig.pack, 0);
    mci_pack_array(&rig.pack, 0);
    mci_pulse_unpack(control_rig_read(&rig), &room, &read);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    ck_assert_uint_eq(read.fence_count, 0);
    control_rig_fini(&rig);
}
END_TEST

/* ---- segments ---------------------------------------------------------- */

START_TEST(a_mount_keeps_its_fields)
{
    struct control_rig rig;
    struct mci_mount read;
    struct mci_mount mount = {
        .id = {1, UINT64_MAX},
        .registration = UINT64_MAX,
        .key = "0123456789abcde",
        .bytes = UINT64_MAX,
        .base = UINT64_MAX,
        .name = mc_view_str("h:1"),
        .endpoint = mc_view_str("h:2"),
        .protocol = mc_view_str("tcp"),
    };
    control_rig_init(&rig);
    mci_mount_pack(&rig.pack, &mount);
    mci_mount_unpack(control_rig_read(&rig), &read);
    control_rig_done(&rig);
    ck_assert_uint_eq(read.id[0], 1);
    ck_assert_uint_eq(read.id[1], UINT64_MAX);
    ck_assert_uint_eq(read.registration, UINT64_MAX);
    ck_assert_mem_eq(read.key, mount.key, MC_GRANT_KEY_LEN);
    ck_assert_uint_eq(read.bytes, UINT64_MAX);
    ck_assert_uint_eq(read.base, UINT64_MAX);
    ck_assert(mc_view_equal(read.endpoint, mount.endpoint));
    ck_assert_ptr_null(read.shm.data);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_key_of_another_length_is_refused)
{
    struct control_rig rig;
    struct mci_mount read;
    control_rig_init(&rig);
    for (size_t len = 15; len <= 17; len += 2) {
        (void)control_rig_again(&rig);
        mci_pack_array(&rig.pack, 10);
        mci_pack_u64(&rig.pack, 1);
        mci_pack_u64(&rig.pack, 1);
        mci_pack_u64(&rig.pack, 1);
        mci_pack_bin(&rig.pack, mc_view_make("0123456789abcdef", len));
        for (unsigned i = 0; i < 6; i++) {
            mci_pack_nil(&rig.pack);
        }
        mci_mount_unpack(control_rig_read(&rig), &read);
        ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
    }
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_status_past_the_table_is_refused)
{
    struct control_rig rig;
    struct mci_segment_row read;
    struct mci_segment_row row = {
        .status = (enum mci_segment_status)(MCI_SEGMENT_UNMOUNTING + 1),
        .name = mc_view_str("h:1"),
        .protocol = mc_view_str("tcp"),
    };
    control_rig_init(&rig);
    mci_segment_row_pack(&rig.pack, &row);
    ck_assert(!mci_segment_row_unpack(control_rig_read(&rig), &read));
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    row.status = MCI_SEGMENT_UNMOUNTING;
    mci_segment_row_pack(control_rig_again(&rig), &row);
    ck_assert(mci_segment_row_unpack(control_rig_read(&rig), &read));
    control_rig_done(&rig);
    control_rig_fini(&rig);
}
END_TEST

/* ---- lists and figures ------------------------------------------------- */

START_TEST(a_longer_stat_is_read_as_far_as_it_is_known)
{
    struct control_rig rig;
    struct mci_stat_words stat;
    control_rig_init(&rig);
    mci_pack_array(&rig.pack, 3);
    mci_pack_array(&rig.pack, MCI_STAT_WORDS_MAX + 10);
    for (uint64_t i = 0; i < MCI_STAT_WORDS_MAX + 10; i++) {
        mci_pack_u64(&rig.pack, 1000 + i);
    }
    mci_pack_text(&rig.pack, "tcp://h:1");
    mci_pack_nil(&rig.pack);
    mci_stat_unpack(control_rig_read(&rig), &stat);
    control_rig_done(&rig);
    ck_assert_uint_eq(stat.count, MCI_STAT_WORDS_MAX);
    ck_assert_uint_eq(stat.words[MCI_STAT_WORDS_MAX - 1],
                      1000 + MCI_STAT_WORDS_MAX - 1);
    ck_assert(mc_view_equal(stat.events_endpoint, mc_view_str("tcp://h:1")));
    stat.count = MCI_STAT_WORDS_MAX + 1;
    mci_stat_pack(control_rig_again(&rig), &stat);
    control_rig_refused(&rig);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(an_object_row_keeps_its_fields_at_their_limits)
{
    struct control_rig rig;
    struct mc_object_row read;
    uint64_t ids[MC_MEDIUM_COUNT] = {UINT64_MAX, 5};
    uint64_t read_ids[MC_MEDIUM_COUNT];
    struct mc_object_row row = {
        .tenant_id = view_of_byte('t', MC_TENANT_LEN_MAX),
        .key = view_of_byte('k', MC_KEY_LEN_MAX),
        .group_id = view_of_byte('g', MC_GROUP_ID_LEN_MAX),
        .session_id = view_of_byte('s', MC_SESSION_ID_LEN_MAX),
        .media = 3,
        .size = MC_OBJECT_SIZE_MAX,
        .version = UINT64_MAX,
        .last_event_id = UINT64_MAX,
    };
    control_rig_init(&rig);
    mci_object_row_pack(&rig.pack, &row, ids);
    mci_object_row_unpack(control_rig_read(&rig), &read, read_ids);
    control_rig_done(&rig);
    ck_assert(mc_view_equal(read.tenant_id, row.tenant_id));
    ck_assert(mc_view_equal(read.key, row.key));
    ck_assert(mc_view_equal(read.group_id, row.group_id));
    ck_assert(mc_view_equal(read.session_id, row.session_id));
    ck_assert_uint_eq(read.size, row.size);
    ck_assert_uint_eq(read.version, UINT64_MAX);
    ck_assert_mem_eq(ids, read_ids, sizeof ids);
    view_free(row.tenant_id);
    view_free(row.key);
    view_free(row.group_id);
    view_free(row.session_id);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(without_memory_the_pack_says_so)
{
    struct alloc_fail fail;
    struct mc_view key = view_of_byte('k', 200);
    ALLOC_FAIL_EACH(fail)
    {
        struct control_rig rig;
        control_rig_init(&rig);
        alloc_fail_arm(&fail);
        size_t at = mci_request_begin(&rig.pack, &full_request);
        mci_keys_pack(&rig.pack, &key, 1);
        enum mc_err err = mci_frame_finish(&rig.pack, at);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        control_rig_fini(&rig);
    }
    view_free(key);
}
END_TEST

static TCase *frames_case(void)
{
    TCase *frames = tcase_create("frames");
    tcase_add_test(frames, a_request_keeps_its_fields_at_their_limits);
    tcase_add_test(frames, frames_stand_behind_each_other);
    tcase_add_test(frames, a_slot_past_the_last_is_refused);
    tcase_add_test(frames,
                   a_request_of_another_version_says_which_and_whom_to_answer);
    tcase_add_test(frames, an_answer_of_another_version_says_which);
    tcase_add_test(frames, our_version_with_another_count_of_fields_is_refused);
    tcase_add_test(frames, an_answer_can_be_given_another_code);
    tcase_add_test(frames, a_frame_is_at_most_as_long_as_a_message);
    tcase_add_test(frames, a_code_is_never_above_0);
    tcase_add_test(frames,
                   ops_have_names_and_those_that_change_something_are_known);
    tcase_add_test(frames, without_memory_the_pack_says_so);
    return frames;
}

static TCase *life_case(void)
{
    TCase *life = tcase_create("life");
    tcase_add_test(life, names_have_255_bytes_at_most);
    tcase_add_test(life, a_name_that_was_sent_too_long_or_empty_is_refused);
    tcase_add_test(life, a_tenant_that_is_too_long_stays_too_long);
    tcase_add_test(life, a_heartbeat_lists_as_much_as_a_client_may_have);
    tcase_add_test(life, a_heartbeat_lists_not_one_more);
    tcase_add_test(life, lists_of_a_heartbeat_that_are_too_long_are_refused);
    tcase_add_test(life, a_pulse_lists_as_much_as_it_may_and_not_one_more);
    tcase_add_test(life, a_fence_of_an_unknown_kind_is_refused);
    return life;
}

int main(void)
{
    Suite *suite = suite_create("control");
    suite_add_tcase(suite, frames_case());
    suite_add_tcase(suite, life_case());
    TCase *segments = tcase_create("segments");
    tcase_add_test(segments, a_mount_keeps_its_fields);
    tcase_add_test(segments, a_key_of_another_length_is_refused);
    tcase_add_test(segments, a_status_past_the_table_is_refused);
    suite_add_tcase(suite, segments);
    TCase *lists = tcase_create("lists");
    tcase_add_test(lists, a_longer_stat_is_read_as_far_as_it_is_known);
    tcase_add_test(lists, an_object_row_keeps_its_fields_at_their_limits);
    suite_add_tcase(suite, lists);
    return suite_run(suite);
}
