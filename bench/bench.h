/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - two sides measured in turn, and the ratio of every round.
 *
 * Absolute figures drift with the machine; a ratio of two sides that ran within
 * the same second does not. A program declares its targets and hands them to
 * bench_main; each target sets up, then calls bench_rounds with one function a
 * side, or bench_absolute where the figure itself is what counts. Both sides
 * answer in the same unit, and the ratio is always ours / peer; `better` says
 * which way is good. Programs are named bench_<what>.c and are called as
 * `bench_<what> [--json] [--rounds N] [--seconds S] [ID ...]`, or with --list.
 *
 *   static bool ours(void *ctx, double seconds, double *value_out)
 *   {
 *       return bench_time(encode_once, ctx, seconds, value_out);
 *   }
 *   static void run_t11(struct bench *bench)
 *   {
 *       struct work work = ...;
 *       bench_rounds(bench, ours, peer, &work);
 *   }
 *   static const struct bench_target targets[] = {{
 *       .id = "T11", .what = "event encode / msgpack-c packer",
 *       .unit = "ns/event", .ours = "mckv", .peer = "msgpack-c",
 *       .better = BENCH_LOWER, .gate = 0.10, .goal = 0.05, .run = run_t11,
 *   }};
 *   int main(int argc, char **argv)
 *   {
 *       return bench_main(argc, argv, targets, BENCH_COUNT(targets));
 *   }
 *
 * Threads: one thread calls these functions; sides may have threads of their
 * own.
 */
#ifndef BENCH_H
#define BENCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* For gate and goal where there is none. */
#define BENCH_NONE (__builtin_nan(""))

enum bench_better { BENCH_LOWER, BENCH_HIGHER };

struct bench; /* one run of one target */

struct bench_target {
    const char *id;
    const char *what;
    const char *unit; /* of both sides' figures, e.g. "ns/event" or "MB/s" */
    const char *ours; /* name of our side */
    const char *peer; /* name of the other; NULL if bench_absolute is used */
    enum bench_better better;
    double gate;
    double goal;
    void (*run)(struct bench *bench);
};

/* Answers --list, or runs the targets named (all without a name) and prints a
 * row each. Returns the exit code: 0, or 2 for an option that makes no sense;
 * ids of other programs are passed over. */
int bench_main(int argc, char **argv, const struct bench_target *targets,
               size_t count);

/* One measurement of about `seconds`, in the target's unit. False: cannot be
 * measured; bench_fail has said why. */
typedef bool (*bench_side_fn)(void *ctx, double seconds, double *value_out);

/* Warms both sides up, then measures ours, peer, ours, peer ...; the row shows
 * the median, least and greatest of the ratios of the rounds. False after a
 * failure. */
bool bench_rounds(struct bench *bench, bench_side_fn ours, bench_side_fn peer,
                  void *ctx);

/* The same for side functions that need different contexts. */
struct bench_sides {
    bench_side_fn ours;
    void *ours_ctx;
    bench_side_fn peer;
    void *peer_ctx;
};
bool bench_rounds_of(struct bench *bench, const struct bench_sides *sides);

/* The figure itself stands where the ratio would. */
void bench_absolute(struct bench *bench, double value);

/* A ratio that was measured some other way, with both figures: for counters and
 * for sides that cannot take turns. */
void bench_ratio(struct bench *bench, double ours, double peer);

/* A further condition: the row is ok only if all hold. text says what is
 * asked, e.g. "at most 64 B a key"; borrowed for the call. */
void bench_require(struct bench *bench, bool holds, const char *text);

/* Words added to the row; the last of several stands. */
void bench_note(struct bench *bench, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The row says that nothing could be measured, and why. */
void bench_fail(struct bench *bench, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* How long a side is asked to measure, and how often; for targets that do not
 * use bench_rounds. */
double bench_seconds(const struct bench *bench);
int bench_round_count(const struct bench *bench);

/* Monotonic seconds. */
double bench_now(void);

/* Calls step until `seconds` have passed and answers nanoseconds per unit of
 * work; step returns the units it did, 0 to give up. */
typedef uint64_t (*bench_step_fn)(void *ctx);
bool bench_time(bench_step_fn step, void *ctx, double seconds,
                double *ns_per_unit_out);

/* The same as units per second. */
bool bench_rate(bench_step_fn step, void *ctx, double seconds,
                double *units_per_s_out);

/* Sorts the values and answers the one below which `part` (0 to 1) of them
 * lie; 0.99 is the p99. count is at least 1. */
double bench_percentile(double *values, size_t count, double part);

/* Makes the compiler believe that the bytes behind p are used. */
static inline void bench_keep(const void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

#endif
