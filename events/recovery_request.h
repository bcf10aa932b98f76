/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_request.h - reads what is asked of the recovery server.
 *
 * Words are compared before a frame is read as a number: "snapshot" has eight
 * bytes too. Whatever is none of the requests is malformed, and means nothing.
 * Threads: pure functions, any thread.
 */
#ifndef RECOVERY_REQUEST_H
#define RECOVERY_REQUEST_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_view.h"

enum mci_recovery_kind {
    MCI_RECOVERY_MALFORMED = 0,
    MCI_RECOVERY_REPLAY,
    MCI_RECOVERY_SNAPSHOT,
    MCI_RECOVERY_STATUS,
    MCI_RECOVERY_CREDIT
};

/* The longest frame that is part of a request, and how many there are. */
#define MCI_RECOVERY_FRAME_MAX 64
#define MCI_RECOVERY_PARTS_MAX 3

struct mci_recovery_request {
    enum mci_recovery_kind kind;
    uint64_t start; /* replay: the first number wanted */
    bool is_paced;  /* replay: it came with credit */
    uint32_t credit;
    struct mc_view tenant; /* snapshot; none: all. Borrowed from the frame */
};

/* Frames as they came, the empty delimiter first. */
void mci_recovery_request_read(const struct mc_view *frames, size_t count,
                               struct mci_recovery_request *request_out);
#endif
