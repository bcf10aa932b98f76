/* SPDX-License-Identifier: Apache-2.0 */
/* event_rows.h - the batch that benchmarks of events work on, and how a good use
 * of msgpack-c writes it.
 *
 * It is what the publisher sends most: 64 stored events of the full profile with
 * SGLang keys, groups and sessions.
 */
#ifndef EVENT_ROWS_H
#define EVENT_ROWS_H
#include <msgpack.h>
#include <stdio.h>

#include "mc_event_writer.h"

#define EVENT_ROWS 64
#define EVENT_ROWS_TIMESTAMP_MS UINT64_C(1739145600000)
#define EVENT_ROWS_EPOCH UINT64_C(0x0123456789abcdef)
#define EVENT_ROW_TEXT_MAX 128

/* Chunks of the peer's zone, so that it never trims its heap. */
#define EVENT_ROWS_ZONE_BYTES 1048576

struct event_row_texts {
    char group[EVENT_ROW_TEXT_MAX];
    char session[EVENT_ROW_TEXT_MAX];
    char key[EVENT_ROW_TEXT_MAX];
};

struct event_rows {
    struct event_row_texts texts[EVENT_ROWS];
    struct mc_event_record records[EVENT_ROWS];
};

/* 64 hexadecimal digits that look like a sha256. */
static inline void rows_fill_hash(char *text, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        snprintf(text + 16L * i, 17, "%016llx", (unsigned long long)seed);
    }
}

static inline void rows_fill_record(struct event_rows *rows, unsigned i)
{
    struct event_row_texts *texts = &rows->texts[i];
    struct mc_event_record *record = &rows->records[i];
    char hash[65];
    rows_fill_hash(hash, i / 2);
    snprintf(texts->group, EVENT_ROW_TEXT_MAX, "sglang-hicache:%s", hash);
    snprintf(texts->session, EVENT_ROW_TEXT_MAX, "session-%08x-%u",
             i / 8 * 2654435761u, i / 8);
    snprintf(texts->key, EVENT_ROW_TEXT_MAX, "%s_0_%c", hash,
             i % 2 ? 'v' : 'k');
    record->type = MC_EVENT_STORED;
    record->event_id = 1000000 + i;
    record->timestamp_ms = EVENT_ROWS_TIMESTAMP_MS;
    record->tenant_id = mc_view_str("default");
    record->backend_id = mc_view_str("node-1");
    record->medium = mc_view_str("cpu");
    record->group_id = mc_view_str(texts->group);
    record->session_id = mc_view_str(texts->session);
    record->object_key = mc_view_str(texts->key);
}

static inline void pack_text(msgpack_packer *packer, struct mc_view text)
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

static inline void pack_event(msgpack_packer *packer,
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
    msgpack_pack_uint64(packer, EVENT_ROWS_EPOCH);
}

static inline void event_rows_init(struct event_rows *rows)
{
    for (unsigned i = 0; i < EVENT_ROWS; i++) {
        rows_fill_record(rows, i);
    }
}

/* The batch as the peer writes it, behind what the buffer holds. */
static inline void event_rows_pack(msgpack_packer *packer,
                                   const struct event_rows *rows)
{
    msgpack_pack_array(packer, 3);
    msgpack_pack_uint64(packer, EVENT_ROWS_TIMESTAMP_MS);
    msgpack_pack_array(packer, EVENT_ROWS);
    for (unsigned i = 0; i < EVENT_ROWS; i++) {
        pack_event(packer, &rows->records[i]);
    }
    msgpack_pack_uint64(packer, 0);
}

#endif
