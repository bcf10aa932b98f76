/* SPDX-License-Identifier: Apache-2.0 */
/* store_rig.c - see the header. */
#include "store_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH UINT64_C(0x0123456789abcdef)
#define START_NS (1000 * SECOND)
#define TICK_NS 1000

static uint32_t lend(struct rig *rig, uint32_t client, uint64_t bytes)
{
    struct mci_lent lent = {
        .name = "segment", .bytes = bytes, .client = client};
    uint32_t segment;
    ck_assert_int_eq(mci_master_segment_add(rig->master, &lent, &segment),
                     MC_OK);
    return segment;
}

void rig_open(struct rig *rig, const struct rig_opts *opts)
{
    static const struct rig_opts defaults;
    opts = opts ? opts : &defaults;
    *rig = (struct rig){.now_ns = START_NS};
    struct mci_log_opts log = {.epoch = EPOCH,
                               .capacity = opts->log_capacity,
                               .overflow = opts->overflow};
    ck_assert_int_eq(mci_event_log_create(&log, &rig->log), MC_OK);
    if (!opts->no_tap) {
        ck_assert_int_eq(mci_event_log_attach(rig->log), MC_OK);
    }
    ck_assert_int_eq(mci_log_taken_init(&rig->taken), MC_OK);
    uint64_t bytes = opts->segment_bytes ? opts->segment_bytes : MIB;
    struct mci_master_opts master = {.store = opts->store,
                                     .log = rig->log,
                                     .shards = opts->shards ? opts->shards : 1,
                                     .expected_bytes = MIB,
                                     .seed = 1};
    ck_assert_int_eq(mci_master_create(&master, &rig->master), MC_OK);
    ck_assert_int_eq(mci_master_client_add(rig->master, &rig->client), MC_OK);
    if (bytes != MC_NONE) {
        rig->segment = lend(rig, rig->client, bytes);
    }
    rig->text = malloc(RIG_TEXT_MAX);
    ck_assert_ptr_nonnull(rig->text);
    if (!opts->no_tap) {
        EXPECT_EVENTS(rig, "!default");
    }
}

void rig_open_with(struct rig *rig, const char *spec, uint64_t size)
{
    rig_open(rig, NULL);
    ck_assert_int_eq(rig_put(rig, spec, size), MC_OK);
}

void rig_close(struct rig *rig)
{
    ck_assert(mci_master_check(rig->master));
    mci_master_destroy(rig->master);
    mci_log_taken_fini(&rig->taken);
    mci_event_log_destroy(rig->log);
    free(rig->text);
}

void rig_pass(struct rig *rig, uint64_t ms)
{
    rig->now_ns += ms * MS;
}

struct mci_call rig_call(const struct rig *rig)
{
    struct mci_call call = {.client = rig->client,
                            .tenant = rig->tenant,
                            .now_ns = rig->now_ns,
                            .deadline_ns = rig->deadline_ns};
    return call;
}

uint32_t rig_add_client(struct rig *rig, uint64_t segment_bytes,
                        uint32_t *segment_out)
{
    uint32_t client;
    ck_assert_int_eq(mci_master_client_add(rig->master, &client), MC_OK);
    if (segment_bytes > 0) {
        *segment_out = lend(rig, client, segment_bytes);
    }
    return client;
}

/* ---- single rows -------------------------------------------------------- */

struct mci_write_row rig_row(const char *spec, uint64_t size)
{
    struct mci_write_row row = {.size = size, .is_spent = true};
    const char *group = strchr(spec, '@');
    const char *tag = strchr(spec, '#');
    const char *end = spec + strlen(spec);
    if (group) {
        row.group_id = mc_view_str(group + 1);
        end = group;
    }
    if (tag) {
        row.session_id = mc_view_make(tag + 1, (size_t)(end - tag - 1));
        end = tag;
    }
    row.key = mc_view_make(spec, (size_t)(end - spec));
    return row;
}

struct mci_write_row rig_put_start(struct rig *rig, const char *spec,
                                   uint64_t size)
{
    struct mci_write_row row = rig_row(spec, size);
    rig->now_ns += TICK_NS;
    struct mci_call call = rig_call(rig);
    enum mc_err err =
        mci_master_put_start(rig->master, &call, rig->config, &row, 1);
    row.err = err == MC_OK ? row.err : err;
    return row;
}

struct mci_write_row rig_upsert_start(struct rig *rig, const char *spec,
                                      uint64_t size)
{
    struct mci_write_row row = rig_row(spec, size);
    rig->now_ns += TICK_NS;
    struct mci_call call = rig_call(rig);
    enum mc_err err =
        mci_master_upsert_start(rig->master, &call, rig->config, &row, 1);
    row.err = err == MC_OK ? row.err : err;
    return row;
}

enum mc_err rig_end(struct rig *rig, struct mci_write_row *row)
{
    struct mci_call call = rig_call(rig);
    enum mc_err err = mci_master_put_end(rig->master, &call, row, 1);
    return err == MC_OK ? row->err : err;
}

enum mc_err rig_revoke(struct rig *rig, struct mci_write_row *row)
{
    struct mci_call call = rig_call(rig);
    enum mc_err err = mci_master_put_revoke(rig->master, &call, row, 1);
    return err == MC_OK ? row->err : err;
}

enum mc_err rig_put(struct rig *rig, const char *spec, uint64_t size)
{
    struct mci_write_row row = rig_put_start(rig, spec, size);
    return row.err == MC_OK ? rig_end(rig, &row) : row.err;
}

enum mc_err rig_upsert(struct rig *rig, const char *spec, uint64_t size)
{
    struct mci_write_row row = rig_upsert_start(rig, spec, size);
    return row.err == MC_OK ? rig_end(rig, &row) : row.err;
}

struct mci_read_row rig_get(struct rig *rig, const char *key, bool want_hold)
{
    struct mci_read_row row = {.key = mc_view_str(key), .want_hold = want_hold};
    rig->now_ns += TICK_NS;
    struct mci_call call = rig_call(rig);
    enum mc_err err = mci_master_get(rig->master, &call, &row, 1);
    row.err = err == MC_OK ? row.err : err;
    return row;
}

void rig_release(struct rig *rig, struct mci_read_row *row)
{
    mci_master_release(rig->master, row, 1);
}

struct mci_read_row rig_lease(struct rig *rig, const char *key)
{
    struct mci_read_row row = {.key = mc_view_str(key), .want_lease = true};
    rig->now_ns += TICK_NS;
    struct mci_call call = rig_call(rig);
    enum mc_err err = mci_master_get(rig->master, &call, &row, 1);
    row.err = err == MC_OK ? row.err : err;
    return row;
}

/* The code of the call is that of a single row. */
enum mc_err rig_lease_renew(struct rig *rig, struct mci_read_row *row)
{
    struct mci_call call = rig_call(rig);
    (void)!mci_master_lease_renew(rig->master, &call, row, 1);
    return row->err;
}

enum mc_err rig_lease_hold(struct rig *rig, struct mci_read_row *row)
{
    struct mci_call call = rig_call(rig);
    (void)!mci_master_lease_hold(rig->master, &call, row, 1);
    return row->err;
}

void rig_lease_release(struct rig *rig, struct mci_read_row *row)
{
    struct mci_call call = rig_call(rig);
    ck_assert_int_eq(mci_master_lease_release(rig->master, &call, row, 1),
                     MC_OK);
    ck_assert_int_eq(row->err, MC_OK);
}

int64_t rig_exist(struct rig *rig, const char *key)
{
    struct mc_view view = mc_view_str(key);
    struct mci_call call = rig_call(rig);
    int64_t result = 77;
    rig->now_ns += TICK_NS;
    call.now_ns = rig->now_ns;
    ck_assert_int_eq(mci_master_exist(rig->master, &call, &view, 1, &result),
                     MC_OK);
    return result;
}

int64_t rig_remove(struct rig *rig, const char *key, bool force)
{
    struct mc_view view = mc_view_str(key);
    struct mci_call call = rig_call(rig);
    int64_t result = 77;
    ck_assert_int_eq(
        mci_master_remove(rig->master, &call, &view, 1, force, &result), MC_OK);
    return result;
}

uint64_t rig_remove_all(struct rig *rig, bool force)
{
    struct mci_call call = rig_call(rig);
    uint64_t removed = 77;
    ck_assert_int_eq(mci_master_remove_all(rig->master, &call, force, &removed),
                     MC_OK);
    return removed;
}

struct mc_probe rig_probe(struct rig *rig, const char *key)
{
    struct mc_view view = mc_view_str(key);
    struct mci_call call = rig_call(rig);
    struct mc_probe probe;
    int64_t result = 77;
    ck_assert_int_eq(
        mci_master_probe(rig->master, &call, &view, 1, &probe, &result), MC_OK);
    ck_assert_int_eq(result, 0);
    return probe;
}

bool rig_has_tag(struct rig *rig, const char *key, const char *tag)
{
    struct mc_probe probe = rig_probe(rig, key);
    return probe.state == MC_OBJECT_READABLE &&
           probe.session_len == strlen(tag) &&
           memcmp(probe.session, tag, probe.session_len) == 0;
}

struct mci_master_stats rig_stats(struct rig *rig)
{
    struct mci_master_stats stats;
    mci_master_stat(rig->master, &stats);
    return stats;
}

uint64_t rig_leased_only(struct rig *rig)
{
    return rig_stats(rig).leased_only_bytes;
}

enum mc_err rig_offload(struct rig *rig, const char *key)
{
    struct mci_disk_row row = {.key = mc_view_str(key),
                               .version = rig_probe(rig, key).version};
    struct mci_call call = rig_call(rig);
    enum mc_err err = mci_master_offloaded(rig->master, &call, &row, 1);
    return err == MC_OK ? row.err : err;
}

int64_t rig_disk_gone(struct rig *rig, const char *key)
{
    struct mc_view view = mc_view_str(key);
    struct mci_call call = rig_call(rig);
    int64_t result = 77;
    ck_assert_int_eq(
        mci_master_disk_gone(rig->master, &call, &view, 1, &result), MC_OK);
    return result;
}

int64_t rig_clear_replica(struct rig *rig, const char *key)
{
    struct mc_view view = mc_view_str(key);
    struct mci_call call = rig_call(rig);
    int64_t result = 77;
    ck_assert_int_eq(mci_master_replica_clear(rig->master, &call, &view, 1,
                                              rig->segment, &result),
                     MC_OK);
    return result;
}

static uint64_t remove_by_regex(struct rig *rig, const char *regex)
{
    struct mci_call call = rig_call(rig);
    uint64_t removed = 0;
    ck_assert_int_eq(mci_master_remove_by_regex(rig->master, &call,
                                                mc_view_str(regex), true,
                                                &removed),
                     MC_OK);
    return removed;
}

void rig_unlink(struct rig *rig, const char *key, enum rig_way way)
{
    switch (way) {
    case RIG_BY_REMOVE:
        ck_assert_int_eq(rig_remove(rig, key, false), MC_ERR_OBJECT_HAS_LEASE);
        ck_assert_int_eq(rig_remove(rig, key, true), 0);
        return;
    case RIG_BY_FORCE:
        ck_assert_int_eq(rig_remove(rig, key, true), 0);
        return;
    case RIG_BY_REMOVE_ALL:
        ck_assert_uint_eq(rig_remove_all(rig, true), 1);
        return;
    case RIG_BY_REGEX:
        ck_assert_uint_eq(remove_by_regex(rig, key), 1);
        return;
    case RIG_BY_UPSERT:
        ck_assert_int_eq(rig_upsert(rig, key, 64), MC_OK);
        return;
    case RIG_BY_CLEARING:
        ck_assert_int_eq(rig_clear_replica(rig, key), 0);
        return;
    default:
        ck_abort();
    }
}

void rig_sweep(struct rig *rig)
{
    int turns = 100000;
    while (mci_master_sweep(rig->master, rig->now_ns, rig->deadline_ns)) {
        ck_assert_int_gt(--turns, 0);
    }
}

void rig_pass_and_sweep(struct rig *rig, uint64_t ms)
{
    rig_pass(rig, ms);
    rig_sweep(rig);
}

uint32_t rig_fill(struct rig *rig, const char *prefix, uint64_t size,
                  uint32_t max)
{
    struct mci_master_stats stats = rig_stats(rig);
    uint64_t room = (stats.capacity_bytes - stats.allocated_bytes) / size;
    uint32_t count = room < max ? (uint32_t)room : max;
    for (uint32_t i = 0; i < count; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s%u", prefix, i);
        enum mc_err err = rig_put(rig, key, size);
        if (err != MC_OK) {
            ck_abort_msg("put %s: %d", key, err);
        }
    }
    return count;
}

uint32_t rig_count(struct rig *rig, const char *prefix, uint32_t max)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < max; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s%u", prefix, i);
        found += rig_probe(rig, key).state == MC_OBJECT_READABLE;
    }
    return found;
}

bool rig_overlap(struct mci_place a, uint64_t a_size, struct mci_place b,
                 uint64_t b_size)
{
    return a.segment == b.segment && a.offset < b.offset + b_size &&
           b.offset < a.offset + a_size;
}

/* Everything that can be had is had, and lies beside the leased bytes. */
void rig_fill_beside(struct rig *rig, struct mci_place leased, uint64_t size)
{
    for (int i = 0; i < 64; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "f%d", i);
        struct mci_write_row row = rig_put_start(rig, key, 64 * KIB);
        if (row.err == MC_OK) {
            ck_assert(!rig_overlap(leased, size, row.places[0], 64 * KIB));
            ck_assert_int_eq(rig_end(rig, &row), MC_OK);
        }
    }
}
