/* SPDX-License-Identifier: Apache-2.0 */
/* send_mark.h - how much may wait for a slow subscriber: from a bound in bytes
 * to a number of messages, which is what libzmq's high-water mark counts, and to
 * the bytes that one message may have.
 *
 * Both are fixed before the socket is bound. To follow the mean size with
 * ZMQ_SNDHWM on a live socket does not work: a pipe tells its writer what was
 * read only now and then, at multiples of half the mark that it had; with
 * another mark the writer can find the pipe full although all was read, and then
 * nothing is ever read or told again: a healthy subscriber stays mute for good.
 * So not the count follows the size; the size is held to what the count allows.
 */
#ifndef SEND_MARK_H
#define SEND_MARK_H
#include <stdint.h>

#define MCI_SEND_MARK_MESSAGES_MIN 1024
#define MCI_SEND_MARK_MESSAGES_MAX 131072
#define MCI_SEND_MARK_OVERHEAD 200 /* bytes that libzmq adds to a message */
#define MCI_SEND_MARK_BATCH_MIN 8192
#define MCI_SEND_MARK_BATCH_MAX 49152 /* 64 events of 768 bytes */
#define MCI_SEND_MARK_BYTES_DEFAULT (UINT64_C(64) << 20)

struct mci_send_mark {
    int messages;
    uint32_t batch_bytes; /* payload; more only for a group that needs it */
};

/* bytes 0 = the default; below 8 MiB it is 8 MiB. */
struct mci_send_mark mci_send_mark(uint64_t bytes);
#endif
