/* SPDX-License-Identifier: Apache-2.0 */
/* mismatches.c - see the header. */
#include "mismatches.h"

#include <inttypes.h>
#include <string.h>

#include "client.h"
#include "mc_log.h"
#include "mci_sums.h"

enum mc_err mci_mismatches_init(struct mci_mismatches *mismatches)
{
    return pthread_mutex_init(&mismatches->lock, NULL) == 0 ? MC_OK
                                                            : MC_ERR_NOMEM;
}

void mci_mismatches_fini(struct mci_mismatches *mismatches)
{
    (void)pthread_mutex_destroy(&mismatches->lock);
}

void mci_mismatches_note(struct mci_mismatches *mismatches, struct mc_view key,
                         const struct mc_mismatch *found)
{
    (void)pthread_mutex_lock(&mismatches->lock);
    struct mc_mismatch *last = &mismatches->last;
    *last = *found;
    last->count = atomic_fetch_add(&mismatches->wrong, 1) + 1;
    last->key_len = key.len < sizeof last->key ? key.len : sizeof last->key;
    if (last->key_len > 0) {
        memcpy(last->key, key.data, last->key_len);
    }
    (void)pthread_mutex_unlock(&mismatches->lock);
    mc_log(MC_LOG_WARN,
           "checksum mismatch: block %" PRIu64 " of %" PRIu64
           ", version %" PRIu64 ", segment %" PRIu32,
           found->block, mci_sums_count(found->size), found->version,
           found->segment);
    mc_log(MC_LOG_DEBUG, "checksum mismatch: block %" PRIu64 " of key %.*s",
           found->block, (int)key.len, (const char *)key.data);
}

bool mc_client_last_mismatch(struct mc_client *client,
                             struct mc_mismatch *mismatch_out)
{
    struct mci_mismatches *mismatches = &client->mismatches;
    (void)pthread_mutex_lock(&mismatches->lock);
    bool is_any = mismatches->last.count > 0;
    if (is_any) {
        *mismatch_out = mismatches->last;
    }
    (void)pthread_mutex_unlock(&mismatches->lock);
    return is_any;
}
