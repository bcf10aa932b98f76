/* SPDX-License-Identifier: Apache-2.0 */
/* event_message.h - messages of events for tests, laid out by hand and not by
 * the writer under test, so that they can also be wrong.
 *
 *   struct event_message message = {.seq = 3};
 *   event_message_stored(&message, 11, "key", "session");
 *   event_message_refused(&message);
 *   event_message_frames(&message);  -> message.frames[0..3)
 *
 * Events carry message.epoch unless it is 0, tenant "default" and backend "n1"
 * unless message says otherwise. Zero it to begin anew.
 */
#ifndef EVENT_MESSAGE_H
#define EVENT_MESSAGE_H
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "mc_view.h"
#include "mci_bytes.h"

#define EVENT_MESSAGE_MAX 65536

struct event_message {
    uint64_t seq;
    uint64_t epoch;
    const char *tenant;  /* NULL: "default" */
    const char *backend; /* NULL: "n1" */
    uint16_t count;
    size_t len;
    uint8_t seq_bytes[8];
    uint8_t events[EVENT_MESSAGE_MAX];
    uint8_t payload[EVENT_MESSAGE_MAX + 16];
    struct mc_view frames[3];
};

static inline void event_message_byte(struct event_message *message,
                                      unsigned byte)
{
    ck_assert_uint_lt(message->len, EVENT_MESSAGE_MAX);
    message->events[message->len++] = (uint8_t)byte;
}

static inline void event_message_str(struct event_message *message,
                                     const char *text)
{
    size_t len = strlen(text);
    ck_assert_uint_le(len, 255);
    event_message_byte(message, 0xd9);
    event_message_byte(message, (unsigned)len);
    for (size_t i = 0; i < len; i++) {
        event_message_byte(message, (uint8_t)text[i]);
    }
}

static inline void event_message_u64(struct event_message *message,
                                     uint64_t number)
{
    uint8_t bytes[8];
    mci_put_be64(bytes, number);
    event_message_byte(message, 0xcf);
    for (int i = 0; i < 8; i++) {
        event_message_byte(message, bytes[i]);
    }
}

/* A member that is a string, or nil. */
static inline void event_message_member(struct event_message *message,
                                        const char *name, const char *text)
{
    event_message_str(message, name);
    if (text) {
        event_message_str(message, text);
    } else {
        event_message_byte(message, 0xc0);
    }
}

struct event_parts {
    uint64_t id;
    const char *type;
    const char *medium;
    const char *key;
    const char *session;
    const char *group;
};

static inline void event_message_add(struct event_message *message,
                                     const struct event_parts *parts)
{
    message->count++;
    event_message_byte(message, 0x89); /* a map of nine */
    event_message_str(message, "event_id");
    event_message_u64(message, parts->id);
    event_message_member(message, "event_type", parts->type);
    event_message_member(message, "tenant_id",
                         message->tenant ? message->tenant : "default");
    event_message_member(message, "backend_id",
                         message->backend ? message->backend : "n1");
    event_message_member(message, "medium", parts->medium);
    event_message_member(message, "group_id", parts->group);
    event_message_member(message, "session_id", parts->session);
    event_message_member(message, "object_key", parts->key);
    event_message_str(message, "epoch");
    if (message->epoch) {
        event_message_u64(message, message->epoch);
    } else {
        event_message_byte(message, 0xc0);
    }
}

static inline void event_message_stored(struct event_message *message,
                                        uint64_t id, const char *key,
                                        const char *session)
{
    struct event_parts parts = {.id = id,
                                .type = "stored",
                                .medium = "cpu",
                                .key = key,
                                .session = session};
    event_message_add(message, &parts);
}

static inline void event_message_removed(struct event_message *message,
                                         uint64_t id, const char *key)
{
    struct event_parts parts = {
        .id = id, .type = "removed", .medium = "cpu", .key = key};
    event_message_add(message, &parts);
}

static inline void event_message_cleared(struct event_message *message,
                                         uint64_t id)
{
    struct event_parts parts = {.id = id, .type = "cleared"};
    event_message_add(message, &parts);
}

/* An event that costs itself alone: event_type_form, an integer. */
static inline void event_message_refused(struct event_message *message)
{
    message->count++;
    event_message_byte(message, 0x07);
}

/* Lays out the frames; they live as long as the message and stay put. */
static inline void event_message_frames(struct event_message *message)
{
    uint8_t *payload = message->payload;
    size_t head = 0;
    payload[head++] = 0x93;
    payload[head++] = 0x01; /* the time */
    payload[head++] = 0xdc;
    mci_put_be16(payload + head, message->count);
    head += 2;
    memcpy(payload + head, message->events, message->len);
    payload[head + message->len] = 0x00; /* the rank */
    mci_put_be64(message->seq_bytes, message->seq);
    message->frames[0] = mc_view_make("", 0);
    message->frames[1] = mc_view_make(message->seq_bytes, 8);
    message->frames[2] = mc_view_make(payload, head + message->len + 1);
}

/* Empties it for the next one; seq goes up by one. */
static inline void event_message_next(struct event_message *message)
{
    message->seq++;
    message->count = 0;
    message->len = 0;
}
#endif
