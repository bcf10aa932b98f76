/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h - what time alone brings about: ends of leases and of soft pins, and
 * attempts whose writers went silent.
 * Threads: any thread; no lock may be held.
 */
#ifndef SWEEP_H
#define SWEEP_H
#include "core.h"

/* Frees what nobody may read any more and lets soft pins run out, as of now;
 * true if there was anything. For an allocation that fails. */
bool mci_reclaim_due(struct mci_master *master, uint64_t now_ns);

/* The same in one shard, at most a bounded part of it. */
bool mci_reclaim_shard(struct mci_master *master, struct mci_shard *shard,
                       uint64_t now_ns);
#endif
