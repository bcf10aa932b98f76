/* SPDX-License-Identifier: Apache-2.0 */
/* shm.c - the table of shared memory, and rows by it.
 *
 * Peers are trusted with the registration's key: they check grants themselves,
 * and make receipts once their copy has ended. Pages of the owner's file are
 * made ready by MADV_POPULATE in chunks, once each: touching them one by one
 * costs more than copying them, and what cannot be had is an error instead of a
 * signal.
 */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "closed.h"
#include "copy.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_cond.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#define FENCE_PATIENCE_NS (UINT64_C(20) * MCI_NS_PER_MS)

/* ---- who is at the other end ------------------------------------------- */

socklen_t shm_address(const char *name, struct sockaddr_un *address_out)
{
    size_t len = strlen(name);
    memset(address_out, 0, sizeof *address_out);
    address_out->sun_family = AF_UNIX;
    if (len == 0 || len > sizeof address_out->sun_path - 1) {
        return 0;
    }
    memcpy(address_out->sun_path + 1, name, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

bool shm_is_process_dead(int pidfd)
{
    struct pollfd look = {.fd = pidfd, .events = POLLIN};
    return poll(&look, 1, 0) > 0;
}

/* An older kernel: the number may have gone to another process, but not while the
 * socket of the first one is open. */
static int open_process(int fd, pid_t pid)
{
    char byte;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        return -1;
    }
    (void)fcntl(pidfd, F_SETFD, FD_CLOEXEC);
    if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
        (void)close(pidfd);
        return -1;
    }
    return pidfd;
}

/* A process of another namespace has no number here, but a pidfd. */
int shm_know_process(int fd)
{
    struct ucred cred;
    int pidfd = -1;
    socklen_t len = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 ||
        cred.uid != geteuid()) {
        return -1;
    }
    len = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0) {
        return pidfd;
    }
    return cred.pid > 0 ? open_process(fd, cred.pid) : -1;
}

/* ---- the poller -------------------------------------------------------- */

static uint64_t turn(void *ctx, uint64_t now_ns)
{
    return shm_owner_turn(ctx, now_ns);
}

struct mci_poller *shm_poller(struct shm_state *shm)
{
    struct mci_poller_opts opts = {
        .name = "mckv-shm", .turn = turn, .ctx = shm};
    struct mci_poller *made = NULL;
    if (!shm->poller && mci_poller_create(&opts, &made) == MC_OK) {
        shm->poller = made;
    }
    return shm->poller;
}

struct errand {
    struct mci_task task;
    struct shm_state *shm;
    void (*run)(void *ctx);
    void *ctx;
    bool is_done; /* guarded by the lock */
};

static void run_errand(struct mci_task *task)
{
    struct errand *errand = MCI_CONTAINER(task, struct errand, task);
    struct shm_state *shm = errand->shm;
    errand->run(errand->ctx);
    (void)pthread_mutex_lock(&shm->lock);
    errand->is_done = true;
    (void)pthread_cond_broadcast(&shm->reached);
    (void)pthread_mutex_unlock(&shm->lock);
}

void shm_run_on_poller(struct shm_state *shm, void (*run)(void *ctx), void *ctx)
{
    struct errand errand = {
        .task = {.run = run_errand}, .shm = shm, .run = run, .ctx = ctx};
    mci_poller_post(shm->poller, &errand.task);
    (void)pthread_mutex_lock(&shm->lock);
    while (!errand.is_done) {
        (void)pthread_cond_wait(&shm->reached, &shm->lock);
    }
    (void)pthread_mutex_unlock(&shm->lock);
}

/* ---- rows -------------------------------------------------------------- */

struct shm_guard {
    struct mci_guard guard;
    struct shm_mapping *mapping;
};

static enum mc_err may(struct mci_guard *guard,
                       const struct mc_transfer_row *row,
                       const struct mc_grant *grant, uint64_t now_ns)
{
    struct shm_mapping *mapping =
        MCI_CONTAINER(guard, struct shm_guard, guard)->mapping;
    if (atomic_load(&mapping->is_dead) ||
        atomic_load(mapping->generation) != mapping->generation_was) {
        return MC_ERR_SEGMENT_NOT_FOUND;
    }
    enum mc_err err = mci_grant_check(&mapping->granter, &row->terms, grant,
                                      row->offset, mci_row_len(row), now_ns);
    if (err == MC_OK && row->terms.is_write &&
        (mci_board_refuses(mapping->board, row->terms.subject,
                           row->terms.incarnation, grant->deadline_ns) ||
         mci_closed_refuses(mapping->closed, row->terms.subject,
                            grant->deadline_ns))) {
        err = MC_ERR_INVALID_VERSION;
    }
    return err;
}

static enum mc_err touch_chunk(const struct shm_mapping *mapping,
                               uint64_t chunk, bool is_write)
{
    uint64_t at = chunk * SHM_CHUNK_BYTES;
    uint64_t len = mapping->map_bytes - at;
    len = len < SHM_CHUNK_BYTES ? len : SHM_CHUNK_BYTES;
    if (madvise(mapping->map + at, len,
                is_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0 &&
        errno != EINVAL) {
        mc_log(MC_LOG_WARN, "shm: pages of a segment: %s", strerror(errno));
        return MC_ERR_TRANSFER_FAIL;
    }
    return MC_OK;
}

static enum mc_err touch(struct mci_guard *guard, uint64_t offset, uint64_t len,
                         bool is_write)
{
    struct shm_mapping *mapping =
        MCI_CONTAINER(guard, struct shm_guard, guard)->mapping;
    uint64_t first = (uint64_t)(mapping->base - mapping->map) + offset;
    uint64_t last_chunk = (first + len - 1) / SHM_CHUNK_BYTES;
    for (uint64_t chunk = first / SHM_CHUNK_BYTES; chunk <= last_chunk;
         chunk++) {
        _Atomic uint64_t *word = &mapping->touched[chunk / 64];
        uint64_t bit = UINT64_C(1) << (chunk % 64);
        if (atomic_load_explicit(word, memory_order_relaxed) & bit) {
            continue;
        }
        enum mc_err err = touch_chunk(mapping, chunk, is_write);
        if (err != MC_OK) {
            return err;
        }
        (void)atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    }
    return MC_OK;
}

static void spend(struct shm_mapping *mapping, struct mc_transfer_row *row)
{
    mci_closed_add(mapping->closed, row->terms.subject,
                   mci_row_grant(row).deadline_ns, mci_clock_ns());
    row->receipt = mc_grant_receipt(mapping->key, mapping->granter.registration,
                                    row->terms.subject);
}

static enum mc_err move_row(struct shm_mapping *mapping,
                            const struct mci_copy *job)
{
    struct shm_guard guard = {.guard = {.may = may, .touch = touch},
                              .mapping = mapping};
    struct mc_transfer_row *row = job->row;
    struct mci_copy copy = *job;
    copy.base = mapping->base;
    copy.guard = &guard.guard;
    copy.gate = &mapping->page->gate;
    copy.board = mapping->board;
    enum mc_err err = mci_copy_row(&copy);
    if (err == MC_OK && row->is_final) {
        spend(mapping, row);
    }
    return err;
}

static void shm_move(void *state, struct mc_transfer_row *const *rows,
                     size_t count, uint64_t deadline_ns,
                     const _Atomic int *canceled)
{
    struct shm_mapping *mapping = NULL;
    const struct mc_target *target = NULL;
    for (size_t i = 0; i < count; i++) {
        struct mc_transfer_row *row = rows[i];
        if (row->target != target) {
            if (mapping) {
                shm_mapping_release(mapping);
            }
            target = row->target;
            mapping = shm_mapping_hold(state, row->target);
        }
        struct mci_copy job = {
            .row = row, .canceled = canceled, .deadline_ns = deadline_ns};
        enum mc_err err =
            mapping ? move_row(mapping, &job) : MC_ERR_TRANSFER_FAIL;
        row->err = mci_row_err(err, row->terms.is_write);
    }
    if (mapping) {
        shm_mapping_release(mapping);
    }
}

static enum mc_err seal_row(struct shm_state *shm, struct mc_transfer_row *row)
{
    struct shm_mapping *mapping = shm_mapping_hold(shm, row->target);
    if (!mapping) {
        return MC_ERR_TRANSFER_FAIL;
    }
    struct mc_grant grant = mci_row_grant(row);
    enum mc_err err =
        mci_grant_check_seal(&mapping->granter, &row->terms, &grant);
    if (err == MC_OK) {
        spend(mapping, row);
    }
    shm_mapping_release(mapping);
    return mci_row_err(err, true);
}

static void shm_seal(void *state, struct mc_transfer_row *const *rows,
                     size_t count, uint64_t deadline_ns)
{
    (void)deadline_ns;
    for (size_t i = 0; i < count; i++) {
        rows[i]->err = seal_row(state, rows[i]);
    }
}

/* ---- the table --------------------------------------------------------- */

static enum mc_err shm_open_state(struct mc_transfer *transfer,
                                  void **state_out)
{
    struct shm_state *shm = mci_calloc(1, sizeof *shm);
    if (!shm) {
        return MC_ERR_NOMEM;
    }
    shm->transfer = transfer;
    shm->listen_fd = -1;
    mci_list_init(&shm->peers);
    mci_list_init(&shm->mappings);
    if (pthread_mutex_init(&shm->lock, NULL) != 0) {
        goto err_free;
    }
    if (pthread_mutex_init(&shm->listen_lock, NULL) != 0) {
        goto err_destroy_lock;
    }
    if (mci_cond_init(&shm->reached) != 0) {
        goto err_destroy_listen_lock;
    }
    *state_out = shm;
    return MC_OK;
err_destroy_listen_lock:
    (void)pthread_mutex_destroy(&shm->listen_lock);
err_destroy_lock:
    (void)pthread_mutex_destroy(&shm->lock);
err_free:
    mci_free(shm);
    return MC_ERR_NOMEM;
}

static void close_all(void *ctx)
{
    shm_owner_close(ctx);
    shm_peer_close(ctx);
}

static void shm_close_state(void *state)
{
    struct shm_state *shm = state;
    if (shm->poller) {
        shm_run_on_poller(shm, close_all, shm);
        mci_poller_destroy(shm->poller);
    }
    (void)pthread_cond_destroy(&shm->reached);
    (void)pthread_mutex_destroy(&shm->listen_lock);
    (void)pthread_mutex_destroy(&shm->lock);
    mci_free(shm);
}

static enum mc_err shm_expose(void *state, struct mci_exposed *exposed)
{
    return shm_owner_expose(state, exposed);
}

static void shm_conceal(void *state, struct mci_exposed *exposed)
{
    shm_owner_conceal(state, exposed);
}

static enum mc_err shm_fence(void *state, const struct mc_fence *fences,
                             size_t count, struct mci_stuck_list *stuck)
{
    (void)fences;
    return mci_gate_settle(shm_owner_scan, state,
                           count > 0 ? FENCE_PATIENCE_NS : 0, stuck);
}

static enum mc_err shm_reach(void *state, struct mc_target *target,
                             uint64_t deadline_ns)
{
    return shm_peer_reach(state, target, deadline_ns);
}

static void shm_forget(void *state, struct mc_target *target)
{
    shm_peer_forget(state, target);
}

const struct mci_transport mci_transport_shm = {
    .kind = MC_TRANSPORT_SHM,
    .name = "shm",
    .open = shm_open_state,
    .close = shm_close_state,
    .expose = shm_expose,
    .conceal = shm_conceal,
    .fence = shm_fence,
    .reach = shm_reach,
    .forget = shm_forget,
    .probe = shm_reach,
    .move = shm_move,
    .seal = shm_seal,
};
