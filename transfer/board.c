/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define BOARD_SEALS \
    (F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct mci_board {
    pthread_mutex_t lock; /* of posters */
    struct mci_board_page *page;
    int fd;
};

/* The mapping comes before the seal, so it alone stays writable. */
static void *map_shared(int *fd_out)
{
    int fd = memfd_create("mckv-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return MAP_FAILED;
    }
    void *map = MAP_FAILED;
    if (ftruncate(fd, (off_t)sizeof(struct mci_board_page)) == 0) {
        map = mmap(NULL, sizeof(struct mci_board_page), PROT_READ | PROT_WRITE,
                   MAP_SHARED, fd, 0);
    }
    if (map == MAP_FAILED) {
        (void)close(fd);
        return MAP_FAILED;
    }
    if (fcntl(fd, F_ADD_SEALS, BOARD_SEALS) != 0) {
        mc_log(MC_LOG_DEBUG, "board: sealing: %s", strerror(errno));
        (void)close(fd);
        fd = -1;
    }
    *fd_out = fd;
    return map;
}

enum mc_err mci_board_create(struct mci_board **board_out)
{
    struct mci_board *board = mci_calloc(1, sizeof *board);
    if (!board) {
        return MC_ERR_NOMEM;
    }
    if (pthread_mutex_init(&board->lock, NULL) != 0) {
        goto err_free;
    }
    board->fd = -1;
    void *map = map_shared(&board->fd);
    if (map == MAP_FAILED) {
        map = mmap(NULL, sizeof(struct mci_board_page), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (map == MAP_FAILED) {
        goto err_destroy_lock;
    }
    board->page = map;
    board->page->magic = MCI_BOARD_MAGIC;
    *board_out = board;
    return MC_OK;
err_destroy_lock:
    (void)pthread_mutex_destroy(&board->lock);
err_free:
    mci_free(board);
    return MC_ERR_NOMEM;
}

void mci_board_destroy(struct mci_board *board)
{
    if (!board) {
        return;
    }
    (void)munmap(board->page, sizeof *board->page);
    if (board->fd >= 0) {
        (void)close(board->fd);
    }
    (void)pthread_mutex_destroy(&board->lock);
    mci_free(board);
}

struct mci_board_page *mci_board_page(struct mci_board *board)
{
    return board->page;
}

int mci_board_fd(const struct mci_board *board)
{
    return board->fd;
}

/* Peers of other builds share the page, so the hash is part of its layout:
 * splitmix64, whose last bits choose the set. */
static size_t set_of(uint64_t subject, uint64_t kind)
{
    uint64_t x = subject + (kind + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (size_t)((x ^ (x >> 31)) % MCI_BOARD_SETS);
}

static bool has(const struct mci_board_page *page, uint64_t subject,
                uint64_t kind)
{
    const struct mci_board_entry *set = page->entries[set_of(subject, kind)];
    for (int i = 0; i < MCI_BOARD_WAYS; i++) {
        if (atomic_load(&set[i].subject) == subject &&
            (atomic_load(&set[i].until_kind) & 1) == kind) {
            return true;
        }
    }
    return false;
}

bool mci_board_refuses(const struct mci_board_page *page, uint64_t attempt,
                       uint64_t incarnation, uint64_t grant_ns)
{
    if (atomic_load(&page->posted) == 0) {
        return false;
    }
    if (attempt != 0 && has(page, attempt, MC_FENCE_ATTEMPT)) {
        return true;
    }
    if (incarnation != 0 && has(page, incarnation, MC_FENCE_INCARNATION)) {
        return true;
    }
    return grant_ns <= atomic_load(&page->floor_ns);
}

/* Where a fence goes: its own entry, a free one, or the one that ends first. */
static struct mci_board_entry *choose(struct mci_board_page *page,
                                      uint64_t subject, uint64_t kind)
{
    struct mci_board_entry *set = page->entries[set_of(subject, kind)];
    struct mci_board_entry *best = &set[0];
    uint64_t best_until = UINT64_MAX;
    for (int i = 0; i < MCI_BOARD_WAYS; i++) {
        uint64_t has_subject = atomic_load(&set[i].subject);
        uint64_t until_kind = atomic_load(&set[i].until_kind);
        if (has_subject == subject && (until_kind & 1) == kind) {
            return &set[i];
        }
        uint64_t until = has_subject == 0 ? 0 : until_kind | 1;
        if (until < best_until) {
            best = &set[i];
            best_until = until;
        }
    }
    return best;
}

static void post_one(struct mci_board_page *page, const struct mc_fence *fence,
                     uint64_t now_ns, uint64_t until_ns)
{
    uint64_t kind = fence->kind == MC_FENCE_INCARNATION ? 1 : 0;
    uint64_t until_kind = (until_ns & ~UINT64_C(1)) | kind;
    struct mci_board_entry *entry = choose(page, fence->subject, kind);
    uint64_t old = atomic_load(&entry->subject);
    uint64_t old_until = atomic_load(&entry->until_kind);
    if (old == fence->subject && (old_until & 1) == kind) {
        if (until_kind > old_until) {
            atomic_store(&entry->until_kind, until_kind);
        }
        return;
    }
    if (old != 0 && old_until > now_ns &&
        old_until > atomic_load(&page->floor_ns)) {
        atomic_store(&page->floor_ns, old_until | 1);
    }
    atomic_store(&entry->subject, 0);
    atomic_store(&entry->until_kind, until_kind);
    atomic_store(&entry->subject, fence->subject);
}

void mci_board_post(struct mci_board *board, const struct mc_fence *fences,
                    size_t count, uint64_t now_ns, uint64_t until_ns)
{
    if (count == 0) {
        return;
    }
    (void)pthread_mutex_lock(&board->lock);
    atomic_store(&board->page->posted, 1);
    for (size_t i = 0; i < count; i++) {
        if (fences[i].subject != 0) {
            post_one(board->page, &fences[i], now_ns, until_ns);
        }
    }
    (void)pthread_mutex_unlock(&board->lock);
}
