/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of messages, answers, connections and time through a source that
 * recovers. The server answers anything: what is due, with numbers near the
 * right ones or far off, and raw bytes. Whatever comes, every id is in one
 * state, what the callbacks tell alternates for every key, the mirror holds
 * exactly that, what is remembered is bounded, and one request is open at most.
 */
#include <string.h>

#include "fuzz_bytes.h"
#include "mc_event_writer.h"
#include "mci_bytes.h"
#include "stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEYS 16
#define EVENTS_MAX 15
#define PAYLOAD_MAX 16384
#define ENTRIES_MAX 12 /* fewer than there are keys */
#define MS UINT64_C(1000000)

struct script {
    struct fuzz_bytes bytes;
    struct mc_event_writer *writer;
    struct stream *stream;
    struct recovery_order open; /* number 0: nothing */
    uint64_t now_ns;
    uint64_t index; /* of the snapshot's next message */
    uint64_t epoch;
    bool is_there[KEYS];
    bool is_raw;
    bool is_odd; /* a flipped bit made a place that is not modelled */
    uint8_t payload[PAYLOAD_MAX];
};

static bool is_modelled(const struct mc_event *event)
{
    return mc_view_equal(event->tenant_id, mc_view_str("default")) &&
           mc_view_equal(event->backend_id, mc_view_str("n1"));
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct script *script = ctx;
    const struct mc_event *event = delivery->event;
    if (!is_modelled(event)) {
        script->is_odd = true;
    } else if (event->type == MC_EVENT_CLEARED) {
        memset(script->is_there, 0, sizeof script->is_there);
    } else if (event->object_key.len == 1 &&
               mc_view_equal(event->medium, mc_view_str("cpu"))) {
        unsigned key = *(const uint8_t *)event->object_key.data - 'a';
        bool is_stored = event->type == MC_EVENT_STORED;
        if (key < KEYS) {
            /* Without epochs events are told as they come, and so is what is
             * replayed from a number to begin with. */
            require(event->epoch == 0 || script->is_odd || script->is_raw ||
                    script->is_there[key] != is_stored);
            script->is_there[key] = is_stored;
        }
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct script *script = ctx;
    if (signal->type == MC_SIGNAL_STALE) {
        memset(script->is_there, 0, sizeof script->is_there);
        script->is_odd = false;
    }
}

static struct mc_source_stats stats_of(const struct script *script)
{
    struct mc_source_stats stats = {.epoch = 0};
    stream_stats(script->stream, 0, &stats);
    return stats;
}

static void check(struct script *script)
{
    const struct mirror *mirror = stream_mirror(script->stream, 0);
    struct mc_source_stats stats = stats_of(script);
    require(stats.events + stats.refused_ids + stats.lost_ids ==
            stats.span_ids);
    require(stats.mirror_entries <= ENTRIES_MAX);
    require(stats.tombstones <= (ENTRIES_MAX + 3) / 4);
    for (int i = 0; i < KEYS; i++) {
        char key = (char)('a' + i);
        struct mirror_row row;
        bool is_there =
            mirror_find(mirror, mc_view_str("default"), mc_view_make(&key, 1),
                        mc_view_str("cpu"), &row);
        require(script->is_odd || is_there == script->is_there[i]);
    }
}

static void step(struct script *script)
{
    struct mc_subscriber_item item;
    struct recovery_order order;
    uint32_t source = 0;
    while (stream_step(script->stream, &item)) {
        require(!item.delivery != !item.signal);
    }
    while (stream_next_order(script->stream, &source, &order)) {
        if (order.kind == RECOVERY_ASK) {
            require(script->open.number == 0);
            script->open = order;
            script->index = 0;
        } else if (order.kind == RECOVERY_DROP) {
            require(script->open.number == order.number);
            script->open.number = 0;
        }
    }
    check(script);
}

static size_t write_payload(struct script *script, uint64_t first_id,
                            bool is_rows)
{
    struct mc_event_record records[EVENTS_MAX];
    char keys[EVENTS_MAX];
    size_t count = fuzz_byte(&script->bytes) % (EVENTS_MAX + 1);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = fuzz_byte(&script->bytes);
        keys[i] = (char)('a' + byte % KEYS);
        records[i] = (struct mc_event_record){
            .type = byte < 130 || is_rows ? MC_EVENT_STORED
                    : byte < 250          ? MC_EVENT_REMOVED
                                          : MC_EVENT_CLEARED,
            .event_id =
                is_rows ? fuzz_near(&script->bytes, first_id) : first_id + i,
            .tenant_id = mc_view_str("default"),
            .backend_id = mc_view_str("n1"),
            .medium = mc_view_str("cpu"),
            .object_key = mc_view_make(&keys[i], 1),
        };
    }
    enum mc_err err = mc_event_writer_batch(script->writer, 1, records, count,
                                            script->payload, PAYLOAD_MAX, &len);
    require(err == MC_OK);
    return len;
}

/* Now and then it is spoilt. */
static size_t spoil(struct script *script, size_t len)
{
    uint8_t what = fuzz_byte(&script->bytes);
    if (what > 240) {
        script->payload[fuzz_byte(&script->bytes) % len] ^=
            fuzz_byte(&script->bytes);
    } else if (what > 230) {
        len -= fuzz_byte(&script->bytes) % len;
    }
    return len;
}

static void live(struct script *script)
{
    struct mc_source_stats stats = stats_of(script);
    uint8_t seq[8];
    mci_put_be64(seq, fuzz_near(&script->bytes, stats.last_seq));
    uint64_t first_id = fuzz_near(&script->bytes, stats.last_event_id);
    size_t len = spoil(script, write_payload(script, first_id, false));
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq, 8),
                                mc_view_make(script->payload, len)};
    stream_take(script->stream, 0, frames, 3, script->now_ns);
    step(script);
}

/* ---- answers ----------------------------------------------------------- */

static void answer(struct script *script, const struct mc_view *frames,
                   size_t count)
{
    stream_take_answer(script->stream, 0, script->open.number, frames, count,
                       script->now_ns);
    step(script);
}

static size_t write_map(struct script *script, const char *const *names,
                        size_t count)
{
    struct mc_source_stats stats = stats_of(script);
    uint8_t *bytes = script->payload;
    size_t len = 0;
    bytes[len++] = (uint8_t)(0x80 + count);
    for (size_t i = 0; i < count; i++) {
        size_t name_len = strlen(names[i]);
        bytes[len++] = (uint8_t)(0xa0 + name_len);
        memcpy(bytes + len, names[i], name_len);
        len += name_len;
        if (names[i][0] == 'b') { /* backend_id */
            bytes[len++] = 0xa0;
            continue;
        }
        uint64_t value = names[i][0] == 'e' ? script->epoch
                         : strstr(names[i], "seq")
                             ? fuzz_near(&script->bytes, stats.last_seq)
                             : fuzz_near(&script->bytes, stats.last_event_id);
        bytes[len++] = 0xcf;
        mci_put_be64(bytes + len, value);
        len += 8;
    }
    return len;
}

static void answer_status(struct script *script)
{
    static const char *const names[] = {"epoch",   "tail_seq", "oldest_seq",
                                        "last_id", "keys",     "backend_id"};
    size_t len = spoil(script, write_map(script, names, 6));
    struct mc_view frames[2] = {mc_view_str("status"),
                                mc_view_make(script->payload, len)};
    answer(script, frames, 2);
}

static void answer_replay(struct script *script, bool is_end)
{
    struct mc_source_stats stats = stats_of(script);
    uint8_t seq[8];
    uint64_t number =
        fuzz_near(&script->bytes, script->index == 0 ? script->open.from_seq - 1
                                                     : script->index);
    script->index = number;
    mci_put_be64(seq, is_end ? UINT64_MAX : number);
    uint64_t back = fuzz_byte(&script->bytes);
    uint64_t first_id =
        stats.last_event_id > back ? stats.last_event_id - back : 1;
    size_t len =
        is_end ? 0 : spoil(script, write_payload(script, first_id, false));
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq, 8),
                                mc_view_make(script->payload, len)};
    answer(script, frames, 3);
}

static void answer_snapshot(struct script *script, bool is_end)
{
    static const char *const first[] = {"epoch", "first_id", "tail_seq"};
    static const char *const last[] = {"epoch", "last_id", "tail_seq"};
    uint8_t index[8];
    mci_put_be64(index, script->index++);
    size_t len = 0;
    if (script->index == 1 || is_end) {
        len = write_map(script, is_end ? last : first, 3);
    } else {
        len = write_payload(script, stats_of(script).last_event_id, true);
    }
    len = spoil(script, len);
    struct mc_view frames[4] = {mc_view_str("snapshot"), mc_view_make(index, 8),
                                mc_view_make(script->payload, len),
                                mc_view_make("", 0)};
    answer(script, frames, is_end ? 4 : 3);
}

static void answer_junk(struct script *script)
{
    size_t len = fuzz_byte(&script->bytes);
    size_t count = fuzz_byte(&script->bytes) % 6;
    len = len < script->bytes.len ? len : script->bytes.len;
    struct mc_view frames[6];
    for (size_t i = 0; i < count; i++) {
        frames[i] = mc_view_make(script->bytes.at, len / (i + 1));
    }
    answer(script, frames, count);
}

static void answer_any(struct script *script)
{
    uint8_t what = fuzz_byte(&script->bytes);
    if (script->open.number == 0) {
        return;
    }
    if (what > 250) {
        answer_junk(script);
    } else if (script->open.ask == ASKER_STATUS) {
        answer_status(script);
    } else if (script->open.ask == ASKER_REPLAY) {
        answer_replay(script, what > 180);
    } else {
        answer_snapshot(script, what > 180);
    }
}

static void happen(struct script *script)
{
    uint8_t what = fuzz_byte(&script->bytes);
    if (what < 110) {
        live(script);
    } else if (what < 220) {
        answer_any(script);
    } else if (what < 240) {
        script->now_ns += fuzz_byte(&script->bytes) * 100 * MS;
        stream_take_tick(script->stream, 0, script->now_ns);
        step(script);
    } else if (what < 250) {
        stream_connected(script->stream, 0, 0, script->now_ns);
        step(script);
    } else {
        script->epoch = (uint64_t)(what - 250);
        script->is_raw |= script->epoch == 0;
        mc_event_writer_set_epoch(script->writer, script->epoch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct script script;
    memset(&script, 0, sizeof script);
    script.bytes = (struct fuzz_bytes){data, size};
    script.epoch = 3;
    script.now_ns = MS;
    uint8_t begin = fuzz_byte(&script.bytes);
    struct mc_source_opts source = {.recovery_endpoint = "fuzz",
                                    .begin = (enum mc_begin)(begin % 3),
                                    .begin_seq = begin / 3};
    script.is_raw = source.begin == MC_BEGIN_SEQ;
    struct stream_opts opts = {.source_count = 1,
                               .sources = &source,
                               .max_events = 64,
                               .max_mirror_entries = ENTRIES_MAX,
                               .on_event = on_event,
                               .on_signal = on_signal,
                               .ctx = &script};
    struct mc_event_writer_opts writing = {.epoch = script.epoch};
    require(mc_event_writer_create(&writing, &script.writer) == MC_OK);
    require(stream_create(&opts, &script.stream) == MC_OK);
    while (script.bytes.len > 0) {
        happen(&script);
    }
    stream_destroy(script.stream);
    mc_event_writer_destroy(script.writer);
    return 0;
}
