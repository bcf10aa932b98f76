/* SPDX-License-Identifier: Apache-2.0 */
/* log_taken.c - what the consumer took out of the log: its memory, and from the
 * bytes as they were queued to records. */
#include <string.h>

#include "mci_alloc.h"
#include "record_ring.h"

enum mc_err mci_log_taken_init(struct mci_log_taken *taken)
{
    struct mci_log_record *records =
        mci_calloc(MC_BATCH_EVENTS_MAX, sizeof *records);
    uint8_t *bytes = mci_alloc(MC_BATCH_BYTES_MAX);
    if (!records || !bytes) {
        mci_free(records);
        mci_free(bytes);
        return MC_ERR_NOMEM;
    }
    *taken = (struct mci_log_taken){.records = records, .bytes = bytes};
    return MC_OK;
}

void mci_log_taken_fini(struct mci_log_taken *taken)
{
    mci_free(taken->records);
    mci_free(taken->bytes);
    memset(taken, 0, sizeof *taken);
}

static struct mc_view view_or_none(const uint8_t *at, size_t len)
{
    return mc_view_make(len > 0 ? at : NULL, len);
}

void mci_ring_read(const void *bytes, uint32_t count,
                   struct mci_log_record *records_out)
{
    const uint8_t *at = bytes;
    for (uint32_t i = 0; i < count; i++) {
        const struct mci_ring_record *from =
            (const struct mci_ring_record *)(const void *)at;
        const uint8_t *strings = at + sizeof *from;
        struct mci_log_record *to = &records_out[i];
        to->id = from->id;
        to->lost_before = 0;
        to->type = (enum mc_event_type)from->type;
        to->medium = (enum mc_medium)from->medium;
        to->group_continues = from->group_continues != 0;
        to->tenant_id = view_or_none(strings, from->tenant_len);
        strings += from->tenant_len;
        to->object_key = view_or_none(strings, from->key_len);
        strings += from->key_len;
        to->group_id = view_or_none(strings, from->group_len);
        strings += from->group_len;
        to->session_id = view_or_none(strings, from->session_len);
        at += from->size;
    }
}
