/* SPDX-License-Identifier: Apache-2.0 */
/* Keys are scanned left to right by small steps that move a cursor; a step that
 * does not find what it looks for leaves the cursor and the key is refused. */
#include "mc_key.h"

#include <stdio.h>
#include <string.h>

#include "key_number.h"
#include "mci_hash.h"
#include "mci_utf8.h"

struct scan {
    const uint8_t *at;
    const uint8_t *end;
};

static struct scan scan_of(struct mc_view text)
{
    struct scan scan = {text.data, NULL};
    scan.end = scan.at + text.len;
    return scan;
}

static size_t scan_left(const struct scan *scan)
{
    return (size_t)(scan->end - scan->at);
}

static bool take_text(struct scan *scan, const char *text)
{
    size_t len = strlen(text);
    if (scan_left(scan) < len || memcmp(scan->at, text, len) != 0) {
        return false;
    }
    scan->at += len;
    return true;
}

/* A decimal number without leading zeros, below `limit`. */
static bool take_number(struct scan *scan, uint32_t limit, uint32_t *number_out)
{
    const uint8_t *begin = scan->at;
    uint64_t number = 0;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9' &&
           number < limit) {
        number = number * 10 + (uint64_t)(*scan->at - '0');
        scan->at++;
    }
    size_t digits = (size_t)(scan->at - begin);
    if (digits == 0 || number >= limit || (digits > 1 && *begin == '0')) {
        return false;
    }
    *number_out = (uint32_t)number;
    return true;
}

static bool is_hex(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
}

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The same of eight bytes at once: a sum reaches the top bit of its byte where
 * the byte is at or above a bound, and below 128 none carries over. Keys are
 * mostly digits, and every event has one. 0 if all are digits. */
static uint64_t odd_hex8(uint64_t bytes)
{
    uint64_t digit =
        (bytes + EACH_BYTE(0x80 - '0')) & ~(bytes + EACH_BYTE(0x7f - '9'));
    uint64_t letter =
        (bytes + EACH_BYTE(0x80 - 'a')) & ~(bytes + EACH_BYTE(0x7f - 'f'));
    return (bytes | ~(digit | letter)) & EACH_BYTE(0x80);
}

static uint64_t load8(const uint8_t *at)
{
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

/* All lower-case hexadecimal digits from here on. */
static struct mc_view take_hex(struct scan *scan)
{
    const uint8_t *begin = scan->at;
    while (scan_left(scan) >= 8 && odd_hex8(load8(scan->at)) == 0) {
        scan->at += 8;
    }
    while (scan->at < scan->end && is_hex(*scan->at)) {
        scan->at++;
    }
    return mc_view_make(begin, (size_t)(scan->at - begin));
}

/* Of 8 digits, the first being the greatest. */
static uint32_t hex8_value(uint64_t digits)
{
    uint64_t nibbles =
        (digits & EACH_BYTE(0x0f)) + (digits >> 6 & EACH_BYTE(0x01)) * 9;
    uint64_t bytes =
        (nibbles << 4 | nibbles >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    bytes = (bytes | bytes >> 8) & UINT64_C(0x0000ffff0000ffff);
    return __builtin_bswap32((uint32_t)(bytes | bytes >> 16));
}

/* Of 16 digits. */
static uint64_t hex_value(const uint8_t *digits)
{
    return (uint64_t)hex8_value(load8(digits)) << 32 |
           hex8_value(load8(digits + 8));
}

static void set_page(struct mc_key_page *page, uint64_t hash, uint32_t part,
                     struct mc_view name)
{
    page->hash = hash;
    page->digest = mci_hash64(name.data, name.len);
    page->part = part;
}

static bool parse_u64(struct scan *scan, struct mc_key_page *page_out)
{
    struct mc_view name = mc_view_make(scan->at, scan_left(scan));
    uint64_t hash;
    if (!key_number_parse(name, &hash)) {
        return false;
    }
    /* Two spellings of one number are two pages. */
    set_page(page_out, hash, 0, name);
    return true;
}

#define SHA256_DIGITS 64

/* The page's sha256; false if there is no such thing. A digit too many is met by
 * whoever reads on. */
static bool take_sha256(struct scan *scan, struct mc_view *name_out)
{
    uint64_t odd = 0;
    if (scan_left(scan) < SHA256_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < SHA256_DIGITS; i += 8) {
        odd |= odd_hex8(load8(scan->at + i));
    }
    *name_out = mc_view_make(scan->at, SHA256_DIGITS);
    scan->at += SHA256_DIGITS;
    return odd == 0;
}

static bool parse_mla(struct scan *scan, struct mc_key_page *page_out)
{
    struct mc_view name;
    if (!take_sha256(scan, &name) || !take_text(scan, "__k") ||
        scan_left(scan) != 0) {
        return false;
    }
    set_page(page_out, hex_value(name.data), 0, name);
    return true;
}

static bool parse_mha(const struct mc_key_layout *layout, struct scan *scan,
                      struct mc_key_page *page_out)
{
    struct mc_view name;
    uint32_t rank;
    if (!take_sha256(scan, &name) || !take_text(scan, "_") ||
        !take_number(scan, layout->ranks, &rank) || !take_text(scan, "_") ||
        scan_left(scan) != 1) {
        return false;
    }
    if (*scan->at != 'k' && *scan->at != 'v') {
        return false;
    }
    set_page(page_out, hex_value(name.data), 2 * rank + (*scan->at == 'v'),
             name);
    return true;
}

#define VLLM_DIGITS_MIN 32
#define VLLM_DIGITS_MAX 64

/* Of the optional steps each is there or not; what is not the first of its kind
 * ends at the hexadecimal digits and is refused there. */
static bool parse_vllm(const struct mc_key_layout *layout, struct scan *scan,
                       struct mc_key_page *page_out)
{
    uint32_t rank;
    if (!take_text(scan, "@tp_rank:") ||
        !take_number(scan, layout->ranks, &rank)) {
        return false;
    }
    (void)take_text(scan, "@pcp0");
    (void)take_text(scan, "@dcp0");
    (void)take_text(scan, "@pp_rank:0");
    (void)take_text(scan, "@group:0");
    if (!take_text(scan, "@")) {
        return false;
    }
    struct mc_view name = take_hex(scan);
    if (name.len < VLLM_DIGITS_MIN || name.len > VLLM_DIGITS_MAX ||
        scan_left(scan) != 0) {
        return false;
    }
    const uint8_t *digits = name.data;
    set_page(page_out, hex_value(digits + name.len - 16), rank, name);
    return true;
}

bool mc_key_parse(const struct mc_key_layout *layout, struct mc_view key,
                  struct mc_key_page *page_out)
{
    if (key.len <= layout->prefix_len ||
        memcmp(key.data, layout->prefix, layout->prefix_len) != 0) {
        return false;
    }
    struct scan scan = scan_of(key);
    scan.at += layout->prefix_len;
    switch (layout->scheme) {
    case MC_KEY_U64:
        return parse_u64(&scan, page_out);
    case MC_KEY_SGLANG_MHA:
        return parse_mha(layout, &scan, page_out);
    case MC_KEY_SGLANG_MLA:
        return parse_mla(&scan, page_out);
    case MC_KEY_VLLM:
        return parse_vllm(layout, &scan, page_out);
    }
    return false;
}

/* Names of layouts, with what follows "tp=" where ranks count. */
static const struct layout_form {
    const char *name;
    enum mc_key_scheme scheme;
    uint32_t parts_per_rank;
    bool has_ranks;
} layout_forms[] = {
    {"u64", MC_KEY_U64, 1, false},
    {"sglang:mha:tp=", MC_KEY_SGLANG_MHA, 2, true},
    {"sglang:mla", MC_KEY_SGLANG_MLA, 1, false},
    {"vllm:tp=", MC_KEY_VLLM, 1, true},
};
#define LAYOUT_FORMS (sizeof layout_forms / sizeof layout_forms[0])

static const struct layout_form *parse_form(struct mc_view name,
                                            uint32_t *ranks_out)
{
    for (size_t i = 0; i < LAYOUT_FORMS && name.data; i++) {
        struct scan scan = scan_of(name);
        if (!take_text(&scan, layout_forms[i].name)) {
            continue;
        }
        *ranks_out = 1;
        if (layout_forms[i].has_ranks &&
            (!take_number(&scan, MC_KEY_RANKS_MAX + 1, ranks_out) ||
             *ranks_out == 0)) {
            return NULL;
        }
        return scan_left(&scan) == 0 ? &layout_forms[i] : NULL;
    }
    return NULL;
}

enum mc_err mc_key_layout_parse(struct mc_view name, struct mc_view prefix,
                                struct mc_key_layout *layout_out)
{
    uint32_t ranks;
    const struct layout_form *form = parse_form(name, &ranks);
    if (!form) {
        return MC_ERR_INVALID_PARAMS;
    }
    bool is_joined = prefix.len != 0 && (form->scheme == MC_KEY_SGLANG_MHA ||
                                         form->scheme == MC_KEY_SGLANG_MLA);
    if (prefix.len > MC_KEY_LEN_MAX - (size_t)is_joined ||
        (prefix.len != 0 && !mci_utf8_valid(prefix.data, prefix.len))) {
        return MC_ERR_INVALID_PARAMS;
    }
    memset(layout_out, 0, sizeof *layout_out);
    layout_out->scheme = form->scheme;
    layout_out->ranks = ranks;
    layout_out->parts = ranks * form->parts_per_rank;
    if (prefix.len != 0) {
        memcpy(layout_out->prefix, prefix.data, prefix.len);
    }
    if (is_joined) {
        layout_out->prefix[prefix.len] = '_';
    }
    layout_out->prefix_len = (uint32_t)(prefix.len + is_joined);
    return MC_OK;
}

void mc_key_layout_name(const struct mc_key_layout *layout, char *text_out,
                        size_t capacity)
{
    if (capacity == 0) {
        return;
    }
    text_out[0] = 0;
    for (size_t i = 0; i < LAYOUT_FORMS; i++) {
        const struct layout_form *form = &layout_forms[i];
        if (form->scheme != layout->scheme) {
            continue;
        }
        if (form->has_ranks) {
            (void)snprintf(text_out, capacity, "%s%u", form->name,
                           layout->ranks);
        } else {
            (void)snprintf(text_out, capacity, "%s", form->name);
        }
        return;
    }
}
