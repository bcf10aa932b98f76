/* SPDX-License-Identifier: Apache-2.0 */
/* tool_listed.h - the keys that a master lists, of all its tenants, beside those
 * that are held.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_LISTED_H
#define TOOL_LISTED_H
#include "tool.h"
#include "tool_compare.h"

/* What args->admin lists, sorted: of the tenants that it names, of those that
 * something is held of (sorted), and of "default". TOOL_DONE, or TOOL_FAILED
 * after a line on stderr. */
int tool_listed_keys(const struct tool_args *args,
                     const struct tool_rowset *held,
                     struct tool_rowset *listed);

/* What is held as the master spells keys, with no medium; sorted. */
void tool_listed_spell(const struct tool_rowset *held,
                       struct tool_rowset *keys);
#endif
