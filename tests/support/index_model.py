#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slow, plain model of the session prefix index: what every answer must be.

usage: index_model.py [SCRIPT.jsonl]          answers each question of the script
       index_model.py --random SEED [N]       writes a random, well-behaved script with its answers
       index_model.py --hostile SEED [N]      the same with streams that contradict themselves
       index_model.py --held SEED [N]         the same with blocks that engines hold, each for itself

A script is JSON lines: operations ("op") change the index, questions ("q") print one answer line.
subscriber/mc_index.h says what the words mean. The model favours being obviously right
over everything else; use it as the oracle of tests. It has no bounds; an index at its bounds may
let lineage go, never a resident block.

Operations
 {"op":"layout","layout":L,"prefix":P?}         starts with an empty index; P: exact text before the page's own key
     L: "u64" | "sglang:mha:tp=N" | "sglang:mla" | "vllm:tp=N"
 {"op":"stored","tenant","backend","key","medium","session"?}      a store event
 {"op":"removed","tenant","backend","key","medium"}
 {"op":"cleared","tenant","backend"}
 {"op":"source_lost","backend"}                 the store's stream can't be trusted any more
 {"op":"engine_stored","tenant","worker","dp_rank","tier","parent"?,"hashes":[...],"session"?}
 {"op":"engine_held","tenant","worker","dp_rank","tier","hashes":[...],"session"?}    each for itself, no chain
 {"op":"engine_removed","tenant","worker","dp_rank","tier","hashes":[...]}
 {"op":"engine_cleared","tenant","worker","dp_rank"}
 {"op":"worker_lost","worker"}                  all its ranks, tiers and tenants
 {"op":"observe","tenant","session","hashes":[...]}   the router saw this chain, from its first block on
 {"op":"session_end","tenant","session"}
Questions
 {"q":"match","tenant","hashes":[...]}     see match()
 {"q":"heads","tenant","session"}          deepest blocks of the session
 {"q":"lineage","tenant","session"}        root-first chains, one per head
 {"q":"resident","tenant","session"}       per owner and tier: blocks of the lineage held, contiguous prefix
 {"q":"sessions_of","tenant","hash"}       sessions whose lineage holds the block

A chain whose lineage is refused answers {"error":"conflicting_parent"|"cyclic_parent"}: its links and its
session are dropped whole, its residency counts all the same. Hashes are unsigned 64-bit integers.
Worker names hold no ':' and no '/'. An empty session is none.
"""
import json
import random
import re
import sys

TIERS = {"cpu": "external", "disk": "disk"}     # other media advance lineage, hold nothing


class Layout:
    """key -> (hash, part, digest), and how many parts make a page."""

    def __init__(self, line):
        self.kind, *opts = line["layout"].split(":")
        numbers = dict(o.split("=") for o in opts if "=" in o)
        self.ranks = int(numbers.get("tp", 1))
        self.mla = "mla" in opts
        self.parts = self.ranks * (2 if self.kind == "sglang" and not self.mla else 1)
        self.prefix = line.get("prefix", "")

    def parse(self, key):
        joint = {"u64": "", "sglang": "_", "vllm": ""}[self.kind]
        head = self.prefix + joint if self.prefix else ""
        if not key.startswith(head):
            return None
        key = key[len(head):]
        if self.kind == "u64":
            m = re.fullmatch(r"0[xX]([0-9a-fA-F]+)|([0-9]+)", key)
            if not m or not key.isascii():
                return None
            value = int(m.group(1), 16) if m.group(1) else int(m.group(2))
            # two spellings of one number are two pages: the first stands
            return (value, "", key) if value < 2**64 else None
        if self.kind == "sglang":
            m = re.fullmatch(r"([0-9a-f]{64})" + ("__k" if self.mla else r"_(0|[1-9][0-9]*)_([kv])"), key)
            if not m:
                return None
            value = int(m.group(1)[:16], 16)
            if self.mla:
                return value, "", m.group(1)
            return (value, m.group(2) + m.group(3), m.group(1)) if int(m.group(2)) < self.ranks else None
        m = re.fullmatch(r"@tp_rank:(0|[1-9][0-9]*)(?:@pcp0)?(?:@dcp0)?(?:@pp_rank:0)?(?:@group:0)?"
                         r"@([0-9a-f]{32,64})", key)
        if not m or int(m.group(1)) >= self.ranks:
            return None
        return int(m.group(2)[-16:], 16), m.group(1), m.group(2)


class Index:
    def __init__(self, layout):
        self.layout = layout
        self.parent = {}            # (tenant, hash) -> hash or None
        self.roots = set()          # (tenant, hash) that someone said begins a sequence
        self.parts = {}             # (owner, tier, tenant, hash) -> set of parts, stores only
        self.digest = {}            # (tenant, hash) -> digest of the page whose parts are held
        self.resident = set()       # (owner, tier, tenant, hash)
        self.heads = {}             # (tenant, session) -> set of hashes

    # chains
    def path(self, tenant, h):
        """From h up to its root."""
        out = []
        while h is not None:
            out.append(h)
            h = self.parent.get((tenant, h))
        return out

    def chain(self, tenant, parent, hashes):
        """Checks, then links hashes below parent (None: they begin a sequence). Error name or None."""
        above = parent
        seen = set() if parent is None else set(self.path(tenant, parent))
        for h in hashes:
            if h in seen:
                return "cyclic_parent"
            seen.update(self.path(tenant, h))
            known = self.parent.get((tenant, h))
            if above is None:
                if known is not None:
                    return "conflicting_parent"
            elif (tenant, h) in self.roots or (known is not None and known != above):
                return "conflicting_parent"
            above = h
        if parent is None:
            self.roots.add((tenant, hashes[0]))
        else:
            self.parent.setdefault((tenant, parent), None)
        above = parent
        for h in hashes:
            if self.parent.get((tenant, h)) is None:
                self.parent[(tenant, h)] = above
            above = h
        for key, heads in self.heads.items():
            if key[0] == tenant:
                self.subsume(tenant, heads)
        return None

    def subsume(self, tenant, heads):
        for h in list(heads):
            heads.difference_update(self.path(tenant, h)[1:])

    def advance(self, tenant, session, h):
        if not session:
            return
        self.parent.setdefault((tenant, h), None)
        heads = self.heads.setdefault((tenant, session), set())
        if not any(h in self.path(tenant, f) for f in heads):
            heads.add(h)
            self.subsume(tenant, heads)

    # operations
    def stored(self, o):
        parsed = self.layout.parse(o["key"])
        if parsed is None:
            return None
        h, part, digest = parsed
        tenant = o["tenant"]
        if o["medium"] in TIERS:
            held = any(p[2:] == (tenant, h) and s for p, s in self.parts.items())
            if held and self.digest.get((tenant, h)) != digest:
                return None             # another page of the same 64 bits: the first one stands
            self.digest[(tenant, h)] = digest
            place = ("store:" + o["backend"], TIERS[o["medium"]], tenant, h)
            self.parts.setdefault(place, set()).add(part)
            if len(self.parts[place]) >= self.layout.parts:
                self.resident.add(place)
        self.advance(tenant, o.get("session"), h)
        return None

    def removed(self, o):
        parsed = self.layout.parse(o["key"])
        if parsed is None or o["medium"] not in TIERS:
            return None
        h, part, digest = parsed
        if self.digest.get((o["tenant"], h)) != digest:
            return None
        place = ("store:" + o["backend"], TIERS[o["medium"]], o["tenant"], h)
        self.parts.get(place, set()).discard(part)
        if len(self.parts.get(place, ())) < self.layout.parts:
            self.resident.discard(place)
        return None

    def drop(self, keep):
        self.resident = {p for p in self.resident if keep(p)}
        self.parts = {p: s for p, s in self.parts.items() if keep(p)}

    def cleared(self, o):
        self.drop(lambda p: (p[0], p[2]) != ("store:" + o["backend"], o["tenant"]))

    def source_lost(self, o):
        self.drop(lambda p: p[0] != "store:" + o["backend"])

    def engine_stored(self, o):
        tenant, hashes = o["tenant"], o["hashes"]
        if not hashes:
            return None
        owner = "%s/%d" % (o["worker"], o["dp_rank"])
        self.resident.update((owner, o["tier"], tenant, h) for h in hashes)
        error = self.chain(tenant, o.get("parent"), hashes)
        if error is None:
            self.advance(tenant, o.get("session"), hashes[-1])
        return error

    def engine_held(self, o):
        owner = "%s/%d" % (o["worker"], o["dp_rank"])
        for h in o["hashes"]:
            self.resident.add((owner, o["tier"], o["tenant"], h))
            self.advance(o["tenant"], o.get("session"), h)

    def engine_removed(self, o):
        owner = "%s/%d" % (o["worker"], o["dp_rank"])
        self.resident.difference_update((owner, o["tier"], o["tenant"], h) for h in o["hashes"])

    def engine_cleared(self, o):
        owner = "%s/%d" % (o["worker"], o["dp_rank"])
        self.drop(lambda p: (p[0], p[2]) != (owner, o["tenant"]))

    def worker_lost(self, o):
        self.drop(lambda p: p[0].split("/")[0] != o["worker"] or p[0].startswith("store:"))

    def observe(self, o):
        if not o["hashes"]:
            return None
        error = self.chain(o["tenant"], None, o["hashes"])
        if error is None:
            self.advance(o["tenant"], o["session"], o["hashes"][-1])
        return error

    def session_end(self, o):
        self.heads.pop((o["tenant"], o["session"]), None)

    # questions
    def places(self, tenant):
        return sorted({p[:2] for p in self.resident if p[2] == tenant})

    def prefix(self, places, tenant, hashes):
        """How many leading hashes are each held by at least one of the places."""
        n = 0
        for h in hashes:
            if not any((*p, tenant, h) in self.resident for p in places):
                break
            n += 1
        return n

    def match(self, q):
        """match: contiguous blocks from the first, per owner and tier (only where there is one);
        store: the same over all stores and their tiers together;
        workers: per engine owner that holds the first block: `own` over its own tiers, `with_store`
        over its own tiers and all stores, which is what a request routed to it would not compute."""
        tenant, hashes = q["tenant"], q["hashes"]
        places = self.places(tenant)
        stores = [p for p in places if p[0].startswith("store:")]
        rows = [(p, self.prefix([p], tenant, hashes)) for p in places]
        workers = []
        for owner in sorted({p[0] for p in places} - {p[0] for p in stores}):
            own = [p for p in places if p[0] == owner]
            if self.prefix(own, tenant, hashes[:1]):
                workers.append({"owner": owner, "own": self.prefix(own, tenant, hashes),
                                "with_store": self.prefix(own + stores, tenant, hashes)})
        return {"match": [{"owner": p[0], "tier": p[1], "blocks": n} for p, n in rows if n],
                "store": self.prefix(stores, tenant, hashes), "workers": workers}

    def chains(self, q):
        heads = sorted(self.heads.get((q["tenant"], q["session"]), ()))
        return [self.path(q["tenant"], h)[::-1] for h in heads]

    def q_heads(self, q):
        return {"heads": sorted(self.heads.get((q["tenant"], q["session"]), ()))}

    def lineage(self, q):
        return {"lineage": self.chains(q)}

    def resident_of(self, q):
        """prefix counts only along chains that begin at a known root."""
        tenant, chains = q["tenant"], self.chains(q)
        blocks = {h for chain in chains for h in chain}
        rooted = [c for c in chains if (tenant, c[0]) in self.roots]
        rows = []
        for p in self.places(tenant):
            held = sum((*p, tenant, h) in self.resident for h in blocks)
            if held:
                rows.append({"owner": p[0], "tier": p[1], "blocks": held,
                             "prefix": max([self.prefix([p], tenant, c) for c in rooted] or [0])})
        return {"blocks": len(blocks), "resident": rows}

    def sessions_of(self, q):
        return {"sessions": sorted(
            s for (t, s), heads in self.heads.items() if t == q["tenant"]
            and any(q["hash"] in self.path(t, f) for f in heads))}


QUESTIONS = {"match": Index.match, "heads": Index.q_heads, "lineage": Index.lineage,
             "resident": Index.resident_of, "sessions_of": Index.sessions_of}


def run(lines):
    """Yields (line, answer or None)."""
    index = None
    for line in lines:
        if line.get("op") == "layout":
            index = Index(Layout(line))
            yield line, None
        elif "op" in line:
            error = getattr(index, line["op"])(line)
            yield line, {"error": error} if error else None
        else:
            yield line, QUESTIONS[line["q"]](index, line)


LAYOUTS = {
    "u64": lambda h, i, p: p + (str(h) if i % 2 else hex(h)),
    "sglang:mla": lambda h, i, p: (p and p + "_") + "%016x%048x__k" % (h, 7),
    "sglang:mha:tp=2": lambda h, i, p: (p and p + "_") + "%016x%048x_%d_%s" % (h, 7, i % 2, "kv"[i // 2 % 2]),
    "vllm:tp=2": lambda h, i, p: p + "@tp_rank:%d@pcp0@dcp0@pp_rank:0@group:0@%048x%016x" % (i % 2, 7, h),
}


def random_script(seed, count):
    """Streams that keep their promises: chains are parts of trees, parents are right."""
    rng = random.Random(seed)
    name = rng.choice(sorted(LAYOUTS))
    prefix = rng.choice(["", "m"])
    key = LAYOUTS[name]
    yield dict(op="layout", layout=name, prefix=prefix)
    tenants = ["default", "t2"]
    trees = {t: [[rng.getrandbits(64)] for _ in range(3)] for t in tenants}

    def grow(tenant):
        chain = rng.choice(trees[tenant])
        cut = chain[:rng.randint(1, len(chain))]
        longer = cut + [rng.getrandbits(64) for _ in range(rng.randint(0, 4))]
        trees[tenant].append(longer)
        return longer

    for _ in range(count):
        t = rng.choice(tenants)
        chain = grow(t) if rng.random() < 0.5 else rng.choice(trees[t])
        h = rng.choice(chain)
        s = "s%d" % rng.randint(1, 5)
        store = {"tenant": t, "backend": rng.choice(["n1", "n2"])}
        engine = {"tenant": t, "worker": rng.choice(["w0", "w1"]), "dp_rank": rng.randint(0, 1)}
        tier = rng.choice(["device", "device", "host"])
        medium = rng.choice(["cpu", "cpu", "disk"])
        roll = rng.random()
        if roll < 0.25:
            line = dict(op="stored", key=key(h, rng.randint(0, 3), prefix), medium=medium, **store)
            if rng.random() < 0.7:
                line["session"] = s
            yield line
        elif roll < 0.36:
            yield dict(op="removed", key=key(h, rng.randint(0, 3), prefix), medium=medium, **store)
        elif roll < 0.38:
            yield dict(op="cleared", **store)
        elif roll < 0.39:
            yield dict(op="source_lost", backend=store["backend"])
        elif roll < 0.55:
            at = rng.randint(0, len(chain) - 1)
            line = dict(op="engine_stored", tier=tier, hashes=chain[at:], **engine)
            if at:
                line["parent"] = chain[at - 1]
            if rng.random() < 0.6:
                line["session"] = s
            yield line
        elif roll < 0.61:
            yield dict(op="engine_removed", tier=tier, hashes=rng.sample(chain, 1), **engine)
        elif roll < 0.62:
            yield dict(op="engine_cleared", **engine)
        elif roll < 0.63:
            yield dict(op="worker_lost", worker=engine["worker"])
        elif roll < 0.68:
            yield dict(op="observe", tenant=t, session=s, hashes=chain)
        elif roll < 0.69:
            yield dict(op="session_end", tenant=t, session=s)
        elif roll < 0.80:
            yield dict(q="match", tenant=t, hashes=chain)
        elif roll < 0.86:
            yield dict(q="heads", tenant=t, session=s)
        elif roll < 0.92:
            yield dict(q="lineage", tenant=t, session=s)
        elif roll < 0.97:
            yield dict(q="resident", tenant=t, session=s)
        else:
            yield dict(q="sessions_of", tenant=t, hash=h)


def hostile_script(seed, count):
    """Few blocks, hashes 0 and 2^64-1, foreign keys, second digests, cycles and conflicts."""
    rng = random.Random(seed)
    name = rng.choice(sorted(LAYOUTS))
    prefix = rng.choice(["", "m", "a/b_c"])
    yield dict(op="layout", layout=name, prefix=prefix)
    blocks = list(range(rng.choice([4, 8, 14, 25]))) + [2**64 - 1, 2**63]
    foreign = ["", "0x", "-1", " 5", "5 ", "0x1_", "m@00", "@" + "0" * 32, "0" * 64 + "_9_k", "0" * 64 + "_00_v",
               "0" * 63 + "__k", "1\n", "18446744073709551616", "x" + "0" * 64 + "__k", prefix]

    def key(h):
        if rng.random() < 0.05:
            return rng.choice(foreign)
        text = LAYOUTS[name](h, rng.randint(0, 3), prefix)
        if name != "u64" and rng.random() < 0.05:
            text = text.replace("%048x" % 7, "%048x" % 8)       # same 64 bits, another page
        if rng.random() < 0.03:
            text = "y" + text
        return text

    def chain():
        if rng.random() < 0.4:
            return [rng.choice(blocks) for _ in range(rng.randint(0, 5))]
        out = [rng.choice(blocks)]
        while rng.random() < 0.75:
            out.append(rng.choice(blocks) if rng.random() < 0.1
                       else blocks[(out[-1] * 2 + rng.randint(1, 2)) % len(blocks)])
        return out

    for _ in range(count):
        t = rng.choice(["default", "t2"]) if rng.random() < 0.3 else "default"
        s = rng.choice(["s1", "s2", "s3", "s4", ""])
        engine = dict(tenant=t, worker=rng.choice(["w0", "w1"]), dp_rank=rng.randint(0, 1))
        store = dict(tenant=t, backend=rng.choice(["n1", "n2"]))
        medium = rng.choice(["cpu", "disk", "cpu", "disk", "nvme"])
        tier = rng.choice(["device", "host"])
        roll = rng.random()
        if roll < 0.22:
            line = dict(op="stored", key=key(rng.choice(blocks)), medium=medium, **store)
            if rng.random() < 0.7:
                line["session"] = s
            yield line
        elif roll < 0.30:
            yield dict(op="removed", key=key(rng.choice(blocks)), medium=medium, **store)
        elif roll < 0.32:
            yield dict(op="cleared", **store)
        elif roll < 0.33:
            yield dict(op="source_lost", backend=store["backend"])
        elif roll < 0.50:
            line = dict(op="engine_stored", tier=tier, hashes=chain(), **engine)
            if rng.random() < 0.5:
                line["parent"] = rng.choice(blocks)
            if rng.random() < 0.6:
                line["session"] = s
            yield line
        elif roll < 0.54:
            yield dict(op="engine_removed", tier=tier, hashes=chain(), **engine)
        elif roll < 0.55:
            yield dict(op="engine_cleared", **engine)
        elif roll < 0.56:
            yield dict(op="worker_lost", worker=engine["worker"])
        elif roll < 0.60:
            yield dict(op="observe", tenant=t, session=s, hashes=chain())
        elif roll < 0.62:
            yield dict(op="session_end", tenant=t, session=s)
        elif roll < 0.72:
            yield dict(q="match", tenant=t, hashes=chain())
        elif roll < 0.79:
            yield dict(q="heads", tenant=t, session=s)
        elif roll < 0.86:
            yield dict(q="lineage", tenant=t, session=s)
        elif roll < 0.95:
            yield dict(q="resident", tenant=t, session=s)
        else:
            yield dict(q="sessions_of", tenant=t, hash=rng.choice(blocks))


def held_script(seed, count):
    """Either of them, where engines also tell of blocks that they hold, each for itself: those of a tier behind
    the device, a few at a time, some tagged; before their chain is known, after it, and instead of it."""
    rng = random.Random(seed)
    kind = random_script if seed % 2 else hostile_script
    for line in kind(seed, count):
        if line.get("op") == "engine_stored" and line["hashes"] and rng.random() < 0.6:
            held = dict(op="engine_held", tenant=line["tenant"], worker=line["worker"], dp_rank=line["dp_rank"],
                        tier=rng.choice(["host", "disk", "device", "external"]),
                        hashes=[rng.choice(line["hashes"]) for _ in range(rng.randint(0, 4))])
            if "session" in line and rng.random() < 0.5:
                held["session"] = line["session"]
            lines = [held, line]
            if rng.random() < 0.5:
                lines.reverse()
            yield lines[0]
            if rng.random() < 0.6:
                yield lines[1]
        else:
            yield line


def main():
    makers = {"--random": random_script, "--hostile": hostile_script, "--held": held_script}
    if sys.argv[1:2] and sys.argv[1] in makers:
        count = int(sys.argv[3]) if len(sys.argv) > 3 else 400
        for line, answer in run(makers[sys.argv[1]](int(sys.argv[2]), count)):
            if answer is not None:
                line = dict(line, answer=answer)
            print(json.dumps(line))
        return
    source = open(sys.argv[1]) if len(sys.argv) > 1 else sys.stdin
    for line, answer in run(json.loads(text) for text in source if text.strip()):
        if answer is not None:
            print(json.dumps(answer))


if __name__ == "__main__":
    main()
