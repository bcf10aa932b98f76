/* SPDX-License-Identifier: Apache-2.0 */
/* control_copy.h - reads a frame of the control protocol and writes it again.
 *
 * Both take a frame without its length; what they write begins with one. What
 * was read is written from what the readers handed out and from nothing else.
 */
#ifndef CONTROL_COPY_H
#define CONTROL_COPY_H
#include "mci_control.h"

enum mci_unpack_error control_copy_request(struct mc_view body,
                                           struct mci_pack *pack);
enum mci_unpack_error control_copy_answer(enum mci_op op, struct mc_view body,
                                          struct mci_pack *pack);
#endif
