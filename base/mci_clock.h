/* SPDX-License-Identifier: Apache-2.0 */
/* mci_clock.h - the two clocks, and a seam to replace them in tests.
 *
 * Deadlines and leases run on CLOCK_BOOTTIME, which also counts while the
 * machine sleeps; the wall clock is for stamps that people and other machines
 * read. Pure cores take now_ns as an argument and do not come here.
 * Threads: any thread.
 */
#ifndef MCI_CLOCK_H
#define MCI_CLOCK_H
#include <stdint.h>

#define MCI_NS_PER_MS UINT64_C(1000000)
#define MCI_NS_PER_S UINT64_C(1000000000)

uint64_t mci_clock_ns(void);      /* CLOCK_BOOTTIME; never 0 */
uint64_t mci_clock_wall_ms(void); /* unix time */

/* Test seam: mci_clock_ns answers *now from then on (read atomically); NULL
 * restores the real clock. */
void mci_clock_fake(const uint64_t *now);

/* Absolute deadline from a duration; 0 ms means none (UINT64_MAX), and sums
 * that would wrap are none as well. */
uint64_t mci_clock_deadline(uint64_t now_ns, uint64_t timeout_ms);
#endif
