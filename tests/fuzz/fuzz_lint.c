/* SPDX-License-Identifier: Apache-2.0 */
/* Judges a message: the first byte says how long its first two frames are, the
 * rest is the payload. Places that are told lie inside it, and what a consumer
 * takes, loses and skips adds up. */
#include <stdlib.h>
#include <string.h>

#include "lint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void check_row(const struct lint *lint, enum lint_consumer consumer,
                      size_t payload_len)
{
    struct lint_finding found[LINT_FINDINGS_MAX];
    struct lint_row row;
    lint_row(lint, consumer, &row);
    size_t count = lint_findings(lint, consumer, found, LINT_FINDINGS_MAX);
    require(count <= LINT_FINDINGS_MAX);
    require((count == 0) == (row.worst == LINT_TAKES));
    require(row.taken + row.lost <= row.messages);
    require(row.skipped + row.ignored <= row.events);
    require(count == 0 || found[0].cost == row.worst);
    for (size_t i = 0; i < count; i++) {
        require(i == 0 || found[i].cost <= found[i - 1].cost);
        require(found[i].messages == 1 && found[i].message == 1);
        require(found[i].offset <= payload_len);
        require(found[i].event == LINT_NO_EVENT
                    ? found[i].events == 0
                    : found[i].event < row.events &&
                          found[i].events <= row.events);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char topic[] = "kv@pod@m-kv-events";
    static const uint8_t seq[16] = {0x80};
    struct lint *lint = NULL;
    if (size == 0 || lint_create(&lint) != MC_OK) {
        return 0;
    }
    size_t skipped = data[0] & 0x10 ? 9 : 0; /* the other topic */
    struct mc_view frames[3] = {
        mc_view_make(topic + skipped, data[0] & 0x20 ? 0 : 9),
        mc_view_make(seq + (data[0] >> 7), data[0] & 0x0f),
        mc_view_make(data + 1, size - 1)};
    if (lint_message(lint, frames, 3)) {
        for (unsigned i = 0; i < LINT_CONSUMER_COUNT; i++) {
            check_row(lint, (enum lint_consumer)i, size - 1);
        }
    }
    lint_destroy(lint);
    return 0;
}
