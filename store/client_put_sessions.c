/* SPDX-License-Identifier: Apache-2.0 */
/* client_put_sessions.c - writing by handle: opening and ranges. */
#include <string.h>

#include "client_attempts.h"
#include "client_put_sums.h"
#include "client_sessions.h"
#include "client_write.h"
#include "mci_alloc.h"

#define SLICE_ROWS 1024
#define SLICE_PARTS 4096
#define RANGES_MAX (MCI_COVERAGE_MAX - 64) /* the rest is for filling holes */

/* ---- life -------------------------------------------------------------------- */

void mci_put_session_drop(struct mci_sessions *sessions,
                          struct mc_put_session *session)
{
    (void)sessions;
    if (--session->refs == 0) {
        mci_list_remove(&session->link);
        mci_put_session_free(session);
    }
}

void mci_put_session_free(struct mc_put_session *session)
{
    mci_session_sums_free(session->sums);
    mci_coverage_fini(&session->coverage);
    mci_free(session);
}

void mci_put_sessions_release(struct mci_sessions *sessions,
                              struct mc_put_session *const *held, size_t count)
{
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < count; i++) {
        if (held[i]) {
            mci_put_session_drop(sessions, held[i]);
        }
    }
    mci_sessions_unlock(sessions);
}

void mci_put_session_give_up(struct mci_sessions *sessions,
                             struct mc_put_session *session)
{
    const struct mci_outside *outside = sessions->client->outside;
    uint64_t attempt = session->row.attempt.number;
    mci_sessions_lock(sessions);
    session->is_over = true;
    mci_put_session_drop(sessions, session);
    mci_sessions_unlock(sessions);
    if (outside) {
        mci_remote_attempt_give_up(outside->remote, attempt);
    }
}

static struct mc_put_session *make(struct mc_view key, uint64_t size)
{
    struct mc_put_session *session = mci_calloc(1, sizeof *session + key.len);
    if (session) {
        mci_list_init(&session->link);
        if (key.len > 0) {
            memcpy(session->key, key.data, key.len);
        }
        mci_coverage_init(&session->coverage, size);
        session->refs = 1;
    }
    return session;
}

/* ---- opening ------------------------------------------------------------------- */

/* Before anything is asked, so that what was granted can be kept. */
static enum mc_err make_all(const struct mci_put_opening *opening)
{
    const struct mc_replicate_config *config = opening->config;
    memset(opening->sessions, 0, opening->count * sizeof(*opening->sessions));
    for (size_t i = 0; i < opening->count; i++) {
        const struct mc_view key = opening->keys[i];
        size_t len = key.len <= MC_KEY_LEN_MAX ? key.len : 0;
        opening->sessions[i] =
            make(mc_view_make(key.data, len), opening->sizes[i]);
        if (!opening->sessions[i]) {
            return MC_ERR_NOMEM;
        }
        opening->sessions[i]->is_complete = config && config->complete;
        struct mci_write_row *row = &opening->rows[i];
        *row = (struct mci_write_row){.key = key,
                                      .size = opening->sizes[i],
                                      .has_sums = config && config->checksum};
        if (config && config->session_ids) {
            row->session_id = config->session_ids[i];
        }
        if (config && config->group_ids) {
            row->group_id = config->group_ids[i];
        }
    }
    return MC_OK;
}

static void free_all(const struct mci_put_opening *opening)
{
    for (size_t i = 0; i < opening->count; i++) {
        mci_free(opening->sessions[i]);
        opening->sessions[i] = NULL;
    }
}

static void settle(const struct mci_put_opening *opening, int64_t *results)
{
    struct mci_sessions *sessions = &opening->client->sessions;
    const struct mc_view none = {NULL, 0};
    uint64_t touch_ns = mci_renewer_tell_at(sessions, mci_clock_ns());
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < opening->count; i++) {
        struct mc_put_session *session = opening->sessions[i];
        results[i] = opening->rows[i].err;
        if (results[i] != MC_OK) {
            mci_free(session);
            opening->sessions[i] = NULL;
            continue;
        }
        session->row = opening->rows[i];
        session->row.key = mc_view_make(session->key, session->row.key.len);
        session->row.session_id = none; /* told at the start */
        session->row.group_id = none;
        session->touch_ns = touch_ns; /* the start was a sign of life */
        mci_list_push_back(&sessions->puts, &session->link);
    }
    (void)pthread_cond_broadcast(&sessions->changed);
    mci_sessions_unlock(sessions);
}

static enum mc_err open_all(const struct mci_put_opening *opening,
                            int64_t *results)
{
    struct mc_client *client = opening->client;
    const struct mci_master_link *link = &client->link;
    enum mc_err err = mci_renewer_start(&client->sessions);
    if (err == MC_OK) {
        err = make_all(opening);
    }
    if (err == MC_OK) {
        const struct mci_call call =
            mci_client_call_until(client, opening->deadline_ns);
        err = link->ops->put_start(link->ctx, &call, opening->config,
                                   opening->rows, opening->count);
    }
    if (err != MC_OK) {
        free_all(opening);
        return err;
    }
    settle(opening, results);
    return MC_OK;
}

enum mc_err mci_put_sessions_open(struct mci_put_opening *opening,
                                  int64_t *results_out)
{
    const size_t count = opening->count;
    opening->config =
        mci_client_config(opening->client, opening->config, &opening->own);
    enum mc_err err = mci_client_check_rows(opening->keys, results_out, count);
    if (err == MC_OK && count > 0 && (!opening->sizes || !opening->sessions)) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err == MC_OK) {
        err = mci_client_check_config(opening->config, count);
    }
    if (err != MC_OK || count == 0) {
        return mci_client_refuse(results_out, count, err);
    }
    opening->rows = mci_alloc(count * sizeof(*opening->rows));
    memset(opening->sessions, 0, count * sizeof(*opening->sessions));
    err = opening->rows ? open_all(opening, results_out) : MC_ERR_NOMEM;
    mci_free(opening->rows);
    return err != MC_OK ? mci_client_refuse(results_out, count, err) : MC_OK;
}

enum mc_err mc_client_put_sessions_open(
    struct mc_client *client, const struct mc_view *keys, const uint64_t *sizes,
    const struct mc_replicate_config *config, size_t count,
    struct mc_put_session **sessions_out, int64_t *results_out)
{
    struct mci_put_opening opening = {.client = client,
                                      .keys = keys,
                                      .sizes = sizes,
                                      .config = config,
                                      .count = count,
                                      .sessions = sessions_out};
    return mci_put_sessions_open(&opening, results_out);
}

/* ---- writing --------------------------------------------------------------------- */

struct writing {
    struct mc_client *client;
    struct mc_put_session *const *sessions;
    const struct mc_fragments *fragments;
    size_t count;
    int64_t *results;
    struct mci_memory_use use;
    struct mci_until until;
    /* A slice of rows. */
    size_t first;
    size_t row_count;
    struct mci_attempts moving;
    struct mci_interval *ranges; /* of all fragments in the slice */
    struct begun {
        size_t first_range;
        bool is_begun;
    } * begun; /* per row */
};

static size_t fragments_of(const struct writing *writing, size_t i)
{
    const struct mc_fragments *fragments = &writing->fragments[i];
    return fragments->rows && fragments->count <= MC_SPANS_MAX
               ? fragments->count
               : 0;
}

/* The ranges are this call's from here on. The lock is held. */
static enum mc_err begin_locked(struct mc_put_session *session,
                                const struct mci_interval *ranges, size_t count)
{
    const struct mci_coverage *coverage = &session->coverage;
    if (session->is_sealed) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (coverage->written.count + coverage->on_way.count + count > RANGES_MAX) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    enum mc_err err = mci_coverage_begin(&session->coverage, ranges, count);
    if (err == MC_OK) {
        session->moving++;
        session->has_written = true;
    }
    return err;
}

static void add_parts(struct writing *writing, size_t r)
{
    const struct mc_fragments *fragments =
        &writing->fragments[writing->first + r];
    struct mci_attempts *moving = &writing->moving;
    for (size_t k = 0; k < fragments->count; k++) {
        const struct mc_fragment *fragment = &fragments->rows[k];
        if (fragment->len > 0) {
            struct mci_part *part = &moving->parts[moving->part_count++];
            mci_part_set(part, fragment->offset, fragment->data, fragment->len);
            part->row = (uint32_t)r;
        }
    }
}

static void begin_row(struct writing *writing, size_t r, size_t at)
{
    struct mci_sessions *sessions = &writing->client->sessions;
    struct mc_put_session *session = writing->sessions[writing->first + r];
    const struct mc_fragments *fragments =
        &writing->fragments[writing->first + r];
    struct mci_write_row *row = &writing->moving.rows[r];
    const struct mci_using using = {.client = writing->client,
                                    .use = &writing->use};
    uint64_t sum = 0;
    size_t count = fragments_of(writing, writing->first + r);
    writing->begun[r] = (struct begun){.first_range = at};
    row->err = session ? mci_using_fragments(&using, fragments,
                                             session->row.size, &sum)
                       : MC_ERR_INVALID_PARAMS;
    if (row->err == MC_OK && session->row.has_sums) {
        row->err = mci_session_sums_need(sessions, session);
    }
    writing->results[writing->first + r] = (int64_t)sum;
    if (row->err != MC_OK) {
        return;
    }
    for (size_t k = 0; k < count; k++) {
        writing->ranges[at + k] = (struct mci_interval){
            fragments->rows[k].offset, fragments->rows[k].len};
    }
    mci_sessions_lock(sessions);
    enum mc_err err = begin_locked(session, &writing->ranges[at], count);
    if (err == MC_OK) {
        *row = session->row;
        row->in_doubt = false;
    }
    row->err = err;
    mci_sessions_unlock(sessions);
    memset(writing->moving.went[r], 0, sizeof(*writing->moving.went));
    if (err == MC_OK) {
        writing->begun[r].is_begun = true;
        add_parts(writing, r);
    }
}

/* While the ranges still are this call's. */
static void note_sums(struct writing *writing, size_t r)
{
    const struct mc_put_session *session =
        writing->sessions[writing->first + r];
    const struct mci_write_row *row = &writing->moving.rows[r];
    if (writing->begun[r].is_begun && row->has_sums) {
        mci_session_sums_note(session->sums,
                              &writing->fragments[writing->first + r],
                              row->err == MC_OK);
    }
}

static void end_row(struct writing *writing, size_t r)
{
    struct mc_put_session *session = writing->sessions[writing->first + r];
    const struct mci_write_row *row = &writing->moving.rows[r];
    const struct mci_interval *ranges =
        &writing->ranges[writing->begun[r].first_range];
    mci_coverage_end(&session->coverage, ranges,
                     fragments_of(writing, writing->first + r),
                     row->err == MC_OK);
    session->in_doubt |= row->in_doubt;
    for (size_t p = 0; p < MCI_REPLICAS_MAX; p++) {
        uint8_t went = writing->moving.went[r][p];
        if (went != MC_TRANSPORT_AUTO && session->went[p] != MC_TRANSPORT_TCP) {
            session->went[p] = went;
        }
    }
    session->moving--;
}

static void write_slice(struct writing *writing)
{
    struct mci_sessions *sessions = &writing->client->sessions;
    struct mci_attempts *moving = &writing->moving;
    size_t at = 0;
    moving->part_count = 0;
    for (size_t r = 0; r < writing->row_count; r++) {
        begin_row(writing, r, at);
        at += fragments_of(writing, writing->first + r);
    }
    mci_attempts_move(moving, writing->until.deadline_ns);
    for (size_t r = 0; r < writing->row_count; r++) {
        note_sums(writing, r);
    }
    mci_sessions_lock(sessions);
    for (size_t r = 0; r < writing->row_count; r++) {
        if (writing->begun[r].is_begun) {
            end_row(writing, r);
        }
        if (moving->rows[r].err != MC_OK) {
            writing->results[writing->first + r] = moving->rows[r].err;
        }
    }
    (void)pthread_cond_broadcast(&sessions->changed);
    mci_sessions_unlock(sessions);
}

static size_t slice_rows(const struct writing *writing, size_t first,
                         size_t *parts_out)
{
    size_t rows = 0;
    size_t parts = 0;
    while (rows < SLICE_ROWS && first + rows < writing->count) {
        size_t more = fragments_of(writing, first + rows);
        if (rows > 0 && parts + more > SLICE_PARTS) {
            break;
        }
        parts += more;
        rows++;
    }
    *parts_out = parts;
    return rows;
}

static enum mc_err make_room(struct writing *writing, size_t rows, size_t parts)
{
    struct mci_attempts *moving = &writing->moving;
    size_t moves = parts * MCI_REPLICAS_MAX;
    moves = moves < MCI_RUN_MOVES ? moves : MCI_RUN_MOVES;
    moves = moves > MCI_REPLICAS_MAX ? moves : MCI_REPLICAS_MAX;
    moving->run.room = moves;
    moving->run.moves = mci_alloc(moves * sizeof(*moving->run.moves));
    moving->run.owners = mci_alloc(moves * sizeof(*moving->run.owners));
    moving->renewed = mci_alloc(moves * sizeof(*moving->renewed));
    moving->rows = mci_alloc(rows * sizeof(*moving->rows));
    moving->went = mci_alloc(rows * sizeof(*moving->went));
    moving->parts = mci_alloc((parts + 1) * sizeof(*moving->parts));
    writing->ranges = mci_alloc((parts + 1) * sizeof(*writing->ranges));
    writing->begun = mci_alloc(rows * sizeof(*writing->begun));
    bool is_made = moving->run.moves && moving->run.owners && moving->renewed &&
                   moving->rows && moving->went && moving->parts &&
                   writing->ranges && writing->begun;
    return is_made ? MC_OK : MC_ERR_NOMEM;
}

static void free_room(struct writing *writing)
{
    struct mci_attempts *moving = &writing->moving;
    mci_free(moving->run.moves);
    mci_free(moving->run.owners);
    mci_free(moving->renewed);
    mci_free(moving->rows);
    mci_free(moving->went);
    mci_free(moving->parts);
    mci_free(writing->ranges);
    mci_free(writing->begun);
}

static enum mc_err write_all(struct writing *writing)
{
    size_t rows_most = 0;
    size_t parts_most = 0;
    size_t parts = 0;
    for (size_t first = 0; first < writing->count;) {
        size_t rows = slice_rows(writing, first, &parts);
        first += rows;
        rows_most = rows > rows_most ? rows : rows_most;
        parts_most = parts > parts_most ? parts : parts_most;
    }
    enum mc_err err = make_room(writing, rows_most, parts_most);
    while (err == MC_OK && writing->first < writing->count) {
        writing->row_count = slice_rows(writing, writing->first, &parts);
        write_slice(writing);
        writing->first += writing->row_count;
    }
    free_room(writing);
    return err;
}

static void hold_all(const struct writing *writing)
{
    struct mci_sessions *sessions = &writing->client->sessions;
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < writing->count; i++) {
        if (writing->sessions[i]) {
            writing->sessions[i]->refs++;
        }
    }
    mci_sessions_unlock(sessions);
}

enum mc_err mci_put_sessions_write(struct mc_client *client,
                                   struct mc_put_session *const *sessions,
                                   const struct mc_fragments *fragments,
                                   size_t count, const struct mci_until *until,
                                   int64_t *results_out)
{
    struct writing writing = {.client = client,
                              .sessions = sessions,
                              .fragments = fragments,
                              .count = count,
                              .results = results_out,
                              .until = *until,
                              .moving = {.places_most = MCI_REPLICAS_MAX}};
    enum mc_err err = mci_client_check_rows(sessions, results_out, count);
    if (err == MC_OK && count > 0 && !fragments) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err == MC_OK && count > 0) {
        err = mci_mover_begin(client, until->stops, &writing.moving.run.mover);
    }
    if (err != MC_OK || count == 0) {
        return mci_client_refuse(results_out, count, err);
    }
    hold_all(&writing);
    err = write_all(&writing);
    mci_put_sessions_release(&client->sessions, sessions, count);
    mci_mover_end(&writing.moving.run.mover);
    mci_memory_release(&client->memory, &writing.use);
    return err != MC_OK ? mci_client_refuse(results_out, count, err) : MC_OK;
}

enum mc_err mc_client_put_sessions_write(struct mc_client *client,
                                         struct mc_put_session *const *sessions,
                                         const struct mc_fragments *fragments,
                                         size_t count, uint32_t timeout_ms,
                                         int64_t *results_out)
{
    const struct mci_until until = mci_until_timeout(client, timeout_ms);
    return mci_put_sessions_write(client, sessions, fragments, count, &until,
                                  results_out);
}

bool mc_client_put_session_hole(struct mc_client *client,
                                const struct mc_put_session *session,
                                uint64_t *from_out, uint64_t *len_out)
{
    struct mci_interval hole = {0, 0};
    mci_sessions_lock(&client->sessions);
    bool is_hole = mci_coverage_hole(&session->coverage, 0, &hole);
    mci_sessions_unlock(&client->sessions);
    if (is_hole) {
        *from_out = hole.from;
        *len_out = hole.len;
    }
    return is_hole;
}
