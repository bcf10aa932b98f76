/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static const uint64_t *_Atomic fake_now;

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * MCI_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t mci_clock_ns(void)
{
    const uint64_t *fake =
        atomic_load_explicit(&fake_now, memory_order_acquire);
    if (fake) {
        return __atomic_load_n(fake, __ATOMIC_ACQUIRE);
    }
    uint64_t now_ns = read_clock(CLOCK_BOOTTIME);
    /* 0 is what callers store for "never". */
    return now_ns ? now_ns : 1;
}

uint64_t mci_clock_wall_ms(void)
{
    return read_clock(CLOCK_REALTIME) / MCI_NS_PER_MS;
}

void mci_clock_fake(const uint64_t *now)
{
    atomic_store_explicit(&fake_now, now, memory_order_release);
}

uint64_t mci_clock_deadline(uint64_t now_ns, uint64_t timeout_ms)
{
    uint64_t timeout_ns;
    uint64_t deadline_ns;
    if (timeout_ms == 0 ||
        __builtin_mul_overflow(timeout_ms, MCI_NS_PER_MS, &timeout_ns) ||
        __builtin_add_overflow(now_ns, timeout_ns, &deadline_ns)) {
        return UINT64_MAX;
    }
    return deadline_ns;
}
