/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says what the rest is: 0 a request, else an answer to that op.
 * What can be read is written again; that reads back and is written to the same
 * bytes. */
#include <stdlib.h>

#include "../support/control_copy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LEN_MAX (64u << 20)

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static enum mci_unpack_error copy(uint8_t op, struct mc_view body,
                                  struct mci_buf *buf)
{
    struct mci_pack pack;
    mci_pack_init(&pack, buf);
    enum mci_unpack_error error =
        op == 0 ? control_copy_request(body, &pack)
                : control_copy_answer((enum mci_op)op, body, &pack);
    require(error != MCI_UNPACK_OK || mci_pack_done(&pack) == MC_OK);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mci_buf first;
    struct mci_buf second;
    if (size == 0) {
        return 0;
    }
    mci_buf_init(&first, LEN_MAX);
    mci_buf_init(&second, LEN_MAX);
    if (copy(data[0], mc_view_make(data + 1, size - 1), &first) ==
        MCI_UNPACK_OK) {
        struct mc_view body = mc_view_make(first.data + MCI_FRAME_HEAD,
                                           first.len - MCI_FRAME_HEAD);
        require(copy(data[0], body, &second) == MCI_UNPACK_OK);
        require(mc_view_equal(mci_buf_view(&first), mci_buf_view(&second)));
    }
    mci_buf_fini(&first);
    mci_buf_fini(&second);
    return 0;
}
