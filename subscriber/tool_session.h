/* SPDX-License-Identifier: Apache-2.0 */
/* tool_session.h - an index of what can be read now, for those who ask about
 * sessions: filled from a store's snapshot, or from the history that an engine
 * keeps.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_SESSION_H
#define TOOL_SESSION_H
#include "mc_index.h"
#include "tool.h"
#include "tool_line.h"

#define TOOL_SESSION_TENANT "default"

struct tool_sessions {
    const struct tool_args *args;
    struct mc_index *index;
    struct mc_index_reader *reader;
};

/* Asks, and fills the index; what was left out of it is said on stderr.
 * TOOL_DONE, or TOOL_FAILED after a line there. tool_sessions_close in any
 * case. */
int tool_sessions_open(struct tool_sessions *sessions,
                       const struct tool_args *args);
void tool_sessions_close(struct tool_sessions *sessions);

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
