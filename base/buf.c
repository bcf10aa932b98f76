/* SPDX-License-Identifier: Apache-2.0 */
/* The memory is always one byte larger than the capacity, so that the NUL which
 * vsnprintf insists on has a place even when the text fills the maximum. */
#include "mci_buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mci_alloc.h"

#define FIRST_CAPACITY 63

void mci_buf_init(struct mci_buf *buf, size_t max)
{
    buf->data = NULL;
    buf->len = 0;
    buf->capacity = 0;
    buf->max = max;
}

void mci_buf_fini(struct mci_buf *buf)
{
    mci_free(buf->data);
    mci_buf_init(buf, buf->max);
}

void mci_buf_clear(struct mci_buf *buf)
{
    buf->len = 0;
}

/* The capacity to grow to: doubled until it is enough, at most the maximum. */
static size_t next_capacity(const struct mci_buf *buf, size_t needed)
{
    size_t capacity = buf->capacity ? buf->capacity : FIRST_CAPACITY;
    while (capacity < needed) {
        if (capacity > buf->max / 2) {
            return buf->max;
        }
        capacity = capacity * 2 + 1;
    }
    return capacity < buf->max ? capacity : buf->max;
}

enum mc_err mci_buf_reserve(struct mci_buf *buf, size_t len)
{
    if (len > buf->max - buf->len) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    size_t needed = buf->len + len;
    if (buf->data && needed <= buf->capacity) {
        return MC_OK;
    }
    size_t capacity = next_capacity(buf, needed);
    if (capacity == SIZE_MAX) {
        return MC_ERR_NOMEM;
    }
    uint8_t *moved = mci_realloc(buf->data, capacity + 1);
    if (!moved) {
        return MC_ERR_NOMEM;
    }
    buf->data = moved;
    buf->capacity = capacity;
    return MC_OK;
}

enum mc_err mci_buf_append(struct mci_buf *buf, const void *data, size_t len)
{
    if (len == 0) {
        return MC_OK;
    }
    enum mc_err err = mci_buf_reserve(buf, len);
    if (err) {
        return err;
    }
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    return MC_OK;
}

enum mc_err mci_buf_append_byte(struct mci_buf *buf, uint8_t byte)
{
    enum mc_err err = mci_buf_reserve(buf, 1);
    if (err) {
        return err;
    }
    buf->data[buf->len++] = byte;
    return MC_OK;
}

enum mc_err mci_buf_printf(struct mci_buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = mci_buf_reserve(buf, (size_t)len);
    if (err) {
        return err;
    }
    va_start(args, fmt);
    (void)vsnprintf((char *)buf->data + buf->len, (size_t)len + 1, fmt, args);
    va_end(args);
    buf->len += (size_t)len;
    return MC_OK;
}
