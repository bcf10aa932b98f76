/* SPDX-License-Identifier: Apache-2.0 */
/* mci_utf8.h - is this UTF-8?
 *
 * ASCII is skipped eight bytes at a time; the rest is judged by utf8proc:
 * overlong forms, surrogates, values above U+10FFFF and cut sequences are
 * refused. NUL is legal.
 */
#ifndef MCI_UTF8_H
#define MCI_UTF8_H
#include <stdbool.h>
#include <stddef.h>

bool mci_utf8_valid(const void *data, size_t len);
#endif
