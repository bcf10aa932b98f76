#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mc-events tail, stat, record and play on a stream that an independent library publishes."""
import json
import os
import pty
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from event_bytes import EPOCH, Publisher, Subscriber, event, message, seen  # noqa: E402
from tool_case import BINARY, INTERRUPTS, ToolCase, rows_of  # noqa: E402

EVENTS = [
    event(1, "cleared"),
    event(2, key="a", session_id="s1", group_id="g1"),
    event(3, key="b", session_id="s2", medium="disk"),
    event(4, key="a", tenant_id="t2", session_id="s1"),
    event(5, "removed", key="a", session_id="s1", group_id="g1"),
    event(6, key="c"),
]
STREAM = [message(1, EVENTS[:1]), message(2, EVENTS[1:4]), message(3, []), message(4, EVENTS[4:])]
SEEN = [seen(seq, e) for seq, e in zip([1, 2, 2, 2, 4, 4], EVENTS)]


class Stream(ToolCase):
    def publisher(self):
        publisher = Publisher()
        self.addCleanup(publisher.close)
        return publisher

    def tail_of(self, stream, *args):
        """What tail --json prints of a stream that it sees from the first message on."""
        publisher = self.publisher()
        tool = self.start("tail", "--endpoint", publisher.endpoint, "--json", *args)
        publisher.ready()
        for frames in stream:
            publisher.send(frames)
        return self.lines_of(tool)

    def recording(self, stream, times=None):
        text = "".join(json.dumps({"t_ns": t, "frames": [f.hex() for f in frames]}) + "\n"
                       for t, frames in zip(times or range(len(stream)), stream))
        return self.write("recording.jsonl", text)

    def test_tail_prints_each_event_and_the_epoch_it_begins_with(self):
        lines = self.tail_of(STREAM, "--count", "6")
        self.assertEqual(lines, [{"signal": "epoch", "epoch": "%016x" % EPOCH}] + SEEN)
        self.assertEqual(list(lines[1]), ["seq", "event_id", "timestamp_ms", "event_type", "tenant_id", "backend_id",
                                          "medium", "group_id", "session_id", "object_key", "epoch"])

    def test_each_filter_passes_what_equals_it(self):
        last = event(7, key="last", tenant_id="t2", session_id="s1", group_id="g1", medium="disk", )
        stream = STREAM + [message(5, [last])]
        wanted = SEEN + [seen(5, last)]
        filters = [("tenant", "tenant_id", "t2"), ("session", "session_id", "s1"), ("group", "group_id", "g1"),
                   ("medium", "medium", "disk"), ("type", "event_type", "stored")]
        for option, field, value in filters:
            passed = [e for e in wanted if e[field] == value]
            lines = self.tail_of(stream, "--%s=%s" % (option, value), "--count", str(len(passed)))
            self.assertEqual([e for e in lines if "signal" not in e], passed, option)
        lines = self.tail_of(stream, "--session", "s1", "--tenant", "t2", "--medium", "disk", "--count", "1")
        self.assertEqual(lines[-1], wanted[-1])

    def test_the_table_escapes_what_would_confuse_a_terminal(self):
        publisher = self.publisher()
        tool = self.start("tail", "--endpoint", publisher.endpoint, "--count", "1")
        publisher.ready()
        publisher.send(message(1, [event(1, key="a\x1b[31m\\\n\x7f\x9bé", session_id="\x00s")]))
        code, out, _ = self.end_of(tool)
        self.assertEqual(code, 0)
        self.assertIn(r"a\x1b[31m\x5c\x0a\x7f\xc2\x9bé session=\x00s", out)
        self.assertNotIn("\x1b", out)

    def test_a_layout_adds_the_block_of_each_key(self):
        publisher = self.publisher()
        key = "m_" + "0123456789abcdef" * 4 + "_1_v"
        tool = self.start("tail", "--endpoint", publisher.endpoint, "--count", "2", "--layout", "sglang:mha:tp=2",
                          "--prefix", "m")
        publisher.ready()
        publisher.send(message(1, [event(1, key=key), event(2, key="else")]))
        code, out, _ = self.end_of(tool)
        self.assertEqual(code, 0)
        self.assertIn("block=0123456789abcdef part=3\n", out)
        self.assertIn("else block=-\n", out)

    def test_a_loss_and_a_refusal_are_signals(self):
        lines = self.tail_of([message(1, [event(1)]), message(4, [event(5, key="b")]),
                              [b"", b"short", b""], message(5, [event(6, key="c"), event(7, medium=None)]),
                              message(6, [event(8, key="d")])], "--count", "4")
        signals = [line for line in lines if "signal" in line]
        self.assertIn({"signal": "gap", "from_id": 2, "to_id": 4, "from_seq": 2, "to_seq": 3}, signals)
        self.assertIn({"signal": "stale"}, signals)
        reasons = [s["reason"] for s in signals if s["signal"] == "degraded"]
        self.assertEqual(reasons, ["seq_size", "field_type"])
        self.assertEqual([line["event_id"] for line in lines if "event_id" in line], [1, 5, 6, 8])

    def test_a_listener_ends_on_a_signal_and_says_what_it_saw(self):
        for number in INTERRUPTS:
            publisher = self.publisher()
            tool = self.start("tail", "--endpoint", publisher.endpoint, "--json")
            publisher.ready()
            for frames in STREAM:
                publisher.send(frames)
            lines = [json.loads(tool.stdout.readline()) for _ in range(7)]
            code, _, words = self.end_of(tool, number)
            self.assertEqual((code, lines[1:]), (0, SEEN))
            self.assertIn("4 messages, 6 events, 0 gaps", words)

    def test_a_reader_that_leaves_ends_tail_without_a_word_about_it(self):
        publisher = self.publisher()
        tool = self.start("tail", "--endpoint", publisher.endpoint, "--json")
        publisher.ready()
        publisher.send(STREAM[0])
        tool.stdout.readline()
        tool.stdout.close()
        publisher.send(STREAM[1])
        publisher.send(STREAM[2])
        publisher.send(STREAM[3])
        words = tool.stderr.read()
        self.assertEqual(tool.wait(60), 0, words)
        self.assertNotIn("stdout", words)

    def test_record_keeps_every_byte_of_what_came(self):
        stream = STREAM + [[b"one"], [b"", b"", b"", b""], [b"topic", bytes(8), b"\xc1\x00"]]
        publisher = self.publisher()
        path = self.path("r.jsonl")
        tool = self.start("record", "--endpoint", publisher.endpoint, "--count", str(len(stream)), path)
        publisher.ready()
        for frames in stream:
            publisher.send(frames)
        code, _, words = self.end_of(tool)
        self.assertEqual(code, 0, words)
        self.assertIn("%d messages in %s" % (len(stream), path), words)
        with open(path) as recorded:
            rows = rows_of(recorded.read())
        self.assertEqual([[bytes.fromhex(f) for f in row["frames"]] for row in rows], stream)
        times = [row["t_ns"] for row in rows]
        self.assertEqual((times[0], times), (0, sorted(times)))
        answers = self.output_of("decode", path)
        self.assertEqual([a.get("error") for a in answers],
                         [None] * 4 + ["frame_count", "frame_count", "payload_malformed"])

    def test_play_prints_what_tail_would_have_printed(self):
        stream = STREAM + [message(7, [event(9, key="late")]), [b"", b"x", b""]]
        live = self.tail_of(stream + [message(8, [event(10, key="end")])], "--count", "8")
        played = self.output_of("play", "--json", self.recording(stream + [message(8, [event(10, key="end")])]))
        self.assertEqual(played, live)
        self.assertEqual([e["event_id"] for e in self.output_of(
            "play", "--json", "--session", "s1", "--count", "1", self.recording(stream)) if "event_id" in e], [2])

    def play(self, path, *args):
        """Starts play on a free port; the tool and a subscriber to it, which it waits for."""
        tool = self.start("play", "--endpoint", "tcp://127.0.0.1:*", "--wait", "20s", *args, path)
        ready = tool.stdout.readline()
        self.assertRegex(ready, r"^ready events=tcp://127\.0\.0\.1:\d+\n$")
        subscriber = Subscriber(ready.split("=")[1].strip())
        self.addCleanup(subscriber.close)
        return tool, subscriber

    def test_play_sends_the_frames_as_they_were_recorded(self):
        stream = STREAM + [[b"t", b"odd"], [b"", bytes(8), bytes(70000)]]
        tool, subscriber = self.play(self.recording(stream))
        self.assertEqual([subscriber.receive() for _ in stream], stream)
        self.assertEqual(self.end_of(tool)[0], 0)

    def test_record_of_play_is_the_recording(self):
        path = self.recording(STREAM)
        tool = self.start("play", "--endpoint", "tcp://127.0.0.1:*", "--wait", "20s", path)
        endpoint = tool.stdout.readline().split("=")[1].strip()
        again = self.path("again.jsonl")
        done = self.run_tool("record", "--endpoint", endpoint, "--count", str(len(STREAM)), again)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.end_of(tool)[0], 0)
        with open(again) as recorded:
            self.assertEqual([[bytes.fromhex(f) for f in row["frames"]] for row in rows_of(recorded.read())], STREAM)

    def test_play_keeps_the_pace_times_speed(self):
        path = self.recording(STREAM[:2], [500_000_000_000, 500_400_000_000])
        for speed, least, most in (("1", 0.35, 60), ("0", 0, 0.35)):
            tool, subscriber = self.play(path, "--speed", speed)
            subscriber.receive()
            begin = time.monotonic()
            self.assertEqual(subscriber.receive(), STREAM[1])
            took = time.monotonic() - begin
            self.assertTrue(least <= took <= most, (speed, took))
            self.assertEqual(self.end_of(tool)[0], 0)

    def test_a_recording_that_cannot_be_read_is_named_after_what_could(self):
        path = self.write("bad.jsonl", json.dumps({"t_ns": 0, "frames": [f.hex() for f in STREAM[0]]}) +
                          '\n{"t_ns":1,"frames":["zz"]}\n')
        done = self.refused(1, ["play", path + ":2:", "frames[0]"], "play", "--json", path)
        self.assertEqual(rows_of(done.stdout)[-1], SEEN[0])
        path = self.write("untimed.jsonl", json.dumps({"frames": [f.hex() for f in STREAM[0]]}) + "\n")
        self.refused(1, [path + ":1:", "t_ns"], "play", "--speed", "1", path)

    def test_stat_counts_by_type_tenant_session_and_refusal(self):
        publisher = self.publisher()
        tool = self.start("stat", "--endpoint", publisher.endpoint, "--json", "--every", "100ms", "--layout", "u64")
        publisher.ready()
        stream = STREAM + [message(5, [event(7, key="12"), event(8, medium=None)]), [b"", b"bad", b""]]
        for frames in stream:
            publisher.send(frames)
        last = {}
        while last.get("refused_messages") != 1:
            last = json.loads(tool.stdout.readline())
        self.assertEqual([last[name] for name in ("events", "stored", "removed", "cleared", "heartbeats", "gaps")],
                         [7, 5, 1, 1, 1, 0])
        self.assertEqual(last["refused"], {"seq_size": 1, "field_type": 1})
        self.assertEqual({t["tenant_id"]: t["events"] for t in last["tenants"]}, {"default": 6, "t2": 1})
        self.assertEqual({(s["tenant_id"], s["session_id"]): s["events"] for s in last["sessions"]},
                         {("default", "s1"): 2, ("default", "s2"): 1, ("t2", "s1"): 1})
        self.assertEqual((last["layout_keys"], last["foreign_keys"], last["connected"]), (1, 4, True))
        self.assertEqual(last["epoch"], "%016x" % EPOCH)
        self.assertEqual(self.end_of(tool, INTERRUPTS[0])[0], 0)

    def test_stat_ends_after_so_many_reports(self):
        publisher = self.publisher()
        done = self.run_tool("stat", "--endpoint", publisher.endpoint, "--json", "--every=20ms", "--count=3")
        self.assertEqual((done.returncode, len(rows_of(done.stdout))), (0, 3))
        done = self.run_tool("stat", "--endpoint", publisher.endpoint, "--every=20ms", "--count=2")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("\x1b", done.stdout)       # no terminal, no redraw
        self.assertEqual(done.stdout.count(" events\n"), 2)


    def on_a_terminal(self, *args, **environment):
        """What the tool writes to a terminal until it ends."""
        try:
            ours, theirs = pty.openpty()
        except OSError as why:
            self.skipTest("no terminals here: %s" % why)
        tool = subprocess.Popen([BINARY, *args], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL,
                                env=dict(os.environ, **environment))
        os.close(theirs)
        self.addCleanup(tool.wait)
        self.addCleanup(tool.kill)
        text = b""
        with open(ours, "rb", buffering=0) as terminal:
            while True:
                try:
                    more = terminal.read(4096)
                except OSError:     # the other end is closed
                    more = b""
                if not more:
                    return text.decode()
                text += more

    def test_a_terminal_gets_redraw_and_colour_unless_told_not_to(self):
        publisher = self.publisher()
        stat = ["stat", "--endpoint", publisher.endpoint, "--every=20ms", "--count=3"]
        self.assertEqual(self.on_a_terminal(*stat, NO_COLOR="").count("\x1b[H\x1b[J"), 3)
        self.assertNotIn("\x1b", self.on_a_terminal(*stat, NO_COLOR="1"))
        played = ["play", self.recording(STREAM)]
        self.assertIn("\x1b[1;31m*** epoch", self.on_a_terminal(*played, NO_COLOR=""))
        self.assertNotIn("\x1b", self.on_a_terminal(*played, NO_COLOR="1"))


if __name__ == "__main__":
    unittest.main()
