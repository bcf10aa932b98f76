# SPDX-License-Identifier: Apache-2.0
"""What a store has, as it changes, and the session prefix index over it.

    index = Index("sglang:mha:tp=2")
    with Subscriber("tcp://127.0.0.1:5557", index=index) as subscriber:
        for item in subscriber:
            if isinstance(item, Signal):
                ...              # gap, stale, epoch ...: what can be trusted
            else:
                ...              # Event: type, object_key, session_id ...

The subscriber checks every message strictly and counts what was missed; nothing is
guessed. A question to the index that is asked between two items sees exactly the
stream up to the first of them. A router that only asks lets a thread follow:

    subscriber.start()           # feeds the index, without the interpreter
    index.match(hashes).workers  # from any thread

Waiting does not hold the interpreter's lock. Any thread may close. The child of a
fork has to make its own objects: those of the parent raise RuntimeError there.
"""
from __future__ import annotations

import atexit
import collections
import threading
import weakref
from dataclasses import asdict, dataclass
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union

from . import _events
from ._events import (
    EngineEvent,
    Event,
    Index,
    Match,
    MirrorEntry,
    Place,
    Session,
    Signal,
    Tenant,
    Worker,
    decode,
)
from ._verify import Difference, Verdict, read_snapshot

__all__ = [
    "Difference",
    "EngineEvent",
    "Event",
    "Index",
    "Match",
    "MirrorEntry",
    "Place",
    "Session",
    "Signal",
    "Source",
    "Subscriber",
    "Tenant",
    "Verdict",
    "Worker",
    "decode",
]

_open: "weakref.WeakSet[Subscriber]" = weakref.WeakSet()


def _close_all() -> None:
    for subscriber in list(_open):
        subscriber.close()


atexit.register(_close_all)


@dataclass(frozen=True)
class Source:
    """One publisher.

    endpoint          where it publishes, "tcp://host:port"; None: injected only
    recovery          its recovery endpoint, or None: what was missed is asked for there
    begin             "now"; with recovery "snapshot": with all that the store holds, or
                      the number of the message to begin with
    others            further publishers of the same store, (endpoint, recovery or None)
                      each, at most 7: all are listened to, one is followed
    topic             subscription prefix; None for everything
    profile           "store", or "engine" for the events of vLLM and SGLang
    worker            of an engine: its name in the index, without ":" and "/"
    tenant            of an engine: of its blocks; None: "default"
    dp_rank           of an engine: its rank where messages name none
    curve_server_key  the publisher's public key, 40 characters, with curve_key_file:
    curve_key_file    a file with our own pair, lines "public KEY" and "secret KEY"
    """

    endpoint: Optional[str] = None
    recovery: Optional[str] = None
    begin: Union[str, int] = "now"
    others: Tuple[Tuple[str, Optional[str]], ...] = ()
    topic: Optional[str] = None
    profile: str = "store"
    worker: Optional[str] = None
    tenant: Optional[str] = None
    dp_rank: int = 0
    curve_server_key: Optional[str] = None
    curve_key_file: Optional[str] = None


def _sources(given: Union[str, Source, Sequence[Union[str, Source]]]) -> Tuple[dict, ...]:
    rows = [given] if isinstance(given, (str, Source)) else list(given)
    made = []
    for row in rows:
        if isinstance(row, str):
            row = Source(row)
        if not isinstance(row, Source):
            raise TypeError(f"a source is an endpoint or a Source, not {type(row).__name__}")
        made.append({**asdict(row), "others": tuple(map(tuple, row.others))})
    return tuple(made)


class Subscriber(_events.Subscriber):
    """Follows one or more publishers, and iterates their events and signals.

    sources             an endpoint, a Source, or a list of those, at most 64
    index               an Index to be fed, or None
    mirror              keep what can be read, for mirror(), lookup() and verify()
    max_queue_bytes     messages read but not yet taken; 0: 64 MiB. Full: the socket
                        is not read, and the publisher may drop
    max_mirror_entries  per source; 0: 16 Mi; over it the source goes stale
    max_message_events  0: as many as the protocol allows
    recovery_patience   seconds to wait for a recovery server that says nothing; 0: 10

    Connects, and never waits for a publisher to be there. ValueError for settings
    that are none. Iterating ends when somebody closes.
    """

    def __new__(
        cls,
        sources: Union[str, Source, Sequence[Union[str, Source]]],
        *,
        index: Optional[Index] = None,
        mirror: bool = True,
        max_queue_bytes: int = 0,
        max_mirror_entries: int = 0,
        max_message_events: int = 0,
        recovery_patience: float = 0,
    ) -> "Subscriber":
        self = super().__new__(
            cls,
            _sources(sources),
            index,
            not mirror,
            max_queue_bytes,
            max_mirror_entries,
            max_message_events,
            int(recovery_patience * 1000),
        )
        self._has_mirror = mirror
        self._ready = collections.deque()
        self._turn = threading.Lock()
        _open.add(self)
        return self

    def __init__(self, sources: Any, **options: Any) -> None:
        """Everything is done by __new__."""

    # ---- iterating ---------------------------------------------------------

    def __iter__(self) -> Iterator[Union[Event, Signal]]:
        return self

    def __next__(self) -> Union[Event, Signal]:
        item = self.next()
        if item is None:
            raise StopIteration
        return item

    def next(self, timeout: Optional[float] = None) -> Union[Event, Signal, None]:
        """The next event or signal; None when nothing came in timeout seconds (None:
        for ever), or when the subscriber is closed."""
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass
            try:
                items = super().poll(timeout, 1)
            except ValueError:
                if self.closed:
                    return None
                raise
            if not items:
                return None
            return items[0]

    def poll(self, timeout: Optional[float] = None, max_items: int = 1024) -> List[Union[Event, Signal]]:
        """The next events and signals, in order: waits up to timeout seconds for the
        first (None: for ever), and answers what is there by then; [] if nothing came.
        ValueError when the subscriber is closed."""
        ready: List[Union[Event, Signal]] = []
        while self._ready and len(ready) < max_items:
            ready.append(self._ready.popleft())
        if ready:
            return ready
        return super().poll(timeout, max_items)

    def run(
        self,
        on_event: Optional[Callable[[Event], Any]] = None,
        on_signal: Optional[Callable[[Signal], Any]] = None,
    ) -> None:
        """Calls these for every item, on this thread, until the subscriber is closed,
        or one of them raises: that comes out here, and run() may be called again."""
        for item in self:
            call = on_signal if isinstance(item, Signal) else on_event
            if call is not None:
                call(item)

    def signals(self) -> List[Signal]:
        """What a thread that follows (start()) was told since the last call; the
        oldest of more than 1024 are dropped, and ``signals_dropped`` counts them."""
        found, dropped = self._signals()
        self.signals_dropped += dropped
        return found

    signals_dropped = 0

    # ---- checking ----------------------------------------------------------

    def verify(self, admin: str, *, source: int = 0, settle: float = 1.0, timeout: float = 10.0) -> Verdict:
        """Compares the mirror of a source with what its master says that can be read.

        ``admin`` is the master's admin URL, "http://host:9003". Two comparisons are
        made, ``settle`` seconds apart, and what both show with the key's last event
        unchanged is a difference. ``timeout``, in seconds, bounds each request.
        Events that come meanwhile are kept for who iterates. OSError: the master
        cannot be asked.
        """
        if not self._has_mirror:
            raise ValueError("verify() needs the mirror")
        with self._turn:
            first = self._compare(admin, source, timeout)
            if not first.differences:
                return first
            self._take(settle)
            return first.confirmed(self._compare(admin, source, timeout))

    def _compare(self, admin: str, source: int, timeout: float) -> Verdict:
        """The mirror is brought to the snapshot's last event first, if that comes."""
        snapshot = read_snapshot(admin, timeout)
        for _ in range(50):
            if self.stats(source)["last_event_id"] >= snapshot.last_id:
                break
            self._take(0.02)
        rows = {(row.tenant_id, row.object_key, row.medium): row for row in self.mirror() if row.source == source}
        return snapshot.compare(rows)

    def _take(self, seconds: float) -> None:
        """Lets the stream go on for so long."""
        pause = threading.Event()
        try:
            while True:
                items = super().poll(seconds)
                if not items:
                    return
                self._ready.extend(items)
                seconds = min(seconds, 0.05)
        except RuntimeError:  # a thread follows
            pause.wait(seconds)

    # ---- ending ------------------------------------------------------------

    def __enter__(self) -> "Subscriber":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()
