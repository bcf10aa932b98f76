/* SPDX-License-Identifier: Apache-2.0 */
#include "send_mark.h"

static uint64_t clamp(uint64_t value, uint64_t min, uint64_t max)
{
    if (value < min) {
        return min;
    }
    return value > max ? max : value;
}

struct mci_send_mark mci_send_mark(uint64_t bytes)
{
    struct mci_send_mark mark;
    uint64_t bound = bytes ? bytes : MCI_SEND_MARK_BYTES_DEFAULT;
    uint64_t batch_bytes =
        clamp(bound / MCI_SEND_MARK_MESSAGES_MIN, MCI_SEND_MARK_BATCH_MIN,
              MCI_SEND_MARK_BATCH_MAX);
    mark.batch_bytes = (uint32_t)batch_bytes;
    mark.messages =
        (int)clamp(bound / (batch_bytes + MCI_SEND_MARK_OVERHEAD),
                   MCI_SEND_MARK_MESSAGES_MIN, MCI_SEND_MARK_MESSAGES_MAX);
    return mark;
}
