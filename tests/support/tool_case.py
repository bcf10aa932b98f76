# SPDX-License-Identifier: Apache-2.0
"""Runs mc-events for a test. The binary is $MC_EVENTS, the vectors $MC_VECTORS."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

BINARY = os.environ["MC_EVENTS"]
VECTORS = os.environ["MC_VECTORS"]
PATIENCE = 60


def rows_of(text):
    """JSON lines; only a line feed ends one, whatever else Unicode calls an end of line."""
    return [json.loads(line) for line in text.split("\n") if line]


class ToolCase(unittest.TestCase):
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

    def run_tool(self, *args, text=None):
        """Runs to the end; stdout and stderr as text."""
        return subprocess.run([BINARY, *args], input=text, capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL if text is None else None)

    def output_of(self, *args, text=None):
        """Runs to the end, which must be a good one; stdout as JSON lines."""
        done = self.run_tool(*args, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return rows_of(done.stdout)

    def start(self, *args):
        """Runs in the background; ended at the latest when the test ends."""
        tool = subprocess.Popen([BINARY, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.reap, tool)
        return tool

    @staticmethod
    def reap(tool):
        if tool.poll() is None:
            tool.kill()
        tool.communicate()

    def end_of(self, tool, with_signal=None):
        """Waits for its end, after a signal if one is given: code, stdout, stderr."""
        if with_signal:
            tool.send_signal(with_signal)
        out, words = tool.communicate(timeout=PATIENCE)
        return tool.returncode, out, words

    def lines_of(self, tool, with_signal=None):
        """Its stdout as JSON lines, after a good end."""
        code, out, words = self.end_of(tool, with_signal)
        self.assertEqual(code, 0, words)
        return rows_of(out)

    def refused(self, code, words, *args, text=None):
        """The call ends with this code, says these words on stderr, and no traceback of any kind."""
        done = self.run_tool(*args, text=text)
        self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        for word in words:
            self.assertIn(word, done.stderr)
        return done


INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
