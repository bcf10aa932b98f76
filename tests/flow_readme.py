#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The three programs of the README build as they stand there, and do what it says together."""
import os
import re
import select
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = os.environ["MC_SOURCE"]
BUILD = os.environ["MC_BUILD"]
PATIENCE = 60
FOLDERS = ("base", "schema", "transfer", "events", "store", "subscriber")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_connections(port, count):
    """Until so many are established with the one who listens there, for 5 s at most."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        with open("/proc/net/tcp") as table:
            rows = [line.split() for line in table]
        if sum(row[1].endswith(":%04X" % port) and row[3] == "01" for row in rows) >= count:
            return
        time.sleep(0.01)


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
        # Connected is not yet subscribed: a round of the writer may come too early for one of them.
        follower, asker = self.start(follow), self.start(ask)
        said = b""
        for _ in range(20):
            writer = self.start(write)
            wait_for_connections(int(port), 2 if asker.poll() is None else 1)
            self.put(writer)
            while not said.endswith(b"stored 42\n") and select.select([follower.stdout], [], [], 1)[0]:
                said += os.read(follower.stdout.fileno(), 4096)
            if said.endswith(b"stored 42\n") and asker.poll() is not None:
                break
        lines = said.decode().splitlines(True)
        self.assertEqual(lines[-1], "stored 42\n")
        self.assertEqual(lines[0], "signal: epoch\n")
        self.assertLessEqual(set(lines), {"signal: epoch\n", "signal: stale\n", "cleared \n", "stored 42\n"})
        self.assertEqual(asker.wait(PATIENCE), 0)
        self.assertEqual(asker.stdout.read(), "1 of 3 leading blocks wait in the store\n")

    def put(self, writer):
        writer.stdin.write("\n")
        writer.stdin.flush()
        self.assertEqual(writer.stdout.read(), "put: ok\n")
        self.assertEqual(writer.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
