/* SPDX-License-Identifier: Apache-2.0 */
/* tool_tail.h - which events pass --tenant, --session, --group, --type and
 * --medium: those that equal every one that was given, byte for byte. */
#ifndef TOOL_TAIL_H
#define TOOL_TAIL_H
#include "mc_event.h"
#include "tool.h"

bool tool_filter_passes(const struct tool_args *args,
                        const struct mc_event *event);

#endif
