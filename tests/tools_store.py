#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mc-store on a master and nodes that are processes of their own."""
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from store_case import ENVIRONMENT, INTERRUPTS, LAUNCHED, PATIENCE, STORE, StoreCase, until  # noqa: E402

ODD_KEYS = {        # as it is typed: as it is shown
    "a b": "a b", "tab\there": "tab\\x09here", "line\nfeed": "line\\x0Afeed", "back\\slash": "back\\x5Cslash",
    "\x1b[31mred": "\\x1B[31mred", "\u00e9\u4e2d\U0001f600": "\u00e9\u4e2d\U0001f600", "c1\u0085": "c1\\xC2\\x85",
    "\x7f": "\\x7F", "--dashes": "--dashes", "x" * 4096: "x" * 4096, '"quotes"': '"quotes"',
}


def noise(count, seed=1):
    return random.Random(seed).randbytes(count)


class Objects(StoreCase):
    def setUp(self):
        super().setUp()
        self.start_store()

    def test_bytes_come_back_as_they_were_stored(self):
        for size in (1, 2, 4095, 4096, 4097, 1 << 20, (20 << 20) + 13):
            content = noise(size, size)
            key = "k%d" % size
            self.tool("put", key, self.write("in", content))
            self.assertEqual(self.tool("get", key), content)
            self.tool("get", key, "--output", self.path("out"))
            self.assertEqual(self.read("out"), content)

    def test_stdin_is_read_to_its_end(self):
        for args in ([], ["-"]):
            content = noise(3 << 20, len(args))
            self.assertEqual(self.tool("put", "k%d" % len(args), *args, content=content), b"")
            self.assertEqual(self.tool("get", "k%d" % len(args)), content)

    def test_what_is_there_stays_unless_replaced(self):
        self.put("k", b"first")
        self.put("k", b"second")
        self.assertEqual(self.tool("get", "k"), b"first")
        self.put("k", b"third, and longer", "--upsert")
        self.assertEqual(self.tool("get", "k"), b"third, and longer")

    def test_put_refuses_what_cannot_be(self):
        self.failed(["put", "at least one byte", "(-600)"], "put", "k", self.write("empty", ""))
        self.failed(["no/such", "No such file"], "put", "k", self.path("no/such"))
        self.failed(["directory"], "put", "k", self.folder.name)
        self.failed(["invalid key (-400)"], "put", "x" * 4097, self.write("f", "x"))
        self.failed(["invalid key (-400)"], "put", b"\xff\xfe", self.write("f", "x"))
        self.failed(["(-600)"], "put", "", self.write("f", "x"))
        self.failed(["(-600)"], "put", "k", self.write("f", "x"), "--session", "s" * 257)
        self.failed(["(-600)"], "put", "k", self.write("f", "x"), "--group", "g" * 513)
        self.failed(["no space left (-200)"], "put", "k", self.write("big", b"x" * (65 << 20)))
        self.assertEqual(self.tool("ls"), b"")

    def test_a_failed_get_leaves_no_file(self):
        self.failed(["mc-store: get: k: object not found (-704)"], "get", "k", "--output", self.path("out"))
        self.assertEqual(os.listdir(self.folder.name), [])
        self.put("k", b"content")
        self.failed(["no/such"], "get", "k", "--output", self.path("no/such"))
        self.write("out", "old")
        self.tool("get", "k", "--output", self.path("out"))
        self.assertEqual(self.read("out"), b"content")
        self.assertEqual(os.listdir(self.folder.name), ["out"])
        self.assertEqual(self.rows("get", "k", "--output", self.path("out")), [{"key": "k", "size": 7}])
        self.tool("get", "k", "--output", "/dev/null")

    def test_exist_and_probe_answer_in_order(self):
        self.put("a", b"x" * 100, "--session", "s 1")
        self.put("b", b"y")
        self.assertEqual(self.lines("exist", "b", "none", "a", "a"), ["b 1", "none 0", "a 1", "a 1"])
        self.assertEqual(self.rows("exist", "a", "none"),
                         [{"key": "a", "exists": True}, {"key": "none", "exists": False}])
        self.assertEqual(self.lines("probe", "a", "none", "b"),
                         ["a readable 100 cpu s 1", "none absent - - -", "b readable 1 cpu -"])
        rows = self.rows("probe", "a", "none")
        self.assertEqual({name: rows[0][name] for name in ("key", "state", "size", "media", "session_id")},
                         {"key": "a", "state": "readable", "size": 100, "media": "cpu", "session_id": "s 1"})
        self.assertGreater(rows[0]["version"], 0)
        self.assertEqual(rows[1], {"key": "none", "state": "absent"})
        done = self.failed(["invalid key (-400)"], "exist", "a", "x" * 4097)
        self.assertEqual(done.stdout.decode(), "a 1\n%s -400\n" % ("x" * 4097))

    def test_ls_is_sorted_and_safe_to_show(self):
        for i, key in enumerate(ODD_KEYS):
            self.tool("put", "--session=s\t%d" % i, "--", key, content=b"x" * (i + 1))
        shown = self.tool("ls").decode()
        keys = sorted(ODD_KEYS, key=str.encode)
        order = list(ODD_KEYS)
        self.assertEqual(shown, "".join("%s\t%d\tcpu\ts\\x09%d\n" % (ODD_KEYS[k], order.index(k) + 1, order.index(k))
                                        for k in keys))
        rows = self.rows("ls")
        self.assertEqual([(r["key"], r["session_id"], r["size"], r["media"], r["tenant_id"], r["group_id"])
                          for r in rows],
                         [(k, "s\t%d" % order.index(k), order.index(k) + 1, "cpu", "default", None) for k in keys])
        for key in ODD_KEYS:
            self.assertEqual(self.tool("get", "--", key), b"x" * (order.index(key) + 1))

    def test_ls_lists_thousands(self):
        names = ["key-%05d" % i for i in range(3000)]
        rows = [{"key": name, "size": 64, "session": "s%d" % (i % 7), "group": "g"} for i, name in enumerate(names)]
        random.Random(5).shuffle(rows)
        listing = self.write("list", "\n".join(map(json.dumps, rows)) + "\n\n")
        self.assertEqual(self.lines("put-many", listing), ["%s 0" % row["key"] for row in rows])
        self.assertEqual([(r["key"], r["session_id"], r["group_id"]) for r in self.rows("ls")],
                         [("key-%05d" % i, "s%d" % (i % 7), "g") for i in range(3000)])

    def test_put_many_says_a_code_for_each(self):
        file = self.write("f", noise(5000))
        rows = [{"key": "a", "file": file, "session": "s1"}, {"key": "b", "size": "2KB", "group": "g"},
                {"key": "x" * 4097, "size": 1}, {"key": "nul\0", "size": 1}, {"key": "a", "size": 9}]
        listing = "".join(json.dumps(row) + "\n" for row in rows).encode()
        done = self.failed(["2 of 5 failed"], "put-many", "-", content=listing)
        self.assertEqual(done.stdout.decode(), "a 0\nb 0\n%s -400\nnul\\x00 -400\na 0\n" % ("x" * 4097))
        self.assertEqual(self.tool("get", "a"), noise(5000))
        self.assertEqual(len(self.tool("get", "b")), 2048)
        self.assertEqual([(r["key"], r["session_id"], r["group_id"]) for r in self.rows("ls")],
                         [("a", "s1", None), ("b", None, "g")])
        self.assertEqual(self.rows("put-many", "-", content=b'{"key":"c","size":1}'), [{"key": "c", "code": 0}])
        self.put("a", b"x")
        self.tool("put-many", "-", "--upsert", content=b'{"key":"a","size":7}')
        self.assertEqual(len(self.tool("get", "a")), 7)

    def test_put_many_names_the_line_that_it_cannot_read(self):
        good = '{"key":"k","size":1}\n'
        for bad, word in (("{", "early"), ("[]", "object"), ('{"size":1}', "key"), ('{"key":1,"size":1}', "key"),
                          ('{"key":"a"}', "file and size"), ('{"key":"a","size":1,"file":"f"}', "file and size"),
                          ('{"key":"a","size":"x"}', "size"), ('{"key":"a","size":0}', "size"),
                          ('{"key":"a","size":-1}', "size"), ('{"key":"a","size":1,"bogus":1}', "bogus"),
                          ('{"key":"a","size":1,"session":5}', "session"), ('{"key":"a","size":1} {}', "unexpected"),
                          ('{"key":"a","file":"/no/such"}', "/no/such")):
            listing = self.write("list", good + bad + "\n")
            words = [word] if "no/such" in bad else [word, listing + ":2:"]
            done = self.failed(words, "put-many", listing)
            self.assertEqual(done.stdout, b"k 0\n")
        self.failed(["no/such", "No such file"], "put-many", self.path("no/such"))

    def test_rm_says_a_code_for_each(self):
        for key in ("a", "b", "c1", "c2"):
            self.put(key, b"x")
        done = self.failed(["object not found (-704)"], "rm", "a", "none", "a")
        self.assertEqual(done.stdout, b"a 0\nnone -704\na -704\n")
        self.tool("get", "b")
        done = self.failed(["b: object has a lease (-706)"], "rm", "b")
        self.assertEqual(done.stdout, b"b -706\n")
        self.assertEqual(self.lines("rm", "--regex", "b"), ["0"])
        self.assertEqual(self.rows("rm", "b", "--force"), [{"key": "b", "code": 0}])
        self.assertEqual(self.lines("rm", "--regex", "^c[0-9]$"), ["2"])
        self.assertEqual(self.tool("ls"), b"")
        self.failed(["(-600)", "("], "rm", "--regex", "(")

    def test_clear_removes_all_but_what_is_leased(self):
        for key in ("a", "b", "c"):
            self.put(key, b"x")
        self.tool("get", "b")
        self.assertEqual(self.lines("clear"), ["2"])
        self.assertEqual(self.rows("clear", "--force"), [{"removed": 1}])
        self.assertEqual(self.tool("ls"), b"")

    def test_stat_counts(self):
        self.put("a", b"x" * 5000)
        self.tool("get", "a")
        row = self.rows("stat")[0]
        self.assertEqual((row["health"], row["capacity_bytes"], row["objects"], row["attempts"], row["puts"]),
                         (0, 64 << 20, 1, 0, 1))
        self.assertGreaterEqual(row["allocated_bytes"], 5000)
        self.assertFalse(row["events"])
        table = self.tool("stat").decode()
        self.assertRegex(table, r"(?m)^capacity +64 MB$")
        self.assertRegex(table, r"(?m)^objects +1$")

    def test_a_tenant_that_is_not_accepted_is_refused(self):
        self.failed(["(-1011)"], "ls", "--tenant", "t1")
        self.tool("ls", "--tenant", "default")

    def test_bench_leaves_nothing_behind(self):
        self.put("mine", b"x")
        for load in ("put", "get", "exist"):
            row = self.rows("bench", load, "--size=16KB", "--count=100", "--batch=7", "--threads=4")[0]
            self.assertEqual((row["objects"], row["failed"]), (100, 0))
            self.assertEqual(self.lines("ls"), ["mine\t1\tcpu\t-"])

    def test_many_at_once_do_not_disturb_each_other(self):
        def round_trip(i):
            content = noise(100000 + i, i)
            self.put("k%d" % i, content)
            return self.tool("get", "k%d" % i) == content
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(round_trip, range(24))), [True] * 24)

    def test_transports_are_as_asked(self):
        content = noise(1 << 20)
        for transport in ("auto", "tcp", "shm"):
            self.put(transport, content, "--transport", transport)
            self.assertEqual(self.tool("get", transport, "--transport", transport), content)
        self.failed(["(-1012)"], "ls", "--transport", "rdma")


class Nodes(StoreCase):
    def setUp(self):
        super().setUp()
        self.start_master()

    def test_a_node_that_is_told_to_end_takes_its_memory_back_at_once(self):
        for number in INTERRUPTS:
            node = self.start_node("16MB")
            self.assertRegex(node.line, r"^ready segment=\d+ endpoint=127\.0\.0\.1:\d+\n$")
            self.put("k", b"x")
            self.assertEqual(self.lines("exist", "k"), ["k 1"])
            self.assertEqual(node.end(number), (0, ""))
            self.assertEqual(self.lines("exist", "k"), ["k 0"])
            self.assertEqual(self.rows("stat")[0]["capacity_bytes"], 0)

    def test_a_node_says_what_the_master_calls_its_segment(self):
        nodes = [self.start_node("1MB"), self.start_node("2MB")]
        told = {int(node.said["segment"]): node.said["endpoint"] for node in nodes}
        with urllib.request.urlopen("http://%s/get_segments_detail" % self.admin, timeout=PATIENCE) as answer:
            segments = json.load(answer)["segments"]
        self.assertEqual(told, {segment["id"]: segment["segment_name"] for segment in segments})

    def test_copies_stand_on_distinct_nodes(self):
        nodes = [self.start_node("16MB"), self.start_node("16MB")]
        self.assertEqual(len({node.said["endpoint"] for node in nodes}), 2)
        content = noise(1 << 20)
        self.put("k", content, "--replicas", "2")
        self.assertEqual(nodes[0].end(), (0, ""))
        self.assertEqual(self.tool("get", "k"), content)
        self.assertEqual(nodes[1].end(), (0, ""))
        self.failed(["(-704)"], "get", "k")

    def test_a_node_whose_port_is_taken_says_so(self):
        node = self.start_node("1MB")
        port = node.said["endpoint"].rsplit(":", 1)[1]
        self.refused(1, ["--port", port, "taken"], "serve", "--master", self.master, "--segment=1MB", "--port", port,
                     "--timeout=2s")
        self.refused(1, ["--host 127.0.0.1:" + port, "taken"], "serve", "--master", self.master, "--segment=1MB",
                     "--host", "127.0.0.1:" + port, "--timeout=2s")

    def test_a_node_serves_pages_where_asked(self):
        node = self.start_node("1MB", "--http_port=0")
        self.assertGreater(int(node.said["http"]), 0)

    def test_the_second_name_lends_memory_as_launchers_ask(self):
        node = self.begin(LAUNCHED, "--master_server_address=" + self.master, "-global_segment_size", "32 MB",
                          "--host=0.0.0.0", "--noenable_offload", "--threads", "2")
        self.assertRegex(node.line, r"^ready segment=\d+ endpoint=127\.0\.0\.1:\d+\n$")
        self.assertEqual(self.rows("stat")[0]["capacity_bytes"], 32 << 20)
        self.assertEqual(node.end()[0], 0)

    def test_settings_of_launchers_are_taken(self):
        environment = dict(ENVIRONMENT, MOONCAKE_MASTER=self.master, MOONCAKE_GLOBAL_SEGMENT_SIZE="4mb",
                           MOONCAKE_LOCAL_HOSTNAME="localhost", MOONCAKE_PROTOCOL="tcp")
        node = self.begin(STORE, "serve", environment=environment)
        self.assertRegex(node.line, r"^ready segment=\d+ endpoint=localhost:\d+\n$")
        self.assertEqual(self.rows("stat")[0]["capacity_bytes"], 4 << 20)
        config = self.write("c.json", json.dumps({"global_segment_size": 8 << 20, "local_hostname": "127.0.0.1"}))
        second = self.begin(STORE, "serve", environment=dict(environment, MOONCAKE_CONFIG_PATH=config))
        self.assertIn("endpoint=127.0.0.1:", second.line)
        self.assertEqual(self.rows("stat")[0]["capacity_bytes"], 12 << 20)

    def test_a_node_tells_when_its_master_goes(self):
        master = self.begin(os.environ["MC_MASTER"], "--rpc_address=127.0.0.1", "--rpc_port=0", "--metrics_port=0")
        self.master = master.said["rpc"]
        node = self.start_node("1MB")
        master.reap()
        line = node.process.stderr.readline()
        while "cannot be reached" not in line:
            self.assertNotEqual(line, "")
            line = node.process.stderr.readline()
        self.assertEqual(node.end()[0], 0)


    def test_a_node_lends_its_memory_to_the_next_master(self):
        first = self.begin(os.environ["MC_MASTER"], "--rpc_address=127.0.0.1", "--rpc_port=0", "--metrics_port=0")
        self.master = first.said["rpc"]
        node = self.start_node("4MB")
        self.put("k", b"of the first")
        self.assertEqual(first.end()[0], 0)
        second = self.begin(os.environ["MC_MASTER"], "--rpc_address=127.0.0.1", "--metrics_port=0",
                            "--rpc_port=" + self.master.split(":")[1])
        self.assertEqual(second.said["rpc"], self.master)
        self.assertTrue(until(lambda: self.rows("stat")[0]["capacity_bytes"] == 4 << 20))
        self.failed(["(-704)"], "get", "k")
        self.put("k", b"of the second")
        self.assertEqual(self.tool("get", "k"), b"of the second")
        self.assertEqual(node.end()[0], 0)
        self.assertEqual(second.end()[0], 0)


class Events(StoreCase):
    def test_ls_is_what_the_events_say(self):
        self.start_store("64MB", "--enable_kv_events", "--kv_events_bind_endpoint=tcp://127.0.0.1:0",
                         "--kv_events_backend_id=n1")
        endpoint = self.rows("stat")[0]["endpoint"]
        path = self.path("tail")
        with open(path, "w") as out:
            tail = subprocess.Popen([os.environ["MC_EVENTS"], "tail", "--json", "--endpoint", endpoint], stdout=out,
                                    stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (tail.kill(), tail.wait()))
        self.assertTrue(until(lambda: self.rows("stat")[0]["subscribers"] > 0))
        listing = "".join(json.dumps({"key": "k%d" % i, "size": 100, "session": "s%d" % (i % 3)}) + "\n"
                          for i in range(500)).encode()
        self.tool("put-many", "-", content=listing)
        self.tool("rm", "--regex", "7$")
        self.put("k1", b"new", "--upsert", "--session", "other")
        last = self.rows("stat")[0]["last_event_id"]

        def events():
            with open(path) as file:
                return [json.loads(line) for line in file.read().split("\n")[:-1] if '"event_type"' in line]
        self.assertTrue(until(lambda: any(e["event_id"] == last for e in events())))
        held = {}
        for e in events():
            if e["event_type"] == "stored":
                held[e["object_key"]] = (e["medium"], e["session_id"])
            elif e["event_type"] == "removed":
                del held[e["object_key"]]
        lines = ["%s\t%s\t%s" % (key, *held[key]) for key in sorted(held, key=str.encode)]
        shown = [line.split("\t") for line in self.lines("ls")]
        self.assertEqual(["%s\t%s\t%s" % (key, media, session) for key, _, media, session in shown], lines)
        self.assertEqual(len(lines), 450)


if __name__ == "__main__":
    unittest.main()
