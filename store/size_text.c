/* SPDX-License-Identifier: Apache-2.0 */
#include "size_text.h"

#include <string.h>
#include <strings.h>

#define DIGITS_MAX 19 /* so many fit into 64 bits, whichever they are */

bool mci_size_parse(const char *text, uint64_t *bytes_out)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {{"", 0},    {"B", 0},  {"KB", 10}, {"MB", 20}, {"GB", 30},
                 {"TB", 40}, {"K", 10}, {"M", 20},  {"G", 30},  {"T", 40}};
    uint64_t number = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    text += digits;
    text += *text == ' ';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(text, units[i].suffix) == 0) {
            bool fits = number <= UINT64_MAX >> units[i].shift;
            *bytes_out = fits ? number << units[i].shift : UINT64_MAX;
            return true;
        }
    }
    return false;
}
