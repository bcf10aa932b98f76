/* SPDX-License-Identifier: Apache-2.0 */
/* regex.c - the door to PCRE2.
 *
 * A search keeps its backtracking frames in the match data, which grow with the
 * deepest search so far, up to the heap limit. So a first search, of another
 * expression in the same match data, is driven into that limit when an
 * expression is compiled, and no search of a key allocates. \C is refused, as
 * it would let an expression look inside a character. No JIT: its code pages
 * are not ours to count, and keys are short.
 */
#include "mci_regex.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "mc_log.h"
#include "mci_alloc.h"

struct mci_regex {
    pcre2_general_context *memory;
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

static void *give_memory(size_t size, void *ctx)
{
    (void)ctx;
    return mci_alloc(size);
}

static void take_memory(void *block, void *ctx)
{
    (void)ctx;
    mci_free(block);
}

static enum mc_err compile(struct mci_regex *regex, struct mc_view pattern)
{
    pcre2_compile_context *rules = pcre2_compile_context_create(regex->memory);
    if (!rules) {
        return MC_ERR_NOMEM;
    }
    (void)pcre2_set_max_pattern_length(rules, MCI_REGEX_LEN_MAX);
    int code = 0;
    PCRE2_SIZE at = 0;
    regex->code =
        pcre2_compile((PCRE2_SPTR)pattern.data, pattern.len,
                      PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &at, rules);
    pcre2_compile_context_free(rules);
    if (regex->code) {
        return MC_OK;
    }
    /* 121: the allocator answered NULL while compiling; it has no name. */
    if (code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_NOMEMORY) {
        return MC_ERR_NOMEM;
    }
    char why[160];
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    mc_log(MC_LOG_DEBUG, "regular expression: byte %zu: %s", (size_t)at, why);
    return MC_ERR_INVALID_PARAMS;
}

/* Each step back into this text costs a frame. */
#define DEEP_PATTERN "(?:a|b)*c"
#define DEEP_LEN 32768

static int search_deeply(struct mci_regex *regex, pcre2_code *deep)
{
    char *text = mci_alloc(DEEP_LEN);
    if (!text) {
        return PCRE2_ERROR_NOMEMORY;
    }
    memset(text, 'a', DEEP_LEN);
    int found = pcre2_match(deep, (PCRE2_SPTR)text, DEEP_LEN, 0,
                            PCRE2_NO_UTF_CHECK, regex->match, regex->limits);
    mci_free(text);
    return found;
}

static enum mc_err grow_frames(struct mci_regex *regex)
{
    pcre2_compile_context *rules = pcre2_compile_context_create(regex->memory);
    if (!rules) {
        return MC_ERR_NOMEM;
    }
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *deep = pcre2_compile(
        (PCRE2_SPTR)DEEP_PATTERN, sizeof DEEP_PATTERN - 1,
        PCRE2_NO_START_OPTIMIZE | PCRE2_ANCHORED, &code, &at, rules);
    pcre2_compile_context_free(rules);
    if (!deep) {
        return MC_ERR_NOMEM;
    }
    int found = search_deeply(regex, deep);
    pcre2_code_free(deep);
    return found == PCRE2_ERROR_NOMEMORY ? MC_ERR_NOMEM : MC_OK;
}

static enum mc_err prepare_search(struct mci_regex *regex)
{
    regex->limits = pcre2_match_context_create(regex->memory);
    regex->match = pcre2_match_data_create(1, regex->memory);
    if (!regex->limits || !regex->match) {
        return MC_ERR_NOMEM;
    }
    (void)pcre2_set_heap_limit(regex->limits, MCI_REGEX_HEAP_KIB);
    enum mc_err err = grow_frames(regex);
    (void)pcre2_set_match_limit(regex->limits, MCI_REGEX_MATCH_LIMIT);
    (void)pcre2_set_depth_limit(regex->limits, MCI_REGEX_DEPTH_LIMIT);
    return err;
}

enum mc_err mci_regex_compile(struct mc_view pattern,
                              struct mci_regex **regex_out)
{
    if (!pattern.data || pattern.len > MCI_REGEX_LEN_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mci_regex *regex = mci_calloc(1, sizeof *regex);
    if (!regex) {
        return MC_ERR_NOMEM;
    }
    regex->memory =
        pcre2_general_context_create(give_memory, take_memory, NULL);
    enum mc_err err = regex->memory ? compile(regex, pattern) : MC_ERR_NOMEM;
    if (err == MC_OK) {
        err = prepare_search(regex);
    }
    if (err != MC_OK) {
        mci_regex_destroy(regex);
        return err;
    }
    *regex_out = regex;
    return MC_OK;
}

void mci_regex_destroy(struct mci_regex *regex)
{
    if (!regex) {
        return;
    }
    pcre2_match_data_free(regex->match);
    pcre2_match_context_free(regex->limits);
    pcre2_code_free(regex->code);
    pcre2_general_context_free(regex->memory);
    mci_free(regex);
}

enum mc_err mci_regex_find(struct mci_regex *regex, struct mc_view text,
                           bool *found_out)
{
    if (!text.data) {
        return MC_ERR_INVALID_PARAMS;
    }
    int found = pcre2_match(regex->code, (PCRE2_SPTR)text.data, text.len, 0, 0,
                            regex->match, regex->limits);
    if (found == PCRE2_ERROR_NOMEMORY) {
        return MC_ERR_NOMEM;
    }
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
        mc_log(MC_LOG_DEBUG, "regular expression: search ended with %d", found);
        return MC_ERR_INVALID_PARAMS;
    }
    *found_out = found >= 0;
    return MC_OK;
}
