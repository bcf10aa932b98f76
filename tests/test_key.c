/* SPDX-License-Identifier: Apache-2.0 */
/* Keys against tests/data/vectors/keys.json, which key_table.py wrote with the
 * Layout of the index model. */
#include <stdlib.h>

#include "mc_key.h"
#include "mci_hash.h"
#include "suite.h"
#include "vectors.h"

static struct mc_key_layout layout_of(const char *name, const char *prefix)
{
    struct mc_key_layout layout;
    ck_assert_int_eq(
        mc_key_layout_parse(mc_view_str(name), mc_view_str(prefix), &layout),
        MC_OK);
    return layout;
}

static struct mc_view text_at(json_object *row, size_t index)
{
    json_object *text = json_object_array_get_idx(row, index);
    return mc_view_make(json_object_get_string(text),
                        (size_t)json_object_get_string_len(text));
}

static void check_key(json_object *row)
{
    struct mc_key_layout layout;
    struct mc_key_page page = {1, 2, 3};
    struct mc_view key = text_at(row, 2);
    json_object *expected = json_object_array_get_idx(row, 3);
    ck_assert_int_eq(
        mc_key_layout_parse(text_at(row, 0), text_at(row, 1), &layout), MC_OK);
    /* A block of its own size shows a read beyond the key. */
    char *exact = malloc(key.len ? key.len : 1);
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, key.data, key.len);
    bool belongs = mc_key_parse(&layout, mc_view_make(exact, key.len), &page);
    free(exact);
    ck_assert_msg(belongs == (expected != NULL), "%s",
                  json_object_to_json_string(row));
    if (!expected) {
        ck_assert_uint_eq(page.hash, 1);
        ck_assert_uint_eq(page.part, 3);
        return;
    }
    struct mc_view digest = text_at(expected, 2);
    ck_assert_uint_eq(page.hash, json_object_get_uint64(
                                     json_object_array_get_idx(expected, 0)));
    ck_assert_uint_eq(page.part, json_object_get_uint64(
                                     json_object_array_get_idx(expected, 1)));
    ck_assert_uint_eq(page.digest, mci_hash64(digest.data, digest.len));
    ck_assert_uint_lt(page.part, layout.parts);
}

START_TEST(keys_read_as_the_model_reads_them)
{
    size_t good = 0;
    json_object *rows = vectors_load_copy("keys.json");
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        good += json_object_array_get_idx(row, 3) != NULL;
        check_key(row);
    }
    ck_assert_uint_gt(good, 200);
    json_object_put(rows);
}
END_TEST

START_TEST(a_digest_is_the_xxh3_of_the_page)
{
    /* Of "0x2a", as libxxhash says it. */
    struct mc_key_layout layout = layout_of("u64", NULL);
    struct mc_key_page page;
    ck_assert(mc_key_parse(&layout, mc_view_str("0x2a"), &page));
    ck_assert_uint_eq(page.hash, 42);
    ck_assert_uint_eq(page.digest, UINT64_C(0x732b6f9851c1ebdc));
    struct mc_key_page other;
    ck_assert(mc_key_parse(&layout, mc_view_str("42"), &other));
    ck_assert_uint_eq(other.hash, 42);
    ck_assert_uint_ne(other.digest, page.digest);
}
END_TEST

START_TEST(a_layout_counts_the_parts_of_a_page)
{
    static const struct {
        const char *name;
        enum mc_key_scheme scheme;
        uint32_t ranks;
        uint32_t parts;
    } rows[] = {
        {"u64", MC_KEY_U64, 1, 1},
        {"sglang:mha:tp=1", MC_KEY_SGLANG_MHA, 1, 2},
        {"sglang:mha:tp=64", MC_KEY_SGLANG_MHA, 64, 128},
        {"sglang:mla", MC_KEY_SGLANG_MLA, 1, 1},
        {"vllm:tp=8", MC_KEY_VLLM, 8, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[32];
        struct mc_key_layout layout = layout_of(rows[i].name, "p");
        ck_assert_int_eq(layout.scheme, rows[i].scheme);
        ck_assert_uint_eq(layout.ranks, rows[i].ranks);
        ck_assert_uint_eq(layout.parts, rows[i].parts);
        mc_key_layout_name(&layout, name, sizeof name);
        ck_assert_str_eq(name, rows[i].name);
        mc_key_layout_name(&layout, name, 3);
        ck_assert_uint_eq(strlen(name), 2);
    }
}
END_TEST

START_TEST(a_name_that_is_no_layout_is_refused)
{
    static const char *const names[] = {
        "",
        "u64 ",
        "u6",
        "u64:tp=1",
        "sglang",
        "sglang:mha",
        "vllm",
        "vllm:tp=",
        "vllm:tp=0",
        "vllm:tp=65",
        "vllm:tp=01",
        "vllm:tp=1 ",
        "vllm:tp=-1",
        "sglang:mla:tp=2",
        "sglang:mha:tp=99999999999999999999",
        "VLLM:tp=1",
    };
    struct mc_key_layout layout;
    memset(&layout, 0x5a, sizeof layout);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_msg(mc_key_layout_parse(mc_view_str(names[i]),
                                          mc_view_make(NULL, 0),
                                          &layout) == MC_ERR_INVALID_PARAMS,
                      "%s", names[i]);
    }
    ck_assert_int_eq(mc_key_layout_parse(mc_view_make(NULL, 0),
                                         mc_view_make(NULL, 0), &layout),
                     MC_ERR_INVALID_PARAMS);
    /* Nothing was written. */
    ck_assert_uint_eq(layout.parts, 0x5a5a5a5a);
}
END_TEST

START_TEST(a_prefix_has_bounds)
{
    static char text[MC_KEY_LEN_MAX + 1];
    struct mc_key_layout layout;
    struct mc_key_page page;
    memset(text, 'p', sizeof text);
    ck_assert_int_eq(mc_key_layout_parse(mc_view_str("u64"),
                                         mc_view_make(text, MC_KEY_LEN_MAX),
                                         &layout),
                     MC_OK);
    ck_assert(
        !mc_key_parse(&layout, mc_view_make(text, MC_KEY_LEN_MAX), &page));
    ck_assert_int_eq(mc_key_layout_parse(mc_view_str("u64"),
                                         mc_view_make(text, sizeof text),
                                         &layout),
                     MC_ERR_INVALID_PARAMS);
    /* The joint takes a byte. */
    ck_assert_int_eq(mc_key_layout_parse(mc_view_str("sglang:mla"),
                                         mc_view_make(text, MC_KEY_LEN_MAX),
                                         &layout),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_key_layout_parse(mc_view_str("sglang:mla"),
                                         mc_view_make(text, MC_KEY_LEN_MAX - 1),
                                         &layout),
                     MC_OK);
    ck_assert_uint_eq(layout.prefix_len, MC_KEY_LEN_MAX);
    ck_assert_int_eq(
        mc_key_layout_parse(mc_view_str("u64"), mc_view_str("\xff"), &layout),
        MC_ERR_INVALID_PARAMS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("key");
    TCase *keys = tcase_create("keys");
    tcase_add_test(keys, keys_read_as_the_model_reads_them);
    tcase_add_test(keys, a_digest_is_the_xxh3_of_the_page);
    suite_add_tcase(suite, keys);
    TCase *layouts = tcase_create("layouts");
    tcase_add_test(layouts, a_layout_counts_the_parts_of_a_page);
    tcase_add_test(layouts, a_name_that_is_no_layout_is_refused);
    tcase_add_test(layouts, a_prefix_has_bounds);
    suite_add_tcase(suite, layouts);
    return suite_run(suite);
}
