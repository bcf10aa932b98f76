/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_record.h"

#include <string.h>

/* Puts the parts together in room, without the first `skip` bytes. */
static struct iovec gather(const struct iovec *parts, int count, size_t skip,
                           uint8_t *room)
{
    size_t len = 0;
    for (int i = 0; i < count && len < MCI_TLS_RECORD_MAX; i++) {
        size_t more = parts[i].iov_len - skip;
        if (more > MCI_TLS_RECORD_MAX - len) {
            more = MCI_TLS_RECORD_MAX - len;
        }
        if (more > 0) {
            memcpy(room + len, (const uint8_t *)parts[i].iov_base + skip, more);
        }
        len += more;
        skip = 0;
    }
    return (struct iovec){.iov_base = room, .iov_len = len};
}

struct iovec mci_tls_next_record(const struct iovec *parts, int count,
                                 size_t sent, uint8_t room[MCI_TLS_RECORD_MAX])
{
    while (count > 0 && sent >= parts[0].iov_len) {
        sent -= parts[0].iov_len;
        parts++;
        count--;
    }
    if (count <= 0) {
        return (struct iovec){.iov_len = 0};
    }
    size_t left = parts[0].iov_len - sent;
    if (count == 1 || left >= MCI_TLS_RECORD_MAX) {
        return (struct iovec){.iov_base = (uint8_t *)parts[0].iov_base + sent,
                              .iov_len = left};
    }
    return gather(parts, count, sent, room);
}
