/* SPDX-License-Identifier: Apache-2.0 */
/* A question is a request of a set of one source that has no stream. The letter
 * that an answer was read from is kept until the next call, for its views. */
#include "mc_ask.h"

#include <errno.h>
#include <poll.h>

#include "mci_alloc.h"
#include "mci_bytes.h"
#include "mci_clock.h"
#include "source.h"

#define QUEUE_BYTES_DEFAULT (UINT64_C(64) << 20)

struct mc_ask {
    struct source_set *sources;
    struct source_message *current; /* what the last answer points into */
    struct asker_request request;   /* kind 0: nothing is asked */
    uint64_t next_number;           /* the least that may come next */
    uint64_t granted;               /* credit for messages not taken yet */
};

enum mc_err mc_ask_open(const struct mc_ask_opts *opts, struct mc_ask **ask_out)
{
    if (!opts || !opts->endpoint || !opts->endpoint[0]) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mc_ask *ask = mci_calloc(1, sizeof *ask);
    if (!ask) {
        return MC_ERR_NOMEM;
    }
    const struct mc_source_opts source = {
        .recovery_endpoint = opts->endpoint,
        .curve_server_key = opts->curve_server_key,
        .curve_key_file = opts->curve_key_file};
    const struct source_opts sources = {
        .sources = &source,
        .source_count = 1,
        .max_queue_bytes = opts->max_queue_bytes ? opts->max_queue_bytes
                                                 : QUEUE_BYTES_DEFAULT};
    enum mc_err err = source_open(&sources, &ask->sources);
    if (err) {
        mci_free(ask);
        return err;
    }
    *ask_out = ask;
    return MC_OK;
}

static void give_back(struct mc_ask *ask)
{
    if (ask->current) {
        source_rest(ask->sources);
        source_give_back(ask->sources, ask->current);
        ask->current = NULL;
    }
}

/* Nothing is asked any more. */
static void drop(struct mc_ask *ask)
{
    if (ask->request.kind) {
        source_drop(ask->sources, ask->request.number);
        ask->request.kind = 0;
    }
}

void mc_ask_close(struct mc_ask *ask)
{
    if (ask) {
        give_back(ask);
        source_close(ask->sources);
        mci_free(ask);
    }
}

int mc_ask_fd(const struct mc_ask *ask)
{
    return source_fd(ask->sources);
}

/* ---- questions -------------------------------------------------------- */

/* The numbers of requests never come again, so a place that is being closed is
 * no one's. */
static enum mc_err ask_for(struct mc_ask *ask, struct asker_request request)
{
    give_back(ask);
    drop(ask);
    request.number = ask->request.number + 1;
    enum mc_err err = source_ask(ask->sources, &request);
    ask->request.number = request.number;
    if (!err) {
        ask->request = request;
        ask->request.tenant = mc_view_make(NULL, 0); /* it was copied */
        ask->next_number = request.from_seq;
        ask->granted = request.credit;
    }
    return err;
}

enum mc_err mc_ask_status(struct mc_ask *ask)
{
    return ask_for(ask, (struct asker_request){.kind = ASKER_STATUS});
}

enum mc_err mc_ask_replay(struct mc_ask *ask, uint64_t from_seq,
                          uint32_t window)
{
    return ask_for(ask, (struct asker_request){.kind = ASKER_REPLAY,
                                               .from_seq = from_seq,
                                               .credit = window});
}

enum mc_err mc_ask_snapshot(struct mc_ask *ask, struct mc_view tenant)
{
    return ask_for(
        ask, (struct asker_request){.kind = ASKER_SNAPSHOT, .tenant = tenant});
}

/* ---- answers ---------------------------------------------------------- */

static void fill_frames(struct mc_answer *answer, enum mc_answer_type type,
                        struct mc_view topic, struct mc_view number,
                        struct mc_view payload)
{
    answer->type = type;
    answer->frames[0] = topic;
    answer->frames[1] = number;
    answer->frames[2] = payload;
}

/* END ends a replay; of anything else it is a refusal. */
static enum mc_answer_type end_of(const struct mc_ask *ask)
{
    return ask->request.kind == ASKER_REPLAY ? MC_ANSWER_END
                                             : MC_ANSWER_REFUSED;
}

static void fill(const struct mc_ask *ask, const struct source_message *message,
                 const struct recovery_answer *read, struct mc_answer *answer)
{
    *answer = (struct mc_answer){.epoch = read->epoch,
                                 .first_id = read->first_id,
                                 .last_id = read->last_id,
                                 .tail_seq = read->tail_seq,
                                 .oldest_seq = read->oldest_seq,
                                 .keys = read->keys,
                                 .backend_id = read->backend_id};
    switch (read->type) {
    case RECOVERY_ANSWER_BATCH:
        answer->number = read->seq;
        fill_frames(answer, MC_ANSWER_BATCH, read->topic,
                    message->frames[message->count - 2], read->payload);
        return;
    case RECOVERY_ANSWER_SNAPSHOT_ROWS:
        answer->number = read->index;
        fill_frames(answer, MC_ANSWER_ROWS, mc_view_make("", 0),
                    message->frames[1], read->payload);
        return;
    case RECOVERY_ANSWER_END:
        answer->type = end_of(ask);
        return;
    case RECOVERY_ANSWER_SNAPSHOT_FIRST:
        answer->type = MC_ANSWER_FIRST;
        return;
    case RECOVERY_ANSWER_SNAPSHOT_END:
        answer->type = MC_ANSWER_LAST;
        answer->number = read->index;
        return;
    case RECOVERY_ANSWER_STATUS:
        answer->type = MC_ANSWER_STATUS;
        return;
    case RECOVERY_ANSWER_BAD:
        answer->type = MC_ANSWER_BAD;
        answer->fault = recovery_fault_name(read->fault);
        return;
    }
}

/* Whether the answer may stand where it does: numbers of a replay rise, those
 * of a snapshot count. */
static bool is_in_order(struct mc_ask *ask, const struct recovery_answer *read)
{
    if (read->type == RECOVERY_ANSWER_BATCH) {
        bool is_later = read->seq >= ask->next_number;
        ask->next_number = read->seq + 1;
        return is_later;
    }
    if (ask->request.kind == ASKER_SNAPSHOT &&
        (read->type == RECOVERY_ANSWER_SNAPSHOT_FIRST ||
         read->type == RECOVERY_ANSWER_SNAPSHOT_ROWS ||
         read->type == RECOVERY_ANSWER_SNAPSHOT_END)) {
        return read->index == ask->next_number++;
    }
    return true;
}

/* Grants anew when half of the window has been taken. */
static void count_credit(struct mc_ask *ask)
{
    uint32_t window = ask->request.credit;
    if (window == 0) {
        return;
    }
    ask->granted -= ask->granted > 0;
    if (ask->granted <= window / 2) {
        source_credit(ask->sources, ask->request.number,
                      window - (uint32_t)ask->granted);
        ask->granted = window;
    }
}

static bool ends(enum mc_answer_type type)
{
    return type != MC_ANSWER_BATCH && type != MC_ANSWER_FIRST &&
           type != MC_ANSWER_ROWS;
}

static void read_current(struct mc_ask *ask, struct mc_answer *answer_out)
{
    const struct source_message *message = ask->current;
    struct recovery_answer read;
    recovery_answer_read(ask->request.kind, message->frames, message->count,
                         &read);
    if (!is_in_order(ask, &read)) {
        read = (struct recovery_answer){.type = RECOVERY_ANSWER_BAD,
                                        .fault = RECOVERY_FAULT_NUMBER};
    }
    fill(ask, message, &read, answer_out);
    if (ends(answer_out->type)) {
        drop(ask);
    } else if (answer_out->type == MC_ANSWER_BATCH) {
        count_credit(ask);
    }
}

/* False at the deadline. */
static bool wait_until(const struct mc_ask *ask, bool is_bounded,
                       uint64_t deadline_ns)
{
    struct pollfd polled = {.fd = mc_ask_fd(ask), .events = POLLIN};
    int count;
    do {
        uint64_t now_ns = mci_clock_ns();
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        int left_ms = (int)((left_ns + MCI_NS_PER_MS - 1) / MCI_NS_PER_MS);
        count = poll(&polled, 1, is_bounded ? left_ms : -1);
    } while (count < 0 && errno == EINTR);
    return count > 0;
}

enum mc_err mc_ask_next(struct mc_ask *ask, int timeout_ms,
                        struct mc_answer *answer_out)
{
    uint64_t wait_ns =
        timeout_ms > 0 ? (uint64_t)timeout_ms * MCI_NS_PER_MS : 0;
    uint64_t deadline_ns = mci_clock_ns() + wait_ns;
    give_back(ask);
    if (!ask->request.kind) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    while (!(ask->current = source_take(ask->sources))) {
        if (!wait_until(ask, timeout_ms >= 0, deadline_ns)) {
            return MC_ERR_RPC_TIMEOUT;
        }
    }
    read_current(ask, answer_out);
    return MC_OK;
}
