#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mc-events lint: what it says of recorded and of published messages, and of mc-master's stream under its flags."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from event_bytes import Publisher, event, message  # noqa: E402
from master_case import PATIENCE, MasterCase  # noqa: E402
from tool_case import BINARY, VECTORS, ToolCase, rows_of  # noqa: E402

CONSUMERS = ["dynamo-hicache", "dynamo-mooncake-store", "dynamo-indexer", "conductor-vllm", "conductor-sglang",
             "llm-d", "vllm-array", "vllm-map"]
MEMBERS = ["consumer", "rules", "verdict", "messages", "taken", "lost", "unjudged", "events", "skipped", "ignored",
           "broken"]
DIGEST = "%064x" % (2**200 + 77)


def lines(*stream):
    return "".join(json.dumps({"t_ns": 1, "frames": [f.hex() for f in frames]}) + "\n" for frames in stream)


def by_name(rows):
    return {row["consumer"]: row for row in rows}


class Lint(ToolCase):
    def test_a_row_for_each_consumer_with_the_version_of_the_rules(self):
        stream = [message(1, [event(1, "cleared")]), message(2, [event(2, key="m@" + DIGEST), event(3, key="x")])]
        done = self.run_tool("lint", self.write("r.jsonl", lines(*stream)))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        head, *rows = done.stdout.splitlines()
        self.assertRegex(head, r"^rules of 20\d\d-\d\d: 2 messages, 3 events$")
        self.assertEqual([row.split()[0] for row in rows], CONSUMERS)
        told = {row.split()[0]: row.split(None, 1)[1] for row in rows}
        self.assertTrue(told["dynamo-hicache"].startswith("takes all, ignores 1: object_key_none (message 1, event 0, "
                                                          "byte 11): "), told["dynamo-hicache"])
        self.assertTrue(told["dynamo-mooncake-store"].startswith("takes all, ignores 1: key_prefix (message 2, event 1"))
        self.assertTrue(told["dynamo-indexer"].startswith("refuses 1 of 2 messages: token_ids_nil (message 2, event 0"),
                        told["dynamo-indexer"])
        self.assertIn("; block_size_nil", told["dynamo-indexer"])
        self.assertTrue(told["conductor-vllm"].startswith("skips 2 of 3 events: model_name (message 2"))
        self.assertTrue(told["llm-d"].startswith("never gets 2 of 2 messages: topic_kv_at (message 1, byte 0)"))

    def test_rows_as_json_are_what_the_table_of_rules_says(self):
        with open(os.path.join(VECTORS, "lint.json")) as text:
            vectors = json.load(text)
        for row in vectors[::12]:
            answers = by_name(self.output_of("lint", "--json", "-", text=json.dumps(row) + "\n"))
            self.assertEqual(list(answers), CONSUMERS)
            for consumer, rules in row["expect"].items():
                answer = answers[consumer]
                self.assertEqual(list(answer), MEMBERS)
                self.assertEqual(sorted(broken["rule"] for broken in answer["broken"]), sorted(rules), row["name"])
                self.assertEqual(answer["messages"], 1)
                for broken in answer["broken"]:
                    self.assertEqual(list(broken), ["rule", "costs", "wants", "messages", "events", "message", "event",
                                                    "offset"])
                    self.assertEqual((broken["messages"], broken["message"]), (1, 1))
                worst = [broken["costs"] for broken in answer["broken"]][:1] or ["takes"]
                self.assertEqual(answer["verdict"], worst[0])

    def test_nothing_is_nothing_and_a_bad_line_is_named(self):
        done = self.run_tool("lint", "-", text="")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count("nothing to judge"), len(CONSUMERS))
        path = self.write("bad.jsonl", lines(message(1, [])) + '{"frames":["zz"]}\n')
        done = self.refused(1, ["lint", path + ":2:", "frames[0]"], "lint", path)
        self.assertEqual(done.stdout, "")

    def test_what_cannot_be_judged_fails(self):
        count = 1 << 20
        payload = b"\x93\x01\xdd" + count.to_bytes(4, "big") + b"\xc0" * count + b"\x00"
        done = self.refused(1, ["1 messages could not be judged"], "lint", "-",
                            text=lines(message(1, []), [b"", bytes(8), payload]))
        self.assertIn(": 1 messages, 0 events", done.stdout)

    def test_it_listens_where_no_file_is_named(self):
        publisher = Publisher()
        self.addCleanup(publisher.close)
        tool = self.start("lint", "--endpoint", publisher.endpoint, "--count", "3", "--json")
        publisher.ready()
        publisher.send(message(1, [event(1, key="m@" + DIGEST)], topic=b"kv@pod@m"))
        publisher.send([b"kv@pod@m", b"odd"])
        publisher.send(message(3, []))
        rows = by_name(self.lines_of(tool))
        hicache, llm_d = rows["dynamo-hicache"], rows["llm-d"]
        self.assertEqual((hicache["messages"], hicache["taken"], hicache["verdict"]), (3, 2, "refuses"))
        self.assertEqual([broken["rule"] for broken in hicache["broken"]], ["frame_count"])
        self.assertEqual(hicache["broken"][0]["message"], 2)
        self.assertEqual((llm_d["lost"], llm_d["verdict"]), (3, "deaf"))


# Flags of a master, the key that is put, and who then takes all of its stream.
MODEL = ["--kv_events_model_name=m", "--kv_events_block_size=16"]
TOKENS = ["--kv_events_legacy_token_ids=empty"]
VLLM_KEY, SGLANG_KEY = "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" + DIGEST, DIGEST + "_0_k"
FLAGS = [
    ([], VLLM_KEY, {"dynamo-hicache", "dynamo-mooncake-store"}),
    (["--kv_events_extra_fields=false"], SGLANG_KEY, {"dynamo-hicache", "dynamo-mooncake-store"}),
    (MODEL, VLLM_KEY, {"dynamo-hicache", "dynamo-mooncake-store", "conductor-vllm"}),
    (MODEL + TOKENS, SGLANG_KEY, {"dynamo-hicache", "dynamo-mooncake-store", "dynamo-indexer", "conductor-sglang"}),
    (MODEL + TOKENS + ["--kv_events_topic=kv@n1@m"], VLLM_KEY,
     {"dynamo-hicache", "dynamo-mooncake-store", "dynamo-indexer", "conductor-vllm", "llm-d"}),
]


class Flags(MasterCase):
    def store(self, master, *args):
        done = subprocess.run([os.environ["MC_STORE"], *args, "--master", master.rpc], capture_output=True,
                              timeout=PATIENCE, input=b"bytes")
        self.assertEqual(done.returncode, 0, done.stderr)

    def status_of(self, master):
        return json.loads(master.ask("/kv_events/status")[2])

    def wait(self, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), until)
            threading.Event().wait(0.02)

    def judged(self, flags, key):
        """What lint says of a life of a store: its start, puts, an upsert and a removal."""
        master = self.start("--segment=16MB", "--enable_kv_events", "--kv_events_backend_id=n1",
                            "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--kv_events_heartbeat=200ms", *flags)
        lint = subprocess.Popen([BINARY, "lint", "--endpoint", master.events, "--json"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.reap, lint)
        self.wait(lambda: self.status_of(master)["subscribers"] == 1)
        self.store(master, "put", key, "-", "--session", "agent-7")
        self.store(master, "put", key, "-", "--upsert")
        self.store(master, "rm", key, "--force")
        self.wait(lambda: self.status_of(master)["published_events"] >= 5)
        heartbeats = self.status_of(master)["heartbeats"]
        self.wait(lambda: self.status_of(master)["heartbeats"] > heartbeats)
        lint.send_signal(signal.SIGTERM)
        out, words = lint.communicate(timeout=PATIENCE)
        self.assertEqual(lint.returncode, 0, words)
        return by_name(rows_of(out))

    @staticmethod
    def reap(tool):
        if tool.poll() is None:
            tool.kill()
        tool.communicate()

    def test_who_takes_the_stream_of_a_master_under_its_flags(self):
        for flags, key, takers in FLAGS:
            rows = self.judged(flags, key)
            self.assertGreaterEqual(rows["dynamo-hicache"]["events"], 4, flags)
            taken = {name for name, row in rows.items() if row["messages"] and row["taken"] == row["messages"]}
            self.assertEqual(taken, takers, (flags, {n: r["broken"][:1] for n, r in rows.items()}))


if __name__ == "__main__":
    unittest.main()
