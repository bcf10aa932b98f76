/* SPDX-License-Identifier: Apache-2.0 */
/* mci_control.h - what clients and master say to each other, as bytes.
 *
 * A frame is a length (u32, little endian, of what follows) and one msgpack
 * array. A request is [version, op, slot, number, time_left_ms, client,
 * incarnation, epoch, tenant or nil, args], its answer [version, slot, number, code, result];
 * all positional, with bounds, read by the strict reader. A slot has one request
 * outstanding; a request that is sent again keeps slot and number (SAFETY C).
 *
 * Writing goes onto a pack with a sticky error. Reading goes value by value
 * from an unpack with a sticky error, rows one at a time, so that neither side
 * needs memory for a whole batch: read the head, then each row, then
 * mci_unpack_done. Texts are borrowed from the frame. docs/protocol.md is the
 * contract.
 * Threads: one thread at a time per pack or unpack. Pure.
 */
#ifndef MCI_CONTROL_H
#define MCI_CONTROL_H
#include "mci_pack.h"
#include "mci_row.h"
#include "mci_unpack.h"

#define MCI_CONTROL_VERSION 2
#define MCI_FRAME_HEAD 4
#define MCI_SLOTS_MAX 256
#define MCI_NAME_LEN_MAX 255 /* of clients, hosts, segments, endpoints */
#define MCI_PREFERRED_MAX 16 /* segments in a config */
#define MCI_SEGMENTS_ASKED_MAX 4096
#define MCI_FENCES_MAX 4096 /* in one heartbeat answer; the rest later */
#define MCI_REGEX_LEN_MAX 4096

enum mci_op {
    MCI_OP_HELLO = 1,     /* a connection begins; slot 0, number 0 */
    MCI_OP_GOODBYE = 2,   /* the client leaves; its segments go at once */
    MCI_OP_HEARTBEAT = 3, /* on a connection of its own */
    MCI_OP_CANCEL = 4,    /* the empty request: the one before it in this slot
                             was given up unanswered, and can do nothing more */
    MCI_OP_SEGMENT_MOUNT = 10,
    MCI_OP_SEGMENT_UNMOUNT = 11,
    MCI_OP_SEGMENT_STATUS = 12,
    MCI_OP_SEGMENT_GET = 13,
    MCI_OP_PUT_START = 20,
    MCI_OP_UPSERT_START = 21,
    MCI_OP_PUT_END = 22,
    MCI_OP_PUT_REVOKE = 23,
    MCI_OP_ATTEMPT_FATE = 24,
    MCI_OP_ATTEMPT_TOUCH = 25,
    MCI_OP_GET = 30,
    MCI_OP_EXIST = 31,
    MCI_OP_GET_SIZE = 32,
    MCI_OP_PROBE = 33,
    MCI_OP_RENEW_LEASE = 34,
    MCI_OP_RELEASE_LEASE = 35,
    MCI_OP_REMOVE = 40,
    MCI_OP_REMOVE_BY_REGEX = 41,
    MCI_OP_REMOVE_ALL = 42,
    MCI_OP_REPLICA_CLEAR = 43,
    MCI_OP_LIST = 50,
    MCI_OP_STAT = 51
};

/* Changes something, so that its answer is kept and it is never done twice. */
bool mci_op_mutates(enum mci_op op);
const char *mci_op_name(enum mci_op op); /* "put_start"; "unknown" */

/* ---- frames ------------------------------------------------------------ */

struct mci_request {
    uint32_t version;
    enum mci_op op; /* any number; unknown ones are for the reader to refuse */
    uint32_t slot;  /* below MCI_SLOTS_MAX */
    uint64_t number;
    uint32_t time_left_ms; /* the caller's patience when it was sent */
    uint32_t client;       /* 0 before hello was answered */
    uint64_t incarnation;
    uint64_t epoch;
    struct mc_view tenant; /* none: "default" */
};

struct mci_answer {
    uint32_t version;
    uint32_t slot;
    uint64_t number;
    enum mc_err code;
};

/* Writes room for the length and all but the args, which follow as one value;
 * returns where the frame begins, for mci_frame_finish, which fills in the
 * length. */
size_t mci_request_begin(struct mci_pack *pack,
                         const struct mci_request *request);
/* As that, with the result in place of the args. */
size_t mci_answer_begin(struct mci_pack *pack, const struct mci_answer *answer);
/* Errors: those of the pack; MC_ERR_INVALID_PARAMS (over MC_MESSAGE_LEN_MAX). */
MC_CHECK_RESULT enum mc_err mci_frame_finish(struct mci_pack *pack, size_t at);
/* Sets another code in an answer that has been begun at `at`. Every code takes
 * the same number of bytes. */
void mci_answer_recode(struct mci_pack *pack, size_t at, enum mc_err code);

/* Of a frame without its length. Next to read: args, or the result. A request of
 * another version is read as far as its slot and number, and `version` says
 * which it is; then the unpack is at fault (RANGE). The result of a refused
 * request is nil, but for hello. */
void mci_request_read(struct mci_unpack *unpack, struct mci_request *request);
void mci_answer_read(struct mci_unpack *unpack, struct mci_answer *answer);

/* ---- life -------------------------------------------------------------- */

enum mci_role { MCI_ROLE_CALLS = 0, MCI_ROLE_HEARTBEAT = 1 };

/* args of hello. A connection that belongs to a client already known carries its
 * client and incarnation in the request; the first one of an incarnation has
 * client 0, and its answer brings the number. */
struct mci_hello {
    uint32_t version_min;
    uint32_t version_max;
    enum mci_role role;
    uint64_t incarnation;    /* random, of this life of the client */
    struct mc_view name;     /* host:port; none: a client that lends nothing */
    struct mc_view host_id;  /* of the machine */
    struct mc_view software; /* "mckv 0.2.0" */
    struct mc_view tenant;   /* checked at once; none: "default" */
};

/* result of hello, also with another version (code -1012, client 0). */
struct mci_welcome {
    uint32_t version_min;
    uint32_t version_max;
    uint64_t epoch;
    uint32_t client;
    uint32_t client_ttl_ms;
    uint32_t heartbeat_ms;
    struct mc_view software;
};

void mci_hello_pack(struct mci_pack *pack, const struct mci_hello *hello);
void mci_hello_unpack(struct mci_unpack *unpack, struct mci_hello *hello);
void mci_welcome_pack(struct mci_pack *pack, const struct mci_welcome *welcome);
void mci_welcome_unpack(struct mci_unpack *unpack, struct mci_welcome *welcome);

/* An open attempt as its writer knows it. */
struct mci_known_attempt {
    uint64_t number;
    uint64_t age_ms;    /* since its last range call */
    struct mc_view key; /* none while it is young: then it is not touched */
};

/* One attempt that a peer is still inside of, though fenced. */
struct mci_stuck {
    uint64_t attempt;
    uint64_t incarnation; /* of the peer */
};

/* args of heartbeat: [clock_ns, fences_done, [slot numbers], [known attempts],
 * [stuck]]; arrays are written from and read into the caller's memory. */
struct mci_heartbeat {
    uint64_t clock_ns;     /* the sender's CLOCK_BOOTTIME */
    uint64_t fences_done;  /* all fences up to this number are carried out, but
                             for what is stuck */
    const uint64_t *slots; /* last number used, per slot */
    uint32_t slot_count;
    const struct mci_known_attempt *attempts;
    uint32_t attempt_count;
    const struct mci_stuck *stuck;
    uint32_t stuck_count;
};
struct mci_heartbeat_room {
    uint64_t slots[MCI_SLOTS_MAX];
    struct mci_known_attempt *attempts; /* MC_ATTEMPTS_MAX of them */
    struct mci_stuck *stuck;            /* MC_ATTEMPTS_MAX of them */
};
void mci_heartbeat_pack(struct mci_pack *pack,
                        const struct mci_heartbeat *heartbeat);
void mci_heartbeat_unpack(struct mci_unpack *unpack,
                          struct mci_heartbeat_room *room,
                          struct mci_heartbeat *heartbeat);

/* A write grant that was made anew. */
struct mci_renewal {
    uint64_t attempt;
    uint32_t place_count;
    struct mc_grant grants[MCI_REPLICAS_MAX];
};

/* result of heartbeat: [[fence...], [closed attempt...], [renewal...]]. */
struct mci_pulse {
    const struct mc_fence *fences;
    uint32_t fence_count;
    const uint64_t *closed; /* attempts that the master has closed in doubt */
    uint32_t closed_count;
    const struct mci_renewal *renewals;
    uint32_t renewal_count;
};
struct mci_pulse_room {
    struct mc_fence *fences;      /* MCI_FENCES_MAX */
    uint64_t *closed;             /* MC_ATTEMPTS_MAX */
    struct mci_renewal *renewals; /* MC_ATTEMPTS_MAX */
};
void mci_pulse_pack(struct mci_pack *pack, const struct mci_pulse *pulse);
void mci_pulse_unpack(struct mci_unpack *unpack, struct mci_pulse_room *room,
                      struct mci_pulse *pulse);

/* ---- segments ---------------------------------------------------------- */

enum mci_segment_status { /* as in the published table */
                          MCI_SEGMENT_UNDEFINED = 0,
                          MCI_SEGMENT_OK = 1,
                          MCI_SEGMENT_DRAINING = 2,
                          MCI_SEGMENT_DRAINED = 3,
                          MCI_SEGMENT_GRACEFULLY_UNMOUNTING = 4,
                          MCI_SEGMENT_UNMOUNTING = 5
};

/* args of segment_mount; result: the segment's number. */
struct mci_mount {
    uint64_t id[2]; /* the owner's; the same again answers the same */
    uint64_t registration;
    uint8_t key[MC_GRANT_KEY_LEN];
    uint64_t bytes;
    uint64_t base;           /* address in the owner, for descriptors */
    struct mc_view name;     /* a label: the owner's host:port */
    struct mc_view endpoint; /* where its bytes are served; none: nowhere */
    struct mc_view shm;      /* name of its Unix socket; none: not offered */
    struct mc_view protocol; /* "tcp" */
};
void mci_mount_pack(struct mci_pack *pack, const struct mci_mount *mount);
void mci_mount_unpack(struct mci_unpack *unpack, struct mci_mount *mount);

/* args of segment_unmount: [segment, grace_ms]; of segment_status: [segment],
 * result: a status. */
void mci_unmount_pack(struct mci_pack *pack, uint32_t segment,
                      uint64_t grace_ms);
void mci_unmount_unpack(struct mci_unpack *unpack, uint32_t *segment_out,
                        uint64_t *grace_ms_out);

/* A row of the result of segment_get, whose args are [number...] (none: all);
 * nil for a segment that is not mounted. */
struct mci_segment_row {
    uint32_t segment;
    uint32_t client;
    uint64_t incarnation; /* of the owner */
    uint64_t registration;
    uint64_t id[2];
    uint64_t bytes;
    uint64_t used_bytes;
    uint64_t base;
    enum mci_segment_status status;
    struct mc_view name;
    struct mc_view endpoint;
    struct mc_view shm;
    struct mc_view protocol;
    struct mc_view host_id;
};
void mci_segment_row_pack(struct mci_pack *pack,
                          const struct mci_segment_row *row); /* NULL: nil */
/* False: nil, or a fault. */
bool mci_segment_row_unpack(struct mci_unpack *unpack,
                            struct mci_segment_row *row);

/* ---- writing ----------------------------------------------------------- */

/* A config as read, with the memory its pointers need. */
struct mci_config_room {
    struct mc_replicate_config config;
    const char *preferred[MCI_PREFERRED_MAX];
    char names[MCI_PREFERRED_MAX + 1][MCI_NAME_LEN_MAX + 1];
};

/* args of put_start and upsert_start: [config or nil, [row...]]. A config
 * travels without its vectors, whose entries are in the rows: [key, size,
 * session or nil, group or nil]. */
void mci_start_pack(struct mci_pack *pack,
                    const struct mc_replicate_config *config,
                    const struct mci_write_row *rows, size_t count);
/* Returns the count of rows; *config_out points into room, or is NULL. */
uint32_t mci_start_unpack(struct mci_unpack *unpack,
                          struct mci_config_room *room,
                          const struct mc_replicate_config **config_out);
void mci_start_row_unpack(struct mci_unpack *unpack, struct mci_write_row *row);

/* result: [row...]; a row is a code below 0, or [number, [[segment, offset,
 * deadline_ns, tag]...]]. The attempt's epoch is the master's. */
void mci_rows_pack(struct mci_pack *pack,
                   size_t count);                    /* head of any result */
uint32_t mci_rows_unpack(struct mci_unpack *unpack); /* its count */
void mci_started_pack(struct mci_pack *pack, const struct mci_write_row *row);
void mci_started_unpack(struct mci_unpack *unpack, uint64_t epoch,
                        struct mci_write_row *row);

/* args of put_end and put_revoke: [[key, number, in_doubt, [receipt...]]...];
 * result: [code...]. Rows without an attempt must not be sent. */
void mci_end_row_pack(struct mci_pack *pack, const struct mci_write_row *row);
void mci_end_row_unpack(struct mci_unpack *unpack, uint64_t epoch,
                        struct mci_write_row *row);

/* ---- keys -------------------------------------------------------------- */

/* args of get, exist, get_size, probe: [key...]; of a get whose rows take leases
 * with names: [true, [key...]]; of remove: [force, [key...]];
 * of remove_by_regex: [force, regex]; of remove_all: a bool, force; of
 * replica_clear: [segment, [key...]]; of attempt_touch: [[key, number]...]; of
 * attempt_fate: [number...], result [fate...]. The result of remove_by_regex and
 * remove_all is a count, also with code -901.
 *
 * Keys, ids, tenants and expressions are judged by whoever executes the request,
 * so they are read as bytes of any kind; what is too long is sent and read as
 * one byte over its limit. */
void mci_keys_pack(struct mci_pack *pack, const struct mc_view *keys,
                   size_t count);
struct mc_view mci_key_unpack(struct mci_unpack *unpack);

/* The head of the args of get; count keys follow. */
void mci_reads_pack(struct mci_pack *pack, bool is_named, size_t count);
uint32_t mci_reads_unpack(struct mci_unpack *unpack, bool *is_named_out);

void mci_remove_pack(struct mci_pack *pack, bool force,
                     const struct mc_view *keys, size_t count);
/* The count; the keys follow. */
uint32_t mci_remove_unpack(struct mci_unpack *unpack, bool *force_out);
void mci_regex_pack(struct mci_pack *pack, bool force, struct mc_view regex);
struct mc_view mci_regex_unpack(struct mci_unpack *unpack, bool *force_out);
void mci_clear_pack(struct mci_pack *pack, uint32_t segment,
                    const struct mc_view *keys, size_t count);
/* The count; the keys follow. */
uint32_t mci_clear_unpack(struct mci_unpack *unpack, uint32_t *segment_out);
/* One row; mci_rows_pack and mci_rows_unpack come first. */
void mci_touch_row_pack(struct mci_pack *pack, struct mc_view key,
                        uint64_t number);
struct mc_view mci_touch_row_unpack(struct mci_unpack *unpack,
                                    uint64_t *number_out);

/* `marks` of a version that is read: the mask of its media, and 64 if it has
 * sums.
 *
 * A row of the result of get: a code below 0, or [size, version, marks,
 * lease_left_ns, [[segment, offset, deadline_ns, tag]...]]; with a named lease its
 * number and ref come behind that. The lease's epoch is the master's. */
void mci_read_row_pack(struct mci_pack *pack, const struct mci_read_row *row);
void mci_read_row_unpack(struct mci_unpack *unpack, struct mci_read_row *row);

/* args of renew_lease and release_lease: [[number, ref, version]...]; a row of the
 * result of renew_lease: a code below 0, or [size, marks, lease_left_ns,
 * [[segment, offset, deadline_ns, tag]...]]; of release_lease: a code. */
void mci_lease_row_pack(struct mci_pack *pack, const struct mci_read_row *row);
void mci_lease_row_unpack(struct mci_unpack *unpack, uint64_t epoch,
                          struct mci_read_row *row);
void mci_renewed_pack(struct mci_pack *pack, const struct mci_read_row *row);
/* Lease and version of the row stay as they are. */
void mci_renewed_unpack(struct mci_unpack *unpack, struct mci_read_row *row);

/* A row of the result of probe: a code below 0, or [state, media, size, version,
 * lease_ms, session or nil]. */
void mci_probe_pack(struct mci_pack *pack, const struct mc_probe *probe,
                    int64_t result);
int64_t mci_probe_unpack(struct mci_unpack *unpack, struct mc_probe *probe);

/* Rows of exist, get_size, remove, end...: one integer each. */
void mci_results_pack(struct mci_pack *pack, const int64_t *results,
                      size_t count);
/* Without the head, for results that come in slices after mci_rows_pack. */
void mci_results_more(struct mci_pack *pack, const int64_t *results,
                      size_t count);
int64_t mci_result_unpack(struct mci_unpack *unpack);

/* ---- lists and figures ------------------------------------------------- */

/* args of list: [shard, tag, is_all]; result: [shard, tag, at_end, [row...]].
 * A row: [tenant, key, group or nil, session or nil, media, size, version,
 * last event id, id of cpu, id of disk]. */
struct mci_list_head {
    uint32_t shard;
    uint32_t tag;
    bool at_end; /* result only */
    bool is_all; /* args only: of all tenants, not of the request's */
};
void mci_list_args_pack(struct mci_pack *pack,
                        const struct mci_list_head *head);
void mci_list_args_unpack(struct mci_unpack *unpack,
                          struct mci_list_head *head);
void mci_list_pack(struct mci_pack *pack, const struct mci_list_head *head,
                   size_t count);
uint32_t mci_list_unpack(struct mci_unpack *unpack, struct mci_list_head *head);
void mci_object_row_pack(struct mci_pack *pack, const struct mc_object_row *row,
                         const uint64_t media_ids[MC_MEDIUM_COUNT]);
void mci_object_row_unpack(struct mci_unpack *unpack, struct mc_object_row *row,
                           uint64_t media_ids_out[MC_MEDIUM_COUNT]);

/* result of stat: counters by position and two endpoints; a longer array is
 * read as far as it is known. */
#define MCI_STAT_WORDS_MAX 64
struct mci_stat_words {
    uint64_t words[MCI_STAT_WORDS_MAX]; /* the store says which is which */
    uint32_t count;
    struct mc_view events_endpoint; /* none: no events */
    struct mc_view recovery_endpoint;
};
void mci_stat_pack(struct mci_pack *pack, const struct mci_stat_words *stat);
void mci_stat_unpack(struct mci_unpack *unpack, struct mci_stat_words *stat);
#endif
