/* SPDX-License-Identifier: Apache-2.0 */
/* What consumers ask of an event of a store, by its own names: event_type,
 * object_key, medium. Fields that are not there have index 0. */
#include <string.h>
#include <strings.h>

#include "lint_rules.h"
#include "mci_utf8.h"

#define DIGEST_DIGITS 64
#define HASH_DIGITS 16

static uint32_t field(const struct lint_place *at, const char *name)
{
    return lint_tree_find(at->message->tree, at->event, name);
}

static bool is_absent(const struct lint_place *at, uint32_t index)
{
    return index == 0 || lint_value_of(at, index)->kind == MCI_UNPACK_NIL;
}

static bool is_str(const struct lint_place *at, uint32_t index)
{
    return index != 0 && lint_value_of(at, index)->kind == MCI_UNPACK_STR;
}

static bool is_filled(const struct lint_place *at, uint32_t index)
{
    return is_str(at, index) && lint_value_of(at, index)->bytes.len > 0;
}

/* A str or nothing. */
static bool is_text_or_absent(const struct lint_place *at, const char *name,
                              uint32_t *offset_out)
{
    uint32_t index = field(at, name);
    return is_absent(at, index) || is_str(at, index) ||
           lint_broken(at, index, offset_out);
}

static bool has_type(const struct lint_place *at, const char *name)
{
    uint32_t index = field(at, "event_type");
    return index != 0 && lint_is_text(lint_value_of(at, index), name);
}

static bool is_clear(const struct lint_place *at)
{
    return has_type(at, "cleared") || has_type(at, "AllBlocksCleared");
}

/* ---- as Dynamo's router decodes it ------------------------------------- */

static const char *const typed[] = {"event_type", "object_key", "tenant_id",
                                    "group_id"};
#define TYPED (sizeof typed / sizeof typed[0])

bool lint_event_is_map(const struct lint_place *at, uint32_t *offset_out)
{
    return lint_value_of(at, at->event)->kind == MCI_UNPACK_MAP ||
           lint_broken(at, at->event, offset_out);
}

bool lint_event_type_is_str(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "event_type");
    return is_str(at, index) ||
           lint_broken(at, index ? index : at->event, offset_out);
}

bool lint_tenant_is_not_nil(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "tenant_id");
    return index == 0 || is_str(at, index) ||
           lint_broken(at, index, offset_out);
}

/* A bin of ASCII passes for a str there. */
bool lint_key_is_text(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "object_key");
    const struct lint_value *key = lint_value_of(at, index);
    if (index != 0 && key->kind == MCI_UNPACK_BIN) {
        const unsigned char *bytes = key->bytes.data;
        for (size_t i = 0; i < key->bytes.len; i++) {
            if (bytes[i] >= 0x80) {
                return lint_broken(at, index, offset_out);
            }
        }
        return true;
    }
    return is_text_or_absent(at, "object_key", offset_out);
}

bool lint_group_is_text(const struct lint_place *at, uint32_t *offset_out)
{
    return is_text_or_absent(at, "group_id", offset_out);
}

static bool is_utf8(const struct lint_value *value)
{
    return value->kind != MCI_UNPACK_STR ||
           mci_utf8_valid(value->bytes.data, value->bytes.len);
}

bool lint_medium_is_text(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "medium");
    uint32_t twice =
        lint_tree_find_twice(at->message->tree, at->event, "medium");
    if (twice) {
        return lint_broken(at, twice, offset_out);
    }
    return is_text_or_absent(at, "medium", offset_out) &&
           (index == 0 || is_utf8(lint_value_of(at, index)) ||
            lint_broken(at, index, offset_out));
}

bool lint_no_field_twice(const struct lint_place *at, uint32_t *offset_out)
{
    for (size_t i = 0; i < TYPED; i++) {
        uint32_t twice =
            lint_tree_find_twice(at->message->tree, at->event, typed[i]);
        if (twice) {
            return lint_broken(at, twice, offset_out);
        }
    }
    return true;
}

bool lint_fields_are_utf8(const struct lint_place *at, uint32_t *offset_out)
{
    for (size_t i = 0; i < TYPED; i++) {
        uint32_t index = field(at, typed[i]);
        if (index && !is_utf8(lint_value_of(at, index))) {
            return lint_broken(at, index, offset_out);
        }
    }
    return true;
}

bool lint_has_key(const struct lint_place *at, uint32_t *offset_out)
{
    return !is_absent(at, field(at, "object_key")) ||
           lint_broken(at, at->event, offset_out);
}

bool lint_has_key_or_is_clear(const struct lint_place *at, uint32_t *offset_out)
{
    return is_clear(at) || lint_has_key(at, offset_out);
}

bool lint_tenant_is_default(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "tenant_id");
    return index == 0 || lint_is_text(lint_value_of(at, index), "default") ||
           lint_broken(at, index, offset_out);
}

/* ---- keys -------------------------------------------------------------- */

static bool is_hex(const char *text, size_t len)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    for (size_t i = 0; i < len; i++) {
        if (!memchr(digits, text[i], sizeof digits - 1)) {
            return false;
        }
    }
    return true;
}

static bool is_decimal(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
    }
    return len > 0;
}

/* Cuts what stands behind the last '@' off; false without one. */
static bool cut_last(struct mc_view *key, struct mc_view *last_out)
{
    const char *text = key->data;
    const char *sign = key->len ? memrchr(text, '@', key->len) : NULL;
    if (!sign) {
        return false;
    }
    *last_out = mc_view_make(sign + 1, (size_t)(text + key->len - sign - 1));
    key->len = (size_t)(sign - text);
    return true;
}

static struct mc_view key_of(const struct lint_place *at)
{
    uint32_t index = field(at, "object_key");
    return index ? lint_value_of(at, index)->bytes : mc_view_make(NULL, 0);
}

bool lint_key_has_prefix(const struct lint_place *at, uint32_t *offset_out)
{
    struct mc_view key = key_of(at);
    struct mc_view last;
    return is_clear(at) || cut_last(&key, &last) ||
           lint_broken(at, field(at, "object_key"), offset_out);
}

bool lint_key_has_digest(const struct lint_place *at, uint32_t *offset_out)
{
    struct mc_view key = key_of(at);
    struct mc_view last;
    return is_clear(at) || !cut_last(&key, &last) ||
           (last.len == DIGEST_DIGITS && is_hex(last.data, last.len)) ||
           lint_broken(at, field(at, "object_key"), offset_out);
}

bool lint_medium_is_exact(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "medium");
    return is_clear(at) ||
           (index && (lint_is_text(lint_value_of(at, index), "cpu") ||
                      lint_is_text(lint_value_of(at, index), "disk"))) ||
           lint_broken(at, index ? index : at->event, offset_out);
}

bool lint_keyed_type_is_known(const struct lint_place *at, uint32_t *offset_out)
{
    static const char *const known[] = {"stored", "BlockStored", "removed",
                                        "BlockRemoved"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (has_type(at, known[i])) {
            return true;
        }
    }
    return is_clear(at) || lint_broken(at, field(at, "event_type"), offset_out);
}

/* ---- as Conductor takes a stored --------------------------------------- */

bool lint_is_of_store(const struct lint_place *at, uint32_t *offset_out)
{
    return has_type(at, "stored") || has_type(at, "removed") ||
           has_type(at, "cleared") || lint_broken(at, at->event, offset_out);
}

bool lint_group_is_zero(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "group_id");
    return !has_type(at, "stored") || is_absent(at, index) ||
           lint_is_text(lint_value_of(at, index), "") ||
           lint_is_text(lint_value_of(at, index), "0") ||
           lint_broken(at, index, offset_out);
}

static bool stored_has(const struct lint_place *at, const char *name,
                       uint32_t *offset_out)
{
    uint32_t index = field(at, name);
    return !has_type(at, "stored") || is_filled(at, index) ||
           lint_broken(at, index ? index : at->event, offset_out);
}

bool lint_has_names(const struct lint_place *at, uint32_t *offset_out)
{
    return stored_has(at, "tenant_id", offset_out) &&
           stored_has(at, "backend_id", offset_out) &&
           stored_has(at, "object_key", offset_out);
}

bool lint_has_model(const struct lint_place *at, uint32_t *offset_out)
{
    return stored_has(at, "model_name", offset_out);
}

bool lint_has_block_size(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "block_size");
    const struct lint_value *size = lint_value_of(at, index);
    return !has_type(at, "stored") ||
           (index && size->kind == MCI_UNPACK_INTEGER && !size->is_negative &&
            size->number > 0) ||
           lint_broken(at, index ? index : at->event, offset_out);
}

bool lint_medium_is_known(const struct lint_place *at, uint32_t *offset_out)
{
    static const char *const known[] = {"cpu", "cpu_pinned", "disk"};
    uint32_t index = field(at, "medium");
    if (!has_type(at, "stored")) {
        return true;
    }
    for (size_t i = 0; is_str(at, index) && i < 3; i++) {
        struct mc_view medium = lint_value_of(at, index)->bytes;
        if (medium.len == strlen(known[i]) &&
            strncasecmp(medium.data, known[i], medium.len) == 0) {
            return true;
        }
    }
    return lint_broken(at, index ? index : at->event, offset_out);
}

/* An even number of digits, 16 at least, with or without 0x. */
static bool is_hash(struct mc_view text)
{
    const char *digits = text.data;
    if (text.len > 2 && digits[0] == '0' &&
        (digits[1] == 'x' || digits[1] == 'X')) {
        digits += 2;
        text.len -= 2;
    }
    return text.len >= HASH_DIGITS && text.len % 2 == 0 &&
           is_hex(digits, text.len);
}

/* The hash of a page: told apart, or at the end of the key (...@HASH), or before
 * the rank of a short key (model@HASH@RANK). None: there is none. */
static struct mc_view vllm_hash(const struct lint_place *at)
{
    struct mc_view key = key_of(at);
    struct mc_view last;
    uint32_t told = field(at, "connector_block_hash");
    if (is_filled(at, told) && is_hash(lint_value_of(at, told)->bytes)) {
        return lint_value_of(at, told)->bytes;
    }
    if (!cut_last(&key, &last)) {
        return mc_view_make(NULL, 0);
    }
    if (!is_hash(last) && is_decimal(last.data, last.len) &&
        !cut_last(&key, &last)) {
        return mc_view_make(NULL, 0);
    }
    return is_hash(last) ? last : mc_view_make(NULL, 0);
}

bool lint_key_is_vllm(const struct lint_place *at, uint32_t *offset_out)
{
    return !has_type(at, "stored") || vllm_hash(at).data ||
           lint_broken(at, field(at, "object_key"), offset_out);
}

bool lint_key_is_sglang(const struct lint_place *at, uint32_t *offset_out)
{
    struct mc_view key = key_of(at);
    const char *text = key.data;
    if (!has_type(at, "stored")) {
        return true;
    }
    for (size_t i = 0; i + DIGEST_DIGITS <= key.len; i++) {
        size_t end = i + DIGEST_DIGITS;
        if ((i == 0 || text[i - 1] == '_') &&
            (end == key.len || text[end] == '_') &&
            is_hex(text + i, DIGEST_DIGITS)) {
            return true;
        }
    }
    return lint_broken(at, field(at, "object_key"), offset_out);
}

/* The last 16 digits as a number. */
static uint64_t tail_of(struct mc_view hash)
{
    const char *digits = hash.data;
    uint64_t number = 0;
    for (size_t i = hash.len - HASH_DIGITS; i < hash.len; i++) {
        int c = digits[i] | 0x20; /* lower case; digits stay what they are */
        number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return number;
}

bool lint_seq_hashes_agree(const struct lint_place *at, uint32_t *offset_out)
{
    uint32_t index = field(at, "seq_hashes");
    struct mc_view hash = vllm_hash(at);
    if (!has_type(at, "stored") || index == 0 || !hash.data) {
        return true;
    }
    const struct lint_value *list = lint_value_of(at, index);
    bool is_good = list->kind == MCI_UNPACK_ARRAY && list->count <= 1;
    if (is_good && list->count == 1) {
        const struct lint_value *first = lint_value_of(at, index + 1);
        is_good = first->kind == MCI_UNPACK_INTEGER && !first->is_negative &&
                  first->number == tail_of(hash);
    }
    return is_good || lint_broken(at, index, offset_out);
}
