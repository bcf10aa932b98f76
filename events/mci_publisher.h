/* SPDX-License-Identifier: Apache-2.0 */
/* mci_publisher.h - the thread that carries events from the log to a socket.
 *
 * With an endpoint for recovery each message enters a history before it is sent,
 * and a server answers who asks for it again, from create plus serve on.
 *
 * It is the log's consumer from create to destroy: takes records, makes batches
 * of them, writes each as one message of three frames and sends it on an XPUB
 * socket that it alone touches. Sending never waits: libzmq drops for a
 * subscriber whose queue is at the mark, and the subscriber sees the gap.
 *
 * Nothing leaves before the first subscription is seen, or a second has passed:
 * a subscriber that was there first gets the epoch from its first event on.
 * What was sent before a subscriber joined is not repeated to it.
 *
 * Threads: any thread; destroy when nobody else uses it any more.
 */
#ifndef MCI_PUBLISHER_H
#define MCI_PUBLISHER_H
#include "mci_event_log.h"
#include "mci_snapshot.h"

struct mci_publisher;

/* True if the options ask for publishing. */
bool mci_publisher_is_wanted(const struct mc_publisher_opts *opts);

/* Judges options without touching anything, with a log line naming what is
 * wrong; create does so too. Errors: MC_ERR_INVALID_PARAMS (no endpoint, no
 * backend id, one of the strings too long or not UTF-8, queue_capacity under
 * the minimum and not 0, a layout that is none). */
MC_CHECK_RESULT enum mc_err
mci_publisher_check(const struct mc_publisher_opts *opts);

/* Binds, attaches to the log and starts. The log is borrowed and must outlive
 * the publisher; on failure it has no consumer. Errors: those of check,
 * MC_ERR_INVALID_PARAMS (cannot bind; the log line names endpoint and cause),
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (the log has a consumer),
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_publisher_create(const struct mc_publisher_opts *opts,
                     struct mci_event_log *log,
                     struct mci_publisher **publisher_out);

/* Binds the recovery server, if the options named an endpoint for it, and lets
 * it answer: before anybody else uses the publisher. Of the source it asks as
 * long as the publisher lives, on a thread of its own. Errors:
 * MC_ERR_INVALID_PARAMS (cannot bind; the log line names endpoint and cause),
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_publisher_serve(struct mci_publisher *publisher,
                    const struct mci_snapshot_source *source, void *ctx);

/* Sends what is in the log, gives subscribers time to fetch it, closes, joins
 * and detaches: within 2 s, whatever subscribers do. NULL is fine. */
void mci_publisher_destroy(struct mci_publisher *publisher);

/* Every counter as of about now. */
void mci_publisher_stats(struct mci_publisher *publisher,
                         struct mc_publisher_stats *stats_out);
#endif
