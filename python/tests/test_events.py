# SPDX-License-Identifier: Apache-2.0
"""The subscriber and the index, over a real master and over recorded messages."""
import array
import gc
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

from mckv.events import Event, Index, Signal, Source, Subscriber, decode
from mckv.store import MooncakeDistributedStore, ReplicateConfig

from conftest import set_up

PATIENCE_S = 60


@pytest.fixture
def publishing(master_of_its_own):
    """A master that publishes, and a store on it."""
    running = master_of_its_own("--enable_kv_events", "--kv_events_bind_endpoint=tcp://127.0.0.1:*",
                                "--kv_events_backend_id=n1", "--kv_events_heartbeat=100ms")
    store = MooncakeDistributedStore()
    assert set_up(store, running.address) == 0
    running.store = store
    yield running
    store.close()


def put(store, keys, session=None):
    config = ReplicateConfig()
    if session is not None:
        config.session_ids = [session] * len(keys)
    assert store.put_batch(list(keys), [b"v" * 100] * len(keys), config) == 0


def listening(subscriber):
    """The same, once a first message has come: what is published from now on will come, too."""
    end = time.monotonic() + PATIENCE_S
    while not subscriber.stats()["has_baseline"]:
        assert time.monotonic() < end
        for item in subscriber.poll(0.05):
            assert item.type in ("epoch", "cleared"), item
    return subscriber


def events_of(subscriber, count):
    """So many events, in order, whatever signals come between."""
    found, end = [], time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < end, found
        found += [item for item in subscriber.poll(1) if isinstance(item, Event)]
    return found


# ---- messages made by hand --------------------------------------------------------------


def message(seq, *events, epoch=1):
    msgpack = pytest.importorskip("msgpack")
    rows = []
    for event_id, kind, key, session in events:
        row = {"event_id": event_id, "timestamp": 5, "event_type": kind, "tenant_id": "default", "backend_id": "n1",
               "medium": None if kind == "cleared" else "cpu", "dp_rank": 0, "epoch": epoch}
        if kind != "cleared":
            row.update(object_key=key, session_id=session, group_id=None)
        rows.append(row)
    return [b"", struct.pack(">Q", seq), msgpack.packb([1000, rows, 0])]


def injected(**options):
    return Subscriber(Source(), **options)


# ---- iterating --------------------------------------------------------------------------


def test_events_and_signals_in_order(publishing):
    with listening(Subscriber(publishing.events)) as subscriber:
        put(publishing.store, ["a", "b"], "agent-7")
        seen = events_of(subscriber, 2)
        assert publishing.store.remove("a", force=True) == 0
        seen += events_of(subscriber, 1)
    assert [(event.type, event.object_key, event.session_id) for event in seen] == [
        ("stored", "a", "agent-7"), ("stored", "b", "agent-7"), ("removed", "a", "agent-7")]
    assert [event.event_id for event in seen] == [2, 3, 4]  # what was there before was cleared
    first = seen[0]
    assert (first.tenant_id, first.backend_id, first.medium, first.source) == ("default", "n1", "cpu", 0)
    assert first.epoch == seen[1].epoch > 0 and first.timestamp_ms > 0 and not first.replaces and first.engine is None


def test_a_loop_ends_when_somebody_closes(publishing):
    subscriber, seen = listening(Subscriber(publishing.events)), []

    def follow():
        seen.extend(subscriber)
        seen.append("over")

    thread = threading.Thread(target=follow)
    thread.start()
    put(publishing.store, ["k"])
    end = time.monotonic() + PATIENCE_S
    while not any(isinstance(item, Event) for item in list(seen)):
        assert time.monotonic() < end
        time.sleep(0.01)
    subscriber.close()
    thread.join(PATIENCE_S)
    assert seen[-1] == "over" and subscriber.closed
    assert subscriber.next() is None and list(subscriber) == []
    subscriber.close()


def test_waiting_lets_others_run():
    with injected() as subscriber:
        ticks, over = [], threading.Event()

        def tick():
            while not over.is_set():
                ticks.append(1)
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        assert subscriber.next(0.3) is None
        over.set()
        thread.join(PATIENCE_S)
        assert len(ticks) > 5


def test_a_timeout_is_kept():
    with injected() as subscriber:
        begin = time.monotonic()
        assert subscriber.next(0.05) is None and subscriber.poll(0.05) == []
        assert time.monotonic() - begin >= 0.1
        assert subscriber.poll(0) == [] and subscriber.next(-1) is None


def test_a_signal_of_the_system_ends_waiting():
    with injected() as subscriber:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            subscriber.next(PATIENCE_S)
        timer.join()
        assert subscriber.poll(0) == []


def test_it_can_be_selected(publishing):
    with listening(Subscriber(publishing.events)) as subscriber:
        put(publishing.store, ["k"])
        assert select.select([subscriber], [], [], PATIENCE_S)[0] == [subscriber]
        assert events_of(subscriber, 1)


def test_callbacks_may_raise():
    subscriber = injected()
    subscriber._ready.extend(subscriber.inject(message(1, (1, "stored", "1", None), (2, "stored", "2", None))))
    seen = []

    def once(event):
        seen.append(event.object_key)
        if len(seen) == 1:
            raise KeyError(event.object_key)
        subscriber.close()

    with pytest.raises(KeyError):
        subscriber.run(on_event=once)
    subscriber.run(on_event=once)
    assert seen == ["1", "2"]


# ---- what was missed ---------------------------------------------------------------------


def test_gaps_are_told_and_counted():
    with injected() as subscriber:
        first = subscriber.inject(message(1, (1, "stored", "1", "s")))
        assert [item.type for item in first] == ["epoch", "stored"]
        later = subscriber.inject(message(3, (4, "stored", "4", None)))
        assert [item.type for item in later] == ["gap", "stale", "stored"]
        gap = later[0]
        assert isinstance(gap, Signal) and (gap.from_id, gap.to_id, gap.from_seq, gap.to_seq) == (2, 3, 2, 2)
        stats = subscriber.stats()
        assert (stats["lost_ids"], stats["gaps"], stats["stales"], stats["events"]) == (2, 1, 1, 2)
        assert [row.object_key for row in subscriber.mirror()] == ["4"] and subscriber.mirror_count() == 1


def test_refusals_are_named():
    with injected() as subscriber:
        bad = subscriber.inject([b"", b"\0" * 8, b"\xff"])
        assert [item.type for item in bad] == ["degraded"] and bad[0].reason == "batch_type"
        assert subscriber.stats()["refused"] == {"batch_type": 1}
        with pytest.raises(TypeError):
            subscriber.inject([b"", "text", b""])
        with pytest.raises(ValueError):
            subscriber.inject([b""] * 65)
        with pytest.raises(ValueError):
            subscriber.inject([b"", b"", b""], source=1)


def test_decode_is_strict():
    frames = message(1, (1, "stored", "k", "s"), (2, "removed", "k", "s"))
    assert [(event.type, event.object_key) for event in decode(frames)] == [("stored", "k"), ("removed", "k")]
    for wrong, name in (([b""], "frame_count"), ([b"", b"1", b""], "seq_size"), ([*frames[:2], frames[2][:-1]], "payload_truncated")):
        with pytest.raises(ValueError, match=name):
            decode(wrong)
    with pytest.raises(TypeError):
        decode(3)


def test_the_mirror_is_asked():
    with injected() as subscriber:
        subscriber.inject(message(1, (1, "stored", "a", "s")))
        row = subscriber.lookup("a")
        assert (row.object_key, row.medium, row.session_id, row.group_id, row.event_id) == ("a", "cpu", "s", None, 1)
        assert subscriber.lookup("b") is None and subscriber.lookup("a", source=9) is None
        with pytest.raises(TypeError):
            subscriber.lookup(3)
        with pytest.raises(IndexError):
            subscriber.stats(1)


# ---- the index --------------------------------------------------------------------------------


def test_a_question_sees_exactly_the_stream_so_far(publishing):
    index = Index("u64")
    with listening(Subscriber(publishing.events, index=index)) as subscriber:
        chain = list(range(100, 120))
        assert index.observe("agent", chain) == "applied"
        for i, block in enumerate(chain):
            put(publishing.store, [str(block)], "agent")
        depth = 0
        while depth < len(chain):
            item = subscriber.next(PATIENCE_S)
            assert item is not None
            depth += item.type == "stored"
            assert index.match(chain).store == depth
        places, blocks = index.resident("agent")
        assert blocks == 20 and [(row.owner, row.tier, row.blocks, row.prefix) for row in places] == [
            ("store:n1", "external", 20, 20)]


def test_questions():
    index = Index("u64", block_bytes=10)
    lines = ['{"op":"engine_stored","tenant":"default","worker":"w0","dp_rank":0,"tier":"device","parent":null,"hashes":[1,2,3],"session":"s"}',
             '{"op":"stored","tenant":"default","backend":"n1","key":"4","medium":"cpu","session":"s"}']
    for line in lines:
        index.apply(line)
    assert index.observe("s", [1, 2, 3, 4, 5]) == "applied"
    match = index.match([1, 2, 3, 4, 5])
    assert [(row.owner, row.own, row.with_store) for row in match.workers] == [("w0/0", 3, 4)]
    assert match.store == 0 and {(row.owner, row.tier, row.blocks) for row in match.places} >= {("w0/0", "device", 3)}
    assert index.heads("s") == [5] and index.chain(5) == ([1, 2, 3, 4, 5], True) and index.chain(9) == ([], False)
    assert index.sessions_of(2) == (1, ["s"]) and index.sessions_of(2, limit=0) == (1, [])
    assert [(row.session_id, row.blocks, row.bytes) for row in index.sessions()] == [("s", 5, 50)]
    assert index.sessions("other") == []
    assert [(row.tenant_id, row.nodes, row.resident) for row in index.tenants()] == [("default", 5, 4)]
    assert index.stats()["nodes"] == 5 and index.layout == "u64" and index.prefix == ""
    other = Index("u64", block_bytes=10)
    for line in index.export():
        if '"layout"' not in line:
            other.apply(line)
    assert other.export() == index.export()
    index.worker_lost("w0")
    assert index.match([1, 2]).workers == [] or index.match([1, 2]).workers[0].own == 0
    index.session_end("s")
    assert index.heads("s") == [] and index.maintain(10) in (True, False)


def test_numbers_that_do_not_fit_are_not_cut():
    index, wide = Index("u64"), 1 << 32
    index.observe("s", [1, 2])
    assert index.sessions_of(2, limit=wide - 1) == (1, ["s"])
    with injected() as subscriber:
        subscriber.inject(message(1, (1, "stored", "a", None)))
        for call in (lambda: index.sessions_of(2, limit=wide), lambda: index.sessions_of(2, limit=-1), lambda: index.maintain(wide),
                     lambda: index.maintain(-1), lambda: subscriber.lookup("a", source=wide), lambda: subscriber.stats(wide),
                     lambda: subscriber.stats(-1), lambda: subscriber.inject(message(2), source=wide)):
            with pytest.raises(OverflowError):
                call()
        for option in ({"max_queue_bytes": 1 << 64}, {"max_mirror_entries": -1}, {"max_message_events": wide}):
            with pytest.raises(OverflowError):
                injected(**option)
        assert subscriber.mirror_count() == 1


def test_hashes_of_every_kind():
    index = Index("u64")
    top = (1 << 64) - 1
    assert index.observe("s", [top, 7]) == "applied"
    index.apply('{"op":"stored","tenant":"default","backend":"n","key":"%d","medium":"cpu","session":null}' % top)
    kinds = [[top], (top,), [-1], array.array("Q", [top]), array.array("q", [-1]), memoryview(struct.pack("Q", top)).cast("Q"), iter([top])]
    try:
        import numpy
        kinds += [numpy.array([top], numpy.uint64), numpy.array([-1], numpy.int64), [numpy.uint64(top)],
                  numpy.array([top, 0], numpy.uint64)[::2]]
    except ImportError:
        pass
    for hashes in kinds:
        assert index.match(hashes).store == 1
    assert index.match([]).store == 0
    for wrong in (None, 3, "12", b"12345678", ["1"], [1.5], [1 << 64], [-(1 << 63) - 1], [None]):
        with pytest.raises((TypeError, OverflowError)):
            index.match(wrong)
        with pytest.raises((TypeError, OverflowError)):
            index.observe("s", wrong)


def test_an_index_that_is_none():
    for args, kind in ((("none",), ValueError), (("vllm:tp=0",), ValueError), ((), TypeError), ((3,), TypeError), (("u64", 3), TypeError)):
        with pytest.raises(kind):
            Index(*args)
    with pytest.raises(TypeError, match="max_dogs"):
        Index("u64", max_dogs=1)
    for wrong in (-1, 1 << 70):
        with pytest.raises(OverflowError):
            Index("u64", max_nodes=wrong)
    with pytest.raises(OverflowError):
        Index("u64", max_heads=1 << 33)
    index = Index("vllm:tp=2", prefix="p")
    assert index.prefix == "p" and index.layout == "vllm:tp=2"
    for line in ("", "{", '{"op":"none"}', '{"q":"heads"}'):
        with pytest.raises(ValueError):
            index.apply(line)
    with pytest.raises(UnicodeEncodeError):
        index.observe("\ud800", [1])
    assert index.observe("s" * 257, [1]) == "invalid"


def test_bounds_are_told():
    index = Index("u64", max_nodes=100)
    results = {index.observe(f"s{i}", range(i * 50, i * 50 + 50)) for i in range(20)}
    assert index.stats()["nodes"] <= 100 and results <= {"applied", "full"}


def test_a_crowd_asks_while_the_stream_goes_on():
    index, faults, over = Index("u64"), [], threading.Event()
    subscriber = injected(index=index)
    chain = list(range(1, 400))
    index.observe("s", chain)

    def ask():
        deepest = 0
        while not over.is_set():
            depth = index.match(chain).store
            if depth < deepest:
                faults.append((deepest, depth))
            deepest = depth
            index.observe("t", chain[:10])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in chain:
        subscriber.inject(message(i, (i, "stored", str(i), "s")))
    over.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not faults and index.match(chain).store == len(chain)
    subscriber.close()


# ---- followed by a thread ------------------------------------------------------------------------


def test_a_thread_follows(publishing):
    index = Index("u64")
    subscriber = listening(Subscriber(publishing.events, index=index))
    subscriber.start()
    subscriber.start()
    with pytest.raises(RuntimeError):
        subscriber.poll(0)
    with pytest.raises(RuntimeError):
        subscriber.inject(message(1, (1, "stored", "k", None)))
    index.observe("s", [1, 2, 3])
    put(publishing.store, ["1", "2", "3"], "s")
    end = time.monotonic() + PATIENCE_S
    while index.match([1, 2, 3]).store < 3:
        assert time.monotonic() < end
        time.sleep(0.005)
    assert [item.type for item in subscriber.signals()] in ([], ["epoch"]) and subscriber.signals() == []
    assert subscriber.signals_dropped == 0 and subscriber.mirror_count() == 3
    subscriber.stop()
    subscriber.stop()
    put(publishing.store, ["4"], "s")
    assert events_of(subscriber, 1)[0].object_key == "4"
    subscriber.start()
    subscriber.close()
    with pytest.raises(ValueError):
        subscriber.start()


def test_a_crowd_starts_stops_and_closes():
    for turn in range(60):
        subscriber = injected(index=Index("u64"))
        gate, faults = threading.Barrier(5), []

        def act(*calls):
            gate.wait()
            for call in calls:
                try:
                    call()
                except (ValueError, RuntimeError):
                    pass  # closed, or followed
                except BaseException as error:
                    faults.append(error)

        poll = lambda: subscriber.poll(0.01)  # noqa: E731
        threads = [threading.Thread(target=act, args=calls) for calls in (
            (subscriber.start, subscriber.stop, subscriber.start), (subscriber.start, subscriber.stop), (poll, subscriber.mirror, poll),
            (subscriber.stop, subscriber.close), (subscriber.close,) if turn % 2 else (subscriber.start, subscriber.close))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert not faults and subscriber.closed


# ---- checking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("follows", (False, True))
def test_verify_says_that_both_agree(publishing, follows):
    with listening(Subscriber(publishing.events)) as subscriber:
        if follows:
            subscriber.start()
        put(publishing.store, [str(i) for i in range(300)], "s")
        verdict = subscriber.verify(publishing.admin)
        assert verdict and verdict.keys == 300
        if not follows:
            assert len(events_of(subscriber, 300)) == 300


def test_verify_finds_what_is_not_so(publishing):
    with listening(Subscriber(publishing.events)) as subscriber:
        put(publishing.store, ["a"], "s")
        assert subscriber.verify(publishing.admin)
        epoch = events_of(subscriber, 1)[0].epoch
        seq = subscriber.stats()["last_seq"]
        subscriber.inject(message(seq + 1, (3, "stored", "ghost", "s"), epoch=epoch))
        verdict = subscriber.verify(publishing.admin, settle=0.05)
        assert not verdict and [(row.object_key, row.stored) for row in verdict.differences] == [("ghost", None)]


def test_verify_needs_a_master_and_a_mirror(publishing):
    with Subscriber(publishing.events, mirror=False) as subscriber:
        with pytest.raises(ValueError):
            subscriber.verify(publishing.admin)
    with Subscriber(publishing.events) as subscriber:
        with pytest.raises(OSError):
            subscriber.verify("http://127.0.0.1:1")


# ---- life ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.version_info < (3, 10), reason="garbage cannot be left alone for a while there")
def test_garbage_may_be_another_subscriber_of_the_index():
    """Collected while events are made into objects, it ends by the lock that is held meanwhile."""
    program = """if True:
        import gc, sys
        sys.path.insert(0, sys.argv[1])
        from test_events import message
        from mckv.events import Index, Source, Subscriber
        index, count = Index("u64"), 0
        one = Subscriber(Source(), index=index)
        def leave_one():
            cycle = [Subscriber(Source(), index=index)]
            cycle.append(cycle)
        for seq in range(1, 60):
            frames = tuple(message(seq, (2 * seq, "stored", str(seq), "s"), (2 * seq + 1, "stored", str(-seq), "s")))
            for call in (lambda: one.inject(frames), one.mirror, one.signals):
                gc.disable()
                gc.collect()
                leave_one()
                gc.set_threshold(gc.get_count()[0] + seq)  # at another moment each time
                gc.enable()
                count += len(call())
        assert count >= 118 + 59 and gc.isenabled(), count
    """
    pytest.importorskip("msgpack")
    done = subprocess.run([sys.executable, "-c", program, os.path.dirname(__file__)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_the_collector_is_as_others_left_it():
    """Whoever runs while an event is applied finds it so, and may turn it off."""
    frames = [message(seq, (seq, "stored", str(seq), "s")) for seq in range(1, 2000)]
    with Subscriber(Source(), index=Index("u64")) as subscriber:
        feeding = threading.Thread(target=lambda: [subscriber.inject(row) for row in frames])
        feeding.start()
        seen = {gc.isenabled()}
        while feeding.is_alive():
            seen.add(gc.isenabled())
        feeding.join()
        assert seen == {True} and subscriber.mirror_count() == len(frames)


def test_settings_that_are_none():
    for wrong in ([], [Source()] * 65, "nonsense", Source("tcp://127.0.0.1:1", profile="dog"),
                  Source("tcp://127.0.0.1:1", profile="engine"), Source("a\0b"),
                  Source("tcp://127.0.0.1:1", profile="engine", worker="a/b"),
                  Source("tcp://127.0.0.1:1", curve_server_key="short", curve_key_file="/none")):
        with pytest.raises((ValueError, RuntimeError)):
            Subscriber(wrong)
    for wrong in (3, [3], None):
        with pytest.raises(TypeError):
            Subscriber(wrong)
    for wrong in (Source(3), Source(dp_rank="x")):
        with pytest.raises(TypeError):
            Subscriber(wrong)
    with pytest.raises(OverflowError):
        Subscriber(Source(dp_rank=1 << 32))
    with pytest.raises(TypeError):
        Subscriber(Source(), index=3)
    with pytest.raises(TypeError):
        Subscriber(Source(), dogs=3)


def test_every_call_after_close():
    subscriber = injected(index=Index("u64"))
    subscriber.close()
    calls = [lambda: subscriber.poll(0), subscriber.mirror, subscriber.mirror_count, subscriber.start, subscriber.fileno,
             lambda: subscriber.lookup("k"), subscriber.stats, lambda: subscriber.inject([b"", b"\0" * 8, b""])]
    for call in calls:
        with pytest.raises(ValueError):
            call()
    subscriber.stop()
    assert subscriber.signals() == [] and subscriber.next(0) is None


def descriptors():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def test_a_hundred_lives_leave_nothing():
    for _ in range(3):
        injected(index=Index("u64")).close()
    gc.collect()
    before = descriptors()
    for i in range(100):
        subscriber = injected(index=Index("u64"))
        if i % 3 == 0:
            subscriber.start()
        if i % 2 == 0:
            subscriber.close()
    del subscriber
    gc.collect()
    end = time.monotonic() + PATIENCE_S
    while descriptors() != before:  # threads of the library take a moment to be gone
        assert time.monotonic() < end, (before, descriptors())
        time.sleep(0.01)


def test_the_child_of_a_fork_gets_errors():
    index = Index("u64")
    subscriber = injected(index=index)
    subscriber.start()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            wrong = 0
            for call in (lambda: subscriber.poll(0), subscriber.mirror, subscriber.stop, lambda: index.match([1]),
                         lambda: index.observe("s", [1]), index.stats, index.export):
                try:
                    call()
                    wrong += 1
                except RuntimeError:
                    pass
            subscriber.close()
            del subscriber, index
            gc.collect()
            Index("u64").observe("s", [1])
            injected().close()
            code = wrong
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert index.observe("s", [1]) == "applied"
    subscriber.close()


EXITS = {
    "iterating in a thread": "threading.Thread(target=lambda: list(s), daemon=True).start(); time.sleep(0.05)",
    "followed": "s.start()",
    "open": "pass",
    "in a cycle": "s.me = s; del s",
    "an exception": "s.start(); raise SystemExit(7)",
    "os._exit": "s.start(); os._exit(7)",
}


@pytest.mark.parametrize("how", list(EXITS))
def test_the_interpreter_may_end(how):
    program = ("import os, threading, time\nfrom mckv.events import *\n"
               f"s = Subscriber(Source(), index=Index('u64'))\n{EXITS[how]}\n")
    done = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S, capture_output=True, text=True)
    assert done.returncode == (7 if "7" in EXITS[how] else 0), done.stderr
    assert done.stderr == ""


# ---- engines -----------------------------------------------------------------------------------------


def test_events_of_engines():
    msgpack = pytest.importorskip("msgpack")
    index = Index("u64")
    source = Source(profile="engine", worker="w0")
    with Subscriber(source, index=index) as subscriber:
        batch = [1.5, [["BlockStored", [11, 12], None, [1, 2], 1, None, "GPU"]], 3]
        items = subscriber.inject([b"kv", struct.pack(">Q", 0), msgpack.packb(batch)])
        stored = [item for item in items if item.type == "stored"]
        assert len(stored) == 1 and stored[0].engine.hashes == [11, 12] and stored[0].engine.parent is None
        assert stored[0].engine.medium == "GPU" and stored[0].dp_rank == 3
        assert [(row.owner, row.own) for row in index.match([11, 12, 13]).workers] == [("w0/3", 2)]


def test_an_engine_that_publishes():
    zmq, msgpack = pytest.importorskip("zmq"), pytest.importorskip("msgpack")
    context = zmq.Context()
    try:
        publisher = context.socket(zmq.XPUB)
        port = publisher.bind_to_random_port("tcp://127.0.0.1")
        index = Index("u64")
        with Subscriber(Source(f"tcp://127.0.0.1:{port}", profile="engine", worker="w1"), index=index) as subscriber:
            assert publisher.poll(PATIENCE_S * 1000) and publisher.recv() == b"\x01"
            chain = list(range(50, 60))
            for seq, event in enumerate((["BlockStored", chain, None, [1] * 10, 1, None, "GPU"], ["BlockRemoved", chain[8:], "GPU"])):
                publisher.send_multipart([b"kv", struct.pack(">Q", seq), msgpack.packb([1.0, [event], 0])])
            assert [item.type for item in events_of(subscriber, 2)] == ["stored", "removed"]
            assert [(row.owner, row.own) for row in index.match(chain).workers] == [("w1/0", 8)]
    finally:
        context.destroy(linger=0)


def test_a_stream_that_is_encrypted(master_of_its_own, tmp_path):
    keygen = [os.environ.get("MC_STORE") or "mc-store", "keygen", "--curve"]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for name in ("server", "reader", "stranger"):
        subprocess.run([*keygen, str(tmp_path / name)], check=True, capture_output=True, env=environment)

    def public(name):
        rows = dict(line.split(None, 1) for line in (tmp_path / name).read_text().splitlines() if line.strip())
        return rows["public"].strip()

    (tmp_path / "allowed").write_text(public("reader") + "\n")
    running = master_of_its_own("--enable_kv_events", "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--kv_events_backend_id=n1",
                                f"--curve_server_key_file={tmp_path / 'server'}", f"--curve_allowed_keys_file={tmp_path / 'allowed'}")
    store = MooncakeDistributedStore()
    assert set_up(store, running.address) == 0
    good, bad = (Source(running.events, curve_server_key=public("server"), curve_key_file=str(tmp_path / name))
                 for name in ("reader", "stranger"))
    with Subscriber(good) as subscriber, Subscriber(bad) as other:
        put(store, ["a"], "s")
        assert events_of(subscriber, 2)[1].object_key == "a"
        assert other.next(0.2) is None and other.stats()["events"] == 0
    store.close()
