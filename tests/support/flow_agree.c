/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_agree.h"

#include <check.h>
#include <stdio.h>

struct comparison {
    const struct mc_subscriber *subscriber;
    struct flow_agreement *agreement;
};

static bool compare_row(void *ctx, const struct mc_object_row *row)
{
    const struct comparison *comparison = ctx;
    struct flow_agreement *agreement = comparison->agreement;
    struct mc_mirror_entry entry = {.event_id = 0};
    bool is_there =
        mc_subscriber_mirror_get(comparison->subscriber, 0, row->tenant_id,
                                 row->key, mc_view_str("cpu"), &entry);
    agreement->listed++;
    if (!is_there || entry.event_id != row->last_event_id ||
        !mc_view_equal(entry.session_id, row->session_id)) {
        agreement->wrong++;
        (void)snprintf(agreement->example, sizeof agreement->example,
                       "%.*s of %ju, held of %ju", (int)row->key.len,
                       (const char *)row->key.data,
                       (uintmax_t)row->last_event_id,
                       (uintmax_t)entry.event_id);
    }
    return true;
}

struct flow_agreement flow_compare(struct mc_client *client,
                                   const struct mc_subscriber *subscriber)
{
    struct flow_agreement agreement = {
        .held = mc_subscriber_mirror_count(subscriber)};
    struct comparison comparison = {.subscriber = subscriber,
                                    .agreement = &agreement};
    ck_assert_int_eq(mc_client_list(client, compare_row, &comparison), MC_OK);
    return agreement;
}

uint64_t flow_must_agree(struct mc_client *client,
                         const struct mc_subscriber *subscriber)
{
    struct flow_agreement agreement = flow_compare(client, subscriber);
    ck_assert_msg(agreement.wrong == 0, "%ju wrong: %s",
                  (uintmax_t)agreement.wrong, agreement.example);
    ck_assert_uint_eq(agreement.held, agreement.listed);
    return agreement.listed;
}
