/* SPDX-License-Identifier: Apache-2.0 */
/* mc_tls.h - certificates of one side. Files are PEM; all three or none.
 * Threads: plain values.
 */
#ifndef MC_TLS_H
#define MC_TLS_H

struct mc_tls_opts {
    const char *cert_file; /* chain of this side */
    const char *key_file;
    const char *ca_file; /* whom to believe */
};
#endif
