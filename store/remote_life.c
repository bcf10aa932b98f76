/* SPDX-License-Identifier: Apache-2.0 */
/* The heartbeat thread. Each beat says what this client knows and learns what
 * it has to do; it has a connection and memory of its own and takes no lock for
 * longer than a copy, so nothing that the application does keeps it waiting but
 * its own callbacks.
 *
 * Beats come every heartbeat_ms, and at once when fences were carried out, when
 * a request was given up, or when a call has seen that we are not known. When
 * the master cannot be reached, connecting is tried soon, and then once per
 * period.
 */
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_thread.h"
#include "remote.h"

#define BEAT_GAP_NS (20 * MCI_NS_PER_MS) /* between beats that are hurried */
#define ANSWER_MS_MIN 1000
#define HURRIES 3 /* beats after a failure come in 1/8, 1/4, 1/2 of a period */

enum health { HEALTH_GOOD = 0, HEALTH_UNKNOWN = 1, HEALTH_UNREACHED = 2 };

/* ---- waking -------------------------------------------------------------- */

void mci_remote_life_hurry(struct mci_remote *remote)
{
    (void)pthread_mutex_lock(&remote->lock);
    remote->life.is_due = true;
    (void)pthread_cond_signal(&remote->life.wake);
    (void)pthread_mutex_unlock(&remote->lock);
}

/* The next beat will ask the master itself. */
void mci_remote_life_suspect(struct mci_remote *remote, uint64_t generation)
{
    if (atomic_load(&remote->generation) == generation) {
        mci_remote_life_hurry(remote);
    }
}

bool mci_remote_life_is_current(const struct mci_remote *remote)
{
    return remote->life.is_started &&
           pthread_equal(pthread_self(), remote->life.thread) != 0;
}

/* ---- one beat ------------------------------------------------------------ */

/* How long connecting or an answer is waited for. */
static uint64_t patience_ns(const struct mci_remote *remote)
{
    uint64_t ms = 2 * (uint64_t)remote->heartbeat_ms;
    if (ms < ANSWER_MS_MIN) {
        ms = ANSWER_MS_MIN;
    }
    if (ms > remote->connect_timeout_ms) {
        ms = remote->connect_timeout_ms;
    }
    return ms * MCI_NS_PER_MS;
}

/* What is still in the way of peers that are stopped. */
static void ask_what_is_stuck(struct mci_remote *remote)
{
    struct remote_life *life = &remote->life;
    size_t count = 0;
    if (life->stuck_count == 0 || !remote->events.fence) {
        return;
    }
    if (remote->events.fence(remote->events.ctx, NULL, 0, life->stuck,
                             &count) == MC_OK) {
        life->stuck_count = count <= MC_ATTEMPTS_MAX ? count : MC_ATTEMPTS_MAX;
    }
}

static enum mc_err send_beat(struct mci_remote *remote,
                             struct mci_request *request)
{
    struct remote_life *life = &remote->life;
    uint64_t numbers[MCI_SLOTS_MAX];
    struct mci_pack pack;
    bool is_whole = false;
    uint64_t now_ns = mci_clock_ns();
    struct mci_heartbeat beat = {.fences_done = life->fences_done,
                                 .slots = numbers,
                                 .attempts = life->attempts,
                                 .stuck = life->stuck,
                                 .stuck_count = (uint32_t)life->stuck_count};
    /* Slots before the book: remote.h says why. */
    beat.slot_count = mci_remote_slots_list(
        remote, atomic_load(&remote->generation), numbers);
    beat.attempt_count =
        mci_remote_book_list(&remote->book, now_ns, life->attempts);
    beat.clock_ns = mci_clock_ns();
    mci_remote_wire_begin(&life->wire, &pack);
    mci_heartbeat_pack(&pack, &beat);
    enum mc_err err = mci_pack_done(&pack);
    if (err != MC_OK) {
        return err;
    }
    uint64_t patience = patience_ns(remote);
    struct mci_remote_self self = mci_remote_self(remote);
    *request = (struct mci_request){.version = MCI_CONTROL_VERSION,
                                    .op = MCI_OP_HEARTBEAT,
                                    .number = ++life->number,
                                    .time_left_ms =
                                        (uint32_t)(patience / MCI_NS_PER_MS),
                                    .client = self.client,
                                    .incarnation = self.incarnation,
                                    .epoch = self.epoch};
    return mci_remote_wire_send(&life->wire, request, now_ns + patience,
                                &is_whole);
}

/* MC_ERR_CLIENT_NOT_FOUND: we are not known. */
static enum mc_err exchange_beat(struct mci_remote *remote,
                                 struct mci_pulse *pulse)
{
    struct remote_life *life = &remote->life;
    struct mci_request request;
    struct mci_answer answer;
    struct mci_unpack unpack;
    enum mc_err err = send_beat(remote, &request);
    if (err == MC_OK) {
        err = mci_remote_wire_recv(&life->wire, &request,
                                   mci_clock_ns() + patience_ns(remote),
                                   &answer, &unpack);
    }
    if (err != MC_OK || answer.code != MC_OK) {
        return err != MC_OK ? err : answer.code;
    }
    mci_pulse_unpack(&unpack, &life->room, pulse);
    if (mci_unpack_done(&unpack) != MCI_UNPACK_OK) {
        mc_log(MC_LOG_WARN, "master %s: heartbeat: cannot be read",
               remote->address.host);
        return MC_ERR_RPC_FAIL;
    }
    return MC_OK;
}

/* ---- what a pulse brings ------------------------------------------------- */

/* Fences that were carried out already are told again until the master has
 * heard of it. They rise by number. */
static void carry_out_fences(struct mci_remote *remote,
                             const struct mci_pulse *pulse)
{
    struct remote_life *life = &remote->life;
    uint32_t at = 0;
    while (at < pulse->fence_count &&
           pulse->fences[at].number <= life->fences_done) {
        at++;
    }
    uint32_t count = pulse->fence_count - at;
    if (count == 0) {
        return;
    }
    size_t stuck_count = 0;
    enum mc_err err = MC_OK;
    if (remote->events.fence) {
        err = remote->events.fence(remote->events.ctx, &pulse->fences[at],
                                   count, life->stuck, &stuck_count);
    }
    if (err != MC_OK || stuck_count > MC_ATTEMPTS_MAX) {
        mc_log(MC_LOG_WARN, "%u fences: %s; they will be tried again", count,
               mc_err_text(err));
        return;
    }
    life->stuck_count = stuck_count;
    life->fences_done = pulse->fences[pulse->fence_count - 1].number;
    life->has_news = true;
}

static bool fences_rise(const struct mci_pulse *pulse)
{
    for (uint32_t i = 1; i < pulse->fence_count; i++) {
        if (pulse->fences[i].number <= pulse->fences[i - 1].number) {
            return false;
        }
    }
    return true;
}

static void take_pulse(struct mci_remote *remote, const struct mci_pulse *pulse)
{
    struct mci_remote_events *events = &remote->events;
    mci_remote_book_renew(&remote->book, pulse->renewals, pulse->renewal_count);
    for (uint32_t i = 0; i < pulse->closed_count; i++) {
        mci_remote_book_leave(&remote->book, pulse->closed[i]);
    }
    if (pulse->closed_count > 0 && events->closed) {
        events->closed(events->ctx, pulse->closed, pulse->closed_count);
    }
    if (fences_rise(pulse)) {
        carry_out_fences(remote, pulse);
    } else {
        mc_log(MC_LOG_WARN, "master %s: fences out of order",
               remote->address.host);
    }
}

/* Who waits for the first one is told. */
static void count_heartbeat(struct mci_remote *remote)
{
    (void)pthread_mutex_lock(&remote->lock);
    if (atomic_fetch_add(&remote->heartbeats, 1) == 0) {
        (void)pthread_cond_broadcast(&remote->changed);
    }
    (void)pthread_mutex_unlock(&remote->lock);
}

void mci_remote_await_heartbeat(struct mci_remote *remote, uint64_t deadline_ns)
{
    (void)pthread_mutex_lock(&remote->lock);
    while (atomic_load(&remote->heartbeats) == 0 &&
           mci_clock_ns() < deadline_ns) {
        mci_remote_wait(remote, &remote->changed, deadline_ns);
    }
    (void)pthread_mutex_unlock(&remote->lock);
}

/* A master places nothing in the memory of a client whose clock it has not
 * heard of, so a new incarnation says it before anything is mounted. What
 * fails here is tried again by the next beat. */
static bool beat_first(struct mci_remote *remote)
{
    struct mci_pulse pulse = {.fence_count = 0};
    if (exchange_beat(remote, &pulse) != MC_OK) {
        mci_remote_wire_drop(&remote->life.wire);
        return false;
    }
    count_heartbeat(remote);
    take_pulse(remote, &pulse);
    return true;
}

/* ---- a new incarnation --------------------------------------------------- */

static void begin_anew(struct mci_remote *remote,
                       const struct remote_hello *hello)
{
    struct remote_life *life = &remote->life;
    life->is_lost = false;
    life->incarnation = 0;
    life->fences_done = 0;
    life->stuck_count = 0;
    /* What the old one wrote is over before anybody writes as the new one. */
    uint64_t next = atomic_load(&remote->generation) + 1;
    mci_remote_book_clear(&remote->book, next);
    mci_remote_segments_void(&remote->segments, next, mci_clock_ns());
    mci_remote_adopt(remote, hello);
    atomic_fetch_add(&remote->renewals, 1);
    atomic_store(&remote->health, HEALTH_GOOD);
    mc_log(MC_LOG_INFO, "master %s: known as client %u from now on",
           remote->address.host, hello->self.client);
    (void)beat_first(remote);
    if (remote->events.renewed) {
        remote->events.renewed(remote->events.ctx);
    }
    life->has_news = true;
}

/* Asks for a new incarnation, the same one until it is granted. */
static enum mc_err renew(struct mci_remote *remote)
{
    struct remote_life *life = &remote->life;
    enum mc_err err = MC_OK;
    if (life->incarnation == 0) {
        err = mci_remote_draw_incarnation(&life->incarnation);
    }
    if (err != MC_OK) {
        return err;
    }
    struct remote_hello hello = {.role = MCI_ROLE_HEARTBEAT,
                                 .deadline_ns =
                                     mci_clock_ns() + patience_ns(remote),
                                 .self = {.incarnation = life->incarnation}};
    err = mci_remote_hello(remote, &life->wire, &hello);
    if (err == MC_ERR_CLIENT_NOT_FOUND) {
        life->incarnation = 0; /* that one has been expired meanwhile */
    }
    if (err == MC_OK) {
        begin_anew(remote, &hello);
    }
    return err;
}

static enum mc_err reconnect(struct mci_remote *remote)
{
    struct remote_hello hello = {.role = MCI_ROLE_HEARTBEAT,
                                 .deadline_ns =
                                     mci_clock_ns() + patience_ns(remote),
                                 .self = mci_remote_self(remote)};
    return mci_remote_hello(remote, &remote->life.wire, &hello);
}

/* ---- the thread ---------------------------------------------------------- */

static void note_health(struct mci_remote *remote, enum mc_err err)
{
    enum health health = HEALTH_UNREACHED;
    if (err == MC_OK) {
        health = HEALTH_GOOD;
    } else if (remote->life.is_lost && err != MC_ERR_RPC_FAIL &&
               err != MC_ERR_RPC_TIMEOUT) {
        health = HEALTH_UNKNOWN;
    }
    int before = atomic_exchange(&remote->health, (int)health);
    if (before != (int)health) {
        mc_log(health == HEALTH_GOOD ? MC_LOG_INFO : MC_LOG_WARN,
               "master %s: %s", remote->address.host,
               health == HEALTH_GOOD ? "answers" : mc_err_text(err));
    }
}

/* A connection that was idle may have been closed long ago; then another one is
 * made within the same beat. */
static enum mc_err reach_and_exchange(struct mci_remote *remote,
                                      struct mci_pulse *pulse)
{
    struct remote_life *life = &remote->life;
    bool was_idle = life->wire.stream != NULL;
    enum mc_err err = was_idle ? MC_OK : reconnect(remote);
    if (err == MC_OK) {
        err = exchange_beat(remote, pulse);
    }
    if (err == MC_ERR_RPC_FAIL && was_idle) {
        err = reconnect(remote);
        if (err == MC_OK) {
            err = exchange_beat(remote, pulse);
        }
    }
    return err;
}

static enum mc_err beat(struct mci_remote *remote)
{
    struct remote_life *life = &remote->life;
    struct mci_pulse pulse = {.fence_count = 0};
    life->has_news = false;
    if (life->is_lost) {
        return renew(remote);
    }
    ask_what_is_stuck(remote);
    enum mc_err err = reach_and_exchange(remote, &pulse);
    if (err == MC_ERR_CLIENT_NOT_FOUND) {
        life->is_lost = true;
        atomic_store(&remote->health, HEALTH_UNKNOWN);
        return renew(remote);
    }
    if (err == MC_OK) {
        count_heartbeat(remote);
        take_pulse(remote, &pulse);
    }
    return err;
}

/* After a beat that failed the next ones come sooner, since a master waits for
 * two periods after a connection was closed. */
static unsigned hurry_of(const struct remote_life *life)
{
    return life->failures > 0 && life->failures <= HURRIES
               ? HURRIES + 1 - life->failures
               : 0;
}

/* Waits for the next beat; false: the end. */
static bool await_beat(struct mci_remote *remote, uint64_t begun_ns)
{
    struct remote_life *life = &remote->life;
    (void)pthread_mutex_lock(&remote->lock);
    uint64_t period_ns = (uint64_t)remote->heartbeat_ms * MCI_NS_PER_MS;
    uint64_t due_ns = begun_ns + (period_ns >> hurry_of(life));
    bool is_good = atomic_load(&remote->health) == HEALTH_GOOD;
    uint64_t gap_ns = is_good ? BEAT_GAP_NS : period_ns / 2;
    while (!atomic_load(&life->stops)) {
        uint64_t now_ns = mci_clock_ns();
        uint64_t until_ns = life->is_due ? begun_ns + gap_ns : due_ns;
        if (life->has_news || now_ns >= until_ns || now_ns < begun_ns) {
            break;
        }
        mci_remote_wait(remote, &life->wake, until_ns);
    }
    life->is_due = false;
    (void)pthread_mutex_unlock(&remote->lock);
    return !atomic_load(&life->stops);
}

static void *run_life(void *ctx)
{
    struct mci_remote *remote = ctx;
    uint64_t begun_ns = remote->life.begun_ns;
    while (await_beat(remote, begun_ns)) {
        begun_ns = mci_clock_ns();
        enum mc_err err = beat(remote);
        if (err != MC_OK) {
            mci_remote_wire_drop(&remote->life.wire);
        }
        remote->life.failures = err == MC_OK ? 0 : remote->life.failures + 1;
        mci_remote_wire_trim(&remote->life.wire);
        /* A beat that was broken off by the end says nothing of the master, and
         * goodbye is to be said to it. */
        if (err == MC_OK || !atomic_load(&remote->life.stops)) {
            note_health(remote, err);
        }
    }
    return NULL;
}

/* ---- beginning and end --------------------------------------------------- */

static enum mc_err make_rooms(struct remote_life *life)
{
    struct mci_pulse_room *room = &life->room;
    life->attempts = mci_alloc(MC_ATTEMPTS_MAX * sizeof *life->attempts);
    life->stuck = mci_alloc(MC_ATTEMPTS_MAX * sizeof *life->stuck);
    room->fences = mci_alloc(MCI_FENCES_MAX * sizeof *room->fences);
    room->closed = mci_alloc(MC_ATTEMPTS_MAX * sizeof *room->closed);
    room->renewals = mci_alloc(MC_ATTEMPTS_MAX * sizeof *room->renewals);
    bool is_whole = life->attempts && life->stuck && room->fences &&
                    room->closed && room->renewals;
    return is_whole ? MC_OK : MC_ERR_NOMEM;
}

enum mc_err mci_remote_life_start(struct mci_remote *remote)
{
    struct remote_life *life = &remote->life;
    enum mc_err err = make_rooms(life);
    if (err != MC_OK) {
        return err;
    }
    life->begun_ns = beat_first(remote) ? mci_clock_ns() : 0;
    (void)pthread_mutex_lock(&remote->lock);
    life->is_started =
        mci_thread_start(&life->thread, NULL, run_life, remote) == 0;
    (void)pthread_mutex_unlock(&remote->lock);
    return life->is_started ? MC_OK : MC_ERR_INTERNAL_ERROR;
}

void mci_remote_life_stop(struct mci_remote *remote)
{
    struct remote_life *life = &remote->life;
    (void)pthread_mutex_lock(&remote->lock);
    atomic_store(&life->stops, true);
    (void)pthread_cond_signal(&life->wake);
    (void)pthread_mutex_unlock(&remote->lock);
    if (life->is_started) {
        (void)pthread_join(life->thread, NULL);
        life->is_started = false;
    }
}

void mci_remote_life_fini(struct mci_remote *remote)
{
    struct remote_life *life = &remote->life;
    mci_remote_wire_fini(&life->wire);
    mci_free(life->attempts);
    mci_free(life->stuck);
    mci_free(life->room.fences);
    mci_free(life->room.closed);
    mci_free(life->room.renewals);
}
