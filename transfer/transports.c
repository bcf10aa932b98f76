/* SPDX-License-Identifier: Apache-2.0 */
/* transports.c - the table of what is built, in the order in which it is
 * tried. */
#include "engine.h"

const struct mci_transport *const mci_transports[] = {
    &mci_transport_local,
    &mci_transport_shm,
    &mci_transport_tcp,
};
const size_t mci_transport_count =
    sizeof mci_transports / sizeof mci_transports[0];

const struct mci_transport *mci_transport_get(enum mc_transport_kind kind)
{
    for (size_t i = 0; i < mci_transport_count; i++) {
        if (mci_transports[i]->kind == kind) {
            return mci_transports[i];
        }
    }
    return NULL;
}
