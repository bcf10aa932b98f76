/* SPDX-License-Identifier: Apache-2.0 */
/* store_rig_text.c - what a store did and what it holds, as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_rig.h"

/* ---- events ------------------------------------------------------------- */

static const char *lead_of(const struct mci_log_record *record)
{
    switch (record->type) {
    case MC_EVENT_STORED:
        return "+";
    case MC_EVENT_REMOVED:
        return "-";
    case MC_EVENT_CLEARED:
        return "!";
    default:
        return "?";
    }
}

static size_t add_view(char *text, size_t len, size_t max, const char *lead,
                       struct mc_view view)
{
    if (!view.data) {
        return len;
    }
    int wrote = snprintf(text + len, max - len, "%s%.*s", lead, (int)view.len,
                         (const char *)view.data);
    ck_assert_int_ge(wrote, 0);
    ck_assert_uint_lt(len + (size_t)wrote, max);
    return len + (size_t)wrote;
}

size_t rig_print_record(char *text, size_t len, size_t max,
                        const struct mci_log_record *record)
{
    len = add_view(text, len, max, lead_of(record), mc_view_str(""));
    if (record->type == MC_EVENT_CLEARED) {
        ck_assert_int_eq(record->medium, MC_MEDIUM_NONE);
        return add_view(text, len, max, "", record->tenant_id);
    }
    static const struct mc_view usual = {"default", 7};
    if (!mc_view_equal(record->tenant_id, usual)) {
        len = add_view(text, len, max, "", record->tenant_id);
        len = add_view(text, len, max, "/", mc_view_str(""));
    }
    len = add_view(text, len, max, "",
                   mc_view_str(mc_medium_name(record->medium)));
    len = add_view(text, len, max, ":", record->object_key);
    len = add_view(text, len, max, "#", record->session_id);
    return add_view(text, len, max, "@", record->group_id);
}

static void take_events(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->taken.count; i++) {
        const struct mci_log_record *record = &rig->taken.records[i];
        ck_assert_uint_eq(record->lost_before, 0);
        ck_assert_uint_eq(record->id, rig->last_id + 1);
        rig->last_id = record->id;
        rig->text_len = rig_print_record(rig->text, rig->text_len,
                                         RIG_TEXT_MAX - 2, record);
        rig->text[rig->text_len++] = record->group_continues ? '&' : ' ';
        rig->text[rig->text_len] = '\0';
    }
}

const char *rig_events(struct rig *rig)
{
    uint64_t last_id = mci_event_log_last_id(rig->log);
    rig->text_len = 0;
    rig->text[0] = '\0';
    do {
        mci_event_log_take(rig->log, 0, &rig->taken);
        take_events(rig);
    } while (rig->taken.count > 0);
    if (rig->text_len > 0) {
        ck_assert_int_eq(rig->text[rig->text_len - 1], ' ');
        rig->text[--rig->text_len] = '\0';
    }
    ck_assert_uint_ge(rig->last_id, last_id);
    return rig->text;
}

/* ---- state -------------------------------------------------------------- */

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *print_object(const struct mc_object_row *row)
{
    char *line = malloc(2048);
    ck_assert_ptr_nonnull(line);
    uint64_t tag = row->session_id.len;
    (void)snprintf(line, 2048, "%.*s/%.*s #%.*s(%d) @%.*s %u %ju v%ju e%ju\n",
                   (int)row->tenant_id.len, (const char *)row->tenant_id.data,
                   (int)row->key.len, (const char *)row->key.data, (int)tag,
                   row->session_id.data ? (const char *)row->session_id.data
                                        : "",
                   (int)tag, (int)row->group_id.len,
                   row->group_id.data ? (const char *)row->group_id.data : "",
                   row->media, (uintmax_t)row->size, (uintmax_t)row->version,
                   (uintmax_t)row->last_event_id);
    return line;
}

static uint32_t print_objects(struct rig *rig, char **lines, uint32_t max)
{
    struct mci_page page;
    struct mci_cursor cursor = {0};
    uint32_t count = 0;
    ck_assert_int_eq(mci_page_init(&page), MC_OK);
    while (!cursor.at_end) {
        ck_assert_int_eq(
            mci_master_list(rig->master, mc_view_make(NULL, 0), &cursor, &page),
            MC_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            ck_assert_uint_lt(count, max);
            lines[count++] = print_object(&page.rows[i]);
        }
    }
    mci_page_fini(&page);
    return count;
}

char *rig_state(struct rig *rig)
{
    enum { LINES_MAX = 4096 };
    char **lines = calloc(LINES_MAX, sizeof *lines);
    char *text = malloc(RIG_TEXT_MAX);
    ck_assert(lines && text);
    uint32_t count = print_objects(rig, lines, LINES_MAX);
    qsort(lines, count, sizeof *lines, compare_lines);
    struct mci_master_stats stats = rig_stats(rig);
    size_t len = (size_t)snprintf(
        text, RIG_TEXT_MAX,
        "allocated %ju leased %ju quarantined %ju objects %ju attempts %ju "
        "commits %ju evicted %ju groups %ju id %ju\n",
        (uintmax_t)stats.allocated_bytes, (uintmax_t)stats.leased_only_bytes,
        (uintmax_t)stats.quarantined_bytes, (uintmax_t)stats.objects,
        (uintmax_t)stats.attempts, (uintmax_t)stats.commits,
        (uintmax_t)stats.evicted_objects, (uintmax_t)stats.groups,
        (uintmax_t)mci_event_log_last_id(rig->log));
    for (uint32_t i = 0; i < count; i++) {
        size_t more = strlen(lines[i]);
        ck_assert_uint_lt(len + more, RIG_TEXT_MAX);
        memcpy(text + len, lines[i], more + 1);
        len += more;
        free(lines[i]);
    }
    free(lines);
    return text;
}
