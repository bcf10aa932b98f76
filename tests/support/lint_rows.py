#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/vectors/lint.json: messages, and the rules of lint that each
breaks, consumer by consumer, said by hand. Bytes are python3-msgpack's.

    lint_rows.py > tests/data/vectors/lint.json

A row names only the consumers that it is about. test_lint.c asks that there is,
for each rule of each consumer, a row which breaks that rule and no other; it makes
the two that take a megabyte itself.
"""
import json
import struct
import sys

import msgpack

DIGEST = "%064x" % 0x1122334455667788990011223344556677889900AABBCCDDEEFF001122334455
TAIL = int(DIGEST[-16:], 16)
VLLM_KEY = "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" + DIGEST
SGLANG_KEY = DIGEST + "_0_k"
KV = b"kv@pod@m"
KV_EVENTS = b"kv-events"

ROUTER = ("dynamo-hicache", "dynamo-mooncake-store")
DYNAMO = ROUTER + ("dynamo-indexer",)
CONDUCTOR = ("conductor-vllm", "conductor-sglang")
VLLM = ("vllm-array", "vllm-map")
ALL = DYNAMO + CONDUCTOR + ("llm-d",) + VLLM
TAGGED = ("dynamo-indexer", "llm-d") + VLLM


class Raw(bytes):
    """Goes to the wire as it is."""


def pack(value):
    """Maps may be lists of pairs, marked by a tuple, so that a name can stand twice."""
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, tuple):
        head = msgpack.Packer().pack_map_header(len(value))
        return head + b"".join(pack(k) + pack(v) for k, v in value)
    if isinstance(value, list):
        return msgpack.Packer().pack_array_header(len(value)) + b"".join(map(pack, value))
    return msgpack.packb(value, use_bin_type=True)


ROWS = []


def row(name, frames, *rules_of):
    """rules_of: (consumers, [rules]) ..."""
    expect = {}
    for consumers, rules in rules_of:
        for consumer in (consumers,) if isinstance(consumers, str) else consumers:
            assert consumer in ALL and consumer not in expect, (name, consumer)
            expect[consumer] = rules
    ROWS.append({"name": name, "frames": [f.hex() for f in frames], "expect": expect})


def message(payload, topic=b"", seq=struct.pack(">Q", 7)):
    return [topic, seq, pack(payload)]


TS = 1739145600000
SECONDS = 1739145600.5


def stored(**more):
    e = {"event_id": 1, "timestamp": TS, "event_type": "stored", "type": "BlockStored", "model_name": "m",
         "block_size": 16, "additional_salt": None, "lora_name": None, "tenant_id": "default", "backend_id": "n1",
         "medium": "cpu", "dp_rank": 0, "group_id": None, "session_id": None, "object_key": VLLM_KEY,
         "seq_hashes": [], "block_hashes": [5], "base_block_idx": None, "parent_hash": None, "token_ids": [],
         "parent_block_hash": None}
    e.update(more)
    return {k: v for k, v in e.items() if v != "LEFT OUT"}


def cleared(**more):
    e = {"event_id": 1, "timestamp": TS, "event_type": "cleared", "type": "AllBlocksCleared", "model_name": None,
         "block_size": None, "tenant_id": "default", "backend_id": "n1", "medium": None, "dp_rank": 0}
    e.update(more)
    return {k: v for k, v in e.items() if v != "LEFT OUT"}


OUT = "LEFT OUT"


def batch(*events, ts=TS, rank=0):
    return [ts, list(events), rank]


def block(**more):
    """An event of vLLM as a map."""
    e = {"type": "BlockStored", "block_hashes": [5], "parent_block_hash": None, "token_ids": [1, 2], "block_size": 2,
         "lora_id": None, "medium": "GPU", "lora_name": None}
    e.update(more)
    return {k: v for k, v in e.items() if v != OUT}


BLOCK_ARRAY = ["BlockStored", [5], None, [1, 2], 2, None, "GPU"]


def array(**at):
    e = BLOCK_ARRAY + [None] * 6
    for place, value in at.items():
        e[int(place[1:])] = value
    return e


# ---- what is taken -------------------------------------------------------

row("store-vllm-key", message(batch(stored()), KV), (DYNAMO + ("conductor-vllm", "llm-d"), []))
row("store-sglang-key", message(batch(stored(object_key=SGLANG_KEY)), KV),
    (("dynamo-hicache", "dynamo-indexer", "conductor-sglang", "llm-d"), []),
    ("dynamo-mooncake-store", ["key_prefix"]), ("conductor-vllm", ["key_vllm"]))
row("store-heartbeat", message(batch(), KV), (DYNAMO + CONDUCTOR + ("llm-d",), []), (VLLM, ["topic_kv_events"]))
row("store-cleared", message(batch(cleared(), stored())),
    ("dynamo-hicache", ["object_key_none"]), (("dynamo-mooncake-store", "dynamo-indexer", "conductor-vllm"), []))
row("store-unknown-field-not-utf8", message(batch(stored(new=Raw(b"\xa1\xff")))),
    (("dynamo-hicache", "dynamo-mooncake-store"), []))
row("store-unknown-field-twice", message(batch(tuple(stored().items()) + (("new", 1), ("new", 2)))),
    (("dynamo-hicache", "dynamo-mooncake-store"), []))
row("store-trailing-bytes", [b"", bytes(8), pack(batch(stored())) + b"\x00"], (ROUTER, []))
row("store-key-bin", message(batch(stored(object_key=VLLM_KEY.encode()))), (ROUTER, []))
row("store-tenant-left-out", message(batch(stored(tenant_id=OUT))), (ROUTER, []), ("conductor-vllm", ["names_missing"]))
row("store-unkeyed-heartbeat-type", message(batch(stored(event_type="heartbeat", object_key=None))),
    ("dynamo-hicache", ["object_key_none"]), ("dynamo-mooncake-store", ["object_key_needed"]),
    (CONDUCTOR, ["event_of_store"]))
row("store-group-zero", message(batch(stored(group_id="0"), stored(group_id=""))), ("conductor-vllm", []))
row("store-medium-any-case", message(batch(stored(medium="CPU_Pinned"), stored(medium="Disk"))),
    ("conductor-vllm", []))
row("store-connector-hash", message(batch(stored(object_key="odd", connector_block_hash="0x" + DIGEST))),
    ("conductor-vllm", []))
row("store-compact-key", message(batch(stored(object_key="model@3@" + DIGEST + "@11"))), ("conductor-vllm", []))
row("store-seq-hash-of-key", message(batch(stored(seq_hashes=[TAIL]))), ("conductor-vllm", []))
row("store-removed-bare", message(batch({"event_type": "removed", "object_key": "x"})),
    (CONDUCTOR, []), ("dynamo-hicache", []))
row("engine-map", message(batch(block(), {"type": "BlockRemoved", "block_hashes": [5], "medium": "GPU"},
                                {"type": "AllBlocksCleared"}, ts=SECONDS), KV_EVENTS),
    ("vllm-map", []), ("vllm-array", ["event_array"]), ("dynamo-indexer", []), (ROUTER, ["timestamp_integer",
                                                                                      "event_type_str"]))
row("engine-array", message(batch(BLOCK_ARRAY, ["BlockRemoved", [5], "GPU"], ["AllBlocksCleared"], ts=SECONDS,
                                  rank=None), KV_EVENTS),
    ("vllm-array", []), ("vllm-map", ["event_map"]), ("dynamo-indexer", []))
row("engine-map-llm-d", message(batch(block(), ts=SECONDS), KV), ("llm-d", []))
row("engine-array-llm-d", message(batch(BLOCK_ARRAY, ts=SECONDS), KV), ("llm-d", []))
row("engine-rank-left-out", message([SECONDS, [block()]], KV_EVENTS), ("vllm-map", []),
    ("dynamo-indexer", ["batch_of_three"]))
row("engine-ignored", message(batch({"type": "Ignored"}, ts=SECONDS)), ("dynamo-indexer", []))
row("engine-rank-negative", message(batch(ts=SECONDS, rank=-1)), ("dynamo-indexer", []))

# ---- messages ------------------------------------------------------------

GOOD = pack(batch(stored(), ts=TS))
EIGHT = bytes(8)
row("frames-two", [b"", EIGHT], (ALL, ["frame_count"]))
row("frames-four", [b"", EIGHT, GOOD, b""], (ALL, ["frame_count"]))
row("frames-none", [], (ALL, ["frame_count"]))
row("topic-empty", message(batch(stored())), ("llm-d", ["topic_kv_at"]))
row("topic-empty-heartbeat", message(batch()), ("llm-d", ["topic_kv_at"]), (VLLM, ["topic_kv_events"]))
row("seq-of-seven", [KV, bytes(7), GOOD], (DYNAMO + ("conductor-vllm",), ["seq_size"]), ("llm-d", ["seq_short"]))
row("seq-of-seven-heartbeat", [KV, bytes(7), pack(batch())], ("conductor-sglang", ["seq_size"]))
row("seq-of-nine", [KV, bytes(9), GOOD], (DYNAMO + ("conductor-vllm",), ["seq_size"]), ("llm-d", []))
row("seq-over-63-bits", message(batch(), seq=b"\x80" + bytes(7)), (CONDUCTOR, ["seq_range"]), (DYNAMO, []))
row("payload-cut", [KV, EIGHT, GOOD[:-1]], (DYNAMO + CONDUCTOR + ("llm-d",), ["payload_msgpack"]))
row("payload-cut-heartbeat", [KV_EVENTS, EIGHT, b"\x93\x01"], (VLLM, ["payload_msgpack"]))
row("payload-empty", [KV, EIGHT, b""], (DYNAMO + CONDUCTOR + ("llm-d",), ["payload_msgpack"]))
row("payload-reserved-byte", [KV, EIGHT, b"\x93\x01\x91\xc1\x00"], (DYNAMO + CONDUCTOR, ["payload_msgpack"]))
row("payload-lying-count", [KV, EIGHT, b"\x93\x01\xdd\xff\xff\xff\xff\x00"], (DYNAMO + CONDUCTOR, ["payload_msgpack"]))
row("payload-deep", [KV, EIGHT, b"\x91" * 40 + b"\x01"], (DYNAMO + CONDUCTOR, ["payload_msgpack"]))
for name, payload in (("batch-map", {"ts": 1.5, "events": []}), ("batch-of-one", [TS]), ("batch-number", 7),
                      ("batch-empty", [])):
    row(name, message(payload, KV), (DYNAMO + CONDUCTOR + ("llm-d",), ["batch_array"]))
    row(name + "-kv-events", message(payload, KV_EVENTS), (VLLM, ["batch_array"]))
row("events-map", message([TS, {}, 0], KV), (DYNAMO + CONDUCTOR + ("llm-d",), ["events_array"]))
row("events-map-kv-events", message([TS, {}, 0], KV_EVENTS), (VLLM, ["events_array"]))
row("batch-of-two", message([TS, []]), (DYNAMO, ["batch_of_three"]), (CONDUCTOR, []))
row("batch-of-four", message([TS, [], 0, 0]), (DYNAMO, ["batch_of_three"]))
row("timestamp-float", message(batch(ts=SECONDS)), (ROUTER, ["timestamp_integer"]), ("dynamo-indexer", []))
row("timestamp-over-63-bits", message(batch(ts=2**63)), (ROUTER, ["timestamp_integer"]), ("dynamo-indexer", []))
row("timestamp-negative", message(batch(ts=-1)), (DYNAMO, []))
row("timestamp-str", message(batch(ts="1"), KV), (ROUTER, ["timestamp_integer"]),
    (("dynamo-indexer", "llm-d"), ["timestamp_number"]))
row("timestamp-str-kv-events", message(batch(ts="1"), KV_EVENTS), (VLLM, ["timestamp_number"]))
row("rank-nil", message(batch(rank=None)), (ROUTER, ["dp_rank_u32"]), ("dynamo-indexer", []))
row("rank-over-31-bits", message(batch(rank=2**31)), (ROUTER, []), ("dynamo-indexer", ["dp_rank_i32"]))
row("rank-over-32-bits", message(batch(rank=2**32)), (ROUTER, ["dp_rank_u32"]), ("dynamo-indexer", ["dp_rank_i32"]))
row("rank-str", message(batch(rank="0")), (ROUTER, ["dp_rank_u32"]), ("dynamo-indexer", ["dp_rank_i32"]))

# ---- what costs Dynamo's router the batch --------------------------------

row("event-array", message(batch(stored(), ["stored"], stored())), (ROUTER, ["event_map"]))
row("event-number", message(batch(7), KV_EVENTS), (ROUTER, ["event_map"]), ("dynamo-indexer", ["event_tag"]),
    ("vllm-map", ["event_map"]), ("vllm-array", ["event_array"]), (CONDUCTOR, ["event_of_store"]))
row("event-type-left-out", message(batch(stored(event_type=OUT))), (ROUTER, ["event_type_str"]),
    (CONDUCTOR, ["event_of_store"]))
row("event-type-nil", message(batch(stored(event_type=None))), (ROUTER, ["event_type_str"]))
row("tenant-nil", message(batch(stored(tenant_id=None))), (ROUTER, ["tenant_id_nil"]),
    ("conductor-vllm", ["names_missing"]))
row("tenant-number", message(batch(stored(tenant_id=3))), (ROUTER, ["tenant_id_nil"]))
row("key-number", message(batch(stored(object_key=3))), (ROUTER, ["object_key_text"]))
row("key-bin-high", message(batch(stored(object_key=b"\xff"))), (ROUTER, ["object_key_text"]))
row("group-number", message(batch(stored(group_id=3))), (ROUTER, ["group_id_text"]))
row("medium-number", message(batch(stored(medium=3))), ("dynamo-mooncake-store", ["medium_text"]),
    ("dynamo-hicache", []))
row("medium-twice", message(batch(tuple(stored().items()) + (("medium", "cpu"),))),
    ("dynamo-mooncake-store", ["medium_text"]), ("dynamo-hicache", []))
row("medium-not-utf8", message(batch(stored(medium=Raw(b"\xa1\xff")))), ("dynamo-mooncake-store", ["medium_text"]),
    ("dynamo-hicache", []))
for name in ("event_type", "object_key", "tenant_id", "group_id"):
    row("twice-" + name, message(batch(tuple(stored().items()) + ((name, stored()[name]),))), (ROUTER, ["field_twice"]))
row("not-utf8-group", message(batch(stored(group_id=Raw(b"\xa1\xff")))), (ROUTER, ["field_utf8"]))
row("not-utf8-key", message(batch(stored(object_key=Raw(pack(VLLM_KEY)[:2] + b"\xff" + VLLM_KEY.encode()[1:])))),
    (ROUTER, ["field_utf8"]))
row("not-utf8-other-tenant", message(batch(stored(tenant_id=Raw(b"\xa1\xff")))), (ROUTER, ["field_utf8",
                                                                                          "tenant_default"]))

# ---- what it makes of an event that can be read --------------------------

row("key-nil", message(batch(stored(object_key=None))), ("dynamo-hicache", ["object_key_none"]),
    ("dynamo-mooncake-store", ["object_key_needed"]), (CONDUCTOR, ["names_missing"]))
row("tenant-other", message(batch(stored(tenant_id="t2"))), (ROUTER, ["tenant_default"]), ("conductor-vllm", []))
row("digest-short", message(batch(stored(object_key="m@" + DIGEST[1:]))), ("dynamo-mooncake-store", ["key_digest"]))
row("digest-no-hex", message(batch(stored(object_key="m@" + DIGEST[1:] + "x"))),
    ("dynamo-mooncake-store", ["key_digest"]), ("conductor-vllm", ["key_vllm"]))
row("medium-upper-case", message(batch(stored(medium="CPU"))), ("dynamo-mooncake-store", ["medium_exact"]))
row("medium-nil", message(batch(stored(medium=None))), ("dynamo-mooncake-store", ["medium_exact"]),
    (CONDUCTOR, ["medium_known"]))
row("type-other-with-key", message(batch(stored(event_type="touched"))), ("dynamo-mooncake-store", ["keyed_type"]),
    ("dynamo-hicache", []))

# ---- Conductor -----------------------------------------------------------

SGLANG = {"object_key": SGLANG_KEY}
row("conductor-engine-event", message(batch(block())), (CONDUCTOR, ["event_of_store"]))
row("conductor-backend-empty", message(batch(stored(backend_id=""))), (CONDUCTOR, ["names_missing"]))
row("conductor-medium-other", message(batch(stored(medium="nvme"))), (CONDUCTOR, ["medium_known"]))
row("conductor-model-nil", message(batch(stored(model_name=None))), ("conductor-vllm", ["model_name"]))
row("conductor-model-nil-sglang", message(batch(stored(model_name=None, **SGLANG))),
    ("conductor-sglang", ["model_name"]))
row("conductor-size-nil", message(batch(stored(block_size=None))), ("conductor-vllm", ["block_size_zero"]))
row("conductor-size-zero-sglang", message(batch(stored(block_size=0, **SGLANG))),
    ("conductor-sglang", ["block_size_zero"]))
row("conductor-group", message(batch(stored(group_id="vllm-mooncake-store:x"))), ("conductor-vllm", ["group_id_zero"]),
    ("conductor-sglang", ["key_sglang"]))
row("conductor-group-sglang", message(batch(stored(group_id="sglang-hicache:x", **SGLANG))), ("conductor-sglang", []))
row("conductor-key-odd-digits", message(batch(stored(object_key="m@" + "a" * 17))), ("conductor-vllm", ["key_vllm"]))
row("conductor-key-short", message(batch(stored(object_key="m@" + "a" * 14))), ("conductor-vllm", ["key_vllm"]))
row("conductor-key-rank-alone", message(batch(stored(object_key="m@7"))), ("conductor-vllm", ["key_vllm"]))
row("conductor-seq-hash-other", message(batch(stored(seq_hashes=[TAIL + 1]))), ("conductor-vllm", ["seq_hashes"]))
row("conductor-seq-hashes-two", message(batch(stored(seq_hashes=[TAIL, TAIL]))), ("conductor-vllm", ["seq_hashes"]))
row("conductor-sglang-digits-in-a-longer-run", message(batch(stored(object_key=DIGEST + "a_0_k"))),
    ("conductor-sglang", ["key_sglang"]))
row("conductor-sglang-named", message(batch(stored(object_key="model-7_" + DIGEST + "__k"))),
    ("conductor-sglang", []))

# ---- in an engine's words ------------------------------------------------

for consumers, topic in ((("dynamo-indexer", "llm-d"), KV), (("vllm-map",), KV_EVENTS)):
    word = consumers[-1]
    row("tag-left-out-" + word, message(batch(block(type=OUT)), topic), (consumers, ["event_tag"]))
    row("tag-number-" + word, message(batch(block(type=1)), topic), (consumers, ["event_tag"]))
    row("tokens-nil-" + word, message(batch(block(token_ids=None)), topic), (consumers, ["token_ids_nil"]))
    row("tokens-left-out-" + word, message(batch(block(token_ids=OUT)), topic), (consumers, ["token_ids_nil"]))
row("tag-number-array", message(batch([1, [5]]), KV_EVENTS), ("vllm-array", ["event_tag"]))
row("tag-empty-array", message(batch([]), KV_EVENTS), ("vllm-array", ["event_tag"]))
row("tokens-nil-array", message(batch(array(_3=None)), KV_EVENTS), (("vllm-array", "dynamo-indexer"), ["token_ids_nil"]))
row("size-nil-array", message(batch(array(_4=None)), KV_EVENTS), (("vllm-array", "dynamo-indexer"), ["block_size_nil"]))
row("size-nil-map", message(batch(block(block_size=None)), KV_EVENTS), (("vllm-map", "dynamo-indexer"),
                                                                       ["block_size_nil"]))
row("hashes-nil-map", message(batch(block(block_hashes=None)), KV_EVENTS), (("vllm-map", "dynamo-indexer"),
                                                                           ["block_hashes"]))
row("hashes-nil-array", message(batch(array(_1=None)), KV_EVENTS), (("vllm-array", "dynamo-indexer"), ["block_hashes"]))
row("tag-unknown-map", message(batch(block(type="BlockMoved")), KV_EVENTS), ("vllm-map", ["tag_vllm"]),
    ("dynamo-indexer", ["tag_known"]))
row("tag-unknown-llm-d", message(batch(block(type="BlockMoved")), KV), ("llm-d", ["tag_vllm"]))
row("tag-ignored-llm-d", message(batch({"type": "Ignored"}), KV), ("llm-d", ["tag_vllm"]), ("dynamo-indexer", []))
row("tag-unknown-array", message(batch(["BlockMoved", [5]]), KV_EVENTS), ("vllm-array", ["tag_vllm"]))
row("array-short-stored", message(batch(BLOCK_ARRAY[:5]), KV_EVENTS), ("vllm-array", ["array_short"]))
row("array-shortest-stored", message(batch(BLOCK_ARRAY[:6]), KV_EVENTS), ("vllm-array", []))
row("array-short-removed", message(batch(["BlockRemoved"]), KV_EVENTS), ("vllm-array", ["array_short"]))
for name in ("parent_block_hash", "lora_id", "medium", "lora_name"):
    row("left-out-" + name, message(batch(block(**{name: OUT})), KV_EVENTS), ("vllm-map", ["fields_left_out"]),
        ("dynamo-indexer", []))
row("left-out-medium-of-removed", message(batch({"type": "BlockRemoved", "block_hashes": [5]}), KV_EVENTS),
    ("vllm-map", ["fields_left_out"]), ("dynamo-indexer", []))
row("removed-hashes-map", message(batch({"type": "BlockRemoved", "medium": None}), KV_EVENTS),
    ("vllm-map", ["removed_hashes"]))
row("removed-hashes-array", message(batch(["BlockRemoved", None]), KV_EVENTS), ("vllm-array", ["removed_hashes"]))
row("group-negative-map", message(batch(block(group_idx=-1)), KV), ("llm-d", ["group_negative"]))
row("group-negative-array", message(batch(array(_9=-1)), KV), ("llm-d", ["group_negative"]))
row("group-negative-removed", message(batch(["BlockRemoved", [5], "GPU", -1]), KV), ("llm-d", ["group_negative"]))
row("locality-remote", message(batch(block(locality="REMOTE"))), ("dynamo-indexer", ["locality"]))
row("locality-local", message(batch(block(locality="LOCAL"), block(locality=None))), ("dynamo-indexer", []))
row("locality-remote-removed-array", message(batch(["BlockRemoved", [5], "GPU", None, "REMOTE"])),
    ("dynamo-indexer", ["locality"]))
row("no-blocks-stored", message(batch(block(block_hashes=[]))), ("dynamo-indexer", ["no_blocks"]))
row("no-blocks-removed", message(batch(["BlockRemoved", [], "GPU"])), ("dynamo-indexer", ["no_blocks"]))


def main():
    assert len({r["name"] for r in ROWS}) == len(ROWS)
    json.dump(ROWS, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
