#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The proxy of tests/chaos.py: what it breaks is broken for the strict reader, and nothing is another value; what it
loses, doubles, delays and cuts is that, and calm it changes nothing."""
import json
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import chaos_proxy  # noqa: E402
from chaos_proxy import DAMAGES, Frames, Proxy, framed  # noqa: E402
from event_bytes import Publisher, Subscriber, event, message  # noqa: E402
from tool_case import ToolCase  # noqa: E402

MESSAGES = 400


def port_of(endpoint):
    return int(endpoint.rsplit(":", 1)[1])


class Damages(ToolCase):
    def decoded(self, messages):
        lines = "".join(json.dumps({"frames": [frame.hex() for frame in frames]}) + "\n" for frames in messages)
        return self.output_of("decode", text=lines)

    def test_each_is_refused_and_what_is_not_broken_stays(self):
        dice = random.Random(3)
        for kind in DAMAGES:
            whole, broken = [], []
            for number in range(60):
                events = [event(number * 9 + i, dice.choice(("stored", "removed")), "k%d" % i, session_id="s")
                          for i in range(dice.randrange(1, 9))]
                frames = message(number + 1, events)
                bad = chaos_proxy.damage(kind, dice, list(frames))
                self.assertIsNotNone(bad, kind)
                whole.append(frames)
                broken.append(bad)
            for good, bad in zip(self.decoded(whole), self.decoded(broken)):
                if "error" in bad:
                    continue  # the whole message
                self.assertEqual(len(good["events"]), len(bad["events"]), kind)
                refused = [row for row in bad["events"] if "error" in row]
                self.assertEqual(len(refused), 1, (kind, bad))
                for was, row in zip(good["events"], bad["events"]):
                    self.assertIn(row, (was, *refused), kind)

    def test_an_empty_batch_and_a_word_cannot_be_broken_in_their_events(self):
        dice = random.Random(3)
        for kind in ("field_gone", "field_twice", "wrong_type", "not_utf8"):
            self.assertFalse(chaos_proxy.damage(kind, dice, message(1, [])))
        for kind in DAMAGES:
            self.assertIsNone(chaos_proxy.damage(kind, dice, [b"", b"status", b"\x80"]))

    def test_frames_are_taken_apart_wherever_they_are_cut(self):
        parts = [b"", b"x" * 255, b"y" * 256, b"z" * 70000]
        wire = framed(parts) * 3
        dice = random.Random(5)
        for _ in range(50):
            frames, at, got = Frames(), 0, []
            while at < len(wire):
                size = dice.choice((1, 2, 9, 300, 100000))
                got += frames.take(wire[at:at + size])
                at += size
            self.assertEqual([body for _, body in got], parts * 3)
            self.assertEqual([flags & chaos_proxy.MORE for flags, _ in got], [1, 1, 1, 0] * 3)


class Passing(unittest.TestCase):
    def through(self, rates, count=MESSAGES):
        """The numbers that arrive of so many messages."""
        publisher = Publisher()
        self.addCleanup(publisher.close)
        proxy = Proxy(("127.0.0.1", port_of(publisher.endpoint)), 7)
        self.addCleanup(proxy.end)
        subscriber = Subscriber(proxy.endpoint)
        self.addCleanup(subscriber.close)
        publisher.ready()
        proxy.policy.storm(rates)
        for number in range(1, count + 1):
            publisher.send(message(number, [event(number)]))
        until = time.monotonic() + 20
        while proxy.policy.seen < count and time.monotonic() < until:
            time.sleep(0.01)
        proxy.policy.calm()
        got = []
        publisher.send(message(count + 1, [event(count + 1)]))
        while not got or got[-1] != count + 1:
            frames = subscriber.receive(20)
            self.assertIsNotNone(frames, got[-3:])
            self.assertEqual(frames[2], message(0, [event(int.from_bytes(frames[1], "big"))])[2])
            got.append(int.from_bytes(frames[1], "big"))
        return got[:-1], proxy.policy.story

    def test_calm_it_changes_nothing(self):
        self.assertEqual(self.through({})[0], list(range(1, MESSAGES + 1)))

    def test_lost_and_twice(self):
        got, story = self.through({"lost": 0.1, "twice": 0.1})
        self.assertGreater(story["lost"], 5)
        self.assertEqual(len(got), MESSAGES - story["lost"] + story["twice"])
        self.assertEqual(len(set(got)), MESSAGES - story["lost"])
        self.assertEqual(got, sorted(got))

    def test_late_comes_later_and_once(self):
        got, story = self.through({"late": 0.1})
        self.assertGreater(story["late"], 5)
        self.assertNotEqual(got, sorted(got))
        self.assertEqual(sorted(got), list(range(1, MESSAGES + 1)))

    def test_cut_in_the_middle_is_a_new_connection(self):
        publisher = Publisher()
        self.addCleanup(publisher.close)
        proxy = Proxy(("127.0.0.1", port_of(publisher.endpoint)), 7)
        self.addCleanup(proxy.end)
        subscriber = Subscriber(proxy.endpoint)
        self.addCleanup(subscriber.close)
        publisher.ready()
        proxy.policy.storm({"cut": 1})
        publisher.send(message(1, [event(1)]))
        until = time.monotonic() + 20
        while not proxy.policy.story and time.monotonic() < until:
            time.sleep(0.01)
        proxy.policy.calm()
        until = time.monotonic() + 20
        while not publisher.socket.poll(0) or publisher.socket.recv()[:1] != b"\1":
            self.assertIsNone(subscriber.receive(0.01))  # which lets it subscribe again
            self.assertLess(time.monotonic(), until)
        publisher.send(message(2, [event(2)]))
        self.assertEqual(subscriber.receive()[1], message(2, [])[1])


if __name__ == "__main__":
    unittest.main()
