/* SPDX-License-Identifier: Apache-2.0 */
/* event_peer.h - a second opinion on a store's message: msgpack-c takes it
 * apart, and the rules of docs/events.md are held against the objects, one after
 * the other and with no thought of speed.
 */
#ifndef EVENT_PEER_H
#define EVENT_PEER_H
#include "mc_event.h"

/* Reads the payload with both readers and compares: whether the message is
 * taken, which events are, and every value that is handed on. Returns NULL if
 * they agree, else what they do not agree about; *taken_out counts events that
 * both took. events lends room for `capacity` of them. */
const char *event_peer_compare(struct mc_view payload, struct mc_event *events,
                               size_t capacity, size_t *taken_out);
#endif
