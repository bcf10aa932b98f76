/* SPDX-License-Identifier: Apache-2.0 */
/* The rules, in the order in which they are looked at. Gates stand before what
 * they keep from being looked at. */
#include "lint_rules.h"

#define HICACHE LINT_BIT(LINT_DYNAMO_HICACHE)
#define MOONCAKE LINT_BIT(LINT_DYNAMO_MOONCAKE)
#define INDEXER LINT_BIT(LINT_DYNAMO_INDEXER)
#define ROUTER (HICACHE | MOONCAKE)
#define DYNAMO (ROUTER | INDEXER)
#define BY_VLLM LINT_BIT(LINT_CONDUCTOR_VLLM)
#define BY_SGLANG LINT_BIT(LINT_CONDUCTOR_SGLANG)
#define CONDUCTOR (BY_VLLM | BY_SGLANG)
#define LLM_D LINT_BIT(LINT_LLM_D)
#define ARRAYS LINT_BIT(LINT_VLLM_ARRAY)
#define MAPS LINT_BIT(LINT_VLLM_MAP)
#define VLLM (ARRAYS | MAPS)
#define ALL (LINT_BIT(LINT_CONSUMER_COUNT) - 1)

const struct lint_rule lint_rules[] = {
    /* frames */
    {"frame_count", ALL, LINT_OF_FRAMES, LINT_REFUSES, true,
     lint_has_three_frames, "a message has three frames"},
    {"topic_kv_at", LLM_D, LINT_OF_FRAMES, LINT_DEAF, false,
     lint_topic_is_kv_at, "the topic is kv@POD@MODEL; it subscribes to kv@"},
    {"topic_kv_events", VLLM, LINT_OF_FRAMES, LINT_DEAF, false,
     lint_topic_is_kv_events, "the topic begins with kv-events"},
    {"seq_size", DYNAMO | CONDUCTOR, LINT_OF_FRAMES, LINT_REFUSES, false,
     lint_seq_is_8_bytes, "the sequence number has 8 bytes"},
    {"seq_short", LLM_D, LINT_OF_FRAMES, LINT_REFUSES, false,
     lint_seq_has_8_bytes, "the sequence number has 8 bytes at least"},
    {"seq_range", CONDUCTOR, LINT_OF_FRAMES, LINT_REFUSES, false,
     lint_seq_fits_63_bits, "the sequence number is below 2^63"},
    {"message_size", MOONCAKE, LINT_OF_FRAMES, LINT_REFUSES, false,
     lint_fits_1_mib, "all frames together have 1 MiB at most"},

    /* the payload */
    {"payload_msgpack", ALL, LINT_OF_PAYLOAD, LINT_REFUSES, true,
     lint_is_msgpack, "the payload is a msgpack value"},
    {"batch_array", ALL, LINT_OF_BATCH, LINT_REFUSES, true, lint_is_array,
     "the payload is an array of timestamp, events and rank"},
    {"events_array", ALL, LINT_OF_BATCH, LINT_REFUSES, true,
     lint_events_are_a_list, "the events are an array"},
    {"batch_of_three", DYNAMO, LINT_OF_BATCH, LINT_REFUSES, false,
     lint_has_three, "the payload has exactly three elements"},
    {"timestamp_integer", ROUTER, LINT_OF_BATCH, LINT_REFUSES, false,
     lint_timestamp_is_integer, "the timestamp is an integer of 64 bits"},
    {"timestamp_number", INDEXER | LLM_D | VLLM, LINT_OF_BATCH, LINT_REFUSES,
     false, lint_timestamp_is_number, "the timestamp is a number"},
    {"dp_rank_u32", ROUTER, LINT_OF_BATCH, LINT_REFUSES, false,
     lint_rank_is_u32, "the rank is a number of 32 bits, not nil"},
    {"dp_rank_i32", INDEXER, LINT_OF_BATCH, LINT_REFUSES, false,
     lint_rank_is_i32_or_nil, "the rank is below 2^31, or nil"},
    {"events_count", MOONCAKE, LINT_OF_BATCH, LINT_REFUSES, false,
     lint_events_are_few, "a message has 4096 events at most"},

    /* events: what costs Dynamo's router the whole batch */
    {"event_map", ROUTER | MAPS, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_event_is_map, "events are maps"},
    {"event_type_str", ROUTER, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_event_type_is_str, "event_type is there, a str"},
    {"tenant_id_nil", ROUTER, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_tenant_is_not_nil, "tenant_id is a str or left out, not nil"},
    {"object_key_text", ROUTER, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_key_is_text, "object_key is a str or nil"},
    {"group_id_text", ROUTER, LINT_OF_EVENT, LINT_REFUSES, false,
     lint_group_is_text, "group_id is a str or nil"},
    {"medium_text", MOONCAKE, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_medium_is_text, "medium is a str of UTF-8 or nil, and there once"},
    {"field_twice", ROUTER, LINT_OF_EVENT, LINT_REFUSES, false,
     lint_no_field_twice,
     "event_type, object_key, tenant_id and group_id "
     "stand once each"},
    {"field_utf8", ROUTER, LINT_OF_EVENT, LINT_REFUSES, false,
     lint_fields_are_utf8,
     "event_type, object_key, tenant_id and group_id are UTF-8"},

    /* ... and what it makes of an event that can be read */
    {"object_key_none", HICACHE, LINT_OF_EVENT, LINT_IGNORES, true,
     lint_has_key, "only events with an object_key count"},
    {"object_key_needed", MOONCAKE, LINT_OF_EVENT, LINT_CLEARS, true,
     lint_has_key_or_is_clear,
     "an event that does not clear has an object_key"},
    {"tenant_default", ROUTER, LINT_OF_EVENT, LINT_IGNORES, true,
     lint_tenant_is_default, "only events of the tenant default count"},
    {"key_prefix", MOONCAKE, LINT_OF_EVENT, LINT_IGNORES, true,
     lint_key_has_prefix, "only keys of the form PREFIX@DIGEST count"},
    {"key_digest", MOONCAKE, LINT_OF_EVENT, LINT_CLEARS, false,
     lint_key_has_digest,
     "the digest behind the last @ of a key has 64 hex digits"},
    {"medium_exact", MOONCAKE, LINT_OF_EVENT, LINT_CLEARS, false,
     lint_medium_is_exact, "medium is cpu or disk, in lower case"},
    {"keyed_type", MOONCAKE, LINT_OF_EVENT, LINT_CLEARS, false,
     lint_keyed_type_is_known, "event_type is stored, removed or cleared"},

    /* events: Conductor judges each alone */
    {"event_of_store", CONDUCTOR, LINT_OF_EVENT, LINT_SKIPS, true,
     lint_is_of_store,
     "events are maps with event_type stored, removed or cleared"},
    {"names_missing", CONDUCTOR, LINT_OF_EVENT, LINT_SKIPS, true,
     lint_has_names,
     "tenant_id, backend_id and object_key of a stored are not empty"},
    {"medium_known", CONDUCTOR, LINT_OF_EVENT, LINT_IGNORES, true,
     lint_medium_is_known, "medium is cpu, cpu_pinned or disk"},
    {"model_name", CONDUCTOR, LINT_OF_EVENT, LINT_SKIPS, false, lint_has_model,
     "model_name of a stored is not empty"},
    {"block_size_zero", CONDUCTOR, LINT_OF_EVENT, LINT_SKIPS, false,
     lint_has_block_size, "block_size of a stored is above 0"},
    {"group_id_zero", BY_VLLM, LINT_OF_EVENT, LINT_SKIPS, false,
     lint_group_is_zero, "group_id is nil, empty or \"0\""},
    {"key_vllm", BY_VLLM, LINT_OF_EVENT, LINT_SKIPS, false, lint_key_is_vllm,
     "the key ends with @HASH or @HASH@RANK, or there is a "
     "connector_block_hash"},
    {"seq_hashes", BY_VLLM, LINT_OF_EVENT, LINT_SKIPS, false,
     lint_seq_hashes_agree, "seq_hashes is empty, or the key's hash alone"},
    {"key_sglang", BY_SGLANG, LINT_OF_EVENT, LINT_SKIPS, false,
     lint_key_is_sglang, "the key has 64 hex digits between underscores"},

    /* events in an engine's words: one bad event costs the batch */
    {"event_array", ARRAYS, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_event_is_array, "events are arrays"},
    {"event_tag", INDEXER | LLM_D | VLLM, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_is_tagged, "an event has a type, a str"},
    {"tag_known", INDEXER, LINT_OF_EVENT, LINT_REFUSES, true, lint_tag_is_known,
     "type is BlockStored, BlockRemoved, AllBlocksCleared or Ignored"},
    {"tag_vllm", LLM_D | VLLM, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_tag_is_vllm, "type is BlockStored, BlockRemoved or AllBlocksCleared"},
    {"array_short", ARRAYS, LINT_OF_EVENT, LINT_REFUSES, true,
     lint_has_fields_of_array,
     "BlockStored has its six first elements, BlockRemoved two"},
    {"fields_left_out", MAPS, LINT_OF_EVENT, LINT_REFUSES, false,
     lint_has_fields_of_map,
     "parent_block_hash, lora_id, medium and lora_name of BlockStored, medium "
     "of BlockRemoved are not left out"},
    {"token_ids_nil", INDEXER | LLM_D | VLLM, LINT_OF_EVENT, LINT_REFUSES,
     false, lint_has_tokens, "token_ids of BlockStored is an array, not nil"},
    {"block_size_nil", INDEXER | VLLM, LINT_OF_EVENT, LINT_REFUSES, false,
     lint_has_size, "block_size of BlockStored is a number, not nil"},
    {"block_hashes", INDEXER | VLLM, LINT_OF_EVENT, LINT_REFUSES, false,
     lint_has_hashes, "block_hashes of BlockStored is an array"},
    {"removed_hashes", VLLM, LINT_OF_EVENT, LINT_REFUSES, false,
     lint_removed_has_hashes, "block_hashes of BlockRemoved is an array"},
    {"group_negative", LLM_D, LINT_OF_EVENT, LINT_REFUSES, false,
     lint_group_is_not_negative, "group_idx is not negative"},
    {"locality", INDEXER, LINT_OF_EVENT, LINT_SKIPS, true, lint_is_local,
     "locality is LOCAL or left out"},
    {"no_blocks", INDEXER, LINT_OF_EVENT, LINT_IGNORES, false, lint_has_blocks,
     "only events with block_hashes count"},
};
const size_t lint_rule_count = sizeof lint_rules / sizeof lint_rules[0];
_Static_assert(sizeof lint_rules / sizeof lint_rules[0] <= LINT_FINDINGS_MAX,
               "lint_findings says how many there may be");
