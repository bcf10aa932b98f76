/* SPDX-License-Identifier: Apache-2.0 */
/* index_check.h - whether an index is sound inside.
 *
 * Counts again, from the nodes up, all that the index keeps counted, and looks
 * whether what points at each other agrees. Slow, and only while nobody changes
 * it.
 */
#ifndef INDEX_CHECK_H
#define INDEX_CHECK_H
#include "mc_index.h"

/* Fails the test at the first thing that is not as it must be. */
void index_check(struct mc_index *ix);

/* How many nodes have no residency, child or head: those that may be freed. */
uint32_t index_check_idle(struct mc_index *ix);
#endif
