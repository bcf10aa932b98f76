/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_pack.h"

#include "put.h"

/* Appends what was put between begin and end. */
static void append(struct mci_pack *pack, const uint8_t *begin,
                   const uint8_t *end)
{
    if (pack->err == MC_OK) {
        pack->err = mci_buf_append(pack->buf, begin, (size_t)(end - begin));
    }
}

/* Header and body, or neither. */
static void append_body(struct mci_pack *pack, const uint8_t *begin,
                        const uint8_t *end, struct mc_view body)
{
    size_t len;
    if (pack->err != MC_OK) {
        return;
    }
    if (body.len > UINT32_MAX ||
        !mci_add_size((size_t)(end - begin), body.len, &len)) {
        pack->err = MC_ERR_BUFFER_OVERFLOW;
        return;
    }
    pack->err = mci_buf_reserve(pack->buf, len);
    append(pack, begin, end);
    if (pack->err == MC_OK && body.len != 0) {
        pack->err = mci_buf_append(pack->buf, body.data, body.len);
    }
}

void mci_pack_nil(struct mci_pack *pack)
{
    uint8_t bytes[1];
    append(pack, bytes, put_nil(bytes));
}

void mci_pack_bool(struct mci_pack *pack, bool value)
{
    uint8_t bytes[1];
    append(pack, bytes, put_byte(bytes, value ? 0xc3 : 0xc2));
}

void mci_pack_u64(struct mci_pack *pack, uint64_t value)
{
    uint8_t bytes[PUT_NUMBER_MAX];
    append(pack, bytes, put_u64(bytes, value));
}

void mci_pack_i64(struct mci_pack *pack, int64_t value)
{
    uint8_t bytes[PUT_NUMBER_MAX];
    append(pack, bytes, put_i64(bytes, value));
}

void mci_pack_str(struct mci_pack *pack, struct mc_view text)
{
    uint8_t bytes[PUT_HEADER_MAX];
    append_body(pack, bytes, put_str_header(bytes, text.len), text);
}

void mci_pack_str_or_nil(struct mci_pack *pack, struct mc_view text)
{
    if (text.data) {
        mci_pack_str(pack, text);
    } else {
        mci_pack_nil(pack);
    }
}

void mci_pack_bin(struct mci_pack *pack, struct mc_view bytes)
{
    uint8_t header[PUT_HEADER_MAX];
    append_body(pack, header, put_bin_header(header, bytes.len), bytes);
}

void mci_pack_array(struct mci_pack *pack, size_t count)
{
    uint8_t bytes[PUT_HEADER_MAX];
    if (count > UINT32_MAX && pack->err == MC_OK) {
        pack->err = MC_ERR_BUFFER_OVERFLOW;
    }
    append(pack, bytes, put_array_header(bytes, count));
}

void mci_pack_map(struct mci_pack *pack, size_t pairs)
{
    uint8_t bytes[PUT_HEADER_MAX];
    if (pairs > UINT32_MAX && pack->err == MC_OK) {
        pack->err = MC_ERR_BUFFER_OVERFLOW;
    }
    append(pack, bytes, put_map_header(bytes, pairs));
}

void mci_pack_text(struct mci_pack *pack, const char *text)
{
    mci_pack_str(pack, mc_view_str(text));
}
