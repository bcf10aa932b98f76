/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "trace.h"

#define POOL_MIN 512

void trace_name(uint64_t id, struct trace_names *names_out)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, id);
    XXH128_hash_t hash = XXH3_128bits(text, (size_t)len);
    char hex[33];
    snprintf(hex, sizeof hex, "%016" PRIx64 "%016" PRIx64,
             (uint64_t)hash.high64, (uint64_t)hash.low64);
    snprintf(names_out->key, sizeof names_out->key, "%s%s__k", hex, hex);
    snprintf(names_out->group, sizeof names_out->group, "sglang-hicache:%s%s",
             hex, hex);
    names_out->hash = hash.high64;
}

bool trace_size_parse(const char *text, size_t *size_out)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {{"", 0}, {"KB", 10}, {"MB", 20}, {"GB", 30}};
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].suffix) == 0 && number > 0 &&
            number <= (SIZE_MAX >> 16) >> units[i].shift) {
            *size_out = (size_t)number << units[i].shift;
            return true;
        }
    }
    return false;
}

static bool read_number(struct json_object *object, uint64_t *number_out)
{
    if (!json_object_is_type(object, json_type_int) ||
        (json_object_get_int64(object) < 0)) {
        return false;
    }
    *number_out = json_object_get_uint64(object);
    return true;
}

static bool read_ids(struct json_object *ids, struct trace_request *request)
{
    if (!json_object_is_type(ids, json_type_array) ||
        json_object_array_length(ids) == 0) {
        return false;
    }
    request->count = json_object_array_length(ids);
    request->ids = malloc(request->count * sizeof *request->ids);
    for (size_t i = 0; request->ids && i < request->count; i++) {
        if (!read_number(json_object_array_get_idx(ids, i), &request->ids[i])) {
            return false;
        }
    }
    return request->ids != NULL;
}

static bool read_request(struct json_object *object,
                         struct trace_request *request)
{
    struct json_object *session = json_object_object_get(object, "session_id");
    *request = (struct trace_request){0};
    if (!json_object_is_type(session, json_type_string) ||
        !read_number(json_object_object_get(object, "timestamp"),
                     &request->timestamp_ms)) {
        return false;
    }
    request->session = strdup(json_object_get_string(session));
    request->session_len = (size_t)json_object_get_string_len(session);
    return request->session &&
           read_ids(json_object_object_get(object, "hash_ids"), request);
}

/* Appends the request of one line. */
static bool add_line(struct trace *trace, const char *line)
{
    if (trace->count == trace->capacity) {
        size_t capacity = trace->capacity ? 2 * trace->capacity : 1024;
        void *grown =
            realloc(trace->requests, capacity * sizeof *trace->requests);
        if (!grown) {
            return false;
        }
        trace->requests = grown;
        trace->capacity = capacity;
    }
    struct trace_request *request = &trace->requests[trace->count];
    *request = (struct trace_request){0};
    struct json_object *object = json_tokener_parse(line);
    bool is_good = json_object_is_type(object, json_type_object) &&
                   read_request(object, request);
    json_object_put(object);
    trace->count++;
    trace->blocks += request->count;
    if (request->count > trace->longest) {
        trace->longest = request->count;
    }
    return is_good;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static bool count_distinct(struct trace *trace)
{
    uint64_t *all = malloc((trace->blocks + 1) * sizeof *all);
    size_t count = 0;
    if (!all) {
        return false;
    }
    for (size_t i = 0; i < trace->count; i++) {
        memcpy(all + count, trace->requests[i].ids,
               trace->requests[i].count * sizeof *all);
        count += trace->requests[i].count;
    }
    qsort(all, count, sizeof *all, compare_ids);
    for (size_t i = 0; i < count; i++) {
        trace->distinct += i == 0 || all[i] != all[i - 1];
    }
    free(all);
    return true;
}

bool trace_read(const char *path, struct trace *trace_out)
{
    struct trace trace = {0};
    char *line = NULL;
    size_t capacity = 0;
    bool is_good = true;
    FILE *file = fopen(path, "re");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return false;
    }
    while (is_good && getline(&line, &capacity, file) > 0) {
        is_good = add_line(&trace, line);
    }
    if (!is_good) {
        fprintf(stderr,
                "%s:%zu: not a request with timestamp, session_id and "
                "hash_ids\n",
                path, trace.count);
    } else if (ferror(file) || trace.count == 0) {
        fprintf(stderr, "%s: cannot be read, or empty\n", path);
        is_good = false;
    }
    free(line);
    fclose(file);
    is_good = is_good && count_distinct(&trace);
    if (is_good) {
        *trace_out = trace;
    } else {
        trace_free(&trace);
    }
    return is_good;
}

void trace_free(struct trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        free(trace->requests[i].session);
        free(trace->requests[i].ids);
    }
    free(trace->requests);
    *trace = (struct trace){0};
}

size_t trace_pool_blocks(const struct trace *trace)
{
    size_t tenth = trace->distinct / 10;
    return tenth > POOL_MIN ? tenth : POOL_MIN;
}

void trace_fill(unsigned char *bytes, size_t len, uint64_t id)
{
    uint64_t state = id + 1;
    for (size_t i = 0; i < len; i += sizeof state) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t word = state;
        word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
        word ^= word >> 31;
        size_t left = len - i < sizeof word ? len - i : sizeof word;
        memcpy(bytes + i, &word, left);
    }
}
