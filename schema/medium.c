/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_medium.h"

const char *mc_medium_name(unsigned media)
{
    switch (media & (MC_MEDIUM_CPU | MC_MEDIUM_DISK)) {
    case MC_MEDIUM_CPU:
        return "cpu";
    case MC_MEDIUM_DISK:
        return "disk";
    case MC_MEDIUM_CPU | MC_MEDIUM_DISK:
        return "cpu+disk";
    default:
        return "-";
    }
}
