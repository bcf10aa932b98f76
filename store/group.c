/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_hash.h"

#define GROUP_KEY_MAX (MCI_GROUP_KEY_HEAD + MC_GROUP_ID_LEN_MAX)

static struct mci_group_stripe *stripe_of(struct mci_master *master,
                                          struct mc_view key)
{
    uint64_t hash = mci_hash64_seeded(key.data, key.len, master->seed);
    return &master->groups[hash % MCI_GROUP_STRIPES];
}

static struct mci_group *make_group(uint16_t tenant, struct mc_view key)
{
    struct mci_group *group = mci_calloc(1, sizeof *group + key.len);
    if (!group) {
        return NULL;
    }
    mci_lock_init(&group->lock);
    mci_list_init(&group->members);
    mci_list_init(&group->partial_link);
    group->tenant = tenant;
    group->key_len = key.len;
    memcpy(group->key, key.data, key.len);
    return group;
}

static void destroy_group(struct mci_group *group)
{
    (void)pthread_mutex_destroy(&group->lock);
    mci_free(group);
}

/* The lock of the stripe is held. */
static enum mc_err add_group(struct mci_group_stripe *stripe, uint16_t tenant,
                             struct mc_view key, struct mci_group **group_out)
{
    struct mci_group *group = make_group(tenant, key);
    if (!group) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = mci_map_put(&stripe->map, key, group, NULL);
    if (err != MC_OK) {
        destroy_group(group);
        return MC_ERR_NOMEM;
    }
    *group_out = group;
    return MC_OK;
}

enum mc_err mci_group_get(struct mci_master *master, uint16_t tenant,
                          struct mc_view id, struct mci_group **group_out)
{
    char bytes[GROUP_KEY_MAX];
    bytes[0] = (char)(tenant & 0xff);
    bytes[1] = (char)(tenant >> 8);
    memcpy(bytes + MCI_GROUP_KEY_HEAD, id.data, id.len);
    struct mc_view key = mc_view_make(bytes, MCI_GROUP_KEY_HEAD + id.len);
    struct mci_group_stripe *stripe = stripe_of(master, key);

    enum mc_err err = MC_OK;
    (void)pthread_mutex_lock(&stripe->lock);
    struct mci_group *group = mci_map_get(&stripe->map, key);
    if (!group) {
        err = add_group(stripe, tenant, key, &group);
        if (err == MC_OK) {
            atomic_fetch_add(&master->group_count, 1);
        }
    }
    if (err == MC_OK) {
        group->refs++;
        *group_out = group;
    }
    (void)pthread_mutex_unlock(&stripe->lock);
    return err;
}

void mci_group_put(struct mci_master *master, struct mci_group *group)
{
    if (!group) {
        return;
    }
    struct mc_view key = mc_view_make(group->key, group->key_len);
    struct mci_group_stripe *stripe = stripe_of(master, key);
    (void)pthread_mutex_lock(&stripe->lock);
    bool is_last = --group->refs == 0;
    if (is_last) {
        (void)mci_map_remove(&stripe->map, key);
        atomic_fetch_sub(&master->group_count, 1);
    }
    (void)pthread_mutex_unlock(&stripe->lock);
    if (is_last) {
        destroy_group(group);
    }
}

struct mc_view mci_group_id(const struct mci_group *group)
{
    return mc_view_make(group->key + MCI_GROUP_KEY_HEAD,
                        group->key_len - MCI_GROUP_KEY_HEAD);
}

struct mci_group *mci_group_of(const struct mci_label *label)
{
    const struct mci_extras *extras = mci_label_extras(label);
    return extras ? extras->member.group : NULL;
}

struct mc_view mci_label_group_id(const struct mci_label *label)
{
    const struct mci_group *group = mci_group_of(label);
    return group ? mci_group_id(group) : mc_view_make(NULL, 0);
}

/* ---- members ----------------------------------------------------------- */

void mci_group_join(struct mci_label *label, uint64_t ref)
{
    struct mci_group *group = mci_group_of(label);
    if (group) {
        struct mci_membership *member = &mci_label_extras(label)->member;
        mci_group_lock(group);
        member->ref = ref;
        mci_list_push_back(&group->members, &member->link);
        mci_group_unlock(group);
    }
}

void mci_group_leave(struct mci_label *label)
{
    struct mci_group *group = mci_group_of(label);
    if (group) {
        mci_group_lock(group);
        mci_list_remove(&mci_label_extras(label)->member.link);
        mci_group_unlock(group);
    }
}

void mci_group_move(struct mci_label *label, uint64_t ref)
{
    struct mci_group *group = mci_group_of(label);
    if (group) {
        mci_group_lock(group);
        mci_label_extras(label)->member.ref = ref;
        mci_group_unlock(group);
    }
}
