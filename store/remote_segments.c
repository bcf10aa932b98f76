/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of segments, asked for one at a time and kept. Numbers of segments are
 * never used twice within an epoch, so a row is right as long as the identity
 * is the one under which it was asked for. Rows are borrowed by callers who do
 * not give them back: those of an identity that is over are kept for
 * VOID_KEEP_NS, which is longer than any call takes.
 */
#include <string.h>

#include "mci_alloc.h"
#include "remote.h"

#define VOID_KEEP_NS (3600 * MCI_NS_PER_S)
#define CAPACITY_MIN 64

struct remote_row {
    struct mci_segment_row row;
    struct remote_row *next; /* among the void ones */
    uint64_t void_ns;
    char texts[];
};

void mci_remote_segments_init(struct remote_segments *segments)
{
    memset(segments, 0, sizeof *segments);
    segments->generation = 1;
    (void)pthread_mutex_init(&segments->lock, NULL);
}

static void free_void(struct remote_segments *segments, uint64_t before_ns)
{
    struct remote_row **at = &segments->void_rows;
    while (*at) {
        struct remote_row *row = *at;
        if (row->void_ns < before_ns) {
            *at = row->next;
            mci_free(row);
        } else {
            at = &row->next;
        }
    }
}

void mci_remote_segments_fini(struct remote_segments *segments)
{
    for (uint32_t i = 0; i < segments->capacity; i++) {
        mci_free(segments->table[i]);
    }
    free_void(segments, UINT64_MAX);
    mci_free(segments->table);
    (void)pthread_mutex_destroy(&segments->lock);
}

void mci_remote_segments_void(struct remote_segments *segments,
                              uint64_t generation, uint64_t now_ns)
{
    (void)pthread_mutex_lock(&segments->lock);
    segments->generation = generation;
    free_void(segments, now_ns > VOID_KEEP_NS ? now_ns - VOID_KEEP_NS : 0);
    for (uint32_t i = 0; i < segments->capacity; i++) {
        struct remote_row *row = segments->table[i];
        segments->table[i] = NULL;
        if (row) {
            row->void_ns = now_ns;
            row->next = segments->void_rows;
            segments->void_rows = row;
        }
    }
    segments->count = 0;
    (void)pthread_mutex_unlock(&segments->lock);
}

/* ---- the table ----------------------------------------------------------- */

/* Where a segment's row stands or would stand; there is a free place. */
static struct remote_row **find(struct remote_segments *segments,
                                uint32_t segment)
{
    uint32_t mask = segments->capacity - 1;
    uint32_t at = (segment * UINT32_C(0x9e3779b1)) >> 8;
    while (segments->table[at & mask] &&
           segments->table[at & mask]->row.segment != segment) {
        at++;
    }
    return &segments->table[at & mask];
}

static enum mc_err grow(struct remote_segments *segments)
{
    if (segments->capacity > 2 * segments->count) {
        return MC_OK;
    }
    uint32_t capacity =
        segments->capacity ? 2 * segments->capacity : CAPACITY_MIN;
    struct remote_row **table = mci_calloc(capacity, sizeof *table);
    if (!table) {
        return MC_ERR_NOMEM;
    }
    struct remote_row **old = segments->table;
    uint32_t old_capacity = segments->capacity;
    segments->table = table;
    segments->capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i]) {
            *find(segments, old[i]->row.segment) = old[i];
        }
    }
    mci_free(old);
    return MC_OK;
}

static struct mc_view copy_text(struct mc_view text, char **at)
{
    if (!text.data) {
        return text;
    }
    char *copy = *at;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    *at += text.len + 1;
    return mc_view_make(copy, text.len);
}

static struct remote_row *copy_row(const struct mci_segment_row *row)
{
    size_t len = row->name.len + row->endpoint.len + row->shm.len +
                 row->protocol.len + row->host_id.len + 5;
    struct remote_row *copy = mci_alloc(sizeof *copy + len);
    if (!copy) {
        return NULL;
    }
    char *at = copy->texts;
    copy->row = *row;
    copy->row.name = copy_text(row->name, &at);
    copy->row.endpoint = copy_text(row->endpoint, &at);
    copy->row.shm = copy_text(row->shm, &at);
    copy->row.protocol = copy_text(row->protocol, &at);
    copy->row.host_id = copy_text(row->host_id, &at);
    copy->next = NULL;
    return copy;
}

/* Keeps a row, unless another thread has brought it, or another identity has
 * come: MC_ERR_CLIENT_NOT_FOUND. */
static enum mc_err keep(struct remote_segments *segments, uint64_t generation,
                        const struct mci_segment_row *row,
                        const struct mci_segment_row **row_out)
{
    (void)pthread_mutex_lock(&segments->lock);
    enum mc_err err = segments->generation == generation
                          ? grow(segments)
                          : MC_ERR_CLIENT_NOT_FOUND;
    struct remote_row **at = err == MC_OK ? find(segments, row->segment) : NULL;
    if (at && !*at) {
        *at = copy_row(row);
        segments->count += *at != NULL;
    }
    if (at && *at) {
        *row_out = &(*at)->row;
    } else if (err == MC_OK) {
        err = MC_ERR_NOMEM;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    return err;
}

/* ---- asking -------------------------------------------------------------- */

/* Reads the result of segment_get for one number. */
static enum mc_err read_row(struct remote_ask *ask, uint32_t segment,
                            const struct mci_segment_row **row_out)
{
    struct mci_segment_row row;
    if (mci_rows_unpack(&ask->unpack) != 1) {
        mci_unpack_refuse(&ask->unpack, MCI_UNPACK_ERROR_LENGTH);
        return MC_OK;
    }
    bool is_there = mci_segment_row_unpack(&ask->unpack, &row);
    if (!is_there || mci_unpack_done(&ask->unpack) != MCI_UNPACK_OK) {
        return ask->unpack.error == MCI_UNPACK_OK ? MC_ERR_SEGMENT_NOT_FOUND
                                                  : MC_OK;
    }
    if (row.segment != segment) {
        mci_unpack_refuse(&ask->unpack, MCI_UNPACK_ERROR_RANGE);
        return MC_OK;
    }
    return keep(&ask->remote->segments, ask->generation, &row, row_out);
}

static enum mc_err ask_row(struct mci_remote *remote, uint32_t segment,
                           uint64_t deadline_ns,
                           const struct mci_segment_row **row_out)
{
    const struct remote_ask_opts opts = {.op = MCI_OP_SEGMENT_GET,
                                         .deadline_ns = deadline_ns};
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_pack_array(&ask.pack, 1);
    mci_pack_u64(&ask.pack, segment);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        err = read_row(&ask, segment, row_out);
    }
    return mci_remote_ask_end(&ask, err);
}

enum mc_err mci_remote_segment(struct mci_remote *remote, uint32_t segment,
                               uint64_t deadline_ns,
                               const struct mci_segment_row **row_out)
{
    struct remote_segments *segments = &remote->segments;
    (void)pthread_mutex_lock(&segments->lock);
    const struct remote_row *known =
        segments->capacity ? *find(segments, segment) : NULL;
    (void)pthread_mutex_unlock(&segments->lock);
    if (known) {
        *row_out = &known->row;
        return MC_OK;
    }
    return ask_row(remote, segment, deadline_ns, row_out);
}

/* ---- one's own ----------------------------------------------------------- */

enum mc_err mci_remote_mount(struct mci_remote *remote,
                             const struct mci_mount *mount,
                             uint64_t deadline_ns, uint32_t *segment_out)
{
    const struct remote_ask_opts opts = {.op = MCI_OP_SEGMENT_MOUNT,
                                         .deadline_ns = deadline_ns};
    struct remote_ask ask;
    uint32_t segment = 0;
    enum mc_err err = mci_remote_ask_begin(remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_mount_pack(&ask.pack, mount);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        segment = mci_unpack_u32(&ask.unpack, UINT32_MAX);
    }
    err = mci_remote_ask_end(&ask, err);
    if (err == MC_OK) {
        *segment_out = segment;
    }
    return err;
}

enum mc_err mci_remote_unmount(struct mci_remote *remote, uint32_t segment,
                               uint64_t grace_ms, uint64_t deadline_ns)
{
    const struct remote_ask_opts opts = {.op = MCI_OP_SEGMENT_UNMOUNT,
                                         .deadline_ns = deadline_ns};
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_unmount_pack(&ask.pack, segment, grace_ms);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        mci_unpack_skip(&ask.unpack, MCI_UNPACK_DEPTH_MAX);
    }
    return mci_remote_ask_end(&ask, err);
}

enum mc_err mci_remote_segment_status(struct mci_remote *remote,
                                      uint32_t segment, uint64_t deadline_ns,
                                      enum mci_segment_status *status_out)
{
    const struct remote_ask_opts opts = {.op = MCI_OP_SEGMENT_STATUS,
                                         .deadline_ns = deadline_ns};
    struct remote_ask ask;
    uint32_t status = 0;
    enum mc_err err = mci_remote_ask_begin(remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    mci_pack_array(&ask.pack, 1);
    mci_pack_u64(&ask.pack, segment);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        status = mci_unpack_u32(&ask.unpack, MCI_SEGMENT_UNMOUNTING);
    }
    err = mci_remote_ask_end(&ask, err);
    if (err == MC_OK) {
        *status_out = (enum mci_segment_status)status;
    }
    return err;
}
