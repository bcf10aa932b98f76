#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every subcommand of mc-events promises of its command line."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from tool_case import INTERRUPTS, ToolCase  # noqa: E402

SUBCOMMANDS = ["tail", "stat", "decode", "encode", "index", "record", "play", "replay", "snapshot", "status",
               "session", "sessions", "lint", "verify"]
LISTENING = ["tail", "stat", "record", "lint"]
ASKING = ["replay", "snapshot", "status", "session", "sessions"]
NOBODY = "tcp://127.0.0.1:9"     # discard: nothing listens there


class CommandLine(ToolCase):
    def operands(self, name):
        return {"record": [self.path("r.jsonl")], "play": [self.path("r.jsonl")], "replay": ["0"],
                "session": ["s"]}.get(name, [])

    def test_help_of_each_subcommand_has_usage_and_one_example(self):
        for name in SUBCOMMANDS:
            done = self.run_tool(name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertTrue(done.stdout.startswith("usage: mc-events " + name), done.stdout)
            self.assertEqual(done.stdout.count("example:\n  mc-events "), 1, done.stdout)

    def test_help_alone_lists_each_subcommand(self):
        done = self.run_tool("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in SUBCOMMANDS:
            self.assertIn("\n  %s " % name, done.stdout)
        self.assertIn("example:", done.stdout)

    def test_version_is_told_everywhere(self):
        first = self.run_tool("--version")
        self.assertRegex(first.stdout, r"^mc-events \d+\.\d+\.\d+\n$")
        for name in SUBCOMMANDS:
            done = self.run_tool(name, "--version")
            self.assertEqual((done.returncode, done.stdout), (0, first.stdout))

    def test_wrong_use_exits_2_and_names_what_is_wrong(self):
        self.refused(2, ["usage:"])
        self.refused(2, ["bogus", "no such subcommand"], "bogus")
        for name in SUBCOMMANDS:
            self.refused(2, [name, "--bogus"], name, "--bogus")
            self.refused(2, ["too many operands"], name, "a", "b")
        for name in ("record", "play", "replay", "session"):
            self.refused(2, ["operand is missing"], name)
        self.refused(2, ["--endpoint: needs a value"], "tail", "--endpoint")
        self.refused(2, ["--json: takes no value"], "tail", "--json=1")
        self.refused(2, ["--end"], "tail", "--end", NOBODY)     # no abbreviations
        self.refused(2, ["no such option"], "tail", "-xcount", "1")

    def test_dashes_are_as_good_as_underscores(self):
        for name in ("--curve-server-key", "--curve_server_key"):
            self.refused(2, ["go together"], "tail", name, "K")

    def test_values_are_checked_by_kind(self):
        for count in ("0", "-1", "1x", "", "1.5", "99999999999999999999"):
            self.refused(2, ["--count"], "tail", "--count", count)
        for every in ("1", "1x", "-1s", "0s", "ms", "1e3s", "0x1s", "1 s"):
            self.refused(2, ["--every"], "stat", "--every", every)
        for speed in ("-1", "nan", "inf", "fast", "1e3", "1x"):
            self.refused(2, ["--speed"], "play", "--speed", speed, "f")
        for kind in ("", "STORED", "none"):
            self.refused(2, ["--type"], "tail", "--type", kind)
        for layout in ("", "sglang", "sglang:mha:tp=0", "sglang:mha:tp=65", "vllm"):
            self.refused(2, ["--layout"], "tail", "--layout", layout)
        self.refused(2, ["--prefix"], "tail", "--prefix", "m")
        for numbers in ("", "x", "-1", "1..x", "2..1", "..", "..3", "1...3", "18446744073709551616", "1" * 40):
            self.refused(2, ["FROM"], "replay", "--", numbers)
        self.refused(2, ["--timeout"], "status", "--timeout", "1")
        self.refused(2, ["--top"], "sessions", "--top", "0")

    def test_what_several_options_say_together_is_checked(self):
        self.refused(2, ["--from snapshot", "engine"], "tail", "--from", "snapshot", "--profile", "engine")
        for name in LISTENING + ["replay", "session", "sessions", "decode", "play"]:
            self.refused(2, ["neither"], name, "--profile=neither", *self.operands(name))
        for name in LISTENING + ASKING + ["verify"]:
            for flag in ("--curve_server_key", "--curve_key_file"):
                self.refused(2, ["go together"], name, flag, "k", *self.operands(name))

    def test_tail_begins_at_a_place_that_can_be(self):
        for since in ("then", "", "-1", "1x", "18446744073709551616"):
            self.refused(2, ["--from", "now"], "tail", "--from", since)

    def test_an_endpoint_that_cannot_be_is_a_failure_that_names_it(self):
        for name in LISTENING + ["verify"]:
            self.refused(1, [name, "nonsense"], name, "--endpoint", "nonsense", *self.operands(name))
        recording = self.write("r.jsonl", "")
        self.refused(1, ["play", "tcp://nonsense"], "play", "--endpoint", "tcp://nonsense", recording)

    def test_a_file_that_is_not_there_is_a_failure_that_names_it(self):
        missing = self.path("missing")
        for name in ("decode", "encode", "index", "play", "lint"):
            self.refused(1, [name, missing, "No such file"], name, missing)
        self.refused(1, ["record", "no/such"], "record", self.path("no/such"))

    def test_both_signals_end_a_listener_with_its_summary(self):
        for name in LISTENING:
            for number in INTERRUPTS:
                tool = self.start(name, "--endpoint=" + NOBODY, *self.operands(name))
                self.assertIn("nobody publishes there yet", tool.stderr.readline())
                code, _, words = self.end_of(tool, number)
                self.assertEqual(code, 0, words)
                self.assertIn("0 messages, 0 events, 0 gaps", words)

    def test_options_end_at_two_dashes(self):
        self.write("--odd", "")
        done = self.run_tool("decode", "--", self.path("--odd"))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.refused(1, ["--gone"], "decode", "--", "--gone")


if __name__ == "__main__":
    unittest.main()
