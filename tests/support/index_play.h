/* SPDX-License-Identifier: Apache-2.0 */
/* index_play.h - a random stream of changes on a tree of blocks, and questions
 * about what is there all the time whatever else changes: for readers beside a
 * writer.
 *
 * Block n hangs below (n - 1) / 2. The store "steady" holds the chain of the
 * block STEADY, and the session "steady" reached it.
 */
#ifndef INDEX_PLAY_H
#define INDEX_PLAY_H
#include <pthread.h>
#include <stdatomic.h>

#include "mc_index.h"

#define PLAY_READERS 3
#define PLAY_DEPTH 9
#define PLAY_BLOCKS ((1u << (PLAY_DEPTH + 1)) - 1)
#define PLAY_STEADY 700u

/* Check's own assertions are for one thread. */
#define must(holds) must_at((holds), #holds, __LINE__)
void must_at(bool holds, const char *what, int line);

struct play;
struct play_reader {
    struct play *play;
    pthread_t thread;
    _Atomic uint64_t turns; /* of all questions, whatever they are */
};

struct play {
    struct mc_index *index;
    atomic_bool is_over;
    struct play_reader readers[PLAY_READERS];
    uint64_t steady[PLAY_DEPTH + 2];
    size_t steady_len;
};

/* An index with what is steady, and readers that ask until it is over. */
void play_begin(struct play *play, const struct mc_index_opts *bounds);
/* Joins the readers; the index is checked and gone. */
void play_end(struct play *play);

/* One change of the stream; it never takes away what is steady. */
void play_change(struct mc_index *index, uint64_t *random);
/* The session "steady" is the one touched last. */
void play_touch(struct play *play);

/* Turns of the reader that has had the fewest. */
uint64_t play_turns(struct play *play);
#endif
