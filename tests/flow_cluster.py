#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A master, two nodes and clients as separate processes, as one would try them out.

Files of many sizes go in and out with sessions; each process in turn is killed,
ended, stopped and started again; after each story a strict follower of the events
holds what `mc-store ls` shows.
"""
import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from event_bytes import StrictFollower, Subscriber  # noqa: E402
from free_port import free_port  # noqa: E402

PATIENCE = float(os.environ.get("MC_FLOW_PATIENCE", "60"))
SIZES = (1, 63, 64, 65, 4095, 4096, 4097, 65537, (1 << 20) - 1, 1 << 20, (4 << 20) + 1, (16 << 20) + 1)
TTL_S = 3


def until(question, what, seconds=PATIENCE):
    """Waits until it answers something true, which is returned."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError("in vain: " + what)
        time.sleep(0.02)


class Follower(threading.Thread):
    def __init__(self, endpoint):
        super().__init__(daemon=True)
        self.subscriber, self.model = Subscriber(endpoint), StrictFollower()
        self.lock, self.is_over = threading.Lock(), False
        self.start()

    def run(self):
        while not self.is_over:
            frames = self.subscriber.receive(0.1)
            if frames is not None:
                with self.lock:
                    self.model.message(frames)
        self.subscriber.close()

    def rows(self):
        with self.lock:
            assert not self.model.faults, self.model.faults
            return sorted((key, medium, session) for (_, key, medium), (session, _, _) in self.model.places.items())

    def end(self):
        self.is_over = True
        self.join(10)


class Cluster(unittest.TestCase):
    maxDiff = 4000
    TRANSPORTS = ("auto", "tcp")

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.programs = []
        self.addCleanup(self.end_all)
        self.rpc = None

    # ---- processes ----

    def start(self, argv):
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.programs.append(process)
        line = process.stdout.readline().decode()
        if not line.startswith("ready "):
            raise AssertionError("%s: %r %r" % (argv, line, process.stderr.read().decode()))
        return process, dict(word.split("=", 1) for word in line.split()[1:])

    def end(self, process, number=signal.SIGTERM, seconds=10):
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        code = process.wait(seconds)
        process.stdout.close()
        process.stderr.close()
        return code

    def end_all(self):
        for process in self.programs:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if not pipe.closed:
                    pipe.close()

    def start_master(self, *more):
        port = self.rpc.rsplit(":", 1)[1] if self.rpc else str(free_port())
        self.master, self.words = self.start([
            os.environ["MC_MASTER"], "--rpc_address=127.0.0.1", "--rpc_port=" + port, "--metrics_host=127.0.0.1",
            "--metrics_port=0", "--client_ttl=%d" % TTL_S, "--default_kv_lease_ttl=2s", "--enable_kv_events",
            "--kv_events_bind_endpoint=tcp://127.0.0.1:0", "--kv_events_backend_id=flow", *more])
        self.rpc = self.words["rpc"]
        self.follower = Follower(self.words["events"])
        self.addCleanup(self.follower.end)

    def start_node(self, segment="64MB", *more):
        return self.start([os.environ["MC_STORE"], "serve", "--master", self.rpc, "--segment", segment, "--host",
                           "127.0.0.1", *more])

    def store(self, *words, data=b"", code=0):
        run = subprocess.run([os.environ["MC_STORE"], *words, "--master", self.rpc, "--timeout", "10s"], input=data,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if code is not None:
            self.assertEqual(run.returncode, code, (words, run.stderr.decode()))
        return run.stdout if code is not None else run

    def listed(self):
        rows = map(json.loads, self.store("ls", "--json").decode().splitlines())
        return sorted((row["key"], medium, row["session_id"]) for row in rows for medium in row["media"].split("+"))

    def agree(self):
        """The follower's places become the list; the list is returned."""
        rows = self.listed()
        if self.follower.rows() == rows:
            return rows
        try:
            until(lambda: self.follower.rows() == self.listed(), "agreement", 20)
        except AssertionError:
            self.assertEqual(self.follower.rows(), self.listed())
        return self.listed()

    def put_files(self, prefix, transport="auto", replicas=1):
        """Files of all sizes; {key: digest}."""
        digests, dice = {}, random.Random(prefix)
        for i, size in enumerate(SIZES):
            data = dice.randbytes(size)
            key = "%s/%d" % (prefix, size)
            self.store("put", key, "-", "--session", "%s-%d" % (prefix, i % 3), "--transport", transport,
                       "--replicas", str(replicas), data=data)
            digests[key] = hashlib.sha256(data).digest()
        return digests

    def check_files(self, digests, transport="auto"):
        for key, digest in digests.items():
            data = self.store("get", key, "--transport", transport)
            self.assertEqual(hashlib.sha256(data).digest(), digest, key)

    # ---- stories ----

    def test_files_of_many_sizes_go_in_and_out_over_each_transport(self):
        self.start_master()
        self.start_node()
        self.start_node()
        for transport in self.TRANSPORTS:
            digests = self.put_files("files-" + transport, transport)
            for other in self.TRANSPORTS:
                self.check_files(digests, other)
        rows = self.agree()
        self.assertEqual(len(rows), 2 * len(SIZES))
        self.assertTrue(all(session for _, _, session in rows))
        self.store("rm", "files-tcp/1", "--force")
        self.assertEqual(len(self.agree()), 2 * len(SIZES) - 1)
        self.store("clear", "--force")
        self.assertEqual(self.agree(), [])

    def test_a_second_copy_survives_the_first_ones_node(self):
        self.start_master()
        nodes = [self.start_node()[0], self.start_node()[0]]
        digests = self.put_files("twice", replicas=2)
        self.agree()
        until(lambda: self.figures("clients", "segments") == (3, 2), "only nodes and who asks are left")
        self.assertLess(self.end(nodes[0], signal.SIGKILL), 0)
        until(lambda: self.segments() == 1, "the dead node is given up")
        self.check_files(digests)
        self.assertEqual(len(self.agree()), len(SIZES))

    def figures(self, *names):
        figures = json.loads(self.store("stat", "--json"))
        return tuple(figures[name] for name in names)

    def segments(self):
        """How many distinct names of segments are mounted."""
        return len(set(self.http("/get_all_segments")[1].split()))

    def http(self, path, port="admin", method="GET"):
        request = urllib.request.Request("http://%s%s" % (self.words[port], path), method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def test_a_killed_node_takes_its_keys_with_it_and_can_come_back(self):
        self.start_master()
        port = str(free_port())
        first = self.start_node("64MB", "--port", port)[0]
        digests = self.put_files("gone")
        self.agree()
        self.end(first, signal.SIGKILL)
        until(lambda: self.listed() == [], "its keys go")
        self.assertEqual(self.agree(), [])
        self.store("get", next(iter(digests)), code=1)
        # The same host and port again, at once.
        self.start_node("64MB", "--port", port)
        self.check_files(self.put_files("new"))
        self.assertEqual(len(self.agree()), len(SIZES))

    def test_a_node_that_is_ended_leaves_at_once(self):
        self.start_master()
        first = self.start_node()[0]
        self.put_files("first")
        self.start_node()
        self.assertEqual(self.end(first), 0)
        self.assertEqual(self.listed(), [])  # no ttl has to pass
        self.check_files(self.put_files("second"))
        self.agree()

    def test_a_node_that_was_stopped_too_long_begins_anew(self):
        self.start_master()
        node = self.start_node()[0]
        self.put_files("before")
        node.send_signal(signal.SIGSTOP)
        until(lambda: self.segments() == 0, "it is given up")
        self.assertEqual(self.agree(), [])
        node.send_signal(signal.SIGCONT)
        until(lambda: self.segments() == 1, "it lends again")
        self.check_files(self.put_files("after"))
        self.assertEqual(len(self.agree()), len(SIZES))

    def test_a_stopped_node_costs_the_call_its_deadline_only(self):
        self.start_master()
        node = self.start_node()[0]
        self.store("put", "stuck", "-", data=b"x" * 4096)
        node.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        run = self.store("get", "stuck", "--transport", "tcp", "--timeout", "1s", code=None)
        self.assertLess(time.monotonic() - begun, 8)
        self.assertEqual(run.returncode, 1, run)
        node.send_signal(signal.SIGCONT)

    def test_nodes_remount_after_a_restart_of_the_master(self):
        self.start_master()
        self.start_node()
        self.start_node()
        self.put_files("old")
        self.agree()
        self.follower.end()
        self.end(self.master, signal.SIGKILL)
        epoch = self.words["epoch"]
        self.start_master()
        self.assertNotEqual(self.words["epoch"], epoch)
        until(lambda: self.segments() == 2, "both nodes are back")
        self.assertEqual(self.agree(), [])
        self.check_files(self.put_files("young"))
        self.assertEqual(len(self.agree()), len(SIZES))

    def test_the_master_stops_within_two_seconds(self):
        self.start_master()
        self.start_node()
        begun = time.monotonic()
        self.assertEqual(self.end(self.master, signal.SIGTERM), 0)
        self.assertLess(time.monotonic() - begun, 2)

    def test_pages_answer_what_their_callers_expect(self):
        self.start_master("--enable_http_metadata_server", "--http_metadata_server_host=127.0.0.1",
                          "--http_metadata_server_port=0")
        self.start_node()
        self.store("put", "page", "-", "--session", "s", data=b"y" * 100)
        self.assertEqual(self.http("/get_all_keys"), (200, "page\n"))
        status, text = self.http("/query_key?key=page")
        row = json.loads(text)
        self.assertEqual((status, row["success"], row["data"][0]["size_"]), (200, True, 100))
        status, text = self.http("/batch_query_keys?keys=page,none")
        rows = json.loads(text)["data"]
        self.assertEqual((status, rows["page"]["ok"], rows["none"]["ok"]), (200, True, False))
        self.assertEqual(self.http("/query_key?key=none")[0], 404)
        self.assertEqual(json.loads(self.http("/health")[1])["status"], "ok")
        self.assertIn("master_key_count 1", self.http("/metrics")[1])
        self.assertTrue(json.loads(self.http("/kv_events/status")[1])["enabled"])
        self.assertEqual(self.http("/metadata?key=a", "metadata")[0], 404)

    def test_a_client_of_another_version_is_told_so(self):
        self.start_master()
        host, port = self.rpc.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 10) as peer:
            # [version 99, hello, slot 0, number 0, time 1000, client 0, incarnation 1, epoch 0, nil,
            #  [99, 99, role, incarnation, name, host, software, tenant]]
            body = bytes([0x9a, 99, 1, 0, 0]) + b"\xcd\x03\xe8" + bytes([0, 1, 0, 0xc0]) + \
                bytes([0x98, 99, 99, 0, 1, 0xc0, 0xa1]) + b"h" + bytes([0xa1]) + b"s" + bytes([0xc0])
            peer.sendall(struct.pack("<I", len(body)) + body)
            peer.settimeout(10)
            head = peer.recv(4, socket.MSG_WAITALL)
            answer = peer.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL)
            self.assertIn(struct.pack(">h", -1012), answer)
        self.assertEqual(self.listed(), [])  # the master lives

    def test_wrong_certificates_get_nothing(self):
        for name in ("good", "other"):
            made = subprocess.run([os.environ["MC_STORE"], "keygen", "--tls", os.path.join(self.folder, name)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
        files = {name: sorted(os.listdir(os.path.join(self.folder, name))) for name in ("good", "other")}
        self.assertEqual(files["good"], files["other"])

        def flags(name):
            folder = os.path.join(self.folder, name)
            return ["--tls_cert", folder + "/cert.pem", "--tls_key", folder + "/key.pem", "--tls_ca",
                    folder + "/ca.pem"]

        self.start_master(*flags("good"))
        self.start_node("16MB", *flags("good"))
        self.store("put", "sealed", "-", "--transport", "tcp", *flags("good"), data=b"z" * 5000)
        self.assertEqual(self.store("get", "sealed", "--transport", "tcp", *flags("good")), b"z" * 5000)
        for wrong in (flags("other"), []):
            run = self.store("get", "sealed", "--timeout", "2s", *wrong, code=None)
            self.assertEqual((run.returncode, run.stdout), (1, b""), run.stderr)
        self.assertEqual(self.store("get", "sealed", *flags("good")), b"z" * 5000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
