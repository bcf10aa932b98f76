/* SPDX-License-Identifier: Apache-2.0 */
#include "event_walk.h"

static void check_text(struct event_walk *walk, const struct token *token)
{
    if (walk->error == MC_EVENT_OK &&
        !event_text_is_valid(token->body, token->value)) {
        event_walk_error(walk, MC_EVENT_ERROR_UTF8, walk->at);
    }
}

/* The elements of the container at hand; false on a fault. */
static bool count_elements(struct event_walk *walk, const struct token *token,
                           unsigned depth, uint64_t *count_out)
{
    if (depth > MC_EVENT_DEPTH_MAX) {
        return event_walk_fault(walk, MC_EVENT_ERROR_DEPTH, walk->at);
    }
    if (!token_can_follow(token, walk->end)) {
        return event_walk_truncated(walk);
    }
    *count_out = token->kind == TOKEN_MAP ? token->value * 2 : token->value;
    return true;
}

bool event_walk_skip(struct event_walk *walk, unsigned depth)
{
    /* What is still to come at each depth; the value itself at the first. */
    uint64_t left[MC_EVENT_DEPTH_MAX + 2];
    unsigned level = depth;
    left[level] = 1;
    for (;;) {
        while (left[level] == 0) {
            if (level == depth) {
                return true;
            }
            level--;
        }
        left[level]--;
        struct token token;
        if (!event_walk_token(walk, &token)) {
            return false;
        }
        if (token.kind == TOKEN_STR) {
            check_text(walk, &token);
        } else if (token.kind >= TOKEN_ARRAY) {
            uint64_t count;
            if (!count_elements(walk, &token, level, &count)) {
                return false;
            }
            level++;
            left[level] = count;
        }
        walk->at = token_end(&token);
    }
}

bool event_walk_unknown(struct event_walk *walk, const struct token *name,
                        unsigned depth)
{
    check_text(walk, name);
    walk->at = token_end(name);
    return event_walk_skip(walk, depth);
}
