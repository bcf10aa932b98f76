/* SPDX-License-Identifier: Apache-2.0 */
/* The order of fields is the one that docs/events.md shows. */
#include "event_stencil.h"

#include "mci_alloc.h"
#include "mci_pack.h"
#include "put.h"

/* Six strings of at most 4096 bytes, twenty names. */
#define STENCIL_LEN_MAX 65536

/* Where each run ends in the buffer, while the buffer may still move. */
struct run_ends {
    size_t head;
    size_t after_timestamp;
    size_t after_tenant;
    size_t after_backend;
    size_t after_medium;
    size_t hashes;
    size_t tail;
};

static const char *twin_name(enum mc_event_type type)
{
    return type == MC_EVENT_STORED    ? "BlockStored"
           : type == MC_EVENT_REMOVED ? "BlockRemoved"
                                      : "AllBlocksCleared";
}

static void pack_number_or_nil(struct mci_pack *pack, uint64_t number)
{
    if (number != 0) {
        mci_pack_u64(pack, number);
    } else {
        mci_pack_nil(pack);
    }
}

static void pack_setting(struct mci_pack *pack, const char *name,
                         struct mc_view value)
{
    mci_pack_text(pack, name);
    mci_pack_str_or_nil(pack, value.len != 0 ? value : mc_view_make(NULL, 0));
}

/* Pairs of the map. */
static size_t count_fields(const struct event_stencil *stencil,
                           const struct mc_event_writer_opts *opts,
                           enum mc_event_type type)
{
    size_t legacy = opts->no_legacy_compat ? 0 : 1;
    /* id, timestamp, event_type, model, block size, salt, lora, tenant,
     * backend, medium, dp_rank */
    size_t count = 11 + legacy;
    if (type != MC_EVENT_CLEARED) {
        /* group_id, seq_hashes, base_block_idx; block_hashes */
        count += 3 + legacy + (stencil->has_key ? 1 : 0);
    }
    if (type == MC_EVENT_STORED) {
        count += 2 + legacy; /* parent_hash, token_ids; parent_block_hash */
    }
    if (stencil->has_session) {
        count++;
    }
    if (!opts->plain) {
        count += type == MC_EVENT_CLEARED ? 2 : 1; /* epoch, session_id */
    }
    return count;
}

static void pack_settings(struct mci_pack *pack,
                          const struct mc_event_writer_opts *opts,
                          enum mc_event_type type)
{
    mci_pack_text(pack, "event_type");
    mci_pack_text(pack, mc_event_type_name(type));
    if (!opts->no_legacy_compat) {
        mci_pack_text(pack, "type");
        mci_pack_text(pack, twin_name(type));
    }
    pack_setting(pack, "model_name", opts->model_name);
    mci_pack_text(pack, "block_size");
    pack_number_or_nil(pack, opts->block_size);
    pack_setting(pack, "additional_salt", opts->additional_salt);
    pack_setting(pack, "lora_name", opts->lora_name);
}

/* What stands between the key and the epoch. */
static void pack_tail(struct mci_pack *pack,
                      const struct mc_event_writer_opts *opts,
                      enum mc_event_type type, struct run_ends *ends)
{
    if (type != MC_EVENT_CLEARED) {
        mci_pack_text(pack, "seq_hashes");
        mci_pack_array(pack, 0);
        if (!opts->no_legacy_compat) {
            mci_pack_text(pack, "block_hashes");
            mci_pack_array(pack, 0);
        }
        ends->hashes = pack->buf->len;
        mci_pack_text(pack, "base_block_idx");
        mci_pack_nil(pack);
    }
    if (type != MC_EVENT_STORED) {
        return;
    }
    mci_pack_text(pack, "parent_hash");
    mci_pack_nil(pack);
    mci_pack_text(pack, "token_ids");
    if (opts->empty_token_ids) {
        mci_pack_array(pack, 0);
    } else {
        mci_pack_nil(pack);
    }
    if (!opts->no_legacy_compat) {
        mci_pack_text(pack, "parent_block_hash");
        mci_pack_nil(pack);
    }
}

/* The epoch, and what a copy of the last run may read too much. */
static void pack_room(struct mci_pack *pack)
{
    static const uint8_t zeros[PUT_NUMBER_MAX + STENCIL_SLACK];
    if (pack->err == MC_OK) {
        pack->err = mci_buf_append(pack->buf, zeros, sizeof zeros);
    }
}

static enum mc_err pack_runs(struct event_stencil *stencil,
                             const struct mc_event_writer_opts *opts,
                             enum mc_event_type type, struct run_ends *ends)
{
    struct mci_pack pack;
    mci_pack_init(&pack, &stencil->buf);
    mci_pack_map(&pack, count_fields(stencil, opts, type));
    mci_pack_text(&pack, "event_id");
    ends->head = stencil->buf.len;
    pack_settings(&pack, opts, type);
    mci_pack_text(&pack, "tenant_id");
    ends->after_timestamp = stencil->buf.len;
    mci_pack_text(&pack, "backend_id");
    ends->after_tenant = stencil->buf.len;
    mci_pack_text(&pack, "medium");
    ends->after_backend = stencil->buf.len;
    if (!stencil->has_medium) {
        mci_pack_nil(&pack);
    }
    mci_pack_text(&pack, "dp_rank");
    mci_pack_u64(&pack, opts->dp_rank);
    if (stencil->has_group) {
        mci_pack_text(&pack, "group_id");
    } else if (!opts->plain) {
        mci_pack_text(&pack, "session_id");
        mci_pack_nil(&pack);
    }
    ends->after_medium = stencil->buf.len;
    ends->hashes = stencil->buf.len;
    pack_tail(&pack, opts, type, ends);
    if (!opts->plain) {
        mci_pack_text(&pack, "epoch");
    }
    ends->tail = stencil->buf.len;
    pack_room(&pack);
    return mci_pack_done(&pack);
}

static struct stencil_run make_run(const struct event_stencil *stencil,
                                   size_t begin, size_t end)
{
    struct stencil_run run = {stencil->buf.data + begin, end - begin};
    return run;
}

static void set_runs(struct event_stencil *stencil, const struct run_ends *ends,
                     bool has_epoch)
{
    stencil->head = make_run(stencil, 0, ends->head);
    stencil->after_timestamp =
        make_run(stencil, ends->head, ends->after_timestamp);
    stencil->after_tenant =
        make_run(stencil, ends->after_timestamp, ends->after_tenant);
    stencil->after_backend =
        make_run(stencil, ends->after_tenant, ends->after_backend);
    stencil->after_medium =
        make_run(stencil, ends->after_backend, ends->after_medium);
    stencil->tail = make_run(stencil, ends->after_medium, ends->tail);
    stencil->tail_hashes_len = ends->hashes - ends->after_medium;
    stencil->epoch = has_epoch ? stencil->buf.data + ends->tail : NULL;
    /* Runs and epoch; three names; id, time, two hashes; tenant by default;
     * headers of six strings. */
    stencil->bound = stencil->buf.len + 3 * 16 + 4 * PUT_NUMBER_MAX +
                     sizeof "default" + 6 * PUT_HEADER_MAX + STENCIL_SLACK;
}

/* Room for the middle with tenant, backend and medium at their limits. */
static enum mc_err make_middle(struct event_stencil *stencil)
{
    stencil->middle_capacity = stencil->buf.len + MC_TENANT_LEN_MAX +
                               MC_BACKEND_ID_LEN_MAX + STENCIL_MEDIUM_MAX;
    stencil->middle_capacity *= 2; /* the views again, to compare with */
    stencil->middle_capacity += 8 * PUT_NUMBER_MAX + STENCIL_SLACK;
    stencil->middle = mci_calloc(1, stencil->middle_capacity);
    return stencil->middle ? MC_OK : MC_ERR_NOMEM;
}

enum mc_err event_stencil_init(struct event_stencil *stencil,
                               const struct mc_event_writer_opts *opts,
                               enum mc_event_type type)
{
    struct run_ends ends;
    bool is_cleared = type == MC_EVENT_CLEARED;
    memset(stencil, 0, sizeof *stencil);
    stencil->has_medium = !is_cleared;
    stencil->has_group = !is_cleared;
    stencil->has_session =
        type == MC_EVENT_STORED || (type == MC_EVENT_REMOVED && !opts->plain);
    stencil->has_key = !is_cleared && !opts->no_object_key;
    mci_buf_init(&stencil->buf, STENCIL_LEN_MAX);
    enum mc_err err = pack_runs(stencil, opts, type, &ends);
    if (err == MC_OK) {
        err = make_middle(stencil);
    }
    if (err != MC_OK) {
        event_stencil_fini(stencil);
        return err;
    }
    set_runs(stencil, &ends, !opts->plain);
    event_stencil_set_epoch(stencil, opts->epoch);
    return MC_OK;
}

void event_stencil_fini(struct event_stencil *stencil)
{
    mci_free(stencil->middle);
    stencil->middle = NULL;
    mci_buf_fini(&stencil->buf);
}

void event_stencil_set_epoch(struct event_stencil *stencil, uint64_t epoch)
{
    if (stencil->epoch) {
        uint8_t *end = put_u64(stencil->epoch, epoch);
        stencil->tail.len = (size_t)(end - stencil->tail.bytes);
    }
}
