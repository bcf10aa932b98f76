/* SPDX-License-Identifier: Apache-2.0 */
/* sums_rig.c - see the header. */
#include "sums_rig.h"

#include "client.h"
#include "keep_quiet.h"
#include "mc_log.h"

struct client_rig rig;
static struct mc_client *other; /* lends memory for second copies */
uint8_t *value;
uint8_t *got;
const struct mc_view key = {"k", 1};
const struct mc_replicate_config summed = {.checksum = true};
const struct mc_replicate_config twice = {.checksum = true, .replica_num = 2};

void start_with(bool checksum)
{
    const struct mc_client_opts opts = {.segment_bytes = 32 * MIB,
                                        .local_buffer_bytes = 8 * MIB,
                                        .checksum = checksum};
    client_open(&rig, &opts);
    mc_log_set_sink(keep_quiet, NULL);
    value = malloc(BYTES_MAX);
    got = malloc(BYTES_MAX);
    ck_assert(value && got);
    for (size_t i = 0; i < BYTES_MAX; i++) {
        value[i] = (uint8_t)(i * 2654435761U >> 11);
    }
}

void start(void)
{
    start_with(false);
}

void stop(void)
{
    mc_client_close(other);
    other = NULL;
    client_close(&rig);
    mc_log_set_sink(NULL, NULL);
    free(value);
    free(got);
}

/* A second place for copies; with a master process only. */
bool join_other(void)
{
    const struct mc_client_opts opts = {.segment_bytes = 32 * MIB};
    if (client_link()) {
        other = client_join(&rig, &opts);
    }
    return other != NULL;
}

/* ---- spoiling -------------------------------------------------------------- */

uint8_t *copy_of(struct mc_view of, uint32_t i)
{
    struct mc_replicas replicas;
    int64_t count = 0;
    ck_assert_int_eq(
        mc_client_batch_get_replicas(rig.client, &of, 1, &replicas, &count),
        MC_OK);
    ck_assert_int_gt(count, i);
    return (uint8_t *)(uintptr_t)replicas.rows[i].address;
}

__attribute__((no_sanitize("thread"))) void
overwrite(uint8_t *at, const uint8_t *from, size_t len)
{
    volatile uint8_t *to = at; /* so that no call takes the loop's place */
    const volatile uint8_t *source = from;
    for (size_t i = 0; i < len; i++) {
        to[i] = source ? source[i] : 0;
    }
}

void spoil(uint32_t copy, uint64_t offset)
{
    uint8_t *at = copy_of(key, copy) + offset;
    uint8_t byte = 0;
    overwrite(&byte, at, 1);
    byte ^= 0x40;
    overwrite(at, &byte, 1);
}

struct mc_client_stats stats(void)
{
    struct mc_client_stats now;
    mc_client_stat(rig.client, &now);
    return now;
}

uint64_t mismatches(void)
{
    return stats().mismatched_blocks;
}

void expect_last(uint64_t block, uint64_t size)
{
    struct mc_mismatch last;
    ck_assert(mc_client_last_mismatch(rig.client, &last));
    ck_assert_uint_eq(last.block, block);
    ck_assert_uint_eq(last.size, size);
    ck_assert_uint_eq(last.count, mismatches());
    ck_assert_uint_eq(last.key_len, key.len);
    ck_assert_mem_eq(last.key, key.data, key.len);
}

/* ---- reading ---------------------------------------------------------------- */

int64_t by_get(size_t len)
{
    void *data = NULL;
    size_t size = 0;
    (void)len;
    enum mc_err err = mc_client_get(rig.client, key, &data, &size);
    if (err != MC_OK) {
        ck_assert_ptr_null(data);
        return err;
    }
    memcpy(got, data, size);
    mc_client_free(data);
    return (int64_t)size;
}

int64_t read_session(struct mc_get_session *session, uint64_t from, size_t len)
{
    const struct mc_fragment fragment = {got + from, from, len};
    const struct mc_fragments row = {&fragment, 1};
    int64_t result = 0;
    ck_assert_int_eq(
        mc_client_get_sessions_read(rig.client, &session, &row, 1, 0, &result),
        MC_OK);
    return result;
}

struct mc_get_session *open_session(void)
{
    struct mc_get_session *session = NULL;
    int64_t result = 0;
    ck_assert_int_eq(
        mc_client_get_sessions_open(rig.client, &key, 1, &session, &result),
        MC_OK);
    ck_assert_int_eq(result, MC_OK);
    return session;
}

int64_t by_session(size_t len)
{
    struct mc_get_session *session = open_session();
    int64_t result = read_session(session, 0, len);
    ck_assert_int_eq(read_session(session, 0, len), result);
    mc_client_get_sessions_close(rig.client, &session, 1);
    return result;
}

const size_t sizes[] = {1,         65535,         65536,        65537,
                        2 * 65536, 3 * 65536 + 1, 3 * MIB + 999};

void expect_read(read_fn read, size_t len)
{
    memset(got, 0xee, len);
    ck_assert_int_eq(read(len), (int64_t)len);
    ck_assert_mem_eq(got, value, len);
}
