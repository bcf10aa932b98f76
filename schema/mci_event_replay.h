/* SPDX-License-Identifier: Apache-2.0 */
/* mci_event_replay.h - one answer to a replay request, as a DEALER gets it.
 *
 * Two layouts are in the field: ["", seq, payload] (SGLang, vLLM up to 0.25)
 * and ["", topic, seq, payload] (vLLM from 0.26, and ours). An empty payload
 * ends the replay, whatever its number.
 * Threads: a pure function.
 */
#ifndef MCI_EVENT_REPLAY_H
#define MCI_EVENT_REPLAY_H
#include "mc_event.h"

#define MCI_REPLAY_SEQ_END UINT64_MAX

struct mci_replay_answer {
    bool is_end;
    uint64_t seq;             /* MCI_REPLAY_SEQ_END at an end as published */
    struct mc_view frames[3]; /* as the stream sends it: topic, seq, payload */
};

/* Views are those of `frames`. Errors, *answer_out untouched: _FRAME_COUNT
 * (neither layout, or no empty delimiter), _SEQ_SIZE. The payload is not looked
 * at. */
MC_CHECK_RESULT enum mc_event_error
mci_event_replay_parse(const struct mc_view *frames, size_t frame_count,
                       struct mci_replay_answer *answer_out);
#endif
