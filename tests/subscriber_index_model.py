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

    def test_streams_with_blocks_that_are_held_each_for_itself(self):
        self.compare_seeds(index_model.held_script, 1, SEEDS, LINES)

    def test_long_streams(self):
        for kind in (index_model.random_script, index_model.hostile_script, index_model.held_script):
            self.compare_seeds(kind, 10000, 3 * FACTOR, 3000)

    def test_an_imported_index_answers_as_the_exported_one(self):
        for kind in (index_model.random_script, index_model.hostile_script, index_model.held_script):
            self.compare_seeds(kind, 20000, 40 * FACTOR, LINES, "--reimport", "23")

    def lines_of(self, rows, *bounds):
        """The index's answers under bounds, by the number of their line."""
        got = answers_of([line for line, _ in rows], "--numbered", *bounds)
        return {int(number): json.loads(answer) for number, answer in (text.split(" ", 1) for text in got)}

    def part_of(self, line, ours, theirs, name):
        """What is answered is a part of what the model, which has no bounds, answers."""
        def blocks(answer):
            return {h for chain in answer["lineage"] for h in chain}

        def places(answer, key, what="blocks"):
            return {(p["owner"], p["tier"]): p[what] for p in answer[key]}

        question = line["q"]
        if question == "match":
            self.assertLessEqual(ours["store"], theirs["store"], name)
            for place, n in places(ours, "match").items():
                self.assertLessEqual(n, places(theirs, "match").get(place, 0), name)
        elif question == "lineage":
            self.assertLessEqual(blocks(ours), blocks(theirs), name)
        elif question == "sessions_of":
            self.assertLessEqual(set(ours["sessions"]), set(theirs["sessions"]), name)
        elif question == "resident":
            self.assertLessEqual(ours["blocks"], theirs["blocks"], name)
            for place, n in places(ours, "resident").items():
                self.assertLessEqual(n, places(theirs, "resident").get(place, 0), name)
            for place, n in places(ours, "resident", "prefix").items():
                self.assertLessEqual(n, places(theirs, "resident", "prefix")[place], name)

    def test_bounds_on_lineage_cost_lineage_alone(self):
        """What is held, and which chains are refused, is answered to the letter."""
        shorter = 0
        for seed in range(1, SEEDS // 3):
            rows = list(index_model.run(index_model.held_script(seed, LINES)))
            for bounds in (["--sessions", "2"], ["--heads", "1"], ["--marks", "6"],
                           ["--sessions", "3", "--heads", "2", "--marks", "9"]):
                got = self.lines_of(rows, *bounds)
                for number, (line, answer) in enumerate(rows, 1):
                    name = "held %d, %s, line %d" % (seed, bounds, number)
                    if "op" in line or line["q"] == "match":
                        self.assertEqual(got.get(number), answer, name)
                    else:
                        self.part_of(line, got[number], answer, name)
                        shorter += got[number] != answer
        self.assertGreater(shorter, SEEDS)

    def test_a_bound_on_blocks_answers_less_never_more(self):
        """Of streams that keep their promises, and in which a block's 64 bits are those of one page: where the
        first of two found no room, the second is let in."""
        shorter = 0
        for seed in range(1, SEEDS // 3 * 2, 2):
            script = list(index_model.held_script(seed, LINES))
            if script[0]["layout"] == "u64":
                continue
            rows = list(index_model.run(script))
            for nodes in ("3", "12", "40"):
                got = self.lines_of(rows, "--nodes", nodes)
                for number, (line, answer) in enumerate(rows, 1):
                    if "q" in line:
                        self.part_of(line, got[number], answer, "held %d, %s nodes, line %d" % (seed, nodes, number))
                        shorter += got[number] != answer
        self.assertGreater(shorter, SEEDS)


if __name__ == "__main__":
    unittest.main()
