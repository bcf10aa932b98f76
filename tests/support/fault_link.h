/* SPDX-License-Identifier: Apache-2.0 */
/* fault_link.h - a bad link between an embedded client and the store in it.
 *
 * Stands in the place of the client's link and hands on to it. Calls of the
 * thread that put it there go through as they are; those of others are counted,
 * and a rule says what becomes of the next ones of one kind.
 * Threads: any thread, but open and close.
 */
#ifndef FAULT_LINK_H
#define FAULT_LINK_H
#include "mci_control.h"
#include "mci_link.h"

struct fault_link;
struct mc_client;

enum fault_what {
    FAULT_HOLD,       /* waits until it is lifted */
    FAULT_LOSE,       /* is not done, and answers -901 */
    FAULT_LOSE_ANSWER /* is done, and answers -901 */
};

struct fault_link *fault_link_open(struct mc_client *client);
void fault_link_close(struct fault_link *link); /* no call is under way */

/* count 0: all. Of GET, PUT_START, PUT_END, PUT_REVOKE, PROBE, one of each. Hits
 * are those of the last one. */
void fault_link_rule(struct fault_link *link, enum mci_op op,
                     enum fault_what what, unsigned count);
unsigned fault_link_hits(struct fault_link *link);
void fault_link_lift(struct fault_link *link);
uint64_t fault_link_calls(struct fault_link *link); /* those that are counted */
#endif
