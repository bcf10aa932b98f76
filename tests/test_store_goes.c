/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_goes.c - long random series of writes and reads while segments and
 * their owners go at any moment and are emptied a slice at a time, beside a plain
 * model: a key is there if a copy of its version is in a segment that lives, or on
 * disk. Answers are the model's at once; events of a key alternate, say `stored`
 * of whatever is there, and amount to the model once all that is gone is emptied.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "store_rig.h"
#include "suite.h"

#define KEYS 12
#define OPEN_MAX 6
#define LIVING 3
#define GOING_MAX 8
#define TAG_MAX 16
#define TURNS 6000

struct segment {
    uint32_t id; /* 0: none */
    uint32_t client;
    bool is_expired; /* its owner too */
};

struct version {
    uint32_t segments[MCI_REPLICAS_MAX]; /* 0: none */
    bool is_on_disk;
    char tag[TAG_MAX];
};

struct attempt {
    struct mci_write_row row; /* attempt.number 0: none */
    uint32_t key;
    bool is_put;
    char spec[32];
    char tag[TAG_MAX];
};

struct model {
    struct rig rig;
    struct segment living[LIVING];
    struct segment going[GOING_MAX];
    struct version versions[KEYS];
    struct attempt attempts[OPEN_MAX];
    bool is_said[KEYS]; /* what events amount to */
    char said_tag[KEYS][TAG_MAX];
    uint64_t tags;
    uint64_t random;
    uint64_t marks;
    uint64_t found_gone; /* calls that met a key between mark and slice */
};

static const char *name_of(uint32_t key)
{
    static char names[KEYS][4];
    (void)snprintf(names[key], sizeof names[key], "k%u", (unsigned)key);
    return names[key];
}

static bool lives(const struct model *model, uint32_t segment)
{
    for (int i = 0; i < LIVING; i++) {
        if (segment != 0 && model->living[i].id == segment) {
            return true;
        }
    }
    return false;
}

static bool is_there(const struct model *model, uint32_t key)
{
    const struct version *version = &model->versions[key];
    bool is_there = version->is_on_disk;
    for (int i = 0; i < MCI_REPLICAS_MAX; i++) {
        is_there |= lives(model, version->segments[i]);
    }
    return is_there;
}

static bool is_open(const struct model *model, uint32_t key, bool only_puts)
{
    for (int i = 0; i < OPEN_MAX; i++) {
        const struct attempt *attempt = &model->attempts[i];
        if (attempt->row.attempt.number != 0 && attempt->key == key &&
            (attempt->is_put || !only_puts)) {
            return true;
        }
    }
    return false;
}

static enum mc_err absent_code(const struct model *model, uint32_t key)
{
    return is_open(model, key, false) ? MC_ERR_REPLICA_IS_NOT_READY
                                      : MC_ERR_OBJECT_NOT_FOUND;
}

/* A key for a call to be about; counts those that are gone and not taken out. */
static uint32_t pick(struct model *model)
{
    uint32_t key = (uint32_t)draw(&model->random, KEYS);
    model->found_gone += model->is_said[key] && !is_there(model, key);
    return key;
}

/* ---- events ------------------------------------------------------------- */

/* "+cpu:k3#t1": of memory; of disk nothing is kept here but the model's word. */
static void hear_one(struct model *model, const char *text, size_t len)
{
    char medium[8];
    char tag[TAG_MAX] = "";
    unsigned key = KEYS;
    char line[64];
    ck_assert_uint_lt(len, sizeof line);
    memcpy(line, text, len);
    line[len] = '\0';
    int count = sscanf(line + 1, "%7[a-z]:k%u#%15s", medium, &key, tag);
    ck_assert_msg(count >= 2 && key < KEYS, "%s", line);
    if (strcmp(medium, "cpu") != 0) {
        return;
    }
    bool is_stored = line[0] == '+';
    ck_assert_msg(model->is_said[key] != is_stored, "%s twice", line);
    ck_assert_msg(is_stored || strcmp(model->said_tag[key], tag) == 0,
                  "%s, of another version", line);
    model->is_said[key] = is_stored;
    memcpy(model->said_tag[key], tag, TAG_MAX);
}

static void hear(struct model *model)
{
    const char *text = rig_events(&model->rig);
    while (*text) {
        size_t len = strcspn(text, " &");
        hear_one(model, text, len);
        text += len + (text[len] != '\0');
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        const struct version *version = &model->versions[key];
        if (is_there(model, key) && !version->is_on_disk) {
            ck_assert(model->is_said[key]);
            ck_assert_str_eq(model->said_tag[key], version->tag);
        }
    }
}

/* ---- writing ------------------------------------------------------------ */

static void do_start(struct model *model)
{
    const struct mc_replicate_config two = {.replica_num = 2};
    struct attempt *attempt = &model->attempts[draw(&model->random, OPEN_MAX)];
    uint32_t key = pick(model);
    if (attempt->row.attempt.number != 0) {
        return;
    }
    struct attempt fresh = {.key = key, .is_put = draw(&model->random, 2) == 0};
    bool is_tagged = draw(&model->random, 3) != 0;
    if (is_tagged) {
        (void)snprintf(fresh.tag, sizeof fresh.tag, "t%ju",
                       (uintmax_t)++model->tags);
    }
    (void)snprintf(fresh.spec, sizeof fresh.spec, "%s%s%s", name_of(key),
                   is_tagged ? "#" : "", fresh.tag);
    *attempt = fresh;
    bool is_refused =
        fresh.is_put && (is_there(model, key) || is_open(model, key, true));
    model->rig.config = draw(&model->random, 3) == 0 ? &two : NULL;
    attempt->row = fresh.is_put
                       ? rig_put_start(&model->rig, attempt->spec, 100)
                       : rig_upsert_start(&model->rig, attempt->spec, 100);
    ck_assert_msg(attempt->row.err ==
                      (is_refused ? MC_ERR_OBJECT_ALREADY_EXISTS : MC_OK),
                  "start of %s: %d", attempt->spec, attempt->row.err);
    if (is_refused) {
        attempt->row.attempt.number = 0;
    }
}

static void publish(struct model *model, const struct attempt *attempt)
{
    struct version *version = &model->versions[attempt->key];
    bool keeps_tag = attempt->tag[0] == '\0' && is_there(model, attempt->key);
    struct version fresh = {.is_on_disk = false};
    for (uint32_t i = 0; i < attempt->row.place_count; i++) {
        fresh.segments[i] = attempt->row.places[i].segment;
    }
    memcpy(fresh.tag, keeps_tag ? version->tag : attempt->tag, TAG_MAX);
    *version = fresh;
}

static void do_end(struct model *model)
{
    struct attempt *attempt = &model->attempts[draw(&model->random, OPEN_MAX)];
    if (attempt->row.attempt.number == 0) {
        return;
    }
    bool is_left = false;
    for (uint32_t i = 0; i < attempt->row.place_count; i++) {
        is_left |= lives(model, attempt->row.places[i].segment);
    }
    bool is_dropped = attempt->is_put && is_there(model, attempt->key);
    enum mc_err code = is_left || is_dropped ? MC_OK : MC_ERR_INVALID_VERSION;
    if (draw(&model->random, 8) == 0) {
        ck_assert_int_eq(rig_revoke(&model->rig, &attempt->row), MC_OK);
    } else {
        model->found_gone +=
            model->is_said[attempt->key] && !is_there(model, attempt->key);
        ck_assert_msg(rig_end(&model->rig, &attempt->row) == code,
                      "end of %s: %d", attempt->spec, attempt->row.err);
        if (is_left && !is_dropped) {
            publish(model, attempt);
        }
    }
    attempt->row.attempt.number = 0;
}

static void do_remove(struct model *model)
{
    uint32_t key = pick(model);
    bool was_there = is_there(model, key);
    bool is_in_log = model->is_said[key];
    ck_assert_int_eq(rig_remove(&model->rig, name_of(key), true),
                     was_there ? 0 : absent_code(model, key));
    model->versions[key] = (struct version){.is_on_disk = false};
    hear(model);
    ck_assert(!model->is_said[key] || !is_in_log);
}

static void do_remove_all(struct model *model)
{
    uint64_t there = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        there += is_there(model, key);
        model->versions[key] = (struct version){.is_on_disk = false};
    }
    ck_assert_uint_eq(rig_remove_all(&model->rig, true), there);
    const char *text = rig_events(&model->rig);
    while (strncmp(text, "!default", 8) != 0) {
        size_t len = strcspn(text, " &");
        hear_one(model, text, len);
        text += len + (text[len] != '\0');
        ck_assert(*text);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        ck_assert(!model->is_said[key]);
    }
}

static void do_offload(struct model *model)
{
    uint32_t key = pick(model);
    bool was_there = is_there(model, key);
    if (draw(&model->random, 2) == 0) {
        ck_assert_int_eq(rig_offload(&model->rig, name_of(key)),
                         was_there ? MC_OK : MC_ERR_OBJECT_NOT_FOUND);
        model->versions[key].is_on_disk = was_there;
        return;
    }
    int64_t code =
        was_there ? MC_ERR_REPLICA_NOT_FOUND : MC_ERR_OBJECT_NOT_FOUND;
    code = model->versions[key].is_on_disk ? 0 : code;
    ck_assert_int_eq(rig_disk_gone(&model->rig, name_of(key)), code);
    model->versions[key].is_on_disk = false;
}

/* ---- reading ------------------------------------------------------------ */

static void do_read(struct model *model)
{
    uint32_t key = pick(model);
    enum mc_err code = is_there(model, key) ? MC_OK : absent_code(model, key);
    if (draw(&model->random, 2) == 0) {
        ck_assert_int_eq(rig_exist(&model->rig, name_of(key)), code == MC_OK);
        return;
    }
    struct mci_read_row row = draw(&model->random, 2) == 0
                                  ? rig_lease(&model->rig, name_of(key))
                                  : rig_get(&model->rig, name_of(key), true);
    ck_assert_int_eq(row.err, code);
    rig_release(&model->rig, &row);
}

/* ---- going -------------------------------------------------------------- */

static void lend(struct model *model, struct segment *segment)
{
    *segment = (struct segment){.id = 0};
    segment->client = rig_add_client(&model->rig, 256 * KIB, &segment->id);
}

static void do_mark(struct model *model)
{
    struct segment *segment = &model->living[draw(&model->random, LIVING)];
    for (int i = 0; i < GOING_MAX; i++) {
        struct segment *going = &model->going[i];
        if (going->id != 0) {
            continue;
        }
        *going = *segment;
        going->is_expired = draw(&model->random, 2) == 0;
        if (going->is_expired) {
            mci_master_client_expire(model->rig.master, going->client);
        } else {
            mci_master_segment_close(model->rig.master, going->id);
        }
        lend(model, segment);
        model->marks++;
        return;
    }
}

/* One slice; true if it was the last one. */
static bool step(struct model *model, struct segment *going)
{
    bool done = false;
    uint64_t now_ns = model->rig.now_ns;
    enum mc_err err =
        going->is_expired
            ? mci_master_client_step(model->rig.master, going->client, now_ns,
                                     0, &done)
            : mci_master_segment_step(model->rig.master, going->id, now_ns, 0,
                                      &done);
    ck_assert_int_eq(err, MC_OK);
    if (done && going->is_expired) {
        mci_master_client_fenced(model->rig.master, going->client);
    }
    return done;
}

static void do_step(struct model *model)
{
    struct segment *going = &model->going[draw(&model->random, GOING_MAX)];
    if (going->id != 0 && step(model, going)) {
        going->id = 0;
    }
}

static void do_pass(struct model *model)
{
    rig_pass_and_sweep(&model->rig, draw(&model->random, 20000));
}

/* ---- all of it ---------------------------------------------------------- */

static void settle(struct model *model)
{
    for (int i = 0; i < GOING_MAX; i++) {
        while (model->going[i].id != 0 && !step(model, &model->going[i])) {
        }
        model->going[i].id = 0;
    }
    hear(model);
    uint64_t there = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        struct version *version = &model->versions[key];
        there += is_there(model, key);
        ck_assert(version->is_on_disk ||
                  model->is_said[key] == is_there(model, key));
        if (is_there(model, key)) {
            ck_assert(rig_has_tag(&model->rig, name_of(key), version->tag));
        }
    }
    ck_assert_uint_eq(rig_stats(&model->rig).objects, there);
}

static const struct {
    void (*run)(struct model *model);
    uint64_t share; /* in a hundred */
} doings[] = {{do_start, 30}, {do_end, 24},    {do_read, 20},
              {do_remove, 6}, {do_offload, 8}, {do_remove_all, 1},
              {do_mark, 5},   {do_step, 4},    {do_pass, 2}};

static void do_something(struct model *model)
{
    uint64_t dice = draw(&model->random, 100);
    size_t i = 0;
    while (dice >= doings[i].share) {
        dice -= doings[i++].share;
    }
    doings[i].run(model);
    hear(model);
}

START_TEST(what_is_there_is_what_a_living_segment_has)
{
    const struct rig_opts opts = {
        .segment_bytes = MC_NONE,
        .shards = _i % 2 == 0 ? 1 : 8,
        .store = {.put_start_release_timeout_ms = UINT64_C(1) << 40}};
    struct model *model = calloc(1, sizeof *model);
    ck_assert_ptr_nonnull(model);
    rig_open(&model->rig, &opts);
    model->random = ((uint64_t)_i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < LIVING; i++) {
        lend(model, &model->living[i]);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        do_something(model);
        if (turn % 64 == 0) {
            ck_assert(mci_master_check(model->rig.master));
        }
        if (turn % 512 == 0) {
            settle(model);
        }
    }
    settle(model);
    ck_assert_uint_gt(model->marks, 100);
    ck_assert_uint_gt(model->found_gone, 200);
    rig_close(&model->rig);
    free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store goes");
    TCase *tcase = tcase_create("goes");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, what_is_there_is_what_a_living_segment_has, 0,
                        8);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
