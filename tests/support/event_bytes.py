# SPDX-License-Identifier: Apache-2.0
"""Messages as a store sends them, made with an independent msgpack library; a
socket that sends them; and a strict follower that knows docs/events.md alone.
"""
import struct

import msgpack
import zmq

EPOCH = 0x0123456789ABCDEF
TWINS = {"stored": "BlockStored", "removed": "BlockRemoved", "cleared": "AllBlocksCleared"}


def event(number, kind="stored", key="k", medium="cpu", **more):
    """One event with the fields of the full profile; more sets or adds some."""
    e = {"event_id": number, "timestamp": 1739145600000, "event_type": kind, "type": TWINS[kind],
         "model_name": None, "block_size": None, "additional_salt": None, "lora_name": None,
         "tenant_id": "default", "backend_id": "n1", "medium": None if kind == "cleared" else medium,
         "dp_rank": 0}
    if kind != "cleared":
        e["group_id"] = None
    e["session_id"] = None
    if kind != "cleared":
        e.update(object_key=key, seq_hashes=[], block_hashes=[], base_block_idx=None)
    if kind == "stored":
        e.update(parent_hash=None, token_ids=None, parent_block_hash=None)
    e["epoch"] = EPOCH
    e.update(more)
    return e


def message(seq, events, topic=b""):
    payload = msgpack.packb([1739145600000, events, 0], use_bin_type=True)
    return [topic, struct.pack(">Q", seq), payload]


def seen(seq, e):
    """What a strict reader hands on of an event: the JSON of mc-events tail."""
    return {"seq": seq, "event_id": e["event_id"], "timestamp_ms": 1739145600000,
            "event_type": e["event_type"], "tenant_id": e["tenant_id"], "backend_id": e["backend_id"],
            "medium": e["medium"], "group_id": e.get("group_id"), "session_id": e["session_id"] or None,
            "object_key": e.get("object_key"), "epoch": "%016x" % e["epoch"]}


class Publisher:
    """A PUB side on a free port; ready() returns once a subscriber is there."""

    def __init__(self):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 5000)
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.endpoint = "tcp://127.0.0.1:%d" % self.socket.bind_to_random_port("tcp://127.0.0.1")

    def ready(self, count=1):
        while count > 0:
            assert self.socket.poll(20000), "no subscriber came"
            count -= self.socket.recv()[:1] == b"\1"

    def send(self, frames):
        self.socket.send_multipart(frames)

    def close(self):
        self.socket.close()
        self.context.term()


class Subscriber:
    """A SUB side that hands on raw frames."""

    def __init__(self, endpoint):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.socket.connect(endpoint)

    def receive(self, seconds=20):
        """The next message, or None after so long."""
        return self.socket.recv_multipart() if self.socket.poll(seconds * 1000) else None

    def close(self):
        self.socket.close()
        self.context.term()


class StrictFollower:
    """Applies a stream to {(tenant, key, medium): (session, group, event id)} and notes every rule
    that the stream breaks. Knows nothing of the project but the rules."""

    FIELDS = {"event_id", "timestamp", "event_type", "type", "model_name", "block_size", "additional_salt",
              "lora_name", "tenant_id", "backend_id", "medium", "dp_rank", "session_id", "epoch"}
    KEYED = FIELDS | {"group_id", "object_key", "seq_hashes", "block_hashes", "base_block_idx"}
    SCHEMAS = {"stored": KEYED | {"parent_hash", "token_ids", "parent_block_hash"}, "removed": KEYED,
               "cleared": FIELDS}

    def __init__(self):
        self.places, self.seq, self.event_id, self.epoch = {}, None, None, None
        self.events = self.messages = 0
        self.first_id = None
        self.faults = []

    def fault(self, text, *values):
        if len(self.faults) < 20:
            self.faults.append(text % values)

    def message(self, frames):
        """Applies one message; returns its events."""
        if len(frames) != 3 or frames[0] != b"" or len(frames[1]) != 8:
            self.fault("frames of %r bytes", [len(f) for f in frames])
            return []
        seq = struct.unpack(">Q", frames[1])[0]
        if seq == 0 or (self.seq is not None and seq != self.seq + 1):
            self.fault("sequence %d after %r", seq, self.seq)
        self.seq = seq
        batch = msgpack.unpackb(frames[2], raw=False, strict_map_key=True)
        if not (type(batch) is list and len(batch) == 3 and type(batch[0]) is int and batch[0] > 0
                and type(batch[1]) is list and type(batch[2]) is int and batch[2] >= 0):
            self.fault("form of message %d", seq)
            return []
        if len(batch[1]) > 64:
            self.fault("%d events in message %d", len(batch[1]), seq)
        for e in batch[1]:
            self.event(e, batch[0])
        self.messages += 1
        return batch[1]

    def event(self, e, timestamp):
        kind = e.get("event_type")
        if kind not in self.SCHEMAS or set(e) != self.SCHEMAS[kind]:
            self.fault("fields of event %r: %s", e.get("event_id"), sorted(e))
            return
        if list(e)[:4] != ["event_id", "timestamp", "event_type", "type"] or e["type"] != TWINS[kind]:
            self.fault("event %d begins with %r", e["event_id"], list(e)[:4])
        if self.event_id is not None and e["event_id"] != self.event_id + 1:
            self.fault("event id %d after %d", e["event_id"], self.event_id)
        if self.epoch is not None and e["epoch"] != self.epoch:
            self.fault("epoch of event %d", e["event_id"])
        if self.first_id is None:
            self.first_id = e["event_id"]
        self.event_id, self.epoch = e["event_id"], e["epoch"]
        self.events += 1
        if kind == "cleared":
            self.places = {p: v for p, v in self.places.items() if p[0] != e["tenant_id"]}
            return
        place = (e["tenant_id"], e["object_key"], e["medium"])
        if e["medium"] not in ("cpu", "disk") or not e["object_key"]:
            self.fault("event %d: medium %r key %r", e["event_id"], e["medium"], e["object_key"])
        if kind == "stored":
            if place in self.places:
                self.fault("event %d: stored twice: %r", e["event_id"], place)
            self.places[place] = (e["session_id"], e["group_id"], e["event_id"])
        elif place in self.places:
            was = self.places.pop(place)
            if was[:2] != (e["session_id"], e["group_id"]):
                self.fault("event %d: removed carries %r, stored %r", e["event_id"],
                           (e["session_id"], e["group_id"]), was[:2])
        elif self.first_id == 1:
            self.fault("event %d: removed, never stored: %r", e["event_id"], place)
