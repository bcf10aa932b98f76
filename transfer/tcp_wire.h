/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_wire.h - heads of requests and answers of bytes over tcp, as bytes.
 *
 * A request is a head of fixed size, followed by the bytes of a write; an answer
 * is a head, followed by the bytes of a read that went well. Answers come in the
 * order of the requests. All integers are little endian; docs/protocol.md has
 * the table.
 * Threads: plain values. Pure.
 */
#ifndef TCP_WIRE_H
#define TCP_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_grant.h"

#define MCI_TCP_REQUEST_MAGIC UINT32_C(0x51524B4D) /* "MKRQ" */
#define MCI_TCP_ANSWER_MAGIC UINT32_C(0x4E414B4D)  /* "MKAN" */
#define MCI_TCP_VERSION 1
#define MCI_TCP_REQUEST_LEN 88
#define MCI_TCP_ANSWER_LEN 40
#define MCI_TCP_PIECE_MAX (UINT64_C(64) << 20) /* bytes of one request */

enum mci_tcp_op {
    MCI_TCP_READ = 1,
    MCI_TCP_WRITE = 2,
    MCI_TCP_SEAL = 3, /* closes the attempt for good, for a receipt */
    MCI_TCP_PROBE = 4 /* is this registration there? */
};

struct mci_tcp_request {
    enum mci_tcp_op op;
    bool is_final;   /* of a write: as seal, once its bytes have landed */
    uint64_t number; /* rises by one in a connection, from 1 */
    struct mc_grant_terms terms;
    struct mc_grant grant;
    uint64_t offset; /* in the registration */
    uint64_t len;
};

struct mci_tcp_answer {
    enum mci_tcp_op op; /* of the request */
    uint64_t number;    /* of the request; 0: the connection is refused */
    enum mc_err code;
    uint64_t len;     /* bytes that follow (read) or landed (write) */
    uint64_t receipt; /* 0: none */
};

void mci_tcp_request_write(const struct mci_tcp_request *request,
                           uint8_t head_out[MCI_TCP_REQUEST_LEN]);
/* Errors: MC_ERR_NOT_SUPPORTED (another version), MC_ERR_INVALID_PARAMS (no
 * head of a request, or one that makes no sense); nothing that follows on the
 * connection can be read then. */
MC_CHECK_RESULT enum mc_err
mci_tcp_request_read(const uint8_t head[MCI_TCP_REQUEST_LEN],
                     struct mci_tcp_request *request_out);

void mci_tcp_answer_write(const struct mci_tcp_answer *answer,
                          uint8_t head_out[MCI_TCP_ANSWER_LEN]);
/* Errors: as above. */
MC_CHECK_RESULT enum mc_err
mci_tcp_answer_read(const uint8_t head[MCI_TCP_ANSWER_LEN],
                    struct mci_tcp_answer *answer_out);

/* Whether this can be the answer to that request: the rest of the stream makes
 * sense only if it is. */
bool mci_tcp_answer_fits(const struct mci_tcp_answer *answer,
                         const struct mci_tcp_request *request);
#endif
