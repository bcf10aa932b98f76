# SPDX-License-Identifier: Apache-2.0
"""Registered scratch memory for zero-copy calls, lent for a while.

    pool = BufferPool(store)
    with pool.buffer(1 << 20) as lease:
        n = store.get_into("key", lease.ptr, lease.size)
        view = lease.buffer[:n]

Memory comes out of the store's local buffer; where that has no room, memory of its
own is registered until the lease is released.
"""
from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from typing import Any, Deque, Optional, Set

__all__ = ["BufferLease", "BufferPool", "PoolExhausted", "RegisteredBufferPool"]

NO_ROOM = -200


class PoolExhausted(RuntimeError):
    """Neither the local buffer nor what may overflow has room now."""


class _Account:
    """What one lease counts for; settled once, whoever comes first."""

    def __init__(self, pool: "BufferPool", size: int):
        self.pool = pool
        self.size = size
        self.is_settled = False
        self.is_left = False  # to views that outlive the lease
        self.watch: Any = None

    def leave(self) -> None:
        with self.pool._changed:
            if not self.is_settled and not self.is_left:
                self.is_left = True
                self.pool._left_behind += 1

    def settle(self, *_: Any) -> None:
        with self.pool._changed:
            if not self.is_settled:
                self.is_settled = True
                self.watch = None
                self.pool._accounts.discard(self)
                self.pool._left_behind -= self.is_left
                self.pool._active_bytes -= self.size
                self.pool._active_leases -= 1
                self.pool._changed.notify_all()


class BufferLease:
    """Memory of one acquire().

    ``ptr`` is its address for zero-copy calls, ``size`` the bytes that were asked
    for, ``buffer`` a writable memoryview of them. None of these may be kept beyond
    release(). Leaving a ``with`` block releases it; views that are still alive then
    stay valid, and the memory goes back with the last of them.
    """

    def __init__(self, memory: Any, size: int, account: _Account):
        self._memory = memory
        self._account = account
        self.size = size

    @property
    def ptr(self) -> int:
        return self._there().ptr

    @property
    def buffer(self) -> memoryview:
        return memoryview(self._there())

    @property
    def released(self) -> bool:
        return self._memory is None

    def _there(self) -> Any:
        if self._memory is None:
            raise ValueError("the lease was released")
        return self._memory

    def release(self) -> None:
        """Gives the memory back; nothing happens the second time.

        BufferError while views of ``buffer`` are alive, RuntimeError while a call of
        the store uses the memory: it is not released then.
        """
        memory = self._memory
        if memory is None:
            return
        code = memory.release()
        if code != 0:
            raise RuntimeError(f"the memory of the lease is in use ({code})")
        self._memory = None
        self._account.settle()

    def __enter__(self) -> "BufferLease":
        return self

    def __exit__(self, *exc: Any) -> None:
        try:
            self.release()
        except BufferError:
            self._account.leave()
            self._memory = None  # the views have it now

    def __repr__(self) -> str:
        return f"BufferLease(size={self.size}{', released' if self.released else ''})"


class BufferPool:
    """Leases registered memory of a store that is set up.

    ``max_bytes`` bounds all active leases together, 0: twice the store's local
    buffer, so that as much again may overflow. ``max_regions`` bounds their number,
    0: no bound. RuntimeError: the store is not set up; ValueError: it has no local
    buffer and no ``max_bytes`` is given.

    Any thread may use it. Who waits is served in order.
    """

    def __init__(self, store: Any, max_bytes: int = 0, max_regions: int = 0):
        local = store._local_buffer_bytes()
        if local < 0:
            raise RuntimeError(f"the store is not set up ({local})")
        max_bytes = _count(max_bytes, "max_bytes") or 2 * local
        if max_bytes == 0:
            raise ValueError("the store has no local buffer: max_bytes is needed")
        self._store = store
        self._local_bytes = local
        self._max_bytes = max_bytes
        self._max_regions = _count(max_regions, "max_regions")
        self._changed = threading.Condition(threading.RLock())
        self._line: Deque[object] = deque()
        self._active_bytes = 0
        self._active_leases = 0
        self._accounts: Set[_Account] = set()  # so that their watches are alive
        self._left_behind = 0  # of these, of views alone
        self._is_closed = False

    # ---- leases ------------------------------------------------------------

    def acquire(self, size: int, block: bool = True, timeout: Optional[float] = None) -> BufferLease:
        """A lease of ``size`` bytes.

        Where there is no room it waits for leases to be released, at most
        ``timeout`` seconds (None: for ever), then TimeoutError; with ``block`` False
        PoolExhausted at once. ValueError: 0 bytes, or more than ``max_bytes``, which
        can never be had; MemoryError: the system has none; RuntimeError: the pool is
        closed, also meanwhile, or the store is.
        """
        size = _count(size, "size")
        if size == 0 or size > self._max_bytes:
            raise ValueError(f"size must be 1 to {self._max_bytes}, not {size}")
        account = self._enter(size, block, timeout)
        try:
            memory = self._take(size)
        except BaseException:
            account.settle()
            raise
        lease = BufferLease(memory, size, account)
        # However it ends, its bytes are counted as long as the memory is out.
        account.watch = weakref.ref(memory, account.settle)
        return lease

    def buffer(self, size: int, block: bool = True, timeout: Optional[float] = None) -> BufferLease:
        """The same, for a ``with`` block."""
        return self.acquire(size, block, timeout)

    def _has_room(self, size: int) -> bool:
        if self._max_regions and self._active_leases >= self._max_regions:
            return False
        return self._active_bytes + size <= self._max_bytes

    def _enter(self, size: int, block: bool, timeout: Optional[float]) -> _Account:
        """Counts a lease as active, when its turn has come and there is room."""
        end = None if timeout is None else time.monotonic() + timeout
        ticket = object()
        with self._changed:
            self._line.append(ticket)
            try:
                while True:
                    if self._is_closed:
                        raise RuntimeError("the pool is closed")
                    if self._line[0] is ticket and self._has_room(size):
                        break
                    if not block:
                        raise PoolExhausted(f"no room for {size} bytes: {self._active_bytes} of {self._max_bytes} are out")
                    left = None if end is None else end - time.monotonic()
                    if left is not None and left <= 0:
                        raise TimeoutError(f"no room for {size} bytes in {timeout} s")
                    self._changed.wait(left)
            finally:
                self._line.remove(ticket)
                self._changed.notify_all()
            self._active_bytes += size
            self._active_leases += 1
            account = _Account(self, size)
            self._accounts.add(account)
            return account

    def _take(self, size: int) -> Any:
        memory = self._store._take_lease(size)
        if memory == NO_ROOM:
            memory = self._store._take_lease(size, True)
        if isinstance(memory, int):
            if memory == -11:
                raise MemoryError(f"{size} bytes")
            raise RuntimeError(f"the store has no memory to lend ({memory})")
        return memory

    # ---- the pool ----------------------------------------------------------

    @property
    def active_bytes(self) -> int:
        """Bytes of leases that are out."""
        return self._active_bytes

    @property
    def active_leases(self) -> int:
        return self._active_leases

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    @property
    def closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """No more leases; who waits for one gets RuntimeError. Fine twice.

        RuntimeError while leases are active: it stays open then. Views that a
        ``with`` block left behind keep their memory themselves.
        """
        with self._changed:
            held = self._active_leases - self._left_behind
            if held and not self._is_closed:
                raise RuntimeError(f"{held} leases are active: release them first")
            self._is_closed = True
            self._changed.notify_all()

    def __enter__(self) -> "BufferPool":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


#: The name that older code knows.
RegisteredBufferPool = BufferPool


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name}: a number is needed")
    try:
        number = value.__index__()
    except AttributeError:
        raise TypeError(f"{name}: a number is needed, not {type(value).__name__}") from None
    if number < 0:
        raise ValueError(f"{name}: {number} is below 0")
    return number
