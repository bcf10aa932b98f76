/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as lines. All fields of a line are read before it changes
 * anything. */
#include <string.h>

#include "index.h"
#include "index_json.h"

typedef enum mc_index_result (*apply_fn)(struct mc_index *index,
                                         struct index_fields *fields);

static enum mc_index_result apply_stored(struct mc_index *index,
                                         struct index_fields *fields)
{
    struct mc_view tenant = index_fields_text(fields, "tenant");
    struct mc_view backend = index_fields_text(fields, "backend");
    struct mc_view key = index_fields_text(fields, "key");
    struct mc_view medium = index_fields_text(fields, "medium");
    struct mc_view session = index_fields_optional(fields, "session");
    return fields->err
               ? MC_INDEX_INVALID
               : mc_index_stored(index, tenant, backend, key, medium, session);
}

static enum mc_index_result apply_removed(struct mc_index *index,
                                          struct index_fields *fields)
{
    struct mc_view tenant = index_fields_text(fields, "tenant");
    struct mc_view backend = index_fields_text(fields, "backend");
    struct mc_view key = index_fields_text(fields, "key");
    struct mc_view medium = index_fields_text(fields, "medium");
    return fields->err ? MC_INDEX_INVALID
                       : mc_index_removed(index, tenant, backend, key, medium);
}

static enum mc_index_result apply_cleared(struct mc_index *index,
                                          struct index_fields *fields)
{
    struct mc_view tenant = index_fields_text(fields, "tenant");
    struct mc_view backend = index_fields_text(fields, "backend");
    if (fields->err == MC_OK) {
        mc_index_cleared(index, tenant, backend);
    }
    return MC_INDEX_APPLIED;
}

static enum mc_index_result apply_source_lost(struct mc_index *index,
                                              struct index_fields *fields)
{
    struct mc_view backend = index_fields_text(fields, "backend");
    if (fields->err == MC_OK) {
        mc_index_source_lost(index, backend);
    }
    return MC_INDEX_APPLIED;
}

static struct mc_index_engine engine_of(struct index_fields *fields)
{
    struct mc_index_engine engine;
    engine.tenant = index_fields_text(fields, "tenant");
    engine.worker = index_fields_text(fields, "worker");
    engine.dp_rank = (uint32_t)index_fields_uint(fields, "dp_rank", UINT32_MAX);
    return engine;
}

static enum mc_tier tier_of(struct index_fields *fields)
{
    enum mc_tier tier = MC_TIER_DEVICE;
    if (mc_tier_parse(index_fields_text(fields, "tier"), &tier) != MC_OK) {
        index_fields_fail(fields, "not a tier", "tier");
    }
    return tier;
}

static enum mc_index_result apply_engine_stored(struct mc_index *index,
                                                struct index_fields *fields)
{
    struct mc_index_engine engine = engine_of(fields);
    enum mc_tier tier = tier_of(fields);
    bool has_parent = index_fields_has(fields, "parent");
    uint64_t parent =
        has_parent ? index_fields_uint(fields, "parent", UINT64_MAX) : 0;
    struct mc_view session = index_fields_optional(fields, "session");
    index_fields_hashes(fields, "hashes");
    return fields->err ? MC_INDEX_INVALID
                       : mc_index_engine_stored(
                             index, &engine, tier, has_parent ? &parent : NULL,
                             fields->hashes, fields->hash_count, session);
}

static enum mc_index_result apply_engine_held(struct mc_index *index,
                                              struct index_fields *fields)
{
    struct mc_index_engine engine = engine_of(fields);
    enum mc_tier tier = tier_of(fields);
    struct mc_view session = index_fields_optional(fields, "session");
    index_fields_hashes(fields, "hashes");
    return fields->err
               ? MC_INDEX_INVALID
               : mc_index_engine_held(index, &engine, tier, fields->hashes,
                                      fields->hash_count, session);
}

static enum mc_index_result apply_engine_removed(struct mc_index *index,
                                                 struct index_fields *fields)
{
    struct mc_index_engine engine = engine_of(fields);
    enum mc_tier tier = tier_of(fields);
    index_fields_hashes(fields, "hashes");
    return fields->err == MC_OK
               ? mc_index_engine_removed(index, &engine, tier, fields->hashes,
                                         fields->hash_count)
               : MC_INDEX_APPLIED;
}

static enum mc_index_result apply_engine_cleared(struct mc_index *index,
                                                 struct index_fields *fields)
{
    struct mc_index_engine engine = engine_of(fields);
    if (fields->err == MC_OK) {
        mc_index_engine_cleared(index, &engine);
    }
    return MC_INDEX_APPLIED;
}

static enum mc_index_result apply_worker_lost(struct mc_index *index,
                                              struct index_fields *fields)
{
    struct mc_view worker = index_fields_text(fields, "worker");
    if (fields->err == MC_OK) {
        mc_index_worker_lost(index, worker);
    }
    return MC_INDEX_APPLIED;
}

static enum mc_index_result apply_observe(struct mc_index *index,
                                          struct index_fields *fields)
{
    struct mc_view tenant = index_fields_text(fields, "tenant");
    struct mc_view session = index_fields_text(fields, "session");
    index_fields_hashes(fields, "hashes");
    return fields->err ? MC_INDEX_INVALID
                       : mc_index_observe(index, tenant, session,
                                          fields->hashes, fields->hash_count);
}

static enum mc_index_result apply_session_end(struct mc_index *index,
                                              struct index_fields *fields)
{
    struct mc_view tenant = index_fields_text(fields, "tenant");
    struct mc_view session = index_fields_text(fields, "session");
    if (fields->err == MC_OK) {
        mc_index_session_end(index, tenant, session);
    }
    return MC_INDEX_APPLIED;
}

enum mc_err index_fields_layout(struct index_fields *fields,
                                struct mc_key_layout *layout_out)
{
    struct mc_view name = index_fields_text(fields, "layout");
    struct mc_view prefix = index_fields_optional(fields, "prefix");
    if (fields->err == MC_OK &&
        mc_key_layout_parse(name, prefix, layout_out) != MC_OK) {
        index_fields_fail(fields, "not a layout", "layout");
    }
    return fields->err;
}

/* An index has its layout from birth; an export's first line must agree. */
static enum mc_index_result apply_layout(struct mc_index *index,
                                         struct index_fields *fields)
{
    struct mc_key_layout layout;
    const struct mc_key_layout *ours = &index->opts.layout;
    if (index_fields_layout(fields, &layout) == MC_OK &&
        (layout.scheme != ours->scheme || layout.parts != ours->parts ||
         layout.prefix_len != ours->prefix_len ||
         memcmp(layout.prefix, ours->prefix, layout.prefix_len) != 0)) {
        index_fields_fail(fields, "another layout than the index has", NULL);
    }
    return MC_INDEX_APPLIED;
}

static apply_fn find(struct mc_view name)
{
    static const struct {
        const char *name;
        apply_fn apply;
    } rows[] = {
        {"stored", apply_stored},
        {"removed", apply_removed},
        {"cleared", apply_cleared},
        {"source_lost", apply_source_lost},
        {"engine_stored", apply_engine_stored},
        {"engine_held", apply_engine_held},
        {"engine_removed", apply_engine_removed},
        {"engine_cleared", apply_engine_cleared},
        {"worker_lost", apply_worker_lost},
        {"observe", apply_observe},
        {"session_end", apply_session_end},
        {"layout", apply_layout},
        {"node", index_restore_node},
        {"session", index_restore_session},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (mc_view_equal(name, mc_view_str(rows[i].name))) {
            return rows[i].apply;
        }
    }
    return NULL;
}

enum mc_err index_fields_apply(struct index_fields *fields,
                               struct mc_index *index,
                               enum mc_index_result *result_out)
{
    apply_fn apply = find(index_fields_text(fields, "op"));
    if (!apply) {
        index_fields_fail(fields, "not an operation", "op");
        return fields->err;
    }
    enum mc_index_result result = apply(index, fields);
    if (fields->err == MC_OK && result_out) {
        *result_out = result;
    }
    return fields->err;
}

enum mc_err mc_index_apply_line(struct mc_index *index, struct mc_view line,
                                enum mc_index_result *result_out)
{
    struct index_fields fields;
    enum mc_err err = index_fields_init(&fields, line);
    if (err == MC_OK) {
        err = index_fields_apply(&fields, index, result_out);
    }
    index_fields_fini(&fields);
    return err;
}
