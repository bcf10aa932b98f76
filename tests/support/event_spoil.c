/* SPDX-License-Identifier: Apache-2.0 */
#include "event_spoil.h"

#include <check.h>
#include <msgpack.h>

/* What a field is given in its value's place: bytes, and so many letters. */
struct bad_value {
    const char *bytes;
    size_t len;
    size_t fill;
};
#define BYTES(text)              \
    {                            \
        text, sizeof text - 1, 0 \
    }

struct rule {
    const char *name;
    struct bad_value value;
    enum mc_event_error value_error;
    enum mc_event_error nil_error;
    enum mc_event_error gone_error;
};

#define OK MC_EVENT_OK
#define TYPE MC_EVENT_ERROR_FIELD_TYPE
#define RANGE MC_EVENT_ERROR_FIELD_RANGE
#define MISSING MC_EVENT_ERROR_FIELD_MISSING
#define NO_KEY MC_EVENT_ERROR_OBJECT_KEY_MISSING
#define LONG_KEY MC_EVENT_ERROR_OBJECT_KEY_TOO_LONG
#define LONG_ID MC_EVENT_ERROR_SESSION_ID_TOO_LONG
#define NO_TYPE MC_EVENT_ERROR_EVENT_TYPE_MISSING
#define UNKNOWN MC_EVENT_ERROR_EVENT_TYPE_UNKNOWN
#define CONFLICT MC_EVENT_ERROR_EVENT_TYPE_CONFLICT
#define UTF8 MC_EVENT_ERROR_UTF8
#define NEGATIVE BYTES("\xff")
#define OVER_U32 BYTES("\xcf\0\0\0\1\0\0\0\0")
#define NO_UTF8 BYTES("\xa3xy\xff")
#define A_FLOAT BYTES("\xcb\x3f\xf0\0\0\0\0\0\0")

static const struct rule rules[EVENT_SPOIL_FIELDS] = {
    {"event_id", NEGATIVE, RANGE, TYPE, MISSING},
    {"timestamp", NEGATIVE, RANGE, OK, OK},
    {"event_type", BYTES("\xa6stolen"), UNKNOWN, TYPE, NO_TYPE},
    {"type", BYTES("\xabStoredBlock"), CONFLICT, TYPE, OK},
    {"model_name", NO_UTF8, UTF8, OK, OK},
    {"block_size", OVER_U32, RANGE, OK, OK},
    {"additional_salt", NO_UTF8, UTF8, OK, OK},
    {"lora_name", NO_UTF8, UTF8, OK, OK},
    {"tenant_id", NO_UTF8, UTF8, TYPE, MISSING},
    {"backend_id", BYTES("\xa0"), MISSING, TYPE, MISSING},
    {"medium", NO_UTF8, UTF8, TYPE, MISSING},
    {"dp_rank", OVER_U32, RANGE, OK, OK},
    {"group_id", NO_UTF8, UTF8, OK, OK},
    {"session_id", {"\xda\x01\x01", 3, 257}, LONG_ID, OK, OK},
    {"object_key", {"\xda\x10\x01", 3, 4097}, LONG_KEY, NO_KEY, NO_KEY},
    {"seq_hashes", BYTES("\x91\xff"), RANGE, TYPE, OK},
    {"block_hashes", BYTES("\x91\xc0"), TYPE, TYPE, OK},
    {"base_block_idx", NEGATIVE, RANGE, OK, OK},
    {"parent_hash", A_FLOAT, TYPE, OK, OK},
    {"token_ids", BYTES("\x91\xa1\xff"), UTF8, OK, OK},
    {"parent_block_hash", A_FLOAT, TYPE, OK, OK},
    {"epoch", NEGATIVE, RANGE, OK, OK},
};

const char *event_spoil_field(unsigned field)
{
    return rules[field].name;
}

enum mc_event_error event_spoil_error(unsigned field, enum event_spoil_how how)
{
    switch (how) {
    case EVENT_SPOIL_TYPE:
        return TYPE;
    case EVENT_SPOIL_VALUE:
        return rules[field].value_error;
    case EVENT_SPOIL_NIL:
        return rules[field].nil_error;
    case EVENT_SPOIL_GONE:
        return rules[field].gone_error;
    default:
        return MC_EVENT_ERROR_FIELD_DUPLICATE;
    }
}

/* ---- writing ------------------------------------------------------------ */

static int append(void *ctx, const char *data, size_t len)
{
    return mci_buf_append(ctx, data, len) == MC_OK ? 0 : -1;
}

static void append_bad(struct mci_buf *out, const struct bad_value *value)
{
    ck_assert_int_eq(mci_buf_append(out, value->bytes, value->len), MC_OK);
    for (size_t i = 0; i < value->fill; i++) {
        ck_assert_int_eq(mci_buf_append_byte(out, 'x'), MC_OK);
    }
}

static bool is_field(const msgpack_object_kv *pair, unsigned field)
{
    const msgpack_object_str *name = &pair->key.via.str;
    return strlen(rules[field].name) == name->size &&
           memcmp(rules[field].name, name->ptr, name->size) == 0;
}

static void pack_pair(msgpack_packer *packer, const msgpack_object_kv *pair)
{
    ck_assert_int_eq(msgpack_pack_object(packer, pair->key), 0);
    ck_assert_int_eq(msgpack_pack_object(packer, pair->val), 0);
}

static void pack_spoilt(msgpack_packer *packer, struct mci_buf *out,
                        const msgpack_object_kv *pair, unsigned field,
                        enum event_spoil_how how)
{
    static const struct bad_value other = BYTES("\xc3");
    static const struct bad_value nil = BYTES("\xc0");
    if (how == EVENT_SPOIL_GONE) {
        return;
    }
    if (how == EVENT_SPOIL_TWICE) {
        pack_pair(packer, pair);
        pack_pair(packer, pair);
        return;
    }
    ck_assert_int_eq(msgpack_pack_object(packer, pair->key), 0);
    append_bad(out, how == EVENT_SPOIL_TYPE  ? &other
                    : how == EVENT_SPOIL_NIL ? &nil
                                             : &rules[field].value);
}

static bool pack_event(msgpack_packer *packer, struct mci_buf *out,
                       const msgpack_object_map *event, unsigned field,
                       enum event_spoil_how how)
{
    bool is_there = false;
    for (uint32_t i = 0; i < event->size; i++) {
        is_there |= is_field(&event->ptr[i], field);
    }
    if (!is_there) {
        return false;
    }
    size_t pairs = event->size + (how == EVENT_SPOIL_TWICE) -
                   (size_t)(how == EVENT_SPOIL_GONE);
    ck_assert_int_eq(msgpack_pack_map(packer, pairs), 0);
    for (uint32_t i = 0; i < event->size; i++) {
        if (is_field(&event->ptr[i], field)) {
            pack_spoilt(packer, out, &event->ptr[i], field, how);
        } else {
            pack_pair(packer, &event->ptr[i]);
        }
    }
    return true;
}

bool event_spoil(struct mc_view payload, uint32_t at, unsigned field,
                 enum event_spoil_how how, struct mci_buf *out)
{
    msgpack_unpacked whole;
    msgpack_packer packer;
    bool is_there = true;
    msgpack_unpacked_init(&whole);
    ck_assert_int_eq(
        msgpack_unpack_next(&whole, payload.data, payload.len, NULL),
        MSGPACK_UNPACK_SUCCESS);
    const msgpack_object *parts = whole.data.via.array.ptr;
    const msgpack_object_array *events = &parts[1].via.array;
    mci_buf_clear(out);
    msgpack_packer_init(&packer, out, append);
    msgpack_pack_array(&packer, 3);
    msgpack_pack_object(&packer, parts[0]);
    msgpack_pack_array(&packer, events->size);
    for (uint32_t i = 0; i < events->size && is_there; i++) {
        if (i == at) {
            is_there =
                pack_event(&packer, out, &events->ptr[i].via.map, field, how);
        } else {
            ck_assert_int_eq(msgpack_pack_object(&packer, events->ptr[i]), 0);
        }
    }
    msgpack_pack_object(&packer, parts[2]);
    msgpack_unpacked_destroy(&whole);
    return is_there;
}
