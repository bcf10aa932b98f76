/* SPDX-License-Identifier: Apache-2.0 */
/* client_get_sessions.c - reading by handle. */
#include <string.h>

#include "client_read.h"
#include "client_sessions.h"
#include "mci_alloc.h"

/* ---- life -------------------------------------------------------------------- */

void mci_get_session_drop(struct mci_sessions *sessions,
                          struct mc_get_session *session)
{
    if (--session->refs == 0) {
        mci_list_remove(&session->link);
        mci_list_push_back(&sessions->gone, &session->link);
        (void)pthread_cond_broadcast(&sessions->changed);
    }
}

void mci_get_sessions_release(struct mci_sessions *sessions,
                              struct mc_get_session *const *held, size_t count)
{
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < count; i++) {
        if (held[i]) {
            mci_get_session_drop(sessions, held[i]);
        }
    }
    mci_sessions_unlock(sessions);
}

void mci_get_session_free(struct mc_get_session *session)
{
    mci_free(session->sums);
    mci_free(session);
}

static struct mc_get_session *make(struct mc_view key)
{
    struct mc_get_session *session = mci_calloc(1, sizeof *session + key.len);
    if (session) {
        mci_list_init(&session->link);
        if (key.len > 0) {
            memcpy(session->key, key.data, key.len);
        }
        session->refs = 1;
    }
    return session;
}

/* ---- opening ------------------------------------------------------------------- */

struct opening {
    struct mc_client *client;
    const struct mc_view *keys;
    size_t count;
    struct mci_read_row *rows;
    struct mc_get_session **sessions;
};

/* Before anything is asked, so that what was granted can be kept. A key over its
 * limit is refused by the master and needs none. */
static enum mc_err make_all(const struct opening *opening)
{
    memset(opening->sessions, 0, opening->count * sizeof(*opening->sessions));
    for (size_t i = 0; i < opening->count; i++) {
        const struct mc_view key = opening->keys[i];
        size_t len = key.len <= MC_KEY_LEN_MAX ? key.len : 0;
        opening->sessions[i] = make(mc_view_make(key.data, len));
        if (!opening->sessions[i]) {
            return MC_ERR_NOMEM;
        }
    }
    return MC_OK;
}

static void free_from(const struct opening *opening, size_t i)
{
    for (; i < opening->count; i++) {
        mci_free(opening->sessions[i]);
        opening->sessions[i] = NULL;
    }
}

static enum mc_err judge(const struct mci_read_row *row, uint64_t sent_ns,
                         uint64_t now_ns)
{
    uint64_t end_ns = 0;
    uint64_t renew_ns = 0;
    if (row->err != MC_OK) {
        return row->err;
    }
    mci_renewal_plan(sent_ns, row->lease_left_ns, &end_ns, &renew_ns);
    if (now_ns >= end_ns) {
        return MC_ERR_LEASE_EXPIRED;
    }
    return row->place_count == 0 ? MC_ERR_INVALID_REPLICA : MC_OK;
}

/* The lock is held. What was granted and is of no use is given back. */
static void enter(struct mci_sessions *sessions, struct mc_get_session *session,
                  const struct mci_read_row *row, uint64_t sent_ns)
{
    const struct mc_view key = mc_view_make(session->key, row->key.len);
    session->row = *row;
    session->row.key = key;
    mci_renewal_plan(sent_ns, row->lease_left_ns, &session->lease_end_ns,
                     &session->renew_ns);
    mci_renewer_note(sessions, session->renew_ns);
    mci_list_push_back(&sessions->gets, &session->link);
}

static void settle(const struct opening *opening, uint64_t sent_ns,
                   int64_t *results)
{
    struct mci_sessions *sessions = &opening->client->sessions;
    uint64_t now_ns = mci_clock_ns();
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < opening->count; i++) {
        const struct mci_read_row *row = &opening->rows[i];
        struct mc_get_session *session = opening->sessions[i];
        results[i] = judge(row, sent_ns, now_ns);
        if (row->err == MC_OK) {
            enter(sessions, session, row, sent_ns);
        }
        if (results[i] != MC_OK) {
            opening->sessions[i] = NULL;
        }
        if (row->err != MC_OK) {
            mci_free(session);
        } else if (results[i] != MC_OK) {
            mci_get_session_drop(sessions, session);
        }
    }
    (void)pthread_cond_broadcast(&sessions->changed);
    mci_sessions_unlock(sessions);
}

static enum mc_err open_all(const struct opening *opening, int64_t *results)
{
    struct mc_client *client = opening->client;
    const struct mci_master_link *link = &client->link;
    enum mc_err err = mci_renewer_start(&client->sessions);
    if (err == MC_OK) {
        err = make_all(opening);
    }
    if (err != MC_OK) {
        free_from(opening, 0);
        return err;
    }
    for (size_t i = 0; i < opening->count; i++) {
        opening->rows[i] =
            (struct mci_read_row){.key = opening->keys[i], .want_lease = true};
    }
    const struct mci_call call = mci_client_call(client);
    err = link->ops->get(link->ctx, &call, opening->rows, opening->count);
    if (err != MC_OK) {
        free_from(opening, 0);
        return err;
    }
    settle(opening, call.now_ns, results);
    return MC_OK;
}

enum mc_err mc_client_get_sessions_open(struct mc_client *client,
                                        const struct mc_view *keys,
                                        size_t count,
                                        struct mc_get_session **sessions_out,
                                        int64_t *results_out)
{
    struct opening opening = {.client = client,
                              .keys = keys,
                              .count = count,
                              .sessions = sessions_out};
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err == MC_OK && count > 0 && !sessions_out) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err != MC_OK || count == 0) {
        return mci_client_refuse(results_out, count, err);
    }
    opening.rows = mci_alloc(count * sizeof(*opening.rows));
    err = opening.rows ? open_all(&opening, results_out) : MC_ERR_NOMEM;
    mci_free(opening.rows);
    if (err != MC_OK) {
        memset(sessions_out, 0, count * sizeof(*sessions_out));
        return mci_client_refuse(results_out, count, err);
    }
    return MC_OK;
}

/* ---- reading --------------------------------------------------------------------- */

/* One place of one row of a call, whose grant changes with renewals. */
struct renewed_place {
    struct mc_grant_source source;
    struct mci_reading *reading;
    struct mc_get_session *session;
    struct mci_place place;
    struct mc_grant granted;
};

struct mci_session_use {
    struct renewed_place places[MCI_REPLICAS_MAX];
};

static struct mc_grant present_grant(void *ctx)
{
    const struct renewed_place *at = ctx;
    struct mci_sessions *sessions = &at->reading->client->sessions;
    const struct mci_read_row *row = &at->session->row;
    struct mc_grant grant = at->granted;
    mci_sessions_lock(sessions);
    for (uint32_t i = 0; i < row->place_count; i++) {
        if (row->places[i].segment == at->place.segment &&
            row->places[i].offset == at->place.offset) {
            grant = row->grants[i];
        }
    }
    mci_sessions_unlock(sessions);
    return grant;
}

static const struct mc_grant_source *grants_of(struct mci_reading *reading,
                                               size_t i,
                                               const struct mci_read_row *row,
                                               uint32_t place)
{
    struct renewed_place *at = &reading->session_uses[i].places[place];
    *at = (struct renewed_place){.source = {.get = present_grant, .ctx = at},
                                 .reading = reading,
                                 .session = reading->sessions[i],
                                 .place = row->places[place],
                                 .granted = row->grants[place]};
    return &at->source;
}

/* In this process the version is held meanwhile, so that its bytes are its own
 * whatever becomes of the lease. */
static void hold(struct mc_client *client, struct mci_read_row *row)
{
    const struct mci_call call = mci_client_call(client);
    enum mc_err err =
        client->link.ops->lease_hold(client->link.ctx, &call, row, 1);
    row->err = err != MC_OK ? err : row->err;
}

static void recall(struct mci_reading *reading, size_t i,
                   struct mci_read_row *row)
{
    struct mc_client *client = reading->client;
    const struct mc_get_session *session = reading->sessions[i];
    uint64_t now_ns = mci_clock_ns();
    *row = (struct mci_read_row){.err = MC_ERR_INVALID_PARAMS};
    if (session) {
        mci_sessions_lock(&client->sessions);
        *row = session->row;
        row->hold = (struct mci_hold){.index = 0};
        row->err = mci_get_session_is_live(session, now_ns)
                       ? MC_OK
                       : MC_ERR_LEASE_EXPIRED;
        mci_sessions_unlock(&client->sessions);
        if (row->err == MC_OK && !client->outside) {
            hold(client, row);
        }
    }
    reading->results[i] = row->err;
}

static uint64_t lease_end(struct mci_reading *reading, size_t i)
{
    const struct mc_get_session *session = reading->sessions[i];
    uint64_t end_ns = 0;
    if (session) {
        mci_sessions_lock(&reading->client->sessions);
        end_ns = session->lease_end_ns;
        mci_sessions_unlock(&reading->client->sessions);
    }
    return end_ns;
}

static const uint8_t *kept_sums(struct mci_reading *reading, size_t i,
                                const struct mci_place *place)
{
    struct mci_sessions *sessions = &reading->client->sessions;
    const struct mc_get_session *session = reading->sessions[i];
    mci_sessions_lock(sessions);
    bool is_there = session->sums_place.segment == place->segment &&
                    session->sums_place.offset == place->offset;
    const uint8_t *sums = is_there ? session->sums : NULL;
    mci_sessions_unlock(sessions);
    return sums;
}

/* The first ones stay, since others may be looking at them. */
static void keep_sums(struct mci_reading *reading, size_t i,
                      const struct mci_place *place, uint8_t *sums)
{
    struct mci_sessions *sessions = &reading->client->sessions;
    struct mc_get_session *session = reading->sessions[i];
    mci_sessions_lock(sessions);
    if (!session->sums) {
        session->sums = sums;
        session->sums_place = *place;
        sums = NULL;
    }
    mci_sessions_unlock(sessions);
    mci_free(sums);
}

static struct mc_view no_key(const struct mci_reading *reading, size_t i)
{
    (void)reading, (void)i;
    return mc_view_make(NULL, 0);
}

static size_t count_at(const struct mci_reading *reading, size_t i)
{
    const struct mc_fragments *fragments = &reading->fragments[i];
    return fragments->rows && fragments->count <= MC_SPANS_MAX
               ? fragments->count
               : 0;
}

static enum mc_err aim_fragments(struct mci_reading *reading, size_t i,
                                 uint64_t size, struct mci_piece *pieces,
                                 size_t count)
{
    const struct mc_fragments *fragments = &reading->fragments[i];
    const struct mci_using using = {.client = reading->client,
                                    .use = &reading->use};
    uint64_t sum = 0;
    enum mc_err err = mci_using_fragments(&using, fragments, size, &sum);
    reading->results[i] = err;
    for (size_t k = 0; k < count && err == MC_OK; k++) {
        const struct mc_fragment *fragment = &fragments->rows[k];
        mci_part_set(&pieces[k].part, fragment->offset, fragment->data,
                     fragment->len);
        pieces[k].is_done = fragment->len == 0;
    }
    return err;
}

/* Of several faults the one that says most about what was read counts. */
static void settle_fragments(struct mci_reading *reading, size_t i,
                             const struct mci_piece *pieces, size_t count)
{
    int64_t sum = 0;
    for (size_t k = 0; k < count; k++) {
        int64_t result = pieces[k].result;
        if (result == MC_ERR_LEASE_EXPIRED) {
            sum = result;
            break;
        }
        if (sum >= 0) {
            sum = result < 0 ? result : sum + result;
        }
    }
    if (reading->results[i] == MC_OK) {
        reading->results[i] = sum;
    }
}

static const struct mci_reading_ops into_fragments = {.key = no_key,
                                                      .piece_count = count_at,
                                                      .aim = aim_fragments,
                                                      .settle =
                                                          settle_fragments,
                                                      .recall = recall,
                                                      .lease_end = lease_end,
                                                      .grants = grants_of,
                                                      .kept_sums = kept_sums,
                                                      .keep_sums = keep_sums};

static void hold_all(const struct mci_reading *reading, size_t count)
{
    struct mci_sessions *sessions = &reading->client->sessions;
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < count; i++) {
        if (reading->sessions[i]) {
            reading->sessions[i]->refs++;
        }
    }
    mci_sessions_unlock(sessions);
}

static enum mc_err read_all(struct mci_reading *reading, size_t count)
{
    size_t bytes = count * sizeof(*reading->session_uses);
    reading->session_uses = reading->client->outside ? mci_alloc(bytes) : NULL;
    if (reading->client->outside && !reading->session_uses) {
        return MC_ERR_NOMEM;
    }
    hold_all(reading, count);
    enum mc_err err = mci_read(reading, count);
    mci_get_sessions_release(&reading->client->sessions, reading->sessions,
                             count);
    mci_memory_release(&reading->client->memory, &reading->use);
    mci_free(reading->session_uses);
    return err;
}

enum mc_err mci_get_sessions_read(struct mc_client *client,
                                  struct mc_get_session *const *sessions,
                                  const struct mc_fragments *fragments,
                                  size_t count, const struct mci_until *until,
                                  int64_t *results_out)
{
    struct mci_reading reading = {.ops = &into_fragments,
                                  .client = client,
                                  .sessions = sessions,
                                  .fragments = fragments,
                                  .until = *until,
                                  .results = results_out};
    enum mc_err err = mci_client_check_rows(sessions, results_out, count);
    if (err == MC_OK && count > 0 && !fragments) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err == MC_OK && count > 0) {
        err = read_all(&reading, count);
    }
    return err != MC_OK ? mci_client_refuse(results_out, count, err) : MC_OK;
}

enum mc_err mc_client_get_sessions_read(struct mc_client *client,
                                        struct mc_get_session *const *sessions,
                                        const struct mc_fragments *fragments,
                                        size_t count, uint32_t timeout_ms,
                                        int64_t *results_out)
{
    const struct mci_until until = mci_until_timeout(client, timeout_ms);
    return mci_get_sessions_read(client, sessions, fragments, count, &until,
                                 results_out);
}

/* ---- closing ----------------------------------------------------------------------- */

void mc_client_get_sessions_close(struct mc_client *client,
                                  struct mc_get_session *const *sessions,
                                  size_t count)
{
    if (sessions) {
        mci_get_sessions_release(&client->sessions, sessions, count);
    }
}
