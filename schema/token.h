/* SPDX-License-Identifier: Apache-2.0 */
/* token.h - one msgpack header, read with nothing believed.
 *
 * The two readers of this folder (mci_unpack, the event reader) differ in what
 * they do about a fault, but not in how a header looks: this is that part. A
 * token is a header and, where it has one, where its body begins. A body of
 * bytes (str, bin, ext) is known to lie inside the input; the elements of a
 * container are not looked at.
 * Threads: pure functions.
 */
#ifndef MC_TOKEN_H
#define MC_TOKEN_H
#include "mci_bytes.h"

enum token_kind {
    TOKEN_TRUNCATED, /* header or body is not there */
    TOKEN_MALFORMED, /* byte C1 */
    TOKEN_NIL,
    TOKEN_BOOL,
    TOKEN_UINT,     /* any form, not negative */
    TOKEN_NEGATIVE, /* value is its two's complement */
    TOKEN_FLOAT,
    TOKEN_STR,
    TOKEN_BIN,
    TOKEN_EXT,
    TOKEN_ARRAY,
    TOKEN_MAP
};

struct token {
    uint64_t value;      /* number, bytes of the body, elements or pairs */
    const uint8_t *body; /* behind the header */
    enum token_kind kind;
};

static inline uint64_t token_get_be(const uint8_t *at, unsigned width)
{
    switch (width) {
    case 1:
        return at[0];
    case 2:
        return mci_get_be16(at);
    case 4:
        return mci_get_be32(at);
    default:
        return mci_get_be64(at);
    }
}

/* The forms C0 to DF. */
void token_read_wide(const uint8_t *at, const uint8_t *end,
                     struct token *token_out);

static inline bool token_has_bytes(const struct token *token)
{
    return token->kind >= TOKEN_STR && token->kind <= TOKEN_EXT;
}

/* Where the next value begins: behind the body of a scalar, at the first
 * element of a container. */
static inline const uint8_t *token_end(const struct token *token)
{
    return token_has_bytes(token) ? token->body + token->value : token->body;
}

/* Reads the header at `at`. */
static inline void token_read(const uint8_t *at, const uint8_t *end,
                              struct token *token_out)
{
    if (at >= end) {
        token_out->kind = TOKEN_TRUNCATED;
        return;
    }
    uint8_t byte = *at;
    if (byte >= 0xc0 && byte < 0xe0) {
        token_read_wide(at, end, token_out);
        return;
    }
    token_out->body = at + 1;
    if (byte < 0x80) {
        token_out->kind = TOKEN_UINT;
        token_out->value = byte;
    } else if (byte < 0x90) {
        token_out->kind = TOKEN_MAP;
        token_out->value = byte & 0x0f;
    } else if (byte < 0xa0) {
        token_out->kind = TOKEN_ARRAY;
        token_out->value = byte & 0x0f;
    } else if (byte < 0xc0) {
        token_out->value = byte & 0x1f;
        token_out->kind = token_out->value <= (size_t)(end - at) - 1
                              ? TOKEN_STR
                              : TOKEN_TRUNCATED;
    } else {
        token_out->kind = TOKEN_NEGATIVE;
        token_out->value = (uint64_t)(int64_t)(int8_t)byte;
    }
}

/* The number of a float, whose first byte tells its width. */
double token_float(const struct token *token, uint8_t first);

/* Bytes a container takes at least: one per element. False if that many cannot
 * follow. */
static inline bool token_can_follow(const struct token *token,
                                    const uint8_t *end)
{
    uint64_t left = (uint64_t)(end - token->body);
    return token->kind == TOKEN_MAP ? token->value <= left / 2
                                    : token->value <= left;
}
#endif
