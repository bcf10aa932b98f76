/* SPDX-License-Identifier: Apache-2.0 */
#include "media.h"

#include "group.h"

static void note_id(struct mci_record *record, unsigned medium, uint64_t id)
{
    if (medium == MC_MEDIUM_CPU) {
        record->at.cpu_id = id;
    } else {
        mci_label_extras(record->label)->disk_id = id;
    }
}

uint64_t mci_media_id(const struct mci_record *record, enum mc_medium medium)
{
    if (!(record->marks & medium)) {
        return 0;
    }
    return medium == MC_MEDIUM_CPU ? record->at.cpu_id
                                   : mci_label_extras(record->label)->disk_id;
}

struct appended {
    struct mci_log_event events[MCI_MEDIA_EVENTS_MAX];
    size_t count;
};

static void add_events(struct appended *appended, enum mc_event_type type,
                       unsigned media, struct mc_view group, struct mc_view tag)
{
    for (unsigned i = 0; i < MC_MEDIUM_COUNT; i++) {
        if (media & (1U << i)) {
            struct mci_log_event *event = &appended->events[appended->count++];
            event->type = type;
            event->medium = (enum mc_medium)(1U << i);
            event->group_id = group;
            event->session_id = tag;
        }
    }
}

static void count_objects(struct mci_shard *shard,
                          const struct mci_media_change *change,
                          unsigned to_had)
{
    if (change->from && !(change->from->marks & MCI_MARK_MEDIA)) {
        shard->counts.objects--;
    }
    if (change->to && to_had == 0) {
        shard->counts.objects++;
    }
}

void mci_media_change(struct mci_master *master, struct mci_shard *shard,
                      const struct mci_media_change *change, uint32_t *reserved)
{
    struct appended appended = {.count = 0};
    unsigned to_had = 0;
    if (change->from) {
        change->from->marks &= (uint8_t)~change->gone;
        add_events(&appended, MC_EVENT_REMOVED, change->gone,
                   change->from_group, change->from_tag);
    }
    size_t removed = appended.count;
    if (change->to) {
        to_had = change->to->marks & MCI_MARK_MEDIA;
        change->to->marks |= (uint8_t)change->come;
        add_events(&appended, MC_EVENT_STORED, change->come, change->to_group,
                   change->to_tag);
    }
    count_objects(shard, change, to_had);
    if (appended.count == 0) {
        return;
    }
    struct mci_tenant *tenant = mci_tenant_at(master, change->tenant);
    uint64_t id =
        mci_event_log_append(master->log, &tenant->log, change->key,
                             appended.events, appended.count, reserved);
    for (size_t i = removed; i < appended.count; i++) {
        note_id(change->to, appended.events[i].medium, id + i);
    }
}

void mci_media_from(struct mci_media_change *change, struct mci_record *from,
                    unsigned gone)
{
    change->from = from;
    change->gone = gone;
    change->from_group = mci_label_group_id(from->label);
    change->from_tag = mci_label_tag(from->label);
    change->key = mci_label_key(from->label);
    change->tenant = from->label->tenant;
}

void mci_media_to(struct mci_media_change *change, struct mci_record *to,
                  unsigned come)
{
    change->to = to;
    change->come = come;
    change->to_group = mci_label_group_id(to->label);
    change->to_tag = mci_label_tag(to->label);
    change->key = mci_label_key(to->label);
    change->tenant = to->label->tenant;
}

enum mc_err mci_media_reserve(struct mci_master *master, uint32_t events,
                              enum mci_log_class cls, uint64_t deadline_ns,
                              uint32_t *reserved_out)
{
    return mci_event_log_reserve(master->log, events, cls, deadline_ns,
                                 reserved_out);
}

void mci_media_unreserve(struct mci_master *master, uint32_t reserved)
{
    if (reserved > 0) {
        mci_event_log_unreserve(master->log, reserved);
    }
}
