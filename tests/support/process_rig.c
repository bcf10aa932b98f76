/* SPDX-License-Identifier: Apache-2.0 */
#include "process_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "mci_clock.h"

#define HEARTBEAT_MS 100

static uint64_t next_epoch(void)
{
    static _Atomic uint64_t serial;
    return mci_clock_wall_ms() << 16 | (++serial & 0xffff);
}

void process_open(struct process_rig *rig, const struct process_rig_opts *opts)
{
    uint64_t epoch = next_epoch();
    const struct mci_log_opts log = {.epoch = epoch,
                                     .capacity = opts->log_capacity,
                                     .overflow = opts->overflow};
    *rig = (struct process_rig){.port = 0};
    ck_assert_int_eq(mci_event_log_create(&log, &rig->log), MC_OK);
    const struct mci_master_opts master = {.store = opts->store,
                                           .log = rig->log,
                                           .expected_bytes =
                                               opts->expected_bytes};
    ck_assert_int_eq(mci_master_create(&master, &rig->master), MC_OK);
    const struct mci_registry_opts registry = {
        .master = rig->master,
        .epoch = epoch,
        .client_ttl_ms = opts->client_ttl_ms,
        .heartbeat_ms = opts->heartbeat_ms ? opts->heartbeat_ms : HEARTBEAT_MS};
    ck_assert_int_eq(mci_registry_create(&registry, &rig->registry), MC_OK);
    const struct mci_control_server_opts server = {
        .master = rig->master,
        .registry = rig->registry,
        .listen = {.host = "127.0.0.1", .port = opts->port},
        .epoch = epoch};
    const char *why = "";
    enum mc_err err =
        mci_control_server_create(&server, &rig->server, &rig->port, &why);
    ck_assert_msg(err == MC_OK, "control server: %d %s", err, why);
    if (!opts->no_sweeper) {
        ck_assert_int_eq(mci_sweeper_start(&rig->sweeper, rig->master), MC_OK);
    }
    (void)snprintf(rig->address, sizeof rig->address, "127.0.0.1:%u",
                   (unsigned)rig->port);
}

void process_close(struct process_rig *rig)
{
    mci_control_server_destroy(rig->server);
    mci_sweeper_stop(&rig->sweeper);
    mci_registry_destroy(rig->registry);
    mci_master_destroy(rig->master);
    mci_event_log_destroy(rig->log);
}
