/* SPDX-License-Identifier: Apache-2.0 */
/* mci_stream.h - a non-blocking stream of bytes: tcp or Unix socket, with or
 * without TLS.
 *
 * The caller moves bytes with as many calls as it takes and asks, when a call
 * moved none, what to wait for. TLS is version 1.3 with certificates on both
 * sides. tls.c is the one door to OpenSSL.
 * Threads: one thread at a time per stream; a tls context is for any thread.
 */
#ifndef MCI_STREAM_H
#define MCI_STREAM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "mc_err.h"
#include "mc_tls.h"
#include "mci_address.h"

struct mci_tls; /* certificates, loaded once */

/* Errors, each with a line in the log that names the file: MC_ERR_INVALID_PARAMS
 * (unreadable, not matching, one of three missing), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_tls_create(const struct mc_tls_opts *opts,
                                           struct mci_tls **tls_out);
void mci_tls_destroy(struct mci_tls *tls); /* after its streams; NULL is fine */

struct mci_stream;

/* Connects, hand-shakes, by deadline; host is checked against the certificate.
 * Errors: MC_ERR_RPC_TIMEOUT, MC_ERR_RPC_FAIL (one line in the log at debug),
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_stream_connect(const struct mci_address *address, struct mci_tls *tls,
                   uint64_t deadline_ns, struct mci_stream **stream_out);
/* Makes a stream of a connected non-blocking socket, which it owns from then on
 * (on failure too). The handshake of the accepting side goes on in the first
 * calls below. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_stream_accept(int fd, struct mci_tls *tls,
                                              struct mci_stream **stream_out);
void mci_stream_close(struct mci_stream *stream); /* NULL is fine */

/* Closes so that the peer sees a reset and nothing queued is sent. */
void mci_stream_abort(struct mci_stream *stream);

/* For who will move many bytes. If both ends are on this host, no more is under
 * way than stays in the caches: with the system's own, much greater bound the
 * receiver would find it in memory. To other hosts the system sees best how much
 * a path takes. */
void mci_stream_tune_for_bulk(struct mci_stream *stream);

/* Moves what can be moved; *moved_out 0: wait for mci_stream_events. Errors:
 * MC_ERR_RPC_FAIL (closed, reset, a bad handshake). An end of the stream is one
 * too. */
MC_CHECK_RESULT enum mc_err mci_stream_recv(struct mci_stream *stream,
                                            const struct iovec *parts,
                                            int count, size_t *moved_out);
MC_CHECK_RESULT enum mc_err mci_stream_send(struct mci_stream *stream,
                                            const struct iovec *parts,
                                            int count, size_t *moved_out);

/* Whether send, which moved so many of the parts, would move nothing worth while
 * if it were called again before the socket is writable. */
bool mci_stream_is_full(const struct mci_stream *stream,
                        const struct iovec *parts, int count, size_t moved);

/* Bytes can be received without waiting for the socket. */
bool mci_stream_has_pending(const struct mci_stream *stream);

/* What to wait for after recv (or send) moved nothing: POLLIN, POLLOUT. */
short mci_stream_recv_events(const struct mci_stream *stream);
short mci_stream_send_events(const struct mci_stream *stream);
int mci_stream_fd(const struct mci_stream *stream);
const char *mci_stream_peer(const struct mci_stream *stream); /* for the log */

/* Whole messages by deadline on the caller's thread, with poll(). Errors:
 * MC_ERR_RPC_TIMEOUT, MC_ERR_RPC_FAIL; then the stream is of no more use. */
MC_CHECK_RESULT enum mc_err mci_stream_send_all(struct mci_stream *stream,
                                                const void *data, size_t len,
                                                uint64_t deadline_ns);
MC_CHECK_RESULT enum mc_err mci_stream_recv_all(struct mci_stream *stream,
                                                void *data, size_t len,
                                                uint64_t deadline_ns);
#endif
