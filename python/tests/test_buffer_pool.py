# SPDX-License-Identifier: Apache-2.0
"""Leases of registered memory: every rule of their life."""
import gc
import os
import threading
import time

import pytest

from mckv.buffer_pool import BufferPool, PoolExhausted, RegisteredBufferPool
from mckv.store import MooncakeDistributedStore

from conftest import set_up

KIB = 1 << 10
MIB = 1 << 20


@pytest.fixture
def small():
    """A store with 64 KiB of local buffer."""
    one = MooncakeDistributedStore()
    assert set_up(one, "embedded", local_buffer=64 * KIB) == 0
    yield one
    one.close()


def whole(store, size):
    """Whether all of the local buffer can be had at once: nothing has leaked."""
    with BufferPool(store, max_regions=1).acquire(size) as lease:
        lease.buffer[:] = bytes(size)
        return store._take_lease(1) == -200


# ---- a lease ---------------------------------------------------------------------


def test_a_lease_is_memory_that_calls_may_name(store):
    pool = BufferPool(store)
    with pool.buffer(1000) as lease:
        assert lease.size == 1000 and len(lease.buffer) == 1000
        lease.buffer[:] = b"x" * 1000
        assert store.put_from("lease", lease.ptr, 1000) == 0
    with pool.buffer(2000) as lease:
        assert store.get_into("lease", lease.ptr, lease.size) == 1000
        assert bytes(lease.buffer[:1000]) == b"x" * 1000
    pool.close()


def test_nothing_beside_a_lease_is_registered(small):
    small.put("k", b"y" * 2000)
    with BufferPool(small).acquire(1000) as lease:
        assert small.get_into("k", lease.ptr, 2000) == -600
        ptr = lease.ptr
    assert small.get_into("k", ptr, 1000) == -600


def test_overflow_is_registered_too(small):
    small.put("k", b"z" * 1000)
    pool = BufferPool(small)
    first = pool.acquire(64 * KIB)
    second = pool.acquire(64 * KIB)
    assert small.get_into("k", second.ptr, second.size) == 1000
    assert bytes(second.buffer[:1000]) == b"z" * 1000
    ptr = second.ptr
    second.release()
    assert small.get_into("k", ptr, 1000) == -600
    first.release()
    assert whole(small, 64 * KIB)


def test_release_fails_while_views_are_alive(small):
    lease = BufferPool(small).acquire(100)
    view = lease.buffer[10:20]
    with pytest.raises(BufferError):
        lease.release()
    assert not lease.released
    lease.buffer[10] = 7
    assert view[0] == 7
    view.release()
    lease.release()
    assert lease.released


def test_release_twice_is_once(small):
    pool = BufferPool(small)
    lease = pool.acquire(100)
    lease.release()
    lease.release()
    assert pool.active_bytes == 0


def test_a_released_lease_has_neither_address_nor_bytes(small):
    lease = BufferPool(small).acquire(100)
    lease.release()
    with pytest.raises(ValueError):
        lease.ptr
    with pytest.raises(ValueError):
        lease.buffer


def test_views_that_outlive_a_with_block_stay_valid(small):
    pool = BufferPool(small)
    with pool.buffer(100) as lease:
        lease.buffer[:3] = b"abc"
        view = lease.buffer[:3]
    pool.close()
    assert lease.released and pool.active_bytes == 100
    assert bytes(view) == b"abc"
    del view
    assert pool.active_bytes == 0 and whole(small, 64 * KIB)


def test_a_lease_that_is_forgotten_comes_back(small):
    pool = BufferPool(small)
    pool.acquire(64 * KIB)
    gc.collect()
    assert pool.active_leases == 0 and whole(small, 64 * KIB)


def test_an_exception_in_a_with_block_releases(small):
    pool = BufferPool(small)
    with pytest.raises(KeyError):
        with pool.buffer(10):
            raise KeyError
    assert pool.active_leases == 0


# ---- bounds ------------------------------------------------------------------------


def test_the_default_bound_is_one_local_buffer_of_overflow(small):
    pool = BufferPool(small)
    assert pool.max_bytes == 128 * KIB
    leases = [pool.acquire(64 * KIB), pool.acquire(64 * KIB)]
    with pytest.raises(PoolExhausted):
        pool.acquire(1, block=False)
    leases.pop().release()
    pool.acquire(1, block=False).release()
    leases.pop().release()


def test_max_regions_bounds_their_number(small):
    pool = BufferPool(small, max_regions=2)
    first, second = pool.acquire(1), pool.acquire(1)
    with pytest.raises(PoolExhausted):
        pool.acquire(1, block=False)
    first.release()
    pool.acquire(1, block=False).release()
    second.release()


def test_what_can_never_be_had_is_refused_at_once(small):
    pool = BufferPool(small, max_bytes=100)
    for size in (0, 101, 1 << 70, -1):
        with pytest.raises(ValueError):
            pool.acquire(size)
    for size in ("1", 1.5, None, True):
        with pytest.raises(TypeError):
            pool.acquire(size)


def test_waiting_ends_with_the_timeout(small):
    pool = BufferPool(small, max_bytes=100)
    with pool.buffer(100):
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            pool.acquire(1, timeout=0.05)
        assert time.monotonic() - begin >= 0.05
    pool.acquire(1, timeout=0).release()


def until(question):
    end = time.monotonic() + 60
    while not question():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_who_waits_is_served_in_order(small):
    pool = BufferPool(small, max_bytes=100)
    held, order = pool.acquire(100), []

    def wait(name, size):
        with pool.buffer(size, timeout=60):
            order.append(name)

    threads = []
    for name, size in (("large", 100), ("small", 1)):
        threads.append(threading.Thread(target=wait, args=(name, size)))
        threads[-1].start()
        until(lambda: len(pool._line) == len(threads))
    with pytest.raises(PoolExhausted):
        pool.acquire(1, block=False)
    held.release()
    for thread in threads:
        thread.join(60)
    assert order == ["large", "small"]


def test_a_crowd_shares_a_pool(small):
    pool = BufferPool(small, max_bytes=96 * KIB)
    faults = []

    def work(stamp):
        for size in range(1, 200):
            with pool.buffer(100 * size, timeout=60) as lease:
                view = lease.buffer
                view[:] = bytes([stamp]) * lease.size
                if bytes(view) != bytes([stamp]) * lease.size:
                    faults.append(stamp)
                view.release()

    threads = [threading.Thread(target=work, args=(stamp,)) for stamp in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not faults and pool.active_leases == 0
    pool.close()
    assert whole(small, 64 * KIB)


# ---- the pool, and the store under it ------------------------------------------------


def test_close_fails_while_leases_are_active(small):
    pool = BufferPool(small)
    lease = pool.acquire(1)
    with pytest.raises(RuntimeError):
        pool.close()
    pool.acquire(1).release()
    lease.release()
    pool.close()
    pool.close()
    with pytest.raises(RuntimeError):
        pool.acquire(1)


def test_a_store_that_is_not_set_up_has_no_pool():
    with pytest.raises(RuntimeError):
        BufferPool(MooncakeDistributedStore())


def test_without_a_local_buffer_everything_overflows():
    store = MooncakeDistributedStore()
    assert set_up(store, "embedded", local_buffer=0) == 0
    with pytest.raises(ValueError):
        BufferPool(store)
    store.put("k", b"1" * 50)
    with BufferPool(store, max_bytes=100).buffer(100) as lease:
        assert store.get_into("k", lease.ptr, lease.size) == 50
    store.close()


def test_leases_outlive_their_store(small):
    pool = BufferPool(small)
    leases = [pool.acquire(64 * KIB), pool.acquire(64 * KIB)]
    for lease in leases:
        lease.buffer[:3] = b"abc"
    views = [lease.buffer for lease in leases]
    assert small.close() == 0
    assert all(bytes(view[:3]) == b"abc" for view in views)
    with pytest.raises(RuntimeError):
        BufferPool(small)
    assert set_up(small, "embedded", local_buffer=64 * KIB) == 0
    other = BufferPool(small).acquire(64 * KIB)
    del views
    for lease in leases:
        lease.release()
    # What is of the store that was closed gave nothing of this one back.
    assert small._take_lease(1) == -200
    other.release()
    assert whole(small, 64 * KIB)


def test_handles_outlive_their_store(small):
    small.put("k", b"q" * 5000)
    handle = small.get_buffer("k")
    more = small.batch_get_buffer(["k", "none", "k"])
    small.close()
    assert bytes(handle) == b"q" * 5000
    assert bytes(more[0]) == b"q" * 5000 and more[1] is None
    assert set_up(small, "embedded", local_buffer=64 * KIB) == 0
    lease = BufferPool(small).acquire(64 * KIB)
    del handle, more
    assert small._take_lease(1) == -200
    lease.release()
    assert whole(small, 64 * KIB)


def test_the_child_of_a_fork_gives_nothing_back(small):
    pool = BufferPool(small)
    lease = pool.acquire(100)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            lease.release()
            try:
                pool.acquire(1)
            except RuntimeError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    lease.buffer[:1] = b"x"
    lease.release()
    assert whole(small, 64 * KIB)


def test_older_names():
    import mooncake
    import mooncake.buffer_pool as named

    assert mooncake.BufferPool is BufferPool
    assert named.BufferPool is BufferPool and named.RegisteredBufferPool is RegisteredBufferPool
