/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_subscriber.h"

const char *mc_signal_name(enum mc_signal_type type)
{
    switch (type) {
    case MC_SIGNAL_GAP:
        return "gap";
    case MC_SIGNAL_RECOVERED:
        return "recovered";
    case MC_SIGNAL_EPOCH:
        return "epoch";
    case MC_SIGNAL_DEGRADED:
        return "degraded";
    case MC_SIGNAL_STALE:
        return "stale";
    }
    return "unknown";
}

const char *mc_signal_reason(const struct mc_signal *signal)
{
    switch (signal->cause) {
    case MC_DEGRADED_NONE:
        return "none";
    case MC_DEGRADED_REFUSED:
        return mc_event_error_name(signal->reason);
    case MC_DEGRADED_INDEX_FULL:
        return "index_full";
    case MC_DEGRADED_UNANSWERED:
        return "unanswered";
    case MC_DEGRADED_BAD_ANSWER:
        return "bad_answer";
    case MC_DEGRADED_OVERTAKEN:
        return "overtaken";
    case MC_DEGRADED_NO_ROOM:
        return "no_room";
    }
    return "unknown";
}
