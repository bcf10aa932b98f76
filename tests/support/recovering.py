#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A subscriber with recovery by snapshots, written from docs/events.md alone, with libraries of others.

usage: recovering.py ENDPOINT RECOVERY now|snapshot KEYS [SERVER_KEY KEY_FILE]

Simple, not fast: whatever it does not understand or misses costs a snapshot. Says what it believes as
tests/chaos_follow.c does.
"""
import json
import os
import sys
import time

import msgpack
import zmq
from zmq.utils.monitor import recv_monitor_message

PATIENCE_S = 3    # for the next part of an answer
BETWEEN_S = 0.3   # from one question to the next
AGAIN_S = 0.5     # for libzmq to connect by itself
FAILED = (zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_AUTH)
TYPES = {"event_id": int, "timestamp": int, "event_type": str, "tenant_id": str, "backend_id": str, "epoch": int}


class Refused(Exception):
    pass


def no_name_twice(pairs):
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Refused("a field stands twice")
    return fields


def unpacked(payload):
    try:
        return msgpack.unpackb(payload, raw=False, object_pairs_hook=no_name_twice)
    except (ValueError, msgpack.UnpackException) as error:
        raise Refused(error)


def events_of(payload):
    batch = unpacked(payload)
    if type(batch) is not list or [type(part) for part in batch] != [int, list, int]:
        raise Refused("no batch")
    for event in batch[1]:
        if type(event) is not dict or any(type(event.get(name)) is not kind for name, kind in TYPES.items()):
            raise Refused("no event")
        if event["event_type"] != "cleared" and not (type(event.get("object_key")) is str and event.get("medium")):
            raise Refused("no place")
    return batch[1]


class Snapshot:
    """One request, on a socket of its own."""

    def __init__(self, context, endpoint, keys, now):
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        seal(self.socket, keys)
        self.socket.connect(endpoint)
        self.socket.send_multipart([b"", b"snapshot"])
        self.index, self.first_id, self.epoch, self.named, self.heard = 0, None, None, set(), now
        self.is_spoiled = False  # something was lost since it began

    def part(self, frames, apply_row, now):
        """Takes in a part; the last id at the end, else None."""
        self.heard = now
        if len(frames) not in (4, 5) or frames[:2] != [b"", b"snapshot"] or \
                frames[2] != self.index.to_bytes(8, "big"):
            raise Refused("not the next part")
        self.index += 1
        if self.index > 1 and len(frames) == 4:
            for event in events_of(frames[3]):
                self.named.add(place_of(event))
                apply_row(event)
            return None
        edge = unpacked(frames[3])
        if type(edge) is not dict or type(edge.get("epoch")) is not int:
            raise Refused("no edge")
        if self.index == 1:
            self.first_id, self.epoch = edge["first_id"], edge["epoch"]
            return None
        if edge["epoch"] != self.epoch:
            raise Refused("another epoch")
        return edge["last_id"]


def keys_of(words):
    """The server's public key and our pair, or none."""
    if not words:
        return None
    with open(words[1]) as lines:
        pair = dict(line.split() for line in lines if line.strip() and not line.startswith("#"))
    return words[0].encode(), pair["public"].encode(), pair["secret"].encode()


def seal(socket, keys):
    if keys:
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = keys


def place_of(event):
    return event["tenant_id"], event["object_key"], event["medium"]


class Follower:
    def __init__(self, endpoint, recovery, keys):
        self.context, self.recovery, self.keys = zmq.Context(), recovery, keys
        self.stream = self.context.socket(zmq.SUB)
        self.stream.setsockopt(zmq.RCVHWM, 0)
        self.stream.setsockopt(zmq.LINGER, 0)
        self.endpoint, self.again = endpoint, None
        self.monitor = self.stream.get_monitor_socket()
        seal(self.stream, keys)
        self.stream.subscribe(b"")
        self.stream.connect(endpoint)
        self.places, self.gone, self.floors = {}, {}, {}  # place: (id, session); place: id; tenant: id
        self.epoch, self.seq, self.last_id = 0, None, 0
        self.is_lost, self.snapshot, self.until_id, self.asked = True, None, None, 0
        self.counts = dict.fromkeys(("events", "gap", "recovered", "epoch", "degraded", "stale", "refused_messages",
                                     "refused_events", "duplicates", "restarts", "lost_ids", "queue_full"), 0)

    # ---- what is known ----

    def lose(self, what):
        self.counts[what] += 1
        self.is_lost = True
        if self.snapshot:
            self.snapshot.is_spoiled = True

    def begin_epoch(self, epoch, last_id):
        self.counts["epoch"] += 1
        self.epoch, self.last_id = epoch, last_id
        self.places, self.gone, self.floors = {}, {}, {}

    def apply(self, event, is_row=False):
        """Counts only if its id is above the last one that was applied there."""
        number, tenant = event["event_id"], event["tenant_id"]
        if event["event_type"] == "cleared":
            self.floors[tenant] = max(number, self.floors.get(tenant, 0))
            self.places = {place: known for place, known in self.places.items()
                           if place[0] != tenant or known[0] > number}
            return
        place = place_of(event)
        known = max(self.places.get(place, (0,))[0], self.gone.get(place, 0), self.floors.get(tenant, 0))
        if number <= known:
            return
        self.places.pop(place, None)
        self.gone.pop(place, None)
        if event["event_type"] == "stored":
            self.places[place] = (number, event["session_id"])
        else:
            self.gone[place] = number

    # ---- the stream ----

    def hear(self, word, now):
        """Of the connection: libzmq makes it anew, unless the protocol was broken."""
        if word == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.lose("gap")  # what came while nobody listened is not known
            self.again = None
        elif word == zmq.EVENT_DISCONNECTED or word in FAILED:
            self.again = now + AGAIN_S
        elif word in (zmq.EVENT_CONNECT_RETRIED, zmq.EVENT_CONNECT_DELAYED, zmq.EVENT_CONNECTED):
            self.again = None

    def connect_again(self):
        self.again = None
        try:
            self.stream.disconnect(self.endpoint)
        except zmq.ZMQError:
            pass  # nothing was left of it
        self.stream.connect(self.endpoint)

    def message(self, frames):
        try:
            if len(frames) != 3 or len(frames[1]) != 8:
                raise Refused("frames")
            events = events_of(frames[2])
        except Refused:
            self.lose("refused_messages")
            return
        seq = int.from_bytes(frames[1], "big")
        if self.seq is not None and seq != self.seq + 1:
            self.lose("gap")
        self.seq = seq
        for event in events:
            self.event(event)

    def event(self, event):
        if event["epoch"] < self.epoch:
            return  # of a run that is over
        if event["epoch"] > self.epoch:
            self.begin_epoch(event["epoch"], event["event_id"] - 1)
            if event["event_id"] > 1:
                self.lose("gap")
        if event["event_id"] <= self.last_id:
            self.counts["duplicates"] += 1
            return
        if event["event_id"] > self.last_id + 1:
            self.lose("gap")
        self.last_id = event["event_id"]
        self.counts["events"] += 1
        self.apply(event)

    # ---- recovery ----

    def close_snapshot(self):
        self.snapshot.socket.close()
        self.snapshot = None

    def tick(self, now):
        if self.snapshot and now - self.snapshot.heard > PATIENCE_S:
            self.close_snapshot()
        if self.is_lost and not self.snapshot and now - self.asked > BETWEEN_S:
            self.asked = now
            self.snapshot = Snapshot(self.context, self.recovery, self.keys, now)

    def answer(self, frames, now):
        snapshot = self.snapshot
        try:
            end = snapshot.part(frames, lambda event: self.row(event), now)
            if snapshot.index == 1 and snapshot.epoch > self.epoch:
                self.begin_epoch(snapshot.epoch, snapshot.first_id)
            if snapshot.epoch != self.epoch:
                raise Refused("another epoch")
        except Refused:
            self.close_snapshot()
            return
        if end is not None:
            self.finish(end)

    def row(self, event):
        if event["epoch"] != self.epoch or event["event_type"] != "stored":
            raise Refused("no row")
        self.apply(event)

    def finish(self, last_id):
        snapshot = self.snapshot
        self.close_snapshot()
        if snapshot.is_spoiled:
            return  # what was lost may be above its first id
        self.places = {place: known for place, known in self.places.items()
                       if place in snapshot.named or known[0] > snapshot.first_id}
        self.gone = {}
        self.is_lost = False
        self.counts["recovered"] += 1
        self.until_id = last_id  # over when the stream has come so far; a gap before that loses again

    # ---- what is asked of it ----

    def stat(self):
        is_over = not self.is_lost and (self.until_id is None or self.last_id >= self.until_id)
        count = len(self.places)
        return dict(self.counts, entries=count, told=count, resident=count, untold=0, unindexed=0, out_of_turn=0,
                    foreign=0, contradictions=0, refused_ids=0, span_ids=self.counts["events"], is_open=0, missing_ids=0,
                    is_recovering=int(not is_over),
                    last_event_id=self.last_id)

    def obey(self, line):
        if line == "dump":
            for (_, key, medium), (_, session) in self.places.items():
                print(key, medium, session or "-")
            print("dumped", len(self.places))
        elif line == "stat":
            print(json.dumps(self.stat()))
        elif line.startswith("slow "):
            print("slow")
        sys.stdout.flush()

    def run(self):
        room = b""
        while True:
            poller = zmq.Poller()
            for end in (self.stream, self.monitor, 0) + ((self.snapshot.socket,) if self.snapshot else ()):
                poller.register(end, zmq.POLLIN)
            ready = dict(poller.poll(50))
            now = time.monotonic()
            while self.monitor.poll(0):
                self.hear(recv_monitor_message(self.monitor)["event"], now)
            if self.again and now > self.again:  # libzmq does not
                self.connect_again()
            for _ in range(200):
                if not self.stream.poll(0):
                    break
                self.message(self.stream.recv_multipart())
            for _ in range(200):
                if not self.snapshot or not self.snapshot.socket.poll(0):
                    break
                self.answer(self.snapshot.socket.recv_multipart(), now)
            self.tick(now)
            if 0 in ready:
                data = os.read(0, 4096)
                if not data:
                    return
                *lines, room = (room + data).split(b"\n")
                for line in lines:
                    self.obey(line.decode())


if __name__ == "__main__":
    print("ready", flush=True)
    Follower(sys.argv[1], sys.argv[2], keys_of(sys.argv[5:])).run()
    os._exit(0)  # sockets and their context go with the process
