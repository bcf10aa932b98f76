/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.h - the bounded queue between the thread that reads the sockets and the
 * one that delivers.
 *
 * It counts bytes: what is over the bound is not refused, the reader is told to
 * pause, and is woken when half of it is free again. Its fd is readable while
 * there is a letter to take or the taker has said that it is still busy with
 * one. Letters are recycled; they belong to the inbox from put to take and
 * from give back to the next get.
 * Threads: one reader (get, put), one taker (take, rest, give_back); stats: any.
 */
#ifndef INBOX_H
#define INBOX_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"

struct inbox_letter {
    struct inbox_letter *next;
    uint32_t source;
    size_t bytes; /* what it counts for */
};

/* Counted per source. */
struct inbox_load {
    uint64_t messages;
    uint64_t bytes;
    uint64_t full; /* times that its reading had to pause */
};

struct inbox {
    pthread_mutex_t lock; /* guards all below */
    struct inbox_letter *head;
    struct inbox_letter *tail;
    struct inbox_letter *spare;
    uint64_t bytes;
    uint64_t max_bytes;
    struct inbox_load *loads; /* per source */
    uint64_t count;
    uint64_t spare_count;
    bool is_busy;
    bool is_raised; /* fd is readable */
    bool is_paused; /* the reader waits to be woken */
    int fd;         /* for the taker */
    int wake_fd;    /* for the reader */
};

/* wake_fd is an eventfd of the reader, borrowed. Errors: MC_ERR_NOMEM,
 * MC_ERR_INTERNAL_ERROR (no descriptors left). */
MC_CHECK_RESULT enum mc_err inbox_init(struct inbox *inbox,
                                       uint32_t source_count,
                                       uint64_t max_bytes, int wake_fd);

/* Hands out what is left, one letter a call, spare ones too; NULL at the end.
 * Then inbox_fini. */
struct inbox_letter *inbox_drain(struct inbox *inbox);
void inbox_fini(struct inbox *inbox);

/* ---- the reader */

/* A spare letter or NULL: make one. */
struct inbox_letter *inbox_get(struct inbox *inbox);
/* False: it is in, but reading has to pause. */
bool inbox_put(struct inbox *inbox, struct inbox_letter *letter);
/* Counts a pause of a source. */
void inbox_count_pause(struct inbox *inbox, uint32_t source);
bool inbox_is_full(struct inbox *inbox);

/* ---- the taker */

/* The next letter, NULL if there is none; makes the taker busy. */
struct inbox_letter *inbox_take(struct inbox *inbox);
/* The taker has nothing left to do with the letter it took. */
void inbox_rest(struct inbox *inbox);
/* Recycles a letter; false if there are enough, and it is the caller's again. */
bool inbox_give_back(struct inbox *inbox, struct inbox_letter *letter);
uint64_t inbox_count(struct inbox *inbox);

void inbox_load(struct inbox *inbox, uint32_t source,
                struct inbox_load *load_out);
#endif
