/* SPDX-License-Identifier: Apache-2.0 */
/* test_row_config.c - options of a row driver from YAML and JSON: what is taken,
 * and what is refused with its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "mc_row_driver.h"
#include "suite.h"

static char path[] = "/tmp/mckv-row-config-XXXXXX";
static char problem[256];

static void write_file(const char *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
    ck_assert_int_eq(fclose(file), 0);
}

static void write_text(const char *text)
{
    write_file(text, strlen(text));
}

static enum mc_err read_text(const char *text, struct mc_row_driver_opts *opts)
{
    write_text(text);
    return mc_row_driver_config(path, opts, problem, sizeof problem);
}

START_TEST(yaml_and_json_say_the_same)
{
    static const char *const texts[] = {
        "row_driver:\n  workers: 8\n  bytes_per_call: 1099511627776\n"
        "  close_ms: 0 # as by default\n",
        "# engines of one node\nrow_driver: {workers: 8, "
        "bytes_per_call: 1099511627776, close_ms: 0}\n",
        "{\"row_driver\": {\n\t\"workers\": 8,\n"
        "\t\"bytes_per_call\": 1099511627776,\n\t\"close_ms\": 0\n}}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct mc_row_driver_opts opts = {
            .workers = 2, .rows_max = 7, .close_ms = 5};
        ck_assert_int_eq(read_text(texts[i], &opts), MC_OK);
        ck_assert_str_eq(problem, "");
        ck_assert_uint_eq(opts.workers, 8);
        ck_assert_uint_eq(opts.bytes_per_call, UINT64_C(1) << 40);
        ck_assert_uint_eq(opts.close_ms, 0);
        ck_assert_uint_eq(opts.rows_max, 7); /* not named */
    }
}
END_TEST

START_TEST(every_member_goes_where_it_belongs)
{
    struct mc_row_driver_opts opts = {.workers = 0};
    ck_assert_int_eq(read_text("row_driver:\n"
                               "  workers: 64\n"
                               "  rows_per_call: 65536\n"
                               "  bytes_per_call: 281474976710656\n"
                               "  rows_max: 4194304\n"
                               "  timeout_ms: 4294967295\n"
                               "  close_ms: 4\n"
                               "  replicas: 8\n",
                               &opts),
                     MC_OK);
    ck_assert_uint_eq(opts.workers, 64);
    ck_assert_uint_eq(opts.rows_per_call, 65536);
    ck_assert_uint_eq(opts.bytes_per_call, MC_OBJECT_SIZE_MAX);
    ck_assert_uint_eq(opts.rows_max, 4194304);
    ck_assert_uint_eq(opts.timeout_ms, UINT32_MAX);
    ck_assert_uint_eq(opts.close_ms, 4);
    ck_assert_uint_eq(opts.replicas, 8);
}
END_TEST

START_TEST(what_says_nothing_changes_nothing)
{
    static const char *const texts[] = {
        "",          "# nothing\n", "{}", "row_driver:", "{\"row_driver\": {}}",
        "---\n...\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct mc_row_driver_opts opts = {.workers = 3};
        ck_assert_int_eq(read_text(texts[i], &opts), MC_OK);
        ck_assert_uint_eq(opts.workers, 3);
    }
}
END_TEST

START_TEST(a_file_says_all_that_a_driver_needs)
{
    static const char text[] = "client:\n"
                               "  master_server_address: 10.0.0.1:50051\n"
                               "  local_hostname: \"node7:0\"\n"
                               "  metadata_server: P2PHANDSHAKE\n"
                               "  global_segment_size: 4gb\n"
                               "  local_buffer_size: \"16 MB\"\n"
                               "  protocol: tcp\n"
                               "  device_name:\n"
                               "  tenant_id: default\n"
                               "blob: {key_prefix: llama/}\n"
                               "row_driver: {workers: 8}\n";
    struct mc_row_file file = {.driver = {.rows_max = 7}};
    write_text(text);
    ck_assert_int_eq(mc_row_driver_file(path, &file, problem, sizeof problem),
                     MC_OK);
    ck_assert(file.has_client);
    ck_assert_str_eq(file.client.master, "10.0.0.1:50051");
    ck_assert_str_eq(file.client.local_hostname, "node7:0");
    ck_assert_str_eq(file.client.metadata_server, "P2PHANDSHAKE");
    ck_assert_str_eq(file.client.protocol, "tcp");
    ck_assert_str_eq(file.client.tenant, "default");
    ck_assert_uint_eq(file.client.segment_bytes, UINT64_C(4) << 30);
    ck_assert_uint_eq(file.client.local_buffer_bytes, 16 << 20);
    ck_assert_str_eq(file.device_name, "");
    ck_assert_str_eq(file.key_prefix, "llama/");
    ck_assert_uint_eq(file.driver.workers, 8);
    ck_assert_uint_eq(file.driver.rows_max, 7);
    /* Whoever wants the options alone may have the same file. */
    struct mc_row_driver_opts opts = {.rows_max = 9};
    ck_assert_int_eq(read_text(text, &opts), MC_OK);
    ck_assert_uint_eq(opts.workers, 8);
    ck_assert_uint_eq(opts.rows_max, 9);
}
END_TEST

START_TEST(what_is_not_named_stays)
{
    struct mc_row_file file = {.client = {.tenant = "t", .segment_bytes = 5},
                               .key_prefix = "mine/"};
    const char text[] = "client:\n  master_server_address: a:1\n"
                        "  local_buffer_size: 0\n";
    write_text(text);
    ck_assert_int_eq(mc_row_driver_file(path, &file, NULL, 0), MC_OK);
    ck_assert_str_eq(file.client.master, "a:1");
    ck_assert_str_eq(file.client.tenant, "t");
    ck_assert_uint_eq(file.client.segment_bytes, 5);
    ck_assert_uint_eq(file.client.local_buffer_bytes, MC_NONE);
    ck_assert_str_eq(file.key_prefix, "mine/");
    /* One that is refused changes nothing. */
    write_text("blob: {key_prefix: b}\nx: 1\n");
    ck_assert_int_eq(mc_row_driver_file(path, &file, NULL, 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_str_eq(file.key_prefix, "mine/");
    ck_assert_str_eq(file.client.master, "a:1");
    ck_assert_int_eq(mc_row_driver_file(path, NULL, NULL, 0),
                     MC_ERR_INVALID_PARAMS);
    /* What another file said stays as well. */
    write_text("blob: {key_prefix: b}\n");
    ck_assert_int_eq(mc_row_driver_file(path, &file, NULL, 0), MC_OK);
    ck_assert_str_eq(file.key_prefix, "b");
    ck_assert_str_eq(file.client.master, "a:1");
    write_text("client: {protocol: tcp}\n");
    ck_assert_int_eq(mc_row_driver_file(path, &file, NULL, 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_str_eq(file.client.master, "a:1");
}
END_TEST

START_TEST(a_size_has_a_unit_or_none)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {{"1", 1},           {"7b", 7},
                {"3k", 3072},       {"3KB", 3072},
                {"2 mb", 2 << 20},  {"1M", 1 << 20},
                {"5g", 5ULL << 30}, {"2tb", 2ULL << 40},
                {"0", MC_NONE},     {"9223372036854775807b", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mc_row_file file = {.has_client = false};
        char text[128];
        int len = snprintf(text, sizeof text,
                           "client: {master_server_address: 'a:1', "
                           "global_segment_size: %s}",
                           rows[i].text);
        write_file(text, (size_t)len);
        enum mc_err err =
            mc_row_driver_file(path, &file, problem, sizeof problem);
        ck_assert_int_eq(err,
                         rows[i].bytes > 0 ? MC_OK : MC_ERR_INVALID_PARAMS);
        ck_assert_msg(file.client.segment_bytes == rows[i].bytes, "%s",
                      rows[i].text);
    }
}
END_TEST

START_TEST(a_text_has_an_end)
{
    char text[600] = "blob: {key_prefix: ";
    struct mc_row_file file = {.has_client = false};
    size_t head = strlen(text);
    memset(text + head, 'a', 512);
    memcpy(text + head + 512, "}", 2);
    write_file(text, head + 513);
    ck_assert_int_eq(mc_row_driver_file(path, &file, problem, sizeof problem),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_nonnull(strstr(problem, "blob.key_prefix: is over 511 "));
    memcpy(text + head + 511, "}", 2);
    write_file(text, head + 512);
    ck_assert_int_eq(mc_row_driver_file(path, &file, problem, sizeof problem),
                     MC_OK);
    ck_assert_uint_eq(strlen(file.key_prefix), 511);
}
END_TEST

static const struct refusal {
    const char *text;
    unsigned line;
    const char *what; /* begins with */
} refusals[] = {
    {"row_driver:\n  worker: 8\n", 2, "row_driver.worker: unknown name"},
    {"row_driver:\n  on_change: 8\n", 2, "row_driver.on_change: unknown name"},
    {"mooncake:\n  workers: 8\n", 1, "mooncake: unknown name"},
    {"[x]: 1\n", 1, "?: unknown name"},
    {"row_driver:\n  workers: 1\n\n  workers: 2\n", 4,
     "row_driver.workers: named twice"},
    {"row_driver: {}\nrow_driver: {}\n", 2, "row_driver: named twice"},
    {"row_driver:\n  workers: 65\n", 2, "row_driver.workers: 65 is over 64"},
    {"row_driver:\n  rows_per_call: 65537\n", 2,
     "row_driver.rows_per_call: 65537 is over 65536"},
    {"row_driver:\n  rows_max: 4194305\n", 2,
     "row_driver.rows_max: 4194305 is over 4194304"},
    {"row_driver:\n  replicas: 9\n", 2, "row_driver.replicas: 9 is over 8"},
    {"row_driver:\n  timeout_ms: 4294967296\n", 2,
     "row_driver.timeout_ms: 4294967296 is over 4294967295"},
    {"row_driver:\n  bytes_per_call: 18446744073709551616\n", 2,
     "row_driver.bytes_per_call: 18446744073709551616 is over "
     "281474976710656"},
    {"row_driver:\n  workers: -1\n", 2,
     "row_driver.workers: is not a whole number"},
    {"row_driver:\n  workers: 1.5\n", 2,
     "row_driver.workers: is not a whole number"},
    {"row_driver:\n  workers: yes\n", 2,
     "row_driver.workers: is not a whole number"},
    {"row_driver:\n  workers:\n", 2,
     "row_driver.workers: is not a whole number"},
    {"row_driver:\n  workers: [4]\n", 2,
     "row_driver.workers: is not a whole number"},
    {"{\"row_driver\": {\n\"workers\":\n\"4\"}}", 3,
     "row_driver.workers: is not a whole number"},
    {"row_driver: 4\n", 1, "row_driver: is not a mapping"},
    {"client:\n  master: x:1\n", 2, "client.master: unknown name"},
    {"client:\n  workers: 4\n", 2, "client.workers: unknown name"},
    {"row_driver:\n  key_prefix: a\n", 2,
     "row_driver.key_prefix: unknown name"},
    {"\nclient:\n  protocol: tcp\n", 2,
     "client.master_server_address: is missing"},
    {"client:\n  master_server_address: [x]\n", 2,
     "client.master_server_address: is not a text"},
    {"client:\n  master_server_address: \"a\\0b\"\n", 2,
     "client.master_server_address: is not a text"},
    {"client:\n  global_segment_size: 4xb\n", 2,
     "client.global_segment_size: is not a size"},
    {"client:\n  global_segment_size: gb\n", 2,
     "client.global_segment_size: is not a size"},
    {"client:\n  global_segment_size: 1.5gb\n", 2,
     "client.global_segment_size: is not a size"},
    {"client:\n  global_segment_size: -1\n", 2,
     "client.global_segment_size: is not a size"},
    {"client:\n  global_segment_size: 99999999tb\n", 2,
     "client.global_segment_size: 99999999tb is over 9223372036854775807"},
    {"client:\n  global_segment_size: 9999999999999999999\n", 2,
     "client.global_segment_size: is not a size"},
    {"client:\n  tenant_id: a\n  tenant_id: a\n", 3,
     "client.tenant_id: named twice"},
    {"blob: {key_prefix: a}\nblob: {}\n", 2, "blob: named twice"},
    {"\n- row_driver\n", 2, "is not a mapping"},
    {"{\"row_driver\": {\n\"workers\": 4}\n", 3, ""}, /* not closed */
    {"row_driver:\n  workers: 4\n workers: 5\n", 3, ""},
    {"row_driver:\n\tworkers: 4\n", 2, ""},
    {"row_driver: {}\n---\nrow_driver: {}\n", 3, "a second document"},
};

START_TEST(what_is_wrong_is_told_with_its_line)
{
    const struct refusal *refusal = &refusals[_i];
    struct mc_row_driver_opts opts = {.workers = 3, .rows_max = 9};
    char expected[256];
    ck_assert_int_eq(read_text(refusal->text, &opts), MC_ERR_INVALID_PARAMS);
    (void)snprintf(expected, sizeof expected, "%s:%u: %s", path, refusal->line,
                   refusal->what);
    ck_assert_msg(
        strncmp(problem, expected, strlen(expected)) == 0 &&
            (refusal->what[0] == '\0' || strlen(problem) == strlen(expected)),
        "%s", problem);
    ck_assert_uint_gt(strlen(problem), strlen(path) + 5);
    ck_assert_uint_eq(opts.workers, 3);
    ck_assert_uint_eq(opts.rows_max, 9);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_told)
{
    struct mc_row_driver_opts opts = {.workers = 3};
    ck_assert_int_eq(mc_row_driver_config("/tmp/mckv-no-such-file", &opts,
                                          problem, sizeof problem),
                     MC_ERR_FILE_NOT_FOUND);
    ck_assert_str_eq(problem,
                     "/tmp/mckv-no-such-file: No such file or directory");
    ck_assert_int_eq(
        mc_row_driver_config("/tmp", &opts, problem, sizeof problem),
        MC_ERR_FILE_READ_FAIL);
    ck_assert_int_eq(mc_row_driver_config(NULL, &opts, NULL, 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_row_driver_config(path, NULL, NULL, 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(opts.workers, 3);
}
END_TEST

START_TEST(a_file_has_an_end)
{
    struct mc_row_driver_opts opts = {.workers = 3};
    char *bytes = malloc(65537);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, '\n', 65537);
    write_file(bytes, 65537);
    ck_assert_int_eq(mc_row_driver_config(path, &opts, problem, sizeof problem),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_nonnull(strstr(problem, "is over 65536 bytes"));
    write_file(bytes, 65536);
    ck_assert_int_eq(mc_row_driver_config(path, &opts, problem, sizeof problem),
                     MC_OK);
    free(bytes);
}
END_TEST

START_TEST(a_problem_has_room_or_is_cut)
{
    struct mc_row_driver_opts opts = {.workers = 3};
    char small[8] = "1234567";
    write_text("x: 1");
    ck_assert_int_eq(mc_row_driver_config(path, &opts, small, sizeof small),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_str_eq(small, "/tmp/mc");
    ck_assert_int_eq(mc_row_driver_config(path, &opts, small, 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_row_driver_config(path, &opts, NULL, 0),
                     MC_ERR_INVALID_PARAMS);
}
END_TEST

START_TEST(without_memory_nothing_is_read)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_row_driver_opts opts = {.workers = 3};
        write_text("row_driver: {workers: 5}");
        alloc_fail_arm(&fail);
        enum mc_err err =
            mc_row_driver_config(path, &opts, problem, sizeof problem);
        alloc_fail_disarm(&fail);
        bool happened = alloc_fail_happened(&fail);
        ck_assert_int_eq(err, happened ? MC_ERR_NOMEM : MC_OK);
        ck_assert_uint_eq(opts.workers, happened ? 3 : 5);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row config");
    TCase *tcase = tcase_create("config");
    int fd = mkstemp(path);
    if (fd < 0) {
        return EXIT_FAILURE;
    }
    (void)close(fd);
    tcase_add_test(tcase, yaml_and_json_say_the_same);
    tcase_add_test(tcase, every_member_goes_where_it_belongs);
    tcase_add_test(tcase, what_says_nothing_changes_nothing);
    tcase_add_test(tcase, a_file_says_all_that_a_driver_needs);
    tcase_add_test(tcase, what_is_not_named_stays);
    tcase_add_test(tcase, a_size_has_a_unit_or_none);
    tcase_add_test(tcase, a_text_has_an_end);
    tcase_add_loop_test(tcase, what_is_wrong_is_told_with_its_line, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(tcase, a_file_that_cannot_be_read_is_told);
    tcase_add_test(tcase, a_file_has_an_end);
    tcase_add_test(tcase, a_problem_has_room_or_is_cut);
    tcase_add_test(tcase, without_memory_nothing_is_read);
    suite_add_tcase(suite, tcase);
    int code = suite_run(suite);
    (void)unlink(path);
    return code;
}
