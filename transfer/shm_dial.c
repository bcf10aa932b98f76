/* SPDX-License-Identifier: Apache-2.0 */
/* shm_dial.c - the peer's way to somebody's memory: connect, hello, welcome with
 * three descriptors, map.
 *
 * The mapping begins on a 2 MiB boundary, so that huge pages of the file can be
 * mapped as such. It is not inherited by a fork: the owner counts on the process
 * that it knows.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "closed.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_mapping.h"
#include "shm.h"

#define FDS_ROOM 8

struct dial {
    const struct mc_target *target;
    uint64_t deadline_ns;
    bool is_callers; /* the deadline is the caller's, not ours */
    int fd;
    int pidfd;
    int fds[SHM_FDS];
    uint64_t words[WELCOME_WORDS];
};

static enum mc_err fail(const struct dial *dial, const char *what,
                        const char *why)
{
    mc_log(MC_LOG_DEBUG, "shm: %s: %s: %s", dial->target->shm, what, why);
    return MC_ERR_TRANSFER_FAIL;
}

static enum mc_err fail_late(const struct dial *dial)
{
    (void)fail(dial, "no answer", "deadline");
    return dial->is_callers ? MC_ERR_RPC_TIMEOUT : MC_ERR_TRANSFER_FAIL;
}

static uint64_t left_ms(const struct dial *dial)
{
    uint64_t now_ns = mci_clock_ns();
    return now_ns >= dial->deadline_ns
               ? 0
               : (dial->deadline_ns - now_ns) / MCI_NS_PER_MS + 1;
}

/* A backlog that is full cannot be waited for. */
static enum mc_err connect_to(struct dial *dial)
{
    const struct timespec pause = {0, 1000000};
    struct sockaddr_un address;
    socklen_t len = shm_address(dial->target->shm, &address);
    if (len == 0) {
        return fail(dial, "connect", "no such name can be");
    }
    dial->fd =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (dial->fd < 0) {
        return fail(dial, "socket", strerror(errno));
    }
    while (connect(dial->fd, (struct sockaddr *)&address, len) != 0) {
        if (errno != EAGAIN && errno != EINTR) {
            return fail(dial, "connect", strerror(errno));
        }
        if (left_ms(dial) == 0) {
            return fail_late(dial);
        }
        (void)nanosleep(&pause, NULL);
    }
    dial->pidfd = shm_know_process(dial->fd);
    return dial->pidfd >= 0 ? MC_OK
                            : fail(dial, "owner", "another user, or unknown");
}

static enum mc_err say_hello(struct dial *dial)
{
    uint64_t words[HELLO_WORDS] = {[HELLO_MAGIC] = SHM_MAGIC,
                                   [HELLO_REGISTRATION] =
                                       dial->target->registration};
    if (send(dial->fd, words, sizeof words, MSG_NOSIGNAL) !=
        (ssize_t)sizeof words) {
        return fail(dial, "hello", strerror(errno));
    }
    return MC_OK;
}

static enum mc_err await_welcome(const struct dial *dial)
{
    for (;;) {
        struct pollfd wait = {.fd = dial->fd, .events = POLLIN};
        uint64_t ms = left_ms(dial);
        if (ms == 0) {
            return fail_late(dial);
        }
        int ready = poll(&wait, 1, ms < 50 ? (int)ms : 50);
        if (ready > 0) {
            return MC_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return fail(dial, "poll", strerror(errno));
        }
    }
}

/* Takes what came along; closes all if it is not exactly what it should be. */
static bool take_fds(struct msghdr *message, int fds[SHM_FDS])
{
    int got[FDS_ROOM];
    size_t count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
         part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        here = here < FDS_ROOM - count ? here : FDS_ROOM - count;
        memcpy(got + count, CMSG_DATA(part), here * sizeof(int));
        count += here;
    }
    if (count == SHM_FDS && (message->msg_flags & MSG_CTRUNC) == 0) {
        memcpy(fds, got, SHM_FDS * sizeof(int));
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        (void)close(got[i]);
    }
    return false;
}

static enum mc_err take_welcome(struct dial *dial)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(FDS_ROOM * sizeof(int))];
    } control;
    struct iovec part = {dial->words, sizeof dial->words};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t len = recvmsg(dial->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (len < 0) {
        return fail(dial, "welcome", strerror(errno));
    }
    if (!take_fds(&message, dial->fds)) {
        return fail(dial, "welcome", len == 0 ? "refused" : "descriptors");
    }
    if (len != (ssize_t)sizeof dial->words ||
        (message.msg_flags & MSG_TRUNC) != 0 ||
        dial->words[WELCOME_MAGIC] != SHM_MAGIC) {
        return fail(dial, "welcome", "not understood");
    }
    return MC_OK;
}

/* Deadlines of grants are on the owner's clock, so it must be ours. */
static bool is_same_clock(const struct dial *dial, uint64_t before_ns)
{
    uint64_t clock_ns = dial->words[WELCOME_CLOCK_NS];
    return clock_ns + SHM_CLOCK_SLACK_NS >= before_ns &&
           clock_ns <= mci_clock_ns() + SHM_CLOCK_SLACK_NS;
}

static bool has_size(int fd, uint64_t bytes)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && stat.st_size >= 0 &&
           (uint64_t)stat.st_size >= bytes;
}

/* Touching what lies behind the end of a file would end this process. */
static enum mc_err check_welcome(const struct dial *dial, uint64_t before_ns)
{
    const uint64_t *words = dial->words;
    if (!is_same_clock(dial, before_ns)) {
        return fail(dial, "owner", "its clock is another one");
    }
    if (words[WELCOME_BYTES] != dial->target->bytes ||
        words[WELCOME_FD_OFFSET] > words[WELCOME_MAP_BYTES] ||
        words[WELCOME_BYTES] >
            words[WELCOME_MAP_BYTES] - words[WELCOME_FD_OFFSET] ||
        words[WELCOME_GENERATION_OFFSET] % sizeof(uint64_t) != 0 ||
        words[WELCOME_MAP_BYTES] < sizeof(uint64_t) ||
        words[WELCOME_GENERATION_OFFSET] >
            words[WELCOME_MAP_BYTES] - sizeof(uint64_t)) {
        return fail(dial, "welcome", "does not add up");
    }
    if (!has_size(dial->fds[SHM_FD_SEGMENT], words[WELCOME_MAP_BYTES]) ||
        !has_size(dial->fds[SHM_FD_BOARD], sizeof(struct mci_board_page)) ||
        !has_size(dial->fds[SHM_FD_PAGE], sizeof(struct shm_page))) {
        return fail(dial, "welcome", "a file is too short");
    }
    return MC_OK;
}

/* ---- mapping ----------------------------------------------------------- */

static void *map_page(int fd, size_t bytes, int access)
{
    void *map = mmap(NULL, bytes, access, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(map, bytes, MADV_DONTFORK);
    return map;
}

static bool map_all(struct shm_mapping *mapping, const struct dial *dial)
{
    mapping->map_bytes = dial->words[WELCOME_MAP_BYTES];
    void *map = mci_map_huge(dial->fds[SHM_FD_SEGMENT], mapping->map_bytes);
    if (map == MAP_FAILED) {
        return false;
    }
    mapping->map = map;
    if (madvise(map, mapping->map_bytes, MADV_DONTFORK) != 0) {
        return false;
    }
    (void)madvise(map, mapping->map_bytes, MADV_HUGEPAGE);
    (void)madvise(map, mapping->map_bytes, MADV_DONTDUMP);
    mapping->board =
        map_page(dial->fds[SHM_FD_BOARD], sizeof *mapping->board, PROT_READ);
    mapping->page = map_page(dial->fds[SHM_FD_PAGE], sizeof *mapping->page,
                             PROT_READ | PROT_WRITE);
    return mapping->board && mapping->page &&
           mapping->board->magic == MCI_BOARD_MAGIC &&
           mapping->page->magic == SHM_MAGIC;
}

/* The page is told last: then the owner may forget us. */
void shm_mapping_unmap(struct shm_mapping *mapping)
{
    if (mapping->map) {
        (void)munmap(mapping->map, mapping->map_bytes);
    }
    if (mapping->board) {
        (void)munmap(mapping->board, sizeof *mapping->board);
    }
    if (mapping->page) {
        atomic_store(&mapping->page->has_left, 1);
        (void)munmap(mapping->page, sizeof *mapping->page);
    }
    if (mapping->fd >= 0) {
        (void)close(mapping->fd);
    }
    if (mapping->pidfd >= 0) {
        (void)close(mapping->pidfd);
    }
    mci_closed_destroy(mapping->closed);
    mci_free(mapping->touched);
    mci_free(mapping);
}

static void fill_in(struct shm_mapping *mapping, const struct dial *dial)
{
    const uint64_t *words = dial->words;
    memcpy(mapping->key, &words[WELCOME_KEY], sizeof mapping->key);
    mapping->base = mapping->map + words[WELCOME_FD_OFFSET];
    mapping->generation =
        (_Atomic uint64_t *)(void *)(mapping->map +
                                     words[WELCOME_GENERATION_OFFSET]);
    mapping->generation_was = words[WELCOME_GENERATION];
    mapping->granter =
        (struct mci_granter){.registration = dial->target->registration,
                             .key = mapping->key,
                             .bytes = words[WELCOME_BYTES]};
}

/* Owns the dial's socket and pidfd from here on, also on failure. */
static enum mc_err make_mapping(struct dial *dial,
                                struct shm_mapping **mapping_out)
{
    struct shm_mapping *mapping = mci_calloc(1, sizeof *mapping);
    if (!mapping) {
        return MC_ERR_NOMEM;
    }
    mci_list_init(&mapping->link);
    mapping->fd = dial->fd;
    mapping->pidfd = dial->pidfd;
    dial->fd = -1;
    dial->pidfd = -1;
    enum mc_err err = mci_closed_create(0, &mapping->closed);
    if (err == MC_OK) {
        uint64_t chunks = dial->words[WELCOME_MAP_BYTES] / SHM_CHUNK_BYTES + 1;
        mapping->touched =
            mci_calloc(chunks / 64 + 1, sizeof *mapping->touched);
        err = mapping->touched ? MC_OK : MC_ERR_NOMEM;
    }
    if (err == MC_OK && !map_all(mapping, dial)) {
        err = fail(dial, "mapping", strerror(errno));
    }
    if (err != MC_OK) {
        shm_mapping_unmap(mapping);
        return err;
    }
    fill_in(mapping, dial);
    *mapping_out = mapping;
    return MC_OK;
}

static enum mc_err shake_hands(struct dial *dial,
                               struct shm_mapping **mapping_out)
{
    enum mc_err err = connect_to(dial);
    uint64_t before_ns = mci_clock_ns();
    if (err == MC_OK) {
        err = say_hello(dial);
    }
    if (err == MC_OK) {
        err = await_welcome(dial);
    }
    if (err == MC_OK) {
        err = take_welcome(dial);
    }
    if (err == MC_OK) {
        err = check_welcome(dial, before_ns);
    }
    return err == MC_OK ? make_mapping(dial, mapping_out) : err;
}

enum mc_err shm_dial(const struct mc_target *target, uint64_t deadline_ns,
                     struct shm_mapping **mapping_out)
{
    uint64_t limit_ns = mci_clock_ns() + SHM_HELLO_NS;
    struct dial dial = {.target = target,
                        .deadline_ns =
                            deadline_ns < limit_ns ? deadline_ns : limit_ns,
                        .is_callers = deadline_ns < limit_ns,
                        .fd = -1,
                        .pidfd = -1,
                        .fds = {-1, -1, -1}};
    enum mc_err err = shake_hands(&dial, mapping_out);
    for (int i = 0; i < SHM_FDS; i++) {
        if (dial.fds[i] >= 0) {
            (void)close(dial.fds[i]);
        }
    }
    if (dial.pidfd >= 0) {
        (void)close(dial.pidfd);
    }
    if (dial.fd >= 0) {
        (void)close(dial.fd);
    }
    return err;
}
