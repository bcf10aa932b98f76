/* SPDX-License-Identifier: Apache-2.0 */
/* client_put_fill.h - what a put session gets at its end: zeros for what it has
 * not written, so that no reader finds what the space held before, and its sums.
 * Threads: by who ends the session.
 */
#ifndef CLIENT_PUT_FILL_H
#define CLIENT_PUT_FILL_H
#include "client_move.h"
#include "client_sessions.h"

/* The session is sealed and nothing of it is on its way. Errors: -800 (it may be
 * in doubt by now), -11. */
MC_CHECK_RESULT enum mc_err mci_put_session_fill(struct mci_mover *mover,
                                                 struct mc_put_session *session,
                                                 uint64_t deadline_ns);

/* The sums of its blocks, behind them; after its holes are filled. Errors: as
 * above. */
MC_CHECK_RESULT enum mc_err
mci_put_session_place_sums(struct mci_mover *mover,
                           struct mc_put_session *session,
                           uint64_t deadline_ns);
#endif
