/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_input.h - receives heads and bytes with few calls.
 *
 * Bytes that belong to somebody go straight into his memory; in the same call
 * what follows them goes into a small buffer of the connection, where heads are
 * read from, and the beginning of the next bytes is copied from.
 * Threads: one thread at a time.
 */
#ifndef TCP_INPUT_H
#define TCP_INPUT_H
#include <string.h>

#include "mci_stream.h"
#include "tcp_spans.h"

#define MCI_TCP_INPUT_LEN 8192

struct mci_tcp_input {
    uint32_t from;
    uint32_t to;
    uint8_t bytes[MCI_TCP_INPUT_LEN];
};

static inline size_t mci_tcp_input_len(const struct mci_tcp_input *input)
{
    return input->to - input->from;
}

/* The head of so many bytes at the front, or NULL; take it with _drop. */
static inline const uint8_t *
mci_tcp_input_head(const struct mci_tcp_input *input, size_t len)
{
    return mci_tcp_input_len(input) >= len ? input->bytes + input->from : NULL;
}

static inline void mci_tcp_input_drop(struct mci_tcp_input *input, size_t len)
{
    input->from += (uint32_t)len;
    if (input->from == input->to) {
        input->from = 0;
        input->to = 0;
    }
}

/* Copies to data what is there, at most len; returns how much. */
static inline size_t mci_tcp_input_take(struct mci_tcp_input *input, void *data,
                                        size_t len)
{
    size_t here = mci_tcp_input_len(input);
    if (here > len) {
        here = len;
    }
    if (here > 0) {
        memcpy(data, input->bytes + input->from, here);
        mci_tcp_input_drop(input, here);
    }
    return here;
}

/* Receives into parts, of any number of bytes, and what follows into the buffer,
 * as one call. There must be room for one more part behind the last. With parts,
 * the buffer must be empty. *moved_out: bytes that came in all; *own_out: those
 * of them that went to parts. Errors: those of the stream. */
MC_CHECK_RESULT enum mc_err mci_tcp_input_recv(struct mci_tcp_input *input,
                                               struct mci_stream *stream,
                                               struct iovec *parts, int count,
                                               size_t *own_out,
                                               size_t *moved_out);
#endif
