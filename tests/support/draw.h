/* SPDX-License-Identifier: Apache-2.0 */
/* draw.h - numbers at random, the same each time: xorshift64. */
#ifndef DRAW_H
#define DRAW_H
#include <stdint.h>

/* A number below this one. The state, not 0 at first, is the caller's. */
static inline uint64_t draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}
#endif
