/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery_request.h"

#include "mc_limits.h"
#include "mci_bytes.h"
#include "mci_utf8.h"

_Static_assert(MC_TENANT_LEN_MAX <= MCI_RECOVERY_FRAME_MAX,
               "a tenant's name is a frame");

static bool is_word(struct mc_view frame, const char *word)
{
    return frame.len == strlen(word) &&
           memcmp(frame.data, word, frame.len) == 0;
}

static bool is_tenant(struct mc_view frame)
{
    return frame.len > 0 && frame.len <= MC_TENANT_LEN_MAX &&
           mci_utf8_valid(frame.data, frame.len);
}

static void read_alone(struct mc_view frame,
                       struct mci_recovery_request *request)
{
    if (is_word(frame, "snapshot")) {
        request->kind = MCI_RECOVERY_SNAPSHOT;
    } else if (is_word(frame, "status")) {
        request->kind = MCI_RECOVERY_STATUS;
    } else if (frame.len == sizeof request->start) {
        request->kind = MCI_RECOVERY_REPLAY;
        request->start = mci_get_be64(frame.data);
    }
}

static void read_pair(struct mc_view frame, struct mc_view with,
                      struct mci_recovery_request *request)
{
    if (is_word(frame, "snapshot")) {
        if (is_tenant(with)) {
            request->kind = MCI_RECOVERY_SNAPSHOT;
            request->tenant = with;
        }
        return;
    }
    if (with.len != sizeof request->credit) {
        return;
    }
    if (is_word(frame, "credit")) {
        request->kind = MCI_RECOVERY_CREDIT;
        request->credit = mci_get_be32(with.data);
    } else if (frame.len == sizeof request->start) {
        request->kind = MCI_RECOVERY_REPLAY;
        request->start = mci_get_be64(frame.data);
        request->is_paced = true;
        request->credit = mci_get_be32(with.data);
    }
}

void mci_recovery_request_read(const struct mc_view *frames, size_t count,
                               struct mci_recovery_request *request_out)
{
    *request_out = (struct mci_recovery_request){.kind = MCI_RECOVERY_MALFORMED,
                                                 .tenant = {NULL, 0}};
    if (count < 2 || count > MCI_RECOVERY_PARTS_MAX || frames[0].len != 0) {
        return;
    }
    if (count == 2) {
        read_alone(frames[1], request_out);
    } else {
        read_pair(frames[1], frames[2], request_out);
    }
}
