/* SPDX-License-Identifier: Apache-2.0 */
/* One answer of a recovery server, as frames of the input: the kind of request,
 * how many frames, and per frame its length (u16 BE) and bytes; the last one is
 * what is left. Whatever comes, an answer is bad with a fault or good without,
 * is one that its request can have, and points into the frames.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz_bytes.h"
#include "mci_bytes.h"
#include "recovery_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAMES_MAX 6

/* A frame in a block of its own, so that a read beyond its end is seen. */
static struct mc_view take_frame(const uint8_t **data, size_t *size,
                                 bool is_last)
{
    size_t len = *size;
    if (!is_last && *size >= 2) {
        len = mci_get_be16(*data);
        *data += 2;
        *size -= 2;
        len = len < *size ? len : *size;
    }
    uint8_t *copy = malloc(len ? len : 1);
    require(copy != NULL);
    memcpy(copy, *data, len);
    *data += len;
    *size -= len;
    return mc_view_make(copy, len);
}

static bool is_in(struct mc_view part, const struct mc_view *frames,
                  size_t count)
{
    const uint8_t *at = part.data;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *begin = frames[i].data;
        if (at >= begin && at + part.len <= begin + frames[i].len) {
            return true;
        }
    }
    return part.len == 0;
}

static bool can_be(enum asker_kind kind, enum recovery_answer_type type)
{
    switch (type) {
    case RECOVERY_ANSWER_BAD:
    case RECOVERY_ANSWER_END:
        return true;
    case RECOVERY_ANSWER_BATCH:
        return kind == ASKER_REPLAY;
    case RECOVERY_ANSWER_STATUS:
        return kind == ASKER_STATUS;
    default:
        return kind == ASKER_SNAPSHOT;
    }
}

static void check(enum asker_kind kind, const struct mc_view *frames,
                  size_t count)
{
    struct recovery_answer answer;
    recovery_answer_read(kind, frames, count, &answer);
    require((answer.type == RECOVERY_ANSWER_BAD) == (answer.fault != 0));
    require(answer.fault < RECOVERY_FAULT_COUNT_);
    require(can_be(kind, answer.type));
    require(is_in(answer.payload, frames, count));
    require(is_in(answer.topic, frames, count));
    require(is_in(answer.backend_id, frames, count));
    if (answer.type == RECOVERY_ANSWER_END) {
        require(frames[count - 1].len == 0);
    }
    if (answer.type == RECOVERY_ANSWER_STATUS) {
        require(answer.oldest_seq <= answer.tail_seq);
        require(answer.backend_id.len > 0);
    }
    if (answer.type == RECOVERY_ANSWER_BATCH) {
        require(answer.payload.len > 0 && answer.seq < UINT64_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mc_view frames[FRAMES_MAX];
    if (size < 2) {
        return 0;
    }
    enum asker_kind kind = (enum asker_kind)(ASKER_STATUS + data[0] % 3);
    size_t count = data[1] % (FRAMES_MAX + 1);
    data += 2;
    size -= 2;
    for (size_t i = 0; i < count; i++) {
        frames[i] = take_frame(&data, &size, i + 1 == count);
    }
    check(kind, frames, count);
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)frames[i].data);
    }
    return 0;
}
