#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/vectors/control.json: a frame of each request and answer of the control
protocol, by python3-msgpack.

usage: control_rows.py > control.json

Only the code of an answer is not in its smallest form (int 32, so that it can be changed in
place), and is put in by hand.
"""
import json
import struct

import msgpack

U64 = 2**64 - 1
KEY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855_0_1"
OPS = {
    "hello": 1, "goodbye": 2, "heartbeat": 3, "cancel": 4, "segment_mount": 10, "segment_unmount": 11,
    "segment_status": 12, "segment_get": 13, "put_start": 20, "upsert_start": 21, "put_end": 22,
    "put_revoke": 23, "attempt_fate": 24, "attempt_touch": 25, "get": 30, "exist": 31, "get_size": 32,
    "probe": 33, "renew_lease": 34, "release_lease": 35, "remove": 40, "remove_by_regex": 41, "remove_all": 42, "replica_clear": 43, "list": 50,
    "stat": 51,
}
VERSION = 2
rows = []


def add(kind, name, op, body):
    frame = struct.pack("<I", len(body)) + body
    rows.append({"name": name, "kind": kind, "op": OPS[op], "frames": [frame.hex()]})


def request(name, args, op=None, slot=3, number=300, tenant=None):
    op = op or name
    head = [VERSION, OPS[op], slot, number, 30000, 12, 0xfedcba9876543210, 0x19a2b3c4d5e60001, tenant]
    add("request", name, op, msgpack.packb(head + [args]))


def answer(name, result, op=None, code=0, slot=3, number=300):
    op = op or name
    parts = [b"\x95"] + [msgpack.packb(v) for v in (VERSION, slot, number)]
    parts += [b"\xd2" + struct.pack(">i", code), msgpack.packb(result)]
    add("answer", name, op, b"".join(parts))


def place(segment, offset):
    return [segment, offset, 123456789012345678, 0x8877665544332211]


CONFIG = [2, 0, 0, 1, 60000, True, 1, "10.0.0.1:12345", ["a:1", "b:2"], False, True]
SEGMENT = [5, 12, U64, 2**63, 1, 2, 2**34, 4096, 0x7f0000000000, 1,
           "10.0.0.2:12301", "10.0.0.2:12301", None, "tcp", "4ad6"]

request("hello", [VERSION, VERSION, 1, U64, "h:1", "4ad6", "mckv 0.2.0", "t1"], slot=0, number=0)
request("hello_bare", [VERSION, VERSION + 1, 0, 7, None, None, None, None], "hello", slot=0, number=0)
answer("hello", [VERSION, VERSION, 0x19a2b3c4d5e60001, 12, 10000, 1000, "mckv 0.2.0"], slot=0, number=0)
answer("hello_refused", [VERSION, VERSION, 5, 0, 0, 0, None], "hello", code=-1012, slot=0, number=0)
request("goodbye", None)
answer("goodbye", None)
request("heartbeat", [2**60, 77, [0, 1, U64], [[2**40 + 1, 5, None], [2**40 + 2, 400, KEY]],
                      [[2**40 + 3, U64]]])
request("heartbeat_bare", [1, 0, [], [], []], "heartbeat")
answer("heartbeat", [[[78, 0, 2**40 + 9], [79, 1, U64]], [2**40 + 4],
                     [[2**40 + 1, [[2**60, U64], [2**61, 1]]], [3, []]]])
answer("heartbeat_bare", [[], [], []], "heartbeat")
answer("heartbeat_unknown", None, "heartbeat", code=-103)
request("cancel", None)
answer("cancel", None)
request("segment_mount", [1, U64, 2**63, bytes(range(16)), 2**34, 0x7f0000000000,
                          "10.0.0.2:12301", "10.0.0.2:12301", "mckv-0123456789abcdef", "tcp"])
request("segment_mount_bare", [1, 2, 3, bytes(16), 4096, 4096, "h", None, None, "tcp"], "segment_mount")
answer("segment_mount", 5)
request("segment_unmount", [5, 3000])
answer("segment_unmount", None)
request("segment_status", [5])
answer("segment_status", 3)
request("segment_get", [1, 2, 4095])
request("segment_get_all", [], "segment_get")
answer("segment_get", [SEGMENT, None, SEGMENT[:11] + ["h:2", "mckv-1", "tcp", None]])
request("put_start", [CONFIG, [[KEY, 2**21, "session-7", "g1"], ["k", 1, None, None]]], tenant="t1")
request("put_start_bare", [None, [["k", 65536, None, None]]], "put_start")
request("upsert_start", [[0, 0, 0, 0, 0, False, 0, None, [], True, False], [["\u00e9\u4e2d", U64, "s", None]]])
answer("put_start", [[2**40 + 1, [place(1, 0)]], -705, [2**40 + 2, [place(2, 2**40), place(3, 8)]]])
answer("upsert_start", [-200])
answer("put_start_refused", None, "put_start", code=-600)
request("put_end", [[KEY, 2**40 + 1, False, [U64]], ["k", 1, True, [0, 5, 0, 7]]])
answer("put_end", [0, -300])
request("put_revoke", [["k", 2**40 + 2, True, []]])
answer("put_revoke", [0])
request("attempt_fate", [2**40 + 1, 0])
answer("attempt_fate", [2, 0])
request("attempt_touch", [[KEY, 2**40 + 1]])
answer("attempt_touch", [0])
request("get", [KEY, "k", ""])
answer("get", [[2**21, 2**40 + 1, 1, 10**10, [place(1, 0)]], -704,
               [70000, 9, 0x43, 1, [place(i, i << 20) for i in range(4)]], [5, 6, 2, 7, []]])
request("get_two", [KEY, "k"], "get")
request("get_named", [True, [KEY, "k"]], "get")
answer("get_named", [[2**21, 2**40 + 1, 1, 10**10, [place(1, 0)], 2**44 + 1, 2**32 + 5], -200,
                     [5, 6, 2, 7, [], 2**44 + 2, 1]], "get")
request("renew_lease", [[2**44 + 1, 2**32 + 5, 2**40 + 1], [U64, U64, U64], [0, 0, 0]])
answer("renew_lease", [[2**21, 1, 10**10, [place(1, 0), place(2, 2**40)]], -707, [5, 0x42, 7, []]])
request("release_lease", [[2**44 + 1, 2**32 + 5, 2**40 + 1]])
answer("release_lease", [0])
request("exist", [KEY] * 20)
answer("exist", [1, 0, -400] + [1] * 17)
request("exist_none", [], "exist")
request("get_size", ["a" * 31, "b" * 32, "c" * 255, "d" * 256, "e" * 4096])
answer("get_size", [2**48, -704, -703, 127, 128])
request("probe", [KEY, "k", "w"])
answer("probe", [[2, 3, 2**21, 2**40 + 1, 9999, "session-7"], [0, 0, 0, 0, 0, None], -400,
                 [1, 0, 0, 0, 0, None]])
request("remove", [True, [KEY, "k"]])
answer("remove", [0, -706])
request("remove_by_regex", [False, "^e3b0.*_0_[0-9]$"])
answer("remove_by_regex", 3000)
request("remove_all", True)
answer("remove_all", 0)
answer("remove_all_late", 1234, "remove_all", code=-901)
request("replica_clear", [5, [KEY]])
answer("replica_clear", [-710])
request("list", [65535, 2**32 - 1, False])
request("list_all", [0, 0, True], "list")
answer("list", [7, 99, False, [["default", KEY, "g1", "session-7", 3, 2**21, 2**40 + 1, 12, 11, 12],
                               ["t1", "k", None, None, 1, 1, 2, 3, 3, 0]]])
answer("list_end", [0, 0, True, []], "list")
request("stat", None)
answer("stat", [[1, 2**40, 0], "tcp://127.0.0.1:5557", None])
answer("stat_bare", [[], None, None], "stat")

print(json.dumps(rows, indent=1))
