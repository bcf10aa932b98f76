/* SPDX-License-Identifier: Apache-2.0 */
/* tool_session.h - an index for those who ask about sessions: of what can be read
 * now, filled from a store's snapshot or from the history that an engine keeps;
 * or fed by the stream as it comes, with --endpoint or --every.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_SESSION_H
#define TOOL_SESSION_H
#include "mc_index.h"
#include "tool.h"
#include "tool_line.h"
#include "tool_live.h"

#define TOOL_SESSION_TENANT "default"

struct tool_sessions {
    const struct tool_args *args;
    struct mc_index *index;
    struct mc_index_reader *reader;
    struct tool_live live; /* zeroed: the index stands still */
};

/* Answers from the index; a line on stderr where it is not TOOL_DONE. */
typedef int (*tool_sessions_fn)(struct tool_sessions *sessions, void *ctx);

/* Fills the index, has it answer, with --every again and again until the process
 * is told to end, which is a good end then; what was left out of the index is said
 * on stderr. The exit code. */
int tool_sessions_run(const struct tool_args *args, tool_sessions_fn answer,
                      void *ctx);

/* What of a session is held where, sorted by owner and tier: places that the
 * caller frees, NULL without memory. */
struct mc_index_place *tool_sessions_places(struct tool_sessions *sessions,
                                            struct mc_view tenant,
                                            struct mc_view session,
                                            size_t *count_out);

/* JSON: "resident": [{"owner","tier","blocks","prefix"}, ...]. */
void tool_sessions_json(struct tool_line *line,
                        const struct mc_index_place *places, size_t count);
#endif
