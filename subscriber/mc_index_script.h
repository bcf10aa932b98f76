/* SPDX-License-Identifier: Apache-2.0 */
/* mc_index_script.h - a script of index operations and questions, line by line.
 *
 * A script is JSON lines: {"op":...} changes an index, {"q":...} asks it. Each
 * question has one answer line, formatted as Python's json.dumps prints it; an
 * operation has one where a chain was refused. {"op":"layout","layout":L,
 * "prefix":P} begins with an empty index. Exported lines (mc_index_export) are
 * operations too. Operations are the changing calls of mc_index.h by their names:
 * stored, removed, cleared, source_lost, engine_stored, engine_held,
 * engine_removed, engine_cleared, worker_lost, observe, session_end. Questions:
 * match, heads, lineage, resident, sessions_of.
 *
 * Threads: one thread at a time.
 */
#ifndef MC_INDEX_SCRIPT_H
#define MC_INDEX_SCRIPT_H
#include "mc_index.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_index_script;

/* opts: bounds of the indexes that layout lines make, its layout not looked at;
 * NULL = the defaults. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mc_index_script_create(const struct mc_index_opts *opts,
                       struct mc_index_script **script_out);
void mc_index_script_destroy(struct mc_index_script *script);

/* Carries out one line; a line of white space does nothing. *answer_out is the
 * answer without a line feed, valid until the next call, or a none view where
 * there is none. Errors: MC_ERR_INVALID_PARAMS (not such a line, or none of a
 * layout came before it; mc_index_script_fault says what is wrong with it, and
 * nothing changed), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mc_index_script_line(struct mc_index_script *script,
                                                 struct mc_view line,
                                                 struct mc_view *answer_out);

/* What was wrong with the last line, in words; valid until the next call. */
const char *mc_index_script_fault(const struct mc_index_script *script);

/* The index that the last layout line made; NULL before one. Borrowed. */
struct mc_index *mc_index_script_index(struct mc_index_script *script);

#ifdef __cplusplus
}
#endif
#endif
