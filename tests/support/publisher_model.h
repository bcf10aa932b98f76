/* SPDX-License-Identifier: Apache-2.0 */
/* publisher_model.h - a store with its publisher, history and recovery server,
 * in a few arrays: the truth that a subscriber is compared with.
 *
 * Changes make events, which are gathered into a message; published messages
 * stand in the history, to be looked at by number. What is lost on the way is
 * the test's business. An open request is answered one message at a time, and
 * the store may change between two of them.
 */
#ifndef PUBLISHER_MODEL_H
#define PUBLISHER_MODEL_H
#include "event_message.h"
#include "recovery_answer.h"

enum {
    MODEL_KEYS = 24,
    MODEL_HISTORY = 4096,
    MODEL_FRAMES = 5,
    MODEL_TENANTS = 2
};

struct model_key {
    uint64_t id; /* of the event that said it is there; 0: it is not */
};

struct model_message {
    uint64_t seq; /* 0: none */
    uint64_t first_id;
    uint32_t count;
    size_t len;
    uint8_t *payload;
};

struct model_request {
    uint64_t number; /* 0: none is open */
    enum asker_kind kind;
    uint64_t next;
    uint64_t end_seq;
    uint64_t credit;
    bool is_paced;
    uint64_t index;
    bool is_first_given;
    bool is_done;
};

struct publisher_model {
    uint64_t epoch;
    uint64_t last_id;
    uint64_t last_seq;
    uint64_t oldest_seq; /* that the history keeps */
    struct model_key keys[MODEL_KEYS];
    struct model_message history[MODEL_HISTORY];
    struct event_message building;
    struct model_request request;
    /* The answer given last. */
    uint8_t answer_bytes[65536];
    uint8_t number_bytes[8];
    struct event_message rows;
    struct mc_view frames[MODEL_FRAMES];
    size_t frame_count;
};

void model_open(struct publisher_model *model, uint64_t epoch);
void model_close(struct publisher_model *model);

/* Names: of a key, its tenant, and the session that wrote a version. */
const char *model_key_name(int key);
const char *model_tenant(int key);
void model_session(uint64_t id, char *session_out);

/* Each makes events of the message at hand. */
void model_put(struct publisher_model *model, int key); /* over what is there */
void model_remove(struct publisher_model *model, int key);
void model_clear(struct publisher_model *model, int tenant);
/* An event that the publisher's own queue lost. */
void model_burn(struct publisher_model *model, int key);
/* Publishes what was gathered, or a heartbeat; its number. */
uint64_t model_publish(struct publisher_model *model);
/* The frames of a message; false if the history has it not (any more). */
bool model_message_frames(struct publisher_model *model, uint64_t seq,
                          uint8_t *seq_bytes, struct mc_view *frames);
/* Everything is gone, and another run begins. */
void model_restart(struct publisher_model *model, uint64_t epoch);
/* The same run, whose history keeps messages from this one on. */
void model_forget(struct publisher_model *model, uint64_t oldest_seq);

void model_ask(struct publisher_model *model,
               const struct asker_request *request);
void model_grant(struct publisher_model *model, uint32_t credit);
/* Makes the next answer; false: there is none now. */
bool model_answer(struct publisher_model *model);
#endif
