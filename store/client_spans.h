/* SPDX-License-Identifier: Apache-2.0 */
/* client_spans.h - what a call may name: memory of its caller's, and parts of
 * objects.
 *
 * Sums from outside are never made before they are known not to wrap.
 * Threads: as the calls they serve.
 */
#ifndef CLIENT_SPANS_H
#define CLIENT_SPANS_H
#include "client.h"
#include "mc_client_sessions.h"

static inline bool mci_is_within(uint64_t at, uint64_t len, uint64_t bytes)
{
    return len <= bytes && at <= bytes - len;
}

/* Bytes of an object and the memory they come from or go to. */
struct mci_part {
    uint64_t from; /* in the object */
    uint64_t len;
    const struct mc_span *spans; /* whose lengths sum up to len */
    uint32_t span_count;
    uint32_t row;       /* of which object, as the call counts them */
    struct mc_span own; /* room for an only span; so parts are not copied */
};

static inline void mci_part_set(struct mci_part *part, uint64_t from,
                                void *data, uint64_t len)
{
    part->from = from;
    part->len = len;
    part->own = (struct mc_span){.data = data, .len = len};
    part->spans = &part->own;
    part->span_count = 1;
}

/* How a call uses its caller's memory; ends with mci_memory_release. */
struct mci_using {
    struct mc_client *client;
    struct mci_memory_use *use;
    bool takes_any; /* also what was not registered */
};
bool mci_using_may(const struct mci_using *using, const void *data, size_t len);

/* The list is one, and all its memory may be used. */
bool mci_using_list(const struct mci_using *using, const struct mc_spans *list);

/* The sum of the spans, which may be used. Errors: -600 (or over limit). */
MC_CHECK_RESULT enum mc_err mci_using_sum(const struct mci_using *using,
                                          const struct mc_spans *list,
                                          uint64_t limit, uint64_t *size_out);

/* The sum of fragments of an object of so many bytes, whose memory may be used.
 * Errors: -600. */
MC_CHECK_RESULT enum mc_err
mci_using_fragments(const struct mci_using *using,
                    const struct mc_fragments *fragments, uint64_t size,
                    uint64_t *sum_out);
#endif
