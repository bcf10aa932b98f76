#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The three programs of the README build as they stand there, and do what it says together."""
import os
import re
import socket
import subprocess
import tempfile
import unittest

ROOT = os.environ["MC_SOURCE"]
BUILD = os.environ["MC_BUILD"]
PATIENCE = 60
FOLDERS = ("base", "schema", "events", "store", "subscriber")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Readme(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def build(self, name, text):
        """As with pkg-config, from the build folder; the programs are users', so no flags of ours."""
        source, program = (os.path.join(self.folder.name, name + end) for end in (".c", ""))
        with open(source, "w") as out:
            out.write(text)
        libraries = ["-lmckv"] if name == "write" else ["-lmckv-subscriber"]
        done = subprocess.run(
            [os.environ.get("MC_CC", "cc"), "-Wall", "-Wextra", "-Werror", "-o", program, source,
             *["-I" + os.path.join(ROOT, f) for f in FOLDERS], "-L" + BUILD, "-Wl,-rpath," + BUILD, *libraries,
             "-lmckv-base"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        return program

    def start(self, program):
        process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_write_follow_and_ask(self):
        with open(os.path.join(ROOT, "README.md")) as page:
            text = page.read()
        blocks = re.findall(r"```c\n(.*?)```", text, re.S)
        self.assertEqual(len(blocks), 3)
        port = str(free_port())
        write, follow, ask = (self.build(name, block.replace("5557", port))
                              for name, block in zip(("write", "follow", "ask"), blocks))
        follower = self.start(follow)
        writer = self.start(write)
        # The first event is held back until somebody has subscribed.
        self.assertEqual([follower.stdout.readline() for _ in range(2)], ["signal: epoch\n", "cleared \n"])
        self.put(writer)
        self.assertEqual(follower.stdout.readline(), "stored 42\n")
        follower.kill()

        # It says nothing until it knows, so it may have come too late for one writer; not for the next.
        asker = self.start(ask)
        for _ in range(10):
            self.put(self.start(write))
            try:
                self.assertEqual(asker.wait(2), 0)
                break
            except subprocess.TimeoutExpired:
                continue
        self.assertEqual(asker.stdout.read(), "1 of 3 leading blocks wait in the store\n")

    def put(self, writer):
        writer.stdin.write("\n")
        writer.stdin.flush()
        self.assertEqual(writer.stdout.read(), "put: ok\n")
        self.assertEqual(writer.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
