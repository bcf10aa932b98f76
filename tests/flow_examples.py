#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The three examples, run against each other as their opening comments say."""
import os
import subprocess
import unittest

FOLDER = os.environ["MC_EXAMPLES"]
PATIENCE = 60


class Examples(unittest.TestCase):
    def start(self, name, *args):
        process = subprocess.Popen([os.path.join(FOLDER, name), *args], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def end_of(self, process):
        out, words = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, words), (0, ""), out)
        return out.splitlines()

    def test_publish_follow_and_ask(self):
        publish = self.start("publish", "tcp://127.0.0.1:0", "2")
        endpoint = publish.stdout.readline().split()[-1]
        follow = self.start("follow", endpoint, "9")
        ask = self.start("ask_index", endpoint, "9")
        key = "%08x%08x%048x__k"
        published = self.end_of(publish)
        self.assertEqual(published[0], key % (2, 1, 0) + ": 4096 bytes, session agent-2")
        last = int(published[1].split()[-1])

        followed = self.end_of(follow)
        events = [line for line in followed if line.split()[1] in ("stored", "removed")]
        keys = [(session, block) for session in (1, 2) for block in range(4)]
        first = last - 8
        self.assertEqual(events, ["%d stored cpu %s session agent-%d" % (first + i, key % (*k, 0), k[0])
                                  for i, k in enumerate(keys)] +
                         ["%d removed cpu %s session agent-2" % (last, key % (2, 1, 0))])
        held = sorted(line for line in followed if line.startswith("held: "))
        self.assertEqual(held, sorted("held: %s in cpu by agent-%d" % (key % (*k, 0), k[0])
                                      for k in keys if k != (2, 1)))
        self.assertEqual(followed[-1], "7 entries")

        asked = self.end_of(ask)
        self.assertEqual(asked[:4], ["agent-1: 4 of 4 leading blocks wait in the store",
                                     "  store:n1 external: 4 of 4 blocks",
                                     "agent-2: 1 of 4 leading blocks wait in the store",
                                     "  store:n1 external: 3 of 4 blocks"])
        self.assertEqual(sorted(asked[4:]), ["agent-1: 4 blocks in its lineage, 1 heads",
                                             "agent-2: 4 blocks in its lineage, 1 heads"])


if __name__ == "__main__":
    unittest.main()
