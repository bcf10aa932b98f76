/* SPDX-License-Identifier: Apache-2.0 */
/* index_walk.h - what the asking calls share: names kept for the caller,
 * climbing by stretches, rows of places that are counted down a chain.
 *
 * Threads: each reader by itself, the writer changing things meanwhile.
 */
#ifndef INDEX_WALK_H
#define INDEX_WALK_H
#include "index.h"

/* A place, and how many blocks of a chain it holds from the first on. */
struct index_row {
    uint32_t place;
    bool is_over; /* a block was not held */
    const struct index_name *name;
    uint64_t blocks;
    uint64_t prefix;
};

/* An engine's slot: over its own tiers, and over them and the stores. */
struct index_worker {
    uint32_t slot;
    bool is_own_over;
    bool is_over;
    const struct index_name *name;
    uint64_t own;
    uint64_t with_store;
};

struct mc_index_reader {
    struct mc_index *ix;
    struct index_seat *seat;
    struct index_row *rows;   /* row_cap: as many places as a set can hold */
    struct index_row *totals; /* as many */
    struct index_worker *workers;
    uint32_t row_cap;
    uint32_t row_count;
    uint32_t worker_count;
    char *names; /* copies that answers point to */
    size_t names_len;
    size_t names_cap;
    void *old_names; /* buffers filled for the same answer, linked */
    uint32_t *nodes; /* a chain, last first */
    size_t node_cap;
    uint32_t *seen; /* nodes counted already, open addressing */
    size_t seen_cap;
};

/* Every asking call stands between the two; begin forgets kept names. */
void index_reader_begin(struct mc_index_reader *reader);
void index_reader_end(struct mc_index_reader *reader);

/* Copies a name for the caller; a none view, and false, without memory. */
bool index_reader_keep(struct mc_index_reader *reader,
                       const struct index_name *name, struct mc_view *view_out);

uint64_t index_where(const struct mc_index *ix, uint32_t node);
/* The session asked about, touched; NULL if there is none. */
struct index_session *index_session_of(struct mc_index_reader *reader,
                                       struct mc_view tenant,
                                       struct mc_view name);

/* The part of a node's chain that lies in its run, as of some moment. */
struct index_stretch {
    const struct index_ids *ids; /* NULL: the node is alone */
    const struct index_run *run;
    uint32_t pos; /* of the node */
};
/* False if the node was freed meanwhile. */
bool index_stretch_of(const struct mc_index *ix, uint32_t node,
                      struct index_stretch *stretch_out);
uint32_t index_stretch_node(const struct index_stretch *stretch, uint32_t node,
                            uint32_t pos);
uint32_t index_stretch_parent(const struct index_stretch *stretch);

/* Rows of all places that hold a chain's first block. */
void index_rows_begin(struct mc_index_reader *reader, uint32_t id);
/* `at` blocks have been held by every row that is not over; those that the next
 * block's set lacks are over. Returns how many are not. */
uint32_t index_rows_step(struct mc_index_reader *reader, uint32_t id,
                         uint64_t at);
/* All rows that are not over held `count` blocks. */
void index_rows_end(struct mc_index_reader *reader, uint64_t count);
const struct index_name *index_slot_name(const struct mc_index *ix,
                                         uint32_t slot);
int index_name_compare(const struct index_name *a, const struct index_name *b);
/* By name and tier. */
void index_rows_sort(struct index_row *rows, size_t count);
#endif
