/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer_rig.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "mci_clock.h"

const enum mc_transport_kind rig_kinds[] = {MC_TRANSPORT_LOCAL,
                                            MC_TRANSPORT_SHM, MC_TRANSPORT_TCP};

bool rig_is_built(enum mc_transport_kind kind)
{
    return mci_transport_get(kind) != NULL;
}

struct rig_memory rig_memory_make(uint64_t bytes)
{
    struct rig_memory memory = {.bytes = bytes};
    memory.fd = memfd_create("rig", MFD_CLOEXEC);
    ck_assert_int_ge(memory.fd, 0);
    ck_assert_int_eq(ftruncate(memory.fd, (off_t)(RIG_PAGE + bytes)), 0);
    memory.map = mmap(NULL, RIG_PAGE + bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED, memory.fd, 0);
    ck_assert_ptr_ne(memory.map, MAP_FAILED);
    memory.base = memory.map + RIG_PAGE;
    return memory;
}

void rig_memory_free(struct rig_memory *memory)
{
    ck_assert_int_eq(munmap(memory->map, RIG_PAGE + memory->bytes), 0);
    ck_assert_int_eq(close(memory->fd), 0);
}

/* What orders two requests of a peer, its waiting for the first answer, is not
 * seen by the thread sanitizer where they come by tcp to different threads. */
#ifdef __SANITIZE_THREAD__
#define SERVER_THREADS 1
#else
#define SERVER_THREADS 0
#endif

static struct mc_transfer *open_engine(enum mc_transport_kind kind)
{
    struct mc_transfer *transfer = NULL;
    struct mc_transfer_opts opts = {.only = kind,
                                    .bind_address = "127.0.0.1",
                                    .server_threads = SERVER_THREADS};
    ck_assert_int_eq(mc_transfer_open(&opts, &transfer), MC_OK);
    return transfer;
}

void rig_lend(struct rig *rig)
{
    struct mc_exposure_opts opts = {.base = rig->memory.base,
                                    .bytes = rig->memory.bytes,
                                    .fd = rig->memory.fd,
                                    .fd_offset = RIG_PAGE,
                                    .generation = rig->memory.map};
    ck_assert_int_eq(mc_transfer_expose(rig->owner, &opts, &rig->exposure),
                     MC_OK);
    struct mc_target_opts target = {.registration = rig->exposure.registration,
                                    .bytes = rig->memory.bytes,
                                    .endpoint = rig->exposure.endpoint,
                                    .shm = rig->exposure.shm};
    ck_assert_int_eq(mc_target_open(rig->peer, &target, &rig->target), MC_OK);
}

void rig_open(struct rig *rig, enum mc_transport_kind kind, uint64_t bytes,
              size_t local_bytes)
{
    memset(rig, 0, sizeof *rig);
    rig->kind = kind;
    rig->memory = rig_memory_make(bytes);
    rig->owner = open_engine(kind);
    rig->peer = kind == MC_TRANSPORT_LOCAL ? rig->owner : open_engine(kind);
    rig->local_bytes = local_bytes;
    rig->local = mmap(NULL, local_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(rig->local, MAP_FAILED);
    ck_assert_int_eq(mc_transfer_register(rig->peer, rig->local, local_bytes),
                     MC_OK);
    rig_lend(rig);
}

void rig_close(struct rig *rig)
{
    mc_target_close(rig->target);
    if (rig->peer != rig->owner) {
        mc_transfer_close(rig->peer);
    }
    mc_transfer_close(rig->owner);
    ck_assert_int_eq(munmap(rig->local, rig->local_bytes), 0);
    rig_memory_free(&rig->memory);
}

uint64_t rig_deadline(uint64_t ms)
{
    return mci_clock_ns() + ms * MCI_NS_PER_MS;
}

void rig_sign(const struct rig *rig, struct mc_transfer_row *row,
              uint64_t deadline_ns)
{
    row->grant.deadline_ns = deadline_ns;
    row->grant.tag = mc_grant_tag(rig->exposure.key, &row->terms, deadline_ns);
}

struct mc_transfer_row rig_row(struct rig *rig, const struct mc_span *spans,
                               uint32_t count, uint64_t offset, bool is_write)
{
    uint64_t len = 0;
    for (uint32_t i = 0; i < count; i++) {
        len += spans[i].len;
    }
    struct mc_transfer_row row = {
        .target = rig->target,
        .spans = spans,
        .span_count = count,
        .offset = offset,
        .terms = {.registration = rig->exposure.registration,
                  .incarnation = RIG_INCARNATION,
                  .subject = ++rig->serial,
                  .offset = offset,
                  .len = len,
                  .is_write = is_write},
    };
    rig_sign(rig, &row, rig_deadline(30000));
    return row;
}

enum mc_err rig_run(struct rig *rig, struct mc_transfer_row *row)
{
    enum mc_err err = mc_transfer_run(rig->peer, row, 1, rig_deadline(20000));
    ck_assert_int_eq(err, row->err == MC_OK ? MC_OK : MC_ERR_TRANSFER_FAIL);
    ck_assert(row->local_ended);
    return row->err;
}

static uint8_t byte_at(size_t place, uint64_t seed)
{
    uint64_t x = (place / 7 + seed) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint8_t)((x >> 56) + place);
}

void rig_fill(uint8_t *at, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        at[i] = byte_at(i, seed);
    }
}

bool rig_is_filled(const uint8_t *at, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        if (at[i] != byte_at(i, seed)) {
            return false;
        }
    }
    return true;
}

size_t rig_count_maps(const char *name)
{
    char line[512];
    size_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        count += strstr(line, name) != NULL;
    }
    if (maps) {
        (void)fclose(maps);
    }
    return count;
}

uint64_t rig_shm_peers(const struct rig *rig)
{
    struct mc_transfer_stats stats;
    mc_transfer_stat(rig->owner, &stats);
    return stats.shm_peers;
}
