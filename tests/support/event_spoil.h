/* SPDX-License-Identifier: Apache-2.0 */
/* event_spoil.h - messages of a store with one field of one event made wrong,
 * by msgpack-c, and what a strict reader must call it.
 */
#ifndef EVENT_SPOIL_H
#define EVENT_SPOIL_H
#include "mc_event.h"
#include "mci_buf.h"

#define EVENT_SPOIL_FIELDS 22 /* that a store's events have */

enum event_spoil_how {
    EVENT_SPOIL_TYPE,  /* of a type that it may not have */
    EVENT_SPOIL_VALUE, /* of its type, and no value of it */
    EVENT_SPOIL_NIL,
    EVENT_SPOIL_GONE,
    EVENT_SPOIL_TWICE,
    EVENT_SPOIL_HOWS
};

const char *event_spoil_field(unsigned field);

/* The fault to be named; MC_EVENT_OK: the field may be so. */
enum mc_event_error event_spoil_error(unsigned field, enum event_spoil_how how);

/* Writes the payload to out, event `at` of it spoilt; false: it has no such
 * field. */
bool event_spoil(struct mc_view payload, uint32_t at, unsigned field,
                 enum event_spoil_how how, struct mci_buf *out);
#endif
