/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_DEFAULT 9
#define ROUNDS_MAX 999
#define SECONDS_DEFAULT 0.5
#define WARM_UP_PART 0.2
#define NOTE_BYTES 512

struct bench {
    const struct bench_target *target;
    int rounds_wanted;
    double seconds;
    /* What was found. */
    int rounds; /* 0: nothing measured */
    double ratio;
    double least;
    double greatest;
    double ours;
    double peer; /* NAN without a peer */
    bool is_ok;
    char note[NOTE_BYTES];
    char unmet[NOTE_BYTES];
    char failure[NOTE_BYTES];
};

struct options {
    bool is_json;
    bool is_list;
    int rounds;
    double seconds;
    char **ids;
    int id_count;
};

/* ---- measuring ---------------------------------------------------------- */

double bench_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

bool bench_time(bench_step_fn step, void *ctx, double seconds,
                double *ns_per_unit_out)
{
    uint64_t units = 0;
    double begin = bench_now();
    double elapsed;
    do {
        uint64_t done = step(ctx);
        if (done == 0) {
            return false;
        }
        units += done;
        elapsed = bench_now() - begin;
    } while (elapsed < seconds);
    *ns_per_unit_out = elapsed * 1e9 / (double)units;
    return true;
}

bool bench_rate(bench_step_fn step, void *ctx, double seconds,
                double *units_per_s_out)
{
    double ns;
    if (!bench_time(step, ctx, seconds, &ns)) {
        return false;
    }
    *units_per_s_out = 1e9 / ns;
    return true;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(double *values, size_t count, double part)
{
    qsort(values, count, sizeof *values, compare_doubles);
    size_t at = (size_t)(part * (double)count);
    return values[at < count ? at : count - 1];
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    if (count % 2 == 1) {
        return values[count / 2];
    }
    return (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* 0 / 0 is "as good": both sides did nothing. */
static double divide(double ours, double peer)
{
    if (peer == 0) {
        return ours == 0 ? 1 : INFINITY;
    }
    return ours / peer;
}

static bool measure(struct bench *bench, const struct bench_sides *sides,
                    double seconds, double values[2])
{
    if (sides->ours(sides->ours_ctx, seconds, &values[0]) &&
        sides->peer(sides->peer_ctx, seconds, &values[1])) {
        return true;
    }
    if (!bench->failure[0]) {
        bench_fail(bench, "a side could not be measured");
    }
    return false;
}

bool bench_rounds_of(struct bench *bench, const struct bench_sides *sides)
{
    static double ours[ROUNDS_MAX];
    static double peer[ROUNDS_MAX];
    static double ratios[ROUNDS_MAX];
    double values[2] = {0, 0};
    size_t rounds = (size_t)bench->rounds_wanted;

    if (!measure(bench, sides, bench->seconds * WARM_UP_PART, values)) {
        return false;
    }
    for (size_t i = 0; i < rounds; i++) {
        if (!measure(bench, sides, bench->seconds, values)) {
            return false;
        }
        ours[i] = values[0];
        peer[i] = values[1];
        ratios[i] = divide(values[0], values[1]);
    }
    bench->ratio = median(ratios, rounds);
    bench->least = ratios[0];
    bench->greatest = ratios[rounds - 1];
    bench->ours = median(ours, rounds);
    bench->peer = median(peer, rounds);
    bench->rounds = bench->rounds_wanted;
    return true;
}

bool bench_rounds(struct bench *bench, bench_side_fn ours, bench_side_fn peer,
                  void *ctx)
{
    struct bench_sides sides = {ours, ctx, peer, ctx};
    return bench_rounds_of(bench, &sides);
}

void bench_ratio(struct bench *bench, double ours, double peer)
{
    bench->ours = ours;
    bench->peer = peer;
    bench->ratio = divide(ours, peer);
    bench->least = bench->ratio;
    bench->greatest = bench->ratio;
    bench->rounds = 1;
}

void bench_absolute(struct bench *bench, double value)
{
    bench_ratio(bench, value, 1);
    bench->ratio = value;
    bench->least = value;
    bench->greatest = value;
    bench->peer = NAN;
}

void bench_require(struct bench *bench, bool holds, const char *text)
{
    if (!holds) {
        bench->is_ok = false;
        (void)snprintf(bench->unmet, sizeof bench->unmet, "%s", text);
    }
}

void bench_note(struct bench *bench, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(bench->note, sizeof bench->note, fmt, args);
    va_end(args);
}

void bench_fail(struct bench *bench, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(bench->failure, sizeof bench->failure, fmt, args);
    va_end(args);
    bench->is_ok = false;
}

double bench_seconds(const struct bench *bench)
{
    return bench->seconds;
}

int bench_round_count(const struct bench *bench)
{
    return bench->rounds_wanted;
}

/* ---- telling ------------------------------------------------------------ */

static bool meets(const struct bench *bench, double bound)
{
    if (isnan(bound)) {
        return true;
    }
    if (bench->target->better == BENCH_LOWER) {
        return bench->ratio <= bound;
    }
    return bench->ratio >= bound;
}

/* JSON knows neither NaN nor infinity. */
static void put_number(const char *name, double value)
{
    if (isfinite(value)) {
        printf(",\"%s\":%.6g", name, value);
    } else {
        printf(",\"%s\":null", name);
    }
}

static void put_text(const char *name, const char *text)
{
    printf("\"%s\":\"", name);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            printf("\\%c", *c);
        } else {
            putchar((unsigned char)*c < 0x20 ? ' ' : *c);
        }
    }
    putchar('"');
}

static void put_optional_text(const char *name, const char *text)
{
    if (text && text[0]) {
        putchar(',');
        put_text(name, text);
    }
}

static void tell_json(const struct bench *bench)
{
    const struct bench_target *target = bench->target;
    bool has_figures = bench->rounds > 0;
    putchar('{');
    put_text("id", target->id);
    put_optional_text("what", target->what);
    put_number("ratio", has_figures ? bench->ratio : NAN);
    put_number("min", has_figures ? bench->least : NAN);
    put_number("max", has_figures ? bench->greatest : NAN);
    printf(",\"rounds\":%d", bench->rounds);
    put_number("gate", target->gate);
    put_number("goal", target->goal);
    printf(",\"better\":\"%s\"",
           target->better == BENCH_LOWER ? "lower" : "higher");
    printf(",\"ok\":%s", bench->is_ok ? "true" : "false");
    put_optional_text("unit", target->unit);
    put_optional_text("ours_name", target->ours);
    put_number("ours", has_figures ? bench->ours : NAN);
    put_optional_text("peer_name", target->peer);
    put_number("peer", has_figures ? bench->peer : NAN);
    put_optional_text("note", bench->note);
    put_optional_text("unmet", bench->unmet);
    put_optional_text("error", bench->failure);
    printf("}\n");
}

static void tell_bound(const char *name, const struct bench *bench,
                       double bound)
{
    if (isnan(bound)) {
        printf("  %s -", name);
        return;
    }
    printf("  %s %s %g %s", name,
           bench->target->better == BENCH_LOWER ? "<=" : ">=", bound,
           meets(bench, bound) ? "met" : "MISSED");
}

static void tell_people(const struct bench *bench)
{
    const struct bench_target *target = bench->target;
    printf("%-5s %s\n", target->id, target->what);
    if (bench->failure[0]) {
        printf("      not measured: %s\n", bench->failure);
        return;
    }
    printf("      %.4g", bench->ratio);
    if (bench->rounds > 1) {
        printf(" (%.4g to %.4g, %d rounds)", bench->least, bench->greatest,
               bench->rounds);
    }
    tell_bound("gate", bench, target->gate);
    tell_bound("goal", bench, target->goal);
    printf("\n      %s %.5g %s", target->ours, bench->ours, target->unit);
    if (target->peer) {
        printf(", %s %.5g %s", target->peer, bench->peer, target->unit);
    }
    if (bench->note[0]) {
        printf("; %s", bench->note);
    }
    if (bench->unmet[0]) {
        printf("; NOT MET: %s", bench->unmet);
    }
    printf("\n");
}

/* ---- the program -------------------------------------------------------- */

static bool number_from(const char *text, double least, double greatest,
                        double *number_out)
{
    char *end;
    if (!text) {
        return false;
    }
    double number = strtod(text, &end);
    if (*text == '\0' || *end != '\0' ||
        !(number >= least && number <= greatest)) {
        return false;
    }
    *number_out = number;
    return true;
}

/* Collects ids in place, at the front of argv. */
static bool read_options(int argc, char **argv, struct options *options)
{
    options->ids = argv;
    for (int i = 1; i < argc; i++) {
        double number;
        char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--json") == 0) {
            options->is_json = true;
        } else if (strcmp(argv[i], "--list") == 0) {
            options->is_list = true;
        } else if (strcmp(argv[i], "--rounds") == 0 &&
                   number_from(next, 1, ROUNDS_MAX, &number)) {
            options->rounds = (int)number;
            i++;
        } else if (strcmp(argv[i], "--seconds") == 0 &&
                   number_from(next, 0.001, 3600, &number)) {
            options->seconds = number;
            i++;
        } else if (argv[i][0] == '-') {
            (void)fprintf(stderr, "not understood: %s\n", argv[i]);
            return false;
        } else {
            options->ids[options->id_count++] = argv[i];
        }
    }
    return true;
}

static bool is_wanted(const struct options *options, const char *id)
{
    for (int i = 0; i < options->id_count; i++) {
        if (strcmp(options->ids[i], id) == 0) {
            return true;
        }
    }
    return options->id_count == 0;
}

static void run_target(const struct bench_target *target,
                       const struct options *options)
{
    static struct bench bench;
    bench = (struct bench){.target = target,
                           .rounds_wanted = options->rounds,
                           .seconds = options->seconds,
                           .is_ok = true};
    target->run(&bench);
    if (bench.rounds == 0 && !bench.failure[0]) {
        bench_fail(&bench, "the target measured nothing");
    }
    bench.is_ok = bench.is_ok && meets(&bench, target->gate);
    if (options->is_json) {
        tell_json(&bench);
    } else {
        tell_people(&bench);
    }
    (void)fflush(stdout);
}

int bench_main(int argc, char **argv, const struct bench_target *targets,
               size_t count)
{
    struct options options = {.rounds = ROUNDS_DEFAULT,
                              .seconds = SECONDS_DEFAULT};
    if (!read_options(argc, argv, &options)) {
        (void)fprintf(
            stderr,
            "usage: %s [--json] [--rounds N] [--seconds S] [ID ...] | --list\n",
            argv[0]);
        return 2;
    }
    for (size_t i = 0; i < count; i++) {
        if (options.is_list) {
            puts(targets[i].id);
        } else if (is_wanted(&options, targets[i].id)) {
            run_target(&targets[i], &options);
        }
    }
    return 0;
}
