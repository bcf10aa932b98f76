/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_rig.h - the recovery server's core with a history, a store of so many
 * keys that is walked in slices, and a clock that the test moves.
 */
#ifndef RECOVERY_RIG_H
#define RECOVERY_RIG_H
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mc_event.h"
#include "mci_bytes.h"
#include "recovery.h"

#define RECOVERY_RIG_EPOCH UINT64_C(0x19aca4b2f0a1c3d7)
#define RECOVERY_RIG_WALL_MS UINT64_C(1739145600000)
#define RECOVERY_RIG_SLICE_MAX 512

struct recovery_rig {
    struct mci_history *history;
    struct mc_event_writer *writer;
    struct mci_recovery *recovery;
    uint64_t now_ns;
    /* The store: keys "k0", "k1" ..., with ids 1, 2, ... */
    uint64_t keys;
    size_t slice;
    uint64_t last_id;
    uint64_t slices; /* walked so far */
    uint64_t begins;
    enum mc_err next_err;
    struct mc_event_record records[RECOVERY_RIG_SLICE_MAX];
    char names[RECOVERY_RIG_SLICE_MAX][24];
};

static inline enum mc_err rig_begin(void *ctx, struct mc_view tenant,
                                    uint64_t *first_id_out)
{
    struct recovery_rig *rig = ctx;
    rig->begins++;
    if (mc_view_equal(tenant, mc_view_str("nobody"))) {
        return MC_ERR_INVALID_PARAMS;
    }
    *first_id_out = rig->last_id;
    return MC_OK;
}

static inline enum mc_err rig_next(void *ctx, struct mc_view tenant,
                                   struct mci_snapshot_cursor *cursor,
                                   struct mci_snapshot_rows *rows_out)
{
    struct recovery_rig *rig = ctx;
    if (rig->next_err) {
        return rig->next_err;
    }
    rig->slices++;
    size_t count = 0;
    while (count < rig->slice && cursor->place < rig->keys) {
        (void)snprintf(rig->names[count], sizeof rig->names[count], "k%" PRIu64,
                       cursor->place);
        rig->records[count] = (struct mc_event_record){
            .type = MC_EVENT_STORED,
            .event_id = ++cursor->place,
            .tenant_id = tenant.data ? tenant : mc_view_str("default"),
            .medium = mc_view_str("cpu"),
            .session_id = mc_view_str("s"),
            .object_key = mc_view_str(rig->names[count])};
        count++;
    }
    cursor->at_end = cursor->place == rig->keys;
    *rows_out = (struct mci_snapshot_rows){rig->records, count};
    return MC_OK;
}

static inline uint64_t rig_last_id(void *ctx)
{
    return ((struct recovery_rig *)ctx)->last_id;
}

static inline uint64_t rig_keys(void *ctx)
{
    return ((struct recovery_rig *)ctx)->keys;
}

static inline struct mci_recovery_opts rig_recovery_opts(void)
{
    return (struct mci_recovery_opts){.backend_id = mc_view_str("n1"),
                                      .topic = mc_view_str("t@m"),
                                      .epoch = RECOVERY_RIG_EPOCH,
                                      .max_bytes = 49152,
                                      .layout = 4};
}

static inline void rig_open_recovery(struct recovery_rig *rig,
                                     struct mci_recovery_opts opts,
                                     uint32_t history_batches)
{
    static const struct mci_snapshot_source source = {rig_begin, rig_next,
                                                      rig_last_id, rig_keys};
    const struct mc_event_writer_opts writer = {.epoch = RECOVERY_RIG_EPOCH};
    memset(rig, 0, sizeof *rig);
    rig->now_ns = 1000;
    rig->slice = 100;
    ck_assert_int_eq(mci_history_create(history_batches, 0, &rig->history),
                     MC_OK);
    ck_assert_int_eq(mc_event_writer_create(&writer, &rig->writer), MC_OK);
    opts.history = rig->history;
    opts.source = &source;
    opts.ctx = rig;
    opts.writer = rig->writer;
    ck_assert_int_eq(mci_recovery_create(&opts, &rig->recovery), MC_OK);
}

static inline void rig_close_recovery(struct recovery_rig *rig)
{
    mci_recovery_destroy(rig->recovery);
    mc_event_writer_destroy(rig->writer);
    mci_history_destroy(rig->history);
}

/* Batches seq..last whose payload is their number as text. */
static inline void rig_keep(struct recovery_rig *rig, uint64_t seq,
                            uint64_t last)
{
    for (; seq <= last; seq++) {
        char text[24];
        (void)snprintf(text, sizeof text, "%" PRIu64, seq);
        ck_assert_int_eq(mci_history_add(rig->history, seq, mc_view_str(text)),
                         MC_OK);
    }
}

/* ---- asking ----------------------------------------------------------------- */

static inline void rig_hear(struct recovery_rig *rig, const char *peer,
                            const struct mc_view *frames, size_t count)
{
    mci_recovery_hear(rig->recovery, mc_view_str(peer), frames, count,
                      rig->now_ns);
}

static inline void rig_ask_word(struct recovery_rig *rig, const char *peer,
                                const char *word)
{
    const struct mc_view frames[] = {mc_view_str(""), mc_view_str(word)};
    rig_hear(rig, peer, frames, 2);
}

static inline void rig_ask_tenant(struct recovery_rig *rig, const char *peer,
                                  const char *tenant)
{
    const struct mc_view frames[] = {mc_view_str(""), mc_view_str("snapshot"),
                                     mc_view_str(tenant)};
    rig_hear(rig, peer, frames, 3);
}

static inline void rig_ask_replay(struct recovery_rig *rig, const char *peer,
                                  uint64_t start)
{
    uint8_t number[8];
    mci_put_be64(number, start);
    const struct mc_view frames[] = {mc_view_str(""), mc_view_make(number, 8)};
    rig_hear(rig, peer, frames, 2);
}

static inline void rig_ask_paced(struct recovery_rig *rig, const char *peer,
                                 uint64_t start, uint32_t credit)
{
    uint8_t number[8];
    uint8_t count[4];
    mci_put_be64(number, start);
    mci_put_be32(count, credit);
    const struct mc_view frames[] = {mc_view_str(""), mc_view_make(number, 8),
                                     mc_view_make(count, 4)};
    rig_hear(rig, peer, frames, 3);
}

static inline void rig_top_up(struct recovery_rig *rig, const char *peer,
                              uint32_t credit)
{
    uint8_t count[4];
    mci_put_be32(count, credit);
    const struct mc_view frames[] = {mc_view_str(""), mc_view_str("credit"),
                                     mc_view_make(count, 4)};
    rig_hear(rig, peer, frames, 3);
}

/* ---- answers ---------------------------------------------------------------- */

static inline bool rig_give(struct recovery_rig *rig,
                            struct mci_recovery_message *message)
{
    return mci_recovery_next(rig->recovery, rig->now_ns, RECOVERY_RIG_WALL_MS,
                             message);
}

static inline void rig_tell(struct recovery_rig *rig,
                            enum mci_recovery_outcome outcome)
{
    mci_recovery_told(rig->recovery, outcome, rig->now_ns);
}

static inline bool rig_is_for(const struct mci_recovery_message *message,
                              const char *peer)
{
    return mc_view_equal(message->frames[0], mc_view_str(peer));
}

/* Peers by number. */
static inline const char *rig_peer_name(unsigned i)
{
    static char names[512][8];
    (void)snprintf(names[i], sizeof names[i], "p%u", i);
    return names[i];
}

static inline unsigned
rig_peer_index(const struct mci_recovery_message *message)
{
    char name[8] = "";
    ck_assert_uint_lt(message->frames[0].len, sizeof name);
    memcpy(name, message->frames[0].data, message->frames[0].len);
    return (unsigned)strtoul(name + 1, NULL, 10);
}

static inline bool rig_is_end(const struct mci_recovery_message *message)
{
    return message->count == 5 && message->frames[2].len == 0 &&
           message->frames[3].len == 8 &&
           mci_get_be64(message->frames[3].data) == UINT64_MAX &&
           message->frames[4].len == 0;
}

/* The next message must be the batch for the peer, and is sent. */
static inline void rig_must_batch(struct recovery_rig *rig, const char *peer,
                                  uint64_t seq)
{
    struct mci_recovery_message message;
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, seq);
    ck_assert(rig_give(rig, &message));
    ck_assert(rig_is_for(&message, peer));
    ck_assert_uint_eq(message.count, 5);
    ck_assert_uint_eq(message.frames[1].len, 0);
    ck_assert(mc_view_equal(message.frames[2], mc_view_str("t@m")));
    ck_assert_uint_eq(mci_get_be64(message.frames[3].data), seq);
    ck_assert(mc_view_equal(message.frames[4], mc_view_str(text)));
    rig_tell(rig, MCI_RECOVERY_SENT);
}

static inline void rig_must_end(struct recovery_rig *rig, const char *peer)
{
    struct mci_recovery_message message;
    ck_assert(rig_give(rig, &message));
    ck_assert(rig_is_for(&message, peer));
    ck_assert(rig_is_end(&message));
    rig_tell(rig, MCI_RECOVERY_SENT);
}

static inline void rig_must_rest(struct recovery_rig *rig)
{
    struct mci_recovery_message message;
    ck_assert(!rig_give(rig, &message));
}

static inline struct mci_recovery_stats
rig_recovery_stats(struct recovery_rig *rig)
{
    struct mci_recovery_stats stats;
    mci_recovery_stats(rig->recovery, &stats);
    return stats;
}

#endif
