/* SPDX-License-Identifier: Apache-2.0 */
/* quota_value.h - sizes of quotas as JSON: numbers of bytes, or texts as "4GB"
 * (powers of 1024).
 * Threads: any thread.
 */
#ifndef QUOTA_VALUE_H
#define QUOTA_VALUE_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_view.h"

struct json_object;

bool mci_quota_value(struct json_object *value, uint64_t *bytes_out);
/* Of an object: its member quota_bytes (or requested_bytes, bytes). */
bool mci_quota_member(struct json_object *object, uint64_t *bytes_out);

/* The whole text as one value, which the caller puts back; NULL: it is none. */
struct json_object *mci_json_parse(struct mc_view text);
#endif
