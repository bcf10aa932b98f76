/* SPDX-License-Identifier: Apache-2.0 */
/* Import: "node" and "session" lines put back what an export says of a block
 * and of a session. A line that contradicts what is there is refused whole. */
#include <stdlib.h>
#include <string.h>

#include "index.h"
#include "index_json.h"

#define RESTORE_HELD_MAX 65536u

static bool parse_rank(const char *text, size_t len, uint32_t *rank_out)
{
    uint64_t rank = 0;
    if (len == 0 || len > 10 || (len > 1 && text[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        rank = rank * 10 + (uint64_t)(text[i] - '0');
    }
    *rank_out = (uint32_t)rank;
    return rank <= UINT32_MAX;
}

/* "store:n1" or "w0/0". */
static bool parse_owner(struct mc_view name, struct index_owner_key *key_out)
{
    const char *text = name.data;
    if (name.len >= 6 && memcmp(text, "store:", 6) == 0) {
        *key_out = (struct index_owner_key){
            mc_view_make(text + 6, name.len - 6), 0, true};
        return name.len - 6 <= INDEX_NAME_MAX;
    }
    const char *slash = name.len ? memchr(text, '/', name.len) : NULL;
    if (!slash || memchr(text, ':', name.len)) {
        return false;
    }
    size_t len = (size_t)(slash - text);
    *key_out = (struct index_owner_key){mc_view_make(text, len), 0, false};
    return len <= INDEX_NAME_MAX &&
           parse_rank(slash + 1, name.len - len - 1, &key_out->rank);
}

static bool parse_digest(struct mc_view text, uint64_t *digest_out)
{
    char digits[17] = {0};
    if (text.len != 16) {
        return false;
    }
    memcpy(digits, text.data, 16);
    char *end;
    *digest_out = strtoull(digits, &end, 16);
    return strspn(digits, "0123456789abcdef") == 16;
}

struct held {
    struct index_owner_key owner;
    enum mc_tier tier;
    bool has_parts;
    uint64_t parts[2];
};

static struct held read_held(struct index_fields *fields, size_t i)
{
    struct held held = {0};
    struct index_fields row = index_fields_at(fields, "held", i);
    if (!row.root) {
        return held;
    }
    if (!parse_owner(index_fields_text(&row, "owner"), &held.owner)) {
        index_fields_fail(fields, "not an owner", "owner");
    }
    if (mc_tier_parse(index_fields_text(&row, "tier"), &held.tier) != MC_OK) {
        index_fields_fail(fields, "not a tier", "tier");
    }
    held.has_parts = index_fields_has(&row, "parts");
    if (held.has_parts) {
        index_fields_bits(&row, "parts", held.parts);
    }
    if (row.err) {
        index_fields_fail(fields, row.fault, NULL);
    }
    return held;
}

struct row {
    struct mc_view tenant;
    uint64_t hash;
    uint64_t parent;
    uint64_t digest;
    bool has_parent;
    bool is_root;
    bool has_digest;
    size_t held;
};

static struct row read_row(struct index_fields *fields)
{
    struct row row = {0};
    row.tenant = index_fields_text(fields, "tenant");
    row.hash = index_fields_uint(fields, "hash", UINT64_MAX);
    row.has_parent = index_fields_has(fields, "parent");
    if (row.has_parent) {
        row.parent = index_fields_uint(fields, "parent", UINT64_MAX);
    }
    row.is_root = index_fields_bool(fields, "root");
    struct mc_view digest = index_fields_optional(fields, "digest");
    row.has_digest = digest.data != NULL;
    if (row.has_digest && !parse_digest(digest, &row.digest)) {
        index_fields_fail(fields, "not 16 hex digits", "digest");
    }
    row.held = index_fields_count(fields, "held");
    for (size_t i = 0; i < row.held && fields->err == MC_OK; i++) {
        (void)read_held(fields, i);
    }
    if (row.tenant.len > INDEX_NAME_MAX || row.held > RESTORE_HELD_MAX) {
        index_fields_fail(fields, "too long", "tenant or held");
    }
    if (row.has_parent && row.is_root) {
        index_fields_fail(fields, "a root has no parent", NULL);
    }
    return row;
}

/* ---- putting back ------------------------------------------------------ */

static bool put_held(struct mc_index *ix, uint32_t tenant, uint32_t node,
                     const struct held *held)
{
    uint32_t owner = index_owner_get(ix, &held->owner);
    uint32_t slot = owner ? index_slot_get(ix, tenant, owner) : 0;
    if (!slot) {
        return false;
    }
    uint32_t place = slot * MC_TIER_COUNT + (uint32_t)held->tier;
    if (held->has_parts && ix->opts.layout.parts > 1) {
        return index_parts_put(ix, node, place, held->parts);
    }
    return index_place_add(ix, node, place);
}

/* Whether what the line says of the block's place fits what is known. */
static enum mc_index_result judge(const struct mc_index *ix, uint32_t node,
                                  uint32_t parent, bool is_root)
{
    uint32_t known = index_node_parent(ix, node);
    if (parent && index_node_is_above(ix, node, parent)) {
        return MC_INDEX_CYCLIC_PARENT;
    }
    if ((is_root && known) ||
        (parent && ((known && known != parent) ||
                    (node_where(node_at(ix, node)) & NODE_ROOT)))) {
        return MC_INDEX_CONFLICTING_PARENT;
    }
    return MC_INDEX_APPLIED;
}

static enum mc_index_result link_row(struct mc_index *ix, uint32_t tenant,
                                     uint32_t node, const struct row *row)
{
    uint32_t parent = 0;
    if (row->has_parent) {
        parent = index_node_get(ix, tenant, row->parent);
        if (!parent || !index_run_reserve(ix, 3)) {
            return MC_INDEX_FULL;
        }
        index_node_keep(ix, parent);
    }
    enum mc_index_result result = judge(ix, node, parent, row->is_root);
    if (!result && row->is_root) {
        index_node_flag(ix, node, 0, NODE_ROOT);
    }
    if (!result && parent && !index_node_parent(ix, node)) {
        index_node_keep(ix, node);
        ix->reserved_runs = 2;
        result = index_node_link(ix, parent, node, 0) ? result : MC_INDEX_FULL;
        ix->reserved_runs = 0;
    }
    if (parent) {
        index_node_flag(ix, parent, NODE_FRESH, 0);
        index_node_settle(ix, parent);
    }
    return result;
}

enum mc_index_result index_restore_node(struct mc_index *ix,
                                        struct index_fields *fields)
{
    struct row row = read_row(fields);
    if (fields->err) {
        return MC_INDEX_INVALID;
    }
    uint32_t tenant = index_tenant_get(ix, row.tenant);
    uint32_t node = tenant ? index_node_get(ix, tenant, row.hash) : 0;
    if (!node) {
        return MC_INDEX_FULL;
    }
    index_node_keep(ix, node);
    index_node_flag(ix, node, 0, NODE_PINNED);
    enum mc_index_result result = link_row(ix, tenant, node, &row);
    if (row.has_digest && !index_node_is_stored(ix, node)) {
        node_at(ix, node)->u.digest = row.digest;
    }
    for (size_t i = 0; i < row.held; i++) {
        struct held held = read_held(fields, i);
        if (!put_held(ix, tenant, node, &held) && !result) {
            result = MC_INDEX_FULL;
        }
    }
    index_node_flag(ix, node, NODE_FRESH | NODE_PINNED, 0);
    index_node_settle(ix, node);
    index_step(ix);
    return result;
}

enum mc_index_result index_restore_session(struct mc_index *ix,
                                           struct index_fields *fields)
{
    struct mc_view tenant = index_fields_text(fields, "tenant");
    struct mc_view session = index_fields_text(fields, "session");
    index_fields_hashes(fields, "heads");
    if (fields->err == MC_OK &&
        (session.len == 0 || session.len > INDEX_NAME_MAX ||
         tenant.len > INDEX_NAME_MAX)) {
        index_fields_fail(fields, "empty or too long", "session or tenant");
    }
    if (fields->err) {
        return MC_INDEX_INVALID;
    }
    enum mc_index_result result = MC_INDEX_APPLIED;
    uint32_t t = index_tenant_get(ix, tenant);
    for (size_t i = 0; i < fields->hash_count; i++) {
        uint32_t node = t ? index_node_get(ix, t, fields->hashes[i]) : 0;
        enum mc_index_result one =
            node ? index_session_advance(ix, t, session, node) : MC_INDEX_FULL;
        result = result ? result : one;
        if (node) {
            index_node_flag(ix, node, NODE_FRESH, 0);
            index_node_settle(ix, node);
        }
    }
    index_step(ix);
    return result;
}
