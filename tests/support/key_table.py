#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/vectors/keys.json: keys, and what the index model's Layout says about them.

usage: key_table.py > keys.json        (index_model.py beside it, or in PYTHONPATH)

A row is [layout, prefix, key, null] or [layout, prefix, key, [hash, part, digest]]; the part is the
number that mc_key_page carries, the digest the text of which it carries the XXH3.
"""
import json
import random
import sys

from index_model import Layout

LAYOUTS = ["u64", "sglang:mha:tp=1", "sglang:mha:tp=2", "sglang:mha:tp=64", "sglang:mla", "vllm:tp=1", "vllm:tp=2",
           "vllm:tp=16"]
PREFIXES = ["", "model", "m_", "0", "@", "é", "a@tp_rank:0"]
U64 = ["0", "7", "007", "0x0", "0xff", "0XFF", "0xfF", "18446744073709551615", "18446744073709551616",
       "00018446744073709551615", "0xffffffffffffffff", "0x00ffffffffffffffff", "0x10000000000000000", "0x", "x1",
       "", "-1", "+1", " 1", "1 ", "1_0", "0b1", "0o7", "1e3", "0x1g", "\u0661", "1\n", "0x\n", "9" * 19, "9" * 20]
HEX = "0123456789abcdef"


def part_number(layout, part):
    if layout.startswith("sglang:mha"):
        return 2 * int(part[:-1]) + (part[-1] == "v")
    return int(part) if part else 0


def some_hex(rng, n):
    return "".join(rng.choice(HEX) for _ in range(n))


def likely_key(rng, layout):
    ranks = Layout({"layout": layout}).ranks
    rank = rng.choice([0, ranks - 1, ranks, rng.randrange(ranks + 2), 10])
    if layout == "u64":
        return rng.choice(U64 + [str(rng.getrandbits(64)), hex(rng.getrandbits(64))])
    if layout == "sglang:mla":
        return some_hex(rng, rng.choice([64, 64, 64, 63, 65])) + rng.choice(["__k", "__k", "__v", "_k", "_0_k", "__k "])
    if layout.startswith("sglang"):
        return "%s_%s_%s" % (some_hex(rng, rng.choice([64, 64, 64, 63, 65])),
                             rng.choice([str(rank), str(rank), "0%d" % rank, "", "-0", "99999999999999999999"]),
                             rng.choice(["k", "v", "k", "v", "q", "kv", "", "k\n"]))
    return "@tp_rank:%s%s%s%s%s@%s" % (
        rng.choice([str(rank), str(rank), str(rank), "0%d" % rank, ""]), rng.choice(["", "@pcp0", "@pcp1"]),
        rng.choice(["", "@dcp0"]), rng.choice(["", "@pp_rank:0", "@pp_rank:1"]), rng.choice(["", "@group:0", "@group:1"]),
        some_hex(rng, rng.choice([32, 40, 64, 64, 31, 65, 16])) + rng.choice(["", "", "", "A", "g", "@"]))


def best_key(rng, layout):
    """A key of the layout, for sure."""
    rank = rng.randrange(Layout({"layout": layout}).ranks)
    if layout == "u64":
        return rng.choice([str, hex, lambda n: "%020d" % n, lambda n: "0X%X" % n])(rng.getrandbits(rng.randrange(65)))
    if layout == "sglang:mla":
        return some_hex(rng, 64) + "__k"
    if layout.startswith("sglang"):
        return "%s_%d_%s" % (some_hex(rng, 64), rank, rng.choice("kv"))
    options = "".join(o for o in ("@pcp0", "@dcp0", "@pp_rank:0", "@group:0") if rng.random() < 0.5)
    return "@tp_rank:%d%s@%s" % (rank, options, some_hex(rng, rng.randrange(32, 65)))


def spoil(rng, key):
    if not key:
        return key
    at = rng.randrange(len(key))
    how = rng.randrange(4)
    if how == 0:
        return key[:at] + key[at + 1:]
    if how == 1:
        return key[:at] + rng.choice("0aAkv_@:x") + key[at:]
    if how == 2:
        return key[:at] + rng.choice("0aAkvFg_@:x") + key[at + 1:]
    return key[:at]


def main():
    rng = random.Random(42)
    rows, seen = [], set()
    while len(rows) < 900:
        layout, prefix = rng.choice(LAYOUTS), rng.choice(PREFIXES + [""] * 4)
        key = best_key(rng, layout) if rng.random() < 0.7 else likely_key(rng, layout)
        if rng.random() < 0.3:
            key = spoil(rng, key)
        head = prefix + ("_" if prefix and layout.startswith("sglang") else "")
        key = rng.choice([head] * 8 + [prefix, "", prefix.upper()]) + key
        if (layout, prefix, key) in seen:
            continue
        seen.add((layout, prefix, key))
        page = Layout({"layout": layout, "prefix": prefix}).parse(key)
        rows.append([layout, prefix, key, page and [page[0], part_number(layout, page[1]), page[2]]])
    sys.stdout.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main()
