/* SPDX-License-Identifier: Apache-2.0 */
#include "kept.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_bytes.h"

void kept_init(struct kept *kept, size_t max_bytes)
{
    memset(kept, 0, sizeof *kept);
    mci_list_init(&kept->messages);
    kept->max_bytes = max_bytes;
}

void kept_empty(struct kept *kept)
{
    struct kept_message *message;
    while ((message = kept_take(kept))) {
        kept_free(message);
    }
    kept->is_full = false;
}

/* False if it is more than there can be. */
static bool measure(const struct mc_view *frames, size_t count, size_t *len_out)
{
    *len_out = sizeof(struct kept_message);
    for (size_t i = 0; i < count; i++) {
        if (!mci_add_size(*len_out, frames[i].len, len_out)) {
            return false;
        }
    }
    return true;
}

static void copy(struct kept_message *message, const struct mc_view *frames,
                 size_t count)
{
    char *bytes = message->data;
    message->count = count;
    for (size_t i = 0; i < count; i++) {
        if (frames[i].len > 0) {
            memcpy(bytes, frames[i].data, frames[i].len);
        }
        message->frames[i] = mc_view_make(bytes, frames[i].len);
        bytes += frames[i].len;
    }
}

void kept_add(struct kept *kept, const struct mc_view *frames, size_t count)
{
    size_t len = 0;
    count = count < KEPT_FRAMES ? count : KEPT_FRAMES;
    bool has_room = !kept->is_full && measure(frames, count, &len) &&
                    len <= kept->max_bytes - kept->bytes;
    struct kept_message *message = has_room ? mci_alloc(len) : NULL;
    if (!message) {
        kept->is_full = true;
        return;
    }
    message->bytes = len;
    copy(message, frames, count);
    mci_list_push_back(&kept->messages, &message->link);
    kept->bytes += len;
}

struct kept_message *kept_take(struct kept *kept)
{
    if (mci_list_is_empty(&kept->messages)) {
        return NULL;
    }
    struct kept_message *message =
        MCI_CONTAINER(kept->messages.next, struct kept_message, link);
    mci_list_remove(&message->link);
    kept->bytes -= message->bytes;
    return message;
}

void kept_free(struct kept_message *message)
{
    mci_free(message);
}
