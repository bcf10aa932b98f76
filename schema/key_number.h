/* SPDX-License-Identifier: Apache-2.0 */
/* key_number.h - keys that are numbers, whole and strictly. */
#ifndef MC_KEY_NUMBER_H
#define MC_KEY_NUMBER_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_view.h"

/* True if the whole text is decimal digits, or 0x or 0X and hexadecimal digits,
 * and the number has at most 64 bits. No sign, no blank. */
bool key_number_parse(struct mc_view text, uint64_t *number_out);
#endif
