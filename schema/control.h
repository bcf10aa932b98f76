/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - what the families of the control protocol share.
 *
 * Rows are written onto memory reserved once, with the functions of put.h; the
 * commonest values are read without a call. Texts come in two sorts: those that
 * whoever executes the request judges row by row (keys, ids, tenants: any bytes,
 * cut to one beyond their limit so that they stay too long), and names, which
 * the reader judges itself.
 * Threads: as mci_control.h.
 */
#ifndef MC_CONTROL_H
#define MC_CONTROL_H
#include "mci_control.h"
#include "put.h"
#include "token.h"

/* Where to write len bytes; NULL after an error. To be ended with
 * control_wrote, before anything else is written. */
static inline uint8_t *control_room(struct mci_pack *pack, size_t len)
{
    if (pack->err == MC_OK) {
        pack->err = mci_buf_reserve(pack->buf, len);
    }
    return pack->err == MC_OK ? pack->buf->data + pack->buf->len : NULL;
}

static inline void control_wrote(struct mci_pack *pack, const uint8_t *end)
{
    pack->buf->len = (size_t)(end - pack->buf->data);
}

/* What is told of a version that is read: its media, and above them whether it
 * has sums. */
#define CONTROL_HAS_SUMS 0x40U

static inline unsigned control_told(const struct mci_read_row *row)
{
    return row->media | (row->has_sums ? CONTROL_HAS_SUMS : 0);
}

/* The size of the row is known. One that no object has would make the room for
 * its sums wrap. */
static inline void control_take_told(struct mci_unpack *unpack,
                                     struct mci_read_row *row, unsigned told)
{
    if ((told & CONTROL_HAS_SUMS) && row->size > MC_OBJECT_SIZE_MAX) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_RANGE);
    }
    row->media = told & ~CONTROL_HAS_SUMS;
    row->has_sums = (told & CONTROL_HAS_SUMS) != 0;
}

static inline void control_refuse(struct mci_pack *pack)
{
    if (pack->err == MC_OK) {
        pack->err = MC_ERR_INVALID_PARAMS;
    }
}

/* A text as it is sent: at most one byte over its limit. */
static inline struct mc_view control_cut(struct mc_view text, size_t limit)
{
    if (!text.data) {
        return mc_view_make("", 0);
    }
    return mc_view_make(text.data, text.len <= limit ? text.len : limit + 1);
}

/* The forms of nearly all numbers are read here, if nine bytes are left. */
static inline uint64_t control_u64(struct mci_unpack *unpack)
{
    const uint8_t *at = unpack->at;
    if (unpack->error == MCI_UNPACK_OK && unpack->end - at >= PUT_NUMBER_MAX) {
        switch (*at) {
        case 0xcf:
            unpack->at += 9;
            return mci_get_be64(at + 1);
        case 0xce:
            unpack->at += 5;
            return mci_get_be32(at + 1);
        case 0xcd:
            unpack->at += 3;
            return mci_get_be16(at + 1);
        case 0xcc:
            unpack->at += 2;
            return at[1];
        default:
            if (*at < 0x80) {
                unpack->at++;
                return *at;
            }
            break;
        }
    }
    return mci_unpack_u64(unpack, UINT64_MAX);
}

/* The header of an array of exactly so many values, less than 16. */
static inline void control_array(struct mci_unpack *unpack, uint32_t count)
{
    const uint8_t *at = unpack->at;
    if (unpack->error == MCI_UNPACK_OK && unpack->end - at > (int)count &&
        *at == (0x90 | count)) {
        unpack->at++;
        return;
    }
    (void)mci_unpack_array(unpack, count, count);
}

/* Likewise of one count or another one, greater; which it is. */
static inline uint32_t control_fields(struct mci_unpack *unpack, uint32_t count,
                                      uint32_t other)
{
    const uint8_t *at = unpack->at;
    if (unpack->error == MCI_UNPACK_OK && unpack->end - at > (int)count &&
        *at == (0x90 | count)) {
        unpack->at++;
        return count;
    }
    uint32_t fields = mci_unpack_array(unpack, count, other);
    if (fields != count && fields != other) {
        unpack->at = at;
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
    }
    return fields;
}

static inline uint32_t control_u32(struct mci_unpack *unpack)
{
    const uint8_t *at = unpack->at;
    uint64_t value = control_u64(unpack);
    if (value > UINT32_MAX) {
        unpack->at = at;
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_RANGE);
        return 0;
    }
    return (uint32_t)value;
}

/* A str whose bytes the executer judges. */
struct mc_view control_text(struct mci_unpack *unpack, size_t limit);
struct mc_view control_text_or_nil(struct mci_unpack *unpack, size_t limit);

/* A name of 1 to MCI_NAME_LEN_MAX bytes, UTF-8; the second may be nil. */
struct mc_view control_name(struct mci_unpack *unpack);
struct mc_view control_name_or_nil(struct mci_unpack *unpack);

/* Names and texts that are none or empty become nil. A name over its limit is
 * MC_ERR_INVALID_PARAMS. */
void control_name_pack(struct mci_pack *pack, struct mc_view name);
void control_text_pack(struct mci_pack *pack, struct mc_view text,
                       size_t limit);

/* [[segment, offset, deadline_ns, tag]...] */
#define CONTROL_PLACE_MAX (1 + 5 + 3 * PUT_NUMBER_MAX)
#define CONTROL_PLACES_MAX (1 + MCI_REPLICAS_MAX * CONTROL_PLACE_MAX)
struct control_places {
    struct mci_place *places;
    struct mc_grant *grants;
};
uint8_t *control_put_places(uint8_t *at, const struct mci_place *places,
                            const struct mc_grant *grants, uint32_t count);
uint32_t control_read_places(struct mci_unpack *unpack,
                             struct mci_place *places, struct mc_grant *grants);

/* A row that is a code below 0 instead of an array: reads it and says so; else
 * nothing is read. After a fault the code is MC_ERR_INTERNAL_ERROR. */
bool control_took_code(struct mci_unpack *unpack, enum mc_err *code_out);
#endif
