/* SPDX-License-Identifier: Apache-2.0 */
/* size_text.h - sizes as people write them in files: "512", "16 MB", "4g".
 * Threads: any thread.
 */
#ifndef SIZE_TEXT_H
#define SIZE_TEXT_H
#include <stdbool.h>
#include <stdint.h>

/* A whole number of up to 19 digits, a space or none, and a unit or none: B, K, M, G
 * or T, with a B behind or not, in either case, powers of 1024. UINT64_MAX: more
 * than there is a number for. False if it is no such text. */
bool mci_size_parse(const char *text, uint64_t *bytes_out);
#endif
