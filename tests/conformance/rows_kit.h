/* SPDX-License-Identifier: Apache-2.0 */
/* rows_kit.h - what the tests of the suite share: a driver on a store, memory
 * whose every byte is watched, and operations whose every row is.
 */
#ifndef ROWS_KIT_H
#define ROWS_KIT_H
#include <check.h>
#include <stdatomic.h>
#include <string.h>

#include "await.h"
#include "rows.h"

#define KIT_KIB UINT64_C(1024)
#define KIT_MIB (1024 * KIT_KIB)
#define KIT_LONG_MS 60000
#define KIT_ROWS_MAX 64

/* Of the harness that the suite runs over. */
extern const struct rows_harness *rows_on;

struct rows_kit {
    void *world;
    struct mc_row_driver *driver;
    uint64_t submitted[2]; /* rows, by kind */
    _Atomic unsigned told; /* calls of on_change */
};

/* Memory by itself: what is on no row's slot has a mark that stays. */
struct rows_memory {
    uint8_t *bytes;
    size_t len;
    uint32_t region;
};

/* NULLs: 8 MiB, the defaults; then on_change counts. */
void kit_open(struct rows_kit *kit, const struct rows_store *store,
              const struct mc_row_driver_opts *opts);
/* Looks whether each row that was taken has ended once; closes both. */
void kit_close(struct rows_kit *kit);
/* The rows of operations that others submitted. */
void kit_count(struct rows_kit *kit, enum mc_row_kind kind, size_t rows);

struct rows_memory kit_memory(struct rows_kit *kit, size_t len);
/* Nobody has it any more, so nobody may touch it from here on. */
void kit_retire(struct rows_kit *kit, struct rows_memory *memory);
/* The same without a driver to ask. */
void kit_poison(struct rows_memory *memory);
bool kit_is_marked(const struct rows_memory *memory, size_t from, size_t len);

/* Bytes that tell whose they are and where. */
void kit_fill(void *data, size_t len, uint32_t seed);
bool kit_is_filled(const void *data, size_t len, uint32_t seed);

/* A row of one span, and its operation. Fails the test if it is refused. */
struct mc_row kit_row(const char *key, const struct mc_row_span *span);
struct mc_row_op *kit_submit(struct rows_kit *kit, enum mc_row_kind kind,
                             const struct mc_row *rows, size_t count,
                             uint32_t timeout_ms);
/* Waits for the end of all rows, looks at what holds for each, releases. */
void kit_await(struct mc_row_op *op, struct mc_row_state *states, size_t count);
struct mc_row_state kit_run(struct rows_kit *kit, enum mc_row_kind kind,
                            const char *key, struct mc_row_span span);
void kit_expect(struct mc_row_state state, enum mc_row_reason reason);

/* Short on a machine that is not under a sanitizer. */
uint32_t kit_ms(uint32_t ms);
uint64_t kit_now_ms(void);

/* False, told once: this store cannot. */
bool kit_fault(struct rows_kit *kit, enum rows_step step, enum rows_fault fault,
               unsigned count);
bool kit_strike(struct rows_kit *kit, enum rows_blow blow);

/* The cases. */
TCase *rows_basic_case(void);
TCase *rows_limits_case(void);
TCase *rows_ends_case(void);
TCase *rows_crowd_case(void);
TCase *rows_faults_case(void);
#endif
