/* SPDX-License-Identifier: Apache-2.0 */
/* T11, T12, T18: events to bytes and back, beside msgpack-c. Both sides reuse
 * their memory. */
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "event_rows.h"
#include "malloc_count.h"
#include "mc_event_writer.h"
#include "mci_alloc.h"
#include "mci_bytes.h"

#define EVENTS EVENT_ROWS
#define TIMESTAMP_MS EVENT_ROWS_TIMESTAMP_MS

struct codec {
    struct event_rows rows;
    struct mc_event_writer *writer;
    uint8_t buffer[MC_BATCH_BYTES_MAX];
    size_t len;
    uint8_t seq[8];
    struct mc_event events[EVENTS];
    msgpack_sbuffer packed;
    msgpack_packer packer;
    msgpack_zone *zone;
};

static uint64_t peer_encode(void *ctx)
{
    struct codec *codec = ctx;
    msgpack_sbuffer_clear(&codec->packed);
    event_rows_pack(&codec->packer, &codec->rows);
    bench_keep(codec->packed.data);
    return EVENTS;
}

static uint64_t our_encode(void *ctx)
{
    struct codec *codec = ctx;
    if (mc_event_writer_batch(codec->writer, TIMESTAMP_MS, codec->rows.records,
                              EVENTS, codec->buffer, sizeof codec->buffer,
                              &codec->len) != MC_OK) {
        return 0;
    }
    bench_keep(codec->buffer);
    return EVENTS;
}

static uint64_t our_decode(void *ctx)
{
    struct codec *codec = ctx;
    struct mc_event_batch batch;
    struct mc_view frames[3] = {
        {"", 0}, {codec->seq, 8}, {codec->buffer, codec->len}};
    if (mc_event_read(frames, 3, codec->events, EVENTS, &batch, NULL) !=
            MC_EVENT_OK ||
        batch.refused != 0) {
        return 0;
    }
    bench_keep(codec->events);
    return batch.count;
}

static uint64_t peer_decode(void *ctx)
{
    struct codec *codec = ctx;
    msgpack_object object;
    size_t offset = 0;
    if (msgpack_unpack((const char *)codec->buffer, codec->len, &offset,
                       codec->zone, &object) != MSGPACK_UNPACK_SUCCESS) {
        return 0;
    }
    bench_keep(&object);
    msgpack_zone_clear(codec->zone);
    return EVENTS;
}

static struct codec *make_codec(struct bench *bench)
{
    struct mc_event_writer_opts opts = {.epoch = EVENT_ROWS_EPOCH};
    struct codec *codec = calloc(1, sizeof *codec);
    if (!codec || mc_event_writer_create(&opts, &codec->writer) != MC_OK) {
        bench_fail(bench, "out of memory");
        free(codec);
        return NULL;
    }
    event_rows_init(&codec->rows);
    mci_put_be64(codec->seq, 1);
    msgpack_sbuffer_init(&codec->packed);
    msgpack_packer_init(&codec->packer, &codec->packed, msgpack_sbuffer_write);
    codec->zone = msgpack_zone_new(EVENT_ROWS_ZONE_BYTES);
    return codec;
}

static void drop_codec(struct codec *codec)
{
    msgpack_zone_free(codec->zone);
    msgpack_sbuffer_destroy(&codec->packed);
    mc_event_writer_destroy(codec->writer);
    free(codec);
}

/* Both sides must make the same bytes, or the comparison says nothing. */
static bool agrees(struct bench *bench, struct codec *codec)
{
    if (our_encode(codec) == EVENTS && peer_encode(codec) == EVENTS &&
        codec->len == codec->packed.size &&
        memcmp(codec->buffer, codec->packed.data, codec->len) == 0) {
        return true;
    }
    bench_fail(bench, "the two sides do not write the same bytes");
    return false;
}

static bool our_encode_side(void *ctx, double seconds, double *value_out)
{
    return bench_time(our_encode, ctx, seconds, value_out);
}

static bool peer_encode_side(void *ctx, double seconds, double *value_out)
{
    return bench_time(peer_encode, ctx, seconds, value_out);
}

static bool our_decode_side(void *ctx, double seconds, double *value_out)
{
    return bench_time(our_decode, ctx, seconds, value_out);
}

static bool peer_decode_side(void *ctx, double seconds, double *value_out)
{
    return bench_time(peer_decode, ctx, seconds, value_out);
}

static void run_encode(struct bench *bench)
{
    struct codec *codec = make_codec(bench);
    if (!codec) {
        return;
    }
    if (agrees(bench, codec)) {
        (void)bench_rounds(bench, our_encode_side, peer_encode_side, codec);
        bench_note(bench, "%zu bytes an event", codec->len / EVENTS);
    }
    drop_codec(codec);
}

static void run_decode(struct bench *bench)
{
    struct codec *codec = make_codec(bench);
    if (!codec) {
        return;
    }
    if (agrees(bench, codec)) {
        (void)bench_rounds(bench, our_decode_side, peer_decode_side, codec);
    }
    drop_codec(codec);
}

#define WARM 100
#define COUNTED 10000

/* Allocations of both kinds over so many batches, after a warm-up. */
static uint64_t count_allocations(struct codec *codec, bench_step_fn step)
{
    for (int i = 0; i < WARM; i++) {
        (void)step(codec);
    }
    uint64_t before = malloc_count_calls() + mci_alloc_thread_calls();
    for (int i = 0; i < COUNTED; i++) {
        (void)step(codec);
    }
    return malloc_count_calls() + mci_alloc_thread_calls() - before;
}

static void run_allocations(struct bench *bench)
{
    struct codec *codec = make_codec(bench);
    if (!codec) {
        return;
    }
    if (agrees(bench, codec)) {
        uint64_t encode = count_allocations(codec, our_encode);
        uint64_t decode = count_allocations(codec, our_decode);
        uint64_t peer = count_allocations(codec, peer_decode);
        double events = (double)COUNTED * EVENTS;
        bench_absolute(bench, (double)(encode + decode) / events);
        bench_require(bench, peer > 0 || malloc_count_calls() > 0,
                      "the count counts");
        bench_note(bench, "encode %llu, decode %llu calls in %.0f events",
                   (unsigned long long)encode, (unsigned long long)decode,
                   events);
    }
    drop_codec(codec);
}

static const struct bench_target targets[] = {
    {.id = "T11",
     .what = "event encode / msgpack-c packer",
     .unit = "ns/event",
     .ours = "mckv",
     .peer = "msgpack-c",
     .better = BENCH_LOWER,
     .gate = 0.10,
     .goal = 0.05,
     .run = run_encode},
    {.id = "T12",
     .what = "strict event decode / msgpack-c unpack",
     .unit = "ns/event",
     .ours = "mckv",
     .peer = "msgpack-c",
     .better = BENCH_LOWER,
     .gate = 0.30,
     .goal = 0.20,
     .run = run_decode},
    {.id = "T18",
     .what = "allocations per event, encode and decode, warm",
     .unit = "calls/event",
     .ours = "mckv",
     .better = BENCH_LOWER,
     .gate = 0,
     .goal = 0,
     .run = run_allocations},
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
