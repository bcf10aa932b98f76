/* SPDX-License-Identifier: Apache-2.0 */
/* client_session_keys.c - sessions by key: a thin layer over those by handle.
 *
 * One table of get sessions, whose users are counted, and one of put sessions,
 * which one call at a time may end.
 */
#include <string.h>

#include "client.h"
#include "client_sessions.h"
#include "mci_alloc.h"

/* ---- get: start ---------------------------------------------------------------- */

struct starting {
    struct mc_client *client;
    const struct mc_view *keys;
    size_t count;
    int64_t *results;
    /* Of the keys that have no session yet: */
    size_t *rows; /* where in the call */
    struct mc_view *some_keys;
    struct mc_get_session **sessions;
    int64_t *some_results;
    size_t some;
};

/* One that is over is dropped: to start is how it is had anew. The lock is
 * held. */
static struct mc_get_session *live_session(struct mci_sessions *sessions,
                                           struct mc_view key, uint64_t now_ns)
{
    struct mc_get_session *session = mci_map_get(&sessions->get_keys, key);
    if (session && !mci_get_session_is_live(session, now_ns)) {
        (void)mci_map_remove(&sessions->get_keys, key);
        session->key_uses = 0;
        mci_get_session_drop(sessions, session);
        session = NULL;
    }
    return session;
}

static void find_started(struct starting *starting)
{
    struct mci_sessions *sessions = &starting->client->sessions;
    uint64_t now_ns = mci_clock_ns();
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < starting->count; i++) {
        struct mc_get_session *session =
            live_session(sessions, starting->keys[i], now_ns);
        starting->results[i] = MC_OK;
        if (session) {
            session->key_uses++;
        } else {
            starting->some_keys[starting->some] = starting->keys[i];
            starting->rows[starting->some++] = i;
        }
    }
    mci_sessions_unlock(sessions);
}

/* Another start may have been first, also an earlier row of this one: its
 * session is used, and this one given back. */
static void enter(struct starting *starting, size_t k)
{
    struct mci_sessions *sessions = &starting->client->sessions;
    struct mc_get_session *session = starting->sessions[k];
    struct mc_get_session *first =
        live_session(sessions, starting->some_keys[k], mci_clock_ns());
    if (first) {
        first->key_uses++;
        mci_get_session_drop(sessions, session);
        return;
    }
    enum mc_err err =
        mci_map_put(&sessions->get_keys, starting->some_keys[k], session, NULL);
    if (err == MC_OK) {
        session->key_uses = 1;
    } else {
        starting->some_results[k] = err;
        mci_get_session_drop(sessions, session);
    }
}

static enum mc_err start_rest(struct starting *starting)
{
    struct mci_sessions *sessions = &starting->client->sessions;
    enum mc_err err = mc_client_get_sessions_open(
        starting->client, starting->some_keys, starting->some,
        starting->sessions, starting->some_results);
    mci_sessions_lock(sessions);
    for (size_t k = 0; k < starting->some; k++) {
        if (starting->sessions[k]) {
            enter(starting, k);
        }
        starting->results[starting->rows[k]] = starting->some_results[k];
    }
    mci_sessions_unlock(sessions);
    return err;
}

enum mc_err mc_client_batch_get_session_start(struct mc_client *client,
                                              const struct mc_view *keys,
                                              size_t count,
                                              int64_t *results_out)
{
    struct starting starting = {
        .client = client, .keys = keys, .count = count, .results = results_out};
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err != MC_OK || count == 0) {
        return mci_client_refuse(results_out, count, err);
    }
    starting.rows = mci_alloc(count * sizeof(*starting.rows));
    starting.some_keys = mci_alloc(count * sizeof(*starting.some_keys));
    starting.sessions = mci_calloc(count, sizeof(*starting.sessions));
    starting.some_results = mci_alloc(count * sizeof(*starting.some_results));
    bool is_made = starting.rows && starting.some_keys && starting.sessions &&
                   starting.some_results;
    if (is_made) {
        find_started(&starting);
        err = starting.some > 0 ? start_rest(&starting) : MC_OK;
        /* Those that had one already are counted; so it is no refusal of the
         * call. */
        err = starting.some < count ? MC_OK : err;
    } else {
        err = mci_client_refuse(results_out, count, MC_ERR_NOMEM);
    }
    mci_free(starting.rows);
    mci_free(starting.some_keys);
    mci_free(starting.sessions);
    mci_free(starting.some_results);
    return err;
}

/* ---- get: ranges and end ---------------------------------------------------------- */

/* The table's sessions of keys, each with a reference more, or NULL. */
static struct mc_get_session **hold_gets(struct mci_sessions *sessions,
                                         const struct mc_view *keys,
                                         size_t count)
{
    struct mc_get_session **held =
        mci_alloc(count * sizeof(struct mc_get_session *));
    if (!held) {
        return NULL;
    }
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < count; i++) {
        held[i] = mci_map_get(&sessions->get_keys, keys[i]);
        if (held[i]) {
            held[i]->refs++;
        }
    }
    mci_sessions_unlock(sessions);
    return held;
}

/* What has expired is dropped, unless it is another one by now. */
static void drop_expired(struct mci_sessions *sessions,
                         const struct mc_view *keys, size_t count,
                         struct mc_get_session *const *held,
                         const int64_t *results)
{
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < count; i++) {
        struct mc_get_session *session = held[i];
        if (session && results[i] == MC_ERR_LEASE_EXPIRED &&
            session->key_uses > 0 &&
            mci_map_get(&sessions->get_keys, keys[i]) == session) {
            (void)mci_map_remove(&sessions->get_keys, keys[i]);
            session->key_uses = 0;
            mci_get_session_drop(sessions, session);
        }
    }
    mci_sessions_unlock(sessions);
}

enum mc_err mc_client_batch_get_into_multi_buffer_ranges(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_fragments *fragments, size_t count, int64_t *results_out)
{
    struct mci_sessions *sessions = &client->sessions;
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err != MC_OK || count == 0) {
        return mci_client_refuse(results_out, count, err);
    }
    struct mc_get_session **held = hold_gets(sessions, keys, count);
    if (!held) {
        return mci_client_refuse(results_out, count, MC_ERR_NOMEM);
    }
    err = mc_client_get_sessions_read(client, held, fragments, count, 0,
                                      results_out);
    drop_expired(sessions, keys, count, held, results_out);
    mci_get_sessions_release(sessions, held, count);
    mci_free(held);
    return err;
}

enum mc_err mc_client_batch_get_session_end(struct mc_client *client,
                                            const struct mc_view *keys,
                                            size_t count, int64_t *results_out)
{
    struct mci_sessions *sessions = &client->sessions;
    if (count > MC_ROWS_MAX || (count > 0 && !keys)) {
        return mci_client_refuse(results_out, count, MC_ERR_INVALID_PARAMS);
    }
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < count; i++) {
        struct mc_get_session *session =
            mci_map_get(&sessions->get_keys, keys[i]);
        if (session && --session->key_uses == 0) {
            (void)mci_map_remove(&sessions->get_keys, keys[i]);
            mci_get_session_drop(sessions, session);
        }
    }
    mci_sessions_unlock(sessions);
    return mci_client_refuse(results_out, count, MC_OK);
}

/* ---- put: start --------------------------------------------------------------------- */

/* The rows of a start whose keys have no session yet. */
struct putting {
    size_t *rows;
    struct mc_view *keys;
    uint64_t *sizes;
    struct mc_view *group_ids;
    struct mc_view *session_ids;
    struct mc_put_session **sessions;
    int64_t *results;
    size_t count;
};

static enum mc_err make_putting(struct putting *putting, size_t count)
{
    putting->rows = mci_alloc(count * sizeof(*putting->rows));
    putting->keys = mci_alloc(count * sizeof(*putting->keys));
    putting->sizes = mci_alloc(count * sizeof(*putting->sizes));
    putting->group_ids = mci_alloc(count * sizeof(*putting->group_ids));
    putting->session_ids = mci_alloc(count * sizeof(*putting->session_ids));
    putting->sessions = mci_calloc(count, sizeof(*putting->sessions));
    putting->results = mci_alloc(count * sizeof(*putting->results));
    bool is_made = putting->rows && putting->keys && putting->sizes &&
                   putting->group_ids && putting->session_ids &&
                   putting->sessions && putting->results;
    return is_made ? MC_OK : MC_ERR_NOMEM;
}

static void free_putting(struct putting *putting)
{
    mci_free(putting->rows);
    mci_free(putting->keys);
    mci_free(putting->sizes);
    mci_free(putting->group_ids);
    mci_free(putting->session_ids);
    mci_free(putting->sessions);
    mci_free(putting->results);
}

struct put_call {
    struct mc_client *client;
    const struct mc_view *keys;
    const uint64_t *sizes;
    const struct mc_replicate_config *config;
    size_t count;
    int64_t *results;
};

static void choose_rows(const struct put_call *call, struct putting *putting)
{
    const struct mc_replicate_config *config = call->config;
    struct mci_sessions *sessions = &call->client->sessions;
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < call->count; i++) {
        size_t k = putting->count;
        if (mci_map_get(&sessions->put_keys, call->keys[i])) {
            call->results[i] = MC_ERR_INVALID_PARAMS;
            continue;
        }
        putting->rows[k] = i;
        putting->keys[k] = call->keys[i];
        putting->sizes[k] = call->sizes[i];
        if (config && config->group_ids) {
            putting->group_ids[k] = config->group_ids[i];
        }
        if (config && config->session_ids) {
            putting->session_ids[k] = config->session_ids[i];
        }
        putting->count++;
    }
    mci_sessions_unlock(sessions);
}

/* No room in the table: it must not stay open without a name. */
static void enter_puts(const struct put_call *call, struct putting *putting)
{
    struct mci_sessions *sessions = &call->client->sessions;
    for (size_t k = 0; k < putting->count; k++) {
        struct mc_put_session *session = putting->sessions[k];
        if (session) {
            mci_sessions_lock(sessions);
            enum mc_err err = mci_map_put(&sessions->put_keys, putting->keys[k],
                                          session, NULL);
            mci_sessions_unlock(sessions);
            if (err != MC_OK) {
                int64_t result = err;
                putting->results[k] = err;
                err = mc_client_put_sessions_revoke(call->client, &session, 1,
                                                    0, &result);
                (void)err; /* what is left open ends by itself */
            }
        }
        call->results[putting->rows[k]] = putting->results[k];
    }
}

static enum mc_err start_puts(const struct put_call *call,
                              struct putting *putting)
{
    struct mc_replicate_config config = {0};
    choose_rows(call, putting);
    if (call->config) {
        config = *call->config;
    }
    if (config.group_ids) {
        config.group_ids = putting->group_ids;
        config.group_id_count = putting->count;
    }
    if (config.session_ids) {
        config.session_ids = putting->session_ids;
        config.session_id_count = putting->count;
    }
    if (putting->count == 0) {
        return MC_OK;
    }
    enum mc_err err = mc_client_put_sessions_open(
        call->client, putting->keys, putting->sizes, &config, putting->count,
        putting->sessions, putting->results);
    enter_puts(call, putting);
    return putting->count < call->count ? MC_OK : err;
}

enum mc_err mc_client_batch_put_session_start(
    struct mc_client *client, const struct mc_view *keys, const uint64_t *sizes,
    const struct mc_replicate_config *config, size_t count,
    int64_t *results_out)
{
    const struct put_call call = {.client = client,
                                  .keys = keys,
                                  .sizes = sizes,
                                  .config = config,
                                  .count = count,
                                  .results = results_out};
    struct putting putting = {.count = 0};
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err == MC_OK && count > 0 && !sizes) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err == MC_OK) {
        err = mci_client_check_config(config, count);
    }
    if (err == MC_OK && count > 0) {
        err = make_putting(&putting, count);
    }
    if (err != MC_OK || count == 0) {
        (void)mci_client_refuse(results_out, count, err);
    } else {
        err = start_puts(&call, &putting);
    }
    free_putting(&putting);
    return err;
}

/* ---- put: ranges ---------------------------------------------------------------------- */

/* The table's sessions of keys, each with a reference more, or NULL. An end has
 * only those that nobody else ends now; a key that comes twice has the same
 * session twice. */
static struct mc_put_session **hold_puts(struct mci_sessions *sessions,
                                         const struct mc_view *keys,
                                         size_t count, bool is_end)
{
    struct mc_put_session **held =
        mci_alloc(count * sizeof(struct mc_put_session *));
    if (!held) {
        return NULL;
    }
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < count; i++) {
        struct mc_put_session *session =
            mci_map_get(&sessions->put_keys, keys[i]);
        held[i] = session && is_end && session->is_ending ? NULL : session;
        if (held[i]) {
            session->refs++;
        }
    }
    for (size_t i = 0; i < count && is_end; i++) {
        if (held[i]) {
            held[i]->is_ending = true;
        }
    }
    mci_sessions_unlock(sessions);
    return held;
}

enum mc_err mc_client_batch_put_from_multi_buffer_ranges(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_fragments *fragments, size_t count, int64_t *results_out)
{
    struct mci_sessions *sessions = &client->sessions;
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err != MC_OK || count == 0) {
        return mci_client_refuse(results_out, count, err);
    }
    struct mc_put_session **held = hold_puts(sessions, keys, count, false);
    if (!held) {
        return mci_client_refuse(results_out, count, MC_ERR_NOMEM);
    }
    err = mc_client_put_sessions_write(client, held, fragments, count, 0,
                                       results_out);
    mci_put_sessions_release(sessions, held, count);
    mci_free(held);
    return err;
}

/* ---- put: end and revoke ----------------------------------------------------------------- */

typedef enum mc_err (*finish_fn)(struct mc_client *client,
                                 struct mc_put_session *const *sessions,
                                 size_t count, uint32_t timeout_ms,
                                 int64_t *results_out);

/* What is over loses its name. */
static void leave_ends(struct mci_sessions *sessions,
                       const struct mc_view *keys, size_t count,
                       struct mc_put_session *const *held)
{
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < count; i++) {
        struct mc_put_session *session = held[i];
        if (session) {
            session->is_ending = false;
        }
        if (session && session->is_over &&
            mci_map_get(&sessions->put_keys, keys[i]) == session) {
            (void)mci_map_remove(&sessions->put_keys, keys[i]);
        }
    }
    mci_sessions_unlock(sessions);
}

static enum mc_err finish(struct mc_client *client, const struct mc_view *keys,
                          size_t count, int64_t *results, finish_fn fn)
{
    enum mc_err err = mci_client_check_rows(keys, results, count);
    if (err != MC_OK || count == 0) {
        return mci_client_refuse(results, count, err);
    }
    struct mci_sessions *sessions = &client->sessions;
    struct mc_put_session **held = hold_puts(sessions, keys, count, true);
    if (!held) {
        return mci_client_refuse(results, count, MC_ERR_NOMEM);
    }
    err = fn(client, held, count, 0, results);
    leave_ends(sessions, keys, count, held);
    mci_put_sessions_release(sessions, held, count);
    mci_free(held);
    return err;
}

enum mc_err mc_client_batch_put_session_end(struct mc_client *client,
                                            const struct mc_view *keys,
                                            size_t count, int64_t *results_out)
{
    return finish(client, keys, count, results_out, mc_client_put_sessions_end);
}

enum mc_err mc_client_batch_put_session_revoke(struct mc_client *client,
                                               const struct mc_view *keys,
                                               size_t count,
                                               int64_t *results_out)
{
    return finish(client, keys, count, results_out,
                  mc_client_put_sessions_revoke);
}
