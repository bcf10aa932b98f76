/* SPDX-License-Identifier: Apache-2.0 */
/* mc_limits.h - every bound that two processes must agree on, each once.
 *
 * Lengths are bytes. What is over a limit is refused with the code named.
 */
#ifndef MC_LIMITS_H
#define MC_LIMITS_H

#define MC_KEY_LEN_MAX 4096         /* over it, or NUL or not UTF-8: -400 */
#define MC_TENANT_LEN_MAX 64        /* -600 */
#define MC_BACKEND_ID_LEN_MAX 128   /* -600 */
#define MC_GROUP_ID_LEN_MAX 512     /* -600 */
#define MC_SESSION_ID_LEN_MAX 256   /* -600 */
#define MC_ROWS_MAX 65536           /* rows of one call; -600 */
#define MC_MESSAGE_LEN_MAX 67108864 /* one control message, 64 MiB; -600 */
#define MC_SPANS_MAX 4096           /* spans of one row; -600 */
#define MC_OBJECT_SIZE_MAX (UINT64_C(1) << 48) /* -600 */
#define MC_ATTEMPTS_MAX 65536       /* open attempts of one client; -200 */
#define MC_LEASES_MAX 65536         /* named leases of one client; -200 */
#define MC_LEASE_LONGEST_MS 3600000 /* a named one, however often renewed */

/* Events. */
#define MC_BATCH_EVENTS_MAX 64        /* events we put into one message */
#define MC_BATCH_BYTES_MAX 262144     /* payload we fill before a batch goes */
#define MC_EVENT_PAYLOAD_MAX 16777216 /* payload a reader accepts, 16 MiB */
#define MC_EVENT_COUNT_MAX 65536      /* events a reader accepts in a message */
#define MC_EVENT_BLOCKS_MAX 65536     /* hashes of one engine event */
#define MC_EVENT_DEPTH_MAX 16         /* nesting a reader accepts */
#endif
