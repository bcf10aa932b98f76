/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a value by what it is and writes it again; where the input was in
 * smallest forms already the bytes are the same, and what was written always
 * reads back to the same bytes. A skip must come to the same end. */
#include <stdlib.h>

#include "mci_pack.h"
#include "mci_unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEPTH 16
#define LEN_MAX (64u << 20)

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void copy_value(struct mci_unpack *unpack, struct mci_pack *pack,
                       unsigned depth);

static void copy_elements(struct mci_unpack *unpack, struct mci_pack *pack,
                          uint64_t count, unsigned depth)
{
    for (uint64_t i = 0; i < count && unpack->error == MCI_UNPACK_OK; i++) {
        copy_value(unpack, pack, depth - 1);
    }
}

static void copy_container(struct mci_unpack *unpack, struct mci_pack *pack,
                           bool is_map, unsigned depth)
{
    uint32_t count;
    if (depth == 0) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_DEPTH);
        return;
    }
    if (is_map) {
        count = mci_unpack_map(unpack, 0, UINT32_MAX);
        mci_pack_map(pack, count);
        copy_elements(unpack, pack, 2 * (uint64_t)count, depth);
    } else {
        count = mci_unpack_array(unpack, 0, UINT32_MAX);
        mci_pack_array(pack, count);
        copy_elements(unpack, pack, count, depth);
    }
}

static void copy_integer(struct mci_unpack *unpack, struct mci_pack *pack)
{
    struct mci_unpack ahead = *unpack;
    int64_t negative = mci_unpack_i64(&ahead, INT64_MIN, -1);
    if (ahead.error == MCI_UNPACK_OK) {
        *unpack = ahead;
        mci_pack_i64(pack, negative);
    } else {
        mci_pack_u64(pack, mci_unpack_u64(unpack, UINT64_MAX));
    }
}

static void copy_value(struct mci_unpack *unpack, struct mci_pack *pack,
                       unsigned depth)
{
    switch (mci_unpack_peek(unpack)) {
    case MCI_UNPACK_BOOL:
        mci_pack_bool(pack, mci_unpack_bool(unpack));
        break;
    case MCI_UNPACK_INTEGER:
        copy_integer(unpack, pack);
        break;
    case MCI_UNPACK_STR:
        mci_pack_str(pack, mci_unpack_str(unpack, SIZE_MAX));
        break;
    case MCI_UNPACK_BIN:
        mci_pack_bin(pack, mci_unpack_bin(unpack, 0, SIZE_MAX));
        break;
    case MCI_UNPACK_ARRAY:
        copy_container(unpack, pack, false, depth);
        break;
    case MCI_UNPACK_MAP:
        copy_container(unpack, pack, true, depth);
        break;
    case MCI_UNPACK_FLOAT:
        (void)mci_unpack_float(unpack);
        mci_pack_nil(pack);
        break;
    case MCI_UNPACK_EXT:
        mci_unpack_skip(unpack, 0);
        mci_pack_nil(pack);
        break;
    default:
        mci_unpack_nil(unpack);
        mci_pack_nil(pack);
        break;
    }
}

/* Copies a whole message; its fault. */
static enum mci_unpack_error copy_message(struct mc_view input,
                                          struct mci_buf *buf)
{
    struct mci_unpack unpack;
    struct mci_pack pack;
    mci_unpack_init(&unpack, input);
    mci_pack_init(&pack, buf);
    copy_value(&unpack, &pack, DEPTH);
    require(unpack.error != MCI_UNPACK_OK || mci_pack_done(&pack) == MC_OK);
    require(unpack.at >= unpack.base && unpack.at <= unpack.end);
    require(unpack.error_offset <= input.len);
    return mci_unpack_done(&unpack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mci_buf first;
    struct mci_buf second;
    struct mci_unpack skipped;
    mci_buf_init(&first, LEN_MAX);
    mci_buf_init(&second, LEN_MAX);
    enum mci_unpack_error error =
        copy_message(mc_view_make(data, size), &first);
    mci_unpack_init(&skipped, mc_view_make(data, size));
    mci_unpack_skip(&skipped, DEPTH);
    require(mci_unpack_done(&skipped) == error);
    if (error == MCI_UNPACK_OK) {
        require(first.len <= size);
        require(copy_message(mci_buf_view(&first), &second) == MCI_UNPACK_OK);
        require(mc_view_equal(mci_buf_view(&first), mci_buf_view(&second)));
    }
    mci_buf_fini(&first);
    mci_buf_fini(&second);
    return 0;
}
