/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "tool_show.h"

#define HASHES_SHOWN 4 /* of an event, in a table */

/* All of them; NULL, and the line failed, where there is no memory. */
static uint64_t *hashes_of(struct tool_line *line,
                           const struct mc_engine_event *event)
{
    size_t count = event->hash_count;
    uint64_t *hashes = malloc((count ? count : 1) * sizeof *hashes);
    if (!hashes) {
        line->is_failed = true;
        return NULL;
    }
    (void)mc_engine_event_hashes(event, hashes, count);
    return hashes;
}

static void json_hashes(struct tool_line *line,
                        const struct mc_engine_event *event)
{
    uint64_t *hashes = hashes_of(line, event);
    tool_line_open(line, "block_hashes", '[');
    for (uint32_t i = 0; hashes && i < event->hash_count; i++) {
        tool_line_number(line, NULL, hashes[i]);
    }
    tool_line_close(line, ']');
    free(hashes);
}

static void number_or_null(struct tool_line *line, const char *name,
                           bool is_there, uint64_t number)
{
    if (is_there) {
        tool_line_number(line, name, number);
    } else {
        tool_line_null(line, name);
    }
}

static void json_stored(struct tool_line *line,
                        const struct mc_engine_event *event)
{
    number_or_null(line, "parent_block_hash", event->has_parent, event->parent);
    tool_line_bool(line, "unordered", event->is_unordered);
    tool_line_number(line, "token_count", event->token_count);
    tool_line_number(line, "block_size", event->block_size);
    if (event->has_lora_id) {
        tool_line_integer(line, "lora_id", event->lora_id);
    } else {
        tool_line_null(line, "lora_id");
    }
    tool_line_text(line, "lora_name", event->lora_name);
    tool_line_text(line, "session_id", event->session_id);
    tool_line_text(line, "cache_salt", event->cache_salt);
    tool_line_text(line, "spec_kind", event->spec_kind);
    number_or_null(line, "sliding_window", event->sliding_window > 0,
                   event->sliding_window);
}

void tool_show_engine_fields(struct tool_line *line,
                             const struct mc_engine_event *event)
{
    tool_line_text(line, "event_type",
                   mc_view_str(mc_event_type_name(event->type)));
    if (event->type == MC_EVENT_CLEARED) {
        return;
    }
    json_hashes(line, event);
    tool_line_text(line, "medium", event->medium);
    number_or_null(line, "group_idx", event->has_group, event->group_idx);
    tool_line_text(line, "locality", event->locality);
    if (event->type == MC_EVENT_STORED) {
        json_stored(line, event);
    }
}

static void table_hashes(struct tool_line *line,
                         const struct mc_engine_event *event)
{
    uint64_t *hashes = hashes_of(line, event);
    uint32_t shown =
        event->hash_count < HASHES_SHOWN ? event->hash_count : HASHES_SHOWN;
    tool_line_format(line, " %" PRIu32 " blocks", event->hash_count);
    for (uint32_t i = 0; hashes && i < shown; i++) {
        tool_line_format(line, " %016" PRIx64, hashes[i]);
    }
    tool_line_add(line, event->hash_count > shown ? " ..." : "");
    free(hashes);
}

void tool_show_engine_columns(struct tool_line *line,
                              const struct mc_engine_event *event)
{
    tool_line_format(line, "%-7s ", mc_event_type_name(event->type));
    if (event->type == MC_EVENT_CLEARED) {
        return;
    }
    tool_line_safe(line, event->medium);
    table_hashes(line, event);
    if (event->has_parent) {
        tool_line_format(line, " parent=%016" PRIx64, event->parent);
    }
    if (event->has_group) {
        tool_line_format(line, " group=%" PRIu32, event->group_idx);
    }
    tool_show_named(line, "session", event->session_id);
    tool_show_named(line, "lora", event->lora_name);
    tool_show_named(line, "locality", event->locality);
}
