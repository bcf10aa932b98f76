/* SPDX-License-Identifier: Apache-2.0 */
/* flow_agree.h - whether the mirror of a subscriber with one source says what the
 * store says. */
#ifndef FLOW_AGREE_H
#define FLOW_AGREE_H
#include "mc_client.h"
#include "mc_subscriber.h"

struct flow_agreement {
    uint64_t listed;  /* by the store */
    uint64_t held;    /* by the mirror */
    uint64_t wrong;   /* listed, and not held with that tag and by that event */
    char example[64]; /* one of those */
};

/* No delivery meanwhile. */
struct flow_agreement flow_compare(struct mc_client *client,
                                   const struct mc_subscriber *subscriber);
/* Fails the test where they differ; how many keys there are. */
uint64_t flow_must_agree(struct mc_client *client,
                         const struct mc_subscriber *subscriber);
#endif
