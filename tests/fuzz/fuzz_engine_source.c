/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of an engine through a subscriber into an index: an operation byte
 * each (how the number goes on, which worker), a length, a payload. Whatever
 * comes, what is counted adds up; an index that was fed exports what makes the
 * same index; and when a source is lost nothing of its worker is held. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_bytes.h"
#include "mc_subscriber.h"
#include "mci_buf.h"
#include "mci_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX (UINT64_C(1) << 24)
#define MESSAGES_MAX 64u

static bool is_feeding;

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    (void)ctx;
    require(is_feeding && signal->source < 2);
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    (void)ctx;
    require(is_feeding && delivery->engine);
    require(delivery->engine->type == delivery->event->type);
    require(delivery->engine->type != MC_EVENT_NONE);
}

static struct mc_subscriber *open_subscriber(struct mc_index *index)
{
    static const struct mc_source_opts sources[2] = {
        {.profile = MC_PROFILE_ENGINE, .worker = "w0"},
        {.profile = MC_PROFILE_ENGINE, .worker = "w1", .dp_rank = 3}};
    struct mc_subscriber_opts opts = {.sources = sources,
                                      .source_count = 2,
                                      .index = index,
                                      .max_message_events = 256,
                                      .on_event = on_event,
                                      .on_signal = on_signal};
    struct mc_subscriber *subscriber = NULL;
    require(mc_subscriber_open(&opts, &subscriber) == MC_OK);
    return subscriber;
}

static struct mc_index *open_index(void)
{
    struct mc_index_opts opts = {.max_nodes = 4096,
                                 .max_bytes = UINT64_C(32) << 20};
    struct mc_index *index = NULL;
    require(mc_key_layout_parse(mc_view_str("u64"), mc_view_str(""),
                                &opts.layout) == MC_OK);
    require(mc_index_create(&opts, &index) == MC_OK);
    return index;
}

static enum mc_err keep_line(void *ctx, struct mc_view line)
{
    enum mc_err err = mci_buf_append(ctx, line.data, line.len);
    return err == MC_OK ? mci_buf_append_byte(ctx, '\n') : err;
}

static void import(struct mc_index *index, struct mc_view text)
{
    const char *at = text.data;
    const char *end = at + text.len;
    while (at < end) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        enum mc_index_result result;
        require(mc_index_apply_line(index,
                                    mc_view_make(at, (size_t)(feed - at)),
                                    &result) == MC_OK);
        require(result == MC_INDEX_APPLIED);
        at = feed + 1;
    }
}

static void check_copy(struct mc_index *index)
{
    struct mc_index *copy = open_index();
    struct mci_buf first;
    struct mci_buf second;
    mci_buf_init(&first, TEXT_MAX);
    mci_buf_init(&second, TEXT_MAX);
    require(mc_index_export(index, keep_line, &first) == MC_OK);
    import(copy, mci_buf_view(&first));
    require(mc_index_export(copy, keep_line, &second) == MC_OK);
    require(mc_view_equal(mci_buf_view(&first), mci_buf_view(&second)));
    mci_buf_fini(&first);
    mci_buf_fini(&second);
    mc_index_destroy(copy);
}

static void check_counts(const struct mc_subscriber *subscriber,
                         unsigned messages)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct mc_source_stats stats;
        mc_subscriber_stats(subscriber, i, &stats);
        require(stats.events == stats.stored + stats.removed + stats.cleared);
        require(stats.mirror_entries == 0);
        seen += stats.messages + stats.refused_messages;
    }
    require(seen <= messages);
}

/* Takes one message; how many bytes it was. */
static size_t give_message(struct mc_subscriber *subscriber, uint64_t *seqs,
                           const uint8_t *data, size_t size)
{
    uint8_t seq[8];
    unsigned code = data[0];
    uint32_t source = code & 1;
    size_t len = size > 2 ? (size_t)data[1] << 8 | data[2] : 0;
    size_t head = size > 3 ? 3 : size;
    len = len < size - head ? len : size - head;
    uint64_t next = seqs[source] + 1;
    if (code & 0x80) { /* not the next one */
        next += (code >> 1 & 0x3f);
        next -= code & 0x40 ? 40 : 0;
    }
    seqs[source] = next;
    mci_put_be64(seq, next);
    /* In a block of its own, so that a sanitizer sees a read past it. */
    uint8_t *payload = malloc(len ? len : 1);
    require(payload != NULL);
    memcpy(payload, data + head, len);
    struct mc_view frames[3] = {mc_view_make("t", 1), mc_view_make(seq, 8),
                                mc_view_make(payload, len)};
    require(mc_subscriber_inject(subscriber, source, frames, 3) == MC_OK);
    free(payload);
    return head + len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t seqs[2] = {100, 100};
    struct mc_index *index = open_index();
    struct mc_subscriber *subscriber = open_subscriber(index);
    unsigned messages = 0;
    is_feeding = true;
    while (size > 0 && messages < MESSAGES_MAX) {
        size_t used = give_message(subscriber, seqs, data, size);
        data += used;
        size -= used;
        messages++;
    }
    is_feeding = false;
    check_counts(subscriber, messages);
    check_copy(index);
    mc_subscriber_close(subscriber);
    mc_index_worker_lost(index, mc_view_str("w0"));
    mc_index_worker_lost(index, mc_view_str("w1"));
    while (mc_index_maintain(index, 1000)) {
    }
    struct mc_index_stats stats;
    mc_index_stats(index, &stats);
    require(stats.resident == 0);
    mc_index_destroy(index);
    return 0;
}
