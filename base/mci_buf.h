/* SPDX-License-Identifier: Apache-2.0 */
/* mci_buf.h - bytes that grow up to a maximum fixed at init.
 *
 * An append beyond the maximum answers MC_ERR_BUFFER_OVERFLOW, which is not
 * out of memory. After any failure the content is what it was before.
 * Threads: one thread at a time.
 */
#ifndef MCI_BUF_H
#define MCI_BUF_H
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

struct mci_buf {
    uint8_t *data; /* owned; NULL until the first append */
    size_t len;
    size_t capacity;
    size_t max;
};

void mci_buf_init(struct mci_buf *buf, size_t max);
void mci_buf_fini(struct mci_buf *buf);  /* zeroed is fine */
void mci_buf_clear(struct mci_buf *buf); /* keeps the memory */

/* Makes room for len more bytes; afterwards that many can be appended without
 * failing. */
MC_CHECK_RESULT enum mc_err mci_buf_reserve(struct mci_buf *buf, size_t len);
MC_CHECK_RESULT enum mc_err mci_buf_append(struct mci_buf *buf,
                                           const void *data, size_t len);
MC_CHECK_RESULT enum mc_err mci_buf_append_byte(struct mci_buf *buf,
                                                uint8_t byte);
MC_CHECK_RESULT enum mc_err mci_buf_printf(struct mci_buf *buf, const char *fmt,
                                           ...)
    __attribute__((format(printf, 2, 3)));

/* Borrowed: valid until the next append, clear or fini. */
static inline struct mc_view mci_buf_view(const struct mci_buf *buf)
{
    return mc_view_make(buf->data ? (const void *)buf->data : "", buf->len);
}
#endif
