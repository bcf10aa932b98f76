/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - one side of a TLS connection over a socket that somebody else owns.
 *
 * The handshake goes on inside recv and send. After a send that moved nothing,
 * the next one begins with the same bytes, and no fewer of them.
 * Threads: one thread at a time per session.
 */
#ifndef TLS_H
#define TLS_H
#include <sys/uio.h>

#include "mci_stream.h"

struct mci_tls_session;

/* host: whom the peer's certificate must name; NULL: the accepting side. peer
 * is a word for the log, borrowed as long as the session is there. NULL when out
 * of memory. */
struct mci_tls_session *mci_tls_session_create(struct mci_tls *tls, int fd,
                                               const char *host,
                                               const char *peer);
/* Tells the peer, if that needs no waiting. The descriptor stays open. */
void mci_tls_session_destroy(struct mci_tls_session *session);

/* One step of the handshake: *is_done_out, or wait for recv_events. */
MC_CHECK_RESULT enum mc_err
mci_tls_session_handshake(struct mci_tls_session *session, bool *is_done_out);

/* As mci_stream_recv and mci_stream_send. */
MC_CHECK_RESULT enum mc_err
mci_tls_session_recv(struct mci_tls_session *session, const struct iovec *parts,
                     int count, size_t *moved_out);
MC_CHECK_RESULT enum mc_err
mci_tls_session_send(struct mci_tls_session *session, const struct iovec *parts,
                     int count, size_t *moved_out);
bool mci_tls_session_has_pending(const struct mci_tls_session *session);
short mci_tls_session_recv_events(const struct mci_tls_session *session);
short mci_tls_session_send_events(const struct mci_tls_session *session);
#endif
