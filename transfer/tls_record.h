/* SPDX-License-Identifier: Apache-2.0 */
/* tls_record.h - which bytes become the next TLS record.
 *
 * Small parts that follow each other become one record: each of them alone would
 * cost a header, a tag and a call of its own.
 * Threads: any thread.
 */
#ifndef TLS_RECORD_H
#define TLS_RECORD_H
#include <stdint.h>
#include <sys/uio.h>

#define MCI_TLS_RECORD_MAX 16384

/* What comes behind the first `sent` bytes of parts, as one piece: the rest of a
 * part, borrowed (it may be longer than a record), or up to MCI_TLS_RECORD_MAX
 * bytes of several, put together in room. Length 0: nothing is left. The same
 * arguments make the same piece. */
struct iovec mci_tls_next_record(const struct iovec *parts, int count,
                                 size_t sent, uint8_t room[MCI_TLS_RECORD_MAX]);
#endif
