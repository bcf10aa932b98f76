#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other stores failed at when their processes come, go and come back: docs/known_faults.md.

MC_SOAK=1 waits longer.
"""
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from store_case import StoreCase, until  # noqa: E402

TTL_S = 3
NODES = 8
IS_SOAK = bool(os.environ.get("MC_SOAK"))


class Faults(StoreCase):
    def begin_master(self, *flags):
        return self.start_master("--client_ttl=%d" % TTL_S, "--default_kv_lease_ttl=500ms", *flags)

    def segments(self, master):
        with urllib.request.urlopen("http://%s/get_all_segments" % master.said["admin"], timeout=10) as answer:
            return len(set(answer.read().split()))

    def test_eight_nodes_that_begin_at_once_serve_at_the_first_try_and_stay(self):
        master = self.begin_master()

        def serve(number):
            self.start_node("16MB")
            content = b"%d" % number * 5000
            self.put("k%d" % number, content)
            return self.tool("get", "k%d" % number) == content

        with concurrent.futures.ThreadPoolExecutor(NODES) as pool:
            self.assertEqual(list(pool.map(serve, range(NODES))), [True] * NODES)
        begun = time.monotonic()
        while time.monotonic() - begun < TTL_S * (3 if IS_SOAK else 1) + 1:
            self.assertEqual(self.segments(master), NODES)
            time.sleep(0.2)
        for number in range(NODES):
            self.assertEqual(self.tool("get", "k%d" % number), b"%d" % number * 5000)

    def test_a_killed_node_costs_puts_little_and_only_for_a_while(self):
        master = self.begin_master()
        nodes = [self.start_node("16MB"), self.start_node("16MB")]
        nodes[0].end(signal.SIGKILL)
        codes = []
        for number in range(12):
            begun = time.monotonic()
            done = self.run_tool("put", "--master", self.master, "p%d" % number, "-", content=b"x" * 5000)
            self.assertLess(time.monotonic() - begun, 10, done.stderr)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            codes.append(done.returncode)
        self.assertIn(0, codes)  # the other node takes some or all
        self.assertTrue(until(lambda: self.segments(master) == 1))
        for number in range(12):
            self.put("q%d" % number, b"y" * 5000)
            self.assertEqual(self.tool("get", "q%d" % number), b"y" * 5000)

    def test_a_killed_node_comes_back_at_once_and_empty(self):
        master = self.begin_master()
        node = self.start_node("16MB")
        self.put("old", b"o" * 5000)
        port = node.said["endpoint"].rsplit(":", 1)[1]
        node.end(signal.SIGKILL)
        begun = time.monotonic()
        self.start_node("16MB", "--port", port)
        self.put("new", b"n" * 5000)
        self.assertEqual(self.tool("get", "new"), b"n" * 5000)
        self.assertLess(time.monotonic() - begun, 30)
        self.assertTrue(until(lambda: self.lines("exist", "old") == ["old 0"]))
        self.failed([], "get", "old")
        self.assertEqual(self.segments(master), 1)

    def test_a_master_starts_where_no_name_can_be_looked_up(self):
        if not shutil.which("unshare"):
            self.skipTest("no unshare")
        empty = self.write("empty", "")
        ways = "unshare -m".split() if os.geteuid() == 0 else "unshare -rm".split()
        mounts = " && ".join("mount --bind %s %s" % (empty, file) for file in ("/etc/hosts", "/etc/resolv.conf"))
        if subprocess.run([*ways, "sh", "-c", mounts], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mounts of our own here")
        master = self.begin(*ways, "sh", "-c", mounts + ' && exec "$0" "$@"', os.environ["MC_MASTER"],
                            "--rpc_address=0.0.0.0", "--rpc_port=0", "--metrics_host=0.0.0.0", "--metrics_port=0")
        self.assertTrue(master.line.startswith("ready "), master.line)
        self.master = re.sub(r"^0\.0\.0\.0", "127.0.0.1", master.said["rpc"])
        self.start_node("16MB")
        self.put("k", b"v" * 100)
        self.assertEqual(self.tool("get", "k"), b"v" * 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
