/* SPDX-License-Identifier: Apache-2.0 */
/* soak_load.c - mixed load on a store, which checks every byte that it reads.
 *
 * usage: soak_load MASTER NAME SEED THREADS TRANSPORT BOARD NODE WRITERS
 *
 * Every object tells what it is: each 64-byte line of it holds its key's number,
 * the stamp of the write that made it, and the line's place. So bytes of two
 * writes, of another object or of another place show, whatever the size. A board
 * (a file that all loads map) holds for each key the greatest stamp that is known
 * to be committed; it is read before a read begins, and an older stamp than that
 * is stale. A key is written by one thread of one load at a time, and read by
 * all; when the outcome of a write is not known, its key is let alone for longer
 * than a late request can live.
 *
 * Commands come by line: `pause` (answered `paused` once no call is under way),
 * `go`, `stop`. At the end, one line of JSON; exit 1 after any violation.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "mc_client.h"

#define KEYS 512
#define LINE 64
#define OBJECT_MAX (3u << 20)
#define THREADS_MAX 16
#define BATCH_MAX 16
#define ALONE_S 5
#define CODES 2000

struct line {
    uint64_t key;
    uint64_t stamp;
    uint64_t index; /* of this line */
    uint64_t size;  /* of the object */
    uint64_t words[4];
};

struct board {
    _Atomic uint64_t next;            /* stamps are unique over all loads */
    _Atomic uint64_t committed[KEYS]; /* greatest stamp known to be readable, or
                                         given to a removal */
};

enum count {
    COUNT_PUTS,
    COUNT_UPSERTS,
    COUNT_REMOVES,
    COUNT_GETS,
    COUNT_HITS,
    COUNT_BYTES,
    COUNT_FAILED, /* codes that faults may bring */
    COUNT_BAD_CODES,
    COUNT_TORN,
    COUNT_STALE,
    COUNT_OUTSIDE, /* bytes written beside the buffer */
    COUNT_KINDS
};
static const char *const count_names[COUNT_KINDS] = {
    "puts",   "upserts",   "removes", "gets",  "hits",   "bytes",
    "failed", "bad_codes", "torn",    "stale", "outside"};

static struct {
    struct mc_client *client;
    struct board *board;
    const char *tag; /* session ids begin with it */
    uint64_t node;   /* this load writes keys whose number % writers == node */
    uint64_t writers;
    _Atomic int is_paused;
    _Atomic int must_stop;
    _Atomic uint64_t counts[COUNT_KINDS];
    _Atomic uint64_t codes[CODES]; /* how often each negative code came */
    pthread_mutex_t lock;
    pthread_cond_t turn;
    unsigned running; /* guarded by lock: threads inside a call */
    pthread_mutex_t key_locks[KEYS]; /* held over a write */
    time_t alone_until[KEYS];        /* guarded by the key's lock */
} soak = {.lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};

struct worker {
    pthread_t thread;
    uint64_t dice;
    uint8_t *out; /* what is written */
    uint8_t *in;  /* what is read into, with a margin on both sides */
};

static void count(enum count what, uint64_t n)
{
    atomic_fetch_add(&soak.counts[what], n);
}

static uint64_t roll(struct worker *worker, uint64_t sides)
{
    worker->dice ^= worker->dice << 13;
    worker->dice ^= worker->dice >> 7;
    worker->dice ^= worker->dice << 17;
    return worker->dice % sides;
}

/* ---- bytes that tell what they are ------------------------------------- */

static void make_line(struct line *line, uint64_t key, uint64_t stamp,
                      uint64_t index, uint64_t size)
{
    line->key = key;
    line->stamp = stamp;
    line->index = index;
    line->size = size;
    for (unsigned i = 0; i < 4; i++) {
        line->words[i] =
            (stamp * 0x9e3779b97f4a7c15u + index) ^ (key << 32 | i);
    }
}

static void make_object(uint8_t *bytes, size_t size, uint64_t key,
                        uint64_t stamp)
{
    struct line line;
    for (size_t at = 0; at < size; at += LINE) {
        make_line(&line, key, stamp, at / LINE, size);
        memcpy(bytes + at, &line, size - at < LINE ? size - at : LINE);
    }
}

/* The stamp of whole and unmixed bytes from an offset (a multiple of a line) of
 * an object, 0 if they are not. */
static uint64_t check_bytes(const uint8_t *bytes, size_t len, uint64_t offset,
                            uint64_t key)
{
    struct line first;
    memcpy(&first, bytes, sizeof first);
    for (size_t at = 0; at < len; at += LINE) {
        struct line line;
        make_line(&line, key, first.stamp, (offset + at) / LINE, first.size);
        if (memcmp(bytes + at, &line, len - at < LINE ? len - at : LINE) != 0) {
            return 0;
        }
    }
    return first.stamp;
}

/* ---- what may be answered ---------------------------------------------- */

static int may_fail(int64_t code)
{
    switch (code) {
    case MC_ERR_OBJECT_NOT_FOUND:
    case MC_ERR_REPLICA_IS_NOT_READY:
    case MC_ERR_OBJECT_HAS_LEASE:
    case MC_ERR_NO_AVAILABLE_HANDLE:
    case MC_ERR_INVALID_VERSION:
    case MC_ERR_CLIENT_NOT_FOUND:
    case MC_ERR_LEASE_EXPIRED:
    case MC_ERR_TRANSFER_FAIL:
    case MC_ERR_RPC_FAIL:
    case MC_ERR_RPC_TIMEOUT:
        return 1;
    default:
        return 0;
    }
}

static void note_code(const char *call, int64_t code)
{
    if (code > -CODES) {
        atomic_fetch_add(&soak.codes[-code], 1);
    }
    if (may_fail(code)) {
        count(COUNT_FAILED, 1);
        return;
    }
    count(COUNT_BAD_CODES, 1);
    fprintf(stderr, "soak_load: %s: %s (%d)\n", call,
            mc_err_text((enum mc_err)code), (int)code);
}

static void raise_board(uint64_t key, uint64_t stamp)
{
    uint64_t old = atomic_load(&soak.board->committed[key]);
    while (old < stamp && !atomic_compare_exchange_weak(
                              &soak.board->committed[key], &old, stamp)) {
    }
}

static void judge(uint64_t key, const uint8_t *bytes, size_t len,
                  uint64_t offset, uint64_t known)
{
    uint64_t stamp = check_bytes(bytes, len, offset, key);
    count(COUNT_HITS, 1);
    count(COUNT_BYTES, len);
    if (stamp == 0) {
        struct line line;
        memcpy(&line, bytes, sizeof line);
        count(COUNT_TORN, 1);
        fprintf(stderr,
                "soak_load: key %llu torn: begins with key %llu stamp %llu "
                "line %llu\n",
                (unsigned long long)key, (unsigned long long)line.key,
                (unsigned long long)line.stamp, (unsigned long long)line.index);
    } else if (stamp < known) {
        count(COUNT_STALE, 1);
        fprintf(stderr, "soak_load: key %llu stale: stamp %llu, known %llu\n",
                (unsigned long long)key, (unsigned long long)stamp,
                (unsigned long long)known);
    }
}

/* Takes the right to write one of our keys; KEYS: try another one. */
static uint64_t take_own_key(struct worker *worker)
{
    uint64_t number = roll(worker, KEYS);
    number += soak.node - number % soak.writers;
    if (number >= KEYS || pthread_mutex_trylock(&soak.key_locks[number]) != 0) {
        return KEYS;
    }
    if (time(NULL) < soak.alone_until[number]) {
        pthread_mutex_unlock(&soak.key_locks[number]);
        return KEYS;
    }
    return number;
}

static void give_own_key(uint64_t number, enum mc_err err)
{
    if (err == MC_ERR_RPC_FAIL || err == MC_ERR_RPC_TIMEOUT ||
        err == MC_ERR_TRANSFER_FAIL) {
        soak.alone_until[number] = time(NULL) + ALONE_S;
    }
    pthread_mutex_unlock(&soak.key_locks[number]);
}

/* ---- calls ------------------------------------------------------------- */

static struct mc_view key_of(uint64_t number, char room[48])
{
    int len =
        snprintf(room, 48, "soak/%016llx_0_k", (unsigned long long)number);
    return mc_view_make(room, (size_t)len);
}

static size_t size_of(struct worker *worker)
{
    static const size_t bounds[] = {256, 4096, 65536, 1u << 20, OBJECT_MAX};
    size_t bound = bounds[roll(worker, sizeof bounds / sizeof *bounds)];
    return LINE + roll(worker, bound - LINE + 1);
}

static void write_one(struct worker *worker)
{
    uint64_t number = take_own_key(worker);
    if (number == KEYS) {
        return;
    }
    char room[48];
    char tag[64];
    struct mc_view key = key_of(number, room);
    size_t size = size_of(worker);
    int replaces = roll(worker, 3) != 0;
    uint64_t stamp = atomic_fetch_add(&soak.board->next, 1);
    int tag_len = snprintf(tag, sizeof tag, "%s-%llu", soak.tag,
                           (unsigned long long)(number % 37));
    const struct mc_view session = mc_view_make(tag, (size_t)tag_len);
    const struct mc_replicate_config config = {
        .replica_num = 1 + (uint32_t)roll(worker, 2),
        .session_ids = &session,
        .session_id_count = 1};
    make_object(worker->out, size, number, stamp);
    enum mc_err err =
        replaces
            ? mc_client_upsert_from(soak.client, key, worker->out, size,
                                    &config)
            : mc_client_put_from(soak.client, key, worker->out, size, &config);
    count(replaces ? COUNT_UPSERTS : COUNT_PUTS, 1);
    if (err != MC_OK) {
        note_code(replaces ? "upsert" : "put", err);
    } else if (replaces) {
        raise_board(number, stamp); /* a put may have left an older one */
    }
    give_own_key(number, err);
}

static void remove_one(struct worker *worker)
{
    uint64_t number = take_own_key(worker);
    if (number == KEYS) {
        return;
    }
    char room[48];
    enum mc_err err =
        mc_client_remove(soak.client, key_of(number, room), roll(worker, 2));
    count(COUNT_REMOVES, 1);
    if (err == MC_OK) {
        raise_board(number, atomic_fetch_add(&soak.board->next, 1));
    } else {
        note_code("remove", err);
    }
    give_own_key(number, err);
}

static void read_one(struct worker *worker)
{
    char room[48];
    uint64_t number = roll(worker, KEYS);
    uint64_t known = atomic_load(&soak.board->committed[number]);
    uint64_t size = 0;
    enum mc_err err = mc_client_get_into(soak.client, key_of(number, room),
                                         worker->in + LINE, OBJECT_MAX, &size);
    count(COUNT_GETS, 1);
    if (err != MC_OK) {
        note_code("get_into", err);
        return;
    }
    judge(number, worker->in + LINE, size, 0, known);
}

static void read_many(struct worker *worker)
{
    char rooms[BATCH_MAX][48];
    struct mc_view keys[BATCH_MAX];
    struct mc_span spans[BATCH_MAX];
    uint64_t numbers[BATCH_MAX];
    uint64_t known[BATCH_MAX];
    int64_t results[BATCH_MAX];
    const size_t share = OBJECT_MAX / BATCH_MAX;
    for (size_t i = 0; i < BATCH_MAX; i++) {
        numbers[i] = roll(worker, KEYS);
        known[i] = atomic_load(&soak.board->committed[numbers[i]]);
        keys[i] = key_of(numbers[i], rooms[i]);
        spans[i].data = worker->in + LINE + i * share;
        spans[i].len = share;
    }
    enum mc_err err =
        mc_client_batch_get_into(soak.client, keys, spans, BATCH_MAX, results);
    if (err != MC_OK) {
        note_code("batch_get_into", err);
        return;
    }
    for (size_t i = 0; i < BATCH_MAX; i++) {
        count(COUNT_GETS, 1);
        if (results[i] >= 0) {
            judge(numbers[i], spans[i].data, (size_t)results[i], 0, known[i]);
        } else if (results[i] != MC_ERR_INVALID_PARAMS) { /* longer: fine */
            note_code("batch_get_into row", results[i]);
        }
    }
}

static void read_ranges(struct worker *worker)
{
    char room[48];
    uint64_t number = roll(worker, KEYS);
    uint64_t known = atomic_load(&soak.board->committed[number]);
    struct mc_range ranges[2];
    int64_t results[2];
    for (size_t i = 0; i < 2; i++) {
        ranges[i].from = LINE * roll(worker, 64);
        ranges[i].to = i * 4096;
        ranges[i].len = LINE * (1 + roll(worker, 32));
    }
    const struct mc_range_row row = {.key = key_of(number, room),
                                     .ranges = ranges,
                                     .count = 2,
                                     .results = results};
    enum mc_err err = mc_client_get_into_ranges(soak.client, worker->in + LINE,
                                                OBJECT_MAX, &row, 1);
    if (err != MC_OK) {
        note_code("get_into_ranges", err);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        count(COUNT_GETS, 1);
        if (results[i] >= LINE) {
            judge(number, worker->in + LINE + ranges[i].to, (size_t)results[i],
                  ranges[i].from, known);
        } else if (results[i] < 0 && results[i] != MC_ERR_INVALID_PARAMS) {
            note_code("get_into_ranges row", results[i]);
        }
    }
}

static void ask(struct worker *worker)
{
    char rooms[BATCH_MAX][48];
    struct mc_view keys[BATCH_MAX];
    int64_t results[BATCH_MAX];
    for (size_t i = 0; i < BATCH_MAX; i++) {
        keys[i] = key_of(roll(worker, KEYS), rooms[i]);
    }
    enum mc_err err =
        mc_client_batch_exist(soak.client, keys, BATCH_MAX, results);
    if (err != MC_OK) {
        note_code("batch_exist", err);
    }
}

static void check_margins(struct worker *worker)
{
    for (size_t i = 0; i < LINE; i++) {
        if (worker->in[i] != 0x5a ||
            worker->in[LINE + OBJECT_MAX + i] != 0x5a) {
            count(COUNT_OUTSIDE, 1);
            fprintf(stderr, "soak_load: bytes beside the buffer\n");
            return;
        }
    }
}

static void act(struct worker *worker)
{
    uint64_t dice = roll(worker, 100);
    if (dice < 30) {
        write_one(worker);
    } else if (dice < 35) {
        remove_one(worker);
    } else if (dice < 70) {
        read_one(worker);
    } else if (dice < 80) {
        read_many(worker);
    } else if (dice < 90) {
        read_ranges(worker);
    } else {
        ask(worker);
    }
    check_margins(worker);
}

/* ---- the threads ------------------------------------------------------- */

static int begin_turn(void)
{
    pthread_mutex_lock(&soak.lock);
    while (soak.is_paused && !soak.must_stop) {
        pthread_cond_wait(&soak.turn, &soak.lock);
    }
    int go = !soak.must_stop;
    soak.running += go ? 1 : 0;
    pthread_mutex_unlock(&soak.lock);
    return go;
}

static void end_turn(void)
{
    pthread_mutex_lock(&soak.lock);
    soak.running--;
    pthread_cond_broadcast(&soak.turn);
    pthread_mutex_unlock(&soak.lock);
}

static void *work(void *ctx)
{
    struct worker *worker = ctx;
    while (begin_turn()) {
        act(worker);
        end_turn();
    }
    return NULL;
}

static void set_paused(int is_paused)
{
    pthread_mutex_lock(&soak.lock);
    soak.is_paused = is_paused;
    pthread_cond_broadcast(&soak.turn);
    while (is_paused && soak.running > 0) {
        pthread_cond_wait(&soak.turn, &soak.lock);
    }
    pthread_mutex_unlock(&soak.lock);
}

static void obey(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "pause\n") == 0) {
            set_paused(1);
            puts("paused");
            fflush(stdout);
        } else if (strcmp(line, "go\n") == 0) {
            set_paused(0);
        } else {
            break;
        }
    }
    soak.must_stop = 1;
    set_paused(0);
}

static int make_worker(struct worker *worker, uint64_t seed)
{
    worker->dice = seed * 0x9e3779b97f4a7c15u + 1;
    worker->out = malloc(OBJECT_MAX);
    worker->in = malloc(OBJECT_MAX + 2 * LINE);
    if (!worker->out || !worker->in) {
        return 0;
    }
    memset(worker->in, 0x5a, OBJECT_MAX + 2 * LINE);
    return mc_client_register_buffer(soak.client, worker->out, OBJECT_MAX) ==
               MC_OK &&
           mc_client_register_buffer(soak.client, worker->in + LINE,
                                     OBJECT_MAX) == MC_OK;
}

static struct board *map_board(const char *path)
{
    int fd = open(path, O_RDWR);
    void *map = MAP_FAILED;
    if (fd >= 0) {
        map = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE,
                   MAP_SHARED, fd, 0);
        close(fd);
    }
    return map == MAP_FAILED ? NULL : map;
}

static int say(void)
{
    int is_bad = 0;
    printf("{");
    for (int i = 0; i < COUNT_KINDS; i++) {
        unsigned long long n = atomic_load(&soak.counts[i]);
        printf("%s\"%s\":%llu", i ? "," : "", count_names[i], n);
        is_bad |= i >= COUNT_BAD_CODES && n > 0;
    }
    for (int i = 1; i < CODES; i++) {
        unsigned long long n = atomic_load(&soak.codes[i]);
        if (n > 0) {
            printf(",\"-%d\":%llu", i, n);
        }
    }
    printf("}\n");
    return is_bad;
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        fprintf(stderr, "usage: soak_load MASTER NAME SEED THREADS TRANSPORT "
                        "BOARD NODE WRITERS\n");
        return 2;
    }
    const struct mc_client_opts opts = {.master = argv[1],
                                        .local_hostname = argv[2],
                                        .segment_bytes = MC_NONE,
                                        .transport = argv[5],
                                        .timeout_ms = 5000,
                                        .transfer_timeout_ms = 5000};
    struct worker workers[THREADS_MAX];
    unsigned threads = (unsigned)strtoul(argv[4], NULL, 10);
    soak.tag = argv[2];
    soak.node = strtoull(argv[7], NULL, 10);
    soak.writers = strtoull(argv[8], NULL, 10);
    for (unsigned i = 0; i < KEYS; i++) {
        pthread_mutex_init(&soak.key_locks[i], NULL);
    }
    soak.board = map_board(argv[6]);
    if (!soak.board || threads > THREADS_MAX ||
        mc_client_open(&opts, &soak.client) != MC_OK) {
        fprintf(stderr, "soak_load: cannot begin\n");
        return 1;
    }
    for (unsigned i = 0; i < threads; i++) {
        if (!make_worker(&workers[i], strtoull(argv[3], NULL, 10) + i * 7919) ||
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    obey();
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    mc_client_close(soak.client);
    for (unsigned i = 0; i < threads; i++) {
        free(workers[i].out);
        free(workers[i].in);
    }
    return say();
}
