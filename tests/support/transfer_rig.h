/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_rig.h - an owner that lends memory, and a peer that reaches it by one
 * transport; both engines in this process.
 *
 * What a test names is asserted on the way. Local memory of rows comes from
 * rig_memory, which is registered with the peer.
 */
#ifndef TRANSFER_RIG_H
#define TRANSFER_RIG_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mc_transfer.h"

#define RIG_PAGE UINT64_C(4096)
#define RIG_MIB UINT64_C(0x100000)
#define RIG_INCARNATION UINT64_C(0x1122334455667788)

/* Memory in a memfd, with a generation in its first page. */
struct rig_memory {
    int fd;
    uint8_t *map;
    uint8_t *base; /* map + RIG_PAGE */
    uint64_t bytes;
};
struct rig_memory rig_memory_make(uint64_t bytes);
void rig_memory_free(struct rig_memory *memory);

struct rig {
    enum mc_transport_kind kind;
    struct rig_memory memory;
    struct mc_transfer *owner;
    struct mc_transfer *peer; /* the owner itself, if local */
    struct mc_exposure exposure;
    struct mc_target *target;
    uint8_t *local; /* registered memory of the peer */
    size_t local_bytes;
    uint64_t serial; /* of attempts */
};

/* Kinds that are built, for loop tests. */
extern const enum mc_transport_kind rig_kinds[];
#define RIG_KINDS 3
bool rig_is_built(enum mc_transport_kind kind);

void rig_open(struct rig *rig, enum mc_transport_kind kind, uint64_t bytes,
              size_t local_bytes);
void rig_close(struct rig *rig);

/* Exposes the memory (again) and opens the target. */
void rig_lend(struct rig *rig);

/* A row of one span, granted for what it moves until 30 s from now. A write gets
 * an attempt of its own. */
struct mc_transfer_row rig_row(struct rig *rig, const struct mc_span *spans,
                               uint32_t count, uint64_t offset, bool is_write);
/* Signs the row's terms anew. */
void rig_sign(const struct rig *rig, struct mc_transfer_row *row,
              uint64_t deadline_ns);

uint64_t rig_deadline(uint64_t ms); /* from now */

/* Runs one row with 20 s. */
enum mc_err rig_run(struct rig *rig, struct mc_transfer_row *row);

/* Bytes that tell place and seed. */
void rig_fill(uint8_t *at, size_t len, uint64_t seed);
bool rig_is_filled(const uint8_t *at, size_t len, uint64_t seed);

/* Mappings of this process that bear a name. */
size_t rig_count_maps(const char *name);

/* Of the owner. */
uint64_t rig_shm_peers(const struct rig *rig);
#endif
