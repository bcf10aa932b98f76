/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#include "mci_alloc.h"

#define SERIAL_MASK ((UINT64_C(1) << MCI_SERIAL_BITS) - 1)
#define GENERATIONS 64 /* a byte has room for */

struct mci_writer *mci_writer_at(struct mci_master *master, uint32_t client)
{
    if (client == 0 || client > MCI_CLIENTS_MAX) {
        return NULL;
    }
    struct mci_writer_chunk *chunk = atomic_load_explicit(
        &master->writers[client / MCI_WRITER_CHUNK], memory_order_acquire);
    if (!chunk) {
        return NULL;
    }
    return atomic_load_explicit(&chunk->writers[client % MCI_WRITER_CHUNK],
                                memory_order_acquire);
}

struct mci_writer *mci_writer_of(struct mci_master *master, uint32_t client)
{
    struct mci_writer *writer = mci_writer_at(master, client);
    return writer && !atomic_load(&writer->is_expired) ? writer : NULL;
}

/* ---- making ------------------------------------------------------------ */

/* The writer of an id that was never used. tables_lock is held. */
static struct mci_writer *make_writer(struct mci_master *master, uint32_t id)
{
    _Atomic(struct mci_writer_chunk *) *place =
        &master->writers[id / MCI_WRITER_CHUNK];
    struct mci_writer_chunk *chunk = atomic_load(place);
    if (!chunk) {
        chunk = mci_calloc(1, sizeof *chunk);
        if (!chunk) {
            return NULL;
        }
        atomic_store_explicit(place, chunk, memory_order_release);
    }
    struct mci_writer *writer = mci_calloc(1, sizeof *writer);
    if (!writer) {
        return NULL;
    }
    writer->id = id;
    atomic_init(&writer->is_expired, true);
    atomic_store_explicit(&chunk->writers[id % MCI_WRITER_CHUNK], writer,
                          memory_order_release);
    return writer;
}

/* tables_lock is held. */
static struct mci_writer *find_unused(struct mci_master *master)
{
    for (uint32_t id = 1; id <= master->writer_count; id++) {
        struct mci_writer *writer = mci_writer_at(master, id);
        if (!writer->is_used && atomic_load(&writer->leases) == 0 &&
            atomic_load(&writer->last_serial) < SERIAL_MASK / 2 &&
            atomic_load(&writer->last_lease) < SERIAL_MASK / 2) {
            return writer;
        }
    }
    return NULL;
}

/* The number of a host; its name is kept. tables_lock is held. */
static enum mc_err number_host(struct mci_master *master, struct mc_view host,
                               uint32_t *number_out)
{
    struct mci_map *map = &master->host_map;
    host.len = host.len > MCI_HOST_LEN_MAX ? MCI_HOST_LEN_MAX : host.len;
    *number_out = 0;
    if (host.len == 0) {
        return MC_OK;
    }
    void *known = mci_map_get(map, host);
    if (known) {
        *number_out = (uint32_t)(uintptr_t)known;
        return MC_OK;
    }
    uint32_t number = (uint32_t)map->count + 1;
    enum mc_err err = mci_map_put(map, host, (void *)(uintptr_t)number, NULL);
    if (err == MC_ERR_BUFFER_OVERFLOW) {
        return MC_OK; /* so many hosts: it is nobody's neighbour */
    }
    *number_out = err == MC_OK ? number : 0;
    return err;
}

enum mc_err mci_master_client_add(struct mci_master *master,
                                  uint32_t *client_out)
{
    return mci_master_client_add_on(master, mc_view_make(NULL, 0), client_out);
}

enum mc_err mci_master_client_add_on(struct mci_master *master,
                                     struct mc_view host, uint32_t *client_out)
{
    uint32_t number = 0;
    (void)pthread_mutex_lock(&master->tables_lock);
    enum mc_err err = number_host(master, host, &number);
    struct mci_writer *writer = err == MC_OK ? find_unused(master) : NULL;
    if (err == MC_OK && !writer) {
        if (master->writer_count == MCI_CLIENTS_MAX) {
            err = MC_ERR_NO_AVAILABLE_HANDLE;
        } else {
            writer = make_writer(master, master->writer_count + 1);
            err = writer ? MC_OK : MC_ERR_NOMEM;
            master->writer_count += writer ? 1 : 0;
        }
    }
    if (err == MC_OK) {
        writer->is_used = true;
        atomic_store(&writer->host, number);
        writer->step_shard = 0;
        atomic_store(&writer->is_expired, false);
        (void)atomic_fetch_add(&master->client_count, 1);
        *client_out = writer->id;
    }
    (void)pthread_mutex_unlock(&master->tables_lock);
    return err;
}

void mci_writers_fini(struct mci_master *master)
{
    for (uint32_t id = 1; id <= master->writer_count; id++) {
        struct mci_writer *writer = mci_writer_at(master, id);
        mci_free((void *)atomic_load(&writer->fates));
        mci_free(writer);
    }
    for (uint32_t i = 0; i <= MCI_CLIENTS_MAX / MCI_WRITER_CHUNK; i++) {
        mci_free(atomic_load(&master->writers[i]));
    }
}

/* ---- attempts ---------------------------------------------------------- */

static enum mc_err make_fates(struct mci_writer *writer)
{
    if (atomic_load_explicit(&writer->fates, memory_order_acquire)) {
        return MC_OK;
    }
    _Atomic uint8_t *fates = mci_calloc(MCI_FATES, sizeof *fates);
    if (!fates) {
        return MC_ERR_NOMEM;
    }
    _Atomic uint8_t *none = NULL;
    if (!atomic_compare_exchange_strong(&writer->fates, &none, fates)) {
        mci_free((void *)fates);
    }
    return MC_OK;
}

enum mc_err mci_writer_admit(struct mci_writer *writer)
{
    if (atomic_load(&writer->is_expired)) {
        return MC_ERR_CLIENT_NOT_FOUND;
    }
    enum mc_err err = make_fates(writer);
    if (err != MC_OK) {
        return err;
    }
    uint32_t open =
        atomic_fetch_add_explicit(&writer->open, 1, memory_order_relaxed);
    if (open >= MC_ATTEMPTS_MAX) {
        mci_writer_leave(writer);
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    return MC_OK;
}

void mci_writer_leave(struct mci_writer *writer)
{
    atomic_fetch_sub_explicit(&writer->open, 1, memory_order_relaxed);
}

static uint8_t fate_byte(uint64_t serial, enum mci_fate fate)
{
    uint64_t generation = serial / MCI_FATES % GENERATIONS;
    return (uint8_t)(generation << 2 | ((unsigned)fate - MCI_FATE_OPEN));
}

uint64_t mci_writer_number(struct mci_writer *writer)
{
    uint64_t serial = atomic_fetch_add_explicit(&writer->last_serial, 1,
                                                memory_order_relaxed) +
                      1;
    _Atomic uint8_t *fates =
        atomic_load_explicit(&writer->fates, memory_order_acquire);
    atomic_store_explicit(&fates[serial % MCI_FATES],
                          fate_byte(serial, MCI_FATE_OPEN),
                          memory_order_relaxed);
    return (uint64_t)writer->id << MCI_SERIAL_BITS | (serial & SERIAL_MASK);
}

/* ---- leases ------------------------------------------------------------ */

enum mc_err mci_writer_lease(struct mci_writer *writer, uint64_t *number_out)
{
    uint32_t leases =
        atomic_fetch_add_explicit(&writer->leases, 1, memory_order_relaxed);
    if (leases >= MC_LEASES_MAX) {
        mci_writer_unlease(writer);
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    uint64_t serial = atomic_fetch_add_explicit(&writer->last_lease, 1,
                                                memory_order_relaxed) +
                      1;
    *number_out =
        (uint64_t)writer->id << MCI_SERIAL_BITS | (serial & SERIAL_MASK);
    return MC_OK;
}

void mci_writer_unlease(struct mci_writer *writer)
{
    atomic_fetch_sub_explicit(&writer->leases, 1, memory_order_relaxed);
}

/* ---- fates ------------------------------------------------------------- */

enum mci_fate mci_fate_get(struct mci_master *master, uint64_t number)
{
    struct mci_writer *writer =
        mci_writer_at(master, mci_number_client(number));
    uint64_t serial = number & SERIAL_MASK;
    if (!writer || serial == 0) {
        return MCI_FATE_UNKNOWN;
    }
    uint64_t last = atomic_load(&writer->last_serial);
    if (serial > last || last - serial >= MCI_FATES) {
        return MCI_FATE_UNKNOWN;
    }
    _Atomic uint8_t *fates = atomic_load(&writer->fates);
    uint8_t byte = atomic_load(&fates[serial % MCI_FATES]);
    if (byte >> 2 != fate_byte(serial, MCI_FATE_OPEN) >> 2) {
        return MCI_FATE_UNKNOWN;
    }
    return (enum mci_fate)((byte & 3U) + MCI_FATE_OPEN);
}

void mci_fate_settle(struct mci_master *master, uint64_t number,
                     enum mci_fate fate)
{
    struct mci_writer *writer =
        mci_writer_at(master, mci_number_client(number));
    uint64_t serial = number & SERIAL_MASK;
    _Atomic uint8_t *fates = atomic_load(&writer->fates);
    /* Fails if the place belongs to a later attempt by now; one that is whole
     * rounds of generations later looks the same, but is not so near. */
    uint8_t open = fate_byte(serial, MCI_FATE_OPEN);
    if (atomic_load(&writer->last_serial) - serial < MCI_FATES) {
        (void)atomic_compare_exchange_strong(&fates[serial % MCI_FATES], &open,
                                             fate_byte(serial, fate));
    }
    mci_writer_leave(writer);
}

enum mci_fate mci_master_attempt_fate(struct mci_master *master,
                                      uint32_t client,
                                      struct mci_attempt attempt)
{
    if (attempt.epoch != master->epoch ||
        mci_number_client(attempt.number) != client) {
        return MCI_FATE_UNKNOWN;
    }
    return mci_fate_get(master, attempt.number);
}
