/* SPDX-License-Identifier: Apache-2.0 */
/* crowd_rig.h - many keys at once, and threads that evict and read beside a
 * test.
 */
#ifndef CROWD_RIG_H
#define CROWD_RIG_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "client_rig.h"

static inline void *must_alloc(size_t size)
{
    void *block = calloc(1, size);
    ck_assert_ptr_nonnull(block);
    return block;
}

/* Keys by number, made once. */
struct names {
    char (*texts)[16];
    struct mc_view *keys;
    struct mc_view *values;
    int64_t *results;
};

static inline struct names names_make(uint32_t count, const void *value,
                                      size_t len)
{
    struct names names = {.texts = must_alloc(count * sizeof *names.texts),
                          .keys = must_alloc(count * sizeof *names.keys),
                          .values = must_alloc(count * sizeof *names.values),
                          .results = must_alloc(count * sizeof(int64_t))};
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(names.texts[i], sizeof names.texts[i], "n/%u", i);
        names.keys[i] = mc_view_str(names.texts[i]);
        names.values[i] = mc_view_make(value, len);
    }
    return names;
}

static inline void names_free(struct names *names)
{
    free(names->texts);
    free(names->keys);
    free(names->values);
    free(names->results);
}

/* D1, E9: readers under eviction get whole bytes of what they asked for, and what
 * exist said is there can be read within its lease. */
#define POOL 64
struct reading {
    struct client_rig *rig;
    atomic_bool stop;
    atomic_uint faults;
    atomic_uint reads;
};

static inline void *run_evictor(void *ctx)
{
    struct reading *reading = ctx;
    uint8_t value[8 * KIB];
    for (uint64_t i = 0; !atomic_load(&reading->stop); i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "p/%ju", (uintmax_t)(i % (4 * POOL)));
        stamp_fill(value, sizeof value, i % (4 * POOL));
        enum mc_err err = mc_client_put(reading->rig->client, mc_view_str(key),
                                        value, sizeof value, NULL);
        atomic_fetch_add(&reading->faults,
                         err != MC_OK && err != MC_ERR_NO_AVAILABLE_HANDLE);
    }
    return NULL;
}

static inline void *run_reader(void *ctx)
{
    struct reading *reading = ctx;
    uint8_t value[8 * KIB];
    for (uint64_t i = 0; !atomic_load(&reading->stop); i++) {
        char key[24];
        uint64_t stamp = 0;
        uint64_t size = 0;
        uint64_t number = i * 7919 % (4 * POOL);
        (void)snprintf(key, sizeof key, "p/%ju", (uintmax_t)number);
        enum mc_err err = mc_client_get_into(
            reading->rig->client, mc_view_str(key), value, sizeof value, &size);
        bool is_whole = err == MC_ERR_OBJECT_NOT_FOUND ||
                        err == MC_ERR_REPLICA_IS_NOT_READY ||
                        (client_link() && err == MC_ERR_LEASE_EXPIRED) ||
                        (err == MC_OK && stamp_read(value, size, &stamp) &&
                         stamp == number);
        atomic_fetch_add(&reading->faults, !is_whole);
        atomic_fetch_add(&reading->reads, err == MC_OK);
    }
    return NULL;
}
#endif
