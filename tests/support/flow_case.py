# SPDX-License-Identifier: Apache-2.0
"""Runs a publishing store for a flow test. The programs are $MC_FLOW_WRITER and $MC_EVENTS."""
import json
import os
import subprocess
import tempfile
import unittest

PATIENCE = float(os.environ.get("MC_FLOW_PATIENCE", "120"))


class Writer:
    """tests/flow_writer.c, told line by line."""

    def __init__(self, seed, hwm_bytes=0):
        self.process = subprocess.Popen([os.environ["MC_FLOW_WRITER"], str(seed), str(hwm_bytes)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.endpoint = self.answer("ready")[0]

    def tell(self, line):
        self.process.stdin.write(line + "\n")

    def answer(self, word):
        line = self.process.stdout.readline()
        assert line.startswith(word + " "), "writer said %r, not %s" % (line, word)
        return line.split()[1:]

    def ask(self, line, word):
        self.tell(line)
        return self.answer(word)

    def listed(self, path):
        """The store's own list as {(tenant, key): (media, session, group, event id)}, and its event id."""
        event_id = int(self.ask("list " + path, "listed")[0])
        with open(path) as rows:
            objects = {}
            for row in map(json.loads, rows.read().split("\n")[:-1]):
                place = (row["tenant"], row["key"])
                assert place not in objects, "listed twice: %r" % (place,)
                objects[place] = (row["media"], row["session"], row["group"], row["event_id"])
            return objects, event_id

    def close(self):
        """Ends it by the end of its input; its exit code."""
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return code


class FlowCase(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def writer(self, seed, hwm_bytes=0):
        writer = Writer(seed, hwm_bytes)
        self.addCleanup(self.end, writer.process)
        return writer

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe and not pipe.closed:
                pipe.close()

    def tail(self, endpoint, name):
        """mc-events tail --json in the background, into a file; the process and the file's path."""
        path = self.path(name)
        with open(path, "w") as out, open(path + ".words", "w") as words:
            tail = subprocess.Popen([os.environ["MC_EVENTS"], "tail", "--json", "--endpoint", endpoint],
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=words)
        self.addCleanup(self.end, tail)
        return tail, path
