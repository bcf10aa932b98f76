/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_model.c - long random series of calls beside a plain model of what
 * they should answer, say and leave behind: a handful of keys, every kind of
 * attempt open at once, memory and disk, leases that run out, leases with
 * names on versions old and new, bytes that only leases keep, tags that are kept. There is always room, and the log is always read.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "mci_extent.h"
#include "store_rig.h"
#include "suite.h"

#define KEYS 6
#define OPEN_MAX 8
#define LEASE_MS 10000
#define ASKED_MS 4000
#define TEXT_MAX 4096
#define TAG_MAX 16
#define LEASES 12
#define GHOSTS 256

enum kind { BY_PUT, BY_UPSERT, BY_PROMOTE };
enum fate { IS_OPEN, WAS_COMMITTED, WAS_REFUSED, WAS_DROPPED };

struct attempt {
    struct mci_write_row row;
    char spec[32];
    char tag[TAG_MAX];
    enum kind kind;
    enum fate fate;
    uint32_t key;
    uint64_t of_version; /* promotions */
};

struct object {
    bool is_readable;
    unsigned media;
    char tag[TAG_MAX];
    uint64_t size;
    uint64_t version; /* counted by the model */
    uint64_t lease_ns;
    uint64_t asked_ns;
};

/* A lease with a name; its row says which. */
struct lease {
    struct mci_read_row row; /* lease.number 0: none, or given back */
    uint32_t key;
    uint64_t version;
    uint64_t until_ns;
};

/* Bytes that only leases keep: of a version that was unlinked, or of a copy that
 * went alone. */
struct ghost {
    uint64_t bytes;   /* 0: none */
    uint64_t version; /* 0: a copy */
    uint64_t until_ns;
};

struct model {
    struct rig rig;
    struct lease leases[LEASES];
    struct ghost ghosts[GHOSTS];
    struct object objects[KEYS];
    struct attempt attempts[OPEN_MAX]; /* the last ones, open and ended */
    uint32_t next;
    uint64_t versions;
    uint64_t tags;
    uint64_t random;
    char said[TEXT_MAX]; /* what the store should have said */
};

static const char *const names[KEYS] = {"a", "b", "c", "d", "e", "f"};

/* ---- what is said ---------------------------------------------------------- */

static void say(struct model *model, char sign, const char *medium,
                uint32_t key, char end)
{
    const char *tag = model->objects[key].tag;
    size_t len = strlen(model->said);
    (void)snprintf(model->said + len, TEXT_MAX - len, "%c%s:%s%s%s%c", sign,
                   medium, names[key], tag[0] ? "#" : "", tag, end);
}

/* One group of events: linked by '&', the last one ended by a blank. */
static void say_removed(struct model *model, uint32_t key, unsigned media,
                        bool more)
{
    if (media & MC_MEDIUM_CPU) {
        bool is_last = !(media & MC_MEDIUM_DISK) && !more;
        say(model, '-', "cpu", key, is_last ? ' ' : '&');
    }
    if (media & MC_MEDIUM_DISK) {
        say(model, '-', "disk", key, more ? '&' : ' ');
    }
}

static void expect_said(struct model *model, const char *what)
{
    size_t len = strlen(model->said);
    if (len > 0) {
        model->said[len - 1] = '\0';
    }
    const char *events = rig_events(&model->rig);
    ck_assert_msg(strcmp(events, model->said) == 0, "%s: %s, not %s", what,
                  events, model->said);
    model->said[0] = '\0';
}

/* ---- what leases keep ------------------------------------------------------ */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The last deadline of leases with names on a version; 0: it has none. */
static uint64_t named_until(const struct model *model, uint64_t version)
{
    uint64_t until_ns = 0;
    for (uint32_t i = 0; i < LEASES; i++) {
        const struct lease *lease = &model->leases[i];
        if (lease->row.lease.number != 0 && lease->version == version) {
            until_ns = later(until_ns, lease->until_ns);
        }
    }
    return until_ns;
}

static bool is_kept(const struct model *model, const struct ghost *ghost)
{
    uint64_t until_ns = ghost->until_ns;
    if (ghost->version != 0) {
        until_ns = later(until_ns, named_until(model, ghost->version));
    }
    return ghost->bytes != 0 && until_ns > model->rig.now_ns;
}

static void add_ghost(struct model *model, const struct object *object,
                      uint64_t version)
{
    const uint64_t mask = MCI_EXTENT_GRANULE_DEFAULT - 1;
    uint32_t i = 0;
    while (i < GHOSTS && is_kept(model, &model->ghosts[i])) {
        i++;
    }
    ck_assert_uint_lt(i, GHOSTS);
    model->ghosts[i] = (struct ghost){.bytes = (object->size + mask) & ~mask,
                                      .version = version,
                                      .until_ns = object->lease_ns};
    if (version == 0) {
        model->ghosts[i].until_ns =
            later(object->lease_ns, named_until(model, object->version));
    }
}

/* The object's version is unlinked. */
static void leave_bytes(struct model *model, const struct object *object)
{
    if (object->media & MC_MEDIUM_CPU) {
        add_ghost(model, object, object->version);
    }
}

static uint64_t kept_bytes(struct model *model)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < GHOSTS; i++) {
        struct ghost *ghost = &model->ghosts[i];
        *ghost = is_kept(model, ghost) ? *ghost : (struct ghost){.bytes = 0};
        bytes += ghost->bytes;
    }
    return bytes;
}

/* ---- writing --------------------------------------------------------------- */

static bool has_open(const struct model *model, uint32_t key, enum kind kind)
{
    for (uint32_t i = 0; i < OPEN_MAX; i++) {
        const struct attempt *attempt = &model->attempts[i];
        if (attempt->row.attempt.number != 0 && attempt->fate == IS_OPEN &&
            attempt->key == key && attempt->kind == kind) {
            return true;
        }
    }
    return false;
}

static enum mc_err start_code(const struct model *model, uint32_t key,
                              enum kind kind)
{
    const struct object *object = &model->objects[key];
    if (kind == BY_UPSERT) {
        return MC_OK;
    }
    if (kind == BY_PUT) {
        return object->is_readable || has_open(model, key, BY_PUT)
                   ? MC_ERR_OBJECT_ALREADY_EXISTS
                   : MC_OK;
    }
    if (!object->is_readable) {
        return MC_ERR_OBJECT_NOT_FOUND;
    }
    return object->media & MC_MEDIUM_CPU || has_open(model, key, BY_PROMOTE)
               ? MC_ERR_REPLICA_ALREADY_EXISTS
               : MC_OK;
}

static struct mci_write_row start_row(struct model *model, enum kind kind,
                                      const char *spec, uint64_t size)
{
    if (kind == BY_PUT) {
        return rig_put_start(&model->rig, spec, size);
    }
    if (kind == BY_UPSERT) {
        return rig_upsert_start(&model->rig, spec, size);
    }
    struct mci_write_row row = rig_row(spec, size);
    struct mci_call call = rig_call(&model->rig);
    ck_assert_int_eq(
        mci_master_promote_start(model->rig.master, &call, &row, 1), MC_OK);
    return row;
}

static void do_start(struct model *model)
{
    static const enum kind kinds[] = {BY_PUT, BY_PUT, BY_UPSERT, BY_UPSERT,
                                      BY_PROMOTE};
    enum kind kind = kinds[draw(&model->random, 5)];
    uint32_t key = (uint32_t)draw(&model->random, KEYS);
    struct attempt *attempt = &model->attempts[model->next];
    if (attempt->row.attempt.number != 0 && attempt->fate == IS_OPEN) {
        model->next = (model->next + 1) % OPEN_MAX;
        return; /* the eldest is still open: it is ended first */
    }
    enum mc_err code = start_code(model, key, kind);
    struct attempt fresh = {.kind = kind, .key = key};
    bool is_tagged = kind != BY_PROMOTE && draw(&model->random, 3) != 0;
    if (is_tagged) {
        (void)snprintf(fresh.tag, sizeof fresh.tag, "t%ju",
                       (uintmax_t)++model->tags);
    }
    (void)snprintf(fresh.spec, sizeof fresh.spec, "%s%s%s", names[key],
                   is_tagged ? "#" : "", fresh.tag);
    *attempt = fresh;
    uint64_t size = kind == BY_PROMOTE ? model->objects[key].size
                                       : 1 + draw(&model->random, 1000);
    attempt->of_version = model->objects[key].version;
    attempt->row = start_row(model, kind, attempt->spec, size);
    ck_assert_msg(attempt->row.err == code, "start %d of %s: %d, not %d", kind,
                  attempt->spec, attempt->row.err, code);
    if (code != MC_OK) {
        attempt->row.attempt.number = 0;
        return;
    }
    model->next = (model->next + 1) % OPEN_MAX;
}

static void publish(struct model *model, struct attempt *attempt)
{
    struct object *object = &model->objects[attempt->key];
    struct object fresh = {.is_readable = true,
                           .media = MC_MEDIUM_CPU,
                           .size = attempt->row.size,
                           .version = ++model->versions};
    if (object->is_readable) {
        say_removed(model, attempt->key, object->media, true);
        leave_bytes(model, object);
    }
    bool is_tagged = attempt->tag[0] != '\0';
    memcpy(fresh.tag, is_tagged ? attempt->tag : object->tag, TAG_MAX);
    *object = fresh;
    say(model, '+', "cpu", attempt->key, ' ');
    attempt->fate = WAS_COMMITTED;
}

static enum mc_err end_write(struct model *model, struct attempt *attempt)
{
    if (attempt->fate != IS_OPEN) {
        return attempt->fate == WAS_REFUSED ? MC_ERR_INVALID_VERSION : MC_OK;
    }
    if (attempt->kind == BY_PUT && model->objects[attempt->key].is_readable) {
        attempt->fate = WAS_DROPPED;
        return MC_OK;
    }
    publish(model, attempt);
    return MC_OK;
}

static enum mc_err end_promotion(struct model *model, struct attempt *attempt)
{
    struct object *object = &model->objects[attempt->key];
    if (attempt->fate != IS_OPEN) {
        return attempt->fate == WAS_COMMITTED ? MC_OK : MC_ERR_INVALID_VERSION;
    }
    if (!object->is_readable || object->version != attempt->of_version ||
        object->media != MC_MEDIUM_DISK) {
        attempt->fate = WAS_REFUSED;
        return MC_ERR_INVALID_VERSION;
    }
    attempt->fate = WAS_COMMITTED;
    object->media |= MC_MEDIUM_CPU;
    say(model, '+', "cpu", attempt->key, ' ');
    return MC_OK;
}

static struct attempt *any_attempt(struct model *model)
{
    struct attempt *attempt = &model->attempts[draw(&model->random, OPEN_MAX)];
    return attempt->row.attempt.number != 0 ? attempt : NULL;
}

static void do_end(struct model *model)
{
    struct attempt *attempt = any_attempt(model);
    if (!attempt) {
        return;
    }
    struct mci_call call = rig_call(&model->rig);
    bool promotes = attempt->kind == BY_PROMOTE;
    enum mc_err code =
        promotes ? end_promotion(model, attempt) : end_write(model, attempt);
    enum mc_err err =
        promotes
            ? mci_master_promote_end(model->rig.master, &call, &attempt->row, 1)
            : mci_master_put_end(model->rig.master, &call, &attempt->row, 1);
    ck_assert_int_eq(err, MC_OK);
    ck_assert_msg(attempt->row.err == code, "end of %s: %d, not %d",
                  attempt->spec, attempt->row.err, code);
}

static void do_revoke(struct model *model)
{
    struct attempt *attempt = any_attempt(model);
    if (!attempt) {
        return;
    }
    enum mc_err code =
        attempt->fate == WAS_COMMITTED ? MC_ERR_INVALID_VERSION : MC_OK;
    ck_assert_int_eq(rig_revoke(&model->rig, &attempt->row), code);
    attempt->fate = attempt->fate == IS_OPEN ? WAS_REFUSED : attempt->fate;
}

/* ---- reading --------------------------------------------------------------- */

/* A promotion is no write. */
static enum mc_err absent_code(const struct model *model, uint32_t key)
{
    return has_open(model, key, BY_PUT) || has_open(model, key, BY_UPSERT)
               ? MC_ERR_REPLICA_IS_NOT_READY
               : MC_ERR_OBJECT_NOT_FOUND;
}

static void do_get(struct model *model)
{
    uint32_t key = (uint32_t)draw(&model->random, KEYS);
    struct object *object = &model->objects[key];
    struct mci_read_row row =
        rig_get(&model->rig, names[key], draw(&model->random, 2) == 0);
    if (!object->is_readable) {
        ck_assert_int_eq(row.err, absent_code(model, key));
        return;
    }
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(row.size, object->size);
    ck_assert_uint_eq(row.place_count, (object->media & MC_MEDIUM_CPU) != 0);
    ck_assert_uint_eq(row.media, object->media);
    object->lease_ns = model->rig.now_ns + LEASE_MS * MS;
    object->asked_ns = 0; /* it would end before */
    ck_assert_uint_eq(row.lease_left_ns, LEASE_MS * MS);
    rig_release(&model->rig, &row);
}

static void do_exist(struct model *model)
{
    uint32_t key = (uint32_t)draw(&model->random, KEYS);
    struct object *object = &model->objects[key];
    ck_assert_int_eq(rig_exist(&model->rig, names[key]), object->is_readable);
    object->asked_ns =
        object->is_readable ? model->rig.now_ns + ASKED_MS * MS : 0;
}

/* ---- leases with names ----------------------------------------------------- */

/* A lease of the version that is readable is a use of it. */
static void note_use(struct model *model, struct lease *lease)
{
    uint64_t now_ns = model->rig.now_ns;
    struct object *object = &model->objects[lease->key];
    lease->until_ns = now_ns + LEASE_MS * MS;
    if (object->is_readable && object->version == lease->version) {
        object->asked_ns =
            object->asked_ns > now_ns ? now_ns + ASKED_MS * MS : 0;
    }
}

static void expect_places(const struct model *model, const struct lease *lease)
{
    const struct object *object = &model->objects[lease->key];
    if (object->is_readable && object->version == lease->version) {
        ck_assert_uint_eq(lease->row.size, object->size);
        ck_assert_uint_eq(lease->row.media, object->media);
        ck_assert_uint_eq(lease->row.place_count,
                          (object->media & MC_MEDIUM_CPU) != 0);
    }
}

static void do_lease(struct model *model)
{
    uint32_t key = (uint32_t)draw(&model->random, KEYS);
    const struct object *object = &model->objects[key];
    struct lease *lease = &model->leases[draw(&model->random, LEASES)];
    if (lease->row.lease.number != 0 && lease->until_ns > model->rig.now_ns) {
        return;
    }
    struct lease fresh = {.row = rig_lease(&model->rig, names[key]),
                          .key = key,
                          .version = object->version};
    if (!object->is_readable) {
        ck_assert_int_eq(fresh.row.err, absent_code(model, key));
        ck_assert_uint_eq(fresh.row.lease.number, 0);
        return;
    }
    ck_assert_int_eq(fresh.row.err, MC_OK);
    ck_assert_uint_eq(fresh.row.lease_left_ns, LEASE_MS * MS);
    *lease = fresh;
    note_use(model, lease);
    expect_places(model, lease);
}

/* What a version that is only on disk leaves behind has no bytes to be read. */
static bool may_renew(const struct model *model, const struct lease *lease)
{
    const struct object *object = &model->objects[lease->key];
    bool has_bytes = object->is_readable && object->version == lease->version;
    for (uint32_t i = 0; i < GHOSTS && !has_bytes; i++) {
        has_bytes = model->ghosts[i].bytes != 0 &&
                    model->ghosts[i].version == lease->version;
    }
    return has_bytes && lease->row.lease.number != 0 &&
           lease->until_ns > model->rig.now_ns;
}

static void do_renew(struct model *model)
{
    struct lease *lease = &model->leases[draw(&model->random, LEASES)];
    bool only_holds = draw(&model->random, 3) == 0;
    bool goes_on = may_renew(model, lease);
    enum mc_err err = only_holds ? rig_lease_hold(&model->rig, &lease->row)
                                 : rig_lease_renew(&model->rig, &lease->row);
    ck_assert_msg(err == (goes_on ? MC_OK : MC_ERR_LEASE_EXPIRED),
                  "renewal of a lease on %s: %d", names[lease->key], err);
    if (!goes_on) {
        return;
    }
    if (!only_holds) {
        note_use(model, lease);
    }
    ck_assert_uint_eq(lease->row.lease_left_ns,
                      lease->until_ns - model->rig.now_ns);
    expect_places(model, lease);
    rig_release(&model->rig, &lease->row);
}

static void do_let_go(struct model *model)
{
    struct lease *lease = &model->leases[draw(&model->random, LEASES)];
    rig_lease_release(&model->rig, &lease->row);
}

/* ---- removing -------------------------------------------------------------- */

static uint64_t left_ns(const struct model *model, const struct object *object)
{
    uint64_t now_ns = model->rig.now_ns;
    uint64_t until_ns = later(later(object->lease_ns, object->asked_ns),
                              named_until(model, object->version));
    return until_ns > now_ns ? until_ns - now_ns : 0;
}

static void drop(struct model *model, uint32_t key)
{
    say_removed(model, key, model->objects[key].media, false);
    leave_bytes(model, &model->objects[key]);
    model->objects[key] = (struct object){.is_readable = false};
}

static void do_remove(struct model *model)
{
    uint32_t key = (uint32_t)draw(&model->random, KEYS);
    struct object *object = &model->objects[key];
    bool force = draw(&model->random, 2) == 0;
    int64_t code = 0;
    if (!object->is_readable) {
        code = absent_code(model, key);
    } else if (!force && left_ns(model, object) > 0) {
        code = MC_ERR_OBJECT_HAS_LEASE;
    } else {
        drop(model, key);
    }
    ck_assert_int_eq(rig_remove(&model->rig, names[key], force), code);
}

/* The order of its walk is the store's own, so events are taken key by key. */
static void do_remove_all(struct model *model)
{
    bool force = draw(&model->random, 2) == 0;
    uint32_t left = 0;
    uint64_t removed = rig_remove_all(&model->rig, force);
    const char *events = rig_events(&model->rig);
    size_t len = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        struct object *object = &model->objects[key];
        if (object->is_readable && !force && left_ns(model, object) > 0) {
            left++;
        } else if (object->is_readable) {
            drop(model, key);
            model->said[strlen(model->said) - 1] = '\0';
            ck_assert_msg(strstr(events, model->said), "%s not in %s",
                          model->said, events);
            len += strlen(model->said) + 1;
            model->said[0] = '\0';
            removed--;
        }
    }
    ck_assert_uint_eq(removed, 0);
    ck_assert((strstr(events, "!default") != NULL) == (left == 0));
    len += left == 0 ? sizeof "!default" : 0;
    ck_assert_uint_eq(strlen(events), len > 0 ? len - 1 : 0);
}

/* ---- disk ------------------------------------------------------------------- */

static void do_offload(struct model *model)
{
    uint32_t key = (uint32_t)draw(&model->random, KEYS);
    struct object *object = &model->objects[key];
    if (!object->is_readable) {
        return;
    }
    ck_assert_int_eq(rig_offload(&model->rig, names[key]), MC_OK);
    if (!(object->media & MC_MEDIUM_DISK)) {
        object->media |= MC_MEDIUM_DISK;
        say(model, '+', "disk", key, ' ');
    }
}

static void do_lose(struct model *model)
{
    unsigned medium =
        draw(&model->random, 2) == 0 ? MC_MEDIUM_CPU : MC_MEDIUM_DISK;
    uint32_t key = (uint32_t)draw(&model->random, KEYS);
    struct object *object = &model->objects[key];
    int64_t code = MC_ERR_OBJECT_NOT_FOUND;
    if (object->is_readable) {
        code = object->media & medium ? 0 : MC_ERR_REPLICA_NOT_FOUND;
    }
    int64_t got = medium == MC_MEDIUM_CPU
                      ? rig_clear_replica(&model->rig, names[key])
                      : rig_disk_gone(&model->rig, names[key]);
    ck_assert_msg(got == code, "lose %u of %s: %jd, not %jd", medium,
                  names[key], (intmax_t)got, (intmax_t)code);
    if (code == 0 && object->media == medium) {
        drop(model, key);
    } else if (code == 0) {
        object->media &= ~medium;
        if (medium == MC_MEDIUM_CPU) {
            add_ghost(model, object, 0);
        }
        say(model, '-', mc_medium_name(medium), key, ' ');
    }
}

/* ---- all of it -------------------------------------------------------------- */

static void compare_state(struct model *model)
{
    uint64_t readable = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        const struct object *object = &model->objects[key];
        struct mc_probe probe = rig_probe(&model->rig, names[key]);
        if (!object->is_readable) {
            bool writes =
                absent_code(model, key) == MC_ERR_REPLICA_IS_NOT_READY;
            ck_assert_int_eq(probe.state,
                             writes ? MC_OBJECT_WRITING : MC_OBJECT_ABSENT);
            continue;
        }
        readable++;
        ck_assert_int_eq(probe.state, MC_OBJECT_READABLE);
        ck_assert_uint_eq(probe.media, object->media);
        ck_assert_uint_eq(probe.size, object->size);
        ck_assert(rig_has_tag(&model->rig, names[key], object->tag));
        ck_assert_uint_eq(probe.lease_ms, left_ns(model, object) / MS);
    }
    ck_assert_uint_eq(rig_stats(&model->rig).objects, readable);
    ck_assert(mci_master_check(model->rig.master));
    rig_sweep(&model->rig);
    ck_assert_uint_eq(rig_stats(&model->rig).leased_only_bytes,
                      kept_bytes(model));
    ck_assert(mci_master_check(model->rig.master));
}

static void do_pass(struct model *model)
{
    rig_pass(&model->rig, draw(&model->random, 6000));
    if (draw(&model->random, 2) == 0) {
        rig_sweep(&model->rig);
    }
}

static const struct {
    const char *name;
    void (*run)(struct model *model);
    uint64_t share; /* in a hundred */
} doings[] = {
    {"start", do_start, 28},    {"end", do_end, 16},
    {"revoke", do_revoke, 5},   {"get", do_get, 5},
    {"exist", do_exist, 5},     {"lease", do_lease, 6},
    {"renew", do_renew, 6},     {"let_go", do_let_go, 3},
    {"remove", do_remove, 7},   {"remove_all", do_remove_all, 1},
    {"offload", do_offload, 7}, {"lose", do_lose, 7},
    {"pass", do_pass, 4},
};

static void do_something(struct model *model)
{
    uint64_t dice = draw(&model->random, 100);
    size_t i = 0;
    while (dice >= doings[i].share) {
        dice -= doings[i++].share;
    }
    doings[i].run(model);
    expect_said(model, doings[i].name);
}

START_TEST(the_store_answers_says_and_keeps_what_the_model_does)
{
    struct rig_opts opts = {
        .segment_bytes = 64 * MIB,
        .shards = _i % 2 == 0 ? 1 : 8,
        .store = {.exist_lease_ttl_ms = ASKED_MS,
                  .put_start_release_timeout_ms = UINT64_C(1) << 40}};
    struct model *model = calloc(1, sizeof *model);
    ck_assert_ptr_nonnull(model);
    rig_open(&model->rig, &opts);
    model->random = ((uint64_t)_i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (int turn = 0; turn < 4000; turn++) {
        do_something(model);
        if (turn % 16 == 0) {
            compare_state(model);
        }
    }
    compare_state(model);
    rig_close(&model->rig);
    free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store model");
    TCase *tcase = tcase_create("model");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(
        tcase, the_store_answers_says_and_keeps_what_the_model_does, 0, 16);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
