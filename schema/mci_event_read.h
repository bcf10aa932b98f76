/* SPDX-License-Identifier: Apache-2.0 */
/* mci_event_read.h - the reader with its shortcut switched off, for tests. */
#ifndef MCI_EVENT_READ_H
#define MCI_EVENT_READ_H
#include "mc_event.h"

/* mc_event_read, every event read in full and none by its likeness to an
 * earlier one. The outcome is the same. */
MC_CHECK_RESULT enum mc_event_error
mci_event_read_in_full(const struct mc_view *frames, size_t frame_count,
                       struct mc_event *events, size_t capacity,
                       struct mc_event_batch *batch_out,
                       struct mc_event_fault *fault_out);
#endif
