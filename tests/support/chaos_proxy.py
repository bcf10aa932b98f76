# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that knows ZMTP 3: what a server says can be lost, doubled, late, cut off in the middle of a frame,
or broken in its structure, message by message; under CURVE, where a message cannot be told from its frames, frame by
frame, and any bit of it can be turned. What a client says goes as it is."""
import random
import select
import socket
import struct
import threading
import time

import msgpack

GREETING = 64
MORE, LONG, COMMAND = 1, 2, 4
CONNECT_S = 2
LOOK_S = 0.05

# What can be done to a message. Each but "cut" goes on with the next one.
DAMAGES = ("bytes_after", "cut_short", "no_array", "short_number", "frame_more", "frame_less", "field_gone",
           "field_twice", "wrong_type", "not_utf8", "rank_gone")
SEALED = ("flip",)  # only where CURVE sees it: any value may come of it


def framed(parts):
    """Bytes on the wire of a message."""
    out = b""
    for at, part in enumerate(parts):
        more = MORE if at + 1 < len(parts) else 0
        if len(part) > 255:
            out += bytes([more | LONG]) + struct.pack(">Q", len(part)) + part
        else:
            out += bytes([more, len(part)]) + part
    return out


class Frames:
    """Takes bytes as they come, gives whole frames: (flags, body)."""

    def __init__(self):
        self.room = b""

    def take(self, data):
        self.room += data
        frames, at = [], 0
        while len(self.room) - at >= 2:
            flags = self.room[at]
            head = 9 if flags & LONG else 2
            if len(self.room) - at < head:
                break
            size = struct.unpack(">Q", self.room[at + 1:at + 9])[0] if flags & LONG else self.room[at + 1]
            if len(self.room) - at < head + size:
                break
            frames.append((flags, self.room[at + head:at + head + size]))
            at += head + size
        self.room = self.room[at:]
        return frames


def damage_event(kind, dice, payload):
    """The payload with one event broken, or None if there is no event in it. Every damage is one that a strict
    reader must see: none gives another value."""
    batch = msgpack.unpackb(payload, raw=False, strict_map_key=True)
    if type(batch) is not list or len(batch) != 3 or not batch[1]:
        return None
    at = dice.randrange(len(batch[1]))
    fields = list(batch[1][at].items())
    if kind == "field_gone":
        fields = [pair for pair in fields if pair[0] != "event_id"]
    elif kind == "field_twice":
        fields.append(fields[0])
    elif kind == "wrong_type":
        name = dice.choice(("event_id", "tenant_id", "timestamp", "event_type", "backend_id"))
        fields = [(key, [] if key == name else value) for key, value in fields]
    packer = msgpack.Packer(use_bin_type=True, autoreset=False)
    packer.pack_array_header(3)
    packer.pack(batch[0])
    packer.pack_array_header(len(batch[1]))
    for number, event in enumerate(batch[1]):
        if number != at:
            packer.pack(event)
            continue
        packer.pack_map_header(len(fields))
        for key, value in fields:
            packer.pack(key)
            packer.pack(value)
    packer.pack(batch[2])
    done = packer.bytes()
    return done.replace(b"\xa8event_id", b"\xa8event\xff\xfed", 1) if kind == "not_utf8" else done


def damage(kind, dice, parts):
    """The message (its last three frames: topic or word, number, payload) with its structure broken; None if this
    damage cannot be done to it."""
    if len(parts) < 3 or len(parts[-2]) != 8 or len(parts[-1]) < 12:
        return None
    head, number, payload = parts[:-2], parts[-2], parts[-1]
    if kind == "bytes_after":
        return head + [number, payload + dice.randbytes(dice.randrange(1, 9))]
    if kind == "cut_short":
        return head + [number, payload[:dice.randrange(1, len(payload))]]
    if kind == "no_array":
        return head + [number, b"\xc1" + payload[1:]]
    if kind == "rank_gone":
        return head + [number, b"\x92" + payload[1:-1]] if payload[0] == 0x93 and payload[-1] == 0 else None
    if kind == "short_number":
        return head + [number[1:], payload]
    if kind == "frame_more":
        return parts + [b"x"]
    if kind == "frame_less":
        return parts[:-2] + [payload]
    broken = damage_event(kind, dice, payload)
    return broken and head + [number, broken]


class Policy:
    """What happens to messages, shared by the connections of a proxy. Rates are chances per message."""

    def __init__(self, seed):
        self.lock = threading.Lock()
        self.dice = random.Random(seed)
        self.rates = {}
        self.is_silent = False  # nothing that the server says gets through
        self.is_shut = False    # nobody gets in
        self.story = {}
        self.seen = 0  # messages

    def storm(self, rates):
        with self.lock:
            self.rates = dict(rates)

    def calm(self):
        with self.lock:
            self.rates, self.is_silent, self.is_shut = {}, False, False

    def is_calm(self):
        return not self.rates

    def choose(self):
        """What to do to the next message, None: nothing."""
        with self.lock:
            self.seen += 1
            for name, rate in self.rates.items():
                if self.dice.random() < rate:
                    self.story[name] = self.story.get(name, 0) + 1
                    return name
        return None

    def number(self, *bounds):
        with self.lock:
            return self.dice.randrange(*bounds)

    def damage(self, kind, parts):
        with self.lock:
            return damage(kind, self.dice, parts)


class Cut(Exception):
    pass


class Passage(threading.Thread):
    """One client and the server for it."""

    def __init__(self, proxy, client):
        super().__init__(daemon=True)
        self.proxy, self.policy, self.client, self.server = proxy, proxy.policy, client, None
        self.frames, self.message = Frames(), []
        self.greeting, self.has_word = 0, False
        self.late = []  # (messages to let pass before, bytes)

    def run(self):
        try:
            self.server = socket.create_connection(self.proxy.upstream, CONNECT_S)
            self.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.carry_up, daemon=True).start()
            self.carry_down()
        except (OSError, Cut):
            pass
        self.close()
        self.proxy.forget(self)

    def close(self):
        for end in (self.client, self.server):
            if end:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def carry_up(self):
        try:
            while True:
                data = self.client.recv(65536)
                if not data:
                    break
                self.server.sendall(data)
        except OSError:
            pass
        self.close()

    def carry_down(self):
        while True:
            if not select.select([self.server], [], [], LOOK_S)[0]:
                if self.policy.is_calm():
                    self.flush()
                continue
            data = self.server.recv(262144)
            if not data:
                return
            if self.greeting < GREETING:
                head, data = data[:GREETING - self.greeting], data[GREETING - self.greeting:]
                self.greeting += len(head)
                self.client.sendall(head)
            out = []
            for flags, body in self.frames.take(data):
                self.frame(flags, body, out)
            self.send(out)

    def send(self, out):
        if out:
            self.client.sendall(b"".join(out))
            out.clear()

    def flush(self):
        self.client.sendall(b"".join(data for _, data in self.late))
        self.late = []

    def frame(self, flags, body, out):
        if flags & COMMAND:
            size = bytes([flags]) + (struct.pack(">Q", len(body)) if flags & LONG else bytes([len(body)]))
            out.append(size + body)
            return
        self.message.append(body)
        if not flags & MORE:
            parts, self.message = self.message, []
            if not self.policy.is_silent:
                self.whole(parts, out)

    def whole(self, parts, out):
        if self.policy.is_calm():
            out.extend(data for _, data in self.late)
            self.late = []
        self.policy_of(self.policy.choose(), parts, out)
        due = [data for left, data in self.late if left <= 1]
        self.late = [(left - 1, data) for left, data in self.late if left > 1]
        out.extend(due)

    def policy_of(self, fault, parts, out):
        data = framed(parts)
        if fault in DAMAGES:
            broken = self.policy.damage(fault, parts)
            out.append(framed(broken) if broken else data)
        elif fault == "flip":
            at = self.policy.number(len(data) - sum(map(len, parts)), len(data))
            out.append(data[:at] + bytes([data[at] ^ 1 << self.policy.number(8)]) + data[at + 1:])
        elif fault == "twice":
            out.append(data + data)
        elif fault == "late":
            self.late.append((1 + self.policy.number(1, 40), data))  # itself is the first that passes
        elif fault == "slow":
            self.send(out)
            time.sleep(self.policy.number(1, 60) / 1000)
            out.append(data)
        elif fault == "cut":
            out.append(data[:self.policy.number(1, len(data))])
            self.send(out)
            raise Cut()
        elif fault != "lost":
            out.append(data)


class Proxy(threading.Thread):
    """Listens on a free port and goes on to `upstream`, (host, port), which may come and go."""

    def __init__(self, upstream, seed):
        super().__init__(daemon=True)
        self.upstream, self.policy = upstream, Policy(seed)
        self.lock, self.passages = threading.Lock(), set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.endpoint = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.policy.is_shut:
                client.close()
                continue
            passage = Passage(self, client)
            with self.lock:
                self.passages.add(passage)
            passage.start()

    def forget(self, passage):
        with self.lock:
            self.passages.discard(passage)
        for end in (passage.client, passage.server):
            if end:
                end.close()

    def cut_all(self):
        """Every connection ends where it is."""
        with self.lock:
            passages = list(self.passages)
        for passage in passages:
            passage.close()

    def end(self):
        self.listener.close()
        self.cut_all()
