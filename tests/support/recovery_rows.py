#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/vectors/recovery.json: dialogues with the recovery server, byte by byte.

usage: recovery_rows.py > recovery.json

Made from docs/events.md with Python's msgpack, not with the code that is judged. A dialogue has a `layout`, what is
in the `history` and in the `store`, and `steps`: a peer is `heard`, a message is `sent` to it, `blocked` (there is no
room for it, and it is wanted again), or finds nobody (`gone`); `silence`: nothing is to be sent; `keep`: a message more
is published; `pass_ms`: time goes by; `last_id`: events happened. Frames are hex, the delimiter first.
"""
import json
import struct

import msgpack

TS = 1739145600000
EPOCH = 0x19ACA4B2F0A1C3D7
BACKEND = "n1"
TOPIC = "t@m"
END = b"\xff" * 8


def u64(number):
    return struct.pack(">Q", number)


def u32(number):
    return struct.pack(">I", number)


def stored(event_id, key, tenant="default", medium="cpu", group=None, session=None):
    return {"event_id": event_id, "timestamp": TS, "event_type": "stored", "type": "BlockStored", "model_name": None,
            "block_size": None, "additional_salt": None, "lora_name": None, "tenant_id": tenant, "backend_id": BACKEND,
            "medium": medium, "dp_rank": 0, "group_id": group, "session_id": session, "object_key": key,
            "seq_hashes": [], "block_hashes": [], "base_block_idx": None, "parent_hash": None, "token_ids": None,
            "parent_block_hash": None, "epoch": EPOCH}


def payload(*events):
    return msgpack.packb([TS, list(events), 0])


def batch(seq):
    """What is published under a number: every third one is a heartbeat."""
    return payload() if seq % 3 == 0 else payload(stored(seq, "key-%d" % seq, session="agent-7"))


def hexed(frames):
    return [frame.hex() for frame in frames]


def heard(peer, *frames):
    return {"heard": peer, "frames": hexed(frames)}


def ask(peer, *parts):
    return heard(peer, b"", *parts)


def said(how, peer, *frames):
    return {how: peer, "frames": hexed((b"",) + frames)}


class Dialogue:
    def __init__(self, layout=4, seqs=(), rows=(), last_id=0, ring=0):
        self.layout, self.seqs, self.rows, self.last_id, self.ring = layout, list(seqs), list(rows), last_id, ring
        self.steps = []

    def add(self, *steps):
        self.steps += steps
        return self

    def message(self, seq, how="sent", peer="a"):
        topic = [TOPIC.encode()] if self.layout == 4 else []
        return self.add(said(how, peer, *topic, u64(seq), batch(seq)))

    def end(self, peer="a"):
        topic = [b""] if self.layout == 4 else []
        return self.add(said("sent", peer, *topic, END, b""), {"silence": True})

    def part(self, index, body, *more, peer="a"):
        return self.add(said("sent", peer, b"snapshot", u64(index), body, *more))

    def made(self, name):
        store = [dict(zip(("event_id", "key", "tenant", "medium", "group", "session"), row)) for row in self.rows]
        return {"name": name, "layout": self.layout, "ring": self.ring, "last_id": self.last_id, "store": store,
                "history": [{"seq": seq, "payload": batch(seq).hex()} for seq in self.seqs], "steps": self.steps}


def edge(kind, number, tail):
    return msgpack.packb({"epoch": EPOCH, kind: number, "tail_seq": tail})


def keep(seq):
    return {"keep": seq, "payload": batch(seq).hex()}


def replays():
    for layout in (4, 3):
        d = Dialogue(layout, range(1, 5)).add(ask("a", u64(2)), keep(5))
        yield "replay_of_%d_frames" % layout, d.message(2).message(3).message(4).end()
    d = Dialogue(seqs=[1, 2, 6, 7]).add(ask("a", u64(0)))
    yield "replay_over_burnt_numbers", d.message(1).message(2).message(6).message(7).end()
    d = Dialogue(seqs=range(1, 9), ring=4).add(ask("a", u64(2)))
    yield "replay_from_before_the_history", d.message(5).message(6).message(7).message(8).end()
    for name, start in (("tail", 4), ("future", 2**63), ("end", 2**64 - 1)):
        yield "replay_from_beyond_the_%s" % name, Dialogue(seqs=range(1, 4)).add(ask("a", u64(start))).end()
    yield "replay_of_an_empty_history", Dialogue().add(ask("a", u64(0))).end()
    d = Dialogue(seqs=range(1, 5), ring=4).add(ask("a", u64(1))).message(1).add(*map(keep, range(5, 7))).message(3)
    yield "replay_that_the_history_overtakes", d.message(4).end()
    d = Dialogue(seqs=range(1, 5), ring=4).add(ask("a", u64(1))).message(1).add(*map(keep, range(5, 10)))
    yield "replay_whose_range_has_gone", d.end()
    d = Dialogue(seqs=range(1, 4)).add(ask("a", u64(1))).message(1, "blocked").add({"silence": True}, {"pass_ms": 2})
    yield "replay_that_is_blocked", d.message(1).message(2).message(3).end()
    d = Dialogue(seqs=range(1, 4)).add(ask("a", u64(1))).message(1).message(2, "gone")
    yield "reader_that_is_gone", d.add({"silence": True})


def paced():
    d = Dialogue(seqs=range(1, 5)).add(ask("a", u64(1), u32(2))).message(1).message(2)
    d.add({"silence": True}, ask("b", b"credit", u32(9)), {"silence": True}, ask("a", b"credit", u32(1))).message(3)
    yield "replay_that_is_paced", d.add({"silence": True}, ask("a", b"credit", u32(7))).message(4).end()
    d = Dialogue(seqs=range(1, 3)).add(ask("a", u64(1), u32(0)), {"silence": True}, {"pass_ms": 9999},
                                       {"silence": True}, {"pass_ms": 1})
    yield "replay_without_credit_for_ten_seconds", d.end()
    yield "credit_for_nothing", Dialogue().add(ask("a", b"credit", u32(1)), {"silence": True})


ROWS = [(4, "a", "default", "cpu", "g1", "agent-7"), (9, "b/\u00fc", "default", "disk", None, None),
        (7, "a", "other", "cpu", None, "s"), (8, "a", "other", "disk", None, "s")]


def rows_of(tenant=None):
    return payload(*(stored(*row) for row in ROWS if tenant in (None, row[2])))


def snapshots():
    d = Dialogue(seqs=[1, 2], rows=ROWS, last_id=9).add(ask("a", b"snapshot")).part(0, edge("first_id", 9, 2))
    d.part(1, rows_of()).add({"last_id": 12}, keep(3))
    yield "snapshot_of_all", d.part(2, edge("last_id", 12, 3), b"").add({"silence": True})
    d = Dialogue(rows=ROWS, last_id=9).add(ask("a", b"snapshot", b"other")).part(0, edge("first_id", 9, 0))
    yield "snapshot_of_a_tenant", d.part(1, rows_of("other")).part(2, edge("last_id", 9, 0), b"").add({"silence": True})
    d = Dialogue(rows=ROWS, last_id=9).add(ask("a", b"snapshot", b"unknown")).part(0, edge("first_id", 9, 0))
    yield "snapshot_of_a_tenant_without_keys", d.part(1, edge("last_id", 9, 0), b"").add({"silence": True})
    d = Dialogue().add(ask("a", b"snapshot")).part(0, edge("first_id", 0, 0))
    yield "snapshot_of_an_empty_store", d.part(1, edge("last_id", 0, 0), b"").add({"silence": True})
    yield "snapshot_of_a_tenant_that_cannot_be", Dialogue(rows=ROWS).add(ask("a", b"snapshot", b"nobody")).end()
    d = Dialogue(seqs=[1], rows=ROWS, last_id=9).add(ask("a", b"snapshot"), ask("a", u64(1)))
    d.part(0, edge("first_id", 9, 1)).part(1, rows_of()).part(2, edge("last_id", 9, 1), b"")
    yield "replay_asked_for_during_a_snapshot", d.message(1).end()


def status(tail, oldest, last_id, keys):
    return said("sent", "a", b"status", msgpack.packb({"epoch": EPOCH, "tail_seq": tail, "oldest_seq": oldest,
                                                       "last_id": last_id, "keys": keys, "backend_id": BACKEND}))


def statuses():
    d = Dialogue(seqs=range(1, 9), rows=ROWS, last_id=9, ring=4).add(ask("a", b"status"), status(8, 5, 9, 4))
    yield "status", d.add({"silence": True})
    yield "status_of_an_empty_store", Dialogue().add(ask("a", b"status"), status(0, 0, 0, 0))
    d = Dialogue(seqs=range(1, 3), rows=ROWS, last_id=9).add(ask("a", u64(1))).message(1)
    d.add(ask("a", b"status"))
    d.message(2)
    yield "status_during_a_replay", d.add(status(2, 1, 9, 4)).end()


def malformed():
    rows = {
        "nothing": [], "delimiter_alone": [b""], "no_delimiter": [u64(1)], "seven_bytes": [b"", b"1234567"],
        "nine_bytes": [b"", b"123456789"], "empty_number": [b"", b""], "word_in_capitals": [b"", b"STATUS"],
        "word_for_a_delimiter": [b"status", b""], "short_credit": [b"", u64(1), b"123"],
        "long_credit": [b"", u64(1), b"12345"], "credit_alone": [b"", b"credit"],
        "status_of_something": [b"", b"status", b"x"], "empty_tenant": [b"", b"snapshot", b""],
        "tenant_of_65_bytes": [b"", b"snapshot", b"t" * 65], "tenant_not_utf8": [b"", b"snapshot", b"\xc3\x28"],
        "two_frames_more": [b"", u64(1), u32(1), b""], "random": [b"", bytes(range(192, 256))],
    }
    for name, frames in rows.items():
        d = Dialogue(seqs=[1]).add(heard("a", *frames)).end()
        yield "malformed_" + name, d.add(ask("a", u64(1))).message(1).end()
    yield "malformed_in_three_frames", Dialogue(3).add(heard("a", b"x")).end()


def main():
    makers = (replays, paced, snapshots, statuses, malformed)
    print(json.dumps([d.made(name) for make in makers for name, d in make()], indent=1))


if __name__ == "__main__":
    main()
