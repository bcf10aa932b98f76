/* SPDX-License-Identifier: Apache-2.0 */
/* control_hello.c - how connections begin, and heartbeats. */
#include "control_conn.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"

#define SOFTWARE "mckv"

struct mci_pulse_memory {
    struct mci_heartbeat_room heartbeat;
    struct mci_pulse_room pulse;
};

struct mci_pulse_memory *mci_pulse_memory_create(void)
{
    struct mci_pulse_memory *memory = mci_calloc(1, sizeof *memory);
    if (!memory) {
        return NULL;
    }
    struct mci_heartbeat_room *in = &memory->heartbeat;
    struct mci_pulse_room *out = &memory->pulse;
    in->attempts = mci_alloc(MC_ATTEMPTS_MAX * sizeof *in->attempts);
    in->stuck = mci_alloc(MC_ATTEMPTS_MAX * sizeof *in->stuck);
    out->fences = mci_alloc(MCI_FENCES_MAX * sizeof *out->fences);
    out->closed = mci_alloc(MC_ATTEMPTS_MAX * sizeof *out->closed);
    out->renewals = mci_alloc(MC_ATTEMPTS_MAX * sizeof *out->renewals);
    if (!in->attempts || !in->stuck || !out->fences || !out->closed ||
        !out->renewals) {
        mci_pulse_memory_destroy(memory);
        return NULL;
    }
    return memory;
}

void mci_pulse_memory_destroy(struct mci_pulse_memory *memory)
{
    if (!memory) {
        return;
    }
    mci_free(memory->heartbeat.attempts);
    mci_free(memory->heartbeat.stuck);
    mci_free(memory->pulse.fences);
    mci_free(memory->pulse.closed);
    mci_free(memory->pulse.renewals);
    mci_free(memory);
}

enum mc_err mci_conn_belong(struct mci_control_conn *conn, uint32_t client,
                            uint64_t incarnation)
{
    struct mci_control_clients *clients = &conn->server->clients;
    struct mci_control_client *found = conn->client;
    if (found && found->client == client && found->incarnation == incarnation) {
        return mci_control_client_lives(clients, found)
                   ? MC_OK
                   : MC_ERR_CLIENT_NOT_FOUND;
    }
    enum mc_err err =
        mci_control_client_find(clients, client, incarnation, &found);
    if (err == MC_OK) {
        mci_control_client_release(conn->client);
        conn->client = found;
    }
    return err;
}

/* ---- hello -------------------------------------------------------------- */

static enum mci_frame_fate welcome(struct mci_control_conn *conn,
                                   const struct mci_request *request,
                                   enum mc_err code,
                                   const struct mci_welcome *given)
{
    struct mci_pack pack;
    struct mci_buf *out = &conn->poller->out;
    const struct mci_answer answer = {.version = MCI_CONTROL_VERSION,
                                      .slot = request->slot,
                                      .number = request->number,
                                      .code = code};
    struct mci_welcome whole = *given;
    whole.version_min = MCI_CONTROL_VERSION;
    whole.version_max = MCI_CONTROL_VERSION;
    whole.epoch = conn->server->ground.epoch;
    whole.software = mc_view_str(SOFTWARE);
    mci_pack_init(&pack, out);
    size_t at = mci_answer_begin(&pack, &answer);
    mci_welcome_pack(&pack, &whole);
    if (mci_frame_finish(&pack, at) != MC_OK) {
        out->len = at;
        mci_conn_close(conn);
    }
    return MCI_FRAME_DONE;
}

enum mci_frame_fate mci_version_refuse(struct mci_control_conn *conn,
                                       const struct mci_request *request)
{
    mc_log(MC_LOG_WARN,
           "control: peer %s: speaks version %u, this master speaks %u",
           mci_stream_peer(conn->stream), request->version,
           (unsigned)MCI_CONTROL_VERSION);
    conn->ends = true;
    return welcome(conn, request, MC_ERR_NOT_SUPPORTED,
                   &(struct mci_welcome){.client = 0});
}

static enum mc_err say_hello(struct mci_control_conn *conn,
                             const struct mci_hello *hello,
                             struct mci_welcome *given)
{
    struct mci_control_server *server = conn->server;
    if (hello->version_min > MCI_CONTROL_VERSION ||
        hello->version_max < MCI_CONTROL_VERSION) {
        mc_log(MC_LOG_WARN,
               "control: peer %s: speaks versions %u to %u, this master "
               "speaks %u",
               mci_stream_peer(conn->stream), hello->version_min,
               hello->version_max, (unsigned)MCI_CONTROL_VERSION);
        conn->ends = true;
        return MC_ERR_NOT_SUPPORTED;
    }
    enum mc_err err = mci_registry_hello(server->ground.registry, hello,
                                         mci_clock_ns(), given);
    if (err == MC_OK) {
        err = mci_conn_belong(conn, given->client, hello->incarnation);
    }
    if (err != MC_OK) {
        given->client = 0;
    }
    return err;
}

enum mci_frame_fate mci_hello_handle(struct mci_control_conn *conn,
                                     const struct mci_request *request,
                                     struct mci_unpack *args)
{
    struct mci_hello hello;
    struct mci_welcome given = {.client = 0};
    mci_hello_unpack(args, &hello);
    if (mci_unpack_done(args) != MCI_UNPACK_OK) {
        return MCI_FRAME_BAD;
    }
    if (conn->is_refused) {
        conn->ends = true;
        return welcome(conn, request, MC_ERR_NO_AVAILABLE_HANDLE, &given);
    }
    if (hello.role == MCI_ROLE_HEARTBEAT && !conn->poller->is_pulse) {
        return MCI_FRAME_MOVES;
    }
    enum mc_err err = say_hello(conn, &hello, &given);
    if (err == MC_OK) {
        conn->is_heartbeat = hello.role == MCI_ROLE_HEARTBEAT;
        mci_control_kick(conn->server);
    } else {
        mci_count(&conn->poller->counts.failures[MCI_OP_HELLO], 1);
    }
    return welcome(conn, request, err, &given);
}

/* ---- heartbeats --------------------------------------------------------- */

/* Numbers below the last one used can do nothing from now on (SAFETY C.3). */
static enum mc_err raise_slots(struct mci_control_conn *conn,
                               const struct mci_heartbeat *heartbeat)
{
    struct mci_control_client *client = conn->client;
    enum mc_err err = MC_OK;
    (void)pthread_mutex_lock(&client->lock);
    client->pulse = conn;
    for (uint32_t i = 0; i < heartbeat->slot_count && err == MC_OK; i++) {
        err = mci_slots_raise(&client->slots, i, heartbeat->slots[i]);
    }
    (void)pthread_mutex_unlock(&client->lock);
    return err;
}

static enum mc_err beat(struct mci_control_conn *conn,
                        const struct mci_heartbeat *heartbeat,
                        struct mci_pulse *pulse)
{
    struct mci_control_server *server = conn->server;
    enum mc_err err = raise_slots(conn, heartbeat);
    if (err == MC_OK) {
        err = mci_registry_heartbeat(
            server->ground.registry, conn->client->member, heartbeat,
            mci_clock_ns(), &conn->poller->pulse->pulse, pulse);
    }
    mci_control_kick(server);
    return err;
}

static enum mci_frame_fate answer_beat(struct mci_control_conn *conn,
                                       const struct mci_request *request,
                                       enum mc_err code,
                                       const struct mci_pulse *pulse)
{
    struct mci_pack pack;
    struct mci_buf *out = &conn->poller->out;
    const struct mci_answer answer = {.version = MCI_CONTROL_VERSION,
                                      .slot = request->slot,
                                      .number = request->number,
                                      .code = code};
    mci_pack_init(&pack, out);
    size_t at = mci_answer_begin(&pack, &answer);
    if (code == MC_OK) {
        mci_pulse_pack(&pack, pulse);
    } else {
        mci_count(&conn->poller->counts.failures[MCI_OP_HEARTBEAT], 1);
        mci_pack_nil(&pack);
    }
    if (mci_frame_finish(&pack, at) != MC_OK) {
        /* Not told, so not heard: the client asks again. */
        out->len = at;
        mci_conn_close(conn);
    }
    return MCI_FRAME_DONE;
}

enum mci_frame_fate mci_heartbeat_handle(struct mci_control_conn *conn,
                                         const struct mci_request *request,
                                         struct mci_unpack *args)
{
    struct mci_heartbeat heartbeat;
    struct mci_pulse pulse = {.fence_count = 0};
    if (!conn->poller->is_pulse) {
        return MCI_FRAME_MOVES;
    }
    mci_heartbeat_unpack(args, &conn->poller->pulse->heartbeat, &heartbeat);
    if (mci_unpack_done(args) != MCI_UNPACK_OK) {
        return MCI_FRAME_BAD;
    }
    enum mc_err err =
        request->epoch == conn->server->ground.epoch
            ? mci_conn_belong(conn, request->client, request->incarnation)
            : MC_ERR_INVALID_VERSION;
    if (err == MC_OK) {
        err = beat(conn, &heartbeat, &pulse);
    }
    return answer_beat(conn, request, err, &pulse);
}

void mci_heartbeat_hung_up(struct mci_control_conn *conn)
{
    struct mci_control_client *client = conn->client;
    if (!conn->is_heartbeat || !client ||
        atomic_load(&conn->server->is_stopping)) {
        return;
    }
    (void)pthread_mutex_lock(&client->lock);
    bool is_last = !client->pulse || client->pulse == conn;
    client->pulse = is_last ? NULL : client->pulse;
    (void)pthread_mutex_unlock(&client->lock);
    if (is_last && mci_control_client_lives(&conn->server->clients, client)) {
        mci_registry_hung_up(conn->server->ground.registry, client->member,
                             mci_clock_ns());
        mci_control_kick(conn->server);
    }
}
