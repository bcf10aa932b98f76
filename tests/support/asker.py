# SPDX-License-Identifier: Apache-2.0
"""Asks a recovery server, as docs/events.md says, with libraries of others."""
import struct

import msgpack
import zmq

END = b"\xff" * 8


def u64(number):
    return struct.pack(">Q", number)


def u32(number):
    return struct.pack(">I", number)


class Asker:
    """A DEALER of its own; mark: how many answers may wait here, 0: any number."""

    def __init__(self, case, endpoint, mark=0, patience_ms=60000, keys=None):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.RCVHWM, mark)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, patience_ms)
        if keys:
            self.socket.curve_serverkey, self.socket.curve_publickey, self.socket.curve_secretkey = keys
        self.socket.connect(endpoint)
        case.addCleanup(self.close)

    def close(self):
        if self.context:
            self.socket.close()
            self.context.term()
            self.context = None

    def ask(self, *parts):
        self.socket.send_multipart([b"", *parts])

    def answer(self):
        frames = self.socket.recv_multipart()
        assert frames[0] == b"", frames
        return frames[1:]

    def replay(self, start):
        """(topic, sequence, payload) of each message until END."""
        self.ask(u64(start))
        return list(self.messages())

    def messages(self):
        while True:
            topic, seq, payload = self.answer()
            if seq == END:
                assert (topic, payload) == (b"", b"")
                return
            yield topic, int.from_bytes(seq, "big"), payload

    def status(self):
        self.ask(b"status")
        word, body = self.answer()
        assert word == b"status"
        return msgpack.unpackb(body)

    def snapshot(self, *tenant):
        """The map at the beginning, the events, the map at the end."""
        self.ask(b"snapshot", *tenant)
        events, begin, index = [], None, 0
        while True:
            word, number, body, *more = self.answer()
            assert word == b"snapshot" and number == u64(index), (word, number, index)
            index += 1
            if more:
                assert more == [b""]
                return begin, events, msgpack.unpackb(body)
            if begin is None:
                begin = msgpack.unpackb(body)
            else:
                timestamp, batch, rank = msgpack.unpackb(body)
                assert batch and all(event["timestamp"] == timestamp for event in batch) and rank == 0
                events += batch
