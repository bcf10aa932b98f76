/* SPDX-License-Identifier: Apache-2.0 */
/* T26, T21m: what the death of a client costs the others, and what an object
 * costs a master that holds no bytes.
 *
 * T26 has one member with 1 M keys on its own segment and another one that puts,
 * one key at a time, through the same core; the measured side begins when the
 * first one is ended and a thread takes its keys out as the control server's
 * does. The other side is the same with nobody dead. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "registry.h"

#define KEYS 1000000
#define BATCH 256
#define VALUE_LEN 64
#define KEY_MAX 80
#define PUTS_MAX 2000000
#define STEP_WAIT_NS (500 * MCI_NS_PER_MS)

/* A master process without its sockets. */
struct house {
    struct mci_event_log *log;
    struct mci_master *master;
    struct mci_registry *registry;
    struct mci_member *dead;
    struct mci_member *living;
    uint64_t serial; /* of keys */
};

static struct mc_view make_key(char *text, uint64_t number)
{
    int len = snprintf(text, KEY_MAX, "%064jx__k", (uintmax_t)number);
    return mc_view_make(text, (size_t)len);
}

static struct mci_call call_of(const struct mci_member *member)
{
    uint64_t now_ns = mci_clock_ns();
    return (struct mci_call){.client = mci_member_client(member),
                             .now_ns = now_ns,
                             .deadline_ns = now_ns + STEP_WAIT_NS};
}

static struct mci_member *join(struct house *house, const char *name,
                               uint64_t bytes)
{
    static uint64_t incarnation;
    struct mci_welcome welcome;
    struct mci_member *member = NULL;
    struct mci_pulse pulse;
    struct mci_pulse_room room = {
        .fences = calloc(MCI_FENCES_MAX, sizeof *room.fences)};
    const struct mci_hello hello = {.incarnation = ++incarnation,
                                    .name = mc_view_str(name)};
    const struct mci_mount mount = {.id = {incarnation, 1},
                                    .bytes = bytes,
                                    .base = 4096,
                                    .name = mc_view_str(name)};
    const struct mci_heartbeat heartbeat = {.clock_ns = mci_clock_ns()};
    uint64_t now_ns = mci_clock_ns();
    uint32_t segment = 0;
    bool is_in = mci_registry_hello(house->registry, &hello, now_ns,
                                    &welcome) == MC_OK &&
                 mci_registry_member(house->registry, welcome.client,
                                     incarnation, &member) == MC_OK &&
                 mci_registry_heartbeat(house->registry, member, &heartbeat,
                                        now_ns, &room, &pulse) == MC_OK &&
                 mci_registry_mount(house->registry, member, &mount, now_ns,
                                    &segment) == MC_OK;
    free(room.fences);
    return is_in ? member : NULL;
}

/* Puts as the control server does it; on the writer's own segment. */
static bool put_some(struct house *house, struct mci_member *member,
                     const char *segment, uint32_t count)
{
    static _Thread_local struct mci_write_row rows[BATCH];
    static _Thread_local char texts[BATCH][KEY_MAX];
    const struct mc_replicate_config config = {.preferred_segment = segment};
    struct mci_call call = call_of(member);
    memset(rows, 0, count * sizeof rows[0]);
    for (uint32_t i = 0; i < count; i++) {
        rows[i].key = make_key(texts[i], house->serial++);
        rows[i].size = VALUE_LEN;
    }
    if (mci_master_put_start(house->master, &call, &config, rows, count) !=
            MC_OK ||
        mci_registry_started(house->registry, member, 0, 1, 1000, rows, count,
                             call.now_ns) != MC_OK) {
        return false;
    }
    mci_registry_ending(house->registry, rows, count);
    for (uint32_t i = 0; i < count; i++) {
        rows[i].is_spent = true; /* as if receipts had come */
    }
    if (mci_master_put_end(house->master, &call, rows, count) != MC_OK) {
        return false;
    }
    mci_registry_ended(house->registry, member, rows, count);
    return rows[0].err == MC_OK;
}

static void close_house(struct house *house)
{
    mci_member_release(house->dead);
    mci_member_release(house->living);
    mci_registry_destroy(house->registry);
    mci_master_destroy(house->master);
    mci_event_log_destroy(house->log);
}

static bool open_house(struct house *house)
{
    memset(house, 0, sizeof *house);
    const struct mci_log_opts log_opts = {.epoch = 1};
    if (mci_event_log_create(&log_opts, &house->log) != MC_OK) {
        return false;
    }
    const struct mci_master_opts master_opts = {
        .log = house->log, .store = {.eviction_high_watermark = 1.0}};
    if (mci_master_create(&master_opts, &house->master) != MC_OK) {
        return false;
    }
    const struct mci_registry_opts registry_opts = {
        .master = house->master, .epoch = 1, .client_ttl_ms = 3600000};
    if (mci_registry_create(&registry_opts, &house->registry) != MC_OK) {
        return false;
    }
    uint64_t bytes = (uint64_t)KEYS * VALUE_LEN + (1 << 20);
    house->dead = join(house, "dead:1", bytes);
    house->living = join(house, "living:1", bytes + PUTS_MAX * VALUE_LEN);
    return house->dead && house->living;
}

static bool fill(struct house *house)
{
    for (uint32_t i = 0; i < KEYS / BATCH; i++) {
        if (!put_some(house, house->dead, "dead:1", BATCH)) {
            return false;
        }
    }
    return true;
}

/* ---- T26 ---------------------------------------------------------------- */

struct stepper {
    struct house *house;
    atomic_bool is_done;
};

/* As the control server's thread. */
static void *run_steps(void *ctx)
{
    struct stepper *stepper = ctx;
    uint64_t now_ns = 0;
    uint64_t next_ns = 0;
    while (next_ns <= now_ns) {
        now_ns = mci_clock_ns();
        next_ns = mci_registry_step(stepper->house->registry, now_ns,
                                    now_ns + STEP_WAIT_NS);
    }
    atomic_store(&stepper->is_done, true);
    return NULL;
}

/* The p99 of puts until the stepper is done, or for the time given. */
static double put_p99(struct house *house, const struct stepper *stepper,
                      double seconds, double *us, uint64_t *taken_out)
{
    size_t count = 0;
    double end = bench_now() + seconds;
    double now = bench_now();
    while (count < PUTS_MAX &&
           (stepper ? !atomic_load(&stepper->is_done) : now < end)) {
        double before = bench_now();
        if (!put_some(house, house->living, "living:1", 1)) {
            return -1;
        }
        now = bench_now();
        us[count++] = (now - before) * 1e6;
    }
    *taken_out = count;
    return count > 0 ? bench_percentile(us, count, 0.99) : -1;
}

static bool measure(double *us, double *ratio_out, double *idle_out,
                    double *seconds_out)
{
    struct house house;
    struct stepper stepper = {.house = &house};
    pthread_t thread;
    uint64_t puts = 0;
    bool is_open = open_house(&house) && fill(&house);
    double idle = is_open ? put_p99(&house, NULL, 0.5, us, &puts) : -1;
    if (idle <= 0) {
        close_house(&house);
        return false;
    }
    mci_registry_goodbye(house.registry, house.dead, mci_clock_ns());
    double begun = bench_now();
    bool runs = pthread_create(&thread, NULL, run_steps, &stepper) == 0;
    double busy = runs ? put_p99(&house, &stepper, 0, us, &puts) : -1;
    if (runs) {
        (void)pthread_join(thread, NULL);
    }
    *seconds_out = bench_now() - begun;
    *idle_out = idle;
    *ratio_out = busy / idle;
    close_house(&house);
    return busy > 0;
}

static void run_t26(struct bench *bench)
{
    double ratios[16];
    double idle = 0;
    double seconds = 0;
    int rounds = bench_round_count(bench) < 5 ? bench_round_count(bench) : 5;
    double *us = calloc(PUTS_MAX, sizeof *us);
    for (int i = 0; i < rounds && us; i++) {
        if (!measure(us, &ratios[i], &idle, &seconds)) {
            bench_fail(bench, "a put was refused");
            free(us);
            return;
        }
    }
    if (!us || rounds == 0) {
        bench_fail(bench, "out of memory");
        free(us);
        return;
    }
    double median = bench_percentile(ratios, (size_t)rounds, 0.5);
    bench_ratio(bench, median * idle, idle);
    bench_note(bench, "1 M keys taken out in %.2f s", seconds);
    free(us);
}

/* ---- T21m --------------------------------------------------------------- */

static void run_t21m(struct bench *bench)
{
    struct house house;
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    char text[KEY_MAX];
    bool is_open = open_house(&house);
    mci_alloc_stats(&before);
    if (!is_open || !fill(&house)) {
        bench_fail(bench, "a put was refused");
        close_house(&house);
        return;
    }
    mci_alloc_stats(&after);
    double objects = (double)(KEYS - KEYS % BATCH);
    double bytes = (double)(after.bytes - before.bytes) / objects;
    bench_absolute(bench, bytes - (double)make_key(text, 0).len);
    close_house(&house);
}

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "T26",
         .what = "put p99 while 1 M keys of a dead client go / idle",
         .unit = "us",
         .ours = "going",
         .peer = "idle",
         .better = BENCH_LOWER,
         .gate = 2,
         .goal = 1.2,
         .run = run_t26},
        {.id = "T21m",
         .what = "memory of an object beyond its key, in a master process",
         .unit = "B",
         .ours = "mckv",
         .better = BENCH_LOWER,
         .gate = 200,
         .goal = 128,
         .run = run_t21m},
    };
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
