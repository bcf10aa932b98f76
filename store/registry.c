/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <string.h>

#include "mci_alloc.h"

struct mci_registry {
    struct mci_registry_opts opts;
};

enum mc_err mci_registry_create(const struct mci_registry_opts *opts,
                                struct mci_registry **registry_out)
{
    struct mci_registry *registry = mci_calloc(1, sizeof *registry);
    if (!registry) {
        return MC_ERR_NOMEM;
    }
    registry->opts = *opts;
    *registry_out = registry;
    return MC_OK;
}

void mci_registry_destroy(struct mci_registry *registry)
{
    mci_free(registry);
}

enum mc_err mci_registry_hello(struct mci_registry *registry,
                               const struct mci_hello *hello, uint64_t now_ns,
                               struct mci_welcome *welcome_out)
{
    (void)registry, (void)hello, (void)now_ns, (void)welcome_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_registry_member(struct mci_registry *registry, uint32_t client,
                                uint64_t incarnation,
                                struct mci_member **member_out)
{
    (void)registry, (void)client, (void)incarnation, (void)member_out;
    return MC_ERR_CLIENT_NOT_FOUND;
}

void mci_member_release(struct mci_member *member)
{
    (void)member;
}

uint32_t mci_member_client(const struct mci_member *member)
{
    (void)member;
    return 0;
}

void mci_registry_goodbye(struct mci_registry *registry,
                          struct mci_member *member, uint64_t now_ns)
{
    (void)registry, (void)member, (void)now_ns;
}

void mci_registry_hung_up(struct mci_registry *registry,
                          struct mci_member *member, uint64_t now_ns)
{
    (void)registry, (void)member, (void)now_ns;
}

enum mc_err mci_registry_heartbeat(struct mci_registry *registry,
                                   struct mci_member *member,
                                   const struct mci_heartbeat *heartbeat,
                                   uint64_t now_ns, struct mci_pulse_room *room,
                                   struct mci_pulse *pulse_out)
{
    (void)registry, (void)member, (void)heartbeat, (void)now_ns, (void)room;
    memset(pulse_out, 0, sizeof *pulse_out);
    return MC_OK;
}

enum mc_err mci_registry_mount(struct mci_registry *registry,
                               struct mci_member *member,
                               const struct mci_mount *mount, uint64_t now_ns,
                               uint32_t *segment_out)
{
    (void)registry, (void)member, (void)mount, (void)now_ns, (void)segment_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_registry_unmount(struct mci_registry *registry,
                                 struct mci_member *member, uint32_t segment,
                                 uint64_t grace_ms, uint64_t now_ns)
{
    (void)registry, (void)member, (void)segment, (void)grace_ms, (void)now_ns;
    return MC_OK;
}

enum mci_segment_status
mci_registry_segment_status(struct mci_registry *registry, uint32_t segment)
{
    (void)registry, (void)segment;
    return MCI_SEGMENT_UNDEFINED;
}

bool mci_registry_segment(struct mci_registry *registry, uint32_t segment,
                          struct mci_segment_row *row_out,
                          struct mci_segment_texts *texts)
{
    (void)registry, (void)segment, (void)row_out, (void)texts;
    return false;
}

size_t mci_registry_segments(struct mci_registry *registry, uint32_t after,
                             uint32_t *segments_out, size_t max)
{
    (void)registry, (void)after, (void)segments_out, (void)max;
    return 0;
}

enum mc_err mci_registry_started(struct mci_registry *registry,
                                 struct mci_member *member, uint32_t slot,
                                 uint64_t number, uint64_t time_left_ms,
                                 struct mci_write_row *rows, size_t count,
                                 uint64_t now_ns)
{
    (void)registry, (void)member, (void)slot, (void)number, (void)time_left_ms;
    (void)rows, (void)count, (void)now_ns;
    return MC_OK;
}

void mci_registry_granted(struct mci_registry *registry,
                          struct mci_member *member, struct mci_read_row *rows,
                          size_t count, uint64_t now_ns)
{
    (void)registry, (void)member, (void)rows, (void)count, (void)now_ns;
}

void mci_registry_ending(struct mci_registry *registry,
                         struct mci_write_row *rows, size_t count)
{
    (void)registry, (void)rows, (void)count;
}

void mci_registry_ended(struct mci_registry *registry,
                        struct mci_member *member,
                        const struct mci_write_row *rows, size_t count)
{
    (void)registry, (void)member, (void)rows, (void)count;
}

void mci_registry_given_up(struct mci_registry *registry,
                           struct mci_member *member, uint32_t slot,
                           uint64_t number, uint64_t now_ns)
{
    (void)registry, (void)member, (void)slot, (void)number, (void)now_ns;
}

uint64_t mci_registry_step(struct mci_registry *registry, uint64_t now_ns,
                           uint64_t deadline_ns)
{
    (void)registry, (void)deadline_ns;
    return now_ns + 100000000;
}

void mci_registry_stat(struct mci_registry *registry,
                       struct mci_registry_stats *stats_out)
{
    (void)registry;
    memset(stats_out, 0, sizeof *stats_out);
}
