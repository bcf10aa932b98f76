/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_event_replay.h"

#include "mci_bytes.h"

enum mc_event_error mci_event_replay_parse(const struct mc_view *frames,
                                           size_t frame_count,
                                           struct mci_replay_answer *answer_out)
{
    if ((frame_count != 3 && frame_count != 4) || frames[0].len != 0) {
        return MC_EVENT_ERROR_FRAME_COUNT;
    }
    struct mc_view seq = frames[frame_count - 2];
    struct mc_view payload = frames[frame_count - 1];
    if (seq.len != 8) {
        return MC_EVENT_ERROR_SEQ_SIZE;
    }
    answer_out->frames[0] = frame_count == 4 ? frames[1] : mc_view_make("", 0);
    answer_out->frames[1] = seq;
    answer_out->frames[2] = payload;
    answer_out->seq = mci_get_be64(seq.data);
    answer_out->is_end = payload.len == 0;
    return MC_EVENT_OK;
}
