#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mc-events index answers every script of the vectors as the model answers it."""
import glob
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from tool_case import VECTORS, ToolCase, rows_of  # noqa: E402

SCRIPTS = sorted(glob.glob(os.path.join(VECTORS, "index-*.jsonl")))


class Index(ToolCase):
    def test_every_script_of_the_vectors(self):
        self.assertGreaterEqual(len(SCRIPTS), 17)
        for path in SCRIPTS:
            with open(path) as script:
                wanted = [row["answer"] for row in rows_of(script.read()) if "answer" in row]
            self.assertGreater(len(wanted), 20, path)
            done = self.run_tool("index", path)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)
            # To the letter: the model prints with json.dumps.
            self.assertEqual(done.stdout.split("\n"), [json.dumps(answer) for answer in wanted] + [""], path)

    def test_stdin_is_a_script_too(self):
        with open(SCRIPTS[-1]) as script:
            text = script.read()
        self.assertEqual(self.output_of("index", text=text), self.output_of("index", SCRIPTS[-1]))

    def test_a_layout_may_be_given_instead_of_the_first_line(self):
        stored = {"op": "stored", "tenant": "default", "backend": "n1", "key": "m12", "medium": "cpu", "session": "s"}
        asked = {"q": "heads", "tenant": "default", "session": "s"}
        text = json.dumps(stored) + "\n" + json.dumps(asked) + "\n"
        self.assertEqual(self.output_of("index", "--layout", "u64", "--prefix", "m", text=text), [{"heads": [12]}])
        self.refused(1, ["stdin:1:", "layout"], "index", text=text)

    def test_a_line_that_cannot_be_read_ends_it_with_file_and_line(self):
        head = '{"op":"layout","layout":"u64"}\n{"q":"heads","tenant":"t","session":"s"}\n'
        for bad in ("not json", '{"op":"stolen"}', '{"q":"why"}', "{}", '{"op":"layout","layout":"u65"}',
                    '{"op":"stored","tenant":"t"}', '{"q":"match","tenant":"t","hashes":[-1]}',
                    '{"q":"match","tenant":"t","hashes":[18446744073709551616]}',
                    '{"q":"heads","tenant":"t","session":"s"'):
            path = self.write("bad.jsonl", head + bad + "\n" + head)
            done = self.refused(1, ["index", path + ":3:"], "index", path)
            self.assertEqual(done.stdout, '{"heads": []}\n', bad)


if __name__ == "__main__":
    unittest.main()
