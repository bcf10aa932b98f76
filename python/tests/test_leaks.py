# SPDX-License-Identifier: Apache-2.0
"""Every call of the extensions of events, rows and leases in a loop, with arguments that are right and
wrong: nothing of Python's is left over, and nothing that the C library has given out."""
import ctypes
import gc
import os
import sys

import pytest

from mckv.buffer_pool import BufferPool
from mckv.events import Index, Source, Subscriber, decode
from mckv.row_driver import RowDriver
from mckv.settings import MooncakeConfig

TURNS = 300

pytestmark = pytest.mark.skipif(os.environ.get("PYTHONMALLOC") == "malloc", reason="blocks are not counted there")


def quietly(call, *args, **options):
    try:
        return call(*args, **options)
    except Exception:
        return None


class Usage(ctypes.Structure):
    """struct mallinfo2."""
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                                                     "fordblks", "keepcost")]


def given_out():
    """Bytes that malloc has given out, in all arenas; 0 where it does not say."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = Usage
    usage = ask()
    return usage.uordblks + usage.hblkhd


def grows(turn, turns):
    """Blocks of Python's, and bytes of C's, that are left for each turn, when caches are warm."""
    for _ in range(turns):
        turn()
    gc.collect()
    blocks, size = sys.getallocatedblocks(), given_out()
    for _ in range(turns):
        turn()
    gc.collect()
    return (sys.getallocatedblocks() - blocks) / turns, (given_out() - size) / turns


def leak_free(turn, turns=TURNS):
    # Others may keep something once: what leaks does so every time.
    left = []
    for _ in range(3):
        left.append(grows(turn, turns))
        if left[-1][0] < 0.2 and left[-1][1] < 8:
            return
    raise AssertionError(left)


def test_a_leak_would_be_seen():
    kept = []
    with pytest.raises(AssertionError):
        leak_free(lambda: kept.append(object()))
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    if given_out():
        with pytest.raises(AssertionError):
            leak_free(lambda: libc.malloc(20))


def message(seq):
    from test_events import message

    return message(seq, (seq, "stored", str(seq % 100), "s" * (seq % 5)))


def test_questions_to_an_index():
    index = Index("u64")
    index.observe("s", range(200))
    line = '{"op":"stored","tenant":"default","backend":"n","key":"7","medium":"cpu","session":null}'

    def turn():
        for hashes in ([1, 2, 3], (), [-1], "wrong", [1 << 70], [None], None, range(100)):
            quietly(index.match, hashes)
            quietly(index.observe, "s", hashes)
        for call in (index.heads, index.resident, index.sessions_of, index.chain, index.sessions):
            quietly(call, "s")
            quietly(call, 7)
            quietly(call, None)
            quietly(call)
            quietly(call, "s", tenant=3)
        for call in (index.tenants, index.stats, index.export, index.maintain):
            call()
        quietly(index.apply, line)
        quietly(index.apply, "{")
        quietly(Index, "none")
        quietly(Index, "u64", dogs=1)
        quietly(Index, "u64", max_nodes=-1)
        Index("u64", "", max_nodes=10)

    leak_free(turn)


def test_what_is_delivered():
    pytest.importorskip("msgpack")
    subscriber = Subscriber(Source(), index=Index("u64"))
    messages = iter([message(seq) for seq in range(1, 6 * TURNS + 2)])
    frames = message(1)

    def turn():
        subscriber.inject(next(messages))
        quietly(subscriber.inject, [b"", b"\0" * 8, b"\xff"])
        quietly(subscriber.inject, [b"", 3])
        quietly(subscriber.inject, None)
        for call in (subscriber.mirror_count, subscriber.stats, subscriber.signals, subscriber.fileno, lambda: subscriber.poll(0),
                     lambda: subscriber.lookup("7"), lambda: subscriber.lookup("none"), lambda: subscriber.next(0), subscriber.stop):
            call()
        quietly(subscriber.lookup, 3)
        quietly(subscriber.stats, 9)
        decode(frames)
        quietly(decode, frames[:2])

    leak_free(turn)
    subscriber.close()


def test_settings_of_subscribers():
    def turn():
        for wrong in ([], "nonsense", Source(3), Source("a\0b"), Source(begin="x"), Source(others=((1,),)), 3):
            quietly(Subscriber, wrong)

    leak_free(turn, 50)  # some of them start what they end again


def test_rows():
    with RowDriver(MooncakeConfig("127.0.0.1", "P2PHANDSHAKE", 1 << 20, 0, "tcp", "", "embedded"), workers=1) as driver:
        data = bytearray(4096)
        region = driver.register(ctypes.addressof((ctypes.c_char * 4096).from_buffer(data)), 4096, data)

        def turn():
            operation = driver.get(["k", "none"], [(region, 0, 10), [(region, 10, 5), (region, 20, 5)]])
            assert operation.wait(60)
            operation.states()
            operation.cancel()
            operation.release()
            quietly(operation.states)
            for wrong in (([3], [(region, 0, 1)]), (["k"], [3]), (["k"], []), ([""], [(region, 0, 1)]), (["k"], [("x", 0, 1)])):
                quietly(driver.get, *wrong)
                quietly(driver.put, *wrong, ["s"])
            quietly(driver.register, 0, 0)
            quietly(driver.unregister, 99)
            driver.probe(["k"])
            quietly(driver.probe, [3])
            driver.poll()
            driver.stat()
            driver.fileno()

        leak_free(turn)


def test_leases(embedded):
    pool = BufferPool(embedded)

    def turn():
        with pool.buffer(100) as lease:
            view = lease.buffer[3:5]
            quietly(lease.release)
            del view
        with pool.buffer(5 << 20) as lease:  # does not fit the local buffer
            pass
        pool.acquire(1)
        quietly(pool.acquire, 0)
        quietly(embedded._take_lease, "x")
        quietly(embedded._take_lease, 1 << 63)

    leak_free(turn)
    assert pool.active_leases == 0
