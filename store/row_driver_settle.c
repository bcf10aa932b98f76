/* SPDX-License-Identifier: Apache-2.0 */
/* row_driver_settle.c - keys that puts of a driver have, and those whose end was
 * not answered.
 *
 * To revoke is to ask: the client tells what became of an attempt that the master
 * has not open any more. So a revoke that is answered settles a key, whatever it
 * answers, and nothing late can touch what is put under the key afterwards.
 */
#include <signal.h>
#include <string.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_cond.h"
#include "row_driver.h"

#define SOME 256
#define CALL_MS 1000
#define PAUSE_MIN_NS (100 * MCI_NS_PER_MS)
#define PAUSE_MAX_NS (2 * MCI_NS_PER_S)

/* ---- claims --------------------------------------------------------------------- */

static struct mc_view key_of(const struct mci_row_claim *claim)
{
    return mc_view_make(claim->key, claim->key_len);
}

enum mc_row_reason mci_row_claim(struct mc_row_driver *driver,
                                 struct mc_view key,
                                 struct mci_row_claim **claim_out)
{
    struct mci_row_claim *claim = mci_alloc(sizeof *claim + key.len);
    enum mc_row_reason reason = MC_ROW_REASON_NO_MEMORY;
    if (!claim) {
        return reason;
    }
    mci_list_init(&claim->link);
    claim->session = NULL;
    claim->key_len = key.len;
    memcpy(claim->key, key.data, key.len);
    mci_rows_lock(driver);
    if (mci_map_get(&driver->claims, key)) {
        reason = MC_ROW_REASON_WRITTEN_HERE;
    } else if (mci_map_put(&driver->claims, key, claim, NULL) == MC_OK) {
        driver->stats.keys_written++;
        reason = MC_ROW_REASON_NONE;
    }
    mci_rows_unlock(driver);
    if (reason != MC_ROW_REASON_NONE) {
        mci_free(claim);
        return reason;
    }
    *claim_out = claim;
    return reason;
}

void mci_row_unclaim(struct mc_row_driver *driver, struct mci_row_claim *claim)
{
    (void)mci_map_remove(&driver->claims, key_of(claim));
    driver->stats.keys_written--;
    mci_free(claim);
}

/* ---- settling ---------------------------------------------------------------------- */

/* Some of those that are left; who calls is the only one who does. Returns how
 * many are settled. The lock is held, and left meanwhile. */
static size_t settle_some(struct mc_row_driver *driver, uint64_t deadline_ns)
{
    struct mci_row_claim *claims[SOME];
    struct mc_put_session *sessions[SOME];
    int64_t results[SOME];
    size_t count = 0;
    size_t settled = 0;
    for (struct mci_link *at = driver->left.next;
         at != &driver->left && count < SOME; at = at->next) {
        claims[count] = MCI_CONTAINER(at, struct mci_row_claim, link);
        sessions[count] = claims[count]->session;
        count++;
    }
    mci_rows_unlock(driver);
    const struct mci_put_finish revoke = {.client = driver->client,
                                          .sessions = sessions,
                                          .count = count,
                                          .deadline_ns = deadline_ns,
                                          .is_revoke = true};
    enum mc_err err = mci_put_sessions_finish(&revoke, results);
    (void)err; /* every row holds it */
    mci_rows_lock(driver);
    for (size_t i = 0; i < count; i++) {
        mci_list_remove(&claims[i]->link);
        if (results[i] == MC_OK || results[i] == MC_ERR_INVALID_VERSION) {
            mci_row_unclaim(driver, claims[i]);
            driver->stats.keys_unsettled--;
            driver->stats.keys_settled++;
            settled++;
        } else { /* behind those that were not asked about */
            mci_list_push_back(&driver->left, &claims[i]->link);
        }
    }
    return settled;
}

static uint64_t longer(uint64_t pause_ns)
{
    return pause_ns < PAUSE_MAX_NS / 2 ? 2 * pause_ns : PAUSE_MAX_NS;
}

/* From a drain on it makes no request, so that whoever drained is alone with the
 * store. */
static bool may_settle(const struct mc_row_driver *driver)
{
    return !driver->is_closing && !mci_list_is_empty(&driver->left);
}

static void *settle(void *ctx)
{
    struct mc_row_driver *driver = ctx;
    uint64_t pause_ns = PAUSE_MIN_NS;
    uint64_t next_ns = 0;
    (void)pthread_setname_np(pthread_self(), "mckv-rows-end");
    mci_rows_lock(driver);
    while (!driver->settler_stops) {
        uint64_t now_ns = mci_clock_ns();
        if (!may_settle(driver)) {
            (void)pthread_cond_wait(&driver->wake, &driver->lock);
            pause_ns = PAUSE_MIN_NS;
            next_ns = mci_clock_ns() + pause_ns;
        } else if (now_ns < next_ns) {
            mci_cond_wait(&driver->wake, &driver->lock, next_ns);
        } else {
            bool is_some =
                settle_some(driver, mci_clock_deadline(now_ns, CALL_MS)) > 0;
            pause_ns = is_some ? PAUSE_MIN_NS : longer(pause_ns);
            next_ns = mci_clock_ns() + pause_ns;
        }
    }
    mci_rows_unlock(driver);
    return NULL;
}

/* The lock is held. Without the thread, close settles. */
static void start_settler(struct mc_row_driver *driver)
{
    sigset_t all;
    sigset_t before;
    if (driver->has_settler) {
        return;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    driver->has_settler =
        pthread_create(&driver->settler, NULL, settle, driver) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void mci_row_leave(struct mc_row_driver *driver, struct mci_row_claim *claim,
                   struct mc_put_session *session)
{
    claim->session = session;
    mci_list_push_back(&driver->left, &claim->link);
    driver->stats.keys_unsettled++;
    start_settler(driver);
    (void)pthread_cond_signal(&driver->wake);
}

/* ---- the end -------------------------------------------------------------------------- */

static void stop_settler(struct mc_row_driver *driver)
{
    mci_rows_lock(driver);
    bool has_settler = driver->has_settler;
    driver->settler_stops = true;
    (void)pthread_cond_broadcast(&driver->wake);
    mci_rows_unlock(driver);
    if (has_settler) {
        (void)pthread_join(driver->settler, NULL);
    }
}

static void forget_claims(struct mc_row_driver *driver)
{
    struct mc_view key;
    void *value = NULL;
    size_t cursor = 0;
    while (mci_map_next(&driver->claims, &cursor, &key, &value)) {
        struct mci_row_claim *claim = value;
        if (claim->session) {
            mci_put_session_give_up(&driver->client->sessions, claim->session);
        }
        mci_free(claim);
    }
    mci_map_fini(&driver->claims);
}

void mci_rows_settle_all(struct mc_row_driver *driver, uint64_t deadline_ns)
{
    stop_settler(driver);
    mci_rows_lock(driver);
    while (!mci_list_is_empty(&driver->left) && mci_clock_ns() < deadline_ns) {
        if (settle_some(driver, deadline_ns) == 0) {
            mci_cond_wait(&driver->wake, &driver->lock, deadline_ns);
        }
    }
    uint64_t left = driver->stats.keys_unsettled;
    mci_rows_unlock(driver);
    if (left > 0) {
        mc_log(MC_LOG_WARN, "row driver: %ju keys are left to the master",
               (uintmax_t)left);
    }
    forget_claims(driver);
}
