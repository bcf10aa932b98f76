#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""T28: bench_python.py [--json] [--rounds N] [--seconds S] [--list] [ID ...]

batch_get_into of 256 objects of 1 MiB by a Python program of which another thread never lets go of
the interpreter, beside the same while that thread is idle; the store is in its process. Both sides of a round run within two seconds; the ratio is of each round.

T28c: what a call costs more than plain C would: is_exist of a store inside this process, in ns, by
its best round; informative. PYTHONPATH has the package.
"""
import argparse
import ctypes
import json
import statistics
import sys
import threading
import time

from mckv.store import MooncakeDistributedStore

MIB = 1 << 20
COUNT = 256
TARGETS = {
    "T28": "Python batch_get_into of 256 x 1 MiB beside a thread that never lets go / idle",
    "T28c": "one call of Python on a store in its process",
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


def run_t28c(options):
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", MIB, 0, "tcp", "", "embedded") == 0
    assert store.put("key", b"x") == 0
    figures = {}
    for name, call in (("is_exist", lambda: store.is_exist("key")), ("get", lambda: store.get("key")),
                       ("upsert", lambda: store.upsert("key", b"x"))):
        best, end = float("inf"), time.perf_counter() + options.seconds
        while time.perf_counter() < end:
            begin = time.perf_counter_ns()
            for _ in range(1000):
                call()
            best = min(best, (time.perf_counter_ns() - begin) / 1000)
        figures[name] = best
    store.close()
    return {"ours": figures["is_exist"], "unit": "ns", "rounds": 1, "better": "lower", "ok": True,
            "note": ", ".join(f"{name} {value:.0f} ns" for name, value in figures.items())}


def show(target, row, as_json):
    if as_json:
        print(json.dumps({"id": target, "what": TARGETS[target], **row}))
        return
    print(f"{target:<5} {TARGETS[target]}")
    if "ratio" in row:
        print(f"      {row['ratio']:.4g} ({row['min']:.4g} to {row['max']:.4g}, "
              f"{row['rounds']} rounds)  gate {row['gate']} {'met' if row['ok'] else 'NOT MET'}, "
              f"goal {row['goal']}")
        print(f"      beside {row['ours']:.5g} {row['unit']}, idle {row['peer']:.5g} {row['unit']}")
    else:
        print(f"      {row['note']}")


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
    for target, run in (("T28", run_t28), ("T28c", run_t28c)):
        if not options.ids or target in options.ids:
            show(target, run(options), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
