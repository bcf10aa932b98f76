/* SPDX-License-Identifier: Apache-2.0 */
/* T11, T12, T18: events to bytes and back, beside msgpack-c.
 *
 * The batch is what the publisher sends most: 64 stored events of the full
 * profile with SGLang keys, groups and sessions. Both sides reuse their memory;
 * the peer's zone has 1 MiB chunks, so that it never trims its heap. */
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "malloc_count.h"
#include "mc_event_writer.h"
#include "mci_alloc.h"
#include "mci_bytes.h"

#define EVENTS 64
#define TIMESTAMP_MS UINT64_C(1739145600000)
#define EPOCH UINT64_C(0x0123456789abcdef)
#define ZONE_BYTES 1048576
#define TEXT_MAX 128

struct texts {
    char group[TEXT_MAX];
    char session[TEXT_MAX];
    char key[TEXT_MAX];
};

struct codec {
    struct texts texts[EVENTS];
    struct mc_event_record records[EVENTS];
    struct mc_event_writer *writer;
    uint8_t buffer[MC_BATCH_BYTES_MAX];
    size_t len;
    uint8_t seq[8];
    struct mc_event events[EVENTS];
    msgpack_sbuffer packed;
    msgpack_packer packer;
    msgpack_zone *zone;
};

/* 64 hexadecimal digits that look like a sha256. */
static void fill_hash(char *text, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        snprintf(text + 16L * i, 17, "%016llx", (unsigned long long)seed);
    }
}

static void fill_record(struct codec *codec, unsigned i)
{
    struct texts *texts = &codec->texts[i];
    struct mc_event_record *record = &codec->records[i];
    char hash[65];
    fill_hash(hash, i / 2);
    snprintf(texts->group, TEXT_MAX, "sglang-hicache:%s", hash);
    snprintf(texts->session, TEXT_MAX, "session-%08x-%u", i / 8 * 2654435761u,
             i / 8);
    snprintf(texts->key, TEXT_MAX, "%s_0_%c", hash, i % 2 ? 'v' : 'k');
    record->type = MC_EVENT_STORED;
    record->event_id = 1000000 + i;
    record->timestamp_ms = TIMESTAMP_MS;
    record->tenant_id = mc_view_str("default");
    record->backend_id = mc_view_str("node-1");
    record->medium = mc_view_str("cpu");
    record->group_id = mc_view_str(texts->group);
    record->session_id = mc_view_str(texts->session);
    record->object_key = mc_view_str(texts->key);
}

static void pack_text(msgpack_packer *packer, struct mc_view text)
{
    msgpack_pack_str(packer, text.len);
    msgpack_pack_str_body(packer, text.data, text.len);
}

/* Inlined, so that the lengths of names are constants, as in a good use of the
 * packer. */
__attribute__((always_inline)) static inline void
pack_name(msgpack_packer *packer, const char *name)
{
    size_t len = strlen(name);
    msgpack_pack_str(packer, len);
    msgpack_pack_str_body(packer, name, len);
}

__attribute__((always_inline)) static inline void
pack_nil(msgpack_packer *packer, const char *name)
{
    pack_name(packer, name);
    msgpack_pack_nil(packer);
}

__attribute__((always_inline)) static inline void
pack_field(msgpack_packer *packer, const char *name, struct mc_view text)
{
    pack_name(packer, name);
    pack_text(packer, text);
}

static void pack_event(msgpack_packer *packer,
                       const struct mc_event_record *record)
{
    msgpack_pack_map(packer, 22);
    pack_name(packer, "event_id");
    msgpack_pack_uint64(packer, record->event_id);
    pack_name(packer, "timestamp");
    msgpack_pack_uint64(packer, record->timestamp_ms);
    pack_field(packer, "event_type", mc_view_str("stored"));
    pack_field(packer, "type", mc_view_str("BlockStored"));
    pack_nil(packer, "model_name");
    pack_nil(packer, "block_size");
    pack_nil(packer, "additional_salt");
    pack_nil(packer, "lora_name");
    pack_field(packer, "tenant_id", record->tenant_id);
    pack_field(packer, "backend_id", record->backend_id);
    pack_field(packer, "medium", record->medium);
    pack_name(packer, "dp_rank");
    msgpack_pack_uint64(packer, 0);
    pack_field(packer, "group_id", record->group_id);
    pack_field(packer, "session_id", record->session_id);
    pack_field(packer, "object_key", record->object_key);
    pack_name(packer, "seq_hashes");
    msgpack_pack_array(packer, 0);
    pack_name(packer, "block_hashes");
    msgpack_pack_array(packer, 0);
    pack_nil(packer, "base_block_idx");
    pack_nil(packer, "parent_hash");
    pack_nil(packer, "token_ids");
    pack_nil(packer, "parent_block_hash");
    pack_name(packer, "epoch");
    msgpack_pack_uint64(packer, EPOCH);
}

static uint64_t peer_encode(void *ctx)
{
    struct codec *codec = ctx;
    msgpack_sbuffer_clear(&codec->packed);
    msgpack_pack_array(&codec->packer, 3);
    msgpack_pack_uint64(&codec->packer, TIMESTAMP_MS);
    msgpack_pack_array(&codec->packer, EVENTS);
    for (unsigned i = 0; i < EVENTS; i++) {
        pack_event(&codec->packer, &codec->records[i]);
    }
    msgpack_pack_uint64(&codec->packer, 0);
    bench_keep(codec->packed.data);
    return EVENTS;
}

static uint64_t our_encode(void *ctx)
{
    struct codec *codec = ctx;
    if (mc_event_writer_batch(codec->writer, TIMESTAMP_MS, codec->records,
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
    struct mc_event_writer_opts opts = {.epoch = EPOCH};
    struct codec *codec = calloc(1, sizeof *codec);
    if (!codec || mc_event_writer_create(&opts, &codec->writer) != MC_OK) {
        bench_fail(bench, "out of memory");
        free(codec);
        return NULL;
    }
    for (unsigned i = 0; i < EVENTS; i++) {
        fill_record(codec, i);
    }
    mci_put_be64(codec->seq, 1);
    msgpack_sbuffer_init(&codec->packed);
    msgpack_packer_init(&codec->packer, &codec->packed, msgpack_sbuffer_write);
    codec->zone = msgpack_zone_new(ZONE_BYTES);
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
