/* SPDX-License-Identifier: Apache-2.0 */
/* registry_parts.h - the inside of a registry: members, segments, books, doubts.
 *
 * A member is living, then leaving (its keys are taken out in slices), then
 * fencing (its ranges in quarantine wait for their proofs), then gone, when its
 * client number may be used again. Two kinds of locks: the registry's, for all
 * tables, segments, doubts and fences; and one per member for its book of open
 * attempts. Neither is taken while the other is held, and both come before the
 * core's: it never calls back. Under them it is called only for what is short
 * (clients, segments, single attempts, what is newly in doubt); slices, and all
 * that may wait for the event log, are done without.
 * Threads: any thread.
 */
#ifndef REGISTRY_PARTS_H
#define REGISTRY_PARTS_H
#include <pthread.h>
#include <stdatomic.h>

#include "mci_clock.h"
#include "mci_list.h"
#include "mci_map.h"
#include "numbers.h"
#include "registry.h"

/* Misses of this many heartbeats are forgiven. */
#define MCI_MISSES 2
#define MCI_PAST_MAX 65536 /* expired incarnations that are remembered */
#define MCI_SLICE_ROWS 64  /* attempts, doubts or proofs at a time */

/* ---- books ------------------------------------------------------------- */

/* An open attempt; indexes in the book, 0: none. */
struct mci_entry {
    uint64_t number;
    uint64_t ref;
    uint64_t bytes;      /* of each copy */
    uint64_t until_ns;   /* its last grant ends then */
    uint64_t touched_ns; /* last range call that was heard of */
    uint64_t request;    /* which opened it, in slot */
    uint64_t heard;      /* serial of the last heartbeat that listed it */
    struct mci_place places[MCI_REPLICAS_MAX];
    uint32_t place_count;
    uint32_t slot;
    uint32_t prev; /* of the slot, newest first */
    uint32_t next; /* likewise; or in the list of unused ones */
};

struct mci_book {
    struct mci_numbers index; /* number to entry */
    struct mci_entry *entries;
    uint32_t capacity;
    uint32_t touched; /* entries ever used */
    uint32_t unused;
    uint32_t first[MCI_SLOTS_MAX];
    uint64_t heartbeats; /* serial */
    bool is_closed;      /* its member is gone: nothing is entered any more */
};

void mci_book_fini(struct mci_book *book);
/* Sees to room for more entries. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_book_reserve(struct mci_book *book,
                                             size_t more);
/* In room that was reserved; slot and number are set. */
struct mci_entry *mci_book_add(struct mci_book *book, uint64_t number,
                               uint32_t slot);
struct mci_entry *mci_book_find(const struct mci_book *book, uint64_t number);
void mci_book_remove(struct mci_book *book, struct mci_entry *entry);

/* ---- members ----------------------------------------------------------- */

enum mci_stage {
    MCI_STAGE_LIVING = 0,
    MCI_STAGE_LEAVING = 1,
    MCI_STAGE_FENCING = 2
};

/* What a member's clock showed in a heartbeat, and when that came. */
struct mci_clock_word {
    uint64_t clock_ns;
    uint64_t at_ns; /* of the master's */
};
#define MCI_CLOCK_WORDS 4 /* the latest ones */

struct mci_member {
    _Atomic uint32_t refs;
    struct mci_registry *registry;
    uint32_t client;
    uint64_t incarnation;
    char *name; /* owned; "" : none. Constant, as is host */
    char *host;
    /* guarded by registry->lock: */
    enum mci_stage stage;
    struct mci_link link; /* living: by last sign of life; hung up; going */
    bool is_hung_up;
    uint64_t seen_ns;
    uint64_t due_ns; /* hung up: gone then */
    bool has_clock;
    struct mci_clock_word clock; /* the best of words */
    struct mci_clock_word words[MCI_CLOCK_WORDS];
    uint32_t word_at;
    uint64_t fences_issued;
    uint64_t fences_told;
    uint64_t fences_done;
    uint64_t proofs;          /* serial of looking at its proofs */
    struct mci_link pending;  /* places in doubt on its segments */
    struct mci_link segments; /* its */
    struct mci_link covers;   /* fences against this incarnation */
    uint64_t doubts;          /* its attempts in quarantine */
    /* guarded by book_lock: */
    pthread_mutex_t book_lock;
    struct mci_book book;
};

/* One more reference. */
struct mci_member *mci_member_hold(struct mci_member *member);
/* The member of a client number in any stage, NULL if none. lock is held. */
struct mci_member *mci_member_at(const struct mci_registry *registry,
                                 uint32_t client);
/* A living member's life ends, by its silence or in good order; calls `expired`.
 * No lock may be held. */
void mci_member_end(struct mci_registry *registry, struct mci_member *member,
                    bool is_expired);

/* ---- segments ---------------------------------------------------------- */

struct mci_mounted {
    struct mci_link link;  /* of its owner */
    struct mci_link timed; /* in graced or unmounting; else alone */
    struct mci_member *owner;
    struct mci_mount mount; /* views point to texts */
    uint64_t grace_ns;      /* gracefully unmounting: until then */
    uint32_t id;
    enum mci_segment_status status;
    struct mci_segment_texts texts;
};

/* NULL if not mounted. lock is held. */
struct mci_mounted *mci_mounted_at(const struct mci_registry *registry,
                                   uint32_t segment);
/* Its bytes are given up: nothing in doubt there waits for a proof any more. lock
 * is held. */
void mci_mounted_close(struct mci_registry *registry,
                       struct mci_mounted *mounted);
void mci_mounted_free(struct mci_registry *registry,
                      struct mci_mounted *mounted);
/* The owner's clock is known now. lock is held. */
void mci_mounted_admit(struct mci_registry *registry, struct mci_member *owner);

/* ---- grants ------------------------------------------------------------ */

/* What a grant on a segment is made of, copied out under the lock. */
struct mci_grantor {
    uint8_t key[MC_GRANT_KEY_LEN];
    uint64_t registration;
    struct mci_clock_word clock;
    bool is_known; /* mounted, readable, and its owner's clock is known */
    bool is_gone;  /* not mounted, or given up */
};
void mci_grantor_get(const struct mci_registry *registry, uint32_t segment,
                     struct mci_grantor *grantor_out);
struct mc_grant mci_grantor_sign(const struct mci_grantor *grantor,
                                 struct mc_grant_terms *terms,
                                 uint64_t deadline_ns);
/* How long a write grant for so many bytes lasts. An owner whose clock stood still
 * for less than a client's ttl still lives, so that much is left to the longest. */
uint64_t mci_grant_ttl_ns(const struct mci_registry *registry, uint64_t bytes);

/* Grants of a write on these places, until deadline_ns of the master. */
void mci_grants_sign(struct mci_registry *registry,
                     const struct mci_member *member,
                     const struct mci_entry *entry, uint64_t deadline_ns,
                     struct mc_grant *grants_out);

/* Books hold what is open however old it is; fates are kept for the last so many
 * attempts. book_lock is held. */
bool mci_entry_is_open(const struct mci_registry *registry,
                       const struct mci_member *member,
                       const struct mci_entry *entry);

/* ---- doubts and fences -------------------------------------------------- */

struct mci_pending {
    struct mci_link link;     /* of the owner */
    struct mci_member *owner; /* counted; NULL: settled */
    struct mci_in_doubt *of;
    uint64_t fence;
    uint32_t segment;
    enum mc_fence_kind kind;
    bool is_carrier; /* the fence is told for its sake */
    bool is_stuck;
    uint64_t stuck_at; /* owner->proofs when it was last told as stuck */
};

struct mci_in_doubt {
    struct mci_link link; /* fresh, old, proven or spare */
    struct mci_doubt doubt;
    uint64_t incarnation;      /* of the writer; 0: not known */
    struct mci_member *writer; /* counted, or NULL */
    uint32_t left;             /* places without a proof */
    struct mci_pending places[MCI_REPLICAS_MAX];
};

/* A fence against a whole incarnation at one owner. */
struct mci_cover {
    struct mci_link link; /* of the incarnation's member */
    struct mci_member *owner;
    uint64_t fence;
};

/* Takes over what is newly in doubt, some at a time; false: there is more, or no
 * memory for it now. No lock may be held. */
bool mci_doubts_collect(struct mci_registry *registry);
/* Gives back what is proven, some at a time; false: there is more. Likewise. */
bool mci_doubts_release(struct mci_registry *registry);
/* An owner says how far it is. lock is held. */
void mci_doubts_prove(struct mci_registry *registry, struct mci_member *owner,
                      const struct mci_heartbeat *heartbeat);
/* Nothing on this segment (0: on any of the owner's) needs a proof. Likewise. */
void mci_doubts_let_go(struct mci_registry *registry, struct mci_member *owner,
                       uint32_t segment);
/* The fences to be told to an owner. Likewise. */
uint32_t mci_fences_tell(struct mci_member *owner, struct mc_fence *fences_out,
                         uint32_t max);
void mci_covers_drop(struct mci_member *member);
/* Reports what waits for longer than the release timeout. Likewise. */
void mci_doubts_report(struct mci_registry *registry, uint64_t now_ns);
void mci_doubts_fini(struct mci_registry *registry);

/* ---- registry ---------------------------------------------------------- */

struct mci_registry {
    struct mci_registry_opts opts;
    uint64_t ttl_ns;
    uint64_t heartbeat_ns;
    uint64_t release_ns;
    _Atomic uint64_t attempts;     /* in books */
    _Atomic uint64_t bad_receipts; /* ever */
    pthread_mutex_t lock;
    /* guarded by lock: */
    struct mci_member **members; /* by client number; counted */
    uint32_t member_max;         /* size of the array */
    struct mci_map names; /* of the living, and until `expired` returned */
    struct mci_map
        incarnations; /* to members; to PAST those that are expired */
    uint64_t *past;   /* ring of MCI_PAST_MAX */
    uint32_t past_at;
    struct mci_link living; /* by last sign of life */
    struct mci_link hung_up;
    struct mci_link leaving; /* in turns */
    struct mci_link fencing; /* likewise */
    uint64_t living_count;
    uint64_t expired_count;
    uint64_t left_count;    /* in good order */
    uint64_t away_until_ns; /* nobody is taken for silent before */
    struct mci_mounted *mounted[MCI_SEGMENTS_MAX];
    uint32_t mounted_count;
    struct mci_link graced;
    struct mci_link unmounting;
    struct mci_link fresh; /* in doubt, by since when */
    struct mci_link old;   /* reported */
    struct mci_link proven;
    struct mci_link spare;
    uint32_t spare_count;
    struct mci_numbers doubts; /* attempt to struct mci_in_doubt */
    uint64_t fences_open;
    uint64_t stuck;
};

static inline void mci_registry_lock(struct mci_registry *registry)
{
    (void)pthread_mutex_lock(&registry->lock);
}

static inline void mci_registry_unlock(struct mci_registry *registry)
{
    (void)pthread_mutex_unlock(&registry->lock);
}

/* Texts of a segment or member: short, UTF-8, without control characters. */
bool mci_text_is_sound(struct mc_view text);
#endif
