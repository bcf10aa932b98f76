/* SPDX-License-Identifier: Apache-2.0 */
#include "token.h"

struct token_form {
    uint8_t kind;
    uint8_t width; /* bytes of the number or length behind the first byte */
    uint8_t extra; /* ext: its type byte */
    uint8_t fixed; /* fixext: length of the body */
};

static const struct token_form forms[32] = {
    {TOKEN_NIL, 0, 0, 0},      {TOKEN_MALFORMED, 0, 0, 0},
    {TOKEN_BOOL, 0, 0, 0},     {TOKEN_BOOL, 0, 0, 0},
    {TOKEN_BIN, 1, 0, 0},      {TOKEN_BIN, 2, 0, 0},
    {TOKEN_BIN, 4, 0, 0},      {TOKEN_EXT, 1, 1, 0},
    {TOKEN_EXT, 2, 1, 0},      {TOKEN_EXT, 4, 1, 0},
    {TOKEN_FLOAT, 4, 0, 0},    {TOKEN_FLOAT, 8, 0, 0},
    {TOKEN_UINT, 1, 0, 0},     {TOKEN_UINT, 2, 0, 0},
    {TOKEN_UINT, 4, 0, 0},     {TOKEN_UINT, 8, 0, 0},
    {TOKEN_NEGATIVE, 1, 0, 0}, {TOKEN_NEGATIVE, 2, 0, 0},
    {TOKEN_NEGATIVE, 4, 0, 0}, {TOKEN_NEGATIVE, 8, 0, 0},
    {TOKEN_EXT, 0, 1, 1},      {TOKEN_EXT, 0, 1, 2},
    {TOKEN_EXT, 0, 1, 4},      {TOKEN_EXT, 0, 1, 8},
    {TOKEN_EXT, 0, 1, 16},     {TOKEN_STR, 1, 0, 0},
    {TOKEN_STR, 2, 0, 0},      {TOKEN_STR, 4, 0, 0},
    {TOKEN_ARRAY, 2, 0, 0},    {TOKEN_ARRAY, 4, 0, 0},
    {TOKEN_MAP, 2, 0, 0},      {TOKEN_MAP, 4, 0, 0},
};

/* Signed forms hold numbers of either sign. */
static void read_signed(struct token *token, unsigned width)
{
    unsigned shift = 64 - 8 * width;
    int64_t number = (int64_t)(token->value << shift) >> shift;
    token->value = (uint64_t)number;
    token->kind = number < 0 ? TOKEN_NEGATIVE : TOKEN_UINT;
}

void token_read_wide(const uint8_t *at, const uint8_t *end,
                     struct token *token_out)
{
    const struct token_form *form = &forms[*at - 0xc0];
    size_t left = (size_t)(end - at) - 1;
    size_t header = (size_t)form->width + form->extra;
    if (left < header) {
        token_out->kind = TOKEN_TRUNCATED;
        return;
    }
    token_out->kind = (enum token_kind)form->kind;
    token_out->body = at + 1 + header;
    if (form->width != 0) {
        token_out->value = token_get_be(at + 1, form->width);
    } else {
        token_out->value =
            form->kind == TOKEN_BOOL ? (uint64_t)(*at & 1) : form->fixed;
    }
    if (form->kind == TOKEN_NEGATIVE) {
        read_signed(token_out, form->width);
    } else if (token_has_bytes(token_out) && token_out->value > left - header) {
        token_out->kind = TOKEN_TRUNCATED;
    }
}

double token_float(const struct token *token, uint8_t first)
{
    double number;
    float narrow;
    if (first == 0xca) {
        uint32_t bits = (uint32_t)token->value;
        memcpy(&narrow, &bits, sizeof narrow);
        return (double)narrow;
    }
    memcpy(&number, &token->value, sizeof number);
    return number;
}
