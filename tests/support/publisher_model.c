/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher_model.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS_EACH = 5 };

void model_open(struct publisher_model *model, uint64_t epoch)
{
    memset(model, 0, sizeof *model);
    model->epoch = epoch;
    model->oldest_seq = 1;
    model->building.epoch = epoch;
}

static void forget_message(struct model_message *message)
{
    free(message->payload);
    memset(message, 0, sizeof *message);
}

void model_close(struct publisher_model *model)
{
    for (int i = 0; i < MODEL_HISTORY; i++) {
        forget_message(&model->history[i]);
    }
}

const char *model_key_name(int key)
{
    static char names[MODEL_KEYS][8];
    (void)snprintf(names[key], sizeof names[key], "k%d", key);
    return names[key];
}

const char *model_tenant(int key)
{
    return key % MODEL_TENANTS == 0 ? "a" : "b";
}

void model_session(uint64_t id, char *session_out)
{
    (void)snprintf(session_out, 24, "s%ju", (uintmax_t)id);
}

static void add(struct event_message *message, uint64_t id, const char *type,
                int key, uint64_t version)
{
    char session[24];
    struct event_parts parts = {.id = id, .type = type};
    message->tenant = model_tenant(key);
    if (strcmp(type, "cleared") != 0) {
        model_session(version, session);
        parts.medium = "cpu";
        parts.key = model_key_name(key);
        parts.session = session;
    }
    event_message_add(message, &parts);
}

void model_put(struct publisher_model *model, int key)
{
    struct model_key *entry = &model->keys[key];
    if (entry->id > 0) {
        add(&model->building, ++model->last_id, "removed", key, entry->id);
    }
    entry->id = ++model->last_id;
    add(&model->building, entry->id, "stored", key, entry->id);
}

void model_remove(struct publisher_model *model, int key)
{
    struct model_key *entry = &model->keys[key];
    if (entry->id > 0) {
        add(&model->building, ++model->last_id, "removed", key, entry->id);
        entry->id = 0;
    }
}

void model_clear(struct publisher_model *model, int tenant)
{
    for (int key = tenant; key < MODEL_KEYS; key += MODEL_TENANTS) {
        model->keys[key].id = 0;
    }
    add(&model->building, ++model->last_id, "cleared", tenant, 0);
}

/* Events that were gathered before go first, and then a number is burnt. */
void model_burn(struct publisher_model *model, int key)
{
    struct model_key *entry = &model->keys[key];
    if (model->building.count > 0) {
        (void)model_publish(model);
    }
    model->last_id++;
    entry->id = entry->id > 0 ? 0 : model->last_id;
    model->last_seq++;
}

uint64_t model_publish(struct publisher_model *model)
{
    struct model_message *message =
        &model->history[++model->last_seq % MODEL_HISTORY];
    forget_message(message);
    event_message_frames(&model->building);
    message->seq = model->last_seq;
    message->count = model->building.count;
    message->first_id = model->last_id - message->count + 1;
    message->len = model->building.frames[2].len;
    message->payload = malloc(message->len);
    ck_assert_ptr_nonnull(message->payload);
    memcpy(message->payload, model->building.frames[2].data, message->len);
    event_message_next(&model->building);
    if (model->last_seq - model->oldest_seq >= MODEL_HISTORY) {
        model->oldest_seq = model->last_seq - MODEL_HISTORY + 1;
    }
    return model->last_seq;
}

bool model_message_frames(struct publisher_model *model, uint64_t seq,
                          uint8_t *seq_bytes, struct mc_view *frames)
{
    const struct model_message *message = &model->history[seq % MODEL_HISTORY];
    if (seq == 0 || seq < model->oldest_seq || message->seq != seq) {
        return false;
    }
    mci_put_be64(seq_bytes, seq);
    frames[0] = mc_view_make("", 0);
    frames[1] = mc_view_make(seq_bytes, 8);
    frames[2] = mc_view_make(message->payload, message->len);
    return true;
}

void model_restart(struct publisher_model *model, uint64_t epoch)
{
    for (int i = 0; i < MODEL_HISTORY; i++) {
        forget_message(&model->history[i]);
    }
    model_open(model, epoch);
    model_clear(model, 0);
    model_clear(model, 1);
}

void model_forget(struct publisher_model *model, uint64_t oldest_seq)
{
    model->oldest_seq = oldest_seq;
}

/* ---- answers ----------------------------------------------------------- */

void model_ask(struct publisher_model *model,
               const struct asker_request *request)
{
    model->request = (struct model_request){
        .number = request->number,
        .kind = request->kind,
        .next = request->from_seq,
        .end_seq = model->last_seq,
        .credit = request->credit,
        .is_paced = request->credit > 0,
    };
}

void model_grant(struct publisher_model *model, uint32_t credit)
{
    model->request.credit += credit;
}

static void put_map(struct publisher_model *model, struct mc_view *frame,
                    const char *const *names, const uint64_t *values,
                    size_t count)
{
    uint8_t *bytes = model->answer_bytes;
    size_t len = 0;
    bytes[len++] = (uint8_t)(0x80 + count);
    for (size_t i = 0; i < count; i++) {
        size_t name_len = strlen(names[i]);
        bytes[len++] = (uint8_t)(0xa0 + name_len);
        for (size_t k = 0; k < name_len; k++) {
            bytes[len++] = (uint8_t)names[i][k];
        }
        if (strcmp(names[i], "backend_id") == 0) {
            bytes[len++] = 0xa2;
            bytes[len++] = 'n';
            bytes[len++] = '1';
            continue;
        }
        bytes[len++] = 0xcf;
        mci_put_be64(bytes + len, values[i]);
        len += 8;
    }
    *frame = mc_view_make(bytes, len);
}

static bool answer_status(struct publisher_model *model)
{
    static const char *const names[] = {"epoch",   "tail_seq", "oldest_seq",
                                        "last_id", "keys",     "backend_id"};
    uint64_t values[] = {model->epoch,   model->last_seq, model->oldest_seq,
                         model->last_id, MODEL_KEYS,      0};
    model->frames[0] = mc_view_str("status");
    put_map(model, &model->frames[1], names, values, 6);
    model->frame_count = 2;
    model->request.is_done = true;
    return true;
}

static bool answer_replay(struct publisher_model *model)
{
    struct model_request *request = &model->request;
    while (request->next <= request->end_seq) {
        if (request->is_paced && request->credit == 0) {
            return false;
        }
        uint64_t seq = request->next++;
        if (model_message_frames(model, seq, model->number_bytes,
                                 model->frames)) {
            request->credit -= request->is_paced;
            model->frame_count = 3;
            return true;
        }
    }
    mci_put_be64(model->number_bytes, UINT64_MAX);
    model->frames[0] = mc_view_make("", 0);
    model->frames[1] = mc_view_make(model->number_bytes, 8);
    model->frames[2] = mc_view_make("", 0);
    model->frame_count = 3;
    request->is_done = true;
    return true;
}

static void answer_part(struct publisher_model *model)
{
    mci_put_be64(model->number_bytes, model->request.index++);
    model->frames[0] = mc_view_str("snapshot");
    model->frames[1] = mc_view_make(model->number_bytes, 8);
    model->frame_count = 3;
}

static void answer_rows(struct publisher_model *model)
{
    struct model_request *request = &model->request;
    event_message_next(&model->rows);
    model->rows.epoch = model->epoch;
    for (int i = 0; i < ROWS_EACH && request->next < MODEL_KEYS; i++) {
        int key = (int)request->next++;
        if (model->keys[key].id > 0) {
            add(&model->rows, model->keys[key].id, "stored", key,
                model->keys[key].id);
        }
    }
    event_message_frames(&model->rows);
    answer_part(model);
    model->frames[2] = model->rows.frames[2];
}

static bool answer_snapshot(struct publisher_model *model)
{
    struct model_request *request = &model->request;
    static const char *const first[] = {"epoch", "first_id", "tail_seq"};
    static const char *const last[] = {"epoch", "last_id", "tail_seq"};
    uint64_t values[] = {model->epoch, model->last_id, model->last_seq};
    if (!request->is_first_given) {
        request->is_first_given = true;
        request->next = 0;
        answer_part(model);
        put_map(model, &model->frames[2], first, values, 3);
    } else if (request->next < MODEL_KEYS) {
        answer_rows(model);
    } else {
        answer_part(model);
        put_map(model, &model->frames[2], last, values, 3);
        model->frames[3] = mc_view_make("", 0);
        model->frame_count = 4;
        request->is_done = true;
    }
    return true;
}

bool model_answer(struct publisher_model *model)
{
    if (model->request.number == 0 || model->request.is_done) {
        return false;
    }
    switch (model->request.kind) {
    case ASKER_STATUS:
        return answer_status(model);
    case ASKER_REPLAY:
        return answer_replay(model);
    case ASKER_SNAPSHOT:
        return answer_snapshot(model);
    }
    return false;
}
