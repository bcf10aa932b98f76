/* SPDX-License-Identifier: Apache-2.0 */
/* Strings from outside are keys and names: mostly UTF-8, but whoever writes them
 * here cannot know.
 */
#include "http_server.h"
#include "mci_utf8.h"

/* How many bytes the character at text has; 0: it is none. */
static size_t character_len(const uint8_t *text, size_t left)
{
    size_t len = text[0] < 0x80   ? 1
                 : text[0] < 0xe0 ? 2
                 : text[0] < 0xf0 ? 3
                                  : 4;
    return len <= left && mci_utf8_valid(text, len) ? len : 0;
}

static void write_character(struct mci_http_response *response,
                            const uint8_t *text, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t c = text[0];
    if (len == 0) {
        mci_http_write(response, mc_view_str("\xef\xbf\xbd"));
    } else if (c == '"' || c == '\\') {
        const char pair[2] = {'\\', (char)c};
        mci_http_write(response, mc_view_make(pair, 2));
    } else if (c < 0x20 || c == 0x7f) {
        const char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        mci_http_write(response, mc_view_make(code, 6));
    } else {
        mci_http_write(response, mc_view_make(text, len));
    }
}

void mci_http_json_string(struct mci_http_response *response,
                          struct mc_view text)
{
    const uint8_t *bytes = text.data;
    mci_http_write(response, mc_view_str("\""));
    for (size_t at = 0; at < text.len;) {
        size_t len = character_len(bytes + at, text.len - at);
        write_character(response, bytes + at, len);
        at += len ? len : 1;
    }
    mci_http_write(response, mc_view_str("\""));
}
