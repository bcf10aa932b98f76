#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/vectors/decode-own.json: messages for event_model.py to judge.

usage: event_rows.py > decode-own.json

The golden rows put a bad event between unlike neighbours; here it stands between events that
are alike to the byte, where a reader may be tempted to look less closely. The second half are
faults that no golden row has.
"""
import json
import struct

TS = 1739145600000
SHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Raw(bytes):
    """Goes to the wire as it is."""


def pack(v):
    if isinstance(v, Raw):
        return bytes(v)
    if v is None:
        return b"\xc0"
    if isinstance(v, bool):
        return b"\xc3" if v else b"\xc2"
    if isinstance(v, int):
        if 0 <= v < 128:
            return bytes([v])
        if -32 <= v < 0:
            return bytes([v + 256])
        return b"\xcf" + struct.pack(">Q", v) if v > 0 else b"\xd3" + struct.pack(">q", v)
    if isinstance(v, str):
        v = v.encode()
        n = len(v)
        return (bytes([0xa0 | n]) if n < 32 else b"\xd9" + bytes([n]) if n < 256 else b"\xda" + struct.pack(">H", n)) + v
    if isinstance(v, list):
        return b"\xdc" + struct.pack(">H", len(v)) + b"".join(map(pack, v))
    if isinstance(v, dict):
        v = list(v.items())
        return b"\xde" + struct.pack(">H", len(v)) + b"".join(pack(k) + pack(x) for k, x in v)
    raise TypeError(v)


def event(event_id, kind="stored", /, **changes):
    twin = {"stored": "BlockStored", "removed": "BlockRemoved", "cleared": "AllBlocksCleared"}[kind]
    e = {"event_id": event_id, "timestamp": TS, "event_type": kind, "type": twin, "tenant_id": "default",
         "backend_id": "n1", "medium": "cpu", "dp_rank": 0, "group_id": "g%d" % event_id, "session_id": "s%d" % event_id,
         "object_key": SHA + "_%d_k" % event_id, "seq_hashes": [], "block_hashes": [], "token_ids": None, "epoch": 9}
    e.update(changes)
    return e


LIKE = {
    "session_empty": {"session_id": ""}, "session_nil": {"session_id": None}, "session_257": {"session_id": "x" * 257},
    "session_256": {"session_id": "x" * 256}, "session_not_utf8": {"session_id": Raw(b"\xa2\xc3\x28")},
    "session_integer": {"session_id": 7}, "session_bin": {"session_id": Raw(b"\xc4\x01a")},
    "group_nil": {"group_id": None}, "group_empty": {"group_id": ""}, "group_long": {"group_id": "g" * 700},
    "group_not_utf8": {"group_id": Raw(b"\xa8aaaaaaa\xff")}, "group_list": {"group_id": []},
    "key_empty": {"object_key": ""}, "key_nil": {"object_key": None}, "key_4096": {"object_key": "k" * 4096},
    "key_4097": {"object_key": "k" * 4097}, "key_not_utf8": {"object_key": Raw(b"\xa9aaaaaaaa\x80")},
    "key_bin": {"object_key": Raw(b"\xc4\x01a")}, "id_negative": {"event_id": -1}, "id_nil": {"event_id": None},
    "id_wide": {"event_id": 2**64 - 1}, "id_signed": {"event_id": Raw(b"\xd3\0\0\0\0\0\0\0\x05")},
    "id_float": {"event_id": Raw(b"\xca\0\0\0\0")}, "timestamp_nil": {"timestamp": None},
    "timestamp_top_bit": {"timestamp": 2**63}, "timestamp_negative": {"timestamp": -1},
    "timestamp_text": {"timestamp": "now"}, "other_tenant": {"tenant_id": "tenant-b"}, "other_medium": {"medium": "disk"},
    "medium_nil": {"medium": None}, "other_epoch": {"epoch": 10}, "epoch_nil": {"epoch": None},
    "backend_empty": {"backend_id": ""}, "tokens": {"token_ids": [1, 2]}, "hashes": {"seq_hashes": [1], "block_hashes": [-1]},
}
ALONE = {
    "seq_hash_negative": {"seq_hashes": [1, -5, "\xff"]}, "seq_hash_int64_min": {"seq_hashes": [-2**63]},
    "block_hash_text": {"block_hashes": [1, "a"]}, "seq_hash_nested": {"seq_hashes": [[Raw(b"\xa1\xff")]]},
    "seq_hash_nil": {"seq_hashes": [None]}, "event_type_not_utf8": {"event_type": Raw(b"\xa2\xc3\x28")},
    "type_empty": {"type": ""}, "event_type_empty": {"event_type": ""}, "token_not_utf8": {"token_ids": [1, Raw(b"\xa1\xff")]},
    "token_deep": {"token_ids": [[[[[[[[[[[[[]]]]]]]]]]]]]}, "rank_wide": {"dp_rank": 2**32}, "rank_most": {"dp_rank": 2**32 - 1},
    "seq_hashes_cut": {"seq_hashes": Raw(b"\xdd\xff\xff\xff\xff")}, "unknown_ext": {"x": Raw(b"\xd8\x05" + b"\xc1" * 16)},
    "name_near_a_known": {"event_ix": 1, "parent_block_hasx": 2, "tyqe": 3, "base_block_idy": 4, "parent_xlock_hash": 5},
}


def row(name, events):
    payload = b"\x93" + pack(TS) + pack(events) + pack(0)
    return {"name": name, "frames": ["", "0000000000000001", payload.hex()]}


def main():
    rows = []
    for name, changes in LIKE.items():
        rows.append(row("like_" + name, [event(1), event(2), event(3, **changes), event(4), event(5, "removed"),
                                         event(6, "removed", **changes), event(7), event(8, "cleared", **changes)]))
    for name, changes in ALONE.items():
        rows.append(row(name, [event(1), event(2, **changes), event(3)]))
    rows.append(row("upserts_on_two_media", [
        event(4 * i + 2 * a + b, kind, medium=medium) for i in range(3) for a, kind in enumerate(("removed", "stored"))
        for b, medium in enumerate(("cpu", "disk"))]))
    rows.append(row("seven_layouts_in_turn", [event(i, tenant_id="t%d" % (i % 7)) for i in range(21)]))
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
