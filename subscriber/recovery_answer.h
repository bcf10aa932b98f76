/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_answer.h - what can be asked of a recovery server, as frames, and its
 * answers read strictly (docs/events.md, "The recovery server").
 *
 * An answer is read by the request it belongs to: what that kind of request
 * cannot be answered with is bad, as is a map with a name missing, twice, or of
 * another type. Names that are not known are walked and skipped. The numbers of
 * a snapshot's messages are told, not judged: their order is the caller's, and
 * so are the payloads of messages and rows, which mc_event_read reads.
 * Threads: pure functions, any thread. Nothing is allocated.
 */
#ifndef RECOVERY_ANSWER_H
#define RECOVERY_ANSWER_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_view.h"

enum asker_kind {
    ASKER_STATUS = 1, /* answered with STATUS, or END: refused */
    ASKER_REPLAY,     /* BATCH ..., END */
    ASKER_SNAPSHOT    /* SNAPSHOT_FIRST, _ROWS ..., _END; or END: refused */
};

struct asker_request {
    uint32_t source; /* whose recovery server */
    uint64_t number; /* the asker's own; open ones differ */
    enum asker_kind kind;
    uint64_t from_seq;     /* replay: the first message wanted */
    uint32_t credit;       /* replay: messages before more is granted; 0: all */
    struct mc_view tenant; /* snapshot; none: of all */
};

/* Frames to send, the delimiter first. Views are of `room` and of the request. */
#define ASKER_FRAMES_MAX 3
struct asker_frames {
    size_t count;
    struct mc_view frames[ASKER_FRAMES_MAX];
    uint8_t room[12];
};

/* False: no such kind, or a tenant that no server takes (empty, over
 * MC_TENANT_LEN_MAX, not UTF-8). */
bool asker_request_frames(const struct asker_request *request,
                          struct asker_frames *frames_out);
void asker_credit_frames(uint32_t credit, struct asker_frames *frames_out);

#define RECOVERY_FAULT_LIST(X)                                                \
    X(FRAME_COUNT, "frame_count")   /* of no answer to this request */        \
    X(WORD, "word")                 /* the first frame is not the word due */ \
    X(NUMBER_SIZE, "number_size")   /* a number that is not of 8 bytes */     \
    X(NUMBER, "number")             /* one that cannot stand here */          \
    X(PAYLOAD_SIZE, "payload_size") /* empty, or over the limit */            \
    X(MAP, "map")                   /* no map, cut, or bytes behind it */     \
    X(NAME, "name")                 /* one that is no UTF-8 str */            \
    X(DUPLICATE, "duplicate")                                                 \
    X(MISSING, "missing")                                                     \
    X(VALUE, "value") /* of another type, or out of bounds */

enum recovery_fault {
    RECOVERY_FAULT_NONE = 0,
#define RECOVERY_FAULT_ENUM_(name, text) RECOVERY_FAULT_##name,
    RECOVERY_FAULT_LIST(RECOVERY_FAULT_ENUM_)
#undef RECOVERY_FAULT_ENUM_
        RECOVERY_FAULT_COUNT_
};

/* Its name in lower case; "none" for 0, "unknown" beyond the list. */
const char *recovery_fault_name(enum recovery_fault fault);

enum recovery_answer_type {
    RECOVERY_ANSWER_BAD = 0,        /* fault */
    RECOVERY_ANSWER_BATCH,          /* topic, seq, payload */
    RECOVERY_ANSWER_END,            /* nothing comes any more */
    RECOVERY_ANSWER_SNAPSHOT_FIRST, /* index 0, epoch, first_id, tail_seq */
    RECOVERY_ANSWER_SNAPSHOT_ROWS,  /* index, payload */
    RECOVERY_ANSWER_SNAPSHOT_END,   /* index, epoch, last_id, tail_seq */
    RECOVERY_ANSWER_STATUS /* epoch, tail_seq, oldest_seq, last_id, keys,
                              backend_id */
};

/* What the type does not name is zero. Views are borrowed from the frames. */
struct recovery_answer {
    enum recovery_answer_type type;
    enum recovery_fault fault;
    struct mc_view topic; /* empty where the layout has none */
    uint64_t seq;
    struct mc_view payload;
    uint64_t index;
    uint64_t epoch;
    uint64_t first_id;
    uint64_t last_id;
    uint64_t tail_seq;
    uint64_t oldest_seq;
    uint64_t keys;
    struct mc_view backend_id;
};

/* Frames as they came, without the delimiter; none is an answer that was none,
 * and bad. */
void recovery_answer_read(enum asker_kind kind, const struct mc_view *frames,
                          size_t count, struct recovery_answer *answer_out);
#endif
