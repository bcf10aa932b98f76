/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_unpack.h"

#include "mci_utf8.h"
#include "token.h"

const char *mci_unpack_error_name(enum mci_unpack_error error)
{
    static const char *const names[MCI_UNPACK_ERROR_COUNT_] = {
        [MCI_UNPACK_OK] = "ok",
#define NAME_ROW(name, text) [MCI_UNPACK_ERROR_##name] = text,
        MCI_UNPACK_ERROR_LIST(NAME_ROW)
#undef NAME_ROW
    };
    if ((unsigned)error >= MCI_UNPACK_ERROR_COUNT_) {
        return "unknown";
    }
    return names[error];
}

void mci_unpack_init(struct mci_unpack *unpack, struct mc_view input)
{
    unpack->base = input.data ? input.data : (const void *)"";
    unpack->at = unpack->base;
    unpack->end = unpack->base + input.len;
    unpack->error = MCI_UNPACK_OK;
    unpack->error_offset = 0;
}

static void refuse_at(struct mci_unpack *unpack, enum mci_unpack_error error,
                      const uint8_t *at)
{
    if (unpack->error == MCI_UNPACK_OK) {
        unpack->error = error;
        unpack->error_offset = (size_t)(at - unpack->base);
    }
}

void mci_unpack_refuse(struct mci_unpack *unpack, enum mci_unpack_error error)
{
    refuse_at(unpack, error, unpack->at);
}

/* Always false, for the caller to return. */
static bool refuse(struct mci_unpack *unpack, enum mci_unpack_error error)
{
    mci_unpack_refuse(unpack, error);
    return false;
}

static bool refuse_cut(struct mci_unpack *unpack)
{
    refuse_at(unpack, MCI_UNPACK_ERROR_TRUNCATED, unpack->end);
    return false;
}

/* The next header; the reader stays in front of it. */
static bool read_header(struct mci_unpack *unpack, struct token *token)
{
    if (unpack->error != MCI_UNPACK_OK) {
        return false;
    }
    token_read(unpack->at, unpack->end, token);
    if (token->kind > TOKEN_MALFORMED) {
        return true;
    }
    return token->kind == TOKEN_MALFORMED
               ? refuse(unpack, MCI_UNPACK_ERROR_MALFORMED)
               : refuse_cut(unpack);
}

static bool read_kind(struct mci_unpack *unpack, enum token_kind kind,
                      struct token *token)
{
    if (!read_header(unpack, token)) {
        return false;
    }
    return token->kind == kind ? true : refuse(unpack, MCI_UNPACK_ERROR_TYPE);
}

static void step_over(struct mci_unpack *unpack, const struct token *token)
{
    unpack->at = token_end(token);
}

enum mci_unpack_kind mci_unpack_peek(const struct mci_unpack *unpack)
{
    static const uint8_t kinds[] = {
        [TOKEN_TRUNCATED] = MCI_UNPACK_NONE,
        [TOKEN_MALFORMED] = MCI_UNPACK_NONE,
        [TOKEN_NIL] = MCI_UNPACK_NIL,
        [TOKEN_BOOL] = MCI_UNPACK_BOOL,
        [TOKEN_UINT] = MCI_UNPACK_INTEGER,
        [TOKEN_NEGATIVE] = MCI_UNPACK_INTEGER,
        [TOKEN_FLOAT] = MCI_UNPACK_FLOAT,
        [TOKEN_STR] = MCI_UNPACK_STR,
        [TOKEN_BIN] = MCI_UNPACK_BIN,
        [TOKEN_EXT] = MCI_UNPACK_EXT,
        [TOKEN_ARRAY] = MCI_UNPACK_ARRAY,
        [TOKEN_MAP] = MCI_UNPACK_MAP,
    };
    struct token token;
    if (unpack->error != MCI_UNPACK_OK) {
        return MCI_UNPACK_NONE;
    }
    token_read(unpack->at, unpack->end, &token);
    return (enum mci_unpack_kind)kinds[token.kind];
}

static uint32_t read_count(struct mci_unpack *unpack, enum token_kind kind,
                           uint32_t min, uint32_t max)
{
    struct token token;
    if (!read_kind(unpack, kind, &token)) {
        return 0;
    }
    if (token.value < min || token.value > max) {
        (void)refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
        return 0;
    }
    if (!token_can_follow(&token, unpack->end)) {
        (void)refuse_cut(unpack);
        return 0;
    }
    step_over(unpack, &token);
    return (uint32_t)token.value;
}

uint32_t mci_unpack_array(struct mci_unpack *unpack, uint32_t min, uint32_t max)
{
    return read_count(unpack, TOKEN_ARRAY, min, max);
}

uint32_t mci_unpack_map(struct mci_unpack *unpack, uint32_t min, uint32_t max)
{
    return read_count(unpack, TOKEN_MAP, min, max);
}

/* A body of min to max bytes; the reader stays in front of it. */
static bool read_body(struct mci_unpack *unpack, enum token_kind kind,
                      size_t min, size_t max, struct token *token)
{
    if (!read_kind(unpack, kind, token)) {
        return false;
    }
    return token->value >= min && token->value <= max
               ? true
               : refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
}

struct mc_view mci_unpack_str(struct mci_unpack *unpack, size_t max)
{
    struct token token;
    if (!read_body(unpack, TOKEN_STR, 0, max, &token)) {
        return mc_view_make(NULL, 0);
    }
    if (!mci_utf8_valid(token.body, token.value)) {
        (void)refuse(unpack, MCI_UNPACK_ERROR_UTF8);
        return mc_view_make(NULL, 0);
    }
    step_over(unpack, &token);
    return mc_view_make(token.body, token.value);
}

static struct mc_view take_body(struct mci_unpack *unpack, enum token_kind kind,
                                size_t min, size_t max)
{
    struct token token;
    if (!read_body(unpack, kind, min, max, &token)) {
        return mc_view_make(NULL, 0);
    }
    step_over(unpack, &token);
    return mc_view_make(token.body, token.value);
}

struct mc_view mci_unpack_str_raw(struct mci_unpack *unpack, size_t max)
{
    return take_body(unpack, TOKEN_STR, 0, max);
}

struct mc_view mci_unpack_bin(struct mci_unpack *unpack, size_t min, size_t max)
{
    return take_body(unpack, TOKEN_BIN, min, max);
}

/* An integer of either sign. */
static bool read_integer(struct mci_unpack *unpack, struct token *token)
{
    if (!read_header(unpack, token)) {
        return false;
    }
    if (token->kind != TOKEN_UINT && token->kind != TOKEN_NEGATIVE) {
        return refuse(unpack, MCI_UNPACK_ERROR_TYPE);
    }
    return true;
}

uint64_t mci_unpack_u64(struct mci_unpack *unpack, uint64_t max)
{
    struct token token;
    if (!read_integer(unpack, &token)) {
        return 0;
    }
    if (token.kind == TOKEN_NEGATIVE || token.value > max) {
        (void)refuse(unpack, MCI_UNPACK_ERROR_RANGE);
        return 0;
    }
    step_over(unpack, &token);
    return token.value;
}

uint32_t mci_unpack_u32(struct mci_unpack *unpack, uint32_t max)
{
    return (uint32_t)mci_unpack_u64(unpack, max);
}

int64_t mci_unpack_i64(struct mci_unpack *unpack, int64_t min, int64_t max)
{
    struct token token;
    if (!read_integer(unpack, &token)) {
        return 0;
    }
    int64_t number = (int64_t)token.value;
    if ((token.kind == TOKEN_UINT && token.value > INT64_MAX) || number < min ||
        number > max) {
        (void)refuse(unpack, MCI_UNPACK_ERROR_RANGE);
        return 0;
    }
    step_over(unpack, &token);
    return number;
}

bool mci_unpack_bool(struct mci_unpack *unpack)
{
    struct token token;
    if (!read_kind(unpack, TOKEN_BOOL, &token)) {
        return false;
    }
    step_over(unpack, &token);
    return token.value != 0;
}

double mci_unpack_float(struct mci_unpack *unpack)
{
    struct token token;
    double number = 0;
    if (read_kind(unpack, TOKEN_FLOAT, &token)) {
        number = token_float(&token, *unpack->at);
        step_over(unpack, &token);
    }
    return number;
}

void mci_unpack_nil(struct mci_unpack *unpack)
{
    struct token token;
    if (read_kind(unpack, TOKEN_NIL, &token)) {
        step_over(unpack, &token);
    }
}

bool mci_unpack_took_nil(struct mci_unpack *unpack)
{
    if (mci_unpack_peek(unpack) != MCI_UNPACK_NIL) {
        return false;
    }
    unpack->at++;
    return true;
}

struct mc_view mci_unpack_str_or_nil(struct mci_unpack *unpack, size_t max)
{
    if (mci_unpack_took_nil(unpack)) {
        return mc_view_make(NULL, 0);
    }
    return mci_unpack_str(unpack, max);
}

/* What one value of a skip adds to the count of values to come. */
static bool skip_token(struct mci_unpack *unpack, bool may_nest,
                       uint64_t *inside_out)
{
    struct token token;
    *inside_out = 0;
    if (!read_header(unpack, &token)) {
        return false;
    }
    if (token.kind == TOKEN_STR && !mci_utf8_valid(token.body, token.value)) {
        return refuse(unpack, MCI_UNPACK_ERROR_UTF8);
    }
    if (token.kind >= TOKEN_ARRAY) {
        if (!may_nest) {
            return refuse(unpack, MCI_UNPACK_ERROR_DEPTH);
        }
        if (!token_can_follow(&token, unpack->end)) {
            return refuse_cut(unpack);
        }
        *inside_out = token.kind == TOKEN_MAP ? token.value * 2 : token.value;
    }
    step_over(unpack, &token);
    return true;
}

void mci_unpack_skip(struct mci_unpack *unpack, unsigned depth)
{
    uint64_t left[MCI_UNPACK_DEPTH_MAX + 1];
    unsigned level = 0;
    left[0] = 1;
    if (depth > MCI_UNPACK_DEPTH_MAX) {
        depth = MCI_UNPACK_DEPTH_MAX;
    }
    for (;;) {
        uint64_t inside;
        while (left[level] == 0) {
            if (level == 0) {
                return;
            }
            level--;
        }
        left[level]--;
        if (!skip_token(unpack, level < depth, &inside)) {
            return;
        }
        if (inside != 0) {
            left[++level] = inside;
        }
    }
}

enum mci_unpack_error mci_unpack_done(struct mci_unpack *unpack)
{
    if (unpack->error == MCI_UNPACK_OK && unpack->at != unpack->end) {
        (void)refuse(unpack, MCI_UNPACK_ERROR_TRAILING);
    }
    return unpack->error;
}
