/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "mci_tool.h"

bool tool_decimal_parse(const char *text, double *number_out,
                        const char **rest_out)
{
    size_t len = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    if (len == 0 || end != text + len) {
        return false;
    }
    *number_out = number;
    *rest_out = end;
    return true;
}

bool tool_number_parse(const char *text, uint64_t max, uint64_t *number_out)
{
    uint64_t number = 0;
    if (!text[0]) {
        return false;
    }
    for (; *text; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (*text < '0' || *text > '9' || number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    if (number > max) {
        return false;
    }
    *number_out = number;
    return true;
}

bool tool_duration_parse(const char *text, uint64_t max_ms, uint64_t *ms_out)
{
    static const struct {
        const char *suffix;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    double number;
    const char *rest;
    if (!tool_decimal_parse(text, &number, &rest)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(rest, units[i].suffix) == 0 &&
            number * units[i].ms <= (double)max_ms) {
            *ms_out = (uint64_t)(number * units[i].ms + 0.5);
            return true;
        }
    }
    return false;
}

bool tool_size_parse(const char *text, uint64_t *bytes_out)
{
    static const char prefixes[] = "KMGTP";
    double number;
    const char *rest;
    double unit = 1;
    if (!tool_decimal_parse(text, &number, &rest)) {
        return false;
    }
    rest += strspn(rest, " ");
    for (unsigned i = 0; prefixes[i] && rest[0]; i++) {
        if ((rest[0] & ~0x20) == prefixes[i]) {
            unit = (double)(UINT64_C(1) << 10 * (i + 1));
            rest++;
            rest += rest[0] == 'i' && (rest[1] & ~0x20) == 'B';
            break;
        }
    }
    rest += (rest[0] & ~0x20) == 'B';
    if (*rest || number * unit >= 9e18) {
        return false;
    }
    *bytes_out = (uint64_t)(number * unit + 0.5);
    return true;
}
