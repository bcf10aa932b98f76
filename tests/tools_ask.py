#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mc-events status, replay, snapshot, session and sessions: on a real mc-master, and on peers that answer wrongly."""
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import unittest

import msgpack
import zmq

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from asker import END, Asker, u32, u64  # noqa: E402
from event_bytes import EPOCH, Publisher, event, message  # noqa: E402
from free_port import free_port  # noqa: E402
from master_case import PATIENCE, Master  # noqa: E402
from recovery_peer import Peer  # noqa: E402
from tool_case import VECTORS, ToolCase, rows_of  # noqa: E402

STORE = os.environ["MC_STORE"]
EVENTS = ["--segment=64MB", "--enable_kv_events", "--kv_events_backend_id=n1",
          "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--kv_events_replay_endpoint=tcp://127.0.0.1:*",
          "--kv_events_heartbeat=0"]
FIELDS = ("event_type", "tenant_id", "backend_id", "medium", "group_id", "session_id", "object_key")
NOBODY = "tcp://127.0.0.1:9"


def packed(value):
    return msgpack.packb(value, use_bin_type=True)


class AskCase(ToolCase):
    def master(self, *more):
        return Master(self, *EVENTS, *more)

    def put(self, master, rows, *more):
        lines = "".join(json.dumps({"size": 8, **row}) + "\n" for row in rows)
        done = subprocess.run([STORE, "put-many", self.write("put.jsonl", lines), "--master", master.rpc, *more],
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr[-500:])

    def published(self, master, events):
        """What was published, once that many events were, read with libraries of others."""
        asker = Asker(self, master.recovery)
        messages = []
        while sum(len(m[2][1]) for m in messages) < events:
            messages = [(topic, seq, msgpack.unpackb(payload)) for topic, seq, payload in asker.replay(0)]
        asker.close()
        return messages

    def lines_of_replay(self, messages):
        return [{"seq": seq, "event_id": e["event_id"], "timestamp_ms": payload[0], **{f: e.get(f) for f in FIELDS},
                 "epoch": "%016x" % e["epoch"]} for _, seq, payload in messages for e in payload[1]]


class OnAMaster(AskCase):
    def test_status_is_what_the_page_says(self):
        master = self.master()
        self.put(master, [{"key": "k%d" % i} for i in range(10)])
        tail = self.published(master, 11)[-1][1]
        lines = self.output_of("status", "--recovery", master.recovery, "--json")
        self.assertEqual(lines, [{"epoch": master.epoch, "tail_seq": tail, "oldest_seq": 1, "last_id": 11, "keys": 10,
                                  "backend_id": "n1"}])
        table = self.run_tool("status", "--replay", master.recovery)
        self.assertEqual((table.returncode, table.stderr), (0, ""))
        for text in ("backend     n1\n", "epoch       %s\n" % master.epoch, "keys        10\n", "last event  11\n",
                     "1 to %d are kept" % tail):
            self.assertIn(text, table.stdout)

    def test_replay_prints_what_was_published(self):
        master = self.master()
        for part in range(4):
            self.put(master, [{"key": "k%d/%d" % (part, i), "session": "s%d" % part} for i in range(200)])
        messages = self.published(master, 801)
        first, last = messages[0][1], messages[-1][1]
        want = self.lines_of_replay(messages)
        ask = ["replay", "--recovery", master.recovery, "--json"]
        epoch = [{"signal": "epoch", "epoch": master.epoch}]
        self.assertEqual(self.output_of(*ask, "0"), epoch + want)
        self.assertEqual(self.output_of(*ask, "%d" % first), epoch + want)
        middle = (first + last) // 2
        self.assertEqual(self.output_of(*ask, "%d.." % middle), epoch + [e for e in want if e["seq"] >= middle])
        self.assertEqual(self.output_of(*ask, "%d..%d" % (first, middle)),
                         epoch + [e for e in want if e["seq"] <= middle])
        self.assertEqual(self.output_of(*ask, "0", "--session", "s2"),
                         epoch + [e for e in want if e["session_id"] == "s2"])
        self.assertEqual(self.output_of(*ask, "0", "--count", "3"), epoch + want[:3])
        beyond = self.run_tool(*ask, "%d" % (last + 1))
        self.assertEqual((beyond.returncode, beyond.stdout), (0, ""))
        self.assertIn("0 messages", beyond.stderr)

    def test_a_replay_that_begins_with_what_is_left_says_so(self):
        master = self.master("--kv_events_history=2")
        kept, numbers = [], itertools.count()
        while not kept or kept[0][1] < 3:
            number = next(numbers)
            self.put(master, [{"key": "k%d" % number}])
            kept = []
            while not kept or kept[-1][2][1][-1]["event_id"] < number + 2:
                asker = Asker(self, master.recovery)
                kept = [(topic, seq, msgpack.unpackb(payload)) for topic, seq, payload in asker.replay(0)]
                asker.close()
        self.assertEqual(len(kept), 2)
        done = self.run_tool("replay", "--recovery", master.recovery, "--json", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rows_of(done.stdout)[1:], self.lines_of_replay(kept))
        self.assertIn("message %d is the oldest of these that is kept" % kept[0][1], done.stderr)

    def test_snapshot_has_the_lines_of_the_page(self):
        master = self.master("--enable_multi_tenants")
        master.ask("/api/v1/tenant_quotas?tenant_id=other", method="PUT", body=b"quota_bytes=16MB")
        self.put(master, [{"key": "k%04d" % i, "session": "s%d" % (i % 3), "group": "g"} for i in range(1500)])
        self.put(master, [{"key": "only\x1b\\"}], "--tenant", "other")
        self.published(master, 1502)
        page = rows_of(master.ask("/kv_events/snapshot")[2].decode())
        lines = self.output_of("snapshot", "--recovery", master.recovery, "--json")
        self.assertEqual([list(line) for line in lines], [list(line) for line in page])
        self.assertEqual((lines[0], lines[-1]), (page[0], page[-1]))
        order = [line["event_id"] for line in lines[1:-1]]
        self.assertEqual(sorted(lines[1:-1], key=lambda e: e["event_id"]),
                         sorted(page[1:-1], key=lambda e: e["event_id"]))
        self.assertEqual(len(set(order)), 1501)
        other = self.output_of("snapshot", "--recovery", master.recovery, "--json", "--tenant", "other")
        self.assertEqual([e["object_key"] for e in other[1:-1]], ["only\x1b\\"])
        table = self.run_tool("snapshot", "--recovery", master.recovery, "--tenant=other")
        self.assertIn(r"cpu  only\x1b\x5c tenant=other", table.stdout)
        self.assertIn("1 rows, 0 refused", table.stderr)
        self.assertEqual(self.output_of("snapshot", "--recovery", master.recovery, "--json", "--tenant=none")[1:-1], [])

    def test_a_tenant_that_cannot_be_is_refused(self):
        master = self.master()
        self.refused(1, ["snapshot", master.recovery, "refused"], "snapshot", "--recovery", master.recovery,
                     "--tenant", "other")
        for tenant in ("", "t" * 65):
            self.refused(2, ["--tenant"], "snapshot", "--recovery", master.recovery, "--tenant", tenant)

    def test_sessions_by_how_much_of_them_is_held(self):
        master = self.master()
        self.put(master, [{"key": "%d" % i, "session": "long" if i < 7 else "short"} for i in range(10)])
        self.put(master, [{"key": "untagged"}, {"key": "77"}])
        self.published(master, 13)
        ask = ["--recovery", master.recovery, "--json"]
        place = {"owner": "store:n1", "tier": "external"}
        lines = self.output_of("sessions", *ask)
        self.assertEqual([(l["tenant_id"], l["session_id"], l["heads"], l["blocks"]) for l in lines],
                         [("default", "long", 7, 7), ("default", "short", 3, 3)])
        self.assertEqual(lines[0]["resident"], [{**place, "blocks": 7, "prefix": 0}])
        self.assertEqual(self.output_of("sessions", *ask, "--top", "1"), lines[:1])
        one, = self.output_of("session", "short", *ask)
        self.assertEqual(one, {"tenant_id": "default", "session_id": "short",
                               "heads": [{"head": n, "rooted": False, "lineage": [n]} for n in (7, 8, 9)],
                               "resident": [{**place, "blocks": 3, "prefix": 0}]})
        self.refused(1, ["nobody", "no such session"], "session", "nobody", *ask)
        table = self.run_tool("sessions", "--recovery", master.recovery)
        self.assertIn("       7      7  long store:n1/external=7\n", table.stdout)
        table = self.run_tool("session", "short", "--recovery", master.recovery)
        self.assertIn("store:n1 external  3 blocks", table.stdout)
        done = self.run_tool("sessions", *ask, "--layout", "sglang:mla")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("none of 12 keys is of the layout", done.stderr)

    def turns_until(self, tool, is_last):
        """What `sessions --every --json` says, a turn at a time, up to one that is as it should be."""
        line = json.loads(tool.stdout.readline() or self.fail(self.end_of(tool)))
        while True:
            rows = [json.loads(tool.stdout.readline()) for _ in range(line["sessions"])]
            if is_last({row["session_id"]: row["blocks"] for row in rows}):
                return rows
            line = json.loads(tool.stdout.readline() or self.fail(self.end_of(tool)))

    def test_sessions_as_they_come_and_go(self):
        """An index that is fed by the stream, also where the master begins anew."""
        ports = ["--kv_events_bind_endpoint=tcp://127.0.0.1:%d" % free_port(),
                 "--kv_events_replay_endpoint=tcp://127.0.0.1:%d" % free_port(), "--kv_events_heartbeat=100ms"]
        master = self.master(*ports)
        self.put(master, [{"key": "%d" % i, "session": "old"} for i in range(3)])
        live = ["--endpoint", master.events, "--recovery", master.recovery, "--json"]
        tool = self.start("sessions", *live, "--every", "20ms")
        one, = self.turns_until(tool, lambda blocks: blocks == {"old": 3})
        self.assertEqual(one["resident"], [{"owner": "store:n1", "tier": "external", "blocks": 3, "prefix": 0}])
        self.put(master, [{"key": "%d" % i, "session": "new"} for i in range(10, 15)])
        rows = self.turns_until(tool, lambda blocks: blocks == {"old": 3, "new": 5})
        self.assertEqual([row["session_id"] for row in rows], ["new", "old"])
        done = subprocess.run([STORE, "rm", "10", "11", "--force", "--master", master.rpc], capture_output=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0)
        self.turns_until(tool, lambda _: sum(p["blocks"] for row in self.output_of("sessions", *live)
                                             for p in row["resident"]) == 6)
        master.end(signal.SIGKILL)
        again = self.master(*ports)
        self.put(again, [{"key": "77", "session": "later"}])
        self.turns_until(tool, lambda blocks: "later" in blocks)
        self.assertEqual(self.end_of(tool, signal.SIGTERM)[0], 0)

    def test_a_session_as_it_grows(self):
        master = self.master("--kv_events_heartbeat=100ms")
        live = ["--endpoint", master.events, "--recovery", master.recovery]
        tool = self.start("session", "s", *live, "--json", "--every", "20ms")
        empty = {"tenant_id": "default", "session_id": "s", "heads": [], "resident": []}
        self.assertEqual(json.loads(tool.stdout.readline()), empty)
        self.put(master, [{"key": "5", "session": "s"}])
        line = empty
        while line == empty:
            line = json.loads(tool.stdout.readline() or self.fail(self.end_of(tool)))
        self.assertEqual(line["heads"], [{"head": 5, "rooted": False, "lineage": [5]}])
        self.assertEqual(self.end_of(tool, signal.SIGINT)[0], 0)
        once = self.run_tool("session", "s", *live)
        self.assertIn("store:n1 external  1 blocks", once.stdout)
        self.put(master, [{"key": "%d" % i, "session": "many"} for i in range(100, 400)])
        many, = [row for row in self.output_of("sessions", *live, "--json") if row["session_id"] == "many"]
        self.assertEqual((many["blocks"], many["heads"], many["resident"][0]["blocks"]), (300, 300, 300))
        self.refused(1, ["nobody: no such session"], "session", "nobody", *live)
        self.refused(1, [NOBODY, "nobody publishes there"], "sessions", "--endpoint", NOBODY, "--recovery",
                     master.recovery, "--timeout", "300ms")
        self.refused(2, ["--every"], "sessions", "--every", "0s")

    def flapping(self):
        """The endpoint of a publisher that goes as soon as somebody has come, and comes back, again and again."""
        context, endpoint, over = zmq.Context(), "tcp://127.0.0.1:%d" % free_port(), threading.Event()

        def flap():
            while not over.is_set():
                with context.socket(zmq.PUB) as socket:
                    monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
                    try:
                        socket.bind(endpoint)
                        if monitor.poll(1000):
                            over.wait(0.15)
                    except zmq.ZMQError:
                        over.wait(0.01)  # the last one has not let go of the port
                    socket.disable_monitor()
                    monitor.close()
        thread = threading.Thread(target=flap)
        thread.start()
        self.addCleanup(context.term)
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        return endpoint

    def test_one_whose_connection_comes_and_goes_is_not_waited_for_without_end(self):
        endpoint = self.flapping()
        done = self.refused(1, [endpoint, "nobody publishes there"], "sessions", "--endpoint", endpoint, "--recovery",
                            NOBODY, "--timeout", "300ms")
        self.assertNotIn("answers", done.stderr)

    def test_with_keys_only_those_who_are_allowed_get_an_answer(self):
        public = {}
        for name in ("server", "friend", "stranger"):
            public[name] = subprocess.run([STORE, "keygen", "--curve", self.path(name)], capture_output=True,
                                          text=True, timeout=PATIENCE, check=True).stdout.strip()
        master = self.master("--curve_server_key_file=" + self.path("server"), "--curve_allowed_keys_file=" +
                             self.write("allowed", public["friend"] + "\n"))
        ask = ["status", "--recovery", master.recovery, "--json", "--curve_server_key", public["server"]]
        lines = self.output_of(*ask, "--curve_key_file", self.path("friend"))
        self.assertEqual(lines[0]["epoch"], master.epoch)
        self.refused(1, ["no answer within 300 ms"], *ask, "--curve_key_file", self.path("stranger"),
                     "--timeout", "300ms")
        self.refused(1, ["no answer within 300 ms"], *ask[:4], "--timeout", "300ms")


class OnAPeer(AskCase):
    def peer(self, *answers):
        return Peer(self, lambda frames: answers if frames[0] != b"credit" else [])

    def test_nobody_there_is_a_failure_in_time(self):
        for name, *operand in (["status"], ["snapshot"], ["replay", "0"], ["sessions"], ["session", "s"]):
            done = self.refused(1, [name, NOBODY, "no answer within 200 ms", "-901"], name, *operand,
                                "--recovery", NOBODY, "--timeout", "200ms")
            self.assertEqual([l for l in done.stdout.split("\n") if l.startswith("{")], [])

    def test_a_signal_ends_the_wait(self):
        for name, *operand in (["status"], ["replay", "0"]):
            heard = []
            peer = Peer(self, lambda frames: heard.append(frames) or [])
            tool = self.start(name, *operand, "--recovery", peer.endpoint)
            while not heard:
                self.assertIsNone(tool.poll())
            code, _, words = self.end_of(tool, signal.SIGINT)
            self.assertEqual(code, 1)
            self.assertIn("interrupted", words)

    def test_what_is_no_answer_is_named(self):
        status = {"epoch": 1, "tail_seq": 1, "oldest_seq": 1, "last_id": 1, "keys": 1, "backend_id": "n"}
        first = [b"snapshot", u64(0), packed({"epoch": 1, "first_id": 1, "tail_seq": 1})]
        last = [b"snapshot", u64(2), packed({"epoch": 1, "last_id": 1, "tail_seq": 1}), b""]
        rows = [
            (["status"], "missing", [[b"status", packed({})]]),
            (["status"], "value", [[b"status", packed({**status, "keys": "1"})]]),
            (["status"], "map", [[b"status", packed(status) + b"\0"]]),
            (["status"], "word", [[b"STATUS", packed(status)]]),
            (["status"], "frame_count", [[b"status"]]),
            (["status"], "refused", [[b"", END, b""]]),
            (["snapshot"], "number", [first, first]),
            (["snapshot"], "number", [first, last]),
            (["snapshot"], "refused", [first, [b"", END, b""]]),
            (["snapshot"], "payload_malformed", [first, [b"snapshot", u64(1), b"\xc1"]]),
            (["replay", "4"], "number", [message(5, []), message(5, [])]),
            (["replay", "4"], "number", [message(3, [])]),
            (["replay", "4"], "number_size", [[b"", b"five", b""]]),
        ]
        for operands, word, answers in rows:
            peer = self.peer(*answers)
            self.refused(1, [operands[0], peer.endpoint, word], *operands, "--recovery", peer.endpoint)

    def test_rows_that_cannot_be_read_are_shown_and_fail(self):
        events = [event(1, key="a"), event(2, "removed", key="b"), event(3, medium=None), event(4, key="d")]
        peer = self.peer([b"snapshot", u64(0), packed({"epoch": EPOCH, "first_id": 4, "tail_seq": 1})],
                         [b"snapshot", u64(1), message(1, events)[2]],
                         [b"snapshot", u64(2), packed({"epoch": EPOCH, "last_id": 4, "tail_seq": 1}), b""])
        done = self.refused(1, ["2 rows, 2 refused"], "snapshot", "--recovery", peer.endpoint, "--json")
        lines = rows_of(done.stdout)
        self.assertEqual([(l.get("object_key"), l.get("error")) for l in lines[1:-1]],
                         [("a", None), (None, "not_stored"), (None, "field_type"), ("d", None)])

    def test_a_replay_goes_at_the_pace_that_it_was_granted(self):
        stream = [message(n, [event(n, key="k%d" % n)]) for n in range(1, 2001)]
        state = {"left": list(stream), "credit": 0, "most": 0}

        def answer(frames):
            state["credit"] += int.from_bytes(frames[1], "big")
            count = min(state["credit"], len(state["left"]))
            some, state["left"] = state["left"][:count], state["left"][count:]
            state["most"] = max(state["most"], count)
            state["credit"] -= count
            return some + ([] if state["left"] else [[b"", END, b""]])
        peer = Peer(self, answer)
        lines = self.output_of("replay", "1", "--recovery", peer.endpoint, "--json")
        self.assertEqual([l["event_id"] for l in lines[1:]], list(range(1, 2001)))
        self.assertEqual(peer.heard[0], [u64(1), u32(256)])
        self.assertTrue(all(frames[0] == b"credit" for frames in peer.heard[1:]))
        self.assertLessEqual(state["most"], 256)

    def test_a_hole_in_a_replay_is_a_gap(self):
        peer = self.peer(*[message(n, [event(n, key="k%d" % n)]) for n in (1, 2, 5)], [b"", END, b""])
        lines = self.output_of("replay", "0", "--recovery", peer.endpoint, "--json")
        self.assertIn({"signal": "gap", "from_id": 3, "to_id": 4, "from_seq": 3, "to_seq": 4}, lines)


def engine_stream():
    """Two ranks of an engine: a chain of a session, one block of it gone."""
    events = [{"type": "BlockStored", "block_hashes": [1, 2, 3], "parent_block_hash": None, "token_ids": [7] * 12,
               "block_size": 4, "lora_id": None, "medium": "GPU", "session_id": "s"},
              {"type": "BlockStored", "block_hashes": [2**64 - 1], "parent_block_hash": 3, "token_ids": [7] * 4,
               "block_size": 4, "lora_id": -1, "lora_name": "l", "session_id": "s"},
              {"type": "BlockRemoved", "block_hashes": [3], "medium": "GPU"}, {"type": "AllBlocksCleared"}]
    return [[b"", u64(seq), packed([1739145600.5, [e], rank])]
            for seq, (e, rank) in enumerate(zip(events, (0, 0, 0, 1)))]


LINES = [
    {"seq": 0, "timestamp_ms": 1739145600500, "dp_rank": 0, "event_type": "stored", "block_hashes": [1, 2, 3],
     "medium": "GPU", "group_idx": None, "locality": None, "parent_block_hash": None, "unordered": False,
     "token_count": 12, "block_size": 4, "lora_id": None, "lora_name": None, "session_id": "s", "cache_salt": None,
     "spec_kind": None, "sliding_window": None},
    {"seq": 1, "timestamp_ms": 1739145600500, "dp_rank": 0, "event_type": "stored", "block_hashes": [2**64 - 1],
     "medium": None, "group_idx": None, "locality": None, "parent_block_hash": 3, "unordered": False,
     "token_count": 4, "block_size": 4, "lora_id": -1, "lora_name": "l", "session_id": "s", "cache_salt": None,
     "spec_kind": None, "sliding_window": None},
    {"seq": 2, "timestamp_ms": 1739145600500, "dp_rank": 0, "event_type": "removed", "block_hashes": [3],
     "medium": "GPU", "group_idx": None, "locality": None},
    {"seq": 3, "timestamp_ms": 1739145600500, "dp_rank": 1, "event_type": "cleared"},
]


class OfEngines(AskCase):
    def peer(self, layout):
        """As an engine answers: it does not know pacing."""
        def answer(frames):
            self.assertEqual(len(frames), 1)
            begin = int.from_bytes(frames[0], "big")
            stream = engine_stream()[begin:]
            end = [b"", END, b""]
            return [frames[4 - layout:] for frames in stream + [end]]
        return Peer(self, answer)

    def test_replay_in_both_layouts(self):
        for layout in (4, 3):
            peer = self.peer(layout)
            ask = ["replay", "--profile", "engine", "--recovery", peer.endpoint, "--json"]
            self.assertEqual([l for l in self.output_of(*ask, "0") if "signal" not in l], LINES)
            self.assertEqual([l for l in self.output_of(*ask, "1..2") if "signal" not in l], LINES[1:3])

    def test_tail_and_play_and_decode_read_them(self):
        publisher = Publisher()
        self.addCleanup(publisher.close)
        tool = self.start("tail", "--profile", "engine", "--endpoint", publisher.endpoint, "--json", "--count", "4")
        publisher.ready()
        for frames in engine_stream():
            publisher.send(frames)
        lines = self.lines_of(tool)
        self.assertEqual([l for l in lines if "signal" not in l], LINES)
        recording = self.write("r.jsonl", "".join(json.dumps({"t_ns": 0, "frames": [f.hex() for f in frames]}) + "\n"
                                                  for frames in engine_stream()))
        self.assertEqual(self.output_of("play", "--profile=engine", "--json", recording), lines)
        decoded = self.output_of("decode", "--profile=engine", recording)
        self.assertEqual([{**{k: m[k] for k in ("seq", "timestamp_ms", "dp_rank")}, **e}
                          for m in decoded for e in m["events"]], LINES)
        table = self.run_tool("play", "--profile=engine", recording).stdout
        self.assertIn("stored  GPU 3 blocks 0000000000000001 0000000000000002 0000000000000003 session=s\n", table)
        self.assertIn("parent=0000000000000003 session=s lora=l\n", table)

    def test_decode_reads_all_forms_as_the_vectors_have_them(self):
        with open(os.path.join(VECTORS, "engine.json")) as rows:
            rows = json.load(rows)
        lines = "".join(json.dumps({"frames": row["frames"]}) + "\n" for row in rows)
        decoded = self.output_of("decode", "--profile", "engine", text=lines)
        self.assertEqual(len(decoded), len(rows))
        seen = 0
        for row, line in zip(rows, decoded):
            head = row["expect"].split("\n")[0]
            if head.startswith("seq="):
                want = dict(word.split("=") for word in head.split())
                self.assertEqual((line["seq"], line["timestamp_ms"], len(line["events"])),
                                 (int(want["seq"]), int(want["ts"]), int(want["count"])), row["name"])
                self.assertEqual(sum("error" in e for e in line["events"]), int(want["refused"]), row["name"])
                self.assertEqual(line["dp_rank"], None if want["rank"] == "-" else int(want["rank"]))
                seen += 1
            else:
                self.assertIn("error", line, row["name"])
        self.assertGreater(seen, 20)

    def test_what_makes_no_sense_of_an_engine_is_refused(self):
        for flag in ("--tenant", "--group"):
            self.refused(2, ["engines"], "tail", "--profile", "engine", flag, "x")

    def test_a_session_has_its_chain(self):
        peer = self.peer(3)
        ask = ["--profile", "engine", "--recovery", peer.endpoint, "--json"]
        one, = self.output_of("session", "s", *ask)
        self.assertEqual(one["heads"], [{"head": 2**64 - 1, "rooted": True, "lineage": [1, 2, 3, 2**64 - 1]}])
        self.assertEqual(one["resident"], [{"owner": "engine/0", "tier": "device", "blocks": 3, "prefix": 2}])
        lines = self.output_of("sessions", *ask)
        self.assertEqual([(l["session_id"], l["heads"], l["blocks"]) for l in lines], [("s", 1, 4)])

    def test_a_session_that_is_fed_by_an_engine(self):
        """What it keeps, and what it says from here on."""
        peer = self.peer(4)
        publisher = Publisher()
        self.addCleanup(publisher.close)
        tool = self.start("session", "s", "--profile", "engine", "--recovery", peer.endpoint, "--endpoint",
                          publisher.endpoint, "--json", "--every", "20ms")
        publisher.ready()
        stream = engine_stream()
        publisher.send(stream[3])
        line = json.loads(tool.stdout.readline() or self.fail(self.end_of(tool)))
        self.assertEqual(line["heads"], [{"head": 2**64 - 1, "rooted": True, "lineage": [1, 2, 3, 2**64 - 1]}])
        more = {"type": "BlockStored", "block_hashes": [9], "parent_block_hash": 2**64 - 1, "token_ids": [7] * 4,
                "block_size": 4, "lora_id": None, "medium": "GPU", "session_id": "s"}
        publisher.send([b"", u64(4), packed([1739145601.5, [more], 0])])
        while line["heads"][0]["head"] != 9:
            line = json.loads(tool.stdout.readline() or self.fail(self.end_of(tool)))
        self.assertEqual(line["heads"], [{"head": 9, "rooted": True, "lineage": [1, 2, 3, 2**64 - 1, 9]}])
        self.assertEqual(self.end_of(tool, signal.SIGINT)[0], 0)


if __name__ == "__main__":
    unittest.main()
