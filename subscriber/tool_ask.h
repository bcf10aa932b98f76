/* SPDX-License-Identifier: Apache-2.0 */
/* tool_ask.h - a question to the recovery server that --recovery names, and its
 * answers, with all that can go wrong said on stderr.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_ASK_H
#define TOOL_ASK_H
#include "mc_ask.h"
#include "tool.h"

/* How many messages of a replay are on their way at most. */
#define TOOL_ASK_WINDOW 256

struct tool_ask {
    const struct tool_args *args;
    struct mc_ask *ask;
};

/* Each: TOOL_DONE, or TOOL_FAILED after a line on stderr. */
int tool_ask_open(struct tool_ask *ask, const struct tool_args *args);
void tool_ask_close(struct tool_ask *ask); /* zeroed is fine */

/* What mc_ask_status and the like answered. */
int tool_ask_begun(const struct tool_ask *ask, enum mc_err err);

/* Whether it is an answer at all, and no refusal. */
int tool_ask_judge(const struct tool_ask *ask, const struct mc_answer *answer);

/* Waits for the next answer, which is none that is bad or a refusal; what is on
 * stdout is flushed before a wait. No answer within --timeout, and being told to
 * end, are failures. */
int tool_ask_next(struct tool_ask *ask, struct mc_answer *answer_out);

#endif
