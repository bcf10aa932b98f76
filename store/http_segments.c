/* SPDX-License-Identifier: Apache-2.0 */
/* Pages about segments. A name is a label that several may have: what is asked
 * by name is told of all of them together.
 */
#include <string.h>

#include "http_segments.h"
#include "master_process.h"

bool mci_segment_walk_next(struct mci_segment_walk *walk)
{
    for (;;) {
        if (walk->at == walk->count) {
            walk->at = 0;
            walk->count = mci_registry_segments(
                walk->registry, walk->after, walk->numbers,
                sizeof walk->numbers / sizeof walk->numbers[0]);
            if (walk->count == 0) {
                return false;
            }
        }
        walk->after = walk->numbers[walk->at++];
        if (mci_registry_segment(walk->registry, walk->after, &walk->row,
                                 &walk->texts)) {
            return true;
        }
    }
}

void mci_page_all_segments(void *ctx, const struct mci_http_request *request,
                           struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct mci_segment_walk walk = {.registry = master->registry};
    (void)request;
    response->content_type = MCI_HTTP_TEXT;
    while (mci_segment_walk_next(&walk)) {
        mci_http_write(response, walk.row.name);
        mci_http_write(response, mc_view_str("\n"));
    }
}

/* What all segments of a name have together. */
struct sum {
    uint64_t count;
    uint64_t bytes;
    uint64_t used_bytes;
    enum mci_segment_status status; /* of the first */
};

static struct sum sum_of(struct mc_master *master, struct mc_view name)
{
    struct mci_segment_walk walk = {.registry = master->registry};
    struct sum sum = {.count = 0};
    while (mci_segment_walk_next(&walk)) {
        if (!mc_view_equal(walk.row.name, name)) {
            continue;
        }
        sum.status = sum.count++ == 0 ? walk.row.status : sum.status;
        sum.bytes += walk.row.bytes;
        sum.used_bytes += walk.row.used_bytes;
    }
    return sum;
}

/* The sum of the segments that the request names; false after an answer. */
static bool find_sum(struct mc_master *master,
                     const struct mci_http_request *request,
                     struct mci_http_response *response,
                     struct mc_view *name_out, struct sum *sum_out)
{
    if (!mci_http_arg(request, "segment", name_out) || name_out->len == 0) {
        mci_page_fail(response, MC_ERR_INVALID_PARAMS);
        return false;
    }
    *sum_out = sum_of(master, *name_out);
    if (sum_out->count == 0) {
        mci_page_fail(response, MC_ERR_SEGMENT_NOT_FOUND);
        return false;
    }
    return true;
}

void mci_page_segment(void *ctx, const struct mci_http_request *request,
                      struct mci_http_response *response)
{
    struct mc_view name;
    struct sum sum;
    if (!find_sum(ctx, request, response, &name, &sum)) {
        return;
    }
    response->content_type = MCI_HTTP_TEXT;
    mci_http_write(response, name);
    mci_http_print(response, "\nUsed(bytes): %ju\nCapacity(bytes): %ju\n",
                   (uintmax_t)sum.used_bytes, (uintmax_t)sum.bytes);
}

static const char *status_name(enum mci_segment_status status)
{
    switch (status) {
    case MCI_SEGMENT_OK:
        return "OK";
    case MCI_SEGMENT_DRAINING:
        return "DRAINING";
    case MCI_SEGMENT_DRAINED:
        return "DRAINED";
    case MCI_SEGMENT_GRACEFULLY_UNMOUNTING:
        return "GRACEFULLY_UNMOUNTING";
    case MCI_SEGMENT_UNMOUNTING:
        return "UNMOUNTING";
    default:
        return "UNDEFINED";
    }
}

void mci_page_segment_status(void *ctx, const struct mci_http_request *request,
                             struct mci_http_response *response)
{
    struct mc_view name;
    struct sum sum;
    if (!find_sum(ctx, request, response, &name, &sum)) {
        return;
    }
    mci_http_print(response, "{\"success\":true,\"segment\":");
    mci_http_json_string(response, name);
    mci_http_print(response, ",\"status\":%d,\"status_name\":\"%s\"}",
                   (int)sum.status, status_name(sum.status));
}

static void write_detail(struct mci_http_response *response,
                         const struct mci_segment_row *row)
{
    mci_http_print(response, "{\"id\":%u,\"client_id\":%u,\"segment_name\":",
                   row->segment, row->client);
    mci_http_json_string(response, row->name);
    mci_http_print(response, ",\"protocol\":");
    mci_http_json_string(response, row->protocol);
    mci_http_print(response, ",\"transport_endpoint\":");
    mci_http_json_string(response, row->endpoint);
    mci_http_print(response, ",\"host_id\":");
    mci_http_json_string(response, row->host_id);
    mci_http_print(response,
                   ",\"status\":\"%s\",\"capacity_bytes\":%ju,"
                   "\"used_bytes\":%ju}",
                   status_name(row->status), (uintmax_t)row->bytes,
                   (uintmax_t)row->used_bytes);
}

void mci_page_segments_detail(void *ctx, const struct mci_http_request *request,
                              struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct mci_segment_walk walk = {.registry = master->registry};
    uint64_t count = 0;
    (void)request;
    mci_http_print(response, "{\"segments\":[");
    while (mci_segment_walk_next(&walk)) {
        mci_http_print(response, "%s", count++ ? "," : "");
        write_detail(response, &walk.row);
    }
    mci_http_print(response, "],\"total_segments\":%ju}", (uintmax_t)count);
}
