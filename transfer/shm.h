/* SPDX-License-Identifier: Apache-2.0 */
/* shm.h - both sides of shared memory.
 *
 * The owner listens on an abstract Unix socket of a random name. A peer connects
 * once per target, says which registration, and gets three descriptors: the
 * segment, the owner's board (read only), and a control page of its own with its
 * gate. The socket then stays open and says nothing: its end tells the peer that
 * the registration is no more, and the owner that the peer has left, once the
 * page says so or the peer's process is dead. Both are of one user, and each
 * knows the other's process by a pidfd; where that cannot be had, or the two have
 * different clocks, there is no shm.
 *
 * Threads: a poller of its own watches sockets and processes; a lock guards the
 * lists and counts. Mappings are counted.
 */
#ifndef SHM_H
#define SHM_H
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "engine.h"
#include "mci_list.h"
#include "mci_poller.h"
#include "target.h"

#define SHM_MAGIC UINT64_C(0x31306d6873766b6d) /* and version */
#define SHM_PEERS_MAX 1024
#define SHM_WAITING_MAX 64 /* connected, nothing said yet */
#define SHM_HELLO_NS (UINT64_C(2) * 1000000000) /* for all of a handshake */
#define SHM_CLOCK_SLACK_NS UINT64_C(1000000)
#define SHM_CHUNK_BYTES UINT64_C(0x200000) /* pages are made ready by */

/* Messages are words in the order of this machine. */
enum { HELLO_MAGIC, HELLO_REGISTRATION, HELLO_WORDS };
enum {
    WELCOME_MAGIC,
    WELCOME_CLOCK_NS,
    WELCOME_BYTES,
    WELCOME_FD_OFFSET,
    WELCOME_MAP_BYTES,
    WELCOME_GENERATION_OFFSET,
    WELCOME_GENERATION,
    WELCOME_KEY,
    WELCOME_WORDS = WELCOME_KEY + MC_GRANT_KEY_LEN / 8
};
enum { SHM_FD_SEGMENT, SHM_FD_BOARD, SHM_FD_PAGE, SHM_FDS };

/* One per peer and registration; the peer writes. */
struct shm_page {
    uint64_t magic;
    _Atomic uint64_t has_left; /* the mapping is gone */
    uint8_t space[48];
    struct mci_gate gate;
};

struct shm_state {
    struct mc_transfer *transfer;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t reached;
    struct mci_poller *poller; /* made when needed */
    /* owner; listen_lock is for who begins to listen, taken before lock */
    pthread_mutex_t listen_lock;
    int listen_fd;      /* -1: nothing was exposed yet */
    uint64_t paused_ns; /* since when nothing is accepted; 0: it is */
    struct mci_watch listen_watch;
    char name[64]; /* without the NUL that abstract names begin with */
    struct mci_link peers;
    uint32_t peer_count;
    uint32_t waiting_count;
    /* peer */
    struct mci_link mappings;
};

/* A registration of somebody else, mapped here. */
struct shm_mapping {
    struct mci_link link;
    struct shm_state *shm;
    struct mc_target *target; /* NULL once it is no longer kept there */
    uint32_t refs;            /* guarded by shm->lock */
    _Atomic int is_dead;      /* the owner closed the socket, or died */
    uint8_t *map;
    uint64_t map_bytes;
    uint8_t *base;
    struct mci_granter granter;
    uint8_t key[MC_GRANT_KEY_LEN];
    _Atomic uint64_t *generation;
    uint64_t generation_was;
    struct mci_board_page *board;
    struct shm_page *page;
    struct mci_closed *closed; /* spent by this process */
    _Atomic uint64_t *touched; /* a bit per chunk of the map */
    int fd;
    int pidfd;
    bool is_watched; /* the poller's thread alone */
    struct mci_watch watch;
    struct mci_watch death;
    struct mci_task watch_task;
    struct mci_task drop_task;
};

/* The poller, made when first asked for; NULL if it cannot be. The lock is
 * held. */
struct mci_poller *shm_poller(struct shm_state *shm);
/* Runs a task on the poller's thread and waits for it. */
void shm_run_on_poller(struct shm_state *shm, void (*run)(void *ctx),
                       void *ctx);
/* The abstract address of a name, with its length. */
socklen_t shm_address(const char *name, struct sockaddr_un *address_out);

/* Of whom a connected socket leads to: same user, and the process as a pidfd. -1
 * where not. */
int shm_know_process(int fd);
bool shm_is_process_dead(int pidfd);

/* shm_owner.c */
enum mc_err shm_owner_expose(struct shm_state *shm,
                             struct mci_exposed *exposed);
void shm_owner_conceal(struct shm_state *shm, struct mci_exposed *exposed);
bool shm_owner_scan(void *ctx, uint64_t now_ns, struct mci_stuck_list *stuck);
uint64_t shm_owner_turn(struct shm_state *shm, uint64_t now_ns);
void shm_owner_close(struct shm_state *shm); /* on the poller's thread */

/* shm_peer.c */
enum mc_err shm_peer_reach(struct shm_state *shm, struct mc_target *target,
                           uint64_t deadline_ns);
void shm_peer_forget(struct shm_state *shm, struct mc_target *target);
void shm_peer_close(struct shm_state *shm); /* on the poller's thread */
struct shm_mapping *shm_mapping_hold(struct shm_state *shm,
                                     struct mc_target *target);
void shm_mapping_release(struct shm_mapping *mapping);

/* shm_dial.c: connects, shakes hands, maps. Errors: MC_ERR_RPC_TIMEOUT (the
 * caller's deadline), MC_ERR_TRANSFER_FAIL, MC_ERR_NOMEM. */
enum mc_err shm_dial(const struct mc_target *target, uint64_t deadline_ns,
                     struct shm_mapping **mapping_out);
void shm_mapping_unmap(struct shm_mapping *mapping); /* and frees */
#endif
