/* SPDX-License-Identifier: Apache-2.0 */
#include <msgpack.h>

#include "alloc_fail.h"
#include "mci_pack.h"
#include "mci_unpack.h"
#include "suite.h"

#define MAX_LEN (1u << 20)

/* Ours and msgpack-c's, side by side. */
struct pair {
    struct mci_buf buf;
    struct mci_pack ours;
    msgpack_sbuffer packed;
    msgpack_packer theirs;
};

static void pair_init(struct pair *pair)
{
    mci_buf_init(&pair->buf, MAX_LEN);
    mci_pack_init(&pair->ours, &pair->buf);
    msgpack_sbuffer_init(&pair->packed);
    msgpack_packer_init(&pair->theirs, &pair->packed, msgpack_sbuffer_write);
}

/* Both must have written the same. */
static void pair_check(struct pair *pair)
{
    ck_assert_int_eq(mci_pack_done(&pair->ours), MC_OK);
    ck_assert(
        mc_view_equal(mci_buf_view(&pair->buf),
                      mc_view_make(pair->packed.data, pair->packed.size)));
    mci_buf_fini(&pair->buf);
    msgpack_sbuffer_destroy(&pair->packed);
}

START_TEST(integers_take_the_form_that_msgpack_c_gives_them)
{
    struct pair pair;
    pair_init(&pair);
    for (unsigned shift = 0; shift < 64; shift++) {
        for (uint64_t near = 0; near < 5; near++) {
            uint64_t number = (UINT64_C(1) << shift) + near - 2;
            int64_t negative = -(int64_t)(number & INT64_MAX);
            mci_pack_u64(&pair.ours, number);
            msgpack_pack_uint64(&pair.theirs, number);
            mci_pack_i64(&pair.ours, (int64_t)number);
            msgpack_pack_int64(&pair.theirs, (int64_t)number);
            mci_pack_i64(&pair.ours, negative);
            msgpack_pack_int64(&pair.theirs, negative);
        }
    }
    mci_pack_i64(&pair.ours, INT64_MIN);
    msgpack_pack_int64(&pair.theirs, INT64_MIN);
    pair_check(&pair);
}
END_TEST

START_TEST(texts_bytes_and_headers_take_their_smallest_form)
{
    static char text[70000];
    static const size_t lens[] = {0,   1,   15,    16,    31,   32,
                                  255, 256, 65535, 65536, 69999};
    struct pair pair;
    memset(text, 't', sizeof text);
    pair_init(&pair);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        size_t len = lens[i];
        mci_pack_str(&pair.ours, mc_view_make(text, len));
        msgpack_pack_str(&pair.theirs, len);
        msgpack_pack_str_body(&pair.theirs, text, len);
        mci_pack_bin(&pair.ours, mc_view_make(text, len));
        msgpack_pack_bin(&pair.theirs, len);
        msgpack_pack_bin_body(&pair.theirs, text, len);
        mci_pack_array(&pair.ours, len);
        msgpack_pack_array(&pair.theirs, len);
        mci_pack_map(&pair.ours, len);
        msgpack_pack_map(&pair.theirs, len);
    }
    pair_check(&pair);
}
END_TEST

START_TEST(nil_bool_and_names_are_written)
{
    struct pair pair;
    pair_init(&pair);
    mci_pack_nil(&pair.ours);
    msgpack_pack_nil(&pair.theirs);
    mci_pack_bool(&pair.ours, true);
    msgpack_pack_true(&pair.theirs);
    mci_pack_bool(&pair.ours, false);
    msgpack_pack_false(&pair.theirs);
    mci_pack_text(&pair.ours, "name");
    msgpack_pack_str(&pair.theirs, 4);
    msgpack_pack_str_body(&pair.theirs, "name", 4);
    mci_pack_str_or_nil(&pair.ours, mc_view_make(NULL, 0));
    msgpack_pack_nil(&pair.theirs);
    mci_pack_str_or_nil(&pair.ours, mc_view_make("", 0));
    msgpack_pack_str(&pair.theirs, 0);
    pair_check(&pair);
}
END_TEST

START_TEST(what_does_not_fit_sticks_and_leaves_no_half_value)
{
    struct mci_buf buf;
    struct mci_pack pack;
    mci_buf_init(&buf, 8);
    mci_pack_init(&pack, &buf);
    mci_pack_u64(&pack, 1);
    mci_pack_str(&pack, mc_view_str("12345678"));
    ck_assert_int_eq(mci_pack_done(&pack), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_uint_eq(buf.len, 1);
    /* This would fit. */
    mci_pack_nil(&pack);
    mci_pack_str(&pack, mc_view_str("a"));
    ck_assert_int_eq(mci_pack_done(&pack), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_uint_eq(buf.len, 1);
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(exactly_what_fits_is_written)
{
    struct mci_buf buf;
    struct mci_pack pack;
    mci_buf_init(&buf, 9);
    mci_pack_init(&pack, &buf);
    mci_pack_str(&pack, mc_view_str("12345678"));
    ck_assert_int_eq(mci_pack_done(&pack), MC_OK);
    ck_assert_uint_eq(buf.len, 9);
    mci_pack_nil(&pack);
    ck_assert_int_eq(mci_pack_done(&pack), MC_ERR_BUFFER_OVERFLOW);
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(lengths_that_msgpack_cannot_say_are_refused)
{
    struct mci_buf buf;
    struct mci_pack pack;
    size_t len = (size_t)UINT32_MAX + 1;
    mci_buf_init(&buf, SIZE_MAX);
    mci_pack_init(&pack, &buf);
    mci_pack_str(&pack, mc_view_make("x", len));
    ck_assert_int_eq(mci_pack_done(&pack), MC_ERR_BUFFER_OVERFLOW);
    mci_pack_init(&pack, &buf);
    mci_pack_bin(&pack, mc_view_make("x", len));
    ck_assert_int_eq(mci_pack_done(&pack), MC_ERR_BUFFER_OVERFLOW);
    mci_pack_init(&pack, &buf);
    mci_pack_array(&pack, len);
    ck_assert_int_eq(mci_pack_done(&pack), MC_ERR_BUFFER_OVERFLOW);
    mci_pack_init(&pack, &buf);
    mci_pack_map(&pack, len);
    ck_assert_int_eq(mci_pack_done(&pack), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_uint_eq(buf.len, 0);
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(out_of_memory_is_an_error_that_sticks)
{
    struct alloc_fail fail;
    static const char text[3000] = "x";
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_buf buf;
        struct mci_pack pack;
        mci_buf_init(&buf, MAX_LEN);
        mci_pack_init(&pack, &buf);
        alloc_fail_arm(&fail);
        for (int i = 0; i < 10; i++) {
            mci_pack_bin(&pack, mc_view_make(text, sizeof text));
        }
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(mci_pack_done(&pack),
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        /* Whole values only. */
        ck_assert_uint_eq(buf.len % (sizeof text + 3), 0);
        mci_buf_fini(&buf);
    }
    ck_assert_uint_gt(fail.k, 2);
}
END_TEST

START_TEST(what_is_written_reads_back)
{
    struct mci_buf buf;
    struct mci_pack pack;
    struct mci_unpack unpack;
    mci_buf_init(&buf, MAX_LEN);
    mci_pack_init(&pack, &buf);
    mci_pack_array(&pack, 5);
    mci_pack_u64(&pack, UINT64_MAX);
    mci_pack_i64(&pack, INT64_MIN);
    mci_pack_str(&pack, mc_view_str("\xc3\xa9"));
    mci_pack_bin(&pack, mc_view_make("\xff", 1));
    mci_pack_bool(&pack, true);
    mci_unpack_init(&unpack, mci_buf_view(&buf));
    ck_assert_uint_eq(mci_unpack_array(&unpack, 5, 5), 5);
    ck_assert_uint_eq(mci_unpack_u64(&unpack, UINT64_MAX), UINT64_MAX);
    ck_assert_int_eq(mci_unpack_i64(&unpack, INT64_MIN, 0), INT64_MIN);
    ck_assert_uint_eq(mci_unpack_str(&unpack, 2).len, 2);
    ck_assert_uint_eq(mci_unpack_bin(&unpack, 1, 1).len, 1);
    ck_assert(mci_unpack_bool(&unpack));
    ck_assert_int_eq(mci_unpack_done(&unpack), MCI_UNPACK_OK);
    mci_buf_fini(&buf);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pack");
    TCase *forms = tcase_create("forms");
    tcase_add_test(forms, integers_take_the_form_that_msgpack_c_gives_them);
    tcase_add_test(forms, texts_bytes_and_headers_take_their_smallest_form);
    tcase_add_test(forms, nil_bool_and_names_are_written);
    tcase_add_test(forms, what_is_written_reads_back);
    suite_add_tcase(suite, forms);
    TCase *bounds = tcase_create("bounds");
    tcase_add_test(bounds, what_does_not_fit_sticks_and_leaves_no_half_value);
    tcase_add_test(bounds, exactly_what_fits_is_written);
    tcase_add_test(bounds, lengths_that_msgpack_cannot_say_are_refused);
    tcase_add_test(bounds, out_of_memory_is_an_error_that_sticks);
    suite_add_tcase(suite, bounds);
    return suite_run(suite);
}
