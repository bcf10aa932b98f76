#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mc-events tail with a recovery server, and verify: on a real mc-master, and on a store that contradicts itself."""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import msgpack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from asker import END, u64  # noqa: E402
from chaos_proxy import Proxy  # noqa: E402
from event_bytes import EPOCH, Publisher, event, message, seen  # noqa: E402
from free_port import free_port  # noqa: E402
from master_case import PATIENCE, Master, query  # noqa: E402
from recovery_peer import Peer  # noqa: E402
from tool_case import ToolCase, rows_of  # noqa: E402

STORE = os.environ["MC_STORE"]
EVENTS = ["--segment=64MB", "--enable_kv_events", "--kv_events_heartbeat=200ms", "--kv_events_backend_id=n1",
          "--default_kv_lease_ttl=0"]
ANYWHERE = ["--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--kv_events_replay_endpoint=tcp://127.0.0.1:*"]


def packed(value):
    return msgpack.packb(value, use_bin_type=True)


class FollowCase(ToolCase):
    def master(self, *more):
        return Master(self, *EVENTS, *(more or ANYWHERE))

    def store(self, master, *words):
        return subprocess.run([STORE, *words, "--master", master.rpc], capture_output=True, timeout=PATIENCE)

    def put(self, master, *rows, tenant="default"):
        lines = "".join(json.dumps({"size": 8, **row}) + "\n" for row in rows)
        done = self.store(master, "put-many", self.write("put.jsonl", lines), "--tenant", tenant)
        self.assertEqual(done.returncode, 0, done.stderr[-500:])

    def wait_for(self, is_so):
        end = time.monotonic() + PATIENCE
        while not is_so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    @staticmethod
    def of(master, *more):
        return ["--endpoint", master.events, "--recovery", master.recovery, *more]

    def next_line(self, tool):
        line = tool.stdout.readline()
        if not line:
            self.fail(self.end_of(tool))
        return json.loads(line)

    def lines_until(self, tool, is_last):
        lines = [self.next_line(tool)]
        while not is_last(lines[-1]):
            lines.append(self.next_line(tool))
        return lines


class Front(http.server.ThreadingHTTPServer):
    """Admin pages of a master, some of them changed: change(path, status, body) gives what is answered."""

    def __init__(self, case, master, change):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, kind, body = master.ask(self.path)
                status, body = change(self.path, status, body)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        super().__init__(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()
        case.addCleanup(self.end)
        self.url = "http://127.0.0.1:%d/" % self.server_address[1]

    def end(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Tail(FollowCase):
    def test_from_a_snapshot_it_is_what_can_be_read_and_then_what_changes(self):
        master = self.master()
        self.put(master, *({"key": "k%d" % i, "session": "s", "group": "g"} for i in range(300)))
        self.store(master, "rm", "k0", "--force")
        tool = self.start("tail", "--from", "snapshot", "--json", *self.of(master))
        lines = self.lines_until(tool, lambda line: line.get("signal") == "recovered")
        rows = [line for line in lines if "signal" not in line]
        held = set()
        for row in rows:    # what was published meanwhile may come too; a key comes and goes in turns
            if row["event_type"] != "cleared":
                self.assertEqual(row["object_key"] in held, row["event_type"] == "removed", row)
                held ^= {row["object_key"]}
        self.assertEqual(held, {"k%d" % i for i in range(1, 300)})
        self.assertEqual({(row["session_id"], row["group_id"], row["epoch"]) for row in rows
                          if row["event_type"] == "stored"}, {("s", "g", master.epoch)})
        self.assertEqual(lines[-1], {"signal": "recovered", "by": "snapshot"})
        self.put(master, {"key": "later"})
        live = self.lines_until(tool, lambda line: line.get("object_key") == "later")[-1]
        self.assertEqual((live["event_type"], live["event_id"]), ("stored", 303))
        self.assertGreater(live["seq"], 0)
        self.assertEqual(self.end_of(tool, signal.SIGINT)[0], 0)

    def test_from_a_number_nothing_is_missing_and_nothing_comes_twice(self):
        master = self.master()
        for part in range(3):
            self.put(master, *({"key": "k%d/%d" % (part, i)} for i in range(100)))
        tool = self.start("tail", "--from", "1", "--json", *self.of(master))
        lines = self.lines_until(tool, lambda line: line.get("event_id") == 301)
        self.put(master, {"key": "later"})
        lines += self.lines_until(tool, lambda line: line.get("event_id") == 302)
        self.assertEqual([line["event_id"] for line in lines if "event_id" in line], list(range(1, 303)))
        self.assertEqual(self.end_of(tool, signal.SIGINT)[0], 0)

    def test_a_master_that_begins_anew_is_followed_on(self):
        ports = ["--kv_events_bind_endpoint=tcp://127.0.0.1:%d" % free_port(),
                 "--kv_events_replay_endpoint=tcp://127.0.0.1:%d" % free_port()]
        master = self.master(*ports)
        self.put(master, {"key": "old"})
        tool = self.start("tail", "--from", "snapshot", "--json", *self.of(master))
        self.lines_until(tool, lambda line: line.get("signal") == "recovered")
        master.end(signal.SIGKILL)
        again = self.master(*ports)
        self.put(again, {"key": "new"})
        lines = self.lines_until(tool, lambda line: line.get("object_key") == "new")
        self.assertIn({"signal": "epoch", "epoch": again.epoch}, lines)
        self.assertEqual(self.end_of(tool, signal.SIGINT)[0], 0)

    def test_what_makes_no_sense_is_refused(self):
        self.refused(2, ["--from snapshot", "engine"], "tail", "--profile", "engine", "--from", "snapshot")
        self.refused(2, ["--from then", "now"], "tail", "--from", "then")


class Verify(FollowCase):
    def test_a_store_at_rest_is_ok(self):
        master = self.master()
        self.put(master, *({"key": "k%d" % i, "session": "s%d" % (i % 7)} for i in range(500)), {"key": "a b\\\u00fc\x01"})
        admin = ["--admin", "http://" + master.admin]
        done = self.run_tool("verify", *self.of(master), *admin)
        self.assertEqual((done.returncode, done.stdout), (0, "ok 501 keys\n"), done.stderr)
        self.assertEqual(self.output_of("verify", *self.of(master), "--json"), [{"ok_keys": 501, "last_id": 502}])
        self.store(master, "clear", "--force")
        self.assertEqual(self.output_of("verify", *self.of(master, *admin), "--json")[0]["ok_keys"], 0)

    def test_a_store_that_changes_all_the_time_is_ok(self):
        master = self.master()
        tool = self.start("verify", *self.of(master, "--admin", "http://" + master.admin), "--every", "50ms", "--json")
        self.assertEqual(self.next_line(tool)["ok_keys"], 0)
        for turn in range(4):
            self.put(master, *({"key": "k%d" % (i * (turn + 1) % 997)} for i in range(300)))
            self.store(master, "rm", *("k%d" % (i * (turn + 3) % 997) for i in range(100)), "--force")
            self.assertIn("ok_keys", self.next_line(tool))
        status, = self.output_of("status", "--recovery", master.recovery, "--json")
        self.assertGreater(status["last_id"], 400)
        lines = self.lines_until(tool, lambda line: line["last_id"] == status["last_id"])
        self.assertEqual(lines[-1]["ok_keys"], status["keys"])
        code, out, words = self.end_of(tool, signal.SIGTERM)
        self.assertEqual(code, 0, words)
        self.assertTrue(all("ok_keys" in line for line in rows_of(out)))

    def test_a_master_that_begins_anew_is_ok_again(self):
        ports = ["--kv_events_bind_endpoint=tcp://127.0.0.1:%d" % free_port(),
                 "--kv_events_replay_endpoint=tcp://127.0.0.1:%d" % free_port()]
        master = self.master(*ports)
        self.put(master, *({"key": "old%d" % i} for i in range(20)))
        tool = self.start("verify", *self.of(master), "--every", "20ms", "--json", "--timeout", "60s")
        self.lines_until(tool, lambda line: line["ok_keys"] == 20)
        master.end(signal.SIGKILL)
        again = self.master(*ports)
        self.put(again, *({"key": "new%d" % i} for i in range(7)))
        self.lines_until(tool, lambda line: line["ok_keys"] == 7)
        self.assertEqual(self.end_of(tool, signal.SIGINT)[0], 0)

    SUMMARY = re.compile(r"([0-9]+) gaps .* ([0-9]+) recoveries")

    def follow_through_a_stop(self, master, stream, pass_on):
        """Stops one that verifies while pass_on() writes, lets it go on until it is ok with as many keys as that said:
        gaps and recoveries of which it speaks, and replays and snapshots that the master was asked for."""
        tool = self.start("verify", "--endpoint", stream, "--recovery", master.recovery, "--every", "20ms", "--json",
                          "--timeout", "60s")
        self.assertEqual(self.next_line(tool)["ok_keys"], 0)
        before = json.loads(master.ask("/kv_events/status")[2])
        tool.send_signal(signal.SIGSTOP)
        keys = pass_on()
        tool.send_signal(signal.SIGCONT)
        lines = self.lines_until(tool, lambda line: line.get("ok_keys") == keys)
        self.assertTrue(all("ok_keys" in line for line in lines))
        after = json.loads(master.ask("/kv_events/status")[2])
        code, _, words = self.end_of(tool, signal.SIGINT)
        self.assertEqual(code, 0, words)
        gaps, recoveries = map(int, self.SUMMARY.search(words).groups())
        self.assertGreaterEqual(recoveries, 2)  # it began with one
        return gaps, after["replay_requests"] - before["replay_requests"]

    def test_a_follower_that_was_stopped_and_missed_messages_is_ok_again(self):
        """With a history that has them, and with one that has not."""
        for history in (65536, 16):
            with self.subTest(history=history):
                master = self.master("--kv_events_history=%d" % history, *ANYWHERE)
                host, port = master.events.rsplit("/", 1)[1].split(":")
                stream = Proxy((host, int(port)), 1)
                self.addCleanup(stream.end)

                def pass_on(master=master, stream=stream):
                    stream.policy.storm({"lost": 1})
                    for part in range(4):
                        self.put(master, *({"key": "k%d/%d" % (part, i)} for i in range(500)))
                    self.wait_for(lambda: json.loads(master.ask("/kv_events/status")[2])["queue_depth"] == 0
                                  and stream.policy.story.get("lost", 0) > 16)
                    stream.policy.calm()
                    self.put(master, {"key": "last"})
                    return 2001
                gaps, replays = self.follow_through_a_stop(master, stream.endpoint, pass_on)
                self.assertGreaterEqual(gaps, 1)
                self.assertGreaterEqual(replays, 1)

    @unittest.skipUnless(os.environ.get("MC_SOAK"), "takes a minute: MC_SOAK=1")
    def test_a_million_events_pass_one_that_is_stopped_for_30_s(self):
        """More than every queue on the way holds, so that messages are lost at the publisher's mark."""
        master = self.master("--kv_events_hwm_bytes=1MB", *ANYWHERE)

        def pass_on():
            until = time.monotonic() + 30
            while (json.loads(master.ask("/kv_events/status")[2])["last_event_id"] < 1000000 or
                   time.monotonic() < until):
                self.store(master, "bench", "put", "--size", "1", "--count", "200000", "--batch", "64",
                           "--threads", "2")
            self.put(master, *({"key": "k%d" % i} for i in range(7)))
            return 7
        gaps, replays = self.follow_through_a_stop(master, master.events, pass_on)
        self.assertGreaterEqual(gaps, 1)
        self.assertGreaterEqual(replays, 1)

    def test_nobody_there_is_a_failure_in_time(self):
        nobody = "tcp://127.0.0.1:9"
        self.refused(1, [nobody + ": no answer within 300 ms"], "verify", "--endpoint", nobody, "--recovery", nobody,
                     "--timeout", "300ms")
        master = self.master()
        self.refused(1, [nobody, "nobody publishes there, and %s answers" % master.recovery], "verify", "--endpoint",
                     nobody, "--recovery", master.recovery, "--timeout", "300ms")
        self.refused(1, ["http://127.0.0.1:9/", "connect"], "verify", *self.of(master), "--admin", "http://127.0.0.1:9")

    def tenants(self):
        master = self.master("--enable_multi_tenants", *ANYWHERE)
        for tenant in ("default", "blue", "empty", "r d&?\u00fc"):
            page = query("/api/v1/tenant_quotas", tenant_id=tenant, quota_bytes="4MB")
            self.assertEqual(master.ask(page, method="PUT")[0], 200)
        for tenant, count in (("default", 3), ("blue", 4), ("r d&?\u00fc", 5)):
            self.put(master, *({"key": "k%d" % i} for i in range(count)), {"key": "x\x01"}, tenant=tenant)
        return master

    def test_the_keys_of_all_tenants_are_compared(self):
        master = self.tenants()
        asked = []

        def change(path, status, body):
            asked.append(path)
            return status, body
        front = Front(self, master, change)
        line, = self.output_of("verify", *self.of(master, "--admin", front.url), "--json")
        self.assertEqual(line["ok_keys"], 15)
        self.assertEqual(sorted(asked), sorted(["/api/v1/tenant_quotas"] + [
            query("/get_all_keys", tenant_id=tenant).replace("+", "%20")
            for tenant in ("default", "blue", "empty", "r d&?\u00fc")]))

    def test_a_key_that_is_listed_wrongly_is_told_with_its_tenant(self):
        master = self.tenants()

        def change(path, status, body):
            if path.endswith("=blue"):
                body = b"".join(line for line in body.splitlines(True) if line != b"k1\n")
            return status, body + b"more\n" if path.endswith("=empty") else body
        done = self.refused(1, ["2 differences"], "verify", *self.of(master), "--json", "--admin",
                            Front(self, master, change).url)
        held, = (line["event_id"] for line in self.output_of("snapshot", "--recovery", master.recovery, "--json")
                 if (line.get("tenant_id"), line.get("object_key")) == ("blue", "k1"))
        self.assertEqual(rows_of(done.stdout), [
            {"difference": kind, "tenant_id": tenant, "object_key": key, "medium": None, "held_event_id": number,
             "store_event_id": 0} for kind, tenant, key, number in
            (("unlisted", "blue", "k1", held), ("listed", "empty", "more", 0))])

    def test_differences_that_become_fewer_are_looked_at_until_they_stay(self):
        master = self.tenants()
        for stays in ([], ["k0"]):
            unlisted = [["k0", "k1", "k2"], ["k0", "k1"], ["k0"]] + [stays] * 2

            def change(path, status, body, unlisted=unlisted):
                if path.endswith("=blue"):
                    names = unlisted.pop(0)
                    body = b"".join(line for line in body.splitlines(True) if line.decode().strip() not in names)
                return status, body
            arguments = ["verify", *self.of(master), "--json", "--admin", Front(self, master, change).url]
            if stays:
                done = self.refused(1, ["1 differences"], *arguments)
                self.assertEqual([row["object_key"] for row in rows_of(done.stdout)], stays)
            else:
                self.assertEqual(self.output_of(*arguments)[0]["ok_keys"], 15)
            self.assertEqual(len(unlisted), 1)  # four comparisons

    def test_a_master_that_names_its_tenants_wrongly_is_a_failure(self):
        master = self.tenants()
        for words in (b"", b"{", b"[]", b'{"data":{}}', b'{"data":[{}]}', b'{"data":[{"tenant_id":5}]}', b"x"):
            front = Front(self, master, lambda path, status, body, words=words: (
                status, words if "quotas" in path else body))
            self.refused(1, ["tenant_quotas: no list of tenants"], "verify", *self.of(master), "--admin", front.url)

    def test_a_master_without_tenants_is_compared_and_one_that_cannot_tell_is_a_failure(self):
        master = self.master()
        for status, is_good in ((404, True), (409, True), (403, False), (500, False), (503, False)):
            front = Front(self, master, lambda path, real, body, status=status: (
                (status, b"{}") if "quotas" in path else (real, body)))
            arguments = ["verify", *self.of(master), "--json", "--admin", front.url]
            if is_good:
                self.assertEqual(self.output_of(*arguments)[0]["ok_keys"], 0)
            else:
                self.refused(1, ["tenant_quotas: ", str(status)], *arguments)

    def test_an_engine_has_nothing_to_compare_with(self):
        self.refused(2, ["verify", "engine"], "verify", "--profile", "engine")

    def test_what_differs_is_told_and_fails(self):
        """A store whose second snapshot is not what its first one was, with the same ids."""
        first = [event(3, key="same"), event(4, key="ghost"), event(5, key="tag", session_id="a"), event(2, key="old")]
        second = [event(3, key="same"), event(5, key="tag", session_id="b"), event(4, key="old"),
                  event(1, key="missing", tenant_id="t2")]
        asked = []
        publisher = Publisher()
        self.addCleanup(publisher.close)

        def answer(frames):
            if frames[0] == b"status":
                return [[b"status", packed({"epoch": EPOCH, "tail_seq": 5, "oldest_seq": 1, "last_id": 5, "keys": 4,
                                            "backend_id": "n1"})]]
            if frames[0] != b"snapshot":
                return [[b"", END, b""]]
            asked.append(frames)
            rows = first if len(asked) == 1 else second
            edge = {"epoch": EPOCH, "tail_seq": 5}
            return [[b"snapshot", u64(0), packed({**edge, "first_id": 5})],
                    [b"snapshot", u64(1), message(1, rows)[2]],
                    [b"snapshot", u64(2), packed({**edge, "last_id": 5}), b""]]
        peer = Peer(self, answer)
        done = self.refused(1, ["4 differences", "not even heartbeats"], "verify", "--json", "--endpoint",
                            publisher.endpoint, "--recovery", peer.endpoint)
        self.assertEqual(rows_of(done.stdout), [
            {"difference": kind, "tenant_id": tenant, "object_key": kind, "medium": "cpu", "held_event_id": held,
             "store_event_id": stored} for kind, tenant, held, stored in
            (("missing", "t2", 0, 1), ("ghost", "default", 4, 0), ("old", "default", 2, 4), ("tag", "default", 5, 5))])
        self.assertGreaterEqual(len(asked), 3)


if __name__ == "__main__":
    unittest.main()
