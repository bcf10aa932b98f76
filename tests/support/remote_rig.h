/* SPDX-License-Identifier: Apache-2.0 */
/* remote_rig.h - a remote link to a fake master that answers well, or in one of
 * the ways below.
 *
 * What it says of row i: attempts are 100, 101... in the order of their starts,
 * in segment 7 at 4096 * attempt; a key is there and has 10 + i bytes; ends and
 * removes are 0.
 */
#ifndef REMOTE_RIG_H
#define REMOTE_RIG_H
#include <check.h>

#include "await.h"
#include "fake_master.h"
#include "mci_remote.h"

enum rig_mode {
    RIG_ANSWER = 0,
    RIG_CUT,       /* does it, and cuts the connection before the answer */
    RIG_CUT_FIRST, /* cuts without doing it */
    RIG_STALL,     /* does it; answers once rig->released, late */
    RIG_OTHER_NUMBER,
    RIG_OTHER_SLOT,
    RIG_OLD_FIRST, /* an answer to the number before, then the right one */
    RIG_TWICE,     /* the right one, twice */
    RIG_MORE_ROWS,
    RIG_FEWER_ROWS,
    RIG_NO_ROWS, /* nil for the result */
    RIG_BEHIND,  /* something behind the result */
    RIG_NOISE,   /* bytes that are no answer */
    RIG_SLOW,    /* byte by byte */
    RIG_HALF,    /* half of the bytes, then nothing until released */
    RIG_LEN_ZERO,
    RIG_LEN_HUGE,
    RIG_VERSION, /* of another protocol version */
    RIG_UNKNOWN, /* -103, and forgets the client */
    RIG_STALE    /* -300 */
};

struct rig {
    struct fake_master master;
    struct mci_remote *remote;
    struct mci_master_link link;
    /* May be set at any time. */
    atomic_int mode;      /* of all that goes to `answer` but what is next */
    atomic_int mode_left; /* for so many requests; then RIG_ANSWER */
    atomic_int row_code;  /* not 0: what every row of an end or remove says */
    atomic_bool released;
    atomic_uint lease_ms; /* of reads */
    atomic_uint delay_ms; /* before each answer */
    /* Told. */
    atomic_uint done[64];     /* requests done, each number once */
    atomic_uint repeated[64]; /* the same number again */
    atomic_uint renewed;
    atomic_uint fenced;
    atomic_uint asked_stuck; /* fence with count 0 */
    atomic_uint stuck_left;  /* how often something is still stuck */
    atomic_uint closed;
    _Atomic uint64_t last_closed;
    /* Under master.lock: what was done last in each slot. */
    uint64_t numbers[MCI_SLOTS_MAX];
    uint64_t incarnations[MCI_SLOTS_MAX];
    uint64_t firsts[MCI_SLOTS_MAX]; /* attempt of the first row */
    uint64_t next_attempt;
};

/* Opens both. name may be NULL. */
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);
/* Only the master: the test opens the remote with rig_opts. */
void rig_begin(struct rig *rig);
struct mci_remote_opts rig_opts(struct rig *rig, char address[32]);

/* The next `count` requests go this way. */
void rig_set(struct rig *rig, enum rig_mode mode, int count);

/* A call that ends in so many ms. */
struct mci_call rig_call(uint64_t left_ms);

enum mc_err rig_start(struct rig *rig, struct mci_write_row *row,
                      uint64_t left_ms);
enum mc_err rig_end(struct rig *rig, struct mci_write_row *row,
                    uint64_t left_ms);
enum mc_err rig_remove(struct rig *rig, int64_t *result, uint64_t left_ms);
enum mc_err rig_exist(struct rig *rig, int64_t *result, uint64_t left_ms);
#endif
