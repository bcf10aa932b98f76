/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_input.h"

#include <assert.h>

enum mc_err mci_tcp_input_recv(struct mci_tcp_input *input,
                               struct mci_stream *stream, struct iovec *parts,
                               int count, size_t *own_out, size_t *moved_out)
{
    size_t own = 0;
    size_t moved = 0;
    for (int i = 0; i < count; i++) {
        own += parts[i].iov_len;
    }
    assert(count == 0 || mci_tcp_input_len(input) == 0);
    if (input->from > 0) {
        memmove(input->bytes, input->bytes + input->from,
                mci_tcp_input_len(input));
        input->to -= input->from;
        input->from = 0;
    }
    parts[count].iov_base = input->bytes + input->to;
    parts[count].iov_len = sizeof input->bytes - input->to;
    enum mc_err err = mci_stream_recv(stream, parts, count + 1, &moved);
    if (err) {
        return err;
    }
    if (own > moved) {
        own = moved;
    }
    input->to += (uint32_t)(moved - own);
    *own_out = own;
    *moved_out = moved;
    return MC_OK;
}
