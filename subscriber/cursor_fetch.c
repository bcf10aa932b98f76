/* SPDX-License-Identifier: Apache-2.0 */
#include "cursor_fetch.h"

#include <string.h>

void cursor_fetched(struct cursor *cursor, uint64_t count, bool is_refused)
{
    if (is_refused) {
        cursor->refused -= count;
    } else {
        cursor->lost -= count;
    }
    cursor->delivered += count;
}

bool cursor_is_whole(const struct cursor *cursor)
{
    return cursor->floating == 0 && !cursor->has_unread &&
           !cursor->has_open_ids;
}

void cursor_made_whole(struct cursor *cursor)
{
    cursor->has_unread = false;
    cursor->has_open_ids = false;
    cursor->is_unread = false;
}

void cursor_jump(struct cursor *cursor, uint64_t id)
{
    if (id <= cursor->mark) {
        return;
    }
    uint64_t step = id - cursor->mark;
    cursor->floating = cursor->floating > step ? cursor->floating - step : 0;
    cursor->delivered += step;
    cursor->mark = id;
}

void cursor_adopt(struct cursor *cursor, uint64_t epoch, uint64_t id,
                  uint64_t seq, struct cursor_finding *finding_out)
{
    memset(finding_out, 0, sizeof *finding_out);
    bool is_other = cursor->has_ids;
    if (is_other) {
        cursor->restarts++;
    }
    if (is_other || !cursor->has_baseline) {
        cursor->last_seq = seq;
        cursor->is_unread = false;
    }
    cursor->has_baseline = true;
    cursor_rebase(cursor, epoch, id);
    finding_out->what = CURSOR_EPOCH | (is_other ? CURSOR_MOVED : 0);
    finding_out->epoch = epoch;
    finding_out->baseline_id = id;
}

void cursor_reach_back(struct cursor *cursor, uint64_t id,
                       struct cursor_finding *finding_out)
{
    memset(finding_out, 0, sizeof *finding_out);
    if (!cursor->has_ids || id >= cursor->baseline_id) {
        return;
    }
    finding_out->hole_count = 1;
    finding_out->holes[0] =
        (struct cursor_hole){id + 1, cursor->baseline_id, false};
    cursor->lost += cursor->baseline_id - id;
    cursor->baseline_id = id;
}
