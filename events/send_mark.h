/* SPDX-License-Identifier: Apache-2.0 */
/* send_mark.h - how many messages may wait for a slow subscriber, from a bound
 * in bytes: libzmq's high-water mark counts messages, memory is bytes.
 *
 * The mark is the bound divided by the running mean of the message sizes, each
 * with what libzmq keeps beside it. It is set anew when the mean has moved by a
 * quarter, so seldom for a steady stream and at once when sizes jump.
 * Threads: one thread at a time.
 */
#ifndef SEND_MARK_H
#define SEND_MARK_H
#include <stdbool.h>
#include <stdint.h>

#define MCI_SEND_MARK_MIN 1024
#define MCI_SEND_MARK_MAX 131072
#define MCI_SEND_MARK_OVERHEAD 200 /* bytes that libzmq adds to a message */
#define MCI_SEND_MARK_BYTES_DEFAULT (UINT64_C(64) << 20)

struct mci_send_mark {
    uint64_t bytes;    /* the bound */
    uint64_t mean_x64; /* running mean of sizes, times 64 */
    uint64_t mean_set; /* mean for which `messages` was computed */
    int messages;
};

/* bytes 0 = the default. */
void mci_send_mark_init(struct mci_send_mark *mark, uint64_t bytes);

/* Counts one message; true if `messages` has changed. */
bool mci_send_mark_add(struct mci_send_mark *mark, uint64_t message_bytes);
#endif
