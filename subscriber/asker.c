/* SPDX-License-Identifier: Apache-2.0 */
/* A place goes FREE -> ASKED (taker) -> OPEN (reader), from either to DROPPED
 * (taker) and back to FREE (reader). Its request is written before it is ASKED
 * and does not change until it is FREE, so the reader looks at it without the
 * lock; what both change is guarded by it. Nothing is called under the lock. */
#include "asker.h"

#include <pthread.h>
#include <string.h>

#include "mc_limits.h"
#include "mci_alloc.h"

enum place_state { PLACE_FREE = 0, PLACE_ASKED, PLACE_OPEN, PLACE_DROPPED };

struct place {
    /* Guarded by the asker's lock: */
    enum place_state state;
    uint64_t credit; /* granted, not sent yet */
    /* Of the taker while FREE, else nobody writes it: */
    struct asker_request request; /* its tenant is ours */
    char tenant[MC_TENANT_LEN_MAX];
    /* Of the reader: */
    void *socket; /* NULL: none, or it could not be asked */
};

struct asker {
    const struct asker_server *servers;
    uint32_t server_count;
    uint32_t per_server_max;
    uint32_t capacity;
    pthread_mutex_t lock;
    struct place *places;
    uint32_t *polled; /* the place of the i-th item */
};

enum mc_err asker_create(const struct asker_server *servers, uint32_t count,
                         uint32_t per_server_max, struct asker **asker_out)
{
    struct asker *asker = mci_calloc(1, sizeof *asker);
    if (!asker) {
        return MC_ERR_NOMEM;
    }
    asker->servers = servers;
    asker->server_count = count;
    asker->per_server_max = per_server_max;
    for (uint32_t i = 0; i < count; i++) {
        asker->capacity += servers[i].endpoint ? per_server_max : 0;
    }
    if (asker->capacity > 0) {
        asker->places = mci_calloc(asker->capacity, sizeof *asker->places);
        asker->polled = mci_calloc(asker->capacity, sizeof *asker->polled);
        if (!asker->places || !asker->polled) {
            mci_free(asker->places);
            mci_free(asker->polled);
            mci_free(asker);
            return MC_ERR_NOMEM;
        }
    }
    pthread_mutex_init(&asker->lock, NULL);
    *asker_out = asker;
    return MC_OK;
}

void asker_destroy(struct asker *asker)
{
    if (!asker) {
        return;
    }
    pthread_mutex_destroy(&asker->lock);
    mci_free(asker->places);
    mci_free(asker->polled);
    mci_free(asker);
}

uint32_t asker_capacity(const struct asker *asker)
{
    return asker->capacity;
}

/* ---- the taker -------------------------------------------------------- */

static bool is_used(const struct place *place)
{
    return place->state == PLACE_ASKED || place->state == PLACE_OPEN;
}

/* The place of an open request, NULL if there is none; the lock is held. */
static struct place *find(struct asker *asker, uint64_t number)
{
    for (uint32_t i = 0; i < asker->capacity; i++) {
        struct place *place = &asker->places[i];
        if (is_used(place) && place->request.number == number) {
            return place;
        }
    }
    return NULL;
}

/* NULL where the source has as many as it may; else there is one, since there
 * are as many places as all of them may have. */
static struct place *find_free(struct asker *asker, uint32_t source)
{
    struct place *free_place = NULL;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < asker->capacity; i++) {
        struct place *place = &asker->places[i];
        if (place->state == PLACE_FREE) {
            free_place = place;
        } else {
            taken += place->request.source == source;
        }
    }
    return taken < asker->per_server_max ? free_place : NULL;
}

static void fill(struct place *place, const struct asker_request *request)
{
    place->request = *request;
    if (request->tenant.data) {
        memcpy(place->tenant, request->tenant.data, request->tenant.len);
        place->request.tenant =
            mc_view_make(place->tenant, request->tenant.len);
    }
    place->credit = 0;
    place->state = PLACE_ASKED;
}

enum mc_err asker_ask(struct asker *asker, const struct asker_request *request)
{
    struct asker_frames frames;
    if (request->source >= asker->server_count ||
        !asker->servers[request->source].endpoint ||
        !asker_request_frames(request, &frames)) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = MC_OK;
    pthread_mutex_lock(&asker->lock);
    struct place *place = find_free(asker, request->source);
    if (find(asker, request->number)) {
        err = MC_ERR_INVALID_PARAMS;
    } else if (!place) {
        err = MC_ERR_NO_AVAILABLE_HANDLE;
    } else {
        fill(place, request);
    }
    pthread_mutex_unlock(&asker->lock);
    return err;
}

void asker_credit(struct asker *asker, uint64_t number, uint32_t credit)
{
    pthread_mutex_lock(&asker->lock);
    struct place *place = find(asker, number);
    if (place) {
        place->credit += credit;
    }
    pthread_mutex_unlock(&asker->lock);
}

void asker_drop(struct asker *asker, uint64_t number)
{
    pthread_mutex_lock(&asker->lock);
    struct place *place = find(asker, number);
    if (place) {
        place->state = PLACE_DROPPED;
    }
    pthread_mutex_unlock(&asker->lock);
}

bool asker_is_open(struct asker *asker, uint32_t at, uint64_t number)
{
    pthread_mutex_lock(&asker->lock);
    const struct place *place = &asker->places[at];
    bool is_open = is_used(place) && place->request.number == number;
    pthread_mutex_unlock(&asker->lock);
    return is_open;
}

/* ---- the reader ------------------------------------------------------- */

static bool open_place(struct asker *asker, struct place *place, void *context)
{
    const struct asker_request *request = &place->request;
    const struct asker_server *server = &asker->servers[request->source];
    struct asker_frames frames;
    bool is_request = asker_request_frames(request, &frames);
    place->socket = mq_open_dealer(context, server->keys);
    if (is_request && place->socket &&
        mq_connect(place->socket, server->endpoint) == MC_OK &&
        mq_send(place->socket, frames.frames, frames.count)) {
        return true;
    }
    mq_close(place->socket);
    place->socket = NULL;
    return false;
}

/* Sends what was granted; what there is no room for is granted again. */
static void send_credit(struct asker *asker, struct place *place,
                        uint64_t credit)
{
    struct asker_frames frames;
    uint32_t some = credit < UINT32_MAX ? (uint32_t)credit : UINT32_MAX;
    asker_credit_frames(some, &frames);
    if (mq_send(place->socket, frames.frames, frames.count)) {
        credit -= some;
    }
    pthread_mutex_lock(&asker->lock);
    place->credit += credit;
    pthread_mutex_unlock(&asker->lock);
}

static void close_place(struct asker *asker, struct place *place)
{
    mq_close(place->socket);
    place->socket = NULL;
    pthread_mutex_lock(&asker->lock);
    place->state = PLACE_FREE;
    pthread_mutex_unlock(&asker->lock);
}

/* What the taker wants of a place; what it granted is taken. */
static enum place_state look_at(struct asker *asker, struct place *place,
                                uint64_t *credit_out)
{
    pthread_mutex_lock(&asker->lock);
    enum place_state state = place->state;
    if (state == PLACE_ASKED) {
        place->state = PLACE_OPEN;
    }
    *credit_out = place->credit;
    place->credit = 0;
    pthread_mutex_unlock(&asker->lock);
    return state;
}

void asker_settle(struct asker *asker, void *context, asker_failed_fn on_failed,
                  void *ctx)
{
    for (uint32_t i = 0; i < asker->capacity; i++) {
        struct place *place = &asker->places[i];
        uint64_t credit;
        enum place_state state = look_at(asker, place, &credit);
        if (state == PLACE_DROPPED) {
            close_place(asker, place);
        } else if (state == PLACE_ASKED && !open_place(asker, place, context)) {
            on_failed(ctx, i);
        }
        if (place->socket && credit > 0) {
            send_credit(asker, place, credit);
        }
    }
}

uint32_t asker_poll(struct asker *asker, zmq_pollitem_t *items)
{
    uint32_t count = 0;
    pthread_mutex_lock(&asker->lock);
    for (uint32_t i = 0; i < asker->capacity; i++) {
        const struct place *place = &asker->places[i];
        if (place->socket) {
            short events =
                place->credit > 0 ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN;
            items[count] =
                (zmq_pollitem_t){.socket = place->socket, .events = events};
            asker->polled[count++] = i;
        }
    }
    pthread_mutex_unlock(&asker->lock);
    return count;
}

uint32_t asker_place(const struct asker *asker, uint32_t i)
{
    return asker->polled[i];
}

uint32_t asker_source(const struct asker *asker, uint32_t place)
{
    return asker->places[place].request.source;
}

uint64_t asker_number(const struct asker *asker, uint32_t place)
{
    return asker->places[place].request.number;
}

bool asker_receive(struct asker *asker, uint32_t place, zmq_msg_t *parts,
                   struct mc_view *frames, size_t room, size_t *count_out)
{
    void *socket = asker->places[place].socket;
    return socket && mq_receive(socket, parts, frames, room, count_out);
}

void asker_close(struct asker *asker)
{
    for (uint32_t i = 0; i < asker->capacity; i++) {
        mq_close(asker->places[i].socket);
        asker->places[i].socket = NULL;
    }
}
