#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A subscriber with recovery under every fault that can be made, compared with the store.

usage: chaos.py [--seconds 60 | --faults N] [--seed 1] [--writers 8] [--curve]
                [--python] [--without-recovery] [--verbose]

One master with small queues and a short history, a node, writers, and a subscriber
that reaches the stream and the recovery server through proxies. At random, from the
seed: messages are lost, doubled, late, cut off in the middle of a frame or broken in
their structure; connections are cut; the recovery server is silent or out of reach;
each process is stopped, continued and killed; queues are made to overflow; the
master starts again, with the same range of sequence numbers or another. At each
quiet point the subscriber's mirror, what its callbacks were told, and its index must
become what `mc-store ls` shows, and its sums must be right. Any failure names the
seed. --curve puts CURVE under both sockets, and turns bits of any value then.
--python follows with tests/support/recovering.py, a subscriber written from
docs/events.md alone. --without-recovery proves the rig: it must find a difference.
--faults ends after so many, made more densely: up to six between two quiet points.
"""
import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chaos_proxy import DAMAGES, SEALED, Proxy  # noqa: E402
from free_port import free_port  # noqa: E402
from soak import BUILD, MC_MASTER, MC_STORE, Failure, Program, Soak  # noqa: E402

MC_EVENTS = os.environ.get("MC_EVENTS", os.path.join(BUILD, "mc-events"))
CHAOS_LOAD = os.environ.get("MC_CHAOS_LOAD", os.path.join(BUILD, "tests", "chaos_load"))
CHAOS_FOLLOW = os.environ.get("MC_CHAOS_FOLLOW", os.path.join(BUILD, "tests", "chaos_follow"))
RECOVERING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "support", "recovering.py")
KEYS = 20000
THREADS = 2
CLIENT_TTL_S = 3
SETTLE_S = float(os.environ.get("MC_CHAOS_SETTLE", "60"))
HWM = "8MB"


class Difference(Failure):
    pass


def some(places):
    places = sorted(places)
    return "%d%s" % (len(places), places[:3])


class Chaos(Soak):
    """The processes, faults and proofs of a soak, with a subscriber that is to recover in the follower's place."""

    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.ports = [free_port() for _ in range(3)]
        self.stream = Proxy(("127.0.0.1", self.ports[1]), args.seed * 2)
        self.answers = Proxy(("127.0.0.1", self.ports[2]), args.seed * 2 + 1)
        self.heard, self.quiet_points = {}, 0
        self.joiner = None  # a second follower, until the next quiet point
        self.damages = DAMAGES
        self.keys = self.make_keys() if args.curve else None

    def make_keys(self):
        """Files of the server's pair, of the follower's and of who may come in; the server's public key."""
        self.damages = SEALED
        paths = [os.path.join(self.folder, name) for name in ("server", "friend", "allowed")]
        publics = [subprocess.run([MC_STORE, "keygen", "--curve", path], stdout=subprocess.PIPE, check=True,
                                  text=True).stdout.strip() for path in paths[:2]]
        with open(paths[2], "w") as allowed:
            allowed.write(publics[1] + "\n")
        return paths + publics[:1]

    # ---- processes ----

    def start_master(self):
        dice = self.dice
        flags = ["--kv_events_sequence_epoch=%s" % dice.choice(("true", "false")),
                 "--kv_events_history=%d" % dice.choice((16, 256, 65536)),
                 "--kv_events_queue_capacity=%d" % dice.choice((1024, 65536)),
                 "--kv_events_overflow=%s" % dice.choice(("drop_oldest", "drop_oldest", "block")),
                 "--kv_events_replay_layout=%d" % dice.choice((4, 4, 3))]
        if self.keys:
            flags += ["--curve_server_key_file=" + self.keys[0], "--curve_allowed_keys_file=" + self.keys[2]]
        self.master = Program("master", [
            MC_MASTER, "--rpc_address=127.0.0.1", "--rpc_port=%d" % self.ports[0], "--metrics_port=0",
            "--metrics_host=127.0.0.1", "--segment=64MB", "--client_ttl=%d" % CLIENT_TTL_S,
            "--default_kv_lease_ttl=100ms", "--enable_kv_events", "--kv_events_backend_id=chaos",
            "--kv_events_bind_endpoint=tcp://127.0.0.1:%d" % self.ports[1], "--kv_events_hwm_bytes=" + HWM,
            "--kv_events_replay_endpoint=tcp://127.0.0.1:%d" % self.ports[2], *flags], self.folder)
        words = dict(word.split("=", 1) for word in self.master.line().split()[1:])
        self.rpc, self.admin = words["rpc"], words["admin"]
        self.lives += 1
        self.note("master: " + " ".join(flag.removeprefix("--kv_events_") for flag in flags))

    def follow(self, name, begin="snapshot"):
        recovery = "-" if self.args.without_recovery else self.answers.endpoint
        begin = "now" if self.args.without_recovery else begin
        program = [sys.executable, RECOVERING] if self.args.python else [CHAOS_FOLLOW]
        keys = [self.keys[3], self.keys[1]] if self.keys else []
        return Program(name, program + [self.stream.endpoint, recovery, begin, str(KEYS)] + keys, self.folder)

    def start_load(self, number):
        self.loads[number] = Program("load-%d" % number, [
            CHAOS_LOAD, self.rpc, "w%d" % number, str(self.args.seed * 1000 + self.dice.randrange(1000)),
            str(THREADS), str(KEYS)], self.folder)

    def begin(self):
        self.follower = self.follow("follower", "now")
        self.wait_ready([self.follower])
        self.start_master()
        self.start_node(0)
        for number in range(max(1, self.args.writers // THREADS)):
            self.start_load(number)
        self.wait_ready(list(self.nodes.values()) + list(self.loads.values()))

    # ---- faults ----

    def storm(self):
        """A little of everything on the stream; now and then on what the recovery server says too."""
        rates = {name: self.dice.choice((0, 0.01, 0.05)) for name in ("lost", "twice", "late", "slow")}
        rates["cut"] = self.dice.choice((0, 0, 0.01))
        rates.update((name, 0.03 if self.keys else 0.005)
                     for name in self.dice.sample(self.damages, min(3, len(self.damages))))
        self.stream.policy.storm(rates)
        if self.dice.random() < 0.4:
            self.answers.policy.storm(rates)
        time.sleep(self.dice.uniform(0.3, 2))
        self.stream.policy.calm()
        self.answers.policy.calm()

    def lose_one(self):
        """Some messages in a row, and nothing else: a gap that the next one shows."""
        self.stream.policy.storm({"lost": 1})
        time.sleep(self.dice.uniform(0.01, 0.3))
        self.stream.policy.calm()

    def cut_stream(self):
        self.stream.cut_all()
        if self.dice.random() < 0.5:
            self.stream.policy.is_shut = True
            time.sleep(self.dice.uniform(0.1, 1.5))
            self.stream.policy.calm()

    def cut_answers(self):
        """The recovery server goes in the middle of what it says, or is not there when it is needed."""
        self.answers.cut_all()
        how = self.dice.choice(("is_shut", "is_silent"))
        setattr(self.answers.policy, how, True)
        self.lose_one()
        time.sleep(self.dice.uniform(0.2, 2))
        self.answers.cut_all()
        self.answers.policy.calm()

    def overflow(self):
        """Writers without a rest: the log overflows where it is small, and the subscriber's queue."""
        for load in self.loads.values():
            load.tell("fast")
        self.ask(self.follower, "slow %d" % self.dice.choice((0, 20, 200)), "slow")
        time.sleep(self.dice.uniform(0.5, 2))
        for load in self.loads.values():
            load.tell("slow")
        self.ask(self.follower, "slow 0", "slow")

    def stop_follower(self):
        self.follower.send(signal.SIGSTOP)
        if self.dice.random() < 0.5:
            for load in self.loads.values():
                load.tell("fast")
        time.sleep(self.dice.choice((0.2, 1, 4)))
        for load in self.loads.values():
            load.tell("slow")
        self.follower.send(signal.SIGCONT)

    def kill_follower(self):
        self.gather(self.ask_stat(self.follower))
        self.follower.end(signal.SIGKILL)
        self.follower = self.follow("follower")
        self.wait_ready([self.follower])

    def join(self):
        """Somebody comes in the middle of it, and goes after the next quiet point."""
        if not self.joiner:
            self.joiner = self.follow("joiner")
            self.wait_ready([self.joiner])

    def stop_long(self):
        """As a terminal that was suspended: the stream goes far on meanwhile."""
        for load in self.loads.values():
            load.tell("fast")
        self.follower.send(signal.SIGSTOP)
        time.sleep(30)
        self.follower.send(signal.SIGCONT)
        for load in self.loads.values():
            load.tell("slow")

    def kill_master(self):
        self.master.end(signal.SIGKILL)
        time.sleep(self.dice.choice((0, 1)))
        self.start_master()

    FAULTS = ("storm",) * 6 + ("lose_one", "join") * 3 + ("cut_stream", "cut_answers", "overflow", "stop_follower") * 2 + \
        ("kill_follower", "kill_master", "kill_master", "stop_master", "kill_node", "stop_node", "kill_load", "stop_load")
    LONG = FAULTS * 4 + ("stop_long",)

    def is_over(self):
        return sum(self.story.values()) >= self.args.faults if self.args.faults else super().is_over()

    # ---- proof ----

    def note(self, text):
        if self.args.verbose:
            print("        " + text, flush=True)

    @staticmethod
    def ask(program, line, word):
        """Lines that a follower answers, up to the one that begins with the word."""
        program.tell(line)
        lines = []
        while True:
            answer = program.line()
            if answer.startswith(word):
                return lines, answer
            lines.append(answer)

    def ask_stat(self, program):
        return json.loads(self.ask(program, "stat", "{")[1])

    def gather(self, stat):
        for name in ("events", "gap", "recovered", "epoch", "degraded", "stale", "refused_messages", "refused_events",
                     "duplicates", "restarts", "lost_ids", "queue_full", "replays_asked", "snapshots_asked",
                     "statuses_asked", "failed_requests"):
            self.heard[name] = self.heard.get(name, 0) + stat.get(name, 0)

    def followed(self, program):
        lines, _ = self.ask(program, "dump", "dumped ")
        places = {}
        for key, medium, session in map(str.split, lines):
            if (key, medium) in places:
                raise Failure("the mirror holds %s twice" % key)
            places[(key, medium)] = None if session == "-" else session
        return places

    def wrong_of(self, stat, places):
        """What the follower's own figures contradict, at a quiet point at which it is right about the store."""
        checks = {"entries": len(places), "untold": 0, "unindexed": 0, "told": len(places), "resident": len(places),
                  "out_of_turn": 0, "foreign": 0, "contradictions": 0,
                  "span_ids": stat["events"] + stat["refused_ids"] + stat["lost_ids"]}
        if not self.args.without_recovery:
            # All is made good and was said to be: of this run of the store nothing is lost or refused.
            checks.update(is_recovering=0, is_open=0, missing_ids=0)
        return {name: (stat[name], wanted) for name, wanted in checks.items() if stat[name] != wanted}

    def walked(self):
        """What can be read, by a walk of its own through the store."""
        connection = http.client.HTTPConnection(self.admin, timeout=30)
        try:
            connection.request("GET", "/kv_events/snapshot")
            rows = [json.loads(line) for line in connection.getresponse().read().splitlines()]
        finally:
            connection.close()
        return {(row["object_key"], row["medium"]): row["session_id"] for row in rows[1:-1]}

    def look(self, program):
        """How many places it follows, and what differs now, in words; None: nothing does."""
        before, places, after = self.walked(), self.followed(program), self.walked()
        stat = self.ask_stat(program)
        # What a rule forbids at any time does not wait for a quiet one.
        if stat["out_of_turn"] or stat["foreign"]:
            raise Failure("the callbacks were told what cannot be: %s" % stat)
        if before != after:
            return len(places), "the store is not at rest"
        wrong = self.wrong_of(stat, places)
        if places == after and not wrong:
            return len(places), None
        return len(places), "only followed %s, only listed %s, other session %s; wrong figures %s; %s" % (
            some(set(places) - set(after)), some(set(after) - set(places)),
            some(p for p in places if p in after and places[p] != after[p]), wrong, stat)

    def agree_with(self, program):
        """The mirror is the store's; waits for what is under way, and looks twice before it believes."""
        end, times = time.monotonic() + SETTLE_S, 0
        while times < 2:
            keys, difference = self.look(program)
            self.note("%s: %.200s" % (program.name, difference))
            times = 0 if difference else times + 1
            if difference and time.monotonic() > end:
                raise Difference("%s and store differ: %s" % (program.name, difference))
            time.sleep(0.2)
        return keys

    def agree(self):
        keys = self.agree_with(self.follower)
        if self.joiner:
            self.agree_with(self.joiner)
            self.leave(self.joiner)
            self.joiner = None
        return keys

    def agree_with_list(self):
        """The same by another way than the walk."""
        end = time.monotonic() + SETTLE_S
        while self.listed() != self.followed(self.follower):
            if time.monotonic() > end:
                raise Difference("follower and mc-store ls differ")
            time.sleep(0.2)

    def verify(self):
        """What an operator would ask."""
        keys = ["--curve_server_key", self.keys[3], "--curve_key_file", self.keys[1]] if self.keys else []
        done = subprocess.run([MC_EVENTS, "verify", "--endpoint", self.stream.endpoint, "--recovery",
                               self.answers.endpoint, "--admin", "http://" + self.admin, "--timeout",
                               "%ds" % SETTLE_S, *keys], capture_output=True, text=True, timeout=4 * SETTLE_S)
        if done.returncode != 0 or not done.stdout.startswith("ok "):
            raise Difference("mc-events verify: exit %d: %.500s %.500s" % (done.returncode, done.stdout, done.stderr))
        self.note("verify: " + done.stdout.strip())

    def leave(self, program):
        """It ends as it should, with its input."""
        program.process.stdin.close()
        if program.process.wait(20) != 0:
            raise Failure("%s: exit %d" % (program.name, program.process.returncode))

    def check_living(self):
        super().check_living()
        for program in (self.follower, self.joiner):
            if program and program.process.poll() is not None:
                raise Failure("%s ended by itself with %d" % (program.name, program.process.returncode))

    def check_words(self):
        pass

    def quiet(self):
        self.stream.policy.calm()
        self.answers.policy.calm()
        keys = super().quiet()
        self.quiet_points += 1
        self.note("quiet: %d keys, %s" % (keys, self.ask_stat(self.follower)))
        return keys

    def finish(self, keys):
        self.gather(self.ask_stat(self.follower))
        self.verify()  # while everybody writes
        for load in self.loads.values():
            load.tell("stop")
        for load in self.loads.values():
            for name, n in json.loads(load.line()).items():
                self.totals[name] = self.totals.get(name, 0) + n
        self.agree()
        self.agree_with_list()
        self.verify()
        self.leave(self.follower)
        code = self.master.end(signal.SIGTERM, 10)
        if code != 0:
            raise Failure("master: exit %d" % code)
        if not keys or not self.totals["rows"] or not self.heard["events"]:
            raise Failure("nothing was written or followed: %s, %s" % (self.totals, self.heard))
        print("chaos: %d s, seed %d: %d faults, %d quiet points, at most %d places, %d lives of the master, %s" % (
            time.monotonic() - self.began, self.args.seed, sum(self.story.values()), self.quiet_points, keys,
            self.lives, json.dumps(self.totals)))
        print("chaos: faults %s; messages %s; answers %s" % (json.dumps(self.story), json.dumps(self.stream.policy.story),
                                                            json.dumps(self.answers.policy.story)))
        print("chaos: the subscriber %s" % json.dumps(self.heard))

    def clean_up(self):
        super().clean_up()
        for program in (self.follower, self.joiner):
            if program and program.process.poll() is None:
                program.process.kill()
                program.process.wait()
        self.stream.end()
        self.answers.end()


def run(args, folder):
    chaos = Chaos(args, folder)
    try:
        chaos.run()
    except Failure as failure:
        if args.without_recovery and isinstance(failure, Difference):
            print("chaos: found what it had to find: %.300s" % failure)
            return 0
        sys.stderr.write("chaos: FAILED with seed %d after %s: %s\n" % (
            args.seed, json.dumps(chaos.story), failure))
        chaos.tell_logs()
        return 1
    finally:
        chaos.clean_up()
    if args.without_recovery:
        sys.stderr.write("chaos: FAILED with seed %d: found nothing, without recovery\n" % args.seed)
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--segment", default="64MB")
    parser.add_argument("--without-recovery", action="store_true")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--python", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    args.nodes = 1
    if args.seconds >= 600 or args.faults >= 200:
        Chaos.FAULTS = Chaos.LONG
    if args.faults:
        Chaos.ROUND, Chaos.REST = 6, 0.25
    print("chaos: seed %d" % args.seed, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        return run(args, folder)


if __name__ == "__main__":
    sys.exit(main())
