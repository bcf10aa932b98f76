# SPDX-License-Identifier: Apache-2.0
"""The recovery server of mc-master, asked with pyzmq; the memory is its own segment, the writer is mc-store."""
import json
import os
import random
import subprocess
import sys
import threading
import time
import unittest

import msgpack
import zmq

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "support"))
from asker import END, Asker, u32, u64  # noqa: E402
from master_case import FREE_PORTS, PATIENCE, MasterCase  # noqa: E402

STORE = os.environ["MC_STORE"]
EVENTS = ["--segment=64MB", "--enable_kv_events", "--kv_events_backend_id=n1", "--kv_events_topic=t@m",
          "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--kv_events_replay_endpoint=tcp://127.0.0.1:*"]


class Follower(threading.Thread):
    """All that is published, from the first message on."""

    def __init__(self, case, master):
        super().__init__(daemon=True)
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, 50)
        self.socket.subscribe(b"")
        self.socket.connect(master.events)
        self.messages = []
        self.ends = False
        case.addCleanup(self.end)
        self.start()

    def run(self):
        while not self.ends:
            try:
                topic, seq, payload = self.socket.recv_multipart()
            except zmq.Again:
                continue
            self.messages.append((topic, int.from_bytes(seq, "big"), payload))
        self.socket.close()

    def end(self):
        self.ends = True
        self.join()
        self.context.term()


class RecoveryCase(MasterCase):
    def start_events(self, *more):
        return self.start(*EVENTS, *more)

    def put_many(self, master, keys, *more):
        lines = "".join(json.dumps({"key": key, "size": 8, "session": "s-" + key}) + "\n" for key in keys)
        name = "put-%d.jsonl" % random.randrange(1 << 60)
        done = subprocess.run([STORE, "put-many", self.write(name, lines), "--master", master.rpc, *more],
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr[-500:])

    def status_of(self, master):
        return json.loads(master.ask("/kv_events/status")[2])

    def wait(self, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), until)
            threading.Event().wait(0.02)

    def published(self, master, events):
        self.wait(lambda: self.status_of(master)["published_events"] >= events)


class Answers(RecoveryCase):
    def test_a_request_as_a_vllm_subscriber_makes_it(self):
        master = self.start_events()
        follower = Follower(self, master)
        self.put_many(master, ["k%d" % i for i in range(500)])
        self.published(master, 501)
        tail = self.status_of(master)["last_seq"]
        self.wait(lambda: follower.messages and follower.messages[-1][1] >= tail)
        live = {seq: (topic, payload) for topic, seq, payload in follower.messages}
        replayed = Asker(self, master.recovery).replay(1)
        self.assertEqual([seq for _, seq, _ in replayed][:tail], list(range(1, tail + 1)))
        for topic, seq, payload in replayed:
            if seq in live:
                self.assertEqual((topic, payload), live[seq])
        self.assertGreaterEqual(len(live), tail)
        events = [event for _, _, payload in replayed for event in msgpack.unpackb(payload)[1]]
        self.assertEqual([event["event_id"] for event in events], list(range(1, 502)))
        # A REQ socket, which adds the delimiter itself and sees the first answer alone.
        with zmq.Context() as context, context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.RCVTIMEO, PATIENCE * 1000)
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(master.recovery)
            socket.send(u64(3))
            self.assertEqual(socket.recv_multipart()[1], u64(3))

    def test_three_frames_for_older_subscribers(self):
        master = self.start_events("--kv_events_replay_layout=3")
        self.put_many(master, ["a"])
        self.published(master, 2)
        asker = Asker(self, master.recovery)
        asker.ask(u64(0))
        seq, payload = asker.answer()
        self.assertEqual(seq, u64(1))
        self.assertEqual(msgpack.unpackb(payload)[1][0]["event_type"], "cleared")
        while seq != END:
            seq, payload = asker.answer()
        self.assertEqual(payload, b"")

    def test_status_and_the_page_say_the_same(self):
        master = self.start_events("--kv_events_heartbeat=0", "--kv_events_sequence_epoch")
        self.put_many(master, ["k%d" % i for i in range(100)])
        self.published(master, 101)
        status, page = Asker(self, master.recovery).status(), self.status_of(master)
        self.assertEqual(list(status), ["epoch", "tail_seq", "oldest_seq", "last_id", "keys", "backend_id"])
        self.assertEqual("%016x" % status["epoch"], master.epoch)
        self.assertEqual(status["tail_seq"], page["last_seq"])
        self.assertGreater(status["tail_seq"] >> 32, 24 * 3600 * 365)  # seconds since 2025
        self.assertEqual(status["oldest_seq"] & 0xffffffff, 1)
        self.assertEqual(status["oldest_seq"], page["history_oldest_seq"])
        self.assertEqual((status["last_id"], status["keys"], status["backend_id"]), (101, 100, "n1"))
        self.assertEqual(page["last_event_id"], 101)
        self.assertEqual(page["replay_endpoint"], master.recovery)
        self.wait(lambda: self.status_of(master)["status_requests"] == 1)
        self.assertEqual(page["history_batches"], status["tail_seq"] - status["oldest_seq"] + 1)

    def test_heartbeats_are_on_with_a_recovery_server(self):
        master = self.start_events()
        self.wait(lambda: self.status_of(master)["heartbeats"] >= 1)
        asker = Asker(self, master.recovery)
        self.assertIn([], [msgpack.unpackb(payload)[1] for _, _, payload in asker.replay(1)])

    def test_a_port_that_is_taken_is_named(self):
        master = self.start_events()
        port = master.recovery.rsplit(":", 1)[1]
        self.refused(1, ["kv_events_replay_endpoint", port], *FREE_PORTS, *EVENTS[:-1],
                     "--kv_events_replay_endpoint=tcp://127.0.0.1:" + port)

    def test_only_allowed_keys_are_answered(self):
        keys = {}
        for name in ("server", "friend", "stranger"):
            public = subprocess.run([STORE, "keygen", "--curve", self.path(name)], capture_output=True, text=True,
                                    timeout=PATIENCE, check=True).stdout.strip()
            with open(self.path(name)) as lines:
                secret = [line.split()[1] for line in lines if line.startswith("secret")][0]
            keys[name] = (public.encode(), secret.encode())
        master = self.start_events("--curve_server_key_file=" + self.path("server"), "--curve_allowed_keys_file=" +
                                   self.write("allowed", keys["friend"][0].decode() + "\n"))
        server = keys["server"][0]
        bad = [Asker(self, master.recovery, patience_ms=50, keys=(server, *keys["stranger"])),
               Asker(self, master.recovery, patience_ms=50, keys=(keys["stranger"][0], *keys["friend"])),
               Asker(self, master.recovery, patience_ms=50)]
        for asker in bad:
            asker.ask(b"status")
        good = Asker(self, master.recovery, keys=(server, *keys["friend"]))
        for _ in range(20):
            self.assertEqual("%016x" % good.status()["epoch"], master.epoch)
            for asker in bad:
                self.assertRaises(zmq.Again, asker.answer)
        self.wait(lambda: self.status_of(master)["status_requests"] == 20)


class Snapshots(RecoveryCase):
    def test_all_keys_with_their_tags_on_the_socket_and_as_a_page(self):
        master = self.start_events("--enable_multi_tenants", "--kv_events_heartbeat=0")
        master.ask("/api/v1/tenant_quotas?tenant_id=other", method="PUT", body=b"quota_bytes=16MB")
        keys = ["k%05d" % i for i in range(3000)] + ["\u00fc/x", "line\nfeed"]
        self.put_many(master, keys)
        self.put_many(master, ["a", "k00001"], "--tenant", "other")
        self.published(master, 3004)
        asker = Asker(self, master.recovery)
        begin, events, end = asker.snapshot()
        self.assertEqual(list(begin), ["epoch", "first_id", "tail_seq"])
        self.assertEqual(list(end), ["epoch", "last_id", "tail_seq"])
        self.assertEqual(("%016x" % begin["epoch"], begin["epoch"]), (master.epoch, end["epoch"]))
        self.assertEqual(begin["first_id"], end["last_id"])
        self.assertEqual(begin["tail_seq"], self.status_of(master)["last_seq"])
        found = {(event["tenant_id"], event["object_key"]): event for event in events}
        self.assertEqual(len(found), len(events))
        self.assertEqual(set(found), {("default", key) for key in keys} | {("other", "a"), ("other", "k00001")})
        live = {event["event_id"]: event for _, _, payload in asker.replay(0) for event in msgpack.unpackb(payload)[1]}
        for event in events:
            told = dict(live[event["event_id"]])
            self.assertEqual(list(told), list(event))
            told["timestamp"] = event["timestamp"]
            self.assertEqual(told, event)
        other = asker.snapshot(b"other")[1]
        self.assertEqual({event["object_key"] for event in other}, {"a", "k00001"})
        self.assertEqual(asker.snapshot(b"unknown")[1], [])
        self.check_page(master, begin, end, events)

    def check_page(self, master, begin, end, events):
        code, kind, body = master.ask("/kv_events/snapshot")
        self.assertEqual((code, kind), (200, "application/x-ndjson"))
        first, *rows, last = map(json.loads, body.decode().split("\n")[:-1])
        edge = {"epoch": master.epoch, "tail_seq": end["tail_seq"]}
        self.assertEqual((first, last), (edge | {"first_id": begin["first_id"]}, edge | {"last_id": end["last_id"]}))
        names = ("event_id", "event_type", "tenant_id", "backend_id", "medium", "group_id", "session_id", "object_key")
        self.assertEqual(sorted(rows, key=lambda row: row["event_id"]),
                         [{name: event[name] for name in names} | {"epoch": master.epoch}
                          for event in sorted(events, key=lambda event: event["event_id"])])
        rows = master.ask("/kv_events/snapshot?tenant_id=other")[2].decode().split("\n")[1:-2]
        self.assertEqual({json.loads(row)["object_key"] for row in rows}, {"a", "k00001"})
        self.assertEqual(master.ask("/kv_events/snapshot?tenant_id=" + "t" * 65)[0], 400)
        self.assertEqual(self.start().ask("/kv_events/snapshot")[0], 409)

    def test_a_tenant_that_cannot_be_is_end(self):
        master = self.start_events()
        asker = Asker(self, master.recovery)
        asker.ask(b"snapshot", b"other")  # without multi-tenancy
        self.assertEqual(asker.answer(), [b"", END, b""])
        self.assertEqual(asker.snapshot(b"default")[1], [])

    def test_while_others_write_it_is_the_store_as_of_its_end(self):
        master = self.start_events("--segment=256MB", "--default_kv_lease_ttl=0")
        self.put_many(master, ["k%05d" % i for i in range(20000)])
        ends = threading.Event()
        writer = threading.Thread(target=self.write_and_remove, args=(master, ends))
        writer.start()
        try:
            asker = Asker(self, master.recovery)
            snapshots = [asker.snapshot() for _ in range(5)]
        finally:
            ends.set()
            writer.join()
        last_id = asker.status()["last_id"]
        self.published(master, last_id)
        log = [event for _, _, payload in asker.replay(0) for event in msgpack.unpackb(payload)[1]]
        self.assertEqual([event["event_id"] for event in log], list(range(1, last_id + 1)))
        overlaps = 0
        for begin, rows, end in snapshots:
            want = replay_log({}, (event for event in log if event["event_id"] <= end["last_id"]))
            known = {row["object_key"]: row["event_id"] for row in rows}
            self.assertEqual(len(known), len(rows))
            tail = [event for event in log if begin["first_id"] < event["event_id"] <= end["last_id"]]
            overlaps += len(tail)
            self.assertEqual(replay_log(known, tail), want)
        self.assertGreater(overlaps, 0)

    def write_and_remove(self, master, ends):
        while not ends.is_set():
            keys = ["k%05d" % (random.randrange(30000)) for _ in range(400)]
            subprocess.run([STORE, "rm", *keys[:200], "--force", "--master", master.rpc], capture_output=True,
                           timeout=PATIENCE)
            self.put_many(master, sorted(set(keys[200:])))


def replay_log(known, events):
    """Key to id of what can be read: an event counts if its id is above the last one of its key."""
    known = dict(known)
    gone = {}
    for event in events:
        key, event_id = event["object_key"] if event["event_type"] != "cleared" else None, event["event_id"]
        if key is None:
            known.clear()
        elif event_id > max(known.get(key, 0), gone.get(key, 0)):
            known.pop(key, None)
            gone[key] = event_id
            if event["event_type"] == "stored":
                known[key] = event_id
    return known


class Readers(RecoveryCase):
    def busy_master(self, keys=20000, *more):
        master = self.start_events(*more)
        follower = Follower(self, master)
        self.put_many(master, ["k%05d" % i for i in range(keys)])
        self.published(master, keys + 1)
        return master, follower

    def test_one_message_every_five_ms_is_enough(self):
        master, follower = self.busy_master()
        slow = Asker(self, master.recovery, mark=1)
        tail = slow.status()["tail_seq"]
        slow.ask(u64(1))
        got = []
        writer = threading.Thread(target=self.put_many, args=(master, ["x%05d" % i for i in range(5000)]))
        writer.start()
        for _, seq, _ in slow.messages():
            got.append(seq)
            threading.Event().wait(0.005)
        writer.join()
        self.assertEqual(got[:tail], list(range(1, tail + 1)))
        self.published(master, 25001)
        last = self.status_of(master)["last_seq"]
        self.wait(lambda: follower.messages[-1][1] >= last)
        seqs = [seq for _, seq, _ in follower.messages]
        self.assertEqual(seqs, list(range(seqs[0], seqs[0] + len(seqs))))  # who is live did not feel it

    def test_sixty_four_at_once(self):
        master, _ = self.busy_master()
        askers = [Asker(self, master.recovery, mark=2) for _ in range(64)]
        tail = askers[0].status()["tail_seq"]
        results = [None] * 64

        def read(i):
            results[i] = [seq for _, seq, _ in askers[i].replay(1)]

        threads = [threading.Thread(target=read, args=(i,)) for i in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for seqs in results:
            self.assertEqual(seqs[:tail], list(range(1, tail + 1)))
            self.assertEqual(seqs, list(range(1, len(seqs) + 1)))
        self.assertEqual(self.status_of(master)["refused_requests"], 0)

    def test_snapshots_of_many_share_walks(self):
        master, _ = self.busy_master()
        askers = [Asker(self, master.recovery) for _ in range(32)]
        results = [None] * 32

        def read(i):
            results[i] = askers[i].snapshot()[1]

        threads = [threading.Thread(target=read, args=(i,)) for i in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for events in results:
            self.assertEqual(len({event["object_key"] for event in events}), 20000)
        status = self.status_of(master)
        self.assertEqual(status["snapshot_requests"], 32)
        self.assertLess(status["snapshot_walks"], 32)

    def test_one_that_vanishes_is_forgotten(self):
        master, _ = self.busy_master()
        gone = [Asker(self, master.recovery, mark=1) for _ in range(6)]
        for asker in gone:
            asker.ask(u64(1))
            asker.ask(b"snapshot")
        gone[0].answer()
        for asker in gone:
            asker.close()
        alive = Asker(self, master.recovery)
        self.assertGreater(len(alive.replay(1)), 100)
        self.assertEqual(len(alive.snapshot()[1]), 20000)
        self.wait(lambda: self.status_of(master)["waiting_requests"] == 0)

    def test_paced_by_credit(self):
        master, _ = self.busy_master(2000, "--kv_events_heartbeat=0")  # so that the tail stays where it is
        asker = Asker(self, master.recovery)
        tail = asker.status()["tail_seq"]
        asker.ask(u64(1), u32(3))
        seqs = []
        for _, seq, _ in asker.messages():
            seqs.append(seq)
            if seq % 3 == 0 and seq < tail:
                asker.socket.setsockopt(zmq.RCVTIMEO, 20)
                self.assertRaises(zmq.Again, asker.answer)  # no credit, no message
                asker.socket.setsockopt(zmq.RCVTIMEO, PATIENCE * 1000)
                asker.ask(b"credit", u32(3))
        self.assertEqual(seqs, list(range(1, tail + 1)))

    def test_hostile_bytes(self):
        master, _ = self.busy_master(100)
        draw = random.Random(7)
        words = [b"", b"snapshot", b"status", b"credit", u64(1), u32(1), END, b"\xff" * 65, b"s" * 4096]
        for _ in range(50):
            hostile = Asker(self, master.recovery)
            for _ in range(20):
                frames = [draw.choice(words) if draw.random() < 0.7 else draw.randbytes(draw.randrange(300))
                          for _ in range(draw.randrange(1, 9))]
                hostile.socket.send_multipart(frames)
            hostile.close()
        cut_off = Asker(self, master.recovery)
        cut_off.ask(b"x" * 100000)  # more than a frame may have
        self.assertGreater(len(Asker(self, master.recovery).replay(1)), 1)
        self.assertEqual(master.end()[0], 0)


if __name__ == "__main__":
    unittest.main()
