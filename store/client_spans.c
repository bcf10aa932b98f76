/* SPDX-License-Identifier: Apache-2.0 */
/* client_spans.c - see the header. */
#include "client_spans.h"

bool mci_using_may(const struct mci_using *using, const void *data, size_t len)
{
    struct mc_client *client = using->client;
    return mci_memory_use(&client->memory, using->use, data, len) ||
           using->takes_any || client->any_memory;
}

bool mci_using_list(const struct mci_using *using, const struct mc_spans *list)
{
    if (!list->spans || list->count > MC_SPANS_MAX) {
        return false;
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct mc_span *span = &list->spans[i];
        if ((span->len > 0 && !span->data) ||
            !mci_using_may(using, span->data, span->len)) {
            return false;
        }
    }
    return true;
}

enum mc_err mci_using_sum(const struct mci_using *using,
                          const struct mc_spans *list, uint64_t limit,
                          uint64_t *size_out)
{
    uint64_t size = 0;
    if (!mci_using_list(using, list)) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->spans[i].len > limit - size) {
            return MC_ERR_INVALID_PARAMS;
        }
        size += list->spans[i].len;
    }
    *size_out = size;
    return MC_OK;
}

/* No more than MC_SPANS_MAX times MC_OBJECT_SIZE_MAX, which is far from
 * wrapping. */
enum mc_err mci_using_fragments(const struct mci_using *using,
                                const struct mc_fragments *fragments,
                                uint64_t size, uint64_t *sum_out)
{
    uint64_t sum = 0;
    if (fragments->count > MC_SPANS_MAX ||
        (fragments->count > 0 && !fragments->rows)) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < fragments->count; i++) {
        const struct mc_fragment *fragment = &fragments->rows[i];
        if (!mci_is_within(fragment->offset, fragment->len, size) ||
            (fragment->len > 0 && !fragment->data) ||
            !mci_using_may(using, fragment->data, fragment->len)) {
            return MC_ERR_INVALID_PARAMS;
        }
        sum += fragment->len;
    }
    *sum_out = sum;
    return MC_OK;
}
