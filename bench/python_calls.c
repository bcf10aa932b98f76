/* SPDX-License-Identifier: Apache-2.0 */
/* python_calls.c - the calls of bench_python.py's table, by plain C.
 *
 * A library that the bench loads, so that both sides run in one process, one after
 * the other: a store inside the process, so that nothing but the call is measured.
 * Threads: one at a time. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "mc_client_sessions.h"

#define ROWS 256
#define SEGMENT_BYTES (64 << 20)
#define LARGE_BYTES (1 << 20)

#define EXPORTED __attribute__((visibility("default")))

/* How bench_python.py has them. */
EXPORTED int calls_open(unsigned char *memory, size_t bytes, size_t row_bytes);
EXPORTED int64_t calls_run(int which, uint64_t count);
EXPORTED void calls_close(void);

static struct {
    struct mc_client *client;
    unsigned char *memory;
    char names[ROWS][16];
    struct mc_view keys[ROWS];
    struct mc_span rows[ROWS];
    struct mc_fragment pieces[ROWS];
    struct mc_fragments fragments[ROWS];
    int64_t results[ROWS];
} calls;

static void name_rows(size_t row_bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < ROWS; i++) {
        char *name = calls.names[i];
        memcpy(name, "row-00", 7);
        name[4] = digits[i / 16];
        name[5] = digits[i % 16];
        calls.keys[i] = mc_view_str(name);
        calls.rows[i] = (struct mc_span){.data = calls.memory + i * row_bytes,
                                         .len = row_bytes};
        calls.pieces[i] = (struct mc_fragment){
            .data = calls.rows[i].data, .offset = 0, .len = row_bytes};
        calls.fragments[i] =
            (struct mc_fragments){.rows = &calls.pieces[i], .count = 1};
    }
}

/* The same objects as the other side has: 64 bytes, 1 MiB, and the rows. */
static enum mc_err fill(void)
{
    enum mc_err err = mc_client_put(calls.client, mc_view_str("small"),
                                    calls.memory, 64, NULL);
    if (err == MC_OK) {
        err = mc_client_put(calls.client, mc_view_str("large"), calls.memory,
                            LARGE_BYTES, NULL);
    }
    if (err == MC_OK) {
        err = mc_client_batch_put_from(calls.client, calls.keys, calls.rows,
                                       ROWS, NULL, calls.results);
    }
    if (err == MC_OK) {
        err = mc_client_batch_get_session_start(calls.client, calls.keys, ROWS,
                                                calls.results);
    }
    return err;
}

int calls_open(unsigned char *memory, size_t bytes, size_t row_bytes)
{
    const struct mc_client_opts opts = {.local_hostname = "127.0.0.1",
                                        .metadata_server = "P2PHANDSHAKE",
                                        .segment_bytes = SEGMENT_BYTES,
                                        .local_buffer_bytes = LARGE_BYTES,
                                        .protocol = "tcp",
                                        .master = "embedded"};
    calls.memory = memory;
    name_rows(row_bytes);
    enum mc_err err = mc_client_open(&opts, &calls.client);
    if (err == MC_OK) {
        err = mc_client_register_buffer(calls.client, memory, bytes);
    }
    return err == MC_OK ? fill() : err;
}

static bool is_there(void)
{
    bool is_there = false;
    return mc_client_exist(calls.client, mc_view_str("small"), &is_there) ==
               MC_OK &&
           is_there;
}

static bool get(void)
{
    void *data = NULL;
    size_t size = 0;
    enum mc_err err =
        mc_client_get(calls.client, mc_view_str("small"), &data, &size);
    mc_client_free(data);
    return err == MC_OK && size == 64;
}

static bool get_into(const char *key, size_t bytes)
{
    uint64_t size = 0;
    return mc_client_get_into(calls.client, mc_view_str(key), calls.memory,
                              bytes, &size) == MC_OK &&
           size == bytes;
}

static bool call(int which)
{
    struct mc_client *client = calls.client;
    switch (which) {
    case 0:
        return is_there();
    case 1:
        return get();
    case 2:
        return mc_client_put(client, mc_view_str("small"), calls.memory, 64,
                             NULL) == MC_OK;
    case 3:
        return mc_client_upsert(client, mc_view_str("upserted"), calls.memory,
                                64, NULL) == MC_OK;
    case 4:
        return get_into("small", 64);
    case 5:
        return get_into("large", LARGE_BYTES);
    case 6:
        return mc_client_batch_exist(client, calls.keys, ROWS, calls.results) ==
               MC_OK;
    case 7:
        return mc_client_batch_get_into(client, calls.keys, calls.rows, ROWS,
                                        calls.results) == MC_OK;
    case 8:
        return mc_client_batch_get_into_multi_buffer_ranges(
                   client, calls.keys, calls.fragments, ROWS, calls.results) ==
               MC_OK;
    default:
        return false;
    }
}

/* Nanoseconds of so many calls; -1: one failed, or there is none of the number. */
int64_t calls_run(int which, uint64_t count)
{
    struct timespec begin;
    struct timespec end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t i = 0; i < count; i++) {
        if (!call(which)) {
            return -1;
        }
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    return (int64_t)(end.tv_sec - begin.tv_sec) * 1000000000 +
           (end.tv_nsec - begin.tv_nsec);
}

void calls_close(void)
{
    mc_client_close(calls.client);
}
