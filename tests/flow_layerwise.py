#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layerwise example: what one process saved, another loads, and no byte may differ."""
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from store_case import ENVIRONMENT, PATIENCE, STORE, StoreCase  # noqa: E402

LAYERWISE = os.path.join(os.environ["MC_EXAMPLES"], "layerwise")
SCRIPT = os.path.join(os.environ["MC_SOURCE"], "examples", "layerwise.sh")
LAYERS, BLOCKS, PAGE = 8, 16, 65536
LINE = r"^%s layer (\d): 16 blocks, 1048576 bytes in \d+\.\d{3} ms, \d+\.\d\d GB/s$"


class Layerwise(StoreCase):
    def layerwise(self, *args):
        done = subprocess.run([LAYERWISE, *args], capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def assert_layers(self, word, out):
        self.assertEqual(re.findall(LINE % word, out, re.M), [str(layer) for layer in range(LAYERS)])

    def stored(self):
        return self.rows("ls")

    def saved(self):
        self.start_store("32MB")
        code, out, words = self.layerwise("save", self.master)
        self.assertEqual((code, words), (0, ""))
        self.assert_layers("saved", out)

    def test_what_was_saved_is_loaded(self):
        self.saved()
        self.assertEqual([(row["key"], row["size"], row["session_id"]) for row in self.stored()],
                         [("block-%02d" % block, LAYERS * PAGE, "agent-7") for block in range(BLOCKS)])
        code, out, words = self.layerwise("load", self.master)
        self.assertEqual((code, words), (0, ""))
        self.assert_layers("loaded", out)
        self.assertIn("all bytes as saved, 16 blocks of session agent-7\n", out)

    def test_one_byte_that_differs_is_a_failure(self):
        self.saved()
        content = bytearray(self.tool("get", "block-09"))
        content[5 * PAGE + 40000] ^= 1
        self.tool("put", "block-09", self.write("changed", bytes(content)), "--upsert", "--session", "agent-7")
        code, out, words = self.layerwise("load", self.master)
        self.assertEqual((code, words), (1, "layerwise: layer 5 differs\n"))
        self.assertNotIn("all bytes", out)

    def test_another_session_is_a_failure(self):
        self.saved()
        content = self.tool("get", "block-15")
        self.tool("put", "block-15", self.write("same", content), "--upsert", "--session", "agent-8")
        self.assertEqual(self.layerwise("load", self.master)[::2], (1, "layerwise: key 15: not of agent-7\n"))

    def test_what_is_missing_is_named(self):
        self.saved()
        self.tool("rm", "--force", "block-03")
        code, _, words = self.layerwise("load", self.master)
        self.assertEqual(code, 1)
        self.assertIn("layerwise: key 3: open: ", words)
        self.assertIn("(-704)", words)

    def test_without_room_nothing_is_left(self):
        self.start_store("4MB")
        code, _, words = self.layerwise("save", self.master)
        self.assertEqual(code, 1)
        self.assertIn("(-200)", words)
        self.assertEqual(self.stored(), [])
        self.assertEqual(self.rows("stat")[0]["allocated_bytes"], 0)

    def test_pages_are_shared_by_keys(self):
        self.start_store("4MB")
        code, out, words = self.layerwise("pages", self.master)
        self.assertEqual((code, out, words), (0, "by key: 2 keys, 4 layers of 1024 bytes as saved\n", ""))
        content = b"".join(bytes([layer + 1]) * 1024 for layer in range(4))
        for key in ("block0", "block1"):
            self.assertEqual(self.tool("get", key), content)

    def test_wrong_use_is_said(self):
        for args in ([], ["save"], ["bogus", "127.0.0.1:1"], ["save", "127.0.0.1:1", "more"]):
            code, _, words = self.layerwise(*args)
            self.assertEqual((code, words[:6]), (2, "usage:"))

    # ---- the script

    def script(self, *args):
        return subprocess.run([SCRIPT, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=PATIENCE, env=dict(ENVIRONMENT, TMPDIR=self.folder.name))

    def test_the_script_runs_all_and_leaves_nothing_behind(self):
        done = self.script("--no-build")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_layers("saved", done.stdout)
        self.assert_layers("loaded", done.stdout)
        self.assertIn("all bytes as saved", done.stdout)
        self.assertIn("by key: 2 keys", done.stdout)
        self.assertEqual(os.listdir(self.folder.name), [])
        master = re.search(r"^master (\S+), nodes \S+ \S+$", done.stdout, re.M)[1]
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % process, "rb") as command:
                    self.assertNotIn(master.encode(), command.read())
            except OSError:
                continue        # it has ended meanwhile

    def test_the_script_says_what_is_wrong(self):
        done = self.script("--bogus")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--bogus", done.stderr)
        done = self.script("--help")
        self.assertEqual((done.returncode, done.stdout[:6]), (0, "usage:"))


if __name__ == "__main__":
    unittest.main()
