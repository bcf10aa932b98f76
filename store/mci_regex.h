/* SPDX-License-Identifier: Apache-2.0 */
/* mci_regex.h - does a regular expression find something in a key?
 *
 * The only door to PCRE2. An expression is compiled once, in UTF mode, before
 * any lock is taken, and is then asked about keys: "found anywhere". Its length
 * and its work per key are bounded, so that no expression can hold up a store;
 * hitting a bound is an error, not "no". All memory comes from mci_alloc.
 *
 * Threads: one thread at a time for each expression.
 */
#ifndef MCI_REGEX_H
#define MCI_REGEX_H
#include <stdbool.h>

#include "mc_err.h"
#include "mc_view.h"

#define MCI_REGEX_LEN_MAX 4096       /* bytes of the expression */
#define MCI_REGEX_MATCH_LIMIT 200000 /* steps of a search in one key */
#define MCI_REGEX_DEPTH_LIMIT 20000  /* of nested backtracking */
#define MCI_REGEX_HEAP_KIB 2048      /* memory of a search, made at once */

struct mci_regex;

/* The caller owns the expression. An empty one is found in every key.
 * Errors: MC_ERR_INVALID_PARAMS (cannot be compiled, too long, NULL; with a line
 * at debug level), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_regex_compile(struct mc_view pattern,
                                              struct mci_regex **regex_out);
void mci_regex_destroy(struct mci_regex *regex); /* NULL is fine */

/* Looks for the expression anywhere in text. Allocates nothing: what a search
 * can need was made at compile time.
 * Errors: MC_ERR_INVALID_PARAMS (a limit was hit, or text is not UTF-8). */
MC_CHECK_RESULT enum mc_err
mci_regex_find(struct mci_regex *regex, struct mc_view text, bool *found_out);
#endif
