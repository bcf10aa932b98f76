/* SPDX-License-Identifier: Apache-2.0 */
/* An event is copied from its stencil, run by run; the middle, a third of it,
 * is copied as it stood in the event before as long as tenant, backend and
 * medium are the same. The caller's capacity is compared with the bound of each
 * event before anything of it is written, so the copies need no checks and may
 * write a little beyond their ends. */
#include "event_stencil.h"
#include "key_number.h"
#include "mci_alloc.h"
#include "mci_utf8.h"
#include "put.h"

struct mc_event_writer {
    bool seq_hashes;
    bool has_block_hashes;
    uint32_t dp_rank;
    struct event_stencil stencils[MC_EVENT_CLEARED + 1]; /* by type */
};

/* The names with their headers, filled up to what put_name copies. */
#define NAME_COPY 16
static const uint8_t timestamp_name[NAME_COPY] = "\xa9timestamp";
static const uint8_t session_name[NAME_COPY] = "\xaasession_id";
static const uint8_t key_name[NAME_COPY] = "\xaaobject_key";
static const uint8_t seq_name[NAME_COPY] = "\xaaseq_hashes";
static const uint8_t block_name[NAME_COPY] = "\xac"
                                             "block_hashes";

static inline uint8_t *put_name(uint8_t *at, const uint8_t *name)
{
    memcpy(at, name, NAME_COPY);
    return at + 1 + (name[0] & 0x1f);
}

static inline uint8_t *put_run(uint8_t *at, const struct stencil_run *run)
{
    memcpy(at, run->bytes, run->len);
    return at + run->len;
}

/* The parts of the middle that follow the timestamp. */
static uint8_t *put_shared(const struct event_stencil *stencil,
                           const struct mc_event_record *record, uint8_t *at)
{
    struct mc_view tenant = record->tenant_id;
    if (tenant.len == 0) {
        tenant = mc_view_str("default");
    }
    at = put_str(put_run(at, &stencil->after_timestamp), tenant);
    at = put_str(put_run(at, &stencil->after_tenant), record->backend_id);
    at = put_run(at, &stencil->after_backend);
    if (stencil->has_medium) {
        at = put_str(at, record->medium);
    }
    return put_run(at, &stencil->after_medium);
}

/* A copy of the view's bytes behind the kept middle, to compare with. */
static struct mc_view keep_view(uint8_t **at, struct mc_view view)
{
    uint8_t *begin = *at;
    *at = put_bytes(begin, view.data, view.len);
    return mc_view_make(begin, view.len);
}

/* Writes the middle anew where it is kept, if it fits there. */
static bool keep_middle(struct event_stencil *stencil,
                        const struct mc_event_record *record)
{
    if (record->tenant_id.len > MC_TENANT_LEN_MAX ||
        record->backend_id.len > MC_BACKEND_ID_LEN_MAX ||
        record->medium.len > STENCIL_MEDIUM_MAX) {
        return false;
    }
    uint8_t *at = put_name(stencil->middle, timestamp_name);
    at = put_shared(stencil, record, put_64(at, 0xcf, 0));
    stencil->middle_len = (size_t)(at - stencil->middle);
    at += STENCIL_SLACK;
    stencil->tenant_id = keep_view(&at, record->tenant_id);
    stencil->backend_id = keep_view(&at, record->backend_id);
    stencil->medium = keep_view(&at, record->medium);
    return true;
}

/* Tenants, backends and media are short: compared without a call. */
static inline bool is_same(struct mc_view a, struct mc_view b)
{
    const uint8_t *p = a.data;
    const uint8_t *q = b.data;
    size_t len = a.len;
    if (len != b.len) {
        return false;
    }
    if (len > 16) {
        return memcmp(p, q, len) == 0;
    }
    if (len >= 8) {
        return mci_get_be64(p) == mci_get_be64(q) &&
               mci_get_be64(p + len - 8) == mci_get_be64(q + len - 8);
    }
    if (len >= 4) {
        return mci_get_be32(p) == mci_get_be32(q) &&
               mci_get_be32(p + len - 4) == mci_get_be32(q + len - 4);
    }
    return len == 0 || (p[0] == q[0] && p[len / 2] == q[len / 2] &&
                        p[len - 1] == q[len - 1]);
}

static inline bool is_same_place(struct mc_view a, struct mc_view b)
{
    return a.data == b.data && a.len == b.len;
}

/* Is the middle kept that of this record? Within a batch, what stands in the
 * same place is the same. */
static inline bool has_middle(struct event_stencil *stencil,
                              const struct mc_event_record *record)
{
    const struct mc_event_record *last = stencil->last;
    if (last && is_same_place(last->backend_id, record->backend_id) &&
        is_same_place(last->tenant_id, record->tenant_id) &&
        is_same_place(last->medium, record->medium)) {
        return true;
    }
    return stencil->middle_len != 0 &&
           is_same(stencil->backend_id, record->backend_id) &&
           is_same(stencil->tenant_id, record->tenant_id) &&
           is_same(stencil->medium, record->medium);
}

static inline uint8_t *put_middle(struct event_stencil *stencil,
                                  const struct mc_event_record *record,
                                  uint8_t *at)
{
    /* Kept with a wide timestamp: that of any time since 1970-02-20. */
    if (record->timestamp_ms <= UINT32_MAX ||
        (!has_middle(stencil, record) && !keep_middle(stencil, record))) {
        at = put_u64(put_name(at, timestamp_name), record->timestamp_ms);
        return put_shared(stencil, record, at);
    }
    stencil->last = record;
    memcpy(at, stencil->middle, stencil->middle_len);
    mci_put_be64(at + sizeof "timestamp" + 1, record->timestamp_ms);
    return at + stencil->middle_len;
}

/* The tail of an event whose key is a number. */
static uint8_t *put_hashed_tail(const struct mc_event_writer *writer,
                                const struct event_stencil *stencil,
                                uint64_t hash, uint8_t *at)
{
    at = put_u64(put_array_header(put_name(at, seq_name), 1), hash);
    if (writer->has_block_hashes) {
        at = put_array_header(put_name(at, block_name), 1);
        at = put_i64(at, (int64_t)hash);
    }
    struct stencil_run rest = stencil->tail;
    rest.bytes += stencil->tail_hashes_len;
    rest.len -= stencil->tail_hashes_len;
    return put_run(at, &rest);
}

static inline uint8_t *put_event(struct mc_event_writer *writer,
                                 const struct mc_event_record *record,
                                 uint8_t *at)
{
    struct event_stencil *stencil = &writer->stencils[record->type];
    uint64_t hash;
    memcpy(at, stencil->head.bytes, NAME_COPY);
    at = put_u64(at + stencil->head.len, record->event_id);
    at = put_middle(stencil, record, at);
    if (stencil->has_group) {
        at = put_str_or_nil(at, record->group_id);
    }
    if (stencil->has_session) {
        at = put_str_or_nil(put_name(at, session_name), record->session_id);
    }
    if (stencil->has_key) {
        at = put_str(put_name(at, key_name), record->object_key);
    }
    if (writer->seq_hashes && stencil->has_group &&
        key_number_parse(record->object_key, &hash)) {
        return put_hashed_tail(writer, stencil, hash, at);
    }
    return put_run(at, &stencil->tail);
}

static inline size_t bound_of(const struct mc_event_writer *writer,
                              const struct mc_event_record *record)
{
    return writer->stencils[record->type].bound + record->tenant_id.len +
           record->backend_id.len + record->medium.len + record->group_id.len +
           record->session_id.len + record->object_key.len;
}

static inline bool is_type(enum mc_event_type type)
{
    return type >= MC_EVENT_STORED && type <= MC_EVENT_CLEARED;
}

size_t mc_event_writer_bound(const struct mc_event_writer *writer,
                             const struct mc_event_record *record)
{
    return is_type(record->type) ? bound_of(writer, record) : 0;
}

enum mc_err mc_event_writer_batch(struct mc_event_writer *writer,
                                  uint64_t timestamp_ms,
                                  const struct mc_event_record *records,
                                  size_t count, void *buffer, size_t capacity,
                                  size_t *len_out)
{
    uint8_t *at = buffer;
    if (count > MC_EVENT_COUNT_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (capacity < MC_EVENT_WRITER_BATCH_BOUND) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    for (int type = MC_EVENT_STORED; type <= MC_EVENT_CLEARED; type++) {
        writer->stencils[type].last = NULL;
    }
    /* The rank behind the events has its room from the start. */
    const uint8_t *end = at + capacity - PUT_HEADER_MAX;
    at = put_u64(put_array_header(at, 3), timestamp_ms);
    at = put_array_header(at, count);
    for (size_t i = 0; i < count; i++) {
        if (!is_type(records[i].type)) {
            return MC_ERR_INVALID_PARAMS;
        }
        if (bound_of(writer, &records[i]) > (size_t)(end - at)) {
            return MC_ERR_BUFFER_OVERFLOW;
        }
        at = put_event(writer, &records[i], at);
    }
    at = put_u64(at, writer->dp_rank);
    *len_out = (size_t)(at - (uint8_t *)buffer);
    return MC_OK;
}

#define SETTING_LEN_MAX 4096

static bool is_setting(struct mc_view text)
{
    return text.len <= SETTING_LEN_MAX &&
           (text.len == 0 || mci_utf8_valid(text.data, text.len));
}

enum mc_err mc_event_writer_create(const struct mc_event_writer_opts *opts,
                                   struct mc_event_writer **writer_out)
{
    if (!is_setting(opts->model_name) || !is_setting(opts->additional_salt) ||
        !is_setting(opts->lora_name)) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mc_event_writer *writer = mci_calloc(1, sizeof *writer);
    if (!writer) {
        return MC_ERR_NOMEM;
    }
    writer->seq_hashes = opts->seq_hashes;
    writer->has_block_hashes = !opts->no_legacy_compat;
    writer->dp_rank = opts->dp_rank;
    for (int type = MC_EVENT_STORED; type <= MC_EVENT_CLEARED; type++) {
        enum mc_err err = event_stencil_init(&writer->stencils[type], opts,
                                             (enum mc_event_type)type);
        if (err != MC_OK) {
            mc_event_writer_destroy(writer);
            return err;
        }
    }
    *writer_out = writer;
    return MC_OK;
}

void mc_event_writer_destroy(struct mc_event_writer *writer)
{
    if (!writer) {
        return;
    }
    for (int type = MC_EVENT_STORED; type <= MC_EVENT_CLEARED; type++) {
        event_stencil_fini(&writer->stencils[type]);
    }
    mci_free(writer);
}

void mc_event_writer_set_epoch(struct mc_event_writer *writer, uint64_t epoch)
{
    for (int type = MC_EVENT_STORED; type <= MC_EVENT_CLEARED; type++) {
        event_stencil_set_epoch(&writer->stencils[type], epoch);
    }
}
