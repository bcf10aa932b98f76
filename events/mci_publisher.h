/* SPDX-License-Identifier: Apache-2.0 */
/* mci_publisher.h - the thread that carries events from the log to a socket.
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

struct mci_publisher;

/* True if the options ask for publishing. */
bool mci_publisher_is_wanted(const struct mc_publisher_opts *opts);

/* Judges options without touching anything, with a log line naming what is
 * wrong; create does so too. Errors: MC_ERR_INVALID_PARAMS (no endpoint, no
 * backend id, one of the strings too long or not UTF-8, queue_capacity under
 * the minimum and not 0), MC_ERR_NOT_SUPPORTED (replay_endpoint). */
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

/* Sends what is in the log, gives subscribers time to fetch it, closes, joins
 * and detaches: within 2 s, whatever subscribers do. NULL is fine. */
void mci_publisher_destroy(struct mci_publisher *publisher);

/* Every counter as of about now. */
void mci_publisher_stats(struct mci_publisher *publisher,
                         struct mc_publisher_stats *stats_out);
#endif
