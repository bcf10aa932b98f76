/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of messages from a few peers to the recovery server: requests, near
 * requests and bytes of the input, in between answers that are taken, blocked or
 * find nobody, and time. Whatever comes, a message that is given out is whole and
 * for a peer that asked, numbers of a replay rise, what is held stays within its
 * bounds, once all read and time goes nobody is left in line, and at the end nothing
 * is left over.
 */
#include <string.h>

#include "fuzz_bytes.h"
#include "mci_alloc.h"
#include "mci_bytes.h"
#include "recovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEERS 5
#define FRAMES_MAX 6

struct script {
    struct fuzz_bytes bytes;
    struct mci_recovery *recovery;
    struct mci_history *history;
    uint64_t now_ns;
    uint64_t seq;
    bool has_asked[PEERS];
};

/* ---- a store of some keys ------------------------------------------------------ */

static enum mc_err begin(void *ctx, struct mc_view tenant,
                         uint64_t *first_id_out)
{
    (void)ctx;
    *first_id_out = 7;
    return tenant.len == 1 ? MC_ERR_INVALID_PARAMS : MC_OK;
}

static enum mc_err next(void *ctx, struct mc_view tenant,
                        struct mci_snapshot_cursor *cursor,
                        struct mci_snapshot_rows *rows_out)
{
    static struct mc_event_record rows[100];
    struct script *script = ctx;
    size_t count = fuzz_byte(&script->bytes) % 100;
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct mc_event_record){
            .type = MC_EVENT_STORED,
            .event_id = cursor->place + i + 1,
            .tenant_id = tenant.data ? tenant : mc_view_str("default"),
            .medium = mc_view_str("cpu"),
            .object_key = mc_view_str("key")};
    }
    cursor->place += count;
    cursor->at_end = count == 0;
    *rows_out = (struct mci_snapshot_rows){rows, count};
    return count == 99 ? MC_ERR_NOMEM : MC_OK;
}

static uint64_t some_number(void *ctx)
{
    (void)ctx;
    return 7;
}

/* ---- what peers say ------------------------------------------------------------ */

static struct mc_view peer_name(uint8_t peer)
{
    static const char names[] = "abcde";
    return mc_view_make(&names[peer % PEERS], 1);
}

/* Words, numbers, or so many bytes of the input. */
static struct mc_view draw_frame(struct script *script, uint8_t room[64])
{
    static const char *const words[] = {"", "snapshot", "status", "credit",
                                        "tenant"};
    uint8_t byte = fuzz_byte(&script->bytes);
    if (byte < 120) {
        return mc_view_str(words[byte % 5]);
    }
    size_t len = byte < 180 ? 8 : byte < 220 ? 4 : byte % 65;
    for (size_t i = 0; i < len; i++) {
        room[i] = byte < 220 && i + 1 < len ? 0 : fuzz_byte(&script->bytes);
    }
    return mc_view_make(room, len);
}

static void hear(struct script *script)
{
    uint8_t rooms[FRAMES_MAX][64];
    struct mc_view frames[FRAMES_MAX];
    uint8_t peer = fuzz_byte(&script->bytes) % PEERS;
    size_t count = fuzz_byte(&script->bytes) % (FRAMES_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        frames[i] = draw_frame(script, rooms[i]);
    }
    if (count > 0 && fuzz_byte(&script->bytes) % 4 != 0) {
        frames[0] = mc_view_str("");
    }
    script->has_asked[peer] = true;
    mci_recovery_hear(script->recovery, peer_name(peer), frames, count,
                      script->now_ns);
}

/* ---- what they get ------------------------------------------------------------- */

static void check(struct script *script,
                  const struct mci_recovery_message *message)
{
    require(message->count >= 4 && message->count <= MCI_RECOVERY_ANSWER_MAX);
    require(message->frames[0].len == 1 && message->frames[1].len == 0);
    uint8_t peer = *(const uint8_t *)message->frames[0].data - 'a';
    require(peer < PEERS && script->has_asked[peer]);
    if (!mc_view_equal(message->frames[2], mc_view_str("status"))) {
        require(message->frames[3].len == 8);
        uint64_t number = mci_get_be64(message->frames[3].data);
        require(number <= script->seq || number == UINT64_MAX ||
                mc_view_equal(message->frames[2], mc_view_str("snapshot")));
    }
    struct mci_recovery_stats stats;
    mci_recovery_stats(script->recovery, &stats);
    require(stats.waiting <= MCI_RECOVERY_WAIT_MAX + MCI_RECOVERY_SHARING_MAX);
    require(stats.serving <= MCI_RECOVERY_REPLAYS + MCI_RECOVERY_SHARING_MAX +
                                 MCI_RECOVERY_ASIDE_MAX + 1);
}

static void answer(struct script *script, int messages)
{
    struct mci_recovery_message message;
    while (messages-- > 0 &&
           mci_recovery_next(script->recovery, script->now_ns, 1, &message)) {
        check(script, &message);
        uint8_t byte = fuzz_byte(&script->bytes);
        mci_recovery_told(script->recovery,
                          byte < 200   ? MCI_RECOVERY_SENT
                          : byte < 240 ? MCI_RECOVERY_BLOCKED
                                       : MCI_RECOVERY_GONE,
                          script->now_ns);
    }
}

/* All read, and those who were granted nothing are given up. */
static void drain(struct script *script)
{
    struct mci_recovery_message message;
    struct mci_recovery_stats stats;
    for (int i = 0; i < 1000; i++) {
        while (
            mci_recovery_next(script->recovery, script->now_ns, 1, &message)) {
            check(script, &message);
            mci_recovery_told(script->recovery, MCI_RECOVERY_SENT,
                              script->now_ns);
        }
        mci_recovery_stats(script->recovery, &stats);
        if (stats.serving == 0 && stats.waiting == 0) {
            require(mci_recovery_wake_at(script->recovery) == UINT64_MAX);
            return;
        }
        require(mci_recovery_wake_at(script->recovery) != UINT64_MAX);
        script->now_ns += MCI_RECOVERY_PATIENCE_NS;
    }
    require(false);
}

static void step(struct script *script)
{
    uint8_t byte = fuzz_byte(&script->bytes);
    if (byte < 140) {
        hear(script);
    } else if (byte < 200) {
        answer(script, byte - 139);
    } else if (byte < 220) {
        script->now_ns += (uint64_t)(byte - 199) * MCI_RECOVERY_RETRY_NS;
    } else if (byte < 230) {
        script->now_ns += MCI_RECOVERY_PATIENCE_NS;
    } else {
        script->seq += 1 + fuzz_byte(&script->bytes) % 3;
        require(mci_history_add(script->history, script->seq,
                                mc_view_str("payload")) == MC_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct mci_snapshot_source source = {begin, next, some_number,
                                                      some_number};
    const struct mc_event_writer_opts writer_opts = {.epoch = 1};
    struct script script = {.bytes = {data, size}, .now_ns = 1};
    struct mc_event_writer *writer = NULL;
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    require(mci_history_create(8, 0, &script.history) == MC_OK);
    require(mc_event_writer_create(&writer_opts, &writer) == MC_OK);
    const struct mci_recovery_opts opts = {.history = script.history,
                                           .source = &source,
                                           .ctx = &script,
                                           .writer = writer,
                                           .backend_id = mc_view_str("n1"),
                                           .max_bytes = 8192,
                                           .layout = 4};
    require(mci_recovery_create(&opts, &script.recovery) == MC_OK);
    while (script.bytes.len > 0) {
        step(&script);
    }
    drain(&script);
    mci_recovery_destroy(script.recovery);
    mc_event_writer_destroy(writer);
    mci_history_destroy(script.history);
    mci_alloc_stats(&after);
    require(after.blocks == before.blocks);
    return 0;
}
