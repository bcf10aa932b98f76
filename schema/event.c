/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_event.h"

const char *mc_event_error_name(enum mc_event_error error)
{
    static const char *const names[MC_EVENT_ERROR_COUNT_] = {
        [MC_EVENT_OK] = "ok",
#define NAME_ROW(name, text) [MC_EVENT_ERROR_##name] = text,
        MC_EVENT_ERROR_LIST(NAME_ROW)
#undef NAME_ROW
    };
    if ((unsigned)error >= MC_EVENT_ERROR_COUNT_) {
        return "unknown";
    }
    return names[error];
}

const char *mc_event_type_name(enum mc_event_type type)
{
    switch (type) {
    case MC_EVENT_STORED:
        return "stored";
    case MC_EVENT_REMOVED:
        return "removed";
    case MC_EVENT_CLEARED:
        return "cleared";
    default:
        return "none";
    }
}
