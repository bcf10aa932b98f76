# SPDX-License-Identifier: Apache-2.0
"""Every call of the extensions with its first, second, third ... allocation of Python's failing, until it
makes fewer than that: a MemoryError or the right answer, nothing left over, and the next call works.

Allocations of the library are made to fail by its own tests.
"""
import ctypes
import sys
import time

import pytest
from conftest import MIB, PATIENCE_S, SANITIZED, set_up

from mckv._events import Subscriber as InC
from mckv.events import Event, Index, Source, Subscriber, _sources, decode
from mckv.row_driver import RowDriver
from mckv.settings import MooncakeConfig
from mckv.store import MooncakeDistributedStore, ReplicateConfig

from test_events import message

hooks = pytest.importorskip("_testcapi", reason="this Python is without its test modules")
if not hasattr(hooks, "set_nomemory"):
    pytest.skip("this Python cannot make its allocations fail", allow_module_level=True)

AGAIN, OFTEN = 16, 400  # times that one allocation fails; what leaks does so each time
CALM = 6  # rounds without a failure in which a call makes fewer allocations than that
ROUNDS_MAX = 3000


def starved(call, number, before=None):
    """What a call answers whose allocation of this number fails; MemoryError in place of an answer."""
    fail, relent, error = hooks.set_nomemory, hooks.remove_mem_hooks, None
    if before:
        before()
    fail(number, number + 1)
    try:
        answer = call()
    except MemoryError:
        answer = MemoryError
    except BaseException as other:
        relent()
        error = other
    relent()
    if error is not None:
        raise error
    return answer


def left_over(call, number, before, times):
    """Blocks of Python's that are there after so many tries."""
    there = sys.getallocatedblocks()
    for _ in range(times):
        starved(call, number, before)
    return sys.getallocatedblocks() - there


def leaks(call, number, before):
    """Whether each try leaves one. Python keeps some things for later, fewer than a hundred of a kind."""
    return left_over(call, number, before, AGAIN) >= AGAIN and left_over(call, number, before, OFTEN) >= OFTEN


def holds(call, is_right, before=None):
    """Whatever fails, it fails well and leaves nothing: how many allocations that were. `is_right`: of an
    answer that comes all the same; `before` is called before each try. Not for what is written in Python:
    its own generators and growing lists leave some where they fail."""
    for number in (ROUNDS_MAX, ROUNDS_MAX, ROUNDS_MAX):
        assert is_right(starved(call, number, before))
    calm = failed = 0
    for number in range(ROUNDS_MAX):
        answer = starved(call, number, before)
        if answer is MemoryError:
            calm, failed = 0, failed + 1
        else:
            assert is_right(answer), (number, answer)
            calm += 1
        del answer
        if calm == CALM:
            return failed
        assert SANITIZED or not leaks(call, number, before), number
    raise AssertionError("no end of allocations")


def is_there(answer):
    return answer is not None


def test_a_failure_and_a_leak_would_be_seen():
    kept = []
    assert holds(lambda: [None] * 1000, lambda answer: len(answer) == 1000) >= 1
    if not SANITIZED:
        with pytest.raises(AssertionError):
            holds(lambda: kept.append([bytearray(10)]), lambda answer: answer is None)


@pytest.fixture
def memory():
    """A registered page: its address."""
    return (ctypes.c_ubyte * 4096)()


CONFIG = ReplicateConfig(session_ids=["s"], group_ids=["g"])
TAGGED = ReplicateConfig(session_ids=["s", "t"], preferred_segments=["a", "b"])


def calls_of(store, at):
    """(call, what its answer is) by name; a and b are there, none is not."""
    two, ones = [at, at + 8], [[at], [at + 8]]
    zeros = [0, 0].__eq__
    return {
        "put": (lambda: store.put("a", b"1", CONFIG), (0).__eq__),
        "upsert": (lambda: store.upsert("up", b"12", CONFIG), (0).__eq__),
        "put_parts": (lambda: store.put_parts("a", b"1", b"2"), (0).__eq__),
        "put_batch": (lambda: store.put_batch(["a", "b"], [b"1", b"2"], TAGGED), (0).__eq__),
        "put_from": (lambda: store.put_from("a", at, 8), (0).__eq__),
        "batch_put_from": (lambda: store.batch_put_from(["a", "b"], two, [8, 8], TAGGED), zeros),
        "batch_put_from_multi_buffers": (lambda: store.batch_put_from_multi_buffers(["a", "b"], ones, [[8], [8]]), zeros),
        "get": (lambda: store.get("a"), b"A".__eq__),
        "get_batch": (lambda: store.get_batch(["a", "b", "none"]), [b"A", b"BB", b""].__eq__),
        "get_buffer": (lambda: store.get_buffer("b"), lambda buffer: bytes(buffer) == b"BB"),
        "batch_get_buffer": (lambda: store.batch_get_buffer(["a", "none"]), lambda found: bytes(found[0]) == b"A" and found[1] is None),
        "get_into": (lambda: store.get_into("b", at, 8), (2).__eq__),
        "batch_get_into": (lambda: store.batch_get_into(["a", "none"], two, [8, 8]), [1, -704].__eq__),
        "batch_get_into_multi_buffers": (lambda: store.batch_get_into_multi_buffers(["a", "b"], ones, [[8], [8]]), [1, 2].__eq__),
        "get_into_ranges": (lambda: store.get_into_ranges([at], [["a", "b"]], [[[0], [8]]], [[[0], [0]]], [[[1], [2]]]),
                            [[[1], [2]]].__eq__),
        "is_exist": (lambda: store.is_exist("a"), (1).__eq__),
        "batch_is_exist": (lambda: store.batch_is_exist(["a", "none"]), [1, 0].__eq__),
        "get_size": (lambda: store.get_size("b"), (2).__eq__),
        "batch_remove": (lambda: store.batch_remove(["none", "no"]), [-704, -704].__eq__),
        "remove_by_regex": (lambda: store.remove_by_regex("^none"), (0).__eq__),
        # What the methods of these names are made of: Python's own code is not ours to judge.
        "_probe": (lambda: store._probe("a"), lambda probe: probe[3] == 1),
        "_replicas": (lambda: store._replicas(["a", "none"]), lambda found: len(found[0]) == 1 and found[1] == -704),
        "register_buffer": (lambda: store.register_buffer(at, 4096), (0).__eq__),
        "get_session": (lambda: (store.batch_get_session_start(["a"]), store.batch_get_into_multi_buffer_ranges(["a"], [[at]], [[1]], [[0]]),
                                 store.batch_get_session_end(["a"])), ([0], [1], 0).__eq__),
        "get_hostname": (store.get_hostname, bool),
        "lease": (lambda: store._take_lease(100), lambda lease: len(memoryview(lease)) == 100),
        "own lease": (lambda: store._take_lease(100, True), lambda lease: len(memoryview(lease)) == 100),
    }


@pytest.fixture
def filled(embedded, memory):
    assert embedded.put_batch(["a", "b"], [b"A", b"BB"]) == 0
    assert embedded.register_buffer(ctypes.addressof(memory), 4096) == 0
    yield embedded


@pytest.mark.parametrize("name", calls_of(MooncakeDistributedStore(), 0))
def test_calls_of_a_store(filled, memory, name):
    call, is_right = calls_of(filled, ctypes.addressof(memory))[name]
    holds(call, is_right)
    # What was taken out of the local buffer and not handed out has gone back.
    assert filled.put("whole", bytes(4 * MIB)) == 0
    assert len(filled.get_buffer("whole")) == 4 * MIB
    assert filled.get_batch(["a", "b"]) == [b"A", b"BB"]


def test_put_sessions(filled, memory):
    """Where the answer to a start could not be made, the session is there all the same, and can be revoked."""
    at = ctypes.addressof(memory)

    def clear():
        filled.batch_put_session_revoke(["t"])
        filled.remove("t", force=True)

    def begin():
        clear()
        assert filled.batch_put_session_start(["t"], [8]) == [0]

    def write():
        begin()
        assert filled.batch_put_from_multi_buffer_ranges(["t"], [[at]], [[8]], [[0]]) == [8]

    holds(lambda: filled.batch_put_session_start(["t"], [8], CONFIG), [0].__eq__, clear)
    holds(lambda: filled.batch_put_from_multi_buffer_ranges(["t"], [[at]], [[8]], [[0]]), [8].__eq__, begin)
    holds(lambda: filled.batch_put_session_end(["t"]), [0].__eq__, write)
    holds(lambda: filled.batch_put_session_revoke(["t"]), [0].__eq__, begin)


def test_life_of_a_store():
    def life():
        store = MooncakeDistributedStore()
        code = set_up(store, "embedded", segment=MIB, local_buffer=0)
        return code or store.close()

    holds(life, (0).__eq__)


def test_an_index():
    index = Index("u64")
    index.observe("s", range(20))
    line = '{"op":"stored","tenant":"default","backend":"n","key":"7","medium":"cpu","session":null}'
    index.apply(line)
    for call in (lambda: index.match([1, 2, 3, 7]), lambda: index.observe("s", [1, 2]), lambda: index.heads("s"),
                 lambda: index.resident("s"), lambda: index.sessions_of(2), lambda: index.chain(7), lambda: index.sessions(),
                 index.tenants, index.stats, index.export, index.maintain, lambda: index.apply(line),
                 lambda: Index("u64", "", max_nodes=10), lambda: Index("u64", prefix="")):
        holds(call, is_there)


def test_a_subscriber():
    frames = message(1, (1, "stored", "a", "s"), (2, "stored", "b", None))
    holds(lambda: decode(frames), bool)
    later = iter([message(seq, (seq, "stored", "a", "s")) for seq in range(1, 4000)])
    with Subscriber(Source(), index=Index("u64")) as subscriber:
        holds(lambda: subscriber.inject(next(later)), lambda items: items[-1].object_key == "a")
        for call in (subscriber.mirror, subscriber.mirror_count, subscriber.stats, subscriber.signals, lambda: subscriber.lookup("a"),
                     lambda: subscriber.poll(0), subscriber.fileno):
            holds(call, is_there)
        sources, index = _sources(Source("tcp://127.0.0.1:1", others=(("tcp://127.0.0.1:2", None),))), Index("u64")
        holds(lambda: InC(sources, index).close(), lambda answer: answer is None)
        assert subscriber.mirror_count() == 1


@pytest.mark.parametrize("injects", (False, True))
def test_no_event_is_passed_over(master_of_its_own, injects):
    """What no object could be made of comes with the next call, also where that brings a message of its own."""
    running = master_of_its_own("--enable_kv_events", "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--kv_events_backend_id=n1")
    store, ids, failed, number = MooncakeDistributedStore(), [], 0, 0
    assert set_up(store, running.address) == 0
    with Subscriber(running.events) as subscriber:
        assert any(isinstance(item, Event) for _ in range(PATIENCE_S) if store.upsert("first", b"1") == 0 for item in subscriber.poll(1))
        assert store.put_batch([f"k{i}" for i in range(200)], [b"1"] * 200, ReplicateConfig(session_ids=["s"] * 200)) == 0
        end = time.monotonic() + PATIENCE_S
        while len(ids) < 200:
            assert time.monotonic() < end, len(ids)
            items = starved(lambda: InC.poll(subscriber, 0, 3), number % 20)
            number += 1
            if items is MemoryError:
                failed += 1
                told = subscriber.inject((b"no message",)) if injects else []
                items = [item for item in told if isinstance(item, Event)]
            ids += [item.event_id for item in items if item.object_key.startswith("k")]
    store.close()
    # A message of one's own brings all that is left of the one at hand.
    assert failed > (0 if injects else 20) and ids == list(range(ids[0], ids[0] + 200))


def test_rows():
    with RowDriver(MooncakeConfig("127.0.0.1", "P2PHANDSHAKE", 1 << 20, 0, "tcp", "", "embedded"), workers=1) as driver:
        data = bytearray(4096)
        region = driver.register(ctypes.addressof((ctypes.c_char * 4096).from_buffer(data)), 4096, data)
        inner = driver._inner

        def operation():
            one = inner.submit(False, ("k", "none"), (((region, 0, 10),), ((region, 10, 5), (region, 20, 5))), None, 1000, 1)
            while not one.wait(1000):
                pass
            states = one.states()
            return len(states[0]), one.release()

        holds(operation, (2, True).__eq__)
        for call in (lambda: inner.probe(("k",), 0), inner.stat, inner.poll, inner.fileno):
            holds(call, is_there)
