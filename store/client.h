/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - a client from the inside: what it holds, and how its calls begin.
 *
 * An embedded client has the store in it, and copies bytes itself; a client of a
 * master process has a remote link and a transfer. Everything above that is the
 * same for both.
 * Threads: fields do not change between open and close, but for what the parts
 * guard themselves.
 */
#ifndef CLIENT_H
#define CLIENT_H
#include "client_buffer.h"
#include "client_memory.h"
#include "client_outside.h"
#include "client_sessions.h"
#include "mc_client.h"
#include "mci_clock.h"
#include "mci_link.h"
#include "mci_publisher.h"
#include "mci_segment.h"
#include "mismatches.h"
#include "snapshot.h"
#include "sweeper.h"

struct mc_client {
    struct mci_master_link link;
    uint32_t id; /* embedded; of a remote one the link knows */
    uint32_t timeout_ms;
    uint32_t transfer_timeout_ms;
    bool any_memory;
    bool checksum; /* of every write */
    char tenant[MC_TENANT_LEN_MAX + 1];
    struct mci_memory memory;
    struct mc_local_buffer *buffer;
    struct mci_sessions sessions;
    struct mci_mismatches mismatches;
    /* Embedded: the store itself. */
    struct mci_segment segment;
    uint32_t segment_id; /* 0: it lends nothing */
    struct mci_event_log *log;
    struct mci_publisher *publisher; /* NULL: none */
    struct mci_snapshot snapshot;    /* asked by the publisher alone */
    struct mci_master *master;
    struct mci_sweeper sweeper;
    /* Of a master process: all that is outside. NULL: embedded. */
    struct mci_outside *outside;
};

/* What every call says of itself. */
struct mci_call mci_client_call(const struct mc_client *client);
/* The same, of a call that is over by then; 0: whenever. */
struct mci_call mci_client_call_until(const struct mc_client *client,
                                      uint64_t deadline_ns);

/* How long a call goes on, where its client's settings do not say. */
struct mci_until {
    uint64_t deadline_ns;     /* 0: none but theirs */
    const _Atomic int *stops; /* not 0: it ends soon, and what it had not done
                                 answers -12; NULL: nobody stops it */
};

static inline bool mci_until_stops(const struct mci_until *until)
{
    return until->stops && atomic_load(until->stops) != 0;
}

/* The earlier one. */
static inline uint64_t mci_until_most(const struct mci_until *until,
                                      uint64_t deadline_ns)
{
    return until->deadline_ns && until->deadline_ns < deadline_ns
               ? until->deadline_ns
               : deadline_ns;
}

/* Of a call that moves bytes; 0: the client's time for that. */
static inline struct mci_until mci_until_timeout(const struct mc_client *client,
                                                 uint32_t timeout_ms)
{
    return (struct mci_until){
        .deadline_ns = mci_clock_deadline(
            mci_clock_ns(),
            timeout_ms ? timeout_ms : client->transfer_timeout_ms)};
}

/* mc_client_batch_probe, which is over by then; 0: whenever. */
MC_CHECK_RESULT enum mc_err
mci_client_probe_until(struct mc_client *client, const struct mc_view *keys,
                       size_t count, uint64_t deadline_ns,
                       struct mc_probe *probes_out, int64_t *results_out);

/* Puts a refusal into every row and returns it. */
enum mc_err mci_client_refuse(int64_t *results, size_t count, enum mc_err err);

/* The limits of an array call. Errors: -600. */
MC_CHECK_RESULT enum mc_err
mci_client_check_rows(const void *keys, const int64_t *results, size_t count);

/* Both vectors, whole, before anything is filtered or done. NULL is fine. Errors:
 * -600. */
MC_CHECK_RESULT enum mc_err
mci_client_check_config(const struct mc_replicate_config *config, size_t count);

/* What a write is to be like: the caller's config, or `own`, which it is copied
 * to where the client asks for more. */
const struct mc_replicate_config *
mci_client_config(const struct mc_client *client,
                  const struct mc_replicate_config *config,
                  struct mc_replicate_config *own);

/* How many copies a write may get. */
size_t mci_client_replicas(const struct mc_replicate_config *config);

/* Of a call on one key: its own code, or the row's. */
static inline enum mc_err mci_client_code(enum mc_err err,
                                          const int64_t *result)
{
    if (err != MC_OK) {
        return err;
    }
    return *result < 0 ? (enum mc_err) * result : MC_OK;
}
#endif
