/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_wire.h"

#include "mci_bytes.h"

/* Of a request. */
#define IS_WRITE 1u /* of the terms */
#define IS_FINAL 2u

enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_OP = 5,
    AT_FLAGS = 6, /* of an answer: 0 */
    AT_ZERO = 7,
    AT_NUMBER = 8,
    AT_REGISTRATION = 16,
    AT_INCARNATION = 24,
    AT_SUBJECT = 32,
    AT_TERMS_OFFSET = 40,
    AT_TERMS_LEN = 48,
    AT_DEADLINE = 56,
    AT_TAG = 64,
    AT_OFFSET = 72,
    AT_LEN = 80,

    AT_CODE = 16,
    AT_ZEROS = 20,
    AT_ANSWER_LEN = 24,
    AT_RECEIPT = 32
};

static void put_start(uint8_t *head, uint32_t magic, enum mci_tcp_op op,
                      unsigned flags)
{
    mci_put_le32(head + AT_MAGIC, magic);
    head[AT_VERSION] = MCI_TCP_VERSION;
    head[AT_OP] = (uint8_t)op;
    head[AT_FLAGS] = (uint8_t)flags;
    head[AT_ZERO] = 0;
}

static enum mc_err check_start(const uint8_t *head, uint32_t magic)
{
    if (mci_get_le32(head + AT_MAGIC) != magic) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (head[AT_VERSION] != MCI_TCP_VERSION) {
        return MC_ERR_NOT_SUPPORTED;
    }
    if (head[AT_OP] < MCI_TCP_READ || head[AT_OP] > MCI_TCP_PROBE ||
        head[AT_ZERO] != 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

void mci_tcp_request_write(const struct mci_tcp_request *request,
                           uint8_t head_out[MCI_TCP_REQUEST_LEN])
{
    const struct mc_grant_terms *terms = &request->terms;
    unsigned flags =
        (terms->is_write ? IS_WRITE : 0u) | (request->is_final ? IS_FINAL : 0u);
    put_start(head_out, MCI_TCP_REQUEST_MAGIC, request->op, flags);
    mci_put_le64(head_out + AT_NUMBER, request->number);
    mci_put_le64(head_out + AT_REGISTRATION, terms->registration);
    mci_put_le64(head_out + AT_INCARNATION, terms->incarnation);
    mci_put_le64(head_out + AT_SUBJECT, terms->subject);
    mci_put_le64(head_out + AT_TERMS_OFFSET, terms->offset);
    mci_put_le64(head_out + AT_TERMS_LEN, terms->len);
    mci_put_le64(head_out + AT_DEADLINE, request->grant.deadline_ns);
    mci_put_le64(head_out + AT_TAG, request->grant.tag);
    mci_put_le64(head_out + AT_OFFSET, request->offset);
    mci_put_le64(head_out + AT_LEN, request->len);
}

/* Direction and flags go with the op, and the range is one. */
static bool makes_sense(const struct mci_tcp_request *request)
{
    bool moves = request->op == MCI_TCP_READ || request->op == MCI_TCP_WRITE;
    bool writes = request->op == MCI_TCP_WRITE || request->op == MCI_TCP_SEAL;
    if (request->terms.is_write != writes ||
        (request->is_final && request->op != MCI_TCP_WRITE)) {
        return false;
    }
    if (!moves) {
        return request->len == 0;
    }
    return request->len <= MCI_TCP_PIECE_MAX &&
           request->offset <= UINT64_MAX - request->len;
}

enum mc_err mci_tcp_request_read(const uint8_t head[MCI_TCP_REQUEST_LEN],
                                 struct mci_tcp_request *request_out)
{
    unsigned flags = head[AT_FLAGS];
    enum mc_err err = check_start(head, MCI_TCP_REQUEST_MAGIC);
    if (err) {
        return err;
    }
    const struct mci_tcp_request request = {
        .op = (enum mci_tcp_op)head[AT_OP],
        .is_final = (flags & IS_FINAL) != 0,
        .number = mci_get_le64(head + AT_NUMBER),
        .terms = {.registration = mci_get_le64(head + AT_REGISTRATION),
                  .incarnation = mci_get_le64(head + AT_INCARNATION),
                  .subject = mci_get_le64(head + AT_SUBJECT),
                  .offset = mci_get_le64(head + AT_TERMS_OFFSET),
                  .len = mci_get_le64(head + AT_TERMS_LEN),
                  .is_write = (flags & IS_WRITE) != 0},
        .grant = {.deadline_ns = mci_get_le64(head + AT_DEADLINE),
                  .tag = mci_get_le64(head + AT_TAG)},
        .offset = mci_get_le64(head + AT_OFFSET),
        .len = mci_get_le64(head + AT_LEN)};
    if ((flags & ~(IS_WRITE | IS_FINAL)) != 0 || request.number == 0 ||
        !makes_sense(&request)) {
        return MC_ERR_INVALID_PARAMS;
    }
    *request_out = request;
    return MC_OK;
}

void mci_tcp_answer_write(const struct mci_tcp_answer *answer,
                          uint8_t head_out[MCI_TCP_ANSWER_LEN])
{
    put_start(head_out, MCI_TCP_ANSWER_MAGIC, answer->op, 0);
    mci_put_le64(head_out + AT_NUMBER, answer->number);
    mci_put_le32(head_out + AT_CODE, (uint32_t)answer->code);
    mci_put_le32(head_out + AT_ZEROS, 0);
    mci_put_le64(head_out + AT_ANSWER_LEN, answer->len);
    mci_put_le64(head_out + AT_RECEIPT, answer->receipt);
}

enum mc_err mci_tcp_answer_read(const uint8_t head[MCI_TCP_ANSWER_LEN],
                                struct mci_tcp_answer *answer_out)
{
    enum mc_err err = check_start(head, MCI_TCP_ANSWER_MAGIC);
    if (err) {
        return err;
    }
    int32_t code = (int32_t)mci_get_le32(head + AT_CODE);
    if (code > 0 || head[AT_FLAGS] != 0 || mci_get_le32(head + AT_ZEROS) != 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    answer_out->op = (enum mci_tcp_op)head[AT_OP];
    answer_out->number = mci_get_le64(head + AT_NUMBER);
    answer_out->code = (enum mc_err)code;
    answer_out->len = mci_get_le64(head + AT_ANSWER_LEN);
    answer_out->receipt = mci_get_le64(head + AT_RECEIPT);
    return MC_OK;
}

bool mci_tcp_answer_fits(const struct mci_tcp_answer *answer,
                         const struct mci_tcp_request *request)
{
    bool closes = request->op == MCI_TCP_SEAL || request->is_final;
    bool is_ok = answer->code == MC_OK;
    if (answer->number != request->number || answer->op != request->op) {
        return false;
    }
    if (answer->len != (is_ok ? request->len : 0)) {
        return false;
    }
    /* A receipt is what a closing request that went well brings, and nothing
     * else does. */
    return (answer->receipt != 0) == (closes && is_ok);
}
