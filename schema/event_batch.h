/* SPDX-License-Identifier: Apache-2.0 */
/* event_batch.h - what a message of any publisher has around its events: three
 * frames, numbers with bounds, and the header of the events.
 *
 * Each names the fault and leaves the walk where it stands.
 * Threads: pure functions.
 */
#ifndef EVENT_BATCH_H
#define EVENT_BATCH_H
#include "event_walk.h"

/* Judges the frames; the sequence number is noted in *fault as soon as it can
 * be read. */
MC_CHECK_RESULT enum mc_event_error
event_batch_frames(const struct mc_view *frames, size_t frame_count,
                   struct mc_event_fault *fault);

/* An integer of the batch, with the names of its two faults. */
MC_CHECK_RESULT bool event_batch_number(struct event_walk *walk, uint64_t max,
                                        enum mc_event_error type_fault,
                                        enum mc_event_error range_fault,
                                        uint64_t *number_out);

/* The header of the events: at most `capacity` of them. */
MC_CHECK_RESULT bool event_batch_events(struct event_walk *walk,
                                        size_t capacity, uint32_t *count_out);
#endif
