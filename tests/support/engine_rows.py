#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/vectors/engine.json: messages as engines send them, and
what a strict reader makes of each, said by hand. Bytes are python3-msgpack's.

    engine_rows.py > tests/data/vectors/engine.json

A name says whose form it is and since or until which version, or with which
change of theirs. A row's `expect` is the text that test_engine_event.c makes of
what was read: a line for the message and one per event. In bad rows MARK stands
where the fault is.
"""
import json
import struct
import sys

import msgpack

MARK = object()
DIGEST = bytes(range(1, 33))  # its last eight bytes: 191a1b1c1d1e1f20
TS = 1789095808.83
NEGATIVE = -2  # fffffffffffffffe


def pack(value):
    return msgpack.packb(value, use_bin_type=True)


def batch(*events, rank=0):
    return [TS, list(events), rank]


def header(rank="0", count=1, refused=0):
    return f"seq=7 ts=1789095808830 rank={rank} count={count} refused={refused}"


FORMS = []


def form(name, payload, *expect):
    FORMS.append((name, pack(payload), "\n".join(expect)))


# ---- arrays --------------------------------------------------------------

form("vllm-0.9-array-without-medium",
     batch(["BlockStored", [11, 12], None, list(range(32)), 16, None],
           ["BlockRemoved", [11]], ["AllBlocksCleared"]),
     header(count=3), "stored hashes=b,c tokens=32 size=16",
     "removed hashes=b", "cleared")
form("vllm-0.11-array-medium-int-hashes",
     batch(["BlockStored", [2**64 - 1, 12], 10, [1, 2], 2, 3, "GPU"],
           ["BlockRemoved", [12], "GPU"]),
     header(count=2),
     "stored hashes=ffffffffffffffff,c parent=a tokens=2 size=2 lora_id=3 "
     "medium=GPU", "removed hashes=c medium=GPU")
form("vllm-0.11-array-bytes-hashes",
     batch(["BlockStored", [DIGEST, b"\x01\x02"], DIGEST[::-1], [1], 1, None,
            "GPU"], ["BlockRemoved", [DIGEST], "GPU"]),
     header(count=2),
     "stored hashes=191a1b1c1d1e1f20,102 parent=807060504030201 tokens=1 "
     "size=1 medium=GPU", "removed hashes=191a1b1c1d1e1f20 medium=GPU")
form("vllm-0.25-array-hma",
     batch(["BlockStored", [5], None, [9] * 16, 16, None, "GPU", "adapter",
            [["mm", 3], None], 1, "sliding_window", 4096],
           ["BlockRemoved", [5], "GPU", 1]),
     header(count=2),
     "stored hashes=5 tokens=16 size=16 group=1 window=4096 medium=GPU "
     "lora=adapter kind=sliding_window", "removed hashes=5 group=1 medium=GPU")
form("vllm-0.25-array-lora-nil",
     batch(["BlockStored", [5], 4, [9], 1, None, "GPU", None]),
     header(), "stored hashes=5 parent=4 tokens=1 size=1 medium=GPU")
form("sglang-array",
     batch(["BlockStored", [NEGATIVE], NEGATIVE, [1, 2], 2, None],
           ["BlockRemoved", [NEGATIVE]], rank=None),
     header(rank="-", count=2),
     "stored hashes=fffffffffffffffe parent=fffffffffffffffe tokens=2 size=2",
     "removed hashes=fffffffffffffffe")
form("sglang-37482-array-metadata-at-7",
     batch(["BlockStored", [5], None, [1], 1, None, "CPU_PINNED",
            {"cache_salt": "pepper", "session_id": "agent-7"}],
           ["BlockStored", [6], 5, [1], 1, None, "GPU", {}]),
     header(count=2),
     "stored hashes=5 tokens=1 size=1 medium=CPU_PINNED session=agent-7 "
     "salt=pepper", "stored hashes=6 parent=5 tokens=1 size=1 medium=GPU")
form("sglang-37482-array-metadata-of-more",
     batch(["BlockStored", [5], None, [1], 1, None, None,
            {"session_id": "s", "block_hashes": 7, "new": {"deep": [1]}}]),
     header(), "stored hashes=5 tokens=1 size=1 session=s")
form("array-longer-than-any-known",
     batch(["BlockStored", [5], None, [1], 1, None, "GPU", None, None, None,
            None, None, "LOCAL", "owned", "agent-7", {"x": 1}, 3],
           ["BlockRemoved", [5], "GPU", None, "REMOTE", "owned", 9],
           ["AllBlocksCleared", "worker"]),
     header(count=3),
     "stored hashes=5 tokens=1 size=1 medium=GPU session=agent-7 "
     "locality=LOCAL", "removed hashes=5 medium=GPU locality=REMOTE", "cleared")

# ---- maps ----------------------------------------------------------------


def stored(**more):
    event = {"type": "BlockStored", "block_hashes": [5],
             "parent_block_hash": None, "token_ids": [1, 2], "block_size": 2}
    event.update(more)
    return event


STORED = "stored hashes=5 tokens=2 size=2"

form("vllm-0.26-map",
     batch(stored(lora_id=None, medium="GPU", lora_name=None),
           {"type": "BlockRemoved", "block_hashes": [5], "medium": "GPU"},
           {"type": "AllBlocksCleared"}),
     header(count=3), STORED + " medium=GPU", "removed hashes=5 medium=GPU",
     "cleared")
form("vllm-0.26-map-bytes-hma",
     batch(stored(block_hashes=[DIGEST], parent_block_hash=DIGEST,
                  medium="GPU", lora_name="a", lora_id=4, group_idx=0,
                  extra_keys=[None], kv_cache_spec_kind="full_attention",
                  kv_cache_spec_sliding_window=None), rank=3),
     header(rank="3"),
     "stored hashes=191a1b1c1d1e1f20 parent=191a1b1c1d1e1f20 tokens=2 size=2 "
     "group=0 lora_id=4 medium=GPU lora=a kind=full_attention")
form("vllm-51381-map-session",
     batch(stored(medium="GPU", locality="LOCAL", ownership="x",
                  session_id="agent-7"),
           {"type": "BlockRemoved", "block_hashes": [5], "medium": "CPU",
            "locality": "REMOTE", "remaining_copy_counts": [0]}),
     header(count=2), STORED + " medium=GPU session=agent-7 locality=LOCAL",
     "removed hashes=5 medium=CPU locality=REMOTE")
form("vllm-offload-map-no-tokens",
     batch(stored(block_hashes=[5, 6], token_ids=[], medium="CPU"),
           stored(token_ids=[], parent_block_hash=4)),
     header(count=2), "stored hashes=5,6 size=2 unordered medium=CPU",
     "stored hashes=5 parent=4 size=2")
form("vllm-0181ea3-batch-map",
     {"ts": TS, "events": [stored()], "data_parallel_rank": 2},
     header(rank="2"), STORED)
form("vllm-0181ea3-batch-map-defaults-left-out",
     {"new": ["x"], "events": [], "ts": TS}, header(rank="-", count=0))
form("vllm-rank-left-out", [TS, [stored()]], header(rank="-"), STORED)
form("sglang-map-eagle-pairs",
     batch(stored(token_ids=[[1, 2], [2, 3]], medium="GPU",
                  session_id="", cache_salt="s", format="dynamo"), rank=None),
     header(rank="-"), STORED + " pairs medium=GPU salt=s")
form("sglang-39991-map-namespaced",
     batch(stored(block_hashes=[NEGATIVE, 6], parent_block_hash=NEGATIVE,
                  medium="GPU", session_id="agent-7", cache_salt="s",
                  lora_name="a", format="dynamo",
                  namespaced_block_hashes=[NEGATIVE, 6],
                  namespaced_parent_block_hash=None),
           {"type": "BlockRemoved", "block_hashes": [6], "medium": "CPU",
            "namespaced_block_hashes": [6]}),
     header(count=2),
     "stored hashes=fffffffffffffffe,6 parent=fffffffffffffffe tokens=2 "
     "size=2 medium=GPU lora=a session=agent-7 salt=s",
     "removed hashes=6 medium=CPU")
form("vllm-0.26-map-hma-without-group",
     batch(stored(medium="GPU", kv_cache_spec_kind="mamba", group_idx=None),
           {"type": "BlockRemoved", "block_hashes": [5], "medium": "GPU",
            "group_idx": 2}),
     header(count=2), STORED + " medium=GPU kind=mamba",
     "removed hashes=5 group=2 medium=GPU")
form("tokens-nil-or-left-out",
     batch({"type": "BlockStored", "parent_block_hash": None,
            "block_hashes": [5]}, stored(token_ids=None, block_size=None)),
     header(count=2), "stored hashes=5", "stored hashes=5")
form("timestamp-integer", [1789095808, [], 0],
     "seq=7 ts=1789095808000 rank=0 count=0 refused=0")
FORMS.append(("timestamp-narrow-float",
              b"\x93\xca" + struct.pack(">f", 1.5) + b"\x90\x00",
              "seq=7 ts=1500 rank=0 count=0 refused=0"))

# ---- refusals ------------------------------------------------------------

GOOD = ["BlockRemoved", [1], "GPU"]
GOOD_LINE = "removed hashes=1 medium=GPU"


def splice(value):
    """Bytes, and where MARK stood: just before the value that follows it, or
    at the value that is its pair: (MARK, value)."""
    if isinstance(value, tuple):
        return splice(value[1])[0], 0
    if isinstance(value, bytes):
        return value, None
    if isinstance(value, (list, dict)):
        size = len(value)
        small = 0x90 if isinstance(value, list) else 0x80
        assert size < 16
        out, at = bytes([small + size]), None
        parts = value if isinstance(value, list) else \
            [part for pair in value.items() for part in pair]
        for part in parts:
            data, mark = splice(part)
            if mark is not None:
                at = len(out) + mark
            out += data
        return out, at
    return pack(value), None


def bad_event(name, error, event):
    payload, at = splice([TS, [GOOD, event, GOOD], 0])
    FORMS.append((name, payload, "\n".join(
        [header(count=3, refused=1), GOOD_LINE, f"refused {error}@{at}",
         GOOD_LINE])))


def bad(value):
    return (MARK, value)


def named(**more):
    return stored(**more)


def array(**at):
    event = ["BlockStored", [5], None, [1, 2], 2, None, "GPU", None, None,
             None, None, None]
    for place, value in at.items():
        event[int(place[1:])] = value
    return event


bad_event("event-no-container", "event_type_form", bad(7))
bad_event("event-nil", "event_type_form", bad(None))
bad_event("array-empty", "event_type_missing", bad([]))
bad_event("array-tag-number", "field_type", [bad(1), [5]])
bad_event("array-tag-unknown", "event_type_unknown", [bad("BlockMigrated"), 1])
bad_event("array-tag-not-utf8", "utf8", [bad(b"\xa2\xc3\x28"), 1])
bad_event("array-without-hashes", "field_missing", bad(["BlockRemoved"]))
bad_event("array-without-parent", "field_missing", bad(["BlockStored", [5]]))
bad_event("array-hashes-nil", "field_type", array(_1=bad(None)))
bad_event("array-hash-str", "field_type", array(_1=[4, bad("5")]))
bad_event("array-hash-list", "field_type", array(_1=[bad([5]), 4]))
bad_event("array-hash-of-no-bytes", "hash_size", array(_1=[bad(pack(b""))]))
bad_event("array-hash-of-65-bytes", "hash_size",
          array(_1=[pack(bytes(64)), bad(pack(bytes(65)))]))
bad_event("array-parent-of-65-bytes", "hash_size",
          array(_2=bad(pack(bytes(65)))))
bad_event("array-parent-str", "field_type", array(_2=bad("5")))
bad_event("array-tokens-number", "field_type", array(_3=bad(4)))
bad_event("array-token-str", "field_type", array(_3=[1, bad("2")]))
bad_event("array-token-negative", "field_range", array(_3=[1, bad(-2)]))
bad_event("array-pair-after-token", "field_type", array(_3=[1, bad([1, 2])]))
bad_event("array-token-after-pair", "field_type", array(_3=[[1, 2], bad(2)]))
bad_event("array-pair-of-three", "field_type", array(_3=[bad([1, 2, 3])]))
bad_event("array-pair-of-strs", "field_type", array(_3=[[1, bad("2")]]))
bad_event("array-pair-negative", "field_range", array(_3=[[1, bad(-1)]]))
bad_event("array-block-size-negative", "field_range", array(_4=bad(-1)))
bad_event("array-block-size-over-32-bits", "field_range",
          array(_4=bad(2**32)))
bad_event("array-block-size-float", "field_type", array(_4=bad(16.0)))
bad_event("array-lora-id-over-63-bits", "field_range", array(_5=bad(2**63)))
bad_event("array-medium-number", "field_type", array(_6=bad(1)))
bad_event("array-medium-not-utf8", "utf8", array(_6=bad(b"\xa1\xff")))
bad_event("array-lora-name-list", "field_type", array(_7=bad([])))
bad_event("array-metadata-name-number", "field_name", array(_7={bad(1): 2}))
bad_event("array-metadata-session-long", "session_id_too_long",
          array(_7={"session_id": bad("x" * 257)}))
bad_event("array-metadata-salt-number", "field_type",
          array(_7={"cache_salt": bad(5)}))
bad_event("array-metadata-unknown-not-utf8", "utf8",
          array(_7={"new": bad(b"\xa1\xff")}))
bad_event("array-extra-keys-str", "field_type", array(_8=bad("x")))
bad_event("array-extra-keys-not-utf8", "utf8",
          array(_8=[None, [bad(b"\xa1\xff")]]))
bad_event("array-group-negative", "field_range", array(_9=bad(-1)))
bad_event("array-spec-kind-number", "field_type", array(_10=bad(2)))
bad_event("array-window-str", "field_type", array(_11=bad("4096")))
bad_event("array-session-twice", "field_duplicate",
          array(_7={"session_id": "s"}) + [None, None, bad("s")])
bad_event("array-surplus-not-utf8", "utf8",
          ["AllBlocksCleared", bad(b"\xa1\xff")])
bad_event("map-empty", "event_type_missing", bad({}))
bad_event("map-without-type", "event_type_missing",
          bad({"block_hashes": [5]}))
bad_event("map-type-unknown", "event_type_unknown",
          named(type=bad("BlockMigrated")))
bad_event("map-type-nil", "field_type", named(type=bad(None)))
bad_event("map-without-hashes", "field_missing", bad({"type": "BlockRemoved"}))
bad_event("map-without-parent", "field_missing",
          bad({"type": "BlockStored", "block_hashes": [5]}))
bad_event("map-name-number", "field_name", {"type": "BlockRemoved", bad(3): 1})
bad_event("map-name-not-utf8", "utf8",
          {"type": "BlockRemoved", bad(b"\xa1\xff"): 1})
bad_event("map-unknown-not-utf8", "utf8", named(new=[bad(b"\xa1\xff")]))
bad_event("map-name-twice", "field_duplicate",
          b"\x83" + pack("type") + pack("AllBlocksCleared") + pack("medium") +
          pack("GPU") + pack("medium") + pack("CPU"))
bad_event("map-session-257-bytes", "session_id_too_long",
          named(session_id=bad("x" * 257)))
bad_event("map-session-not-utf8", "utf8", named(session_id=bad(b"\xa1\xff")))
bad_event("map-hashes-map", "field_type", named(block_hashes=bad({})))
bad_event("map-hash-nil", "field_type", named(block_hashes=[bad(None)]))
bad_event("map-locality-number", "field_type", named(locality=bad(1)))


def bad_message(name, error, value, after=b"", seq="7"):
    payload, at = splice(value)
    if error == "payload_truncated":
        at = len(payload)
    elif after:
        at = len(payload)
    FORMS.append((name, payload + after, f"fault {error}@{at} seq={seq}"))


bad_message("batch-number", "batch_type", bad(7))
bad_message("batch-of-one", "batch_arity", bad([TS]))
bad_message("batch-of-four", "batch_arity", bad([TS, [], 0, 0]))
bad_message("timestamp-str", "timestamp_type", [bad("1"), [], 0])
bad_message("timestamp-nil", "timestamp_type", [bad(None), [], 0])
bad_message("timestamp-nan", "timestamp_range", [bad(float("nan")), [], 0])
bad_message("timestamp-infinite", "timestamp_range",
            [bad(float("inf")), [], 0])
bad_message("timestamp-below-zero", "timestamp_range", [bad(-0.5), [], 0])
bad_message("timestamp-too-far", "timestamp_range", [bad(1e18), [], 0])
bad_message("timestamp-integer-negative", "timestamp_range", [bad(-1), [], 0])
bad_message("timestamp-integer-too-far", "timestamp_range",
            [bad(2**63 // 1000 + 1), [], 0])
bad_message("events-map", "events_type", [TS, bad({}), 0])
bad_message("events-65537", "events_count",
            [TS, bad(b"\xdd\x00\x01\x00\x01"), 0])
bad_message("events-lying", "payload_truncated", b"\x92\x01\xdc\x00\x09\x01")
bad_message("rank-str", "dp_rank_type", [TS, [], bad("0")])
bad_message("rank-negative", "dp_rank_range", [TS, [], bad(-1)])
bad_message("rank-over-32-bits", "dp_rank_range", [TS, [], bad(2**32)])
bad_message("surplus-byte", "payload_trailing", [TS, [], 0], after=b"\x00")
bad_message("empty", "payload_truncated", b"")
bad_message("reserved-byte", "payload_malformed", [TS, [bad(b"\xc1")], 0])
bad_message("hashes-lying", "payload_truncated",
            [TS, [["BlockRemoved", b"\xdd\x00\x00\xff\xff"]], 0])
bad_message("tokens-lying", "payload_truncated",
            [TS, [["BlockStored", [5], None, b"\xdd\xff\xff\xff\xff"]], 0])
bad_message("depth-17", "depth",
            [TS, [{"type": "AllBlocksCleared",
                   "x": b"\x91" * 14 + b"\x01"}], 0])
bad_message("batch-map-name-number", "field_name", {bad(1): 2})
bad_message("batch-map-name-twice", "field_duplicate",
            b"\x82" + pack("ts") + pack(1.0) + pack("ts") + pack(1.0))
bad_message("batch-map-unknown-not-utf8", "utf8", {"new": bad(b"\xa1\xff")})
bad_message("batch-map-without-events", "field_missing", bad({"ts": 1.0}))
bad_message("batch-map-without-ts", "field_missing", bad({"events": []}))


def place(name, find):
    """Where the fault is, of rows that could not mark it."""
    i = [row[0] for row in FORMS].index(name)
    _, data, expect = FORMS[i]
    FORMS[i] = (name, data, expect.replace("@None", f"@{find(data)}"))


place("map-name-twice", lambda data: data.rindex(pack("medium")))
place("batch-map-name-twice", lambda data: data.rindex(pack("ts")))
# The batch is 1 deep, so the 14th container of a field is one too many.
place("depth-17", lambda data: data.index(b"\x91" * 14) + 13)


def main():
    seq = (7).to_bytes(8, "big").hex()
    assert len({row[0] for row in FORMS}) == len(FORMS)
    for name, _, expect in FORMS:
        assert "@None" not in expect, name
    rows = [{"name": name, "frames": ["", seq, data.hex()], "expect": expect}
            for name, data, expect in FORMS]
    json.dump(rows, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
