/* SPDX-License-Identifier: Apache-2.0 */
/* mci_pack.h - writes msgpack onto a bounded buffer, with a sticky error.
 *
 * Each value takes its smallest form. The first append that fails is kept, all
 * later ones do nothing, and the caller looks once, at the end; the buffer then
 * holds what came before the failure. Written by hand on the bounded buffer:
 * the whole of it is what msgpack.h would need as a callback per value, and the
 * installed libraries need no msgpack of their own.
 * Threads: one thread at a time.
 */
#ifndef MCI_PACK_H
#define MCI_PACK_H
#include "mci_buf.h"

struct mci_pack {
    struct mci_buf *buf; /* borrowed */
    enum mc_err err;     /* the first one */
};

static inline void mci_pack_init(struct mci_pack *pack, struct mci_buf *buf)
{
    pack->buf = buf;
    pack->err = MC_OK;
}

void mci_pack_nil(struct mci_pack *pack);
void mci_pack_bool(struct mci_pack *pack, bool value);
void mci_pack_u64(struct mci_pack *pack, uint64_t value);
void mci_pack_i64(struct mci_pack *pack, int64_t value);

/* Text must be UTF-8; that is not checked here. More than 2^32 - 1 bytes or
 * elements are MC_ERR_BUFFER_OVERFLOW. */
void mci_pack_str(struct mci_pack *pack, struct mc_view text);
void mci_pack_str_or_nil(struct mci_pack *pack, struct mc_view text);
void mci_pack_bin(struct mci_pack *pack, struct mc_view bytes);

/* Headers: the elements, or the names and values in turn, follow. */
void mci_pack_array(struct mci_pack *pack, size_t count);
void mci_pack_map(struct mci_pack *pack, size_t pairs);

/* A name of a map or another constant text. */
void mci_pack_text(struct mci_pack *pack, const char *text);

/* Errors: MC_ERR_BUFFER_OVERFLOW, MC_ERR_NOMEM. */
MC_CHECK_RESULT static inline enum mc_err
mci_pack_done(const struct mci_pack *pack)
{
    return pack->err;
}
#endif
