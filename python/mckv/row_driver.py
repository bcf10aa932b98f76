# SPDX-License-Identifier: Apache-2.0
"""Rows of registered memory, moved to and from a store by key, in the background:
what blob backends of inference engines need. docs/row_driver.md has the contract.

    with open_row_driver("rows.yaml", settings) as driver:
        region = driver.register(buffer.ctypes.data, buffer.nbytes)
        operation = driver.put(["k0", "k1"], [(region, 0, size), (region, size, size)])
        if operation.wait(5.0):
            for state in operation.states():
                ...            # state.status is READY, DECLINED, FAULT ...

A driver stands on a client of its own. The file is YAML or JSON with up to three
sections:

    row_driver: {workers: 8, rows_per_call: 256, bytes_per_call: 134217728}
    client: {master_server_address: "10.0.0.1:50051", global_segment_size: 4gb}
    blob: {key_prefix: "llama/"}

``row_driver`` also has rows_max, timeout_ms, close_ms and replicas, ``client`` the
other names of a MooncakeConfig. What is said in the call goes before the file;
where neither says who the client is, the environment does.
"""
from __future__ import annotations

import atexit
import enum
import itertools
import time
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _rows
from .settings import MooncakeConfig

__all__ = ["Operation", "RowDriver", "RowReason", "RowState", "RowStatus", "open_row_driver"]

RowStatus = enum.IntEnum("RowStatus", {name: i for i, name in enumerate(_rows.STATUSES)})
RowStatus.__doc__ = "How a row ended, and so what to do about it."
RowReason = enum.IntEnum("RowReason", {name: i for i, (name, _, _) in enumerate(_rows.REASONS)})
RowReason.__doc__ = "Why; each goes with one status."

Span = Tuple[int, int, int]  # region, offset and length in bytes

#: What a file need not say of its client.
_CLIENT = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE"}

_open: "weakref.WeakSet[RowDriver]" = weakref.WeakSet()


def _close_all() -> None:
    for driver in list(_open):
        driver.close()


atexit.register(_close_all)


class RowState(NamedTuple):
    """``code``: what the store or the link said, 0 for nothing. ``local_ended``:
    nobody touches the row's memory any more. ``remote_ended``: no more bytes can
    land in the object; False after a put means that the store keeps its place
    back."""

    status: RowStatus
    reason: RowReason
    code: int
    local_ended: bool
    remote_ended: bool

    @property
    def text(self) -> str:
        """A sentence for people."""
        return _rows.REASONS[self.reason][1]


def _state(row: Tuple[int, int, int, bool, bool]) -> RowState:
    return RowState(RowStatus(row[0]), RowReason(row[1]), *row[2:])


def _milliseconds(seconds: Optional[float]) -> int:
    """0 for None; at least 1 else, so that no time at all is not the default."""
    if seconds is None:
        return 0
    return min(max(1, int(seconds * 1000)), 0xFFFFFFFF)


class Operation:
    """Rows that a driver has taken; each ends once. Its memory is the driver's until
    then. Forgetting it is fine: it ends, and is let go."""

    def __init__(self, inner: Any, keys: Tuple[str, ...], number: int):
        self._inner = inner
        self.keys = keys
        self.number = number

    def states(self) -> List[RowState]:
        """One of each row, in order; PENDING those that have not ended. ValueError
        once it was released or its driver closed."""
        return [_state(row) for row in self._inner.states()[0]]

    @property
    def pending(self) -> int:
        """How many rows have not ended."""
        return self._inner.states()[1]

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until all rows have ended, at most ``timeout`` seconds (None: for
        ever); whether they have. ValueError: the driver was closed meanwhile."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 3600.0 if end is None else end - time.monotonic()
            if self._inner.wait(_milliseconds(max(left, 0))):
                return True
            if end is not None and time.monotonic() >= end:
                return False

    def cancel(self) -> None:
        """Rows that nobody has begun end as CANCELLED before this returns, those
        under way as they end, and soon."""
        self._inner.cancel()

    def release(self) -> bool:
        """Lets it go; False while rows have not ended, or another thread is in a
        call of it. Fine twice."""
        return self._inner.release()


class RowDriver:
    """Moves rows; see ``open_row_driver``. Any thread may use it and close it; the
    child of a fork gets RuntimeError."""

    def __init__(
        self,
        settings: Optional[MooncakeConfig] = None,
        *,
        config: Optional[str] = None,
        key_prefix: Optional[str] = None,
        workers: int = 0,
        rows_per_call: int = 0,
        bytes_per_call: int = 0,
        rows_max: int = 0,
        timeout_ms: int = 0,
        close_ms: int = 0,
        replicas: int = 0,
    ):
        client, prefix = _rows.read_file(config) if config is not None else (None, None)
        if settings is not None:
            given = settings
        elif client is not None:
            given = MooncakeConfig._of({**_CLIENT, **client}, config)
        else:
            given = MooncakeConfig.load_from_env()
        tenant = "" if given.tenant_id == "default" else given.tenant_id
        self._inner = _rows.Driver(
            given.local_hostname, given.metadata_server, given.global_segment_size, given.local_buffer_size,
            given.protocol, given.master_server_address, tenant, config,
            workers, rows_per_call, bytes_per_call, rows_max, timeout_ms, close_ms, replicas,
        )
        self.key_prefix = (prefix or "") if key_prefix is None else key_prefix
        self._numbers = itertools.count(1)
        self._operations: Dict[int, "weakref.ref[Operation]"] = {}
        self._forgotten: List[Any] = []
        self._owners: Dict[int, Any] = {}
        _open.add(self)

    # ---- regions -----------------------------------------------------------

    def register(self, ptr: int, size: int, owner: Any = None) -> int:
        """Host memory that rows may name from now on, as the number of a region. It
        stays the caller's, and must live until it is unregistered or the driver is
        closed; ``owner`` is kept so long. ValueError: it overlaps another one, or is
        none."""
        region = self._inner.register(ptr, size)
        if owner is not None:
            self._owners[region] = owner
        return region

    def unregister(self, region: int) -> None:
        """RuntimeError while rows that have not ended name it; ValueError: no such
        region."""
        self._inner.unregister(region)
        self._owners.pop(region, None)

    # ---- operations --------------------------------------------------------

    def put(
        self,
        keys: Sequence[str],
        spans: Sequence[Union[Span, Sequence[Span]]],
        session_ids: Optional[Sequence[Optional[str]]] = None,
        timeout: Optional[float] = None,
    ) -> Operation:
        """Begins to store rows. A row's object is all of its spans in order: one
        (region, offset, length) or several. ``session_ids``: a tag for each key.
        ``timeout`` in seconds, None: the driver's.

        Never waits. All rows are taken, or none: ValueError (a key, a span or a tag
        that is none), RuntimeError (too many rows not ended, or drained).
        """
        return self._submit(True, keys, spans, session_ids, timeout)

    def get(
        self, keys: Sequence[str], spans: Sequence[Union[Span, Sequence[Span]]], timeout: Optional[float] = None
    ) -> Operation:
        """Begins to load rows; as ``put``."""
        return self._submit(False, keys, spans, None, timeout)

    def _submit(self, is_put, keys, spans, session_ids, timeout) -> Operation:
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys are a list of str")
        named = tuple(self.key_prefix + key if isinstance(key, str) else key for key in keys)
        rows = tuple((row,) if isinstance(row, tuple) and not (row and isinstance(row[0], (tuple, list))) else
                     tuple(map(tuple, row)) for row in spans)
        tags = None if session_ids is None else tuple(session_ids)
        self._sweep()
        number = next(self._numbers)
        inner = self._inner.submit(is_put, named, rows, tags, _milliseconds(timeout), number)
        operation = Operation(inner, tuple(keys), number)
        self._operations[number] = weakref.ref(operation)
        weakref.finalize(operation, self._forget, number, inner).atexit = False
        return operation

    def _forget(self, number: int, inner: Any) -> None:
        self._operations.pop(number, None)
        self._forgotten.append(inner)

    def _sweep(self) -> None:
        """Lets go what was forgotten and has ended."""
        left, self._forgotten = self._forgotten, []
        self._forgotten.extend(inner for inner in left if not inner.release())

    def poll(self) -> List[Operation]:
        """Operations of which rows have ended since they were last answered here.
        Never waits; ``fileno`` is readable while there are some."""
        found = []
        for number in self._inner.poll():
            operation = self._operations.get(number)
            operation = operation() if operation is not None else None
            if operation is not None:
                found.append(operation)
        self._sweep()
        return found

    def fileno(self) -> int:
        return self._inner.fileno()

    # ---- asking ------------------------------------------------------------

    def probe(self, keys: Sequence[str], timeout: Optional[float] = None) -> List[RowState]:
        """Asks about keys and leaves no trace: READY with EXISTS, MISS with ABSENT,
        NOT_READY with BEING_WRITTEN, or FAULT."""
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys are a list of str")
        named = tuple(self.key_prefix + key if isinstance(key, str) else key for key in keys)
        return [_state(row) for row in self._inner.probe(named, _milliseconds(timeout))]

    def stat(self) -> Dict[str, Any]:
        """Counters; ``gets`` and ``puts`` are rows by reason."""
        return self._inner.stat()

    # ---- ending ------------------------------------------------------------

    def drain(self, timeout: float = 0.0) -> bool:
        """No more rows are taken; those that nobody has begun end as CANCELLED. True:
        nobody touches a region any more. Makes no request, and waits at most
        ``timeout`` seconds."""
        return self._inner.drain(min(max(0, int(timeout * 1000)), 0xFFFFFFFF))

    def close(self) -> None:
        """Drains, settles what is left for at most ``close_ms``, and closes the
        client; every operation ends with it. Fine twice. Not quick: not on a thread
        that must not wait."""
        self._inner.close()
        self._owners.clear()

    def __enter__(self) -> "RowDriver":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


def open_row_driver(
    config: str, settings: Optional[MooncakeConfig] = None, key_prefix: Optional[str] = None
) -> RowDriver:
    """A driver with the options of a file, on a client of ``settings``, of the file or
    of the environment, in this order. FileNotFoundError, OSError; ValueError with one
    line for a file that is not right; RuntimeError: the master cannot be reached."""
    return RowDriver(settings, config=config, key_prefix=key_prefix)
