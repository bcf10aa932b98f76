/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_reader.h - the inside of the recovery server: a request that is held,
 * and the lists it stands in.
 *
 * Threads: as recovery.h.
 */
#ifndef RECOVERY_READER_H
#define RECOVERY_READER_H
#include <string.h>

#include "mci_list.h"
#include "recovery.h"
#include "recovery_walk.h"

#define PEER_LEN_MAX 255
#define READERS_MAX                                                            \
    (MCI_RECOVERY_REPLAYS + MCI_RECOVERY_WAIT_MAX + MCI_RECOVERY_SHARING_MAX + \
     MCI_RECOVERY_ASIDE_MAX + 1)

struct reader {
    struct mci_link link; /* idle, in line, or served */
    enum mci_recovery_kind kind;
    bool is_aside;   /* a short answer, which waits for nobody */
    bool is_served;  /* else in line */
    bool is_blocked; /* its queue had no room for what was said last */
    uint32_t times;  /* aside: how often it is to be said */
    uint32_t ends;   /* END of what the peer asked for after this, and could not
                        have; said when this is over */
    uint8_t peer_len;
    uint8_t peer[PEER_LEN_MAX];
    uint64_t progress_ns; /* sent something last */
    uint64_t retry_ns;    /* nothing to do before */
    /* A replay. */
    uint64_t next_seq;
    uint64_t last_seq;
    bool is_paced;
    uint64_t credit;
    const struct mci_history_batch *held;
    /* A snapshot. */
    uint8_t tenant_len; /* 0: all */
    char tenant[MC_TENANT_LEN_MAX];
    bool is_resumed; /* it was left behind, and goes on at the cursor */
    struct mci_snapshot_cursor cursor;
    struct mci_walk_shared *walk; /* served only */
    struct mci_chunk *at;
    uint64_t index; /* of the next message */
};

struct mci_recovery {
    struct mci_recovery_opts opts;
    struct mci_recovery_store store; /* what walks are made of */
    struct reader *readers;
    struct mci_link idle;
    struct mci_link line;
    struct mci_link served;
    uint32_t in_line;
    bool may_fill;    /* somebody came or went since the line was looked at */
    uint32_t replays; /* served */
    uint32_t walks;
    uint32_t sharing; /* readers of walks */
    uint32_t asides;
    struct mci_recovery_stats stats;
    /* The message that was given out. */
    struct reader *current;
    bool current_is_last;
    uint8_t number[8];
    struct mci_buf words;
};

static inline struct reader *reader_of(struct mci_link *link)
{
    return MCI_CONTAINER(link, struct reader, link);
}

static inline bool mci_reader_is_of(const struct reader *reader,
                                    struct mc_view peer)
{
    return reader->peer_len == peer.len &&
           memcmp(reader->peer, peer.data, peer.len) == 0;
}

static inline struct mc_view mci_reader_peer(const struct reader *reader)
{
    return mc_view_make(reader->peer, reader->peer_len);
}

/* Serves of the line what there is room for. recovery_line.c */
void mci_recovery_fill(struct mci_recovery *recovery, uint64_t now_ns);

/* The reader's walk goes on without it; it comes first in line. */
void mci_recovery_leave_behind(struct mci_recovery *recovery,
                               struct reader *reader);

/* Behind those who wait. */
void mci_recovery_stand(struct mci_recovery *recovery, struct reader *reader);

/* Is answered out of turn; taken from the idle. */
void mci_recovery_serve_aside(struct mci_recovery *recovery,
                              struct reader *reader, uint64_t now_ns);

/* Becomes an END that is to be sent; what it held is given back. */
void mci_recovery_refuse(struct mci_recovery *recovery, struct reader *reader,
                         uint64_t now_ns);

/* Has been sent all: what is left are the ENDs of those that came after it. */
void mci_recovery_finish(struct mci_recovery *recovery, struct reader *reader,
                         uint64_t now_ns);

/* Has taken nothing for too long: gets an END yet. False: that was what it did
 * not take, and it is over. */
bool mci_recovery_give_up(struct mci_recovery *recovery, struct reader *reader,
                          uint64_t now_ns);

/* Is over: what it holds is given back. */
void mci_recovery_drop(struct mci_recovery *recovery, struct reader *reader);
#endif
