/* SPDX-License-Identifier: Apache-2.0 */
/* registry_members.c - clients come, miss heartbeats, and go.
 *
 * A name stays taken until whoever has to hear of the end of its holder has
 * heard of it, so that a new holder's words are never undone by the old one's
 * end. An incarnation that has ended is remembered, and never lives again.
 */
#include <string.h>

#include "mci_alloc.h"
#include "mci_utf8.h"
#include "registry_parts.h"

#define SOFTWARE "mckv"
#define DELETE_CHARACTER 0x7f
#define MEMBERS_MIN 64

static char past; /* what ended incarnations are mapped to */

bool mci_text_is_sound(struct mc_view text)
{
    const unsigned char *bytes = text.data;
    if (text.len > MCI_NAME_LEN_MAX || !mci_utf8_valid(bytes, text.len)) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (bytes[i] < ' ' || bytes[i] == DELETE_CHARACTER) {
            return false;
        }
    }
    return true;
}

/* ---- counting ---------------------------------------------------------- */

struct mci_member *mci_member_hold(struct mci_member *member)
{
    atomic_fetch_add(&member->refs, 1);
    return member;
}

void mci_member_release(struct mci_member *member)
{
    if (!member || atomic_fetch_sub(&member->refs, 1) != 1) {
        return;
    }
    mci_book_fini(&member->book);
    (void)pthread_mutex_destroy(&member->book_lock);
    mci_free(member->name);
    mci_free(member->host);
    mci_free(member);
}

uint32_t mci_member_client(const struct mci_member *member)
{
    return member->client;
}

struct mci_member *mci_member_at(const struct mci_registry *registry,
                                 uint32_t client)
{
    return client < registry->member_max ? registry->members[client] : NULL;
}

enum mc_err mci_registry_member(struct mci_registry *registry, uint32_t client,
                                uint64_t incarnation,
                                struct mci_member **member_out)
{
    enum mc_err err = MC_ERR_CLIENT_NOT_FOUND;
    mci_registry_lock(registry);
    struct mci_member *member = mci_member_at(registry, client);
    if (member && member->incarnation == incarnation &&
        member->stage == MCI_STAGE_LIVING) {
        *member_out = mci_member_hold(member);
        err = MC_OK;
    }
    mci_registry_unlock(registry);
    return err;
}

/* ---- coming ------------------------------------------------------------ */

static struct mc_view key_of(const uint64_t *incarnation)
{
    return mc_view_make(incarnation, sizeof *incarnation);
}

static enum mc_err check_hello(struct mci_registry *registry,
                               const struct mci_hello *hello)
{
    if (hello->incarnation == 0 || !mci_text_is_sound(hello->name) ||
        !mci_text_is_sound(hello->host_id)) {
        return MC_ERR_INVALID_PARAMS;
    }
    return mci_master_tenant_check(registry->opts.master, hello->tenant);
}

static void fill_welcome(const struct mci_registry *registry,
                         const struct mci_member *member,
                         struct mci_welcome *welcome_out)
{
    *welcome_out = (struct mci_welcome){
        .version_min = MCI_CONTROL_VERSION,
        .version_max = MCI_CONTROL_VERSION,
        .epoch = registry->opts.epoch,
        .client = member->client,
        .client_ttl_ms = (uint32_t)(registry->ttl_ns / MCI_NS_PER_MS),
        .heartbeat_ms = (uint32_t)(registry->heartbeat_ns / MCI_NS_PER_MS),
        .software = mc_view_str(SOFTWARE)};
}

/* What stands against a hello, or for it: one that is known; a holder of the name
 * that has missed too much (counted). lock is held. */
static enum mc_err look_up(struct mci_registry *registry,
                           const struct mci_hello *hello, uint64_t now_ns,
                           struct mci_member **known_out,
                           struct mci_member **holder_out)
{
    void *found =
        mci_map_get(&registry->incarnations, key_of(&hello->incarnation));
    if (found == &past) {
        return MC_ERR_CLIENT_NOT_FOUND;
    }
    if (found) {
        *known_out = found;
        return MC_OK;
    }
    struct mci_member *holder =
        hello->name.len > 0 ? mci_map_get(&registry->names, hello->name) : NULL;
    if (!holder) {
        return MC_OK;
    }
    uint64_t missed_ns = holder->seen_ns + MCI_MISSES * registry->heartbeat_ns;
    if (holder->stage != MCI_STAGE_LIVING || now_ns <= missed_ns ||
        now_ns < registry->away_until_ns) {
        return MC_ERR_SEGMENT_ALREADY_EXISTS;
    }
    *holder_out = mci_member_hold(holder);
    return MC_OK;
}

static struct mci_member *make_member(struct mci_registry *registry,
                                      const struct mci_hello *hello)
{
    struct mci_member *member = mci_calloc(1, sizeof *member);
    char *name = mci_strdup_n(hello->name.data, hello->name.len);
    char *host = mci_strdup_n(hello->host_id.data, hello->host_id.len);
    if (!member || !name || !host) {
        mci_free(member);
        mci_free(name);
        mci_free(host);
        return NULL;
    }
    atomic_init(&member->refs, 1);
    member->registry = registry;
    member->incarnation = hello->incarnation;
    member->name = name;
    member->host = host;
    mci_list_init(&member->link);
    mci_list_init(&member->pending);
    mci_list_init(&member->segments);
    mci_list_init(&member->covers);
    (void)pthread_mutex_init(&member->book_lock, NULL);
    return member;
}

static enum mc_err grow_members(struct mci_registry *registry, uint32_t client)
{
    uint32_t max = registry->member_max ? registry->member_max : MEMBERS_MIN;
    while (max <= client) {
        max *= 2;
    }
    if (max == registry->member_max) {
        return MC_OK;
    }
    struct mci_member **members =
        mci_realloc(registry->members, max * sizeof *members);
    if (!members) {
        return MC_ERR_NOMEM;
    }
    memset(&members[registry->member_max], 0,
           (max - registry->member_max) * sizeof *members);
    registry->members = members;
    registry->member_max = max;
    return MC_OK;
}

/* lock is held. All or nothing; takes over the reference. */
static enum mc_err enter(struct mci_registry *registry,
                         struct mci_member *member, uint64_t now_ns)
{
    struct mc_view name = mc_view_str(member->name);
    enum mc_err err = grow_members(registry, member->client);
    if (err == MC_OK) {
        err = mci_map_put(&registry->incarnations, key_of(&member->incarnation),
                          member, NULL);
    }
    if (err == MC_OK && name.len > 0) {
        err = mci_map_put(&registry->names, name, member, NULL);
        if (err != MC_OK) {
            (void)mci_map_remove(&registry->incarnations,
                                 key_of(&member->incarnation));
        }
    }
    if (err != MC_OK) {
        return MC_ERR_NOMEM;
    }
    registry->members[member->client] = member;
    member->seen_ns = now_ns;
    mci_list_push_back(&registry->living, &member->link);
    registry->living_count++;
    return MC_OK;
}

/* Enters a new member, unless another thread has entered one meanwhile. */
static enum mc_err admit(struct mci_registry *registry,
                         const struct mci_hello *hello, uint64_t now_ns,
                         struct mci_welcome *welcome_out)
{
    struct mci_master *master = registry->opts.master;
    struct mci_member *member = make_member(registry, hello);
    if (!member) {
        return MC_ERR_NOMEM;
    }
    struct mci_member *known = NULL;
    struct mci_member *holder = NULL;
    mci_registry_lock(registry);
    enum mc_err err = look_up(registry, hello, now_ns, &known, &holder);
    if (err == MC_OK && holder) {
        err = MC_ERR_SEGMENT_ALREADY_EXISTS;
    }
    if (err == MC_OK && !known) {
        err = mci_master_client_add_on(master, hello->host_id, &member->client);
    }
    if (err == MC_OK && !known) {
        err = enter(registry, member, now_ns);
        if (err != MC_OK) {
            mci_master_client_expire(master, member->client);
            mci_master_client_fenced(master, member->client);
        }
    }
    if (err == MC_OK) {
        fill_welcome(registry, known ? known : member, welcome_out);
    }
    bool is_in = err == MC_OK && !known;
    mci_registry_unlock(registry);
    mci_member_release(holder);
    if (!is_in) {
        mci_member_release(member);
    }
    return err;
}

enum mc_err mci_registry_hello(struct mci_registry *registry,
                               const struct mci_hello *hello, uint64_t now_ns,
                               struct mci_welcome *welcome_out)
{
    enum mc_err err = check_hello(registry, hello);
    if (err != MC_OK) {
        return err;
    }
    struct mci_member *known = NULL;
    struct mci_member *holder = NULL;
    mci_registry_lock(registry);
    err = look_up(registry, hello, now_ns, &known, &holder);
    if (err == MC_OK && known) {
        fill_welcome(registry, known, welcome_out);
    }
    mci_registry_unlock(registry);
    if (err != MC_OK || known) {
        return err;
    }
    if (holder) {
        mci_member_end(registry, holder, true);
        mci_member_release(holder);
    }
    return admit(registry, hello, now_ns, welcome_out);
}

/* ---- going ------------------------------------------------------------- */

/* The incarnation never lives again; of so many that the oldest are forgotten.
 * lock is held. */
static void note_past(struct mci_registry *registry, uint64_t incarnation)
{
    uint64_t *place = &registry->past[registry->past_at];
    registry->past_at = (registry->past_at + 1) % MCI_PAST_MAX;
    if (*place != 0) {
        (void)mci_map_remove(&registry->incarnations, key_of(place));
    }
    *place = incarnation;
    /* It is in the map, so this replaces and needs no memory. */
    (void)!mci_map_put(&registry->incarnations, key_of(&incarnation), &past,
                       NULL);
}

/* lock is held. */
static void begin_leaving(struct mci_registry *registry,
                          struct mci_member *member, bool is_expired)
{
    member->stage = MCI_STAGE_LEAVING;
    note_past(registry, member->incarnation);
    mci_list_remove(&member->link);
    mci_list_push_back(&registry->leaving, &member->link);
    registry->living_count--;
    registry->expired_count += is_expired;
    registry->left_count += !is_expired;
    registry->fences_open -= member->fences_issued - member->fences_done;
    member->fences_done = member->fences_issued;
    mci_master_client_expire(registry->opts.master, member->client);
    struct mci_link *link = member->segments.next;
    for (; link != &member->segments; link = link->next) {
        mci_mounted_close(registry,
                          MCI_CONTAINER(link, struct mci_mounted, link));
    }
    mci_doubts_let_go(registry, member, 0);
}

void mci_member_end(struct mci_registry *registry, struct mci_member *member,
                    bool is_expired)
{
    struct mc_view name = mc_view_str(member->name);
    mci_registry_lock(registry);
    bool was_living = member->stage == MCI_STAGE_LIVING;
    if (was_living) {
        begin_leaving(registry, member, is_expired);
    }
    mci_registry_unlock(registry);
    if (!was_living || name.len == 0) {
        return;
    }
    if (registry->opts.expired) {
        registry->opts.expired(registry->opts.ctx, name);
    }
    mci_registry_lock(registry);
    (void)mci_map_remove(&registry->names, name);
    mci_registry_unlock(registry);
}

void mci_registry_goodbye(struct mci_registry *registry,
                          struct mci_member *member, uint64_t now_ns)
{
    (void)now_ns;
    mci_member_end(registry, member, false);
}

void mci_registry_hung_up(struct mci_registry *registry,
                          struct mci_member *member, uint64_t now_ns)
{
    mci_registry_lock(registry);
    if (member->stage == MCI_STAGE_LIVING && !member->is_hung_up) {
        member->is_hung_up = true;
        member->due_ns = now_ns + MCI_MISSES * registry->heartbeat_ns;
        mci_list_remove(&member->link);
        mci_list_push_back(&registry->hung_up, &member->link);
    }
    mci_registry_unlock(registry);
}
