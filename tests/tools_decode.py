#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mc-events decode answers every row of the vectors, with the offsets of the plain model."""
import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import event_model  # noqa: E402
from event_bytes import event, message, seen  # noqa: E402
from tool_case import VECTORS, ToolCase  # noqa: E402


def vectors(name):
    with open(os.path.join(VECTORS, name)) as rows:
        return json.load(rows)


def hexed(frames):
    return [f.hex() for f in frames]


def line(frames, **more):
    return json.dumps(dict(more, frames=hexed(frames))) + "\n"


def expected(row):
    """The row's answer with the offsets that the model of the reader says."""
    answer = json.loads(json.dumps(row["expect"]))
    try:
        events = event_model.read([bytes.fromhex(f) for f in row["frames"]])[2]
    except event_model.MessageFault as fault:
        answer["offset"] = fault.offset
        return answer
    for told, read in zip(answer["events"], events):
        if "error" in told:
            told["offset"] = read[1]
    return answer


class Decode(ToolCase):
    def test_every_row_of_the_vectors(self):
        rows = vectors("decode.json") + vectors("decode-more.json")
        self.assertGreater(len(rows), 150)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        answers = self.output_of("decode", self.write("rows.jsonl", text))
        self.assertEqual(len(answers), len(rows))
        for row, answer in zip(rows, answers):
            self.assertEqual(answer, expected(row), row["name"])
            self.assertEqual(list(answer), ["error", "offset", "seq"] if "error" in answer
                             else ["seq", "timestamp_ms", "dp_rank", "events"], row["name"])

    def test_a_json_array_of_rows_is_read_as_the_rows(self):
        for name in ("decode.json", "decode-more.json"):
            answers = self.output_of("decode", os.path.join(VECTORS, name))
            self.assertEqual(answers, [expected(row) for row in vectors(name)])

    def test_stdin_is_read_where_no_file_is_named(self):
        text = line(message(7, [event(1)]), t_ns=5) + "\n  \n" + line(message(8, []))
        for args in (["decode"], ["decode", "-"]):
            answers = self.output_of(*args, text=text)
            self.assertEqual([a["seq"] for a in answers], [7, 8])
            wanted = seen(7, event(1))
            del wanted["seq"], wanted["timestamp_ms"]
            self.assertEqual(answers[0]["events"], [wanted])

    def test_strings_come_out_as_they_went_in(self):
        key = "\x00\x01\t\n\"\\/\x7f\u0085\u2028é\U0001f600"
        answers = self.output_of("decode", text=line(message(1, [event(1, key=key, session_id="\x00s")])))
        self.assertEqual(answers[0]["events"][0]["object_key"], key)
        self.assertEqual(answers[0]["events"][0]["session_id"], "\x00s")

    def test_whole_numbers_keep_all_64_bits(self):
        answers = self.output_of("decode", text=line(message(2**64 - 1, [event(2**64 - 1, epoch=2**64 - 1)])))
        self.assertEqual(answers[0]["seq"], 2**64 - 1)
        self.assertEqual(answers[0]["events"][0]["event_id"], 2**64 - 1)
        self.assertEqual(answers[0]["events"][0]["epoch"], "f" * 16)

    def test_a_payload_of_16_mib_is_walked_and_one_byte_more_refused(self):
        body = b"\x93\x01\x90\x00"
        for surplus, error in ((16 << 20, "payload_trailing"), ((16 << 20) + 1, "payload_too_large")):
            payload = body + bytes(surplus - len(body))
            answers = self.output_of("decode", text=line([b"", bytes(8), payload]))
            self.assertEqual(answers[0]["error"], error)

    def test_a_line_that_cannot_be_read_ends_it_with_file_and_line(self):
        good = line(message(1, [event(1)]))
        cases = [("not json\n", "not JSON"), (good[:-9] + "\n", "not JSON"), ("[1]\n", "not an object"),
                 ("{}\n", "frames"), ('{"frames":{}}\n', "frames"), ('{"frames":["0"]}\n', "frames[0]"),
                 ('{"frames":["",7]}\n', "frames[1]"), ('{"frames":["","0g"]}\n', "frames[1]"),
                 (good.strip() + " trailing\n", "not JSON"), ('{"frames":[]}\x00\n', "NUL"),
                 ('{"x":18446744073709551616,"frames":[]}\n', "64 bits"), ('{"x":"\\ud800","frames":[]}\n', "\\u")]
        for bad, word in cases:
            path = self.write("bad.jsonl", good + "\n" + bad + good)
            done = self.refused(1, ["decode", path + ":3:", word], "decode", path)
            self.assertEqual(len(done.stdout.splitlines()), 1, bad)

    def test_a_cut_last_line_is_not_passed_over(self):
        path = self.write("cut.jsonl", line(message(1, [event(1)])) + line(message(2, [event(2)]))[:-40])
        done = self.refused(1, [path + ":2:", "ends inside"], "decode", path)
        self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_the_dump_in_the_documentation_is_a_message(self):
        """Every line at its offset, the whole of it what an independent packer makes of that event."""
        with open(os.path.join(HERE, "..", "docs", "events.md")) as page:
            dump = page.read().split("reads this dump -->\n```\n")[1].split("```")[0]
        payload = b""
        for row in dump.splitlines():
            self.assertEqual(int(row[:4], 16), len(payload), row)
            payload += bytes.fromhex(row[6:].split("  ")[0])
        e = event(18, key="block-1", session_id="agent-7", group_id="g1", epoch=0x19aca4b2f0a1c3d7)
        self.assertEqual([b"", bytes(7) + b"\x09", payload], message(9, [e]))
        answers = self.output_of("decode", text=line([b"", bytes(7) + b"\x09", payload]))
        self.assertEqual((answers[0]["seq"], answers[0]["events"][0]["object_key"]), (9, "block-1"))

    def test_a_bad_row_of_an_array_is_named_by_number(self):
        path = self.write("a.json", json.dumps([{"frames": []}, {"frames": ["zz"]}]))
        done = self.refused(1, ["row 2", "frames[0]"], "decode", path)
        self.assertEqual(json.loads(done.stdout)["error"], "frame_count")


if __name__ == "__main__":
    unittest.main()
