#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mc-events encode writes every row of the vectors byte for byte, and drops nothing."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from event_bytes import EPOCH, event, message  # noqa: E402
from tool_case import VECTORS, ToolCase  # noqa: E402


def row(*events, profile="full", seq=1, dp_rank=0):
    return {"profile": profile, "seq": seq, "timestamp_ms": 1739145600000, "dp_rank": dp_rank,
            "events": list(events)}


def without(e, *names):
    return {k: v for k, v in e.items() if k not in names}


class Encode(ToolCase):
    def test_every_row_of_the_vectors_byte_for_byte(self):
        with open(os.path.join(VECTORS, "encode.json")) as source:
            rows = json.load(source)
        self.assertGreater(len(rows), 10)
        text = "".join(json.dumps(r) + "\n" for r in rows)
        for answers in (self.output_of("encode", text=text),
                        self.output_of("encode", os.path.join(VECTORS, "encode.json"))):
            self.assertEqual(len(answers), len(rows))
            for wanted, answer in zip(rows, answers):
                self.assertEqual(answer, {"frames": wanted["frames"]}, wanted["name"])

    def test_an_independent_packer_makes_the_same_bytes(self):
        events = [event(9, key="é" * 200, session_id="s\x00", group_id="g"), event(10, "removed", medium="disk"),
                  event(11, "cleared", tenant_id="t2")]
        answers = self.output_of("encode", text=json.dumps(row(*events, seq=2**63)))
        self.assertEqual(answers[0]["frames"], [f.hex() for f in message(2**63, events)])

    def test_what_may_be_nil_may_be_left_out(self):
        short = {"event_id": 1, "event_type": "stored", "backend_id": "n1", "medium": "cpu", "object_key": "k",
                 "epoch": EPOCH}
        self.assertEqual(self.output_of("encode", text=json.dumps(row(short))),
                         self.output_of("encode", text=json.dumps(row(event(1)))))

    def test_numeric_keys_carry_their_hash_where_it_is_asked_for(self):
        e = event(1, key="18446744073709551615", seq_hashes=[2**64 - 1], block_hashes=[-1])
        answers = self.output_of("encode", text=json.dumps(row(e)))
        self.assertEqual(answers[0]["frames"], [f.hex() for f in message(1, [e])])

    def test_empty_token_ids_are_written_as_given(self):
        e = event(1, token_ids=[])
        answers = self.output_of("encode", text=json.dumps(row(e)))
        self.assertEqual(answers[0]["frames"], [f.hex() for f in message(1, [e])])

    def test_decode_reads_what_encode_wrote(self):
        text = self.run_tool("encode", text=json.dumps(row(event(5, session_id="s")))).stdout
        self.assertEqual(self.output_of("decode", text=text)[0]["events"][0]["session_id"], "s")

    def test_what_cannot_be_written_as_given_is_refused_by_name(self):
        cases = [
            (row(event(1, surprise=1)), "surprise"), (row(event(1, type="BlockRemoved")), "type"),
            (row(event(1, event_type="stolen")), "event_type"), (row(without(event(1), "event_id")), "event_id"),
            (row(without(event(1), "backend_id")), "backend_id"), (row(without(event(1), "medium")), "medium"),
            (row(without(event(1), "object_key")), "object_key"), (row(event(1, object_key="")), "object_key"),
            (row(event(1, object_key="k" * 4097)), "object_key"), (row(event(1, session_id="s" * 257)), "session_id"),
            (row(event(1, session_id=7)), "session_id"), (row(event(1, tenant_id="")), "tenant_id"),
            (row(event(1, event_id=-1)), "event_id"), (row(event(1, event_id=1.5)), "event_id"),
            (row(event(1, model_name="a"), event(2, model_name="b")), "model_name"),
            (row(event(1, model_name="a"), event(2, model_name=None)), "model_name"),
            (row(event(1, block_size=64), event(2, block_size=32)), "block_size"),
            (row(event(1, block_size=2**32)), "block_size"), (row(event(1, block_size=0)), "block_size"),
            (row(event(1, dp_rank=3)), "dp_rank"), (row(event(1, dp_rank=None)), "dp_rank"),
            (row(event(1), event(2, epoch=EPOCH + 1)), "epoch"), (row(event(1, parent_hash=5)), "parent_hash"),
            (row(event(1, token_ids=[1])), "token_ids"), (row(event(1, token_ids=[]), event(2)), "token_ids"),
            (row(event(1, seq_hashes=[1])), "seq_hashes"), (row(event(1, key="1", seq_hashes=[2])), "seq_hashes"),
            (row(event(1, key="1", seq_hashes=[1], block_hashes=[1]),
                 event(2, key="2")), "seq_hashes"),
            (row(dict(event(1, "cleared"), medium="cpu")), "medium"), (row(event(1, "removed", token_ids=None)), "token_ids"),
            (row(without(event(1, "removed"), "epoch"), profile="plain"), "session_id"),
            (row(event(1), profile="plain"), "epoch"), (row(event(1), profile="fancy"), "profile"),
            (row(event(1), seq=-1), "seq"), (row(event(1), seq="1"), "seq"), (row(event(1), dp_rank=2**32), "dp_rank"),
            (dict(row(), events={}), "events"), (dict(row(), events=[1]), "event"), ({"profile": "full"}, "seq"),
        ]
        for bad, word in cases:
            path = self.write("bad.jsonl", json.dumps(row(event(1))) + "\n" + json.dumps(bad) + "\n")
            done = self.refused(1, ["encode", path + ":2:", word], "encode", path)
            self.assertEqual(len(done.stdout.splitlines()), 1, bad)


if __name__ == "__main__":
    unittest.main()
