/* SPDX-License-Identifier: Apache-2.0 */
/* client_read.h - how objects come into memory, whatever call asked.
 *
 * A call has rows (objects); a row has pieces, most often one that is the whole
 * object. Asking the master answers where each object is and takes a lease; the
 * pieces are then moved, from the nearest copy first and from the next one where
 * that fails. What lands after the lease is over does not count. A row of which
 * no copy could be read is asked for once more, since what the master said may
 * have been out of date.
 * Threads: a reading by one thread.
 */
#ifndef CLIENT_READ_H
#define CLIENT_READ_H
#include "client_spans.h"

struct mci_piece {
    struct mci_part part;    /* its row: of the slice */
    struct mc_span *trimmed; /* or NULL: a list that was made */
    int64_t result;          /* bytes or a code, once it is done */
    bool is_done;
    bool is_alone; /* to be read in a run of its own */
    uint8_t place; /* it is, or was last, read from; its row's unless bad */
    uint8_t bad;   /* places whose bytes did not match their sums, a bit each */
};

struct mci_reading;

struct mci_reading_ops {
    struct mc_view (*key)(const struct mci_reading *reading, size_t i);
    /* NULL: one. */
    size_t (*piece_count)(const struct mci_reading *reading, size_t i);
    /* The size is known now: fills in the pieces, whose row is set and all
     * else zero. Called again when the object turned out to be another one. A
     * piece that cannot be is done. Errors: the row's. */
    enum mc_err (*aim)(struct mci_reading *reading, size_t i, uint64_t size,
                       struct mci_piece *pieces, size_t count);
    /* Of rows that are known, so that nobody is asked; NULL: the master is. Fills
     * in all of the row, as get would, a hold too; until when it counts, as of
     * now; and where a place's present grant is found. */
    void (*recall)(struct mci_reading *reading, size_t i,
                   struct mci_read_row *row);
    uint64_t (*lease_end)(struct mci_reading *reading, size_t i);
    const struct mc_grant_source *(*grants)(struct mci_reading *reading,
                                            size_t i,
                                            const struct mci_read_row *row,
                                            uint32_t place);
    /* Sums of all blocks of a row, as they stand in one of its places: those that
     * were kept, borrowed, or NULL; keep owns what it is given, and frees it with
     * mci_free. NULL: none are kept. */
    const uint8_t *(*kept_sums)(struct mci_reading *reading, size_t i,
                                const struct mci_place *place);
    void (*keep_sums)(struct mci_reading *reading, size_t i,
                      const struct mci_place *place, uint8_t *sums);
    /* Hands out the outcome of a row, all of whose pieces are done. */
    void (*settle)(struct mci_reading *reading, size_t i,
                   const struct mci_piece *pieces, size_t count);
};

struct mci_reading {
    const struct mci_reading_ops *ops;
    struct mc_client *client;
    int64_t *results;
    struct mci_memory_use use;
    /* What the call's own functions look at. */
    const struct mc_view *keys;
    const struct mc_span *buffers;
    const struct mc_spans *lists;
    const struct mc_range_row *ranges;
    struct mc_get_session *const *sessions;
    const struct mc_fragments *fragments;
    struct mci_session_use *session_uses;
    struct mci_until until; /* no deadline: the client's time for each slice */
    bool *touched;          /* per row: bytes of it may have come into memory;
                               NULL: nobody asks */
    struct mc_span *made;
    struct mc_buffer *lent;
    void *buffer;
    size_t capacity;
};

/* Errors: -11 (as a whole; then nothing was settled). */
MC_CHECK_RESULT enum mc_err mci_read(struct mci_reading *reading, size_t count);

/* Reads objects whole into lists that they fill: any other size answers -600, and
 * no byte is moved. keys, lists, results; until, touched if they matter. */
MC_CHECK_RESULT enum mc_err mci_read_exact(struct mci_reading *reading,
                                           size_t count);
/* mc_client_batch_get_into_multi_buffers and mc_client_get_sessions_read, until
 * something else than their client's settings say. */
MC_CHECK_RESULT enum mc_err
mci_get_into_lists(struct mc_client *client, const struct mc_view *keys,
                   const struct mc_spans *buffers, size_t count,
                   const struct mci_until *until, int64_t *results_out);
MC_CHECK_RESULT enum mc_err
mci_get_sessions_read(struct mc_client *client,
                      struct mc_get_session *const *sessions,
                      const struct mc_fragments *fragments, size_t count,
                      const struct mci_until *until, int64_t *results_out);

size_t mci_reading_pieces(const struct mci_reading *reading, size_t i);

/* The caller's memory is registered, or any will do. */
bool mci_reading_may_use(struct mci_reading *reading, const void *data,
                         size_t len);
#endif
