/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_load.c - exactness: many threads on the same few keys, remove_all
 * beside them, and the tap's stream applied to a set. At the end set and store
 * say the same; on the way events alternate, ids have no hole, tags are kept or
 * replaced as written, and no reader sees bytes of two versions.
 *
 * Each write has a stamp of its own, which is all over its bytes and in its tag
 * ("t<stamp>"); a write without a tag has an odd stamp.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "client_rig.h"
#include "draw.h"
#include "mci_clock.h"
#include "sanitized.h"
#include "set_tap.h"
#include "suite.h"

#define WRITERS 8
#define VALUE_MIN 64
#define VALUE_MAX 4096

struct mode {
    const char *name;
    enum mc_publisher_overflow overflow;
    uint32_t capacity;
    uint64_t segment_bytes; /* small: eviction works all the time */
    bool with_groups;
};

static const struct mode modes[] = {
    {"drop_oldest, none lost", MC_PUBLISHER_DROP_OLDEST, 65536, 64 * MIB,
     false},
    {"block, small log", MC_PUBLISHER_BLOCK, 1024, 64 * MIB, false},
    {"drop_oldest, evicting", MC_PUBLISHER_DROP_OLDEST, 65536, 128 * KIB,
     false},
    {"block, evicting groups", MC_PUBLISHER_BLOCK, 1024, 128 * KIB, true},
};

/* ---- the threads ----------------------------------------------------------- */

struct load {
    const struct mode *mode;
    struct client_rig rig;
    atomic_bool stop;        /* writers and remover */
    _Atomic uint64_t faults; /* wrong answers and wrong bytes */
    _Atomic int64_t last_fault;
    _Atomic uint64_t reads;
    _Atomic uint64_t busy; /* answers of -705, -703, -706, -704, -200 */
};

struct writer {
    struct load *load;
    pthread_t thread;
    uint64_t number;
    uint64_t count;
    uint64_t random;
    uint8_t value[VALUE_MAX];
    uint8_t batch[4][VALUE_MAX];
};

static size_t len_of(uint64_t stamp)
{
    return VALUE_MIN + (stamp * UINT64_C(0x9E3779B97F4A7C15) >> 52) %
                           (VALUE_MAX - VALUE_MIN);
}

static uint64_t next_stamp(struct writer *writer, bool is_tagged)
{
    return (writer->number << 40 | ++writer->count) << 1 | !is_tagged;
}

static void judge(struct load *load, int64_t code, bool is_fine)
{
    if (!is_fine) {
        atomic_fetch_add(&load->faults, 1);
        atomic_store(&load->last_fault, code);
    } else if (code < 0) {
        atomic_fetch_add(&load->busy, 1);
    }
}

/* What a write may answer: 0, another writer is at it, no room just now. */
static void judge_write(struct load *load, int64_t code, bool replaces)
{
    judge(load, code,
          code == 0 || code == MC_ERR_NO_AVAILABLE_HANDLE ||
              (!replaces && code == MC_ERR_OBJECT_ALREADY_EXISTS));
}

struct named {
    char text[4];
};

static struct named key_of(uint64_t number)
{
    struct named named;
    (void)snprintf(named.text, sizeof named.text, "k%02u",
                   (unsigned)number % 100);
    return named;
}

static void write_rows(struct writer *writer, uint32_t count, bool replaces)
{
    struct named names[4];
    struct mc_view keys[4];
    struct mc_view values[4];
    struct mc_view tags[4];
    struct mc_view groups[4];
    char texts[4][TAG_MAX];
    int64_t results[4];
    for (uint32_t i = 0; i < count; i++) {
        bool is_tagged = draw(&writer->random, 4) != 0;
        uint64_t stamp = next_stamp(writer, is_tagged);
        names[i] = key_of(draw(&writer->random, KEYS));
        keys[i] = mc_view_make(names[i].text, 3);
        values[i] = mc_view_make(writer->batch[i], len_of(stamp));
        stamp_fill(writer->batch[i], len_of(stamp), stamp);
        (void)snprintf(texts[i], TAG_MAX, "t%ju", (uintmax_t)stamp);
        tags[i] = mc_view_str(is_tagged ? texts[i] : "");
        groups[i] = mc_view_make(names[i].text, 2); /* ten keys each */
    }
    struct mc_replicate_config config = {.session_ids = tags,
                                         .session_id_count = count};
    if (writer->load->mode->with_groups) {
        config.group_ids = groups;
        config.group_id_count = count;
    }
    struct mc_client *client = writer->load->rig.client;
    enum mc_err err = replaces ? mc_client_batch_upsert(client, keys, values,
                                                        count, &config, results)
                               : mc_client_batch_put(client, keys, values,
                                                     count, &config, results);
    judge(writer->load, err, err == MC_OK);
    for (uint32_t i = 0; i < count; i++) {
        judge_write(writer->load, results[i], replaces);
    }
}

static void read_one(struct writer *writer)
{
    struct named name = key_of(draw(&writer->random, KEYS));
    uint64_t size = 0;
    uint64_t stamp = 0;
    enum mc_err err =
        mc_client_get_into(writer->load->rig.client, mc_view_make(name.text, 3),
                           writer->value, sizeof writer->value, &size);
    if (err == MC_OK) {
        bool whole = stamp_read(writer->value, size, &stamp);
        judge(writer->load, 1, whole && size == len_of(stamp));
        atomic_fetch_add(&writer->load->reads, 1);
        return;
    }
    judge(writer->load, err,
          err == MC_ERR_OBJECT_NOT_FOUND ||
              err == MC_ERR_REPLICA_IS_NOT_READY ||
              (client_link() && err == MC_ERR_LEASE_EXPIRED));
}

static void remove_one(struct writer *writer)
{
    struct named name = key_of(draw(&writer->random, KEYS));
    enum mc_err err =
        mc_client_remove(writer->load->rig.client, mc_view_make(name.text, 3),
                         draw(&writer->random, 2) == 0);
    judge(writer->load, err,
          err == MC_OK || err == MC_ERR_OBJECT_NOT_FOUND ||
              err == MC_ERR_OBJECT_HAS_LEASE ||
              err == MC_ERR_REPLICA_IS_NOT_READY);
}

/* With drop_oldest the writers must leave the tap time, or events are lost, as
 * they should be. */
static void keep_within_the_log(struct load *load)
{
    if (load->mode->overflow == MC_PUBLISHER_BLOCK) {
        return;
    }
    struct mci_log_stats stats;
    mci_event_log_stats(load->rig.log, &stats);
    if (stats.depth > stats.capacity / 2) {
        await_turn();
    }
}

static void *run_writer(void *ctx)
{
    struct writer *writer = ctx;
    while (!atomic_load_explicit(&writer->load->stop, memory_order_relaxed)) {
        uint64_t dice = draw(&writer->random, 100);
        keep_within_the_log(writer->load);
        if (dice < 30) {
            write_rows(writer, 1, false);
        } else if (dice < 55) {
            write_rows(writer, 1, true);
        } else if (dice < 60) {
            write_rows(writer, 1 + (uint32_t)draw(&writer->random, 4), false);
        } else if (dice < 65) {
            write_rows(writer, 1 + (uint32_t)draw(&writer->random, 4), true);
        } else if (dice < 80) {
            remove_one(writer);
        } else {
            read_one(writer);
        }
    }
    return NULL;
}

static void *run_remover(void *ctx)
{
    struct load *load = ctx;
    for (uint64_t i = 0; !atomic_load(&load->stop); i++) {
        uint64_t removed = 0;
        enum mc_err err =
            mc_client_remove_all(load->rig.client, i % 2 == 0, &removed);
        judge(load, err, err == MC_OK);
        await_turn();
    }
    return NULL;
}

/* ---- the end ---------------------------------------------------------------- */

struct comparison {
    struct tap *tap;
    struct load *load;
    uint32_t seen;
    uint8_t value[VALUE_MAX];
};

static bool compare_row(void *ctx, const struct mc_object_row *row)
{
    struct comparison *comparison = ctx;
    int number = key_number(row->key);
    ck_assert_int_ge(number, 0);
    const struct entry *entry = &comparison->tap->entries[number];
    char tag[TAG_MAX];
    copy_tag(tag, row->session_id);
    ck_assert_msg(entry->is_stored, "%03d is in the store only", number);
    ck_assert_str_eq(entry->tag, tag);
    ck_assert_uint_eq(entry->last_id, row->last_event_id);
    uint64_t size = 0;
    uint64_t stamp = 0;
    enum mc_err err = MC_ERR_LEASE_EXPIRED; /* leases are short */
    for (int i = 0; err == MC_ERR_LEASE_EXPIRED && i < 1000; i++) {
        err = mc_client_get_into(comparison->load->rig.client, row->key,
                                 comparison->value, VALUE_MAX, &size);
    }
    ck_assert_int_eq(err, MC_OK);
    ck_assert_uint_eq(size, row->size);
    ck_assert(stamp_read(comparison->value, size, &stamp));
    char own[TAG_MAX];
    (void)snprintf(own, sizeof own, "t%ju", (uintmax_t)stamp);
    /* Even stamps are tagged with themselves; odd ones with what was kept. */
    ck_assert((stamp % 2 == 0) == (strcmp(own, tag) == 0));
    comparison->seen++;
    return true;
}

static void compare_with_store(struct load *load, struct tap *tap)
{
    struct comparison comparison = {.tap = tap, .load = load};
    ck_assert_uint_eq(tap->last_id, mci_event_log_last_id(load->rig.log));
    ck_assert_int_eq(mc_client_list(load->rig.client, compare_row, &comparison),
                     MC_OK);
    ck_assert_uint_eq(comparison.seen, tap->stored);
    struct mc_client_stats stats;
    mc_client_stat(load->rig.client, &stats);
    ck_assert_uint_eq(stats.objects, tap->stored);
    ck_assert_uint_eq(stats.attempts, 0);
}

/* Every byte comes back once the leases are over. */
static void check_bytes_come_back(struct load *load)
{
    uint64_t removed = 0;
    struct mc_client_stats stats;
    ck_assert_int_eq(mc_client_remove_all(load->rig.client, true, &removed),
                     MC_OK);
    ck_assert(AWAIT((mc_client_stat(load->rig.client, &stats),
                     stats.allocated_bytes == 0)));
    ck_assert_uint_eq(stats.objects, 0);
}

static uint64_t run_ms(void)
{
    const char *soak = getenv("MC_SOAK");
    if (soak && soak[0] == '1') {
        return 60000;
    }
    return SANITIZED ? 3000 : 10000;
}

/* Over a socket a read has to be over within its lease. */
static uint64_t lease_ms(void)
{
    if (!client_link()) {
        return 2;
    }
    return SANITIZED ? 100 : 20;
}

static void open_load(struct load *load, const struct mode *mode)
{
    struct mc_client_opts opts = {
        .segment_bytes = mode->segment_bytes,
        /* No background eviction: it would go on while the end is compared.
         * test_master_crowd has it beside everything else. */
        .store = {.default_kv_lease_ttl_ms = lease_ms(),
                  .exist_lease_ttl_ms = 2,
                  .eviction_high_watermark = 1.0},
        .events = {.overflow = mode->overflow,
                   .queue_capacity = mode->capacity},
    };
    load->mode = mode;
    client_open(&load->rig, &opts);
}

static void run_threads(struct load *load)
{
    struct writer *writers = calloc(WRITERS, sizeof *writers);
    ck_assert_ptr_nonnull(writers);
    pthread_t remover;
    for (uint64_t i = 0; i < WRITERS; i++) {
        writers[i].load = load;
        writers[i].number = i + 1;
        writers[i].random = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
        ck_assert_int_eq(
            pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]),
            0);
    }
    ck_assert_int_eq(pthread_create(&remover, NULL, run_remover, load), 0);
    uint64_t end_ns = mci_clock_ns() + run_ms() * MCI_NS_PER_MS;
    while (mci_clock_ns() < end_ns) {
        await_turn();
    }
    atomic_store(&load->stop, true);
    for (int i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(pthread_join(writers[i].thread, NULL), 0);
    }
    ck_assert_int_eq(pthread_join(remover, NULL), 0);
    free(writers);
}

START_TEST(the_stream_equals_the_store_under_load)
{
    struct load *load = calloc(1, sizeof *load);
    struct tap *tap = calloc(1, sizeof *tap);
    pthread_t tap_thread;
    ck_assert(load && tap);
    open_load(load, &modes[_i]);
    tap->rig = &load->rig;
    tap->last_id = load->rig.last_id;
    ck_assert_int_eq(pthread_create(&tap_thread, NULL, run_tap, tap), 0);
    run_threads(load);
    atomic_store(&tap->may_end, true);
    ck_assert_int_eq(pthread_join(tap_thread, NULL), 0);
    ck_assert_str_eq(tap->fault, "");
    ck_assert_msg(atomic_load(&load->faults) == 0, "%ju faults, last %jd",
                  (uintmax_t)load->faults, (intmax_t)load->last_fault);
    compare_with_store(load, tap);
    /* It was a load: each kind of thing happened. */
    ck_assert_uint_gt(tap->events, 1000);
    ck_assert_uint_gt(tap->upserts, 10);
    ck_assert_uint_gt(load->reads, client_link() ? 10 : 100);
    struct mc_client_stats stats;
    mc_client_stat(load->rig.client, &stats);
    bool has_evicted = stats.evicted_objects > 0;
    /* Leases over a socket are longer, and what they hold is room as well. */
    ck_assert(client_link() ||
              has_evicted == (load->mode->segment_bytes < MIB));
    check_bytes_come_back(load);
    client_close(&load->rig);
    free(tap);
    free(load);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client load");
    TCase *tcase = tcase_create("load");
    tcase_set_timeout(tcase, 200);
    tcase_add_loop_test(tcase, the_stream_equals_the_store_under_load, 0,
                        (int)(sizeof modes / sizeof modes[0]));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
