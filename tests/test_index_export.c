/* SPDX-License-Identifier: Apache-2.0 */
/* Export and import: nothing is lost, nothing is said twice, bad lines are
 * refused whole. */
#include <stdlib.h>
#include <string.h>

#include "index_check.h"
#include "index_rig.h"
#include "mc_index_script.h"
#include "mci_alloc.h"
#include "mci_buf.h"
#include "suite.h"

#define EXPORT_MAX (UINT64_C(1) << 28)

static enum mc_err keep_line(void *ctx, struct mc_view line)
{
    ck_assert_ptr_null(memchr(line.data, '\n', line.len));
    enum mc_err err = mci_buf_append(ctx, line.data, line.len);
    return err == MC_OK ? mci_buf_append_byte(ctx, '\n') : err;
}

static struct mci_buf export_of(struct mc_index *index)
{
    struct mci_buf text;
    mci_buf_init(&text, EXPORT_MAX);
    ck_assert_int_eq(mc_index_export(index, keep_line, &text), MC_OK);
    return text;
}

static struct mc_index *import(const struct mci_buf *text, const char *layout)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index(layout, &bounds);
    size_t at = 0;
    while (at < text->len) {
        const uint8_t *end = memchr(text->data + at, '\n', text->len - at);
        size_t len = (size_t)(end - (text->data + at));
        enum mc_index_result result = MC_INDEX_FULL;
        ck_assert_int_eq(mc_index_apply_line(index,
                                             mc_view_make(text->data + at, len),
                                             &result),
                         MC_OK);
        ck_assert_int_eq(result, MC_INDEX_APPLIED);
        at += len + 1;
    }
    index_check(index);
    return index;
}

static void check_round(struct mc_index *index, const char *layout)
{
    struct mci_buf first = export_of(index);
    struct mc_index *copy = import(&first, layout);
    struct mci_buf second = export_of(copy);
    ck_assert_uint_eq(first.len, second.len);
    ck_assert_mem_eq(first.data, second.data, first.len);
    ck_assert_uint_eq(rig_stats(index).resident, rig_stats(copy).resident);
    ck_assert_uint_eq(rig_stats(index).sessions, rig_stats(copy).sessions);
    mci_buf_fini(&first);
    mci_buf_fini(&second);
    mc_index_destroy(copy);
}

static void check_text(struct mc_index *index, const char *wanted)
{
    struct mci_buf text = export_of(index);
    ck_assert_int_eq(mci_buf_append_byte(&text, '\0'), MC_OK);
    ck_assert_str_eq((const char *)text.data, wanted);
    mci_buf_fini(&text);
}

START_TEST(an_export_says_what_is_there_in_order)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    const struct mc_index_engine engine = {rig_text("default"), rig_text("w0"),
                                           3};
    static const uint64_t chain[] = {7, 2, 9};
    static const uint64_t branch[] = {5};
    check_text(index, "{\"op\": \"layout\", \"layout\": \"u64\", \"prefix\": "
                      "\"\"}\n");
    ck_assert_int_eq(rig_observe(index, "b", chain, 3), MC_INDEX_APPLIED);
    ck_assert_int_eq(mc_index_engine_stored(index, &engine, MC_TIER_HOST,
                                            &chain[0], branch, 1,
                                            rig_text("a")),
                     MC_INDEX_APPLIED);
    ck_assert_int_eq(mc_index_stored(index, rig_text("t\"2"), rig_text("n1"),
                                     rig_text("1"), rig_text("disk"),
                                     rig_text("\xc3\xa9")),
                     MC_INDEX_APPLIED);
    check_text(
        index,
        "{\"op\": \"layout\", \"layout\": \"u64\", \"prefix\": \"\"}\n"
        "{\"op\": \"node\", \"tenant\": \"default\", \"hash\": 7, "
        "\"root\": true}\n"
        "{\"op\": \"node\", \"tenant\": \"default\", \"hash\": 2, "
        "\"parent\": 7}\n"
        "{\"op\": \"node\", \"tenant\": \"default\", \"hash\": 9, "
        "\"parent\": 2}\n"
        "{\"op\": \"node\", \"tenant\": \"default\", \"hash\": 5, "
        "\"parent\": 7, \"held\": [{\"owner\": \"w0/3\", \"tier\": "
        "\"host\"}]}\n"
        "{\"op\": \"node\", \"tenant\": \"t\\\"2\", \"hash\": 1, "
        "\"digest\": \"65cd25028f98f158\", \"held\": [{\"owner\": "
        "\"store:n1\", \"tier\": \"disk\"}]}\n"
        "{\"op\": \"session\", \"tenant\": \"default\", \"session\": \"b\", "
        "\"heads\": [9]}\n"
        "{\"op\": \"session\", \"tenant\": \"default\", \"session\": \"a\", "
        "\"heads\": [5]}\n"
        "{\"op\": \"session\", \"tenant\": \"t\\\"2\", \"session\": "
        "\"\\u00e9\", \"heads\": [1]}\n");
    check_round(index, "u64");
    mc_index_destroy(index);
}
END_TEST

START_TEST(names_may_hold_anything)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    static const char odd[] = "a\0b\n\"\\\x7f\x01 \xf0\x9f\x98\x80";
    const struct mc_view name = mc_view_make(odd, sizeof odd - 1);
    const uint64_t hash = 4;
    ck_assert_int_eq(mc_index_observe(index, name, name, &hash, 1),
                     MC_INDEX_APPLIED);
    ck_assert_int_eq(mc_index_stored(index, name, name, rig_text("4"),
                                     rig_text("cpu"), name),
                     MC_INDEX_APPLIED);
    struct mc_view got;
    ck_assert_uint_eq(mc_index_sessions_of(reader, name, hash, &got, 1), 1);
    ck_assert(mc_view_equal(got, name));
    check_round(index, "u64");
    struct mci_buf text = export_of(index);
    struct mc_index *copy = import(&text, "u64");
    struct mc_index_reader *other = rig_reader(copy);
    ck_assert_uint_eq(mc_index_sessions_of(other, name, hash, &got, 1), 1);
    ck_assert(mc_view_equal(got, name));
    mci_buf_fini(&text);
    mc_index_reader_destroy(other);
    mc_index_destroy(copy);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(pages_that_are_not_whole_are_kept)
{
    static const char page[] = "@00000000000000000000000000000000";
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("vllm:tp=3", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    const uint64_t hash = 0;
    char key[64];
    for (int part = 0; part < 2; part++) {
        (void)snprintf(key, sizeof key, "@tp_rank:%d%s", part * 2, page);
        ck_assert_int_eq(mc_index_stored(index, rig_text("default"),
                                         rig_text("n1"), rig_text(key),
                                         rig_text("cpu"), rig_text("")),
                         MC_INDEX_APPLIED);
    }
    ck_assert_uint_eq(rig_stored(reader, &hash, 1), 0);
    check_round(index, "vllm:tp=3");
    struct mci_buf text = export_of(index);
    struct mc_index *copy = import(&text, "vllm:tp=3");
    struct mc_index_reader *other = rig_reader(copy);
    (void)snprintf(key, sizeof key, "@tp_rank:1%s", page);
    ck_assert_int_eq(mc_index_stored(copy, rig_text("default"), rig_text("n1"),
                                     rig_text(key), rig_text("cpu"),
                                     rig_text("")),
                     MC_INDEX_APPLIED);
    ck_assert_uint_eq(rig_stored(other, &hash, 1), 1);
    mci_buf_fini(&text);
    mc_index_reader_destroy(other);
    mc_index_destroy(copy);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(lines_that_say_nothing_sound_are_refused)
{
    static const char *const lines[] = {
        "",
        "x",
        "[]",
        "{}",
        "{\"op\":\"node\"}",
        "{\"op\":\"node\",\"tenant\":\"t\"}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":-1}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1.5}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":18446744073709551616}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"root\":1}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"root\":true,"
        "\"parent\":2}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"digest\":\"12\"}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"digest\":"
        "\"000000000000000G\"}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"held\":{}}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"held\":[1]}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"held\":[{\"owner\":"
        "\"w0\",\"tier\":\"disk\"}]}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"held\":[{\"owner\":"
        "\"w0/01\",\"tier\":\"disk\"}]}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"held\":[{\"owner\":"
        "\"w0/4294967296\",\"tier\":\"disk\"}]}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"held\":[{\"owner\":"
        "\"w0/0\",\"tier\":\"tape\"}]}",
        "{\"op\":\"node\",\"tenant\":\"t\",\"hash\":1,\"held\":[{\"owner\":"
        "\"store:n\",\"tier\":\"disk\",\"parts\":[128]}]}",
        "{\"op\":\"session\",\"tenant\":\"t\",\"session\":\"\",\"heads\":[]}",
        "{\"op\":\"session\",\"tenant\":\"t\",\"session\":\"s\"}",
        "{\"op\":\"session\",\"tenant\":\"t\",\"session\":\"s\",\"heads\":"
        "[null]}",
        "{\"op\":\"layout\",\"layout\":\"sglang:mla\"}",
        "{\"op\":\"layout\",\"layout\":\"u64\",\"prefix\":\"m\"}",
        "{\"op\":\"stolen\"}",
        "{\"op\":\"stored\",\"tenant\":\"t\",\"backend\":\"n\",\"key\":\"1\"}",
        "{\"op\":\"observe\",\"tenant\":\"t\",\"session\":\"s\",\"hashes\":1}",
    };
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        enum mc_index_result result = MC_INDEX_FULL;
        ck_assert_msg(mc_index_apply_line(index, rig_text(lines[i]), &result) ==
                          MC_ERR_INVALID_PARAMS,
                      "%s", lines[i]);
        ck_assert_int_eq(result, MC_INDEX_FULL);
    }
    ck_assert_uint_eq(rig_stats(index).nodes, 0);
    ck_assert_uint_eq(rig_stats(index).sessions, 0);
    mc_index_destroy(index);
}
END_TEST

START_TEST(nodes_that_contradict_what_is_there_are_refused)
{
    static const struct {
        const char *line;
        enum mc_index_result result;
    } rows[] = {
        {"{\"op\":\"node\",\"tenant\":\"default\",\"hash\":1,\"parent\":3}",
         MC_INDEX_CYCLIC_PARENT},
        {"{\"op\":\"node\",\"tenant\":\"default\",\"hash\":3,\"parent\":1}",
         MC_INDEX_CONFLICTING_PARENT},
        {"{\"op\":\"node\",\"tenant\":\"default\",\"hash\":1,\"parent\":9}",
         MC_INDEX_CONFLICTING_PARENT},
        {"{\"op\":\"node\",\"tenant\":\"default\",\"hash\":2,\"root\":true}",
         MC_INDEX_CONFLICTING_PARENT},
        {"{\"op\":\"node\",\"tenant\":\"default\",\"hash\":5,\"parent\":5}",
         MC_INDEX_CYCLIC_PARENT},
    };
    static const uint64_t chain[] = {1, 2, 3};
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    ck_assert_int_eq(rig_observe(index, "s", chain, 3), MC_INDEX_APPLIED);
    struct mci_buf before = export_of(index);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum mc_index_result result = MC_INDEX_APPLIED;
        ck_assert_int_eq(
            mc_index_apply_line(index, rig_text(rows[i].line), &result), MC_OK);
        ck_assert_int_eq(result, rows[i].result);
        index_check(index);
    }
    struct mci_buf after = export_of(index);
    ck_assert(mc_view_equal(mci_buf_view(&before), mci_buf_view(&after)));
    mci_buf_fini(&before);
    mci_buf_fini(&after);
    mc_index_destroy(index);
}
END_TEST

static enum mc_err refuse_line(void *ctx, struct mc_view line)
{
    (void)line;
    return --*(int *)ctx ? MC_OK : MC_ERR_BUFFER_OVERFLOW;
}

START_TEST(an_export_ends_where_its_taker_says)
{
    static const uint64_t chain[] = {1, 2, 3};
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    ck_assert_int_eq(rig_observe(index, "s", chain, 3), MC_INDEX_APPLIED);
    for (int lines = 1; lines <= 5; lines++) {
        int left = lines;
        ck_assert_int_eq(mc_index_export(index, refuse_line, &left),
                         MC_ERR_BUFFER_OVERFLOW);
        ck_assert_int_eq(left, 0);
    }
    mc_index_destroy(index);
}
END_TEST

START_TEST(an_export_fails_clean_without_memory)
{
    static const uint64_t chain[] = {1, 2, 3};
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    ck_assert_int_eq(rig_observe(index, "s", chain, 3), MC_INDEX_APPLIED);
    bool has_failed = true;
    for (uint64_t k = 1; has_failed; k++) {
        struct mci_alloc_stats before;
        struct mci_alloc_stats after;
        struct mci_buf text;
        mci_buf_init(&text, EXPORT_MAX);
        mci_alloc_stats(&before);
        (void)mci_alloc_fail_at(k);
        enum mc_err err = mc_index_export(index, keep_line, &text);
        has_failed = mci_alloc_fail_at(0) == 0;
        ck_assert_int_eq(err, has_failed ? MC_ERR_NOMEM : MC_OK);
        mci_buf_fini(&text);
        mci_alloc_stats(&after);
        ck_assert_int_eq(after.blocks, before.blocks);
    }
    mc_index_destroy(index);
}
END_TEST

START_TEST(a_script_says_what_is_wrong_with_a_line)
{
    static const struct {
        const char *line;
        const char *fault;
    } rows[] = {
        {"{\"q\":\"heads\",\"tenant\":\"t\",\"session\":\"s\"}",
         "no layout line before this one"},
        {"{\"op\":\"layout\",\"layout\":\"u65\"}", "not a layout: layout"},
        {"{\"op\":\"layout\",\"layout\":\"u64\"}", ""},
        {"  \t\n", ""},
        {"{\"q\":\"why\",\"tenant\":\"t\"}", "not a question: q"},
        {"{\"q\":\"heads\",\"tenant\":\"t\"}", "missing: session"},
        {"{\"x\":1}", "neither op nor q"},
        {"{\"op\":\"stored\"}", "missing: tenant"},
        {"{\"q\":\"match\",\"tenant\":\"t\",\"hashes\":[-1]}",
         "out of range: hashes"},
        {"{\"q\":\"sessions_of\",\"tenant\":\"t\",\"hash\":\"1\"}",
         "not an integer: hash"},
    };
    struct mc_index_script *script = NULL;
    ck_assert_int_eq(mc_index_script_create(NULL, &script), MC_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mc_view answer = mc_view_str("untouched");
        enum mc_err err =
            mc_index_script_line(script, rig_text(rows[i].line), &answer);
        ck_assert_int_eq(err, rows[i].fault[0] ? MC_ERR_INVALID_PARAMS : MC_OK);
        ck_assert_str_eq(mc_index_script_fault(script), rows[i].fault);
        ck_assert(err == MC_OK ? !answer.data
                               : mc_view_equal(answer, rig_text("untouched")));
    }
    mc_index_script_destroy(script);
    mc_index_script_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index_export");
    TCase *tcase = tcase_create("export");
    tcase_add_test(tcase, an_export_says_what_is_there_in_order);
    tcase_add_test(tcase, names_may_hold_anything);
    tcase_add_test(tcase, pages_that_are_not_whole_are_kept);
    tcase_add_test(tcase, an_export_ends_where_its_taker_says);
    tcase_add_test(tcase, an_export_fails_clean_without_memory);
    suite_add_tcase(suite, tcase);
    TCase *import_case = tcase_create("import");
    tcase_add_test(import_case, lines_that_say_nothing_sound_are_refused);
    tcase_add_test(import_case,
                   nodes_that_contradict_what_is_there_are_refused);
    tcase_add_test(import_case, a_script_says_what_is_wrong_with_a_line);
    suite_add_tcase(suite, import_case);
    return suite_run(suite);
}
