#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""T28: bench_python.py [--json] [--rounds N] [--seconds S] [--list] [ID ...]

batch_get_into of 256 objects of 1 MiB by a Python program of which another thread never lets go of
the interpreter, beside the same while that thread is idle; the store is in its process. Both sides of a round run within two seconds; the ratio is of each round.

T28c: what each call costs more than the same call in plain C, which libpython_calls.so makes, in turn
with Python's; both stores are inside this process. T28r: what 4 096 rows of numbers cost to take, by
what they come in; the call is refused right after. Both are informative. PYTHONPATH has the package,
MC_PYTHON_CALLS that library.
"""
import argparse
import array
import ctypes
import itertools
import json
import os
import statistics
import sys
import threading
import time

from mckv.store import MooncakeDistributedStore

MIB = 1 << 20
COUNT, ROW, ROWS = 256, 4096, 4096
TARGETS = {
    "T28": "Python batch_get_into of 256 x 1 MiB beside a thread that never lets go / idle",
    "T28c": "one call of Python / of plain C, on a store in the process",
    "T28r": "Python takes 4 096 rows of three numbers, beside 4 096 keys",
}
GATE, GOAL = 0.55, 0.75


class Busy(threading.Thread):
    """Runs Python code for as long as it is asked to, and idles otherwise."""

    def __init__(self):
        super().__init__(daemon=True)
        self.wanted, self.is_over = threading.Event(), False
        self.start()

    def run(self):
        count = 0
        while not self.is_over:
            self.wanted.wait()
            while self.wanted.is_set():
                count += 1


def rate(store, keys, pointers, sizes, seconds):
    """MB/s over at least so many seconds."""
    begin, calls = time.perf_counter(), 0
    while True:
        assert store.batch_get_into(keys, pointers, sizes) == sizes
        calls += 1
        spent = time.perf_counter() - begin
        if spent >= seconds:
            return calls * COUNT * MIB / spent / 1e6


def run_t28(options):
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 2 * COUNT * MIB, MIB, "tcp", "", "embedded") == 0
    memory = (ctypes.c_ubyte * (COUNT * MIB))()
    base = ctypes.addressof(memory)
    ctypes.memset(base, 1, COUNT * MIB)
    assert store.register_buffer(base, COUNT * MIB) == 0
    keys = [f"bench-{i}" for i in range(COUNT)]
    pointers, sizes = [base + i * MIB for i in range(COUNT)], [MIB] * COUNT
    assert store.batch_put_from(keys, pointers, sizes) == [0] * COUNT
    busy, beside, idle = Busy(), [], []
    rate(store, keys, pointers, sizes, options.seconds / 4)
    for _ in range(options.rounds):
        idle.append(rate(store, keys, pointers, sizes, options.seconds))
        busy.wanted.set()
        beside.append(rate(store, keys, pointers, sizes, options.seconds))
        busy.wanted.clear()
    busy.is_over = True
    busy.wanted.set()
    store.close()
    ratios = [one / other for one, other in zip(beside, idle)]
    ratio = statistics.median(ratios)
    return {"ratio": ratio, "min": min(ratios), "max": max(ratios), "rounds": options.rounds,
            "ours": statistics.median(beside), "peer": statistics.median(idle), "unit": "MB/s",
            "better": "higher", "gate": GATE, "goal": GOAL, "ok": ratio >= GATE}


def calls_of(store, base):
    """(name, call, is_batch); their numbers are those of python_calls.c."""
    keys = [f"row-{i:02x}" for i in range(COUNT)]
    pointers, sizes = array.array("Q", range(base, base + COUNT * ROW, ROW)), [ROW] * COUNT
    rows, lengths, zeros = [[pointer] for pointer in pointers], [[ROW]] * COUNT, [[0]] * COUNT
    small = bytes(64)
    assert store.put("small", small) == 0 and store.put("large", bytes(MIB)) == 0
    assert store.batch_put_from(keys, pointers, sizes) == [0] * COUNT
    assert store.batch_get_session_start(keys) == [0] * COUNT
    return [("is_exist", lambda: store.is_exist("small")), ("get, 64 B", lambda: store.get("small")),
            ("put of what is there, 64 B", lambda: store.put("small", small)), ("upsert, 64 B", lambda: store.upsert("upserted", small)),
            ("get_into, 64 B", lambda: store.get_into("small", base, 64)), ("get_into, 1 MiB", lambda: store.get_into("large", base, MIB)),
            ("batch_is_exist, 256 keys", lambda: store.batch_is_exist(keys)),
            ("batch_get_into, 256 x 4 KiB", lambda: store.batch_get_into(keys, pointers, sizes)),
            ("ranges of a get session, 256 x 4 KiB", lambda: store.batch_get_into_multi_buffer_ranges(keys, rows, lengths, zeros))]


def time_of(call, count):
    """Nanoseconds of a call, with the loop around it (some 20 ns)."""
    begin = time.perf_counter_ns()
    for _ in itertools.repeat(None, count):
        call()
    return (time.perf_counter_ns() - begin) / count


def in_turn(options, number, call, library):
    """(ratio, Python's ns, C's ns): the medians of the rounds."""
    seconds = options.seconds / 10
    count = max(1, int(seconds * 1e9 / time_of(call, 3)))
    rounds = []
    for _ in range(options.rounds):
        ours, plain = time_of(call, count), library.calls_run(number, count) / count
        assert plain > 0, number
        rounds.append((ours / plain, ours, plain))
    return [statistics.median(column) for column in zip(*rounds)]


def run_t28c(options):
    library = ctypes.CDLL(os.environ.get("MC_PYTHON_CALLS", "libpython_calls.so"))
    library.calls_run.restype, library.calls_run.argtypes = ctypes.c_int64, (ctypes.c_int, ctypes.c_uint64)
    library.calls_open.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 64 * MIB, MIB, "tcp", "", "embedded") == 0
    memory, other = (ctypes.c_ubyte * (2 * MIB))(), (ctypes.c_ubyte * (2 * MIB))()
    base = ctypes.addressof(memory)
    assert store.register_buffer(base, 2 * MIB) == 0
    assert library.calls_open(ctypes.addressof(other), 2 * MIB, ROW) == 0
    table = []
    for number, (name, call) in enumerate(calls_of(store, base)):
        ratio, ours, plain = in_turn(options, number, call, library)
        table.append({"call": name, "ratio": ratio, "ns": ours, "c_ns": plain})
    library.calls_close()
    store.close()
    return {"unit": "ns", "better": "lower", "rounds": options.rounds, "ok": True, "table": table,
            "lines": [f"{row['call']:<38} C {row['c_ns']:>9.0f} ns, Python {row['ns']:>9.0f} ns: "
                      f"{row['ns'] - row['c_ns']:+.0f} ns, {row['ratio']:.3g} times" for row in table]}


def columns_of(numbers):
    """The same column of numbers, one to a row, in each form that is taken."""
    yield "a list of int per row", [[number] for number in numbers]
    yield "a tuple of int per row", [(number,) for number in numbers]
    yield "an array per row", [array.array("Q", [number]) for number in numbers]
    flat = array.array("Q", numbers)
    yield "a memoryview of two dimensions", memoryview(flat).cast("B").cast("Q", (len(numbers), 1))
    try:
        import numpy
    except ImportError:
        return
    yield "numpy, two dimensions", numpy.array(numbers, dtype=numpy.uint64).reshape(-1, 1)
    yield "numpy, an array per row", list(numpy.array(numbers, dtype=numpy.uint64).reshape(-1, 1))


def run_t28r(options):
    store, keys = MooncakeDistributedStore(), [f"key-{i:060d}" for i in range(ROWS)]
    numbers, table = list(range(10**14, 10**14 + ROWS)), []
    flat = [("a list of int, flat", numbers), ("an array, flat", array.array("Q", numbers))]
    for name, column in flat:
        table.append((name, 2, lambda column=column: store.batch_get_into(keys, column, column)))
    for name, column in columns_of(numbers):
        table.append((name, 3, lambda column=column: store.batch_get_into_multi_buffer_ranges(keys, column, column, column)))
    rows = []
    for name, columns, call in table:
        best = min(time_of(call, 1) for _ in range(max(20, int(options.seconds * 50)))) / 1e3
        rows.append({"from": name, "columns": columns, "us": best})
    return {"unit": "us", "better": "lower", "rounds": 1, "ok": all(row["us"] < 1000 for row in rows), "table": rows,
            "lines": [f"{row['from']:<38} {row['columns']} columns: {row['us']:.0f} us" for row in rows]}


def show(target, row, as_json):
    if as_json:
        print(json.dumps({"id": target, "what": TARGETS[target], **{name: row[name] for name in row if name != "lines"}}))
        return
    print(f"{target:<5} {TARGETS[target]}")
    if "ratio" in row:
        print(f"      {row['ratio']:.4g} ({row['min']:.4g} to {row['max']:.4g}, "
              f"{row['rounds']} rounds)  gate {row['gate']} {'met' if row['ok'] else 'NOT MET'}, "
              f"goal {row['goal']}")
        print(f"      beside {row['ours']:.5g} {row['unit']}, idle {row['peer']:.5g} {row['unit']}")
    else:
        print("\n".join("      " + line for line in row["lines"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("ids", nargs="*")
    options = parser.parse_args()
    if options.list:
        print("\n".join(TARGETS))
        return 0
    for target, run in (("T28", run_t28), ("T28c", run_t28c), ("T28r", run_t28r)):
        if not options.ids or target in options.ids:
            show(target, run(options), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
