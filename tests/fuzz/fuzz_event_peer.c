/* SPDX-License-Identifier: Apache-2.0 */
/* The strict reader beside msgpack-c with the rules written down plainly: they
 * agree about whatever comes. */
#include <stdlib.h>

#include "../support/event_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VIEWS 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct mc_event events[VIEWS];
    size_t taken;
    if (event_peer_compare(mc_view_make(data, size), events, VIEWS, &taken)) {
        abort();
    }
    return 0;
}
