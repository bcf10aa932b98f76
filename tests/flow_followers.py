#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Followers that join late, are killed, or are stopped: the writer does not
notice, and each of them says exactly what it missed."""
import json
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from flow_case import PATIENCE, FlowCase  # noqa: E402

# A small mark, so that a stopped follower is over it long before the end.
HWM_BYTES = 1 << 20
ROUND = int(os.environ.get("MC_FLOW_ROUND", "20000"))


def rows_of(path):
    """The whole lines of a file that may still grow."""
    with open(path) as lines:
        return [json.loads(line) for line in lines.read().split("\n")[:-1]]


def last_row(path):
    """The last whole line of a file that may still grow; {} if there is none."""
    with open(path, "rb") as lines:
        lines.seek(max(0, os.path.getsize(path) - 4096))
        whole = lines.read().split(b"\n")[:-1]
        return json.loads(whole[-1]) if len(whole) > 1 else {}


class Followers(FlowCase):
    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.02)
        self.fail("never: " + what)

    def push_until_seen(self, writer, path):
        """Writes a little at a time until the follower shows the newest event: then it is at the end, and knows of
        all that it missed. Returns the newest id."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            last = int(writer.ask("go 5", "did")[0])
            for _ in range(25):
                if last_row(path).get("event_id") == last:
                    return last
                time.sleep(0.02)
        self.fail("%s never came to the end" % path)

    def account(self, path):
        """Ids that a follower showed and ids that it said it missed, each once and in order; the missed ones."""
        expected, missed, first = None, [], None
        for row in rows_of(path):
            if "event_id" in row:
                first = first or row["event_id"]
                self.assertIn(row["event_id"], (expected, first), path)
                expected = row["event_id"] + 1
            elif row["signal"] == "gap":
                self.assertEqual(row["from_id"], expected, row)
                self.assertGreaterEqual(row["to_id"], row["from_id"])
                missed.append((row["from_id"], row["to_id"]))
                expected = row["to_id"] + 1
            else:
                self.assertIn(row["signal"], ("epoch", "stale"), row)
        return first, expected - 1, missed

    def stop(self, tail, number):
        tail.send_signal(number)
        return tail.wait(PATIENCE)

    def test_late_killed_and_stopped(self):
        writer = self.writer(3, HWM_BYTES)
        killed, _ = self.tail(writer.endpoint, "killed")
        stopped, stopped_path = self.tail(writer.endpoint, "stopped")
        writer.ask("wait 2", "waited")
        writer.ask("go 200", "did")
        self.wait_for(lambda: last_row(stopped_path).get("event_id", 0) > 100, "events before the stop")
        stopped.send_signal(signal.SIGSTOP)

        # All of this passes while one follower is stopped and another dies.
        middle = int(writer.ask("go %d" % ROUND, "did")[0])
        self.assertEqual(self.stop(killed, signal.SIGKILL), -signal.SIGKILL)
        late, late_path = self.tail(writer.endpoint, "late")
        self.wait_for(lambda: writer.ask("go 5", "did") and last_row(late_path), "the late follower's first event")
        last = int(writer.ask("go %d" % ROUND, "did")[0])
        self.assertGreater(last - middle, ROUND)
        dropped, _, _, _ = map(int, writer.ask("stat", "stat"))
        self.assertEqual(dropped, 0)        # nothing was lost in the store

        stopped.send_signal(signal.SIGCONT)
        self.push_until_seen(writer, stopped_path)
        last = self.push_until_seen(writer, late_path)
        self.assertEqual(self.stop(stopped, signal.SIGINT), 0)
        self.assertEqual(self.stop(late, signal.SIGTERM), 0)

        first, end, missed = self.account(stopped_path)
        self.assertLess(first, 10)
        self.assertLessEqual(end, last)
        self.assertGreaterEqual(len(missed), 1, "it was stopped for too little to miss anything")
        lost = sum(to - begin + 1 for begin, to in missed)
        shown = sum("event_id" in row for row in rows_of(stopped_path))
        self.assertEqual(shown + lost, end - first + 1)
        with open(stopped_path + ".words") as words:
            self.assertIn("%d gaps (%d ids" % (len(missed), lost), words.read())

        first, end, _ = self.account(late_path)
        self.assertGreater(first, middle)
        self.assertEqual(end, last)
        self.assertEqual(rows_of(late_path)[0]["signal"], "epoch")
        self.assertEqual(writer.close(), 0)


if __name__ == "__main__":
    unittest.main()
