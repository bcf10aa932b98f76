/* SPDX-License-Identifier: Apache-2.0 */
/* mc_object.h - what is said of an object: how to store it, what a question
 * answers, what a list shows.
 *
 * Plain structs that both ends of a store use; who fills them and how long their
 * pointers live is said by the calls that take them.
 */
#ifndef MC_OBJECT_H
#define MC_OBJECT_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_limits.h"
#include "mc_medium.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MC_NONE \
    UINT64_MAX /* where 0 means the default: really none, really 0 */

enum mc_soft_pin_action {
    MC_SOFT_PIN_PRESERVE = 0,
    MC_SOFT_PIN_ENABLE = 1,
    MC_SOFT_PIN_DISABLE = 2
};

enum mc_data_type {
    MC_DATA_UNKNOWN = 0,
    MC_DATA_KVCACHE = 1,
    MC_DATA_TENSOR = 2,
    MC_DATA_WEIGHT = 3,
    MC_DATA_SAMPLE = 4,
    MC_DATA_ACTIVATION = 5,
    MC_DATA_GRADIENT = 6,
    MC_DATA_OPTIMIZER_STATE = 7,
    MC_DATA_METADATA = 8,
    MC_DATA_GENERAL = 9
};

/* How to store; NULL or all zero = one copy in memory, no pin, no tag. All
 * pointers are borrowed for the call. */
struct mc_replicate_config {
    uint32_t replica_num; /* 0 = 1; copies on distinct clients, best effort */
    uint32_t nof_replica_num; /* not built: over 0 answers -600 */
    uint32_t dfs_replica_num; /* not built: over 0 answers -1601 */
    enum mc_soft_pin_action soft_pin_action;
    uint64_t soft_pin_ttl_ms; /* with ENABLE only; 0 = the default,
                                 MC_NONE = 0 ms, an ordinary object */
    bool with_hard_pin;       /* never evicted */
    enum mc_data_type data_type;
    const char *preferred_segment;
    const char *const *preferred_segments;
    size_t preferred_segment_count;
    bool prefer_alloc_in_same_node;
    const struct mc_view *group_ids; /* one per key, none or empty: ungrouped */
    size_t group_id_count;
    const struct mc_view
        *session_ids; /* one per key, none or empty: untagged */
    size_t session_id_count;
    bool complete; /* of put sessions: an end with holes is refused */
    bool checksum; /* a sum per 64 KiB, looked at by reads; docs/checksums.md */
};

/* Memory of the caller. */
struct mc_span {
    void *data;
    size_t len;
};

enum mc_object_state {
    MC_OBJECT_ABSENT = 0,
    MC_OBJECT_WRITING = 1, /* a write is open, nothing is readable */
    MC_OBJECT_READABLE = 2
};

struct mc_probe {
    enum mc_object_state state;
    unsigned media; /* mask of enum mc_medium; all below: readable only */
    uint64_t size;
    uint64_t version;   /* differs between any two versions of a key */
    uint64_t lease_ms;  /* true time left of its anonymous lease */
    size_t session_len; /* 0: untagged */
    char session[MC_SESSION_ID_LEN_MAX];
};

/* A readable object as a list shows it; views are valid during the call. */
struct mc_object_row {
    struct mc_view tenant_id;
    struct mc_view key;
    struct mc_view group_id;   /* none: ungrouped */
    struct mc_view session_id; /* none: untagged */
    unsigned media;
    uint64_t size;
    uint64_t version;
    uint64_t last_event_id; /* newest event of this key's media */
};

#ifdef __cplusplus
}
#endif
#endif
