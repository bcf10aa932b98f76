/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_spans.h - a place in a list of spans, that only goes forward.
 * Threads: one thread at a time per cursor. Pure.
 */
#ifndef TCP_SPANS_H
#define TCP_SPANS_H
#include <sys/uio.h>

#include "mc_object.h"

struct mci_span_cursor {
    const struct mc_span *span; /* the next byte is in it, or in a later one */
    size_t at;                  /* bytes of it that are done */
};

static inline struct mci_span_cursor
mci_span_cursor_make(const struct mc_span *spans)
{
    return (struct mci_span_cursor){.span = spans, .at = 0};
}

/* Goes forward by len bytes, which must be there, writing the parts on the way to
 * parts (at most max of them). Stops where parts are full. Returns how many there
 * are; *len_io: what is left to go. */
static inline int mci_span_cursor_gather(struct mci_span_cursor *cursor,
                                         uint64_t *len_io, struct iovec *parts,
                                         int max)
{
    int count = 0;
    while (*len_io > 0) {
        size_t here = cursor->span->len - cursor->at;
        if (here == 0) {
            cursor->span++;
            cursor->at = 0;
            continue;
        }
        if (count == max) {
            break;
        }
        if (here > *len_io) {
            here = (size_t)*len_io;
        }
        parts[count].iov_base = (char *)cursor->span->data + cursor->at;
        parts[count].iov_len = here;
        count++;
        cursor->at += here;
        *len_io -= here;
    }
    return count;
}

static inline void mci_span_cursor_skip(struct mci_span_cursor *cursor,
                                        uint64_t len)
{
    struct iovec part;
    while (len > 0) {
        (void)mci_span_cursor_gather(cursor, &len, &part, 1);
    }
}

/* The same, knowing whose spans they are and how far it is in them. */
struct mci_span_place {
    const void *owner; /* NULL: nobody yet */
    uint64_t at;
    struct mci_span_cursor cursor;
};

/* Goes to a byte of an owner's spans; mostly it is there already. */
static inline void mci_span_place_set(struct mci_span_place *place,
                                      const void *owner,
                                      const struct mc_span *spans, uint64_t at)
{
    if (place->owner == owner && place->at == at) {
        return;
    }
    place->owner = owner;
    place->at = at;
    place->cursor = mci_span_cursor_make(spans);
    mci_span_cursor_skip(&place->cursor, at);
}

/* The parts of the next len bytes, or of the first of them. */
static inline int mci_span_place_gather(struct mci_span_place *place,
                                        uint64_t len, struct iovec *parts,
                                        int max)
{
    uint64_t left = len;
    int count = mci_span_cursor_gather(&place->cursor, &left, parts, max);
    place->at += len - left;
    return count;
}

static inline void mci_span_place_skip(struct mci_span_place *place,
                                       uint64_t len)
{
    mci_span_cursor_skip(&place->cursor, len);
    place->at += len;
}
#endif
