#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slow, plain model of the strict event reader: which fault is named, and where.

usage: event_model.py VECTORS... > event-faults.json

For each row of the vectors the outcome as one line of text, and checksums of the
lines of its truncations and of its mutants. The reader of the project must come
to the same lines. Written from the rules alone: values are parsed one by one,
with nothing remembered from one event to the next.
"""
import json
import struct
import sys
import zlib

DEPTH_MAX = 16
PAYLOAD_MAX = 16 << 20
COUNT_MAX = 65536
U64 = 2**64 - 1
U32 = 2**32 - 1

INT, NIL, BOOL, FLOAT, STR, BIN, EXT, ARRAY, MAP = range(9)


class MessageFault(Exception):
    def __init__(self, name, offset):
        super().__init__(name)
        self.name, self.offset = name, offset


class EventFault(Exception):
    def __init__(self, name, offset):
        super().__init__(name)
        self.name, self.offset = name, offset


class Head:
    def __init__(self, kind, begin, body, value):
        self.kind, self.begin, self.body, self.value = kind, begin, body, value
        self.end = body + value if kind in (STR, BIN, EXT) else body


def head(data, at):
    """The header at `at`, with the bytes of a scalar or str."""
    def cut():
        return MessageFault("payload_truncated", len(data))

    def number(fmt, offset=1):
        size = struct.calcsize(fmt)
        raw = data[at + offset:at + offset + size]
        if len(raw) < size:
            raise cut()
        return struct.unpack(fmt, raw)[0], at + offset + size

    if at >= len(data):
        raise cut()
    b = data[at]
    kind, body, value = None, at + 1, 0
    if b <= 0x7f:
        kind, value = INT, b
    elif b <= 0x8f:
        kind, value = MAP, b & 15
    elif b <= 0x9f:
        kind, value = ARRAY, b & 15
    elif b <= 0xbf:
        kind, value = STR, b & 31
    elif b >= 0xe0:
        kind, value = INT, b - 256
    elif b == 0xc0:
        kind = NIL
    elif b == 0xc1:
        raise MessageFault("payload_malformed", at)
    elif b in (0xc2, 0xc3):
        kind = BOOL
    elif 0xc4 <= b <= 0xc6:
        kind = BIN
        value, body = number((">B", ">H", ">I")[b - 0xc4])
    elif 0xc7 <= b <= 0xc9:
        kind = EXT
        value, body = number((">B", ">H", ">I")[b - 0xc7])
        body += 1
    elif b in (0xca, 0xcb):
        kind = FLOAT
        value, body = number(">f" if b == 0xca else ">d")
    elif 0xcc <= b <= 0xd3:
        kind = INT
        value, body = number((">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q")[b - 0xcc])
    elif 0xd4 <= b <= 0xd8:
        kind, value, body = EXT, 1 << (b - 0xd4), at + 2
    elif 0xd9 <= b <= 0xdb:
        kind = STR
        value, body = number((">B", ">H", ">I")[b - 0xd9])
    elif b in (0xdc, 0xdd):
        kind = ARRAY
        value, body = number(">H" if b == 0xdc else ">I")
    else:
        kind = MAP
        value, body = number(">H" if b == 0xde else ">I")
    h = Head(kind, at, body, value)
    if h.end > len(data) or body > len(data):
        raise cut()
    return h


def is_utf8(raw):
    try:
        raw.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False


def need(data, h):
    """So many elements must be able to come."""
    count = h.value * (2 if h.kind == MAP else 1)
    if count > len(data) - h.body:
        raise MessageFault("payload_truncated", len(data))
    return count


def walk(data, at, depth, event_faults):
    """Over one value; the first fault of the event goes into the list."""
    h = head(data, at)
    if h.kind == STR and not is_utf8(data[h.body:h.end]):
        event_faults.append(("utf8", at))
    if h.kind in (ARRAY, MAP):
        if depth > DEPTH_MAX:
            raise MessageFault("depth", at)
        at = h.body
        for _ in range(need(data, h)):
            at = walk(data, at, depth + 1, event_faults)
        return at
    return h.end


STR_OR_NIL, U32_OR_NIL, U64_OR_NIL, HASH_OR_NIL = range(4)
FIELDS = {
    "event_id": "u64", "timestamp": "u64?", "event_type": "str", "type": "str", "tenant_id": "str",
    "backend_id": "str", "medium": "str?", "object_key": "str?", "session_id": "str?", "group_id": "str?",
    "model_name": "str?", "additional_salt": "str?", "lora_name": "str?", "block_size": "u32?", "dp_rank": "u32?",
    "base_block_idx": "u64?", "seq_hashes": "[u64]", "block_hashes": "[int]", "parent_hash": "int?",
    "parent_block_hash": "int?", "token_ids": "list?", "epoch": "u64?",
}
LONGEST = {"object_key": (4096, "object_key_too_long"), "session_id": (256, "session_id_too_long")}
TYPES = {"stored": "BlockStored", "removed": "BlockRemoved", "cleared": "AllBlocksCleared"}


def judge_value(data, h, name):
    """The value of a known field; its faults are raised, message faults inside it too."""
    form = FIELDS[name]
    if form.endswith("?") and h.kind == NIL:
        return None
    form = form.rstrip("?")
    if form in ("u64", "u32", "int"):
        if h.kind != INT:
            raise EventFault("field_type", h.begin)
        if form != "int" and not 0 <= h.value <= (U64 if form == "u64" else U32):
            raise EventFault("field_range", h.begin)
        return h.value
    if form == "str":
        if h.kind != STR:
            raise EventFault("field_type", h.begin)
        if name in LONGEST and h.value > LONGEST[name][0]:
            raise EventFault(LONGEST[name][1], h.begin)
        raw = data[h.body:h.end]
        if not is_utf8(raw):
            raise EventFault("utf8", h.begin)
        if name == "event_type" and raw.decode() not in TYPES:
            raise EventFault("event_type_unknown", h.begin)
        return raw
    if h.kind != ARRAY:
        raise EventFault("field_type", h.begin)
    need(data, h)
    if form == "list":
        faults = []
        walk(data, h.begin, 4, faults)
        if faults:
            raise EventFault(*faults[0])
        return ()
    at = h.body
    for _ in range(h.value):
        e = head(data, at)
        if e.kind != INT:
            raise EventFault("field_type", at)
        if form == "[u64]" and e.value < 0:
            raise EventFault("field_range", at)
        at = e.end
    return ()


def judge_whole(seen, begin):
    def fault(name):
        raise EventFault(name, begin)

    if "event_type" not in seen:
        fault("event_type_missing")
    kind = seen["event_type"].decode()
    if "type" in seen and seen["type"].decode() != TYPES[kind]:
        fault("event_type_conflict")
    cleared = kind == "cleared"
    if "event_id" not in seen or "tenant_id" not in seen or not seen.get("backend_id") or \
            (not cleared and "medium" not in seen):
        fault("field_missing")
    if not cleared and seen["medium"] is None:
        fault("field_type")
    if not cleared and not seen.get("object_key"):
        fault("object_key_missing")


def read_event(data, at):
    """(event or fault, where the next one begins)."""
    begin = at
    h = head(data, at)
    if h.kind != MAP:
        return ("event_type_form", begin), walk(data, begin, 3, [])
    need(data, h)
    at, seen, fault = h.body, {}, None
    for _ in range(h.value):
        faults = []
        name_at, value_at = at, walk(data, at, 4, faults)
        if fault is None:
            try:
                n = head(data, name_at)
                if n.kind != STR:
                    raise EventFault("field_name", name_at)
                if faults:
                    raise EventFault(*faults[0])
                name = data[n.body:n.end].decode()
                if name in seen:
                    raise EventFault("field_duplicate", name_at)
                if name in FIELDS:
                    seen[name] = judge_value(data, head(data, value_at), name)
            except EventFault as f:
                fault = (f.name, f.offset)
        faults = []
        at = walk(data, value_at, 4, faults)
        if fault is None and faults:
            fault = faults[0]
    if fault is None:
        try:
            judge_whole(seen, begin)
        except EventFault as f:
            fault = (f.name, f.offset)
    return fault or seen, at


def read(frames, capacity=COUNT_MAX):
    """(timestamp, rank, events); MessageFault."""
    if len(frames) != 3:
        raise MessageFault("frame_count", 0)
    if len(frames[1]) != 8:
        raise MessageFault("seq_size", 0)
    data = frames[2]
    if len(data) > PAYLOAD_MAX:
        raise MessageFault("payload_too_large", 0)

    def batch_number(at, name, limit):
        h = head(data, at)
        if h.kind != INT:
            raise MessageFault(name + "_type", at)
        if not 0 <= h.value <= limit:
            raise MessageFault(name + "_range", at)
        return h.value, h.end

    h = head(data, 0)
    if h.kind != ARRAY:
        raise MessageFault("batch_type", 0)
    if h.value != 3:
        raise MessageFault("batch_arity", 0)
    need(data, h)
    timestamp, at = batch_number(h.body, "timestamp", 2**63 - 1)
    h = head(data, at)
    if h.kind != ARRAY:
        raise MessageFault("events_type", at)
    if h.value > COUNT_MAX or h.value > capacity:
        raise MessageFault("events_count", at)
    need(data, h)
    at, events = h.body, []
    for _ in range(h.value):
        event, at = read_event(data, at)
        events.append(event)
    rank, at = batch_number(at, "dp_rank", U32)
    if at != len(data):
        raise MessageFault("payload_trailing", at)
    return timestamp, rank, events


def text(raw):
    return "-" if raw is None else "%d:%08x" % (len(raw), zlib.crc32(raw))


def outcome(frames):
    """What the reader makes of a message, as one line."""
    try:
        timestamp, rank, events = read(frames)
    except MessageFault as f:
        return "%s@%d" % (f.name, f.offset)
    parts = ["%d %d" % (timestamp, rank)]
    for e in events:
        if isinstance(e, tuple):
            parts.append("%s@%d" % e)
            continue
        parts.append("%s %d %016x %s %s %s %s %s %s" % (
            e["event_type"].decode(), e["event_id"], e.get("epoch") or 0, text(e["tenant_id"]),
            text(e["backend_id"]), text(e.get("medium")), text(e.get("group_id")),
            text(e.get("session_id") or None), text(e.get("object_key"))))
    return ";".join(parts)


class Random:
    """xorshift64: the same numbers in C."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        x = self.state
        x ^= x << 13 & U64
        x ^= x >> 7
        x ^= x << 17 & U64
        self.state = x
        return (x >> 11) % n


TELLING = bytes([0xc0, 0xc1, 0xc2, 0x80, 0x81, 0x90, 0x91, 0x9f, 0xa0, 0xa1, 0xbf, 0xff, 0xe0, 0x7f, 0xc4, 0xc7, 0xca,
                 0xcc, 0xcf, 0xd0, 0xd3, 0xd4, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf])
MUTANTS = 200


def mutate(payload, rng):
    out = bytearray(payload)
    for _ in range(1 + rng.below(3)):
        if not out:
            break
        at = rng.below(len(out))
        how = rng.below(4)
        if how == 0:
            out[at] = rng.below(256)
        elif how == 1:
            out[at] = TELLING[rng.below(len(TELLING))]
        elif how == 2:
            del out[at]
        else:
            out.insert(at, TELLING[rng.below(len(TELLING))])
    return bytes(out)


def step_of(payload):
    return 1 if len(payload) <= 1500 else len(payload) // 500


def sums(frames, seed):
    cuts = mutants = 0
    payload = frames[2]
    for n in range(0, len(payload), step_of(payload)):
        line = outcome(frames[:2] + [payload[:n]])
        cuts = zlib.crc32(line.encode() + b"\n", cuts)
    rng = Random(seed)
    for _ in range(MUTANTS):
        line = outcome(frames[:2] + [mutate(payload, rng)])
        mutants = zlib.crc32(line.encode() + b"\n", mutants)
    return "%08x" % cuts, "%08x" % mutants


def main():
    rows = []
    for path in sys.argv[1:]:
        with open(path) as f:
            vectors = json.load(f)
        for i, row in enumerate(vectors):
            frames = [bytes.fromhex(h) for h in row["frames"]]
            line = outcome(frames)
            out = {"name": row["name"], "frames": row["frames"],
                   "line": line if len(line) < 400 else "crc:%08x" % zlib.crc32(line.encode())}
            if len(frames) == 3 and len(frames[1]) == 8:
                out["cuts"], out["mutants"] = sums(frames, i + 1)
            check(row, frames)
            del out["frames"]
            rows.append(out)
    json.dump(rows, sys.stdout, indent=0)
    print()


def check(row, frames):
    """The model itself must agree with the row."""
    expect = row.get("expect")
    if expect is None:
        return
    try:
        events = read(frames)[2]
        names = [e[0] if isinstance(e, tuple) else None for e in events]
        want = [e.get("error") for e in expect["events"]]
    except MessageFault as f:
        names, want = f.name, expect.get("error")
    if names != want:
        raise SystemExit("%s: model %s, row %s" % (row["name"], names, want))


if __name__ == "__main__":
    main()
