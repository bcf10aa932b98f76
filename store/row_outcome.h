/* SPDX-License-Identifier: Apache-2.0 */
/* row_outcome.h - from what the store answers about a row to what is done next,
 * and to how the row ends.
 *
 * A row stands at a stage. Stages only go forward, so a part of rows is done in
 * one walk over them: at each, one call for all rows that stand there.
 *
 *     get:  read -> read again -> over
 *     put:  open -> write -> end -> end again -> revoke -> look -> over
 *
 * What was asked and not answered is asked again; where that is in vain the row
 * is over all the same, as unsettled, and its session is left to be revoked later.
 *
 * Pure. Threads: as the row.
 */
#ifndef ROW_OUTCOME_H
#define ROW_OUTCOME_H
#include "mc_row_driver.h"

enum mci_row_stage {
    MCI_ROW_READ,
    MCI_ROW_READ_AGAIN, /* its lease was over */
    MCI_ROW_OPEN,
    MCI_ROW_WRITE,
    MCI_ROW_END,
    MCI_ROW_END_AGAIN,
    MCI_ROW_REVOKE,
    MCI_ROW_LOOK,      /* is there a readable object of the key? */
    MCI_ROW_UNSETTLED, /* over; its session is still open */
    MCI_ROW_OVER
};

struct mci_row_course {
    enum mci_row_stage stage;
    enum mc_row_reason reason; /* once it is over, or will be if revoked */
    enum mc_err err;           /* that made the reason */
    bool is_touched;           /* get: bytes may have come into the slot */
};

/* What the call of its stage answered. size: of the row. */
void mci_row_answer(struct mci_row_course *course, int64_t result,
                    uint64_t size);
/* At LOOK: what a probe answered. */
void mci_row_looked(struct mci_row_course *course, int64_t result,
                    enum mc_object_state state);

/* It is not to go on, for this reason: what it has opened is to be revoked. Of
 * no effect once its end was asked for. */
void mci_row_stop(struct mci_row_course *course, enum mc_row_reason reason);
/* There is no time for the call of its stage. */
void mci_row_late(struct mci_row_course *course);

/* What the answer of a probe alone says of a key. */
enum mc_row_reason mci_row_reason_of_probe(int64_t result,
                                           enum mc_object_state state);
#endif
