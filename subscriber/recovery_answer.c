/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery_answer.h"

#include "mc_limits.h"
#include "mci_bytes.h"
#include "mci_unpack.h"
#include "mci_utf8.h"

#define NUMBER_LEN 8
#define NAME_LEN_MAX UINT16_MAX

const char *recovery_fault_name(enum recovery_fault fault)
{
    static const char *const names[] = {
        "none",
#define RECOVERY_FAULT_NAME_(name, text) text,
        RECOVERY_FAULT_LIST(RECOVERY_FAULT_NAME_)
#undef RECOVERY_FAULT_NAME_
    };
    return (unsigned)fault < RECOVERY_FAULT_COUNT_ ? names[fault] : "unknown";
}

/* ---- requests --------------------------------------------------------- */

static void add_frame(struct asker_frames *frames, const void *data, size_t len)
{
    frames->frames[frames->count++] = mc_view_make(data, len);
}

static void add_credit(struct asker_frames *frames, uint32_t credit)
{
    mci_put_be32(&frames->room[NUMBER_LEN], credit);
    add_frame(frames, &frames->room[NUMBER_LEN], sizeof credit);
}

static void begin(struct asker_frames *frames)
{
    frames->count = 0;
    add_frame(frames, "", 0);
}

void asker_credit_frames(uint32_t credit, struct asker_frames *frames_out)
{
    begin(frames_out);
    add_frame(frames_out, "credit", 6);
    add_credit(frames_out, credit);
}

static bool is_tenant(struct mc_view tenant)
{
    return tenant.len > 0 && tenant.len <= MC_TENANT_LEN_MAX &&
           mci_utf8_valid(tenant.data, tenant.len);
}

bool asker_request_frames(const struct asker_request *request,
                          struct asker_frames *frames_out)
{
    begin(frames_out);
    switch (request->kind) {
    case ASKER_STATUS:
        add_frame(frames_out, "status", 6);
        return true;
    case ASKER_REPLAY:
        mci_put_be64(frames_out->room, request->from_seq);
        add_frame(frames_out, frames_out->room, NUMBER_LEN);
        if (request->credit > 0) {
            add_credit(frames_out, request->credit);
        }
        return true;
    case ASKER_SNAPSHOT:
        add_frame(frames_out, "snapshot", 8);
        if (request->tenant.data) {
            add_frame(frames_out, request->tenant.data, request->tenant.len);
        }
        return !request->tenant.data || is_tenant(request->tenant);
    }
    return false;
}

/* ---- maps ------------------------------------------------------------- */

/* A name that is known, and where its value goes: a number, or a text of at
 * most MC_BACKEND_ID_LEN_MAX bytes. */
struct field {
    const char *name;
    uint64_t *number;
    struct mc_view *text;
    bool is_seen;
};

static struct field *field_named(struct field *fields, size_t count,
                                 struct mc_view name)
{
    for (size_t i = 0; i < count; i++) {
        if (mc_view_equal(mc_view_str(fields[i].name), name)) {
            return &fields[i];
        }
    }
    return NULL;
}

static enum recovery_fault read_value(struct mci_unpack *unpack,
                                      struct field *field)
{
    if (field->is_seen) {
        return RECOVERY_FAULT_DUPLICATE;
    }
    field->is_seen = true;
    if (field->number) {
        *field->number = mci_unpack_u64(unpack, UINT64_MAX);
    } else {
        *field->text = mci_unpack_str(unpack, MC_BACKEND_ID_LEN_MAX);
        if (field->text->len == 0) {
            return RECOVERY_FAULT_VALUE;
        }
    }
    return unpack->error ? RECOVERY_FAULT_VALUE : RECOVERY_FAULT_NONE;
}

static enum recovery_fault read_pair(struct mci_unpack *unpack,
                                     struct field *fields, size_t count)
{
    struct mc_view name = mci_unpack_str(unpack, NAME_LEN_MAX);
    if (unpack->error) {
        return unpack->error == MCI_UNPACK_ERROR_TRUNCATED
                   ? RECOVERY_FAULT_MAP
                   : RECOVERY_FAULT_NAME;
    }
    struct field *field = field_named(fields, count, name);
    if (field) {
        enum recovery_fault fault = read_value(unpack, field);
        return unpack->error == MCI_UNPACK_ERROR_TRUNCATED ? RECOVERY_FAULT_MAP
                                                           : fault;
    }
    mci_unpack_skip(unpack, MC_EVENT_DEPTH_MAX);
    return unpack->error ? RECOVERY_FAULT_MAP : RECOVERY_FAULT_NONE;
}

/* All of the fields, each once, and nothing behind the map. */
static enum recovery_fault read_map(struct mc_view payload,
                                    struct field *fields, size_t count)
{
    struct mci_unpack unpack;
    mci_unpack_init(&unpack, payload);
    uint32_t pairs = mci_unpack_map(&unpack, 0, UINT32_MAX);
    enum recovery_fault fault =
        unpack.error ? RECOVERY_FAULT_MAP : RECOVERY_FAULT_NONE;
    for (uint32_t i = 0; !fault && i < pairs; i++) {
        fault = read_pair(&unpack, fields, count);
    }
    if (!fault && mci_unpack_done(&unpack) != MCI_UNPACK_OK) {
        fault = RECOVERY_FAULT_MAP;
    }
    for (size_t i = 0; !fault && i < count; i++) {
        fault = fields[i].is_seen ? fault : RECOVERY_FAULT_MISSING;
    }
    return fault;
}

/* ---- answers ---------------------------------------------------------- */

static bool is_word(struct mc_view frame, const char *word)
{
    return mc_view_equal(frame, mc_view_str(word));
}

static bool is_number(struct mc_view frame)
{
    return frame.len == NUMBER_LEN;
}

/* An empty payload after a number, with a topic before it or without. The word
 * of a snapshot has the length of a number. */
static bool is_end(enum asker_kind kind, const struct mc_view *frames,
                   size_t count)
{
    return (count == 2 || count == 3) && is_number(frames[count - 2]) &&
           frames[count - 1].len == 0 &&
           (kind == ASKER_REPLAY || !is_word(frames[0], "snapshot"));
}

static enum recovery_fault read_status(const struct mc_view *frames,
                                       size_t count,
                                       struct recovery_answer *answer)
{
    struct field fields[] = {{"epoch", &answer->epoch, NULL, false},
                             {"tail_seq", &answer->tail_seq, NULL, false},
                             {"oldest_seq", &answer->oldest_seq, NULL, false},
                             {"last_id", &answer->last_id, NULL, false},
                             {"keys", &answer->keys, NULL, false},
                             {"backend_id", NULL, &answer->backend_id, false}};
    if (count != 2) {
        return RECOVERY_FAULT_FRAME_COUNT;
    }
    if (!is_word(frames[0], "status")) {
        return RECOVERY_FAULT_WORD;
    }
    answer->type = RECOVERY_ANSWER_STATUS;
    enum recovery_fault fault =
        read_map(frames[1], fields, sizeof fields / sizeof fields[0]);
    if (!fault && answer->oldest_seq > answer->tail_seq) {
        fault = RECOVERY_FAULT_VALUE;
    }
    return fault;
}

/* A message as it was published, with its topic or without. */
static enum recovery_fault read_batch(const struct mc_view *frames,
                                      size_t count,
                                      struct recovery_answer *answer)
{
    if (count != 2 && count != 3) {
        return RECOVERY_FAULT_FRAME_COUNT;
    }
    if (!is_number(frames[count - 2])) {
        return RECOVERY_FAULT_NUMBER_SIZE;
    }
    answer->type = RECOVERY_ANSWER_BATCH;
    answer->topic = count == 3 ? frames[0] : mc_view_make("", 0);
    answer->seq = mci_get_be64(frames[count - 2].data);
    answer->payload = frames[count - 1];
    return answer->seq == UINT64_MAX ? RECOVERY_FAULT_NUMBER
                                     : RECOVERY_FAULT_NONE;
}

/* The map at the beginning or at the end. */
static enum recovery_fault read_edge(struct mc_view payload, bool is_first,
                                     struct recovery_answer *answer)
{
    struct field fields[] = {{"epoch", &answer->epoch, NULL, false},
                             {is_first ? "first_id" : "last_id",
                              is_first ? &answer->first_id : &answer->last_id,
                              NULL, false},
                             {"tail_seq", &answer->tail_seq, NULL, false}};
    answer->type = is_first ? RECOVERY_ANSWER_SNAPSHOT_FIRST
                            : RECOVERY_ANSWER_SNAPSHOT_END;
    return read_map(payload, fields, sizeof fields / sizeof fields[0]);
}

static enum recovery_fault read_snapshot(const struct mc_view *frames,
                                         size_t count,
                                         struct recovery_answer *answer)
{
    if (count != 3 && count != 4) {
        return RECOVERY_FAULT_FRAME_COUNT;
    }
    if (!is_word(frames[0], "snapshot")) {
        return RECOVERY_FAULT_WORD;
    }
    if (!is_number(frames[1])) {
        return RECOVERY_FAULT_NUMBER_SIZE;
    }
    answer->index = mci_get_be64(frames[1].data);
    if (count == 4) {
        if (answer->index == 0) {
            return RECOVERY_FAULT_NUMBER;
        }
        return frames[3].len != 0 ? RECOVERY_FAULT_PAYLOAD_SIZE
                                  : read_edge(frames[2], false, answer);
    }
    if (answer->index == 0) {
        return read_edge(frames[2], true, answer);
    }
    answer->type = RECOVERY_ANSWER_SNAPSHOT_ROWS;
    answer->payload = frames[2];
    return frames[2].len == 0 ? RECOVERY_FAULT_PAYLOAD_SIZE
                              : RECOVERY_FAULT_NONE;
}

/* Payloads are judged before anything in them is looked at. */
static bool is_too_long(const struct mc_view *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (frames[i].len > MC_EVENT_PAYLOAD_MAX) {
            return true;
        }
    }
    return false;
}

static enum recovery_fault read_by_kind(enum asker_kind kind,
                                        const struct mc_view *frames,
                                        size_t count,
                                        struct recovery_answer *answer)
{
    if (count == 0) {
        return RECOVERY_FAULT_FRAME_COUNT;
    }
    if (is_too_long(frames, count)) {
        return RECOVERY_FAULT_PAYLOAD_SIZE;
    }
    if (is_end(kind, frames, count)) {
        answer->type = RECOVERY_ANSWER_END;
        return RECOVERY_FAULT_NONE;
    }
    switch (kind) {
    case ASKER_STATUS:
        return read_status(frames, count, answer);
    case ASKER_REPLAY:
        return read_batch(frames, count, answer);
    case ASKER_SNAPSHOT:
        return read_snapshot(frames, count, answer);
    }
    return RECOVERY_FAULT_WORD;
}

void recovery_answer_read(enum asker_kind kind, const struct mc_view *frames,
                          size_t count, struct recovery_answer *answer_out)
{
    struct recovery_answer answer = {.type = RECOVERY_ANSWER_BAD};
    enum recovery_fault fault = read_by_kind(kind, frames, count, &answer);
    if (fault) {
        answer = (struct recovery_answer){.type = RECOVERY_ANSWER_BAD,
                                          .fault = fault};
    }
    *answer_out = answer;
}
