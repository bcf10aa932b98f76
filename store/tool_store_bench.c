/* SPDX-License-Identifier: Apache-2.0 */
/* Objects are cut into calls of --batch keys, which threads take one after the
 * other. What get and exist need is stored first and not counted; all of it is
 * removed at the end. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool_store.h"
#include "tool_store_json.h"

#define BATCH_MAX 4096
#define THREADS_MAX 256
#define COUNT_MAX 100000000u
#define KEY_LEN 64
#define LOOK_MS 10

enum load_kind { LOAD_PUT, LOAD_GET, LOAD_EXIST, LOAD_REMOVE };

struct load {
    const struct tool_args *args;
    struct mc_client *client;
    enum load_kind kind;
    uint64_t size;
    uint64_t count;
    uint64_t batch;
    uint64_t threads;
    uint64_t calls;
    _Atomic uint64_t next_call;
    _Atomic uint64_t done; /* objects */
    _Atomic uint64_t failed;
    _Atomic int64_t first_code; /* of what failed */
    _Atomic bool is_stopped;
    uint64_t *call_ns; /* per call; NULL: not kept */
    uint64_t spent_ns;
};

/* What a thread needs for its calls. */
struct worker {
    struct load *load;
    pthread_t thread;
    char (*texts)[KEY_LEN];
    struct mc_view *keys;
    struct mc_span *spans;
    struct mc_view *values;
    int64_t *results;
    char *memory;
    uint64_t end_ns; /* when it had no more to do */
};

/* ---- a call ------------------------------------------------------------ */

static size_t name_keys(struct worker *worker, uint64_t call)
{
    const struct load *load = worker->load;
    uint64_t first = call * load->batch;
    uint64_t left = load->count - first;
    size_t count = (size_t)(left < load->batch ? left : load->batch);
    for (size_t i = 0; i < count; i++) {
        int len =
            snprintf(worker->texts[i], KEY_LEN, "mc-bench-%ld-%010" PRIu64,
                     (long)getpid(), first + i);
        worker->keys[i] = mc_view_make(worker->texts[i], (size_t)len);
    }
    return count;
}

static enum mc_err make_call(struct worker *worker, size_t count)
{
    struct load *load = worker->load;
    switch (load->kind) {
    case LOAD_PUT:
        return mc_client_batch_put(load->client, worker->keys, worker->values,
                                   count, NULL, worker->results);
    case LOAD_GET:
        return mc_client_batch_get_into(load->client, worker->keys,
                                        worker->spans, count, worker->results);
    case LOAD_EXIST:
        return mc_client_batch_exist(load->client, worker->keys, count,
                                     worker->results);
    default:
        return mc_client_batch_remove(load->client, worker->keys, count, true,
                                      worker->results);
    }
}

static int64_t wanted_of(const struct load *load)
{
    return load->kind == LOAD_GET     ? (int64_t)load->size
           : load->kind == LOAD_EXIST ? 1
                                      : 0;
}

static void count_rows(struct worker *worker, size_t count, enum mc_err err)
{
    struct load *load = worker->load;
    int64_t wanted = wanted_of(load);
    uint64_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t result = err != MC_OK ? err : worker->results[i];
        if (result != wanted) {
            int64_t none = 0;
            failed++;
            atomic_compare_exchange_strong(&load->first_code, &none,
                                           result < 0 ? result
                                                      : MC_ERR_INTERNAL_ERROR);
        }
    }
    atomic_fetch_add(&load->failed, failed);
    atomic_fetch_add(&load->done, count);
}

static void *work(void *ctx)
{
    struct worker *worker = ctx;
    struct load *load = worker->load;
    while (!atomic_load(&load->is_stopped)) {
        uint64_t call = atomic_fetch_add(&load->next_call, 1);
        if (call >= load->calls) {
            break;
        }
        size_t count = name_keys(worker, call);
        uint64_t begin_ns = tool_now_ns();
        enum mc_err err = make_call(worker, count);
        if (load->call_ns) {
            load->call_ns[call] = tool_now_ns() - begin_ns;
        }
        count_rows(worker, count, err);
    }
    worker->end_ns = tool_now_ns();
    return NULL;
}

/* ---- threads ----------------------------------------------------------- */

static bool worker_init(struct worker *worker, struct load *load)
{
    size_t rows = (size_t)load->batch;
    size_t size = (size_t)load->size;
    worker->load = load;
    worker->texts = calloc(rows, sizeof *worker->texts);
    worker->keys = calloc(rows, sizeof *worker->keys);
    worker->spans = calloc(rows, sizeof *worker->spans);
    worker->values = calloc(rows, sizeof *worker->values);
    worker->results = calloc(rows, sizeof *worker->results);
    worker->memory = calloc(rows, size);
    if (!worker->texts || !worker->keys || !worker->spans || !worker->values ||
        !worker->results || !worker->memory) {
        return false;
    }
    for (size_t i = 0; i < rows; i++) {
        char *at = worker->memory + i * size;
        memset(at, (int)(i + 1), size);
        worker->spans[i] = (struct mc_span){at, size};
        worker->values[i] = mc_view_make(at, size);
    }
    return true;
}

static void worker_fini(struct worker *worker)
{
    free(worker->texts);
    free(worker->keys);
    free(worker->spans);
    free(worker->values);
    free(worker->results);
    free(worker->memory);
}

static void show_progress(struct load *load, bool is_shown)
{
    while (is_shown && !atomic_load(&load->is_stopped) &&
           atomic_load(&load->done) < load->count) {
        if (tool_stop_wait(LOOK_MS)) {
            atomic_store(&load->is_stopped, true);
        }
        tool_progress(load->args->command, atomic_load(&load->done),
                      load->count, false);
    }
}

/* Runs all calls of a kind. False: out of memory or threads. */
static bool load_run(struct load *load, struct worker *workers,
                     enum load_kind kind)
{
    size_t begun = 0;
    load->kind = kind;
    atomic_store(&load->next_call, 0);
    atomic_store(&load->done, 0);
    uint64_t begin_ns = tool_now_ns();
    for (; begun < load->threads; begun++) {
        if (pthread_create(&workers[begun].thread, NULL, work,
                           &workers[begun]) != 0) {
            atomic_store(&load->is_stopped, true);
            break;
        }
    }
    show_progress(load, begun == load->threads);
    load->spent_ns = 1;
    for (size_t i = 0; i < begun; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        if (workers[i].end_ns - begin_ns > load->spent_ns) {
            load->spent_ns = workers[i].end_ns - begin_ns;
        }
    }
    tool_progress(load->args->command, 0, 0, true);
    return begun == load->threads;
}

/* ---- figures ----------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static double percentile_ms(const struct load *load, double share)
{
    size_t at = (size_t)((double)(load->calls - 1) * share);
    return (double)load->call_ns[at] / 1e6;
}

static void show_figures(struct load *load)
{
    char text[TOOL_SIZE_TEXT_LEN];
    const char *name = load->args->operands[0];
    double seconds = (double)load->spent_ns / 1e9;
    double rate = (double)load->count / seconds;
    uint64_t failed = atomic_load(&load->failed);
    bool moves = load->kind != LOAD_EXIST;
    qsort(load->call_ns, (size_t)load->calls, sizeof *load->call_ns, compare);
    if (load->args->json) {
        struct tool_json json;
        tool_json_begin(&json);
        tool_json_text(&json, "load", mc_view_str(name));
        tool_json_u64(&json, "objects", load->count);
        tool_json_u64(&json, "size", load->size);
        tool_json_u64(&json, "batch", load->batch);
        tool_json_u64(&json, "threads", load->threads);
        tool_json_u64(&json, "failed", failed);
        tool_json_double(&json, "seconds", seconds);
        tool_json_double(&json, "objects_per_s", rate);
        tool_json_double(&json, "bytes_per_s",
                         moves ? rate * (double)load->size : 0);
        tool_json_double(&json, "p50_ms", percentile_ms(load, 0.5));
        tool_json_double(&json, "p99_ms", percentile_ms(load, 0.99));
        tool_json_double(&json, "max_ms", percentile_ms(load, 1));
        tool_json_write(&json);
        return;
    }
    printf("%-10s %s\n", "load", name);
    printf("%-10s %" PRIu64 " of %s, %" PRIu64 " a call, %" PRIu64 " threads\n",
           "objects", load->count, tool_size_text(load->size, text),
           load->batch, load->threads);
    printf("%-10s %.3f s\n", "time", seconds);
    printf("%-10s %.0f objects/s\n", "rate", rate);
    if (moves) {
        printf("%-10s %s/s\n", "bytes",
               tool_size_text((uint64_t)(rate * (double)load->size), text));
    }
    printf("%-10s p50 %.3f ms, p99 %.3f ms, max %.3f ms\n", "calls",
           percentile_ms(load, 0.5), percentile_ms(load, 0.99),
           percentile_ms(load, 1));
    printf("%-10s %" PRIu64 "\n", "failed", failed);
}

/* ---- the run ----------------------------------------------------------- */

static int fail_load(const struct load *load, const char *doing)
{
    enum mc_err err = (enum mc_err)atomic_load(&load->first_code);
    return tool_fail(load->args->command,
                     "%s: %" PRIu64 " of %" PRIu64 " failed, the first: %s "
                     "(%d)",
                     doing, atomic_load(&load->failed), load->count,
                     mc_err_text(err), (int)err);
}

/* Stores, and measures what was asked for. */
static int measure(struct load *load, struct worker *workers,
                   enum load_kind kind, uint64_t *call_ns)
{
    if (kind != LOAD_PUT) {
        if (!load_run(load, workers, LOAD_PUT)) {
            return tool_fail(load->args->command, "threads: cannot be made");
        }
        if (atomic_load(&load->failed) != 0) {
            return fail_load(load, "storing what is to be asked for");
        }
    }
    load->call_ns = call_ns;
    bool has_run =
        atomic_load(&load->is_stopped) || load_run(load, workers, kind);
    load->call_ns = NULL;
    if (!has_run) {
        return tool_fail(load->args->command, "threads: cannot be made");
    }
    if (atomic_load(&load->is_stopped)) {
        return tool_fail(load->args->command, "interrupted");
    }
    load->call_ns = call_ns;
    show_figures(load);
    load->call_ns = NULL;
    return atomic_load(&load->failed) ? fail_load(load, "calls") : TOOL_DONE;
}

/* Whatever came of it, what was stored goes. */
static void clean_up(struct load *load, struct worker *workers)
{
    atomic_store(&load->is_stopped, false);
    (void)load_run(load, workers, LOAD_REMOVE);
}

static int run_workers(struct load *load, enum load_kind kind)
{
    struct worker *workers = calloc((size_t)load->threads, sizeof *workers);
    uint64_t *call_ns = calloc((size_t)load->calls, sizeof *call_ns);
    bool is_ready = workers && call_ns;
    int code = TOOL_FAILED;
    for (size_t i = 0; is_ready && i < load->threads; i++) {
        is_ready = worker_init(&workers[i], load);
    }
    if (is_ready) {
        code = measure(load, workers, kind, call_ns);
        clean_up(load, workers);
    } else {
        (void)tool_fail(load->args->command, "%s (%d)",
                        mc_err_text(MC_ERR_NOMEM), MC_ERR_NOMEM);
    }
    for (size_t i = 0; workers && i < load->threads; i++) {
        worker_fini(&workers[i]);
    }
    free(workers);
    free(call_ns);
    return code;
}

static int load_check(const struct tool_args *args, enum load_kind *kind_out)
{
    static const char *const names[] = {"put", "get", "exist"};
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(args->operands[0], names[i]) == 0) {
            *kind_out = (enum load_kind)i;
            if (args->batch > BATCH_MAX) {
                return tool_wrong_use(args->command, "--batch: at most %d",
                                      BATCH_MAX);
            }
            if (args->threads > THREADS_MAX) {
                return tool_wrong_use(args->command, "--threads: at most %d",
                                      THREADS_MAX);
            }
            if (args->count > COUNT_MAX) {
                return tool_wrong_use(args->command, "--count: at most %u",
                                      COUNT_MAX);
            }
            return TOOL_DONE;
        }
    }
    return tool_wrong_use(args->command, "%s: is put, get or exist",
                          args->operands[0]);
}

static int run(const struct tool_args *args)
{
    enum load_kind kind = LOAD_PUT;
    int code = load_check(args, &kind);
    if (code != TOOL_DONE) {
        return code;
    }
    struct load load = {
        .args = args,
        .size = args->size_bytes ? args->size_bytes : UINT64_C(1) << 20,
        .count = args->count ? args->count : 1000,
        .batch = args->batch ? args->batch : 16,
        .threads = args->threads ? args->threads : 1,
    };
    load.calls = (load.count + load.batch - 1) / load.batch;
    tool_stop_catch();
    load.client = tool_client_open(args);
    if (!load.client) {
        return TOOL_FAILED;
    }
    code = run_workers(&load, kind);
    mc_client_close(load.client);
    return code;
}

const struct tool_command tool_bench = {
    .name = "bench",
    .operands = "put|get|exist",
    .operand_min = 1,
    .operand_max = 1,
    .options = TOOL_MASTER | TOOL_JSON | TOOL_LOAD,
    .summary = "puts load on a store and prints figures",
    .explanation =
        "What get and exist ask for is stored first, which is not counted. All "
        "of it is\nremoved at the end. With --master embedded a store in this "
        "process is measured,\nof --segment bytes.",
    .example = "mc-store bench get --size 1MB --count 1000 --batch 16 "
               "--threads 4",
    .run = run,
};
