/* SPDX-License-Identifier: Apache-2.0 */
/* block_sums.c - see the header. */
#include "block_sums.h"

#include "mci_alloc.h"
#include "mci_bytes.h"

enum { BLOCK_EMPTY = 0, BLOCK_STREAMED, BLOCK_KNOWN, BLOCK_SPOILT };

enum mc_err mci_block_sums_init(struct mci_block_sums *sums,
                                const struct mci_summed *of)
{
    sums->of = *of;
    sums->count = mci_sums_count(of->size);
    sums->sums = mci_calloc(sums->count, MCI_SUM_LEN);
    sums->states = mci_calloc(sums->count, 1);
    for (size_t i = 0; i < MCI_BLOCK_STREAMS; i++) {
        sums->streams[i].len = 0;
    }
    if (sums->sums && sums->states) {
        return MC_OK;
    }
    mci_block_sums_fini(sums);
    return MC_ERR_NOMEM;
}

void mci_block_sums_fini(struct mci_block_sums *sums)
{
    mci_free(sums->sums);
    mci_free(sums->states);
    sums->sums = NULL;
    sums->states = NULL;
}

static void set_sum(struct mci_block_sums *sums, uint64_t block, uint64_t sum)
{
    mci_put_le64(sums->sums + block * MCI_SUM_LEN, sum);
}

void mci_block_sums_make(struct mci_block_sums *sums, uint64_t from,
                         const void *data, uint64_t len)
{
    const struct mci_blocks whole = mci_blocks_within(sums->of.size, from, len);
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < whole.count; i++) {
        uint64_t block = whole.first + i;
        set_sum(sums, block,
                mci_sum_make(&sums->of, block,
                             bytes + (block * MCI_SUM_BLOCK - from)));
    }
}

/* ---- pieces of blocks -------------------------------------------------- */

/* Of a block, or one that is not in use. */
static struct mci_block_stream *stream_of(struct mci_block_sums *sums,
                                          uint64_t block, bool is_in_use)
{
    for (size_t i = 0; i < MCI_BLOCK_STREAMS; i++) {
        struct mci_block_stream *stream = &sums->streams[i];
        if (is_in_use ? stream->len > 0 && stream->block == block
                      : stream->len == 0) {
            return stream;
        }
    }
    return NULL;
}

static void set_state(struct mci_block_sums *sums, uint64_t block,
                      uint8_t state)
{
    if (sums->states[block] == BLOCK_STREAMED) {
        stream_of(sums, block, true)->len = 0;
    }
    sums->states[block] = state;
}

/* The stream that a piece goes on with, or NULL. */
static struct mci_block_stream *follow(struct mci_block_sums *sums,
                                       uint64_t block, uint64_t at)
{
    struct mci_block_stream *stream = NULL;
    if (sums->states[block] == BLOCK_STREAMED) {
        stream = stream_of(sums, block, true);
        return stream->len == at ? stream : NULL;
    }
    if (sums->states[block] == BLOCK_EMPTY && at == 0) {
        stream = stream_of(sums, block, false);
    }
    if (stream) {
        stream->block = block;
        mci_hash_begin(&stream->hash, mci_sum_seed(&sums->of, block));
        sums->states[block] = BLOCK_STREAMED;
    }
    return stream;
}

static void note_piece(struct mci_block_sums *sums, uint64_t block, uint64_t at,
                       const void *data, uint64_t len)
{
    struct mci_block_stream *stream = follow(sums, block, at);
    if (!stream) {
        set_state(sums, block, BLOCK_SPOILT);
        return;
    }
    mci_hash_add(&stream->hash, data, len);
    stream->len += len;
    if (stream->len == mci_sum_block_len(sums->of.size, block)) {
        set_sum(sums, block, mci_hash_end(&stream->hash));
        set_state(sums, block, BLOCK_KNOWN);
    }
}

void mci_block_sums_note(struct mci_block_sums *sums, uint64_t from,
                         const void *data, uint64_t len)
{
    const uint8_t *bytes = data;
    while (len > 0) {
        uint64_t block = from / MCI_SUM_BLOCK;
        uint64_t at = from % MCI_SUM_BLOCK;
        uint64_t block_len = mci_sum_block_len(sums->of.size, block);
        uint64_t some = len < block_len - at ? len : block_len - at;
        if (some == block_len) {
            set_state(sums, block, BLOCK_KNOWN);
        } else {
            note_piece(sums, block, at, bytes, some);
        }
        from += some;
        bytes += some;
        len -= some;
    }
}

void mci_block_sums_spoil(struct mci_block_sums *sums, uint64_t from,
                          uint64_t len)
{
    if (len == 0) {
        return;
    }
    uint64_t last = (from + len - 1) / MCI_SUM_BLOCK;
    for (uint64_t block = from / MCI_SUM_BLOCK; block <= last; block++) {
        set_state(sums, block, BLOCK_SPOILT);
    }
}

uint64_t mci_block_sums_end(struct mci_block_sums *sums)
{
    uint64_t without = 0;
    for (uint64_t block = 0; block < sums->count; block++) {
        if (sums->states[block] != BLOCK_KNOWN) {
            set_sum(sums, block, mci_sum_none(&sums->of, block));
            without++;
        }
    }
    return without;
}
