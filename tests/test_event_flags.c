/* SPDX-License-Identifier: Apache-2.0 */
#include "event_make.h"
#include "suite.h"

/* True if the field's name with its header stands in the bytes, followed by
 * `value`. */
static bool has_field(struct mc_view bytes, const char *name, const char *value,
                      size_t value_len)
{
    char text[64];
    size_t len = strlen(name);
    text[0] = (char)(0xa0 | len);
    memcpy(text + 1, name, len);
    memcpy(text + 1 + len, value, value_len);
    return memmem(bytes.data, bytes.len, text, 1 + len + value_len) != NULL;
}

START_TEST(without_legacy_compat_three_fields_are_left_out)
{
    struct mc_event_writer_opts opts = {.no_legacy_compat = true};
    struct mc_event_record record = make_record(MC_EVENT_STORED, "k");
    struct mc_view bytes = write_one(&opts, &record);
    ck_assert(!has_field(bytes, "type", "", 0));
    ck_assert(!has_field(bytes, "block_hashes", "", 0));
    ck_assert(!has_field(bytes, "parent_block_hash", "", 0));
    ck_assert(has_field(bytes, "seq_hashes", "\x90", 1));
    check_reads(bytes);
    /* 22 fields less three, and 14 of a clear less one: another form. */
    ck_assert_ptr_nonnull(memmem(bytes.data, 16, "\xde\x00\x13", 3));
    record = make_record(MC_EVENT_CLEARED, NULL);
    bytes = write_one(&opts, &record);
    ck_assert_ptr_nonnull(memmem(bytes.data, 16, "\x8d", 1));
    check_reads(bytes);
}
END_TEST

START_TEST(without_object_key_it_is_left_out)
{
    struct mc_event_writer_opts opts = {.no_object_key = true, .plain = true};
    struct mc_event_record record = make_record(MC_EVENT_REMOVED, "key-17");
    struct mc_view bytes = write_one(&opts, &record);
    ck_assert(!has_field(bytes, "object_key", "", 0));
    ck_assert_ptr_null(memmem(bytes.data, bytes.len, "key-17", 6));
    /* 17 fields less one. */
    ck_assert_ptr_nonnull(memmem(bytes.data, 16, "\xde\x00\x10", 3));
}
END_TEST

START_TEST(token_ids_may_be_an_empty_array)
{
    struct mc_event_writer_opts opts = {.empty_token_ids = true};
    struct mc_event_record record = make_record(MC_EVENT_STORED, "k");
    struct mc_view bytes = write_one(&opts, &record);
    ck_assert(has_field(bytes, "token_ids", "\x90", 1));
    check_reads(bytes);
    opts.empty_token_ids = false;
    ck_assert(has_field(write_one(&opts, &record), "token_ids", "\xc0", 1));
}
END_TEST

static const struct hash_row {
    const char *key;
    const char *seq; /* value in seq_hashes, NULL: none */
    size_t seq_len;
    const char *block; /* in block_hashes */
    size_t block_len;
} hash_rows[] = {
    {"0", "\x91\x00", 2, "\x91\x00", 2},
    {"127", "\x91\x7f", 2, "\x91\x7f", 2},
    {"0x80", "\x91\xcc\x80", 3, "\x91\xcc\x80", 3},
    {"0X1fF", "\x91\xcd\x01\xff", 4, "\x91\xcd\x01\xff", 4},
    {"9223372036854775807", "\x91\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", 10,
     "\x91\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", 10},
    {"9223372036854775808", "\x91\xcf\x80\x00\x00\x00\x00\x00\x00\x00", 10,
     "\x91\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 10},
    {"18446744073709551615", "\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 10,
     "\x91\xff", 2},
    {"0xffffffffffffffe0", "\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xe0", 10,
     "\x91\xe0", 2},
    {"0xffffffffffffffdf", "\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xdf", 10,
     "\x91\xd0\xdf", 3},
    {"0xffffffffffff8000", "\x91\xcf\xff\xff\xff\xff\xff\xff\x80\x00", 10,
     "\x91\xd1\x80\x00", 4},
    {"0xffffffff80000000", "\x91\xcf\xff\xff\xff\xff\x80\x00\x00\x00", 10,
     "\x91\xd2\x80\x00\x00\x00", 6},
    {"18446744073709551616", NULL, 0, NULL, 0},
    {"0x", NULL, 0, NULL, 0},
    {"0x10000000000000000", NULL, 0, NULL, 0},
    {" 5", NULL, 0, NULL, 0},
    {"+5", NULL, 0, NULL, 0},
    {"-1", NULL, 0, NULL, 0},
    {"5 ", NULL, 0, NULL, 0},
    {"5a", NULL, 0, NULL, 0},
    {"1x5", NULL, 0, NULL, 0},
    {"key", NULL, 0, NULL, 0},
};

START_TEST(keys_that_are_numbers_fill_the_hash_arrays)
{
    const struct hash_row *row = &hash_rows[_i];
    struct mc_event_writer_opts opts = {.seq_hashes = true, .epoch = 9};
    for (int type = MC_EVENT_STORED; type <= MC_EVENT_REMOVED; type++) {
        struct mc_event_record record =
            make_record((enum mc_event_type)type, row->key);
        struct mc_view bytes = write_one(&opts, &record);
        ck_assert(has_field(bytes, "seq_hashes", row->seq ? row->seq : "\x90",
                            row->seq ? row->seq_len : 1));
        ck_assert(has_field(bytes, "block_hashes",
                            row->block ? row->block : "\x90",
                            row->block ? row->block_len : 1));
        ck_assert(has_field(bytes, "epoch", "\x09", 1));
        check_reads(bytes);
    }
    struct mc_event_record record = make_record(MC_EVENT_STORED, row->key);
    opts.seq_hashes = false;
    ck_assert(has_field(write_one(&opts, &record), "seq_hashes", "\x90", 1));
    opts.seq_hashes = true;
    opts.no_legacy_compat = true;
    struct mc_view bytes = write_one(&opts, &record);
    ck_assert(!has_field(bytes, "block_hashes", "", 0));
    check_reads(bytes);
}
END_TEST

START_TEST(settings_stand_in_every_event)
{
    struct mc_event_writer_opts opts = {.block_size = 64, .dp_rank = 70000};
    opts.model_name = mc_view_str("m");
    opts.additional_salt = mc_view_str("salt");
    opts.lora_name = mc_view_str("lora");
    for (int type = MC_EVENT_STORED; type <= MC_EVENT_CLEARED; type++) {
        struct mc_event_record record =
            make_record((enum mc_event_type)type, "k");
        struct mc_view bytes = write_one(&opts, &record);
        ck_assert(has_field(bytes, "model_name", "\xa1m", 2));
        ck_assert(has_field(bytes, "additional_salt", "\xa4salt", 5));
        ck_assert(has_field(bytes, "lora_name", "\xa4lora", 5));
        ck_assert(has_field(bytes, "block_size", "\x40", 1));
        ck_assert(has_field(bytes, "dp_rank", "\xce\x00\x01\x11\x70", 5));
        check_reads(bytes);
    }
}
END_TEST

START_TEST(a_timestamp_takes_its_smallest_form)
{
    struct mc_event_writer_opts opts = {0};
    struct mc_event_record record = make_record(MC_EVENT_STORED, "k");
    record.timestamp_ms = 5;
    ck_assert(has_field(write_one(&opts, &record), "timestamp", "\x05", 1));
    record.timestamp_ms = UINT32_MAX;
    ck_assert(has_field(write_one(&opts, &record), "timestamp",
                        "\xce\xff\xff\xff\xff", 5));
    record.timestamp_ms++;
    ck_assert(has_field(write_one(&opts, &record), "timestamp",
                        "\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 9));
}
END_TEST

START_TEST(the_epoch_can_change_and_take_another_width)
{
    static const uint64_t epochs[] = {EPOCH, 1, 70000, UINT64_MAX, 200};
    struct mc_event_writer_opts opts = {.epoch = 3};
    struct mc_event_writer *writer = make_writer(&opts);
    for (size_t i = 0; i < 5; i++) {
        for (int type = MC_EVENT_STORED; type <= MC_EVENT_CLEARED; type++) {
            struct mc_event_record record =
                make_record((enum mc_event_type)type, "k");
            struct mc_event event;
            struct mc_event_batch batch;
            size_t len = 0;
            mc_event_writer_set_epoch(writer, epochs[i]);
            ck_assert_int_eq(mc_event_writer_batch(writer, 1, &record, 1,
                                                   buffer, sizeof buffer, &len),
                             MC_OK);
            struct mc_view frames[3] = {mc_view_make("", 0),
                                        mc_view_make(seq_bytes, 8),
                                        mc_view_make(buffer, len)};
            ck_assert_int_eq(mc_event_read(frames, 3, &event, 1, &batch, NULL),
                             MC_EVENT_OK);
            ck_assert_uint_eq(event.epoch, epochs[i]);
        }
    }
    mc_event_writer_destroy(writer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_flags");
    TCase *flags = tcase_create("flags");
    tcase_add_test(flags, without_legacy_compat_three_fields_are_left_out);
    tcase_add_test(flags, without_object_key_it_is_left_out);
    tcase_add_test(flags, token_ids_may_be_an_empty_array);
    tcase_add_loop_test(flags, keys_that_are_numbers_fill_the_hash_arrays, 0,
                        sizeof hash_rows / sizeof hash_rows[0]);
    tcase_add_test(flags, settings_stand_in_every_event);
    tcase_add_test(flags, a_timestamp_takes_its_smallest_form);
    tcase_add_test(flags, the_epoch_can_change_and_take_another_width);
    suite_add_tcase(suite, flags);
    return suite_run(suite);
}
