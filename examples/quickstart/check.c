/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "check.h"
#include "list.h"

#define DIFFERENCES_SHOWN 20

/* The media of a mask, as events name them. */
static const char *const media_names[] = {"cpu", "disk"};

/* What the list holds that the mirror must hold too. */
struct comparison {
    struct check *check;
    uint64_t entries;     /* (key, medium) pairs of the list */
    uint64_t pages;       /* keys of the layout */
    struct mc_view *keys; /* of the list, owned with their bytes */
    size_t count;
    size_t capacity;
};

/* Keeps a key for compare_count. */
static bool keep_key(struct comparison *comparison, struct mc_view key)
{
    if (comparison->count == comparison->capacity) {
        size_t capacity =
            comparison->capacity ? 2 * comparison->capacity : 1024;
        void *grown =
            realloc(comparison->keys, capacity * sizeof *comparison->keys);
        if (!grown) {
            return false;
        }
        comparison->keys = grown;
        comparison->capacity = capacity;
    }
    void *copy = malloc(key.len + 1);
    if (!copy) {
        return false;
    }
    memcpy(copy, key.data, key.len);
    comparison->keys[comparison->count++] = mc_view_make(copy, key.len);
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const struct mc_view *left = a;
    const struct mc_view *right = b;
    if (left->len != right->len) {
        return left->len < right->len ? -1 : 1;
    }
    return memcmp(left->data, right->data, left->len);
}

static void differ(struct comparison *comparison, const char *what,
                   struct mc_view key, struct mc_view medium)
{
    if (comparison->check->differences++ < DIFFERENCES_SHOWN) {
        fprintf(stderr, "follower: differs: %s: %.*s %.*s\n", what,
                (int)key.len, (const char *)key.data, (int)medium.len,
                (const char *)medium.data);
    }
}

static void compare_entry(struct comparison *comparison,
                          const struct list_row *row, struct mc_view medium)
{
    struct mc_mirror_entry entry;
    comparison->entries++;
    if (!mc_subscriber_mirror_get(comparison->check->subscriber, 0,
                                  mc_view_str("default"), row->key, medium,
                                  &entry)) {
        differ(comparison, "only the store has", row->key, medium);
        return;
    }
    if (!mc_view_equal(entry.session_id, row->session)) {
        differ(comparison, "sessions of", row->key, medium);
    }
    if (!mc_view_equal(entry.group_id, row->group)) {
        differ(comparison, "groups of", row->key, medium);
    }
    if (entry.event_id > row->last_event_id) {
        differ(comparison, "event ids of", row->key, medium);
    }
}

static void compare_row(struct comparison *comparison,
                        const struct list_row *row)
{
    struct check *check = comparison->check;
    uint64_t newest = 0;
    check->keys++;
    for (unsigned bit = 0; bit < 2; bit++) {
        struct mc_view medium = mc_view_str(media_names[bit]);
        struct mc_mirror_entry entry;
        if (!(row->media & 1u << bit)) {
            continue;
        }
        compare_entry(comparison, row, medium);
        if (mc_subscriber_mirror_get(check->subscriber, 0,
                                     mc_view_str("default"), row->key, medium,
                                     &entry) &&
            entry.event_id > newest) {
            newest = entry.event_id;
        }
    }
    if (newest != 0 && newest != row->last_event_id) {
        differ(comparison, "event ids of", row->key, mc_view_str(""));
    }
    struct mc_key_page page;
    if (mc_key_parse(check->layout, row->key, &page)) {
        struct mc_index_match match = {0};
        mc_index_match(check->reader, mc_view_str("default"), &page.hash, 1,
                       &match);
        comparison->pages++;
        if (match.store != 1) {
            differ(comparison, "the index lacks", row->key, mc_view_str(""));
        }
    }
}

/* As many pages are held by the index as the list names. */
static void compare_index(struct comparison *comparison)
{
    struct mc_index_tenant tenants[2] = {0};
    size_t count = mc_index_tenants(comparison->check->reader, tenants, 2);
    uint64_t held = count > 0 ? tenants[0].resident : 0;
    if (count > 1 || held != comparison->pages) {
        fprintf(stderr,
                "follower: differs: the index holds %" PRIu64
                " blocks of %zu tenants, the store %" PRIu64 " of one\n",
                held, count, comparison->pages);
        comparison->check->differences++;
    }
}

static bool show_surplus(void *ctx, const struct mc_mirror_entry *entry)
{
    struct comparison *comparison = ctx;
    if (comparison->count == 0 ||
        !bsearch(&entry->object_key, comparison->keys, comparison->count,
                 sizeof *comparison->keys, compare_keys)) {
        differ(comparison, "only the mirror has", entry->object_key,
               entry->medium);
    }
    return true;
}

/* As many entries are in the mirror as the list names; all of those named were
 * looked up, so more means some that the store does not have. */
static void compare_count(struct comparison *comparison)
{
    const struct mc_subscriber *subscriber = comparison->check->subscriber;
    size_t count = mc_subscriber_mirror_count(subscriber);
    if (count != comparison->entries) {
        fprintf(stderr,
                "follower: differs: %zu entries in the mirror, %" PRIu64
                " in the store\n",
                count, comparison->entries);
        comparison->check->differences++;
        if (comparison->count > 0) {
            qsort(comparison->keys, comparison->count, sizeof *comparison->keys,
                  compare_keys);
        }
        mc_subscriber_mirror_walk(subscriber, show_surplus, comparison);
    }
}

bool check_run(struct check *check)
{
    struct comparison comparison = {.check = check};
    char *line = NULL;
    size_t capacity = 0;
    bool is_read = true;
    FILE *file = fopen(check->list_path, "re");
    if (!file) {
        fprintf(stderr, "follower: %s: %s\n", check->list_path,
                strerror(errno));
        return false;
    }
    check->keys = 0;
    check->differences = 0;
    while (is_read && getline(&line, &capacity, file) > 0) {
        struct list_row row;
        is_read = list_parse(line, &row) && keep_key(&comparison, row.key);
        if (is_read) {
            compare_row(&comparison, &row);
        }
    }
    if (!is_read || ferror(file)) {
        fprintf(stderr, "follower: %s: row %" PRIu64 " cannot be read\n",
                check->list_path, check->keys + 1);
    }
    is_read = is_read && !ferror(file);
    free(line);
    fclose(file);
    if (is_read) {
        compare_count(&comparison);
        compare_index(&comparison);
    }
    for (size_t i = 0; i < comparison.count; i++) {
        free((void *)(uintptr_t)comparison.keys[i].data);
    }
    free(comparison.keys);
    return is_read;
}
