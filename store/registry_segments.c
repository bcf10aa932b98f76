/* SPDX-License-Identifier: Apache-2.0 */
/* registry_segments.c - what members lend.
 *
 * A segment is known by the number the core gave it, whose lower bits are a
 * slot; so one array finds it. Nothing is placed on it before its owner's clock
 * is known, since no grant could be made.
 */
#include <string.h>

#include "mci_alloc.h"
#include "registry_parts.h"

/* ---- finding ----------------------------------------------------------- */

struct mci_mounted *mci_mounted_at(const struct mci_registry *registry,
                                   uint32_t segment)
{
    struct mci_mounted *mounted =
        registry->mounted[segment & (MCI_SEGMENTS_MAX - 1)];
    return mounted && segment != 0 && mounted->id == segment ? mounted : NULL;
}

static struct mci_mounted *find_by_id(const struct mci_member *member,
                                      const uint64_t id[2])
{
    struct mci_link *link = member->segments.next;
    for (; link != &member->segments; link = link->next) {
        struct mci_mounted *mounted =
            MCI_CONTAINER(link, struct mci_mounted, link);
        if (mounted->mount.id[0] == id[0] && mounted->mount.id[1] == id[1]) {
            return mounted;
        }
    }
    return NULL;
}

/* ---- mounting ---------------------------------------------------------- */

static enum mc_err check_mount(const struct mci_mount *mount)
{
    bool is_sound =
        mount->bytes > 0 && mount->base != 0 &&
        mount->bytes <= UINT64_MAX - mount->base &&
        mci_text_is_sound(mount->name) && mci_text_is_sound(mount->endpoint) &&
        mci_text_is_sound(mount->shm) && mci_text_is_sound(mount->protocol);
    return is_sound ? MC_OK : MC_ERR_INVALID_PARAMS;
}

static struct mc_view keep_text(char *room, struct mc_view text)
{
    if (text.len > 0) {
        memcpy(room, text.data, text.len);
    }
    room[text.len] = '\0';
    return mc_view_make(text.len > 0 ? room : NULL, text.len);
}

static struct mci_mounted *make_mounted(struct mci_member *owner,
                                        const struct mci_mount *mount)
{
    struct mci_mounted *mounted = mci_calloc(1, sizeof *mounted);
    if (!mounted) {
        return NULL;
    }
    struct mci_segment_texts *texts = &mounted->texts;
    mounted->owner = owner;
    mounted->mount = *mount;
    mounted->mount.name = keep_text(texts->name, mount->name);
    mounted->mount.endpoint = keep_text(texts->endpoint, mount->endpoint);
    mounted->mount.shm = keep_text(texts->shm, mount->shm);
    mounted->mount.protocol = keep_text(texts->protocol, mount->protocol);
    (void)keep_text(texts->host_id, mc_view_str(owner->host));
    mounted->status = MCI_SEGMENT_OK;
    mci_list_init(&mounted->link);
    mci_list_init(&mounted->timed);
    return mounted;
}

/* The core uses a slot again once it is through with its former segment, and so
 * is this. lock is held. */
static void enter(struct mci_registry *registry, struct mci_mounted *mounted)
{
    struct mci_mounted **place =
        &registry->mounted[mounted->id & (MCI_SEGMENTS_MAX - 1)];
    if (*place) {
        mci_mounted_free(registry, *place);
    }
    *place = mounted;
    registry->mounted_count++;
    mci_list_push_back(&mounted->owner->segments, &mounted->link);
    if (mounted->owner->has_clock) {
        mci_master_segment_admit(registry->opts.master, mounted->id, true);
    }
}

/* Whether the member has it already. lock is held. */
static enum mc_err look_up(const struct mci_member *member,
                           const struct mci_mount *mount, uint32_t *segment_out)
{
    if (member->stage != MCI_STAGE_LIVING) {
        return MC_ERR_CLIENT_NOT_FOUND;
    }
    const struct mci_mounted *mounted = find_by_id(member, mount->id);
    if (!mounted) {
        return MC_OK;
    }
    if (mounted->status != MCI_SEGMENT_OK) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    *segment_out = mounted->id;
    return MC_OK;
}

static enum mc_err lend(struct mci_registry *registry,
                        struct mci_member *member,
                        const struct mci_mount *mount, uint32_t *segment_out)
{
    struct mci_mounted *mounted = make_mounted(member, mount);
    if (!mounted) {
        return MC_ERR_NOMEM;
    }
    const struct mci_lent lent = {.name = mounted->texts.name,
                                  .bytes = mount->bytes,
                                  .client = member->client,
                                  .is_shut = true};
    enum mc_err err =
        mci_master_segment_add(registry->opts.master, &lent, &mounted->id);
    if (err != MC_OK) {
        mci_free(mounted);
        return err;
    }
    uint32_t known = 0;
    mci_registry_lock(registry);
    err = look_up(member, mount, &known);
    if (err == MC_OK && known == 0) {
        enter(registry, mounted);
        known = mounted->id;
        mounted = NULL;
    }
    mci_registry_unlock(registry);
    if (mounted) { /* not needed, or too late */
        mci_master_segment_close(registry->opts.master, mounted->id);
        mci_free(mounted);
    }
    if (err == MC_OK) {
        *segment_out = known;
    }
    return err;
}

enum mc_err mci_registry_mount(struct mci_registry *registry,
                               struct mci_member *member,
                               const struct mci_mount *mount, uint64_t now_ns,
                               uint32_t *segment_out)
{
    (void)now_ns;
    enum mc_err err = check_mount(mount);
    if (err != MC_OK) {
        return err;
    }
    uint32_t known = 0;
    mci_registry_lock(registry);
    err = look_up(member, mount, &known);
    mci_registry_unlock(registry);
    if (err != MC_OK) {
        return err;
    }
    if (known != 0) {
        *segment_out = known;
        return MC_OK;
    }
    return lend(registry, member, mount, segment_out);
}

void mci_mounted_admit(struct mci_registry *registry, struct mci_member *owner)
{
    struct mci_link *link = owner->segments.next;
    for (; link != &owner->segments; link = link->next) {
        const struct mci_mounted *mounted =
            MCI_CONTAINER(link, struct mci_mounted, link);
        if (mounted->status == MCI_SEGMENT_OK) {
            mci_master_segment_admit(registry->opts.master, mounted->id, true);
        }
    }
}

/* ---- unmounting -------------------------------------------------------- */

void mci_mounted_close(struct mci_registry *registry,
                       struct mci_mounted *mounted)
{
    mounted->status = MCI_SEGMENT_UNMOUNTING;
    mci_list_remove(&mounted->timed);
    mci_master_segment_close(registry->opts.master, mounted->id);
    mci_doubts_let_go(registry, mounted->owner, mounted->id);
}

void mci_mounted_free(struct mci_registry *registry,
                      struct mci_mounted *mounted)
{
    mci_list_remove(&mounted->link);
    mci_list_remove(&mounted->timed);
    registry->mounted[mounted->id & (MCI_SEGMENTS_MAX - 1)] = NULL;
    registry->mounted_count--;
    mci_free(mounted);
}

static void begin_grace(struct mci_registry *registry,
                        struct mci_mounted *mounted, uint64_t until_ns)
{
    if (mounted->status == MCI_SEGMENT_GRACEFULLY_UNMOUNTING) {
        mounted->grace_ns =
            until_ns < mounted->grace_ns ? until_ns : mounted->grace_ns;
        return;
    }
    mounted->status = MCI_SEGMENT_GRACEFULLY_UNMOUNTING;
    mounted->grace_ns = until_ns;
    mci_list_push_back(&registry->graced, &mounted->timed);
    mci_master_segment_admit(registry->opts.master, mounted->id, false);
}

enum mc_err mci_registry_unmount(struct mci_registry *registry,
                                 struct mci_member *member, uint32_t segment,
                                 uint64_t grace_ms, uint64_t now_ns)
{
    enum mc_err err = MC_OK;
    mci_registry_lock(registry);
    struct mci_mounted *mounted = mci_mounted_at(registry, segment);
    if (mounted && mounted->owner != member) {
        err = MC_ERR_INVALID_PARAMS;
    } else if (mounted && mounted->status != MCI_SEGMENT_UNMOUNTING) {
        if (grace_ms > 0) {
            begin_grace(registry, mounted,
                        mci_clock_deadline(now_ns, grace_ms));
        } else {
            mci_mounted_close(registry, mounted);
            mci_list_push_back(&registry->unmounting, &mounted->timed);
        }
    }
    mci_registry_unlock(registry);
    return err;
}

/* ---- telling ----------------------------------------------------------- */

enum mci_segment_status
mci_registry_segment_status(struct mci_registry *registry, uint32_t segment)
{
    mci_registry_lock(registry);
    const struct mci_mounted *mounted = mci_mounted_at(registry, segment);
    enum mci_segment_status status =
        mounted ? mounted->status : MCI_SEGMENT_UNDEFINED;
    mci_registry_unlock(registry);
    return status;
}

static struct mc_view text_view(const char *text)
{
    size_t len = strlen(text);
    return mc_view_make(len > 0 ? text : NULL, len);
}

bool mci_registry_segment(struct mci_registry *registry, uint32_t segment,
                          struct mci_segment_row *row_out,
                          struct mci_segment_texts *texts)
{
    mci_registry_lock(registry);
    const struct mci_mounted *mounted = mci_mounted_at(registry, segment);
    if (mounted) {
        *texts = mounted->texts;
        *row_out = (struct mci_segment_row){
            .segment = segment,
            .client = mounted->owner->client,
            .incarnation = mounted->owner->incarnation,
            .registration = mounted->mount.registration,
            .id = {mounted->mount.id[0], mounted->mount.id[1]},
            .bytes = mounted->mount.bytes,
            .base = mounted->mount.base,
            .status = mounted->status};
    }
    mci_registry_unlock(registry);
    if (!mounted) {
        return false;
    }
    row_out->name = text_view(texts->name);
    row_out->endpoint = text_view(texts->endpoint);
    row_out->shm = text_view(texts->shm);
    row_out->protocol = text_view(texts->protocol);
    row_out->host_id = text_view(texts->host_id);
    uint64_t bytes = 0;
    (void)mci_master_segment_usage(registry->opts.master, segment, &bytes,
                                   &row_out->used_bytes);
    return true;
}

/* Puts a number into its place among the smallest ones; returns how many. */
static size_t keep_smallest(uint32_t *segments, size_t count, size_t max,
                            uint32_t segment)
{
    size_t at = count;
    while (at > 0 && segments[at - 1] > segment) {
        at--;
    }
    if (at == max) {
        return count;
    }
    size_t moved = (count < max ? count : max - 1) - at;
    memmove(&segments[at + 1], &segments[at], moved * sizeof *segments);
    segments[at] = segment;
    return count < max ? count + 1 : max;
}

size_t mci_registry_segments(struct mci_registry *registry, uint32_t after,
                             uint32_t *segments_out, size_t max)
{
    size_t count = 0;
    mci_registry_lock(registry);
    for (uint32_t i = 0; i < MCI_SEGMENTS_MAX && max > 0; i++) {
        const struct mci_mounted *mounted = registry->mounted[i];
        if (mounted && mounted->id > after) {
            count = keep_smallest(segments_out, count, max, mounted->id);
        }
    }
    mci_registry_unlock(registry);
    return count;
}
