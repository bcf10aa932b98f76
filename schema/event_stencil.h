/* SPDX-License-Identifier: Apache-2.0 */
/* event_stencil.h - the constant bytes of one type of event, laid out once.
 *
 * An event is: head, its id, middle, the values that differ from key to key,
 * tail. The middle holds the values that many events share (time, tenant,
 * backend, medium) and is kept as it was last written.
 */
#ifndef MC_EVENT_STENCIL_H
#define MC_EVENT_STENCIL_H
#include "mc_event_writer.h"
#include "mci_buf.h"

/* Bytes that a copy of a run may read and write beyond its end. */
#define STENCIL_SLACK 32

/* Longest name of a medium that is kept in the middle. */
#define STENCIL_MEDIUM_MAX 16

struct stencil_run {
    const uint8_t *bytes;
    size_t len;
};

struct event_stencil {
    struct mci_buf buf; /* owns the bytes of all runs */

    struct stencil_run head; /* map header, name of the id */
    /* Of the middle: what follows the timestamp, tenant, ... */
    struct stencil_run after_timestamp;
    struct stencil_run after_tenant;
    struct stencil_run after_backend;
    struct stencil_run after_medium;
    struct stencil_run tail;
    size_t tail_hashes_len; /* of the tail: empty hash arrays with names */
    uint8_t *epoch; /* where it stands at the end of the tail, or NULL */
    size_t bound;   /* what an event takes at most beside its strings */
    bool has_medium;
    bool has_group;
    bool has_session;
    bool has_key;

    uint8_t *middle;   /* as last written, with a wide timestamp */
    size_t middle_len; /* 0: not written yet */
    size_t middle_capacity;
    const struct mc_event_record *last; /* of this batch; or NULL */
    struct mc_view tenant_id;           /* in the middle, and so below */
    struct mc_view backend_id;
    struct mc_view medium;
};

/* Errors: MC_ERR_NOMEM, MC_ERR_BUFFER_OVERFLOW. On failure nothing is kept. */
MC_CHECK_RESULT enum mc_err
event_stencil_init(struct event_stencil *stencil,
                   const struct mc_event_writer_opts *opts,
                   enum mc_event_type type);
void event_stencil_fini(struct event_stencil *stencil); /* zeroed is fine */

void event_stencil_set_epoch(struct event_stencil *stencil, uint64_t epoch);
#endif
