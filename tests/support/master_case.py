# SPDX-License-Identifier: Apache-2.0
"""Runs mc-master for a test. The binary is $MC_MASTER; ports are free ones."""
import http.client
import os
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.parse

MASTER = os.environ["MC_MASTER"]
PATIENCE = 60
FREE_PORTS = ["--rpc_port=0", "--metrics_port=0", "--http_metadata_server_port=0"]
READY = re.compile(r"^ready rpc=(\S+):(\d+) admin=(\S+):(\d+) metadata=(-|\S+:\d+) events=(\S+) recovery=(\S+) "
                   r"epoch=([0-9a-f]{16})\n$")


class Master:
    """A running mc-master; ready is its line."""

    def __init__(self, case, *flags, ports=FREE_PORTS):
        self.words = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([MASTER, *ports, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.words, text=True)
        case.addCleanup(self.reap)
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        self.ready = self.process.stdout.readline() if readable else ""
        match = READY.match(self.ready)
        case.assertIsNotNone(match, (self.ready, self.said()))
        self.rpc = "127.0.0.1:" + match.group(2)
        self.admin = "127.0.0.1:" + match.group(4)
        self.metadata = match.group(5).replace("0.0.0.0", "127.0.0.1")
        self.events = match.group(6)
        self.recovery = match.group(7)
        self.epoch = match.group(8)

    def said(self):
        self.words.seek(0)
        return self.words.read()

    def reap(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.stdout.close()
        self.process.wait()
        self.words.close()

    def end(self, how=signal.SIGTERM):
        """Sends a signal: exit code and seconds until the end."""
        began = time.monotonic()
        self.process.send_signal(how)
        code = self.process.wait(timeout=PATIENCE)
        return code, time.monotonic() - began

    def ask(self, path, method="GET", body=None, host=None):
        """One request: status, content type, body as bytes."""
        connection = http.client.HTTPConnection(host or self.admin, timeout=PATIENCE)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read()
        finally:
            connection.close()


def query(path, **args):
    return path + "?" + urllib.parse.urlencode(args)


class MasterCase(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w") as out:
            out.write(text)
        return self.path(name)

    def start(self, *flags, **more):
        return Master(self, *flags, **more)

    def run_master(self, *flags):
        """Runs to the end, which must come by itself."""
        return subprocess.run([MASTER, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE)

    def refused(self, code, words, *flags):
        done = self.run_master(*flags)
        self.assertEqual(done.returncode, code, (flags, done.stdout, done.stderr))
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        return done
