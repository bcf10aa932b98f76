#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The index answers random scripts as the plain model does, also after it was exported and imported on the way.

$MC_INDEX_ANSWERS is the program that answers a script, $MC_VECTORS the golden scripts.
MC_SOAK=1 tries ten times as many seeds.
"""
import glob
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import index_model  # noqa: E402

PROGRAM = os.environ["MC_INDEX_ANSWERS"]
VECTORS = os.environ["MC_VECTORS"]
FACTOR = 10 if os.environ.get("MC_SOAK") else 1
SEEDS = 150 * FACTOR
LINES = 300


def answers_of(lines, *args):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([PROGRAM, *args], input=text, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError("exit %d: %s" % (done.returncode, done.stderr[-4000:]))
    return done.stdout.splitlines()


class Model(unittest.TestCase):
    maxDiff = 4000

    def compare(self, name, rows, *args):
        """rows: (line, answer or None)."""
        wanted = [json.dumps(answer) for _, answer in rows if answer is not None]
        got = answers_of([line for line, _ in rows], *args)
        for i, (ours, theirs) in enumerate(zip(got, wanted)):
            self.assertEqual(ours, theirs, "%s, answer %d" % (name, i))
        self.assertEqual(len(got), len(wanted), name)

    def compare_seeds(self, kind, first, count, lines, *args):
        asked = 0
        for seed in range(first, first + count):
            rows = list(index_model.run(kind(seed, lines)))
            asked += sum(answer is not None for _, answer in rows)
            self.compare("%s %d" % (kind.__name__, seed), rows, *args)
        self.assertGreater(asked, count * lines / 10)

    def test_the_golden_scripts(self):
        paths = sorted(glob.glob(os.path.join(VECTORS, "index-*.jsonl")))
        self.assertGreaterEqual(len(paths), 17)
        for path in paths:
            with open(path) as script:
                rows = [json.loads(text) for text in script if text.strip()]
            split = [({k: v for k, v in row.items() if k != "answer"}, row.get("answer")) for row in rows]
            self.compare(path, split)
            self.compare(path, split, "--reimport", "50")

    def test_streams_that_keep_their_promises(self):
        self.compare_seeds(index_model.random_script, 1, SEEDS, LINES)

    def test_streams_that_contradict_themselves(self):
        self.compare_seeds(index_model.hostile_script, 1, SEEDS, LINES)

    def test_long_streams(self):
        for kind in (index_model.random_script, index_model.hostile_script):
            self.compare_seeds(kind, 10000, 3 * FACTOR, 3000)

    def test_an_imported_index_answers_as_the_exported_one(self):
        for kind in (index_model.random_script, index_model.hostile_script):
            self.compare_seeds(kind, 20000, 40 * FACTOR, LINES, "--reimport", "23")


if __name__ == "__main__":
    unittest.main()
