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

/* ---- events ------------------------------------------------------------- */

static const char *lead_of(const struct mci_log_record *record)
{
    switch (record->type) {
    case MC_EVENT_STORED:
        return "+";
    case MC_EVENT_REMOVED:
        return "-";
    case MC_EVENT_CLEARED:
        return "!";
    default:
        return "?";
    }
}

static size_t add_view(char *text, size_t len, size_t max, const char *lead,
                       struct mc_view view)
{
    if (!view.data) {
        return len;
    }
    int wrote = snprintf(text + len, max - len, "%s%.*s", lead, (int)view.len,
                         (const char *)view.data);
    ck_assert_int_ge(wrote, 0);
    ck_assert_uint_lt(len + (size_t)wrote, max);
    return len + (size_t)wrote;
}

size_t rig_print_record(char *text, size_t len, size_t max,
                        const struct mci_log_record *record)
{
    len = add_view(text, len, max, lead_of(record), mc_view_str(""));
    if (record->type == MC_EVENT_CLEARED) {
        ck_assert_int_eq(record->medium, MC_MEDIUM_NONE);
        return add_view(text, len, max, "", record->tenant_id);
    }
    static const struct mc_view usual = {"default", 7};
    if (!mc_view_equal(record->tenant_id, usual)) {
        len = add_view(text, len, max, "", record->tenant_id);
        len = add_view(text, len, max, "/", mc_view_str(""));
    }
    len = add_view(text, len, max, "",
                   mc_view_str(mc_medium_name(record->medium)));
    len = add_view(text, len, max, ":", record->object_key);
    len = add_view(text, len, max, "#", record->session_id);
    return add_view(text, len, max, "@", record->group_id);
}

static void take_events(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->taken.count; i++) {
        const struct mci_log_record *record = &rig->taken.records[i];
        ck_assert_uint_eq(record->lost_before, 0);
        ck_assert_uint_eq(record->id, rig->last_id + 1);
        rig->last_id = record->id;
        rig->text_len = rig_print_record(rig->text, rig->text_len,
                                         RIG_TEXT_MAX - 2, record);
        rig->text[rig->text_len++] = record->group_continues ? '&' : ' ';
        rig->text[rig->text_len] = '\0';
    }
}

const char *rig_events(struct rig *rig)
{
    uint64_t last_id = mci_event_log_last_id(rig->log);
    rig->text_len = 0;
    rig->text[0] = '\0';
    do {
        mci_event_log_take(rig->log, 0, &rig->taken);
        take_events(rig);
    } while (rig->taken.count > 0);
    if (rig->text_len > 0) {
        ck_assert_int_eq(rig->text[rig->text_len - 1], ' ');
        rig->text[--rig->text_len] = '\0';
    }
    ck_assert_uint_ge(rig->last_id, last_id);
    return rig->text;
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

void rig_sweep(struct rig *rig)
{
    int turns = 100000;
    while (mci_master_sweep(rig->master, rig->now_ns, rig->deadline_ns)) {
        ck_assert_int_gt(--turns, 0);
    }
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

/* ---- state -------------------------------------------------------------- */

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *print_object(const struct mc_object_row *row)
{
    char *line = malloc(2048);
    ck_assert_ptr_nonnull(line);
    uint64_t tag = row->session_id.len;
    (void)snprintf(line, 2048, "%.*s/%.*s #%.*s(%d) @%.*s %u %ju v%ju e%ju\n",
                   (int)row->tenant_id.len, (const char *)row->tenant_id.data,
                   (int)row->key.len, (const char *)row->key.data, (int)tag,
                   row->session_id.data ? (const char *)row->session_id.data
                                        : "",
                   (int)tag, (int)row->group_id.len,
                   row->group_id.data ? (const char *)row->group_id.data : "",
                   row->media, (uintmax_t)row->size, (uintmax_t)row->version,
                   (uintmax_t)row->last_event_id);
    return line;
}

static uint32_t print_objects(struct rig *rig, char **lines, uint32_t max)
{
    struct mci_page page;
    struct mci_cursor cursor = {0};
    uint32_t count = 0;
    ck_assert_int_eq(mci_page_init(&page), MC_OK);
    while (!cursor.at_end) {
        ck_assert_int_eq(
            mci_master_list(rig->master, mc_view_make(NULL, 0), &cursor, &page),
            MC_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            ck_assert_uint_lt(count, max);
            lines[count++] = print_object(&page.rows[i]);
        }
    }
    mci_page_fini(&page);
    return count;
}

char *rig_state(struct rig *rig)
{
    enum { LINES_MAX = 4096 };
    char **lines = calloc(LINES_MAX, sizeof *lines);
    char *text = malloc(RIG_TEXT_MAX);
    ck_assert(lines && text);
    uint32_t count = print_objects(rig, lines, LINES_MAX);
    qsort(lines, count, sizeof *lines, compare_lines);
    struct mci_master_stats stats = rig_stats(rig);
    size_t len = (size_t)snprintf(
        text, RIG_TEXT_MAX,
        "allocated %ju leased %ju quarantined %ju objects %ju attempts %ju "
        "commits %ju evicted %ju groups %ju id %ju\n",
        (uintmax_t)stats.allocated_bytes, (uintmax_t)stats.leased_only_bytes,
        (uintmax_t)stats.quarantined_bytes, (uintmax_t)stats.objects,
        (uintmax_t)stats.attempts, (uintmax_t)stats.commits,
        (uintmax_t)stats.evicted_objects, (uintmax_t)stats.groups,
        (uintmax_t)mci_event_log_last_id(rig->log));
    for (uint32_t i = 0; i < count; i++) {
        size_t more = strlen(lines[i]);
        ck_assert_uint_lt(len + more, RIG_TEXT_MAX);
        memcpy(text + len, lines[i], more + 1);
        len += more;
        free(lines[i]);
    }
    free(lines);
    return text;
}
