/* SPDX-License-Identifier: Apache-2.0 */
#include "send_mark.h"

#define MEAN_AT_FIRST 1024

static int mark_for(uint64_t bytes, uint64_t mean)
{
    uint64_t messages = bytes / (mean + MCI_SEND_MARK_OVERHEAD);
    if (messages < MCI_SEND_MARK_MIN) {
        return MCI_SEND_MARK_MIN;
    }
    return messages > MCI_SEND_MARK_MAX ? MCI_SEND_MARK_MAX : (int)messages;
}

void mci_send_mark_init(struct mci_send_mark *mark, uint64_t bytes)
{
    mark->bytes = bytes ? bytes : MCI_SEND_MARK_BYTES_DEFAULT;
    mark->mean_x64 = MEAN_AT_FIRST * 64;
    mark->mean_set = MEAN_AT_FIRST;
    mark->messages = mark_for(mark->bytes, mark->mean_set);
}

bool mci_send_mark_add(struct mci_send_mark *mark, uint64_t message_bytes)
{
    mark->mean_x64 += message_bytes - mark->mean_x64 / 64;
    uint64_t mean = mark->mean_x64 / 64;
    uint64_t moved =
        mean > mark->mean_set ? mean - mark->mean_set : mark->mean_set - mean;
    if (moved * 4 < mark->mean_set) {
        return false;
    }
    int before = mark->messages;
    mark->mean_set = mean ? mean : 1;
    mark->messages = mark_for(mark->bytes, mean);
    return mark->messages != before;
}
