/* SPDX-License-Identifier: Apache-2.0 */
/* mci_client.h - the inside of a client, for tests and benchmarks.
 *
 * A client without a publisher has an event log all the same, of the capacity
 * and policy in opts.events; whoever attaches to it takes the publisher's place.
 * Threads: any thread; what is returned lives as long as the client.
 */
#ifndef MCI_CLIENT_H
#define MCI_CLIENT_H
#include "mc_client.h"
#include "mci_event_log.h"
#include "mci_master.h"

struct mci_event_log *mci_client_log(struct mc_client *client);
struct mci_master *mci_client_master(struct mc_client *client);

/* Both are NULL with a master process, and this one with an embedded store. */
struct mci_outside;
struct mci_outside *mci_client_outside(struct mc_client *client);
#endif
