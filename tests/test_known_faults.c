/* SPDX-License-Identifier: Apache-2.0 */
/* test_known_faults.c - what other stores failed at and no test of a single room
 * builds: crowds, long registrations, names that are none, hits that are gone.
 * docs/known_faults.md has the list. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "await.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "keep_quiet.h"
#include "mc_log.h"
#include "mci_clock.h"
#include "sanitized.h"
#include "suite.h"

#define LEN (4 * KIB)

static struct process_rig process;
static uint8_t value[LEN];
static uint8_t got[LEN];

static void start_with(const struct mc_store_opts *store, uint32_t ttl_ms)
{
    struct process_rig_opts opts = {.client_ttl_ms = ttl_ms};
    if (store) {
        opts.store = *store;
    }
    mc_log_set_sink(keep_quiet, NULL);
    process_open(&process, &opts);
    stamp_fill(value, sizeof value, 17);
}

static void start(const struct mc_store_opts *store)
{
    start_with(store, 3000);
}

static void stop(void)
{
    process_close(&process);
    mc_log_set_sink(NULL, NULL);
}

static struct mc_client_opts settings(uint64_t segment_bytes)
{
    return (struct mc_client_opts){.master = process.address,
                                   .segment_bytes = segment_bytes,
                                   .any_memory = true};
}

static struct mc_client *join(const struct mc_client_opts *opts)
{
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(opts, &client), MC_OK);
    return client;
}

static struct mc_client *join_with(uint64_t segment_bytes)
{
    struct mc_client_opts opts = settings(segment_bytes);
    return join(&opts);
}

static enum mc_err put(struct mc_client *client, const char *key)
{
    return mc_client_put(client, mc_view_str(key), value, LEN, NULL);
}

static enum mc_err get(struct mc_client *client, const char *key)
{
    uint64_t size = 0;
    uint64_t stamp = 0;
    enum mc_err err =
        mc_client_get_into(client, mc_view_str(key), got, sizeof got, &size);
    ck_assert(err != MC_OK ||
              (size == LEN && stamp_read(got, LEN, &stamp) && stamp == 17));
    return err;
}

static bool exists(struct mc_client *client, const char *key)
{
    bool is_there = true;
    ck_assert_int_eq(mc_client_exist(client, mc_view_str(key), &is_there),
                     MC_OK);
    return is_there;
}

static bool has_passed(uint64_t since_ns, uint64_t ms)
{
    return mci_clock_ns() - since_ns >= ms * MCI_NS_PER_MS;
}

/* ---- E: a crowd that asks for much at a time ------------------------------- */

#define ASKERS 64
#define ASKED 5000

struct asker {
    struct mc_client *client;
    const struct names *names;
    unsigned number;
    unsigned rounds;
    unsigned faults;
};

static void ask_once(struct asker *asker, int64_t *results, unsigned round)
{
    char key[32];
    (void)snprintf(key, sizeof key, "a%u/%u", asker->number, round);
    asker->faults += put(asker->client, key) != MC_OK;
    enum mc_err err = mc_client_batch_exist(asker->client, asker->names->keys,
                                            ASKED, results);
    asker->faults += err != MC_OK;
    for (int i = 0; err == MC_OK && i < ASKED; i++) {
        asker->faults += results[i] != (i % 50 == 0);
    }
}

static void *ask(void *ctx)
{
    struct asker *asker = ctx;
    int64_t *results = must_alloc(ASKED * sizeof *results);
    for (unsigned i = 0; i < asker->rounds; i++) {
        ask_once(asker, results, i);
    }
    free(results);
    return NULL;
}

START_TEST(sixty_four_threads_ask_for_thousands_and_put)
{
    struct asker askers[ASKERS];
    pthread_t threads[ASKERS];
    unsigned rounds = getenv("MC_SOAK") ? 100 : SANITIZED ? 1 : 2;
    start(NULL);
    struct mc_client *lender = join_with(64 * MIB);
    struct mc_client *client = join_with(MC_NONE);
    struct names names = names_make(ASKED, value, sizeof value);
    for (int i = 0; i < ASKED; i += 50) {
        ck_assert_int_eq(mc_client_put(client, names.keys[i], value, LEN, NULL),
                         MC_OK);
    }
    for (unsigned i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){
            .client = client, .names = &names, .number = i, .rounds = rounds};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (unsigned i = 0; i < ASKERS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(askers[i].faults, 0);
    }
    names_free(&names);
    mc_client_close(client);
    mc_client_close(lender);
    stop();
}
END_TEST

/* ---- F: a lender that leaves ------------------------------------------------ */

struct putter {
    struct mc_client *client;
    unsigned number;
    bool has_batches;
    unsigned faults;
    enum mc_err fault; /* the last one */
    unsigned puts;
    atomic_bool *is_over;
};

#define BATCH 16

static enum mc_err put_batch(struct putter *putter)
{
    char texts[BATCH][32];
    struct mc_view keys[BATCH];
    struct mc_view values[BATCH];
    int64_t results[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%u/%u/%u", putter->number,
                       putter->puts % 100, i);
        keys[i] = mc_view_str(texts[i]);
        values[i] = mc_view_make(value, LEN);
    }
    enum mc_err err =
        mc_client_batch_put(putter->client, keys, values, BATCH, NULL, results);
    for (unsigned i = 0; i < BATCH && err == MC_OK; i++) {
        err = (enum mc_err)results[i];
    }
    return err;
}

static void *put_often(void *ctx)
{
    struct putter *putter = ctx;
    while (!atomic_load(putter->is_over)) {
        char key[32];
        (void)snprintf(key, sizeof key, "%u/%u", putter->number, putter->puts);
        enum mc_err err =
            putter->has_batches ? put_batch(putter) : put(putter->client, key);
        putter->faults += err != MC_OK;
        putter->fault = err != MC_OK ? err : putter->fault;
        putter->puts++;
    }
    return NULL;
}

/* A segment that goes while others write takes no put with it. Whoever does not
 * leave lives, however long the machine holds its heartbeats up: with the lender
 * that stays a put's room would go. */
START_TEST(a_lender_that_leaves_costs_nobody_a_put)
{
    const struct mc_store_opts store = {.default_kv_lease_ttl_ms = 10};
    struct putter putters[4];
    pthread_t threads[4];
    atomic_bool is_over = false;
    start_with(&store, 60000);
    struct mc_client *stays = join_with(64 * MIB);
    struct mc_client *client = join_with(MC_NONE);
    for (unsigned i = 0; i < 4; i++) {
        putters[i] = (struct putter){.client = client,
                                     .number = i,
                                     .has_batches = _i == 1,
                                     .is_over = &is_over};
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, put_often, &putters[i]), 0);
    }
    for (int i = 0; i < (SANITIZED ? 3 : 10); i++) {
        struct mc_client *leaves = join_with(64 * MIB);
        uint64_t begun = mci_clock_ns();
        while (!has_passed(begun, 100)) {
            await_turn();
        }
        mc_client_close(leaves);
    }
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_gt(putters[i].puts, 0);
        ck_assert_msg(putters[i].faults == 0, "%u of %u, as %d",
                      putters[i].faults, putters[i].puts, putters[i].fault);
    }
    mc_client_close(client);
    mc_client_close(stays);
    stop();
}
END_TEST

/* ---- F: heartbeats beside long work ----------------------------------------- */

/* Registers and lends eight gigabytes over and over, for longer than a silent
 * client would live. */
START_TEST(large_registrations_do_not_silence_a_client)
{
    const size_t len = (size_t)8 << 30;
    start(NULL);
    struct mc_client *client = join_with(MIB);
    struct mc_client *other = join_with(MC_NONE);
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    ck_assert_int_eq(put(client, "kept"), MC_OK);
    uint64_t begun = mci_clock_ns();
    while (!has_passed(begun, 3500)) {
        uint32_t segment = 0;
        ck_assert_int_eq(mc_client_register_buffer(client, at, len), MC_OK);
        ck_assert_int_eq(mc_client_unregister_buffer(client, at), MC_OK);
        ck_assert_int_eq(mc_client_mount_segment(client, at, len, &segment),
                         MC_OK);
        ck_assert_int_eq(mc_client_unmount_segment(client, segment, 0), MC_OK);
    }
    ck_assert_int_eq(mc_client_health(client), 0);
    ck_assert_int_eq(get(other, "kept"), MC_OK);
    mc_client_close(other);
    mc_client_close(client);
    ck_assert_int_eq(munmap(at, len), 0);
    stop();
}
END_TEST

/* ---- G: owners that nobody reaches, peers that were idle --------------------- */

/* What the owner says about where it is leads nowhere: 192.0.2.0/24 is nobody's,
 * and the second name is no name. */
START_TEST(an_owner_with_an_address_that_leads_nowhere_costs_the_deadline)
{
    static const char *const hosts[] = {"192.0.2.1", "no-such-host.invalid"};
    start(NULL);
    struct mc_client_opts opts = settings(MIB);
    opts.local_hostname = hosts[_i];
    struct mc_client *owner = join(&opts);
    opts = settings(MC_NONE);
    opts.transport = "tcp";
    opts.timeout_ms = 1000;
    struct mc_client *reader = join(&opts);
    ck_assert_int_eq(put(owner, "k"), MC_OK); /* its own memory */
    ck_assert(exists(reader, "k"));
    uint64_t begun = mci_clock_ns();
    enum mc_err err = get(reader, "k");
    ck_assert_msg(err == MC_ERR_TRANSFER_FAIL || err == MC_ERR_RPC_TIMEOUT ||
                      err == MC_ERR_LEASE_EXPIRED,
                  "%d", err);
    ck_assert(!has_passed(begun, 10000));
    ck_assert_int_eq(get(owner, "k"), MC_OK);
    mc_client_close(reader);
    mc_client_close(owner);
    stop();
}
END_TEST

#define SLICES 512

/* All slices of an object go at once after connections were idle. */
START_TEST(what_was_idle_moves_hundreds_of_slices_at_once)
{
    static uint8_t large[SLICES * 128];
    static uint8_t back[SLICES * 128];
    struct mc_span spans[SLICES];
    const struct mc_spans list = {spans, SLICES};
    uint64_t idle_ms = getenv("MC_SOAK") ? 65000 : 1000;
    start(NULL);
    struct mc_client *owner = join_with(MIB);
    struct mc_client_opts opts = settings(MC_NONE);
    opts.transport = "tcp";
    struct mc_client *reader = join(&opts);
    const struct mc_view key = mc_view_str("large");
    int64_t result = 0;
    stamp_fill(large, sizeof large, 23);
    ck_assert_int_eq(put(reader, "k"), MC_OK);
    ck_assert_int_eq(mc_client_put(reader, key, large, sizeof large, NULL),
                     MC_OK);
    for (size_t i = 0; i < SLICES; i++) {
        spans[i] = (struct mc_span){back + i * 128, 128};
    }
    uint64_t begun = mci_clock_ns();
    while (!has_passed(begun, idle_ms)) {
        await_turn();
    }
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffers(reader, &key, &list,
                                                            1, false, &result),
                     MC_OK);
    ck_assert_int_eq(result, sizeof large);
    ck_assert_mem_eq(large, back, sizeof large);
    ck_assert_int_eq(put(reader, "again"), MC_OK);
    mc_client_close(reader);
    mc_client_close(owner);
    stop();
}
END_TEST

/* ---- I: names ------------------------------------------------------------------ */

START_TEST(a_host_name_that_cannot_be_is_refused_and_told)
{
    static const struct {
        const char *text;
        bool is_refused; /* else it opens, or fails as sockets do */
    } rows[] = {{"h:", true},     {"h:99999", true},   {"", true},
                {":", true},      {"h h", true},       {"[::1", true},
                {"h", false},     {"0.0.0.0", false},  {"::1", false},
                {"[::1]", false}, {"127.0.0.1", false}};
    char longest[301];
    memset(longest, 'h', 300);
    longest[300] = '\0';
    start(NULL);
    for (size_t i = 0; i <= sizeof rows / sizeof rows[0]; i++) {
        bool is_last = i == sizeof rows / sizeof rows[0];
        struct mc_client_opts opts = settings(MIB);
        opts.local_hostname = is_last ? longest : rows[i].text;
        struct mc_client *client = NULL;
        enum mc_err err = mc_client_open(&opts, &client);
        bool is_refused = is_last || rows[i].is_refused;
        ck_assert_msg(err == (is_refused ? MC_ERR_INVALID_PARAMS : MC_OK),
                      "\"%s\": %d", opts.local_hostname, err);
        ck_assert((client == NULL) == is_refused);
        if (client) {
            ck_assert_int_eq(put(client, "k"), MC_OK);
        }
        mc_client_close(client);
    }
    stop();
}
END_TEST

/* ---- L: what is gone is said to be gone ---------------------------------------- */

START_TEST(what_was_not_found_does_not_exist)
{
    start(NULL);
    struct mc_client *owner = join_with(MIB);
    struct mc_client *reader = join_with(MC_NONE);
    const struct mc_view key = mc_view_str("k");
    for (int i = 0; i < 50; i++) {
        int64_t result = 77;
        uint64_t size = 0;
        struct mc_probe probe;
        ck_assert_int_eq(put(owner, "k"), MC_OK);
        ck_assert(exists(reader, "k"));
        ck_assert_int_eq(get(reader, "k"), MC_OK);
        ck_assert_int_eq(mc_client_remove(owner, key, true), MC_OK);
        ck_assert_int_eq(get(reader, "k"), MC_ERR_OBJECT_NOT_FOUND);
        ck_assert(!exists(reader, "k"));
        ck_assert_int_eq(mc_client_batch_exist(reader, &key, 1, &result),
                         MC_OK);
        ck_assert_int_eq(result, 0);
        ck_assert_int_eq(mc_client_get_size(reader, key, &size),
                         MC_ERR_OBJECT_NOT_FOUND);
        ck_assert_int_eq(mc_client_probe(reader, key, &probe), MC_OK);
        ck_assert_int_ne(probe.state, MC_OBJECT_READABLE);
    }
    mc_client_close(reader);
    mc_client_close(owner);
    stop();
}
END_TEST

static TCase *known(void)
{
    TCase *tcase = tcase_create("known");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, sixty_four_threads_ask_for_thousands_and_put);
    tcase_add_loop_test(tcase, a_lender_that_leaves_costs_nobody_a_put, 0, 2);
    tcase_add_test(tcase, large_registrations_do_not_silence_a_client);
    tcase_add_loop_test(
        tcase, an_owner_with_an_address_that_leads_nowhere_costs_the_deadline,
        0, 2);
    tcase_add_test(tcase, what_was_idle_moves_hundreds_of_slices_at_once);
    tcase_add_test(tcase, a_host_name_that_cannot_be_is_refused_and_told);
    tcase_add_test(tcase, what_was_not_found_does_not_exist);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("known faults");
    suite_add_tcase(suite, known());
    return suite_run(suite);
}
