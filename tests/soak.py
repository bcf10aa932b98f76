#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store under mixed load, while its processes are killed, stopped and restarted.

usage: soak.py [--seconds 60] [--seed 1] [--nodes 3] [--segment 96MB]

One master, some nodes, two loads (one by shared memory, one by tcp) that check
every byte they read, and a strict follower of the events. At random, from the
seed: nodes and loads are killed with SIGKILL, ended with SIGTERM, stopped and
continued; the master is killed and started again. After each round the load
pauses and the follower's places must become what `mc-store ls` shows. Exit 0 if
nothing was torn, stale, lost or doubled; any failure names the seed.
"""
import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from event_bytes import StrictFollower, Subscriber  # noqa: E402
from free_port import free_port  # noqa: E402

BUILD = os.environ.get("MC_BUILD", "build")
MC_MASTER = os.environ.get("MC_MASTER", os.path.join(BUILD, "mc-master"))
MC_STORE = os.environ.get("MC_STORE", os.path.join(BUILD, "mc-store"))
SOAK_LOAD = os.environ.get("MC_SOAK_LOAD", os.path.join(BUILD, "tests", "soak_load"))
CLIENT_TTL_S = 3
SETTLE_S = 30  # quarantine, leases and expiries are over by then
WORD_S = 60    # a word from a process that lives


class Failure(Exception):
    pass


class Program:
    """A process of ours, with what it says."""

    def __init__(self, name, argv, folder):
        self.name = name
        self.words = open(os.path.join(folder, name + ".log"), "ab")
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.words)
        self.is_stopped = False
        self.said = b""  # read, and not yet a line

    def line(self, seconds=WORD_S):
        """Its next line."""
        while b"\n" not in self.said:
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                raise Failure("%s says nothing" % self.name)
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise Failure("%s ended with %r" % (self.name, self.process.wait(10)))
            self.said += data
        line, self.said = self.said.split(b"\n", 1)
        return line.decode()

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, number):
        self.process.send_signal(number)
        self.is_stopped = number == signal.SIGSTOP

    def end(self, number=signal.SIGKILL, seconds=10):
        """Its exit code, negative for a signal."""
        if self.process.poll() is None:
            if self.is_stopped:
                self.send(signal.SIGCONT)
            self.process.send_signal(number)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure("%s does not end on signal %d" % (self.name, number))
        for pipe in (self.process.stdin, self.process.stdout, self.words):
            pipe.close()
        return code


class Follower(threading.Thread):
    """Follows one life of the master."""

    def __init__(self, endpoint):
        super().__init__(daemon=True)
        self.subscriber = Subscriber(endpoint)
        self.lock = threading.Lock()
        self.model = StrictFollower()
        self.is_over = False
        self.start()

    def run(self):
        while not self.is_over:
            frames = self.subscriber.receive(0.2)
            if frames is not None:
                with self.lock:
                    self.model.message(frames)
        self.subscriber.close()

    def places(self):
        with self.lock:
            return ({(key, medium): session for (tenant, key, medium), (session, _, _) in self.model.places.items()},
                    list(self.model.faults), self.model.events)

    def end(self):
        self.is_over = True
        self.join(10)


class Soak:
    ROUND, REST = 3, 1  # faults between two quiet points, at most; how long the rests are

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.dice = random.Random(args.seed)
        self.nodes, self.loads = {}, {}
        self.master = self.follower = None
        self.rpc = None
        self.began = 0
        self.totals, self.story, self.events, self.lives = {}, {}, 0, 0
        self.board = os.path.join(folder, "board")
        with open(self.board, "wb") as board:
            board.write((1).to_bytes(8, "little") + bytes(8 * 512))

    # ---- processes ----

    def start_master(self):
        port = self.rpc.rsplit(":", 1)[1] if self.rpc else str(free_port())
        self.master = Program("master", [
            MC_MASTER, "--rpc_address=127.0.0.1", "--rpc_port=" + port, "--metrics_port=0", "--metrics_host=127.0.0.1",
            "--client_ttl=%d" % CLIENT_TTL_S, "--default_kv_lease_ttl=500ms", "--enable_kv_events",
            "--kv_events_bind_endpoint=tcp://127.0.0.1:0", "--kv_events_backend_id=soak"], self.folder)
        words = dict(word.split("=", 1) for word in self.master.line(10).split()[1:])
        self.rpc = words["rpc"]
        self.follower = Follower(words["events"])
        self.lives += 1

    def start_node(self, number):
        self.nodes[number] = Program("node-%d" % number, [
            MC_STORE, "serve", "--master", self.rpc, "--segment", self.args.segment, "--host", "127.0.0.1"],
            self.folder)

    def start_load(self, number):
        transport = ("auto", "tcp")[number % 2]
        self.loads[number] = Program("load-%d" % number, [
            SOAK_LOAD, self.rpc, "127.0.0.1", str(self.args.seed * 1000 + self.dice.randrange(1000)), "3", transport,
            self.board, str(number), "2"], self.folder)

    def wait_ready(self, programs):
        for program in programs:
            if not program.line().startswith("ready"):
                raise Failure("%s is not ready" % program.name)

    def begin(self):
        self.start_master()
        for number in range(self.args.nodes):
            self.start_node(number)
        for number in range(2):
            self.start_load(number)
        self.wait_ready(list(self.nodes.values()) + list(self.loads.values()))

    # ---- faults ----

    def revive(self, table, number, start):
        start(number)
        self.wait_ready([table[number]])

    def kill_node(self):
        number = self.dice.choice(list(self.nodes))
        self.nodes[number].end(signal.SIGKILL)
        time.sleep(self.dice.choice((0, 0, 0.5, CLIENT_TTL_S + 1)))
        self.revive(self.nodes, number, self.start_node)

    def end_node(self):
        number = self.dice.choice(list(self.nodes))
        code = self.nodes[number].end(signal.SIGTERM)
        if code != 0:
            raise Failure("node %d: exit %d after SIGTERM" % (number, code))
        self.revive(self.nodes, number, self.start_node)

    def stop_node(self):
        node = self.nodes[self.dice.choice(list(self.nodes))]
        node.send(signal.SIGSTOP)
        time.sleep(self.dice.choice((0.2, 1, CLIENT_TTL_S + 1.5)))
        node.send(signal.SIGCONT)

    def kill_load(self):
        number = self.dice.choice(list(self.loads))
        self.loads[number].end(signal.SIGKILL)
        self.revive(self.loads, number, self.start_load)

    def stop_load(self):
        load = self.loads[self.dice.choice(list(self.loads))]
        load.send(signal.SIGSTOP)
        time.sleep(self.dice.choice((0.2, 1, CLIENT_TTL_S + 1.5)))
        load.send(signal.SIGCONT)

    def kill_master(self):
        self.close_life()
        self.master.end(signal.SIGKILL)
        time.sleep(self.dice.choice((0, 1)))
        self.start_master()

    def stop_master(self):
        self.master.send(signal.SIGSTOP)
        time.sleep(self.dice.choice((0.2, 1)))
        self.master.send(signal.SIGCONT)

    FAULTS = ("kill_node",) * 3 + ("stop_node",) * 3 + ("kill_load", "stop_load") * 2 + \
        ("end_node", "kill_master", "stop_master")

    # ---- proof ----

    def close_life(self):
        _, faults, events = self.follower.places()
        self.follower.end()
        self.events += events
        if faults:
            raise Failure("the stream breaks rules: %s" % faults[:3])

    def listed(self):
        out = subprocess.run([MC_STORE, "ls", "--master", self.rpc, "--json", "--timeout", "10s"],
                             stdout=subprocess.PIPE, check=False)
        if out.returncode != 0:
            return None
        places = {}
        for row in map(json.loads, out.stdout.decode().splitlines()):
            for medium in row["media"].split("+"):
                places[(row["key"], medium)] = row["session_id"]
        return places

    def agree(self):
        """The follower's places are the store's; waits for what is under way."""
        end = time.monotonic() + SETTLE_S
        while True:
            listed = self.listed()
            places, faults, _ = self.follower.places()
            if faults:
                raise Failure("the stream breaks rules: %s" % faults[:3])
            if listed is not None and listed == places:
                return len(listed)
            if time.monotonic() > end:
                listed = listed or {}
                raise Failure("index and store differ: only followed %s, only listed %s, other session %s" % (
                    sorted(set(places) - set(listed))[:3], sorted(set(listed) - set(places))[:3],
                    [p for p in places if p in listed and places[p] != listed[p]][:3]))
            time.sleep(0.1)

    def quiet(self):
        for load in self.loads.values():
            load.tell("pause")
        for load in self.loads.values():
            if load.line() != "paused":
                raise Failure("%s does not pause" % load.name)
        keys = self.agree()
        for load in self.loads.values():
            load.tell("go")
        return keys

    def check_words(self):
        """Loads that were killed cannot answer for what they saw; their words can."""
        for number in self.loads:
            with open(os.path.join(self.folder, "load-%d.log" % number), "rb") as log:
                bad = [line for line in log if line.startswith(b"soak_load: ")]
            if bad:
                raise Failure("load %d: %s" % (number, bad[0].decode().strip()))

    def check_living(self):
        for program in [self.master] + list(self.nodes.values()) + list(self.loads.values()):
            if program.process.poll() is not None:
                raise Failure("%s ended by itself with %d" % (program.name, program.process.returncode))

    def is_over(self):
        return time.monotonic() - self.began >= self.args.seconds

    def round(self):
        """Some faults with rests between, and what must be true after them; how many keys there are then."""
        for _ in range(self.dice.randrange(1, self.ROUND + 1)):
            time.sleep(self.REST * self.dice.uniform(0.1, 1.5))
            name = self.dice.choice(self.FAULTS)
            self.story[name] = self.story.get(name, 0) + 1
            if self.args.verbose:
                print("%7.1f %s" % (time.monotonic() - self.began, name), flush=True)
            getattr(self, name)()
            self.check_living()
        time.sleep(self.REST * self.dice.uniform(0.5, 2))
        keys = self.quiet()
        self.check_words()
        return keys

    def run(self):
        self.begin()
        self.began = time.monotonic()
        keys = 0
        while not self.is_over():
            keys = max(keys, self.round())
        self.finish(keys)

    def finish(self, keys):
        for load in self.loads.values():
            load.tell("stop")
        for load in self.loads.values():
            for name, n in json.loads(load.line()).items():
                self.totals[name] = self.totals.get(name, 0) + n
            if load.process.wait(20) != 0:
                raise Failure("%s found violations: see %s.log" % (load.name, load.name))
        self.agree()
        for number, node in self.nodes.items():
            code = node.end(signal.SIGTERM)
            if code != 0:
                raise Failure("node %d: exit %d" % (number, code))
        self.close_life()
        code = self.master.end(signal.SIGTERM, 5)
        if code != 0:
            raise Failure("master: exit %d" % code)
        if not self.totals["hits"] or not self.events or not keys:
            raise Failure("nothing was read or followed: %s" % self.totals)
        print("soak: %d s, seed %d: %s" % (self.args.seconds, self.args.seed, json.dumps(self.totals)))
        print("soak: %d events in %d lives of the master, at most %d places at a quiet point; faults %s" % (
            self.events, self.lives, keys, json.dumps(self.story)))

    def clean_up(self):
        programs = [self.master] + list(self.nodes.values()) + list(self.loads.values())
        for program in programs:
            if program and program.process.poll() is None:
                program.process.kill()
                program.process.wait()

    def tell_logs(self):
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), "rb") as log:
                    text = log.read()[-1500:].decode(errors="replace")
                if text:
                    sys.stderr.write("---- %s\n%s\n" % (name, text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--segment", default="96MB")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(args, folder)
        try:
            soak.run()
        except Failure as failure:
            sys.stderr.write("soak: FAILED with seed %d after %s: %s\n" % (args.seed, json.dumps(soak.story), failure))
            soak.tell_logs()
            return 1
        finally:
            soak.clean_up()
    return 0


if __name__ == "__main__":
    sys.exit(main())
