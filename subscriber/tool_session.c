/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_session.h"

#include <inttypes.h>
#include <stdlib.h>

/* A head with its chain, root first. */
struct chain {
    uint64_t head;
    bool is_rooted;
    uint64_t *hashes;
    size_t count;
};

struct session {
    struct tool_sessions *sessions;
    struct mc_view tenant;
    struct mc_view name;
    uint64_t *heads;
    size_t head_count;
    struct mc_index_place *places;
    size_t place_count;
    struct tool_line line;
};

static bool chain_read(struct session *session, uint64_t head,
                       struct chain *chain_out)
{
    struct mc_index_reader *reader = session->sessions->reader;
    struct chain chain = {.head = head};
    chain.count = mc_index_chain(reader, session->tenant, head, NULL, 0,
                                 &chain.is_rooted);
    chain.hashes = calloc(chain.count + 1, sizeof *chain.hashes);
    if (!chain.hashes) {
        return false;
    }
    (void)mc_index_chain(reader, session->tenant, head, chain.hashes,
                         chain.count, NULL);
    *chain_out = chain;
    return true;
}

static void json_chain(struct tool_line *line, const struct chain *chain)
{
    tool_line_open(line, NULL, '{');
    tool_line_number(line, "head", chain->head);
    tool_line_bool(line, "rooted", chain->is_rooted);
    tool_line_open(line, "lineage", '[');
    for (size_t i = 0; i < chain->count; i++) {
        tool_line_number(line, NULL, chain->hashes[i]);
    }
    tool_line_close(line, ']');
    tool_line_close(line, '}');
}

static void table_chain(struct tool_line *line, const struct chain *chain)
{
    tool_line_format(line, "\nhead %016" PRIx64 "  %zu blocks%s", chain->head,
                     chain->count,
                     chain->is_rooted ? "" : ", what precedes them is unknown");
}

/* False without memory. */
static bool add_chains(struct session *session, bool is_json)
{
    for (size_t i = 0; i < session->head_count; i++) {
        struct chain chain;
        if (!chain_read(session, session->heads[i], &chain)) {
            return false;
        }
        if (is_json) {
            json_chain(&session->line, &chain);
        } else {
            table_chain(&session->line, &chain);
        }
        free(chain.hashes);
    }
    return true;
}

static bool json_session(struct session *session)
{
    struct tool_line *line = &session->line;
    tool_line_open(line, NULL, '{');
    tool_line_text(line, "tenant_id", session->tenant);
    tool_line_text(line, "session_id", session->name);
    tool_line_open(line, "heads", '[');
    bool is_whole = add_chains(session, true);
    tool_line_close(line, ']');
    tool_sessions_json(line, session->places, session->place_count);
    tool_line_close(line, '}');
    return is_whole;
}

static bool table_session(struct session *session)
{
    struct tool_line *line = &session->line;
    tool_line_add(line, "session ");
    tool_line_safe(line, session->name);
    tool_line_add(line, " of tenant ");
    tool_line_safe(line, session->tenant);
    bool is_whole = add_chains(session, false);
    for (size_t i = 0; i < session->place_count; i++) {
        const struct mc_index_place *place = &session->places[i];
        tool_line_add(line, "\n");
        tool_line_safe(line, place->owner);
        tool_line_format(
            line,
            " %s  %" PRIu64 " blocks, %" PRIu64 " of them from the first on",
            mc_tier_name(place->tier), place->blocks, place->prefix);
    }
    return is_whole;
}

/* False without memory. */
static bool read_session(struct session *session)
{
    struct mc_index_reader *reader = session->sessions->reader;
    session->head_count =
        mc_index_heads(reader, session->tenant, session->name, NULL, 0);
    session->heads = calloc(session->head_count + 1, sizeof *session->heads);
    if (!session->heads) {
        return false;
    }
    (void)mc_index_heads(reader, session->tenant, session->name, session->heads,
                         session->head_count);
    session->places =
        tool_sessions_places(session->sessions, session->tenant, session->name,
                             &session->place_count);
    return session->places != NULL;
}

static int show(struct session *session)
{
    const struct tool_args *args = session->sessions->args;
    bool is_whole = read_session(session);
    if (is_whole && session->head_count == 0 && !args->has_every) {
        return tool_fail(args->command, "%s: no such session in tenant %.*s",
                         args->operand, (int)session->tenant.len,
                         (const char *)session->tenant.data);
    }
    if (is_whole) {
        is_whole = args->json ? json_session(session) : table_session(session);
    }
    if (!is_whole || session->line.is_failed) {
        return tool_fail(args->command, "out of memory");
    }
    (void)tool_line_write(&session->line, stdout);
    return TOOL_DONE;
}

static int answer(struct tool_sessions *sessions, void *ctx)
{
    const struct tool_args *args = sessions->args;
    struct session session = {
        .sessions = sessions,
        .tenant =
            mc_view_str(args->tenant ? args->tenant : TOOL_SESSION_TENANT),
        .name = mc_view_str(args->operand)};
    (void)ctx;
    int code = show(&session);
    free(session.heads);
    free(session.places);
    tool_line_fini(&session.line);
    return code;
}

static int run(const struct tool_args *args)
{
    return tool_sessions_run(args, answer, NULL);
}

const struct tool_command tool_session = {
    .name = "session",
    .operands = "ID",
    .operand_min = 1,
    .operand_max = 1,
    .options = TOOL_ENDPOINT | TOOL_TOPIC | TOOL_ASK | TOOL_PROFILE |
               TOOL_TENANT | TOOL_LAYOUT | TOOL_AGAIN | TOOL_JSON,
    .summary = "how far a session reached, and what of it waits where",
    .explanation =
        "Fills an index from a snapshot of the store, or with --profile "
        "engine\n"
        "from what an engine keeps for replay, and asks it: the deepest "
        "blocks\n"
        "(heads) with the chains that lead to them, and per owner and tier "
        "how\n"
        "many blocks are held and how many of them without a hole from the\n"
        "first on. Keys are of --layout (u64). A store knows no chains: each\n"
        "of its blocks is a head of its own. With --endpoint or --every the\n"
        "index is fed by the stream, with recovery.",
    .example = "mc-events session agent-7 --layout sglang:mha:tp=2 --json",
    .run = run,
};
