/* SPDX-License-Identifier: Apache-2.0 */
/* The same calls over both links: whatever the direct link to a core answers, the
 * remote link to a master process answers too. Each scene is played over both and
 * written down, and the two texts must be the same.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mci_clock.h"
#include "mci_event_log.h"
#include "peer_rig.h"
#include "suite.h"

#define SEGMENT (1 << 20)
#define TEXT_MAX (1 << 20)

/* One end of a store: a client by number, whose segment its writes go to. */
struct end {
    struct mci_master_link link;
    uint32_t client;
    const struct peer *lender; /* NULL: direct */
    char *text;
    size_t len;
};

static struct process process;
static struct peer peer;
static struct mci_event_log *event_log;
static struct mci_master *master;

static const struct mc_store_opts store = {.enable_multi_tenants = true,
                                           .max_tenants = 4};

/* ---- writing down -------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void note(struct end *end,
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int wrote =
        vsnprintf(end->text + end->len, TEXT_MAX - end->len, format, args);
    va_end(args);
    ck_assert_int_gt(wrote, 0);
    end->len += (size_t)wrote;
    ck_assert_uint_lt(end->len, TEXT_MAX - 1);
}

static struct mci_call call_of(const struct end *end)
{
    struct mci_call call = peer_call(20000);
    call.client = end->client;
    return call;
}

static void note_rows(struct end *end, const char *what, enum mc_err err,
                      const struct mci_write_row *rows, size_t count)
{
    note(end, "%s %d:", what, (int)err);
    for (size_t i = 0; i < count; i++) {
        note(end, " %d%s%s%u", (int)rows[i].err,
             rows[i].attempt.number ? "+" : "",
             rows[i].err == MC_OK && rows[i].attempt.epoch ? "e" : "",
             rows[i].err == MC_OK ? rows[i].place_count : 0);
    }
    note(end, "\n");
}

static void note_results(struct end *end, const char *what, enum mc_err err,
                         const int64_t *results, size_t count)
{
    note(end, "%s %d:", what, (int)err);
    for (size_t i = 0; i < count; i++) {
        note(end, " %jd", (intmax_t)results[i]);
    }
    note(end, "\n");
}

/* ---- calls --------------------------------------------------------------- */

static void start(struct end *end, struct mci_write_row *rows, size_t count)
{
    const struct mci_call call = call_of(end);
    note_rows(end, "start",
              end->link.ops->put_start(end->link.ctx, &call, NULL, rows, count),
              rows, count);
}

static void upsert(struct end *end, struct mci_write_row *rows, size_t count)
{
    const struct mci_call call = call_of(end);
    note_rows(
        end, "upsert",
        end->link.ops->upsert_start(end->link.ctx, &call, NULL, rows, count),
        rows, count);
}

static void give_receipts(const struct end *end, struct mci_write_row *rows,
                          size_t count)
{
    for (size_t i = 0; end->lender && i < count; i++) {
        rows[i].receipts[0] =
            mc_grant_receipt(end->lender->key, end->lender->registration,
                             rows[i].attempt.number);
    }
}

static void finish(struct end *end, struct mci_write_row *rows, size_t count)
{
    const struct mci_call call = call_of(end);
    give_receipts(end, rows, count);
    note_rows(end, "end",
              end->link.ops->put_end(end->link.ctx, &call, rows, count), rows,
              count);
}

static void revoke(struct end *end, struct mci_write_row *rows, size_t count)
{
    const struct mci_call call = call_of(end);
    give_receipts(end, rows, count);
    note_rows(end, "revoke",
              end->link.ops->put_revoke(end->link.ctx, &call, rows, count),
              rows, count);
}

static void ask(struct end *end, const struct mc_view *keys, size_t count)
{
    const struct mci_call call = call_of(end);
    const struct mci_link_ops *ops = end->link.ops;
    int64_t *results = calloc(count + 1, sizeof *results);
    struct mc_probe *probes = calloc(count + 1, sizeof *probes);
    struct mci_read_row *reads = calloc(count + 1, sizeof *reads);
    ck_assert(results && probes && reads);
    enum mc_err err =
        ops->probe(end->link.ctx, &call, keys, count, probes, results);
    note_results(end, "probe", err, results, count);
    for (size_t i = 0; i < count && err == MC_OK; i++) {
        note(end, "  state %d media %u size %ju tag %.*s\n",
             (int)probes[i].state, probes[i].media, (uintmax_t)probes[i].size,
             (int)probes[i].session_len, probes[i].session);
    }
    err = ops->exist(end->link.ctx, &call, keys, count, results);
    note_results(end, "exist", err, results, count);
    err = ops->get_size(end->link.ctx, &call, keys, count, results);
    note_results(end, "size", err, results, count);
    for (size_t i = 0; i < count; i++) {
        reads[i].key = keys[i];
    }
    note(end, "get %d:", (int)ops->get(end->link.ctx, &call, reads, count));
    for (size_t i = 0; i < count; i++) {
        note(end, " %d size %ju media %u places %u lease %d", (int)reads[i].err,
             (uintmax_t)(reads[i].err == MC_OK ? reads[i].size : 0),
             reads[i].err == MC_OK ? reads[i].media : 0, reads[i].place_count,
             reads[i].err == MC_OK && reads[i].lease_left_ns > MCI_NS_PER_S);
    }
    note(end, "\n");
    ops->release(end->link.ctx, reads, count);
    free(results);
    free(probes);
    free(reads);
}

static void drop(struct end *end, const struct mc_view *keys, size_t count,
                 bool force)
{
    const struct mci_call call = call_of(end);
    int64_t *results = calloc(count + 1, sizeof *results);
    ck_assert_ptr_nonnull(results);
    note_results(end, force ? "force" : "remove",
                 end->link.ops->remove(end->link.ctx, &call, keys, count, force,
                                       results),
                 results, count);
    free(results);
}

static void fates(struct end *end, const struct mci_write_row *rows,
                  size_t count)
{
    const struct mci_call call = call_of(end);
    for (size_t i = 0; i < count; i++) {
        enum mci_fate fate = MCI_FATE_UNKNOWN;
        enum mc_err err = end->link.ops->attempt_fate(
            end->link.ctx, &call, &rows[i].attempt, 1, &fate);
        note(end, "fate %d %d\n", (int)err, (int)fate);
    }
}

static struct mci_write_row row_of(const char *key, uint64_t size)
{
    return (struct mci_write_row){.key = mc_view_str(key), .size = size};
}

static void note_leases(struct end *end, const char *what, enum mc_err err,
                        const struct mci_read_row *rows, size_t count)
{
    note(end, "%s %d:", what, (int)err);
    for (size_t i = 0; i < count; i++) {
        bool is_there = rows[i].err == MC_OK && rows[i].size > 0;
        note(end, " %d%s%s size %ju places %u left %d", (int)rows[i].err,
             rows[i].lease.number ? "+" : "", rows[i].lease.epoch ? "e" : "",
             (uintmax_t)(is_there ? rows[i].size : 0), rows[i].place_count,
             is_there && rows[i].lease_left_ns > MCI_NS_PER_S);
    }
    note(end, "\n");
}

static void note_kept(struct end *end)
{
    const struct mci_call call = call_of(end);
    struct mci_master_stats figures;
    ck_assert_int_eq(end->link.ops->stat(end->link.ctx, &call, &figures),
                     MC_OK);
    note(end, "leased only %ju\n", (uintmax_t)figures.leased_only_bytes);
}

/* ---- scenes -------------------------------------------------------------- */

static void play_a_life(struct end *end)
{
    const struct mc_view keys[] = {mc_view_str("a"), mc_view_str("b"),
                                   mc_view_str("c")};
    struct mci_write_row rows[3] = {row_of("a", 100), row_of("b", 70000),
                                    row_of("a", 100)};
    rows[0].session_id = mc_view_str("session");
    rows[1].group_id = mc_view_str("group");
    ask(end, keys, 3);
    start(end, rows, 3);
    fates(end, rows, 2);
    ask(end, keys, 3);
    finish(end, rows, 3);
    finish(end, rows, 3);
    fates(end, rows, 2);
    ask(end, keys, 3);
    struct mci_write_row again[3] = {row_of("a", 100), row_of("a", 200),
                                     row_of("c", 5)};
    start(end, again, 1);
    upsert(end, &again[1], 2);
    revoke(end, &again[2], 1);
    revoke(end, &again[2], 1);
    finish(end, &again[2], 1);
    finish(end, &again[1], 1);
    fates(end, &again[1], 2);
    ask(end, keys, 3);
    drop(end, keys, 3, false);
    drop(end, keys, 3, true);
    drop(end, keys, 3, true);
}

static void play_bad_names(struct end *end)
{
    static char long_key[MC_KEY_LEN_MAX + 2];
    static char long_id[MC_GROUP_ID_LEN_MAX + 2];
    memset(long_key, 'k', sizeof long_key - 1);
    memset(long_id, 'g', sizeof long_id - 1);
    const struct mc_view keys[] = {mc_view_make("", 0),
                                   mc_view_make("\xff", 1),
                                   mc_view_make("a\0b", 3),
                                   mc_view_str(long_key),
                                   mc_view_make(long_key, MC_KEY_LEN_MAX),
                                   mc_view_make("\xed\xa0\x80", 3),
                                   mc_view_str("fine")};
    struct mci_write_row rows[7];
    ask(end, keys, 7);
    for (size_t i = 0; i < 7; i++) {
        rows[i] = (struct mci_write_row){.key = keys[i], .size = 10};
    }
    start(end, rows, 7);
    finish(end, rows, 7);
    drop(end, keys, 7, true);
    for (size_t i = 0; i < 4; i++) {
        struct mci_write_row pair[2] = {row_of("x", 10), row_of("y", 10)};
        struct mc_view bad =
            i % 2 ? mc_view_make("\xff", 1) : mc_view_str(long_id);
        *(i < 2 ? &pair[1].group_id : &pair[1].session_id) = bad;
        start(end, pair, 2);
        upsert(end, pair, 2);
    }
    struct mci_write_row sizes[3] = {row_of("zero", 0),
                                     row_of("huge", MC_OBJECT_SIZE_MAX + 1),
                                     row_of("large", SEGMENT + 1)};
    start(end, sizes, 3);
    finish(end, sizes, 3);
}

static void play_configs(struct end *end)
{
    const char *names[MCI_PREFERRED_MAX] = {"lender", "nobody"};
    const struct mc_replicate_config configs[] = {
        {.replica_num = 3},
        {.nof_replica_num = 1},
        {.dfs_replica_num = 1},
        {.with_hard_pin = true, .preferred_segment = "lender"},
        {.preferred_segments = names, .preferred_segment_count = 2},
        {.soft_pin_action = MC_SOFT_PIN_ENABLE, .soft_pin_ttl_ms = 5},
        {.soft_pin_ttl_ms = 5},
        {.data_type = MC_DATA_TENSOR, .prefer_alloc_in_same_node = true},
        {.replica_num = 1000},
        {.soft_pin_action = (enum mc_soft_pin_action)9},
        {.data_type = (enum mc_data_type)99},
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        const struct mci_call call = call_of(end);
        char key[16];
        (void)snprintf(key, sizeof key, "config%zu", i);
        struct mci_write_row row = row_of(key, 10);
        note_rows(end, "config",
                  end->link.ops->put_start(end->link.ctx, &call, &configs[i],
                                           &row, 1),
                  &row, 1);
        finish(end, &row, 1);
    }
}

static void play_tenants(struct end *end)
{
    static char long_name[MC_TENANT_LEN_MAX + 2];
    memset(long_name, 't', sizeof long_name - 1);
    const struct mc_view names[] = {mc_view_str("one"), mc_view_str("default"),
                                    mc_view_str(long_name),
                                    mc_view_make("\xff", 1)};
    for (size_t i = 0; i < 4; i++) {
        struct mci_call call = call_of(end);
        struct mci_write_row row = row_of("k", 10);
        struct mc_view key = row.key;
        uint64_t removed = 77;
        int64_t result = 77;
        call.tenant = names[i];
        enum mc_err err =
            end->link.ops->put_start(end->link.ctx, &call, NULL, &row, 1);
        note_rows(end, "start", err, &row, 1);
        if (err == MC_OK) { /* else there is nothing to ask */
            give_receipts(end, &row, 1);
            err = end->link.ops->put_end(end->link.ctx, &call, &row, 1);
            note_rows(end, "end", err, &row, 1);
        }
        err = end->link.ops->exist(end->link.ctx, &call, &key, 1, &result);
        note_results(end, "exist", err, &result, 1);
        err = end->link.ops->remove_all(end->link.ctx, &call, true, &removed);
        note(end, "removed %d %ju\n", (int)err, (uintmax_t)removed);
        ask(end, &key, 1);
    }
}

static void play_regex(struct end *end)
{
    static const char *const patterns[] = {"^r/1", "r/[", "", "^none$", "r/"};
    struct mci_write_row rows[40];
    char keys[40][16];
    for (size_t i = 0; i < 40; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "r/%zu", i);
        rows[i] = row_of(keys[i], 10);
    }
    start(end, rows, 40);
    finish(end, rows, 40);
    for (size_t i = 0; i < 5; i++) {
        const struct mci_call call = call_of(end);
        uint64_t removed = 77;
        enum mc_err err = end->link.ops->remove_by_regex(
            end->link.ctx, &call, mc_view_str(patterns[i]), true, &removed);
        note(end, "regex %d %ju\n", (int)err, (uintmax_t)removed);
    }
}

/* Much more than a page, told in any order. */
#define LISTED 1000
static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void play_list(struct end *end)
{
    static char keys[LISTED][16];
    static char *seen[LISTED + 1];
    struct mci_write_row *rows = calloc(LISTED, sizeof *rows);
    struct mci_cursor cursor = {.shard = 0};
    struct mci_page page;
    size_t count = 0;
    ck_assert_ptr_nonnull(rows);
    for (size_t i = 0; i < LISTED; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "l/%zu", i);
        rows[i] = row_of(keys[i], 16);
        rows[i].session_id = mc_view_str("s");
    }
    start(end, rows, LISTED);
    finish(end, rows, LISTED);
    ck_assert_int_eq(mci_page_init(&page), MC_OK);
    while (!cursor.at_end) {
        const struct mci_call call = call_of(end);
        ck_assert_int_eq(end->link.ops->list(end->link.ctx, &call,
                                             mc_view_str("default"), &cursor,
                                             &page),
                         MC_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            ck_assert_uint_lt(count, LISTED);
            ck_assert(mc_view_equal(page.rows[i].session_id, mc_view_str("s")));
            ck_assert_uint_eq(page.rows[i].size, 16);
            seen[count] = strndup(page.rows[i].key.data, page.rows[i].key.len);
            ck_assert_ptr_nonnull(seen[count++]);
        }
    }
    mci_page_fini(&page);
    qsort(seen, count, sizeof seen[0], compare_keys);
    for (size_t i = 0; i < count; i++) {
        note(end, "%s\n", seen[i]);
        free(seen[i]);
    }
    free(rows);
}

static void play_full(struct end *end)
{
    struct mci_write_row rows[40];
    char keys[40][16];
    for (size_t i = 0; i < 40; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "f/%zu", i);
        rows[i] = row_of(keys[i], SEGMENT / 32);
    }
    start(end, rows, 40); /* open writes are not evicted */
    revoke(end, rows, 20);
    finish(end, &rows[20], 20);
    const struct mci_call call = call_of(end);
    struct mci_master_stats figures;
    ck_assert_int_eq(end->link.ops->stat(end->link.ctx, &call, &figures),
                     MC_OK);
    note(end, "objects %ju attempts %ju commits %ju failures %ju\n",
         (uintmax_t)figures.objects, (uintmax_t)figures.attempts,
         (uintmax_t)figures.commits, (uintmax_t)figures.alloc_failures);
}

static void play_leases(struct end *end)
{
    const struct mci_link_ops *ops = end->link.ops;
    void *ctx = end->link.ctx;
    struct mci_write_row rows[2] = {row_of("a", 100), row_of("b", 70000)};
    struct mci_write_row again = row_of("b", 10);
    struct mci_read_row reads[4] = {{.key = mc_view_str("a")},
                                    {.key = mc_view_str("b")},
                                    {.key = mc_view_str("b")},
                                    {.key = mc_view_str("none")}};
    const struct mc_view keys[] = {mc_view_str("a"), mc_view_str("b")};
    start(end, rows, 2);
    finish(end, rows, 2);
    for (size_t i = 0; i < 4; i++) {
        reads[i].want_lease = true;
    }
    const struct mci_call call = call_of(end);
    note_leases(end, "get", ops->get(ctx, &call, reads, 4), reads, 4);
    drop(end, keys, 2, false);
    upsert(end, &again, 1);
    finish(end, &again, 1);
    drop(end, keys, 1, true);
    note_kept(end);
    struct mci_read_row wrong[3] = {reads[0], reads[0], reads[0]};
    wrong[0].version++;
    wrong[1].lease.epoch++;
    wrong[2].lease.number++;
    note_leases(end, "renew", ops->lease_renew(ctx, &call, wrong, 3), wrong, 3);
    note_leases(end, "renew", ops->lease_renew(ctx, &call, reads, 4), reads, 4);
    note_leases(end, "release", ops->lease_release(ctx, &call, reads, 2), reads,
                2);
    note_kept(end);
    note_leases(end, "renew", ops->lease_renew(ctx, &call, reads, 3), reads, 3);
    note_leases(end, "release", ops->lease_release(ctx, &call, &reads[2], 2),
                &reads[2], 2);
    note_kept(end);
    note_leases(end, "none", ops->lease_renew(ctx, &call, NULL, 0), NULL, 0);
    note_leases(end, "none", ops->lease_release(ctx, &call, NULL, 0), NULL, 0);
}

static void play_nothing(struct end *end)
{
    ask(end, NULL, 0);
    start(end, NULL, 0);
    upsert(end, NULL, 0);
    finish(end, NULL, 0);
    revoke(end, NULL, 0);
    drop(end, NULL, 0, false);
}

/* ---- over both ----------------------------------------------------------- */

static void open_direct(struct end *end)
{
    const struct mci_log_opts log_opts = {.epoch = 77};
    ck_assert_int_eq(mci_event_log_create(&log_opts, &event_log), MC_OK);
    const struct mci_master_opts opts = {.store = store, .log = event_log};
    ck_assert_int_eq(mci_master_create(&opts, &master), MC_OK);
    ck_assert_int_eq(mci_master_client_add(master, &end->client), MC_OK);
    const struct mci_lent lent = {
        .name = "lender", .bytes = SEGMENT, .client = end->client};
    uint32_t segment = 0;
    ck_assert_int_eq(mci_master_segment_add(master, &lent, &segment), MC_OK);
    end->link = mci_link_direct(master);
}

static char *play(void (*scene)(struct end *), bool remote)
{
    struct end end = {.text = calloc(1, TEXT_MAX)};
    ck_assert_ptr_nonnull(end.text);
    if (!remote) {
        open_direct(&end);
        scene(&end);
        ck_assert(mci_master_check(master));
        mci_master_destroy(master);
        mci_event_log_destroy(event_log);
        return end.text;
    }
    const struct mc_master_opts opts = {.store = store, .heartbeat_ms = 100};
    process_open(&process, &opts);
    peer_open_beside(&process, &peer, "peer:1", SEGMENT);
    end.link = peer.link;
    end.lender = &peer;
    scene(&end);
    peer_close(&peer);
    process_close(&process);
    return end.text;
}

static void (*const scenes[])(struct end *) = {
    play_a_life, play_bad_names, play_configs, play_tenants, play_regex,
    play_list,   play_full,      play_leases,  play_nothing};

START_TEST(both_links_answer_the_same)
{
    char *direct = play(scenes[_i], false);
    char *remote = play(scenes[_i], true);
    ck_assert_str_eq(remote, direct);
    ck_assert_uint_gt(strlen(direct), 20);
    free(direct);
    free(remote);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("remote_master");
    TCase *both = tcase_create("both");
    tcase_set_timeout(both, 60);
    tcase_add_loop_test(both, both_links_answer_the_same, 0,
                        (int)(sizeof scenes / sizeof scenes[0]));
    suite_add_tcase(suite, both);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
