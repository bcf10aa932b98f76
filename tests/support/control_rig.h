/* SPDX-License-Identifier: Apache-2.0 */
/* control_rig.h - a pack onto memory of its own, and an unpack of what it wrote.
 */
#ifndef CONTROL_RIG_H
#define CONTROL_RIG_H
#include <check.h>

#include "mci_control.h"

struct control_rig {
    struct mci_buf buf;
    struct mci_pack pack;
    struct mci_unpack unpack;
};

static inline void control_rig_init(struct control_rig *rig)
{
    mci_buf_init(&rig->buf, (size_t)MC_MESSAGE_LEN_MAX + 4096);
    mci_pack_init(&rig->pack, &rig->buf);
}

static inline void control_rig_fini(struct control_rig *rig)
{
    mci_buf_fini(&rig->buf);
}

/* Forgets what was written. */
static inline struct mci_pack *control_rig_again(struct control_rig *rig)
{
    mci_buf_clear(&rig->buf);
    mci_pack_init(&rig->pack, &rig->buf);
    return &rig->pack;
}

/* Begins to read what was written without a fault. */
static inline struct mci_unpack *control_rig_read(struct control_rig *rig)
{
    ck_assert_int_eq(mci_pack_done(&rig->pack), MC_OK);
    mci_unpack_init(&rig->unpack, mci_buf_view(&rig->buf));
    return &rig->unpack;
}

static inline void control_rig_done(struct control_rig *rig)
{
    ck_assert_int_eq(mci_unpack_done(&rig->unpack), MCI_UNPACK_OK);
}

static inline void control_rig_refused(struct control_rig *rig)
{
    ck_assert_int_eq(mci_pack_done(&rig->pack), MC_ERR_INVALID_PARAMS);
}
#endif
