/* SPDX-License-Identifier: Apache-2.0 */
/* client_put_sums.c - see the header. */
#include "client_put_sums.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_bytes.h"

/* ---- whole objects ---------------------------------------------------------- */

struct mci_tail {
    struct mci_tail *next;
    struct mc_span spans[]; /* of the object and of its sums, which follow */
};

static struct mci_tail *make_tail(const struct mci_part *part, uint64_t bytes)
{
    size_t span_bytes = (part->span_count + 1) * sizeof(struct mc_span);
    struct mci_tail *tail = mci_alloc(sizeof *tail + span_bytes + bytes);
    if (tail) {
        memcpy(tail->spans, part->spans, span_bytes - sizeof(struct mc_span));
        tail->spans[part->span_count] = (struct mc_span){
            .data = &tail->spans[part->span_count + 1], .len = bytes};
    }
    return tail;
}

enum mc_err mci_put_sums_add(struct mci_put_sums *sums,
                             const struct mci_write_row *row,
                             struct mci_part *part)
{
    const struct mci_summed of = {.epoch = row->attempt.epoch,
                                  .version = row->attempt.number,
                                  .size = row->size};
    uint64_t count = mci_sums_count(row->size);
    struct mci_tail *tail = make_tail(part, count * MCI_SUM_LEN);
    if (!tail) {
        return MC_ERR_NOMEM;
    }
    tail->next = sums->tails;
    sums->tails = tail;
    struct mci_sum_walk walk;
    uint8_t *at = tail->spans[part->span_count].data;
    mci_sum_walk_begin(&walk, &of, tail->spans);
    for (uint64_t block = 0; block < count; block++) {
        mci_put_le64(at, mci_sum_walk_next(&walk, block));
        at += MCI_SUM_LEN;
    }
    part->spans = tail->spans;
    part->span_count++;
    part->len += count * MCI_SUM_LEN;
    return MC_OK;
}

void mci_put_sums_clear(struct mci_put_sums *sums)
{
    while (sums->tails) {
        struct mci_tail *tail = sums->tails;
        sums->tails = tail->next;
        mci_free(tail);
    }
}

/* ---- put sessions ----------------------------------------------------------- */

static struct mci_session_sums *make(const struct mci_write_row *row)
{
    const struct mci_summed of = {.epoch = row->attempt.epoch,
                                  .version = row->attempt.number,
                                  .size = row->size};
    struct mci_session_sums *sums = mci_calloc(1, sizeof *sums);
    if (!sums || mci_block_sums_init(&sums->blocks, &of) != MC_OK) {
        mci_free(sums);
        return NULL;
    }
    if (pthread_mutex_init(&sums->lock, NULL) != 0) {
        mci_block_sums_fini(&sums->blocks);
        mci_free(sums);
        return NULL;
    }
    return sums;
}

void mci_session_sums_free(struct mci_session_sums *sums)
{
    if (sums) {
        (void)pthread_mutex_destroy(&sums->lock);
        mci_block_sums_fini(&sums->blocks);
        mci_free(sums);
    }
}

enum mc_err mci_session_sums_need(struct mci_sessions *sessions,
                                  struct mc_put_session *session)
{
    mci_sessions_lock(sessions);
    bool is_there = session->sums != NULL;
    mci_sessions_unlock(sessions);
    if (is_there) {
        return MC_OK;
    }
    struct mci_session_sums *made = make(&session->row);
    if (!made) {
        return MC_ERR_NOMEM;
    }
    mci_sessions_lock(sessions);
    if (!session->sums) {
        session->sums = made;
        made = NULL;
    }
    mci_sessions_unlock(sessions);
    mci_session_sums_free(made);
    return MC_OK;
}

/* Only what is short is done under the lock. */
static void note_bytes(struct mci_session_sums *sums, uint64_t from,
                       const void *data, uint64_t len)
{
    mci_block_sums_make(&sums->blocks, from, data, len);
    (void)pthread_mutex_lock(&sums->lock);
    mci_block_sums_note(&sums->blocks, from, data, len);
    (void)pthread_mutex_unlock(&sums->lock);
}

void mci_session_sums_note(struct mci_session_sums *sums,
                           const struct mc_fragments *fragments,
                           bool have_arrived)
{
    for (size_t k = 0; k < fragments->count; k++) {
        const struct mc_fragment *fragment = &fragments->rows[k];
        if (have_arrived) {
            note_bytes(sums, fragment->offset, fragment->data, fragment->len);
            continue;
        }
        (void)pthread_mutex_lock(&sums->lock);
        mci_block_sums_spoil(&sums->blocks, fragment->offset, fragment->len);
        (void)pthread_mutex_unlock(&sums->lock);
    }
}

void mci_session_sums_fill(struct mci_session_sums *sums, uint64_t from,
                           uint64_t len, const uint8_t *zeros)
{
    while (len > 0) {
        uint64_t left = MCI_SUM_BLOCK - from % MCI_SUM_BLOCK;
        uint64_t some = len < left ? len : left;
        note_bytes(sums, from, zeros, some);
        from += some;
        len -= some;
    }
}
