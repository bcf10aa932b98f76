/* SPDX-License-Identifier: Apache-2.0 */
/* sums_rig.h - a client of objects with checksums, and bytes that go wrong where
 * they are kept. */
#ifndef SUMS_RIG_H
#define SUMS_RIG_H
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "client_rig.h"
#include "mc_client_sessions.h"
#include "mci_sums.h"

#define BLOCK ((size_t)MCI_SUM_BLOCK)
#define BYTES_MAX (3 * MIB + 1000)

extern struct client_rig rig;
extern uint8_t *value; /* BYTES_MAX each */
extern uint8_t *got;
extern const struct mc_view key;
extern const struct mc_replicate_config summed;
extern const struct mc_replicate_config twice; /* and two copies */

/* checksum: of the client's own. */
void start_with(bool checksum);
void start(void);
void stop(void);

/* A second place for copies; with a master process only, else false. */
bool join_other(void);

uint8_t *copy_of(struct mc_view of, uint32_t i);
/* As if memory had gone bad, behind the back of whoever serves it: TSan is not
 * to see it. from NULL: zeros. */
void overwrite(uint8_t *at, const uint8_t *from, size_t len);
/* Of the key; once more puts it right. Offsets from its size on are those of its
 * sums. */
void spoil(uint32_t copy, uint64_t offset);

struct mc_client_stats stats(void);
uint64_t mismatches(void);
/* It was in this block of the key. */
void expect_last(uint64_t block, uint64_t size);

/* Ways to read the key into got; bytes, or a code. */
typedef int64_t (*read_fn)(size_t len);
int64_t by_get(size_t len);
int64_t by_session(size_t len); /* twice */
/* Reads the value. */
void expect_read(read_fn read, size_t len);

struct mc_get_session *open_session(void);
int64_t read_session(struct mc_get_session *session, uint64_t from, size_t len);

/* Around the length of a block, and a few MiB. */
extern const size_t sizes[];
#define SIZES 7
#endif
