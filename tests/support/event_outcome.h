/* SPDX-License-Identifier: Apache-2.0 */
/* event_outcome.h - reads a message in both ways, and says in a line what came
 * of it, in the words of event_model.py.
 */
#ifndef EVENT_OUTCOME_H
#define EVENT_OUTCOME_H
#include "mc_event.h"
#include "mci_buf.h"

/* The two readings must be equal in everything. */
void event_outcome(const struct mc_view *frames, size_t count,
                   struct mci_buf *line_out);

/* The same for a payload in frames that are otherwise good; it is copied to a
 * block of its own size. */
void event_outcome_of(const void *payload, size_t len,
                      struct mci_buf *line_out);
#endif
