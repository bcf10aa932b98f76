/* SPDX-License-Identifier: Apache-2.0 */
/* The messages go through a subscriber, as those of a recording do, so what they
 * say together (gaps, refusals, a new epoch) is judged as it would have been
 * live. */
#include <inttypes.h>
#include <string.h>

#include "tool_ask.h"
#include "tool_play.h"

struct replay {
    const struct tool_args *args;
    struct tool_ask ask;
    struct tool_player *player;
    uint64_t from;
    uint64_t to; /* the last one wanted */
    uint64_t messages;
};

/* "FROM", "FROM..", "FROM..TO". */
static bool range_read(const char *text, struct replay *replay)
{
    char from[32];
    const char *dots = strstr(text, "..");
    size_t len = dots ? (size_t)(dots - text) : strlen(text);
    if (len >= sizeof from) {
        return false;
    }
    memcpy(from, text, len);
    from[len] = '\0';
    replay->to = UINT64_MAX;
    return tool_number_parse(from, UINT64_MAX, &replay->from) &&
           (!dots || !dots[2] ||
            (tool_number_parse(dots + 2, UINT64_MAX, &replay->to) &&
             replay->from <= replay->to));
}

/* A store numbers its messages from 1 on, so 0 asks for all that are kept. */
static void look_at_first(const struct replay *replay, uint64_t number)
{
    if (replay->messages == 0 && number > replay->from && replay->from > 0) {
        tool_say(replay->args->command,
                 "%s: message %" PRIu64 " is the oldest of these that is kept",
                 replay->args->recovery, number);
    }
}

static int play(struct replay *replay)
{
    struct mc_answer answer;
    while (!tool_is_unread() && !tool_player_is_ended(replay->player)) {
        int code = tool_ask_next(&replay->ask, &answer);
        if (code != TOOL_DONE || answer.type == MC_ANSWER_END) {
            return code;
        }
        look_at_first(replay, answer.number);
        if (answer.number > replay->to) {
            return TOOL_DONE;
        }
        replay->messages++;
        code = tool_player_message(replay->player, answer.frames,
                                   MC_ANSWER_FRAMES);
        if (code != TOOL_DONE || answer.number == replay->to) {
            return code;
        }
    }
    return TOOL_DONE;
}

static int run(const struct tool_args *args)
{
    struct replay replay = {.args = args};
    if (!range_read(args->operand, &replay)) {
        return tool_wrong_use(args->command,
                              "%s: is FROM or FROM..TO, numbers of messages",
                              args->operand);
    }
    uint32_t window = args->is_engine ? 0 : TOOL_ASK_WINDOW;
    int code = tool_ask_open(&replay.ask, args);
    if (code == TOOL_DONE) {
        code = tool_player_open(args, &replay.player);
    }
    if (code == TOOL_DONE) {
        code = tool_ask_begun(
            &replay.ask, mc_ask_replay(replay.ask.ask, replay.from, window));
    }
    if (code == TOOL_DONE) {
        code = play(&replay);
    }
    tool_player_close(replay.player);
    tool_ask_close(&replay.ask);
    return code;
}

const struct tool_command tool_replay = {
    .name = "replay",
    .operands = "FROM[..TO]",
    .operand_min = 1,
    .operand_max = 1,
    .options = TOOL_ASK | TOOL_PROFILE | TOOL_FILTER | TOOL_COUNT |
               TOOL_LAYOUT | TOOL_JSON,
    .summary = "what was published, from the recovery server's history",
    .explanation =
        "Prints the messages with these numbers as tail would have, gaps and\n"
        "all; to the newest one without TO, and from the oldest that is kept\n"
        "where FROM has gone. Engines (--profile engine) answer to it too.",
    .example = "mc-events replay 1000..1999 --type removed",
    .run = run,
};
