/* SPDX-License-Identifier: Apache-2.0 */
/* mci_curve_file.h - reads files of CURVE keys.
 *
 * A key is 40 characters of Z85 text. A pair is a file with the lines "public
 * KEY" and "secret KEY"; a list has a public key a line, alone or as "public
 * KEY". Empty lines and those that begin with # are passed over.
 * Threads: any thread.
 */
#ifndef MCI_CURVE_FILE_H
#define MCI_CURVE_FILE_H
#include <stddef.h>

#include "mc_err.h"

#define MCI_CURVE_KEY_LEN 40
#define MCI_CURVE_KEYS_MAX 65536 /* of a list */

struct mci_curve_pair {
    char public_key[MCI_CURVE_KEY_LEN + 1];
    char secret_key[MCI_CURVE_KEY_LEN + 1];
};

/* Whether the text is a key. */
int mci_curve_is_key(const char *text);

/* Errors, each with a line in the log that names the file: MC_ERR_FILE_OPEN_FAIL,
 * MC_ERR_INVALID_PARAMS (not both keys, or something else). */
MC_CHECK_RESULT enum mc_err mci_curve_pair_read(const char *path,
                                                struct mci_curve_pair *out);

struct mci_curve_list {
    char (*keys)[MCI_CURVE_KEY_LEN + 1]; /* owned */
    size_t count;
};
/* Errors as above (an empty list is one), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_curve_list_read(const char *path,
                                                struct mci_curve_list *out);
void mci_curve_list_fini(struct mci_curve_list *list); /* zeroed is fine */
#endif
