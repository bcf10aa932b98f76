/* SPDX-License-Identifier: Apache-2.0 */
/* chaos_load.c - writers that make many events: small objects of few keys, put,
 * replaced and removed in batches, and now and then all of them.
 *
 * usage: chaos_load MASTER NAME SEED THREADS KEYS
 *
 * Keys are the numbers 1..KEYS as text, so that an index of the layout u64 takes
 * them. What a call answers is not judged here: masters are killed and clients are
 * stopped meanwhile. Commands come by line: `pause` (answered `paused` once no call
 * is under way), `go`, `fast` and `slow` (without a rest between batches, and
 * with), `stop`. At the end, one line of JSON.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mc_client.h"

#define THREADS_MAX 16
#define ROWS 16
#define VALUE_LEN 64
#define SESSIONS 23
#define REST_NS 20000000

static struct {
    struct mc_client *client;
    const char *name;
    uint64_t keys;
    atomic_bool is_fast;
    _Atomic uint64_t rows; /* that changed something */
    _Atomic uint64_t failed;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool is_paused; /* guarded by lock, and so below */
    bool must_stop;
    unsigned running; /* threads inside a call */
} load = {.lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};

struct worker {
    pthread_t thread;
    uint64_t dice;
    char texts[ROWS][24];
    char tags[ROWS][64];
    struct mc_view keys[ROWS];
    struct mc_view sessions[ROWS];
    struct mc_view values[ROWS];
};

static uint64_t roll(struct worker *worker, uint64_t sides)
{
    worker->dice ^= worker->dice << 13;
    worker->dice ^= worker->dice >> 7;
    worker->dice ^= worker->dice << 17;
    return worker->dice % sides;
}

/* Keys that are next to each other, so that batches of two writers meet. */
static void choose_rows(struct worker *worker)
{
    static const uint8_t value[VALUE_LEN] = {1};
    uint64_t first = roll(worker, load.keys);
    for (size_t i = 0; i < ROWS; i++) {
        uint64_t number = (first + i * 3) % load.keys + 1;
        int len = snprintf(worker->texts[i], sizeof worker->texts[i], "%ju",
                           (uintmax_t)number);
        worker->keys[i] = mc_view_make(worker->texts[i], (size_t)len);
        len = snprintf(worker->tags[i], sizeof worker->tags[i], "%.32s-%ju",
                       load.name, (uintmax_t)roll(worker, SESSIONS));
        worker->sessions[i] = mc_view_make(worker->tags[i], (size_t)len);
        worker->values[i] = mc_view_make(value, sizeof value);
    }
}

static void act(struct worker *worker)
{
    int64_t results[ROWS] = {0};
    uint64_t dice = roll(worker, 5000);
    uint64_t removed = 0;
    enum mc_err err;
    choose_rows(worker);
    const struct mc_replicate_config tagged = {.session_ids = worker->sessions,
                                               .session_id_count = ROWS};
    const struct mc_replicate_config *config = roll(worker, 4) ? &tagged : NULL;
    if (dice < 2250) {
        err = mc_client_batch_put(load.client, worker->keys, worker->values,
                                  ROWS, config, results);
    } else if (dice < 3500) {
        err = mc_client_batch_upsert(load.client, worker->keys, worker->values,
                                     ROWS, config, results);
    } else if (dice < 4999) {
        err = mc_client_batch_remove(load.client, worker->keys, ROWS,
                                     roll(worker, 2) != 0, results);
    } else {
        err = mc_client_remove_all(load.client, true, &removed);
    }
    for (size_t i = 0; i < ROWS; i++) {
        bool is_done = err == MC_OK && results[i] >= 0;
        atomic_fetch_add(is_done ? &load.rows : &load.failed, 1);
    }
}

/* After a rest, unless there is to be none: the end does not wait for it. */
static bool begin_turn(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += load.is_fast ? 0 : REST_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&load.lock);
    int rc = 0;
    while (rc == 0 && !load.is_fast && !load.must_stop) {
        rc = pthread_cond_timedwait(&load.turn, &load.lock, &until);
    }
    while (load.is_paused && !load.must_stop) {
        pthread_cond_wait(&load.turn, &load.lock);
    }
    bool goes = !load.must_stop;
    load.running += goes;
    pthread_mutex_unlock(&load.lock);
    return goes;
}

static void end_turn(void)
{
    pthread_mutex_lock(&load.lock);
    load.running--;
    pthread_cond_broadcast(&load.turn);
    pthread_mutex_unlock(&load.lock);
}

static void *work(void *ctx)
{
    while (begin_turn()) {
        act(ctx);
        end_turn();
    }
    return NULL;
}

static void set_paused(bool is_paused)
{
    pthread_mutex_lock(&load.lock);
    load.is_paused = is_paused;
    pthread_cond_broadcast(&load.turn);
    while (is_paused && load.running > 0) {
        pthread_cond_wait(&load.turn, &load.lock);
    }
    pthread_mutex_unlock(&load.lock);
}

static void stop(void)
{
    pthread_mutex_lock(&load.lock);
    load.must_stop = true;
    pthread_cond_broadcast(&load.turn);
    pthread_mutex_unlock(&load.lock);
}

static void obey(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "pause\n") == 0) {
            set_paused(true);
            puts("paused");
            fflush(stdout);
        } else if (strcmp(line, "go\n") == 0) {
            set_paused(false);
        } else if (strcmp(line, "fast\n") == 0) {
            load.is_fast = true;
        } else if (strcmp(line, "slow\n") == 0) {
            load.is_fast = false;
        } else {
            break;
        }
    }
    stop();
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    if (argc != 6) {
        fprintf(stderr, "usage: chaos_load MASTER NAME SEED THREADS KEYS\n");
        return 2;
    }
    const struct mc_client_opts opts = {.master = argv[1],
                                        .local_hostname = "127.0.0.1",
                                        .segment_bytes = MC_NONE,
                                        .timeout_ms = 5000,
                                        .transfer_timeout_ms = 5000};
    unsigned threads = (unsigned)strtoul(argv[4], NULL, 10);
    load.name = argv[2];
    load.keys = strtoull(argv[5], NULL, 10);
    if (threads > THREADS_MAX || load.keys == 0 ||
        mc_client_open(&opts, &load.client) != MC_OK) {
        fprintf(stderr, "chaos_load: cannot begin\n");
        return 1;
    }
    for (unsigned i = 0; i < threads; i++) {
        workers[i].dice =
            (strtoull(argv[3], NULL, 10) + i) * 0x9e3779b97f4a7c15u + 1;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    obey();
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    mc_client_close(load.client);
    printf("{\"rows\":%ju,\"failed\":%ju}\n", (uintmax_t)load.rows,
           (uintmax_t)load.failed);
    return 0;
}
