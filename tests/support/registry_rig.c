/* SPDX-License-Identifier: Apache-2.0 */
#include "registry_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_STEPS 100000

static void note_expired(void *ctx, struct mc_view name)
{
    struct cast *cast = ctx;
    cast->expired_count++;
    ck_assert_uint_lt(name.len, sizeof cast->expired);
    memcpy(cast->expired, name.data, name.len);
    cast->expired[name.len] = '\0';
}

void cast_open(struct cast *cast, const struct cast_opts *opts)
{
    struct rig_opts rig_opts =
        opts ? opts->rig : (struct rig_opts){.segment_bytes = 0};
    rig_opts.segment_bytes = MC_NONE;
    memset(cast, 0, sizeof *cast);
    rig_open(&cast->rig, &rig_opts);
    const struct mci_registry_opts registry_opts = {
        .master = cast->rig.master,
        .epoch = mci_event_log_epoch(cast->rig.log),
        .client_ttl_ms = TTL_MS,
        .heartbeat_ms =
            opts && opts->heartbeat_ms ? opts->heartbeat_ms : BEAT_MS,
        .expired = note_expired,
        .ctx = cast};
    ck_assert_int_eq(mci_registry_create(&registry_opts, &cast->registry),
                     MC_OK);
    cast->room.fences = calloc(MCI_FENCES_MAX, sizeof *cast->room.fences);
    cast->room.closed = calloc(MC_ATTEMPTS_MAX, sizeof *cast->room.closed);
    cast->room.renewals = calloc(MC_ATTEMPTS_MAX, sizeof *cast->room.renewals);
    ck_assert_ptr_nonnull(cast->room.fences);
    ck_assert_ptr_nonnull(cast->room.closed);
    ck_assert_ptr_nonnull(cast->room.renewals);
    cast->next_incarnation = 1000;
}

void cast_close(struct cast *cast)
{
    ck_assert(mci_master_check(cast->rig.master));
    mci_registry_destroy(cast->registry);
    free(cast->room.fences);
    free(cast->room.closed);
    free(cast->room.renewals);
    rig_close(&cast->rig);
}

uint64_t cast_step(struct cast *cast)
{
    return mci_registry_step(cast->registry, cast->rig.now_ns,
                             cast->rig.deadline_ns);
}

void cast_settle(struct cast *cast)
{
    for (int i = 0; i < SETTLE_STEPS; i++) {
        if (cast_step(cast) > cast->rig.now_ns) {
            return;
        }
    }
    ck_abort_msg("steps without an end");
}

struct mci_registry_stats cast_stats(struct cast *cast)
{
    struct mci_registry_stats stats;
    mci_registry_stat(cast->registry, &stats);
    return stats;
}

/* ---- members ------------------------------------------------------------ */

enum mc_err fellow_hello(struct cast *cast, struct fellow *fellow,
                         const char *name)
{
    if (fellow->incarnation == 0) {
        fellow->incarnation = ++cast->next_incarnation;
    }
    fellow->cast = cast;
    const struct mci_hello hello = {.version_min = MCI_CONTROL_VERSION,
                                    .version_max = MCI_CONTROL_VERSION,
                                    .incarnation = fellow->incarnation,
                                    .name = mc_view_str(name),
                                    .host_id = mc_view_str("host-a"),
                                    .software = mc_view_str("test")};
    struct mci_welcome welcome;
    enum mc_err err =
        mci_registry_hello(cast->registry, &hello, cast->rig.now_ns, &welcome);
    if (err != MC_OK) {
        return err;
    }
    ck_assert_uint_eq(welcome.client_ttl_ms, TTL_MS);
    fellow->client = welcome.client;
    if (!fellow->member) {
        ck_assert_int_eq(mci_registry_member(cast->registry, welcome.client,
                                             fellow->incarnation,
                                             &fellow->member),
                         MC_OK);
    }
    return MC_OK;
}

void fellow_join(struct cast *cast, struct fellow *fellow, const char *name,
                 uint64_t bytes)
{
    memset(fellow, 0, sizeof *fellow);
    fellow->clock_ahead_ns = 77 * SECOND;
    ck_assert_int_eq(fellow_hello(cast, fellow, name), MC_OK);
    ck_assert_int_eq(fellow_beat(fellow), MC_OK);
    if (bytes > 0) {
        ck_assert_int_eq(fellow_mount(fellow, bytes), MC_OK);
    }
}

void fellow_leave(struct fellow *fellow)
{
    mci_member_release(fellow->member);
    fellow->member = NULL;
}

enum mc_err fellow_mount(struct fellow *fellow, uint64_t bytes)
{
    struct cast *cast = fellow->cast;
    fellow->mounts++;
    fellow->registration = fellow->incarnation * 100 + fellow->mounts;
    memset(fellow->key, (int)fellow->registration, sizeof fellow->key);
    struct mci_mount mount = {.id = {fellow->incarnation, fellow->mounts},
                              .registration = fellow->registration,
                              .bytes = bytes,
                              .base = 4096,
                              .name = mc_view_str("label"),
                              .endpoint = mc_view_str("127.0.0.1:1"),
                              .protocol = mc_view_str("tcp")};
    char label[32];
    (void)snprintf(label, sizeof label, "n%llu",
                   (unsigned long long)fellow->incarnation);
    mount.name = mc_view_str(label);
    memcpy(mount.key, fellow->key, sizeof mount.key);
    return mci_registry_mount(cast->registry, fellow->member, &mount,
                              cast->rig.now_ns, &fellow->segment);
}

enum mc_err fellow_unmount(struct fellow *fellow, uint64_t grace_ms)
{
    struct cast *cast = fellow->cast;
    return mci_registry_unmount(cast->registry, fellow->member, fellow->segment,
                                grace_ms, cast->rig.now_ns);
}

enum mc_err fellow_beat(struct fellow *fellow)
{
    struct cast *cast = fellow->cast;
    const struct mci_heartbeat heartbeat = {
        .clock_ns = cast->rig.now_ns + fellow->clock_ahead_ns,
        .fences_done = fellow->fences_done,
        .slots = fellow->slots,
        .slot_count = fellow->slot_count,
        .attempts = fellow->known,
        .attempt_count = fellow->known_count,
        .stuck = fellow->stuck,
        .stuck_count = fellow->stuck_count};
    return mci_registry_heartbeat(cast->registry, fellow->member, &heartbeat,
                                  cast->rig.now_ns, &cast->room,
                                  &fellow->pulse);
}

void fellow_fence(struct fellow *fellow)
{
    const struct mci_pulse *pulse = &fellow->pulse;
    if (pulse->fence_count > 0) {
        fellow->fences_done = pulse->fences[pulse->fence_count - 1].number;
    }
}

void fellow_know(struct fellow *fellow, const struct mci_write_row *row,
                 uint64_t age_ms)
{
    ck_assert_uint_lt(fellow->known_count, FELLOW_KNOWN);
    fellow->known[fellow->known_count++] = (struct mci_known_attempt){
        .number = row->attempt.number, .age_ms = age_ms};
}

void fellow_forget(struct fellow *fellow)
{
    fellow->known_count = 0;
}

/* ---- requests ----------------------------------------------------------- */

struct mci_call fellow_call(const struct fellow *fellow)
{
    struct mci_call call = rig_call(&fellow->cast->rig);
    call.client = fellow->client;
    return call;
}

struct mci_write_row fellow_start(struct fellow *fellow, uint32_t slot,
                                  const char *spec, uint64_t size)
{
    struct cast *cast = fellow->cast;
    struct mci_write_row row = rig_row(spec, size);
    struct mci_call call = fellow_call(fellow);
    uint64_t number = ++fellow->slots[slot];
    if (fellow->slot_count <= slot) {
        fellow->slot_count = slot + 1;
    }
    enum mc_err err = mci_master_put_start(cast->rig.master, &call,
                                           cast->rig.config, &row, 1);
    row.err = err == MC_OK ? row.err : err;
    if (row.err == MC_OK) {
        row.err =
            mci_registry_started(cast->registry, fellow->member, slot, number,
                                 30000, &row, 1, cast->rig.now_ns);
    }
    return row;
}

enum mc_err fellow_end(struct fellow *fellow, struct mci_write_row *row)
{
    struct cast *cast = fellow->cast;
    struct mci_call call = fellow_call(fellow);
    mci_registry_ending(cast->registry, row, 1);
    enum mc_err err = mci_master_put_end(cast->rig.master, &call, row, 1);
    mci_registry_ended(cast->registry, fellow->member, row, 1);
    return err == MC_OK ? row->err : err;
}

enum mc_err fellow_revoke(struct fellow *fellow, struct mci_write_row *row,
                          bool in_doubt)
{
    struct cast *cast = fellow->cast;
    struct mci_call call = fellow_call(fellow);
    row->in_doubt = in_doubt;
    mci_registry_ending(cast->registry, row, 1);
    enum mc_err err = mci_master_put_revoke(cast->rig.master, &call, row, 1);
    mci_registry_ended(cast->registry, fellow->member, row, 1);
    return err == MC_OK ? row->err : err;
}

void fellow_receipt(const struct fellow *owner, struct mci_write_row *row)
{
    for (uint32_t i = 0; i < row->place_count; i++) {
        if (row->places[i].segment == owner->segment) {
            row->receipts[i] = mc_grant_receipt(owner->key, owner->registration,
                                                row->attempt.number);
        }
    }
}

enum mc_err fellow_put(struct fellow *fellow, const char *spec, uint64_t size)
{
    struct mci_write_row row = fellow_start(fellow, 0, spec, size);
    if (row.err != MC_OK) {
        return row.err;
    }
    return fellow_end(fellow, &row);
}
