/* SPDX-License-Identifier: Apache-2.0 */
/* store_rig.h - a store core in the hand of a test: its own event log with the
 * test as the tap, one client, one segment, a clock that stands still.
 *
 * Events are read as a line of text, so that a test says what it expects in the
 * words of the table it proves:
 *
 *   +cpu:k#tag@group    stored            -cpu:k      removed
 *   !default            cleared           a&b         b belongs to a: the two
 *                                                     never stand in two batches
 *
 * Every reading checks that ids go on without a hole. Each write and read lets
 * a microsecond pass first, so that no two of them happened at once.
 */
#ifndef STORE_RIG_H
#define STORE_RIG_H
#include <check.h>

#include "mc_client.h"
#include "mci_event_log.h"
#include "mci_master.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define RIG_TEXT_MAX (1 << 18)

struct rig_opts {           /* all zero = the defaults */
    uint64_t segment_bytes; /* 0 = 1 MiB, MC_NONE = no segment */
    uint32_t log_capacity;
    enum mc_publisher_overflow overflow;
    bool no_tap;
    uint32_t shards; /* 0 = 1: one order of last use */
    struct mc_store_opts store;
};

struct rig {
    struct mci_event_log *log;
    struct mci_master *master;
    uint32_t client;
    uint32_t segment;
    uint64_t now_ns;
    uint64_t deadline_ns; /* of calls, 0 at first: nobody waits for the log */
    struct mc_view tenant;
    const struct mc_replicate_config *config; /* of writes, NULL at first */
    uint64_t last_id;                         /* of the tap */
    struct mci_log_taken taken;
    char *text;
    size_t text_len;
};

void rig_open(struct rig *rig, const struct rig_opts *opts);
/* With the defaults, and one object in it. */
void rig_open_with(struct rig *rig, const char *spec, uint64_t size);
void rig_close(struct rig *rig);
void rig_pass(struct rig *rig, uint64_t ms); /* time goes on */
struct mci_call rig_call(const struct rig *rig);

/* Another client of the same store, with a segment of that size or none. */
uint32_t rig_add_client(struct rig *rig, uint64_t segment_bytes,
                        uint32_t *segment_out);

/* ---- events ------------------------------------------------------------ */

/* What was appended since the last reading; valid until the next. */
const char *rig_events(struct rig *rig);

/* Adds one record to text as above; returns the new length. */
size_t rig_print_record(char *text, size_t len, size_t max,
                        const struct mci_log_record *record);

#define EXPECT_EVENTS(rig, text) ck_assert_str_eq(rig_events(rig), text)

/* ---- single rows -------------------------------------------------------- */

/* "key", "key#tag", "key@group", "key#tag@group"; valid for the call. Its end
 * says that the write grant is spent. */
struct mci_write_row rig_row(const char *spec, uint64_t size);

struct mci_write_row rig_put_start(struct rig *rig, const char *spec,
                                   uint64_t size);
struct mci_write_row rig_upsert_start(struct rig *rig, const char *spec,
                                      uint64_t size);
enum mc_err rig_end(struct rig *rig, struct mci_write_row *row);
enum mc_err rig_revoke(struct rig *rig, struct mci_write_row *row);
enum mc_err rig_put(struct rig *rig, const char *spec, uint64_t size);
enum mc_err rig_upsert(struct rig *rig, const char *spec, uint64_t size);
struct mci_read_row rig_get(struct rig *rig, const char *key, bool want_hold);
void rig_release(struct rig *rig, struct mci_read_row *row);
/* A get that takes a lease with a name; what becomes of such a lease. */
struct mci_read_row rig_lease(struct rig *rig, const char *key);
enum mc_err rig_lease_renew(struct rig *rig, struct mci_read_row *row);
enum mc_err rig_lease_hold(struct rig *rig, struct mci_read_row *row);
void rig_lease_release(struct rig *rig, struct mci_read_row *row);
int64_t rig_exist(struct rig *rig, const char *key);
int64_t rig_remove(struct rig *rig, const char *key, bool force);
uint64_t rig_remove_all(struct rig *rig, bool force);
struct mc_probe rig_probe(struct rig *rig, const char *key);
bool rig_has_tag(struct rig *rig, const char *key, const char *tag);
struct mci_master_stats rig_stats(struct rig *rig);
uint64_t rig_leased_only(struct rig *rig); /* bytes */
enum mc_err rig_offload(struct rig *rig, const char *key);
int64_t rig_disk_gone(struct rig *rig, const char *key);
int64_t rig_clear_replica(struct rig *rig, const char *key);

/* The ways in which a readable object that is leased ceases to be what its key
 * gives. An upsert puts 64 bytes in its place. */
enum rig_way {
    RIG_BY_REMOVE, /* which a lease refuses, then by force */
    RIG_BY_FORCE,
    RIG_BY_REMOVE_ALL, /* of this one object */
    RIG_BY_REGEX,
    RIG_BY_UPSERT,
    RIG_BY_CLEARING,
    RIG_WAYS
};
void rig_unlink(struct rig *rig, const char *key, enum rig_way way);

/* Sweeps until nothing is left to do. */
void rig_sweep(struct rig *rig);
void rig_pass_and_sweep(struct rig *rig, uint64_t ms);

/* Puts prefix0, prefix1, ... of that size until there is no room that was
 * never used, at most max; returns how many. */
uint32_t rig_fill(struct rig *rig, const char *prefix, uint64_t size,
                  uint32_t max);
uint32_t rig_count(struct rig *rig, const char *prefix, uint32_t max);

/* Whether two ranges share a byte. */
bool rig_overlap(struct mci_place a, uint64_t a_size, struct mci_place b,
                 uint64_t b_size);

/* Everything that can be had is had, and lies beside the leased bytes. */
void rig_fill_beside(struct rig *rig, struct mci_place leased, uint64_t size);

/* ---- state -------------------------------------------------------------- */

/* All that a refused call must leave alone, as text: objects with version, tag,
 * group, size and media, bytes, attempts, the newest id. The caller frees. */
char *rig_state(struct rig *rig);

/* Frees nothing of before. */
#define EXPECT_UNCHANGED(rig, before)   \
    do {                                \
        char *now_ = rig_state(rig);    \
        ck_assert_str_eq(now_, before); \
        EXPECT_EVENTS(rig, "");         \
        free(now_);                     \
    } while (0)
#endif
