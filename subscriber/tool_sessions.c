/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool_session.h"

#define TOP_DEFAULT 20

/* A session with names of its own. */
struct row {
    char *text; /* tenant, session */
    size_t tenant_len;
    size_t session_len;
    uint64_t heads;
    uint64_t blocks;
};

struct rows {
    struct row *rows;
    size_t count;
    size_t capacity;
    bool is_failed;
};

static struct mc_view tenant_of(const struct row *row)
{
    return mc_view_make(row->text, row->tenant_len);
}

static struct mc_view session_of(const struct row *row)
{
    return mc_view_make(row->text + row->tenant_len, row->session_len);
}

static bool grow(struct rows *rows)
{
    size_t capacity = rows->capacity ? 2 * rows->capacity : 256;
    struct row *grown = realloc(rows->rows, capacity * sizeof *grown);
    if (grown) {
        rows->rows = grown;
        rows->capacity = capacity;
    }
    return grown != NULL;
}

static bool on_session(void *ctx, const struct mc_index_session *session)
{
    struct rows *rows = ctx;
    struct row row = {.tenant_len = session->tenant.len,
                      .session_len = session->session.len,
                      .heads = session->heads,
                      .blocks = session->blocks};
    row.text = malloc(row.tenant_len + row.session_len + 1);
    if (!row.text || (rows->count == rows->capacity && !grow(rows))) {
        free(row.text);
        rows->is_failed = true;
        return false;
    }
    memcpy(row.text, session->tenant.data, row.tenant_len);
    memcpy(row.text + row.tenant_len, session->session.data, row.session_len);
    rows->rows[rows->count++] = row;
    return true;
}

static int compare_views(struct mc_view a, struct mc_view b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* The largest first; of the same size by name. */
static int compare(const void *left, const void *right)
{
    const struct row *a = left;
    const struct row *b = right;
    if (a->blocks != b->blocks) {
        return a->blocks < b->blocks ? 1 : -1;
    }
    int order = compare_views(tenant_of(a), tenant_of(b));
    return order ? order : compare_views(session_of(a), session_of(b));
}

static void json_row(struct tool_line *line, const struct row *row,
                     const struct mc_index_place *places, size_t count)
{
    tool_line_open(line, NULL, '{');
    tool_line_text(line, "tenant_id", tenant_of(row));
    tool_line_text(line, "session_id", session_of(row));
    tool_line_number(line, "heads", row->heads);
    tool_line_number(line, "blocks", row->blocks);
    tool_sessions_json(line, places, count);
    tool_line_close(line, '}');
}

static void table_row(struct tool_line *line, const struct row *row,
                      const struct mc_index_place *places, size_t count)
{
    tool_line_format(line, "%8" PRIu64 " %6" PRIu64 "  ", row->blocks,
                     row->heads);
    tool_line_safe(line, session_of(row));
    if (!mc_view_equal(tenant_of(row), mc_view_str(TOOL_SESSION_TENANT))) {
        tool_line_add(line, " tenant=");
        tool_line_safe(line, tenant_of(row));
    }
    for (size_t i = 0; i < count; i++) {
        tool_line_add(line, " ");
        tool_line_safe(line, places[i].owner);
        tool_line_format(line, "/%s=%" PRIu64, mc_tier_name(places[i].tier),
                         places[i].blocks);
    }
}

static int show_row(struct tool_sessions *sessions, struct tool_line *line,
                    const struct row *row)
{
    size_t count = 0;
    struct mc_index_place *places =
        tool_sessions_places(sessions, tenant_of(row), session_of(row), &count);
    if (places && sessions->args->json) {
        json_row(line, row, places, count);
    } else if (places) {
        table_row(line, row, places, count);
    }
    bool is_whole = places && !line->is_failed;
    free(places);
    if (!is_whole) {
        return tool_fail(sessions->args->command, "out of memory");
    }
    (void)tool_line_write(line, stdout);
    return TOOL_DONE;
}

static int show(struct tool_sessions *sessions, const struct rows *rows)
{
    const struct tool_args *args = sessions->args;
    uint64_t top = args->has_top ? args->top : TOP_DEFAULT;
    struct tool_line line = {0};
    int code = TOOL_DONE;
    if (args->json && args->has_every) {
        tool_line_open(&line, NULL, '{');
        tool_line_number(&line, "sessions", rows->count);
        tool_line_close(&line, '}');
        (void)tool_line_write(&line, stdout);
    }
    if (!args->json) {
        tool_line_format(&line, "%8s %6s  %s", "BLOCKS", "HEADS",
                         "SESSION, then what of it is held where");
        (void)tool_line_write(&line, stdout);
    }
    for (size_t i = 0; code == TOOL_DONE && i < rows->count && i < top; i++) {
        code = show_row(sessions, &line, &rows->rows[i]);
    }
    if (!args->has_every) {
        tool_say(args->command, "%zu sessions", rows->count);
    }
    tool_line_fini(&line);
    return code;
}

static int answer_rows(struct tool_sessions *sessions, struct rows *rows)
{
    const struct tool_args *args = sessions->args;
    struct mc_view tenant =
        args->tenant ? mc_view_str(args->tenant) : mc_view_make(NULL, 0);
    enum mc_err err =
        mc_index_sessions(sessions->reader, tenant, on_session, rows);
    if (err || rows->is_failed) {
        return tool_fail(args->command, "out of memory");
    }
    if (rows->count > 0) {
        qsort(rows->rows, rows->count, sizeof *rows->rows, compare);
    }
    return show(sessions, rows);
}

static int answer(struct tool_sessions *sessions, void *ctx)
{
    struct rows rows = {0};
    (void)ctx;
    int code = answer_rows(sessions, &rows);
    for (size_t i = 0; i < rows.count; i++) {
        free(rows.rows[i].text);
    }
    free(rows.rows);
    return code;
}

static int run(const struct tool_args *args)
{
    return tool_sessions_run(args, answer, NULL);
}

const struct tool_command tool_sessions = {
    .name = "sessions",
    .operands = "",
    .options = TOOL_ENDPOINT | TOOL_TOPIC | TOOL_ASK | TOOL_PROFILE |
               TOOL_TENANT | TOOL_TOP | TOOL_LAYOUT | TOOL_AGAIN | TOOL_JSON,
    .summary = "the sessions whose blocks wait somewhere, the largest first",
    .explanation =
        "As session, for all of them: how many blocks and heads each has, and\n"
        "how many of its blocks each owner holds in which tier. With --every\n"
        "the table is drawn again until it is told to end.",
    .example = "mc-events sessions --top 5 --every 1s --layout u64",
    .run = run,
};
