/* SPDX-License-Identifier: Apache-2.0 */
/* mc_tls.h - certificates of one side. Files are PEM; all three or none.
 * Threads: plain values; mc_tls_make_trial: any thread.
 */
#ifndef MC_TLS_H
#define MC_TLS_H
#include "mc_err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_tls_opts {
    const char *cert_file; /* chain of this side */
    const char *key_file;
    const char *ca_file; /* whom to believe */
};

/* Makes a CA and one certificate with its key, which both sides may use, for
 * trying things out: ca.pem, cert.pem and key.pem (mode 0600) in dir, which is
 * made if it is not there. Files that are there are not overwritten. The key of
 * the CA is not kept. The certificate is good for localhost, 127.0.0.1, ::1,
 * this host's name and `host` (a name or an address; NULL: none), for `days`
 * from now (0 = 365; less than 0: it has expired already).
 * Errors, each with a line in the log: MC_ERR_FILE_WRITE_FAIL, MC_ERR_NOMEM,
 * MC_ERR_INVALID_PARAMS (host), MC_ERR_INTERNAL_ERROR. */
MC_CHECK_RESULT enum mc_err mc_tls_make_trial(const char *dir, const char *host,
                                              int days);

#ifdef __cplusplus
}
#endif
#endif
