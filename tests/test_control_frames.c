/* SPDX-License-Identifier: Apache-2.0 */
/* Whole frames of every op: those of tests/data/vectors/control.json, which
 * control_rows.py wrote with python3-msgpack, are written alike by us, byte for
 * byte, and then spoilt in every place. */
#include <msgpack.h>
#include <stdio.h>
#include <string.h>

#include "control_copy.h"
#include "mci_bytes.h"
#include "suite.h"
#include "token.h"
#include "vectors.h"

#define BUF_MAX (1U << 20)

struct row {
    const char *name;
    bool is_request;
    enum mci_op op;
    struct mc_view body; /* without the length */
};

typedef void (*row_fn)(const struct row *row);

static void each_row(row_fn fn)
{
    json_object *rows = vectors_load_copy("control.json");
    size_t count = json_object_array_length(rows);
    ck_assert_uint_ge(count, 60);
    for (size_t i = 0; i < count; i++) {
        json_object *object = json_object_array_get_idx(rows, i);
        struct vector_frames frames;
        vector_frames_make(object, &frames);
        struct mc_view frame = frames.frames[0];
        ck_assert_uint_ge(frame.len, MCI_FRAME_HEAD);
        struct row row = {
            .name = vector_string(object, "name"),
            .is_request = strcmp(vector_string(object, "kind"), "request") == 0,
            .op = (enum mci_op)vector_number(object, "op"),
            .body = mc_view_make((const char *)frame.data + MCI_FRAME_HEAD,
                                 frame.len - MCI_FRAME_HEAD),
        };
        ck_assert_uint_eq(mci_get_le32(frame.data), row.body.len);
        fn(&row);
        vector_frames_free(&frames);
    }
    json_object_put(rows);
}

/* Reads a body like that of the row, writes it into buf. */
static enum mci_unpack_error copy(const struct row *row, struct mc_view body,
                                  struct mci_buf *buf)
{
    struct mci_pack pack;
    mci_buf_clear(buf);
    mci_pack_init(&pack, buf);
    enum mci_unpack_error error =
        row->is_request ? control_copy_request(body, &pack)
                        : control_copy_answer(row->op, body, &pack);
    if (error == MCI_UNPACK_OK) {
        ck_assert_msg(mci_pack_done(&pack) == MC_OK, "%s: %d", row->name,
                      pack.err);
    }
    return error;
}

static void check_same(const struct row *row)
{
    struct mci_buf buf;
    mci_buf_init(&buf, BUF_MAX);
    ck_assert_msg(copy(row, row->body, &buf) == MCI_UNPACK_OK, "%s %d",
                  row->name, row->is_request);
    ck_assert_uint_eq(buf.len, row->body.len + MCI_FRAME_HEAD);
    ck_assert_uint_eq(mci_get_le32(buf.data), row->body.len);
    ck_assert_msg(
        memcmp(buf.data + MCI_FRAME_HEAD, row->body.data, row->body.len) == 0,
        "%s %d is written otherwise", row->name, row->is_request);
    mci_buf_fini(&buf);
}

START_TEST(every_frame_is_read_and_written_alike)
{
    each_row(check_same);
}
END_TEST

static void check_peer(const struct row *row)
{
    struct mci_buf buf;
    msgpack_unpacked unpacked;
    size_t at = 0;
    mci_buf_init(&buf, BUF_MAX);
    ck_assert_int_eq(copy(row, row->body, &buf), MCI_UNPACK_OK);
    msgpack_unpacked_init(&unpacked);
    ck_assert_int_eq(
        msgpack_unpack_next(&unpacked, (const char *)buf.data + MCI_FRAME_HEAD,
                            buf.len - MCI_FRAME_HEAD, &at),
        MSGPACK_UNPACK_SUCCESS);
    ck_assert_uint_eq(at, buf.len - MCI_FRAME_HEAD);
    ck_assert_int_eq(unpacked.data.type, MSGPACK_OBJECT_ARRAY);
    ck_assert_uint_eq(unpacked.data.via.array.size, row->is_request ? 10 : 5);
    ck_assert_uint_eq(unpacked.data.via.array.ptr[0].via.u64,
                      MCI_CONTROL_VERSION);
    msgpack_unpacked_destroy(&unpacked);
    mci_buf_fini(&buf);
}

START_TEST(msgpack_c_reads_what_we_write)
{
    each_row(check_peer);
}
END_TEST

/* A body of its own size, so that a sanitizer sees a read beyond it. */
static enum mci_unpack_error copy_spoilt(const struct row *row,
                                         struct mc_view body)
{
    struct mci_buf buf;
    mci_buf_init(&buf, BUF_MAX);
    char *bytes = malloc(body.len ? body.len : 1);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, body.data, body.len);
    enum mci_unpack_error error =
        copy(row, mc_view_make(bytes, body.len), &buf);
    free(bytes);
    mci_buf_fini(&buf);
    return error;
}

static void check_cut(const struct row *row)
{
    for (size_t len = 0; len < row->body.len; len++) {
        ck_assert_msg(copy_spoilt(row, mc_view_make(row->body.data, len)) ==
                          MCI_UNPACK_ERROR_TRUNCATED,
                      "%s %d cut at %zu", row->name, row->is_request, len);
    }
}

START_TEST(every_frame_cut_anywhere_is_refused)
{
    each_row(check_cut);
}
END_TEST

static void check_longer(const struct row *row)
{
    char *bytes = malloc(row->body.len + 1);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, row->body.data, row->body.len);
    bytes[row->body.len] = 0;
    ck_assert_int_eq(copy_spoilt(row, mc_view_make(bytes, row->body.len + 1)),
                     MCI_UNPACK_ERROR_TRAILING);
    free(bytes);
}

START_TEST(a_byte_behind_a_frame_is_refused)
{
    each_row(check_longer);
}
END_TEST

/* The body with the bytes [from, to) replaced. */
static enum mci_unpack_error copy_replaced(const struct row *row, size_t from,
                                           size_t to, struct mc_view by)
{
    const char *body = row->body.data;
    size_t rest = row->body.len - to;
    char *bytes = malloc(from + by.len + rest);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, body, from);
    memcpy(bytes + from, by.data, by.len);
    memcpy(bytes + from + by.len, body + to, rest);
    enum mci_unpack_error error =
        copy_spoilt(row, mc_view_make(bytes, from + by.len + rest));
    free(bytes);
    return error;
}

typedef void (*place_fn)(const struct row *row, size_t from,
                         const struct token *token, size_t header_to);

static void each_value(const struct row *row, place_fn fn)
{
    const uint8_t *base = row->body.data;
    const uint8_t *end = base + row->body.len;
    const uint8_t *at = base;
    while (at < end) {
        struct token token;
        token_read(at, end, &token);
        ck_assert_int_gt(token.kind, TOKEN_MALFORMED);
        fn(row, (size_t)(at - base), &token,
           (size_t)(token_end(&token) - base));
        at = token_end(&token);
    }
}

/* Where the value at `from` ends, whatever is in it. */
static size_t whole_end(const struct row *row, size_t from)
{
    struct mci_unpack unpack;
    mci_unpack_init(&unpack, mc_view_make((const char *)row->body.data + from,
                                          row->body.len - from));
    mci_unpack_skip(&unpack, MCI_UNPACK_DEPTH_MAX);
    ck_assert_int_eq(unpack.error, MCI_UNPACK_OK);
    return from + (size_t)(unpack.at - unpack.base);
}

static void replace_by_strangers(const struct row *row, size_t from,
                                 const struct token *token, size_t header_to)
{
    (void)token;
    (void)header_to;
    size_t to = whole_end(row, from);
    static const struct mc_view strangers[] = {
        {"\xd4\x01\x00", 3},                         /* ext */
        {"\x80", 1},                                 /* a map */
        {"\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", 9}, /* 1.0 */
    };
    for (size_t i = 0; i < 3; i++) {
        ck_assert_msg(
            copy_replaced(row, from, to, strangers[i]) == MCI_UNPACK_ERROR_TYPE,
            "%s %d at %zu: stranger %zu", row->name, row->is_request, from, i);
    }
    ck_assert_msg(copy_replaced(row, from, to, mc_view_make("\xc1", 1)) ==
                      MCI_UNPACK_ERROR_MALFORMED,
                  "%s %d at %zu", row->name, row->is_request, from);
}

static void check_strangers(const struct row *row)
{
    each_value(row, replace_by_strangers);
}

START_TEST(no_place_takes_a_value_of_a_type_that_is_never_sent)
{
    each_row(check_strangers);
}
END_TEST

/* What is a number is never a text, and the other way round. */
static void swap_type(const struct row *row, size_t from,
                      const struct token *token, size_t header_to)
{
    struct mc_view by = mc_view_make("\xa1x", 2);
    if (token->kind == TOKEN_STR || token->kind == TOKEN_BIN ||
        token->kind == TOKEN_BOOL || token->kind == TOKEN_ARRAY) {
        by = mc_view_make("\x05", 1);
    } else if (token->kind != TOKEN_UINT && token->kind != TOKEN_NEGATIVE) {
        return; /* nil, which may stand for several */
    }
    size_t to = token->kind == TOKEN_ARRAY ? whole_end(row, from) : header_to;
    ck_assert_msg(copy_replaced(row, from, to, by) != MCI_UNPACK_OK,
                  "%s %d at %zu", row->name, row->is_request, from);
}

static void check_swapped(const struct row *row)
{
    each_value(row, swap_type);
}

START_TEST(numbers_texts_and_arrays_do_not_stand_for_each_other)
{
    each_row(check_swapped);
}
END_TEST

static void lie_about_count(const struct row *row, size_t from,
                            const struct token *token, size_t header_to)
{
    static const uint64_t huge[] = {65537, UINT32_MAX};
    uint8_t header[5] = {0xdd};
    if (token->kind != TOKEN_ARRAY) {
        return;
    }
    uint64_t lies[] = {token->value + 1, token->value - 1, huge[0], huge[1]};
    for (size_t i = 0; i < 4; i++) {
        if (lies[i] > UINT32_MAX) {
            continue;
        }
        mci_put_be32(header + 1, (uint32_t)lies[i]);
        ck_assert_msg(copy_replaced(row, from, header_to,
                                    mc_view_make(header, sizeof header)) !=
                          MCI_UNPACK_OK,
                      "%s %d at %zu: %ju", row->name, row->is_request, from,
                      (uintmax_t)lies[i]);
    }
}

static void check_lies(const struct row *row)
{
    each_value(row, lie_about_count);
}

START_TEST(a_count_that_lies_is_refused)
{
    each_row(check_lies);
}
END_TEST

static void spoil_text(const struct row *row, size_t from,
                       const struct token *token, size_t header_to)
{
    (void)header_to;
    if (token->kind != TOKEN_STR) {
        return;
    }
    uint8_t header[5] = {0xdb};
    mci_put_be32(header + 1, (uint32_t)token->value + 1);
    size_t body = header_to - (size_t)token->value;
    enum mci_unpack_error error =
        copy_replaced(row, from, body, mc_view_make(header, sizeof header));
    ck_assert_msg(error != MCI_UNPACK_OK, "%s %d at %zu", row->name,
                  row->is_request, from);
    mci_put_be32(header + 1, UINT32_MAX);
    ck_assert_int_eq(
        copy_replaced(row, from, body, mc_view_make(header, sizeof header)),
        MCI_UNPACK_ERROR_TRUNCATED);
}

static void check_texts(const struct row *row)
{
    each_value(row, spoil_text);
}

START_TEST(a_length_that_lies_is_refused)
{
    each_row(check_texts);
}
END_TEST

/* Whatever else a byte may be turned into: what is read then can be written, and
 * read again to the same. */
static void check_bytes(const struct row *row)
{
    struct mci_buf once;
    struct mci_buf twice;
    uint64_t random = 88172645463325252;
    mci_buf_init(&once, BUF_MAX);
    mci_buf_init(&twice, BUF_MAX);
    uint8_t *bytes = malloc(row->body.len);
    ck_assert_ptr_nonnull(bytes);
    for (unsigned i = 0; i < 2000; i++) {
        memcpy(bytes, row->body.data, row->body.len);
        unsigned changes = 1 + (unsigned)vector_random(&random, 3);
        for (unsigned change = 0; change < changes; change++) {
            bytes[vector_random(&random, row->body.len)] =
                (uint8_t)vector_random(&random, 256);
        }
        if (copy(row, mc_view_make(bytes, row->body.len), &once) !=
            MCI_UNPACK_OK) {
            continue;
        }
        struct mc_view body =
            mc_view_make(once.data + MCI_FRAME_HEAD, once.len - MCI_FRAME_HEAD);
        ck_assert_int_eq(copy(row, body, &twice), MCI_UNPACK_OK);
        ck_assert(mc_view_equal(mci_buf_view(&once), mci_buf_view(&twice)));
    }
    free(bytes);
    mci_buf_fini(&once);
    mci_buf_fini(&twice);
}

START_TEST(what_is_read_of_spoilt_bytes_can_be_written_and_read_again)
{
    each_row(check_bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control_frames");
    TCase *alike = tcase_create("alike");
    tcase_add_test(alike, every_frame_is_read_and_written_alike);
    tcase_add_test(alike, msgpack_c_reads_what_we_write);
    suite_add_tcase(suite, alike);
    TCase *spoilt = tcase_create("spoilt");
    tcase_set_timeout(spoilt, 100);
    tcase_add_test(spoilt, every_frame_cut_anywhere_is_refused);
    tcase_add_test(spoilt, a_byte_behind_a_frame_is_refused);
    tcase_add_test(spoilt, no_place_takes_a_value_of_a_type_that_is_never_sent);
    tcase_add_test(spoilt,
                   numbers_texts_and_arrays_do_not_stand_for_each_other);
    tcase_add_test(spoilt, a_count_that_lies_is_refused);
    tcase_add_test(spoilt, a_length_that_lies_is_refused);
    tcase_add_test(spoilt,
                   what_is_read_of_spoilt_bytes_can_be_written_and_read_again);
    suite_add_tcase(suite, spoilt);
    return suite_run(suite);
}
