# SPDX-License-Identifier: Apache-2.0
"""Writes the payloads of one object: many keys in few calls, each with the write
options that the caller gave for the object."""
from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence

from .codecs import Encoded
from .manifest import CHUNKS_MAX, Manifest, Member
from .types import BundleTransferPolicy, StructuredObjectError, TensorObjectBuffer

#: Bounds of one call of the store.
ROWS_MAX = 1024
WINDOW_BYTES = 64 << 20

PER_KEY = ("group_ids", "session_ids")


@dataclass
class Item:
    """One key to be written. ``member`` is its place in the object, -1 for the
    manifest."""

    key: str
    member: int
    size: int
    pieces: List[Any]
    direct: Optional[TensorObjectBuffer] = None


class Options:
    """The write options of an object, for any of its keys.

    A ReplicateConfig is for one object or a list of keys: of ``group_ids`` and
    ``session_ids`` there is one entry, which then holds for every key, or one for
    each member, which holds for the keys of that; the manifest has the entry that
    all members share, else the first. All other attributes hold for every key.
    """

    def __init__(self, config: Any, members: int):
        self.config = config
        self.lists = {}
        for name in PER_KEY if config is not None else ():
            given = getattr(config, name, None)
            if given is None:
                continue
            given = list(given)
            if len(given) == 1:
                given = given * max(members, 1)
            elif len(given) != members:
                raise ValueError(f"{name} has {len(given)} entries: 1 or {members} are needed, one for each member")
            self.lists[name] = given

    def of(self, items: Sequence[Item]) -> tuple:
        """The arguments that a call for these keys ends with."""
        if self.config is None:
            return ()
        config = copy.copy(self.config)
        for name, given in self.lists.items():
            setattr(config, name, [given[max(item.member, 0)] for item in items])
        return (config,)


def items_of(manifest: Manifest, encoded: Sequence[Encoded]) -> List[Item]:
    """The keys of an object's members, the index of each before its data."""
    items = []
    for number, (member, one) in enumerate(zip(manifest.members.values(), encoded)):
        if one.index:
            items.append(Item(manifest.index_key(member), number, len(one.index), [memoryview(one.index)]))
        items.extend(_data_items(manifest, member, number, one))
    return items


def _data_items(manifest: Manifest, member: Member, number: int, one: Encoded) -> List[Item]:
    chunks = manifest.chunks(member)
    if one.direct:
        return _direct_items(chunks, number, one.direct)
    items, pieces, at = [], list(one.pieces), 0
    for key, size in chunks:
        taken, left = [], size
        while left:
            piece = pieces[at]
            if len(piece) <= left:
                taken.append(piece)
                at += 1
            else:
                taken.append(piece[:left])
                pieces[at] = piece[left:]
            left -= len(taken[-1])
        items.append(Item(key, number, size, taken))
    return items


def _direct_items(chunks, number: int, direct: TensorObjectBuffer) -> List[Item]:
    items, at = [], 0
    for key, size in chunks:
        items.append(Item(key, number, size, [], TensorObjectBuffer(direct.ptr + at, size, direct.owner)))
        at += size
    return items


def windows(items: Sequence[Item], window_bytes: int) -> List[List[Item]]:
    """Items for one call each: bounded, and all written in the same way."""
    made: List[List[Item]] = []
    room = rows = 0
    kind = None
    for item in items:
        own = "direct" if item.direct else "plain" if len(item.pieces) == 1 else "gather"
        if own != kind or rows == ROWS_MAX or room < item.size:
            made.append([])
            kind, rows, room = own, 0, window_bytes
        made[-1].append(item)
        rows += 1
        room = max(0, room - item.size)
    return made


class Writer:
    """Puts items into a store; ``pool`` answers a BufferPool or None."""

    def __init__(self, store: Any, policy: BundleTransferPolicy, options: Options, pool: Callable[[], Any]):
        self.store = store
        self.policy = policy
        self.options = options
        self.pool = pool

    def write(self, items: Sequence[Item]) -> None:
        """All, or StructuredObjectError; then some of them may be there."""
        todo = windows(items, WINDOW_BYTES)
        if self.policy.lanes == 1 or len(todo) < 2:
            for window in todo:
                self._window(window)
            return
        with ThreadPoolExecutor(min(self.policy.lanes, len(todo))) as lanes:
            for done in [lanes.submit(self._window, window) for window in todo]:
                done.result()

    def _window(self, window: List[Item]) -> None:
        if window[0].direct:
            self._put_from(window, [item.direct.ptr for item in window])
        elif len(window[0].pieces) == 1:
            self._put(window, [item.pieces[0] for item in window])
        else:
            self._gather(window)

    def _gather(self, window: List[Item]) -> None:
        """Rows of many pieces: side by side in a lease, if there is one."""
        lease = None if self.policy.copy_mode == "copy" else self._lease(sum(item.size for item in window))
        if lease is None:
            self._put(window, [b"".join(item.pieces) for item in window])
            return
        with lease:
            view, at, ptrs = lease.buffer, 0, []
            for item in window:
                ptrs.append(lease.ptr + at)
                for piece in item.pieces:
                    view[at : at + len(piece)] = piece
                    at += len(piece)
            view.release()
            self._put_from(window, ptrs)

    def _lease(self, size: int) -> Any:
        pool = self.pool()
        if pool is None:
            return None
        try:
            return pool.acquire(size, block=False)
        except (RuntimeError, ValueError, MemoryError):
            return None  # it is full: the copy takes another way

    def _put(self, window: List[Item], data: List[Any]) -> None:
        keys = [item.key for item in window]
        code = self.store.put_batch(keys, data, *self.options.of(window))
        if code:
            raise StructuredObjectError(f"{keys[0]} and {len(keys) - 1} more were not put ({code})", code, keys[0])

    def _put_from(self, window: List[Item], ptrs: List[int]) -> None:
        keys = [item.key for item in window]
        sizes = [item.size for item in window]
        codes = self.store.batch_put_from(keys, ptrs, sizes, *self.options.of(window))
        for key, code in zip(keys, codes):
            if code:
                raise StructuredObjectError(f"{key} was not put ({code})", code, key)


def check_chunks(manifest: Manifest) -> None:
    """ValueError for an object of more chunks than a reader takes."""
    for name, member in manifest.members.items():
        if member.size > CHUNKS_MAX * manifest.chunk_bytes:
            raise ValueError(f"{name!r}: {member.size} bytes are more than 2^20 chunks of {manifest.chunk_bytes}")
