/* SPDX-License-Identifier: Apache-2.0 */
/* test_tool_args.c - how command lines of tools are read, and what is said of
 * them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mci_tool.h"
#include "suite.h"

enum bit { ALWAYS = 1u << 0, OFTEN = 1u << 1, NEVER = 1u << 2 };

struct tool_args {
    const char *text;
    uint64_t count;
    uint64_t port;
    uint64_t bytes;
    uint64_t wait_ms;
    double speed;
    bool is_on;
    bool has_port;
};

#define AT(field) offsetof(struct tool_args, field)
static const struct tool_option options[] = {
    {"a_text", ALWAYS, TOOL_TAKES_TEXT, AT(text), 0, "T", "some text"},
    {"count", OFTEN, TOOL_TAKES_COUNT, AT(count), 0, "N", "how many"},
    {"port", ALWAYS | OFTEN, TOOL_TAKES_PORT, AT(port), AT(has_port), "P", "p"},
    {"size", ALWAYS, TOOL_TAKES_SIZE, AT(bytes), 0, "S", "how much"},
    {"wait", ALWAYS, TOOL_TAKES_DURATION, AT(wait_ms), 0, "D", "how long"},
    {"speed", ALWAYS, TOOL_TAKES_SPEED, AT(speed), 0, "X", "how fast"},
    {"on", ALWAYS, TOOL_TAKES_NOTHING, AT(is_on), 0, NULL, "a switch"},
    {"hidden", NEVER, TOOL_TAKES_TEXT, AT(text), 0, "T", "of another"},
    {.name = NULL},
};

static const struct tool_command command = {.name = "do",
                                            .operands = "KEY [FILE]",
                                            .operand_min = 1,
                                            .operand_max = 2,
                                            .options = ALWAYS | OFTEN,
                                            .summary = "Does it.",
                                            .explanation = "At length.",
                                            .example = "mc-x do k"};
static const struct tool_command *const commands[] = {&command};
static const char *const unbuilt[] = {"later", NULL};
static const struct tool_program program = {.name = "mc-x",
                                            .version = "1.2.3",
                                            .commands = commands,
                                            .command_count = 1,
                                            .unbuilt = unbuilt,
                                            .command_column = 4,
                                            .usage = "[OPTIONS] [KEY]",
                                            .summary = "Tries things.",
                                            .example = "mc-x do k",
                                            .options = options,
                                            .option_column = 12,
                                            .count_max = 1000,
                                            .duration_ms_max = 5000};

/* ---- what is said -------------------------------------------------------- */

struct ear {
    FILE *stream; /* stdout or stderr */
    FILE *file;
    int before;
    char text[2048];
};

static void listen_to(struct ear *ear, FILE *stream)
{
    ear->stream = stream;
    ear->file = tmpfile();
    ck_assert_ptr_nonnull(ear->file);
    fflush(stream);
    ear->before = dup(fileno(stream));
    ck_assert_int_ge(dup2(fileno(ear->file), fileno(stream)), 0);
}

static const char *heard(struct ear *ear)
{
    fflush(ear->stream);
    ck_assert_int_ge(dup2(ear->before, fileno(ear->stream)), 0);
    close(ear->before);
    rewind(ear->file);
    size_t len = fread(ear->text, 1, sizeof ear->text - 1, ear->file);
    ear->text[len] = '\0';
    fclose(ear->file);
    return ear->text;
}

#define WORDS_MAX 8

struct run {
    char *words[WORDS_MAX];
    int count;
    struct tool_args args;
    const char *operands[2];
    struct tool_reading reading;
};

/* A command line, whose words are single spaces apart. */
static int read_line(struct run *run, char *line)
{
    memset(run, 0, sizeof *run);
    for (char *word = line; word; run->count++) {
        ck_assert_int_lt(run->count, WORDS_MAX);
        run->words[run->count] = word;
        word = strchr(word, ' ');
        if (word) {
            *word++ = '\0';
        }
    }
    run->reading = (struct tool_reading){.command = &command,
                                         .fields = &run->args,
                                         .operands = run->operands,
                                         .operand_room = 2};
    tool_begin(&program);
    return tool_options_read(run->count, run->words, &run->reading);
}

/* ---- options ------------------------------------------------------------- */

START_TEST(each_kind_finds_its_field)
{
    struct run run;
    char line[] = "--a_text=t= --count 1000 --port=0 --size 1.5KB k --on";
    ck_assert_int_eq(read_line(&run, line), TOOL_DONE);
    ck_assert_str_eq(run.args.text, "t=");
    ck_assert_uint_eq(run.args.count, 1000);
    ck_assert_uint_eq(run.args.port, 0);
    ck_assert(run.args.has_port);
    ck_assert_uint_eq(run.args.bytes, 1536);
    ck_assert(run.args.is_on);
    char rest[] = "k --wait 2.5s --speed 0.5";
    ck_assert_int_eq(read_line(&run, rest), TOOL_DONE);
    ck_assert_uint_eq(run.args.wait_ms, 2500);
    ck_assert(run.args.speed > 0.49 && run.args.speed < 0.51);
    ck_assert(!run.args.has_port && !run.args.is_on);
}
END_TEST

START_TEST(dashes_and_underscores_are_alike)
{
    struct run run;
    char line[] = "--a-text t k";
    ck_assert_int_eq(read_line(&run, line), TOOL_DONE);
    ck_assert_str_eq(run.args.text, "t");
    ck_assert(tool_name_is("a_b-c", "a-b_cd", 5));
    ck_assert(!tool_name_is("a_b", "a-bc", 4));
    ck_assert(!tool_name_is("ab", "ac", 2));
}
END_TEST

START_TEST(operands_are_counted_and_kept)
{
    struct run run;
    char line[] = "k --on - --";
    ck_assert_int_eq(read_line(&run, line), TOOL_DONE);
    ck_assert_uint_eq(run.reading.operand_count, 2);
    ck_assert_str_eq(run.operands[0], "k");
    ck_assert_str_eq(run.operands[1], "-");
    char behind[] = "-- --on --help";
    ck_assert_int_eq(read_line(&run, behind), TOOL_DONE);
    ck_assert_str_eq(run.operands[0], "--on");
    ck_assert_str_eq(run.operands[1], "--help");
    ck_assert(!run.args.is_on && !run.reading.is_shown);
}
END_TEST

static const struct {
    const char *line;
    const char *said;
} refusals[] = {
    {"k --bogus", "--bogus: no such option"},
    {"k --hidden t", "--hidden: no such option"},
    {"k --por 1", "--por: no such option"},
    {"k -xport 1", "-xport: no such option"},
    {"k --on=1", "--on: takes no value"},
    {"k --count", "--count: needs a value"},
    {"k --count 0", "--count 0: is a whole number from 1 on"},
    {"k --count 1001", "--count 1001: is a whole number from 1 on"},
    {"k --port 65535", "--port 65535: is a port, 0 to 65534"},
    {"k --size 1X", "--size 1X: is a size such as 64MB"},
    {"k --wait 6s", "--wait 6s: is a number with ms, s, m or h"},
    {"k --speed=-1", "--speed -1: is a number, 0 or more"},
    {"--on", "an operand is missing"},
    {"a b c", "too many operands"},
};

START_TEST(what_is_wrong_is_named)
{
    struct run run;
    struct ear ear;
    char line[64];
    char wanted[128];
    (void)snprintf(line, sizeof line, "%s", refusals[_i].line);
    (void)snprintf(wanted, sizeof wanted, "mc-x: do: %s\ntry: mc-x do --help\n",
                   refusals[_i].said);
    listen_to(&ear, stderr);
    int code = read_line(&run, line);
    ck_assert_str_eq(heard(&ear), wanted);
    ck_assert_int_eq(code, TOOL_WRONG_USE);
}
END_TEST

START_TEST(help_and_version_end_the_reading)
{
    struct run run;
    struct ear ear;
    char help[] = "--on --help --bogus";
    listen_to(&ear, stdout);
    int code = read_line(&run, help);
    ck_assert_str_eq(heard(&ear),
                     "usage: mc-x do [OPTIONS] KEY [FILE]\n\nDoes it.\n\n"
                     "At length.\n\noptions:\n"
                     "  --a_text T   some text\n"
                     "  --count N    how many\n"
                     "  --port P     p\n"
                     "  --size S     how much\n"
                     "  --wait D     how long\n"
                     "  --speed X    how fast\n"
                     "  --on         a switch\n"
                     "  --help       this text\n"
                     "  --version    the version\n"
                     "\nexample:\n  mc-x do k\n");
    ck_assert_int_eq(code, TOOL_DONE);
    ck_assert(run.reading.is_shown);
    char version[] = "--version";
    listen_to(&ear, stdout);
    code = read_line(&run, version);
    ck_assert_str_eq(heard(&ear), "mc-x 1.2.3\n");
    ck_assert_int_eq(code, TOOL_DONE);
    ck_assert(run.reading.is_shown);
}
END_TEST

/* ---- commands ------------------------------------------------------------ */

static const struct tool_command *find(const char *name, FILE *stream,
                                       struct ear *ear, int *code_out)
{
    char *argv[] = {"mc-x", (char *)(uintptr_t)name};
    tool_begin(&program);
    listen_to(ear, stream);
    const struct tool_command *found =
        tool_command_find(name ? 2 : 1, argv, code_out);
    (void)heard(ear);
    return found;
}

START_TEST(a_command_is_found_by_its_name_or_it_is_said_that_there_is_none)
{
    struct ear ear;
    int code = TOOL_FAILED;
    ck_assert_ptr_eq(find("do", stderr, &ear, &code), &command);
    ck_assert_str_eq(ear.text, "");
    ck_assert_ptr_null(find("d", stderr, &ear, &code));
    ck_assert_int_eq(code, TOOL_WRONG_USE);
    ck_assert_str_eq(ear.text,
                     "mc-x: d: no such subcommand\ntry: mc-x --help\n");
    ck_assert_ptr_null(find("later", stderr, &ear, &code));
    ck_assert_int_eq(code, TOOL_WRONG_USE);
    ck_assert_str_eq(ear.text,
                     "mc-x: later: known, not built yet\ntry: mc-x --help\n");
}
END_TEST

START_TEST(a_program_tells_of_itself)
{
    static const char usage[] =
        "usage: mc-x SUBCOMMAND [OPTIONS] [KEY]\n\nTries things.\n\n"
        "  do   Does it.\n"
        "\nmc-x SUBCOMMAND --help says more. Exit: 0 done, 1 failed, 2 wrong "
        "use.\n\nexample:\n  mc-x do k\n";
    struct ear ear;
    int code = TOOL_FAILED;
    ck_assert_ptr_null(find(NULL, stderr, &ear, &code));
    ck_assert_int_eq(code, TOOL_WRONG_USE);
    ck_assert_str_eq(ear.text, usage);
    ck_assert_ptr_null(find("-h", stdout, &ear, &code));
    ck_assert_int_eq(code, TOOL_DONE);
    ck_assert_str_eq(ear.text, usage);
    ck_assert_ptr_null(find("--version", stdout, &ear, &code));
    ck_assert_int_eq(code, TOOL_DONE);
    ck_assert_str_eq(ear.text, "mc-x 1.2.3\n");
}
END_TEST

START_TEST(a_single_program_names_no_command)
{
    static const struct tool_program single = {.name = "mc-y",
                                               .is_single = true};
    struct ear ear;
    tool_begin(&single);
    listen_to(&ear, stderr);
    int code = tool_wrong_use(&command, "%d is odd", 3);
    ck_assert_str_eq(heard(&ear), "mc-y: 3 is odd\ntry: mc-y --help\n");
    ck_assert_int_eq(code, TOOL_WRONG_USE);
    listen_to(&ear, stderr);
    code = tool_fail(&command, "no");
    ck_assert_str_eq(heard(&ear), "mc-y: no\n");
    ck_assert_int_eq(code, TOOL_FAILED);
}
END_TEST

/* ---- values -------------------------------------------------------------- */

START_TEST(numbers_are_digits_up_to_their_most)
{
    uint64_t number = 7;
    ck_assert(tool_number_parse("18446744073709551615", UINT64_MAX, &number));
    ck_assert_uint_eq(number, UINT64_MAX);
    ck_assert(tool_number_parse("00000000000000000000042", 42, &number));
    ck_assert_uint_eq(number, 42);
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1x",
                                      "1.0",
                                      "43",
                                      "18446744073709551616",
                                      "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!tool_number_parse(bad[i], 42, &number), "%s", bad[i]);
    }
    ck_assert(!tool_number_parse("18446744073709551616", UINT64_MAX, &number));
    ck_assert_uint_eq(number, 42);
}
END_TEST

START_TEST(durations_want_a_unit)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"0ms", 0},      {"1500ms", 1500}, {"2s", 2000},
                {"0.5m", 30000}, {"1h", 3600000},  {".5s", 500}};
    static const char *const bad[] = {"",     "1",     "ms",   "1 s",
                                      "1S",   "-1s",   "1e3s", "0x1s",
                                      "infs", "1..5s", "2h"};
    uint64_t ms = 1;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(tool_duration_parse(good[i].text, 3600000, &ms), "%s",
                      good[i].text);
        ck_assert_uint_eq(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!tool_duration_parse(bad[i], 3600000, &ms), "%s", bad[i]);
    }
}
END_TEST

START_TEST(sizes_are_powers_of_1024)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"4096", 4096}, {"64MB", 64 << 20},       {"4 gb", UINT64_C(4) << 30},
        {"1k", 1024},   {"1.5KiB", 1536},         {"7B", 7},
        {"0", 0},       {"1P", UINT64_C(1) << 50}};
    static const char *const bad[] = {"",     "MB",  "-1",  "1X",
                                      "1MBs", "1iB", "1e3", "9999999P"};
    uint64_t bytes = 1;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(tool_size_parse(good[i].text, &bytes), "%s",
                      good[i].text);
        ck_assert_uint_eq(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!tool_size_parse(bad[i], &bytes), "%s", bad[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tool_args");
    TCase *lines = tcase_create("lines");
    tcase_add_test(lines, each_kind_finds_its_field);
    tcase_add_test(lines, dashes_and_underscores_are_alike);
    tcase_add_test(lines, operands_are_counted_and_kept);
    tcase_add_loop_test(lines, what_is_wrong_is_named, 0,
                        sizeof refusals / sizeof refusals[0]);
    tcase_add_test(lines, help_and_version_end_the_reading);
    suite_add_tcase(suite, lines);
    TCase *programs = tcase_create("programs");
    tcase_add_test(
        programs,
        a_command_is_found_by_its_name_or_it_is_said_that_there_is_none);
    tcase_add_test(programs, a_program_tells_of_itself);
    tcase_add_test(programs, a_single_program_names_no_command);
    suite_add_tcase(suite, programs);
    TCase *values = tcase_create("values");
    tcase_add_test(values, numbers_are_digits_up_to_their_most);
    tcase_add_test(values, durations_want_a_unit);
    tcase_add_test(values, sizes_are_powers_of_1024);
    suite_add_tcase(suite, values);
    return suite_run(suite);
}
