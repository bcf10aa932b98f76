/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "index_json.h"
#include "mc_index_script.h"
#include "mci_alloc.h"

struct mc_index_script {
    struct mc_index_opts opts;
    struct mc_index *index;
    struct mc_index_reader *reader;
    struct index_json json;
    struct index_fields fields;
    char fault[sizeof((struct index_fields *)0)->fault];
    struct mc_index_place *places; /* as many as answers can have */
    struct mc_index_worker *workers;
    size_t place_cap;
    size_t worker_cap;
};

enum mc_err mc_index_script_create(const struct mc_index_opts *opts,
                                   struct mc_index_script **script_out)
{
    struct mc_index_script *script = mci_calloc(1, sizeof *script);
    if (!script) {
        return MC_ERR_NOMEM;
    }
    if (opts) {
        script->opts = *opts;
    }
    size_t owners = script->opts.max_owners ? script->opts.max_owners : 1024;
    script->place_cap = owners * MC_TIER_COUNT;
    script->worker_cap = owners;
    script->places = mci_alloc(script->place_cap * sizeof *script->places);
    script->workers = mci_alloc(script->worker_cap * sizeof *script->workers);
    index_json_init(&script->json);
    if (!script->places || !script->workers) {
        mc_index_script_destroy(script);
        return MC_ERR_NOMEM;
    }
    *script_out = script;
    return MC_OK;
}

static void drop_index(struct mc_index_script *script)
{
    mc_index_reader_destroy(script->reader);
    mc_index_destroy(script->index);
    script->reader = NULL;
    script->index = NULL;
}

void mc_index_script_destroy(struct mc_index_script *script)
{
    if (!script) {
        return;
    }
    drop_index(script);
    index_json_fini(&script->json);
    mci_free(script->places);
    mci_free(script->workers);
    mci_free(script);
}

struct mc_index *mc_index_script_index(struct mc_index_script *script)
{
    return script->index;
}

const char *mc_index_script_fault(const struct mc_index_script *script)
{
    return script->fault;
}

/* ---- answers ----------------------------------------------------------- */

static void put_name(struct index_json *json, const char *name,
                     struct mc_view text)
{
    index_json_name(json, name);
    index_json_text(json, text);
}

static void put_count(struct index_json *json, const char *name, uint64_t n)
{
    index_json_name(json, name);
    index_json_uint(json, n);
}

static void put_place(struct index_json *json,
                      const struct mc_index_place *place, bool has_prefix)
{
    index_json_raw(json, "{");
    put_name(json, "owner", place->owner);
    put_name(json, "tier", mc_view_str(mc_tier_name(place->tier)));
    put_count(json, "blocks", place->blocks);
    if (has_prefix) {
        put_count(json, "prefix", place->prefix);
    }
    index_json_raw(json, "}");
}

static void put_places(struct index_json *json,
                       const struct mc_index_place *places, size_t count,
                       bool has_prefix)
{
    index_json_raw(json, "[");
    for (size_t i = 0; i < count; i++) {
        index_json_raw(json, i ? ", " : "");
        put_place(json, &places[i], has_prefix);
    }
    index_json_raw(json, "]");
}

static void ask_match(struct mc_index_script *script, struct mc_view tenant)
{
    struct index_json *json = &script->json;
    struct mc_index_match match = {.places = script->places,
                                   .place_capacity = script->place_cap,
                                   .workers = script->workers,
                                   .worker_capacity = script->worker_cap};
    index_fields_hashes(&script->fields, "hashes");
    if (script->fields.err) {
        return;
    }
    mc_index_match(script->reader, tenant, script->fields.hashes,
                   script->fields.hash_count, &match);
    index_json_name(json, "match");
    put_places(json, match.places, match.place_count, false);
    put_count(json, "store", match.store);
    index_json_name(json, "workers");
    index_json_raw(json, "[");
    for (size_t i = 0; i < match.worker_count; i++) {
        index_json_raw(json, i ? ", {" : "{");
        put_name(json, "owner", match.workers[i].owner);
        put_count(json, "own", match.workers[i].own);
        put_count(json, "with_store", match.workers[i].with_store);
        index_json_raw(json, "}");
    }
    index_json_raw(json, "]");
}

/* The heads of a session; NULL without memory. */
static uint64_t *heads_of(struct mc_index_script *script, struct mc_view tenant,
                          struct mc_view session, size_t *count_out)
{
    uint64_t none;
    size_t count = mc_index_heads(script->reader, tenant, session, &none, 0);
    uint64_t *heads = mci_alloc(count * sizeof *heads);
    if (!heads) {
        script->fields.err = MC_ERR_NOMEM;
        return NULL;
    }
    *count_out = mc_index_heads(script->reader, tenant, session, heads, count);
    return heads;
}

static void ask_heads(struct mc_index_script *script, struct mc_view tenant)
{
    struct mc_view session = index_fields_text(&script->fields, "session");
    if (script->fields.err) {
        return;
    }
    size_t count = 0;
    uint64_t *heads = heads_of(script, tenant, session, &count);
    if (heads) {
        index_json_name(&script->json, "heads");
        index_json_hashes(&script->json, heads, count);
    }
    mci_free(heads);
}

static void put_chain(struct mc_index_script *script, struct mc_view tenant,
                      uint64_t head)
{
    uint64_t none;
    size_t len = mc_index_chain(script->reader, tenant, head, &none, 0, NULL);
    uint64_t *chain = mci_alloc(len * sizeof *chain);
    if (!chain) {
        script->fields.err = MC_ERR_NOMEM;
        return;
    }
    len = mc_index_chain(script->reader, tenant, head, chain, len, NULL);
    index_json_hashes(&script->json, chain, len);
    mci_free(chain);
}

static void ask_lineage(struct mc_index_script *script, struct mc_view tenant)
{
    struct mc_view session = index_fields_text(&script->fields, "session");
    if (script->fields.err) {
        return;
    }
    size_t count = 0;
    uint64_t *heads = heads_of(script, tenant, session, &count);
    index_json_name(&script->json, "lineage");
    index_json_raw(&script->json, "[");
    for (size_t i = 0; heads && i < count; i++) {
        index_json_raw(&script->json, i ? ", " : "");
        put_chain(script, tenant, heads[i]);
    }
    index_json_raw(&script->json, "]");
    mci_free(heads);
}

static void ask_resident(struct mc_index_script *script, struct mc_view tenant)
{
    struct mc_view session = index_fields_text(&script->fields, "session");
    uint64_t blocks = 0;
    if (script->fields.err) {
        return;
    }
    size_t count =
        mc_index_resident(script->reader, tenant, session, script->places,
                          script->place_cap, &blocks);
    if (count == SIZE_MAX) {
        script->fields.err = MC_ERR_NOMEM;
        return;
    }
    put_count(&script->json, "blocks", blocks);
    index_json_name(&script->json, "resident");
    put_places(&script->json, script->places, count, true);
}

static int compare_views(const void *a, const void *b)
{
    const struct mc_view *x = a;
    const struct mc_view *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = len ? memcmp(x->data, y->data, len) : 0;
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void ask_sessions_of(struct mc_index_script *script,
                            struct mc_view tenant)
{
    uint64_t hash = index_fields_uint(&script->fields, "hash", UINT64_MAX);
    if (script->fields.err) {
        return;
    }
    size_t count = mc_index_sessions_of(script->reader, tenant, hash, NULL, 0);
    struct mc_view *names = mci_alloc(count * sizeof *names);
    if (!names) {
        script->fields.err = MC_ERR_NOMEM;
        return;
    }
    count = mc_index_sessions_of(script->reader, tenant, hash, names, count);
    qsort(names, count, sizeof *names, compare_views);
    index_json_name(&script->json, "sessions");
    index_json_raw(&script->json, "[");
    for (size_t i = 0; i < count; i++) {
        index_json_raw(&script->json, i ? ", " : "");
        index_json_text(&script->json, names[i]);
    }
    index_json_raw(&script->json, "]");
    mci_free(names);
}

static void ask(struct mc_index_script *script)
{
    static const struct {
        const char *name;
        void (*ask)(struct mc_index_script *script, struct mc_view tenant);
    } rows[] = {{"match", ask_match},
                {"heads", ask_heads},
                {"lineage", ask_lineage},
                {"resident", ask_resident},
                {"sessions_of", ask_sessions_of}};
    struct mc_view name = index_fields_text(&script->fields, "q");
    struct mc_view tenant = index_fields_text(&script->fields, "tenant");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (mc_view_equal(name, mc_view_str(rows[i].name))) {
            index_json_raw(&script->json, "{");
            rows[i].ask(script, tenant);
            index_json_raw(&script->json, "}");
            return;
        }
    }
    script->fields.err = MC_OK; /* better named than by a missing tenant */
    index_fields_fail(&script->fields, "not a question", "q");
}

/* ---- lines ------------------------------------------------------------- */

static void start(struct mc_index_script *script)
{
    struct mc_index *index = NULL;
    struct mc_index_reader *reader = NULL;
    if (index_fields_layout(&script->fields, &script->opts.layout) != MC_OK) {
        return;
    }
    enum mc_err err = mc_index_create(&script->opts, &index);
    if (err == MC_OK) {
        err = mc_index_reader_create(index, &reader);
    }
    if (err != MC_OK) {
        mc_index_destroy(index);
        script->fields.err = err;
        return;
    }
    drop_index(script);
    script->index = index;
    script->reader = reader;
}

static void operate(struct mc_index_script *script)
{
    enum mc_index_result result = MC_INDEX_APPLIED;
    if (index_fields_apply(&script->fields, script->index, &result) != MC_OK) {
        return;
    }
    if (result == MC_INDEX_CONFLICTING_PARENT ||
        result == MC_INDEX_CYCLIC_PARENT) {
        index_json_raw(&script->json, "{");
        put_name(&script->json, "error",
                 mc_view_str(mc_index_result_name(result)));
        index_json_raw(&script->json, "}");
    }
}

static void carry_out(struct mc_index_script *script)
{
    bool is_op = index_fields_has(&script->fields, "op");
    if (!is_op && !index_fields_has(&script->fields, "q")) {
        index_fields_fail(&script->fields, "neither op nor q", NULL);
        return;
    }
    if (is_op && mc_view_equal(index_fields_text(&script->fields, "op"),
                               mc_view_str("layout"))) {
        start(script);
    } else if (!script->index) {
        index_fields_fail(&script->fields, "no layout line before this one",
                          NULL);
    } else if (is_op) {
        operate(script);
    } else {
        ask(script);
    }
}

static bool is_blank(struct mc_view line)
{
    const char *text = line.data;
    size_t at = 0;
    while (at < line.len && strchr(" \t\r\n", text[at]) && text[at]) {
        at++;
    }
    return at == line.len;
}

enum mc_err mc_index_script_line(struct mc_index_script *script,
                                 struct mc_view line,
                                 struct mc_view *answer_out)
{
    script->fault[0] = '\0';
    index_json_begin(&script->json);
    if (is_blank(line)) {
        *answer_out = mc_view_make(NULL, 0);
        return MC_OK;
    }
    if (index_fields_init(&script->fields, line) == MC_OK) {
        carry_out(script);
    }
    enum mc_err err =
        script->fields.err ? script->fields.err : script->json.err;
    memcpy(script->fault, script->fields.fault, sizeof script->fault);
    index_fields_fini(&script->fields);
    if (err == MC_OK) {
        *answer_out = script->json.buf.len ? mci_buf_view(&script->json.buf)
                                           : mc_view_make(NULL, 0);
    }
    return err;
}
