/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - a client from the inside: what it holds, and how its calls begin.
 * Threads: fields do not change between open and close.
 */
#ifndef CLIENT_H
#define CLIENT_H
#include "mc_client.h"
#include "mci_clock.h"
#include "mci_link.h"
#include "mci_publisher.h"
#include "mci_segment.h"
#include "sweeper.h"

struct mc_client {
    struct mci_master_link link;
    uint32_t id;
    uint32_t segment_id; /* 0: it lends nothing */
    uint32_t timeout_ms;
    struct mci_segment segment;
    char tenant[MC_TENANT_LEN_MAX + 1];
    /* Embedded: the store itself. */
    struct mci_event_log *log;
    struct mci_publisher *publisher; /* NULL: none */
    struct mci_master *master;
    struct mci_sweeper sweeper;
};

/* What every call says of itself. */
struct mci_call mci_client_call(const struct mc_client *client);

/* The memory of a range, NULL if it is not in this process. */
uint8_t *mci_client_memory(const struct mc_client *client,
                           const struct mci_place *place, uint64_t len);

/* Puts a refusal into every row and returns it. */
enum mc_err mci_client_refuse(int64_t *results, size_t count, enum mc_err err);

/* The limits of an array call. Errors: -600. */
MC_CHECK_RESULT enum mc_err
mci_client_check_rows(const void *keys, const int64_t *results, size_t count);
#endif
