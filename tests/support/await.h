/* SPDX-License-Identifier: Apache-2.0 */
/* await.h - waits for what another thread is about to do: on a condition, with
 * a bound, on the real clock whatever clock the code under test sees.
 */
#ifndef AWAIT_H
#define AWAIT_H
#include <stdbool.h>
#include <time.h>

#define AWAIT_TURNS_MAX 100000 /* of at least 200 us: 20 s or more */

static inline void await_turn(void)
{
    struct timespec pause = {0, 200000};
    (void)nanosleep(&pause, NULL);
}

/* True as soon as the condition holds, false if it does not within the bound. */
#define AWAIT(condition)                            \
    __extension__({                                 \
        int turns_left_ = AWAIT_TURNS_MAX;          \
        while (!(condition) && --turns_left_ > 0) { \
            await_turn();                           \
        }                                           \
        turns_left_ > 0;                            \
    })
#endif
