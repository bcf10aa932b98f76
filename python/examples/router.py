#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A router that sends each request to the worker with the longest resident prefix.

    python3 python/examples/router.py examples/data/conversation.jsonl

Workers are simulated: a cache of so many blocks each, least recently used first out.
They tell the index what they hold by the operations that a
`Subscriber(Source(endpoint, profile="engine", worker="w0"), index=index)` would make of
a vLLM or SGLang engine's events. For comparison requests are dealt out in turn.
"""
import argparse
import collections
import json

from mckv.events import Index

BALANCE = 0.02  # blocks of prefix that a block of more work done is worth


class Worker:
    """An engine's cache, and what it says about it."""
    def __init__(self, name, room, index):
        self.name, self.room, self.index = name, room, index
        self.blocks = collections.OrderedDict()
        self.load = 0  # blocks computed

    def tell(self, op, hashes, **more):
        self.index.apply(json.dumps({"op": op, "tenant": "default", "worker": self.name, "dp_rank": 0, "tier": "device",
                                     "hashes": hashes, **more}))

    def serve(self, chain, session):
        """Computes what it does not hold, and holds all of the chain."""
        held = next((i for i, block in enumerate(chain) if block not in self.blocks), len(chain))
        self.load += len(chain) - held
        for block in chain:
            self.blocks[block] = self.blocks.pop(block, True)
        if held < len(chain):
            self.tell("engine_stored", chain[held:], parent=chain[held - 1] if held else None, session=session)
        out = [self.blocks.popitem(last=False)[0] for _ in range(len(self.blocks) - self.room)]
        if out:
            self.tell("engine_removed", out)


def longest_prefix(index, workers, chain):
    """The worker with the longest resident prefix, unless it is much busier than the
    least busy one: a prefix that all requests share would draw all of them to it."""
    own = {row.owner: row.own for row in index.match(chain).workers}
    least = min(worker.load for worker in workers)
    return max(workers, key=lambda worker: own.get(worker.name + "/0", 0) - BALANCE * (worker.load - least))


def run(requests, count, room, choose):
    index = Index("u64")
    workers = [Worker(f"w{i}", room, index) for i in range(count)]
    for number, request in enumerate(requests):
        chain = request["hash_ids"][:room]
        choose(index, workers, chain, number).serve(chain, request["session_id"])
        index.observe(request["session_id"], chain)
    return [worker.load for worker in workers], index


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", help="JSON lines with hash_ids and session_id")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=6000, help="that a worker's cache holds")
    args = parser.parse_args()
    with open(args.trace, encoding="utf-8") as file:
        requests = [json.loads(line) for line in file]
    total = sum(len(request["hash_ids"][: args.blocks]) for request in requests)
    in_turn, _ = run(requests, args.workers, args.blocks, lambda _, workers, __, number: workers[number % len(workers)])
    routed, index = run(requests, args.workers, args.blocks, lambda index, workers, chain, _: longest_prefix(index, workers, chain))
    print(f"requests {len(requests)} blocks {total} workers {args.workers} index nodes {index.stats()['nodes']}")
    for name, loads in (("in turn", in_turn), ("by prefix", routed)):
        print(f"{name}: computed {sum(loads)} ({sum(loads) / total:.1%}), the busiest worker {max(loads)}")


if __name__ == "__main__":
    main()
