/* SPDX-License-Identifier: Apache-2.0 */
/* mc_key.h - key layouts: from a store key to the cache block it holds.
 *
 * Engines name what they store by a hash of the tokens, in a scheme of their
 * own; one block ("page") may be spread over several keys ("parts"). A layout
 * says which scheme: "u64" (decimal or 0x hexadecimal), "sglang:mha:tp=N",
 * "sglang:mla" (first 64 bits of the sha256), "vllm:tp=N" (last 64 bits). A
 * prefix is matched exactly before the page's own key: joined with `_` for
 * sglang, with nothing for the others.
 * Threads: pure functions.
 */
#ifndef MC_KEY_H
#define MC_KEY_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_limits.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

enum mc_key_scheme {
    MC_KEY_U64 = 1,
    MC_KEY_SGLANG_MHA = 2,
    MC_KEY_SGLANG_MLA = 3,
    MC_KEY_VLLM = 4
};

#define MC_KEY_RANKS_MAX 64
#define MC_KEY_PARTS_MAX 128 /* two per rank in sglang:mha */

struct mc_key_layout {
    enum mc_key_scheme scheme;
    uint32_t ranks;      /* tp */
    uint32_t parts;      /* keys that make one page */
    uint32_t prefix_len; /* with its joint */
    char prefix[MC_KEY_LEN_MAX];
};

/* What a key says. */
struct mc_key_page {
    uint64_t hash;   /* the block */
    uint64_t digest; /* XXH3-64 of the page's full name: tells pages of equal
                        hash apart */
    uint32_t part;   /* 0 .. layout.parts - 1 */
};

/* Reads a layout's name; prefix may be none or empty. Errors:
 * MC_ERR_INVALID_PARAMS (unknown name, tp outside 1..MC_KEY_RANKS_MAX, prefix
 * too long or not UTF-8). */
MC_CHECK_RESULT enum mc_err
mc_key_layout_parse(struct mc_view name, struct mc_view prefix,
                    struct mc_key_layout *layout_out);

/* Writes the layout's name with a NUL ("sglang:mha:tp=2"); 32 bytes suffice. */
void mc_key_layout_name(const struct mc_key_layout *layout, char *text_out,
                        size_t capacity);

/* True and *page_out filled if the key belongs to the layout. */
bool mc_key_parse(const struct mc_key_layout *layout, struct mc_view key,
                  struct mc_key_page *page_out);

#ifdef __cplusplus
}
#endif
#endif
