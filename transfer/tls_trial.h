/* SPDX-License-Identifier: Apache-2.0 */
/* tls_trial.h - certificates for trying out: what OpenSSL makes of them
 * (tls.c); where they are put is up to mc_tls_make_trial (tls_trial.c).
 * Threads: any thread, each its own.
 */
#ifndef TLS_TRIAL_H
#define TLS_TRIAL_H
#include <stdbool.h>
#include <stdio.h>

#include "mc_err.h"

#define MCI_TLS_DAY_S (24 * 3600L)

struct mci_tls_trial; /* a CA, a certificate that it signed, and its key */

enum mci_tls_pem { MCI_TLS_PEM_CA, MCI_TLS_PEM_CERT, MCI_TLS_PEM_KEY };

/* alt: the names that the certificate is good for, as OpenSSL reads them. Times
 * are relative to now. Errors: MC_ERR_NOMEM, MC_ERR_INTERNAL_ERROR (with a line in
 * the log). */
MC_CHECK_RESULT enum mc_err
mci_tls_trial_create(const char *alt, long from_s, long until_s,
                     struct mci_tls_trial **trial_out);
void mci_tls_trial_destroy(struct mci_tls_trial *trial); /* NULL is fine */
/* Writes one of the three as PEM. False: the file did not take it. */
bool mci_tls_trial_write(const struct mci_tls_trial *trial,
                         enum mci_tls_pem what, FILE *file);
#endif
