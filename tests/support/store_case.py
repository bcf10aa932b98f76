# SPDX-License-Identifier: Apache-2.0
"""Masters, nodes and mc-store for a test, as processes over loopback, on free ports.

The programs are $MC_MASTER, $MC_STORE (with mooncake_client beside it) and $MC_EVENTS.
"""
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest

STORE = os.environ["MC_STORE"]
LAUNCHED = os.path.join(os.path.dirname(STORE), "mooncake_client")
PATIENCE = float(os.environ.get("MC_FLOW_PATIENCE", "60"))
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
# What a shell of somebody who uses such stores may have set must not be found by chance.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MOONCAKE_")}


def rows_of(text):
    """JSON lines; only a line feed ends one, whatever else Unicode calls an end of line."""
    return [json.loads(line) for line in text.split("\n") if line]


def line_of(process, patience=PATIENCE):
    """The next line of its stdout; fails when none comes."""
    ready, _, _ = select.select([process.stdout], [], [], patience)
    assert ready, "no line within %g s" % patience
    return process.stdout.readline()


class Process:
    """A program that says `ready ...` and runs until it is told to end."""

    def __init__(self, command, environment=ENVIRONMENT):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.line = line_of(self.process)
        self.said = dict(re.findall(r"(\w+)=(\S+)", self.line))

    def end(self, number=signal.SIGTERM):
        """Its exit code and words, after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, words = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, words

    def reap(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class StoreCase(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.master = None      # host:port

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as out:
            out.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    # ---- processes

    def begin(self, *command, environment=ENVIRONMENT):
        process = Process(command, environment)
        self.addCleanup(process.reap)
        return process

    def start_master(self, *flags):
        master = self.begin(os.environ["MC_MASTER"], "--rpc_address=127.0.0.1", "--rpc_port=0", "--metrics_port=0",
                            *flags)
        assert master.line.startswith("ready "), master.line + master.process.communicate()[1]
        self.master = master.said["rpc"]
        self.admin = master.said["admin"]
        return master

    def start_node(self, size="64MB", *args):
        node = self.begin(STORE, "serve", "--master", self.master, "--segment", size, *args)
        assert node.line.startswith("ready "), node.line + node.process.communicate()[1]
        return node

    def start_store(self, size="64MB", *flags):
        """A master and a node of one segment."""
        self.start_master(*flags)
        return self.start_node(size)

    # ---- mc-store

    def run_tool(self, *args, content=None, environment=ENVIRONMENT):
        """Runs to the end; stdout and stderr as bytes."""
        return subprocess.run([STORE, *args], input=content, capture_output=True, timeout=PATIENCE, env=environment,
                              stdin=subprocess.DEVNULL if content is None else None)

    def tool(self, name, *args, code=0, **more):
        """A subcommand on this test's master, which must end so; its stdout as bytes."""
        done = self.run_tool(name, "--master", self.master, *args, **more)
        self.assertEqual(done.returncode, code, (name, args, done.stdout[:500], done.stderr))
        if code == 0:
            self.assertEqual(done.stderr, b"", (name, args))
        return done.stdout

    def lines(self, name, *args, **more):
        return self.tool(name, *args, **more).decode().splitlines()

    def rows(self, name, *args, **more):
        return rows_of(self.tool(name, "--json", *args, **more).decode())

    def put(self, key, content, *args):
        self.assertEqual(self.tool("put", key, "-", *args, content=content), b"")

    def refused(self, code, words, *args, **more):
        """The call ends with this code, and says these words on stderr."""
        done = self.run_tool(*args, **more)
        self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        for word in words:
            self.assertIn(word.encode() if isinstance(word, str) else word, done.stderr)
        return done

    def failed(self, words, name, *args, **more):
        return self.refused(1, words, name, "--master", self.master, *args, **more)


def until(claim, patience=PATIENCE):
    """Waits for something that another process does; False after the patience."""
    end = time.monotonic() + patience
    while not claim():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
