/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of writing and reading at their limits and one past. */
#include <string.h>

#include "control_rig.h"
#include "suite.h"

#define TOO_MANY (MC_ROWS_MAX + 1)

static void *many(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* ---- config ------------------------------------------------------------ */

static const char *const sixteen[MCI_PREFERRED_MAX + 1] = {
    "a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "g:1", "h:1", "i:1",
    "j:1", "k:1", "l:1", "m:1", "n:1", "o:1", "p:1", "q:1"};

static void check_config(const struct mc_replicate_config *read,
                         const struct mc_replicate_config *config)
{
    ck_assert_uint_eq(read->replica_num, config->replica_num);
    ck_assert_uint_eq(read->nof_replica_num, config->nof_replica_num);
    ck_assert_uint_eq(read->dfs_replica_num, config->dfs_replica_num);
    ck_assert_int_eq(read->soft_pin_action, config->soft_pin_action);
    ck_assert_uint_eq(read->soft_pin_ttl_ms, config->soft_pin_ttl_ms);
    ck_assert_int_eq(read->with_hard_pin, config->with_hard_pin);
    ck_assert_int_eq(read->data_type, config->data_type);
    ck_assert_str_eq(read->preferred_segment, config->preferred_segment);
    ck_assert_uint_eq(read->preferred_segment_count,
                      config->preferred_segment_count);
    for (size_t i = 0; i < read->preferred_segment_count; i++) {
        ck_assert_str_eq(read->preferred_segments[i],
                         config->preferred_segments[i]);
    }
    ck_assert_int_eq(read->prefer_alloc_in_same_node,
                     config->prefer_alloc_in_same_node);
    ck_assert_int_eq(read->checksum, config->checksum);
    ck_assert_ptr_null(read->session_ids);
    ck_assert_ptr_null(read->group_ids);
}

/* What no store accepts still arrives, so that it is the store that refuses it. */
static const struct mc_replicate_config full_config = {
    .replica_num = UINT32_MAX,
    .nof_replica_num = 1,
    .dfs_replica_num = 2,
    .soft_pin_action = (enum mc_soft_pin_action)77,
    .soft_pin_ttl_ms = MC_NONE,
    .with_hard_pin = true,
    .data_type = (enum mc_data_type)99,
    .preferred_segment = "z:1",
    .preferred_segments = sixteen,
    .preferred_segment_count = MCI_PREFERRED_MAX,
    .prefer_alloc_in_same_node = true,
    .checksum = true,
};

START_TEST(a_config_keeps_its_fields_at_their_limits)
{
    struct control_rig rig;
    static struct mci_config_room room;
    const struct mc_replicate_config *read;
    control_rig_init(&rig);
    mci_start_pack(&rig.pack, &full_config, NULL, 0);
    ck_assert_uint_eq(mci_start_unpack(control_rig_read(&rig), &room, &read),
                      0);
    control_rig_done(&rig);
    ck_assert_ptr_nonnull(read);
    check_config(read, &full_config);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(no_config_arrives_as_none)
{
    struct control_rig rig;
    static struct mci_config_room room;
    const struct mc_replicate_config *read = &full_config;
    control_rig_init(&rig);
    mci_start_pack(&rig.pack, NULL, NULL, 0);
    (void)mci_start_unpack(control_rig_read(&rig), &room, &read);
    control_rig_done(&rig);
    ck_assert_ptr_null(read);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_config_past_its_limits_is_not_sent)
{
    struct control_rig rig;
    char name[MCI_NAME_LEN_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const char *const hollow[] = {NULL};
    struct mc_replicate_config configs[4] = {
        {.preferred_segments = sixteen, .preferred_segment_count = 17},
        {.preferred_segments = NULL, .preferred_segment_count = 1},
        {.preferred_segments = hollow, .preferred_segment_count = 1},
        {.preferred_segment = name},
    };
    control_rig_init(&rig);
    for (size_t i = 0; i < 4; i++) {
        mci_start_pack(control_rig_again(&rig), &configs[i], NULL, 0);
        control_rig_refused(&rig);
    }
    name[MCI_NAME_LEN_MAX] = '\0';
    mci_start_pack(control_rig_again(&rig), &configs[3], NULL, 0);
    ck_assert_int_eq(mci_pack_done(&rig.pack), MC_OK);
    control_rig_fini(&rig);
}
END_TEST

static void pack_hostile_config(struct mci_pack *pack, struct mc_view preferred,
                                uint32_t count)
{
    mci_pack_array(pack, 2);
    mci_pack_array(pack, 11);
    for (unsigned i = 0; i < 5; i++) {
        mci_pack_u64(pack, 0);
    }
    mci_pack_bool(pack, false);
    mci_pack_u64(pack, 0);
    mci_pack_nil(pack);
    mci_pack_array(pack, count);
    for (uint32_t i = 0; i < count; i++) {
        mci_pack_str(pack, preferred);
    }
    mci_pack_bool(pack, false);
    mci_pack_bool(pack, false);
    mci_pack_array(pack, 0);
}

START_TEST(a_config_past_its_limits_is_refused_by_the_reader)
{
    struct control_rig rig;
    static struct mci_config_room room;
    static const char long_name[MCI_NAME_LEN_MAX + 1] = "n";
    const struct mc_replicate_config *read;
    control_rig_init(&rig);
    pack_hostile_config(control_rig_again(&rig), mc_view_str("a:1"), 16);
    (void)mci_start_unpack(control_rig_read(&rig), &room, &read);
    control_rig_done(&rig);
    struct mc_view bad[] = {mc_view_str("a:1"), mc_view_make("a\0b", 3),
                            mc_view_make(long_name, sizeof long_name)};
    for (size_t i = 0; i < 3; i++) {
        pack_hostile_config(control_rig_again(&rig), bad[i], i ? 1 : 17);
        (void)mci_start_unpack(control_rig_read(&rig), &room, &read);
        ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
        ck_assert_ptr_null(read);
    }
    control_rig_fini(&rig);
}
END_TEST

/* ---- rows -------------------------------------------------------------- */

START_TEST(a_call_has_65536_rows_at_most)
{
    struct control_rig rig;
    static struct mci_config_room room;
    const struct mc_replicate_config *config;
    struct mci_write_row *rows = many(TOO_MANY, sizeof *rows);
    for (size_t i = 0; i < TOO_MANY; i++) {
        rows[i].key = mc_view_str("key");
        rows[i].size = i;
    }
    control_rig_init(&rig);
    mci_start_pack(&rig.pack, NULL, rows, MC_ROWS_MAX);
    ck_assert_uint_eq(mci_start_unpack(control_rig_read(&rig), &room, &config),
                      MC_ROWS_MAX);
    for (size_t i = 0; i < MC_ROWS_MAX; i++) {
        struct mci_write_row row;
        mci_start_row_unpack(&rig.unpack, &row);
        ck_assert_uint_eq(row.size, i);
    }
    control_rig_done(&rig);
    mci_start_pack(control_rig_again(&rig), NULL, rows, TOO_MANY);
    control_rig_refused(&rig);
    free(rows);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_list_that_is_sent_with_more_rows_is_refused)
{
    struct control_rig rig;
    control_rig_init(&rig);
    mci_pack_array(&rig.pack, TOO_MANY);
    for (size_t i = 0; i < TOO_MANY; i++) {
        mci_pack_text(&rig.pack, "k");
    }
    ck_assert_uint_eq(mci_rows_unpack(control_rig_read(&rig)), 0);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(ids_that_are_too_long_stay_so_and_those_at_the_limit_whole)
{
    struct control_rig rig;
    static struct mci_config_room room;
    static char bytes[1 << 20];
    const struct mc_replicate_config *config;
    memset(bytes, 'x', sizeof bytes);
    struct mci_write_row rows[2] = {
        {.key = {bytes, MC_KEY_LEN_MAX},
         .session_id = {bytes, MC_SESSION_ID_LEN_MAX},
         .group_id = {bytes, MC_GROUP_ID_LEN_MAX}},
        {.key = {bytes, sizeof bytes},
         .session_id = {bytes, sizeof bytes},
         .group_id = {bytes, sizeof bytes}},
    };
    control_rig_init(&rig);
    mci_start_pack(&rig.pack, NULL, rows, 2);
    (void)mci_start_unpack(control_rig_read(&rig), &room, &config);
    for (size_t past = 0; past < 2; past++) {
        struct mci_write_row row;
        mci_start_row_unpack(&rig.unpack, &row);
        ck_assert_uint_eq(row.key.len, MC_KEY_LEN_MAX + past);
        ck_assert_uint_eq(row.session_id.len, MC_SESSION_ID_LEN_MAX + past);
        ck_assert_uint_eq(row.group_id.len, MC_GROUP_ID_LEN_MAX + past);
    }
    control_rig_done(&rig);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(ids_that_are_not_utf8_arrive_as_they_are)
{
    struct control_rig rig;
    static struct mci_config_room room;
    const struct mc_replicate_config *config;
    struct mci_write_row row = {.key = mc_view_str("\xff\xfe"),
                                .session_id = mc_view_str("\xc3"),
                                .group_id = mc_view_str("\xed\xa0\x80")};
    struct mci_write_row read;
    control_rig_init(&rig);
    mci_start_pack(&rig.pack, NULL, &row, 1);
    (void)mci_start_unpack(control_rig_read(&rig), &room, &config);
    mci_start_row_unpack(&rig.unpack, &read);
    control_rig_done(&rig);
    ck_assert(mc_view_equal(read.key, row.key));
    ck_assert(mc_view_equal(read.session_id, row.session_id));
    ck_assert(mc_view_equal(read.group_id, row.group_id));
    control_rig_fini(&rig);
}
END_TEST

START_TEST(an_id_of_a_length_without_bytes_is_not_sent)
{
    struct control_rig rig;
    struct mci_write_row rows[2] = {
        {.key = mc_view_str("k"), .session_id = {NULL, 5}},
        {.key = mc_view_str("k"), .group_id = {NULL, 5}},
    };
    control_rig_init(&rig);
    for (size_t i = 0; i < 2; i++) {
        mci_start_pack(control_rig_again(&rig), NULL, &rows[i], 1);
        control_rig_refused(&rig);
    }
    control_rig_fini(&rig);
}
END_TEST

static const struct mci_write_row started_row = {
    .attempt = {7, UINT64_MAX},
    .places = {{UINT64_MAX, UINT32_MAX}, {1, 2}, {3, 4}, {5, 6}},
    .grants = {{UINT64_MAX, UINT64_MAX}, {1, 2}, {3, 4}, {5, 6}},
    .place_count = MCI_REPLICAS_MAX,
};

START_TEST(a_started_row_keeps_its_places)
{
    struct control_rig rig;
    struct mci_write_row read = {.key = mc_view_str("kept")};
    struct mci_write_row failed = {.err = MC_ERR_NO_AVAILABLE_HANDLE};
    control_rig_init(&rig);
    mci_started_pack(&rig.pack, &started_row);
    mci_started_pack(&rig.pack, &failed);
    mci_started_unpack(control_rig_read(&rig), 7, &read);
    ck_assert_int_eq(read.err, MC_OK);
    ck_assert_uint_eq(read.attempt.epoch, 7);
    ck_assert_uint_eq(read.attempt.number, UINT64_MAX);
    ck_assert_uint_eq(read.place_count, MCI_REPLICAS_MAX);
    ck_assert(mc_view_equal(read.key, mc_view_str("kept")));
    for (size_t i = 0; i < MCI_REPLICAS_MAX; i++) {
        ck_assert_uint_eq(read.places[i].offset, started_row.places[i].offset);
        ck_assert_uint_eq(read.places[i].segment,
                          started_row.places[i].segment);
        ck_assert_uint_eq(read.grants[i].deadline_ns,
                          started_row.grants[i].deadline_ns);
        ck_assert_uint_eq(read.grants[i].tag, started_row.grants[i].tag);
    }
    mci_started_unpack(&rig.unpack, 7, &read);
    control_rig_done(&rig);
    ck_assert_int_eq(read.err, MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_uint_eq(read.attempt.number, 0);
    ck_assert_uint_eq(read.place_count, 0);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(one_place_too_many_is_neither_sent_nor_read)
{
    struct control_rig rig;
    struct mci_write_row row = started_row;
    struct mci_read_row answer = {.place_count = MCI_REPLICAS_MAX + 1};
    control_rig_init(&rig);
    row.place_count++;
    mci_started_pack(control_rig_again(&rig), &row);
    control_rig_refused(&rig);
    mci_end_row_pack(control_rig_again(&rig), &row);
    control_rig_refused(&rig);
    mci_read_row_pack(control_rig_again(&rig), &answer);
    control_rig_refused(&rig);
    (void)control_rig_again(&rig);
    mci_pack_array(&rig.pack, 2);
    mci_pack_u64(&rig.pack, 1);
    mci_pack_array(&rig.pack, MCI_REPLICAS_MAX + 1);
    for (unsigned i = 0; i <= MCI_REPLICAS_MAX; i++) {
        mci_pack_array(&rig.pack, 4);
        for (unsigned field = 0; field < 4; field++) {
            mci_pack_u64(&rig.pack, 1);
        }
    }
    mci_started_unpack(control_rig_read(&rig), 7, &row);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
    ck_assert_int_eq(row.err, MC_ERR_INTERNAL_ERROR);
    ck_assert_uint_eq(row.attempt.number, 0);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_code_of_a_row_is_below_0)
{
    struct control_rig rig;
    struct mci_write_row row = {.err = MC_OK};
    control_rig_init(&rig);
    mci_pack_u64(&rig.pack, 0);
    mci_started_unpack(control_rig_read(&rig), 7, &row);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    ck_assert_int_eq(row.err, MC_ERR_INTERNAL_ERROR);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(an_end_row_keeps_its_receipts)
{
    struct control_rig rig;
    struct mci_write_row read;
    struct mci_write_row row = started_row;
    row.key = mc_view_str("key");
    row.in_doubt = true;
    row.receipts[0] = UINT64_MAX;
    row.receipts[3] = 1;
    control_rig_init(&rig);
    mci_end_row_pack(&rig.pack, &row);
    mci_end_row_unpack(control_rig_read(&rig), 7, &read);
    control_rig_done(&rig);
    ck_assert(mc_view_equal(read.key, row.key));
    ck_assert_uint_eq(read.attempt.epoch, 7);
    ck_assert_uint_eq(read.attempt.number, UINT64_MAX);
    ck_assert(read.in_doubt);
    ck_assert(!read.is_spent);
    ck_assert_uint_eq(read.place_count, MCI_REPLICAS_MAX);
    ck_assert_mem_eq(read.receipts, row.receipts, sizeof row.receipts);
    control_rig_fini(&rig);
}
END_TEST

/* ---- keys -------------------------------------------------------------- */

START_TEST(keys_of_every_length_arrive_whole)
{
    struct control_rig rig;
    static char bytes[MC_KEY_LEN_MAX];
    static struct mc_view keys[MC_KEY_LEN_MAX + 1];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)('a' + i % 26);
    }
    for (size_t len = 0; len <= MC_KEY_LEN_MAX; len++) {
        keys[len] = mc_view_make(bytes + (MC_KEY_LEN_MAX - len), len);
    }
    control_rig_init(&rig);
    mci_keys_pack(&rig.pack, keys, MC_KEY_LEN_MAX + 1);
    ck_assert_uint_eq(mci_rows_unpack(control_rig_read(&rig)),
                      MC_KEY_LEN_MAX + 1);
    for (size_t len = 0; len <= MC_KEY_LEN_MAX; len++) {
        ck_assert(mc_view_equal(mci_key_unpack(&rig.unpack), keys[len]));
    }
    control_rig_done(&rig);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_key_past_its_limit_arrives_one_byte_past_it)
{
    struct control_rig rig;
    static char bytes[1 << 20];
    struct mc_view keys[] = {{bytes, MC_KEY_LEN_MAX + 1},
                             {bytes, sizeof bytes},
                             {NULL, 5},
                             {NULL, 0}};
    memset(bytes, 'x', sizeof bytes);
    control_rig_init(&rig);
    mci_keys_pack(&rig.pack, keys, 4);
    ck_assert_uint_lt(rig.buf.len, 3 * MC_KEY_LEN_MAX);
    ck_assert_uint_eq(mci_rows_unpack(control_rig_read(&rig)), 4);
    ck_assert_uint_eq(mci_key_unpack(&rig.unpack).len, MC_KEY_LEN_MAX + 1);
    ck_assert_uint_eq(mci_key_unpack(&rig.unpack).len, MC_KEY_LEN_MAX + 1);
    ck_assert_uint_eq(mci_key_unpack(&rig.unpack).len, 0);
    ck_assert_uint_eq(mci_key_unpack(&rig.unpack).len, 0);
    control_rig_done(&rig);
    /* As somebody else may send it. */
    mci_pack_str(control_rig_again(&rig), keys[1]);
    ck_assert_uint_eq(mci_key_unpack(control_rig_read(&rig)).len,
                      MC_KEY_LEN_MAX + 1);
    control_rig_done(&rig);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(the_args_of_removing_keep_their_fields)
{
    struct control_rig rig;
    struct mc_view key = mc_view_str("k");
    bool force = false;
    uint32_t segment = 0;
    uint64_t number = 0;
    control_rig_init(&rig);
    mci_remove_pack(control_rig_again(&rig), true, &key, 1);
    ck_assert_uint_eq(mci_remove_unpack(control_rig_read(&rig), &force), 1);
    ck_assert(force);
    ck_assert(mc_view_equal(mci_key_unpack(&rig.unpack), key));
    control_rig_done(&rig);
    mci_regex_pack(control_rig_again(&rig), false, key);
    ck_assert(
        mc_view_equal(mci_regex_unpack(control_rig_read(&rig), &force), key));
    ck_assert(!force);
    control_rig_done(&rig);
    mci_clear_pack(control_rig_again(&rig), UINT32_MAX, &key, 1);
    ck_assert_uint_eq(mci_clear_unpack(control_rig_read(&rig), &segment), 1);
    ck_assert_uint_eq(segment, UINT32_MAX);
    ck_assert(mc_view_equal(mci_key_unpack(&rig.unpack), key));
    control_rig_done(&rig);
    mci_touch_row_pack(control_rig_again(&rig), key, UINT64_MAX);
    ck_assert(mc_view_equal(
        mci_touch_row_unpack(control_rig_read(&rig), &number), key));
    ck_assert_uint_eq(number, UINT64_MAX);
    control_rig_done(&rig);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_read_row_keeps_its_fields)
{
    struct control_rig rig;
    struct mci_read_row row = {.place_count = MCI_REPLICAS_MAX,
                               .media = 3,
                               .has_sums = true,
                               .size = MC_OBJECT_SIZE_MAX,
                               .version = UINT64_MAX,
                               .lease_left_ns = UINT64_MAX};
    struct mci_read_row read = {.key = mc_view_str("kept"), .hold = {1, 2}};
    struct mci_read_row missing = {.err = MC_ERR_OBJECT_NOT_FOUND};
    memcpy(row.places, started_row.places, sizeof row.places);
    memcpy(row.grants, started_row.grants, sizeof row.grants);
    control_rig_init(&rig);
    mci_read_row_pack(&rig.pack, &row);
    mci_read_row_pack(&rig.pack, &missing);
    mci_read_row_unpack(control_rig_read(&rig), &read);
    ck_assert_int_eq(read.err, MC_OK);
    ck_assert(mc_view_equal(read.key, mc_view_str("kept")));
    ck_assert_uint_eq(read.hold.index, 0);
    ck_assert_uint_eq(read.media, 3);
    ck_assert(read.has_sums);
    ck_assert_uint_eq(read.size, MC_OBJECT_SIZE_MAX);
    ck_assert_uint_eq(read.version, UINT64_MAX);
    ck_assert_uint_eq(read.lease_left_ns, UINT64_MAX);
    ck_assert_uint_eq(read.place_count, MCI_REPLICAS_MAX);
    for (size_t i = 0; i < MCI_REPLICAS_MAX; i++) {
        ck_assert_uint_eq(read.places[i].offset, row.places[i].offset);
        ck_assert_uint_eq(read.places[i].segment, row.places[i].segment);
        ck_assert_uint_eq(read.grants[i].tag, row.grants[i].tag);
    }
    mci_read_row_unpack(&rig.unpack, &read);
    control_rig_done(&rig);
    ck_assert_int_eq(read.err, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_uint_eq(read.place_count, 0);
    ck_assert_uint_eq(read.size, 0);
    ck_assert(!read.has_sums);
    row.size = MC_OBJECT_SIZE_MAX + 1; /* room for its sums might wrap */
    mci_read_row_pack(control_rig_again(&rig), &row);
    mci_read_row_unpack(control_rig_read(&rig), &read);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    ck_assert_int_eq(read.err, MC_ERR_INTERNAL_ERROR);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_read_row_with_a_lease_keeps_it)
{
    struct control_rig rig;
    struct mci_read_row row = {
        .size = 1, .lease = {.number = UINT64_MAX, .ref = UINT64_MAX}};
    struct mci_read_row read = {.lease = {.number = 7}};
    struct mci_read_row plain = {.size = 1};
    control_rig_init(&rig);
    mci_read_row_pack(&rig.pack, &row);
    mci_read_row_pack(&rig.pack, &plain);
    mci_read_row_unpack(control_rig_read(&rig), &read);
    ck_assert_uint_eq(read.lease.number, UINT64_MAX);
    ck_assert_uint_eq(read.lease.ref, UINT64_MAX);
    mci_read_row_unpack(&rig.unpack, &read);
    control_rig_done(&rig);
    ck_assert_uint_eq(read.lease.number, 0);
    /* Half of a lease is none. */
    (void)control_rig_again(&rig);
    mci_pack_array(&rig.pack, 6);
    for (unsigned i = 0; i < 4; i++) {
        mci_pack_u64(&rig.pack, 1);
    }
    mci_pack_array(&rig.pack, 0);
    mci_pack_u64(&rig.pack, 1);
    mci_read_row_unpack(control_rig_read(&rig), &read);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
    ck_assert_int_eq(read.err, MC_ERR_INTERNAL_ERROR);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_get_says_whether_its_rows_take_leases)
{
    struct control_rig rig;
    bool is_named = true;
    control_rig_init(&rig);
    mci_reads_pack(&rig.pack, false, 2);
    mci_pack_str(&rig.pack, mc_view_str("a"));
    mci_pack_str(&rig.pack, mc_view_str("b"));
    ck_assert_uint_eq(mci_reads_unpack(control_rig_read(&rig), &is_named), 2);
    ck_assert(!is_named);
    (void)control_rig_again(&rig);
    mci_reads_pack(&rig.pack, true, 2);
    mci_pack_str(&rig.pack, mc_view_str("a"));
    mci_pack_str(&rig.pack, mc_view_str("b"));
    ck_assert_uint_eq(mci_reads_unpack(control_rig_read(&rig), &is_named), 2);
    ck_assert(is_named);
    /* There is one way to say no. */
    (void)control_rig_again(&rig);
    mci_pack_array(&rig.pack, 2);
    mci_pack_bool(&rig.pack, false);
    mci_pack_array(&rig.pack, 0);
    (void)mci_reads_unpack(control_rig_read(&rig), &is_named);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_RANGE);
    (void)control_rig_again(&rig);
    mci_pack_array(&rig.pack, 3);
    for (unsigned i = 0; i < 3; i++) {
        mci_pack_bool(&rig.pack, true);
    }
    ck_assert_uint_eq(mci_reads_unpack(control_rig_read(&rig), &is_named), 3);
    ck_assert(!is_named); /* keys, the first of which is none */
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_renewed_row_keeps_what_it_named)
{
    struct control_rig rig;
    struct mci_read_row row = {.size = MC_OBJECT_SIZE_MAX,
                               .media = 3,
                               .version = UINT64_MAX,
                               .lease = {.number = UINT64_MAX, .ref = 5},
                               .lease_left_ns = UINT64_MAX,
                               .place_count = MCI_REPLICAS_MAX};
    struct mci_read_row over = {.err = MC_ERR_LEASE_EXPIRED};
    struct mci_read_row read = {.size = 0};
    memcpy(row.places, started_row.places, sizeof row.places);
    memcpy(row.grants, started_row.grants, sizeof row.grants);
    control_rig_init(&rig);
    mci_lease_row_pack(&rig.pack, &row);
    mci_lease_row_unpack(control_rig_read(&rig), 9, &read);
    control_rig_done(&rig);
    ck_assert_uint_eq(read.lease.epoch, 9);
    ck_assert_uint_eq(read.lease.number, UINT64_MAX);
    ck_assert_uint_eq(read.lease.ref, 5);
    ck_assert_uint_eq(read.version, UINT64_MAX);
    (void)control_rig_again(&rig);
    mci_renewed_pack(&rig.pack, &row);
    mci_renewed_pack(&rig.pack, &over);
    mci_renewed_unpack(control_rig_read(&rig), &read);
    ck_assert_int_eq(read.err, MC_OK);
    ck_assert_uint_eq(read.size, MC_OBJECT_SIZE_MAX);
    ck_assert_uint_eq(read.media, 3);
    ck_assert_uint_eq(read.lease_left_ns, UINT64_MAX);
    ck_assert_uint_eq(read.place_count, MCI_REPLICAS_MAX);
    ck_assert_mem_eq(read.grants, row.grants, sizeof row.grants);
    ck_assert_uint_eq(read.lease.number, UINT64_MAX);
    mci_renewed_unpack(&rig.unpack, &read);
    control_rig_done(&rig);
    ck_assert_int_eq(read.err, MC_ERR_LEASE_EXPIRED);
    ck_assert_uint_eq(read.place_count, 0);
    ck_assert_uint_eq(read.lease_left_ns, 0);
    row.place_count++;
    mci_renewed_pack(control_rig_again(&rig), &row);
    control_rig_refused(&rig);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_probe_keeps_its_fields_at_their_limits)
{
    struct control_rig rig;
    struct mc_probe read;
    struct mc_probe probe = {.state = MC_OBJECT_READABLE,
                             .media = 3,
                             .size = MC_OBJECT_SIZE_MAX,
                             .version = UINT64_MAX,
                             .lease_ms = UINT64_MAX,
                             .session_len = MC_SESSION_ID_LEN_MAX};
    memset(probe.session, 's', sizeof probe.session);
    control_rig_init(&rig);
    mci_probe_pack(&rig.pack, &probe, 0);
    mci_probe_pack(&rig.pack, &probe, MC_ERR_INVALID_KEY);
    ck_assert_int_eq(mci_probe_unpack(control_rig_read(&rig), &read), MC_OK);
    ck_assert_mem_eq(&read.session, &probe.session, sizeof probe.session);
    ck_assert_int_eq(read.state, MC_OBJECT_READABLE);
    ck_assert_uint_eq(read.version, UINT64_MAX);
    ck_assert_uint_eq(read.lease_ms, UINT64_MAX);
    ck_assert_uint_eq(read.session_len, MC_SESSION_ID_LEN_MAX);
    ck_assert_int_eq(mci_probe_unpack(&rig.unpack, &read), MC_ERR_INVALID_KEY);
    ck_assert_uint_eq(read.session_len, 0);
    control_rig_done(&rig);
    probe.session_len++;
    mci_probe_pack(control_rig_again(&rig), &probe, 0);
    control_rig_refused(&rig);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(a_session_that_was_sent_too_long_is_refused)
{
    struct control_rig rig;
    struct mc_probe read;
    static const char session[MC_SESSION_ID_LEN_MAX + 1] = "s";
    control_rig_init(&rig);
    mci_pack_array(&rig.pack, 6);
    for (unsigned i = 0; i < 5; i++) {
        mci_pack_u64(&rig.pack, 1);
    }
    mci_pack_str(&rig.pack, mc_view_make(session, sizeof session));
    ck_assert_int_eq(mci_probe_unpack(control_rig_read(&rig), &read),
                     MC_ERR_INTERNAL_ERROR);
    ck_assert_int_eq(rig.unpack.error, MCI_UNPACK_ERROR_LENGTH);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(results_keep_all_of_their_64_bits)
{
    static const int64_t results[] = {
        0,   1,   127,  128,   INT64_C(5) << 40, INT64_MAX, -1,
        -32, -33, -704, -1702, INT64_MIN};
    const size_t count = sizeof results / sizeof results[0];
    struct control_rig rig;
    control_rig_init(&rig);
    mci_results_pack(&rig.pack, results, count);
    ck_assert_uint_eq(mci_rows_unpack(control_rig_read(&rig)), count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(mci_result_unpack(&rig.unpack), results[i]);
    }
    control_rig_done(&rig);
    control_rig_fini(&rig);
}
END_TEST

START_TEST(results_in_slices_are_those_in_one)
{
    int64_t results[1000];
    struct control_rig whole;
    struct control_rig sliced;
    for (size_t i = 0; i < 1000; i++) {
        results[i] = (int64_t)i - 500;
    }
    control_rig_init(&whole);
    control_rig_init(&sliced);
    mci_results_pack(&whole.pack, results, 1000);
    mci_rows_pack(&sliced.pack, 1000);
    for (size_t i = 0; i < 1000; i += 250) {
        mci_results_more(&sliced.pack, results + i, 250);
    }
    ck_assert(
        mc_view_equal(mci_buf_view(&whole.buf), mci_buf_view(&sliced.buf)));
    control_rig_fini(&whole);
    control_rig_fini(&sliced);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control_rows");
    TCase *config = tcase_create("config");
    tcase_add_test(config, a_config_keeps_its_fields_at_their_limits);
    tcase_add_test(config, no_config_arrives_as_none);
    tcase_add_test(config, a_config_past_its_limits_is_not_sent);
    tcase_add_test(config, a_config_past_its_limits_is_refused_by_the_reader);
    suite_add_tcase(suite, config);
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, a_call_has_65536_rows_at_most);
    tcase_add_test(rows, a_list_that_is_sent_with_more_rows_is_refused);
    tcase_add_test(rows,
                   ids_that_are_too_long_stay_so_and_those_at_the_limit_whole);
    tcase_add_test(rows, ids_that_are_not_utf8_arrive_as_they_are);
    tcase_add_test(rows, an_id_of_a_length_without_bytes_is_not_sent);
    tcase_add_test(rows, a_started_row_keeps_its_places);
    tcase_add_test(rows, one_place_too_many_is_neither_sent_nor_read);
    tcase_add_test(rows, a_code_of_a_row_is_below_0);
    tcase_add_test(rows, an_end_row_keeps_its_receipts);
    suite_add_tcase(suite, rows);
    TCase *keys = tcase_create("keys");
    tcase_add_test(keys, keys_of_every_length_arrive_whole);
    tcase_add_test(keys, a_key_past_its_limit_arrives_one_byte_past_it);
    tcase_add_test(keys, the_args_of_removing_keep_their_fields);
    tcase_add_test(keys, a_read_row_keeps_its_fields);
    tcase_add_test(keys, a_read_row_with_a_lease_keeps_it);
    tcase_add_test(keys, a_get_says_whether_its_rows_take_leases);
    tcase_add_test(keys, a_renewed_row_keeps_what_it_named);
    tcase_add_test(keys, a_probe_keeps_its_fields_at_their_limits);
    tcase_add_test(keys, a_session_that_was_sent_too_long_is_refused);
    tcase_add_test(keys, results_keep_all_of_their_64_bits);
    tcase_add_test(keys, results_in_slices_are_those_in_one);
    suite_add_tcase(suite, keys);
    return suite_run(suite);
}
