/* SPDX-License-Identifier: Apache-2.0 */
/* client_replicas.c - where the copies of objects are. */
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "mci_alloc.h"

#define SLICE_ROWS 64

static void copy_text(struct mc_view view, char *room, size_t max)
{
    size_t len = view.len < max ? view.len : max - 1;
    if (len > 0) {
        memcpy(room, view.data, len);
    }
    room[len] = '\0';
}

/* False: the segment is gone, and the copy with it. */
static bool describe(struct mc_client *client, const struct mci_call *call,
                     const struct mci_place *place, struct mc_replica *replica)
{
    const struct mci_segment_row *row = NULL;
    if (!client->outside) {
        replica->address =
            (uint64_t)(uintptr_t)client->segment.base + place->offset;
        copy_text(mc_view_str("local"), replica->protocol,
                  sizeof replica->protocol);
        copy_text(mc_view_str("embedded"), replica->endpoint,
                  sizeof replica->endpoint);
        copy_text(mc_view_str(client->segment.label), replica->segment,
                  sizeof replica->segment);
        return true;
    }
    if (mci_remote_segment(client->outside->remote, place->segment,
                           call->deadline_ns, &row) != MC_OK) {
        return false;
    }
    replica->address = row->base + place->offset;
    copy_text(row->protocol, replica->protocol, sizeof replica->protocol);
    copy_text(row->endpoint, replica->endpoint, sizeof replica->endpoint);
    copy_text(row->name, replica->segment, sizeof replica->segment);
    return true;
}

static int64_t fill(struct mc_client *client, const struct mci_call *call,
                    const struct mci_read_row *row, struct mc_replicas *out)
{
    *out = (struct mc_replicas){.version = 0};
    if (row->err != MC_OK) {
        return row->err;
    }
    out->version = row->version;
    for (uint32_t i = 0; i < row->place_count; i++) {
        struct mc_replica *replica = &out->rows[out->count];
        *replica =
            (struct mc_replica){.medium = MC_MEDIUM_CPU, .size = row->size};
        out->count += describe(client, call, &row->places[i], replica);
    }
    if (row->media & MC_MEDIUM_DISK) {
        out->rows[out->count++] =
            (struct mc_replica){.medium = MC_MEDIUM_DISK, .size = row->size};
    }
    return out->count > 0 ? (int64_t)out->count : MC_ERR_INVALID_REPLICA;
}

enum mc_err mc_client_batch_get_replicas(struct mc_client *client,
                                         const struct mc_view *keys,
                                         size_t count,
                                         struct mc_replicas *replicas_out,
                                         int64_t *results_out)
{
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err == MC_OK && count > 0 && !replicas_out) {
        err = MC_ERR_INVALID_PARAMS;
    }
    struct mci_read_row *rows =
        err == MC_OK ? mci_alloc(SLICE_ROWS * sizeof *rows) : NULL;
    if (err == MC_OK && !rows) {
        err = MC_ERR_NOMEM;
    }
    if (err != MC_OK) {
        return mci_client_refuse(results_out, count, err);
    }
    for (size_t first = 0; first < count; first += SLICE_ROWS) {
        size_t some = count - first < SLICE_ROWS ? count - first : SLICE_ROWS;
        const struct mci_call call = mci_client_call(client);
        for (size_t i = 0; i < some; i++) {
            rows[i] = (struct mci_read_row){.key = keys[first + i]};
        }
        (void)client->link.ops->get(client->link.ctx, &call, rows, some);
        for (size_t i = 0; i < some; i++) {
            results_out[first + i] =
                fill(client, &call, &rows[i], &replicas_out[first + i]);
        }
    }
    mci_free(rows);
    return MC_OK; /* what the link said stands in the rows */
}
