/* SPDX-License-Identifier: Apache-2.0 */
/* tool_play.h - shows a recording as tail would have shown it live: the
 * messages go through a subscriber, so that gaps, duplicates and refusals are
 * judged as they would have been.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_PLAY_H
#define TOOL_PLAY_H
#include "mc_view.h"
#include "tool.h"

struct tool_player;

/* TOOL_DONE, or TOOL_FAILED after a line on stderr. */
int tool_player_open(const struct tool_args *args,
                     struct tool_player **player_out);
/* Prints the summary. NULL is fine. */
void tool_player_close(struct tool_player *player);

/* --count was reached: no further line comes. */
bool tool_player_is_ended(const struct tool_player *player);

int tool_player_message(struct tool_player *player,
                        const struct mc_view *frames, size_t count);

#endif
