/* SPDX-License-Identifier: Apache-2.0 */
/* mc_session.h - session ids: who a cache block was written for.
 *
 * A session id is valid UTF-8 of at most MC_SESSION_ID_LEN_MAX bytes; NUL is
 * legal, so ids are views and never C strings. An empty id is no id. A vector
 * of ids belongs to a list of keys, one per key.
 * Threads: pure functions.
 */
#ifndef MC_SESSION_H
#define MC_SESSION_H
#include "mc_err.h"
#include "mc_limits.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors: MC_ERR_INVALID_PARAMS if too long or not UTF-8. "None" and empty are
 * fine. */
MC_CHECK_RESULT enum mc_err mc_session_id_check(struct mc_view session_id);

/* Checks a whole vector before any of it is used. ids == NULL: no tags, fine.
 * Errors: MC_ERR_INVALID_PARAMS if id_count differs from key_count or any id
 * is bad. */
MC_CHECK_RESULT enum mc_err mc_session_ids_check(const struct mc_view *ids,
                                                 size_t id_count,
                                                 size_t key_count);

#ifdef __cplusplus
}
#endif
#endif
