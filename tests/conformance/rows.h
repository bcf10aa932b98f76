/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - what a store and its driver offer so that the suite can run over them.
 *
 * The suite knows mc_row_driver.h and this table, and nothing else. Each test
 * opens a store of its own, and a driver on it; beside that another user, who
 * does not go through the driver, puts and gets, and the store's network breaks
 * where the test says. What a store cannot do it answers with false or NULL, and
 * the check is passed over, which is told.
 * docs/row_driver.md says how to write a harness.
 */
#ifndef ROWS_H
#define ROWS_H
#include "mc_row_driver.h"

/* Where a fault is. */
enum rows_step {
    ROWS_READ,  /* a get asks where its object is */
    ROWS_OPEN,  /* a put asks for room */
    ROWS_BYTES, /* they move, either way */
    ROWS_END,   /* a put says that it is done */
    ROWS_REVOKE,
    ROWS_PROBE
};
#define ROWS_STEP_COUNT 6

enum rows_fault {
    ROWS_HOLD,        /* it waits until it is lifted */
    ROWS_LOSE,        /* it never arrives */
    ROWS_LOSE_ANSWER, /* it is done, and nobody hears of it */
    ROWS_REPEAT,      /* it arrives twice */
    ROWS_CUT          /* it arrives, and the connection breaks */
};
#define ROWS_FAULT_COUNT 5

enum rows_blow {
    ROWS_NODE_STOPS, /* whoever lends the memory stands still */
    ROWS_NODE_GOES_ON,
    ROWS_NODE_DIES,
    ROWS_STORE_DIES /* whoever knows where objects are */
};

struct rows_store {
    uint64_t bytes;    /* room for objects, or little more */
    uint64_t lease_ms; /* of reads; 0: as usual */
};

struct rows_harness {
    const char *name;
    void *(*open)(
        const struct rows_store *store); /* fails the test, or works */
    /* Heals everything first. The driver is closed. */
    void (*close)(void *world);
    enum mc_err (*driver)(void *world, const struct mc_row_driver_opts *opts,
                          struct mc_row_driver **driver_out);

    /* As another user of the store, whom no fault concerns. */
    enum mc_err (*put)(void *world, struct mc_view key, const void *data,
                       size_t len);
    int64_t (*get)(void *world, struct mc_view key, void *data,
                   size_t capacity); /* its size, or a code */
    enum mc_err (*remove)(void *world, struct mc_view key);
    /* A write that is open; it ends with data, or, NULL, without a trace. */
    void *(*write)(void *world, struct mc_view key, size_t len);
    void (*finish)(void *world, void *writing, const void *data);

    /* The next `count` (0: all) of the driver's, at this step. One at each step. */
    bool (*fault)(void *world, enum rows_step step, enum rows_fault fault,
                  unsigned count);
    bool (*is_hit)(void *world); /* the last one has happened */
    void (*lift)(void *world);   /* all are over; what was held arrives */
    /* What is held there is beyond any deadline: it has to be lifted. */
    bool (*is_deaf)(void *world, enum rows_step step);
    bool (*strike)(void *world, enum rows_blow blow);
    /* That the driver's side has made, but for signs of life. */
    uint64_t (*requests)(void *world);
};

/* Runs it; the exit code of main. */
int rows_suite(const struct rows_harness *harness);
#endif
