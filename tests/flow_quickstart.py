#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The quickstart's answers are those of a plain set of keys.

A recording of the follower's own messages is applied to a set with libraries of
others; at each req/<n> the leading blocks of that request that are in the set
are counted. The follower's index must have said the same numbers.
"""
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import msgpack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from event_bytes import StrictFollower, Subscriber  # noqa: E402

PROGRAMS = os.environ["MC_QUICKSTART"]
TRACE = os.environ["MC_TRACE"]
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "quickstart.sh")
PATIENCE = float(os.environ.get("MC_FLOW_PATIENCE", "300"))


class Pair:
    """Writer and follower, with a pipe each way, as quickstart.sh sets them up."""

    def __init__(self, folder, trace, *options, answers=None, record=None, writer_options=()):
        to_follower, from_writer = os.pipe()
        to_writer, from_follower = os.pipe()
        extra = (["--answers", answers] if answers else []) + (["--record", record] if record else [])
        self.writer = subprocess.Popen(
            [os.path.join(PROGRAMS, "writer"), "--trace", trace, "--list", os.path.join(folder, "list"), "--endpoint",
             "tcp://127.0.0.1:0", *options, *writer_options], stdin=to_writer, stdout=from_writer,
            stderr=subprocess.PIPE, text=True)
        self.follower = subprocess.Popen(
            [os.path.join(PROGRAMS, "follower"), "--trace", trace, "--acks-fd", str(from_follower), *options, *extra],
            stdin=to_follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[from_follower])
        for fd in (to_follower, from_writer, to_writer, from_follower):
            os.close(fd)

    def end(self):
        out, words = self.follower.communicate(timeout=PATIENCE)
        writer_words = self.writer.communicate(timeout=PATIENCE)[1]
        return self.follower.returncode, self.writer.returncode, out, words + writer_words

    def kill(self):
        for process in (self.writer, self.follower):
            if process.poll() is None:
                process.kill()
            process.communicate()


class Digest(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


class KeyNames:
    """`<64 hex>__k`: XXH3-128 of the id's decimal text, twice."""

    def __init__(self):
        self.hash = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
        self.hash.restype = Digest
        self.hash.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self.known = {}

    def key(self, block):
        if block not in self.known:
            text = b"%d" % block
            digest = self.hash(text, len(text))
            self.known[block] = ("%016x%016x" % (digest.high, digest.low)) * 2 + "__k"
        return self.known[block]


def chains(trace):
    """The block keys of each request, by the trace alone."""
    requests = []
    with open(trace) as lines:
        for line in lines:
            requests.append(json.loads(line)["hash_ids"])
    return requests


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_pair(self, trace, *options, **more):
        pair = Pair(self.folder.name, trace, *options, **more)
        self.addCleanup(pair.kill)
        return pair.end()

    def test_its_answers_are_those_of_a_plain_set(self):
        answers, record = self.path("answers"), self.path("record")
        code, writer_code, out, words = self.run_pair(TRACE, answers=answers, record=record)
        self.assertEqual((code, writer_code, words), (0, 0, ""), out)
        requests = chains(TRACE)
        with open(answers) as lines:
            told = [tuple(map(int, line.split())) for line in lines]
        self.assertEqual([n for n, _ in told], list(range(len(requests))))

        follower, counted, names = StrictFollower(), [], KeyNames()
        with open(record) as lines:
            for line in lines:
                frames = [bytes.fromhex(f) for f in json.loads(line)["frames"]]
                for e in msgpack.unpackb(frames[2], raw=False)[1]:
                    follower.event(e, 0)
                    if e["event_type"] == "stored" and e["object_key"].startswith("req/"):
                        n = int(e["object_key"][4:])
                        held = 0
                        for block in requests[n]:
                            if ("default", names.key(block), "cpu") not in follower.places:
                                break
                            held += 1
                        counted.append((n, held))
                    elif e["event_type"] == "stored":
                        self.assertEqual(e["group_id"], None if e["object_key"].startswith("join/")
                                         else "sglang-hicache:" + e["object_key"][:64])
        self.assertEqual(follower.faults, [])
        self.assertEqual(counted, told)
        self.assertEqual([key for _, key, _ in follower.places if "/" in key], [])      # each mark was removed
        total, hits = sum(map(len, requests)), sum(held for _, held in counted)
        self.assertGreater(hits, 0)
        self.assertIn("hit rate %.4f\n" % (hits / total), out)
        self.assertIn("gaps 0, ids lost 0, refused 0, duplicates 0\n", out)
        keys = len(follower.places)
        self.assertIn("index and store agree: %d keys (as of event %d)\n" % (keys, follower.event_id), out)
        with open(TRACE) as lines:
            minutes = max(json.loads(line)["timestamp"] for line in lines) // 60000 + 1
        self.assertEqual(len(re.findall(r"^minute ", out, re.M)), minutes)

    def test_a_store_that_disagrees_is_told_loudly(self):
        """The follower gets a list in which one key has another session, and one key less."""
        trace = self.path("trace")
        with open(TRACE) as lines, open(trace, "w") as out:
            out.writelines(line for line, _ in zip(lines, range(40)))
        for change, word in ((lambda rows: rows[1:], "only the mirror has"),
                             (lambda rows: rows + ["1 9 6b2f78 - -\n"], "only the store has"),
                             (lambda rows: [rows[0].replace(" 636f6e76", " 73636f6e")] + rows[1:], "sessions of")):
            to_follower, from_writer = os.pipe()
            to_writer, from_follower = os.pipe()
            listing = self.path("list")
            writer = subprocess.Popen(
                [os.path.join(PROGRAMS, "writer"), "--trace", trace, "--list", listing, "--endpoint",
                 "tcp://127.0.0.1:0"], stdin=to_writer, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            follower = subprocess.Popen(
                [os.path.join(PROGRAMS, "follower"), "--trace", trace, "--acks-fd", str(from_follower)],
                stdin=to_follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                pass_fds=[from_follower])
            for fd in (to_follower, to_writer, from_follower):
                os.close(fd)
            with os.fdopen(from_writer, "w") as forward:
                for line in writer.stdout:
                    if line.startswith("end "):
                        with open(listing) as rows:
                            changed = change(rows.readlines())
                        with open(listing, "w") as rows:
                            rows.writelines(changed)
                    forward.write(line)
                    forward.flush()
            out, words = follower.communicate(timeout=PATIENCE)
            writer.communicate(timeout=PATIENCE)
            self.assertEqual((follower.returncode, writer.returncode), (1, 1), words)
            self.assertIn("DISAGREE", words)
            self.assertIn(word, words)
            self.assertNotIn("agree:", out)

    def test_neither_outlives_the_other(self):
        for victim in ("writer", "follower"):
            pair = Pair(self.folder.name, TRACE)
            self.addCleanup(pair.kill)
            pair.follower.stdout.readline()
            getattr(pair, victim).kill()
            code, writer_code, _, words = pair.end()
            self.assertEqual(writer_code if victim == "follower" else code, 1, words)

    def test_a_watcher_that_is_waited_for_sees_the_whole_stream(self):
        pair = Pair(self.folder.name, self.short_trace(), "--watchers", "1")
        self.addCleanup(pair.kill)
        endpoint = pair.follower.stdout.readline().split()[-1]
        subscriber = Subscriber(endpoint)
        self.addCleanup(subscriber.close)
        watcher, requests = StrictFollower(), []
        done = threading.Thread(target=pair.end)
        done.start()
        while done.is_alive() or subscriber.socket.poll(0):
            frames = subscriber.receive(1)
            for e in watcher.message(frames) if frames else []:
                if e["event_type"] == "stored" and e["object_key"].startswith("req/"):
                    requests.append(e["object_key"])
        done.join()
        self.assertEqual((pair.follower.returncode, pair.writer.returncode, watcher.faults), (0, 0, []))
        self.assertEqual(requests, ["req/%d" % n for n in range(100)])

    def short_trace(self):
        with open(TRACE) as lines, open(self.path("trace"), "w") as out:
            out.writelines(line for line, _ in zip(lines, range(100)))
        return self.path("trace")

    def script(self, *args):
        return subprocess.run([SCRIPT, "--no-build", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=PATIENCE, env=dict(os.environ, TMPDIR=self.folder.name))

    def assert_nothing_runs(self, out):
        """Neither the master that the script named, nor anybody who knows its address or the trace."""
        master = re.search(r"^master (\S+), nodes \S+ \S+$", out, re.M)
        self.assertIsNotNone(master, out)
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % process, "rb") as command:
                    words = command.read()
            except OSError:
                continue        # it has ended meanwhile
            self.assertNotIn(master[1].encode(), words)
            self.assertNotIn(self.folder.name.encode(), words)
        # The nodes' ports may be somebody else's by now; they are given out in order.
        host, port = master[1].rsplit(":", 1)
        with self.assertRaises(OSError):
            socket.create_connection((host, int(port)), timeout=5).close()

    def interrupted(self, number, after):
        """Runs the whole trace, and sends the script a signal when this has been said; code, stdout, stderr."""
        script = subprocess.Popen([SCRIPT, "--no-build", "--trace", TRACE, "--endpoint", "tcp://127.0.0.1:0",
                                   "--block-size", "64KB"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, stdin=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=self.folder.name))
        self.addCleanup(lambda: script.poll() is None and script.kill())
        said = ""
        while after not in said:
            line = script.stdout.readline()
            self.assertNotEqual(line, "", said)
            said += line
        script.send_signal(number)
        out, words = script.communicate(timeout=30)
        return script.returncode, said + out, words

    def test_an_interrupted_script_leaves_nothing_behind(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            for after in ("master ", "requests, "):
                ended, out, words = self.interrupted(number, after)
                self.assertEqual(ended, code, words)
                self.assert_nothing_runs(out)
                self.assertEqual(os.listdir(self.folder.name), [])

    def test_a_node_that_dies_is_a_failure(self):
        trace = self.short_trace()
        script = subprocess.Popen([SCRIPT, "--no-build", "--trace", trace, "--endpoint", "tcp://127.0.0.1:0",
                                   "--watchers", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  stdin=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=self.folder.name))
        self.addCleanup(lambda: script.poll() is None and script.kill())
        master = script.stdout.readline()
        nodes = [process for process in filter(str.isdigit, os.listdir("/proc"))
                 if b"serve\0--master\0" + master.split()[1].rstrip(",").encode() in self.command_of(process)]
        self.assertEqual(len(nodes), 2)
        for node in nodes:
            os.kill(int(node), signal.SIGKILL)
        self.assertRegex(script.stdout.readline(), r"^recovery tcp://127.0.0.1:\d+, admin http://127.0.0.1:\d+\n$")
        endpoint = script.stdout.readline().split()[-1]
        subscriber = Subscriber(endpoint)
        self.addCleanup(subscriber.close)
        out, words = script.communicate(timeout=PATIENCE)
        self.assertEqual(script.returncode, 1, words)
        self.assertIn("writer", words)
        self.assert_nothing_runs(master + out)

    @staticmethod
    def command_of(process):
        try:
            with open("/proc/%s/cmdline" % process, "rb") as command:
                return command.read()
        except OSError:
            return b""

    def test_the_script_runs_all_and_leaves_nothing_behind(self):
        trace = self.short_trace()
        done = self.script("--trace=" + trace, "--block-size", "1KB", "--endpoint", "tcp://127.0.0.1:0",
                           "--answers", self.path("answers"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("100 requests, ", done.stdout)
        self.assertIn(" of 1024 bytes; ", done.stdout)
        self.assertRegex(done.stdout, r"index and store agree: \d+ keys")
        with open(self.path("answers")) as answers:
            self.assertEqual(len(answers.readlines()), 100)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["answers", "trace"])
        self.assert_nothing_runs(done.stdout)

    def test_the_script_fails_where_the_two_do(self):
        done = self.script("--trace", self.path("missing"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing", done.stderr)
        done = self.script("--endpoint", "tcp://nonsense", "--trace", TRACE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nonsense", done.stderr)
        for args in (["--bogus"], ["--trace"]):
            self.assertEqual(self.script(*args).returncode, 2)
        done = self.script("--help")
        self.assertEqual((done.returncode, done.stdout[:6]), (0, "usage:"))
        self.assertIn("example:", done.stdout)

    def test_wrong_use_is_said(self):
        for program in ("writer", "follower"):
            for args in ([], ["--trace", TRACE, "--block-size", "4Kb"],
                         ["--trace", TRACE, "--watchers", "x"], ["--trace", TRACE, "--bogus"]):
                done = subprocess.run([os.path.join(PROGRAMS, program), *args], capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, timeout=PATIENCE)
                self.assertEqual(done.returncode, 2, (program, args))
                self.assertIn(program, done.stderr)
        bad = self.path("bad.jsonl")
        with open(bad, "w") as out:
            out.write('{"timestamp":1,"session_id":"s","hash_ids":[1]}\n{"timestamp":1}\n')
        done = subprocess.run([os.path.join(PROGRAMS, "follower"), "--trace", bad], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(bad + ":2:", done.stderr)


if __name__ == "__main__":
    unittest.main()
