/* SPDX-License-Identifier: Apache-2.0 */
/* shm_owner.c - who lends: a listener, and a record of each process that has
 * memory of ours mapped.
 *
 * A record is kept until its process is dead or has said that it unmapped: a
 * closed socket alone proves nothing. Records live on the poller's thread; the
 * list is also read by whoever scans gates, under the lock.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "shm.h"

#define ACCEPTS_PER_TURN 16
#define LISTEN_BACKLOG 256
#define ACCEPT_PAUSE_NS (UINT64_C(100) * MCI_NS_PER_MS)

struct peer {
    struct mci_link link; /* guarded by the lock, as all below but page's words
                             for the poller's own thread */
    struct shm_state *shm;
    int fd;                /* -1: closed */
    int pidfd;             /* -1: not known yet */
    uint64_t registration; /* 0: has said nothing */
    uint64_t since_ns;
    struct shm_page *page; /* NULL: was given nothing */
    struct mci_watch watch;
    struct mci_watch death;
};

/* ---- records ----------------------------------------------------------- */

static void close_socket(struct peer *peer)
{
    if (peer->fd >= 0) {
        mci_poller_remove(peer->shm->poller, &peer->watch);
        (void)close(peer->fd);
        peer->fd = -1;
    }
}

static void free_peer(struct peer *peer)
{
    struct shm_state *shm = peer->shm;
    (void)pthread_mutex_lock(&shm->lock);
    mci_list_remove(&peer->link);
    shm->peer_count--;
    if (peer->registration == 0) {
        shm->waiting_count--;
    }
    (void)pthread_mutex_unlock(&shm->lock);
    close_socket(peer);
    if (peer->pidfd >= 0) {
        mci_poller_remove(shm->poller, &peer->death);
        (void)close(peer->pidfd);
    }
    if (peer->page) {
        (void)munmap(peer->page, sizeof *peer->page);
        mci_count_down(&shm->transfer->counters.shm_peers, 1);
    }
    mci_free(peer);
}

static bool has_left(const struct peer *peer)
{
    return !peer->page || atomic_load(&peer->page->has_left) != 0;
}

/* The socket is of no more use. */
static void hang_up(struct peer *peer)
{
    if (has_left(peer) || shm_is_process_dead(peer->pidfd)) {
        free_peer(peer);
        return;
    }
    close_socket(peer);
}

static void on_death(struct mci_watch *watch, uint32_t events)
{
    (void)events;
    free_peer(MCI_CONTAINER(watch, struct peer, death));
}

/* ---- what a peer is given ---------------------------------------------- */

static int make_page(struct peer *peer)
{
    int fd = memfd_create("mckv-gate", MFD_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    void *page = MAP_FAILED;
    if (ftruncate(fd, (off_t)sizeof(struct shm_page)) == 0) {
        page = mmap(NULL, sizeof(struct shm_page), PROT_READ | PROT_WRITE,
                    MAP_SHARED, fd, 0);
    }
    if (page == MAP_FAILED) {
        (void)close(fd);
        return -1;
    }
    (void)madvise(page, sizeof(struct shm_page), MADV_DONTFORK);
    ((struct shm_page *)page)->magic = SHM_MAGIC;
    (void)pthread_mutex_lock(&peer->shm->lock);
    peer->page = page;
    (void)pthread_mutex_unlock(&peer->shm->lock);
    mci_count(&peer->shm->transfer->counters.shm_peers, 1);
    return fd;
}

static bool send_welcome(int fd, const uint64_t *words, const int *fds)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(SHM_FDS * sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {(void *)(uintptr_t)words,
                         WELCOME_WORDS * sizeof *words};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(SHM_FDS * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, SHM_FDS * sizeof(int));
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)part.iov_len;
}

static bool give(struct peer *peer, const struct mci_exposed *exposed)
{
    uint64_t words[WELCOME_WORDS] = {
        [WELCOME_MAGIC] = SHM_MAGIC,
        [WELCOME_CLOCK_NS] = mci_clock_ns(),
        [WELCOME_BYTES] = exposed->bytes,
        [WELCOME_FD_OFFSET] = exposed->fd_offset,
        [WELCOME_MAP_BYTES] = exposed->map_bytes,
        [WELCOME_GENERATION_OFFSET] = exposed->generation_offset,
        [WELCOME_GENERATION] = atomic_load(exposed->generation),
    };
    memcpy(&words[WELCOME_KEY], exposed->key, sizeof exposed->key);
    /* Looked at after the generation was read: what is concealed later raises
     * it. */
    if (atomic_load(&exposed->is_concealed)) {
        return false;
    }
    int fds[SHM_FDS] = {exposed->fd, mci_board_fd(peer->shm->transfer->board),
                        -1};
    fds[SHM_FD_PAGE] = make_page(peer);
    if (fds[SHM_FD_PAGE] < 0) {
        return false;
    }
    bool was_sent = send_welcome(peer->fd, words, fds);
    (void)close(fds[SHM_FD_PAGE]);
    if (!was_sent) {
        atomic_store(&peer->page->has_left, 1);
    }
    return was_sent;
}

/* The poller's thread also conceals, so the descriptor is open meanwhile. */
static bool serve(struct peer *peer, uint64_t registration)
{
    struct shm_state *shm = peer->shm;
    struct mci_exposed *exposed = mci_exposed_hold(shm->transfer, registration);
    if (!exposed) {
        return false;
    }
    bool was_given = false;
    if (exposed->fd >= 0) {
        (void)pthread_mutex_lock(&shm->lock);
        peer->registration = registration;
        shm->waiting_count--;
        (void)pthread_mutex_unlock(&shm->lock);
        was_given = give(peer, exposed);
    }
    mci_exposed_release(exposed);
    return was_given;
}

static bool begin_death_watch(struct peer *peer)
{
    int pidfd = shm_know_process(peer->fd);
    if (pidfd < 0) {
        return false;
    }
    peer->death = (struct mci_watch){.ready = on_death, .fd = pidfd};
    if (mci_poller_add(peer->shm->poller, &peer->death, EPOLLIN) != MC_OK) {
        (void)close(pidfd);
        return false;
    }
    (void)pthread_mutex_lock(&peer->shm->lock);
    peer->pidfd = pidfd;
    (void)pthread_mutex_unlock(&peer->shm->lock);
    return true;
}

static void on_peer(struct mci_watch *watch, uint32_t events)
{
    (void)events;
    struct peer *peer = MCI_CONTAINER(watch, struct peer, watch);
    uint64_t words[HELLO_WORDS + 1];
    /* Descriptors that are sent along are dropped by the kernel. */
    ssize_t len = recv(peer->fd, words, sizeof words, MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    bool is_hello = peer->registration == 0 &&
                    len == (ssize_t)(HELLO_WORDS * sizeof words[0]) &&
                    words[HELLO_MAGIC] == SHM_MAGIC &&
                    words[HELLO_REGISTRATION] != 0;
    if (!is_hello || !begin_death_watch(peer) ||
        !serve(peer, words[HELLO_REGISTRATION])) {
        hang_up(peer);
    }
}

/* ---- the listener ------------------------------------------------------ */

static void drop_oldest_waiting(struct shm_state *shm)
{
    struct peer *oldest = NULL;
    for (struct mci_link *at = shm->peers.next; at != &shm->peers && !oldest;
         at = at->next) {
        struct peer *peer = MCI_CONTAINER(at, struct peer, link);
        if (peer->registration == 0) {
            oldest = peer;
        }
    }
    if (oldest) {
        free_peer(oldest);
    }
}

static void take_in(struct shm_state *shm, int fd)
{
    struct ucred cred;
    socklen_t len = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 ||
        cred.uid != geteuid() || shm->peer_count >= SHM_PEERS_MAX) {
        (void)close(fd);
        return;
    }
    struct peer *peer = mci_calloc(1, sizeof *peer);
    if (!peer) {
        (void)close(fd);
        return;
    }
    peer->shm = shm;
    peer->fd = fd;
    peer->pidfd = -1;
    peer->since_ns = mci_clock_ns();
    peer->watch = (struct mci_watch){.ready = on_peer, .fd = fd};
    if (mci_poller_add(shm->poller, &peer->watch, EPOLLIN) != MC_OK) {
        (void)close(fd);
        mci_free(peer);
        return;
    }
    (void)pthread_mutex_lock(&shm->lock);
    mci_list_push_back(&shm->peers, &peer->link);
    shm->peer_count++;
    shm->waiting_count++;
    (void)pthread_mutex_unlock(&shm->lock);
    if (shm->waiting_count > SHM_WAITING_MAX) {
        drop_oldest_waiting(shm);
    }
}

static void on_listener(struct mci_watch *watch, uint32_t events)
{
    (void)events;
    struct shm_state *shm =
        MCI_CONTAINER(watch, struct shm_state, listen_watch);
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd =
            accept4(shm->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_in(shm, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
            errno == ENOBUFS) {
            mc_log(MC_LOG_WARN, "shm: accept: %s", strerror(errno));
            mci_poller_change(shm->poller, watch, 0);
        }
        break;
    }
}

/* Who said nothing for long goes; a listener that paused listens again. */
uint64_t shm_owner_turn(struct shm_state *shm, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    struct mci_link *at = shm->peers.next;
    while (at != &shm->peers) {
        struct peer *peer = MCI_CONTAINER(at, struct peer, link);
        at = at->next;
        if (peer->registration != 0) {
            continue;
        }
        if (now_ns - peer->since_ns >= SHM_HELLO_NS) {
            free_peer(peer);
        } else if (peer->since_ns + SHM_HELLO_NS < next_ns) {
            next_ns = peer->since_ns + SHM_HELLO_NS;
        }
    }
    if (shm->listen_fd >= 0 && shm->listen_watch.events == 0) {
        if (shm->paused_ns == 0) {
            shm->paused_ns = now_ns;
        } else if (now_ns - shm->paused_ns >= ACCEPT_PAUSE_NS) {
            shm->paused_ns = 0;
            mci_poller_change(shm->poller, &shm->listen_watch, EPOLLIN);
            return next_ns;
        }
        uint64_t resume_ns = shm->paused_ns + ACCEPT_PAUSE_NS;
        next_ns = resume_ns < next_ns ? resume_ns : next_ns;
    }
    return next_ns;
}

static int bind_random(char *name, size_t room)
{
    uint64_t id[2];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    struct sockaddr_un address;
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id) {
        goto err_close;
    }
    (void)snprintf(name, room, "mckv-%016llx%016llx", (unsigned long long)id[0],
                   (unsigned long long)id[1]);
    socklen_t address_len = shm_address(name, &address);
    if (bind(fd, (struct sockaddr *)&address, address_len) != 0 ||
        listen(fd, LISTEN_BACKLOG) != 0) {
        goto err_close;
    }
    return fd;
err_close:
    (void)close(fd);
    return -1;
}

struct listening {
    struct shm_state *shm;
    int fd;
    bool is_done;
};

static void add_listener(void *ctx)
{
    struct listening *listening = ctx;
    struct shm_state *shm = listening->shm;
    shm->listen_watch =
        (struct mci_watch){.ready = on_listener, .fd = listening->fd};
    if (mci_poller_add(shm->poller, &shm->listen_watch, EPOLLIN) == MC_OK) {
        shm->listen_fd = listening->fd;
        listening->is_done = true;
    }
}

/* One caller at a time: see expose. */
static bool begin_listening(struct shm_state *shm)
{
    int fd = bind_random(shm->name, sizeof shm->name);
    if (fd < 0) {
        mc_log(MC_LOG_WARN, "shm: not offered: socket: %s", strerror(errno));
        return false;
    }
    struct listening listening = {.shm = shm, .fd = fd};
    shm_run_on_poller(shm, add_listener, &listening);
    if (!listening.is_done) {
        (void)close(fd);
    }
    return listening.is_done;
}

/* Where it cannot be offered, tcp remains. */
enum mc_err shm_owner_expose(struct shm_state *shm, struct mci_exposed *exposed)
{
    if (exposed->fd < 0 || mci_board_fd(shm->transfer->board) < 0) {
        return MC_OK;
    }
    (void)pthread_mutex_lock(&shm->listen_lock);
    (void)pthread_mutex_lock(&shm->lock);
    bool has_poller = shm_poller(shm) != NULL;
    (void)pthread_mutex_unlock(&shm->lock);
    bool listens = shm->listen_fd >= 0 || (has_poller && begin_listening(shm));
    (void)pthread_mutex_unlock(&shm->listen_lock);
    if (listens) {
        memcpy(exposed->shm, shm->name, sizeof exposed->shm);
    }
    return MC_OK;
}

/* ---- endings ----------------------------------------------------------- */

struct concealing {
    struct shm_state *shm;
    uint64_t registration; /* 0: all */
};

/* Whoever is still inside writes into memory that is given up, and no fence is
 * asked for it any more. */
static void drop_peers(void *ctx)
{
    struct concealing *concealing = ctx;
    struct mci_link *head = &concealing->shm->peers;
    struct mci_link *at = head->next;
    while (at != head) {
        struct peer *peer = MCI_CONTAINER(at, struct peer, link);
        at = at->next;
        if (concealing->registration == 0 ||
            peer->registration == concealing->registration) {
            free_peer(peer);
        }
    }
}

void shm_owner_conceal(struct shm_state *shm, struct mci_exposed *exposed)
{
    struct concealing concealing = {shm, exposed->registration};
    if (exposed->shm[0]) {
        shm_run_on_poller(shm, drop_peers, &concealing);
    }
}

void shm_owner_close(struct shm_state *shm)
{
    struct concealing all = {shm, 0};
    drop_peers(&all);
    if (shm->listen_fd >= 0) {
        mci_poller_remove(shm->poller, &shm->listen_watch);
        (void)close(shm->listen_fd);
        shm->listen_fd = -1;
    }
}

bool shm_owner_scan(void *ctx, uint64_t now_ns, struct mci_stuck_list *stuck)
{
    struct shm_state *shm = ctx;
    const struct mci_board_page *board = mci_board_page(shm->transfer->board);
    bool has_room = true;
    (void)pthread_mutex_lock(&shm->lock);
    for (struct mci_link *at = shm->peers.next; at != &shm->peers && has_room;
         at = at->next) {
        struct peer *peer = MCI_CONTAINER(at, struct peer, link);
        size_t before = stuck->count;
        if (has_left(peer)) {
            continue;
        }
        has_room = mci_gate_scan(&peer->page->gate, board, now_ns, stuck);
        if ((!has_room || stuck->count > before) &&
            shm_is_process_dead(peer->pidfd)) {
            stuck->count = before;
            has_room = true;
        }
    }
    (void)pthread_mutex_unlock(&shm->lock);
    return has_room;
}
